//! Expected values: finding a figure by its path, and judging it.

use perhop_allocate::fluid::Spread;
use perhop_report::result::{
    AdmissionResult, AgentResult, Expectation, GroupResult, LinkResult, ReservedResult, ScenarioResult,
    Variant,
};
use perhop_scenario::figures::{Formula, OVER};
use perhop_scenario::{Expect, Target};
use std::fmt;

/// What a target says, as it is printed in results.
struct Shown(Target);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Target::AtMost(x) => write!(f, "<= {x}"),
            Target::AtLeast(x) => write!(f, ">= {x}"),
            Target::Below(x) => write!(f, "< {x}"),
            Target::Above(x) => write!(f, "> {x}"),
            Target::Within(a, b) => write!(f, "{a} .. {b}"),
            Target::Equal(x) => write!(f, "= {x}"),
        }
    }
}

/// Whether a figure is as it must be. Figures are printed with six decimals, so that much is forgiven.
pub fn holds(target: Target, ours: f64) -> bool {
    const PRINTED: f64 = 5e-7;
    match target {
        Target::AtMost(x) => ours <= x + PRINTED,
        Target::AtLeast(x) => ours >= x - PRINTED,
        Target::Below(x) => ours < x,
        Target::Above(x) => ours > x,
        Target::Within(a, b) => ours >= a - PRINTED && ours <= b + PRINTED,
        Target::Equal(x) => (ours - x).abs() <= PRINTED,
    }
}

/// The figure that a metric names: at a path, or a [`Formula`] of such. `None` when one of them is not there, or does not
/// apply.
pub fn metric(result: &ScenarioResult, metric: &str) -> Option<f64> {
    Formula::new(metric).value(|path| figure(result, path))
}

/// The figure at a path of a result: `voip.delay_ms.mean`, `link.core.utilisation_pct`, `baseline.voip.loss_pct`.
/// `None` when there is none, or it does not apply.
pub fn figure(result: &ScenarioResult, path: &str) -> Option<f64> {
    if let Some((variant, rest)) = path.split_once('.')
        && let Some(variant) = result.variants.get(variant)
    {
        return in_variant(variant, rest);
    }
    let ScenarioResult { groups, links, agents, admissions, reserved, .. } = result;
    Figures { groups, links, agents, admissions, reserved }.at(path)
}

fn in_variant(variant: &Variant, path: &str) -> Option<f64> {
    let Variant { groups, links, agents, admissions, reserved } = variant;
    Figures { groups, links, agents, admissions, reserved }.at(path)
}

/// The figures of one configuration.
struct Figures<'a> {
    groups: &'a [GroupResult],
    links: &'a [LinkResult],
    agents: &'a [AgentResult],
    admissions: &'a [AdmissionResult],
    reserved: &'a [ReservedResult],
}

impl Figures<'_> {
    fn at(&self, path: &str) -> Option<f64> {
        if let Some(path) = path.strip_prefix("agent.") {
            let (class, figure) = path.rsplit_once('.')?;
            return named(&self.agents.iter().find(|agent| agent.class == class)?.figures(), figure);
        }
        if let Some(path) = path.strip_prefix("admission.") {
            let (node, figure) = path.rsplit_once('.')?;
            return named(
                &self.admissions.iter().find(|admission| admission.node == node)?.figures(),
                figure,
            );
        }
        if let Some((of, figure)) = path.rsplit_once('.')
            && let Some(one) = self.reserved.iter().find(|one| one.of == of)
        {
            return one.figures.get(figure).copied();
        }
        if let Some(path) = path.strip_prefix("link.") {
            // Longest name first, because names may contain dots.
            let link = self
                .links
                .iter()
                .filter(|link| {
                    path.strip_prefix(link.name.as_str()).is_some_and(|rest| rest.starts_with('.'))
                })
                .max_by_key(|link| link.name.len())?;
            return of_link(link, &path[link.name.len() + 1..]);
        }
        let group = self
            .groups
            .iter()
            .filter(|group| path.strip_prefix(group.name.as_str()).is_some_and(|rest| rest.starts_with('.')))
            .max_by_key(|group| group.name.len())?;
        of_group(group, &path[group.name.len() + 1..])
    }
}

