//! Meters: token bucket, srTCM, trTCM, TSWTCM.
//!
//! [`trtcm`] is the worked example of an element: documentation, pure algorithm, adapter, property test, script test.

mod adapter;
mod bucket;
#[cfg(test)]
pub(crate) mod laws;
pub mod srtcm;
pub mod token_bucket;
pub mod trtcm;
pub mod tswtcm;

pub(crate) use adapter::{BURST_RANGE, RATE_RANGE};
pub use adapter::{ColorCounters, Meter, MeterElement, metered_len};
pub use bucket::{Bucket, MAX_BURST};
pub use srtcm::{SrTcm, SrTcmConfig, SrTcmMeter};
pub use token_bucket::{TokenBucket, TokenBucketMeter};
pub use trtcm::{TrTcm, TrTcmConfig, TrTcmMeter};
pub use tswtcm::{TswTcm, TswTcmConfig, TswTcmMeter};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![srtcm::TYPE, token_bucket::TYPE, trtcm::TYPE, tswtcm::TYPE]
}
