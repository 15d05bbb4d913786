//! Life times: expiry, renewal, and what hinders them.

use super::desk::{Desk, api, filter, key, put, soft};
use perhop_model::{Kind, Op, OpOutcome, Owner};
use perhop_reason::Code;
use perhop_units::Duration;
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
