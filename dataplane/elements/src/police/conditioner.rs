//! # Synopsis
//! `Conditioner([default])` meters, marks and polices each packet by its profile, contract and class.
//!
//! # Ports
//! Input 0: classified packets (`meta.profile`, `meta.sla`, `meta.class`, `meta.realtime`). Output 0: packets that
//! may go on.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `default` (1st) | class name | | none | where demoted packets go |
//!
//! The tables are set by transactions: [`ConditionerChange`], at most [`super::MAX_IDS`] ids a table.
//!
//! # Behaviour
//! In this order, each step only if the packet carries the id and the table has it:
//! 1. Profile: the meter colours the packet, then the colour's action passes it, drops it (`policed`), writes a code
//!    point or puts it into a logical class.
//! 2. Contract: concerns recognised real-time traffic, also what filters put into a class other than `default`, or
//!    everything of the customer ([`super::SlaTraffic`]). Within its rate the packet gets the contract's code point;
//!    above it the policy passes it alike, drops it (`sla_policy`) or demotes it: code point cleared, class set to
//!    `default`, no longer real-time.
//! 3. Class: recognised real-time traffic is policed to its class's rate. Within it the packet gets the class's code
//!    point, if there is one; the excess is dropped (`policed`) or demoted.
//!
//! A packet dropped by a step has still paid for the steps before. Length is the IP length, time `received_at`.
//! An id that its table does not have passes and is counted.
//!
//! # Counters
//! Totals over all entries: `profile_…`, `sla_…`, `class_…` with `dropped_packets`, `dropped_bytes`,
//! `demoted_packets`, `demoted_bytes`; `unknown_ids`. By entry: [`Conditioner::profile_counters`] and its sisters.
//!
//! # Invariants
//! Order is kept. A change touches no token and no counter of an entry it does not name. Committing a change takes
//! time proportional to its entries, allocates and frees nothing.
//!
//! # Example
//! `FromPort(lan) -> Conditioner(default = be) -> ToPort(wan)`
//!
//! # Source
//! RFC 2475 §2.3.3 (traffic conditioners), RFC 3290 §4 to 6.

use super::condition::{Adopt, ConditionCounters};
use super::spec::{Action, Excess, OutOfProfile, SlaTraffic};
use super::table::{ConditionerChange, Table, Tables};
use crate::mark::mark;
use crate::meter::metered_len;
use crate::plumbing::reader::{Reader, as_any};
use crate::plumbing::set_class::read_class;
use perhop_element::{CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex};
use perhop_packet::{Batch, ClassId, DropReason, Packet, ProfileId, SlaId};
use perhop_units::{Bytes, Color, Dscp, Instant};

/// The element.
#[derive(Debug)]
pub struct Conditioner {
    tables: Tables,
    unknown_ids: u64,
}

impl Conditioner {
    /// Empty tables: everything passes.
    pub fn new(default_class: ClassId) -> Self {
        Self { tables: Tables { default_class, ..Tables::default() }, unknown_ids: 0 }
    }

    /// Exchanges the entries `change` names with the tables; what was there is afterwards in `change`, to be freed
    /// elsewhere. Replaced entries keep counters and tokens, clamped to the new bursts. O(changed).
    pub fn commit(&mut self, now: Instant, change: &mut ConditionerChange) {
        self.tables.commit(now, change);
    }

    /// Counters of a profile; `None` if there is none.
    pub fn profile_counters(&self, id: ProfileId) -> Option<ConditionCounters> {
        self.tables.profiles.entry(id.index()).map(|e| e.counters)
    }

    /// Counters of a contract.
    pub fn sla_counters(&self, id: SlaId) -> Option<ConditionCounters> {
        self.tables.slas.entry(id.index()).map(|e| e.counters)
    }

    /// Counters of a class's real-time policer.
    pub fn class_counters(&self, id: ClassId) -> Option<ConditionCounters> {
        self.tables.classes.entry(id.index()).map(|e| e.counters)
    }

    /// All three steps; the reason to drop, if any.
    #[inline]
    fn condition(&mut self, packet: &mut Packet) -> Option<DropReason> {
        let len = metered_len(packet);
        let at = packet.meta().received_at;
        self.by_profile(packet, at, len)
            .or_else(|| self.by_sla(packet, at, len))
            .or_else(|| self.by_class(packet, at, len))
    }

    #[inline]
    fn by_profile(&mut self, packet: &mut Packet, at: Instant, len: Bytes) -> Option<DropReason> {
        let meta = packet.meta_mut();
        if !meta.profile.is_some() {
            return None;
        }
        let Some(profile) = self.tables.profiles.entry_mut(meta.profile.index()) else {
            self.unknown_ids += 1;
            return None;
        };
        meta.color = profile.meter(at, len, meta.color);
        match profile.actions[meta.color as usize] {
            Action::Pass => {}
            Action::SetClass(class, dscp) => {
                meta.class = class;
                if let Some(dscp) = dscp {
                    mark(packet, dscp);
                }
            }
            Action::Remark(dscp) => {
                mark(packet, dscp);
            }
            Action::Drop => {
                profile.counters.dropped(len);
                return Some(DropReason::Policed);
            }
        }
        None
    }

