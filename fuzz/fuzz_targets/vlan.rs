//! The property [`headers::vlan`](perhop_tests::properties::headers::vlan).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::vlan(data));
