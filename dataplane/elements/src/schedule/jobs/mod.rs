//! # Synopsis
//! `Jobs` keeps delays and losses of classes in proportion and within bounds at once, by joint buffer management and
//! scheduling.
//!
//! # Ports
//! A discipline; as the element `Jobs`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! Lists have one value a class, or one for all, in the order of `classes`, separated by spaces; values are written
//! without spaces.
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `classes` (or first) | class names | | required | 1 … 16 |
//! | `rate` | rate | bit/s | required | 1 … 10¹² |
//! | `delays` | list of numbers, `-` for no proportion | proportions | 1 | 1 … 1,000,000 |
//! | `bounds` | list of times, `-` for none | ns | none | 1 µs … 60 s |
//! | `losses` | list of numbers | proportions | 1 | 1 … 1,000,000 |
//! | `loss_bounds` | list of parts, `-` for none | | none | 0 … 100 % |
//! | `rates` | list of rates, `-` for none | bit/s | none | 1 … `rate`, together at most `rate` |
//! | `dscp` | list: code points joined by `+`, `-` for all others | | by logical class | one `-` |
//! | `limit` | queue limit, of all classes together | packets, byte or ns at `rate` | `100ms` | |
//! | `overhead` | size | byte a packet | 0 | 0 … 256 |
//!
//! # Behaviour
//! Classes share one buffer and the line. With each packet that comes or goes their rates move: delays above the mean in
//! proportion raise a class's rate, delays below lower it; every class keeps its rate of `rates` and what brings all of
//! its packets out within its bound. A class sends when it is furthest behind its rate. A packet is lost, the oldest of
//! its class, when the buffer is full (`queue_full`) or when the rates that the bounds need are together more than the
//! line's (`codel`: it would wait too long): that of the class whose loss is least in proportion and within its bound; in
//! the second case of classes with bounds only. Loss bounds come before delay bounds, and a full buffer before both.
//! Losses are counted from the last time that everything was empty.
//!
//! # Counters
//! For each class `packets_CLASS`, `bytes_CLASS`, `dropped_CLASS` (of both kinds), `late_CLASS` (sent after its bound),
//! `over_loss_CLASS` (dropped although its loss bound forbids it), gauges `backlog_bytes_CLASS`, `backlog_packets_CLASS`,
//! `rate_bps_CLASS`.
//!
//! # Invariants
//! Work conserving. Order is kept inside a class. The buffer's bound holds after every call. The rates of classes with packets
//! are the line's. Under a steady overload losses are in proportion within 10 %, and mean delays within 5 %, of classes with equal
//! loads and where one has a fourth of another's; a bound that can be kept is, within two of the line's largest packets.
//! O(classes) for each packet.
//!
//! # Example
//! `Jobs(voice web bulk, rate = 10 Mbit/s, delays = - 1 4, bounds = 10ms - -, losses = 1 1 2, loss_bounds = 0.1% - -)`
//!
//! # Source
//! Christin, Liebeherr and Abdelzaher, *A Quantitative Assured Forwarding Service*, IEEE INFOCOM 2002 (feedback loops for
//! rates and losses); Liebeherr and Christin, *JoBS: Joint Buffer Management and Scheduling for Differentiated Services*,
//! IWQoS 2001. The gain is an eighth of the largest stable one; the delay that is fed back also looks ahead; packets are
//! dropped at the head, where the source drops from the backlog anywhere: these are ours.

mod law;
#[cfg(test)]
mod tests;

pub use law::JobsClass;
pub(super) use law::JobsLaw;

use super::bands::MAX_BANDS;
use super::hfsc::read_limits;
use super::leaves::Leaves;
use super::lists::Lists;
use super::tree_names::TreeNames;
use crate::queue::{FifoConfig, MAX_PACKETS};
use perhop_element::{ArgError, Args, BuildCx, Element, ElementType, PortCount, Reader};
use perhop_units::{Bytes, Duration, Probability, QueueLimit, Rate};

/// The discipline.
type Jobs = Leaves<JobsLaw>;

impl Jobs {
    fn new(tree: TreeNames, rate: Rate, limit: QueueLimit, overhead: u32, configs: Vec<JobsClass>) -> Self {
        // All classes together are bounded by the law.
        let queue = FifoConfig { limit: QueueLimit::Packets(MAX_PACKETS), rate: Rate::ZERO, overhead };
        let queues = vec![queue; configs.len()];
        Self::of(tree, JobsLaw::new(rate, limit, configs), &queues)
    }
}

fn read(r: &mut Reader<'_>, tree: &TreeNames, rate: Rate) -> Vec<JobsClass> {
    if tree.len() > MAX_BANDS {
        let allowed = Some(format!("at most {MAX_BANDS}"));
        r.fail("classes", format!("{} classes are too many", tree.len()), allowed);
    }
    let mut lists = Lists { r, count: tree.len() };
    let delays = lists.words("delays");
    let weights = lists.values("delays", 1..=1_000_000u32);
    let bounds = lists.values("bounds", Duration::from_micros(1)..=Duration::from_secs(60));
    let losses = lists.values("losses", 1..=1_000_000u32);
    let loss_bounds = lists.values("loss_bounds", Probability::ZERO..=Probability::ONE);
    let rates = lists.values("rates", Rate(1)..=rate);
    let sum = rates.iter().flatten().fold(Rate::ZERO, |sum, rate| sum.saturating_add(*rate));
    if sum > rate {
        r.fail("rates", format!("rates are {sum} together"), Some(format!("at most {rate} together")));
    }
    let class = |n: usize| JobsClass {
        delay: if delays.is_empty() { Some(1) } else { weights[n] },
        bound: bounds[n],
        loss: losses[n].unwrap_or(1),
        loss_bound: loss_bounds[n],
        rate: rates[n].unwrap_or_default(),
    };
    (0..tree.len()).map(class).collect()
}

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let tree = TreeNames::read_flat(&mut r, cx);
    let rate = r.required_in("rate", None, crate::meter::RATE_RANGE);
    let overhead = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256)).0 as u32;
    let classes = read(&mut r, &tree, rate);
    let limit = read_limits(&mut r, 1)[0];
    // Nothing is built of what is wrong.
    r.finish(())?;
    Ok(Jobs::new(tree, rate, limit, overhead, classes).behind(rate))
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Jobs",
    synopsis: "keeps delays and losses of classes in proportion and within bounds",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build,
    sample: |rng| {
        let (rate, delay) = (1 + rng.next_u32() % 50, 1 + rng.next_u32() % 20);
        let dscp = ["", ", dscp = EF+VA AF41 -"][(rng.next_u32() % 2) as usize];
        format!(
            "ef af41 be, rate = {rate} Mbit/s, delays = - 1 {delay}, bounds = 5ms - -, losses = 1 1 2, \
             loss_bounds = 1% - -, rates = 100kbit/s - -, limit = 30packets{dscp}"
        )
    },
};
