//! Calls between two proxies that reserve, in virtual time, with the order of messages.

use super::*;
use crate::proxy::Proxy;
use crate::testing::phone::{Manners, sdp};
use crate::testing::world::{ALICE, BOB, Node, PLAIN, PROXY_A, PROXY_B, World, at, settings};
use perhop_reason::Code;
use perhop_units::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn world() -> World {
    World::new(|settings| settings)
}

/// What a call to Bob says until it is established.
fn call(world: &mut World) -> (u64, Vec<String>) {
    let number = world.call();
    world.run(Duration::from_secs(3));
    let reserving = world.nodes.values().all(|node| matches!(node, Node::Quality(_)));
    assert!(
        !reserving || world.phones.values().all(|phone| phone.heard == 0),
        "phones hear nothing of reservations"
    );
    (number, world.said())
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect()
}

const UNIDIRECTIONAL: &str = "
    alice>pa INVITE
    pa>alice 100
    pa>pb INVITE+
    pb>pa 100
    pb>bob INVITE
    bob>pb 180
    pb>pa 180
    pa>alice 180
    bob>pb 200
    pb>er-b REQ 80
    er-b>pb DEC
    pb>pa 200+
    pa>er-a REQ 80
    er-a>pa DEC
    pa>alice 200
    alice>pa ACK
    pa>pb ACK
    pb>bob ACK";

#[test]
fn g_s4_1_both_sides_reserve_the_callees_first_and_without_a_broker() {
    let mut world = world();
    let (number, said) = call(&mut world);
    assert_eq!(said, lines(UNIDIRECTIONAL));
    assert_eq!((world.held("er-a"), world.held("er-b")), (vec![80_000], vec![80_000]));
    let now = world.now;
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(60));
    let expected = "alice>pa BYE
        pa>er-a DRQ
        pa>pb BYE
        pb>er-b DRQ
        pb>bob BYE
        bob>pb 200
        pb>pa 200
        pa>alice 200";
    assert_eq!(world.said(), lines(expected));
    world.assert_empty();
    assert_eq!(world.records.iter().map(|r| r.ending).collect::<Vec<_>>(), [Ending::Bye, Ending::Bye]);
    assert_eq!(world.records[0].rate.bits_per_sec(), 80_000);
    assert_eq!((&*world.records[0].caller, &*world.records[0].callee), ("u1@a.example", "u1@b.example"));
}

#[test]
fn g_s4_2_edge_routers_that_ask_a_broker_do_so_before_they_answer() {
    let mut world = world();
    world.agents.values_mut().for_each(|agent| agent.broker = true);
    let (_, said) = call(&mut world);
    let expected = UNIDIRECTIONAL
        .replace("pb>er-b REQ 80", "pb>er-b REQ 80\ner-b>bb REQ\nbb>er-b DEC")
        .replace("pa>er-a REQ 80", "pa>er-a REQ 80\ner-a>bb REQ\nbb>er-a DEC");
    assert_eq!(said, lines(&expected));
}

#[test]
fn g_s4_3_where_the_mode_is_bidirectional_the_callers_side_asks_once_for_both() {
    let mut world = World::new(|mut settings| {
        settings.mode = Mode::Bi;
        settings
    });
    world.bob().sdp = sdp(at(BOB), "0", "a=ptime:10\r\n");
    let (_, said) = call(&mut world);
    let reservations: Vec<_> = said.iter().filter(|line| line.contains("er-")).cloned().collect();
    // 96 kbit/s towards Bob, who wants packets of 10 ms, and 80 from him.
    assert_eq!(reservations, ["pa>er-a REQ 176 both", "er-a>pa DEC"]);
    assert_eq!(
        said.iter().filter(|line| line.contains('+')).count(),
        2,
        "INVITE and 200 between the proxies"
    );
    let far: Vec<_> =
        world.quality(PROXY_A).quality().held().map(|(_, request)| request.far.clone()).collect();
    assert_eq!(far, [Some("er-b".to_string())], "the other end is known");
}

