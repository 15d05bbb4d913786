//! The property [`headers::udp`](perhop_tests::properties::headers::udp).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::udp(data));
