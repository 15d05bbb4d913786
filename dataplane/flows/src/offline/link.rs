//! From a captured frame of any usual link type to an Ethernet frame that the parser of the data plane reads.
//!
//! Link types are those of the tcpdump project's registry (LINKTYPE_*). Encapsulations that leave no UDP or TCP
//! 5-tuple of their own are taken off, up to [`MAX_DEPTH`] of them: PPPoE, MPLS, IP in IP, GRE; so is GTP-U, whose outer
//! 5-tuple is that of a whole base station.

use super::juniper::{self, juniper};
use perhop_wire::{Fragment, Layout, Malformed, dissect, ethertype, protocol};

/// Encapsulations taken off one inside the other.
const MAX_DEPTH: usize = 4;
/// Apple's header: its least length, and what it says where a packet follows. Its link type is 258, and was 149 in the beginning.
const PKTAP_HEADER: usize = 108;
const PKTAP_PACKET: u32 = 1;
const PPPOE_SESSION: u16 = 0x8864;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const TRANSPARENT_BRIDGING: u16 = 0x6558;
/// Where the third VLAN tag of an Ethernet frame begins with its type.
const THIRD_TAG: usize = 20;
const GTP_U: u16 = 2152;
const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;

/// Why a frame is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Its link type is unknown, or a header is wrong.
    Malformed,
    /// The capture ends within its headers.
    Cut,
}

/// Puts the frame into `into` as Ethernet; `None` for an unknown link type or a frame shorter than its link header.
pub(super) fn as_ethernet(link_type: u32, frame: &[u8], into: &mut Vec<u8>) -> Option<()> {
    into.clear();
    let (ether_type, packet) = match link_type {
        1 => {
            into.extend_from_slice(frame);
            return Some(());
        }
        // Raw IP: the version tells.
        12 | 14 | 101 | 228 | 229 => (by_version(frame), frame),
        // Null (host byte order), loopback and OpenBSD's: an address family, which the IP version tells better.
        0 | 108 => ip_behind(frame, 4)?,
        109 => ip_behind(frame, 12)?,
        // OpenBSD's packet filter log: its length, rounded up to 4, comes first.
        117 => ip_behind(frame, usize::from(*frame.first()?).next_multiple_of(4))?,
        // PPP, with or without its address and control bytes; PPPoE without Ethernet.
        9 | 50 => ppp(frame.strip_prefix(&[0xff, 3]).unwrap_or(frame))?,
        51 => ppp(frame.get(6..)?)?,
        // Cisco HDLC: address, control, EtherType.
        104 => (word(frame, 2)?, frame.get(4..)?),
        105 => ieee80211(frame)?,
        // Radiotap: version, pad, length (little endian).
        127 => ieee80211(frame.get(usize::from(word_le(frame, 2)?)..)?)?,
        // FDDI: frame control, of LLC frames 0x5_ or 0xd_, and two addresses.
        10 => match frame.first()? & 0x70 {
            0x50 => llc(frame.get(13..)?)?,
            _ => (0, frame),
        },
        6 => token_ring(frame)?,
        // IP over InfiniBand: a global route header, EtherType, two bytes that mean nothing.
        242 => (word(frame, 40)?, frame.get(44..)?),
        107 => frame_relay(frame)?,
        _ if juniper::LINK_TYPES.contains(&link_type) => match juniper(link_type, frame)? {
            (juniper::ETHERNET, inside) => {
                into.extend_from_slice(inside);
                return Some(());
            }
            (ether_type, packet) => (ether_type, packet),
        },
        // Linux cooked: protocol in bytes 14–15 of 16; Linux cooked 2: in bytes 0–1 of 20.
        113 => (word(frame, 14)?, frame.get(16..)?),
        276 => (word(frame, 0)?, frame.get(20..)?),
        // Headers that name the link type of what follows: per-packet information, Apple's.
        192 => return inner(u32::from(word_le(frame, 4)?), frame, usize::from(word_le(frame, 2)?), into),
        258 | 149 => {
            let long = |at| Some(u32::from(word_le(frame, at)?) | u32::from(word_le(frame, at + 2)?) << 16);
            let (header, kind) = (long(0)? as usize, long(4)?);
            match kind {
                PKTAP_PACKET if header >= PKTAP_HEADER => return inner(long(8)?, frame, header, into),
                // It tells of no packet.
                _ => (0, frame),
            }
        }
        239 => nflog(frame)?,
        _ => return None,
    };
    wrap(ether_type, packet, into);
    Some(())
}

