//! The machine: deals, and what is held at neighbours and last domains. [`super::deal`] says what happens to a deal.

use super::deal::{Action, Deal, Event, State, Wanted, Why, step};
use super::message::{Account, Body, DealId, Envelope, FlowAsk, Input, Output, Settings, Stage};
use crate::lease::{
    self, Ask, ClassSettings, Decision, End, FlowId, Judged, Leases, Model, Refusal, SettingsError, judge,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message is passed on so often at most.
const HOPS: u8 = 32;

/// Whom a deal depends on, and where its traffic leaves.
type Place = (Vec<(Stage, String)>, Option<String>);

/// See the module of the folder.
#[derive(Debug)]
pub struct Peers {
    pub(super) settings: Settings,
    pub(super) held: BTreeMap<Stage, Leases>,
    pub(super) deals: BTreeMap<u64, Deal>,
    pub(super) deal_ids: BTreeMap<DealId, u64>,
    pub(super) by_flow: BTreeMap<FlowId, u64>,
    /// The last number of a debit or of a request to a lease, and of a deal of this process.
    pub(super) number: u64,
    pub(super) last: u64,
    pub(super) timers: BTreeSet<(Instant, u64)>,
    /// What local decision points have said of deals.
    said: VecDeque<(u64, Event, Option<Refusal>)>,
    pub(super) deal_rows: BTreeSet<DealId>,
    outputs: VecDeque<Output>,
}

impl Peers {
    /// Without deals and neighbours that can be reached. `first` must be above every number of earlier lives, as the time of day in ns is.
    ///
    /// # Errors
    /// The settings of leases cannot be used.
    pub fn new(settings: Settings, first: u64, now: Instant) -> Result<Self, SettingsError> {
        Self::restore(settings, first, now, super::Snapshot::default())
    }

    pub(super) fn empty(
        settings: Settings,
        first: u64,
        now: Instant,
        mut held: BTreeMap<Stage, lease::Snapshot>,
    ) -> Result<Self, SettingsError> {
        let mut stages = BTreeMap::new();
        for (domain, neighbour) in &settings.routes {
            let Some(leases) = settings.leases.get(neighbour) else { continue };
            for stage in [Stage::Neighbour(neighbour.clone()), Stage::Last(domain.clone())] {
                // Neighbours have leases of aggregates only, last domains single flows only.
                let mut of = leases.clone();
                for class in of.classes.values_mut() {
                    *class = match &stage {
                        Stage::Neighbour(_) => {
                            ClassSettings { model: Model::Provisioned, minimum: 0, ..*class }
                        }
                        Stage::Last(_) => ClassSettings { model: Model::Outsourced, minimum: 0, ..*class },
                    };
                }
                let snapshot = held.remove(&stage).unwrap_or_default();
                if let Entry::Vacant(entry) = stages.entry(stage) {
                    entry.insert(Leases::restore(of, first, now, snapshot)?);
                }
            }
        }
        Ok(Self {
            settings,
            held: stages,
            deals: BTreeMap::new(),
            deal_ids: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            number: first,
            last: 0,
            timers: BTreeSet::new(),
            said: VecDeque::new(),
            deal_rows: BTreeSet::new(),
            outputs: VecDeque::new(),
        })
    }

    /// Takes one input. Rows and outputs may be taken at any time after it, rows first.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Back(neighbour) => self.tell_held_by(now, &neighbour, &lease::Input::Back),
            Input::Lost(neighbour) => self.tell_held_by(now, &neighbour, &lease::Input::Lost),
            Input::Message(via, envelope) => self.message(now, &via, envelope),
            Input::Debited(id, number, result) => self.debited(&id, number, result),
            Input::Taken(id, bps) => self.taken(now, &id, bps),
            Input::Flow(ask) => self.flow_asked(now, ask),
            Input::Release(flow) => match self.deal_ids.get(&DealId::Flow(flow.clone())).copied() {
                Some(no) => self.want(now, no, Why::Released, 0, Duration::ZERO),
                None => self.outputs.push_back(Output::Released(flow)),
            },
            Input::Tick => {}
        }
        self.go_on(now);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let held = self.held.values().filter_map(Leases::next_wakeup);
        held.chain(self.timers.first().map(|(at, _)| *at)).min()
    }

    /// By which neighbour each domain is reached.
    pub fn routes(&self) -> &BTreeMap<String, String> {
        &self.settings.routes
    }

    /// All deals, and what is agreed, bit/s.
    pub fn deals(&self) -> impl Iterator<Item = (&DealId, u64)> {
        self.deal_ids.iter().filter_map(|(id, no)| Some((id, self.deals.get(no)?.has)))
    }

    /// What this domain holds at others.
    pub fn held(&self) -> impl Iterator<Item = (&Stage, &Leases)> {
        self.held.iter()
    }

    /// Until nothing is left that can be done now.
    pub(super) fn go_on(&mut self, now: Instant) {
        loop {
            for leases in self.held.values_mut() {
                if leases.next_wakeup().is_some_and(|at| at <= now) {
                    leases.handle_input(now, lease::Input::Tick);
                }
            }
            for stage in self.held.keys().cloned().collect::<Vec<_>>() {
                self.hear(now, &stage);
            }
            if let Some((no, event, refusal)) = self.said.pop_front() {
                self.event(now, no, event, refusal);
            } else if let Some((at, no)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
                self.timers.remove(&(at, no));
                self.expired(now, no);
            } else {
                return;
            }
        }
    }

    // ---- neighbours

    fn tell_held_by(&mut self, now: Instant, neighbour: &str, input: &lease::Input) {
        for (stage, leases) in &mut self.held {
            let by = match stage {
                Stage::Neighbour(by) => Some(by),
                Stage::Last(domain) => self.settings.routes.get(domain),
            };
            if by.is_some_and(|by| by == neighbour) {
                leases.handle_input(now, input.clone());
            }
        }
    }

    fn send(&mut self, to: &str, body: Body) {
        let Some(neighbour) = self.settings.routes.get(to) else { return };
        let (from, to) = (self.settings.domain.clone(), to.to_owned());
        self.outputs.push_back(Output::Send(neighbour.clone(), Envelope { from, to, hops: HOPS, body }));
    }

    fn message(&mut self, now: Instant, via: &str, envelope: Envelope) {
        let Envelope { from, to, hops, body } = envelope;
        if to != self.settings.domain {
            match (self.settings.routes.get(&to).filter(|next| *next != via), hops.checked_sub(1)) {
                (Some(next), Some(hops)) => {
                    let envelope = Envelope { from, to, hops, body };
                    self.outputs.push_back(Output::Send(next.clone(), envelope));
                }
                _ => {
                    if let Body::Ask(ask) = body {
                        // Answered in the name of who was meant.
                        let decision = refused(&ask, Code::NoPath);
                        let body = Body::Decision(decision);
                        let envelope = Envelope { from: to, to: from, hops: HOPS, body };
                        self.outputs.push_back(Output::Send(via.to_owned(), envelope));
                    }
                }
            }
            return;
        }
        let id = match &body {
            Body::Ask(ask) => &ask.lease,
            Body::Decision(decision) | Body::Reduced(decision) => &decision.lease,
        };
        let single = id.flow.is_some();
        // Only of single flows others than neighbours speak, and each by the neighbour behind which it is.
        let allowed = (single || from == via) && self.settings.routes.get(&from).is_some_and(|by| by == via);
        let stage = if single { Stage::Last(from.clone()) } else { Stage::Neighbour(from.clone()) };
        let input = match body {
            Body::Ask(ask) if allowed => return self.asked(now, via, from, ask),
            Body::Ask(ask) => return self.send(&from, Body::Decision(refused(&ask, Code::Forbidden))),
            Body::Decision(decision) => lease::Input::Decision(decision),
            Body::Reduced(decision) => lease::Input::Reduced(decision),
        };
        if let Some(leases) = self.held.get_mut(&stage).filter(|_| allowed) {
            leases.handle_input(now, input);
        }
    }

    /// A domain asks for a lease here, or for a flow that ends here.
    fn asked(&mut self, now: Instant, via: &str, holder: String, ask: Ask) {
        let id = DealId::Lease(holder.clone(), ask.lease.clone());
        let no = self.deal_ids.get(&id).copied();
        if let Some(deal) = no.and_then(|no| self.deals.get(&no))
            && judge(Some(deal.last()), ask.number) != Judged::New
        {
            if deal.state == State::Idle {
                let (lease, number, has) = (ask.lease, deal.number, deal.has);
                let decision = Decision { lease, number, has, refused: None };
                let decision = deal.answer.clone().filter(|last| last.has == has).unwrap_or(decision);
                self.send(&holder, Body::Decision(decision));
            }
            return;
        }
        let no = match no {
            Some(no) => Ok(no),
            None => self.place(via, &ask).and_then(|(stages, leave)| {
                self.begin(id, ask.lease.class.clone(), via.to_owned(), leave, stages)
            }),
        };
        match no {
            Ok(no) => self.want(now, no, Why::Asked(ask.number), ask.bps, ask.lifetime),
            Err(code) => self.send(&holder, Body::Decision(refused(&ask, code))),
        }
    }

    /// Whom a lease of another domain depends on, and where its traffic leaves.
    fn place(&self, via: &str, ask: &Ask) -> Result<Place, Code> {
        let to = ask.lease.to.clone().ok_or(Code::BadReference)?;
        if ask.lease.flow.is_some() {
            return Ok((Vec::new(), Some(to)));
        }
        if to == self.settings.domain {
            return Ok((Vec::new(), None));
        }
        let next = self.settings.routes.get(&to).filter(|next| *next != via).ok_or(Code::NoPath)?;
        Ok((vec![(Stage::Neighbour(next.clone()), to)], Some(next.clone())))
    }

    // ---- clients

    fn flow_asked(&mut self, now: Instant, ask: FlowAsk) {
        let id = DealId::Flow(ask.flow.clone());
        let no = self.deal_ids.get(&id).copied();
        let stages = |next: &String| {
            vec![
                (Stage::Neighbour(next.clone()), ask.domain.clone()),
                (Stage::Last(ask.domain.clone()), ask.edge.clone()),
            ]
        };
        let stages = self.settings.routes.get(&ask.domain).map(stages);
        let code = match no.and_then(|no| self.deals.get(&no)) {
            _ if ask.bps == 0 || ask.lifetime == Duration::ZERO => Some(Code::OutOfRange),
            Some(deal) if ask.version < deal.last() => Some(Code::StaleVersion),
            Some(deal)
                if (&ask.class, &ask.from) != (&deal.class, &deal.enter)
                    || stages.as_ref() != Some(&deal.stages) =>
            {
                Some(Code::TxnIdReused)
            }
            // It is being decided.
            Some(deal) if ask.version == deal.last() && deal.state != State::Idle => return,
            _ => None,
        };
        let no = match (code, no, stages) {
            (Some(code), _, _) => Err(code),
            (None, Some(no), _) => Ok(no),
            (None, None, None) => Err(Code::NoPath),
            (None, None, Some(stages)) => {
                let leave = self.settings.routes.get(&ask.domain).cloned();
                self.begin(id, ask.class.clone(), ask.from.clone(), leave, stages)
            }
        };
        match no {
            Ok(no) => self.want(now, no, Why::Asked(ask.version), ask.bps, ask.lifetime),
            Err(code) => {
                let result = Err(Refusal::new(code, &ask.class, ask.bps));
                self.outputs.push_back(Output::Answer { flow: ask.flow, version: ask.version, result });
            }
        }
    }

    // ---- deals

    pub(super) fn begin(
        &mut self,
        id: DealId,
        class: String,
        enter: String,
        leave: Option<String>,
        stages: Vec<(Stage, String)>,
    ) -> Result<u64, Code> {
        let knows = |leases: &lease::Settings| leases.classes.contains_key(&class);
        let known = match stages.first() {
            Some((Stage::Neighbour(by) | Stage::Last(by), _)) => {
                self.settings.leases.get(by).is_some_and(knows)
            }
            None => self.settings.leases.values().any(knows),
        };
        if !known {
            return Err(Code::BadReference);
        }
        if self.deals.len() >= self.settings.most_deals {
            return Err(Code::LimitReached);
        }
        self.last += 1;
        let deal = Deal {
            id: id.clone(),
            class,
            enter,
            leave,
            stages,
            state: State::Idle,
            has: 0,
            number: 0,
            answer: None,
            doing: None,
            next: None,
            waits_for: 0,
            lost: false,
            expires: Instant::FAR_FUTURE,
        };
        if !deal.stages.is_empty() {
            self.by_flow.insert(deal.flow(), self.last);
        }
        self.deal_ids.insert(id, self.last);
        self.deals.insert(self.last, deal);
        Ok(self.last)
    }

    /// A deal of an earlier life: all are told what it has.
    pub(super) fn restore_deal(&mut self, now: Instant, no: u64, number: u64, bps: u64, expires: Instant) {
        let Some(deal) = self.deals.get_mut(&no) else { return };
        // One that was being made for the first time has no end yet.
        deal.expires = if expires < Instant::FAR_FUTURE { expires } else { now };
        (deal.number, deal.has, deal.state) = (number, bps, State::Crediting);
        let left = deal.expires.since(now).max(Duration::from_millis(1));
        let shared = self.settings.leases.values().map(|leases| leases.lifetime).max();
        let lifetime = left.max(shared.unwrap_or_default());
        deal.doing = Some(Wanted { why: Why::Restored, bps, lifetime, refused: None });
        self.timers.insert((deal.expires, no));
        self.tell_all(now, no, usize::MAX, bps, lifetime);
        self.debit(no, bps, left);
    }

    /// Something is to become of a deal, now or after what is being done.
    fn want(&mut self, now: Instant, no: u64, why: Why, bps: u64, lifetime: Duration) {
        let Some(deal) = self.deals.get_mut(&no) else { return };
        let wanted = Wanted { why, bps, lifetime, refused: None };
        if deal.state == State::Idle {
            self.start(now, no, wanted);
        } else if let Some(before) = deal.next.replace(wanted)
            && let (DealId::Flow(flow), Why::Asked(version)) = (&deal.id, before.why)
        {
            let result = Err(Refusal::new(Code::StaleVersion, &deal.class, before.bps));
            self.outputs.push_back(Output::Answer { flow: flow.clone(), version, result });
        }
    }

    fn start(&mut self, now: Instant, no: u64, wanted: Wanted) {
        let Some(deal) = self.deals.get_mut(&no) else { return };
        let (bps, has, lifetime) = (wanted.bps, deal.has, wanted.lifetime);
        deal.doing = Some(wanted);
        if bps == has {
            if bps > 0 {
                let account = account(deal);
                self.outputs.push_back(Output::Renew { account, lifetime });
            }
            self.tell_all(now, no, usize::MAX, has, lifetime);
            self.finish(now, no);
        } else {
            self.event(now, no, if bps > has { Event::More } else { Event::Less }, None);
        }
    }

    /// Does what the table says.
    fn event(&mut self, now: Instant, no: u64, event: Event, refusal: Option<Refusal>) {
        let Some(deal) = self.deals.get_mut(&no) else { return };
        let Some((state, action)) = step(deal.state, event, deal.stages.len()) else { return };
        let Some(doing) = &mut deal.doing else { return };
        if deal.state != State::Crediting && refusal.is_some() {
            doing.refused = refusal;
        }
        deal.state = state;
        let (bps, lifetime, has) = (doing.bps, doing.lifetime, deal.has);
        match action {
            Action::Debit => self.debit(no, bps, lifetime),
            Action::Ask(at) => {
                let Some((stage, to)) = deal.stages.get(at).cloned() else { return };
                self.number += 1;
                deal.waits_for = self.number;
                let input = request(deal, self.number, to, bps, lifetime);
                if let Some(leases) = self.held.get_mut(&stage) {
                    leases.handle_input(now, input);
                }
            }
            Action::Lower => {
                let lost = matches!(doing.why, Why::Ended(End::LeaseExpired | End::Preempted));
                deal.has = bps;
                self.deal_rows.insert(deal.id.clone());
                if let DealId::Lease(holder, lease) = &deal.id
                    && lost
                {
                    let (lease, number) = (lease.clone(), deal.number);
                    let refused = Some(Refusal::new(Code::Preempted, &deal.class, has));
                    let (holder, decision) = (holder.clone(), Decision { lease, number, has: bps, refused });
                    self.send(&holder, Body::Reduced(decision));
                }
                self.tell_all(now, no, usize::MAX, bps, lifetime);
                self.debit(no, bps, lifetime);
            }
            Action::Undo(at) => {
                self.tell_all(now, no, at, has, lifetime);
                let left = self.deals.get(&no).map_or(lifetime, |deal| deal.expires.since(now));
                self.debit(no, has, left);
            }
            Action::Finish => self.finish(now, no),
        }
    }

    fn debit(&mut self, no: u64, bps: u64, lifetime: Duration) {
        let Some(deal) = self.deals.get_mut(&no) else { return };
        self.number += 1;
        deal.waits_for = self.number;
        self.deal_rows.insert(deal.id.clone());
        let account = account(deal);
        self.outputs.push_back(Output::Debit { account, number: self.number, bps, lifetime });
    }

    /// Tells those before this place of the list, the last first, that a deal has this now, and that it lives on.
    pub(super) fn tell_all(&mut self, now: Instant, no: u64, before: usize, bps: u64, lifetime: Duration) {
        let Some(deal) = self.deals.get(&no) else { return };
        for (stage, to) in deal.stages.iter().take(before).rev() {
            self.number += 1;
            let input = match bps {
                0 => lease::Input::Release(deal.flow()),
                _ => request(deal, self.number, to.clone(), bps, lifetime),
            };
            if let Some(leases) = self.held.get_mut(stage) {
                leases.handle_input(now, input);
            }
        }
    }

    /// What was being done with a deal is done, or has failed.
    fn finish(&mut self, now: Instant, no: u64) {
        let Some(deal) = self.deals.get_mut(&no) else { return };
        let Some(done) = deal.doing.take() else { return };
        self.deal_rows.insert(deal.id.clone());
        if done.refused.is_none() {
            deal.has = done.bps;
        }
        let (has, superseded) = (deal.has, deal.next.is_some());
        match (&deal.id, done.why) {
            (DealId::Lease(holder, lease), Why::Asked(number)) => {
                let decision = Decision { lease: lease.clone(), number, has, refused: done.refused.clone() };
                (deal.number, deal.answer) = (number, Some(decision.clone()));
                let holder = holder.clone();
                // What is lost already is answered with what is left.
                if !(superseded || deal.lost && has > 0) {
                    self.send(&holder, Body::Decision(decision));
                }
            }
            (DealId::Flow(flow), Why::Asked(version)) => {
                deal.number = version;
                let result = done.refused.clone().map_or(Ok(()), Err);
                self.outputs.push_back(Output::Answer { flow: flow.clone(), version, result });
            }
            (DealId::Flow(flow), Why::Released) => self.outputs.push_back(Output::Released(flow.clone())),
            (DealId::Flow(flow), Why::Ended(end)) => {
                self.outputs.push_back(Output::Ended(flow.clone(), end));
            }
            (_, Why::Restored) | (DealId::Lease(..), _) => {}
        }
        let Some(deal) = self.deals.get_mut(&no) else { return };
        let old = deal.expires;
        match done.why {
            // A refused change of a flow leaves it as it was; a question about a lease renews it also then.
            Why::Asked(_) if done.refused.is_some() && matches!(deal.id, DealId::Flow(_)) && has > 0 => {}
            Why::Asked(_) => {
                deal.expires = now + done.lifetime;
                if done.refused.is_some() && has > 0 {
                    let (account, lifetime) = (account(deal), done.lifetime);
                    self.outputs.push_back(Output::Renew { account, lifetime });
                }
            }
            Why::Ended(End::Expired) => deal.expires = now,
            _ => {}
        }
        let lost = std::mem::take(&mut deal.lost) && has > 0;
        self.timers.remove(&(old, no));
        self.timers.insert((deal.expires, no));
        if lost {
            let why = Why::Ended(End::LeaseExpired);
            self.start(now, no, Wanted { why, bps: 0, lifetime: Duration::ZERO, refused: None });
        } else if let Some(next) = deal.next.take() {
            self.start(now, no, next);
        } else {
            let flow = matches!(deal.id, DealId::Flow(_));
            if deal.is_over() && (flow || deal.expires <= now) {
                self.forget(no);
            } else if done.refused.is_some() && has > 0 {
                self.tell_all(now, no, usize::MAX, has, done.lifetime);
            }
        }
    }

    fn expired(&mut self, now: Instant, no: u64) {
        let Some(deal) = self.deals.get_mut(&no) else { return };
        if deal.is_over() {
            self.forget(no);
        } else if deal.state == State::Idle {
            self.want(now, no, Why::Ended(End::Expired), 0, Duration::ZERO);
        }
        // Otherwise the end of what is being done sets the time anew.
    }

    fn forget(&mut self, no: u64) {
        let Some(deal) = self.deals.remove(&no) else { return };
        self.deal_ids.remove(&deal.id);
        self.timers.remove(&(deal.expires, no));
        self.deal_rows.insert(deal.id.clone());
        if !deal.stages.is_empty() {
            self.by_flow.remove(&deal.flow());
        }
    }

    // ---- the ledger, and local decision points

    fn debited(&mut self, id: &DealId, number: u64, result: Result<(), Refusal>) {
        let Some(no) = self.deal_ids.get(id).copied() else { return };
        let Some(deal) = self.deals.get(&no) else { return };
        let waits = matches!(deal.state, State::Debiting | State::Crediting) && deal.waits_for == number;
        if waits {
            // What an earlier life had debited may be gone by now.
            let restored = deal.doing.as_ref().is_some_and(|doing| doing.why == Why::Restored);
            if let Some(deal) = self.deals.get_mut(&no).filter(|_| restored && result.is_err()) {
                deal.lost = true;
            }
            let event = if result.is_ok() { Event::Agreed } else { Event::Refused };
            self.said.push_back((no, event, result.err()));
        }
    }

    /// The ledger has taken an account back: the others have to, too.
    fn taken(&mut self, now: Instant, id: &DealId, bps: u64) {
        let Some(no) = self.deal_ids.get(id).copied() else { return };
        let Some(deal) = self.deals.get_mut(&no) else { return };
        // What is being asked for is debited already.
        let more = match deal.state {
            State::Debiting | State::Asking(_) => deal.doing.as_ref().map_or(0, |doing| doing.bps),
            State::Idle | State::Crediting => 0,
        };
        if bps >= deal.has.max(more) {
            return;
        }
        let lifetime = deal.expires.since(now);
        if deal.state == State::Idle {
            self.want(now, no, Why::Ended(End::Preempted), bps, lifetime);
        } else {
            deal.lost = true;
        }
    }

    /// What a local decision point has to say.
    fn hear(&mut self, now: Instant, stage: &Stage) {
        let (Stage::Neighbour(at) | Stage::Last(at)) = stage;
        while let Some(output) = self.held.get_mut(stage).and_then(Leases::poll_output) {
            match output {
                lease::Output::Ask(ask) => self.send(at, Body::Ask(ask)),
                // Nothing has to be made larger here: the ledger was debited first.
                lease::Output::Want { class, number, .. } => {
                    if let Some(leases) = self.held.get_mut(stage) {
                        leases.handle_input(now, lease::Input::Committed(class, number));
                    }
                }
                lease::Output::Answer { flow, version, result } => {
                    self.heard(stage, at, &flow, version, result)
                }
                lease::Output::Ended(flow, _) => self.lost(now, stage, &flow),
                lease::Output::Released(_) => {}
            }
        }
    }

    fn heard(&mut self, stage: &Stage, at: &str, flow: &FlowId, version: u64, result: Result<(), Refusal>) {
        let Some(no) = self.by_flow.get(flow).copied() else { return };
        let Some(deal) = self.deals.get_mut(&no) else { return };
        let asked = match deal.state {
            State::Asking(number) => deal.stages.get(number).is_some_and(|(asked, _)| asked == stage),
            _ => false,
        };
        if asked && deal.waits_for == version {
            let event = if result.is_ok() { Event::Agreed } else { Event::Refused };
            let next = self.settings.routes.get(at).map_or(at, String::as_str);
            self.said.push_back((no, event, result.err().map(|refusal| by_peer(refusal, at, next))));
        } else if result.is_err() && self.held.get(stage).is_some_and(|held| held.flow(flow).is_none()) {
            deal.lost = deal.state != State::Idle;
            if deal.has > 0 && !deal.lost {
                let why = Why::Ended(End::LeaseExpired);
                deal.doing = Some(Wanted { why, bps: 0, lifetime: Duration::ZERO, refused: None });
                self.said.push_back((no, Event::Less, None));
            }
        }
    }

    /// What a deal rests on is no more. If more was being asked for there, that is not answered.
    fn lost(&mut self, now: Instant, stage: &Stage, flow: &FlowId) {
        let Some(no) = self.by_flow.get(flow).copied() else { return };
        let Some(deal) = self.deals.get_mut(&no) else { return };
        deal.lost = deal.state != State::Idle;
        if let State::Asking(at) = deal.state
            && deal.stages.get(at).is_some_and(|(asked, _)| asked == stage)
        {
            let (Stage::Neighbour(at) | Stage::Last(at)) = stage;
            let refusal = by_peer(Refusal::new(Code::Timeout, &deal.class, 0), at, at);
            self.said.push_back((no, Event::Refused, Some(refusal)));
        } else if deal.has > 0 && !deal.lost {
            self.want(now, no, Why::Ended(End::LeaseExpired), 0, Duration::ZERO);
        }
    }
}

