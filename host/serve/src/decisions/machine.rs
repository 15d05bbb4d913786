//! Leases with those who wait for their answers, and with the packets of each flow, as one machine.

use super::shapes::{DecidedHere, Keep, Question, Waiter, Wish, lease_name};
use crate::controller::{CreateReservation, ShownReservation};
use perhop_agent::{DECIDED_HERE, DomainFlow, DomainNews};
use perhop_broker::lease::{
    End, FlowAsk, FlowId, FlowRow, Input, LeaseRow, Leases, Output, Row, SettingsError, Snapshot,
};
use perhop_broker::ledger::{MOST_KEY, Refusal};
use perhop_broker::record::{ReservationId, ReservationKind, ReservationState};
use perhop_model::Name;
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::oneshot;

/// Life of a flow whose request does not say, and the longest, ms.
const LIVES: [u64; 2] = [10 * 60 * 1_000, 24 * 60 * 60 * 1_000];
/// How names of what is kept begin, and the one of the last number of a flow.
const LEASE: &str = "lease/";
const FLOW: &str = "flow/";
const LAST: &str = "last";

/// A flow, admitted or waiting.
#[derive(Clone, Debug)]
struct Call {
    id: u64,
    wanted: CreateReservation,
    /// Of what was asked for last.
    version: u64,
    /// What that asks for in place of what is wanted, while it is not decided.
    changing: Option<CreateReservation>,
    created_ms: u64,
    expires: Instant,
}

impl Call {
    /// What it is to be if what waits is admitted.
    fn next(&self) -> &CreateReservation {
        self.changing.as_ref().unwrap_or(&self.wanted)
    }
}

/// A flow as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct KeptCall {
    id: u64,
    created_ms: u64,
    wanted: CreateReservation,
    row: FlowRow,
}

/// See the module.
#[derive(Debug)]
pub struct Decider {
    here: DecidedHere,
    leases: Leases,
    /// Time of the day less the time of inputs, ns.
    day: u64,
    calls: BTreeMap<FlowId, Call>,
    ids: BTreeMap<u64, FlowId>,
    /// With the version that each waits for.
    waiting: BTreeMap<FlowId, Vec<(u64, Waiter)>>,
    releasing: BTreeMap<FlowId, Vec<oneshot::Sender<Result<(), Refusal>>>>,
    last: u64,
    kept: Vec<Keep>,
    wishes: VecDeque<Wish>,
}

impl Decider {
    /// With what an earlier life has kept; what cannot be read of it is passed over. `day` is the time of the day less that of inputs, ns;
    /// `first` is above the number of every question of earlier lives.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(
        here: DecidedHere,
        first: u64,
        day: u64,
        now: Instant,
        kept: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, SettingsError> {
        let (mut snapshot, mut calls) = (Snapshot::default(), Vec::new());
        let mut last = 0;
        let from_day = |at: Instant| Instant(at.0.saturating_sub(day));
        for (name, value) in kept {
            if name.starts_with(LEASE) {
                let row = serde_json::from_value::<LeaseRow>(value).ok();
                snapshot.leases.extend(row.map(|row| LeaseRow { expires: from_day(row.expires), ..row }));
            } else if name.starts_with(FLOW) {
                calls.extend(serde_json::from_value::<KeptCall>(value).ok());
            } else if name == LAST {
                last = value.as_u64().unwrap_or(0);
            }
        }
        calls.sort_by_key(|call| call.id);
        let mut by_flow = BTreeMap::new();
        for KeptCall { id, created_ms, wanted, row } in calls {
            let row = FlowRow { expires: from_day(row.expires), ..row };
            last = last.max(id);
            let (version, changing, expires) = (row.version, None, row.expires);
            by_flow.insert(row.flow.clone(), Call { id, wanted, version, changing, created_ms, expires });
            snapshot.flows.push(row);
        }
        let leases = Leases::restore(here.leases.clone(), first, now, snapshot)?;
        let mut decider = Self {
            here,
            leases,
            day,
            ids: by_flow.iter().map(|(flow, call)| (call.id, flow.clone())).collect(),
            calls: by_flow,
            waiting: BTreeMap::new(),
            releasing: BTreeMap::new(),
            last,
            kept: Vec::new(),
            wishes: VecDeque::new(),
        };
        let flows: Vec<FlowId> = decider.calls.keys().cloned().collect();
        flows.iter().for_each(|flow| decider.tell_router(now, flow));
        decider.collect(now);
        Ok(decider)
    }

