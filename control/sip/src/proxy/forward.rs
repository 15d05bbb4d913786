//! Requests that go out (RFC 3261 §16.6).

use super::context::{Branch, BranchState, Hop, Plan};
use super::route::Routed;
use super::settings::Side;
use super::token::{self, Token};
use super::{Output, Proxy};
use crate::message::{Edit, Head, Message, Method, Name, Scheme, Transport, Uri};
use crate::peer::Peer;
use crate::quality::{Change, Passing, Quality};
use perhop_units::Instant;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Who waits for the addresses of a name.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A branch of a context.
    Branch(u64, u64),
    /// An ACK, which has no context.
    Ack(Box<Message>, Box<Plan>, Peer, Transport),
}

/// Most ACKs that wait for names.
const MOST_ACKS: usize = 1_000;

/// Hops that a request without Max-Forwards may take (§16.6 item 3).
const MAX_FORWARDS: u8 = 70;

impl<Q: Quality> Proxy<Q> {
    /// Begins a branch for each plan, all at once.
    pub(super) fn fork(
        &mut self,
        now: Instant,
        id: u64,
        plans: Vec<Plan>,
        token: Option<Token>,
        route: Option<Vec<u8>>,
    ) {
        let first = self.next_number + 1;
        for plan in plans {
            let call = token.map_or_else(|| self.word(), |token| token.call);
            self.next_number += 1;
            let number = self.next_number;
            let Some(context) = self.contexts.get_mut(&id) else { return };
            context.branches.push(Branch {
                number,
                state: BranchState::Resolving,
                plan,
                addresses: VecDeque::new(),
                side: Side::Outside,
                call,
                due: None,
                cancel: false,
                cancelled: false,
                token,
                route: route.clone(),
            });
        }
        for number in first..=self.next_number {
            let branch = self.contexts.get_mut(&id).and_then(|context| context.branch(number));
            match branch.and_then(|branch| branch.plan.hop.clone()) {
                Some(Hop::Address(peer)) => self.try_addresses(now, id, number, VecDeque::from([peer])),
                Some(Hop::Name(host, port, transport)) => {
                    self.resolving.insert(number, Waiting::Branch(id, number));
                    self.set_due(id, number, Some(now + self.settings.resolve));
                    self.outputs.push_back(Output::Resolve { number, host, port, transport });
                }
                None => self.lost(now, id, number, 416),
            }
        }
    }

    /// The addresses of a name have come.
    pub(super) fn resolved(&mut self, now: Instant, number: u64, addresses: Vec<SocketAddr>) {
        match self.resolving.remove(&number) {
            Some(Waiting::Branch(id, branch)) => {
                self.set_due(id, branch, None);
                let transport =
                    self.contexts.get_mut(&id).and_then(|c| c.branch(branch)).map(|b| b.plan.hop.clone());
                let Some(Some(Hop::Name(_, _, transport))) = transport else { return };
                let peer = |address| Peer { transport, address, connection: None };
                self.try_addresses(now, id, branch, addresses.into_iter().map(peer).collect());
            }
            Some(Waiting::Ack(message, plan, from, transport)) => {
                if let (Some(address), Ok(head)) = (addresses.first(), message.check()) {
                    let peer = Peer { transport, address: *address, connection: None };
                    self.send_ack(now, &from, peer, &message, &head, &plan, None, None);
                }
            }
            None => {}
        }
    }

