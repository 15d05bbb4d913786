//! What arrives at an interface, seen beside the sockets: frames and bits by kind of traffic, the kernel's stamps.

use crate::error::LabError;
use crate::pace::sleep_until;
use crate::udp::{CALLEE_PORT, CALLER_PORT, FLOOD_PORT};
use perhop_element::Port;
use perhop_io::clock::monotonic;
use perhop_io::{AfPacket, AfPacketConfig, Outgoing};
use perhop_netlink::Namespace;
use perhop_packet::{Batch, Pool};
use perhop_traffic::Stamp;
use perhop_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bins of the throughput series.
const BIN: Duration = Duration::from_millis(100);
/// How long the tap waits before it looks whether the run has ended.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The ring is read at most this often: the kernel stamps frames, so reading late costs no precision.
const BREATHE: Duration = Duration::from_millis(2);

/// Bits at IP length, and bytes of whole frames, in bins since the epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct TapCounts {
    /// Calls, bulk, flood: (instant since the epoch, bits) of each bin.
    pub(crate) bits: [Vec<u64>; 3],
    /// Frame bytes of each bin, everything counted.
    pub(crate) frame_bytes: Vec<u64>,
    /// Kernel stamps of calls by (stream, index): see [`crate::udp`] for the streams.
    pub(crate) stamps: Vec<(u16, u32, Instant)>,
    /// Frames that the tap's own ring lost.
    pub(crate) lost: u64,
}

/// Names of the kinds, in the order of [`TapCounts::bits`].
pub(crate) const KINDS: [&str; 3] = ["calls", "bulk", "flood"];

impl TapCounts {
    /// Length of a bin.
    pub(crate) const BIN: Duration = BIN;

    fn count(&mut self, since_epoch: Duration, kind: Option<usize>, ip_len: u64, frame_len: u64) {
        let bin = (since_epoch.as_nanos() / BIN.as_nanos()) as usize;
        add(&mut self.frame_bytes, bin, frame_len);
        if let Some(kind) = kind {
            add(&mut self.bits[kind], bin, ip_len * 8);
        }
    }

    /// Frame bytes in whole bins of [`from`, `until`), and how long these bins are together.
    pub(crate) fn frame_bytes_between(&self, from: Duration, until: Duration) -> (u64, Duration) {
        let first = from.as_nanos().div_ceil(BIN.as_nanos()) as usize;
        let last = (until.as_nanos() / BIN.as_nanos()) as usize;
        let bins = last.saturating_sub(first);
        let bytes = self.frame_bytes.iter().skip(first).take(bins).sum();
        (bytes, BIN.saturating_mul(bins as u64))
    }
}

fn add(bins: &mut Vec<u64>, bin: usize, value: u64) {
    // An hour has 36,000 bins; later frames do not belong to a run.
    if bin >= 100_000 {
        return;
    }
    if bin >= bins.len() {
        bins.resize(bin + 1, 0);
    }
    bins[bin] += value;
}

/// A running tap.
#[derive(Debug)]
pub(crate) struct Tap {
    thread: JoinHandle<TapCounts>,
}

impl Tap {
    /// Opens a packet socket on `device` and counts what arrives, until `done`.
    pub(crate) fn start(
        namespace: &Namespace,
        device: &str,
        epoch: Instant,
        done: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let watcher = open(namespace, device, Outgoing::Ignored)?;
        let done = Arc::clone(done);
        let thread = std::thread::Builder::new()
            .name("tap".into())
            .spawn(move || watch(watcher, epoch, &done))
            .map_err(crate::error::io("start the tap"))?;
        Ok(Self { thread })
    }

