use super::*;
use crate::admission::Standing;
use crate::classifier::{Action, Key, Masked, Match, PortRange, Rule, RuleBook, tests as rules};
use crate::event::FlowEventKind;
use crate::query::SNAPSHOT_SLOTS;
use crate::realtime::{Detector, Stages, rtp::RtpSettings};
use ipnet::IpNet;
use perhop_element::testkit::Bench;
use perhop_packet::{Direction, FilterId, NO_CONNECTION, PortId, SlaId};
use proptest::prelude::*;
use std::net::IpAddr;

mod displacing;
mod relocating;
mod reporting;

const EF: ClassId = ClassId(46);
const BE: ClassId = ClassId(0);

/// One packet to be made.
#[derive(Clone, Debug)]
struct Made {
    src: IpAddr,
    dst: IpAddr,
    tcp: bool,
    ports: (u16, u16),
    tos: u8,
    flags: u8,
    /// (offset in 8 bytes, more, id)
    fragment: Option<(u16, bool, u16)>,
    payload: Vec<u8>,
}

impl Made {
    fn udp(src: &str, dst: &str, ports: (u16, u16), payload: Vec<u8>) -> Self {
        let ip = |s: &str| s.parse().unwrap();
        Self { src: ip(src), dst: ip(dst), tcp: false, ports, tos: 0, flags: 0, fragment: None, payload }
    }

    fn frame(&self) -> Vec<u8> {
        let mut l4 = Vec::new();
        if self.fragment.is_none_or(|(offset, ..)| offset == 0) {
            l4.extend_from_slice(&self.ports.0.to_be_bytes());
            l4.extend_from_slice(&self.ports.1.to_be_bytes());
            if self.tcp {
                l4.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0x50, self.flags, 0, 0, 0, 0, 0, 0]);
            } else {
                l4.extend_from_slice(&(self.payload.len() as u16 + 8).to_be_bytes());
                l4.extend_from_slice(&[0, 0]);
            }
        }
        l4.extend_from_slice(&self.payload);
        let proto = if self.tcp { 6 } else { 17 };
        let mut frame = vec![0; 12];
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (offset, more, id) = self.fragment.unwrap_or((0, false, 0));
                let len = (20 + l4.len() as u16).to_be_bytes();
                let field = (offset | u16::from(more) << 13).to_be_bytes();
                let id = id.to_be_bytes();
                frame.extend_from_slice(&[
                    8, 0, 0x45, self.tos, len[0], len[1], id[0], id[1], field[0], field[1],
                ]);
                frame.extend_from_slice(&[64, proto, 0, 0]);
                frame.extend_from_slice(&src.octets());
                frame.extend_from_slice(&dst.octets());
                let sum = perhop_wire::checksum::of(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let len = (l4.len() as u16).to_be_bytes();
                frame.extend_from_slice(&[0x86, 0xdd, 0x60 | self.tos >> 4, self.tos << 4, 0, 0]);
                frame.extend_from_slice(&[len[0], len[1], proto, 64]);
                frame.extend_from_slice(&src.octets());
                frame.extend_from_slice(&dst.octets());
            }
            _ => panic!("mixed families"),
        }
        frame.extend_from_slice(&l4);
        frame
    }
}

fn rtp(i: u16) -> Vec<u8> {
    let mut p = vec![0x80, 0];
    p.extend_from_slice(&i.to_be_bytes());
    p.extend_from_slice(&(u32::from(i) * 160).to_be_bytes());
    p.extend_from_slice(&[0, 0, 0, 7]);
    p.resize(172, 0);
    p
}

fn settings(realtime: bool) -> Settings {
    let detector = Detector {
        enabled: true,
        rtp: RtpSettings::default(),
        stages: Stages::default(),
        promote_class: EF,
        in_ports: Vec::new(),
    };
    Settings { default_class: BE, detector: realtime.then_some(detector), ..Settings::default() }
}

fn bench(config: FlowsConfig, list: Vec<Rule>, settings: Settings) -> Bench {
    let flows = Flows::new(config, Classifier::build(list).unwrap(), Arc::new(settings));
    Bench::new(flows, 1)
}

fn small() -> FlowsConfig {
    FlowsConfig { connections: 64, undecided: 8, fragments: 16, events: 16, ..FlowsConfig::default() }
}

/// Pushes one frame in at port `port` and returns what was written into its metadata.
fn push(bench: &mut Bench, made: &Made, port: u16) -> Meta {
    let mut packet = bench.packet(&made.frame());
    assert!(packet.meta().parsed, "{made:?}");
    packet.meta_mut().in_port = PortId(port);
    bench.push_packet(0, packet);
    *bench.sink(0).arrived.last().unwrap().1.meta()
}

fn rule(id: u32, matches: Match, class: Option<ClassId>) -> Rule {
    let action = Action { class, ..Action::default() };
    Rule { id: FilterId(id), tier: 0, priority: id, name: format!("r{id}").into(), matches, action }
}

