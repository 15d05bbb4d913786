//! How many admissions a second a database takes, and how long a domain takes to load.
//!
//!     cargo run --release -p perhop-store --example admissions -- ADDRESS [GROUP] [ADMISSIONS] [LINKS]
//!
//! ADDRESS is of an empty database, which is filled: links (200 unless said), 500 paths of ten links each, and as many
//! reservations as there are admissions (1,000,000 unless said). Each admission is a reservation and a line of the audit
//! log; what a group of them (200 unless said) changes of a link is written once. At the end a tenth is released.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use perhop_broker::record::*;
use perhop_store::{Campaign, Limits, Store};
use std::time::Instant;

const PATHS: u64 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("ADDRESS [GROUP] [ADMISSIONS] [LINKS]")?;
    let size: u64 = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let admissions: u64 = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let links: u64 = arguments.next().map_or(Ok(200), |n| n.parse())?;

    let store = Store::open(&address, Limits::default()).await?;
    let Campaign::Won { fence } = store.campaign("admissions", 0, 3000).await? else {
        return Err("somebody leads".into());
    };
    store.write(&Group { number: 0, fence, changes: topology(links) }).await?;

    let mut reserved = vec![0; links as usize];
    let mut times = Vec::new();
    let started = Instant::now();
    for number in 1..=admissions.div_ceil(size) {
        let ids = (number - 1) * size + 1..=(number * size).min(admissions);
        let group = Group { number, fence, changes: admit(ids, &mut reserved) };
        let begun = Instant::now();
        store.write(&group).await?;
        times.push(begun.elapsed());
    }
    let took = started.elapsed();
    times.sort();
    println!(
        "{admissions} admissions in groups of {size}: {:.0} a second; a group takes {:?} (median), {:?} (99 %)",
        admissions as f64 / took.as_secs_f64(),
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );

    let started = Instant::now();
    let snapshot = store.load().await?;
    println!("{} reservations are loaded in {:?}", snapshot.reservations.len(), started.elapsed());
    drop(snapshot);

    let (started, releases) = (Instant::now(), admissions / 10);
    for first in (1..=releases).step_by(size as usize) {
        let ids = first..=(first + size - 1).min(releases);
        let number = admissions + first;
        store.write(&Group { number, fence, changes: ids.map(Change::ReservationGone).collect() }).await?;
    }
    println!("{:.0} releases a second", releases as f64 / started.elapsed().as_secs_f64());
    Ok(())
}

fn topology(links: u64) -> Vec<Change> {
    let link =
        |id| LinkRow { id, node: format!("n{id}"), port: "wan".into(), to_node: format!("n{}", id + 1) };
    let all = (0..links).map(|id| Change::Link(link(id)));
    let path =
        |id| PathRow { id, from_node: "a".into(), to_node: "b".into(), links: links_of(id, links).collect() };
    all.chain((0..PATHS).map(|id| Change::Path(path(id)))).collect()
}

fn links_of(path: u64, links: u64) -> impl Iterator<Item = u64> {
    (0..10).map(move |n| (path * 7 + n * 101) % links)
}

fn admit(ids: std::ops::RangeInclusive<u64>, reserved: &mut [u64]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut touched = std::collections::BTreeSet::new();
    for id in ids {
        let path = id.wrapping_mul(2_654_435_761) % PATHS;
        for link in links_of(path, reserved.len() as u64) {
            reserved[link as usize] += 64_000;
            touched.insert(link);
        }
        changes.push(Change::Reservation(ReservationRow {
            id,
            owner: format!("proxy{}", id % 10),
            idem: format!("{:032x}", u128::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
            digest: format!(
                "{:064x}",
                u128::from(id).wrapping_mul(0xd1b5_4a32_d192_ed03_9e37_79b9_7f4a_7c15)
            ),
            kind: ReservationKind::Flow,
            twin: None,
            path,
            class: "voice".into(),
            bps: 64_000,
            floor_bps: None,
            priority: 5,
            state: ReservationState::Held,
            peer_handle: None,
            flow: r#"{"from":"10.1.2.3:5004","to":"10.4.5.6:5004","protocol":"udp"}"#.into(),
            created_ms: 1_700_000_000_000,
            expires_ms: 1_700_000_600_000,
        }));
        changes.push(Change::Audit(AuditRow {
            seq: id,
            at_ms: 1_700_000_000_000,
            who: format!("proxy{}", id % 10),
            what: "reserve".into(),
            subject: id.to_string(),
            refused: None,
            detail: r#"{"bps":64000,"class":"voice"}"#.into(),
        }));
    }
    for link in touched {
        let reserved = reserved[link as usize];
        let row = CapacityRow { link, class: "voice".into(), bps: 1 << 60, reserved, short: false };
        changes.push(Change::Capacity(row));
    }
    changes
}
