//! Messages that pass: what they say of a call, and what is added to them.

use super::calls::{Call, Calls, MOST_DIALOGS, reservation};
use super::dialog::{Asked, Dialog, Part, session_expires};
use super::header::{Descriptor, Dir, Mode};
use super::order::{Ending, Order};
use super::{Change, Passing, Quality, Ticket, Verdict};
use crate::message::{Method, Name, Uri, scan};
use crate::proxy::Side;
use crate::sdp::Description;
use perhop_reason::Code;
use perhop_units::{Duration, Instant};

/// The header neither comes in from nor goes out to those whose word does not count.
pub(super) fn stripped(sides: (Side, Side)) -> Change {
    let strip = sides.0 != Side::Trusted || sides.1 != Side::Trusted;
    Change { strip, ..Change::default() }
}

/// `user@host`, as rules and records name somebody.
fn who(uri: &Uri<'_>) -> String {
    String::from_utf8_lossy(&uri.record()).into_owned()
}

impl Quality for Calls {
    fn request(&mut self, now: Instant, passing: &Passing<'_>) -> Change {
        let head = passing.head;
        if head.method == Method::Invite && passing.begins {
            return self.invited(now, passing);
        }
        let mut change = stripped((passing.from, passing.to));
        let call = passing.call;
        let Some(at) = self.dialog(passing) else {
            if head.method == Method::Bye {
                self.give_back_unknown(passing);
            }
            return change;
        };
        let Some(of) = self.calls.get_mut(&call) else { return change };
        let (caller_side, callee_side) = (of.caller_side, of.callee_side);
        let Some(dialog) = of.dialogs.get_mut(at) else { return change };
        let by_caller = head.from.tag() != Some(&dialog.tag);
        match head.method {
            Method::Bye => self.end(now, call, at, Ending::Bye),
            Method::Invite | Method::Update => dialog.begin(head.cseq, by_caller, passing.message),
            Method::Prack => {
                let answers = dialog.exchange.offer.as_ref().is_some_and(|(_, by)| *by != by_caller)
                    && dialog.media.is_none();
                if answers {
                    dialog.go_on(by_caller, passing.message, &self.settings);
                    self.settle(now, call, at, None);
                } else if !passing.message.body().is_empty() {
                    dialog.begin(head.cseq, by_caller, passing.message);
                }
            }
            Method::Ack if dialog.exchange.cseq == head.cseq && !dialog.exchange.closed => {
                dialog.go_on(by_caller, passing.message, &self.settings);
                dialog.close();
                of.first.offer = None;
                self.settle(now, call, at, None);
            }
            _ => {}
        }
        if head.method == Method::Ack {
            change = self.acknowledged(now, passing, at, caller_side, callee_side);
        }
        self.plan(call);
        change
    }

    fn response(&mut self, now: Instant, passing: &Passing<'_>) -> Verdict {
        let sides = (passing.from, passing.to);
        let head = passing.head;
        let status = passing.message.status().unwrap_or(0);
        let (call, carries) =
            (passing.call, matches!(head.method, Method::Invite | Method::Update | Method::Prack));
        let first = passing.begins && head.method == Method::Invite;
        if !carries || (first && !self.meet(passing)) {
            return Verdict::Pass(stripped(sides));
        }
        let Some(at) = self.dialog(passing) else { return Verdict::Pass(stripped(sides)) };
        let Some(of) = self.calls.get_mut(&call) else { return Verdict::Pass(stripped(sides)) };
        let Some(dialog) = of.dialogs.get_mut(at) else { return Verdict::Pass(stripped(sides)) };
        let by_caller = passing.begins || head.from.tag() != Some(&dialog.tag);
        let initial = first;
        if dialog.exchange.cseq == head.cseq && dialog.exchange.by_caller == by_caller {
            dialog.go_on(!by_caller, passing.message, &self.settings);
        }
        if status >= 200 {
            if head.method != Method::Invite {
                dialog.close();
            }
            if head.method != Method::Prack {
                let seconds = passing.message.value(Name::SessionExpires).and_then(session_expires);
                dialog.expires = seconds.map(|seconds| now + Duration::from_secs(seconds));
            }
            if initial && dialog.answered.is_none() {
                dialog.answered = Some(now);
                return self.answered(now, passing, at);
            }
        } else if !(initial && self.settings.early) || dialog.media.is_none() {
            return Verdict::Pass(stripped(sides));
        }
        let (method, cseq) = (head.method, head.cseq);
        self.settle(now, call, at, Some(Asked { status, method, cseq, by_caller, initial, sides }))
    }

