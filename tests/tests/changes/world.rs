//! A router of several ports, saturated in every direction by closed-loop flows of many kinds.

use super::flow::Flow;
use crate::support::{commit, mac, name, put};
use perhop_elements::route::{NeighbourState, NeighbourUpdate, PortInfo};
use perhop_flows::FlowEventKind;
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Key, Kind, Op, Outcome, Owner, PortSpec, Spec};
use perhop_packet::PortId;
use perhop_units::{Duration, Instant};
use perhop_wire::{build, checksum, dissect};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// Packets each flow keeps in the router: every class is backlogged, none overflows.
const OUTSTANDING: usize = 4;
const BASE_PORT: u16 = 10_000;
/// Weights of classes below a branch, of which nobody is guaranteed anything but the branch. A class waits there for a
/// turn of each neighbour before each of its own, and a turn is a largest frame times the weight over the smallest: of
/// weights as close as these four thirds of a frame at the most. So what a removed class holds leaves within the second
/// it has by default. In the slowest world these are four packets or 5.1 kB in at most five turns, and a flow's other
/// packets are in one class at a time, whose five turns are 10.1 kB and a packet. The branch is guaranteed 25 kB.
pub const WEIGHTS_BELOW: RangeInclusive<u32> = 75..=100;
const ETHERNET: usize = 14;
/// Flows of a steady group.
const STEADY_FLOWS: usize = 4;
/// Bytes that change a flow's sequence number into a payload: RTP header and number.
const HEADER: usize = 16;

/// What a world is made of; a seed and these numbers make the same world again.
#[derive(Clone, Debug)]
pub struct Draw {
    pub seed: u64,
    pub bridge: bool,
    /// Nominal rates of the ports, bit/s.
    pub rates: Vec<u64>,
    pub groups: usize,
    pub flows: usize,
    /// Longest payload.
    pub longest: usize,
    /// With groups whose rates no change names, on every port.
    pub steady: bool,
}

impl Draw {
    /// 3 to 5 ports of 2 Mbit/s to 1 Gbit/s, 200 to 600 flows, 16 to 72 groups of them.
    pub fn new(seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let exponent = rng.random_range(0..=90);
        let base = (2e6 * 10f64.powf(f64::from(exponent) * 0.03)) as u64;
        let rates = (0..rng.random_range(3..=5)).map(|_| base * rng.random_range(2..=4) / 4).collect();
        let rates: Vec<u64> = rates;
        let rates: Vec<u64> = rates.into_iter().map(|r| r.clamp(2_000_000, 1_000_000_000)).collect();
        let groups = rng.random_range(16..=72);
        // What a removed class holds must leave within the second it has by default, at its guarantee.
        let guarantee = rates.iter().min().expect("ports") / 2 / (groups / rates.len() + 1) as u64;
        let most = (guarantee / 4 / 8 / OUTSTANDING as u64).saturating_sub(90) as usize;
        Self {
            seed,
            bridge: seed % 4 == 3,
            groups,
            flows: rng.random_range(200..=600),
            longest: rng.random_range(100..=1400).min(most.max(100)),
            steady: false,
            rates,
        }
    }
}

/// What a group of flows passes on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// A filter that names a class.
    Plain,
    /// No filter: the port's default class.
    Default,
    /// A filter with class, contract and a profile whose meter it never exceeds.
    Conditioned,
    /// A contract found by the source's address, with a leaf of its own beside the class's.
    Customer,
    /// Recognised by its packets.
    Media,
    /// A filter with a profile that drops what is too much.
    Policed,
    /// The one that changes name.
    Churn,
    /// A class that is guaranteed what its ceiling is, and always has packets: it gets this rate and no other.
    Shaped,
    /// A profile's token bucket that is always offered more than it lets pass: it lets its rate pass.
    Metered,
}

