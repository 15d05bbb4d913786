//! Another law of who goes next, in place of the tree's own: the queues of leaves, changes, drains and figures stay those
//! of the tree.

use super::ClassTree;
use super::node::{EXCESS, Ix, ROOT, Row, State};
use super::params::NodeIndex;
use super::position;
use super::queue::LeafQueue;
use crate::schedule::altq_cbq::{CbqClass, CbqLaw, CbqLine};
use crate::schedule::hfsc::{Curves, HfscLaw};
use crate::schedule::hpd::{HpdGoal, HpdLaw};
use crate::schedule::htb::{HtbClass, HtbLaw};
use crate::schedule::jobs::{JobsClass, JobsLaw};
use crate::schedule::law::{Law, Loss, Waiting};
use crate::schedule::levels::{LevelClass, Levels};
use crate::schedule::wf2q::Wf2qTags;
use perhop_element::Cx;
use perhop_packet::Packet;
use perhop_units::{Duration, Instant, QueueLimit, Rate};

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
    /// Strict priority of leaves ([`crate::schedule::levels`]).
    Priority(Vec<(NodeIndex, LevelClass)>),
    /// Class-based queueing ([`crate::schedule::altq_cbq`]).
    Cbq(Vec<(NodeIndex, CbqClass)>, CbqLine),
    /// Waiting times of leaves in proportion and within bounds ([`crate::schedule::hpd`]).
    Hpd(Vec<(NodeIndex, HpdGoal)>, RuledLine),
    /// Waiting times and losses of leaves in proportion and within bounds ([`crate::schedule::jobs`]). The limit is of all
    /// leaves together.
    Jobs(Vec<(NodeIndex, JobsClass)>, RuledLine, QueueLimit),
}

/// The line of laws that follow waiting times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuledLine {
    /// Its rate; above zero.
    pub rate: Rate,
    /// Largest frame on it, in bytes.
    pub frame: u64,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a rule is boxed as a whole")]
enum Laws {
    Hfsc(HfscLaw),
    Htb(HtbLaw),
    Wf2q(Wf2qTags),
    Priority(Levels),
    Cbq(CbqLaw),
    Hpd(HpdLaw),
    Jobs(JobsLaw),
}

/// The same of each of them.
macro_rules! each {
    ($laws:expr, $method:ident($($told:expr),*)) => {
        match $laws {
            Laws::Hfsc(law) => Law::$method(law, $($told),*),
            Laws::Htb(law) => Law::$method(law, $($told),*),
            Laws::Wf2q(law) => Law::$method(law, $($told),*),
            Laws::Priority(law) => Law::$method(law, $($told),*),
            Laws::Cbq(law) => Law::$method(law, $($told),*),
            Laws::Hpd(law) => Law::$method(law, $($told),*),
            Laws::Jobs(law) => Law::$method(law, $($told),*),
        }
    };
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
    /// Packets that came before this say nothing about when.
    since: Instant,
}

impl Rule {
    /// The law of a specification; at most [`MAX_RULED`] classes, the rest is ignored.
    pub fn new(spec: &RuleSpec) -> Self {
        fn of<T: Clone>(classes: &[(NodeIndex, T)], law: impl FnOnce(Vec<T>) -> Laws) -> (Vec<Ix>, Laws) {
            let known = classes.iter().take(MAX_RULED);
            let (places, told) =
                known.filter_map(|(n, told)| position(*n).map(|ix| (ix, told.clone()))).unzip();
            (places, law(told))
        }
        let (places, law) = match spec {
            RuleSpec::Hfsc(classes, slack) => of(classes, |told| Laws::Hfsc(HfscLaw::new(&told, *slack))),
            RuleSpec::Htb(classes) => of(classes, |told| Laws::Htb(HtbLaw::new(&told))),
            RuleSpec::Wf2q(classes, frame) => of(classes, |told| Laws::Wf2q(Wf2qTags::new(&told, *frame))),
            RuleSpec::Priority(classes) => of(classes, |told| Laws::Priority(Levels::new(&told))),
            RuleSpec::Cbq(classes, line) => of(classes, |told| Laws::Cbq(CbqLaw::new(line, &told))),
            RuleSpec::Hpd(classes, line) => {
                of(classes, |told| Laws::Hpd(HpdLaw::new(line.rate, line.frame, told)))
            }
            RuleSpec::Jobs(classes, line, limit) => {
                of(classes, |told| Laws::Jobs(JobsLaw::new(line.rate, *limit, told)))
            }
        };
        let mut numbers = vec![NONE; places.iter().max().map_or(0, |most| *most as usize + 1)];
        for (number, ix) in places.iter().enumerate() {
            numbers[*ix as usize] = number as u32;
        }
        Self { law, active: vec![false; places.len()], places, numbers, since: Instant::ZERO }
    }

