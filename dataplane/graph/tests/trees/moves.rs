//! A class that gets another parent, or becomes a leaf or an interior class, is moved and not removed.

use super::{WAN, World, delete, put};
use perhop_elements::schedule::ClassCounters;
use perhop_graph::router::total;
use perhop_model::{Key, Kind, Name, Op};
use perhop_packet::DropReason;
use perhop_units::Duration;
use serde_json::{Value, json};

/// Packets of a full queue: 100 kbit/s take 81 ms for each, so 4 s for all.
const FULL: u32 = 50;

fn class(name: &str, more: Value) -> Op {
    let mut spec = json!({"port": "wan", "queue": {"limit": {"packets": FULL}}});
    let fields = more.as_object().expect("fields").clone();
    spec.as_object_mut().expect("an object").extend(fields);
    put(Kind::Class, name, spec)
}

/// A slow port with the class `a`, whose queue is full and to which every packet goes.
fn slow() -> World {
    let mut w = World::new();
    w.replace_graph(&super::wire("q"));
    w.commit(vec![put(Kind::Port, "wan", json!({"rate": 100_000}))]);
    w.commit(vec![
        class("a", json!({"default": true})),
        class("p", json!({})),
        class("p/x", json!({"parent": "p"})),
    ]);
    // The first is sent at once.
    w.send(0..FULL + 1);
    w
}

fn id(w: &mut World, name: &str) -> u64 {
    let key = Key { kind: Kind::Class, name: Name::new(name).expect("a name") };
    w.router.control().objects().get(&key).expect("it exists").id
}

/// What a class counts in all its places, and how many these are.
fn counted(w: &World, id: u64) -> (ClassCounters, usize) {
    let (control, worker) = w.router.halves();
    let planner = control.planner();
    let tree = worker.egress(WAN).expect("a way out").tree();
    let here = tree.iter().filter(|c| planner.leaf_class(WAN, c.index.0).is_some_and(|(_, of)| of == id));
    let here: Vec<ClassCounters> = here.map(|c| c.counters).collect();
    let places = here.len();
    (total(here.into_iter().chain([planner.counted_before(id)])), places)
}

fn removed(w: &mut World) -> u64 {
    let driver = w.router.worker().driver();
    let drops = driver.ids().filter_map(|id| driver.counters(id));
    drops.map(|c| c.drops[DropReason::ClassRemoved.index()]).sum()
}

/// Nothing of the 51 packets and of `more` that came later is lost, whatever `change` does with their class.
fn loses_nothing(change: Vec<Op>, more: u32) {
    let mut w = slow();
    let a = id(&mut w, "a");
    w.commit(change);
    let end = FULL + 1 + more;
    w.send(FULL + 1..end);
    let mut before = counted(&w, a).0;
    assert_eq!(counted(&w, a).1, 2, "the old place still holds packets");
    for _ in 0..100 {
        w.router.run_for(Duration::from_millis(100));
        let now = counted(&w, a).0;
        let back = |get: fn(&ClassCounters) -> u64| get(&now) < get(&before);
        assert!(!back(|c| c.packets) && !back(|c| c.bytes) && !back(|c| c.borrowed), "{before:?} {now:?}");
        before = now;
    }
    let mut sent = w.sent();
    sent.sort_unstable();
    assert_eq!(sent, (0..end).collect::<Vec<_>>());
    assert_eq!(removed(&mut w), 0);
    assert_eq!((before.packets, before.bytes), (u64::from(end), u64::from(end) * 1014));
    assert_eq!(counted(&w, a).1, 1, "the old place is free");
    assert_eq!(w.drained(), []);
}

#[test]
fn a_full_queue_of_a_class_with_another_parent_is_sent_however_slow_the_line() {
    loses_nothing(vec![class("a", json!({"default": true, "parent": "p"}))], 20);
}

#[test]
fn a_full_queue_of_a_class_that_becomes_interior_is_sent_and_counted_to_it() {
    // What arrives afterwards goes to the new leaf, and is counted by the class above it too.
    loses_nothing(vec![class("a", json!({})), class("a/y", json!({"parent": "a", "default": true}))], 20);
}

