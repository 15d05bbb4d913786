//! What an agent has to tell, and what it shows of its classes.

use perhop_allocate::counters::Counters;
use perhop_model::{ErrorItem, Name};
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use serde::Serialize;

/// What an agent wants done.
pub type Output = perhop_agent::Output<Notice>;

/// Something worth a line in the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// A class has another allocation.
    Allocated {
        /// Class.
        class: Name,
        /// bit/s.
        rate: Rate,
    },
    /// The router has no such class (now).
    NoClass {
        /// Class.
        class: Name,
    },
    /// The router refused; it is asked again.
    Refused {
        /// Its reasons.
        errors: Vec<ErrorItem>,
    },
    /// The router has no such policy (now).
    NoPolicy {
        /// Policy.
        policy: Name,
    },
    /// A link's rate is not known: its port is not there or has none. Policies that cross it keep what they have.
    NoRate {
        /// Link.
        link: Name,
        /// Its port.
        port: Name,
    },
    /// A policy has another rate.
    Assigned {
        /// Policy.
        policy: Name,
        /// bit/s, all its flows together.
        rate: Rate,
        /// Flows that sent at the last look.
        flows: u32,
    },
    /// A port was given another rate.
    PortRate {
        /// Port.
        port: Name,
        /// bit/s.
        rate: Rate,
    },
    /// What is promised comes to more than a link has (now): all gets less in the same proportion.
    Overcommitted {
        /// Link.
        link: Name,
        /// bit/s.
        promised: Rate,
        /// bit/s.
        available: Rate,
    },
    /// A client's request is granted.
    Granted {
        /// Its policy.
        policy: Name,
        /// What each of its flows gets in any case, bit/s.
        min: Rate,
    },
    /// A client's request is refused; its flows share without a promise.
    NotGranted {
        /// Its policy.
        policy: Name,
        /// Why.
        code: Code,
        /// What was asked for, bit/s.
        min: Rate,
        /// What could be promised at most, bit/s.
        free: Rate,
    },
    /// An announcement is taken note of.
    Announced {
        /// Link.
        link: Name,
        /// bit/s.
        rate: Rate,
        /// From then on.
        at: Instant,
    },
    /// An announcement is not.
    NotAnnounced {
        /// Link.
        link: Name,
        /// Why.
        error: ErrorItem,
    },
    /// The controller is to be asked this.
    Asks(LinkAsk),
    /// A class does not have of the domain what it is measured to need.
    NotLeased {
        /// Class.
        class: Name,
        /// Why.
        code: Code,
        /// The link that has not so much; empty = no link's fault.
        link: String,
        /// What was asked for beside the class's share, bit/s.
        asked: Rate,
        /// What is free beyond what it has, bit/s.
        free: Rate,
    },
    /// What a domain has reserved.
    Reserved(perhop_broker::reserved::Notice),
    /// What became in the router of what leases need there.
    Leased(perhop_broker::lease::InRouter),
    /// Another instance has taken the owner over, or it must not be claimed: this one has to end.
    Superseded {
        /// The router's reason.
        error: ErrorItem,
    },
}

/// A question to the controller about the lease of a measured class: what it is to have in all of the link that leaves by a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkAsk {
    /// Name of the lease.
    pub lease: String,
    /// The router's port.
    pub port: String,
    /// Logical class.
    pub class: String,
    /// Ascending over all questions, also over restarts of the agent.
    pub number: u64,
    /// bit/s; 0 gives it back.
    pub bps: u64,
    /// It ends so long after that, unless it is renewed.
    pub lifetime_ms: u64,
}

/// State of a class, to be shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    /// The class.
    pub class: Name,
    /// Whether the router has it.
    pub present: bool,
    /// In force, bit/s.
    pub allocated: Rate,
    /// What the class is taken to use, bit/s.
    pub estimate: Rate,
    /// Whether a long queue overrules the law.
    pub congested: bool,
    /// What happened.
    pub counters: Counters,
}

impl From<perhop_agent::Notice> for Notice {
    fn from(notice: perhop_agent::Notice) -> Self {
        match notice {
            perhop_agent::Notice::Refused { errors } => Self::Refused { errors },
            perhop_agent::Notice::Superseded { error } => Self::Superseded { error },
        }
    }
}

impl From<perhop_broker::reserved::Notice> for Notice {
    fn from(notice: perhop_broker::reserved::Notice) -> Self {
        Self::Reserved(notice)
    }
}

impl From<perhop_broker::lease::InRouter> for Notice {
    fn from(notice: perhop_broker::lease::InRouter) -> Self {
        Self::Leased(notice)
    }
}
