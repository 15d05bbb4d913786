//! The property [`any_datagrams`](perhop_radius::properties::any_datagram).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_radius::properties::any_datagram(data));
