//! # Synopsis
//! `IpClassifier(rule, rule, …)` sends each packet to the output of the first rule it satisfies.
//!
//! # Ports
//! Input 0: dissected packets. Outputs: one a rule, in the order written.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | each bare value | rule | | required | 1 … 64 rules of at most 64 words |
//!
//! A rule is a list of tests that must all hold; `or` separates alternatives and binds weaker, `not` negates the next
//! test. Tests: `-` (everything, alone), `ip`, `ip4`, `ip6`, `arp`, `tcp`, `udp`, `icmp`, `proto N`,
//! `[src|dst] port N[-N]`, `[src|dst] [host|net] PREFIX`, `dscp X`, `ecn N`, `vlan N`, `len N[-N]` (IP length),
//! `fragment`.
//!
//! # Behaviour
//! Rules are tried in order; a packet that satisfies none is dropped (`no_class`). Ports are those of UDP and TCP;
//! later fragments have none. For many rules use the flow classifier, whose cost does not grow with their number.
//!
//! # Counters
//! `matched_N` for each rule, `unmatched`.
//!
//! # Invariants
//! Order is kept per output.
//!
//! # Example
//! `IpClassifier(udp dst port 5004-5099, src 10.0.0.0/8 tcp, -)`
//!
//! # Source
//! RFC 2475 §2.3.1 (multi-field classifier), RFC 3290 §4.2.

use super::plain::{Gist, Plain};
use super::rule::{Rule, WORDS};
use crate::plumbing::adapter::as_any;
use perhop_element::{CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, DropReason, Packet};

/// The most rules.
const MAX_RULES: usize = 64;

/// The element.
#[derive(Debug)]
pub struct IpClassifier {
    rules: Vec<Rule>,
    /// The same, if all are plain.
    plain: Option<Vec<Plain>>,
    matched: Vec<u64>,
    unmatched: u64,
}

impl IpClassifier {
    /// One output a rule; rules past the 64th are ignored.
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.truncate(MAX_RULES);
        let plain = rules.iter().map(Plain::of).collect();
        Self { matched: vec![0; rules.len()], plain, rules, unmatched: 0 }
    }

    /// Number of the first rule that a packet satisfies.
    #[inline]
    fn first(&self, packet: &Packet) -> Option<usize> {
        let Some(plain) = &self.plain else {
            return self.rules.iter().position(|rule| rule.matches(packet));
        };
        // All are looked at: which one it is cannot be foretold, and a branch for each would cost more.
        let gist = Gist::of(&packet.meta().layout);
        let satisfied =
            plain.iter().rev().fold(0u64, |bits, rule| bits << 1 | u64::from(rule.matches(&gist)));
        (satisfied != 0).then(|| satisfied.trailing_zeros() as usize)
    }
}

impl Element for IpClassifier {
    fn type_name(&self) -> &'static str {
        "IpClassifier"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.first(&packet) {
                Some(output) => {
                    self.matched[output] += 1;
                    cx.emit(output as PortIndex, packet);
                }
                None => {
                    self.unmatched += 1;
                    cx.drop(packet, DropReason::NoClass);
                }
            }
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        for (i, n) in self.matched.iter().enumerate() {
            sink.counter(&format!("matched_{i}"), *n);
        }
        sink.counter("unmatched", self.unmatched);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new((self.rules.clone(), self.matched.clone(), self.unmatched)))
    }

    /// Counters belong to rules: each is taken over by the successor's equal rule.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let (rules, matched, unmatched) = *state.downcast::<(Vec<Rule>, Vec<u64>, u64)>()?;
        for (rule, count) in self.rules.iter().zip(&mut self.matched) {
            *count = rules.iter().position(|old| old == rule).map_or(0, |i| matched[i]);
        }
        self.unmatched = unmatched;
        Ok(())
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "IpClassifier",
    synopsis: "sends each packet to the output of the first rule it satisfies",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, MAX_RULES as u8),
    build: |args, _| {
        let mut r = Reader::new(args);
        let mut rules = Vec::new();
        for arg in r.everything() {
            match (&arg.key, arg.value.parse()) {
                (Some(key), _) => r.fail_at(arg, format!("unknown argument {key}"), Some("rules".to_owned())),
                (None, Ok(rule)) => rules.push(rule),
                (None, Err(why)) => {
                    r.fail_at(arg, format!("rule {}: {why}", arg.value), Some(WORDS.to_owned()))
                }
            }
        }
        let given = args.list.len();
        if !(1..=MAX_RULES).contains(&given) {
            r.fail("rule", format!("{given} rules given"), Some(format!("1 to {MAX_RULES} rules")));
        }
        r.finish(Box::new(IpClassifier::new(rules)) as _)
    },
    sample: |rng| format!("udp dst port {}, dscp {}, -", 5000 + rng.next_u32() % 16, rng.next_u32() % 64),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;

    #[test]
    fn the_first_rule_wins_and_the_unmatched_are_dropped() {
        let text = args("udp dst port 5006, src 10.0.0.0/8");
        let element = (TYPE.build)(&text, &mut BuildCx::default()).unwrap();
        let mut bench = Bench::with_seed(element, 2, 1);
        for (src, dst_port) in [([10, 0, 0, 1], 5006), ([10, 0, 0, 1], 1), ([11, 0, 0, 1], 1)] {
            bench.push(&UdpFrame { src, dst_port, ..UdpFrame::default() }.to_vec());
        }
        assert_eq!((bench.arrived(0).len(), bench.arrived(1).len()), (1, 1));
        assert_eq!(bench.driver.counters(bench.node).unwrap().drops[DropReason::NoClass.index()], 1);
        let element = bench.element::<IpClassifier>();
        assert_eq!((element.matched.clone(), element.unmatched), (vec![1, 1], 1));
    }

    #[test]
    fn counters_follow_their_rules_to_the_successor() {
        let make = |text: &str| (TYPE.build)(&args(text), &mut BuildCx::default()).unwrap();
        let mut bench = Bench::with_seed(make("udp, tcp, -"), 3, 1);
        bench.push(&UdpFrame::default().to_vec());
        let mut old = bench.driver.remove(bench.node).unwrap();
        let mut new = make("tcp, udp");
        new.import_state(old.export_state().unwrap()).unwrap_or_else(|_| panic!("same type"));
        let mut report: Vec<(String, u64)> = vec![];
        new.counters(&mut report);
        let expected = [("matched_0", 0), ("matched_1", 1), ("unmatched", 0)];
        assert_eq!(report, expected.map(|(name, n)| (name.to_owned(), n)));
    }

    #[test]
    fn every_bad_rule_is_reported_at_its_place() {
        let errors = (TYPE.build)(&args("udp, tpc, port x, k = 1"), &mut BuildCx::default()).err().unwrap();
        assert_eq!(errors.iter().map(|e| e.offset).collect::<Vec<_>>(), [4, 9, 17]);
        assert!((TYPE.build)(&args(""), &mut BuildCx::default()).is_err());
    }
}
