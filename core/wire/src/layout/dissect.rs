//! Reading a frame's headers, once.
//!
//! Source: IEEE 802.1Q, RFC 791, RFC 1858 and 3128 (fragment attacks), RFC 8200, RFC 768, RFC 9293, RFC 792,
//! RFC 4443, RFC 826.

use super::{Fragment, Layout, Malformed};
use crate::checksum::Sum;
use crate::field::chunk;
use crate::ipv6_ext::MAX_IPV6_EXTENSIONS;
use crate::{ethertype, ipv6_ext, protocol};

/// Parses `frame` (from the Ethernet header, without FCS) once.
///
/// Checked: lengths of every header against the frame, the IPv4 header checksum, IPv4 option lengths, fragment
/// reach and overlap, order and number of IPv6 extension headers. Not checked: transport checksums, addresses.
/// Bytes behind the IP packet (Ethernet padding) are ignored. An IPv6 packet longer than 65,535 bytes (payload
/// length above 65,495, or a jumbogram of RFC 2675) does not fit [`Layout::ip_len`] and is refused.
///
/// Of a later fragment, `protocol` is what its own header says; behind an IPv6 fragment header that may be an
/// extension header, so IPv6 fragments of one datagram agree in addresses and identification only.
///
/// O(headers); allocates nothing.
///
/// # Errors
/// The first thing wrong with the frame. A frame of an unknown EtherType is not an error: `ip_version` is 0.
#[inline]
pub fn dissect(frame: &[u8]) -> Result<Layout, Malformed> {
    if let Some([.., 8, 0]) = frame.first_chunk::<14>()
        && let Some(layout) =
            plain_ipv4(frame, 14, Layout { ethertype: ethertype::IPV4, ..Layout::default() })
    {
        return Ok(layout);
    }
    general(frame)
}

/// What the Ethernet header of `frame` and its outer two tags say, for who passes frames on whose contents are not its business:
/// `ip_version` is 0 whatever follows, and tags that are cut off or come third are not looked at.
///
/// # Errors
/// [`Malformed::EthernetTruncated`].
pub fn dissect_link(frame: &[u8]) -> Result<Layout, Malformed> {
    let mut layout = Layout::default();
    match link(frame, &mut layout) {
        Ok(at) => layout.l3_offset = at as u16,
        Err(Malformed::EthernetTruncated) => return Err(Malformed::EthernetTruncated),
        Err(_) => {}
    }
    Ok(layout)
}

/// As [`dissect`] for an IP packet without a header of its link, as the kernel hands it to programs: offsets count from
/// the first byte of the IP header, so `l3_offset` is 0.
///
/// # Errors
/// As [`dissect`]; [`Malformed::Ipv4Truncated`] for an empty packet. Of another version than 4 and 6 nothing is known.
#[inline]
pub fn dissect_packet(packet: &[u8]) -> Result<Layout, Malformed> {
    let link = |ethertype| Layout { ethertype, ..Layout::default() };
    match packet.first().ok_or(Malformed::Ipv4Truncated)? >> 4 {
        4 => match plain_ipv4(packet, 0, link(ethertype::IPV4)) {
            Some(plain) => Ok(plain),
            None => network_v4(packet, 0, link(ethertype::IPV4)),
        },
        6 => network_v6(packet, 0, link(ethertype::IPV6)),
        _ => Ok(Layout::default()),
    }
}

