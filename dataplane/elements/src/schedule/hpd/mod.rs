//! # Synopsis
//! [`Hpd`] keeps the waiting times of classes in proportion, and within bounds where some are given: hybrid proportional
//! delay.
//!
//! # Ports
//! A discipline; as the element `Hpd`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! Lists have one value a class, or one for all, in the order of `classes`, separated by spaces.
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `classes` (or first) | class names | | required | 1 … 16 |
//! | `rate` | rate | bit/s | required | 1 … 10¹² |
//! | `delays` | list of numbers | proportions | 1, 2, 4 … | 1 … 1,000,000 |
//! | `bounds` | list of times, `-` for none | ns | none | 1 µs … 60 s |
//! | `g` | part | | 87.5 % | 0 … 100 % |
//! | `memory` | number | packets | 65536 | 2 … 10⁹ |
//! | `dscp` | list: code points joined by `+`, `-` for all others | | by logical class | one `-` |
//! | `limit` | packets, size or duration | each class | 100 ms | |
//! | `overhead` | size | byte a packet | 0 | 0 … 256 |
//! | `frame` | size: largest frame | byte | 1514 | 64 … 65,536 |
//!
//! # Behaviour
//! With `dscp` a packet goes to the class of its code point, otherwise to its logical class, or to the last class when
//! none has it. The class goes next whose `g · average + (1 − g) · waited`, divided by its number in `delays`, is largest:
//! `average` is the waiting time of the packets it sent (long term: with `g` = 100 % proportional average delay), `waited`
//! that of its oldest packet (short term: with `g` = 0 waiting-time priority). Equal classes go in the order written. The
//! average forgets half when it holds `memory` packets. So classes get whatever part of the line holds their delays in
//! proportion; nobody provisions shares.
//!
//! Bounds come first: when one more frame of another class, and all that classes with bounds hold, could make some packet
//! miss its bound, the packets of classes with bounds go in the order of their deadlines. A bound that more traffic
//! arrives for than the line can send in time is missed, and counted; it then starves classes without bounds: police it.
//!
//! # Counters
//! For each class `packets_CLASS`, `bytes_CLASS`, `dropped_CLASS`, `waited_ns_CLASS` (sum), `urgent_CLASS` (sent because a
//! bound was near), `late_CLASS` (sent after its bound), gauges `backlog_bytes_CLASS`, `backlog_packets_CLASS`,
//! `average_wait_ns_CLASS`, `longest_wait_ns_CLASS`.
//!
//! # Invariants
//! Work conserving. Order is kept inside a class. With bounds that are feasible (arrivals of the classes that have them,
//! and one frame, fit into the line before every deadline) no packet waits longer than its bound.
//!
//! # Example
//! `Hpd(voip web bulk, rate = 2 Mbit/s, delays = 1 4 16, bounds = 20ms - -, dscp = EF AF21 -)`
//!
//! # Source
//! Dovrolis, Stiliadis and Ramanathan, *Proportional Differentiated Services: Delay Differentiation and Packet Scheduling*,
//! IEEE/ACM ToN 10(1), 2002, §IV–VI (PAD, WTP, HPD; g = 0.875). The bound is the proposal of Huttunen, *Measurements on
//! Differentiation of Internet Traffic*, 2005; how nearness to it is found is our own.

mod delay_class;
mod law;
#[cfg(test)]
mod tests;

pub use delay_class::{DelayClass, DelayConfig, DelayCounters};
pub use law::HpdGoal;
pub(super) use law::HpdLaw;

use super::bands::MAX_BANDS;
use super::lists::Lists;
use super::pump::Pump;
use super::transmitter::{Transmitter, TransmitterConfig};
use super::tree_names::NAMES;
use crate::classify::DscpTable;
use crate::plumbing::adapter::as_any;
use crate::plumbing::set_class::is_name;
use crate::queue::FifoConfig;
use perhop_element::{
    ArgError, Args, Budget, BuildCx, CounterSink, Cx, Delta, Discipline, Element, ElementState, ElementType,
    Head, PortCount, Reader,
};
use perhop_packet::{Batch, ClassId, DropReason, Packet};
use perhop_units::{Bytes, Duration, Instant, Probability, QueueLimit, Rate};

/// What the whole discipline is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpdConfig {
    /// Rate of the line; above zero.
    pub rate: Rate,
    /// The largest frame, in bytes.
    pub frame: u64,
    /// What the line adds to each frame, in bytes.
    pub overhead: u32,
    /// Weight of the long-term average.
    pub g: Probability,
    /// Packets the average remembers; at least 2.
    pub memory: u64,
    /// Bound of each queue.
    pub limit: QueueLimit,
    /// The classes and their logical classes; at least one.
    pub classes: Vec<(DelayConfig, ClassId)>,
    /// The class of each code point instead of logical classes.
    pub dscp: Option<DscpTable>,
}

