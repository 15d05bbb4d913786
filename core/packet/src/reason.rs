//! Why a packet was dropped.

use perhop_wire::Malformed;

/// Every reason for which a packet may end other than by leaving. Stable names; each is a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The pool had no buffer at receive.
    NoBuffer,
    /// The queue was full.
    QueueFull,
    /// Random early detection.
    RedEarly,
    /// RED above its maximum threshold.
    RedForced,
    /// A policer's verdict.
    Policed,
    /// The contract's policy for out-of-profile packets.
    SlaPolicy,
    /// The class was removed and its drain time is over.
    ClassRemoved,
    /// The element that held the packet was replaced.
    GraphReplaced,
    /// No class takes the packet.
    NoClass,
    /// No route to the destination.
    NoRoute,
    /// A route says so (blackhole, unreachable, prohibit).
    RouteRejects,
    /// TTL or hop limit exhausted.
    TtlExpired,
    /// Larger than the next link's MTU and must not be fragmented.
    TooBig,
    /// The next hop's address did not resolve in time.
    NeighbourFailed,
    /// The bounded queue for unresolved neighbours was full.
    NeighbourQueueFull,
    /// Source address cannot be answered (multicast, loopback, martian).
    BadSource,
    /// Destination must not be forwarded (link-local, loopback, broadcast).
    BadDestination,
    /// Not IP, and nobody here handles it.
    NotIp,
    /// Frame addressed to another station.
    OtherHost,
    /// Bridge: the destination lives on the port the frame came from.
    SamePort,
    /// Bridge: more flooded copies than the storm limit allows.
    StormLimit,
    /// Output port is down or gone.
    PortDown,
    /// Transmit failed in the kernel.
    TransmitFailed,
    /// ICMP error suppressed by its rate limit.
    IcmpRateLimit,
    /// ICMP error must not be sent about this packet (RFC 1122 §3.2.2, RFC 4443 §2.4).
    IcmpForbidden,
    /// Lost on an emulated link or in an emulated network, by whatever law: at random, in bursts, as recorded.
    EmulatedLoss,
    /// Sent to a discard element on purpose.
    Discarded,
    /// Admission refused the flow.
    NotAdmitted,
    /// A bounded table was full.
    TableFull,
    /// An element's output is not connected.
    Unconnected,
    /// More internal hops than a packet may take in one step.
    LoopLimit,
    /// Packets waited for too long.
    CoDel,
    /// The ring to the worker that was to go on with the packet was full.
    RingFull,
    /// Tagged for a VLAN at a port that routes untagged frames only.
    VlanTag,
    /// No way back to the source by the port it came in, or by any (RFC 3704).
    ReversePath,
    /// Blue chose the packet.
    Blue,
    /// PIE chose the packet.
    Pie,
    /// Deterministic random drop chose the packet, by the length of the queue alone.
    Drd,
    /// The frame is malformed.
    Malformed(Malformed),
}

const PLAIN: [(DropReason, &str); 38] = [
    (DropReason::NoBuffer, "no_buffer"),
    (DropReason::QueueFull, "queue_full"),
    (DropReason::RedEarly, "red_early"),
    (DropReason::RedForced, "red_forced"),
    (DropReason::Policed, "policed"),
    (DropReason::SlaPolicy, "sla_policy"),
    (DropReason::ClassRemoved, "class_removed"),
    (DropReason::GraphReplaced, "graph_replaced"),
    (DropReason::NoClass, "no_class"),
    (DropReason::NoRoute, "no_route"),
    (DropReason::RouteRejects, "route_rejects"),
    (DropReason::TtlExpired, "ttl_expired"),
    (DropReason::TooBig, "too_big"),
    (DropReason::NeighbourFailed, "neighbour_failed"),
    (DropReason::NeighbourQueueFull, "neighbour_queue_full"),
    (DropReason::BadSource, "bad_source"),
    (DropReason::BadDestination, "bad_destination"),
    (DropReason::NotIp, "not_ip"),
    (DropReason::OtherHost, "other_host"),
    (DropReason::SamePort, "same_port"),
    (DropReason::StormLimit, "storm_limit"),
    (DropReason::PortDown, "port_down"),
    (DropReason::TransmitFailed, "transmit_failed"),
    (DropReason::IcmpRateLimit, "icmp_rate_limit"),
    (DropReason::IcmpForbidden, "icmp_forbidden"),
    (DropReason::EmulatedLoss, "emulated_loss"),
    (DropReason::Discarded, "discarded"),
    (DropReason::NotAdmitted, "not_admitted"),
    (DropReason::TableFull, "table_full"),
    (DropReason::Unconnected, "unconnected"),
    (DropReason::LoopLimit, "loop_limit"),
    (DropReason::CoDel, "codel"),
    (DropReason::RingFull, "ring_full"),
    (DropReason::VlanTag, "vlan_tag"),
    (DropReason::ReversePath, "reverse_path"),
    (DropReason::Blue, "blue"),
    (DropReason::Pie, "pie"),
    (DropReason::Drd, "drd"),
];

/// First index of the malformed reasons.
const MALFORMED_BASE: usize = PLAIN.len();

impl DropReason {
    /// Size of a counter array indexed by [`DropReason::index`].
    pub const COUNT: usize = MALFORMED_BASE + 32;

    /// Dense index for counters, below [`DropReason::COUNT`].
    pub fn index(self) -> usize {
        match self {
            Self::Malformed(m) => MALFORMED_BASE + m as usize,
            Self::NoBuffer => 0,
            Self::QueueFull => 1,
            Self::RedEarly => 2,
            Self::RedForced => 3,
            Self::Policed => 4,
            Self::SlaPolicy => 5,
            Self::ClassRemoved => 6,
            Self::GraphReplaced => 7,
            Self::NoClass => 8,
            Self::NoRoute => 9,
            Self::RouteRejects => 10,
            Self::TtlExpired => 11,
            Self::TooBig => 12,
            Self::NeighbourFailed => 13,
            Self::NeighbourQueueFull => 14,
            Self::BadSource => 15,
            Self::BadDestination => 16,
            Self::NotIp => 17,
            Self::OtherHost => 18,
            Self::SamePort => 19,
            Self::StormLimit => 20,
            Self::PortDown => 21,
            Self::TransmitFailed => 22,
            Self::IcmpRateLimit => 23,
            Self::IcmpForbidden => 24,
            Self::EmulatedLoss => 25,
            Self::Discarded => 26,
            Self::NotAdmitted => 27,
            Self::TableFull => 28,
            Self::Unconnected => 29,
            Self::LoopLimit => 30,
            Self::CoDel => 31,
            Self::RingFull => 32,
            Self::VlanTag => 33,
            Self::ReversePath => 34,
            Self::Blue => 35,
            Self::Pie => 36,
            Self::Drd => 37,
        }
    }

    /// The stable name of a counter index, `None` for unused indices. Malformed reasons read `malformed_…` followed
    /// by their own name.
    pub fn name_of_index(index: usize) -> Option<String> {
        match PLAIN.get(index) {
            Some((_, name)) => Some((*name).to_owned()),
            None => Malformed::ALL
                .iter()
                .find(|m| MALFORMED_BASE + **m as usize == index)
                .map(|m| format!("malformed_{}", m.name())),
        }
    }

    /// The stable name.
    pub fn name(self) -> String {
        Self::name_of_index(self.index()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_table_and_the_indices_agree() {
        for (i, (reason, name)) in PLAIN.iter().enumerate() {
            assert_eq!(reason.index(), i, "{name}");
        }
    }
}
