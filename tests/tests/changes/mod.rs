//! A thousand transactions on saturated links: what a change does not name is neither lost nor reordered (law 5).
//!
//! Ports, rates, flows, classes, packets and every change are drawn from a seed, which a failure prints.

mod churn;
mod day;
mod filters;
mod flow;
mod story;
mod world;

use crate::support::transaction;
use churn::{Churn, Request};
use perhop_model::{Credentials, Mode, Op, Outcome, Reply, Role, Speaks, Transaction};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use rand::RngExt;
use std::collections::VecDeque;
use std::sync::Arc;
use story::{Story, says_what_it_is, state_bytes};
use world::{Draw, GroupKind, World};

/// Rejections that another commit's missing confirmation may cause.
const WAITING: [Code; 2] = [Code::PendingConfirm, Code::LimitReached];

/// Parts of a pause after which the flows fill up the queues again.
const SIPS: u64 = 8;

/// Says which world it was when a test fails inside, and what was asked of it last.
struct Blame {
    draw: Draw,
    change: u32,
    latest: VecDeque<(Instant, Request)>,
}

impl Blame {
    /// Requests that are told.
    const LATEST: usize = 60;

    fn asks(&mut self, now: Instant, request: &Request) {
        if self.latest.len() == Self::LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back((now, request.clone()));
    }
}

impl Drop for Blame {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.latest.iter().for_each(|(at, request)| eprintln!("{} ns: {request:?}", at.as_nanos()));
            eprintln!("seed {} at change {}: {:?}", self.draw.seed, self.change, self.draw);
        }
    }
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    committed: u32,
    rejected: u32,
    checked: u32,
    moves: u64,
    episodes: u64,
    policed: u64,
    packets: u64,
    expired: u32,
    reverted: u32,
    drained: u32,
}

#[test]
fn a_thousand_transactions_under_saturation_harm_nothing_they_do_not_name() {
    let tally = changes_under_saturation(Draw::new(20_261_121), 1_000);
    println!("{tally:?}");
    assert!(tally.moves > 500 && tally.episodes > 50, "rule 5 is put to the test: {tally:?}");
    assert!(tally.expired > 5 && tally.reverted > 5 && tally.drained > 20, "{tally:?}");
    assert!(tally.policed > 100 && tally.checked > 20, "{tally:?}");
}

#[test]
fn a_bridge_harms_nothing_either() {
    let draw = Draw { bridge: true, ..Draw::new(8) };
    changes_under_saturation(draw, 200);
}

#[test]
fn the_slowest_and_the_fastest_links_harm_nothing_either() {
    let slow = Draw { rates: vec![2_000_000; 3], groups: 24, flows: 600, longest: 200, ..Draw::new(4) };
    changes_under_saturation(slow, 150);
    let fast = Draw { rates: vec![1_000_000_000; 3], longest: 1400, ..Draw::new(5) };
    changes_under_saturation(fast, 150);
}

/// One world after the other, for as many seconds as `PERHOP_SOAK_SECONDS` says (two worlds without it), from the seed
/// in `PERHOP_SOAK_SEED` on.
#[test]
#[allow(clippy::disallowed_methods, reason = "a soak ends by the clock")]
fn soak_changes_under_saturation() {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse().ok());
    let seconds = number("PERHOP_SOAK_SECONDS").unwrap_or(0);
    let first = number("PERHOP_SOAK_SEED").unwrap_or(1);
    let start = std::time::Instant::now();
    let mut seed = first;
    while seed < first + 2 || start.elapsed() < std::time::Duration::from_secs(seconds) {
        changes_under_saturation(Draw::new(seed), 300);
        seed += 1;
    }
    println!("{} seeds", seed - first);
}

/// Random transactions on saturated links; checks law 5 for every flow and the contract for every answer.
fn changes_under_saturation(draw: Draw, transactions: u32) -> Tally {
    let pause = |w: &mut World| w.pause();
    changes_in(World::new(draw), transactions, pause, |_, _| {})
}

