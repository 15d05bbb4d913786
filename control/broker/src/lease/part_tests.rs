//! The part alone, told what the session tells it.

use super::*;
use perhop_model::{Given, Put};
use serde_json::json;

const MBIT: u64 = 1_000_000;

fn name(name: &str) -> Name {
    Name::new(name).expect("a good name")
}

fn object(at: &str, owner: Owner, spec: Spec) -> ObjectState {
    ObjectState {
        kind: spec.kind(),
        name: name(at),
        owner,
        id: 1,
        version: 1,
        status: Status::Active,
        expires_at_ns: None,
        spec,
    }
}

/// A port of 10 Mbit/s with a class that has 10 % of it, and what is allocated to that.
fn router(allocated: Option<u64>) -> Vec<ObjectState> {
    let port = serde_json::from_value(json!({"rate": 10 * MBIT})).expect("a port");
    let class =
        serde_json::from_value(json!({"port": "wan", "guarantee": {"ppm": 100_000}})).expect("a class");
    let allocation = allocated.map(|bps| {
        let spec = AllocationSpec {
            class: name("wan/voice"),
            guarantee: Some(Rate(bps)),
            ceiling: None,
            shared: false,
        };
        object("wan/voice", Owner::Agent, Spec::Allocation(spec))
    });
    let plain =
        [object("wan", Owner::File, Spec::Port(port)), object("wan/voice", Owner::File, Spec::Class(class))];
    plain.into_iter().chain(allocation).collect()
}

fn part() -> Reserved {
    Reserved::new(BTreeMap::from([("voice".to_owned(), vec![name("wan/voice")])]))
}

fn want(part: &mut Reserved, number: u64, bps: u64) {
    let output = Output::Want { class: "voice".to_owned(), number, bps };
    assert_eq!(part.take(output), None);
}

fn ops(part: &mut Reserved, s: u64) -> Vec<Op> {
    Part::<InRouter>::wants(part, Instant(s * 1_000_000_000))
}

/// What is put of the class's allocation, or 0 where it is deleted.
fn puts(part: &mut Reserved, s: u64) -> Vec<u64> {
    let bps = |op: Op| match op {
        Op::Put(Put { given: Given::Object(Object { spec: Spec::Allocation(spec), .. }), .. }) => {
            spec.guarantee.map_or(0, |rate| rate.0)
        }
        Op::Delete { kind: Kind::Allocation, .. } => 0,
        _ => panic!("{op:?}"),
    };
    ops(part, s).into_iter().map(bps).collect()
}

fn see(part: &mut Reserved, objects: &[ObjectState]) {
    Part::<InRouter>::objects(part, Instant::ZERO, objects);
}

fn committed(part: &mut Reserved) {
    Part::<InRouter>::committed(part, Instant::ZERO);
}

fn held(part: &Reserved) -> Option<u64> {
    Part::<InRouter>::allocation(part, &name("wan/voice"))?.guarantee.map(|rate| rate.0)
}

fn yes(number: u64) -> Option<Input> {
    Some(Input::Committed("voice".to_owned(), number))
}

#[test]
fn a_class_has_what_leases_hold_and_never_less_than_by_itself() {
    let mut part = part();
    want(&mut part, 1, 2 * MBIT);
    assert!(ops(&mut part, 0).is_empty(), "no router yet");
    see(&mut part, &router(None));
    assert_eq!((puts(&mut part, 0), part.poll_input()), (vec![2 * MBIT], None));
    committed(&mut part);
    assert_eq!((part.poll_input(), held(&part)), (yes(1), Some(2 * MBIT)));
    want(&mut part, 2, MBIT / 2);
    assert_eq!(puts(&mut part, 0), [MBIT]);
    committed(&mut part);
    assert_eq!(part.poll_input(), yes(2));
    want(&mut part, 3, MBIT);
    assert_eq!((part.poll_input(), puts(&mut part, 0)), (yes(3), vec![]), "the router has it");
    want(&mut part, 4, 0);
    assert_eq!(puts(&mut part, 0), [0]);
    committed(&mut part);
    assert_eq!((part.poll_input(), held(&part)), (yes(4), None));
    assert!(!Part::<InRouter>::owes(&part));
}

