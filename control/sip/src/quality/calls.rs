//! Reservations for calls: the proxies of caller and callee each reserve what their phone sends, once the callee has answered.
//!
//! ```text
//!  caller     caller's proxy                     callee's proxy     callee
//!    │ INVITE ──► │ INVITE + who reserves ──────────► │ INVITE ────► │
//!    │            │                                   │ ◄──── 200 OK │   held
//!    │            │                        ask ◄──────│              │   at the callee's edge router
//!    │            │                        granted ──►│              │
//!    │            │ ◄────────── 200 OK + what is done │              │   held
//!    │            │──► ask at the caller's edge router│              │
//!    │            │◄── granted                        │              │
//!    │ ◄── 200 OK │                                   │              │
//! ```
//!
//! Which proxy sees which side is a matter of [`Side`](crate::proxy::Side): a proxy that phones of both talk to does both. Calls that meet one such
//! proxy only are not reserved for. A reservation belongs to a dialog; its number follows from the call and the callee's tag, so a proxy that
//! has been started anew gives back what its predecessor reserved.
//!
//! All or nothing: where one part is refused the other is given back. The caller's proxy tells the callee's by the header in its ACK.

use super::dialog::{Dialog, Exchange, Part};
use super::header::Mode;
use super::leg::Event;
use super::order::{Ending, Order, Record, Request, ReservationId};
use super::settings::Settings;
use super::{Ticket, Verdict};
use perhop_reason::Code;
use perhop_units::{Instant, Rate, mix};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Most dialogs of one branch: phones that a later proxy has forked to.
pub(super) const MOST_DIALOGS: usize = 16;

/// Most records that wait to be asked for; of more the oldest are lost, and counted.
const MOST_RECORDS: usize = 65_536;

/// A branch that has begun a call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) call_id: Box<[u8]>,
    pub(super) caller: Box<str>,
    pub(super) callee: Box<str>,
    pub(super) begun: Instant,
    /// Whether the caller's phone, and the callee's, is one of ours.
    pub(super) caller_side: bool,
    pub(super) callee_side: bool,
    pub(super) mode: Mode,
    /// The caller's edge router, as its proxy has told.
    pub(super) far: Option<String>,
    pub(super) priority: u8,
    /// The INVITE's own exchange, which each dialog begins with.
    pub(super) first: Exchange,
    pub(super) dialogs: Vec<Dialog>,
    due: Option<Instant>,
}

