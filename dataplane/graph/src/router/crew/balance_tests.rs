//! The decisions alone, against every placement there could be.

use super::*;
use proptest::prelude::*;

/// A balancer that has seen this load, in packets an interval, for long.
fn seen(workers: usize, loads: &[u64]) -> Balancer {
    let placement = Placement::new(workers, &[], 1).with_adaptive(true);
    let mut balancer = Balancer::new(&placement, Instant::ZERO).unwrap();
    balancer.load.iter_mut().zip(loads).for_each(|(load, packets)| *load = 2 * packets);
    balancer
}

/// The load of the most loaded worker after the moves, in packets an interval.
fn most_after(balancer: &Balancer, moves: &[BucketMove]) -> u64 {
    let mut loads = balancer.loads();
    for m in moves {
        loads[m.from] -= balancer.load[m.bucket];
        loads[m.to] += balancer.load[m.bucket];
    }
    loads.into_iter().max().unwrap_or(0) / 2
}

proptest! {
    /// Moves never make it worse, each goes from who has it, and what is left is not much more than the best that any
    /// placement could do, where that is known: an even part, or the largest bucket.
    #[test]
    fn moves_come_near_the_best(
        workers in 2usize..6,
        loads in prop::collection::vec(prop_oneof![4 => 0u64..100, 1 => 0u64..5_000], BUCKETS),
    ) {
        let balancer = seen(workers, &loads);
        let before = most_after(&balancer, &[]);
        let moves = balancer.choose();
        let after = most_after(&balancer, &moves);
        prop_assert!(after <= before);
        for m in &moves {
            prop_assert_eq!(balancer.placement.map().worker(m.bucket), m.from);
            prop_assert_ne!(m.from, m.to);
        }
        let (sum, largest) = (loads.iter().sum::<u64>(), loads.iter().max().copied().unwrap_or(0));
        let best = (sum / workers as u64).max(largest);
        // As many moves as one stop makes may not suffice.
        if moves.len() < MOST_MOVES {
            prop_assert!(after <= best + best / 4, "{} of {} with {} moves", after, best, moves.len());
        }
    }
}

#[test]
fn a_bucket_that_is_too_much_for_one_worker_keeps_it_to_itself() {
    let mut loads = vec![10; BUCKETS];
    loads[0] = 100_000;
    let balancer = seen(2, &loads);
    let moves = balancer.choose();
    assert!(moves.iter().all(|m| m.bucket != 0 && (m.from, m.to) == (0, 1)));
    assert_eq!(moves.len(), MOST_MOVES);
}

#[test]
fn it_takes_two_looks_and_what_went_rests() {
    let placement = Placement::new(2, &[], 1).with_adaptive(true);
    let mut balancer = Balancer::new(&placement, Instant::ZERO).unwrap();
    let counts = balancer.counts.clone();
    let mut now = Instant::ZERO;
    let mut look = |balancer: &mut Balancer| {
        // All in four buckets of worker 0.
        (0..4_000).for_each(|n| counts.count(0, n % 4 * 2));
        now += INTERVAL;
        assert!(balancer.look(now - Duration(1)).is_none(), "it is not time");
        balancer.look(now).is_some()
    };
    assert_eq!([look(&mut balancer), look(&mut balancer)], [false, true]);
    // Nobody makes the moves, so nothing else is asked for.
    assert!((0..20).all(|_| !look(&mut balancer)));
    assert_eq!((balancer.report().stops, balancer.report().moves), (1, 0));
}
