use super::*;
use crate::attribute::{VendorAttribute, vendor};
use crate::change::Act;
use crate::record::Status;
use crate::sign::{check_response, request};
use perhop_units::{Rate, mix};

const UNIX: u64 = 1_800_000_000;

fn secret() -> Secret {
    Secret::new(b"testing123").expect("a secret")
}

fn nas(proven: bool) -> BTreeMap<IpAddr, Nas> {
    let nas = Nas { name: "edge-1".into(), secret: secret(), proven };
    [("127.0.0.1".parse().expect("an address"), nas)].into()
}

fn server() -> Server {
    let codes = [Code::AccountingRequest, Code::CoaRequest, Code::DisconnectRequest];
    Server::new(Settings { known: nas(false), ..Settings::new(&codes, UNIX) })
}

fn from(port: u16) -> SocketAddr {
    SocketAddr::new("127.0.0.1".parse().expect("an address"), port)
}

fn at(seconds: u64) -> Instant {
    Instant(0) + Duration::from_secs(seconds)
}

fn start(session: &str) -> Vec<Attribute> {
    vec![
        Attribute::number(kind::ACCT_STATUS_TYPE, 1),
        Attribute::text(kind::ACCT_SESSION_ID, session),
        Attribute::text(kind::USER_NAME, "ann"),
        Attribute::text(kind::NAS_IDENTIFIER, "edge-1"),
    ]
}

fn signed(code: Code, identifier: u8, attributes: &[Attribute]) -> (Vec<u8>, [u8; 16]) {
    let signed = request(code, identifier, attributes, &secret()).expect("it fits");
    (signed.bytes, signed.authenticator)
}

fn tell(server: &mut Server, now: Instant, input: Input) -> Vec<Output> {
    server.handle_input(now, input);
    std::iter::from_fn(|| server.poll_output()).collect()
}

fn send(server: &mut Server, now: Instant, bytes: &[u8]) -> Vec<Output> {
    tell(server, now, Input::Datagram { from: from(1813), bytes: bytes.to_vec() })
}

fn dropped(outputs: &[Output]) -> Dropped {
    match outputs {
        [Output::Dropped { why, .. }] => *why,
        other => panic!("not dropped: {other:?}"),
    }
}

#[test]
fn a_start_is_asked_once_answered_when_on_record_and_answered_again() {
    let mut server = server();
    let mut attributes = start("a1");
    attributes.push(Attribute::text(kind::PROXY_STATE, "p"));
    attributes.push(Attribute::text(kind::STATE, "s"));
    let (bytes, authenticator) = signed(Code::AccountingRequest, 7, &attributes);
    let asked = send(&mut server, at(1), &bytes);
    let [Output::Ask { ticket, nas, request: Request::Account(record) }] = &asked[..] else {
        panic!("not asked: {asked:?}")
    };
    assert_eq!((nas.as_str(), record.status, record.user.as_str()), ("edge-1", Status::Start, "ann"));
    assert_eq!(send(&mut server, at(2), &bytes), [], "it is being done");
    let answered = tell(&mut server, at(3), Input::Answer { ticket: *ticket, answer: Answer::Done });
    let [Output::Send { to, bytes: answer }] = &answered[..] else { panic!("not answered: {answered:?}") };
    assert_eq!(*to, from(1813));
    assert_eq!(check_response(answer, &authenticator, &secret(), false), Ok(()));
    let packet = Packet::read(answer).expect("a packet");
    assert_eq!((packet.code, packet.identifier), (Code::AccountingResponse, 7));
    assert_eq!((packet.text(kind::PROXY_STATE), packet.text(kind::STATE)), (Some("p"), None));
    assert_eq!(send(&mut server, at(4), &bytes), answered, "the same answer again");
    assert_eq!(server.counts(), Counts { asked: 1, answered: 1, repeated: 2, ..Counts::default() });
    // Forgotten after a time: then it is asked again.
    assert_eq!(server.next_wakeup(), Some(at(33)));
    assert_eq!(send(&mut server, at(33), &bytes).len(), 1);
    assert_eq!(server.counts().asked, 2);
}

