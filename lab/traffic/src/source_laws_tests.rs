//! Laws of every source over random parameters: emissions in order of time inside the span, numbered without gaps,
//! sizes within limits, the long-run rate within a bound of the configured one; the same for the same seed.

use super::*;
use crate::random::{Generator, Seed};
use crate::*;
use perhop_units::{Bytes, Rate};
use std::sync::Arc;

const OVERHEAD: u16 = 28;

/// A source with what must be true of it.
struct Case {
    source: Box<dyn Source>,
    /// Payload limits in bytes.
    sizes: (u16, u16),
    start: Duration,
    stop: Duration,
    /// Expected bits at IP length over the span, and the largest share by which they may differ.
    bits: f64,
    bound: f64,
}

/// Draws parameters from `shape` and randomness from `seed`.
type Make = fn(&mut Generator, Seed) -> Case;

fn every_case_keeps_the_laws(rounds: u64, make: Make, seeded: bool) {
    for round in 0..rounds {
        let shape = || Seed::new(round).generator(77);
        let case = make(&mut shape(), Seed::new(round));
        let emissions = checked(case, round);
        let again: Vec<Emission> = make(&mut shape(), Seed::new(round)).source.collect();
        assert_eq!(emissions, again, "round {round}");
        let other: Vec<Emission> = make(&mut shape(), Seed::new(round + 1000)).source.collect();
        assert_eq!(emissions == other, !seeded, "round {round}");
    }
}

fn checked(case: Case, round: u64) -> Vec<Emission> {
    let Case { mut source, sizes, start, stop, bits, bound } = case;
    let mut emissions: Vec<Emission> = Vec::new();
    let mut sent = 0.0;
    while let Some(at) = source.upcoming() {
        let emission = source.next().expect("it was upcoming");
        assert_eq!(emission.at, at);
        assert!(at >= start && at < stop, "round {round}");
        assert!((sizes.0..=sizes.1).contains(&emission.len), "round {round}: {emission:?}");
        assert!(emissions.last().is_none_or(|last| last.at <= at), "round {round}");
        assert_eq!(emission.index as usize, emissions.len());
        assert!(emissions.len() < 1_000_000, "round {round}: endless");
        sent += f64::from(emission.len + OVERHEAD) * 8.0;
        emissions.push(emission);
    }
    assert_eq!(source.next(), None);
    let error = (sent - bits).abs() / bits;
    assert!(error <= bound, "round {round}: {sent} bits for {bits}, off by {error}, bound {bound}");
    emissions
}

/// Rate, payload, start, and a stop after about so many packets.
fn frame(shape: &mut Generator, packets: u64) -> (Rate, u16, Duration, Duration) {
    let rate = Rate(1000 + shape.below(100) * shape.below(1_000_000));
    let payload = 16 + shape.below(1457) as u16;
    let start = Duration(shape.below(5_000_000_000));
    let each = rate.time_for(Bytes(u64::from(payload + OVERHEAD)));
    (rate, payload, start, start + each.saturating_mul(packets))
}

fn bits_of(rate: Rate, start: Duration, stop: Duration) -> f64 {
    rate.bits_per_sec() as f64 * (stop - start).as_secs_f64()
}

#[test]
fn constant() {
    every_case_keeps_the_laws(
        40,
        |shape, _| {
            let (rate, payload_bytes, start, stop) = frame(shape, 1000);
            let config =
                ConstantConfig { rate, payload_bytes, overhead_bytes: OVERHEAD, start, stop, stream: 1 };
            let source = Box::new(Constant::new(config).expect("valid"));
            let sizes = (payload_bytes, payload_bytes);
            Case { source, sizes, start, stop, bits: bits_of(rate, start, stop), bound: 0.001 }
        },
        false,
    );
}

