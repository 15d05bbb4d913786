//! Whatever two ends of a connection send: it arrives whole, in its order, with right checksums, and nothing of it is
//! changed but windows, and those only downwards.
//!
//! `PERHOP_SOAK_CONNECTIONS` says how many random connections (500 without it), `PERHOP_SOAK_SEED` where to begin.

use perhop_abr::testkit::{Allowed, Judged, Oracle, complete};
use perhop_abr::{Abr, AbrChange, AbrPolicyId, Floor, Latency, Match, Policy, Settings};
use perhop_element::testkit::{Bench, Sink};
use perhop_packet::{Batch, Direction};
use perhop_units::{Duration, Instant, Rate};
use perhop_wire::build::{self, FrameBuilder};
use perhop_wire::tcp::flags::{ACK, FIN, PSH, RST, SYN};
use perhop_wire::{Fragment, dissect};
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
    let Seen { judged, held } = seen;
    assert!(judged.packets > 50 * connections && judged.lowered * 12 > judged.packets, "{judged:?}");
    assert!(held * 1000 > judged.packets, "{held} of {judged:?}");
    assert!(judged.followed * 60 > judged.packets && judged.repeated * 120 > judged.packets, "{judged:?}");
    assert!(judged.edges * 120 > judged.packets && judged.begun.min(judged.opened) > 0, "{judged:?}");
}

#[derive(Debug, Default)]
struct Seen {
    judged: Judged,
    held: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.judged.add(&other.judged);
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
        span: Duration::ZERO,
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
    /// What is next of an orderly handshake; others are in no order at all.
    handshake: Option<u8>,
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
            handshake: (!rng.next_u32().is_multiple_of(4)).then_some(0),
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

    /// The same ends, another connection.
    fn begin_again(&mut self, rng: &mut Pcg64Mcg) {
        let mut again = Self::new(self.number, rng);
        // Numbers begin behind those of before (RFC 6528).
        for (end, old) in again.ends.iter_mut().zip(&self.ends) {
            end.isn = old.next.wrapping_add((1 << 24) + rng.next_u32() % (1 << 29));
            (end.next, end.taken) = (end.isn.wrapping_add(1), end.isn.wrapping_add(1));
        }
        *self = Self { v6: self.v6, tags: self.tags, signed: self.signed, ..again };
    }

    /// A part of a handshake: with a SYN, or the acknowledgment of one, or both.
    fn greet(&self, from: usize, answers: bool, syn: bool, rng: &mut Pcg64Mcg) -> Vec<u8> {
        let end = &self.ends[from];
        let (isn, shift, mss, clock) = (end.isn, end.shift, end.mss, end.clock);
        let ack = if answers { self.ends[1 - from].isn.wrapping_add(1) } else { 0 };
        if !syn {
            return self.signed(self.frame(from, rng).seq_ack(isn.wrapping_add(1), ack), rng);
        }
        let frame = self.frame(from, rng).seq_ack(isn, ack).tcp(|t| {
            t.flags = if answers { SYN | ACK } else { SYN };
            (t.options.window_scale, t.options.mss) = (shift, mss);
            t.options.timestamps = clock.then_some((7, 9));
            t.options.sack = perhop_wire::tcp_options::SackBlocks::NONE;
        });
        self.signed(frame, rng)
    }

