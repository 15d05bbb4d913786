//! A measured class and what is leased for it.

use perhop_allocate::AskId;
use perhop_model::Name;
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};

/// Begins the names of leases of measured classes.
const MEASURED: &str = "measured";

/// A class of a port, by its logical name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Port.
    pub port: Name,
    /// Logical class.
    pub class: String,
}

impl Place {
    /// How the lease is called. Between its parts is what no name has.
    pub(super) fn lease(&self) -> String {
        format!("{MEASURED} {} {}", self.port, self.class)
    }

    /// Of the lease of this name, if it is one.
    pub(super) fn of_lease(name: &str) -> Option<Self> {
        let mut parts = name.split(' ');
        let (first, port, class) = (parts.next()?, parts.next()?, parts.next()?);
        let is_one = first == MEASURED && parts.next().is_none();
        Some(Self { port: Name::new(port).ok()?, class: class.to_owned() }).filter(|_| is_one)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Class {
    /// The router's name of it.
    pub(super) name: Name,
    pub(super) place: Option<Place>,
    /// What reservations over paths have there.
    pub(super) share: Rate,
    /// What the allocator has, and the router.
    pub(super) allocated: Rate,
    pub(super) in_router: Rate,
    /// What the allocator has asked for.
    pub(super) request: Option<(AskId, Rate)>,
    /// What is leased, and what is to be.
    pub(super) leased: Rate,
    pub(super) asked: Rate,
    pub(super) version: u64,
    /// The version that is being decided.
    pub(super) waits: Option<u64>,
    /// What was free has been asked for in place of all.
    pub(super) tried: bool,
    /// What is too much is given back then.
    pub(super) lower_at: Option<Instant>,
    /// More is not asked for before, and the pause until then.
    pub(super) retry_at: Option<Instant>,
    pause: Duration,
    /// Why it has less, as it was told last.
    pub(super) told: Option<(Code, Rate)>,
}

impl Class {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            place: None,
            share: Rate::ZERO,
            allocated: Rate::ZERO,
            in_router: Rate::ZERO,
            request: None,
            leased: Rate::ZERO,
            asked: Rate::ZERO,
            version: 0,
            waits: None,
            tried: false,
            lower_at: None,
            retry_at: None,
            pause: Duration::ZERO,
            told: None,
        }
    }

    /// What it asks for is refused: it pauses, twice as long each time.
    pub(super) fn pauses(&mut self, now: Instant, [least, most]: [Duration; 2]) {
        self.pause = self.pause.saturating_mul(2).max(least).min(most);
        self.retry_at = Some(now + self.pause);
    }

    /// It has what it has asked for, or may ask again.
    pub(super) fn goes_on(&mut self) {
        (self.tried, self.retry_at, self.pause, self.told) = (false, None, Duration::ZERO, None);
    }

    /// Nothing is leased.
    pub(super) fn forget(&mut self) {
        (self.leased, self.asked, self.waits) = (Rate::ZERO, Rate::ZERO, None);
        (self.tried, self.lower_at) = (false, None);
    }

    /// The most that it has.
    pub(super) fn has(&self) -> Rate {
        self.allocated.max(self.in_router)
    }

    /// What it may have.
    pub(super) fn may(&self) -> Rate {
        self.leased.saturating_add(self.share)
    }

    /// What is to be leased.
    pub(super) fn wanted(&self) -> Rate {
        let request = self.request.map_or(Rate::ZERO, |(_, rate)| rate);
        self.has().max(request).saturating_sub(self.share)
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.lower_at.into_iter().chain(self.retry_at).min()
    }
}
