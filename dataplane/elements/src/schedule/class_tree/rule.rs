//! Another law of who goes next, in place of the tree's own: the queues of leaves, changes, drains and figures stay those
//! of the tree.

use super::ClassTree;
use super::node::{EXCESS, Ix, ROOT, Row, State};
use super::params::NodeIndex;
use super::position;
use crate::schedule::hfsc::{Curves, HfscLaw};
use crate::schedule::htb::{HtbClass, HtbLaw};
use crate::schedule::leaves::Law;
use crate::schedule::wf2q::Wf2qTags;
use perhop_units::{Duration, Instant};

/// Most classes of a tree under another law, those that drain included.
pub const MAX_RULED: usize = 127;

/// A law and what it is told of each class of a tree, parents before children. Parents are given by their number in the
/// list. Every leaf that holds or may get packets must be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSpec {
    /// Hierarchical fair service curves ([`crate::schedule::hfsc`]). The time is that of a largest frame on the line.
    Hfsc(Vec<(NodeIndex, Curves)>, Duration),
    /// Hierarchical token buckets ([`crate::schedule::htb`]).
    Htb(Vec<(NodeIndex, HtbClass)>),
    /// Weights of leaves, to a packet ([`crate::schedule::wf2q`]). The number is the bytes of the largest frame.
    Wf2q(Vec<(NodeIndex, u32)>, u64),
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a rule is boxed as a whole")]
enum Laws {
    Hfsc(HfscLaw),
    Htb(HtbLaw),
    Wf2q(Wf2qTags),
}

/// Position of no class.
const NONE: u32 = u32::MAX;

/// A law with all its memory, made outside the packet thread.
#[derive(Debug)]
pub struct Rule {
    law: Laws,
    /// By number in the law.
    places: Vec<Ix>,
    /// By position in the tree.
    numbers: Vec<u32>,
    /// By number: whether the law knows that the leaf has packets.
    active: Vec<bool>,
}

impl Rule {
    /// The law of a specification; at most [`MAX_RULED`] classes, the rest is ignored.
    pub fn new(spec: &RuleSpec) -> Self {
        fn split<T: Clone>(classes: &[(NodeIndex, T)]) -> (Vec<Ix>, Vec<T>) {
            let known = classes.iter().take(MAX_RULED);
            known.filter_map(|(n, told)| position(*n).map(|ix| (ix, told.clone()))).unzip()
        }
        let (places, law) = match spec {
            RuleSpec::Hfsc(classes, slack) => {
                let (places, told) = split(classes);
                (places, Laws::Hfsc(HfscLaw::new(&told, *slack)))
            }
            RuleSpec::Htb(classes) => {
                let (places, told) = split(classes);
                (places, Laws::Htb(HtbLaw::new(&told)))
            }
            RuleSpec::Wf2q(classes, frame) => {
                let (places, told) = split(classes);
                (places, Laws::Wf2q(Wf2qTags::new(&told, *frame)))
            }
        };
        let mut numbers = vec![NONE; places.iter().max().map_or(0, |most| *most as usize + 1)];
        for (number, ix) in places.iter().enumerate() {
            numbers[*ix as usize] = number as u32;
        }
        Self { law, active: vec![false; places.len()], places, numbers }
    }

    /// Goes on with what a law of the same kind knows of the same classes: what they have used. Turns begin anew.
    fn adopt(&mut self, now: Instant, old: &Self) {
        for (number, ix) in self.places.iter().enumerate() {
            let Some(of) = old.numbers.get(*ix as usize).copied().filter(|of| *of != NONE) else { continue };
            match (&mut self.law, &old.law) {
                (Laws::Hfsc(law), Laws::Hfsc(old)) => law.adopt(now, number, old, of as usize),
                (Laws::Htb(law), Laws::Htb(old)) => law.adopt(now, number, old, of as usize),
                _ => {}
            }
        }
    }

    /// A leaf has packets, the first of `len` bytes on the line.
    fn announce(&mut self, now: Instant, ix: Ix, len: u64) {
        let number = self.numbers.get(ix as usize).copied().unwrap_or(NONE) as usize;
        let Some(active) = self.active.get_mut(number) else {
            debug_assert!(false, "every leaf is known to the law");
            return;
        };
        if std::mem::replace(active, true) {
            return;
        }
        match &mut self.law {
            Laws::Hfsc(law) => law.became_active(now, number, len),
            Laws::Htb(law) => law.became_active(now, number, len),
            Laws::Wf2q(tags) => tags.became_active(number, len),
        }
    }

