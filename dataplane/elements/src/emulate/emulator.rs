//! # Synopsis
//! `Emulator(entry, entry, …)` gives packets what a network would do to them, by a table of entries.
//!
//! # Ports
//! Input 0: dissected packets. Output 0: packets.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | each bare value | entry | | required | 1 … 64 entries |
//! | `overhead` | size | byte a packet at the rates of entries | 0 | 0 … 256 |
//! | `rate`, `limit` | rate, queue limit | | none | taken and of no effect: a scenario adds those of the link behind |
//!
//! An entry is `RULE : EFFECTS`, with a rule of [`crate::classify::ip`], a colon that stands alone, and any of
//!
//! | effect | meaning | default | range |
//! |---|---|---|---|
//! | `delay TIME` | mean delay | 0 | to 1 h |
//! | `jitter TIME` | spread of delays | 0 | to 1 h |
//! | `uniform`, `normal`, `pareto` | distribution: up to the spread to either side, or with it as standard deviation | `uniform` | |
//! | `table TIME TIME …` | measured distribution, instead: quantiles at equal steps, from the least delay to the longest | none | 2 … 4,096, ascending |
//! | `correlation P` | of a delay with the one before | 0 | below 100 % |
//! | `loss P`, `duplicate P`, `reorder P` | probabilities that a packet is lost, goes twice, skips its delay | 0 | |
//! | `burst P P P P` | two-state loss as of [`super::link`] | none | |
//! | `overtake` | delays let packets overtake each other | order is kept | |
//! | `rate RATE` | bandwidth | no limit | |
//! | `drd MIN MAX` | derivative random drop by the packets that wait for the bandwidth, as [`crate::drop::drd`] | none | `MIN` ≤ `MAX` |
//! | `limit N` | most packets inside | 100,000 | from 1 |
//! | `play TIME TIME P` | since that time after the first packet of the entry: mean delay and loss, as recorded; many | none | from `0s` on, ascending |
//! | `every TIME` | when `play` begins again | never | after its last instant |
//!
//! Values are written without spaces.
//!
//! # Behaviour
//! The first entry whose rule a packet satisfies has it; a packet of none goes on at once. In this order: it is dropped for want
//! of room (`queue_full`), by `drd` (`drd`), by `loss` or `burst` (`emulated_loss`), doubled, sent at the entry's
//! rate after those before it (frame length and `overhead`, rounded up to a nanosecond), and delayed. Each entry is a network of its own.
//! Correlation is that of the normal variables behind successive delays, so it changes no distribution.
//!
//! Pipes with weighted queues, as dummynet has them, are a scheduler before an emulated link: `Wf2q(…, rate = R) -> Delay(D)`.
//!
//! # Counters
//! For each entry, numbered from 0: `packets_N`, `bytes_N` (that came), `lost_N`, `crowded_N` (`queue_full` and `drd`),
//! `copies_N`, `delay_ns_N` (sum, of what left), `left_N`; `unmatched`; gauge `on_the_way`.
//!
//! # Invariants
//! Without `overtake` and `reorder` an entry keeps the order. Delays have the distribution written. With a rate no interval has
//! more than that rate.
//!
//! # Example
//! `FromPort(lan) -> Emulator(udp : delay 40ms jitter 8ms normal correlation 25% loss 1%, tcp : rate 2Mbit/s drd 20 60, - : delay 5ms) -> ToPort(wan)`
//!
//! # Source
//! M. Carson, D. Santay: *NIST Net: A Linux-based Network Emulation Tool*, ACM SIGCOMM CCR 33(3), 2003: the table of entries
//! with their effects. Correlated delays by a Gaussian copula (R. B. Nelsen, *An Introduction to Copulas*, §2.3), where
//! that tool mixes random numbers, which changes the distribution.

