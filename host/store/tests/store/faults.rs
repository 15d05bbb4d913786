//! What happens to one engine only: files that vanish and fill up, servers that stop and hang.

use crate::domain::{capacity, group, reservation};
use crate::support::*;
use perhop_broker::record::{Change, Group};
use perhop_reason::Code;
use perhop_store::{Error, Limits, Store};
use std::time::Duration;

fn made(fence: u64, number: u64) -> Group {
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
fn what_is_written_gets_from_the_log_into_the_file_while_the_store_is_open() {
    let folder = Folder::new();
    let file = folder.file("domain.db");
    let place = Place::sqlite(&file);
    block_on(async {
        let store = place.open().await;
        let fence = lead(&store, "a").await;
        let size = || std::fs::metadata(&file).expect("the file").len();
        let before = size();
        // Less than makes the writer do it.
        for number in 0..20 {
            let rows = (1..=100).map(|n| Change::Reservation(reservation(100 * number + n)));
            store.write(&group(fence, number, rows.collect())).await.expect("it is written");
        }
        for _ in 0..1_000 {
            if size() > before {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the file has still {before} octets");
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
        known(&store, &made(fence, 1)).await.expect("it commits after the time is over");
        assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1)]);
        // The third one fails in its commit, as late.
        known(&store, &made(fence, 3)).await.expect_err("it is taken back");
        assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1)]);
    });
}

/// Writes a group until it is known whether it is written.
async fn known(store: &Store, group: &Group) -> Result<(), Error> {
    loop {
        match store.write(group).await {
            Err(Error::Doubtful { .. }) => {}
            known => return known,
        }
    }
}

#[test]
fn a_group_in_doubt_is_settled_before_later_ones() {
    let Some(mut server) = postgres("a_group_in_doubt_is_settled_before_later_ones") else { return };
    let place = server.place();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (store, fence) = runtime.block_on(async {
        let store = place.open_hasty().await;
        let fence = lead(&store, "a").await;
        place.beside().await.run(SLOW_COMMIT).await;
        (store, fence)
    });
    // The server ends while it commits, and cannot be asked.
    let error = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(700));
            server.kill();
        });
        let error = runtime.block_on(store.write(&made(fence, 1)));
        killer.join().expect("killed");
        error.expect_err("nobody knows")
    });
    assert!(matches!(error, Error::Doubtful { number: 1, because: Some(_) }), "{error:?}");
    assert_eq!((error.code(), error.retry_after_ms()), (Code::BackendFailed, Some(1000)));
    let again = runtime.block_on(store.write(&made(fence, 1))).expect_err("nobody knows yet");
    assert!(matches!(again, Error::Doubtful { number: 1, because: Some(_) }), "{again:?}");
    server.run();
    runtime.block_on(async {
        place.beside().await.run("DROP TRIGGER dawdle ON reservation").await;
        for _ in 0..2 {
            let later = store.write(&made(fence, 2)).await.expect_err("it has to wait");
            assert!(matches!(later, Error::Doubtful { number: 1, because: None }), "{later:?}");
        }
        store.write(&made(fence, 1)).await.expect("it is known now");
        store.write(&made(fence, 2)).await.expect("its turn");
        assert_eq!(store.load().await.expect("a domain").reservations, [reservation(1), reservation(2)]);
    });
}

/// Tells the part inside a user namespace that it is there, and where the small disk is.
const DISK: &str = "PERHOP_STORE_DISK";

/// On a disk of a megabyte, in a name space where this user may mount one.
#[test]
fn a_full_disk_says_so_and_the_domain_stays_readable() {
    let name = "a_full_disk_says_so_and_the_domain_stays_readable";
    if let Ok(disk) = std::env::var(DISK) {
        return block_on(fill(std::path::Path::new(&disk)));
    }
    let folder = Folder::new();
    let mount = "mount -t tmpfs -o size=1m perhop \"$PERHOP_STORE_DISK\"";
    let inside = || {
        let mut unshare = std::process::Command::new("unshare");
        let script = format!("{mount} && exec \"$@\"");
        unshare.args(["-Urm", "sh", "-ec", &script, "sh"]).env(DISK, &folder.0);
        unshare
    };
    if !inside().arg("true").output().is_ok_and(|out| out.status.success()) {
        let why = "needs a user namespace in which a disk can be mounted";
        eprintln!("SKIPPED {name}: {why}");
        let required =
            std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == "netns"));
        assert!(!required, "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
        return;
    }
    let mut test = inside();
    test.arg(std::env::current_exe().expect("this program"));
    let out = test.args(["--exact", &format!("faults::{name}"), "--nocapture"]).output().expect("unshare");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

async fn fill(disk: &std::path::Path) {
    let store = Place::sqlite(&disk.join("domain.db")).open().await;
    let mut journal =
        perhop_store::Journal::open(&disk.join("journal.db"), Limits::default()).await.expect("room");
    let entry = |n: u64| perhop_store::Entry { name: "edition".into(), value: Some(n.into()) };
    journal.write(&[entry(1)]).await.expect("room");
    let fence = lead(&store, "a").await;
    let many = |number: u64| {
        let rows = (0..50).map(|n| Change::Reservation(reservation(50 * number + n)));
        group(fence, number, rows.collect())
    };
    let mut number = 0;
    let error = loop {
        match store.write(&many(number)).await {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full(_)), "{error:?}");
    // To the last byte.
    std::fs::write(disk.join("rest"), vec![1; 1 << 20]).expect_err("it is full");
    let count = |s: perhop_broker::record::Snapshot| s.reservations.len() as u64;
    assert_eq!(count(store.load().await.expect("it is readable")), 50 * number);
    assert!(matches!(journal.write(&[entry(2)]).await, Ok(_) | Err(Error::Full(_))));
    let (seq, kept) = journal.load().await.expect("it is readable");
    assert_eq!((kept.len(), &kept[0].value), (1, &seq.into()));
    std::fs::remove_file(disk.join("rest")).expect("a file");
    assert!(number > 2);
}
