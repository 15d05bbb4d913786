//! `bench abr`: what the TCP rate control adds to a segment in the router's graph.
//!
//! Connections are established through the router; then each sends a segment of ten octets in turns, and is acknowledged
//! a round trip later, in virtual time. The same goes through a router that has no policy.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::router::{Detection, GATEWAY_MAC, LAN, Router, SERVED, Setup, WAN, port_mac};
use crate::turns::{Runs, Turns};
use perhop_abr::AbrPolicyId;
use perhop_elements::route::{NeighbourState, NeighbourUpdate};
use perhop_graph::router::WorkerEvent;
use perhop_packet::{Batch, Pool, PortId};
use perhop_units::Instant;
use perhop_wire::tcp::{self, flags};
use perhop_wire::{MacAddr, build};
use std::net::{IpAddr, Ipv4Addr};

/// Options of `bench abr`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Connections, 1 to 1,000,000
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// Round trips of a run
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seed of the routers
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// Virtual time from a segment to its acknowledgment, ns.
const ROUND_TRIP_NS: u64 = 100_000_000;
/// What each connection may send: with this round trip a window of 12,500 bytes.
const RATE_EACH: u64 = 1_000_000;
/// Connections of a client.
const PER_CLIENT: u32 = 50_000;
/// Octets a segment carries.
const PAYLOAD: u32 = 10;
/// Bytes from one frame to the next in memory.
const STRIDE: usize = 64;
/// Where the sequence number is in a frame of these.
const SEQUENCE: usize = 14 + 20 + 4;

/// Measures.
///
/// # Errors
/// A router that cannot be set up, or one that does not do what it should.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    let mut with = Rig::new(options, true)?;
    let mut without = Rig::new(options, false)?;
    // Latencies are known after the first round trips.
    for rig in [&mut with, &mut without] {
        for _ in 0..3 {
            rig.round()?;
        }
        rig.allocations = 0;
    }
    let watch = Watch::start();
    let segments = u64::from(options.rounds) * 2 * u64::from(options.connections);
    let turns = Turns::take(options.measured.runs, &mut with, &mut without, |rig| {
        let ns = (0..options.rounds).map(|_| rig.round()).sum::<Result<u64, _>>()?;
        Ok(ns as f64 / segments as f64)
    })?;
    let rewritten = with.router.worker.abr().map_or(0, |abr| abr.policy_counters(AbrPolicyId(0)).rewritten);
    let acknowledged = u64::from(options.measured.runs * options.rounds) * u64::from(options.connections);
    if rewritten < acknowledged {
        return Err(BenchError::Wrong(format!("{rewritten} windows of {acknowledged} were rewritten")));
    }
    let mut point = Point { bench: "abr", op: "segment", ..Point::default() };
    turns.describe(&mut point);
    point.metrics.insert("rewritten", Metric::new(Spread::exactly(rewritten as f64), "segment"));
    let params =
        [("connections", options.connections.into()), ("cpu", cpu.into()), ("seed", options.seed.into())];
    point.params.extend(params);
    let measured = u64::from(options.measured.runs) * segments;
    point.allocs_per_op = Some(with.allocations as f64 / measured as f64);
    point.warnings = watch.warnings();
    point.warn_of_spread();
    sink.point(&point)?;
    Ok(())
}

/// A router between two memories, and the connections through it.
struct Rig {
    router: Router,
    pool: Pool,
    /// A frame of each connection, towards the server and back.
    up: Vec<u8>,
    down: Vec<u8>,
    connections: u32,
    sent: u32,
    now: Instant,
    batch: Batch,
    events: Vec<WorkerEvent>,
    allocations: u64,
}

impl Rig {
    fn new(options: &Options, controlled: bool) -> Result<Self, BenchError> {
        let connections = options.connections;
        let table = (connections + connections / 2).next_power_of_two().max(1 << 14);
        let setup = Setup {
            rate: 100_000_000_000,
            filters: 1,
            connections: table,
            detection: Detection::On,
            abr: controlled.then_some((connections, RATE_EACH * u64::from(connections))),
        };
        let pool = Pool::new(8 * Batch::MAX + 4096);
        let mut router = Router::new(&setup, pool.clone(), options.seed)?;
        let clients = connections.div_ceil(PER_CLIENT);
        let neighbour = |n| NeighbourUpdate {
            port: LAN,
            ip: IpAddr::V4(client(n)),
            state: NeighbourState::Reachable(client_mac(n)),
        };
        router.neighbours((0..clients).map(neighbour).collect());
        let mut rig = Self {
            router,
            pool,
            up: vec![0; connections as usize * STRIDE],
            down: vec![0; connections as usize * STRIDE],
            connections,
            sent: 0,
            now: Instant::ZERO,
            batch: Batch::new(),
            events: Vec::with_capacity(8192),
            allocations: 0,
        };
        rig.establish()?;
        Ok(rig)
    }