#[test]
fn g_s4_4_plain_proxies_between_pass_on_what_the_others_say() {
    let mut world = world();
    let users = vec![("u1".to_string(), format!("sip:u1@b.example;maddr={}", at(PROXY_B).ip()))];
    let plain = Proxy::new(settings(PLAIN, "b", users), NoQuality);
    world.add(at(PLAIN), "px", Node::Plain(Box::new(plain)));
    let (number, said) = call(&mut world);
    let marked: Vec<_> = said.iter().filter(|line| line.contains('+')).cloned().collect();
    assert_eq!(marked, ["pa>px INVITE+", "px>pb INVITE+", "pb>px 200+", "px>pa 200+"]);
    assert_eq!((world.held("er-a"), world.held("er-b")), (vec![80_000], vec![80_000]));
    let now = world.now;
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(60));
    world.assert_empty();
}

/// A plain proxy in place of one that reserves.
fn plain(world: &mut World, address: &str, letter: &str) {
    let users = vec![("u1".to_string(), format!("sip:u1@{}", if letter == "a" { ALICE } else { BOB }))];
    let name = format!("p{letter}");
    world.add(
        at(address),
        &name,
        Node::Plain(Box::new(Proxy::new(settings(address, letter, users), NoQuality))),
    );
}

#[test]
fn g_s4_5_with_one_such_proxy_or_none_a_call_is_an_ordinary_one() {
    for which in [vec![PROXY_A], vec![PROXY_B], vec![PROXY_A, PROXY_B]] {
        let mut world = world();
        for address in &which {
            plain(&mut world, address, if *address == PROXY_A { "a" } else { "b" });
        }
        let (number, said) = call(&mut world);
        assert!(said.iter().all(|line| !line.contains("er-")), "{said:?}");
        assert!(world.alice().dialogs[&number].answered, "{which:?}");
        let now = world.now;
        world.alice().hang_up(now, number);
        world.run(Duration::from_secs(60));
        world.assert_empty();
    }
}

/// Both edge routers by name, of which one has no room.
fn refusing(er: &str, on_refusal: OnRefusal) -> (World, u64, Vec<String>) {
    let mut world = World::new(|mut settings| {
        settings.on_refusal = on_refusal;
        settings
    });
    world.agents.get_mut(er).expect("there").capacity = 79_999;
    let (number, said) = call(&mut world);
    (world, number, said)
}

#[test]
fn g_s4_6_a_refusal_at_the_callees_side_leaves_a_call_without_reservation() {
    let (mut world, number, said) = refusing("er-b", OnRefusal::BestEffort);
    let reservations: Vec<_> = said.iter().filter(|line| line.contains("er-")).cloned().collect();
    assert_eq!(reservations, ["pb>er-b REQ 80", "er-b>pb DEC no"], "the caller's side does not ask then");
    assert!(world.alice().dialogs[&number].answered);
    let now = world.now;
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(60));
    world.assert_empty();
}

#[test]
fn g_s4_6_a_refusal_at_the_callers_side_gives_the_callees_back() {
    let (mut world, number, said) = refusing("er-a", OnRefusal::BestEffort);
    let reservations: Vec<_> =
        said.iter().filter(|line| line.contains("er-") || line.contains("ACK")).cloned().collect();
    let expected = "pb>er-b REQ 80
        er-b>pb DEC
        pa>er-a REQ 80
        er-a>pa DEC no
        alice>pa ACK
        pa>pb ACK+
        pb>er-b DRQ
        pb>bob ACK";
    assert_eq!(reservations, lines(expected));
    assert!(world.alice().dialogs[&number].answered);
    let endings: Vec<_> = world.records.iter().map(|r| r.ending).collect();
    assert_eq!(endings, [Ending::Refused(Code::NoCapacity), Ending::Refused(Code::PeerRefused)]);
}

