//! `[[abr]]`: a policy of the TCP rate control. A flow falls under the first that matches, by order in the file.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `name` | name | `abr-` and its priority | |
//! | `match.class` | logical class | any | |
//! | `match.sla`, `match.filter` | contract, filter | any | a filter with a name |
//! | `match.dscp` | code points | any | |
//! | `match.src`, `match.dst` | prefix or address | any | one family |
//! | `match.src_ports`, `match.dst_ports` | port or `"first-last"` | any | |
//! | `rate` | rate at IP length of all flows together | watched | 1 kbit/s – 1 Tbit/s, or 0 for none |
//! | `peak`, `min` | rate of each flow | none | 1 kbit/s – 1 Tbit/s, or 0; min ≤ peak |
//! | `weight` | whole number | 1 | 1 – 1,000,000 |
//! | `floor` | `clamp`, `pace` | `clamp` | |
//! | `latency` | `average`, `timed`, `minimum`, or a table | `average` | |
//! | `latency.type` | one of these | needed in `latency` | |
//! | `latency.up`, `latency.down` | shares (average) | 0.2 %, 60 % | above 0 – 100 % |
//! | `latency.up` | time (timed) | 2 min | 1 s – 1 h |
//! | `latency.window` | time (minimum) | 10 s | 100 ms – 1 h |
//! | `allow_shrink`, `local` | boolean | false | |
//! | `limit_syn_ack` | boolean | true | |
//! | `assume_shift` | whole number | left alone | 0 – 14 |
//! | `overhead` | bytes a packet | 0 | 0 – 256 |
//! | `idle` | time | 5 s | 100 ms – 1 h |
//! | `shared` | boolean | false | |
//! | `managed_by` | owner that may change `rate` and `min` | nobody | |

use super::queue::above_zero;
use super::{flag, managed_by};
use crate::names::{Names, class, reference};
use crate::value;
use perhop_config::TableReader;
use perhop_model::{AbrFloor, AbrLatency, AbrMatch, AbrPolicySpec};
use perhop_units::{Dscp, Duration, Rate};
use std::collections::BTreeMap;

/// Slowest rate of a policy or flow.
const MIN_RATE: Rate = Rate::from_kbit(1);
/// Weights of the latency's average, in parts per million.
const PUBLISHED: (u32, u32) = (2_000, 600_000);

#[derive(Clone, Copy)]
enum Filter {
    Average,
    Timed,
    Minimum,
}

const FILTERS: [(&str, Filter); 3] =
    [("average", Filter::Average), ("timed", Filter::Timed), ("minimum", Filter::Minimum)];

/// Reads one policy without its priority; absent and wrong values take their defaults.
pub(super) fn read(table: &mut TableReader<'_>, names: &Names<'_>) -> AbrPolicySpec {
    let matches = match table.table("match") {
        Some(inner) => condition(inner, names),
        None => AbrMatch::default(),
    };
    let rate = rate(table, "rate");
    let (min, peak) = (self::rate(table, "min"), self::rate(table, "peak"));
    if peak > Rate::ZERO && min > peak {
        let d = table.error("min", format!("is above the peak ({})", peak));
        let d = d.hint("A flow gets peak at most. Raise it, or lower min");
        let at = table.location_of("peak");
        let d = at.map_or(d.clone(), |at| table.document().with_secondary(d, at, "the peak is here"));
        table.diagnostics().push(d);
    }
    let floors = [("clamp", AbrFloor::Clamp), ("pace", AbrFloor::Pace)];
    let weight = table.integer("weight", 1..=1_000_000).map_or(1, |w| w.value as u32);
    let floor = table.choice("floor", &floors).map_or(AbrFloor::Clamp, |f| f.value);
    let latency = latency(table);
    let allow_shrink = flag(table, "allow_shrink", false);
    let limit_syn_ack = flag(table, "limit_syn_ack", true);
    let assume_shift = table.integer("assume_shift", 0..=14).map(|s| s.value as u8);
    let local = flag(table, "local", false);
    let overhead = table.bytes_in("overhead", 0..=256).map_or(0, |o| o.value as u32);
    let idle = table.value_in("idle", Duration::from_millis(100)..=Duration::from_secs(3_600));
    AbrPolicySpec {
        priority: 0,
        matches,
        rate,
        weight,
        min,
        peak,
        floor,
        latency,
        allow_shrink,
        limit_syn_ack,
        assume_shift,
        local,
        overhead,
        idle: idle.map_or(Duration::from_secs(5), |i| i.value),
        refused: None,
        shared: flag(table, "shared", false),
        managed_by: managed_by(table),
    }
}

