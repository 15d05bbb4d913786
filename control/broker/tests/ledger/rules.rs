//! Who may reserve how much, one rule a test.

use crate::domains::{BEGIN_MS, DOMAIN, World, reserve, topology};
use perhop_broker::ledger::{ClientChange, Granted, Input, MOST_FLOW, Request, Reserve, Settings, Told, Way};
use perhop_broker::record::{ClientRow, ReservationState};
use perhop_reason::Code;

fn world() -> World {
    World::new(Settings::default(), DOMAIN)
}

fn client(name: &str) -> ClientRow {
    ClientRow {
        name: name.into(),
        kind: "http".into(),
        cert_sha256: None,
        token_sha256: None,
        role: "agent".into(),
        most_bps: None,
        most_count: None,
        per_second: None,
    }
}

fn put(world: &mut World, row: ClientRow) {
    let ask = world.next_ask();
    world.input(Input::Client { ask, who: "admin".into(), change: ClientChange::Put(row) });
    assert_eq!(world.answers[&ask], Ok(Granted::Taken));
}

#[test]
fn a_refusal_names_the_tightest_link_the_class_what_was_asked_and_what_is_free() {
    let mut world = world();
    world.reserve("ann", reserve("1", "a", "b", 12)).expect("all is free");
    world.reserve("ann", reserve("2", "a", "p", 15)).expect("18 are left up to d, 20 behind");
    let refusal = world.reserve("ben", reserve("1", "a", "p", 4)).expect_err("3 are left up to d, 5 behind");
    assert_eq!((refusal.code, refusal.link.as_str()), (Code::NoCapacity, "a/up"));
    assert_eq!((refusal.class.as_str(), refusal.asked_bps, refusal.free_bps), ("voice", 4, 3));
    assert!(refusal.message.contains("3 bit/s") && refusal.message.contains("a/up"), "{}", refusal.message);
    let logged = world.database.audit.last().expect("refusals are logged");
    assert_eq!((logged.refused, logged.subject.as_str()), (Some(Code::NoCapacity), "a/up"));
    let detail: serde_json::Value = serde_json::from_str(&logged.detail).expect("it is JSON");
    assert_eq!(
        (&detail["class"], &detail["asked"], &detail["free"]),
        (&"voice".into(), &4.into(), &3.into())
    );
    world.reserve("ben", reserve("1", "a", "p", refusal.free_bps)).expect("what is free is granted");
}

#[test]
fn both_directions_are_booked_or_none() {
    let mut world = world();
    world.reserve("ann", reserve("1", "b", "a", 25)).expect("all is free");
    let both = |bps, back| Reserve { back_bps: Some(back), ..reserve("2", "a", "b", bps) };
    let refusal = world.reserve("ann", both(10, 6)).expect_err("the way back has 5");
    assert_eq!((refusal.link.as_str(), refusal.free_bps), ("b/up", 5));
    assert_eq!(world.free("a", "up", "voice"), 30);
    let held = world.reserve("ann", both(10, 5)).expect("it fits");
    assert_eq!((held.bps, held.back_bps), (10, Some(5)));
    let twin = held.twin.expect("both");
    let refusal = world.ask(
        "ann",
        Request::Change { id: twin, bps: Some(6), back_bps: Some(1), lifetime_ms: None, flow: None },
    );
    assert_eq!(refusal.expect_err("5 are all").free_bps, 5);
    assert_eq!(world.free("a", "up", "voice"), 20);
    world.release("ann", twin).expect("by the number of either");
    assert_eq!((world.free("a", "up", "voice"), world.free("b", "up", "voice")), (30, 5));
    assert_eq!(world.ledger.reservations(), 1);
}

