//! Chains of domains: what is said where, and random schedules with messages that are lost, late and doubled, outages, and
//! brokers that are killed between any two steps. `PERHOP_SCHEDULES` says how many.

use super::deal::Why;
use super::*;
use crate::lease::{self, ClassSettings, Decision, End, FlowId, FlowRow, LeaseId, LeaseRow, Leases, Refusal};
use perhop_reason::Code;
use perhop_units::{Duration, Instant, mix};
use std::collections::BTreeMap;

/// What may be debited of a link between domains, and at an edge.
const LINK: u64 = 1_000;
const EDGE: u64 = 700;
const STORM: u64 = 10_000;
/// No message is later, ms.
const LATE: u64 = 3_000;

#[derive(Debug)]
enum Event {
    /// To a domain, by a neighbour.
    Message(usize, usize, Envelope),
    /// A domain's ledger answers.
    Debited(usize, u64, DealId, u64, Result<(), Refusal>),
    Wake(usize),
    Lost(usize, usize),
    Back(usize, usize),
    Kill(usize),
    Start(usize),
    Client(usize),
}

#[derive(Default)]
struct Domain {
    peers: Option<Peers>,
    /// How often it has begun.
    life: u64,
    deals: BTreeMap<DealId, DealRow>,
    leases: BTreeMap<(Stage, LeaseId), LeaseRow>,
    flows: BTreeMap<(Stage, FlowId), FlowRow>,
    /// What is debited, and where it counts.
    ledger: BTreeMap<DealId, (String, u64)>,
    wake: Option<u64>,
    asked: Vec<FlowAsk>,
    answers: BTreeMap<(FlowId, u64), Result<(), Refusal>>,
    ended: Vec<(FlowId, End)>,
    sent: Vec<Envelope>,
}

struct Chain {
    seed: u64,
    random: u64,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    domains: Vec<Domain>,
    edge: u64,
    faults: bool,
    /// Leases of which the giver has lost what they rest on, and the holder may not have heard yet: giver and deal, and until when
    /// a decision of before may still be on its way.
    reduced: BTreeMap<(usize, DealId), u64>,
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn name(domain: usize) -> String {
    format!("d{domain}")
}

fn number(name: &str) -> usize {
    name.trim_start_matches(['d', 'e']).parse().expect("a domain")
}

impl Chain {
    fn new(domains: usize, seed: u64) -> Self {
        let mut chain = Self {
            seed,
            random: mix::spread(seed),
            now: 1,
            events: BTreeMap::new(),
            count: 0,
            domains: (0..domains).map(|_| Domain::default()).collect(),
            edge: EDGE,
            faults: false,
            reduced: BTreeMap::new(),
        };
        (0..domains).for_each(|domain| chain.start(domain));
        chain.run(2);
        chain
    }

    fn settings(&self, domain: usize) -> Settings {
        let class = ClassSettings { chunk: 100, high_water: 150, low_water: 50, ..ClassSettings::default() };
        let mut lease = lease::Settings::new(BTreeMap::from([("voice".to_owned(), class)]));
        (lease.lifetime, lease.margin) = (Duration::from_secs(4), Duration::from_millis(500));
        let others = (0..self.domains.len()).filter(|other| *other != domain);
        let by = |other: usize| name(if other > domain { domain + 1 } else { domain - 1 });
        let routes = others.map(|other| (name(other), by(other))).collect();
        let next = [domain.wrapping_sub(1), domain + 1].into_iter().filter(|no| *no < self.domains.len());
        let leases = next.map(|no| (name(no), lease.clone())).collect();
        Settings { domain: name(domain), routes, leases, most_deals: 10_000 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        mix::next(&mut self.random) % below
    }

    fn chance(&mut self, of: u64) -> bool {
        self.faults && self.draw(of) == 0
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.count += 1;
        self.events.insert((self.now + ms, self.count), event);
    }

    fn run(&mut self, until: u64) {
        while let Some(((ms, _), _)) = self.events.first_key_value()
            && *ms <= until
        {
            let Some(((ms, _), event)) = self.events.pop_first() else { break };
            self.now = self.now.max(ms);
            self.handle(event);
            self.check();
        }
        self.now = until;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Message(to, via, envelope) => self.put(to, Input::Message(name(via), envelope)),
            Event::Debited(domain, life, deal, number, result) => {
                if self.domains[domain].life == life {
                    self.put(domain, Input::Debited(deal, number, result));
                }
            }
            Event::Wake(domain) => {
                if self.domains[domain].wake == Some(self.now) {
                    self.domains[domain].wake = None;
                    self.put(domain, Input::Tick);
                }
            }
            Event::Lost(domain, neighbour) => {
                self.put(domain, Input::Lost(name(neighbour)));
                let away = self.draw(6_000);
                self.after(away, Event::Back(domain, neighbour));
            }
            Event::Back(domain, neighbour) => self.put(domain, Input::Back(name(neighbour))),
            Event::Kill(domain) => self.kill(domain),
            Event::Start(domain) => self.start(domain),
            Event::Client(domain) => self.client(domain),
        }
    }