fn dst(net: &str) -> Match {
    Match { dst: Some(net.parse::<IpNet>().unwrap()), ..Match::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Packet { which: u8, tos: u8, flags: u8, port: u16, tcp: bool, v6: bool, first: bool },
    Add(Rule),
    Remove(proptest::sample::Index),
    Settings { trusted: bool, class: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let packet = (any::<u8>(), any::<u8>(), 0..32u8, 0..3u16, any::<[bool; 2]>(), 0..4u8).prop_map(
        |(which, tos, flags, port, [tcp, v6], first)| Step::Packet {
            which: which & 7,
            tos,
            flags,
            port,
            tcp,
            v6,
            first: first == 0,
        },
    );
    prop_oneof![
        12 => packet,
        3 => rules::rules(2).prop_filter_map("a rule", |mut r| r.pop().map(Step::Add)),
        2 => any::<proptest::sample::Index>().prop_map(Step::Remove),
        1 => any::<(bool, bool)>().prop_map(|(trusted, class)| Step::Settings { trusted, class }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Whatever changes come between, each packet gets what a linear scan over the rules of that moment gives.
    #[test]
    fn cached_verdicts_are_those_of_a_linear_scan(
        initial in rules::rules(30),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut bench = bench(small(), initial.clone(), settings(false));
        let mut ids: Vec<FilterId> = initial.iter().map(|r| r.id).collect();
        let mut book = RuleBook::of(initial).unwrap();
        let mut next_id = 1000;
        for step in steps {
            let now = bench.now();
            let flows = bench.element::<Flows>();
            let rules_now = Arc::clone(flows.classifier());
            match step {
                Step::Packet { which, tos, flags, port, tcp, v6, first } => {
                    let ip = |n: u8| rules::address(v6, n * 36);
                    let made = Made {
                        src: ip(which),
                        dst: ip(7 - which),
                        tcp,
                        ports: (5000 + u16::from(which), 5007 - u16::from(which)),
                        tos,
                        flags,
                        fragment: (first && !v6).then_some((0, true, u16::from(which))),
                        payload: vec![0; 20],
                    };
                    let settings = Arc::clone(flows.settings());
                    let meta = push(&mut bench, &made, port);
                    let key = Key::of(&made.frame(), &meta.layout, PortId(port)).unwrap();
                    let expected = judge(rules_now.linear(&key).map(Rule::hit), &settings, &key);
                    prop_assert_eq!(
                        (meta.filter, meta.sla, meta.profile, meta.class),
                        (expected.filter, expected.sla, expected.profile, expected.class),
                        "{:?}", key
                    );
                }
                Step::Add(mut rule) => {
                    rule.id = FilterId(next_id);
                    rule.name = format!("n{next_id}").into();
                    next_id += 1;
                    ids.push(rule.id);
                    let changed = book.change(vec![rule], &[]).unwrap();
                    let (classifier, deltas) = (Some(changed.classifier), changed.deltas);
                    flows.commit(now, FlowsChange { classifier, deltas, settings: None });
                }
                Step::Remove(index) if !ids.is_empty() => {
                    let id = ids.swap_remove(index.index(ids.len()));
                    let changed = book.change(Vec::new(), &[id]).unwrap();
                    let (classifier, deltas) = (Some(changed.classifier), changed.deltas);
                    flows.commit(now, FlowsChange { classifier, deltas, settings: None });
                }
                Step::Remove(_) => {}
                Step::Settings { trusted, class } => {
                    let mut new = settings(false);
                    new.trusted = vec![trusted, false, true];
                    new.dscp_classes[46] = EF;
                    new.default_class = ClassId(u32::from(class));
                    let settings = Some(Arc::new(new));
                    flows.commit(now, FlowsChange { settings, deltas: vec![Delta::All], classifier: None });
                }
            }
        }
    }
}

#[test]
fn a_change_that_does_not_concern_a_flow_does_not_reclassify_it() {
    let first = rule(1, dst("10.1.0.0/16"), Some(ClassId(5)));
    let mut book = RuleBook::of([first.clone()]).unwrap();
    let mut bench = bench(small(), vec![first], settings(false));
    let call = Made::udp("10.0.0.1", "10.1.0.2", (1, 2), vec![0; 20]);
    assert_eq!(push(&mut bench, &call, 0).class, ClassId(5));
    assert_eq!(push(&mut bench, &call, 0).filter, FilterId(1));
    let mut add = |bench: &mut Bench, rule: Rule| {
        let now = bench.now();
        let flows = bench.element::<Flows>();
        let changed = book.change(vec![rule], &[]).unwrap();
        let (classifier, deltas) = (Some(changed.classifier), changed.deltas);
        flows.commit(now, FlowsChange { classifier, deltas, settings: None });
    };
    for i in 0..16 {
        add(&mut bench, rule(100 + i, dst("10.2.0.0/16"), None));
    }
    push(&mut bench, &call, 0);
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.created, c.classified, c.hits, c.revalidated), (1, 1, 1, 1));
    // Of more than are kept as they are the addresses tell.
    for i in 0..17 {
        add(&mut bench, rule(200 + i, dst("10.2.0.0/16"), None));
    }
    push(&mut bench, &call, 0);
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.classified, c.revalidated), (1, 2));
    // So many are more than the log remembers.
    for i in 0..2 * DeltaLog::SPAN {
        add(&mut bench, rule(1_000 + i, dst(&format!("10.2.{}.{}/32", i / 256, i % 256)), None));
    }
    push(&mut bench, &call, 0);
    add(&mut bench, rule(10_000, dst("10.2.0.0/16"), None));
    push(&mut bench, &call, 0);
    assert_eq!(bench.element::<Flows>().flow_counters().classified, 2);
    // An earlier rule that concerns the flow moves it, once.
    add(&mut bench, rule(0, dst("10.1.0.2/32"), Some(ClassId(6))));
    assert_eq!(push(&mut bench, &call, 0).class, ClassId(6));
    push(&mut bench, &call, 0);
    assert_eq!(bench.element::<Flows>().flow_counters().moved, 1);
}

