//! Against an exact WF²Q+ in rational numbers, and the bounds of the paper.

use super::*;
use crate::testbed::Line;
use perhop_units::Duration;
use proptest::prelude::*;
use std::collections::{BinaryHeap, VecDeque};

/// The largest frame of these tests.
const FRAME: u64 = 1500;

/// WF²Q+ with exact tags: two heaps, tags in bytes times the product of all weights.
struct Exact {
    weights: Vec<u128>,
    sum: u128,
    product: u128,
    virtual_time: u128,
    start: Vec<u128>,
    finish: Vec<u128>,
    /// Smallest first: tag, leaf.
    waiting: BinaryHeap<std::cmp::Reverse<(u128, usize)>>,
    eligible: BinaryHeap<std::cmp::Reverse<(u128, usize)>>,
}

impl Exact {
    fn new(weights: &[u32]) -> Self {
        let weights: Vec<u128> = weights.iter().map(|w| u128::from(*w)).collect();
        Self {
            sum: weights.iter().sum(),
            product: weights.iter().product(),
            virtual_time: 0,
            start: vec![0; weights.len()],
            finish: vec![0; weights.len()],
            weights,
            waiting: BinaryHeap::new(),
            eligible: BinaryHeap::new(),
        }
    }

    fn head(&mut self, leaf: usize, start: u128, len: u64) {
        self.start[leaf] = start;
        self.finish[leaf] = start + u128::from(len) * self.sum * self.product / self.weights[leaf];
        self.waiting.push(std::cmp::Reverse((start, leaf)));
    }

    fn became_active(&mut self, leaf: usize, len: u64) {
        let start = self.finish[leaf].max(self.virtual_time);
        self.head(leaf, start, len);
    }

    fn choose(&mut self) -> Option<usize> {
        if self.eligible.is_empty() {
            self.virtual_time = self.virtual_time.max(self.waiting.peek()?.0.0);
        }
        while self.waiting.peek().is_some_and(|first| first.0.0 <= self.virtual_time) {
            let leaf = self.waiting.pop().expect("there is one").0.1;
            self.eligible.push(std::cmp::Reverse((self.finish[leaf], leaf)));
        }
        self.eligible.peek().map(|first| first.0.1)
    }

    fn sent(&mut self, len: u64, next: Option<u64>) {
        let leaf = self.eligible.pop().expect("it was chosen").0.1;
        self.virtual_time += u128::from(len) * self.product;
        if let Some(next) = next {
            self.head(leaf, self.finish[leaf], next);
        }
    }
}

/// Both with the same arrivals; what each has sent of each leaf, after each packet.
struct Both {
    exact: Exact,
    ours: Wf2qTags,
    queues: [Vec<VecDeque<u64>>; 2],
    sent: [Vec<u64>; 2],
}

impl Both {
    fn new(weights: &[u32]) -> Self {
        let queues = || vec![VecDeque::new(); weights.len()];
        Self {
            exact: Exact::new(weights),
            ours: Wf2qTags::new(weights, FRAME).about_to_wrap(20 * FRAME),
            queues: [queues(), queues()],
            sent: [vec![0; weights.len()], vec![0; weights.len()]],
        }
    }

    fn arrives(&mut self, leaf: usize, len: u64) {
        if self.queues[0][leaf].is_empty() {
            self.exact.became_active(leaf, len);
        }
        if self.queues[1][leaf].is_empty() {
            self.ours.became_active(leaf, len);
        }
        self.queues.iter_mut().for_each(|q| q[leaf].push_back(len));
    }

    /// Each sends one packet; the leaf and length that is ours.
    fn sends(&mut self) -> Option<(usize, u64)> {
        if let Some(leaf) = self.exact.choose() {
            let len = self.queues[0][leaf].pop_front().expect("it has one");
            self.sent[0][leaf] += len;
            let next = self.queues[0][leaf].front().copied();
            self.exact.sent(len, next);
        }
        let leaf = self.ours.choose()?;
        assert_eq!(self.ours.choose(), Some(leaf), "looking changes nothing");
        let len = self.queues[1][leaf].pop_front().expect("it has one");
        self.sent[1][leaf] += len;
        let next = self.queues[1][leaf].front().copied();
        self.ours.sent(leaf, len, next);
        Some((leaf, len))
    }
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![1u32..20, 1u32..1000], 1..7)
}

