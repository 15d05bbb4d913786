//! Loads that change and loads that do not: what a balancer moves, seen from outside by who has which bucket.

use super::moves::assert_known_once;
use super::rules::{a_class_each, flows};
use super::world::{Flow, World};
use perhop_graph::router::Balancer;
use perhop_units::Duration;
use rand::RngExt;

/// Buckets.
const BUCKETS: usize = 256;
/// Rounds of packets between two looks.
const ROUNDS: u32 = 5;

/// Two workers, four ports and the one who balances them.
struct Bench {
    world: World,
    balancer: Balancer,
    owners: Vec<usize>,
    /// Changes of owner of each bucket.
    changes: Vec<u32>,
    intervals: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut world = World::adaptive(2, &[0; 4], seed);
        world.commit(a_class_each(4));
        let balancer = Balancer::new(&world.placement, world.now).expect("it is adaptive");
        let owners = owners(&world);
        Self { world, balancer, owners, changes: vec![0; BUCKETS], intervals: 0 }
    }

    /// Packets until the next look, which may begin a move while the next ones come in; buckets that have changed
    /// their owner since the look before.
    fn interval(&mut self, packets: &mut dyn FnMut(&mut World, Flow) -> u32, flows: &[Flow]) -> u32 {
        for _ in 0..ROUNDS {
            for flow in flows {
                let packets = packets(&mut self.world, *flow);
                self.world.arrive_all(*flow, packets);
            }
            let next = self.world.now + Duration::from_millis(20);
            self.world.run_until(next);
            self.world.balance(&mut self.balancer);
        }
        let now = owners(&self.world);
        let mut changed = 0;
        for (bucket, (before, now)) in self.owners.iter().zip(&now).enumerate() {
            self.changes[bucket] += u32::from(before != now);
            changed += u32::from(before != now);
        }
        self.owners = now;
        self.intervals += 1;
        changed
    }

    /// Nothing is lost, made twice, overtaken or forgotten, and every move is in the books.
    fn assert_whole(mut self, seed: u64) {
        // A look that finds the last moves done; what comes meanwhile is too little for others.
        for _ in 0..2 {
            self.world.run_until(self.world.now + Duration::from_millis(100));
            self.world.balance(&mut self.balancer);
            self.world.settle();
        }
        self.interval(&mut |_, _| 0, &[]);
        assert_eq!(self.world.drops(), Default::default(), "seed {seed}");
        self.world.assert_conserved();
        self.world.assert_in_order();
        assert_known_once(&self.world);
        let came = self.world.packets();
        let (flows, packets) = (came.len(), came.values().map(|n| *n as usize).sum::<usize>());
        assert_eq!(self.world.sent.len(), packets, "seed {seed}: each has left once");
        assert_eq!(self.world.counter("flows", "created"), flows as u64, "seed {seed}");
        let gone = ["connections_handed_over", "connections_taken_over"];
        let gone = gone.map(|counter| self.world.counter("flows", counter));
        let report = self.balancer.report();
        assert_eq!(gone, [report.connections; 2], "seed {seed}");
        assert!(report.stops * 2 <= self.intervals, "seed {seed}: {} stops", report.stops);
        assert_eq!(report.moves, u64::from(self.changes.iter().sum::<u32>()), "seed {seed}");
    }
}

fn owners(world: &World) -> Vec<usize> {
    (0..BUCKETS).map(|bucket| world.placement.map().worker(bucket)).collect()
}

/// The busiest worker's packets in a hundred of all, for packets of each flow.
fn busiest(bench: &Bench, flows: &[Flow], packets: &dyn Fn(&Flow) -> u32) -> u32 {
    let mut loads = [0; 2];
    flows.iter().for_each(|flow| loads[bench.owners[bench.world.bucket(*flow)]] += packets(flow));
    loads.into_iter().max().unwrap_or(0) * 100 / loads.into_iter().sum::<u32>()
}