fn of_link(link: &LinkResult, path: &str) -> Option<f64> {
    let queue = link.queue_ms;
    match path {
        "utilisation_pct" => link.utilisation_pct,
        "queue_ms.p50" => queue.map(|q| q.p50),
        "queue_ms.p99" => queue.map(|q| q.p99),
        "queue_ms.max" => queue.map(|q| q.max),
        "drops" => Some(link.drops.values().sum::<u64>() as f64),
        _ => path.strip_prefix("drops.").map(|reason| link.drops.get(reason).copied().unwrap_or(0) as f64),
    }
}

/// The figure of a name among all.
fn named(figures: &[(&str, Option<f64>)], figure: &str) -> Option<f64> {
    figures.iter().find(|(name, _)| *name == figure).and_then(|(_, value)| *value)
}

fn of_group(group: &GroupResult, path: &str) -> Option<f64> {
    match path {
        "sent" => group.sent.map(|n| n as f64),
        "received" => group.received.map(|n| n as f64),
        "loss_pct" => group.loss_pct,
        "late_pct" => group.late_pct,
        "delay_ms.min" => group.delay_ms.map(|d| d.min),
        "delay_ms.mean" => group.delay_ms.map(|d| d.mean),
        "delay_ms.p50" => group.delay_ms.map(|d| d.p50),
        "delay_ms.p99" => group.delay_ms.map(|d| d.p99),
        "delay_ms.p999" => group.delay_ms.map(|d| d.p999),
        "delay_ms.max" => group.delay_ms.map(|d| d.max),
        "jitter_ms.mean" => group.jitter_ms.map(|j| j.mean),
        "jitter_ms.max" => group.jitter_ms.map(|j| j.max),
        "throughput_kbps.mean" => group.throughput_kbps.map(|t| t.mean),
        "throughput_kbps.stdev" => group.throughput_kbps.and_then(|t| t.stdev),
        "connections.count" => group.connections.map(|c| c.count as f64),
        "connections.jain" => group.connections.and_then(|c| c.jain),
        "mos.mean" => group.mos.map(|m| m.mean),
        "mos.min" => group.mos.map(|m| m.min),
        // A figure of ours that the published tables have: the surrogate of PSQM (`core/quality`).
        "psqm" => group.loss_pct.map(perhop_quality::psqm::surrogate),
        _ => match path.strip_prefix(OVER) {
            Some(limit) => group.esdl_ms.as_ref()?.over_pct.get(limit).copied(),
            None => named(&group.transport_figures(), path),
        },
    }
}

