//! Editions over both engines, and what agents and routers have of them.

use crate::domain::{group, reservation};
use crate::support::*;
use perhop_broker::record::Change as OfLedger;
use perhop_policy::diff::row_changes;
use perhop_policy::edition::{Change, EditionRow, EditionState, sha256_of};
use perhop_policy::model::Policy;
use perhop_policy::record::{FeedRow, PolicyGroup, StatusRow};
use perhop_policy::session::{Change as OfSession, SessionRow, Usage};
use perhop_policy::validate::from_toml;
use perhop_store::{Error, Limits, Store};

/// A policy with these subscribers, each with one address.
pub fn policy(subscribers: &[(u64, u64)]) -> Policy {
    let mut text = String::from(
        "[[router]]\nname = \"west\"\n[[router.port]]\nname = \"lan\"\n[[sla]]\nname = \"gold\"\nrate = \"1 Mbit/s\"\n\
         [[sla]]\nname = \"tin\"\nrate = \"100 kbit/s\"\n",
    );
    for (number, kind) in subscribers {
        let sla = if kind.is_multiple_of(2) { "gold" } else { "tin" };
        text += &format!(
            "[[subscriber]]\nname = \"s{number}\"\nsla = \"{sla}\"\nprefixes = [\"10.0.{number}.1/32\"]\n"
        );
    }
    let (policy, diagnostics) = from_toml("p.toml", &text);
    policy.unwrap_or_else(|| panic!("{diagnostics}"))
}

pub fn row(n: u64, policy: &Policy, state: EditionState) -> EditionRow {
    EditionRow {
        n,
        parent: n - 1,
        author: format!("author {n}"),
        at_ms: 1_000 * n,
        reason: "because 'quotes' and \"more\"".into(),
        state,
        confirm_by_ms: (state == EditionState::ToConfirm).then_some(99_000),
        sha256: sha256_of(policy),
    }
}

fn fed(seq: u64, router: &str, name: &str, spec: Option<&str>) -> FeedRow {
    let spec = spec.map(str::to_owned);
    FeedRow { seq, router: router.into(), kind: "sla".into(), name: name.into(), spec }
}

/// An edition that takes the place of another.
fn edition(fence: u64, row: EditionRow, before: &Policy, after: &Policy, feed: Vec<FeedRow>) -> PolicyGroup {
    let edition = row.n;
    let policies = row_changes(before, after).into_iter().map(|change| Change::Policy { edition, change });
    let changes = std::iter::once(Change::Edition(row)).chain(policies).collect();
    PolicyGroup { fence, edition, changes, feed, ..PolicyGroup::default() }
}