    fn start(&mut self, no: usize) {
        let settings = self.settings(no);
        let domain = &mut self.domains[no];
        domain.life += 1;
        let mut snapshot =
            Snapshot { deals: domain.deals.values().cloned().collect(), ..Snapshot::default() };
        for ((stage, _), row) in &domain.leases {
            snapshot.held.entry(stage.clone()).or_default().leases.push(row.clone());
        }
        for ((stage, _), row) in &domain.flows {
            snapshot.held.entry(stage.clone()).or_default().flows.push(row.clone());
        }
        domain.peers = Peers::restore(settings, self.now * 1_000, at(self.now), snapshot).ok();
        assert!(domain.peers.is_some());
        self.drain(no);
        for neighbour in [no.wrapping_sub(1), no + 1] {
            if neighbour < self.domains.len() {
                self.after(1, Event::Back(no, neighbour));
            }
        }
    }

    fn kill(&mut self, no: usize) {
        let domain = &mut self.domains[no];
        if domain.peers.take().is_some() {
            domain.life += 1;
            domain.wake = None;
            let away = self.draw(3_000);
            self.after(away, Event::Start(no));
        }
    }

    fn client(&mut self, no: usize) {
        if !self.faults {
            return;
        }
        let next = self.draw(250);
        self.after(next, Event::Client(no));
        let last = self.domains.len() - 1;
        let draw = self.draw(20);
        let pick = self.draw(1_000) as usize;
        let asked = &mut self.domains[no].asked;
        let pick = (!asked.is_empty()).then(|| pick % asked.len());
        match (draw, pick) {
            (0, _) => self.after(0, Event::Kill(no)),
            (1, _) => self.after(0, Event::Lost(no, if no == last { no - 1 } else { no + 1 })),
            (2..6, Some(pick)) => {
                let flow = asked.remove(pick).flow;
                self.put(no, Input::Release(flow));
            }
            (6..9, Some(pick)) => {
                let mut ask = asked[pick].clone();
                if draw == 6 {
                    (ask.version, ask.bps) = (ask.version + 1, 1 + self.draw(60));
                }
                self.domains[no].asked[pick] = ask.clone();
                self.put(no, Input::Flow(ask));
            }
            (9, _) => self.take_back(no),
            _ => {
                let to = if no == last { 0 } else { last };
                let bps = 1 + self.draw(60);
                let lifetime = Duration::from_millis(1_000 + self.draw(10_000));
                self.ask(no, to, bps, lifetime);
            }
        }
    }

    /// The ledger takes an account back, or a part of it, as for something more important.
    fn take_back(&mut self, no: usize) {
        let pick = self.draw(1_000) as usize;
        let ledger = &self.domains[no].ledger;
        let Some((deal, (place, bps))) = ledger.iter().nth(pick % ledger.len().max(1)) else { return };
        let (deal, place, left) =
            (deal.clone(), place.clone(), if pick.is_multiple_of(3) { bps / 2 } else { 0 });
        match left {
            0 => drop(self.domains[no].ledger.remove(&deal)),
            left => drop(self.domains[no].ledger.insert(deal.clone(), (place, left))),
        }
        self.put(no, Input::Taken(deal, left));
    }

