use super::*;
use crate::settings::{Floor, LimitedBy, Match, Policy};
use perhop_element::testkit::{Bench, args};
use perhop_packet::ClassId;
use perhop_units::Rate;
use perhop_wire::tcp::flags::{ACK, FIN, RST, SYN};
use perhop_wire::{build, dissect, tcp_options};

/// A policy as the specification reads it, of `rate_bps` for everything.
fn policy(rate_bps: u64) -> Policy {
    Policy {
        id: AbrPolicyId(0),
        matches: Match::default(),
        rate: Rate(rate_bps),
        peak: Rate(0),
        floor: Floor::Clamp,
        latency: crate::Latency::default(),
        allow_shrink: false,
        span: Duration::ZERO,
        limit_syn_ack: false,
        assume_shift: None,
        local: false,
        overhead: 0,
        idle: Duration::from_secs(5),
    }
}

fn settings(policies: Vec<Policy>) -> Arc<Settings> {
    Arc::new(Settings { policies })
}

/// Two ends with the element between them: `client` is 10.0.0.1, `server` 10.0.0.2.
struct Wire {
    bench: Bench,
    class: ClassId,
    number: u32,
    port: u16,
}

const CLIENT: bool = true;
const SERVER: bool = false;

impl Wire {
    fn new(policies: Vec<Policy>) -> Self {
        Self {
            bench: Bench::new(Abr::new(16, settings(policies)), 1),
            class: ClassId(0),
            number: 3,
            port: 40_000,
        }
    }

    fn abr(&mut self) -> &mut Abr {
        self.bench.element()
    }

    fn counter(&mut self, name: &str) -> u64 {
        let mut all: Vec<(String, u64)> = vec![];
        self.abr().counters(&mut all);
        all.into_iter().find(|(n, _)| n == name).expect("a counter of the module documentation").1
    }

    fn frame(&self, from: bool, change: impl FnOnce(build::FrameBuilder) -> build::FrameBuilder) -> Vec<u8> {
        let (src, dst) = if from { ([10, 0, 0, 1], [10, 0, 0, 2]) } else { ([10, 0, 0, 2], [10, 0, 0, 1]) };
        let ports = if from { (self.port, 80) } else { (80, self.port) };
        change(build::tcp4(src, dst).ports(ports.0, ports.1)).build()
    }

    fn push(&mut self, from: bool, frame: &[u8]) {
        let mut packet = self.bench.packet(frame);
        let meta = packet.meta_mut();
        meta.connection = self.number;
        meta.direction = if from { Direction::Forward } else { Direction::Reverse };
        meta.class = self.class;
        self.bench.push_packet(0, packet);
    }

    /// Sends a segment; the window that comes out, and nothing else may have changed.
    fn send(&mut self, from: bool, change: impl FnOnce(build::FrameBuilder) -> build::FrameBuilder) -> u16 {
        let frame = self.frame(from, change);
        self.push(from, &frame);
        let out = self.bench.arrived(0).pop().expect("passes").1;
        let layout = dissect(&out).unwrap();
        let at = usize::from(layout.l4_offset);
        let window = u16::from_be_bytes([out[at + 14], out[at + 15]]);
        let mut same = frame.clone();
        perhop_wire::layout::set_tcp_window(&mut same, &dissect(&frame).unwrap(), window);
        assert_eq!(out, same);
        window
    }

    fn later(&mut self, ms: u64) {
        self.bench.run_for(Duration::from_millis(ms));
    }

    fn options(shift: u8) -> tcp_options::Repr {
        tcp_options::Repr { mss: Some(1460), window_scale: Some(shift), ..tcp_options::Repr::default() }
    }

    /// Opens with 100 ms to the server and back and 20 ms to the client and back; numbers 1000 and 5000 follow.
    fn open(&mut self) {
        self.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Self::options(7)));
        self.later(100);
        self.send(SERVER, |f| f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = Self::options(2)));
        self.later(20);
        self.send(CLIENT, |f| f.seq_ack(1000, 5000).window(500));
    }

    fn flow(&mut self, reverse: bool) -> FlowState {
        let slots = self.abr().slots();
        self.abr().flows(0..slots).find(|f| f.reverse == reverse).expect("a flow")
    }
}

