//! The sender's and the router's threads.

use super::bare;
use super::layout::{Layout, SENDER};
use super::path::Path;
use super::ports::{Ports, RouterReport, counter, open};
use crate::error::BenchError;
use crate::machine;
use crate::router::{Detection, LAN, Router, Setup, WAN, port_mac};
use crate::traffic::{Payload, Source};
use perhop_element::Port;
use perhop_graph::router::EdgeOptions;
use perhop_io::clock::monotonic;
use perhop_packet::{Batch, Pool};
use perhop_units::{Duration, Instant};
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

fn pin(cpu: usize) -> Result<(), BenchError> {
    machine::pin(cpu).map_err(|source| BenchError::Processor { cpu, source })
}

/// What a sender sends.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Length of a frame in bytes, without FCS.
    packet: usize,
    /// Frames a second and how many in all; none: as fast as the socket takes them, until stopped.
    paced: Option<(u64, u64)>,
}

impl Load {
    /// As fast as the socket takes frames.
    pub fn most(packet: usize) -> Self {
        Self { packet, paced: None }
    }

    /// So many frames at a steady rate.
    pub fn paced(packet: usize, rate: u64, frames: u64) -> Self {
        Self { packet, paced: Some((rate, frames)) }
    }
}

/// Sends.
#[derive(Debug)]
pub struct Sender {
    runner: Runner<u64>,
    sent: Arc<AtomicU64>,
}

impl Sender {
    /// Starts on the sender's processor.
    ///
    /// # Errors
    /// No thread can be made in the namespace.
    pub fn start(path: &Path, layout: &Layout, load: Load) -> Result<Self, BenchError> {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count, path) = (stop.clone(), sent.clone(), path.clone());
        let work = move || send(&path, load, &stopped, &count);
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
        self.runner.finish().map(|_| ())
    }

    /// Waits until all frames of a paced load are sent. Gives how long that took, ns.
    ///
    /// # Errors
    /// What stopped it earlier.
    pub fn finish(self) -> Result<u64, BenchError> {
        while !self.runner.thread.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.runner.finish()
    }
}

fn send(path: &Path, load: Load, stop: &AtomicBool, sent: &AtomicU64) -> Result<u64, BenchError> {
    pin(path.sender_cpu)?;
    let mut port = open("sender", SENDER)?;
    let macs = (MacAddr([2, 0, 0, 0, 3, 1]), port_mac(LAN));
    let source = Source::new(path.flows, load.packet, 1 << 20, 0, Payload::Random, path.seed, macs);
    let pool = Pool::new(4 * Batch::MAX);
    let mut batch = Batch::new();
    let (mut at, mut total) = (0, 0);
    let start = monotonic();
    let mut pace = load.paced.map(|(rate, frames)| Pace { start, rate, frames });
    while !stop.load(Ordering::Relaxed) {
        let due = match &mut pace {
            Some(pace) if total == pace.frames && batch.is_empty() => break,
            Some(pace) => pace.due(monotonic(), total).min(SEND_BATCH),
            None => SEND_BATCH - batch.len(),
        };
        for _ in 0..due {
            let Some(packet) = pool.packet(source.frame(at)) else { break };
            batch.push(packet);
            total += 1;
            at = (at + 1) % source.count();
        }
        if batch.is_empty() && !port.has_pending_output() {
            std::hint::spin_loop();
            continue;
        }
        let n = port.transmit(&mut batch)?;
        sent.fetch_add(n as u64, Ordering::Relaxed);
    }
    let took = monotonic().since(start).0;
    while port.has_pending_output() && !stop.load(Ordering::Relaxed) {
        port.transmit(&mut batch)?;
    }
    batch.release_all();
    Ok(took)
}

/// A steady rate.
#[derive(Clone, Copy, Debug)]
struct Pace {
    start: Instant,
    /// Frames a second.
    rate: u64,
    /// In all.
    frames: u64,
}

/// A sender that was kept from its processor for longer does not catch up: that would be a burst at another rate.
const CATCH_UP: Duration = Duration(1_000_000);

