//! Captures what ports receive and send, beside the packet thread.

use crate::error::EngineError;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use perhop_io::clock;
use perhop_io::pcap::CaptureWriter;
use perhop_io::private_file::OpenDirectory;
use perhop_packet::{Batch, Packet};
use perhop_units::Instant;
use std::io;
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
    /// Starts writing `PORT.in.pcap` and `PORT.out.pcap` of each port into `directory`, for this user
    /// alone; one tap a port.
    pub(crate) fn start(directory: &Path, ports: &[String]) -> Result<(Self, Vec<Tap>), EngineError> {
        let fail = |source| EngineError::Capture { path: directory.to_owned(), source };
        // Others may write there too.
        let within = OpenDirectory::open(directory).map_err(fail)?;
        let mut files = Vec::new();
        for port in ports {
            for way in ["in", "out"] {
                let clean = port.replace('/', "_");
                let name = format!("{clean}.{way}.pcap");
                let path = directory.join(&name);
                let fail = |source| EngineError::Capture { path: path.clone(), source };
                let file = within.create(&name).map_err(fail)?;
                files.push(CaptureWriter::new(&path, file).map_err(|e| fail(io::Error::other(e)))?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn captures_follow_no_link_and_are_their_owners_alone() {
        let dir = std::env::temp_dir().join(format!("perhop-capture-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (victim, planted) = (dir.join("victim"), dir.join("a_b.out.pcap"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &planted).unwrap();
        let ports = ["a/b".to_owned()];
        let error = Capture::start(&dir, &ports).err().unwrap();
        assert!(error.to_string().contains("a_b.out.pcap: cannot capture: a symbolic link"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(&planted).unwrap();
        let (capture, taps) = Capture::start(&dir, &ports).unwrap();
        drop(taps);
        capture.finish();
        for name in ["a_b.in.pcap", "a_b.out.pcap"] {
            let meta = fs::metadata(dir.join(name)).unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.len()), (0o600, 24), "{name}: a header");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
