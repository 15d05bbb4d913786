//! The link-sharing trees that a policy makes of the ports: parents, defaults, guarantees, ceilings.

use super::check::Checker;
use super::fault::{Fault, Section, Whole};
use super::limits;
use crate::model::{Class, Policy};
use perhop_model::Name;
use perhop_units::{Rate, Share};
use std::collections::BTreeMap;

pub(super) fn check(c: &mut Checker<'_>) {
    let policy = c.policy;
    for (name, class) in &policy.classes {
        above(c, name, class);
    }
    for (router, of) in &policy.routers {
        for (port, rate) in &of.ports {
            let here =
                |(_, class): &(&Name, &Class)| class.ports.iter().any(|pattern| pattern.has(router, port));
            let classes: BTreeMap<&Name, &Class> = policy.classes.iter().filter(here).collect();
            let tree = Tree { policy, router, port, rate: *rate, classes };
            tree.defaults(c);
            tree.guarantees(c);
        }
    }
}

/// What is above a class: no circle, not too deep.
fn above(c: &mut Checker<'_>, name: &Name, class: &Class) {
    let (mut at, mut depth) = (class, 0);
    while let Some(parent) = &at.parent {
        depth += 1;
        if parent == name {
            return c.push(Section::Class, name, "parent", Fault::Circle);
        }
        if depth >= limits::DEPTH {
            // A circle that the class hangs below is told of those that are in it.
            let mut seen = Some(parent);
            let ends = (0..c.policy.classes.len()).any(|_| {
                seen =
                    seen.and_then(|name| c.policy.classes.get(name)).and_then(|class| class.parent.as_ref());
                seen.is_none()
            });
            if ends {
                c.push(Section::Class, name, "parent", Fault::Deep);
            }
            return;
        }
        let Some(next) = c.policy.classes.get(parent) else { return };
        at = next;
    }
}

/// The classes of one port.
struct Tree<'p> {
    policy: &'p Policy,
    router: &'p Name,
    port: &'p Name,
    rate: Rate,
    classes: BTreeMap<&'p Name, &'p Class>,
}

impl Tree<'_> {
    fn defaults(&self, c: &mut Checker<'_>) {
        let (router, port) = (|| self.router.clone(), || self.port.clone());
        let mut first: Option<&Name> = None;
        for (name, class) in &self.classes {
            if let Some(parent) =
                class.parent.as_ref().filter(|parent| self.policy.classes.contains_key(*parent))
                && !self.classes.contains_key(parent)
            {
                c.push(
                    Section::Class,
                    name,
                    "parent",
                    Fault::ParentElsewhere { router: router(), port: port() },
                );
            }
            if !class.default {
                continue;
            }
            if self.policy.is_inner(name) {
                c.push(Section::Class, name, "default", Fault::Inner);
            }
            match first {
                None => first = Some(*name),
                Some(other) => {
                    let fault = Fault::SecondDefault { router: router(), port: port(), other: other.clone() };
                    c.push(Section::Class, name, "default", fault);
                }
            }
        }
    }

    /// A class's guarantee here; `None` where it is a share of what is not known, or of a circle.
    fn guarantee(&self, class: &Class, depth: usize) -> Option<Rate> {
        match class.guarantee {
            Share::Rate(rate) => Some(rate),
            share => self.whole(class, depth).map(|whole| share.of(whole)),
        }
    }

    /// What a class's guarantee is a part of.
    fn whole(&self, class: &Class, depth: usize) -> Option<Rate> {
        match &class.parent {
            _ if depth > limits::DEPTH => None,
            None => Some(self.rate).filter(|rate| *rate > Rate::ZERO),
            Some(parent) => self.guarantee(self.classes.get(parent)?, depth + 1),
        }
    }

    fn guarantees(&self, c: &mut Checker<'_>) {
        let mut sums: BTreeMap<Option<&Name>, u64> = BTreeMap::new();
        for (name, class) in &self.classes {
            let Some(mine) = self.guarantee(class, 0) else { continue };
            let ceiling = match class.ceiling {
                Some(Share::Rate(rate)) => Some(rate),
                Some(share) if self.rate > Rate::ZERO => Some(share.of(self.rate)),
                _ => None,
            };
            if ceiling.is_some_and(|ceiling| ceiling > Rate::ZERO && ceiling < mine) {
                let (router, port) = (self.router.clone(), self.port.clone());
                c.push(
                    Section::Class,
                    name,
                    "ceiling",
                    Fault::CeilingBelow { guarantee: mine, router, port },
                );
            }
            let Some(whole) = self.whole(class, 0) else { continue };
            let sum = sums.entry(class.parent.as_ref()).or_default();
            let before = *sum;
            *sum = sum.saturating_add(mine.0);
            // Told once, of the class that makes it too much.
            if *sum > whole.0 && before <= whole.0 {
                let of = match &class.parent {
                    Some(parent) => Whole::Class { class: parent.clone() },
                    None => Whole::Port { router: self.router.clone(), port: self.port.clone() },
                };
                c.push(Section::Class, name, "guarantee", Fault::Guarantees { sum: Rate(*sum), whole, of });
            }
        }
    }
}
