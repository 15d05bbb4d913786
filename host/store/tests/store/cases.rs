//! What holds over both engines.

use crate::domain::{Model, audit, capacity, group, reservation};
use crate::policy::*;
use crate::support::*;
use perhop_broker::record::*;
use perhop_reason::Code;
use perhop_store::{Campaign, Entry, Error, Limits, Store};
use std::time::Duration;

/// Every case by name over SQLite, and all of them over PostgreSQL.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            use crate::support::*;
            $(
                #[test]
                fn $name() {
                    let folder = Folder::new();
                    block_on(super::$name(Place::sqlite(&folder.file("domain.db"))));
                }
            )*
        }

        #[test]
        fn every_case_holds_on_postgresql_too() {
            let Some(server) = postgres("every_case_holds_on_postgresql_too") else { return };
            $(
                eprintln!("case {}", stringify!($name));
                block_on($name(server.place()));
            )*
        }
    };
}

cases![
    a_database_is_made_once_whoever_opens_it,
    a_newer_schema_is_refused_and_left_alone,
    a_database_of_before_is_brought_up_to_date,
    a_store_holds_what_its_groups_come_to,
    a_leader_that_was_replaced_writes_nothing,
    a_group_is_written_once_however_often_it_is_sent,
    a_link_is_never_oversold,
    a_key_of_idempotency_is_given_once_and_again_when_it_is_free,
    a_lease_is_taken_when_it_is_over_or_given_back,
    a_feed_is_followed_and_says_where_it_was_cut,
    an_audit_log_is_paged_from_its_end_and_forgets_by_age,
    a_number_that_no_column_holds_is_refused_and_the_largest_is_kept,
    a_database_that_somebody_locks_says_so_and_goes_on_afterwards,
    a_call_that_is_given_up_leaves_no_lock_behind,
    every_edition_is_put_together_again_as_it_was,
    an_edition_is_written_once_and_by_the_leader_alone,
    what_a_router_is_to_take_over_is_its_own_and_says_where_it_was_cut,
    how_routers_stand_is_kept,
    sessions_and_what_was_used_are_kept,
    what_is_agreed_with_neighbours_is_the_leaders_alone,
];

async fn a_database_is_made_once_whoever_opens_it(place: Place) {
    let open = || Store::open(&place.address, Limits::default());
    let (a, b, c) = tokio::join!(open(), open(), open());
    let (a, b, c) = (a.expect("one"), b.expect("two"), c.expect("three"));
    let fence = lead(&a, "a").await;
    a.write(&group(fence, 1, vec![Change::Reservation(reservation(1))])).await.expect("written");
    for store in [&a, &b, &c, &place.open().await] {
        assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1)]);
    }
    if let Some(path) = place.address.strip_prefix("sqlite:") {
        use std::os::unix::fs::PermissionsExt;
        for file in [path.to_owned(), format!("{path}-wal")] {
            let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }
}

async fn a_newer_schema_is_refused_and_left_alone(place: Place) {
    drop(place.open().await);
    let mut beside = place.beside().await;
    beside.run("UPDATE schema_version SET version = 99").await;
    let error = Store::open(&place.address, Limits::default()).await.expect_err("it is newer");
    assert!(matches!(error, Error::NewerSchema { found: 99, known: 3 }), "{error:?}");
    assert_eq!((error.code(), error.retry_after_ms()), (Code::BackendFailed, None));
    assert_eq!(beside.number("SELECT version FROM schema_version").await, 99);
}

async fn a_database_of_before_is_brought_up_to_date(place: Place) {
    drop(place.open().await);
    let mut beside = place.beside().await;
    // As the first version left it.
    for made_since in ["TABLE peer", "TABLE usage", "INDEX change_feed_of_router"] {
        beside.run(&format!("DROP {made_since}")).await;
    }
    beside.run("UPDATE schema_version SET version = 1").await;
    for _ in 0..2 {
        drop(place.open().await);
        assert_eq!(beside.number("SELECT version FROM schema_version").await, 3);
        assert_eq!(beside.number("SELECT COUNT(*) FROM usage").await, 0);
    }
}

