//! What became of packets of calls: heard where their connection is.

use super::Flows;
use perhop_element::{Cx, PacketEnd};
use perhop_packet::Direction;

/// Ends of packets of other workers' calls that wait to be taken.
const FOREIGN: usize = 4_096;

impl Flows {
    /// Hears what became of packets since the last call.
    pub(super) fn hear(&mut self, cx: &mut Cx<'_>) {
        let mut ends = std::mem::take(&mut self.heard);
        let missed = cx.take_ends(&mut ends);
        self.hear_ends(&mut ends, missed);
        self.heard = ends;
    }

    /// Takes what became of packets of calls, and leaves `ends` empty: of this worker's own here, the rest for whom it concerns.
    /// So many more were `missed`.
    pub fn hear_ends(&mut self, ends: &mut Vec<PacketEnd>, missed: u64) {
        self.counters.ends_missed += missed;
        for end in ends.drain(..) {
            if end.home == self.me {
                self.hear_end(&end);
            } else if self.foreign.len() < FOREIGN {
                self.foreign.push(end);
            } else {
                self.counters.ends_missed += 1;
            }
        }
    }

    /// Takes what became of a packet of one of this worker's calls.
    pub fn hear_end(&mut self, end: &PacketEnd) {
        let Some(entry) = self.table.entry(end.connection) else { return };
        let half = usize::from(entry.opener) ^ usize::from(end.direction == Direction::Reverse);
        let slot = entry.halves[half & 1].undecided;
        let owner = end.connection << 1 | (half & 1) as u32;
        self.calls.end(slot, owner, end, self.config.assumed.playout);
    }

    /// Tells `to` what became here of packets of other workers' calls, in order; `false` from it: that it was lost.
    pub fn tell_foreign_ends(&mut self, mut to: impl FnMut(PacketEnd) -> bool) {
        let lost = self.foreign.drain(..).filter(|end| !to(*end)).count();
        self.counters.ends_missed += lost as u64;
    }
}
