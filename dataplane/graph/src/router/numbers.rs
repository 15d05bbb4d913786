//! The numbers by which elements know what objects name.

use super::classes::Classes;
use super::slots::Slots;
use perhop_element::BuildCx;
use perhop_model::Name;
use perhop_packet::{ClassId, PortId, ProfileId, SlaId};

/// Numbers of ports, logical classes, contracts and profiles, by name.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Ports for graphs; its classes are those of the router's own graph, the rest is in `classes`.
    pub(super) cx: BuildCx,
    pub(super) classes: Classes,
    pub(super) slas: Slots<Name>,
    pub(super) profiles: Slots<Name>,
}

impl Numbers {
    /// Ports in the order of their numbers, and room for so many logical classes.
    pub(super) fn new<'a>(ports: impl Iterator<Item = &'a str>, limit: u32) -> Self {
        let ports = ports.map(str::to_owned).zip((0..).map(PortId)).collect();
        Self {
            cx: BuildCx { ports, ..BuildCx::default() },
            classes: Classes::new(limit),
            slas: Slots::from_number(0),
            profiles: Slots::from_number(0),
        }
    }

    pub(super) fn port(&self, name: &Name) -> Option<PortId> {
        self.cx.ports.get(name.as_str()).copied()
    }

    /// [`ClassId::NONE`] when nothing is called so.
    pub(super) fn class(&self, name: &Name) -> ClassId {
        self.classes.id(name.as_str())
    }

    pub(super) fn sla(&self, name: &Name) -> Option<SlaId> {
        self.slas.find(name).map(SlaId)
    }

    pub(super) fn profile(&self, name: &Name) -> Option<ProfileId> {
        self.profiles.find(name).map(ProfileId)
    }
}