#[test]
fn an_interior_class_that_becomes_a_leaf_waits_for_what_is_below_and_counts_on() {
    let mut w = slow();
    w.router.run_for(Duration::from_secs(5));
    w.commit(vec![class("a", json!({})), class("a/y", json!({"parent": "a", "default": true}))]);
    w.send(100..120);
    let a = id(&mut w, "a");
    w.router.run_for(Duration::from_millis(200));
    let before = counted(&w, a).0;
    assert_eq!(before.packets, u64::from(FULL) + 1 + 3);
    // The leaf below has time for all it holds.
    w.commit(vec![class("a", json!({"default": true})), delete("a/y", 10_000)]);
    assert_eq!(counted(&w, a), (before, 2));
    w.router.run_for(Duration::from_secs(5));
    assert_eq!(w.drained(), [("a/y".to_owned(), 0)]);
    let (after, places) = counted(&w, a);
    assert_eq!((after.packets, places), (u64::from(FULL) + 1 + 20, 1));
}

#[test]
fn a_class_that_is_deleted_after_it_moved_ends_in_its_time_with_everything_it_holds() {
    let mut w = slow();
    w.commit(vec![class("a", json!({"default": true, "parent": "p"}))]);
    w.send(100..120);
    w.commit(vec![delete("a", 1000)]);
    w.router.run_for(Duration::from_millis(900));
    assert_eq!(w.drained(), []);
    let sent = w.sent().len() as u64;
    w.router.run_for(Duration::from_millis(200));
    let left = u64::from(FULL) + 1 + 20 - sent;
    let drained = w.drained();
    assert!(
        matches!(&drained[..], [(name, dropped)] if name == "a" && (left - 2..=left).contains(dropped)),
        "{drained:?}"
    );
    // Its numbers come back: many more moves need no more room.
    let slots = w.router.worker().egress(WAN).expect("a way out").tree().slots();
    w.commit(vec![class("b", json!({"default": true}))]);
    for round in 0..200 {
        let parent =
            if round % 2 == 0 { json!({"default": true, "parent": "p"}) } else { json!({"default": true}) };
        w.commit(vec![class("b", parent)]);
        w.router.run_for(Duration::from_millis(1));
    }
    assert_eq!(w.router.worker().egress(WAN).expect("a way out").tree().slots(), slots);
}

/// What a class with two places counts never goes back, though it was deleted, until the last of them is free.
/// `sent_before`: time in which the first place sends alone; `more`: packets that the second gets.
fn counts_until_it_is_gone(sent_before: Duration, more: u32, free_first: &str) {
    let mut w = slow();
    let a = id(&mut w, "a");
    // Below `p`.
    let is_new = |w: &mut World| {
        let tree = w.router.worker().egress(WAN).expect("a way out").tree();
        tree.iter().any(|c| c.name == "a" && c.params.parent.is_some())
    };
    w.router.run_for(sent_before);
    w.commit(vec![class("a", json!({"default": true, "parent": "p"}))]);
    w.send(100..100 + more);
    w.commit(vec![delete("a", 60_000)]);
    let mut before = counted(&w, a);
    assert_eq!(before.1, 2, "both places hold packets");
    let mut alone = None;
    loop {
        w.router.run_for(Duration::from_millis(50));
        let now = counted(&w, a);
        match now.1 {
            0 => break,
            1 => alone = Some(if is_new(&mut w) { "old" } else { "new" }),
            _ => {}
        }
        assert!(now.0.packets >= before.0.packets && now.0.bytes >= before.0.bytes, "{before:?} {now:?}");
        before = now;
    }
    assert_eq!(alone, Some(free_first), "the place that was free first");
    let all = FULL + 1 + more;
    assert_eq!((w.sent().len() as u32, w.drained()), (all, vec![("a".to_owned(), 0)]));
    // The last packet was counted in the step in which the last place was free.
    assert_eq!(before.0.packets, u64::from(all) - 1);
}

#[test]
fn counts_of_a_deleted_class_stay_when_the_place_that_it_left_is_free_first() {
    counts_until_it_is_gone(Duration::from_secs(2), FULL, "old");
}

#[test]
fn counts_of_a_deleted_class_stay_when_its_last_place_is_free_first() {
    counts_until_it_is_gone(Duration::ZERO, 5, "new");
}

#[test]
fn a_class_on_another_port_is_not_gone_while_it_holds_packets_on_the_first() {
    let mut w = slow();
    let a = id(&mut w, "a");
    w.commit(vec![put(Kind::Class, "a", json!({"port": "lan"}))]);
    w.router.run_for(Duration::from_secs(5));
    assert_eq!(w.sent().len() as u32, FULL + 1);
    assert_eq!((removed(&mut w), w.drained()), (0, Vec::new()));
    assert_eq!(counted(&w, a).0.packets, u64::from(FULL) + 1);
    w.commit(vec![delete("a", 10)]);
    w.router.run_for(Duration::from_millis(20));
    assert_eq!(w.drained(), [("a".to_owned(), 0)]);
}
