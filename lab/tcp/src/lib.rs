//! A TCP endpoint without I/O or clock, for simulated hosts: real segments in, real segments out.
