use super::*;
use crate::authorization::Authorization;
use crate::cause::ErrorCause;
use crate::change::Act;
use crate::server::{Answer, Input as ServerInput, Output as ServerOutput, Server, Settings};
use crate::sign::{Secret, response};

fn nas() -> BTreeMap<IpAddr, Nas> {
    let secret = Secret::new(b"testing123").expect("a secret");
    let nas = Nas { name: "edge-1".into(), secret, proven: true };
    [("127.0.0.1".parse().expect("an address"), nas)].into()
}

fn to() -> SocketAddr {
    "127.0.0.1:3799".parse().expect("an address")
}

fn client() -> Client {
    Client::new(nas(), Patience::default(), 1_800_000_000, 1)
}

fn change(act: Act) -> Box<Change> {
    Box::new(Change { user: Some("ann".into()), session: None, address: None, act })
}

fn tell(client: &mut Client, now: Instant, input: Input) -> Vec<Output> {
    client.handle_input(now, input);
    std::iter::from_fn(|| client.poll_output()).collect()
}

fn ask(client: &mut Client, now: Instant, ticket: u64) -> Vec<Output> {
    tell(client, now, Input::Ask { ticket, to: to(), change: change(Act::Disconnect) })
}

#[test]
fn a_request_is_repeated_as_it_is_and_given_up_after_five() {
    let mut client = client();
    let first = ask(&mut client, Instant(0), 1);
    let mut times = vec![];
    loop {
        let due = client.next_wakeup().expect("it waits");
        times.push(due.as_nanos() as f64 / 1e9);
        let outputs = tell(&mut client, due, Input::Tick);
        if outputs == [Output::Done { ticket: 1, verdict: Verdict::Unanswered }] {
            break;
        }
        assert_eq!(outputs, first);
    }
    let pauses: Vec<f64> =
        std::iter::once(0.0).chain(times.clone()).zip(&times).map(|(a, b)| b - a).collect();
    for (pause, wanted) in pauses.iter().zip([2.0, 4.0, 8.0, 16.0, 16.0]) {
        assert!((pause - wanted).abs() <= wanted / 10.0 + 1e-6, "{pauses:?}");
    }
    assert_eq!((pauses.len(), client.waiting(), client.next_wakeup()), (5, 0, None));
}

#[test]
fn only_a_signed_answer_to_this_request_counts() {
    let mut client = client();
    let outputs = ask(&mut client, Instant(0), 1);
    let [Output::Send { bytes, .. }] = &outputs[..] else { panic!("not sent: {outputs:?}") };
    let packet = Packet::read(bytes).expect("a packet");
    let secret = &nas()[&to().ip()].secret;
    let answer = |code, id, of: &[u8; 16]| response(code, id, &[], of, secret, true).expect("it fits");
    let good = answer(Code::DisconnectAck, packet.identifier, &packet.authenticator);
    let bad = [
        answer(Code::DisconnectAck, packet.identifier, &[1; 16]),
        answer(Code::CoaAck, packet.identifier, &packet.authenticator),
        answer(Code::DisconnectAck, packet.identifier.wrapping_add(1), &packet.authenticator),
        good[..19].to_vec(),
        bytes.clone(),
    ];
    for bytes in bad {
        assert_eq!(tell(&mut client, Instant(1), Input::Datagram { from: to(), bytes }), []);
    }
    let elsewhere = "127.0.0.1:3800".parse().expect("an address");
    assert_eq!(tell(&mut client, Instant(1), Input::Datagram { from: elsewhere, bytes: good.clone() }), []);
    assert_eq!((client.forged(), client.waiting()), (6, 1));
    let done = tell(&mut client, Instant(1), Input::Datagram { from: to(), bytes: good.clone() });
    assert_eq!(done, [Output::Done { ticket: 1, verdict: Verdict::Done }]);
    assert_eq!(tell(&mut client, Instant(1), Input::Datagram { from: to(), bytes: good }), [], "once");
}

