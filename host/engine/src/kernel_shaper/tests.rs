use super::*;
use perhop_model::{
    AllocationSpec, ColorAction, FilterMatch, FilterSpec, MeterSpec, PortRange, ProfileSpec, Spec,
};
use perhop_netlink::Netlink;
use perhop_netlink::is_privileged_for_net;
use perhop_netlink::tc::{Class, ClassSpec, FilterSpec as Rule, HtbClass, QdiscSpec};
use perhop_units::{Bytes, Dscp};
use std::net::UdpSocket;

const IF: &str = "out0";

/// An interface with somebody behind it, in namespaces of their own.
struct Link {
    here: Namespace,
    _there: Namespace,
    net: Netlink,
}

impl Link {
    /// `None`, with a sentence, where namespaces are not permitted.
    fn new(name: &str) -> Option<Self> {
        if !is_privileged_for_net() {
            let why = "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`";
            eprintln!("SKIPPED {name}: {why}");
            let required = std::env::var("PERHOP_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|i| i == "netns"), "{name} is required but cannot run: {why}");
            return None;
        }
        let (here, there) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        let net = Netlink::open_in(&here).unwrap();
        let far = Netlink::open_in(&there).unwrap();
        net.create_veth(IF, "in0", Some(&there)).unwrap();
        net.set_up(IF).unwrap();
        far.set_up("in0").unwrap();
        net.add_address_now(IF, "192.0.2.1/24".parse().unwrap()).unwrap();
        far.add_address_now("in0", "192.0.2.7/24".parse().unwrap()).unwrap();
        Some(Self { here, _there: there, net })
    }

    fn config(&self) -> ShaperConfig {
        let class = |name: &str, mbit, dscp| ShapedClass {
            name: name.parse().unwrap(),
            guarantee: Rate::from_mbit(mbit),
            dscp,
        };
        ShaperConfig {
            interface: IF.to_owned(),
            namespace: Some(self.here.clone()),
            rate: Rate::from_mbit(100),
            classes: vec![class("voice", 20, Some(Dscp::EF)), class("video", 30, None)],
        }
    }

    /// Classes of flows, by their minor numbers.
    fn flows(&self) -> BTreeMap<u16, (HtbClass, Class)> {
        let all = self.net.classes(IF).unwrap().into_iter();
        let flows = all.filter(|class| class.handle.minor() >= 0x100);
        flows.map(|class| (class.handle.minor(), (htb(&class), class))).collect()
    }

    fn class(&self, minor: u16) -> Class {
        self.net.classes(IF).unwrap().into_iter().find(|class| class.handle.minor() == minor).unwrap()
    }

    /// Minor numbers of flows' classes that filters name.
    fn named(&self) -> Vec<u16> {
        let all = self.net.filters(IF, books::ROOT).unwrap().into_iter();
        let minor = |rule: Rule| match rule {
            Rule::U32(rule) => Some(rule.class.minor()),
            _ => None,
        };
        let mut minors: Vec<u16> =
            all.filter_map(|f| minor(f.spec)).filter(|minor| *minor >= 0x100).collect();
        minors.sort_unstable();
        minors
    }

    fn root(&self) -> (perhop_netlink::tc::Handle, QdiscSpec) {
        let all = self.net.qdiscs(IF).unwrap();
        let root = all.into_iter().find(|q| q.parent == perhop_netlink::tc::Handle::ROOT).unwrap();
        (root.handle, root.spec)
    }

    fn send(&self, packets: usize, port: u16) {
        let sent = self.here.run(|| {
            let socket = UdpSocket::bind("192.0.2.1:0")?;
            (0..packets).try_for_each(|_| socket.send_to(&[0; 1_000], ("192.0.2.7", port)).map(drop))
        });
        sent.unwrap().unwrap();
    }
}

fn htb(class: &Class) -> HtbClass {
    match &class.spec {
        ClassSpec::Htb(htb) => *htb,
        other => panic!("{other:?}"),
    }
}

fn owner() -> Owner {
    Owner::Tcapi("pbx".parse().unwrap())
}

fn commit(handle: &Handle, ops: Vec<Op>) -> Arc<Reply> {
    let transaction = Transaction::new(handle.new_txn_id(), owner(), ops);
    handle.submit_blocking(Credentials::writer(owner()), transaction).unwrap()
}

fn committed(handle: &Handle, ops: Vec<Op>) {
    let reply = commit(handle, ops);
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
}

fn name(flow: u64) -> Name {
    format!("tcapi/pbx/{flow}").parse().unwrap()
}

fn filter_name(flow: u64) -> Name {
    format!("tcapi/pbx/{flow}/0").parse().unwrap()
}

fn profile(rate: u64) -> ProfileSpec {
    ProfileSpec {
        meter: MeterSpec::TokenBucket { cir: Rate(rate), cbs: Bytes(3_028) },
        green: ColorAction::Pass,
        yellow: ColorAction::Drop,
        red: ColorAction::Drop,
        shared: false,
    }
}

/// A call to a port of the far end.
fn request(flow: u64, rate: u64, class: &str) -> Vec<Op> {
    let port = 5_000 + flow as u16;
    let matches = FilterMatch {
        dst: Some("192.0.2.7/32".parse().unwrap()),
        protocol: Some(17),
        dst_ports: Some(PortRange { first: port, last: port }),
        ..FilterMatch::default()
    };
    let (class, profile_name) = (Some(class.parse().unwrap()), Some(name(flow)));
    let filter = FilterSpec { matches, class, profile: profile_name, ..FilterSpec::default() };
    let put = |name, spec| Op::put(Object { name, spec, ttl_ms: None });
    vec![put(name(flow), Spec::Profile(profile(rate))), put(filter_name(flow), Spec::Filter(filter))]
}

fn modify(flow: u64, rate: u64) -> Vec<Op> {
    vec![Op::put(Object { name: name(flow), spec: Spec::Profile(profile(rate)), ttl_ms: None })]
}

fn release(flow: u64) -> Vec<Op> {
    let delete = |kind, name| Op::Delete { kind, name, if_version: None, drain_ms: None };
    vec![delete(Kind::Profile, name(flow)), delete(Kind::Filter, filter_name(flow))]
}

#[test]
fn packets_of_a_flow_are_in_its_class_and_wait_there_beyond_its_rate() {
    let Some(link) = Link::new("packets_of_a_flow_are_in_its_class_and_wait_there_beyond_its_rate") else {
        return;
    };
    let (_shaper, handle) = KernelShaper::start(&link.config()).unwrap();
    committed(&handle, request(4, 80_000, "voice"));
    let flows = link.flows();
    let (minor, (class, _)) = flows.first_key_value().unwrap();
    assert_eq!((flows.len(), class.rate, class.ceil), (1, Rate(80_000), Rate(80_000)));
    assert_eq!(link.named(), [*minor]);
    // 40 packets of 1,028 octets at 80 kbit/s, at once: three fit into the burst.
    link.send(40, 5_004);
    link.send(7, 5_005);
    let stats = link.flows()[minor].1.stats;
    assert_eq!(stats.packets + stats.backlog_packets, 40, "{stats:?}");
    assert!(stats.backlog_packets > 20, "{stats:?}");
    let rest = link.class(2).stats;
    // What resolved the address went there too.
    assert!(rest.packets >= 7, "{rest:?}");
    // From the IP header on: 20 + 8 + 1,000 octets each.
    assert_eq!(u64::from(stats.backlog_bytes), u64::from(stats.backlog_packets) * 1_028);
    // Twice the rate, for what waits too.
    committed(&handle, modify(4, 160_000));
    assert_eq!(link.flows()[minor].0.rate, Rate(160_000));
}

#[test]
fn a_class_without_flows_is_chosen_by_its_code_point_and_an_aggregate_is_its_rate() {
    let Some(link) =
        Link::new("a_class_without_flows_is_chosen_by_its_code_point_and_an_aggregate_is_its_rate")
    else {
        return;
    };
    let (_shaper, handle) = KernelShaper::start(&link.config()).unwrap();
    assert_eq!(
        (htb(&link.class(0x10)).rate, htb(&link.class(2)).rate),
        (Rate::from_mbit(20), Rate::from_mbit(50))
    );
    let class = format!("{IF}/voice").parse().unwrap();
    let guarantee = Some(Rate::from_mbit(25));
    let spec = Spec::Allocation(AllocationSpec { class, guarantee, ceiling: None, shared: false });
    committed(&handle, vec![Op::put(Object { name: name(1), spec, ttl_ms: None })]);
    assert_eq!(
        (htb(&link.class(0x10)).rate, htb(&link.class(2)).rate),
        (Rate::from_mbit(25), Rate::from_mbit(45))
    );
    let packets = |minor| link.class(minor).stats.packets;
    assert_eq!(packets(0x20), 0);
    let sent = link.here.run(|| {
        let socket = UdpSocket::bind("192.0.2.1:0")?;
        rustix::net::sockopt::set_ip_tos(&socket, Dscp::EF.get() << 2)?;
        (0..5).try_for_each(|_| socket.send_to(b"in voice", "192.0.2.7:99").map(drop))
    });
    sent.unwrap().unwrap();
    assert_eq!(packets(0x20), 5);
}

#[test]
fn rates_of_every_size_can_be_had() {
    let Some(link) = Link::new("rates_of_every_size_can_be_had") else { return };
    for rate in [Rate::from_kbit(20), Rate::from_mbit(1), Rate::from_mbit(20_000), Rate::from_mbit(400_000)] {
        let mut config = ShaperConfig { rate, ..link.config() };
        config.classes.truncate(1);
        config.classes[0].guarantee = Rate(rate.0 / 2);
        let (_shaper, handle) = KernelShaper::start(&config).unwrap();
        let class: Name = format!("{IF}/voice").parse().unwrap();
        // Next to nothing, and next to all.
        for guarantee in [Rate(8_000), Rate(rate.0 - 8)] {
            let spec = AllocationSpec {
                class: Name::clone(&class),
                guarantee: Some(guarantee),
                ceiling: None,
                shared: false,
            };
            let spec = Spec::Allocation(spec);
            committed(&handle, vec![Op::put(Object { name: name(1), spec, ttl_ms: None })]);
            assert_eq!(htb(&link.class(0x10)).rate, Rate(guarantee.0 / 8 * 8));
        }
    }
}

#[test]
fn what_the_kernel_refuses_is_taken_back_whole() {
    let Some(link) = Link::new("what_the_kernel_refuses_is_taken_back_whole") else { return };
    let (_shaper, handle) = KernelShaper::start(&link.config()).unwrap();
    // Somebody has taken the number of the second class that will be made.
    let theirs = perhop_netlink::tc::Handle::new(books::ROOT.major(), 0x101);
    let parent = perhop_netlink::tc::Handle::new(books::ROOT.major(), 1);
    link.net.add_class(IF, parent, theirs, &htb(&link.class(2))).unwrap();
    let mut two = request(1, 80_000, "voice");
    two.extend(request(2, 64_000, "voice"));
    let reply = commit(&handle, two.clone());
    let blamed: Vec<_> = reply.errors.iter().map(|e| (e.op, e.code)).collect();
    assert_eq!((reply.outcome, blamed), (Outcome::Rejected, vec![(Some(2), Code::BackendFailed)]));
    assert_eq!((link.flows().keys().copied().collect::<Vec<_>>(), link.named()), (vec![0x101], vec![]));
    let query = perhop_model::StateQuery { kind: Some(Kind::Profile), ..Default::default() };
    let state = handle.wait(|done| Call::State(query, done)).unwrap().unwrap();
    assert!(state.objects.is_empty(), "the contract has nothing of it either");
    link.net.delete_class(IF, theirs).unwrap();
    committed(&handle, two);
    assert_eq!((link.flows().len(), link.named()), (2, vec![0x100, 0x101]));
}

#[test]
fn what_u32_cannot_compare_is_refused_by_its_operation() {
    let Some(link) = Link::new("what_u32_cannot_compare_is_refused_by_its_operation") else { return };
    let (_shaper, handle) = KernelShaper::start(&link.config()).unwrap();
    let mut ops = request(1, 80_000, "voice");
    let mut wrong = request(2, 64_000, "voice");
    if let Op::Put(put) = &mut wrong[1]
        && let Given::Object(object) = &mut put.given
        && let Spec::Filter(filter) = &mut object.spec
    {
        filter.matches.dst_ports = Some(PortRange { first: 5_000, last: 5_010 });
    }
    ops.extend(wrong);
    let reply = commit(&handle, ops);
    let blamed: Vec<_> = reply.errors.iter().map(|e| (e.op, e.code)).collect();
    assert_eq!(blamed, [(Some(3), Code::Unsupported)]);
    assert_eq!((link.flows().len(), link.named().len()), (0, 0));
}

#[test]
fn an_interface_is_left_as_it_was_and_one_of_somebody_else_is_not_touched() {
    let Some(link) = Link::new("an_interface_is_left_as_it_was_and_one_of_somebody_else_is_not_touched")
    else {
        return;
    };
    let before = link.root();
    // What one that was killed has left goes.
    let spec = QdiscSpec::Htb { default_minor: 1, rate_to_quantum: 10 };
    link.net.add_qdisc(IF, perhop_netlink::tc::Handle::ROOT, books::ROOT, &spec).unwrap();
    let (shaper, handle) = KernelShaper::start(&link.config()).unwrap();
    committed(&handle, request(1, 80_000, "voice"));
    drop(shaper);
    assert_eq!(link.root(), before);
    assert!(
        handle
            .submit_blocking(
                Credentials::writer(owner()),
                Transaction::new(handle.new_txn_id(), owner(), release(1))
            )
            .is_ok_and(|reply| reply.errors[0].code == Code::ShuttingDown)
    );
    let theirs = (perhop_netlink::tc::Handle::new(7, 0), QdiscSpec::Pfifo { limit_packets: 9 });
    link.net.add_qdisc(IF, perhop_netlink::tc::Handle::ROOT, theirs.0, &theirs.1).unwrap();
    let error = KernelShaper::start(&link.config()).map(drop).unwrap_err();
    assert!(matches!(&error, ShaperError::Foreign { kind, .. } if kind == "pfifo"), "{error}");
    assert!(error.to_string().contains("tc qdisc del dev out0 root"), "{error}");
    assert_eq!(link.root(), theirs);
}

#[test]
fn whatever_comes_the_kernel_has_what_was_committed() {
    let Some(link) = Link::new("whatever_comes_the_kernel_has_what_was_committed") else { return };
    let (_shaper, handle) = KernelShaper::start(&link.config()).unwrap();
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut word = 0x1234_5678_u64;
    let mut most = 0;
    for round in 0..400 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (flow, rate) = (word >> 33 & 0x3f, 8_000 + (word >> 40 & 0xff) * 8);
        let class = if flow % 2 == 0 { "voice" } else { "video" };
        match live.get(&flow) {
            None => {
                committed(&handle, request(flow, rate, class));
                live.insert(flow, rate);
            }
            Some(_) if round % 3 == 0 => {
                committed(&handle, modify(flow, rate));
                live.insert(flow, rate);
            }
            Some(_) => {
                committed(&handle, release(flow));
                live.remove(&flow);
            }
        }
        most = most.max(live.len());
    }
    let named = link.named();
    let flows = link.flows();
    let mut rates: Vec<u64> = named.iter().map(|minor| flows[minor].0.rate.0).collect();
    let mut expected: Vec<u64> = live.values().copied().collect();
    rates.sort_unstable();
    expected.sort_unstable();
    assert_eq!(rates, expected);
    // Classes of flows that ended serve again: of either class there were never more than that.
    assert!(flows.len() <= 2 * most, "{} classes, {most} flows at a time", flows.len());
    for flow in live.keys() {
        committed(&handle, release(*flow));
    }
    assert_eq!(link.named().len(), 0);
}

#[test]
fn classes_that_do_not_fit_are_refused_before_anything_is_touched() {
    let class = |name: &str, mbit| ShapedClass {
        name: name.parse().unwrap(),
        guarantee: Rate::from_mbit(mbit),
        dscp: None,
    };
    let config = |classes| ShaperConfig {
        interface: "nobody0".to_owned(),
        namespace: None,
        rate: Rate::from_mbit(10),
        classes,
    };
    let refused = |classes| KernelShaper::start(&config(classes)).map(drop).unwrap_err();
    assert!(matches!(refused(vec![class("voice", 10)]), ShaperError::TooMuch { .. }));
    assert!(matches!(refused(vec![class("rest", 1)]), ShaperError::Class { .. }));
    assert!(matches!(refused(vec![class("a", 1), class("a", 1)]), ShaperError::Class { .. }));
    assert!(matches!(
        refused((0..8).map(|n| class(&format!("c{n}"), 1)).collect()),
        ShaperError::Class { .. }
    ));
}
