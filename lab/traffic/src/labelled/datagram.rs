//! One packet of a labelled flow.

use super::Kind;
use perhop_units::Duration;
use perhop_wire::build::{self, FrameBuilder};
use std::net::{IpAddr, SocketAddr};

/// What carries a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP with these flags, sequence and acknowledgment numbers.
    Tcp {
        /// Flags as in the header.
        flags: u8,
        /// Sequence number.
        seq: u32,
        /// Acknowledgment number.
        ack: u32,
    },
}

/// One packet, and which kind its flow is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When it passes the observer, since the start of the mix.
    pub at: Duration,
    /// Kind of its flow: the same for all packets of the flow.
    pub kind: Kind,
    /// Sender.
    pub src: SocketAddr,
    /// Receiver, of the same address family.
    pub dst: SocketAddr,
    /// Its transport.
    pub transport: Transport,
    /// What follows the transport header.
    pub payload: Vec<u8>,
}

impl Datagram {
    /// Its flow as `perhop realtime classify` names it: `udp 10.0.0.1:5004>10.0.0.2:5006`, IPv6 as `[addr]:port`.
    pub fn flow(&self) -> String {
        let name = if self.transport == Transport::Udp { "udp" } else { "tcp" };
        format!("{name} {}>{}", self.src, self.dst)
    }

    /// It as an Ethernet frame. O(length).
    pub fn frame(&self) -> Vec<u8> {
        let builder = match (self.transport, self.src.ip(), self.dst.ip()) {
            (Transport::Udp, IpAddr::V4(src), IpAddr::V4(dst)) => build::udp4(src, dst),
            (Transport::Udp, src, dst) => build::udp6(as_v6(src), as_v6(dst)),
            (Transport::Tcp { flags, seq, ack }, IpAddr::V4(src), IpAddr::V4(dst)) => {
                segment(build::tcp4(src, dst), flags, seq, ack)
            }
            (Transport::Tcp { flags, seq, ack }, src, dst) => {
                segment(build::tcp6(as_v6(src), as_v6(dst)), flags, seq, ack)
            }
        };
        builder.ports(self.src.port(), self.dst.port()).payload(&self.payload).build()
    }
}

fn segment(builder: FrameBuilder, flags: u8, seq: u32, ack: u32) -> FrameBuilder {
    builder.flags(flags).seq_ack(seq, ack)
}

fn as_v6(address: IpAddr) -> std::net::Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
