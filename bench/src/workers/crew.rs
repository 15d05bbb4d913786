//! A router of several workers, each on a thread of its own between the memories of its ports.

use super::load::{Frames, Load, Shape, place_best};
use super::options::{Options, Placed};
use super::set_up::{RATE, set_up};
use crate::error::BenchError;
use crate::machine::{self, Watch};
use perhop_contract::{Control, Limits};
use perhop_element::CounterSink;
use perhop_flows::BUCKETS;
#[cfg(test)]
use perhop_graph::router::BucketMove;
use perhop_graph::router::{
    BalanceReport, Balancer, Change, ChangeStep, EdgeOptions, EdgePort, Member, Placement, RING,
    RouterPlanner, WorkerEvent, edge_graph, registry,
};
use perhop_io::clock;
use perhop_model::PortSpec;
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::{Instant, Rate};
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Packets under way at most: they fit into one ring.
const WINDOW: u64 = RING as u64;

/// What a run gave.
pub struct Timed {
    pub ns_per_packet: f64,
    pub warnings: Vec<String>,
}

/// A port's two memories.
struct Port {
    id: PortId,
    frames: Frames,
    out: Vec<u8>,
}

/// One worker with the ports that are its own.
struct Seat {
    member: Member,
    ports: Vec<Port>,
    batch: Batch,
    events: Vec<WorkerEvent>,
    /// Last number of each flow that left here, while order is watched, and packets that were not in order.
    last: Option<HashMap<u32, u64>>,
    disorder: u64,
    numbers: u64,
    /// Changes for this worker, the one that it is at, and since when it stands still for it.
    inbox: Receiver<Change>,
    job: Option<Change>,
    halted: Option<Instant>,
    longest_stop: u64,
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Packets that came in and that left, all threads together.
#[derive(Default)]
struct Traffic {
    entered: Line,
    left: Line,
}

impl Traffic {
    fn under_way(&self) -> u64 {
        // In this order: what leaves meanwhile makes it too many, never too few.
        let left = self.left.0.load(Ordering::Acquire);
        self.entered.0.load(Ordering::Acquire).saturating_sub(left)
    }
}

pub struct Crew {
    seats: Vec<Seat>,
    pool: Pool,
    packet: usize,
    batch: usize,
    traffic: Traffic,
    placement: Placement,
    /// With adaptive placement, who says what goes where, and the ways to the workers.
    balancer: Option<Balancer>,
    inboxes: Vec<Sender<Change>>,
}

/// From one look at the clock to the next, of the thread that balances.
const NAP: std::time::Duration = std::time::Duration::from_millis(5);

impl Crew {
    /// `workers` with the traffic that is spread over as many as the options say.
    pub fn new(options: &Options, load: Load, workers: usize, placed: Placed) -> Result<Self, BenchError> {
        let wrong = |e: &dyn std::fmt::Display| BenchError::Router(e.to_string());
        let n = options.ports as usize;
        let spec = PortSpec { rate: Rate(RATE), ..PortSpec::default() };
        let port = |i: usize| EdgePort { name: format!("p{i}"), spec: spec.clone() };
        let ports: Vec<EdgePort> = (0..n).map(port).collect();
        let spread = Placement::new(options.workers as usize, &ports, options.seed);
        let adaptive = placed == Placed::Adaptive;
        let placement = Placement::new(workers, &ports, options.seed).with_adaptive(adaptive);
        let connections = (options.flows * options.ports * 2).max(EdgeOptions::DEFAULT_CONNECTIONS);
        let edge = EdgeOptions::live(connections).with_workers(workers).with_adaptive(adaptive);
        let text = edge_graph(&ports, &edge);
        let mut planner = RouterPlanner::new(ports, registry()).with_workers(workers).with_adaptive(adaptive);
        let pool = Pool::new(8 * WINDOW as usize + 512 * workers);
        let mut members =
            Member::crew(&text, &mut planner, &pool, &placement, options.seed).map_err(|e| wrong(&e))?;
        set_up(Control::new(1, planner, Limits::default()), &placement, &mut members, n)?;
        let bytes = 2 * machine::last_level_cache() / n;
        let shape =
            Shape { load, flows: options.flows, packet: options.packet as usize, bytes, seed: options.seed };
        let (inboxes, inboxes_out): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel()).unzip();
        let seat = |((i, member), inbox): ((usize, Member), Receiver<Change>)| Seat {
            member,
            ports: placement
                .ports(i)
                .map(|id| Port {
                    id,
                    frames: Frames::new(shape, id.index(), n, &spread),
                    out: vec![0; Batch::MAX * shape.packet],
                })
                .collect(),
            batch: Batch::new(),
            events: Vec::with_capacity(8192),
            last: None,
            disorder: 0,
            numbers: 0,
            inbox,
            job: None,
            halted: None,
            longest_stop: 0,
        };
        let seats: Vec<Seat> = members.into_iter().enumerate().zip(inboxes_out).map(seat).collect();
        if placed == Placed::Best {
            let frames = || seats.iter().flat_map(|seat| &seat.ports).map(|port| &port.frames);
            let sums =
                std::array::from_fn::<u64, BUCKETS, _>(|bucket| frames().map(|f| f.by_bucket[bucket]).sum());
            place_best(&sums, workers, placement.map());
        }
        Ok(Self {
            seats,
            pool,
            packet: shape.packet,
            batch: options.batch as usize,
            traffic: Traffic::default(),
            balancer: Balancer::new(&placement, clock::monotonic()),
            placement,
            inboxes,
        })
    }