/// 2000 packets, five standard deviations.
#[test]
fn poisson() {
    every_case_keeps_the_laws(
        40,
        |shape, seed| {
            let (rate, payload_bytes, start, stop) = frame(shape, 2000);
            let config =
                PoissonConfig { rate, payload_bytes, overhead_bytes: OVERHEAD, start, stop, stream: 1 };
            let source = Box::new(Poisson::new(config, seed).expect("valid"));
            let sizes = (payload_bytes, payload_bytes);
            Case { source, sizes, start, stop, bits: bits_of(rate, start, stop), bound: 0.112 }
        },
        true,
    );
}

/// On-periods of a third of a packet to 30 packets; over n cycles the share of on-time has a relative standard deviation
/// of at most √(2 / n) for exponential periods, of which four are allowed, and ten for the long tail of Pareto.
#[test]
fn on_off() {
    every_case_keeps_the_laws(
        20,
        |shape, seed| {
            let (peak, payload_bytes, start, _) = frame(shape, 0);
            let each = peak.time_for(Bytes(u64::from(payload_bytes + OVERHEAD))).as_nanos();
            let mean_on = Duration((each / 3).max(1) * (1 + shape.below(90)));
            let mean_off = Duration(1 + mean_on.as_nanos() * shape.below(40) / 10);
            let cycles = 3000;
            let stop = start + (mean_on + mean_off).saturating_mul(cycles);
            let (on, off, deviations) = match shape.below(3) {
                0 => (Period::Exponential { mean: mean_on }, Period::Exponential { mean: mean_off }, 4.0),
                1 => (Period::Constant { length: mean_on }, Period::Exponential { mean: mean_off }, 4.0),
                _ => {
                    let shape_milli = 1500 + shape.below(3000) as u32;
                    (
                        Period::Pareto { mean: mean_on, shape_milli },
                        Period::Exponential { mean: mean_off },
                        10.0,
                    )
                }
            };
            let config = OnOffConfig {
                peak,
                payload_bytes,
                overhead_bytes: OVERHEAD,
                on,
                off,
                start,
                stop,
                stream: 1,
            };
            let bits = bits_of(peak, start, stop) * mean_on.as_secs_f64()
                / (mean_on.as_secs_f64() + mean_off.as_secs_f64());
            let bound = deviations * libm::sqrt(2.0 / cycles as f64) + 0.001;
            let source = Box::new(OnOff::new(config, seed).expect("valid"));
            Case { source, sizes: (payload_bytes, payload_bytes), start, stop, bits, bound }
        },
        true,
    );
}

/// Over n stays; the bound grows with the largest rate over the mean.
#[test]
fn markov_poisson() {
    every_case_keeps_the_laws(
        12,
        |shape, seed| {
            let (rate, _, start, _) = frame(shape, 0);
            let stay = rate.time_for(Bytes(600)).as_nanos();
            let states: Vec<MarkovState> = (0..1 + shape.below(5))
                .map(|i| MarkovState {
                    rate: Rate(rate.bits_per_sec() * if i == 0 { 2 } else { shape.below(6) }),
                    mean_stay: Duration(stay * (1 + shape.below(8))),
                })
                .collect();
            let stays = 5000;
            let mean_stay: u64 = states.iter().map(|s| s.mean_stay.0).sum::<u64>() / states.len() as u64;
            let stop = start + Duration(mean_stay * stays);
            let highest = states.iter().map(|s| s.rate.bits_per_sec()).max().unwrap_or(0) as f64;
            let sizes = SizeMixture::FOUR_MODES;
            let config = MarkovConfig { states, sizes, overhead_bytes: OVERHEAD, start, stop, stream: 1 };
            let mean = config.mean_bit_s();
            let bits = mean * (stop - start).as_secs_f64();
            let bound = 3.0 * (highest / mean) * libm::sqrt(2.0 / stays as f64);
            let source = Box::new(MarkovPoisson::new(config, seed).expect("valid"));
            Case { source, sizes: (16, 1472), start, stop, bits, bound }
        },
        true,
    );
}

