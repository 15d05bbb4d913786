//! The segments of connections, one by one, as a capture at the host that sends the data has them.
//!
//! A packet socket at each interface of the host shows what leaves and what arrives, with the kernel's stamps: data as they
//! are sent, acknowledgements as they come. Ends of a connection may use a pair of ports again; then its SYN begins another
//! log.

use super::receive::{FlowKey, Times};
use crate::error::{LabError, io};
use crate::pace::sleep_until;
use crate::tap::{Watcher, open};
use perhop_io::Outgoing;
use perhop_io::clock::monotonic;
use perhop_measure::SegmentLog;
use perhop_netlink::Namespace;
use perhop_units::{Duration, Instant};
use perhop_wire::tcp::{View, flags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How long a capture waits before it looks whether the run has ended.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The rings are read at most this often: the kernel stamps frames, so reading late costs no precision.
const BREATHE: Duration = Duration::from_millis(2);
/// Bytes of Ethernet and of IPv4 header; all that hosts send has just these.
const ETHERNET: usize = 14;
const IPV4: usize = 20;

/// The data of one connection in one direction.
#[derive(Clone, Debug, Default)]
struct Followed {
    /// Number of the first byte.
    first: u32,
    /// Place behind the last byte that was sent or acknowledged.
    high: u64,
    log: SegmentLog,
}

impl Followed {
    fn new(first: u32) -> Self {
        Self { first, ..Self::default() }
    }

    /// The place in the stream of a sequence number near the highest; `None` before its beginning.
    fn place(&self, number: u32) -> Option<u64> {
        let high = self.first.wrapping_add(self.high as u32);
        self.high.checked_add_signed(i64::from(number.wrapping_sub(high) as i32))
    }

    fn sent(&mut self, now: Instant, number: u32, len: u32) {
        let Some(start) = self.place(number) else { return };
        self.high = self.high.max(start + u64::from(len));
        self.log.sent(now, start, len);
    }

    fn acknowledged(&mut self, now: Instant, number: u32) {
        if let Some(end) = self.place(number) {
            self.log.acknowledged(now, end);
        }
    }
}

/// What one host sent by TCP.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// By flow, one log for each connection in the order of their beginning.
    followed: HashMap<FlowKey, Vec<Followed>>,
    /// Frames that the captures' own rings lost.
    pub(super) lost: u64,
}

impl Sent {
    /// The segments of each connection of every flow, the first connection last.
    pub(super) fn into_logs(self) -> impl Iterator<Item = (FlowKey, Vec<SegmentLog>)> {
        let logs = |followed: Vec<Followed>| followed.into_iter().rev().map(|one| one.log).collect();
        self.followed.into_iter().map(move |(flow, followed)| (flow, logs(followed)))
    }

    /// Books a frame that left the host with `address`, or reached it.
    fn observe(&mut self, address: Ipv4Addr, times: &Times, at: Instant, frame: &[u8]) {
        let plain = frame.get(12..14) == Some(&[0x08, 0x00]) && frame.get(ETHERNET) == Some(&0x45);
        let Some(ip) = frame.get(ETHERNET..).filter(|ip| plain && ip.len() >= IPV4 && ip[9] == 6) else {
            return;
        };
        let ip_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let Some(Ok(segment)) = ip.get(IPV4..ip_len).map(View::new_checked) else { return };
        let end = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
        let (from, to, now) = (end(12), end(16), times.of(at));
        let has = |flag: u8| segment.flags() & flag != 0;
        if from == address {
            let flow = self.followed.entry((from, segment.src_port(), segment.dst_port())).or_default();
            let first = segment.seq().wrapping_add(1);
            if has(flags::SYN) && flow.last().is_none_or(|followed| followed.first != first) {
                flow.push(Followed::new(first));
            }
            let len = u32::try_from(segment.payload().len()).unwrap_or(0);
            if let Some(followed) = flow.last_mut().filter(|_| len > 0) {
                followed.sent(now, segment.seq(), len);
            }
        }
        if to == address
            && has(flags::ACK)
            && let Some(flow) = self.followed.get_mut(&(to, segment.dst_port(), segment.src_port()))
            && let Some(followed) = flow.last_mut()
        {
            followed.acknowledged(now, segment.ack());
        }
    }
}

/// A running capture.
pub(super) struct Follower {
    thread: JoinHandle<Sent>,
}

impl Follower {
    /// Follows what the host with `address` sends by its interfaces.
    pub(super) fn start(
        name: &str,
        namespace: &Namespace,
        devices: &[String],
        address: Ipv4Addr,
        times: Times,
        done: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let taps = devices.iter().map(|device| open(namespace, device, Outgoing::Received));
        let taps = taps.collect::<Result<Vec<_>, _>>()?;
        let done = Arc::clone(done);
        let thread = std::thread::Builder::new()
            .name(format!("seg-{name}"))
            .spawn(move || follow(taps, address, times, &done))
            .map_err(io("start a capture"))?;
        Ok(Self { thread })
    }