#[test]
fn the_same_key_with_the_same_request_is_the_same_reservation_also_while_it_is_written() {
    let mut world = world();
    world.holds = true;
    let request = |bps| Request::Reserve(Box::new(reserve("k", "a", "b", bps)));
    let (first, again, other) =
        (world.send("ann", request(3)), world.send("ann", request(3)), world.send("ann", request(4)));
    assert!([again, other].iter().all(|ask| !world.answers.contains_key(ask)));
    world.write();
    world.write();
    assert!(world.answers[&first].is_ok() && world.answers[&first] == world.answers[&again]);
    let refusal = world.answers[&other].clone().expect_err("the key is used");
    assert_eq!(refusal.code, Code::TxnIdReused);
    world.holds = false;
    assert_eq!(world.ask("ann", request(3)), world.answers[&first].clone());
    assert!(world.reserve("ben", reserve("k", "a", "b", 4)).is_ok(), "keys are each client's own");
    assert_eq!(world.ledger.reservations(), 2);
    let Ok(Granted::Held(held)) = world.answers[&first].clone() else { panic!("it was granted") };
    world.release("ann", held.id).expect("it is hers");
    assert_ne!(world.reserve("ann", reserve("k", "a", "b", 4)).expect("the key is free").id, held.id);
}

#[test]
fn only_the_owner_and_operators_change_a_reservation_and_its_owner_hears_of_theirs() {
    let mut world = world();
    let id = world.reserve("ann", reserve("1", "a", "b", 3)).expect("all is free").id;
    assert_eq!(world.release("ben", id).expect_err("it is Ann's").code, Code::NotOwner);
    let renew = Request::Renew { id, lifetime_ms: None };
    assert_eq!(world.ask("ben", renew.clone()).expect_err("it is Ann's").code, Code::NotOwner);
    assert!(world.ask("op", renew).is_ok());
    world.told.clear();
    world.release("op", id).expect("an operator may");
    assert!(world.is_gone(id, Code::Forbidden), "{:?}", world.told);
    assert_eq!(world.release("ann", id).expect_err("it is gone").code, Code::NotFound);
    assert_eq!(world.release("nobody", id).expect_err("who?").code, Code::Unauthenticated);
}

#[test]
fn quotas_bound_what_a_client_has_and_how_often_it_asks() {
    let mut world = world();
    put(&mut world, ClientRow { most_bps: Some(10), most_count: Some(2), ..client("eve") });
    let both = Reserve { back_bps: Some(3), ..reserve("1", "a", "b", 4) };
    let id = world.reserve("eve", both).expect("7 of 10").id;
    let refusal = world.reserve("eve", reserve("2", "a", "b", 4)).expect_err("11 of 10");
    assert_eq!((refusal.code, refusal.asked_bps, refusal.free_bps), (Code::Quota, 4, 3));
    world.reserve("eve", reserve("2", "a", "b", 1)).expect("8 of 10");
    let refusal = world.reserve("eve", reserve("3", "a", "b", 1)).expect_err("three of two");
    assert_eq!((refusal.code, refusal.free_bps), (Code::Quota, 0));
    let change =
        |bps, back_bps| Request::Change { id, bps: Some(bps), back_bps, lifetime_ms: None, flow: None };
    assert_eq!(world.ask("eve", change(7, None)).expect_err("11 of 10").code, Code::Quota);
    assert_eq!(world.ask("op", change(7, None)).expect_err("it is still hers").code, Code::Quota);
    world.ask("eve", change(6, Some(3))).expect("10 of 10");
    world.ask("eve", change(8, Some(1))).expect("10 of 10, the other way round");

    put(&mut world, ClientRow { per_second: Some(2), ..client("eve") });
    let release = Request::Release { id: 999 };
    let codes: Vec<_> =
        (0..3).map(|_| world.ask("eve", release.clone()).expect_err("no such thing").code).collect();
    assert_eq!(codes, [Code::NotFound, Code::NotFound, Code::Overload]);
    let refusal = world.ask("eve", release.clone()).expect_err("too often");
    assert_eq!(refusal.retry_after_ms, 500);
    world.pass(500);
    assert_eq!(world.ask("eve", release).expect_err("no such thing").code, Code::NotFound);
}