use super::delay_line::DelayLine;
use super::effects::{Effects, WORDS};
use crate::classify::Rule;
use crate::plumbing::adapter::as_any;
use perhop_element::{
    CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader, TimerId,
};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Bytes, Duration, Instant, Probability, QueueLimit, Rate};
use std::collections::VecDeque;

/// The most entries.
const MAX_ENTRIES: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    packets: u64,
    bytes: u64,
    lost: u64,
    crowded: u64,
    copies: u64,
    delay_ns: u64,
    left: u64,
}

/// What an entry remembers.
#[derive(Debug, Default)]
struct Memory {
    line: DelayLine,
    /// When the bandwidth is free again.
    free: Instant,
    /// When packets that wait for the bandwidth are through.
    through: VecDeque<Instant>,
    /// First packet.
    began: Option<Instant>,
    /// Behind the latest delay.
    z: Option<f64>,
    /// State of the burst model.
    bad: bool,
    counters: Counters,
}

/// The element.
#[derive(Debug)]
pub struct Emulator {
    entries: Vec<(Rule, Effects)>,
    memories: Vec<Memory>,
    /// Bytes of a packet on a line besides its frame.
    overhead: u64,
    unmatched: u64,
}

impl Emulator {
    /// Entries past the 64th are ignored. `overhead` is what the rates of entries count beside each frame, in bytes.
    pub fn new(mut entries: Vec<(Rule, Effects)>, overhead: Bytes) -> Self {
        entries.truncate(MAX_ENTRIES);
        let memories = entries.iter().map(|_| Memory::default()).collect();
        Self { entries, memories, overhead: overhead.0, unmatched: 0 }
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        loop {
            let lines = self.memories.iter_mut().filter_map(|m| Some((m.line.next_due()?, m)));
            let Some((at, memory)) = lines.min_by_key(|(at, _)| *at) else { return };
            if at > now {
                return cx.timer_at(at);
            }
            if let Some(packet) = memory.line.pop_due(now) {
                memory.counters.left += 1;
                cx.emit(0, packet);
            }
        }
    }
}

fn happens(p: Probability, cx: &mut Cx<'_>) -> bool {
    p != Probability::ZERO && p.happens(cx.random())
}

impl Memory {
    /// Takes a packet into the network of an entry, or drops it.
    fn take(&mut self, cx: &mut Cx<'_>, effects: &Effects, overhead: u64, packet: Packet) {
        let now = cx.now();
        self.counters.packets += 1;
        self.counters.bytes += packet.len() as u64;
        let since = now.since(*self.began.get_or_insert(now));
        let recorded = effects.recorded_at(since);
        if self.line.len() >= effects.limit as usize {
            self.counters.crowded += 1;
            return cx.drop(packet, DropReason::QueueFull);
        }
        while self.through.front().is_some_and(|at| *at <= now) {
            self.through.pop_front();
        }
        if let Some(drd) = effects.drd
            && drd.drops(self.through.len() as u32, cx.random())
        {
            self.counters.crowded += 1;
            return cx.drop(packet, DropReason::Drd);
        }
        let burst = effects.burst.is_some_and(|model| model.loses(&mut self.bad, || cx.random()));
        if burst || happens(recorded.map_or(effects.loss, |r| r.loss), cx) {
            self.counters.lost += 1;
            return cx.drop(packet, DropReason::EmulatedLoss);
        }
        let copy = if happens(effects.duplicate, cx) { cx.clone(&packet) } else { None };
        let mean = recorded.map(|r| r.delay);
        self.send(cx, effects, overhead, mean, packet);
        if let Some(copy) = copy {
            self.counters.copies += 1;
            self.send(cx, effects, overhead, mean, copy);
        }
    }

