//! A router of several workers, each on a thread of its own between the memories of its ports.

use super::super::BenchError;
use super::super::machine::{self, Watch};
use super::super::router::port_mac;
use super::Options;
use super::load::{Frames, Load, Shape};
use perhop_element::CounterSink;
use perhop_elements::route::{
    NeighbourState, NeighbourUpdate, NextHop, Origin, PortInfo, RouteEntry, RouteKind,
};
use perhop_graph::control::{Control, Input, Limits, Output};
use perhop_graph::router::{
    Change, ChangeStep, EdgeOptions, EdgePort, Member, Placement, RING, RouterPlanner, WorkerEvent,
    edge_graph, registry,
};
use perhop_io::clock;
use perhop_model::{Credentials, Kind, Name, Op, Outcome, Owner, Transaction, TxnId};
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::Instant;
use perhop_wire::MacAddr;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets under way at most: they fit into one ring.
const WINDOW: u64 = RING as u64;
/// Rate of every port: high enough not to be the limit.
const RATE: u64 = 100_000_000_000;

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
}

impl Crew {
    /// `workers` with the traffic that is spread over as many as the options say.
    pub fn new(options: &Options, load: Load, workers: usize) -> Result<Self, BenchError> {
        let wrong = |e: &dyn std::fmt::Display| BenchError::Router(e.to_string());
        let n = options.ports as usize;
        let spec = json!({ "rate": RATE });
        let port = |i: usize| -> Result<EdgePort, BenchError> {
            let spec = serde_json::from_value(spec.clone()).map_err(|e| wrong(&e))?;
            Ok(EdgePort { name: format!("p{i}"), spec })
        };
        let ports = (0..n).map(port).collect::<Result<Vec<_>, _>>()?;
        let spread = Placement::new(options.workers as usize, &ports, options.seed);
        let placement = Placement::new(workers, &ports, options.seed);
        let connections = (options.flows * options.ports * 2).max(EdgeOptions::DEFAULT_CONNECTIONS);
        let text = edge_graph(&ports, &EdgeOptions::live(connections).with_workers(workers));
        let mut planner = RouterPlanner::new(ports, registry()).with_workers(workers);
        let pool = Pool::new(8 * WINDOW as usize + 512 * workers);
        let mut members =
            Member::crew(&text, &mut planner, &pool, &placement, options.seed).map_err(|e| wrong(&e))?;
        set_up(Control::new(1, planner, Limits::default()), &placement, &mut members, n)?;
        let bytes = 2 * machine::last_level_cache() / n;
        let shape =
            Shape { load, flows: options.flows, packet: options.packet as usize, bytes, seed: options.seed };
        let seat = |(i, member): (usize, Member)| Seat {
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
        };
        let seats = members.into_iter().enumerate().map(seat).collect();
        Ok(Self {
            seats,
            pool,
            packet: shape.packet,
            batch: options.batch as usize,
            traffic: Traffic::default(),
        })
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
        let Self { seats, pool, packet, batch, traffic } = self;
        let most = (*batch * seats.len()) as u64;
        let work = Work { pool, traffic, target, batch: *batch, most, packet: *packet };
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
}

impl Seat {
    /// A worker's loop until everything that was to come has come and has left.
    fn run(&mut self, work: &Work<'_>) {
        loop {
            let entered = work.traffic.entered.0.load(Ordering::Acquire);
            if entered >= work.target {
                if work.traffic.under_way() == 0 {
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

/// Ports, two classes on each, filters into them, and what the kernel would say of the world.
fn set_up(
    mut control: Control<RouterPlanner>,
    placement: &Placement,
    members: &mut [Member],
    ports: usize,
) -> Result<(), BenchError> {
    let wrong = |text: String| BenchError::Router(text);
    let net = |text: String| text.parse().map_err(|_| wrong(format!("{text} is no prefix")));
    let put = |kind, name: &str, spec| -> Result<Op, BenchError> {
        let name = Name::new(name).map_err(|e| wrong(e.to_string()))?;
        Ok(Op::Put { kind, name, spec, if_version: None, ttl_ms: None })
    };
    let gateway = |i: usize| std::net::IpAddr::from([192, 0, i as u8, 1]);
    let (mut ops, mut infos, mut routes, mut neighbours) = (vec![], vec![], vec![], vec![]);
    for i in 0..ports {
        let (name, port) = (format!("p{i}"), PortId(i as u16));
        ops.push(put(Kind::Port, &name, json!({ "rate": RATE }))?);
        for (class, default) in [("first", false), ("rest", true)] {
            let spec = json!({ "port": name, "logical": class, "default": default });
            ops.push(put(Kind::Class, &format!("{name}/{class}"), spec)?);
        }
        let low = json!({ "first": 0, "last": 32_767 });
        let matches = json!({ "src": format!("{}.0.0.0/8", 10 + i), "protocol": 17, "src_ports": low });
        ops.push(put(Kind::Filter, &name, json!({ "match": matches, "class": "first" }))?);
        let addresses = vec![net(format!("192.0.{i}.2/24"))?];
        infos.push(PortInfo { mac: port_mac(port), mtu: 1500, addresses });
        routes.push(RouteEntry {
            dest: net(format!("{}.0.0.0/8", 10 + i))?,
            kind: RouteKind::Unicast { next_hops: vec![NextHop { via: Some(gateway(i)), port }] },
            metric: 0,
            origin: Origin::Kernel,
        });
        let state = NeighbourState::Reachable(MacAddr([2, 0, 0, 0, 2, i as u8]));
        neighbours.push(NeighbourUpdate { port, ip: gateway(i), state });
    }
    let planner = control.planner_mut();
    let facts =
        [planner.port_change(infos), planner.set_kernel_routes(routes), planner.neighbour_change(neighbours)];
    facts.into_iter().for_each(|change| apply(change, placement, members));
    let transaction = Box::new(Transaction::new(TxnId([1; 16]), Owner::File, ops));
    let now = Instant::ZERO;
    control.handle_input(now, Input::Request { request: 1, who: Credentials::ADMIN, transaction });
    while let Some(output) = control.poll_output() {
        match output {
            Output::Apply { ticket, change } => {
                apply(change, placement, members);
                control.handle_input(now, Input::Applied { ticket });
            }
            Output::Reply { reply, .. } if reply.outcome == Outcome::Committed => return Ok(()),
            Output::Reply { reply, .. } => return Err(wrong(format!("{:?}", reply.errors))),
        }
    }
    Err(wrong("the router does not answer".to_owned()))
}

/// Has all members apply a change, in turns.
fn apply(change: Change, placement: &Placement, members: &mut [Member]) {
    let mut open: Vec<Option<Change>> = placement.share(change).into_iter().map(Some).collect();
    while open.iter().any(Option::is_some) {
        for (member, change) in members.iter_mut().zip(&mut open) {
            let done = change.as_mut().is_some_and(|c| member.apply(Instant::ZERO, c) == ChangeStep::Done);
            if done {
                *change = None;
            }
        }
    }
}
