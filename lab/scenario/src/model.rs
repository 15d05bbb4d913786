//! What a scenario means once it is read: plain data with units, indices instead of names.
//!
//! Nodes and links are referred to by their index in [`Scenario`]. Times are since the start of a repetition. Nothing
//! here knows a world: the simulator and the namespaces build the same network from it.

use perhop_bandwidth::AgentFile;
use perhop_broker::flow::Marks;
use perhop_broker::peer::PeerFile;
use perhop_broker::topology::DomainFile;
use perhop_config::Position;
use perhop_quality::{Codec, Scoring};
use perhop_traffic::{Captured, FrameTrace};
use perhop_units::{Bytes, Dscp, Duration, Probability, QueueLimit, Rate};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A whole scenario in one configuration: the product's or one variant's.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Stable name, such as `H-8.1.2`.
    pub id: String,
    /// What people are shown as the name of the configuration that is no variant, if not `product`: what the file says, or
    /// `network` where nothing in it is a router of ours.
    pub label: Option<String>,
    /// One line that reads without knowing the authors.
    pub title: String,
    /// What the scenario shows.
    pub why: String,
    /// Publication the expected values come from.
    pub source: Option<String>,
    /// Time before the measurement.
    pub warm_up: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// Repetitions, at least 1; repetition i uses stream i of the seed.
    pub repetitions: u32,
    /// Seed unless told otherwise.
    pub seed: u64,
    /// Nodes, in order of the file.
    pub nodes: Vec<Node>,
    /// Links, in order of the file.
    pub links: Vec<Link>,
    /// Traffic, in order of the file.
    pub traffic: Vec<Traffic>,
    /// Node stops, clock drift and other faults, in order of time.
    pub faults: Vec<Fault>,
    /// Programs to run in nodes of the namespaces.
    pub programs: Vec<Program>,
    /// What is asked of controllers, in order of the file.
    pub reservations: Vec<Reservation>,
    /// What to sample.
    pub probes: Probes,
    /// Expected values.
    pub expect: Vec<Expect>,
    /// Names of the variants the file has, each read as a [`Scenario`] of its own.
    pub variants: Vec<String>,
}

impl Scenario {
    /// Length of a repetition.
    pub fn length(&self) -> Duration {
        self.warm_up + self.duration
    }

    /// Index of a node.
    pub fn node(&self, name: &str) -> Option<NodeIndex> {
        self.nodes.iter().position(|node| node.name == name).map(NodeIndex)
    }

    /// Index of a link.
    pub fn link(&self, name: &str) -> Option<LinkIndex> {
        self.links.iter().position(|link| link.name == name).map(LinkIndex)
    }

    /// Of every node what [`Scenario::links_of`] gives, for those who ask often. O(nodes + links).
    pub fn links_by_node(&self) -> Vec<Vec<(LinkIndex, usize)>> {
        let mut all = vec![Vec::new(); self.nodes.len()];
        for (i, link) in self.links.iter().enumerate() {
            for (end, node) in link.ends.iter().enumerate() {
                // A node that is not there has none, as long as a file is being read.
                all.get_mut(node.0)
                    .into_iter()
                    .for_each(|links: &mut Vec<_>| links.push((LinkIndex(i), end)));
            }
        }
        all
    }

    /// Links at a node, each with the end that is there (0 or 1).
    pub fn links_of(&self, node: NodeIndex) -> impl Iterator<Item = (LinkIndex, usize)> + '_ {
        self.links.iter().enumerate().flat_map(move |(i, link)| {
            (0..2).filter(move |end| link.ends[*end] == node).map(move |end| (LinkIndex(i), end))
        })
    }
}

/// Position of a node in [`Scenario::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub usize);

/// Position of a link in [`Scenario::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub usize);

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name, at most 15 characters of `[A-Za-z0-9_-]`: it also names a namespace.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its address: given, or 10.0.0.0/8 by position. One address per node, reachable from everywhere.
    pub address: Ipv4Addr,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a scenario has a few thousand nodes at the most")]
pub enum NodeKind {
    /// Sends and receives; forwards nothing.
    Host,
    /// Forwards by destination; each link's own queue is all the scheduling there is. In namespaces: the kernel.
    Forwarder,
    /// A Perhop router.
    Router(RouterConfig),
    /// The controller of a domain, which forwards nothing.
    Controller(ControllerConfig),
}

