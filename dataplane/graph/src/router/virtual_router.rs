//! A whole router in virtual time: control, planner and worker in one thread.

use super::{
    Change, ChangeStep, EdgeOptions, EdgePort, Gone, RouterPlanner, Worker, WorkerError, WorkerEvent,
    edge_graph, registry,
};
use perhop_contract::{Control, Input, Limits, Output};
use perhop_flows::FlowEvent;
use perhop_model::{Credentials, Reply, Transaction};
use perhop_packet::{Batch, Packet, Pool, PortId};
use perhop_units::{Duration, Instant};
use std::sync::Arc;

/// A packet that left by a port.
#[derive(Debug)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// Where.
    pub port: PortId,
    /// The packet; released when this is dropped.
    packet: Option<Packet>,
}

impl Sent {
    /// The packet itself, to carry it on.
    pub fn into_packet(mut self) -> Option<Packet> {
        self.packet.take()
    }

    /// The frame.
    pub fn frame(&self) -> &[u8] {
        self.packet.as_ref().map_or(&[], |p| p.frame())
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(packet) = self.packet.take() {
            packet.release();
        }
    }
}

/// Control and worker under one virtual clock. Changes are applied slice by slice as live, with packets between the
/// slices when the caller sends them.
pub struct VirtualRouter {
    control: Control<RouterPlanner>,
    worker: Worker,
    pool: Pool,
    now: Instant,
    applying: Option<(u64, Change)>,
    arriving: Batch,
    next_request: u64,
    replies: Vec<(u64, Arc<Reply>)>,
    /// What has left, in order. The caller takes it.
    pub sent: Vec<Sent>,
    /// Flow events, in order. The caller takes them.
    pub flow_events: Vec<FlowEvent>,
}

impl VirtualRouter {
    /// A router with the default edge graph over `ports`, without classes or filters. `buffers` packets at the most.
    ///
    /// # Errors
    /// The graph cannot be built: a port's name or specification does not fit the language.
    pub fn new(ports: Vec<EdgePort>, buffers: usize, seed: u64) -> Result<Self, WorkerError> {
        Self::with_connections(ports, 16_384, buffers, seed)
    }

    /// The same with room for `connections` (at least 16) instead of 16,384: their table is most of what making a router
    /// costs.
    ///
    /// # Errors
    /// As [`VirtualRouter::new`].
    pub fn with_connections(
        ports: Vec<EdgePort>,
        connections: u32,
        buffers: usize,
        seed: u64,
    ) -> Result<Self, WorkerError> {
        let planner = RouterPlanner::new(ports, registry());
        Self::with_planner(planner, &EdgeOptions::exact(connections), buffers, seed)
    }

    /// The same with a planner made by the caller and an edge graph of these options.
    ///
    /// # Errors
    /// As [`VirtualRouter::new`].
    pub fn with_planner(
        planner: RouterPlanner,
        options: &EdgeOptions,
        buffers: usize,
        seed: u64,
    ) -> Result<Self, WorkerError> {
        Self::build(planner, options, Pool::new(buffers), seed)
    }

    /// The same with buffers of a `pool` that others use too, and an edge graph of these options.
    ///
    /// # Errors
    /// As [`VirtualRouter::new`].
    pub fn with_pool(
        ports: Vec<EdgePort>,
        pool: Pool,
        options: &EdgeOptions,
        seed: u64,
    ) -> Result<Self, WorkerError> {
        let planner = RouterPlanner::new(ports, registry());
        Self::build(planner, options, pool, seed)
    }

    fn build(
        mut planner: RouterPlanner,
        options: &EdgeOptions,
        pool: Pool,
        seed: u64,
    ) -> Result<Self, WorkerError> {
        planner = planner.with_path_seed(seed);
        let text = edge_graph(planner.ports(), options);
        let worker = Worker::new(&text, &mut planner, pool.clone(), seed)?;
        Ok(Self {
            control: Control::new(1, planner, Limits::default()),
            worker,
            pool,
            now: Instant::ZERO,
            applying: None,
            arriving: Batch::new(),
            next_request: 0,
            replies: Vec::new(),
            sent: Vec::new(),
            flow_events: Vec::new(),
        })
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }
    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
    /// The control half.
    pub fn control(&mut self) -> &mut Control<RouterPlanner> {
        &mut self.control
    }
    /// The data half.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Both halves at once, to look at.
    pub fn halves(&self) -> (&Control<RouterPlanner>, &Worker) {
        (&self.control, &self.worker)
    }