    /// Where buckets are and how they got there, with adaptive placement.
    pub fn balance(&self) -> Option<BalanceReport> {
        self.balancer.as_ref().map(Balancer::report)
    }

    /// The longest that a worker has stood still since the last call, ns.
    pub fn take_longest_stop(&mut self) -> u64 {
        self.seats.iter_mut().map(|seat| std::mem::take(&mut seat.longest_stop)).max().unwrap_or(0)
    }

    /// Has some buckets go to the next worker in the next run, whatever the load.
    #[cfg(test)]
    pub fn shift(&mut self, buckets: impl Iterator<Item = usize>) {
        let from = |bucket| self.placement.map().worker(bucket);
        let shifted = |from| (from + 1) % self.placement.workers();
        let moves =
            buckets.map(|bucket| BucketMove { bucket, from: from(bucket), to: shifted(from(bucket)) });
        let (change, _) = self.placement.relocation(moves.collect());
        for (inbox, change) in self.inboxes.iter().zip(self.placement.share(change)) {
            inbox.send(change).unwrap();
        }
    }

    /// Packets under way at most.
    pub fn window(&self) -> u64 {
        WINDOW
    }

    /// From now on frames carry the number of their packet, and what leaves is looked at.
    #[cfg(test)]
    pub fn watch_order(&mut self) {
        self.seats.iter_mut().for_each(|seat| seat.last = Some(HashMap::new()));
    }

    /// Packets that left, and how many of them behind a later one of their flow.
    #[cfg(test)]
    pub fn order(&self) -> (u64, u64) {
        (self.traffic.left.0.load(Ordering::Acquire), self.seats.iter().map(|seat| seat.disorder).sum())
    }

    #[cfg(test)]
    pub fn check_conservation(&self) -> Result<(), String> {
        let seats = self.seats.iter();
        let checks = seats.map(|s| s.member.worker().check_conservation().map_err(|e| format!("{e:?}")));
        checks.collect()
    }

    /// Forwards at least so many packets on as many threads as there are workers.
    pub fn run(&mut self, packets: u64) -> Result<Timed, BenchError> {
        let target = self.traffic.entered.0.load(Ordering::Acquire) + packets;
        let before = self.traffic.left.0.load(Ordering::Acquire);
        let barrier = Barrier::new(self.seats.len());
        let Self { seats, pool, packet, batch, traffic, placement, balancer, inboxes } = self;
        let most = (*batch * seats.len()) as u64;
        let closed = AtomicBool::new(balancer.is_none());
        let work = Work { pool, traffic, target, batch: *batch, most, packet: *packet, closed };
        let done = std::thread::scope(|scope| {
            let threads: Vec<_> = seats
                .iter_mut()
                .enumerate()
                .map(|(i, seat)| {
                    let (work, barrier) = (&work, &barrier);
                    scope.spawn(move || {
                        // Not permitted, it runs where it may; the spread tells.
                        let _ = machine::pin(i);
                        let watch = Watch::start();
                        barrier.wait();
                        let begin = clock::monotonic();
                        seat.run(work);
                        (begin, clock::monotonic(), watch.warnings())
                    })
                })
                .collect();
            if let Some(balancer) = balancer {
                work.balance(balancer, placement, inboxes);
            }
            threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        let mut timed = Timed { ns_per_packet: 0.0, warnings: Vec::new() };
        let (mut begin, mut end) = (Instant::FAR_FUTURE, Instant::ZERO);
        for thread in done {
            let (from, to, warnings) = thread.map_err(|_| BenchError::Wrong("a worker died".to_owned()))?;
            (begin, end) = (begin.min(from), end.max(to));
            timed.warnings.extend(warnings);
        }
        let left = self.traffic.left.0.load(Ordering::Acquire) - before;
        let dropped = self.dropped();
        if !dropped.is_empty() || left < packets {
            return Err(BenchError::Wrong(format!("{left} of {packets} packets came through, {dropped:?}")));
        }
        timed.ns_per_packet = end.since(begin).0 as f64 / left as f64;
        Ok(timed)
    }

    fn dropped(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        for seat in &self.seats {
            let driver = seat.member.worker().driver();
            for counters in driver.ids().filter_map(|id| driver.counters(id)) {
                let drops = counters.drops.iter().enumerate().filter(|(_, n)| **n > 0);
                all.extend(drops.map(|(i, n)| (DropReason::name_of_index(i).unwrap_or_default(), *n)));
            }
        }
        all
    }

    /// Shares of all packets that went to another worker to be sorted, and to leave.
    pub fn crossed(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        struct Sum<'n>(&'n str, u64);
        impl CounterSink for Sum<'_> {
            fn counter(&mut self, name: &str, value: u64) {
                self.1 += if name == self.0 { value } else { 0 };
            }
            fn gauge(&mut self, _name: &str, _value: u64) {}
        }
        let left = self.traffic.left.0.load(Ordering::Acquire).max(1) as f64;
        ["steered", "handed_over"].into_iter().map(move |name| {
            let mut sum = Sum(name, 0);
            for driver in self.seats.iter().map(|seat| seat.member.worker().driver()) {
                driver.ids().for_each(|id| driver.report(id, &mut sum));
            }
            (name, sum.1 as f64 / left)
        })
    }
}

