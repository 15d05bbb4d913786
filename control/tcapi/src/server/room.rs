//! What classes have for reservations of flows, and what of it is reserved: no class is sold twice.

use crate::wire::Refusal;
use perhop_model::Name;
use perhop_reason::Code;
use std::collections::BTreeMap;

/// What a class has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRoom {
    /// The port.
    pub port: Name,
    /// Logical class.
    pub logical: String,
    /// Object name of the class.
    pub class: Name,
    /// Its guarantee with what is allocated to it, bit/s.
    pub guarantee_bps: u64,
}

#[derive(Clone, Debug)]
struct Class {
    class: Name,
    has: u64,
    reserved: u64,
}

/// All classes, by logical class, then by port.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    classes: BTreeMap<String, BTreeMap<Name, Class>>,
}

/// Classes of one name that a flow is in, wherever it may leave.
pub(super) struct Within<'a> {
    pub(super) logical: &'a str,
    /// By this port only; empty = by any.
    pub(super) egress: &'a str,
}

impl Within<'_> {
    fn has(&self, port: &Name) -> bool {
        self.egress.is_empty() || port.as_str() == self.egress
    }
}

impl Rooms {
    /// What classes there are and have now. Of what is reserved in one that is gone nothing is known any more.
    pub(super) fn set(&mut self, rooms: Vec<ClassRoom>) {
        let old = std::mem::take(&mut self.classes);
        for ClassRoom { port, logical, class, guarantee_bps } in rooms {
            let before = old.get(&logical).and_then(|ports| ports.get(&port));
            let reserved = before.map_or(0, |class| class.reserved);
            let ports = self.classes.entry(logical).or_default();
            ports.insert(port, Class { class, has: guarantee_bps, reserved });
        }
    }

    /// O(ports that have such a class).
    fn within<'s>(&'s self, within: &'s Within<'_>) -> impl Iterator<Item = (&'s Name, &'s Class)> {
        let ports = self.classes.get(within.logical).into_iter().flatten();
        ports.filter(move |(port, _)| within.has(port))
    }

    /// Reserves `to` in place of `from` in all classes of the name, or in none.
    ///
    /// # Errors
    /// There is no such class, or one has not so much.
    pub(super) fn change(&mut self, within: &Within<'_>, from: u64, to: u64) -> Result<(), Refusal> {
        let mut any = false;
        for (port, class) in self.within(within) {
            any = true;
            let free = class.has.saturating_sub(class.reserved.saturating_sub(from));
            if to > from && to > free {
                let why =
                    format!("class {} of port {port} has {free} bit/s left of {}", class.class, class.has);
                return Err(Refusal {
                    link: port.to_string(),
                    class: within.logical.to_owned(),
                    asked_bps: to,
                    free_bps: free,
                    ..Refusal::new(Code::NoCapacity, why)
                });
            }
        }
        if !any {
            let at =
                if within.egress.is_empty() { String::new() } else { format!(" of port {}", within.egress) };
            let why = format!("there is no class {:?}{at}", within.logical);
            return Err(Refusal {
                class: within.logical.to_owned(),
                ..Refusal::new(Code::BadReference, why)
            });
        }
        self.put(within, from, to);
        Ok(())
    }

    /// As [`Rooms::change`] without asking: what was reserved is given back, or was in force all the time.
    pub(super) fn put(&mut self, within: &Within<'_>, from: u64, to: u64) {
        let ports = self.classes.get_mut(within.logical).into_iter().flatten();
        for (_, class) in ports.filter(|(port, _)| within.has(port)) {
            class.reserved = class.reserved.saturating_sub(from).saturating_add(to);
        }
    }

    /// The class of a name on a port, and what flows have reserved in it, bit/s.
    pub(super) fn class(&self, logical: &str, port: &str) -> Option<(&Name, u64)> {
        let ports = self.classes.get(logical).into_iter().flatten();
        let mut found = ports.filter(|(name, _)| name.as_str() == port);
        found.next().map(|(_, class)| (&class.class, class.reserved))
    }

    /// Every class with what it has and what of it is reserved: port, logical class, bit/s.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Name, &str, u64, u64)> {
        let ports = self.classes.iter().flat_map(|(logical, ports)| ports.iter().map(move |p| (logical, p)));
        ports.map(|(logical, (port, c))| (port, logical.as_str(), c.has, c.reserved))
    }
}
