use super::*;
use crate::message::{Edit, Method, Name, NameAddr, Reply, Transport, Via};
use crate::quality::NoQuality;
use crate::testing::torture;
use crate::transaction::Timers;
use perhop_units::Duration;

const ALICE: &str = "10.1.0.1:5060";
const BOB: &str = "10.1.0.2:5060";
const CAROL: &str = "10.1.0.3:5060";
const OTHER: &str = "192.0.2.9:5060";

fn settings() -> Settings {
    let listen = |transport, port| Listen { transport, host: "10.1.0.254".into(), port };
    Settings {
        listen: vec![
            listen(Transport::Udp, 5060),
            listen(Transport::Tcp, 5060),
            listen(Transport::Tls, 5061),
        ],
        names: vec!["proxy.a.example".into()],
        domains: vec![Domain {
            name: "a.example".into(),
            registrar: Some("sip:10.9.9.9".into()),
            users: vec![("bob".into(), "sip:bob@10.1.0.2".into())],
        }],
        zones: vec![
            Zone { address: "10.1.0.0".parse().expect("an address"), prefix: 24, side: Side::Terminal },
            Zone { address: "10.0.0.0".parse().expect("an address"), prefix: 8, side: Side::Trusted },
        ],
        timers: Timers::default(),
        timer_c: Duration::from_secs(185),
        resolve: Duration::from_secs(5),
        secret: [7; 16],
        seed: 1,
        limits: Limits::default(),
    }
}

fn udp(address: &str) -> Peer {
    Peer { transport: Transport::Udp, address: address.parse().expect("an address"), connection: None }
}

/// A proxy, the time, and what it has sent since it was asked last.
struct Bench {
    proxy: Proxy<NoQuality>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        Self { proxy: Proxy::new(settings, NoQuality), now: Instant::ZERO }
    }

    fn take(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.proxy.poll_output()).collect()
    }

    /// Messages that were sent, with their receivers.
    fn sent(&mut self) -> Vec<(Peer, Message)> {
        let sent = |output| match output {
            Output::Send { to, bytes, .. } => (to, Message::datagram(&bytes).expect("a message")),
            other => panic!("{other:?}"),
        };
        self.take().into_iter().map(sent).collect()
    }

    fn receive(&mut self, from: &str, bytes: &[u8]) -> Vec<(Peer, Message)> {
        self.proxy.handle_input(self.now, Input::Datagram(udp(from), bytes.to_vec()));
        self.sent()
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) -> Vec<(Peer, Message)> {
        let until = self.now + time;
        let mut all = Vec::new();
        while let Some(at) = self.proxy.next_wakeup().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.proxy.handle_input(self.now, Input::Wake);
            all.extend(self.sent());
        }
        self.now = until;
        all
    }
}

/// What was sent, in words: receiver, and method or status.
fn words(sent: &[(Peer, Message)]) -> Vec<String> {
    let what = |message: &Message| match message.status() {
        Some(status) => status.to_string(),
        None => String::from_utf8_lossy(message.method_text()).into_owned(),
    };
    sent.iter().map(|(to, message)| format!("{} {}", to.address, what(message))).collect()
}

fn request(method: &str, uri: &str, more: &str) -> Vec<u8> {
    let branch = more.len() + uri.len();
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 10.1.0.1;branch=z9hG4bK{method}{branch}\r\nMax-Forwards: 70\r\nFrom: <sip:alice@a.example>;tag=1\r\n\
         To: <sip:bob@a.example>\r\nCall-ID: c1\r\nCSeq: 1 {method}\r\nContact: <sip:alice@10.1.0.1>\r\n{more}Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// A response to what was sent; to a dialog's INVITE with Record-Route and Contact.
fn reply(sent: &Message, status: u16, tag: &str, more: &str) -> Vec<u8> {
    let bytes = Reply::new(sent, status).tag(tag.into()).bytes();
    let mut text = String::from_utf8(bytes).expect("text");
    let records: String = sent
        .values(Name::RecordRoute)
        .map(|v| format!("Record-Route: {}\r\n", String::from_utf8_lossy(v)))
        .collect();
    text = text.replace("Content-Length", &format!("{records}{more}Content-Length"));
    text.into_bytes()
}

fn checked(message: &Message) -> crate::message::Head<'_> {
    message.check().expect("what a proxy sends is valid")
}

