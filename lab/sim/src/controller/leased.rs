//! Local decision points beside routers: the very machine by which `perhop agent run` decides within leases.

use super::{Controller, Delivered, Due, State};
use perhop_broker::lease::{
    self, Ask, Decision, FlowAsk, FlowId, InRouter, Input, Judged, LeaseId, Leases, Output, Settings, judge,
};
use perhop_broker::ledger::{Granted, Refusal, Request, Reserve, Way};
use perhop_broker::record::{ReservationId, ReservationKind};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

/// A reservation that a local decision point has made: no ledger's.
const HERE: ReservationId = 0;

/// See the module.
pub(super) struct Holder {
    /// The node of its router in the scenario, and its name in the domain.
    router: usize,
    node: String,
    delay: Duration,
    leases: Leases,
    /// Whose request a flow is.
    flows: BTreeMap<FlowId, (usize, u32)>,
    /// What the controller was asked, and how often the router changed an allocation.
    asked: u64,
    changed: u64,
    /// By logical class: what was wanted with which number, and what the router has.
    wanted: BTreeMap<String, BTreeMap<u64, u64>>,
    has: BTreeMap<String, u64>,
    /// As the controller's database has it: the last question about each lease, its answer, and its reservation.
    decided: BTreeMap<LeaseId, (u64, Decision, Option<ReservationId>)>,
}

impl Holder {
    pub(super) fn new(
        router: usize,
        node: &str,
        delay: Duration,
        settings: Settings,
    ) -> Result<Self, String> {
        let leases = Leases::new(settings, 1, Instant::ZERO).map_err(|error| error.to_string())?;
        Ok(Self {
            router,
            node: node.to_owned(),
            delay,
            leases,
            flows: BTreeMap::new(),
            asked: 0,
            changed: 0,
            wanted: BTreeMap::new(),
            has: BTreeMap::new(),
            decided: BTreeMap::new(),
        })
    }

    pub(super) fn is_of(&self, router: usize) -> bool {
        self.router == router
    }

    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.leases.next_wakeup()
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("asked", self.asked), ("changed", self.changed)]
    }
}

impl Controller {
    pub(super) fn tell_holder(&mut self, now: Instant, holder: usize, input: Input) {
        let this = &mut self.holders[holder];
        this.leases.handle_input(now, input);
        this.leases.take_rows();
        while let Some(output) = self.holders[holder].leases.poll_output() {
            let this = &mut self.holders[holder];
            match output {
                Output::Ask(ask) => {
                    this.asked += 1;
                    let at = now + this.delay;
                    self.at(at, Due::LeaseAsk { holder, ask });
                }
                Output::Want { class, number, bps } => {
                    this.wanted.entry(class.clone()).or_default().insert(number, bps);
                    let router = this.router;
                    self.delivered.push(Delivered::Leased { router, class, number, bps });
                }
                Output::Answer { flow, result, .. } => {
                    let Some((asker, number)) = this.flows.get(&flow).copied() else { continue };
                    let result = result.map(|()| HERE).map_err(|refusal| Refusal {
                        link: refusal.link.clone(),
                        class: refusal.class.clone(),
                        asked_bps: refusal.asked_bps,
                        free_bps: refusal.free_bps,
                        ..Refusal::new(refusal.code, refusal.code.name())
                    });
                    self.answer(now, asker, number, result);
                }
                Output::Released(flow) => drop(this.flows.remove(&flow)),
                Output::Ended(flow, why) => {
                    let Some((asker, number)) = this.flows.remove(&flow) else { continue };
                    let asker = &mut self.askers[asker];
                    if asker.held.remove(&number).is_some() {
                        asker.ended += 1;
                        asker.say(now, number, &format!("is gone: {why:?}"));
                    }
                }
            }
        }
    }

    /// Something became in a router of what was wanted there.
    pub(crate) fn in_router(&mut self, now: Instant, router: usize, told: InRouter) {
        let Some(holder) = self.holders.iter().position(|holder| holder.is_of(router)) else { return };
        let this = &mut self.holders[holder];
        let wanted = this.wanted.entry(told.class.clone()).or_default();
        if let (Some(bps), None) = (wanted.get(&told.number).copied(), &told.refused) {
            *wanted = wanted.split_off(&told.number);
            let before = this.has.insert(told.class.clone(), bps).unwrap_or(0);
            this.changed += u64::from(before != bps);
        }
        self.tell_holder(now, holder, told.into());
    }

