//! The event stream.

use super::desk::{Desk, api, delete, filter, key, n, patch, put, soft};
use perhop_contract::{EVENT_RING, Input};
use perhop_model::{EventFilter, EventKind, Kind, Owner, ScaledAllocation};
use perhop_units::{Duration, Rate};
use serde_json::json;

fn port_up() -> Input {
    Input::Event(EventKind::PortUp { port: "wan".to_owned() })
}

#[test]
fn events_are_in_order_and_numbered_without_holes() {
    let mut desk = Desk::furnished();
    desk.commit(Owner::File, vec![soft(Kind::Filter, "f", filter("voice", 1), 1_000)]);
    desk.feed(port_up());
    let end = desk.now + Duration::from_secs(2);
    desk.sleep_until(end);
    desk.commit(Owner::File, vec![delete(Kind::Class, "wan/rest")]);
    desk.feed(Input::Drained { id: 3, dropped: 2 });
    // Unknown, or told twice: nothing happened.
    desk.feed(Input::Drained { id: 3, dropped: 2 });
    let events = desk.control.events().after(0, 100);
    assert!(events.iter().zip(1..).all(|(e, seq)| e.seq == seq && e.epoch == 7));
    let kinds: Vec<_> = events.iter().skip(2).map(|e| e.kind.clone()).collect();
    assert_eq!(kinds[0], EventKind::PortUp { port: "wan".to_owned() });
    assert_eq!(
        kinds[1],
        EventKind::Expired {
            keys: vec![key(Kind::Filter, "f")],
            revision: 3,
            lapsed: Vec::new(),
            owners: vec![Owner::File]
        }
    );
    assert!(matches!(kinds[2], EventKind::Committed { revision: 4, forced: false, .. }));
    assert_eq!(kinds[3], EventKind::Drained { key: key(Kind::Class, "wan/rest"), dropped: 2 });
    assert_eq!(kinds.len(), 4);
}

#[test]
fn a_slow_reader_is_told_of_the_gap_and_goes_on() {
    let mut desk = Desk::new();
    for _ in 0..EVENT_RING + 5 {
        desk.feed(port_up());
    }
    let events = desk.control.events().after(2, 3);
    assert_eq!(events[0].kind, EventKind::Gap { from: 3, to: 5 });
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [5, 6, 7, 8]);
    // Reading on behind the gap misses nothing and repeats nothing.
    let next = desk.control.events().after(events[0].seq, 1);
    assert_eq!(next[0].seq, 6);
}

#[test]
fn a_number_of_another_epoch_starts_over() {
    let mut desk = Desk::furnished();
    for seq in [5, u64::MAX] {
        assert_eq!(desk.control.events().after(seq, 10).len(), 1);
    }
    assert!(desk.control.events().after(1, 10).is_empty());
    desk.feed(port_up());
    assert_eq!(desk.control.events().after(1, 10).len(), 1);
}

#[test]
fn a_rejected_transaction_is_no_event() {
    let mut desk = Desk::furnished();
    desk.refused(Owner::File, vec![put(Kind::Filter, "f", filter("none", 1))]);
    assert_eq!(desk.control.events().latest(), 1);
}

#[test]
fn owners_are_told_when_a_port_or_a_class_leaves_their_allocations_less() {
    let mut desk = Desk::furnished();
    let scaled = |desk: &Desk, after| {
        let filter = EventFilter {
            types: Some(vec!["allocation_scaled"]),
            owner: Some(api("a")),
            ..EventFilter::default()
        };
        let page = desk.control.events().page(after, &filter, 10);
        let told = page.events.into_iter().map(|e| match e.kind {
            EventKind::AllocationScaled { port, revision, allocations, total } => {
                assert_eq!((port.as_str(), revision, total), ("wan", desk.control.revision(), 1));
                allocations
            }
            other => panic!("{other:?}"),
        });
        told.collect::<Vec<_>>()
    };
    let allocate =
        |rate: u64| put(Kind::Allocation, "a/rest", json!({"class": "wan/rest", "guarantee": rate}));
    let has = |bps| {
        vec![vec![ScaledAllocation {
            name: n("a/rest"),
            owner: api("a"),
            class: n("wan/rest"),
            made: Rate(6_000_000),
            has: Rate(bps),
        }]]
    };
    let port = |rate: u64| patch(Kind::Port, "wan", json!({"rate": rate}));
    let voice = |rate: u64| patch(Kind::Class, "wan/voice", json!({"guarantee": {"rate": rate}}));
    desk.commit(api("a"), vec![allocate(6_000_000)]);
    // What, and what the allocation comes to when that takes something from it.
    for (owner, op, told) in [
        (Owner::File, port(9_000_000), None),
        (Owner::File, port(7_000_000), Some(5_000_000)),
        (Owner::File, voice(3_000_000), Some(4_000_000)),
        // More again, though not all; and as before.
        (Owner::File, voice(2_500_000), None),
        (Owner::File, patch(Kind::Class, "wan/voice", json!({"weight": 2})), None),
        (Owner::File, port(9_000_000), None),
        (Owner::File, port(5_000_000), Some(2_500_000)),
        // Its owner makes do with less.
        (api("a"), allocate(2_000_000), None),
    ] {
        let before = desk.control.events().latest();
        desk.commit(owner, vec![op.clone()]);
        assert_eq!(scaled(&desk, before), told.map_or(Vec::new(), has), "{op:?}");
    }
    // It is somebody else's: whoever asks for events of others alone is not told.
    let before = desk.control.events().latest();
    desk.commit(Owner::File, vec![port(3_000_000)]);
    let of_others = EventFilter { owner: Some(api("b")), ..EventFilter::default() };
    assert_eq!(desk.control.events().page(before, &of_others, 10).events, []);
    assert_eq!(desk.control.events().after(before, 10).len(), 2, "committed, and what it did");
}
