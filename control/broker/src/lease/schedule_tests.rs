//! Random schedules: agents, their routers and journals, and a model of a broker, with messages that are lost, late, doubled and
//! out of order, outages, and processes that are killed between any two steps. `PERHOP_SCHEDULES` says how many.

use super::*;
use perhop_units::{Duration, Instant, mix};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const CAPACITY: u64 = 1_000;
/// An agent's router has as much room for the class.
const ROUTER: u64 = 900;
/// ms of a schedule with faults, and of calm after it.
const STORM: u64 = 12_000;
const CALM: u64 = 40_000;

#[derive(Debug)]
enum Event {
    /// To the broker, from an agent.
    Ask(usize, Ask),
    /// From the broker, to an agent.
    Decision(usize, Decision),
    /// The router of an agent has decided about the last want.
    Router(usize),
    /// A client of an agent does something.
    Client(usize),
    Wake(usize),
    Lost(usize),
    Back(usize),
    Kill(usize),
    Start(usize),
    /// The broker does not hear or speak until then: what comes meanwhile is lost.
    BrokerDown(u64),
}

struct Booked {
    number: u64,
    has: u64,
    expires: Instant,
    answer: Decision,
}

struct Agent {
    leases: Option<Leases>,
    disk: BTreeMap<LeaseId, LeaseRow>,
    flows_on_disk: BTreeMap<FlowId, FlowRow>,
    /// What the router has, and is to have.
    in_force: u64,
    want: Option<(u64, u64)>,
    busy: bool,
    /// The router has heard of this life of the agent.
    heard: bool,
    connected: bool,
    wake: Option<u64>,
    /// Flows that a client has asked for, with the last version.
    asked: VecDeque<FlowAsk>,
    /// Flows that were told just now that they are admitted.
    told: BTreeSet<FlowId>,
    /// Requests without an answer.
    unanswered: BTreeMap<(FlowId, u64), u64>,
}

struct World {
    seed: u64,
    random: u64,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    agents: Vec<Agent>,
    booked: BTreeMap<(usize, LeaseId), Booked>,
    broker_down_until: u64,
    settings: Settings,
    storm: bool,
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

impl World {
    fn new(seed: u64) -> Self {
        let model = [Model::Provisioned, Model::Outsourced, Model::Mixed][(seed % 3) as usize];
        let class = ClassSettings {
            model,
            chunk: 100,
            high_water: 150,
            low_water: 50,
            minimum: if seed.is_multiple_of(2) { 0 } else { 120 },
        };
        let mut settings = Settings::new(BTreeMap::from([("voice".to_owned(), class)]));
        settings.lifetime = Duration::from_secs(4);
        settings.margin = Duration::from_millis(500);
        let agent = |_| Agent {
            leases: None,
            disk: BTreeMap::new(),
            flows_on_disk: BTreeMap::new(),
            in_force: 0,
            want: None,
            busy: false,
            heard: true,
            connected: false,
            wake: None,
            asked: VecDeque::new(),
            told: BTreeSet::new(),
            unanswered: BTreeMap::new(),
        };
        let mut world = Self {
            seed,
            random: mix::spread(seed),
            now: 1,
            events: BTreeMap::new(),
            count: 0,
            agents: (0..3).map(agent).collect(),
            booked: BTreeMap::new(),
            broker_down_until: 0,
            settings,
            storm: true,
        };
        for agent in 0..3 {
            world.after(0, Event::Start(agent));
            world.after(1, Event::Client(agent));
        }
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        mix::next(&mut self.random) % below
    }

    /// One of `of`, while there are faults.
    fn chance(&mut self, of: u64) -> bool {
        self.storm && self.draw(of) == 0
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.count += 1;
        self.events.insert((self.now + ms, self.count), event);
    }

    fn delay(&mut self) -> u64 {
        match self.draw(20) {
            0 if self.storm => self.draw(3_000),
            _ => self.draw(30),
        }
    }

    fn run(&mut self, until: u64) {
        while let Some(((ms, _), _)) = self.events.first_key_value()
            && *ms <= until
        {
            let Some(((ms, _), event)) = self.events.pop_first() else { break };
            self.now = self.now.max(ms);
            self.forget();
            self.handle(event);
            self.check();
        }
        self.now = until;
        self.forget();
    }

