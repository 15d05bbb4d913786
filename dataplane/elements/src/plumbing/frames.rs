//! Plain UDP frames for sources and tests.

use perhop_units::Dscp;
use perhop_wire::{checksum, ethertype, protocol};

/// An IPv4 UDP datagram in an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame {
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Code point.
    pub dscp: Dscp,
    /// ECN field, 0–3.
    pub ecn: u8,
    /// IP length in bytes, 28 … 1,500.
    pub ip_len: u16,
}

impl Default for UdpFrame {
    fn default() -> Self {
        Self {
            src: [10, 0, 0, 1],
            dst: [10, 1, 0, 2],
            src_port: 5004,
            dst_port: 5006,
            dscp: Dscp::BE,
            ecn: 0,
            ip_len: 100,
        }
    }
}

impl UdpFrame {
    /// The shortest IP length.
    pub const MIN_IP_LEN: u16 = 28;
    /// The longest IP length.
    pub const MAX_IP_LEN: u16 = 1500;

    /// Length of the frame: at least 60 bytes, as Ethernet pads.
    pub fn frame_len(&self) -> usize {
        (usize::from(self.clamped()) + 14).max(60)
    }

    fn clamped(&self) -> u16 {
        self.ip_len.clamp(Self::MIN_IP_LEN, Self::MAX_IP_LEN)
    }

    /// Writes the frame into `frame`, which is [`UdpFrame::frame_len`] long; a shorter one is left unchanged. The
    /// payload is zero and the UDP checksum absent (RFC 768 allows that over IPv4).
    pub fn write(&self, frame: &mut [u8]) {
        let ip_len = self.clamped();
        frame.fill(0);
        let Some(head) = frame.first_chunk_mut::<42>() else { return };
        head[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        head[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
        head[14] = 0x45;
        head[15] = self.dscp.get() << 2 | self.ecn & 3;
        head[16..18].copy_from_slice(&ip_len.to_be_bytes());
        head[22] = 64;
        head[23] = protocol::UDP;
        head[26..30].copy_from_slice(&self.src);
        head[30..34].copy_from_slice(&self.dst);
        let sum = checksum::of(&head[14..34]);
        head[24..26].copy_from_slice(&sum.to_be_bytes());
        head[34..36].copy_from_slice(&self.src_port.to_be_bytes());
        head[36..38].copy_from_slice(&self.dst_port.to_be_bytes());
        head[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    }

    /// The frame as bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut frame = vec![0; self.frame_len()];
        self.write(&mut frame);
        frame
    }
}

/// A default frame of this IP length.
#[cfg(test)]
pub(crate) fn udp(ip_len: u16) -> Vec<u8> {
    UdpFrame { ip_len, ..UdpFrame::default() }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_dissect_to_what_was_asked() {
        for ip_len in [0, 28, 46, 100, 1500, 9000] {
            let wanted = UdpFrame { ip_len, dscp: Dscp::EF, ecn: 2, ..UdpFrame::default() };
            let layout = perhop_wire::dissect(&wanted.to_vec()).unwrap();
            assert_eq!(layout.ip_len, ip_len.clamp(28, 1500));
            assert_eq!((layout.tos, layout.src_port, layout.dst_port), (46 << 2 | 2, 5004, 5006));
        }
    }
}
