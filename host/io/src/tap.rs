//! What this host itself sends by a port, taken from it before it leaves, so that it waits like any other packet.
//!
//! The kernel is told to send such frames by a TAP interface instead, at whose other end this is. It segments what would be a
//! superframe and completes checksums before it hands frames over, as no offload is asked for. The interface has no address,
//! speaks no protocol, and goes with this value. Each frame takes a system call.
//!
//! Counters: `own_packets`, `own_bytes`, `own_too_long` (longer than a buffer), `own_no_buffer`.
//!
//! Source: Linux `Documentation/networking/tuntap.rst`.

use crate::ip_packets::{ETHERNET, put_header};
use crate::tun;
use perhop_element::{CounterSink, PortError};
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

/// The end of a TAP interface at which frames are taken.
#[derive(Debug)]
pub struct Tap {
    file: File,
    /// Length of what frames do not come with.
    missing: usize,
    packets: u64,
    bytes: u64,
    too_long: u64,
    no_buffer: u64,
}

/// What of a frame does not fit a buffer.
const LONGEST: usize = perhop_packet::BUFFER_LEN - perhop_packet::HEADROOM;

impl Tap {
    /// Makes the interface in the calling thread's network namespace; it is down at first. `port` is for messages.
    ///
    /// # Errors
    /// [`PortError::Os`]: no rights (CAP_NET_ADMIN), no `/dev/net/tun`, or an interface of this name is there (EBUSY, EINVAL).
    pub fn open(port: &str, interface: &str) -> Result<Self, PortError> {
        let file = tun::open(port, (interface, libc::IFF_TAP), "making a TAP interface")?;
        Ok(Self { file, missing: 0, packets: 0, bytes: 0, too_long: 0, no_buffer: 0 })
    }

    /// Makes one for packets without a link's header, which get one here: of a port that is an [`IpPort`](crate::IpPort).
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn of_packets(port: &str, interface: &str) -> Result<Self, PortError> {
        let file = tun::open(port, (interface, libc::IFF_TUN), "making a TUN interface")?;
        Ok(Self { file, missing: ETHERNET, packets: 0, bytes: 0, too_long: 0, no_buffer: 0 })
    }

    /// Takes frames until none waits or the batch is full. Those for which there is no buffer are lost: what waits would be
    /// late, and the queue behind it too. O(frames), a system call each.
    pub fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) {
        // A frame that is too long fills this octet more, which says so.
        let mut rest = [0; 1];
        let mut left = Batch::MAX;
        while !batch.is_full() && left > 0 {
            left -= 1;
            let Some(mut packet) = pool.alloc() else {
                match rustix::io::read(&self.file, &mut rest) {
                    Ok(_) => self.no_buffer += 1,
                    Err(_) => return,
                }
                continue;
            };
            packet.resize(LONGEST);
            let read = {
                let into = packet.frame_mut().get_mut(self.missing..).unwrap_or_default();
                let mut parts = [rustix::io::IoSliceMut::new(into), rustix::io::IoSliceMut::new(&mut rest)];
                rustix::io::readv(&self.file, &mut parts)
            };
            match read.map(|length| length + self.missing) {
                Ok(length) if length > LONGEST => {
                    self.too_long += 1;
                    packet.release();
                }
                Ok(length) => {
                    packet.resize(length);
                    if self.missing > 0 && !put_header(packet.frame_mut()) {
                        packet.release();
                        continue;
                    }
                    packet.meta_mut().received_at = now;
                    self.packets += 1;
                    self.bytes += length as u64;
                    batch.push(packet);
                }
                Err(error) => {
                    packet.release();
                    if error != Errno::INTR {
                        return;
                    }
                }
            }
        }
    }

    /// Tells what was counted.
    pub fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("own_packets", self.packets);
        sink.counter("own_bytes", self.bytes);
        sink.counter("own_too_long", self.too_long);
        sink.counter("own_no_buffer", self.no_buffer);
    }
}

impl AsFd for Tap {
    /// Readable when frames wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