/// The fast path: an unfragmented UDP or TCP packet over IPv4 without options at `l3`, whose link part `link` already
/// has. `None` sends the frame to [`network_v4`], which knows what is wrong or unusual about it; both agree wherever
/// this one answers.
#[inline(always)]
fn plain_ipv4(frame: &[u8], l3: u16, link: Layout) -> Option<Layout> {
    // Every field lies in the first 40 bytes, so one length check serves for all of them: Ethernet pads to 60.
    let packet = frame.get(usize::from(l3)..)?;
    let head = packet.first_chunk::<40>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let ip_len = word(2);
    let usual =
        head[0] == 0x45 && word(6) & 0x3fff == 0 && usize::from(ip_len) <= packet.len() && ip_len >= 28;
    if !usual || !ipv4_header_sum_is_valid(head.first_chunk()?) {
        return None;
    }
    let (header_len, tcp_flags) = match head[9] {
        protocol::UDP => {
            let udp_len = word(24);
            if udp_len < 8 || udp_len > ip_len - 20 {
                return None;
            }
            (8, 0)
        }
        protocol::TCP => {
            let header_len = u16::from(head[32] >> 4) * 4;
            if header_len < 20 || header_len > ip_len - 20 {
                return None;
            }
            (header_len, head[33])
        }
        _ => return None,
    };
    Some(Layout {
        ip_version: 4,
        protocol: head[9],
        tos: head[1],
        l3_offset: l3,
        l4_offset: l3 + 20,
        payload_offset: l3 + 20 + header_len,
        ip_len,
        src_port: word(20),
        dst_port: word(22),
        tcp_flags,
        ..link
    })
}

/// Whether the 20 bytes without options sum to all ones. The sum is the same in either byte order (RFC 1071 §2 B),
/// so words are taken as they lie in memory.
#[inline]
fn ipv4_header_sum_is_valid(header: &[u8; 20]) -> bool {
    let (quads, _) = header.as_chunks::<4>();
    let sum: u64 = quads.iter().map(|q| u64::from(u32::from_ne_bytes(*q))).sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

/// Any frame, step by step.
fn general(frame: &[u8]) -> Result<Layout, Malformed> {
    let mut layout = Layout::default();
    let l3 = link(frame, &mut layout)?;
    layout.l3_offset = l3 as u16;
    match layout.ethertype {
        ethertype::IPV4 => match plain_ipv4(frame, l3 as u16, layout) {
            Some(plain) => Ok(plain),
            None => network_v4(frame, l3, layout),
        },
        ethertype::IPV6 => network_v6(frame, l3, layout),
        ethertype::ARP => match frame.get(l3..).and_then(|p| p.first_chunk::<28>()) {
            // Hardware type Ethernet, protocol IPv4, address lengths 6 and 4 (RFC 826).
            Some([0, 1, 8, 0, 6, 4, ..]) => Ok(layout),
            _ => Err(Malformed::ArpMalformed),
        },
        _ => Ok(layout),
    }
}

/// Reads the Ethernet header and up to two tags; returns where the network header starts.
fn link(frame: &[u8], layout: &mut Layout) -> Result<usize, Malformed> {
    let header = frame.first_chunk::<14>().ok_or(Malformed::EthernetTruncated)?;
    layout.ethertype = u16::from_be_bytes([header[12], header[13]]);
    let mut at = 14;
    while ethertype::is_vlan(layout.ethertype) {
        let [a, b, c, d] = *chunk::<4>(frame, at).ok_or(Malformed::VlanTruncated)?;
        let tag = layout.vlan.get_mut(usize::from(layout.vlan_tags)).ok_or(Malformed::VlanTooDeep)?;
        *tag = u16::from_be_bytes([a, b]) & 0x0fff;
        layout.vlan_tags += 1;
        layout.ethertype = u16::from_be_bytes([c, d]);
        at += 4;
    }
    Ok(at)
}

/// Reads the IPv4 header at `l3` and what follows it.
fn network_v4(frame: &[u8], l3: usize, mut layout: Layout) -> Result<Layout, Malformed> {
    let fixed = chunk::<20>(frame, l3).ok_or(Malformed::Ipv4Truncated)?;
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    if fixed[0] >> 4 != 4 || header_len < 20 {
        return Err(Malformed::Ipv4HeaderLength);
    }
    let header = frame.get(l3..l3 + header_len).ok_or(Malformed::Ipv4Truncated)?;
    let ip_len = u16::from_be_bytes([fixed[2], fixed[3]]);
    let total = usize::from(ip_len);
    if total < header_len {
        return Err(Malformed::Ipv4TotalLength);
    }
    let packet = frame.get(..l3 + total).ok_or(Malformed::Ipv4TotalLength)?;
    if !Sum::ZERO.bytes(header).is_valid() {
        return Err(Malformed::Ipv4Checksum);
    }
    ipv4_options(&header[20..])?;

    layout.ip_version = 4;
    layout.tos = fixed[1];
    layout.ip_len = ip_len;
    layout.protocol = fixed[9];
    let field = u16::from_be_bytes([fixed[6], fixed[7]]);
    let (more, offset) = (field & 0x2000 != 0, usize::from(field & 0x1fff) * 8);
    if more || offset != 0 {
        layout.fragment_id = u32::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        layout.fragment = if offset == 0 { Fragment::First } else { Fragment::Later };
        if offset + total > usize::from(u16::MAX) || overlaps_tcp_header(layout.protocol, offset) {
            return Err(Malformed::Ipv4Fragment);
        }
    }
    if layout.fragment == Fragment::Later {
        return Ok(layout);
    }
    transport(packet, l3 + header_len, layout)
}

/// Checks that every option has its length and ends inside the header (RFC 791 §3.1).
fn ipv4_options(mut options: &[u8]) -> Result<(), Malformed> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    loop {
        match *options {
            [] | [END, ..] => return Ok(()),
            [NO_OPERATION, ref rest @ ..] => options = rest,
            [_, len, ..] if len >= 2 => {
                options = options.get(usize::from(len)..).ok_or(Malformed::Ipv4Options)?;
            }
            _ => return Err(Malformed::Ipv4Options),
        }
    }
}

