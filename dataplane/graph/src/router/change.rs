//! What a worker applies between two batches.

use super::crew::Relocation;
use super::moved::MovedFrom;
use crate::lang::Built;
use perhop_abr::AbrChange;
use perhop_element::Element;
use perhop_elements::police::ConditionerChange;
use perhop_elements::route::RouteChange;
use perhop_elements::schedule::EgressChange;
use perhop_flows::FlowsChange;
use perhop_flows::classifier::RuleError;
use perhop_packet::PortId;
use std::sync::Arc;

/// A prepared change: everything it needs is allocated. Applied by [`super::Worker::apply`], and best dropped on the
/// thread that made it, because what it replaced is freed with it.
#[derive(Default)]
pub struct Change {
    /// Trees and leaf tables of ports.
    pub(super) egress: Vec<(PortId, EgressChange)>,
    /// Slots of these trees that classes leave for others.
    pub(super) left_slots: Vec<MovedFrom>,
    /// Profiles, contracts, real-time policers.
    pub(super) conditioner: Option<ConditionerChange>,
    /// Filters, detection.
    pub(super) flows: Option<FlowsChange>,
    /// Why filters stay as they were although objects have changed.
    pub(super) unfit: Option<RuleError>,
    /// Policies of the TCP rate control.
    pub(super) abr: Option<AbrChange>,
    /// Routes, neighbours, port addresses.
    pub(super) route: Option<RouteChange>,
    /// Buckets of flows that go from one worker to another. A change has nothing else then.
    pub(super) relocation: Option<Arc<Relocation>>,
    /// A new packet graph.
    pub(super) graph: Option<Built>,
    /// Packets are sorted by it already; what is left is work behind the tables.
    pub(super) flipped: bool,
    /// All workers put it into force at once.
    pub(super) together: bool,
    /// Elements that left the graph since the change before: they travel back with this one, to be freed elsewhere.
    pub(super) left: Vec<Box<dyn Element>>,
}

/// How far applying has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ChangeStep {
    /// There is more to stage; let packets pass and call again.
    More,
    /// The change is in force.
    Done,
}

impl Change {
    /// A change of routes, neighbours or addresses alone: facts of the world, not objects.
    pub fn of_routes(route: RouteChange) -> Self {
        Self { route: Some(route), ..Self::default() }
    }

    /// Why the filters of this change could not be taken back: they stay as they were.
    pub fn unfit(&self) -> Option<&RuleError> {
        self.unfit.as_ref()
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.egress.is_empty()
            && self.left_slots.is_empty()
            && self.conditioner.is_none()
            && self.flows.is_none()
            && self.abr.is_none()
            && self.route.is_none()
            && self.relocation.is_none()
            && self.graph.is_none()
    }
}