pub async fn every_edition_is_put_together_again_as_it_was(place: Place) {
    let store = place.open().await;
    assert_eq!(store.load_policy().await.expect("nothing yet"), Default::default());
    let fence = lead(&store, "a").await;
    let mut draw = Draw::new(7);
    let mut editions = vec![Policy::default()];
    for n in 1..=12 {
        let subscribers: Vec<(u64, u64)> =
            (0..9).filter(|_| draw.below(2) == 0).map(|number| (number, number + n)).collect();
        let after = policy(&subscribers);
        let row = row(n, &after, EditionState::Confirmed);
        let before = editions.last().expect("one");
        let group = edition(fence, row, before, &after, vec![fed(n, "west", "x", None)]);
        store.write_policy(&group).await.expect("written");
        editions.push(after);
    }
    let other = place.open().await;
    for (n, policy) in (1..).zip(&editions[1..]) {
        let read = other.policy_of(n).await.expect("readable");
        assert_eq!(read.as_ref(), Some(policy), "edition {n}");
        assert_eq!(read.expect("it is there").to_json(), policy.to_json());
    }
    assert_eq!(other.policy_of(13).await.expect("readable"), None);
    assert_eq!(other.policy_of(0).await.expect("readable"), None);
    let kept = other.load_policy().await.expect("readable");
    assert_eq!(Some(&kept.in_force), editions.last());
    assert_eq!(kept.editions.iter().map(|row| row.n).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    assert_eq!((kept.feed_seq, kept.fallback), (12, None));

    // One that waits has something to return to.
    let (before, after) = (&editions[12], policy(&[(77, 0)]));
    let waits = row(13, &after, EditionState::ToConfirm);
    let group = edition(fence, waits.clone(), before, &after, vec![fed(13, "west", "x", None)]);
    store.write_policy(&group).await.expect("written");
    let kept = other.load_policy().await.expect("readable");
    assert_eq!((&kept.in_force, kept.fallback.as_ref()), (&after, Some(before)));
    assert_eq!(kept.editions.last(), Some(&waits));
    let confirmed = EditionRow { state: EditionState::Confirmed, ..waits };
    let feed = vec![fed(14, "*", "x", None)];
    let settled = PolicyGroup {
        fence,
        edition: 13,
        changes: vec![Change::Edition(confirmed.clone())],
        feed,
        ..PolicyGroup::default()
    };
    store.write_policy(&settled).await.expect("written");
    let kept = other.load_policy().await.expect("readable");
    assert_eq!((kept.editions.last(), kept.fallback), (Some(&confirmed), None));

    // What somebody else has changed is noticed.
    place.beside().await.run("DELETE FROM policy WHERE name = 's77'").await;
    let damaged = other.load_policy().await;
    assert!(matches!(damaged, Err(Error::Corrupt { column: "edition.sha256", .. })), "{damaged:?}");
}

pub async fn an_edition_is_written_once_and_by_the_leader_alone(place: Place) {
    let store = place.open().await;
    let first = lead(&store, "a").await;
    let none = Policy::default();
    let (one, two) = (policy(&[(1, 0)]), policy(&[(2, 0)]));
    let row_of = |n, policy: &Policy| row(n, policy, EditionState::Confirmed);
    let group_of =
        |fence| edition(fence, row_of(1, &one), &none, &one, vec![fed(1, "west", "x", Some("{}"))]);
    store.write_policy(&group_of(first)).await.expect("written");
    store.write_policy(&group_of(first)).await.expect("it is written already");
    // Groups of the ledger and of the policy neither wait for nor hide each other.
    store.write(&group(first, 1, vec![OfLedger::Reservation(reservation(1))])).await.expect("written");
    let next = edition(first, row_of(2, &two), &one, &two, vec![fed(2, "west", "x", None)]);
    let other = place.open().await;
    let second = lead(&other, "a").await;
    let refused = store.write_policy(&next).await;
    assert!(
        matches!(refused, Err(Error::Fenced { mine, now }) if (mine, now) == (first, second)),
        "{refused:?}"
    );
    let refused = store.write_statuses(first, &[status("west", 1)]).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    let kept = other.load_policy().await.expect("readable");
    assert_eq!((kept.in_force, kept.feed_seq, kept.statuses), (one.clone(), 1, vec![]));
    let again = PolicyGroup { fence: second, ..next };
    other.write_policy(&again).await.expect("written by the leader");
    assert_eq!(other.load_policy().await.expect("readable").in_force, two);
    let mut beside = place.beside().await;
    assert_eq!(beside.number("SELECT edition FROM domain_state").await, 2);
    assert_eq!(beside.number("SELECT COUNT(*) FROM change_feed").await, 2);
    assert_eq!(other.load().await.expect("a domain").reservations, [reservation(1)]);
}

pub async fn a_feed_is_followed_and_says_where_it_was_cut(place: Place) {
    let limits = Limits { feed_rows: 10, ..Limits::default() };
    let store = Store::open(&place.address, limits).await.expect("a database");
    let fence = lead(&store, "a").await;
    assert!(store.feed_of("r1", 0, 0).await.expect("a feed").is_empty());
    let of = |seq: u64| {
        let spec = (!seq.is_multiple_of(2)).then(|| format!("{{\"n\":{seq}}}"));
        fed(seq, "r1", &format!("c{seq}"), spec.as_deref())
    };
    let feed = (1..=30).map(of).collect();
    store.write_policy(&PolicyGroup { fence, feed, ..PolicyGroup::default() }).await.expect("written");
    let expected = |numbers: std::ops::RangeInclusive<u64>| numbers.map(of).collect::<Vec<_>>();
    assert_eq!(store.feed_of("r1", 0, 7).await.expect("a feed"), expected(1..=7));
    assert_eq!(store.feed_of("r1", 28, 30).await.expect("a feed"), expected(29..=30));
    assert!(store.feed_of("r1", 30, 30).await.expect("a feed").is_empty());
    assert_eq!(store.compact(fence, 0).await.expect("it leads").feed, 20);
    assert_eq!(store.compact(fence, 0).await.expect("it leads").feed, 0);
    assert!(matches!(store.feed_of("r1", 19, 30).await, Err(Error::Trimmed { oldest: 21 })));
    assert_eq!(store.feed_of("r1", 20, 30).await.expect("a feed"), expected(21..=30));
    assert_eq!(store.load_policy().await.expect("a policy").feed_seq, 30);
}

pub async fn what_a_router_is_to_take_over_is_its_own_and_says_where_it_was_cut(place: Place) {
    let limits = Limits { feed_rows: 20, ..Limits::default() };
    let store = Store::open(&place.address, limits).await.expect("a database");
    let fence = lead(&store, "a").await;
    let mut before = Policy::default();
    let mut seq = 0;
    for n in 1..=10 {
        let after = policy(&[(n, 0)]);
        let mut feed = Vec::new();
        for router in ["west", "east", "*"] {
            seq += 1;
            feed.push(fed(seq, router, &format!("of {n}"), (router != "east").then_some("{\"a\":1}")));
        }
        let row = row(n, &after, EditionState::Confirmed);
        store.write_policy(&edition(fence, row, &before, &after, feed)).await.expect("written");
        before = after;
    }
    let west = store.feed_of("west", 15, 30).await.expect("kept");
    assert_eq!(west.iter().map(|row| row.seq).collect::<Vec<_>>(), [16, 18, 19, 21, 22, 24, 25, 27, 28, 30]);
    assert_eq!(west[0], fed(16, "west", "of 6", Some("{\"a\":1}")));
    let east = store.feed_of("east", 25, 28).await.expect("kept");
    assert_eq!(east, [fed(26, "east", "of 9", None), fed(27, "*", "of 9", Some("{\"a\":1}"))]);
    assert_eq!(store.feed_of("west", 30, 30).await.expect("kept"), []);
    store.compact(fence, 0).await.expect("done");
    let cut = store.feed_of("west", 9, 30).await;
    assert!(matches!(cut, Err(Error::Trimmed { oldest: 11 })), "{cut:?}");
    assert_eq!(store.feed_of("west", 10, 30).await.expect("kept").len(), 13);
}

fn status(router: &str, seq: u64) -> StatusRow {
    StatusRow {
        router: router.into(),
        seq,
        edition: seq / 2,
        epoch: 9,
        drift: "3".into(),
        quarantined: "[]".into(),
        last_error: seq.is_multiple_of(2).then(|| "{}".into()),
        reported_ms: 1_000 + seq,
    }
}

pub async fn how_routers_stand_is_kept(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    store.write_statuses(fence, &[status("west", 1), status("east", 2)]).await.expect("written");
    store.write_statuses(fence, &[status("west", 6)]).await.expect("written");
    store.write_statuses(fence, &[]).await.expect("nothing to do");
    let mut kept = store.load_policy().await.expect("readable").statuses;
    kept.sort_by(|one, other| one.router.cmp(&other.router));
    assert_eq!(kept, [status("east", 2), status("west", 6)]);
}

fn session(subscriber: &str, router: &str) -> SessionRow {
    let row = serde_json::json!({
        "subscriber": subscriber, "id": format!("id of {subscriber}"), "router": router, "port": "lan",
        "prefixes": ["10.0.0.7/32"], "given": null, "rates": { "up": 1000, "down": null }, "sla": "gold",
        "moves": 2, "leaving": [], "source": "http:ann", "began_ms": 5, "since_ms": 6, "seen_ms": 7,
        "expires_ms": null, "idle_ms": 9, "octets": 10, "counted": 11,
    });
    serde_json::from_value(row).expect("a session")
}

pub async fn sessions_and_what_was_used_are_kept(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    let group = |seq, sessions| PolicyGroup {
        fence,
        feed: vec![fed(seq, "west", "x", None)],
        sessions,
        ..PolicyGroup::default()
    };
    let (ann, bob) = (session("ann", "west"), session("bob", "east"));
    let used = |octets| OfSession::Usage(ann.subscriber.clone(), Usage { since_ms: 3, octets });
    let both =
        vec![OfSession::Session(Box::new(ann.clone())), OfSession::Session(Box::new(bob.clone())), used(4)];
    store.write_policy(&group(1, both)).await.expect("written");
    let moved = session("ann", "east");
    let next = vec![
        OfSession::Session(Box::new(moved.clone())),
        OfSession::SessionGone(bob.subscriber.clone()),
        used(5),
    ];
    store.write_policy(&group(2, next)).await.expect("written");
    let kept = place.open().await.load_policy().await.expect("readable");
    assert_eq!(kept.sessions, [moved]);
    assert_eq!(kept.usage, [(ann.subscriber, Usage { since_ms: 3, octets: 5 })]);
}