/// A link header that names another link type; it may not name itself again.
fn inner(link_type: u32, frame: &[u8], header: usize, into: &mut Vec<u8>) -> Option<()> {
    let frame = frame.get(header..)?;
    if matches!(link_type, 192 | 258 | 149) { None } else { as_ethernet(link_type, frame, into) }
}

fn wrap(ether_type: u16, packet: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&[0; 12]);
    into.extend_from_slice(&ether_type.to_be_bytes());
    into.extend_from_slice(packet);
}

pub(super) fn ip_behind(frame: &[u8], header: usize) -> Option<(u16, &[u8])> {
    let packet = frame.get(header..)?;
    Some((by_version(packet), packet))
}

pub(super) fn by_version(packet: &[u8]) -> u16 {
    match packet.first().map(|b| b >> 4) {
        Some(4) => ethertype::IPV4,
        Some(6) => ethertype::IPV6,
        _ => 0,
    }
}

/// A PPP frame from its protocol field on (RFC 1661 §2), which may be compressed to one byte.
pub(super) fn ppp(frame: &[u8]) -> Option<(u16, &[u8])> {
    let first = *frame.first()?;
    let (number, packet) = match first & 1 {
        1 => (u16::from(first), frame.get(1..)?),
        _ => (word(frame, 0)?, frame.get(2..)?),
    };
    let ether_type = match number {
        0x21 => ethertype::IPV4,
        0x57 => ethertype::IPV6,
        // The rest is control, and none of it IP.
        _ => 0,
    };
    Some((ether_type, packet))
}

/// A data frame of IEEE 802.11 that is not encrypted, with its LLC and SNAP headers.
fn ieee80211(frame: &[u8]) -> Option<(u16, &[u8])> {
    let [control, flags] = *frame.first_chunk()?;
    let (is_data, empty, quality) = (control & 0x0c == 0x08, control & 0x40 != 0, control & 0x80 != 0);
    if !is_data || empty || flags & 0x40 != 0 {
        return Some((0, frame));
    }
    let both_systems = flags & 3 == 3;
    let header = 24 + if both_systems { 6 } else { 0 } + if quality { 2 } else { 0 };
    let header = header + if quality && flags & 0x80 != 0 { 4 } else { 0 };
    let body = frame.get(header..)?;
    llc(body)
}

/// Logical link control with its subnetwork access header (RFC 1042).
pub(super) fn llc(body: &[u8]) -> Option<(u16, &[u8])> {
    match body.strip_prefix(&[0xaa, 0xaa, 3, 0, 0, 0]) {
        Some(snap) => Some((word(snap, 0)?, snap.get(2..)?)),
        None => Some((0, body)),
    }
}

/// IEEE 802.5: access and frame control, two addresses, and a route where the second one's first bit says so.
fn token_ring(frame: &[u8]) -> Option<(u16, &[u8])> {
    let route = if frame.get(8)? & 0x80 == 0 { 0 } else { usize::from(frame.get(14)? & 0x1f) };
    // Frames of another type are the ring's own.
    if frame[1] & 0xc0 == 0x40 { llc(frame.get(14 + route..)?) } else { Some((0, frame)) }
}