#[test]
fn what_failed_is_not_answered_and_may_be_asked_again() {
    let mut server = server();
    let (bytes, _) = signed(Code::AccountingRequest, 7, &start("a1"));
    send(&mut server, at(1), &bytes);
    assert_eq!(tell(&mut server, at(1), Input::Answer { ticket: 1, answer: Answer::Failed }), []);
    assert_eq!(tell(&mut server, at(1), Input::Answer { ticket: 1, answer: Answer::Done }), [], "too late");
    assert!(matches!(&send(&mut server, at(2), &bytes)[..], [Output::Ask { ticket: 2, .. }]));
    assert_eq!(server.next_wakeup(), Some(at(32)));
    assert_eq!(tell(&mut server, at(32), Input::Tick), []);
    assert_eq!(server.next_wakeup(), None, "also what nobody answered is forgotten");
}

#[test]
fn another_request_with_the_same_identifier_takes_the_place_of_the_first() {
    let mut server = server();
    let (first, _) = signed(Code::AccountingRequest, 7, &start("a1"));
    let (second, _) = signed(Code::AccountingRequest, 7, &start("a2"));
    send(&mut server, at(1), &first);
    assert!(matches!(&send(&mut server, at(1), &second)[..], [Output::Ask { ticket: 2, .. }]));
    assert_eq!(tell(&mut server, at(1), Input::Answer { ticket: 1, answer: Answer::Done }), []);
    assert_eq!(tell(&mut server, at(1), Input::Answer { ticket: 2, answer: Answer::Done }).len(), 1);
}

#[test]
fn changes_are_acknowledged_or_refused_with_their_cause() {
    let mut server = server();
    let attributes = [
        Attribute::text(kind::USER_NAME, "ann"),
        Attribute::text(kind::STATE, "s"),
        Attribute::of_vendor(vendor::MIKROTIK, vendor::MIKROTIK_RATE_LIMIT, b"1M/2M").expect("it fits"),
    ];
    let (bytes, authenticator) = signed(Code::CoaRequest, 1, &attributes);
    let asked = send(&mut server, at(1), &bytes);
    let [Output::Ask { ticket, request: Request::Change(change), .. }] = &asked[..] else {
        panic!("not asked: {asked:?}")
    };
    let Act::Authorize { authorization, .. } = &change.act else { panic!("not an authorization") };
    assert_eq!(authorization.down, Some(Rate(2_000_000)));
    let answer = Answer::Refused(ErrorCause::SessionContextNotFound);
    let answered = tell(&mut server, at(1), Input::Answer { ticket: *ticket, answer });
    let [Output::Send { bytes, .. }] = &answered[..] else { panic!("not answered: {answered:?}") };
    assert_eq!(check_response(bytes, &authenticator, &secret(), true), Ok(()));
    let packet = Packet::read(bytes).expect("a packet");
    assert_eq!((packet.code, packet.number(kind::ERROR_CAUSE)), (Code::CoaNak, Some(503)));
    assert_eq!(packet.text(kind::STATE), Some("s"), "State comes back");
    let answers = [(Code::DisconnectRequest, Code::DisconnectAck), (Code::CoaRequest, Code::CoaAck)];
    for (identifier, (code, answer)) in (2u8..).zip(answers) {
        let (bytes, _) = signed(code, identifier, &attributes);
        let asked = send(&mut server, at(1), &bytes);
        let [Output::Ask { ticket, .. }] = &asked[..] else { panic!("not asked: {asked:?}") };
        let done = tell(&mut server, at(1), Input::Answer { ticket: *ticket, answer: Answer::Done });
        let [Output::Send { bytes, .. }] = &done[..] else { panic!("not answered: {done:?}") };
        assert_eq!(bytes[0], answer as u8);
    }
}

#[test]
fn a_change_that_names_no_session_or_asks_for_nothing_is_refused_at_once() {
    let mut server = server();
    let cases: [(&[Attribute], u32); 3] = [
        (&[], 402),
        (&[Attribute::text(kind::USER_NAME, "ann")], 402),
        (&[Attribute::text(kind::USER_NAME, "ann"), Attribute::number(kind::SERVICE_TYPE, 17)], 405),
    ];
    for (identifier, (attributes, cause)) in (0u8..).zip(cases) {
        let (bytes, _) = signed(Code::CoaRequest, identifier, attributes);
        let outputs = send(&mut server, at(1), &bytes);
        let [Output::Send { bytes: answer, .. }] = &outputs[..] else { panic!("not answered: {outputs:?}") };
        let packet = Packet::read(answer).expect("a packet");
        assert_eq!((packet.code, packet.number(kind::ERROR_CAUSE)), (Code::CoaNak, Some(cause)));
    }
    assert_eq!(server.counts().refused, 3);
}

