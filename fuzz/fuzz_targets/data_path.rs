//! The property [`data_path::forwarding`](perhop_tests::properties::data_path::forwarding).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::data_path::forwarding(data));
