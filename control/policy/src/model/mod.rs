//! What an operator edits: routers and their ports, classes and filters of classes, profiles and their filters, contracts, and
//! subscribers.
//!
//! Nothing here is checked: [`faults`](crate::validate::faults) finds what is wrong with a policy, whatever form it came in. The
//! forms are TOML ([`from_toml`](crate::validate::from_toml)), JSON by serde, lines of subscribers (`table`), and the trees of
//! directories of `tree`.

mod days;
mod pattern;
mod read;
mod table;
mod text;
mod write;

pub use days::{Days, Minute, Slot};
pub use pattern::{PatternError, PortPattern};
pub(crate) use read::{Places, location, read};
pub use table::{LineFault, MAX_LINES, TableError, add_subscribers, subscribers_as_table};
pub use write::to_toml;

use ipnet::IpNet;
use perhop_model::{FilterMatch, MeterSpec, Name, SlaPolicy};
use perhop_units::{Bytes, Dscp, Duration, QueueLimit, Rate, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A policy of a domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Routers that it is for.
    pub routers: BTreeMap<Name, Router>,
    /// Classes by their logical names.
    pub classes: BTreeMap<Name, Class>,
    /// Filters of classes.
    pub filters: BTreeMap<Name, ClassFilter>,
    /// Conditioners of customers.
    pub profiles: BTreeMap<Name, Profile>,
    /// Contracts.
    pub slas: BTreeMap<Name, Sla>,
    /// Customers.
    pub subscribers: BTreeMap<Name, Subscriber>,
}

/// A router: its ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Ports by their names in the router's file, with their rates; 0 = not known here, so guarantees are not summed.
    #[serde(default)]
    pub ports: BTreeMap<Name, Rate>,
}

/// A class, and the ports it is on: it is an object of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Ports that it is on; at least one.
    pub ports: Vec<PortPattern>,
    /// The class above it, on every port that it is on.
    #[serde(default)]
    pub parent: Option<Name>,
    /// Rate that it has whatever others do, or a share of the parent's, or of the port's at the top.
    #[serde(default = "nothing")]
    pub guarantee: Share,
    /// Rate that it never exceeds; a share is of the port's.
    #[serde(default)]
    pub ceiling: Option<Share>,
    /// Share of excess against siblings, 1 to 1,000,000.
    #[serde(default = "one")]
    pub weight: u32,
    /// Order of guarantees, 0 (first) to 15.
    #[serde(default = "last")]
    pub tier: u8,
    /// When its queue is full; none = the router's default.
    #[serde(default)]
    pub queue: Option<QueueLimit>,
    /// Whether packets without a class go here; one a port.
    #[serde(default)]
    pub default: bool,
    /// Code points that choose it where a port trusts them.
    #[serde(default)]
    pub dscp: Vec<Dscp>,
}

impl Default for Class {
    /// On no port.
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            parent: None,
            guarantee: nothing(),
            ceiling: None,
            weight: one(),
            tier: last(),
            queue: None,
            default: false,
            dscp: Vec::new(),
        }
    }
}

/// A filter of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassFilter {
    /// Routers that it is on; none = all that have the class.
    #[serde(default)]
    pub routers: Vec<Name>,
    /// Compared first, lower is earlier; filters of profiles are of tier [`PROFILE_TIER`].
    #[serde(default = "class_tier")]
    pub tier: u8,
    /// Compared second. In TOML it is the order of the file.
    #[serde(default)]
    pub priority: u32,
    /// Condition.
    #[serde(default, rename = "match")]
    pub matches: FilterMatch,
    /// The class of packets that match.
    pub class: Name,
    /// Whether detection may move matching flows to the real-time class; none = not.
    #[serde(default)]
    pub realtime: Option<bool>,
}

/// Tier of filters of profiles: before those of classes, so that what a customer's profile says of a flow counts.
pub const PROFILE_TIER: u8 = 50;
/// Tier of filters of classes unless they say another.
pub const CLASS_TIER: u8 = 100;
/// Tier of the filter that catches what none of a profile's does.
pub const REST_TIER: u8 = 200;

/// What happens to packets of a colour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Goes on as it is.
    #[default]
    Pass,
    /// Is dropped.
    Drop,
    /// Gets a code point.
    Mark {
        /// Code point.
        dscp: Dscp,
    },
    /// Goes to the default class, its code point cleared.
    Demote,
    /// Goes to a class with a ceiling, where it waits until it conforms.
    Shape {
        /// That class.
        class: Name,
    },
    /// Goes to another class, optionally with a code point.
    Class {
        /// That class.
        class: Name,
        /// Code point.
        #[serde(default)]
        dscp: Option<Dscp>,
    },
}