/// A controller with its domain. Routers of the domain are nodes of the same names.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerConfig {
    /// What the domain consists of, and how it decides. Its ports are links of the scenario.
    pub domain: DomainFile,
    /// Code points that packets with a reservation get, by class.
    pub marks: Marks,
    /// When it is away, from and until, in order of time and one after the other.
    pub outages: Vec<(Duration, Duration)>,
    /// Neighbouring domains: controllers of the scenario.
    pub peers: Vec<PeerFile>,
    /// What becomes of what it says to them.
    pub faults: MessageFaults,
}

/// What becomes of messages between controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFaults {
    /// Independent loss.
    pub loss: Probability,
    /// A random part of the delay, up to this much; order is not kept.
    pub jitter: Duration,
}

/// Requests for bandwidth, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// Name in results.
    pub name: String,
    /// Whom they ask.
    pub controller: NodeIndex,
    /// Where the traffic enters the domain, and from where is asked.
    pub from: NodeIndex,
    /// Where it leaves it.
    pub to: NodeIndex,
    /// Logical class.
    pub class: String,
    /// How much each asks for.
    pub rate: Rate,
    /// How much of the way back, with which it is both or none.
    pub back: Option<Rate>,
    /// What it may be shrunk to.
    pub floor: Option<Rate>,
    /// How important it is: 0 the least.
    pub priority: u8,
    /// How long it lives; none = as the domain says.
    pub lifetime: Option<Duration>,
    /// When the first asks.
    pub at: Duration,
    /// How many there are.
    pub count: u32,
    /// Time between two.
    pub every: Duration,
    /// Who is refused asks again after this time; none = never.
    pub retry: Option<Duration>,
    /// When all of them are given back; none = they live on.
    pub release: Option<Duration>,
    /// Position of the traffic whose packets they are for; none = they are not told from others of the class.
    pub traffic: Option<usize>,
    /// Another domain, that of this controller, in which `to` is an edge.
    pub domain: Option<String>,
    /// The agent beside the router where it enters decides, within leases.
    pub by_agent: bool,
}

/// Configuration of a Perhop router: text of a router file. A port of the file is the link of the same name; a port
/// without a rate gets that of its link, a link at the node that the file does not name becomes a port without rate and
/// classes. Without a text every link does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouterConfig {
    /// Where the text was read, for messages.
    pub origin: String,
    /// The text.
    pub text: String,
    /// The agent that decides for it, if any.
    pub agent: Option<AgentFile>,
    /// Files that take the place of its own while the scenario runs, in order of time.
    pub changes: Vec<RouterChange>,
}

/// A router file that takes the place of the one before it, as `perhop router run` does when its file changes: what is
/// the same in both stays as it is. It has the same ports.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterChange {
    /// When.
    pub at: Duration,
    /// Where the text was read, for messages.
    pub origin: String,
    /// The text.
    pub text: String,
}

/// A link between two nodes, each direction on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// The nodes at its ends.
    pub ends: [NodeIndex; 2],
    /// From end 0 to end 1, and back. The first is the direction reported as the link's own.
    pub ways: [Way; 2],
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Rate at frame length plus `overhead`; `None`: no limit.
    pub rate: Option<Rate>,
    /// Delivery opportunities instead of a rate: one 1,500-byte packet each, repeated to the end.
    pub trace: Option<DeliveryTrace>,
    /// Propagation delay.
    pub delay: Duration,
    /// Random part of the delay.
    pub jitter: Option<Jitter>,
    /// Independent loss.
    pub loss: Probability,
    /// Bursts of loss.
    pub burst_loss: Option<GilbertElliott>,
    /// Probability that a packet arrives twice.
    pub duplicate: Probability,
    /// Probability that a packet skips the delay and so overtakes.
    pub reorder: Probability,
    /// Bytes added to each frame on the wire (an Ethernet frame here has 14 bytes of header, no FCS).
    pub overhead: Bytes,
    /// How much waits for the line.
    pub queue: QueueLimit,
    /// In which order it leaves.
    pub discipline: Discipline,
    /// Changes, in order of time.
    pub changes: Vec<Change>,
}

impl Default for Way {
    /// No limit, no delay, no fault; 1,000 packets of first-in first-out.
    fn default() -> Self {
        Self {
            rate: None,
            trace: None,
            delay: Duration::ZERO,
            jitter: None,
            loss: Probability::ZERO,
            burst_loss: None,
            duplicate: Probability::ZERO,
            reorder: Probability::ZERO,
            overhead: Bytes(0),
            queue: QueueLimit::Packets(1000),
            discipline: Discipline::Fifo,
            changes: Vec::new(),
        }
    }
}

/// Milliseconds at which one packet of 1,500 bytes may leave, non-decreasing; the trace repeats after its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// Where it was read.
    pub origin: String,
    /// Opportunities, ms since the start of a pass.
    pub opportunities_ms: Vec<u32>,
}

