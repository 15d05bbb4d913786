//! What RFC 2748 and RFC 4261 demand with MUST, a test each, named by the section.
//!
//! Left out is what is no matter of this crate: listening on a port (§2.3), certificates and cipher suites (RFC 4261 §7, §8),
//! what IANA does (§6), and ifindex and MIB-II (§2.2.3, §2.2.4), which are the caller's.

use crate::pdp::{self, Gone, On, Refused};
use crate::pep::{self, Answers, Failure, Notice, Pep};
use crate::rig::*;
use crate::session::{Key, Keyring};
use crate::wire::*;
use perhop_units::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;

fn wire_of(op: u8, objects: &[u8]) -> Vec<u8> {
    let length = (8 + objects.len()) as u32;
    [&[0x10, op, 0x4d, 0x41][..], &length.to_be_bytes(), objects].concat()
}

fn handle_object(n: u8) -> Vec<u8> {
    vec![0, 12, 1, 1, 0, 0, 0, 0, 0, 0, 0, n]
}

fn ask(pep: &mut Pep, now: Instant, n: u64, r_type: u16) -> Vec<Message> {
    pep.ask(now, TYPE, request(n, r_type)).expect("room");
    of_pep(pep).sent
}

fn deleted(message: &Message) -> Option<(u64, Reason)> {
    match &message.body {
        Body::Delete { handle, reason } => Some((handle.number()?, *reason)),
        _ => None,
    }
}

fn asked(message: &Message) -> Option<u64> {
    match &message.body {
        Body::Request(request) => request.handle.number(),
        _ => None,
    }
}

fn closed(message: &Message) -> Option<(ClientType, Error)> {
    match message.body {
        Body::Close(close) => Some((message.client_type, close.error)),
        _ => None,
    }
}

const CONFIGURATION: u16 = Context::CONFIGURATION;
const ALLOCATION: u16 = Context::ALLOCATION;

fn new(body: Body) -> Message {
    Message::new(TYPE, body)
}

fn wrong_open() -> Vec<u8> {
    // A name without a zero at its end.
    wire_of(6, &[0, 8, 11, 1, 97, 98, 99, 100])
}

#[test]
fn rfc2748_2_1_flags_that_nobody_defined_are_zero_and_messages_are_aligned() {
    for message in [open(TYPE), decision(1, true, 1), new(Body::SyncRequest(None))] {
        let bytes = message.to_bytes();
        assert_eq!(bytes[0], 0x10 | u8::from(message.solicited));
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(bytes[4..8], (bytes.len() as u32).to_be_bytes());
    }
}

#[test]
fn rfc2748_2_1_keep_alive_is_of_client_type_0() {
    let mut pep = open_pep(pep_config(&[TYPE]));
    pep.handle_input(at(45), pep::Input::Tick);
    let sent = of_pep(&mut pep).sent;
    assert_eq!(sent, [Message::new(ClientType::CONNECTION, Body::KeepAlive)]);
    let wrong = Message::read(&[0x10, 9, 0x4d, 0x41, 0, 0, 0, 8]).expect_err("of a client");
    assert_eq!(wrong.malformed, Malformed::ClientType { client_type: TYPE });
}

#[test]
fn rfc2748_2_2_objects_are_filled_up_and_their_length_does_not_count_it() {
    let info = ClientSi::Signaled(Opaque::new(vec![9; 5]).expect("short"));
    let report = Report { handle: 1.into(), report_type: ReportType::SUCCESS, client_si: vec![info] };
    let bytes = new(Body::Report(Box::new(report))).to_bytes();
    assert_eq!(bytes[bytes.len() - 12..], [0, 9, 9, 1, 9, 9, 9, 9, 9, 0, 0, 0]);
}

#[test]
fn rfc2748_2_2_1_a_handle_is_unique_to_its_client_type_and_deleted_when_no_longer_applicable() {
    let mut pep = open_pep(pep_config(&[TYPE, OTHER]));
    assert_eq!(ask(&mut pep, at(1), 1, ALLOCATION).iter().map(asked).collect::<Vec<_>>(), [Some(1)]);
    pep.ask(at(1), OTHER, request(1, ALLOCATION)).expect("another type, another request");
    assert_eq!(of_pep(&mut pep).sent[0].client_type, OTHER);
    pep.drop_request(at(2), TYPE, &1.into(), Reason::of(ReasonCode::TEAR)).expect("it is there");
    let sent = of_pep(&mut pep).sent;
    assert_eq!(sent.iter().map(deleted).collect::<Vec<_>>(), [Some((1, Reason::of(ReasonCode::TEAR)))]);
    assert_eq!((pep.requests(TYPE).count(), pep.requests(OTHER).count()), (0, 1));
}

#[test]
fn rfc2748_2_2_6_flags_that_do_not_apply_are_passed_over_and_stateless_data_are_handed_on() {
    let mut pep = open_pep(pep_config(&[TYPE]));
    ask(&mut pep, at(1), 1, ALLOCATION);
    let stateless = Some(Opaque::new(vec![1, 2, 3]).expect("short"));
    let verdict = Verdict { flags: 0xfffe, stateless, ..Verdict::of(Command::INSTALL) };
    let decisions = vec![Decision { context: Context::of(ALLOCATION), verdict }];
    let body = Body::Decision { handle: 1.into(), decided: Decided::Decisions(decisions.clone()) };
    let said = tell(&mut pep, at(1), Message { solicited: true, ..new(body) });
    let handle = 1.into();
    assert_eq!(
        said.notices,
        [Notice::Decided { client_type: TYPE, handle, answers: Answers::Request, decisions }]
    );
    assert!(said.sent.is_empty());
}