    fn choose(&mut self, now: Instant) -> Option<(usize, Ix)> {
        let number = match &mut self.law {
            Laws::Hfsc(law) => law.choose(now),
            Laws::Htb(law) => law.choose(now),
            Laws::Wf2q(tags) => tags.choose(),
        }?;
        Some((number, self.places[number]))
    }

    /// The leaf that was chosen sent `len` bytes on the line, or nothing; the length of its next packet.
    fn sent(&mut self, now: Instant, number: usize, len: u64, next: Option<u64>) {
        self.active[number] = next.is_some();
        match &mut self.law {
            Laws::Hfsc(law) => law.sent(now, number, len, next),
            Laws::Htb(law) => law.sent(now, number, len, next),
            Laws::Wf2q(tags) if len == 0 && next.is_none() => tags.withdrawn(number),
            Laws::Wf2q(tags) => tags.sent(number, len, next),
        }
    }

    /// When a leaf may send, after none was found that may.
    fn next_wakeup(&self) -> Option<Instant> {
        match &self.law {
            Laws::Hfsc(law) => law.next_wakeup(),
            Laws::Htb(law) => law.next_wakeup(),
            Laws::Wf2q(_) => None,
        }
    }
}

impl ClassTree {
    /// Whether another law than the tree's own says who goes next.
    pub fn is_ruled(&self) -> bool {
        self.rule.is_some()
    }

    /// Goes on by another law, or by its own. Nothing that waits is lost; turns begin anew, as if all that waits had come
    /// now. Gives the one before. O(slots).
    pub(super) fn set_rule(&mut self, now: Instant, mut rule: Option<Box<Rule>>) -> Option<Box<Rule>> {
        if let (Some(new), Some(old)) = (&mut rule, &self.rule) {
            new.adopt(now, old);
        }
        let before = std::mem::replace(&mut self.rule, rule);
        self.chosen = None;
        self.settled = None;
        for ix in ROOT + 1..self.slots() {
            if self.nodes.at(ix).state == State::Free {
                continue;
            }
            if self.nodes.at(ix).queue().is_some() {
                self.refresh_leaf(ix, now);
            }
            self.sync(ix);
            self.announce(ix, now);
        }
        before
    }

    /// A leaf that was empty has packets: tells the law.
    pub(super) fn announce(&mut self, ix: Ix, now: Instant) {
        let overhead = u64::from(self.link.overhead_bytes);
        if let Some(rule) = &mut self.rule
            && let Some(len) = self.nodes.at(ix).queue().and_then(|q| q.head_len())
            && self.nodes.at(ix).state != State::Ended
        {
            rule.announce(now, ix, len + overhead);
        }
    }

    /// The leaf that the law in force has go next.
    #[inline]
    pub(super) fn next_leaf(&mut self, now: Instant) -> Option<(Ix, Row)> {
        if self.rule.is_none() { self.pick() } else { self.next_ruled(now) }
    }

    fn next_ruled(&mut self, now: Instant) -> Option<(Ix, Row)> {
        let rule = self.rule.as_mut()?;
        loop {
            let (number, ix) = rule.choose(now)?;
            let node = self.nodes.at(ix);
            let sends = !matches!(node.state, State::Ended | State::Free);
            if sends && node.queue().is_some_and(|q| !q.is_empty()) {
                return Some((ix, EXCESS));
            }
            // What it held is gone otherwise than by being sent: at the end of a drain.
            rule.sent(now, number, 0, None);
        }
    }

    /// Books `bytes` sent by leaf `ix` on its whole path, and with the law.
    pub(super) fn charge_ruled(&mut self, ix: Ix, bytes: u64, now: Instant) {
        let mut at = ix;
        while at != ROOT {
            let node = self.nodes.at_mut(at);
            node.packets += 1;
            node.bytes += bytes;
            // The law knows what is whose, the tree does not.
            node.guaranteed += bytes;
            at = node.parent;
        }
        let overhead = u64::from(self.link.overhead_bytes);
        let next = self.nodes.at(ix).queue().and_then(|q| q.head_len()).map(|len| len + overhead);
        if let Some(rule) = &mut self.rule {
            let number = rule.numbers[ix as usize] as usize;
            rule.sent(now, number, bytes, next);
        }
    }

    /// When the law in force may have somebody go, if nobody may now.
    pub(super) fn ruled_wakeup(&self) -> Option<Instant> {
        self.rule.as_ref().and_then(|rule| rule.next_wakeup())
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
