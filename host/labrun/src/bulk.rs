//! Greedy transfers through the kernel's own TCP.

use crate::error::{LabError, io, network};
use crate::topology::CALLEE;
use crate::udp::wait_until;
use perhop_io::clock::monotonic;
use perhop_netlink::Namespace;
use perhop_traffic::{BulkTally, BulkTransfer};
use perhop_units::{Duration, Instant};
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// First TCP port of the receivers.
pub(crate) const BULK_PORT: u16 = 5_001;
/// How long a blocked thread waits before it looks whether the run has ended.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(200);

/// The threads of a set of transfers.
#[derive(Debug)]
pub(crate) struct Bulk {
    senders: Vec<JoinHandle<()>>,
    receivers: Vec<JoinHandle<BulkTally>>,
    /// Congestion control of the machine, such as `cubic`.
    pub(crate) congestion_control: String,
}

impl Bulk {
    /// Starts all transfers; their instants count from `epoch`.
    pub(crate) fn start(
        caller: &Namespace,
        callee: &Namespace,
        transfers: &[BulkTransfer],
        epoch: Instant,
        stop: &Arc<AtomicBool>,
        done: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let mut bulk = Self { senders: Vec::new(), receivers: Vec::new(), congestion_control: String::new() };
        for transfer in transfers {
            let address = SocketAddrV4::new(CALLEE, BULK_PORT + transfer.number);
            let listener = callee
                .run(|| TcpListener::bind(address))
                .map_err(network("open a TCP receiver"))?
                .map_err(io("open a TCP receiver"))?;
            bulk.congestion_control = sockopt::tcp_congestion(&listener).unwrap_or_default();
            let done = Arc::clone(done);
            let receiver = callee.spawn("bulk-sink", move || receive(&listener, &done));
            bulk.receivers.push(receiver.map_err(network("start a TCP receiver"))?);
            let (transfer, stop) = (*transfer, Arc::clone(stop));
            let sender = caller.spawn("bulk", move || send(address, &transfer, epoch, &stop));
            bulk.senders.push(sender.map_err(network("start a TCP sender"))?);
        }
        Ok(bulk)
    }

    /// Waits for all threads: what each receiver counted. Set `stop` and `done` before.
    pub(crate) fn finish(self) -> Vec<BulkTally> {
        for sender in self.senders {
            let _ = sender.join();
        }
        self.receivers.into_iter().map(|r| r.join().unwrap_or_default()).collect()
    }
}

fn send(to: SocketAddrV4, transfer: &BulkTransfer, epoch: Instant, stop: &AtomicBool) {
    if !wait_until(epoch + transfer.start, stop) {
        return;
    }
    let chunk = vec![0x55u8; transfer.chunk_bytes as usize];
    let end = epoch + transfer.stop;
    // A connection that a full queue starved to death is opened again, as a person would.
    while monotonic() < end && !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&to.into(), std::time::Duration::from_secs(4)) else {
            let _ = wait_until(monotonic() + Duration::from_millis(100), stop);
            continue;
        };
        let _ = stream.set_write_timeout(Some(PATIENCE));
        while monotonic() < end && !stop.load(Ordering::Relaxed) {
            match stream.write(&chunk) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => break,
            }
        }
    }
}

fn receive(listener: &TcpListener, done: &AtomicBool) -> BulkTally {
    let mut tally = BulkTally::default();
    let mut buffer = vec![0u8; 64 << 10];
    let _ = listener.set_nonblocking(true);
    while !done.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            let _ = wait_until(monotonic() + Duration::from_millis(5), done);
            continue;
        };
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(PATIENCE));
        while !done.load(Ordering::Relaxed) {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => tally.read(monotonic(), n as u64),
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => break,
            }
        }
    }
    tally
}
