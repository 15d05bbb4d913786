use super::*;
use crate::testing::{Pair, Simple};
use perhop_reason::Code;
use perhop_units::Rate;

const NOW: Instant = Instant::ZERO;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn spec(class: &str, guarantee: u64, ceiling: Option<u64>) -> AllocationSpec {
    let (guarantee, ceiling) = (Some(Rate(guarantee)), ceiling.map(Rate));
    AllocationSpec { class: name(class), guarantee, ceiling, shared: false }
}

fn put(spec: &AllocationSpec) -> Op {
    Op::put(Object::new(spec.class.clone(), Spec::Allocation(spec.clone())))
}

fn delete(class: &str) -> Op {
    Op::Delete { kind: Kind::Allocation, name: name(class), if_version: None, drain_ms: None }
}

fn patch(policy: &str) -> Op {
    let fields = serde_json::json!({ "rate": 1_000 });
    Op::Patch { kind: Kind::AbrPolicy, name: name(policy), fields, if_version: None }
}

/// The operations of the next transaction, which is committed.
fn commit(parts: &mut Pair) -> Vec<Op> {
    let mut sum = Sum::default();
    let (ops, _) = sum.wish(parts, NOW).unwrap();
    sum.committed(parts, NOW);
    ops
}

#[test]
fn of_two_parts_that_hold_a_class_it_gets_the_larger() {
    let mut parts = Pair::default();
    parts.0.wish = vec![put(&spec("ef", 3_000, Some(3_000))), put(&spec("video", 500, Some(500)))];
    parts.1.wish = vec![put(&spec("best", 1, None)), put(&spec("ef", 5_000, Some(6_000)))];
    let expected = [spec("ef", 5_000, Some(6_000)), spec("video", 500, Some(500)), spec("best", 1, None)];
    assert_eq!(commit(&mut parts), expected.each_ref().map(put), "one operation for each class");
    assert_eq!((parts.0.committed, parts.1.committed), (1, 1));
    // One lowers what it holds: what the other holds stays.
    parts.0.held = vec![spec("ef", 3_000, Some(3_000)), spec("video", 500, Some(500))];
    parts.1.held = vec![spec("ef", 5_000, Some(6_000))];
    parts.1.wish = vec![put(&spec("ef", 2_000, Some(2_000)))];
    assert_eq!(commit(&mut parts), [put(&spec("ef", 3_000, Some(3_000)))]);
    parts.1.held = vec![spec("ef", 2_000, Some(2_000))];
    // Both lower theirs: what they held before counts no more.
    parts.0.wish = vec![put(&spec("ef", 1_000, None))];
    parts.1.wish = vec![put(&spec("ef", 800, Some(800)))];
    assert_eq!(commit(&mut parts), [put(&spec("ef", 1_000, None))], "no ceiling is the highest");
}

#[test]
fn what_one_part_gives_back_is_left_to_another_that_holds_it() {
    let mut parts = Pair::default();
    parts.0.wish = vec![delete("ef"), delete("old")];
    parts.1.held = vec![spec("ef", 700, None)];
    assert_eq!(commit(&mut parts), [put(&spec("ef", 700, None)), delete("old")]);
    parts.0.wish = vec![delete("ef")];
    parts.1.wish = vec![put(&spec("ef", 900, None))];
    assert_eq!(commit(&mut parts), [put(&spec("ef", 900, None))]);
    (parts.0.wish, parts.1.wish) = (vec![delete("ef")], vec![delete("ef")]);
    assert_eq!(commit(&mut parts), [delete("ef")]);
}

/// An allocation of the agent as the router has it.
fn on_router(spec: &AllocationSpec) -> ObjectState {
    ObjectState {
        kind: Kind::Allocation,
        name: spec.class.clone(),
        owner: Owner::Agent,
        id: 1,
        version: 1,
        status: perhop_model::Status::Active,
        expires_at_ns: None,
        spec: Spec::Allocation(spec.clone()),
    }
}

#[test]
fn of_the_sum_in_the_router_each_part_sees_what_it_holds() {
    let mut parts = Pair::default();
    parts.0.held = vec![spec("ef", 1_000, Some(9_000)), spec("own", 3, None)];
    parts.1.held = vec![spec("ef", 5_000, Some(5_000)), spec("video", 7, None)];
    let sum = spec("ef", 5_000, Some(9_000));
    let others = [spec("own", 3, None), spec("video", 7, None), spec("left", 1, None)];
    let objects =
        |sum: &AllocationSpec| std::iter::once(sum).chain(&others).map(on_router).collect::<Vec<_>>();
    show(&mut parts, NOW, &objects(&sum));
    let [own, video, left] = &others;
    assert_eq!(parts.0.seen, [&parts.0.held[0], own, left].map(on_router));
    assert_eq!(parts.1.seen, [&parts.1.held[0], video, left].map(on_router));
    // What is not the sum is a stranger's doing: all see it.
    for strange in [spec("ef", 4_999, Some(9_000)), spec("ef", 5_001, Some(9_000)), spec("ef", 5_000, None)] {
        show(&mut parts, NOW, &objects(&strange));
        assert_eq!((&parts.0.seen[0], &parts.1.seen[0]), (&on_router(&strange), &on_router(&strange)));
    }
    show(&mut parts, NOW, &[ObjectState { owner: Owner::File, ..on_router(&sum) }]);
    assert_eq!(parts.0.seen[0].spec, Spec::Allocation(sum));
}