/// Flows that are treated alike.
#[derive(Clone, Debug)]
pub struct Group {
    pub kind: GroupKind,
    /// Ports it comes in and goes out by.
    pub from: usize,
    pub to: usize,
    /// Its flows' numbers.
    pub first: usize,
    pub count: usize,
    /// Guarantee of its class, bit/s.
    pub guarantee: u64,
    /// Where a churn group is now: class object and parent.
    pub leaf: Option<(u64, Option<u64>)>,
    /// Bits that left, as links count them.
    pub carried: u64,
    /// Bits that no meter dropped, as meters count them.
    pub passed: u64,
}

pub struct World {
    pub draw: Draw,
    pub router: VirtualRouter,
    pub groups: Vec<Group>,
    pub flows: Vec<Flow>,
    group_of: Vec<usize>,
    sizes: Vec<usize>,
    turn: usize,
    pub rng: Pcg64Mcg,
    /// Bits sent by each port.
    pub carried: Vec<u64>,
    /// What a frame costs each port besides its bytes.
    overheads: Vec<u64>,
    /// Each flow's frame, with its number to come, and where its payload begins.
    templates: Vec<(Vec<u8>, usize)>,
    /// Revision of the objects by which it was last noted where flows go.
    noted: Option<u64>,
}

pub fn port_name(port: usize) -> String {
    format!("p{port}")
}

/// Object name of a group's class.
pub fn class_name(groups: &[Group], g: usize) -> String {
    format!("p{}/c{g}", groups[g].to)
}

fn owner_of_group(g: usize) -> Owner {
    match g % 5 {
        0 => Owner::Cli,
        1 => Owner::Agent,
        2 => Owner::Api(name("x")),
        3 => Owner::Api(name("y")),
        _ => Owner::Tcapi(name("z")),
    }
}

impl Group {
    /// Who changes it.
    pub fn owner(&self, g: usize) -> Owner {
        if self.kind == GroupKind::Churn { owner_of_group(g) } else { Owner::File }
    }

    /// What a metered group's profile lets pass, bit/s: with the frames' headers less than its class is guaranteed.
    pub fn metered(&self) -> u64 {
        self.guarantee / 10 * 8
    }
}

fn port_spec(draw: &Draw, port: usize) -> PortSpec {
    let mode = if draw.bridge { "bridge" } else { "route" };
    // Ports differ in what a frame costs and in whom they trust.
    let overhead = if port % 2 == 1 { 24 } else { 0 };
    let spec =
        json!({ "rate": draw.rates[port], "mode": mode, "overhead": overhead, "trust_dscp": port == 2 });
    serde_json::from_value(spec).expect("a port")
}

pub fn class_spec(port: usize, weight: u32, guarantee: u64) -> Value {
    json!({ "port": port_name(port), "weight": weight, "guarantee": { "rate": guarantee },
            "queue": { "limit": { "packets": 100_000 } } })
}