    /// A request that is decided beside the router where it enters.
    pub(super) fn ask_holder(&mut self, now: Instant, asker: usize, number: u32) {
        let what = &self.askers[asker].what;
        let flow = FlowId { owner: what.name.clone(), idem: number.to_string() };
        let ask = FlowAsk {
            flow: flow.clone(),
            version: 1,
            class: what.class.clone(),
            to: Some(self.name_of(what.to)),
            bps: what.rate.0,
            lifetime: what.lifetime.unwrap_or(Duration::from_secs(600)),
        };
        let from = what.from.0;
        let Some(holder) = self.holders.iter().position(|holder| holder.is_of(from)) else { return };
        self.holders[holder].flows.insert(flow, (asker, number));
        self.tell_holder(now, holder, Input::Flow(ask));
    }

    /// Gives one back.
    pub(super) fn release_to_holder(&mut self, now: Instant, asker: usize, number: u32) {
        let what = &self.askers[asker].what;
        let (flow, from) = (FlowId { owner: what.name.clone(), idem: number.to_string() }, what.from.0);
        if let Some(holder) = self.holders.iter().position(|holder| holder.is_of(from)) {
            self.tell_holder(now, holder, Input::Release(flow));
        }
    }

    /// A question about a lease has reached the controller.
    pub(super) fn lease_asked(&mut self, now: Instant, holder: usize, ask: Ask) {
        if matches!(self.state, State::Away(_)) {
            return;
        }
        self.requests += 1;
        let last = self.holders[holder].decided.get(&ask.lease).cloned();
        let decision = match (judge(last.as_ref().map(|(number, ..)| *number), ask.number), last) {
            (Judged::Again | Judged::Stale, Some((_, decision, _))) => decision,
            (_, last) => self.decide_lease(now, holder, &ask, last),
        };
        let at = now + self.holders[holder].delay;
        self.at(at, Due::LeaseHas { holder, decision });
    }

    fn decide_lease(
        &mut self,
        now: Instant,
        holder: usize,
        ask: &Ask,
        last: Option<(u64, Decision, Option<ReservationId>)>,
    ) -> Decision {
        let node = self.holders[holder].node.clone();
        let (had, id) = last.map_or((0, None), |(_, decision, id)| (decision.has, id));
        let lifetime_ms = Some(ask.lifetime.0 / 1_000_000);
        let request = match (id, ask.bps) {
            (None, 0) => None,
            (Some(id), 0) => Some(Request::Release { id }),
            (Some(id), bps) => {
                Some(Request::Change { id, bps: Some(bps), back_bps: None, lifetime_ms, flow: None })
            }
            (None, bps) => {
                let to = ask.lease.to.clone().unwrap_or_default();
                let way = Way::Between { from: node.clone(), to };
                let flow = ask.lease.flow.as_ref().map(|flow| format!("/{}/{}", flow.owner, flow.idem));
                let key = format!("{}/{:?}{}", ask.lease.class, ask.lease.to, flow.unwrap_or_default());
                Some(Request::Reserve(Box::new(Reserve {
                    kind: ReservationKind::Lease,
                    lifetime_ms,
                    ..Reserve::new(key, way, ask.lease.class.clone(), bps)
                })))
            }
        };
        let answer = request.map(|request| self.ask_now(now, node, request));
        let (has, id, refused) = match answer {
            None | Some(Ok(Granted::Released(_) | Granted::Taken)) => (0, None, None),
            Some(Ok(Granted::Held(held))) => (held.bps, Some(held.id), None),
            Some(Err(refusal)) => {
                let beyond = if refusal.code == Code::Quota { 0 } else { had };
                let refused = lease::Refusal {
                    code: refusal.code,
                    link: refusal.link,
                    class: refusal.class,
                    asked_bps: ask.bps,
                    free_bps: refusal.free_bps.saturating_sub(beyond),
                };
                (had, id, Some(refused))
            }
        };
        let decision = Decision { lease: ask.lease.clone(), number: ask.number, has, refused };
        let decided = &mut self.holders[holder].decided;
        match id {
            None => drop(decided.remove(&ask.lease)),
            id => drop(decided.insert(ask.lease.clone(), (ask.number, decision.clone(), id))),
        }
        decision
    }

    /// The ledger has taken a lease back, but for so much.
    pub(super) fn lease_taken(&mut self, now: Instant, id: ReservationId, bps: u64) {
        for holder in 0..self.holders.len() {
            let this = &mut self.holders[holder];
            let found = this.decided.iter_mut().find(|(_, (_, _, of))| *of == Some(id));
            let Some((lease, (number, decision, _))) = found else { continue };
            decision.has = bps;
            let (lease, number, delay) = (lease.clone(), *number, this.delay);
            if bps == 0 {
                this.decided.remove(&lease);
            }
            let decision = Decision { lease, number, has: bps, refused: None };
            self.at(now + delay, Due::LeaseReduced { holder, decision });
        }
    }
}
