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

use super::red::THRESHOLD;
use super::wred_state::{Averages, COLORS, WredConfig, WredState, color_of};
use super::{EarlyFifo, EarlyState, RedConfig, RedCounts, RedState, RedVerdict};
use crate::queue::FifoQueue;
use crate::queue::fifo::{FifoConfig, read_config};
use perhop_element::{CounterSink, Cx, Reader};
use perhop_packet::Packet;
use perhop_units::{Bytes, Color, Instant, Probability, QueueLimit, Rate};
use std::fmt::Display;
use std::str::FromStr;

/// The discipline.
pub type Wred = EarlyFifo<WredState>;

impl WredState {
    fn color_of(&self, packet: &Packet) -> Color {
        color_of(packet.meta(), self.config.by_dscp)
    }
}

impl EarlyState for WredState {
    type Config = WredConfig;
    const NAME: &'static str = "Wred";

    /// A queue that has always been empty.
    fn new(config: WredConfig) -> Self {
        let red = config.curves.map(RedState::new);
        Self { config, red, waiting: [0; COLORS], fates: Default::default() }
    }

    fn config(&self) -> &WredConfig {
        &self.config
    }

    /// Keeps averages and counts of `old`, but not what waits, under the own parameters.
    fn adopt(&mut self, old: &Self) {
        for (red, old) in self.red.iter_mut().zip(&old.red) {
            red.adopt(old);
        }
        self.fates = old.fates;
    }

    fn reconfigure(&mut self, config: WredConfig, recounts: bool) -> bool {
        let old = std::mem::replace(self, Self::new(config));
        self.adopt(&old);
        let recounts = recounts || old.config.by_dscp != config.by_dscp;
        if !recounts {
            self.waiting = old.waiting;
        }
        recounts
    }

    fn offered(&mut self, cx: &mut Cx<'_>, queue: &FifoQueue, packet: &Packet) -> RedVerdict {
        let (color, len) = (self.color_of(packet), queue.cost(packet));
        let capable = packet.meta().layout.is_ecn_capable();
        let verdict = self.decide(cx.now(), color, len, capable, cx.random());
        let (packets, counts) = &mut self.fates[color as usize];
        *packets += 1;
        counts.note(verdict);
        if matches!(verdict, RedVerdict::Keep | RedVerdict::Mark) && queue.has_room(packet.len()) {
            self.taken(color, len);
        }
        verdict
    }

    fn left(&mut self, now: Instant, _queue: &FifoQueue, packet: &Packet, len: Bytes) {
        self.left(now, self.color_of(packet), len);
    }

    fn evicted(&mut self, packet: &Packet, len: Bytes) {
        self.evicted(self.color_of(packet), len);
    }

    fn kept(&mut self, packet: &Packet, len: Bytes) {
        self.taken(self.color_of(packet), len);
    }

    fn report(&self, _counts: &RedCounts, sink: &mut dyn CounterSink) {
        for (n, name) in NAMES.iter().enumerate() {
            let (packets, counts) = self.fates[n];
            let counters = [
                ("packets", packets),
                ("marked", counts.marked),
                ("early", counts.early),
                ("forced", counts.forced),
            ];
            for (what, value) in counters {
                sink.counter(&format!("{what}_{name}"), value);
            }
            sink.gauge(&format!("average_bytes_{name}"), self.average(n).0);
        }
    }
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
        r.fail(key, format!("{key} is missing"), Some(THRESHOLD.to_owned()));
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