impl World {
    pub fn new(draw: Draw) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(draw.seed ^ 0xfeed);
        let ports: Vec<EdgePort> = (0..draw.rates.len())
            .map(|i| EdgePort { name: port_name(i), spec: port_spec(&draw, i) })
            .collect();
        let router = VirtualRouter::new(ports, 16_384, draw.seed).expect("the edge graph builds");
        let groups = groups(&draw);
        let group_of: Vec<usize> =
            groups.iter().enumerate().flat_map(|(g, group)| vec![g; group.count]).collect();
        let mut size = |g: &usize| match groups[*g].kind {
            _ if draw.steady => draw.longest,
            _ => rng.random_range(HEADER..=draw.longest),
        };
        let sizes = group_of.iter().map(&mut size).collect();
        let mut world = Self {
            router,
            flows: vec![Flow::default(); group_of.len()],
            group_of,
            sizes,
            turn: 0,
            groups,
            rng,
            carried: vec![0; draw.rates.len()],
            overheads: (0..draw.rates.len()).map(|p| port_spec(&draw, p).overhead as u64).collect(),
            templates: Vec::new(),
            noted: None,
            draw,
        };
        world.templates = (0..world.flows.len()).map(|flow| world.frame(flow)).collect();
        world.configure();
        world.connect();
        world.warm_up();
        world
    }

    fn configure(&mut self) {
        let mut ops = Vec::new();
        for (i, _) in self.draw.rates.iter().enumerate() {
            let spec = serde_json::to_value(port_spec(&self.draw, i)).expect("plain data");
            let port = port_name(i);
            ops.push(put(Kind::Port, &port, spec));
            let mut rest = class_spec(i, 1, 0);
            rest["default"] = json!(true);
            ops.push(put(Kind::Class, &format!("{port}/rest"), rest));
            ops.push(put(Kind::Class, &format!("{port}/ef"), class_spec(i, 2, self.draw.rates[i] / 50)));
            // A class with classes below it, for those that change their place.
            ops.push(put(Kind::Class, &format!("{port}/branch"), class_spec(i, 2, self.draw.rates[i] / 10)));
            ops.push(put(Kind::Class, &format!("{port}/twig"), {
                let mut twig = class_spec(i, *WEIGHTS_BELOW.end(), 0);
                twig["parent"] = json!(format!("{port}/branch"));
                twig
            }));
        }
        // More than all calls together can offer at once: none of them is beyond it.
        let rate = 20_000_000_000_u64;
        let idle = 3_600_000_000_000_u64;
        let detector = json!({ "class": "ef", "packets": 5, "rate": rate, "flow_rate": 0, "idle": idle });
        ops.push(put(Kind::Detector, "media", detector));
        for g in 0..self.groups.len() {
            ops.extend(self.group_objects(g));
        }
        let reply = commit(&mut self.router, Owner::File, 1, ops);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    }

    /// The filter that sends a group to a class.
    pub fn group_filter(&self, g: usize, class: &str) -> Value {
        let first = BASE_PORT + self.groups[g].first as u16;
        let ports = json!({ "first": first, "last": first + self.groups[g].count as u16 - 1 });
        json!({ "priority": 1000 + g, "class": class, "match": { "protocol": 17, "dst_ports": ports } })
    }

    fn group_objects(&self, g: usize) -> Vec<Op> {
        let group = &self.groups[g];
        let class = class_name(&self.groups, g);
        let own = |weight| put(Kind::Class, &class, class_spec(group.to, weight, group.guarantee));
        let weight = 1 + g as u32 % 7;
        let mut filter = self.group_filter(g, &format!("c{g}"));
        let rate = self.draw.rates.iter().max().expect("ports") * 20;
        let object = |kind| format!("{kind}{g}");
        match group.kind {
            GroupKind::Churn | GroupKind::Default | GroupKind::Media => Vec::new(),
            GroupKind::Plain => vec![own(weight), put(Kind::Filter, &object("g"), filter)],
            GroupKind::Conditioned => {
                filter["sla"] = json!(object("contract"));
                filter["profile"] = json!(object("profile"));
                let sla = json!({ "rate": rate, "burst": 1 << 28, "dscp": 26 });
                let mut profile = json!({ "meter": meter(g, rate) });
                if g.is_multiple_of(2) {
                    // The profile chooses the class instead of the filter.
                    profile["green"] = json!({ "do": "class", "class": format!("c{g}"), "dscp": 18 });
                    filter["class"] = json!("rest");
                } else {
                    profile["green"] = json!({ "do": "mark", "dscp": 10 });
                }
                vec![
                    own(weight),
                    put(Kind::Sla, &object("contract"), sla),
                    put(Kind::Profile, &object("profile"), profile),
                    put(Kind::Filter, &object("g"), filter),
                ]
            }
            GroupKind::Customer => {
                let prefixes =
                    [format!("10.{}.0.{}/32", group.from, 10 + g), source6(group.from, g) + "/128"];
                let sla = json!({ "prefixes": prefixes, "rate": rate, "burst": 1 << 28, "policy": "demote" });
                let mut leaf = class_spec(group.to, weight, group.guarantee / 2);
                leaf["logical"] = json!(format!("c{g}"));
                leaf["sla"] = json!(object("contract"));
                vec![
                    put(Kind::Class, &class, class_spec(group.to, weight, group.guarantee / 2)),
                    put(Kind::Class, &format!("{class}-own"), leaf),
                    put(Kind::Sla, &object("contract"), sla),
                    put(Kind::Filter, &object("g"), filter),
                ]
            }
            GroupKind::Shaped => {
                let mut shaped = class_spec(group.to, weight, group.guarantee);
                shaped["ceiling"] = json!({ "rate": group.guarantee });
                vec![put(Kind::Class, &class, shaped), put(Kind::Filter, &object("g"), filter)]
            }
            GroupKind::Policed | GroupKind::Metered => {
                let metered = group.kind == GroupKind::Metered;
                let rate = if metered { group.metered() } else { self.draw.rates[group.to] / 20 };
                filter["profile"] = json!(object("profile"));
                let profile = json!({ "meter": tight_meter(rate) });
                vec![
                    own(weight),
                    put(Kind::Profile, &object("profile"), profile),
                    put(Kind::Filter, &object("g"), filter),
                ]
            }
        }
    }

    fn connect(&mut self) {
        if self.draw.bridge {
            // Hosts show themselves, so that nothing is flooded later.
            for port in 0..self.draw.rates.len() {
                let hello = build::udp4([10, port as u8, 0, 2], [10, port as u8, 0, 9]);
                let frame = hello.macs(mac(0x10 + port as u8), mac(0x10 + port as u8)).build();
                self.router.receive(PortId(port as u16), &frame);
            }
            self.router.sent.clear();
            return;
        }
        let nets = |s: [String; 2]| s.iter().map(|n| n.parse().expect("a network")).collect();
        let count = self.draw.rates.len();
        let ports = (0..count)
            .map(|i| PortInfo {
                mac: mac(1 + i as u8),
                mtu: 1500,
                addresses: nets([format!("10.{i}.0.1/24"), format!("2001:db8:{i}::1/64")]),
                ..PortInfo::default()
            })
            .collect();
        let change = self.router.control().planner_mut().port_change(ports);
        self.router.apply_world(change);
        let known = |port: usize, ip: String| NeighbourUpdate {
            port: PortId(port as u16),
            ip: ip.parse().expect("an address"),
            state: NeighbourState::Reachable(mac(0x10 + port as u8)),
        };
        let neighbours = (0..count)
            .flat_map(|i| [known(i, format!("10.{i}.0.2")), known(i, format!("2001:db8:{i}::2"))])
            .collect();
        let change = self.router.control().planner_mut().neighbour_change(neighbours);
        self.router.apply_world(change);
        let route = |i: usize, dest: String, six: &str| {
            put(Kind::Route, &format!("to{i}{six}"), json!({ "dest": dest, "port": port_name(i) }))
        };
        let ops = (0..count)
            .flat_map(|i| {
                [route(i, format!("10.{i}.0.0/24"), ""), route(i, format!("2001:db8:{i}::/64"), "-6")]
            })
            .collect();
        let reply = commit(&mut self.router, Owner::File, 2, ops);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    }

    /// Calls are recognised on an idle router; then every flow fills its share of the queues.
    fn warm_up(&mut self) {
        let media: Vec<usize> =
            (0..self.flows.len()).filter(|f| self.group(*f).kind == GroupKind::Media).collect();
        for _ in 0..8 {
            for flow in &media {
                self.send(*flow);
            }
            self.router.run_for(Duration::from_millis(20));
            self.collect(false);
        }
        self.router.run_for(Duration::from_secs(30));
        self.collect(false);
        let detected = self.router.flow_events.iter().filter(|e| e.kind == FlowEventKind::Detected).count();
        assert_eq!(detected, media.len(), "every call is recognised");
        self.router.flow_events.clear();
        self.note_moves();
        for _ in 0..OUTSTANDING {
            (0..self.flows.len()).for_each(|flow| self.send(flow));
        }
    }

    pub fn group(&self, flow: usize) -> &Group {
        &self.groups[self.group_of[flow]]
    }

    /// A flow's packet without its number, and where its payload begins.
    fn frame(&self, flow: usize) -> (Vec<u8>, usize) {
        let g = self.group_of[flow];
        let group = &self.groups[g];
        let mut payload = vec![0u8; self.sizes[flow].max(HEADER)];
        if group.kind == GroupKind::Media {
            payload[..2].copy_from_slice(&[0x80, 8]);
            payload[8..12].copy_from_slice(&(0xabcd_0000 + flow as u32).to_be_bytes());
        }
        let host = if group.kind == GroupKind::Customer { 10 + g } else { 2 };
        let builder = if flow.is_multiple_of(3) {
            let ip = |s: String| s.parse::<std::net::Ipv6Addr>().expect("an address");
            let source = if group.kind == GroupKind::Customer {
                source6(group.from, g)
            } else {
                format!("2001:db8:{}::2", group.from)
            };
            build::udp6(ip(source), ip(format!("2001:db8:{}::2", group.to)))
        } else {
            build::udp4([10, group.from as u8, 0, host as u8], [10, group.to as u8, 0, 2])
        };
        let next = if self.draw.bridge { mac(0x10 + group.to as u8) } else { mac(1 + group.from as u8) };
        let frame = builder
            .macs(mac(0x10 + group.from as u8), next)
            .ports(5_000, BASE_PORT + flow as u16)
            .payload(&payload)
            .build();
        let payload = dissect(&frame).expect("well formed").payload_offset;
        (frame, usize::from(payload))
    }

    fn dropped_by_meters(&mut self) -> u64 {
        let driver = self.router.worker().driver();
        let node = driver.find("condition").and_then(|id| driver.counters(id));
        node.map_or(0, |c| c.dropped)
    }

    fn send(&mut self, flow: usize) {
        let seq = self.flows[flow].send();
        let kind = self.group(flow).kind;
        let (frame, payload) = &mut self.templates[flow];
        number(frame, *payload, seq, kind == GroupKind::Media);
        let policed = matches!(kind, GroupKind::Policed | GroupKind::Metered);
        let before = if policed { self.dropped_by_meters() } else { 0 };
        let from = self.group(flow).from;
        assert!(
            self.router.receive(PortId(from as u16), &self.templates[flow].0),
            "the pool is large enough"
        );
        if policed && self.dropped_by_meters() > before {
            self.flows[flow].policed();
        } else {
            self.groups[self.group_of[flow]].passed += (self.templates[flow].0.len() - ETHERNET) as u64 * 8;
        }
        if kind == GroupKind::Media {
            let detected = |e: &perhop_flows::FlowEvent| e.kind == FlowEventKind::Detected;
            if self
                .router
                .flow_events
                .iter()
                .rfind(|e| detected(e))
                .is_some_and(|e| usize::from(e.flow.dst_port - BASE_PORT) == flow)
                && self.flows[flow].moves() == 0
            {
                // The packet that made it recognised is the first in its new class.
                self.flows[flow].moved_with_last();
            }
        }
    }

    /// Books what has left and keeps every flow's number of packets inside constant.
    pub fn collect(&mut self, refill: bool) {
        let mut short: Vec<usize> = Vec::new();
        for sent in std::mem::take(&mut self.router.sent) {
            let layout = dissect(sent.frame()).expect("well formed");
            let port = sent.port.index();
            let bits = (sent.frame().len() as u64 + self.overheads[port]) * 8;
            let flow = usize::from(layout.dst_port - BASE_PORT);
            self.carried[port] += bits;
            self.groups[self.group_of[flow]].carried += bits;
            let at = usize::from(layout.payload_offset) + 12;
            let seq = u32::from_be_bytes(sent.frame()[at..at + 4].try_into().expect("four bytes"));
            assert_eq!(port, self.group(flow).to, "flow {flow} left by another port");
            let result = self.flows[flow].arrived(seq);
            result.unwrap_or_else(|why| panic!("flow {flow} of {:?}: {why}", self.group(flow)));
            short.push(flow);
        }
        if !refill {
            return;
        }
        let waits = |g: &Group| self.flows[g.first..g.first + g.count].iter().any(|f| f.outstanding() > 0);
        let idle = self.groups.iter().find(|g| g.kind == GroupKind::Shaped && !waits(g));
        assert!(idle.is_none(), "{idle:?} always has packets");
        // What was policed is tried again, some flows at a time.
        self.turn += 1;
        let again = (self.turn % 8..self.flows.len()).step_by(8);
        short.extend(again.filter(|f| self.group(*f).kind == GroupKind::Policed));
        let metered = self.groups.iter().filter(|g| g.kind == GroupKind::Metered);
        short.extend(metered.map(|g| g.first + self.turn % g.count));
        for flow in short {
            if self.flows[flow].outstanding() < OUTSTANDING {
                self.send(flow);
            }
        }
    }

    /// Where every churn group goes by the objects now; flows whose leaf is another than before have moved.
    pub fn note_moves(&mut self) {
        // Nothing changes an object without a revision.
        let revision = Some(self.router.control().revision());
        if self.noted == revision {
            return;
        }
        self.noted = revision;
        for g in 0..self.groups.len() {
            let leaf = self.leaf_of(g);
            let group = &mut self.groups[g];
            let moved = group.leaf.is_some() && group.leaf != leaf;
            assert!(
                !moved || group.kind == GroupKind::Churn,
                "the test itself moved group {g}, which it calls stable"
            );
            group.leaf = leaf;
            if moved {
                let (first, count) = (group.first, group.count);
                self.flows[first..first + count].iter_mut().for_each(Flow::moved);
            }
        }
    }

    /// The class object that takes a group's packets and its parent, by a reading of the objects of our own.
    fn leaf_of(&mut self, g: usize) -> Option<(u64, Option<u64>)> {
        let (kind, to) = (self.groups[g].kind, self.groups[g].to);
        let filter = Key { kind: Kind::Filter, name: name(&format!("g{g}")) };
        let objects = self.router.control().objects();
        let class = |n: String| {
            let key = Key { kind: Kind::Class, name: name(&n) };
            let entry = objects.get(&key)?;
            let Spec::Class(spec) = &*entry.spec else { return None };
            let parent = spec.parent.as_ref();
            let is_close = parent.is_none() || WEIGHTS_BELOW.contains(&spec.weight);
            assert!(is_close, "{n} may drain for longer than a second beside others of its branch");
            let parent = parent.and_then(|p| objects.get(&Key { kind: Kind::Class, name: p.clone() }));
            Some((entry.id, parent.map(|p| p.id)))
        };
        let logical = match objects.get(&filter).map(|e| &*e.spec) {
            _ if kind == GroupKind::Media => Some("ef".to_owned()),
            _ if kind == GroupKind::Customer => Some(format!("c{g}-own")),
            _ if kind == GroupKind::Conditioned => Some(format!("c{g}")),
            Some(Spec::Filter(f)) => f.class.as_ref().map(ToString::to_string),
            _ => None,
        };
        logical.and_then(|l| class(format!("p{to}/{l}"))).or_else(|| class(format!("p{to}/rest")))
    }

    /// A time in which the fastest port sends 5 to 60 packets.
    pub fn pause(&mut self) -> Duration {
        let packets = self.rng.random_range(5..60);
        let rate = self.draw.rates.iter().max().expect("ports");
        let length = (self.draw.longest as u64 + 60) * 5;
        Duration::from_nanos(packets * length * 1_000_000_000 / rate + self.rng.next_u64() % 100)
    }

    pub fn now(&self) -> Instant {
        self.router.now()
    }
}