#[test]
fn g_s4_6_a_refusal_ends_the_call_where_that_is_wanted() {
    for er in ["er-b", "er-a"] {
        let (mut world, number, said) = refusing(er, OnRefusal::Refuse(580));
        assert_eq!(world.alice().dialogs[&number].status, 580, "{er}");
        assert!(!world.alice().dialogs[&number].answered);
        assert!(
            said.contains(&"pb>bob BYE".to_string()) && said.contains(&"pb>bob ACK".to_string()),
            "{said:?}"
        );
        assert!(world.bob().dialogs.values().all(|dialog| dialog.over));
        world.run(Duration::from_secs(120));
        world.assert_empty();
    }
}

#[test]
fn an_edge_router_that_does_not_answer_delays_a_call_by_its_patience_only() {
    let mut world = world();
    world.agents.get_mut("er-b").expect("there").answers = None;
    let number = world.call();
    world.run(Duration::from_millis(1_400));
    assert!(!world.alice().dialogs[&number].answered, "Bob answers after a second");
    world.run(Duration::from_millis(200));
    assert!(world.alice().dialogs[&number].answered);
    assert_eq!(world.records[0].ending, Ending::Refused(Code::Timeout));
    // Its grant comes after all: it has been told that it is not wanted any more.
    world.agents.get_mut("er-b").expect("there").answers = Some(Duration::from_millis(700));
    world.call();
    world.run(Duration::from_secs(5));
    assert!(world.held("er-b").is_empty() && world.held("er-a").is_empty());
}

#[test]
fn g_s4_7_a_call_that_is_cancelled_or_refused_leaves_nothing() {
    for early in [false, true] {
        let mut world = World::new(|mut settings| {
            settings.early = early;
            settings
        });
        let ring = Some((Duration::from_millis(100), true));
        world.bob().manners = Manners { ring, answer: None, expires: None };
        let number = world.call();
        world.run(SECOND);
        assert_eq!(world.held("er-b").len(), usize::from(early));
        assert_eq!(world.held("er-a").len(), usize::from(early), "before Bob has answered");
        let now = world.now;
        world.alice().cancel(now, number);
        world.run(Duration::from_secs(100));
        assert_eq!(world.alice().dialogs[&number].status, 487);
        world.assert_empty();
        world.bob().manners.answer = Some((SECOND, 486));
        let number = world.call();
        world.run(Duration::from_secs(100));
        assert_eq!(world.alice().dialogs[&number].status, 486);
        world.assert_empty();
    }
}

#[test]
fn what_was_reserved_before_the_callee_answered_is_not_asked_for_again() {
    let mut world = World::new(|mut settings| {
        settings.early = true;
        settings
    });
    world.bob().manners.ring = Some((Duration::from_millis(100), true));
    let (_, said) = call(&mut world);
    let reservations: Vec<_> = said
        .iter()
        .filter(|line| line.contains("er-") || line.contains(" 183") || line.contains(" 200"))
        .cloned()
        .collect();
    let expected = "bob>pb 183
        pb>er-b REQ 80
        er-b>pb DEC
        pb>pa 183+
        pa>er-a REQ 80
        er-a>pa DEC
        pa>alice 183
        bob>pb 200
        pb>pa 200+
        pa>alice 200";
    assert_eq!(reservations, lines(expected));
}

