//! The machine between a make-believe stack and a make-believe queue, in virtual time.

use super::*;
use perhop_routerfile::host::HostFile;
use perhop_units::Duration;
use perhop_wire::build::{self, FrameBuilder};
use perhop_wire::tcp::flags::{ACK, SYN};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const MSS: u32 = 1_460;

fn machine(text: &str, held: usize) -> HostAbr {
    let (file, diagnostics) = HostFile::read("host.toml", text);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    HostAbr::new(HostAbrConfig { connections: 64, held, policies: file.policies, link: file.rate, seed: 1 })
}

/// The kernel's queue: packets inside, and what came out.
#[derive(Default)]
struct Queue {
    next: u32,
    inside: BTreeMap<u32, Vec<u8>>,
    out: Vec<(u32, Vec<u8>)>,
    kept: Vec<u32>,
    replaced: usize,
}

impl Answers for Queue {
    fn accept(&mut self, id: u32) {
        let packet = self.inside.remove(&id).expect("a packet has one verdict");
        self.out.push((id, packet));
    }
    fn replace(&mut self, id: u32, packet: &[u8]) {
        let old = self.inside.remove(&id).expect("a packet has one verdict");
        assert_eq!(old.len(), packet.len());
        self.replaced += 1;
        self.out.push((id, packet.to_vec()));
    }
    fn keep(&mut self, id: u32) {
        assert!(self.inside.contains_key(&id));
        self.kept.push(id);
    }
    fn accept_kept(&mut self, id: u32, packet: Option<&[u8]>) {
        let at = self.kept.iter().position(|kept| *kept == id).expect("it was kept");
        self.kept.remove(at);
        match packet {
            Some(packet) => self.replace(id, packet),
            None => self.accept(id),
        }
    }
}

impl Queue {
    /// A packet comes; what came out by then.
    fn put(&mut self, machine: &mut HostAbr, now: Instant, hook: Hook, packet: Vec<u8>, partial: bool) {
        self.next += 1;
        let several = packet.len() > 1_500;
        let queued = Queued {
            id: self.next,
            hook,
            payload: 0..packet.len(),
            cut: false,
            checksum_missing: partial,
            several,
        };
        let mut seen = packet.clone();
        self.inside.insert(self.next, packet);
        machine.tick(now);
        machine.packet(now, &queued, &mut seen, self);
    }
}

fn checksum_is_right(packet: &[u8]) -> bool {
    let mut afresh = packet.to_vec();
    assert!(complete_at(&mut afresh, &dissect_packet(packet).unwrap()));
    afresh == packet
}

/// The checksum field as a stack leaves it to its card: the pseudo-header's sum, not complemented.
fn leave_checksum_to_card(packet: &mut [u8]) {
    let layout = dissect_packet(packet).unwrap();
    let (l4, len) = (usize::from(layout.l4_offset), u32::from(layout.ip_len - layout.l4_offset));
    let mut sum = u32::from(layout.protocol) + len;
    let addresses = if layout.ip_version == 4 { 12..20 } else { 8..40 };
    for pair in packet[addresses].chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[l4 + 16..l4 + 18].copy_from_slice(&(sum as u16).to_be_bytes());
}

fn window_of(packet: &[u8]) -> u32 {
    u32::from(u16::from_be_bytes(window(packet, &dissect_packet(packet).unwrap()).unwrap()))
}

/// Host 1, where the machine is, and host 2; by IPv4 or IPv6.
fn segment(v6: bool, from_here: bool, flags: u8, seq: u32, ack: u32, len: u32) -> FrameBuilder {
    let frame = match (v6, from_here) {
        (false, true) => build::tcp4([10, 0, 0, 1], [10, 0, 0, 2]),
        (false, false) => build::tcp4([10, 0, 0, 2], [10, 0, 0, 1]),
        (true, true) => build::tcp6([0xfd00, 0, 0, 0, 0, 0, 0, 1], [0xfd00, 0, 0, 0, 0, 0, 0, 2]),
        (true, false) => build::tcp6([0xfd00, 0, 0, 0, 0, 0, 0, 2], [0xfd00, 0, 0, 0, 0, 0, 0, 1]),
    };
    let ports = if from_here { (40_000, 80) } else { (80, 40_000) };
    frame.ports(ports.0, ports.1).flags(flags).seq_ack(seq, ack).window(60_000).payload_len(len as usize).tcp(
        |t| {
            if flags & SYN != 0 {
                (t.options.mss, t.options.window_scale) = (Some(MSS as u16), Some(3));
            }
        },
    )
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Data up to here arrive at the other end.
    Data(u32),
    /// The acknowledgment of it is back at this host.
    Back(u32),
    /// The machine has something to let go.
    Wake,
}

