//! How good a call was: the E-model of ITU-T G.107, RFC 3550 interarrival jitter, and a per-call record.
//!
//! Everything here is a pure function of its arguments. Statistics are `f64` and use `libm` for transcendental
//! functions, so that a figure does not depend on the platform.
//!
//! * [`codec`]: what a codec costs in quality and what it puts on the wire;
//! * [`emodel`]: transmission rating R and mean opinion score;
//! * [`rtp_jitter`]: the jitter estimator of RFC 3550, for live streams;
//! * [`distribution`]: exact percentiles that merge;
//! * [`psqm`]: a surrogate for a score that the laboratory sets its runs beside;
//! * [`playout`]: the buffers of those who hear a call;
//! * [`call`]: the record of one call, reported whole or from an instant on;
//! * [`pool`]: many calls as one.
#![forbid(unsafe_code)]

pub mod call;
pub mod codec;
pub mod distribution;
pub mod emodel;
pub mod playout;
pub mod pool;
pub mod psqm;
pub mod rtp_jitter;

pub use call::{CallQuality, CallRecord, Received, Scoring, Spread, difference_ns};
pub use codec::{Codec, UnknownCodec};
pub use distribution::Distribution;
pub use emodel::{IpImpairment, ip_rating, mos_from_rating};
pub use playout::{Playout, PlayoutBuffer};
pub use pool::QualityPool;
pub use rtp_jitter::JitterNs;
