//! The machine: leases, and what happens to them by [`super::states`].

use super::held::{Attempt, Lease, Open, RETRY};
use super::states::{Action, Event, State, step};
use super::{Ask, ClassSettings, Decision, End, FlowId, Input, LeaseId, Output, Refusal, Settings};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Flow(u64),
    Lease(u64),
    Class(usize),
}

/// What a flow waits for.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) version: u64,
    pub(super) bps: u64,
    pub(super) lease: u64,
    pub(super) lifetime: Duration,
    pub(super) deadline: Instant,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    /// The version that was admitted; none before the first was.
    pub(super) version: Option<u64>,
    /// What it has, and of which lease.
    pub(super) bps: u64,
    pub(super) lease: u64,
    pub(super) lifetime: Duration,
    pub(super) expires: Instant,
    pub(super) wish: Option<Wish>,
    pub(super) armed: Option<Instant>,
}

impl Flow {
    /// What its wish takes of a lease beyond what it has of it.
    pub(super) fn extra(&self) -> u64 {
        self.wish
            .as_ref()
            .map_or(0, |wish| wish.bps.saturating_sub(if wish.lease == self.lease { self.bps } else { 0 }))
    }
}

/// A class of the router.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) settings: ClassSettings,
    /// Sum of the targets of its leases, and what the router was told last.
    pub(super) sum: u64,
    pub(super) wanted: u64,
    pub(super) number: u64,
    /// The last number that the router has.
    pub(super) committed: u64,
    /// Leases whose target has changed since the router was told.
    pub(super) changed: BTreeSet<u64>,
    /// Leases whose target the router has not answered, by the number that has it.
    pub(super) pending: BTreeSet<(u64, u64)>,
    /// It is told again, or it is then.
    pub(super) again: bool,
    pub(super) retry_at: Option<Instant>,
}

/// See the module.
#[derive(Debug)]
pub struct Leases {
    pub(super) settings: Settings,
    pub(super) classes: Vec<Class>,
    pub(super) class_names: BTreeMap<String, usize>,
    pub(super) leases: BTreeMap<u64, Lease>,
    pub(super) lease_ids: BTreeMap<LeaseId, u64>,
    pub(super) flows: BTreeMap<u64, Flow>,
    pub(super) flow_ids: BTreeMap<FlowId, u64>,
    pub(super) waiting: usize,
    /// The broker can be reached.
    pub(super) is_here: bool,
    /// The last number of a question, and of a flow or lease of this process.
    pub(super) number: u64,
    pub(super) last: u64,
    pub(super) timers: BTreeSet<(Instant, Timer)>,
    /// Leases, and classes, to be looked at before the input is done.
    pub(super) dirty: BTreeSet<u64>,
    pub(super) dirty_classes: BTreeSet<usize>,
    /// Rows that have changed.
    pub(super) lease_rows: BTreeSet<LeaseId>,
    pub(super) flow_rows: BTreeSet<FlowId>,
    pub(super) outputs: VecDeque<Output>,
}

impl Leases {
    pub(super) fn empty(settings: Settings, first: u64) -> Self {
        let classes = settings.classes.iter().map(|(name, settings)| Class {
            name: name.clone(),
            settings: *settings,
            sum: 0,
            wanted: 0,
            number: 0,
            committed: 0,
            changed: BTreeSet::new(),
            pending: BTreeSet::new(),
            // The router may have what an earlier life wanted.
            again: true,
            retry_at: None,
        });
        Self {
            classes: classes.collect(),
            class_names: settings.classes.keys().cloned().enumerate().map(|(i, name)| (name, i)).collect(),
            leases: BTreeMap::new(),
            lease_ids: BTreeMap::new(),
            flows: BTreeMap::new(),
            flow_ids: BTreeMap::new(),
            waiting: 0,
            is_here: false,
            number: first,
            last: 0,
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            dirty_classes: (0..settings.classes.len()).collect(),
            lease_rows: BTreeSet::new(),
            flow_rows: BTreeSet::new(),
            outputs: VecDeque::new(),
            settings,
        }
    }

