use super::*;
use crate::model::{At, Minute, ProfileFilter};
use crate::validate::{faults, from_toml};
use perhop_model::MaskedByte;
use perhop_units::{Dscp, Duration, QueueLimit};
use proptest::prelude::*;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn action() -> impl Strategy<Value = Action> {
    let dscp = (0u8..64).prop_map(|value| Dscp::new(value).expect("a code point"));
    prop_oneof![
        Just(Action::Pass),
        Just(Action::Drop),
        Just(Action::Demote),
        Just(Action::Shape { class: name("low") }),
        dscp.clone().prop_map(|dscp| Action::Mark { dscp }),
        proptest::option::of(dscp).prop_map(|dscp| Action::Class { class: name("rest"), dscp }),
    ]
}

fn meter_spec() -> impl Strategy<Value = MeterSpec> {
    let rate = || (1u64..=1_000_000_000_000).prop_map(Rate);
    let burst = || (1500u64..=1 << 30).prop_map(Bytes);
    prop_oneof![
        Just(MeterSpec::None),
        (rate(), burst()).prop_map(|(cir, cbs)| MeterSpec::TokenBucket { cir, cbs }),
        (rate(), burst(), burst(), any::<bool>()).prop_map(|(cir, cbs, ebs, aware)| MeterSpec::Srtcm {
            cir,
            cbs,
            ebs,
            aware
        }),
        (rate(), rate(), burst(), any::<bool>()).prop_map(|(a, b, cbs, aware)| MeterSpec::Trtcm {
            cir: a.min(b),
            cbs,
            pir: a.max(b),
            pbs: cbs,
            aware
        }),
        (rate(), 1_000_000u64..=60_000_000_000).prop_map(|(cir, ns)| MeterSpec::Tswtcm {
            cir,
            pir: cir,
            window: Duration(ns)
        }),
    ]
}

fn matches() -> impl Strategy<Value = FilterMatch> {
    let masked = |most: u8| {
        (any::<u8>(), any::<u8>()).prop_map(move |(v, m)| MaskedByte { value: v & m & most, mask: m & most })
    };
    let ports = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) });
    use proptest::option::of;
    (
        of(0u16..=4094),
        of(0u8..=32),
        of(ports.clone()),
        of(ports),
        of(masked(63)),
        of(masked(255)),
        of(any::<bool>()),
    )
        .prop_map(|(vlan, length, src_ports, dst_ports, dscp, tcp_flags, fragment)| FilterMatch {
            vlan,
            src: length
                .map(|length| ipnet::IpNet::new([10, 9, 8, 7].into(), length).expect("a prefix").trunc()),
            protocol: Some(6),
            src_ports,
            dst_ports,
            dscp,
            tcp_flags,
            fragment,
            ..FilterMatch::default()
        })
}

prop_compose! {
    fn sla()(
        rate in 1_000u64..=1_000_000_000_000,
        burst in prop_oneof![Just(0u64), 1500u64..=1 << 30],
        dscp in proptest::option::of(0u8..64),
        times in proptest::collection::vec(proptest::option::of(1_000_000_000u64..=86_400_000_000_000), 2),
        amount in 1u64..=1 << 50,
        per in 0usize..3,
        slots in proptest::collection::vec((1u8..128, 0u16..=1440, 0u16..=1440), 0..3),
        premium: bool,
        shared_pct in 0u8..=100,
    ) -> Sla {
        let slot = |(days, from, until)| Slot { days: Days(days), from: Minute(from), until: Minute(until), sla: name("other") };
        Sla {
            rate: Rate(rate),
            burst: Bytes(burst),
            dscp: dscp.and_then(Dscp::new),
            policy: [SlaPolicy::Ok, SlaPolicy::Drop, SlaPolicy::Demote][per],
            shared_pct,
            premium,
            profile: Some(name("p")),
            idle_timeout: times[0].map(Duration),
            session_timeout: times[1].map(Duration),
            quota: Some(Quota {
                amount: Bytes(amount),
                per: [Period::Session, Period::Day, Period::Week][per],
                then: if premium { Then::Disconnect } else { Then::Sla(name("other")) },
            }),
            schedule: slots.into_iter().map(slot).collect(),
        }
    }
}

fn policy(sla: Sla, profile: Profile, share: u32, queue: QueueLimit, first: FilterMatch) -> Policy {
    let on = vec!["*/wan".parse().expect("a pattern")];
    let low = Class {
        ports: on.clone(),
        ceiling: Some(Share::Ppm(share.max(1))),
        queue: Some(queue),
        ..Class::default()
    };
    let rest = Class {
        ports: on,
        default: true,
        guarantee: Share::Ppm(share),
        tier: 3,
        weight: 7,
        ..Class::default()
    };
    let filter = ClassFilter {
        routers: vec![name("edge")],
        tier: 9,
        priority: 10,
        matches: first,
        class: name("rest"),
        realtime: Some(true),
    };
    let ports = [(name("wan"), Rate::from_mbit(10)), (name("lan"), Rate::ZERO)].into();
    let at = Some(At { router: name("edge"), port: name("lan") });
    let prefixes = vec!["10.0.0.0/24".parse().expect("a prefix"), "2001:db8::/32".parse().expect("a prefix")];
    Policy {
        routers: [(name("edge"), Router { ports })].into(),
        classes: [(name("low"), low), (name("rest"), rest)].into(),
        filters: [(name("f"), filter)].into(),
        profiles: [(name("p"), profile)].into(),
        slas: [(name("s"), sla), (name("other"), Sla { rate: Rate::from_kbit(1), ..Sla::default() })].into(),
        subscribers: [(name("ann"), Subscriber { sla: name("s"), prefixes, at })].into(),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same_policy(
        sla in sla(),
        meter in meter_spec(),
        colours in (action(), action(), action()),
        filters in proptest::collection::vec(matches(), 0..3),
        first in matches(),
        share in 0u32..=1_000_000,
        queue in prop_oneof![
            (1u32..=1_000_000).prop_map(QueueLimit::Packets),
            (1514u64..=1 << 32).prop_map(|n| QueueLimit::Bytes(Bytes(n))),
            (1_000u64..=60_000_000_000).prop_map(|ns| QueueLimit::Time(Duration(ns))),
        ],
    ) {
        let of = |(order, matches)| (name(&format!("f{order}")), ProfileFilter { priority: order * 10, matches, class: None });
        let (green, yellow, red) = colours;
        let profile = Profile { meter, green, yellow, red, filters: (1u32..).zip(filters).map(of).collect() };
        let policy = policy(sla, profile, share, queue, first);
        // Filters of one condition hide each other, which is a fault of its own.
        prop_assume!(faults(&policy).is_empty());
        let text = to_toml(&policy);
        let (read, diagnostics) = from_toml("p.toml", &text);
        prop_assert_eq!(read, Some(policy), "{}\n{}", diagnostics, text);
    }
}
