//! Two hosts that exchange IPv4 packets as bytes, in virtual time: for other implementations and for real payload.

use perhop_tcp::stream::Stream;
use perhop_tcp::wire::Addresses;
use perhop_tcp::{Event, State};
use perhop_units::{Duration, Instant};
use perhop_wire::{ipv4, protocol, tcp};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;

pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const MTU: usize = 1500;

/// A host with one connection and an application that sends some bytes, closes, and keeps what it receives.
pub trait Host {
    /// Takes a packet if there is one, acts, and gives what is to be sent.
    fn serve(&mut self, now: Instant, packet: Option<&[u8]>, out: &mut Vec<Vec<u8>>);
    fn next_wakeup(&mut self, now: Instant) -> Option<Instant>;
    fn received(&self) -> &[u8];
    fn is_done(&self) -> bool;
}

/// The application of [`StreamHost`].
pub struct StreamHost {
    pub stream: Stream,
    addresses: Addresses,
    sends: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    /// Most bytes read at once, each time the host is served; small values let the window close.
    pub reads: usize,
    closed: bool,
    over: bool,
    done: bool,
    pub events: Vec<Event>,
}

impl StreamHost {
    pub fn new(stream: Stream, number: usize, sends: Vec<u8>) -> Self {
        Self {
            stream,
            addresses: Addresses::V4 { source: ADDRESSES[number], destination: ADDRESSES[1 - number] },
            sends,
            sent: 0,
            received: Vec::new(),
            reads: usize::MAX,
            closed: false,
            over: false,
            done: false,
            events: Vec::new(),
        }
    }
    fn act(&mut self) {
        while let Some(event) = self.stream.endpoint().poll_event() {
            self.over |= matches!(event, Event::Closed | Event::Finished);
            self.events.push(event);
        }
        let mut buffer = [0; 4096];
        let mut left = self.reads;
        loop {
            let most = left.min(buffer.len());
            let read = self.stream.read(&mut buffer[..most]);
            self.received.extend(&buffer[..read]);
            left -= read;
            if read == 0 {
                break;
            }
        }
        self.done = self.over && self.stream.endpoint().readable() == 0;
        self.sent += self.stream.write(&self.sends[self.sent..]);
        let opened = !matches!(
            self.stream.endpoint().state(),
            State::Listen | State::SynSent | State::SynReceived | State::Closed
        );
        if !self.closed && opened && self.sent == self.sends.len() {
            self.closed = true;
            self.stream.endpoint().close();
        }
    }
}

impl Host for StreamHost {
    fn serve(&mut self, now: Instant, packet: Option<&[u8]>, out: &mut Vec<Vec<u8>>) {
        if let Some(view) = packet.and_then(|packet| ipv4::View::new_checked(packet).ok()) {
            let Addresses::V4 { source, destination } = self.addresses else { unreachable!() };
            let back = Addresses::V4 { source: destination, destination: source };
            self.stream.handle_bytes(now, view.payload(), &back, view.ecn()).expect("an intact segment");
        }
        self.act();
        let Addresses::V4 { source, destination } = self.addresses else { unreachable!() };
        loop {
            let mut packet = vec![0; MTU];
            let Some((segment, len)) =
                self.stream.poll_output(now, &self.addresses, &mut packet[ipv4::HEADER_LEN..])
            else {
                break;
            };
            let header = ipv4::Repr {
                ecn: segment.ecn,
                protocol: protocol::TCP,
                src: source,
                dst: destination,
                payload_len: len as u16,
                ..ipv4::Repr::default()
            };
            header.emit(&mut packet);
            packet.truncate(ipv4::HEADER_LEN + len);
            out.push(packet);
        }
        self.act();
    }
    fn next_wakeup(&mut self, now: Instant) -> Option<Instant> {
        // A slow reader comes back on its own.
        let reading = (self.stream.endpoint().readable() > 0).then_some(now + Duration::from_millis(50));
        let timer = self.stream.endpoint().next_wakeup();
        [reading, timer].into_iter().flatten().min()
    }
    fn received(&self) -> &[u8] {
        &self.received
    }
    fn is_done(&self) -> bool {
        self.done
    }
}

/// What happens to a packet: `None` loses it, otherwise a delay for each copy.
pub type Damage<'a> = Box<dyn FnMut(usize, &mut [u8]) -> Vec<Duration> + 'a>;

/// Rewrites the window of a packet, as a middlebox does.
pub fn rewrite_window(packet: &mut [u8], change: impl FnOnce(u16) -> u16) {
    let mut header = tcp::ViewMut::new_checked(&mut packet[ipv4::HEADER_LEN..]).unwrap();
    let window = change(header.window());
    header.set_window(window);
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive(usize, Vec<u8>),
    Wake(usize),
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub now: Instant,
    pub packets: u64,
    pub wakeups: u64,
}

/// Runs until nothing is left to happen, both are done, or `limit` events have been. Each packet takes `delay`.
pub fn run(hosts: &mut [&mut dyn Host; 2], delay: Duration, limit: u64, mut damage: Damage<'_>) -> Outcome {
    let mut outcome = Outcome { now: Instant::ZERO, packets: 0, wakeups: 0 };
    let mut queue: BinaryHeap<Reverse<(Instant, u64, What)>> = BinaryHeap::new();
    let mut sequence = 0;
    let mut pending: [Option<Instant>; 2] = [None; 2];
    for end in 0..2 {
        queue.push(Reverse((Instant::ZERO, end as u64, What::Wake(end))));
    }
    while let Some(Reverse((now, _, what))) = queue.pop() {
        outcome.now = now;
        if outcome.packets + outcome.wakeups >= limit || hosts.iter().all(|host| host.is_done()) {
            break;
        }
        let mut out = Vec::new();
        let end = match what {
            What::Arrive(end, packet) => {
                outcome.packets += 1;
                hosts[end].serve(now, Some(&packet), &mut out);
                end
            }
            What::Wake(end) => {
                if pending[end].is_some_and(|at| at <= now) {
                    pending[end] = None;
                }
                outcome.wakeups += 1;
                hosts[end].serve(now, None, &mut out);
                end
            }
        };
        for mut packet in out {
            for later in damage(end, &mut packet) {
                sequence += 1;
                queue.push(Reverse((
                    now + delay + later,
                    2 + sequence,
                    What::Arrive(1 - end, packet.clone()),
                )));
            }
        }
        if let Some(at) = hosts[end].next_wakeup(now)
            && pending[end].is_none_or(|known| at < known)
        {
            pending[end] = Some(at);
            sequence += 1;
            queue.push(Reverse((at.max(now), 2 + sequence, What::Wake(end))));
        }
    }
    outcome
}

/// Bytes that differ at every place.
pub fn text(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 24) as u8)
        .collect()
}
