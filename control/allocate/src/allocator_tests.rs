use super::*;
use crate::broker::{Broker, BrokerAsk, ClassId, EmulatedBroker, EmulatedBrokerConfig};
use crate::congestion::CongestionConfig;
use crate::logarithmic::LogarithmicConfig;
use crate::random::SplitMix64;
use crate::settings::{Law, Patience};
use crate::threshold::ThresholdConfig;
use perhop_units::{Duration, Probability};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 800 * MS;

fn settings() -> Settings {
    Settings { congestion: None, ..Settings::new(Rate::from_kbit(64), Rate::from_mbit(10)) }
}

fn outputs(allocator: &mut Allocator) -> Vec<Output> {
    std::iter::from_fn(|| allocator.poll_output()).collect()
}

fn allocator(settings: &Settings) -> Allocator {
    let mut allocator = Allocator::new(settings, Instant(0)).expect("the settings are stable");
    let first = outputs(&mut allocator);
    assert_eq!(first, [Output::Allocate(settings.initial)]);
    allocator
}

fn give(allocator: &mut Allocator, at: u64, input: Input) -> Vec<Output> {
    allocator.handle_input(Instant(at), input);
    outputs(allocator)
}

fn counted(bits: u64) -> Input {
    Input::Counted { bits, carried: None }
}

fn answer(id: u64, answer: Answer) -> Input {
    Input::Answer { id: AskId(id), answer }
}

#[test]
fn one_request_is_in_flight_and_a_grant_is_put_in_force() {
    let mut class = allocator(&Settings { initial: Rate::from_mbit(1), ..settings() });
    let asked = give(&mut class, S, counted(800_000));
    // ΔB = 600 kbit/s · ln(1 / 0.9), rounded up.
    let rate = Rate(1_063_217);
    assert_eq!(asked, [Output::Ask { id: AskId(0), rate, allocated: Rate::from_mbit(1) }]);
    assert_eq!(class.next_wakeup(), Some(Instant(2 * S)));
    assert_eq!(give(&mut class, 2 * S, counted(800_000)), []);
    assert!(class.in_flight.is_some());
    assert_eq!(give(&mut class, 2 * S, answer(0, Answer::Granted(rate))), [Output::Allocate(rate)]);
    // More than was asked for is not taken.
    let asked = give(&mut class, 3 * S, counted(900_000));
    let [Output::Ask { id, rate, .. }] = asked[..] else { panic!("{asked:?}") };
    assert_eq!(
        give(&mut class, 3 * S, answer(id.0, Answer::Granted(Rate(u64::MAX)))),
        [Output::Allocate(rate)]
    );
    let counters = class.counters();
    assert_eq!((counters.asked, counters.granted, counters.increases, counters.answered()), (2, 2, 2, 2));
}

#[test]
fn refusals_and_silence_pause_longer_each_time() {
    let patience = Patience {
        timeout: Duration(100 * MS),
        first_retry: Duration(2 * S),
        longest_retry: Duration(5 * S),
    };
    let mut class = allocator(&Settings { patience, ..settings() });
    let mut asked_at = vec![];
    for interval in 1..30 {
        let out = give(&mut class, interval * S, counted(51_200));
        if let [Output::Ask { id, .. }] = out[..] {
            asked_at.push(interval);
            if id.0 % 2 == 0 {
                give(&mut class, interval * S, answer(id.0, Answer::Refused));
            } else {
                assert_eq!(class.next_wakeup(), Some(Instant(interval * S + 100 * MS)));
                give(&mut class, interval * S + 100 * MS, Input::Tick);
            }
        }
    }
    // Pauses of 2, 4, 5, 5 … intervals; after a time-out they begin 100 ms late and end within the next interval.
    assert_eq!(asked_at, [1, 3, 8, 13, 19, 24]);
    let counters = class.counters();
    assert_eq!((counters.refused, counters.timed_out, class.allocated()), (3, 3, Rate::from_kbit(64)));
}

#[test]
fn a_late_grant_counts_unless_something_was_asked_since() {
    let patience = Patience { timeout: Duration(100 * MS), ..Patience::default() };
    let mut class = allocator(&Settings { patience, ..settings() });
    let [Output::Ask { rate, .. }] = give(&mut class, S, counted(51_200))[..] else { panic!("it asks") };
    assert_eq!(give(&mut class, S + 100 * MS, Input::Tick), []);
    assert_eq!(give(&mut class, S + 150 * MS, answer(0, Answer::Granted(rate))), [Output::Allocate(rate)]);
    assert_eq!(give(&mut class, S + 160 * MS, answer(0, Answer::Granted(rate))), []);
    let counters = class.counters();
    assert_eq!(
        (counters.timed_out, counters.late, counters.ignored_answers, counters.answered()),
        (1, 1, 1, 1)
    );
}

