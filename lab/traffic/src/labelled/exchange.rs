//! One exchange between two ends, being written.

use super::path::Path;
use super::{Datagram, Kind, Transport};
use crate::random::Generator;
use perhop_units::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most packets of one exchange, so that a mix stays within reach of memory.
const MAX_PACKETS: usize = 4_000;

/// One direction of one 5-tuple.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub kind: Kind,
    path: Path,
}

impl Leg {
    /// The same 5-tuple, path and direction, as another kind: ports of its own come from [`Leg::beside`].
    pub fn beside(self, kind: Kind) -> Self {
        let next = |end: SocketAddr| SocketAddr::new(end.ip(), end.port().wrapping_add(1));
        Self { src: next(self.src), dst: next(self.dst), kind, ..self }
    }
}

/// The packets of one exchange as they are drawn.
#[derive(Debug)]
pub(super) struct Exchange {
    pub random: Generator,
    pub start: Duration,
    kind: Kind,
    ends: [IpAddr; 2],
    packets: Vec<Datagram>,
}

impl Exchange {
    /// Exchange `number`: no other has the address of its first end. Every fourth is over IPv6.
    pub fn new(kind: Kind, number: u32, start: Duration, mut random: Generator) -> Self {
        let far = random.below(200) as u16 + 1;
        let ends = match random.below(4) {
            0 => [
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, (number >> 16) as u16, number as u16)),
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, far)),
            ],
            _ => [
                IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + (number & 0x00ff_ffff))),
                IpAddr::V4(Ipv4Addr::new(172, 16, 0, far as u8)),
            ],
        };
        Self { random, start, kind, ends, packets: Vec::new() }
    }

    /// Both directions between port `near` of the first end and port `far` of the second.
    pub fn legs(&mut self, near: u16, far: u16) -> [Leg; 2] {
        let [a, b] = [SocketAddr::new(self.ends[0], near), SocketAddr::new(self.ends[1], far)];
        [(a, b), (b, a)].map(|(src, dst)| Leg {
            src,
            dst,
            kind: self.kind,
            path: Path::draw(&mut self.random),
        })
    }

    /// Both directions between two even ports, as RTP's are (RFC 3550 §11).
    pub fn media_legs(&mut self) -> [Leg; 2] {
        let [near, far] = [(); 2].map(|()| 16_384 + 2 * self.random.below(8_192) as u16);
        self.legs(near, far)
    }

    /// Both directions between an ephemeral port and a service.
    pub fn client_legs(&mut self, service: u16) -> [Leg; 2] {
        let near = 32_768 + self.random.below(28_000) as u16;
        self.legs(near, service)
    }

    /// One direction to a multicast group.
    pub fn multicast_leg(&mut self, v4: Ipv4Addr, v6: Ipv6Addr, port: u16) -> Leg {
        let [leg, _] = self.legs(port, port);
        let group = if leg.src.is_ipv4() { IpAddr::V4(v4) } else { IpAddr::V6(v6) };
        Leg { dst: SocketAddr::new(group, port), ..leg }
    }

    /// Sends a UDP payload at `at` since the exchange's start.
    pub fn send(&mut self, leg: &mut Leg, at: Duration, payload: Vec<u8>) {
        self.carry(leg, at, Transport::Udp, payload);
    }

    /// Sends by any transport.
    pub fn carry(&mut self, leg: &mut Leg, at: Duration, transport: Transport, payload: Vec<u8>) {
        let Some(at) = leg.path.pass(&mut self.random, self.start + at) else { return };
        if self.packets.len() < MAX_PACKETS {
            let Leg { src, dst, kind, .. } = *leg;
            self.packets.push(Datagram { at, kind, src, dst, transport, payload });
        }
    }

    /// Uniform in [least, most].
    pub fn number(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below(most - least + 1)
    }

    /// Uniform in [least, most] ms.
    pub fn ms(&mut self, least: u64, most: u64) -> Duration {
        self.random.between(Duration::from_millis(least), Duration::from_millis(most))
    }

    /// Whether something of probability 1 / `n` happens.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.below(choices.len() as u64) as usize]
    }

    /// Appends `n` random bytes.
    pub fn fill(&mut self, into: &mut Vec<u8>, n: usize) {
        let end = into.len() + n;
        while into.len() < end {
            let word = self.random.bits().to_be_bytes();
            into.extend_from_slice(&word[..(end - into.len()).min(8)]);
        }
    }

    /// `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(n);
        self.fill(&mut bytes, n);
        bytes
    }

    /// The packets in order of time.
    pub fn finish(mut self) -> VecDeque<Datagram> {
        self.packets.sort_by_key(|p| p.at);
        self.packets.into()
    }
}
