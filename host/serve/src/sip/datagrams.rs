//! The socket of datagrams.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use tokio::net::UdpSocket;

/// Longest datagram.
const LONGEST: usize = 65_535;
/// Octets that the kernel is asked to keep, in each direction, while the machine does something else.
const KEPT: usize = 4 << 20;

pub(super) struct Datagrams {
    socket: UdpSocket,
    buffer: Box<[u8]>,
    is_v6: bool,
    /// What the kernel had no room for.
    pub(super) unsent: u64,
}

impl Datagrams {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        // The kernel gives what it may.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, KEPT);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, KEPT);
        let socket = UdpSocket::from_std(socket)?;
        Ok(Self { socket, buffer: vec![0; LONGEST].into(), is_v6: address.is_ipv6(), unsent: 0 })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Resolves when there is one, or when the kernel has something to say. May be dropped.
    pub(super) async fn wait(&self) {
        let _ = self.socket.readable().await;
    }

    /// The next, if there is one now.
    pub(super) fn next(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        loop {
            match self.socket.try_recv_from(&mut self.buffer) {
                Ok((length, from)) => return Some((canonical(from), self.buffer[..length].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // What became of an earlier datagram.
                Err(_) => {}
            }
        }
    }

    /// Whether an address can be reached at all.
    pub(super) fn reaches(&self, address: &SocketAddr) -> bool {
        self.is_v6 || address.is_ipv4()
    }

    /// Sends. One for which the kernel has no room is lost, as any may be.
    ///
    /// # Errors
    /// It cannot be sent, now or later.
    pub(super) fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let to = match to {
            SocketAddr::V4(to) if self.is_v6 => {
                SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0).into()
            }
            to => to,
        };
        match self.socket.try_send_to(bytes, to) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.unsent += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until the socket has been found to be one that can be written to.
    pub(super) async fn ready(&self) {
        let _ = self.socket.writable().await;
    }
}

/// An address of version 4 in the clothes of version 6 is one of version 4.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}
