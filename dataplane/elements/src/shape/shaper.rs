//! # Synopsis
//! `Shaper(rate [, burst] [, discipline])` delays packets so that they leave at no more than a rate.
//!
//! # Ports
//! Input 0: packets. Output 0: packets at the shaped pace.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` (1st) | rate | bit/s at frame length + `overhead` | required | 1 … 10¹² |
//! | `burst` (2nd) | size | byte | 0 | 0 … 500,000,000 |
//! | `discipline` | `fifo`, `red`, `wred`, `rio`, `drd`, `codel`, `blue`, `pie`, `fq_codel`, `wfq` | | `fifo` | |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//! | `min`, `max`, `max_p`, … | | | | as [`crate::drop::red`], only with `discipline = red` |
//! | `min`, `max`, `max_p`, `average`, `precedence`, … | | | | as [`crate::drop::wred`], only with `discipline = wred` or `rio` |
//! | `increase`, `decrease`, `freeze`, `ecn` | | | | as [`crate::drop::blue`], only with `discipline = blue` |
//! | `target`, `interval`, `mtu`, `ecn` | | | | as [`crate::drop::codel`], only with `discipline = codel` |
//! | `flows`, `quantum`, `batch`, `target`, … | | | | as [`crate::drop::fq_codel`], only with `discipline = fq_codel` |
//! | `flows`, `by_precedence` | | | | as [`crate::drop::wfq`], only with `discipline = wfq` |
//! | `target`, `update`, `max_burst`, … | | | | as [`crate::drop::pie`], only with `discipline = pie` |
//! | `min`, `max`, `start_p`, `ceiling` | | | | as [`crate::drop::drd`], only with `discipline = drd` |
//!
//! # Behaviour
//! A pump: packets wait in the discipline and leave as a line of `rate` takes them. After an idle time up to `burst`
//! bytes leave at once, as with a token bucket of that size.
//!
//! # Counters
//! Those of [`crate::schedule::pump`] and of the discipline.
//!
//! # Invariants
//! In any interval of length t no more than rate × t + burst and one packet leaves. Work conserving below that; order
//! is kept.
//!
//! # Example
//! `FromPort(lan) -> Shaper(2 Mbit/s, 3 kB, limit = 30 ms) -> ToPort(wan)`
//!
//! # Source
//! RFC 2475 §2.3.3.3 (shaper), RFC 3290 §7.2.

use crate::drop::{
    Blue, CoDel, Drd, FqCoDel, Pie, Red, Wfq, Wred, blue, codel, drd, fq_codel, pie, red, wfq, wred,
};
use crate::meter::RATE_RANGE;
use crate::queue::Fifo;
use crate::queue::fifo::{FifoConfig, read_config};
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::{ArgError, Args, BuildCx, Discipline, Element, ElementType, PortCount, Reader};
use perhop_units::{Bytes, Duration, Framing, Rate};

/// A shaper around any discipline: rate and overhead as links count, burst in bytes.
pub fn shaper(discipline: Box<dyn Discipline>, rate: Rate, burst: Bytes, overhead_bytes: u32) -> Pump {
    let config = TransmitterConfig {
        rate,
        overhead_bytes,
        framing: Framing::PLAIN,
        // What an idle line may make good later is exactly a bucket of tokens.
        catchup: if burst.0 == 0 { Duration::ZERO } else { rate.time_for(burst) },
        ring_time: Duration::ZERO,
    };
    Pump::named("Shaper", discipline, Transmitter::new(config), None)
}

/// Disciplines that it builds.
#[derive(Clone, Copy)]
enum Kind {
    Fifo,
    Red,
    Wred,
    Rio,
    Drd,
    CoDel,
    Blue,
    Pie,
    FqCoDel,
    Wfq,
}