/// A sender of this host that has always more to send, in large segments, over a path without loss.
struct Transfer {
    machine: HostAbr,
    queue: Queue,
    /// There and back, ns.
    round_trip: u64,
    v6: bool,
    /// Scale of windows. Above the usual one, of 3, the sender uses parts of segments too, as Linux does.
    shift: u8,
    next: u32,
    acked: u32,
    right_edge: u32,
    congestion: u32,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    /// When the machine is woken.
    armed: Option<u64>,
    largest: u32,
}

impl Transfer {
    fn new(machine: HostAbr, round_trip: Duration, v6: bool) -> Self {
        Self {
            machine,
            queue: Queue::default(),
            round_trip: round_trip.0,
            v6,
            shift: 3,
            next: 1,
            acked: 1,
            right_edge: 1,
            congestion: 10 * MSS,
            events: BinaryHeap::new(),
            order: 0,
            armed: None,
            largest: 0,
        }
    }

    fn at(&mut self, ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((ns, self.order, event)));
    }

    fn here(&mut self, ns: u64, flags: u8, seq: u32, ack: u32, len: u32) {
        let mut packet = self.scaled(segment(self.v6, true, flags, seq, ack, len)).build_ip();
        leave_checksum_to_card(&mut packet);
        self.queue.put(&mut self.machine, Instant(ns), Hook::Output, packet, true);
    }

    fn scaled(&self, segment: FrameBuilder) -> FrameBuilder {
        let shift = self.shift;
        segment.tcp(|t| t.options.window_scale = t.options.window_scale.map(|_| shift))
    }

    fn there(&mut self, ns: u64, flags: u8, ack: u32) {
        let packet =
            self.scaled(segment(self.v6, false, flags, u32::from(flags & SYN == 0), ack, 0)).build_ip();
        self.queue.put(&mut self.machine, Instant(ns), Hook::Input, packet, false);
    }

    /// What has come out of the queue goes on.
    fn flow(&mut self, ns: u64) {
        for (_, packet) in std::mem::take(&mut self.queue.out) {
            let layout = dissect_packet(&packet).unwrap();
            let (l4, data) =
                (usize::from(layout.l4_offset), u32::from(layout.ip_len - layout.payload_offset));
            let word = |at: usize| u32::from_be_bytes(packet[l4 + at..l4 + at + 4].try_into().unwrap());
            if layout.src_port == 40_000 {
                if layout.tcp_flags & SYN == 0 && data > 0 {
                    self.largest = self.largest.max(data);
                    self.at(ns + self.round_trip / 2, Event::Data(word(4) + data));
                }
                continue;
            }
            assert!(checksum_is_right(&packet), "what comes in has its checksum");
            let window = window_of(&packet) << if layout.tcp_flags & SYN == 0 { self.shift } else { 0 };
            let ack = word(8);
            self.congestion += ack - self.acked;
            self.acked = ack;
            self.right_edge = self.right_edge.max(ack + window);
        }
        self.send(ns);
        self.machine.tick(Instant(ns));
        if let Some(at) = self.machine.next_wakeup().filter(|at| self.armed.is_none_or(|armed| at.0 < armed))
        {
            assert!(at.0 > ns, "nothing is left to be done now");
            self.armed = Some(at.0);
            self.at(at.0, Event::Wake);
        }
    }

    /// Whole segments, as many in one as fit.
    fn send(&mut self, ns: u64) {
        let allowed = self.right_edge.min(self.acked + self.congestion).saturating_sub(self.next);
        let parts = self.shift > 3 && allowed > MSS;
        let len = if parts { allowed.min(44 * MSS) } else { (allowed / MSS).min(44) * MSS };
        if len > 0 {
            let seq = self.next;
            self.next += len;
            self.here(ns, ACK, seq, 1, len);
            self.flow(ns);
        }
    }

    /// Payload a second from one second to another.
    fn goodput(&mut self, from_s: u64, to_s: u64) -> f64 {
        self.here(0, SYN, 0, 0, 0);
        self.there(self.round_trip, SYN | ACK, 1);
        self.here(self.round_trip + 20_000, ACK, 1, 1, 0);
        self.right_edge = 1 + window_of(&self.queue.out[1].1);
        self.flow(self.round_trip + 20_000);
        let mut before = None;
        while let Some(Reverse((ns, _, event))) = self.events.pop() {
            if ns >= from_s * 1_000_000_000 {
                before.get_or_insert(self.acked);
            }
            if ns >= to_s * 1_000_000_000 {
                break;
            }
            self.machine.release(Instant(ns), &mut self.queue);
            match event {
                Event::Data(end) => self.at(ns + self.round_trip / 2, Event::Back(end)),
                Event::Back(end) => self.there(ns, ACK, end),
                Event::Wake => self.armed = None,
            }
            self.flow(ns);
        }
        f64::from(self.acked - before.unwrap()) * 8.0 / (to_s - from_s) as f64
    }
}

