//! Datagrams through real UDP sockets: senders that keep to their source's instants.

use crate::pace::{Lateness, precise_timers, sleep_until};
use perhop_io::clock::monotonic;
use perhop_io::thread::run_before_others;
use perhop_traffic::Source;
use perhop_units::{Duration, Instant};
use rustix::net::sockopt;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a receive buffer should hold, so that a receiver that is late loses nothing.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Real-time priority of senders, which sleep nearly all the time.
const SENDER_PRIORITY: i32 = 10;
/// Largest datagram of ours.
const MAX_DATAGRAM: usize = 2048;

/// A socket bound to `from` that exchanges datagrams with `to` alone.
pub(crate) fn connected(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(from.0, from.1))?;
    socket.connect(SocketAddrV4::new(to.0, to.1))?;
    // Forcing needs rights over the machine's own namespace; the limit for everybody else still helps.
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
    }
    Ok(socket)
}

/// A datagram that was sent, or that the kernel refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Its stream.
    pub(crate) stream: u16,
    /// Its position in the stream.
    pub(crate) index: u32,
    /// When.
    pub(crate) at: Instant,
    /// UDP payload, bytes.
    pub(crate) len: u16,
    /// RTP time stamp; 0 without RTP.
    pub(crate) rtp_timestamp: u32,
}

/// What a sender did.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendLog {
    /// Every datagram.
    pub(crate) sent: Vec<Sent>,
    /// Datagrams that the kernel refused.
    pub(crate) refused: u64,
    /// Lateness of each.
    pub(crate) lateness: Lateness,
}

/// Sends what the source emits, each at its instant after `epoch`, until it ends or `stop` is set. A stream leaves by
/// the socket that `socket_of` gives for it.
pub(crate) fn send<'a>(
    source: impl Source,
    epoch: Instant,
    socket_of: impl Fn(u16) -> Option<&'a UdpSocket>,
    stop: &AtomicBool,
) -> SendLog {
    precise_timers();
    // A telephone has its own processor. Refused without rights over the machine; then the scheduler's delays show as
    // timer error.
    let _ = run_before_others(SENDER_PRIORITY);
    let mut log = SendLog::default();
    let mut buffer = [0u8; MAX_DATAGRAM];
    for emission in source {
        let due = epoch + emission.at;
        sleep_until(due);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Some(socket) = socket_of(emission.stream) else { continue };
        let now = monotonic();
        let Ok(len) = emission.fill(now, &mut buffer) else { continue };
        let sent = socket.send(&buffer[..len]);
        log.lateness.record(due, now);
        log.refused += u64::from(sent.is_err());
        // Refused or not, it is a datagram of the stream that the receiver will wait for.
        let rtp_timestamp = emission.rtp.map_or(0, |rtp| rtp.timestamp);
        let (stream, index, len) = (emission.stream, emission.index, emission.len);
        log.sent.push(Sent { stream, index, at: now, len, rtp_timestamp });
    }
    log
}

/// One datagram, if there is one. A pending ICMP error shows as an error of the next call; it is no datagram.
pub(crate) fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match socket.recv(buffer) {
            Ok(len) => return Some(len),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionRefused) => {}
            Err(_) => return None,
        }
    }
}

/// Waits between looks at `stop`, up to `until`; whether the time passed undisturbed.
pub(crate) fn wait_until(until: Instant, stop: &AtomicBool) -> bool {
    while monotonic() < until {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        sleep_until(until.min(monotonic() + Duration::from_millis(50)));
    }
    !stop.load(Ordering::Relaxed)
}
