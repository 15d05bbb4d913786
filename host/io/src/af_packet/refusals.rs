//! Which frames at the head of a transmit ring are refused, and which wait for the device.
//!
//! Where a rule at nf_tables' egress hook drops a frame of a packet socket, the kernel gives the same answer (ENOBUFS) as where
//! the device takes no more, puts the frame back to the ring's head, and sends nothing behind it. What tells them apart: a
//! device that takes no more has frames of ours on their way, or takes some soon.
//!
//! | the head was not taken, and | it |
//! |---|---|
//! | frames of ours are on their way | waits |
//! | a frame behind one that was passed over went at once, [`LASTS`] ago at the most | is refused |
//! | [`ROW`] before it were refused and none was taken, [`LASTS`] ago at the most | is refused |
//! | it has been there for [`PATIENCE`], and the link is up | is refused |
//! | else | waits |
//!
//! So the first frames that a rule drops cost [`PATIENCE`] each, until one that it does not drop comes behind them.
//!
//! Source: Linux `net/packet/af_packet.c`, `tpacket_snd`.

use perhop_units::{Duration, Instant};

/// A device that has nothing of ours on its way takes a frame within this time.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long it is remembered that there are frames that are refused.
const LASTS: Duration = Duration::from_secs(10);

/// After so many in a row others are refused at once.
const ROW: u32 = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// The slot at the head that was not taken, and since when.
    stuck: Option<(u32, Instant)>,
    /// A frame was refused while the device took others: this long they are known at once.
    known_until: Option<Instant>,
    /// Refused since a frame was taken last.
    row: u32,
}

/// What is seen of the ring after a kick that did not take all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Slot of the first frame that was not taken.
    pub(crate) slot: u32,
    /// Frames of ours are on their way.
    pub(crate) on_the_way: bool,
}

impl Refusals {
    /// Whether the head is refused; `is_up` asks whether the link is up, and is called rarely.
    pub(crate) fn judge(&mut self, now: Instant, head: Head, is_up: impl FnOnce() -> bool) -> bool {
        if head.on_the_way {
            self.stuck = None;
            return false;
        }
        let since = match self.stuck {
            Some((slot, since)) if slot == head.slot => since,
            _ => now,
        };
        self.stuck = Some((head.slot, since));
        let is_known = self.known_until.is_some_and(|until| now < until);
        let is_refused = (is_known || now.since(since) >= PATIENCE) && is_up();
        if is_refused {
            self.stuck = None;
            self.row = self.row.saturating_add(1);
            if self.row >= ROW {
                self.known_until = Some(now + LASTS);
            }
        }
        is_refused
    }

    /// A frame was taken; when that was one behind a frame that was passed over in the same moment, it was no matter of room.
    pub(crate) fn taken(&mut self, now: Instant, behind_refused: bool) {
        (self.stuck, self.row) = (None, 0);
        if behind_refused {
            self.known_until = Some(now + LASTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn head(slot: u32) -> Head {
        Head { slot, on_the_way: false }
    }

    #[test]
    fn a_head_is_refused_after_a_while_and_at_once_when_that_is_known() {
        let mut refusals = Refusals::default();
        assert!(!refusals.judge(at(0), head(5), || true));
        assert!(!refusals.judge(at(999), head(5), || true));
        assert!(refusals.judge(at(1_000), head(5), || true));
        // The next one may wait for room: nothing is known.
        assert!(!refusals.judge(at(1_000), head(6), || true));
        refusals.taken(at(1_500), true);
        assert!(refusals.judge(at(1_500), head(6), || true));
        assert!(refusals.judge(at(9_000_000), head(7), || true));
        assert!(!refusals.judge(at(10_001_500), head(8), || true), "forgotten");
    }

    #[test]
    fn where_nothing_is_taken_frames_are_soon_refused_at_once() {
        let mut refusals = Refusals::default();
        let (mut us, mut looks) = (0, 0);
        for slot in 0..100 {
            while !refusals.judge(at(us), head(slot), || true) {
                (us, looks) = (us + 50, looks + 1);
            }
        }
        assert_eq!((us, looks), (16_000, 16 * 20), "a while for each of the first sixteen");
    }

    #[test]
    fn what_waits_for_the_device_or_its_carrier_is_not_refused() {
        let mut refusals = Refusals::default();
        for us in 0..5_000 {
            assert!(!refusals.judge(at(us), Head { slot: 5, on_the_way: true }, || true));
        }
        assert!(!refusals.judge(at(5_000), head(5), || true), "it has the device to itself from now on");
        assert!(!refusals.judge(at(7_000), head(5), || false), "no carrier");
        refusals.taken(at(7_500), false);
        assert!(!refusals.judge(at(8_000), head(5), || true), "it is another frame");
    }
}
