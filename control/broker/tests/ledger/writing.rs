//! Groups: what is answered when, and what becomes of decisions that are not written.

use crate::domains::{DOMAIN, World, reserve, topology};
use perhop_broker::ledger::{Granted, Input, Request, Settings};
use perhop_broker::record::Change;
use perhop_reason::Code;

fn held_world() -> World {
    let mut world = World::new(Settings::default(), DOMAIN);
    world.holds = true;
    world
}

fn request(key: &str, bps: u64) -> Request {
    Request::Reserve(Box::new(reserve(key, "a", "b", bps)))
}

#[test]
fn nothing_is_answered_before_it_is_written_and_what_comes_meanwhile_is_one_group() {
    let mut world = held_world();
    let first = world.send("ann", request("1", 3));
    let rest: Vec<_> = (2..6).map(|key| world.send("ann", request(&key.to_string(), 3))).collect();
    assert!(!world.answers.contains_key(&first));
    world.write();
    assert!(world.answers[&first].is_ok());
    assert!(rest.iter().all(|ask| !world.answers.contains_key(ask)));
    let group = world.flight.clone().expect("the rest");
    let capacities: Vec<_> = group
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Capacity(row) => Some(row.reserved),
            _ => None,
        })
        .collect();
    assert_eq!(capacities, [15, 15, 15], "each link once, with its last value");
    world.write();
    assert!(rest.iter().all(|ask| world.answers[ask].is_ok()));
}

#[test]
fn a_group_that_fails_takes_along_what_rests_on_it_and_leaves_nothing() {
    let mut world = held_world();
    let asks = [
        world.send("ann", request("1", 20)),
        world.send("ann", request("2", 10)),
        // Refused only because of the two before it.
        world.send("ben", request("1", 1)),
    ];
    world.fail(700);
    for ask in asks {
        let refusal = world.answers[&ask].clone().expect_err("it is not written");
        assert_eq!((refusal.code, refusal.retry_after_ms), (Code::BackendFailed, 700));
    }
    world.same_rows();
    assert!(!world.ledger.is_open());
    world.pass(300);
    let refusal = world.ask("ann", request("1", 20)).expect_err("the pause is not over");
    assert_eq!((refusal.code, refusal.retry_after_ms), (Code::BackendFailed, 400));
    world.pass(400);
    world.holds = false;
    // Rows that may have been touched are written again: whether the database is back shows.
    world.write();
    assert!(world.ask("ben", request("1", 30)).is_ok());
    world.same_rows();
}

#[test]
fn a_refusal_that_rests_on_nothing_unwritten_leaves_at_once() {
    let mut world = held_world();
    let refused = world.send("ann", request("1", 31));
    assert_eq!(world.answers[&refused].clone().map_err(|r| r.code), Err(Code::NoCapacity));
    world.write();
    let granted = world.send("ann", request("2", 30));
    let refused = world.send("ann", request("3", 1));
    assert!(!world.answers.contains_key(&refused));
    world.write();
    assert!(world.answers[&granted].is_ok() && world.answers[&refused].is_err());
}

#[test]
fn a_refusal_waits_for_the_very_group_that_it_rests_on() {
    let mut world = held_world();
    let first = world.send("ann", request("1", 20));
    let second = world.send("ann", request("2", 10));
    let refused = world.send("ben", request("1", 1));
    let replayed = world.send("ann", request("2", 10));
    world.write();
    assert!(world.answers[&first].is_ok());
    assert!([second, refused, replayed].iter().all(|ask| !world.answers.contains_key(ask)));
    world.fail(100);
    for ask in [second, refused, replayed] {
        assert_eq!(world.answers[&ask].clone().map_err(|refusal| refusal.code), Err(Code::BackendFailed));
    }
}

#[test]
fn what_ended_by_itself_in_a_group_that_failed_ends_again() {
    let mut world = held_world();
    world.holds = false;
    world.reserve("ann", reserve("1", "a", "b", 3)).expect("it fits");
    world.holds = true;
    world.pass(600_000);
    world.fail(0);
    assert_eq!(world.ledger.reservations(), 1);
    let wake = world.ledger.next_wakeup().expect("it is still to end");
    assert!(wake.0 > world.now_ms * 1_000_000, "no hurry while the database is gone");
    world.pass(wake.0 / 1_000_000 - world.now_ms);
    world.write();
    assert_eq!((world.ledger.reservations(), world.database.reservations.len()), (0, 0));
}

