//! What the rate control is told: policies, in the order in which they are compared.

use ipnet::IpNet;
use perhop_packet::{ClassId, FilterId, SlaId};
use perhop_units::{Duration, Rate};
use std::ops::RangeInclusive;

/// A policy; dense from 0, never reused in an epoch. A policy numbered 65,535 or more leaves its flows alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbrPolicyId(pub u32);

/// Which flows a policy is for, compared with the packets that carry their data; what is absent matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Logical class (before `route`).
    pub class: Option<ClassId>,
    /// Contract.
    pub sla: Option<SlaId>,
    /// Filter that decided the class.
    pub filter: Option<FilterId>,
    /// One bit for each code point; 0 = any.
    pub dscp: u64,
    /// Prefix of the sender.
    pub src: Option<IpNet>,
    /// Prefix of the receiver.
    pub dst: Option<IpNet>,
    /// Ports of the sender.
    pub src_ports: Option<RangeInclusive<u16>>,
    /// Ports of the receiver.
    pub dst_ports: Option<RangeInclusive<u16>>,
}

/// What happens to a flow whose rate is below one segment a round trip, which no window can express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Floor {
    /// Its window is one segment, so it gets more than its rate; it is reported as limited by the floor.
    #[default]
    Clamp,
    /// Its window is one segment and acknowledgments are held so long that it sends one segment in the time its rate
    /// needs for one. In order and bounded; what finds no room is not held.
    Pace,
}

/// How a path's latency is told from the time that packets wait in queues (each side by itself).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Average that follows shorter samples at once and longer ones slowly: weights in Q0.32 of a longer and of a
    /// shorter sample (the source's 0.002 and 0.6).
    Average {
        /// Weight of a sample that is longer.
        up: u32,
        /// Weight of a sample that is shorter.
        down: u32,
    },
    /// The same, with a weight of longer samples that depends on the time between samples: 1 − exp(−Δt / `up`).
    Timed {
        /// Time constant upwards.
        up: Duration,
        /// Weight of a sample that is shorter, Q0.32.
        down: u32,
    },
    /// Shortest of the last `window`.
    Minimum {
        /// How far back.
        window: Duration,
    },
}

impl Latency {
    /// The source's weights: 0.002 upwards, 0.6 downwards.
    pub const PUBLISHED: Self = Self::Average { up: 8_589_935, down: 2_576_980_378 };
}

impl Default for Latency {
    fn default() -> Self {
        Self::PUBLISHED
    }
}

/// A group of flows and the rate they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Number.
    pub id: AbrPolicyId,
    /// Which flows.
    pub matches: Match,
    /// What its live flows share equally, bit/s at IP length of their data packets; [`Rate`] 0: flows are watched, not
    /// limited.
    pub rate: Rate,
    /// Most that one of them gets; [`Rate`] 0: no limit of its own.
    pub peak: Rate,
    /// Below one segment a round trip.
    pub floor: Floor,
    /// The least time that windows are for if `floor` is [`Floor::Pace`]: where the round trip is shorter, acknowledgments
    /// are held so that the rate is kept. It is for who answers more slowly than the path ([`Duration::ZERO`]: nobody).
    pub span: Duration,
    /// Filter of latency samples.
    pub latency: Latency,
    /// Whether the right edge of a window may move left when the rate falls (the source's plain overwriting). Otherwise
    /// the edge stands until the acknowledgments have caught up.
    pub allow_shrink: bool,
    /// Whether the window of a SYN/ACK is limited, once the handshake has shown the latency of one side.
    pub limit_syn_ack: bool,
    /// Window shift assumed for both ends of a connection whose handshake was not seen; `None`: it is left alone.
    pub assume_shift: Option<u8>,
    /// Whether a side without any sample counts as no latency at all (this router stands at the sender). Otherwise the
    /// flow is not limited until both sides are known.
    pub local: bool,
    /// Bytes that the link adds to each packet and that count against the rate; 65,535 at most.
    pub overhead: u32,
    /// A flow that has sent no data for so long takes no part in the sharing.
    pub idle: Duration,
}

/// Settings of [`crate::Abr`] that change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The first that matches decides.
    pub policies: Vec<Policy>,
}

/// What keeps a flow from being faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum LimitedBy {
    /// Not known, or nothing here.
    #[default]
    None = 0,
    /// The receiver's own window.
    Receiver = 1,
    /// The sender itself: its congestion window, or it has no more to send.
    Congestion = 2,
    /// The window written here.
    Abr = 3,
    /// As [`LimitedBy::Abr`], at one segment, which is more than the rate.
    Floor = 4,
}

impl LimitedBy {
    /// From its number.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Receiver,
            2 => Self::Congestion,
            3 => Self::Abr,
            4 => Self::Floor,
            _ => Self::None,
        }
    }
}
