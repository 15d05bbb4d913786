//! Senders of the simplest kind behind the controller: they send whole segments while the window has room, lose nothing
//! and grow as in slow start. What is published about rates and shares must come out.

use perhop_abr::{
    AbrPolicyId, Checksum, Controller, Facts, Floor, Latency, LimitedBy, Locator, Match, Policy, Settings,
    Verdict,
};
use perhop_units::{Duration, Instant, Rate};
use perhop_wire::tcp::flags::{ACK, SYN};
use perhop_wire::{build, dissect};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

const MSS: u32 = 1460;
/// One way, µs: to the receiver over the bottleneck, and back.
const ONE_WAY_US: u64 = 450_000;
const LINK_BPS: u64 = 1_536_000;

fn policy(id: u32, rate_bps: u64, dst_ports: std::ops::RangeInclusive<u16>) -> Policy {
    Policy {
        id: AbrPolicyId(id),
        matches: Match { dst_ports: Some(dst_ports), ..Match::default() },
        rate: Rate(rate_bps),
        peak: Rate(0),
        floor: Floor::Clamp,
        latency: Latency::PUBLISHED,
        allow_shrink: false,
        span: Duration::ZERO,
        limit_syn_ack: true,
        assume_shift: None,
        local: true,
        overhead: 0,
        idle: Duration::from_secs(5),
    }
}

/// What happens when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Open,
    /// The sender has data up to this number.
    Write(u32),
    /// Comes here from the sender: number of the segment's end, and the receiver's clock as it was heard last.
    Sent(u32, u32),
    /// Comes to the receiver: number of the segment's end.
    Data(u32),
    /// The receiver has waited for more than this long enough.
    Waited(u32),
    /// Its acknowledgment comes back to the controller.
    Back(u32),
    /// Comes to the sender: number, window and the receiver's clock.
    Ack(u32, u32, u32),
}

/// One connection with data one way, behind a controller that stands at the sender.
struct Flow {
    port: u16,
    next: u32,
    acked: u32,
    right_edge: u32,
    congestion: u32,
    taken: u64,
    /// End of what the sender has to send.
    written: u32,
    /// What the receiver has, and what of it is acknowledged.
    arrived: u32,
    answered: u32,
    /// Clock of the receiver that the sender has heard last.
    heard: u32,
}

struct World {
    controller: Controller,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(u64, u64, usize, Event)>>,
    order: u64,
    /// When the bottleneck is free, µs.
    free: u64,
    longest_wait: BTreeMap<u64, u64>,
    link_bps: u64,
    one_way_us: u64,
    /// How long receivers wait for a second segment before they acknowledge one.
    receivers_wait_us: u64,
    /// Round trip between controller and sender.
    left_us: u64,
    /// Whether segments have time-stamps, of clocks that tick every ms.
    clocks: bool,
    /// Rate of a link between senders and controller, bit/s; 0: none. When it is free, and the longest wait for it in each second, µs.
    left_bps: u64,
    left_free: u64,
    longest_left_wait: BTreeMap<u64, u64>,
    /// The most that a sender keeps for repeating, octets.
    buffer: u32,
    /// Acknowledgments behind the controller: flow, when it passed and when it went on, µs, and number.
    went: Vec<(usize, u64, u64, u32)>,
}

impl World {
    fn new(policies: Vec<Policy>, ports: impl Iterator<Item = u16>) -> Self {
        let controller = Controller::new(256, Arc::new(Settings { policies }), 7).remembering_ends();
        let flow = |port| Flow {
            port,
            next: 1,
            acked: 1,
            right_edge: 1,
            congestion: 10 * MSS,
            taken: 0,
            written: u32::MAX,
            arrived: 1,
            answered: 1,
            heard: 0,
        };
        let flows: Vec<Flow> = ports.map(flow).collect();
        let mut world = Self {
            controller,
            flows,
            events: BinaryHeap::new(),
            order: 0,
            free: 0,
            longest_wait: BTreeMap::new(),
            link_bps: LINK_BPS,
            one_way_us: ONE_WAY_US,
            receivers_wait_us: 0,
            left_us: 0,
            clocks: false,
            left_bps: 0,
            left_free: 0,
            longest_left_wait: BTreeMap::new(),
            buffer: u32::MAX >> 1,
            went: Vec::new(),
        };
        for n in 0..world.flows.len() {
            // Spread over four seconds.
            world.at(4_000_000 * n as u64 / world.flows.len() as u64, n, Event::Open);
        }
        world
    }

