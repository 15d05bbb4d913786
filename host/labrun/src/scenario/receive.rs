//! What a host receives: datagrams by its sockets, and everything once more by a tap with the kernel's stamps.

use crate::error::LabError;
use crate::pace::{precise_timers, sleep_until};
use crate::tap::{Watcher, open};
use perhop_io::Outgoing;
use perhop_io::clock::monotonic;
use perhop_measure::{Bins, Sections};
use perhop_netlink::Namespace;
use perhop_traffic::Stamp;
use perhop_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How long a receiver waits before it looks whether the run has ended.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The sockets are read at most this often: the kernel stamps packets, so reading late costs no precision.
const BREATHE: Duration = Duration::from_millis(2);
/// Datagrams of a socket that are read before the others and the taps have their turn: a flood that fills its socket as fast
/// as it is read must not keep the tap from being read, whose ring would overflow, nor other streams waiting.
const AT_ONCE: usize = 64;
/// Bytes of Ethernet header.
const ETHERNET: usize = 14;

/// A direction of a connection at its receiver: the sender's address and port, the receiver's port.
pub(super) type FlowKey = (Ipv4Addr, u16, u16);

/// Data segments of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    /// When the first arrived.
    pub(super) first: Option<Instant>,
    /// IP bytes inside the window.
    pub(super) window_ip_bytes: u64,
    /// IP bytes by bin.
    pub(super) bins: Bins,
    /// IP bytes by section.
    pub(super) sections: Bins,
}

/// When what counts, as instants of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Start of the run on this machine's clock.
    pub(super) epoch: Instant,
    /// The part that counts.
    pub(super) window: (Instant, Instant),
    /// Bin of throughput series.
    pub(super) bin: Duration,
}

impl Times {
    /// An instant of this machine as one of the run.
    pub(super) fn of(&self, at: Instant) -> Instant {
        Instant(at.since(self.epoch).as_nanos())
    }
}

/// What one host received.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Datagrams by the sockets, instants of the run: stream, index, when.
    pub(super) datagrams: Vec<(u16, u32, Instant)>,
    /// The kernel's stamps of the same, in their order.
    pub(super) stamps: Vec<(u16, u32, Instant)>,
    /// Data segments by flow.
    pub(super) flows: HashMap<FlowKey, Flow>,
    /// Datagrams that are no stream's.
    pub(super) foreign: u64,
    /// Frames that the tap's own ring lost.
    pub(super) lost: u64,
}

/// A running receiver.
pub(super) struct Receiver {
    thread: JoinHandle<Seen>,
}

impl Receiver {
    /// Starts the receiver of a host with its interfaces.
    pub(super) fn start(
        name: &str,
        namespace: &Namespace,
        devices: &[String],
        sockets: Vec<UdpSocket>,
        (times, sections): (Times, Sections),
        done: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let taps =
            devices.iter().map(|d| open(namespace, d, Outgoing::Ignored)).collect::<Result<Vec<_>, _>>()?;
        let io = crate::error::io("wait for datagrams");
        let set = gather(&sockets).map_err(|e| io(e.into()))?;
        let done = Arc::clone(done);
        let thread = std::thread::Builder::new()
            .name(format!("rx-{name}"))
            .spawn(move || receive(taps, &sockets, &set, (times, sections), &done))
            .map_err(crate::error::io("start a receiver"))?;
        Ok(Self { thread })
    }

