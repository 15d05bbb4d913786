//! AF_XDP ports, and routers on them, against the kernel of this machine, over veth in namespaces of their own.
//!
//! Without rights to load programs each test says so and skips; with `netns` in `PERHOP_REQUIRE` a skip is a failure.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test needs real sockets, threads and clocks"
)]

mod support;

use perhop_element::Port;
use perhop_engine::{Engine, EngineConfig, Handle};
use perhop_io::af_xdp::{BareForwarder, HostTraffic, Mode, Place, Sharing, XdpError};
use perhop_io::{AfPacket, AfPacketConfig, AfXdp, AfXdpConfig, Outgoing, clock};
use perhop_model::{Call, ShowQuery};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink, laboratory};
use perhop_packet::{Batch, Packet, Pool};
use perhop_routerfile::RouterFile;
use perhop_wire::checksum;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;
use support::{PATIENCE, Scratch, eventually, may_run_unless};

/// Where programs work on a veth, and how frames get from there to a port.
const WAYS: [(Place, Mode); 2] = [(Place::Driver, Mode::DriverCopy), (Place::Generic, Mode::GenericCopy)];

fn may_run(name: &str) -> bool {
    may_run_unless(name, HostTraffic::new(Sharing::Route).err().map(|why| why.to_string()))
}

/// A link between `p0` here and `eth0` there, silent: neither kernel speaks of its own accord.
struct Link {
    here: Namespace,
    there: Namespace,
    net: Netlink,
    macs: [[u8; 6]; 2],
}

impl Link {
    fn new(mtu: u32) -> Self {
        let (here, there) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        let (net, far) = (Netlink::open_in(&here).unwrap(), Netlink::open_in(&there).unwrap());
        net.create_veth("p0", "eth0", Some(&there)).unwrap();
        for (namespace, net, device) in [(&here, &net, "p0"), (&there, &far, "eth0")] {
            sysctl::write(namespace, IpVersion::V6, device, "disable_ipv6", 1).unwrap();
            net.disable_offloads(device).unwrap();
            net.set_mtu(device, mtu).unwrap();
            net.set_up(device).unwrap();
        }
        eventually("the link runs", || net.link("p0").unwrap().running && far.link("eth0").unwrap().running);
        let macs = [net.link("p0").unwrap().mac.unwrap(), far.link("eth0").unwrap().mac.unwrap()];
        Self { here, there, net, macs }
    }

    fn open(&self, config: AfXdpConfig, pool: &Pool, host: &HostTraffic) -> Result<AfXdp, XdpError> {
        self.here.run(|| AfXdp::open(config, pool, host)).unwrap()
    }