#[test]
fn without_policies_everything_passes_untouched() {
    let mut wire = Wire::new(vec![]);
    wire.open();
    assert_eq!(wire.send(SERVER, |f| f.seq_ack(5000, 1000).window(60_000)), 60_000);
    assert_eq!((wire.counter("segments"), wire.counter("connections")), (0, 0));
    assert_eq!(wire.bench.driver.next_wakeup(), None);
}

/// Without time-stamps a handshake is all there is of the side towards a sender.
#[test]
fn a_handshake_that_passed_twice_is_believed_to_be_no_longer_than_since_its_first_copy() {
    for (twice, latency_us) in [(CLIENT, (20_000, 100_000)), (SERVER, (320_000, 100_000))] {
        let mut wire = Wire::new(vec![policy(1_000_000)]);
        let open =
            |f: build::FrameBuilder| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7));
        let answer = |f: build::FrameBuilder| {
            f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = Wire::options(2))
        };
        wire.send(CLIENT, open);
        if twice == CLIENT {
            wire.later(300);
            wire.send(CLIENT, open);
        }
        wire.later(100);
        wire.send(SERVER, answer);
        if twice == SERVER {
            wire.later(300);
            wire.send(SERVER, answer);
        }
        wire.later(20);
        wire.send(CLIENT, |f| f.seq_ack(1000, 5000).window(500));
        if twice == CLIENT {
            assert_eq!(wire.flow(false).latency_us, (20_000, 400_000));
        }
        let mut seq = 1000u32;
        let mut window = 0;
        // A path that seemed longer is measured with data.
        for _ in 0..40 {
            wire.send(CLIENT, |f| f.seq_ack(seq, 5000).payload_len(1460));
            wire.later(100);
            seq += 1460;
            window = u32::from(wire.send(SERVER, |f| f.seq_ack(5000, seq).window(60_000))) << 2;
            wire.later(20);
        }
        let (left, right) = wire.flow(false).latency_us;
        assert_eq!((left, right.next_multiple_of(1000)), latency_us);
        let wanted = (left + right) / 8 * 1460 / 1500;
        assert!(window.abs_diff(wanted) <= 1460, "{window} for {wanted}");
    }
}

/// A first time-out and the path after it are borne with; windows that are for more would hold nothing.
#[test]
fn a_handshake_that_was_answered_after_the_second_time_out_tells_no_latency() {
    for (waited_ms, left_us) in [(1_000, 1_020_000), (1_480, 1_500_000), (1_481, 0), (3_000, 0), (7_000, 0)] {
        let mut wire = Wire::new(vec![policy(1_000_000)]);
        wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7)));
        wire.later(100);
        for wait_ms in [0, waited_ms] {
            wire.later(wait_ms);
            wire.send(SERVER, |f| {
                f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = Wire::options(2))
            });
        }
        wire.later(20);
        wire.send(CLIENT, |f| f.seq_ack(1000, 5000).window(500));
        assert_eq!(wire.flow(false).latency_us, (left_us, 100_000));
        wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1460));
        wire.later(100);
        let bypassed = wire.counter("bypassed_no_latency");
        let window = wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(60_000));
        assert_eq!(window == 60_000, left_us == 0, "{waited_ms}: {window}");
        if left_us != 0 {
            // What the documentation tells users: 120 ms of 1 Mbit/s are 14,600 octets of data.
            let times = f64::from(u32::from(window) << 2) / 14_600.0;
            println!("a SYN/ACK again after {waited_ms} ms, 120 ms: a window for {times:.1} times the rate");
            assert!((f64::from(left_us + 100_000) / 120_000.0 - times).abs() < 0.1, "{times}");
        }
        assert_eq!(wire.counter("bypassed_no_latency") - bypassed, u64::from(left_us == 0), "{waited_ms}");
    }
}