#[test]
fn staircase() {
    every_case_keeps_the_laws(
        40,
        |shape, _| {
            let (rate, payload_bytes, start, _) = frame(shape, 0);
            let each = rate.time_for(Bytes(u64::from(payload_bytes + OVERHEAD))).as_nanos();
            let mut steps: Vec<Step> = (0..shape.below(8))
                .map(|_| Step {
                    duration: Duration(shape.below(300 * each)),
                    rate: Rate(rate.bits_per_sec() * shape.below(4) / 2),
                })
                .collect();
            steps.push(Step { duration: Duration(100 * each), rate });
            let cycle = steps.iter().map(|s| s.duration.0).sum::<u64>();
            let earned: f64 = steps.iter().map(|s| bits_of(s.rate, Duration::ZERO, s.duration)).sum();
            let stop = start + Duration(10 * cycle);
            let config = StaircaseConfig {
                steps,
                repeat: true,
                payload_bytes,
                overhead_bytes: OVERHEAD,
                start,
                stop,
                stream: 1,
            };
            let source = Box::new(Staircase::new(config).expect("valid"));
            let sizes = (payload_bytes, payload_bytes);
            Case { source, sizes, start, stop, bits: earned * 10.0, bound: 0.0011 }
        },
        false,
    );
}

/// Rates 1 … n times one of them, some silent; over n cycles of times that are uniform from 0, the share of each has a
/// relative standard deviation of at most √(1 / n), of which four are allowed.
#[test]
fn rtp_flow() {
    every_case_keeps_the_laws(
        20,
        |shape, seed| {
            let (rate, payload_bytes, start, _) = frame(shape, 0);
            let payload_bytes = payload_bytes.max(28);
            let each = rate.time_for(Bytes(u64::from(payload_bytes + OVERHEAD))).as_nanos();
            let mut rates = vec![rate];
            rates.extend((0..shape.below(4)).map(|_| Rate(rate.bits_per_sec() * shape.below(4))));
            let most = Duration(each / 3 + each * shape.below(30) + 2);
            let cycles = 2000;
            let stop = start + most.saturating_mul(cycles * rates.len() as u64 / 2);
            let mean = rates.iter().map(|r| r.bits_per_sec()).sum::<u64>() / rates.len() as u64;
            let several = rates.len() > 1;
            let bound = if several { 4.0 * libm::sqrt(1.0 / cycles as f64) } else { 0.0 };
            let config = RtpFlowConfig {
                rates,
                stay: (Duration::ZERO, most),
                payload_bytes,
                overhead_bytes: OVERHEAD,
                start,
                stop,
                stream: 1,
            };
            let bits = bits_of(Rate(mean), start, stop);
            let packets = bits / (f64::from(payload_bytes + OVERHEAD) * 8.0);
            let source = Box::new(RtpFlow::new(config, seed).expect("valid"));
            let sizes = (payload_bytes, payload_bytes);
            Case { source, sizes, start, stop, bits, bound: bound + 1.5 / packets }
        },
        true,
    );
}

/// Ten passes, one packet.
#[test]
fn replay() {
    every_case_keeps_the_laws(
        40,
        |shape, _| {
            let (rate, _, start, _) = frame(shape, 0);
            let mut offset = Duration::ZERO;
            let capture: Arc<[Captured]> = (0..200 + shape.below(300))
                .map(|_| {
                    offset = offset + Duration(shape.below(2) * shape.below(50_000_000));
                    Captured { offset, ip_bytes: 20 + shape.below(1481) as u16 }
                })
                .collect();
            let size_milli = 200 + shape.below(2000) as u32;
            let bytes = |packet: &Captured| {
                let scaled = (u64::from(packet.ip_bytes) * u64::from(size_milli) + 500) / 1000;
                scaled.clamp(44, 1400)
            };
            let pass: u64 = capture.iter().map(bytes).sum();
            let stop = start + rate.time_for(Bytes(pass * 10));
            let config = ReplayConfig {
                capture,
                time: ReplayTime::MeanRate(rate),
                size_milli,
                most_bytes: 1400,
                looped: true,
                overhead_bytes: OVERHEAD,
                start,
                stop,
                stream: 1,
            };
            let source = Box::new(Replay::new(config).expect("valid"));
            Case { source, sizes: (16, 1372), start, stop, bits: (pass * 80) as f64, bound: 0.002 }
        },
        false,
    );
}

