//! The scheduler of a port, as the tree of its classes takes it: which law, and what it is told of each class.

use super::leaf::probability;
use perhop_elements::schedule::altq_cbq::{CbqClass, CbqLine};
use perhop_elements::schedule::hfsc::{Curve, Curves, excess};
use perhop_elements::schedule::hpd::HpdGoal;
use perhop_elements::schedule::htb::{HtbClass, PRIORITIES};
use perhop_elements::schedule::jobs::JobsClass;
use perhop_elements::schedule::levels::LevelClass;
use perhop_elements::schedule::{NodeIndex, NodeParams, RuleSpec, RuledLine, TreeLink};
use perhop_model::{ClassSpec, DelayGoal, ErrorItem, FirstPiece, LossGoal, Name, Scheduler};
use perhop_reason::Code;
use perhop_units::{Bytes, QueueLimit, Rate};

/// A class is told of at least this part of the line's rate as its share.
const LEAST_SHARE: u64 = 100_000;
/// The largest turn.
const MAX_QUANTUM: u64 = 1_000_000;
/// Ticks a second at which CBQ ends suspensions: nothing here has to wait for a kernel's clock.
const TICKS: u64 = 1_000_000;

/// What laws other than the tree's own are told of a class besides its parameters in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    first: Option<FirstPiece>,
    delay: DelayGoal,
    loss: LossGoal,
    /// Burst of the guarantee; 0: none was given.
    burst: u64,
}

impl Told {
    pub(super) fn of(c: &ClassSpec) -> Self {
        Self {
            first: c.guarantee_first,
            delay: c.delay.unwrap_or_default(),
            loss: c.loss.unwrap_or_default(),
            burst: c.burst.0,
        }
    }
}

/// A class as a law sees it. Parents come before children and are given by number.
#[derive(Clone, Debug)]
pub(super) struct Ruled<'a> {
    pub(super) index: NodeIndex,
    pub(super) parent: Option<usize>,
    pub(super) params: &'a NodeParams,
    pub(super) told: Told,
}

