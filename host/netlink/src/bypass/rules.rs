//! Which chains of rules a packet between some interfaces can come to something in.

use super::Interfaces;
use std::collections::{BTreeMap, BTreeSet};

/// A rule that a packet between the interfaces may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule<C> {
    /// It drops or changes it.
    Acts,
    /// It has it go through another chain.
    GoesTo(C),
}

/// Whether a packet that begins with the rules of `start` can come to one that does something to it.
pub(super) fn acts<C: Ord>(start: &C, chains: &BTreeMap<C, Vec<Rule<C>>>) -> bool {
    let (mut seen, mut next) = (BTreeSet::from([start]), vec![start]);
    while let Some(chain) = next.pop() {
        for rule in chains.get(chain).into_iter().flatten() {
            match rule {
                Rule::Acts => return true,
                Rule::GoesTo(other) if seen.insert(other) => next.push(other),
                Rule::GoesTo(_) => {}
            }
        }
    }
    false
}

/// Targets of `iptables` that neither drop nor change what they are given.
const HARMLESS: [&str; 20] = [
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "HMARK",
    "IDLETIMER",
    "LED",
    "LOG",
    "MARK",
    "NFLOG",
    "NOTRACK",
    "RATEEST",
    "SECMARK",
    "SET",
    "TRACE",
    "ULOG",
    "ACCOUNT",
    "RETURN",
];

pub(super) fn is_harmless(target: &str) -> bool {
    HARMLESS.contains(&target)
}

impl Interfaces {
    /// Whether a name is of one of them; all names that begin so, if it ends without a zero.
    pub(super) fn have_name(&self, bytes: &[u8]) -> bool {
        let wanted = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let whole = bytes.contains(&0);
        self.names
            .iter()
            .map(String::as_bytes)
            .any(|name| name.starts_with(wanted) && (!whole || name == wanted))
    }

    pub(super) fn have_index(&self, index: u32) -> bool {
        self.indices.contains(&index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_lead_back_to_each_other_have_an_end() {
        let mut chains =
            BTreeMap::from([(1, vec![Rule::GoesTo(2)]), (2, vec![Rule::GoesTo(1), Rule::GoesTo(3)])]);
        assert!(!acts(&1, &chains));
        chains.insert(3, vec![Rule::Acts]);
        assert!(acts(&1, &chains) && acts(&3, &chains) && !acts(&4, &chains));
    }

    #[test]
    fn names_of_interfaces_are_whole_or_begin_so() {
        let ports =
            Interfaces { names: vec!["wan".into(), "eth0.7".into()], indices: vec![3], past_egress: false };
        for (bytes, has) in [
            (&b"wan\0\0"[..], true),
            (b"wa\0", false),
            (b"wa", true),
            (b"eth", true),
            (b"wg0\0", false),
            (b"", true),
        ] {
            assert_eq!(ports.have_name(bytes), has, "{bytes:?}");
        }
    }
}