#[test]
fn what_an_instance_before_left_is_held_until_something_else_is_wanted() {
    let mut part = part();
    see(&mut part, &router(Some(3 * MBIT)));
    assert_eq!((held(&part), puts(&mut part, 0)), (Some(3 * MBIT), vec![]));
    want(&mut part, 1, 2 * MBIT);
    assert_eq!(puts(&mut part, 0), [2 * MBIT]);
}

#[test]
fn a_router_that_forgets_is_told_again() {
    let mut part = part();
    see(&mut part, &router(None));
    want(&mut part, 1, 2 * MBIT);
    assert_eq!(puts(&mut part, 0), [2 * MBIT]);
    committed(&mut part);
    assert_eq!(part.poll_input(), yes(1));
    Part::<InRouter>::gone(&mut part, Instant::ZERO);
    see(&mut part, &router(None));
    assert_eq!(puts(&mut part, 0), [2 * MBIT]);
    committed(&mut part);
    assert_eq!(part.poll_input(), None, "it was answered");
}

#[test]
fn a_want_that_changes_on_the_way_is_answered_by_its_own_number() {
    let mut part = part();
    see(&mut part, &router(None));
    want(&mut part, 1, 2 * MBIT);
    assert_eq!(puts(&mut part, 0), [2 * MBIT]);
    want(&mut part, 2, 3 * MBIT);
    committed(&mut part);
    assert_eq!((part.poll_input(), part.poll_input()), (yes(1), None));
    assert_eq!(puts(&mut part, 0), [3 * MBIT]);
    // The answer is lost with the router; it may have been done.
    Part::<InRouter>::gone(&mut part, Instant::ZERO);
    assert_eq!(part.poll_input(), None);
    see(&mut part, &router(Some(3 * MBIT)));
    assert_eq!((part.poll_input(), puts(&mut part, 0)), (yes(2), vec![]));
}

#[test]
fn a_refusal_says_why_and_another_parts_is_waited_out() {
    let second = Duration::from_secs(1);
    let refuse = |part: &mut Reserved, s: u64, errors: &[ErrorItem]| {
        Part::<InRouter>::refused(part, Instant(s * 1_000_000_000), second, errors);
    };
    let mut part = part();
    see(&mut part, &router(None));
    want(&mut part, 1, 20 * MBIT);
    assert_eq!(puts(&mut part, 0), [20 * MBIT]);
    refuse(&mut part, 0, &[]);
    assert_eq!((part.poll_input(), puts(&mut part, 0)), (None, vec![]), "another's fault");
    assert_eq!(Part::<InRouter>::next_wish(&part), Some(Instant::ZERO + second));
    assert_eq!(puts(&mut part, 1), [20 * MBIT]);
    let error = ErrorItem {
        op: Some(0),
        free: Some(9 * MBIT),
        ..ErrorItem::new(Code::NoCapacity, "allocation/wan/voice.guarantee", "too much")
    };
    refuse(&mut part, 1, &[error]);
    let Some(Input::Refused(class, 1, refusal)) = part.poll_input() else { panic!("it is refused") };
    assert_eq!((class.as_str(), refusal.code, refusal.free_bps), ("voice", Code::NoCapacity, 9 * MBIT));
    assert_eq!(refusal.link, "allocation/wan/voice.guarantee");
    assert!(puts(&mut part, 1).is_empty(), "not at once again");
    want(&mut part, 2, 0);
    assert_eq!(part.poll_input(), yes(2), "the router has that");
}

#[test]
fn a_class_that_is_not_there_is_refused() {
    let mut part = part();
    see(&mut part, &[]);
    want(&mut part, 1, MBIT);
    let Some(Input::Refused(_, 1, refusal)) = part.poll_input() else { panic!("it is refused") };
    assert_eq!((refusal.code, refusal.link.as_str()), (Code::BadReference, "wan/voice"));
    let output = Output::Want { class: "video".to_owned(), number: 1, bps: MBIT };
    assert_eq!(part.take(output), None);
    assert!(matches!(part.poll_input(), Some(Input::Refused(class, 1, _)) if class == "video"));
}