#[test]
fn g_s4_7_a_later_invite_or_update_changes_what_is_reserved() {
    let mut world = world();
    let (number, _) = call(&mut world);
    for (formats, by_update, expected) in [("18", false, 24_000), ("0", true, 80_000), ("3", false, 29_200)] {
        world.alice().sdp = sdp(at(ALICE), formats, "");
        world.bob().sdp = sdp(at(BOB), formats, "");
        let now = world.now;
        if by_update {
            world.alice().update(now, number);
        } else {
            world.alice().invite(now, number, true);
        }
        world.run(Duration::from_secs(2));
        let said = world.said();
        let changes: Vec<_> = said.iter().filter(|line| line.contains("er-")).cloned().collect();
        let kbps = expected / 1_000;
        assert_eq!(
            changes,
            [
                format!("pb>er-b CHG {kbps}"),
                "er-b>pb DEC".into(),
                format!("pa>er-a CHG {kbps}"),
                "er-a>pa DEC".into()
            ],
            "{said:?}"
        );
        assert_eq!((world.held("er-a"), world.held("er-b")), (vec![expected], vec![expected]));
    }
    // More than there is: what was reserved stays.
    world.agents.get_mut("er-a").expect("there").capacity = 30_000;
    world.alice().sdp = sdp(at(ALICE), "0", "");
    world.bob().sdp = sdp(at(BOB), "0", "");
    let now = world.now;
    world.alice().invite(now, number, true);
    world.run(Duration::from_secs(2));
    assert_eq!((world.held("er-a"), world.held("er-b")), (vec![29_200], vec![80_000]));
    let now = world.now;
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(60));
    world.assert_empty();
}

#[test]
fn a_call_on_hold_keeps_what_it_has() {
    let mut world = world();
    let (number, _) = call(&mut world);
    for (alice, bob) in [("a=sendonly\r\n", "a=recvonly\r\n"), ("a=inactive\r\n", "a=inactive\r\n"), ("", "")]
    {
        world.alice().sdp = sdp(at(ALICE), "0", alice);
        world.bob().sdp = sdp(at(BOB), "0", bob);
        let now = world.now;
        world.alice().invite(now, number, true);
        world.run(Duration::from_secs(2));
        assert_eq!((world.held("er-a"), world.held("er-b")), (vec![80_000], vec![80_000]), "{alice}");
    }
}

#[test]
fn of_two_phones_that_ring_the_one_that_does_not_answer_loses_its_reservation() {
    let mut world = World::new(|mut settings| {
        settings.early = true;
        settings
    });
    for (n, answer) in [(8, Duration::from_secs(2)), (9, Duration::from_secs(20))] {
        let address = format!("10.2.0.{n}:5060");
        world.phone(&format!("u{n}@b.example"), &address, PROXY_B);
        let ring = Some((Duration::from_millis(100), true));
        world.phones.get_mut(&at(&address)).expect("there").manners =
            Manners { ring, answer: Some((answer, 200)), expires: None };
    }
    let now = world.now;
    let number = world.alice().call(now, "sip:both@b.example");
    world.run(SECOND);
    assert_eq!((world.held("er-a").len(), world.held("er-b").len()), (2, 2), "two that ring");
    world.run(Duration::from_secs(5));
    assert_eq!((world.held("er-a").len(), world.held("er-b").len()), (1, 1), "one has answered");
    assert!(world.alice().dialogs[&number].answered);
    let endings: Vec<_> = world.records.iter().map(|r| r.ending).collect();
    assert!(endings.contains(&Ending::OtherAnswered) && endings.contains(&Ending::Unanswered), "{endings:?}");
    let now = world.now;
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(60));
    world.assert_empty();
}

