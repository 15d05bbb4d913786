//! `bench abr-host`: packets a second that the rate control of a host takes through the kernel's queue, beside a program that
//! accepts everything.
//!
//! A sender on one processor makes segments of many TCP connections with a raw socket, as fast as the kernel takes them, in
//! a namespace whose rule sends them to the queue. On another processor the queue is answered: by the rate control, whose
//! policy limits every flow, or by a loop that only accepts, which is as fast as such a queue can be. Both take turns. What is
//! too much for either passes by itself.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Peer, Point, Sink, Spread};
use perhop_engine::{HostAbr, HostAbrConfig, HostLoop};
use perhop_io::nfqueue::{Inbox, Message, Nfqueue, NfqueueConfig, Verdicts, read};
use perhop_netlink::firewall::{Rules, Selection, Tool};
use perhop_netlink::{Namespace, Netlink};
use perhop_routerfile::host::HostFile;
use perhop_wire::build;
use perhop_wire::tcp::flags::{ACK, SYN};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

/// Options of `bench abr-host`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Concurrent connections
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Octets of data of a segment; each is followed by its acknowledgment
    #[arg(long, default_value_t = 1_448, value_parser = clap::value_parser!(u32).range(1..=1_460))]
    payload: u32,
    /// Measured runs of each
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// Milliseconds of one run
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=60_000))]
    run_ms: u32,
    /// Processor of the sender
    #[arg(long, default_value_t = 0)]
    sender_cpu: usize,
    /// Processor that answers; the last without it
    #[arg(long)]
    cpu: Option<usize>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

const QUEUE: u16 = 1;
/// The endpoints of every connection; the way to both is the interface's peer, who throws everything away.
const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 50, 1, 1), Ipv4Addr::new(10, 50, 2, 1)];
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 50, 0, 2);
const FILE: &str = "[[abr]]\nrate = \"10 Mbit/s\"\nassume_shift = 0\nlocal = true\n";

/// What one run gave.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Packets answered, and of them with a lowered window.
    packets: u64,
    rewritten: u64,
    /// Seconds, and processor time of the answering thread, ns.
    took: f64,
    busy_ns: u64,
}

/// Measures.
///
/// # Errors
/// No rights over namespaces, no queue, or processors that are not there.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = options.cpu.unwrap_or(machine::processors() - 1);
    let here = Namespace::create()?;
    let peer = Namespace::create()?;
    lay_out(&here, &peer)?;
    let environment = |what: &str| {
        let what = what.to_owned();
        move |why: String| BenchError::Environment { what, why }
    };
    let watch = Watch::start();
    let (mut ours, mut ceiling) = (Vec::new(), Vec::new());
    for turn in 1..=options.runs {
        sink.progress(&format!("run {turn} of {}", options.runs));
        for (controls, runs) in [(true, &mut ours), (false, &mut ceiling)] {
            let run = here.run(|| one(options, cpu, controls));
            runs.push(run?.map_err(environment("answering a packet queue"))?);
        }
    }
    let point = point(options, cpu, &ours, &ceiling, watch.warnings());
    if ours.iter().any(|run| run.rewritten == 0) {
        return Err(BenchError::Wrong("no window was lowered".to_owned()));
    }
    sink.point(&point)?;
    Ok(())
}

/// An interface with a way to the endpoints.
fn lay_out(here: &Namespace, peer: &Namespace) -> Result<(), BenchError> {
    let (net, far) = (Netlink::open_in(here)?, Netlink::open_in(peer)?);
    net.create_veth("eth0", "eth0", Some(peer))?;
    far.set_up("eth0")?;
    net.set_up("eth0")?;
    let prefix = |text: &str| text.parse().expect("a constant prefix");
    net.add_address_now("eth0", prefix("10.50.0.1/24"))?;
    net.add_route(prefix("0.0.0.0/0"), Some(GATEWAY.into()), Some("eth0"))?;
    // Not the address of the peer's interface: its kernel throws frames away at once.
    net.add_neighbour(net.link("eth0")?.index, GATEWAY.into(), [2, 0, 0, 0, 0, 9])?;
    Ok(())
}

/// Rules, a sender and the thread that answers, for as long as one run.
fn one(options: &Options, cpu: usize, controls: bool) -> Result<Run, String> {
    let queue = Nfqueue::open(&NfqueueConfig::new(QUEUE)).map_err(|e| e.to_string())?;
    let stop = Arc::new(AtomicBool::new(false));
    let (connections, until) = (options.connections, Arc::clone(&stop));
    let answering = std::thread::spawn(move || {
        machine::pin(cpu).map_err(|e| format!("processor {cpu}: {e}"))?;
        let (start, before) = (Clock::now(), machine::thread_time_ns());
        let mut run = if controls { control(queue, connections, &until)? } else { accept(&queue, &until)? };
        run.took = start.elapsed().as_secs_f64();
        run.busy_ns = machine::thread_time_ns() - before;
        Ok::<Run, String>(run)
    });
    let selection = Selection { queue: QUEUE, ..Selection::default() };
    let rules = Tool::find(false).and_then(|tool| Rules::place(vec![tool], &selection));
    let (sender, sending) = (options.clone(), Arc::clone(&stop));
    let sender = std::thread::spawn(move || {
        machine::pin(sender.sender_cpu).map_err(|e| format!("processor {}: {e}", sender.sender_cpu))?;
        send(&sender, &sending).map_err(|e| format!("sending by a raw socket: {e}"))
    });
    std::thread::sleep(Duration::from_millis(options.run_ms.into()));
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().map_err(|_| "the sender died".to_owned())?;
    let run = answering.join().map_err(|_| "the answering thread died".to_owned())?;
    drop(rules.map_err(|e| e.to_string())?);
    sent?;
    run
}