/// Random delay beside the constant one; order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    /// Greatest deviation (uniform) or standard deviation (normal, Pareto).
    pub spread: Duration,
    /// Shape.
    pub shape: JitterShape,
}

/// Shape of a random delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterShape {
    /// delay ± spread.
    #[default]
    Uniform,
    /// Normal with the spread as standard deviation, never below zero.
    Normal,
    /// The delay plus a Pareto excess (shape 3) of the spread as standard deviation: a long tail.
    Pareto,
}

/// Two-state loss (Gilbert 1960, Elliott 1963), stepped once a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// From good to bad.
    pub p: Probability,
    /// From bad to good.
    pub r: Probability,
    /// Loss in the good state.
    pub loss_good: Probability,
    /// Loss in the bad state.
    pub loss_bad: Probability,
}

/// What orders the packets that wait for a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Any discipline of the data plane by the name and arguments of its graph element, for example
    /// `Red(limit = 215 packets, min = 64 packets, max = 193 packets)`. The link's rate, queue and overhead are added
    /// as `rate`, `limit` and `overhead` where the element has such keys and the text does not set them.
    Element(String),
}

/// A change of a link while the scenario runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// Rate from then on.
    pub rate: Option<Rate>,
    /// Delay from then on.
    pub delay: Option<Duration>,
    /// Loss from then on.
    pub loss: Option<Probability>,
    /// `Some(false)`: the link carries nothing (partition); `Some(true)`: it does again.
    pub up: Option<bool>,
}

/// Something that breaks.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub at: Duration,
    /// Where.
    pub node: NodeIndex,
    /// What.
    pub kind: FaultKind,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The node stops: it takes and sends nothing, its connections are gone, and so is what a router would have sent
    /// until it starts again. What waits for a link or is on it has left the node.
    Stop,
    /// It starts again with its configuration and what it knew.
    Restart,
    /// Its clock runs fast (positive) or slow by this many parts per million from now on.
    ClockDrift {
        /// ppm, −100,000 … 100,000.
        ppm: i32,
    },
}

/// A program in a node (namespaces only).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name in results.
    pub name: String,
    /// Where it runs.
    pub node: NodeIndex,
    /// Command line, split as a shell would without expansions.
    pub command: Vec<String>,
    /// Where the file says so, for messages; `None` for a scenario that is not from a file.
    pub at: Option<Position>,
    /// When it starts.
    pub start: Duration,
    /// When it is ended by signal; `None`: with the repetition.
    pub stop: Option<Duration>,
    /// How it must have ended.
    pub expect: FinalState,
}

/// How a program must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalState {
    /// With this exit code.
    Exit(i32),
    /// Still running when it is stopped.
    Running,
    /// Anyhow.
    Any,
}