    fn at(&mut self, us: u64, flow: usize, event: Event) {
        self.order += 1;
        self.events.push(Reverse((us, self.order, flow, event)));
    }

    /// What clocks say whose segments pass at a time.
    fn clock(&self, us: u64) -> u32 {
        1_000 + (us / 1_000) as u32
    }

    /// A segment with flags, numbers and length through the controller: when it goes on, µs, and its window in octets.
    fn through(
        &mut self,
        us: u64,
        flow: usize,
        forward: bool,
        header: (u8, u32, u32),
        len: u32,
    ) -> (u64, u32) {
        let (flags, seq, ack) = header;
        let port = self.flows[flow].port;
        let (src, dst) =
            if forward { ([10, 0, 0, 1], [10, 0, 0, 2]) } else { ([10, 0, 0, 2], [10, 0, 0, 1]) };
        let source = 10_000 + flow as u16;
        let ports = if forward { (source, port) } else { (port, source) };
        let heard = if forward { self.flows[flow].heard } else { 0 };
        let clock = self.clocks.then(|| (self.clock(us), heard));
        let mut frame = build::tcp4(src, dst)
            .ports(ports.0, ports.1)
            .flags(flags)
            .seq_ack(seq, ack)
            .window(50_000)
            .payload_len(len as usize)
            .tcp(|t| {
                t.options.timestamps = clock;
                if flags & SYN != 0 {
                    // Time-stamps take twelve octets of it.
                    let mss = MSS as u16 + if clock.is_some() { 12 } else { 0 };
                    (t.options.mss, t.options.window_scale) = (Some(mss), Some(3));
                }
            })
            .build();
        let layout = dissect(&frame).expect("as built");
        let now = Instant(us * 1000);
        self.controller.tick(now, 64);
        let verdict = self.controller.segment(
            now,
            Locator::Endpoints,
            &Facts::default(),
            &layout,
            &mut frame,
            Checksum::Complete,
        );
        let at = usize::from(layout.l4_offset);
        let field = u32::from(u16::from_be_bytes([frame[at + 14], frame[at + 15]]));
        let until = match verdict {
            Verdict::Pass => us,
            Verdict::HoldUntil(until) => until.as_nanos() / 1000,
        };
        (until, if flags & SYN != 0 { field } else { field << 3 })
    }

    /// Over the bottleneck.
    fn forward(&mut self, us: u64, flow: usize, end: u32, len: u32) {
        let start = self.free.max(us);
        let second = self.longest_wait.entry(us / 1_000_000).or_default();
        *second = (*second).max(start - us);
        self.free = start + u64::from(len + 40) * 8_000_000 / self.link_bps;
        self.at(self.free + self.one_way_us, flow, Event::Data(end));
    }

    fn send(&mut self, us: u64, n: usize) {
        loop {
            let flow = &self.flows[n];
            let congestion = flow.congestion.min(self.buffer);
            let allowed = flow.right_edge.min(flow.acked + congestion).min(flow.written);
            if flow.next + MSS > allowed {
                return;
            }
            let (seq, heard) = (flow.next, flow.heard);
            self.flows[n].next += MSS;
            if self.left_bps == 0 {
                self.pass(us, n, seq, heard);
                continue;
            }
            let start = self.left_free.max(us);
            let second = self.longest_left_wait.entry(us / 1_000_000).or_default();
            *second = (*second).max(start - us);
            self.left_free = start + u64::from(MSS + 40) * 8_000_000 / self.left_bps;
            self.at(self.left_free, n, Event::Sent(seq + MSS, heard));
        }
    }

    /// A segment from `seq` on passes here.
    fn pass(&mut self, us: u64, n: usize, seq: u32, heard: u32) {
        let now = std::mem::replace(&mut self.flows[n].heard, heard);
        self.through(us, n, true, (ACK, seq, 1), MSS);
        self.flows[n].heard = now;
        self.forward(us, n, seq + MSS, MSS);
    }

    fn run(&mut self, until_s: u64) {
        self.run_until_us(until_s * 1_000_000);
    }

