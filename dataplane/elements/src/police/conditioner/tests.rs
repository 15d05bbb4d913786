//! The conditioner as an element.

use super::*;
use crate::meter::{TokenBucket, TrTcmConfig, TswTcmConfig};
use crate::plumbing::frames::udp;
use crate::police::{FlowLimit, MeterSpec, ProfileSpec, RealtimeSpec, SlaSpec};
use perhop_element::testkit::Bench;
use perhop_packet::Meta;
use perhop_units::{Duration, Rate};
use proptest::prelude::*;

use perhop_packet::PortId;

const WITH_CLASS: PortId = PortId(7);

const BE: ClassId = ClassId(0);
const EF: ClassId = ClassId(1);

fn bench(prepare: impl FnOnce(&mut ConditionerChange)) -> Bench {
    let mut bench = Bench::new(Conditioner::new(BE), 1);
    let mut change = ConditionerChange::new();
    prepare(&mut change);
    let now = bench.now();
    bench.element::<Conditioner>().commit(now, &mut change);
    bench
}

fn send(bench: &mut Bench, len: u16, set: impl FnOnce(&mut Meta)) {
    let mut packet = bench.packet(&udp(len));
    set(packet.meta_mut());
    bench.push_packet(0, packet);
}

fn dscps(bench: &Bench) -> Vec<u8> {
    bench.arrived(0).iter().map(|(_, f)| f[15] >> 2).collect()
}

#[test]
fn a_profile_acts_by_color() {
    let config =
        TrTcmConfig { cir: Rate(8_000), cbs: Bytes(100), pir: Rate(8_000), pbs: Bytes(200), aware: false };
    let actions = [Action::SetClass(EF, None), Action::Remark(Dscp::EF), Action::Drop];
    let spec = ProfileSpec { meter: MeterSpec::TrTcm(config), actions };
    let mut bench = bench(|c| c.profile(ProfileId(70), Some(spec)).unwrap());
    for _ in 0..3 {
        send(&mut bench, 100, |m| m.profile = ProfileId(70));
    }
    send(&mut bench, 100, |m| m.profile = ProfileId(71));
    send(&mut bench, 100, |_| {});
    assert_eq!(dscps(&bench), [0, 46, 0, 0]);
    assert_eq!(bench.sink(0).arrived[0].1.meta().class, EF);
    let element = bench.element::<Conditioner>();
    let counters = element.profile_counters(ProfileId(70)).unwrap();
    assert_eq!(counters.colors.packets, [1, 1, 1]);
    assert_eq!((counters.dropped_packets, counters.dropped_bytes), (1, 100));
    assert_eq!(element.with(|tables| tables.unknown_ids), 1);
    assert_eq!(bench.driver.counters(bench.node).unwrap().drops[DropReason::Policed.index()], 1);
}

/// RFC 2859 §2.2: of an average a the parts ctr/a, (ptr − ctr)/a and the rest are green, yellow and red.
#[test]
fn a_profile_with_a_sliding_window_colours_by_chance() {
    const N: u64 = 3_000;
    let window = Duration::from_millis(100);
    let config = TswTcmConfig { ctr: Rate::from_mbit(1), ptr: Rate::from_mbit(2), window };
    let actions = [Action::Pass, Action::Remark(Dscp::AF12), Action::Drop];
    let spec = ProfileSpec { meter: MeterSpec::TswTcm(config), actions };
    let mut bench = bench(|c| c.profile(ProfileId(1), Some(spec)).unwrap());
    for _ in 0..N {
        // 1,000 bytes in 2 ms are 4 Mbit/s.
        bench.run_for(Duration::from_millis(2));
        let now = bench.now();
        send(&mut bench, 1000, |m| (m.profile, m.received_at) = (ProfileId(1), now));
    }
    let counters = bench.element::<Conditioner>().profile_counters(ProfileId(1)).unwrap();
    for (got, part) in counters.colors.packets.into_iter().zip([0.25, 0.25, 0.5]) {
        // Five standard deviations, and what the first windows take until the average is there.
        let most = 5.0 * (N as f64 * part * (1.0 - part)).sqrt() + 200.0;
        assert!((got as f64 - N as f64 * part).abs() < most, "{:?}", counters.colors.packets);
    }
    assert_eq!(counters.dropped_packets, counters.colors.packets[2]);
    // No long runs: as many changes of colour as of independent draws.
    let marked: Vec<bool> = dscps(&bench).into_iter().map(|dscp| dscp == Dscp::AF12.get()).collect();
    let changes = marked.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
    let n = marked.len() as f64;
    assert!((changes - n / 2.0).abs() < 5.0 * n.sqrt() / 2.0 + 100.0, "{changes} of {n}");
}