#[test]
fn a_grant_that_takes_away_is_a_refusal_and_part_of_it_is_taken() {
    let mut class = allocator(&Settings { initial: Rate::from_mbit(1), ..settings() });
    give(&mut class, S, counted(800_000));
    assert_eq!(give(&mut class, S, answer(0, Answer::Granted(Rate(900_000)))), []);
    assert_eq!(class.counters().refused, 1);
    let asked = give(&mut class, 2 * S, counted(800_000));
    assert!(matches!(asked[..], [Output::Ask { id: AskId(1), .. }]), "{asked:?}");
    let part = give(&mut class, 2 * S, answer(1, Answer::Granted(Rate(1_010_000))));
    assert_eq!(part, [Output::Allocate(Rate(1_010_000))]);
    assert_eq!(class.counters().partial, 1);
}

#[test]
fn a_grant_that_the_router_refuses_is_undone_and_pauses_grow_as_after_refusals() {
    let patience = Patience {
        timeout: Duration(100 * MS),
        first_retry: Duration(2 * S),
        longest_retry: Duration(5 * S),
    };
    let has = Rate::from_mbit(1);
    let mut class = allocator(&Settings { patience, initial: has, ..settings() });
    let mut asked_at = vec![];
    for interval in 1..20 {
        let out = give(&mut class, interval * S, counted(800_000));
        let [Output::Ask { id, rate, .. }] = out[..] else { continue };
        asked_at.push(interval);
        assert_eq!(
            give(&mut class, interval * S, answer(id.0, Answer::Granted(rate))),
            [Output::Allocate(rate)]
        );
        assert_eq!(give(&mut class, interval * S, Input::InForce { rate: has, refused: true }), []);
        assert_eq!(class.allocated(), has);
    }
    // Pauses of 2, 4, 5, 5 intervals.
    assert_eq!(asked_at, [1, 3, 7, 12, 17]);
    let counters = class.counters();
    assert_eq!((counters.granted, counters.withdrawn, counters.answered()), (5, 5, 5));
}

#[test]
fn what_is_found_in_force_takes_the_place_of_the_initial_allocation() {
    let mut class = allocator(&settings());
    let found = |rate| Input::InForce { rate: Rate(rate), refused: false };
    assert_eq!(give(&mut class, 1, found(3_000_000)), []);
    assert_eq!((class.allocated(), class.counters().withdrawn), (Rate(3_000_000), 0));
    // Outside of the range it is brought into it.
    assert_eq!(give(&mut class, 2, found(20_000_000)), [Output::Allocate(Rate(10_000_000))]);
}

#[test]
fn no_more_is_asked_for_than_there_is_room() {
    let config = CongestionConfig::default();
    let mut class =
        allocator(&Settings { initial: Rate::from_mbit(1), congestion: Some(config), ..settings() });
    give(&mut class, 1, Input::Room(Rate(1_030_000)));
    let asked = give(&mut class, 2, Input::Queue(Bytes(9000)));
    let rate = Rate(1_030_000);
    assert_eq!(asked, [Output::Ask { id: AskId(0), rate, allocated: Rate::from_mbit(1) }]);
    assert_eq!(class.claimed(), rate);
    assert_eq!(give(&mut class, 3, answer(0, Answer::Granted(rate))), [Output::Allocate(rate)]);
    assert_eq!(give(&mut class, 4, Input::Queue(Bytes(9000))), []);
    // Less room takes nothing away.
    assert_eq!(give(&mut class, 5, Input::Room(Rate(64_000))), []);
    assert_eq!((class.allocated(), class.in_flight.is_none()), (rate, true));
    give(&mut class, 6, Input::Room(Rate(9_000_000)));
    assert!(
        matches!(give(&mut class, 7, Input::Queue(Bytes(9000)))[..], [Output::Ask { rate, .. }] if rate > Rate(5_000_000))
    );
}

#[test]
fn readings_are_differences_and_survive_a_restart_of_the_counter() {
    let mut class = allocator(&settings());
    let reading = |bits| Input::Reading { bits, carried: None };
    give(&mut class, 0, reading(5_000_000));
    give(&mut class, S / 2, reading(5_020_000));
    give(&mut class, S, reading(5_040_000));
    assert_eq!(class.estimate(), Rate(50_000));
    give(&mut class, 2 * S, reading(48_000));
    assert_eq!(class.estimate(), Rate(60_000));
}