#[test]
fn four_verdicts_a_direction_are_kept_by_code_point() {
    let ef = Match { dscp: Some(Masked { value: 46, mask: 63 }), ..Match::default() };
    let mut bench = bench(small(), vec![rule(1, ef, Some(EF))], settings(false));
    let mut call = Made::udp("10.0.0.1", "10.1.0.2", (1, 2), vec![0; 20]);
    for round in 0..3 {
        for dscp in [0, 46, 8, 10] {
            call.tos = dscp << 2;
            let class = push(&mut bench, &call, 0).class;
            assert_eq!(class, if dscp == 46 { EF } else { BE }, "round {round}");
        }
    }
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.classified, c.hits, c.moved), (4, 8, 0));
}

#[test]
fn the_tenth_packet_of_a_call_is_promoted_and_so_on_until_it_ends() {
    let list = vec![
        rule(1, dst("10.1.0.3/32"), Some(ClassId(5))),
        Rule {
            action: Action { class: Some(ClassId(5)), realtime: Some(true), ..Action::default() },
            ..rule(2, dst("10.1.0.4/32"), None)
        },
    ];
    let mut bench = bench(small(), list, settings(true));
    let mut promoted = [0; 3];
    for i in 0..20 {
        for (n, to) in ["10.1.0.2", "10.1.0.3", "10.1.0.4"].iter().enumerate() {
            let meta = push(&mut bench, &Made::udp("10.0.0.1", to, (5004, 5006), rtp(i)), 0);
            let base = if n == 0 { BE } else { ClassId(5) };
            assert_eq!(meta.class, if meta.realtime { EF } else { base });
            assert_eq!(meta.direction, Direction::Forward);
            promoted[n] += u32::from(meta.realtime);
        }
        bench.run_for(Duration::from_millis(20));
    }
    assert_eq!(promoted, [11, 0, 11]);
    // The other direction has not been recognised: it is another flow.
    let back = push(&mut bench, &Made::udp("10.1.0.2", "10.0.0.1", (5006, 5004), rtp(1)), 0);
    assert_eq!((back.direction, back.realtime, back.class), (Direction::Reverse, false, BE));
    let mut events = Vec::new();
    bench.element::<Flows>().take_events(&mut events);
    assert_eq!(events.iter().filter(|e| e.kind == FlowEventKind::Detected).count(), 3);
    assert_eq!((events[0].decided_at, events[0].ssrc, events[0].packets), (10, 7, 10));
    // Other settings keep what was recognised.
    let now = bench.now();
    let mut other = settings(true);
    if let Some(d) = &mut other.detector {
        d.enabled = false;
        d.promote_class = ClassId(47);
    }
    let change = FlowsChange { settings: Some(Arc::new(other)), ..FlowsChange::default() };
    bench.element::<Flows>().commit(now, change);
    let call = Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), rtp(20));
    assert_eq!(push(&mut bench, &call, 0).class, ClassId(47));
    assert_eq!(bench.element::<Flows>().flow_counters().moved, 2);
    bench.run_for(Duration::from_secs(100));
    bench.element::<Flows>().take_events(&mut events);
    assert_eq!(events.iter().filter(|e| e.kind == FlowEventKind::Ended).count(), 3);
    let flows = bench.element::<Flows>();
    assert_eq!((flows.table.len(), flows.undecided.len(), flows.flow_counters().expired), (0, 0, 3));
}

#[test]
fn tcp_is_never_recognised() {
    let mut bench = bench(small(), vec![], settings(true));
    for i in 0..40 {
        let made = Made { tcp: true, ..Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), rtp(i)) };
        assert!(!push(&mut bench, &made, 0).realtime);
        bench.run_for(Duration::from_millis(20));
    }
    assert_eq!(bench.element::<Flows>().flow_counters().detected, 0);
}

#[test]
fn the_element_decides_as_the_pure_detector_does() {
    use crate::realtime::demux::{Evidence, Payload};
    use crate::realtime::flow::FlowDetector;
    let mut bench = bench(small(), vec![], settings(true));
    let mut model = FlowDetector::new(RtpSettings::default(), Stages::default());
    let mut evidence = Evidence::default();
    let (mut ours, mut theirs) = (None, None);
    for i in 0..60_u16 {
        // Something else every third packet, and a jump in the middle.
        let payload = if i % 3 == 0 { vec![1; 40] } else { rtp(if i < 12 { i } else { i + 500 }) };
        if let Some(d) = model.observe(&mut evidence, bench.now(), &Payload::whole(&payload)) {
            theirs = theirs.or(Some(d.packet));
        }
        let meta = push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), payload), 0);
        if meta.realtime {
            ours = ours.or(Some(u64::from(i) + 1));
        }
        bench.run_for(Duration::from_millis(20));
    }
    assert!(ours.is_some());
    assert_eq!(ours, theirs);
}

