//! The property [`transaction::contract`](perhop_tests::properties::transaction::contract).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::transaction::contract(data));
