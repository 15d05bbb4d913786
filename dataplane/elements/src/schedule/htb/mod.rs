//! # Synopsis
//! `Htb` gives each class of a tree a rate of its own and lets it borrow from the classes above up to a ceiling:
//! hierarchical token buckets.
//!
//! # Ports
//! A discipline; as the element `Htb`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! Lists have one value a class, or one for all, in the order of `classes`, separated by spaces; values are written
//! without spaces.
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `classes` (or first) | names | | required | 1 … 64, parents before children |
//! | `rate` | rate: the line's | bit/s | required | 1 … 10¹² |
//! | `parent` | list of classes | | `root` | `root` (the line) or a class before |
//! | `rates` | list of rates | bit/s | required | 1 … `rate`; children within their parent |
//! | `ceils` | list of rates, `-` for the line's | bit/s | `rate` | the class's rate … `rate` |
//! | `bursts`, `cbursts` | lists of sizes | byte | two `frame`, or 1 ms at its rate or ceiling | `frame` … 500,000,000 |
//! | `priority` | list of numbers, of leaves | first 0 | 0 | 0 … 7 |
//! | `quanta` | list of sizes, of leaves | byte a turn | in proportion to `rates`, the most `frame`, the least 64 at the least | 64 … 1,000,000 |
//! | `limit` | list of queue limits, as `20ms` | packets, byte or ns at `rate` | `100ms` | |
//! | `dscp` | list: code points joined by `+`, `-` for all others, `none` | | by logical class | leaves only; one `-` |
//! | `overhead` | size | byte a packet | 0 | 0 … 256 |
//! | `frame` | size: largest frame | byte | 1514 | 64 … 65,536 |
//!
//! # Behaviour
//! A packet goes to the leaf of its code point or, without `dscp`, of its logical class; to the last class if none has
//! it. A class may send while its bucket of `rate` is not empty; one that is empty borrows from its parent, and so on up
//! to the line, which lends what is left; nobody may whose bucket of its ceiling is empty. Lenders that are nearer to the
//! leaves come first, at equal height lower numbers of `priority`, then in turn by deficit round robin with the leaf's
//! quantum; one that owes more than its quantum has its turn passed by. A packet is paid by the lender and all above it; a class
//! that borrowed keeps earning its own rate.
//!
//! # Counters
//! For each class `borrows_CLASS` (packets sent below it that somebody else paid), `lends_CLASS` of one with children; for leaves
//! `packets_CLASS`, `bytes_CLASS`, `dropped_CLASS`, gauges `backlog_bytes_CLASS`, `backlog_packets_CLASS`.
//!
//! # Invariants
//! In any time t a leaf sends at most its ceiling times t, its `cbursts` and one packet; a class with children besides the
//! `bursts` of the leaves in it, which use their own rates whatever it has. A leaf that always has packets
//! gets its rate; of what is left, the lowest number of `priority` gets as much as its ceiling allows before the next
//! gets anything, and equal ones in proportion to their quanta. Work conserving where no ceiling forbids it. Order is kept
//! inside a leaf. Shares in a second are those of water-filling within 1 % of the line where `cbursts` and a packet are
//! together at most that much, since a ceiling allows both besides its rate, and turns are as short as the default's. O(depth)
//! for each packet where quanta are at least `frame`, otherwise for each leaf in turn as often as its quantum goes into a
//! packet; and O(log classes) where a class changes what it may do.
//!
//! # Example
//! `Htb(voice data web bulk, parent = root root data data, rate = 10 Mbit/s, rates = 1Mbit/s 8Mbit/s 5Mbit/s 3Mbit/s,
//! ceils = 2Mbit/s - - 6Mbit/s, priority = 0 0 1 2, dscp = EF none AF21 -)`
//!
//! # Source
//! M. Devera, *Hierarchical token bucket theory*, 2002, §1–§4. A token bucket holds 10⁻⁹ bit; there is no tick, so that
//! bursts need not cover one.

mod law;
#[cfg(test)]
mod tests;

pub(super) use law::HtbLaw;
pub use law::{HtbClass, PRIORITIES};

use super::hfsc::read_limits;
use super::leaves::Leaves;
use super::lists::Lists;
use super::tree_names::TreeNames;
use crate::meter::MAX_BURST;
use crate::queue::FifoConfig;
use perhop_element::{ArgError, Args, BuildCx, Element, ElementType, PortCount, Reader};
use perhop_units::{Bytes, Duration, Rate};

/// The smallest turn and the largest, bytes.
const MIN_QUANTUM: u64 = 64;
const MAX_QUANTUM: u64 = 1_000_000;

