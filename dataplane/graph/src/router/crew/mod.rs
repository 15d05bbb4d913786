//! Several workers that are one router.
//!
//! Each [`Member`] is a [`Worker`] with the whole graph, its share of the connections and some of the ports. What came in at
//! one of its ports and belongs to another member's flows goes there by a ring (`Steer`), and what is to leave by another
//! member's port goes there by another (`Egress`), so every class tree is scheduled in one place. Packets of a flow pass
//! one member between these two rings, and rings keep order.
//!
//! Members are step machines: no clock, no threads, no sleeping. Who drives them calls, in any order and as often as it
//! likes, [`Member::receive`], [`Member::exchange`], [`Member::poll`] and [`Member::apply`], and wakes the members of
//! [`Member::take_rung`].
//!
//! A change that concerns how packets are sorted is put into force by all members together: each does beforehand what no
//! packet notices; when all have, they stop, take in what is on its way between them, switch, and go on. So no packet is
//! sorted by one generation and queued by another. Buckets of flows go from one member to another in such a stop
//! ([`Relocation`]), as a [`Balancer`] says.

mod balance;
mod gate;
mod placement;
pub(super) mod refused;
mod relocate;
mod relocation;
mod share;

pub use balance::{BalanceReport, Balancer};
pub use placement::Placement;
pub use relocate::MOST_CONNECTIONS;
pub use relocation::{BucketMove, Relocation};

use super::{Change, ChangeStep, RouterPlanner, Worker, WorkerError, WorkerEvent};
use gate::{Gate, Step};
use perhop_abr::LiveFlows;
use perhop_element::PacketEnd;
use perhop_flows::Steer;
use perhop_packet::{Batch, Handover, Pool, PortId};
use perhop_ring::{Consumer, Producer, Rounds, ring};
use perhop_units::Instant;
use std::sync::Arc;

/// Packets that fit into a ring between two members.
pub const RING: usize = 1024;

/// One worker among those of a router. Single-threaded, sans-I/O.
pub struct Member {
    worker: Worker,
    /// From each other member: packets of flows that this one has.
    flows: Vec<Consumer<Handover>>,
    /// From each other member and for each port that this one has: packets that leave by it.
    ways_out: Vec<(PortId, Consumer<Handover>)>,
    /// From each other member, and to each: what became of packets of calls where the other has the connection.
    ends: Vec<Consumer<PacketEnd>>,
    ends_to: Vec<Option<Producer<PacketEnd>>>,
    /// Its number.
    me: usize,
    gate: Arc<Gate>,
    /// Of each member, for those whose ports take what it sorts before buckets go.
    rounds: Arc<[Rounds]>,
    /// Whether connections that are to go are being looked for.
    looking: bool,
    /// Changes put into force together so far, the present one included.
    changes: u64,
    stage: Stage,
    batch: Batch,
    away: Vec<(PortId, usize)>,
}

/// How far a change that all put into force together has come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none, or it is still being staged.
    Staging,
    /// Waits until all have taken this step.
    After(Step),
    /// All have stopped: sorts what is left, because buckets go.
    Sorting,
    /// In force; what is left is work behind the tables.
    InForce,
}

impl Member {
    /// A router that is one worker: everything is as without others.
    pub fn alone(worker: Worker) -> Self {
        Self {
            worker,
            flows: Vec::new(),
            ways_out: Vec::new(),
            ends: Vec::new(),
            ends_to: Vec::new(),
            me: 0,
            gate: Gate::new(1),
            rounds: Arc::new([Rounds::new(1)]),
            looking: false,
            changes: 0,
            stage: Stage::Staging,
            batch: Batch::new(),
            away: Vec::new(),
        }
    }

