//! The property [`any_datagram`](perhop_radius::properties::any_datagram).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_radius::properties::any_datagram(data));
