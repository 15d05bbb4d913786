//! Calls and flood through real UDP sockets: senders that keep to their source's instants, receivers that stamp.

use crate::error::{LabError, io};
use crate::pace::{Lateness, precise_timers, sleep_until};
use crate::topology::{CALLEE, CALLER};
use perhop_io::clock::monotonic;
use perhop_io::thread::run_before_others;
use perhop_netlink::Namespace;
use perhop_traffic::{Arrival, Carriage, FlowTally, Sink, Source};
use perhop_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// First UDP port of the callers; call i uses this + 2 i, as RTP has even ports (RFC 3550 §11).
pub(crate) const CALLER_PORT: u16 = 20_000;
/// First UDP port of the callees.
pub(crate) const CALLEE_PORT: u16 = 30_000;
/// UDP port that the flood is sent to.
pub(crate) const FLOOD_PORT: u16 = 9;
const FLOOD_SOURCE_PORT: u16 = 40_000;
/// Stream number of the first call from callee to caller; those from caller to callee begin at 0.
pub(crate) const DOWN_STREAM: u16 = 1_000;
/// Stream number of the flood.
pub(crate) const FLOOD_STREAM: u16 = 2_000;

/// What a receive buffer should hold, so that a receiver that is late loses nothing.
const RECEIVE_BUFFER: usize = 8 << 20;
/// How long a receiver waits before it looks whether the run has ended.
const IDLE: std::time::Duration = std::time::Duration::from_millis(100);
/// Real-time priority of senders, which sleep nearly all the time.
const SENDER_PRIORITY: i32 = 10;
/// Largest datagram of ours.
const MAX_DATAGRAM: usize = 2048;

/// A sender and a receiver for each call, by call number.
#[derive(Debug)]
pub(crate) struct CallSockets {
    pub(crate) caller: Vec<UdpSocket>,
    pub(crate) callee: Vec<UdpSocket>,
}

impl CallSockets {
    /// Opens both ends of every call.
    pub(crate) fn open(caller: &Namespace, callee: &Namespace, calls: u16) -> Result<Self, LabError> {
        let ends =
            |from: Ipv4Addr, from_port: u16, to: Ipv4Addr, to_port: u16| -> std::io::Result<Vec<UdpSocket>> {
                (0..calls).map(|i| connected((from, from_port + 2 * i), (to, to_port + 2 * i))).collect()
            };
        Ok(Self {
            caller: within(caller, || ends(CALLER, CALLER_PORT, CALLEE, CALLEE_PORT))?,
            callee: within(callee, || ends(CALLEE, CALLEE_PORT, CALLER, CALLER_PORT))?,
        })
    }
}

/// Opens the flood's two ends: sender, receiver.
pub(crate) fn flood_sockets(
    caller: &Namespace,
    callee: &Namespace,
) -> Result<(UdpSocket, UdpSocket), LabError> {
    let source = (CALLER, FLOOD_SOURCE_PORT);
    let sink = (CALLEE, FLOOD_PORT);
    Ok((within(caller, || connected(source, sink))?, within(callee, || connected(sink, source))?))
}

fn within<T: Send>(
    namespace: &Namespace,
    work: impl FnOnce() -> std::io::Result<T> + Send,
) -> Result<T, LabError> {
    let source = |source| LabError::Network { doing: "open sockets", source };
    namespace.run(work).map_err(source)?.map_err(io("open sockets"))
}

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
    /// Every datagram; empty where not asked for.
    pub(crate) sent: Vec<Sent>,
    /// Datagrams sent.
    pub(crate) count: u64,
    /// Datagrams that the kernel refused.
    pub(crate) refused: u64,
    /// Lateness of each.
    pub(crate) lateness: Lateness,
}

/// Sends what the source emits, each at its instant after `epoch`, until it ends or `stop` is set. A stream leaves by
/// the socket that `socket_of` gives for it. `keep` keeps the log of every datagram.
pub(crate) fn send<'a>(
    source: impl Source,
    epoch: Instant,
    socket_of: impl Fn(u16) -> Option<&'a UdpSocket>,
    keep: bool,
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
        // Refused or not, it is a datagram of the call that the receiver will wait for.
        log.count += 1;
        log.refused += u64::from(sent.is_err());
        if keep {
            let rtp_timestamp = emission.rtp.map_or(0, |rtp| rtp.timestamp);
            let (stream, index, len) = (emission.stream, emission.index, emission.len);
            log.sent.push(Sent { stream, index, at: now, len, rtp_timestamp });
        }
    }
    log
}

/// Receives calls on all sockets until `done` is set.
pub(crate) fn receive_calls(sockets: &[UdpSocket], first_stream: u16, done: &AtomicBool) -> Vec<Arrival> {
    precise_timers();
    let mut sink = Sink::new(Carriage::Rtp, first_stream, sockets.len() as u16);
    let mut arrivals = Vec::new();
    let mut buffer = [0u8; MAX_DATAGRAM];
    for socket in sockets {
        let _ = socket.set_nonblocking(true);
    }
    let timeout = Timespec { tv_sec: 0, tv_nsec: IDLE.as_nanos() as i64 };
    let mut polled: Vec<PollFd<'_>> = sockets.iter().map(|s| PollFd::new(s, PollFlags::IN)).collect();
    while !done.load(Ordering::Relaxed) {
        if poll(&mut polled, Some(&timeout)).unwrap_or(0) == 0 {
            continue;
        }
        for (fd, socket) in polled.iter().zip(sockets) {
            if fd.revents().is_empty() {
                continue;
            }
            while let Some(len) = received(socket, &mut buffer) {
                // Foreign datagrams are counted by the sink; nothing else sends here.
                arrivals.extend(sink.receive(monotonic(), &buffer[..len]));
            }
        }
    }
    arrivals
}

/// Receives the flood until `done` is set.
pub(crate) fn receive_flood(socket: &UdpSocket, done: &AtomicBool) -> FlowTally {
    let mut sink = Sink::new(Carriage::Plain, FLOOD_STREAM, 1);
    let mut tally = FlowTally::default();
    let mut buffer = [0u8; MAX_DATAGRAM];
    let _ = socket.set_read_timeout(Some(IDLE));
    while !done.load(Ordering::Relaxed) {
        if let Some(len) = received(socket, &mut buffer)
            && let Ok(arrival) = sink.receive(monotonic(), &buffer[..len])
        {
            tally.observe(&arrival);
        }
    }
    tally
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
