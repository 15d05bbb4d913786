//! A TCP segment as its receiver reads it.

use perhop_wire::checksum::{Sum, pseudo_header_v4, pseudo_header_v6};
use perhop_wire::tcp::flags::{ACK, FIN, SYN};
use perhop_wire::{Fragment, Layout, dissect, ipv4, ipv6, protocol, tcp};
use std::net::IpAddr;
use std::ops::Range;

/// Lower and higher endpoint.
pub(super) type Ends = [(IpAddr, u16); 2];

/// The TCP segment of a frame and the sum of its pseudo-header; `None` if it is no whole one.
pub(super) fn sums(frame: &[u8]) -> Option<(Range<usize>, Sum)> {
    let layout = whole(frame)?;
    let (l3, l4) = (usize::from(layout.l3_offset), usize::from(layout.l4_offset));
    let end = l3 + usize::from(layout.ip_len);
    let pseudo = if layout.ip_version == 4 {
        let ip = ipv4::View::new_checked(&frame[l3..]).ok()?;
        pseudo_header_v4(ip.src().octets(), ip.dst().octets(), protocol::TCP, (end - l4) as u16)
    } else {
        let ip = ipv6::View::new_checked(&frame[l3..]).ok()?;
        pseudo_header_v6(ip.src().octets(), ip.dst().octets(), protocol::TCP, (end - l4) as u32)
    };
    Some((l4..end, pseudo))
}

fn whole(frame: &[u8]) -> Option<Layout> {
    let layout = dissect(frame).ok()?;
    let whole = layout.l4_offset != 0 && layout.fragment == Fragment::Whole;
    (whole && layout.protocol == protocol::TCP).then_some(layout)
}

/// Completes the checksum of the TCP segment in `frame`, if there is one.
pub fn complete(frame: &mut [u8]) {
    if let Some((segment, pseudo)) = sums(frame) {
        tcp::fill_checksum(&mut frame[segment], pseudo);
    }
}

/// A segment as its receiver reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tcp {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub payload: u32,
    pub mss: Option<u16>,
    pub shift: Option<u8>,
    pub clock: bool,
    /// Nothing of it may be changed: signed, authenticated, or of several paths.
    pub signed: bool,
    pub v6: bool,
}

impl Tcp {
    /// Endpoints, which of them sends, and the segment.
    pub fn read(frame: &[u8]) -> Option<(Ends, usize, Self)> {
        let layout = whole(frame)?;
        let (l3, l4) = (usize::from(layout.l3_offset), usize::from(layout.l4_offset));
        let packet = &frame[l3..];
        let (src, dst): (IpAddr, IpAddr) = match layout.ip_version {
            4 => ipv4::View::new_checked(packet).map(|v| (v.src().into(), v.dst().into())).ok()?,
            _ => ipv6::View::new_checked(packet).map(|v| (v.src().into(), v.dst().into())).ok()?,
        };
        let segment = frame.get(l4..l3 + usize::from(layout.ip_len))?;
        let data = 4 * usize::from(segment.get(12)? >> 4);
        let word =
            |at: usize| u32::from_be_bytes([segment[at], segment[at + 1], segment[at + 2], segment[at + 3]]);
        let mut tcp = Self {
            seq: word(4),
            ack: word(8),
            flags: segment[13],
            window: u16::from_be_bytes([segment[14], segment[15]]),
            payload: segment.len().checked_sub(data)? as u32,
            mss: None,
            shift: None,
            clock: false,
            signed: layout.ip_version == 6 && authenticated(&frame[l3..l4]),
            v6: layout.ip_version == 6,
        };
        tcp.options(segment.get(20..data)?);
        let (src, dst) = ((src, layout.src_port), (dst, layout.dst_port));
        Some(if src <= dst { ([src, dst], 0, tcp) } else { ([dst, src], 1, tcp) })
    }

    fn options(&mut self, mut rest: &[u8]) {
        while let [kind, behind @ ..] = rest {
            match (kind, behind) {
                (0, _) => return,
                (1, _) => rest = behind,
                (_, [len, ..]) if (2..=rest.len()).contains(&usize::from(*len)) => {
                    let (option, after) = rest.split_at(usize::from(*len));
                    rest = after;
                    match *option {
                        [2, 4, a, b] => self.mss = Some(u16::from_be_bytes([a, b])),
                        [3, 3, shift] => self.shift = Some(shift.min(14)),
                        [8, 10, ..] => self.clock = true,
                        [19 | 29, ..] => self.signed = true,
                        [30, ..] => self.signed |= self.has(ACK),
                        _ => {}
                    }
                }
                _ => return,
            }
        }
    }

    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    pub const fn end(&self) -> u32 {
        let counted = self.has(SYN) as u32 + self.has(FIN) as u32;
        self.seq.wrapping_add(self.payload).wrapping_add(counted)
    }
}

/// Whether an authentication header (RFC 4302) stands between the IPv6 header and the segment.
fn authenticated(headers: &[u8]) -> bool {
    let (mut next, mut at) = (headers.get(6), 40);
    while let Some([after, len]) = headers.get(at..at + 2) {
        if next == Some(&protocol::AH) {
            return true;
        }
        (next, at) = (Some(after), at + 8 + 8 * usize::from(*len));
    }
    false
}
