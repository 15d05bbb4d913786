//! Tests that span layers live in this crate's `tests/` folder.
#![forbid(unsafe_code)]
