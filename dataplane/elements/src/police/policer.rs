//! # Synopsis
//! `Policer(rate, burst [, exceed] [, dscp])` lets packets within a token bucket pass and acts on the excess.
//!
//! # Ports
//! Input 0: packets. Output 0: packets within the bucket, and remarked excess. Output 1 (`exceed = divert`): excess.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` (1st) | rate | bit/s | required | 1 … 10¹² |
//! | `burst` (2nd) | size | byte | required | 1 … 500,000,000 |
//! | `exceed` | `drop`, `mark`, `divert` | | `drop` | |
//! | `dscp` | DSCP | | BE | only with `exceed = mark` |
//!
//! # Behaviour
//! One token bucket on the IP length at `received_at`. A packet it covers is green and passes; any other is red and
//! dropped (`policed`), remarked with `dscp`, or sent to output 1. Excess is not charged.
//!
//! # Counters
//! `green_packets`, `green_bytes`, `yellow_packets`, `yellow_bytes`, `red_packets`, `red_bytes` (IP length).
//!
//! # Invariants
//! Green bytes in any interval of length t are at most rate × t + burst; order is kept per output.
//!
//! # Example
//! `FromPort(lan) -> Policer(2 Mbit/s, 15 kB) -> ToPort(wan)`
//!
//! # Source
//! RFC 2475 §2.3.3.4 (dropper), RFC 3290 §5.1.3.

use crate::mark::mark;
use crate::meter::{BURST_RANGE, ColorCounters, RATE_RANGE, TokenBucket, metered_len};
use crate::plumbing::adapter::as_any;
use perhop_element::{CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, DropReason};
use perhop_units::{Color, Dscp, Instant};

/// What happens to excess packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceed {
    /// Dropped as `policed`.
    Drop,
    /// Remarked, and passed on.
    Mark(Dscp),
    /// Sent to output 1.
    Divert,
}

/// The element.
#[derive(Debug)]
pub struct Policer {
    bucket: TokenBucket,
    exceed: Exceed,
    colors: ColorCounters,
    last: Instant,
}

impl Policer {
    /// A policer with a full bucket.
    pub fn new(bucket: TokenBucket, exceed: Exceed) -> Self {
        Self { bucket, exceed, colors: ColorCounters::default(), last: Instant::ZERO }
    }
}

impl Element for Policer {
    fn type_name(&self) -> &'static str {
        "Policer"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for mut packet in batch.drain() {
            let len = metered_len(&packet);
            let meta = packet.meta_mut();
            self.last = self.last.max(meta.received_at);
            meta.color = self.bucket.meter(meta.received_at, len);
            let color = meta.color;
            self.colors.count(color, len);
            match self.exceed {
                _ if color == Color::Green => cx.emit(0, packet),
                Exceed::Drop => cx.drop(packet, DropReason::Policed),
                Exceed::Divert => cx.emit(1, packet),
                Exceed::Mark(dscp) => {
                    mark(&mut packet, dscp);
                    cx.emit(0, packet);
                }
            }
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        self.colors.report(sink);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new((self.bucket, self.colors, self.last)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let (bucket, colors, last) = *state.downcast::<(TokenBucket, ColorCounters, Instant)>()?;
        self.bucket.adopt(&bucket, last);
        self.colors = colors;
        self.last = last;
        Ok(())
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Policer",
    synopsis: "token bucket that drops, remarks or diverts the excess",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, 2),
    build: |args, _| {
        let mut r = Reader::new(args);
        let rate = r.required_in("rate", Some(0), RATE_RANGE);
        let burst = r.required_in("burst", Some(1), BURST_RANGE);
        let dscp = r.optional("dscp", None);
        let mark = Exceed::Mark(dscp.unwrap_or(Dscp::BE));
        let choices = [("drop", Exceed::Drop), ("mark", mark), ("divert", Exceed::Divert)];
        let exceed = r.choice("exceed", Exceed::Drop, &choices);
        if r.text("dscp", None).is_some() && !matches!(exceed, Exceed::Mark(_)) {
            r.fail("dscp", "dscp is only for exceed = mark".to_owned(), None);
        }
        r.finish(Box::new(Policer::new(TokenBucket::new(rate, burst), exceed)) as _)
    },
    sample: |rng| {
        let exceed = ["drop", "mark", "divert"][rng.next_u32() as usize % 3];
        format!("{} kbit/s, 3000 B, exceed = {exceed}", 1 + rng.next_u32() % 9999)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use perhop_units::Duration;

    fn run(text: &str) -> Bench {
        let element = (TYPE.build)(&args(text), &mut BuildCx::default()).unwrap();
        let mut bench = Bench::with_seed(element, 2, 1);
        for _ in 0..3 {
            bench.push(&udp(100));
        }
        bench.run_for(Duration::from_millis(100));
        bench.push(&udp(100));
        bench
    }

    #[test]
    fn excess_is_dropped_remarked_or_diverted() {
        // The bucket holds two packets and earns one in 100 ms.
        let bench = run("8 kbit/s, 200 B");
        assert_eq!(bench.arrived(0).len(), 3);
        assert_eq!(bench.driver.counters(bench.node).unwrap().drops[DropReason::Policed.index()], 1);

        let bench = run("8 kbit/s, 200 B, exceed = divert");
        assert_eq!((bench.arrived(0).len(), bench.arrived(1).len()), (3, 1));

        let bench = run("8 kbit/s, 200 B, exceed = mark, dscp = LE");
        let marks: Vec<_> = bench.arrived(0).iter().map(|(_, f)| f[15] >> 2).collect();
        assert_eq!(marks, [0, 0, 1, 0]);
    }

    #[test]
    fn tokens_move_to_the_successor() {
        let bucket = || TokenBucket::new(perhop_units::Rate(8_000), perhop_units::Bytes(200));
        let mut old = Policer::new(bucket(), Exceed::Drop);
        old.bucket.meter(Instant(0), perhop_units::Bytes(200));
        let mut new = Policer::new(bucket(), Exceed::Drop);
        new.import_state(old.export_state().unwrap()).unwrap_or_else(|_| panic!("same type"));
        assert_eq!(new.bucket.level(), perhop_units::Tokens::ZERO);
    }
}