#[test]
fn forced_wishes_go_first_and_alone() {
    let mut parts = Pair(Simple::default(), Simple { forced: true, ..Simple::default() });
    parts.0.wish = vec![put(&spec("ef", 1, None))];
    parts.1.wish = vec![patch("bulk")];
    let mut sum = Sum::default();
    assert_eq!(sum.wish(&mut parts, NOW), Some((vec![patch("bulk")], true)));
    assert!(sum.is_under_way());
    sum.committed(&mut parts, NOW);
    assert_eq!((parts.0.committed, parts.1.committed), (0, 1));
    assert_eq!(sum.wish(&mut parts, NOW), Some((vec![put(&spec("ef", 1, None))], false)));
    sum.committed(&mut parts, NOW);
    assert_eq!((parts.0.committed, parts.1.committed), (1, 1));
    assert!(!sum.is_under_way() && sum.wish(&mut parts, NOW).is_none());
}

#[test]
fn a_refusal_goes_to_every_part_whose_wish_it_was_with_the_number_it_has_there() {
    let mut parts = Pair::default();
    parts.0.wish = vec![put(&spec("ef", 3_000, None)), put(&spec("video", 500, None))];
    parts.1.wish = vec![put(&spec("best", 1, None)), put(&spec("ef", 5_000, None))];
    let error = |code, op| ErrorItem { op, ..ErrorItem::new(code, "", "no") };
    let errors = [0, 1, 2].map(|op| error(Code::NoCapacity, Some(op)));
    let errors = [&errors[..], &[error(Code::PendingConfirm, None)]].concat();
    let mut sum = Sum::default();
    assert!(sum.wish(&mut parts, NOW).is_some());
    sum.refused(&mut parts, NOW, Duration::from_secs(1), &errors);
    let ops = |part: &Simple| part.refused.iter().map(|error| error.op).collect::<Vec<_>>();
    assert_eq!(ops(&parts.0), [Some(0), Some(1), None]);
    assert_eq!(ops(&parts.1), [Some(1), Some(0), None]);
    // A part without a wish hears nothing of it.
    parts.0.wish = vec![put(&spec("video", 400, None))];
    parts.1.refused.clear();
    assert!(sum.wish(&mut parts, NOW).is_some());
    sum.refused(&mut parts, NOW, Duration::from_secs(1), &errors);
    assert!(parts.1.refused.is_empty() && ops(&parts.0) == [Some(0), None]);
}

#[test]
fn what_two_parts_wish_of_another_object_goes_one_after_the_other() {
    let (mut parts, mut sum) = (Pair::default(), Sum::default());
    let (first, second) =
        (vec![patch("bulk"), patch("bulk")], vec![put(&spec("ef", 1, None)), patch("bulk")]);
    // The first wishes anew each time: the second has its turn all the same.
    for expected in [&first, &second, &first, &second] {
        (parts.0.wish, parts.1.wish) = (first.clone(), second.clone());
        assert_eq!(sum.wish(&mut parts, NOW).as_ref().map(|(ops, _)| ops), Some(expected));
        sum.committed(&mut parts, NOW);
    }
    assert_eq!((parts.0.committed, parts.1.committed), (2, 2));
}

#[test]
fn a_part_that_wishes_something_bad_for_ever_holds_up_no_other() {
    let (bad, good) = (vec![patch("bad")], vec![put(&spec("ef", 1, None))]);
    for bad_first in [true, false] {
        let (mut parts, mut sum, mut refusals) = (Pair::default(), Sum::default(), 0);
        for _ in 0..12 {
            let (one, other) = if bad_first { (&bad, &good) } else { (&good, &bad) };
            (parts.0.wish, parts.1.wish) = (one.clone(), other.clone());
            let (ops, _) = sum.wish(&mut parts, NOW).unwrap();
            match ops.iter().position(|op| *op == bad[0]) {
                None => sum.committed(&mut parts, NOW),
                Some(op) => {
                    let error = ErrorItem { op: Some(op), ..ErrorItem::new(Code::NotFound, "", "no") };
                    sum.refused(&mut parts, NOW, Duration::from_secs(1), &[error]);
                    refusals += 1;
                }
            }
        }
        let (bad, good) = if bad_first { (parts.0, parts.1) } else { (parts.1, parts.0) };
        // Together, then each alone, and so on.
        assert_eq!((bad.committed, good.committed, refusals), (0, 4, 8));
        assert!(good.refused.is_empty() && bad.refused.len() == 1);
    }
}
