//! What outlives the process of a local decision point.

use super::held::Lease;
use super::leases::{Flow, Leases};
use super::states::State;
use super::{End, FlowId, Input, LeaseId, Output, Settings, SettingsError};
use perhop_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// A lease that is held. Times are of a clock that goes on when the process begins again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRow {
    /// The lease.
    pub lease: LeaseId,
    /// What is held, bit/s.
    pub bps: u64,
    /// It is not used longer.
    pub expires: Instant,
}

/// A flow that is admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRow {
    /// The flow.
    pub flow: FlowId,
    /// The version that was admitted.
    pub version: u64,
    /// The lease that it is in.
    pub lease: LeaseId,
    /// What it has, bit/s.
    pub bps: u64,
    /// So long after a request it ends.
    pub lifetime: Duration,
    /// It ends then unless it is renewed.
    pub expires: Instant,
}

/// A change of what is kept. A row takes the place of the row of the same lease or flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// A lease is as this.
    Lease(LeaseRow),
    /// A lease is not held any more.
    LeaseGone(LeaseId),
    /// A flow is as this.
    Flow(FlowRow),
    /// A flow is not admitted any more.
    FlowGone(FlowId),
}

/// All that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Leases, in order.
    pub leases: Vec<LeaseRow>,
    /// Flows, from the oldest on.
    pub flows: Vec<FlowRow>,
}

impl Leases {
    /// A local decision point that holds nothing. `first` must be above the number of every question of its earlier lives, as
    /// the time of day in ns is.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(settings: Settings, first: u64, now: Instant) -> Result<Self, SettingsError> {
        Self::restore(settings, first, now, Snapshot::default())
    }

    /// As [`Leases::new`], with what an earlier life has kept. Leases can grow once the broker is back. Flows of a lease that is
    /// not held, or not with so much, are ended.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn restore(
        settings: Settings,
        first: u64,
        now: Instant,
        snapshot: Snapshot,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        let mut this = Self::empty(settings, first);
        for row in snapshot.leases {
            let Some(no) = this.lease(&row.lease) else { continue };
            if let Some(lease) = this.leases.get_mut(&no) {
                (lease.state, lease.granted, lease.expires) = (State::Frozen, row.bps, row.expires);
                this.aim(no, row.bps);
            }
        }
        for row in snapshot.flows {
            this.restore_flow(row);
        }
        let provisioned = this.classes.iter().filter(|class| class.settings.minimum > 0);
        let names: Vec<String> = provisioned.map(|class| class.name.clone()).collect();
        for class in names {
            for to in this.settings.kept(&class) {
                this.lease(&LeaseId { class: class.clone(), to, flow: None });
            }
        }
        this.dirty.extend(this.leases.keys().copied());
        this.handle_input(now, Input::Tick);
        Ok(this)
    }

    fn restore_flow(&mut self, row: FlowRow) {
        let lease = self.lease_ids.get(&row.lease).copied();
        let held = lease.and_then(|no| self.leases.get_mut(&no));
        let held = held.filter(|lease| lease.granted - lease.admitted >= row.bps);
        let (Some(no), Some(held)) = (lease, held) else {
            self.flow_rows.insert(row.flow.clone());
            self.outputs.push_back(Output::Ended(row.flow, End::LeaseExpired));
            return;
        };
        self.last += 1;
        // The router has it: it was admitted.
        held.admitted += row.bps;
        held.usable = held.admitted;
        held.flows.insert(self.last);
        self.flow_ids.insert(row.flow.clone(), self.last);
        let flow = Flow {
            id: row.flow,
            version: Some(row.version),
            bps: row.bps,
            lease: no,
            lifetime: row.lifetime,
            expires: row.expires,
            wish: None,
            armed: None,
        };
        self.flows.insert(self.last, flow);
        self.arm_flow(self.last);
    }

    /// Rows that have changed since they were taken last, each as it is now. O(log flows) each.
    pub fn take_rows(&mut self) -> Vec<Row> {
        let leases = std::mem::take(&mut self.lease_rows);
        let flows = std::mem::take(&mut self.flow_rows);
        let mut rows = Vec::with_capacity(leases.len() + flows.len());
        for id in leases {
            let row = self.lease_ids.get(&id).and_then(|no| lease_row(self.leases.get(no)?));
            rows.push(row.map_or(Row::LeaseGone(id), Row::Lease));
        }
        for id in flows {
            let row = self.flow_ids.get(&id).and_then(|no| self.flow_row(self.flows.get(no)?));
            rows.push(row.map_or(Row::FlowGone(id), Row::Flow));
        }
        rows
    }

    /// All that has to outlive the process.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            leases: self.lease_ids.values().filter_map(|no| lease_row(self.leases.get(no)?)).collect(),
            flows: self.flows.values().filter_map(|flow| self.flow_row(flow)).collect(),
        }
    }

    fn flow_row(&self, flow: &Flow) -> Option<FlowRow> {
        Some(FlowRow {
            flow: flow.id.clone(),
            version: flow.version?,
            lease: self.leases.get(&flow.lease)?.id.clone(),
            bps: flow.bps,
            lifetime: flow.lifetime,
            expires: flow.expires,
        })
    }
}

fn lease_row(lease: &Lease) -> Option<LeaseRow> {
    let row = LeaseRow { lease: lease.id.clone(), bps: lease.granted, expires: lease.expires };
    (lease.granted > 0).then_some(row)
}