    fn run_until_us(&mut self, until_us: u64) {
        while let Some(Reverse((us, _, n, event))) = self.events.pop() {
            if us >= until_us {
                self.at(us, n, event);
                return;
            }
            match event {
                Event::Open => {
                    self.through(us, n, true, (SYN, 0, 0), 0);
                    self.forward(us, n, 1, 0);
                }
                Event::Write(end) => {
                    self.flows[n].written = end;
                    self.send(us, n);
                }
                Event::Sent(end, heard) => self.pass(us, n, end - MSS, heard),
                Event::Data(end) => {
                    let flow = &mut self.flows[n];
                    flow.arrived = end;
                    if end > 1 && self.receivers_wait_us > 0 && end - flow.answered < 2 * MSS {
                        self.at(us + self.receivers_wait_us, n, Event::Waited(end));
                    } else {
                        flow.answered = end;
                        self.at(us + self.one_way_us, n, Event::Back(end));
                    }
                }
                Event::Waited(end) => {
                    let flow = &mut self.flows[n];
                    if (flow.arrived, end > flow.answered) == (end, true) {
                        flow.answered = end;
                        self.at(us + self.one_way_us, n, Event::Back(end));
                    }
                }
                Event::Back(end) => {
                    let flags = if end == 1 { SYN | ACK } else { ACK };
                    let (at, window) = self.through(us, n, false, (flags, u32::from(end != 1), end), 0);
                    self.went.push((n, us, at, end));
                    self.at(at + self.left_us, n, Event::Ack(end, window, self.clock(us)));
                }
                Event::Ack(ack, window, clock) => {
                    let flow = &mut self.flows[n];
                    if ack < flow.acked {
                        // Overtaken on a path that has become shorter.
                        continue;
                    }
                    flow.heard = clock;
                    flow.taken += u64::from(ack - flow.acked);
                    flow.congestion += ack - flow.acked;
                    flow.acked = ack;
                    flow.right_edge = flow.right_edge.max(ack + window);
                    self.send(us, n);
                }
            }
        }
    }

    /// Goodput of each flow from one second to another, bit/s.
    fn goodput(&mut self, from_s: u64, to_s: u64) -> Vec<f64> {
        self.run(from_s);
        let before: Vec<u64> = self.flows.iter().map(|f| f.taken).collect();
        self.run(to_s);
        let span = (to_s - from_s) as f64;
        self.flows.iter().zip(before).map(|(f, b)| (f.taken - b) as f64 * 8.0 / span).collect()
    }
}

/// R-7.2-30: 32 flows at 6000 B/s, data share 46.72 kbit/s.
#[test]
fn equal_shares_of_the_published_test_bed() {
    let mut world = World::new(vec![policy(0, LINK_BPS, 80..=80)], (0..32).map(|_| 80));
    let goodput = world.goodput(10, 110);
    let sum: f64 = goodput.iter().sum();
    let squares: f64 = goodput.iter().map(|g| g * g).sum();
    let jain = sum * sum / (32.0 * squares);
    assert!(jain > 0.999, "{jain} {goodput:?}");
    let mean = sum / 32.0;
    assert!((0.97 * 46_720.0..=46_720.0).contains(&mean), "{mean}");
    // A queue of 30 packets lasts 234 ms.
    let longest = world.longest_wait.iter().filter(|(second, _)| **second >= 10).map(|(_, us)| *us).max();
    assert!(longest.expect("packets were sent") < 117_000, "{:?}", world.longest_wait);
    assert_eq!(world.controller.policy_counters(AbrPolicyId(0)).flows, 32);
    let uploads: Vec<_> = world.controller.flows(0..64).filter(|flow| flow.live).collect();
    assert!(
        uploads.len() == 32 && uploads.iter().all(|flow| flow.limited_by == LimitedBy::Abr),
        "{uploads:?}"
    );
    for flow in uploads {
        let (sender, receiver) = flow.ends.expect("it was to remember them");
        assert_eq!(
            (sender.ip().to_string().as_str(), receiver.to_string().as_str()),
            ("10.0.0.1", "10.0.0.2:80")
        );
    }
}

