//! The generators of `lab/traffic` for what a scenario describes: the same ones in every world.

use crate::model::{Traffic, TrafficKind};
use perhop_quality::Codec;
use perhop_traffic::tcp::files::FilesConfig;
use perhop_traffic::tcp::transfers::TransfersConfig;
use perhop_traffic::tcp::web::{Http, WebConfig};
use perhop_traffic::tcp::{Direction, Side, TcpWorkload};
use perhop_traffic::{
    Activity, Constant, ConstantConfig, GopConfig, GopFrames, LognormalSize, MarkovConfig, MarkovPoisson,
    Mix, OnOff, OnOffConfig, Period, Poisson, PoissonConfig, Replay, ReplayConfig, ReplayTime, RtpFlow,
    RtpFlowConfig, Seed, Source, Staircase, StaircaseConfig, Step, TrafficError, UDP_IPV4_OVERHEAD, Video,
    VideoConfig, VoiceCalls, VoiceConfig, VoiceFormat,
};
use perhop_units::{Bytes, Duration, Instant, Rate};

/// Largest UDP payload in one packet of an Ethernet.
const MOST_PAYLOAD: u16 = 1472;
/// From a failed connection to the next attempt.
const BACK_OFF: Duration = Duration::from_secs(1);

/// A sender of datagrams in one direction of one pair.
pub struct Datagrams {
    /// The source.
    pub source: Box<dyn Source>,
    /// How many streams it has, numbered from the first given.
    pub streams: u16,
    /// The codec, for calls.
    pub codec: Option<Codec>,
}

/// A driver of TCP connections in one direction of one pair.
pub struct Connections {
    /// The machine.
    pub machine: TcpWorkload,
    /// The side that receives the data.
    pub receiver: Side,
}

/// How a codec's packets look.
pub fn voice_format(codec: Codec) -> VoiceFormat {
    VoiceFormat {
        payload_type: codec.payload_type(),
        payload_bytes: codec.payload_bytes(),
        packet_interval: codec.packet_interval(),
        timestamp_step: codec.timestamp_step(),
    }
}

fn payload(size: Bytes) -> u16 {
    u16::try_from(size.get()).unwrap_or(u16::MAX).saturating_sub(UDP_IPV4_OVERHEAD)
}

/// Several like sources as one.
fn mixed(
    count: u16,
    make: impl Fn(u16) -> Result<Box<dyn Source>, TrafficError>,
) -> Result<Box<dyn Source>, TrafficError> {
    if count == 1 {
        return make(0);
    }
    Ok(Box::new(Mix::new((0..count).map(make).collect::<Result<_, _>>()?)))
}

