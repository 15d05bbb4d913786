//! The property [`headers::ipv6`](perhop_tests::properties::headers::ipv6).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::ipv6(data));