    fn send(
        &mut self,
        cx: &mut Cx<'_>,
        effects: &Effects,
        overhead: u64,
        mean: Option<Duration>,
        packet: Packet,
    ) {
        let now = cx.now();
        let mut at = now;
        if effects.rate > Rate::ZERO {
            at = self.free.max(now) + effects.rate.time_for(Bytes(packet.len() as u64 + overhead));
            self.free = at;
            self.through.push_back(at);
        }
        let skips = happens(effects.reorder, cx);
        if !skips {
            let drawn = effects.delays.draw(&mut self.z, || cx.random());
            // What was recorded takes the place of the mean, around which delays spread as they do.
            at += match mean {
                Some(mean) => (mean + drawn) - effects.delays.mean,
                None => drawn,
            };
        }
        self.counters.delay_ns += at.since(now).0;
        if skips || effects.overtake {
            self.line.push_by_time(at, packet);
        } else {
            self.line.push_in_order(at, packet);
        }
    }
}

impl Element for Emulator {
    fn type_name(&self) -> &'static str {
        "Emulator"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.entries.iter().position(|(rule, _)| rule.matches(&packet)) {
                Some(n) => self.memories[n].take(cx, &self.entries[n].1, self.overhead, packet),
                None => {
                    self.unmatched += 1;
                    cx.emit(0, packet);
                }
            }
        }
        self.run(cx);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.run(cx);
    }

    fn held(&self) -> u64 {
        self.memories.iter().map(|m| m.line.len() as u64).sum()
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        for (n, Memory { counters: c, .. }) in self.memories.iter().enumerate() {
            let counters = [
                ("packets", c.packets),
                ("bytes", c.bytes),
                ("lost", c.lost),
                ("crowded", c.crowded),
                ("copies", c.copies),
                ("delay_ns", c.delay_ns),
                ("left", c.left),
            ];
            for (what, value) in counters {
                sink.counter(&format!("{what}_{n}"), value);
            }
        }
        sink.counter("unmatched", self.unmatched);
        sink.gauge("on_the_way", self.held());
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let fresh = self.entries.iter().map(|_| Memory::default()).collect();
        Some(Box::new(std::mem::replace(&mut self.memories, fresh)))
    }

    /// Of an emulator of as many entries; what is on the way keeps its times.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let state = state.downcast::<Vec<Memory>>()?;
        if state.len() != self.entries.len() {
            return Err(state);
        }
        self.memories = *state;
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        self.memories.iter_mut().for_each(|m| m.line.drain(out));
    }

    as_any!();
}