#[test]
fn a_load_that_wanders_is_followed_and_no_packet_is_lost_or_overtaken() {
    for seed in 0..2 {
        let mut bench = Bench::new(seed);
        let all = flows(&mut bench.world, 4, 70);
        for phase in 0..4 {
            let heavy: Vec<u32> = all
                .iter()
                .filter(|flow| bench.owners[bench.world.bucket(**flow)] == phase % 2)
                .map(|flow| flow.number)
                .collect();
            let packets = |flow: &Flow| if heavy.contains(&flow.number) { 6 } else { 1 };
            let before = busiest(&bench, &all, &packets);
            let changed: Vec<u32> =
                (0..20).map(|_| bench.interval(&mut |_, flow| packets(&flow), &all)).collect();
            let after = busiest(&bench, &all, &packets);
            let what = format!("seed {seed} phase {phase}: {before} to {after} by {changed:?}");
            // All that is heavy is in one place, then about half of it: 1/16 beyond its part is left alone.
            assert!(before >= 80 && after <= 54, "{what}");
            assert!(changed.iter().all(|n| *n <= 64) && changed[12..].iter().all(|n| *n == 0), "{what}");
        }
        bench.assert_whole(seed);
    }
}

#[test]
fn one_of_two_hot_buckets_leaves_their_worker_once_and_does_not_come_back() {
    let mut bench = Bench::new(7);
    let all = flows(&mut bench.world, 4, 80);
    let first = bench.world.bucket(all[0]);
    let mine = |bench: &Bench, flow: &Flow| bench.owners[bench.world.bucket(*flow)] == bench.owners[first];
    let second =
        all.iter().find(|f| bench.world.bucket(**f) != first && mine(&bench, f)).expect("one of many");
    let hot = [all[0].number, second.number];
    let buckets = [first, bench.world.bucket(*second)];
    let mut packets = |_: &mut World, flow: Flow| if hot.contains(&flow.number) { 100 } else { 1 };
    (0..40).for_each(|_| {
        bench.interval(&mut packets, &all);
    });
    let [one, other] = buckets.map(|bucket| bench.owners[bucket]);
    assert_ne!(one, other);
    assert_eq!(buckets.iter().map(|bucket| bench.changes[*bucket]).sum::<u32>(), 1, "{:?}", bench.changes);
    bench.assert_whole(7);
}

#[test]
fn a_bucket_that_is_more_than_its_part_stays_and_the_others_leave_it_once() {
    let mut bench = Bench::new(3);
    let all = flows(&mut bench.world, 4, 80);
    let hot = bench.world.bucket(all[0]);
    let elephant = all[0].number;
    let mut packets = |_: &mut World, flow: Flow| if flow.number == elephant { 300 } else { 1 };
    (0..40).for_each(|_| {
        bench.interval(&mut packets, &all);
    });
    assert_eq!(bench.changes[hot], 0);
    let owner = bench.owners[hot];
    let stay = all.iter().filter(|f| bench.world.bucket(**f) != hot);
    assert!(stay.into_iter().all(|flow| bench.owners[bench.world.bucket(*flow)] != owner));
    assert!(bench.changes.iter().all(|n| *n <= 1), "{:?}", bench.changes);
    bench.assert_whole(3);
}

/// Packets of each flow are drawn from the same numbers all the time: what differs from one look to the next is chance, and chance
/// moves next to nothing.
#[test]
fn a_steady_load_with_chance_in_it_moves_little() {
    for seed in 0..2 {
        let mut bench = Bench::new(seed);
        let all = flows(&mut bench.world, 4, 100);
        let mut drawn = |world: &mut World, _: Flow| world.rng.random_range(0..6);
        // What the hash has left uneven is evened out first.
        (0..20).for_each(|_| {
            bench.interval(&mut drawn, &all);
        });
        let changed: Vec<u32> = (0..40).map(|_| bench.interval(&mut drawn, &all)).collect();
        let (stops, total) = (changed.iter().filter(|n| **n > 0).count(), changed.iter().sum::<u32>());
        assert!(stops <= 3 && total <= 12, "seed {seed}: {changed:?}");
        bench.assert_whole(seed);
    }
}
