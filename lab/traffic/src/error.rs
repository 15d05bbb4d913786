//! What can be wrong with a source's parameters or a buffer.

use crate::stamp::STAMP_LEN;
use perhop_units::Duration;
use thiserror::Error;

/// Why a source cannot be built or an emission cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrafficError {
    /// The payload has no room for the measurement stamp.
    #[error("payload of {given} B has no room for the measurement stamp; the least is {STAMP_LEN} B")]
    PayloadTooSmall {
        /// Configured payload in bytes.
        given: u16,
    },
    /// The datagram would exceed what UDP over IPv4 can carry.
    #[error("payload of {given} B does not fit a datagram; the most is {limit} B")]
    PayloadTooLarge {
        /// Configured payload in bytes.
        given: u16,
        /// Largest payload in bytes.
        limit: u16,
    },
    /// A source of rate zero never sends.
    #[error("rate is 0 bit/s")]
    RateZero,
    /// The source would stop before it starts.
    #[error("stop at {} ms lies before the start at {} ms", stop.as_millis_f64(), start.as_millis_f64())]
    StopBeforeStart {
        /// Configured start.
        start: Duration,
        /// Configured stop.
        stop: Duration,
    },
    /// A packet interval, mean period or chunk of nothing.
    #[error("{what} is zero")]
    Zero {
        /// The parameter.
        what: &'static str,
    },
    /// RTP payload types have seven bits.
    #[error("RTP payload type {given} is above 127")]
    PayloadType {
        /// Configured payload type.
        given: u8,
    },
    /// Stream numbers have sixteen bits.
    #[error("{count} streams from number {first} on reach past 65535")]
    StreamNumbers {
        /// First stream number.
        first: u16,
        /// How many are needed.
        count: u16,
    },
    /// A number outside its range.
    #[error("{what} is {given}; allowed is {least} to {most}")]
    OutOfRange {
        /// The parameter and its unit.
        what: &'static str,
        /// Configured value.
        given: u64,
        /// Least allowed value.
        least: u64,
        /// Largest allowed value.
        most: u64,
    },
    /// A list that needs at least one entry has none.
    #[error("{what}: the list is empty")]
    Empty {
        /// The list.
        what: &'static str,
    },
    /// A list that must be in order of time is not.
    #[error("{what}: entry {index} lies before the one in front of it")]
    OutOfOrder {
        /// The list.
        what: &'static str,
        /// Position from 0 of the entry that is too early.
        index: usize,
    },
    /// The buffer to fill is shorter than the emission.
    #[error("buffer of {given} B is shorter than the payload of {needed} B")]
    BufferTooSmall {
        /// Length of the buffer.
        given: usize,
        /// Length of the payload.
        needed: usize,
    },
}