fn control(queue: Nfqueue, connections: u32, stop: &AtomicBool) -> Result<Run, String> {
    let (file, diagnostics) = HostFile::read("bench.toml", FILE);
    let file = file.ok_or_else(|| diagnostics.to_string())?;
    let machine = HostAbr::new(HostAbrConfig {
        connections: connections as usize,
        held: 1_024,
        policies: file.policies,
        link: None,
        seed: 1,
    });
    let mut host = HostLoop::new(queue, machine);
    host.run(stop, &mut |_, _| {}).map_err(|e| e.to_string())?;
    let machine = host.machine();
    let (packets, rewritten) = (machine.counters().packets, machine.abr_counters().rewritten);
    Ok(Run { packets, rewritten, ..Run::default() })
}

/// The least that a program can do.
fn accept(queue: &Nfqueue, stop: &AtomicBool) -> Result<Run, String> {
    let (mut inbox, mut verdicts, mut run) = (Inbox::new(), Verdicts::new(QUEUE), Run::default());
    while !stop.load(Ordering::Relaxed) {
        let received = queue.receive(&mut inbox).map_err(|e| e.to_string())?;
        for index in 0..received {
            if let Ok(Some((Message::Packet(packet), _))) = read(inbox.datagram_mut(index), 0) {
                verdicts.accept(packet.id);
                run.packets += 1;
            }
        }
        queue.send(&mut verdicts).map_err(|e| e.to_string())?;
        if received == 0 {
            std::thread::yield_now();
        }
    }
    Ok(run)
}

/// Both directions of every connection from here: a segment with data, then its acknowledgment.
fn send(options: &Options, stop: &AtomicBool) -> Result<(), rustix::io::Errno> {
    let raw = NonZeroU32::new(255).map(Protocol::from_raw);
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, raw)?;
    let segment = |from: usize, connection: u32, flags: u8, len: u32| {
        let ports = [1_024 + connection as u16, 80];
        build::tcp4(ENDS[from], ENDS[1 - from])
            .ports(ports[from], ports[1 - from])
            .flags(flags)
            .seq_ack(u32::from(flags & SYN == 0), u32::from(flags & ACK != 0))
            .window(60_000)
            .payload_len(len as usize)
            .build_ip()
    };
    for connection in 0..options.connections {
        for (from, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
            out(&socket, from, &segment(from, connection, flags, 0))?;
        }
    }
    let mut pairs: Vec<[Vec<u8>; 2]> = (0..options.connections)
        .map(|connection| [segment(0, connection, ACK, options.payload), segment(1, connection, ACK, 0)])
        .collect();
    let mut end = 1u32;
    while !stop.load(Ordering::Relaxed) {
        let begin = end;
        end = end.wrapping_add(options.payload);
        for [data, acknowledgment] in &mut pairs {
            // Behind 20 bytes of IP header: the number of the data, and of what is acknowledged.
            data[24..28].copy_from_slice(&begin.to_be_bytes());
            acknowledgment[28..32].copy_from_slice(&end.to_be_bytes());
            out(&socket, 0, data)?;
            out(&socket, 1, acknowledgment)?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}

fn out(socket: &OwnedFd, from: usize, packet: &[u8]) -> Result<(), rustix::io::Errno> {
    let to = SocketAddrV4::new(ENDS[1 - from], 0);
    match rustix::net::sendto(socket, packet, SendFlags::empty(), &to) {
        // The socket's buffer is what waits in the queue.
        Ok(_) | Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::AGAIN | rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error),
    }
}

fn point(options: &Options, cpu: usize, ours: &[Run], ceiling: &[Run], warnings: Vec<String>) -> Point {
    let mut point = Point { bench: "abr-host", warnings, ..Point::default() };
    let ns =
        |runs: &[Run]| -> Vec<f64> { runs.iter().map(|r| r.took * 1e9 / r.packets.max(1) as f64).collect() };
    let millions =
        |runs: &[Run]| Spread::of(&runs.iter().map(|r| r.packets as f64 / r.took / 1e6).collect::<Vec<_>>());
    let busy = |runs: &[Run]| {
        Spread::of(&runs.iter().map(|r| r.busy_ns as f64 / r.packets.max(1) as f64).collect::<Vec<_>>())
    };
    point.set_ns(&ns(ours));
    let lowered: Vec<f64> =
        ours.iter().map(|r| r.rewritten as f64 * 100.0 / r.packets.max(1) as f64).collect();
    point.metrics.insert("answered", Metric::new(millions(ours), "Mpps"));
    point.metrics.insert("processor_ns", Metric::new(busy(ours), "ns"));
    point.metrics.insert("windows_lowered", Metric::new(Spread::of(&lowered), "%"));
    let metrics = [
        ("answered", Metric::new(millions(ceiling), "Mpps")),
        ("processor_ns", Metric::new(busy(ceiling), "ns")),
    ];
    let version = machine::kernel_release();
    point.peers.push(Peer { name: "accepting everything".to_owned(), version, metrics: metrics.into() });
    let params = [
        ("connections", options.connections.into()),
        ("payload", options.payload.into()),
        ("sender_cpu", options.sender_cpu.into()),
        ("cpu", cpu.into()),
        ("run_ms", options.run_ms.into()),
    ];
    point.params.extend(params);
    point.warn_of_spread();
    point
}
