//! What the tests' routers answer, and parts that want what they are told to.

use crate::message::Notice;
use crate::part::{Look, Part, Parts};
use crate::reading::Readings;
use perhop_model::{AllocationSpec, ErrorItem, Kind, Name, ObjectState, Op, Outcome, Reply, TxnId};
use perhop_units::{Duration, Instant};

/// The answer to a transaction: committed unless there are errors.
pub(crate) fn reply(epoch: u64, revision: u64, txn_id: TxnId, errors: Vec<ErrorItem>) -> Reply {
    Reply {
        epoch,
        revision,
        generation: 1,
        txn_id,
        outcome: if errors.is_empty() { Outcome::Committed } else { Outcome::Rejected },
        replayed: false,
        received_ns: 0,
        committed_ns: 0,
        ops: Vec::new(),
        errors,
        retry_after_ms: None,
    }
}

/// A part that wants what it is told to, and notes what it hears.
#[derive(Debug, Default)]
pub(crate) struct Simple {
    pub(crate) forced: bool,
    pub(crate) held: Vec<AllocationSpec>,
    pub(crate) wish: Vec<Op>,
    pub(crate) look: Option<Instant>,
    pub(crate) committed: usize,
    pub(crate) refused: Vec<ErrorItem>,
    pub(crate) seen: Vec<ObjectState>,
    pub(crate) heard: Vec<&'static str>,
}

impl Part<Notice> for Simple {
    fn kinds(&self) -> &[Kind] {
        if self.forced { &[Kind::AbrPolicy, Kind::Port] } else { &[Kind::Class, Kind::Port] }
    }

    fn is_forced(&self) -> bool {
        self.forced
    }

    fn objects(&mut self, _now: Instant, objects: &[ObjectState]) {
        self.seen = objects.to_vec();
        self.heard.push("objects");
    }

    fn readings(&mut self, _now: Instant, _readings: &Readings) {
        self.heard.push("readings");
    }

    fn missed(&mut self, _now: Instant) {
        self.heard.push("missed");
    }

    fn gone(&mut self, _now: Instant) {
        self.heard.push("gone");
    }

    fn restarted(&mut self, _now: Instant) {
        self.heard.push("restarted");
    }

    fn tick(&mut self, _now: Instant, _look: Look) {}

    fn next_wakeup(&self, _look: Look) -> Option<Instant> {
        None
    }

    fn next_look(&self) -> Option<Instant> {
        self.look
    }

    fn looked(&mut self, _now: Instant) {
        self.look = None;
    }

    fn next_wish(&self) -> Option<Instant> {
        None
    }

    fn owes(&self) -> bool {
        !self.wish.is_empty()
    }

    fn wants(&mut self, _now: Instant) -> Vec<Op> {
        std::mem::take(&mut self.wish)
    }

    fn committed(&mut self, _now: Instant) {
        self.committed += 1;
    }

    fn refused(&mut self, _now: Instant, _pause: Duration, errors: &[ErrorItem]) {
        self.refused = errors.to_vec();
    }

    fn allocation(&self, class: &Name) -> Option<&AllocationSpec> {
        self.held.iter().find(|held| held.class == *class)
    }

    fn notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }
}

/// Two of them.
#[derive(Debug, Default)]
pub(crate) struct Pair(pub(crate) Simple, pub(crate) Simple);

impl Parts for Pair {
    type Notice = Notice;

    fn each(&self) -> impl Iterator<Item = &dyn Part<Notice>> {
        [&self.0 as &dyn Part<Notice>, &self.1].into_iter()
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut dyn Part<Notice>> {
        [&mut self.0 as &mut dyn Part<Notice>, &mut self.1].into_iter()
    }
}
