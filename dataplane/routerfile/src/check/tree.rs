//! The link-sharing trees: parents, leaves, guarantees, ceilings.

use super::{Checker, rounded};
use crate::Declared;
use crate::read::Declarations;
use perhop_config::Location;
use perhop_contract::{MAX_DEPTH, is_flat, unknown_fields};
use perhop_model::{ClassSpec, Name};
use perhop_units::{Rate, Share};
use std::collections::{BTreeMap, BTreeSet};

/// What the trees are, for the checks that follow. Indexes are those of [`Declarations::classes`].
#[derive(Debug, Default)]
pub(super) struct Trees {
    /// Whether a class has no children.
    pub(super) leaf: Vec<bool>,
    /// Guarantee in bit/s after scaling; `None` if it could not be worked out.
    pub(super) guarantee: Vec<Option<Rate>>,
    /// Rate of the class's port; zero = unlimited or not readable.
    pub(super) port_rate: Vec<Rate>,
    /// The class that packets without a class go to, a port.
    pub(super) default: BTreeMap<Name, usize>,
}

pub(super) fn check(c: Checker<'_>, declared: &mut Declarations) -> Trees {
    let classes = &declared.classes;
    let index: BTreeMap<Name, usize> = classes.iter().enumerate().map(|(i, d)| (d.name.clone(), i)).collect();
    let rates: BTreeMap<Name, Rate> = declared
        .ports
        .iter()
        .filter(|p| c.sound(p.at, "rate"))
        .map(|p| (p.name.clone(), p.spec.rate))
        .collect();
    let mut trees = Trees {
        leaf: vec![true; classes.len()],
        guarantee: vec![None; classes.len()],
        port_rate: classes.iter().map(|d| rates.get(&d.spec.port).copied().unwrap_or(Rate::ZERO)).collect(),
        default: BTreeMap::new(),
    };
    // Where no class can be below another, a parent is refused, and what it would mean is nobody's.
    let flat: BTreeSet<&Name> =
        declared.ports.iter().filter(|p| is_flat(p.spec.scheduler)).map(|p| &p.name).collect();
    let parents = parents(c, classes, &index, &flat);
    for parent in parents.iter().flatten() {
        trees.leaf[*parent] = false;
    }
    leaves(c, classes, &mut trees);
    without_rate(c, declared, &rates);
    guarantees(c, &mut declared.classes, &parents, &rates, &mut trees);
    ceilings(c, &declared.classes, &trees);
    trees
}

/// Each class's parent, if it is usable: on the same port, no circle, not too deep.
fn parents(
    c: Checker<'_>,
    classes: &[Declared<ClassSpec>],
    index: &BTreeMap<Name, usize>,
    flat: &BTreeSet<&Name>,
) -> Vec<Option<usize>> {
    let parent_of = |i: usize| {
        let parent = classes[i].spec.parent.as_ref().filter(|_| !flat.contains(&classes[i].spec.port));
        parent.and_then(|p| index.get(p)).copied()
    };
    let mut out = vec![None; classes.len()];
    for (i, class) in classes.iter().enumerate() {
        let Some(parent) = parent_of(i) else { continue };
        if classes[parent].spec.port != class.spec.port {
            let other = &classes[parent].spec.port;
            let d = c.error(
                class.at,
                "parent",
                format!("is a class of port \"{other}\", not of \"{}\"", class.spec.port),
            );
            c.push_with(d, classes[parent].at, "port", "its port is chosen here");
            continue;
        }
        let mut at = i;
        let mut depth = 0;
        while let Some(next) = parent_of(at)
            && depth <= MAX_DEPTH
        {
            at = next;
            depth += 1;
            if at == i {
                break;
            }
        }
        if at == i {
            c.push(c.error(class.at, "parent", "makes a circle: the class is its own ancestor"));
        } else if depth >= MAX_DEPTH {
            let d = c.error(class.at, "parent", "makes the tree too deep");
            c.push(d.allowed(format!("at most {MAX_DEPTH} classes above each other")));
        } else {
            out[i] = Some(parent);
        }
    }
    out
}

