//! Which of several next hops a flow takes: a keyed hash of what all of its packets have in common.
//!
//! Each end of a flow, an address with its port, is one word, and the two words are put in order before they are mixed: so both
//! directions have one hash, and ends that are alike do not cancel as they would under an exclusive or. The key belongs to
//! the router. Without one, routers in a row would choose alike, and those behind the first would use one of their ways only.
//!
//! Source: RFC 2992 (paths by hash), RFC 7690 §4 (what fragments have in common); the mixer is the folded product of wyhash.

use perhop_wire::{Fragment, Layout, protocol};

/// What hashes are keyed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PathKey(pub(super) u64);

/// Generic routing encapsulation (RFC 2784).
const GRE: u8 = 47;

/// Digits of π, so that a key of zero mixes as well as any.
const PI: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

impl PathKey {
    /// The hash of a flow between two IPv4 addresses.
    pub(super) fn v4(self, frame: &[u8], layout: &Layout, [src, dst]: [[u8; 4]; 2]) -> u32 {
        self.hash(frame, layout, [src, dst].map(|a| u64::from(u32::from_be_bytes(a))))
    }

    /// The hash of a flow between two IPv6 addresses.
    pub(super) fn v6(self, frame: &[u8], layout: &Layout, ends: [&[u8; 16]; 2]) -> u32 {
        let word = |address: &[u8; 16]| {
            let bits = u128::from_be_bytes(*address);
            fold((bits >> 64) as u64 ^ self.0 ^ PI[0], bits as u64 ^ PI[1])
        };
        self.hash(frame, layout, ends.map(word))
    }

    fn hash(self, frame: &[u8], layout: &Layout, addresses: [u64; 2]) -> u32 {
        let [src, dst] = addresses;
        // Later fragments have no ports, and in IPv6 not always the protocol.
        let (ports, inner) = match (layout.fragment, layout.protocol) {
            (Fragment::First | Fragment::Later, _) => ([0; 2], 0),
            // Their type is in the place of a port, and differs between question and answer.
            (Fragment::Whole, protocol::ICMPV4 | protocol::ICMPV6) => ([0; 2], u32::from(layout.protocol)),
            (Fragment::Whole, number) => {
                ([layout.src_port, layout.dst_port], u32::from(number) ^ tunnel(frame, layout))
            }
        };
        let end = |address: u64, port: u16| fold(address ^ self.0 ^ PI[2], u64::from(port) << 32 ^ PI[3]);
        let (a, b) = (end(src, ports[0]), end(dst, ports[1]));
        let mixed = fold(a.min(b) ^ PI[0], a.max(b) ^ self.0 ^ PI[1]);
        (fold(mixed ^ u64::from(inner) ^ PI[2], self.0 ^ PI[3]) >> 32) as u32
    }
}