#[test]
fn a_rate_that_was_told_while_the_database_was_gone_counts_afterwards() {
    let mut world = held_world();
    world.rate("c", "to-d", 10);
    world.fail(1_000);
    world.rate("d", "to-b", 20);
    let free = |world: &World, node, port| world.free(node, port, "video");
    assert_eq!((free(&world, "c", "to-d"), free(&world, "d", "to-b")), (50, 50));
    world.pass(1_000);
    world.write();
    assert_eq!((free(&world, "c", "to-d"), free(&world, "d", "to-b")), (10 * 5 / 35, 20 * 10 / 40));
    world.same_rows();
}

#[test]
fn who_has_been_replaced_decides_nothing_any_more() {
    let mut world = held_world();
    let first = world.send("ann", request("1", 3));
    let number = world.flight.take().expect("it is on its way").number;
    world.input(Input::Failed { number, code: Code::Fenced, retry_after_ms: 0 });
    let refusal = world.answers[&first].clone().expect_err("not by this one");
    assert_eq!(refusal.code, Code::HeldElsewhere);
    assert_eq!(world.ask("ann", request("2", 3)).expect_err("over").code, Code::HeldElsewhere);
    assert_eq!(world.become_(&topology(DOMAIN)).expect_err("over").code, Code::HeldElsewhere);
    world.pass(1_000_000);
    assert!(world.flight.is_none() && world.ledger.next_wakeup().is_none());
}

#[test]
fn a_report_of_another_group_is_passed_over() {
    let mut world = held_world();
    let ask = world.send("ann", request("1", 3));
    let number = world.flight.as_ref().expect("it is on its way").number;
    world.input(Input::Written { number: number + 1 });
    world.input(Input::Failed { number: number - 1, code: Code::BackendFailed, retry_after_ms: 9 });
    assert!(!world.answers.contains_key(&ask) && world.ledger.is_open());
    world.write();
    world.input(Input::Written { number });
    assert!(matches!(world.answers[&ask], Ok(Granted::Held(_))));
}

#[test]
fn more_requests_than_a_group_takes_are_refused_until_it_is_written() {
    let mut world = World::new(Settings { group: 2, ..Settings::default() }, DOMAIN);
    world.holds = true;
    let asks: Vec<_> = (0..4).map(|key| world.send("ann", request(&key.to_string(), 1))).collect();
    let refusal = world.answers[&asks[3]].clone().expect_err("one is on its way, two wait");
    assert_eq!(refusal.code, Code::Overload);
    assert!(refusal.retry_after_ms > 0);
    world.write();
    assert!(world.answers[&asks[0]].is_ok());
    let again = world.send("ann", request("3", 1));
    world.write();
    world.write();
    assert!([asks[1], asks[2], again].iter().all(|ask| world.answers[ask].is_ok()));
}

#[test]
fn many_reservations_that_end_at_once_end_in_several_groups() {
    let mut world = World::new(Settings { group: 3, ..Settings::default() }, DOMAIN);
    for key in 0..10 {
        world.reserve("ann", reserve(&key.to_string(), "a", "b", 1)).expect("it fits");
    }
    world.holds = true;
    world.pass(600_000);
    assert_eq!(world.ledger.reservations(), 7);
    assert!(
        world.ledger.next_wakeup().is_none_or(|at| at.0 > world.now_ms * 1_000_000) || world.flight.is_some()
    );
    while world.flight.is_some() {
        world.write();
    }
    assert_eq!((world.ledger.reservations(), world.database.reservations.len()), (0, 0));
}

#[test]
fn a_new_leader_has_what_the_database_has_at_every_instant() {
    let mut world = held_world();
    let first = world.send("ann", request("1", 3));
    world.restart(Settings { fence: 2, ..Settings::default() });
    assert!(!world.answers.contains_key(&first));
    assert_eq!(world.ledger.reservations(), 0);
    world.holds = false;
    assert!(world.ask("ann", request("1", 3)).is_ok());
    world.restart(Settings { fence: 3, ..Settings::default() });
    assert!(matches!(world.ask("ann", request("1", 3)), Ok(Granted::Held(held)) if held.bps == 3));
    assert_eq!(world.ledger.reservations(), 1);
}