    /// Takes one input. What is kept comes first, then the wishes, both perhaps of several inputs.
    pub fn handle_input(&mut self, now: Instant, question: Question) {
        let input = match question {
            Question::Lease(input) => input,
            Question::Reserve { owner, wanted, changes, done } => {
                match self.ask(now, owner, *wanted, changes) {
                    Ok(ask) => self.wait(ask, done),
                    Err(refusal) => return self.wishes.push_back(Wish::Answer(done, Box::new(Err(refusal)))),
                }
            }
            Question::Renew { owner, id, lifetime_ms, done } => {
                match self.renewed(Some(&owner), id, lifetime_ms) {
                    Ok(ask) => self.wait(ask, done),
                    Err(refusal) => return self.wishes.push_back(Wish::Answer(done, Box::new(Err(refusal)))),
                }
            }
            Question::Release { owner, id, done } => match self.numbered(owner.as_deref(), id).cloned() {
                Ok(flow) => {
                    self.releasing.entry(flow.clone()).or_default().push(done);
                    Input::Release(flow)
                }
                Err(refusal) => return drop(done.send(Err(refusal))),
            },
            Question::Owned { owner, begin, done } => return drop(done.send(self.owned(owner, &begin))),
            Question::List(done) => return drop(done.send(self.list())),
        };
        self.leases.handle_input(now, input);
        self.collect(now);
    }

    /// What has to be kept before any wish is carried out.
    pub fn take_kept(&mut self) -> Vec<Keep> {
        std::mem::take(&mut self.kept)
    }

    /// The next thing to do.
    pub fn poll_wish(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.leases.next_wakeup()
    }

    /// What the controller says of a lease by its name, if there is such a lease.
    pub fn reduced(&self, name: &str, number: u64, bps: u64) -> Option<Input> {
        let lease = self.leases.leases().map(|(lease, ..)| lease).find(|lease| lease_name(lease) == name)?;
        let decision =
            perhop_broker::lease::Decision { lease: lease.clone(), number, has: bps, refused: None };
        Some(Input::Reduced(decision))
    }

    /// Has whoever asks answered when that is decided.
    fn wait(&mut self, ask: FlowAsk, done: Waiter) -> Input {
        self.waiting.entry(ask.flow.clone()).or_default().push((ask.version, done));
        Input::Flow(ask)
    }

    /// The flow of a number, if it is this owner's; none = whosever it is.
    fn numbered(&self, owner: Option<&str>, id: ReservationId) -> Result<&FlowId, Refusal> {
        let flow = self.ids.get(&id).filter(|flow| owner.is_none_or(|owner| owner == flow.owner));
        flow.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no reservation {id}")))
    }

    fn owned(&self, owner: String, begin: &str) -> Vec<(ReservationId, String)> {
        let first = FlowId { owner: owner.clone(), idem: begin.to_owned() };
        let own = self.calls.range(first..).take_while(|(flow, _)| flow.owner == owner);
        let meant = own.take_while(|(flow, _)| flow.idem.starts_with(begin));
        meant.map(|(flow, call)| (call.id, flow.idem.clone())).collect()
    }

    /// The question by which a flow lives on.
    fn renewed(
        &self,
        owner: Option<&str>,
        id: ReservationId,
        lifetime_ms: Option<u64>,
    ) -> Result<FlowAsk, Refusal> {
        let flow = self.numbered(owner, id)?.clone();
        let call = self.calls.get(&flow).ok_or_else(|| Refusal::new(Code::NotFound, "it is gone"))?;
        let wanted = call.next();
        let lifetime = life(lifetime_ms.or(wanted.lifetime_ms))?;
        let (class, to) = (wanted.class.clone(), Some(wanted.to.clone()));
        Ok(FlowAsk { flow, version: call.version, class, to, bps: wanted.bps, lifetime })
    }

