//! Responses, and what comes instead of them (RFC 3261 §16.7, §16.9).

use super::Proxy;
use super::context::{BranchState, Plan};
use super::token;
use crate::message::{Edit, Message, Method, Name, Reply, Uri};
use crate::quality::{Change, Passing, Quality, Verdict};
use crate::transaction::{Id, Key};
use perhop_units::Instant;
use std::collections::VecDeque;

impl<Q: Quality> Proxy<Q> {
    pub(super) fn receive_response(&mut self, now: Instant, message: &Message) {
        let found = message.check().ok().and_then(|head| {
            let ours = self.settings.is_self(head.via.host, head.via.port);
            let key = Key::client(head.via.branch().filter(|_| ours)?, head.method_text);
            self.transactions.response(now, &key, message)
        });
        match found {
            Some((id, client, true)) => self.response(now, id, client, message),
            Some(_) => {}
            // RFC 6026 §7.3: what belongs to no request is not passed on.
            None => self.counters.dropped += 1,
        }
    }

    /// A response that client transaction `client` has not had before, or a 2xx again.
    fn response(&mut self, now: Instant, id: u64, client: Id, message: &Message) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let Some(branch) = context.branches.iter().find(|b| b.client() == Some(client)) else { return };
        let (number, call) = (branch.number, branch.call);
        let status = message.status().unwrap_or(500);
        match status {
            100 => self.provisional(now, id, number),
            101..=199 => {
                self.provisional(now, id, number);
                self.ask_and_pass(now, id, number, client, message);
            }
            200..=299 => match branch.state {
                BranchState::Refused(_, ended) => self.end_call(now, id, number, client, message, !ended),
                BranchState::Held(_) => {}
                _ => self.ask_and_pass(now, id, number, client, message),
            },
            _ => {
                if self.retry(now, id, number, status) {
                    return;
                }
                self.keep(id, number, client, status, message);
                self.set_due(id, number, None);
                self.failed_call(now, id, call);
                if status >= 600 {
                    if let Some(context) = self.contexts.get_mut(&id) {
                        context.closed = true;
                    }
                    self.cancel_branches(now, id);
                }
                self.finish_if_done(now, id);
            }
        }
    }

    /// A branch of an INVITE has come to nothing; those of later requests in a call say nothing of the call.
    fn failed_call(&mut self, now: Instant, id: u64, call: u64) {
        let begins = self.contexts.get(&id).is_some_and(|context| context.invite && context.begins);
        if begins {
            self.quality.failed(now, call);
        }
    }

    /// Keeps a final response that is none of success.
    fn keep(&mut self, id: u64, number: u64, client: Id, status: u16, message: &Message) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        if matches!(status, 401 | 407) {
            for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
                context
                    .challenges
                    .extend(message.fields(name).map(|f| (name, f.value.of(message.bytes()).to_vec())));
            }
        }
        let mut edit = Edit::new(message);
        edit.pop(Name::Via, 1);
        if matches!(status, 401 | 407) {
            edit.remove(Name::WwwAuthenticate).remove(Name::ProxyAuthenticate);
        }
        if context.side == super::Side::Outside {
            edit.remove(Name::QosProxy);
        }
        let stream = context.peer.transport.is_reliable();
        context.keep(status, edit.finish(stream));
        if let Some(branch) = context.branch(number) {
            branch.state = BranchState::Done(client);
        }
    }

    /// The request has arrived somewhere: timer C begins anew, and it may be cancelled now.
    fn provisional(&mut self, now: Instant, id: u64, number: u64) {
        let timer_c = now + self.settings.timer_c;
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let invite = context.invite;
        let Some(branch) = context.branch(number) else { return };
        if branch.cancelled || !branch.is_open() {
            return;
        }
        let cancel = branch.cancel;
        if invite {
            self.set_due(id, number, Some(timer_c));
        }
        if cancel {
            self.cancel_branch(now, id, number);
        }
    }

    /// Shows a response to quality and passes it on, unless it is held or refused.
    fn ask_and_pass(&mut self, now: Instant, id: u64, number: u64, client: Id, message: &Message) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let status = message.status().unwrap_or(0);
        let Some(branch) = context.branches.iter().find(|b| b.number == number) else { return };
        let Ok(head) = message.check() else { return };
        // What comes after the end is of interest only if it is one more 2xx to INVITE.
        if context.finished && (!context.invite || status < 200) {
            return;
        }
        let route = branch.route.clone();
        let own = route.as_deref().and_then(Uri::read);
        let (from, to, call) = (branch.side, context.side, branch.call);
        let begins = context.begins;
        let passing = Passing { message, head: &head, call, begins, from, to, route: own.as_ref() };
        match self.quality.response(now, &passing) {
            Verdict::Pass(change) => self.pass(now, id, number, client, message, &change),
            Verdict::Hold(ticket) => {
                if status >= 200 {
                    // By then quality has decided; whatever it does, no response is held longer.
                    self.set_due(id, number, Some(now + self.settings.timers.long()));
                    if let Some(branch) = self.contexts.get_mut(&id).and_then(|c| c.branch(number)) {
                        branch.state = BranchState::Held(client);
                    }
                }
                let before = self.held.insert(ticket, (id, number, client, Box::new(message.clone())));
                debug_assert!(
                    before.is_none_or(|held| (held.0, held.1) == (id, number)),
                    "a ticket is of one response"
                );
            }
            Verdict::Refuse { status, reason } => {
                self.refuse(now, id, number, client, message, status, &reason)
            }
        }
    }

    /// Quality has decided about a response.
    pub(super) fn decided(&mut self, now: Instant, ticket: u64, verdict: Verdict) {
        let Some((id, number, client, message)) = self.held.remove(&ticket) else { return };
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let finished = context.finished;
        let Some(branch) = context.branch(number) else { return };
        let is_final = message.status().is_some_and(|status| status >= 200);
        match branch.state {
            BranchState::Held(_) if is_final => {
                branch.state = BranchState::Sent(client);
                self.set_due(id, number, None);
            }
            BranchState::Held(_) | BranchState::Sent(_) if !is_final && !finished => {}
            // The branch has come to an end meanwhile.
            _ => return,
        }
        match verdict {
            Verdict::Pass(change) => self.pass(now, id, number, client, &message, &change),
            Verdict::Refuse { status, reason } => {
                self.refuse(now, id, number, client, &message, status, &reason)
            }
            Verdict::Hold(_) => debug_assert!(false, "a decision is one"),
        }
    }

    /// Passes a provisional or successful response on (§16.7 items 3, 5, 9, 10).
    fn pass(&mut self, now: Instant, id: u64, number: u64, client: Id, message: &Message, change: &Change) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let status = message.status().unwrap_or(0);
        let mut edit = Edit::new(message);
        edit.pop(Name::Via, 1);
        if change.strip || change.header.is_some() {
            edit.remove(Name::QosProxy);
        }
        if let Some(value) = &change.header {
            edit.push(Name::QosProxy, value.as_bytes());
        }
        let next = message.values(Name::Via).nth(1);
        let bytes = edit.finish(context.peer.transport.is_reliable());
        let server = context.server;
        if status >= 200 {
            if let Some(branch) = context.branch(number) {
                branch.state = BranchState::Done(client);
                // Only repetitions of this response can come.
                branch.plan = Plan::default();
                branch.addresses = VecDeque::new();
            }
            if !context.finished
                && let Some(request) = context.request.take()
                && request.method() == Some(Method::Register)
                && context.side == super::Side::Terminal
            {
                self.locations.learn(now, context.peer, &request, message);
            }
            context.finished = true;
            context.closed = true;
            context.best = None;
            self.set_due(id, number, None);
        }
        if next.is_none() {
            self.counters.dropped += 1;
        } else {
            self.transactions.respond(now, server, status, bytes);
        }
        if status >= 200 {
            self.cancel_branches(now, id);
        }
    }

    /// Nothing came from where client transaction `client` sent its request, or nothing could be sent there (§16.6 item 7, §16.9).
    pub(super) fn client_failed(&mut self, now: Instant, id: u64, client: Id) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let Some(branch) = context.branches.iter_mut().find(|b| b.client() == Some(client)) else { return };
        if matches!(branch.state, BranchState::Sent(_)) {
            let (number, addresses) = (branch.number, std::mem::take(&mut branch.addresses));
            self.set_due(id, number, None);
            self.try_addresses(now, id, number, addresses);
        }
    }

    /// A branch that found nobody counts as answered by `status`.
    pub(super) fn lost(&mut self, now: Instant, id: u64, number: u64, status: u16) {
        self.set_due(id, number, None);
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let Some(branch) = context.branch(number) else { return };
        branch.state = BranchState::Lost;
        let call = branch.call;
        // Of 408 there is nothing to keep: it is made when nothing better has come.
        if status != 408
            && let Some(request) = &context.request
        {
            let tag = token::tag(request, &self.settings.secret);
            let bytes = Reply::new(request, status).tag(tag).bytes();
            context.keep(status, bytes);
        }
        self.failed_call(now, id, call);
        self.finish_if_done(now, id);
    }

    /// A server that says 503 is not the last one of its name (RFC 3263 §4.3).
    fn retry(&mut self, now: Instant, id: u64, number: u64, status: u16) -> bool {
        let Some(branch) = self.contexts.get_mut(&id).and_then(|c| c.branch(number)) else { return false };
        if status != 503 || branch.addresses.is_empty() {
            return false;
        }
        let addresses = std::mem::take(&mut branch.addresses);
        self.set_due(id, number, None);
        self.try_addresses(now, id, number, addresses);
        true
    }

    /// Passes the best response on when no branch is open any more (§16.7 item 6).
    pub(super) fn finish_if_done(&mut self, now: Instant, id: u64) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        if context.finished || context.branches.iter().any(super::context::Branch::is_open) {
            return self.drop_if_over(id);
        }
        context.finished = true;
        let (server, invite) = (context.server, context.invite);
        let best = context.best.take();
        let challenges = std::mem::take(&mut context.challenges);
        let request = context.request.take();
        let own = |status: u16| {
            let request = request.as_ref()?;
            Some(Reply::new(request, status).tag(token::tag(request, &self.settings.secret)).bytes())
        };
        let answer = match best {
            Some((503, _)) => own(500).map(|bytes| (500, bytes)),
            Some((status @ (401 | 407), bytes)) => Message::datagram(&bytes).ok().map(|message| {
                let mut edit = Edit::new(&message);
                for (name, value) in &challenges {
                    edit.push(*name, value.trim_ascii());
                }
                (status, edit.finish(false))
            }),
            Some(best) => Some(best),
            // RFC 4320 §4.2: nobody waits for a 408 but the sender of an INVITE.
            None if invite => own(408).map(|bytes| (408, bytes)),
            None => None,
        };
        match answer {
            Some((status, bytes)) => {
                self.transactions.respond(now, server, status, bytes);
            }
            None => self.transactions.forget(server),
        }
        self.drop_if_over(id);
    }
}
