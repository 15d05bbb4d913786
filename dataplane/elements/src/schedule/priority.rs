//! # Synopsis
//! [`Priority`] serves a class only when no class before it has a packet.
//!
//! # Ports
//! A discipline; as the element `Priority`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! As [`super::bands`]: `classes` in the order in which they are served.
//!
//! # Behaviour
//! Strict priority without preemption. A class that sends without pause starves all behind it: police it before.
//!
//! # Counters
//! Those of [`super::bands`].
//!
//! # Invariants
//! A packet leaves only when every class before its own has none that may leave. Order is kept inside a class.
//!
//! # Example
//! `Priority(ef af41 be, rate = 2 Mbit/s, limit = 100 packets)`
//!
//! # Source
//! RFC 3246 §2 and its appendix: priority queueing as an implementation of expedited forwarding.

use super::bands::{self, Bands, BandsState};
use crate::plumbing::adapter::{as_any, held_in_bands};
use perhop_element::{Budget, Cx, Delta, Discipline, ElementState, ElementType, Head, PortCount};
use perhop_packet::Batch;

/// The discipline.
pub struct Priority {
    bands: Bands,
}

impl Priority {
    /// Children in the order in which they are served.
    pub fn new(bands: Bands) -> Self {
        Self { bands }
    }

    fn choose(&mut self, cx: &mut Cx<'_>) -> Option<(usize, Head)> {
        (0..self.bands.len()).find_map(|band| self.bands.child(band).peek(cx).map(|head| (band, head)))
    }
}

impl Discipline for Priority {
    fn type_name(&self) -> &'static str {
        "Priority"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        self.bands.enqueue(cx, batch, |_| {})
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        self.choose(cx).map(|(_, head)| head)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let mut sum = Delta::default();
        let mut left = budget;
        for band in 0..self.bands.len() {
            // Nothing comes in between, so what one class gives at a time is what it would give one by one.
            let given = self.bands.take(cx, band, left, out, &mut sum);
            left.packets -= given.packets;
            left.bytes = left.bytes.saturating_sub(given.bytes);
            if left.packets == 0 || left.bytes == 0 {
                break;
            }
        }
        sum
    }

    held_in_bands!();

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        self.bands.import(*state.downcast::<BandsState>()?).map_err(|state| Box::new(state) as _)
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Priority",
    synopsis: "serves classes in strict order",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| bands::build("Priority", args, cx, |_, bands| Box::new(Priority::new(bands))),
    sample: |rng| {
        let (rate, limit) = (1 + rng.next_u32() % 50, 1 + rng.next_u32() % 50);
        format!("ef af41 be, rate = {rate} Mbit/s, limit = {limit} packets")
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use perhop_packet::ClassId;
    use perhop_units::Duration;

    #[test]
    fn earlier_classes_go_first_and_strangers_go_last() {
        let mut cx = BuildCx::default();
        let text = "ef be, rate = 8 Mbit/s, limit = 10 packets";
        let mut bench = Bench::with_seed((TYPE.build)(&args(text), &mut cx).expect("valid"), 1, 1);
        let (ef, be) = (cx.class("ef"), cx.class("be"));
        for class in [be, be, ClassId(77), ef, ef] {
            let mut packet = bench.packet(&udp(986));
            packet.meta_mut().class = class;
            bench.push_packet(0, packet);
        }
        bench.run_for(Duration::from_millis(20));
        let order: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().class).collect();
        assert_eq!(order, [be, ef, ef, be, ClassId(77)]);
        assert_eq!(bench.sink(0).arrived.last().map(|(t, _)| t.0), Some(4_000_000));
    }

    #[test]
    fn names_and_their_number_are_checked() {
        let many: Vec<_> = (0..17).map(|n| format!("c{n}")).collect();
        for text in [String::new(), "a b*c".to_owned(), many.join(" ")] {
            let errors = (TYPE.build)(&args(&text), &mut BuildCx::default()).err().expect("invalid");
            assert_eq!(errors[0].key.as_deref(), Some("classes"), "{text}");
        }
    }
}
