//! The sender's and the router's threads.

use super::Options;
use super::layout::{INSIDE, LOCAL, Layout, OUTSIDE, SENDER};
use crate::bench::router::{Detection, LAN, Router, Setup, WAN, port_mac};
use crate::bench::traffic::{Payload, Source};
use crate::bench::{BenchError, machine};
use perhop_element::Port;
use perhop_graph::router::EdgeOptions;
use perhop_io::clock::monotonic;
use perhop_io::{AfPacket, AfPacketConfig, EarlyDrop, Outgoing};
use perhop_packet::{Batch, Pool};
use perhop_wire::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A thread that ends when told.
#[derive(Debug)]
struct Runner<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<T, BenchError>>,
}

impl<T> Runner<T> {
    fn finish(self) -> Result<T, BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| BenchError::Wrong("a thread of the measurement panicked".to_owned()))?
    }
}

fn port_error(e: perhop_element::PortError) -> BenchError {
    BenchError::Environment { what: "a packet socket".to_owned(), why: e.to_string() }
}

fn open(name: &str, interface: &str) -> Result<AfPacket, BenchError> {
    let config = AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new(name, interface) };
    AfPacket::open(config).map_err(port_error)
}

fn pin(cpu: usize) -> Result<(), BenchError> {
    machine::pin(cpu).map_err(|e| BenchError::Environment {
        what: format!("running on processor {cpu}"),
        why: e.to_string(),
    })
}

/// Sends as fast as its socket takes frames.
#[derive(Debug)]
pub struct Sender {
    runner: Runner<()>,
    sent: Arc<AtomicU64>,
}

impl Sender {
    /// Starts on the sender's processor.
    ///
    /// # Errors
    /// No thread can be made in the namespace.
    pub fn start(options: &Options, layout: &Layout) -> Result<Self, BenchError> {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count, options) = (stop.clone(), sent.clone(), options.clone());
        let work = move || blast(&options, &stopped, &count);
        let thread = layout.sender.spawn("bench-sender", work)?;
        Ok(Self { runner: Runner { stop, thread }, sent })
    }

    /// Frames that the socket has taken.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Stops it.
    ///
    /// # Errors
    /// What stopped it earlier.
    pub fn stop(self) -> Result<(), BenchError> {
        self.runner.finish()
    }
}

fn blast(options: &Options, stop: &AtomicBool, sent: &AtomicU64) -> Result<(), BenchError> {
    pin(options.sender_cpu)?;
    let mut port = open("sender", SENDER)?;
    let macs = (MacAddr([2, 0, 0, 0, 3, 1]), port_mac(LAN));
    let source = Source::new(options.flows, options.packet, 1 << 20, 0, Payload::Random, options.seed, macs);
    let pool = Pool::new(4 * Batch::MAX);
    let mut batch = Batch::new();
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        while batch.len() < SEND_BATCH {
            let Some(packet) = pool.packet(source.frame(at)) else { break };
            batch.push(packet);
            at = (at + 1) % source.count();
        }
        let n = port.transmit(&mut batch).map_err(port_error)?;
        sent.fetch_add(n as u64, Ordering::Relaxed);
    }
    batch.release_all();
    Ok(())
}

/// Frames a system call of the sender.
const SEND_BATCH: usize = 64;

/// What the router's thread saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouterReport {
    /// Packets received.
    pub received: u64,
    /// Turns that received something.
    pub batches: u64,
    /// Lost because the receive ring was full.
    pub ring_lost: u64,
    /// Lost at transmission.
    pub tx_failed: u64,
    /// Dropped by elements.
    pub dropped: u64,
    /// Memory allocations after the first packets.
    pub allocations: u64,
    /// Share of its time that it was ready and did not run.
    pub waited: f64,
    /// Whether the kernel's IP was spared the frames, as a running router does where it may.
    pub early_drop: bool,
}

/// The router under test.
#[derive(Debug)]
pub struct Forwarding {
    runner: Runner<RouterReport>,
}

impl Forwarding {
    /// Starts on the router's processor.
    ///
    /// # Errors
    /// No thread can be made in the namespace.
    pub fn start(options: &Options, layout: &Layout) -> Result<Self, BenchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(AtomicBool::new(false));
        let (stopped, is_ready, options) = (stop.clone(), ready.clone(), options.clone());
        let ports = layout.ports()?;
        let work = move || route(&options, ports, &stopped, &is_ready);
        let thread = layout.router.spawn("bench-router", work)?;
        while !ready.load(Ordering::Acquire) && !thread.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(Self { runner: Runner { stop, thread } })
    }

    /// Stops it.
    ///
    /// # Errors
    /// What stopped it earlier.
    pub fn stop(self) -> Result<RouterReport, BenchError> {
        self.runner.finish()
    }
}

/// Packets after which the router is taken to be warm.
const WARM: u64 = 10_000;

/// A worker's loop: receive, forward, timers, send. It polls: under this load it would never wait.
fn route(
    options: &Options,
    ports: [u32; 2],
    stop: &AtomicBool,
    ready: &AtomicBool,
) -> Result<RouterReport, BenchError> {
    pin(options.router_cpu)?;
    let pool = Pool::new(16_384);
    let connections = EdgeOptions::DEFAULT_CONNECTIONS;
    let setup = Setup {
        rate: 100_000_000_000,
        filters: options.filters,
        connections,
        detection: Detection::On,
        abr: None,
    };
    let mut router = Router::new(&setup, pool.clone(), options.seed)?;
    let (mut inside, mut outside) = (open("lan", INSIDE)?, open("wan", OUTSIDE)?);
    // As the engine does; the right to may be missing.
    let early_drops = ports.map(|index| EarlyDrop::attach(index, &LOCAL).ok());
    let (mut batch, mut events) = (Batch::new(), Vec::with_capacity(8192));
    let early_drop = early_drops.iter().all(Option::is_some);
    let mut report = RouterReport { early_drop, ..RouterReport::default() };
    let mut warm = None;
    let watch = machine::Watch::start();
    ready.store(true, Ordering::Release);
    while !stop.load(Ordering::Relaxed) {
        let worker = &mut router.worker;
        let now = monotonic().max(worker.driver().now());
        worker.set_port_room(now, WAN, outside.room());
        let n = inside.receive(now, &pool, &mut batch).map_err(port_error)?;
        report.received += n as u64;
        report.batches += u64::from(n > 0);
        worker.receive(now, LAN, &mut batch);
        if worker.next_wakeup().is_some_and(|at| at <= now) {
            worker.poll(now);
        }
        worker.take_events(now, &mut events);
        events.clear();
        worker.local_queue().release_all();
        if let Some(queue) = worker.transmit_queue(WAN).filter(|q| !q.is_empty()) {
            outside.transmit(queue).map_err(port_error)?;
        }
        if warm.is_none() && report.received > WARM {
            warm = Some(perhop_bench::allocations());
        }
    }
    report.waited = watch.waited();
    let before = warm.unwrap_or_else(perhop_bench::allocations);
    report.allocations = perhop_bench::allocations().since(before).count;
    let counter = |port: &mut AfPacket, name: &str| -> u64 {
        let mut counters: Vec<(String, u64)> = Vec::new();
        port.counters(&mut counters);
        counters.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v)
    };
    report.ring_lost = counter(&mut inside, "rx_ring_lost");
    report.tx_failed = counter(&mut outside, "tx_failed");
    let driver = router.worker.driver();
    report.dropped = driver.ids().filter_map(|id| driver.counters(id)).map(|c| c.dropped).sum();
    Ok(report)
}
