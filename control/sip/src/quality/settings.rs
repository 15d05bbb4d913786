//! What a proxy is told about reservations.

use super::header::Mode;
use crate::sdp::{CodecTable, Kind};
use perhop_units::Duration;
use std::net::IpAddr;

/// Configuration of [`super::Calls`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The own domain.
    pub realm: String,
    /// The edge router of phones that are in none of [`Self::edges`].
    pub er: String,
    /// Edge routers by network of the phone; the first that fits counts.
    pub edges: Vec<Edge>,
    /// What is proposed for calls of own callers; own callees follow what the caller's side proposes.
    pub mode: Mode,
    /// Which edge router is asked for the caller.
    pub ask: Ask,
    /// Whether a provisional response with a description is held until there is a reservation; otherwise only a 2xx is. Phones that ask for
    /// preconditions (RFC 3312) send such a response before they ring.
    pub early: bool,
    /// What becomes of a call that is refused.
    pub on_refusal: OnRefusal,
    /// Who gets reservations: the first rule that fits counts, and who fits none gets them.
    pub rules: Vec<Rule>,
    /// Kinds of media that are reserved for.
    pub kinds: Vec<Kind>,
    /// The service class that is asked for.
    pub class: String,
    /// Priorities by value of `Resource-Priority` (RFC 4412); 0 for any other.
    pub priorities: Vec<(String, u8)>,
    /// How long an answer may take before it counts as a refusal.
    pub patience: Duration,
    /// How long a reservation lives without being renewed; it is renewed after half of that.
    pub lifetime: Duration,
    /// The longest call. One that is longer keeps on, without a reservation.
    pub longest: Duration,
    /// What codecs take.
    pub codecs: CodecTable,
    /// Most calls; one more goes without a reservation.
    pub most_calls: usize,
}

/// An edge router and the network of its phones.
#[derive(Clone, Debug)]
pub struct Edge {
    /// An address of the network.
    pub address: IpAddr,
    /// Length of its prefix.
    pub prefix: u8,
    /// The router's name.
    pub er: String,
}

/// Who is asked for a caller's reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The caller's own edge router.
    Own,
    /// The callee's, in whose domain it is to be decided.
    Far,
}

/// What becomes of a call whose reservation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefusal {
    /// It goes on without.
    BestEffort,
    /// It is refused with this status code: 488 or 580.
    Refuse(u16),
}

/// Who gets reservations.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `user@domain`, `*@domain` or `*`, in lower case.
    pub caller: String,
    /// The same of the callee.
    pub callee: String,
    /// Whether they get reservations.
    pub reserve: bool,
}

impl Rule {
    /// Whether it is for this caller and callee.
    pub fn fits(&self, caller: &str, callee: &str) -> bool {
        let fits = |pattern: &str, who: &str| {
            pattern == "*"
                || pattern.eq_ignore_ascii_case(who)
                || pattern.strip_prefix("*@").is_some_and(|domain| {
                    who.rsplit_once('@').is_some_and(|(_, d)| d.eq_ignore_ascii_case(domain))
                })
        };
        fits(&self.caller, caller) && fits(&self.callee, callee)
    }
}

impl Settings {
    /// Of one domain with one edge router, and otherwise as most want it.
    pub fn new(realm: &str, er: &str) -> Self {
        Self {
            realm: realm.to_string(),
            er: er.to_string(),
            edges: Vec::new(),
            mode: Mode::Uni,
            ask: Ask::Own,
            early: false,
            on_refusal: OnRefusal::BestEffort,
            rules: Vec::new(),
            kinds: vec![Kind::Audio, Kind::Video],
            class: "voice".to_string(),
            priorities: Vec::new(),
            patience: Duration::from_millis(500),
            lifetime: Duration::from_secs(600),
            longest: Duration::from_secs(24 * 3_600),
            codecs: CodecTable::default(),
            most_calls: 100_000,
        }
    }

    /// The edge router of a phone.
    pub fn edge(&self, phone: Option<IpAddr>) -> &str {
        phone.and_then(|phone| self.edge_of(phone)).unwrap_or(&self.er)
    }

    /// The edge router whose network an address is in.
    pub fn edge_of(&self, address: IpAddr) -> Option<&str> {
        let fits = |edge: &&Edge| crate::proxy::within(address, edge.address, edge.prefix);
        self.edges.iter().find(fits).map(|edge| &*edge.er)
    }
}