/// The turn of a leaf that is told none, in proportion to its rate: that of the largest rate is `frame`, or what leaves
/// [`MIN_QUANTUM`] for the least. Short turns keep others from waiting while the buckets of their ceilings run over.
fn quantum(own: Rate, least: Rate, most: Rate, frame: Bytes) -> u32 {
    let part = |bytes: u64, of: Rate| {
        let of = u128::from(of.0.max(1));
        (u128::from(bytes) * u128::from(own.0) + of / 2) / of
    };
    let bytes = part(frame.0, most).max(part(MIN_QUANTUM, least));
    bytes.clamp(u128::from(MIN_QUANTUM), u128::from(MAX_QUANTUM)) as u32
}

fn read(r: &mut Reader<'_>, tree: &TreeNames, rate: Rate, frame: Bytes) -> Vec<HtbClass> {
    let count = tree.len();
    if r.text("rates", None).is_none() {
        r.fail("rates", "rates is missing".to_owned(), Some("above 0, at most the link's rate".to_owned()));
    }
    let mut lists = Lists { r, count };
    let rates = lists.values("rates", Rate(1)..=rate);
    let ceils = lists.values("ceils", Rate(1)..=rate);
    let bursts = lists.values("bursts", frame..=MAX_BURST);
    let cbursts = lists.values("cbursts", frame..=MAX_BURST);
    let priority = lists.values("priority", 0..=PRIORITIES as u8 - 1);
    let quanta = lists.values("quanta", Bytes(MIN_QUANTUM)..=Bytes(MAX_QUANTUM));
    let rate_of = |n: usize| rates[n].unwrap_or(Rate(1));
    let leaves = || (0..count).filter(|n| tree.is_leaf(*n)).map(rate_of);
    let (least, most) = (leaves().min().unwrap_or(rate), leaves().max().unwrap_or(rate));
    let burst = |rate: Rate| {
        let usual = rate.bytes_in(Duration::from_millis(1)).max(Bytes(2 * frame.0));
        usual.min(MAX_BURST)
    };
    let class = |n: usize| {
        let own = rate_of(n);
        let ceil = ceils[n].unwrap_or(rate);
        HtbClass {
            parent: tree.parents[n],
            rate: own,
            ceil,
            burst: bursts[n].unwrap_or(burst(own)),
            cburst: cbursts[n].unwrap_or(burst(ceil)),
            priority: priority[n].unwrap_or(0),
            quantum: quanta[n].map_or(quantum(own, least, most, frame), |q| q.0 as u32),
        }
    };
    let classes: Vec<HtbClass> = (0..count).map(class).collect();
    for (class, name) in classes.iter().zip(&tree.names).filter(|(c, _)| c.ceil < c.rate) {
        let message = format!("ceiling of {name}: {} is below its rate", class.ceil);
        r.fail("ceils", message, Some(format!("{} to {rate}", class.rate)));
    }
    check_rates(r, tree, &classes, rate);
    classes
}

/// The rates of the children of a class are parts of its own.
fn check_rates(r: &mut Reader<'_>, tree: &TreeNames, classes: &[HtbClass], rate: Rate) {
    let line = std::iter::once((None, "the line", rate));
    let parents = classes.iter().enumerate().map(|(n, c)| (Some(n), tree.names[n].as_str(), c.rate));
    for (parent, name, whole) in line.chain(parents) {
        let children = classes.iter().filter(|c| c.parent == parent).map(|c| c.rate);
        let sum = children.fold(Rate::ZERO, Rate::saturating_add);
        if sum > whole {
            let message = format!("the children of {name} have {sum} together, it has {whole}");
            r.fail("rates", message, Some(format!("at most {whole} together")));
        }
    }
}

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let tree = TreeNames::read(&mut r, cx);
    let rate = r.required_in("rate", None, crate::meter::RATE_RANGE);
    let overhead = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256)).0 as u32;
    let frame = r.optional_in("frame", None, Bytes(1514), Bytes(64)..=Bytes(65_536));
    let classes = read(&mut r, &tree, rate, frame);
    let queue = |limit| FifoConfig { limit, rate, overhead };
    let queues: Vec<FifoConfig> = read_limits(&mut r, tree.len()).into_iter().map(queue).collect();
    // Nothing is built of what is wrong.
    r.finish(())?;
    let law = HtbLaw::new(&classes);
    Ok(Leaves::of(tree, law, &queues).behind(rate))
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Htb",
    synopsis: "gives classes of a tree rates of their own and lets them borrow up to a ceiling",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build,
    sample: |rng| {
        let (rate, priority) = (1 + rng.next_u32() % 50, rng.next_u32() % 8);
        let dscp = ["", ", dscp = EF none AF41 -"][(rng.next_u32() % 2) as usize];
        format!(
            "ef data af41 be, parent = root root data data, rate = {rate} Mbit/s, \
             rates = 100kbit/s 900kbit/s 500kbit/s 300kbit/s, ceils = 200kbit/s - - 700kbit/s, \
             priority = 0 0 {priority} 3, limit = 20packets{dscp}"
        )
    },
};