#[test]
fn what_cannot_be_asked_is_told_at_once() {
    let mut client = client();
    let stranger = Input::Ask {
        ticket: 1,
        to: "127.0.0.9:1".parse().expect("an address"),
        change: change(Act::Disconnect),
    };
    assert_eq!(
        tell(&mut client, Instant(0), stranger),
        [Output::Done { ticket: 1, verdict: Verdict::Stranger }]
    );
    let long = Change { user: Some("x".repeat(254)), session: None, address: None, act: Act::Disconnect };
    let outputs = tell(&mut client, Instant(0), Input::Ask { ticket: 2, to: to(), change: Box::new(long) });
    assert!(matches!(outputs[..], [Output::Done { ticket: 2, verdict: Verdict::TooLong(_) }]));
    for ticket in 0..MAX_WAITING as u64 {
        assert!(matches!(&ask(&mut client, Instant(0), ticket)[..], [Output::Send { .. }]));
    }
    assert_eq!(ask(&mut client, Instant(0), 999), [Output::Done { ticket: 999, verdict: Verdict::TooMany }]);
}

/// Client and server on a line that loses, doubles and reorders: each change is done at most once, and who is told that it is
/// done is told the truth.
#[test]
fn over_a_bad_line_each_change_is_done_once() {
    for seed in 0..300u64 {
        let mut random = seed;
        let mut draw = |below: u64| mix::next(&mut random) % below;
        let mut client = Client::new(nas(), Patience::default(), 1_800_000_000, seed);
        let settings = Settings::new(&[Code::CoaRequest, Code::DisconnectRequest], 1_800_000_000);
        let mut server = Server::new(Settings { known: nas(), keep: Duration::from_secs(120), ..settings });
        let mut now = Instant(1);
        // (arrives, to the server, octets)
        let mut line: Vec<(Instant, bool, Vec<u8>)> = Vec::new();
        let mut done: BTreeMap<String, u32> = BTreeMap::new();
        let mut refused: BTreeSet<String> = BTreeSet::new();
        let mut told: BTreeMap<u64, Verdict> = BTreeMap::new();
        let mut asked = 0;
        while told.len() < 5 {
            if asked < 5 {
                let authorization =
                    Authorization { sla: Some(format!("s{asked}")), ..Authorization::default() };
                let act = Act::Authorize { authorization, session_timeout: None, idle_timeout: None };
                client.handle_input(now, Input::Ask { ticket: asked, to: to(), change: change(act) });
                asked += 1;
            } else if let Some(at) = (0..line.len()).min_by_key(|at| line[*at].0)
                && client.next_wakeup().is_none_or(|due| line[at].0 <= due)
            {
                let (at, to_server, bytes) = line.swap_remove(at);
                now = now.max(at);
                if to_server {
                    server.handle_input(now, ServerInput::Datagram { from: to(), bytes });
                } else {
                    client.handle_input(now, Input::Datagram { from: to(), bytes });
                }
            } else {
                now = now.max(client.next_wakeup().expect("something waits"));
                client.handle_input(now, Input::Tick);
            }
            let mut sent = Vec::new();
            while let Some(output) = client.poll_output() {
                match output {
                    Output::Send { bytes, .. } => sent.push((true, bytes)),
                    Output::Done { ticket, verdict } => {
                        assert_eq!(told.insert(ticket, verdict), None, "seed {seed}: told once");
                    }
                }
            }
            while let Some(output) = server.poll_output() {
                match output {
                    ServerOutput::Ask { ticket, request: crate::Request::Change(change), .. } => {
                        let Act::Authorize { authorization, .. } = change.act else { panic!("seed {seed}") };
                        let sla = authorization.sla.expect("it was given");
                        let answer = match draw(3) {
                            0 => Answer::Refused(ErrorCause::ResourcesUnavailable),
                            _ => Answer::Done,
                        };
                        if answer == Answer::Done {
                            *done.entry(sla).or_default() += 1;
                        } else {
                            refused.insert(sla);
                        }
                        server.handle_input(now, ServerInput::Answer { ticket, answer });
                    }
                    ServerOutput::Send { bytes, .. } => sent.push((false, bytes)),
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
            for (to_server, bytes) in sent {
                for _ in 0..draw(3) {
                    line.push((now + Duration::from_millis(draw(5_000)), to_server, bytes.clone()));
                }
            }
        }
        for (ticket, verdict) in told {
            let sla = format!("s{ticket}");
            let times = done.get(&sla).copied().unwrap_or(0);
            assert!(times <= 1, "seed {seed}: done {times} times");
            match verdict {
                Verdict::Done => assert_eq!(times, 1, "seed {seed}"),
                Verdict::Refused(cause) => {
                    assert_eq!(
                        cause.and_then(ErrorCause::from_number),
                        Some(ErrorCause::ResourcesUnavailable)
                    );
                    assert!(refused.contains(&sla), "seed {seed}");
                }
                _ => {}
            }
        }
    }
}
