//! `[[port]]`: an interface with a transmit rate.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `name` | name | needed | 1–128 of `A-Z a-z 0-9 . _ : / -` |
//! | `device` | interface | the name | 1–15 bytes without spaces, `/`, `:` and `%` |
//! | `io` | `"tun"` | that of the router | not for bridges |
//! | `rate` | rate of the link | as fast as the interface | 8 kbit/s – 1 Tbit/s |
//! | `headroom` | percentage of `rate` that stays free | 1 %, 0 with `io` | 0 – 50 % |
//! | `overhead` | bytes a frame | with `rate` those of Ethernet, 24; 0 with `cells` or `io` | −64 – 256 |
//! | `minimum_frame` | bytes | where `overhead` is not given, that of Ethernet, 84; else none | 0 – 1514 |
//! | `cells` | `"none"`, `"atm"` | `"none"` | |
//! | `source_check` | `"kernel"`, `"off"`, `"loose"`, `"strict"` | `"kernel"` | not for bridges |
//! | `trust_dscp` | boolean | false | |
//! | `queue` | queue of a port without classes; with `jobs` the limit of all classes | 100 ms, or 1000 full frames without a rate | see `queue`; no `red` |
//! | `scheduler` | `"tree"`, `"hfsc"`, `"htb"`, `"wf2q"`, `"priority"`, `"cbq"`, `"hpd"`, `"jobs"` | `"tree"` | all but `tree`, `wf2q` and `priority` need a rate |
//! | `shared` | boolean | true | |
//! | `managed_by` | owner that may change `rate` | nobody | |

use super::queue::percentage;
use super::{flag, managed_by, queue};
use perhop_config::{TableReader, TextError};
use perhop_contract::FRAME_MTU;
use perhop_model::{Cells, DEVICE_NAMES, PortMode, PortSpec, Scheduler, SourceCheck, is_device_name};
use perhop_units::Rate;

/// Slowest rate of a port.
pub(crate) const MIN_RATE: Rate = Rate::from_kbit(8);

/// What Ethernet adds to a frame without its FCS: preamble, FCS and gap (IEEE 802.3 clause 4.4.2); and the shortest frame with
/// these.
pub(crate) const ETHERNET: (i32, u32) = (24, 84);
/// Of a link's rate stays free unless a file says otherwise: so the queue is here, whatever clocks and sums of both ends make of it.
const HEADROOM_PPM: u32 = 10_000;
const MOST_HEADROOM_PPM: u32 = 500_000;

/// Reads one port, whether it is a TUN interface or not; absent and wrong values take their defaults.
pub(super) fn read(table: &mut TableReader<'_>, mode: PortMode, is_tun: bool) -> PortSpec {
    let device = table.value_with("device", "a string", device).map_or(String::new(), |d| d.value);
    let rate = table.value_in("rate", MIN_RATE..=Rate::MOST).map(|r| r.value);
    let headroom = headroom(table, rate, is_tun);
    let cells =
        table.choice("cells", &[("none", Cells::None), ("atm", Cells::Atm)]).map_or(Cells::None, |c| c.value);
    let overhead = table.bytes_in("overhead", -64..=256).map(|o| o.value as i32);
    let is_ethernet = rate.is_some() && overhead.is_none() && cells == Cells::None && !is_tun;
    let (more, least) = if is_ethernet { ETHERNET } else { (overhead.unwrap_or(0), 0) };
    PortSpec {
        device,
        mode,
        rate: rate.map_or(Rate::ZERO, |rate| without(rate, headroom)),
        overhead: more,
        minimum_frame: table
            .bytes_in("minimum_frame", 0..=FRAME_MTU as i64)
            .map_or(least, |m| m.value as u32),
        cells,
        source_check: source_check(table, mode),
        trust_dscp: flag(table, "trust_dscp", false),
        queue: queue::read(table, "queue"),
        scheduler: table
            .choice("scheduler", &Scheduler::ALL.map(|s| (s.name(), s)))
            .map_or(Scheduler::Tree, |s| s.value),
        shared: flag(table, "shared", true),
        managed_by: managed_by(table),
    }
}

fn source_check(table: &mut TableReader<'_>, mode: PortMode) -> SourceCheck {
    let choices = [
        ("kernel", SourceCheck::Kernel),
        ("off", SourceCheck::Off),
        ("loose", SourceCheck::Loose),
        ("strict", SourceCheck::Strict),
    ];
    let Some(given) = table.choice("source_check", &choices) else { return SourceCheck::Kernel };
    if mode == PortMode::Bridge {
        let error = table.error("source_check", "does not go with mode = \"bridge\": a bridge has no routes");
        table.diagnostics().push(error.hint("Leave it out, or use mode = \"route\"."));
    }
    given.value
}

/// The part of the link's rate that stays free, ppm.
fn headroom(table: &mut TableReader<'_>, rate: Option<Rate>, is_tun: bool) -> u32 {
    let default = if is_tun { 0 } else { HEADROOM_PPM };
    let Some(given) = table.value_with("headroom", "a percentage", headroom_text) else { return default };
    if rate.is_none() {
        let error = table.error("headroom", "is of a rate, and this port has none");
        table.diagnostics().push(error.hint("Give the port the rate of its link, or leave it out."));
    }
    given.value
}

/// Not below the slowest rate.
fn without(rate: Rate, ppm: u32) -> Rate {
    let free = u128::from(rate.0) * u128::from(ppm) / 1_000_000;
    rate.saturating_sub(Rate(u64::try_from(free).unwrap_or(u64::MAX))).max(MIN_RATE)
}

fn headroom_text(text: &str) -> Result<u32, TextError> {
    let ppm = percentage(text)?;
    if ppm > MOST_HEADROOM_PPM {
        return Err(TextError::new("is too large").allowed("0 % to 50 %"));
    }
    Ok(ppm)
}

/// Whether it is a TUN interface of the router's own (`io = "tun"`).
pub(super) fn is_tun(table: &mut TableReader<'_>, mode: PortMode) -> bool {
    let tun = table.choice("io", &[("tun", ())]).is_some();
    if tun && mode == PortMode::Bridge {
        let why =
            "does not go with mode = \"bridge\": a TUN interface has IP packets and no frames to bridge";
        let error = table.error("io", why).hint("Leave it out, or use mode = \"route\".");
        table.diagnostics().push(error);
    }
    tun
}

fn device(text: &str) -> Result<String, TextError> {
    if is_device_name(text) {
        Ok(text.to_owned())
    } else {
        Err(TextError::new("is not an interface name").allowed(DEVICE_NAMES))
    }
}
