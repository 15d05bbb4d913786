//! Where packets enter and leave: implemented by `host/io` and by the simulator.

use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use thiserror::Error;

/// What went wrong at a port.
#[derive(Debug, Error)]
pub enum PortError {
    /// The interface is gone or down; it may come back.
    #[error("port {port}: the interface is down or gone")]
    Down {
        /// Name of the port.
        port: String,
    },
    /// The operating system refused.
    #[error("port {port}: {operation}: {source}")]
    Os {
        /// Name of the port.
        port: String,
        /// What was attempted.
        operation: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// A port that receives and transmits frames.
pub trait Port: Send {
    /// Moves frames that have arrived into `batch` (until full), each stamped with a `received_at` that is ≤ `now` and
    /// never decreases. Frames for which `pool` has no buffer are dropped and counted as
    /// [`perhop_packet::DropReason::NoBuffer`].
    ///
    /// # Errors
    /// See [`PortError`]; what was received before stays in `batch`.
    fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, PortError>;

    /// Sends frames from the front of `batch` as far as the port has room, and releases them; the rest stays.
    ///
    /// # Errors
    /// See [`PortError`]; frames not sent stay in `batch`.
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError>;

    /// Frames [`Port::transmit`] would take now.
    fn room(&mut self) -> u32;

    /// Counters: `rx_packets`, `rx_bytes`, `rx_no_buffer`, `rx_ring_lost`, `tx_packets`, `tx_bytes`, `tx_failed` …
    fn counters(&mut self, sink: &mut dyn crate::CounterSink);
}