#[test]
fn what_is_not_to_be_taken_is_dropped_and_counted() {
    let mut server = server();
    let (good, _) = signed(Code::AccountingRequest, 7, &start("a1"));
    let stranger = SocketAddr::new("127.0.0.2".parse().expect("an address"), 1);
    let outputs = tell(&mut server, at(1), Input::Datagram { from: stranger, bytes: good.clone() });
    assert_eq!(dropped(&outputs), Dropped::Stranger);
    assert!(matches!(dropped(&send(&mut server, at(1), &good[..10])), Dropped::Malformed(_)));
    assert_eq!(
        dropped(&send(&mut server, at(1), &[1; 20])),
        Dropped::Malformed(Malformed::Short { octets: 20 })
    );
    let (answer, _) = signed(Code::CoaAck, 7, &[]);
    assert_eq!(dropped(&send(&mut server, at(1), &answer)), Dropped::Code);
    let mut forged = good.clone();
    forged[30] ^= 1;
    assert!(matches!(dropped(&send(&mut server, at(1), &forged)), Dropped::Unsigned(_)));
    let (lacking, _) = signed(Code::AccountingRequest, 7, &start("a1")[..3]);
    let why = Dropped::Incomplete(Incomplete::Attribute { kind: kind::NAS_IP_ADDRESS });
    assert_eq!(dropped(&send(&mut server, at(1), &lacking)), why);
    for (off, is_taken) in [(300i64, true), (-300, true), (301, false), (-301, false)] {
        let mut attributes = start("a1");
        let said = (UNIX as i64 + 1000 + off) as u32;
        attributes.push(Attribute::number(kind::EVENT_TIMESTAMP, said - 60));
        attributes.push(Attribute::number(kind::ACCT_DELAY_TIME, 60));
        let (bytes, _) = signed(Code::AccountingRequest, 8, &attributes);
        let outputs = send(&mut server, at(1000), &bytes);
        assert_eq!(matches!(&outputs[..], [Output::Ask { .. }]), is_taken, "{off}");
    }
    let counts = Counts {
        asked: 2,
        strangers: 1,
        malformed: 3,
        unsigned: 1,
        incomplete: 1,
        stale: 2,
        ..Counts::default()
    };
    assert_eq!(server.counts(), counts);
}

/// Without the attribute a request is signed by its authenticator alone.
fn without_proof(code: Code, attributes: &[Attribute]) -> Vec<u8> {
    use md5::{Digest, Md5};
    let mut packet = Packet { code, identifier: 1, authenticator: [0; 16], attributes: attributes.to_vec() };
    let bytes = packet.write().expect("it fits");
    packet.authenticator = Md5::new().chain_update(bytes).chain_update(b"testing123").finalize().into();
    packet.write().expect("it fits")
}

#[test]
fn proof_is_required_of_changes_and_of_accounting_where_it_is_said() {
    let mut server = server();
    let plain = without_proof(Code::AccountingRequest, &start("a1"));
    assert!(matches!(&send(&mut server, at(1), &plain)[..], [Output::Ask { .. }]));
    let change = without_proof(Code::DisconnectRequest, &[Attribute::text(kind::USER_NAME, "ann")]);
    assert_eq!(dropped(&send(&mut server, at(1), &change)), Dropped::Unsigned(Unsigned::Missing));
    server.set_known(nas(true));
    let plain = without_proof(Code::AccountingRequest, &start("a2"));
    assert_eq!(dropped(&send(&mut server, at(1), &plain)), Dropped::Unsigned(Unsigned::Missing));
}