    /// Goes on with what a law of the same kind knows of the same classes: what they have used. Turns begin anew.
    fn adopt(&mut self, now: Instant, old: &Self) {
        if old.follows_waits() {
            self.since = old.since;
        }
        for (number, ix) in self.places.iter().enumerate() {
            let Some(of) = old.number(*ix) else { continue };
            match (&mut self.law, &old.law) {
                (Laws::Hfsc(law), Laws::Hfsc(old)) => law.adopt(now, number, old, of),
                (Laws::Htb(law), Laws::Htb(old)) => law.adopt(now, number, old, of),
                (Laws::Wf2q(law), Laws::Wf2q(old)) => law.adopt(now, number, old, of),
                (Laws::Priority(law), Laws::Priority(old)) => law.adopt(now, number, old, of),
                (Laws::Cbq(law), Laws::Cbq(old)) => law.adopt(now, number, old, of),
                (Laws::Hpd(law), Laws::Hpd(old)) => law.adopt(now, number, old, of),
                (Laws::Jobs(law), Laws::Jobs(old)) => law.adopt(now, number, old, of),
                _ => {}
            }
        }
    }

    /// Whether it goes by how long packets have waited.
    fn follows_waits(&self) -> bool {
        each!(&self.law, follows_waits())
    }

    /// Whether it decides who loses, see [`Law::shares_buffer`].
    fn shares_buffer(&self) -> bool {
        each!(&self.law, shares_buffer())
    }

    /// A packet of `len` bytes on the line comes to a leaf, before it is known whether it finds room.
    fn arrives(&mut self, now: Instant, ix: Ix, len: u64) {
        if let Some(number) = self.number(ix) {
            each!(&mut self.law, arrives(now, number, len));
        }
    }

    /// A leaf lost a packet.
    fn lost(&mut self, ix: Ix, len: u64) {
        if let Some(number) = self.number(ix) {
            each!(&mut self.law, lost(number, len));
        }
    }

    /// Whom it would rather lose, see [`Law::loses`].
    fn loses(&mut self, packets: u64, bytes: u64) -> Option<(Ix, Loss)> {
        let (number, why) = each!(&mut self.law, loses(packets, bytes))?;
        Some((self.places[number], why))
    }

    /// Looks at what waits in all leaves, as a law that follows waits needs before it is asked anything.
    fn look(&mut self, waiting: impl Fn(Ix) -> Waiting) {
        for (number, ix) in self.places.iter().enumerate() {
            let waiting = waiting(*ix);
            self.active[number] = waiting.head > 0;
            each!(&mut self.law, see(number, waiting));
        }
    }

    fn number(&self, ix: Ix) -> Option<usize> {
        let number = self.numbers.get(ix as usize).copied().unwrap_or(NONE);
        (number != NONE).then_some(number as usize)
    }

    /// A leaf has packets, the first of `len` bytes on the line.
    fn announce(&mut self, now: Instant, ix: Ix, len: u64) {
        let Some(number) = self.number(ix) else {
            debug_assert!(false, "every leaf is known to the law");
            return;
        };
        if !std::mem::replace(&mut self.active[number], true) {
            each!(&mut self.law, became_active(now, number, len));
        }
    }

    fn choose(&mut self, now: Instant) -> Option<(usize, Ix)> {
        let number = each!(&mut self.law, choose(now))?;
        Some((number, self.places[number]))
    }

    /// The leaf that was chosen sent `len` bytes on the line that had come at `came`; the length of its next packet.
    fn sent(&mut self, now: Instant, number: usize, len: u64, next: Option<u64>, came: Instant) {
        self.active[number] = next.is_some();
        let came = came.max(self.since);
        each!(&mut self.law, sent(now, number, len, next, came));
    }

    /// The leaf that was chosen has nothing to send after all.
    fn withdrawn(&mut self, now: Instant, number: usize) {
        self.active[number] = false;
        each!(&mut self.law, withdrawn(now, number));
    }