    /// A request, if it is one that can be decided here. Where it `changes`, one that its key has already is to be as this.
    fn ask(
        &mut self,
        now: Instant,
        owner: String,
        wanted: CreateReservation,
        changes: bool,
    ) -> Result<FlowAsk, Refusal> {
        let refused = |code, why: String| Err(Refusal::new(code, why));
        if wanted.from != self.here.node {
            return refused(
                Code::BadReference,
                format!("only what enters at node {} is decided here", self.here.node),
            );
        }
        let Some(class) = self.here.classes.get(&wanted.class) else {
            return refused(
                Code::BadReference,
                format!("no flows of class {:?} are admitted here", wanted.class),
            );
        };
        if !class.to.is_empty() && !class.to.contains(&wanted.to) {
            return refused(
                Code::NoPath,
                format!("no flows of this class to {:?} are admitted here", wanted.to),
            );
        }
        if wanted.back_bps.is_some() {
            return refused(Code::Unsupported, "the other direction is decided where it enters".into());
        }
        let key = &wanted.key;
        if key.is_empty() || key.len() > MOST_KEY || key.chars().any(char::is_control) {
            return refused(Code::OutOfRange, "a key has 1 to 255 octets, and no control characters".into());
        }
        wanted.flow().check().map_err(|why| Refusal::new(Code::OutOfRange, why.to_string()))?;
        let lifetime = life(wanted.lifetime_ms)?;
        let flow = FlowId { owner, idem: key.clone() };
        let (class, to, bps) = (wanted.class.clone(), Some(wanted.to.clone()), wanted.bps);
        let version = match self.calls.get_mut(&flow) {
            Some(call) if *call.next() == wanted => call.version,
            Some(_) if !changes => {
                return refused(Code::TxnIdReused, "this key was used for another reservation".into());
            }
            Some(call) if (&call.wanted.class, &call.wanted.to) != (&wanted.class, &wanted.to) => {
                let why = "a reservation keeps its class, nodes and directions: ask by another handle";
                return refused(Code::TxnIdReused, why.into());
            }
            Some(call) => {
                call.version += 1;
                call.changing = Some(wanted);
                call.version
            }
            None => {
                self.last += 1;
                let (version, created_ms) = (1, now.0.saturating_add(self.day) / 1_000_000);
                let call = Call { id: self.last, wanted, version, changing: None, created_ms, expires: now };
                self.ids.insert(self.last, flow.clone());
                self.calls.insert(flow.clone(), call);
                version
            }
        };
        Ok(FlowAsk { flow, version, class, to, bps, lifetime })
    }

    fn collect(&mut self, now: Instant) {
        for row in self.leases.take_rows() {
            self.keep(row);
        }
        while let Some(output) = self.leases.poll_output() {
            match output {
                Output::Ask(ask) => self.wishes.push_back(Wish::Ask(lease_name(&ask.lease), ask)),
                Output::Want { class, number, bps } => {
                    self.wishes.push_back(Wish::Want { class, number, bps })
                }
                Output::Answer { flow, version, result } => self.answered(now, &flow, version, result),
                Output::Released(flow) => {
                    self.gone(&flow, Code::Forbidden);
                    let done = self.releasing.remove(&flow).unwrap_or_default();
                    self.wishes.extend(done.into_iter().map(Wish::Released));
                    self.answer_all(&flow, &Refusal::new(Code::NotFound, "it was released meanwhile"));
                }
                Output::Ended(flow, why) => {
                    let (code, why) = match why {
                        End::Expired => (Code::Timeout, "its life has ended"),
                        End::LeaseExpired => {
                            (Code::BackendFailed, "its lease ran out without the controller")
                        }
                        End::Preempted => (Code::Preempted, "the domain has taken its lease back"),
                    };
                    self.gone(&flow, code);
                    self.answer_all(&flow, &Refusal::new(code, why));
                }
            }
        }
    }

    fn keep(&mut self, row: Row) {
        let to_day = |at: Instant| Instant(at.0.saturating_add(self.day));
        let of_flow = |flow: &FlowId| format!("{FLOW}{}", json!([flow.owner, flow.idem]));
        let (name, value) = match row {
            Row::Lease(row) => {
                let name = format!("{LEASE}{}", lease_name(&row.lease));
                (name, Some(json!(LeaseRow { expires: to_day(row.expires), ..row })))
            }
            Row::LeaseGone(lease) => (format!("{LEASE}{}", lease_name(&lease)), None),
            Row::FlowGone(flow) => (of_flow(&flow), None),
            Row::Flow(row) => {
                let Some(call) = self.calls.get_mut(&row.flow) else { return };
                call.expires = row.expires;
                // A change counts from when it is admitted.
                if let Some(wanted) = call.changing.take_if(|_| row.version == call.version) {
                    let before = std::mem::replace(&mut call.wanted, wanted);
                    if !before.packets.is_empty() && call.wanted.packets.is_empty() {
                        let id = DECIDED_HERE | call.id;
                        self.wishes.push_back(Wish::News(DomainNews::FlowGone { id }));
                    }
                }
                let (id, created_ms, wanted) = (call.id, call.created_ms, call.wanted.clone());
                let name = of_flow(&row.flow);
                let row = FlowRow { expires: to_day(row.expires), ..row };
                (name, Some(json!(KeptCall { id, created_ms, wanted, row })))
            }
        };
        if value.is_some() && name.starts_with(FLOW) {
            self.kept.push(Keep { name: LAST.into(), value: Some(self.last.into()) });
        }
        self.kept.push(Keep { name, value });
    }