/// What a scheduler is told: of `classes`, and of `rest`, slots that no class has any more and that may still hold packets.
/// `limit`: of all classes together, for those that have such a one.
pub(super) fn spec(
    scheduler: Scheduler,
    link: &TreeLink,
    limit: QueueLimit,
    classes: &[Ruled<'_>],
    rest: &[NodeIndex],
) -> Option<RuleSpec> {
    match scheduler {
        Scheduler::Tree => None,
        Scheduler::Hfsc => {
            let least = least_share(link);
            let rest = rest.iter().map(|n| (*n, curves_of(None, None, least, None)));
            let told = curves(link, classes);
            let told = classes.iter().map(|c| c.index).zip(told).chain(rest).collect();
            Some(RuleSpec::Hfsc(told, link.rate.time_for(Bytes(link.max_cost()))))
        }
        Scheduler::Htb => {
            let rest = rest.iter().map(|n| (*n, htb_class(link, None, &NodeParams::leaf(None), 1)));
            let least = leaves(classes).map(|c| c.params.weight).min().unwrap_or(1);
            let told = classes.iter().map(|c| (c.index, htb_class(link, c.parent, c.params, least)));
            Some(RuleSpec::Htb(told.chain(rest).collect()))
        }
        Scheduler::Wf2q => {
            // Weights of the law go to 1,000: those in between keep their proportion to the largest.
            let most = leaves(classes).map(|c| c.params.weight).max().unwrap_or(1);
            let weight = |w: u32| if most <= 1_000 { w } else { scaled(w, 1_000, most) };
            let told = leaves(classes).map(|c| (c.index, weight(c.params.weight)));
            Some(RuleSpec::Wf2q(told.chain(rest.iter().map(|n| (*n, 1))).collect(), link.max_cost()))
        }
        Scheduler::Priority => {
            let least = leaves(classes).map(|c| c.params.weight).min().unwrap_or(1);
            let none = NodeParams::leaf(None);
            let told = leaves(classes).map(|c| (c.index, level_class(link, c.params, least)));
            let rest = rest.iter().map(|n| (*n, level_class(link, &none, 1)));
            Some(RuleSpec::Priority(told.chain(rest).collect()))
        }
        Scheduler::Cbq => {
            let told = classes.iter().map(|c| (c.index, cbq_class(link, c)));
            let rest = rest.iter().map(|n| {
                let share = least_share(link);
                (*n, CbqClass { parent: None, share, borrow: true, priority: 0, maxburst: None })
            });
            let line = CbqLine { rate: link.rate, frame: link.max_cost() as u32, hz: TICKS, efficient: true };
            Some(RuleSpec::Cbq(told.chain(rest).collect(), line))
        }
        Scheduler::Hpd => {
            let goal = |delay, bound| HpdGoal { delay, bound };
            let of = |c: &Ruled<'_>| goal(c.told.delay.proportion.unwrap_or(1), c.told.delay.bound);
            let told = leaves(classes).map(|c| (c.index, of(c)));
            let rest = rest.iter().map(|n| (*n, goal(1, None)));
            Some(RuleSpec::Hpd(told.chain(rest).collect(), line(link)))
        }
        Scheduler::Jobs => {
            let told = leaves(classes).map(|c| (c.index, jobs_class(c)));
            let none = JobsClass { delay: None, bound: None, loss: 1, loss_bound: None, rate: Rate::ZERO };
            let rest = rest.iter().map(|n| (*n, none.clone()));
            Some(RuleSpec::Jobs(told.chain(rest).collect(), line(link), limit))
        }
    }
}

fn line(link: &TreeLink) -> RuledLine {
    RuledLine { rate: link.rate, frame: link.max_cost() }
}

fn level_class(link: &TreeLink, params: &NodeParams, least: u32) -> LevelClass {
    LevelClass {
        level: params.tier,
        quantum: turn(link, params.weight, least),
        ceiling: params.ceiling.map(|c| (c.rate, c.burst)),
    }
}

/// The highest priority of CBQ is the first tier. A class whose ceiling is its guarantee borrows nothing.
fn cbq_class(link: &TreeLink, class: &Ruled<'_>) -> CbqClass {
    let burst = class.told.burst.div_ceil(link.max_cost().max(1)).min(64) as u32;
    CbqClass {
        parent: class.parent,
        share: class.params.guaranteed().max(least_share(link)),
        borrow: class.params.ceiling.is_none(),
        priority: PRIORITIES as u8 - 1 - class.params.tier.min(PRIORITIES as u8 - 1),
        maxburst: (burst > 0).then_some(burst),
    }
}

/// Bounds alone are no proportion.
fn jobs_class(class: &Ruled<'_>) -> JobsClass {
    let Told { delay, loss, .. } = class.told;
    JobsClass {
        delay: delay.proportion.or((delay.bound.is_none()).then_some(1)),
        bound: delay.bound,
        loss: loss.proportion.unwrap_or(1),
        loss_bound: loss.bound_ppm.map(probability),
        rate: class.params.guaranteed(),
    }
}

/// Bytes of a turn of a class of `weight` where the smallest is `least`.
fn turn(link: &TreeLink, weight: u32, least: u32) -> u32 {
    let quantum = link.max_cost() * u64::from(weight) / u64::from(least.max(1));
    quantum.clamp(link.max_cost(), MAX_QUANTUM) as u32
}

fn scaled(weight: u32, to: u32, most: u32) -> u32 {
    (u64::from(weight) * u64::from(to) / u64::from(most)).max(1) as u32
}

fn leaves<'a>(classes: &'a [Ruled<'a>]) -> impl Iterator<Item = &'a Ruled<'a>> {
    classes.iter().filter(|c| c.params.queue.is_some())
}

fn least_share(link: &TreeLink) -> Rate {
    Rate(link.rate.0.div_ceil(LEAST_SHARE).max(1))
}

fn htb_class(link: &TreeLink, parent: Option<usize>, params: &NodeParams, least: u32) -> HtbClass {
    let ceil = params.ceiling.map_or(link.rate, |c| c.rate.min(link.rate));
    let rate = params.guaranteed().max(Rate(1));
    HtbClass {
        parent,
        rate,
        ceil: ceil.max(rate),
        burst: params.guarantee.map_or(Bytes(2 * link.max_cost()), |g| g.burst),
        cburst: params.ceiling.map_or(link.default_burst(link.rate), |c| c.burst),
        priority: params.tier.min(PRIORITIES as u8 - 1),
        quantum: turn(link, params.weight, least),
    }
}

fn curves_of(
    parent: Option<usize>,
    real_time: Option<Curve>,
    share: Rate,
    upper_limit: Option<Curve>,
) -> Curves {
    Curves { parent, real_time, link_share: Some(Curve::linear(share)), upper_limit }
}

/// Curves of all classes: a share is the weight's part of the parent's share.
fn curves(link: &TreeLink, classes: &[Ruled<'_>]) -> Vec<Curves> {
    let mut shares: Vec<Rate> = Vec::with_capacity(classes.len());
    let sum = |parent: Option<usize>| -> u128 {
        classes.iter().filter(|c| c.parent == parent).map(|c| u128::from(c.params.weight)).sum()
    };
    let mut all = Vec::with_capacity(classes.len());
    for class in classes {
        let whole = class.parent.map_or(link.rate, |parent| shares[parent]);
        let share = u128::from(whole.0) * u128::from(class.params.weight) / sum(class.parent).max(1);
        let share = Rate(share as u64).max(least_share(link));
        shares.push(share);
        let limit = class.params.ceiling.filter(|c| c.rate < link.rate).map(|c| Curve::linear(c.rate));
        all.push(curves_of(class.parent, real_time(class), share, limit));
    }
    all
}

/// What a leaf is guaranteed.
fn real_time(class: &Ruled<'_>) -> Option<Curve> {
    let m2 = class.params.guaranteed();
    class.params.queue.as_ref()?;
    match class.told.first {
        Some(first) => Some(Curve { m1: first.rate, d: first.time, m2 }),
        None => (m2.0 > 0).then(|| Curve::linear(m2)),
    }
}

/// The first few, and how many more.
fn listed(names: &[&Name]) -> String {
    const FEW: usize = 3;
    let named = names.iter().take(FEW).map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(FEW) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Whether all guarantees together keep within the line at any time, and those in a class within its ceiling.
pub(super) fn check(link: &TreeLink, classes: &[Ruled<'_>], names: &[&Name]) -> Vec<ErrorItem> {
    let inside = |mut n: usize, of: usize| loop {
        match classes[n].parent {
            _ if n == of => break true,
            Some(parent) => n = parent,
            None => break false,
        }
    };
    let mut errors = Vec::new();
    let mut within = |of: Option<usize>, whole: Rate, field: &str, at: usize| {
        let parts = classes.iter().enumerate().filter(|(n, _)| of.is_none_or(|of| inside(*n, of)));
        let (who, parts): (Vec<&Name>, Vec<Curve>) =
            parts.filter_map(|(n, c)| Some((names[n], real_time(c)?))).unzip();
        let Some((t, sum, there)) = excess(&parts, Curve::linear(whole)) else { return };
        let bytes = |service: u128| service.div_ceil(8_000_000_000);
        let (what, remedy) = match of {
            Some(_) => ("its ceiling allows", "raise the ceiling, or lower guarantees below it"),
            None => ("the line sends", "lower guarantee_first or guarantees"),
        };
        let message = format!(
            "asks for too much: in the first {t} {} B are guaranteed to {}, and {what} {} B; {remedy}",
            bytes(sum),
            listed(&who),
            there / 8_000_000_000
        );
        let path = format!("class/{}.{field}", names[at]);
        errors.push(ErrorItem {
            value: Some(u64::try_from(bytes(sum)).unwrap_or(u64::MAX).into()),
            limit: u64::try_from(there / 8_000_000_000).ok(),
            ..ErrorItem::new(Code::NoCapacity, &path, message)
        });
    };
    // The last class with a first piece is at fault, as good as any.
    if let Some(at) = (0..classes.len()).rev().find(|n| classes[*n].told.first.is_some()) {
        within(None, link.rate, "guarantee_first", at);
    }
    for (n, class) in classes.iter().enumerate() {
        if let Some(ceiling) = class.params.ceiling {
            within(Some(n), ceiling.rate, "ceiling", n);
        }
    }
    errors
}