/// Leaf, length, packets sent before the next arrival.
fn arrivals() -> impl Strategy<Value = Vec<(usize, u64, u8)>> {
    prop::collection::vec((0usize..6, 60u64..=FRAME, 0u8..3), 50..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// In bytes of each leaf at any time, where as many packets were sent.
    #[test]
    fn it_is_the_exact_one_within_a_packet_and_a_bucket(weights in weights(), arrivals in arrivals()) {
        let mut both = Both::new(&weights);
        let sum: u64 = weights.iter().map(|w| u64::from(*w)).sum();
        let quantum = both.ours.quantum_bytes();
        for (leaf, len, sends) in arrivals {
            both.arrives(leaf % weights.len(), len);
            for _ in 0..sends {
                both.sends();
            }
            for (n, weight) in weights.iter().enumerate() {
                let apart = both.sent[0][n].abs_diff(both.sent[1][n]);
                let bound = 2 * FRAME + 4 * (quantum * u64::from(*weight)).div_ceil(sum);
                prop_assert!(apart <= bound, "leaf {}: {} B apart, {} allowed", n, apart, bound);
            }
        }
        while both.sends().is_some() {}
        prop_assert_eq!(&both.sent[0], &both.sent[1]);
    }

    /// The worst-case fair index: over every interval in which a leaf always has packets.
    #[test]
    fn nobody_is_behind_or_ahead_by_more_than_the_bound(weights in weights(), arrivals in arrivals()) {
        let mut both = Both::new(&weights);
        let sum: u128 = weights.iter().map(|w| u128::from(*w)).sum();
        let quantum = u128::from(both.ours.quantum_bytes());
        // For each leaf, since it has packets: bytes sent in all and by it, times the sum of weights.
        let mut lag = vec![(0i128, 0i128, 0i128); weights.len()];
        for (leaf, len, sends) in arrivals {
            both.arrives(leaf % weights.len(), len);
            for _ in 0..sends {
                let before: Vec<bool> = both.queues[1].iter().map(|q| !q.is_empty()).collect();
                let Some((sender, len)) = both.sends() else { continue };
                let all = before.iter().all(|has| *has);
                for (n, weight) in weights.iter().enumerate() {
                    let (behind, least, most) = &mut lag[n];
                    if !before[n] || both.queues[1][n].is_empty() {
                        (*behind, *least, *most) = (0, 0, 0);
                        continue;
                    }
                    *behind += (u128::from(len) * u128::from(*weight)) as i128;
                    if sender == n {
                        *behind -= (u128::from(len) * sum) as i128;
                    }
                    if !all {
                        // What others leave is not held against it.
                        *most = *behind;
                    }
                    // The worst interval that ends here begins where the leaf was best, or worst, off.
                    let quanta = (4 * quantum * u128::from(*weight)) as i128;
                    let bound = (2 * u128::from(FRAME) * sum) as i128 + quanta;
                    prop_assert!(*behind - *least <= bound, "leaf {} is behind", n);
                    prop_assert!(*most - *behind <= bound, "leaf {} is ahead", n);
                    (*least, *most) = ((*least).min(*behind), (*most).max(*behind));
                }
            }
        }
    }
}

/// One heavy leaf and ten light ones, the example of the papers: fair queueing without eligibility sends ten packets of
/// the heavy leaf in a row, this alternates.
#[test]
fn a_heavy_class_does_not_run_ahead() {
    let mut tags = Wf2qTags::new(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 1000);
    (0..11).for_each(|leaf| tags.became_active(leaf, 1000));
    let mut heavy = vec![];
    for n in 0..20 {
        let leaf = tags.choose().expect("all have packets");
        if leaf == 0 {
            heavy.push(n);
        }
        tags.sent(leaf, 1000, (leaf == 0).then_some(1000));
    }
    // All light packets would be finished when the last heavy one is: any order of these will do.
    assert_eq!(heavy[..9], [0, 2, 4, 6, 8, 10, 12, 14, 16]);
}

#[test]
fn a_light_class_is_not_behind_by_its_history() {
    let mut line = Line::new("Wf2q", "x y, weights = 1 4, rate = 8 Mbit/s, limit = 1000 packets", 1);
    for _ in 0..100 {
        line.send("x", 1000);
    }
    line.run_for(Duration::from_millis(50));
    for _ in 0..100 {
        line.send("y", 1000);
    }
    line.run_for(Duration::from_millis(200));
    let (x, y) = (line.class("x"), line.class("y"));
    let classes: Vec<_> = line.gone().iter().map(|p| p.class).collect();
    assert_eq!(classes.len(), 200);
    // Alone it used all; that is not held against it, nor is y's rest made good: one of five from now on.
    for five in classes[52..172].chunks(5) {
        let of = |class| five.iter().filter(|c| **c == class).count();
        assert_eq!((of(x), of(y)), (1, 4), "{classes:?}");
    }
    let times: Vec<_> = line.gone().iter().map(|p| p.at.0).collect();
    assert!(times.windows(2).all(|w| w[1] - w[0] == 1_000_000), "the line never idles");
}

#[test]
fn state_moves_and_goes_on() {
    let text = "x y, weights = 1 4, rate = 8 Mbit/s, limit = 1000 packets";
    let line = {
        let mut line = Line::new("Wf2q", text, 1);
        (0..50).for_each(|_| line.send("x", 1000));
        line.run_for(Duration::from_millis(10));
        line.replace("Wf2q", text);
        line.run_for(Duration::from_millis(100));
        line
    };
    assert_eq!(line.gone().len(), 50);
}