    /// What has run out is forgotten with its number, and by some brokers what was given back.
    fn forget(&mut self) {
        let (now, forgets) = (at(self.now), self.seed.is_multiple_of(5));
        self.booked.retain(|_, booked| booked.expires > now && (booked.has > 0 || !forgets));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ask(agent, ask) => self.broker(agent, ask),
            Event::Decision(agent, decision) => self.put(agent, Input::Decision(decision)),
            Event::Router(agent) => self.router(agent),
            Event::Client(agent) => self.client(agent),
            Event::Wake(agent) if self.agents[agent].wake == Some(self.now) => {
                self.agents[agent].wake = None;
                self.put(agent, Input::Tick);
            }
            Event::Wake(_) => {}
            Event::Lost(agent) => {
                self.agents[agent].connected = false;
                self.put(agent, Input::Lost);
                let away = self.draw(6_000);
                self.after(away, Event::Back(agent));
            }
            Event::Back(agent) => {
                self.agents[agent].connected = true;
                self.put(agent, Input::Back);
            }
            Event::Kill(agent) => self.kill(agent),
            Event::Start(agent) => self.start(agent),
            Event::BrokerDown(ms) => self.broker_down_until = self.now + ms,
        }
    }

    /// Books as much as is asked for, if it fits.
    fn broker(&mut self, agent: usize, ask: Ask) {
        if self.now < self.broker_down_until {
            return;
        }
        let key = (agent, ask.lease.clone());
        let others: u64 = self.booked.iter().filter(|(k, _)| **k != key).map(|(_, b)| b.has).sum();
        let last = self.booked.get(&key);
        let answer = match judge(last.map(|booked| booked.number), ask.number) {
            Judged::New => {
                let had = last.map_or(0, |booked| booked.has);
                let fits = ask.bps <= had || others + ask.bps <= CAPACITY;
                let refusal = || Refusal {
                    free_bps: (CAPACITY - others).saturating_sub(had),
                    ..Refusal::new(perhop_reason::Code::NoCapacity, "voice", ask.bps)
                };
                let answer = Decision {
                    lease: ask.lease.clone(),
                    number: ask.number,
                    has: if fits { ask.bps } else { had },
                    refused: (!fits).then(refusal),
                };
                // What is refused changes nothing: it lives no longer.
                let expires = match last {
                    Some(booked) if !fits => booked.expires,
                    _ => at(self.now) + ask.lifetime,
                };
                let booked = Booked { number: ask.number, has: answer.has, expires, answer: answer.clone() };
                self.booked.insert(key, booked);
                answer
            }
            Judged::Again | Judged::Stale => last.expect("a last one").answer.clone(),
        };
        if self.chance(10) {
            return;
        }
        let twice = if self.chance(10) { 2 } else { 1 };
        for _ in 0..twice {
            let delay = self.delay();
            self.after(delay, Event::Decision(agent, answer.clone()));
        }
    }

    fn router(&mut self, no: usize) {
        let agent = &mut self.agents[no];
        agent.busy = false;
        let Some((number, bps)) = agent.want.take() else { return };
        let refuses = bps > agent.in_force && (bps > ROUTER || self.chance(8));
        let agent = &mut self.agents[no];
        let class = "voice".to_owned();
        if refuses {
            let refusal = Refusal::new(perhop_reason::Code::NoCapacity, "voice", bps);
            self.put(no, Input::Refused(class, number, refusal));
        } else {
            (agent.in_force, agent.heard) = (bps, true);
            self.put(no, Input::Committed(class, number));
        }
        self.router_goes_on(no);
    }

    fn router_goes_on(&mut self, agent: usize) {
        if self.agents[agent].want.is_some() && !self.agents[agent].busy {
            self.agents[agent].busy = true;
            let delay = self.draw(100);
            self.after(delay, Event::Router(agent));
        }
    }