    /// The next thing that one end does.
    fn step(&mut self, rng: &mut Pcg64Mcg) -> (usize, Vec<u8>) {
        let from = (rng.next_u32() & 1) as usize;
        if let Some(stage @ 0..3) = self.handshake {
            self.handshake = Some(stage + 1);
            self.opened = true;
            let from = usize::from(stage == 1);
            return (from, self.greet(from, stage > 0, stage < 2, rng));
        }
        if !self.opened && !rng.next_u32().is_multiple_of(4) {
            // Sometimes nobody answers, sometimes both begin, sometimes nobody has seen the beginning.
            let answers = rng.next_u32() & 1 == 0;
            self.opened = rng.next_u32().is_multiple_of(4);
            return (from, self.greet(from, answers, true, rng));
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
            complete(&mut bytes);
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

/// What happens to the element, in this order.
enum Event {
    Settings(Arc<Settings>),
    /// Index of the connection's packets, when it went in, and how.
    Packet {
        at: Instant,
        from: usize,
        before: Vec<u8>,
        after: Vec<u8>,
    },
}

/// What the policy of the flow allows that a packet of end `from` acknowledges: end 1 has port 80.
fn allowed(settings: &Settings, from: usize) -> Option<Allowed> {
    let policy = settings.policies.iter().find(|policy| policy.matches.dst_ports.is_none() || from == 1)?;
    Some(Allowed {
        allow_shrink: policy.allow_shrink,
        limit_syn_ack: policy.limit_syn_ack,
        assume_shift: policy.assume_shift,
    })
}

/// A group of connections on their way through an element.
struct World {
    bench: Bench,
    batch: Batch,
    events: Vec<Event>,
    /// Events of packets in the element, in their order in a direction. Fragments are never held, so they have their own.
    on_the_way: HashMap<(u32, Direction, bool), VecDeque<usize>>,
    /// Those in `batch`.
    pending: Vec<usize>,
}

impl World {
    fn offer(&mut self, number: u32, from: usize, frame: Vec<u8>) {
        let mut packet = self.bench.packet(&frame);
        let meta = packet.meta_mut();
        let direction = if from == 0 { Direction::Forward } else { Direction::Reverse };
        (meta.connection, meta.direction) = (number, direction);
        let fragment = meta.layout.fragment != Fragment::Whole;
        self.on_the_way.entry((number, direction, fragment)).or_default().push_back(self.events.len());
        self.pending.push(self.events.len());
        self.events.push(Event::Packet { at: Instant(0), from, before: frame, after: vec![] });
        self.batch.push(packet);
    }

    fn push(&mut self) {
        let now = self.bench.now();
        for index in self.pending.drain(..) {
            if let Event::Packet { at, .. } = &mut self.events[index] {
                *at = now;
            }
        }
        self.bench.driver.push(now, self.bench.node, 0, &mut self.batch);
        self.batch.release_all();
    }

    fn commit(&mut self, settings: Arc<Settings>) {
        self.push();
        self.events.push(Event::Settings(Arc::clone(&settings)));
        self.bench.element::<Abr>().commit(AbrChange { settings: Some(settings) });
    }

    /// Everything arrives, in its order; what became of it.
    fn arrive(&mut self) {
        let sink: &Sink = self.bench.sink(0);
        for (_, packet) in &sink.arrived {
            let meta = packet.meta();
            let way = (meta.connection, meta.direction, meta.layout.fragment != Fragment::Whole);
            let index = self.on_the_way.get_mut(&way).and_then(VecDeque::pop_front);
            if let Event::Packet { after, .. } = &mut self.events[index.expect("something was sent")] {
                *after = packet.frame().to_vec();
            }
        }
        assert!(self.on_the_way.values().all(VecDeque::is_empty), "everything arrives");
    }

    /// Has the oracle look at it. `follow`: no connection was forgotten to make room.
    fn judge(&self, follow: bool) -> Judged {
        let mut oracle = Oracle::default();
        let mut settings: Arc<Settings> = Arc::default();
        for (index, event) in self.events.iter().enumerate() {
            match event {
                Event::Settings(new) => {
                    // Flows find their policies again with their next data, and may have to be measured first.
                    let old = std::mem::replace(&mut settings, Arc::clone(new));
                    let of = |s: &Settings| s.policies.iter().map(|p| p.local).collect::<Vec<_>>();
                    if of(&old) != of(new) {
                        oracle.lose_all();
                    }
                }
                Event::Packet { at, from, before, after } => {
                    if !follow {
                        oracle.lose_all();
                    }
                    let allowed = allowed(&settings, *from);
                    let verdict = oracle.judge(*at, allowed.as_ref(), before, after, false);
                    verdict.unwrap_or_else(|why| panic!("packet {index} at {at:?}: {why}"));
                }
            }
        }
        oracle.judged
    }
}

fn run_group(seed: u64) -> Seen {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    // Sometimes not all of them have a place.
    let places = if seed.is_multiple_of(4) { 8 } else { 64 };
    let store = if seed.is_multiple_of(3) { 4 } else { 512 };
    let bench = Bench::with_seed(
        Box::new(Abr::with_store(places, store, Arc::default()).with_spread(seed & 1 == 0)),
        1,
        seed,
    );
    let (batch, events) = (Batch::new(), vec![]);
    let mut world = World { bench, batch, events, on_the_way: HashMap::new(), pending: vec![] };
    world.commit(policies(&mut rng));
    let mut connections: Vec<_> = (0..GROUP as u32).map(|n| Connection::new(n, &mut rng)).collect();
    let mut late: Vec<(usize, usize, Vec<u8>)> = vec![];
    for step in 0..STEPS * GROUP {
        let who = rng.random_range(0..GROUP);
        if rng.next_u32().is_multiple_of(100) {
            connections[who].begin_again(&mut rng);
            if rng.next_u32() & 1 == 0 {
                world.push();
                world.bench.run_for(Duration::from_millis(1_200));
            }
        }
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
            world.offer(connections[who].number, from, frame);
        }
        if rng.next_u32().is_multiple_of(8) || world.batch.len() > 200 {
            world.push();
            world.bench.run_for(Duration::from_micros(u64::from(rng.next_u32() % 60_000)));
        }
        if step % 400 == 399 {
            world.commit(policies(&mut rng));
        }
    }
    world.push();
    world.bench.run_for(Duration::from_secs(5));
    world.arrive();
    let mut counters: Vec<(String, u64)> = vec![];
    world.bench.driver.element(world.bench.node).expect("the element under test").counters(&mut counters);
    let held = counters.iter().find(|(name, _)| name == "held_packets").expect("a counter").1;
    Seen { judged: world.judge(places > GROUP), held }
}
