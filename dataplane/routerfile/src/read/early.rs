//! `wred`, `codel`, `pie`, `blue`, `fq_codel` and `wfq` of a queue.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `wred.green`, `.yellow`, `.red` | table: `min`, `max` (shares of the limit), `max_p` | 40–70 % up to 2 %; 20–40, 5; 10–20, 10 | as `red`; green at least yellow at least red, `max_p` the other way |
//! | `wred.average` | `"total"`, `"coupled"`, `"decoupled"` | `"total"` | |
//! | `wred.precedence` | `"color"`, `"dscp"` | `"color"` | |
//! | `codel.target`, `codel.interval` | time | 5 ms, 100 ms | 1 us – 1 s, `target` – 10 s |
//! | `pie.target`, `pie.update`, `pie.max_burst` | time | 15 ms, 15 ms, 150 ms | 1 us – 1 s, 100 us – 1 s, 0 – 60 s |
//! | `pie.alpha`, `pie.beta` | whole number, 1/16 Hz | 2, 20 | 1 – 512 |
//! | `pie.mark_below` | probability | 10 % | 0 – 100 % |
//! | `pie.derandomize` | boolean | true | |
//! | `blue.increase`, `blue.decrease` | probability | 2 %, 0.2 % | above 0 – 100 % |
//! | `blue.freeze` | time | 100 ms | 1 ms – 60 s |
//! | `fq_codel.flows`, `fq_codel.quantum` | whole number, size | 1024, 1514 B | 1 – 65,536, 64 – 65,536 B |
//! | `fq_codel.target`, `fq_codel.interval` | as of `codel` | | |
//! | `wfq.flows` | whole number | 256 | 1 – 4,096 |
//! | `wfq.by_precedence` | boolean | false | |
//! | `ecn` of each but `wfq` | boolean: mark instead of drop | true; of `wred` false | |

use super::flag;
use super::queue::{above_zero, percentage};
use perhop_config::TableReader;
use perhop_model::{Precedence, QueueKind, WredAverage, WredPrecedence};
use perhop_units::{Bytes, Duration, Share};
use std::ops::RangeInclusive;

/// Names of the three precedences, best first.
const COLORS: [&str; 3] = ["green", "yellow", "red"];

/// Random early detection at three drop precedences.
pub(super) fn wred(mut table: TableReader<'_>) -> QueueKind {
    let t = &mut table;
    let defaults = [Precedence::green(), Precedence::yellow(), Precedence::red()];
    let mut curves = defaults;
    for ((key, default), curve) in COLORS.into_iter().zip(defaults).zip(&mut curves) {
        *curve = t.table(key).map_or(default, |inner| precedence(inner, default));
    }
    if sound(&curves) {
        for n in 1..COLORS.len() {
            in_order(t, n, [&curves[n - 1], &curves[n]]);
        }
    }
    let averages = [
        ("total", WredAverage::Total),
        ("coupled", WredAverage::Coupled),
        ("decoupled", WredAverage::Decoupled),
    ];
    let precedences = [("color", WredPrecedence::Color), ("dscp", WredPrecedence::Dscp)];
    let kind = QueueKind::Wred {
        green: curves[0],
        yellow: curves[1],
        red: curves[2],
        average: t.choice("average", &averages).map_or(WredAverage::Total, |a| a.value),
        precedence: t.choice("precedence", &precedences).map_or(WredPrecedence::Color, |p| p.value),
        ecn: flag(t, "ecn", false),
    };
    table.finish();
    kind
}

/// Whether each precedence is right by itself.
fn sound(curves: &[Precedence; 3]) -> bool {
    curves.iter().all(|c| c.min_ppm < c.max_ppm && c.max_p_ppm > 0)
}

fn precedence(mut table: TableReader<'_>, default: Precedence) -> Precedence {
    let mut ppm = |key: &'static str, default: u32| {
        table.value_with(key, "a percentage", percentage).map_or(default, |p| p.value)
    };
    let curve = Precedence {
        min_ppm: ppm("min", default.min_ppm),
        max_ppm: ppm("max", default.max_ppm),
        max_p_ppm: ppm("max_p", default.max_p_ppm),
    };
    super::queue::check_curve(&mut table, curve);
    table.finish();
    curve
}

