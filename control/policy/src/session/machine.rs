//! The machine of [`super`].

use super::clock::{Verdict, Why, Zone, judge};
use super::row::{Change, Leaving, SessionRow, Usage, with_own};
use super::states::{Event, State, step};
use super::{
    Arrival, GROUP, Grant, Input, LEAVE_AFTER, MAX_ID, MAX_LEAVING, MAX_WAITING, Output, RETRY, Refused,
    Which,
};
use crate::compile::{Present, Rates, objects_of};
use crate::diff::{ObjectChange, between};
use crate::model::Policy;
use crate::validate::limits;
use ipnet::IpNet;
use perhop_model::Name;
use perhop_units::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Ends of sessions that are remembered, so that a late report does not begin one anew.
const MAX_ENDED: usize = 65_536;

type Places = Vec<(Name, Present)>;

/// What is being written.
#[derive(Debug)]
struct Writing {
    group: u64,
    /// Places of each session in it as they were on record before.
    before: BTreeMap<Name, Places>,
    usage: BTreeSet<Name>,
    answers: Vec<(u64, u64)>,
}

/// What the store has at start.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// All sessions.
    pub sessions: Vec<SessionRow>,
    /// What subscribers have used.
    pub usage: Vec<(Name, Usage)>,
    /// The last number of the feed.
    pub feed_seq: u64,
}

/// See the module above.
#[derive(Debug)]
pub struct Users {
    policy: Arc<Policy>,
    zone: Zone,
    unix_ms_at_zero: u64,
    sessions: BTreeMap<Name, SessionRow>,
    usage: BTreeMap<Name, Usage>,
    by_id: BTreeMap<(Name, String), Name>,
    by_router: BTreeMap<Name, BTreeSet<Name>>,
    by_address: BTreeMap<IpNet, Name>,
    due: BTreeSet<(u64, Name)>,
    due_of: BTreeMap<Name, u64>,
    /// Who is moving, and the change that the new router must have; none = it is not written yet.
    reach: BTreeMap<Name, Option<u64>>,
    ended: BTreeMap<(Name, String), u64>,
    ended_order: VecDeque<(Name, String)>,
    /// Sessions that changed, and their places on record.
    dirty: BTreeMap<Name, Places>,
    dirty_usage: BTreeSet<Name>,
    waiting: Vec<(u64, u64)>,
    writing: Option<Writing>,
    held: bool,
    again: Option<Instant>,
    groups: u64,
    late: u64,
    outputs: VecDeque<Output>,
}

impl Users {
    /// Goes on from what is kept, under the policy in force. `unix_ms_at_zero`: ms from 1970 to the beginning of the clock. An
    /// [`Input::Tick`] must follow.
    pub fn new(kept: Kept, policy: Arc<Policy>, zone: Zone, unix_ms_at_zero: u64) -> Self {
        let mut this = Self {
            policy,
            zone,
            unix_ms_at_zero,
            sessions: BTreeMap::new(),
            usage: kept.usage.into_iter().collect(),
            by_id: BTreeMap::new(),
            by_router: BTreeMap::new(),
            by_address: BTreeMap::new(),
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            reach: BTreeMap::new(),
            ended: BTreeMap::new(),
            ended_order: VecDeque::new(),
            dirty: BTreeMap::new(),
            dirty_usage: BTreeSet::new(),
            waiting: Vec::new(),
            writing: None,
            held: false,
            again: None,
            groups: 0,
            late: 0,
            outputs: VecDeque::new(),
        };
        for row in kept.sessions {
            let name = row.subscriber.clone();
            if !row.leaving.is_empty() {
                this.reach.insert(name.clone(), Some(kept.feed_seq));
            }
            this.index(row);
            // It is judged with the first input.
            this.due.insert((0, name.clone()));
            this.due_of.insert(name, 0);
        }
        this
    }