    fn ask(&mut self, from: usize, to: usize, bps: u64, lifetime: Duration) -> FlowId {
        self.count += 1;
        let flow = FlowId { owner: "client".to_owned(), idem: format!("{from}-{:06}", self.count) };
        let ask = FlowAsk {
            flow: flow.clone(),
            version: 1,
            class: "voice".to_owned(),
            from: format!("e{from}"),
            domain: name(to),
            edge: format!("e{to}"),
            bps,
            lifetime,
        };
        self.domains[from].asked.push(ask.clone());
        self.put(from, Input::Flow(ask));
        flow
    }

    fn put(&mut self, no: usize, input: Input) {
        let Some(peers) = &mut self.domains[no].peers else { return };
        peers.handle_input(at(self.now), input);
        self.drain(no);
    }

    fn drain(&mut self, no: usize) {
        if self.chance(400) {
            return self.kill(no);
        }
        let domain = &mut self.domains[no];
        let Some(peers) = &mut domain.peers else { return };
        for row in peers.take_rows() {
            match row {
                Row::Deal(row) => {
                    let now = peers.deals.values().find(|deal| deal.id == row.deal);
                    let why = now.and_then(|deal| Some(deal.doing.as_ref()?.why));
                    if matches!(why, Some(Why::Ended(End::LeaseExpired | End::Preempted))) {
                        self.reduced.insert((no, row.deal.clone()), self.now + LATE);
                    }
                    domain.deals.insert(row.deal.clone(), row);
                }
                Row::DealGone(id) => drop(domain.deals.remove(&id)),
                Row::Held(at, lease::Row::Lease(row)) => {
                    domain.leases.insert((at, row.lease.clone()), row);
                }
                Row::Held(at, lease::Row::LeaseGone(id)) => drop(domain.leases.remove(&(at, id))),
                Row::Held(at, lease::Row::Flow(row)) => {
                    domain.flows.insert((at, row.flow.clone()), row);
                }
                Row::Held(at, lease::Row::FlowGone(id)) => drop(domain.flows.remove(&(at, id))),
            }
        }
        while let Some(output) = self.domains[no].peers.as_mut().and_then(Peers::poll_output) {
            if self.chance(400) {
                return self.kill(no);
            }
            self.carry_out(no, output);
        }
        if let Some(wakeup) = self.domains[no].peers.as_ref().and_then(Peers::next_wakeup) {
            let ms = wakeup.0.div_ceil(1_000_000).max(self.now + 1);
            if self.domains[no].wake != Some(ms) {
                self.domains[no].wake = Some(ms);
                self.after(ms - self.now, Event::Wake(no));
            }
        }
    }

    fn carry_out(&mut self, no: usize, output: Output) {
        let domain = &mut self.domains[no];
        match output {
            Output::Send(neighbour, envelope) => {
                domain.sent.push(envelope.clone());
                let lost = self.chance(12);
                let times = if lost { 0 } else { 1 + u64::from(self.chance(12)) };
                for _ in 0..times {
                    let late = self.chance(20);
                    let delay = if late { self.draw(LATE) } else { 1 + self.draw(10) };
                    self.after(delay, Event::Message(number(&neighbour), no, envelope.clone()));
                }
            }
            Output::Debit { account, number, bps, lifetime: _ } => {
                let result = self.debit(no, &account, bps);
                let life = self.domains[no].life;
                let delay = self.draw(5);
                self.after(delay, Event::Debited(no, life, account.deal, number, result));
            }
            Output::Answer { flow, version, result } => {
                if result.is_err() && version == 1 {
                    domain.asked.retain(|ask| ask.flow != flow);
                }
                domain.answers.insert((flow, version), result);
            }
            Output::Renew { .. } => {}
            Output::Released(flow) => domain.asked.retain(|ask| ask.flow != flow),
            Output::Ended(flow, why) => {
                domain.asked.retain(|ask| ask.flow != flow);
                domain.ended.push((flow, why));
            }
        }
    }