fn refused(ask: &Ask, code: Code) -> Decision {
    let refused = Some(Refusal::new(code, &ask.lease.class, ask.bps));
    Decision { lease: ask.lease.clone(), number: ask.number, has: 0, refused }
}

/// A refusal of another domain begins its link with that domain's name, also where no link is to blame. Of a question that had to
/// be passed on, `next` is who would have: it may be away.
fn by_peer(refusal: Refusal, domain: &str, next: &str) -> Refusal {
    let (code, by) = match refusal.code {
        Code::NoCapacity => (Code::PeerRefused, domain),
        Code::BackendFailed if refusal.link.is_empty() => (Code::PeerRefused, next),
        Code::BackendFailed => return Refusal { code: Code::PeerRefused, ..refusal },
        // It has said whose it is already.
        _ if !refusal.link.is_empty() => return refusal,
        code => (code, domain),
    };
    Refusal { code, link: format!("{by}/{}", refusal.link), ..refusal }
}

fn account(deal: &Deal) -> Account {
    Account {
        deal: deal.id.clone(),
        class: deal.class.clone(),
        enter: deal.enter.clone(),
        leave: deal.leave.clone(),
    }
}

/// The request by which a deal has something at a local decision point. It outlives the deal.
fn request(deal: &Deal, version: u64, to: String, bps: u64, lifetime: Duration) -> lease::Input {
    lease::Input::Flow(lease::FlowAsk {
        flow: deal.flow(),
        version,
        class: deal.class.clone(),
        to: Some(to),
        bps,
        lifetime: lifetime.saturating_mul(2),
    })
}
