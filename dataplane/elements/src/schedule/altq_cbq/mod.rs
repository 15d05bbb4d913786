//! # Synopsis
//! [`AltqCbq`] shares a link between classes as the class-based queueing of ALTQ did, faults included: a baseline to
//! compare with, not a scheduler to choose.
//!
//! # Ports
//! A discipline; as the element `AltqCbq`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! Lists have one value a class, or one for all, in the order of `classes`, separated by spaces.
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `classes` (or first) | names | | required | 1 … 32, parents before children |
//! | `rate` | rate | bit/s | required | 1 … 10¹² |
//! | `share` | list of rates or per cent of `rate` | bit/s | required | above 0; children within their parent |
//! | `dscp` | list: code points joined by `+`, `-` for all others, `none` | | required with several leaves | leaves only; one `-` |
//! | `parent` | list of classes | | `root` | `root` or a class before |
//! | `borrow` | list of `no`, `yes` | from the parent | `no` | |
//! | `priority` | list of numbers | 7 first | 1 | 0 … 7 |
//! | `limit` | list of numbers | packets | 50 | 1 … 100,000 |
//! | `queue` | list of `fifo`, `red` | | `fifo` | |
//! | `packet` | list of numbers: average size | byte | 1500 | 64 … 65,536 |
//! | `maxburst`, `minburst` | lists of numbers | packets | 16 (4 if a packet owes over 10 ms), 2 | 1 … 64 |
//! | `floor` | list of times | ns | one `packet` at the share | 1 ns … 1,000 s |
//! | `red_min`, `red_max`, `red_max_p` | part of `limit`, probability | | 30 %, 90 %, 10 % | `red_min` below `red_max` |
//! | `red_weight`, `red_ecn` | log₂ of 1/w; yes, no | | by rate 9, 7 or 6; no | 1 … 16 |
//! | `hz` | number | ticks a second | 1000 | 1 … 1,000,000 |
//! | `efficient` | yes, no | | no | |
//! | `scheduler` | `wrr`, `prr` | | `wrr` | |
//! | `adjust_cutoff` | yes, no | | yes | |
//! | `overhead`, `mtu` | size | byte | 0, 1500 | 0 … 256, 64 … 65,536 |
//!
//! # Behaviour
//! A packet goes to the class of its code point. Each packet sent updates an average of the idle time of its class and
//! of every class above: the gap to the packet before, less what the packet takes at the class's share. At zero or below
//! a class is over its share until the time that brings the average back to zero. Classes are asked in order of priority,
//! within one by deficit round robin (`wrr`) or packet by packet (`prr`). One that is over its share may send with the
//! share of the nearest class above that lends to it and is not over its own, up to the cut-off depth, which arrivals for
//! classes within their share lower. If nobody may send because of the cut-off it is raised by one and all are asked
//! again; with `adjust_cutoff = no` such a class is suspended instead, as in top-level sharing before that was added.
//!
//! A class that finds no lender is suspended: until its average has recovered and its off-time, which is the longer the
//! smaller its share, has passed. Suspensions end at a tick of the emulated kernel clock, the second from now at the
//! earliest, or when somebody else's packet makes the scheduler look after that time. While suspended it cannot borrow.
//! With `efficient`, when nobody may send, the first class found that has a lender sends nonetheless.
//!
//! Packets over a class's limit are dropped on arrival (`queue_full`); with RED, which counts packets, `red_early`,
//! `red_forced`. Where ALTQ drops the oldest packet of a full queue, this drops the newest.
//!
//! # Counters
//! For each class `overlimit_CLASS`, `borrows_CLASS`; for leaves also `packets_CLASS`, `bytes_CLASS`, `delays_CLASS`
//! (suspensions), `over_actions_CLASS`, `dropped_CLASS`, gauges `backlog_bytes_CLASS`, `backlog_packets_CLASS`.
//!
//! # Invariants
//! Order is kept inside a class. While a leaf with packets is within its share, something is sent. Everything that waits
//! is either allowed to go or wakes at a tick. With `efficient` and `borrow` everywhere the link never idles.
//!
//! # Example
//! `AltqCbq(control voip ftp, rate = 10 Mbit/s, share = 2% 30% 68%, dscp = CS6 EF -, queue = fifo fifo red)`
//!
//! # Source
//! Floyd and Jacobson, *Link-sharing and Resource Management Models for Packet Networks*, IEEE/ACM ToN 3(4), 1995;
//! Cho, *A Framework for Alternate Queueing*, USENIX 1998, and the behaviour of ALTQ 3; Huttunen, *Measurements on
//! Differentiation of Internet Traffic*, 2005, §5 and §8.3.

mod class;
mod config;
mod estimator;
mod law;
mod link_share;
#[cfg(test)]
mod tests;

pub use class::{Class, ClassCounters};
pub use config::{CbqConfig, ClassConfig, MAX_CLASSES, RedSettings};
pub use estimator::{Estimator, EstimatorConfig};
pub(super) use law::CbqLaw;
pub use law::{CbqClass, CbqLine};

use super::pump::Pump;
use super::transmitter::{Transmitter, TransmitterConfig};
use crate::plumbing::adapter::as_any;
use link_share::{Choice, LinkShare};
use perhop_element::{
    Budget, CounterSink, Cx, Delta, Discipline, ElementState, ElementType, Head, PortCount, Reader,
};
use perhop_packet::{Batch, DropReason};
use perhop_units::{Bytes, Instant};

/// The discipline.
pub struct AltqCbq {
    config: CbqConfig,
    share: LinkShare,
    /// What [`Discipline::peek`] promised.
    promised: Option<Choice>,
    held: u64,
    held_bytes: u64,
}

