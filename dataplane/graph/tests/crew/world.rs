//! A crew under a virtual clock, stepped in an order drawn from a seed; hosts behind its ports; and the books of it all.

use perhop_contract::{Control, Input, Limits, Output};
use perhop_elements::route::{NeighbourState, NeighbourUpdate, NextHop, PortInfo, RouteEntry, RouteKind};
use perhop_graph::router::{
    Balancer, BucketMove, Change, ChangeStep, EdgeOptions, EdgePort, Member, Placement, Relocation,
    RouterPlanner, WorkerEvent, edge_graph, registry,
};
use perhop_model::{Credentials, Kind, Op, Outcome, Owner, Reply, Transaction, TxnId};
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::{Duration, Instant};
use perhop_wire::MacAddr;
use perhop_wire::build::udp4;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::support::put;

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    pub at: Instant,
    pub port: PortId,
    pub flow: u32,
    pub seq: u32,
    pub ip_len: u64,
}

/// From host `host` behind a port to one behind another.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub from: u16,
    pub to: u16,
    pub host: u16,
    pub number: u32,
    pub ip_len: u16,
}

/// Buffers of the router.
const BUFFERS: usize = 32_768;

pub struct World {
    pub control: Control<RouterPlanner>,
    pub members: Vec<Member>,
    pub placement: Placement,
    pub now: Instant,
    pub rng: Pcg64Mcg,
    pub sent: Vec<Out>,
    pub injected: u64,
    pool: Pool,
    jobs: Vec<VecDeque<(Option<u64>, Change)>>,
    applied: HashMap<u64, usize>,
    replies: Vec<(u64, Arc<Reply>)>,
    next: u128,
    seqs: BTreeMap<u32, u32>,
    local: u64,
    /// Frames that wait at each port, in order.
    arriving: Vec<Batch>,
}

fn frame_of(flow: Flow, seq: u32) -> Vec<u8> {
    let mut payload = flow.number.to_be_bytes().to_vec();
    payload.extend(seq.to_be_bytes());
    let [high, low] = flow.host.to_be_bytes();
    udp4([10, flow.from as u8, high, low], [10, flow.to as u8, high, low])
        .macs(MacAddr([2, 0, 0, 0, 3, 1]), mac(usize::from(flow.from)))
        .ports(4000 + flow.number as u16, 9)
        .payload(&payload)
        .ip_len(flow.ip_len.max(60))
        .build()
}

pub fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, port as u8])
}

impl World {
    /// Ports `p0`, `p1`, … of these rates (0: unlimited), dealt to `workers` members in turn.
    pub fn new(workers: usize, rates: &[u64], seed: u64) -> Self {
        Self::placed(workers, rates, seed, false)
    }

    /// As [`World::new`], and buckets may go from one member to another.
    pub fn adaptive(workers: usize, rates: &[u64], seed: u64) -> Self {
        Self::placed(workers, rates, seed, true)
    }

    fn placed(workers: usize, rates: &[u64], seed: u64, adaptive: bool) -> Self {
        let spec = |rate: &u64| json!({ "rate": rate });
        let ports: Vec<EdgePort> = rates
            .iter()
            .enumerate()
            .map(|(i, rate)| EdgePort {
                name: format!("p{i}"),
                spec: serde_json::from_value(spec(rate)).expect("a port"),
            })
            .collect();
        let placement = Placement::new(workers, &ports, seed).with_adaptive(adaptive);
        let options = EdgeOptions::exact(4_096).with_workers(workers).with_adaptive(adaptive);
        let text = edge_graph(&ports, &options);
        let mut planner = RouterPlanner::new(ports, registry()).with_workers(workers).with_adaptive(adaptive);
        let pool = Pool::new(BUFFERS);
        let members = Member::crew(&text, &mut planner, &pool, &placement, seed).expect("its own graph");
        let n = rates.len();
        let mut world = Self {
            control: Control::new(1, planner, Limits::default()),
            jobs: members.iter().map(|_| VecDeque::new()).collect(),
            members,
            placement,
            now: Instant::ZERO + Duration::from_secs(1),
            rng: Pcg64Mcg::seed_from_u64(seed),
            sent: Vec::new(),
            injected: 0,
            pool,
            applied: HashMap::new(),
            replies: Vec::new(),
            next: 1,
            seqs: BTreeMap::new(),
            local: 0,
            arriving: (0..n).map(|_| Batch::new()).collect(),
        };
        world.facts(n);
        let ports = rates.iter().enumerate().map(|(i, rate)| put(Kind::Port, &format!("p{i}"), spec(rate)));
        let ports: Vec<Op> = ports.collect();
        world.commit(ports);
        world
    }