#[test]
fn a_full_table_classifies_each_packet_by_itself_and_drops_none() {
    let config = FlowsConfig { connections: 4, stateless: 1, ..small() };
    let mut bench = bench(config, vec![rule(1, dst("10.1.0.0/16"), Some(ClassId(5)))], settings(true));
    for i in 0..10 {
        let meta = push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (i, 2), vec![0; 20]), 0);
        assert_eq!((meta.class, meta.connection == NO_CONNECTION), (ClassId(5), i >= 4));
    }
    // Two in one batch, one allowed: the other gets the default class.
    let mut batch = Batch::new();
    for i in 20..22 {
        batch.push(bench.packet(&Made::udp("10.0.0.1", "10.1.0.2", (i, 2), vec![0; 20]).frame()));
    }
    let (now, node) = (bench.now(), bench.node);
    bench.driver.push(now, node, 0, &mut batch);
    let classes: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().class).collect();
    assert_eq!(classes[10..], [ClassId(5), BE]);
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.table_full_stateless, c.stateless_over_budget), (8, 1));
    bench.run_for(Duration::from_secs(60));
    let meta = push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (30, 2), vec![0; 20]), 0);
    assert_ne!(meta.connection, NO_CONNECTION);
}

#[test]
fn later_fragments_follow_the_first() {
    let ports = Match { dst_ports: Some(PortRange::one(5006)), ..Match::default() };
    let mut bench = bench(small(), vec![rule(1, ports, Some(ClassId(5)))], settings(false));
    let part = |offset, more, id| Made {
        fragment: Some((offset, more, id)),
        ..Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), vec![0; 24])
    };
    let first = push(&mut bench, &part(0, true, 77), 0);
    let later = push(&mut bench, &part(4, false, 77), 0);
    assert_eq!((later.class, later.connection), (ClassId(5), first.connection));
    // Of another datagram, and after the time-out, nothing is known of the ports.
    assert_eq!(push(&mut bench, &part(4, false, 78), 0).class, BE);
    bench.run_for(Duration::from_secs(31));
    assert_eq!(push(&mut bench, &part(4, false, 77), 0).class, BE);
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.fragments_followed, c.fragments_orphaned), (1, 2));
}

#[test]
fn domains_and_addresses_of_both_families_are_told_apart() {
    let mut settings = settings(false);
    settings.domains = vec![0, 1];
    let mut bench = bench(small(), vec![], settings);
    let v4 = Made::udp("10.0.0.1", "10.1.0.2", (1, 2), vec![0; 20]);
    let v6 = Made::udp("::a00:1", "::a01:2", (1, 2), vec![0; 20]);
    let mut seen: Vec<u32> = [(&v4, 0), (&v4, 1), (&v6, 0), (&v6, 1)]
        .into_iter()
        .map(|(made, port)| push(&mut bench, made, port).connection)
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4);
    let back = Made::udp("::a01:2", "::a00:1", (2, 1), vec![0; 20]);
    let meta = push(&mut bench, &back, 1);
    assert!(meta.direction == Direction::Reverse && seen.contains(&meta.connection));
}

#[test]
fn what_is_not_ip_passes_with_the_default_class() {
    let mut bench = bench(small(), vec![], settings(true));
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[0x88, 0xcc]);
    bench.push(&arp);
    bench.push(&[1, 2, 3]);
    assert!(bench.sink(0).arrived.iter().all(|(_, p)| p.meta().class == BE));
    assert_eq!((bench.sink(0).arrived.len(), bench.element::<Flows>().flow_counters().not_ip), (2, 2));
}

#[test]
fn closed_tcp_connections_go_soon() {
    let mut bench = bench(small(), vec![], settings(false));
    let tcp = |flags, port| Made { tcp: true, flags, ..Made::udp("10.0.0.1", "10.1.0.2", (port, 2), vec![]) };
    for (flags, port) in [(SYN, 1), (0x10, 1), (FIN | 0x10, 1), (SYN, 2)] {
        push(&mut bench, &tcp(flags, port), 0);
    }
    bench.run_for(Duration::from_secs(80));
    assert_eq!(bench.element::<Flows>().table.len(), 1);
    bench.run_for(Duration::from_secs(300));
    assert_eq!(bench.element::<Flows>().table.len(), 0);
    assert_eq!(bench.driver.next_wakeup(), None);
}

#[test]
fn state_moves_to_a_successor_with_other_rules() {
    let mut bench = bench(small(), vec![], settings(true));
    let packet = |i| Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), rtp(i));
    let mut connection = 0;
    for i in 0..12 {
        connection = push(&mut bench, &packet(i), 0).connection;
        bench.run_for(Duration::from_millis(20));
    }
    let state = bench.element::<Flows>().export_state().unwrap();
    let list = vec![rule(9, dst("10.1.0.0/16"), None)];
    let mut successor = Flows::new(small(), Classifier::build(list).unwrap(), Arc::new(settings(true)));
    successor.import_state(state).ok().unwrap();
    assert!(successor.import_state(Box::new(5_u8)).is_err());
    *bench.element::<Flows>() = successor;
    let meta = push(&mut bench, &packet(12), 0);
    assert_eq!((meta.connection, meta.filter, meta.class), (connection, FilterId(9), EF));
}