/// The sender of a traffic that sends datagrams; `None` for one that uses TCP. Streams are numbered from
/// `first_stream`, and what they draw follows from that number and the seed.
///
/// # Errors
/// Parameters that do not fit each other.
pub fn datagrams(
    traffic: &Traffic,
    first_stream: u16,
    seed: Seed,
) -> Result<Option<Datagrams>, TrafficError> {
    let (start, stop, overhead_bytes) = (traffic.start, traffic.stop, UDP_IPV4_OVERHEAD);
    let mut codec_used = None;
    let (streams, source) = match &traffic.kind {
        TrafficKind::Voice { calls, codec, spacing, silence_suppression } => {
            codec_used = Some(*codec);
            let activity = silence_suppression
                .map_or(Activity::Continuous, |(talk, silence)| Activity::TalkSpurts { talk, silence });
            let config = VoiceConfig {
                calls: *calls,
                format: voice_format(*codec),
                start,
                spacing: *spacing,
                length: Duration(stop.as_nanos().saturating_sub(start.as_nanos())),
                activity,
                first_stream,
            };
            (*calls, Box::new(VoiceCalls::new(config, seed)?) as Box<dyn Source>)
        }
        TrafficKind::Video { count, trace, rate } => {
            let make = |i: u16| {
                let stream = first_stream + i;
                let config = VideoConfig { most_payload_bytes: MOST_PAYLOAD, start, stop, stream };
                Ok(Box::new(match trace {
                    Some(trace) => Video::from_trace(config, trace.clone())?,
                    None => Video::from_gop(config, GopFrames::new(scaled(*rate), seed, stream)?)?,
                }) as Box<dyn Source>)
            };
            (*count, mixed(*count, make)?)
        }
        TrafficKind::Constant { count, rate, size } => {
            let make = |i| {
                let (rate, payload_bytes, stream) = (*rate, payload(*size), first_stream + i);
                let config = ConstantConfig { rate, payload_bytes, overhead_bytes, start, stop, stream };
                Ok(Box::new(Constant::new(config)?) as Box<dyn Source>)
            };
            (*count, mixed(*count, make)?)
        }
        TrafficKind::Poisson { count, rate, size } => {
            let make = |i| {
                let (rate, payload_bytes, stream) = (*rate, payload(*size), first_stream + i);
                let config = PoissonConfig { rate, payload_bytes, overhead_bytes, start, stop, stream };
                Ok(Box::new(Poisson::new(config, seed)?) as Box<dyn Source>)
            };
            (*count, mixed(*count, make)?)
        }
        TrafficKind::OnOff { count, rate, size, on, off, pareto_shape_milli } => {
            let period = |mean| match *pareto_shape_milli {
                Some(shape_milli) => Period::Pareto { mean, shape_milli },
                None => Period::Exponential { mean },
            };
            let make = |i| {
                let (on, off) = (period(*on), period(*off));
                let (peak, payload_bytes, stream) = (*rate, payload(*size), first_stream + i);
                let config =
                    OnOffConfig { peak, payload_bytes, overhead_bytes, on, off, start, stop, stream };
                Ok(Box::new(OnOff::new(config, seed)?) as Box<dyn Source>)
            };
            (*count, mixed(*count, make)?)
        }
        TrafficKind::Mmpp { count, rate } => {
            let make = |i| {
                let config = MarkovConfig::bursty(*rate, overhead_bytes, start, stop, first_stream + i);
                Ok(Box::new(MarkovPoisson::new(config, seed)?) as Box<dyn Source>)
            };
            (*count, mixed(*count, make)?)
        }
        TrafficKind::Staircase { steps, size, repeat, start_within } => {
            // It begins before it ends, however short a user made it.
            let longest = Duration(stop.as_nanos().saturating_sub(start.as_nanos() + 1));
            let steps =
                steps.iter().map(|(duration, rate)| Step { duration: *duration, rate: *rate }).collect();
            let config = StaircaseConfig {
                steps,
                repeat: *repeat,
                payload_bytes: payload(*size),
                overhead_bytes,
                start: start + seed.moment(first_stream, (*start_within).min(longest)),
                stop,
                stream: first_stream,
            };
            (1, Box::new(Staircase::new(config)?) as Box<dyn Source>)
        }
        TrafficKind::Rtp { count, rates, stay, size } => {
            let make = |i| {
                let (rates, stay, payload_bytes) = (rates.clone(), *stay, payload(*size));
                let stream = first_stream + i;
                let config =
                    RtpFlowConfig { rates, stay, payload_bytes, overhead_bytes, start, stop, stream };
                Ok(Box::new(RtpFlow::new(config, seed)?) as Box<dyn Source>)
            };
            (*count, mixed(*count, make)?)
        }
        TrafficKind::Replay { capture, rate } => {
            let config = ReplayConfig {
                capture: capture.clone(),
                time: rate.map_or(ReplayTime::Stretch { milli: 1000 }, ReplayTime::MeanRate),
                size_milli: 1000,
                most_bytes: MOST_PAYLOAD + UDP_IPV4_OVERHEAD,
                looped: true,
                overhead_bytes,
                start,
                stop,
                stream: first_stream,
            };
            (1, Box::new(Replay::new(config)?) as Box<dyn Source>)
        }
        TrafficKind::Bulk { .. } | TrafficKind::Files { .. } | TrafficKind::Web { .. } => return Ok(None),
    };
    Ok(Some(Datagrams { source, streams, codec: codec_used }))
}

/// The published generator at another mean rate, with the same peak over mean.
fn scaled(mean: Rate) -> GopConfig {
    let base = GopConfig::MR_BEAN;
    let peak = u128::from(base.peak.0) * u128::from(mean.0) / u128::from(base.mean.0.max(1));
    GopConfig { mean, peak: Rate(u64::try_from(peak).unwrap_or(u64::MAX)), ..base }
}

/// The driver of a traffic that uses TCP; `None` for one that sends datagrams. `group` numbers the drivers of a
/// scenario; what it draws follows from it and the seed.
///
/// # Errors
/// Parameters that do not fit each other.
pub fn connections(traffic: &Traffic, group: u16, seed: Seed) -> Result<Option<Connections>, TrafficError> {
    let (start, stop) = (traffic.start, traffic.stop);
    let begin = Instant::ZERO;
    let (machine, receiver) = match &traffic.kind {
        TrafficKind::Bulk { count, size, spacing, at_once, stagger, .. } => {
            let config = TransfersConfig {
                transfers: *count,
                start,
                spacing: *spacing,
                at_once: *at_once,
                stagger: *stagger,
                stop,
                bytes: size.map(Bytes::get),
                direction: Direction::Up,
                back_off: BACK_OFF,
                group,
            };
            (TcpWorkload::transfers(config, seed, begin)?, Side::Server)
        }
        TrafficKind::Files { count, size, .. } => {
            let sizes = LognormalSize { geometric_mean_bytes: size.get(), ..LognormalSize::FILE };
            let config = FilesConfig {
                parallel: *count,
                start,
                stop,
                sizes,
                back_off: BACK_OFF,
                group,
                ..FilesConfig::FTP_CLIENT
            };
            (TcpWorkload::files(config, seed, begin)?, Side::Client)
        }
        TrafficKind::Web { count, think, size, persistent_objects, .. } => {
            let objects = LognormalSize { geometric_mean_bytes: size.get(), ..LognormalSize::WEB_OBJECT };
            let http = if persistent_objects.is_some() { Http::V1_1 } else { Http::V1_0 };
            let config = WebConfig {
                users: *count,
                start,
                stop,
                think_least: think.0,
                think_most: think.1,
                objects,
                objects_per_page: persistent_objects.unwrap_or(1),
                http,
                back_off: BACK_OFF,
                group,
                ..WebConfig::SIEGE_CLIENT
            };
            (TcpWorkload::web(config, seed, begin)?, Side::Client)
        }
        _ => return Ok(None),
    };
    Ok(Some(Connections { machine, receiver }))
}
