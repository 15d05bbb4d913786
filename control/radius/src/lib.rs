//! RADIUS: accounting as it comes in (RFC 2866), changes of authorization both ways (RFC 5176), without I/O or clock.
#![forbid(unsafe_code)]