#[test]
fn who_cannot_be_kept_is_refused_alone() {
    let mut world = world();
    let wrong = [
        client(""),
        client("e\0ve"),
        ClientRow { role: "king".into(), ..client("eve") },
        ClientRow { most_bps: Some(u64::MAX), ..client("eve") },
        ClientRow { token_sha256: Some("\0".into()), ..client("eve") },
    ];
    for row in wrong {
        let ask = world.next_ask();
        let change = ClientChange::Put(row.clone());
        world.input(Input::Client { ask, who: "ad\0min".into(), change });
        let refusal = world.answers[&ask].clone().expect_err("it cannot be kept");
        assert_eq!(refusal.code, Code::OutOfRange, "{row:?}");
        assert!(world.ledger.client(&row.name).is_none());
    }
    let logged = world.database.audit.last().expect("it is logged");
    assert_eq!((logged.who.as_str(), logged.what.as_str()), ("admin", "client"));
}

#[test]
fn a_client_that_is_gone_may_not_ask_and_keeps_what_it_has_until_its_life_ends() {
    let mut world = world();
    let id = world.reserve("ann", reserve("1", "a", "b", 3)).expect("all is free").id;
    let ask = world.next_ask();
    world.input(Input::Client { ask, who: "admin".into(), change: ClientChange::Gone("ann".into()) });
    assert_eq!(world.release("ann", id).expect_err("gone").code, Code::Unauthenticated);
    assert_eq!(world.free("a", "up", "voice"), 27);
    world.restart(Settings::default());
    assert!(world.ledger.reservation(id).is_some());
    world.pass(10 * 60 * 1_000);
    assert_eq!(world.free("a", "up", "voice"), 30);
}

#[test]
fn a_reservation_ends_by_itself_unless_it_is_renewed_and_its_owner_is_told() {
    let mut world = world();
    let life =
        |key: &str, ms| Reserve { lifetime_ms: Some(ms), back_bps: Some(1), ..reserve(key, "a", "b", 3) };
    let one = world.reserve("ann", life("1", 5_000)).expect("all is free");
    let two = world.reserve("ann", life("2", 5_000)).expect("all is free");
    assert_eq!(world.ledger.next_wakeup().map(|at| at.0), Some((BEGIN_MS + 5_000) * 1_000_000));
    world.pass(4_999);
    let renewed = world.ask("ann", Request::Renew { id: two.id, lifetime_ms: Some(7_000) });
    assert!(matches!(renewed, Ok(Granted::Held(held)) if held.expires_ms == BEGIN_MS + 11_999));
    assert_eq!(world.ledger.reservations(), 4);
    world.told.clear();
    world.pass(1);
    assert_eq!(world.ledger.reservations(), 2);
    for id in [Some(one.id), one.twin].into_iter().flatten() {
        assert!(world.is_gone(id, Code::Timeout), "{:?}", world.told);
    }
    assert_eq!(world.database.log_of(&one.id.to_string()), ["reserve", "expire"]);
    world.pass(6_999);
    assert_eq!((world.ledger.reservations(), world.free("a", "up", "voice")), (0, 30));
}

#[test]
fn what_a_neighbour_has_to_agree_to_is_booked_and_asking_until_it_does() {
    let mut world = world();
    let held = world.reserve("ann", Reserve { asking: true, ..reserve("1", "a", "p", 5) }).expect("it fits");
    assert_eq!((held.state, world.free("a", "up", "voice")), (ReservationState::Asking, 25));
    let settle = Request::Settle { id: held.id, peer_handle: Some("theirs-7".into()) };
    assert!(
        matches!(world.ask("ann", settle), Ok(Granted::Held(held)) if held.state == ReservationState::Held)
    );
    let row = world.database.reservations.get(&held.id).expect("it is written");
    assert_eq!((row.state, row.peer_handle.as_deref()), (ReservationState::Held, Some("theirs-7")));
}