    /// The ledger: it is there also when the broker is killed.
    fn debit(&mut self, no: usize, account: &Account, bps: u64) -> Result<(), Refusal> {
        let place = account.leave.clone().unwrap_or_else(|| format!("from {}", account.enter));
        let most = if place.starts_with('e') { self.edge } else { LINK };
        let ledger = &mut self.domains[no].ledger;
        let others: u64 = ledger
            .iter()
            .filter(|(deal, (at, _))| **deal != account.deal && *at == place)
            .map(|(_, (_, bps))| bps)
            .sum();
        let had = ledger.get(&account.deal).map_or(0, |(_, bps)| *bps);
        if bps > had && others + bps > most {
            let free_bps = (most - others).saturating_sub(had);
            return Err(Refusal { link: place, free_bps, ..Refusal::new(Code::NoCapacity, "voice", bps) });
        }
        match bps {
            0 => drop(ledger.remove(&account.deal)),
            _ => drop(ledger.insert(account.deal.clone(), (place, bps))),
        }
        Ok(())
    }

    /// What a domain has agreed to.
    fn agreed(&self, no: usize, deal: &DealId) -> u64 {
        let domain = &self.domains[no];
        match &domain.peers {
            Some(peers) => peers.deals().find(|(id, _)| *id == deal).map_or(0, |(_, has)| has),
            None => domain.deals.get(deal).map_or(0, |row| row.bps),
        }
    }

    fn check(&mut self) {
        let (seed, now) = (self.seed, self.now);
        let mut heard = self.reduced.clone();
        heard.retain(|(_, deal), until| {
            *until < now
                && matches!(deal, DealId::Lease(holder, _) if self.domains[number(holder)].peers.is_some())
        });
        for (no, domain) in self.domains.iter().enumerate() {
            let mut booked: BTreeMap<&str, u64> = BTreeMap::new();
            for (place, bps) in domain.ledger.values() {
                *booked.entry(place).or_default() += bps;
            }
            let most = |place: &str| if place.starts_with('e') { EDGE } else { LINK };
            assert!(booked.iter().all(|(place, bps)| *bps <= most(place)), "seed {seed}: {booked:?}");
            let Some(peers) = &domain.peers else { continue };
            for deal in peers.deals.values() {
                let debited = domain.ledger.get(&deal.id).map_or(0, |(_, bps)| *bps);
                let kept = deal.has <= debited || deal.lost;
                assert!(kept, "seed {seed}, {now} ms, {no}: {deal:?} of {debited}");
                let single = matches!(&deal.id, DealId::Lease(_, lease) if lease.flow.is_some());
                assert!(!single || deal.leave == Some(format!("e{no}")), "{deal:?} knows a flow in between");
                for (stage, _) in deal.stages.iter().filter(|_| !deal.lost) {
                    let has = peers.held[stage].flow(&deal.flow()).unwrap_or(0);
                    assert!(deal.has <= has, "seed {seed}, {now} ms, {no}: {deal:?} of {has} at {stage:?}");
                }
            }
            for (stage, leases) in peers.held() {
                let (Stage::Neighbour(to) | Stage::Last(to)) = stage;
                for (lease, granted, ..) in Leases::leases(leases) {
                    let deal = DealId::Lease(name(no), lease.clone());
                    let agreed = self.agreed(number(to), &deal);
                    let giver = (number(to), deal);
                    if granted > agreed {
                        heard.remove(&giver);
                    }
                    assert!(
                        granted <= agreed || self.reduced.contains_key(&giver),
                        "seed {seed}, {now} ms: {no} has {granted} of {agreed}, {lease:?}"
                    );
                }
            }
        }
        self.reduced.retain(|giver, _| !heard.contains_key(giver));
    }

    fn assert_nothing_is_left(&self) {
        for (no, domain) in self.domains.iter().enumerate() {
            let peers = domain.peers.as_ref().expect("it was started");
            let place = format!("seed {}, domain {no} of {}", self.seed, self.domains.len());
            assert_eq!(peers.deals().collect::<Vec<_>>(), [], "{place}");
            assert_eq!(peers.held().flat_map(|(_, held)| held.leases()).count(), 0, "{place}");
            assert!(domain.ledger.is_empty(), "{place}: {:?}", domain.ledger);
            assert!(
                domain.deals.is_empty() && domain.leases.is_empty() && domain.flows.is_empty(),
                "{place}"
            );
        }
    }

