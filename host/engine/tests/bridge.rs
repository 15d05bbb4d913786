//! A router in bridge mode against the kernel of this machine, in namespaces of its own: the shape of
//! `examples/bridge.toml`, with a third port to see what is flooded.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test needs real sockets, threads and clocks"
)]

mod support;

use perhop_element::Port as _;
use perhop_engine::{Engine, EngineConfig, Handle};
use perhop_io::{AfPacket, AfPacketConfig, Outgoing};
use perhop_model::{Call, CountersQuery};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink};
use perhop_packet::{Batch, Pool};
use perhop_routerfile::RouterFile;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;
use support::{Scratch, eventually, may_run};

/// Local experimental EtherType (IEEE 802, table of assigned numbers).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// VLAN 7, priority 5.
const TAG: [u8; 4] = [0x81, 0x00, 0xa0, 0x07];
const BROADCAST: [u8; 6] = [0xff; 6];
const NOBODY: [u8; 6] = [0x02, 0, 0, 0, 0x99, 0x99];

/// A host with an address, and a packet socket beside its kernel.
struct Host {
    namespace: Namespace,
    mac: [u8; 6],
    raw: AfPacket,
    pool: Pool,
    /// How often each numbered frame has arrived, and it.
    arrived: BTreeMap<u32, (u32, Vec<u8>)>,
}

impl Host {
    fn new(router: &Netlink, i: usize) -> Self {
        let namespace = Namespace::create().unwrap();
        let own = Netlink::open_in(&namespace).unwrap();
        router.create_veth(&format!("p{i}"), "eth0", Some(&namespace)).unwrap();
        // What a kernel sends to groups by itself would be flooded and refused between a test's own frames.
        sysctl::write(&namespace, IpVersion::V6, "eth0", "disable_ipv6", 1).unwrap();
        own.add_address("eth0", format!("10.40.0.{}/24", i + 1).parse().unwrap()).unwrap();
        own.disable_offloads("eth0").unwrap();
        own.set_up("eth0").unwrap();
        router.set_up(&format!("p{i}")).unwrap();
        eventually("the link runs", || own.link("eth0").unwrap().running);
        let config = AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new("eth0", "eth0") };
        let raw = namespace.run(|| AfPacket::open(AfPacketConfig { promiscuous: true, ..config })).unwrap();
        let mac = own.link("eth0").unwrap().mac.unwrap();
        Self { namespace, mac, raw: raw.unwrap(), pool: Pool::new(8192), arrived: BTreeMap::new() }
    }

    fn send(&mut self, to: [u8; 6], tag: &[u8], number: u32) {
        let frame = [&to, &self.mac[..], tag, &ETHERTYPE, &number.to_be_bytes(), &[0; 60]].concat();
        let mut batch = Batch::new();
        batch.push(self.pool.packet(&frame).unwrap());
        eventually("room to send", || {
            self.raw.transmit(&mut batch).unwrap();
            batch.is_empty()
        });
    }

    fn look(&mut self) {
        let mut batch = Batch::new();
        while self.raw.receive(perhop_units::Instant(u64::MAX), &self.pool, &mut batch).unwrap() > 0 {
            for packet in batch.iter() {
                let frame = packet.frame();
                let at = if frame[12..14] == TAG[..2] { 16 } else { 12 };
                if frame[at..at + 2] == ETHERTYPE {
                    let number = u32::from_be_bytes(frame[at + 2..at + 6].try_into().unwrap());
                    self.arrived.entry(number).or_insert((0, frame.to_vec())).0 += 1;
                }
            }
            batch.release_all();
        }
    }

    /// How often a frame came, in the end.
    fn times(&mut self, number: u32) -> u32 {
        self.look();
        self.arrived.get(&number).map_or(0, |(times, _)| *times)
    }

    fn udp(&self) -> UdpSocket {
        let socket = self.namespace.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket
    }
}

/// Whether one of a few datagrams arrives.
fn reaches(from: &UdpSocket, to: &UdpSocket, address: &str) -> bool {
    let target = format!("{address}:{}", to.local_addr().unwrap().port());
    let mut buffer = [0; 64];
    (0..50).any(|_| {
        let _ = from.send_to(b"hello", &target);
        to.recv_from(&mut buffer).is_ok()
    })
}

fn dropped(handle: &Handle, reason: &str) -> u64 {
    let page = handle.wait(|done| Call::Counters(CountersQuery::default(), done)).unwrap();
    let elements = page.rows.iter().filter(|r| r.kind == "element");
    elements.map(|r| r.counters.get(&format!("dropped_{reason}")).copied().unwrap_or(0)).sum()
}

fn start(router: &Namespace, scratch: &Scratch) -> (Engine, Handle) {
    let text = include_str!("../../../examples/bridge.toml")
        .replace("\"eth0\"", "\"p0\"")
        .replace("\"eth1\"", "\"p1\"")
        .replacen("[[class]]", "[[port]]\nname = \"third\"\ndevice = \"p2\"\n\n[[class]]", 1);
    let (file, diagnostics) = RouterFile::read("bridge.toml", &text);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    Engine::start(EngineConfig {
        pool_size: 8192,
        ..EngineConfig::of_file("bridge", Some(router.clone()), &file, scratch.path())
    })
    .unwrap()
}

