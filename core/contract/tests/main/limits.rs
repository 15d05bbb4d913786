//! What a router keeps for those who ask is bounded, and hits are told.

use super::desk::{Desk, api, delete, filter, patch, put};
use perhop_contract::{ERRORS_MAX, KEPT_EACH, KEPT_MAX, Limits};
use perhop_model::{Claim, Credentials, EventKind, Kind, Outcome, Owner};
use perhop_reason::Code;
use perhop_units::Duration;

/// Hits told so far by the limit's name: its value and the sum.
fn told(desk: &Desk, name: &str) -> Vec<(u64, u64)> {
    let events = desk.control.events().after(0, 10_000);
    let hits = events.iter().filter_map(|e| match &e.kind {
        EventKind::LimitHit { limit, value, hits } if limit == name => Some((*value, *hits)),
        _ => None,
    });
    hits.collect()
}

fn counted(desk: &Desk, name: &str) -> u64 {
    desk.control.limit_hits().find(|(n, _)| *n == name).map_or(0, |(_, hits)| hits)
}

#[test]
fn owners_beyond_the_limit_are_refused_and_the_known_go_on() {
    let mut desk = Desk::with_limits(Limits { owners: 3, ..Limits::default() });
    let port = |name: &str| vec![put(Kind::Port, name, serde_json::json!({}))];
    desk.commit(Owner::File, port("lan"));
    // A commit makes its owner known, a claim too; asking does not.
    desk.commit(api("a"), vec![delete(Kind::Filter, "none")]);
    let claim = |client: &str| Claim::new(api(client), 2);
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim("b")), Ok(()));
    let mut check = desk.txn(api("c"), port("c"));
    check.mode = perhop_model::Mode::Check;
    assert_eq!(desk.run(check).outcome, Outcome::Checked);
    for client in ["c", "d"] {
        assert_eq!(
            desk.control.claim(desk.now, &Credentials::ADMIN, &claim(client)),
            Err(Code::LimitReached)
        );
        let t = desk.txn(api(client), port(client));
        let errors = desk.run(t).errors.clone();
        assert_eq!((errors[0].code, errors[0].limit, errors[0].free), (Code::LimitReached, Some(3), Some(0)));
    }
    desk.commit(api("a"), port("a"));
    let mut t = desk.txn(api("b"), port("b"));
    t.fence = 2;
    assert_eq!(desk.run(t).outcome, Outcome::Committed);
    // At once, and after a second what came since.
    assert_eq!(told(&desk, "owners"), [(3, 2)]);
    desk.pass(Duration::from_secs(1));
    assert_eq!(told(&desk, "owners"), [(3, 2), (3, 2)]);
    desk.pass(Duration::from_secs(10));
    assert_eq!(counted(&desk, "owners"), 4);
    assert_eq!(told(&desk, "owners").len(), 2);
}

#[test]
fn refused_owners_give_their_places_to_others() {
    let mut desk = Desk::with_limits(Limits { owners: 4, ..Limits::default() });
    desk.commit(Owner::File, vec![put(Kind::Port, "lan", serde_json::json!({}))]);
    let refused = || vec![put(Kind::Filter, "f", filter("nothing", 1))];
    for i in 0..50 {
        desk.now += Duration::from_secs(1);
        assert_eq!(desk.refused(api(&format!("o{i}")), refused())[0].1, Code::BadReference);
    }
    assert_eq!(counted(&desk, "owners"), 0);
    // The answers to the latest of them are known, and only they count.
    assert!(desk.control.kept_bytes(&api("o49")).1 > 0 && desk.control.kept_bytes(&api("o0")).1 == 0);
    assert!(desk.control.kept_bytes(&api("o49")).0 < 5 * (KEPT_EACH + 1_000));
    // Three that commit or claim; those of this machine have a place all the same.
    desk.commit(api("a"), vec![put(Kind::Port, "a", serde_json::json!({}))]);
    let claim = |client: &str| Claim::new(api(client), 2);
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim("b")), Ok(()));
    desk.commit(api("c"), vec![delete(Kind::Filter, "none")]);
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim("d")), Err(Code::LimitReached));
    for owner in [Owner::Cli, Owner::Agent, Owner::File] {
        desk.commit(owner, vec![delete(Kind::Filter, "none")]);
    }
    let t = desk.txn(api("d"), refused());
    assert_eq!(desk.run(t).errors[0].code, Code::LimitReached);
    // Ten minutes later the place of one that has nothing is free; who has an object keeps its fence.
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &Claim::new(api("a"), 7)), Ok(()));
    desk.pass(Duration::from_secs(601));
    for client in ["d", "e"] {
        assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim(client)), Ok(()));
    }
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim("f")), Err(Code::LimitReached));
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim("a")), Err(Code::Fenced));
}

