use super::*;
use crate::reconcile::{Reconciler, owner};
use perhop_model::{ColorAction, MeterSpec, ProfileSpec};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn key(name: &str) -> Key {
    Key { kind: Kind::Profile, name: Name::new(name).expect("a name") }
}

fn mark(seq: u64, edition: u64) -> Mark {
    Mark { seq, edition, sha256: "ab".repeat(32) }
}

fn profile(shared: bool) -> Spec {
    Spec::Profile(ProfileSpec {
        meter: MeterSpec::None,
        green: ColorAction::Pass,
        yellow: ColorAction::Pass,
        red: ColorAction::Drop,
        shared,
    })
}

fn fed(name: &str, spec: Option<&Spec>) -> Fed {
    Fed::of(&key(name), spec)
}

#[test]
fn pieces_in_another_order_are_refused_and_so_is_what_follows_something_else() {
    let end = || FeedNews::End(mark(4, 1));
    let begin = |after| FeedNews::Begin { after };
    for wrong in [
        vec![end()],
        vec![FeedNews::Objects(Vec::new())],
        vec![begin(None), begin(None)],
        vec![begin(None), end(), FeedNews::Objects(Vec::new())],
    ] {
        let mut assembler = Assembler::new(Mark::default());
        let taken: Result<Vec<_>, _> = wrong.into_iter().map(|news| assembler.take(news)).collect();
        assert_eq!(taken, Err(FeedError::Order));
    }
    let mut assembler = Assembler::new(mark(7, 2));
    assert_eq!(assembler.take(begin(Some(6))), Err(FeedError::Gap { have: 7 }));
    assert_eq!(assembler.take(begin(Some(7))), Ok(None));
    assert_eq!(assembler.take(end()), Err(FeedError::Order), "it ends before it begins");
}

#[test]
fn what_a_policy_does_not_have_is_not_taken() {
    let route = Fed { kind: Kind::Route, name: Name::new("r").expect("a name"), spec: None };
    let odd = Fed { spec: Some(Value::from(7)), ..fed("a", None) };
    for one in [route, odd] {
        let mut assembler = Assembler::new(Mark::default());
        assert_eq!(assembler.take(FeedNews::Begin { after: None }), Ok(None));
        let refused = assembler.take(FeedNews::Objects(vec![one.clone()]));
        assert_eq!(refused, Err(FeedError::Object(Key { kind: one.kind, name: one.name })));
    }
}

/// Whether all is told, and what: profiles by number, and whether they are shared; none = gone.
type Telling = (bool, Vec<(u8, Option<bool>)>);

/// Whatever is told in whatever pieces, by lines of text: a reconciler knows what the pieces come to.
fn histories() -> impl Strategy<Value = Vec<Telling>> {
    let change = (0u8..6, proptest::option::of(any::<bool>()));
    proptest::collection::vec((any::<bool>(), proptest::collection::vec(change, 0..8)), 1..12)
}

proptest! {
    #[test]
    fn what_is_known_is_what_was_told(history in histories(), cut in 1usize..4) {
        let mut assembler = Assembler::new(Mark::default());
        let mut reconciler = Reconciler::new(owner(), Known::default());
        let mut oracle: BTreeMap<Key, Spec> = BTreeMap::new();
        for (number, (whole, changes)) in (1u64..).zip(history) {
            let mut told: BTreeMap<Key, Option<Spec>> = BTreeMap::new();
            for (name, shared) in changes {
                told.insert(key(&format!("p{name}")), shared.map(profile));
            }
            if whole {
                oracle.clear();
            }
            for (key, spec) in &told {
                match spec {
                    Some(spec) => drop(oracle.insert(key.clone(), spec.clone())),
                    None => drop(oracle.remove(key)),
                }
            }
            let after = (!whole).then(|| assembler.have().seq);
            let pieces: Vec<Fed> = told.iter().map(|(key, spec)| Fed::of(key, spec.as_ref())).collect();
            let mut news = vec![FeedNews::Begin { after }];
            news.extend(pieces.chunks(cut).map(|piece| FeedNews::Objects(piece.to_vec())));
            news.push(FeedNews::End(mark(number * 10, number)));
            for one in news {
                let line = serde_json::to_string(&one).expect("plain data");
                let read = serde_json::from_str(&line).expect("what was written");
                if let Some(complete) = assembler.take(read).expect("in order") {
                    reconciler.take(complete).expect("nothing is missing");
                }
            }
            prop_assert_eq!(reconciler.known(), &Known { seq: number * 10, edition: number, wanted: oracle.clone() });
        }
    }
}
