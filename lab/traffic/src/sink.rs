//! The receiver's side: payloads read back into arrivals, and counts of a flow.
//!
//! An [`Arrival`] of speech has the fields that a call record of `perhop-quality` takes; a driver hands them over.

use crate::rtp::{RTP_HEADER_LEN, RtpHeader};
use crate::stamp::{STAMP_LEN, Stamp};
use perhop_units::Instant;
use thiserror::Error;

/// What the datagrams of a sink's port carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// RTP header, then payload with stamp.
    Rtp,
    /// Payload with stamp.
    Plain,
}

/// One datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Stream it belongs to.
    pub stream: u16,
    /// Position in the stream.
    pub index: u32,
    /// When it was sent.
    pub sent: Instant,
    /// When it arrived.
    pub arrived: Instant,
    /// UDP payload in bytes.
    pub len: usize,
    /// Its RTP header, for speech.
    pub rtp: Option<RtpHeader>,
}

/// Why a datagram is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Foreign {
    /// Too short for what the sink expects.
    #[error("datagram of {len} B is too short")]
    Short {
        /// Its length.
        len: usize,
    },
    /// No RTP header as generated calls have it.
    #[error("no plain RTP header")]
    NotRtp,
    /// No stamp at its end.
    #[error("no measurement stamp")]
    NoStamp,
    /// A stream number that this sink does not serve.
    #[error("stream {stream} is not received here")]
    Stream {
        /// The number.
        stream: u16,
    },
}

/// Reads datagrams of a range of streams and counts what is not one of them.
#[derive(Clone, Debug)]
pub struct Sink {
    carriage: Carriage,
    first_stream: u16,
    streams: u16,
    foreign: u64,
}

impl Sink {
    /// A sink for `streams` streams numbered from `first_stream`.
    pub fn new(carriage: Carriage, first_stream: u16, streams: u16) -> Self {
        Self { carriage, first_stream, streams, foreign: 0 }
    }

    /// Reads one datagram that arrived at `arrived`.
    ///
    /// # Errors
    /// Why it is not one of ours; it is counted.
    pub fn receive(&mut self, arrived: Instant, datagram: &[u8]) -> Result<Arrival, Foreign> {
        let read = self.read(arrived, datagram);
        if read.is_err() {
            self.foreign += 1;
        }
        read
    }

    fn read(&self, arrived: Instant, datagram: &[u8]) -> Result<Arrival, Foreign> {
        let len = datagram.len();
        let (rtp, header) = match self.carriage {
            Carriage::Plain => (None, 0),
            Carriage::Rtp if len < RTP_HEADER_LEN => return Err(Foreign::Short { len }),
            Carriage::Rtp => {
                (Some(RtpHeader::from_start_of(datagram).ok_or(Foreign::NotRtp)?), RTP_HEADER_LEN)
            }
        };
        if len < header + STAMP_LEN {
            return Err(Foreign::Short { len });
        }
        let stamp = Stamp::at_end_of(datagram).ok_or(Foreign::NoStamp)?;
        let stream = stamp.stream;
        if stream.checked_sub(self.first_stream).is_none_or(|offset| offset >= self.streams) {
            return Err(Foreign::Stream { stream });
        }
        Ok(Arrival { stream, index: stamp.index, sent: stamp.sent, arrived, len, rtp })
    }

