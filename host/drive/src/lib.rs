//! The live driver of sans-I/O machines: sockets, timers, retries, keep-alive, and a record of inputs that can be
//! replayed.
#![forbid(unsafe_code)]
