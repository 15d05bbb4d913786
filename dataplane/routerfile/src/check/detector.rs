//! The real-time class against the calls it is meant for.

use super::tree::Trees;
use super::{Checker, rounded};
use crate::Declared;
use crate::read::Declarations;
use perhop_model::{ClassSpec, DetectorSpec};
use perhop_units::{Framing, Rate};
use std::collections::BTreeSet;

/// Bytes of a G.711 packet of 20 ms in an Ethernet frame without FCS: 14 + 20 + 8 + 12 + 160.
const CALL_FRAME: u64 = 214;
/// G.711 packets a second at 20 ms.
const CALL_PACKETS: u64 = 50;

pub(super) fn check(c: Checker<'_>, declared: &Declarations, trees: &Trees) {
    let Some(detector) = declared.detector.as_ref().filter(|d| d.spec.enabled) else { return };
    let calls = declared.calls.max(1);
    let logical = detector.spec.class.as_str();
    let mut with_class = BTreeSet::new();
    let mut told = false;
    for (i, class) in declared.classes.iter().enumerate() {
        if trees.leaf[i] && class.spec.logical_name(&class.name) == logical {
            with_class.insert(&class.spec.port);
            let port = declared.ports.iter().find(|p| p.name == class.spec.port);
            let framing = port.map_or((0, Framing::PLAIN), |p| p.spec.framing());
            class_rates(c, class, i, trees, Need::new(calls, framing));
            told = told || cap(c, detector, class, i, trees);
        }
    }
    if let Some(rate) = detector.spec.rate {
        let need = Need::new(calls, (0, Framing::PLAIN));
        if rate < need.rate {
            c.push(c.warning(detector.at, "rate", need.message("")).hint("packets beyond it are policed"));
        }
    }
    let others = declared.classes.iter().map(|d| &d.spec.port).filter(|p| !with_class.contains(p));
    let others: BTreeSet<_> = others.collect();
    if declared.incomplete {
        return;
    }
    for port in others {
        let d = c.warning(detector.at, "class", format!("is no class of port \"{port}\""));
        c.push(d.hint("recognised flows go to the default class there. Add the class to that port"));
    }
    no_effect(c, detector, declared);
}

/// Admission against what the admitted flows share: the link, the rate of all recognised flows, and what the class is
/// sure of. The first that is too small is told; whether one is.
fn cap(
    c: Checker<'_>,
    detector: &Declared<DetectorSpec>,
    class: &Declared<ClassSpec>,
    i: usize,
    trees: &Trees,
) -> bool {
    let cap = detector.spec.admission.as_ref().map(|a| a.cap).filter(|cap| *cap > Rate::ZERO);
    let Some(cap) = cap else { return false };
    if !c.sound(detector.at, "admission.cap") {
        return false;
    }
    let port_rate = trees.port_rate[i].0;
    let ceiling = class.spec.ceiling.map(|s| s.of(trees.port_rate[i]).0).filter(|v| *v > 0);
    let guarantee = trees.guarantee[i].unwrap_or(Rate::ZERO);
    let unwritten = ceiling.unwrap_or(guarantee.0);
    let shared = detector.spec.rate.unwrap_or(Rate(unwritten));
    let lacks = |rate: u64| rate > 0 && cap > Rate(rate);
    let text = |rate: u64| rounded(Rate(rate));
    let (message, hint) = match () {
        () if lacks(port_rate) => (
            format!("is above the rate of port \"{}\" ({})", class.spec.port, text(port_rate)),
            "the link is full before a flow is refused. Use what the class is to carry",
        ),
        () if lacks(shared.0) => (
            format!("is above what recognised flows may send together ({})", text(shared.0)),
            "beyond that packets are lost before a flow is refused. Lower it, or raise detector.rate or the class",
        ),
        () if lacks(ceiling.unwrap_or(0)) => (
            format!("is above the ceiling of class \"{}\" ({})", class.name, text(ceiling.unwrap_or(0))),
            "beyond that packets wait and are lost before a flow is refused. Lower it, or raise the ceiling",
        ),
        () if lacks(guarantee.0) && port_rate > 0 => (
            format!("is above the guarantee of class \"{}\" ({})", class.name, text(guarantee.0)),
            "beyond that a full link gives calls what others leave before a flow is refused. Lower it, or raise \
             the guarantee",
        ),
        () => return false,
    };
    c.push(c.warning(detector.at, "admission.cap", message).hint(hint));
    true
}

fn no_effect(c: Checker<'_>, detector: &Declared<DetectorSpec>, declared: &Declarations) {
    let chosen = declared
        .classes
        .iter()
        .find(|d| d.spec.default && d.spec.logical_name(&d.name) == detector.spec.class.as_str());
    if let Some(class) = chosen {
        let d =
            c.warning(detector.at, "class", format!("is the default class of port \"{}\"", class.spec.port));
        c.push(d.hint("recognised flows would get what everything gets. Use a class of their own"));
    }
}

/// What the calls need.
struct Need {
    calls: u32,
    each: Rate,
    rate: Rate,
}

impl Need {
    fn new(calls: u32, (overhead, framing): (u32, Framing)) -> Self {
        let each = Rate(framing.of(CALL_FRAME + u64::from(overhead)) * 8 * CALL_PACKETS);
        Self { calls, each, rate: Rate(each.0.saturating_mul(calls.into())) }
    }

    fn message(&self, of: &str) -> String {
        let calls =
            if self.calls == 1 { "one G.711 call".into() } else { format!("{} G.711 calls", self.calls) };
        format!("{of}is less than {calls} need ({})", rounded(self.rate))
    }
}

fn class_rates(c: Checker<'_>, class: &Declared<ClassSpec>, i: usize, trees: &Trees, need: Need) {
    let hint = format!(
        "detection moves calls of {} each into this class. Raise it, or lower detector.calls",
        need.each
    );
    if let Some(guarantee) = trees.guarantee[i].filter(|g| *g < need.rate) {
        let written = c.document.is_written(class.at, "guarantee");
        let of = if written && guarantee > Rate::ZERO {
            format!("({}) ", rounded(guarantee))
        } else {
            String::new()
        };
        let message = if written { need.message(&of) } else { "is missing in the real-time class".into() };
        c.push(c.warning(class.at, "guarantee", message).hint(&hint));
    }
    let ceiling = class.spec.ceiling.map(|s| s.of(trees.port_rate[i]).0).filter(|v| *v > 0);
    if ceiling.is_some_and(|v| v < need.rate.0) && c.sound(class.at, "ceiling") {
        c.push(c.warning(class.at, "ceiling", need.message("")).hint(&hint));
    }
}