/// A receiver echoes the clock of the oldest segment that it acknowledges (RFC 7323 §4.3), here of the one that passed twice.
#[test]
fn an_echo_is_no_longer_than_since_the_first_copy_of_what_is_acknowledged() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    let clock =
        |value: u32| move |f: build::FrameBuilder| f.tcp(|t| t.options.timestamps = Some((value, value)));
    wire.send(CLIENT, |f| clock(1)(f.seq_ack(1000, 5000).payload_len(1000)));
    wire.later(300);
    wire.send(CLIENT, |f| clock(2)(f.seq_ack(1000, 5000).payload_len(1000)));
    wire.later(50);
    wire.send(CLIENT, |f| clock(3)(f.seq_ack(2000, 5000).payload_len(1000)));
    wire.later(100);
    wire.send(SERVER, |f| clock(2)(f.seq_ack(5000, 3000).window(60_000)));
    assert_eq!(wire.flow(false).latency_us, (20_000, 100_000), "150 ms since the second copy");
    assert_eq!(wire.counter("samples"), 3);
}

/// The sender's clock ticks every 10 ms, the path takes 9 ms, and what was not lost is sent again after 8.9 ms.
#[test]
fn an_echo_of_two_copies_with_the_same_value_tells_nothing() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    let clock =
        |value: u32| move |f: build::FrameBuilder| f.tcp(|t| t.options.timestamps = Some((value, value)));
    wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7)));
    wire.later(9);
    wire.send(SERVER, |f| f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = Wire::options(2)));
    wire.later(20);
    wire.send(CLIENT, |f| f.seq_ack(1000, 5000).window(500));
    for until_next_us in [8_900, 100] {
        wire.send(CLIENT, |f| clock(1)(f.seq_ack(1000, 5000).payload_len(1000)));
        wire.bench.run_for(Duration::from_micros(until_next_us));
    }
    wire.send(SERVER, |f| clock(1)(f.seq_ack(5000, 2000).window(60_000)));
    assert_eq!(wire.flow(false).latency_us, (20_000, 9_000));
}

#[test]
fn a_clock_value_of_a_segment_that_its_receiver_does_not_look_at_counts_for_nothing() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    let clock = |value: u32, echo: u32| {
        move |f: build::FrameBuilder| f.tcp(|t| t.options.timestamps = Some((value, echo)))
    };
    wire.send(CLIENT, |f| clock(1, 1)(f.seq_ack(1000, 5000).payload_len(1000)));
    wire.send(SERVER, |f| clock(1 << 30, 1)(f.seq_ack(1_500_000_000, 1000).window(60_000)));
    wire.later(100);
    wire.send(SERVER, |f| clock(2, 1)(f.seq_ack(5000, 2000).window(60_000)));
    wire.later(15);
    wire.send(CLIENT, |f| clock(3, 2)(f.seq_ack(2000, 5000).payload_len(1000)));
    assert_eq!(wire.flow(false).latency_us, (17_000, 100_000), "20 ms, less 0.6 of what it is shorter");
}

