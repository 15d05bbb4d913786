//! SIP: messages, streams of them, descriptions of media, and a proxy that reserves for calls.

use super::Input;
use perhop_reason::Code;
use perhop_sip::Peer;
use perhop_sip::message::{Edit, Message, Name, Piece, Reply, Stream, Transport};
use perhop_sip::proxy::{self, Domain, Limits, Listen, Output, Proxy, Side, Zone};
use perhop_sip::quality::{Calls, OnRefusal, Order, Settings};
use perhop_sip::sdp::{CodecTable, Description, MAX_STREAMS, negotiate};
use perhop_sip::transaction::Timers;
use perhop_units::{Duration, Instant};
use std::net::SocketAddr;

/// A message is refused or passed on as it is; a stream gives the same however it is cut; whatever a proxy gets, it sends messages and forgets
/// them all.
pub fn proxy(data: &[u8]) {
    message(data);
    stream(data);
    run(&mut Input::new(data));
}

fn message(data: &[u8]) {
    let Ok(message) = Message::datagram(data) else { return };
    if message.check().is_err() {
        return;
    }
    let passed = Edit::new(&message).finish(false);
    let again = Message::datagram(&passed).expect("what is passed on is a message");
    again.check().expect("and a valid one");
    assert_eq!(Edit::new(&again).finish(false), passed, "once more changes nothing");
    assert_eq!(again.body(), message.body());
    let vias: Vec<_> = message.values(Name::Via).map(<[u8]>::to_vec).collect();
    let popped =
        Message::datagram(&Edit::new(&message).pop(Name::Via, 1).finish(true)).expect("still a message");
    assert_eq!(popped.values(Name::Via).collect::<Vec<_>>(), vias[1..]);
}

fn stream(data: &[u8]) {
    let read = |piece: usize| {
        let mut stream = Stream::default();
        let mut messages = Vec::new();
        for part in data.chunks(piece.max(1)) {
            stream.push(part);
            loop {
                match stream.next() {
                    Ok(Some(Piece::Message(message))) => messages.push(message.bytes().to_vec()),
                    Ok(Some(Piece::Ping)) => {}
                    Ok(None) => break,
                    Err(_) => return messages,
                }
            }
        }
        messages
    };
    assert_eq!(read(data.len()), read(7), "it does not matter where a stream is cut");
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 1, 0, last], 5060))
}

fn peer(address: SocketAddr) -> Peer {
    Peer { transport: Transport::Udp, address, connection: None }
}

fn settings() -> proxy::Settings {
    let zone = |last: u8, prefix, side| Zone { address: address(last).ip(), prefix, side };
    let domain = Domain {
        name: "b.example".into(),
        registrar: Some("sip:10.1.0.9".into()),
        users: vec![("bob".into(), "sip:bob@10.1.0.2".into()), ("bob".into(), "sip:bob@10.1.0.3".into())],
    };
    proxy::Settings {
        listen: vec![Listen { transport: Transport::Udp, host: "10.1.0.254".into(), port: 5060 }],
        names: vec![],
        domains: vec![domain],
        zones: vec![zone(9, 32, Side::Trusted), zone(0, 24, Side::Terminal)],
        timers: Timers::default(),
        timer_c: Duration::from_secs(185),
        resolve: Duration::from_secs(5),
        secret: [1; 16],
        seed: 0,
        limits: Limits { contexts: 64, records: 16, contacts: 4, connections: 2 },
    }
}

const ANSWER: &str = "v=0\r\nc=IN IP4 10.1.0.2\r\nm=audio 5000 RTP/AVP 0\r\n";

/// A response to a request that the proxy has sent, with a description and what makes it one of a dialog.
fn reply(request: &Message, status: u16) -> Vec<u8> {
    let bytes = Reply::new(request, status).tag("9".into()).bytes();
    let text = String::from_utf8_lossy(&bytes);
    let records: String = request
        .values(Name::RecordRoute)
        .map(|value| format!("Record-Route: {}\r\n", String::from_utf8_lossy(value)))
        .collect();
    let end = format!(
        "{records}Contact: <sip:bob@10.1.0.2>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    );
    text.replace("Content-Length: 0\r\n\r\n", &end).into_bytes()
}

/// The first byte of a step says what happens: a datagram of so many bytes from one of four, a response to the last request that was sent,
/// or time that passes.
fn run(input: &mut Input<'_>) {
    let mut quality = Settings::new("b.example", "er");
    quality.early = true;
    quality.on_refusal = OnRefusal::Refuse(580);
    let mut all = Proxy::new(settings(), Calls::new(quality));
    let mut now = Instant(1);
    let mut last: Option<Message> = None;
    let mut denies = 0_u8;
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        let step = input.byte();
        match step >> 6 {
            0 | 1 => {
                let len = usize::from(input.word());
                let from = peer(address([1, 2, 9, 200][usize::from(step & 3)]));
                all.handle_input(now, proxy::Input::Datagram(from, input.bytes(len).to_vec()));
            }
            2 => {
                let status = [100, 180, 183, 200, 302, 401, 486, 503, 603][usize::from(step & 63) % 9];
                if let Some(bytes) = last.as_ref().map(|request| reply(request, status)) {
                    all.handle_input(now, proxy::Input::Datagram(peer(address(2)), bytes));
                }
            }
            _ => {
                now += Duration::from_millis(u64::from(step & 63) * 600);
                denies = step;
                all.handle_input(now, proxy::Input::Wake);
            }
        }
        settle(&mut all, now, &mut last, denies);
    }
    for _ in 0..100_000 {
        let Some(at) = all.next_wakeup() else { break };
        now = now.max(at);
        all.handle_input(now, proxy::Input::Wake);
        settle(&mut all, now, &mut last, 0);
    }
    assert_eq!((all.under_way(), all.quality().live(), all.next_wakeup()), ((0, 0), (0, 0), None), "it ends");
}

fn settle(all: &mut Proxy<Calls>, now: Instant, last: &mut Option<Message>, denies: u8) {
    loop {
        while let Some(order) = all.quality_mut().poll_order() {
            if let Order::Reserve(id, serial, _) | Order::Change(id, serial, _) = order {
                let answer = if denies & 1 == 0 { Ok(()) } else { Err(Code::NoCapacity) };
                all.quality_mut().answer(now, id, serial, answer);
            }
        }
        all.handle_input(now, proxy::Input::Wake);
        let Some(output) = all.poll_output() else { return };
        match output {
            Output::Send { bytes, .. } => {
                let message = Message::datagram(&bytes).expect("a proxy sends messages");
                if message.is_request() {
                    message.check().expect("its requests are valid");
                    *last = Some(message);
                }
            }
            Output::Resolve { number, .. } => {
                all.handle_input(now, proxy::Input::Resolved(number, vec![address(2)]));
            }
            Output::Close(_) => {}
        }
    }
}

/// What is read keeps the limits, and what follows from it takes some of a link.
pub fn description(data: &[u8]) {
    let Ok(description) = Description::read(data) else { return };
    assert!(description.streams.len() <= MAX_STREAMS);
    let table = CodecTable::default();
    let other = Description::read(ANSWER.as_bytes()).expect("a description");
    for (offer, answer) in [(&description, &description), (&description, &other), (&other, &description)] {
        let flows = negotiate(offer, answer, &table);
        assert!(flows.streams <= offer.streams.len());
        for flow in flows.of_offerer.iter().chain(&flows.of_answerer) {
            assert!(flow.rate.bits_per_sec() > 0 && flow.to.port() > 0);
        }
    }
}