#[test]
fn memory_is_bounded() {
    let mut server = server();
    let (bytes, _) = signed(Code::AccountingRequest, 0, &start("a1"));
    // As many senders as there are ports, and one that asks with two identifiers.
    for port in 0..=u16::MAX {
        tell(&mut server, at(1), Input::Datagram { from: from(port), bytes: bytes.clone() });
    }
    let (more, _) = signed(Code::AccountingRequest, 1, &start("a1"));
    let outputs = tell(&mut server, at(1), Input::Datagram { from: from(9), bytes: more.clone() });
    assert_eq!(dropped(&outputs), Dropped::Overload, "all of them wait");
    // One that is answered makes room, and time does.
    tell(&mut server, at(1), Input::Answer { ticket: 1, answer: Answer::Done });
    let outputs = tell(&mut server, at(1), Input::Datagram { from: from(9), bytes: more });
    assert!(matches!(&outputs[..], [Output::Ask { .. }]));
    tell(&mut server, at(31), Input::Tick);
    let outputs = tell(&mut server, at(31), Input::Datagram { from: from(0), bytes });
    assert!(matches!(&outputs[..], [Output::Ask { .. }]));
}

#[test]
fn random_schedules_ask_for_each_request_once_and_answer_as_was_decided() {
    for seed in 0..200 {
        let mut random = seed;
        let mut server = server();
        let mut now = at(1);
        // What was decided for (identifier, variant) since it was asked last, and the tickets that wait.
        let mut decided: BTreeMap<u8, (usize, Answer)> = BTreeMap::new();
        let mut waiting: BTreeMap<u64, (u8, usize)> = BTreeMap::new();
        let requests: Vec<Vec<_>> =
            (0..4u8).map(|id| (0..2).map(|n| signed(Code::CoaRequest, id, &change(n))).collect()).collect();
        for _ in 0..200 {
            now += Duration::from_millis(mix::next(&mut random) % 2_000);
            let outputs = match mix::next(&mut random) % 3 {
                0 | 1 => {
                    let id = (mix::next(&mut random) % 4) as u8;
                    let variant = (mix::next(&mut random) % 2) as usize;
                    let outputs = send(&mut server, now, &requests[usize::from(id)][variant].0);
                    match &outputs[..] {
                        [Output::Ask { ticket, .. }] => {
                            decided.remove(&id);
                            waiting.retain(|_, asked| asked.0 != id);
                            waiting.insert(*ticket, (id, variant));
                            vec![]
                        }
                        [] => {
                            assert!(waiting.values().any(|asked| *asked == (id, variant)), "seed {seed}");
                            vec![]
                        }
                        _ => outputs,
                    }
                }
                _ => {
                    let Some((&ticket, &(id, variant))) = waiting.iter().next() else { continue };
                    waiting.remove(&ticket);
                    let answers =
                        [Answer::Done, Answer::Refused(ErrorCause::ResourcesUnavailable), Answer::Failed];
                    let answer = answers[(mix::next(&mut random) % 3) as usize];
                    if answer != Answer::Failed {
                        decided.insert(id, (variant, answer));
                    }
                    tell(&mut server, now, Input::Answer { ticket, answer })
                }
            };
            for output in outputs {
                let Output::Send { bytes, .. } = output else { panic!("seed {seed}: {output:?}") };
                let packet = Packet::read(&bytes).expect("a packet");
                let (variant, answer) = decided[&packet.identifier];
                let of = &requests[usize::from(packet.identifier)][variant].1;
                assert_eq!(check_response(&bytes, of, &secret(), true), Ok(()), "seed {seed}");
                let code = if answer == Answer::Done { Code::CoaAck } else { Code::CoaNak };
                assert_eq!(packet.code, code, "seed {seed}");
            }
        }
    }
}

fn change(number: usize) -> Vec<Attribute> {
    vec![Attribute::text(kind::USER_NAME, "ann"), Attribute::text(kind::FILTER_ID, ["a", "b"][number])]
}

#[test]
fn records_have_octets_beyond_four_gigabytes_and_no_chosen_addresses() {
    let mut attributes = start("a1");
    attributes.extend([
        Attribute::number(kind::ACCT_INPUT_OCTETS, 5),
        Attribute::number(kind::ACCT_INPUT_GIGAWORDS, 2),
        Attribute::octets(kind::FRAMED_IP_ADDRESS, &[255, 255, 255, 254]),
        Attribute::number(kind::NAS_PORT, 12),
    ]);
    let (bytes, _) = signed(Code::AccountingRequest, 7, &attributes);
    let record = Record::of(&Packet::read(&bytes).expect("a packet")).expect("a record");
    assert_eq!((record.sent, record.received), (2 << 32 | 5, 0));
    assert_eq!((record.address, record.port.as_deref()), (None, Some("12")));
    assert_eq!(VendorAttribute::each(&[]).count(), 0);
}