#[test]
fn what_was_carried_before_the_first_reading_is_not_known_rather_than_nothing() {
    let mut class = allocator(&Settings { initial: Rate::from_mbit(1), ..settings() });
    let reading = |bits| Input::Reading { bits, carried: None };
    // The first look is late: the interval that ends with it says nothing, and nothing is lowered.
    assert_eq!(give(&mut class, S, reading(5_000_000)), []);
    assert_eq!(class.next_wakeup(), Some(Instant(2 * S)));
    assert_eq!(class.counters().intervals, 0);
    give(&mut class, 2 * S, reading(5_640_000));
    assert_eq!((class.estimate(), class.counters().intervals), (Rate(800_000), 1));
    // The first is above an estimate of nothing, the second not above that of the first, the third is.
    assert_eq!(class.counters().intervals_above, 1);
    give(&mut class, 3 * S, reading(5_640_000 + 640_000));
    assert_eq!(class.counters().intervals_above, 1);
    give(&mut class, 4 * S, reading(5_640_000 + 640_000 + 640_008));
    assert_eq!((class.counters().intervals, class.counters().intervals_above), (3, 2));
}

#[test]
fn a_reading_that_does_not_come_is_asked_for_again_and_averaged_over_its_time() {
    let mut class = allocator(&settings());
    assert_eq!(class.next_wakeup(), Some(Instant(S)));
    give(&mut class, S, Input::Tick);
    assert_eq!(class.next_wakeup(), Some(Instant(2 * S)));
    give(&mut class, 2 * S, counted(80_000));
    assert_eq!(class.estimate(), Rate(50_000));
    assert_eq!(class.counters().missed_readings, 1);
}

#[test]
fn a_long_queue_overrules_the_law_and_the_law_waits_for_the_guard_time() {
    let config = CongestionConfig::default();
    let mut class =
        allocator(&Settings { initial: Rate::from_mbit(1), congestion: Some(config), ..settings() });
    assert_eq!(give(&mut class, 1, Input::Queue(Bytes(1875))), []);
    let asked = give(&mut class, 2, Input::Queue(Bytes(3000)));
    assert_eq!(asked, [Output::Ask { id: AskId(0), rate: Rate(1_920_000), allocated: Rate::from_mbit(1) }]);
    assert_eq!(give(&mut class, 3, Input::Queue(Bytes(9000))), []);
    give(&mut class, 10 * MS, answer(0, Answer::Granted(Rate(1_920_000))));
    // Still too long for the new allocation: again by the same rule.
    let again = give(&mut class, 11 * MS, Input::Queue(Bytes(4000)));
    assert!(matches!(again[..], [Output::Ask { rate: Rate(2_560_000), .. }]), "{again:?}");
    give(&mut class, 21 * MS, answer(1, Answer::Granted(Rate(2_560_000))));
    give(&mut class, 22 * MS, Input::Queue(Bytes(0)));
    // The load would allow a decrease, but not before 11 ms + 1.6 s.
    assert_eq!(give(&mut class, S, counted(80_000)), []);
    assert_eq!(give(&mut class, 2 * S, counted(80_000)), []);
    assert!(class.congested());
    let after = give(&mut class, 3 * S, counted(80_000));
    assert!(matches!(after[..], [Output::Ask { rate, .. }] if rate < Rate(2_560_000)), "{after:?}");
    assert_eq!(class.counters().congested, Duration(11 * MS + 1600 * MS - 2));
}

#[test]
fn a_decrease_leaves_what_the_queue_needs() {
    let mut class = allocator(&Settings {
        initial: Rate::from_mbit(1),
        congestion: Some(CongestionConfig::default()),
        ..settings()
    });
    give(&mut class, 1, Input::Queue(Bytes(1800)));
    let asked = give(&mut class, S, counted(80_000));
    assert!(matches!(asked[..], [Output::Ask { rate: Rate(960_000), .. }]), "{asked:?}");
}

#[test]
fn a_smaller_link_takes_effect_at_once() {
    let mut class = allocator(&Settings { initial: Rate::from_mbit(5), ..settings() });
    let bounds = |least, most| Input::Bounds { least: Rate(least), most: Rate(most) };
    assert_eq!(give(&mut class, 1, bounds(1_000, 2_000_000)), [Output::Allocate(Rate(2_000_000))]);
    assert_eq!(give(&mut class, 2, bounds(0, 3_000_000)), []);
    assert_eq!(give(&mut class, 3, bounds(4_000_000, 1)), [Output::Allocate(Rate(4_000_000))]);
}

