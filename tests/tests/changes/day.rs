//! A day of changes: nothing is lost, nothing leaks, and no rate drifts.
//!
//! The rates are those of classes and profiles that no change names, on ports whose rates, trees and graphs change all
//! the time: what a change did to tokens, debts or clocks of others would add up.

use super::changes_in;
use super::world::{Draw, Group, GroupKind, World};
use perhop_model::Owner;
use perhop_packet::PortId;
use perhop_units::{Duration, Instant};

/// Changes in a second.
const CHANGES: u32 = 10;
/// Changes between two looks at memory and rates.
const LOOK_EVERY: u32 = 600;
/// Largest deviation of a rate: one in this many.
const DRIFT: u64 = 1_000;
/// Bits that a bucket may have held back or in advance at both ends of the time: bursts of the classes and profiles here,
/// and a frame.
const BURST: u64 = 2 * (3_100 + 1_600) * 8;
/// Most classes in the trees of all ports (those that drain included), elements of the graph, and objects.
const MOST: [usize; 3] = [100, 100, 400];
/// From which hour on process memory may grow by how much besides answers kept by contract: less than 40 bytes a change.
const GROWTH: [(u32, u64); 2] = [(1, 32 << 20), (12, 16 << 20)];

/// `PERHOP_SOAK_HOURS` hours of virtual time; without it two minutes.
#[test]
fn soak_day_of_changes_leaves_no_trace_in_rates_or_memory() {
    let hours: Option<u32> = std::env::var("PERHOP_SOAK_HOURS").ok().and_then(|s| s.parse().ok());
    let seconds = hours.map_or(120, |hours| hours * 3_600);
    // Long packets in few groups: as few packets a second as keep every kind of group and of change.
    let draw = Draw {
        rates: vec![2_000_000; 3],
        groups: 12,
        flows: 60,
        longest: 1_200,
        bridge: false,
        steady: true,
        ..Draw::new(24)
    };
    let w = World::new(draw);
    let mut day = Day::new(&w, hours.is_some());
    let pause = |_: &mut World| Duration::from_nanos(1_000_000_000 / u64::from(CHANGES));
    let tally = changes_in(w, seconds * CHANGES, pause, |w, n| day.look(w, n + 1));
    assert!(tally.packets >= 200 * u64::from(seconds), "{tally:?}");
    println!("{seconds} s: {tally:?}");
}

/// What is looked at again and again.
struct Day {
    began: Instant,
    /// Bits of steady groups at the beginning.
    bits: Vec<u64>,
    /// Whether the process has nothing else to do, so that its memory is that of this test.
    alone: bool,
    /// Bytes of the process after the hours that later ones are compared with.
    before: Vec<u64>,
}

impl Day {
    fn new(w: &World, alone: bool) -> Self {
        Self { began: w.now(), bits: w.groups.iter().map(counted).collect(), alone, before: Vec::new() }
    }

    fn look(&mut self, w: &mut World, changes: u32) {
        if !changes.is_multiple_of(LOOK_EVERY) {
            return;
        }
        w.collect(true);
        holds_what_queues_hold(w);
        let drift = self.rates(w);
        let sizes = sizes(w);
        assert!(sizes.iter().zip(MOST).all(|(size, most)| *size <= most), "{sizes:?} of {MOST:?}");
        if changes.is_multiple_of(3_600 * CHANGES) && self.alone {
            let (all, kept) = (resident(), w.router.control().kept_bytes(&Owner::File).0 as u64);
            println!(
                "{} h: drift {drift} ppm, {sizes:?}, {} MiB besides {} MiB of answers",
                changes / CHANGES / 3_600,
                all.saturating_sub(kept) >> 20,
                kept >> 20
            );
            let now = all.saturating_sub(kept);
            if GROWTH.get(self.before.len()).is_some_and(|(hour, _)| changes == hour * 3_600 * CHANGES) {
                self.before.push(now);
            }
            for ((hour, most), before) in GROWTH.iter().zip(&self.before) {
                assert!(now <= before + most, "{before} bytes after {hour} h, {now} now");
            }
        }
    }

    /// Rates since the beginning are what they should be; the largest deviation in parts of a million.
    fn rates(&self, w: &World) -> u64 {
        let ns = u128::from(w.now().since(self.began).as_nanos());
        let mut worst = 0;
        for (g, (group, before)) in w.groups.iter().zip(&self.bits).enumerate() {
            let rate = match group.kind {
                GroupKind::Shaped => group.guarantee,
                GroupKind::Metered => group.metered(),
                _ => continue,
            };
            let due = (u128::from(rate) * ns / 1_000_000_000) as u64;
            let off = (counted(group) - before).abs_diff(due);
            assert!(
                off <= due / DRIFT + BURST,
                "group {g} of {group:?}: {off} bits of {due} since the beginning"
            );
            worst = worst.max(off * 1_000_000 / due);
        }
        worst
    }
}

/// What a steady group is known by.
fn counted(group: &Group) -> u64 {
    if group.kind == GroupKind::Metered { group.passed } else { group.carried }
}

/// Buffers in use are those of packets that went in and have not come out.
fn holds_what_queues_hold(w: &World) {
    let pool = w.router.pool();
    pool.flush_thread_cache();
    let (counters, inside) = (pool.counters(), w.flows.iter().map(|f| f.outstanding() as u64).sum::<u64>());
    assert_eq!((counters.capacity - counters.in_depot, counters.leaked), (inside, 0));
}

fn sizes(w: &mut World) -> [usize; 3] {
    let ports = w.draw.rates.len();
    let objects = w.router.control().objects().iter().count();
    let worker = w.router.worker();
    let classes = |p: usize| worker.egress(PortId(p as u16)).map_or(0, |e| e.tree().iter().count());
    let classes = (0..ports).map(classes).sum();
    [classes, worker.driver().ids().count(), objects]
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("the size of a process");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1_024
}
