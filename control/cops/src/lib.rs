//! COPS (RFC 2748): how a policy enforcement point (PEP) asks a policy decision point (PDP), without I/O or clock.
//!
//! Both ends of a session, the messages and their objects, and the client type by which bandwidth is reserved.
#![forbid(unsafe_code)]
