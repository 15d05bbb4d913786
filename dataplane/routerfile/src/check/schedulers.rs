//! What the scheduler of a port asks of its classes.

use super::Checker;
use super::tree::Trees;
use crate::Declared;
use crate::read::Declarations;
use perhop_contract::{
    MAX_RULED_CLASSES, foreign_goals, idle_fields, leaf_fields, needs_rate, unknown_fields,
};
use perhop_model::{ClassSpec, Name, Scheduler};
use perhop_units::Rate;
use std::collections::BTreeMap;

pub(super) fn check(c: Checker<'_>, declared: &Declarations, trees: &Trees) {
    let mut schedulers: BTreeMap<&Name, Scheduler> = BTreeMap::new();
    for port in &declared.ports {
        let scheduler = port.spec.scheduler;
        // Nobody knows what a scheduler that cannot be read asks of classes.
        if !c.sound(port.at, "scheduler") {
            continue;
        }
        schedulers.insert(&port.name, scheduler);
        if scheduler == Scheduler::Tree {
            continue;
        }
        let classes = declared.classes.iter().filter(|d| d.spec.port == port.name).count();
        if classes == 0 {
            continue;
        }
        if needs_rate(scheduler) && port.spec.rate == Rate::ZERO && c.sound(port.at, "rate") {
            let d = c.error(port.at, "scheduler", "needs the rate of the link, and the port has none");
            c.push(d.hint("Give the port a rate, or use \"tree\""));
        }
        if classes > MAX_RULED_CLASSES {
            let message = format!("takes at most {MAX_RULED_CLASSES} classes, and the port has {classes}");
            c.push(c.error(port.at, "scheduler", message).hint("Use \"tree\""));
        }
    }
    for (class, leaf) in declared.classes.iter().zip(&trees.leaf) {
        if let Some(scheduler) = schedulers.get(&class.spec.port) {
            one(c, class, *scheduler, *leaf);
        }
    }
}

fn one(c: Checker<'_>, class: &Declared<ClassSpec>, scheduler: Scheduler, leaf: bool) {
    let (spec, name) = (&class.spec, scheduler.name());
    if spec.guarantee_first.is_some() {
        if scheduler != Scheduler::Hfsc {
            let message = format!("is for ports with scheduler = \"hfsc\", this one has \"{name}\"");
            c.push(c.error(class.at, "guarantee_first", message).value("").hint("Remove it"));
        } else if !leaf {
            let message = "is of a class with others below: only a leaf has service guaranteed";
            c.push(c.error(class.at, "guarantee_first", message).value("").hint("Give it to those below"));
        }
    }
    for (field, known) in foreign_goals(scheduler, spec) {
        let known = known.split(" or ").map(|k| format!("\"{k}\"")).collect::<Vec<_>>().join(" or ");
        let message = format!("is for ports with scheduler = {known}, this one has \"{name}\"");
        c.push(c.error(class.at, field, message).value("").hint("Remove it"));
    }
    for (field, why) in unknown_fields(scheduler, spec) {
        let message = format!("is unknown to \"{name}\", which {why}");
        c.push(c.error(class.at, field, message).hint("Remove it, or use another scheduler"));
    }
    let (idle, why) = idle_fields(scheduler);
    for field in idle.iter().filter(|field| c.document.is_written(class.at, field)) {
        let d = c.warning(class.at, field, format!("has no effect: \"{name}\" {why}"));
        c.push(d.hint("Remove it"));
    }
    let of_leaves = if leaf { &[] } else { leaf_fields(scheduler) };
    for field in of_leaves.iter().filter(|field| c.document.is_written(class.at, field)) {
        let message = format!("has no effect: the class has children, and \"{name}\" asks only leaves");
        c.push(c.warning(class.at, field, message).hint("Give it to those below"));
    }
    if scheduler == Scheduler::Cbq && spec.guarantee.is_zero() && c.sound(class.at, "guarantee") {
        let message = "is missing, and \"cbq\" shares by guarantee";
        c.push(
            c.error(class.at, "guarantee", message).value("").hint("Write for example guarantee = \"20 %\""),
        );
    }
}
