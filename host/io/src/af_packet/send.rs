//! Putting frames into the transmit ring, and having the kernel send them.

use super::refusals::Head;
use super::{AfPacket, SLOT, TX_OFFSET, VNET_HEADER, VNET_HEADER_LENGTH, ask_interface, tags};
use crate::clock;
use perhop_element::PortError;
use perhop_packet::Batch;
use perhop_units::Instant;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

impl AfPacket {
    pub(super) fn put_frames(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let room = self.free_slots() as usize;
        let mut sent = 0;
        let n = batch.len().min(room);
        for packet in batch.drain_first(n) {
            let len = packet.len();
            if !self.takes(packet.frame()) {
                self.counters.tx_too_long += 1;
                packet.release();
                continue;
            }
            let slot = self.tx.next;
            let header = self.tx.header(slot);
            let mut head = [0; VNET_HEADER];
            head[VNET_HEADER_LENGTH..][..2].copy_from_slice(&(len as u16).to_ne_bytes());
            // SAFETY: the slot is ours (status AVAILABLE was seen with Acquire in `room`), and head and frame fit into
            // it behind its header: `takes`.
            unsafe {
                (*header.as_ptr()).tp_len = (VNET_HEADER + len) as u32;
                (*header.as_ptr()).tp_snaplen = (VNET_HEADER + len) as u32;
                let data = header.as_ptr().cast::<u8>().add(TX_OFFSET);
                std::ptr::copy_nonoverlapping(head.as_ptr(), data, VNET_HEADER);
                std::ptr::copy_nonoverlapping(packet.frame().as_ptr(), data.add(VNET_HEADER), len);
            }
            self.tx.status(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            self.tx.advance();
            self.tx_free = self.tx_free.saturating_sub(1);
            self.tx_pending += 1;
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += len as u64;
            packet.release();
            sent += 1;
        }
        self.look_at_pending();
        if self.tx_pending > 0 {
            self.flush()?;
        }
        Ok(sent)
    }

    pub(super) fn free_slots(&mut self) -> u32 {
        // Free slots are contiguous from `next`; look a bounded distance ahead, beyond what is known.
        let mut free = self.tx_free;
        while free < self.tx.slots.min(Batch::MAX as u32) {
            let slot = (self.tx.next + free) & (self.tx.slots - 1);
            match self.tx.status(slot).load(Ordering::Acquire) {
                libc::TP_STATUS_AVAILABLE => free += 1,
                libc::TP_STATUS_WRONG_FORMAT => {
                    self.counters.tx_failed += 1;
                    self.tx.status(slot).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
                    free += 1;
                }
                _ => break,
            }
        }
        self.tx_free = free;
        free
    }

    /// The slot of the first frame that was not taken; while there is one.
    fn head(&self) -> u32 {
        self.tx.next.wrapping_sub(self.tx_pending) & (self.tx.slots - 1)
    }

    /// Has the kernel send what is in the transmit ring, but for what it refuses.
    fn flush(&mut self) -> Result<(), PortError> {
        let mut passed_over = false;
        loop {
            let (pending, refused) = (self.tx_pending, self.counters.tx_kicks_no_buffers);
            self.kick()?;
            if self.tx_pending == 0 && !passed_over {
                self.refusals.taken(Instant::ZERO, false);
                return Ok(());
            }
            let now = clock::monotonic();
            if pending - self.tx_pending > u32::from(passed_over) {
                self.refusals.taken(now, passed_over);
            }
            let is_stuck = self.tx_pending > 0 && self.counters.tx_kicks_no_buffers > refused;
            if !is_stuck || !self.refuses_head(now) {
                return Ok(());
            }
            self.pass_over();
            passed_over = true;
        }
    }

    /// Whether what was not taken is refused for good.
    fn refuses_head(&mut self, now: Instant) -> bool {
        let slot = self.head();
        let before = slot.wrapping_sub(1) & (self.tx.slots - 1);
        // Devices finish frames in order: if the last one has left, so have all.
        let on_the_way = self.tx.status(before).load(Ordering::Acquire) == libc::TP_STATUS_SENDING;
        let (fd, index) = (&self.fd, self.index);
        self.refusals.judge(now, Head { slot, on_the_way }, || is_running(fd, index))
    }

    /// Makes the head of the ring a frame that the kernel cannot read, which it leaves out (PACKET_LOSS), without a word
    /// because it is shorter than its virtio-net header.
    fn pass_over(&mut self) {
        let header = self.tx.header(self.head());
        // SAFETY: the kernel reads slots during a kick alone, which is this thread's, and the header lies in the slot.
        unsafe { (*header.as_ptr()).tp_len = 0 };
        self.counters.tx_refused += 1;
    }

    /// Tells the kernel to send what is in the transmit ring. It stops early when the send buffer is full (EAGAIN) or
    /// the card takes no more (ENOBUFS), and nobody goes on by itself: the rest needs another kick.
    fn kick(&mut self) -> Result<(), PortError> {
        fence(Ordering::SeqCst);
        // SAFETY: a send without data flushes the ring; no pointer is passed.
        let rc = unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        let error = (rc < 0).then(io::Error::last_os_error);
        self.look_at_pending();
        let c = &mut self.counters;
        match error.as_ref().map(|e| e.raw_os_error()) {
            None => c.tx_kicks_partial += u64::from(self.tx_pending > 0),
            Some(Some(libc::EAGAIN)) => c.tx_kicks_again += 1,
            Some(Some(libc::ENOBUFS)) => c.tx_kicks_no_buffers += 1,
            Some(Some(libc::EINTR)) => c.tx_kicks_interrupted += 1,
            Some(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => {
                c.tx_kicks_failed += 1;
                self.down = true;
                return Err(PortError::Down { port: self.config.port.clone() });
            }
            Some(_) => {
                c.tx_kicks_failed += 1;
                let (port, operation) = (self.config.port.clone(), "sending");
                return Err(PortError::Os {
                    port,
                    operation,
                    source: error.unwrap_or_else(io::Error::last_os_error),
                });
            }
        }
        Ok(())
    }

    /// Forgets pending slots that the kernel has taken meanwhile. O(taken + 1).
    fn look_at_pending(&mut self) {
        while self.tx_pending > 0 {
            if self.tx.status(self.head()).load(Ordering::Acquire) == libc::TP_STATUS_SEND_REQUEST {
                break;
            }
            self.tx_pending -= 1;
        }
    }

    /// Whether frames wait in the transmit ring that the kernel has not taken: call [`perhop_element::Port::transmit`] again soon, with
    /// or without more packets.
    pub fn has_pending_output(&self) -> bool {
        self.tx_pending > 0
    }

    /// Whether slot and interface take this frame. The MTU may have been raised a moment ago.
    fn takes(&mut self, frame: &[u8]) -> bool {
        let longest = frame.len().saturating_sub(tags(frame));
        if longest > self.tx_longest {
            self.read_mtu();
        }
        TX_OFFSET + VNET_HEADER + frame.len() <= SLOT && longest <= self.tx_longest
    }
}

/// Whether an interface has a carrier, as far as that can be asked.
fn is_running(socket: &OwnedFd, index: u32) -> bool {
    let running = |answer: libc::ifreq| {
        // SAFETY: a successful SIOCGIFFLAGS has filled this member.
        libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags }) & libc::IFF_RUNNING != 0
    };
    ask_interface(socket, index, libc::SIOCGIFFLAGS as _).is_some_and(running)
}
