//! Flows that go from one element to another and back are what they would be in one.

use super::*;
use crate::admission::AdmissionSettings;
use crate::buckets::{BUCKETS, BucketMap};
use crate::element::Departure;
use perhop_units::Rate;

/// Two elements that share their flows by buckets, and one that has all of them.
struct Pair {
    map: Arc<BucketMap>,
    two: [Bench; 2],
    alone: Bench,
}

fn config() -> FlowsConfig {
    let hour = Duration::from_secs(3600);
    let timeouts = Timeouts { udp: hour, tcp: hour, tcp_closing: hour, other: hour, single: hour };
    FlowsConfig {
        connections: 256,
        calls: 64,
        undecided: 64,
        fragments: 64,
        timeouts,
        ..FlowsConfig::default()
    }
}

impl Pair {
    fn new(list: &[Rule], settings: &Settings) -> Self {
        let one = || bench(config(), list.to_vec(), settings.clone());
        let (map, mut two, alone) = (Arc::new(BucketMap::new(2, 5)), [one(), one()], one());
        let shared = two[0].element::<Flows>().shared_admission(2);
        for (worker, bench) in two.iter_mut().enumerate() {
            bench.element::<Flows>().join_admission(&shared, worker);
            bench.element::<Flows>().join_buckets(map.clone(), worker);
        }
        Self { map, two, alone }
    }

    /// Gives a packet to who has its flow and to the one that has all; what each wrote.
    fn packet(&mut self, made: &Made, port: u16) -> [Meta; 2] {
        let frame = made.frame();
        let bucket = self.map.bucket(&frame, &perhop_wire::dissect(&frame).unwrap()).unwrap();
        let worker = self.map.worker(bucket);
        [push(&mut self.two[worker], made, port), push(&mut self.alone, made, port)]
    }

    fn all(&mut self) -> [&mut Bench; 3] {
        let [a, b] = &mut self.two;
        [a, b, &mut self.alone]
    }

    fn sleep(&mut self, time: Duration) {
        self.all().into_iter().for_each(|bench| bench.run_for(time));
    }

    fn commit(&mut self, change: &FlowsChange) {
        for bench in self.all() {
            let now = bench.now();
            bench.element::<Flows>().commit(now, change.clone());
        }
    }

    /// Moves those of `wanted` that `from` has and that may go to the other. A connection is made while they are looked for.
    fn relocate(
        &mut self,
        from: usize,
        wanted: impl Fn(usize) -> bool,
        meanwhile: Option<(&Made, u16)>,
    ) -> Option<[Meta; 2]> {
        let now = self.two[0].now();
        let mut buckets: [bool; BUCKETS] = std::array::from_fn(|b| self.map.worker(b) == from && wanted(b));
        self.two[from].element::<Flows>().prepare_to_leave(buckets);
        let seen = meanwhile.map(|(made, port)| self.packet(made, port));
        while !self.two[from].element::<Flows>().look_for_leaving(7) {}
        for (bucket, goes) in buckets.iter_mut().enumerate() {
            *goes &= !self.two.iter_mut().any(|bench| bench.element::<Flows>().keeps(now, bucket));
        }
        let promised: u32 =
            (0..BUCKETS).filter(|b| buckets[*b]).map(|b| self.two[from].element::<Flows>().leaving(b)).sum();
        let mut departure = Departure::with_room(promised as usize);
        self.two[from].element::<Flows>().depart(&buckets, &mut departure);
        self.two[from].element::<Flows>().stay();
        assert!(departure.len() <= promised as usize, "no more goes than was promised");
        self.two[1 - from].element::<Flows>().arrive(now, &mut departure);
        (0..BUCKETS).filter(|b| buckets[*b]).for_each(|bucket| self.map.give(bucket, 1 - from));
        seen
    }

    /// Figures of both together, and of the one.
    fn figures(&mut self) -> [[u64; 9]; 2] {
        let of = |bench: &mut Bench| {
            let flows = bench.element::<Flows>();
            let c = *flows.flow_counters();
            let now = [flows.table.len(), flows.calls.len(), flows.undecided.len()].map(|n| n as u64);
            [c.created, c.classified, c.revalidated, c.detected, c.ended, c.moved, now[0], now[1], now[2]]
        };
        let [a, b, alone] = self.all().map(of);
        [std::array::from_fn(|i| a[i] + b[i]), alone]
    }

    /// What is known of each direction, whoever knows it, without its number.
    fn rows(&mut self) -> [Vec<String>; 2] {
        let of = |bench: &mut Bench| -> Vec<String> {
            let now = bench.now();
            let (rows, _) = bench.element::<Flows>().snapshot(now, 0, usize::MAX);
            let text = |row: crate::query::FlowInfo| {
                format!("{:?}", crate::query::FlowInfo { connection: 0, ..row })
            };
            rows.into_iter().map(text).collect()
        };
        let [mut a, b, mut alone] = self.all().map(of);
        a.extend(b);
        a.sort();
        alone.sort();
        [a, alone]
    }
}

#[derive(Clone, Debug)]
enum Event {
    Packet { flow: u8, back: bool, tos: u8 },
    Move { from: usize, salt: u8, flow: u8 },
    Rule(u8),
    Sleep(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => (0..14u8, any::<bool>(), 0..3u8).prop_map(|(flow, back, tos)| Event::Packet {
            flow, back: back && flow > 6, tos: tos * 16
        }),
        2 => (0..2usize, any::<u8>(), 0..14u8).prop_map(|(from, salt, flow)| Event::Move { from, salt, flow }),
        1 => (0..14u8).prop_map(Event::Rule),
        4 => (1..40u8).prop_map(Event::Sleep),
    ]
}

/// Flows from this on come in pieces.
const PIECES: u8 = 12;