    fn clear(&mut self) {
        self.domains.iter_mut().for_each(|domain| domain.sent.clear());
    }

    /// Questions that a domain has sent, or passed on.
    fn questions(&self, no: usize) -> Vec<(&str, &str, u64)> {
        let ask = |envelope: &'_ Envelope| match &envelope.body {
            Body::Ask(ask) => Some(ask.bps),
            _ => None,
        };
        let sent = &self.domains[no].sent;
        sent.iter().filter_map(|e| Some((e.from.as_str(), e.to.as_str(), ask(e)?))).collect()
    }
}

#[test]
fn a_flow_over_a_chain_asks_for_aggregates_once_and_the_last_domain_each_time() {
    let long = Duration::from_secs(100);
    for domains in [2, 3, 5] {
        let last = domains - 1;
        let mut chain = Chain::new(domains, 1);
        let first = chain.ask(0, last, 30, long);
        chain.run(chain.now + 300);
        assert_eq!(chain.domains[0].answers[&(first, 1)], Ok(()));
        let to = name(last);
        assert_eq!(chain.questions(0), [("d0", "d1", 100), ("d0", to.as_str(), 30)], "{domains} domains");
        for no in 1..last {
            let (own, next) = (name(no), name(no + 1));
            let expected = [(own.as_str(), next.as_str(), 100), ("d0", to.as_str(), 30)];
            assert_eq!(chain.questions(no), expected);
        }
        chain.clear();
        let second = chain.ask(0, last, 30, long);
        chain.run(chain.now + 300);
        assert_eq!(chain.domains[0].answers[&(second.clone(), 1)], Ok(()));
        assert_eq!(chain.questions(0), [("d0", to.as_str(), 30)]);
        (1..last).for_each(|no| assert_eq!(chain.questions(no), [("d0", to.as_str(), 30)]));
        chain.put(0, Input::Release(second));
        chain.run(chain.now + 120_000);
        assert_eq!(chain.domains[0].ended.len(), 1, "the first has run out");
        chain.assert_nothing_is_left();
    }
}

#[test]
fn a_full_edge_of_the_last_domain_refuses_the_flow_and_all_is_credited_back() {
    let mut chain = Chain::new(3, 1);
    chain.edge = 50;
    let long = Duration::from_secs(1_000);
    let flows = [chain.ask(0, 2, 30, long), {
        chain.run(300);
        chain.ask(0, 2, 30, long)
    }];
    chain.run(600);
    assert_eq!(chain.domains[0].answers[&(flows[0].clone(), 1)], Ok(()));
    let refusal = chain.domains[0].answers[&(flows[1].clone(), 1)].clone().expect_err("it does not fit");
    assert_eq!((refusal.code, refusal.link.as_str(), refusal.free_bps), (Code::PeerRefused, "d2/e2", 20));
    let booked: u64 = chain.domains[0].ledger.values().map(|(_, bps)| *bps).sum();
    assert_eq!(booked, 30);
    chain.put(0, Input::Release(flows[0].clone()));
    chain.run(20_000);
    chain.assert_nothing_is_left();
}

#[test]
fn a_domain_that_does_not_answer_refuses_by_time_out_and_what_it_grants_late_is_given_back() {
    let mut chain = Chain::new(3, 1);
    // What the second has to say comes late.
    let ask = |chain: &mut Chain| chain.ask(0, 2, 30, Duration::from_secs(1_000));
    let flow = ask(&mut chain);
    chain.run(4);
    let (late, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut chain.events)
        .into_iter()
        .partition(|(_, event)| matches!(event, Event::Message(..)));
    chain.events = rest.into_iter().collect();
    chain.events.extend(late.into_iter().map(|((ms, no), event)| ((ms + 700, no), event)));
    let back = chain.now;
    while chain.now < back + 690 {
        chain.run(chain.now + 1);
        chain.events.retain(|(ms, _), event| !matches!(event, Event::Message(..)) || *ms > back + 690);
    }
    let refusal = chain.domains[0].answers[&(flow, 1)].clone().expect_err("too late");
    assert_eq!(refusal.code, Code::Timeout);
    assert!(chain.domains[0].ledger.is_empty(), "credited back");
    chain.run(20_000);
    chain.assert_nothing_is_left();
}