    /// The members of a router with this graph, which has a `Steer` in front of its flows and an `Egress` for each port, as
    /// [`super::edge_graph`] makes it. One `seed` each is taken from `seed` upwards.
    ///
    /// # Errors
    /// As [`Worker::new`].
    pub fn crew(
        text: &str,
        planner: &mut RouterPlanner,
        pool: &Pool,
        placement: &Placement,
        seed: u64,
    ) -> Result<Vec<Self>, WorkerError> {
        let n = placement.workers();
        let worker = |i| Worker::new(text, planner, pool.clone(), seed.wrapping_add(i as u64));
        let mut members: Vec<Self> =
            (0..n).map(worker).map(|w| w.map(Self::alone)).collect::<Result<_, _>>()?;
        if n == 1 {
            return Ok(members);
        }
        let gate = Gate::new(n);
        let rounds: Arc<[Rounds]> = (0..n).map(|_| Rounds::new(n)).collect();
        let [first, others @ ..] = &mut members[..] else { return Ok(members) };
        let others: Vec<&mut Worker> = others.iter_mut().map(|member| &mut member.worker).collect();
        first.worker.share_conditioner(others);
        let admission = first.worker.flows().map(|flows| flows.shared_admission(n));
        for (i, member) in members.iter_mut().enumerate() {
            if let (Some(shared), Some(flows)) = (&admission, member.worker.flows_mut()) {
                flows.join_admission(shared, i);
            }
        }
        let live = Arc::new(LiveFlows::default());
        members.iter_mut().for_each(|member| member.worker.share_policies(live.clone()));
        let mut to: Vec<Vec<Option<Producer<Handover>>>> = (0..n).map(|_| Vec::new()).collect();
        for (from, row) in to.iter_mut().enumerate() {
            let mut ends_to = Vec::new();
            for (target, member) in members.iter_mut().enumerate() {
                row.push((from != target).then(|| ring_to(&mut member.flows)));
                ends_to.push((from != target).then(|| ring_to(&mut member.ends)));
            }
            members[from].ends_to = ends_to;
        }
        for (from, rings) in to.into_iter().enumerate() {
            (members[from].me, members[from].gate) = (from, gate.clone());
            members[from].rounds = rounds.clone();
            members[from].worker.join(placement, from, rings);
            for (port, owner) in placement.owners.iter().enumerate().filter(|(_, owner)| **owner != from) {
                let (producer, consumer) = ring(RING);
                let port = PortId(port as u16);
                members[from].worker.hand_over(port, producer);
                members[from].away.push((port, *owner));
                members[*owner].ways_out.push((port, consumer));
            }
        }
        Ok(members)
    }

    /// The worker.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The worker, for what concerns this member alone.
    pub fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Takes a batch received at a port of this member through the graph. Not while [`Member::is_halted`].
    #[inline]
    pub fn receive(&mut self, now: Instant, port: PortId, batch: &mut Batch) {
        debug_assert!(!self.is_halted(), "what it sorts now would be queued by another generation");
        self.worker.receive(now, port, batch);
    }

    /// Takes what this machine itself sends by one of this member's ports. Not while [`Member::is_halted`].
    pub fn send_own(&mut self, now: Instant, port: PortId, batch: &mut Batch) {
        debug_assert!(!self.is_halted(), "what it sorts now would be queued by another generation");
        self.worker.send_own(now, port, batch);
    }

    /// Whether it waits for the others to put a change into force: it must not be given packets or be polled, only
    /// [`Member::apply`]. Takes no longer than the batch that each other is at, and where buckets go as long as what is on
    /// its way between members and the connections that go take.
    #[inline]
    pub fn is_halted(&self) -> bool {
        match self.stage {
            Stage::Staging | Stage::After(Step::Staged) | Stage::InForce => false,
            Stage::After(_) | Stage::Sorting => true,
        }
    }

    /// Runs the timers due at `now`. Not while [`Member::is_halted`].
    pub fn poll(&mut self, now: Instant) -> usize {
        debug_assert!(!self.is_halted(), "what it sorts now would be queued by another generation");
        self.worker.poll(now)
    }

    /// Whether others have handed something over.
    #[inline]
    pub fn has_input(&self) -> bool {
        self.flows.iter().any(|ring| !ring.is_empty())
            || self.ways_out.iter().any(|(_, ring)| !ring.is_empty())
    }

    /// Goes on with what others handed over, a batch from each at most. `clock` is asked after a batch was taken, because
    /// what is in it was received before. `false` when there was nothing.
    pub fn exchange(&mut self, clock: &mut dyn FnMut() -> Instant) -> bool {
        let worked = self.take_ways_out(clock);
        let mut taken = false;
        for ring in &mut self.flows {
            let batch = &mut self.batch;
            if take(ring, batch) {
                taken = true;
                self.worker.enter(clock(), batch);
            }
        }
        self.exchange_ends();
        worked | taken
    }

    /// What became of packets of calls is told where their connection is. Nobody is woken for it: whoever has the connection
    /// is when its next packet comes.
    fn exchange_ends(&mut self) {
        if self.ends.is_empty() {
            return;
        }
        self.worker.hear_ends();
        let Self { worker, ends, ends_to, .. } = self;
        let Some(flows) = worker.flows_mut() else { return };
        flows.tell_foreign_ends(|end| {
            let to = ends_to.get_mut(usize::from(end.home)).and_then(Option::as_mut);
            to.is_some_and(|ring| ring.push(end).is_ok())
        });
        for ring in ends {
            ring.pop_batch(RING, |end| flows.hear_end(&end));
        }
    }

    fn take_ways_out(&mut self, clock: &mut dyn FnMut() -> Instant) -> bool {
        let mut taken = false;
        for (port, ring) in &mut self.ways_out {
            let batch = &mut self.batch;
            if take(ring, batch) {
                taken = true;
                self.worker.enqueue(clock(), *port, batch);
            }
        }
        taken
    }

    /// Bits of the members whose rings got something since the last call: if they sleep, they must be woken.
    pub fn take_rung(&mut self) -> u32 {
        if self.away.is_empty() && self.flows.is_empty() {
            return 0;
        }
        self.worker.take_rung(&self.away)
    }

