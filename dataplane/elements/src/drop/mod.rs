//! Active queue management: no elements but disciplines, which sit inside a pump.

pub mod blue;
pub mod codel;
pub mod drd;
mod early_fifo;
mod flow_hash;
pub mod fq_codel;
mod in_leaf;
pub mod pie;
pub mod red;
mod red_state;
pub mod wfq;
pub mod wred;
mod wred_state;

pub use blue::{Blue, BlueConfig, BlueState};
pub use codel::{CoDel, CoDelConfig, CoDelState, HeadVerdict};
pub use drd::{Drd, DrdConfig};
pub use early_fifo::{EarlyFifo, EarlyState};
pub use fq_codel::{FqCoDel, FqCoDelConfig};
pub(crate) use in_leaf::{InLeaf, Losses};
pub use pie::{Pie, PieConfig, PieState, PieVerdict};
pub use red::Red;
pub use red_state::{RedConfig, RedCounts, RedState, RedVerdict};
pub use wfq::{Wfq, WfqConfig};
pub use wred::Wred;
pub use wred_state::{Averages, COLORS, WredConfig, WredState, af_precedence};

use perhop_packet::Packet;
use perhop_wire::layout::set_ecn_ce;

/// Marks a packet whose transport supports ECN with congestion experienced; any other stays as it is.
pub(crate) fn mark(packet: &mut Packet) {
    let (meta, frame) = packet.parts_mut();
    set_ecn_ce(frame, &mut meta.layout);
}
