//! The broker of a domain: what its links carry, who has reserved how much of it, and who may have more, without I/O or clock.
#![forbid(unsafe_code)]