impl AltqCbq {
    /// An idle tree.
    pub fn new(config: &CbqConfig) -> Self {
        Self { config: config.clone(), share: LinkShare::new(config), promised: None, held: 0, held_bytes: 0 }
    }

    /// A class by its name; the root is `root`.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.share.classes.iter().find(|c| c.name == name)
    }

    fn leaves(&mut self) -> impl Iterator<Item = &mut Class> {
        self.share.classes.iter_mut().filter(|c| c.depth == 0)
    }

    fn recount(&mut self) {
        self.held = self.share.classes.iter().map(|c| c.queue.len() as u64).sum();
        self.held_bytes = self.share.classes.iter().map(|c| c.queue.frame_bytes()).sum();
    }

    fn choose(&mut self, now: Instant) -> Option<Choice> {
        if self.promised.is_none() && self.held > 0 {
            self.share.expire(now);
            self.promised = self.share.choose(now);
        }
        self.promised
    }

    fn delta(&self, before: (u64, u64)) -> Delta {
        Delta::between(before, (self.held, self.held_bytes))
    }
}

impl Discipline for AltqCbq {
    fn type_name(&self) -> &'static str {
        "AltqCbq"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        let now = cx.now();
        self.promised = None;
        self.share.expire(now);
        for packet in batch.drain() {
            let layout = &packet.meta().layout;
            let tos = (layout.ip_version != 0).then_some(layout.tos);
            // The root comes first among the nodes.
            let Some(class) = self.config.dscp.find(tos).map(|class| usize::from(class) + 1) else {
                cx.drop(packet, DropReason::NoClass);
                continue;
            };
            let len = packet.len() as u64;
            self.share.arrives(now, class);
            let class = &mut self.share.classes[class];
            let waiting = class.queue.len();
            class.offer(cx, packet);
            if class.queue.len() > waiting {
                self.held += 1;
                self.held_bytes += len;
            }
        }
        self.delta(before)
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        let choice = self.choose(cx.now())?;
        let len = self.share.classes[choice.class].queue.front_len()?;
        Some(Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        let now = cx.now();
        let mut bytes = 0;
        for _ in 0..budget.packets {
            if bytes >= budget.bytes {
                break;
            }
            let Some(choice) = self.choose(now) else { break };
            self.promised = None;
            let class = &mut self.share.classes[choice.class];
            let Some(packet) = class.pop(now) else { break };
            let len = packet.len() as u64;
            class.counters.packets += 1;
            class.counters.bytes += len;
            out.push(packet);
            bytes += len;
            self.held -= 1;
            self.held_bytes -= len;
            self.share.sent(now, choice, Bytes(len + u64::from(self.config.overhead)));
        }
        self.delta(before)
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.share.next_wakeup()
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        for class in &self.share.classes[1..] {
            class.report(sink);
        }
    }

    fn length_ranges(&mut self, now: Instant, each: &mut dyn FnMut(&str, [u64; 2])) {
        for class in self.leaves() {
            each(&class.name, class.queue.length_range(now));
        }
    }

    fn drain(&mut self, out: &mut Batch) {
        self.promised = None;
        for class in self.leaves() {
            while let Some(packet) = class.queue.pop() {
                out.push(packet);
            }
        }
        self.recount();
    }

    fn export_state(&mut self) -> Option<ElementState> {
        self.promised = None;
        (self.held, self.held_bytes) = (0, 0);
        let old = std::mem::replace(&mut self.share, LinkShare::new(&self.config));
        Some(Box::new(CbqState(old.classes)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut state = state.downcast::<CbqState>()?;
        let same = state.0.len() == self.share.classes.len()
            && state
                .0
                .iter()
                .zip(&self.share.classes)
                .all(|(old, new)| old.name == new.name && (old.depth == 0) == (new.depth == 0));
        if !same {
            return Err(state);
        }
        for (class, old) in self.share.classes.iter_mut().zip(&mut state.0) {
            class.adopt(old);
        }
        self.promised = None;
        self.recount();
        Ok(())
    }

    as_any!();
}

/// The classes of a predecessor, with their packets.
struct CbqState(Vec<Class>);

pub(super) const TYPE: ElementType = ElementType {
    name: "AltqCbq",
    synopsis: "class-based queueing as ALTQ had it: a baseline to compare with",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let config = config::read(&mut r);
        let mut line = TransmitterConfig { rate: config.rate, ..Default::default() };
        line.overhead_bytes = config.overhead;
        // Nothing is built of what is wrong.
        r.finish(())?;
        let cbq = Box::new(AltqCbq::new(&config));
        Ok(Box::new(Pump::named("AltqCbq", cbq, Transmitter::new(line), None)))
    },
    sample: |rng| {
        let (rate, hz) = (1 + rng.next_u32() % 50, [100, 1000, 10_000][(rng.next_u32() % 3) as usize]);
        let yes = |n: u32| if n.is_multiple_of(2) { "yes" } else { "no" };
        format!(
            "control rt nrt voip http, parent = root root root rt nrt, share = 2% 30% 68% 20% 30%, \
             borrow = no no {} yes {}, priority = 7 1 1 2 1, dscp = CS6 none none EF+AF41 -, limit = 20, \
             queue = fifo fifo fifo fifo red, rate = {rate} Mbit/s, hz = {hz}, efficient = {}, \
             adjust_cutoff = {}, scheduler = {}",
            yes(rng.next_u32()),
            yes(rng.next_u32()),
            yes(rng.next_u32()),
            yes(rng.next_u32()),
            if rng.next_u32().is_multiple_of(2) { "wrr" } else { "prr" },
        )
    },
};