    /// Applies a change that [`Placement::share`] made for this member, some steps a call ([`Worker::apply`]). While
    /// [`ChangeStep::More`] is the answer, call again; the others must be called too, with theirs.
    pub fn apply(&mut self, now: Instant, change: &mut Change) -> ChangeStep {
        if !change.together {
            return self.worker.apply(now, change);
        }
        match self.stage {
            Stage::Staging => {
                let found = change.relocation.as_ref().is_none_or(|moves| self.stage_relocation(moves));
                if found && self.worker.stage_all(now, change) {
                    self.changes += 1;
                    self.step(Step::Staged);
                }
                ChangeStep::More
            }
            Stage::After(step) => {
                if self.gate.is_open(step, self.changes) {
                    self.go_on(now, change, step);
                } else if step == Step::Sorted {
                    self.take_and_answer(now);
                }
                ChangeStep::More
            }
            Stage::Sorting => {
                if let Some(moves) = change.relocation.as_ref().filter(|_| self.sort_rest(now)) {
                    self.promise(now, moves);
                    self.step(Step::Sorted);
                }
                ChangeStep::More
            }
            Stage::InForce => {
                let step = self.worker.apply(now, change);
                if step == ChangeStep::Done {
                    self.stage = Stage::Staging;
                }
                step
            }
        }
    }

    /// All have taken `step`.
    fn go_on(&mut self, now: Instant, change: &mut Change, step: Step) {
        let moves = change.relocation.clone();
        match (step, moves) {
            (Step::Staged, None) => {
                self.gate.take(Step::Sorted);
                self.step(Step::Halted);
            }
            (Step::Staged, Some(_)) => self.step(Step::Halted),
            // With the next call, which has a later time than whatever others handed over.
            (Step::Halted, Some(_)) => {
                // What it has sorted before may fill rings.
                self.rounds[self.me].ask();
                self.stage = Stage::Sorting;
            }
            (Step::Halted, None) => {
                // Nobody hands anything over any more.
                while self.take_ways_out(&mut || now) {}
                self.step(Step::Emptied);
            }
            (Step::Sorted, moves) => {
                self.take_and_answer(now);
                moves.iter().for_each(|moves| self.object(now, moves));
                self.step(Step::Emptied);
            }
            (Step::Emptied, Some(moves)) => {
                self.depart(&moves);
                self.step(Step::Packed);
            }
            (Step::Emptied, None) => {
                self.gate.take(Step::Packed);
                self.flip(now, change);
            }
            (Step::Packed, moves) => {
                moves.iter().for_each(|moves| self.arrive(now, moves));
                self.flip(now, change);
            }
            (Step::Flipped, _) => self.stage = Stage::InForce,
        }
    }

    fn flip(&mut self, now: Instant, change: &mut Change) {
        let _ = self.worker.apply(now, change);
        self.step(Step::Flipped);
    }

    fn step(&mut self, step: Step) {
        self.gate.take(step);
        self.stage = Stage::After(step);
    }

    /// Moves what happened since the last call to `into`.
    pub fn take_events(&mut self, now: Instant, into: &mut Vec<WorkerEvent>) {
        self.worker.take_events(now, into);
    }
}

/// A ring to a member, which takes from it beside what it takes from others.
fn ring_to<T: Send>(takes: &mut Vec<Consumer<T>>) -> Producer<T> {
    let (producer, consumer) = ring(RING);
    takes.push(consumer);
    producer
}

/// A batch from another member; `false` when there is nothing.
#[inline]
fn take(ring: &mut Consumer<Handover>, batch: &mut Batch) -> bool {
    let taken =
        ring.pop_batch(Batch::MAX, |packet| packet.take().into_iter().for_each(|packet| batch.push(packet)));
    batch.prefetch();
    taken > 0
}

/// Tells the elements of a worker of the others.
impl Worker {
    fn join(&mut self, placement: &Placement, me: usize, rings: Vec<Option<Producer<Handover>>>) {
        if let Some(steer) = self.steer_mut() {
            steer.join(placement.map.clone(), me, rings);
            placement.counts.iter().for_each(|counts| steer.count(counts.clone()));
        }
        if let Some(flows) = self.flows_mut().filter(|_| placement.is_adaptive()) {
            flows.join_buckets(placement.map.clone(), me);
        }
    }

    fn share_policies(&mut self, live: Arc<LiveFlows>) {
        if let Some(abr) = self.abr_mut() {
            abr.share_with_others(live);
        }
    }

    fn hand_over(&mut self, port: PortId, ring: Producer<Handover>) {
        if let Some(egress) = self.egress_mut(port) {
            egress.hand_over(ring);
        }
    }

    fn take_rung(&mut self, away: &[(PortId, usize)]) -> u32 {
        let mut rung = self.steer_mut().map_or(0, Steer::take_rung);
        for (port, owner) in away {
            let rang = self.egress_mut(*port).is_some_and(|egress| egress.take_rung());
            rung |= u32::from(rang) << owner;
        }
        rung
    }
}
