//! Phones, proxies and edge routers in virtual time, over a network that may lose, delay and double, with a log of who sent what when.

use super::phone::Phone;
use crate::message::{Message, Name, Transport};
use crate::peer::Peer;
use crate::proxy::{Domain, Input, Limits, Listen, Output, Proxy, Settings, Side, Zone};
use crate::quality::{Calls, NoQuality, Order, Record, ReservationId, Settings as QualitySettings};
use crate::transaction::Timers;
use perhop_reason::Code;
use perhop_units::{Duration, Instant, mix};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A proxy of either kind.
#[derive(Debug)]
pub(crate) enum Node {
    Plain(Box<Proxy<NoQuality>>),
    Quality(Box<Proxy<Calls>>),
}

/// An edge router that grants up to its capacity.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) capacity: u64,
    /// What it holds, bit/s, and until when unless renewed.
    pub(crate) held: BTreeMap<ReservationId, (u64, Instant)>,
    /// How long it takes to answer; `None`: it never does.
    pub(crate) answers: Option<Duration>,
    /// Whether it asks a broker for each.
    pub(crate) broker: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Datagram(SocketAddr, SocketAddr, Vec<u8>),
    Answer(SocketAddr, ReservationId, u32, String, bool),
}

/// Everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) phones: BTreeMap<SocketAddr, Phone>,
    pub(crate) nodes: BTreeMap<SocketAddr, Node>,
    pub(crate) agents: BTreeMap<String, Agent>,
    names: BTreeMap<SocketAddr, String>,
    under_way: BTreeSet<(Instant, u64, Event)>,
    number: u64,
    pub(crate) seed: u64,
    pub(crate) loss_percent: u64,
    pub(crate) log: Option<Vec<String>>,
    /// Every datagram that was sent: when, from where, to where.
    pub(crate) capture: Vec<(Instant, SocketAddr, SocketAddr, Vec<u8>)>,
    pub(crate) records: Vec<Record>,
}

pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

pub(crate) const PROXY_A: &str = "10.1.0.254:5060";
pub(crate) const PROXY_B: &str = "10.2.0.254:5060";
pub(crate) const PLAIN: &str = "10.3.0.254:5060";
pub(crate) const ALICE: &str = "10.1.0.1:5060";
pub(crate) const BOB: &str = "10.2.0.1:5060";

/// Settings of a proxy of domain `letter`, with users of both at their addresses; calls to the other domain go to `next`.
pub(crate) fn settings(address: &str, letter: &str, users: Vec<(String, String)>) -> Settings {
    let own = at(address);
    let zone =
        |address: &str, prefix, side| Zone { address: address.parse().expect("an address"), prefix, side };
    Settings {
        listen: vec![Listen { transport: Transport::Udp, host: own.ip().to_string(), port: own.port() }],
        names: vec![],
        domains: vec![Domain { name: format!("{letter}.example"), registrar: None, users }],
        zones: vec![
            zone("10.1.0.254", 32, Side::Trusted),
            zone("10.2.0.254", 32, Side::Trusted),
            zone("10.3.0.0", 24, Side::Trusted),
            zone(if letter == "a" { "10.1.0.0" } else { "10.2.0.0" }, 24, Side::Terminal),
        ],
        timers: Timers::default(),
        timer_c: Duration::from_secs(185),
        resolve: Duration::from_secs(5),
        secret: [letter.as_bytes()[0]; 16],
        seed: 0,
        limits: Limits::default(),
    }
}

impl World {
    /// Alice with her proxy, Bob with his, each with an edge router of 1 Mbit/s.
    pub(crate) fn new(quality: impl Fn(QualitySettings) -> QualitySettings) -> Self {
        let mut world = Self {
            now: Instant::ZERO,
            phones: BTreeMap::new(),
            nodes: BTreeMap::new(),
            agents: BTreeMap::new(),
            names: BTreeMap::new(),
            under_way: BTreeSet::new(),
            number: 0,
            seed: 1,
            loss_percent: 0,
            log: Some(Vec::new()),
            capture: Vec::new(),
            records: Vec::new(),
        };
        for (letter, proxy) in [("a", PROXY_A), ("b", PROXY_B)] {
            let users = (1..=9).map(|n| {
                let phone = format!("{}.0.{n}", if letter == "a" { "10.1" } else { "10.2" });
                (format!("u{n}"), format!("sip:u{n}@{phone}"))
            });
            let mut users: Vec<_> = users.collect();
            // Two phones of one user.
            users.extend([8, 9].map(|n| ("both".to_string(), users[n - 1].1.clone())));
            let calls = Calls::new(quality(QualitySettings::new(
                &format!("{letter}.example"),
                &format!("er-{letter}"),
            )));
            let proxy_node = Proxy::new(settings(proxy, letter, users), calls);
            world.add(at(proxy), &format!("p{letter}"), Node::Quality(Box::new(proxy_node)));
            let agent = Agent {
                capacity: 1_000_000,
                held: BTreeMap::new(),
                answers: Some(Duration::from_millis(2)),
                broker: false,
            };
            world.agents.insert(format!("er-{letter}"), agent);
        }
        world.phone("u1@a.example", ALICE, PROXY_A);
        world.phone("u1@b.example", BOB, PROXY_B);
        world.names.insert(at(ALICE), "alice".into());
        world.names.insert(at(BOB), "bob".into());
        world
    }

