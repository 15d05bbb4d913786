//! What the rate control reads from a TCP segment.

use perhop_wire::tcp::{HEADER_LEN, flags};
use perhop_wire::tcp_options::{Options as Walk, TcpOption};
use perhop_wire::{Fragment, Layout, ipv6, protocol};

/// Kinds of options that make a connection untouchable: a rewritten window would break the signature (RFC 2385,
/// RFC 5925), or is shared by several paths (RFC 8684).
const MD5: u8 = 19;
const AUTHENTICATION: u8 = 29;
const MULTIPATH: u8 = 30;
/// No-operation twice, then time-stamps: how nearly every stack lays out the options of a segment with data.
const PLAIN_TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

/// State of the checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Right, and kept right.
    Complete,
    /// A network card will complete it: it holds the pseudo-header's part and is not touched.
    Partial,
}

/// A segment with everything the machine needs to know of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number; means something with the ACK flag.
    pub ack: u32,
    /// Window as written, before scaling.
    pub window: u16,
    /// The eight flags.
    pub flags: u8,
    /// Octets of data.
    pub payload: u32,
    /// Bytes from the IP header to the data.
    pub headers: u32,
    /// Options.
    pub options: Options,
}

/// What the options say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window shift, 14 at most.
    pub shift: Option<u8>,
    /// Clock value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// MD5 signature.
    pub md5: bool,
    /// Authentication option.
    pub authenticated: bool,
    /// Multipath TCP.
    pub multipath: bool,
}

impl Options {
    #[inline]
    fn read(bytes: &[u8]) -> Self {
        if let Some((&PLAIN_TIMESTAMPS, &[a, b, c, d, e, f, g, h])) = bytes.split_first_chunk() {
            let stamps = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
            return Self { timestamps: Some(stamps), ..Self::default() };
        }
        Self::walk(bytes)
    }

    /// Any options, up to the first malformed one.
    fn walk(bytes: &[u8]) -> Self {
        let mut all = Self::default();
        for option in Walk::new(bytes).map_while(Result::ok) {
            match option {
                TcpOption::Mss(mss) => all.mss = Some(mss),
                TcpOption::WindowScale(shift) => all.shift = Some(shift.min(14)),
                TcpOption::Timestamps { value, echo } => all.timestamps = Some((value, echo)),
                TcpOption::Unknown { kind: MD5, .. } => all.md5 = true,
                TcpOption::Unknown { kind: AUTHENTICATION, .. } => all.authenticated = true,
                TcpOption::Unknown { kind: MULTIPATH, .. } => all.multipath = true,
                _ => {}
            }
        }
        all
    }
}

/// Whether an authentication header (RFC 4302) is among the extension headers between the IPv6 header at `l3` and the
/// segment at `l4`: it covers what a window is written in.
#[inline]
fn authenticates(frame: &[u8], l3: usize, l4: usize) -> bool {
    let mut at = l3 + ipv6::HEADER_LEN;
    let mut next = frame.get(l3 + 6).copied();
    while at < l4 {
        if next == Some(protocol::AH) {
            return true;
        }
        let Some([after, length]) = frame.get(at..).and_then(|header| header.first_chunk()) else {
            return false;
        };
        (next, at) = (Some(*after), at + 8 + 8 * usize::from(*length));
    }
    false
}