/// What one conditioner lets through is what several with the same tables let through together, packet for packet.
#[test]
fn a_profile_reached_from_several_workers_is_metered_as_in_one() {
    let spec = || {
        let meter = MeterSpec::TokenBucket { rate: Rate(8_000_000), burst: Bytes(3_000) };
        ProfileSpec { meter, actions: [Action::Pass, Action::Pass, Action::Drop] }
    };
    let mut alone = bench(|c| c.profile(ProfileId(1), Some(spec())).unwrap());
    let mut crew = vec![bench(|c| c.profile(ProfileId(1), Some(spec())).unwrap())];
    let others = crew[0].element::<Conditioner>().share(3);
    crew.extend(others.into_iter().map(|other| Bench::new(other, 1)));
    let mut seed = 5u64;
    for step in 0..4_000u64 {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (len, worker) = (100 + (seed >> 40) as u16 % 1_200, (seed >> 33) as usize % 4);
        for bench in std::iter::once(&mut alone).chain(&mut crew) {
            bench.run_until(Instant(step * 300_000));
        }
        for bench in [&mut alone, &mut crew[worker]] {
            let now = bench.now();
            send(bench, len, |m| (m.profile, m.received_at) = (ProfileId(1), now));
        }
    }
    let bytes = |bench: &Bench| bench.arrived(0).iter().map(|(_, f)| f.len() as u64 - 14).sum::<u64>();
    let all: u64 = crew.iter().map(bytes).sum();
    assert_eq!(all, bytes(&alone));
    // 1.2 s at 1 MB/s, and the burst.
    assert!((1_176_000..=1_203_000).contains(&all), "{all}");
    let counters = crew.iter_mut().map(|b| b.element::<Conditioner>().profile_counters(ProfileId(1)));
    let counters: Vec<_> = counters.collect();
    assert_eq!(counters[0].unwrap().colors.packets.iter().sum::<u64>(), 4_000);
    assert_eq!(counters[1..], [None; 3], "told once");
}

fn contract(policy: OutOfProfile, traffic: SlaTraffic) -> SlaSpec {
    SlaSpec {
        rate: Rate(8_000),
        burst: Bytes(150),
        shared_pct: 100,
        flow_idle: Duration::from_secs(30),
        dscp: Some(Dscp::EF),
        policy,
        traffic,
    }
}

#[test]
fn a_contract_applies_its_policy_to_classified_traffic() {
    for (policy, expected) in [
        (OutOfProfile::Ok, vec![46, 46, 46, 0]),
        (OutOfProfile::Drop, vec![46, 0]),
        (OutOfProfile::Demote, vec![46, 0, 0, 0]),
    ] {
        let spec = contract(policy, SlaTraffic::Classified);
        let mut bench = bench(|c| c.sla(SlaId(3), Some(spec)).unwrap());
        // Recognised, by filter, both; best effort is not the contract's concern.
        for (class, realtime) in [(BE, true), (EF, false), (EF, true), (BE, false)] {
            send(&mut bench, 100, |m| (m.sla, m.class, m.realtime) = (SlaId(3), class, realtime));
        }
        assert_eq!(dscps(&bench), expected, "{policy:?}");
        let counters = bench.element::<Conditioner>().sla_counters(SlaId(3)).unwrap();
        assert_eq!(counters.colors.packets, [1, 0, 2]);
        assert_eq!(counters.demoted_packets, 2 * u64::from(policy == OutOfProfile::Demote));
        if policy == OutOfProfile::Demote {
            let meta = bench.sink(0).arrived[1].1.meta();
            assert_eq!((meta.class, meta.realtime), (BE, false));
        }
    }
}

#[test]
fn a_contract_says_which_traffic_it_concerns() {
    let cases = [(SlaTraffic::Recognised, 1), (SlaTraffic::Classified, 2), (SlaTraffic::Every, 3)];
    for (traffic, charged) in cases {
        let spec = contract(OutOfProfile::Ok, traffic);
        let mut bench = bench(|c| c.sla(SlaId(0), Some(spec)).unwrap());
        for (class, realtime) in [(EF, true), (EF, false), (BE, false)] {
            send(&mut bench, 50, |m| (m.sla, m.class, m.realtime) = (SlaId(0), class, realtime));
        }
        let counters = bench.element::<Conditioner>().sla_counters(SlaId(0)).unwrap();
        assert_eq!(counters.colors.packets, [charged, 0, 0], "{traffic:?}");
    }
}

