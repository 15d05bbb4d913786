//! What a server asks of a router.

use crate::limits::LimitRow;
use perhop_model::Call;
use std::ops::RangeInclusive;

/// Objects of a page of the state.
pub const PAGE_OBJECTS: RangeInclusive<usize> = 1..=10_000;
/// Rows of what is shown.
pub const SHOWN_ROWS: RangeInclusive<usize> = 1..=1_000_000;

/// A running router.
pub trait RouterApi: Send + Sync + 'static {
    /// Asks it something. Returns at once; the answer comes by callback.
    fn call(&self, call: Call);

    /// The router's own limits, for `GET /v1/limits`.
    fn limits(&self) -> Vec<LimitRow> {
        Vec::new()
    }
}