    fn client(&mut self, agent: usize) {
        if self.storm {
            let next = self.draw(250);
            self.after(next, Event::Client(agent));
        }
        if !self.storm || self.agents[agent].leases.is_none() {
            return;
        }
        match self.draw(12) {
            0 => self.after(0, Event::Lost(agent)),
            1 if self.draw(3) == 0 => self.after(0, Event::Kill(agent)),
            2 if self.draw(5) == 0 => {
                let ms = self.draw(5_000);
                self.after(0, Event::BrokerDown(ms));
            }
            3 | 4 => {
                let Some(ask) = self.agents[agent].asked.pop_front() else { return };
                let flow = ask.flow.clone();
                self.agents[agent].unanswered.retain(|(other, _), _| *other != flow);
                self.put(agent, Input::Release(flow));
            }
            5 | 6 => {
                let bps = 1 + self.draw(80);
                let again = self.draw(2);
                let Some(mut ask) = self.agents[agent].asked.pop_front() else { return };
                if again == 0 {
                    (ask.version, ask.bps) = (ask.version + 1, bps);
                }
                self.ask(agent, ask);
            }
            _ => {
                let ask = self.new_flow();
                self.ask(agent, ask);
            }
        }
    }

    fn new_flow(&mut self) -> FlowAsk {
        self.count += 1;
        FlowAsk {
            flow: FlowId { owner: "client".to_owned(), idem: format!("{:06}", self.count) },
            version: 1,
            class: "voice".to_owned(),
            to: (self.draw(3) == 0).then(|| "edge2".to_owned()),
            bps: 1 + self.draw(60),
            lifetime: Duration::from_millis(1_000 + self.draw(15_000)),
        }
    }

    fn ask(&mut self, agent: usize, ask: FlowAsk) {
        self.agents[agent].asked.push_back(ask.clone());
        self.agents[agent].unanswered.insert((ask.flow.clone(), ask.version), self.now);
        self.put(agent, Input::Flow(ask));
    }

    fn start(&mut self, no: usize) {
        let agent = &mut self.agents[no];
        let snapshot = Snapshot {
            leases: agent.disk.values().cloned().collect(),
            flows: agent.flows_on_disk.values().cloned().collect(),
        };
        let first = self.now * 1_000;
        agent.leases = Leases::restore(self.settings.clone(), first, at(self.now), snapshot).ok();
        assert!(agent.leases.is_some());
        self.drain(no);
        let until_back = self.draw(200);
        self.after(until_back, Event::Back(no));
    }

    fn kill(&mut self, no: usize) {
        let agent = &mut self.agents[no];
        if agent.leases.take().is_none() {
            return;
        }
        (agent.connected, agent.heard, agent.wake) = (false, false, None);
        agent.unanswered.clear();
        agent.told.clear();
        // The router may be about to do what it was told last.
        if let Some((_, bps)) = agent.want.take()
            && self.draw(2) == 0
        {
            let agent = &mut self.agents[no];
            if bps <= agent.in_force || bps <= ROUTER {
                agent.in_force = bps;
            }
        }
        let away = self.draw(3_000);
        self.after(away, Event::Start(no));
    }

    fn put(&mut self, no: usize, input: Input) {
        let Some(leases) = &mut self.agents[no].leases else { return };
        leases.handle_input(at(self.now), input);
        self.drain(no);
    }

    /// Rows first. The process may be killed before, between and after.
    fn drain(&mut self, no: usize) {
        if self.chance(400) {
            return self.kill(no);
        }
        let agent = &mut self.agents[no];
        let Some(leases) = &mut agent.leases else { return };
        for row in leases.take_rows() {
            match row {
                Row::Lease(row) => drop(agent.disk.insert(row.lease.clone(), row)),
                Row::LeaseGone(id) => drop(agent.disk.remove(&id)),
                Row::Flow(row) => drop(agent.flows_on_disk.insert(row.flow.clone(), row)),
                Row::FlowGone(id) => drop(agent.flows_on_disk.remove(&id)),
            }
        }
        while let Some(output) = self.agents[no].leases.as_mut().and_then(Leases::poll_output) {
            if self.chance(400) {
                return self.kill(no);
            }
            self.carry_out(no, output);
        }
        let agent = &mut self.agents[no];
        let has = |flow: &FlowId| agent.leases.as_ref().is_some_and(|leases| leases.flow(flow).is_some());
        assert!(agent.told.iter().all(has), "seed {}: {:?}", self.seed, agent.told);
        agent.told.clear();
        let wakeup = self.agents[no].leases.as_ref().and_then(Leases::next_wakeup);
        if let Some(wakeup) = wakeup {
            let ms = wakeup.0.div_ceil(1_000_000).max(self.now + 1);
            if self.agents[no].wake != Some(ms) {
                self.agents[no].wake = Some(ms);
                self.after(ms - self.now, Event::Wake(no));
            }
        }
    }

