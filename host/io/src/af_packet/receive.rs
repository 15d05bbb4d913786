//! Taking frames out of the receive ring: superframes are cut, tags and checksums made whole.

use super::{AfPacket, Outgoing, SLOT, VNET_HEADER, tpacket_align};
use crate::checksum;
use crate::superframe;
use perhop_element::PortError;
use perhop_packet::{BUFFER_LEN, Batch, HEADROOM, Pool};
use perhop_units::Instant;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

/// Completes a checksum that the sender left to its card, as the virtio-net header says; without one that says so, the outermost.
fn complete(frame: &mut [u8], head: &[u8; VNET_HEADER]) -> bool {
    let [flags, _, _, _, _, _, a, b, c, d] = *head;
    if flags & superframe::NEEDS_CHECKSUM == 0 {
        return checksum::complete(frame);
    }
    let [start, offset] = [[a, b], [c, d]].map(|number| usize::from(u16::from_ne_bytes(number)));
    checksum::complete_from(frame, start, offset)
}

impl AfPacket {
    pub(super) fn take_frames(
        &mut self,
        now: Instant,
        pool: &Pool,
        batch: &mut Batch,
    ) -> Result<usize, PortError> {
        let before = batch.len();
        if self.has_input() {
            self.clock.measure();
        }
        self.pass_on(pool, batch);
        while !batch.is_full() {
            let slot = self.rx.next;
            if self.rx.status(slot).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            self.fill(now, pool, batch);
            self.rx.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.rx.advance();
        }
        let n = batch.len() - before;
        if n == 0 && self.down {
            return Err(PortError::Down { port: self.config.port.clone() });
        }
        Ok(n)
    }

    /// Whether a frame waits in the receive ring, or the rest of a superframe.
    pub fn has_input(&self) -> bool {
        self.superframe.has_more()
            || self.rx.status(self.rx.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    fn fill(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) {
        let header = self.rx.header(self.rx.next);
        // SAFETY: the kernel has handed this slot over (status seen with Acquire) and does not touch it until the
        // status is given back.
        let h = unsafe { *header.as_ptr() };
        // SAFETY: the link-layer address follows the header in every receive slot (packet_mmap.rst).
        let kind = unsafe {
            let at = header.as_ptr().cast::<u8>().add(tpacket_align(size_of::<libc::tpacket2_hdr>()));
            (*at.cast::<libc::sockaddr_ll>()).sll_pkttype
        };
        let len = h.tp_snaplen as usize;
        let copied = h.tp_status & libc::TP_STATUS_COPY != 0;
        // It is taken from the queue in any case, so that the next slot finds its own there.
        let whole = if copied { self.read_copy() } else { 0 };
        if kind == libc::PACKET_OUTGOING && self.config.outgoing != Outgoing::Received {
            self.kernel_sent.packets += 1;
            self.kernel_sent.bytes += u64::from(h.tp_len);
            self.counters.kernel_packets += 1;
            self.counters.kernel_bytes += u64::from(h.tp_len);
            return;
        }
        let tagged = h.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
        let room = BUFFER_LEN - HEADROOM - 4;
        let stamp = u64::from(h.tp_sec) * 1_000_000_000 + u64::from(h.tp_nsec);
        let in_slot = h.tp_len as usize <= len && h.tp_mac as usize + len <= SLOT;
        // SAFETY: the frame lies inside the slot, as was checked, and the virtio-net header in front of it.
        let slot = (in_slot && h.tp_mac as usize >= VNET_HEADER).then(|| unsafe {
            let at = header.as_ptr().cast::<u8>().add(h.tp_mac as usize - VNET_HEADER);
            std::slice::from_raw_parts(at, VNET_HEADER + len)
        });
        // A superframe of two small segments fits into a slot.
        let bytes = if copied { Some(&self.copy[..whole]) } else { slot };
        if bytes.is_some_and(|bytes| superframe::is_one(bytes) && self.superframe.take(bytes)) {
            self.counters.rx_segmented += 1;
            self.superframe_tag = tagged.then_some((h.tp_vlan_tci, h.tp_vlan_tpid));
            self.superframe_at = self.clock.convert(stamp, now);
            return self.pass_on(pool, batch);
        }
        let Some((head, frame)) = slot
            .and_then(|slot| slot.split_first_chunk::<VNET_HEADER>())
            .filter(|(_, frame)| (14..=room).contains(&frame.len()))
        else {
            self.counters.rx_too_long += 1;
            return;
        };
        let Some(mut packet) = pool.packet(frame) else {
            self.counters.rx_no_buffer += 1;
            return;
        };
        // Before the tag is back, as the kernel counts.
        if h.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0 && complete(packet.frame_mut(), head) {
            self.counters.rx_checksum_completed += 1;
        }
        if tagged {
            reinsert_tag(&mut packet, h.tp_vlan_tci, h.tp_vlan_tpid);
        }
        packet.meta_mut().received_at = self.clock.convert(stamp, now);
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += len as u64;
        batch.push(packet);
    }

    /// Reads what the kernel has kept whole; how long it is, 0 if nothing is there.
    fn read_copy(&mut self) -> usize {
        let (to, len) = (self.copy.as_mut_ptr(), self.copy.len());
        // SAFETY: pointer and length describe `copy`, which lives across the call.
        let rc = unsafe { libc::recv(self.fd.as_raw_fd(), to.cast(), len, libc::MSG_DONTWAIT) };
        usize::try_from(rc).unwrap_or(0)
    }

    /// Passes on frames of the superframe as long as the batch has room.
    fn pass_on(&mut self, pool: &Pool, batch: &mut Batch) {
        while !batch.is_full() {
            let Some(frame) = self.superframe.next() else { return };
            if frame.len() > BUFFER_LEN - HEADROOM - 4 {
                self.counters.rx_too_long += 1;
                return self.superframe.drop_rest();
            }
            let len = frame.len() as u64;
            let Some(mut packet) = pool.packet(frame) else {
                self.counters.rx_no_buffer += 1;
                continue;
            };
            if let Some((tci, tpid)) = self.superframe_tag {
                reinsert_tag(&mut packet, tci, tpid);
            }
            packet.meta_mut().received_at = self.superframe_at;
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len;
            batch.push(packet);
        }
    }
}

/// Puts a tag that the card or the kernel took off back behind the addresses.
fn reinsert_tag(packet: &mut perhop_packet::Packet, tci: u16, tpid: u16) {
    if !packet.grow_front(4) {
        return;
    }
    let tpid = if tpid == 0 { 0x8100 } else { tpid };
    let frame = packet.frame_mut();
    frame.copy_within(4..16, 0);
    frame[12..14].copy_from_slice(&tpid.to_be_bytes());
    frame[14..16].copy_from_slice(&tci.to_be_bytes());
}
