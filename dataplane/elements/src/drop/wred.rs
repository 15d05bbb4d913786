//! # Synopsis
//! `Wred` is the discipline of a FIFO queue with random early detection at three drop precedences, as assured forwarding
//! asks for: weighted RED and RIO, coupled or not.
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! Lists have three values, of green, yellow and red; or two, of packets in and out of profile (yellow and red are out);
//! or one for all. Values of a list are written without spaces inside: `min = 20ms 10ms 5ms`.
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `min` | list of queue limits | packets (× `mean`), byte or time | required | above 0, never rising |
//! | `max` | list of queue limits | packets (× `mean`), byte or time | required | above `min`, never rising |
//! | `max_p` | list of probabilities | | 10 % | 0 … 100 %, never falling |
//! | `average` | `total`, `coupled`, `decoupled` | | `total` (wred), `coupled` (rio) | |
//! | `precedence` | `color`, `dscp` | | `color` | |
//! | `weight`, `gentle`, `ecn`, `byte_mode`, `mean` | | | | as [`super::red`] |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! Each packet is judged as by [`super::red`], with the thresholds of its colour, against an average that `average`
//! chooses. `total` (weighted RED): of all bytes waiting. `coupled` (RIO-C): of the bytes of its own and of better
//! colours, so that what is out of profile never harms what is in it. `decoupled` (RIO-D): of the bytes of its own colour.
//! An arriving packet updates the averages that its colour is part of. The colour is what a meter said, or with
//! `precedence = dscp` the drop precedence of the AF code point, where there is one. Gaps between drops are uniform for
//! each colour by itself. The hard bound `limit` holds for all together (`queue_full`).
//!
//! # Counters
//! Those of [`crate::queue::fifo`]; for `green`, `yellow` and `red` each `packets_COLOR` (offered), `marked_COLOR`,
//! `early_COLOR`, `forced_COLOR`, gauge `average_bytes_COLOR`.
//!
//! # Invariants
//! Order is kept, also between colours; the bound holds. At equal averages and counts the chance of being dropped never
//! falls from green over yellow to red; with `total` and `coupled` averages it never does at all.
//!
//! # Example
//! `Shaper(10 Mbit/s, discipline = wred, min = 20ms 10ms 5ms, max = 40ms 20ms 10ms, max_p = 2% 5% 10%, limit = 60 ms)`,
//! `Shaper(10 Mbit/s, discipline = rio, min = 20ms 5ms, max = 40ms 20ms, max_p = 2% 50%, limit = 60 ms)`
//!
//! # Source
//! Clark and Fang, *Explicit Allocation of Best-Effort Packet Delivery Service*, IEEE/ACM ToN 6(4), 1998, §III (RIO: the
//! average of in-profile packets and of all); RFC 2597 §2, §4, §6 (three precedences); Makkar et al., *Empirical study of
//! buffer management scheme for DiffServ assured forwarding PHB*, ICCCN 2000 (RIO-C, RIO-D, WRED).

use super::wred_state::{Averages, COLORS, WredConfig, WredState, color_of};
use super::{InLeaf, Losses, RedConfig, RedCounts};
use crate::plumbing::adapter::{as_any, front_of_queue, held_in_queue, one_by_one};
use crate::queue::fifo::{FifoConfig, read_config};
use crate::queue::{FifoQueue, QueueCounters};
use perhop_element::{CounterSink, Cx, Discipline, ElementState, Reader};
use perhop_packet::Packet;
use perhop_units::{Bytes, Probability, QueueLimit, Rate};
use std::fmt::Display;
use std::str::FromStr;

/// What happened to packets of one colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    packets: u64,
    counts: RedCounts,
}

/// The discipline.
#[derive(Debug)]
pub struct Wred {
    queue: FifoQueue,
    state: WredState,
    counters: QueueCounters,
    fates: [Fate; COLORS],
}

impl Wred {
    /// An empty queue.
    pub fn new(config: WredConfig, queue: FifoConfig) -> Self {
        Self {
            queue: FifoQueue::new(queue.limit, queue.rate, queue.overhead),
            state: WredState::new(config),
            counters: QueueCounters::default(),
            fates: [Fate::default(); COLORS],
        }
    }

    /// The averages' state.
    pub fn state(&self) -> &WredState {
        &self.state
    }

