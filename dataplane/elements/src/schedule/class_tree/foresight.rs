//! Which leaves will probably be served next, so that their memory can be brought near in time.
//!
//! Turns go around: leaves are served in the order in which they came to the end of their ring, at the end of a turn or when
//! their first packet came. So each remembers which one came to the end a few leaves after it. Following the rings
//! themselves would not do, because each step would have to wait for the memory it then asks for. What is remembered is a
//! hint: where it is wrong, memory is asked for in vain, and nothing else happens.

use super::arena::Arena;
use super::node::Ix;
use super::wheel::NIL;

/// Leaves from one to the one it remembers.
const AHEAD: usize = 12;
/// Packets before a leaf's turn at which what lies behind it is asked for.
const LATER: usize = 8;
/// Packets before its turn at which its first packet is.
const SOON: usize = 4;

#[derive(Debug)]
pub(super) struct Foresight {
    /// The leaves that came to the end of a ring last, by their number.
    joined: [Ix; AHEAD],
    joins: usize,
    /// The leaves expected, by the number of the packet that made them so.
    expected: [Ix; AHEAD],
    packets: usize,
}

impl Default for Foresight {
    fn default() -> Self {
        Self { joined: [NIL; AHEAD], joins: 0, expected: [NIL; AHEAD], packets: 0 }
    }
}

impl Foresight {
    /// Leaf `ix` comes to the end of its ring.
    #[inline]
    pub(super) fn join(&mut self, nodes: &mut Arena, ix: Ix) {
        let n = self.joins % AHEAD;
        self.joins = self.joins.wrapping_add(1);
        let before = std::mem::replace(&mut self.joined[n], ix);
        if before != NIL {
            let node = nodes.at_mut(before);
            // Its place may be another's by now.
            if node.is_leaf {
                node.way = ix;
            }
        }
    }

    /// Leaf `later`, or none, is expected to be served a few packets on. Asks for it, and gives two that were expected
    /// earlier: the one that comes later and the one that comes soon.
    #[inline]
    pub(super) fn expect(&mut self, nodes: &Arena, later: Ix) -> [Option<Ix>; 2] {
        let n = self.packets % AHEAD;
        self.packets = self.packets.wrapping_add(1);
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
