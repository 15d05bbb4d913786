//! The property [`headers::arp`](perhop_tests::properties::headers::arp).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::arp(data));
