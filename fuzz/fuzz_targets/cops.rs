//! The property [`both_ends`](perhop_cops::properties::both_ends).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_cops::properties::both_ends(data));
