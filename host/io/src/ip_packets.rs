//! Packets without a link's header as frames: what a port does on an interface that has no such header.
//!
//! Elements know frames, so a packet gets an Ethernet header with addresses of zeros on its way in and loses it on its way out; an
//! interface without addresses is looked up as one of zeros, so the router takes these frames for its own.

use perhop_element::CounterSink;
use perhop_packet::{Batch, DropReason, Packet, Pool};
use perhop_units::Instant;
use rustix::io::Errno;

/// Length of the header that packets get.
pub(crate) const ETHERNET: usize = 14;
/// Longest packet that a buffer takes behind that header.
pub(crate) const LONGEST: usize = perhop_packet::BUFFER_LEN - perhop_packet::HEADROOM - ETHERNET;

const ETHERTYPE_V4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_V6: [u8; 2] = [0x86, 0xdd];

/// Reads and writes them, one a system call, and counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IpPackets {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) rx_no_buffer: u64,
    pub(crate) rx_too_long: u64,
    pub(crate) rx_not_ip: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_failed: u64,
    tx_not_ip: u64,
}

impl IpPackets {
    /// Reads until none waits or the batch is full; how many came. Without buffers what waits is taken all the same: it would
    /// be late, and the queue behind it too.
    ///
    /// # Errors
    /// What another packet does not mend.
    pub(crate) fn receive(
        &mut self,
        (now, pool): (Instant, &Pool),
        batch: &mut Batch,
        read: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let before = batch.len();
        let lost = self.rx_no_buffer;
        while !batch.is_full() {
            match self.read(pool, &read) {
                Ok(Some(packet)) => {
                    if let Some(mut packet) = self.framed(packet) {
                        packet.meta_mut().received_at = now;
                        batch.push(packet);
                    }
                }
                // Not more than a batch of them at once.
                Ok(None) if self.rx_no_buffer - lost < Batch::MAX as u64 => {}
                Ok(None) | Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(batch.len() - before)
    }

    /// Reads one packet into a frame. `None`: there is no buffer.
    fn read(
        &mut self,
        pool: &Pool,
        read: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<Option<Packet>, Errno> {
        let Some(mut packet) = pool.alloc() else {
            read(&mut [0u8; 1])?;
            self.rx_no_buffer += 1;
            return Ok(None);
        };
        if !packet.resize(ETHERNET + LONGEST) {
            packet.release();
            return Ok(None);
        }
        match packet.frame_mut().get_mut(ETHERNET..).map_or(Ok(0), &read) {
            Ok(len) => {
                packet.resize(ETHERNET + len);
                Ok(Some(packet))
            }
            Err(error) => {
                packet.release();
                Err(error)
            }
        }
    }

    /// Puts a header before what was read; `None` when it is nothing to forward.
    fn framed(&mut self, mut packet: Packet) -> Option<Packet> {
        let frame = packet.frame_mut();
        let is_ip = put_header(frame);
        let ip = frame.get(ETHERNET..).unwrap_or_default();
        // What is longer comes cut off at the buffer's end.
        let is_cut = is_ip && ip_len(ip).is_some_and(|len| len > ip.len());
        if !is_ip || is_cut {
            *(if is_cut { &mut self.rx_too_long } else { &mut self.rx_not_ip }) += 1;
            packet.release();
            return None;
        }
        self.rx_packets += 1;
        self.rx_bytes += ip.len() as u64;
        Some(packet)
    }

    /// Writes all of a batch: how many went, and the last error, if any.
    pub(crate) fn transmit(
        &mut self,
        batch: &mut Batch,
        write: impl Fn(&[u8]) -> Result<usize, Errno>,
    ) -> (usize, Option<Errno>) {
        let (mut sent, mut failed) = (0, None);
        let n = batch.len();
        for packet in batch.drain_first(n) {
            match packet_in(packet.frame()).map(|ip| (ip.len(), write(ip))) {
                None => self.tx_not_ip += 1,
                Some((len, Ok(_))) => {
                    self.tx_packets += 1;
                    self.tx_bytes += len as u64;
                    sent += 1;
                }
                Some((_, Err(error))) => {
                    self.tx_failed += 1;
                    failed = Some(error);
                }
            }
            packet.release();
        }
        (sent, failed)
    }

    pub(crate) fn counters(&self, sink: &mut dyn CounterSink) {
        for (name, value) in [
            ("rx_packets", self.rx_packets),
            ("rx_bytes", self.rx_bytes),
            ("rx_too_long", self.rx_too_long),
            ("rx_not_ip", self.rx_not_ip),
            ("tx_packets", self.tx_packets),
            ("tx_bytes", self.tx_bytes),
            ("tx_failed", self.tx_failed),
            ("tx_not_ip", self.tx_not_ip),
        ] {
            sink.counter(name, value);
        }
        sink.counter(&format!("rx_{}", DropReason::NoBuffer.name()), self.rx_no_buffer);
    }
}

/// Writes the header in front of a packet that begins behind its place; `false`: it is none of IP.
pub(crate) fn put_header(frame: &mut [u8]) -> bool {
    let Some((header, ip)) = frame.split_at_mut_checked(ETHERNET) else { return false };
    let ethertype = match ip.first().map(|first| first >> 4) {
        Some(4) => ETHERTYPE_V4,
        Some(6) => ETHERTYPE_V6,
        _ => return false,
    };
    header.fill(0);
    header[12..].copy_from_slice(&ethertype);
    true
}

/// Length that an IP packet says it has; `None` when it is too short to say.
pub(crate) fn ip_len(ip: &[u8]) -> Option<usize> {
    let field = |at: usize| Some(usize::from(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?])));
    match ip.first()? >> 4 {
        4 => field(2),
        6 => Some(field(4)? + 40),
        _ => None,
    }
}

/// The IP packet in a frame, without what pads the frame; `None` when there is none.
fn packet_in(frame: &[u8]) -> Option<&[u8]> {
    let (header, rest) = frame.split_at_checked(ETHERNET)?;
    if header[12..] != ETHERTYPE_V4 && header[12..] != ETHERTYPE_V6 {
        return None;
    }
    rest.get(..ip_len(rest)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_leaves_its_frame_without_header_and_padding() {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&ETHERTYPE_V4);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&28u16.to_be_bytes());
        assert_eq!(packet_in(&frame), Some(&frame[14..42]));
        frame[16..18].copy_from_slice(&47u16.to_be_bytes());
        assert_eq!(packet_in(&frame), None, "longer than the frame");
        frame[12..14].copy_from_slice(&ETHERTYPE_V6);
        frame[14] = 0x60;
        frame[18..20].copy_from_slice(&6u16.to_be_bytes());
        assert_eq!(packet_in(&frame), Some(&frame[14..60]));
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(packet_in(&frame), None, "ARP");
        assert_eq!((packet_in(&frame[..13]), packet_in(&frame[..14])), (None, None));
    }
}