    /// What arrived. Set `done` before.
    pub(super) fn finish(self) -> Seen {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn gather(sockets: &[UdpSocket]) -> rustix::io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (i, socket) in sockets.iter().enumerate() {
        epoll::add(&set, socket, epoll::EventData::new_u64(i as u64), epoll::EventFlags::IN)?;
    }
    Ok(set)
}

fn receive(
    mut taps: Vec<Watcher>,
    sockets: &[UdpSocket],
    set: &OwnedFd,
    (times, sections): (Times, Sections),
    done: &AtomicBool,
) -> Seen {
    precise_timers();
    let mut seen = Seen::default();
    let mut events = Vec::with_capacity(64);
    loop {
        let ending = done.load(Ordering::Relaxed);
        {
            let taps = taps.iter().map(|tap| PollFd::new(tap, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = taps.chain([PollFd::new(set, PollFlags::IN)]).collect();
            if !ending {
                let _ = poll(&mut fds, Some(&IDLE));
            }
        }
        for tap in &mut taps {
            tap.read(|at, frame| observe(&mut seen, (&times, &sections), at, frame));
        }
        let more = read_sockets(sockets, set, &mut events, &times, &mut seen);
        if more {
            continue;
        }
        if ending {
            break;
        }
        sleep_until(monotonic() + BREATHE);
    }
    seen.lost = taps.iter_mut().map(Watcher::lost).sum();
    seen
}

/// Reads up to [`AT_ONCE`] datagrams of each socket that has some. `true` when one may have more.
fn read_sockets(
    sockets: &[UdpSocket],
    set: &OwnedFd,
    events: &mut Vec<epoll::Event>,
    times: &Times,
    seen: &mut Seen,
) -> bool {
    let mut buffer = [0u8; 2048];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    events.clear();
    // Sockets that are ready come in turn, as many as fit.
    if epoll::wait(set, rustix::buffer::spare_capacity(events), Some(&at_once)).is_err() {
        return false;
    }
    let mut more = events.len() == events.capacity();
    for event in events.iter() {
        let Some(socket) = sockets.get(event.data.u64() as usize) else { continue };
        let mut left = AT_ONCE;
        while left > 0
            && let Some(len) = crate::udp::received(socket, &mut buffer)
        {
            left -= 1;
            match Stamp::at_end_of(&buffer[..len]) {
                Some(stamp) => seen.datagrams.push((stamp.stream, stamp.index, times.of(monotonic()))),
                None => seen.foreign += 1,
            }
        }
        more |= left == 0;
    }
    more
}

/// Books a frame: the stamp of a datagram, the bytes of a data segment. All are IPv4 without options.
fn observe(seen: &mut Seen, (times, sections): (&Times, &Sections), at: Instant, frame: &[u8]) {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let plain = frame.get(12..14) == Some(&[0x08, 0x00]) && frame.get(ETHERNET) == Some(&0x45);
    let (true, Some(ip_len), Some(protocol)) = (plain, word(16), frame.get(23)) else { return };
    let Some(packet) = frame.get(ETHERNET..ETHERNET + usize::from(ip_len)) else { return };
    let now = times.of(at);
    if *protocol == 17 {
        if let Some(stamp) = Stamp::at_end_of(packet) {
            // Nothing is looked up in while more arrives.
            seen.stamps.push((stamp.stream, stamp.index, now));
        }
        return;
    }
    let (Some(from), Some(to)) = (word(34), word(36)) else { return };
    let header = packet.get(32).map_or(0, |offset| usize::from(offset >> 4) * 4);
    if *protocol != 6 || packet.len() <= 20 + header {
        return;
    }
    let source = Ipv4Addr::new(packet[12], packet[13], packet[14], packet[15]);
    let flow = seen.flows.entry((source, from, to)).or_default();
    flow.first.get_or_insert(now);
    if now >= times.window.0 && now < times.window.1 {
        flow.window_ip_bytes += u64::from(ip_len);
    }
    flow.bins.add(now.as_nanos() / times.bin.as_nanos().max(1), u64::from(ip_len));
    flow.sections.add(sections.at(now), u64::from(ip_len));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(protocol: u8, above: &[u8]) -> Vec<u8> {
        let mut f = vec![0u8; 34];
        f[12] = 8;
        f[14] = 0x45;
        f[16..18].copy_from_slice(&(20 + above.len() as u16).to_be_bytes());
        f[23] = protocol;
        f[26..30].copy_from_slice(&[10, 0, 0, 1]);
        f.extend_from_slice(above);
        f
    }

    #[test]
    fn a_flood_does_not_keep_other_streams_waiting() {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let sockets = vec![bind(), bind()];
        sockets.iter().for_each(|s| s.set_nonblocking(true).expect("it can"));
        let sender = bind();
        let send = |socket: usize, stream: u16, index: u32| {
            let stamp = Stamp { stream, index, sent: Instant(0) };
            let to = sockets[socket].local_addr().expect("bound");
            sender.send_to(&stamp.to_bytes(), to).expect("loopback takes it");
        };
        let flood = 2 * AT_ONCE as u32 - 1;
        (0..flood).for_each(|index| send(0, 0, index));
        send(1, 1, 0);
        let times = Times { epoch: monotonic(), window: (Instant(0), Instant(1)), bin: Duration(1) };
        let set = gather(&sockets).expect("a set");
        let (mut seen, mut events) = (Seen::default(), Vec::with_capacity(64));
        assert!(read_sockets(&sockets, &set, &mut events, &times, &mut seen), "there is more of the flood");
        assert!(seen.datagrams.iter().any(|(stream, _, _)| *stream == 1), "the other had its turn");
        assert_eq!(seen.datagrams.len(), AT_ONCE + 1);
        assert!(!read_sockets(&sockets, &set, &mut events, &times, &mut seen));
        assert_eq!(seen.datagrams.len() as u32, flood + 1);
    }

    #[test]
    fn segments_with_data_and_stamps_are_booked() {
        let times =
            Times { epoch: Instant(1_000), window: (Instant(500), Instant(2_000)), bin: Duration(1_000) };
        let mut seen = Seen::default();
        let mut segment = vec![0u8; 20];
        segment[..4].copy_from_slice(&[0x13, 0x89, 0x80, 0x00]);
        segment[12] = 5 << 4;
        observe(&mut seen, (&times, &Sections::default()), Instant(1_200), &frame(6, &segment));
        assert!(seen.flows.is_empty(), "an acknowledgement alone is no data");
        segment.extend_from_slice(&[0; 10]);
        for at in [1_200, 1_600, 2_700, 4_000] {
            observe(&mut seen, (&times, &Sections::default()), Instant(at), &frame(6, &segment));
        }
        let flow = &seen.flows[&(Ipv4Addr::new(10, 0, 0, 1), 5001, 32_768)];
        assert_eq!((flow.first, flow.window_ip_bytes), (Some(Instant(200)), 100));
        assert_eq!(flow.bins.iter().collect::<Vec<_>>(), [(0, 100), (1, 50), (2, 0), (3, 50)]);
        let stamp = Stamp { stream: 3, index: 7, sent: Instant(1) };
        let mut datagram = frame(17, &[&[0; 8][..], &stamp.to_bytes()].concat());
        // Padding of a short frame is not part of the packet.
        datagram.extend_from_slice(&[0; 6]);
        observe(&mut seen, (&times, &Sections::default()), Instant(1_010), &datagram);
        assert_eq!(seen.stamps, [(3, 7, Instant(10))]);
        for cut in 0..60 {
            observe(
                &mut seen,
                (&times, &Sections::default()),
                Instant(9),
                datagram.get(..cut).unwrap_or(&[]),
            );
        }
    }
}
