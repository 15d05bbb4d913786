//! Says in the log that a class with a guarantee drops packets of calls: once a minute and class.

use perhop_packet::ClassId;
use perhop_units::{Duration, Instant};
use std::collections::HashMap;

/// Time from one line about a class to the next.
const EVERY: Duration = Duration::from_secs(60);

/// What there is to say of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Harm {
    /// Reports of calls that lost packets here since the last line.
    pub(crate) reports: u64,
    /// Packets they lost.
    pub(crate) packets: u64,
}

/// When something was last said of each class, and what came since.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    classes: HashMap<ClassId, (Instant, Harm)>,
}

impl CallLog {
    /// A report says that `packets` of a call were dropped in `class` since the one before; what is to be said now, if it is
    /// time.
    pub(crate) fn note(&mut self, now: Instant, class: ClassId, packets: u64) -> Option<Harm> {
        let none = Harm { reports: 0, packets: 0 };
        let fresh = !self.classes.contains_key(&class);
        let (said, harm) = self.classes.entry(class).or_insert((now, none));
        *harm = Harm { reports: harm.reports + 1, packets: harm.packets + packets };
        if !fresh && now.since(*said) < EVERY {
            return None;
        }
        *said = now;
        Some(std::mem::replace(harm, none))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_spoken_of_once_a_minute() {
        let mut log = CallLog::default();
        let mut note = |s: u64, class, packets| log.note(Instant(s * 1_000_000_000), ClassId(class), packets);
        let harm = |reports, packets| Some(Harm { reports, packets });
        assert_eq!(note(1, 1, 5), harm(1, 5));
        assert_eq!(note(2, 2, 9), harm(1, 9));
        assert_eq!((note(11, 1, 5), note(60, 1, 1)), (None, None));
        assert_eq!(note(61, 1, 2), harm(3, 8));
    }
}
