//! The dumbbell both simulators run, and what TCP does in it: stated once, here.
//!
//! N hosts on the left send to N on the right. Each hangs on its side's router by a link ten times as fast as the
//! bottleneck between the routers, whose drop-tail queue does not count the packet on the line. All delay is the
//! bottleneck's. Flow i runs from host i mod N; flows start one after the other, 10 ms apart or all within a tenth of the
//! run.
//!
//! TCP is the same at both: NewReno (RFC 5681, 6582) with SACK recovery (RFC 6675), proportional rate reduction (RFC
//! 6937), limited transmit (RFC 3042), time-stamps and window scaling (RFC 7323), acknowledgments of every second
//! segment or after 200 ms, retransmission timeouts of at least 1 s as RFC 6298 says and of 3 s before the first
//! measurement, so that no SYN is sent twice over the satellite dumbbell; no ECN, no Nagle. Buffers of 4 MiB end no
//! burst. One thing differs and cannot be told to agree: the window grows by bytes acknowledged here (RFC 3465) and by
//! acknowledgments there.
//!
//! Frames carry 14 bytes of Ethernet here and 2 of PPP there. So that a full-size packet takes the same time on both
//! lines, ns-3 is given rates lower by that difference.

use perhop_scenario::{
    Discipline, Link, LinkIndex, Node, NodeIndex, NodeKind, Probes, Scenario, Tcp, Traffic, TrafficKind, Way,
};
use perhop_units::{Bytes, Dscp, Duration, QueueLimit, Rate};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Most time from the start of a flow to that of the next.
const SPACING: Duration = Duration::from_millis(10);
/// Share of the run in which all flows start, at most.
const STARTING: u64 = 10;
/// Most hosts on a side: routes of the simulator are a table of nodes × nodes.
pub const MOST_PAIRS: usize = 64;
/// Payload of a full segment; its packet has 1,500 bytes.
const MSS: u16 = 1448;
/// IP length of a full segment.
const PACKET: u64 = 1500;
/// Bytes before the IP header here.
const ETHERNET: u64 = 14;
/// Bytes before it in ns-3.
const PPP: u64 = 2;
/// How much faster than the bottleneck other links are.
const ACCESS: u64 = 10;
/// Packets before a link that never fills.
const ACCESS_QUEUE: u32 = 10_000;
/// Timeouts before a connection is given up.
const RETRIES: u8 = 15;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dumbbell {
    /// Connections.
    pub flows: u16,
    /// Rate of the bottleneck, bit/s.
    pub rate: u64,
    /// One-way delay, ns.
    pub delay: u64,
    /// Packets that wait for it.
    pub queue: u32,
    /// Simulated time, s.
    pub sim_s: u32,
}

impl Dumbbell {
    /// Hosts on each side.
    pub fn pairs(&self) -> usize {
        usize::from(self.flows).min(MOST_PAIRS)
    }

    /// From the start of a flow to that of the next.
    pub fn spacing(&self) -> Duration {
        let run = Duration::from_secs(self.sim_s.into()).as_nanos();
        Duration(SPACING.as_nanos().min(run / STARTING / u64::from(self.flows.max(1))))
    }

    /// As a scenario.
    pub fn scenario(&self) -> Scenario {
        let pairs = self.pairs();
        let end = Duration::from_secs(self.sim_s.into());
        Scenario {
            id: "dumbbell".to_owned(),
            label: None,
            title: "Bulk transfers over one bottleneck".to_owned(),
            why: "The load of a speed measurement".to_owned(),
            source: None,
            warm_up: Duration::ZERO,
            duration: end,
            repetitions: 1,
            seed: 1,
            nodes: self.nodes(pairs),
            links: self.links(pairs),
            traffic: (0..usize::from(self.flows)).map(|flow| self.traffic(flow, end)).collect(),
            faults: Vec::new(),
            programs: Vec::new(),
            reservations: Vec::new(),
            probes: Probes { links: vec![LinkIndex(0)], ..Probes::default() },
            expect: Vec::new(),
            variants: Vec::new(),
        }
    }

    /// The two routers, then left hosts, then right ones.
    fn nodes(&self, pairs: usize) -> Vec<Node> {
        let node = |i: usize| {
            let (name, kind) = match i {
                0 | 1 => (format!("r{i}"), NodeKind::Forwarder),
                _ if i < 2 + pairs => (format!("left{}", i - 2), NodeKind::Host),
                _ => (format!("right{}", i - 2 - pairs), NodeKind::Host),
            };
            Node { name, kind, address: Ipv4Addr::from(0x0A00_0001 + i as u32) }
        };
        (0..2 + 2 * pairs).map(node).collect()
    }

