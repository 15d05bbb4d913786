//! AF_XDP sockets: frames leave the driver for the buffers of a packet pool, before the kernel's protocols, and are sent
//! from there.
//!
//! The memory of the whole pool is each socket's umem: a frame that was received into a buffer is sent from the same one
//! by another port, without a copy of ours. Buffers that wait for frames are packets lent to the kernel (it holds
//! `rx_slots` of them), and so are packets that are being sent, until the kernel says that they were.
//!
//! A small [program](HostTraffic) on the interface leaves the kernel what is the kernel's: ARP, packets to the host's own
//! addresses, and the like. It works in the driver where that can, else behind it. It is attached by a descriptor, so the
//! interface is as before when the port is dropped, and after a crash.
//!
//! What the kernel itself sends by the interface is counted by another program on the way out (Linux 6.6).
//!
//! Compared to a packet socket: arrival is stamped when the frame is taken, not when it came. A checksum that a sender on this machine left unfinished is recognised by its value
//! and completed. A tag that a card took off is lost: its driver's `rx-vlan-offload` must be off.
//!
//! Counters are those of [`crate::af_packet`] where they mean the same. `rx_no_buffer`: no buffer was lent when a frame
//! came. `rx_ring_lost`: frames were not taken in time. `rx_too_long`: longer than a buffer behind its headroom takes.
//! `rx_to_kernel`: left to the kernel by the program. `tx_failed`: dropped by the driver.
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`, `net/xdp/xsk.c`.

mod bare;
mod config;
mod error;
mod kernel_sent;
mod lent;
mod open;
mod program;
mod ring;
mod socket;

pub use bare::BareForwarder;
pub use config::{AfXdpConfig, Mode, Place};
pub use error::XdpError;
pub use open::MAX_QUEUES;
pub use program::{HostTraffic, MAX_HOST_PREFIXES, Sharing};

use crate::af_packet::KernelSent;
use crate::af_packet::tags;
use crate::checksum;
use crate::interface::Interface;
use kernel_sent::KernelSentCount;
use lent::Lent;
use perhop_element::{CounterSink, Port, PortError};
use perhop_packet::{BUFFER_LEN, Batch, Packet, Pool};
use perhop_units::Instant;
use program::Attached;
use socket::{Kicked, Probe, Queue};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Ethernet header without a tag.
const ETHERNET: usize = 14;
/// Buffers are lent again when so many are missing: a few at a time is dear.
const REFILL: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rx_packets: u64,
    rx_bytes: u64,
    rx_too_long: u64,
    rx_checksum_completed: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_failed: u64,
    tx_too_long: u64,
    tx_kicks_again: u64,
    tx_kicks_no_buffers: u64,
    tx_kicks_interrupted: u64,
    tx_kicks_partial: u64,
    tx_kicks_failed: u64,
}

/// A port on an interface, with a socket on each of its receive queues.
#[derive(Debug)]
pub struct AfXdp {
    config: AfXdpConfig,
    /// Taken at the end, before the sockets go.
    attached: Option<Attached>,
    /// None where the kernel is too old.
    kernel_sent: Option<KernelSentCount>,
    queues: Vec<Queue>,
    lent: Lent,
    pool: Pool,
    /// Whether senders may leave checksums unfinished.
    host_driver: bool,
    mode: Mode,
    why_not_in_driver: Option<XdpError>,
    device: Interface,
    /// For the queues whose buffers the card has.
    probes: Vec<Probe>,
    /// Readable when a queue is, where there are several.
    poll: Option<OwnedFd>,
    _promiscuous: Option<OwnedFd>,
    /// Buffers that each queue is to have.
    fill: u32,
    tx_slots: u32,
    /// Frames that were given to the kernel and are not known to be sent.
    tx_in_flight: u32,
    /// Longest frame without a tag that the interface takes, bytes.
    tx_longest: usize,
    /// Queue to be looked at first.
    turn: usize,
    down: bool,
    counters: Counters,
}

impl AfXdp {
    /// How it was opened.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Why the program is not in the driver, where it was tried and is behind it.
    pub fn why_not_in_driver(&self) -> Option<&XdpError> {
        self.why_not_in_driver.as_ref()
    }

    /// Whether a frame waits to be received.
    pub fn has_input(&self) -> bool {
        self.queues.iter().any(|q| q.rx.has_any())
    }

    /// Has the kernel poll the card from the calling thread; nothing without [`AfXdpConfig::busy_poll_us`].
    pub fn poll_card(&mut self) {
        if self.config.busy_poll_us > 0 {
            // What fails is tried again with the next call.
            self.queues.iter().for_each(|queue| _ = queue.kick_receive());
        }
    }

    /// Whether frames wait to be sent that the kernel takes only when it is told: call [`Port::transmit`] again soon, with
    /// or without more packets.
    pub fn has_pending_output(&self) -> bool {
        self.queues.first().is_some_and(|q| q.tx.waiting() > 0 && (!q.zero_copy || q.tx.needs_wakeup()))
    }

    /// What the kernel sent by this interface since the last call; nothing before Linux 6.6.
    pub fn take_kernel_sent(&mut self) -> KernelSent {
        self.kernel_sent.as_mut().map(KernelSentCount::take).unwrap_or_default()
    }

    /// Looks for an interface that went down or away; call after `poll(2)` reported an error.
    ///
    /// # Errors
    /// [`PortError::Down`].
    pub fn check_link(&mut self) -> Result<(), PortError> {
        let gone = |q: &Queue| matches!(q.pending_error(), libc::ENETDOWN | libc::ENODEV | libc::ENXIO);
        if self.queues.iter().any(gone) {
            self.down = true;
            return Err(PortError::Down { port: self.config.port.clone() });
        }
        Ok(())
    }

    fn read_mtu(&mut self) {
        if let Some(mtu) = self.device.mtu() {
            self.tx_longest = mtu + ETHERNET;
        }
    }

    /// Whether the interface takes this frame. The MTU may have been raised a moment ago.
    fn takes(&mut self, frame: &[u8]) -> bool {
        let longest = frame.len().saturating_sub(tags(frame));
        if longest > self.tx_longest {
            self.read_mtu();
        }
        longest <= self.tx_longest
    }

    /// Lends a queue the buffers that it lacks, as far as there are any.
    fn refill(&mut self, i: usize) {
        let Some(queue) = self.queues.get_mut(i) else { return };
        let lacks = self.fill.saturating_sub(queue.given);
        if lacks < REFILL.min(self.fill) {
            return;
        }
        let before = queue.given;
        for _ in 0..lacks.min(queue.fill.free()) {
            let Some(packet) = self.pool.alloc() else { break };
            match self.lent.lend(packet) {
                Ok(place) => {
                    queue.fill.push(place);
                    queue.given += 1;
                }
                Err(packet) => packet.release(),
            }
        }
        if queue.given != before {
            queue.fill.publish();
        }
    }

    /// Takes frames of one queue.
    fn receive_from(&mut self, i: usize, now: Instant, batch: &mut Batch) {
        let Some(queue) = self.queues.get_mut(i) else { return };
        let c = &mut self.counters;
        let before = queue.given;
        while !batch.is_full() {
            let Some(descriptor) = queue.rx.pop() else { break };
            queue.given = queue.given.saturating_sub(1);
            let Some(mut packet) = self.lent.take(descriptor.addr) else { continue };
            if !has_frame(&mut packet, descriptor.addr as usize % BUFFER_LEN, descriptor.len as usize) {
                c.rx_too_long += 1;
                packet.release();
                continue;
            }
            if self.host_driver && checksum::complete_begun(packet.frame_mut()) {
                c.rx_checksum_completed += 1;
            }
            packet.meta_mut().received_at = now;
            c.rx_packets += 1;
            c.rx_bytes += u64::from(descriptor.len);
            batch.push(packet);
        }
        let received = queue.given != before;
        if received {
            queue.rx.give_back();
        }
        self.refill(i);
        let Some(queue) = self.queues.get(i) else { return };
        if (queue.zero_copy && queue.fill.needs_wakeup()) || (self.config.busy_poll_us > 0 && !received) {
            // It is told again next time.
            let _ = queue.kick_receive();
        }
    }

    /// Ends packets that were sent.
    fn reap(&mut self) {
        let Some(queue) = self.queues.first_mut() else { return };
        let before = self.tx_in_flight;
        while let Some(place) = queue.completion.pop() {
            self.tx_in_flight = self.tx_in_flight.saturating_sub(1);
            if let Some(packet) = self.lent.take(place) {
                packet.release();
            }
        }
        if self.tx_in_flight != before {
            queue.completion.give_back();
        }
    }

    /// Puts a packet into the transmit ring, which has room.
    fn put(&mut self, packet: Packet) {
        if !self.takes(packet.frame()) {
            self.counters.tx_too_long += 1;
            return packet.release();
        }
        let len = packet.len();
        let Some(packet) = self.of_our_pool(packet) else {
            self.counters.tx_failed += 1;
            return;
        };
        let Some(queue) = self.queues.first_mut() else { return packet.release() };
        match self.lent.lend(packet) {
            Ok(addr) if queue.tx.push(libc::xdp_desc { addr, len: len as u32, options: 0 }) => {
                self.tx_in_flight += 1;
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += len as u64;
            }
            Ok(addr) => {
                self.counters.tx_failed += 1;
                if let Some(packet) = self.lent.take(addr) {
                    packet.release();
                }
            }
            Err(packet) => {
                self.counters.tx_failed += 1;
                packet.release();
            }
        }
    }

    /// The packet, in a buffer that the kernel knows.
    fn of_our_pool(&self, packet: Packet) -> Option<Packet> {
        if self.pool.owns(&packet) {
            return Some(packet);
        }
        let copy = self.pool.packet(packet.frame());
        packet.release();
        copy
    }

    /// Tells the kernel to send what is in the transmit ring. When it copies it takes a few frames each time.
    fn kick(&mut self) -> Result<(), PortError> {
        let Some(queue) = self.queues.first() else { return Ok(()) };
        let c = &mut self.counters;
        let mut waiting = queue.tx.waiting();
        while waiting > 0 {
            let kicked = queue.kick_send();
            let before = std::mem::replace(&mut waiting, queue.tx.waiting());
            match kicked {
                Kicked::Done => {
                    c.tx_kicks_partial += u64::from(waiting > 0);
                    return Ok(());
                }
                // The driver dropped a frame that it had taken.
                Kicked::Refused(libc::EBUSY) => c.tx_failed += u64::from(waiting < before),
                Kicked::Refused(libc::EAGAIN) if waiting < before => {}
                Kicked::Refused(libc::EAGAIN) => c.tx_kicks_again += 1,
                Kicked::Refused(libc::ENOBUFS) => c.tx_kicks_no_buffers += 1,
                Kicked::Refused(libc::EINTR) => c.tx_kicks_interrupted += 1,
                Kicked::Refused(error) => {
                    c.tx_kicks_failed += 1;
                    return Err(self.refused(error));
                }
            }
            if waiting >= before {
                break;
            }
        }
        Ok(())
    }

    fn refused(&mut self, error: i32) -> PortError {
        let port = self.config.port.clone();
        match error {
            libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
                self.down = true;
                PortError::Down { port }
            }
            _ => PortError::Os { port, operation: "sending", source: io::Error::from_raw_os_error(error) },
        }
    }

    /// What the kernel lost: for want of a buffer, for want of room in a ring, and because it was too long.
    fn losses(&self) -> (u64, u64, u64) {
        let mut all = (0, 0, 0);
        for queue in &self.queues {
            let s = queue.statistics();
            // Every frame that found no buffer is also one that was dropped.
            let no_buffer = s.rx_fill_ring_empty_descs.min(s.rx_dropped);
            all.0 += no_buffer;
            all.1 += s.rx_ring_full;
            all.2 += s.rx_dropped - no_buffer;
        }
        all
    }
}

/// Makes the packet hold the frame of `len` bytes that the kernel put at `offset` of its buffer. `false` when that is not
/// inside of it, or no frame.
fn has_frame(packet: &mut Packet, offset: usize, len: usize) -> bool {
    if len < ETHERNET || offset + len > BUFFER_LEN {
        return false;
    }
    match offset.checked_sub(packet.headroom()) {
        Some(behind) => packet.resize(behind + len) && packet.shrink_front(behind),
        None => {
            let before = packet.headroom() - offset;
            before <= len && packet.resize(len - before) && packet.grow_front(before)
        }
    }
}

impl Port for AfXdp {
    /// Packets come from the pool that the port was opened with.
    fn receive(&mut self, now: Instant, _pool: &Pool, batch: &mut Batch) -> Result<usize, PortError> {
        let before = batch.len();
        let count = self.queues.len();
        for i in 0..count {
            self.receive_from((self.turn + i) % count, now, batch);
        }
        self.turn = (self.turn + 1) % count.max(1);
        let n = batch.len() - before;
        if n == 0 && self.down {
            return Err(PortError::Down { port: self.config.port.clone() });
        }
        Ok(n)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let n = batch.len().min(self.room() as usize);
        let before = self.counters.tx_packets;
        for packet in batch.drain_first(n) {
            self.put(packet);
        }
        let Some(queue) = self.queues.first() else { return Ok(0) };
        queue.tx.publish();
        if self.has_pending_output() {
            self.kick()?;
        }
        Ok((self.counters.tx_packets - before) as usize)
    }

    fn room(&mut self) -> u32 {
        self.reap();
        self.tx_slots.saturating_sub(self.tx_in_flight)
    }

    fn counters(&mut self, sink: &mut dyn CounterSink) {
        self.read_mtu();
        let (no_buffer, ring_lost, too_long) = self.losses();
        let invalid = self.queues.first().map_or(0, |q| q.statistics().tx_invalid_descs);
        let kernel = self.kernel_sent.as_ref().map(KernelSentCount::all).unwrap_or_default();
        let c = &self.counters;
        for (name, value) in [
            ("rx_packets", c.rx_packets),
            ("rx_bytes", c.rx_bytes),
            ("rx_no_buffer", no_buffer),
            ("rx_too_long", c.rx_too_long + too_long),
            ("rx_ring_lost", ring_lost),
            ("rx_checksum_completed", c.rx_checksum_completed),
            ("rx_to_kernel", self.attached.as_ref().map_or(0, Attached::passed)),
            ("tx_packets", c.tx_packets),
            ("tx_bytes", c.tx_bytes),
            ("tx_failed", c.tx_failed + invalid),
            ("tx_too_long", c.tx_too_long),
            ("tx_kicks_again", c.tx_kicks_again),
            ("tx_kicks_no_buffers", c.tx_kicks_no_buffers),
            ("tx_kicks_interrupted", c.tx_kicks_interrupted),
            ("tx_kicks_partial", c.tx_kicks_partial),
            ("tx_kicks_failed", c.tx_kicks_failed),
            ("kernel_packets", kernel.packets),
            ("kernel_bytes", kernel.bytes),
        ] {
            sink.counter(name, value);
        }
    }
}

impl AsFd for AfXdp {
    /// Readable when frames wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match (&self.poll, self.queues.first()) {
            (None, Some(queue)) => queue.fd.as_fd(),
            (Some(all), _) => all.as_fd(),
            (None, None) => {
                unreachable!("an interface has a queue, and the port a socket on it until it is dropped")
            }
        }
    }
}

impl Drop for AfXdp {
    fn drop(&mut self) {
        // First the program: from then on frames are the kernel's.
        self.attached = None;
        self.queues.clear();
        // A card may write into buffers until its driver has let go of the queue, which is later.
        if self.probes.drain(..).all(Probe::waits_for_release) {
            self.lent.release();
        } else {
            self.lent.abandon();
        }
    }
}