    /// A frame arrives at `port` now. `false` when no buffer is free or the frame is too long.
    pub fn receive(&mut self, port: PortId, frame: &[u8]) -> bool {
        let Some(mut packet) = self.pool.packet(frame) else { return false };
        packet.meta_mut().received_at = self.now;
        let mut batch = Batch::new();
        batch.push(packet);
        self.worker.receive(self.now, port, &mut batch);
        self.collect();
        true
    }

    /// A packet of this router's pool arrives at `port` now.
    pub fn receive_packet(&mut self, port: PortId, mut packet: Packet) {
        packet.meta_mut().received_at = self.now;
        self.arriving.push(packet);
        self.worker.receive(self.now, port, &mut self.arriving);
        self.collect();
    }

    /// When [`VirtualRouter::run_until`] has something to do.
    pub fn next_wakeup(&mut self) -> Option<Instant> {
        [self.worker.next_wakeup(), self.control.next_wakeup()].into_iter().flatten().min()
    }

    /// Sends a request; see [`VirtualRouter::settle`] and [`VirtualRouter::reply`].
    pub fn request(&mut self, who: Credentials, transaction: Transaction) -> u64 {
        self.next_request += 1;
        let request = self.next_request;
        let transaction = Box::new(transaction);
        self.control.handle_input(self.now, Input::Request { request, who, transaction });
        self.collect();
        request
    }

    /// Sends a request, applies what comes of it and gives the answer.
    pub fn submit(&mut self, who: Credentials, transaction: Transaction) -> Option<Arc<Reply>> {
        let request = self.request(who, transaction);
        self.settle();
        self.reply(request)
    }

    /// The answer to a request, once.
    pub fn reply(&mut self, request: u64) -> Option<Arc<Reply>> {
        let at = self.replies.iter().position(|(r, _)| *r == request)?;
        Some(self.replies.swap_remove(at).1)
    }

    /// Does one slice of change work, as the engine does between two batches. `false` when there is none.
    pub fn step(&mut self) -> bool {
        if self.applying.is_none() {
            while let Some(output) = self.control.poll_output() {
                match output {
                    Output::Reply { request, reply } => self.replies.push((request, reply)),
                    Output::Apply { ticket, change } => {
                        self.applying = Some((ticket, change));
                        break;
                    }
                }
            }
        }
        let Some((ticket, mut change)) = self.applying.take() else { return false };
        match self.worker.apply(self.now, &mut change) {
            ChangeStep::More => self.applying = Some((ticket, change)),
            ChangeStep::Done => self.control.handle_input(self.now, Input::Applied { ticket }),
        }
        self.collect();
        true
    }

    /// Does all change work there is.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Applies a change that belongs to no transaction: routes, neighbours, addresses.
    pub fn apply_world(&mut self, mut change: Change) {
        while self.worker.apply(self.now, &mut change) == ChangeStep::More {}
        self.collect();
    }

    /// Runs the clock to `at`: timers, expiry, deadlines.
    pub fn run_until(&mut self, at: Instant) {
        loop {
            let next = [self.worker.next_wakeup(), self.control.next_wakeup()].into_iter().flatten().min();
            match next.filter(|t| *t <= at) {
                Some(t) => self.now = self.now.max(t),
                None => break,
            }
            self.worker.poll(self.now);
            self.control.handle_input(self.now, Input::Tick);
            self.collect();
            self.settle();
        }
        self.now = self.now.max(at);
        self.collect();
    }

    /// Runs the clock by `dt`.
    pub fn run_for(&mut self, dt: Duration) {
        self.run_until(self.now + dt);
    }

    fn collect(&mut self) {
        for port in 0..self.control.planner().ports().len() {
            let port = PortId(port as u16);
            let Some(queue) = self.worker.transmit_queue(port) else { continue };
            let at = self.now;
            self.sent.extend(queue.drain().map(|p| Sent { at, port, packet: Some(p) }));
        }
        self.worker.local_queue().release_all();
        let mut events = Vec::new();
        self.worker.take_events(self.now, &mut events);
        for event in events {
            match event {
                WorkerEvent::Flow(event) => self.flow_events.push(event),
                WorkerEvent::Freed(freed) => {
                    for gone in self.control.planner_mut().freed(&freed) {
                        let Gone { id, dropped } = gone;
                        self.control.handle_input(self.now, Input::Drained { id, dropped });
                    }
                }
                WorkerEvent::NeighbourWanted { .. } => {}
            }
        }
    }
}