/// What the threads of a run share.
struct Work<'w> {
    pool: &'w Pool,
    traffic: &'w Traffic,
    /// Packets that have entered at the end.
    target: u64,
    batch: usize,
    /// Packets that all threads together may let in at one instant.
    most: u64,
    packet: usize,
    /// Nobody sends changes any more.
    closed: AtomicBool,
}

impl Work<'_> {
    /// Balances the load until everything that was to come has come.
    fn balance(&self, balancer: &mut Balancer, placement: &Placement, inboxes: &[Sender<Change>]) {
        while self.traffic.entered.0.load(Ordering::Acquire) < self.target {
            std::thread::sleep(NAP);
            let Some(change) = balancer.look(clock::monotonic()) else { continue };
            for (inbox, change) in inboxes.iter().zip(placement.share(change)) {
                // Its end is there as long as the worker is.
                let _ = inbox.send(change);
            }
        }
        self.closed.store(true, Ordering::Release);
    }
}

impl Seat {
    /// A worker's loop until everything that was to come has come and has left.
    fn run(&mut self, work: &Work<'_>) {
        loop {
            let closed = work.closed.load(Ordering::Acquire);
            let busy = self.change();
            if self.member.is_halted() {
                std::hint::spin_loop();
                continue;
            }
            let entered = work.traffic.entered.0.load(Ordering::Acquire);
            if entered >= work.target {
                // Others may need this one for a change until there is none left.
                if closed && !busy && work.traffic.under_way() == 0 {
                    break;
                }
            } else {
                for at in 0..self.ports.len() {
                    if work.traffic.under_way() + work.most <= WINDOW {
                        self.receive(at, work);
                    }
                }
            }
            let mut now = clock::monotonic();
            self.member.exchange(&mut || {
                now = clock::monotonic();
                now
            });
            if self.member.worker_mut().next_wakeup().is_some_and(|at| at <= now) {
                self.member.poll(now);
            }
            self.member.take_events(now, &mut self.events);
            self.events.clear();
            self.member.worker_mut().local_queue().release_all();
            self.member.take_rung();
            for at in 0..self.ports.len() {
                self.transmit(at, work);
            }
        }
    }

    /// Does some of the change that it is at; whether there is one.
    fn change(&mut self) -> bool {
        if self.job.is_none() {
            self.job = self.inbox.try_recv().ok();
        }
        let Some(change) = &mut self.job else { return false };
        let now = clock::monotonic();
        let done = self.member.apply(now, change) == ChangeStep::Done;
        match (self.member.is_halted(), self.halted) {
            (true, None) => self.halted = Some(now),
            (false, Some(since)) => {
                self.longest_stop = self.longest_stop.max(clock::monotonic().since(since).0);
                self.halted = None;
            }
            _ => {}
        }
        if done {
            self.job = None;
        }
        true
    }

    fn receive(&mut self, at: usize, work: &Work<'_>) {
        let port = &mut self.ports[at];
        let now = clock::monotonic();
        for _ in 0..work.batch {
            let (frame, flow) = port.frames.next();
            let Some(mut packet) = work.pool.packet(frame) else { break };
            packet.meta_mut().received_at = now;
            if self.last.is_some() {
                self.numbers += 1;
                let place = &mut packet.frame_mut()[42..54];
                place[..4].copy_from_slice(&flow.to_be_bytes());
                place[4..].copy_from_slice(&self.numbers.to_be_bytes());
            }
            self.batch.push(packet);
        }
        work.traffic.entered.0.fetch_add(self.batch.len() as u64, Ordering::AcqRel);
        self.member.receive(now, port.id, &mut self.batch);
    }

    fn transmit(&mut self, at: usize, work: &Work<'_>) {
        let Port { id, out, .. } = &mut self.ports[at];
        let Some(queue) = self.member.worker_mut().transmit_queue(*id) else { return };
        if queue.is_empty() {
            return;
        }
        let mut room = out.chunks_exact_mut(work.packet);
        for packet in queue.iter() {
            let frame = packet.frame();
            if let Some(place) = room.next() {
                place[..frame.len()].copy_from_slice(frame);
            }
            if let Some(last) = &mut self.last {
                let word = |from: usize, to: usize| {
                    frame[from..to].iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte))
                };
                let (flow, number) = (word(42, 46) as u32, word(46, 54));
                self.disorder += u64::from(last.insert(flow, number).is_some_and(|before| before >= number));
            }
        }
        let n = queue.len() as u64;
        queue.release_all();
        work.traffic.left.0.fetch_add(n, Ordering::AcqRel);
    }
}
