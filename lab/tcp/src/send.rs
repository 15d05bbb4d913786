//! The send sequence space (RFC 9293 §3.3.1) and the peer's window.
//!
//! ```text
//!        acknowledged   in flight    written, not sent   room
//!   ----------------|-------------|--------------------|------
//!                  una           max                  end   (+ FIN)
//!                                          edge: una + window as last announced
//! ```
//! There is no SND.NXT that moves back: what is to be sent again is the scoreboard's business, and `max` is the next
//! new number.

/// State of the sending direction. Numbers are unwrapped (see `sequence`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendSpace {
    /// Number of the SYN.
    pub(crate) iss: u64,
    /// Oldest number not acknowledged.
    pub(crate) una: u64,
    /// Number behind the highest one sent.
    pub(crate) max: u64,
    /// Number behind the last byte written: that of the FIN.
    pub(crate) end: u64,
    /// The application wrote its last byte.
    pub(crate) finished: bool,
    /// Right edge of the peer's window.
    pub(crate) edge: u64,
    /// Largest window the peer has announced.
    pub(crate) max_window: u64,
    /// SEG.SEQ and SEG.ACK of the last window update.
    update: (u64, u64),
    /// Bytes that may be written and not acknowledged.
    capacity: u64,
}

impl SendSpace {
    pub(crate) fn new(iss: u64, capacity: u32) -> Self {
        Self {
            iss,
            una: iss,
            max: iss,
            end: iss + 1,
            finished: false,
            edge: iss + 1,
            max_window: 0,
            update: (0, 0),
            capacity: capacity.into(),
        }
    }

    /// Bytes that may be written now.
    pub(crate) fn room(&self) -> u64 {
        let held = self.end - self.una.max(self.iss + 1).min(self.end);
        if self.finished { 0 } else { self.capacity.saturating_sub(held) }
    }

    /// Takes up to `count` bytes.
    pub(crate) fn write(&mut self, count: u64) -> u64 {
        let taken = count.min(self.room());
        self.end += taken;
        taken
    }

    /// Number behind everything to send, the FIN included.
    pub(crate) fn limit(&self) -> u64 {
        self.end + u64::from(self.finished)
    }

    /// Numbers sent and not acknowledged.
    pub(crate) fn flight(&self) -> u64 {
        self.max - self.una
    }

    /// Whether the FIN was acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.finished && self.una > self.end
    }

    /// Place in the stream of number `seq`.
    pub(crate) fn offset(&self, seq: u64) -> u64 {
        seq.saturating_sub(self.iss + 1)
    }

    /// Takes the window of a segment unless an earlier one was newer (RFC 9293 §3.10.7.4). Returns whether the right
    /// edge moved otherwise than by the acknowledgment.
    pub(crate) fn update_window(&mut self, seq: u64, ack: u64, window: u64) -> bool {
        let (wl1, wl2) = self.update;
        if seq < wl1 || (seq == wl1 && ack < wl2) {
            return false;
        }
        self.update = (seq, ack);
        self.max_window = self.max_window.max(window);
        let changed = self.edge != ack + window;
        self.edge = ack + window;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_stops_at_the_buffers_end_and_after_the_last_byte() {
        let mut send = SendSpace::new(1 << 32, 100);
        assert_eq!((send.write(70), send.write(70), send.room()), (70, 30, 0));
        send.una += 41;
        assert_eq!(send.room(), 40);
        send.finished = true;
        assert_eq!((send.room(), send.limit() - send.end), (0, 1));
    }

    #[test]
    fn an_older_segment_does_not_move_the_window() {
        let mut send = SendSpace::new(1 << 32, 100);
        assert!(send.update_window(50, send.una, 1000));
        assert!(!send.update_window(49, send.una, 5000));
        assert_eq!(send.edge, send.una + 1000);
        assert!(!send.update_window(50, send.una, 1000));
        assert!(send.update_window(50, send.una, 0));
    }
}