    /// What was sent. Set `done` before.
    pub(super) fn finish(self) -> Sent {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn follow(mut taps: Vec<Watcher>, address: Ipv4Addr, times: Times, done: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    loop {
        let ending = done.load(Ordering::Relaxed);
        if !ending {
            let mut fds: Vec<PollFd<'_>> = taps.iter().map(|tap| PollFd::new(tap, PollFlags::IN)).collect();
            let _ = poll(&mut fds, Some(&IDLE));
        }
        for tap in &mut taps {
            tap.read(|at, frame| sent.observe(address, &times, at, frame));
        }
        if ending {
            break;
        }
        sleep_until(monotonic() + BREATHE);
    }
    sent.lost = taps.iter_mut().map(Watcher::lost).sum();
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const TIMES: Times =
        Times { epoch: Instant(1_000), window: (Instant(0), Instant(9_000)), bin: Duration(1_000) };

    /// A frame from port 5000 of the host to port 80 of the peer, or back.
    fn frame(out: bool, seq: u32, ack: u32, flags: u8, payload: usize) -> Vec<u8> {
        let (from, to, ports) = if out { (HOST, PEER, [5_000u16, 80]) } else { (PEER, HOST, [80, 5_000]) };
        let mut f = vec![0u8; ETHERNET + IPV4 + 20 + payload];
        f[12] = 8;
        f[14] = 0x45;
        f[16..18].copy_from_slice(&((IPV4 + 20 + payload) as u16).to_be_bytes());
        f[23] = 6;
        f[26..30].copy_from_slice(&from.octets());
        f[30..34].copy_from_slice(&to.octets());
        f[34..36].copy_from_slice(&ports[0].to_be_bytes());
        f[36..38].copy_from_slice(&ports[1].to_be_bytes());
        f[38..42].copy_from_slice(&seq.to_be_bytes());
        f[42..46].copy_from_slice(&ack.to_be_bytes());
        f[46] = 5 << 4;
        f[47] = flags;
        f
    }

    fn logs(sent: Sent) -> Vec<SegmentLog> {
        let mut all: Vec<_> = sent.into_logs().collect();
        assert_eq!(all[0].0, (HOST, 5_000, 80));
        all.remove(0).1
    }

    #[test]
    fn segments_are_told_across_the_end_of_the_numbers_and_from_what_is_sent_again() {
        let mut sent = Sent::default();
        let mut at = |ns: u64, frame: &[u8]| sent.observe(HOST, &TIMES, Instant(1_000 + ns), frame);
        at(0, &frame(true, 0xffff_fff0, 0, flags::SYN, 0));
        at(5, &frame(false, 7, 0xffff_fff1, flags::SYN | flags::ACK, 0));
        at(10, &frame(true, 0xffff_fff1, 8, flags::ACK, 10));
        at(20, &frame(true, 0xffff_fffb, 8, flags::ACK, 10));
        at(25, &frame(true, 5, 8, flags::ACK, 10));
        at(30, &frame(false, 8, 0xffff_fffb, flags::ACK, 0));
        at(40, &frame(true, 0xffff_fffb, 8, flags::ACK, 10));
        at(50, &frame(false, 8, 15, flags::ACK, 0));
        let [log] = &logs(sent)[..] else { panic!("one connection") };
        let times: Vec<_> = log.segments().iter().map(|s| (s.sent.0, s.covered.0)).collect();
        assert_eq!((times, log.again()), (vec![(10, 30), (20, 50), (25, 50)], &[Instant(40)][..]));
    }

    #[test]
    fn ports_that_are_used_again_have_a_log_for_each_connection() {
        let mut sent = Sent::default();
        for (n, first) in [(0, 100u32), (1, 900_000)] {
            let mut at =
                |ns: u64, frame: &[u8]| sent.observe(HOST, &TIMES, Instant(1_000 + n * 100 + ns), frame);
            at(0, &frame(true, first, 0, flags::SYN, 0));
            // Sent again, it is no other.
            at(1, &frame(true, first, 0, flags::SYN, 0));
            at(2, &frame(true, first + 1, 8, flags::ACK, 10));
        }
        let logs = logs(sent);
        let sent: Vec<Vec<u64>> =
            logs.iter().map(|log| log.segments().iter().map(|s| s.sent.0).collect()).collect();
        assert_eq!(sent, [[102], [2]], "the first is the last");
    }

    #[test]
    fn frames_that_are_cut_short_or_of_others_are_left_alone() {
        let mut sent = Sent::default();
        let whole = frame(true, 1, 1, flags::SYN | flags::ACK, 30);
        for cut in 0..whole.len() {
            sent.observe(HOST, &TIMES, Instant(5_000), &whole[..cut]);
        }
        sent.observe(Ipv4Addr::new(10, 9, 9, 9), &TIMES, Instant(5_000), &whole);
        assert_eq!(sent.into_logs().count(), 0);
    }
}
