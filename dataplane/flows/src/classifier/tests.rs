use super::*;
use ipnet::IpNet;
use perhop_packet::FilterId;
use perhop_packet::PortId;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use rand::{RngExt, SeedableRng};
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

pub(crate) fn key() -> impl Strategy<Value = Key> {
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
        let mut book = RuleBook::default();
        let before = book.change(old.to_vec(), &[]).unwrap().classifier;
        let mut removed: Vec<FilterId> =
            gone.iter().filter(|_| !old.is_empty()).map(|i| old[i.index(old.len())].id).collect();
        removed.sort();
        removed.dedup();
        let after = book.change(new.to_vec(), &removed).unwrap();
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
        RuleBook::default().change(Vec::new(), &[FilterId(3)]),
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
    let mut book = RuleBook::default();
    let classifier = book.change((0..5000).map(host).collect(), &[]).unwrap().classifier;
    assert_eq!(classifier.tables(), (1, 0));
    // A change is told as what it is: the deltas are two, not five thousand.
    let changed = book.change(vec![Rule { priority: 9, ..host(7) }], &[FilterId(7)]).unwrap();
    assert_eq!(changed.deltas.len(), 2);
    assert_eq!(changed.classifier.len(), 5000);
}

#[test]
fn a_copy_that_is_held_stays_as_it_was() {
    let host = |n: u32| {
        let dst = IpNet::new(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n % 7)), 32).unwrap();
        rule(n, Match { dst: Some(dst), dst_ports: Some(PortRange::one(n as u16)), ..Match::default() })
    };
    let mut book = RuleBook::of((0..300).map(host)).unwrap();
    let ids = |c: &Classifier| c.rules().map(|r| r.id.0).collect::<std::collections::BTreeSet<_>>();
    let mut held: Vec<(Arc<Classifier>, std::collections::BTreeSet<u32>)> = Vec::new();
    let mut now: std::collections::BTreeSet<u32> = (0..300).collect();
    for step in 0..60u32 {
        let (gone, come) = (step * 3 % 300, 300 + step);
        if step % 5 == 4 {
            // Refused at its last part: nothing of it remains.
            assert!(book.change(vec![host(come), host(come)], &[]).is_err());
            assert!(book.check(vec![host(come)], &[]).is_ok());
        }
        let removed: Vec<FilterId> = now.take(&gone).map(FilterId).into_iter().collect();
        now.insert(come);
        let changed = book.change(vec![host(come)], &removed).unwrap();
        assert_eq!(ids(&changed.classifier), now);
        // Some are held for long, as by a worker that sees no packets.
        if step % 3 == 0 {
            held.push((changed.classifier, now.clone()));
        }
        if step % 20 == 19 {
            held.clear();
        }
        for (classifier, expected) in &held {
            assert_eq!(ids(classifier), *expected);
            for n in [gone, come] {
                let key = classbench::key(1, 0x0a00_0000 + n % 7, 5, n as u16, 17);
                assert_eq!(classifier.classify(&key).map(|h| h.id), classifier.linear(&key).map(|r| r.id));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Change after change, by a book that has two copies and more, checked before or not.
    #[test]
    fn many_changes_give_what_a_linear_scan_gives(
        rules in rules(150),
        steps in proptest::collection::vec((any::<proptest::sample::Index>(), 1..12usize, any::<[bool; 3]>()), 1..40),
        keys in proptest::collection::vec(key(), 12),
    ) {
        prop_assume!(!rules.is_empty());
        let mut book = RuleBook::default();
        let mut inside = vec![false; rules.len()];
        let mut held = Vec::new();
        for (from, count, [check, hold, release]) in steps {
            let (mut added, mut removed) = (Vec::new(), Vec::new());
            for at in (from.index(rules.len())..rules.len()).take(count) {
                if inside[at] {
                    removed.push(rules[at].id);
                } else {
                    added.push(rules[at].clone());
                }
                inside[at] = !inside[at];
            }
            if check {
                prop_assert!(book.check(added.clone(), &removed).is_ok());
                prop_assert!(book.check(Vec::new(), &removed).is_ok());
            }
            let now = book.change(added, &removed).unwrap().classifier;
            prop_assert_eq!(now.len(), inside.iter().filter(|i| **i).count());
            for key in &keys {
                prop_assert_eq!(now.classify(key).map(|h| h.id), now.linear(key).map(|r| r.id), "{:?}", key);
            }
            if hold {
                held.push(now);
            }
            if release {
                held.clear();
            }
        }
    }
}

/// The rule sets that nobody here wrote; none without them.
fn rule_sets() -> Vec<(String, Vec<Rule>, std::path::PathBuf)> {
    let Some(data) = std::env::var_os("PERHOP_TEST_DATA") else {
        println!("SKIPPED ClassBench rule sets: PERHOP_TEST_DATA unset");
        return Vec::new();
    };
    let folder = std::path::PathBuf::from(data).join("classbench");
    let names = ["acl1_1k", "fw1_1k", "ipc1_1k", "acl1_10k", "fw1_10k", "ipc1_10k"];
    let read = |name: &str| classbench::rules(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap();
    names.iter().map(|name| ((*name).to_owned(), read(name), folder.join(format!("{name}_trace")))).collect()
}

#[test]
fn classbench_rule_sets_and_their_traces() {
    for (name, rules, trace) in rule_sets() {
        let classifier = Classifier::build(rules).unwrap();
        println!(
            "{name}: {} rules, tables {:?}, longest chains {:?}",
            classifier.len(),
            classifier.tables(),
            classifier.longest_chains()
        );
        let Ok(trace) = std::fs::read_to_string(trace) else { continue };
        for key in classbench::headers(&trace).unwrap().into_iter().step_by(3) {
            let found = classifier.classify(&key).map(|r| r.id);
            assert_eq!(found, classifier.linear(&key).map(|r| r.id), "{name}: {key:?}");
        }
    }
}

#[test]
fn keys_around_the_rules_of_classbench_meet_what_a_linear_scan_meets() {
    for (name, rules, _) in rule_sets() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let classifier = Classifier::build(rules.clone()).unwrap();
        for _ in 0..300 {
            let rule = &rules[random.random_range(0..rules.len())];
            let mut key = classbench::key_inside(&rule.matches, |below| random.random_range(0..below));
            // One time in two just outside, in one field.
            match random.random_range(0..6) {
                0 => key.ports = key.ports.map(|(src, dst)| (src, dst.wrapping_add(1))),
                1 => key.protocol = 1,
                2 => key.src = classbench::key(random.random(), 0, 0, 0, 6).src,
                _ => {}
            }
            let found = classifier.classify(&key).map(|r| r.id);
            assert_eq!(found, classifier.linear(&key).map(|r| r.id), "{name}: {key:?}");
        }
    }
}

/// What searches in stages find for `keys`, all under way at the same time.
fn in_stages(classifier: &Classifier, keys: &[Key]) -> Vec<Option<Hit>> {
    let mut searches = vec![Staged::default(); keys.len()];
    keys.iter().zip(&mut searches).for_each(|(key, search)| classifier.begin(key, search));
    searches.iter_mut().for_each(|search| classifier.advance(search));
    searches.iter().for_each(|search| classifier.approach(search));
    searches.iter_mut().map(|search| classifier.finish(search)).collect()
}

proptest! {
    #[test]
    fn searches_in_stages_find_the_same(rules in rules(120), keys in proptest::collection::vec(key(), 60)) {
        let classifier = Classifier::build(rules).unwrap();
        let alone: Vec<_> = keys.iter().map(|key| classifier.classify(key)).collect();
        prop_assert_eq!(in_stages(&classifier, &keys), alone);
    }
}

/// Pairs of rule set and key: more with `PERHOP_SOAK_PAIRS`.
#[test]
fn random_pairs_of_rules_and_keys_agree_with_a_linear_scan() {
    let pairs: usize = std::env::var("PERHOP_SOAK_PAIRS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    const KEYS: usize = 500;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (rules, keys) = (rules(200), proptest::collection::vec(key(), KEYS));
    for _ in 0..pairs.div_ceil(KEYS) {
        let rules = rules.new_tree(&mut runner).unwrap().current();
        let classifier = Classifier::build(rules).unwrap();
        let keys = keys.new_tree(&mut runner).unwrap().current();
        for (key, staged) in keys.iter().zip(in_stages(&classifier, &keys)) {
            let found = classifier.classify(key);
            assert_eq!(found, staged, "{key:?}");
            assert_eq!(found.map(|r| r.id), classifier.linear(key).map(|r| r.id), "{key:?}");
        }
    }
}

/// Prefixes of nothing but zeros have the same words at every length.
#[test]
fn the_unspecified_address_visits_each_place_once() {
    let lengths = [0, 32, 48, 64, 128];
    let any = Ipv6Addr::UNSPECIFIED;
    let net = |len: u8| IpNet::new(any.into(), len).unwrap();
    let rules = (0..25u32).map(|n| Rule {
        id: FilterId(n),
        tier: 0,
        // Later pairs of lengths have better rules, and one in the middle the best.
        priority: if n == 12 { 0 } else { 100 - n },
        name: format!("r{n}").into(),
        matches: Match {
            src: Some(net(lengths[n as usize / 5])),
            dst: Some(net(lengths[n as usize % 5])),
            // Only the last is for another protocol.
            protocol: Some(if n == 24 { 17 } else { 6 }),
            ..Match::default()
        },
        action: Action::default(),
    });
    let mut book = RuleBook::keyed(7);
    book.change(rules.collect(), &[]).unwrap();
    let classifier = book.classifier();
    let key = |protocol| Key {
        in_port: PortId(0),
        vlan: 0,
        src: any.into(),
        dst: any.into(),
        protocol,
        ports: Some((1, 2)),
        dscp: 0,
        tcp_flags: None,
        fragment: false,
    };
    for (protocol, first, visits) in
        [(6, Some(FilterId(12)), 1..=25), (17, Some(FilterId(24)), 1..=25), (1, None, 25..=25)]
    {
        let key = key(protocol);
        assert_eq!(classifier.classify(&key).map(|hit| hit.id), first);
        let seen = classifier.explain(&key);
        let matched =
            seen.iter().filter_map(|visit| visit.matched.as_ref()).min_by(|a, b| a.order().cmp(&b.order()));
        assert_eq!(matched.map(|rule| rule.id), first, "what is explained is what is found");
        assert!(visits.contains(&seen.len()), "{} visits", seen.len());
    }
}
