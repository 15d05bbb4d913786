//! What is important takes from what is less so, where the settings say so.

use crate::domains::{DOMAIN, World, reserve};
use perhop_broker::ledger::{Request, Reserve, Settings, Told};
use perhop_reason::Code;

fn important(key: &str, to: &str, bps: u64, priority: u8) -> Reserve {
    Reserve { priority, ..reserve(key, "a", to, bps) }
}

fn world() -> World {
    World::new(Settings { preempt: true, ..Settings::default() }, DOMAIN)
}

#[test]
fn by_default_nothing_is_taken_from_anybody() {
    let mut world = World::new(Settings::default(), DOMAIN);
    world.reserve("ann", important("1", "b", 30, 0)).expect("it fits");
    assert_eq!(world.reserve("ben", important("1", "b", 1, 255)).expect_err("full").code, Code::NoCapacity);
}

#[test]
fn the_least_important_and_youngest_give_way_with_their_twins_and_are_told() {
    let mut world = world();
    let old = world.reserve("ann", important("1", "b", 10, 1)).expect("it fits");
    let twin = Reserve { back_bps: Some(5), ..important("2", "b", 10, 1) };
    let young = world.reserve("ann", twin).expect("it fits");
    let high = world.reserve("ann", important("3", "b", 10, 5)).expect("it fits");
    world.told.clear();
    world.reserve("ben", important("1", "b", 6, 2)).expect("one gives way");
    for id in [Some(young.id), young.twin].into_iter().flatten() {
        assert!(world.is_gone(id, Code::Preempted), "{:?}", world.told);
    }
    assert_eq!(world.database.log_of(&young.id.to_string()), ["reserve", "preempt"]);
    assert!(world.ledger.reservation(old.id).is_some() && world.ledger.reservation(high.id).is_some());
    assert_eq!(world.free("b", "up", "voice"), 30);
}

#[test]
fn if_even_that_does_not_make_room_nobody_gives_way() {
    let mut world = world();
    world.reserve("ann", important("1", "b", 10, 1)).expect("it fits");
    world.reserve("ann", important("2", "b", 20, 5)).expect("it fits");
    let before = world.ledger.snapshot().reservations;
    world.told.clear();
    let refusal = world.reserve("ben", important("1", "b", 11, 5)).expect_err("10 are of lower priority");
    assert_eq!((refusal.code, refusal.free_bps), (Code::NoCapacity, 0));
    // The way there has room, the way back has not: neither is taken.
    world.reserve("ann", Reserve { priority: 9, ..reserve("3", "b", "a", 30) }).expect("it fits");
    let before_back = world.ledger.snapshot().reservations;
    let both = Reserve { back_bps: Some(1), ..important("2", "b", 5, 4) };
    assert_eq!(world.reserve("ben", both).expect_err("the way back is full").link, "b/up");
    assert_eq!(world.ledger.snapshot().reservations, before_back);
    assert_eq!(before_back.len(), before.len() + 1);
    assert!(!world.told.iter().any(|told| matches!(told, Told::Gone { .. })), "{:?}", world.told);
}

#[test]
fn also_what_grows_takes_and_a_dry_run_takes_nothing() {
    let mut world = world();
    let high = world.reserve("ann", important("1", "b", 10, 5)).expect("it fits");
    let low = world.reserve("ann", important("2", "p", 20, 1)).expect("it fits");
    let grow = Request::Change { id: high.id, bps: Some(11), back_bps: None, lifetime_ms: None, flow: None };
    assert_eq!(world.ledger.why("ann", &grow), Ok(()));
    assert!(world.ledger.reservation(low.id).is_some());
    world.ask("ann", grow).expect("the other gives way");
    assert!(world.ledger.reservation(low.id).is_none());
}
