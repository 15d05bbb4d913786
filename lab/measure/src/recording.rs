//! What one repetition of a scenario left behind, whichever world it ran in.

use crate::bins::Bins;
use crate::segments::{ReadLog, SegmentLog};
use perhop_allocate::counters::Counters;
use perhop_quality::{Codec, difference_ns};
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

/// One repetition.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The part that counts: from the end of the warm-up to the end.
    pub window: (Instant, Instant),
    /// Datagram streams, each one direction of one call, video or flow.
    pub streams: Vec<StreamRecord>,
    /// TCP connections.
    pub connections: Vec<ConnectionRecord>,
    /// One entry for each direction of each link.
    pub links: Vec<LinkRecord>,
    /// One entry for each class that an agent looks after.
    pub agents: Vec<AgentRecord>,
    /// One entry for each policy of the TCP rate control that an agent gave a rate.
    pub assignments: Vec<AssignmentRecord>,
    /// One entry for each router that admits recognised flows one by one.
    pub admissions: Vec<AdmissionRecord>,
    /// One entry for each `[[reservation]]`, and one for each controller.
    pub reserved: Vec<ReservedRecord>,
    /// Simulated time that a world's own events cover, for speed figures: events handled.
    pub events: u64,
    /// Connections that an application could not open because it had opened as many as it may, by traffic.
    pub unopened: BTreeMap<usize, u64>,
    /// Datagrams that arrived and were no traffic's.
    pub foreign: u64,
    /// Programs that ended otherwise than the scenario expects.
    pub programs: Vec<ProgramFailure>,
    /// What a reader must know to trust this repetition, apart from the machine.
    pub warnings: Vec<String>,
    /// What a reader must know of the machine.
    pub machine_warnings: Vec<String>,
    /// How busy the machine was, a sentence; `None` in the simulator.
    pub machine: Option<String>,
    /// How late the machine served a timer of routers and links at the worst; zero in the simulator. So much of a largest
    /// delay may be the machine's.
    pub longest_stall: Duration,
    /// Set when the machine, not the network, was the bottleneck: why. No verdict then.
    pub saturated: Option<String>,
    /// Set when routers and links often had to wait for the machine: why. That makes figures worse, never better, so that
    /// a target that holds stands; one that is missed proves nothing.
    pub starved: Option<String>,
}

/// A program that ended otherwise than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFailure {
    /// Its name.
    pub program: String,
    /// The final state wanted.
    pub expected: String,
    /// What happened, and where its output is.
    pub found: String,
}

/// Which result group something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// Index of the traffic in the scenario.
    pub traffic: usize,
    /// Index of the pair of hosts.
    pub pair: usize,
    /// Which way its data go.
    pub toward: Toward,
}

/// Direction of data relative to a traffic's pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Toward {
    /// From the first node of the pair to the second: `name.down`.
    Second,
    /// From the second to the first: `name.up`.
    First,
}

/// A place in the list of packets sent from which on numbers are others than by counting on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    pub(crate) position: usize,
    pub(crate) index: u32,
}

/// One direction of a datagram stream.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    /// Its group.
    pub of: Membership,
    /// Number inside the traffic, from 0.
    pub number: u16,
    /// The codec, for calls.
    pub codec: Option<Codec>,
    /// Every packet sent, in order. What its source numbered while its host could not send is not among them.
    pub packets: Vec<PacketRecord>,
    /// Where the numbers of their source leave some out.
    pub(crate) jumps: Vec<Jump>,
    /// Packets that came more than once.
    pub duplicates: u64,
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// When it was sent.
    pub sent: Instant,
    /// When it arrived; [`Instant::FAR_FUTURE`] if never.
    pub arrived: Instant,
    /// IP length.
    pub len: u16,
    /// RTP time stamp, for calls.
    pub rtp_timestamp: u32,
}

impl PacketRecord {
    /// From sending to arrival in ns, by the clocks of the two hosts: negative when they differ by more than the packet
    /// took. `None` if it never arrived.
    pub fn delay_ns(&self) -> Option<i64> {
        (self.arrived != Instant::FAR_FUTURE).then(|| difference_ns(self.arrived, self.sent))
    }
}