#[test]
fn what_is_no_request_is_refused_by_its_reason() {
    let mut world = world();
    let good = || reserve("1", "a", "b", 3);
    let wrong = [
        (Reserve { idem: String::new(), ..good() }, Code::OutOfRange),
        (Reserve { idem: "x".repeat(256), ..good() }, Code::OutOfRange),
        (Reserve { idem: "1\u{1f}back".into(), ..good() }, Code::OutOfRange),
        (Reserve { bps: 0, ..good() }, Code::OutOfRange),
        (Reserve { bps: u64::MAX, ..good() }, Code::OutOfRange),
        (Reserve { back_bps: Some(0), ..good() }, Code::OutOfRange),
        (Reserve { floor_bps: Some(4), ..good() }, Code::OutOfRange),
        (Reserve { lifetime_ms: Some(0), ..good() }, Code::OutOfRange),
        (Reserve { lifetime_ms: Some(u64::MAX), ..good() }, Code::OutOfRange),
        (Reserve { flow: "x".repeat(MOST_FLOW + 1), ..good() }, Code::OutOfRange),
        (Reserve { flow: "\0".into(), ..good() }, Code::OutOfRange),
        (Reserve { class: "gold".into(), ..good() }, Code::BadReference),
        (Reserve { class: "video".into(), ..reserve("1", "a", "p", 3) }, Code::BadReference),
        (reserve("1", "a", "nowhere", 3), Code::NoPath),
        (reserve("1", "a", "a", 3), Code::NoPath),
        (reserve("1", "a", "c", 3), Code::NoPath),
        (Reserve { way: Way::Path(99), ..good() }, Code::NotFound),
    ];
    for (request, code) in wrong {
        let why = world.ledger.why("ann", &Request::Reserve(Box::new(request.clone())));
        let refusal = world.reserve("ann", request.clone()).expect_err("it is wrong");
        assert_eq!(refusal.code, code, "{request:?}");
        assert_eq!(why, Err(refusal), "{request:?}");
    }
    assert_eq!(world.ledger.reservations(), 0);
}

#[test]
fn asking_why_changes_nothing() {
    let mut world = world();
    world.reserve("ann", reserve("1", "a", "b", 20)).expect("all is free");
    let (before, groups) = (world.ledger.snapshot(), world.database.groups);
    let why = |bps| Request::Reserve(Box::new(Reserve { back_bps: Some(1), ..reserve("2", "a", "b", bps) }));
    assert_eq!(world.ledger.why("ben", &why(10)), Ok(()));
    let refusal = world.ledger.why("ben", &why(11)).expect_err("10 are left");
    assert_eq!((refusal.code, refusal.free_bps), (Code::NoCapacity, 10));
    assert_eq!(world.ledger.why("ann", &Request::Release { id: 1 }), Ok(()));
    assert_eq!(world.ledger.snapshot(), before);
    world.input(Input::Wake);
    // Rows that a trial touched may be written again, as they are.
    assert!(world.database.groups <= groups + 1);
    world.same_rows();
}

#[test]
fn of_many_refusals_of_one_client_the_log_has_a_few_and_the_number_of_the_others() {
    let mut world = World::new(Settings { refusals_per_second: 3, ..Settings::default() }, DOMAIN);
    let before = world.database.audit.len();
    for _ in 0..50 {
        assert!(world.release("ann", 7).is_err());
    }
    assert_eq!(world.database.audit.len() - before, 3);
    world.pass(1_000);
    assert!(world.release("ann", 7).is_err());
    let detail = &world.database.audit.last().expect("it is logged").detail;
    let detail: serde_json::Value = serde_json::from_str(detail).expect("it is JSON");
    assert_eq!(detail["unlogged"], 47);
}

#[test]
fn the_domain_has_a_limit_of_reservations() {
    let mut world = World::new(Settings { most_reservations: 3, ..Settings::default() }, DOMAIN);
    let both = |key: &str| Reserve { back_bps: Some(1), ..reserve(key, "a", "b", 1) };
    world.reserve("ann", both("1")).expect("two of three");
    assert_eq!(world.reserve("ann", both("2")).expect_err("four of three").code, Code::LimitReached);
    world.reserve("ann", reserve("2", "a", "b", 1)).expect("three of three");
    world.ledger.configure(Settings { most_reservations: 4, ..Settings::default() });
    world.reserve("ann", reserve("3", "a", "b", 1)).expect("four of four");
}

