//! `[[sla]]`, `[[route]]` and `[detector]`.
//!
//! | key of `[[sla]]` | value | default | range |
//! |---|---|---|---|
//! | `name`, `rate` | name, rate at IP length | needed | 1 kbit/s – 1 Tbit/s |
//! | `prefixes` | the subscriber's prefixes | none | each in one contract |
//! | `burst` | size | two packets or 20 ms | 1500 B – 1 GiB |
//! | `dscp` | code point written | unchanged | |
//! | `policy` | `ok`, `drop`, `demote` | `drop` | |
//! | `premium` | boolean: admission refuses and drops its flows last | false | |
//! | `shared_pct` | per cent of the rate, first come, first served; the rest equally for the live flows | 100 | 0 – 100 |
//!
//! | key of `[[route]]` | value | default | range |
//! |---|---|---|---|
//! | `name` | name | the destination | |
//! | `dest` | prefix | needed | |
//! | `via` | address of the next hop | on the link | family of `dest` |
//! | `port` | port | needed for `unicast` | |
//! | `kind` | `unicast`, `blackhole`, `unreachable`, `prohibit`, `local` | `unicast` | |
//! | `metric` | whole number, lower wins | 0 | 0 – 4,294,967,295 |
//!
//! | key of `[detector]` | value | default | range |
//! |---|---|---|---|
//! | `name` | name | `realtime` | |
//! | `enabled` | boolean | true | |
//! | `class` | logical class of recognised flows | needed | |
//! | `packets`, `within` | packets of one SSRC in a time | 10, 1 s | 3 – 64, 10 ms – 1 min |
//! | `idle` | time | 30 s | 1 s – 1 h |
//! | `dscp` | code point written | unchanged | |
//! | `rate`, `excess` | rate of all together; `drop`, `demote` | the class's | 8 kbit/s – 1 Tbit/s |
//! | `flow_rate` | rate of each at IP length; more of it goes to the default class | 4 Mbit/s | 8 kbit/s – 1 Tbit/s, or 0 for none |
//! | `admission` | table: which of the recognised flows are real-time | those that fit into the class | see `admission` |
//! | `admit_all` | boolean: all of them are | false | not with `admission` |
//! | `in_ports` | ports | all | |
//! | `calls` | calls that the class is meant for; only checked | 1 | 1 – 1,000,000 |
//!
//! All three have `shared` (boolean, false): whether other owners may refer to them. It has nothing to do with
//! `shared_pct`.

use super::{admission, bytes, dscp, flag};
use crate::names::{Names, class, reference, references};
use crate::value;
use perhop_config::TableReader;
use perhop_model::{DetectorSpec, ExcessPolicy, RouteKind, RouteSpec, SlaPolicy, SlaSpec};
use perhop_units::{Duration, Rate};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Limit of a recognised flow unless the file says otherwise: what a video call takes.
const FLOW_RATE: Rate = Rate::from_mbit(4);
/// Most calls that a detector's class may be meant for.
const MAX_CALLS: i64 = 1_000_000;

/// Reads one contract; absent and wrong values take their defaults.
pub(super) fn sla(table: &mut TableReader<'_>) -> SlaSpec {
    table.require("rate", "\"10 Mbit/s\"");
    let rate = table.value_in("rate", Rate::from_kbit(1)..=Rate::MOST).map_or(Rate(1_000), |r| r.value);
    let list = table.values_with("prefixes", "a prefix", value::prefix).map_or(Vec::new(), |l| l.value);
    let mut first = BTreeMap::new();
    let mut prefixes = Vec::with_capacity(list.len());
    for prefix in list {
        if let Some(&before) = first.get(&prefix.value) {
            let d = table.document().error(prefix.span, "is listed twice");
            table.diagnostics().push(table.document().with_secondary(d, before, "the first one is here"));
            continue;
        }
        first.insert(prefix.value, prefix.span);
        prefixes.push(prefix.value);
    }
    let policies = [("ok", SlaPolicy::Ok), ("drop", SlaPolicy::Drop), ("demote", SlaPolicy::Demote)];
    SlaSpec {
        prefixes,
        rate,
        burst: bytes(table, "burst", 1_500, 1 << 30, 0),
        dscp: dscp(table, "dscp"),
        policy: table.choice("policy", &policies).map_or(SlaPolicy::Drop, |p| p.value),
        shared: flag(table, "shared", false),
        shared_pct: table.integer("shared_pct", 0..=100).map_or(100, |p| p.value as u8),
        premium: flag(table, "premium", false),
    }
}