/// A message of the call `c1` that passes from Alice's side to Bob's, or back.
fn pass(calls: &mut Calls, now: u64, start: &str, cseq: &str, tagged: bool, body: &str) -> Option<Verdict> {
    let tag = if tagged { ";tag=9" } else { "" };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let text = format!(
        "{start}\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK1\r\nFrom: <sip:a@a.example>;tag=1\r\nTo: <sip:b@b.example>{tag}\r\n\
         Call-ID: c1\r\nCSeq: {cseq}\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let message = crate::message::Message::datagram(text.as_bytes()).expect("a message");
    let head = message.check().expect("valid");
    let begins = cseq.ends_with("1 INVITE");
    let sides = (Side::Terminal, Side::Terminal);
    let passing =
        Passing { message: &message, head: &head, call: 7, begins, from: sides.0, to: sides.1, route: None };
    if message.is_request() {
        calls.request(Instant(now), &passing);
        return None;
    }
    Some(calls.response(Instant(now), &passing))
}

#[test]
fn an_answer_in_prack_counts_and_the_2xx_waits_for_what_it_asks() {
    let mut calls = Calls::new(Settings::new("a.example", "er"));
    let (alice, bob) = (sdp(at(ALICE), "0", ""), sdp(at(BOB), "0", ""));
    pass(&mut calls, 1, "INVITE sip:b@b.example SIP/2.0", "1 INVITE", false, "");
    assert!(matches!(
        pass(&mut calls, 2, "SIP/2.0 183 Session Progress", "1 INVITE", true, &bob),
        Some(Verdict::Pass(_))
    ));
    assert_eq!(calls.poll_order(), None, "an offer alone is nothing to reserve for");
    pass(&mut calls, 3, "PRACK sip:b@b.example SIP/2.0", "2 PRACK", true, &alice);
    let Some(Order::Reserve(id, serial, request)) = calls.poll_order() else {
        panic!("the callee's part is asked for")
    };
    assert_eq!(request.flows[0].to.ip(), at(ALICE).ip());
    let Some(Verdict::Hold(ticket)) = pass(&mut calls, 4, "SIP/2.0 200 OK", "1 INVITE", true, "") else {
        panic!("it waits")
    };
    assert_eq!(
        pass(&mut calls, 5, "SIP/2.0 200 OK", "1 INVITE", true, ""),
        Some(Verdict::Hold(ticket)),
        "it came again"
    );
    calls.answer(Instant(6), id, serial, Ok(()));
    let Some(Order::Reserve(id, serial, request)) = calls.poll_order() else {
        panic!("the caller's part is asked for")
    };
    assert_eq!(request.flows[0].to.ip(), at(BOB).ip());
    calls.answer(Instant(6), id, serial + 1, Ok(()));
    assert_eq!(calls.poll_decided(), None, "an answer to something else");
    calls.answer(Instant(7), id, serial, Ok(()));
    assert!(matches!(calls.poll_decided(), Some((t, Verdict::Pass(_))) if t == ticket));
    pass(&mut calls, 8, "BYE sip:b@b.example SIP/2.0", "3 BYE", true, "");
    let released =
        std::iter::from_fn(|| calls.poll_order()).filter(|o| matches!(o, Order::Release(..))).count();
    assert_eq!((released, calls.live()), (2, (0, 0)));
}

#[test]
fn what_is_agreed_on_while_something_else_is_asked_for_is_asked_for_next() {
    let mut calls = Calls::new(Settings { early: true, ..Settings::new("a.example", "er") });
    let (alice, bob, change) = (sdp(at(ALICE), "0", ""), sdp(at(BOB), "0", ""), sdp(at(ALICE), "18", ""));
    pass(&mut calls, 1, "INVITE sip:b@b.example SIP/2.0", "1 INVITE", false, &alice);
    let held = pass(&mut calls, 2, "SIP/2.0 183 Session Progress", "1 INVITE", true, &bob);
    assert!(matches!(held, Some(Verdict::Hold(_))));
    let Some(Order::Reserve(id, serial, _)) = calls.poll_order() else {
        panic!("the callee's part is asked for")
    };
    pass(&mut calls, 3, "UPDATE sip:b@b.example SIP/2.0", "2 UPDATE", true, &change);
    let held = pass(&mut calls, 4, "SIP/2.0 200 OK", "2 UPDATE", true, &sdp(at(BOB), "18", ""));
    assert!(matches!(held, Some(Verdict::Hold(_))));
    assert_eq!(pass(&mut calls, 4, "SIP/2.0 200 OK", "2 UPDATE", true, ""), held, "it came again");
    let of_invite = pass(&mut calls, 4, "SIP/2.0 200 OK", "1 INVITE", true, "");
    assert!(
        matches!(of_invite, Some(Verdict::Hold(_))) && of_invite != held,
        "each response has a ticket of its own"
    );
    calls.answer(Instant(5), id, serial, Ok(()));
    let mut asked = Vec::new();
    while let Some(order) = calls.poll_order() {
        let (Order::Reserve(id, serial, request) | Order::Change(id, serial, request)) = order else {
            panic!("{order:?}")
        };
        asked.push(request.rate().bits_per_sec());
        calls.answer(Instant(6), id, serial, Ok(()));
    }
    assert_eq!(asked, [24_000, 24_000], "the caller's part as it is now, the callee's changed to it");
    assert_eq!(std::iter::from_fn(|| calls.poll_decided()).count(), 3);
}

#[test]
fn an_offer_in_the_response_is_reserved_for_when_the_ack_has_answered_it() {
    let mut world = world();
    let now = world.now;
    let number = world.alice().call_without_offer(now, "sip:u1@b.example");
    world.run(Duration::from_secs(3));
    assert!(world.alice().dialogs[&number].answered);
    assert_eq!((world.held("er-a"), world.held("er-b")), (vec![80_000], vec![80_000]));
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(60));
    world.assert_empty();
}

