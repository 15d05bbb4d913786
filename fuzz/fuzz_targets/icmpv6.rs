//! The property [`headers::icmpv6`](perhop_tests::properties::headers::icmpv6).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::headers::icmpv6(data));