    /// Takes one input. All outputs must be polled before the next. O(log sessions) for one session, O(sessions) for a policy.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        let ms = self.ms(now);
        match input {
            Input::Came { request, arrival } => self.ask(request, |this| this.came(ms, *arrival, None)),
            Input::Used { request, arrival, octets } => {
                self.ask(request, |this| this.used(ms, *arrival, octets));
            }
            Input::Left { request, which, octets } => self.ask(request, |this| this.left(ms, &which, octets)),
            Input::Grant { request, which, grant } => {
                self.ask(request, |this| this.granted(ms, &which, &grant))
            }
            Input::Restarted { router, age } => {
                let said = ms.saturating_sub(age.as_nanos() / 1_000_000);
                for name in self.by_router.get(&router).cloned().unwrap_or_default() {
                    if self.sessions.get(&name).is_some_and(|row| row.since_ms <= said) {
                        self.end(ms, &name, None);
                    }
                }
            }
            Input::Reported { router, seq } => self.reported(ms, &router, seq),
            Input::Hold => self.held = true,
            Input::Policy(policy) => {
                (self.policy, self.held) = (policy, false);
                self.by_address.clear();
                for (name, row) in &self.sessions {
                    for net in row.prefixes.iter().chain(own(&self.policy, name)) {
                        self.by_address.entry(*net).or_insert_with(|| name.clone());
                    }
                }
                for name in self.sessions.keys().cloned().collect::<Vec<_>>() {
                    self.judge(ms, &name);
                }
            }
            Input::Written { group, seq } => self.written(now, group, seq),
            Input::Tick => {}
        }
        while let Some((_, name)) = self.due.first().filter(|(due, _)| *due <= ms).cloned() {
            self.judge(ms, &name);
        }
        self.write(now);
        self.check();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let at = |ms: u64| Instant(ms.saturating_sub(self.unix_ms_at_zero).saturating_mul(1_000_000));
        let due = self.due.first().map(|(due, _)| at(*due));
        let again = self.again.filter(|_| !self.held && self.writing.is_none());
        due.into_iter().chain(again).min()
    }

    /// Sessions, by subscriber.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionRow> {
        self.sessions.values()
    }

    /// A subscriber's session.
    pub fn session(&self, subscriber: &Name) -> Option<&SessionRow> {
        self.sessions.get(subscriber)
    }

    /// Reports of what is over or elsewhere by now, so far.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Whether nothing is being written: only then [`Users::on_record`] is what the store has.
    pub fn is_settled(&self) -> bool {
        self.writing.is_none()
    }

    /// Who is present at which router, as it is on record, under a policy: what an edition's changes are made with, after
    /// [`Input::Hold`] and when nothing is being written. O(sessions).
    pub fn on_record(&self, policy: &Policy) -> BTreeMap<Name, BTreeMap<Name, Present>> {
        let mut all: BTreeMap<Name, BTreeMap<Name, Present>> = BTreeMap::new();
        let names: BTreeSet<&Name> = self.sessions.keys().chain(self.dirty.keys()).collect();
        for name in names {
            let places = self.dirty.get(name).cloned();
            let places = places.or_else(|| self.sessions.get(name).map(SessionRow::places));
            for (router, present) in places.into_iter().flatten() {
                let present = with_own(&present, own(policy, name));
                all.entry(router).or_default().insert(name.clone(), present);
            }
        }
        all
    }

    fn ms(&self, now: Instant) -> u64 {
        self.unix_ms_at_zero + now.as_nanos() / 1_000_000
    }

    // ---- what is reported

    fn ask(&mut self, request: u64, act: impl FnOnce(&mut Self) -> Result<u64, Refused>) {
        let answer = match self.waiting.len() < MAX_WAITING {
            true => act(self),
            false => Err(Refused::Overload),
        };
        match answer {
            // Who repeats what is under way waits for it as well.
            Ok(moves) if !self.dirty.is_empty() || self.writing.is_some() => {
                self.waiting.push((request, moves))
            }
            answer => {
                self.late += u64::from(answer == Err(Refused::Elsewhere));
                self.outputs.push_back(Output::Answer { request, answer });
            }
        }
    }

    fn came(&mut self, ms: u64, arrival: Arrival, octets: Option<u64>) -> Result<u64, Refused> {
        self.possible(&arrival)?;
        let said = ms.saturating_sub(arrival.age.as_nanos() / 1_000_000);
        let id = (arrival.router.clone(), arrival.id.clone());
        if self.ended.get(&id).is_some_and(|ended| said < *ended) {
            return Err(Refused::Elsewhere);
        }
        let name = arrival.subscriber.clone();
        let before = self.sessions.get(&name);
        let is_same = before.is_some_and(|row| row.router == arrival.router && row.id == arrival.id);
        if before.is_some_and(|row| said < row.since_ms) && !is_same {
            return Err(Refused::Elsewhere);
        }
        let here = |row: &SessionRow| {
            is_same && (said < row.since_ms || row.port == arrival.port && row.prefixes == arrival.prefixes)
        };
        let mut row = match before {
            Some(row) if here(row) => row.clone(),
            before => self.moved(ms, said, before.cloned(), &arrival, is_same),
        };
        row.seen_ms = row.seen_ms.max(said);
        self.grant(ms, &mut row, &arrival.grant);
        if let Some(octets) = octets {
            self.count(ms, &mut row, octets);
        }
        let moves = row.moves;
        // A router gives no name to two sessions: whoever had it is gone without a word.
        if let Some(other) = self.by_id.get(&id).filter(|other| **other != name).cloned() {
            self.end(ms, &other, Some(Why::Replaced));
        }
        let mine: Vec<IpNet> = own(&self.policy, &name).iter().chain(&row.prefixes).copied().collect();
        self.set(&name, Some(row));
        // An address is one session's: whoever had it before has lost it without saying so.
        for net in mine {
            if let Some(other) = self.by_address.get(&net).filter(|other| **other != name).cloned() {
                self.end(ms, &other, Some(Why::Replaced));
            }
            self.by_address.insert(net, name.clone());
        }
        self.judge(ms, &name);
        Ok(moves)
    }

    fn possible(&self, arrival: &Arrival) -> Result<(), Refused> {
        let subscriber = self.policy.subscribers.get(&arrival.subscriber).ok_or(Refused::NoSubscriber)?;
        if subscriber.at.is_some() {
            return Err(Refused::Fixed);
        }
        let router = self.policy.routers.get(&arrival.router).ok_or(Refused::NoPlace)?;
        if !router.ports.contains_key(&arrival.port) {
            return Err(Refused::NoPlace);
        }
        let addresses = subscriber.prefixes.len() + arrival.prefixes.len();
        if arrival.id.len() > MAX_ID || addresses > limits::PREFIXES {
            return Err(Refused::TooLong);
        }
        if addresses == 0 { Err(Refused::NoAddress) } else { Ok(()) }
    }

    /// The session where it is now; `is_same`: by the same name on the same router.
    fn moved(
        &mut self,
        ms: u64,
        said: u64,
        before: Option<SessionRow>,
        arrival: &Arrival,
        is_same: bool,
    ) -> SessionRow {
        let state = self.state(&arrival.subscriber);
        let is_elsewhere = before.as_ref().is_some_and(|row| row.router != arrival.router);
        let next = step(state, if is_elsewhere { Event::Elsewhere } else { Event::Came });
        debug_assert!(next.is_some(), "one can come in every state");
        let fresh = SessionRow {
            subscriber: arrival.subscriber.clone(),
            id: arrival.id.clone(),
            router: arrival.router.clone(),
            port: arrival.port.clone(),
            prefixes: arrival.prefixes.clone(),
            given: None,
            rates: Rates::default(),
            sla: arrival.subscriber.clone(),
            moves: 0,
            leaving: Vec::new(),
            source: arrival.source.clone(),
            began_ms: said,
            since_ms: said,
            seen_ms: said,
            expires_ms: None,
            idle_ms: None,
            octets: 0,
            counted: 0,
        };
        let Some(old) = before else { return fresh };
        let mut leaving = old.leaving.clone();
        leaving.retain(|place| place.router != arrival.router);
        if is_elsewhere {
            let until_ms = ms + LEAVE_AFTER.as_nanos() / 1_000_000;
            let (router, present) = old.places().swap_remove(0);
            leaving.push(Leaving { router, present, until_ms });
            if leaving.len() > MAX_LEAVING {
                leaving.remove(0);
            }
            self.reach.insert(arrival.subscriber.clone(), None);
        }
        let counted = if is_same { old.counted } else { 0 };
        let SessionRow { began_ms, given, rates, sla, expires_ms, idle_ms, octets, moves, .. } = old;
        let moves = moves + 1;
        SessionRow {
            leaving,
            began_ms,
            given,
            rates,
            sla,
            expires_ms,
            idle_ms,
            octets,
            counted,
            moves,
            ..fresh
        }
    }

    fn used(&mut self, ms: u64, arrival: Arrival, octets: u64) -> Result<u64, Refused> {
        let row = self.sessions.get(&arrival.subscriber);
        // An earlier place may go on reporting for a while.
        if row.is_some_and(|row| row.router != arrival.router || row.id != arrival.id) {
            return Err(Refused::Elsewhere);
        }
        self.came(ms, arrival, Some(octets))
    }

    fn left(&mut self, ms: u64, which: &Which, octets: Option<u64>) -> Result<u64, Refused> {
        let name = match self.find(which) {
            Ok(name) => name,
            Err(Refused::NoSession) => {
                // A start that comes after its stop, or again, is not to begin anything.
                if let Which::Session { router, id } = which {
                    self.remember(ms, (router.clone(), id.clone()));
                }
                return Ok(0);
            }
            Err(refused) => return Err(refused),
        };
        let Some(mut row) = self.sessions.get(&name).cloned() else { return Ok(0) };
        if let Some(octets) = octets {
            self.count(ms, &mut row, octets);
        }
        let moves = row.moves;
        self.end(ms, &name, None);
        Ok(moves)
    }

    fn granted(&mut self, ms: u64, which: &Which, grant: &Grant) -> Result<u64, Refused> {
        let name = self.find(which)?;
        let Some(mut row) = self.sessions.get(&name).cloned() else { return Err(Refused::NoSession) };
        self.grant(ms, &mut row, grant);
        let moves = row.moves;
        self.set(&name, Some(row));
        self.judge(ms, &name);
        Ok(moves)
    }

    fn find(&self, which: &Which) -> Result<Name, Refused> {
        match which {
            Which::Session { router, id } => {
                self.by_id.get(&(router.clone(), id.clone())).cloned().ok_or(Refused::NoSession)
            }
            Which::Subscriber { name, moves } => {
                let row = self.sessions.get(name).ok_or(Refused::NoSession)?;
                match moves {
                    Some(moves) if *moves != row.moves => Err(Refused::Elsewhere),
                    _ => Ok(name.clone()),
                }
            }
        }
    }

    fn grant(&self, ms: u64, row: &mut SessionRow, grant: &Grant) {
        let known = grant.sla.as_ref().filter(|sla| self.policy.slas.contains_key(sla));
        row.given = known.cloned().or(row.given.take());
        row.rates = Rates { up: grant.rates.up.or(row.rates.up), down: grant.rates.down.or(row.rates.down) };
        let millis = |time: perhop_units::Duration| time.as_nanos() / 1_000_000;
        row.expires_ms = grant.session_timeout.map(|time| ms + millis(time)).or(row.expires_ms);
        row.idle_ms = grant.idle_timeout.map(millis).or(row.idle_ms);
    }

    /// What a place counts begins at 0 with each session there, and may begin anew.
    fn count(&mut self, ms: u64, row: &mut SessionRow, octets: u64) {
        let more = octets.checked_sub(row.counted).unwrap_or(octets);
        row.counted = octets;
        row.octets = row.octets.saturating_add(more);
        let sla = row.given.as_ref().or_else(|| Some(&self.policy.subscribers.get(&row.subscriber)?.sla));
        let quota = sla.and_then(|sla| self.policy.slas.get(sla)).and_then(|sla| sla.quota.as_ref());
        let Some((start, _)) = quota.and_then(|quota| self.zone.period(quota.per, ms)) else { return };
        let usage = self.usage.entry(row.subscriber.clone()).or_default();
        if usage.since_ms < start {
            *usage = Usage { since_ms: start, octets: 0 };
        }
        usage.octets = usage.octets.saturating_add(more);
        self.dirty_usage.insert(row.subscriber.clone());
    }

    // ---- what time, routers and policies do

    /// Which contract counts now, or whether the session ends, and when that is to be asked again.
    fn judge(&mut self, ms: u64, name: &Name) {
        let Some(row) = self.sessions.get(name) else { return self.set_due(name, None) };
        let usage = self.usage.get(name).copied().unwrap_or_default();
        match judge(&self.policy, self.zone, row, usage, ms) {
            Verdict::Ends(why) => self.end(ms, name, Some(why)),
            Verdict::Goes(sla, until) => {
                let mut row = row.clone();
                let is_other = row.sla != sla;
                let is_told = is_other && row.sla != row.subscriber;
                let had = row.leaving.len();
                row.leaving.retain(|place| ms < place.until_ms);
                if is_other || row.leaving.len() < had {
                    row.sla = sla;
                    if row.leaving.is_empty() {
                        self.settle(name);
                    }
                    if is_told {
                        self.outputs.push_back(Output::Changed { row: Box::new(row.clone()) });
                    }
                    self.set(name, Some(row.clone()));
                }
                let leaves = row.leaving.iter().map(|place| place.until_ms);
                let due = leaves.chain(until).min();
                self.set_due(name, due.map(|due| due.max(ms + 1)));
            }
        }
    }

    fn reported(&mut self, ms: u64, router: &Name, seq: u64) {
        let moving = self.by_router.get(router).into_iter().flatten();
        let there = |name: &&Name| matches!(self.reach.get(*name), Some(Some(wanted)) if *wanted <= seq);
        for name in moving.filter(there).cloned().collect::<Vec<_>>() {
            self.settle(&name);
            if let Some(row) = self.sessions.get(&name).cloned() {
                self.set(&name, Some(SessionRow { leaving: Vec::new(), ..row }));
            }
            self.judge(ms, &name);
        }
    }

    fn settle(&mut self, name: &Name) {
        if self.reach.remove(name).is_some() {
            debug_assert_eq!(step(State::Moving, Event::Settled), Some(State::Present));
        }
    }

    fn end(&mut self, ms: u64, name: &Name, why: Option<Why>) {
        let Some(row) = self.sessions.get(name).cloned() else { return };
        debug_assert_eq!(step(self.state(name), Event::Left), Some(State::Absent));
        self.set(name, None);
        self.reach.remove(name);
        self.set_due(name, None);
        self.remember(ms, (row.router.clone(), row.id.clone()));
        if let Some(why) = why {
            self.outputs.push_back(Output::Ended { row: Box::new(row), why });
        }
    }

    fn remember(&mut self, ms: u64, id: (Name, String)) {
        if self.ended.insert(id.clone(), ms).is_none() {
            self.ended_order.push_back(id);
        }
        if self.ended_order.len() > MAX_ENDED
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    fn state(&self, name: &Name) -> State {
        match self.sessions.get(name) {
            None => State::Absent,
            Some(row) if row.leaving.is_empty() => State::Present,
            Some(_) => State::Moving,
        }
    }

    // ---- the table of sessions

    fn set(&mut self, name: &Name, row: Option<SessionRow>) {
        let before = self.sessions.remove(name);
        let places = before.as_ref().map(SessionRow::places).unwrap_or_default();
        self.dirty.entry(name.clone()).or_insert(places);
        if let Some(old) = before {
            self.by_id.remove(&(old.router.clone(), old.id.clone()));
            if let Some(of) = self.by_router.get_mut(&old.router) {
                of.remove(name);
                if of.is_empty() {
                    self.by_router.remove(&old.router);
                }
            }
            for net in old.prefixes.iter().chain(own(&self.policy, name)) {
                if self.by_address.get(net) == Some(name) {
                    self.by_address.remove(net);
                }
            }
        }
        if let Some(row) = row {
            self.index(row);
        }
    }

    fn index(&mut self, row: SessionRow) {
        let name = row.subscriber.clone();
        self.by_id.insert((row.router.clone(), row.id.clone()), name.clone());
        self.by_router.entry(row.router.clone()).or_default().insert(name.clone());
        for net in row.prefixes.iter().chain(own(&self.policy, &name)) {
            self.by_address.entry(*net).or_insert_with(|| name.clone());
        }
        self.sessions.insert(name, row);
    }

    fn set_due(&mut self, name: &Name, due: Option<u64>) {
        if let Some(before) = self.due_of.remove(name) {
            self.due.remove(&(before, name.clone()));
        }
        if let Some(due) = due {
            self.due.insert((due, name.clone()));
            self.due_of.insert(name.clone(), due);
        }
    }

    // ---- writing

    fn write(&mut self, now: Instant) {
        let may = self.writing.is_none() && !self.held && self.again.is_none_or(|again| again <= now);
        if !may || self.dirty.is_empty() && self.dirty_usage.is_empty() {
            return;
        }
        self.again = None;
        let rest = match self.dirty.keys().nth(GROUP).cloned() {
            Some(first) => self.dirty.split_off(&first),
            None => BTreeMap::new(),
        };
        let before = std::mem::replace(&mut self.dirty, rest);
        let usage = std::mem::take(&mut self.dirty_usage);
        let (mut changes, mut feed) = (Vec::new(), Vec::new());
        for (name, places) in &before {
            let row = self.sessions.get(name);
            changes.push(match row {
                Some(row) => Change::Session(Box::new(row.clone())),
                None => Change::SessionGone(name.clone()),
            });
            feed.extend(self.feed_of(name, places, &row.map(SessionRow::places).unwrap_or_default()));
        }
        // New places before old ones.
        feed.sort_by_key(|change: &ObjectChange| change.spec.is_none());
        changes.extend(
            usage
                .iter()
                .map(|name| Change::Usage(name.clone(), self.usage.get(name).copied().unwrap_or_default())),
        );
        self.groups += 1;
        let group = self.groups;
        // Who waits for what is left is answered with it.
        let answers = if self.dirty.is_empty() { std::mem::take(&mut self.waiting) } else { Vec::new() };
        self.writing = Some(Writing { group, before, usage, answers });
        self.outputs.push_back(Output::Write { group, changes, feed });
    }

    fn feed_of(&self, name: &Name, before: &Places, after: &Places) -> Vec<ObjectChange> {
        let routers: BTreeSet<&Name> = before.iter().chain(after).map(|(router, _)| router).collect();
        let mut out = Vec::new();
        for router in routers {
            let wanted = |places: &Places| {
                let present = places.iter().find(|(at, _)| at == router);
                let present = present.map(|(_, present)| with_own(present, own(&self.policy, name)));
                present.map(|present| objects_of(&self.policy, router, name, &present)).unwrap_or_default()
            };
            let change = |(key, spec)| ObjectChange { router: router.clone(), key, spec };
            out.extend(between(&wanted(before), &wanted(after)).into_iter().map(change));
        }
        out
    }

    fn written(&mut self, now: Instant, group: u64, seq: Option<u64>) {
        let Some(writing) = self.writing.take_if(|writing| writing.group == group) else { return };
        match seq {
            Some(seq) => {
                // Those who have not moved again since need no more than this.
                for name in writing.before.keys().filter(|name| !self.dirty.contains_key(*name)) {
                    if let Some(reach) = self.reach.get_mut(name) {
                        reach.get_or_insert(seq);
                    }
                }
                let answers = writing.answers.into_iter();
                self.outputs
                    .extend(answers.map(|(request, moves)| Output::Answer { request, answer: Ok(moves) }));
            }
            None => {
                self.again = Some(now + RETRY);
                self.dirty.extend(writing.before);
                self.dirty_usage.extend(writing.usage);
                let refused = Err(Refused::NotWritten);
                let answers = writing.answers.into_iter();
                self.outputs.extend(answers.map(|(request, _)| Output::Answer { request, answer: refused }));
            }
        }
    }

    fn check(&self) {
        debug_assert_eq!(self.by_id.len(), self.sessions.len(), "each session has one name");
        debug_assert!(self.due.len() == self.due_of.len());
        debug_assert!(
            self.reach.keys().all(|name| self.sessions.get(name).is_some_and(|row| !row.leaving.is_empty())),
            "who is on the way leaves something"
        );
    }
}

/// The addresses that are a subscriber's wherever it is.
fn own<'p>(policy: &'p Policy, name: &Name) -> &'p [IpNet] {
    policy.subscribers.get(name).map_or(&[], |subscriber| &subscriber.prefixes)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