    fn carry_out(&mut self, no: usize, output: Output) {
        let agent = &mut self.agents[no];
        match output {
            Output::Ask(ask) => {
                let lost = self.chance(10);
                let times = if lost { 0 } else { 1 + u64::from(self.chance(10)) };
                for _ in 0..times {
                    let delay = self.delay();
                    self.after(delay, Event::Ask(no, ask.clone()));
                }
            }
            Output::Want { number, bps, .. } => {
                agent.want = Some((number, bps));
                self.router_goes_on(no);
            }
            Output::Answer { flow, version, result } => {
                agent.unanswered.remove(&(flow.clone(), version));
                let has = agent.leases.as_ref().and_then(|leases| leases.flow(&flow));
                if result.is_ok() {
                    agent.told.insert(flow);
                } else if has.is_none() {
                    agent.asked.retain(|ask| ask.flow != flow);
                }
            }
            Output::Ended(flow, _) => {
                agent.told.remove(&flow);
                agent.asked.retain(|ask| ask.flow != flow);
                agent.unanswered.retain(|(other, _), _| *other != flow);
            }
            Output::Released(_) => {}
        }
    }

    /// What always holds.
    fn check(&self) {
        let seed = self.seed;
        let sum: u64 = self.booked.values().map(|booked| booked.has).sum();
        assert!(sum <= CAPACITY, "seed {seed}: {sum} bit/s booked");
        for (no, agent) in self.agents.iter().enumerate() {
            let Some(leases) = &agent.leases else { continue };
            let (mut used, mut booked) = (0, 0);
            for (id, granted, usable, admitted) in leases.leases() {
                let has = self.booked.get(&(no, id.clone())).map_or(0, |booked| booked.has);
                assert!(admitted <= usable && usable <= granted, "seed {seed}, {} ms: {id:?}", self.now);
                assert!(granted <= has, "seed {seed}, {} ms: {id:?} {granted} of {has}", self.now);
                used += admitted;
            }
            for ((_, _), one) in self.booked.iter().filter(|((of, _), _)| *of == no) {
                booked += one.has;
            }
            let in_force = agent.in_force;
            assert!(used <= in_force, "seed {seed}, {} ms: {used} used of {in_force}", self.now);
            assert!(!agent.heard || in_force <= booked, "seed {seed}: {in_force} in force of {booked}");
            let patience = 1_500;
            let late = agent.unanswered.iter().find(|(_, since)| self.now > **since + patience);
            assert!(late.is_none(), "seed {seed}, {} ms: {late:?}", self.now);
        }
    }

    /// Nothing is left behind.
    fn calm(&mut self) {
        self.storm = false;
        self.broker_down_until = 0;
        self.run(STORM + CALM);
        let minimum = self.settings.classes["voice"].minimum;
        let mixed = self.settings.classes["voice"].model == Model::Mixed;
        for no in 0..self.agents.len() {
            let agent = &self.agents[no];
            let leases = agent.leases.as_ref().expect("it was started");
            let kept = leases.leases().map(|(id, granted, _, admitted)| {
                assert_eq!(admitted, 0, "seed {}: {id:?}", self.seed);
                assert!(id.to.is_none() || mixed, "seed {}: {id:?}", self.seed);
                granted
            });
            let kept: u64 = kept.sum();
            assert!(kept <= minimum * if mixed { 2 } else { 1 }, "seed {}: {kept}", self.seed);
            let booked = self.booked.iter().filter(|((of, _), _)| *of == no).map(|(_, b)| b.has);
            assert_eq!(booked.sum::<u64>(), kept, "seed {}", self.seed);
            assert_eq!((agent.in_force, agent.flows_on_disk.len()), (kept, 0), "seed {}", self.seed);
            // And it goes on.
            let ask = FlowAsk { bps: 5, lifetime: Duration::from_secs(9), ..self.new_flow() };
            self.ask(no, ask.clone());
            self.run(self.now + 1_000);
            let leases = self.agents[no].leases.as_ref().expect("it was started");
            assert_eq!(leases.flow(&ask.flow), Some(5), "seed {}", self.seed);
        }
    }
}

#[test]
fn nothing_is_sold_twice_and_nothing_leaks_whatever_fails() {
    let schedules = std::env::var("PERHOP_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for seed in 0..schedules {
        let mut world = World::new(seed);
        world.run(STORM);
        world.calm();
    }
}
