//! An RTP flow of equal packets whose rate is one after another of a list, each for a random time: calls that adapt, or
//! fall silent and begin again.

use crate::error::TrafficError;
use crate::on_off::PERIODS_PER_PACKET;
use crate::random::{Generator, Seed};
use crate::rtp::{RTP_HEADER_LEN, RtpHeader};
use crate::source::{Emission, Source, check_payload, check_range, check_span};
use crate::stamp::STAMP_LEN;
use perhop_units::{Bytes, Duration, Rate};

/// Most rates of a flow.
pub const MAX_RATES: usize = 1_000;
/// Shortest UDP payload of the flow: the RTP header and the stamp of a measurement.
pub const MIN_RTP_PAYLOAD: u16 = (RTP_HEADER_LEN + STAMP_LEN) as u16;
/// Longest time at a rate: one day.
pub const MAX_STAY: Duration = Duration::from_secs(86_400);
/// The first dynamic payload type (RFC 3551 §6): the sizes and rates are no standard codec's.
const PAYLOAD_TYPE: u8 = 96;
/// One step of the RTP clock, which runs at 8 kHz.
const TICK_NS: u64 = 125_000;

/// Parameters of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpFlowConfig {
    /// Rates at IP length, 1 … [`MAX_RATES`] of them, each up to [`Rate::MOST`] and one above 0. They follow each other
    /// over and over, from a random one on; a lone one lasts for ever.
    pub rates: Vec<Rate>,
    /// Shortest and longest time at a rate, uniform between them; up to [`MAX_STAY`].
    pub stay: (Duration, Duration),
    /// UDP payload in bytes with the RTP header, [`MIN_RTP_PAYLOAD`] … 65507.
    pub payload_bytes: u16,
    /// What IP and UDP headers add.
    pub overhead_bytes: u16,
    /// The first rate begins here.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

/// The source. Packet k is due when the rates have earned k packets and a random part of one, so that neither a short
/// time at a rate nor a packet cut by its end changes the rate, and flows that begin together do not send together.
#[derive(Clone, Debug)]
pub struct RtpFlow {
    config: RtpFlowConfig,
    generator: Generator,
    rate: usize,
    /// Begin and end of the time at this rate.
    span: (Duration, Duration),
    /// Bits · 10⁹ earned before it.
    earned: u128,
    /// Bits · 10⁹ that must be earned before the first packet, and by each.
    lead: u64,
    packet: u64,
    index: u32,
    at: Option<Duration>,
    first_sequence: u16,
    first_timestamp: u32,
    ssrc: u32,
}

impl RtpFlow {
    /// Builds the source; what it draws follows from the seed and the stream number.
    ///
    /// # Errors
    /// No rates or too many, one out of range, none above 0; a payload or a time out of range; times so short that
    /// thousands pass between two packets; a stop before the start.
    pub fn new(config: RtpFlowConfig, seed: Seed) -> Result<Self, TrafficError> {
        check(&config)?;
        let bits = (u64::from(config.payload_bytes) + u64::from(config.overhead_bytes)) * 8;
        let packet = bits * 1_000_000_000;
        let mut generator = seed.generator(config.stream);
        let identity = generator.bits();
        let mut source = Self {
            rate: generator.below(config.rates.len() as u64) as usize,
            span: (config.start, config.stop),
            earned: 0,
            lead: generator.below(packet),
            packet,
            index: 0,
            at: None,
            first_sequence: identity as u16,
            ssrc: (identity >> 32) as u32,
            first_timestamp: generator.bits() as u32,
            generator,
            config,
        };
        source.begin_at(source.config.start);
        source.at = source.due();
        Ok(source)
    }

    /// Draws how long the current rate lasts.
    fn begin_at(&mut self, begin: Duration) {
        let (least, most) = self.config.stay;
        if self.config.rates.len() > 1 {
            // At least 1 ns: time goes on whatever is drawn.
            self.span = (begin, begin + self.generator.between(least, most).max(Duration(1)));
        }
    }

    /// When packet `index` is due; moves on to the rate at which that is.
    fn due(&mut self) -> Option<Duration> {
        let target = u128::from(self.lead) + u128::from(self.index) * u128::from(self.packet);
        while self.span.0 < self.config.stop {
            let rate = u128::from(self.config.rates[self.rate].bits_per_sec());
            let earns = u128::from((self.span.1 - self.span.0).as_nanos()) * rate;
            let missing = target - self.earned;
            if missing < earns {
                // Not above the length of the span, which is a u64.
                let at = self.span.0 + Duration(missing.div_ceil(rate) as u64);
                return (at < self.config.stop).then_some(at);
            }
            if self.config.rates.len() == 1 {
                return None;
            }
            self.earned += earns;
            self.rate = (self.rate + 1) % self.config.rates.len();
            self.begin_at(self.span.1);
        }
        None
    }
}

fn check(config: &RtpFlowConfig) -> Result<(), TrafficError> {
    check_payload(config.payload_bytes)?;
    let (given, least) = (u64::from(config.payload_bytes), u64::from(MIN_RTP_PAYLOAD));
    check_range("payload of an RTP packet in bytes", given, least, u64::from(u16::MAX))?;
    check_span(config.start, config.stop)?;
    if config.rates.is_empty() {
        return Err(TrafficError::Empty { what: "rates" });
    }
    check_range("number of rates", config.rates.len() as u64, 1, MAX_RATES as u64)?;
    let highest = config.rates.iter().copied().max().unwrap_or(Rate::ZERO);
    check_range("rate in bit/s", highest.bits_per_sec(), 0, Rate::MOST.bits_per_sec())?;
    if highest == Rate::ZERO {
        return Err(TrafficError::RateZero);
    }
    if config.rates.len() > 1 {
        let (shortest, longest) = config.stay;
        check_range(
            "longest time at a rate in ns",
            longest.as_nanos(),
            shortest.as_nanos(),
            MAX_STAY.as_nanos(),
        )?;
        let bytes = u64::from(config.payload_bytes) + u64::from(config.overhead_bytes);
        let least = (highest.time_for(Bytes(bytes)).as_nanos() / PERIODS_PER_PACKET).max(1);
        check_range("longest time at a rate in ns", longest.as_nanos(), least, MAX_STAY.as_nanos())?;
    }
    Ok(())
}

