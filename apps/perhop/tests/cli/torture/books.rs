//! What clients have been told, and whether the database has just that.

use super::draw::now_ms;
use perhop_broker::record::{ReservationRow, Snapshot};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of reservations given back that are remembered.
const GONE: usize = 20_000;
/// Failures that are told.
const TOLD: usize = 20;

/// A reservation as its client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub owner: String,
    pub key: String,
    pub bps: u64,
    pub back_bps: Option<u64>,
    pub expires_ms: u64,
}

/// How often what happened.
#[derive(Debug, Default)]
pub struct Counts {
    pub granted: AtomicU64,
    pub changed: AtomicU64,
    pub released: AtomicU64,
    pub refused: AtomicU64,
    pub unknown: AtomicU64,
    pub forgotten: AtomicU64,
    pub looks: AtomicU64,
    pub blind: AtomicU64,
}

/// See the module.
#[derive(Default)]
pub struct Books {
    held: Mutex<BTreeMap<u64, (u64, Known)>>,
    gone: Mutex<BTreeSet<u64>>,
    version: AtomicU64,
    pub counts: Counts,
    failures: Mutex<Vec<String>>,
}

/// What was known before a look at the database.
pub struct Before {
    held: BTreeMap<u64, (u64, Known)>,
    gone: BTreeSet<u64>,
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Books {
    /// A client has been told that it holds this.
    pub fn hold(&self, id: u64, known: Known) {
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        self.held.lock().unwrap().insert(id, (version, known));
    }

    /// A client asks for a change of it, gives it back or forgets it: nothing is known until it is told.
    pub fn let_go(&self, id: u64) {
        self.held.lock().unwrap().remove(&id);
    }

    /// A client has been told that it is gone.
    pub fn end(&self, id: u64) {
        let mut gone = self.gone.lock().unwrap();
        gone.insert(id);
        if gone.len() > GONE {
            gone.pop_first();
        }
    }

    pub fn fail(&self, what: String) {
        eprintln!("FAILED {what}");
        self.failures.lock().unwrap().push(what);
    }

    pub fn has_failed(&self) -> bool {
        !self.failures.lock().unwrap().is_empty()
    }

    pub fn assert_good(&self) {
        let failures = self.failures.lock().unwrap();
        assert!(failures.is_empty(), "{:#?}", failures.iter().take(TOLD).collect::<Vec<_>>());
    }

    pub fn before(&self) -> Before {
        // What is let go meanwhile is passed over, and what is gone stays gone.
        let gone = self.gone.lock().unwrap().clone();
        Before { held: self.held.lock().unwrap().clone(), gone }
    }

    /// Compares what was known before a look with what it found.
    pub fn check(&self, before: &Before, found: &Snapshot) {
        let now_ms = now_ms();
        count(&self.counts.looks);
        recount(found).unwrap_or_else(|why| self.fail(why));
        let rows: HashMap<u64, &ReservationRow> =
            found.reservations.iter().map(|row| (row.id, row)).collect();
        let held = self.held.lock().unwrap();
        for (id, (version, known)) in &before.held {
            let is_still = held.get(id).is_some_and(|(now, _)| now == version);
            if !is_still || known.expires_ms <= now_ms {
                continue;
            }
            let row = rows.get(id).copied();
            let back = row.and_then(|row| rows.get(&row.twin?)).map(|twin| twin.bps);
            let is_there = row.is_some_and(|row| {
                (&row.owner, &row.idem, row.bps, row.expires_ms)
                    == (&known.owner, &known.key, known.bps, known.expires_ms)
            });
            if !is_there || back != known.back_bps {
                self.fail(format!("reservation {id} was told as {known:?} and is {row:?}, back {back:?}"));
            }
        }
        for row in found.reservations.iter().filter(|row| before.gone.contains(&row.id)) {
            self.fail(format!("reservation {} was given back and is there: {row:?}", row.id));
        }
    }
}

/// Whether what is reserved of every link is the sum of its reservations, and within what it has.
pub fn recount(found: &Snapshot) -> Result<(), String> {
    let paths: HashMap<u64, &Vec<u64>> = found.paths.iter().map(|path| (path.id, &path.links)).collect();
    let mut sums: BTreeMap<(u64, &str), u64> = BTreeMap::new();
    let mut of_owner: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &found.reservations {
        *of_owner.entry(&row.owner).or_default() += row.bps;
        for link in paths.get(&row.path).ok_or_else(|| format!("{row:?} has no path"))?.iter() {
            *sums.entry((*link, &row.class)).or_default() += row.bps;
        }
    }
    for row in &found.capacities {
        let sum = sums.remove(&(row.link, row.class.as_str())).unwrap_or(0);
        if row.reserved != sum || row.reserved > row.bps || row.short {
            return Err(format!("{sum} bit/s are reserved where {row:?}"));
        }
    }
    for client in &found.clients {
        let sum = of_owner.get(client.name.as_str()).copied().unwrap_or(0);
        if client.most_bps.is_some_and(|most| sum > most) {
            return Err(format!("client {} has {sum} bit/s of {:?}", client.name, client.most_bps));
        }
    }
    sums.is_empty().then_some(()).ok_or_else(|| format!("reserved without a capacity: {sums:?}"))
}

#[test]
fn what_is_sold_twice_lost_or_kept_is_found() {
    use perhop_broker::record::{CapacityRow, PathRow, ReservationKind, ReservationState};
    let row = |id: u64, bps| ReservationRow {
        id,
        owner: "a".into(),
        idem: id.to_string(),
        digest: String::new(),
        kind: ReservationKind::Flow,
        twin: None,
        path: 1,
        class: "voice".into(),
        bps,
        floor_bps: None,
        priority: 0,
        state: ReservationState::Held,
        peer_handle: None,
        flow: String::new(),
        created_ms: 0,
        expires_ms: u64::MAX,
    };
    let of = |reserved, rows: Vec<ReservationRow>| Snapshot {
        paths: vec![PathRow { id: 1, from_node: "a".into(), to_node: "b".into(), links: vec![7] }],
        capacities: vec![CapacityRow { link: 7, class: "voice".into(), bps: 10, reserved, short: false }],
        reservations: rows,
        ..Snapshot::default()
    };
    assert_eq!(recount(&of(9, vec![row(1, 4), row(2, 5)])), Ok(()));
    assert!(recount(&of(9, vec![row(1, 4)])).is_err(), "more than its reservations");
    assert!(recount(&of(11, vec![row(1, 11)])).is_err(), "more than the link has");
    let known = Known { owner: "a".into(), key: "1".into(), bps: 4, back_bps: None, expires_ms: u64::MAX };
    let failures = |prepare: fn(&Books), found: &Snapshot, known: &Known| {
        let books = Books::default();
        books.hold(1, known.clone());
        let before = books.before();
        prepare(&books);
        books.check(&before, found);
        books.has_failed()
    };
    let nothing = |_: &Books| {};
    assert!(!failures(nothing, &of(4, vec![row(1, 4)]), &known));
    assert!(failures(nothing, &of(5, vec![row(1, 5)]), &known), "another rate");
    assert!(failures(nothing, &of(0, vec![]), &known), "lost");
    assert!(!failures(|books| books.let_go(1), &of(0, vec![]), &known), "nobody knows");
    assert!(
        !failures(nothing, &of(0, vec![]), &Known { expires_ms: 1, ..known.clone() }),
        "its life is over"
    );
    let books = Books::default();
    books.end(1);
    books.check(&books.before(), &of(4, vec![row(1, 4)]));
    assert!(books.has_failed(), "given back and there");
}