impl Segment {
    /// Reads the segment of a dissected frame; `None` if it is not TCP, is a fragment (of which neither the length nor
    /// the checksum is here), or is not what `layout` says.
    #[inline]
    pub fn read(frame: &[u8], layout: &Layout) -> Option<Self> {
        if layout.protocol != protocol::TCP || layout.fragment != Fragment::Whole || layout.l4_offset == 0 {
            return None;
        }
        let l3 = usize::from(layout.l3_offset);
        let data = usize::from(layout.payload_offset);
        let segment = frame.get(usize::from(layout.l4_offset)..)?;
        let header = segment.first_chunk::<HEADER_LEN>()?;
        let options = frame.get(usize::from(layout.l4_offset) + HEADER_LEN..data)?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let headers = data.checked_sub(l3)? as u32;
        if layout.ip_version == 6 && authenticates(frame, l3, usize::from(layout.l4_offset)) {
            return None;
        }
        Some(Self {
            seq: word(4),
            ack: word(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            flags: header[13],
            payload: u32::from(layout.ip_len).checked_sub(headers)?,
            headers,
            options: if options.is_empty() { Options::default() } else { Options::read(options) },
        })
    }

    /// Whether all of `mask` are set.
    #[inline]
    pub const fn has(&self, mask: u8) -> bool {
        self.flags & mask == mask
    }

    /// Number behind the last that this segment takes up: SYN and FIN count one each.
    #[inline]
    pub const fn seq_end(&self) -> u32 {
        let counted = self.has(flags::SYN) as u32 + self.has(flags::FIN) as u32;
        self.seq.wrapping_add(self.payload).wrapping_add(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_wire::{build, dissect};
    use proptest::prelude::*;

    #[test]
    fn a_segment_is_read_as_it_was_built() {
        for tags in 0..3u16 {
            let mut frame = build::tcp6([0xfd00, 0, 0, 0, 0, 0, 0, 1], [0xfd00, 0, 0, 0, 0, 0, 0, 2])
                .seq_ack(u32::MAX, 7)
                .flags(flags::SYN | flags::ACK)
                .window(512)
                .tcp(|t| {
                    (t.options.mss, t.options.window_scale) = (Some(1440), Some(15));
                    t.options.timestamps = Some((3, 4));
                })
                .payload(b"early");
            for vid in 0..tags {
                frame = frame.vlan(vid + 1, 0);
            }
            let frame = frame.build();
            let segment = Segment::read(&frame, &dissect(&frame).unwrap()).unwrap();
            assert_eq!((segment.seq, segment.ack, segment.window, segment.payload), (u32::MAX, 7, 512, 5));
            assert_eq!(segment.seq_end(), 5, "SYN and five octets from the last number of the space");
            assert_eq!((segment.options.mss, segment.options.shift), (Some(1440), Some(14)));
            assert_eq!((segment.options.timestamps, segment.headers), (Some((3, 4)), 40 + 20 + 20));
        }
    }

    #[test]
    fn signatures_and_paths_are_noticed_and_fragments_left_alone() {
        let odd = |kind: u8, rest: &[u8]| {
            let mut options = vec![1, 1, kind, rest.len() as u8 + 2];
            options.extend(rest);
            Options::read(&options)
        };
        assert!(odd(MD5, &[0; 16]).md5);
        assert!(odd(AUTHENTICATION, &[0; 14]).authenticated);
        assert!(odd(MULTIPATH, &[0; 10]).multipath);
        assert_eq!(odd(8, &[0, 0, 0, 9, 0, 0, 0, 8]).timestamps, Some((9, 8)));
        let first = build::tcp4([10, 0, 0, 1], [10, 0, 0, 2]).payload_len(64).fragment(0, true).build();
        assert_eq!(Segment::read(&first, &dissect(&first).unwrap()), None);
        let udp = build::udp4([10, 0, 0, 1], [10, 0, 0, 2]).build();
        assert_eq!(Segment::read(&udp, &dissect(&udp).unwrap()), None);
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_walk(value: u32, echo: u32) {
            let mut bytes = PLAIN_TIMESTAMPS.to_vec();
            bytes.extend(value.to_be_bytes());
            bytes.extend(echo.to_be_bytes());
            prop_assert_eq!(Options::read(&bytes), Options::walk(&bytes));
        }

        #[test]
        fn no_frame_and_no_foreign_layout_panics(frame in proptest::collection::vec(any::<u8>(), 0..120)) {
            let foreign = build::tcp4([10, 0, 0, 1], [10, 0, 0, 2]).vlan(1, 1).build();
            let _ = Segment::read(&frame, &dissect(&foreign).unwrap());
        }
    }
}