fn build(args: &Args, _: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let rate = r.required_in("rate", Some(0), RATE_RANGE);
    let burst = r.optional_in("burst", Some(1), Bytes(0), Bytes(0)..=crate::meter::MAX_BURST);
    let kinds = [
        ("fifo", Kind::Fifo),
        ("red", Kind::Red),
        ("wred", Kind::Wred),
        ("rio", Kind::Rio),
        ("drd", Kind::Drd),
        ("codel", Kind::CoDel),
        ("blue", Kind::Blue),
        ("pie", Kind::Pie),
        ("fq_codel", Kind::FqCoDel),
        ("wfq", Kind::Wfq),
    ];
    let (discipline, queue): (Box<dyn Discipline>, FifoConfig) =
        match r.choice("discipline", Kind::Fifo, &kinds) {
            Kind::Red => {
                let (config, queue) = red::read(&mut r, rate);
                (Box::new(Red::new(config, queue)), queue)
            }
            kind @ (Kind::Wred | Kind::Rio) => {
                let (config, queue) = wred::read(&mut r, rate, matches!(kind, Kind::Rio));
                (Box::new(Wred::new(config, queue)), queue)
            }
            Kind::Drd => {
                let (config, queue) = drd::read(&mut r, rate);
                (Box::new(Drd::new(config, queue)), queue)
            }
            Kind::Blue => {
                let (config, queue) = blue::read(&mut r, rate);
                (Box::new(Blue::new(config, queue)), queue)
            }
            Kind::Pie => {
                let (config, queue) = pie::read(&mut r, rate);
                (Box::new(Pie::new(config, queue)), queue)
            }
            Kind::FqCoDel => {
                let (config, queue) = fq_codel::read(&mut r, rate);
                (Box::new(FqCoDel::new(config, queue)), queue)
            }
            Kind::Wfq => {
                let (config, queue) = wfq::read(&mut r, rate);
                (Box::new(Wfq::new(config, queue)), queue)
            }
            Kind::CoDel => {
                let (config, queue) = codel::read(&mut r, rate);
                (Box::new(CoDel::new(config, queue)), queue)
            }
            Kind::Fifo => {
                let queue = read_config(&mut r, None, rate);
                (Box::new(Fifo::new(queue)), queue)
            }
        };
    r.finish(Box::new(shaper(discipline, rate, burst, queue.overhead)) as _)
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Shaper",
    synopsis: "delays packets to a rate, in a FIFO or a queue that manages its length",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build,
    sample: |rng| {
        let rate = 100 + rng.next_u32() % 10_000;
        match rng.next_u32() % 11 {
            0 => format!("{rate} kbit/s, limit = 20 packets"),
            1 => format!("{rate} kbit/s, 5 kB, limit = 30 ms, overhead = 24 B"),
            2 => format!("{rate} kbit/s, discipline = drd, min = 15, max = 40, limit = 60 packets"),
            3 => format!(
                "{rate} kbit/s, discipline = codel, target = 2 ms, interval = 20 ms, limit = 90 packets"
            ),
            4 => format!("{rate} kbit/s, discipline = blue, freeze = 5 ms, limit = 20 packets"),
            7 => format!("{rate} kbit/s, discipline = pie, target = 2 ms, update = 1 ms, max_burst = 0 ns"),
            8 => format!(
                "{rate} kbit/s, discipline = fq_codel, flows = 16, limit = 40 packets, batch = 4, target = 1 ms"
            ),
            9 => format!(
                "{rate} kbit/s, discipline = wfq, flows = 16, by_precedence = yes, limit = 20 packets"
            ),
            5 => format!(
                "{rate} kbit/s, discipline = wred, min = 6kB 3kB 1kB, max = 9kB, weight = 2, limit = 30 kB"
            ),
            6 => format!("{rate} kbit/s, discipline = rio, min = 9ms 3ms, max = 20ms 5ms, precedence = dscp"),
            _ => {
                format!("{rate} kbit/s, discipline = red, min = 3 kB, max = 9 kB, weight = 3, limit = 30 kB")
            }
        }
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use perhop_packet::DropReason;
    use perhop_units::Instant;

    fn bench(text: &str) -> Bench {
        Bench::with_seed(build(&args(text), &mut BuildCx::default()).unwrap(), 1, 3)
    }

    fn report(bench: &Bench, name: &str) -> u64 {
        let mut all: Vec<(String, u64)> = vec![];
        bench.driver.report(bench.node, &mut all);
        all.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name} in {all:?}")).1
    }

    /// A frame of 1,000 bytes takes 1 ms at 8 Mbit/s.
    const LEN: u16 = 986;

    #[test]
    fn packets_leave_at_the_rate_and_the_tail_drops() {
        let mut bench = bench("8 Mbit/s, limit = 3 packets");
        (0..6).for_each(|_| bench.push(&udp(LEN)));
        bench.run_until(Instant(10_000_000));
        let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0 / 1_000_000).collect();
        assert_eq!(times, [0, 1, 2, 3]);
        let drops = &bench.driver.counters(bench.node).unwrap().drops;
        assert_eq!(drops[DropReason::QueueFull.index()], 2);
        assert_eq!(report(&bench, "enqueued_packets"), 4);
        assert_eq!(report(&bench, "dropped_bytes"), 2000);
        assert_eq!(report(&bench, "peak_packets"), 3);
    }

    #[test]
    fn limits_in_bytes_and_time_count_the_overhead() {
        // 24 bytes of overhead: 3,072 bytes hold three packets besides the one on the line, 3,071 two.
        for (limit, arrive) in [("3072 B", 4), ("3071 B", 3), ("3072 us", 4), ("3071 us", 3), ("1 us", 2)] {
            let mut bench = bench(&format!("8 Mbit/s, limit = {limit}, overhead = 24 B"));
            (0..6).for_each(|_| bench.push(&udp(LEN)));
            bench.run_until(Instant(10_000_000));
            let arrived = bench.arrived(0);
            assert_eq!(arrived.len(), arrive, "{limit}");
            assert_eq!(arrived[1].0, Instant(1_024_000));
        }
    }

    #[test]
    fn a_queue_that_drops_by_its_length_keeps_to_its_thresholds() {
        // The first is on the line, two wait; from then on none is taken with a ceiling of 1.
        let mut strict = bench("8 Mbit/s, discipline = drd, min = 2, max = 2, ceiling = 100 %");
        (0..9).for_each(|_| strict.push(&udp(LEN)));
        strict.run_until(Instant(10_000_000));
        assert_eq!((strict.arrived(0).len(), report(&strict, "early")), (3, 6));
        assert_eq!(strict.driver.counters(strict.node).unwrap().drops[DropReason::Drd.index()], 6);
        // With that of the emulator about one in twenty gets in besides: 50 of 1,000, by 3.3 standard deviations.
        let mut leaky = bench("8 Mbit/s, discipline = drd, min = 2, max = 2, limit = 2000 packets");
        (0..1003).for_each(|_| leaky.push(&udp(LEN)));
        let early = report(&leaky, "early");
        assert!((927..=973).contains(&early), "{early}");
    }

    #[test]
    fn a_burst_passes_at_once_after_an_idle_time() {
        let mut bench = bench("8 Mbit/s, 2 kB");
        bench.run_until(Instant(100_000_000));
        (0..5).for_each(|_| bench.push(&udp(LEN)));
        bench.run_until(Instant(200_000_000));
        let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0 / 1_000_000).collect();
        assert_eq!(times, [100, 100, 100, 101, 102]);
    }

    #[test]
    fn red_marks_what_can_be_marked_and_drops_the_rest() {
        let text =
            "8 Mbit/s, discipline = red, min = 2 packets, max = 1000 packets, weight = 2, max_p = 20 %";
        for ecn in [0u8, 1] {
            let mut bench = bench(text);
            let frame = UdpFrame { ip_len: LEN, ecn, ..UdpFrame::default() }.to_vec();
            for _ in 0..600 {
                bench.push(&frame);
                bench.run_for(Duration::from_micros(950));
            }
            bench.run_for(Duration::from_secs(1));
            let arrived = bench.arrived(0);
            let marked =
                arrived.iter().filter(|(_, f)| perhop_wire::dissect(f).unwrap().tos & 3 == 3).count();
            assert_eq!(report(&bench, "marked"), marked as u64);
            assert_eq!(report(&bench, "early") > 0, ecn == 0);
            assert_eq!(marked > 0, ecn == 1, "{marked} marked, seed 3");
            assert_eq!(arrived.len() as u64, 600 - report(&bench, "dropped_packets"));
        }
    }

    #[test]
    fn the_arguments_of_red_need_red_and_order() {
        let errors = |text: &str| build(&args(text), &mut BuildCx::default()).err().map_or(0, |e| e.len());
        assert_eq!(errors("8 Mbit/s, min = 3 kB"), 1);
        assert_eq!(errors("8 Mbit/s, discipline = red"), 2);
        assert_eq!(errors("8 Mbit/s, discipline = red, min = 3 kB, max = 3 kB"), 1);
        assert_eq!(errors("8 Mbit/s, discipline = red, min = 5 ms, max = 15 ms"), 0);
        assert_eq!(errors("8 Mbit/s, limit = 0 packets"), 1);
    }

    #[test]
    fn a_queue_moves_to_its_successor() {
        let text = "8 Mbit/s, limit = 10 packets";
        let mut old = bench(text);
        (0..5).for_each(|_| old.push(&udp(LEN)));
        let mut element = old.driver.remove(old.node).unwrap();
        let state = element.export_state().unwrap();
        assert_eq!(element.held(), 0);
        let mut new = build(&args(text), &mut BuildCx::default()).unwrap();
        new.import_state(state).unwrap_or_else(|_| panic!("same type"));
        assert_eq!(new.held(), 4);
    }
}