/// A fragment at offset 8 would rewrite the second half of a TCP header after filters have seen the first
/// (RFC 1858 §4.2, RFC 3128).
fn overlaps_tcp_header(proto: u8, offset: usize) -> bool {
    proto == protocol::TCP && offset == 8
}

/// Reads the IPv6 header at `l3`, its extension headers and what follows them.
fn network_v6(frame: &[u8], l3: usize, mut layout: Layout) -> Result<Layout, Malformed> {
    let fixed = chunk::<40>(frame, l3).ok_or(Malformed::Ipv6Truncated)?;
    if fixed[0] >> 4 != 6 {
        return Err(Malformed::Ipv6Version);
    }
    let payload_len = u16::from_be_bytes([fixed[4], fixed[5]]);
    let ip_len = payload_len.checked_add(40).ok_or(Malformed::Ipv6PayloadLength)?;
    let packet = frame.get(..l3 + usize::from(ip_len)).ok_or(Malformed::Ipv6PayloadLength)?;
    layout.ip_version = 6;
    layout.tos = fixed[0] << 4 | fixed[1] >> 4;
    layout.ip_len = ip_len;
    layout.protocol = fixed[6];
    let l4 = ipv6_extensions(packet, l3 + 40, &mut layout)?;
    if layout.fragment == Fragment::Later || layout.protocol == protocol::IPV6_NO_NEXT {
        return Ok(layout);
    }
    transport(packet, l4, layout)
}

/// Walks the extension headers from `at` (RFC 8200 §4) and returns where the upper layer starts, or, in a later
/// fragment, where its data starts.
fn ipv6_extensions(packet: &[u8], mut at: usize, layout: &mut Layout) -> Result<usize, Malformed> {
    let mut seen = 0;
    let mut fragmented = false;
    while protocol::is_ipv6_extension(layout.protocol) {
        if seen == MAX_IPV6_EXTENSIONS {
            return Err(Malformed::Ipv6ExtensionsTooMany);
        }
        let is_fragment_header = layout.protocol == protocol::IPV6_FRAGMENT;
        // Hop-by-hop options only directly behind the IPv6 header; one fragment header at most (§4.1).
        let misplaced = layout.protocol == protocol::IPV6_HOP_BY_HOP && seen != 0;
        if misplaced || is_fragment_header && fragmented {
            return Err(Malformed::Ipv6Extension);
        }
        // The shortest extension header has 8 bytes.
        let head = chunk::<8>(packet, at).ok_or(Malformed::Ipv6Extension)?;
        let len = ipv6_ext::header_len(layout.protocol, head);
        if layout.protocol == protocol::AH && len < ipv6_ext::AH_MIN_LEN {
            return Err(Malformed::Ipv6Extension);
        }
        layout.protocol = head[0];
        seen += 1;
        at += len;
        if at > packet.len() {
            return Err(Malformed::Ipv6Extension);
        }
        if is_fragment_header {
            fragmented = true;
            ipv6_fragment(head, packet.len() - at, layout)?;
            if layout.fragment == Fragment::Later {
                break;
            }
        }
    }
    Ok(at)
}

