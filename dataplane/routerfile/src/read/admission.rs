//! `[detector.admission]`.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `method` | `reserved`, `measured` | `measured` with `drop_pct`, `windows` or `policy`, else `reserved` | |
//! | `cap` | rate at IP length that admitted flows share | with `reserved` the class's; else needed | 8 kbit/s – 1 Tbit/s |
//! | `accept_pct` | per cent of `cap` below which a flow is accepted | 90 | 1 – 99 |
//! | `drop_pct` | per cent of `cap` above which one is dropped | 95 | above `accept_pct` – 100 |
//! | `interval` | time over which the rate is averaged | 800 ms | 10 ms – 1 min |
//! | `windows` | intervals in a measurement window | 10 | 1 – 1,000 |
//! | `policy` | `random`, `largest`, `smallest`, `oldest` | `random` | |
//! | `excess` | flows not admitted: `demote` or `drop` | `demote` | |
//! | `idle` | silence after which a flow is forgotten | 5 s | 100 ms – `idle` of the detector |
//! | `retry` | time after which a refused flow is looked at again; 0 = not before it was silent | 4 s | 0, 100 ms – 1 h |
//! | `new_flow` | rate a flow just admitted is taken to carry | 80 kbit/s | 0 – 1 Tbit/s |
//! | `locked` | boolean: nothing new is accepted | false | |
//! | `cancel` | whole number; every step up drops a flow | 0 | 0 – 2⁶³ − 1 |

use super::flag;
use perhop_config::TableReader;
use perhop_model::{AdmissionMethod, AdmissionPolicy, AdmissionSpec, ExcessPolicy};
use perhop_units::{Duration, Rate};

/// Reads the table, if it is there. `idle` is the detector's.
pub(super) fn read(detector: &mut TableReader<'_>, idle: Duration) -> Option<AdmissionSpec> {
    let all = flag(detector, "admit_all", false);
    let has_table = detector.has("admission");
    if all && has_table {
        let error =
            detector.error("admit_all", "does not go with [detector.admission], which says who is admitted");
        detector.diagnostics().push(error.hint("Leave one of them out"));
    }
    let Some(mut table) = detector.table("admission") else {
        // One that could not be read is an error, and not the usual.
        return (!all && !has_table).then(|| usual(idle));
    };
    let methods = [("reserved", AdmissionMethod::Reserved), ("measured", AdmissionMethod::Measured)];
    let method = table.choice("method", &methods).map(|m| m.value);
    let measures = ["drop_pct", "windows", "policy"].into_iter().find(|key| table.has(key));
    let method = match (method, measures) {
        (Some(AdmissionMethod::Reserved), Some(key)) => {
            let error = table.error(key, "is of method = \"measured\"");
            table.diagnostics().push(error.hint("Leave it out, or measure"));
            AdmissionMethod::Reserved
        }
        (Some(method), _) => method,
        (None, Some(_)) => AdmissionMethod::Measured,
        (None, None) => AdmissionMethod::Reserved,
    };
    if method == AdmissionMethod::Measured {
        table.require("cap", "\"2 Mbit/s\"");
    }
    let usual = usual(idle);
    let without = if method == AdmissionMethod::Measured { Rate(8_000) } else { usual.cap };
    let cap = table.value_in("cap", Rate::from_kbit(8)..=Rate::MOST).map_or(without, |r| r.value);
    let accept_pct = table.integer("accept_pct", 1..=99);
    let drop_pct = table.integer("drop_pct", 1..=100);
    // One that could not be read says nothing about the other.
    let unread =
        (table.has("accept_pct") && accept_pct.is_none()) || (table.has("drop_pct") && drop_pct.is_none());
    let (accept_pct, drop_pct) = (
        accept_pct.map_or(usual.accept_pct, |p| p.value as u8),
        drop_pct.map_or(usual.drop_pct, |p| p.value as u8),
    );
    if accept_pct >= drop_pct && !unread {
        let key = if table.has("drop_pct") { "drop_pct" } else { "accept_pct" };
        let message = format!("leaves no room: accept_pct is {accept_pct} and drop_pct is {drop_pct}");
        let d = table.error(key, message).hint("accept_pct must be below drop_pct");
        table.diagnostics().push(d);
    }
    let least = Duration::from_millis(100);
    let interval =
        table.value_in("interval", Duration::from_millis(10)..=Duration::from_secs(60)).map(|t| t.value);
    let silence = table.value_in("idle", least..=Duration::from_secs(3_600)).map(|t| t.value);
    if silence.is_some_and(|s| s > idle) {
        let d = table.error("idle", format!("is longer than the detector's {idle}"));
        table.diagnostics().push(d.hint("A flow cannot be admitted longer than it is recognised"));
    }
    let policies = [
        ("random", AdmissionPolicy::Random),
        ("largest", AdmissionPolicy::Largest),
        ("smallest", AdmissionPolicy::Smallest),
        ("oldest", AdmissionPolicy::Oldest),
    ];
    let excess = [("demote", ExcessPolicy::Demote), ("drop", ExcessPolicy::Drop)];
    let spec = AdmissionSpec {
        method,
        cap,
        accept_pct,
        drop_pct,
        interval: interval.unwrap_or(usual.interval),
        windows: table.integer("windows", 1..=1_000).map_or(usual.windows, |n| n.value as u32),
        policy: table.choice("policy", &policies).map_or(usual.policy, |p| p.value),
        excess: table.choice("excess", &excess).map_or(usual.excess, |e| e.value),
        idle: silence.unwrap_or(usual.idle).min(idle),
        retry: retry(&mut table, usual.retry),
        new_flow: table.value_in("new_flow", Rate::ZERO..=Rate::MOST).map_or(usual.new_flow, |r| r.value),
        locked: flag(&mut table, "locked", usual.locked),
        cancel: table.integer("cancel", 0..=i64::MAX).map_or(usual.cancel, |n| n.value as u64),
    };
    table.finish();
    Some(spec)
}

fn retry(table: &mut TableReader<'_>, usual: Option<Duration>) -> Option<Duration> {
    let least = Duration::from_millis(100);
    let Some(given) = table.value_in("retry", Duration::ZERO..=Duration::from_secs(3_600)) else {
        return usual;
    };
    if given.value > Duration::ZERO && given.value < least {
        let d = table.error("retry", "is out of range").allowed("100 ms to 1 h, or 0 s");
        table.diagnostics().push(d.hint("Use 0 s for flows that are not to be looked at again"));
    }
    Some(given.value).filter(|retry| *retry > Duration::ZERO)
}

/// Of a file that says nothing: flows fit into their class.
fn usual(idle: Duration) -> AdmissionSpec {
    AdmissionSpec {
        method: AdmissionMethod::Reserved,
        cap: Rate::ZERO,
        accept_pct: 90,
        drop_pct: 95,
        interval: Duration::from_millis(800),
        windows: 10,
        policy: AdmissionPolicy::Random,
        excess: ExcessPolicy::Demote,
        // No longer than the detector allows.
        idle: Duration::from_secs(5).min(idle),
        retry: Some(Duration::from_secs(4)),
        new_flow: Rate(80_000),
        locked: false,
        cancel: 0,
    }
}