/// `RULE : EFFECTS`.
fn entry(text: &str) -> Result<(Rule, Effects), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some(colon) = words.iter().position(|word| *word == ":") else {
        return Err("there is no colon between rule and effects".to_owned());
    };
    let rule = words[..colon].join(" ").parse().map_err(|why| format!("{why}"))?;
    Ok((rule, words[colon + 1..].join(" ").parse()?))
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Emulator",
    synopsis: "gives packets what a network would do to them, by a table of entries",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let mut entries = Vec::new();
        for arg in r.everything() {
            match arg.key.as_deref() {
                Some("overhead" | "rate" | "limit") => {}
                Some(key) => r.fail_at(arg, format!("unknown argument {key}"), Some("entries".to_owned())),
                None => match entry(&arg.value) {
                    Ok(entry) => entries.push(entry),
                    Err(why) => {
                        r.fail_at(
                            arg,
                            format!("entry {}: {why}", arg.value),
                            Some(format!("RULE : {WORDS}")),
                        );
                    }
                },
            }
        }
        let given = args.list.iter().filter(|arg| arg.key.is_none()).count();
        if !(1..=MAX_ENTRIES).contains(&given) {
            r.fail("entry", format!("{given} entries given"), Some(format!("1 to {MAX_ENTRIES} entries")));
        }
        let overhead = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256));
        r.optional::<Rate>("rate", None);
        r.optional::<QueueLimit>("limit", None);
        r.finish(Box::new(Emulator::new(entries, overhead)) as _)
    },
    sample: |rng| {
        let shape = ["uniform", "normal", "pareto", "overtake"][(rng.next_u32() % 4) as usize];
        format!(
            "udp dst port {} : delay {}ms jitter 2ms {shape} correlation 30% loss {}%, \
             tcp : rate 1Mbit/s drd 5 20 reorder 3%, dscp 46 : table 1ms 2ms 9ms, \
             - : play 0s 5ms 0% play 1s 9ms 2% every 3s limit 50",
            5000 + rng.next_u32() % 16,
            1 + rng.next_u32() % 30,
            rng.next_u32() % 20,
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use perhop_element::BuildCx;
    use perhop_element::testkit::{Bench, args};
    use proptest::prelude::*;

    fn bench(text: &str, seed: u64) -> Bench {
        let element = (TYPE.build)(&args(text), &mut BuildCx::default()).unwrap_or_else(|e| panic!("{e:?}"));
        Bench::with_seed(element, 1, seed)
    }

    fn frame(dst_port: u16, ip_len: u16) -> Vec<u8> {
        UdpFrame { dst_port, ip_len, ..UdpFrame::default() }.to_vec()
    }

    fn dropped(bench: &Bench, reason: DropReason) -> u64 {
        bench.driver.counters(bench.node).expect("it exists").drops[reason.index()]
    }

    #[test]
    fn the_first_entry_has_the_packet_and_each_is_a_network_of_its_own() {
        let mut bench =
            bench("udp dst port 5000 : delay 30ms, udp dst port 5001 : rate 8Mbit/s delay 10ms", 1);
        for port in [5000, 5001, 5001, 5002] {
            bench.push(&frame(port, 986));
        }
        bench.run_for(Duration::from_millis(100));
        let arrived = &bench.sink(0).arrived;
        let at: Vec<_> = arrived.iter().map(|(at, p)| (p.meta().layout.dst_port, at.0)).collect();
        // 1,000 bytes at 8 Mbit/s are a millisecond.
        assert_eq!(at, [(5002, 0), (5001, 11_000_000), (5001, 12_000_000), (5000, 30_000_000)]);
    }

    #[test]
    fn losses_copies_and_drops_are_as_often_as_written() {
        const N: u64 = 1_500;
        let mut bench = bench("udp : loss 10% duplicate 20%, - : loss 100%", 7);
        for _ in 0..N {
            bench.push(&frame(9, 64));
            bench.run_for(Duration(10));
        }
        let near = |got: u64, p: f64, n: f64, what: &str| {
            let sigma = (n * p * (1.0 - p)).sqrt();
            assert!((got as f64 - n * p).abs() < 5.0 * sigma, "{what}: {got} of {n}, seed 7");
        };
        let lost = dropped(&bench, DropReason::EmulatedLoss);
        near(lost, 0.1, N as f64, "lost");
        let copies = bench.sink(0).arrived.len() as u64 - (N - lost);
        near(copies, 0.2, (N - lost) as f64, "copies");
    }

    #[test]
    fn derivative_random_drop_goes_by_what_waits_for_the_bandwidth() {
        // Between 10 and 10 the probability is a step to 95 %.
        let mut bench = bench("- : rate 8Mbit/s drd 10 10", 3);
        for _ in 0..100 {
            bench.push(&frame(9, 986));
        }
        let (taken, lost) = (bench.element::<Emulator>().held(), dropped(&bench, DropReason::Drd));
        assert_eq!(taken + lost, 100);
        assert!((10..=25).contains(&taken), "{taken}");
        bench.run_for(Duration::from_millis(200));
        assert_eq!(bench.sink(0).arrived.len() as u64, taken);
    }

    #[test]
    fn a_recording_sets_delay_and_loss_as_time_passes() {
        let mut bench = bench("- : play 0s 20ms 0% play 1s 80ms 100% play 2s 5ms 0% every 3s", 3);
        let mut delays = Vec::new();
        for _ in 0..12 {
            bench.push(&frame(9, 64));
            let (before, now) = (bench.sink(0).arrived.len(), bench.now());
            bench.run_for(Duration::from_millis(500));
            let arrived = &bench.sink(0).arrived;
            delays.push(arrived.get(before).map(|(at, _)| at.since(now).0 / 1_000_000));
        }
        let period = [Some(20), Some(20), None, None, Some(5), Some(5)];
        assert_eq!(delays, [period, period].concat());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Whatever the jitter, an entry keeps the order unless it is told otherwise, nothing is early, nothing is lost, and
        /// no more leaves in any interval than the rate allows.
        #[test]
        fn order_delay_and_rate_hold(
            gaps in prop::collection::vec(0u64..3_000, 1..60),
            jitter_us in 0u64..4_000,
            shape in prop::sample::select(vec!["uniform", "normal", "pareto"]),
            overtake: bool,
            seed: u64,
        ) {
            let more = if overtake { "overtake" } else { "" };
            let text = format!("- : rate 4Mbit/s delay 5ms jitter {jitter_us}us {shape} correlation 40% {more}");
            let mut bench = bench(&text, seed);
            let mut through = Instant::ZERO;
            let mut earliest = Vec::new();
            for (n, gap) in gaps.iter().enumerate() {
                bench.run_for(Duration::from_micros(*gap));
                bench.push(&frame(9, 60 + n as u16));
                through = through.max(bench.now()) + Rate::from_mbit(4).time_for(Bytes(74 + n as u64));
                earliest.push(through);
            }
            bench.run_for(Duration::from_secs(1));
            let arrived = &bench.sink(0).arrived;
            prop_assert_eq!(arrived.len(), gaps.len());
            for (n, (at, packet)) in arrived.iter().enumerate() {
                let number = usize::from(packet.meta().layout.ip_len) - 60;
                prop_assert!(overtake || number == n, "packet {} as number {}", number, n);
                prop_assert!(*at >= earliest[number]);
                // The last bit leaves at the rate, so that without jitter the delay is exact.
                if jitter_us == 0 {
                    prop_assert_eq!(*at, earliest[number] + Duration::from_millis(5));
                }
            }
        }
    }

    #[test]
    fn what_is_on_the_way_goes_on_in_a_successor() {
        let text = "udp : delay 30ms, - : delay 1ms";
        let mut old = bench(text, 1);
        (0..5).for_each(|_| old.push(&frame(9, 64)));
        let state = old.element::<Emulator>().export_state().expect("it has state");
        let make =
            |text| (TYPE.build)(&args(text), &mut BuildCx::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let state = make("udp : delay 1ms").import_state(state).expect_err("other entries");
        let mut next = make("udp : delay 50ms, - : delay 2ms");
        assert!(next.import_state(state).is_ok());
        assert_eq!((next.held(), old.element::<Emulator>().held()), (5, 0));
        let mut out = Batch::new();
        next.drain(&mut out);
        assert_eq!(out.len(), 5);
        out.release_all();
    }

    #[test]
    fn wrong_entries_are_told_at_their_place() {
        let errors =
            |text: &str| (TYPE.build)(&args(text), &mut BuildCx::default()).err().unwrap_or_default();
        assert_eq!(errors("udp delay 5ms, tcp : delay, nonsense : delay 5ms, - : loss 1%").len(), 3);
        assert!(errors("udp delay 5ms")[0].message.contains("no colon"));
        assert_eq!(errors("").len(), 1);
        // What a scenario adds.
        let added = "- : rate 8Mbit/s, rate = 1 Mbit/s, limit = 20 packets, overhead = 24 B";
        assert_eq!(errors(added), []);
        assert_eq!(errors("- : loss 1%, delay = 5 ms").len(), 1);
        let mut bench = bench(added, 1);
        bench.push(&frame(9, 986 - 24));
        bench.run_for(Duration::from_millis(1));
        assert_eq!(bench.sink(0).arrived.first().map(|(at, _)| at.0), Some(1_000_000));
    }
}