#[test]
fn a_session_that_is_not_refreshed_and_one_that_is_too_long_end_their_reservations() {
    let mut world = World::new(|mut settings| {
        settings.longest = Duration::from_secs(1_000);
        settings
    });
    world.bob().manners.expires = Some(90);
    let (number, _) = call(&mut world);
    world.run(Duration::from_secs(60));
    let now = world.now;
    world.alice().invite(now, number, true);
    world.run(Duration::from_secs(85));
    assert_eq!((world.held("er-a").len(), world.held("er-b").len()), (1, 1), "it was refreshed");
    world.run(Duration::from_secs(10));
    world.assert_empty();
    world.bob().manners.expires = None;
    call(&mut world);
    world.run(Duration::from_secs(990));
    assert_eq!((world.held("er-a").len(), world.held("er-b").len()), (1, 1));
    world.run(Duration::from_secs(10));
    world.assert_empty();
    let endings: Vec<_> = world.records.iter().map(|r| r.ending).collect();
    assert_eq!(endings, [Ending::NotRefreshed, Ending::NotRefreshed, Ending::TooLong, Ending::TooLong]);
}

#[test]
fn a_reservation_is_renewed_after_half_of_its_life() {
    let mut world = world();
    call(&mut world);
    world.run(Duration::from_secs(1_000));
    let renewed = world.said().iter().filter(|line| *line == "pa>er-a RNW 80").count();
    assert_eq!(renewed, 3, "every 300 s");
}

#[test]
fn a_reservation_that_is_taken_away_or_silent_takes_the_other_part_along() {
    for silent in [false, true] {
        let mut world = world();
        let (number, _) = call(&mut world);
        let now = world.now;
        let calls = world.quality(PROXY_A).quality_mut();
        let (id, _) = calls.held().next().expect("one");
        if silent {
            calls.silent(now, id);
        } else {
            calls.taken(now, id, Code::Preempted);
        }
        assert_eq!(calls.live(), (1, 0), "the call goes on");
        world.run(SECOND);
        let ending = world.records[0].ending;
        assert_eq!(ending, if silent { Ending::Silent } else { Ending::Taken(Code::Preempted) });
        assert_eq!(world.held("er-a").len(), usize::from(!silent), "who takes it away needs no telling");
        let now = world.now;
        world.alice().invite(now, number, true);
        world.run(Duration::from_secs(2));
        let again = world.quality(PROXY_A).quality().live();
        assert_eq!(
            again,
            (1, usize::from(silent)),
            "who speaks again has it again, and who has lost it has not"
        );
    }
}

