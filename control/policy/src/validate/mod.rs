//! What is wrong with a policy: everything at once, each with its place and what to do.

mod check;
mod fault;
mod orders;
mod trees;

pub use check::faults;
pub use fault::{Fault, Place, Problem, Section, What};

use crate::model::{Places, Policy, read};
use perhop_config::{Diagnostic, Diagnostics, Document};

/// Most of each kind of thing that a policy has.
pub mod limits {
    /// Routers.
    pub const ROUTERS: usize = 10_000;
    /// Ports of a router.
    pub const PORTS: usize = 1_000;
    /// Classes.
    pub const CLASSES: usize = 1_000;
    /// Classes above each other.
    pub const DEPTH: usize = 8;
    /// Filters of classes, and of a profile.
    pub const FILTERS: usize = 100_000;
    /// Filters of a profile.
    pub const PROFILE_FILTERS: usize = 1_000;
    /// Profiles, and contracts.
    pub const PROFILES: usize = 100_000;
    /// Subscribers.
    pub const SUBSCRIBERS: usize = 1_000_000;
    /// Prefixes of a subscriber.
    pub const PREFIXES: usize = 64;
    /// Other contracts of a contract by time.
    pub const SLOTS: usize = 64;
    /// Characters of the name of a subscriber, a class, or a filter of a profile: names of a router's objects are made of them.
    pub const NAME: usize = 48;
}

/// Reads a policy from TOML; `None` if anything is an error. `file` is how messages call it.
pub fn from_toml(file: &str, text: &str) -> (Option<Policy>, Diagnostics) {
    let (document, diagnostics) = Document::parse(file, text);
    let mut root = document.root(&diagnostics);
    let (policy, places) = read(&mut root);
    root.finish();
    for problem in faults(&policy) {
        let at = crate::model::location(&document, &places, &problem.place);
        if !follows(&problem.fault, &places) && !document.is_wrong(at, &diagnostics) {
            diagnostics.push(shown(&document, at, &places, &problem));
        }
    }
    let sound = !diagnostics.has_errors();
    (sound.then_some(policy), diagnostics)
}

/// Whether something is wrong only because something else could not be read.
fn follows(fault: &Fault, places: &Places) -> bool {
    let lost = |section| places.has_lost(section);
    match fault {
        Fault::Unknown { what: What::Router, .. } => lost(Section::Router),
        Fault::Unknown { what: What::Port, .. } | Fault::NoPort | Fault::Nowhere => {
            lost(Section::Router) || lost(Section::Port)
        }
        Fault::Unknown { what: What::Class, .. } | Fault::NoDefault => lost(Section::Class),
        Fault::Unknown { what: What::Profile, .. } => lost(Section::Profile),
        Fault::Unknown { what: What::Sla, .. } => lost(Section::Sla),
        _ => false,
    }
}

fn shown(document: &Document, at: perhop_config::Location, places: &Places, problem: &Problem) -> Diagnostic {
    let place = &problem.place;
    let table = places.table(place.section, &place.name);
    let is_written =
        table.is_some_and(|table| place.field.is_empty() || document.is_written(table, &place.field));
    let mut diagnostic = match table {
        Some(table) if !is_written => document.lack(table, &place.field, problem.fault.to_string()),
        _ => document.error(at, problem.fault.to_string()),
    };
    if let Some(allowed) = problem.fault.allowed() {
        diagnostic = diagnostic.allowed(allowed);
    }
    if let Some(hint) = problem.fault.hint() {
        diagnostic = diagnostic.hint(hint);
    }
    let other = problem.fault.other().and_then(|other| places.table(place.section, other));
    match other {
        Some(other) => document.with_secondary(diagnostic, other, "the other is here"),
        None => diagnostic,
    }
}