    /// What arrived. Set `done` before.
    pub(crate) fn finish(self) -> TapCounts {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A packet socket that shows what arrives at an interface.
pub(crate) struct Watcher {
    port: AfPacket,
    pool: Pool,
    batch: Batch,
}

/// Opens a packet socket on `device` in a namespace; `outgoing`: what becomes of what the machine sends there.
pub(crate) fn open(namespace: &Namespace, device: &str, outgoing: Outgoing) -> Result<Watcher, LabError> {
    let config = AfPacketConfig { outgoing, ..AfPacketConfig::new("tap", device) };
    let port = namespace
        .run(|| AfPacket::open(config))
        .map_err(crate::error::network("open the tap"))?
        .map_err(|e| LabError::Engine { doing: "open the tap", reason: e.to_string() })?;
    Ok(Watcher { port, pool: Pool::new(4 * Batch::MAX), batch: Batch::new() })
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl Watcher {
    /// Shows every frame that has arrived, with the kernel's stamp.
    pub(crate) fn read(&mut self, mut show: impl FnMut(Instant, &[u8])) {
        loop {
            let received = self.port.receive(monotonic(), &self.pool, &mut self.batch).unwrap_or(0);
            for packet in self.batch.iter() {
                show(packet.meta().received_at, packet.frame());
            }
            self.batch.release_all();
            if received < Batch::MAX {
                return;
            }
        }
    }

    /// Frames that its ring lost.
    pub(crate) fn lost(&mut self) -> u64 {
        let mut counters: Vec<(String, u64)> = Vec::new();
        self.port.counters(&mut counters);
        counters.iter().filter(|(n, _)| n == "rx_ring_lost" || n == "rx_no_buffer").map(|(_, v)| v).sum()
    }
}

fn watch(mut watcher: Watcher, epoch: Instant, done: &AtomicBool) -> TapCounts {
    let mut counts = TapCounts::default();
    while !done.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(&watcher, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&IDLE));
        watcher.read(|at, frame| observe(&mut counts, epoch, at, frame));
        sleep_until(monotonic() + BREATHE);
    }
    counts.lost = watcher.lost();
    counts
}

fn observe(counts: &mut TapCounts, epoch: Instant, at: Instant, frame: &[u8]) {
    let Some(seen) = Seen::read(frame) else { return };
    counts.count(at.since(epoch), seen.kind, u64::from(seen.ip_len), frame.len() as u64);
    if seen.kind == Some(CALLS)
        && let Some(stamp) = Stamp::at_end_of(frame.get(..14 + usize::from(seen.ip_len)).unwrap_or(&[]))
    {
        counts.stamps.push((stamp.stream, stamp.index, at));
    }
}

const CALLS: usize = 0;
const BULK: usize = 1;
const FLOOD: usize = 2;

/// What kind of traffic a frame is, by the ports that the demonstration itself chose.
struct Seen {
    kind: Option<usize>,
    ip_len: u16,
}

impl Seen {
    /// Reads an Ethernet frame with IPv4 without options, which is all that is sent here.
    fn read(frame: &[u8]) -> Option<Self> {
        if frame.get(12..14)? != [0x08, 0x00] || *frame.get(14)? != 0x45 {
            return None;
        }
        let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let (ip_len, protocol, port) = (word(16)?, *frame.get(23)?, word(36)?);
        let kind = match (protocol, port) {
            (6, _) => Some(BULK),
            (17, FLOOD_PORT) => Some(FLOOD),
            (17, p) if (CALLER_PORT..CALLEE_PORT + 10_000).contains(&p) => Some(CALLS),
            _ => None,
        };
        Some(Self { kind, ip_len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(protocol: u8, port: u16, payload: &[u8]) -> Vec<u8> {
        let mut f = vec![0u8; 42];
        f[12] = 8;
        f[14] = 0x45;
        f[16..18].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
        f[23] = protocol;
        f[36..38].copy_from_slice(&port.to_be_bytes());
        f.extend_from_slice(payload);
        f
    }

    #[test]
    fn traffic_is_told_apart_and_counted_in_its_bin() {
        let mut counts = TapCounts::default();
        let stamp = Stamp { stream: 3, index: 7, sent: Instant(1) };
        let mut call = frame(17, CALLEE_PORT + 4, &stamp.to_bytes());
        // Padding of a short frame is not part of the packet.
        call.extend_from_slice(&[0; 6]);
        let epoch = Instant(1_000_000_000);
        let at = |ms: u64| epoch + Duration::from_millis(ms);
        observe(&mut counts, epoch, at(10), &call);
        observe(&mut counts, epoch, at(110), &frame(17, FLOOD_PORT, &[0; 100]));
        observe(&mut counts, epoch, at(120), &frame(6, 5001, &[0; 10]));
        observe(&mut counts, epoch, at(250), &[0; 60]);
        assert_eq!(counts.stamps, [(3, 7, at(10))]);
        assert_eq!(counts.bits, [vec![352], vec![0, 304], vec![0, 1024]]);
        assert_eq!(counts.frame_bytes, [64, 194]);
        let (bytes, span) = counts.frame_bytes_between(Duration::from_millis(50), Duration::from_millis(250));
        assert_eq!((bytes, span), (194, Duration::from_millis(100)));
    }
}
