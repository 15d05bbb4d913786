//! What is told of a flow.

use crate::connection::{Connection, mark};
use crate::policies::{NO_POLICY, Policies};
use crate::settings::{AbrPolicyId, LimitedBy};
use std::net::SocketAddr;

/// A flow that belongs to a policy: one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// Place in the table.
    pub slot: u32,
    /// Number in the router's connection table at the connection's first packet; on an end host it means nothing.
    pub connection: u32,
    /// Whether that table calls the flow's direction the reverse.
    pub reverse: bool,
    /// Whether it takes part in the sharing.
    pub live: bool,
    /// Policy.
    pub policy: AbrPolicyId,
    /// Its rate, bit/s at IP length; 0: only watched.
    pub rate_bps: u64,
    /// Latency from here to the sender and back and to the receiver and back, µs; 0: not known.
    pub latency_us: (u32, u32),
    /// Limit last set, octets; 0: none.
    pub window: u32,
    /// What the next window has besides, whole octets.
    pub credit: u32,
    /// Largest segment, octets of data.
    pub mss: u16,
    /// What keeps it from being faster.
    pub limited_by: LimitedBy,
    /// Segments seen again; 65,535 and more are 65,535.
    pub retransmissions: u32,
    /// Windows lowered.
    pub rewritten: u32,
    /// Sender and receiver, if the controller was told to remember them.
    pub ends: Option<(SocketAddr, SocketAddr)>,
}

impl FlowState {
    /// Direction `direction` of a connection; `None` when it belongs to no policy.
    pub(crate) fn of(slot: u32, c: &Connection, direction: usize, policies: &Policies) -> Option<Self> {
        let half = &c.halves[direction];
        if half.policy == NO_POLICY || policies.policy(half.policy).is_none() {
            return None;
        }
        let live = c.has(direction, mark::LIVE);
        Some(Self {
            slot,
            connection: c.number,
            reverse: c.is_reverse(direction),
            live,
            policy: AbrPolicyId(u32::from(half.policy)),
            rate_bps: if live { policies.share(half.policy) } else { policies.next_share(half.policy) },
            latency_us: (c.halves[1 - direction].latency.us(), half.latency.us()),
            window: half.window.limit(),
            credit: half.window.credit().max(0) as u32 >> 8,
            mss: half.window.mss(),
            limited_by: c.limited_by(direction),
            retransmissions: u32::from(half.retransmissions),
            rewritten: half.rewritten,
            ends: None,
        })
    }
}