    #[inline]
    fn by_sla(&mut self, packet: &mut Packet, at: Instant, len: Bytes) -> Option<DropReason> {
        let meta = packet.meta();
        if !meta.sla.is_some() {
            return None;
        }
        let Some(sla) = self.tables.slas.entry_mut(meta.sla.index()) else {
            self.unknown_ids += 1;
            return None;
        };
        let concerned = match sla.traffic {
            SlaTraffic::Every => true,
            SlaTraffic::Recognised => meta.realtime,
            SlaTraffic::Classified => {
                meta.realtime || (meta.class.is_some() && meta.class != self.tables.default_class)
            }
        };
        if !concerned {
            return None;
        }
        let color = sla.bucket.meter(at, len);
        sla.counters.colors.count(color, len);
        match sla.policy {
            OutOfProfile::Drop if color == Color::Red => {
                sla.counters.dropped(len);
                return Some(DropReason::SlaPolicy);
            }
            OutOfProfile::Demote if color == Color::Red => {
                sla.counters.demoted(len);
                demote(packet, self.tables.default_class);
            }
            _ => {
                if let Some(dscp) = sla.dscp {
                    mark(packet, dscp);
                }
            }
        }
        None
    }

    #[inline]
    fn by_class(&mut self, packet: &mut Packet, at: Instant, len: Bytes) -> Option<DropReason> {
        let meta = packet.meta();
        if !meta.realtime {
            return None;
        }
        // A class without a real-time policer is the usual case, not an unknown id.
        let port = meta.in_port;
        let class = self.tables.classes.entry_mut(meta.class.index())?;
        let color = class.meter(port, at, len);
        class.counters.colors.count(color, len);
        if color == Color::Green {
            if let Some(dscp) = class.dscp {
                mark(packet, dscp);
            }
            return None;
        }
        match class.excess {
            Excess::Drop => {
                class.counters.dropped(len);
                Some(DropReason::Policed)
            }
            Excess::Demote => {
                class.counters.demoted(len);
                demote(packet, self.tables.default_class);
                None
            }
        }
    }
}

fn demote(packet: &mut Packet, class: ClassId) {
    mark(packet, Dscp::BE);
    let meta = packet.meta_mut();
    meta.class = class;
    meta.realtime = false;
}

impl Element for Conditioner {
    fn type_name(&self) -> &'static str {
        "Conditioner"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        // With many customers each entry is a cache miss; asking for all of them first lets the misses overlap.
        for packet in batch.iter() {
            self.tables.profiles.prefetch(packet.meta().profile.index());
            self.tables.slas.prefetch(packet.meta().sla.index());
        }
        for mut packet in batch.drain() {
            match self.condition(&mut packet) {
                None => cx.emit(0, packet),
                Some(reason) => cx.drop(packet, reason),
            }
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        totals("profile", &self.tables.profiles, sink);
        totals("sla", &self.tables.slas, sink);
        totals("class", &self.tables.classes, sink);
        sink.counter("unknown_ids", self.unknown_ids);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new((std::mem::take(&mut self.tables), self.unknown_ids)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let (tables, unknown_ids) = *state.downcast::<(Tables, u64)>()?;
        let default_class = self.tables.default_class;
        self.tables = tables;
        if default_class.is_some() {
            self.tables.default_class = default_class;
        }
        self.unknown_ids = unknown_ids;
        Ok(())
    }

    as_any!();
}

fn totals<T: Adopt>(kind: &str, table: &Table<T>, sink: &mut dyn CounterSink) {
    let mut sum = [0; 4];
    for c in table.iter().map(Adopt::totals) {
        let figures = [c.dropped_packets, c.dropped_bytes, c.demoted_packets, c.demoted_bytes];
        sum.iter_mut().zip(figures).for_each(|(s, f)| *s += f);
    }
    let names = ["dropped_packets", "dropped_bytes", "demoted_packets", "demoted_bytes"];
    for (name, value) in names.into_iter().zip(sum) {
        sink.counter(&format!("{kind}_{name}"), value);
    }
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Conditioner",
    synopsis: "meters, marks and polices by profile, contract and class",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| {
        let mut r = Reader::new(args);
        let given = r.text("default", Some(0)).is_some();
        let class = if given { read_class(&mut r, "default", Some(0), cx) } else { ClassId::NONE };
        r.finish(Box::new(Conditioner::new(class)) as _)
    },
    sample: |rng| if rng.next_u32() & 1 == 0 { String::new() } else { "be".to_owned() },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{TokenBucket, TrTcmConfig};
    use crate::plumbing::frames::udp;
    use crate::police::{MeterSpec, ProfileSpec, RealtimeSpec, SlaSpec};
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
        let config = TrTcmConfig {
            cir: Rate(8_000),
            cbs: Bytes(100),
            pir: Rate(8_000),
            pbs: Bytes(200),
            aware: false,
        };
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
        assert_eq!(element.unknown_ids, 1);
        assert_eq!(bench.driver.counters(bench.node).unwrap().drops[DropReason::Policed.index()], 1);
    }

    fn contract(policy: OutOfProfile, traffic: SlaTraffic) -> SlaSpec {
        SlaSpec { rate: Rate(8_000), burst: Bytes(150), dscp: Some(Dscp::EF), policy, traffic }
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

    #[test]
    fn real_time_traffic_is_policed_to_its_class() {
        for (excess, out) in [(Excess::Drop, 2), (Excess::Demote, 3)] {
            let dscp = Some(Dscp::EF);
            let spec =
                RealtimeSpec { rate: Rate(8_000), burst: Bytes(100), excess, dscp, ports: vec![WITH_CLASS] };
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
        let spec = |ports| RealtimeSpec {
            rate: Rate(8_000),
            burst: Bytes(100),
            excess: Excess::Drop,
            dscp: None,
            ports,
        };
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
}
