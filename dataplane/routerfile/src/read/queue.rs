//! `queue = "30 ms"` or `queue = { limit = "30 ms", red = { min = "20 %", max = "60 %", max_p = "10 %" } }`.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `limit` | packets, size or time | 100 ms | 1 – 1,000,000 packets, 1514 B – 4 GiB, 1 us – 1 min; at least a frame |
//! | `red.min`, `red.max` | share of the limit | 20 %, 60 % | min < max ≤ 100 % |
//! | `red.max_p` | drop probability at `max` | 10 % | above 0 – 100 % |
//! | `red.ecn` | boolean: mark instead of drop | false | |
//! | `wred`, `codel`, `pie`, `blue`, `fq_codel`, `wfq` | other kinds: see `early` | | one of them, or `red` |

use super::{early, flag};
use perhop_config::{TableReader, TextError};
use perhop_model::{Precedence, QueueKind, QueueSpec};
use perhop_units::{Bytes, Duration, QueueLimit, Share};

/// Limit of queues that keep themselves short.
const AMPLE: QueueLimit = QueueLimit::Packets(1000);

/// Reads a queue; `None` if it is absent.
pub(super) fn read(table: &mut TableReader<'_>, key: &'static str) -> Option<QueueSpec> {
    let default = QueueSpec::default();
    if table.has(key) && !table.is_table(key) {
        let limit = table.value_with(key, "a queue limit", limit);
        return Some(QueueSpec { limit: limit.map_or(default.limit, |l| l.value), kind: default.kind });
    }
    let mut queue = table.table(key)?;
    let limit = queue.value_with("limit", "a queue limit", limit).map(|l| l.value);
    let kind = kind(&mut queue).unwrap_or(default.kind);
    queue.finish();
    let usual = if keeps_short(&kind) { AMPLE } else { default.limit };
    let limit = limit.unwrap_or(usual);
    Some(QueueSpec { limit, kind })
}

/// Whether a queue is kept short by the time that packets wait: its limit is then only for what must not happen.
pub(crate) fn keeps_short(kind: &QueueKind) -> bool {
    matches!(kind, QueueKind::Codel { .. } | QueueKind::Pie { .. } | QueueKind::FqCodel { .. })
}

/// The key of a queue's table that a kind has, `None` of drop-tail.
pub(crate) fn key_of(kind: &QueueKind) -> Option<&'static str> {
    Some(match kind {
        QueueKind::Fifo => return None,
        QueueKind::Red { .. } => "red",
        QueueKind::Wred { .. } => "wred",
        QueueKind::Codel { .. } => "codel",
        QueueKind::Pie { .. } => "pie",
        QueueKind::Blue { .. } => "blue",
        QueueKind::FqCodel { .. } => "fq_codel",
        QueueKind::Wfq { .. } => "wfq",
    })
}

/// How a queue drops; of several ways the first counts, and the others are errors.
fn kind(queue: &mut TableReader<'_>) -> Option<QueueKind> {
    type Read = fn(TableReader<'_>) -> QueueKind;
    let ways: [(&'static str, Read); 7] = [
        ("red", red),
        ("wred", early::wred),
        ("codel", early::codel),
        ("pie", early::pie),
        ("blue", early::blue),
        ("fq_codel", early::fq_codel),
        ("wfq", early::wfq),
    ];
    let mut first: Option<(&'static str, QueueKind)> = None;
    for (key, read) in ways {
        let Some(table) = queue.table(key) else { continue };
        let read = read(table);
        let Some((before, _)) = first else {
            first = Some((key, read));
            continue;
        };
        let d = queue.error(key, format!("is a second way to drop early, beside {before}")).value("");
        let at = queue.location_of(before);
        let d = at.map_or(d.clone(), |at| queue.document().with_secondary(d, at, "the first one is here"));
        queue.diagnostics().push(d.hint("a queue has one. Remove the others"));
    }
    first.map(|(_, kind)| kind)
}

fn limit(text: &str) -> Result<QueueLimit, TextError> {
    let limit: QueueLimit = text.parse().map_err(TextError::from)?;
    let (in_range, range) = match limit {
        QueueLimit::Packets(n) => ((1..=1_000_000).contains(&n), "1 packet to 1000000 packets"),
        QueueLimit::Bytes(n) => (n <= Bytes(1 << 32), "at most 4 GiB"),
        QueueLimit::Time(ns) => {
            ((Duration::from_micros(1)..=Duration::from_secs(60)).contains(&ns), "1 us to 60 s")
        }
    };
    if in_range { Ok(limit) } else { Err(TextError::new("is out of range").allowed(range)) }
}

/// Random early detection; without thresholds 20 % and 60 % of the limit, at most 10 %.
fn red(mut table: TableReader<'_>) -> QueueKind {
    let mut ppm = |key: &'static str, default: u32| {
        table.value_with(key, "a percentage", percentage).map_or(default, |p| p.value)
    };
    let (min_ppm, max_ppm, max_p_ppm) = (ppm("min", 200_000), ppm("max", 600_000), ppm("max_p", 100_000));
    let ecn = flag(&mut table, "ecn", false);
    check_curve(&mut table, Precedence { min_ppm, max_ppm, max_p_ppm });
    table.finish();
    QueueKind::Red { min_ppm, max_ppm, max_p_ppm, ecn }
}

/// What `min`, `max` and `max_p` of a table must satisfy.
pub(super) fn check_curve(table: &mut TableReader<'_>, curve: Precedence) {
    let Precedence { min_ppm, max_ppm, max_p_ppm } = curve;
    if min_ppm >= max_ppm {
        let key = if table.has("max") { "max" } else { "min" };
        let show = |ppm| Share::Ppm(ppm).to_string();
        let message = format!("leaves no room: min is {} and max is {}", show(min_ppm), show(max_ppm));
        let d = table.error(key, message).hint("min must be below max");
        table.diagnostics().push(d);
    }
    for (key, value) in [("max", max_ppm), ("max_p", max_p_ppm)] {
        if value == 0 {
            let d = table.error(key, "is out of range").allowed("above 0 % up to 100 %");
            table.diagnostics().push(d);
        }
    }
}

/// A percentage, parts per million.
pub(super) fn percentage(text: &str) -> Result<u32, TextError> {
    let wrong = |why: &str| TextError::new(why).hint("Write for example \"40 %\"");
    match text.parse::<Share>() {
        Ok(Share::Ppm(ppm)) => Ok(ppm),
        Ok(Share::Rate(_)) => Err(wrong("is a rate, expected a percentage")),
        // What is allowed of shares elsewhere would be refused here.
        Err(_) if !text.trim_end().ends_with('%') => Err(wrong("is not a percentage")),
        Err(error) => Err(error.into()),
    }
}

/// A percentage above 0, parts per million; the default if absent or wrong.
pub(super) fn above_zero(table: &mut TableReader<'_>, key: &'static str, default: u32) -> u32 {
    let Some(ppm) = table.value_with(key, "a percentage", percentage) else { return default };
    if ppm.value == 0 {
        let d = table.document().error(ppm.span, "is out of range").allowed("above 0 % up to 100 %");
        table.diagnostics().push(d);
        return default;
    }
    ppm.value
}
