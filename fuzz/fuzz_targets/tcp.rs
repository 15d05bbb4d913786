//! The property [`headers::tcp`](perhop_tests::properties::headers::tcp).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::tcp(data));