#[test]
fn an_upload_is_held_at_its_rate_from_the_first_acknowledgment_on() {
    // 1 Mbit/s, 120 ms, 1460 of 1500: 14,600 octets, ten segments; with a thousandth, because the ratio is rounded down to
    // 16 bits.
    let matches = Match { dst_ports: Some(80..=80), ..Match::default() };
    let mut wire = Wire::new(vec![Policy { matches, ..policy(1_001_000) }]);
    wire.open();
    let mut seq = 1000u32;
    let mut windows = vec![];
    for _ in 0..20 {
        wire.send(CLIENT, |f| f.seq_ack(seq, 5000).payload_len(1460));
        wire.later(100);
        seq += 1460;
        windows.push(u32::from(wire.send(SERVER, |f| f.seq_ack(5000, seq).window(60_000))) << 2);
        wire.later(20);
    }
    // What was offered before and used was one segment only, so nothing stands in the way.
    assert!(windows.iter().all(|w| *w == 14_600), "{windows:?}");
    let flow = wire.flow(false);
    assert_eq!((flow.connection, flow.latency_us, flow.mss), (3, (20_000, 100_000), 1460));
    assert_eq!((flow.rate_bps, flow.policy, flow.live), (1_001_000, AbrPolicyId(0), true));
    assert_eq!((flow.rewritten, flow.retransmissions), (20, 0));
    assert_eq!(flow.limited_by, LimitedBy::Congestion, "one segment at a time uses nothing up");
    let counters = wire.abr().policy_counters(AbrPolicyId(0));
    assert_eq!((counters.flows, counters.packets, counters.bytes), (1, 20, 20 * 1500));
    assert_eq!(counters.rewritten, 20);
}

#[test]
fn repeated_acknowledgments_repeat_the_window_and_updates_stay_below_it() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    for i in 0..8u32 {
        wire.send(CLIENT, |f| f.seq_ack(1000 + i * 1460, 5000).payload_len(1460));
    }
    wire.later(100);
    let first = wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(60_000));
    for _ in 0..3 {
        assert_eq!(wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(60_000)), first);
    }
    assert_eq!(wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(0)), 0);
    assert_eq!(wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(100)), 100);
    assert_eq!(wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(60_000)), first);
}

#[test]
fn live_flows_share_the_rate_and_the_silent_leave() {
    let mut wire = Wire::new(vec![Policy { peak: Rate(700_000), ..policy(1_000_000) }]);
    for (number, port) in [(3, 40_000), (4, 40_001)] {
        (wire.number, wire.port) = (number, port);
        wire.open();
        wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1460));
    }
    assert_eq!(wire.abr().policy_counters(AbrPolicyId(0)).flows, 2);
    assert_eq!(wire.flow(false).rate_bps, 500_000);
    wire.later(4_000);
    wire.send(CLIENT, |f| f.seq_ack(2460, 5000).payload_len(1460));
    wire.later(1_500);
    let counters = wire.abr().policy_counters(AbrPolicyId(0));
    assert_eq!((counters.flows, counters.share_bps), (1, 700_000), "the other one has left; the peak holds");
    // A new rate counts at once, and takes no packet.
    let old = wire.abr().commit(AbrChange { settings: Some(settings(vec![policy(300_000)])) });
    assert_eq!(old.settings.unwrap().policies[0].rate, Rate(1_000_000));
    assert_eq!(wire.abr().policy_counters(AbrPolicyId(0)).share_bps, 300_000);
    wire.later(20_000);
    assert_eq!(wire.abr().policy_counters(AbrPolicyId(0)).flows, 0);
}

#[test]
fn policies_are_chosen_by_what_carries_the_data() {
    let video = Policy {
        id: AbrPolicyId(5),
        matches: Match { class: Some(ClassId(9)), dst_ports: Some(80..=80), ..Match::default() },
        ..policy(0)
    };
    let dst = Some("10.0.0.2/31".parse().unwrap());
    let upload = Policy { id: AbrPolicyId(2), matches: Match { dst, ..Match::default() }, ..policy(64_000) };
    let mut wire = Wire::new(vec![video, upload]);
    wire.open();
    wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1460));
    assert_eq!(wire.flow(false).policy, AbrPolicyId(2));
    wire.later(100);
    assert!(wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(60_000)) < 60_000);
    // The flow goes to another class, where it is only watched.
    wire.class = ClassId(9);
    wire.send(CLIENT, |f| f.seq_ack(2460, 5000).payload_len(1460));
    let flow = wire.flow(false);
    assert_eq!((flow.policy, flow.rate_bps, flow.live), (AbrPolicyId(5), 0, true));
    assert_eq!(wire.send(SERVER, |f| f.seq_ack(5000, 3920).window(60_000)), 60_000);
    assert_eq!(wire.abr().policy_counters(AbrPolicyId(2)).flows, 0);
    assert_eq!(wire.abr().policy_counters(AbrPolicyId(5)).flows, 1);
    // Data of the other direction is for no policy: the prefix is the client's.
    wire.send(SERVER, |f| f.seq_ack(5000, 3920).payload_len(1460));
    assert!(wire.send(CLIENT, |f| f.seq_ack(3920, 6460).window(500)) == 500);
    assert!(wire.counter("bypassed_not_matched") > 0);
}