impl Call {
    #[expect(clippy::too_many_arguments, reason = "what an INVITE says")]
    pub(super) fn new(
        now: Instant,
        call_id: &[u8],
        caller: String,
        callee: String,
        sides: (bool, bool),
        mode: Mode,
        far: Option<String>,
        priority: u8,
    ) -> Self {
        Self {
            call_id: call_id.into(),
            caller: caller.into(),
            callee: callee.into(),
            begun: now,
            caller_side: sides.0,
            callee_side: sides.1,
            mode,
            far,
            priority,
            first: Exchange::default(),
            dialogs: Vec::new(),
            due: None,
        }
    }
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that might be reserved for.
    pub calls: u64,
    /// Dialogs whose reservations were granted.
    pub reserved: u64,
    /// Dialogs whose reservations were refused or came too late.
    pub refused: u64,
    /// Calls beyond the limit.
    pub too_many: u64,
    /// Records that nobody has asked for in time.
    pub records_lost: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Calls {
    pub(super) settings: Settings,
    pub(super) calls: BTreeMap<u64, Call>,
    due: BTreeSet<(Instant, u64)>,
    ids: HashMap<ReservationId, u64>,
    tickets: Ticket,
    pub(super) decided: VecDeque<(Ticket, Verdict)>,
    pub(super) orders: VecDeque<Order>,
    records: VecDeque<Record>,
    pub(super) counters: Counters,
}

/// The number of a part of a dialog.
pub(super) fn reservation(call: u64, tag: &[u8], part: Part) -> ReservationId {
    let fold = |word: u64, octet: &u8| mix::spread(word ^ u64::from(*octet));
    ReservationId(mix::spread(tag.iter().fold(call, fold) ^ u64::from(part == Part::Callee)))
}

impl Calls {
    /// No calls yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            calls: BTreeMap::new(),
            due: BTreeSet::new(),
            ids: HashMap::new(),
            tickets: 0,
            decided: VecDeque::new(),
            orders: VecDeque::new(),
            records: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Decides by these settings from now on. What holds and what is asked for stays as it is.
    pub fn configure(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The next thing to be done by those who reserve.
    pub fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// The next thing to be said of a call.
    pub fn poll_record(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// What has happened so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Calls and reservations that there are: 0 and 0 when nothing is left over.
    pub fn live(&self) -> (usize, usize) {
        (self.calls.len(), self.ids.len())
    }

    /// All that holds, to be told anew to whoever has forgotten it.
    pub fn held(&self) -> impl Iterator<Item = (ReservationId, &Request)> {
        let dialogs = self.calls.values().flat_map(|call| &call.dialogs);
        dialogs.flat_map(Dialog::legs).map(|(_, leg)| (leg.id, &leg.request))
    }

    /// An answer to an order with this serial number. One that is late or of an older order changes nothing.
    pub fn answer(&mut self, now: Instant, id: ReservationId, serial: u32, answer: Result<(), Code>) {
        let Some((call, dialog, part)) = self.place(id) else { return };
        let Some(leg) = self.leg(call, dialog, part) else { return };
        if leg.serial == serial && leg.late.is_some() {
            let event = if answer.is_ok() { Event::Granted } else { Event::Refused };
            self.happened(now, call, dialog, part, event, answer.err());
        }
        self.plan(call);
    }

    /// A reservation was taken away.
    pub fn taken(&mut self, now: Instant, id: ReservationId, code: Code) {
        let Some((call, dialog, part)) = self.place(id) else { return };
        if self.leg(call, dialog, part).is_some_and(|leg| leg.late.is_some()) {
            // What is being asked for is refused by it.
            self.happened(now, call, dialog, part, Event::Taken, Some(code));
        } else if let Some(leg) = self.leg(call, dialog, part) {
            leg.take(now, Event::Taken);
            self.give_back(now, call, dialog, Ending::Taken(code), Some(code));
        }
        self.plan(call);
    }

    /// Neither side of a reservation has sent anything for long. What the session agrees on next is reserved for again.
    pub fn silent(&mut self, now: Instant, id: ReservationId) {
        if let Some((call, dialog, _)) = self.place(id) {
            self.give_back(now, call, dialog, Ending::Silent, None);
            self.plan(call);
        }
    }

    fn place(&self, id: ReservationId) -> Option<(u64, usize, Part)> {
        let call = *self.ids.get(&id)?;
        let dialogs = self.calls.get(&call)?.dialogs.iter().enumerate();
        dialogs
            .flat_map(|(at, d)| d.legs().map(move |(part, leg)| (at, part, leg.id)))
            .find_map(|(at, part, leg)| (leg == id).then_some((call, at, part)))
    }

    fn leg(&mut self, call: u64, dialog: usize, part: Part) -> Option<&mut super::leg::Leg> {
        self.calls.get_mut(&call)?.dialogs.get_mut(dialog)?.leg(part).as_mut()
    }

    pub(super) fn know(&mut self, id: ReservationId, call: u64) {
        self.ids.insert(id, call);
    }

    pub(super) fn forget_id(&mut self, id: ReservationId) {
        self.ids.remove(&id);
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }

    /// Ends the reservations of a dialog. With a code nothing more is tried for it.
    pub(super) fn give_back(
        &mut self,
        now: Instant,
        call: u64,
        at: usize,
        ending: Ending,
        code: Option<Code>,
    ) {
        let Some(of) = self.calls.get_mut(&call) else { return };
        let Some(dialog) = of.dialogs.get_mut(at) else { return };
        let tried = dialog.legs().next().is_some() || dialog.refused.is_some() || code.is_some();
        for part in [Part::Callee, Part::Caller] {
            if let Some(mut leg) = dialog.leg(part).take() {
                self.orders.extend(leg.take(now, Event::Ended));
                self.ids.remove(&leg.id);
            }
        }
        dialog.refused = dialog.refused.or(code);
        // Nobody answers any more what a response waits for.
        let waits = dialog.pending.as_mut().filter(|pending| pending.asked.is_some()).map(|pending| {
            pending.asked = None;
            pending.todo.clear();
            pending.refused = pending.refused.or(code).or(Some(Code::Timeout));
        });
        if tried && !dialog.told {
            dialog.told = code.is_some();
            if self.records.len() >= MOST_RECORDS {
                self.records.pop_front();
                self.counters.records_lost += 1;
            }
            self.records.push_back(Record {
                call_id: String::from_utf8_lossy(&of.call_id).into_owned(),
                caller: of.caller.to_string(),
                callee: of.callee.to_string(),
                begun: of.begun,
                answered: dialog.answered,
                ended: now,
                rate: std::mem::replace(&mut dialog.most, Rate::from_bits_per_sec(0)),
                reserved: std::mem::take(&mut dialog.reserved),
                ending,
            });
        }
        if waits.is_some() {
            self.decide(now, call, at);
        }
    }

    /// Ends a dialog, and its call with the last one.
    pub(super) fn end(&mut self, now: Instant, call: u64, at: usize, ending: Ending) {
        self.give_back(now, call, at, ending, None);
        let Some(of) = self.calls.get_mut(&call) else { return };
        if at < of.dialogs.len() {
            let dialog = of.dialogs.remove(at);
            let held = dialog.pending.into_iter().flat_map(|pending| pending.held);
            self.decided.extend(
                held.map(|(held, ticket)| (ticket, Verdict::Pass(super::pass::stripped(held.sides)))),
            );
        }
        if of.dialogs.is_empty() {
            self.forget(call);
        } else {
            self.plan(call);
        }
    }

    /// Ends all dialogs of a call.
    pub(super) fn end_all(&mut self, now: Instant, call: u64, ending: Ending) {
        while self.calls.get(&call).is_some_and(|of| !of.dialogs.is_empty()) {
            self.end(now, call, 0, ending);
        }
        self.forget(call);
    }

    fn forget(&mut self, call: u64) {
        if let Some(Call { due: Some(at), .. }) = self.calls.remove(&call) {
            self.due.remove(&(at, call));
        }
    }

    /// Notes when a call is looked at next.
    pub(super) fn plan(&mut self, call: u64) {
        let Some(of) = self.calls.get_mut(&call) else { return };
        let of_dialog = |dialog: &Dialog| dialog.legs().map(|(_, leg)| leg.due()).chain(dialog.expires).min();
        // Also a call that nobody ever ends is forgotten at last.
        let longest = of.begun + self.settings.longest;
        let due = of.dialogs.iter().filter_map(of_dialog).chain([longest]).min();
        if due != of.due {
            if let Some(at) = std::mem::replace(&mut of.due, due) {
                self.due.remove(&(at, call));
            }
            if let Some(at) = due {
                self.due.insert((at, call));
            }
        }
    }

    pub(super) fn wake_calls(&mut self, now: Instant) {
        while let Some(&(_, call)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.wake_call(now, call);
            self.plan(call);
            debug_assert!(
                self.due.first().is_none_or(|first| *first > (now, 0) || first.1 != call),
                "time goes on"
            );
        }
    }

    fn wake_call(&mut self, now: Instant, call: u64) {
        if self.calls.get(&call).is_some_and(|of| of.begun + self.settings.longest <= now) {
            return self.end_all(now, call, Ending::TooLong);
        }
        let mut at = 0;
        while let Some(of) = self.calls.get(&call)
            && let Some(dialog) = of.dialogs.get(at)
        {
            if dialog.expires.is_some_and(|expires| expires <= now) {
                self.end(now, call, at, Ending::NotRefreshed);
                continue;
            }
            for part in [Part::Callee, Part::Caller] {
                let Some(leg) = self.leg(call, at, part) else { continue };
                if leg.late.is_some_and(|late| late <= now) {
                    self.happened(now, call, at, part, Event::Late, Some(Code::Timeout));
                } else if leg.renew <= now {
                    let order = leg.take(now, Event::Half);
                    // What is still being asked for has its whole life before it.
                    leg.renew = leg.renew.max(now + perhop_units::Duration::from_nanos(1));
                    self.orders.extend(order);
                }
            }
            at += 1;
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}
