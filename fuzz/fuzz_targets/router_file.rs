//! The property [`router_file::reading`](perhop_tests::properties::router_file::reading).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::router_file::reading(data));
