use super::*;
use crate::message::{Reply, Transport};
use proptest::prelude::*;

fn peer(transport: Transport) -> Peer {
    let address = "192.0.2.1:5060".parse().expect("an address");
    Peer { transport, address, connection: None }
}

fn request(method: &str) -> Vec<u8> {
    format!(
        "{method} sip:bob@b.example SIP/2.0\r\nVia: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\nTo: <sip:bob@b.example>\r\n\
         From: <sip:a@a.example>;tag=1\r\nCall-ID: 1@a\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

fn reply(method: &str, status: u16) -> Message {
    let request = Message::datagram(&request(method)).expect("readable");
    Message::datagram(&Reply::new(&request, status).tag("9".into()).bytes()).expect("readable")
}

/// When something was sent and what it begins with, until nothing is due or time is over.
fn run(all: &mut Transactions, until: Duration) -> (Vec<(u64, String)>, Vec<Told>) {
    let (mut sent, mut told) = (Vec::new(), Vec::new());
    let mut now = Instant::ZERO;
    loop {
        while let Some((_, _, bytes)) = all.poll_send() {
            let end = bytes.iter().position(|o| *o == b' ').expect("a start line");
            sent.push((now.0 / 1_000_000, String::from_utf8_lossy(&bytes[..end]).into_owned()));
        }
        let Some(at) = all.next_wakeup().filter(|at| *at <= Instant::ZERO + until) else {
            return (sent, told);
        };
        now = now.max(at);
        while let Some(due) = all.due(now) {
            told.extend(due.map(|(_, _, told)| told));
        }
    }
}

fn times(sent: &[(u64, String)]) -> Vec<u64> {
    sent.iter().map(|(at, _)| *at).collect()
}

#[test]
fn an_invite_without_answer_is_sent_seven_times_and_given_up_after_timer_b() {
    let mut all = Transactions::new(Timers::default());
    all.client(Instant::ZERO, request("INVITE"), b"z9hG4bK1", b"INVITE", peer(Transport::Udp), 5);
    let (sent, told) = run(&mut all, Duration::from_secs(100));
    assert_eq!(times(&sent), [0, 500, 1_500, 3_500, 7_500, 15_500, 31_500]);
    assert_eq!((told, all.len()), (vec![Told::Timeout], 0));
}

#[test]
fn another_request_is_sent_at_most_every_t2() {
    let mut all = Transactions::new(Timers::default());
    all.client(Instant::ZERO, request("BYE"), b"z9hG4bK1", b"BYE", peer(Transport::Udp), 5);
    let (sent, told) = run(&mut all, Duration::from_secs(100));
    assert_eq!(times(&sent), [0, 500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!((told, all.len()), (vec![Told::Timeout], 0));
}

#[test]
fn nothing_is_repeated_on_a_reliable_transport() {
    for method in ["INVITE", "BYE"] {
        let mut all = Transactions::new(Timers::default());
        all.client(Instant::ZERO, request(method), b"z9hG4bK1", method.as_bytes(), peer(Transport::Tcp), 5);
        let (sent, told) = run(&mut all, Duration::from_secs(100));
        assert_eq!((times(&sent), told), (vec![0], vec![Told::Timeout]));
    }
}

#[test]
fn a_refused_invite_is_acknowledged_as_often_as_the_refusal_comes() {
    let mut all = Transactions::new(Timers::default());
    let key = Key::client(b"z9hG4bK1", b"INVITE");
    all.client(Instant::ZERO, request("INVITE"), b"z9hG4bK1", b"INVITE", peer(Transport::Udp), 5);
    assert!(matches!(all.response(Instant(1), &key, &reply("INVITE", 486)), Some((5, _, true))));
    assert!(
        matches!(all.response(Instant(2), &key, &reply("INVITE", 486)), Some((5, _, false))),
        "told once"
    );
    assert!(matches!(all.response(Instant(2), &key, &reply("INVITE", 180)), Some((5, _, false))), "too late");
    let (sent, told) = run(&mut all, Duration::from_secs(100));
    let methods: Vec<_> = sent.iter().map(|(_, m)| m.as_str()).collect();
    assert_eq!((methods, told, all.len()), (vec!["INVITE", "ACK", "ACK"], vec![], 0));
}

#[test]
fn every_repetition_of_a_2xx_is_told_until_timer_m() {
    let mut all = Transactions::new(Timers::default());
    let key = Key::client(b"z9hG4bK1", b"INVITE");
    all.client(Instant::ZERO, request("INVITE"), b"z9hG4bK1", b"INVITE", peer(Transport::Udp), 5);
    for at in [1, 2, 31_999_000_000] {
        assert!(matches!(all.response(Instant(at), &key, &reply("INVITE", 200)), Some((5, _, true))));
    }
    run(&mut all, Duration::from_secs(40));
    assert!(all.is_empty());
    assert!(all.response(Instant(40_000_000_000), &key, &reply("INVITE", 200)).is_none(), "a stray response");
}

#[test]
fn an_invite_that_comes_again_is_absorbed_in_every_state() {
    let mut all = Transactions::new(Timers::default());
    let message = Message::datagram(&request("INVITE")).expect("readable");
    let key = Key::server(&message.check().expect("valid"));
    let id = all.server(key.clone(), true, peer(Transport::Udp), 5);
    let count = |all: &mut Transactions| std::iter::from_fn(|| all.poll_send()).count();
    assert!(all.respond(Instant(1), id, 100, b"SIP/2.0 100 Trying\r\n\r\n".to_vec()));
    assert_eq!(all.request(Instant(2), id, false), None);
    assert_eq!(count(&mut all), 2, "100 and again 100");
    assert!(all.respond(Instant(3), id, 200, b"SIP/2.0 200 OK\r\n\r\n".to_vec()));
    assert_eq!(all.find(&key), Some((id, 5)));
    all.request(Instant(4), id, false);
    assert_eq!(count(&mut all), 1, "RFC 6026: whoever sent the 2xx repeats it");
    assert!(all.respond(Instant(5), id, 200, b"SIP/2.0 200 OK\r\n\r\n".to_vec()));
    assert!(!all.respond(Instant(5), id, 486, b"SIP/2.0 486 Busy\r\n\r\n".to_vec()), "it is accepted");
    assert_eq!(all.request(Instant(6), id, true), Some(Told::Ack));
    run(&mut all, Duration::from_secs(40));
    assert!(all.is_empty());
}

#[test]
fn a_refusal_is_repeated_until_it_is_acknowledged() {
    for (ack, expected) in [
        (None, vec![0, 500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]),
        (Some(1), vec![0]),
    ] {
        let mut all = Transactions::new(Timers::default());
        let message = Message::datagram(&request("INVITE")).expect("readable");
        let id = all.server(Key::server(&message.check().expect("valid")), true, peer(Transport::Udp), 5);
        assert!(all.respond(Instant::ZERO, id, 486, b"SIP/2.0 486 Busy\r\n\r\n".to_vec()));
        if let Some(at) = ack {
            assert_eq!(all.request(Instant(at), id, true), None, "it is the transaction's own");
        }
        let (sent, told) = run(&mut all, Duration::from_secs(100));
        assert_eq!((times(&sent), told, all.len()), (expected, vec![], 0));
    }
}

#[test]
fn what_cannot_be_sent_is_told_once() {
    let mut all = Transactions::new(Timers::default());
    let id = all.client(Instant::ZERO, request("INVITE"), b"z9hG4bK1", b"INVITE", peer(Transport::Tcp), 5);
    assert_eq!(all.broken(Instant(1), id), Some((5, Told::Broken)));
    assert_eq!(all.broken(Instant(1), id), None);
    assert_eq!((all.is_empty(), all.next_wakeup()), (true, None));
}

#[test]
fn requests_without_the_cookie_find_their_transaction_as_in_rfc_2543() {
    let old = |method: &str, to: &str| {
        let text = String::from_utf8(request(method)).expect("text");
        let text = text.replace(";branch=z9hG4bK1", "").replace("To: <sip:bob@b.example>", to);
        let message = Message::datagram(text.as_bytes()).expect("readable");
        Key::server(&message.check().expect("valid"))
    };
    let invite = old("INVITE", "To: <sip:bob@b.example>");
    assert_eq!(invite, old("INVITE", "To: <sip:bob@b.example>"));
    assert_eq!(invite, old("ACK", "To: <sip:bob@b.example>;tag=9"));
    assert_ne!(invite, old("BYE", "To: <sip:bob@b.example>"));
}

/// A network that loses, delays and doubles.
struct Lossy {
    seed: u64,
    under_way: BTreeSet<(Instant, u64, bool, Vec<u8>)>,
    loss_percent: u64,
    number: u64,
}

impl Lossy {
    fn draw(&mut self, below: u64) -> u64 {
        let word = perhop_units::mix::next(&mut self.seed);
        word % below
    }

    fn send(&mut self, now: Instant, to_server: bool, bytes: &[u8]) {
        for _ in 0..1 + u64::from(self.draw(10) == 0) {
            if self.draw(100) >= self.loss_percent {
                let at = now + Duration::from_millis(self.draw(300));
                self.number += 1;
                self.under_way.insert((at, self.number, to_server, bytes.to_vec()));
            }
        }
    }
}

/// A client and a server over such a network; what the client has heard of final responses, how often the server's owner was asked, and whether
/// all is over at the end.
fn over_a_lossy_network(
    seed: u64,
    loss_percent: u64,
    method: &str,
    status: u16,
    think: u64,
) -> (Vec<u16>, usize, bool) {
    let (mut client, mut server) =
        (Transactions::new(Timers::default()), Transactions::new(Timers::default()));
    let mut net = Lossy { seed, under_way: BTreeSet::new(), loss_percent, number: 0 };
    let (mut heard, mut asked, mut answer_at, mut told) = (Vec::new(), 0, None, false);
    let mut now = Instant::ZERO;
    client.client(now, request(method), b"z9hG4bK1", method.as_bytes(), peer(Transport::Udp), 1);
    for _ in 0..10_000 {
        while let Some((_, _, bytes)) = client.poll_send() {
            net.send(now, true, &bytes);
        }
        while let Some((_, _, bytes)) = server.poll_send() {
            net.send(now, false, &bytes);
        }
        let next =
            [client.next_wakeup(), server.next_wakeup(), answer_at, net.under_way.first().map(|p| p.0)];
        let Some(at) = next.into_iter().flatten().min() else { break };
        now = now.max(at);
        while let Some(due) = client.due(now) {
            told |= due.is_some();
        }
        while server.due(now).is_some() {}
        if answer_at.is_some_and(|at| at <= now) {
            answer_at = None;
            let message = Message::datagram(&request(method)).expect("readable");
            if let Some((id, _)) = server.find(&Key::server(&message.check().expect("valid"))) {
                server.respond(now, id, status, reply(method, status).bytes().to_vec());
            }
        }
        while net.under_way.first().is_some_and(|p| p.0 <= now) {
            let (_, _, to_server, bytes) = net.under_way.pop_first().expect("there is one");
            let message = Message::datagram(&bytes).expect("readable");
            let head = message.check().expect("valid");
            if !to_server {
                let key = Key::client(b"z9hG4bK1", head.method_text);
                if let Some((_, _, true)) = client.response(now, &key, &message) {
                    heard.extend(message.status().filter(|s| *s >= 200));
                }
                continue;
            }
            let key = Key::server(&head);
            match server.find(&key) {
                Some((id, _)) => {
                    server.request(now, id, head.method == Method::Ack);
                }
                None if head.method == Method::Ack => {}
                None => {
                    asked += 1;
                    server.server(key, head.method == Method::Invite, peer(Transport::Udp), 2);
                    answer_at = Some(now + Duration::from_millis(think));
                }
            }
        }
    }
    assert_eq!(told, heard.is_empty(), "a final response or that there is none");
    (heard, asked, client.is_empty() && server.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_is_lost_each_side_hears_once_and_nothing_is_left(
        seed: u64, loss in 0_u64..60, status in prop::sample::select(vec![200_u16, 404, 486]), think in 0_u64..3_000, invite: bool,
    ) {
        let method = if invite { "INVITE" } else { "BYE" };
        let (heard, asked, over) = over_a_lossy_network(seed, loss, method, status, think);
        prop_assert!(over, "a transaction is left over");
        prop_assert!(asked <= 1, "a repetition was taken for a new request");
        if !(invite && status == 200) {
            prop_assert!(heard.len() <= 1);
        }
        if loss == 0 {
            prop_assert!(heard.contains(&status));
        }
    }
}
