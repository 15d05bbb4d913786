//! What a class is told its port's scheduler by, in the words of that scheduler.

use perhop_elements::schedule::htb::PRIORITIES;
use perhop_elements::schedule::{Bound, NodeParams};
use perhop_model::{ClassSpec, DelayGoal, LossGoal, Scheduler};
use perhop_units::Share;

/// What `scheduler` goes by of a class: `params` as the tree has them, and what only its specification has. Keys without effect
/// are left out.
pub(super) fn terms(scheduler: Scheduler, params: &NodeParams, spec: Option<&ClassSpec>) -> String {
    let with_burst = |b: &Bound| format!("{} (burst {})", b.rate, b.burst);
    let rate = |b: &Bound| b.rate.to_string();
    let guarantee = |say: &dyn Fn(&Bound) -> String| match &params.guarantee {
        Some(bound) => format!("guarantee {}", say(bound)),
        None => "guarantee none".to_owned(),
    };
    let ceiling = |say: &dyn Fn(&Bound) -> String| match &params.ceiling {
        Some(bound) => format!("ceiling {}", say(bound)),
        None => "ceiling the link".to_owned(),
    };
    let weight = format!("weight {}", params.weight);
    let level = params.tier.min(PRIORITIES as u8 - 1);
    let parts = match scheduler {
        Scheduler::Tree => {
            vec![guarantee(&with_burst), ceiling(&with_burst), format!("tier {}", params.tier), weight]
        }
        Scheduler::Hfsc => {
            let first = spec.and_then(|c| c.guarantee_first);
            let first = first.map(|f| format!("first {} for {}", f.rate, f.time));
            let parts = [Some(guarantee(&rate)), first, Some(ceiling(&rate)), Some(weight)];
            parts.into_iter().flatten().collect()
        }
        Scheduler::Htb => {
            vec![guarantee(&with_burst), ceiling(&with_burst), format!("borrows at level {level}"), weight]
        }
        Scheduler::Wf2q => vec![weight],
        Scheduler::Priority => vec![format!("tier {}", params.tier), ceiling(&with_burst), weight],
        Scheduler::Cbq => {
            let borrows = if params.ceiling.is_none() { "borrows" } else { "does not borrow" };
            vec![guarantee(&with_burst), borrows.to_owned(), format!("served at level {level}")]
        }
        Scheduler::Hpd => {
            let goal = spec.and_then(|c| c.delay).unwrap_or_default();
            delay(DelayGoal { proportion: goal.proportion.or(Some(1)), ..goal })
        }
        Scheduler::Jobs => {
            let goal = spec.and_then(|c| c.delay).unwrap_or_default();
            let implied = goal.bound.is_none().then_some(1);
            let mut parts = delay(DelayGoal { proportion: goal.proportion.or(implied), ..goal });
            parts.extend(loss(spec.and_then(|c| c.loss).unwrap_or_default()));
            parts.extend(params.guarantee.is_some().then(|| guarantee(&rate)));
            parts
        }
    };
    parts.join(", ")
}

fn delay(goal: DelayGoal) -> Vec<String> {
    let proportion = goal.proportion.map(|p| format!("waits in proportion {p}"));
    let bound = goal.bound.map(|b| format!("waits at most {}", b));
    proportion.into_iter().chain(bound).collect()
}

fn loss(goal: LossGoal) -> Vec<String> {
    let bound = goal.bound_ppm.map(|ppm| format!("loses at most {}", Share::Ppm(ppm)));
    std::iter::once(format!("loses in proportion {}", goal.proportion.unwrap_or(1))).chain(bound).collect()
}
