use super::*;
use crate::plumbing::UdpFrame;
use crate::queue::fifo::laws::{calls, check};
use perhop_element::Discipline;
use perhop_element::testkit::{Bench, args};
use perhop_packet::{Batch, DropReason};
use perhop_units::{Bytes, QueueLimit};
use proptest::prelude::*;
use std::collections::VecDeque;

/// The pseudo-code of RFC 8289 §5, which takes packets out before it judges them; a packet is its time of arrival and
/// its bytes.
struct Rfc {
    config: CoDelConfig,
    queue: VecDeque<(u64, u64)>,
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    lastcount: u64,
    dropping: bool,
    dropped: Vec<u64>,
}

impl Rfc {
    fn new(config: CoDelConfig) -> Self {
        let (queue, dropped) = (VecDeque::new(), Vec::new());
        Self {
            config,
            queue,
            first_above_time: 0,
            drop_next: 0,
            count: 0,
            lastcount: 0,
            dropping: false,
            dropped,
        }
    }

    fn dodequeue(&mut self, now: u64) -> (Option<(u64, u64)>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        let sojourn = now - packet.0;
        let bytes: u64 = self.queue.iter().map(|p| p.1).sum();
        if sojourn < self.config.target.as_nanos() || bytes <= self.config.mtu.0 {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + self.config.interval.as_nanos();
        } else if now >= self.first_above_time {
            return (Some(packet), true);
        }
        (Some(packet), false)
    }

    fn control_law(&self, t: u64, count: u64) -> u64 {
        t + control_law(self.config.interval, count as u32).as_nanos()
    }

    fn deque(&mut self, now: u64) -> Option<(u64, u64)> {
        let (mut packet, mut ok) = self.dodequeue(now);
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.dropped.extend(packet.map(|p| p.0));
                self.count += 1;
                (packet, ok) = self.dodequeue(now);
                if ok {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            self.dropped.extend(packet.map(|p| p.0));
            (packet, _) = self.dodequeue(now);
            self.dropping = true;
            let delta = self.count.saturating_sub(self.lastcount);
            self.count = 1;
            if delta > 1 && now.saturating_sub(self.drop_next) < 16 * self.config.interval.as_nanos() {
                self.count = delta;
            }
            self.drop_next = self.control_law(now, self.count);
            self.lastcount = self.count;
        }
        packet
    }
}

/// The law beside the same queue.
struct Ours {
    state: CoDelState,
    queue: VecDeque<(u64, u64)>,
    dropped: Vec<u64>,
}