fn calls(ports: Vec<PortId>) -> RealtimeSpec {
    RealtimeSpec { rate: Rate(8_000), burst: Bytes(100), flow: None, excess: Excess::Drop, dscp: None, ports }
}

#[test]
fn real_time_traffic_is_policed_to_its_class() {
    for (excess, out) in [(Excess::Drop, 2), (Excess::Demote, 3)] {
        let dscp = Some(Dscp::EF);
        let spec = RealtimeSpec { excess, dscp, ..calls(vec![WITH_CLASS]) };
        let mut bench = bench(|c| c.realtime(EF, Some(spec)).unwrap());
        send(&mut bench, 100, |m| (m.class, m.realtime) = (EF, true));
        send(&mut bench, 100, |m| (m.class, m.realtime) = (EF, true));
        send(&mut bench, 100, |m| m.class = EF);
        assert_eq!(bench.arrived(0).len(), out, "{excess:?}");
        assert_eq!(dscps(&bench)[..2], [46, 0], "{excess:?}");
        let counters = bench.element::<Conditioner>().class_counters(EF).unwrap();
        assert_eq!(counters.colors.bytes, [100, 0, 100]);
    }
}

#[test]
fn both_directions_of_a_call_do_not_share_one_rate() {
    let spec = calls;
    let two = |m: &mut perhop_packet::Meta, port| (m.class, m.realtime, m.in_port) = (EF, true, port);
    // One port has the class: what comes in there leaves elsewhere and has nothing to be policed to.
    let mut bench_one = bench(|c| c.realtime(EF, Some(spec(vec![WITH_CLASS]))).unwrap());
    for port in [PortId(0), PortId(0), WITH_CLASS, WITH_CLASS, WITH_CLASS] {
        send(&mut bench_one, 100, |m| two(m, port));
    }
    assert_eq!(bench_one.arrived(0).len(), 4, "the second of the first direction is beyond the rate");
    // Two ports have it: each direction has the rate for itself.
    let mut bench_two = bench(|c| c.realtime(EF, Some(spec(vec![WITH_CLASS, PortId(3)]))).unwrap());
    for port in [WITH_CLASS, WITH_CLASS, PortId(3), PortId(3), PortId(0), PortId(0)] {
        send(&mut bench_two, 100, |m| two(m, port));
    }
    assert_eq!(bench_two.arrived(0).len(), 3);
}