/// 2 Mbit/s at IP length; of every 1,500 bytes 1,460 are data, of IPv6 1,440 plus headers of 60.
#[test]
fn a_flow_in_large_segments_keeps_its_rate() {
    for (v6, share) in [(false, 1_460.0 / 1_500.0), (true, 1_460.0 / 1_520.0)] {
        let host = machine("[[abr]]\nmatch = { class = \"sent\" }\nrate = \"2 Mbit/s\"\n", 64);
        let mut transfer = Transfer::new(host, Duration::from_millis(80), v6);
        let goodput = transfer.goodput(5, 35);
        assert!((0.95..=1.01).contains(&(goodput / 2e6 / share)), "IPv6 {v6}: {goodput}");
        assert!(transfer.largest > MSS, "several segments in one");
        let flows: Vec<FlowState> = transfer.machine.flows().collect();
        assert_eq!(flows.len(), 1);
        let (from, to) = flows[0].ends.unwrap();
        assert_eq!((from.port(), to.port()), (40_000, 80));
        assert_eq!(transfer.machine.counters().missed, 0);
    }
}

/// A round trip of 5 ms has room for a twelfth of a segment: acknowledgments wait in the queue. A window of one segment
/// may come to more by its scale.
#[test]
fn a_flow_below_one_segment_a_round_trip_is_paced_by_verdicts_that_come_later() {
    let text = "[[abr]]\nmatch = { class = \"sent\" }\nrate = \"200 kbit/s\"\nfloor = \"pace\"\n";
    for shift in [3, 10] {
        let mut transfer = Transfer::new(machine(text, 64), Duration::from_millis(5), false);
        transfer.shift = shift;
        let goodput = transfer.goodput(5, 35);
        assert!((0.95..=1.03).contains(&(goodput / 2e5 / (1_460.0 / 1_500.0))), "scale {shift}: {goodput}");
        assert!(transfer.machine.abr_counters().held > 100);
        // Whoever ends lets everything go.
        transfer.machine.release_all(&mut transfer.queue);
        assert!(transfer.queue.inside.is_empty() && transfer.queue.kept.is_empty());
    }
}