    /// When a leaf may send, after none was found that may.
    fn next_wakeup(&self) -> Option<Instant> {
        each!(&self.law, next_wakeup())
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
        if let Some(new) = &mut rule {
            new.since = now;
            if let Some(old) = &self.rule {
                new.adopt(now, old);
            }
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
        if let Some(rule) = &mut self.rule
            && let Some(len) = self.nodes.at(ix).queue().and_then(|q| q.head_len())
            && self.nodes.at(ix).state != State::Ended
        {
            rule.announce(now, ix, self.link.charge(len));
        }
    }

    /// The leaf that the law in force has go next.
    #[inline]
    pub(super) fn next_leaf(&mut self, now: Instant) -> Option<(Ix, Row)> {
        if self.rule.is_none() { self.pick() } else { self.next_ruled(now) }
    }

    #[inline(never)]
    fn next_ruled(&mut self, now: Instant) -> Option<(Ix, Row)> {
        self.look(now);
        let rule = self.rule.as_mut()?;
        loop {
            let (number, ix) = rule.choose(now)?;
            let node = self.nodes.at(ix);
            let sends = !matches!(node.state, State::Ended | State::Free);
            if sends && node.queue().is_some_and(|q| !q.is_empty()) {
                return Some((ix, EXCESS));
            }
            // What it held is gone otherwise than by being sent: at the end of a drain.
            rule.withdrawn(now, number);
        }
    }

    /// A packet for a tree under another law.
    #[inline(never)]
    pub(super) fn accept_ruled(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        let now = cx.now();
        let ix = position(NodeIndex(packet.meta().leaf.0)).filter(|ix| self.nodes.holds(*ix));
        let len = self.link.charge(packet.len() as u64);
        if let (Some(rule), Some(ix)) = (&mut self.rule, ix)
            && self.nodes.at(ix).state == State::Live
        {
            rule.arrives(now, ix, len);
            if rule.follows_waits() {
                packet.meta_mut().queued_at = now;
            }
        }
        self.accept(cx, packet);
        self.shed(cx);
    }

    /// Shows a law that follows waits what waits.
    fn look(&mut self, now: Instant) {
        let link = self.link;
        let nodes = &self.nodes;
        let Some(rule) = self.rule.as_mut().filter(|rule| rule.follows_waits()) else { return };
        let since = rule.since;
        rule.look(|ix| {
            if !nodes.holds(ix) || matches!(nodes.at(ix).state, State::Ended | State::Free) {
                return Waiting::default();
            }
            nodes.at(ix).queue().map_or(Waiting::default(), |queue| queue.waiting(now, since, &link))
        });
    }

    /// Tells the law that a leaf's own queue lost `bytes` on the line.
    pub(super) fn tell_loss(&mut self, ix: Ix, bytes: u64) {
        if let Some(rule) = &mut self.rule {
            rule.lost(ix, bytes);
        }
    }

    /// Drops whom the law would rather lose, after something came or went.
    #[inline(never)]
    pub(super) fn shed(&mut self, cx: &mut Cx<'_>) {
        while self.rule.as_deref().is_some_and(Rule::shares_buffer) {
            self.look(cx.now());
            let wire = self.link.charge_all(self.held_bytes, self.held);
            let loser = self.rule.as_mut().and_then(|rule| rule.loses(self.held, wire));
            if !loser.is_some_and(|(ix, why)| self.lose_head(cx, ix, why)) {
                break;
            }
        }
    }

    /// Drops the oldest packet of a leaf, of several flows that of one of them. Whether there was one.
    fn lose_head(&mut self, cx: &mut Cx<'_>, ix: Ix, why: Loss) -> bool {
        let now = cx.now();
        let Some(packet) = self.nodes.at_mut(ix).queue_mut().and_then(|queue| queue.pop(now)) else {
            return false;
        };
        self.chosen = None;
        let len = packet.len() as u64;
        let bytes = self.link.charge(len);
        self.held -= 1;
        self.held_bytes -= len;
        let cold = self.nodes.cold_mut(ix);
        cold.dropped_bytes += bytes;
        match why {
            Loss::Full => cold.dropped_queue_full += 1,
            Loss::Late => cold.dropped_early += 1,
        }
        self.tell_loss(ix, bytes);
        cx.drop(packet, why.reason());
        // The next one of a queue that drops early is undecided yet.
        if let Some(LeafQueue::Early(queue)) = self.nodes.at_mut(ix).queue_mut() {
            let change = queue.decide(cx);
            self.book(ix, change);
        }
        let node = self.nodes.at(ix);
        if node.state == State::Draining && node.queue().is_some_and(|q| q.is_empty()) {
            self.free(ix);
        }
        true
    }

    /// Books `bytes` sent by leaf `ix` on its whole path, and with the law. They came at `came`, if that is known.
    pub(super) fn charge_ruled(&mut self, ix: Ix, bytes: u64, now: Instant, came: Instant) {
        let mut at = ix;
        while at != ROOT {
            let node = self.nodes.at_mut(at);
            node.packets += 1;
            node.bytes += bytes;
            // The law knows what is whose, the tree does not.
            node.guaranteed += bytes;
            at = node.parent;
        }
        let next = self.nodes.at(ix).queue().and_then(|q| q.head_len()).map(|len| self.link.charge(len));
        if let Some(rule) = &mut self.rule {
            let number = rule.numbers[ix as usize] as usize;
            rule.sent(now, number, bytes, next, came);
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
