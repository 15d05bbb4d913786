//! Recognising interactive real-time flows without any help from applications.

pub mod rtp;
mod slab;

pub(crate) use slab::UndecidedSlab;

use perhop_packet::{ClassId, PortId};
use rtp::RtpSettings;

/// Settings of detection on one router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detector {
    /// Whether flows are recognised. Flows recognised before stay so until they fall silent.
    pub enabled: bool,
    /// When a flow is RTP.
    pub rtp: RtpSettings,
    /// Logical class of recognised flows.
    pub promote_class: ClassId,
    /// Only packets from these ports; empty = all.
    pub in_ports: Vec<PortId>,
}