/// The `n`-th precedence is not spared more than the better one before it.
fn in_order(table: &mut TableReader<'_>, n: usize, [better, worse]: [&Precedence; 2]) {
    let show = |ppm| Share::Ppm(ppm).to_string();
    let (name, other) = (COLORS[n], COLORS[n - 1]);
    let written = [table.has(name), table.has(other)];
    let what = |of: &str, color: &str, ppm, written| {
        let by_default = if written { "" } else { ", by default" };
        format!("the {of} of {color} ({}{by_default})", show(ppm))
    };
    let key = if written[0] || !written[1] { name } else { other };
    for (of, worse, better, way, wrong) in [
        ("min", worse.min_ppm, better.min_ppm, "above", worse.min_ppm > better.min_ppm),
        ("max", worse.max_ppm, better.max_ppm, "above", worse.max_ppm > better.max_ppm),
        ("max_p", worse.max_p_ppm, better.max_p_ppm, "below", worse.max_p_ppm < better.max_p_ppm),
    ] {
        if wrong {
            let message = format!(
                "spares {name} more than {other}: {} is {way} {}",
                what(of, name, worse, written[0]),
                what(of, other, better, written[1])
            );
            let d = table.error(key, message).value("");
            let hint = "from green over yellow to red min and max never rise and max_p never falls";
            table.diagnostics().push(d.hint(hint));
        }
    }
}

/// Controlled delay.
pub(super) fn codel(mut table: TableReader<'_>) -> QueueKind {
    let (target, interval) = waiting(&mut table);
    let ecn = flag(&mut table, "ecn", true);
    table.finish();
    QueueKind::Codel { target, interval, ecn }
}

/// `target` and `interval`.
fn waiting(table: &mut TableReader<'_>) -> (Duration, Duration) {
    let target = time(table, "target", us(1)..=ms(1_000), ms(5));
    let interval = time(table, "interval", us(1)..=ms(10_000), target.max(ms(100)));
    if interval < target {
        let key = if table.has("interval") { "interval" } else { "target" };
        let d = table.error(key, format!("is below the target ({target})"));
        table.diagnostics().push(d.hint("packets may wait for longer than target in a whole interval"));
    }
    (target, interval)
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A time in a range; the default if absent or wrong.
fn time(
    table: &mut TableReader<'_>,
    key: &'static str,
    range: RangeInclusive<Duration>,
    default: Duration,
) -> Duration {
    table.value_in(key, range).map_or(default, |t| t.value)
}

/// Proportional integral controller enhanced.
pub(super) fn pie(mut table: TableReader<'_>) -> QueueKind {
    let t = &mut table;
    let mut number = |key, default: u32| t.integer(key, 1..=512).map_or(default, |n| n.value as u32);
    let (alpha, beta) = (number("alpha", 2), number("beta", 20));
    let kind = QueueKind::Pie {
        target: time(t, "target", us(1)..=ms(1_000), ms(15)),
        update: time(t, "update", us(100)..=ms(1_000), ms(15)),
        max_burst: time(t, "max_burst", us(0)..=ms(60_000), ms(150)),
        alpha,
        beta,
        ecn: flag(t, "ecn", true),
        mark_below_ppm: t.value_with("mark_below", "a percentage", percentage).map_or(100_000, |p| p.value),
        derandomize: flag(t, "derandomize", true),
    };
    table.finish();
    kind
}

/// Blue.
pub(super) fn blue(mut table: TableReader<'_>) -> QueueKind {
    let t = &mut table;
    let kind = QueueKind::Blue {
        increase_ppm: above_zero(t, "increase", 20_000),
        decrease_ppm: above_zero(t, "decrease", 2_000),
        freeze: time(t, "freeze", ms(1)..=ms(60_000), ms(100)),
        ecn: flag(t, "ecn", true),
    };
    table.finish();
    kind
}

/// CoDel for each flow.
pub(super) fn fq_codel(mut table: TableReader<'_>) -> QueueKind {
    let t = &mut table;
    let flows = t.integer("flows", 1..=65_536).map_or(1024, |n| n.value as u32);
    let quantum = t.value_in("quantum", Bytes(64)..=Bytes(65_536)).map_or(1514, |b| b.value.0 as u32);
    let (target, interval) = waiting(t);
    let ecn = flag(t, "ecn", true);
    table.finish();
    QueueKind::FqCodel { flows, quantum, target, interval, ecn }
}

/// Weighted fair queueing of flows.
pub(super) fn wfq(mut table: TableReader<'_>) -> QueueKind {
    let flows = table.integer("flows", 1..=4096).map_or(256, |n| n.value as u32);
    let by_precedence = flag(&mut table, "by_precedence", false);
    table.finish();
    QueueKind::Wfq { flows, by_precedence }
}