/// four groups of eight flows, 1 : 2 : 4 : 8. The least has less than one segment a round trip.
#[test]
fn weighted_shares_and_the_floor() {
    for floor in [Floor::Clamp, Floor::Pace] {
        let group = |n: u32| {
            let rate = LINK_BPS * (1 << n) / 15;
            Policy { floor, ..policy(n, rate, 80 + n as u16..=80 + n as u16) }
        };
        let mut world = World::new((0..4).map(group).collect(), (0..32).map(|i| 80 + i / 8));
        let goodput = world.goodput(20, 320);
        for (n, flows) in goodput.chunks(8).enumerate() {
            let share = LINK_BPS as f64 * f64::from(1 << n) / 15.0 / 8.0 * 1460.0 / 1500.0;
            let mean = flows.iter().sum::<f64>() / 8.0;
            assert!((mean / share - 1.0).abs() < 0.03, "{floor:?} {n}: {mean} of {share}");
        }
    }
}

/// A rate far below one segment a round trip: a window of one segment gives what the round trip gives, pacing the rate.
#[test]
fn pacing_reaches_rates_that_no_window_can() {
    for (floor, expected) in [(Floor::Clamp, 1460.0 * 8.0 / 0.9), (Floor::Pace, 8_000.0 * 1460.0 / 1500.0)] {
        let mut world = World::new(vec![Policy { floor, ..policy(0, 8_000, 80..=80) }], std::iter::once(80));
        let goodput = world.goodput(60, 360)[0];
        assert!((goodput / expected - 1.0).abs() < 0.02, "{floor:?}: {goodput} of {expected}");
        assert!(world.controller.counters().floor_limited > 100);
    }
}

/// The path is shorter than what senders and verdicts take, which the handshake does not show: windows for a longer time hold
/// the rate, as acknowledgments do not go before theirs.
#[test]
fn rates_are_kept_on_paths_that_are_shorter_than_the_ways_around_them() {
    let got = |mbit: u64, span_us: u64| {
        let rate = Rate::from_mbit(mbit);
        let span = Duration::from_micros(span_us);
        let paced = Policy { floor: Floor::Pace, span, ..policy(0, rate.0, 80..=80) };
        let mut world = World::new(vec![paced], std::iter::once(80));
        (world.link_bps, world.one_way_us, world.left_us) = (10_000_000_000, 20, 10);
        world.run_until_us(1_000);
        world.left_us = 250;
        world.goodput(1, 3)[0] / (rate.0 as f64 * 1460.0 / 1500.0)
    };
    for mbit in [30, 100, 300, 900] {
        let (with, without) = (got(mbit, 2_000), got(mbit, 0));
        assert!((0.98..=1.005).contains(&with), "{mbit} Mbit/s: {with}");
        assert!(mbit == 30 || without < 0.6, "{mbit} Mbit/s: {without}: there is nothing to make up for");
    }
}

/// the rate falls to a third and rises again; each flow follows within a round trip or two.
#[test]
fn a_change_of_the_rate_is_followed() {
    let mut world = World::new(vec![policy(0, LINK_BPS, 80..=80)], (0..32).map(|_| 80));
    world.run(20);
    for (turn, rate) in [LINK_BPS / 3, LINK_BPS, LINK_BPS / 3].into_iter().enumerate() {
        world.controller.replace(Arc::new(Settings { policies: vec![policy(0, rate, 80..=80)] }));
        let from = 20 + 20 * turn as u64;
        let goodput = world.goodput(from + 5, from + 20);
        let share = rate as f64 / 32.0 * 1460.0 / 1500.0;
        let mean = goodput.iter().sum::<f64>() / 32.0;
        // After a rise packets come in bunches for a while, and wait for each other.
        assert!((mean / share - 1.0).abs() < 0.05, "{turn}: {mean} of {share}");
    }
}

/// The most segments that a flow has had in any `span_us` from `from_s` on, to a hundredth of it.
fn most_in(world: &mut World, span_us: u64, from_s: u64, to_s: u64) -> f64 {
    let mut taken = Vec::new();
    for i in 0..=(to_s - from_s) * 100_000_000 / span_us {
        world.run_until_us(from_s * 1_000_000 + i * span_us / 100);
        taken.push(world.flows[0].taken);
    }
    let most = taken.iter().zip(&taken[100..]).map(|(before, after)| after - before).max();
    most.expect("it is longer than that") as f64 / f64::from(MSS)
}