/// Reads one route; `None` without a destination.
pub(super) fn route(table: &mut TableReader<'_>, names: &Names<'_>) -> Option<RouteSpec> {
    table.require("dest", "\"192.0.2.0/24\"");
    let dest = table.value_with("dest", "a prefix", value::prefix);
    let via = table.value::<IpAddr>("via");
    if let (Some(dest), Some(via)) = (&dest, &via)
        && dest.value.addr().is_ipv4() != via.value.is_ipv4()
    {
        let message = format!("is not of the family of dest ({})", dest.value);
        table.diagnostics().push(table.document().error(via.span, message));
    }
    let kinds = [
        ("unicast", RouteKind::Unicast),
        ("blackhole", RouteKind::Blackhole),
        ("unreachable", RouteKind::Unreachable),
        ("prohibit", RouteKind::Prohibit),
        ("local", RouteKind::Local),
    ];
    let unread = table.has("kind");
    let kind = table.choice("kind", &kinds).map(|k| k.value);
    let port = reference(table, "port", "a port", &names.ports);
    match kind.or(if unread { None } else { Some(RouteKind::Unicast) }) {
        Some(RouteKind::Unicast) => table.require("port", "\"wan\""),
        Some(_) => {
            for key in ["port", "via"] {
                if table.has(key) {
                    let d = table
                        .error(key, "has no meaning here")
                        .hint("only a unicast route has a port and a next hop");
                    table.diagnostics().push(d);
                }
            }
        }
        None => {}
    }
    let metric = table.integer("metric", 0..=i64::from(u32::MAX)).map_or(0, |m| m.value as u32);
    let shared = flag(table, "shared", false);
    let kind = kind.unwrap_or_default();
    Some(RouteSpec { dest: dest?.value, via: via.map(|v| v.value), port, kind, metric, shared })
}

/// The limit of each recognised flow; 0 = none.
fn flow_rate(table: &mut TableReader<'_>) -> Rate {
    let least = Rate::from_kbit(8);
    let Some(rate) = table.value_in("flow_rate", Rate::ZERO..=Rate::MOST) else { return FLOW_RATE };
    if rate.value > Rate::ZERO && rate.value < least {
        let allowed = format!("{least} to {}, or 0 bit/s", Rate::MOST);
        let d = table.error("flow_rate", "is out of range").allowed(allowed);
        table.diagnostics().push(d.hint("Use 0 bit/s for no limit on single flows"));
    }
    rate.value
}

/// Reads the detector (`None` without a class) and the number of calls its class is meant for.
pub(super) fn detector(table: &mut TableReader<'_>, names: &Names<'_>) -> (Option<DetectorSpec>, u32) {
    table.require("class", "\"ef\"");
    let class = class(table, "class", names);
    let enabled = flag(table, "enabled", true);
    let packets = table.integer("packets", 3..=64).map_or(10, |p| p.value as u32);
    let regular = table.integer("regular", 3..=i64::from(packets)).map(|n| n.value as u32);
    let within = table.value_in("within", Duration::from_millis(10)..=Duration::from_secs(60));
    let idle = table.value_in("idle", Duration::from_secs(1)..=Duration::from_secs(3_600));
    let wrapped = flag(table, "wrapped", true);
    let statistical = flag(table, "statistical", false);
    let mut limit = |key, range, default| table.integer(key, range).map_or(default, |n| n.value as u32);
    let statistical_after = limit("statistical_after", 15..=250, 15);
    let statistical_size = limit("statistical_size", 40..=1500, 200);
    let statistical_rate = limit("statistical_rate", 5..=1000, 15);
    let rate = table.value_in("rate", Rate::from_kbit(8)..=Rate::MOST).map(|r| r.value);
    let policies = [("drop", ExcessPolicy::Drop), ("demote", ExcessPolicy::Demote)];
    let excess = table.choice("excess", &policies).map_or(ExcessPolicy::Drop, |e| e.value);
    let flow_rate = flow_rate(table);
    let admission = admission::read(table, idle.as_ref().map_or(Duration::from_secs(30), |i| i.value));
    let in_ports = references(table, "in_ports", "a port", &names.ports);
    let calls = table.integer("calls", 1..=MAX_CALLS).map_or(1, |c| c.value as u32);
    let dscp = dscp(table, "dscp");
    let shared = flag(table, "shared", false);
    let spec = class.map(|class| DetectorSpec {
        enabled,
        class,
        packets,
        regular,
        within: within.map_or(Duration::from_secs(1), |w| w.value),
        idle: idle.map_or(Duration::from_secs(30), |i| i.value),
        wrapped,
        statistical,
        statistical_after,
        statistical_size,
        statistical_rate,
        dscp,
        rate,
        excess,
        in_ports,
        shared,
        flow_rate,
        admission,
    });
    (spec, calls)
}