    fn answered(
        &mut self,
        now: Instant,
        flow: &FlowId,
        version: u64,
        result: Result<(), perhop_broker::lease::Refusal>,
    ) {
        match result {
            Ok(()) => {
                self.tell_router(now, flow);
                if let Some(row) = self.row(flow) {
                    self.answer(flow, version, &Ok(row));
                }
            }
            Err(refusal) => {
                // What was asked for in place of this is another matter.
                if let Some(call) = self.calls.get_mut(flow).filter(|call| call.version == version) {
                    call.changing = None;
                    let id = call.id;
                    if self.leases.flow(flow).is_none() {
                        self.calls.remove(flow);
                        self.ids.remove(&id);
                    }
                }
                self.answer(flow, version, &Err(in_words(refusal)));
            }
        }
    }

    /// Answers those who wait for a version.
    fn answer(&mut self, flow: &FlowId, version: u64, result: &Result<ShownReservation, Refusal>) {
        let Some(waiting) = self.waiting.get_mut(flow) else { return };
        let answered = waiting.extract_if(.., |(of, _)| *of == version);
        let answers = answered.map(|(_, done)| Wish::Answer(done, Box::new(result.clone())));
        self.wishes.extend(answers);
        if waiting.is_empty() {
            self.waiting.remove(flow);
        }
    }

    fn answer_all(&mut self, flow: &FlowId, refusal: &Refusal) {
        let waiting = self.waiting.remove(flow).unwrap_or_default();
        let answers = waiting.into_iter().map(|(_, done)| Wish::Answer(done, Box::new(Err(refusal.clone()))));
        self.wishes.extend(answers);
    }

    /// Has the router know the packets of a flow.
    fn tell_router(&mut self, now: Instant, flow: &FlowId) {
        let Some(call) = self.calls.get(flow) else { return };
        let wanted = &call.wanted;
        let Ok(class) = Name::new(&wanted.class) else { return };
        if wanted.packets.is_empty() {
            return;
        }
        let dscp = wanted.dscp.or_else(|| self.here.classes.get(&wanted.class)?.dscp);
        self.wishes.push_back(Wish::News(DomainNews::Flow(DomainFlow {
            id: DECIDED_HERE | call.id,
            class,
            bps: Rate(wanted.bps),
            dscp,
            packets: wanted.packets.iter().map(crate::domain::Packets::matches).collect(),
            remaining_ms: call.expires.since(now).as_nanos() / 1_000_000,
        })));
    }

    fn gone(&mut self, flow: &FlowId, code: Code) {
        let Some(call) = self.calls.remove(flow) else { return };
        self.ids.remove(&call.id);
        self.wishes.push_back(Wish::Gone(call.id, code));
        if !call.wanted.packets.is_empty() {
            self.wishes.push_back(Wish::News(DomainNews::FlowGone { id: DECIDED_HERE | call.id }));
        }
    }

    fn row(&self, flow: &FlowId) -> Option<ShownReservation> {
        let call = self.calls.get(flow)?;
        let (bps, wanted) = (self.leases.flow(flow)?, call.wanted.clone());
        Some(ShownReservation {
            id: call.id,
            owner: flow.owner.clone(),
            key: flow.idem.clone(),
            kind: ReservationKind::Flow,
            state: ReservationState::Held,
            twin: None,
            from: wanted.from,
            to: wanted.to,
            class: wanted.class,
            bps,
            floor_bps: None,
            priority: wanted.priority,
            created_ms: call.created_ms,
            expires_ms: call.expires.0.saturating_add(self.day) / 1_000_000,
            packets: wanted.packets,
            dscp: wanted.dscp,
            note: wanted.note,
        })
    }

    fn list(&self) -> Vec<ShownReservation> {
        self.ids.values().filter_map(|flow| self.row(flow)).collect()
    }
}

/// A life that is asked for.
fn life(ms: Option<u64>) -> Result<Duration, Refusal> {
    let ms = ms.unwrap_or(LIVES[0]);
    let wrong = || Refusal::new(Code::OutOfRange, format!("a life is not from 1 to {} ms", LIVES[1]));
    (1..=LIVES[1]).contains(&ms).then(|| Duration::from_millis(ms)).ok_or_else(wrong)
}

/// The refusal as interfaces show it.
fn in_words(refusal: perhop_broker::lease::Refusal) -> Refusal {
    let perhop_broker::lease::Refusal { code, link, class, asked_bps, free_bps } = refusal;
    let message = match code {
        Code::BackendFailed => "the lease has no room for it, and the controller cannot be reached",
        Code::Timeout => {
            "the lease has no room for it, and neither controller nor router has answered in time"
        }
        Code::NoCapacity => "the lease has no room for it, and no more is to be had",
        Code::LimitReached => "there are as many flows as there may be",
        _ => "it cannot be had",
    };
    Refusal { link, class, asked_bps, free_bps, ..Refusal::new(code, message) }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
