//! The property [`tcp_segment::endurance`](perhop_tests::properties::tcp_segment::endurance).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::tcp_segment::endurance(data));
