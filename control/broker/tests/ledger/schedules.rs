//! Random schedules: requests, time, rates, descriptions, groups that are written or not, and new leaders.
//!
//! `PERHOP_SCHEDULES` says how many; a few by default.

use crate::database::check;
use crate::domains::{DOMAIN, World, reserve, topology};
use crate::oracle::{Oracle, STEP_MS};
use perhop_broker::ledger::{
    ClientChange, Granted, Input, OnShort, Refusal, Request, Reserve, Settings, Told, Way,
};
use perhop_broker::record::{ClientRow, Snapshot};
use perhop_broker::topology::Topology;
use perhop_reason::Code;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CLIENTS: [&str; 4] = ["ann", "ben", "cat", "nobody"];
const ENDS: [&str; 3] = ["a", "b", "p"];
const LINKS: [(&str, &str); 3] = [("a", "up"), ("c", "to-d"), ("a", "direct")];
const CLASSES: [&str; 2] = ["voice", "video"];
const LIFETIME_MS: u64 = 8_000;

#[derive(Clone, Debug)]
enum Step {
    Reserve { client: usize, wish: Reserve },
    Change { client: usize, pick: usize, bps: Option<u64>, back_bps: Option<u64>, lifetime_ms: Option<u64> },
    Renew { client: usize, pick: usize },
    Settle { client: usize, pick: usize },
    Release { client: usize, pick: usize },
    Pass { steps: u64 },
    Rate { link: usize, bps: u64 },
    Topology { which: usize },
    Client { gone: bool },
    Write,
    Fail { retry_after_ms: u32 },
    Restart,
}

fn life() -> impl Strategy<Value = Option<u64>> {
    prop::option::of((1..30_u64).prop_map(|steps| steps * STEP_MS))
}

fn wish() -> impl Strategy<Value = Reserve> {
    let shape = (0..8_u32, 0..3_usize, 0..3_usize, 0..5_usize, 1..16_u64, 0..3_u8);
    let more = (life(), prop::option::of(1..12_u64), prop::option::of(1..6_u64), any::<bool>());
    let of_link = (shape.clone(), life()).prop_map(|((key, link, _, class, bps, priority), lifetime_ms)| {
        let (node, port) = LINKS[link];
        let way = Way::Link { node: node.into(), port: port.into() };
        let class = CLASSES[usize::from(class == 0)];
        Reserve { priority, lifetime_ms, ..Reserve::new(key.to_string(), way, class, bps) }
    });
    let between = (shape, more).prop_map(
        |((key, from, to, class, bps, priority), (lifetime_ms, back_bps, floor, asking))| Reserve {
            class: CLASSES[usize::from(class == 0)].into(),
            floor_bps: floor.map(|floor| floor.min(bps)),
            priority,
            lifetime_ms,
            back_bps,
            asking,
            ..reserve(&key.to_string(), ENDS[from], ENDS[to], bps)
        },
    );
    prop_oneof![4 => between, 1 => of_link]
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS.len();
    let rate = || prop::option::of(1..16_u64);
    prop_oneof![
        12 => (client(), wish()).prop_map(|(client, wish)| Step::Reserve { client, wish }),
        4 => (client(), 0..20_usize, rate(), rate(), life()).prop_map(
            |(client, pick, bps, back_bps, lifetime_ms)| Step::Change { client, pick, bps, back_bps, lifetime_ms }
        ),
        2 => (client(), 0..20_usize).prop_map(|(client, pick)| Step::Renew { client, pick }),
        1 => (client(), 0..20_usize).prop_map(|(client, pick)| Step::Settle { client, pick }),
        3 => (client(), 0..20_usize).prop_map(|(client, pick)| Step::Release { client, pick }),
        4 => (1..9_u64).prop_map(|steps| Step::Pass { steps }),
        2 => (0..8_usize, prop_oneof![Just(100_u64), 0..100_u64]).prop_map(|(link, bps)| Step::Rate { link, bps }),
        1 => (0..5_usize).prop_map(|which| Step::Topology { which }),
        1 => any::<bool>().prop_map(|gone| Step::Client { gone }),
        10 => Just(Step::Write),
        2 => (0..3_000_u32).prop_map(|retry_after_ms| Step::Fail { retry_after_ms }),
        1 => Just(Step::Restart),
    ]
}