    /// Changes parameters and bound in place; packets inside and the averages stay. O(1), but O(packets) where the
    /// precedence is found elsewhere or bytes are counted otherwise than before.
    pub fn reconfigure(&mut self, config: WredConfig, queue: FifoConfig) {
        let before = (self.state.config().by_dscp, self.queue.overhead());
        self.queue.set_limit(queue.limit, queue.rate, queue.overhead);
        if before == (config.by_dscp, queue.overhead) {
            return self.state.reconfigure(config);
        }
        let old = std::mem::replace(&mut self.state, WredState::new(config));
        self.state.adopt(&old);
        let mut waiting =
            std::mem::replace(&mut self.queue, FifoQueue::new(queue.limit, queue.rate, queue.overhead));
        self.take_over(&mut waiting);
    }

    /// Takes over what `old` holds, one by one: this may count another overhead, or find the colour elsewhere.
    fn take_over(&mut self, old: &mut FifoQueue) {
        let (overhead, by_dscp) = (u64::from(self.queue.overhead()), self.state.config().by_dscp);
        let state = &mut self.state;
        self.queue.adopt_each(old, |packet| {
            state.taken(color_of(packet.meta(), by_dscp), Bytes(packet.len() as u64 + overhead));
        });
    }

    fn cost(&self, packet: &Packet) -> Bytes {
        Bytes(packet.len() as u64 + u64::from(self.queue.overhead()))
    }
}

impl InLeaf for Wred {
    fn put(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let color = color_of(packet.meta(), self.state.config().by_dscp);
        let len = self.cost(&packet);
        let capable = packet.meta().layout.is_ecn_capable();
        let fate = &mut self.fates[color as usize];
        fate.packets += 1;
        let verdict = self.state.decide(cx.now(), color, len, capable, cx.random());
        fate.counts.note(verdict);
        let packet = match verdict.carry_out(packet) {
            Ok(packet) => packet,
            Err((packet, reason)) => return self.counters.refuse(cx, packet, reason),
        };
        let waiting = self.queue.len();
        self.counters.offer(&mut self.queue, cx, packet);
        if self.queue.len() > waiting {
            self.state.taken(color, len);
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.queue.pop()?;
        let color = color_of(packet.meta(), self.state.config().by_dscp);
        self.state.left(cx.now(), color, self.cost(&packet));
        Some(packet)
    }

    fn evict(&mut self) -> Option<Packet> {
        let packet = self.queue.pop()?;
        let color = color_of(packet.meta(), self.state.config().by_dscp);
        self.state.evicted(color, self.cost(&packet));
        Some(packet)
    }

    fn head_since(&self) -> Option<perhop_units::Instant> {
        self.queue.front_meta().map(|meta| meta.queued_at)
    }

    fn keep(&mut self, packet: Packet) {
        let color = color_of(packet.meta(), self.state.config().by_dscp);
        self.state.taken(color, self.cost(&packet));
        self.queue.keep(packet);
    }

    fn losses(&self) -> Losses {
        let sum = |of: fn(&RedCounts) -> u64| self.fates.iter().map(|f| of(&f.counts)).sum();
        self.counters.losses(sum(|c| c.early + c.forced), sum(|c| c.marked))
    }
}

impl Discipline for Wred {
    fn type_name(&self) -> &'static str {
        "Wred"
    }

    one_by_one!();
    front_of_queue!();
    held_in_queue!();

