//! What outlives the process of a domain's broker.

use super::Peers;
use super::deal::Deal;
use super::message::{DealId, Settings, Stage};
use crate::lease;
use perhop_units::Instant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A deal. Times are of a clock that goes on when the process begins again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DealRow {
    /// The deal.
    pub deal: DealId,
    /// Logical class.
    pub class: String,
    /// Node where the traffic enters.
    pub enter: String,
    /// Node where it leaves; none = somewhere in this domain.
    pub leave: Option<String>,
    /// Who else has to agree, and what the lease there is to.
    pub stages: Vec<(Stage, String)>,
    /// The last question that was decided.
    pub number: u64,
    /// What is agreed, bit/s.
    pub bps: u64,
    /// It ends then unless it is renewed.
    pub expires: Instant,
}

/// A change of what is kept. A row takes the place of the row of the same deal, lease or flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// A deal is as this.
    Deal(DealRow),
    /// A deal is no more.
    DealGone(DealId),
    /// What is held at somebody has changed.
    Held(Stage, lease::Row),
}

/// All that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Deals, in order.
    pub deals: Vec<DealRow>,
    /// What is held, and at whom.
    pub held: BTreeMap<Stage, lease::Snapshot>,
}

impl Snapshot {
    /// Each row of it.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let deals = self.deals.iter().cloned().map(Row::Deal);
        let held = self.held.iter().flat_map(|(stage, held)| {
            let leases = held.leases.iter().cloned().map(lease::Row::Lease);
            let flows = held.flows.iter().cloned().map(lease::Row::Flow);
            leases.chain(flows).map(|row| Row::Held(stage.clone(), row))
        });
        deals.chain(held)
    }
}

impl Peers {
    /// As [`Peers::new`], with what an earlier life has kept. The ledger and all who had agreed are told what each deal has.
    ///
    /// # Errors
    /// The settings of leases cannot be used.
    pub fn restore(
        settings: Settings,
        first: u64,
        now: Instant,
        snapshot: Snapshot,
    ) -> Result<Self, lease::SettingsError> {
        let mut this = Self::empty(settings, first, now, snapshot.held)?;
        for row in snapshot.deals {
            let Ok(no) = this.begin(row.deal, row.class, row.enter, row.leave, row.stages) else { continue };
            this.restore_deal(now, no, row.number, row.bps, row.expires);
        }
        this.go_on(now);
        Ok(this)
    }

    /// Rows that have changed since they were taken last, each as it is now.
    pub fn take_rows(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        for id in std::mem::take(&mut self.deal_rows) {
            let row = self.deal_ids.get(&id).and_then(|no| self.deals.get(no)).map(deal_row);
            rows.push(row.map_or(Row::DealGone(id), Row::Deal));
        }
        for (stage, leases) in &mut self.held {
            rows.extend(leases.take_rows().into_iter().map(|row| Row::Held(stage.clone(), row)));
        }
        rows
    }

    /// All that has to outlive the process.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            deals: self.deal_ids.values().filter_map(|no| self.deals.get(no)).map(deal_row).collect(),
            held: self.held.iter().map(|(stage, leases)| (stage.clone(), leases.snapshot())).collect(),
        }
    }
}

fn deal_row(deal: &Deal) -> DealRow {
    DealRow {
        deal: deal.id.clone(),
        class: deal.class.clone(),
        enter: deal.enter.clone(),
        leave: deal.leave.clone(),
        stages: deal.stages.clone(),
        number: deal.number,
        bps: deal.has,
        expires: deal.expires,
    }
}