async fn a_store_holds_what_its_groups_come_to(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    for seed in 0..3 {
        let mut draw = Draw::new(seed);
        let mut model = Model::default();
        let mut number = store_is_emptied(&place, &store, fence, seed * 1000).await;
        for round in 0..25 {
            number += 1 + draw.below(3);
            // Groups of all sizes between nothing and several statements a table.
            let changes = model.draw(&mut draw, [3, 40, 700][round % 3]);
            let group = group(fence, number, changes);
            store.write(&group).await.unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e:?}"));
            model.apply(&group);
        }
        let loaded = store.load().await.expect("a domain");
        assert!(loaded == model.snapshot(), "seed {seed}: {loaded:?}\nis not\n{:?}", model.snapshot());
        assert!(loaded.paths.iter().any(|path| path.links.len() > 3), "seed {seed}");
        let mut log = store.audit(None, 1000).await.expect("a log");
        log.reverse();
        assert_eq!(log, model.audit, "seed {seed}");
    }
}

/// Begins with nothing again, at a group's number.
async fn store_is_emptied(place: &Place, store: &Store, fence: u64, number: u64) -> u64 {
    let mut beside = place.beside().await;
    for table in
        ["node", "link", "capacity", "path", "path_link", "client", "reservation", "audit", "change_feed"]
    {
        beside.run(&format!("DELETE FROM {table}")).await;
    }
    beside.run("UPDATE domain_state SET audit_seq = 0, feed_seq = 0, last_reservation = 0").await;
    store.write(&group(fence, number, vec![])).await.expect("an empty group");
    number
}

async fn a_leader_that_was_replaced_writes_nothing(place: Place) {
    let (old, new) = (place.open().await, place.open().await);
    let first = lead(&old, "old").await;
    old.write(&group(first, 5, vec![Change::Reservation(reservation(1))])).await.expect("it leads");
    let Campaign::Won { fence: second } = new.campaign("new", 1_003_000, 3000).await.expect("a campaign")
    else {
        panic!("the lease is over")
    };
    assert!(second > first);
    let late = group(first, 6, vec![Change::Reservation(reservation(2)), Change::ReservationGone(1)]);
    for _ in 0..2 {
        let error = old.write(&late).await.expect_err("it was replaced");
        assert!(matches!(error, Error::Fenced { mine, now } if (mine, now) == (first, second)), "{error:?}");
        assert_eq!(error.code(), Code::Fenced);
    }
    assert!(matches!(old.renew(first, 1_003_001, 3000).await, Err(Error::Fenced { .. })));
    assert!(matches!(old.compact(first, 0).await, Err(Error::Fenced { .. })));
    assert_eq!(new.load().await.expect("a domain").reservations, [reservation(1)]);
    // Numbers of groups begin anew with a leader.
    new.write(&group(second, 0, vec![Change::ReservationGone(1)])).await.expect("it leads");
    assert!(old.load().await.expect("a domain").reservations.is_empty());
}

async fn a_group_is_written_once_however_often_it_is_sent(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    let first = group(fence, 1, vec![Change::Reservation(reservation(1)), Change::Audit(audit(1))]);
    let second = group(fence, 2, vec![Change::ReservationGone(1), Change::Audit(audit(2))]);
    store.write(&first).await.expect("once");
    store.write(&first).await.expect("it is written");
    store.write(&second).await.expect("once");
    store.write(&first).await.expect("it is written, and does not come back");
    let other = place.open().await;
    let next = match other.campaign("b", 1_003_000, 3000).await {
        Ok(Campaign::Won { fence }) => fence,
        other => panic!("{other:?}"),
    };
    other.write(&group(next, 7, vec![Change::Audit(audit(3))])).await.expect("it leads");
    store.write(&second).await.expect("it is written, whoever leads");
    let lost = group(fence, 3, vec![Change::Audit(audit(3))]);
    assert!(matches!(store.write(&lost).await, Err(Error::Fenced { .. })));
    let snapshot = store.load().await.expect("a domain");
    assert_eq!((snapshot.reservations.len(), snapshot.audit_seq, snapshot.last_reservation), (0, 3, 1));
}

