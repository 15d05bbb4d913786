//! Who has which port and which flows.

use super::{BucketMove, Relocation, share};
use crate::router::{Change, EdgePort, Probe};
use perhop_flows::{BucketCounts, BucketMap, MAX_WORKERS};
use perhop_packet::PortId;
use std::sync::Arc;

/// Who has which port and which flows.
#[derive(Clone, Debug)]
pub struct Placement {
    pub(super) map: Arc<BucketMap>,
    pub(super) owners: Vec<usize>,
    workers: usize,
    /// Where buckets may go to others: what comes for each.
    pub(super) counts: Option<Arc<BucketCounts>>,
}

impl Placement {
    /// `workers` (1 … [`MAX_WORKERS`]) members; ports go to the members in turn. `seed` keys the hash of flows.
    pub fn new(workers: usize, ports: &[EdgePort], seed: u64) -> Self {
        let workers = workers.clamp(1, MAX_WORKERS);
        let owners = (0..ports.len()).map(|port| port % workers).collect();
        Self { map: Arc::new(BucketMap::new(workers, seed)), owners, workers, counts: None }
    }

    /// Whether buckets may go from one member to another; before [`super::Member::crew`]. Of one member, they have nowhere to go.
    #[must_use]
    pub fn with_adaptive(self, adaptive: bool) -> Self {
        let counts = (adaptive && self.workers > 1).then(|| Arc::new(BucketCounts::new(self.workers)));
        Self { counts, ..self }
    }

    /// Whether buckets may go from one member to another.
    pub fn is_adaptive(&self) -> bool {
        self.counts.is_some()
    }

    /// Members.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The member that has a port.
    pub fn owner(&self, port: PortId) -> usize {
        self.owners.get(port.index()).copied().unwrap_or(0)
    }

    /// Which member has which flows.
    pub fn map(&self) -> &BucketMap {
        &self.map
    }

    /// The member that decides about a described packet: the one that has its flow, or the port where it comes in.
    pub fn decides(&self, probe: &Probe) -> usize {
        let (frame, layout, port) = probe.arrives();
        self.map.bucket(frame, layout).map_or_else(|| self.owner(port), |bucket| self.map.worker(bucket))
    }

    /// The ports of a member.
    pub fn ports(&self, member: usize) -> impl Iterator<Item = PortId> + '_ {
        let mine = self.owners.iter().enumerate().filter(move |(_, owner)| **owner == member);
        mine.map(|(port, _)| PortId(port as u16))
    }

    /// A change that makes these moves, and what tells how they went. Where buckets stay ([`Placement::is_adaptive`]) there is
    /// nothing to move, and members that do not exist take nothing.
    pub fn relocation(&self, mut moves: Vec<BucketMove>) -> (Change, Arc<Relocation>) {
        moves.retain(|m| self.is_adaptive() && m.to < self.workers && m.to != m.from);
        let relocation = Relocation::new(self.map.clone(), self.workers, moves);
        (Change { relocation: Some(relocation.clone()), ..Change::default() }, relocation)
    }

    /// A change for each member, in their order.
    pub fn share(&self, change: Change) -> Vec<Change> {
        share::share(change, self.workers, |port| self.owner(port))
    }
}