    fn counters(&self, sink: &mut dyn CounterSink) {
        self.counters.report(&self.queue, sink);
        for (n, name) in NAMES.iter().enumerate() {
            let fate = &self.fates[n];
            let counters = [
                ("packets", fate.packets),
                ("marked", fate.counts.marked),
                ("early", fate.counts.early),
                ("forced", fate.counts.forced),
            ];
            for (what, value) in counters {
                sink.counter(&format!("{what}_{name}"), value);
            }
            sink.gauge(&format!("average_bytes_{name}"), self.state.average(n).0);
        }
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::new(*self.state.config(), FifoConfig::LEAST);
        Some(Box::new(std::mem::replace(self, empty)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut old = *state.downcast::<Self>()?;
        self.state.adopt(&old.state);
        self.take_over(&mut old.queue);
        (self.counters, self.fates) = (old.counters, old.fates);
        Ok(())
    }

    as_any!();
}

const NAMES: [&str; COLORS] = ["green", "yellow", "red"];

/// Reads the parameters of weighted RED (`rio`: of RIO) for a queue behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate, rio: bool) -> (WredConfig, FifoConfig) {
    let queue = read_config(r, None, rate);
    let mean = r.optional_in("mean", None, Bytes(1000), Bytes(1)..=Bytes(65_535));
    let min = thresholds(r, "min", mean, rate);
    let max = thresholds(r, "max", mean, rate);
    let max_p = list(r, "max_p").unwrap_or([Probability(u32::MAX / 10); COLORS]);
    let red = RedConfig {
        min: Bytes(1),
        max: Bytes(2),
        max_p: Probability::ZERO,
        weight_log2: r.optional_in("weight", None, 9, 1..=16),
        gentle: r.flag("gentle", true),
        ecn: r.flag("ecn", true),
        byte_mode: r.flag("byte_mode", false),
        mean,
        rate,
    };
    for n in 0..COLORS {
        if r.text("max", None).is_some() && max[n] <= min[n] {
            let allowed = format!("above min, which is {} B for {}", min[n].0, NAMES[n]);
            r.fail("max", format!("max = {} B of {} is not above min", max[n].0, NAMES[n]), Some(allowed));
        }
    }
    never(r, "min", "rise", |n| min[n] > min[n - 1]);
    never(r, "max", "rise", |n| max[n] > max[n - 1]);
    never(r, "max_p", "fall", |n| max_p[n] < max_p[n - 1]);
    let averages =
        [("total", Averages::Total), ("coupled", Averages::Coupled), ("decoupled", Averages::Decoupled)];
    let usual = if rio { Averages::Coupled } else { Averages::Total };
    let config = WredConfig {
        curves: std::array::from_fn(|n| RedConfig { min: min[n], max: max[n], max_p: max_p[n], ..red }),
        averages: r.choice("average", usual, &averages),
        by_dscp: r.choice("precedence", false, &[("color", false), ("dscp", true)]),
    };
    (config, queue)
}

/// Books an error where a list goes the wrong way from a better to a worse colour.
fn never(r: &mut Reader<'_>, key: &'static str, way: &str, wrong: impl Fn(usize) -> bool) {
    if let Some(n) = (1..COLORS).find(|n| wrong(*n)) {
        let message = format!("{key} of {} would spare it more than {}", NAMES[n], NAMES[n - 1]);
        r.fail(key, message, Some(format!("values that never {way} from green to red")));
    }
}

fn thresholds(r: &mut Reader<'_>, key: &'static str, mean: Bytes, rate: Rate) -> [Bytes; COLORS] {
    if r.text(key, None).is_none() {
        r.fail(key, format!("{key} is missing"), None);
    }
    let limits = list(r, key).unwrap_or([QueueLimit::Packets(1); COLORS]);
    let bytes = limits.map(|limit| match limit {
        QueueLimit::Packets(n) => Bytes(u64::from(n) * mean.0),
        other => other.in_bytes(rate).unwrap_or_default(),
    });
    if bytes.contains(&Bytes(0)) {
        r.fail(key, format!("{key} is 0 bytes at this rate"), Some("above 0".to_owned()));
    }
    bytes
}

/// One value for all colours, two for in and out of profile, or one a colour; `None` when absent or wrong.
fn list<T>(r: &mut Reader<'_>, key: &'static str) -> Option<[T; COLORS]>
where
    T: FromStr + Copy,
    T::Err: Display,
{
    let text: String = r.optional(key, None)?;
    if let Ok(value) = text.parse() {
        return Some([value; COLORS]);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut values = Vec::new();
    for word in &words {
        match word.parse::<T>() {
            Ok(value) => values.push(value),
            Err(e) => r.fail(key, format!("{key}: {e}"), None),
        }
    }
    match values[..] {
        _ if values.len() != words.len() => None,
        [green, yellow, red] => Some([green, yellow, red]),
        [inside, out] => Some([inside, out, out]),
        _ => {
            let allowed = "1 to 3: of green, yellow and red";
            r.fail(key, format!("{key} has {} values", words.len()), Some(allowed.to_owned()));
            None
        }
    }
}

#[cfg(test)]
#[path = "wred_tests.rs"]
mod tests;
