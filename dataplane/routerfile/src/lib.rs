//! The router file: reading, checking, and what it says as objects.
#![forbid(unsafe_code)]
