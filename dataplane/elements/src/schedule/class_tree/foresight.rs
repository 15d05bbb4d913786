//! Which leaves will probably be served next, so that their memory can be brought near in time.
//!
//! Turns go around: the leaf that was served a few packets after another the last time is likely to be so the next time.
//! Following the rings themselves would not do, because each step would have to wait for the memory it then asks for.
//! What is remembered is a hint: where it is wrong, memory is asked for in vain, and nothing else happens.

use super::arena::Arena;
use super::node::Ix;
use super::wheel::NIL;

/// Packets from one leaf to the one it remembers.
const AHEAD: usize = 12;
/// Packets before a leaf's turn at which what lies behind it is asked for.
const LATER: usize = 8;
/// Packets before its turn at which its first packet is.
const SOON: usize = 4;

#[derive(Debug)]
pub(super) struct Foresight {
    /// The leaves served last, by number of the packet.
    served: [Ix; AHEAD],
    /// The leaves expected, by the number of the packet that made them so.
    expected: [Ix; AHEAD],
    packets: usize,
}

impl Default for Foresight {
    fn default() -> Self {
        Self { served: [NIL; AHEAD], expected: [NIL; AHEAD], packets: 0 }
    }
}

impl Foresight {
    /// Leaf `ix` is being served. Asks for one that is expected later, and gives two that are expected before: the one that
    /// comes later and the one that comes soon.
    #[inline]
    pub(super) fn serve(&mut self, nodes: &mut Arena, ix: Ix) -> [Option<Ix>; 2] {
        let n = self.packets % AHEAD;
        self.packets = self.packets.wrapping_add(1);
        let before = std::mem::replace(&mut self.served[n], ix);
        if before != NIL {
            let node = nodes.at_mut(before);
            // Its place may be another's by now.
            if node.is_leaf {
                node.way = ix;
            }
        }
        let node = nodes.at(ix);
        let later = if node.is_leaf { node.way } else { NIL };
        self.expected[n] = later;
        if later != NIL {
            nodes.at(later).prefetch();
        }
        let expected = |packets: usize| {
            let ix = self.expected[(n + packets) % AHEAD];
            (ix != NIL).then_some(ix)
        };
        [expected(LATER), expected(SOON)]
    }
}