/// Traffic between pairs of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Name. With several pairs the results have groups `name1`, `name2` … and `name` for all of them.
    pub name: String,
    /// Sender (of the larger part of the data) and receiver, one entry a pair.
    pub pairs: Vec<(NodeIndex, NodeIndex)>,
    /// Also the other way with the same parameters: groups `name.up` (second to first) and `name.down` beside `name`.
    pub both: bool,
    /// When it starts.
    pub start: Duration,
    /// When it stops sending.
    pub stop: Duration,
    /// Code point of its packets from the sender.
    pub dscp: Dscp,
    /// Code point of TCP's packets from the receiver (mostly acknowledgements); `dscp` unless told.
    pub reply_dscp: Dscp,
    /// What is sent.
    pub kind: TrafficKind,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Calls.
    Voice {
        /// How many.
        calls: u16,
        /// Codec.
        codec: Codec,
        /// Time between the starts of two calls.
        spacing: Duration,
        /// Mean talk spurt and silence; `None`: packets all the time.
        silence_suppression: Option<(Duration, Duration)>,
    },
    /// Video by frame sizes: the generator's, or those of a trace.
    Video {
        /// Streams.
        count: u16,
        /// Frame sizes of a trace; `None`: the generator of the published statistics.
        trace: Option<Arc<FrameTrace>>,
        /// Mean rate of the generator, frame bytes alone: an encoder's, as traces and publications give it. IP and UDP
        /// headers come on top, 28 bytes a packet.
        rate: Rate,
    },
    /// Datagrams of one size at a constant rate.
    Constant {
        /// Streams.
        count: u16,
        /// Rate of each at IP length.
        rate: Rate,
        /// IP length.
        size: Bytes,
    },
    /// Datagrams of one size at exponential gaps.
    Poisson {
        /// Streams.
        count: u16,
        /// Mean rate of each at IP length.
        rate: Rate,
        /// IP length.
        size: Bytes,
    },
    /// Bursts and pauses.
    OnOff {
        /// Streams.
        count: u16,
        /// Rate of each while on, at IP length.
        rate: Rate,
        /// IP length.
        size: Bytes,
        /// Mean time on.
        on: Duration,
        /// Mean time off.
        off: Duration,
        /// Pareto shape of both periods in thousandths, 1,050 … 10,000; `None`: exponential.
        pareto_shape_milli: Option<u32>,
    },
    /// Markov-modulated Poisson with packet sizes of four Gaussian modes: background of a backbone.
    Mmpp {
        /// Streams.
        count: u16,
        /// Mean rate of each at IP length.
        rate: Rate,
    },
    /// Rates in steps.
    Staircase {
        /// Time and rate of each step, at IP length.
        steps: Vec<(Duration, Rate)>,
        /// IP length.
        size: Bytes,
        /// Whether the first step follows the last.
        repeat: bool,
        /// It starts at a moment up to this much later, another one in each repetition.
        start_within: Duration,
    },
    /// RTP flows of packets of one size, at one rate or at several for random times.
    Rtp {
        /// Flows.
        count: u16,
        /// Rates of each at IP length, over and over; 0 is silence.
        rates: Vec<Rate>,
        /// Shortest and longest time at each of several rates, uniform between them.
        stay: (Duration, Duration),
        /// IP length.
        size: Bytes,
    },
    /// Packet times and IP lengths of a capture.
    Replay {
        /// The packets.
        capture: Arc<[Captured]>,
        /// Mean rate to scale its time to; `None`: as captured.
        rate: Option<Rate>,
    },
    /// Greedy TCP transfers.
    Bulk {
        /// Connections of each pair.
        count: u16,
        /// Size of each; `None`: endless.
        size: Option<Bytes>,
        /// Time between two starts.
        spacing: Duration,
        /// How many start together each time, at least 1.
        at_once: u16,
        /// Random part of each start, uniform up to this.
        stagger: Duration,
        /// One-way delay between the pair's second host and its first link beside that of the path: of the first
        /// connection and of the last, the others evenly between them (in the simulator only).
        access_delay: (Duration, Duration),
        /// The transport.
        tcp: Tcp,
    },
    /// Parallel connections, a new file on each as soon as one ends.
    Files {
        /// Parallel connections of each pair.
        count: u16,
        /// Geometric mean of the sizes.
        size: Bytes,
        /// The transport.
        tcp: Tcp,
    },
    /// Users who fetch pages and think.
    Web {
        /// Users of each pair.
        count: u16,
        /// Uniform thinking time.
        think: (Duration, Duration),
        /// Geometric mean of the object size.
        size: Bytes,
        /// Persistent connections with this many objects a page; `None`: HTTP/1.0, one connection an object.
        persistent_objects: Option<u16>,
        /// The transport.
        tcp: Tcp,
    },
}

impl TrafficKind {
    /// The transport of traffic over TCP.
    pub fn tcp(&self) -> Option<&Tcp> {
        match self {
            Self::Bulk { tcp, .. } | Self::Files { tcp, .. } | Self::Web { tcp, .. } => Some(tcp),
            _ => None,
        }
    }

    /// One-way delay that the connection of this slot has at the pair's second host beside that of the path.
    pub fn access_delay(&self, slot: u16) -> Duration {
        let Self::Bulk { count, access_delay: (least, most), .. } = self else { return Duration::ZERO };
        let steps = u64::from(count.saturating_sub(1)).max(1);
        let beyond = u128::from(most.0.saturating_sub(least.0)) * u128::from(slot) / u128::from(steps);
        *least + Duration(u64::try_from(beyond).unwrap_or(u64::MAX))
    }

    /// The port that its connections go to, the same in every world, because filters of routers may name it; `None` for
    /// datagrams.
    pub fn server_port(&self) -> Option<u16> {
        match self {
            Self::Web { .. } => Some(80),
            Self::Files { .. } => Some(20),
            Self::Bulk { .. } => Some(5001),
            _ => None,
        }
    }
}

