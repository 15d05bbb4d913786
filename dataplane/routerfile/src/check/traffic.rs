//! Things that get no traffic: classes nobody chooses, profiles nobody uses, code points nobody trusts.

use super::Checker;
use super::tree::Trees;
use crate::read::Declarations;
use perhop_model::{ColorAction, Name};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(c: Checker<'_>, declared: &Declarations, trees: &Trees) {
    let trusted = declared.ports.iter().any(|p| p.spec.trust_dscp || !c.sound(p.at, "trust_dscp"));
    code_points(c, declared, trusted);
    prefixes(c, declared);
    // A reference that could not be read might be the one that is looked for.
    let unread = |field| declared.filters.iter().any(|f| !c.sound(f.at, field));
    if declared.incomplete {
        return;
    }
    let profiles_read = declared.profiles.iter().all(|p| {
        ["green", "yellow", "red"].iter().all(|f| c.sound(p.at, f) && c.sound(p.at, &format!("{f}.class")))
    });
    if !unread("class") && profiles_read {
        classes(c, declared, trees, trusted);
    }
    let used: BTreeSet<&Name> = declared.filters.iter().filter_map(|f| f.spec.profile.as_ref()).collect();
    for profile in declared.profiles.iter().filter(|p| !used.contains(&p.name) && !unread("profile")) {
        let d = c.warning(profile.at, "name", "is used by no filter");
        c.push(d.hint(format!("Add profile = \"{}\" to the filters whose packets it meters", profile.name)));
    }
    let used: BTreeSet<&Name> = declared.filters.iter().filter_map(|f| f.spec.sla.as_ref()).collect();
    for sla in &declared.slas {
        let matches =
            !sla.spec.prefixes.is_empty() || !c.sound(sla.at, "prefixes") || used.contains(&sla.name);
        if !matches && !unread("sla") {
            let d = c.warning(sla.at, "name", "matches nobody: it has no prefixes and no filter names it");
            c.push(d.hint("Add prefixes = [\"…\"] with the subscriber's addresses"));
        }
    }
}

fn classes(c: Checker<'_>, declared: &Declarations, trees: &Trees, trusted: bool) {
    let mut chosen: BTreeSet<&str> =
        declared.filters.iter().filter_map(|f| f.spec.class.as_ref()).map(Name::as_str).collect();
    for profile in &declared.profiles {
        for action in [&profile.spec.green, &profile.spec.yellow, &profile.spec.red] {
            if let ColorAction::Class { class, .. } = action {
                chosen.insert(class.as_str());
            }
        }
    }
    chosen.extend(declared.detector.iter().map(|d| d.spec.class.as_str()));
    for (i, class) in declared.classes.iter().enumerate() {
        let logical = class.spec.logical_name(&class.name);
        let default = class.spec.default || trees.default.get(&class.spec.port).is_none_or(|d| *d == i);
        let by_code_point = trusted && (!class.spec.dscp.is_empty() || !c.sound(class.at, "dscp"));
        if trees.leaf[i]
            && !default
            && !by_code_point
            && !chosen.contains(logical)
            && c.sound(class.at, "parent")
        {
            let d = c.warning(
                class.at,
                "name",
                "gets no traffic: no filter, profile, detector or code point chooses it",
            );
            c.push(d.hint(format!("Write for example [[filter]] with class = \"{logical}\"")));
        }
    }
}

fn code_points(c: Checker<'_>, declared: &Declarations, trusted: bool) {
    let mut first = BTreeMap::new();
    let mut any = declared.incomplete;
    for class in &declared.classes {
        any |= !class.spec.dscp.is_empty() || !c.sound(class.at, "dscp");
        if !class.spec.dscp.is_empty() && !trusted {
            let d = c.warning(class.at, "dscp", "has no effect: no port trusts code points");
            c.push(d.hint("Add trust_dscp = true to the ports where they can be trusted"));
        }
        for dscp in &class.spec.dscp {
            let slot = (&class.spec.port, class.spec.sla.as_ref(), *dscp);
            if let Some(&(at, ref name)) = first.get(&slot) {
                let d = c.error(
                    class.at,
                    "dscp",
                    format!("names {dscp}, which chooses class \"{name}\" already"),
                );
                c.push_with(d, at, "dscp", "the first one is here");
            } else {
                first.insert(slot, (class.at, class.name.clone()));
            }
        }
    }
    for port in declared.ports.iter().filter(|p| p.spec.trust_dscp && !any) {
        let d = c.warning(port.at, "trust_dscp", "has no effect: no class names a code point");
        c.push(d.hint("Add for example dscp = [\"EF\"] to a class"));
    }
}

/// A subscriber's prefix belongs to one contract.
fn prefixes(c: Checker<'_>, declared: &Declarations) {
    let mut first = BTreeMap::new();
    for sla in &declared.slas {
        for prefix in &sla.spec.prefixes {
            match first.get(prefix) {
                None => {
                    first.insert(*prefix, sla);
                }
                Some(&other) => {
                    let message = format!("hold {prefix}, which belongs to sla \"{}\" already", other.name);
                    c.push_with(
                        c.error(sla.at, "prefixes", message).value(""),
                        other.at,
                        "prefixes",
                        "the first one is here",
                    );
                }
            }
        }
    }
}
