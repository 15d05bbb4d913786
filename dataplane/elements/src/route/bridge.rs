//! # Synopsis
//! `Bridge(ports)` is a transparent learning bridge without address.
//!
//! # Ports
//! Input 0: frames. Outputs 0 … `ports` − 1: frames to send, by port number.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `ports` (1st) | number | ports | required | 1 … 64 |
//! | `ageing` | time | s | 300 s | 10 s … 1,000,000 s |
//! | `stations` | number | stations | 4096 | 16 … 1,048,576 |
//! | `storm_rate` | number | copies/s | 10,000 | 0 = no limit, 1 … 10,000,000 |
//! | `storm_burst` | number | copies | 1000, or a tenth of a second of `storm_rate` if that is more | 64 … 1,000,000 |
//!
//! # Behaviour
//! The source station of every frame is learned with its port and outer VLAN; a station that moves is learned
//! anew. A frame for a learned station goes to its port alone, or is dropped as `same_port` if it came from there. A
//! frame for a group or an unknown station is copied to every other port; copies beyond the storm limit are not made:
//! a frame is flooded to all or dropped as `storm_limit`. Between two ports there is nothing to copy, and no limit. A group
//! address as source is a `bad_source`. A station not heard of for `ageing` is forgotten; a full table learns no more and floods.
//!
//! Frames for some of the addresses 01:80:c2:00:00:00 … 0f stay on their link (`bad_destination`). With two ports these are …01, 02,
//! 04 and 0e, as of a two-port MAC relay (IEEE 802.1Q table 8-3): spanning tree, EAPOL and the other scopes of LLDP pass. With more
//! they are all but …00 (table 8-1): this bridge has no part in a spanning tree, whose bridges could not see a loop through it if
//! their frames ended here.
//!
//! # Counters
//! `stations` (gauge), `learned`, `moved`, `not_learned` (table full), `flooded` (frames), `copies_missed` (for want of
//! a buffer).
//!
//! # Invariants
//! A frame never leaves by the port it came in by. A frame that leaves is unchanged. In any time t at most
//! `storm_rate` × t + `storm_burst` flooded copies, where there are more than two ports.
//!
//! # Example
//! `b :: Bridge(2); FromPort(lan) -> b; FromPort(wan) -> b; b[0] -> ToPort(lan); b[1] -> ToPort(wan)`
//!
//! # Source
//! IEEE 802.1D-2004 §7.7–7.9 (forwarding, learning, ageing); IEEE 802.1Q-2018 §8.6.3 (reserved addresses), VLANs.

use super::limit::RateLimit;
use crate::plumbing::adapter::as_any;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_element::{CounterSink, Cx, Element, ElementState, PortIndex};
use perhop_packet::{Batch, DropReason, Packet, PortId};
use perhop_units::{Duration, Instant};
use perhop_wire::MacAddr;

/// Parameters of [`Bridge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Router ports.
    pub ports: u8,
    /// How long a silent station is remembered.
    pub ageing: Duration,
    /// Stations remembered.
    pub stations: usize,
    /// Flooded copies a second; 0 = no limit.
    pub storm_rate: u32,
    /// Flooded copies at once, at least `ports`.
    pub storm_burst: u32,
}

impl BridgeConfig {
    /// `ports` ports and the defaults of the module's table.
    pub fn new(ports: u8) -> Self {
        Self {
            ports,
            ageing: Duration::from_secs(300),
            stations: 4096,
            storm_rate: 10_000,
            storm_burst: 1000,
        }
    }
}

/// The element.
#[derive(Debug)]
pub struct Bridge {
    config: BridgeConfig,
    table: Table,
    storm: RateLimit,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    learned: u64,
    moved: u64,
    not_learned: u64,
    flooded: u64,
    copies_missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Station {
    port: PortId,
    heard: Instant,
}

#[derive(Debug)]
struct Table {
    /// By outer VLAN (0: untagged) and address.
    stations: HashMap<(u16, MacAddr), Station, FixedState>,
    /// When the table was last searched for silent stations.
    swept: Instant,
}

impl Bridge {
    /// Without stations.
    pub fn new(config: BridgeConfig) -> Self {
        Self {
            config,
            table: Table { stations: HashMap::with_hasher(FixedState::default()), swept: Instant::ZERO },
            storm: RateLimit::new(config.storm_rate, config.storm_burst),
            counters: Counters::default(),
        }
    }