#[test]
fn what_leads_nowhere_or_is_not_a_neighbours_business_is_refused() {
    let mut chain = Chain::new(2, 1);
    let flow = FlowId { owner: "client".to_owned(), idem: "1".to_owned() };
    let ask = FlowAsk {
        flow: flow.clone(),
        version: 1,
        class: "voice".to_owned(),
        from: "e0".to_owned(),
        domain: "d7".to_owned(),
        edge: "e7".to_owned(),
        bps: 1,
        lifetime: Duration::from_secs(1),
    };
    chain.put(0, Input::Flow(ask));
    assert_eq!(chain.domains[0].answers[&(flow, 1)].as_ref().map_err(|r| r.code), Err(Code::NoPath));
    chain.clear();
    let mut tell = |from: &str, to: &str, lease_to: &str| {
        let lease = LeaseId { class: "voice".to_owned(), to: Some(lease_to.to_owned()), flow: None };
        let body = Body::Ask(lease::Ask { lease, number: 1, bps: 10, lifetime: Duration::from_secs(1) });
        let envelope = Envelope { from: from.to_owned(), to: to.to_owned(), hops: 3, body };
        chain.put(0, Input::Message("d1".to_owned(), envelope));
        let answer = chain.domains[0].sent.pop().map(|envelope| envelope.body);
        chain.domains[0].sent.clear();
        match answer {
            Some(Body::Decision(Decision { refused, has: 0, .. })) => refused.map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(tell("d1", "d0", "d9"), Some(Code::NoPath));
    assert_eq!(tell("d1", "d0", "d1"), Some(Code::NoPath), "back where it came from");
    assert_eq!(tell("d1", "d9", "d9"), Some(Code::NoPath));
    assert_eq!(tell("d1", "d1", "d1"), Some(Code::NoPath), "it went in a circle");
}

#[test]
fn what_the_ledger_takes_back_is_taken_back_from_who_holds_it_and_given_up_behind() {
    let mut chain = Chain::new(3, 1);
    let flow = chain.ask(0, 2, 30, Duration::from_secs(1_000));
    chain.run(300);
    assert_eq!(chain.domains[0].answers[&(flow.clone(), 1)], Ok(()));
    let aggregate = chain.domains[1].ledger.keys().next().expect("of the first at the second").clone();
    chain.domains[1].ledger.remove(&aggregate);
    chain.put(1, Input::Taken(aggregate, 0));
    chain.run(600);
    assert_eq!(chain.domains[0].ended, [(flow, End::LeaseExpired)], "its aggregate is gone");
    let own = chain.ask(0, 2, 30, Duration::from_secs(1_000));
    chain.run(900);
    chain.domains[0].ledger.remove(&DealId::Flow(own.clone()));
    chain.put(0, Input::Taken(DealId::Flow(own.clone()), 0));
    chain.run(910);
    assert_eq!(chain.domains[0].ended.last(), Some(&(own, End::Preempted)));
    chain.run(60_000);
    chain.assert_nothing_is_left();
}

#[test]
fn no_chain_sells_twice_or_keeps_anything_whatever_fails() {
    let schedules = std::env::var("PERHOP_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(15);
    for seed in 0..schedules {
        let domains = [2, 3, 5][(seed % 3) as usize];
        let mut chain = Chain::new(domains, seed);
        chain.faults = true;
        for domain in 0..domains {
            chain.after(1, Event::Client(domain));
        }
        chain.run(STORM);
        chain.faults = false;
        chain.run(STORM + 60_000);
        chain.assert_nothing_is_left();
        let flow = chain.ask(0, domains - 1, 10, Duration::from_secs(9));
        chain.run(chain.now + 500);
        assert_eq!(chain.domains[0].answers.get(&(flow, 1)), Some(&Ok(())), "seed {seed}: it goes on");
    }
}