    /// What the kernel would say: behind each port 10.PORT/16, by a gateway that is known.
    fn facts(&mut self, n: usize) {
        let net = |text: String| text.parse().expect("a prefix");
        let gateway = |i: usize| [192, 0, i as u8, 1].into();
        let info = |i| PortInfo {
            mac: mac(i),
            mtu: 1500,
            addresses: vec![net(format!("192.0.{i}.2/24"))],
            ..PortInfo::default()
        };
        let route = |i: usize| {
            let hop = NextHop::new(Some(gateway(i)), PortId(i as u16));
            RouteEntry::new(net(format!("10.{i}.0.0/16")), RouteKind::by(hop))
        };
        let state = NeighbourState::Reachable(MacAddr([2, 0, 0, 0, 2, 1]));
        let neighbour = |i| NeighbourUpdate { port: PortId(i as u16), ip: gateway(i), state };
        let planner = self.control.planner_mut();
        let changes = [
            planner.port_change((0..n).map(info).collect()),
            planner.set_kernel_routes((0..n).map(route).collect()),
            planner.neighbour_change((0..n).map(neighbour).collect()),
        ];
        for change in changes {
            self.deal(None, change);
        }
        self.settle();
    }

    /// Has all members make these moves as soon as they have done what they were told before.
    pub fn relocate(&mut self, moves: Vec<BucketMove>) -> Arc<Relocation> {
        let (change, relocation) = self.placement.relocation(moves);
        self.deal(None, change);
        relocation
    }

    /// Asks who balances the load, and has all members do what he says.
    pub fn balance(&mut self, balancer: &mut Balancer) {
        if let Some(change) = balancer.look(self.now) {
            self.deal(None, change);
        }
    }

    /// The link-layer address of the gateway behind a port becomes known (again) or not.
    pub fn gateway(&mut self, port: u16, known: bool) {
        let state = match known {
            true => NeighbourState::Reachable(MacAddr([2, 0, 0, 0, 2, 1])),
            false => NeighbourState::Removed,
        };
        let update = NeighbourUpdate { port: PortId(port), ip: [192, 0, port as u8, 1].into(), state };
        let change = self.control.planner_mut().neighbour_change(vec![update]);
        self.deal(None, change);
        self.settle();
    }

    /// The bucket of a flow.
    pub fn bucket(&self, flow: Flow) -> usize {
        let frame = frame_of(flow, 0);
        let layout = perhop_wire::dissect(&frame).expect("a frame");
        self.placement.map().bucket(&frame, &layout).expect("IP")
    }

    fn deal(&mut self, ticket: Option<u64>, change: Change) {
        for (jobs, share) in self.jobs.iter_mut().zip(self.placement.share(change)) {
            jobs.push_back((ticket, share));
        }
    }

    /// Hands a transaction in.
    pub fn request(&mut self, ops: Vec<Op>) -> u64 {
        let request = self.next as u64;
        let transaction = Box::new(Transaction::new(TxnId(self.next.to_be_bytes()), Owner::File, ops));
        self.next += 1;
        let who = Credentials::ADMIN;
        self.control.handle_input(self.now, Input::Request { request, who, transaction });
        self.outputs();
        request
    }