/// Names of leaves, and the default of each port.
fn leaves(c: Checker<'_>, classes: &[Declared<ClassSpec>], trees: &mut Trees) {
    let mut logical: BTreeMap<(&Name, Option<&Name>, &str), Location> = BTreeMap::new();
    let mut fittest: BTreeMap<&Name, usize> = BTreeMap::new();
    let mut unsure: BTreeSet<&Name> = BTreeSet::new();
    for (i, class) in classes.iter().enumerate() {
        let (spec, port) = (&class.spec, &class.spec.port);
        if !c.sound(class.at, "default") || !c.sound(class.at, "parent") {
            unsure.insert(port);
        }
        if spec.default {
            if !trees.leaf[i] {
                unsure.insert(port);
                let d = c.error(class.at, "default", "is given to a class that has children");
                c.push(d.hint("packets are queued in leaves. Make one of its leaves the default"));
            } else if let Some(&first) = trees.default.get(port) {
                let d = c.error(class.at, "default", format!("is the second default of port \"{port}\""));
                c.push_with(d, classes[first].at, "default", "the first one is here");
            } else {
                trees.default.insert(port.clone(), i);
            }
        }
        if !trees.leaf[i] {
            if c.document.is_written(class.at, "queue") {
                let d = c.warning(class.at, "queue", "has no effect: the class has children");
                c.push(d.value("").hint("only leaves queue packets. Remove it"));
            }
            if !spec.dscp.is_empty() {
                let d = c.warning(class.at, "dscp", "has no effect: the class has children");
                c.push(d.hint("only leaves queue packets. Give it to one of its leaves"));
            }
            continue;
        }
        let name = spec.logical_name(&class.name);
        match logical.get(&(port, spec.sla.as_ref(), name)) {
            Some(&first) if first != class.at && c.sound(class.at, "name") => {
                let field = if spec.logical.is_some() { "logical" } else { "name" };
                let d = c.error(
                    class.at,
                    field,
                    format!("gives port \"{port}\" a second class with the logical name \"{name}\""),
                );
                c.push_with(d, first, "name", "the first one is here");
            }
            Some(_) => {}
            None => {
                logical.insert((port, spec.sla.as_ref(), name), class.at);
            }
        }
        let best = fittest.entry(port).or_insert(i);
        let fitness = |i: usize| (classes[i].spec.fitness_as_default(), &classes[i].name);
        if fitness(*best) < fitness(i) {
            *best = i;
        }
    }
    for (port, i) in fittest {
        if trees.default.contains_key(port) || unsure.contains(port) {
            continue;
        }
        trees.default.insert(port.clone(), i);
        let message = format!("is the default of port \"{port}\" only because no class says default = true");
        c.push(
            c.warning(classes[i].at, "name", message)
                .hint("Add default = true to the class for everything else"),
        );
    }
}

/// Classes on a port without a rate: shares have nothing to refer to, and the queue builds elsewhere.
fn without_rate(c: Checker<'_>, declared: &Declarations, rates: &BTreeMap<Name, Rate>) {
    let mut told = BTreeSet::new();
    for class in &declared.classes {
        let port = &class.spec.port;
        let Some(of) = declared.ports.iter().find(|p| p.name == *port) else { continue };
        if rates.get(port) != Some(&Rate::ZERO) {
            continue;
        }
        // What the scheduler refuses anyway needs no rate.
        let refused = unknown_fields(of.spec.scheduler, &class.spec);
        for (field, share) in [("guarantee", Some(class.spec.guarantee)), ("ceiling", class.spec.ceiling)] {
            let top = field == "ceiling" || class.spec.parent.is_none();
            let known = refused.iter().all(|(name, _)| *name != field);
            if top && known && matches!(share, Some(Share::Ppm(1..))) {
                let d = c.error(
                    class.at,
                    field,
                    format!("is a share of the rate of port \"{port}\", which has none"),
                );
                c.push(d.hint(format!(
                    "Give the port a rate, or write {field} as a rate. A scenario gives it that of its link, as does \
                     --rate {port}=RATE here"
                )));
            }
        }
        if told.insert(port) {
            let d = c.warning(of.at, "rate", "is missing on a port with classes");
            c.push(d.hint(
                "the queue would build behind the router, where classes have no effect. Use the link's rate",
            ));
        }
    }
}

