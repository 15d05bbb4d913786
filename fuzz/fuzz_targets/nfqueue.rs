//! The property [`nfqueue::messages`](perhop_tests::properties::nfqueue::messages).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::nfqueue::messages(data));