async fn a_link_is_never_oversold(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    let whole = Change::Capacity(capacity(1, "voice", 100, 100, false));
    store.write(&group(fence, 1, vec![whole])).await.expect("it fits");
    let sold = vec![
        Change::Reservation(reservation(1)),
        Change::Capacity(capacity(1, "voice", 100, 101, false)),
        Change::Audit(audit(1)),
    ];
    let error = store.write(&group(fence, 2, sold)).await.expect_err("it does not fit");
    assert!(matches!(error, Error::Contradiction(_)), "{error:?}");
    assert_eq!(error.code(), Code::BackendFailed);
    let snapshot = store.load().await.expect("a domain");
    assert_eq!(snapshot.capacities, [capacity(1, "voice", 100, 100, false)]);
    assert_eq!((snapshot.reservations.len(), snapshot.audit_seq), (0, 0), "nothing of the group is there");
    // A link that lost rate is the exception, and says so. The number is still free.
    let short = Change::Capacity(capacity(1, "voice", 50, 100, true));
    store.write(&group(fence, 2, vec![short])).await.expect("it is short");
    assert!(store.load().await.expect("a domain").capacities[0].short);
}

async fn a_key_of_idempotency_is_given_once_and_again_when_it_is_free(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    store.write(&group(fence, 1, vec![Change::Reservation(reservation(1))])).await.expect("once");
    let same = ReservationRow { id: 2, ..reservation(1) };
    let error = store.write(&group(fence, 2, vec![Change::Reservation(same.clone())])).await;
    assert!(matches!(error, Err(Error::Contradiction(_))), "{error:?}");
    let swap = vec![Change::Reservation(same.clone()), Change::ReservationGone(1)];
    store.write(&group(fence, 3, swap)).await.expect("the group frees it");
    assert_eq!(store.load().await.expect("a domain").reservations, [same]);
}

async fn a_lease_is_taken_when_it_is_over_or_given_back(place: Place) {
    let (a, b) = (place.open().await, place.open().await);
    assert_eq!(a.leader().await.expect("a row").name, None);
    let first = lead(&a, "a").await;
    let held = b.campaign("b", 1_002_999, 3000).await.expect("a campaign");
    assert!(
        matches!(&held, Campaign::Held(l) if l.name.as_deref() == Some("a") && l.fence == first),
        "{held:?}"
    );
    a.renew(first, 1_002_000, 3000).await.expect("it leads");
    assert!(matches!(b.campaign("b", 1_004_999, 3000).await, Ok(Campaign::Held(_))));
    // A life later it need not wait for itself.
    let second = lead(&a, "a").await;
    assert!(second > first);
    assert!(matches!(a.renew(first, 1_002_000, 3000).await, Err(Error::Fenced { .. })));
    a.resign(second).await.expect("it leads");
    assert!(matches!(a.renew(second, 1_002_000, 3000).await, Err(Error::Fenced { .. })));
    let third = lead(&b, "b").await;
    assert!(third > second);
    // A clock that is an hour ahead does not keep a dead leader in office.
    b.renew(third, 4_600_000, 3000).await.expect("it leads");
    assert!(matches!(a.campaign("a", 1_010_000, 3000).await, Ok(Campaign::Held(_))));
    assert!(matches!(a.campaign("a", 1_012_999, 3000).await, Ok(Campaign::Held(_))));
    assert!(matches!(a.campaign("a", 1_013_000, 3000).await, Ok(Campaign::Won { .. })));
}

async fn an_audit_log_is_paged_from_its_end_and_forgets_by_age(place: Place) {
    let limits = Limits { audit_rows: 50, audit_age: Duration::from_millis(300), ..Limits::default() };
    let store = Store::open(&place.address, limits).await.expect("a database");
    let fence = lead(&store, "a").await;
    let rows = (1..=100).map(|seq| Change::Audit(audit(seq))).collect();
    store.write(&group(fence, 1, rows)).await.expect("written");
    let page = store.audit(None, 3).await.expect("a log");
    assert_eq!(page, [audit(100), audit(99), audit(98)]);
    assert_eq!(store.audit(Some(98), 1).await.expect("a log"), [audit(97)]);
    assert!(store.audit(Some(1), 5).await.expect("a log").is_empty());
    // Row n is of 10 n ms: at 400 ms only what is over 50 rows goes, at 900 ms what is older than 600.
    assert_eq!(store.compact(fence, 400).await.expect("it leads").audit, 50);
    assert_eq!(store.compact(fence, 900).await.expect("it leads").audit, 9);
    assert_eq!(store.audit(None, 100).await.expect("a log").last(), Some(&audit(60)));
    assert_eq!(store.load().await.expect("a domain").audit_seq, 100);
}

