//! What of a router's contract the kernel can do, and what a commit changes there.

use super::rules::rules;
use perhop_contract::{Draft, Draining, Entry, GraphRequest, Planner, Trees, touched_ports};
use perhop_model::{ColorAction, ErrorItem, Key, MeterSpec, Name, Owner, ProfileSpec, Spec};
use perhop_netlink::tc::HtbClass;
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that a class of a flow sends at a turn: two full packets.
const QUANTUM: u32 = 3_028;

/// Plans for the kernel. It knows no state: what the kernel has is in [`super::books::Books`].
#[derive(Debug)]
pub(super) struct KernelPlanner;

/// An object as it was.
type Was = Option<Arc<Entry>>;

/// What a commit comes to.
#[derive(Debug)]
pub(super) struct Change {
    /// Changed objects, as they were and as they are to be.
    pub(super) objects: BTreeMap<Key, (Was, Option<Arc<Entry>>)>,
    /// Where classes or what is allocated to them changed: what each has, by its object's name.
    pub(super) guarantees: Vec<(Name, Rate)>,
}

impl Planner for KernelPlanner {
    type Change = Change;

    fn check(&self, draft: &Draft<'_>, graph: Option<&GraphRequest>) -> Vec<ErrorItem> {
        let mut errors = Vec::new();
        if graph.is_some() {
            errors.push(ErrorItem::new(Code::Unsupported, "graph", "the kernel has no packet graph"));
        }
        for (key, entry) in draft.changes() {
            let Some(entry) = entry else { continue };
            if let Err((code, why)) = possible(key, entry) {
                errors.push(ErrorItem::new(code, format!("{}/{}", key.kind, key.name), why));
            }
        }
        errors
    }

    fn plan(&mut self, _: Instant, draft: &Draft<'_>, _: &[Draining], _: Option<&GraphRequest>) -> Change {
        let before = draft.unchanged();
        let change = |(key, after): (&Key, &Option<Arc<Entry>>)| {
            (key.clone(), (before.find(key).cloned(), after.clone()))
        };
        let mut guarantees = Vec::new();
        if !touched_ports(draft).is_empty() {
            let trees = Trees::new(draft);
            guarantees = draft.classes().map(|(name, ..)| (name.clone(), trees.guarantee(name, 0))).collect();
        }
        Change { objects: draft.changes().iter().map(change).collect(), guarantees }
    }
}

fn possible(key: &Key, entry: &Entry) -> Result<(), (Code, String)> {
    let unsupported = |why: &str| Err((Code::Unsupported, why.to_owned()));
    match &*entry.spec {
        Spec::Port(_) | Spec::Class(_) if entry.owner == Owner::File => Ok(()),
        Spec::Allocation(_) => Ok(()),
        Spec::Filter(filter) => match rules(&filter.matches) {
            Ok(_) if filter.class.is_some() && filter.profile.is_some() => Ok(()),
            Ok(_) => unsupported("a filter has a class and a profile here"),
            Err(why) => unsupported(why),
        },
        Spec::Profile(_) if key.name.as_str().ends_with("/opposite") => {
            unsupported("packets of the opposite direction leave by another interface: ask for one direction")
        }
        Spec::Profile(profile) => match flow_class(profile) {
            Err(why) => unsupported(why),
            Ok(class) => class.check().map_err(|error| (Code::OutOfRange, error.to_string())),
        },
        _ => unsupported("the kernel's traffic control has nothing of this kind"),
    }
}

/// The class that holds a flow to its profile.
///
/// # Errors
/// What of it the kernel cannot do, in words.
pub(super) fn flow_class(profile: &ProfileSpec) -> Result<HtbClass, &'static str> {
    if profile.green != ColorAction::Pass {
        return Err("packets are not marked here: leave the code point out");
    }
    if [&profile.yellow, &profile.red].iter().any(|action| **action != ColorAction::Drop) {
        return Err(
            "what is beyond a profile waits, and is dropped when too much does: nothing else can be chosen",
        );
    }
    let (rate, burst, ceil, cburst) = match profile.meter {
        MeterSpec::TokenBucket { cir, cbs } => (cir, cbs, cir, cbs),
        MeterSpec::Trtcm { cir, cbs, pir, pbs, .. } => (cir, cbs, pir, pbs),
        _ => return Err("a flow is held by a token bucket, with a peak or without"),
    };
    Ok(HtbClass { rate, ceil, burst, cburst, priority: 0, quantum: QUANTUM })
}