/// Notes what a fragment header with `data_len` bytes behind it says. An atomic fragment (offset 0, no more) is a
/// whole datagram (RFC 6946).
fn ipv6_fragment(header: &[u8; 8], data_len: usize, layout: &mut Layout) -> Result<(), Malformed> {
    let field = u16::from_be_bytes([header[2], header[3]]);
    let (more, offset) = (field & 1 != 0, usize::from(field & 0xfff8));
    if !more && offset == 0 {
        return Ok(());
    }
    if offset + data_len > usize::from(u16::MAX) || overlaps_tcp_header(layout.protocol, offset) {
        return Err(Malformed::Ipv6Fragment);
    }
    layout.fragment = if offset == 0 { Fragment::First } else { Fragment::Later };
    layout.fragment_id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    Ok(())
}

/// Reads the transport header at `l4` of `packet`, which ends where the IP packet ends.
fn transport(packet: &[u8], l4: usize, mut layout: Layout) -> Result<Layout, Malformed> {
    let data = packet.get(l4..).unwrap_or_default();
    let at = l4 as u16;
    layout.l4_offset = at;
    match (layout.protocol, layout.ip_version) {
        (protocol::UDP, _) => {
            let header = data.first_chunk::<8>().ok_or(Malformed::UdpLength)?;
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            // The length counts the whole datagram, of which a first fragment holds a part. Bytes behind it are
            // legal (surplus area, RFC 9868 §4).
            if len < 8 || (len > data.len() && layout.fragment == Fragment::Whole) {
                return Err(Malformed::UdpLength);
            }
            set_ports(&mut layout, [header[0], header[1], header[2], header[3]]);
            layout.payload_offset = at + 8;
        }
        (protocol::TCP, _) => {
            let header = data.first_chunk::<20>().ok_or(Malformed::TcpLength)?;
            let header_len = u16::from(header[12] >> 4) * 4;
            if header_len < 20 || usize::from(header_len) > data.len() {
                return Err(Malformed::TcpLength);
            }
            set_ports(&mut layout, [header[0], header[1], header[2], header[3]]);
            layout.tcp_flags = header[13];
            layout.payload_offset = at + header_len;
        }
        (protocol::ICMPV4, 4) | (protocol::ICMPV6, 6) => {
            let header = data.first_chunk::<8>().ok_or(Malformed::IcmpTruncated)?;
            layout.src_port = u16::from_be_bytes([header[0], header[1]]);
            layout.payload_offset = at + 8;
        }
        _ if data.is_empty() => layout.l4_offset = 0,
        _ => {}
    }
    Ok(layout)
}

