//! The property [`headers::tcp_options`](perhop_tests::properties::headers::tcp_options).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::tcp_options(data));
