//! Recognising interactive real-time flows without any help from applications.
//!
//! * [`demux`]: what a payload is by its first bytes, and what a connection has shown;
//! * [`rtp`]: headers and trains of RTP;
//! * [`statistics`]: sizes and intervals;
//! * [`reason`]: why a flow is media, and whether its packets stay so;
//! * [`flow`]: the stages in their order, on one flow.

pub(crate) mod clock;
mod content;
pub mod demux;
pub mod flow;
mod iax;
pub(crate) mod machine;
pub mod reason;
pub mod rtp;
mod slab;
pub mod statistics;
mod t38;

pub(crate) use slab::UndecidedSlab;

use perhop_packet::{ClassId, PortId};
use rtp::RtpSettings;
use statistics::Statistical;

/// Settings of detection on one router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detector {
    /// Whether flows are recognised. Flows recognised before stay so until they fall silent.
    pub enabled: bool,
    /// When a flow is RTP.
    pub rtp: RtpSettings,
    /// What is tried besides.
    pub stages: Stages,
    /// Logical class of recognised flows.
    pub promote_class: ClassId,
    /// Only packets from these ports; empty = all.
    pub in_ports: Vec<PortId>,
}

/// What is tried when a packet is not RTP by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// RTP behind another header.
    pub wrapped: bool,
    /// Sizes and intervals.
    pub statistical: Option<Statistical>,
}

impl Default for Stages {
    /// The search, and no statistics.
    fn default() -> Self {
        Self { wrapped: true, statistical: None }
    }
}