fn set_ports(layout: &mut Layout, ports: [u8; 4]) {
    layout.src_port = u16::from_be_bytes([ports[0], ports[1]]);
    layout.dst_port = u16::from_be_bytes([ports[2], ports[3]]);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::build::{self, FrameBuilder};
    use crate::tcp;
    use proptest::prelude::*;

    /// One frame of every kind; kinds are 0–4.
    pub(in crate::layout) fn base(kind: u8) -> FrameBuilder {
        let (a, b) = ([10, 0, 0, 1], [10, 1, 0, 2]);
        let (c, d) = ([0xfd00, 0, 0, 0, 0, 0, 0, 1], [0xfd00, 0, 0, 0, 0, 0, 0, 2]);
        match kind {
            0 => build::udp4(a, b).ports(5004, 5006).payload_len(20),
            1 => build::udp6(c, d).ports(5004, 5006).payload_len(20),
            2 => build::tcp4(a, b).ports(80, 1024).options(&[1, 1, 1]),
            3 => build::tcp6(c, d).ports(80, 1024).tcp(|t| t.options.timestamps = Some((1, 2))),
            _ => build::icmp4_echo(a, b, 1, 2),
        }
    }

    /// 64-byte UDP frame without FCS: 10.0.0.1:5004 > 10.1.0.2:5006, 18 bytes of payload, DSCP EF.
    fn udp() -> [u8; 60] {
        let mut f = [0u8; 60];
        f[12] = 8;
        f[14..42].copy_from_slice(&[
            0x45, 0xb8, 0, 46, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 2, 0x13, 0x8c, 0x13, 0x8e,
            0, 26, 0, 0,
        ]);
        let sum = crate::checksum::of(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        f
    }

    proptest! {
        #[test]
        fn a_packet_without_its_link_is_read_as_in_a_frame(kind in 0u8..5, cut in 0usize..120, at in 0usize..60, octet: u8) {
            let mut frame = base(kind).build();
            let len = frame.len();
            frame[14 + at % (len - 14)] = octet;
            // A version that does not fit the frame's EtherType says something else in a frame.
            prop_assume!(frame[14] >> 4 == if frame[12] == 8 { 4 } else { 6 });
            frame.truncate(len.saturating_sub(cut).max(15));
            let shifted = |l: Layout| {
                let back = |offset: u16| offset.saturating_sub(14);
                let (l4_offset, payload_offset) = (back(l.l4_offset), back(l.payload_offset));
                Layout { l3_offset: 0, l4_offset, payload_offset, ..l }
            };
            prop_assert_eq!(dissect_packet(&frame[14..]), dissect(&frame).map(shifted));
        }

        #[test]
        fn no_packet_panics(packet in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = dissect_packet(&packet);
        }
    }

    #[test]
    fn plain_udp() {
        let layout = dissect(&udp()).unwrap();
        let expected = Layout {
            ethertype: 0x0800,
            ip_version: 4,
            protocol: 17,
            tos: 0xb8,
            l3_offset: 14,
            l4_offset: 34,
            payload_offset: 42,
            ip_len: 46,
            src_port: 5004,
            dst_port: 5006,
            ..Layout::default()
        };
        assert_eq!(layout, expected);
        let link = Layout { ethertype: 0x0800, l3_offset: 14, ..Layout::default() };
        assert_eq!(network_v4(&udp(), 14, link), Ok(expected));
    }

    #[test]
    fn every_cut_and_flip_is_an_error_or_the_same_in_both_paths() {
        let frame = udp();
        for cut in 0..60 {
            assert!(dissect(&frame[..cut]).is_err());
        }
        for bit in 0..60 * 8 {
            let mut f = frame;
            f[bit / 8] ^= 1 << (bit % 8);
            let link = Layout { ethertype: 0x0800, l3_offset: 14, ..Layout::default() };
            if let Some(layout) = plain_ipv4(&f, 14, link) {
                assert_eq!(network_v4(&f, 14, link), Ok(layout));
            }
            if (14 * 8..34 * 8).contains(&bit) {
                // One flipped bit in the header never survives the checksum.
                assert!(dissect(&f).is_err(), "bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_fast_path_agrees_with_the_slow_one(
            kind in prop::sample::select(vec![0u8, 2, 4]), payload in 0usize..60, damage in proptest::option::of((0usize..44, any::<u8>())),
        ) {
            let mut frame = base(kind).options(&[]).payload_len(payload).build();
            if let Some((at, value)) = damage {
                frame[14 + at] = value;
                frame[24..26].fill(0);
                let sum = crate::checksum::of(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            let link = Layout { ethertype: ethertype::IPV4, l3_offset: 14, ..Layout::default() };
            let fast = plain_ipv4(&frame, 14, link);
            if let Some(layout) = fast {
                prop_assert_eq!(network_v4(&frame, 14, link), Ok(layout));
            }
            prop_assert!(damage.is_some() || kind == 4 || fast.is_some(), "a plain packet missed the fast path");
        }
    }

    #[test]
    fn every_fault_has_its_name() {
        let v4 = || base(2).build();
        let v6 = || base(1).build();
        let edit = |mut frame: Vec<u8>, edits: &[(usize, u8)]| {
            for (at, value) in edits {
                frame[*at] = *value;
            }
            if frame[12..14] == [8, 0] && (5..=10).contains(&(frame[14] & 15)) {
                let end = 14 + usize::from(frame[14] & 15) * 4;
                frame[24..26].fill(0);
                let sum = crate::checksum::of(&frame[14..end]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            frame
        };
        let check = |frame: &[u8], error: Malformed| assert_eq!(dissect(frame), Err(error), "{frame:02x?}");
        check(&v4()[..13], Malformed::EthernetTruncated);
        check(&base(0).vlan(1, 0).build()[..17], Malformed::VlanTruncated);
        check(&base(0).vlan(1, 0).vlan(1, 0).vlan(1, 0).build(), Malformed::VlanTooDeep);
        check(&v4()[..33], Malformed::Ipv4Truncated);
        check(&edit(v4(), &[(14, 0x44)]), Malformed::Ipv4HeaderLength);
        check(&edit(v4(), &[(14, 0x55)]), Malformed::Ipv4HeaderLength);
        check(&edit(v4(), &[(16, 4)]), Malformed::Ipv4TotalLength);
        check(&edit(v4(), &[(17, 10)]), Malformed::Ipv4TotalLength);
        let mut broken = v4();
        broken[22] ^= 1;
        check(&broken, Malformed::Ipv4Checksum);
        check(&edit(v4(), &[(34, 7), (35, 0)]), Malformed::Ipv4Options);
        check(&edit(v4(), &[(34, 7), (35, 1)]), Malformed::Ipv4Options);
        check(&edit(v4(), &[(34, 7), (35, 5)]), Malformed::Ipv4Options);
        check(&base(2).fragment(8, false).build(), Malformed::Ipv4Fragment);
        check(&base(0).fragment(65_528, false).build(), Malformed::Ipv4Fragment);
        check(&v6()[..53], Malformed::Ipv6Truncated);
        check(&edit(v6(), &[(14, 0x40)]), Malformed::Ipv6Version);
        check(&edit(v6(), &[(18, 1)]), Malformed::Ipv6PayloadLength);
        check(&edit(v6(), &[(18, 255), (19, 255)]), Malformed::Ipv6PayloadLength);
        check(&base(1).extension(60, &[]).extension(0, &[]).build(), Malformed::Ipv6Extension);
        check(&edit(base(1).extension(60, &[]).build(), &[(55, 9)]), Malformed::Ipv6Extension);
        let deep = (0..9).fold(base(1), |b, _| b.extension(60, &[]));
        check(&deep.build(), Malformed::Ipv6ExtensionsTooMany);
        check(&base(3).fragment(8, true).build(), Malformed::Ipv6Fragment);
        check(&base(1).fragment(65_528, false).build(), Malformed::Ipv6Fragment);
        check(&edit(v6(), &[(58, 1)]), Malformed::UdpLength);
        check(&edit(v6(), &[(59, 7)]), Malformed::UdpLength);
        check(&edit(v4(), &[(14 + 24 + 12, 0x40)]), Malformed::TcpLength);
        check(&edit(v4(), &[(14 + 24 + 12, 0xf0)]), Malformed::TcpLength);
        check(&edit(base(4).build(), &[(17, 27)]), Malformed::IcmpTruncated);
        check(&edit(v4(), &[(12, 8), (13, 6)]), Malformed::ArpMalformed);
    }

    #[test]
    fn what_is_not_ip_passes() {
        let mut frame = vec![0; 60];
        frame[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        let arp = dissect(&frame).unwrap();
        assert_eq!((arp.ethertype, arp.ip_version, arp.l3_offset, arp.l4_offset), (0x0806, 0, 14, 0));
        frame[12..14].copy_from_slice(&[0, 38]);
        assert_eq!(dissect(&frame).unwrap().ethertype, 38);
        let esp = {
            let mut frame = base(0).build();
            frame[23] = protocol::ESP;
            frame[24..26].fill(0);
            let sum = crate::checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            dissect(&frame).unwrap()
        };
        assert_eq!((esp.protocol, esp.l4_offset, esp.payload_offset, esp.src_port), (50, 34, 0, 0));
        let flags = base(2).flags(tcp::flags::SYN | tcp::flags::ECE).build();
        assert_eq!(dissect(&flags).unwrap().tcp_flags, 0x42);
    }
}
