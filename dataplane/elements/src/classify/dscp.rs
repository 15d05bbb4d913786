//! # Synopsis
//! `DscpClassifier(EF, AF41 AF42, -)` sends packets to outputs by code point; `DscpClassifier(voice = EF, be = -)`
//! puts them into logical classes.
//!
//! # Ports
//! Input 0: dissected packets. Outputs: one a bare value, in the order written; with classes only output 0.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | each bare value | code points | | | 1 … 64 values |
//! | each `CLASS =` | code points | | | 1 … 64 classes |
//!
//! Code points are names or numbers or ranges (`8-15`), separated by spaces; `-` is all those not named elsewhere,
//! and what is not IP. Values are either all bare or all classes; no code point may be given twice.
//!
//! # Behaviour
//! A behaviour-aggregate classifier: only the code point is looked at. Without a `-`, packets of other code points
//! and what is not IP are dropped (`no_class`) when there are outputs, and keep their class when there are classes.
//!
//! # Counters
//! `matched_N` for each value, `unmatched`.
//!
//! # Invariants
//! One table look-up a packet; order is kept per output.
//!
//! # Example
//! `FromPort(lan) -> DscpClassifier(voice = EF VA, video = AF41 AF42 AF43, be = -) -> ToPort(wan)`
//!
//! # Source
//! RFC 2475 §2.3.1 (behaviour-aggregate classifier), RFC 3290 §4.2.1.

use crate::plumbing::adapter::{as_any, keep};
use crate::plumbing::set_class::is_name;
use perhop_element::{
    Arg, ArgError, Args, BuildCx, CounterSink, Cx, Element, ElementType, PortCount, PortIndex, Reader,
};
use perhop_packet::{Batch, ClassId, DropReason};
use perhop_units::Dscp;

/// The most values.
const MAX_VALUES: usize = 64;
/// In the table: no value names this code point.
const NOWHERE: u8 = u8::MAX;
/// Index of the table's entry for what is not IP.
const NOT_IP: usize = 64;

/// Which value each code point belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DscpTable {
    value: [u8; NOT_IP + 1],
}

impl Default for DscpTable {
    fn default() -> Self {
        Self { value: [NOWHERE; NOT_IP + 1] }
    }
}

impl DscpTable {
    /// Gives `dscp` to `value` (below 64); false if another has it.
    pub fn set(&mut self, dscp: Dscp, value: u8) -> bool {
        let entry = &mut self.value[usize::from(dscp.get())];
        let free = *entry == NOWHERE || *entry == value;
        if free {
            *entry = value;
        }
        free
    }

    /// Gives every free code point, and what is not IP, to `value`.
    pub fn set_rest(&mut self, value: u8) {
        self.value.iter_mut().filter(|v| **v == NOWHERE).for_each(|v| *v = value);
    }

    /// The value of a packet with this `tos` octet, `None` for not IP.
    #[inline]
    pub fn find(&self, tos: Option<u8>) -> Option<u8> {
        let index = tos.map_or(NOT_IP, |tos| usize::from(tos >> 2));
        Some(self.value[index]).filter(|v| *v != NOWHERE)
    }
}

/// The element.
#[derive(Debug)]
pub struct DscpClassifier {
    table: DscpTable,
    /// By value; empty: values are outputs.
    classes: Vec<ClassId>,
    matched: Vec<u64>,
    unmatched: u64,
}

impl DscpClassifier {
    /// Values are outputs.
    pub fn to_outputs(table: DscpTable) -> Self {
        Self { table, classes: Vec::new(), matched: vec![0; MAX_VALUES], unmatched: 0 }
    }

    /// Values are indices into `classes`.
    pub fn to_classes(table: DscpTable, classes: Vec<ClassId>) -> Self {
        Self { table, classes, matched: vec![0; MAX_VALUES], unmatched: 0 }
    }
}

impl Element for DscpClassifier {
    fn type_name(&self) -> &'static str {
        "DscpClassifier"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for mut packet in batch.drain() {
            let meta = packet.meta_mut();
            let tos = (meta.layout.ip_version != 0).then_some(meta.layout.tos);
            let value = self.table.find(tos);
            match value {
                Some(value) => self.matched[usize::from(value)] += 1,
                None => self.unmatched += 1,
            }
            match value {
                _ if !self.classes.is_empty() => {
                    if let Some(class) = value.and_then(|v| self.classes.get(usize::from(v))) {
                        meta.class = *class;
                    }
                    cx.emit(0, packet);
                }
                Some(output) => cx.emit(output, packet),
                None => cx.drop(packet, DropReason::NoClass),
            }
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        for (i, n) in self.matched.iter().enumerate().filter(|(_, n)| **n > 0) {
            sink.counter(&format!("matched_{i}"), *n);
        }
        sink.counter("unmatched", self.unmatched);
    }