    fn tap(&self, namespace: &Namespace, device: &str) -> Station {
        let config = AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new(device, device) };
        let port = namespace.run(|| AfPacket::open(config)).unwrap().unwrap();
        Station { port, pool: Pool::new(8192), came: Vec::new() }
    }

    /// UDP in IPv4 from there to another host, by `p0` or back, with a number and pattern in `len` bytes of frame.
    fn frame(&self, toward: usize, number: u32, len: usize) -> Vec<u8> {
        let mut frame = [&self.macs[toward][..], &self.macs[1 - toward][..], &[0x08, 0]].concat();
        let ip_len = (len - 14) as u16;
        frame.extend([0x45, 0]);
        frame.extend(ip_len.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
        let header = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        frame.extend([0x13, 0x88, 0x13, 0x89]);
        frame.extend((ip_len - 20).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(number.to_be_bytes());
        frame.extend((frame.len()..len).map(|at| (at as u32 * 7 + number) as u8));
        frame
    }
}

/// A packet socket at the other end.
struct Station {
    port: AfPacket,
    pool: Pool,
    came: Vec<Vec<u8>>,
}

impl Station {
    fn send(&mut self, frames: &[Vec<u8>]) {
        for frames in frames.chunks(32) {
            let mut batch = Batch::new();
            frames.iter().for_each(|f| batch.push(packet_of(&self.pool, f)));
            eventually("the socket takes the frames", || {
                self.port.transmit(&mut batch).unwrap();
                batch.is_empty() && !self.port.has_pending_output()
            });
        }
    }

    /// Everything that came, in order.
    fn look(&mut self) -> &[Vec<u8>] {
        drain(&mut self.port, &self.pool, &mut self.came);
        &self.came
    }
}

/// Also of frames that take some of the headroom.
fn packet_of(pool: &Pool, frame: &[u8]) -> Packet {
    let mut packet = pool.alloc().unwrap();
    let behind = frame.len().min(packet.tailroom());
    assert!(packet.resize(behind) && packet.grow_front(frame.len() - behind));
    packet.frame_mut().copy_from_slice(frame);
    packet
}

fn drain(port: &mut impl Port, pool: &Pool, came: &mut Vec<Vec<u8>>) {
    let mut batch = Batch::new();
    while port.receive(clock::monotonic(), pool, &mut batch).unwrap() > 0 {
        came.extend(batch.iter().map(|p| p.frame().to_vec()));
        batch.release_all();
    }
}

fn batch_of(pool: &Pool, frame: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(pool.packet(frame).unwrap());
    batch
}

fn counters(port: &mut impl Port) -> BTreeMap<String, u64> {
    let mut all: Vec<(String, u64)> = Vec::new();
    port.counters(&mut all);
    all.into_iter().collect()
}

#[test]
fn frames_pass_whole_and_in_order_both_ways() {
    if !may_run("frames_pass_whole_and_in_order_both_ways") {
        return;
    }
    for (place, mode) in WAYS {
        let link = Link::new(1500);
        let (pool, other) = (Pool::new(8192), Pool::new(64));
        let host = HostTraffic::new(Sharing::Route).unwrap();
        let config = AfXdpConfig { place, ..AfXdpConfig::new("p0", "p0") };
        let mut port = link.open(config, &pool, &host).unwrap();
        assert_eq!(port.mode(), mode);
        let mut station = link.tap(&link.there, "eth0");

        let sent: Vec<_> = (0..1456).map(|i| link.frame(0, i, 60 + (i as usize * 37) % 1455)).collect();
        station.send(&sent);
        let mut came = Vec::new();
        eventually("all frames come", || {
            drain(&mut port, &pool, &mut came);
            came.len() >= sent.len()
        });
        assert!(came == sent, "{mode}: {} frames, in order or not", came.len());

        let answers: Vec<_> = (0..3000).map(|i| link.frame(1, i, 60 + (i as usize * 31) % 1455)).collect();
        let (mut batch, mut next) = (Batch::new(), answers.iter().enumerate());
        eventually("all answers are sent", || {
            while !batch.is_full() {
                let Some((i, frame)) = next.next() else { break };
                // Every fiftieth from a pool that the kernel does not know.
                let from = if i % 50 == 0 { &other } else { &pool };
                batch.push(from.packet(frame).unwrap());
            }
            port.transmit(&mut batch).unwrap();
            station.look();
            batch.is_empty() && !port.has_pending_output() && next.len() == 0
        });
        eventually("all answers come", || station.look().len() >= answers.len());
        assert!(station.came == answers, "{mode}: {} answers, in order or not", station.came.len());

        let c = counters(&mut port);
        let bytes = |frames: &[Vec<u8>]| frames.iter().map(|f| f.len() as u64).sum::<u64>();
        assert_eq!((c["rx_packets"], c["rx_bytes"]), (sent.len() as u64, bytes(&sent)));
        assert_eq!((c["tx_packets"], c["tx_bytes"]), (answers.len() as u64, bytes(&answers)));
        for none in
            ["rx_no_buffer", "rx_too_long", "rx_ring_lost", "rx_to_kernel", "tx_failed", "tx_too_long"]
        {
            assert_eq!(c[none], 0, "{mode}: {none}");
        }
        // What was sent comes home: all buffers are free or wait for frames.
        eventually("the kernel has sent everything", || port.room() == 1024);
        drop(port);
        assert_eq!((pool.counters().in_depot, pool.counters().leaked), (8192, 0));
    }
}

#[test]
fn a_bare_forwarder_carries_every_frame_and_writes_the_addresses_alone() {
    if !may_run("a_bare_forwarder_carries_every_frame_and_writes_the_addresses_alone") {
        return;
    }
    for (place, mode) in WAYS {
        let link = Link::new(1500);
        link.net.create_veth("p1", "eth1", Some(&link.there)).unwrap();
        let far = Netlink::open_in(&link.there).unwrap();
        for (namespace, net, device) in [(&link.here, &link.net, "p1"), (&link.there, &far, "eth1")] {
            sysctl::write(namespace, IpVersion::V6, device, "disable_ipv6", 1).unwrap();
            net.disable_offloads(device).unwrap();
            net.set_up(device).unwrap();
        }
        eventually("the second link runs", || link.net.link("p1").unwrap().running);
        let pool = Pool::new(1024);
        let host = HostTraffic::new(Sharing::Route).unwrap();
        let config =
            |port| AfXdpConfig { place, rx_slots: 256, tx_slots: 64, ..AfXdpConfig::new(port, port) };
        let macs = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
        let open = || BareForwarder::open(config("p0"), config("p1"), &pool, &host, macs);
        let mut bare = link.here.run(open).unwrap().unwrap();
        assert_eq!(bare.modes(), [mode; 2]);
        let (mut from, mut to) = (link.tap(&link.there, "eth0"), link.tap(&link.there, "eth1"));
        // More than there are buffers: those of frames that were sent must come back.
        let (mut sent, mut expected) = (0, Vec::new());
        for group in 0..50u32 {
            let frames: Vec<_> =
                (0..32).map(|i| link.frame(0, group * 32 + i, 60 + (i as usize * 41) % 1400)).collect();
            from.send(&frames);
            expected.extend(frames.into_iter().map(|f| [&macs[..], &f[12..]].concat()));
            eventually("the frames are carried", || {
                sent += bare.turn().unwrap();
                to.look().len() >= expected.len()
            });
        }
        assert!(to.came == expected, "{mode}: {} frames, in order or not", to.came.len());
        assert_eq!(sent, expected.len());
        drop(bare);
        assert_eq!((pool.counters().in_depot, pool.counters().leaked), (1024, 0));
    }
}

/// An ARP request, and an ICMP echo request, of 10.20.0.2 for 10.20.0.1.
fn questions(link: &Link) -> [Vec<u8>; 2] {
    let [here, there] = link.macs;
    let mut arp = [&[0xff; 6][..], &there, &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1], &there].concat();
    arp.extend([10, 20, 0, 2, 0, 0, 0, 0, 0, 0, 10, 20, 0, 1]);
    arp.resize(60, 0);
    let mut echo = [&here[..], &there, &[0x08, 0]].concat();
    echo.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 1, 0, 0, 10, 20, 0, 2, 10, 20, 0, 1]);
    echo.extend([8, 0, 0, 0, 0x77, 0x77, 0, 1]);
    echo.resize(60, 0x55);
    for (at, covered) in [(24, 14..34), (36, 34..60)] {
        let sum = checksum::of(&echo[covered]);
        echo[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    [arp, echo]
}

#[test]
fn the_kernel_answers_arp_and_ping_of_its_own_address() {
    if !may_run("the_kernel_answers_arp_and_ping_of_its_own_address") {
        return;
    }
    for (place, mode) in WAYS {
        let link = Link::new(1500);
        link.net.add_address("p0", "10.20.0.1/24".parse().unwrap()).unwrap();
        Netlink::open_in(&link.there).unwrap().add_address("eth0", "10.20.0.2/24".parse().unwrap()).unwrap();
        let pool = Pool::new(1024);
        let host = HostTraffic::new(Sharing::Route).unwrap();
        let config = AfXdpConfig { place, ..AfXdpConfig::new("p0", "p0") };
        let mut port = link.open(config, &pool, &host).unwrap();
        let mut station = link.tap(&link.there, "eth0");
        let [arp, echo] = questions(&link);
        let is_answer =
            |f: &&Vec<u8>| f[12..14] == [0x08, 0x06] && f[20..22] == [0, 2] && f[28..32] == [10, 20, 0, 1];
        let is_echo =
            |f: &&Vec<u8>| f[12..14] == [0x08, 0] && f[23] == 1 && f[34] == 0 && f[38..40] == [0x77, 0x77];

        station.send(std::slice::from_ref(&arp));
        eventually("ARP is answered", || station.look().iter().any(|f| is_answer(&f)));
        // Before the address was told, the port gets the ping, and the kernel does not.
        station.send(std::slice::from_ref(&echo));
        let mut came = Vec::new();
        eventually("the port has the ping", || {
            drain(&mut port, &pool, &mut came);
            !came.is_empty()
        });
        assert!(came == [echo.clone()], "{mode}");
        host.set(&[("10.20.0.1".parse().unwrap(), 32)], &[]).unwrap();
        assert!(!station.look().iter().any(|f| is_echo(&f)), "{mode}: nobody has answered yet");
        station.send(&[echo]);
        eventually("the ping is answered", || station.look().iter().any(|f| is_echo(&f)));
        drain(&mut port, &pool, &mut came);
        assert_eq!(came.len(), 1, "{mode}");
        // Its answers, and ARP for them, are what the kernel sent.
        let came = |station: &mut Station| {
            let frames = station.look();
            (frames.len() as u64, frames.iter().map(|f| f.len() as u64).sum::<u64>())
        };
        eventually("the kernel's frames are counted", || {
            let c = counters(&mut port);
            came(&mut station) == (c["kernel_packets"], c["kernel_bytes"])
        });
        let kernel = port.take_kernel_sent();
        assert_eq!((kernel.packets, kernel.bytes), came(&mut station), "{mode}");
        port.transmit(&mut batch_of(&pool, &link.frame(1, 9, 100))).unwrap();
        eventually("our own comes", || came(&mut station).0 > kernel.packets);
        assert_eq!(port.take_kernel_sent(), Default::default(), "ours are not the kernel's");
    }
}

#[test]
fn every_frame_is_in_one_counter() {
    if !may_run("every_frame_is_in_one_counter") {
        return;
    }
    for (place, mode) in WAYS {
        let link = Link::new(2000);
        let pool = Pool::new(1024);
        let host = HostTraffic::new(Sharing::Route).unwrap();
        let config = AfXdpConfig { place, rx_slots: 128, ..AfXdpConfig::new("p0", "p0") };
        let mut port = link.open(config, &pool, &host).unwrap();
        let mut station = link.tap(&link.there, "eth0");
        let [arp, _] = questions(&link);
        let mut sent = 0;
        let mut accounted = |station: &mut Station, port: &mut AfXdp, frame: Vec<u8>| {
            for _ in 0..25 {
                station.send(&vec![frame.clone(); 10]);
                sent += 10;
                eventually("all are accounted for", || {
                    let c = counters(port);
                    let lost = c["rx_no_buffer"] + c["rx_ring_lost"] + c["rx_too_long"] + c["rx_to_kernel"];
                    // Those that are lent and filled are known when they are taken: at most 128.
                    let waiting = sent - (lost + c["rx_packets"]);
                    assert!(lost + c["rx_packets"] <= sent, "{mode}: {c:?} of {sent}");
                    waiting <= 128
                });
            }
        };
        // Nobody takes frames: those beyond the buffers are lost, and say so.
        accounted(&mut station, &mut port, link.frame(0, 1, 60));
        accounted(&mut station, &mut port, arp);
        accounted(&mut station, &mut port, link.frame(0, 2, 1900));
        let mut came = Vec::new();
        eventually("every frame is in one counter", || {
            drain(&mut port, &pool, &mut came);
            let c = counters(&mut port);
            c["rx_packets"] + c["rx_no_buffer"] + c["rx_ring_lost"] + c["rx_too_long"] + c["rx_to_kernel"]
                == 750
        });
        let c = counters(&mut port);
        assert_eq!((c["rx_packets"], came.len()), (128, 128), "{mode}: {c:?}");
        assert_eq!(c["rx_to_kernel"], 250, "{mode}");
        assert_eq!(c["rx_no_buffer"] + c["rx_ring_lost"], 122, "{mode}: {c:?}");
        assert_eq!(c["rx_too_long"], 250, "{mode}");
        // With buffers again it goes on.
        station.send(&[link.frame(0, 3, 60)]);
        eventually("another frame comes", || {
            drain(&mut port, &pool, &mut came);
            came.len() == 129
        });
        // The interface takes no more than its MTU, and tags.
        let mut batch = Batch::new();
        for len in [1792, 1700] {
            batch.push(pool.packet(&link.frame(1, 4, len)).unwrap());
        }
        link.net.set_mtu("p0", 1750).unwrap();
        counters(&mut port);
        assert_eq!(port.transmit(&mut batch).unwrap(), 1);
        assert_eq!(counters(&mut port)["tx_too_long"], 1);
    }
}

#[test]
fn the_interface_is_as_before_when_the_port_is_dropped() {
    if !may_run("the_interface_is_as_before_when_the_port_is_dropped") {
        return;
    }
    let link = Link::new(1500);
    let pool = Pool::new(1024);
    let host = HostTraffic::new(Sharing::Route).unwrap();
    let mut station = link.tap(&link.there, "eth0");
    let mut kernel = link.tap(&link.here, "p0");
    let mut number = 0;
    for (place, _) in [WAYS[0], WAYS[1], WAYS[0]] {
        let config = AfXdpConfig { place, ..AfXdpConfig::new("p0", "p0") };
        let mut port = link.open(config.clone(), &pool, &host).unwrap();
        for other in [Place::Anywhere, Place::Driver, Place::Generic] {
            let error = link.open(AfXdpConfig { place: other, ..config.clone() }, &pool, &host).unwrap_err();
            assert!(matches!(error, XdpError::ProgramInPlace { .. }), "{error}");
            assert!(error.to_string().contains("ip link set dev p0 xdp off"), "{error}");
        }
        number += 2;
        let through = link.frame(0, number, 100);
        station.send(std::slice::from_ref(&through));
        let mut came = Vec::new();
        eventually("the port has the frame", || {
            drain(&mut port, &pool, &mut came);
            came.contains(&through)
        });
        // In the driver frames are taken before packet sockets see them, and behind it, too.
        assert!(!kernel.look().contains(&through));
        drop(port);
        let after = link.frame(0, number + 1, 100);
        station.send(std::slice::from_ref(&after));
        eventually("the kernel has the frame", || kernel.look().contains(&after));
    }
    pool.flush_thread_cache();
    assert_eq!(pool.counters().in_depot, 1024);
}

/// Set for the process that is to be killed.
const VICTIM: &str = "PERHOP_TEST_AF_XDP_VICTIM";

#[test]
fn a_killed_process_leaves_the_interface_as_before() {
    let name = "a_killed_process_leaves_the_interface_as_before";
    if std::env::var_os(VICTIM).is_some() {
        let (pool, host) = (Pool::new(256), HostTraffic::new(Sharing::Route).unwrap());
        let _port = AfXdp::open(AfXdpConfig::new("p0", "p0"), &pool, &host).unwrap();
        std::thread::sleep(PATIENCE);
        return;
    }
    if !may_run(name) {
        return;
    }
    let link = Link::new(1500);
    let (mut station, mut kernel) = (link.tap(&link.there, "eth0"), link.tap(&link.here, "p0"));
    let me = std::env::current_exe().unwrap();
    let start = || std::process::Command::new(me).args(["--exact", name]).env(VICTIM, "1").spawn();
    let mut victim = link.here.run(start).unwrap().unwrap();
    let mut number = 0;
    let mut is_heard = || {
        number += 1;
        let frame = link.frame(0, number, 100);
        station.send(std::slice::from_ref(&frame));
        std::thread::sleep(Duration::from_millis(10));
        kernel.look().contains(&frame)
    };
    eventually("the process has the frames", || (0..5).all(|_| !is_heard()));
    assert!(victim.try_wait().unwrap().is_none(), "it runs still");
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("the kernel has the frames", is_heard);
}

/// A veth of two queues in a namespace; `None`, with a sentence, where there is no program that makes one.
fn two_queues(name: &str) -> Option<Namespace> {
    let namespace = Namespace::create().unwrap();
    let queues = ["numrxqueues", "2", "numtxqueues", "2"];
    let words =
        [&["link", "add", "p0"][..], &queues, &["type", "veth", "peer", "name", "eth0"], &queues].concat();
    let made = namespace.run(|| std::process::Command::new("ip").args(&words).status()).unwrap();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {name}: needs `ip` of iproute2");
        return None;
    }
    let net = Netlink::open_in(&namespace).unwrap();
    for device in ["p0", "eth0"] {
        sysctl::write(&namespace, IpVersion::V6, device, "disable_ipv6", 1).unwrap();
        net.disable_offloads(device).unwrap();
        net.set_up(device).unwrap();
    }
    eventually("the link runs", || net.link("p0").unwrap().running && net.link("eth0").unwrap().running);
    Some(namespace)
}

