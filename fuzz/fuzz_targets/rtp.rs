//! The property [`headers::rtp`](perhop_tests::properties::headers::rtp).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::rtp(data));
