//! The property [`graph::language`](perhop_tests::properties::graph::language).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::graph::language(data));
