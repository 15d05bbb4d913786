//! Captures of Juniper routers: a header with what the router knows of the packet, then what its interface sends.
//!
//! Source: DLT_JUNIPER_* of the tcpdump project, whose printers are the only description.

use super::link::{by_version, frame_relay, ip_behind, llc, ppp, word};

/// Link types that are read: multilink PPP, GGSN, ATM2, services, ATM1, monitor, PPPoE, PPPoE on ATM, Ethernet, PPP, frame relay,
/// Cisco HDLC.
pub(super) const LINK_TYPES: [u32; 12] = [130, 133, 135, 136, 137, 164, 167, 168, 178, 179, 180, 181];
/// Stands for an EtherType where a whole Ethernet frame follows.
pub(super) const ETHERNET: u16 = 1;

const MAGIC: [u8; 3] = *b"MGC";
const NO_LINK_HEADER: u8 = 0x02;
const EXTENSIONS: u8 = 0x80;
/// First bytes of cookies that have a length of their own.
const LINK_SERVICES: u8 = 0x54;
const ADAPTIVE_SERVICES: u8 = 0x47;

/// EtherType and packet of a frame; `None` for one cut short or without the magic number.
pub(super) fn juniper(link_type: u32, frame: &[u8]) -> Option<(u16, &[u8])> {
    let [a, b, c, flags] = *frame.first_chunk()?;
    if [a, b, c] != MAGIC {
        return None;
    }
    let header = if flags & EXTENSIONS == 0 { 4 } else { 6 + usize::from(word(frame, 4)?) };
    if flags & NO_LINK_HEADER != 0 {
        return ip_behind(frame, header + 4);
    }
    let body = frame.get(header..)?;
    let cookie = match (link_type, *body.first()?) {
        (167 | 168 | 178..=181, _) => 0,
        (_, ADAPTIVE_SERVICES) => 8,
        (130, first) => {
            if first == LINK_SERVICES {
                4
            } else {
                2
            }
        }
        (137, _) => 4,
        _ => 8,
    };
    let body = body.get(cookie..)?;
    match link_type {
        167 | 178 => Some((ETHERNET, body)),
        168 => Some((word(body, 0)?, body.get(2..)?)),
        179 => ppp(body.strip_prefix(&[0xff, 3]).unwrap_or(body)),
        180 => frame_relay(body),
        181 => Some((word(body, 2)?, body.get(4..)?)),
        130 if by_version(body) == 0 => ppp(body.strip_prefix(&[0xff, 3]).unwrap_or(body)),
        135 | 137 if by_version(body) == 0 => llc(body),
        _ => ip_behind(body, 0),
    }
}