/// What receivers wait is part of the round trip: with one segment under way and with two by turns it is most of it.
#[test]
fn receivers_that_wait_get_what_the_rate_says() {
    // Of five and more that keep together the last has no stamp of its own, so that it waits is not seen.
    for (segments, tenths, least) in
        [("few", vec![11, 15, 20, 25, 33], 0.96), ("more", vec![50, 70, 150], 0.91)]
    {
        let mut peak = 0.0f64;
        let paths = [10, 20, 40, 100].into_iter().flat_map(|o| [40, 100, 200].map(|w| (o, w)));
        let mut all = Vec::new();
        for ((one_way_ms, wait_ms), tenths) in paths.flat_map(|p| tenths.iter().map(move |t| (p, *t))) {
            // What goes on in a round trip of the path alone.
            let rate_bps = 1500 * 8 * 1000 * tenths / 10 / (2 * one_way_ms);
            let mut world = World::new(vec![policy(0, rate_bps, 80..=80)], std::iter::once(80));
            (world.link_bps, world.one_way_us, world.receivers_wait_us) =
                (1_000_000_000, one_way_ms * 1000, wait_ms * 1000);
            let got = world.goodput(20, 120)[0] / (rate_bps as f64 * 1460.0 / 1500.0);
            let case = format!("{one_way_ms} ms one way, waits of {wait_ms}, {tenths} tenths of a segment");
            assert!((least..=1.02).contains(&got), "{case}: {got}");
            all.push(got);
            let most = most_in(&mut world, 2_000 * one_way_ms, 120, 125);
            peak = peak.max(most * 10.0 / tenths as f64);
        }
        all.sort_by(f64::total_cmp);
        println!("{segments} segments: {:.3} to {:.3} of the rate", all[0], all[all.len() - 1]);
        assert!(peak < 3.0, "{peak}");
        println!("{segments} segments: {peak:.1} times the rate in a round trip at most");
    }
}

/// The most segments more than its rate that a flow has had over any time, from the end of `from_s` on.
fn excess(world: &mut World, from_s: u64, to_s: u64, rate_bps: u64) -> f64 {
    world.run(from_s);
    let taken = |world: &World| world.flows[0].taken as f64 / f64::from(MSS);
    let (mut least, mut most) = (taken(world), 0.0f64);
    for ms in 1..=(to_s - from_s) * 1_000 {
        world.run_until_us(from_s * 1_000_000 + ms * 1_000);
        let ahead = taken(world) - rate_bps as f64 * ms as f64 / 1_000.0 / 12_000.0;
        (least, most) = (least.min(ahead), most.max(ahead - least));
    }
    most
}

/// What a receiver waits with the last segment of a sender that has no more to send is the sender's time.
#[test]
fn a_sender_that_was_idle_is_not_owed_what_its_receiver_waited() {
    for (one_way_ms, wait_ms, tenths) in [
        (10, 40, 37),
        (20, 200, 37),
        (60, 200, 11),
        (60, 200, 15),
        (100, 500, 11),
        (60, 500, 37),
        (60, 500, 55),
    ] {
        let rate_bps = 1500 * 8 * 1000 * tenths / 10 / (2 * one_way_ms);
        let ran = |times: u32, segments: u32| {
            let mut world = World::new(vec![policy(0, rate_bps, 80..=80)], std::iter::once(80));
            (world.link_bps, world.one_way_us, world.receivers_wait_us) =
                (1_000_000_000, one_way_ms * 1000, wait_ms * 1000);
            world.run(20);
            let stop = world.flows[0].next;
            world.at(20_000_000, 0, Event::Write(stop));
            for n in 1..=times {
                world.at(22_000_000 + u64::from(n) * 1_000_000, 0, Event::Write(stop + n * segments * MSS));
            }
            world.at(36_000_000, 0, Event::Write(u32::MAX));
            excess(&mut world, 36, 46, rate_bps)
        };
        let none = ran(0, 1);
        for (times, segments) in [(1, 1), (10, 1), (1, 3), (10, 3)] {
            let got = ran(times, segments);
            let case = format!("{one_way_ms} ms one way, waits of {wait_ms}, {tenths} tenths of a segment");
            // Where in a round trip it begins again is worth a segment or two.
            assert!(got <= none + 2.0, "{case}: {got} after {times} times {segments}, {none} without");
        }
    }
}