/// Guarantees from the top down. What exceeds the port or the parent is scaled down in proportion.
fn guarantees(
    c: Checker<'_>,
    classes: &mut [Declared<ClassSpec>],
    parents: &[Option<usize>],
    rates: &BTreeMap<Name, Rate>,
    trees: &mut Trees,
) {
    let mut groups: BTreeMap<(Name, Option<usize>), Vec<usize>> = BTreeMap::new();
    for (i, class) in classes.iter().enumerate() {
        let orphan = class.spec.parent.is_some() && parents[i].is_none() || !c.sound(class.at, "parent");
        if !orphan && rates.contains_key(&class.spec.port) {
            groups.entry((class.spec.port.clone(), parents[i])).or_default().push(i);
        }
    }
    let mut open: Vec<(Name, Option<usize>)> =
        groups.keys().filter(|(_, parent)| parent.is_none()).cloned().collect();
    while let Some(group) = open.pop() {
        let Some(members) = groups.get(&group) else { continue };
        let (port, parent) = &group;
        let whole = match parent {
            Some(p) => trees.guarantee[*p],
            None => rates.get(port).copied(),
        };
        for &i in members {
            let sound = c.sound(classes[i].at, "guarantee");
            trees.guarantee[i] = match classes[i].spec.guarantee {
                _ if !sound => None,
                Share::Rate(rate) => Some(rate),
                share => whole.map(|w| share.of(w)),
            };
            open.push((port.clone(), Some(i)));
        }
        if let Some(whole) = whole {
            fit(c, classes, members, &group, whole, trees);
        }
    }
}

/// Compares the guarantees of siblings with the whole they share.
fn fit(
    c: Checker<'_>,
    classes: &mut [Declared<ClassSpec>],
    members: &[usize],
    group: &(Name, Option<usize>),
    whole: Rate,
    trees: &mut Trees,
) {
    let (port, parent) = group;
    if parent.is_none() && whole.0 == 0 {
        return;
    }
    let sum: u128 = members.iter().filter_map(|&i| trees.guarantee[i]).map(|g| u128::from(g.0)).sum();
    if sum <= u128::from(whole.0) {
        return;
    }
    let what = match parent {
        Some(p) => format!("the guarantee of class \"{}\" ({whole})", classes[*p].name),
        None => format!("the rate of port \"{port}\" ({whole})"),
    };
    let mut running = 0u128;
    let mut told = false;
    for &i in members {
        let Some(mine) = trees.guarantee[i].filter(|g| *g > Rate::ZERO) else { continue };
        running += u128::from(mine.0);
        let scaled = Rate((u128::from(mine.0) * u128::from(whole.0) / sum) as u64);
        let alone = mine > whole;
        if whole.0 == 0 {
            let d = c.error(classes[i].at, "guarantee", format!("exceeds {what}"));
            c.push(d.hint(format!(
                "Give the parent a guarantee of at least {}",
                Rate(sum.min(u64::MAX.into()) as u64)
            )));
        } else if alone || (running > u128::from(whole.0) && !told) {
            told = true;
            let message = if alone {
                format!("exceeds {what}")
            } else {
                format!(
                    "brings the guarantees to {}, above {what}",
                    Rate(running.min(u64::MAX.into()) as u64)
                )
            };
            let hint = format!(
                "the router scales such guarantees down in proportion, this one to {}. Lower them until they fit",
                rounded(scaled)
            );
            c.push(c.warning(classes[i].at, "guarantee", message).hint(hint));
        }
        trees.guarantee[i] = Some(scaled);
        classes[i].spec.guarantee = Share::Rate(scaled);
    }
}

fn ceilings(c: Checker<'_>, classes: &[Declared<ClassSpec>], trees: &Trees) {
    for (i, class) in classes.iter().enumerate() {
        let rate = trees.port_rate[i];
        let Some(share) = class.spec.ceiling.filter(|_| c.sound(class.at, "ceiling")) else { continue };
        let ceiling = share.of(rate);
        // A rate is one even where the rate of the port, or the parent, could not be read.
        let written = match class.spec.guarantee {
            Share::Rate(written) if c.sound(class.at, "guarantee") => Some(written),
            _ => None,
        };
        if let Some(guarantee) = trees.guarantee[i].or(written).filter(|g| ceiling.0 > 0 && *g > ceiling) {
            let d = c.error(class.at, "ceiling", format!("is below the guarantee ({guarantee})"));
            c.push_with(d, class.at, "guarantee", "the guarantee is here");
        } else if rate.0 > 0 && ceiling.0 > rate.0 {
            let d = c.warning(
                class.at,
                "ceiling",
                format!("is above the rate of port \"{}\" ({rate})", class.spec.port),
            );
            c.push(d.hint("it has no effect. Remove it"));
        }
    }
}
