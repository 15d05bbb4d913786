//! Laws of throughput.