    /// Datagrams that were not ours.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}

/// Largest index a tally takes; later datagrams are counted as refused.
pub const MAX_TALLY: u32 = 1 << 26;

/// Counts of a flow that is not a call: different datagrams, copies, bytes and delays. Memory: one bit a datagram sent
/// and 8 bytes one received.
#[derive(Clone, Debug, Default)]
pub struct FlowTally {
    seen: Vec<u64>,
    received: u64,
    duplicates: u64,
    refused: u64,
    bytes: u64,
    delays_ns: Vec<u64>,
}

impl FlowTally {
    /// Counts an arrival; a second copy adds to the duplicates only.
    pub fn observe(&mut self, arrival: &Arrival) {
        if arrival.index >= MAX_TALLY {
            self.refused += 1;
            return;
        }
        let (word, bit) = (arrival.index as usize / 64, 1u64 << (arrival.index % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicates += 1;
            return;
        }
        self.seen[word] |= bit;
        self.received += 1;
        self.bytes += arrival.len as u64;
        self.delays_ns.push(arrival.arrived.since(arrival.sent).as_nanos());
    }

    /// Different datagrams received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Second and further copies.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Datagrams with an index of [`MAX_TALLY`] or more.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// UDP payload bytes of the different datagrams received.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One-way delays in ns, in order of arrival.
    pub fn delays_ns(&self) -> &[u64] {
        &self.delays_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use crate::voice::{Activity, VoiceCalls, VoiceConfig, VoiceFormat};
    use perhop_units::Duration;

    fn calls() -> VoiceCalls {
        let config = VoiceConfig {
            calls: 2,
            // The smallest payload of the codecs: G.729.
            format: VoiceFormat {
                payload_type: 18,
                payload_bytes: 20,
                packet_interval: Duration::from_millis(20),
                timestamp_step: 160,
            },
            start: Duration::ZERO,
            spacing: Duration::ZERO,
            length: Duration::from_millis(200),
            activity: Activity::Continuous,
            first_stream: 40,
        };
        VoiceCalls::new(config, Seed::new(2)).expect("valid")
    }

    #[test]
    fn what_a_call_sends_is_what_the_sink_reads() {
        let mut sink = Sink::new(Carriage::Rtp, 40, 2);
        let mut buffer = [0; 1500];
        for emission in calls() {
            let now = Instant(77) + emission.at;
            let len = emission.fill(now, &mut buffer).expect("fits");
            assert_eq!(len, 32);
            let arrival = sink.receive(now + Duration(5), &buffer[..len]).expect("ours");
            assert_eq!((arrival.stream, arrival.index), (emission.stream, emission.index));
            assert_eq!((arrival.sent, arrival.arrived), (now, now + Duration(5)));
            assert_eq!(arrival.rtp, emission.rtp);
        }
        assert_eq!(sink.foreign(), 0);
    }

    #[test]
    fn foreign_datagrams_are_told_apart_and_counted() {
        let mut buffer = [0; 64];
        let emission = calls().next().expect("sends");
        let len = emission.fill(Instant(1), &mut buffer).expect("fits");
        let mut sink = Sink::new(Carriage::Rtp, 60, 2);
        let stream = emission.stream;
        assert_eq!(sink.receive(Instant(2), &buffer[..len]), Err(Foreign::Stream { stream }));
        assert_eq!(sink.receive(Instant(2), &buffer[..11]), Err(Foreign::Short { len: 11 }));
        assert_eq!(sink.receive(Instant(2), &buffer[..27]), Err(Foreign::Short { len: 27 }));
        assert_eq!(sink.receive(Instant(2), &[0; 40]), Err(Foreign::NotRtp));
        assert_eq!(sink.receive(Instant(2), &[0x80; 40]), Err(Foreign::NoStamp));
        buffer[len - 16] ^= 1;
        assert_eq!(sink.receive(Instant(2), &buffer[..len]), Err(Foreign::NoStamp));
        assert_eq!(sink.foreign(), 6);
    }

    /// Bytes of any kind are refused or read, never a panic.
    #[test]
    fn random_bytes_do_no_harm() {
        let mut generator = Seed::new(4).generator(0);
        let mut sinks = [Sink::new(Carriage::Rtp, 0, 1), Sink::new(Carriage::Plain, u16::MAX, u16::MAX)];
        for _ in 0..20_000 {
            let len = generator.below(48) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| generator.bits() as u8).collect();
            if let Some(first) = bytes.first_mut() {
                *first = 0x80;
            }
            for sink in &mut sinks {
                let _ = sink.receive(Instant(0), &bytes);
            }
        }
    }

    #[test]
    fn a_tally_counts_each_datagram_once() {
        let mut tally = FlowTally::default();
        let arrival = |index| Arrival {
            stream: 0,
            index,
            sent: Instant(10),
            arrived: Instant(30),
            len: 100,
            rtp: None,
        };
        for index in [0, 200, 3, 3, 0, MAX_TALLY] {
            tally.observe(&arrival(index));
        }
        assert_eq!((tally.received(), tally.duplicates(), tally.refused()), (3, 2, 1));
        assert_eq!((tally.bytes(), tally.delays_ns()), (300, &[20, 20, 20][..]));
    }
}