#[test]
fn rfc2748_2_2_11_the_name_of_a_pep_is_ascii_ends_with_zero_and_is_a_multiple_of_4() {
    for (text, length) in [("a", 8u16), ("abc", 8), ("abcd", 12)] {
        let open = Open { pep_id: PepId::new(text).expect("ASCII"), client_si: None, last_pdp: None };
        let bytes = new(Body::Open(Box::new(open))).to_bytes();
        assert_eq!(
            (bytes[8..10].to_vec(), bytes.len()),
            (length.to_be_bytes().to_vec(), 8 + usize::from(length))
        );
        assert_eq!(bytes.last(), Some(&0));
    }
    assert!(PepId::new("grün").is_none());
}

#[test]
fn rfc2748_2_2_16_integrity_is_last_and_hmac_md5_96_has_96_bits() {
    let bytes = open(TYPE).sealed(1, b"key", 5);
    assert_eq!(bytes[bytes.len() - 24..bytes.len() - 12], [0, 24, 16, 1, 0, 0, 0, 1, 0, 0, 0, 5]);
    let objects = [&bytes[bytes.len() - 24..], &[0, 12, 11, 1, b'a', 0, 0, 0, 0, 0, 0, 0]].concat();
    assert!(Message::read(&wire_of(6, &objects)).is_err(), "integrity before the name");
}

#[test]
fn rfc2748_2_4_a_handle_is_deleted_before_it_is_used_for_something_else() {
    let mut pep = open_pep(pep_config(&[TYPE]));
    ask(&mut pep, at(1), 1, ALLOCATION);
    pep.drop_request(at(1), TYPE, &1.into(), Reason::of(ReasonCode::TEAR)).expect("it is there");
    pep.ask(at(1), TYPE, request(1, CONFIGURATION)).expect("room");
    let sent = of_pep(&mut pep).sent;
    assert!(deleted(&sent[0]).is_some() && asked(&sent[1]) == Some(1), "{sent:?}");
}

/// A PEP with a decision on 1 and on 2 that has lost its connection.
fn pep_that_was_cut() -> Pep {
    let mut pep = open_pep(pep_config(&[TYPE]));
    for n in [1, 2] {
        ask(&mut pep, at(1), n, ALLOCATION);
        tell(&mut pep, at(1), decision(n, true, ALLOCATION));
    }
    pep.handle_input(at(2), pep::Input::Disconnected);
    of_pep(&mut pep);
    pep
}

fn reconnect(pep: &mut Pep, now: Instant) -> Vec<Message> {
    pep.handle_input(now, pep::Input::Tick);
    assert!(of_pep(pep).connect.is_some());
    pep.handle_input(now, pep::Input::Connected { sequence: 1 });
    of_pep(pep).sent
}

fn last_pdp(message: &Message) -> Option<std::net::SocketAddr> {
    match &message.body {
        Body::Open(open) => open.last_pdp,
        _ => panic!("{message:?}"),
    }
}

#[test]
fn rfc2748_2_5_a_pep_that_keeps_decisions_says_of_whom() {
    let mut pep = pep_that_was_cut();
    assert_eq!(reconnect(&mut pep, at(20)).iter().map(last_pdp).collect::<Vec<_>>(), [Some(server(1))]);
    // The RFC leaves to the PDP whether it asks again; without that what is decided stays decided.
    assert!(tell(&mut pep, at(20), new(Body::Accept(ACCEPT))).sent.is_empty());
    assert_eq!(pep.requests(TYPE).filter(|(_, is_decided)| *is_decided).count(), 2);
}

#[test]
fn rfc2748_2_5_what_was_deleted_while_away_is_deleted_explicitly_afterwards() {
    let mut pep = pep_that_was_cut();
    pep.drop_request(at(3), TYPE, &2.into(), Reason::of(ReasonCode::MANAGEMENT)).expect("it is there");
    assert!(of_pep(&mut pep).sent.is_empty());
    pep.ask(at(3), TYPE, request(3, ALLOCATION)).expect("room");
    reconnect(&mut pep, at(4));
    let sent = tell(&mut pep, at(4), new(Body::Accept(ACCEPT))).sent;
    assert_eq!(
        sent.iter().map(deleted).collect::<Vec<_>>(),
        [Some((2, Reason::of(ReasonCode::MANAGEMENT))), None]
    );
    assert_eq!(asked(&sent[1]), Some(3), "and what is new is asked");
}

#[test]
fn rfc2748_2_5_and_3_5_all_states_are_asked_again_and_then_it_is_complete() {
    let mut pep = pep_that_was_cut();
    reconnect(&mut pep, at(20));
    tell(&mut pep, at(20), new(Body::Accept(ACCEPT)));
    let sent = tell(&mut pep, at(20), new(Body::SyncRequest(None))).sent;
    assert_eq!(sent.iter().map(asked).collect::<Vec<_>>(), [Some(1), Some(2), None]);
    assert_eq!(sent[2].body, Body::SyncComplete(None));
}