/// Gives a flow's frame, whose payload begins at `at`, the number of its next packet.
fn number(frame: &mut [u8], at: usize, seq: u32, media: bool) {
    let mut put = |field: usize, value: u32| {
        let word = at + field..at + field + 4;
        let old = u32::from_be_bytes(frame[word.clone()].try_into().expect("four bytes"));
        frame[word].copy_from_slice(&value.to_be_bytes());
        let sum = u16::from_be_bytes([frame[at - 2], frame[at - 1]]);
        // None at all is written as zero.
        let sum = match checksum::update32(sum, old, value) {
            0 => u16::MAX,
            sum => sum,
        };
        frame[at - 2..at].copy_from_slice(&sum.to_be_bytes());
    };
    put(12, seq);
    if media {
        put(0, 0x8008 << 16 | seq & 0xffff);
        put(4, seq.wrapping_mul(160));
    }
}

fn source6(port: usize, g: usize) -> String {
    format!("2001:db8:{port}::{:x}", 0x100 + g)
}

fn meter(g: usize, rate: u64) -> Value {
    let burst = 1u64 << 28;
    match g / 2 % 3 {
        0 => json!({ "type": "token_bucket", "cir": rate, "cbs": burst }),
        1 => json!({ "type": "srtcm", "cir": rate, "cbs": burst, "ebs": 1500 }),
        _ => json!({ "type": "trtcm", "cir": rate, "cbs": burst, "pir": rate, "pbs": burst }),
    }
}