/// Whether a path that the user set concerns a value that depends on another: they are the same, or one is inside the
/// other, as `link.core.rate` is in `link.core`.
fn concerns(set: &str, depends: &str) -> bool {
    let inside = |path: &str, table: &str| {
        path.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    inside(set, depends) || inside(depends, set)
}

/// Whether a path that the user set concerns an expected value. What is set in a variant concerns only figures of it.
fn is_changed_by(expect: &Expect, set: &str) -> bool {
    let variant = set.strip_prefix("variants.").and_then(|rest| rest.split_once('.'));
    let set = match variant {
        Some((name, rest)) if is_about(&expect.metric, name) => rest.strip_prefix("set.").unwrap_or(rest),
        _ => set,
    };
    let depends = expect.depends.iter().map(String::as_str);
    depends.chain(TIMES).any(|depends| concerns(set, depends))
}

/// What every expected value depends on: a figure of a shorter run, or of its beginning, is another figure.
const TIMES: [&str; 2] = ["duration", "warm_up"];

/// Whether a metric has figures of a variant.
fn is_about(metric: &str, variant: &str) -> bool {
    let of_variant = |path: &str| path.strip_prefix(variant).is_some_and(|rest| rest.starts_with('.'));
    Formula::new(metric).paths().any(of_variant)
}

/// Whether an expected value is about a largest time and missed by no more than `stall_ms`.
pub fn is_excused(expect: &Expect, judged: &Expectation, stall_ms: f64) -> bool {
    let (Some(target), Some(ours), Some(false)) = (expect.target, judged.ours, judged.ok) else {
        return false;
    };
    let most = match target {
        Target::AtMost(most) | Target::Below(most) | Target::Within(_, most) => most,
        Target::AtLeast(_) | Target::Above(_) | Target::Equal(_) => return false,
    };
    expect.metric.ends_with("_ms.max")
        && !expect.metric.contains(' ')
        && ours > most
        && ours - most <= stall_ms
}

/// Whether a target says which of two figures is the larger: a difference against 0, or a quotient against 1.
fn is_ordering(metric: &str, target: Target) -> bool {
    let (Target::AtMost(limit) | Target::AtLeast(limit) | Target::Below(limit) | Target::Above(limit)) =
        target
    else {
        return false;
    };
    let operators = || metric.split(' ').filter(|word| matches!(*word, "+" | "-" | "/"));
    let ratio = operators().eq(["/"]) && limit == 1.0;
    ratio || (operators().any(|operator| operator == "-") && limit == 0.0)
}

/// Why an ordering is not shown although the mean is on its side: the 95 % interval of the repetitions reaches over to the
/// other side. `None` when it does not, and for targets that are no ordering, that every repetition must hold, or that one
/// repetition alone is judged by.
fn undecided(expect: &Expect, ours: Option<f64>, spread: Option<&Spread>) -> Option<String> {
    let (target, ours, spread) = (expect.target?, ours?, spread?);
    if expect.every || !is_ordering(&expect.metric, target) || !holds(target, ours) {
        return None;
    }
    let half = spread.half_width_95();
    if [spread.mean - half, spread.mean + half].into_iter().all(|end| holds(target, end)) {
        return None;
    }
    Some(format!(
        "{}: undecided, which counts as missed: {:.6} \u{b1} {half:.6} over {} repetitions is not all {}; a longer duration \
         or more repetitions may decide it",
        expect.metric,
        spread.mean,
        spread.count,
        Shown(target)
    ))
}

/// Judges an expected value. `each` are the results of the repetitions alone, for orderings, which their spread must bear
/// out, and for targets that every one must hold; `changed` are the paths that were set by the user. What has no verdict of
/// its own, but counts as missed, is told with the reason.
pub fn judge(
    expect: &Expect,
    result: &ScenarioResult,
    each: &[ScenarioResult],
    changed: &[String],
) -> (Expectation, Option<String>) {
    let ours = metric(result, &expect.metric);
    let of_each: Option<Vec<f64>> = each.iter().map(|one| metric(one, &expect.metric)).collect();
    let spread = of_each.and_then(|values| Spread::of(&values)).filter(|spread| spread.count > 1);
    let depends = changed.iter().any(|set| is_changed_by(expect, set));
    let undecided = undecided(expect, ours, spread.as_ref()).filter(|_| !depends);
    let ok = match expect.target {
        None => None,
        Some(_) if depends => None,
        // A figure that is not there holds nothing.
        Some(target) if expect.every => {
            Some(each.iter().all(|one| metric(one, &expect.metric).is_some_and(|ours| holds(target, ours))))
        }
        Some(target) => Some(undecided.is_none() && ours.is_some_and(|ours| holds(target, ours))),
    };
    let judged = Expectation {
        metric: expect.metric.clone(),
        ours,
        half_width_95: spread.map(|spread| spread.half_width_95()),
        published: expect.published,
        target: expect.target.map(|target| Shown(target).to_string()),
        ok,
    };
    (judged, undecided)
}
