//! What looks after something of a router: a part of its agent.
//!
//! A part is told what the router has and has counted, decides, and says what it wants as operations: its *wish*. It knows
//! nothing of claims, epochs and transactions, and nothing of other parts.

use crate::domain::DomainNews;
use crate::reading::Readings;
use perhop_model::{AllocationSpec, ErrorItem, Kind, Name, ObjectState, Op};
use perhop_units::{Duration, Instant, Rate};

/// Whether counters can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// At once.
    Now,
    /// An answer is on its way that comes first: what is due meanwhile has missed nothing.
    Awaited,
    /// Not before the router is there.
    Never,
}

/// See the module. Every time is of one clock; waking a part early is harmless. `N` is what its agent may have to tell a
/// person, the part's own being one of it.
pub trait Part<N> {
    /// Kinds of objects that it must know.
    fn kinds(&self) -> &[Kind];

    /// Whether it changes what belongs to others: its wish is forced, and goes before those of parts that do not.
    fn is_forced(&self) -> bool;

    /// All objects of the router of its kinds, but of profiles and filters the agent's own alone; others are passed over. Of an allocation that is the sum of what several parts
    /// hold it sees what it holds itself.
    fn objects(&mut self, now: Instant, objects: &[ObjectState]);

    /// What the router has counted, by [`Readings::at`].
    fn readings(&mut self, now: Instant, readings: &Readings);

    /// A reading came that cannot be used.
    fn missed(&mut self, _now: Instant) {}

    /// The router is gone: nothing that was wanted or looked at will be answered.
    fn gone(&mut self, now: Instant);

    /// Another life of the router has answered: as [`Part::gone`], but it is there, and its objects come next.
    fn restarted(&mut self, _now: Instant) {}

    /// A link will have another rate, from `at` on.
    fn announced(&mut self, _now: Instant, _link: &Name, _rate: Rate, _at: Instant) {}

    /// The controller of the domain has said this.
    fn domain(&mut self, _now: Instant, _news: &DomainNews) {}

    /// The controller has decided what a lease has, bit/s, of that a part has asked for by a question of this number; and why not that.
    fn decided(
        &mut self,
        _now: Instant,
        _lease: &str,
        _number: u64,
        _bps: u64,
        _refused: Option<&ErrorItem>,
    ) {
    }

    /// What is decided beside the router needs so much, bit/s, of a logical class.
    fn leased(&mut self, _class: &str, _number: u64, _bps: u64) {}

    /// Time passes; called after every input.
    fn tick(&mut self, now: Instant, look: Look);

    /// When it must be told the time at the latest, besides [`Part::next_look`] and [`Part::next_wish`].
    fn next_wakeup(&self, look: Look) -> Option<Instant>;

    /// When it wants the counters to be looked at.
    fn next_look(&self) -> Option<Instant>;

    /// They are being looked at, for whichever part.
    fn looked(&mut self, now: Instant);

    /// When it may have a wish.
    fn next_wish(&self) -> Option<Instant>;

    /// Whether the router does not have yet what it should.
    fn owes(&self) -> bool;

    /// Its wish, which is on its way from now on; nothing if it has none.
    fn wants(&mut self, now: Instant) -> Vec<Op>;

    /// Its wish is in force.
    fn committed(&mut self, now: Instant);

    /// The router took nothing of the transaction with its wish, and is not to be asked again before the time of `pause`
    /// has passed. An error that is about an operation of its wish has the number that it has there; without errors nothing
    /// is known to be wrong with its wish: another part's was at fault, or went first.
    fn refused(&mut self, now: Instant, pause: Duration, errors: &[ErrorItem]);

    /// What it holds for a class in the router, by what was committed last of its own wishes or, before any was, by what it
    /// found there: other parts' wishes do not take that away.
    fn allocation(&self, _class: &Name) -> Option<&AllocationSpec> {
        None
    }

    /// What there is to tell.
    fn notices(&mut self) -> Vec<N>;
}

/// The parts of one agent, in the order in which they are told and asked.
pub trait Parts {
    /// What the agent may have to tell a person.
    type Notice: From<crate::message::Notice>;

    /// All parts.
    fn each(&self) -> impl Iterator<Item = &dyn Part<Self::Notice>>;

    /// All parts.
    fn each_mut(&mut self) -> impl Iterator<Item = &mut dyn Part<Self::Notice>>;
}