/// Two whole minutes: exact but for headers, of which there is one a packet, and padding of tiny frames.
#[test]
fn generated_video() {
    every_case_keeps_the_laws(
        5,
        |shape, seed| {
            let mean = Rate(100_000 + shape.below(3_000_000));
            let peak = Rate(mean.bits_per_sec() * (25 + shape.below(60)) / 10);
            let start = Duration(shape.below(5_000_000_000));
            let stop = start + Duration::from_secs(120);
            let most_payload_bytes = 200 + shape.below(1273) as u16;
            let config = VideoConfig { most_payload_bytes, start, stop, stream: 1 };
            let gop =
                || GopFrames::new(GopConfig { mean, peak, ..GopConfig::MR_BEAN }, seed, 1).expect("in range");
            let headers: u64 = gop()
                .take(3000)
                .map(|f| u64::from(f.bytes.div_ceil(u32::from(most_payload_bytes))) * u64::from(OVERHEAD) * 8)
                .sum();
            let bits = mean.bits_per_sec() as f64 * 120.0 + headers as f64;
            let source = Box::new(Video::from_gop(config, gop()).expect("valid"));
            Case { source, sizes: (16, most_payload_bytes), start, stop, bits, bound: 0.001 }
        },
        true,
    );
}

#[test]
fn traced_video() {
    every_case_keeps_the_laws(
        40,
        |shape, _| {
            let frames = 100 + shape.below(100);
            let sizes: Vec<u32> =
                (0..frames).map(|_| shape.below(3) as u32 * shape.below(4000) as u32).collect();
            let text: String =
                sizes.iter().enumerate().map(|(i, size)| format!("{i} P {} {size}\n", i * 40)).collect();
            let trace = FrameTrace::parse(&text, TimeUnit::Milliseconds).expect("a trace");
            let start = Duration(shape.below(5_000_000_000));
            let stop = start + trace.period().saturating_mul(7);
            let bytes: u64 = sizes
                .iter()
                .filter(|size| **size > 0)
                .map(|size| u64::from((*size).max(16) + size.div_ceil(1472) * u32::from(OVERHEAD)))
                .sum();
            let config = VideoConfig { most_payload_bytes: 1472, start, stop, stream: 1 };
            let source = Box::new(Video::from_trace(config, Arc::new(trace)).expect("valid"));
            Case { source, sizes: (16, 1472), start, stop, bits: (bytes * 56) as f64, bound: 0.0 }
        },
        false,
    );
}

/// Calls of one stream; whole packets of a known interval in the share of talk.
#[test]
fn voice() {
    every_case_keeps_the_laws(
        10,
        |shape, seed| {
            let formats = [
                VoiceFormat::G711_ULAW,
                VoiceFormat::G729,
                VoiceFormat::G723_1_HIGH,
                VoiceFormat::G723_1_LOW,
            ];
            let format = formats[shape.below(4) as usize];
            let start = Duration(shape.below(5_000_000_000));
            let length = Duration::from_secs(1500);
            let (activity, share, bound) = match shape.below(2) {
                0 => (Activity::Continuous, 1.0, 0.001),
                _ => (Activity::CONVERSATION, 1.004 / 2.591, 0.2),
            };
            let spacing = Duration::ZERO;
            let config = VoiceConfig { calls: 1, format, start, spacing, length, activity, first_stream: 1 };
            let packet = f64::from(format.payload_bytes + 12 + OVERHEAD) * 8.0;
            let bits = packet * length.as_secs_f64() / format.packet_interval.as_secs_f64() * share;
            let stop = start + length + format.packet_interval;
            let source = Box::new(VoiceCalls::new(config, seed).expect("valid"));
            Case { source, sizes: (32, 172), start, stop, bits, bound }
        },
        true,
    );
}
