//! # Synopsis
//! [`Drr`] shares a line between classes in proportion to their weights, in bytes, at constant cost.
//!
//! # Ports
//! A discipline; as the element `Drr`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! As [`super::bands`], and
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `weights` | numbers, by spaces | | 1 each | one a class, 1 … 1,000 |
//! | `frame` | size | byte | 1514 | 64 … 65,536 |
//!
//! # Behaviour
//! Deficit round robin: in its turn a class earns its quantum and sends while its next packet is covered. The smallest
//! weight's quantum is one largest frame, so every turn sends. A class that runs empty forfeits what it has earned.
//!
//! # Counters
//! Those of [`super::bands`].
//!
//! # Invariants
//! Between continuously backlogged classes, bytes sent divided by weight differ by less than one quantum of weight 1 and
//! one frame each. Order is kept inside a class.
//!
//! # Example
//! `Drr(web bulk, weights = 3 1, rate = 10 Mbit/s)`
//!
//! # Source
//! Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", ACM SIGCOMM 1995.

use super::bands::{self, Bands, BandsState};
use crate::plumbing::adapter::{as_any, held_in_bands};
use perhop_element::{Budget, Cx, Delta, Discipline, ElementState, ElementType, Head, PortCount, Reader};
use perhop_packet::Batch;
use perhop_units::Bytes;
use std::collections::VecDeque;

/// The discipline.
pub struct Drr {
    bands: Bands,
    quanta: Vec<u64>,
    deficits: Vec<u64>,
    /// Children that may hold packets, the one whose turn it is first.
    active: VecDeque<usize>,
    is_active: Vec<bool>,
    /// Whether the first has earned its quantum in this turn.
    earned: bool,
    /// Packets count instead of bytes: weighted round robin.
    packets: bool,
}

impl Drr {
    /// Children with their weights; missing weights are 1. `frame` is the largest frame in bytes.
    pub fn new(bands: Bands, weights: &[u32], frame: u64) -> Self {
        let count = bands.len();
        let weight = |n: usize| u64::from(weights.get(n).copied().unwrap_or(1).max(1));
        let smallest = (0..count).map(weight).min().unwrap_or(1);
        let quanta = (0..count).map(|n| (weight(n) * frame).div_ceil(smallest)).collect();
        Self {
            bands,
            quanta,
            deficits: vec![0; count],
            active: VecDeque::with_capacity(count),
            is_active: vec![false; count],
            earned: false,
            packets: false,
        }
    }

    /// The same by packets, as [`super::wrr`] has it: in its turn a child sends as many as its weight.
    pub fn by_packets(bands: Bands, weights: &[u32]) -> Self {
        let drr = Self::new(bands, weights, 1);
        let quanta = (0..drr.quanta.len()).map(|n| u64::from(weights.get(n).copied().unwrap_or(1).max(1)));
        Self { quanta: quanta.collect(), packets: true, ..drr }
    }

    /// What a packet takes from the deficit.
    fn cost(&self, head: Head) -> u64 {
        if self.packets { 1 } else { u64::from(head.len) }
    }

    /// The child whose turn it is and its next packet, which its deficit covers.
    fn choose(&mut self, cx: &mut Cx<'_>) -> Option<(usize, Head)> {
        let mut waiting = 0;
        while waiting < self.active.len() {
            let band = *self.active.front()?;
            let Some(head) = self.bands.child(band).peek(cx) else {
                self.end_turn(band);
                self.deficits[band] = 0;
                if self.bands.child(band).held() == 0 {
                    self.active.pop_back();
                    self.is_active[band] = false;
                } else {
                    waiting += 1;
                }
                continue;
            };
            waiting = 0;
            if !self.earned {
                self.deficits[band] += self.quanta[band];
                self.earned = true;
            }
            if self.cost(head) <= self.deficits[band] {
                return Some((band, head));
            }
            self.end_turn(band);
        }
        None
    }

    fn end_turn(&mut self, band: usize) {
        self.active.pop_front();
        self.active.push_back(band);
        self.earned = false;
    }

    fn activate(active: &mut VecDeque<usize>, is_active: &mut [bool], band: usize) {
        if !std::mem::replace(&mut is_active[band], true) {
            active.push_back(band);
        }
    }
}

impl Discipline for Drr {
    fn type_name(&self) -> &'static str {
        if self.packets { "Wrr" } else { "Drr" }
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let (active, is_active) = (&mut self.active, &mut self.is_active);
        self.bands.enqueue(cx, batch, |band| Self::activate(active, is_active, band))
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        self.choose(cx).map(|(_, head)| head)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let mut sum = Delta::default();
        let mut bytes = 0;
        for _ in 0..budget.packets {
            let Some((band, head)) = self.choose(cx).filter(|_| bytes < budget.bytes) else { break };
            if self.bands.take(cx, band, Budget::ONE, out, &mut sum).packets == 0 {
                break;
            }
            self.deficits[band] -= self.cost(head);
            bytes += u64::from(head.len);
        }
        sum
    }

    held_in_bands!();

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        self.bands
            .import(*state.downcast::<BandsState>()?)
            .map_err(|state| Box::new(state) as ElementState)?;
        for band in 0..self.bands.len() {
            if self.bands.child(band).held() > 0 {
                Self::activate(&mut self.active, &mut self.is_active, band);
            }
        }
        Ok(())
    }

    as_any!();
}