    /// The answer to a request, once.
    pub fn reply(&mut self, request: u64) -> Option<Arc<Reply>> {
        let at = self.replies.iter().position(|(r, _)| *r == request)?;
        Some(self.replies.swap_remove(at).1)
    }

    /// Hands a transaction in and does all there is to do.
    pub fn submit(&mut self, ops: Vec<Op>) -> Arc<Reply> {
        let request = self.request(ops);
        self.settle();
        self.reply(request).expect("an answer")
    }

    /// [`World::submit`] that must succeed.
    pub fn commit(&mut self, ops: Vec<Op>) {
        let reply = self.submit(ops);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    }

    fn outputs(&mut self) {
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Reply { request, reply } => self.replies.push((request, reply)),
                Output::Apply { ticket, change } => self.deal(Some(ticket), change),
            }
        }
    }

    /// A frame stands at a port.
    pub fn frame(&mut self, port: u16, frame: &[u8]) {
        let mut packet = self.pool.packet(frame).expect("a buffer is free");
        packet.meta_mut().received_at = self.now;
        self.arriving[usize::from(port)].push(packet);
        self.injected += 1;
    }

    /// The next packet of a flow stands at its port.
    pub fn arrive(&mut self, flow: Flow) {
        let seq = self.seqs.entry(flow.number).or_default();
        *seq += 1;
        let frame = frame_of(flow, *seq);
        self.frame(flow.from, &frame);
    }

    /// So many packets of a flow come in. When much is under way members do what they have to do before more comes.
    pub fn arrive_all(&mut self, flow: Flow, packets: u32) {
        (0..packets).for_each(|_| self.arrive(flow));
        if self.inside() > 500 {
            self.settle();
        }
    }

    /// Packets of each flow so far.
    pub fn packets(&self) -> &BTreeMap<u32, u32> {
        &self.seqs
    }

    /// One step of one member, drawn. `false` when it had nothing to do.
    pub fn step(&mut self) -> bool {
        let (m, what) = (self.rng.random_range(0..self.members.len()), self.rng.random_range(0..4));
        self.step_of(m, what)
    }

    fn step_of(&mut self, m: usize, what: u32) -> bool {
        let now = self.now;
        let worked = match what {
            0 => self.job(m),
            _ if self.members[m].is_halted() => false,
            1 => self.members[m].exchange(&mut || now),
            2 => {
                let due = self.members[m].worker_mut().next_wakeup().is_some_and(|at| at <= now);
                due && self.members[m].poll(now) > 0
            }
            _ => {
                let mut worked = false;
                for port in self.placement.ports(m).collect::<Vec<_>>() {
                    let batch = &mut self.arriving[port.index()];
                    worked |= !batch.is_empty();
                    self.members[m].receive(now, port, batch);
                }
                worked
            }
        };
        self.collect(m);
        worked
    }

    fn job(&mut self, m: usize) -> bool {
        let Some((ticket, mut change)) = self.jobs[m].pop_front() else { return false };
        if self.members[m].apply(self.now, &mut change) == ChangeStep::More {
            self.jobs[m].push_front((ticket, change));
            return true;
        }
        if let Some(ticket) = ticket {
            let done = self.applied.entry(ticket).or_default();
            *done += 1;
            if *done == self.members.len() {
                self.applied.remove(&ticket);
                self.control.handle_input(self.now, Input::Applied { ticket });
                self.outputs();
            }
        }
        true
    }

    fn collect(&mut self, m: usize) {
        for port in 0..self.arriving.len() {
            let port = PortId(port as u16);
            let Some(queue) = self.members[m].worker_mut().transmit_queue(port) else { continue };
            assert!(queue.is_empty() || self.placement.owner(port) == m, "a port is served by its owner");
            for packet in queue.drain() {
                let payload = &packet.frame()[42..50];
                let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("4"));
                let ip_len = u64::from(packet.meta().layout.ip_len);
                self.sent.push(Out { at: self.now, port, flow: word(0), seq: word(4), ip_len });
                packet.release();
            }
        }
        let local = self.members[m].worker_mut().local_queue();
        self.local += local.len() as u64;
        local.release_all();
        let mut events = Vec::new();
        self.members[m].take_events(self.now, &mut events);
        for event in events {
            if let WorkerEvent::Freed(freed) = event {
                for gone in self.control.planner_mut().freed(&freed) {
                    self.control
                        .handle_input(self.now, Input::Drained { id: gone.id, dropped: gone.dropped });
                }
            }
        }
    }

    /// Steps in drawn order until nobody has anything to do at this instant.
    pub fn settle(&mut self) {
        loop {
            for _ in 0..4 * self.members.len() {
                self.step();
            }
            let busy = (0..self.members.len())
                .fold(false, |busy, m| (0..4).fold(busy, |busy, what| self.step_of(m, what) || busy));
            if !busy {
                break;
            }
        }
    }

    /// Lets the clock run to `at`; every timer is served when it is due, by members in drawn order.
    pub fn run_until(&mut self, at: Instant) {
        loop {
            self.settle();
            let members = self.members.iter_mut().filter_map(|m| m.worker_mut().next_wakeup());
            let next = members.chain(self.control.next_wakeup()).min();
            let Some(next) = next.filter(|next| *next <= at) else { break };
            self.now = self.now.max(next);
            self.control.handle_input(self.now, Input::Tick);
            self.outputs();
        }
        self.now = self.now.max(at);
    }

    /// Drops of all elements of all members, by reason.
    pub fn drops(&self) -> BTreeMap<String, u64> {
        let mut drops = BTreeMap::new();
        for member in &self.members {
            let driver = member.worker().driver();
            for counters in driver.ids().filter_map(|id| driver.counters(id)) {
                for (index, n) in counters.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
                    *drops.entry(DropReason::name_of_index(index).expect("a reason")).or_default() += n;
                }
            }
        }
        drops
    }

    /// Packets that came in and are neither out, dropped nor delivered.
    pub fn inside(&self) -> u64 {
        self.injected - self.sent.len() as u64 - self.local - self.drops().values().sum::<u64>()
    }

    /// Nothing is inside any more, and every book balances.
    pub fn assert_conserved(&self) {
        for member in &self.members {
            member.worker().check_conservation().expect("the books of every element balance");
        }
        assert_eq!(self.inside(), 0, "{:?}", self.drops());
        self.pool.flush_thread_cache();
        let counters = self.pool.counters();
        assert_eq!((counters.in_depot, counters.leaked), (BUFFERS as u64, 0));
    }

    /// Packets of each flow left in the order in which they came.
    pub fn assert_in_order(&self) {
        let mut last: HashMap<u32, u32> = HashMap::new();
        for out in &self.sent {
            let before = last.insert(out.flow, out.seq).unwrap_or(0);
            assert!(out.seq > before, "flow {}: {} after {before}", out.flow, out.seq);
        }
    }

    /// A figure of an element, all members together.
    pub fn counter(&self, element: &str, counter: &str) -> u64 {
        struct Sum<'a>(&'a str, u64);
        impl perhop_element::CounterSink for Sum<'_> {
            fn counter(&mut self, name: &str, value: u64) {
                self.1 += if name == self.0 { value } else { 0 };
            }
            fn gauge(&mut self, _name: &str, _value: u64) {}
        }
        let mut sum = Sum(counter, 0);
        for member in &self.members {
            let driver = member.worker().driver();
            driver.find(element).into_iter().for_each(|id| driver.report(id, &mut sum));
        }
        sum.1
    }
}

/// A filter on all that comes from hosts behind `port`, whose host number has this high byte.
pub fn filter(name: &str, port: u16, high: u8, more: Value) -> Op {
    let mut spec = json!({ "match": { "src": format!("10.{port}.{high}.0/24") } });
    for (key, value) in more.as_object().expect("keys") {
        spec[key] = value.clone();
    }
    put(Kind::Filter, name, spec)
}