/// Two bytes of address, then what RFC 2427 puts behind them.
pub(super) fn frame_relay(frame: &[u8]) -> Option<(u16, &[u8])> {
    match frame.get(2..)? {
        [3, 0xcc, packet @ ..] => Some((ethertype::IPV4, packet)),
        [3, 0x8e, packet @ ..] => Some((ethertype::IPV6, packet)),
        [3, 0, 0x80, 0, 0, 0, snap @ ..] => Some((word(snap, 0)?, snap.get(2..)?)),
        _ => Some((0, frame)),
    }
}

/// Netfilter log: the packet is the TLV of type 9 (lengths and types little endian, rounded up to 4).
fn nflog(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 4;
    loop {
        let len = usize::from(word_le(frame, at)?);
        let kind = word_le(frame, at + 2)?;
        let value = frame.get(at + 4..at.checked_add(len.max(4))?)?;
        if kind == 9 {
            return Some((by_version(value), value));
        }
        at += len.max(4).next_multiple_of(4);
    }
}

pub(super) fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

fn word_le(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*frame.get(at..)?.first_chunk()?))
}

/// What is in a frame.
#[derive(Clone, Copy)]
pub(super) struct Inside {
    pub layout: Layout,
    /// Identifier of a third VLAN tag; 0 = none.
    pub third_vlan: u16,
}

/// Dissects the Ethernet frame `frame`, which becomes that of the packet inside its tunnels; `spare` is scratch.
pub(super) fn dissect_inner(frame: &mut Vec<u8>, spare: &mut Vec<u8>) -> Result<Inside, Unread> {
    let mut inside = dissect_cut(frame)?;
    for _ in 0..MAX_DEPTH {
        let Some((ether_type, packet)) = tunnelled(frame, &inside.layout) else { break };
        if ether_type == TRANSPARENT_BRIDGING {
            spare.clear();
            spare.extend_from_slice(packet);
        } else {
            wrap(ether_type, packet, spare);
        }
        // Not what it seemed, or cut short: the outer packet stands for itself.
        let Ok(deeper) = dissect_cut(spare) else { break };
        std::mem::swap(frame, spare);
        inside = deeper;
    }
    Ok(inside)
}

/// What a packet carries that is a packet again.
fn tunnelled<'a>(frame: &'a [u8], layout: &Layout) -> Option<(u16, &'a [u8])> {
    if layout.ip_version == 0 {
        let body = frame.get(usize::from(layout.l3_offset)..)?;
        return match layout.ethertype {
            // Version and type, code, session, length.
            PPPOE_SESSION => ppp(body.get(6..)?),
            label if MPLS.contains(&label) => {
                let stack = body.chunks_exact(4).position(|label| label[2] & 1 != 0)?;
                ip_behind(body, (stack + 1) * 4)
            }
            _ => None,
        };
    }
    if layout.fragment != Fragment::Whole {
        return None;
    }
    let payload = |at: u16| frame.get(usize::from(at)..).filter(|_| at > 0);
    match layout.protocol {
        IP_IN_IP => Some((ethertype::IPV4, payload(layout.l4_offset)?)),
        IPV6_IN_IP => Some((ethertype::IPV6, payload(layout.l4_offset)?)),
        GRE => gre(payload(layout.l4_offset)?),
        protocol::UDP if layout.dst_port == GTP_U => gtp_u(payload(layout.payload_offset)?),
        _ => None,
    }
}

/// RFC 2784 and RFC 2890; version 0 only.
fn gre(packet: &[u8]) -> Option<(u16, &[u8])> {
    let flags = word(packet, 0)?;
    if flags & 7 != 0 {
        return None;
    }
    let optional = (flags >> 15 & 1) + (flags >> 13 & 1) + (flags >> 12 & 1);
    Some((word(packet, 2)?, packet.get(4 + usize::from(optional) * 4..)?))
}