#[test]
fn what_cannot_be_limited_is_left_alone_and_counted() {
    let upload = |wire: &mut Wire| {
        wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1460));
        wire.later(100);
        wire.send(SERVER, |f| f.seq_ack(5000, 2460).window(60_000))
    };
    // In mid-life.
    let mut wire = Wire::new(vec![policy(64_000)]);
    assert_eq!(upload(&mut wire), 60_000);
    assert_eq!((wire.counter("bypassed_unknown_shift"), wire.counter("created")), (1, 1));
    let mut wire = Wire::new(vec![Policy { assume_shift: Some(3), ..policy(64_000) }]);
    assert_eq!(upload(&mut wire), 60_000);
    assert_eq!(wire.counter("bypassed_no_latency"), 1, "nothing is known of the sender's side");
    let mut wire = Wire::new(vec![Policy { assume_shift: Some(3), local: true, ..policy(64_000) }]);
    assert!(upload(&mut wire) < 1000);
    // Signed and multipath.
    for (kind, len, counter) in
        [(19, 18, "bypassed_md5"), (29, 16, "bypassed_ao"), (30, 12, "bypassed_mptcp")]
    {
        let mut wire = Wire::new(vec![policy(64_000)]);
        wire.open();
        // Four no-operations are replaced by the head of the option; the rest is data of the segment to the builder.
        let mut frame = wire.frame(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1460));
        frame[14 + 20 + 12] = 0xa0;
        (frame[14 + 40], frame[14 + 41]) = (kind, len);
        wire.push(CLIENT, &frame);
        wire.later(100);
        assert_eq!(wire.send(SERVER, |f| f.seq_ack(5000, 2440).window(60_000)), 60_000, "{counter}");
        assert_eq!(wire.counter(counter), 2, "{counter}");
    }
}

#[test]
fn a_syn_ack_is_limited_by_the_side_that_is_known_if_the_policy_says_so() {
    for (limit_syn_ack, window) in [(false, 65_535), (true, 11_680)] {
        let mut wire = Wire::new(vec![Policy { limit_syn_ack, ..policy(1_000_000) }]);
        assert_eq!(wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0)), 65_535);
        wire.later(100);
        // Without an option the segment is 536 octets: 12,500 × 536/576 make 21 of them.
        let mss = |f: build::FrameBuilder| f.flags(SYN | ACK).seq_ack(4999, 1000);
        let got = wire.send(SERVER, mss);
        assert_eq!(got, if limit_syn_ack { 21 * 536 } else { window });
    }
}