    /// Sends a branch to the first of these addresses; the others are kept for when nobody answers there.
    pub(super) fn try_addresses(
        &mut self,
        now: Instant,
        id: u64,
        number: u64,
        mut addresses: VecDeque<Peer>,
    ) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let closed = context.closed || context.finished;
        let Some(branch) = context.branch(number) else { return };
        let Some(peer) = addresses.pop_front() else {
            return self.lost(now, id, number, 408);
        };
        if closed {
            return self.lost(now, id, number, 487);
        }
        branch.addresses = addresses;
        branch.side = self.settings.side(&peer);
        let made = self.make(now, id, number, &peer);
        let Some((bytes, unique, method)) = made else { return self.lost(now, id, number, 503) };
        let client = self.transactions.client(now, bytes, &unique, &method, peer, id);
        let timer_c = now + self.settings.timer_c;
        let Some(context) = self.contexts.get_mut(&id) else { return };
        context.transactions += 1;
        let invite = context.invite;
        if let Some(branch) = context.branch(number) {
            branch.state = BranchState::Sent(client);
        }
        if invite {
            self.set_due(id, number, Some(timer_c));
        }
    }

    /// The request of a branch, its own branch parameter and method.
    fn make(
        &mut self,
        now: Instant,
        id: u64,
        number: u64,
        peer: &Peer,
    ) -> Option<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        let word = self.word();
        let context = self.contexts.get(&id)?;
        let branch = context.branches.iter().find(|b| b.number == number)?;
        let message = context.request.as_ref()?;
        let head = message.check().ok()?;
        let own = branch.route.as_deref().and_then(Uri::read);
        let passing = Passing {
            message,
            head: &head,
            call: branch.call,
            begins: context.begins,
            from: context.side,
            to: branch.side,
            route: own.as_ref(),
        };
        let change = self.quality.request(now, &passing);
        let unique = token::branch(word, token::loop_mark(message, &head, &self.settings.secret));
        let records = matches!(head.method, Method::Invite | Method::Other);
        let marks = records.then(|| {
            let phone = |side: Side, peer: &Peer| (side == Side::Terminal).then_some(*peer);
            let fresh = Token {
                call: branch.call,
                up: phone(context.side, &context.peer),
                down: phone(branch.side, peer),
            };
            // A later INVITE of the call may come from the other side: what the first has found stays.
            branch.token.unwrap_or(fresh)
        });
        let sips = Uri::read(&branch.plan.uri).is_some_and(|uri| uri.scheme == Scheme::Sips);
        let records = match marks {
            Some(t) => self.record_route(&t, peer.transport, context.peer.transport, sips, &change.record)?,
            None => Vec::new(),
        };
        let bytes = self.finish(message, &head, &branch.plan, peer, &unique, &records, &change)?;
        Some((bytes, unique, head.method_text.to_vec()))
    }

    /// Values of Record-Route: one, or one for each side where the transports differ (RFC 5658 §3), the outgoing side's first.
    fn record_route(
        &self,
        token: &Token,
        out: Transport,
        back: Transport,
        sips: bool,
        more: &str,
    ) -> Option<Vec<String>> {
        let user = token.text(&self.settings.secret);
        let value = |transport: Transport| {
            let listen = self.settings.listen(transport)?;
            let scheme = if sips { "sips" } else { "sip" };
            let how = match transport {
                Transport::Udp => "",
                Transport::Tcp => ";transport=tcp",
                Transport::Tls if sips => "",
                Transport::Tls => ";transport=tls",
            };
            Some(format!("<{scheme}:{user}@{}{how};lr{more}>", listen.sent_by()))
        };
        let outgoing = value(out)?;
        Some(if out == back { vec![outgoing] } else { vec![outgoing, value(back)?] })
    }

    /// The changed request (§16.6 items 2 to 9).
    #[expect(clippy::too_many_arguments, reason = "all that makes a request another")]
    fn finish(
        &self,
        message: &Message,
        head: &Head<'_>,
        plan: &Plan,
        peer: &Peer,
        branch: &[u8],
        records: &[String],
        change: &Change,
    ) -> Option<Vec<u8>> {
        let listen = self.settings.listen(peer.transport)?;
        let mut edit = Edit::new(message);
        let via = format!("SIP/2.0/{} {};branch=", peer.transport.text(), listen.sent_by());
        edit.uri(&plan.uri).push(Name::Via, &[via.as_bytes(), branch, b";rport"].concat());
        for record in records {
            edit.push(Name::RecordRoute, record.as_bytes());
        }
        if plan.pop_last || plan.append.is_some() {
            let count = message.values(Name::Route).count() - usize::from(plan.pop_last);
            edit.remove(Name::Route);
            for value in message.values(Name::Route).take(count).skip(plan.pop).chain(plan.append.as_deref())
            {
                edit.push(Name::Route, value);
            }
        } else {
            edit.pop(Name::Route, plan.pop);
        }
        if change.strip || change.header.is_some() {
            edit.remove(Name::QosProxy);
        }
        if let Some(value) = &change.header {
            edit.push(Name::QosProxy, value.as_bytes());
        }
        let hops = head.max_forwards.map_or(MAX_FORWARDS, |hops| hops.saturating_sub(1));
        edit.set(Name::MaxForwards, hops.to_string().as_bytes());
        Some(edit.finish(peer.transport.is_reliable()))
    }

    /// Passes an ACK of a 2xx on: it is a request of its own that nobody answers (§13.2.2.4).
    pub(super) fn pass_ack(&mut self, now: Instant, from: &Peer, message: &Message, head: &Head<'_>) {
        let Routed::To { mut plans, token, route } = self.route(now, from, message, head) else {
            self.counters.dropped += 1;
            return;
        };
        let plan = plans.swap_remove(0);
        match plan.hop.clone() {
            Some(Hop::Address(peer)) => {
                self.send_ack(now, from, peer, message, head, &plan, token, route.as_deref())
            }
            Some(Hop::Name(host, port, transport))
                if self.resolving.len() < MOST_ACKS + self.contexts.len() =>
            {
                self.next_number += 1;
                let number = self.next_number;
                let until = now + self.settings.resolve;
                // What quality learns of it, it learns now.
                let own = route.as_deref().and_then(Uri::read);
                let side = self.settings.side(from);
                let call = token.map_or(0, |token| token.call);
                let to = Side::Outside;
                let passing =
                    Passing { message, head, call, begins: false, from: side, to, route: own.as_ref() };
                self.quality.request(now, &passing);
                let waiting = Waiting::Ack(Box::new(message.clone()), Box::new(plan), *from, transport);
                self.resolving.insert(number, waiting);
                self.due.insert((until, 0, number));
                self.outputs.push_back(Output::Resolve { number, host, port, transport });
            }
            _ => self.counters.dropped += 1,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a context would hold")]
    fn send_ack(
        &mut self,
        now: Instant,
        from: &Peer,
        peer: Peer,
        message: &Message,
        head: &Head<'_>,
        plan: &Plan,
        token: Option<Token>,
        route: Option<&[u8]>,
    ) {
        let own = route.and_then(Uri::read);
        let passing = Passing {
            message,
            head,
            call: token.map_or(0, |token| token.call),
            begins: false,
            from: self.settings.side(from),
            to: self.settings.side(&peer),
            route: own.as_ref(),
        };
        let change = self.quality.request(now, &passing);
        let unique = token::branch(self.word(), token::loop_mark(message, head, &self.settings.secret));
        if let Some(bytes) = self.finish(message, head, plan, &peer, &unique, &[], &change) {
            self.send(peer, bytes);
        }
    }

    /// When a branch is looked at again.
    pub(super) fn set_due(&mut self, id: u64, number: u64, due: Option<Instant>) {
        let Some(branch) = self.contexts.get_mut(&id).and_then(|context| context.branch(number)) else {
            return;
        };
        if let Some(at) = std::mem::replace(&mut branch.due, due) {
            self.due.remove(&(at, id, number));
        }
        if let Some(at) = due {
            self.due.insert((at, id, number));
        }
    }
}
