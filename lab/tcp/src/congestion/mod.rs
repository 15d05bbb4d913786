//! Congestion control: one trait, one file for each algorithm.
//!
//! An algorithm moves the window when data is acknowledged outside of recovery and says how far to reduce it. What to
//! send during recovery is not its business: see `recovery`.
//!
//! Floating point is allowed here (and nowhere else in the crate); roots go through `libm`, so that results do not
//! depend on the platform.

mod cubic;
mod hystart;
mod hystart_plus;
mod newreno;

pub use cubic::Cubic;
pub use newreno::NewReno;

use crate::config::{Algorithm, Config};
use perhop_units::{Duration, Instant};
use std::fmt::Debug;

/// The two variables of RFC 5681, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow start threshold; `u64::MAX` until the first loss.
    pub ssthresh: u64,
}

impl Window {
    /// Whether the window grows by slow start.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// An acknowledgment of new data outside of fast recovery.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it arrived.
    pub now: Instant,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Payload of a full segment in bytes.
    pub mss: u64,
    /// Number behind the last byte acknowledged; numbers only grow.
    pub acked: u64,
    /// Number behind the last byte sent.
    pub sent: u64,
    /// The round-trip time this acknowledgment shows: exact once a round trip, in ms by time-stamps otherwise.
    pub sample: Option<Duration>,
    /// The window, not the application or the receiver, held the sender back. A window that was not used does not
    /// grow (RFC 7661).
    pub limited: bool,
    /// The sender repairs after a timeout (RFC 3465 §2.3: slow start then counts one segment an acknowledgment).
    pub after_timeout: bool,
}

/// A reason to send less.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// Bytes in flight, those sent by limited transmit not counted (RFC 5681 §3.2).
    pub flight: u64,
    /// Payload of a full segment in bytes.
    pub mss: u64,
}

/// A congestion control algorithm.
pub trait Congestion: Debug + Send {
    /// Lets the window grow.
    fn acked(&mut self, window: &mut Window, ack: &Acked);
    /// Sets `ssthresh` after a loss found by duplicate acknowledgments or SACK, or after a congestion mark.
    fn reduce(&mut self, window: &mut Window, at: &Reduction);
    /// Sets `ssthresh` after the first timeout of a segment; the endpoint sets the window to one segment.
    fn timed_out(&mut self, window: &mut Window, at: &Reduction);
    /// Data is sent again after a time in which nothing was in flight.
    fn resumed(&mut self, _now: Instant) {}
}

/// The algorithm in use.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    NewReno(NewReno),
    Cubic(Cubic),
}

impl Controller {
    pub(crate) fn new(config: &Config) -> Self {
        match config.congestion {
            Algorithm::NewReno => Self::NewReno(NewReno::new(config.byte_counting)),
            Algorithm::Cubic(choices) => Self::Cubic(Cubic::new(choices, config.byte_counting)),
        }
    }
}

macro_rules! each {
    ($self:ident, $it:ident => $call:expr) => {
        match $self {
            Self::NewReno($it) => $call,
            Self::Cubic($it) => $call,
        }
    };
}

impl Congestion for Controller {
    fn acked(&mut self, window: &mut Window, ack: &Acked) {
        each!(self, it => it.acked(window, ack));
    }
    fn reduce(&mut self, window: &mut Window, at: &Reduction) {
        each!(self, it => it.reduce(window, at));
    }
    fn timed_out(&mut self, window: &mut Window, at: &Reduction) {
        each!(self, it => it.timed_out(window, at));
    }
    fn resumed(&mut self, now: Instant) {
        each!(self, it => it.resumed(now));
    }
}

/// Slow start (RFC 5681 §3.1, with the limits of RFC 3465): the growth, at most to `ssthresh`, and the bytes left over
/// for congestion avoidance.
fn slow_start(window: &mut Window, ack: &Acked, byte_counting: bool) -> u64 {
    let segments = if byte_counting && !ack.after_timeout { 2 } else { 1 };
    let growth = ack.bytes.min(segments * ack.mss);
    let used = growth.min(window.ssthresh.saturating_sub(window.cwnd));
    window.cwnd += used;
    ack.bytes.saturating_sub(used).min(growth - used)
}