#[test]
fn a_proxy_that_was_started_anew_gives_back_what_its_predecessor_reserved() {
    let mut world = world();
    let (number, _) = call(&mut world);
    for (address, letter) in [(PROXY_A, "a"), (PROXY_B, "b")] {
        let settings = settings(
            address,
            letter,
            vec![("u1".into(), format!("sip:u1@{}", if letter == "a" { ALICE } else { BOB }))],
        );
        let calls = Calls::new(Settings::new(&format!("{letter}.example"), &format!("er-{letter}")));
        world.add(at(address), &format!("p{letter}"), Node::Quality(Box::new(Proxy::new(settings, calls))));
    }
    assert_eq!((world.held("er-a").len(), world.held("er-b").len()), (1, 1));
    let now = world.now;
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(60));
    world.assert_empty();
}

#[test]
fn a_proxy_that_vanishes_in_whatever_phase_leaves_nothing_beyond_the_life_of_a_reservation() {
    for (step, which) in (0..70).flat_map(|step| [(step, PROXY_A), (step, PROXY_B)]) {
        let mut world = World::new(|mut settings| {
            settings.early = step % 2 == 0;
            settings
        });
        world.log = None;
        world.bob().manners.ring = Some((Duration::from_millis(400), true));
        let number = world.call();
        // Around 183 and 200 each message is a phase of its own.
        let fine = Duration::from_micros(u64::from(step % 35_u32) * 500);
        world.run(Duration::from_millis(if step < 35 { 398 } else { 998 }) + fine);
        let letter = if which == PROXY_A { "a" } else { "b" };
        let users = vec![("u1".to_string(), format!("sip:u1@{}", if letter == "a" { ALICE } else { BOB }))];
        let mut anew = settings(which, letter, users);
        anew.seed = 1_000_000;
        let calls = Calls::new(Settings::new(&format!("{letter}.example"), &format!("er-{letter}")));
        world.add(at(which), &format!("p{letter}"), Node::Quality(Box::new(Proxy::new(anew, calls))));
        world.run(Duration::from_secs(40));
        let now = world.now;
        world.alice().hang_up(now, number);
        world.run(Duration::from_secs(610));
        let held = (world.held("er-a"), world.held("er-b"));
        let known = world.quality(PROXY_A).quality().live().1 + world.quality(PROXY_B).quality().live().1;
        assert_eq!(
            held.0.len() + held.1.len(),
            known,
            "step {step}: what is held is renewed by somebody who knows the call"
        );
        assert_eq!(world.quality(which).under_way(), (0, 0));
    }
}

#[test]
fn a_refusal_before_the_callee_has_answered_stops_the_ringing() {
    for er in ["er-b", "er-a"] {
        let mut world = World::new(|mut settings| {
            settings.early = true;
            settings.on_refusal = OnRefusal::Refuse(488);
            settings
        });
        world.agents.get_mut(er).expect("there").capacity = 0;
        world.bob().manners =
            Manners { ring: Some((Duration::from_millis(100), true)), answer: None, expires: None };
        let number = world.call();
        world.run(Duration::from_secs(3));
        assert_eq!(world.alice().dialogs[&number].status, 488, "{er}");
        assert!(world.said().contains(&"pb>bob CANCEL".to_string()));
        world.run(Duration::from_secs(100));
        world.assert_empty();
    }
}

#[test]
fn the_edge_router_of_a_phones_network_is_asked_or_the_callees_where_that_is_wanted() {
    let edge = |settings: &mut Settings| {
        let address = at(ALICE).ip();
        settings.edges = vec![Edge { address, prefix: 32, er: "er-b".into() }];
    };
    let mut world = World::new(|mut settings| {
        edge(&mut settings);
        settings
    });
    call(&mut world);
    assert_eq!((world.held("er-a"), world.held("er-b")), (vec![], vec![80_000, 80_000]));
    let mut world = World::new(|mut settings| {
        (settings.mode, settings.ask) = (Mode::Bi, Ask::Far);
        settings
    });
    call(&mut world);
    assert_eq!((world.held("er-a"), world.held("er-b")), (vec![], vec![160_000]));
}