#[test]
fn explain_agrees_with_what_happens_and_changes_nothing() {
    let ef = Match { dscp: Some(Masked { value: 46, mask: 63 }), ..dst("2001:db8::/32") };
    let mut with_slas = settings(true);
    with_slas.slas = crate::SlaMap::new([("10.1.0.0/16".parse().unwrap(), SlaId(3))]);
    let list = vec![rule(1, ef, Some(EF)), rule(2, dst("10.1.0.0/16"), None)];
    let mut bench = bench(small(), list, with_slas);
    let voice = Made { tos: 46 << 2, ..Made::udp("2001:db8::1", "2001:db8::2", (1, 2), vec![0; 20]) };
    let other = Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), rtp(0));
    for made in [voice, other] {
        let frame = made.frame();
        let layout = perhop_wire::dissect(&frame).unwrap();
        let before = *bench.element::<Flows>().flow_counters();
        let said = bench.element::<Flows>().explain(&frame, &layout, PortId(0));
        assert_eq!(*bench.element::<Flows>().flow_counters(), before);
        assert_eq!((said.connection, bench.element::<Flows>().undecided.len()), (None, 0));
        let meta = push(&mut bench, &made, 0);
        assert_eq!(said.class, Some(meta.class.0));
        assert_eq!(said.filter.map(|f| f.id), Some(meta.filter.0));
        let again = bench.element::<Flows>().explain(&frame, &layout, PortId(0));
        assert_eq!(again.connection.map(|c| (c.packets, c.verdict_is_current)), Some((1, true)));
        if made.tos == 0 {
            assert_eq!((said.sla, said.sla_from), (Some(3), "destination prefix"));
            assert_eq!((said.class_from, said.detection.as_str()), ("default", "undecided"));
        } else {
            assert_eq!((said.class_from, said.detection.as_str()), ("filter", "version"));
        }
        bench.element::<Flows>().undecided = UndecidedSlab::new(8);
    }
}

#[test]
fn show_flows_comes_in_pages() {
    let mut bench = bench(small(), vec![], settings(false));
    for i in 0..10 {
        push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (i, 2), vec![0; 20]), 0);
    }
    push(&mut bench, &Made::udp("10.1.0.2", "10.0.0.1", (2, 3), vec![0; 20]), 0);
    let now = bench.now();
    let flows = bench.element::<Flows>();
    let (mut rows, mut cursor) = (Vec::new(), Some(0));
    while let Some(at) = cursor {
        let (page, next) = flows.snapshot(now, at, 3);
        assert!(page.len() <= 6);
        rows.extend(page);
        cursor = next;
    }
    assert_eq!(rows.len(), 11);
    assert_eq!(rows.iter().filter(|r| !r.forward).count(), 1);
    assert!(rows.iter().all(|r| r.class == Some(0) && r.filter.is_none() && r.bytes == 48));
}

#[test]
fn a_page_of_flows_looks_at_a_bounded_part_of_a_table_of_dead_entries() {
    let config = FlowsConfig { connections: 4096, ..small() };
    let mut bench = bench(config, vec![], settings(false));
    for i in 0..2000 {
        push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (i, 2), vec![0; 20]), 0);
    }
    // Only the last of them goes on; the entries of the others stay behind, dead.
    let last = Made::udp("10.0.0.1", "10.1.0.2", (1999, 2), vec![0; 20]);
    for _ in 0..1000 {
        bench.run_for(Duration::from_secs(10));
        push(&mut bench, &last, 0);
    }
    let now = bench.now();
    let flows = bench.element::<Flows>();
    assert_eq!((flows.table.len(), flows.table.slots()), (1, 2000));
    let (mut rows, mut cursors) = (Vec::new(), vec![0]);
    loop {
        let (page, next) = flows.snapshot(now, cursors[cursors.len() - 1], 16);
        rows.extend(page);
        let Some(next) = next else { break };
        cursors.push(next);
    }
    assert_eq!(cursors, (0..2000).step_by(SNAPSHOT_SLOTS as usize).collect::<Vec<_>>());
    assert_eq!(rows.len(), 1);
}

#[test]
fn more_changes_than_are_remembered_are_one_that_concerns_everybody() {
    let port = |id: u32| PortRange::one(id as u16);
    let rule = |id: u32| rules::rule(id, Match { dst_ports: Some(port(id)), ..Match::default() });
    let with = |n: u32| {
        let mut book = RuleBook::of([rule(0)]).unwrap();
        book.change((1..=n).map(rule).collect(), &[]).unwrap()
    };
    let most = DeltaLog::AT_ONCE as u32;
    assert!(with(most).deltas.iter().all(|d| matches!(d, Delta::Rule(_))));
    assert_eq!(with(most).deltas.len(), DeltaLog::AT_ONCE);
    assert_eq!(with(most + 1).deltas, [Delta::All]);
    // What a change brings together from its parts is counted when it is put into force: one step, not hundreds.
    let mut bench = bench(small(), vec![], settings(false));
    let prefix = |i: u8| Delta::Sla(format!("10.9.{i}.0/24").parse().unwrap());
    let now = bench.now();
    let flows = bench.element::<Flows>();
    for (count, steps) in [(most as u8, most), (most as u8 + 1, 1), (250, 1)] {
        let before = flows.log.generation();
        let deltas = (0..count).map(prefix).collect();
        flows.commit(now, FlowsChange { deltas, ..FlowsChange::default() });
        assert_eq!(flows.log.generation() - before, steps, "{count} changes");
    }
    // The last of them concerns those whom no prefix does.
    let key = Key {
        in_port: PortId(0),
        vlan: 0,
        src: "192.0.2.1".parse().unwrap(),
        dst: "192.0.2.2".parse().unwrap(),
        protocol: 17,
        ports: None,
        dscp: 0,
        tcp_flags: None,
        fragment: false,
    };
    let now = flows.log.generation();
    assert!(flows.log.holds(now, &key) && !flows.log.holds(now - 1, &key));
}

