use super::*;
use ipnet::IpNet;
use perhop_packet::PortId;
use proptest::option::weighted;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) fn address(v6: bool, n: u8) -> IpAddr {
    // Few values with long common prefixes, so that rules and keys meet.
    let n = u32::from(n);
    let bits = 0x0a00_0000 | (n & 3) << 16 | (n >> 2 & 3) << 8 | (n >> 4 & 3) << 3 | n >> 6;
    if v6 {
        IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(bits) << 60 | u128::from(bits)))
    } else {
        IpAddr::V4(Ipv4Addr::from_bits(bits))
    }
}

fn prefix(v6: bool) -> impl Strategy<Value = IpNet> {
    (any::<u8>(), 0..=33u8).prop_map(move |(n, len)| {
        let len = if v6 { (len * 4).min(128) } else { len.min(32) };
        IpNet::new(address(v6, n), len).unwrap().trunc()
    })
}

fn ports() -> impl Strategy<Value = PortRange> {
    (0..40u16, 0..20u16, any::<bool>()).prop_map(|(first, more, one)| {
        let first = 5000 + first;
        if one { PortRange::one(first) } else { PortRange { first, last: first + more } }
    })
}

fn masked(mask: u8) -> impl Strategy<Value = Masked> {
    (any::<u8>(), any::<u8>()).prop_map(move |(v, m)| Masked { value: v & m & mask, mask: m & mask })
}

fn matches() -> impl Strategy<Value = Match> {
    any::<bool>().prop_flat_map(move |v6| {
        (
            weighted(0.1, (0..3u16).prop_map(PortId)),
            weighted(0.1, 0..3u16),
            weighted(0.5, prefix(v6)),
            weighted(0.5, prefix(v6)),
            weighted(0.4, prop_oneof![Just(6u8), Just(17), Just(1)]),
            weighted(0.3, ports()),
            weighted(0.3, ports()),
            weighted(0.1, masked(0x3f)),
            weighted(0.1, masked(0x13)),
            weighted(0.1, any::<bool>()),
        )
            .prop_map(
                |(in_port, vlan, src, dst, protocol, src_ports, dst_ports, dscp, tcp_flags, fragment)| {
                    Match {
                        in_port,
                        vlan,
                        src,
                        dst,
                        protocol,
                        src_ports,
                        dst_ports,
                        dscp,
                        tcp_flags,
                        fragment,
                    }
                },
            )
    })
}

pub(crate) fn rules(max: usize) -> impl Strategy<Value = Vec<Rule>> {
    proptest::collection::vec((matches(), 0..3u8, 0..6u32, any::<[bool; 3]>()), 0..max).prop_map(|list| {
        let rule = |(n, (matches, tier, priority, [class, trust_dscp, sla])): (
            usize,
            (Match, u8, u32, [bool; 3]),
        )| Rule {
            id: FilterId(n as u32),
            tier,
            priority,
            name: format!("r{n}").into(),
            matches,
            action: Action {
                class: class.then_some(perhop_packet::ClassId(n as u32)),
                sla: sla.then_some(perhop_packet::SlaId(n as u32)),
                trust_dscp,
                ..Action::default()
            },
        };
        list.into_iter().enumerate().map(rule).collect()
    })
}