impl Pace {
    /// Frames that are due now, after so many.
    fn due(&mut self, now: Instant, sent: u64) -> usize {
        let at = |frames: u64| (u128::from(frames) * 1_000_000_000 / u128::from(self.rate.max(1))) as u64;
        let late = now.since(self.start + Duration(at(sent)));
        if late > CATCH_UP {
            self.start += Duration(late.0 - CATCH_UP.0);
        }
        let passed = u128::from(now.since(self.start).0);
        let due = (passed * u128::from(self.rate) / 1_000_000_000) as u64 + 1;
        due.min(self.frames).saturating_sub(sent) as usize
    }
}

/// Frames a system call of the sender.
const SEND_BATCH: usize = 64;

/// What a thread in the router's namespace does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The router under test.
    Router,
    /// Descriptors from ring to ring.
    Bare,
}

/// A thread that forwards.
#[derive(Debug)]
pub struct Forwarding {
    runner: Runner<RouterReport>,
}

impl Forwarding {
    /// Starts on the router's processor.
    ///
    /// # Errors
    /// No thread can be made in the namespace.
    pub fn start(path: &Path, layout: &Layout, way: Way) -> Result<Self, BenchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(AtomicBool::new(false));
        let (stopped, is_ready, path) = (stop.clone(), ready.clone(), path.clone());
        let ports = layout.ports()?;
        let work = move || {
            pin(path.router_cpu)?;
            match way {
                Way::Router => route(&path, ports, &stopped, &is_ready),
                Way::Bare => bare::forward(&path, &stopped, &is_ready),
            }
        };
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
    path: &Path,
    ports: [u32; 2],
    stop: &AtomicBool,
    ready: &AtomicBool,
) -> Result<RouterReport, BenchError> {
    let pool = Pool::new(16_384);
    let connections = EdgeOptions::DEFAULT_CONNECTIONS;
    let setup = Setup {
        rate: 100_000_000_000,
        filters: path.filters,
        connections,
        detection: Detection::On,
        abr: None,
    };
    let mut router = Router::new(&setup, pool.clone(), path.seed)?;
    let Ports { mut inside, mut outside, early_drops, mode } = Ports::open(path, ports, &pool)?;
    let (mut batch, mut events) = (Batch::new(), Vec::with_capacity(8192));
    let mut report = RouterReport { early_drop: early_drops.len() == 2, mode, ..RouterReport::default() };
    let mut warm = None;
    let watch = machine::Watch::start();
    ready.store(true, Ordering::Release);
    while !stop.load(Ordering::Relaxed) {
        let worker = &mut router.worker;
        let now = monotonic().max(worker.driver().now());
        worker.set_port_room(now, WAN, outside.room());
        let n = inside.receive(now, &pool, &mut batch)?;
        report.received += n as u64;
        report.batches += u64::from(n > 0);
        worker.receive(now, LAN, &mut batch);
        if worker.next_wakeup().is_some_and(|at| at <= now) {
            worker.poll(now);
        }
        worker.take_events(now, &mut events);
        events.clear();
        worker.local_queue().release_all();
        let pending = outside.has_pending_output();
        if let Some(queue) = worker.transmit_queue(WAN).filter(|q| pending || !q.is_empty()) {
            outside.transmit(queue)?;
        }
        if warm.is_none() && report.received > WARM {
            warm = Some(crate::allocations());
        }
    }
    report.waited = watch.waited();
    let before = warm.unwrap_or_else(crate::allocations);
    report.allocations = crate::allocations().since(before).count;
    report.ring_lost = counter(&mut inside, "rx_ring_lost") + counter(&mut inside, "rx_no_buffer");
    report.tx_failed = counter(&mut outside, "tx_failed");
    let driver = router.worker.driver();
    report.dropped = driver.ids().filter_map(|id| driver.counters(id)).map(|c| c.dropped).sum();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_sender_is_never_ahead_of_its_rate_and_never_far_behind() {
        let (start, rate) = (Instant(5_000), 100_000);
        let mut pace = Pace { start, rate, frames: 1_000 };
        let mut sent = 0;
        for us in 0..20_000u64 {
            sent += pace.due(start + Duration(us * 1_000), sent) as u64;
            // One every 10 µs, the first at once.
            assert_eq!(sent, (us / 10 + 1).min(1_000), "after {us} µs");
        }
        // After 50 ms without its processor: what 1 ms is late, not 5,000 frames.
        let mut pace = Pace { start, rate, frames: 10_000 };
        assert_eq!(pace.due(start + Duration(50_000_000), 0), 101);
        assert_eq!(pace.due(start + Duration(50_010_000), 101), 1, "and then at its rate");
    }
}
