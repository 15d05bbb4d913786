//! Captures what ports receive and send, beside the packet thread.

use crate::error::EngineError;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use perhop_io::clock;
use perhop_io::pcap::CaptureWriter;
use perhop_packet::{Batch, Packet};
use perhop_units::Instant;
use std::path::Path;
use std::thread::JoinHandle;

/// Frames that may wait to be written; more are lost to the capture (not to the router) and counted.
const WAITING: usize = 65_536;

struct Frame {
    file: usize,
    at: Instant,
    bytes: Vec<u8>,
}

/// The packet thread's end: copies frames into a queue.
pub(crate) struct Tap {
    queue: Sender<Frame>,
    /// Number of the file of received frames; sent frames go to the next.
    file: usize,
    lost: u64,
}

impl Tap {
    pub(crate) fn received(&mut self, batch: &Batch) {
        for packet in batch.iter() {
            self.put(self.file, packet.meta().received_at, packet);
        }
    }

    pub(crate) fn sent(&mut self, now: Instant, packets: &[Packet]) {
        for packet in packets {
            self.put(self.file + 1, now, packet);
        }
    }

    fn put(&mut self, file: usize, at: Instant, packet: &Packet) {
        let frame = Frame { file, at, bytes: packet.frame().to_vec() };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.queue.try_send(frame) {
            self.lost += 1;
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

/// The writing thread. Ends when all taps are gone.
pub(crate) struct Capture {
    thread: JoinHandle<()>,
}

impl Capture {
    /// Starts writing `PORT.in.pcap` and `PORT.out.pcap` of each port into `directory`; one tap a port.
    pub(crate) fn start(directory: &Path, ports: &[String]) -> Result<(Self, Vec<Tap>), EngineError> {
        let fail = |source| EngineError::Capture { path: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(fail)?;
        let mut files = Vec::new();
        for port in ports {
            for way in ["in", "out"] {
                let clean = port.replace('/', "_");
                let path = directory.join(format!("{clean}.{way}.pcap"));
                let file = CaptureWriter::create(&path).map_err(|e| EngineError::Capture {
                    path,
                    source: std::io::Error::other(e.to_string()),
                })?;
                files.push(file);
            }
        }
        let (queue, frames) = bounded(WAITING);
        let thread = std::thread::Builder::new()
            .name("perhop-capture".into())
            .spawn(move || write(files, &frames))
            .map_err(fail)?;
        let taps = (0..ports.len()).map(|i| Tap { queue: queue.clone(), file: 2 * i, lost: 0 }).collect();
        Ok((Self { thread }, taps))
    }

    /// Waits until everything is written.
    pub(crate) fn finish(self) {
        let _ = self.thread.join();
    }
}

fn write(mut files: Vec<CaptureWriter>, frames: &Receiver<Frame>) {
    // Capture files carry time since the epoch.
    let epoch = clock::real_minus_monotonic();
    for frame in frames {
        if let Some(file) = files.get_mut(frame.file)
            && let Err(error) = file.write(Instant(frame.at.0.saturating_add(epoch)), &frame.bytes)
        {
            tracing::warn!(%error, "capture ends");
            break;
        }
    }
    for file in files {
        if let Err(error) = file.finish() {
            tracing::warn!(%error, "capture is incomplete");
        }
    }
}