    /// The port a station was last heard on, if it is remembered.
    pub fn port_of(&self, vlan: u16, station: MacAddr, now: Instant) -> Option<PortId> {
        let station = self.table.stations.get(&(vlan, station))?;
        (now.since(station.heard) < self.config.ageing).then_some(station.port)
    }

    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let Some((dst, src)) = packet.frame().first_chunk::<12>().map(|macs| {
            let [a, b, c, d, e, f, g, h, i, j, k, l] = *macs;
            (MacAddr([a, b, c, d, e, f]), MacAddr([g, h, i, j, k, l]))
        }) else {
            return cx.drop(packet, DropReason::Malformed(perhop_wire::Malformed::EthernetTruncated));
        };
        let meta = packet.meta();
        if meta.is_own() {
            let port = meta.out_port;
            return self.leave(cx, packet, port);
        }
        let vlan = if meta.layout.vlan_tags == 0 { 0 } else { meta.layout.vlan[0] };
        let in_port = meta.in_port;
        if src.is_multicast() {
            return cx.drop(packet, DropReason::BadSource);
        }
        if in_port.is_some() {
            self.learn(cx.now(), (vlan, src), in_port);
        }
        if let [0x01, 0x80, 0xc2, 0, 0, last @ 0..=0x0f] = dst.0
            && self.keeps_on_link(last)
        {
            return cx.drop(packet, DropReason::BadDestination);
        }
        let known = if dst.is_multicast() { None } else { self.port_of(vlan, dst, cx.now()) };
        match known {
            Some(port) if port == in_port => cx.drop(packet, DropReason::SamePort),
            Some(port) => self.leave(cx, packet, port),
            None => self.flood(cx, packet, in_port),
        }
    }

    /// Whether a frame for a reserved address, of this last octet, is not passed on.
    fn keeps_on_link(&self, last: u8) -> bool {
        if self.config.ports == 2 { matches!(last, 0x01 | 0x02 | 0x04 | 0x0e) } else { last != 0 }
    }

    fn learn(&mut self, now: Instant, key: (u16, MacAddr), port: PortId) {
        if let Some(station) = self.table.stations.get_mut(&key) {
            self.counters.moved += u64::from(station.port != port);
            *station = Station { port, heard: now };
            return;
        }
        if self.table.stations.len() >= self.config.stations {
            self.forget_silent(now);
        }
        if self.table.stations.len() >= self.config.stations {
            self.counters.not_learned += 1;
            return;
        }
        self.counters.learned += 1;
        self.table.stations.insert(key, Station { port, heard: now });
    }

    /// Removes stations that are too old, at most once a second: a full table must not cost a search per frame.
    fn forget_silent(&mut self, now: Instant) {
        if now.since(self.table.swept) < Duration::from_secs(1) {
            return;
        }
        self.table.swept = now;
        let ageing = self.config.ageing;
        self.table.stations.retain(|_, station| now.since(station.heard) < ageing);
    }

    fn flood(&mut self, cx: &mut Cx<'_>, packet: Packet, in_port: PortId) {
        let others = || (0..u16::from(self.config.ports)).map(PortId).filter(|p| *p != in_port);
        let copies = others().count() as u32;
        let Some(last) = others().next_back() else { return cx.drop(packet, DropReason::SamePort) };
        // One frame in, one out: nothing is made more by it.
        let limited = copies > 1 && self.config.storm_rate > 0;
        if limited && !self.storm.take(cx.now(), copies) {
            return cx.drop(packet, DropReason::StormLimit);
        }
        self.counters.flooded += 1;
        for port in others().take_while(|port| *port != last) {
            match cx.clone(&packet) {
                Some(copy) => self.leave(cx, copy, port),
                None => self.counters.copies_missed += 1,
            }
        }
        self.leave(cx, packet, last);
    }

    fn leave(&self, cx: &mut Cx<'_>, mut packet: Packet, port: PortId) {
        packet.meta_mut().out_port = port;
        if port.0 >= u16::from(self.config.ports) {
            return cx.drop(packet, DropReason::PortDown);
        }
        cx.emit(port.0 as PortIndex, packet);
    }
}

impl Element for Bridge {
    fn type_name(&self) -> &'static str {
        "Bridge"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            self.take(cx, packet);
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.gauge("stations", self.table.stations.len() as u64);
        sink.counter("learned", self.counters.learned);
        sink.counter("moved", self.counters.moved);
        sink.counter("not_learned", self.counters.not_learned);
        sink.counter("flooded", self.counters.flooded);
        sink.counter("copies_missed", self.counters.copies_missed);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let fresh = Self::new(self.config);
        Some(Box::new(std::mem::replace(self, fresh)))
    }

    /// The stations stay, and so does what the storm limit has left. A smaller table keeps what it was given and
    /// learns nothing until there is room.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let old = *state.downcast::<Self>()?;
        self.table = old.table;
        self.counters = old.counters;
        self.storm.adopt(&old.storm);
        Ok(())
    }

    as_any!();
}

pub(super) mod registration {
    use super::*;
    use crate::route::route::registration::MAX_PORTS;
    use perhop_element::{ElementType, PortCount, Reader};

