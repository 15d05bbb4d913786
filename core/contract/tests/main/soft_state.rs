//! Life times: expiry, renewal, and what hinders them.

use super::desk::{Desk, api, filter, key, put, soft};
use perhop_model::{Claim, Credentials, EventKind, Kind, Op, OpOutcome, Owner, Transaction};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn it_ends_exactly_when_its_time_is_over() {
    let mut desk = Desk::furnished();
    desk.commit(api("a"), vec![soft(Kind::Filter, "f", filter("voice", 1), 1_500)]);
    assert_eq!(desk.control.next_wakeup(), Some(desk.now + Duration::from_millis(1_500)));
    desk.pass(Duration::from_millis(1_499));
    assert_eq!(desk.names(Some(&api("a"))).len(), 1);
    desk.pass(Duration::from_millis(1));
    assert_eq!(desk.names(Some(&api("a"))).len(), 0);
    assert_eq!(desk.plans.last().expect("planned").changed, [(key(Kind::Filter, "f"), false)]);
}

#[test]
fn renewing_extends_it() {
    let mut desk = Desk::furnished();
    let two = vec![
        soft(Kind::Filter, "f", filter("voice", 1), 1_000),
        soft(Kind::Filter, "g", filter("voice", 1), 1_000),
    ];
    desk.commit(api("a"), two);
    desk.commit(api("b"), vec![soft(Kind::Filter, "h", filter("voice", 1), 1_000)]);
    let version = desk.control.objects()[&key(Kind::Filter, "f")].version;
    desk.pass(Duration::from_millis(900));
    desk.commit(api("a"), vec![Op::Renew { keys: Some(vec![key(Kind::Filter, "f")]), ttl_ms: 1_000 }]);
    desk.pass(Duration::from_millis(200));
    assert_eq!(desk.names(None).iter().filter(|n| n.starts_with("filter")).collect::<Vec<_>>(), ["filter:f"]);
    assert_eq!(
        desk.control.objects()[&key(Kind::Filter, "f")].version,
        version,
        "a longer life is no change"
    );
    desk.commit(api("a"), vec![Op::Renew { keys: None, ttl_ms: 2_000 }]);
    let end = desk.now + Duration::from_millis(1_999);
    desk.sleep_until(end);
    assert_eq!(desk.names(Some(&api("a"))).len(), 1);
    let end = desk.now + Duration::from_millis(1);
    desk.sleep_until(end);
    assert_eq!(desk.names(Some(&api("a"))).len(), 0);
}

