//! # Synopsis
//! `Hfsc` guarantees leaves of a tree of classes a service curve each, and so rate and delay apart, and shares what is left
//! along the tree: the hierarchical fair service curve.
//!
//! # Ports
//! A discipline; as the element `Hfsc`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! Lists have one value a class, or one for all, in the order of `classes`, separated by spaces. A curve is a rate, or
//! `RATE:TIME:RATE`: at the first rate for that time, then at the second; written without spaces; `-` for none.
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `classes` (or first) | names | | required | 1 … 64, parents before children |
//! | `rate` | rate | bit/s | required | 1 … 10¹² |
//! | `parent` | list of classes | | `root` | `root` or a class before |
//! | `rt` | list of curves: guarantee | | none | leaves only; all together within `rate` at any time |
//! | `ls` | list of curves: share | | the leaf's `rt` | required of interior classes; a 100,000th of `rate` … `rate` |
//! | `ul` | list of curves: upper limit | | none | not below the guarantees in the class |
//! | `limit` | list of queue limits, as `20ms` | packets, byte or ns at `rate` | `100ms` | |
//! | `dscp` | list: code points joined by `+`, `-` for all others, `none` | | by logical class | leaves only; one `-` |
//! | `overhead` | size | byte a packet | 0 | 0 … 256 |
//! | `frame` | size: largest frame | byte | 1514 | 64 … 65,536 |
//!
//! # Behaviour
//! A packet goes to the leaf of its code point or, without `dscp`, of its logical class; to the last class if none has
//! it. If a guarantee is in danger unless something is sent now, the leaf whose packet is due first goes (by its `rt`).
//! Otherwise, from the root down, the child with the least virtual time goes: that which is behind in its `ls`. What went
//! by a guarantee counts for the share, not the other way round, so that nobody pays later for what was left over. A class
//! at its `ul` is passed over, with all below it, but for guarantees. A class that begins to send again gets the first
//! piece of its curves anew as far as it has not used it, and stands in the middle of its active siblings.
//!
//! # Counters
//! For leaves `by_guarantee_CLASS`, `by_share_CLASS` (packets), `packets_CLASS`, `bytes_CLASS`, `dropped_CLASS`, gauges
//! `backlog_bytes_CLASS`, `backlog_packets_CLASS`.
//!
//! # Invariants
//! A leaf that has packets from some time on has been served its `rt` curve from then, late by one largest packet on the
//! line at most. Active siblings get what their parent has in proportion to their `ls` rates. Of a linear `ul` no more
//! goes in any time t than t times it and two packets, or the guarantees. Work conserving where every leaf has a share
//! and none an upper limit. Order is kept inside a leaf. O(log classes) times the depth for each packet.
//!
//! # Example
//! `Hfsc(voice data web bulk, parent = root root data data, rate = 10 Mbit/s, rt = 1Mbit/s:10ms:500kbit/s - - -,
//! ls = 500kbit/s 9Mbit/s 6Mbit/s 3Mbit/s, ul = - - - 5Mbit/s, dscp = EF none AF21 -)`
//!
//! # Source
//! Stoica, Zhang and Ng, *A Hierarchical Fair Service Curve Algorithm for Link-Sharing, Real-Time and Priority Services*,
//! IEEE/ACM ToN 8(2), 2000 (SIGCOMM 1997), §IV–V. Upper limits, and what a class passed over does not get back, are as in
//! ALTQ, which the authors wrote; that a limit unused for a while is lost is ours.

mod curve;
mod law;
#[cfg(test)]
mod tests;

pub use curve::Curve;
pub use law::Curves;
pub(super) use law::HfscLaw;

use super::leaves::Leaves;
use super::lists::Lists;
use super::tree_names::TreeNames;
use crate::queue::FifoConfig;
#[cfg(test)]
use curve::Placed;
use curve::service_of;
use perhop_element::{ArgError, Args, BuildCx, Element, ElementType, PortCount, Reader};
use perhop_units::{Bytes, Duration, QueueLimit, Rate};