/// The next packet of a flow: some are media, some are not UDP, some come in pieces.
fn made(flow: u8, back: bool, tos: u8, n: u16) -> Made {
    let piece = (PIECES..14).contains(&flow);
    let (src, dst) = (format!("10.0.0.{flow}"), format!("10.1.{flow}.2"));
    let payload = if flow < 7 { rtp(n) } else { vec![flow; 40] };
    let ports = (5004 + u16::from(flow) * 2, 5006);
    let made = match back {
        false => Made::udp(&src, &dst, ports, payload),
        true => Made::udp(&dst, &src, (ports.1, ports.0), payload),
    };
    Made { tcp: flow == 10 || flow == 11, tos, fragment: piece.then_some((0, true, n)), ..made }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn flows_that_move_are_what_they_would_be_in_one_place(
        events in proptest::collection::vec(event(), 50..400),
        cap in prop_oneof![Just(None), Just(Some(400_000u64))],
    ) {
        let admission = cap.map(|cap| AdmissionSettings {
            cap: Rate(cap),
            interval: Duration::from_millis(100),
            new_flow: Rate(80_000),
            idle: Duration::from_secs(60),
            ..AdmissionSettings::default()
        });
        let by_code_point = Match { dscp: Some(Masked { value: 4, mask: 63 }), ..Match::default() };
        let list = [rule(1, by_code_point, Some(ClassId(9)))];
        let mut pair = Pair::new(&list, &Settings { admission, ..settings(true) });
        let mut book = RuleBook::of(list.clone()).unwrap();
        let (mut sent, mut rules) = ([0u16; 14], 1);
        for event in events {
            let metas = match event {
                Event::Packet { flow, back, tos } => {
                    let n = &mut sent[usize::from(flow)];
                    *n += 1;
                    Some(pair.packet(&made(flow, back, tos, *n), u16::from(flow & 1)))
                }
                Event::Move { from, salt, flow } => {
                    let n = &mut sent[usize::from(flow)];
                    *n += 1;
                    let wanted = |bucket: usize| (bucket as u8).wrapping_mul(37) ^ salt > 60;
                    pair.relocate(from, wanted, Some((&made(flow, false, 0, *n), u16::from(flow & 1))))
                }
                Event::Rule(flow) => {
                    rules += 1;
                    let to = rule(rules, dst(&format!("10.1.{flow}.0/24")), Some(ClassId(rules)));
                    pair.commit(&FlowsChange::of_rules(book.change(vec![to], &[]).unwrap()));
                    None
                }
                Event::Sleep(ms) => {
                    pair.sleep(Duration::from_millis(ms.into()));
                    None
                }
            };
            if let Some([one, other]) = metas {
                let wrote = |m: &Meta| (m.filter, m.sla, m.profile, m.class, m.realtime, m.direction);
                prop_assert_eq!(wrote(&one), wrote(&other));
            }
        }
        let [two, alone] = pair.rows();
        prop_assert_eq!(two, alone);
        let [two, alone] = pair.figures();
        prop_assert_eq!(two, alone);
        let gone = pair.two.each_mut().map(|bench| *bench.element::<Flows>().flow_counters());
        let sum = |of: fn(&FlowsCounters) -> u64| gone.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|c| c.handed_over), sum(|c| c.taken_over));
    }
}

#[test]
fn what_has_come_falls_silent_in_time_and_what_has_gone_leaves_its_place() {
    let mut pair = Pair::new(&[], &settings(true));
    for flow in (0..60).filter(|flow| !(PIECES..14).contains(flow)) {
        pair.packet(&made(flow, false, 0, 1), 0);
    }
    let here = pair.two[1].element::<Flows>().table.len();
    let there = pair.two[0].element::<Flows>().table.len();
    assert!(here > 10 && there > 10, "{here} and {there}");
    pair.relocate(0, |_| true, None);
    assert_eq!(pair.two.each_mut().map(|b| b.element::<Flows>().table.len()), [0, 58]);
    // Places come free with their turn in the wheel, a round of it later at most.
    let room = |pair: &mut Pair| pair.two[0].element::<Flows>().room();
    assert_eq!(room(&mut pair), 256 - there);
    pair.relocate(1, |_| true, None);
    assert_eq!(pair.two.each_mut().map(|b| b.element::<Flows>().table.len()), [58, 0]);
    pair.sleep(Duration::from_secs(70));
    assert_eq!(room(&mut pair), 198);
    pair.sleep(Duration::from_secs(3800));
    assert_eq!(pair.two.each_mut().map(|b| b.element::<Flows>().table.len()), [0, 0]);
    assert_eq!(pair.figures()[0][0], 58);
}

#[test]
fn a_bucket_with_pieces_stays_until_their_connection_is_gone() {
    let mut pair = Pair::new(&[], &settings(true));
    pair.packet(&made(13, false, 0, 1), 0);
    pair.packet(&made(3, false, 0, 1), 0);
    let kept = |pair: &mut Pair| {
        let now = pair.two[0].now();
        (0..BUCKETS)
            .filter(|b| pair.two.iter_mut().any(|bench| bench.element::<Flows>().keeps(now, *b)))
            .count()
    };
    // That of the pieces and that of the whole datagrams.
    assert_eq!(kept(&mut pair), 2);
    pair.relocate(0, |_| true, None);
    pair.relocate(1, |_| true, None);
    let [two, alone] = [pair.packet(&made(13, false, 0, 2), 0), pair.packet(&made(3, false, 0, 2), 0)];
    assert_eq!((two[0].direction, alone[0].direction), (Direction::Forward, Direction::Forward));
    assert_eq!(pair.figures()[0][..2], [2, 2], "no connection was made again");
    pair.sleep(Duration::from_secs(3700));
    assert_eq!(kept(&mut pair), 0);
}
