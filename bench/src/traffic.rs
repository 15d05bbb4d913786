//! Frames to forward: flows in seeded random order, in more memory than the last-level cache holds.

use perhop_wire::{MacAddr, build, rtp};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::net::Ipv4Addr;

/// Shortest frame that can be asked for: headers of Ethernet, IPv4 and UDP and some payload.
pub const MIN_FRAME: usize = 60;

/// The identity of a flow.
#[derive(Clone, Copy, Debug)]
struct Tuple {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    ports: (u16, u16),
}

/// What frames carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Random octets: now and then they look like the beginning of media, as other protocols do.
    Random,
    /// RTP of one source a flow, G.711: with every round it goes on.
    Rtp,
}

/// Frames side by side, each at a multiple of [`Source::stride`].
#[derive(Debug)]
pub struct Source {
    memory: Vec<u8>,
    frame_len: usize,
    stride: usize,
    count: usize,
    settled: Vec<Tuple>,
    payload: Payload,
    /// Flow of each place, of RTP, and how many packets each has sent.
    flow_of: Vec<u32>,
    sent: Vec<u32>,
    /// Places whose flow is new in every round.
    new_at: Vec<usize>,
    next_new: u32,
    rng: Pcg64Mcg,
    macs: (MacAddr, MacAddr),
}

impl Source {
    /// Frames of `frame_len` bytes (without FCS) in at least `bytes` of memory, from `flows` flows; a share of
    /// `new_per_cent` is each the first of its flow. From host `macs.0` to the router's port `macs.1`.
    pub fn new(
        flows: usize,
        frame_len: usize,
        bytes: usize,
        new_per_cent: u32,
        payload: Payload,
        seed: u64,
        macs: (MacAddr, MacAddr),
    ) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let settled = (0..flows as u32).map(|i| tuple(10 << 24 | (i + 1), &mut rng)).collect();
        let stride = frame_len.next_multiple_of(64);
        let count = bytes.div_ceil(stride).max(flows * 2);
        let mut source = Self {
            memory: vec![0; count * stride],
            frame_len,
            stride,
            count,
            settled,
            payload,
            flow_of: Vec::new(),
            sent: vec![0; flows],
            new_at: Vec::new(),
            next_new: 0,
            rng,
            macs,
        };
        for i in 0..count {
            if source.rng.random_range(0..100) < new_per_cent {
                source.new_at.push(i);
            } else {
                // The first pass over all flows meets each once; then the order is random.
                let at = if i < flows { i } else { source.rng.random_range(0..flows) };
                let tuple = source.settled[at];
                source.write(i, tuple);
                if payload == Payload::Rtp {
                    source.flow_of.push(at as u32);
                }
            }
        }
        source.renew();
        source
    }

    /// Gives every place for new flows a flow never seen before, and every packet of RTP its number.
    pub fn renew(&mut self) {
        for (i, flow) in self.flow_of.iter().enumerate() {
            let sent = &mut self.sent[*flow as usize];
            *sent += 1;
            let fields = rtp::Repr {
                sequence: *sent as u16,
                timestamp: sent.wrapping_mul(160),
                ssrc: flow.wrapping_mul(2_654_435_761),
                ..rtp::Repr::default()
            };
            fields.emit(&mut self.memory[i * self.stride + HEADERS..][..rtp::HEADER_LEN]);
        }
        for i in std::mem::take(&mut self.new_at) {
            self.next_new += 1;
            let tuple = tuple(10 << 24 | 1 << 23 | (self.next_new & 0x7f_ffff), &mut self.rng);
            self.write(i, tuple);
            self.new_at.push(i);
        }
    }

    fn write(&mut self, at: usize, tuple: Tuple) {
        let mut payload = [0u8; 2048];
        let payload = &mut payload[..self.frame_len - HEADERS];
        self.rng.fill_bytes(payload);
        let (from, to) = self.macs;
        let frame = build::udp4(tuple.src, tuple.dst)
            .macs(from, to)
            .ports(tuple.ports.0, tuple.ports.1)
            .payload(payload)
            .build();
        let place = &mut self.memory[at * self.stride..][..frame.len()];
        place.copy_from_slice(&frame);
        if self.payload == Payload::Rtp {
            // Its payload will change: none (RFC 768).
            place[HEADERS - 2..HEADERS].fill(0);
        }
    }

    /// Frames of one round.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A frame.
    #[inline]
    pub fn frame(&self, at: usize) -> &[u8] {
        &self.memory[at * self.stride..][..self.frame_len]
    }

    /// Bytes of memory that one round reads.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }
}

/// Ethernet, IPv4, UDP.
pub const HEADERS: usize = 14 + 20 + 8;

/// A flow from `src` to a random address of the network for benchmarks (RFC 2544 appendix C.2.2).
fn tuple(src: u32, rng: &mut Pcg64Mcg) -> Tuple {
    let dst = 198 << 24 | 18 << 16 | rng.random_range(1..0x1_fffe_u32);
    let port = |rng: &mut Pcg64Mcg| rng.random_range(1024..=65_535u16);
    Tuple { src: src.into(), dst: dst.into(), ports: (port(rng), port(rng)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn sources(s: &Source) -> Vec<u32> {
        (0..s.count())
            .map(|i| {
                let layout = perhop_wire::dissect(s.frame(i)).expect("well-formed");
                assert_eq!(usize::from(layout.ip_len), s.frame(i).len() - 14);
                u32::from_be_bytes(s.frame(i)[26..30].try_into().expect("four octets"))
            })
            .collect()
    }

    #[test]
    fn every_flow_occurs_and_the_share_of_new_ones_is_as_asked() {
        let macs = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let mut s = Source::new(100, 64, 1 << 18, 5, Payload::Random, 1, macs);
        let first = sources(&s);
        let settled: HashSet<u32> = first.iter().copied().filter(|a| a & 1 << 23 == 0).collect();
        assert!(settled.len() >= 90, "{}", settled.len());
        let new: HashSet<u32> = first.iter().copied().filter(|a| a & 1 << 23 != 0).collect();
        assert_eq!(new.len(), s.new_at.len());
        assert!((new.len() as f64 / s.count() as f64 - 0.05).abs() < 0.02);
        s.renew();
        assert!(sources(&s).iter().filter(|a| **a & 1 << 23 != 0).all(|a| !new.contains(a)));
    }

    #[test]
    fn rtp_goes_on_from_round_to_round() {
        let macs = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let mut s = Source::new(3, 64, 1 << 12, 0, Payload::Rtp, 1, macs);
        let mut last = [0u16; 3];
        for _ in 0..3 {
            for i in 0..s.count() {
                let rtp = &s.frame(i)[HEADERS..];
                let number = u16::from_be_bytes([rtp[2], rtp[3]]);
                let flow = s.flow_of[i] as usize;
                assert_eq!((rtp[0], number), (0x80, last[flow] + 1));
                last[flow] = number;
            }
            s.renew();
        }
        assert!(last.iter().all(|n| *n > 3));
    }
}