/// A class's share is at least the line's rate divided by this: virtual time would pass too fast.
const LEAST_SHARE: u64 = 100_000;
/// The longest first piece.
const LONGEST: Duration = Duration::from_secs(60);

/// Reads a list of curves within the line's rate; `None` where something is wrong.
fn curves(lists: &mut Lists<'_, '_>, key: &'static str, rate: Rate) -> Option<Vec<Option<Curve>>> {
    let words = lists.words(key);
    let mut curves = vec![None; lists.count];
    let mut good = !words.is_empty() || lists.r.text(key, None).is_none();
    for (curve, word) in curves.iter_mut().zip(&words).filter(|(_, word)| *word != "-") {
        match parse(word) {
            Ok(c) if c.m1 <= rate && c.m2 <= rate && c.d <= LONGEST && c.m1.0.max(c.m2.0) > 0 => {
                *curve = Some(c);
                continue;
            }
            Ok(_) => {
                let allowed = format!("rates up to {rate}, one above 0, and a time up to {LONGEST}");
                lists.r.fail(key, format!("{key} = {word} is out of range"), Some(allowed));
            }
            Err(e) => {
                let allowed = Some("a rate as 2Mbit/s, or 4Mbit/s:10ms:2Mbit/s, or -".to_owned());
                lists.r.fail(key, format!("{key} = {word}: {e}"), allowed);
            }
        }
        good = false;
    }
    good.then_some(curves)
}

fn parse(word: &str) -> Result<Curve, String> {
    let parts: Vec<&str> = word.split(':').collect();
    let rate = |text: &str| text.parse::<Rate>().map_err(|e| e.to_string());
    match parts[..] {
        [only] => rate(only).map(Curve::linear),
        [first, time, second] => Ok(Curve {
            m1: rate(first)?,
            d: time.parse::<Duration>().map_err(|e| e.to_string())?,
            m2: rate(second)?,
        }),
        _ => Err(format!("{} parts instead of 1 or 3", parts.len())),
    }
}

/// Where the sum of `parts` is above `whole`: the time and the two services; `None`: nowhere. Sums of such curves bend
/// only where one of them does, so that these times and what comes after the last one say all.
pub fn excess(parts: &[Curve], whole: Curve) -> Option<(Duration, u128, u128)> {
    let bends = parts.iter().map(|c| c.d).chain([whole.d]);
    let last = bends.clone().max().unwrap_or_default();
    bends.chain([Duration(1), last + Duration::from_secs(1)]).find_map(|t| {
        let sum = parts.iter().map(|c| c.service(t)).sum();
        (sum > whole.service(t)).then(|| (t, sum, whole.service(t)))
    })
}

fn bytes(service: u128) -> u128 {
    service.div_ceil(service_of(1))
}

/// Reads the curves of all classes and checks them against each other.
fn read_curves(r: &mut Reader<'_>, tree: &TreeNames, rate: Rate) -> Vec<Curves> {
    let mut lists = Lists { r, count: tree.len() };
    let rt = curves(&mut lists, "rt", rate);
    let ls = curves(&mut lists, "ls", rate);
    let ul = curves(&mut lists, "ul", rate);
    let (Some(rt), Some(ls), Some(ul)) = (rt, ls, ul) else { return Vec::new() };
    let mut all = Vec::new();
    for n in 0..tree.len() {
        let (name, leaf) = (&tree.names[n], tree.is_leaf(n));
        if rt[n].is_some() && !leaf {
            r.fail("rt", format!("rt of {name}: it has children"), Some("- for interior classes".to_owned()));
        }
        let share = ls[n].or(rt[n]);
        let least = Rate(rate.0.div_ceil(LEAST_SHARE));
        match share {
            Some(c) if c.m1.min(c.m2) < least => {
                let message = format!("share of {name}: a rate is below a {LEAST_SHARE}th of the line's");
                r.fail("ls", message, Some(format!("{least} to {rate}")));
            }
            None => r.fail("ls", format!("{name} has no ls, and no rt to take it from"), None),
            Some(_) => {}
        }
        let parent = tree.parents[n];
        all.push(Curves { parent, real_time: rt[n], link_share: share, upper_limit: ul[n] });
    }
    check_guarantees(r, tree, &all, rate);
    all
}