    /// Takes one input. Rows and outputs may be taken at any time after it, rows first.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Flow(ask) => self.ask(now, ask),
            Input::Release(flow) => self.release(flow),
            Input::Back => self.back(now),
            Input::Lost => self.lost(now),
            Input::Decision(decision) => self.decided(now, decision),
            Input::Reduced(decision) => self.reduced(now, decision),
            Input::Committed(class, number) => self.router_has(&class, number),
            Input::Refused(class, number, refusal) => self.router_refused(now, &class, number, &refusal),
            Input::Tick => {}
        }
        self.pursue_all(now);
        while self.next_wakeup().is_some_and(|at| at <= now) {
            self.tick(now);
            self.pursue_all(now);
        }
        #[cfg(debug_assertions)]
        self.check();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// All leases: what is held, what of it may be used, and what flows have, bit/s.
    pub fn leases(&self) -> impl Iterator<Item = (&LeaseId, u64, u64, u64)> {
        self.lease_ids.iter().filter_map(|(id, no)| {
            let lease = self.leases.get(no)?;
            Some((id, lease.granted, lease.usable, lease.admitted))
        })
    }

    /// What a flow has, bit/s; none if it is not admitted.
    pub fn flow(&self, flow: &FlowId) -> Option<u64> {
        let flow = self.flows.get(self.flow_ids.get(flow)?)?;
        flow.version.map(|_| flow.bps)
    }

    // ---- time

    fn tick(&mut self, now: Instant) {
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Flow(no) => self.flow_is_due(now, no),
                Timer::Lease(no) => self.lease_is_due(now, no),
                Timer::Class(class) => self.class_is_due(class),
            }
        }
    }

    fn lease_is_due(&mut self, now: Instant, no: u64) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        lease.armed = None;
        self.dirty.insert(no);
        let gives_up = lease.open.is_some_and(|open| open.first_sent + self.settings.patience <= now);
        if lease.granted > 0 && lease.expires <= now {
            self.event(now, no, Event::Expired);
        } else if lease.is_growing() && gives_up {
            lease.grow_after = now + RETRY;
            self.event(now, no, Event::TimedOut);
        } else if lease.open.is_some_and(|open| open.resend_at <= now) {
            self.resend(now, no);
        } else if lease.is_stale(now) {
            let floor = lease.floor();
            let unused = lease.state == State::Held && lease.is_idle() && lease.target > floor;
            self.event(now, no, if unused { Event::Less(floor) } else { Event::Renew });
        }
    }

    // ---- who gives leases

    fn back(&mut self, now: Instant) {
        if self.is_here {
            self.lost(now);
        }
        self.is_here = true;
        for no in self.leases.keys().copied().collect::<Vec<_>>() {
            let lease = &self.leases[&no];
            let keeps = lease.target == lease.granted && lease.granted > 0;
            self.event(now, no, Event::Back(keeps));
        }
    }

    fn lost(&mut self, now: Instant) {
        self.is_here = false;
        for no in self.leases.keys().copied().collect::<Vec<_>>() {
            self.event(now, no, Event::Lost);
        }
    }

    fn decided(&mut self, now: Instant, decision: Decision) {
        let Some(no) = self.lease_ids.get(&decision.lease).copied() else {
            // Asked for by an earlier life of this process, or too late: nobody uses it.
            if decision.has > 0 && self.is_here {
                self.number = self.number.max(decision.number) + 1;
                let (lease, number, lifetime) = (decision.lease, self.number, self.settings.lifetime);
                self.outputs.push_back(Output::Ask(Ask { lease, number, bps: 0, lifetime }));
            }
            return;
        };
        let Some(lease) = self.leases.get_mut(&no) else { return };
        let Some(open) = &mut lease.open else { return };
        if decision.number > open.number {
            // Whoever held it before has asked with higher numbers.
            self.number = self.number.max(decision.number) + 1;
            open.number = self.number;
            self.resend(now, no);
            return;
        }
        if decision.number < open.number {
            return;
        }
        open.refused = decision.refused.is_some();
        let (has, growing) = (decision.has.min(open.bps), lease.is_growing());
        if let Some(refusal) = &decision.refused {
            lease.grow_after = now + RETRY;
            if growing && let Some(bps) = self.retry(now, no, refusal) {
                self.event(now, no, Event::Retry(bps));
                return;
            }
        }
        let lease = &self.leases[&no];
        let has = if lease.state == State::Returning { has.min(lease.granted) } else { has };
        self.event(now, no, Event::Decided(has));
    }

    /// Before the answer to the same question, it is that answer; behind that to a later one it is out of date.
    fn reduced(&mut self, now: Instant, decision: Decision) {
        let Some(no) = self.lease_ids.get(&decision.lease).copied() else { return };
        let lease = &self.leases[&no];
        if lease.open.is_some_and(|open| open.number == decision.number) {
            self.decided(now, decision);
        } else if decision.number >= lease.decided {
            self.event(now, no, Event::TakenBack(decision.has));
        }
    }

    /// What to ask for after a refusal: what is needed, and then what those need who fit into what is said to be free. All
    /// others are refused.
    fn retry(&mut self, now: Instant, no: u64, refusal: &Refusal) -> Option<u64> {
        let lease = self.leases.get_mut(&no)?;
        let asked = lease.open?.bps;
        let exact = |lease: &Lease| {
            (lease.needed() > lease.target).then(|| lease.needed()).filter(|exact| *exact < asked)
        };
        let attempt = std::mem::replace(&mut lease.attempt, Attempt::Exact);
        if attempt == Attempt::Chunk
            && let Some(exact) = exact(lease)
        {
            return Some(exact);
        }
        let mut room = lease.target - lease.admitted;
        if attempt != Attempt::Fit {
            room = room.saturating_add(refusal.free_bps);
        }
        for flow in lease.waiting.clone() {
            let extra = self.flows[&flow].extra();
            match room.checked_sub(extra) {
                Some(left) => room = left,
                None => self.deny(now, flow, refusal),
            }
        }
        let lease = self.leases.get_mut(&no)?;
        lease.attempt = Attempt::Fit;
        let exact = exact(lease);
        if exact.is_none() && lease.needed() > lease.target {
            self.deny_all(now, no, refusal);
        }
        exact
    }

    fn send(&mut self, now: Instant, no: u64, bps: u64) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        self.number += 1;
        let open =
            Open { number: self.number, bps, first_sent: now, refused: false, resend_at: now, tries: 0 };
        lease.open = Some(open);
        self.resend(now, no);
    }

    /// Sends the open question, again or for the first time.
    fn resend(&mut self, now: Instant, no: u64) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        let Some(open) = &mut lease.open else { return };
        open.resend_at = now + self.settings.resend.saturating_mul(1 << open.tries.min(5));
        open.tries += 1;
        let (lease, number, bps) = (lease.id.clone(), open.number, open.bps);
        let lifetime = self.settings.lifetime;
        self.outputs.push_back(Output::Ask(Ask { lease, number, bps, lifetime }));
        self.dirty.insert(no);
    }

    // ---- a lease

    /// Does what the table says.
    fn event(&mut self, now: Instant, no: u64, event: Event) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        self.dirty.insert(no);
        let Some((state, action)) = step(lease.state, event) else { return };
        lease.state = state;
        match action {
            Action::Ask(bps) => self.send(now, no, bps),
            Action::Renew => {
                let granted = lease.granted;
                self.send(now, no, granted);
            }
            Action::Lower(bps) => {
                // Renewed only if the router takes long.
                let left = lease.expires.since(now);
                lease.renew_at = lease.renew_at.max(now + Duration(left.0 / 2));
                self.aim(no, bps);
            }
            Action::Return => {
                let target = lease.target;
                self.hold(no, target);
                self.send(now, no, target);
            }
            Action::Take(bps) | Action::Settle(bps) => {
                // What was asked for beyond what is held is to be held; otherwise the router may have refused meanwhile.
                let grown = matches!(action, Action::Take(_)) && lease.is_growing();
                if let Some(open) = lease.open.take() {
                    lease.decided = open.number;
                    if !open.refused {
                        lease.renewed(open.first_sent, &self.settings);
                    }
                }
                let target = if grown { bps } else { bps.min(lease.target) };
                self.hold(no, bps);
                self.aim(no, target);
                self.trim(no, End::Preempted);
            }
            Action::Shrink(bps) => {
                let (granted, target) = (lease.granted.min(bps), lease.target.min(bps));
                self.hold(no, granted);
                self.aim(no, target);
                self.trim(no, End::Preempted);
            }
            Action::Forget => lease.open = None,
            Action::End => {
                (lease.open, lease.renew_at, lease.expires) =
                    (None, Instant::FAR_FUTURE, Instant::FAR_FUTURE);
                self.hold(no, 0);
                self.aim(no, 0);
                self.trim(no, End::LeaseExpired);
            }
        }
    }

    fn hold(&mut self, no: u64, bps: u64) {
        if let Some(lease) = self.leases.get_mut(&no) {
            lease.granted = bps;
            self.lease_rows.insert(lease.id.clone());
        }
    }

    /// Ends the youngest flows of a lease until the others fit.
    fn trim(&mut self, no: u64, why: End) {
        while let Some(lease) = self.leases.get(&no).filter(|lease| lease.admitted > lease.usable) {
            let Some(flow) = lease.flows.last().copied() else { break };
            self.end(flow, Some(why));
        }
    }

    fn pursue_all(&mut self, now: Instant) {
        while !self.dirty.is_empty() || !self.dirty_classes.is_empty() {
            while let Some(no) = self.dirty.pop_first() {
                self.pursue(now, no);
            }
            self.tell_router();
        }
    }

    /// Brings a lease to where nothing is left to be done by itself.
    fn pursue(&mut self, now: Instant, no: u64) {
        loop {
            let Some(lease) = self.leases.get_mut(&no) else { return };
            if lease.since.is_none() {
                lease.usable = lease.target;
            }
            self.admit_waiting(now, no);
            let Some(event) = self.next_event(now, no) else { break };
            self.event(now, no, event);
        }
        self.dirty.remove(&no);
        let Some(lease) = self.leases.get_mut(&no) else { return };
        let keeps = lease.since.is_some() || (lease.id.flow.is_none() && lease.floor() > 0);
        if lease.state == State::None && lease.is_idle() && !keeps {
            self.forget(no);
            return;
        }
        let next = lease.next(now, &self.settings);
        Self::arm(&mut self.timers, Timer::Lease(no), &mut lease.armed, next);
    }

    fn next_event(&mut self, now: Instant, no: u64) -> Option<Event> {
        let is_here = self.is_here;
        let lease = self.leases.get_mut(&no)?;
        match lease.state {
            State::Asking | State::Changing => None,
            State::Held if lease.target < lease.granted => Some(Event::Less(lease.target)),
            State::Returning => (lease.open.is_none() && lease.since.is_none()).then_some(Event::Lowered),
            // What an expired lease had the router has to give up first.
            State::None if is_here && lease.since.is_some() => None,
            State::None if is_here => self.grow(now, no),
            State::Held if lease.usable == lease.target => match lease.less() {
                Some(less) => Some(Event::Less(less)),
                None => self.grow(now, no),
            },
            State::Held => None,
            State::None | State::Frozen => {
                let refusal = Refusal::new(Code::BackendFailed, &lease.id.class, 0);
                self.deny_all(now, no, &refusal);
                None
            }
        }
    }

    fn grow(&mut self, now: Instant, no: u64) -> Option<Event> {
        let lease = self.leases.get_mut(&no)?;
        let (bps, attempt) = lease.more(now)?;
        lease.attempt = attempt;
        Some(Event::More(bps))
    }

    /// The lease of this name.
    pub(super) fn lease(&mut self, id: &LeaseId) -> Option<u64> {
        if let Some(no) = self.lease_ids.get(id) {
            return Some(*no);
        }
        let class = &self.classes[*self.class_names.get(&id.class)?].settings;
        if self.leases.len() >= self.settings.limits.leases {
            return None;
        }
        self.last += 1;
        let keeps = self.settings.kept(&id.class).contains(&id.to);
        self.leases.insert(self.last, Lease::new(id.clone(), class, keeps));
        self.lease_ids.insert(id.clone(), self.last);
        Some(self.last)
    }

    fn forget(&mut self, no: u64) {
        let Some(lease) = self.leases.remove(&no) else { return };
        debug_assert_eq!((lease.granted, lease.target, lease.admitted), (0, 0, 0), "nothing is held");
        self.lease_ids.remove(&lease.id);
        if let Some(at) = lease.armed {
            self.timers.remove(&(at, Timer::Lease(no)));
        }
        self.forget_target(no, &lease);
    }

    /// Puts a timer at its time.
    pub(super) fn arm(
        timers: &mut BTreeSet<(Instant, Timer)>,
        timer: Timer,
        armed: &mut Option<Instant>,
        next: Option<Instant>,
    ) {
        if *armed == next {
            return;
        }
        if let Some(at) = std::mem::replace(armed, next) {
            timers.remove(&(at, timer));
        }
        if let Some(at) = next {
            timers.insert((at, timer));
        }
    }

    /// What always holds between two inputs.
    #[cfg(debug_assertions)]
    fn check(&self) {
        for lease in self.leases.values() {
            assert!(lease.admitted <= lease.usable, "no more is admitted than the router has: {lease:?}");
            assert!(lease.usable <= lease.target, "no more is used than is to be held: {lease:?}");
            assert!(lease.target <= lease.granted, "no more is to be held than is held: {lease:?}");
            assert!(lease.state != State::Frozen || !self.is_here, "nobody gives leases: {lease:?}");
            let asks = matches!(lease.state, State::Asking | State::Changing);
            assert!(!asks || lease.open.is_some(), "somebody is asked: {lease:?}");
            assert!(lease.open.is_none() || self.is_here, "somebody answers: {lease:?}");
        }
    }
}

#[cfg(test)]
#[path = "leases_tests.rs"]
mod tests;
