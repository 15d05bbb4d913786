//! TCP sockets of the kernel with what a scenario says of them.

use perhop_scenario::Tcp;
use perhop_units::Dscp;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};

/// Connections that may wait for being accepted.
const BACKLOG: i32 = 1024;

/// What can be set of a socket of the kernel's TCP. The rest is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SocketOptions {
    congestion: String,
    send_buffer: usize,
    /// Receive buffer, bytes.
    pub(super) receive_buffer: usize,
    /// Code point and ECN bits.
    pub(super) tos: u8,
}

impl SocketOptions {
    pub(super) fn of(tcp: &Tcp, dscp: Dscp) -> Self {
        let congestion = match tcp.congestion.as_str() {
            "newreno" => "reno",
            other => other,
        };
        Self {
            congestion: congestion.to_owned(),
            send_buffer: tcp.send_buffer.get() as usize,
            receive_buffer: tcp.receive_buffer.get() as usize,
            tos: dscp.get() << 2,
        }
    }

    /// Sets what may fail without harm: forcing a buffer needs rights over the machine's own namespace, and the limit
    /// for everybody else still helps. Warnings of [`short_buffers`] tell of it.
    pub(super) fn apply(&self, socket: impl AsFd) {
        let socket = socket.as_fd();
        if sockopt::set_socket_send_buffer_size_force(socket, self.send_buffer).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(socket, self.send_buffer);
        }
        if sockopt::set_socket_recv_buffer_size_force(socket, self.receive_buffer).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(socket, self.receive_buffer);
        }
        let _ = sockopt::set_ip_tos(socket, self.tos);
        // What an application writes is to be sent, as in the simulator.
        let _ = sockopt::set_tcp_nodelay(socket, true);
    }
}

fn open(options: &SocketOptions) -> Result<OwnedFd, String> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .map_err(|e| format!("no TCP socket: {e}"))?;
    sockopt::set_tcp_congestion(&socket, &options.congestion).map_err(|e| match e {
        Errno::NOENT => format!(
            "congestion = \"{}\": this kernel has no such congestion control; it has {}",
            options.congestion,
            available()
        ),
        Errno::PERM => format!(
            "congestion = \"{}\": only root may use it here; everybody may use {}",
            options.congestion,
            sysctl("tcp_allowed_congestion_control")
        ),
        e => format!("congestion = \"{}\": {e}", options.congestion),
    })?;
    let _ = sockopt::set_socket_reuseaddr(&socket, true);
    options.apply(&socket);
    Ok(socket)
}

fn available() -> String {
    sysctl("tcp_available_congestion_control")
}

fn sysctl(key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{key}")).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(", ")
}

/// Lets servers of this thread's namespace answer a SYN with its code point. A listening socket has one of its own, which
/// can be that of one of its traffics only; so this is for those with several.
pub(super) fn answer_in_class_of_request() -> Result<(), String> {
    let path = "/proc/sys/net/ipv4/tcp_reflect_tos";
    std::fs::write(path, "1").map_err(|error| format!("{path}: {error}"))
}

/// A listening socket. Errors are messages.
pub(super) fn listen(address: SocketAddrV4, options: &SocketOptions) -> Result<OwnedFd, String> {
    let socket = open(options)?;
    rustix::net::bind(&socket, &address).map_err(|e| format!("port {}: {e}", address.port()))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|e| format!("port {}: {e}", address.port()))?;
    Ok(socket)
}

/// The next connection, with the client's address.
pub(super) fn accept(listener: impl AsFd) -> Option<(OwnedFd, SocketAddrV4)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, from) = rustix::net::acceptfrom_with(listener, flags).ok()?;
    let from: SocketAddrAny = from?;
    Some((socket, SocketAddrV4::try_from(from).ok()?))
}

/// A socket that connects from `from` to `server`; `None` when that port is in use. Errors are messages.
pub(super) fn connect(
    from: SocketAddrV4,
    server: SocketAddrV4,
    options: &SocketOptions,
) -> Result<Option<OwnedFd>, String> {
    let socket = open(options)?;
    match rustix::net::bind(&socket, &from) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => return Ok(None),
        Err(error) => return Err(format!("{from}: {error}")),
    }
    match rustix::net::connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(Some(socket)),
        Err(Errno::ADDRNOTAVAIL) => Ok(None),
        Err(error) => Err(format!("{from} to {server}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_congestion_control_is_told_with_those_there_are() {
        let tcp = Tcp { congestion: "quic".into(), ..Tcp::default() };
        let options = SocketOptions::of(&tcp, Dscp::default());
        let why = listen("127.0.0.1:0".parse().unwrap(), &options).unwrap_err();
        assert!(why.contains("\"quic\"") && why.contains("reno"), "{why}");
        let newreno = Tcp { congestion: "newreno".into(), ..tcp };
        let options = SocketOptions::of(&newreno, Dscp::default());
        assert!(listen("127.0.0.1:0".parse().unwrap(), &options).is_ok());
    }
}
