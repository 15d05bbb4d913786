//! `[[profile]]`: a meter and what happens to each colour.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `meter.type` | `token_bucket`, `srtcm`, `trtcm`, `tswtcm`, `none` | needed in `meter` | |
//! | `meter.cir`, `meter.pir` | rate at IP length | needed | 1 bit/s – 1 Tbit/s, pir ≥ cir |
//! | `meter.cbs`, `meter.pbs` | size | needed | 1500 B – 1 GiB |
//! | `meter.ebs` | size (srtcm; cbs or ebs ≥ 1500 B) | needed | 0 – 1 GiB |
//! | `meter.window` | time (tswtcm) | 1 s | 1 ms – 60 s |
//! | `meter.aware` | boolean (srtcm, trtcm) | false | |
//! | `green`, `yellow`, `red` | `"pass"`, `"drop"`, `{ do = "mark", dscp = … }`, `{ do = "class", class = …, dscp = … }` | pass, pass, drop | |
//! | `shared` | boolean | false | |

use super::{bytes, dscp, flag};
use crate::names::{Names, class};
use perhop_config::TableReader;
use perhop_model::{ColorAction, MeterSpec, ProfileSpec};
use perhop_units::{Bytes, Duration, Rate};

/// Largest burst, bytes.
const MAX_BURST: u64 = 1 << 30;
/// Bytes of a full-size packet at IP length.
const FULL_SIZE: u64 = 1500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum MeterKind {
    None,
    TokenBucket,
    Srtcm,
    Trtcm,
    Tswtcm,
}

#[derive(Clone, Copy)]
enum ActionKind {
    Pass,
    Drop,
    Mark,
    Class,
}

const ACTIONS: [(&str, ActionKind); 4] = [
    ("pass", ActionKind::Pass),
    ("drop", ActionKind::Drop),
    ("mark", ActionKind::Mark),
    ("class", ActionKind::Class),
];

/// Reads one profile; absent and wrong values take their defaults.
pub(super) fn read(table: &mut TableReader<'_>, names: &Names<'_>) -> ProfileSpec {
    let meter = table.table("meter").map_or(MeterSpec::None, meter);
    let mut action = |key, default| action(table, key, names).unwrap_or(default);
    let green = action("green", ColorAction::Pass);
    let yellow = action("yellow", ColorAction::Pass);
    let red = action("red", ColorAction::Drop);
    let written = [table.location_of("yellow"), table.location_of("red")];
    let unreachable = match meter {
        MeterSpec::None => &written[..],
        MeterSpec::TokenBucket { .. } => &written[..1],
        _ => &[],
    };
    for at in unreachable.iter().flatten() {
        let d = table.document().warning(*at, "never happens: the meter gives no packet this colour");
        table.diagnostics().push(d.value("").hint("Use srtcm, trtcm or tswtcm for three colours"));
    }
    ProfileSpec { meter, green, yellow, red, shared: flag(table, "shared", false) }
}