/// 3GPP TS 29.281 §5.1: version 1, a user packet (type 255) whose length fits.
fn gtp_u(packet: &[u8]) -> Option<(u16, &[u8])> {
    let [first, kind] = *packet.first_chunk()?;
    let optional = first & 7 != 0;
    if first & 0xf0 != 0x30 || kind != 255 || (first & 4 != 0 && packet.get(11) != Some(&0)) {
        return None;
    }
    ip_behind(packet, if optional { 12 } else { 8 }).filter(|(ether_type, _)| *ether_type != 0)
}

/// Dissects a frame of which the capture may hold the first bytes only: it is padded to the length its IP header
/// says, which does no harm because nothing behind the captured bytes is looked at. An IPv4 header checksum that the
/// sending card had yet to fill in is filled in, and so is the total length of a packet it had yet to segment. VLAN tags from
/// the third on are taken off.
fn dissect_cut(frame: &mut Vec<u8>) -> Result<Inside, Unread> {
    let (mut captured, mut third_vlan) = (frame.len(), 0);
    for _ in 0..5 {
        let error = match dissect(frame) {
            Ok(layout) => {
                frame.truncate(captured);
                let known = usize::from(layout.payload_offset.max(layout.l4_offset)) <= captured;
                return if known { Ok(Inside { layout, third_vlan }) } else { Err(Unread::Cut) };
            }
            Err(error) => error,
        };
        match error {
            Malformed::VlanTooDeep => {
                third_vlan = untag(frame).ok_or(Unread::Cut)?;
                captured = frame.len();
            }
            Malformed::Ipv4TotalLength
                if ipv4_header(frame).is_some_and(|header| header.get(2..4) == Some(&[0, 0])) =>
            {
                let rest = captured - ipv4_at(frame).ok_or(Unread::Malformed)?;
                let len = u16::try_from(rest).unwrap_or(u16::MAX).to_be_bytes();
                let field = ipv4_header(frame).and_then(|header| header.get_mut(2..4));
                field.ok_or(Unread::Malformed)?.copy_from_slice(&len);
            }
            Malformed::Ipv4TotalLength | Malformed::Ipv6PayloadLength | Malformed::UdpLength
                if frame.len() <= captured =>
            {
                frame.resize(captured + 65_535, 0);
            }
            Malformed::Ipv4Checksum => {
                let header = ipv4_header(frame).ok_or(Unread::Malformed)?;
                header.get_mut(10..12).ok_or(Unread::Malformed)?.fill(0);
                let sum = perhop_wire::checksum::of(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            // What is wrong is what was put in the place of captured bytes, or there are too few to tell.
            Malformed::EthernetTruncated
            | Malformed::VlanTruncated
            | Malformed::Ipv4Truncated
            | Malformed::Ipv6Truncated => return Err(Unread::Cut),
            _ if frame.len() > captured => return Err(Unread::Cut),
            _ => return Err(Unread::Malformed),
        }
    }
    Err(Unread::Malformed)
}

/// Takes VLAN tags from the third on off; the identifier of that one, or `None` if a tag is cut short.
fn untag(frame: &mut Vec<u8>) -> Option<u16> {
    let third = word(frame, THIRD_TAG + 2)? & 0xfff;
    while ethertype::is_vlan(word(frame, THIRD_TAG)?) {
        word(frame, THIRD_TAG + 4)?;
        frame.drain(THIRD_TAG..THIRD_TAG + 4);
    }
    Some(third)
}

/// Where the IPv4 header starts, behind however many VLAN tags.
fn ipv4_at(frame: &[u8]) -> Option<usize> {
    (14..=22).step_by(4).find(|at| word(frame, at - 2) == Some(ethertype::IPV4))
}

fn ipv4_header(frame: &mut [u8]) -> Option<&mut [u8]> {
    let at = ipv4_at(frame)?;
    let len = usize::from(frame.get(at)? & 0x0f) * 4;
    frame.get_mut(at..at + len)
}