#[test]
fn hosts_talk_through_a_bridge_and_each_frame_arrives_once() {
    if !may_run("hosts_talk_through_a_bridge_and_each_frame_arrives_once") {
        return;
    }
    let scratch = Scratch::new("bridge");
    let router = Namespace::create().unwrap();
    let links = Netlink::open_in(&router).unwrap();
    let [mut a, mut b, mut c] = [0, 1, 2].map(|i| Host::new(&links, i));
    let (engine, handle) = start(&router, &scratch);

    // The kernels' own ARP and UDP, every way.
    let (ua, ub, uc) = (a.udp(), b.udp(), c.udp());
    assert!(reaches(&ua, &ub, "10.40.0.2") && reaches(&ub, &ua, "10.40.0.1"), "inside and modem");
    assert!(reaches(&uc, &ub, "10.40.0.2") && reaches(&ua, &uc, "10.40.0.3"), "third");

    // All stations are learned now.
    a.send(b.mac, &[], 1);
    a.send(NOBODY, &[], 2);
    a.send(BROADCAST, &[], 3);
    b.send(BROADCAST, &[], 4);
    // Another VLAN has learned nothing: the first is flooded, the answer finds its way.
    a.send(b.mac, &TAG, 5);
    eventually("the tagged frame arrives", || b.times(5) == 1 && c.times(5) == 1);
    b.send(a.mac, &TAG, 6);
    let expected =
        [(1, [0, 1, 0]), (2, [0, 1, 1]), (3, [0, 1, 1]), (4, [1, 0, 1]), (5, [0, 1, 1]), (6, [1, 0, 0])];
    for (number, times) in expected {
        eventually("every frame arrives", || {
            let seen = [a.times(number), b.times(number), c.times(number)];
            seen.iter().zip(times).all(|(seen, wanted)| *seen >= wanted)
        });
    }
    // What comes twice comes soon.
    std::thread::sleep(Duration::from_millis(200));
    for (number, times) in expected {
        assert_eq!([a.times(number), b.times(number), c.times(number)], times, "frame {number}");
    }
    let tagged = &a.arrived[&6].1;
    assert_eq!((&tagged[..6], &tagged[6..12], &tagged[12..16]), (&a.mac[..], &b.mac[..], &TAG[..]));

    // A storm: what is not flooded is counted, and nothing comes twice. It comes by no more at once than every queue on
    // the way takes, the kernel's between the ends of a link too, however long a reader is kept from its processor; and
    // goes on until the limit is hit, because the limit's bucket, of 500 frames here, fills while nobody runs.
    let mut storm = 100..100;
    let before = dropped(&handle, "storm_limit");
    let refused = || dropped(&handle, "storm_limit") - before;
    eventually("a storm is more than the limit", || {
        for number in storm.end..storm.end + 700 {
            a.send(BROADCAST, &[], number);
        }
        storm.end += 700;
        eventually("every frame is flooded or refused", || {
            b.look();
            let flooded = storm.clone().filter(|n| c.times(*n) > 0).count() as u64;
            flooded + refused() == storm.len() as u64
        });
        refused() > 0
    });
    std::thread::sleep(Duration::from_millis(200));
    c.look();
    assert!(storm.clone().all(|n| c.times(n) <= 1 && a.times(n) == 0));
    assert!(storm.clone().all(|n| b.times(n) <= 1));
    assert!(reaches(&ua, &ub, "10.40.0.2"), "after the storm");
    let report = engine.stop();
    assert!(report.failure.is_none() && report.restore_error.is_none());
}

#[test]
fn frames_that_a_port_does_not_take_are_counted_there_and_told_of_at_the_start() {
    if !may_run("frames_that_a_port_does_not_take_are_counted_there_and_told_of_at_the_start") {
        return;
    }
    let scratch = Scratch::new("bridge-mtu");
    let router = Namespace::create().unwrap();
    let links = Netlink::open_in(&router).unwrap();
    let [mut a, mut b, _c] = [0, 1, 2].map(|i| Host::new(&links, i));
    links.set_mtu("p1", 1280).unwrap();
    links.set_mtu("p2", 9000).unwrap();
    let (engine, handle) = start(&router, &scratch);
    let told: Vec<&String> = engine.warnings().iter().filter(|w| w.contains("differ in MTU")).collect();
    assert!(told.len() == 1 && told[0].contains(" 1280, ") && told[0].contains(" 1500"), "{told:?}");
    let long: Vec<&String> = engine.warnings().iter().filter(|w| w.contains("rx_too_long")).collect();
    assert!(
        long.len() == 1 && long[0].contains("an MTU of 9000: packets of more than 1774 bytes"),
        "{long:?}"
    );

    // Where b is, so that nothing is flooded.
    b.send(BROADCAST, &[], 1);
    eventually("b is known", || a.times(1) == 1);
    let port = |what: &str| {
        let page = handle.wait(|done| Call::Counters(CountersQuery::default(), done)).unwrap();
        let mut rows = page.rows.iter().filter(|r| r.kind == "port");
        let row = rows.find(|r| r.counters.get("tx_too_long").is_some_and(|n| *n > 0));
        row.map_or(0, |r| r.counters[what])
    };
    for number in 100..200 {
        let frame = [&b.mac, &a.mac[..], &ETHERTYPE, &u32::to_be_bytes(number), &[0; 1386]].concat();
        let mut batch = Batch::new();
        batch.push(a.pool.packet(&frame).unwrap());
        eventually("room to send", || {
            a.raw.transmit(&mut batch).unwrap();
            batch.is_empty()
        });
        // No more at once than the queue takes.
        eventually("the long frame is counted", || port("tx_too_long") == u64::from(number) - 99);
    }
    let before = port("tx_packets");
    a.send(b.mac, &[], 2);
    eventually("a short frame arrives", || b.times(2) == 1);
    assert!(port("tx_packets") < before + 50 && before < 50, "long frames are not counted as sent: {before}");
    assert!((100..200).all(|number| b.times(number) == 0));
    assert!(engine.stop().failure.is_none());
}
