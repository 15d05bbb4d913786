//! Places that classes have left for others, until they are empty.
//!
//! A class that gets another parent, or becomes a leaf or an interior class, gets another slot of its port's tree. What
//! waits in the old one belongs to a class that exists, so no deadline may drop it: the old slot goes on being
//! scheduled, takes nothing (no table of leaves names it) and is removed when it is empty.

use perhop_elements::schedule::{ClassTree, NodeIndex};
use perhop_packet::PortId;
use std::collections::VecDeque;

/// A slot whose class has another now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) index: NodeIndex,
    /// Slots below it that still held something when it was left.
    pub(super) below: Vec<NodeIndex>,
}

/// Slots that one change leaves in one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MovedFrom {
    pub(super) port: PortId,
    /// Which tree of the port.
    pub(super) generation: u32,
    pub(super) slots: Vec<Moved>,
}

/// What has become of a slot that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It holds packets, or one below it does.
    Waits,
    /// It is empty for good.
    Empty,
    /// Its class was deleted meanwhile, and the slot is removed as those of all deleted classes are.
    Removed,
}

impl Moved {
    /// Looks at the slot in its tree. O(1): of the slots below it forgets at most one a call.
    pub(super) fn look(&mut self, tree: &ClassTree) -> Left {
        let Some(class) = tree.class(self.index).filter(|c| !c.draining) else { return Left::Removed };
        if let Some(below) = self.below.last() {
            let there = tree.class(*below).is_some_and(|c| c.params.parent == Some(self.index));
            if there {
                return Left::Waits;
            }
            self.below.pop();
        }
        if class.backlog_packets > 0 || !self.below.is_empty() {
            return Left::Waits;
        }
        Left::Empty
    }
}

/// A worker's list of them, looked at in turn.
#[derive(Debug, Default)]
pub(super) struct LeftSlots {
    lists: VecDeque<MovedFrom>,
    /// Position in the first list.
    at: usize,
}

impl LeftSlots {
    /// Adds those of a change. O(ports of the change).
    pub(super) fn add(&mut self, lists: &mut Vec<MovedFrom>) {
        self.lists.extend(lists.drain(..));
    }

    /// The next one, with its port and tree. `None` when there is none.
    pub(super) fn next(&mut self) -> Option<(PortId, u32, &mut Moved)> {
        while self.lists.front().is_some_and(|list| list.slots.is_empty()) {
            self.lists.pop_front();
            self.at = 0;
        }
        if self.at >= self.lists.front()?.slots.len() {
            self.lists.rotate_left(1);
            self.at = 0;
            // Lists behind the first may have run empty, but not all of them: the first has not.
            while self.lists.front().is_some_and(|list| list.slots.is_empty()) {
                self.lists.pop_front();
            }
        }
        let list = self.lists.front_mut()?;
        let at = self.at;
        self.at += 1;
        Some((list.port, list.generation, list.slots.get_mut(at)?))
    }

    /// Forgets the one that [`LeftSlots::next`] gave last.
    pub(super) fn forget(&mut self) {
        self.at -= 1;
        self.lists.front_mut().expect("`next` gave one of the first list").slots.swap_remove(self.at);
    }

    /// How many there are. O(changes whose slots are not all empty).
    pub(super) fn len(&self) -> usize {
        self.lists.iter().map(|list| list.slots.len()).sum()
    }
}
