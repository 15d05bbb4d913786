//! What the kernel knows of a TCP connection (`TCP_INFO`, tcp(7)).

use std::os::fd::{AsFd, AsRawFd};

use crate::error::NetlinkError;
use perhop_units::Duration;

/// State of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Congestion window, bytes of payload.
    pub window: u64,
    /// Slow-start threshold, bytes of payload; `None` while there is none.
    pub threshold: Option<u64>,
    /// Smoothed round-trip time; zero before the first measurement.
    pub round_trip: Duration,
    /// Payload bytes acknowledged by the peer.
    pub acknowledged: u64,
    /// Segments sent again over the connection's life.
    pub retransmits: u32,
}

/// `TCP_INFINITE_SSTHRESH` of the kernel, in segments.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Reads the state of a TCP socket; any thread may ask, in whatever namespace it is.
///
/// # Errors
/// [`NetlinkError::Kernel`], EOPNOTSUPP for a socket that is not TCP's.
pub fn tcp_info(socket: impl AsFd) -> Result<TcpInfo, NetlinkError> {
    // SAFETY: the structure is plain integers, for which zero is a value; an older kernel fills only its beginning.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: pointer and length describe `info`, which the kernel fills up to `length` bytes at most.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(NetlinkError::io("read TCP_INFO", "", std::io::Error::last_os_error()));
    }
    let bytes = |segments: u32| u64::from(segments) * u64::from(info.tcpi_snd_mss);
    Ok(TcpInfo {
        window: bytes(info.tcpi_snd_cwnd),
        threshold: (info.tcpi_snd_ssthresh < NO_THRESHOLD).then(|| bytes(info.tcpi_snd_ssthresh)),
        round_trip: Duration(u64::from(info.tcpi_rtt) * 1000),
        // The SYN counts as one byte there.
        acknowledged: info.tcpi_bytes_acked.saturating_sub(1),
        retransmits: info.tcpi_total_retrans,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_connection_tells_its_state_and_a_datagram_socket_does_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 100]).unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        // The answer carries the acknowledgement.
        server.write_all(&[1]).unwrap();
        client.read_exact(&mut [0; 1]).unwrap();
        let info = tcp_info(&client).unwrap();
        assert_eq!((info.acknowledged, info.retransmits, info.threshold), (100, 0, None));
        assert!(info.window > 0 && info.round_trip > Duration::ZERO, "{info:?}");
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_info(&datagrams).is_err());
    }
}