/// A rate; 0 = none.
fn rate(table: &mut TableReader<'_>, key: &'static str) -> Rate {
    let Some(rate) = table.value_in(key, Rate::ZERO..=Rate::MOST) else { return Rate::ZERO };
    if rate.value > Rate::ZERO && rate.value < MIN_RATE {
        let d = table.document().error(rate.span, "is out of range");
        table.diagnostics().push(d.allowed(format!("{MIN_RATE} to {}, or 0 bit/s", Rate::MOST)));
        return Rate::ZERO;
    }
    rate.value
}

fn condition(mut table: TableReader<'_>, names: &Names<'_>) -> AbrMatch {
    let t = &mut table;
    let matches = AbrMatch {
        class: class(t, "class", names),
        sla: reference(t, "sla", "an sla", &names.slas),
        filter: reference(t, "filter", "a filter", &names.filters),
        dscp: code_points(t),
        src: t.value_with("src", "a prefix", value::prefix).map(|p| p.value),
        dst: t.value_with("dst", "a prefix", value::prefix).map(|p| p.value),
        src_ports: t.value_with("src_ports", "a port or a range", value::ports).map(|p| p.value),
        dst_ports: t.value_with("dst_ports", "a port or a range", value::ports).map(|p| p.value),
    };
    if let (Some(src), Some(dst)) = (matches.src, matches.dst)
        && src.addr().is_ipv4() != dst.addr().is_ipv4()
    {
        let d = t.error("dst", format!("is not of the family of src ({src})"));
        t.diagnostics().push(d.hint("no packet has both. Write one policy for IPv4 and one for IPv6"));
    }
    table.finish();
    matches
}

fn code_points(table: &mut TableReader<'_>) -> Vec<Dscp> {
    let list = table.values::<Dscp>("dscp").map_or(Vec::new(), |l| l.value);
    let mut first = BTreeMap::new();
    let mut dscp = Vec::with_capacity(list.len());
    for given in list {
        if let Some(&before) = first.get(&given.value) {
            let d = table.document().error(given.span, "is listed twice");
            table.diagnostics().push(table.document().with_secondary(d, before, "the first one is here"));
            continue;
        }
        first.insert(given.value, given.span);
        dscp.push(given.value);
    }
    dscp
}

/// `latency = "minimum"` or `latency = { type = "minimum", window = "20 s" }`.
fn latency(table: &mut TableReader<'_>) -> AbrLatency {
    if table.has("latency") && !table.is_table("latency") {
        return match table.choice("latency", &FILTERS).map(|f| f.value) {
            None | Some(Filter::Average) => AbrLatency::PUBLISHED,
            Some(Filter::Timed) => AbrLatency::TIMED,
            Some(Filter::Minimum) => AbrLatency::MINIMUM,
        };
    }
    let Some(mut inner) = table.table("latency") else { return AbrLatency::PUBLISHED };
    let Some(kind) = inner.required_choice("type", &FILTERS).map(|k| k.value) else {
        // Which keys belong here depends on the type.
        inner.skip();
        return AbrLatency::PUBLISHED;
    };
    let hour = Duration::from_secs(3_600);
    let latency = match kind {
        Filter::Average => AbrLatency::Average {
            up_ppm: above_zero(&mut inner, "up", PUBLISHED.0),
            down_ppm: above_zero(&mut inner, "down", PUBLISHED.1),
        },
        Filter::Timed => {
            let up = inner.value_in("up", Duration::from_secs(1)..=hour);
            let up = up.map_or(Duration::from_secs(120), |u| u.value).0;
            AbrLatency::Timed { up: Duration(up), down_ppm: above_zero(&mut inner, "down", PUBLISHED.1) }
        }
        Filter::Minimum => {
            let window = inner.value_in("window", Duration::from_millis(100)..=hour);
            AbrLatency::Minimum { window: window.map_or(Duration::from_secs(10), |w| w.value) }
        }
    };
    inner.finish();
    latency
}