#[test]
fn putting_it_again_renews_it_too() {
    let mut desk = Desk::furnished();
    let f = || vec![soft(Kind::Filter, "f", filter("voice", 1), 1_000)];
    desk.commit(api("a"), f());
    desk.pass(Duration::from_millis(900));
    let reply = desk.commit(api("a"), f());
    assert_eq!(reply.ops[0].outcome, OpOutcome::Unchanged);
    desk.pass(Duration::from_millis(900));
    assert_eq!(desk.names(Some(&api("a"))).len(), 1);
    // Without a life time it becomes hard state.
    desk.commit(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    assert_eq!(desk.control.next_wakeup(), None);
    let renew = Op::Renew { keys: Some(vec![key(Kind::Filter, "f")]), ttl_ms: 1 };
    assert_eq!(desk.refused(api("a"), vec![renew])[0].1, Code::OutOfRange);
}

#[test]
fn a_patch_keeps_the_time_that_is_left() {
    let mut desk = Desk::furnished();
    desk.commit(api("a"), vec![soft(Kind::Filter, "f", filter("voice", 1), 1_000)]);
    let at = desk.control.next_wakeup();
    desk.pass(Duration::from_millis(300));
    desk.commit(api("a"), vec![super::desk::patch(Kind::Filter, "f", json!({"priority": 9}))]);
    assert_eq!(desk.control.next_wakeup(), at);
}

#[test]
fn what_others_still_need_waits_without_holding_the_rest_up() {
    let mut desk = Desk::furnished();
    let shared = json!({"shared": true});
    desk.commit(
        api("a"),
        vec![soft(Kind::Profile, "p", shared.clone(), 1_000), soft(Kind::Profile, "q", shared, 1_000)],
    );
    desk.commit(api("b"), vec![put(Kind::Filter, "f", json!({"profile": "p"}))]);
    desk.pass(Duration::from_secs(1));
    assert_eq!(desk.names(Some(&api("a"))), ["profile:p"]);
    // It is tried again, not in a busy loop.
    assert_eq!(desk.control.next_wakeup(), Some(desk.now + Duration::from_secs(1)));
    desk.commit(api("b"), vec![super::desk::delete(Kind::Filter, "f")]);
    desk.pass(Duration::from_secs(1));
    assert_eq!(desk.names(Some(&api("a"))).len(), 0);
}

#[test]
fn a_whole_tree_expires_at_once() {
    let mut desk = Desk::new();
    desk.commit(
        Owner::Agent,
        vec![
            soft(Kind::Port, "p", json!({"rate": 1_000_000}), 1_000),
            soft(Kind::Class, "p/a", json!({"port": "p"}), 1_000),
            soft(Kind::Class, "p/b", json!({"port": "p", "parent": "p/a"}), 1_000),
        ],
    );
    let plans = desk.plans.len();
    desk.pass(Duration::from_secs(1));
    assert_eq!((desk.control.objects().len(), desk.plans.len()), (0, plans + 1));
}

/// Claims an owner with a lease of so many ms.
fn lease(desk: &mut Desk, owner: &Owner, ttl_ms: u64) -> Result<(), Code> {
    let claim = Claim { ttl_ms: Some(ttl_ms), ..Claim::new(owner.clone(), 1) };
    desk.control.claim(desk.now, &Credentials::ADMIN, &claim)
}

/// A transaction of the owner that holds it with [`lease`].
fn leased(desk: &mut Desk, owner: &Owner, ops: Vec<Op>) -> Result<(), Code> {
    let t = Transaction { fence: 1, ..desk.txn(owner.clone(), ops) };
    let reply = desk.run(t);
    reply.errors.first().map_or(Ok(()), |error| Err(error.code))
}

#[test]
fn with_a_lease_all_soft_state_of_an_owner_ends_together() {
    let mut desk = Desk::furnished();
    let a = api("a");
    assert_eq!(lease(&mut desk, &a, 0), Err(Code::OutOfRange));
    assert_eq!(lease(&mut desk, &a, 7 * 86_400_000 + 1), Err(Code::OutOfRange));
    assert_eq!(lease(&mut desk, &a, 3_000), Ok(()));
    let put_soft = |name: &str, ttl_ms| soft(Kind::Filter, name, filter("voice", 1), ttl_ms);
    let mine = vec![
        put_soft("first", 1_000),
        put_soft("long", 600_000),
        put_soft("longer", 900_000),
        put(Kind::Filter, "hard", filter("voice", 1)),
    ];
    assert_eq!(leased(&mut desk, &a, mine), Ok(()));
    desk.commit(api("b"), vec![put_soft("other", 600_000)]);
    desk.pass(Duration::from_millis(1_000));
    assert_eq!(desk.names(Some(&a)), ["filter:hard", "filter:long", "filter:longer"]);
    // Claiming it again is what renews it, however many objects there are.
    desk.pass(Duration::from_millis(1_900));
    assert_eq!(lease(&mut desk, &a, 3_000), Ok(()));
    assert_eq!(desk.control.next_wakeup(), Some(desk.now + Duration::from_millis(3_000)));
    desk.pass(Duration::from_millis(2_999));
    assert_eq!(desk.names(Some(&a)).len(), 3);
    let plans = desk.plans.len();
    desk.pass(Duration::from_millis(1));
    assert_eq!((desk.names(Some(&a)), desk.plans.len()), (vec!["filter:hard".to_owned()], plans + 1));
    assert_eq!(desk.names(Some(&api("b"))), ["filter:other"]);
    let told = desk.control.events().after(0, 100).pop().map(|event| event.kind);
    let keys = ["long", "longer"].map(|name| key(Kind::Filter, name)).to_vec();
    let revision = desk.control.revision();
    assert_eq!(
        told,
        Some(EventKind::Expired { keys, revision, lapsed: vec![a.clone()], owners: vec![a.clone()] })
    );
    // Who was away for so long has to say that it is back before it changes anything.
    assert_eq!(leased(&mut desk, &a, vec![put_soft("late", 1_000)]), Err(Code::Fenced));
    assert_eq!(lease(&mut desk, &a, 1_000), Ok(()));
    assert_eq!(leased(&mut desk, &a, vec![put_soft("late", 9_000)]), Ok(()));
    // A claim without a lease ends it.
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &Claim::new(a.clone(), 1)), Ok(()));
    assert_eq!(desk.control.next_wakeup(), Some(desk.now + Duration::from_millis(9_000)));
}

proptest! {
    /// Against a list of who has what until when.
    #[test]
    fn what_ends_ends_at_its_time_or_with_its_owners_lease(
        steps in prop::collection::vec((0_u8..4, 0_usize..3, 0_u8..6, 1_u64..4_000), 1..60)
    ) {
        let mut desk = Desk::furnished();
        let owners = ["a", "b", "c"].map(api);
        let mut leases = [None::<Instant>; 3];
        let mut ends: Vec<(usize, String, Option<Instant>)> = Vec::new();
        for (step, who, name, ms) in steps {
            let owner = &owners[who];
            let name = format!("{owner}/{name}").replace(':', "/");
            let until = desk.now + Duration::from_millis(ms);
            let lapsed = leases[who].is_some_and(|end| end <= desk.now);
            match step {
                0 => {
                    prop_assert_eq!(lease(&mut desk, owner, ms), Ok(()));
                    leases[who] = Some(until);
                }
                1 => {
                    let ops = vec![soft(Kind::Filter, &name, filter("voice", 1), ms)];
                    prop_assert_eq!(leased(&mut desk, owner, ops).is_err(), lapsed);
                    if !lapsed {
                        ends.retain(|(_, n, _)| *n != name);
                        ends.push((who, name, Some(until)));
                    }
                }
                2 => {
                    let ops = vec![put(Kind::Filter, &name, filter("voice", 1))];
                    prop_assert_eq!(leased(&mut desk, owner, ops).is_err(), lapsed);
                    if !lapsed {
                        ends.retain(|(_, n, _)| *n != name);
                        ends.push((who, name, None));
                    }
                }
                _ => desk.sleep_until(until),
            }
            let now = desk.now;
            desk.pass(Duration::ZERO);
            let is_over = |end: &Option<Instant>| end.is_some_and(|end| end <= now);
            ends.retain(|(who, _, end)| !is_over(end) && (end.is_none() || !is_over(&leases[*who])));
            let mut expected: Vec<String> = ends.iter().map(|(_, name, _)| format!("filter:{name}")).collect();
            expected.sort();
            let there: Vec<String> =
                desk.names(None).into_iter().filter(|name| name.starts_with("filter:")).collect();
            prop_assert_eq!(there, expected);
        }
    }
}
