//! Policy of a domain: classes, filters, profiles, contracts and subscribers as an operator edits them, in editions, without I/O or clock.
#![forbid(unsafe_code)]