#[test]
fn rfc2748_3_without_the_integrity_that_is_required_client_type_0_is_closed() {
    let mut config = pdp_config();
    config.security = pdp::Security::Digest(BTreeMap::from([(name(), ring())]));
    let mut pdp = connected_pdp(config);
    let said = send(&mut pdp, at(0), open(TYPE));
    assert_eq!(
        said.sent.iter().map(closed).collect::<Vec<_>>(),
        [Some((ClientType::CONNECTION, Error::security_wanted(1)))]
    );
    assert!(said.disconnected && said.notices.is_empty());
}

#[test]
fn rfc2748_3_1_a_malformed_request_is_answered_by_a_decision_with_the_error() {
    for (objects, code) in [
        (vec![], ErrorCode::MANDATORY_OBJECT_MISSING),
        (vec![0, 8, 2, 1, 0, 1, 0, 0, 0, 4, 17, 1], ErrorCode::UNKNOWN_OBJECT),
        (vec![0, 9, 2, 1, 0, 1, 0, 0, 0, 0, 0, 0], ErrorCode::BAD_MESSAGE_FORMAT),
    ] {
        let mut pdp = open_pdp(pdp_config());
        let bytes = wire_of(1, &[handle_object(5), objects].concat());
        pdp.handle_input(at(1), pdp::Input::Bytes(1, bytes));
        let said = of_pdp(&mut pdp);
        let [
            Message {
                solicited: true, body: Body::Decision { handle, decided: Decided::Error(error) }, ..
            },
        ] = &said.sent[..]
        else {
            panic!("{said:?}")
        };
        assert_eq!((handle.number(), error.code), (Some(5), code));
        assert!(said.notices.is_empty() && pdp.handles(&peer()).count() == 0, "nothing is installed");
    }
}

