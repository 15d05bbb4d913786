//! Messages that come in.

use super::context::Context;
use super::route::Routed;
use super::{Proxy, token};
use crate::message::{Edit, Fault, Head, Message, Method, Name, Reply, Via};
use crate::peer::Peer;
use crate::quality::Quality;
use crate::transaction::{Key, Told};
use perhop_units::Instant;
use std::net::SocketAddr;

impl<Q: Quality> Proxy<Q> {
    pub(super) fn receive(&mut self, now: Instant, peer: Peer, message: Message) {
        if message.is_request() {
            self.receive_request(now, peer, note_source(&peer, message));
        } else {
            self.receive_response(now, &message);
        }
    }

    fn receive_request(&mut self, now: Instant, peer: Peer, message: Message) {
        let head = match message.check() {
            Ok(head) => head,
            Err(fault) => return self.refuse_faulty(&peer, &message, fault),
        };
        let key = Key::server(&head);
        if let Some((id, owner)) = self.transactions.find(&key) {
            let told = self.transactions.request(now, id, head.method == Method::Ack);
            if told == Some(Told::Ack) {
                self.pass_ack(now, &peer, &message, &head);
            }
            debug_assert!(told.is_none() || self.contexts.contains_key(&owner));
            return;
        }
        match head.method {
            Method::Ack => self.pass_ack(now, &peer, &message, &head),
            Method::Cancel => self.cancel(now, &peer, &message, &head, key),
            _ => self.begin(now, peer, message, key),
        }
    }

    /// A request that is not valid is answered without a transaction: its parts may not suffice for one (RFC 3261 §16.3 item 1).
    fn refuse_faulty(&mut self, peer: &Peer, message: &Message, fault: Fault) {
        if message.method() == Some(Method::Ack) {
            self.counters.dropped += 1;
            return;
        }
        // A Via that cannot be read says nothing of where it came from.
        let to = message.via().and_then(|via| reply_peer(peer, &via)).unwrap_or(*peer);
        self.counters.answered += 1;
        let tag = token::tag(message, &self.settings.secret);
        self.send(to, Reply::new(message, fault.answer().0).tag(tag).bytes());
    }

    fn begin(&mut self, now: Instant, peer: Peer, message: Message, key: Key) {
        let Ok(head) = message.check() else { return };
        let Some(to) = reply_peer(&peer, &head.via) else {
            self.counters.dropped += 1;
            return;
        };
        if self.contexts.len() >= self.settings.limits.contexts {
            self.counters.overload += 1;
            let tag = token::tag(&message, &self.settings.secret);
            return self.send(to, Reply::new(&message, 503).tag(tag).bytes());
        }
        let invite = head.method == Method::Invite;
        let begins = head.to.tag().is_none();
        self.counters.requests += 1;
        self.next_context += 1;
        let id = self.next_context;
        let server = self.transactions.server(key, invite, to, id);
        let routed = self.route(now, &peer, &message, &head);
        if invite && matches!(routed, Routed::To { .. }) {
            self.transactions.respond(now, server, 100, Reply::new(&message, 100).bytes());
        }
        let side = self.settings.side(&peer);
        let context = Context {
            request: Some(message),
            server,
            peer,
            side,
            invite,
            begins,
            branches: Vec::new(),
            best: None,
            challenges: Vec::new(),
            finished: false,
            closed: false,
            transactions: 1,
        };
        self.contexts.insert(id, context);
        match routed {
            Routed::Answer(status) => self.answer(now, id, status),
            Routed::To { plans, token, route } => self.fork(now, id, plans, token, route),
        }
    }

    /// Answers the request of a context itself.
    pub(super) fn answer(&mut self, now: Instant, id: u64, status: u16) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let Some(request) = &context.request else { return };
        let mut reply = Reply::new(request, status).tag(token::tag(request, &self.settings.secret));
        if status == 420 {
            let asked: Vec<_> = request.values(Name::ProxyRequire).map(String::from_utf8_lossy).collect();
            reply = reply.with(Name::Unsupported, &asked.join(", "));
        }
        let bytes = reply.bytes();
        context.finished = true;
        self.counters.answered += 1;
        self.transactions.respond(now, context.server, status, bytes);
    }

    /// §16.10: the CANCEL is answered, and what it is for is cancelled where it may be.
    fn cancel(&mut self, now: Instant, peer: &Peer, message: &Message, head: &Head<'_>, key: Key) {
        let Some(to) = reply_peer(peer, &head.via) else { return };
        let found = self.transactions.find(&Key::cancelled(head));
        let status = if found.is_some() { 200 } else { 481 };
        let tag = token::tag(message, &self.settings.secret);
        let server = self.transactions.server(key, false, to, 0);
        self.transactions.respond(now, server, status, Reply::new(message, status).tag(tag).bytes());
        if let Some((_, id)) = found {
            if let Some(context) = self.contexts.get_mut(&id) {
                context.closed = true;
            }
            self.cancel_branches(now, id);
        }
    }

    /// A transaction is over; a context without one as well.
    pub(super) fn over(&mut self, owner: u64, _id: u64) {
        let Some(context) = self.contexts.get_mut(&owner) else { return };
        context.transactions = context.transactions.saturating_sub(1);
        self.drop_if_over(owner);
    }

    /// Forgets a context that nothing can happen to any more.
    pub(super) fn drop_if_over(&mut self, id: u64) {
        let Some(context) = self.contexts.get(&id) else { return };
        if context.transactions == 0 && !context.branches.iter().any(super::context::Branch::is_open) {
            debug_assert!(context.branches.iter().all(|b| b.due.is_none()), "nothing of it is due");
            self.contexts.remove(&id);
        }
    }
}

/// Notes the source of a request in its Via where that is not what the Via says (RFC 3261 §18.2.1, RFC 3581 §4).
fn note_source(peer: &Peer, message: Message) -> Message {
    let Some(via) = message.via() else { return message };
    let address = peer.address.ip().to_canonical();
    let same = crate::message::uri::address(via.host) == Some(address);
    if same && via.params.get("rport").is_none() && via.params.get("received").is_none() {
        return message;
    }
    let noted = Edit::new(&message).received(&address.to_string(), peer.address.port()).finish(false);
    // A faulty head may become unreadable by nothing that was changed: then it stays as it is.
    match Message::datagram(&noted) {
        Ok(noted) if noted.check().is_ok() => noted,
        _ => message,
    }
}

/// Where the responses of a request go (§18.2.2): back on its connection, or to where its Via says after the source was noted.
pub(super) fn reply_peer(peer: &Peer, via: &Via<'_>) -> Option<Peer> {
    if peer.transport.is_reliable() {
        return Some(*peer);
    }
    let (address, port) = via.reply_address().unwrap_or((peer.address.ip(), via.reply_to().1));
    Some(Peer { address: SocketAddr::new(address, port), ..*peer })
}