/// The discipline.
#[derive(Debug)]
pub struct Hpd {
    config: HpdConfig,
    classes: Vec<DelayClass>,
    /// What [`Discipline::peek`] promised: the class, and whether for its bound.
    promised: Option<(usize, bool)>,
    held: u64,
    held_bytes: u64,
}

impl Hpd {
    /// Empty classes.
    pub fn new(config: HpdConfig) -> Self {
        let classes = Self::empty(&config);
        Self { config, classes, promised: None, held: 0, held_bytes: 0 }
    }

    fn empty(config: &HpdConfig) -> Vec<DelayClass> {
        let queue = FifoConfig { limit: config.limit, rate: config.rate, overhead: config.overhead };
        config.classes.iter().map(|(class, _)| DelayClass::new(class.clone(), queue)).collect()
    }

    /// A class by its name.
    pub fn class(&self, name: &str) -> Option<&DelayClass> {
        self.classes.iter().find(|c| c.config.name == name)
    }

    fn class_of(&self, packet: &Packet) -> usize {
        let last = self.classes.len() - 1;
        let meta = packet.meta();
        match &self.config.dscp {
            Some(table) => {
                let tos = (meta.layout.ip_version != 0).then_some(meta.layout.tos);
                table.find(tos).map_or(last, |class| usize::from(class).min(last))
            }
            None => self.config.classes.iter().position(|(_, id)| *id == meta.class).unwrap_or(last),
        }
    }

    /// The class that goes next, and whether because of its bound. O(classes).
    fn choose(&mut self, now: Instant) -> Option<(usize, bool)> {
        if self.promised.is_none() && self.held > 0 {
            let urgent = self.most_urgent(now).map(|class| (class, true));
            self.promised = urgent.or_else(|| self.most_delayed(now).map(|class| (class, false)));
        }
        self.promised
    }

    /// The class with the earliest deadline, if one more frame of another class could be one too many.
    fn most_urgent(&self, now: Instant) -> Option<usize> {
        let bounded = || self.classes.iter().filter(|c| c.config.bound.is_some() && !c.queue.is_empty());
        let waiting: u64 = bounded().map(DelayClass::backlog).sum();
        let frame = self.config.frame + u64::from(self.config.overhead);
        if !bounded().any(|c| c.is_tight(now, self.config.rate.0, frame + waiting - c.backlog())) {
            return None;
        }
        let deadlines = self.classes.iter().enumerate().filter_map(|(n, c)| Some((c.deadline()?, n)));
        deadlines.min().map(|(_, n)| n)
    }

    /// The class whose delay is largest in proportion.
    fn most_delayed(&self, now: Instant) -> Option<usize> {
        let waiting = self
            .classes
            .iter()
            .enumerate()
            .filter_map(|(n, class)| Some((n, class.average(), class.waited(now)?, class.config.delay)));
        law::most_delayed(self.config.g, waiting)
    }

    fn recount(&mut self) {
        self.held = self.classes.iter().map(|c| c.queue.len() as u64).sum();
        self.held_bytes = self.classes.iter().map(|c| c.queue.frame_bytes()).sum();
    }

    fn delta(&self, before: (u64, u64)) -> Delta {
        Delta::between(before, (self.held, self.held_bytes))
    }
}

impl Discipline for Hpd {
    fn type_name(&self) -> &'static str {
        "Hpd"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        self.promised = None;
        for packet in batch.drain() {
            let len = packet.len() as u64;
            let class = self.class_of(&packet);
            match self.classes[class].offer(cx.now(), self.config.rate.0, packet) {
                Ok(()) => {
                    self.held += 1;
                    self.held_bytes += len;
                }
                Err(packet) => cx.drop(packet, DropReason::QueueFull),
            }
        }
        self.delta(before)
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        let (class, _) = self.choose(cx.now())?;
        self.classes[class].queue.front_len().map(|len| Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        let mut bytes = 0;
        for _ in 0..budget.packets {
            if bytes >= budget.bytes {
                break;
            }
            let Some((class, urgent)) = self.choose(cx.now()) else { break };
            self.promised = None;
            let class = &mut self.classes[class];
            let Some(packet) = class.pop(cx.now(), self.config.memory) else { break };
            class.counters.urgent += u64::from(urgent);
            let len = packet.len() as u64;
            bytes += len;
            self.held -= 1;
            self.held_bytes -= len;
            out.push(packet);
        }
        self.delta(before)
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        for class in &self.classes {
            let (name, c) = (&class.config.name, class.counters);
            let counters = [
                ("packets", c.packets),
                ("bytes", c.bytes),
                ("dropped", c.dropped),
                ("waited_ns", c.waited_ns),
                ("urgent", c.urgent),
                ("late", c.late),
            ];
            for (what, value) in counters {
                sink.counter(&format!("{what}_{name}"), value);
            }
            sink.gauge(&format!("backlog_bytes_{name}"), class.queue.frame_bytes());
            sink.gauge(&format!("backlog_packets_{name}"), class.queue.len() as u64);
            sink.gauge(&format!("average_wait_ns_{name}"), class.average());
            sink.gauge(&format!("longest_wait_ns_{name}"), c.longest_ns);
        }
    }