/// Descriptions of the domain that follow each other in any order.
fn descriptions() -> Vec<Arc<Topology>> {
    let schedule = "[link.schedule]\nrepeat = \"12 s\"\nchanges = [{ at = \"3 s\", rate = \"50 bit/s\" }, { at = \"7 s\", rate = \"100 bit/s\" }]\n";
    let scheduled =
        DOMAIN.replacen("back_port = \"to-c\"\n", &format!("back_port = \"to-c\"\n{schedule}"), 1);
    let more = scheduled.replacen("rate = \"100 bit/s\"", "rate = \"150 bit/s\"", 1);
    let less = scheduled.replacen("voice = \"30 bit/s\"", "voice = \"12 bit/s\"", 1);
    let classless = scheduled.replacen(", video = \"50 %\"", "", 1);
    let direct = format!(
        "{scheduled}[[link]]\nfrom = \"a\"\nport = \"direct\"\nto = \"b\"\nrate = \"20 bit/s\"\nclasses = {{ voice = \"100 %\" }}\n"
    );
    [scheduled, more, less, classless, direct].iter().map(|text| topology(text)).collect()
}

struct Run {
    world: World,
    settings: Settings,
    descriptions: Vec<Arc<Topology>>,
    /// The description that the ledger has, and the one that the database has.
    description: usize,
    told: BTreeMap<u64, u64>,
    /// By number of its reservation: what was asked for.
    wishes: BTreeMap<u64, Reserve>,
    /// Asks that must be answered, and descriptions on their way.
    open: BTreeSet<u64>,
    unwritten: Vec<(u64, usize)>,
}

