//! The property [`tcapi::server`](perhop_tests::properties::tcapi::server).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::tcapi::server(data));