impl Ours {
    fn deque(&mut self, now: u64) -> Option<(u64, u64)> {
        loop {
            let Some(packet) = self.queue.pop_front() else {
                self.state.emptied();
                return None;
            };
            let left = Bytes(self.queue.iter().map(|p| p.1).sum());
            match self.state.judge(Instant(now), Duration(now - packet.0), left) {
                HeadVerdict::Send => return Some(packet),
                HeadVerdict::Excess => self.dropped.push(packet.0),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Random loads around the rate, with pauses: the same packets go and the same are dropped.
    #[test]
    fn agrees_with_the_pseudo_code(
        target_us in 1_000u64..20_000,
        factor in 2u64..30,
        steps in prop::collection::vec((0u64..4, 1u64..1500, 0u64..3_000_000, 1usize..40), 1..120),
    ) {
        let target = Duration::from_micros(target_us);
        let config =
            CoDelConfig { target, interval: Duration(target.0 * factor), mtu: Bytes(1514), ecn: false };
        let mut rfc = Rfc::new(config);
        let mut ours =
            Ours { state: CoDelState::new(config), queue: VecDeque::new(), dropped: Vec::new() };
        let mut now = 1;
        for (arrivals, bytes, pause, turns) in steps {
            for _ in 0..turns {
                for _ in 0..arrivals {
                    rfc.queue.push_back((now, bytes));
                    ours.queue.push_back((now, bytes));
                    now += 1;
                }
                now += pause;
                prop_assert_eq!(ours.deque(now), rfc.deque(now));
            }
        }
        prop_assert_eq!(&ours.dropped, &rfc.dropped);
        prop_assert_eq!(ours.queue, rfc.queue);
    }

    #[test]
    fn codel_reports_what_it_does(calls in calls(), target_us in 1u64..5_000, ecn: bool) {
        let queue = FifoConfig { limit: QueueLimit::Bytes(Bytes(20_000)), rate: Rate::ZERO, overhead: 4 };
        let target = Duration::from_micros(target_us);
        let config = CoDelConfig { target, interval: Duration(2 * target.0), mtu: Bytes(500), ecn };
        check(CoDel::new(config, queue), &calls);
    }
}

/// A shaper of 1000 bytes a ms.
fn shaper(settings: &str) -> Bench {
    let text = args(&format!("8 Mbit/s, discipline = codel, {settings}"));
    let build = crate::shape::types().into_iter().find(|t| t.name == "Shaper").expect("registered").build;
    let element = build(&text, &mut perhop_element::BuildCx::default()).expect("good settings");
    Bench::with_seed(element, 1, 1)
}

/// `per_ms` packets of 1000 bytes a ms for a second.
fn load(bench: &mut Bench, per_ms: usize, ecn: u8) {
    let frame = UdpFrame { ip_len: 986, ecn, ..Default::default() }.to_vec();
    for _ in 0..1000 {
        for _ in 0..per_ms {
            bench.push(&frame);
        }
        bench.run_for(Duration::from_millis(1));
    }
}

fn dropped(bench: &Bench, reason: DropReason) -> u64 {
    bench.driver.counters(bench.node).expect("it is there").drops[reason.index()]
}

#[test]
fn the_gap_is_an_interval_over_the_square_root() {
    let interval = Duration::from_millis(100);
    assert_eq!(control_law(interval, 1), interval);
    assert_eq!(control_law(interval, 0), interval);
    for count in (2..100_000).step_by(37).chain([u32::MAX]) {
        let exact = 1e8 / f64::from(count).sqrt();
        let ours = control_law(interval, count).as_nanos() as f64;
        assert!((ours - exact).abs() <= 1.0 + exact * 1.2e-5, "{count}: {ours} {exact}");
    }
}

#[test]
fn a_queue_that_empties_loses_nothing_and_one_that_stands_does() {
    // 20 packets at once are gone after 20 ms, before an interval is over.
    let mut bench = shaper("limit = 1000 packets");
    let frame = UdpFrame { ip_len: 986, ..Default::default() }.to_vec();
    for _ in 0..10 {
        for _ in 0..20 {
            bench.push(&frame);
        }
        bench.run_for(Duration::from_millis(60));
    }
    assert_eq!((dropped(&bench, DropReason::CoDel), bench.arrived(0).len()), (0, 200));

    // Twice the rate for a second: drops begin, ever closer; the bound is not reached.
    let mut bench = shaper("limit = 1000 packets");
    load(&mut bench, 2, 0);
    let first = dropped(&bench, DropReason::CoDel);
    assert!(first > 10, "{first}");
    load(&mut bench, 2, 0);
    assert!(dropped(&bench, DropReason::CoDel) > 3 * first, "the gaps become shorter");
}

#[test]
fn capable_packets_are_marked_and_none_of_them_is_lost() {
    let mut bench = shaper("limit = 3000 packets");
    load(&mut bench, 2, 2);
    assert_eq!(dropped(&bench, DropReason::CoDel), 0);
    let marks = bench.sink(0).arrived.iter().filter(|(_, p)| p.meta().layout.tos & 3 == 3).count();
    assert!(marks > 10, "{marks}");
    // Asked not to, it drops them.
    let mut bench = shaper("limit = 3000 packets, ecn = no");
    load(&mut bench, 2, 2);
    assert!(dropped(&bench, DropReason::CoDel) > 10);
}

#[test]
fn what_a_successor_takes_over_is_no_change() {
    let queue = FifoConfig { limit: QueueLimit::Packets(9), rate: Rate::ZERO, overhead: 0 };
    let new = || CoDel::new(CoDelConfig::default(), queue);
    let pool = perhop_packet::Pool::new(3);
    let (mut old, mut successor) = (new(), new());
    for _ in 0..3 {
        old.queue.offer(pool.packet(&[0; 60]).unwrap()).unwrap();
    }
    assert!(successor.import_state(old.export_state().unwrap()).is_ok());
    let told = successor.tell();
    assert_eq!((successor.held(), told.packets, told.bytes, told.became_active), (3, 0, 0, false));
    let mut out = Batch::new();
    successor.drain(&mut out);
    out.release_all();
}
