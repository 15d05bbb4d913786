//! What the scheduler of a port asks of its classes. Whether service curves fit is the planner's to say.

use super::At;
use perhop_model::{ClassSpec, Scheduler};
use perhop_reason::Code;
use perhop_units::Rate;

/// Most classes of a port with another scheduler than `tree`.
pub const MAX_RULED_CLASSES: usize = 63;

const MICROSECOND: u64 = 1_000;
const MINUTE: u64 = 60_000_000_000;

/// Checks a port that has `classes`.
pub(super) fn port(at: &mut At<'_>, scheduler: Scheduler, rate: Rate, classes: usize) {
    if matches!(scheduler, Scheduler::Hfsc | Scheduler::Htb) && rate.0 == 0 {
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
    if let Some(first) = c.guarantee_first {
        at.range("guarantee_first.rate", first.rate, 8_000, super::MAX_RATE);
        at.range("guarantee_first.time", first.time, MICROSECOND, MINUTE);
        if scheduler != Scheduler::Hfsc {
            let why = format!("a first piece is for ports with hfsc, this one has {}", scheduler.name());
            at.error("guarantee_first", Code::Unsupported, why);
        } else if !is_leaf {
            at.error("guarantee_first", Code::OutOfRange, "only a leaf has service guaranteed".to_owned());
        }
    }
    if scheduler != Scheduler::Wf2q {
        return;
    }
    for (field, there) in [
        ("parent", c.parent.is_some()),
        ("guarantee", !c.guarantee.is_zero()),
        ("ceiling", c.ceiling.is_some()),
    ] {
        if there {
            let why = format!("wf2q shares by weight alone, a class has no {field}");
            at.error(field, Code::Unsupported, why);
        }
    }
}
