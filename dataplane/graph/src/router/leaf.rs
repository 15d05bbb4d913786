//! A leaf's queue as the data plane takes it, and in words.

use perhop_elements::drop::{Averages, BlueConfig, CoDelConfig, FqCoDelConfig, PieConfig, WfqConfig};
use perhop_elements::schedule::{Curve, EarlyDrop, LeafKind, LeafParams};
use perhop_model::{Precedence, QueueKind, QueueSpec, WredAverage, WredPrecedence};
use perhop_units::{Duration, Probability, Share};

/// What the tree is told of a queue.
pub(super) fn leaf_params(q: &QueueSpec) -> LeafParams {
    LeafParams { limit: q.limit, kind: early(&q.kind).map_or(LeafKind::Fifo, LeafKind::from) }
}

fn early(kind: &QueueKind) -> Option<EarlyDrop> {
    Some(match *kind {
        QueueKind::Fifo => return None,
        QueueKind::Red { min_ppm, max_ppm, max_p_ppm, ecn } => {
            EarlyDrop::Red { curve: curve(Precedence { min_ppm, max_ppm, max_p_ppm }), ecn }
        }
        QueueKind::Wred { green, yellow, red, average, precedence, ecn } => EarlyDrop::Wred {
            curves: [green, yellow, red].map(curve),
            averages: match average {
                WredAverage::Total => Averages::Total,
                WredAverage::Coupled => Averages::Coupled,
                WredAverage::Decoupled => Averages::Decoupled,
            },
            by_dscp: precedence == WredPrecedence::Dscp,
            ecn,
        },
        QueueKind::Codel { target, interval, ecn } => EarlyDrop::CoDel(codel(target, interval, ecn)),
        QueueKind::Pie { target, update, max_burst, alpha, beta, ecn, mark_below_ppm, derandomize } => {
            EarlyDrop::Pie(PieConfig {
                target,
                update,
                max_burst,
                alpha,
                beta,
                ecn,
                mark_below: probability(mark_below_ppm),
                derandomize,
                ..PieConfig::default()
            })
        }
        QueueKind::Blue { increase_ppm, decrease_ppm, freeze, ecn } => EarlyDrop::Blue(BlueConfig {
            increase: probability(increase_ppm),
            decrease: probability(decrease_ppm),
            freeze,
            ecn,
        }),
        QueueKind::FqCodel { flows, quantum, target, interval, ecn } => EarlyDrop::FqCoDel(FqCoDelConfig {
            flows,
            quantum,
            codel: codel(target, interval, ecn),
            ..FqCoDelConfig::default()
        }),
        QueueKind::Wfq { flows, by_precedence } => EarlyDrop::Wfq(WfqConfig { flows, by_precedence }),
    })
}

fn codel(target: Duration, interval: Duration, ecn: bool) -> CoDelConfig {
    CoDelConfig { target, interval, ecn, ..CoDelConfig::default() }
}

fn curve(p: Precedence) -> Curve {
    Curve { min_ppm: p.min_ppm, max_ppm: p.max_ppm, max_p: probability(p.max_p_ppm) }
}

pub(super) fn probability(ppm: u32) -> Probability {
    Probability((u64::from(ppm) * u64::from(u32::MAX) / 1_000_000) as u32)
}

/// How a leaf drops, in words.
pub(super) fn words(kind: &LeafKind) -> String {
    let LeafKind::Early(early) = kind else { return "drop-tail".to_owned() };
    let range = |c: &Curve| format!("{} to {}", Share::Ppm(c.min_ppm), Share::Ppm(c.max_ppm));
    let (says, ecn) = match &**early {
        EarlyDrop::Red { curve, ecn } => (format!("RED ({} of the limit)", range(curve)), *ecn),
        EarlyDrop::Wred { curves, averages, by_dscp, ecn } => {
            let name = match averages {
                Averages::Total => "weighted RED",
                Averages::Coupled => "RIO, coupled",
                Averages::Decoupled => "RIO, decoupled",
            };
            let by = if *by_dscp { "code point" } else { "colour" };
            let [green, yellow, red] = [0, 1, 2].map(|n| range(&curves[n]));
            (format!("{name} by {by} (green {green}, yellow {yellow}, red {red} of the limit)"), *ecn)
        }
        EarlyDrop::CoDel(c) => (format!("CoDel (target {}, interval {})", c.target, c.interval), c.ecn),
        EarlyDrop::Pie(p) => (format!("PIE (target {})", p.target), p.ecn),
        EarlyDrop::Blue(b) => (format!("Blue (freeze {})", b.freeze), b.ecn),
        EarlyDrop::Wfq(w) => {
            let weights = if w.by_precedence { "weights by class selector" } else { "equal weights" };
            (format!("WFQ ({} queues, {weights})", w.flows), false)
        }
        EarlyDrop::FqCoDel(f) => {
            let c = &f.codel;
            let says = format!("FQ-CoDel ({} queues, target {}, interval {})", f.flows, c.target, c.interval);
            (says, c.ecn)
        }
    };
    if ecn { format!("{says} with ECN") } else { says }
}
