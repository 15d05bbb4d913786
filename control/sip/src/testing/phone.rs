//! A phone that does as it is told: enough of a user agent (RFC 3261 §12 to §15) to make, answer, change and end calls over a network that loses
//! messages.

use crate::message::{COOKIE, Message, Method, Name, Reply, Transport};
use crate::peer::Peer;
use crate::transaction::{Id, Key, Timers, Transactions};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// What a phone does when it is called.
#[derive(Clone, Debug)]
pub(crate) struct Manners {
    /// After how long it rings, and whether its 183 has a description.
    pub(crate) ring: Option<(Duration, bool)>,
    /// After how long it answers, and how.
    pub(crate) answer: Option<(Duration, u16)>,
    /// Seconds of Session-Expires in its 2xx.
    pub(crate) expires: Option<u32>,
}

impl Default for Manners {
    fn default() -> Self {
        let ring = Some((Duration::from_millis(100), false));
        Self { ring, answer: Some((Duration::from_secs(1), 200)), expires: None }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Dialog {
    call_id: String,
    from: String,
    to: String,
    target: String,
    routes: Vec<String>,
    cseq: u32,
    /// The INVITE that is being answered, with its transaction.
    invite: Option<(Id, Message)>,
    /// The INVITE that was sent, for CANCEL.
    sent: Option<Message>,
    pub(crate) answered: bool,
    pub(crate) over: bool,
    /// The last final response.
    pub(crate) status: u16,
    /// A 2xx that no ACK has come for: when it is sent again.
    ok: Option<(Vec<u8>, Instant, Duration, Instant)>,
    ring_at: Option<Instant>,
    answer_at: Option<Instant>,
}

/// A phone.
#[derive(Debug)]
pub(crate) struct Phone {
    user: String,
    pub(crate) address: SocketAddr,
    proxy: Peer,
    pub(crate) sdp: String,
    pub(crate) manners: Manners,
    transactions: Transactions,
    pub(crate) dialogs: BTreeMap<u64, Dialog>,
    number: u64,
    out: VecDeque<(Peer, Vec<u8>)>,
    /// How often it has heard of reservations.
    pub(crate) heard: u32,
    /// Header fields that it puts into its INVITEs.
    pub(crate) more: String,
}

pub(crate) fn sdp(address: SocketAddr, formats: &str, more: &str) -> String {
    let ip = address.ip();
    format!(
        "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio 4000 RTP/AVP {formats}\r\n{more}"
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Phone {
    pub(crate) fn new(user: &str, address: SocketAddr, proxy: SocketAddr) -> Self {
        let proxy = Peer { transport: Transport::Udp, address: proxy, connection: None };
        Self {
            user: user.to_string(),
            address,
            proxy,
            sdp: sdp(address, "0", ""),
            manners: Manners::default(),
            transactions: Transactions::new(Timers::default()),
            dialogs: BTreeMap::new(),
            number: 0,
            out: VecDeque::new(),
            heard: 0,
            more: String::new(),
        }
    }

    /// Calls somebody; the number of the call.
    pub(crate) fn call(&mut self, now: Instant, uri: &str) -> u64 {
        self.call_with(now, uri, true)
    }

    /// Calls somebody who is to make the offer.
    pub(crate) fn call_without_offer(&mut self, now: Instant, uri: &str) -> u64 {
        self.call_with(now, uri, false)
    }

    fn call_with(&mut self, now: Instant, uri: &str, with_offer: bool) -> u64 {
        self.number += 1;
        let number = self.number;
        let domain = self.user.split('@').nth(1).expect("a domain");
        let dialog = Dialog {
            call_id: format!("{number}.{}@{domain}", self.user.split('@').next().expect("a user")),
            from: format!("<sip:{}>;tag=f{number}", self.user),
            to: format!("<{uri}>"),
            target: uri.to_string(),
            routes: vec![format!("<sip:{};lr>", self.proxy.address)],
            ..Dialog::default()
        };
        self.dialogs.insert(number, dialog);
        self.invite(now, number, with_offer);
        number
    }

    /// INVITE, the first or a later one.
    pub(crate) fn invite(&mut self, now: Instant, number: u64, with_offer: bool) {
        let body = if with_offer { self.sdp.clone() } else { String::new() };
        let more = self.more.clone();
        let sent = self.request(now, number, "INVITE", &more, &body);
        if let Some(dialog) = self.dialogs.get_mut(&number) {
            dialog.sent = sent;
        }
    }

    pub(crate) fn hang_up(&mut self, now: Instant, number: u64) {
        if self.dialogs.get(&number).is_some_and(|d| d.answered && !d.over) {
            self.request(now, number, "BYE", "", "");
            self.end(number);
        }
    }

    pub(crate) fn update(&mut self, now: Instant, number: u64) {
        let body = self.sdp.clone();
        self.request(now, number, "UPDATE", "", &body);
    }

    pub(crate) fn cancel(&mut self, now: Instant, number: u64) {
        let Some(sent) =
            self.dialogs.get(&number).filter(|d| !d.answered && !d.over).and_then(|d| d.sent.as_ref())
        else {
            return;
        };
        let cancel = sent.dependent("CANCEL", None);
        let branch = sent.via().and_then(|via| via.branch().map(<[u8]>::to_vec)).expect("a branch");
        self.transactions.client(now, cancel, &branch, b"CANCEL", self.proxy, 0);
    }

    fn end(&mut self, number: u64) {
        if let Some(dialog) = self.dialogs.get_mut(&number) {
            dialog.over = true;
            dialog.ok = None;
        }
    }

    fn build(&mut self, number: u64, method: &str, more: &str, body: &str, cseq: u32) -> (Vec<u8>, Vec<u8>) {
        self.number += 1;
        let branch =
            [COOKIE, format!("{}{}", self.address.port(), self.number).as_bytes(), self.user.as_bytes()]
                .concat();
        let branch = text(&branch).replace('@', "-");
        let dialog = &self.dialogs[&number];
        let routes: String = dialog.routes.iter().map(|r| format!("Route: {r}\r\n")).collect();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let message = format!(
            "{method} {} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch={branch}\r\nMax-Forwards: 70\r\n{routes}From: {}\r\nTo: {}\r\n\
             Call-ID: {}\r\nCSeq: {cseq} {method}\r\nContact: <sip:{}>\r\n{more}{kind}Content-Length: {}\r\n\r\n{body}",
            dialog.target,
            self.address,
            dialog.from,
            dialog.to,
            dialog.call_id,
            self.address,
            body.len()
        );
        (message.into_bytes(), branch.into_bytes())
    }

    fn request(
        &mut self,
        now: Instant,
        number: u64,
        method: &str,
        more: &str,
        body: &str,
    ) -> Option<Message> {
        let cseq = {
            let dialog = self.dialogs.get_mut(&number)?;
            dialog.cseq += 1;
            dialog.cseq
        };
        let (message, branch) = self.build(number, method, more, body, cseq);
        self.transactions.client(now, message.clone(), &branch, method.as_bytes(), self.proxy, number);
        Message::datagram(&message).ok()
    }

    fn find(&self, message: &Message) -> Option<u64> {
        let id = text(message.value(Name::CallId)?);
        self.dialogs.iter().find(|(_, d)| d.call_id == id).map(|(number, _)| *number)
    }

    pub(crate) fn receive(&mut self, now: Instant, bytes: &[u8]) {
        let message = Message::datagram(bytes).expect("proxies send messages");
        let head = message.check().expect("that are valid");
        self.heard += u32::from(message.value(Name::QosProxy).is_some());
        if !message.is_request() {
            let key = Key::client(head.via.branch().expect("ours"), head.method_text);
            if let Some((number, _, true)) = self.transactions.response(now, &key, &message) {
                self.response(number, &message, head.method);
            }
            return;
        }
        let key = Key::server(&head);
        if let Some((id, _)) = self.transactions.find(&key) {
            self.transactions.request(now, id, head.method == Method::Ack);
        } else {
            self.requested(now, &message, head.method, key);
        }
    }

    fn response(&mut self, number: u64, message: &Message, method: Method) {
        let status = message.status().expect("a response");
        if method != Method::Invite {
            return;
        }
        let Some(dialog) = self.dialogs.get_mut(&number) else { return };
        if status >= 300 {
            dialog.status = status;
            dialog.over |= !dialog.answered;
        }
        if !(200..300).contains(&status) {
            return;
        }
        if !dialog.answered {
            dialog.answered = true;
            dialog.status = status;
            dialog.to = text(message.value(Name::To).expect("checked"));
            dialog.routes = message.values(Name::RecordRoute).map(text).collect();
            dialog.routes.reverse();
        }
        let contact = message.contacts().next().expect("one").expect("good");
        dialog.target = text(contact.uri.text);
        let cseq = dialog.cseq;
        let body = if dialog.sent.as_ref().is_some_and(|sent| sent.body().is_empty()) {
            self.sdp.clone()
        } else {
            String::new()
        };
        let (ack, _) = self.build(number, "ACK", "", &body, cseq);
        self.out.push_back((self.proxy, ack));
    }

    fn requested(&mut self, now: Instant, message: &Message, method: Method, key: Key) {
        let known = self.find(message);
        if method == Method::Ack {
            if let Some(dialog) = known.and_then(|n| self.dialogs.get_mut(&n)) {
                dialog.ok = None;
            }
            return;
        }
        let server = self.transactions.server(key, method == Method::Invite, self.proxy, 0);
        match (method, known) {
            (Method::Invite, None) => self.ringing(now, message, server),
            (Method::Invite, Some(number)) => {
                let dialog = self.dialogs.get_mut(&number).expect("there");
                if dialog.over || dialog.invite.is_some() {
                    let bytes = Reply::new(message, 481).tag("x".into()).bytes();
                    self.transactions.respond(now, server, 481, bytes);
                } else {
                    dialog.invite = Some((server, message.clone()));
                    dialog.answer_at = Some(now);
                }
            }
            (Method::Cancel, _) => {
                let bytes = Reply::new(message, 200).tag("x".into()).bytes();
                self.transactions.respond(now, server, 200, bytes);
                let Some(dialog) = known.and_then(|n| self.dialogs.get_mut(&n)) else { return };
                if let Some((id, invite)) = dialog.invite.take() {
                    let bytes = Reply::new(&invite, 487).tag("x".into()).bytes();
                    self.transactions.respond(now, id, 487, bytes);
                    dialog.over = true;
                    (dialog.ring_at, dialog.answer_at) = (None, None);
                }
            }
            (Method::Bye, Some(number)) => {
                let bytes = Reply::new(message, 200).bytes();
                self.transactions.respond(now, server, 200, bytes);
                self.end(number);
            }
            (Method::Update, Some(_)) => {
                let bytes = with_body(message, 200, "x", "", &self.sdp.clone(), self.address);
                self.transactions.respond(now, server, 200, bytes);
            }
            _ => {
                let bytes = Reply::new(message, 481).tag("x".into()).bytes();
                self.transactions.respond(now, server, 481, bytes);
            }
        }
    }

    fn ringing(&mut self, now: Instant, message: &Message, server: Id) {
        self.number += 1;
        let number = self.number;
        let contact = message.contacts().next().expect("one").expect("good");
        let to = text(message.value(Name::To).expect("checked"));
        let dialog = Dialog {
            call_id: text(message.value(Name::CallId).expect("checked")),
            from: format!("{to};tag=t{number}-{}", self.address.ip()),
            to: text(message.value(Name::From).expect("checked")),
            target: text(contact.uri.text),
            routes: message.values(Name::RecordRoute).map(text).collect(),
            cseq: 100,
            invite: Some((server, message.clone())),
            ring_at: self.manners.ring.as_ref().map(|(after, _)| now + *after),
            answer_at: self.manners.answer.map(|(after, _)| now + after),
            ..Dialog::default()
        };
        self.dialogs.insert(number, dialog);
    }

    fn due(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let numbers: Vec<u64> = self.dialogs.keys().copied().collect();
        for number in numbers {
            let dialog = self.dialogs.get_mut(&number).expect("there");
            let tag = dialog.from.rsplit_once("tag=").map(|(_, tag)| tag.to_string()).unwrap_or_default();
            if due(dialog.ring_at) {
                dialog.ring_at = None;
                if let Some((id, invite)) = &dialog.invite {
                    let described = self.manners.ring.as_ref().is_some_and(|(_, described)| *described);
                    let (status, body) = if described { (183, self.sdp.as_str()) } else { (180, "") };
                    let bytes = with_body(invite, status, &tag, "", body, self.address);
                    self.transactions.respond(now, *id, status, bytes);
                }
            }
            if due(dialog.answer_at) {
                dialog.answer_at = None;
                let later = dialog.answered;
                let status = if later { 200 } else { self.manners.answer.map_or(200, |(_, status)| status) };
                if let Some((id, invite)) = dialog.invite.take() {
                    let timer = self
                        .manners
                        .expires
                        .map(|s| format!("Session-Expires: {s};refresher=uas\r\n"))
                        .unwrap_or_default();
                    let body = if status < 300 { self.sdp.as_str() } else { "" };
                    let bytes = with_body(&invite, status, &tag, &timer, body, self.address);
                    self.transactions.respond(now, id, status, bytes.clone());
                    dialog.status = status;
                    if status < 300 {
                        dialog.answered = true;
                        let wait = Duration::from_millis(500);
                        dialog.ok = Some((bytes, now + wait, wait, now + Duration::from_secs(32)));
                        dialog.invite = None;
                        dialog.sent = None;
                    } else {
                        dialog.over = true;
                    }
                }
            }
            self.repeat(now, number);
        }
        while self.transactions.due(now).is_some() {}
        while self.transactions.poll_over().is_some() {}
    }

    /// A 2xx again, and at last BYE (§13.3.1.4).
    fn repeat(&mut self, now: Instant, number: u64) {
        let dialog = self.dialogs.get_mut(&number).expect("there");
        let Some((bytes, at, wait, until)) = &mut dialog.ok else { return };
        if *at > now {
            return;
        }
        if *until <= now {
            return self.hang_up(now, number);
        }
        *wait = Duration::from_nanos(wait.0 * 2).min(Duration::from_secs(4));
        *at = now + *wait;
        let bytes = bytes.clone();
        self.out.push_back((self.proxy, bytes));
    }

    pub(crate) fn wake(&mut self, now: Instant) {
        self.due(now);
    }

    pub(crate) fn poll(&mut self) -> Option<(Peer, Vec<u8>)> {
        self.transactions.poll_send().map(|(_, peer, bytes)| (peer, bytes)).or_else(|| self.out.pop_front())
    }

    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        let of =
            |d: &Dialog| [d.ring_at, d.answer_at, d.ok.as_ref().map(|ok| ok.1)].into_iter().flatten().min();
        self.dialogs.values().filter_map(of).chain(self.transactions.next_wakeup()).min()
    }

    /// Forgets calls that are over and whose transactions are.
    pub(crate) fn tidy(&mut self) {
        self.dialogs.retain(|_, dialog| !dialog.over);
    }
}

fn with_body(
    request: &Message,
    status: u16,
    tag: &str,
    more: &str,
    body: &str,
    address: SocketAddr,
) -> Vec<u8> {
    let bytes = Reply::new(request, status).tag(tag.into()).bytes();
    let records: String =
        request.values(Name::RecordRoute).map(|v| format!("Record-Route: {}\r\n", text(v))).collect();
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let end = format!(
        "{records}{more}Contact: <sip:{address}>\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    text(&bytes).replace("Content-Length: 0\r\n\r\n", &end).into_bytes()
}
