//! What happens to one engine only: files that vanish and fill up, servers that stop and hang.

use crate::domain::{capacity, group, reservation};
use crate::support::*;
use perhop_broker::record::Change;
use perhop_reason::Code;
use perhop_store::{Error, Limits, Store};

fn made(fence: u64, number: u64) -> perhop_broker::record::Group {
    group(fence, number, vec![Change::Reservation(reservation(number))])
}

#[test]
fn an_address_of_no_database_is_refused() {
    for address in ["", "sqlite:", "mysql://x", "domain.db", "postgres://a:b:c"] {
        let error = block_on(Store::open(address, Limits::default())).expect_err(address);
        assert!(matches!(error, Error::Address(_)), "{address}: {error:?}");
        assert_eq!(error.code(), Code::Malformed);
    }
    let error = block_on(Store::open("sqlite:/nowhere/domain.db", Limits::default())).expect_err("no folder");
    assert!(matches!(error, Error::Gone(_)), "{error:?}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = Folder::new();
    let path = folder.file("domain.db");
    let content = "[controller]\nname = \"c1\"\n".repeat(100);
    std::fs::write(&path, &content).expect("a file");
    let error = block_on(Store::open(&Place::sqlite(&path).address, Limits::default())).expect_err("text");
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), content);
}

#[test]
fn a_file_that_vanished_takes_nothing_and_is_taken_up_again_when_it_is_back() {
    let folder = Folder::new();
    let place = Place::sqlite(&folder.file("domain.db"));
    block_on(async {
        let store = place.open_hasty().await;
        let fence = lead(&store, "a").await;
        store.write(&made(fence, 1)).await.expect("written");
        let names = ["domain.db", "domain.db-wal", "domain.db-shm"];
        let rename = |from: &str, to: &str| {
            for name in names {
                _ = std::fs::rename(
                    folder.file(&format!("{from}{name}")),
                    folder.file(&format!("{to}{name}")),
                );
            }
        };
        rename("", "away-");
        for _ in 0..2 {
            let error = store.write(&made(fence, 2)).await.expect_err("it is gone");
            assert!(matches!(error, Error::Gone(_)), "{error:?}");
            assert_eq!(error.code(), Code::BackendFailed);
            assert!(matches!(store.load().await, Err(Error::Gone(_))));
            assert!(!folder.file("domain.db").exists(), "no empty file takes its place");
        }
        rename("away-", "");
        store.write(&made(fence, 2)).await.expect("it is back");
        assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1), reservation(2)]);
    });
}

#[test]
fn a_full_file_says_so_stays_readable_and_goes_on_when_there_is_room() {
    let folder = Folder::new();
    let place = Place::sqlite(&folder.file("domain.db"));
    block_on(async {
        let limits = Limits { sqlite_pages: Some(100), ..Limits::default() };
        let store = Store::open(&place.address, limits).await.expect("a database");
        let fence = lead(&store, "a").await;
        let many = |number: u64| {
            let rows = (0..100).map(|n| Change::Reservation(reservation(100 * number + n)));
            let sold = Change::Capacity(capacity(1, "voice", u64::MAX >> 1, 100 * (number + 1), false));
            group(fence, number, rows.chain([sold]).collect())
        };
        let mut number = 0;
        let error = loop {
            match store.write(&many(number)).await {
                Ok(()) => number += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Full(_)), "{error:?}");
        assert_eq!((error.code(), error.retry_after_ms()), (Code::BackendFailed, Some(5000)));
        assert!(number > 3);
        let snapshot = store.load().await.expect("it is readable");
        assert_eq!(snapshot.reservations.len() as u64, 100 * number, "nothing of the last group is there");
        assert_eq!(snapshot.capacities[0].reserved, 100 * number);
        // What is released makes room.
        let release = (0..300).map(Change::ReservationGone).collect();
        store.write(&group(fence, number, release)).await.expect("less is written");
        store.write(&many(number + 1)).await.expect("there is room");
    });
}

#[test]
fn a_server_that_is_down_is_gone_and_taken_up_again_when_it_is_back() {
    let Some(mut server) = postgres("a_server_that_is_down_is_gone_and_taken_up_again_when_it_is_back")
    else {
        return;
    };
    let place = server.place();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (store, fence) = runtime.block_on(async {
        let store = place.open_hasty().await;
        let fence = lead(&store, "a").await;
        store.write(&made(fence, 1)).await.expect("written");
        (store, fence)
    });
    server.kill();
    let error = runtime.block_on(store.write(&made(fence, 2))).expect_err("it is down");
    assert!(matches!(error, Error::Gone(_)), "{error:?}");
    assert!(error.retry_after_ms().is_some());
    server.run();
    runtime.block_on(async {
        store.write(&made(fence, 2)).await.expect("it is back");
        assert_eq!(store.load().await.expect("a domain").reservations.len(), 2);
    });
    // A server that hangs: nothing was sent that could commit.
    let backends = runtime.block_on(async {
        let mut beside = place.beside().await;
        let sql = "SELECT MIN(pid)::bigint FROM pg_stat_activity WHERE application_name = 'perhop' AND query NOT LIKE 'ROLLBACK%'";
        beside.number(sql).await
    });
    signal("-STOP", backends as u32);
    let error = runtime.block_on(store.write(&made(fence, 3))).expect_err("it hangs");
    signal("-CONT", backends as u32);
    assert!(matches!(error, Error::Slow(_)), "{error:?}");
    assert_eq!(error.code(), Code::BackendFailed);
    runtime.block_on(async {
        assert_eq!(store.load().await.expect("a domain").reservations.len(), 2, "nothing was written");
        store.write(&made(fence, 3)).await.expect("it goes on");
        assert_eq!(store.load().await.expect("a domain").reservations.len(), 3);
    });
}

/// A commit that takes longer than the call, by a trigger that runs in it.
const SLOW_COMMIT: &str = "
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        BEGIN PERFORM pg_sleep(2.2);
        EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(0.7);
        END;
        IF NEW.bps = 64003 THEN RAISE EXCEPTION 'no'; END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON reservation
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle();";

#[test]
fn a_commit_that_takes_too_long_is_known_in_the_end() {
    let Some(server) = postgres("a_commit_that_takes_too_long_is_known_in_the_end") else { return };
    let place = server.place();
    block_on(async {
        let store = place.open_hasty().await;
        let fence = lead(&store, "a").await;
        place.beside().await.run(SLOW_COMMIT).await;
        store.write(&made(fence, 1)).await.expect("it commits after the time is over");
        assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1)]);
        // The third one fails in its commit, as late.
        let error = store.write(&made(fence, 3)).await.expect_err("it is taken back");
        assert!(matches!(error, Error::Slow(_)), "{error:?}");
        assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1)]);
    });
}
