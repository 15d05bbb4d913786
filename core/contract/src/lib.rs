//! The router's contract as a machine: owners, fences, validation, replay, events.
#![forbid(unsafe_code)]