#[test]
fn a_call_goes_through_with_all_later_requests_of_it() {
    let mut bench = Bench::new();
    let sent = bench.receive(ALICE, &request("INVITE", "sip:bob@a.example", ""));
    assert_eq!(words(&sent), [format!("{ALICE} 100"), format!("{BOB} INVITE")]);
    let invite = sent[1].1.clone();
    let head = checked(&invite);
    assert_eq!((head.max_forwards, invite.uri_text()), (Some(69), &b"sip:bob@10.1.0.2"[..]));
    assert_eq!(invite.values(Name::Via).count(), 2);
    assert_eq!(invite.values(Name::RecordRoute).count(), 1);
    for status in [180, 200] {
        let sent = bench.receive(BOB, &reply(&invite, status, "9", "Contact: <sip:bob@10.1.0.2>\r\n"));
        assert_eq!(words(&sent), [format!("{ALICE} {status}")]);
        assert_eq!(sent[0].1.values(Name::Via).count(), 1);
    }
    let route = String::from_utf8_lossy(invite.value(Name::RecordRoute).expect("one")).into_owned();
    let routed = |method: &str, from: &str, to: &str| {
        format!(
            "{method} sip:{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{method}{to}\r\nMax-Forwards: 70\r\nRoute: {route}\r\n\
             From: <sip:alice@a.example>;tag=1\r\nTo: <sip:bob@a.example>;tag=9\r\nCall-ID: c1\r\nCSeq: 2 {method}\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let sent = bench.receive(ALICE, routed("ACK", "10.1.0.1", "bob@10.1.0.2").as_bytes());
    assert_eq!(words(&sent), [format!("{BOB} ACK")]);
    assert_eq!(sent[0].1.values(Name::Route).count(), 0, "our own Route is done");
    // The contact leads nowhere; the flow that the call began with does.
    let sent = bench.receive(BOB, routed("BYE", "10.1.0.2", "alice@172.16.0.1").as_bytes());
    assert_eq!(words(&sent), [format!("{ALICE} BYE")]);
    let sent = bench.receive(ALICE, &reply(&sent[0].1, 200, "1", ""));
    assert_eq!(words(&sent), [format!("{BOB} 200")]);
    bench.pass(Duration::from_secs(70));
    assert_eq!(bench.proxy.under_way(), (0, 0));
}

#[test]
fn repetitions_are_answered_and_not_passed_on() {
    let mut bench = Bench::new();
    let invite = request("INVITE", "sip:bob@a.example", "");
    let first = bench.receive(ALICE, &invite);
    assert_eq!(words(&bench.receive(ALICE, &invite)), [format!("{ALICE} 100")]);
    bench.receive(BOB, &reply(&first[1].1, 486, "9", ""));
    assert_eq!(words(&bench.receive(ALICE, &invite)), [format!("{ALICE} 486")]);
    assert_eq!(words(&bench.receive(BOB, &reply(&first[1].1, 486, "9", ""))), [format!("{BOB} ACK")]);
    let mut ack = String::from_utf8(invite)
        .expect("text")
        .replace("CSeq: 1 INVITE", "CSeq: 1 ACK")
        .replacen("INVITE", "ACK", 1);
    ack = ack.replace("To: <sip:bob@a.example>", "To: <sip:bob@a.example>;tag=9");
    assert!(
        bench.receive(ALICE, ack.as_bytes()).is_empty(),
        "the acknowledgment of a refusal is for the hop alone"
    );
    bench.pass(Duration::from_secs(70));
    assert_eq!(bench.proxy.under_way(), (0, 0));
}

/// Bob and Carol are one user with two phones.
fn forked(bench: &mut Bench) -> (Message, Message) {
    for (phone, tag) in [(BOB, "b"), (CAROL, "c")] {
        let contact = format!("sip:bob@{phone}");
        let register = request("REGISTER", "sip:a.example", &format!("Expires: 600\r\nX: {tag}\r\n"));
        let register = String::from_utf8(register)
            .expect("text")
            .replace("Contact: <sip:alice@10.1.0.1>", &format!("Contact: <{contact}>"));
        let register = register.replace("z9hG4bKREGISTER", &format!("z9hG4bK{tag}"));
        let sent = bench.receive(phone, register.as_bytes());
        assert_eq!(words(&sent), ["10.9.9.9:5060 REGISTER"]);
        let both =
            format!("Contact: <sip:bob@{BOB}>;expires=60\r\nContact: <sip:bob@{CAROL}>;expires=60\r\n");
        assert_eq!(
            words(&bench.receive("10.9.9.9:5060", &reply(&sent[0].1, 200, "r", &both)))[0].split(' ').nth(1),
            Some("200")
        );
    }
    let mut sent = bench.receive(ALICE, &request("INVITE", "sip:bob@a.example", ""));
    let mut to: Vec<_> = words(&sent)[1..].to_vec();
    to.sort();
    assert_eq!(
        to,
        [format!("{BOB} INVITE"), "10.1.0.2:5060 INVITE".into(), format!("{CAROL} INVITE")]
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    let carol = sent.pop().expect("two").1;
    (sent.pop().expect("two").1, carol)
}

/// With registrations only.
fn without_users() -> Settings {
    let mut settings = settings();
    settings.domains[0].users.clear();
    settings
}

/// Holds every 2xx and never decides.
#[derive(Debug)]
struct Undecided;

impl Quality for Undecided {
    fn request(&mut self, _: Instant, _: &crate::quality::Passing<'_>) -> crate::quality::Change {
        crate::quality::Change::default()
    }
    fn response(&mut self, _: Instant, _: &crate::quality::Passing<'_>) -> crate::quality::Verdict {
        crate::quality::Verdict::Hold(1)
    }
    fn failed(&mut self, _: Instant, _: u64) {}
    fn poll_decided(&mut self) -> Option<(u64, crate::quality::Verdict)> {
        None
    }
    fn wake(&mut self, _: Instant) {}
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn a_response_that_nobody_decides_about_is_passed_on_at_last() {
    let mut proxy = Proxy::new(settings(), Undecided);
    let mut now = Instant::ZERO;
    let sent = |proxy: &mut Proxy<Undecided>| {
        let all = std::iter::from_fn(|| proxy.poll_output());
        all.filter_map(
            |o| if let Output::Send { bytes, .. } = o { Message::datagram(&bytes).ok() } else { None },
        )
        .collect::<Vec<_>>()
    };
    proxy.handle_input(now, Input::Datagram(udp(ALICE), request("INVITE", "sip:bob@a.example", "")));
    let invite = sent(&mut proxy).pop().expect("sent on");
    proxy.handle_input(now, Input::Datagram(udp(BOB), reply(&invite, 200, "9", "")));
    assert!(sent(&mut proxy).is_empty(), "it is held");
    let mut passed = 0;
    while let Some(at) = proxy.next_wakeup() {
        now = now.max(at);
        proxy.handle_input(now, Input::Wake);
        passed += sent(&mut proxy).iter().filter(|m| m.status() == Some(200)).count();
    }
    assert_eq!((passed, proxy.under_way()), (1, (0, 0)));
}

#[test]
fn what_a_registrar_grants_is_learnt_and_what_it_takes_back_is_forgotten() {
    let learn = |all: &mut Locations, now: u64, more: &str, granted: &str| {
        let text = String::from_utf8(request("REGISTER", "sip:a.example", more)).expect("text");
        let text = text.replace("Contact: <sip:alice@10.1.0.1>\r\n", "");
        let register = Message::datagram(text.as_bytes()).expect("a message");
        let granted = Message::datagram(&reply(&register, 200, "r", granted)).expect("a message");
        all.learn(Instant(now * 1_000_000_000), udp(BOB), &register, &granted);
    };
    let places = |all: &Locations, now: u64| all.find(Instant(now * 1_000_000_000), b"bob@a.example").count();
    let mut all = Locations::new(1, 2);
    learn(
        &mut all,
        0,
        "m: <sip:b@x>;expires=90, <sip:b@y>\r\n",
        "m: <sip:b@x>;expires=30\r\nm: <sip:b@z>\r\n",
    );
    assert_eq!(
        (places(&all, 29), places(&all, 30)),
        (1, 0),
        "what is granted counts, and others' contacts do not"
    );
    learn(
        &mut all,
        1,
        "m: <sip:b@x>, <sip:b@y>, <sip:b@z>\r\nExpires: 60\r\n",
        "m: <sip:b@x>, <sip:b@y>, <sip:b@z>\r\n",
    );
    assert_eq!((places(&all, 60), places(&all, 61)), (2, 0), "not more than the limit");
    assert!(all.flow(b"sip:b@x").is_some());
    learn(&mut all, 2, "m: <sip:b@x>;expires=0\r\n", "m: <sip:b@y>;expires=60\r\n");
    assert_eq!((places(&all, 3), all.flow(b"sip:b@x")), (1, None));
    learn(&mut all, 3, "m: *\r\nExpires: 0\r\n", "");
    assert_eq!((places(&all, 3), all.records(), all.next_wakeup()), (0, 0, None));
}

#[test]
fn of_a_fork_one_answers_and_the_others_are_cancelled() {
    let mut bench = Bench::with(without_users());
    let (bob, carol) = forked(&mut bench);
    assert_ne!(checked(&bob).via.branch(), checked(&carol).via.branch());
    assert_ne!(
        bob.value(Name::RecordRoute),
        carol.value(Name::RecordRoute),
        "each branch is a call of its own"
    );
    assert_eq!(words(&bench.receive(BOB, &reply(&bob, 180, "b", ""))), [format!("{ALICE} 180")]);
    let sent = bench.receive(CAROL, &reply(&carol, 200, "c", ""));
    assert_eq!(words(&sent), [format!("{ALICE} 200"), format!("{BOB} CANCEL")]);
    let cancel = checked(&sent[1].1);
    assert_eq!((cancel.via.branch(), cancel.cseq), (checked(&bob).via.branch(), 1));
    assert!(bench.receive(BOB, &reply(&sent[1].1, 200, "x", "")).is_empty());
    assert_eq!(
        words(&bench.receive(BOB, &reply(&bob, 487, "b", ""))),
        [format!("{BOB} ACK")],
        "it is not passed on"
    );
    // Both may have answered at once: the caller hears of both (RFC 3261 §16.7 item 5).
    assert_eq!(words(&bench.receive(CAROL, &reply(&carol, 200, "c", ""))), [format!("{ALICE} 200")]);
    bench.pass(Duration::from_secs(100));
    assert_eq!((bench.proxy.under_way(), bench.proxy.records()), ((0, 0), 0), "registrations end too");
}

#[test]
fn the_best_of_several_refusals_is_passed_on() {
    for (first, second, expected) in [
        (486, 404, 486),
        (503, 480, 480),
        (503, 503, 500),
        (404, 603, 603),
        (302, 486, 302),
        (404, 407, 407),
        (500, 503, 500),
    ] {
        let mut bench = Bench::with(without_users());
        let (bob, carol) = forked(&mut bench);
        let sent = bench.receive(BOB, &reply(&bob, first, "b", ""));
        assert_eq!(words(&sent), [format!("{BOB} ACK")], "one is not all");
        let sent = bench.receive(CAROL, &reply(&carol, second, "c", ""));
        assert_eq!(words(&sent), [format!("{CAROL} ACK"), format!("{ALICE} {expected}")], "{first} {second}");
    }
}

#[test]
fn challenges_of_all_branches_are_gathered() {
    let mut bench = Bench::with(without_users());
    let (bob, carol) = forked(&mut bench);
    bench.receive(BOB, &reply(&bob, 401, "b", "WWW-Authenticate: Digest realm=\"b\", nonce=\"1\"\r\n"));
    let sent = bench
        .receive(CAROL, &reply(&carol, 407, "c", "Proxy-Authenticate: Digest realm=\"c\", nonce=\"2\"\r\n"));
    let answer = &sent[1].1;
    assert_eq!(answer.status(), Some(401));
    assert_eq!(answer.value(Name::WwwAuthenticate), Some(&b"Digest realm=\"b\", nonce=\"1\""[..]));
    assert_eq!(answer.value(Name::ProxyAuthenticate), Some(&b"Digest realm=\"c\", nonce=\"2\""[..]));
}

#[test]
fn a_6xx_ends_the_other_branches_and_is_passed_on_when_they_have_ended() {
    let mut bench = Bench::with(without_users());
    let (bob, carol) = forked(&mut bench);
    bench.receive(BOB, &reply(&bob, 180, "b", ""));
    let sent = bench.receive(CAROL, &reply(&carol, 600, "c", ""));
    assert_eq!(words(&sent), [format!("{CAROL} ACK"), format!("{BOB} CANCEL")]);
    assert_eq!(
        words(&bench.receive(BOB, &reply(&bob, 487, "b", ""))),
        [format!("{BOB} ACK"), format!("{ALICE} 600")]
    );
}

#[test]
fn a_cancel_is_answered_and_reaches_every_branch_as_soon_as_it_may() {
    let mut bench = Bench::with(without_users());
    let (bob, carol) = forked(&mut bench);
    bench.receive(BOB, &reply(&bob, 180, "b", ""));
    let invite = String::from_utf8(request("INVITE", "sip:bob@a.example", "")).expect("text");
    let cancel = invite.replacen("INVITE", "CANCEL", 1).replace("1 INVITE", "1 CANCEL");
    let sent = bench.receive(ALICE, cancel.as_bytes());
    assert_eq!(words(&sent), [format!("{ALICE} 200"), format!("{BOB} CANCEL")], "Carol has not answered yet");
    let sent = bench.receive(CAROL, &reply(&carol, 180, "c", ""));
    assert!(words(&sent).contains(&format!("{CAROL} CANCEL")), "{:?}", words(&sent));
    bench.receive(BOB, &reply(&bob, 487, "b", ""));
    let sent = bench.receive(CAROL, &reply(&carol, 487, "c", ""));
    assert_eq!(words(&sent), [format!("{CAROL} ACK"), format!("{ALICE} 487")]);
    let stray = cancel.replace("z9hG4bKINVITE", "z9hG4bKelse");
    assert_eq!(words(&bench.receive(ALICE, stray.as_bytes())), [format!("{ALICE} 481")]);
    bench.pass(Duration::from_secs(100));
    assert_eq!(bench.proxy.under_way(), (0, 0));
}

#[test]
fn who_rings_for_ever_is_cancelled_and_who_does_not_answer_that_is_given_up() {
    let mut bench = Bench::new();
    let invite = bench.receive(ALICE, &request("INVITE", "sip:bob@a.example", "")).pop().expect("sent").1;
    bench.receive(BOB, &reply(&invite, 180, "b", ""));
    let sent = words(&bench.pass(Duration::from_secs(186)));
    assert_eq!(sent.first(), Some(&format!("{BOB} CANCEL")));
    let sent = words(&bench.pass(Duration::from_secs(33)));
    assert!(sent.contains(&format!("{ALICE} 408")), "{sent:?}");
    bench.pass(Duration::from_secs(100));
    assert_eq!(bench.proxy.under_way(), (0, 0));
}

#[test]
fn who_does_not_answer_is_told_of_an_invite_only() {
    for (method, expected) in [("INVITE", vec![format!("{ALICE} 408")]), ("MESSAGE", vec![])] {
        let mut bench = Bench::new();
        bench.receive(ALICE, &request(method, "sip:bob@a.example", ""));
        let sent = words(&bench.pass(Duration::from_secs(33)));
        let answers: Vec<_> = sent.into_iter().filter(|s| s.starts_with(ALICE)).take(1).collect();
        assert_eq!(answers, expected, "RFC 4320");
        bench.pass(Duration::from_secs(100));
        assert_eq!(bench.proxy.under_way(), (0, 0));
    }
}

#[test]
fn what_must_not_be_passed_on_is_refused() {
    let mut bench = Bench::new();
    let mut status = |uri: &str, from: &str, to: &str| {
        let text = String::from_utf8(request("OPTIONS", uri, ""))
            .expect("text")
            .replace(from, to)
            .replace("z9hG4bK", &format!("z9hG4bK{}", to.len()));
        let sent = bench.receive(ALICE, text.as_bytes());
        assert_eq!(sent.len(), 1);
        sent[0].1.status()
    };
    assert_eq!(status("sip:bob@a.example", "Max-Forwards: 70", "Max-Forwards: 0"), Some(483));
    assert_eq!(status("tel:123", "", ""), Some(416));
    assert_eq!(status("sip:bob@a.example", "Max", "Proxy-Require: x\r\nMax"), Some(420));
    assert_eq!(status("sip:nobody@proxy.a.example", "c1", "c2"), Some(404));
    assert_eq!(status("sip:10.1.0.254", "c1", "c2a"), Some(200), "it is asked what it can do itself");
}

#[test]
fn a_loop_is_found_and_a_spiral_is_none() {
    let mut bench = Bench::new();
    let sent = bench.receive(ALICE, &request("INVITE", "sip:bob@b.example;maddr=192.0.2.9", ""));
    let out = &sent[1].1;
    assert_eq!(words(&sent)[1], format!("{OTHER} INVITE"));
    let back = bench.receive(OTHER, out.bytes());
    assert_eq!(
        words(&back),
        ["10.1.0.254:5060 482".replace("10.1.0.254:5060", OTHER)],
        "the same request once more"
    );
    let mut bench = Bench::new();
    let sent = bench.receive(ALICE, &request("INVITE", "sip:bob@b.example;maddr=192.0.2.9", ""));
    let spiral = Edit::new(&sent[1].1).uri(b"sip:bob@a.example").finish(false);
    let spiral = String::from_utf8(spiral).expect("text").replacen(
        "SIP/2.0/UDP 10.1.0.254",
        "SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKo\r\nVia: SIP/2.0/UDP 10.1.0.254",
        1,
    );
    let sent = bench.receive(OTHER, spiral.as_bytes());
    assert_eq!(words(&sent)[1], format!("{BOB} INVITE"), "its request-URI is another");
}

#[test]
fn strict_routers_get_and_give_the_request_uri_as_they_expect() {
    let mut bench = Bench::new();
    let sent = bench.receive(
        ALICE,
        &request("INVITE", "sip:bob@b.example", "Route: <sip:192.0.2.9>, <sip:last.example;lr>\r\n"),
    );
    let strict = &sent[1].1;
    assert_eq!(words(&sent)[1], format!("{OTHER} INVITE"));
    assert_eq!(strict.uri_text(), b"sip:192.0.2.9");
    let routes: Vec<_> = strict.values(Name::Route).collect();
    assert_eq!(routes, [&b"<sip:last.example;lr>"[..], b"<sip:bob@b.example>"]);
    let own = strict.value(Name::RecordRoute).and_then(NameAddr::read).expect("ours").uri.text.to_vec();
    let own = String::from_utf8(own).expect("text");
    let back = request("BYE", &own, "Route: <sip:192.0.2.9;lr>, <sip:carol@10.1.0.3>\r\n");
    let sent = bench.receive(ALICE, &back);
    assert_eq!(words(&sent), [format!("{OTHER} BYE")]);
    assert_eq!(sent[0].1.uri_text(), b"sip:carol@10.1.0.3", "the last Route is who is meant");
    assert_eq!(sent[0].1.values(Name::Route).collect::<Vec<_>>(), [&b"<sip:192.0.2.9;lr>"[..]]);
}

#[test]
fn a_name_is_resolved_and_its_addresses_are_tried_in_turn() {
    let mut bench = Bench::new();
    bench
        .proxy
        .handle_input(bench.now, Input::Datagram(udp(ALICE), request("INVITE", "sip:x@far.example", "")));
    let outputs = bench.take();
    let Some(Output::Resolve { number, host, port: None, transport: Transport::Udp }) =
        outputs.iter().find(|o| matches!(o, Output::Resolve { .. }))
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(host, "far.example");
    let addresses =
        vec!["198.51.100.1:5060".parse().expect("one"), "198.51.100.2:5060".parse().expect("one")];
    bench.proxy.handle_input(bench.now, Input::Resolved(*number, addresses));
    let first = bench.sent();
    assert_eq!(words(&first), ["198.51.100.1:5060 INVITE"]);
    let sent = bench.pass(Duration::from_secs(33));
    let second =
        sent.iter().find(|(to, _)| to.address.to_string() == "198.51.100.2:5060").expect("the next address");
    assert_ne!(checked(&second.1).via.branch(), checked(&first[0].1).via.branch(), "a branch of its own");
    bench.pass(Duration::from_secs(100));
    assert_eq!(bench.proxy.under_way(), (0, 0));
    bench.proxy.handle_input(
        bench.now,
        Input::Datagram(udp(ALICE), request("INVITE", "sip:x@nowhere.example", "A: b\r\n")),
    );
    bench.take();
    let sent = words(&bench.pass(Duration::from_millis(5_100)));
    assert_eq!(sent, [format!("{ALICE} 408")], "nobody has told the address");
}

#[test]
fn a_phone_behind_a_connection_is_reached_by_it_and_each_side_by_its_transport() {
    let mut bench = Bench::with(without_users());
    let tcp = Peer {
        transport: Transport::Tcp,
        address: "10.1.0.2:40000".parse().expect("one"),
        connection: Some(77),
    };
    let register = String::from_utf8(request("REGISTER", "sip:a.example", "")).expect("text");
    let register = register
        .replace("Contact: <sip:alice@10.1.0.1>", "Contact: <sip:bob@192.168.0.9>")
        .replace("/UDP 10.1.0.1", "/TCP 192.168.0.9");
    let mut twice = register.clone().into_bytes();
    twice.extend_from_slice(b"\r\n\r\n");
    let cut = twice.len() / 2;
    bench.proxy.handle_input(bench.now, Input::Bytes(tcp, twice[..cut].to_vec()));
    assert!(bench.take().is_empty());
    bench.proxy.handle_input(bench.now, Input::Bytes(tcp, twice[cut..].to_vec()));
    let outputs = bench.take();
    assert!(
        matches!(&outputs[0], Output::Send { to, bytes, number: 0 } if *to == tcp && bytes == b"\r\n"),
        "a ping: {outputs:?}"
    );
    let Output::Send { bytes, .. } = &outputs[1] else { panic!("{outputs:?}") };
    let sent = Message::datagram(bytes).expect("a message");
    bench.receive("10.9.9.9:5060", &reply(&sent, 200, "r", "Contact: <sip:bob@192.168.0.9>;expires=60\r\n"));
    let sent = bench.receive(ALICE, &request("INVITE", "sip:bob@a.example", ""));
    assert_eq!(sent[1].0, tcp);
    let invite = &sent[1].1;
    let records: Vec<_> = invite.values(Name::RecordRoute).map(|r| NameAddr::read(r).expect("one")).collect();
    assert_eq!(records.len(), 2, "RFC 5658: one for each transport");
    assert_eq!(records[0].uri.params.get("transport"), Some(&b"tcp"[..]));
    assert_eq!(records[1].uri.params.get("transport"), None);
    assert_eq!(
        Via::read(invite.value(Name::Via).expect("one")).expect("one").transport,
        Some(Transport::Tcp)
    );
    let routes: Vec<_> = records
        .iter()
        .rev()
        .map(|r| format!("Route: <{}>\r\n", String::from_utf8_lossy(r.uri.text)))
        .collect();
    let bye = request("BYE", "sip:bob@192.168.0.9", &routes.concat());
    let sent = bench.receive(ALICE, &bye);
    assert_eq!((sent[0].0, sent[0].1.values(Name::Route).count()), (tcp, 0), "both of ours are done");
}

#[test]
fn what_is_no_message_ends_its_connection() {
    let mut bench = Bench::new();
    let tcp = Peer {
        transport: Transport::Tcp,
        address: "10.1.0.2:40000".parse().expect("one"),
        connection: Some(77),
    };
    bench.proxy.handle_input(bench.now, Input::Bytes(tcp, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()));
    assert_eq!(bench.take(), [Output::Close(77)]);
    assert_eq!(bench.proxy.counters().dropped, 1);
}

#[test]
fn who_is_meant_by_sips_is_reached_by_tls_only() {
    let mut bench = Bench::new();
    let sent = bench.receive(ALICE, &request("INVITE", "sips:bob@a.example", ""));
    assert_eq!(words(&sent), [format!("{ALICE} 480")], "Bob is at an address of UDP");
    let sent = bench.receive(ALICE, &request("INVITE", "sips:x@192.0.2.9", ""));
    assert_eq!((sent[1].0.transport, sent[1].0.address.port()), (Transport::Tls, 5061));
    let record = NameAddr::read(sent[1].1.value(Name::RecordRoute).expect("one")).expect("one");
    assert_eq!(record.uri.scheme, crate::message::Scheme::Sips);
}

#[test]
fn what_cannot_be_sent_counts_as_nobody_there() {
    let mut bench = Bench::new();
    bench
        .proxy
        .handle_input(bench.now, Input::Datagram(udp(ALICE), request("INVITE", "sip:bob@a.example", "")));
    let number = bench.take().into_iter().find_map(|o| match o {
        Output::Send { to, number, .. } if to.address.to_string() == BOB => Some(number),
        _ => None,
    });
    bench.proxy.handle_input(bench.now, Input::Broken(number.expect("sent")));
    assert_eq!(words(&bench.sent()), [format!("{ALICE} 408")]);
}

#[test]
fn stray_responses_are_thrown_away() {
    let mut bench = Bench::new();
    let invite = bench.receive(ALICE, &request("INVITE", "sip:bob@a.example", "")).pop().expect("sent").1;
    let mut text = String::from_utf8(reply(&invite, 200, "9", "")).expect("text");
    text = text.replace("z9hG4bK", "z9hG4bKz");
    assert!(bench.receive(BOB, text.as_bytes()).is_empty());
    assert_eq!(bench.proxy.counters().dropped, 1);
}

#[test]
fn more_than_the_limit_is_refused_by_503() {
    let mut limited = settings();
    limited.limits.contexts = 1;
    let mut bench = Bench::with(limited);
    bench.receive(ALICE, &request("INVITE", "sip:bob@a.example", ""));
    assert_eq!(
        words(&bench.receive(ALICE, &request("INVITE", "sip:bob@a.example", "A: b\r\n"))),
        [format!("{ALICE} 503")]
    );
    assert_eq!(bench.proxy.counters().overload, 1);
}

#[test]
fn a_token_is_what_was_put_in_and_nobody_elses() {
    let six = Peer {
        transport: Transport::Tls,
        address: "[2001:db8::7]:5061".parse().expect("one"),
        connection: Some(u64::MAX),
    };
    for up in [None, Some(six), Some(udp(ALICE))] {
        for down in [None, Some(six), Some(udp(BOB))] {
            let token = token::Token { call: 42, up, down };
            let text = token.text(&[1; 16]);
            assert_eq!(token::Token::read(text.as_bytes(), &[1; 16]), Some(token));
            assert_eq!(token::Token::read(text.as_bytes(), &[2; 16]), None);
            let forged = text.replacen('2', "3", 1);
            assert_eq!(token::Token::read(forged.as_bytes(), &[1; 16]), None);
        }
    }
}

/// What a proxy does with a message of RFC 4475, and by which status it answers.
fn tortured(name: &str) -> Option<Vec<Output>> {
    let bytes = torture(name)?;
    let mut bench = Bench::new();
    bench.proxy.handle_input(bench.now, Input::Datagram(udp(OTHER), bytes));
    Some(bench.take())
}

fn status(outputs: &[Output]) -> Option<u16> {
    outputs.iter().find_map(|output| match output {
        Output::Send { bytes, .. } => Message::datagram(bytes).ok()?.status().filter(|s| *s > 100),
        _ => None,
    })
}

#[test]
fn torture_messages_are_answered_as_their_rfc_says() {
    for (name, expected) in [
        ("unkscm", 416),
        ("novelsc", 416),
        ("bext01", 420),
        ("zeromf", 483),
        ("badinv01", 400),
        ("clerr", 400),
        ("ncl", 400),
        ("scalar02", 400),
        ("quotbal", 400),
        ("ltgtruri", 400),
        ("lwsruri", 400),
        ("escruri", 400),
        ("regbadct", 400),
        ("badaspec", 400),
        ("baddn", 400),
        ("badvers", 505),
        ("mismatch01", 400),
        ("mismatch02", 501),
        ("badbranch", 400),
        ("insuf", 400),
        ("multi01", 400),
        ("mcl01", 400),
    ] {
        let Some(outputs) = tortured(name) else { return };
        assert_eq!(status(&outputs), Some(expected), "{name}: {outputs:?}");
    }
}

#[test]
fn torture_messages_that_must_be_dropped_are() {
    for name in ["bcast", "bigcode", "scalarlg", "unreason", "noreason"] {
        let Some(outputs) = tortured(name) else { return };
        assert!(outputs.is_empty(), "{name} is a response to nothing that was asked: {outputs:?}");
    }
}

#[test]
fn torture_messages_that_are_well_formed_are_passed_on() {
    for name in [
        "wsinv",
        "intmeth",
        "esc01",
        "escnull",
        "esc02",
        "lwsdisp",
        "longreq",
        "dblreq",
        "semiuri",
        "transports",
        "mpart01",
        "lwsstart",
        "trws",
        "baddate",
        "unksm2",
        "invut",
        "regaut01",
        "cparam01",
        "cparam02",
        "regescrt",
        "sdp01",
        "inv2543",
    ] {
        let Some(bytes) = torture(name) else { return };
        let original = Message::datagram(&bytes).expect("readable");
        let mut bench = Bench::new();
        bench.proxy.handle_input(bench.now, Input::Datagram(udp(OTHER), bytes));
        let mut outputs = bench.take();
        if let Some(number) = outputs
            .iter()
            .find_map(|o| if let Output::Resolve { number, .. } = o { Some(*number) } else { None })
        {
            bench.proxy.handle_input(
                bench.now,
                Input::Resolved(number, vec!["198.51.100.1:5060".parse().expect("one")]),
            );
            outputs.extend(bench.take());
        }
        let passed = outputs.iter().find_map(|o| match o {
            Output::Send { bytes, .. } => Message::datagram(bytes).ok().filter(Message::is_request),
            _ => None,
        });
        let passed = passed.unwrap_or_else(|| panic!("{name}: {outputs:?}"));
        checked(&passed);
        assert_eq!(passed.body(), original.body(), "{name}");
        assert_eq!(passed.values(Name::Via).count(), original.values(Name::Via).count() + 1, "{name}");
        for field in [Name::From, Name::To, Name::CallId, Name::CSeq, Name::Contact] {
            assert_eq!(
                passed.values(field).collect::<Vec<_>>(),
                original.values(field).collect::<Vec<_>>(),
                "{name}: what is not a proxy's business stays"
            );
        }
        assert_eq!(passed.method(), Some(original.method().expect("a request")));
        assert_ne!(passed.method(), Some(Method::Cancel));
    }
}