/// Waits of ten round trips and more: what a rate has in one of them is more than the windows of many round trips are short of.
#[test]
fn receivers_that_wait_for_many_round_trips_get_what_the_rate_says() {
    let (mut all, mut peak) = (Vec::new(), 0.0f64);
    for (round_us, wait_ms) in [(2_000, 40), (2_000, 100), (4_000, 40), (10_000, 40), (10_000, 200)] {
        for tenths in [11, 15, 20, 25, 33] {
            let rate_bps = 1500 * 8 * 1_000_000 * tenths / 10 / round_us;
            let mut world = World::new(vec![policy(0, rate_bps, 80..=80)], std::iter::once(80));
            (world.link_bps, world.one_way_us, world.receivers_wait_us) =
                (1_000_000_000, round_us / 2, wait_ms * 1000);
            let got = world.goodput(5, 15)[0] / (rate_bps as f64 * 1460.0 / 1500.0);
            let case = format!("{round_us} µs, waits of {wait_ms} ms, {tenths} tenths of a segment");
            assert!((0.98..=1.04).contains(&got), "{case}: {got}");
            all.push(got);
            let most = most_in(&mut world, round_us, 15, 16);
            peak = peak.max(most * 10.0 / tenths as f64);
        }
    }
    all.sort_by(f64::total_cmp);
    println!("long waits: {:.3} to {:.3} of the rate", all[0], all[all.len() - 1]);
    assert!(peak < 4.0, "{peak}");
    println!("long waits: {peak:.1} times the rate in a round trip at most");
}

/// A path that becomes longer on either side of here. Towards the sender of a one-way transfer echoed clocks show it; without them
/// nothing does, and windows stay what the shorter path needed.
#[test]
fn a_path_that_becomes_longer_is_noticed_on_either_side() {
    let timed = Latency::Timed { up: Duration::from_secs(120), down: 2_576_980_378 };
    for how in [Latency::PUBLISHED, timed] {
        for (clocks, sender_side) in [(false, false), (true, false), (true, true), (false, true)] {
            let policy = Policy { local: false, latency: how, ..policy(0, 10_000_000, 80..=80) };
            let mut world = World::new(vec![policy], std::iter::once(80));
            (world.link_bps, world.one_way_us, world.left_us) = (100_000_000, 10_000, 20_000);
            world.clocks = clocks;
            let before = world.goodput(5, 10)[0];
            let (side, longer_us) =
                if sender_side { (&mut world.left_us, 200_000) } else { (&mut world.one_way_us, 100_000) };
            *side += longer_us;
            let after = world.goodput(40, 60)[0];
            let case = format!("clocks {clocks}, sender side {sender_side}");
            println!("{case}: {before:.0} bit/s before, {after:.0} after 30 s");
            if clocks || !sender_side {
                assert!((0.95..1.05).contains(&(after / before)), "{case}: {before} before, {after} after");
            } else {
                assert!((0.09..0.25).contains(&(after / before)), "{case}: {before} before, {after} after");
            }
            assert_eq!(left_us(&world) > 200_000, clocks && sender_side, "{case}");
            // And shorter again.
            if sender_side {
                world.left_us -= longer_us;
                let again = world.goodput(65, 70)[0];
                assert!((0.99..1.01).contains(&(again / before)), "{case}: {before} before, {again} again");
            }
        }
    }
}

/// Latency towards the sender that is reckoned with, µs.
fn left_us(world: &World) -> u32 {
    let mut flows = world.controller.flows(0..64).filter(|flow| flow.live);
    flows.next().expect("it is live").latency_us.0
}

/// What a sender does with its own time must not be taken for the path's, whatever it sends between its pauses. Only one that sends
/// what its window has, no more and no less, and that again and again after the same pause, looks like one that has to wait; until its
/// window is larger. Then it has what its rate has in a pause at once, if it goes on just then.
#[test]
fn a_sender_that_pauses_is_not_taken_for_one_whose_path_is_longer() {
    for (one_way_us, path_us, tenths) in
        [(10_000, 20_000, 15), (10_000, 20_000, 42), (50_000, 2_000, 42), (5_000, 200_000, 105)]
    {
        let rate_bps = 1500 * 8 * 100_000 * tenths / (2 * one_way_us + path_us);
        let window = tenths as u32 / 10;
        for (pause_ms, segments) in [150, 1_000]
            .into_iter()
            .flat_map(|p| [1, window, window + 1, 3 * window].map(|segments| (p, segments)))
        {
            let ran = |clocks: bool| {
                let policy = Policy { local: false, ..policy(0, rate_bps, 80..=80) };
                let mut world = World::new(vec![policy], std::iter::once(80));
                (world.link_bps, world.one_way_us, world.left_us) = (1_000_000_000, one_way_us, path_us);
                world.clocks = clocks;
                world.run(5);
                let (mut stop, mut most_us) = (world.flows[0].next, 0);
                world.at(5_000_000, 0, Event::Write(stop));
                for n in 0..10_000 / pause_ms {
                    let at_us = 6_000_000 + n * pause_ms * 1_000;
                    stop += segments * MSS;
                    world.at(at_us, 0, Event::Write(stop));
                    world.run_until_us(at_us);
                    most_us = most_us.max(left_us(&world));
                }
                world.at(16_000_000 + pause_ms * 1_000, 0, Event::Write(u32::MAX));
                (excess(&mut world, 16, 21, rate_bps), most_us, left_us(&world))
            };
            let (without, with) = (ran(false), ran(true));
            let case = format!("{one_way_us} {path_us} µs, window {window}: {segments} each {pause_ms} ms");
            if segments != window {
                assert_eq!(with.1, without.1, "{case}");
            }
            let in_a_pause = (rate_bps * pause_ms) as f64 / 12_000_000.0;
            assert!(with.0 <= without.0 + in_a_pause + 1.0, "{case}: {} {}", with.0, without.0);
            assert_eq!(with.2, without.2, "{case}");
        }
    }
}