    pub(crate) fn add(&mut self, address: SocketAddr, name: &str, node: Node) {
        self.names.insert(address, name.into());
        self.nodes.insert(address, node);
    }

    pub(crate) fn phone(&mut self, user: &str, address: &str, proxy: &str) {
        self.names.insert(at(address), user.into());
        self.phones.insert(at(address), Phone::new(user, at(address), at(proxy)));
    }

    pub(crate) fn alice(&mut self) -> &mut Phone {
        self.phones.get_mut(&at(ALICE)).expect("there")
    }

    pub(crate) fn bob(&mut self) -> &mut Phone {
        self.phones.get_mut(&at(BOB)).expect("there")
    }

    /// The proxy at an address, which reserves.
    pub(crate) fn quality(&mut self, address: &str) -> &mut Proxy<Calls> {
        match self.nodes.get_mut(&at(address)) {
            Some(Node::Quality(proxy)) => proxy,
            other => panic!("{other:?}"),
        }
    }

    /// Alice calls Bob; her number of the call.
    pub(crate) fn call(&mut self) -> u64 {
        let now = self.now;
        self.alice().call(now, "sip:u1@b.example")
    }

    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        mix::next(&mut self.seed) % below
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    /// The log since it was asked for last.
    pub(crate) fn said(&mut self) -> Vec<String> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if self.log.is_some() {
            let message = Message::datagram(&bytes).expect("a message");
            let what = message.status().map_or_else(
                || String::from_utf8_lossy(message.method_text()).into_owned(),
                |s| s.to_string(),
            );
            let mark = if message.value(Name::QosProxy).is_some() { "+" } else { "" };
            let name = |a: &SocketAddr| self.names.get(a).cloned().unwrap_or_else(|| a.to_string());
            let line = format!("{}>{} {what}{mark}", name(&from), name(&to));
            self.say(|| line);
            self.capture.push((self.now, from, to, bytes.clone()));
        }
        let copies = if self.loss_percent > 0 { 1 + u64::from(self.draw(50) == 0) } else { 1 };
        for _ in 0..copies {
            if self.loss_percent > 0 && self.draw(100) < self.loss_percent {
                continue;
            }
            let delay = 1_000 + if self.loss_percent > 0 { self.draw(50_000) } else { 0 };
            self.number += 1;
            let event = Event::Datagram(from, to, bytes.clone());
            self.under_way.insert((self.now + Duration::from_micros(delay), self.number, event));
        }
    }

    /// Takes what everybody has to say.
    fn settle(&mut self) {
        loop {
            let mut sent = Vec::new();
            let mut orders = Vec::new();
            for (address, phone) in &mut self.phones {
                while let Some((peer, bytes)) = phone.poll() {
                    sent.push((*address, peer.address, bytes));
                }
            }
            let mut resolved = Vec::new();
            for (address, node) in &mut self.nodes {
                let poll = |node: &mut Node| match node {
                    Node::Plain(proxy) => proxy.poll_output(),
                    Node::Quality(proxy) => proxy.poll_output(),
                };
                // Orders were given before what they decide is sent.
                if let Node::Quality(proxy) = node {
                    orders.extend(
                        std::iter::from_fn(|| proxy.quality_mut().poll_order()).map(|o| (*address, o)),
                    );
                    self.records.extend(std::iter::from_fn(|| proxy.quality_mut().poll_record()));
                }
                while let Some(output) = poll(node) {
                    match output {
                        Output::Send { to, bytes, .. } => sent.push((*address, to.address, bytes)),
                        Output::Resolve { number, host, .. } => resolved.push((*address, number, host)),
                        Output::Close(_) => {}
                    }
                }
            }
            if sent.is_empty() && orders.is_empty() && resolved.is_empty() {
                return;
            }
            for (address, order) in orders {
                self.order(address, order);
            }
            for (from, to, bytes) in sent {
                self.send(from, to, bytes);
            }
            for (address, number, host) in resolved {
                let to = match host.as_str() {
                    "a.example" => Some(PROXY_A),
                    "b.example" if self.nodes.contains_key(&at(PLAIN)) && address == at(PROXY_A) => {
                        Some(PLAIN)
                    }
                    "b.example" => Some(PROXY_B),
                    _ => None,
                };
                let now = self.now;
                self.tell(address, now, Input::Resolved(number, to.map(at).into_iter().collect()));
            }
        }
    }

    fn tell(&mut self, address: SocketAddr, now: Instant, input: Input) {
        match self.nodes.get_mut(&address) {
            Some(Node::Plain(proxy)) => proxy.handle_input(now, input),
            Some(Node::Quality(proxy)) => proxy.handle_input(now, input),
            None => {}
        }
    }

    fn order(&mut self, address: SocketAddr, order: Order) {
        let name = self.names[&address].clone();
        let (id, serial, er, request) = match order {
            Order::Reserve(id, serial, request) => {
                (id, Some(serial), request.er.clone(), Some(("REQ", request)))
            }
            Order::Change(id, serial, request) => {
                (id, Some(serial), request.er.clone(), Some(("CHG", request)))
            }
            Order::Renew(id, request) => (id, None, request.er.clone(), Some(("RNW", request))),
            Order::Release(id, er) => (id, None, er, None),
        };
        let Some((word, request)) = request else {
            if self.agents.get_mut(&er).is_some_and(|agent| agent.held.remove(&id).is_some()) {
                self.say(|| format!("{name}>{er} DRQ"));
            }
            return;
        };
        let kbps = request.rate().bits_per_sec() / 1_000;
        let both = if request.back.is_empty() { "" } else { " both" };
        self.say(|| format!("{name}>{er} {word} {kbps}{both}"));
        let now = self.now;
        let Some(agent) = self.agents.get_mut(&er) else { return };
        if let Some((_, until)) = agent.held.get_mut(&id).filter(|_| serial.is_none()) {
            *until = now + request.lifetime;
        }
        let (Some(serial), Some(wait)) = (serial, agent.answers) else { return };
        agent.held.retain(|_, (_, until)| *until > now);
        let used: u64 = agent.held.iter().filter(|(other, _)| **other != id).map(|(_, (bps, _))| bps).sum();
        let granted = used + request.rate().bits_per_sec() <= agent.capacity;
        if granted {
            agent.held.insert(id, (request.rate().bits_per_sec(), now + request.lifetime));
        }
        if agent.broker {
            let line = format!("{er}>bb REQ");
            self.say(|| line);
        }
        self.number += 1;
        self.under_way.insert((
            self.now + wait,
            self.number,
            Event::Answer(address, id, serial, er, granted),
        ));
    }

    /// Lets time pass, at most until `until`.
    pub(crate) fn run_until(&mut self, until: Instant) {
        self.settle();
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            let now = self.now;
            while self.under_way.first().is_some_and(|(at, ..)| *at <= now) {
                let (_, _, event) = self.under_way.pop_first().expect("there is one");
                self.happen(now, event);
                self.settle();
            }
            for phone in self.phones.values_mut().filter(|p| p.next_wakeup().is_some_and(|at| at <= now)) {
                phone.wake(now);
            }
            let due: Vec<_> = self
                .nodes
                .iter()
                .filter(|(_, n)| wakeup(n).is_some_and(|at| at <= now))
                .map(|(a, _)| *a)
                .collect();
            for address in due {
                self.tell(address, now, Input::Wake);
            }
            self.settle();
        }
        self.now = until;
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn next(&self) -> Option<Instant> {
        let nodes = self.nodes.values().filter_map(wakeup);
        let phones = self.phones.values().filter_map(Phone::next_wakeup);
        nodes.chain(phones).chain(self.under_way.first().map(|(at, ..)| *at)).min()
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::Datagram(from, to, bytes) => {
                if let Some(phone) = self.phones.get_mut(&to) {
                    phone.receive(now, &bytes);
                } else {
                    let peer = Peer { transport: Transport::Udp, address: from, connection: None };
                    self.tell(to, now, Input::Datagram(peer, bytes));
                }
            }
            Event::Answer(address, id, serial, er, granted) => {
                let broker = self.agents.get(&er).is_some_and(|agent| agent.broker);
                if broker {
                    let line = format!("bb>{er} DEC");
                    self.say(|| line);
                }
                let word = if granted { "DEC" } else { "DEC no" };
                let line = format!("{er}>{} {word}", self.names[&address]);
                self.say(|| line);
                if let Some(Node::Quality(proxy)) = self.nodes.get_mut(&address) {
                    let answer = if granted { Ok(()) } else { Err(Code::NoCapacity) };
                    proxy.quality_mut().answer(now, id, serial, answer);
                }
                self.tell(address, now, Input::Wake);
            }
        }
    }

    /// What edge routers hold, bit/s.
    pub(crate) fn held(&self, er: &str) -> Vec<u64> {
        let live = self.agents[er].held.values().filter(|(_, until)| *until > self.now);
        live.map(|(bps, _)| *bps).collect()
    }

    /// Nothing is left of any call, neither here nor there.
    pub(crate) fn assert_empty(&mut self) {
        for (address, node) in &self.nodes {
            match node {
                Node::Plain(proxy) => assert_eq!(proxy.under_way(), (0, 0), "{address}"),
                Node::Quality(proxy) => {
                    assert_eq!(proxy.under_way(), (0, 0), "{address}");
                    assert_eq!(proxy.quality().live(), (0, 0), "{address}");
                }
            }
        }
        for name in self.agents.keys() {
            assert!(self.held(name).is_empty(), "{name} holds {:?}", self.held(name));
        }
    }
}

fn wakeup(node: &Node) -> Option<Instant> {
    match node {
        Node::Plain(proxy) => proxy.next_wakeup(),
        Node::Quality(proxy) => proxy.next_wakeup(),
    }
}