/// A meter that what a closed loop offers exceeds.
pub fn tight_meter(rate: u64) -> Value {
    json!({ "type": "token_bucket", "cir": rate.max(8_000), "cbs": 3_000 })
}

/// Deals kinds and ports, and gives churn groups as many flows as their guarantee empties in a quarter of a second.
fn groups(draw: &Draw) -> Vec<Group> {
    use GroupKind::{Churn, Conditioned, Customer, Default, Media, Metered, Plain, Policed, Shaped};
    // Three neighbours hold one at least that is always backlogged and one that is not named by any change.
    let kinds = [Plain, Churn, Conditioned, Media, Churn, Customer, Policed, Default];
    let ports = draw.rates.len();
    let steady: &[GroupKind] = if draw.steady { &[Shaped, Metered] } else { &[] };
    let on_port = (draw.groups.div_ceil(ports) + steady.len()) as u64;
    let mut groups: Vec<Group> = (0..draw.groups)
        .map(|g| {
            let (to, turn) = (g % ports, g / ports);
            let from = (to + 1 + turn % (ports - 1)) % ports;
            let kind = kinds[(turn + 3 * to) % kinds.len()];
            // Half of the link is guaranteed to classes of groups, four parts in five of it to those that drain.
            let guarantee = draw.rates[to] / 2 / on_port;
            Group { kind, from, to, first: 0, count: 0, guarantee, leaf: None, carried: 0, passed: 0 }
        })
        .collect();
    let frame = draw.longest as u64 + 90;
    let mut left = draw.flows;
    for group in groups.iter_mut().filter(|g| g.kind == Churn) {
        let in_a_quarter = group.guarantee / 32 / (frame * OUTSTANDING as u64);
        group.count = (in_a_quarter as usize).clamp(1, draw.flows / draw.groups + 1);
        left -= group.count;
    }
    let stable = groups.iter().filter(|g| g.kind != Churn).count();
    for (i, group) in groups.iter_mut().filter(|g| g.kind != Churn).enumerate() {
        group.count = (left / stable + usize::from(i < left % stable)).max(1);
    }
    for (to, kind) in (0..ports).flat_map(|to| steady.iter().map(move |kind| (to, *kind))) {
        let (from, guarantee) = ((to + 1) % ports, draw.rates[to] / 2 / on_port);
        let count = STEADY_FLOWS;
        groups.push(Group { kind, from, to, first: 0, count, guarantee, leaf: None, carried: 0, passed: 0 });
    }
    let mut first = 0;
    for group in &mut groups {
        group.first = first;
        first += group.count;
    }
    groups
}