/// One that keeps less under way than it may tells the path by what follows acknowledgments.
#[test]
fn a_sender_with_a_small_buffer_is_not_taken_for_one_whose_path_is_longer() {
    for segments in [1, 2, 5, 7, 9, 10, 11] {
        let policy = Policy { local: false, ..policy(0, 3_150_000, 80..=80) };
        let mut world = World::new(vec![policy], std::iter::once(80));
        (world.link_bps, world.one_way_us, world.left_us) = (100_000_000, 10_000, 20_000);
        (world.clocks, world.buffer) = (true, segments * MSS);
        for second in 1..20 {
            world.run(second);
            assert_eq!(left_us(&world), 20_000, "{segments}");
        }
    }
}

/// Rates that are together more than what leads here from their senders has: their queue is taken for a longer path no more than one
/// behind here is.
#[test]
fn a_queue_before_here_is_not_taken_for_a_longer_path() {
    for (flows, path_us, over) in
        [(1, 100_000, 150), (4, 100_000, 150), (8, 20_000, 150), (8, 100_000, 300), (32, 100_000, 130)]
    {
        let ran = |clocks: bool, behind: bool| {
            let policy = Policy { local: false, ..policy(0, 10_000_000, 80..=80) };
            let mut world = World::new(vec![policy], (0..flows).map(|_| 80));
            (world.link_bps, world.one_way_us, world.left_us) = (100_000_000, 10_000, path_us);
            (world.left_bps, world.clocks) = (1_000_000_000 / over, clocks);
            if behind {
                (world.link_bps, world.left_bps) = (world.left_bps, 0);
                (world.one_way_us, world.left_us) = (path_us / 2, 20_000);
            }
            world.run(40);
            let waits = if behind { &world.longest_wait } else { &world.longest_left_wait };
            *waits.range(10..).map(|(_, us)| us).max().expect("it was used")
        };
        let (without, with, behind) = (ran(false, false), ran(true, false), ran(true, true));
        let case = format!("{flows} flows, {path_us} µs, {over} % of the link");
        println!("{case}: a queue of {without} µs without clocks, {with} with them, {behind} behind here");
        assert!(with <= behind, "{case}: {with}, {behind} behind here");
        assert!(over > 150 || with <= without + without / 4, "{case}: {with}, {without} without clocks");
    }
}

/// What receivers wait is learnt behind a longer path too: its senders are not taken for idle.
#[test]
fn receivers_that_wait_behind_a_path_that_has_become_longer_get_what_the_rate_says() {
    for (wait_ms, tenths) in [40, 200].into_iter().flat_map(|wait| [15, 25, 33].map(|tenths| (wait, tenths)))
    {
        let rate_bps = 1500 * 8 * 1000 * tenths / 10 / 240;
        let policy = Policy { local: false, ..policy(0, rate_bps, 80..=80) };
        let mut world = World::new(vec![policy], std::iter::once(80));
        (world.link_bps, world.one_way_us, world.left_us) = (1_000_000_000, 10_000, 20_000);
        (world.receivers_wait_us, world.clocks) = (wait_ms * 1000, true);
        world.run(10);
        world.left_us += 200_000;
        let got = world.goodput(30, 80)[0] / (rate_bps as f64 * 1460.0 / 1512.0);
        let case = format!("waits of {wait_ms} ms, {tenths} tenths of a segment");
        assert!((0.96..=1.02).contains(&got), "{case}: {got}");
    }
}

