//! The property [`headers::ipv4`](perhop_tests::properties::headers::ipv4).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::ipv4(data));