pub(super) fn weights(r: &mut Reader<'_>, count: usize) -> Vec<u32> {
    let Some(text) = r.optional::<String>("weights", None) else { return vec![1; count] };
    let weights: Vec<u32> = text.split_whitespace().map(|w| w.parse().unwrap_or(0)).collect();
    if weights.len() != count || weights.iter().any(|w| !(1..=1000).contains(w)) {
        let allowed = Some(format!("{count} numbers from 1 to 1000"));
        r.fail("weights", format!("weights = {text} does not fit the classes"), allowed);
    }
    weights
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Drr",
    synopsis: "shares a line between classes by weight",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| {
        bands::build("Drr", args, cx, |r, bands| {
            let frame = r.optional_in("frame", None, Bytes(1514), Bytes(64)..=Bytes(65_536));
            let weights = weights(r, bands.len());
            Box::new(Drr::new(bands, &weights, frame.0))
        })
    },
    sample: |rng| {
        let (rate, weight) = (1 + rng.next_u32() % 50, 1 + rng.next_u32() % 20);
        format!("ef af41 be, weights = 1 {weight} 2, rate = {rate} Mbit/s, limit = 20 packets")
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use perhop_element::{BuildCx, Element};
    use perhop_packet::ClassId;
    use perhop_units::Duration;
    use proptest::prelude::*;

    fn make(text: &str) -> Bench {
        Bench::with_seed((TYPE.build)(&args(text), &mut BuildCx::default()).expect("valid"), 1, 1)
    }

    fn push(bench: &mut Bench, class: u32, frame_len: u16) {
        let mut packet = bench.packet(&udp(frame_len - 14));
        packet.meta_mut().class = ClassId(class);
        bench.push_packet(0, packet);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn backlogged_classes_share_within_one_quantum(
            weights in prop::array::uniform3(1u32..20),
            lens in prop::collection::vec((0u32..3, 60u16..1514), 300..600),
            millis in 1u64..60,
        ) {
            let [a, b, c] = weights;
            let mut bench = make(&format!("x y z, weights = {a} {b} {c}, rate = 10 Mbit/s, limit = 1000 packets"));
            for (class, len) in &lens {
                push(&mut bench, *class, *len);
            }
            // All three are backlogged until the first has sent everything: look at the prefix before that.
            bench.run_for(Duration::from_millis(millis));
            let (mut bytes, mut left) = ([0u64; 3], [0usize; 3]);
            for (class, _) in &lens {
                left[*class as usize] += 1;
            }
            for (n, (_, packet)) in bench.sink(0).arrived.iter().enumerate() {
                let class = packet.meta().class.index();
                left[class] -= 1;
                if left[class] == 0 {
                    break;
                }
                // The first packet left before the others were there.
                if n > 0 {
                    bytes[class] += packet.len() as u64;
                }
            }
            let smallest = u64::from(*weights.iter().min().expect("three"));
            for i in 0..3 {
                for j in 0..3 {
                    let (wi, wj) = (u64::from(weights[i]), u64::from(weights[j]));
                    // |Si/wi − Sj/wj| ≤ quantum of weight 1, plus a frame each.
                    let apart = (bytes[i] * wj).abs_diff(bytes[j] * wi);
                    let bound = (1514 * wi * wj).div_ceil(smallest) + 2 * 1514 * (wi + wj);
                    prop_assert!(apart <= bound, "{:?} {:?}", bytes, weights);
                }
            }
        }
    }

    #[test]
    fn a_class_that_rests_forfeits_and_the_line_never_idles() {
        let mut bench = make("x y, weights = 1 1000, rate = 8 Mbit/s, limit = 100 packets");
        for _ in 0..50 {
            push(&mut bench, 0, 1000);
        }
        bench.run_for(Duration::from_millis(20));
        push(&mut bench, 1, 1000);
        bench.run_for(Duration::from_millis(40));
        assert_eq!(bench.arrived(0).len(), 51);
        let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0).collect();
        assert!(times.windows(2).all(|w| w[1] - w[0] == 1_000_000));
    }

    #[test]
    fn weights_must_fit_the_classes() {
        for text in ["x y, weights = 1", "x, weights = 0", "x, weights = 1001"] {
            let errors = (TYPE.build)(&args(text), &mut BuildCx::default()).err().expect("invalid");
            assert_eq!(errors[0].key.as_deref(), Some("weights"), "{text}");
        }
    }

    #[test]
    fn state_moves_only_between_equal_sets_of_bands() {
        let mut bench = make("x y, rate = 8 Mbit/s, limit = 100 packets");
        for class in [0, 1, 1, 0] {
            push(&mut bench, class, 1000);
        }
        let pump: &mut super::super::Pump = bench.element();
        let state = pump.export_state().expect("it has state");
        let build = |text| (TYPE.build)(&args(text), &mut BuildCx::default()).expect("valid");
        let state = build("x y z").import_state(state).expect_err("three bands");
        let mut next = build("x y, rate = 8 Mbit/s, limit = 100 packets");
        assert!(next.import_state(state).is_ok());
        assert_eq!(next.held(), 3);
        let mut out = Batch::new();
        next.drain(&mut out);
        assert_eq!((out.len(), next.held()), (3, 0));
        out.release_all();
    }
}