#[test]
fn connections_end_and_begin_again() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1000));
    // A RST that nobody would believe changes nothing; one in place does.
    wire.send(CLIENT, |f| f.flags(RST).seq_ack(900_000, 0));
    assert_eq!((wire.counter("connections"), wire.counter("ended")), (1, 0));
    wire.send(CLIENT, |f| f.flags(RST).seq_ack(2000, 0));
    assert_eq!((wire.counter("connections"), wire.counter("ended")), (0, 1));
    assert_eq!(wire.abr().policy_counters(AbrPolicyId(0)).flows, 0);
    // Again, and now in good order; the last acknowledgment may come twice.
    wire.open();
    wire.send(CLIENT, |f| f.flags(FIN | ACK).seq_ack(1000, 5000).payload_len(10));
    wire.send(SERVER, |f| f.seq_ack(5000, 1011));
    wire.later(2_000);
    wire.send(SERVER, |f| f.flags(FIN | ACK).seq_ack(5000, 1011));
    wire.send(CLIENT, |f| f.seq_ack(1011, 5001));
    wire.later(9_000);
    assert_eq!(wire.counter("connections"), 1);
    wire.later(2_000);
    assert_eq!(wire.counter("connections"), 0);
    // The same ends with other numbers before the old ones are forgotten.
    wire.open();
    wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1000));
    wire.later(1_000);
    wire.send(CLIENT, |f| f.flags(SYN).seq_ack(77, 0).tcp(|t| t.options = Wire::options(1)));
    assert_eq!((wire.counter("connections"), wire.counter("ended")), (1, 3));
    assert_eq!(wire.flow(false).latency_us, (0, 0));
    wire.later(301_000);
    assert_eq!(wire.counter("connections"), 0);
    assert_eq!(wire.bench.driver.next_wakeup(), None, "nothing is left to do");
}

#[test]
fn routed_between_vlans_both_numbers_are_one_connection() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7)));
    wire.later(100);
    wire.number = 8;
    // The router's table calls each direction its own forward.
    let answer = wire.frame(SERVER, |f| {
        f.flags(SYN | ACK).seq_ack(4999, 1000).vlan(7, 0).tcp(|t| t.options = Wire::options(2))
    });
    wire.push(CLIENT, &answer);
    assert_eq!(wire.counter("connections"), 1);
    wire.number = 3;
    wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(100));
    assert_eq!(wire.flow(false).latency_us, (0, 100_000));
    // The same direction under another number is another connection: it passes here twice.
    wire.number = 9;
    wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(100));
    assert_eq!((wire.counter("connections"), wire.counter("retransmissions")), (2, 0));
}

#[test]
fn a_full_table_gives_way_to_what_is_worth_more() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    for i in 0..16u16 {
        (wire.number, wire.port) = (u32::from(i), 1000 + i);
        wire.open();
    }
    (wire.number, wire.port) = (99, 99);
    wire.open();
    assert_eq!(
        (wire.counter("table_full"), wire.counter("evicted"), wire.counter("connections")),
        (3, 0, 16)
    );
    wire.later(11_000);
    wire.open();
    assert_eq!((wire.counter("evicted"), wire.counter("connections")), (1, 16));
    assert!(wire.abr().flows(0..99).any(|f| f.connection == 99));
}

#[test]
fn state_moves_to_a_successor() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    wire.send(CLIENT, |f| f.seq_ack(1000, 5000).payload_len(1460));
    let state = wire.abr().export_state().expect("it has some");
    let mut successor = Abr::new(16, settings(vec![policy(500_000)]));
    assert!(successor.import_state(Box::new(7)).is_err());
    assert!(successor.import_state(state).is_ok());
    let flow = successor.flows(0..16).find(|f| f.live).expect("the upload");
    assert_eq!((flow.rate_bps, flow.latency_us), (500_000, (20_000, 100_000)));
    assert_eq!(wire.abr().slots(), 0);
    // A successor of a graph whose policies have not come yet goes on with the old ones.
    let state = successor.export_state().expect("it has some");
    let mut built = Abr::new(16, Arc::default());
    assert!(built.import_state(state).is_ok());
    assert_eq!((built.settings().policies.len(), built.flows(0..16).filter(|f| f.live).count()), (1, 1));
}

#[test]
fn all_errors_of_the_arguments_at_once_and_samples_build() {
    let bad = args("connections = 3, held = x, rate = 1");
    assert_eq!(build(&bad, &mut BuildCx::default()).err().map(|e| e.len()), Some(3));
    use rand::SeedableRng;
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    for _ in 0..10 {
        let text = (types()[0].sample)(&mut rng);
        assert!(build(&args(&text), &mut BuildCx::default()).is_ok(), "{text}");
    }
}

#[path = "hostile_tests.rs"]
mod hostile;
