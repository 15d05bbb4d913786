//! One thing after the other: what a response waits for is asked for part by part, the callee's first, and then it is decided.

use super::calls::{Calls, reservation};
use super::dialog::{Asked, Dialog, Part, Pending, Terms};
use super::header::{Descriptor, Dir, Mode};
use super::leg::{Event, Leg};
use super::order::Ending;
use super::pass::stripped;
use super::settings::OnRefusal;
use super::{Change, Verdict};
use crate::proxy::Side;
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use std::collections::VecDeque;

/// What is to be reserved here for a dialog, in this order.
fn parts((caller_side, callee_side): (bool, bool), mode: Mode, dialog: &Dialog) -> VecDeque<Part> {
    let caller = caller_side && (callee_side || dialog.peer);
    let callee = callee_side && mode == Mode::Uni && (caller_side || dialog.peer);
    let mut todo = VecDeque::new();
    if dialog.refused.is_none() && dialog.media.is_some() {
        todo.extend(callee.then_some(Part::Callee));
        todo.extend(caller.then_some(Part::Caller));
    }
    todo
}

impl Calls {
    /// Asks for what a dialog needs now. Without a response nobody waits for it.
    pub(super) fn settle(&mut self, now: Instant, call: u64, at: usize, asked: Option<Asked>) -> Verdict {
        let ticket = self.ticket();
        let Some(of) = self.calls.get_mut(&call) else { return Verdict::Pass(Change::default()) };
        let (caller_side, callee_side, mode) = (of.caller_side, of.callee_side, of.mode);
        let Some(dialog) = of.dialogs.get_mut(at) else { return Verdict::Pass(Change::default()) };
        if let Some(pending) = &mut dialog.pending {
            let Some(asked) = asked else { return Verdict::Pass(Change::default()) };
            // The same response again has the same ticket.
            if let Some((_, ticket)) = pending.held.iter().find(|(held, _)| *held == asked) {
                return Verdict::Hold(*ticket);
            }
            // It may have brought another need than what is being asked for.
            pending.again = true;
            pending.initial |= asked.initial;
            pending.held.push((asked, ticket));
            return Verdict::Hold(ticket);
        }
        let todo = parts((caller_side, callee_side), mode, dialog);
        let held = asked.iter().map(|asked| (*asked, ticket)).collect();
        let initial = asked.is_some_and(|asked| asked.initial);
        dialog.pending = Some(Pending { held, initial, todo, asked: None, refused: None, again: false });
        self.advance(now, call, at);
        self.plan(call);
        let own = asked.is_some().then_some(ticket);
        let found = self.decided.iter().position(|(ticket, _)| Some(*ticket) == own);
        match (found.and_then(|at| self.decided.remove(at)), asked) {
            (Some((_, verdict)), _) => verdict,
            (None, Some(_)) => Verdict::Hold(ticket),
            (None, None) => Verdict::Pass(Change::default()),
        }
    }

    /// Goes on with what is to be asked for, until an answer must be waited for.
    fn advance(&mut self, now: Instant, call: u64, at: usize) {
        let patience = self.settings.patience;
        loop {
            let Some(of) = self.calls.get_mut(&call) else { return };
            let (mode, priority, sides) = (of.mode, of.priority, (of.caller_side, of.callee_side));
            let Some(dialog) = of.dialogs.get_mut(at) else { return };
            let far = dialog.far.clone().or(of.far.clone());
            let all = parts(sides, mode, dialog);
            let Some(pending) = &mut dialog.pending else { return };
            if pending.todo.is_empty() && pending.refused.is_none() && std::mem::take(&mut pending.again) {
                pending.todo = all;
            }
            let Some(part) = pending.todo.pop_front() else { break };
            let terms = Terms { settings: &self.settings, mode, far: far.as_deref(), priority };
            let request = dialog.request(part, &terms);
            let streams = dialog.media.as_ref().map_or(0, |media| media.streams);
            let id = reservation(call, &dialog.tag, part);
            let slot = dialog.leg(part);
            let order = match (slot.as_mut(), request) {
                (Some(leg), Some(request)) => leg.need(now, request, patience),
                (None, Some(request)) => {
                    let (leg, order) = Leg::new(now, id, request, patience);
                    *slot = Some(leg);
                    self.know(id, call);
                    Some(order)
                }
                // Nothing is sent for a while, but streams are there: hold. It is kept, lest it is gone when they go on.
                (Some(_), None) if streams > 0 => None,
                (Some(_), None) => {
                    self.give_back(now, call, at, Ending::NoMedia, None);
                    None
                }
                (None, None) => None,
            };
            if let Some(order) = order {
                self.orders.push_back(order);
                let pending =
                    self.calls.get_mut(&call).and_then(|of| of.dialogs.get_mut(at)?.pending.as_mut());
                if let Some(pending) = pending {
                    pending.asked = Some(part);
                }
                return;
            }
        }
        self.decide(now, call, at);
    }

