//! `[[port]]`: an interface with a transmit rate.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `name` | name | needed | 1–128 of `A-Z a-z 0-9 . _ : / -` |
//! | `device` | interface | the name | 1–15 bytes without spaces, `/`, `:` and `%` |
//! | `io` | `"tun"` | that of the router | not for bridges |
//! | `rate` | rate | as fast as the interface | 8 kbit/s – 1 Tbit/s |
//! | `overhead` | bytes a frame | 0 | −64 – 256 |
//! | `minimum_frame` | bytes | none | 0 – 1514 |
//! | `cells` | `"none"`, `"atm"` | `"none"` | |
//! | `trust_dscp` | boolean | false | |
//! | `queue` | queue of a port without classes; with `jobs` the limit of all classes | 100 ms, or 1000 full frames without a rate | see `queue`; no `red` |
//! | `scheduler` | `"tree"`, `"hfsc"`, `"htb"`, `"wf2q"`, `"priority"`, `"cbq"`, `"hpd"`, `"jobs"` | `"tree"` | all but `tree`, `wf2q` and `priority` need a rate |
//! | `shared` | boolean | true | |

use super::{flag, queue};
use perhop_config::{TableReader, TextError};
use perhop_contract::FRAME_MTU;
use perhop_model::{Cells, DEVICE_NAMES, PortMode, PortSpec, Scheduler, is_device_name};
use perhop_units::Rate;

/// Slowest rate of a port.
pub(crate) const MIN_RATE: Rate = Rate::from_kbit(8);

/// Reads one port; absent and wrong values take their defaults.
pub(super) fn read(table: &mut TableReader<'_>, mode: PortMode) -> PortSpec {
    PortSpec {
        device: table.value_with("device", "a string", device).map_or(String::new(), |d| d.value),
        mode,
        rate: table.value_in("rate", MIN_RATE..=Rate::MOST).map_or(Rate::ZERO, |r| r.value),
        overhead: table.bytes_in("overhead", -64..=256).map_or(0, |o| o.value as i32),
        minimum_frame: table.bytes_in("minimum_frame", 0..=FRAME_MTU as i64).map_or(0, |m| m.value as u32),
        cells: table
            .choice("cells", &[("none", Cells::None), ("atm", Cells::Atm)])
            .map_or(Cells::None, |c| c.value),
        trust_dscp: flag(table, "trust_dscp", false),
        queue: queue::read(table, "queue"),
        scheduler: table
            .choice("scheduler", &Scheduler::ALL.map(|s| (s.name(), s)))
            .map_or(Scheduler::Tree, |s| s.value),
        shared: flag(table, "shared", true),
    }
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