    fn length_ranges(&mut self, now: Instant, each: &mut dyn FnMut(&str, [u64; 2])) {
        for class in &mut self.classes {
            each(&class.config.name, class.queue.length_range(now));
        }
    }

    fn drain(&mut self, out: &mut Batch) {
        self.promised = None;
        for class in &mut self.classes {
            while let Some(packet) = class.queue.pop() {
                out.push(packet);
            }
            class.drained();
        }
        self.recount();
    }

    fn export_state(&mut self) -> Option<ElementState> {
        self.promised = None;
        let classes = std::mem::replace(&mut self.classes, Self::empty(&self.config));
        self.recount();
        Some(Box::new(HpdState(classes)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut state = state.downcast::<HpdState>()?;
        let same = state.0.len() == self.classes.len()
            && state.0.iter().zip(&self.classes).all(|(old, new)| old.config.name == new.config.name);
        if !same {
            return Err(state);
        }
        for (class, old) in self.classes.iter_mut().zip(&mut state.0) {
            class.adopt(old, self.config.rate.0);
        }
        self.promised = None;
        self.recount();
        Ok(())
    }

    as_any!();
}

/// The classes of a predecessor, with their packets.
struct HpdState(Vec<DelayClass>);

fn read(r: &mut Reader<'_>, cx: &mut BuildCx) -> HpdConfig {
    let text: String = r.required("classes", Some(0), NAMES);
    let names: Vec<&str> = text.split_whitespace().take(MAX_BANDS).collect();
    let count = text.split_whitespace().count();
    if count > MAX_BANDS {
        let allowed = Some(format!("at most {MAX_BANDS}"));
        r.fail("classes", format!("{count} classes are too many"), allowed);
    }
    for (n, name) in names.iter().enumerate() {
        if !is_name(name) || names[..n].contains(name) {
            let allowed = Some(NAMES.to_owned());
            r.fail("classes", format!("{name} is not the name of another class"), allowed);
        }
    }
    let mut lists = Lists { r, count: names.len() };
    let delays = lists.values("delays", 1..=1_000_000u32);
    let bounds = lists.values("bounds", Duration::from_micros(1)..=Duration::from_secs(60));
    let dscp = lists.code_points(|_| true);
    let class = |(n, name): (usize, &&str)| {
        let config =
            DelayConfig { name: (*name).to_owned(), delay: delays[n].unwrap_or(1 << n), bound: bounds[n] };
        (config, if is_name(name) { cx.class(name) } else { ClassId::default() })
    };
    let classes = names.iter().enumerate().map(class).collect();
    HpdConfig {
        rate: r.required_in("rate", None, crate::meter::RATE_RANGE),
        frame: r.optional_in("frame", None, Bytes(1514), Bytes(64)..=Bytes(65_536)).0,
        overhead: r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256)).0 as u32,
        g: r.optional("g", None).unwrap_or(law::LONG_TERM),
        memory: r.optional_in("memory", None, law::MEMORY, 2..=1_000_000_000),
        limit: r.optional("limit", None).unwrap_or(QueueLimit::Time(Duration(100_000_000))),
        classes,
        dscp,
    }
}

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let config = read(&mut r, cx);
    // Nothing is built of what is wrong: at least one class is there.
    r.finish(())?;
    let line = TransmitterConfig { rate: config.rate, overhead_bytes: config.overhead, ..Default::default() };
    Ok(Box::new(Pump::named("Hpd", Box::new(Hpd::new(config)), Transmitter::new(line), None)))
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Hpd",
    synopsis: "keeps waiting times of classes in proportion and within bounds",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build,
    sample: |rng| {
        let (rate, delay) = (1 + rng.next_u32() % 50, 1 + rng.next_u32() % 20);
        let classes = ["", ", dscp = EF+VA AF41 -"][(rng.next_u32() % 2) as usize];
        let bounds = ["- - -", "5ms - -", "2ms 30ms -"][(rng.next_u32() % 3) as usize];
        format!(
            "ef af41 be, rate = {rate} Mbit/s, delays = 1 {delay} 40, bounds = {bounds}, g = {} %, \
             memory = 100, limit = 20 packets{classes}",
            rng.next_u32() % 101
        )
    },
};