#[test]
fn single_packets_make_room_when_the_table_is_crowded() {
    let mut bench = bench(small(), vec![], settings(true));
    let talk = |i| Made::udp("10.0.0.1", "10.1.0.2", (9, 9), rtp(i));
    let flood = |i: u16| Made::udp("10.0.0.1", "10.1.0.2", (100 + i, 9), vec![0; 20]);
    for i in 0..40 {
        push(&mut bench, &flood(i), 0);
    }
    // Not crowded: they stay.
    bench.run_for(Duration::from_secs(5));
    assert_eq!(bench.element::<Flows>().table.len(), 40);
    push(&mut bench, &talk(0), 0);
    push(&mut bench, &talk(1), 0);
    for i in 40..63 {
        push(&mut bench, &flood(i), 0);
    }
    assert_eq!(bench.element::<Flows>().table.len(), 64);
    // One of the old ones gives way at once.
    assert_ne!(push(&mut bench, &flood(999), 0).connection, NO_CONNECTION);
    bench.run_for(Duration::from_secs(4));
    // Down to the threshold, and the connection of two packets is not among those that went.
    assert!(bench.element::<Flows>().table.len() <= 48);
    push(&mut bench, &talk(2), 0);
    let (now, flows) = (bench.now(), bench.element::<Flows>());
    assert_eq!(flows.snapshot(now, 0, 64).0.iter().map(|r| r.packets).max(), Some(3));
}

#[test]
fn changes_of_settings_reclassify_only_whom_they_concern() {
    let net = |s: &str| s.parse::<IpNet>().unwrap();
    let old = settings(true);
    let same = FlowsChange::of_settings(&old, settings(false));
    assert!(same.deltas.is_empty() && same.settings.is_some());
    let slas = Settings { slas: crate::SlaMap::new([(net("10.1.0.0/16"), SlaId(3))]), ..settings(true) };
    let sla = FlowsChange::of_settings(&old, slas.clone());
    assert_eq!(sla.deltas, [Delta::Sla(net("10.1.0.0/16"))]);
    let class = Settings { default_class: EF, ..settings(true) };
    assert_eq!(FlowsChange::of_settings(&old, class.clone()).deltas, [Delta::All]);
    // Put into force: the flow inside the prefix gets its contract, the other is only tested.
    let mut bench = bench(small(), vec![], old);
    let inside = Made::udp("10.0.0.1", "10.1.0.2", (1, 2), vec![0; 20]);
    let outside = Made::udp("10.0.0.1", "10.2.0.2", (1, 2), vec![0; 20]);
    for made in [&inside, &outside] {
        assert_eq!(push(&mut bench, made, 0).sla, SlaId::NONE);
    }
    let now = bench.now();
    let replaced = bench.element::<Flows>().commit(now, sla);
    assert!(replaced.settings.is_some());
    assert_eq!(push(&mut bench, &inside, 0).sla, SlaId(3));
    assert_eq!(push(&mut bench, &outside, 0).sla, SlaId::NONE);
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.classified, c.revalidated), (3, 1));
    let both = FlowsChange::of_settings(&slas, class).and(FlowsChange::default());
    assert_eq!(both.deltas, [Delta::All]);
}

/// Flow `i` of those that [`admitted`] makes.
fn caller(i: u16, seq: u16) -> Made {
    Made::udp("10.0.0.1", "10.1.0.2", (5000 + 2 * i, 6000), rtp(seq))
}

/// Sends packets `seqs` of `calls` 20 ms apart; which of the last came on, and which of those as real-time.
fn admitted(bench: &mut Bench, calls: &[u16], seqs: std::ops::Range<u16>) -> (usize, Vec<u16>) {
    let (mut out, mut realtime) = (0, Vec::new());
    for seq in seqs {
        let before = bench.sink(0).arrived.len();
        realtime.clear();
        for i in calls {
            let arrived = bench.sink(0).arrived.len();
            let packet = bench.packet(&caller(*i, seq).frame());
            bench.push_packet(0, packet);
            if bench.sink(0).arrived.len() > arrived {
                let meta = bench.sink(0).arrived.last().unwrap().1.meta();
                assert_eq!(meta.class, if meta.realtime { EF } else { BE });
                realtime.extend(meta.realtime.then_some(*i));
            }
        }
        out = bench.sink(0).arrived.len() - before;
        bench.run_for(Duration::from_millis(20));
    }
    (out, realtime)
}