/// Commits whose answers differ much: each deletes other filters than were made in order.
#[test]
fn bytes_of_kept_answers_are_bounded_and_ten_minutes_give_room_again() {
    let limit = 4_000 + KEPT_EACH;
    let mut desk = Desk::with_limits(Limits { kept_bytes_each: limit, ..Limits::default() });
    desk.commit(
        Owner::File,
        vec![
            put(Kind::Port, "wan", serde_json::json!({"rate": 10_000_000})),
            put(Kind::Class, "wan/voice", serde_json::json!({"port": "wan", "default": true})),
        ],
    );
    let who = || Credentials::writer(Owner::Cli);
    let asked: Vec<_> = (0..20)
        .map(|i| {
            let t = desk.txn(Owner::Cli, vec![put(Kind::Filter, &format!("f{i}"), filter("voice", i))]);
            (desk.run_as(who(), t.clone()), t)
        })
        .collect();
    let is_full = |reply: &perhop_model::Reply| reply.errors.first().map(|e| e.code) == Some(Code::Overload);
    let full = asked.iter().position(|(reply, _)| is_full(reply)).expect("a limit");
    assert!((5..20).contains(&full), "{full}");
    assert!(asked[full..].iter().all(|(reply, _)| is_full(reply) && reply.retry_after_ms == Some(600_000)));
    let (_, mine) = desk.control.kept_bytes(&Owner::Cli);
    assert!(mine < 2 * limit);
    for (reply, t) in asked.iter().take(full) {
        let again = desk.run_as(who(), t.clone());
        assert!(again.replayed);
        assert_eq!(perhop_model::Reply { replayed: false, ..(*again).clone() }, **reply);
    }
    // Others have their own room.
    desk.commit(Owner::Agent, vec![delete(Kind::Filter, "none")]);
    assert_eq!(counted(&desk, "kept_bytes"), 20 - full as u64);
    desk.pass(Duration::from_secs(601));
    assert_eq!(told(&desk, "kept_bytes").iter().map(|(_, hits)| hits).sum::<u64>(), 20 - full as u64);
    assert_eq!(desk.run_as(who(), asked[full].1.clone()).outcome, Outcome::Committed);
}

#[test]
fn refusals_lock_nobody_out() {
    let mut desk = Desk::with_limits(Limits { kept_bytes_each: 1 << 20, ..Limits::default() });
    let mut random = 1_u64;
    let mut name = || {
        let mut word = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{random:016x}")
        };
        (0..7).map(|_| word()).collect::<String>()
    };
    let mut asked = Vec::new();
    for _ in 0..8 {
        let ops = (0..3_000).map(|_| patch(Kind::Filter, &name(), serde_json::json!({"priority": 1})));
        let t = desk.txn(Owner::File, ops.collect());
        let reply = desk.run(t.clone());
        // Said in part, with how many more there are.
        assert!((100..=ERRORS_MAX + 1).contains(&reply.errors.len()), "{}", reply.errors.len());
        let (last, said) = reply.errors.split_last().unwrap();
        assert!(said.iter().all(|e| e.code == Code::NotFound && e.op.is_some()));
        assert!(last.op.is_none() && last.limit == Some(ERRORS_MAX as u64));
        assert!(last.message.starts_with(&format!("{} more", 3_000 - said.len())), "{}", last.message);
        asked.push((reply, t));
    }
    // The latest is answered again as it was.
    let (reply, t) = asked.pop().unwrap();
    let again = desk.run(t);
    assert!(again.replayed && again.errors == reply.errors);
    for owner in [Owner::File, Owner::Cli] {
        desk.commit(owner, vec![delete(Kind::Filter, "none")]);
    }
    assert_eq!(counted(&desk, "kept_bytes"), 0);
}

#[test]
fn the_answer_to_a_hundred_thousand_operations_takes_little_and_is_given_again_whole() {
    let mut desk = Desk::furnished();
    let ops = (0..100_000).map(|i| put(Kind::Filter, &format!("f{i}"), filter("voice", i)));
    let t = desk.txn(api("a"), ops.collect());
    let who = || Credentials::writer(api("a"));
    let reply = desk.run_as(who(), t.clone());
    assert_eq!((reply.outcome, reply.ops.len()), (Outcome::Committed, 100_000));
    assert!(desk.control.kept_bytes(&api("a")).1 < KEPT_EACH + 100);
    let again = desk.run_as(who(), t);
    assert!(again.replayed && again.ops == reply.ops);
}

#[test]
fn an_owner_that_keeps_its_answers_itself_may_commit_without_end() {
    let mut desk = Desk::furnished();
    let a = api("a");
    let claim = |desk: &mut Desk, keeps_answers| {
        let claim = Claim { keeps_answers, ..Claim::new(api("a"), 0) };
        assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim), Ok(()));
    };
    let filter = || vec![put(Kind::Filter, "f", filter("voice", 1))];
    desk.commit(a.clone(), filter());
    assert!(desk.control.kept_bytes(&a).1 > 0);
    claim(&mut desk, true);
    assert_eq!(desk.control.kept_bytes(&a), (desk.control.kept_bytes(&Owner::File).1, 0));
    let again = desk.txn(a.clone(), filter());
    for _ in 0..KEPT_MAX + 10 {
        let reply = desk.run(again.clone());
        assert_eq!((reply.outcome, reply.replayed), (Outcome::Committed, false), "{:?}", reply.errors);
    }
    assert_eq!(desk.refused(a.clone(), vec![delete(Kind::Class, "wan/rest")])[0].1, Code::NotOwner);
    assert_eq!(desk.control.kept_bytes(&a).1, 0);
    // From a claim that says nothing of it on they are kept again.
    claim(&mut desk, false);
    assert!(!desk.run(again.clone()).replayed && desk.run(again).replayed);
}
