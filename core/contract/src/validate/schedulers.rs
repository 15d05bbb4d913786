//! What the scheduler of a port asks of its classes. Whether service curves fit is the planner's to say.

use super::At;
use perhop_model::{ClassSpec, Scheduler};
use perhop_reason::Code;
use perhop_units::Rate;

/// Most classes of a port with another scheduler than `tree`.
pub const MAX_RULED_CLASSES: usize = 63;

const MICROSECOND: u64 = 1_000;
const MINUTE: u64 = 60_000_000_000;
const MAX_PROPORTION: u64 = 1_000_000;

/// Whether it decides by the rate of the link.
pub fn needs_rate(scheduler: Scheduler) -> bool {
    match scheduler {
        Scheduler::Hfsc | Scheduler::Htb | Scheduler::Cbq | Scheduler::Hpd | Scheduler::Jobs => true,
        Scheduler::Tree | Scheduler::Wf2q | Scheduler::Priority => false,
    }
}

/// The fields of a class that a scheduler cannot take although they are there, and why.
pub fn unknown_fields(scheduler: Scheduler, c: &ClassSpec) -> Vec<(&'static str, &'static str)> {
    let (names, why): (&[&str], _) = match scheduler {
        Scheduler::Tree | Scheduler::Hfsc | Scheduler::Htb => (&[], ""),
        Scheduler::Wf2q => (&["parent", "guarantee", "ceiling"], "shares by weight alone"),
        Scheduler::Priority => (&["parent", "guarantee"], "goes by tier alone"),
        Scheduler::Hpd => (&["parent", "guarantee", "ceiling"], "goes by waiting times alone"),
        Scheduler::Jobs => (&["parent", "ceiling"], "has classes side by side, which share the whole link"),
        Scheduler::Cbq if c.ceiling.is_some_and(|ceiling| ceiling != c.guarantee) => {
            (&["ceiling"], "lends a class whatever there is, or nothing when the ceiling is the guarantee")
        }
        Scheduler::Cbq => (&[], ""),
    };
    let there = |name: &str| match name {
        "parent" => c.parent.is_some(),
        "guarantee" => !c.guarantee.is_zero(),
        _ => c.ceiling.is_some(),
    };
    names.iter().filter(|name| there(name)).map(|name| (*name, why)).collect()
}

/// The fields of a class that a scheduler takes and does nothing with, and why. Those that it refuses are not among them.
pub fn idle_fields(scheduler: Scheduler) -> (&'static [&'static str], &'static str) {
    match scheduler {
        Scheduler::Tree | Scheduler::Htb => (&[], ""),
        Scheduler::Hfsc => (&["tier", "burst", "ceiling_burst"], "goes by curves"),
        Scheduler::Wf2q => (&["tier", "burst", "ceiling_burst"], "shares by weight alone"),
        Scheduler::Priority => (&["burst"], "knows no guarantees"),
        Scheduler::Cbq => (&["weight", "ceiling_burst"], "shares by guarantee"),
        Scheduler::Hpd => (&["tier", "weight", "burst", "ceiling_burst"], "goes by waiting times alone"),
        Scheduler::Jobs => {
            (&["tier", "weight", "burst", "ceiling_burst"], "goes by waiting times and losses")
        }
    }
}

/// The fields that decide nothing of a class with others below, although the scheduler goes by those of leaves.
pub fn leaf_fields(scheduler: Scheduler) -> &'static [&'static str] {
    match scheduler {
        Scheduler::Tree | Scheduler::Cbq => &["tier"],
        Scheduler::Htb => &["tier", "weight"],
        _ => &[],
    }
}

/// Whether classes of a port with it are side by side, none below another.
pub fn is_flat(scheduler: Scheduler) -> bool {
    matches!(scheduler, Scheduler::Wf2q | Scheduler::Priority | Scheduler::Hpd | Scheduler::Jobs)
}

/// The goals of a class that are for other schedulers, with the name of those that know them.
pub fn foreign_goals(scheduler: Scheduler, c: &ClassSpec) -> Vec<(&'static str, &'static str)> {
    let follows_waits = matches!(scheduler, Scheduler::Hpd | Scheduler::Jobs);
    let delay = (c.delay.is_some() && !follows_waits).then_some(("delay", "hpd or jobs"));
    let loss = (c.loss.is_some() && scheduler != Scheduler::Jobs).then_some(("loss", "jobs"));
    delay.into_iter().chain(loss).collect()
}

/// Checks a port that has `classes`.
pub(super) fn port(at: &mut At<'_>, scheduler: Scheduler, rate: Rate, classes: usize) {
    if needs_rate(scheduler) && rate.0 == 0 {
        let why = format!("{} needs the rate of the link, and this port has none", scheduler.name());
        at.error("scheduler", Code::OutOfRange, why);
    }
    if scheduler != Scheduler::Tree && classes > MAX_RULED_CLASSES {
        let why = format!("{classes} classes are more than {} takes", scheduler.name());
        let item = at.error("scheduler", Code::LimitReached, why);
        item.value = Some((classes as u64).into());
        (item.limit, item.free) = (Some(MAX_RULED_CLASSES as u64), Some(0));
    }
}

/// Checks a class of such a port.
pub(super) fn class(at: &mut At<'_>, scheduler: Scheduler, c: &ClassSpec, is_leaf: bool) {
    let name = scheduler.name();
    if let Some(first) = c.guarantee_first {
        at.rate("guarantee_first.rate", first.rate, 8_000);
        at.range("guarantee_first.time", first.time, MICROSECOND, MINUTE);
        if scheduler != Scheduler::Hfsc {
            let why = format!("a first piece is for ports with hfsc, this one has {name}");
            at.error("guarantee_first", Code::Unsupported, why);
        } else if !is_leaf {
            at.error("guarantee_first", Code::OutOfRange, "only a leaf has service guaranteed".to_owned());
        }
    }
    goals(at, c);
    for (field, known) in foreign_goals(scheduler, c) {
        let why = format!("{field} is for ports with {known}, this one has {name}");
        at.error(field, Code::Unsupported, why);
    }
    for (field, why) in unknown_fields(scheduler, c) {
        at.error(field, Code::Unsupported, format!("{name} {why}: this {field} is unknown to it"));
    }
    if scheduler == Scheduler::Cbq && c.guarantee.is_zero() {
        at.error("guarantee", Code::OutOfRange, "cbq shares by guarantee, and there is none".to_owned());
    }
}

fn goals(at: &mut At<'_>, c: &ClassSpec) {
    for (field, proportion) in [
        ("delay.proportion", c.delay.and_then(|goal| goal.proportion)),
        ("loss.proportion", c.loss.and_then(|goal| goal.proportion)),
    ] {
        if let Some(proportion) = proportion {
            at.range(field, proportion, 1, MAX_PROPORTION);
        }
    }
    if let Some(bound) = c.delay.and_then(|goal| goal.bound) {
        at.range("delay.bound", bound, MICROSECOND, MINUTE);
    }
    if let Some(bound) = c.loss.and_then(|goal| goal.bound_ppm) {
        at.range("loss.bound_ppm", bound, 0, 1_000_000);
    }
}