/// The same in a given world, with a time between changes and something to look at behind each.
fn changes_in(
    mut w: World,
    transactions: u32,
    pause: impl Fn(&mut World) -> Duration,
    mut look: impl FnMut(&mut World, u32),
) -> Tally {
    let mut blame = Blame { draw: w.draw.clone(), change: 0, latest: VecDeque::new() };
    let (mut churn, mut story) = (Churn::default(), Story::new(&mut w));
    let mut tally = Tally::default();
    let mut capacity = Capacity::new(&mut w);
    for n in 0..transactions {
        blame.change = n;
        let pause = Duration::from_nanos(pause(&mut w).as_nanos() / SIPS);
        for _ in 0..SIPS {
            w.router.run_for(pause);
            capacity.pass(&mut w);
            w.note_moves();
            w.collect(true);
        }
        story.read(&mut w, None);
        let request = match story.to_confirm().filter(|_| w.rng.random_range(0..6) == 0) {
            Some((owner, txn_id)) => confirmation(owner, txn_id),
            None => churn.draw(&mut w),
        };
        blame.asks(w.now(), &request);
        ask(&mut w, &mut story, &mut tally, u128::from(n) + 100, &request);
        w.router.worker().check_conservation().expect("books balance");
        if n % 10 == 0 {
            story.count(&mut w);
        }
        calls_stay_in_sight(&mut w);
        look(&mut w, n);
    }
    finish(&mut w, &mut story, &mut tally, &capacity);
    assert!(tally.rejected >= transactions / 20, "{tally:?}");
    tally
}

fn confirmation(owner: perhop_model::Owner, txn_id: perhop_model::TxnId) -> Request {
    let ops = vec![Op::Confirm { txn_id }];
    Request { owner, ops, mode: Mode::Commit, confirm_within_ms: None, force: false, refuse: false }
}

/// One transaction, with packets between the slices of its change; its answer and its trace are what they should be.
fn ask(w: &mut World, story: &mut Story, tally: &mut Tally, id: u128, request: &Request) {
    // A commit that nothing stands against is not expected to leave the state as it was.
    let watched = request.refuse || request.mode == Mode::Check || story.pending() > 0;
    let before = if watched { state_bytes(w) } else { Vec::new() };
    let (reply, t) = submit(w, id, request);
    let codes: Vec<Code> = reply.errors.iter().map(|e| e.code).collect();
    match reply.outcome {
        Outcome::Committed => {
            assert!(!request.refuse && request.mode == Mode::Commit, "{request:?}");
            assert_eq!(reply.ops.len(), request.ops.len());
            story.read(w, Some((request, &reply)));
            story.committed(Instant(reply.received_ns), request, &reply);
            tally.committed += 1;
        }
        Outcome::Checked => {
            assert!(!request.refuse && request.mode == Mode::Check, "{request:?}");
            assert_eq!(before, state_bytes(w), "a check leaves no trace");
            story.read(w, None);
            tally.checked += 1;
        }
        Outcome::Rejected => {
            let waiting = story.pending() > 0 && codes.iter().all(|c| WAITING.contains(c));
            assert!(request.refuse || waiting, "{request:?}: {:?}", reply.errors);
            assert_eq!(before, state_bytes(w), "a refused transaction leaves no trace");
            story.read(w, None);
            tally.rejected += 1;
        }
    }
    if id.is_multiple_of(7) && request.mode == Mode::Commit {
        let before = state_bytes(w);
        let again = w.router.submit(credentials(request), t).expect("a virtual router answers");
        assert_eq!(*again, Reply { replayed: true, ..(*reply).clone() });
        assert_eq!(before, state_bytes(w), "a repetition leaves no trace");
        story.read(w, None);
    }
}

/// Nobody speaks for another owner, and only who uses force is an admin.
fn credentials(request: &Request) -> Credentials {
    let role = if request.force { Role::Admin } else { Role::Write };
    Credentials { role, speaks: Speaks::For(request.owner.clone()) }
}