/// Waits for a frame in poll(2), as a packet thread does.
fn waits(port: &AfXdp) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::fd::AsFd as _;
    let mut fds = [PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn frames_of_every_queue_arrive_and_end_a_wait() {
    let name = "frames_of_every_queue_arrive_and_end_a_wait";
    if !may_run(name) {
        return;
    }
    let Some(here) = two_queues(name) else { return };
    let macs = ["p0", "eth0"].map(|d| Netlink::open_in(&here).unwrap().link(d).unwrap().mac.unwrap());
    let net = Netlink::open_in(&here).unwrap();
    let link = Link { there: here.clone(), here, net, macs };
    let (pool, host) = (Pool::new(1024), HostTraffic::new(Sharing::Route).unwrap());
    let processors = rustix::thread::sched_getaffinity(None).unwrap();
    for (place, mode) in WAYS {
        let config = AfXdpConfig { place, busy_poll_us: 20, ..AfXdpConfig::new("p0", "p0") };
        let mut port = link.open(config, &pool, &host).unwrap();
        assert_eq!(port.mode(), mode);
        let mut station = link.tap(&link.here, "eth0");
        // The processor that sends chooses the queue.
        let may = (0..1024).filter(|cpu| processors.is_set(*cpu)).take(2);
        for (turn, cpu) in may.enumerate() {
            let mut one = rustix::thread::CpuSet::new();
            one.set(cpu);
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            let sent: Vec<_> = (0..50).map(|i| link.frame(0, i + 100 * turn as u32, 200)).collect();
            station.send(&sent);
            let mut came = Vec::new();
            eventually("all frames come", || {
                assert!(came.len() == sent.len() || waits(&port), "{mode}, processor {cpu}");
                drain(&mut port, &pool, &mut came);
                came.len() >= sent.len()
            });
            assert!(came == sent, "{mode}, processor {cpu}");
        }
        rustix::thread::sched_setaffinity(None, &processors).unwrap();
        port.transmit(&mut batch_of(&pool, &link.frame(1, 7, 100))).unwrap();
        eventually("an answer comes", || station.look().contains(&link.frame(1, 7, 100)));
    }
}

#[test]
fn what_cannot_be_opened_says_what_helps() {
    if !may_run("what_cannot_be_opened_says_what_helps") {
        return;
    }
    let link = Link::new(1500);
    let (pool, host) = (Pool::new(256), HostTraffic::new(Sharing::Route).unwrap());
    let error = link.open(AfXdpConfig::new("wan", "nowhere"), &pool, &host).unwrap_err();
    assert!(matches!(&error, XdpError::NoInterface { interface } if interface == "nowhere"), "{error}");
    assert!(error.to_string().contains("`ip link`"), "{error}");
    // A loopback's driver has no XDP; behind it there is.
    Netlink::open_in(&link.here).unwrap().set_up("lo").unwrap();
    let config = AfXdpConfig { place: Place::Driver, ..AfXdpConfig::new("lo", "lo") };
    let error = link.open(config.clone(), &pool, &host).unwrap_err();
    assert!(matches!(error, XdpError::NotInDriver { .. }), "{error}");
    let port = link.open(AfXdpConfig { place: Place::Anywhere, ..config }, &pool, &host).unwrap();
    assert_eq!(port.mode(), Mode::GenericCopy);
    assert!(matches!(port.why_not_in_driver(), Some(XdpError::NotInDriver { .. })));
}

/// A router with two hosts: 10.20.i.2 and fd20:i::2, the router .1 on port `pI`.
struct World {
    router: Namespace,
    hosts: Vec<Namespace>,
    net: Netlink,
    scratch: Scratch,
}

impl World {
    fn new(name: &str, bridge: bool) -> Self {
        let router = Namespace::create().unwrap();
        let net = Netlink::open_in(&router).unwrap();
        let hosts: Vec<_> = (0..2).map(|_| Namespace::create().unwrap()).collect();
        for (i, there) in hosts.iter().enumerate() {
            let (port, host) = (format!("p{i}"), Netlink::open_in(there).unwrap());
            net.create_veth(&port, "eth0", Some(there)).unwrap();
            laboratory::disable_duplicate_detection(&router, &port).unwrap();
            laboratory::disable_duplicate_detection(there, "eth0").unwrap();
            host.disable_offloads("eth0").unwrap();
            net.set_up(&port).unwrap();
            host.set_up("eth0").unwrap();
            let subnet = if bridge { 0 } else { i };
            let own = if bridge { i + 2 } else { 2 };
            host.add_address("eth0", format!("10.20.{subnet}.{own}/24").parse().unwrap()).unwrap();
            host.add_address_now("eth0", format!("fd20:{subnet}::{own}/64").parse().unwrap()).unwrap();
            eventually("the link runs", || {
                net.link(&port).unwrap().running && host.link("eth0").unwrap().running
            });
            if bridge {
                continue;
            }
            net.add_address(&port, format!("10.20.{i}.1/24").parse().unwrap()).unwrap();
            net.add_address_now(&port, format!("fd20:{i}::1/64").parse().unwrap()).unwrap();
            for (all, via) in [("0.0.0.0/0", format!("10.20.{i}.1")), ("::/0", format!("fd20:{i}::1"))] {
                host.add_route(all.parse().unwrap(), Some(via.parse().unwrap()), Some("eth0")).unwrap();
            }
        }
        Self { router, hosts, net, scratch: Scratch::new(&format!("xdp-{name}")) }
    }

    fn start(&self, settings: &str) -> (Engine, Handle) {
        let text = format!("[router]\n{settings}\n[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\n");
        let (file, diagnostics) = RouterFile::read("router.toml", &text);
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        let config = EngineConfig {
            pool_size: 8192,
            ..EngineConfig::of_file("xdp", Some(self.router.clone()), &file, self.scratch.path())
        };
        Engine::start(config).unwrap()
    }

    fn socket(&self, namespace: &Namespace, address: &str) -> UdpSocket {
        let socket = namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.scratch.path());
    }
}

