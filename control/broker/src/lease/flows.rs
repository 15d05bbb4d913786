//! Flows: asked for, waiting, admitted, gone.

use super::leases::{Flow, Leases, Timer, Wish};
use super::message::at;
use super::settings::Model;
use super::{End, FlowAsk, FlowId, LeaseId, Output, Refusal};
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};

impl Leases {
    /// A flow is new, changed, or renewed.
    pub(super) fn ask(&mut self, now: Instant, ask: FlowAsk) {
        let known = self.class_names.contains_key(&ask.class);
        let in_range = (1..=Rate::MOST.0).contains(&ask.bps) && ask.lifetime > Duration::ZERO;
        if !known || !in_range {
            self.refuse(&ask, if known { Code::OutOfRange } else { Code::BadReference });
            return;
        }
        if let Some(no) = self.flow_ids.get(&ask.flow).copied() {
            let flow = &self.flows[&no];
            let last = flow.wish.as_ref().map(|wish| wish.version).or(flow.version).unwrap_or(0);
            let (bps, lease) = flow.wish.as_ref().map_or((flow.bps, flow.lease), |w| (w.bps, w.lease));
            let lease = &self.leases[&lease].id;
            let same_place = (&lease.class, &lease.to) == (&ask.class, &ask.to);
            if ask.version < last {
                self.refuse(&ask, Code::StaleVersion);
            } else if !same_place || (ask.version == last && ask.bps != bps) {
                self.refuse(&ask, Code::TxnIdReused);
            } else if ask.version > last || flow.wish.is_none() {
                self.change(now, no, ask);
            }
            return;
        }
        if self.flows.len() >= self.settings.limits.flows {
            self.refuse(&ask, Code::LimitReached);
            return;
        }
        let Some(lease) = self.choose(&ask, None) else {
            self.refuse(&ask, Code::LimitReached);
            return;
        };
        self.last += 1;
        let flow = Flow {
            id: ask.flow.clone(),
            version: None,
            bps: 0,
            lease,
            lifetime: ask.lifetime,
            expires: Instant::FAR_FUTURE,
            wish: None,
            armed: None,
        };
        self.flows.insert(self.last, flow);
        self.flow_ids.insert(ask.flow.clone(), self.last);
        self.wait(now, self.last, lease, ask);
    }

    /// A flow asks for something else, or to live on.
    fn change(&mut self, now: Instant, no: u64, ask: FlowAsk) {
        let superseded = self.flows[&no].wish.is_some();
        if superseded {
            self.deny(now, no, &Refusal::new(Code::StaleVersion, &ask.class, 0));
        }
        let Some(flow) = self.flows.get_mut(&no) else {
            self.ask(now, ask);
            return;
        };
        if ask.bps > flow.bps {
            let lease = flow.lease;
            match self.choose(&ask, Some((lease, no))) {
                Some(lease) => self.wait(now, no, lease, ask),
                None => self.refuse(&ask, Code::LimitReached),
            }
            return;
        }
        if let Some(lease) = self.leases.get_mut(&flow.lease) {
            lease.admitted -= flow.bps - ask.bps;
            self.dirty.insert(flow.lease);
        }
        (flow.version, flow.bps, flow.lifetime) = (Some(ask.version), ask.bps, ask.lifetime);
        self.admitted(now, no, ask.version);
    }

    /// The lease that a flow goes into; it may be in one already.
    fn choose(&mut self, ask: &FlowAsk, now_in: Option<(u64, u64)>) -> Option<u64> {
        let of = |flow: Option<&FlowId>| LeaseId {
            class: ask.class.clone(),
            to: ask.to.clone(),
            flow: flow.cloned(),
        };
        let model = self.classes[*self.class_names.get(&ask.class)?].settings.model;
        let has = now_in.map_or(0, |(_, no)| self.flows[&no].bps);
        if let Some((lease, _)) = now_in {
            let held = &self.leases[&lease];
            let fits = model != Model::Mixed || ask.bps - has <= held.room();
            if held.id.flow.is_some() || fits {
                return Some(lease);
            }
        }
        let own = of(Some(&ask.flow));
        match model {
            Model::Outsourced => self.lease(&own),
            Model::Provisioned => self.lease(&of(None)),
            Model::Mixed => {
                let shared = self.lease(&of(None))?;
                self.dirty.insert(shared);
                let fits = now_in.is_none() && self.leases[&shared].room() >= ask.bps;
                if fits { Some(shared) } else { self.lease(&own) }
            }
        }
    }

    fn wait(&mut self, now: Instant, no: u64, lease: u64, ask: FlowAsk) {
        let Some(flow) = self.flows.get_mut(&no) else { return };
        let Some(held) = self.leases.get_mut(&lease) else { return };
        let deadline = now + self.settings.patience;
        let (version, bps, lifetime) = (ask.version, ask.bps, ask.lifetime);
        flow.wish = Some(Wish { version, bps, lease, lifetime, deadline });
        let extra = flow.extra();
        held.waiting.push_back(no);
        held.waiting_bps = held.waiting_bps.saturating_add(extra);
        held.least_waiting = held.least_waiting.min(extra);
        self.waiting += 1;
        self.dirty.insert(lease);
        self.arm_flow(no);
        if self.waiting > self.settings.limits.waiting && self.leases[&lease].room() < extra {
            self.deny(now, no, &Refusal::new(Code::Overload, &ask.class, 0));
        }
    }

