//! The property [`headers::icmpv4`](perhop_tests::properties::headers::icmpv4).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::icmpv4(data));