/// What tells tunnels between the same two routers apart: the SPI of ESP and AH, the key of GRE; 0 where there is none. An
/// SPI is of one direction.
fn tunnel(frame: &[u8], layout: &Layout) -> u32 {
    let at = usize::from(layout.l4_offset);
    let word = |from: usize| {
        let octets = frame.get(at + from..).and_then(|rest| rest.first_chunk());
        octets.map_or(0, |octets| u32::from_be_bytes(*octets))
    };
    match layout.protocol {
        protocol::ESP => word(0),
        protocol::AH => word(4),
        // RFC 2890: the key follows the checksum, if that is there.
        GRE => match word(0) >> 16 {
            flags if flags & 0x2000 == 0 => 0,
            flags if flags & 0x8000 == 0 => word(4),
            _ => word(8),
        },
        _ => 0,
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_wire::build::{udp4, udp6};
    use perhop_wire::checksum;
    use std::net::Ipv6Addr;

    /// Frames of flows whose ends are alike in the ways in which those of a network are.
    fn flows() -> Vec<(&'static str, Vec<Vec<u8>>)> {
        let ends = |i: u8| ([10, 0, 0, i], [20, 0, 0, i]);
        let of = |make: &dyn Fn(u8) -> Vec<u8>| (0..200).map(make).collect::<Vec<_>>();
        let v6 = |n: u16, i: u8| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, i.into());
        let rtp = |i: u8| 10_000 + 2 * u16::from(i);
        vec![
            ("SIP", of(&|i| udp(ends(i), 5060, 5060))),
            ("RTP", of(&|i| udp(ends(1), rtp(i), rtp(i)))),
            ("one server", of(&|i| udp(([10, 0, 0, i], [20, 0, 0, 1]), 5060, 5060))),
            ("GRE", of(&|i| raw(ends(i), GRE, &[0, 0, 8, 0]))),
            ("GRE by key", of(&|i| raw(ends(1), GRE, &[0x20, 0, 8, 0, 0, 0, 0, i]))),
            ("GRE by key and sum", of(&|i| raw(ends(1), GRE, &[0xa0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, i]))),
            ("ESP", of(&|i| raw(ends(i), protocol::ESP, &[0, 0, 0, 1, 0, 0, 0, 9]))),
            ("ESP by SPI", of(&|i| raw(ends(1), protocol::ESP, &[0, 0, 0, i, 0, 0, 0, 9]))),
            ("IP in IP", of(&|i| raw(ends(i), 4, &[0x45; 20]))),
            ("ping", of(&|i| raw(ends(i), protocol::ICMPV4, &[8, 0, 0, 0, 0, 0, 0, 0]))),
            ("IPv6", of(&|i| udp6(v6(1, i), v6(2, i)).ports(5060, 5060).build())),
        ]
    }

    fn udp((src, dst): ([u8; 4], [u8; 4]), from: u16, to: u16) -> Vec<u8> {
        udp4(src, dst).ports(from, to).build()
    }

    fn raw((src, dst): ([u8; 4], [u8; 4]), protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = udp4(src, dst).payload_len(40).build();
        frame[23] = protocol;
        frame[34..34 + payload.len()].copy_from_slice(payload);
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    fn hash(key: u64, frame: &[u8]) -> u32 {
        let layout = perhop_wire::dissect(frame).expect("sound");
        if layout.ip_version == 6 {
            let end = |at: usize| frame[at..at + 16].first_chunk().expect("sixteen");
            return PathKey(key).v6(frame, &layout, [end(22), end(38)]);
        }
        let end = |at: usize| *frame[at..at + 4].first_chunk().expect("four");
        PathKey(key).v4(frame, &layout, [end(26), end(30)])
    }

    /// Whether a flow takes the first of `all` equal parts that count as one.
    fn first(hash: u32, all: u64) -> bool {
        (u64::from(hash) * all) >> 32 == 0
    }

    /// Of 200 flows that are spread by chance 45 % to 55 % take one of two ways on the average, and hardly ever fewer than
    /// 36 % or more than 64 % (four standard deviations); a third of them one of three ways.
    #[test]
    fn flows_whose_ends_are_alike_are_spread_under_every_key() {
        for (what, frames) in flows() {
            for (ways, share) in [(2, 100.0), (3, 200.0 / 3.0)] {
                let taken = |key| frames.iter().filter(|frame| first(hash(key, frame), ways)).count();
                let keys = 0..64;
                let counts: Vec<usize> = keys.map(taken).collect();
                let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
                assert!((mean - share).abs() <= 10.0, "{what}, {ways} ways: {mean} of 200");
                let all = counts.iter().all(|n| (*n as f64 - share).abs() <= 29.0);
                assert!(all, "{what}, {ways} ways: {counts:?}");
            }
        }
    }

    #[test]
    fn routers_in_a_row_choose_each_for_itself() {
        for (what, frames) in flows() {
            let (mut both, mut one) = (0, 0);
            for key in 0..64u64 {
                let through = frames.iter().filter(|frame| first(hash(key, frame), 2));
                let next = through.map(|frame| first(hash(key + 64, frame), 2));
                next.for_each(|same| *(if same { &mut both } else { &mut one }) += 1);
            }
            let share = f64::from(both) / f64::from(both + one);
            assert!((0.45..=0.55).contains(&share), "{what}: {share}");
        }
    }

    #[test]
    fn both_directions_have_one_hash() {
        for key in 0..100 {
            let forth = udp(([10, 0, 0, 1], [20, 0, 0, 2]), 1000, 2000);
            let back = udp(([20, 0, 0, 2], [10, 0, 0, 1]), 2000, 1000);
            let crossed = udp(([20, 0, 0, 2], [10, 0, 0, 1]), 1000, 2000);
            assert_eq!(hash(key, &forth), hash(key, &back));
            assert_ne!(hash(key, &forth), hash(key, &crossed), "other ends");
            let ask = raw(([10, 0, 0, 1], [20, 0, 0, 2]), protocol::ICMPV4, &[8, 0, 0, 0, 0, 0, 0, 0]);
            let answer = raw(([20, 0, 0, 2], [10, 0, 0, 1]), protocol::ICMPV4, &[0; 8]);
            assert_eq!(hash(key, &ask), hash(key, &answer));
        }
    }
}
