//! What an application is told, and what is counted.

/// Something the application may act upon. Each is told once until it happens again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established: data may be written and will arrive.
    Established,
    /// There are bytes to read.
    Readable,
    /// There is room again after a write that was cut short.
    Writable,
    /// The peer has sent its last byte; what was received may still be read.
    Finished,
    /// The connection ended by a reset from the peer.
    Reset,
    /// The connection ended because the peer no longer answers.
    TimedOut,
    /// The connection is over: both directions closed in order, or after `Reset` or `TimedOut`.
    Closed,
}

const ALL: [Event; 7] = [
    Event::Established,
    Event::Readable,
    Event::Writable,
    Event::Finished,
    Event::Reset,
    Event::TimedOut,
    Event::Closed,
];

/// Events not told yet: one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events(u8);

impl Events {
    pub(crate) fn add(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    /// The first in the order of [`Event`].
    pub(crate) fn take(&mut self) -> Option<Event> {
        let event = *ALL.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(event)
    }
}

/// Monotonic counters of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments given out.
    pub segments_sent: u64,
    /// Segments handed in.
    pub segments_received: u64,
    /// Payload bytes given out, repeated ones included.
    pub bytes_sent: u64,
    /// Payload bytes that the peer acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes taken, each once.
    pub bytes_received: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries entered by duplicate acknowledgments or SACK.
    pub fast_retransmits: u64,
    /// Reductions taken back because nothing had been lost.
    pub undone: u64,
    /// Tail loss probes sent.
    pub tail_probes: u64,
    /// Duplicate acknowledgments received.
    pub duplicate_acks: u64,
    /// Segments beyond a gap received.
    pub out_of_order: u64,
    /// Segments not acceptable: duplicates, outside the window.
    pub unacceptable: u64,
    /// Segments beyond a gap refused because there were too many ranges.
    pub ranges_full: u64,
    /// Segments dropped for an old or missing time-stamp (RFC 7323 §5).
    pub stamp_refused: u64,
    /// Challenge acknowledgments (RFC 5961) sent, and those withheld by the limit.
    pub challenges: u64,
    /// Answers to unacceptable segments withheld by the limit of RFC 5961 §7.
    pub challenges_withheld: u64,
    /// Window probes sent.
    pub probes: u64,
    /// Window reductions for congestion marks (RFC 3168).
    pub ecn_reductions: u64,
    /// Segments received with the mark "congestion experienced".
    pub marks_received: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_once_and_in_order() {
        let mut events = Events::default();
        for event in [Event::Closed, Event::Readable, Event::Readable] {
            events.add(event);
        }
        assert_eq!(
            [events.take(), events.take(), events.take()],
            [Some(Event::Readable), Some(Event::Closed), None]
        );
    }
}