#[test]
fn a_replaced_entry_keeps_counters_and_tokens_within_its_new_burst() {
    let spec = |burst| ProfileSpec {
        meter: MeterSpec::TokenBucket { rate: Rate(8_000), burst: Bytes(burst) },
        actions: [Action::Pass, Action::Pass, Action::Drop],
    };
    let mut bench = bench(|c| c.profile(ProfileId(0), Some(spec(300))).unwrap());
    send(&mut bench, 100, |m| m.profile = ProfileId(0));
    let mut change = ConditionerChange::new();
    change.profile(ProfileId(0), Some(spec(1000))).unwrap();
    bench.element::<Conditioner>().commit(Instant(0), &mut change);
    for _ in 0..3 {
        send(&mut bench, 100, |m| m.profile = ProfileId(0));
    }
    // 200 bytes were left and a bigger bucket does not fill itself.
    let counters = bench.element::<Conditioner>().profile_counters(ProfileId(0)).unwrap();
    assert_eq!(counters.colors.packets, [3, 0, 1]);

    let mut change = ConditionerChange::new();
    change.profile(ProfileId(0), None).unwrap();
    bench.element::<Conditioner>().commit(Instant(0), &mut change);
    assert_eq!(bench.element::<Conditioner>().profile_counters(ProfileId(0)), None);
    assert!(change.profile(ProfileId(crate::police::MAX_IDS), None).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Packet { id: u32, len: u16, gap: u64 },
    Put { id: u32, burst: u64 },
    Remove { id: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || prop_oneof![0u32..4, 62u32..66];
    let step = prop_oneof![
        6 => (id(), 28u16..1500, 0u64..50_000_000).prop_map(|(id, len, gap)| Step::Packet { id, len, gap }),
        1 => (id(), 1u64..5000).prop_map(|(id, burst)| Step::Put { id, burst }),
        1 => id().prop_map(|id| Step::Remove { id }),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Each entry behaves as a bucket of its own that only changes naming it can touch.
    #[test]
    fn changes_touch_only_what_they_name(steps in steps()) {
        let mut bench = Bench::new(Conditioner::new(BE), 1);
        let mut model: std::collections::HashMap<u32, (TokenBucket, u64)> = Default::default();
        for step in steps {
            let now = bench.now();
            let mut change = ConditionerChange::new();
            match step {
                Step::Put { id, burst } => {
                    let meter = MeterSpec::TokenBucket { rate: Rate(80_000), burst: Bytes(burst) };
                    let spec = ProfileSpec { meter, actions: [Action::Pass; 3] };
                    change.profile(ProfileId(id), Some(spec)).unwrap();
                    let mut new = TokenBucket::new(Rate(80_000), Bytes(burst));
                    let green = model.get(&id).map_or(0, |(old, green)| {
                        new.adopt(old, now);
                        *green
                    });
                    model.insert(id, (new, green));
                }
                Step::Remove { id } => {
                    change.profile(ProfileId(id), None).unwrap();
                    model.remove(&id);
                }
                Step::Packet { id, len, gap } => {
                    bench.run_for(Duration(gap));
                    let now = bench.now();
                    send(&mut bench, len, |m| m.profile = ProfileId(id));
                    if let Some((bucket, green)) = model.get_mut(&id) {
                        *green += u64::from(bucket.meter(now, Bytes(len.into())) == Color::Green);
                    }
                }
            }
            bench.element::<Conditioner>().commit(now, &mut change);
            for id in (0..4).chain(62..66) {
                let ours = bench.element::<Conditioner>().profile_counters(ProfileId(id));
                let expected = model.get(&id).map(|(_, green)| *green);
                prop_assert_eq!(ours.map(|c| c.colors.packets[0]), expected);
            }
        }
    }
}

/// Sends `len` bytes of a flow of contract 0.
fn send_flow(bench: &mut Bench, connection: u32, len: u16) {
    send(bench, len, |m| (m.sla, m.class, m.realtime, m.connection) = (SlaId(0), EF, true, connection));
}

fn green(bench: &mut Bench) -> u64 {
    bench.element::<Conditioner>().sla_counters(SlaId(0)).unwrap().colors.packets[0]
}

#[test]
fn a_greedy_flow_takes_no_more_than_its_share_and_what_is_common() {
    for (shared_pct, calls_lose) in [(0, false), (50, false), (100, true)] {
        let spec = SlaSpec { rate: Rate(160_000), burst: Bytes(3_000), shared_pct, ..contract_of_calls() };
        let mut bench = bench(|c| c.sla(SlaId(0), Some(spec)).unwrap());
        // A call of 40 kbit/s, and a flow that offers three times the contract.
        let mut got = [0; 2];
        for ms in 0..2_000 {
            for (flow, due) in [(0, ms % 20 == 0), (1, true)] {
                if due {
                    let before = green(&mut bench);
                    send_flow(&mut bench, flow, if flow == 0 { 100 } else { 60 });
                    got[flow as usize] += green(&mut bench) - before;
                }
            }
            bench.run_for(Duration::from_millis(1));
        }
        assert_eq!(got[0] < 100, calls_lose, "{shared_pct}: {got:?}");
        assert_eq!(bench.element::<Conditioner>().sla_flows(SlaId(0)), Some(2 * u32::from(shared_pct < 100)));
        // What is not used by the one is not lost for the contract, as far as it is common.
        let bytes = bench.element::<Conditioner>().sla_counters(SlaId(0)).unwrap().colors.bytes[0];
        assert!(bytes <= 40_000 + 9_000, "{bytes}");
    }
}

fn contract_of_calls() -> SlaSpec {
    contract(OutOfProfile::Demote, SlaTraffic::Recognised)
}

#[test]
fn a_silent_flow_leaves_its_share_to_the_others_and_a_change_keeps_the_flows() {
    let spec = SlaSpec {
        rate: Rate(80_000),
        burst: Bytes(3_000),
        shared_pct: 0,
        flow_idle: Duration::from_secs(5),
        ..contract_of_calls()
    };
    let mut bench = bench(|c| c.sla(SlaId(0), Some(spec)).unwrap());
    let per_second = |bench: &mut Bench, flows: std::ops::Range<u32>| {
        let before = green(bench);
        for _ in 0..100 {
            flows.clone().for_each(|f| send_flow(bench, f, 100));
            bench.run_for(Duration::from_millis(10));
        }
        green(bench) - before
    };
    per_second(&mut bench, 0..4);
    let four = per_second(&mut bench, 0..4);
    assert!((96..=100).contains(&four), "all of the contract: {four}");
    let one = per_second(&mut bench, 0..1);
    assert!((24..=26).contains(&one), "a quarter, while the others may come again: {one}");
    for _ in 0..5 {
        per_second(&mut bench, 0..1);
    }
    assert_eq!(bench.element::<Conditioner>().sla_flows(SlaId(0)), Some(1));
    let alone = per_second(&mut bench, 0..1);
    assert!((99..=101).contains(&alone), "{alone}");

    // Another rate: the flow stays, and so do its tokens.
    let mut change = ConditionerChange::new();
    change.sla(SlaId(0), Some(SlaSpec { rate: Rate(40_000), ..spec })).unwrap();
    let now = bench.now();
    bench.element::<Conditioner>().commit(now, &mut change);
    assert_eq!(bench.element::<Conditioner>().sla_flows(SlaId(0)), Some(1));
    let half = per_second(&mut bench, 0..1);
    assert!((49..=51).contains(&half), "{half}");

    // Removed and put again: nobody is in it.
    for spec in [None, Some(spec)] {
        let mut change = ConditionerChange::new();
        change.sla(SlaId(0), spec).unwrap();
        bench.element::<Conditioner>().commit(now, &mut change);
    }
    assert_eq!(bench.element::<Conditioner>().sla_flows(SlaId(0)), Some(0));
    send_flow(&mut bench, 0, 100);
    assert_eq!(bench.element::<Conditioner>().sla_flows(SlaId(0)), Some(1));
}

#[test]
fn packets_without_a_connection_have_what_is_common() {
    let spec = SlaSpec { rate: Rate(80_000), burst: Bytes(3_000), shared_pct: 50, ..contract_of_calls() };
    let mut bench = bench(|c| c.sla(SlaId(0), Some(spec)).unwrap());
    send_flow(&mut bench, 0, 100);
    for _ in 0..40 {
        send(&mut bench, 100, |m| (m.sla, m.class, m.realtime) = (SlaId(0), EF, true));
    }
    assert_eq!(green(&mut bench), 31);
}

#[test]
fn a_flow_beyond_its_limit_is_demoted_and_harms_no_other() {
    let limit = FlowLimit { rate: Rate(8_000), burst: Bytes(200), idle: Duration::from_secs(30) };
    let spec =
        RealtimeSpec { rate: Rate(80_000), burst: Bytes(500), flow: Some(limit), ..calls(vec![WITH_CLASS]) };
    let mut bench = bench(|c| c.realtime(EF, Some(spec)).unwrap());
    for flow in [0, 0, 0, 0, 1, 1, 2] {
        send(&mut bench, 100, |m| (m.class, m.realtime, m.connection) = (EF, true, flow));
    }
    let classes: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().class).collect();
    assert_eq!(classes, [EF, EF, BE, BE, EF, EF, EF]);
    let counters = bench.element::<Conditioner>().class_counters(EF).unwrap();
    assert_eq!((counters.flow_limited_packets, counters.demoted_packets), (2, 2));
    // A wider limit goes on with what there is.
    let mut change = ConditionerChange::new();
    let wider = FlowLimit { rate: Rate(80_000), burst: Bytes(2_000), ..limit };
    change
        .realtime(EF, Some(RealtimeSpec { rate: Rate(800_000), flow: Some(wider), ..spec_of(&wider) }))
        .unwrap();
    let now = bench.now();
    bench.element::<Conditioner>().commit(now, &mut change);
    send(&mut bench, 100, |m| (m.class, m.realtime, m.connection) = (EF, true, 0));
    let counters = bench.element::<Conditioner>().class_counters(EF).unwrap();
    assert_eq!(counters.flow_limited_packets, 3);
}

fn spec_of(limit: &FlowLimit) -> RealtimeSpec {
    RealtimeSpec { flow: Some(*limit), burst: Bytes(5_000), ..calls(vec![WITH_CLASS]) }
}
