//! Reading back: a put of what was read changes nothing, pages are of one revision, digests by owner.

use super::desk::{Desk, api, delete, filter, n, patch, put};
use perhop_model::{
    AbrFloor, AbrLatency, AbrMatch, AbrPolicySpec, AdmissionMethod, AdmissionPolicy, AdmissionSpec,
    AllocationSpec, Cells, ClassSpec, ColorAction, DetectorSpec, ExcessPolicy, FilterMatch, FilterSpec, Kind,
    MaskedByte, MeterSpec, OpOutcome, Owner, PortMode, PortRange, PortSpec, Precedence, ProfileSpec,
    QueueKind, QueueSpec, RouteKind, RouteSpec, Scheduler, SlaPolicy, SlaSpec, SourceCheck, Spec, StateQuery,
    WredAverage, WredPrecedence,
};
use perhop_reason::Code;
use perhop_units::{Bytes, Dscp, Duration, QueueLimit, Rate, Share};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;

/// Draws valid specifications with every field set or not, by the toss of a coin.
struct Draw(Pcg64Mcg);

impl Draw {
    fn up_to(&mut self, n: u64) -> u64 {
        self.0.next_u64() % (n + 1)
    }
    fn coin(&mut self) -> bool {
        self.up_to(1) == 1
    }
    fn maybe<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.coin().then(|| f(self))
    }
    fn dscp(&mut self) -> Dscp {
        Dscp::try_from(self.up_to(63) as u8).expect("at most 63")
    }
    fn prefix(&mut self, v6: bool) -> ipnet::IpNet {
        let len = self.up_to(if v6 { 128 } else { 32 }) as u8;
        let bits = self.0.next_u64();
        let addr: std::net::IpAddr = if v6 {
            std::net::Ipv6Addr::from(u128::from(bits) << 64 | u128::from(self.0.next_u64())).into()
        } else {
            std::net::Ipv4Addr::from(bits as u32).into()
        };
        ipnet::IpNet::new(addr, len).expect("a length of its family").trunc()
    }
    fn queue(&mut self) -> QueueSpec {
        let limit = match self.up_to(2) {
            0 => QueueLimit::Packets(1 + self.up_to(1000) as u32),
            1 => QueueLimit::Bytes(Bytes(2_000 + self.up_to(1 << 30))),
            _ => QueueLimit::Time(Duration(100_000_000 + self.up_to(1_000_000_000))),
        };
        QueueSpec { limit, kind: self.queue_kind() }
    }
    fn queue_kind(&mut self) -> QueueKind {
        let target = 1_000 + self.up_to(999_999_000);
        let interval = target + self.up_to(9_000_000_000);
        let ecn = self.coin();
        match self.up_to(6) {
            0 => QueueKind::Fifo,
            1 => {
                let min_ppm = self.up_to(499_999) as u32;
                let max_p_ppm = 1 + self.up_to(999_999) as u32;
                QueueKind::Red { min_ppm, max_ppm: 500_000, max_p_ppm, ecn }
            }
            2 => {
                let mut worse = |better: Precedence| Precedence {
                    min_ppm: self.up_to(better.min_ppm.into()) as u32,
                    max_ppm: better.max_ppm,
                    max_p_ppm: better.max_p_ppm + self.up_to(u64::from(1_000_000 - better.max_p_ppm)) as u32,
                };
                let green = worse(Precedence { min_ppm: 499_999, max_ppm: 500_000, max_p_ppm: 1 });
                let yellow = worse(green);
                let red = worse(yellow);
                let average = match self.up_to(2) {
                    0 => WredAverage::Total,
                    1 => WredAverage::Coupled,
                    _ => WredAverage::Decoupled,
                };
                let precedence = if self.coin() { WredPrecedence::Color } else { WredPrecedence::Dscp };
                QueueKind::Wred { green, yellow, red, average, precedence, ecn }
            }
            3 => QueueKind::Codel { target: Duration(target), interval: Duration(interval), ecn },
            4 => QueueKind::Pie {
                target: Duration(target),
                update: Duration(100_000 + self.up_to(999_900_000)),
                max_burst: Duration(self.up_to(60_000_000_000)),
                alpha: 1 + self.up_to(511) as u32,
                beta: 1 + self.up_to(511) as u32,
                ecn,
                mark_below_ppm: self.up_to(1_000_000) as u32,
                derandomize: self.coin(),
            },
            5 => QueueKind::Blue {
                increase_ppm: 1 + self.up_to(999_999) as u32,
                decrease_ppm: 1 + self.up_to(999_999) as u32,
                freeze: Duration(1_000_000 + self.up_to(59_000_000_000)),
                ecn,
            },
            6 => QueueKind::Wfq { flows: 1 + self.up_to(1023) as u32, by_precedence: ecn },
            _ => QueueKind::FqCodel {
                flows: 1 + self.up_to(1023) as u32,
                quantum: 64 + self.up_to(65_472) as u32,
                target: Duration(target),
                interval: Duration(interval),
                ecn,
            },
        }
    }
    fn port(&mut self) -> PortSpec {
        PortSpec {
            device: if self.coin() { String::new() } else { "eth7".to_owned() },
            mode: if self.coin() { PortMode::Route } else { PortMode::Bridge },
            rate: Rate(1_000_000_000 + self.up_to(1 << 30)),
            overhead: self.up_to(320) as i32 - 64,
            minimum_frame: self.up_to(1514) as u32,
            source_check: if self.coin() { SourceCheck::Kernel } else { SourceCheck::Strict },
            cells: if self.coin() { Cells::None } else { Cells::Atm },
            trust_dscp: self.coin(),
            queue: self.maybe(Self::queue),
            scheduler: if self.coin() { Scheduler::Tree } else { Scheduler::Htb },
            shared: self.coin(),
            managed_by: self.maybe(|_| Owner::Agent),
        }
    }
    fn class(&mut self) -> ClassSpec {
        let guarantee = if self.coin() {
            Share::Rate(Rate(self.up_to(1 << 29)))
        } else {
            Share::Ppm(self.up_to(250_000) as u32)
        };
        let ceiling = |d: &mut Self| {
            if d.coin() { Share::Rate(Rate((1 << 29) + d.up_to(1 << 30))) } else { Share::Ppm(900_000) }
        };
        ClassSpec {
            port: n("p"),
            logical: self.maybe(|_| n("logical:name")),
            parent: None,
            guarantee,
            guarantee_first: None,
            delay: None,
            loss: None,
            burst: if self.coin() { Bytes(0) } else { Bytes(4_000 + self.up_to(1 << 20)) },
            ceiling: self.maybe(ceiling),
            ceiling_burst: if self.coin() { Bytes(0) } else { Bytes(4_000 + self.up_to(1 << 20)) },
            weight: 1 + self.up_to(999_999) as u32,
            tier: self.up_to(15) as u8,
            queue: self.queue(),
            default: self.coin(),
            dscp: (0..self.up_to(3)).map(|_| self.dscp()).collect(),
            sla: self.maybe(|_| n("s")),
            shared: self.coin(),
        }
    }
    fn action(&mut self) -> ColorAction {
        match self.up_to(3) {
            0 => ColorAction::Pass,
            1 => ColorAction::Drop,
            2 => ColorAction::Mark { dscp: self.dscp() },
            _ => ColorAction::Class { class: n("fixed"), dscp: self.maybe(Self::dscp) },
        }
    }
    fn profile(&mut self) -> ProfileSpec {
        let (cir, cbs) = (1 + self.up_to(1 << 30), 1500 + self.up_to(1 << 20));
        let meter = match self.up_to(4) {
            0 => MeterSpec::None,
            1 => MeterSpec::TokenBucket { cir: Rate(cir), cbs: Bytes(cbs) },
            2 => MeterSpec::Srtcm {
                cir: Rate(cir),
                cbs: Bytes(cbs),
                ebs: Bytes(self.up_to(1 << 20)),
                aware: self.coin(),
            },
            3 => MeterSpec::Tswtcm {
                cir: Rate(cir),
                pir: Rate(cir + self.up_to(1 << 20)),
                window: Duration(1_000_000 + self.up_to(1 << 30)),
            },
            _ => MeterSpec::Trtcm {
                cir: Rate(cir),
                cbs: Bytes(cbs),
                pir: Rate(cir + self.up_to(1 << 20)),
                pbs: Bytes(1500),
                aware: self.coin(),
            },
        };
        ProfileSpec {
            meter,
            green: self.action(),
            yellow: self.action(),
            red: self.action(),
            shared: self.coin(),
        }
    }
    fn filter(&mut self) -> FilterSpec {
        let v6 = self.coin();
        let protocol = [6, 17][self.up_to(1) as usize];
        let masked = |d: &mut Self, mask: u8| MaskedByte { value: d.up_to(255) as u8 & mask, mask };
        let matches = FilterMatch {
            in_port: self.maybe(|_| n("p")),
            vlan: self.maybe(|d| d.up_to(4094) as u16),
            src: self.maybe(|d| d.prefix(v6)),
            dst: self.maybe(|d| d.prefix(v6)),
            protocol: Some(protocol),
            src_ports: self.maybe(Self::ports),
            dst_ports: self.maybe(Self::ports),
            dscp: self.maybe(|d| masked(d, 0x3c)),
            tcp_flags: if protocol == 6 { self.maybe(|d| masked(d, 0x12)) } else { None },
            fragment: self.maybe(Self::coin),
        };
        FilterSpec {
            tier: self.up_to(255) as u8,
            priority: self.up_to(u64::from(u32::MAX)) as u32,
            matches,
            class: self.maybe(|_| n("fixed")),
            sla: self.maybe(|_| n("s")),
            profile: self.maybe(|_| n("pr")),
            realtime: self.maybe(Self::coin),
            shared: self.coin(),
        }
    }
    fn sla(&mut self) -> SlaSpec {
        let mut prefixes: Vec<_> = (0..self.up_to(3)).map(|i| self.prefix(i % 2 == 1)).collect();
        prefixes.sort();
        prefixes.dedup();
        SlaSpec {
            prefixes,
            rate: Rate(1_000 + self.up_to(1 << 30)),
            burst: if self.coin() { Bytes(0) } else { Bytes(1500 + self.up_to(1 << 20)) },
            dscp: self.maybe(Self::dscp),
            policy: [SlaPolicy::Ok, SlaPolicy::Drop, SlaPolicy::Demote][self.up_to(2) as usize],
            shared: self.coin(),
            shared_pct: self.up_to(100) as u8,
            premium: self.coin(),
        }
    }
    fn route(&mut self) -> RouteSpec {
        let v6 = self.coin();
        let kinds = [
            RouteKind::Unicast,
            RouteKind::Blackhole,
            RouteKind::Unreachable,
            RouteKind::Prohibit,
            RouteKind::Local,
        ];
        let kind = kinds[self.up_to(4) as usize];
        RouteSpec {
            dest: self.prefix(v6),
            via: self.maybe(|d| d.prefix(v6).addr()),
            port: (kind == RouteKind::Unicast).then(|| n("p")),
            kind,
            metric: self.up_to(u64::from(u32::MAX)) as u32,
            shared: self.coin(),
        }
    }
    fn detector(&mut self) -> DetectorSpec {
        let packets = 3 + self.up_to(61) as u32;
        DetectorSpec {
            enabled: self.coin(),
            class: n("fixed"),
            packets,
            regular: self.maybe(|d| 3 + d.up_to(u64::from(packets) - 3) as u32),
            within: Duration(10_000_000 + self.up_to(1 << 32)),
            idle: Duration(1_000_000_000 + self.up_to(1 << 32)),
            wrapped: self.coin(),
            statistical: self.coin(),
            statistical_after: 15 + self.up_to(235) as u32,
            statistical_size: 40 + self.up_to(1460) as u32,
            statistical_rate: 5 + self.up_to(995) as u32,
            dscp: self.maybe(Self::dscp),
            rate: self.maybe(|d| Rate(8_000 + d.up_to(1 << 30))),
            excess: if self.coin() { ExcessPolicy::Drop } else { ExcessPolicy::Demote },
            in_ports: (0..self.up_to(1)).map(|_| n("p")).collect(),
            shared: self.coin(),
            flow_rate: if self.coin() { Rate(0) } else { Rate(8_000 + self.up_to(1 << 30)) },
            admission: self.maybe(Self::admission),
        }
    }
    fn admission(&mut self) -> AdmissionSpec {
        let policies = [
            AdmissionPolicy::Random,
            AdmissionPolicy::Largest,
            AdmissionPolicy::Smallest,
            AdmissionPolicy::Oldest,
        ];
        AdmissionSpec {
            method: if self.coin() { AdmissionMethod::Measured } else { AdmissionMethod::Reserved },
            cap: Rate(8_000 + self.up_to(1 << 30)),
            accept_pct: 1 + self.up_to(89) as u8,
            drop_pct: 91 + self.up_to(9) as u8,
            interval: Duration(10_000_000 + self.up_to(1 << 30)),
            windows: 1 + self.up_to(99) as u32,
            policy: policies[self.up_to(3) as usize],
            excess: if self.coin() { ExcessPolicy::Drop } else { ExcessPolicy::Demote },
            idle: Duration(100_000_000 + self.up_to(1 << 29)),
            retry: self.maybe(|d| Duration(100_000_000 + d.up_to(1 << 30))),
            new_flow: Rate(self.up_to(1 << 20)),
            locked: self.coin(),
            cancel: self.up_to(9),
        }
    }
    fn allocation(&mut self) -> AllocationSpec {
        let guarantee = self.maybe(|d| Rate(d.up_to(1 << 20)));
        let ceiling = if guarantee.is_none() || self.coin() {
            Some(Rate((1 << 20) + self.up_to(1 << 20)))
        } else {
            None
        };
        AllocationSpec { class: n("p/fixed"), guarantee, ceiling, shared: self.coin() }
    }
    fn ports(&mut self) -> PortRange {
        let first = self.up_to(65_535) as u16;
        PortRange { first, last: first + self.up_to(u64::from(u16::MAX - first)) as u16 }
    }
    fn abr(&mut self) -> AbrPolicySpec {
        let v6 = self.coin();
        let mut dscp: Vec<Dscp> = (0..self.up_to(3)).map(|_| self.dscp()).collect();
        dscp.sort_unstable();
        dscp.dedup();
        let matches = AbrMatch {
            class: self.maybe(|_| n("fixed")),
            sla: self.maybe(|_| n("s")),
            filter: self.maybe(|_| n("f")),
            dscp,
            src: self.maybe(|d| d.prefix(v6)),
            dst: self.maybe(|d| d.prefix(v6)),
            src_ports: self.maybe(Self::ports),
            dst_ports: self.maybe(Self::ports),
        };
        let weight = |d: &mut Self| 1 + d.up_to(999_999) as u32;
        let rate = |d: &mut Self| if d.coin() { 0 } else { 1_000 + d.up_to(1 << 30) };
        let (min, peak) = (rate(self), rate(self));
        AbrPolicySpec {
            priority: self.up_to(u64::from(u32::MAX)) as u32,
            matches,
            rate: Rate(rate(self)),
            weight: weight(self),
            min: Rate(min),
            peak: if peak > 0 { Rate(peak.max(min)) } else { Rate(0) },
            floor: if self.coin() { AbrFloor::Clamp } else { AbrFloor::Pace },
            latency: match self.up_to(2) {
                0 => AbrLatency::Average { up_ppm: weight(self), down_ppm: weight(self) },
                1 => AbrLatency::Timed {
                    up: Duration(1_000_000_000 + self.up_to(1 << 32)),
                    down_ppm: weight(self),
                },
                _ => AbrLatency::Minimum { window: Duration(100_000_000 + self.up_to(1 << 32)) },
            },
            allow_shrink: self.coin(),
            limit_syn_ack: self.coin(),
            assume_shift: self.maybe(|d| d.up_to(14) as u8),
            local: self.coin(),
            overhead: self.up_to(256) as u32,
            idle: Duration(100_000_000 + self.up_to(1 << 32)),
            refused: self.maybe(|_| Code::NoCapacity),
            shared: self.coin(),
            managed_by: self.maybe(|_| Owner::Agent),
        }
    }
    fn all(&mut self) -> Vec<(&'static str, Spec)> {
        vec![
            ("p", Spec::Port(self.port())),
            ("p/fixed", Spec::Class(ClassSpec { logical: None, default: false, ..self.plain_class() })),
            ("p/c", Spec::Class(self.class())),
            ("s", Spec::Sla(self.sla())),
            ("pr", Spec::Profile(self.profile())),
            ("f", Spec::Filter(self.filter())),
            ("r", Spec::Route(self.route())),
            ("d", Spec::Detector(self.detector())),
            ("a", Spec::Allocation(self.allocation())),
            ("t", Spec::AbrPolicy(self.abr())),
        ]
    }
    fn plain_class(&mut self) -> ClassSpec {
        ClassSpec { guarantee: Share::Rate(Rate(0)), ceiling: None, sla: None, ..self.class() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// For every kind with all its fields: what is read is what was put, defaults filled in, and putting it back is
    /// `unchanged`, does not reach the workers and costs no revision.
    #[test]
    fn a_put_of_what_was_read_is_unchanged(seed in any::<u64>()) {
        let specs = Draw(Pcg64Mcg::seed_from_u64(seed)).all();
        let mut desk = Desk::new();
        let ops = specs.iter().map(|(name, s)| put(s.kind(), name, serde_json::to_value(s).expect("plain data")));
        desk.commit(api("a"), ops.collect());
        let page = desk.control.state(&StateQuery::default()).expect("a page");
        let mut read: Vec<_> = page.objects.iter().map(|o| (o.name.as_str(), o.spec.clone())).collect();
        let mut wrote = specs;
        // Without a default it is the one of the last tier. "p/fixed" has neither contract nor guarantee, and the last name.
        let mut classes: Vec<_> =
            wrote.iter_mut().filter_map(|(_, s)| if let Spec::Class(c) = s { Some(c) } else { None }).collect();
        if let [fixed, other] = &mut classes[..] && !fixed.default && !other.default {
            let is_other = other.sla.is_none() && other.tier > fixed.tier;
            if is_other { other.default = true } else { fixed.default = true }
        }
        read.sort_by_key(|(name, s)| (s.kind(), name.to_string()));
        wrote.sort_by_key(|(name, s)| (s.kind(), name.to_string()));
        prop_assert_eq!(&read, &wrote);
        // Through text, as a client would.
        let text = serde_json::to_string(&page).expect("plain data");
        let value: serde_json::Value = serde_json::from_str(&text).expect("our own text");
        let again: Vec<_> = page.objects.iter().zip(value["objects"].as_array().expect("a list"))
            .map(|(o, v)| put(o.kind, o.name.as_str(), v["spec"].clone())).collect();
        let (plans, revision) = (desk.plans.len(), desk.control.revision());
        let reply = desk.commit(api("a"), again);
        prop_assert!(reply.ops.iter().all(|r| r.outcome == OpOutcome::Unchanged));
        prop_assert_eq!((desk.plans.len(), desk.control.revision()), (plans, revision));
    }
}

#[test]
fn a_patch_merges() {
    let mut desk = Desk::furnished();
    let queue = |v| vec![patch(Kind::Class, "wan/voice", json!({"queue": v}))];
    let red = json!({"red": {"min_ppm": 1, "max_ppm": 2, "max_p_ppm": 3, "ecn": true}});
    desk.commit(Owner::File, queue(json!({"kind": red})));
    let spec = desk.spec(Kind::Class, "wan/voice");
    assert_eq!(spec["queue"], json!({"limit": {"time": 100_000_000}, "kind": red}), "siblings stay");
    assert_eq!(spec["guarantee"], json!({"rate": 2_000_000}));
    // null gives the default back; lists are replaced whole.
    desk.commit(Owner::File, vec![patch(Kind::Class, "wan/voice", json!({"queue": null, "dscp": [1, 2]}))]);
    let spec = desk.spec(Kind::Class, "wan/voice");
    assert_eq!((&spec["queue"]["kind"], &spec["dscp"]), (&json!("fifo"), &json!([1, 2])));
    // A field that was absent as a whole takes the patch without its nulls.
    let new = json!({"queue": {"limit": {"packets": 9}, "kind": null}});
    desk.commit(Owner::File, vec![patch(Kind::Port, "wan", new)]);
    assert_eq!(desk.spec(Kind::Port, "wan")["queue"], json!({"limit": {"packets": 9}, "kind": "fifo"}));
}

#[test]
fn pages_are_pinned_to_one_revision_while_commits_go_on() {
    let mut desk = Desk::furnished();
    let filters = (0..25).map(|i| put(Kind::Filter, &format!("f{i:02}"), filter("voice", i))).collect();
    desk.commit(api("a"), filters);
    let mut query = StateQuery { limit: Some(4), kind: Some(Kind::Filter), ..StateQuery::default() };
    let (mut names, mut digests) = (Vec::new(), Vec::new());
    loop {
        let page = desk.control.state(&query).expect("a page");
        assert_eq!(page.revision, 2);
        names.extend(page.objects.iter().map(|o| o.name.to_string()));
        digests.push(page.digests);
        let Some(cursor) = page.cursor else { break };
        query.cursor = Some(cursor);
        // Between any two pages something goes and something comes.
        let i = digests.len() as u32;
        desk.commit(
            api("a"),
            vec![
                delete(Kind::Filter, &format!("f{:02}", 24 - i)),
                put(Kind::Filter, &format!("e{i}"), filter("rest", i)),
            ],
        );
    }
    assert_eq!(names, (0..25).map(|i| format!("f{i:02}")).collect::<Vec<_>>());
    assert!(digests.len() == 7 && digests.windows(2).all(|d| d[0] == d[1]));
}

#[test]
fn a_revision_that_is_no_longer_kept_is_stale() {
    let mut desk = Desk::furnished();
    let query = StateQuery { limit: Some(1), ..StateQuery::default() };
    let first = desk.control.state(&query).expect("a page");
    for i in 0..9 {
        desk.commit(api("a"), vec![put(Kind::Filter, &format!("f{i}"), filter("voice", 1))]);
        desk.control.state(&query).expect("a page");
    }
    let old = StateQuery { cursor: first.cursor, ..query.clone() };
    assert_eq!(desk.control.state(&old).expect_err("gone").code, Code::StaleRevision);
    for cursor in ["", "1", "1.class.2", "x.class.2.wan", "1.clas.2.wan", "1.class.x.wan", "1.class.2. "] {
        let query = StateQuery { cursor: Some(cursor.to_owned()), ..query.clone() };
        assert_eq!(desk.control.state(&query).expect_err("no cursor").code, Code::Malformed, "{cursor:?}");
    }
}

#[test]
fn the_digest_of_an_owner_changes_with_what_it_has_and_only_then() {
    let mut desk = Desk::furnished();
    let mut digest = |ops: Vec<perhop_model::Op>| {
        if !ops.is_empty() {
            desk.commit(api("a"), ops);
        }
        let page = desk.control.state(&StateQuery::default()).expect("a page");
        assert_eq!(page.digests["file"].objects, 3);
        (
            page.digests["file"].sha256.clone(),
            page.digests.get("api:a").map(|d| (d.objects, d.sha256.clone())),
        )
    };
    let f = |p| put(Kind::Filter, "f", filter("voice", p));
    let (file, none) = digest(vec![]);
    assert!(none.is_none() && file.len() == 64 && file.bytes().all(|b| b.is_ascii_hexdigit()));
    let (file1, one) = digest(vec![f(1)]);
    let (_, two) = digest(vec![f(2)]);
    let (_, back) = digest(vec![f(1)]);
    let (_, renamed) = digest(vec![delete(Kind::Filter, "f"), put(Kind::Filter, "g", filter("voice", 1))]);
    assert_eq!((file1, &back), (file, &one), "neither owner's digest knows of revisions or ids");
    assert!(one != two && one != renamed);
    let (_, gone) = digest(vec![delete(Kind::Filter, "g")]);
    assert_eq!(gone, None);
}

/// Whether each class is read as its port's default.
fn read_defaults(desk: &mut Desk) -> Vec<(String, bool)> {
    let query = StateQuery { kind: Some(Kind::Class), ..StateQuery::default() };
    let page = desk.control.state(&query).expect("a page");
    let default = |spec: &Spec| matches!(spec, Spec::Class(c) if c.default);
    page.objects.iter().map(|o| (o.name.to_string(), default(&o.spec))).collect()
}

#[test]
fn a_default_that_nobody_named_is_read_as_one_and_putting_it_back_keeps_it() {
    let mut desk = Desk::new();
    let class = |port: &str| json!({"port": port});
    let inner = json!({"port": "wan", "parent": "wan/z"});
    desk.commit(
        Owner::File,
        vec![
            put(Kind::Port, "lan", json!({})),
            put(Kind::Port, "wan", json!({"rate": 10_000_000})),
            put(Kind::Class, "lan/a", class("lan")),
            put(Kind::Class, "lan/b", json!({"port": "lan", "default": true})),
            put(Kind::Class, "lan/c", class("lan")),
            put(Kind::Class, "wan/a", class("wan")),
            put(Kind::Class, "wan/y", inner),
            put(Kind::Class, "wan/z", class("wan")),
        ],
    );
    // `wan/z` is no leaf, so `wan/y` is the last.
    let defaults = |desk: &mut Desk| -> Vec<String> {
        read_defaults(desk).into_iter().filter(|(_, default)| *default).map(|(name, _)| name).collect()
    };
    assert_eq!(defaults(&mut desk), ["lan/b", "wan/y"]);

    // A later leaf takes its place, until somebody says so.
    desk.commit(Owner::Cli, vec![put(Kind::Class, "wan/z1", class("wan"))]);
    assert_eq!(defaults(&mut desk), ["lan/b", "wan/z1"]);
    let digest = |desk: &mut Desk| desk.control.state(&StateQuery::default()).expect("a page").digests;
    let before = digest(&mut desk);
    let page = desk.control.state(&StateQuery::default()).expect("a page");
    let mine = page.objects.iter().filter(|o| o.owner == Owner::Cli);
    let back: Vec<_> = mine
        .map(|o| put(o.kind, o.name.as_str(), serde_json::to_value(&o.spec).expect("plain data")))
        .collect();
    let reply = desk.commit(Owner::Cli, back);
    assert!(reply.ops.iter().all(|r| r.outcome == OpOutcome::Unchanged), "{:?}", reply.ops);
    assert_eq!(reply.ops[0].version, 2);
    assert_eq!(digest(&mut desk), before);
    desk.commit(Owner::File, vec![put(Kind::Class, "wan/z2", class("wan"))]);
    assert_eq!(defaults(&mut desk), ["lan/b", "wan/z1"], "what was read and put back is kept");

    // To say so of another class is a change.
    let other = json!({"port": "lan", "default": true});
    let ops = vec![put(Kind::Class, "lan/b", class("lan")), put(Kind::Class, "lan/a", other)];
    let reply = desk.commit(Owner::File, ops);
    assert!(reply.ops.iter().all(|r| r.outcome == OpOutcome::Updated));
    assert_eq!(defaults(&mut desk), ["lan/a", "wan/z1"]);
}
