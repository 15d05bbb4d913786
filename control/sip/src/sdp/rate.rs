//! How much of a link a stream takes.

use super::{CodecTable, Format, Stream};
use perhop_units::Rate;
use std::net::IpAddr;

const RTP: u64 = 12;
const UDP: u64 = 8;
const IPV4: u64 = 20;
const IPV6: u64 = 40;
/// Packets a second of a stream that tells only its rate: one each 20 ms.
const PACKETS_PER_1000S: u64 = 50_000;

/// What a sender may send to `receiver` in one of `formats`, at the link: the most that any of them takes, since both sides may change between them
/// without a word (RFC 3264 §5.1). Of a codec that is known: its frames in the packets that the receiver wants, and their headers.
/// Of any other: `b=TIAS`, else `b=AS`, else the table's default. RTCP is not counted.
pub(super) fn rate(formats: &[Format], receiver: &Stream, table: &CodecTable) -> Rate {
    let ip = if receiver.address.is_some_and(|a| matches!(a, IpAddr::V6(_))) { IPV6 } else { IPV4 };
    let link = u64::from(table.link_bytes);
    let security = if receiver.secure { u64::from(table.srtp_bytes) } else { 0 };
    let of_codec = |format: &Format| {
        let codec = table.codec(format)?;
        if codec.frame_bytes == 0 {
            return Some(0);
        }
        let ptime_us = u64::from(receiver.ptime_ms.unwrap_or(codec.ptime_ms)).max(1) * 1_000;
        let frame_us = u64::from(codec.frame_us.max(1));
        let frames = ptime_us.div_ceil(frame_us);
        let payload = frames * u64::from(codec.frame_bytes) * u64::from(format.channels.max(1));
        let packet = payload + RTP + security + UDP + ip + link;
        Some((packet * 8 * 1_000_000).div_ceil(frames * frame_us))
    };
    let told = || {
        let packets = receiver.packets_per_1000s.unwrap_or(PACKETS_PER_1000S);
        // RTP's header is counted beside TIAS, as not all senders count it within.
        let headers = |bytes: u64| (packets * bytes * 8).div_ceil(1_000);
        match (receiver.tias_bps, receiver.as_bps) {
            (Some(bps), _) => bps + headers(RTP + security + UDP + ip + link),
            (None, Some(bps)) => bps + headers(link),
            (None, None) => table.default_bps(receiver.kind) + headers(link),
        }
    };
    let most = formats.iter().map(|format| of_codec(format).unwrap_or_else(told)).max();
    Rate::from_bits_per_sec(most.filter(|bps| *bps > 0).unwrap_or_else(told))
}
