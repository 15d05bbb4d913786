//! Ports of real and make-believe links: packet sockets with memory-mapped rings, AF_XDP sockets, TUN interfaces, capture files;
//! packets that wait for a verdict; memory in large pages; files for one's own user, and locks on files.
//!
//! Ports implement [`perhop_element::Port`]; [`nfqueue`] is for packets that stay this host's own. Unsafe code lives here, each block with its reason.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "host/io is where sockets and clocks meet the pure parts"
)]

pub mod account;
pub mod af_packet;
pub mod af_xdp;
mod bpf;
pub mod checksum;
pub mod clock;
mod device;
pub mod early_drop;
mod interface;
mod ip_packets;
pub mod ip_port;
pub mod large_pages;
mod lock_file;
pub mod nfqueue;
pub mod pcap;
mod pcapng;
pub mod private_file;
mod superframe;
pub mod tap;
pub mod thread;
pub mod tun;

pub use af_packet::{AfPacket, AfPacketConfig, Outgoing};
pub use af_xdp::{AfXdp, AfXdpConfig};
pub use device::DevicePort;
pub use early_drop::EarlyDrop;
pub use ip_port::IpPort;
pub use large_pages::LargePages;
pub use lock_file::{LockError, LockFile};
pub use tap::Tap;
pub use tun::TunPort;
