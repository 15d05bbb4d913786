//! The property [`headers::ndp`](perhop_tests::properties::headers::ndp).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::ndp(data));
