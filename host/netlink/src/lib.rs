//! Linux networking: namespaces, links, addresses, routes, neighbours, offloads,
//! forwarding switches and traffic control, without other programs; and rules
//! of the packet filter, with `iptables`.
//!
//! | module | gives |
//! |---|---|
//! | [`namespace`] | network namespaces held by file descriptor, and the threads that live in them |
//! | [`user_namespace`] | root rights over an own network for an unprivileged user |
//! | [`Netlink`] | one blocking connection to rtnetlink: links, addresses, routes, neighbours, [`tc`] |
//! | [`monitor`] | live changes; [`mirror`] keeps tables up to date from a dump and these changes |
//! | [`Offloads`] | checksum and segmentation offloads: read, switched off, restored |
//! | [`firewall`] | rules of the packet filter that send TCP to a queue |
//! | [`nft`] | tables of the packet filter that keep the kernel from forwarding |
//! | [`bypass`] | what those who do not leave forwarding to the kernel pass by: firewalls, translation, IPsec, queues |
//! | [`end_with_this_thread`] | programs that do not outlive their laboratory |
//! | [`tcp_info()`] | what the kernel knows of a TCP connection |
//! | [`sysctl`] | interface keys under `/proc/sys/net`: set, and restored |
//! | [`laboratory`] | what only tests need |
//!
//! The kernel binds a netlink socket to the network namespace of the thread
//! that opens it, for ever. So a [`Netlink`] opened in a namespace may be used
//! from any thread. `/proc/sys/net` is the opposite: it shows the namespace of
//! the thread that opens the file, so [`sysctl`] runs inside the namespace.
//!
//! ```no_run
//! use perhop_netlink::{Namespace, Netlink, NetlinkError};
//!
//! # fn main() -> Result<(), NetlinkError> {
//! let (caller, callee) = (Namespace::create()?, Namespace::create()?);
//! let net = Netlink::open_in(&caller)?;
//! net.create_veth("wan", "lan", Some(&callee))?;
//! net.add_address_now("wan", "10.0.0.1/24".parse().expect("a prefix"))?;
//! net.set_up("wan")?;
//! let before = net.disable_offloads("wan")?;
//! let socket = caller.run(|| std::net::UdpSocket::bind("10.0.0.1:0"))?;
//! # drop(socket);
//! net.restore_offloads("wan", &before)?;
//! # Ok(())
//! # }
//! ```
//!
//! Netlink answers at once and in order, so the connection is a plain blocking
//! socket; no runtime is needed. Message layouts come from
//! `netlink-packet-route`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a namespace belongs to a thread, and waiting for the kernel has a deadline"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod address;
pub mod bypass;
mod child;
mod connection;
mod error;
mod ethtool;
pub mod firewall;
mod interface_name;
pub mod laboratory;
mod link;
pub mod mirror;
pub mod monitor;
pub mod namespace;
mod neighbour;
mod nexthop;
pub mod nft;
mod offload;
mod raw;
mod route;
mod route_metrics;
pub mod route_table;
mod rule;
pub mod sysctl;
pub mod tc;
mod tcp_info;
pub mod user_namespace;

pub use address::InterfaceAddress;
pub use child::end_with_this_thread;
pub use connection::Netlink;
pub use error::NetlinkError;
pub use link::{LinkInfo, MacAddress};
pub use mirror::Mirror;
pub use monitor::{Change, Monitor, RouteChange, Update};
pub use namespace::Namespace;
pub use neighbour::{Neighbour, NeighbourState};
pub use nexthop::NextHops;
pub use offload::Offloads;
pub use route::{FibRoute, NextHop, RouteKind, RouteWay};
pub use route_metrics::RouteMetrics;
pub use route_table::{RouteKey, RouteTable};
pub use rule::{PolicyAction, PolicyRule};
pub use sysctl::SavedKey;
pub use tcp_info::{TcpInfo, tcp_info};
pub use user_namespace::{enter_user_namespace, is_privileged_for_net};
