//! The property [`sip::description`](perhop_tests::properties::sip::description).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::sip::description(data));