    /// Three-way handshakes, then the frames that every round sends again with other numbers.
    fn establish(&mut self) -> Result<(), BenchError> {
        for handshake in [true, false] {
            let (flags_up, flags_down) =
                if handshake { (flags::SYN, flags::SYN | flags::ACK) } else { (flags::ACK, flags::ACK) };
            let begun = u32::from(!handshake);
            let payload: &[u8] = if handshake { &[] } else { &[0; PAYLOAD as usize] };
            let offer = |tcp: &mut tcp::Repr| {
                if handshake {
                    (tcp.options.mss, tcp.options.window_scale) = (Some(1460), Some(7));
                }
            };
            for n in 0..self.connections {
                let (src, port) = (client(n / PER_CLIENT), port_of(n));
                let server = Ipv4Addr::from_bits(198 << 24 | 18 << 16 | (n % 0x1_0000));
                let up = build::tcp4(src, server)
                    .macs(client_mac(n / PER_CLIENT), port_mac(LAN))
                    .ports(port, SERVED)
                    .flags(flags_up)
                    .seq_ack(begun, begun)
                    .tcp(offer)
                    .payload(payload)
                    .build();
                let down = build::tcp4(server, src)
                    .macs(GATEWAY_MAC, port_mac(WAN))
                    .ports(SERVED, port)
                    .flags(flags_down)
                    .seq_ack(begun, 1)
                    .tcp(offer)
                    .build();
                let at = n as usize * STRIDE;
                self.up[at..at + up.len()].copy_from_slice(&up);
                self.down[at..at + down.len()].copy_from_slice(&down);
            }
            if handshake {
                self.direction(true, ROUND_TRIP_NS)?;
                self.direction(false, ROUND_TRIP_NS)?;
            }
        }
        Ok(())
    }

    /// A segment of each connection, and later its acknowledgment. Gives the processor time in ns.
    fn round(&mut self) -> Result<u64, BenchError> {
        for n in 0..self.connections as usize {
            let sequence = (1 + self.sent * PAYLOAD).to_be_bytes();
            let next = (1 + (self.sent + 1) * PAYLOAD).to_be_bytes();
            self.up[n * STRIDE + SEQUENCE..][..4].copy_from_slice(&sequence);
            self.down[n * STRIDE + SEQUENCE + 4..][..4].copy_from_slice(&next);
        }
        self.sent += 1;
        Ok(self.direction(true, ROUND_TRIP_NS)? + self.direction(false, ROUND_TRIP_NS)?)
    }

    /// All frames of one direction, within `within` of virtual time.
    fn direction(&mut self, up: bool, within: u64) -> Result<u64, BenchError> {
        let pace = (within / u64::from(self.connections)).max(1);
        let (frames, input, output) = if up { (&self.up, LAN, WAN) } else { (&self.down, WAN, LAN) };
        let before = crate::allocations();
        let start = machine::thread_time_ns();
        let mut through = 0;
        for some in frames.chunks(STRIDE * Batch::MAX) {
            self.now = Instant(self.now.0 + pace * (some.len() / STRIDE) as u64);
            for frame in some.chunks(STRIDE) {
                let Some(mut packet) = self.pool.packet(frame) else { break };
                packet.meta_mut().received_at = self.now;
                self.batch.push(packet);
            }
            through += turn(&mut self.router, self.now, input, output, &mut self.batch, &mut self.events);
        }
        let took = machine::thread_time_ns() - start;
        self.allocations += crate::allocations().since(before).count;
        if through < u64::from(self.connections) {
            return Err(BenchError::Wrong(format!(
                "{through} of {} segments came through",
                self.connections
            )));
        }
        Ok(took)
    }
}

/// One turn of a worker's loop. Gives the packets sent.
#[inline]
fn turn(
    router: &mut Router,
    now: Instant,
    input: PortId,
    output: PortId,
    batch: &mut Batch,
    events: &mut Vec<WorkerEvent>,
) -> u64 {
    let worker = &mut router.worker;
    worker.receive(now, input, batch);
    if worker.next_wakeup().is_some_and(|at| at <= now) {
        worker.poll(now);
    }
    worker.take_events(now, events);
    events.clear();
    worker.local_queue().release_all();
    let Some(queue) = worker.transmit_queue(output) else { return 0 };
    let sent = queue.len() as u64;
    queue.release_all();
    sent
}

fn client(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(10 << 24 | (n + 1))
}

fn client_mac(n: u32) -> MacAddr {
    MacAddr([2, 0, 0, 1, (n >> 8) as u8, n as u8])
}

fn port_of(n: u32) -> u16 {
    (1024 + n % PER_CLIENT) as u16
}