#[test]
fn only_window_and_checksum_of_a_packet_change_and_the_checksum_is_right() {
    for (v6, partial, len) in [
        (false, true, 0),
        (false, false, 900),
        (false, true, 30_000),
        (true, true, 1_000),
        (true, false, 30_000),
    ] {
        // The window that this host offers limits what it receives.
        let mut host = machine("[[abr]]\nmatch = { class = \"received\" }\nrate = \"100 kbit/s\"\n", 64);
        let mut queue = Queue::default();
        let mut put = |ns, here: bool, flags, seq, ack, len| {
            let mut packet = segment(v6, here, flags, seq, ack, len).build_ip();
            if here && partial {
                leave_checksum_to_card(&mut packet);
            }
            let hook = if here { Hook::Output } else { Hook::Input };
            queue.put(&mut host, Instant(ns), hook, packet.clone(), here && partial);
            (packet, queue.out.last().unwrap().1.clone())
        };
        put(0, true, SYN, 0, 0, 0);
        put(100_000_000, false, SYN | ACK, 0, 1, 0);
        put(100_050_000, true, ACK, 1, 1, 0);
        put(200_000_000, false, ACK, 1, 1, 1_460);
        let (before, after) = put(200_050_000, true, ACK, 1, 1_461, len);
        assert!(window_of(&after) < window_of(&before), "{v6} {partial} {len}");
        assert!(checksum_is_right(&after), "{v6} {partial} {len}");
        let l4 = usize::from(dissect_packet(&before).unwrap().l4_offset);
        let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
        assert!(changed.iter().all(|at| (l4 + 14..l4 + 18).contains(at)), "{changed:?}");
    }
}

#[test]
fn what_is_not_understood_passes_and_what_passed_unseen_is_counted() {
    let mut host = machine("[[abr]]\nrate = \"1 Mbit/s\"\n", 4);
    let mut queue = Queue::default();
    let now = Instant(1_000_000);
    let udp = build::udp4([10, 0, 0, 1], [10, 0, 0, 2]).ports(1, 2).payload_len(9).build_ip();
    for packet in [udp, vec![], vec![0x45; 10], vec![0xff; 60]] {
        queue.put(&mut host, now, Hook::Output, packet.clone(), false);
        assert_eq!(queue.out.last().unwrap().1, packet);
    }
    let queued = Queued {
        id: 9,
        hook: Hook::Input,
        payload: 0..60,
        cut: true,
        checksum_missing: false,
        several: true,
    };
    let mut cut = segment(false, false, ACK, 1, 1, 20).build_ip();
    queue.inside.insert(9, cut.clone());
    host.packet(now, &queued, &mut cut, &mut queue);
    let counters = host.counters();
    assert_eq!((counters.packets, counters.unread, counters.large, counters.missed), (5, 5, 1, 4));
    assert_eq!(queue.replaced, 0);
}

/// Each direction of the link is divided by itself, and what a flow gets changes when another begins.
#[test]
fn flows_of_a_link_share_it() {
    let mut host = machine(
        "[host]\nrate = \"1 Mbit/s\"\n[[abr]]\nname = \"a\"\nmatch = { class = \"sent\", dst_ports = 80 }\nweight = 3\n\
         [[abr]]\nname = \"b\"\nmatch = { class = \"sent\" }\n",
        64,
    );
    let mut queue = Queue::default();
    let rates = |host: &HostAbr| [0, 1].map(|i| host.policy_counters(i).1.0);
    assert_eq!(rates(&host), [750_000, 250_000], "what each would get");
    for (ns, port) in [(0, 80), (1_000_000_000, 81)] {
        for (after, here, flags, seq, ack, len) in [
            (0, true, SYN, 0, 0, 0),
            (1, false, SYN | ACK, 0, 1, 0),
            (2, true, ACK, 1, 1, 1_000),
            (3, false, ACK, 1, 1_001, 0),
            (4, true, ACK, 1_001, 1, 1_000),
        ] {
            let ports = if here { (40_000, port) } else { (port, 40_000) };
            let packet = segment(false, here, flags, seq, ack, len).ports(ports.0, ports.1).build_ip();
            let hook = if here { Hook::Output } else { Hook::Input };
            queue.put(&mut host, Instant(ns + after * 10_000_000), hook, packet, false);
        }
        host.tick(Instant(ns + 50_000_000));
        let expected = if port == 80 { [1_000_000, 250_000] } else { [750_000, 250_000] };
        assert_eq!(rates(&host), expected, "port {port}");
    }
}
