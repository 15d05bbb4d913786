//! What would become of a described packet, decision by decision. A dry run: nothing changes, no token is spent.
//!
//! Three parts, so that the two halves of a router may live in different threads: [`Probe::new`] beside the control
//! machine, [`Worker::decide`] between two batches, [`Explanation::new`] beside the control machine again.
//! [`Worker::explain`] does all three where one thread has both.

mod abr;
mod conditions;
mod decide;
mod steps;
mod terms;

pub use decide::Decisions;

use super::describe::{DescribeError, Described};
use super::plan::RouterPlanner;
use super::worker::Worker;
use perhop_contract::Control;
use perhop_model::{ColorAction, Key, Kind, Spec};
use perhop_packet::{ClassId, PortId, ProfileId};
use perhop_wire::Layout;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// A described packet in front of one router.
#[derive(Clone, Debug)]
pub struct Probe {
    described: Described,
    in_port: PortId,
    ports: usize,
    /// Whether kernel routes are unknown because no router runs.
    file_only: bool,
    /// Logical class by profile, where the profile gives green packets one.
    green: BTreeMap<ProfileId, ClassId>,
}

impl Probe {
    /// The frame, what is where in it, and where it comes in.
    pub(super) fn arrives(&self) -> (&[u8], &Layout, PortId) {
        (&self.described.frame, &self.described.layout, self.in_port)
    }

    /// Looks up what the worker cannot know. O(profiles).
    ///
    /// # Errors
    /// The router has no such port.
    pub fn new(described: Described, control: &Control<RouterPlanner>) -> Result<Self, DescribeError> {
        let planner = control.planner();
        let ports = planner.ports();
        let Some(at) = ports.iter().position(|p| p.name == described.in_port) else {
            return Err(described.unknown_port(ports.iter().map(|p| p.name.as_str())));
        };
        let green = planner.conditioned().1.filter_map(|(name, id)| {
            let key = Key { kind: Kind::Profile, name: name.clone() };
            match control.objects().get(&key).map(|e| &*e.spec) {
                Some(Spec::Profile(p)) => match &p.green {
                    ColorAction::Class { class, .. } => Some((id, planner.numbers.class(class))),
                    _ => None,
                },
                _ => None,
            }
        });
        Ok(Self {
            green: green.collect(),
            described,
            in_port: PortId(at as u16),
            ports: ports.len(),
            file_only: false,
        })
    }

    /// The router does not run: nothing is known of the kernel's routes.
    #[must_use]
    pub fn of_file_only(self) -> Self {
        Self { file_only: true, ..self }
    }
}

/// What would become of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The packet in short: `udp 10.0.0.1:5004>10.1.0.2:5004, BE, 200 B`.
    pub packet: String,
    /// What becomes of it in the end: `sent by wan from queue ef`, `dropped (ttl_expired)`, …
    pub outcome: String,
    /// Every decision, in order.
    pub steps: Vec<Step>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// `port`, `parse`, `connection`, `filters`, `detection`, `class`, `profile`, `contract`, `policer`, `abr`,
    /// `route`, `queue` or `transmitter`.
    pub step: String,
    /// In words.
    pub says: String,
    /// More words, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// The object that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Key>,
    /// Where that is written: `edge.toml:14:1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, Value>,
}

impl Step {
    fn new(step: &str, says: impl Into<String>) -> Self {
        let step = step.to_owned();
        Self {
            step,
            says: says.into(),
            details: Vec::new(),
            object: None,
            position: None,
            facts: BTreeMap::new(),
        }
    }

    fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    fn object(mut self, kind: Kind, name: &perhop_model::Name) -> Self {
        self.object = Some(Key { kind, name: name.clone() });
        self
    }

    fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }
}

impl Explanation {
    /// Puts the worker's decisions into words.
    pub fn new(probe: &Probe, decisions: &Decisions, control: &Control<RouterPlanner>) -> Self {
        let (outcome, steps) = steps::all(probe, decisions, control);
        Self { packet: probe.described.to_string(), outcome, steps }
    }

    /// Says where the deciding objects are written.
    pub fn place(&mut self, find: impl Fn(&Key) -> Option<String>) {
        for step in &mut self.steps {
            step.position = step.object.as_ref().and_then(&find);
        }
    }

    /// The first step of a name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|s| s.step == name)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.packet)?;
        for step in &self.steps {
            write!(f, "  {:<12} {}", step.step, step.says)?;
            match &step.position {
                Some(position) => writeln!(f, "  ({position})")?,
                None => writeln!(f)?,
            }
            for line in &step.details {
                writeln!(f, "  {:<12}   {line}", "")?;
            }
        }
        writeln!(f, "  {:<12} {}", "outcome", self.outcome)
    }
}

impl Worker {
    /// What would become of a described packet, where one thread has both halves of the router.
    ///
    /// # Errors
    /// The router has no such port.
    pub fn explain(
        &self,
        control: &Control<RouterPlanner>,
        described: &Described,
    ) -> Result<Explanation, DescribeError> {
        let probe = Probe::new(described.clone(), control)?;
        Ok(Explanation::new(&probe, &self.decide(&probe), control))
    }
}

#[cfg(test)]
mod tests;