fn key() -> impl Strategy<Value = Key> {
    let octets = (any::<u8>(), any::<u8>(), 0..64u8, any::<u8>());
    (any::<[bool; 3]>(), octets, (0..3u16, 0..3u16), (0..45u16, 0..45u16), 0..3usize).prop_map(
        |([v6, fragment, header], (src, dst, dscp, flags), (port, vlan), (sport, dport), protocol)| {
            let protocol = [6, 17, 1][protocol];
            Key {
                in_port: PortId(port),
                vlan,
                src: address(v6, src),
                dst: address(v6, dst),
                protocol,
                ports: (header && protocol != 1).then_some((4998 + sport, 4998 + dport)),
                dscp,
                tcp_flags: (header && protocol == 6).then_some(flags),
                fragment,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_first_match_is_that_of_a_linear_scan(rules in rules(120), keys in proptest::collection::vec(key(), 60)) {
        let classifier = Classifier::build(rules).unwrap();
        for key in keys {
            let found = classifier.classify(&key).map(|r| r.id);
            prop_assert_eq!(found, classifier.linear(&key).map(|r| r.id), "{:?}", key);
            let best = classifier.explain(&key).into_iter().filter_map(|v| v.matched);
            let best = best.min_by(|a, b| a.order().cmp(&b.order())).map(|r| r.id);
            prop_assert_eq!(found, best);
        }
    }

    #[test]
    fn changes_give_what_building_anew_gives(
        rules in rules(80),
        split in 0..80usize,
        gone in proptest::collection::vec(any::<proptest::sample::Index>(), 0..30),
        keys in proptest::collection::vec(key(), 40),
    ) {
        let split = split.min(rules.len());
        let (old, new) = rules.split_at(split);
        let before = Classifier::build(old.to_vec()).unwrap();
        let mut removed: Vec<FilterId> =
            gone.iter().filter(|_| !old.is_empty()).map(|i| old[i.index(old.len())].id).collect();
        removed.sort();
        removed.dedup();
        let after = before.with_changes(new.to_vec(), &removed).unwrap();
        let left = rules.iter().filter(|r| !removed.contains(&r.id)).cloned();
        let anew = Classifier::build(left).unwrap();
        prop_assert_eq!(after.classifier.aux_mask(), anew.aux_mask());
        prop_assert_eq!(after.classifier.len(), anew.len());
        for key in keys {
            let found = after.classifier.classify(&key).map(|r| r.id);
            prop_assert_eq!(found, anew.linear(&key).map(|r| r.id));
            // A verdict no delta concerns is the same before and after.
            if !after.deltas.iter().any(|d| d.concerns(&key)) {
                prop_assert_eq!(found, before.linear(&key).map(|r| r.id));
            }
            prop_assert_eq!(before.classify(&key).map(|r| r.id), before.linear(&key).map(|r| r.id));
        }
    }
}

pub(crate) fn rule(id: u32, matches: Match) -> Rule {
    Rule {
        id: FilterId(id),
        tier: 0,
        priority: id,
        name: format!("r{id}").into(),
        matches,
        action: Action::default(),
    }
}

#[test]
fn limits_refuse_with_a_reason() {
    let family = Match {
        src: Some("10.0.0.0/8".parse().unwrap()),
        dst: Some("2001:db8::/32".parse().unwrap()),
        ..Match::default()
    };
    assert!(matches!(Classifier::build([rule(0, family)]), Err(RuleError::FamilyMismatch { .. })));
    let empty = Match { src_ports: Some(PortRange { first: 2, last: 1 }), ..Match::default() };
    assert!(matches!(Classifier::build([rule(0, empty)]), Err(RuleError::EmptyRange { first: 2, .. })));
    let wide = Match { dscp: Some(Masked { value: 0x40, mask: 0x7f }), ..Match::default() };
    assert!(matches!(
        Classifier::build([rule(0, wide)]),
        Err(RuleError::BitsOutsideMask { field: "dscp", .. })
    ));
    let twice = [rule(0, Match::default()), rule(0, Match::default())];
    assert!(matches!(Classifier::build(twice), Err(RuleError::Duplicate { .. })));
    assert!(matches!(
        Classifier::default().with_changes([], &[FilterId(3)]),
        Err(RuleError::Unknown { id: FilterId(3) })
    ));
    // Ranges around 32768 share no bit: they can only be told apart in the chain.
    let overlapping = (0..).map(|n| {
        rule(
            n,
            Match { dst_ports: Some(PortRange { first: 32767 - n as u16, last: 32768 }), ..Match::default() },
        )
    });
    let all = Classifier::build(overlapping.clone().take(MAX_CHAIN)).unwrap();
    assert_eq!(all.longest_chains(), (MAX_CHAIN, MAX_CHAIN));
    let beyond = Classifier::build(overlapping.take(MAX_CHAIN + 1));
    assert!(matches!(beyond, Err(RuleError::ChainTooLong { .. })));
}

#[test]
fn five_thousand_filters_need_few_tables() {
    let host = |n: u32| {
        rule(
            n,
            Match {
                dst: Some(IpNet::new(IpAddr::V4(Ipv4Addr::from_bits(0xc0a8_0000 + n)), 32).unwrap()),
                protocol: Some(17),
                dst_ports: Some(PortRange::one(n as u16)),
                ..Match::default()
            },
        )
    };
    let classifier = Classifier::build((0..5000).map(host)).unwrap();
    assert_eq!(classifier.tables(), (1, 0));
    // A change touches one page of one table: the deltas are two, not five thousand.
    let changed = classifier.with_changes([Rule { priority: 9, ..host(7) }], &[FilterId(7)]).unwrap();
    assert_eq!(changed.deltas.len(), 2);
    assert_eq!(changed.classifier.len(), 5000);
}

/// Reads one rule of ClassBench's format.
fn classbench_rule(id: usize, line: &str) -> Option<Rule> {
    let mut words = line.strip_prefix('@')?.split_whitespace();
    let mut word = || words.next();
    let net = |text: &str| text.parse::<IpNet>().ok();
    let (src, dst) = (net(word()?)?, net(word()?)?);
    let mut range = || {
        let (first, _colon, last) = (words.next()?, words.next()?, words.next()?);
        let range = PortRange { first: first.parse().ok()?, last: last.parse().ok()? };
        Some((range != PortRange { first: 0, last: 65535 }).then_some(range))
    };
    let (src_ports, dst_ports) = (range()?, range()?);
    let (protocol, mask) = words.next()?.split_once('/')?;
    let hex = |t: &str| u16::from_str_radix(t.trim_start_matches("0x"), 16).ok();
    let protocol = (hex(mask)? == 0xff).then_some(hex(protocol)? as u8);
    let matches =
        Match { src: Some(src), dst: Some(dst), protocol, src_ports, dst_ports, ..Match::default() };
    Some(rule(id as u32, matches))
}

#[test]
fn classbench_rule_sets_and_their_traces() {
    let Some(data) = std::env::var_os("PERHOP_TEST_DATA") else {
        println!("SKIPPED classbench_rule_sets_and_their_traces: PERHOP_TEST_DATA unset");
        return;
    };
    let folder = std::path::PathBuf::from(data).join("classbench");
    for family in ["acl1_1k", "fw1_1k", "ipc1_1k"] {
        let text = std::fs::read_to_string(folder.join(family)).unwrap();
        let rules: Vec<Rule> =
            text.lines().enumerate().filter_map(|(n, line)| classbench_rule(n, line)).collect();
        assert_eq!(rules.len(), text.lines().count(), "{family}");
        let classifier = Classifier::build(rules).unwrap();
        println!(
            "{family}: {} rules, tables {:?}, longest chains {:?}",
            classifier.len(),
            classifier.tables(),
            classifier.longest_chains()
        );
        let trace = std::fs::read_to_string(folder.join(format!("{family}_trace"))).unwrap();
        let mut agreed = (0, 0);
        for line in trace.lines().step_by(3) {
            let n: Vec<u64> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
            let protocol = n[4] as u8;
            let key = Key {
                in_port: PortId(0),
                vlan: 0,
                src: IpAddr::V4(Ipv4Addr::from_bits(n[0] as u32)),
                dst: IpAddr::V4(Ipv4Addr::from_bits(n[1] as u32)),
                protocol,
                ports: matches!(protocol, 6 | 17).then_some((n[2] as u16, n[3] as u16)),
                dscp: 0,
                tcp_flags: None,
                fragment: false,
            };
            let found = classifier.classify(&key).map(|r| r.id);
            assert_eq!(found, classifier.linear(&key).map(|r| r.id), "{family}: {line}");
            agreed.1 += 1;
            agreed.0 += usize::from(found.is_some_and(|id| u64::from(id.0) == n[6]));
        }
        println!("{family}: the trace's own answer agrees for {} of {} headers", agreed.0, agreed.1);
    }
}
