//! The property [`sip::proxy`](perhop_tests::properties::sip::proxy).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::sip::proxy(data));