async fn a_number_that_no_column_holds_is_refused_and_the_largest_is_kept(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    let most = i64::MAX as u64;
    let row = ReservationRow { bps: most + 1, ..reservation(1) };
    let error = store.write(&group(fence, 1, vec![Change::Reservation(row)])).await.expect_err("too large");
    let Error::OutOfRange { column: "reservation.bps", value } = error else { panic!("{error:?}") };
    assert_eq!((value, error.code()), (most + 1, Code::OutOfRange));
    let row =
        ReservationRow { id: most, bps: most, expires_ms: most, idem: "ü".repeat(500), ..reservation(1) };
    store.write(&group(fence, most, vec![Change::Reservation(row.clone())])).await.expect("it fits");
    let snapshot = store.load().await.expect("a domain");
    assert_eq!((snapshot.reservations, snapshot.last_reservation), (vec![row], most));
}

async fn a_database_that_somebody_locks_says_so_and_goes_on_afterwards(place: Place) {
    let store = place.open_hasty().await;
    let fence = lead(&store, "a").await;
    let mut beside = place.beside().await;
    beside.run("BEGIN").await;
    beside.run("UPDATE domain_state SET one = 1").await;
    let made = group(fence, 1, vec![Change::Reservation(reservation(1))]);
    let error = store.write(&made).await.expect_err("it is locked");
    assert!(matches!(error, Error::Locked(_)), "{error:?}");
    assert_eq!(error.code(), Code::BackendFailed);
    assert!(error.retry_after_ms().is_some());
    assert!(store.load().await.expect("readers need not wait").reservations.is_empty());
    beside.run("ROLLBACK").await;
    store.write(&made).await.expect("it is free");
    assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1)]);
}

async fn a_call_that_is_given_up_leaves_no_lock_behind(place: Place) {
    let (store, other) = (place.open_hasty().await, place.open_hasty().await);
    let fence = lead(&store, "a").await;
    let mut draw = Draw::new(1);
    for number in 1..=40 {
        let rows = (0..50).map(|n| Change::Reservation(reservation(50 * number + n))).collect();
        let made = group(fence, number, rows);
        let patience = Duration::from_micros(draw.below(6000));
        _ = tokio::time::timeout(patience, store.write(&made)).await;
        // Whatever became of it: another writer is let in, and the same group again is written once.
        other.write(&made).await.unwrap_or_else(|e| panic!("group {number}: {e:?}"));
        store.write(&made).await.unwrap_or_else(|e| panic!("group {number}: {e:?}"));
    }
    assert_eq!(store.load().await.expect("a domain").reservations.len(), 40 * 50);
}

async fn what_is_agreed_with_neighbours_is_the_leaders_alone(place: Place) {
    let store = place.open().await;
    let fence = lead(&store, "a").await;
    let entry =
        |name: &str, value: Option<u64>| Entry { name: name.to_owned(), value: value.map(Into::into) };
    // Twice is as once, and of a name that comes twice the last counts.
    let entries = [entry("x", Some(1)), entry("y", Some(2)), entry("x", Some(3)), entry("z", None)];
    for _ in 0..2 {
        store.write_peers(fence, &entries).await.expect("it leads");
    }
    store.write_peers(fence, &[entry("y", None)]).await.expect("it leads");
    assert_eq!(store.peers().await.expect("they can be read"), [("x".to_owned(), 3.into())]);
    store.resign(fence).await.expect("it led");
    let next = lead(&store, "b").await;
    let late = store.write_peers(fence, &[entry("x", None)]).await;
    assert!(matches!(late, Err(Error::Fenced { mine, now }) if (mine, now) == (fence, next)), "{late:?}");
    assert_eq!(store.peers().await.expect("they can be read").len(), 1);
    // More than a page, and more than one statement takes.
    let many: Vec<Entry> = (0..10_500).map(|n| entry(&format!("n{n:05}"), Some(n))).collect();
    store.write_peers(next, &many).await.expect("it leads");
    assert_eq!(store.peers().await.expect("they can be read").len(), many.len() + 1);
}
