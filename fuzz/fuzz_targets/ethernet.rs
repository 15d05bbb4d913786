//! The property [`headers::ethernet`](perhop_tests::properties::headers::ethernet).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::ethernet(data));
