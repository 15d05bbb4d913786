//! What an agent does, recorded in whichever world it runs.

use crate::recording::{AgentRecord, AssignmentRecord, Recording};
use perhop_allocate::counters::Counters;
use perhop_bandwidth::{Agent, AgentBroker, AgentFile, Notice};
use perhop_model::Name;
use perhop_units::Instant;
use std::collections::BTreeMap;

/// Allocations of one agent over time, and what it had counted at both ends of the window.
#[derive(Clone, Debug)]
pub struct AgentRecorder {
    classes: Vec<Name>,
    /// By class: every allocation and when it began, bit/s.
    allocations: Vec<Vec<(Instant, u64)>>,
    /// Counters when the window began.
    before: Vec<Counters>,
    /// Counters when it ended, once it has.
    after: Option<Vec<Counters>>,
    /// Classes that the router did not have at some time, in the order in which that was found.
    missing: Vec<Name>,
    /// Transactions that the router refused, and why the first of them.
    refused: (u64, String),
    /// By policy: every rate and when it began, bit/s.
    assignments: BTreeMap<Name, Vec<(Instant, u64)>>,
    /// What a reader must know of links and policies, in the order in which it was found.
    warnings: Vec<String>,
}

impl AgentRecorder {
    /// A recorder for the agent of a file.
    pub fn new(file: &AgentFile) -> Self {
        let classes: Vec<Name> = file.classes.iter().map(|class| class.class.clone()).collect();
        Self {
            allocations: vec![Vec::new(); classes.len()],
            before: vec![Counters::default(); classes.len()],
            after: None,
            missing: Vec::new(),
            refused: (0, String::new()),
            assignments: BTreeMap::new(),
            warnings: Vec::new(),
            classes,
        }
    }

    /// The agent said something at an instant of the run.
    pub fn note(&mut self, at: Instant, notice: &Notice) {
        match notice {
            Notice::Allocated { class, rate } => {
                if let Some(i) = self.classes.iter().position(|name| name == class) {
                    self.allocations[i].push((at, rate.0));
                }
            }
            Notice::NoClass { class } if self.missing.contains(class) => {}
            Notice::NoClass { class } => self.missing.push(class.clone()),
            Notice::Refused { errors } => {
                if self.refused.0 == 0 {
                    let why = errors.iter().map(|error| format!("{}: {}", error.path, error.message));
                    self.refused.1 = why.collect::<Vec<_>>().join("; ");
                }
                self.refused.0 += 1;
            }
            Notice::Assigned { policy, rate, .. } => {
                self.assignments.entry(policy.clone()).or_default().push((at, rate.0));
            }
            Notice::NoPolicy { policy } => self.warn(format!("its agent found no abr policy \"{policy}\"")),
            Notice::NoRate { link, port } => {
                self.warn(format!("its agent found no rate of link \"{link}\" at port \"{port}\""));
            }
            Notice::Overcommitted { link, .. } => {
                self.warn(format!(
                    "more was promised on its agent's link \"{link}\" than there was at some time"
                ));
            }
            Notice::NotGranted { policy, code, .. } => {
                self.warn(format!("its agent refused the request \"{policy}\": {code}"));
            }
            Notice::NotAnnounced { link, error } => {
                self.warn(format!("its agent was told of link \"{link}\" in vain: {}", error.message));
            }
            Notice::Granted { .. }
            | Notice::PortRate { .. }
            | Notice::Announced { .. }
            | Notice::Reserved(_)
            | Notice::Leased(_)
            | Notice::Asks(_)
            | Notice::NotLeased { .. } => {}
            Notice::Superseded { .. } => {}
        }
    }

    /// Says something once.
    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The window begins: what was counted so far does not count.
    pub fn window_begins<B: AgentBroker>(&mut self, agent: &Agent<B>) {
        self.before = counters(agent);
    }

    /// The window ends: what is counted from now on does not count.
    pub fn window_ends<B: AgentBroker>(&mut self, agent: &Agent<B>) {
        self.after = Some(counters(agent));
    }

    /// Adds what the agent of the router `router` did to a recording, class by class, and what a reader must know of it.
    /// Without an end of the window, as in a run that was stopped, all counts.
    pub fn finish<B: AgentBroker>(&self, agent: &Agent<B>, router: &str, recording: &mut Recording) {
        let after = self.after.clone().unwrap_or_else(|| counters(agent));
        let counters = self.before.iter().zip(after);
        let classes = self.classes.iter().zip(counters).zip(&self.allocations);
        recording.agents.extend(classes.map(|((class, (before, after)), allocations)| AgentRecord {
            class: class.to_string(),
            before: *before,
            after,
            allocations: allocations.clone(),
        }));
        let assignments = self
            .assignments
            .iter()
            .map(|(policy, rates)| AssignmentRecord { policy: policy.to_string(), rates: rates.clone() });
        recording.assignments.extend(assignments);
        let missing = self.missing.iter().map(|class| format!("its agent found no class \"{class}\""));
        let (count, why) = &self.refused;
        let refused = format!("{count} of its agent's transactions were refused, the first because of {why}");
        let warnings = missing.chain((*count > 0).then_some(refused)).chain(self.warnings.iter().cloned());
        recording.warnings.extend(warnings.map(|warning| format!("router \"{router}\": {warning}")));
    }
}

fn counters<B: AgentBroker>(agent: &Agent<B>) -> Vec<Counters> {
    agent.classes().map(|class| class.counters).collect()
}