#[test]
fn rfc2748_3_2_requests_are_decided_on_in_their_order_and_each_of_them() {
    let mut pdp = open_pdp(pdp_config());
    let mut questions = Vec::new();
    for _ in 0..2 {
        let said = send(&mut pdp, at(1), new(Body::Request(Box::new(request(1, ALLOCATION)))));
        let [pdp::Notice::Asked { question, .. }] = said.notices[..] else { panic!("{said:?}") };
        questions.push(question);
    }
    // A malformed update waits for its turn too.
    pdp.handle_input(at(1), pdp::Input::Bytes(1, wire_of(1, &handle_object(1))));
    assert!(of_pdp(&mut pdp).sent.is_empty());
    let decide = |pdp: &mut pdp::Pdp, on| pdp.decide(at(1), &peer(), &1.into(), on, install(ALLOCATION));
    assert_eq!(decide(&mut pdp, On::Question(questions[1])), Err(Refused::NotAsked));
    assert_eq!(
        decide(&mut pdp, On::Change),
        Err(Refused::NotDecided),
        "the first decision is a solicited one"
    );
    assert_eq!(decide(&mut pdp, On::Question(questions[0])), Ok(()));
    assert_eq!(decide(&mut pdp, On::Question(questions[1])), Ok(()));
    assert_eq!(decide(&mut pdp, On::Question(questions[1])), Err(Refused::NotAsked), "once");
    let is_error =
        |message: &Message| matches!(message.body, Body::Decision { decided: Decided::Error(_), .. });
    let sent = of_pdp(&mut pdp).sent;
    assert!(sent.iter().all(|message| message.solicited));
    assert_eq!(sent.iter().map(is_error).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(decide(&mut pdp, On::Change), Ok(()));
    assert!(!of_pdp(&mut pdp).sent[0].solicited);
}

#[test]
fn rfc2748_3_2_a_request_without_a_decision_is_deleted_after_a_while() {
    let mut pep = open_pep(pep_config(&[TYPE]));
    ask(&mut pep, at(1), 1, ALLOCATION);
    pep.handle_input(Instant(at(6).0 - 1), pep::Input::Tick);
    assert!(of_pep(&mut pep).sent.is_empty());
    assert_eq!(pep.next_wakeup(), Some(at(6)));
    pep.handle_input(at(6), pep::Input::Tick);
    let said = of_pep(&mut pep);
    assert_eq!(
        said.sent.iter().map(deleted).collect::<Vec<_>>(),
        [Some((1, Reason::of(ReasonCode::TIMEOUT)))]
    );
    assert_eq!(said.notices, [Notice::Failed { client_type: TYPE, handle: 1.into(), why: Failure::Timeout }]);
    // A decision that comes too late is nobody's.
    assert!(tell(&mut pep, at(7), decision(1, true, ALLOCATION)).notices.is_empty());
}

/// A SHOULD NOT, on which the order of answers rests.
#[test]
fn rfc2748_3_2_one_request_is_outstanding_and_what_changes_meanwhile_is_asked_afterwards() {
    let mut pep = open_pep(pep_config(&[TYPE]));
    ask(&mut pep, at(1), 1, ALLOCATION);
    assert!(
        ask(&mut pep, at(1), 1, CONFIGURATION).is_empty() && ask(&mut pep, at(1), 1, ALLOCATION).is_empty()
    );
    let said = tell(&mut pep, at(2), decision(1, true, ALLOCATION));
    assert!(matches!(said.notices[..], [Notice::Decided { answers: Answers::Earlier, .. }]));
    assert_eq!(said.sent.iter().map(asked).collect::<Vec<_>>(), [Some(1)]);
    let said = tell(&mut pep, at(2), decision(1, false, ALLOCATION));
    assert!(
        matches!(said.notices[..], [Notice::Decided { answers: Answers::Nothing, .. }])
            && said.sent.is_empty()
    );
    let said = tell(&mut pep, at(2), decision(1, true, ALLOCATION));
    assert!(
        matches!(said.notices[..], [Notice::Decided { answers: Answers::Request, .. }])
            && said.sent.is_empty()
    );
}

#[test]
fn rfc2748_3_2_flags_come_before_the_other_objects_of_a_decision() {
    let context = [0, 8, 2, 1, 0, 8, 0, 0];
    let (flags, named) = ([0, 8, 6, 1, 0, 1, 0, 0], [0, 4, 6, 5]);
    let read =
        |parts: &[&[u8]]| Message::read(&wire_of(2, &[&handle_object(1)[..], &parts.concat()].concat()));
    assert!(read(&[&context, &flags, &named]).is_ok() && read(&[&context, &named, &flags]).is_err());
    // Behind them any order will do.
    assert!(read(&[&context, &flags, &named, &[0, 4, 6, 2]]).is_ok());
}

#[test]
fn rfc2748_3_3_each_decision_of_configuration_is_reported_on_once_and_in_order() {
    let mut pep = open_pep(pep_config(&[TYPE]));
    ask(&mut pep, at(1), 1, CONFIGURATION);
    tell(&mut pep, at(1), decision(1, true, CONFIGURATION));
    tell(&mut pep, at(1), decision(1, false, CONFIGURATION));
    let mut report = |is_success| pep.report(at(2), TYPE, &1.into(), is_success, vec![]);
    assert_eq!((report(true), report(false)), (Ok(()), Ok(())));
    assert_eq!(report(true), Err(pep::Refused::NothingToReport));
    pep.report_failure(at(3), TYPE, &1.into(), vec![]).expect("it is there");
    let said = of_pep(&mut pep);
    let types: Vec<(bool, ReportType)> = said
        .sent
        .iter()
        .map(|message| match &message.body {
            Body::Report(report) => (message.solicited, report.report_type),
            body => panic!("{body:?}"),
        })
        .collect();
    assert_eq!(
        types,
        [(true, ReportType::SUCCESS), (true, ReportType::FAILURE), (false, ReportType::FAILURE)]
    );
}

#[test]
fn rfc2748_3_4_a_malformed_decision_deletes_the_request_and_says_why() {
    for (objects, reason) in [
        (vec![0, 8, 2, 1, 0, 8, 0, 0], Reason::of(ReasonCode::MALFORMED_DECISION)),
        (vec![0, 8, 2, 1, 0, 8, 0, 0, 0, 8, 6, 1, 0, 7, 0, 0], Reason::of(ReasonCode::MALFORMED_DECISION)),
        (
            vec![0, 8, 2, 1, 0, 8, 0, 0, 0, 8, 6, 1, 0, 1, 0, 0, 0, 4, 6, 9],
            Reason { code: ReasonCode::UNKNOWN_OBJECT, sub_code: 0x0609 },
        ),
    ] {
        let mut pep = open_pep(pep_config(&[TYPE]));
        ask(&mut pep, at(1), 1, CONFIGURATION);
        pep.handle_input(at(1), pep::Input::Bytes(wire_of(2, &[handle_object(1), objects].concat())));
        let said = of_pep(&mut pep);
        assert_eq!(said.sent.iter().map(deleted).collect::<Vec<_>>(), [Some((1, reason))]);
        assert!(matches!(said.notices[..], [Notice::Failed { why: Failure::Unreadable(_), .. }]));
        assert!(pep.is_open(TYPE) && pep.requests(TYPE).count() == 0);
    }
}

#[test]
fn rfc2748_3_4_an_error_in_a_decision_ends_the_request_at_both_ends() {
    let mut rig = Rig::new(pep_config(&[TYPE]), pdp_config(), 1);
    rig.waiting = Some(vec![]);
    rig.run(seconds(1));
    rig.pep.ask(rig.now, TYPE, request(1, ALLOCATION)).expect("room");
    rig.run(seconds(1));
    let (handle, question, _) = rig.waiting.take().expect("it waits").remove(0);
    let error = Decided::Error(Error::of(ErrorCode::UNABLE_TO_PROCESS));
    rig.pdp.decide(rig.now, &peer(), &handle, On::Question(question), error).expect("it is asked");
    rig.run(seconds(1));
    assert_eq!((rig.pep.requests(TYPE).count(), rig.pdp.handles(&peer()).count()), (0, 0));
    assert!(matches!(rig.pep_notices.last(), Some(Notice::Failed { why: Failure::Refused(_), .. })));
}

#[test]
fn rfc2748_3_5_a_handle_that_is_not_known_is_deleted_at_once() {
    let mut pep = pep_that_was_cut();
    reconnect(&mut pep, at(20));
    tell(&mut pep, at(20), new(Body::Accept(ACCEPT)));
    let sent = tell(&mut pep, at(20), new(Body::SyncRequest(Some(9.into())))).sent;
    assert_eq!(deleted(&sent[0]), Some((9, Reason::of(ReasonCode::SYNC_HANDLE_UNKNOWN))));
    let sent = tell(&mut pep, at(20), new(Body::SyncRequest(Some(2.into())))).sent;
    assert_eq!(sent.iter().map(asked).collect::<Vec<_>>(), [Some(2), None], "only this one");
    assert_eq!(sent[1].body, Body::SyncComplete(Some(2.into())));
}

#[test]
fn rfc2748_3_6_a_malformed_open_closes_the_client_with_the_error() {
    let mut pdp = connected_pdp(pdp_config());
    pdp.handle_input(at(1), pdp::Input::Bytes(1, wrong_open()));
    let said = of_pdp(&mut pdp);
    assert_eq!(
        said.sent.iter().map(closed).collect::<Vec<_>>(),
        [Some((TYPE, Error::of(ErrorCode::BAD_MESSAGE_FORMAT)))]
    );
}

#[test]
fn rfc2748_3_7_a_malformed_accept_closes_the_client_with_the_error() {
    let (mut pep, _) = connected_pep(pep_config(&[TYPE]));
    pep.handle_input(at(1), pep::Input::Bytes(wire_of(7, &[])));
    let said = of_pep(&mut pep);
    let error = Error { code: ErrorCode::MANDATORY_OBJECT_MISSING, sub_code: 0x0a00 };
    assert_eq!(closed(&said.sent[0]), Some((TYPE, error)));
    assert!(!pep.is_open(TYPE));
}

#[test]
fn rfc2748_3_9_and_4_6_keep_alives_come_between_a_quarter_and_three_quarters_of_the_least_timer() {
    let mut quarters = [0; 2];
    for seed in 0..200 {
        let mut pep = Pep::new(at(0), pep_config(&[TYPE, OTHER]), seed);
        pep.handle_input(at(0), pep::Input::Tick);
        pep.handle_input(at(0), pep::Input::Connected { sequence: 1 });
        of_pep(&mut pep);
        for (client_type, keep_alive_s) in [(TYPE, 100), (OTHER, 40)] {
            let accept = Accept { keep_alive_s, accounting_s: None };
            tell(&mut pep, at(0), Message::new(client_type, Body::Accept(accept)));
        }
        let mut last = at(0);
        for _ in 0..5 {
            let due = pep.next_wakeup().expect("a keep-alive");
            assert!(
                due >= Instant(last.0 + seconds(10).0) && due <= Instant(last.0 + seconds(30).0),
                "{due:?}"
            );
            quarters[usize::from(due.since(last) > seconds(20))] += 1;
            pep.handle_input(due, pep::Input::Tick);
            let alive = Message::new(ClientType::CONNECTION, Body::KeepAlive);
            assert_eq!(of_pep(&mut pep).sent, std::slice::from_ref(&alive));
            tell(&mut pep, due, alive);
            last = due;
        }
    }
    assert!(quarters.iter().all(|n| (400..600).contains(n)), "at random: {quarters:?}");
}

#[test]
fn rfc2748_3_9_a_pdp_echoes_keep_alives() {
    let mut pdp = open_pdp(pdp_config());
    let alive = Message::new(ClientType::CONNECTION, Body::KeepAlive);
    assert_eq!(send(&mut pdp, at(1), alive.clone()).sent, [alive]);
}

#[test]
fn rfc2748_4_6_silence_for_longer_than_the_timer_is_a_lost_connection_at_both_ends() {
    let mut pep = open_pep(pep_config(&[TYPE, OTHER]));
    ask(&mut pep, at(0), 1, ALLOCATION);
    tell(&mut pep, at(0), decision(1, true, ALLOCATION));
    pep.handle_input(at(60), pep::Input::Tick);
    assert!(!of_pep(&mut pep).disconnected);
    pep.handle_input(Instant(at(60).0 + 1), pep::Input::Tick);
    let said = of_pep(&mut pep);
    let failure = Error::of(ErrorCode::COMMUNICATION_FAILURE);
    assert_eq!(
        said.sent.iter().map(closed).collect::<Vec<_>>(),
        [Some((TYPE, failure)), Some((OTHER, failure))]
    );
    assert!(said.disconnected && said.notices == [Notice::Lost]);
    assert_eq!(pep.requests(TYPE).count(), 1, "the decision is kept");

    let mut pdp = open_pdp(pdp_config());
    send(&mut pdp, at(0), new(Body::Request(Box::new(request(1, ALLOCATION)))));
    pdp.handle_input(at(60), pdp::Input::Tick);
    assert!(!of_pdp(&mut pdp).disconnected);
    pdp.handle_input(Instant(at(60).0 + 1), pdp::Input::Tick);
    assert!(of_pdp(&mut pdp).disconnected);
    assert_eq!(pdp.handles(&peer()).count(), 1, "so is the request");
    pdp.handle_input(at(400), pdp::Input::Tick);
    let gone = pdp::Notice::Deleted { peer: peer(), handle: 1.into(), why: Gone::Expired };
    assert_eq!(of_pdp(&mut pdp).notices, [gone], "for a while");
}

#[test]
fn rfc2748_2_2_15_accounting_reports_keep_to_the_timer() {
    let (mut pep, _) = connected_pep(pep_config(&[TYPE]));
    let accept = |accounting_s| new(Body::Accept(Accept { keep_alive_s: 0, accounting_s }));
    tell(&mut pep, at(0), accept(Some(10)));
    ask(&mut pep, at(0), 1, ALLOCATION);
    tell(&mut pep, at(0), decision(1, true, ALLOCATION));
    assert_eq!(pep.next_wakeup(), Some(at(10)));
    pep.handle_input(at(10), pep::Input::Tick);
    assert_eq!(of_pep(&mut pep).notices, [Notice::AccountingDue { client_type: TYPE }]);
    let report = |pep: &mut Pep, now| pep.report_accounting(now, TYPE, &1.into(), vec![]);
    assert_eq!(report(&mut pep, at(10)), Ok(()));
    assert_eq!(report(&mut pep, at(19)), Err(pep::Refused::TooOften));
    assert_eq!(report(&mut pep, at(20)), Ok(()));
    assert!(of_pep(&mut pep).sent.iter().all(|message| !message.solicited));
    tell(&mut pep, at(20), accept(None));
    assert_eq!(report(&mut pep, at(20)), Ok(()));
    tell(&mut pep, at(20), accept(Some(0)));
    assert_eq!(report(&mut pep, at(99)), Err(pep::Refused::TooOften));
}

fn ring() -> Arc<Keyring> {
    let key = |id: u32, secret: &[u8]| Key { id, secret: secret.into(), from: at(0), until: at(10_000) };
    Arc::new(Keyring { keys: vec![key(1, b"one"), key(2, b"two")] })
}

fn sealed_pep() -> (Pep, Vec<u8>) {
    let config = pep::Config { security: pep::Security::Digest(ring()), ..pep_config(&[TYPE]) };
    let (pep, said) = connected_pep(config);
    (pep, said.bytes)
}

fn accept_0() -> Message {
    Message::new(ClientType::CONNECTION, Body::Accept(Accept { keep_alive_s: 60, accounting_s: None }))
}

fn numbers(messages: &[Message]) -> Vec<Option<u32>> {
    let number = |message: &Message| match message.integrity {
        Some(Integrity::Hmac { sequence, .. }) => Some(sequence),
        _ => None,
    };
    messages.iter().map(number).collect()
}

#[test]
fn rfc2748_4_1_security_begins_with_client_type_0_the_name_and_integrity() {
    let (_, bytes) = sealed_pep();
    let sent = messages(&bytes);
    assert_eq!(sent[0].client_type, ClientType::CONNECTION);
    assert!(matches!(&sent[0].body, Body::Open(open) if open.pep_id == name()));
    assert_eq!((numbers(&sent), Message::is_sealed_with(&bytes, b"one")), (vec![Some(1000)], true));
}

#[test]
fn rfc2748_4_1_each_end_counts_on_from_the_number_that_the_other_gave() {
    let (mut pep, _) = sealed_pep();
    pep.handle_input(at(1), pep::Input::Bytes(accept_0().sealed(2, b"two", u32::MAX - 1)));
    let said = of_pep(&mut pep);
    assert_eq!((said.sent[0].client_type, numbers(&said.sent)), (TYPE, vec![Some(u32::MAX)]));
    pep.handle_input(at(1), pep::Input::Bytes(new(Body::Accept(ACCEPT)).sealed(2, b"two", 1001)));
    pep.ask(at(1), TYPE, request(1, ALLOCATION)).expect("room");
    assert_eq!(numbers(&of_pep(&mut pep).sent), [Some(0)], "it rolls over");
    pep.handle_input(at(1), pep::Input::Bytes(decision(1, true, ALLOCATION).sealed(1, b"one", 1002)));
    assert!(matches!(of_pep(&mut pep).notices[..], [Notice::Decided { .. }]));
}

#[test]
fn rfc2748_4_1_a_wrong_number_key_digest_or_none_closes_client_type_0_and_the_connection() {
    let failure = Error::of(ErrorCode::AUTHENTICATION_FAILURE);
    let message = new(Body::Accept(ACCEPT));
    let mut changed = message.sealed(1, b"one", 1001);
    changed[12] ^= 1;
    for (bytes, error) in [
        (message.sealed(1, b"one", 1002), failure),
        (message.sealed(1, b"one", 1000), failure),
        (message.sealed(3, b"one", 1001), failure),
        (message.sealed(1, b"two", 1001), failure),
        (changed, failure),
        (message.to_bytes(), Error::security_wanted(1)),
    ] {
        let (mut pep, _) = sealed_pep();
        pep.handle_input(at(1), pep::Input::Bytes(accept_0().sealed(1, b"one", 50)));
        of_pep(&mut pep);
        pep.handle_input(at(1), pep::Input::Bytes(bytes));
        let said = of_pep(&mut pep);
        assert_eq!(closed(&said.sent[0]), Some((ClientType::CONNECTION, error)));
        assert_eq!(numbers(&said.sent), [Some(52)], "with a valid integrity object");
        assert!(Message::is_sealed_with(&said.bytes, b"one") && said.disconnected && !pep.is_open(TYPE));
    }
}

#[test]
fn rfc2748_4_1_a_pdp_that_does_not_prove_itself_is_left() {
    for (bytes, error) in [
        (accept_0().to_bytes(), Error::security_wanted(1)),
        (accept_0().sealed(1, b"other", 9), Error::of(ErrorCode::AUTHENTICATION_FAILURE)),
        (new(Body::Accept(ACCEPT)).to_bytes(), Error::security_wanted(1)),
    ] {
        let (mut pep, _) = sealed_pep();
        pep.handle_input(at(1), pep::Input::Bytes(bytes));
        let said = of_pep(&mut pep);
        assert_eq!(said.sent.iter().map(closed).collect::<Vec<_>>(), [Some((ClientType::CONNECTION, error))]);
        assert!(said.disconnected);
    }
}

#[test]
fn rfc2748_4_1_a_pep_that_does_not_prove_itself_is_closed() {
    let config =
        pdp::Config { security: pdp::Security::Digest(BTreeMap::from([(name(), ring())])), ..pdp_config() };
    let stranger = Open { pep_id: PepId::new("other").expect("ASCII"), client_si: None, last_pdp: None };
    let stranger = Message::new(ClientType::CONNECTION, Body::Open(Box::new(stranger)));
    let known = open(ClientType::CONNECTION);
    for (bytes, code) in [
        (known.to_bytes(), ErrorCode::AUTHENTICATION_REQUIRED),
        (known.sealed(1, b"wrong", 9), ErrorCode::AUTHENTICATION_FAILURE),
        (known.sealed(7, b"one", 9), ErrorCode::AUTHENTICATION_FAILURE),
        (stranger.sealed(1, b"one", 9), ErrorCode::AUTHENTICATION_FAILURE),
        (
            Message { integrity: Some(Integrity::StartTls), ..known.clone() }.to_bytes(),
            ErrorCode::AUTHENTICATION_REQUIRED,
        ),
    ] {
        let mut pdp = connected_pdp(config.clone());
        pdp.handle_input(at(1), pdp::Input::Bytes(1, bytes));
        let said = of_pdp(&mut pdp);
        let (client_type, error) = closed(&said.sent[0]).expect("closed");
        assert_eq!((client_type, error.code), (ClientType::CONNECTION, code));
        assert!(said.disconnected);
    }
    // One with its own key speaks for itself only.
    let mut pdp = connected_pdp(config);
    pdp.handle_input(at(1), pdp::Input::Bytes(1, known.sealed(1, b"one", 9)));
    let said = of_pdp(&mut pdp);
    assert_eq!(numbers(&said.sent), [Some(2000)], "the number that the PEP counts on from");
    let Body::Open(mut other) = open(TYPE).body else { panic!("OPN") };
    other.pep_id = PepId::new("other").expect("ASCII");
    pdp.handle_input(at(1), pdp::Input::Bytes(1, new(Body::Open(other)).sealed(1, b"one", 2001)));
    let said = of_pdp(&mut pdp);
    assert_eq!(closed(&said.sent[0]), Some((TYPE, Error::of(ErrorCode::AUTHENTICATION_FAILURE))));
    assert_eq!(numbers(&said.sent), [Some(10)], "the number that the PEP gave, and one");
}

#[test]
fn rfc2748_4_1_it_is_too_late_for_security_when_a_client_is_open() {
    let mut pdp = open_pdp(pdp_config());
    let said = send(&mut pdp, at(1), open(ClientType::CONNECTION));
    assert!(matches!(closed(&said.sent[0]), Some((ClientType::CONNECTION, _))), "{said:?}");
}

#[test]
fn rfc2748_4_3_a_pep_without_decisions_names_no_pdp_and_opens_one_type_a_message() {
    let (_, said) = connected_pep(pep_config(&[TYPE, OTHER]));
    assert_eq!(said.sent.iter().map(|message| message.client_type).collect::<Vec<_>>(), [TYPE, OTHER]);
    assert_eq!(said.sent.iter().map(last_pdp).collect::<Vec<_>>(), [None, None]);
    // Nor one whose decisions are too old: it has dropped them.
    let mut pep = pep_that_was_cut();
    pep.handle_input(at(15), pep::Input::Tick);
    pep.handle_input(at(15), pep::Input::Disconnected);
    pep.handle_input(at(302), pep::Input::Tick);
    let said = of_pep(&mut pep);
    let expired = |n: u64| Notice::Failed { client_type: TYPE, handle: n.into(), why: Failure::Expired };
    assert!(said.notices.contains(&expired(1)) && said.notices.contains(&expired(2)), "{said:?}");
    pep.handle_input(at(302), pep::Input::Connected { sequence: 1 });
    assert_eq!(of_pep(&mut pep).sent.iter().map(last_pdp).collect::<Vec<_>>(), [None]);
}

#[test]
fn rfc2748_4_7_a_client_that_is_sent_elsewhere_goes_there() {
    let mut pep = open_pep(pep_config(&[TYPE]));
    let close = Close { error: Error::of(ErrorCode::REDIRECT), redirect: Some(server(9)) };
    let said = tell(&mut pep, at(1), new(Body::Close(close)));
    assert!(said.disconnected && said.notices == [Notice::Closed { client_type: TYPE, close }]);
    pep.handle_input(at(20), pep::Input::Tick);
    assert_eq!(of_pep(&mut pep).connect, Some(server(9)));
    pep.handle_input(at(20), pep::Input::Disconnected);
    pep.handle_input(at(40), pep::Input::Tick);
    assert_eq!(of_pep(&mut pep).connect, Some(server(1)), "and back if nobody is there");
    // A PDP that stops says so to each client.
    let mut pdp = open_pdp(pdp_config());
    pdp.shut_down(at(1), Some(server(2)));
    let said = of_pdp(&mut pdp);
    assert_eq!(closed(&said.sent[0]), Some((TYPE, Error::of(ErrorCode::SHUTTING_DOWN))));
    assert!(said.disconnected);
}

#[test]
fn rfc2748_2_5_a_pep_that_restarted_has_nothing_left_at_the_pdp() {
    let mut pdp = open_pdp(pdp_config());
    send(&mut pdp, at(1), new(Body::Request(Box::new(request(1, ALLOCATION)))));
    // It is on another connection while the old one has not been missed yet.
    pdp.handle_input(at(2), pdp::Input::Connected { connection: 2, sequence: 1 });
    pdp.handle_input(at(2), pdp::Input::Bytes(2, open(TYPE).to_bytes()));
    assert!(!of_pdp(&mut pdp).disconnected, "nobody is pushed aside by one that is not accepted");
    pdp.accept(at(2), 2, TYPE, ACCEPT).expect("it waits");
    let said = of_pdp(&mut pdp);
    let gone = pdp::Notice::Deleted { peer: peer(), handle: 1.into(), why: Gone::Restarted };
    assert!(said.notices.contains(&gone) && said.disconnected);
    assert_eq!(said.sent.len(), 2, "CAT to the new one, CC to the old one, and no SSQ: {said:?}");
}

#[test]
fn rfc2748_2_5_what_is_not_asked_again_is_gone_from_the_pdp() {
    let mut rig = Rig::new(pep_config(&[TYPE]), pdp_config(), 1);
    rig.run(seconds(1));
    for n in [1, 2] {
        rig.pep.ask(rig.now, TYPE, request(n, ALLOCATION)).expect("room");
    }
    rig.run(seconds(1));
    assert_eq!(rig.pdp.handles(&peer()).count(), 2);
    // The DRQ is lost on its way.
    rig.pep.drop_request(rig.now, TYPE, &1.into(), Reason::of(ReasonCode::TEAR)).expect("it is there");
    rig.collect();
    rig.cut(true, true);
    assert_eq!(rig.pdp.handles(&peer()).count(), 2);
    rig.run(seconds(30));
    let gone = pdp::Notice::Deleted { peer: peer(), handle: 1.into(), why: Gone::NotAskedAgain };
    assert!(rig.pdp_notices.contains(&gone) && rig.pdp_notices.contains(&pdp::Notice::Synchronized(peer())));
    assert_eq!(rig.pdp.handles(&peer()).cloned().collect::<Vec<_>>(), [Handle::from(2)]);
}

fn tls_pep() -> Pep {
    let (pep, said) = connected_pep(pep::Config { security: pep::Security::Tls, ..pep_config(&[TYPE]) });
    assert_eq!(said.sent[0].client_type, ClientType::CONNECTION);
    assert_eq!((said.sent.len(), said.sent[0].integrity), (1, Some(Integrity::StartTls)));
    pep
}

#[test]
fn rfc4261_5_1_a_pep_asks_for_tls_and_says_nothing_before_it_is_there() {
    let mut pep = tls_pep();
    let said = tell(&mut pep, at(1), Message { integrity: Some(Integrity::StartTls), ..accept_0() });
    assert!(said.start_tls && said.sent.is_empty());
    pep.ask(at(1), TYPE, request(1, ALLOCATION)).expect("room");
    assert!(of_pep(&mut pep).sent.is_empty());
    pep.handle_input(at(2), pep::Input::Secured);
    assert_eq!(of_pep(&mut pep).sent[0].client_type, TYPE);
    // Without it the connection is closed.
    let mut pep = tls_pep();
    let said = tell(&mut pep, at(1), accept_0());
    assert_eq!(closed(&said.sent[0]), Some((ClientType::CONNECTION, Error::security_wanted(2))));
    assert!(said.disconnected);
}

#[test]
fn rfc4261_5_2_a_pdp_takes_nothing_before_tls_and_refuses_it_where_it_does_not_want_it() {
    let tls = || pdp::Config { security: pdp::Security::Tls, ..pdp_config() };
    for integrity in [None, Some(Integrity::StartTls)] {
        let mut pdp = connected_pdp(tls());
        let said = send(&mut pdp, at(1), Message { integrity, ..open(ClientType::CONNECTION) });
        assert_eq!((said.start_tls, said.sent[0].integrity), (true, Some(Integrity::StartTls)));
        let said = send(&mut pdp, at(1), open(TYPE));
        assert_eq!(closed(&said.sent[0]), Some((ClientType::CONNECTION, Error::security_wanted(2))));
    }
    let mut pdp = connected_pdp(tls());
    let said = send(&mut pdp, at(1), open(TYPE));
    assert_eq!(closed(&said.sent[0]), Some((ClientType::CONNECTION, Error::security_wanted(2))));
    let mut pdp = connected_pdp(pdp_config());
    let wish = Message { integrity: Some(Integrity::StartTls), ..open(ClientType::CONNECTION) };
    let said = send(&mut pdp, at(1), wish);
    assert_eq!(closed(&said.sent[0]), Some((ClientType::CONNECTION, Error::security_wanted(0))));
}

#[test]
fn rfc4261_4_1_the_wish_for_tls_is_in_open_and_accept_of_client_type_0_only() {
    for message in [open(TYPE), Message::new(ClientType::CONNECTION, Body::KeepAlive)] {
        let bytes = Message { integrity: Some(Integrity::StartTls), ..message }.to_bytes();
        assert!(matches!(
            Message::read(&bytes).expect_err("no").malformed,
            Malformed::Unexpected { c_num: 16, .. }
        ));
    }
}