/// One TCP connection.
#[derive(Clone, Debug)]
pub struct ConnectionRecord {
    /// Its group.
    pub of: Membership,
    /// When it was asked for.
    pub opened: Instant,
    /// When the first payload byte arrived.
    pub first_byte: Option<Instant>,
    /// When its data were complete; `None`: still running at the end.
    pub ended: Option<Instant>,
    /// Payload bytes delivered in order, over its life.
    pub bytes: u64,
    /// It failed before its data were complete.
    pub failed: bool,
    /// IP bytes delivered in each throughput bin of its life, headers included.
    pub bins: Bins,
    /// IP bytes of data segments that arrived, headers included, by section ([`crate::Sections`]).
    pub sections: Bins,
    /// Payload bytes delivered inside the window.
    pub window_bytes: u64,
    /// IP bytes (headers included) of data segments that arrived inside the window.
    pub window_ip_bytes: u64,
    /// Segments sent again, over its life; `None` where only the kernel knows.
    pub retransmits: Option<u64>,
    /// Congestion window, slow-start threshold (bytes), smoothed round trip and highest sequence acknowledged over time.
    pub trace: Vec<ConnectionSample>,
    /// Which of its traffic's parallel connections it is, from 0.
    pub slot: u16,
    /// What its application read; `None` where that is not followed.
    pub reads: Option<ReadLog>,
    /// Its segments; `None` where they are not followed.
    pub segments: Option<SegmentLog>,
}

impl ConnectionRecord {
    /// One that was just asked for.
    pub fn new(of: Membership, opened: Instant) -> Self {
        Self {
            of,
            opened,
            first_byte: None,
            ended: None,
            bytes: 0,
            failed: false,
            bins: Bins::default(),
            sections: Bins::default(),
            window_bytes: 0,
            window_ip_bytes: 0,
            retransmits: None,
            trace: Vec::new(),
            slot: 0,
            reads: None,
            segments: None,
        }
    }
}

/// Connections of one traffic whose windows are recorded where a scenario asks for it: the first.
pub const TRACED: usize = 4;
/// Interval of these records.
pub const TRACE_INTERVAL: Duration = Duration::from_millis(10);

/// State of a connection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSample {
    /// When.
    pub at: Instant,
    /// Congestion window, bytes.
    pub window: u64,
    /// Slow-start threshold, bytes.
    pub threshold: u64,
    /// Smoothed round-trip time; zero before the first measurement.
    pub round_trip: Duration,
    /// Payload bytes acknowledged.
    pub acknowledged: u64,
}

/// One direction of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkRecord {
    /// Index of the link in the scenario.
    pub link: usize,
    /// 0: from its first end; 1: back.
    pub way: usize,
    /// Time the line was busy inside the window.
    pub busy: Duration,
    /// Bytes on the wire inside the window.
    pub wire_bytes: u64,
    /// Packets dropped inside the window, by reason, at the link and in the router queue that feeds it.
    pub drops: BTreeMap<String, u64>,
    /// Times packets waited before the line began on them, ns, inside the window (a sample of at most a stated number).
    pub waits_ns: Vec<u64>,
    /// Queue lengths over time: one series for each named queue.
    pub queues: Vec<QueueSeries>,
    /// Wire bytes in each throughput bin from the start of the repetition.
    pub bins: Vec<u64>,
}

/// What an agent did for one class.
#[derive(Clone, Debug)]
pub struct AgentRecord {
    /// The class.
    pub class: String,
    /// What was counted before the window began.
    pub before: Counters,
    /// What was counted until the end.
    pub after: Counters,
    /// Every allocation and when it began, bit/s.
    pub allocations: Vec<(Instant, u64)>,
}

/// What an agent gave a policy of the TCP rate control in one repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssignmentRecord {
    /// The policy.
    pub policy: String,
    /// Every rate and when it began, bit/s, all flows together.
    pub rates: Vec<(Instant, u64)>,
}

/// What the admission of a router decided inside the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionRecord {
    /// The router's node.
    pub node: String,
    /// Flows that asked, by being recognised.
    pub offered: u64,
    /// Accepted.
    pub admitted: u64,
    /// Not accepted.
    pub refused: u64,
    /// Admitted ones that were chosen to go.
    pub dropped: u64,
    /// Intervals of its meter, and those in which admitted flows carried more than they may.
    pub intervals: u64,
    /// See `intervals`.
    pub intervals_over_cap: u64,
}

/// What became of reservations in one repetition, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedRecord {
    /// `reservation.NAME` or `controller.NODE`.
    pub of: String,
    /// Counts by name.
    pub figures: Vec<(&'static str, u64)>,
    /// What was said to who asked, with the time, a sentence each.
    pub said: Vec<String>,
}

/// A queue over time: smallest, largest and last length of each interval from the start of the repetition.
#[derive(Clone, Debug, Default)]
pub struct QueueSeries {
    /// Name: the class, or `queue` for a plain one.
    pub name: String,
    /// Length of an interval.
    pub interval: Duration,
    /// Smallest, largest, last bytes.
    pub bytes: Vec<[u32; 3]>,
    /// Packets dropped in each interval.
    pub drops: Vec<u32>,
    /// What the discipline sent on borrowed share, cumulative, in its own unit (packets or bytes); empty where it does
    /// not borrow.
    pub borrows: Vec<u64>,
}