fn submit(w: &mut World, id: u128, request: &Request) -> (Arc<Reply>, Transaction) {
    // Deadlines that are due now come first, so that the objects change with the workers below.
    let now = w.now();
    w.router.run_until(now);
    w.note_moves();
    let mut t = transaction(request.owner.clone(), id, request.ops.clone());
    (t.mode, t.force, t.confirm_within_ms) = (request.mode, request.force, request.confirm_within_ms);
    let number = w.router.request(credentials(request), t.clone());
    loop {
        let told = w.router.control().events().latest();
        if !w.router.step() {
            break;
        }
        if w.router.control().events().latest() != told {
            w.note_moves();
        }
        w.collect(true);
    }
    w.note_moves();
    w.collect(true);
    (w.router.reply(number).expect("answered once settled"), t)
}

/// What the ports could have carried.
struct Capacity {
    at: Instant,
    bits: Vec<f64>,
    rates: Vec<u64>,
    carried: Vec<u64>,
}

impl Capacity {
    fn new(w: &mut World) -> Self {
        w.collect(true);
        let (at, rates) = (w.now(), rates(w));
        Self { at, bits: vec![0.0; rates.len()], rates, carried: w.carried.clone() }
    }

    /// Rates change between two calls only with a revision, which the caller applies at the end of a pause.
    fn pass(&mut self, w: &mut World) {
        let seconds = w.now().since(self.at).as_secs_f64();
        let now = rates(w);
        for (bits, (before, after)) in self.bits.iter_mut().zip(self.rates.iter().zip(&now)) {
            // A deadline may have changed the rate on the way: the lower of both was there for sure.
            *bits += *before.min(after) as f64 * seconds;
        }
        (self.at, self.rates) = (w.now(), now);
    }

    fn check(&self, w: &World) {
        for (port, bits) in self.bits.iter().enumerate() {
            let share = (w.carried[port] - self.carried[port]) as f64 / bits;
            assert!(share > 0.98, "port {port} was saturated: {share}");
        }
    }
}

fn rates(w: &mut World) -> Vec<u64> {
    let count = w.draw.rates.len();
    let worker = w.router.worker();
    let rate =
        |p: usize| worker.egress(perhop_packet::PortId(p as u16)).map_or(0, |e| e.tree().link().rate.0);
    (0..count).map(rate).collect()
}

/// No call ended or began since the last look.
fn calls_stay_in_sight(w: &mut World) {
    let ended = |e: &&perhop_flows::FlowEvent| !matches!(e.kind, perhop_flows::FlowEventKind::Quality { .. });
    let lost = w.router.flow_events.iter().find(ended);
    assert!(lost.is_none(), "a call was lost from sight: {lost:?}");
    w.router.flow_events.clear();
}

/// Everything leaves, and the books are closed.
fn finish(w: &mut World, story: &mut Story, tally: &mut Tally, capacity: &Capacity) {
    w.collect(false);
    capacity.check(w);
    w.router.run_for(Duration::from_secs(120));
    w.note_moves();
    w.collect(false);
    story.read(w, None);
    story.count(w);
    story.end();
    says_what_it_is(w);
    w.router.worker().check_conservation().expect("books balance");
    calls_stay_in_sight(w);
    for (i, f) in w.flows.iter().enumerate() {
        let kind = w.group(i).kind;
        let known = f.received + f.policed;
        assert_eq!(
            (f.outstanding(), known),
            (0, u64::from(f.sent)),
            "flow {i} of {:?} lost packets",
            w.group(i)
        );
        assert!(matches!(kind, GroupKind::Policed | GroupKind::Metered) || f.policed == 0);
        // A call moved once, when it was recognised.
        let most = [0, 1][usize::from(kind == GroupKind::Media)];
        assert!(kind == GroupKind::Churn || f.moves() <= most, "flow {i} of {:?} moved", w.group(i));
        assert!(f.episodes() <= f.moves());
        if kind == GroupKind::Churn {
            tally.moves += f.moves() as u64;
            tally.episodes += f.episodes() as u64;
        }
        tally.policed += f.policed;
        tally.packets += f.received;
    }
    (tally.expired, tally.reverted, tally.drained) = (story.expired, story.reverted, story.drained);
    w.router.pool().flush_thread_cache();
    let pool = w.router.pool().counters();
    assert_eq!((pool.in_depot, pool.leaked), (pool.capacity, 0), "every buffer came home");
}
