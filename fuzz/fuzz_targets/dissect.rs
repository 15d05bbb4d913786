//! The property [`frame::dissection`](perhop_tests::properties::frame::dissection).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::frame::dissection(data));
