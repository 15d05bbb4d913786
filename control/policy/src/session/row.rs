//! A subscriber's session, as it is kept.

use crate::compile::{Present, Rates};
use ipnet::IpNet;
use perhop_model::Name;
use serde::{Deserialize, Serialize};

/// Where a subscriber was, until the router where it is has what it should.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// The router.
    pub router: Name,
    /// What it has there.
    pub present: Present,
    /// It is gone from there then at the latest, ms since 1970.
    pub until_ms: u64,
}

/// A session: table `session`, whose key is the subscriber, so that nobody has two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Who.
    pub subscriber: Name,
    /// How whoever reports it calls it.
    pub id: String,
    /// Where: the router.
    pub router: Name,
    /// Its port.
    pub port: Name,
    /// Addresses of the session, besides those of the subscriber.
    pub prefixes: Vec<IpNet>,
    /// The contract that it was given; none = the subscriber's.
    pub given: Option<Name>,
    /// Rates that it was given.
    pub rates: Rates,
    /// The contract that counts: the given one, that of its time of the day, or that of a quota that is used up.
    pub sla: Name,
    /// How often it moved: a stop of an earlier place is told by it.
    pub moves: u64,
    /// Where it was.
    pub leaving: Vec<Leaving>,
    /// By whom it is reported: `radius`, `api`, `cli`.
    pub source: String,
    /// When it began, wherever that was, ms since 1970.
    pub began_ms: u64,
    /// When it came here.
    pub since_ms: u64,
    /// When it was heard of last.
    pub seen_ms: u64,
    /// When it ends, if it was given a time.
    pub expires_ms: Option<u64>,
    /// After which silence it ends, if it was given one.
    pub idle_ms: Option<u64>,
    /// Octets of the session, both directions together, over all of its places.
    pub octets: u64,
    /// The count of octets that was reported last for this place.
    pub counted: u64,
}

/// What a subscriber has used of a quota, over all of its sessions: table `usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// When the period began, ms since 1970.
    pub since_ms: u64,
    /// Octets in it.
    pub octets: u64,
}

/// One change of what is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A session is as this.
    Session(Box<SessionRow>),
    /// A subscriber has none any more.
    SessionGone(Name),
    /// A subscriber has used so much.
    Usage(Name, Usage),
}

impl SessionRow {
    /// Where it has something: first where it is. Without the subscriber's own addresses.
    pub(super) fn places(&self) -> Vec<(Name, Present)> {
        let present = Present {
            port: self.port.clone(),
            prefixes: self.prefixes.clone(),
            sla: self.sla.clone(),
            rates: self.rates,
        };
        let here = std::iter::once((self.router.clone(), present));
        here.chain(self.leaving.iter().map(|old| (old.router.clone(), old.present.clone()))).collect()
    }
}

/// A presence with the subscriber's own addresses, as routers need it.
pub(super) fn with_own(present: &Present, own: &[IpNet]) -> Present {
    let mut prefixes: Vec<IpNet> = own.iter().chain(&present.prefixes).copied().collect();
    prefixes.sort();
    prefixes.dedup();
    Present { prefixes, ..present.clone() }
}