#[test]
fn admission_refuses_what_does_not_fit_and_drops_when_told() {
    use crate::admission::{AdmissionSettings, Turned};
    // A call is 80 kbit/s at IP length: three fit below 90 % of 300.
    for turned in [Turned::Demote, Turned::Drop] {
        let admission =
            AdmissionSettings { cap: perhop_units::Rate(300_000), turned, ..AdmissionSettings::default() };
        let with = |admission: AdmissionSettings| Settings { admission: Some(admission), ..settings(true) };
        let mut bench = bench(small(), vec![], with(admission.clone()));
        let calls = [0, 1, 2, 3, 4];
        let (_, three) = admitted(&mut bench, &calls[..3], 0..60);
        assert_eq!(three, [0, 1, 2]);
        // The other two are looked at when three have been measured.
        let (_, still) = admitted(&mut bench, &calls[..3], 60..200);
        assert_eq!(still, [0, 1, 2]);
        let (out, realtime) = admitted(&mut bench, &calls, 200..300);
        // With the fourth there was too much, and at the end of the interval one went.
        assert_eq!((out, realtime.len()), (if turned == Turned::Drop { 3 } else { 5 }, 3));
        assert!(!realtime.contains(&4));
        let mut events = Vec::new();
        bench.element::<Flows>().take_events(&mut events);
        let ports = |events: &[FlowEvent], is: fn(&FlowEventKind) -> bool| -> Vec<u16> {
            events.iter().filter(|e| is(&e.kind)).map(|e| e.flow.src_port).collect()
        };
        let is_dropped = |kind: &FlowEventKind| matches!(kind, FlowEventKind::Dropped(_));
        assert_eq!(ports(&events, |kind| *kind == FlowEventKind::Detected).len(), 5);
        assert_eq!(ports(&events, |kind| matches!(kind, FlowEventKind::Refused(_))), [5008]);
        // Why: four calls were 90 % of the cap, and then more than 95 %.
        for event in &events {
            let (FlowEventKind::Refused(full) | FlowEventKind::Dropped(full)) = event.kind else { continue };
            assert_eq!((full.port, full.cap.0, full.locked), (PortId::NONE, 300_000, false));
            assert!((300_000..=330_000).contains(&full.used.0), "{full:?}");
        }
        let report = bench.element::<Flows>().admission().unwrap();
        assert_eq!((report.counters.flows_offered, report.counters.flows_refused), (5, 1));
        assert_eq!((report.counters.flows_dropped, report.admitted), (1, 3));
        assert_eq!(ports(&events, is_dropped).len(), 1);
        // A step up drops another, chosen by the policy.
        let now = bench.now();
        let cancel = with(AdmissionSettings { cancel: 1, ..admission.clone() });
        bench.element::<Flows>().commit(now, FlowsChange::of_settings(&with(admission.clone()), cancel));
        events.clear();
        bench.element::<Flows>().take_events(&mut events);
        let gone = ports(&events, is_dropped);
        assert_eq!(gone.len(), 1);
        let (_, left) = admitted(&mut bench, &calls, 300..301);
        assert_eq!(left.len(), 2);
        assert!(!left.contains(&((gone[0] - 5000) / 2)));
        let (now, flows) = (bench.now(), bench.element::<Flows>());
        let rows = flows.snapshot(now, 0, 64).0;
        let standings: Vec<_> = rows.iter().filter_map(|r| r.admission).collect();
        assert_eq!(standings.len(), 5);
        assert!(rows.iter().all(|r| (r.class == Some(EF.0)) == (r.admission == Some(Standing::Admitted))));
        // Everything ends, and the books balance.
        bench.run_for(Duration::from_secs(60));
        let report = bench.element::<Flows>().admission().unwrap();
        let c = report.counters;
        assert_eq!((report.admitted, c.flows_admitted), (0, c.flows_dropped + c.flows_expired));
        let drops =
            bench.driver.counters(bench.node).unwrap().drops[perhop_packet::DropReason::NotAdmitted.index()];
        assert_eq!(drops > 0, turned == Turned::Drop);
    }
}

/// A G.711 call through loss (in bursts) and delay: the element sees the packets that get through as they arrive, the
/// receiver's log knows when each was sent.
fn a_call_through(seed: u64) -> (crate::calls::CallInfo, perhop_quality::CallQuality) {
    use perhop_quality::{CallRecord, Codec, Playout, Received, Scoring};
    use rand::{Rng, SeedableRng};
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let mut below = |n: u64| u64::from(rng.next_u32()) % n;
    let (base, jitter, loss, stay) = (5 + below(95), 1 + below(70), below(20), below(70));
    let mut log = CallRecord::new(Codec::G711U);
    let (mut arrivals, mut losing) = (Vec::new(), false);
    for i in 0..500_u16 {
        losing = below(100) < if losing { loss + stay } else { loss };
        let sent = Instant(1_000_000_000 + u64::from(i) * 20_000_000);
        log.sent(u32::from(i), sent);
        // Most packets find a short queue, some a long one.
        let (one, other) = (below(jitter * 1_000), below(jitter * 1_000));
        let arrived = sent + Duration::from_micros(base * 1_000 + one * other / (jitter * 1_000));
        if !losing || i < 12 {
            log.received(Received { index: i.into(), rtp_timestamp: u32::from(i) * 160, sent, arrived });
            arrivals.push((arrived, i));
        }
    }
    arrivals.sort_unstable();
    let mut bench = bench(small(), vec![], settings(true));
    for (at, i) in arrivals {
        bench.run_for(at.since(bench.now()));
        push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), rtp(i)), 0);
    }
    let now = bench.now();
    let (rows, _) = bench.element::<Flows>().snapshot(now, 0, 9);
    // The depth of the live buffer does not follow jitter, and the path stays as long as it is.
    let scoring = Scoring { playout: Playout::Fixed { depth: Playout::DEPTH }, ..Scoring::default() };
    (rows[0].call.unwrap().0, log.whole(&scoring).unwrap())
}

