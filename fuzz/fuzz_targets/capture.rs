//! The property [`capture::classification`](perhop_tests::properties::capture::classification).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::capture::classification(data));
