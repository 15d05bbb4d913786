//! How queues drop: ranges of what each kind is told.

use super::At;
use perhop_model::{Precedence, QueueKind};
use perhop_reason::Code;
use perhop_units::Duration;

/// Most queues for flows on a port: each takes some 130 bytes, used or not.
pub(super) const MAX_FLOW_QUEUES: u64 = 1 << 20;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Checks the parameters of a kind.
pub(super) fn queue_kind(at: &mut At<'_>, kind: &QueueKind) {
    match *kind {
        QueueKind::Fifo => {}
        QueueKind::Red { min_ppm, max_ppm, max_p_ppm, .. } => {
            curve(at, "queue.kind", Precedence { min_ppm, max_ppm, max_p_ppm });
        }
        QueueKind::Wred { green, yellow, red, .. } => {
            curve(at, "queue.kind.wred.green", green);
            curve(at, "queue.kind.wred.yellow", yellow);
            curve(at, "queue.kind.wred.red", red);
            in_order(at, "yellow", [green, yellow]);
            in_order(at, "red", [yellow, red]);
        }
        QueueKind::Codel { target, interval, .. } => waiting(at, "codel", target, interval),
        QueueKind::Pie { target, update, max_burst, alpha, beta, mark_below_ppm, .. } => {
            at.range("queue.kind.pie.target", target, MICROSECOND, SECOND);
            at.range("queue.kind.pie.update", update, 100 * MICROSECOND, SECOND);
            at.range("queue.kind.pie.max_burst", max_burst, 0, 60 * SECOND);
            at.range("queue.kind.pie.alpha", alpha, 1, 512);
            at.range("queue.kind.pie.beta", beta, 1, 512);
            at.range("queue.kind.pie.mark_below_ppm", mark_below_ppm, 0, 1_000_000);
        }
        QueueKind::Blue { increase_ppm, decrease_ppm, freeze, .. } => {
            at.range("queue.kind.blue.increase_ppm", increase_ppm, 1, 1_000_000);
            at.range("queue.kind.blue.decrease_ppm", decrease_ppm, 1, 1_000_000);
            at.range("queue.kind.blue.freeze", freeze, MILLISECOND, 60 * SECOND);
        }
        QueueKind::FqCodel { flows, quantum, target, interval, .. } => {
            at.range("queue.kind.fq_codel.flows", flows, 1, 65_536);
            at.range("queue.kind.fq_codel.quantum", quantum, 64, 65_536);
            waiting(at, "fq_codel", target, interval);
        }
        QueueKind::Wfq { flows, .. } => at.range("queue.kind.wfq.flows", flows, 1, 4096),
    }
}

fn waiting(at: &mut At<'_>, kind: &str, target: Duration, interval: Duration) {
    at.range(&format!("queue.kind.{kind}.target"), target, MICROSECOND, SECOND);
    at.range(&format!("queue.kind.{kind}.interval"), interval, target.0.max(MICROSECOND), 10 * SECOND);
}

fn curve(at: &mut At<'_>, path: &str, curve: Precedence) {
    let Precedence { min_ppm, max_ppm, max_p_ppm } = curve;
    at.range(&format!("{path}.max_ppm"), max_ppm, 1, 1_000_000);
    at.range(&format!("{path}.min_ppm"), min_ppm, 0, u64::from(max_ppm.saturating_sub(1)));
    at.range(&format!("{path}.max_p_ppm"), max_p_ppm, 1, 1_000_000);
}

/// A precedence is not spared more than the better one.
fn in_order(at: &mut At<'_>, name: &str, [better, worse]: [Precedence; 2]) {
    let path = |field: &str| format!("queue.kind.wred.{name}.{field}");
    for (field, worse, better, wrong) in [
        ("min_ppm", worse.min_ppm, better.min_ppm, worse.min_ppm > better.min_ppm),
        ("max_ppm", worse.max_ppm, better.max_ppm, worse.max_ppm > better.max_ppm),
        ("max_p_ppm", worse.max_p_ppm, better.max_p_ppm, worse.max_p_ppm < better.max_p_ppm),
    ] {
        if wrong {
            let why =
                format!("{field} = {worse} spares {name} more than the precedence before it ({better})");
            let item = at.error(&path(field), Code::OutOfRange, why);
            (item.value, item.limit) = (Some(worse.into()), Some(better.into()));
        }
    }
}