/// How a transport behaves. In namespaces the kernel's own: congestion control and buffers apply, the rest is its.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// Congestion control: `newreno` (in the kernel `reno`), `cubic`; in namespaces also `bbr`.
    pub congestion: String,
    /// When CUBIC leaves slow start; `newreno` always does at the first loss.
    pub slow_start: SlowStart,
    /// Selective acknowledgements.
    pub sack: bool,
    /// With `sack`, loss found by time (RFC 8985), as kernels do, instead of by counting (RFC 6675).
    pub rack: bool,
    /// Explicit congestion notification.
    pub ecn: bool,
    /// Time stamps.
    pub timestamps: bool,
    /// Window scaling; without it at most 65,535 bytes are under way.
    pub window_scaling: bool,
    /// Initial window in segments, 1 … 10.
    pub initial_window: u8,
    /// Largest segment.
    pub mss: u16,
    /// Send buffer.
    pub send_buffer: Bytes,
    /// Receive buffer.
    pub receive_buffer: Bytes,
    /// Smallest retransmission time-out.
    pub min_rto: Duration,
    /// Retransmission time-out before the first measurement.
    pub initial_rto: Duration,
    /// Longest wait with an acknowledgement; `None`: each segment is acknowledged at once.
    pub delayed_ack: Option<Duration>,
    /// Rate at IP length that each connection ought to have: figures of utilisation are shares of it.
    pub share: Option<Rate>,
}

/// When slow start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStart {
    /// At the first loss (RFC 5681).
    Standard,
    /// When the round-trip time grows or a train of acknowledgements fills it (Ha and Rhee 2011), as in Linux.
    HyStart,
}

impl Default for Tcp {
    /// A present-day host: CUBIC with HyStart, SACK and time stamps, ten segments, buffers of 4 MiB.
    fn default() -> Self {
        Self {
            congestion: "cubic".to_owned(),
            slow_start: SlowStart::HyStart,
            sack: true,
            rack: true,
            ecn: false,
            timestamps: true,
            window_scaling: true,
            initial_window: 10,
            mss: 1448,
            send_buffer: Bytes(4 << 20),
            receive_buffer: Bytes(4 << 20),
            min_rto: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            delayed_ack: Some(Duration::from_millis(40)),
            share: None,
        }
    }
}

/// What is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Interval of queue lengths, drops and borrow counters.
    pub queue_interval: Duration,
    /// Bin of throughput series.
    pub throughput_bin: Duration,
    /// Links whose queues are recorded; empty: all that drop a packet.
    pub links: Vec<LinkIndex>,
    /// Traffic whose TCP connections record windows and sequence numbers (the first few of each).
    pub connections: Vec<usize>,
    /// Traffic whose TCP segments are followed one by one.
    pub segments: Vec<usize>,
    /// Limits of the excess delay of segments, in rising order: the shares at or above each are figures.
    pub delay_limits: Vec<Duration>,
    /// Parts of the time with figures of their own.
    pub phases: Vec<Phase>,
    /// Parts of flows with figures of their own.
    pub after: Vec<AfterPackets>,
    /// How calls are scored: the playout buffer of those who hear them.
    pub scoring: Scoring,
}

/// What each flow of some traffic sends after its first packets, with figures of its own: a router recognises a flow by
/// these, so that only what follows was served as what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfterPackets {
    /// Its name: the groups are `TRAFFIC_after_NAME`.
    pub name: String,
    /// The traffic, by index; none over TCP, whose packets the kernel makes.
    pub traffic: Vec<usize>,
    /// What counts begins at the instant at which the packet behind so many of a flow is sent.
    pub packets: u32,
}

/// A part of a repetition that has figures of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its name, which stands behind that of a group and an `@`.
    pub name: String,
    /// Its beginning.
    pub from: Duration,
    /// Its end.
    pub until: Duration,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            queue_interval: Duration::from_millis(10),
            throughput_bin: Duration::from_millis(300),
            links: Vec::new(),
            connections: Vec::new(),
            segments: Vec::new(),
            delay_limits: Vec::new(),
            phases: Vec::new(),
            after: Vec::new(),
            scoring: Scoring::default(),
        }
    }
}

/// An expected value.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// Path of the figure in the result, such as `voip.delay_ms.mean` or `baseline.voip.loss_pct`.
    pub metric: String,
    /// What must hold.
    pub target: Option<Target>,
    /// What was published.
    pub published: Option<f64>,
    /// Where.
    pub source: Option<String>,
    /// Paths of values the target depends on: when one is changed, the target is not judged.
    pub depends: Vec<String>,
    /// Every repetition must hold it, not only their mean.
    pub every: bool,
    /// Only in this world (`sim` or `netns`); `None`: in both.
    pub mode: Option<String>,
}

/// What must hold of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At most.
    AtMost(f64),
    /// At least.
    AtLeast(f64),
    /// Below.
    Below(f64),
    /// Above.
    Above(f64),
    /// Between, both included.
    Within(f64, f64),
    /// Exactly.
    Equal(f64),
}