#[test]
fn efficiency_is_mean_carried_by_mean_allocated() {
    let mut class = allocator(&Settings { initial: Rate::from_mbit(1), ..settings() });
    for interval in 1..=10 {
        // 720 kbit/s and 880 kbit/s in turn: inside the dead zone.
        give(&mut class, interval * S, counted(if interval % 2 == 0 { 704_000 } else { 672_000 }));
    }
    let efficiency = class.counters().efficiency;
    let near = |value: Option<f64>, expected: f64| (value.expect("time has passed") - expected).abs() < 1e-9;
    assert!(near(efficiency.carried(), 0.86));
    // 840 in the first interval, 880 in the other nine.
    assert!(near(efficiency.estimated(), 0.876), "{efficiency:?}");
}

#[test]
fn what_is_recorded_can_be_stored_and_read_again() {
    fn storable<T: serde::Serialize + serde::de::DeserializeOwned>() {}
    storable::<Settings>();
    storable::<Input>();
    storable::<Output>();
    storable::<Counters>();
    storable::<EmulatedBrokerConfig>();
}

#[test]
#[should_panic(expected = "poll the outputs")]
fn an_input_before_the_outputs_are_polled_is_noticed() {
    let mut class = Allocator::new(&settings(), Instant(0)).expect("stable");
    class.handle_input(Instant(1), Input::Tick);
}

/// Path of the allocation of one class under constant load with this broker.
fn path(
    settings: &Settings,
    load: Rate,
    broker: EmulatedBrokerConfig,
    seed: u64,
    intervals: u64,
) -> Vec<u64> {
    let mut class = allocator(settings);
    let mut broker = EmulatedBroker::new(broker, SplitMix64::new(seed, 0));
    let mut path = vec![class.allocated().0];
    let (mut now, end) = (0, intervals * S);
    // Carried bits in units of 10⁻⁹ bit, so that changes in mid-interval count exactly.
    let mut carried = 0u128;
    while now < end {
        let wakeups = [class.next_wakeup(), broker.next_wakeup()];
        let next = wakeups.into_iter().flatten().min().expect("the class measures").0;
        let rate = match settings.window.metering {
            Metering::Carried => load.min(class.allocated()),
            Metering::Offered => load,
        };
        carried += u128::from(rate.0) * u128::from(next - now);
        now = next;
        let mut inputs = vec![];
        while let Some(answer) = broker.poll_answer(Instant(now)) {
            inputs.push(Input::Answer { id: answer.id, answer: answer.answer });
        }
        let bits = (carried / 1_000_000_000) as u64;
        carried %= 1_000_000_000;
        inputs.push(Input::Counted { bits, carried: None });
        for input in inputs {
            for output in give(&mut class, now, input) {
                match output {
                    Output::Ask { id, rate, allocated } => {
                        broker.ask(Instant(now), BrokerAsk { class: ClassId(0), id, rate, allocated });
                    }
                    Output::Allocate(rate) => path.push(rate.0),
                }
            }
        }
    }
    path
}

fn turns(path: &[u64]) -> usize {
    let ups: Vec<bool> = path.windows(2).map(|pair| pair[1] > pair[0]).collect();
    ups.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn slow_refusing_and_lossy_brokers_make_nothing_oscillate(
        load in 1_000u64..10_000_000, start in 64_000u64..10_000_000, delay_ms in prop::sample::select(vec![0u64, 10, 100, 1_000]),
        chances in prop::sample::select(vec![0u32, 1 << 29, 1 << 31]), log: bool, carried: bool, seed: u64,
    ) {
        let law = if log {
            Law::Logarithmic(LogarithmicConfig::default())
        } else {
            Law::Threshold(ThresholdConfig::default())
        };
        let mut settings = Settings { law, initial: Rate(start), ..settings() };
        settings.window.metering = if carried { Metering::Carried } else { Metering::Offered };
        let chance = Probability(chances);
        let broker = EmulatedBrokerConfig {
            delay: Duration::from_millis(delay_ms), refuse: chance, partial: chance, lose: chance,
            ..EmulatedBrokerConfig::default()
        };
        let path = path(&settings, Rate(load), broker, seed, 300);
        prop_assert!(turns(&path) <= 1, "{path:?}");
        if chances == 0 {
            // Everything is granted: it ends where the law asks for nothing.
            let end = Rate(*path.last().expect("it begins somewhere"));
            let used = if carried { Rate(load).min(end) } else { Rate(load) };
            let asks = settings.law.decide(used, end, &settings.bounds);
            prop_assert!(asks.is_none(), "{end:?} would become {asks:?}");
        }
    }
}