/// Whether one of a few datagrams arrives soon.
fn reaches(from: &UdpSocket, to: &UdpSocket) -> bool {
    let mut buffer = [0; 64];
    (0..50).any(|_| {
        let _ = from.send_to(b"hello", to.local_addr().unwrap());
        to.recv_from(&mut buffer).is_ok()
    })
}

fn fact(handle: &Handle, port: &str, fact: &str) -> String {
    let page = handle.wait(|done| Call::Show(ShowQuery::new("ports", 10), done)).unwrap().unwrap();
    page.rows.iter().find(|r| r.name == port).unwrap().facts.get(fact).cloned().unwrap_or_default()
}

const PAIRS: [(&str, &str); 2] = [("10.20.0.2:0", "10.20.1.2:0"), ("[fd20:0::2]:0", "[fd20:1::2]:0")];

#[test]
fn a_router_on_af_xdp_ports_forwards_and_leaves_the_host_its_own() {
    if !may_run("a_router_on_af_xdp_ports_forwards_and_leaves_the_host_its_own") {
        return;
    }
    let w = World::new("route", false);
    for io in ["af_xdp", "auto"] {
        let (engine, handle) = w.start(&format!("io = \"{io}\""));
        assert!(!engine.warnings().iter().any(|w| w.contains("AF_XDP")), "{:?}", engine.warnings());
        assert_eq!(fact(&handle, "p0", "io"), "af_xdp (driver, copy)");
        for (a, b) in PAIRS {
            let (left, right) = (w.socket(&w.hosts[0], a), w.socket(&w.hosts[1], b));
            assert!(reaches(&left, &right) && reaches(&right, &left), "{a} and {b}");
            let mut buffer = [0; 64];
            while right.recv(&mut buffer).is_ok() {}
            for i in 0..100u32 {
                left.send_to(&i.to_be_bytes(), right.local_addr().unwrap()).unwrap();
            }
            let mut got = Vec::new();
            while let Ok(n) = right.recv(&mut buffer) {
                got.push(buffer[..n].to_vec());
            }
            assert_eq!(
                got,
                (0..100u32).map(|i| i.to_be_bytes().to_vec()).collect::<Vec<_>>(),
                "once, in order"
            );
        }
        // What is for the router's host: at this port's address, at the other's, at one that is new.
        w.net.add_address("p0", "10.20.0.77/24".parse().unwrap()).unwrap();
        w.net.add_address_now("p1", "fd20:1::77/64".parse().unwrap()).unwrap();
        for (i, own) in [(0, "10.20.0.1:0"), (0, "10.20.1.1:0"), (0, "10.20.0.77:0")] {
            let (from, to) = (w.socket(&w.hosts[i], PAIRS[0].0), w.socket(&w.router, own));
            eventually(own, || reaches(&from, &to));
        }
        for own in ["[fd20:0::1]:0", "[fd20:1::1]:0", "[fd20:1::77]:0"] {
            let (from, to) = (w.socket(&w.hosts[1], PAIRS[1].1), w.socket(&w.router, own));
            eventually(own, || reaches(&from, &to));
        }
        // An interface that goes and comes back gets its port again.
        w.net.set_down("p1").unwrap();
        eventually("the port is down", || fact(&handle, "p1", "state") == "down");
        w.net.set_up("p1").unwrap();
        eventually("the port is up", || fact(&handle, "p1", "state") == "up");
        assert_eq!(fact(&handle, "p1", "io"), "af_xdp (driver, copy)");
        let (left, right) = (w.socket(&w.hosts[0], PAIRS[0].0), w.socket(&w.hosts[1], PAIRS[0].1));
        eventually("packets pass again", || reaches(&left, &right));
        // An interface that goes down loses its IPv6 addresses.
        w.net.delete_address("p0", "10.20.0.77/24".parse().unwrap()).unwrap();
        w.net.add_address_now("p1", "fd20:1::1/64".parse().unwrap()).unwrap();
        let report = engine.stop();
        assert!(report.restore_error.is_none(), "{:?}", report.restore_error);
        assert_eq!(report.report.find("pool", "pool").unwrap().counter("leaked"), 0);
    }
}

