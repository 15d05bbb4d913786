//! Fragmentation of IPv4 packets.
//!
//! Works on bytes alone: takes a packet, whole or itself a fragment, and writes pieces that fit a link. The first
//! piece keeps all options, later ones those whose copied flag is set.
//!
//! Source: RFC 791 §3.2 (example procedure) and §3.1 (options), RFC 1812 §4.2.2.7.

use perhop_wire::checksum;

/// The smallest MTU a link for IPv4 may have (RFC 791 §3.2); smaller ones are taken as this.
pub(super) const MIN_MTU: u32 = 68;

const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// Gives the fragments of one packet in order.
#[derive(Clone, Debug)]
pub(super) struct Fragments<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    /// Options of later fragments, padded.
    copied: [u8; 40],
    copied_len: usize,
    /// Flags and offset of the original.
    field: u16,
    done: usize,
    mtu: usize,
}

impl<'a> Fragments<'a> {
    /// Prepares to cut the IPv4 packet at the front of `bytes` for `mtu`. `None` if that is no IPv4 packet.
    pub(super) fn new(bytes: &'a [u8], mtu: u32) -> Option<Self> {
        let fixed = bytes.first_chunk::<20>()?;
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let header = bytes.get(..header_len).filter(|h| h.len() >= 20)?;
        let payload = bytes.get(header_len..total)?;
        let mut copied = [0; 40];
        let copied_len = copy_options(&header[20..], &mut copied);
        let field = u16::from_be_bytes([fixed[6], fixed[7]]);
        let mtu = mtu.max(MIN_MTU) as usize;
        Some(Self { header, payload, copied, copied_len, field, done: 0, mtu })
    }

    /// Whether all has been written.
    pub(super) fn is_done(&self) -> bool {
        self.done >= self.payload.len()
    }

    /// Writes the next fragment to the front of `out`, which must hold the MTU; its length, or `None` after the last.
    pub(super) fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        let left = self.payload.get(self.done..).filter(|left| !left.is_empty())?;
        let header_len = if self.done == 0 { self.header.len() } else { 20 + self.copied_len };
        let room = self.mtu - header_len;
        let (data, last) = if left.len() <= room { (left, true) } else { (&left[..room & !7], false) };
        let total = header_len + data.len();
        let packet = out.get_mut(..total)?;
        packet[..20].copy_from_slice(&self.header[..20]);
        if self.done == 0 {
            packet[20..header_len].copy_from_slice(&self.header[20..]);
        } else {
            packet[20..header_len].copy_from_slice(&self.copied[..self.copied_len]);
        }
        packet[0] = 0x40 | (header_len / 4) as u8;
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        let offset = (self.field & OFFSET_MASK) + (self.done / 8) as u16;
        let more = if last { self.field & MORE_FRAGMENTS } else { MORE_FRAGMENTS };
        packet[6..8].copy_from_slice(&(more | offset & OFFSET_MASK).to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..header_len]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet[header_len..].copy_from_slice(data);
        self.done += data.len();
        Some(total)
    }
}

/// Copies options that go into every fragment and pads them to a multiple of 4; returns their length.
fn copy_options(mut options: &[u8], out: &mut [u8; 40]) -> usize {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const COPIED: u8 = 0x80;
    let mut len = 0;
    loop {
        match *options {
            [NO_OPERATION, ref rest @ ..] => options = rest,
            [kind, size, ..] if kind != END && size >= 2 && usize::from(size) <= options.len() => {
                let (option, rest) = options.split_at(usize::from(size));
                if kind & COPIED != 0 {
                    out[len..len + option.len()].copy_from_slice(option);
                    len += option.len();
                }
                options = rest;
            }
            _ => return len.next_multiple_of(4),
        }
    }
}
