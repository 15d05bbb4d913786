//! Calls through one proxy that reserves, as fast as it goes: `calls NUMBER PER_SECOND [live]`.
//!
//! Each call is INVITE, 180, 200, ACK, BYE, 200 over datagrams, with both reservations granted at once; virtual time goes on as if
//! `PER_SECOND` began each second, so transactions linger as they would. With `live` no call ends. It reads no clock: measure it from outside, as
//! with `/usr/bin/time -v`.

use perhop_sip::Peer;
use perhop_sip::message::{Message, Name, Reply, Transport};
use perhop_sip::proxy::{Domain, Input, Limits, Listen, Output, Proxy, Settings, Side, Zone};
use perhop_sip::quality::{self, Calls, Order};
use perhop_sip::transaction::Timers;
use perhop_units::{Duration, Instant};
use std::net::SocketAddr;

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 10.0.0.9\r\ns=-\r\nc=IN IP4 10.0.0.9\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0 8 18 101\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=ptime:20\r\na=sendrecv\r\n";

fn peer(last: u8) -> Peer {
    let address = SocketAddr::from(([10, 0, 0, last], 5060));
    Peer { transport: Transport::Udp, address, connection: None }
}

fn proxy() -> Proxy<Calls> {
    let settings = Settings {
        listen: vec![Listen { transport: Transport::Udp, host: "10.0.0.254".into(), port: 5060 }],
        names: vec![],
        domains: vec![Domain {
            name: "a.example".into(),
            registrar: None,
            users: vec![("bob".into(), "sip:bob@10.0.0.2".into())],
        }],
        zones: vec![Zone { address: peer(0).address.ip(), prefix: 24, side: Side::Terminal }],
        timers: Timers::default(),
        timer_c: Duration::from_secs(185),
        resolve: Duration::from_secs(5),
        secret: [1; 16],
        seed: 0,
        limits: Limits { contexts: 1_000_000, ..Limits::default() },
    };
    Proxy::new(settings, Calls::new(quality::Settings::new("a.example", "er")))
}

struct Run {
    proxy: Proxy<Calls>,
    now: Instant,
    messages: u64,
    orders: u64,
}

impl Run {
    /// Tells the proxy, grants what it asks for, and gives what it sends.
    fn tell(&mut self, input: Input) -> Vec<Message> {
        self.proxy.handle_input(self.now, input);
        while let Some(order) = self.proxy.quality_mut().poll_order() {
            self.orders += 1;
            if let Order::Reserve(id, serial, _) | Order::Change(id, serial, _) = order {
                self.proxy.quality_mut().answer(self.now, id, serial, Ok(()));
                self.proxy.handle_input(self.now, Input::Wake);
            }
        }
        let mut sent = Vec::new();
        while let Some(output) = self.proxy.poll_output() {
            if let Output::Send { bytes, .. } = output {
                sent.extend(Message::datagram(&bytes));
            }
        }
        while self.proxy.quality_mut().poll_record().is_some() {}
        self.messages += 1 + sent.len() as u64;
        sent
    }

    fn from(&mut self, last: u8, bytes: Vec<u8>) -> Vec<Message> {
        self.tell(Input::Datagram(peer(last), bytes))
    }

    fn call(&mut self, number: u64, ends: bool) {
        let request = |method: &str, cseq: u32, to: &str, route: &str, body: &str| {
            format!(
                "{method} sip:bob@a.example SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK{method}{number}\r\nMax-Forwards: 70\r\n{route}\
                 From: \"Alice\" <sip:alice@a.example>;tag=a{number}\r\nTo: <sip:bob@a.example>{to}\r\nCall-ID: {number}@10.0.0.1\r\n\
                 CSeq: {cseq} {method}\r\nContact: <sip:alice@10.0.0.1>\r\nUser-Agent: phone\r\nContent-Type: application/sdp\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        };
        let sent = self.from(1, request("INVITE", 1, "", "", SDP));
        let invite = sent.iter().find(|message| message.is_request()).expect("an INVITE goes on").clone();
        let record = String::from_utf8_lossy(invite.value(Name::RecordRoute).expect("one")).into_owned();
        for (status, body) in [(180, ""), (200, SDP)] {
            let reply = String::from_utf8(Reply::new(&invite, status).tag(format!("b{number}")).bytes())
                .expect("text");
            let end = format!(
                "Record-Route: {record}\r\nContact: <sip:bob@10.0.0.2>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let sent = self.from(2, reply.replace("Content-Length: 0\r\n\r\n", &end).into_bytes());
            assert_eq!(sent.first().and_then(Message::status), Some(status));
        }
        let (to, route) = (format!(";tag=b{number}"), format!("Route: {record}\r\n"));
        self.from(1, request("ACK", 1, &to, &route, ""));
        if ends {
            let sent = self.from(1, request("BYE", 2, &to, &route, ""));
            let bye = sent.into_iter().next().expect("a BYE goes on");
            let sent = self.from(2, Reply::new(&bye, 200).bytes());
            assert_eq!(sent.first().and_then(Message::status), Some(200));
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: u64| arguments.next().and_then(|a| a.parse().ok()).unwrap_or(otherwise);
    let (calls, per_second) = (number(100_000), number(2_000).max(1));
    let ends = arguments.next().is_none();
    let mut run = Run { proxy: proxy(), now: Instant(1), messages: 0, orders: 0 };
    for call in 0..calls {
        run.call(call, ends);
        run.now += Duration::from_nanos(1_000_000_000 / per_second);
        while run.proxy.next_wakeup().is_some_and(|at| at <= run.now) {
            run.tell(Input::Wake);
        }
    }
    let (transactions, contexts) = run.proxy.under_way();
    let (live, reservations) = run.proxy.quality().live();
    println!(
        "{calls} calls, {} messages, {} orders; left: {live} calls with {reservations} reservations, {transactions} transactions of {contexts} requests",
        run.messages, run.orders
    );
}