impl Run {
    fn new(on_short: OnShort, preempt: bool) -> Self {
        let settings = Settings {
            on_short,
            preempt,
            lifetime_ms: LIFETIME_MS,
            remember_ms: 0,
            refusals_per_second: 1,
            ..Settings::default()
        };
        let world = World::new(settings, DOMAIN);
        let mut run = Self {
            world,
            settings,
            descriptions: descriptions(),
            description: 0,
            told: BTreeMap::new(),
            wishes: BTreeMap::new(),
            open: BTreeSet::new(),
            unwritten: Vec::new(),
        };
        run.world.holds = true;
        run.describe(0);
        run.world.write();
        run
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Reserve { client, wish } => self.reserve(CLIENTS[client], wish),
            Step::Change { client, pick, bps, back_bps, lifetime_ms } => {
                let id = self.pick(pick);
                self.ask(CLIENTS[client], Request::Change { id, bps, back_bps, lifetime_ms, flow: None });
            }
            Step::Renew { client, pick } => {
                let id = self.pick(pick);
                self.ask(CLIENTS[client], Request::Renew { id, lifetime_ms: None });
            }
            Step::Settle { client, pick } => {
                let id = self.pick(pick);
                self.ask(CLIENTS[client], Request::Settle { id, peer_handle: Some("x".into()) });
            }
            Step::Release { client, pick } => {
                let id = self.pick(pick);
                self.ask(CLIENTS[client], Request::Release { id });
            }
            Step::Pass { steps } => self.world.pass(steps * STEP_MS),
            Step::Rate { link, bps } => {
                let links = self.world.ledger.links();
                let link = links[link % links.len()].id;
                self.told.insert(link, bps);
                let kept = self.kept();
                self.world.input(Input::Rate { who: "test".into(), link, bps });
                if self.settings.on_short == OnShort::Keep {
                    assert_eq!(self.kept(), kept, "a rate took something");
                }
            }
            Step::Topology { which } => self.describe(which),
            Step::Client { gone } => {
                let row = ClientRow {
                    name: "cat".into(),
                    kind: "http".into(),
                    cert_sha256: None,
                    token_sha256: None,
                    role: "agent".into(),
                    most_bps: Some(25),
                    most_count: Some(3),
                    per_second: None,
                };
                let change = if gone { ClientChange::Gone("cat".into()) } else { ClientChange::Put(row) };
                let ask = self.world.next_ask();
                self.open.insert(ask);
                self.world.input(Input::Client { ask, who: "admin".into(), change });
            }
            Step::Write => self.world.write(),
            Step::Fail { retry_after_ms } => {
                if self.world.flight.is_some() {
                    self.world.fail(retry_after_ms);
                    self.world.same_rows();
                    assert!(!self.world.ledger.is_open());
                    assert!(
                        self.world
                            .ledger
                            .next_wakeup()
                            .is_some_and(|at| at.0 > self.world.now_ms * 1_000_000)
                    );
                }
            }
            Step::Restart => self.restart(),
        }
        self.hear();
        self.check();
    }

    fn kept(&self) -> Vec<(u64, u64)> {
        let now_ms = self.world.now_ms;
        let rows = self.world.ledger.snapshot().reservations.into_iter();
        rows.filter(|row| row.expires_ms > now_ms).map(|row| (row.id, row.bps)).collect()
    }

    /// A number of a reservation, mostly of one that is there.
    fn pick(&self, pick: usize) -> u64 {
        let rows = self.world.ledger.snapshot().reservations;
        rows.get(pick).map_or(pick as u64, |row| row.id)
    }

    fn oracle<'a>(&'a self, rows: &'a Snapshot) -> Oracle<'a> {
        Oracle {
            rows,
            topology: &self.descriptions[self.description],
            told: &self.told,
            now_ms: self.world.now_ms,
            lifetime_ms: LIFETIME_MS,
            preempt: self.settings.preempt,
        }
    }

    fn reserve(&mut self, client: &str, wish: Reserve) {
        let before = self.world.ledger.snapshot();
        let request = Request::Reserve(Box::new(wish.clone()));
        let expected = self.oracle(&before).reserve(client, &wish, &self.wishes);
        let expected = if self.world.ledger.is_open() { expected } else { Err(Code::BackendFailed) };
        let why = self.world.ledger.why(client, &request).map_err(|refusal| refusal.code);
        assert_eq!(why, expected, "{client} {wish:?}");
        assert_eq!(self.world.ledger.snapshot(), before, "a dry run changed something");
        let ask = self.ask(client, request);
        let after = self.world.ledger.snapshot();
        let there = |rows: &Snapshot| {
            let mut rows = rows.reservations.iter();
            rows.find(|row| row.owner == client && row.idem == wish.idem).map(|row| row.id)
        };
        let booked = there(&after).filter(|_| there(&before).is_none());
        if expected.is_ok() {
            self.wishes.extend(booked.map(|id| (id, wish.clone())));
            assert!(there(&after).is_some());
        } else {
            assert_eq!(booked, None);
            assert_eq!(after.reservations, before.reservations, "a refusal changed something");
        }
        self.answered_as(ask, expected);
        let new = |id: &u64| !before.reservations.iter().any(|row| row.id == *id);
        for row in &before.reservations {
            let still = after.reservations.iter().find(|other| other.id == row.id);
            match still {
                Some(still) => assert_eq!(still, row),
                None => assert!(self.settings.preempt && row.priority < wish.priority, "{row:?} gave way"),
            }
        }
        let made = after.reservations.iter().filter(|row| new(&row.id)).count();
        let expected = usize::from(booked.is_some()) * (1 + usize::from(wish.back_bps.is_some()));
        assert_eq!(made, expected);
    }

    /// If an answer is there already, it is as expected, unless it is undone.
    fn answered_as(&self, ask: u64, expected: Result<(), Code>) {
        if let Some(answer) = self.world.answers.get(&ask) {
            assert_eq!(answer.clone().map(drop).map_err(|refusal| refusal.code), expected);
        }
    }

    fn ask(&mut self, client: &str, request: Request) -> u64 {
        let before = self.world.ledger.snapshot();
        let expected = self.oracle(&before).change(client, &request).filter(|_| self.world.ledger.is_open());
        if let Some(expected) = expected {
            let why = self.world.ledger.why(client, &request).map_err(|refusal| refusal.code);
            assert_eq!(why, expected, "{client} {request:?}");
        }
        let ask = self.world.send(client, request);
        self.open.insert(ask);
        ask
    }

    fn describe(&mut self, which: usize) {
        let ask = self.world.next_ask();
        self.open.insert(ask);
        let topology = self.descriptions[which].clone();
        let audits = self.world.ledger.snapshot().audit_seq;
        self.world.input(Input::Topology { ask, who: "file".into(), topology });
        let refused = matches!(self.world.answers.get(&ask), Some(Err(_)));
        // What was taken stands in the log, as its last row or before what it made of reservations.
        let snapshot = self.world.ledger.snapshot();
        if !refused && snapshot.audit_seq > audits && self.is(which, &snapshot) {
            self.unwritten.push((ask, self.description));
            self.description = which;
        }
    }

    /// Whether the rows of links are those of a description.
    fn is(&self, which: usize, rows: &Snapshot) -> bool {
        let topology = &self.descriptions[which];
        let oracle = Oracle { topology, ..self.oracle(rows) };
        let links: BTreeSet<_> = rows.links.iter().map(|row| (row.node.clone(), row.port.clone())).collect();
        links.iter().eq(topology.links.keys())
            && rows
                .capacities
                .iter()
                .all(|row| oracle.capacity(row.link, &row.class, self.world.now_ms) == row.bps)
            && rows.capacities.len()
                == topology.links.values().map(|link| link.profile.classes.len()).sum::<usize>()
    }

    fn restart(&mut self) {
        let lost: Vec<_> =
            self.open.iter().copied().filter(|ask| !self.world.answers.contains_key(ask)).collect();
        for ask in lost {
            self.open.remove(&ask);
        }
        // The description of what is not written is lost too.
        if let Some((_, before)) = self.unwritten.first() {
            self.description = *before;
        }
        self.unwritten.clear();
        self.told.clear();
        self.settings.fence += 1;
        self.world.restart(self.settings);
        let which = self.description;
        self.describe(which);
        // Until it is written the new leader does not know what links have beside their rows.
        self.world.write();
    }

    /// What was answered is in the database, or its end is in the log.
    fn hear(&mut self) {
        let answered: Vec<_> =
            self.open.iter().copied().filter(|ask| self.world.answers.contains_key(ask)).collect();
        for ask in answered {
            self.open.remove(&ask);
            let undone = self.unwritten.iter().position(|(other, _)| *other == ask);
            match &self.world.answers[&ask] {
                Ok(Granted::Held(held)) => {
                    let ended = ["release", "expire", "preempt"];
                    let log = self.world.database.log_of(&held.id.to_string()).join(" ");
                    let twin = held.twin.map(|twin| self.world.database.log_of(&twin.to_string()).join(" "));
                    let over =
                        ended.iter().any(|end| log.contains(end) || twin.iter().any(|log| log.contains(end)));
                    assert!(over || self.world.database.reservations.contains_key(&held.id), "{held:?}");
                }
                Ok(Granted::Released(id)) => assert!(!self.world.database.reservations.contains_key(id)),
                Ok(Granted::Taken) => {
                    if let Some(at) = undone {
                        self.unwritten.remove(at);
                    }
                }
                Err(Refusal { code: Code::BackendFailed, .. }) => {
                    if let Some(at) = undone {
                        // All behind it are undone too, and are answered in order.
                        self.description = self.unwritten[at].1;
                        self.unwritten.truncate(at);
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn check(&mut self) {
        let rows = self.world.ledger.snapshot();
        check(&rows);
        if !self.world.ledger.is_open() {
            return;
        }
        assert!(rows.reservations.iter().all(|row| row.expires_ms > self.world.now_ms));
        let wake = self.world.ledger.next_wakeup();
        assert!(wake.is_none_or(|at| at.0 > self.world.now_ms * 1_000_000), "it would be woken for nothing");
        let oracle = self.oracle(&rows);
        for row in &rows.capacities {
            let capacity = oracle.capacity(row.link, &row.class, self.world.now_ms);
            assert_eq!(row.bps, capacity, "{row:?} {}", self.description);
            assert!(!row.short || self.settings.on_short != OnShort::Release, "{row:?}");
        }
        if self.settings.on_short == OnShort::Shrink {
            for row in rows.capacities.iter().filter(|row| row.short) {
                let over = |path| rows.paths.iter().any(|p| p.id == path && p.links.contains(&row.link));
                let mut all =
                    rows.reservations.iter().filter(|resv| resv.class == row.class && over(resv.path));
                assert!(all.all(|resv| resv.floor_bps.is_none_or(|floor| floor >= resv.bps)), "{row:?}");
            }
        }
        if self.world.flight.is_none() {
            self.world.same_rows();
        }
    }

    /// Everything is written in the end, everybody is answered, and nothing is left when all lives are over.
    fn end(mut self) {
        self.world.holds = false;
        self.world.write();
        self.world.pass(5_000);
        self.world.write();
        self.hear();
        self.check();
        assert_eq!(self.open, BTreeSet::new(), "nobody answers them");
        self.world.pass(30 * STEP_MS + LIFETIME_MS);
        self.world.same_rows();
        assert_eq!(self.world.database.reservations.len(), 0);
        assert!(self.world.database.capacities.values().all(|row| row.reserved == 0));
        let shares = self.world.told.iter().filter_map(|told| match told {
            Told::Share { link, class, reserved_bps, .. } => Some(((*link, class.clone()), *reserved_bps)),
            _ => None,
        });
        // Whoever looks after a link hears of it while there is a link.
        let links: BTreeSet<_> = self.world.database.links.keys().copied().collect();
        let last: BTreeMap<_, _> = shares.filter(|((link, _), _)| links.contains(link)).collect();
        assert!(last.values().all(|reserved| *reserved == 0), "{last:?}");
    }
}

fn schedules() -> u32 {
    std::env::var("PERHOP_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: schedules(), max_shrink_iters: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_sold_twice_and_what_was_granted_stays(
        steps in prop::collection::vec(step(), 1..60),
        on_short in prop_oneof![Just(OnShort::Keep), Just(OnShort::Shrink), Just(OnShort::Release)],
        preempt in any::<bool>(),
    ) {
        let mut run = Run::new(on_short, preempt);
        for step in steps {
            run.step(step);
        }
        run.end();
    }
}