#[test]
fn a_bridge_on_af_xdp_ports_carries_everything() {
    if !may_run("a_bridge_on_af_xdp_ports_carries_everything") {
        return;
    }
    let w = World::new("bridge", true);
    let (engine, handle) = w.start("mode = \"bridge\"\nio = \"af_xdp\"");
    assert_eq!(fact(&handle, "p1", "io"), "af_xdp (driver, copy)", "{:?}", engine.warnings());
    for (a, b) in [("10.20.0.2:0", "10.20.0.3:0"), ("[fd20:0::2]:0", "[fd20:0::3]:0")] {
        let (left, right) = (w.socket(&w.hosts[0], a), w.socket(&w.hosts[1], b));
        assert!(reaches(&left, &right) && reaches(&right, &left), "{a} and {b}, ARP and neighbour discovery");
    }
    assert!(engine.stop().restore_error.is_none());
}

#[test]
fn a_port_that_cannot_have_af_xdp_uses_a_packet_socket_and_says_why() {
    if !may_run("a_port_that_cannot_have_af_xdp_uses_a_packet_socket_and_says_why") {
        return;
    }
    let w = World::new("fallback", false);
    let (pool, host) = (Pool::new(256), HostTraffic::new(Sharing::Route).unwrap());
    let config = AfXdpConfig::new("other", "p1");
    let _other = w.router.run(|| AfXdp::open(config, &pool, &host)).unwrap().unwrap();
    for io in ["af_xdp", "auto"] {
        let (engine, handle) = w.start(&format!("io = \"{io}\""));
        let told: Vec<_> = engine.warnings().iter().filter(|w| w.contains("AF_XDP")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("port \"p1\" uses a packet socket instead of AF_XDP: "), "{told:?}");
        assert!(told[0].contains("ip link set dev p1 xdp off"), "{told:?}");
        assert_eq!(fact(&handle, "p0", "io"), "af_xdp (driver, copy)");
        assert_eq!(fact(&handle, "p1", "io"), "af_packet");
        assert!(engine.stop().restore_error.is_none());
    }
    let (engine, handle) = w.start("");
    assert_eq!(fact(&handle, "p0", "io"), "af_packet", "without being asked");
    engine.stop();
}