/// How much the octets of a flow differ in five seconds, which is what a standard deviation of 5 s is of: of the median flow, segments.
fn unevenness(world: &World, from_s: u64, to_s: u64) -> f64 {
    let of = |n: usize| {
        let mut bins = vec![0.0; ((to_s - from_s) / 5) as usize];
        let mut before = 1;
        for (_, _, at, end) in world.went.iter().filter(|(flow, ..)| *flow == n) {
            if let Some(bin) = (at / 1_000_000).checked_sub(from_s).and_then(|s| bins.get_mut(s as usize / 5))
            {
                *bin += f64::from(end - before) / f64::from(MSS);
            }
            before = *end;
        }
        let mean = bins.iter().sum::<f64>() / bins.len() as f64;
        (bins.iter().map(|bin| (bin - mean).powi(2)).sum::<f64>() / bins.len() as f64).sqrt()
    };
    let mut all: Vec<f64> = (0..world.flows.len()).map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Held acknowledgments make up for windows of whole segments: 1.2 to 12 segments a round trip, of which some have a whole number
/// close above and some have not. In any time a flow has no more than its rate and five segments, in the long run its rate,
/// none of its acknowledgments waits longer than a fifth of a second, and their order is kept.
#[test]
fn spread_acknowledgments_hold_the_rate_more_evenly_than_windows() {
    for (tenths, even) in [(12, false), (21, false), (36, true), (77, true), (120, true)] {
        let rate = 1_500 * 8 * tenths * 10 / 9 / 10;
        let run = |spread: bool| {
            let peak = policy(0, 8 * rate, 80..=80);
            let mut world = World::new(vec![Policy { peak: Rate(rate), ..peak }], (0..8).map(|_| 80));
            world.link_bps = 8 * rate * 100 / 98;
            world.controller.set_spread(spread);
            let goodput = world.goodput(40, 240);
            (goodput.iter().sum::<f64>() / 8.0 / (rate as f64 * 1460.0 / 1500.0), world)
        };
        let (windows, beside) = run(false);
        let (part, world) = run(true);
        assert!((0.985..=1.005).contains(&part), "{tenths}: {part} of the rate, by windows alone {windows}");
        assert!(world.went.iter().all(|(_, us, at, _)| at - us <= 200_000), "{tenths}");
        for n in 0..8 {
            let went: Vec<_> =
                world.went.iter().filter(|(flow, _, at, _)| *flow == n && *at > 40_000_000).collect();
            assert!(went.is_sorted_by_key(|(_, _, at, end)| (*at, *end)), "{tenths}");
            for (i, (_, _, from, start)) in went.iter().enumerate() {
                for (_, _, to, end) in &went[i..] {
                    let has = (to - from) as f64 * rate as f64 / 8e6 * 1460.0 / 1500.0 + f64::from(5 * MSS);
                    assert!(f64::from(end - start) <= has, "{tenths}: {} in {} µs", end - start, to - from);
                }
            }
        }
        let (with, without) = (unevenness(&world, 40, 240), unevenness(&beside, 40, 240));
        println!(
            "{tenths} tenths: {part:.4} of the rate, {with:.2} segments in 5 s; by windows {windows:.4}, {without:.2}"
        );
        assert!(with <= if even { 0.5 } else { 1.0 }, "{tenths}: {with}, by windows alone {without}");
    }
}

/// The policy is for both directions, of which one has no data: what it acknowledges is a SYN alone.
#[test]
fn a_path_that_becomes_longer_is_noticed_where_acknowledgments_are_spread() {
    let latency = Latency::Minimum { window: Duration::from_secs(10) };
    let both = Policy { latency, peak: Rate(47_040), ..policy(0, LINK_BPS, 0..=u16::MAX) };
    let mut world = World::new(vec![both], (0..32).map(|_| 80));
    world.controller.set_spread(true);
    world.run(30);
    world.one_way_us = 600_000;
    let goodput = world.goodput(50, 80);
    let part = goodput.iter().sum::<f64>() / 32.0 / (47_040.0 * 1460.0 / 1500.0);
    assert!((0.97..=1.01).contains(&part), "{part}");
}
