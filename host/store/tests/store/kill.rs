//! `kill -9` at any instant: what was acknowledged is there, and nothing is there by half.

use crate::domain::{audit, capacity, group, reservation};
use crate::support::*;
use perhop_broker::record::{Change, Group, Snapshot};
use perhop_store::{Error, Store};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Reservations of a group.
const EACH: u64 = 20;

/// Tells the child what to write to.
const CHILD: &str = "PERHOP_STORE_CHILD";

/// Group `n` of all: every one adds as much.
fn nth(fence: u64, n: u64) -> Group {
    let rows = (0..EACH).map(|k| Change::Reservation(reservation(EACH * n + k + 1)));
    let sold =
        [Change::Capacity(capacity(1, "voice", 1 << 60, EACH * (n + 1), false)), Change::Audit(audit(n + 1))];
    group(fence, n, rows.chain(sold).collect())
}

/// How many groups are there. Panics where one is there by half.
fn whole_groups(snapshot: &Snapshot) -> u64 {
    let groups = snapshot.audit_seq;
    let sold = snapshot.capacities.first().map_or(0, |row| row.reserved);
    let ids: Vec<_> = snapshot.reservations.iter().map(|row| row.id).collect();
    assert_eq!(sold, EACH * groups);
    assert_eq!(ids, (1..=EACH * groups).collect::<Vec<_>>());
    assert_eq!(snapshot.last_reservation, EACH * groups);
    groups
}

/// A process of its own that writes groups until it is ended, and says which are written.
#[test]
fn a_child_writes_groups_for_its_parent() {
    let Ok(address) = std::env::var(CHILD) else { return };
    block_on(async {
        let place = Place { address };
        let store = place.open().await;
        let fence = lead(&store, "child").await;
        let groups = whole_groups(&store.load().await.expect("a domain"));
        let mut out = std::io::stdout();
        for n in groups.. {
            store.write(&nth(fence, n)).await.expect("written");
            writeln!(out, "\nwritten {n}").and_then(|()| out.flush()).expect("a parent");
        }
    });
}

#[test]
fn what_was_acknowledged_survives_the_end_of_the_writer() {
    let folder = Folder::new();
    let place = Place::sqlite(&folder.file("domain.db"));
    let mut draw = Draw::new(7);
    let mut last = 0;
    for round in 0..15 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "kill::a_child_writes_groups_for_its_parent", "--nocapture"])
            .env(CHILD, &place.address)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let killer = std::thread::spawn({
            let wait = Duration::from_millis(150 + draw.below(250));
            move || {
                std::thread::sleep(wait);
                child.kill().expect("our child");
                child.wait().expect("our child");
            }
        });
        let written = lines.map_while(Result::ok).filter_map(|l| l.strip_prefix("written ")?.parse().ok());
        let acknowledged: Option<u64> = written.last();
        killer.join().expect("it ended");
        let snapshot = block_on(async { place.open().await.load().await.expect("a domain") });
        let groups = whole_groups(&snapshot);
        assert!(groups >= acknowledged.map_or(last, |n| n + 1), "round {round}");
        last = groups;
    }
    assert!(last > 15, "only {last} groups in all rounds: the writer hardly ran");
}

#[test]
fn what_was_acknowledged_survives_the_end_of_the_server() {
    let Some(mut server) = postgres("what_was_acknowledged_survives_the_end_of_the_server") else { return };
    let place = server.place();
    let mut draw = Draw::new(8);
    let (send, acknowledged) = std::sync::mpsc::channel();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (address, stop) = (place.address.clone(), stop.clone());
        move || block_on(write_through(&Place { address }, &send, &stop))
    });
    // It has begun.
    acknowledged.recv_timeout(Duration::from_secs(60)).expect("a first group");
    let mut last = 0;
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(50 + draw.below(400)));
        server.kill();
        server.run();
        // It goes on by itself.
        while acknowledged.try_recv().is_ok() {}
        last = acknowledged.recv_timeout(Duration::from_secs(60)).expect("the writer goes on");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let written = writer.join().expect("the writer");
    let snapshot = block_on(async { place.open().await.load().await.expect("a domain") });
    assert_eq!(whole_groups(&snapshot), written);
    assert!(last > 6 && written > last);
}

/// Writes groups one after the other, each until it is known to be written; gives their number.
async fn write_through(
    place: &Place,
    acknowledge: &std::sync::mpsc::Sender<u64>,
    stop: &std::sync::atomic::AtomicBool,
) -> u64 {
    let store: Store = place.open_hasty().await;
    let fence = lead(&store, "a").await;
    let mut n = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        match store.write(&nth(fence, n)).await {
            Ok(()) => {
                _ = acknowledge.send(n);
                n += 1;
            }
            Err(Error::Gone(_) | Error::Doubtful { .. } | Error::Slow(_) | Error::Locked(_)) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("group {n}: {error:?}"),
        }
    }
    n
}