    keep!(matched: Vec<u64>, unmatched: u64);
    as_any!();
}

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let list = r.everything();
    let mut table = DscpTable::default();
    let mut classes = Vec::new();
    let mut rest = None;
    if !(1..=MAX_VALUES).contains(&list.len()) {
        r.fail("dscp", format!("{} values given", list.len()), Some(format!("1 to {MAX_VALUES}")));
    }
    let by_class = list.first().is_some_and(|a| a.key.is_some());
    for (value, arg) in list.iter().enumerate().take(MAX_VALUES) {
        match &arg.key {
            key if key.is_some() != by_class => {
                r.fail_at(arg, "outputs and classes are mixed".to_owned(), None);
            }
            Some(name) if !is_name(name) => r.fail_at(arg, format!("{name} is not a class name"), None),
            Some(name) => classes.push(cx.class(name)),
            None => {}
        }
        read_value(&mut r, arg, value as u8, &mut table, &mut rest);
    }
    if let Some(value) = rest {
        table.set_rest(value);
    }
    let element =
        if by_class { DscpClassifier::to_classes(table, classes) } else { DscpClassifier::to_outputs(table) };
    r.finish(Box::new(element) as _)
}

/// Enters the code points of one argument.
fn read_value(r: &mut Reader<'_>, arg: &Arg, value: u8, table: &mut DscpTable, rest: &mut Option<u8>) {
    if arg.value.trim().is_empty() {
        r.fail_at(arg, "no code point given".to_owned(), None);
    }
    for word in arg.value.split_whitespace() {
        if word == "-" {
            if rest.replace(value).is_some() {
                r.fail_at(arg, "- is given twice".to_owned(), None);
            }
            continue;
        }
        match code_points(word) {
            Ok((low, high)) => {
                for dscp in (low.get()..=high.get()).filter_map(Dscp::new) {
                    if !table.set(dscp, value) {
                        r.fail_at(arg, format!("code point {} is given twice", dscp.get()), None);
                    }
                }
            }
            Err(why) => r.fail_at(arg, why, Some("code points such as EF, AF41, 8-15, or -".to_owned())),
        }
    }
}

/// One code point, or a range of numbers.
fn code_points(word: &str) -> Result<(Dscp, Dscp), String> {
    let parse = |text: &str| text.parse::<Dscp>().map_err(|e| e.to_string());
    match word.split_once('-') {
        Some((low, high)) => {
            let (low, high) = (parse(low)?, parse(high)?);
            if low <= high { Ok((low, high)) } else { Err(format!("the range {word} is empty")) }
        }
        None => parse(word).map(|dscp| (dscp, dscp)),
    }
}

pub(super) const TYPE: ElementType = ElementType {
    name: "DscpClassifier",
    synopsis: "outputs or classes by DiffServ code point",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, MAX_VALUES as u8),
    build,
    sample: |rng| match rng.next_u32() {
        n if n & 1 == 0 => format!("EF, {}-45, -", n % 40),
        n => format!("voice = EF, be = {}", n % 40),
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;

    fn frames() -> Vec<Vec<u8>> {
        let dscp = |n| UdpFrame { dscp: Dscp::new(n).unwrap(), ..UdpFrame::default() }.to_vec();
        vec![dscp(46), dscp(34), dscp(10), dscp(0), vec![0xff; 60]]
    }

    #[test]
    fn outputs() {
        for (text, expected, dropped) in
            [("EF, AF41 8-12, -", [1, 2, 2], 0), ("EF, AF41", [1, 1, 0], 3), ("-", [5, 0, 0], 0)]
        {
            let mut bench = Bench::with_seed(build(&args(text), &mut BuildCx::default()).unwrap(), 3, 1);
            frames().iter().for_each(|f| bench.push(f));
            let counts: Vec<_> = (0..3).map(|i| bench.arrived(i).len()).collect();
            assert_eq!(counts, expected, "{text}");
            assert_eq!(bench.driver.counters(bench.node).unwrap().dropped, dropped, "{text}");
        }
    }

    #[test]
    fn classes() {
        let mut cx = BuildCx::default();
        let mut bench =
            Bench::with_seed(build(&args("voice = EF, video = AF41 AF42"), &mut cx).unwrap(), 1, 1);
        frames().iter().for_each(|f| bench.push(f));
        let classes: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().class).collect();
        let none = ClassId::NONE;
        assert_eq!(classes, [cx.class("voice"), cx.class("video"), none, none, none]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in ["", "EF, 46", "EF, voice = 1", "EF 64", "9-8", "-, -", "x"] {
            let errors = build(&args(text), &mut BuildCx::default()).err();
            assert_eq!(errors.map(|e| e.len()), Some(1), "{text}");
        }
    }
}