/// A conditioner: every subscriber whose contract has it gets one of its own, at the port where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// How it measures.
    #[serde(default)]
    pub meter: MeterSpec,
    /// Green packets.
    #[serde(default)]
    pub green: Action,
    /// Yellow packets.
    #[serde(default)]
    pub yellow: Action,
    /// Red packets.
    #[serde(default = "drop_action")]
    pub red: Action,
    /// Which packets it is for; none = all of the subscriber.
    #[serde(default)]
    pub filters: BTreeMap<Name, ProfileFilter>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            meter: MeterSpec::None,
            green: Action::Pass,
            yellow: Action::Pass,
            red: Action::Drop,
            filters: BTreeMap::new(),
        }
    }
}

/// A filter of a profile. The port is the subscriber's, and so is the source unless one is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFilter {
    /// Lower is earlier. In TOML it is the order of the file.
    #[serde(default)]
    pub priority: u32,
    /// Condition; without a port.
    #[serde(default, rename = "match")]
    pub matches: FilterMatch,
    /// The class of packets that match.
    #[serde(default)]
    pub class: Option<Name>,
}

/// A contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sla {
    /// bit/s at IP length, in each direction.
    pub rate: Rate,
    /// Bytes; 0 = the router's default.
    #[serde(default)]
    pub burst: Bytes,
    /// Code point written; none = unchanged.
    #[serde(default)]
    pub dscp: Option<Dscp>,
    /// Beyond the contract.
    #[serde(default)]
    pub policy: SlaPolicy,
    /// Per cent of the rate that is first come, first served.
    #[serde(default = "hundred")]
    pub shared_pct: u8,
    /// Whether its flows are refused last.
    #[serde(default)]
    pub premium: bool,
    /// Its subscribers' conditioner.
    #[serde(default)]
    pub profile: Option<Name>,
    /// A session ends after so long without a sign of it.
    #[serde(default)]
    pub idle_timeout: Option<Duration>,
    /// A session ends after this.
    #[serde(default)]
    pub session_timeout: Option<Duration>,
    /// How much may be carried, and what happens then.
    #[serde(default)]
    pub quota: Option<Quota>,
    /// Other contracts at times of the day; the first that fits counts.
    #[serde(default)]
    pub schedule: Vec<Slot>,
}

impl Default for Sla {
    fn default() -> Self {
        Self {
            rate: Rate::ZERO,
            burst: Bytes(0),
            dscp: None,
            policy: SlaPolicy::Drop,
            shared_pct: hundred(),
            premium: false,
            profile: None,
            idle_timeout: None,
            session_timeout: None,
            quota: None,
            schedule: Vec::new(),
        }
    }
}

/// How much a subscriber may have carried, both directions together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Bytes.
    pub amount: Bytes,
    /// Within which time.
    pub per: Period,
    /// What happens when it is used up.
    pub then: Then,
}

/// When a quota begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// With each session.
    Session,
    /// At midnight.
    Day,
    /// At the midnight before Monday.
    Week,
}

/// What happens when a quota is used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Another contract until the quota begins anew.
    Sla(Name),
    /// The session ends.
    Disconnect,
}

/// A customer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscriber {
    /// The contract.
    pub sla: Name,
    /// Addresses that are the subscriber's wherever it is.
    #[serde(default)]
    pub prefixes: Vec<IpNet>,
    /// Where it always is; none = where it logs in.
    #[serde(default)]
    pub at: Option<At>,
}

/// A port of a router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// Router.
    pub router: Name,
    /// Port.
    pub port: Name,
}

impl Policy {
    /// The same policy as the same octets: names in order, every field written.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        debug_assert!(!text.is_empty(), "a policy has no map with other keys than names");
        text.push('\n');
        text
    }

    /// Reads JSON; shape and types only.
    ///
    /// # Errors
    /// The first thing wrong with its form, with line and column.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Ports that a class is on, as (router, port).
    pub fn ports_of<'a>(&'a self, class: &'a Class) -> impl Iterator<Item = (&'a Name, &'a Name)> {
        let all =
            self.routers.iter().flat_map(|(router, of)| of.ports.keys().map(move |port| (router, port)));
        all.filter(|(router, port)| class.ports.iter().any(|pattern| pattern.has(router, port)))
    }

    /// Whether a class has classes below it.
    pub fn is_inner(&self, class: &Name) -> bool {
        self.classes.values().any(|other| other.parent.as_ref() == Some(class))
    }

    /// The classes that packets without one go to.
    pub fn defaults(&self) -> impl Iterator<Item = &Name> {
        self.classes.iter().filter(|(_, class)| class.default).map(|(name, _)| name)
    }
}

fn nothing() -> Share {
    Share::Rate(Rate::ZERO)
}
fn one() -> u32 {
    1
}
fn last() -> u8 {
    15
}
fn hundred() -> u8 {
    100
}
fn class_tier() -> u8 {
    CLASS_TIER
}
fn drop_action() -> Action {
    Action::Drop
}
