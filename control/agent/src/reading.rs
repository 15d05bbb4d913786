//! What the agent reads from a router: how much a class carried, was offered and holds, and how many flows share a policy.

use perhop_model::{Kind, Name};
use perhop_units::Instant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a class counted and holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassReading {
    /// Bytes sent.
    pub carried_bytes: u64,
    /// Bytes that came: sent, dropped and waiting.
    pub offered_bytes: u64,
    /// Bytes waiting.
    pub backlog_bytes: u64,
}

/// Readings of classes, all of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readings {
    /// The router's epoch.
    pub epoch: u64,
    /// Its revision.
    pub revision: u64,
    /// When, by the agent's clock.
    pub at: Instant,
    /// Classes by name; those the agent does not look after are passed over.
    pub classes: Vec<(Name, ClassReading)>,
    /// Policies of the TCP rate control by name, and how many of their flows send; empty if none are looked after.
    #[serde(default)]
    pub policies: Vec<(Name, u32)>,
}

impl ClassReading {
    /// From the counters and gauges of a class's row (`GET /v1/show?what=classes`); what is absent is 0.
    pub fn of_counters(counters: &BTreeMap<String, u64>) -> Self {
        let count = |key| counters.get(key).copied().unwrap_or(0);
        let (carried_bytes, backlog_bytes) = (count("bytes"), count("backlog_bytes"));
        let offered_bytes =
            carried_bytes.saturating_add(count("dropped_bytes")).saturating_add(backlog_bytes);
        Self { carried_bytes, offered_bytes, backlog_bytes }
    }
}

/// A policy and how many of its flows send, from a row of what a router shows; `None` if it is another kind of row.
pub fn flows_of_row(kind: &str, name: &str, counters: &BTreeMap<String, u64>) -> Option<(Name, u32)> {
    let name = Name::new(name).ok().filter(|_| kind == Kind::AbrPolicy.name())?;
    let flows = counters.get("flows").copied().unwrap_or(0);
    Some((name, u32::try_from(flows).unwrap_or(u32::MAX)))
}