    pub(crate) const TYPE: ElementType = ElementType {
        name: "Bridge",
        synopsis: "transparent learning bridge (IEEE 802.1D)",
        inputs: PortCount::Exactly(1),
        outputs: PortCount::Between(1, MAX_PORTS),
        build: |args, _| {
            let mut r = Reader::new(args);
            let ports = r.required_in("ports", Some(0), 1..=MAX_PORTS);
            let usual = BridgeConfig::new(ports);
            let ages = Duration::from_secs(10)..=Duration::from_secs(1_000_000);
            let config = BridgeConfig {
                ports,
                ageing: r.optional_in("ageing", None, usual.ageing, ages),
                stations: r.optional_in("stations", None, usual.stations, 16..=1 << 20),
                storm_rate: r.optional_in("storm_rate", None, usual.storm_rate, 0..=10_000_000),
                ..usual
            };
            let burst = usual.storm_burst.max(config.storm_rate / 10);
            let storm_burst = r.optional_in("storm_burst", None, burst, 64..=1_000_000);
            let config = BridgeConfig { storm_burst, ..config };
            r.finish(Box::new(Bridge::new(config)) as _)
        },
        sample: |rng| format!("{}, storm_rate = {}", 1 + rng.next_u32() % 4, 1 + rng.next_u32() % 1000),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_element::testkit::Bench;
    use perhop_wire::build::{FrameBuilder, udp4};

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

    fn frame(src: MacAddr, dst: MacAddr) -> FrameBuilder {
        udp4([10, 0, 0, 1], [10, 0, 0, 2]).macs(src, dst)
    }

    fn push(bench: &mut Bench, in_port: u16, frame: &FrameBuilder) {
        let mut packet = bench.packet(&frame.build());
        packet.meta_mut().in_port = PortId(in_port);
        bench.push_packet(0, packet);
    }

    fn counts(bench: &Bench) -> [usize; 3] {
        [0, 1, 2].map(|i| bench.arrived(i).len())
    }

    fn drops(bench: &Bench, reason: DropReason) -> u64 {
        bench.driver.counters(bench.node).unwrap().drops[reason.index()]
    }

    #[test]
    fn learns_floods_and_forgets() {
        let mut bench = Bench::new(Bridge::new(BridgeConfig::new(3)), 3);
        push(&mut bench, 0, &frame(A, B)); // B is unknown
        assert_eq!(counts(&bench), [0, 1, 1]);
        push(&mut bench, 1, &frame(B, A)); // A is on 0
        assert_eq!(counts(&bench), [1, 1, 1]);
        assert_eq!(bench.sink(0).arrived[0].1.meta().out_port, PortId(0));
        push(&mut bench, 0, &frame(A, B)); // B is on 1
        assert_eq!(counts(&bench), [1, 2, 1]);
        push(&mut bench, 2, &frame(B, A)); // B has moved
        push(&mut bench, 0, &frame(A, B));
        assert_eq!(counts(&bench), [2, 2, 2]);
        assert_eq!(bench.element::<Bridge>().counters.moved, 1);
        push(&mut bench, 2, &frame(A, B)); // A has moved to the port of B
        assert_eq!(drops(&bench, DropReason::SamePort), 1);
        bench.run_for(Duration::from_secs(299));
        push(&mut bench, 1, &frame(MacAddr([2; 6]), B));
        assert_eq!(counts(&bench), [2, 2, 3]);
        bench.run_for(Duration::from_secs(1));
        push(&mut bench, 1, &frame(MacAddr([2; 6]), B)); // B is forgotten
        assert_eq!(counts(&bench), [3, 2, 4]);
    }

    #[test]
    fn frames_pass_unchanged() {
        let mut bench = Bench::new(Bridge::new(BridgeConfig::new(3)), 3);
        let sent = frame(A, MacAddr::BROADCAST).vlan(7, 3).payload(b"hello");
        push(&mut bench, 1, &sent);
        assert_eq!(counts(&bench), [1, 0, 1]);
        for i in [0, 2] {
            assert_eq!(bench.arrived(i)[0].1, sent.build());
            assert_eq!(bench.sink(i).arrived[0].1.meta().out_port, PortId(i as u16));
        }
        assert_eq!(bench.driver.counters(bench.node).unwrap().made, 1);
    }

    #[test]
    fn a_station_lives_in_its_vlan() {
        let mut bench = Bench::new(Bridge::new(BridgeConfig::new(3)), 3);
        push(&mut bench, 0, &frame(A, B).vlan(5, 0));
        push(&mut bench, 1, &frame(B, A).vlan(6, 0)); // A is unknown in VLAN 6
        assert_eq!(counts(&bench), [1, 1, 2]);
        push(&mut bench, 1, &frame(B, A).vlan(5, 0));
        assert_eq!(counts(&bench), [2, 1, 2]);
    }

    #[test]
    fn reserved_and_group_addresses() {
        let mut bench = Bench::new(Bridge::new(BridgeConfig::new(3)), 3);
        push(&mut bench, 0, &frame(A, MacAddr([1, 0x80, 0xc2, 0, 0, 1])));
        push(&mut bench, 0, &frame(A, MacAddr([1, 0x80, 0xc2, 0, 0, 15])));
        push(&mut bench, 0, &frame(MacAddr::BROADCAST, B));
        assert_eq!(counts(&bench), [0, 0, 0]);
        assert_eq!(drops(&bench, DropReason::BadDestination), 2);
        assert_eq!(drops(&bench, DropReason::BadSource), 1);
        push(&mut bench, 0, &frame(A, MacAddr([1, 0x80, 0xc2, 0, 0, 16])));
        assert_eq!(counts(&bench), [0, 1, 1]);
        push(&mut bench, 0, &frame(A, MacAddr([1, 0x80, 0xc2, 0, 0, 0])));
        assert_eq!(counts(&bench), [0, 2, 2], "of a spanning tree that others have");
    }

    /// IEEE 802.1Q table 8-3.
    #[test]
    fn two_ports_keep_only_what_is_of_a_single_link() {
        let mut bench = Bench::new(Bridge::new(BridgeConfig::new(2)), 2);
        let passes = |bench: &mut Bench, last| {
            let before = bench.arrived(1).len();
            push(bench, 0, &frame(A, MacAddr([1, 0x80, 0xc2, 0, 0, last])));
            bench.arrived(1).len() > before
        };
        let kept: Vec<u8> = (0..=0x1f).filter(|last| !passes(&mut bench, *last)).collect();
        assert_eq!(kept, [0x01, 0x02, 0x04, 0x0e]);
    }

    /// A station that never answers, and groups, at 15,000 frames a second.
    #[test]
    fn nothing_is_lost_between_two_ports_however_fast_it_comes() {
        let burst = |ports| BridgeConfig { storm_burst: 64, ..BridgeConfig::new(ports) };
        let unlimited = BridgeConfig { storm_rate: 0, ..burst(3) };
        for (config, ports) in [(burst(2), 2), (unlimited, 3)] {
            let mut bench = Bench::new(Bridge::new(config), ports);
            for n in 0..1_000 {
                push(&mut bench, 0, &frame(A, if n % 2 == 0 { B } else { MacAddr([1, 0, 0x5e, 1, 1, 1]) }));
                bench.run_for(Duration(66_667));
            }
            assert_eq!((bench.arrived(1).len(), drops(&bench, DropReason::StormLimit)), (1_000, 0));
        }
    }

    #[test]
    fn storms_are_limited() {
        let config = BridgeConfig { storm_rate: 100, storm_burst: 64, ..BridgeConfig::new(3) };
        let mut bench = Bench::new(Bridge::new(config), 3);
        for _ in 0..40 {
            push(&mut bench, 0, &frame(A, MacAddr::BROADCAST));
        }
        assert_eq!(counts(&bench), [0, 32, 32]);
        assert_eq!(drops(&bench, DropReason::StormLimit), 8);
        push(&mut bench, 1, &frame(B, A)); // not flooded, not limited
        assert_eq!(counts(&bench), [1, 32, 32]);
        bench.run_for(Duration::from_millis(20));
        push(&mut bench, 0, &frame(A, MacAddr::BROADCAST));
        assert_eq!(counts(&bench), [1, 33, 33]);
    }

    #[test]
    fn a_full_table_floods_until_stations_age() {
        let config =
            BridgeConfig { stations: 2, storm_burst: 1000, storm_rate: 1000, ..BridgeConfig::new(3) };
        let mut bench = Bench::new(Bridge::new(config), 3);
        for n in 0..3 {
            push(&mut bench, 0, &frame(MacAddr([2, 0, 0, 0, 1, n]), A));
        }
        assert_eq!(bench.element::<Bridge>().counters.not_learned, 1);
        bench.run_for(Duration::from_secs(300));
        push(&mut bench, 0, &frame(B, A));
        let now = bench.now();
        assert_eq!(bench.element::<Bridge>().port_of(0, B, now), Some(PortId(0)));
        assert_eq!(bench.element::<Bridge>().table.stations.len(), 1);
    }

    #[test]
    fn stations_move_to_a_successor() {
        let mut old = Bridge::new(BridgeConfig::new(2));
        old.learn(Instant::ZERO, (0, A), PortId(1));
        let state = old.export_state().unwrap();
        let mut new = Bridge::new(BridgeConfig::new(2));
        assert!(new.import_state(state).is_ok());
        assert_eq!(new.port_of(0, A, Instant::ZERO), Some(PortId(1)));
        assert!(new.import_state(Box::new(7)).is_err());
    }
}