impl Source for RtpFlow {
    fn upcoming(&self) -> Option<Duration> {
        self.at
    }
}

impl Iterator for RtpFlow {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let at = self.at?;
        let index = self.index;
        let ticks = (at.as_nanos() - self.config.start.as_nanos()) / TICK_NS;
        let rtp = RtpHeader {
            marker: index == 0,
            payload_type: PAYLOAD_TYPE,
            sequence: self.first_sequence.wrapping_add(index as u16),
            timestamp: self.first_timestamp.wrapping_add(ticks as u32),
            ssrc: self.ssrc,
        };
        self.index = index.checked_add(1)?;
        self.at = self.due();
        let (stream, len) = (self.config.stream, self.config.payload_bytes);
        Some(Emission { at, stream, index, len, rtp: Some(rtp) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KBIT: fn(u64) -> Rate = Rate::from_kbit;

    fn config(rates: Vec<Rate>) -> RtpFlowConfig {
        RtpFlowConfig {
            rates,
            stay: (Duration::ZERO, Duration::from_secs(20)),
            payload_bytes: 97,
            overhead_bytes: 28,
            start: Duration::from_secs(3),
            stop: Duration::from_secs(3_003),
            stream: 5,
        }
    }

    fn emissions(config: RtpFlowConfig, seed: u64) -> Vec<Emission> {
        RtpFlow::new(config, Seed::new(seed)).expect("valid").collect()
    }

    /// 1000 bits at 1 Mbit/s: one a millisecond, from within the first millisecond on.
    #[test]
    fn a_lone_rate_is_constant_from_a_random_phase_on() {
        let mut phases = Vec::new();
        for seed in 0..8 {
            let all = emissions(config(vec![Rate::from_mbit(1)]), seed);
            let phase = all[0].at - Duration::from_secs(3);
            assert!(phase < Duration::from_millis(1), "{phase}");
            assert!(all.windows(2).all(|w| w[1].at - w[0].at == Duration::from_millis(1)));
            assert_eq!(all.len(), 3_000_000);
            phases.push(phase);
        }
        phases.dedup();
        assert_eq!(phases.len(), 8);
    }

    #[test]
    fn headers_are_those_of_one_source() {
        let all = emissions(config(vec![KBIT(16), KBIT(0), KBIT(32)]), 1);
        let headers: Vec<RtpHeader> = all.iter().filter_map(|e| e.rtp).collect();
        assert_eq!(headers.len(), all.len());
        for (pair, sent) in headers.windows(2).zip(all.windows(2)) {
            assert_eq!(pair[0].ssrc, pair[1].ssrc);
            assert_eq!(pair[1].sequence, pair[0].sequence.wrapping_add(1));
            let ticks = u64::from(pair[1].timestamp.wrapping_sub(pair[0].timestamp));
            assert!(ticks.abs_diff((sent[1].at - sent[0].at).as_nanos() / 125_000) <= 1);
        }
        assert!(headers[0].marker && headers[1..].iter().all(|h| !h.marker));
    }

    /// Gaps tell the rates: 1000 bits at 8 and at 16 kbit/s are 125 and 62.5 ms apart, and silences are longer. Each has
    /// a third of the time; 100 cycles, so a tenth of the mean is three deviations of a uniform time or so.
    #[test]
    fn each_rate_has_its_share_of_time() {
        let (mut slow, mut fast, mut silent) = (0.0, 0.0, 0.0);
        for seed in 0..4 {
            for pair in emissions(config(vec![KBIT(0), KBIT(8), KBIT(16)]), seed).windows(2) {
                let gap = pair[1].at - pair[0].at;
                match gap.as_nanos() {
                    62_500_000 => fast += gap.as_secs_f64(),
                    125_000_000 => slow += gap.as_secs_f64(),
                    _ => silent += gap.as_secs_f64(),
                }
            }
        }
        for share in [slow, fast, silent].map(|t| t / 12_000.0) {
            assert!((share - 1.0 / 3.0).abs() < 0.04, "{slow} {fast} {silent}");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        let new = |c| RtpFlow::new(c, Seed::new(0)).map(|_| ());
        assert_eq!(new(config(vec![])), Err(TrafficError::Empty { what: "rates" }));
        assert_eq!(new(config(vec![Rate::ZERO; 2])), Err(TrafficError::RateZero));
        let short = RtpFlowConfig { payload_bytes: 27, ..config(vec![KBIT(8)]) };
        assert_eq!(
            new(short).map_err(|e| e.to_string()),
            Err("payload of an RTP packet in bytes is 27; allowed is 28 to 65535".to_owned())
        );
        let fleeting = (Duration::ZERO, Duration::from_micros(10));
        let busy = RtpFlowConfig { stay: fleeting, ..config(vec![KBIT(1), KBIT(0)]) };
        assert_eq!(
            new(busy).map_err(|e| e.to_string()),
            Err("longest time at a rate in ns is 10000; allowed is 1000000 to 86400000000000".to_owned())
        );
    }
}