    /// Admits who fits, those that came first before the others.
    pub(super) fn admit_waiting(&mut self, now: Instant, no: u64) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        if lease.waiting.is_empty() || lease.room() < lease.least_waiting {
            return;
        }
        lease.least_waiting = u64::MAX;
        for flow in lease.waiting.clone() {
            let extra = self.flows[&flow].extra();
            let Some(lease) = self.leases.get_mut(&no) else { return };
            if extra <= lease.room() {
                self.admit(now, flow);
            } else {
                lease.least_waiting = lease.least_waiting.min(extra);
            }
        }
    }

    fn admit(&mut self, now: Instant, no: u64) {
        let Some(wish) = self.no_longer_waits(no) else { return };
        let Some(flow) = self.flows.get_mut(&no) else { return };
        if let Some(old) = self.leases.get_mut(&flow.lease).filter(|_| flow.version.is_some()) {
            old.admitted -= flow.bps;
            old.flows.remove(&no);
            self.dirty.insert(flow.lease);
        }
        if let Some(lease) = self.leases.get_mut(&wish.lease) {
            lease.admitted += wish.bps;
            lease.flows.insert(no);
        }
        (flow.version, flow.bps, flow.lease) = (Some(wish.version), wish.bps, wish.lease);
        flow.lifetime = wish.lifetime;
        self.admitted(now, no, wish.version);
    }

    /// A flow has what this version asked for.
    fn admitted(&mut self, now: Instant, no: u64, version: u64) {
        let Some(flow) = self.flows.get_mut(&no) else { return };
        flow.expires = now + flow.lifetime;
        self.flow_rows.insert(flow.id.clone());
        let flow = flow.id.clone();
        self.outputs.push_back(Output::Answer { flow, version, result: Ok(()) });
        self.arm_flow(no);
    }

    /// A flow does not get what it waits for; what it has it keeps.
    pub(super) fn deny(&mut self, _now: Instant, no: u64, refusal: &Refusal) {
        let Some(wish) = self.no_longer_waits(no) else { return };
        let flow = &self.flows[&no];
        let refusal = Refusal { asked_bps: wish.bps, ..refusal.clone() };
        let answer = Output::Answer { flow: flow.id.clone(), version: wish.version, result: Err(refusal) };
        self.outputs.push_back(answer);
        if flow.version.is_none() {
            self.end(no, None);
        } else {
            self.arm_flow(no);
        }
    }

    pub(super) fn deny_all(&mut self, now: Instant, no: u64, refusal: &Refusal) {
        let waiting = self.leases.get(&no).map(|lease| lease.waiting.clone());
        for flow in waiting.into_iter().flatten() {
            self.deny(now, flow, refusal);
        }
    }

    fn no_longer_waits(&mut self, no: u64) -> Option<Wish> {
        let flow = self.flows.get_mut(&no)?;
        let extra = flow.extra();
        let wish = flow.wish.take()?;
        self.waiting -= 1;
        let lease = self.leases.get_mut(&wish.lease)?;
        if lease.waiting.front() == Some(&no) {
            lease.waiting.pop_front();
        } else {
            lease.waiting.retain(|waits| *waits != no);
        }
        lease.waiting_bps -= extra;
        if lease.waiting.is_empty() {
            lease.least_waiting = u64::MAX;
        }
        self.dirty.insert(wish.lease);
        Some(wish)
    }

    pub(super) fn release(&mut self, flow: FlowId) {
        if let Some(no) = self.flow_ids.get(&flow).copied() {
            self.end(no, None);
        }
        self.outputs.push_back(Output::Released(flow));
    }

    /// A flow is no more. `why` tells its client.
    pub(super) fn end(&mut self, no: u64, why: Option<End>) {
        self.no_longer_waits(no);
        let Some(flow) = self.flows.remove(&no) else { return };
        self.flow_ids.remove(&flow.id);
        if let Some(at) = flow.armed {
            self.timers.remove(&(at, Timer::Flow(no)));
        }
        if let Some(lease) = self.leases.get_mut(&flow.lease).filter(|_| flow.version.is_some()) {
            lease.admitted -= flow.bps;
            lease.flows.remove(&no);
            self.flow_rows.insert(flow.id.clone());
        }
        self.dirty.insert(flow.lease);
        if let Some(why) = why {
            self.outputs.push_back(Output::Ended(flow.id, why));
        }
    }

    pub(super) fn flow_is_due(&mut self, now: Instant, no: u64) {
        let Some(flow) = self.flows.get_mut(&no) else { return };
        flow.armed = None;
        let lapsed = flow.version.is_some() && flow.expires <= now;
        let class = self.leases.get(&flow.lease).map_or("", |lease| &lease.id.class);
        let refusal = Refusal::new(Code::Timeout, class, 0);
        if flow.wish.as_ref().is_some_and(|wish| wish.deadline <= now) {
            self.deny(now, no, &refusal);
        }
        if lapsed {
            self.end(no, Some(End::Expired));
        } else {
            self.arm_flow(no);
        }
    }

    pub(super) fn arm_flow(&mut self, no: u64) {
        let Some(flow) = self.flows.get_mut(&no) else { return };
        let expires = flow.version.map(|_| flow.expires);
        let next = at([expires, flow.wish.as_ref().map(|wish| wish.deadline)]);
        Self::arm(&mut self.timers, Timer::Flow(no), &mut flow.armed, next);
    }

    fn refuse(&mut self, ask: &FlowAsk, code: Code) {
        let result = Err(Refusal::new(code, &ask.class, ask.bps));
        let (flow, version) = (ask.flow.clone(), ask.version);
        self.outputs.push_back(Output::Answer { flow, version, result });
    }
}