#[test]
fn the_score_shown_live_is_that_of_the_receivers_log() {
    let mut scores = Vec::new();
    for seed in 0..20 {
        let (live, log) = a_call_through(seed);
        let mos = f64::from(live.mos_thousandths.unwrap()) / 1_000.0;
        assert!((mos - log.mos).abs() < 0.1, "seed {seed}: {mos} live, {} in the log; {live:?}", log.mos);
        scores.push(log.mos);
    }
    // The patterns are good calls and bad ones.
    let (least, most) =
        (scores.iter().copied().fold(5.0, f64::min), scores.iter().copied().fold(0.0, f64::max));
    assert!(least < 3.0 && most > 3.9, "{scores:?}");
}

#[test]
fn calls_have_places_of_their_own_and_give_them_back() {
    let config = FlowsConfig { calls: 1, ..small() };
    let mut bench = bench(config, vec![], settings(true));
    for i in 0..20 {
        for to in ["10.1.0.2", "10.1.0.3"] {
            push(&mut bench, &Made::udp("10.0.0.1", to, (5004, 5006), rtp(i)), 0);
        }
        bench.run_for(Duration::from_millis(20));
    }
    let now = bench.now();
    let flows = bench.element::<Flows>();
    let (rows, _) = flows.snapshot(now, 0, 9);
    let measured: Vec<_> = rows.iter().filter_map(|r| Some(r.call?.0)).collect();
    assert_eq!((rows.len(), rows.iter().filter(|r| r.realtime).count(), measured.len()), (2, 2, 1));
    assert_eq!((measured[0].expected, measured[0].received, measured[0].jitter_us), (11, 11, 0));
    assert!(rows.iter().all(|r| r.reason == Some("rtp")));
    assert_eq!((flows.calls.len(), flows.calls.unmeasured, flows.undecided.len()), (1, 1, 0));
    bench.run_for(Duration::from_secs(100));
    assert_eq!(bench.element::<Flows>().calls.len(), 0);
}

#[test]
fn a_promoted_flow_that_becomes_something_else_is_let_go() {
    let mut bench = bench(small(), vec![], settings(true));
    let send = |bench: &mut Bench, payload: Vec<u8>| {
        let meta = push(bench, &Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), payload), 0);
        bench.run_for(Duration::from_millis(5));
        meta.realtime
    };
    assert_eq!((0..20).filter(|i| send(&mut bench, rtp(*i))).count(), 11);
    assert_eq!((0..80).filter(|_| send(&mut bench, vec![0x45; 60])).count(), 31);
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.detected, c.ended, c.contradicted), (1, 1, 1));
    assert_eq!(bench.element::<Flows>().calls.len(), 0);
    // And is taken up again.
    assert!((20..40).filter(|i| send(&mut bench, rtp(*i))).count() >= 10);
}

#[test]
fn what_one_direction_shows_counts_for_the_other() {
    let mut bench = bench(small(), vec![], settings(true));
    let dtls = [&[22, 254, 253][..], &[0; 30]].concat();
    push(&mut bench, &Made::udp("10.1.0.2", "10.0.0.1", (5006, 5004), dtls), 0);
    let promoted = (0..10).map(|i| {
        bench.run_for(Duration::from_millis(20));
        push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (5004, 5006), rtp(i)), 0).realtime
    });
    assert_eq!(promoted.collect::<Vec<_>>(), [[false; 2].as_slice(), &[true; 8]].concat());
    let now = bench.now();
    let (rows, _) = bench.element::<Flows>().snapshot(now, 0, 9);
    let found = rows.iter().find(|r| r.realtime).unwrap();
    assert_eq!((found.reason, found.decided_at), (Some("srtp_after_dtls"), Some(3)));
}

#[test]
fn more_calls_begin_at_once_than_there_are_places_and_all_are_found() {
    let config = FlowsConfig { connections: 256, events: 256, calls: 256, ..small() };
    let mut bench = bench(config, vec![], settings(true));
    for i in 0..60 {
        for port in 0..40 {
            push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (5_000 + port, 6), rtp(i)), 0);
        }
        bench.run_for(Duration::from_millis(20));
    }
    let c = *bench.element::<Flows>().flow_counters();
    assert_eq!((c.detected, c.ended), (40, 0));
}

#[test]
fn a_flood_of_single_packets_takes_no_memory_of_detection() {
    let mut bench = bench(FlowsConfig { connections: 4_096, ..small() }, vec![], settings(true));
    for i in 0..1_000 {
        push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (i, 2), vec![0; 40]), 0);
    }
    let flows = bench.element::<Flows>();
    assert_eq!((flows.undecided.len(), flows.undecided.evicted), (0, 0));
    // Nor do flows of many packets keep a call out, when there are more of them than places.
    for round in 0..4 {
        for i in 0..100 {
            push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (i, 2), vec![0; 40]), 0);
        }
        for i in 0..4 {
            push(&mut bench, &Made::udp("10.0.0.9", "10.1.0.2", (5004, 5006), rtp(4 * round + i)), 0);
            bench.run_for(Duration::from_millis(20));
        }
    }
    let flows = bench.element::<Flows>();
    assert_eq!((flows.undecided.evicted, flows.flow_counters().detected), (1, 1));
}
