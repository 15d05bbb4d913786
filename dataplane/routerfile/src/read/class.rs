//! `[[class]]`: a node of a port's link-sharing tree.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `name`, `port` | name, port | needed | |
//! | `logical` | name that filters use | the part of `name` behind its last `/` | |
//! | `parent` | class of the same port | child of the root | at most 8 deep |
//! | `guarantee` | rate, or share of the parent's guarantee or the port | 0 | sums are scaled down to fit |
//! | `guarantee_first` | table: `rate`, `time` | the guarantee | 8 kbit/s – 1 Tbit/s, 1 us – 60 s; `hfsc` only |
//! | `delay` | table: `proportion`, `bound` | 1, none | 1 – 1,000,000, 1 us – 60 s; `hpd` and `jobs` only |
//! | `loss` | table: `proportion`, `bound` | 1, none | 1 – 1,000,000, percentage; `jobs` only |
//! | `ceiling` | rate, or share of the port | the port's rate | at least the guarantee |
//! | `burst`, `ceiling_burst` | size | two frames or 10 ms | 3028 B – 1 GiB |
//! | `weight` | whole number | 1 | 1 – 1,000,000 |
//! | `tier` | whole number | 15 | 0 (first) – 15 |
//! | `queue` | queue of a leaf | 100 ms | see `queue` |
//! | `default` | boolean | false | one leaf a port |
//! | `dscp` | code points | none | |
//! | `sla` | contract | every packet | |
//! | `shared` | boolean | true | |

use super::port::MIN_RATE;
use super::{bytes, flag, queue};
use crate::names::{Names, reference};
use crate::value;
use perhop_config::TableReader;
use perhop_contract::FRAME_MTU;
use perhop_model::{ClassSpec, DelayGoal, FirstPiece, LossGoal};
use perhop_units::{Duration, Rate, Share};

/// Reads one class; `None` without a port, for nothing else about it can be judged then.
pub(super) fn read(table: &mut TableReader<'_>, names: &Names<'_>) -> Option<ClassSpec> {
    table.require("port", "\"wan\"");
    let port = reference(table, "port", "a port", &names.ports);
    let logical = table.value_with("logical", "a name", value::name).map(|n| n.value);
    let parent = reference(table, "parent", "a class", &names.classes);
    let guarantee = table.value::<Share>("guarantee").map_or(Share::Rate(Rate::ZERO), |g| g.value);
    let guarantee_first = table.table("guarantee_first").and_then(first_piece);
    let delay = table.table("delay").map(delay_goal);
    let loss = table.table("loss").map(loss_goal);
    let burst = bytes(table, "burst", 2 * FRAME_MTU, 1 << 30, 0);
    let ceiling = table.value::<Share>("ceiling");
    if let Some(zero) = ceiling.filter(|c| c.value.is_zero()) {
        table.diagnostics().push(table.document().error(zero.span, "would let nothing pass"));
    }
    let ceiling_burst = bytes(table, "ceiling_burst", 2 * FRAME_MTU, 1 << 30, 0);
    let weight = table.integer("weight", 1..=1_000_000).map_or(1, |w| w.value as u32);
    let tier = table.integer("tier", 0..=15).map_or(15, |t| t.value as u8);
    let queue = queue::read(table, "queue").unwrap_or_default();
    let default = flag(table, "default", false);
    let dscp = table.values("dscp").map_or(Vec::new(), |l| l.value.iter().map(|d| d.value).collect());
    let sla = reference(table, "sla", "an sla", &names.slas);
    let shared = flag(table, "shared", true);
    Some(ClassSpec {
        port: port?,
        logical,
        parent,
        guarantee,
        guarantee_first,
        delay,
        loss,
        burst,
        ceiling: ceiling.map(|c| c.value).filter(|c| !c.is_zero()),
        ceiling_burst,
        weight,
        tier,
        queue,
        default,
        dscp,
        sla,
        shared,
    })
}

/// `guarantee_first = { rate = "3 Mbit/s", time = "10 ms" }`; `None` if one of them is not there.
fn first_piece(mut table: TableReader<'_>) -> Option<FirstPiece> {
    table.require("rate", "\"3 Mbit/s\"");
    table.require("time", "\"10 ms\"");
    let rate = table.value_in("rate", MIN_RATE..=Rate::MOST).map(|r| r.value);
    let time = table.value_in("time", Duration::from_micros(1)..=Duration::from_secs(60)).map(|t| t.value);
    table.finish();
    Some(FirstPiece { rate: rate?, time: time? })
}

fn proportion(table: &mut TableReader<'_>) -> Option<u32> {
    table.integer("proportion", 1..=1_000_000).map(|n| n.value as u32)
}

/// `delay = { proportion = 4, bound = "20 ms" }`.
fn delay_goal(mut table: TableReader<'_>) -> DelayGoal {
    let bound = table.value_in("bound", Duration::from_micros(1)..=Duration::from_secs(60)).map(|t| t.value);
    let goal = DelayGoal { proportion: proportion(&mut table), bound };
    table.finish();
    goal
}

/// `loss = { proportion = 2, bound = "1 %" }`.
fn loss_goal(mut table: TableReader<'_>) -> LossGoal {
    let bound_ppm = table.value_with("bound", "a percentage", queue::percentage).map(|p| p.value);
    let goal = LossGoal { proportion: proportion(&mut table), bound_ppm };
    table.finish();
    goal
}