    fn failed(&mut self, now: Instant, call: u64) {
        self.end_all(now, call, Ending::Unanswered);
    }

    fn poll_decided(&mut self) -> Option<(Ticket, Verdict)> {
        self.decided.pop_front()
    }

    fn wake(&mut self, now: Instant) {
        self.wake_calls(now);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.next_due()
    }
}

impl Calls {
    /// The first INVITE of a call: whether it is to have reservations.
    fn invited(&mut self, now: Instant, passing: &Passing<'_>) -> Change {
        let mut change = stripped((passing.from, passing.to));
        let (caller_side, callee_side) = (passing.from == Side::Terminal, passing.to == Side::Terminal);
        let told = passing.message.value(Name::QosProxy).filter(|_| passing.from == Side::Trusted);
        let told = told.and_then(Descriptor::read);
        let takes_part = match (caller_side, callee_side) {
            (true, callee) => callee || passing.to == Side::Trusted,
            (false, true) => told.is_some(),
            (false, false) => false,
        };
        let head = passing.head;
        let callee = head.uri.as_ref().map_or_else(String::new, who);
        let (caller, to) = (who(&head.from.uri), who(&head.to.uri));
        let rule = self.settings.rules.iter().find(|r| r.fits(&caller, &to) || r.fits(&caller, &callee));
        if !takes_part || rule.is_some_and(|rule| !rule.reserve) {
            return change;
        }
        self.end_all(now, passing.call, Ending::Unanswered);
        if self.calls.len() >= self.settings.most_calls {
            self.counters.too_many += 1;
            return change;
        }
        self.counters.calls += 1;
        let mode = told.as_ref().map_or(self.settings.mode, |told| told.mode);
        let offer = passing.message.body_of("application/sdp").and_then(|body| Description::read(body).ok());
        let phone = offer.and_then(|offer| offer.streams.first()?.address).filter(|_| caller_side);
        let er = self.settings.edge(phone).to_string();
        if caller_side && passing.to == Side::Trusted {
            let dir = if mode == Mode::Bi { Dir::Both } else { Dir::Send };
            let descriptor = Descriptor { er: er.clone(), realm: self.settings.realm.clone(), mode, dir };
            change.header = Some(descriptor.text());
        }
        change.record = format!(";er={er}");
        let sides = (caller_side, callee_side);
        let far = told.map(|told| told.er);
        let mut call = Call::new(now, head.call_id, caller, to, sides, mode, far, self.priority(passing));
        let mut begun = Dialog::new(b"", call.first.clone());
        begun.begin(head.cseq, true, passing.message);
        call.first = begun.exchange;
        self.calls.insert(passing.call, call);
        self.plan(passing.call);
        change
    }

