//! Whatever two ends of a connection send: it arrives whole, in its order, with right checksums, and nothing of it is
//! changed but windows, and those only downwards.
//!
//! `PERHOP_SOAK_CONNECTIONS` says how many random connections (500 without it), `PERHOP_SOAK_SEED` where to begin.

use perhop_abr::{Abr, AbrChange, AbrPolicyId, Floor, Latency, Match, Policy, Settings};
use perhop_element::testkit::{Bench, Sink};
use perhop_packet::{Batch, Direction};
use perhop_units::{Duration, Rate};
use perhop_wire::build::{self, FrameBuilder};
use perhop_wire::checksum::{pseudo_header_v4, pseudo_header_v6};
use perhop_wire::tcp::flags::{ACK, FIN, PSH, RST, SYN};
use perhop_wire::{Fragment, dissect, ipv4, ipv6, tcp};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Connections that share an element.
const GROUP: usize = 20;
const STEPS: usize = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn random_connections_pass_unharmed() {
    let connections = number("PERHOP_SOAK_CONNECTIONS").unwrap_or(500);
    let first = number("PERHOP_SOAK_SEED").unwrap_or(1);
    let mut seen = Seen::default();
    for seed in first..first + connections.div_ceil(GROUP as u64) {
        let group = std::panic::catch_unwind(|| run_group(seed));
        match group {
            Ok(group) => seen.add(&group),
            Err(panic) => {
                eprintln!("PERHOP_SOAK_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // The test would pass with nothing happening.
    assert!(seen.packets > 50 * connections && seen.rewritten * 12 > seen.packets, "{seen:?}");
    assert!(seen.held * 1000 > seen.packets, "{seen:?}");
}

#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    rewritten: u64,
    held: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.rewritten += other.rewritten;
        self.held += other.held;
    }
}

/// Policies of every kind, drawn anew for each group and again while packets flow.
fn policies(rng: &mut Pcg64Mcg) -> Arc<Settings> {
    let latency = match rng.next_u32() % 3 {
        0 => Latency::PUBLISHED,
        1 => Latency::Timed { up: Duration::from_secs(60), down: 2 << 30 },
        _ => Latency::Minimum { window: Duration::from_secs(5) },
    };
    let mut policy = |id: u32, dst_ports| Policy {
        id: AbrPolicyId(id),
        matches: Match { dst_ports, ..Match::default() },
        rate: Rate(1 << (rng.next_u32() % 14 + 12)),
        peak: Rate(if rng.next_u32() & 1 == 0 { 0 } else { 1 << 20 }),
        floor: if rng.next_u32() & 1 == 0 { Floor::Clamp } else { Floor::Pace },
        latency,
        allow_shrink: rng.next_u32() & 1 == 0,
        limit_syn_ack: rng.next_u32() & 1 == 0,
        assume_shift: if rng.next_u32() & 1 == 0 { None } else { Some((rng.next_u32() % 16) as u8) },
        local: rng.next_u32() & 1 == 0,
        overhead: rng.next_u32() % 40,
        idle: Duration::from_millis(u64::from(rng.next_u32() % 5_000)),
    };
    let upload = policy(1, Some(80..=80));
    let rest = policy(0, None);
    let both = vec![upload, rest];
    let kept = if rng.next_u32().is_multiple_of(16) { 0 } else { 1 + rng.next_u32() as usize % 2 };
    Arc::new(Settings { policies: both.into_iter().take(kept).collect() })
}

/// One end: its numbers and its habits.
struct End {
    isn: u32,
    next: u32,
    /// What the other end has of this one's data, as far as anybody knows.
    taken: u32,
    shift: Option<u8>,
    mss: Option<u16>,
    clock: bool,
}

struct Connection {
    v6: bool,
    tags: u16,
    port: u16,
    number: u32,
    ends: [End; 2],
    /// Kind of an option in every segment that forbids rewriting.
    signed: Option<u8>,
    opened: bool,
}

impl Connection {
    fn new(number: u32, rng: &mut Pcg64Mcg) -> Self {
        let mut end = || {
            // Often close to where the numbers wrap.
            let isn = if rng.next_u32() & 1 == 0 {
                0u32.wrapping_sub(rng.next_u32() % 20_000)
            } else {
                rng.next_u32()
            };
            End {
                isn,
                next: isn.wrapping_add(1),
                taken: isn.wrapping_add(1),
                shift: (!rng.next_u32().is_multiple_of(4)).then(|| (rng.next_u32() % 16) as u8),
                mss: (!rng.next_u32().is_multiple_of(4)).then(|| 100 + (rng.next_u32() % 1400) as u16),
                clock: rng.next_u32() & 1 == 0,
            }
        };
        let ends = [end(), end()];
        let signed = (rng.next_u32().is_multiple_of(12)).then(|| [19, 29, 30][rng.next_u32() as usize % 3]);
        Self {
            v6: rng.next_u32() & 1 == 0,
            tags: (rng.next_u32() % 3) as u16,
            port: 1024 + number as u16,
            number,
            ends,
            signed,
            opened: false,
        }
    }

    fn frame(&self, from: usize, rng: &mut Pcg64Mcg) -> FrameBuilder {
        let mut frame = if self.v6 {
            let end = |n: usize| [0xfd00, 0, 0, 0, 0, 0, self.number as u16, n as u16];
            build::tcp6(end(from), end(1 - from))
        } else {
            let end = |n: usize| [10, (self.number >> 8) as u8, self.number as u8, n as u8];
            build::tcp4(end(from), end(1 - from))
        };
        for vid in 0..self.tags {
            frame = frame.vlan(vid + 1, 0);
        }
        if rng.next_u32().is_multiple_of(16) {
            frame = if self.v6 { frame.extension(60, &[0; 6]) } else { frame.options(&[1, 1, 1, 1]) };
        }
        let (own, other) = (&self.ends[from], &self.ends[1 - from]);
        let window = match rng.next_u32() % 8 {
            0 => 0,
            1 => (rng.next_u32() % 16) as u16,
            2 => u16::MAX,
            _ => 2_000 + (rng.next_u32() % 20_000) as u16,
        };
        let clock = (own.clock && other.clock).then(|| (rng.next_u32(), rng.next_u32()));
        let ports = if from == 0 { (self.port, 80) } else { (80, self.port) };
        frame.ports(ports.0, ports.1).window(window).seq_ack(own.next, other.next).tcp(|t| {
            t.options.timestamps = clock;
            if rng.next_u32().is_multiple_of(8) {
                t.options.sack = tcp_options_sack(rng);
            }
        })
    }

    /// The next thing that one end does.
    fn step(&mut self, rng: &mut Pcg64Mcg) -> (usize, Vec<u8>) {
        let from = (rng.next_u32() & 1) as usize;
        if rng.next_u32().is_multiple_of(100) {
            // The same ends, another connection.
            let again = Self::new(self.number, rng);
            *self = Self { v6: self.v6, tags: self.tags, signed: self.signed, ..again };
        }
        if !self.opened && !rng.next_u32().is_multiple_of(4) {
            // Sometimes nobody answers, sometimes both begin, sometimes nobody has seen the beginning.
            let answers = rng.next_u32() & 1 == 0;
            self.opened = rng.next_u32().is_multiple_of(4);
            let end = &self.ends[from];
            let (isn, shift, mss, clock) = (end.isn, end.shift, end.mss, end.clock);
            let ack = if answers { self.ends[1 - from].isn.wrapping_add(1) } else { 0 };
            let frame = self.frame(from, rng).seq_ack(isn, ack).tcp(|t| {
                t.flags = if answers { SYN | ACK } else { SYN };
                (t.options.window_scale, t.options.mss) = (shift, mss);
                t.options.timestamps = clock.then_some((7, 9));
                t.options.sack = perhop_wire::tcp_options::SackBlocks::NONE;
            });
            return (from, self.signed(frame, rng));
        }
        let frame = self.frame(from, rng);
        let (own, other) = (&self.ends[from], &self.ends[1 - from]);
        let (next, taken, other_next, other_taken) = (own.next, own.taken, other.next, other.taken);
        let span = next.wrapping_sub(taken);
        let mut advance = |len: u32| self.ends[from].next = next.wrapping_add(len);
        let frame = match rng.next_u32() % 16 {
            // New data, now and then several segments in one frame.
            0..=4 => {
                let len = if rng.next_u32().is_multiple_of(4) {
                    1 + rng.next_u32() % 1500
                } else {
                    100 + rng.next_u32() % 1300
                };
                advance(len);
                frame.flags(ACK | PSH).payload(&filler(len, rng))
            }
            // Some of it again, or what nobody saw the first time.
            5 | 6 if span > 0 => {
                let from = taken.wrapping_add(rng.next_u32() % span);
                frame.seq_ack(from, other_next).payload(&filler(1 + rng.next_u32() % 900, rng))
            }
            7 => {
                advance(1000);
                frame.seq_ack(next.wrapping_add(1000), other_next).payload(&filler(500, rng))
            }
            // Acknowledgments: everything, a part, the same again, an old one, of what was never sent.
            8..=10 => {
                let open = other_next.wrapping_sub(other_taken);
                let ack = other_taken.wrapping_add(if open == 0 { 0 } else { rng.next_u32() % (open + 1) });
                self.ends[1 - from].taken = ack;
                frame.seq_ack(next, ack)
            }
            11 => frame.seq_ack(next, other_taken),
            12 => frame.seq_ack(next, other_taken.wrapping_sub(rng.next_u32() % 50_000)),
            13 => match rng.next_u32() % 4 {
                0 => frame.seq_ack(taken.wrapping_sub(1), other_taken).payload(b"k"),
                1 => frame.seq_ack(next, other_next.wrapping_add(rng.next_u32() % 100_000)),
                2 => frame.payload(b"p").window(0),
                _ => frame.seq_ack(rng.next_u32(), rng.next_u32()),
            },
            14 if rng.next_u32().is_multiple_of(4) => {
                advance(1);
                frame.flags(FIN | ACK)
            }
            15 if rng.next_u32().is_multiple_of(6) => {
                let seq = if rng.next_u32() & 1 == 0 { next } else { rng.next_u32() };
                frame.flags(RST).seq_ack(seq, 0)
            }
            _ => frame.flags((rng.next_u32() & 0xff) as u8 & !(SYN | RST | FIN)).payload(&filler(20, rng)),
        };
        (from, self.signed(frame, rng))
    }

    /// The frame, with an option nobody here may touch in front of the data, or cut into fragments.
    fn signed(&self, frame: FrameBuilder, rng: &mut Pcg64Mcg) -> Vec<u8> {
        if rng.next_u32().is_multiple_of(60) {
            return frame.fragment(if rng.next_u32() & 1 == 0 { 0 } else { 1480 }, true).build();
        }
        let Some(kind) = self.signed else { return frame.build() };
        let mut bytes = frame.payload(&[[kind, 4, 1, 1], [1; 4]].concat()).build();
        let Ok(layout) = dissect(&bytes) else { return bytes };
        let l4 = usize::from(layout.l4_offset);
        if l4 != 0 && bytes[l4 + 12] >> 4 < 14 {
            bytes[l4 + 12] += 1 << 4;
            fill(&mut bytes);
        }
        bytes
    }
}

fn tcp_options_sack(rng: &mut Pcg64Mcg) -> perhop_wire::tcp_options::SackBlocks {
    let at = rng.next_u32();
    perhop_wire::tcp_options::SackBlocks::new(&[(at, at.wrapping_add(1000))])
}

fn filler(len: u32, rng: &mut Pcg64Mcg) -> Vec<u8> {
    let byte = rng.next_u32() as u8;
    (0..len).map(|i| byte.wrapping_add(i as u8)).collect()
}

/// The TCP segment of a frame and the sum of its pseudo-header.
fn sums(frame: &[u8]) -> Option<(std::ops::Range<usize>, perhop_wire::checksum::Sum)> {
    let layout = dissect(frame).ok()?;
    if layout.l4_offset == 0 || layout.fragment != Fragment::Whole {
        return None;
    }
    let (l3, l4) = (usize::from(layout.l3_offset), usize::from(layout.l4_offset));
    let end = l3 + usize::from(layout.ip_len);
    let pseudo = if layout.ip_version == 4 {
        let ip = ipv4::View::new_checked(&frame[l3..]).ok()?;
        pseudo_header_v4(ip.src().octets(), ip.dst().octets(), 6, (end - l4) as u16)
    } else {
        let ip = ipv6::View::new_checked(&frame[l3..]).ok()?;
        pseudo_header_v6(ip.src().octets(), ip.dst().octets(), 6, (end - l4) as u32)
    };
    Some((l4..end, pseudo))
}

fn fill(frame: &mut [u8]) {
    if let Some((segment, pseudo)) = sums(frame) {
        tcp::fill_checksum(&mut frame[segment], pseudo);
    }
}

/// What must be true of a frame that went in as `sent` and came out as `got`. Whether its window was lowered.
fn check(sent: &[u8], got: &[u8]) -> bool {
    if sent == got {
        return false;
    }
    let (segment, pseudo) = sums(sent).expect("only whole TCP segments may change");
    let (a, b) = (&sent[segment.clone()], &got[segment.clone()]);
    let flags = a[13];
    assert!(flags & ACK != 0 && flags & RST == 0, "nothing is acknowledged here");
    let window = |s: &[u8]| u16::from_be_bytes([s[14], s[15]]);
    assert!(window(b) < window(a), "raised");
    assert!(window(b) != 0, "shut");
    let mut rebuilt = sent.to_vec();
    rebuilt[segment.start + 14..segment.start + 16].copy_from_slice(&window(b).to_be_bytes());
    tcp::fill_checksum(&mut rebuilt[segment], pseudo);
    assert_eq!(rebuilt, got, "window and checksum alone may change, and the checksum is right");
    true
}

fn run_group(seed: u64) -> Seen {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    // Sometimes not all of them have a place.
    let places = if seed.is_multiple_of(4) { 8 } else { 64 };
    let store = if seed.is_multiple_of(3) { 4 } else { 512 };
    let mut bench = Bench::with_seed(Box::new(Abr::with_store(places, store, policies(&mut rng))), 1, seed);
    let mut connections: Vec<_> = (0..GROUP as u32).map(|n| Connection::new(n, &mut rng)).collect();
    // Fragments are never held, so they have an order of their own.
    let mut on_the_way: HashMap<(u32, Direction, bool), VecDeque<Vec<u8>>> = HashMap::new();
    let mut late: Vec<(usize, usize, Vec<u8>)> = vec![];
    let mut batch = Batch::new();
    for step in 0..STEPS * GROUP {
        let who = rng.random_range(0..GROUP);
        let (from, frame) = connections[who].step(&mut rng);
        let mut now = vec![(who, from, frame)];
        match rng.next_u32() % 16 {
            // Kept back: it arrives behind others.
            0 => late.append(&mut now),
            1 => now.push(now[0].clone()),
            _ => {}
        }
        if rng.next_u32().is_multiple_of(4) && !late.is_empty() {
            now.push(late.swap_remove(rng.random_range(0..late.len())));
        }
        for (who, from, frame) in now {
            let mut packet = bench.packet(&frame);
            let meta = packet.meta_mut();
            let direction = if from == 0 { Direction::Forward } else { Direction::Reverse };
            (meta.connection, meta.direction) = (connections[who].number, direction);
            let fragment = meta.layout.fragment != Fragment::Whole;
            on_the_way.entry((meta.connection, direction, fragment)).or_default().push_back(frame);
            batch.push(packet);
        }
        if rng.next_u32().is_multiple_of(8) || batch.len() > 200 {
            bench.driver.push(bench.now(), bench.node, 0, &mut batch);
            batch.release_all();
            bench.run_for(Duration::from_micros(u64::from(rng.next_u32() % 60_000)));
        }
        if step % 400 == 399 {
            let settings = Some(policies(&mut rng));
            bench.element::<Abr>().commit(AbrChange { settings });
        }
    }
    bench.driver.push(bench.now(), bench.node, 0, &mut batch);
    bench.run_for(Duration::from_secs(5));
    let mut seen = Seen::default();
    let mut counters: Vec<(String, u64)> = vec![];
    bench.driver.element(bench.node).expect("the element under test").counters(&mut counters);
    seen.held = counters.iter().find(|(name, _)| name == "held_packets").expect("a counter").1;
    let sink: &Sink = bench.sink(0);
    for (_, packet) in &sink.arrived {
        let meta = packet.meta();
        let fragment = meta.layout.fragment != Fragment::Whole;
        let sent =
            on_the_way.get_mut(&(meta.connection, meta.direction, fragment)).and_then(VecDeque::pop_front);
        seen.rewritten += u64::from(check(&sent.expect("something was sent"), packet.frame()));
        seen.packets += 1;
    }
    assert!(on_the_way.values().all(VecDeque::is_empty), "everything arrives");
    seen
}