    fn links(&self, pairs: usize) -> Vec<Link> {
        let link = |name: String, ends: [usize; 2], rate: u64, delay: u64, queue: u32| {
            let way = Way {
                rate: Some(Rate(rate)),
                delay: Duration(delay),
                queue: QueueLimit::Packets(queue),
                discipline: Discipline::Fifo,
                ..Way::default()
            };
            Link { name, ends: ends.map(NodeIndex), ways: [way.clone(), way] }
        };
        let mut links = vec![link("core".to_owned(), [0, 1], self.rate, self.delay, self.queue)];
        for host in 2..2 + 2 * pairs {
            let router = usize::from(host >= 2 + pairs);
            links.push(link(format!("access{host}"), [host, router], ACCESS * self.rate, 0, ACCESS_QUEUE));
        }
        links
    }

    /// One connection.
    fn traffic(&self, flow: usize, stop: Duration) -> Traffic {
        let pair = flow % self.pairs();
        Traffic {
            name: format!("flow{flow}"),
            pairs: vec![(NodeIndex(2 + pair), NodeIndex(2 + self.pairs() + pair))],
            both: false,
            start: Duration(self.spacing().as_nanos() * flow as u64),
            stop,
            dscp: Dscp::default(),
            reply_dscp: Dscp::default(),
            kind: TrafficKind::Bulk {
                count: 1,
                size: None,
                spacing: Duration::ZERO,
                at_once: 1,
                stagger: Duration::ZERO,
                access_delay: (Duration::ZERO, Duration::ZERO),
                tcp: transport(),
            },
        }
    }

    /// Arguments of the ns-3 program.
    pub fn peer_arguments(&self) -> Vec<String> {
        let tcp = transport();
        // A full-size packet takes as long as here.
        let rate = |bit_s: u64| {
            (u128::from(bit_s) * u128::from(PACKET + PPP) / u128::from(PACKET + ETHERNET)) as u64
        };
        let delayed_ack = tcp.delayed_ack.unwrap_or(Duration::ZERO);
        [
            ("flows", self.flows.to_string()),
            ("pairs", self.pairs().to_string()),
            ("bottleneck-bit-s", rate(self.rate).to_string()),
            ("access-bit-s", rate(ACCESS * self.rate).to_string()),
            ("delay-ns", self.delay.to_string()),
            ("queue-packets", self.queue.to_string()),
            ("access-queue-packets", ACCESS_QUEUE.to_string()),
            ("sim-ns", Duration::from_secs(self.sim_s.into()).as_nanos().to_string()),
            ("spacing-ns", self.spacing().as_nanos().to_string()),
            ("congestion", "TcpNewReno".to_owned()),
            ("sack", tcp.sack.to_string()),
            ("timestamps", tcp.timestamps.to_string()),
            ("mss", tcp.mss.to_string()),
            ("initial-window", tcp.initial_window.to_string()),
            ("buffer", tcp.send_buffer.get().to_string()),
            ("min-rto-ns", tcp.min_rto.as_nanos().to_string()),
            ("initial-rto-ns", tcp.initial_rto.as_nanos().to_string()),
            ("delayed-ack-segments", "2".to_owned()),
            ("delayed-ack-ns", delayed_ack.as_nanos().to_string()),
            ("retries", RETRIES.to_string()),
        ]
        .into_iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect()
    }
}

/// See the module.
fn transport() -> Tcp {
    Tcp {
        congestion: "newreno".to_owned(),
        sack: true,
        ecn: false,
        timestamps: true,
        initial_window: 10,
        mss: MSS,
        send_buffer: Bytes(4 << 20),
        receive_buffer: Bytes(4 << 20),
        min_rto: Duration::from_secs(1),
        initial_rto: Duration::from_secs(3),
        delayed_ack: Some(Duration::from_millis(200)),
        ..Tcp::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_takes_the_same_time_in_both() {
        let dumbbell = Dumbbell { flows: 3, rate: 1_536_000, delay: 450_000_000, queue: 64, sim_s: 240 };
        let arguments = dumbbell.peer_arguments();
        let theirs = arguments.iter().find_map(|a| a.strip_prefix("--bottleneck-bit-s="));
        let theirs: f64 = theirs.expect("it is told the rate").parse().expect("a number");
        let (here, there) = (1514.0 * 8.0 / 1_536_000.0, 1502.0 * 8.0 / theirs);
        assert!((here / there - 1.0f64).abs() < 1e-5, "{here} s and {there} s");
    }

    #[test]
    fn every_flow_has_a_way_and_an_end_inside_the_run() {
        let dumbbell = Dumbbell { flows: 200, rate: 1_000_000, delay: 0, queue: 10, sim_s: 3 };
        let scenario = dumbbell.scenario();
        assert_eq!((scenario.nodes.len(), scenario.links.len()), (2 + 128, 1 + 128));
        let paths = perhop_scenario::Paths::of(&scenario);
        for traffic in &scenario.traffic {
            let (from, to) = traffic.pairs[0];
            assert!(paths.first_link(from, to).is_some() && traffic.start < traffic.stop);
        }
    }
}