/// All guarantees together are within the line, and those in a class within its upper limit.
fn check_guarantees(r: &mut Reader<'_>, tree: &TreeNames, all: &[Curves], rate: Rate) {
    let within = |class: Option<usize>| -> Vec<Curve> {
        let inside = |mut n: usize| loop {
            match (Some(n) == class, tree.parents[n]) {
                (true, _) => break true,
                (_, Some(parent)) => n = parent,
                (_, None) => break class.is_none(),
            }
        };
        all.iter().enumerate().filter(|(n, _)| inside(*n)).filter_map(|(_, c)| c.real_time).collect()
    };
    if let Some((t, sum, whole)) = excess(&within(None), Curve::linear(rate)) {
        let message = format!(
            "rt: {} B are guaranteed in the first {t}, the line sends {} B",
            bytes(sum),
            whole / service_of(1)
        );
        r.fail("rt", message, Some(format!("guarantees that together keep within {rate} at any time")));
    }
    for (n, class) in all.iter().enumerate() {
        let Some(limit) = class.upper_limit else { continue };
        if let Some((t, sum, whole)) = excess(&within(Some(n)), limit) {
            let name = &tree.names[n];
            let message = format!(
                "ul of {name}: {} B are guaranteed in the first {t}, it allows {} B",
                bytes(sum),
                whole / service_of(1)
            );
            r.fail("ul", message, Some("at least the guarantees inside".to_owned()));
        }
    }
}

/// Reads `limit`: one queue limit a class, or one for all.
pub(super) fn read_limits(r: &mut Reader<'_>, count: usize) -> Vec<QueueLimit> {
    let usual = QueueLimit::Time(Duration(100_000_000));
    let mut limits = vec![usual; count];
    if let Some(Ok(limit)) = r.text("limit", None).map(str::parse) {
        let _: Option<String> = r.optional("limit", None);
        return vec![limit; count];
    }
    let words = Lists { r, count }.words("limit");
    for (limit, word) in limits.iter_mut().zip(&words) {
        match word.parse() {
            Ok(value) => *limit = value,
            Err(e) => r.fail("limit", format!("limit = {word}: {e}"), None),
        }
    }
    limits
}

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let tree = TreeNames::read(&mut r, cx);
    let rate = r.required_in("rate", None, crate::meter::RATE_RANGE);
    let overhead = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256)).0 as u32;
    let frame = r.optional_in("frame", None, Bytes(1514), Bytes(64)..=Bytes(65_536)).0;
    let curves = read_curves(&mut r, &tree, rate);
    let queue = |limit| FifoConfig { limit, rate, overhead };
    let queues: Vec<FifoConfig> = read_limits(&mut r, tree.len()).into_iter().map(queue).collect();
    // Nothing is built of what is wrong.
    r.finish(())?;
    let law = HfscLaw::new(&curves, rate.time_for(Bytes(frame + u64::from(overhead))));
    Ok(Leaves::of(tree, law, &queues).behind(rate))
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Hfsc",
    synopsis: "guarantees service curves and shares the rest along a tree of classes",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build,
    sample: |rng| {
        let (rate, ms) = (1 + rng.next_u32() % 50, 1 + rng.next_u32() % 40);
        let dscp = ["", ", dscp = EF none AF41 -"][(rng.next_u32() % 2) as usize];
        format!(
            "ef data af41 be, parent = root root data data, rate = {rate} Mbit/s, \
             rt = 300kbit/s:{ms}ms:100kbit/s - 50kbit/s:{ms}ms:200kbit/s -, \
             ls = 100kbit/s 900kbit/s 600kbit/s 300kbit/s, ul = - - - 700kbit/s, limit = 20packets{dscp}"
        )
    },
};