#[test]
fn phones_of_one_proxy_have_both_parts_from_it() {
    let mut world = world();
    world.phone("u2@a.example", "10.1.0.2:5060", PROXY_A);
    let now = world.now;
    world.alice().call(now, "sip:u2@a.example");
    world.run(Duration::from_secs(3));
    assert_eq!(world.held("er-a"), [80_000, 80_000]);
}

#[test]
fn what_phones_and_strangers_say_of_reservations_is_not_believed() {
    let mut world = world();
    world.alice().more = "QoS-Proxy: er=er-x;realm=x;mode=bi;dir=both\r\n".into();
    let (_, said) = call(&mut world);
    assert!(said.contains(&"alice>pa INVITE+".to_string()));
    assert_eq!((world.held("er-a"), world.held("er-b")), (vec![80_000], vec![80_000]), "our own word counts");
    let mut world = World::new(|settings| settings);
    world.phone("stranger@c.example", "172.16.0.1:5060", PROXY_B);
    let now = world.now;
    let stranger = world.phones.get_mut(&at("172.16.0.1:5060")).expect("there");
    stranger.more = "QoS-Proxy: er=er-x;realm=x;mode=uni;dir=send\r\n".into();
    stranger.call(now, "sip:u1@b.example");
    world.run(Duration::from_secs(3));
    assert!(world.held("er-b").is_empty());
}

#[test]
fn rules_say_who_gets_reservations_and_how_important_they_are() {
    let rules = vec![
        Rule { caller: "u1@a.example".into(), callee: "*".into(), reserve: false },
        Rule { caller: "*@a.example".into(), callee: "*@b.example".into(), reserve: true },
        Rule { caller: "*".into(), callee: "*".into(), reserve: false },
    ];
    let mut world = World::new(move |mut settings| {
        settings.rules = rules.clone();
        settings.priorities = vec![("esnet.0".into(), 7)];
        settings
    });
    world.phone("u2@a.example", "10.1.0.2:5060", PROXY_A);
    let (_, said) = call(&mut world);
    assert!(said.iter().all(|line| !line.contains("er-")));
    let now = world.now;
    let other = world.phones.get_mut(&at("10.1.0.2:5060")).expect("there");
    other.more = "Resource-Priority: dsn.flash, esnet.0\r\n".into();
    other.call(now, "sip:u1@b.example");
    world.run(Duration::from_secs(3));
    let held: Vec<_> = world.quality(PROXY_B).quality().held().map(|(_, request)| request.priority).collect();
    assert_eq!(held, [7]);
}

#[test]
fn a_descriptor_is_read_as_it_was_written_and_nothing_else_is() {
    for mode in [Mode::Uni, Mode::Bi] {
        for dir in [Dir::Send, Dir::Both, Dir::None] {
            let descriptor = Descriptor { er: "er-1.a".into(), realm: "a.example".into(), mode, dir };
            assert_eq!(Descriptor::read(descriptor.text().as_bytes()), Some(descriptor.clone()));
            let more = format!("{};later=x", descriptor.text());
            assert_eq!(Descriptor::read(more.as_bytes()), Some(descriptor));
        }
    }
    for bad in [
        "",
        "er=a",
        "er=a;realm=b;mode=x;dir=send",
        "er=a b;realm=b;mode=uni;dir=send",
        "er=\"a\";realm=b;mode=uni;dir=send",
    ] {
        assert_eq!(Descriptor::read(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn repetitions_of_a_response_reserve_nothing_twice() {
    for seed in 1..40 {
        let mut world = world();
        world.seed = seed;
        world.loss_percent = 25;
        let number = world.call();
        world.run(Duration::from_secs(30));
        let said = world.said();
        let asked = |er: &str| said.iter().filter(|line| line.contains(&format!(">{er} REQ"))).count();
        assert!(asked("er-a") <= 1 && asked("er-b") <= 1, "{said:?}");
        let now = world.now;
        world.alice().hang_up(now, number);
        world.run(Duration::from_secs(400));
        for er in ["er-a", "er-b"] {
            assert!(world.held(er).is_empty() || world.loss_percent > 0);
        }
    }
}