    /// Something has happened to a reservation that was asked for.
    pub(super) fn happened(
        &mut self,
        now: Instant,
        call: u64,
        at: usize,
        part: Part,
        event: Event,
        code: Option<Code>,
    ) {
        let Some(of) = self.calls.get_mut(&call) else { return };
        let Some(dialog) = of.dialogs.get_mut(at) else { return };
        let Some(leg) = dialog.leg(part) else { return };
        self.orders.extend(leg.take(now, event));
        let over = leg.state == super::leg::State::Over;
        let id = leg.id;
        if over {
            *dialog.leg(part) = None;
        }
        let rate = dialog
            .legs()
            .fold(Rate::from_bits_per_sec(0), |sum, (_, leg)| sum.saturating_add(leg.request.rate()));
        if event == Event::Granted && rate > dialog.most {
            dialog.most = rate;
            dialog.reserved = dialog.legs().map(|(_, leg)| leg.request.reserved()).collect();
        }
        let waiting = match &mut dialog.pending {
            Some(pending) if pending.asked == Some(part) => {
                pending.asked = None;
                pending.refused = pending.refused.or(code);
                if code.is_some() {
                    pending.todo.clear();
                }
                true
            }
            _ => false,
        };
        if over {
            self.forget_id(id);
        }
        if waiting {
            self.advance(now, call, at);
        } else if over {
            let code = code.unwrap_or(Code::Preempted);
            self.give_back(now, call, at, Ending::Taken(code), Some(code));
        }
    }

    /// All is asked for that was to be, or something was refused.
    pub(super) fn decide(&mut self, now: Instant, call: u64, at: usize) {
        let Some(of) = self.calls.get_mut(&call) else { return };
        let Some(dialog) = of.dialogs.get_mut(at) else { return };
        let Some(pending) = dialog.pending.take() else { return };
        if let Some(code) = pending.refused {
            self.counters.refused += 1;
            // All or nothing at first; later a change that is refused leaves what was there.
            if pending.initial {
                self.give_back(now, call, at, Ending::Refused(code), Some(code));
            }
            if let (OnRefusal::Refuse(status), true) = (self.settings.on_refusal, pending.initial) {
                let reason = format!("SIP;cause={status};text=\"{code}\"");
                for (held, ticket) in pending.held {
                    let verdict = match held.initial {
                        true => Verdict::Refuse { status, reason: reason.clone() },
                        false => Verdict::Pass(stripped(held.sides)),
                    };
                    self.decided.push_back((ticket, verdict));
                }
                return self.end(now, call, at, Ending::Refused(code));
            }
        } else if pending.initial && dialog.legs().next().is_some() {
            self.counters.reserved += 1;
        }
        for (held, ticket) in pending.held {
            let change = if held.initial { self.marked(call, at, held.sides) } else { stripped(held.sides) };
            self.decided.push_back((ticket, Verdict::Pass(change)));
        }
    }

    /// What the response to the first INVITE carries onwards: what the callee's side has done.
    pub(super) fn marked(&self, call: u64, at: usize, sides: (Side, Side)) -> Change {
        let mut change = stripped(sides);
        let Some(of) = self.calls.get(&call).filter(|of| of.callee_side && sides.1 == Side::Trusted) else {
            return change;
        };
        let Some(dialog) = of.dialogs.get(at) else { return change };
        let phone = dialog
            .media
            .as_ref()
            .and_then(|m| m.callee.first()?.from.or(m.caller.first().map(|f| f.to.ip())));
        let dir = if dialog.refused.is_some() || of.mode == Mode::Bi { Dir::None } else { Dir::Send };
        let er = self.settings.edge(phone).to_string();
        change.header =
            Some(Descriptor { er, realm: self.settings.realm.clone(), mode: of.mode, dir }.text());
        change
    }
}
