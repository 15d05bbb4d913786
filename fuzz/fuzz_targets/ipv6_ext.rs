//! The property [`headers::ipv6_ext`](perhop_tests::properties::headers::ipv6_ext).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::ipv6_ext(data));
