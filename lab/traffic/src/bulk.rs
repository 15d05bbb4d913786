//! Greedy TCP transfers. Only parameters: the sending is TCP's own, a driver keeps its socket full.

use crate::error::TrafficError;
use crate::source::check_span;
use perhop_units::{Duration, Instant};

/// Parameters of a set of greedy transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkConfig {
    /// Number of connections.
    pub transfers: u16,
    /// First connection.
    pub start: Duration,
    /// Time from one connection's start to the next.
    pub spacing: Duration,
    /// All connections close.
    pub stop: Duration,
    /// Bytes handed to the socket at once, above 0.
    pub chunk_bytes: u32,
}

/// One of the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkTransfer {
    /// Number in the set, from 0.
    pub number: u16,
    /// When to connect.
    pub start: Duration,
    /// When to close.
    pub stop: Duration,
    /// Bytes handed to the socket at once.
    pub chunk_bytes: u32,
}

impl BulkConfig {
    /// The transfers. One that would start at or after the stop is left out.
    ///
    /// # Errors
    /// A stop before the start, or chunks of nothing.
    pub fn transfers(&self) -> Result<Vec<BulkTransfer>, TrafficError> {
        check_span(self.start, self.stop)?;
        if self.chunk_bytes == 0 {
            return Err(TrafficError::Zero { what: "chunk" });
        }
        Ok((0..self.transfers)
            .map(|number| BulkTransfer {
                number,
                start: self.start + self.spacing.saturating_mul(u64::from(number)),
                stop: self.stop,
                chunk_bytes: self.chunk_bytes,
            })
            .filter(|transfer| transfer.start < transfer.stop)
            .collect())
    }
}

/// What a receiver of one transfer counts: goodput is payload bytes read over the time it was open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkTally {
    bytes: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl BulkTally {
    /// `bytes` were read from the socket at `at`; instants do not go back.
    pub fn read(&mut self, at: Instant, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.first.get_or_insert(at);
        self.last = Some(at);
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Goodput in bit/s between the first and the last reading; `None` before there is a span.
    pub fn goodput_bit_s(&self) -> Option<f64> {
        let span = self.last?.since(self.first?);
        (span > Duration::ZERO).then(|| self.bytes as f64 * 8.0 / span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_start_one_after_the_other_until_the_stop() {
        let config = BulkConfig {
            transfers: 4,
            start: Duration::from_secs(1),
            spacing: Duration::from_secs(2),
            stop: Duration::from_secs(6),
            chunk_bytes: 65536,
        };
        let transfers = config.transfers().expect("valid");
        let starts: Vec<u64> = transfers.iter().map(|t| t.start.as_nanos() / 1_000_000_000).collect();
        assert_eq!(starts, [1, 3, 5]);
        let none = BulkConfig { chunk_bytes: 0, ..config };
        assert_eq!(none.transfers(), Err(TrafficError::Zero { what: "chunk" }));
    }

    #[test]
    fn goodput_is_bytes_over_the_open_time() {
        let mut tally = BulkTally::default();
        tally.read(Instant(1_000_000_000), 1000);
        assert_eq!(tally.goodput_bit_s(), None);
        tally.read(Instant(3_000_000_000), 1000);
        assert_eq!(tally.goodput_bit_s(), Some(8000.0));
    }
}