    fn priority(&self, passing: &Passing<'_>) -> u8 {
        let told = passing.message.values(Name::ResourcePriority);
        let of = |value: &[u8]| {
            let found =
                self.settings.priorities.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(value));
            found.map(|(_, priority)| *priority)
        };
        told.filter_map(of).max().unwrap_or(0)
    }

    /// The dialog that a message belongs to.
    fn dialog(&self, passing: &Passing<'_>) -> Option<usize> {
        let tags = [passing.head.to.tag(), passing.head.from.tag()];
        let mut dialogs = self.calls.get(&passing.call)?.dialogs.iter();
        dialogs.position(|dialog| tags.contains(&Some(&*dialog.tag)))
    }

    /// A response to the first INVITE begins a dialog. Whether there is one, and the call is of interest still.
    fn meet(&mut self, passing: &Passing<'_>) -> bool {
        let Some(tag) = passing.head.to.tag() else { return false };
        let told = passing.message.value(Name::QosProxy).filter(|_| passing.from == Side::Trusted);
        let told = told.and_then(Descriptor::read);
        let Some(of) = self.calls.get_mut(&passing.call) else { return false };
        if of.dialogs.iter().all(|dialog| *dialog.tag != *tag) {
            if of.dialogs.len() >= MOST_DIALOGS {
                return false;
            }
            let mut dialog = Dialog::new(tag, of.first.clone());
            dialog.peer = of.far.is_some();
            of.dialogs.push(dialog);
        }
        let dialog = of.dialogs.iter_mut().find(|dialog| *dialog.tag == *tag);
        if let (Some(dialog), Some(told)) = (dialog, told) {
            // What a callee's side was refused, the caller's does not ask for.
            dialog.peer = told.dir != Dir::None || of.mode == Mode::Bi;
            dialog.far = Some(told.er);
        }
        true
    }

    /// The call is answered: other phones that rang have lost.
    fn answered(&mut self, now: Instant, passing: &Passing<'_>, at: usize) -> Verdict {
        let call = passing.call;
        let tag = self.calls.get(&call).and_then(|of| of.dialogs.get(at)).map(|dialog| dialog.tag.clone());
        while let Some(loser) = self.calls.get(&call).and_then(|of| {
            of.dialogs
                .iter()
                .position(|dialog| dialog.answered.is_none() && Some(&dialog.tag) != tag.as_ref())
        }) {
            self.end(now, call, loser, Ending::OtherAnswered);
        }
        let status = passing.message.status().unwrap_or(200);
        let sides = (passing.from, passing.to);
        match self.dialog(passing) {
            Some(at) => {
                let (method, cseq) = (passing.head.method, passing.head.cseq);
                let asked = Asked { status, method, cseq, by_caller: true, initial: true, sides };
                self.settle(now, call, at, Some(asked))
            }
            None => Verdict::Pass(stripped(sides)),
        }
    }

    /// An ACK tells the callee's proxy when the caller's was refused.
    fn acknowledged(
        &mut self,
        now: Instant,
        passing: &Passing<'_>,
        at: usize,
        caller_side: bool,
        callee_side: bool,
    ) -> Change {
        let mut change = stripped((passing.from, passing.to));
        let Some(of) = self.calls.get(&passing.call) else { return change };
        let Some(dialog) = of.dialogs.get(at) else { return change };
        let er = self.settings.er.clone();
        let realm = self.settings.realm.clone();
        if caller_side && dialog.refused.is_some() && passing.to == Side::Trusted {
            change.header = Some(Descriptor { er, realm, mode: of.mode, dir: Dir::None }.text());
        } else if callee_side && passing.from == Side::Trusted {
            let told = passing.message.value(Name::QosProxy).and_then(Descriptor::read);
            if told.is_some_and(|told| told.dir == Dir::None) && dialog.legs().next().is_some() {
                self.give_back(
                    now,
                    passing.call,
                    at,
                    Ending::Refused(Code::PeerRefused),
                    Some(Code::PeerRefused),
                );
            }
        }
        change
    }

    /// The end of a call that nothing is known of: an earlier instance may have reserved for it. Its own Record-Route says where.
    fn give_back_unknown(&mut self, passing: &Passing<'_>) {
        let er = passing.route.and_then(|route| route.params.get("er")).filter(|er| scan::token(er));
        let Some(er) = er.and_then(|er| String::from_utf8(er.to_vec()).ok()) else { return };
        if passing.call == 0 || self.calls.contains_key(&passing.call) {
            return;
        }
        for tag in [passing.head.to.tag(), passing.head.from.tag()].into_iter().flatten() {
            for part in [Part::Callee, Part::Caller] {
                self.orders.push_back(Order::Release(reservation(passing.call, tag, part), er.clone()));
            }
        }
    }
}