#[test]
fn reservations_of_an_owner_are_read_in_pages() {
    let mut world = world();
    for key in 0..7 {
        let client = if key == 3 { "ben" } else { "ann" };
        world.reserve(client, reserve(&key.to_string(), "a", "b", 1)).expect("it fits");
    }
    let (mut keys, mut after) = (Vec::new(), 0);
    loop {
        let page = world.ledger.of_owner("ann", after, 2);
        let Some(last) = page.last() else { break };
        after = last.id;
        keys.extend(page.iter().map(|row| row.idem.clone()));
    }
    assert_eq!(keys, ["0", "1", "2", "4", "5", "6"]);
    assert_eq!(world.ledger.by_key("ben", "3").map(|row| row.owner), Some("ben".into()));
    assert_eq!(world.ledger.by_key("ann", "3"), None);
}

#[test]
fn a_link_alone_can_be_reserved_and_is_none_of_the_share_that_its_node_is_told() {
    let mut world = world();
    let alone = |key: &str, node: &str, port: &str, bps| {
        Reserve::new(key, Way::Link { node: node.into(), port: port.into() }, "voice", bps)
    };
    // Between core routers, too.
    let held = world.reserve("ann", alone("m", "c", "to-d", 20)).expect("all is free");
    assert_eq!((world.free("c", "to-d", "voice"), world.free("a", "up", "voice")), (10, 30));
    let refusal = world.reserve("ben", reserve("1", "a", "b", 12)).expect_err("10 are left there");
    assert_eq!((refusal.link.as_str(), refusal.free_bps), ("c/to-d", 10));
    world.told.clear();
    world.reserve("ben", reserve("1", "a", "b", 10)).expect("it fits");
    let of_link = |world: &World| {
        let mut shares = world.told.iter().filter_map(|told| match told {
            Told::Share { node, port, reserved_bps, .. } if (&**node, &**port) == ("c", "to-d") => {
                Some(*reserved_bps)
            }
            _ => None,
        });
        shares.next_back()
    };
    assert_eq!(of_link(&world), Some(10));
    let refusal = world.ask(
        "ann",
        Request::Change { id: held.id, bps: Some(21), back_bps: None, lifetime_ms: None, flow: None },
    );
    assert_eq!(refusal.expect_err("20 are all").free_bps, 20);
    assert_eq!(
        world.reserve("ann", alone("n", "c", "to-x", 1)).expect_err("there is none").code,
        Code::NoPath
    );
    let both = Reserve { back_bps: Some(1), ..alone("n", "c", "to-d", 1) };
    assert_eq!(world.reserve("ann", both).expect_err("that is another link").code, Code::NoPath);
    // It outlives the leader, and the link cannot go.
    world.restart(Settings::default());
    assert_eq!(world.ledger.one_link(held.path).map(|link| link.port.as_str()), Some("to-d"));
    let smaller = DOMAIN.replacen("port = \"to-d\"", "port = \"to-e\"", 1);
    let refusal = world.become_(&topology(&smaller)).expect_err("it carries reservations");
    assert_eq!(refusal.code, Code::InUse);
    world.told.clear();
    world.release("ann", held.id).expect("it is there");
    assert_eq!((of_link(&world), world.free("c", "to-d", "voice")), (Some(10), 20));
}

#[test]
fn a_question_that_decides_nothing_is_one_of_the_clients_requests() {
    let mut world = world();
    put(&mut world, ClientRow { per_second: Some(2), ..client("eve") });
    let now = perhop_units::Instant(world.now_ms * 1_000_000);
    assert_eq!(world.ledger.take_turn(now, "eve"), Ok(()));
    world.reserve("eve", reserve("1", "a", "b", 1)).expect("the second");
    let refusal = world.ledger.take_turn(now, "eve").expect_err("the third");
    assert_eq!((refusal.code, refusal.retry_after_ms), (Code::Overload, 500));
    assert_eq!(world.ledger.take_turn(now, "ann"), Ok(()), "she may as often as she likes");
    assert_eq!(world.ledger.take_turn(now, "a node"), Ok(()), "who reserves nothing has no rate");
}

#[test]
fn whoever_says_what_a_link_has_is_in_the_log() {
    let mut world = world();
    let link = world.ledger.link("a", "up").expect("it is there");
    world.input(Input::Rate { who: "op".into(), link, bps: 40 });
    let logged = world.database.audit.last().expect("it is logged");
    assert_eq!(
        (logged.who.as_str(), logged.what.as_str(), logged.subject.as_str()),
        ("op", "capacity", "a/up")
    );
}