fn meter(mut table: TableReader<'_>) -> MeterSpec {
    let kinds = [
        ("token_bucket", MeterKind::TokenBucket),
        ("srtcm", MeterKind::Srtcm),
        ("trtcm", MeterKind::Trtcm),
        ("tswtcm", MeterKind::Tswtcm),
        ("none", MeterKind::None),
    ];
    let kind = table.required_choice("type", &kinds).map(|k| k.value);
    let Some(kind) = kind else {
        // Which keys belong here depends on the type.
        table.skip();
        return MeterSpec::None;
    };
    let rate = |table: &mut TableReader<'_>, key: &'static str| {
        table.require(key, "\"1 Mbit/s\"");
        table.value_in(key, Rate(1)..=Rate::MOST).map(|r| r.value)
    };
    let burst = |table: &mut TableReader<'_>, key: &'static str, min| {
        table.require(key, "\"15 kB\"");
        bytes(table, key, min, MAX_BURST, FULL_SIZE)
    };
    let meter = match kind {
        MeterKind::None => MeterSpec::None,
        MeterKind::TokenBucket => MeterSpec::TokenBucket {
            cir: rate(&mut table, "cir").unwrap_or(Rate(1)),
            cbs: burst(&mut table, "cbs", FULL_SIZE),
        },
        MeterKind::Srtcm => {
            let cir = rate(&mut table, "cir").unwrap_or(Rate(1));
            let (cbs, ebs) = (burst(&mut table, "cbs", 0), burst(&mut table, "ebs", 0));
            if cbs.max(ebs) < Bytes(FULL_SIZE) {
                let d = table.error("cbs", "and ebs are both too small for a packet of 1500 B");
                table
                    .diagnostics()
                    .push(d.hint("such a packet would always be red. Give one of them at least 1500 B"));
            }
            MeterSpec::Srtcm { cir, cbs, ebs, aware: flag(&mut table, "aware", false) }
        }
        MeterKind::Trtcm => {
            let rates = [rate(&mut table, "cir"), rate(&mut table, "pir")];
            let (cir, pir) = two_rates(&mut table, rates);
            let (cbs, pbs) = (burst(&mut table, "cbs", FULL_SIZE), burst(&mut table, "pbs", FULL_SIZE));
            let aware = flag(&mut table, "aware", false);
            MeterSpec::Trtcm { cir, cbs, pir, pbs, aware }
        }
        MeterKind::Tswtcm => {
            let rates = [rate(&mut table, "cir"), rate(&mut table, "pir")];
            let (cir, pir) = two_rates(&mut table, rates);
            let window = table.value_in("window", Duration::from_millis(1)..=Duration::from_secs(60));
            MeterSpec::Tswtcm { cir, pir, window: window.map_or(Duration::from_secs(1), |w| w.value) }
        }
    };
    table.finish();
    meter
}

/// The committed rate and the peak rate, which is at least that.
fn two_rates(table: &mut TableReader<'_>, [cir, pir]: [Option<Rate>; 2]) -> (Rate, Rate) {
    if let (Some(cir), Some(pir)) = (cir, pir)
        && pir < cir
    {
        let d = table.error("pir", format!("is below cir ({cir})"));
        table.diagnostics().push(d.hint("The peak rate is at least the committed rate (RFC 2698, RFC 2859)"));
    }
    let cir = cir.unwrap_or(Rate(1));
    (cir, pir.unwrap_or(cir).max(cir))
}

/// `red = "drop"` or `red = { do = "mark", dscp = "AF13" }`.
fn action(table: &mut TableReader<'_>, key: &'static str, names: &Names<'_>) -> Option<ColorAction> {
    if table.is_text(key) {
        let kind = table.choice(key, &ACTIONS)?;
        return match kind.value {
            ActionKind::Pass => Some(ColorAction::Pass),
            ActionKind::Drop => Some(ColorAction::Drop),
            ActionKind::Mark => needs_table(table, key, "{ do = \"mark\", dscp = \"AF13\" }"),
            ActionKind::Class => needs_table(table, key, "{ do = \"class\", class = \"best-effort\" }"),
        };
    }
    let mut inner = table.table(key)?;
    let kind = inner.required_choice("do", &ACTIONS).map(|k| k.value);
    let read = match kind {
        None => {
            inner.skip();
            return None;
        }
        Some(ActionKind::Pass) => Some(ColorAction::Pass),
        Some(ActionKind::Drop) => Some(ColorAction::Drop),
        Some(ActionKind::Mark) => {
            inner.require("dscp", "\"AF13\"");
            dscp(&mut inner, "dscp").map(|dscp| ColorAction::Mark { dscp })
        }
        Some(ActionKind::Class) => {
            inner.require("class", "\"best-effort\"");
            let class = class(&mut inner, "class", names);
            let dscp = dscp(&mut inner, "dscp");
            class.map(|class| ColorAction::Class { class, dscp })
        }
    };
    inner.finish();
    read
}

fn needs_table(table: &mut TableReader<'_>, key: &'static str, example: &str) -> Option<ColorAction> {
    let d = table.error(key, "does not say everything").hint(format!("Write for example {key} = {example}"));
    table.diagnostics().push(d);
    None
}
