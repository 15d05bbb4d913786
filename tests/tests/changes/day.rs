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
/// From which hours on what is allocated may grow by how many bytes besides answers kept by contract. What one of these takes is
/// only known from above, so until there are as many as there can be, in about twelve hours, a leak of half of that is not
/// seen; then one of 13 bytes a change is.
const GROWTH: [(u32, i64); 2] = [(3, 4 << 20), (15, 4 << 20)];

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
    let mut day = Day::new(&w);
    let pause = |_: &mut World| Duration::from_nanos(1_000_000_000 / u64::from(CHANGES));
    let tally = changes_in(w, seconds * CHANGES, pause, |w, n| day.look(w, n + 1));
    assert!(tally.packets >= 200 * u64::from(seconds), "{tally:?}");
    println!("{seconds} s: {tally:?}");
    if day.before.len() < GROWTH.len() {
        println!(
            "memory was compared with that of {} of {GROWTH:?} (hour, bytes more): the run was too short",
            day.before.len()
        );
    }
}

/// What is looked at again and again.
struct Day {
    began: Instant,
    /// Bits of steady groups at the beginning.
    bits: Vec<u64>,
    /// Bytes allocated after the hours of [`GROWTH`].
    before: Vec<i64>,
}

impl Day {
    fn new(w: &World) -> Self {
        Self { began: w.now(), bits: w.groups.iter().map(counted).collect(), before: Vec::new() }
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
        if changes.is_multiple_of(3_600 * CHANGES) {
            // Of this thread, which is all there is of the router. Not of the process, whose allocator keeps holes.
            let kept = w.router.control().kept_bytes(&Owner::File).0 as i64;
            let allocations = perhop_bench::allocations();
            assert!(allocations.count > 0, "nothing counts what this thread allocates");
            let now = allocations.bytes - kept;
            let hour = changes / CHANGES / 3_600;
            let (besides, kept) = (now >> 10, kept >> 10);
            println!("{hour} h: drift {drift} ppm, {sizes:?}, {besides} KiB besides {kept} KiB of answers");
            if GROWTH.get(self.before.len()).is_some_and(|(from, _)| hour == *from) {
                self.before.push(now);
            }
            for ((from, most), before) in GROWTH.iter().zip(&self.before) {
                assert!(now <= before + most, "{before} bytes after {from} h, {now} now");
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
