//! The other end of a hop.

use crate::message::Transport;
use std::net::SocketAddr;

/// Where a message comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// How.
    pub transport: Transport,
    /// Address and port of the other end.
    pub address: SocketAddr,
    /// The connection, as the driver calls it; `None` for datagrams, or to have one opened or found by the address.
    pub connection: Option<u64>,
}
