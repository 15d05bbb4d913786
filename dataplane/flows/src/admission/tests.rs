use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: u64 = 1_000_000;

fn settings() -> AdmissionSettings {
    AdmissionSettings { cap: Rate(100_000), windows: 1, new_flow: Rate(0), ..AdmissionSettings::default() }
}

/// A flow of a contract, from nowhere.
fn of(sla: SlaId) -> Origin {
    Origin { sla, from: PortId::NONE }
}

fn admission(settings: &AdmissionSettings) -> Admission {
    let mut a = Admission::new(256);
    a.set(Instant::ZERO, Some(settings));
    a
}

/// A packet at `ms` of a flow without a contract. Whether it is real-time.
fn packet(a: &mut Admission, ms: u64, owner: u32, len: u64) -> bool {
    a.tick(Instant(ms * MS));
    a.packet(Instant(ms * MS), owner, len, of(SlaId::NONE), false).0
}

/// `owners` each carry `kbit` from `from` to `to` ms in packets every 100 ms; who was real-time in the last of them.
fn carry(a: &mut Admission, from: u64, to: u64, owners: &[u32], kbit: u64) -> Vec<u32> {
    let mut admitted = Vec::new();
    for ms in (from..to).step_by(100) {
        admitted = owners.iter().copied().filter(|o| packet(a, ms, *o, kbit * 100 / 8)).collect();
    }
    admitted
}

#[test]
fn a_flow_is_accepted_below_the_threshold_and_refused_at_it() {
    let mut a = admission(&settings());
    // 89 and 90 of 100 kbit/s in an interval of 800 ms.
    for (kbit, accepted) in [(89, true), (90, false)] {
        let start = a.next.0 / MS + 10_000;
        assert!(packet(&mut a, start, 1, 1));
        let begin = a.next.0 / MS;
        assert!(packet(&mut a, begin, 1, kbit * 100));
        assert_eq!(packet(&mut a, begin + 800, 2, 100), accepted, "{kbit}");
    }
    let c = a.counters;
    assert_eq!((c.flows_offered, c.flows_admitted, c.flows_refused), (4, 3, 1));
}

#[test]
fn what_was_just_admitted_counts_until_it_is_measured() {
    let mut a = admission(&AdmissionSettings { new_flow: Rate(40_000), ..settings() });
    assert_eq!((0..4).filter(|o| packet(&mut a, 0, *o, 1)).count(), 3);
    // For one interval, whenever in it they came; then they are known to carry nothing.
    assert_eq!((4..9).filter(|o| packet(&mut a, 799, *o, 1)).count(), 0);
    assert_eq!((9..14).filter(|o| packet(&mut a, 800, *o, 1)).count(), 3);
    let mut a = admission(&AdmissionSettings { new_flow: Rate(40_000), ..settings() });
    assert_eq!((0..2).filter(|o| packet(&mut a, 700, *o, 1)).count(), 2);
    assert!(packet(&mut a, 1_400, 2, 1));
    assert_eq!((3..9).filter(|o| packet(&mut a, 1_500, *o, 1)).count(), 2);
}

#[test]
fn a_refusal_sticks_until_silence_or_the_next_look() {
    for retry in [None, Some(Duration::from_secs(3))] {
        let mut a = admission(&AdmissionSettings { retry, locked: true, ..settings() });
        assert!(!packet(&mut a, 0, 1, 100));
        a.set(Instant(0), Some(&AdmissionSettings { retry, ..settings() }));
        let got = carry(&mut a, 0, 4_000, &[1], 1);
        assert_eq!(got == [1], retry.is_some());
        // Silent for the time-out: asked anew.
        assert!(packet(&mut a, 9_000, 1, 100));
        let c = a.counters;
        assert_eq!((c.flows_offered, c.flows_refused), (2 + u64::from(retry.is_some()), 1));
        assert_eq!(c.flows_admitted, u64::from(a.admitted()) + c.flows_expired + c.flows_dropped);
    }
}

#[test]
fn an_overload_drops_one_flow_an_interval_and_keeps_at_equality() {
    // Five flows of 19 kbit/s are 95 of 100: T_d is not exceeded.
    let mut a = admission(&settings());
    assert_eq!(carry(&mut a, 0, 8_000, &[0, 1, 2, 3, 4], 19).len(), 5);
    assert_eq!(a.counters.flows_dropped, 0);
    // 20 each: one goes, and its rate with it, so that the window does not drop another.
    for windows in [1, 10] {
        let mut a = admission(&AdmissionSettings { windows, ..settings() });
        assert_eq!(carry(&mut a, 0, 16_000, &[0, 1, 2, 3, 4], 20).len(), 4);
        assert_eq!(a.counters.flows_dropped, 1, "{windows}");
        let told: Vec<_> = a.take_dropped().collect();
        assert_eq!(told.len(), 1);
        assert_eq!(a.standing(told[0].0), Some(Standing::Dropped));
        let full = Shortage { used: Rate(100_000), cap: Rate(100_000), ..Shortage::default() };
        assert_eq!(told[0].1, full, "what there was before it went");
    }
    // Twice too much: five of ten stay, one an interval goes.
    let mut a = admission(&settings());
    let ten: Vec<u32> = (0..10).collect();
    carry(&mut a, 0, 2_500, &ten, 20);
    assert_eq!(a.counters.flows_dropped, 3);
    assert_eq!(carry(&mut a, 2_500, 16_000, &ten, 20).len(), 4);
}

#[test]
fn the_policy_chooses_and_premium_goes_last() {
    // Flow 3 carries most, flow 1 least, flow 2 was first.
    let lens = [(2, 2_000), (1, 500), (3, 4_000)];
    let victim = |policy, premium: &[u32]| {
        let settings =
            AdmissionSettings { policy, cap: Rate(1_000_000), premium: vec![SlaId(7)], ..settings() };
        let mut a = admission(&settings);
        for ms in (0..1_600).step_by(100) {
            for (i, (owner, len)) in lens.iter().enumerate() {
                let at = Instant(ms * MS + i as u64);
                a.tick(at);
                let sla = if premium.contains(owner) { SlaId(7) } else { SlaId(6) };
                assert!(a.packet(at, *owner, *len, of(sla), false).0);
            }
        }
        a.set(Instant(1_600 * MS), Some(&AdmissionSettings { cancel: 1, ..settings }));
        let told: Vec<_> = a.take_dropped().collect();
        assert_eq!(told.len(), 1);
        told[0].0
    };
    assert_eq!(victim(Victim::Largest, &[]), 3);
    assert_eq!(victim(Victim::Smallest, &[]), 1);
    assert_eq!(victim(Victim::Oldest, &[]), 2);
    assert_eq!(victim(Victim::Largest, &[3]), 2);
    assert_eq!(victim(Victim::Oldest, &[1, 2]), 3);
    assert_eq!(victim(Victim::Smallest, &[1, 2, 3]), 1);
    assert!(matches!(victim(Victim::Random, &[1, 2]), 3));
}

#[test]
fn premium_is_accepted_until_the_drop_threshold() {
    let settings = AdmissionSettings { accept_pct: 50, premium: vec![SlaId(7)], ..settings() };
    let mut a = admission(&settings);
    assert!(packet(&mut a, 0, 0, 1));
    assert!(packet(&mut a, 800, 0, 6_000));
    a.tick(Instant(1_600 * MS));
    assert_eq!(a.used(), Rate(60_000));
    assert!(!a.packet(Instant(1_600 * MS), 1, 1, of(SlaId(6)), false).0);
    assert!(a.packet(Instant(1_600 * MS), 2, 1, of(SlaId(7)), false).0);
    a.set(Instant(1_600 * MS), Some(&AdmissionSettings { locked: true, ..settings }));
    assert!(!a.packet(Instant(1_600 * MS), 3, 1, of(SlaId(7)), false).0, "locked is locked");
    assert!(a.packet(Instant(1_600 * MS), 2, 1, of(SlaId(7)), false).0, "and concerns no admitted flow");
}

#[test]
fn settings_change_without_harm_to_admitted_flows() {
    let mut a = Admission::new(64);
    assert!(packet(&mut a, 0, 1, 100), "everything is admitted");
    assert_eq!(a.counters, AdmissionCounters::default());
    // Flows known when admission begins are admitted as they are; a new one is not.
    let tight = AdmissionSettings { locked: true, ..settings() };
    a.set(Instant(0), Some(&tight));
    assert!(a.packet(Instant(1), 1, 100, of(SlaId::NONE), true).0);
    assert!(!a.packet(Instant(1), 2, 100, of(SlaId::NONE), false).0);
    // More cancellations than there are flows cancel what there is.
    a.set(Instant(2), Some(&AdmissionSettings { cancel: u64::MAX, ..tight.clone() }));
    assert_eq!((a.counters.flows_dropped, a.admitted()), (1, 0));
    a.set(Instant(3), Some(&AdmissionSettings { cancel: 0, ..tight }));
    a.set(Instant(3), None);
    assert!(packet(&mut a, 1, 1, 100) && a.standing(1).is_none());
}

#[test]
fn without_room_a_flow_is_refused() {
    let mut a = Admission::new(4);
    a.set(Instant(0), Some(&settings()));
    assert!((0..4).all(|o| packet(&mut a, 0, o, 1)));
    assert!(!packet(&mut a, 0, 4, 1));
    assert_eq!(a.counters.table_full, 1);
    a.end(2);
    assert_eq!((a.admitted(), a.counters.flows_expired), (3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever comes: the books balance, nobody is accepted at or above the threshold, and intervals are dropped for
    /// one at a time.
    #[test]
    fn the_books_balance(
        steps in prop::collection::vec((0u32..24, 0u64..400, 1u64..3_000, 0u8..30), 1..300),
        windows in 1u32..5, policy in 0usize..4, retry in prop::option::of(1u64..10_000),
    ) {
        let policy = [Victim::Random, Victim::Largest, Victim::Smallest, Victim::Oldest][policy];
        let mut set = AdmissionSettings {
            windows, policy, retry: retry.map(Duration::from_millis), premium: vec![SlaId(1)], ..settings()
        };
        let mut a = Admission::new(16);
        a.set(Instant::ZERO, Some(&set));
        let mut ms = 0;
        for (owner, gap, len, other) in steps {
            ms += gap;
            let now = Instant(ms * MS);
            let before = a.counters;
            a.tick(now);
            let ended = a.counters.intervals - before.intervals;
            prop_assert!(a.counters.flows_dropped - before.flows_dropped <= ended);
            match other {
                0 => a.end(owner),
                1 => {
                    set.cancel += 1;
                    set.locked = !set.locked;
                    a.set(now, Some(&set));
                }
                _ => {
                    let (used, counted) = (a.used(), a.counters);
                    // What a flow that fell silent had counts no more when it was the only one.
                    let alone = a.admitted() == u32::from(a.standing(owner) == Some(Standing::Admitted));
                    let sla = SlaId(u32::from(other % 2));
                    let (admitted, refused) = a.packet(now, owner, len, of(sla), false);
                    prop_assert!(!(admitted && refused.is_some()));
                    if a.counters.flows_admitted > counted.flows_admitted {
                        let limit = set.part(if sla == SlaId(1) { set.drop_pct } else { set.accept_pct });
                        prop_assert!((used.0 < limit || alone) && !set.locked);
                    }
                    if owner < 16 {
                        prop_assert_eq!(a.standing(owner) == Some(Standing::Admitted), admitted);
                    }
                }
            }
            a.take_dropped().for_each(drop);
            let c = a.counters;
            prop_assert_eq!(c.flows_offered, c.flows_admitted + c.flows_refused);
            prop_assert_eq!(c.flows_admitted, u64::from(a.admitted()) + c.flows_dropped + c.flows_expired);
            let live = a.flows.iter().filter(|f| f.live).count();
            prop_assert_eq!(live, a.places.iter().filter(|p| **p > 0).count());
            prop_assert_eq!(live + a.free.len(), a.flows.len());
        }
    }
}

/// Percentages of refused (of offered) and dropped (of admitted) flows, and of intervals over the cap.
fn population(seed: u64, accept_pct: u8, windows: u32) -> [f64; 3] {
    let settings = AdmissionSettings {
        cap: Rate(300_000),
        accept_pct,
        windows,
        new_flow: Rate(16_384),
        ..AdmissionSettings::default()
    };
    let mut a = admission(&settings);
    a.seed(seed);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    // Sixteen flows of 256-byte packets whose rate goes round 0, 8, 16 packets a second, each for a time of up to 20 s:
    // when next, which flow, in what phase, and until when.
    let mut agenda = BinaryHeap::new();
    for owner in 0..16 {
        agenda.push(Reverse((0, owner, rng.random_range(0..3_u64), 0)));
    }
    while let Some(Reverse((us, owner, phase, until))) = agenda.pop() {
        if us >= 600_000_000 {
            break;
        }
        let now = Instant(us * 1_000);
        a.tick(now);
        if us >= until {
            let until = us + rng.random_range(1..20_000_000_u64);
            let phase = (phase + 1) % 3;
            let next = if phase == 0 { until } else { us };
            agenda.push(Reverse((next, owner, phase, until)));
        } else {
            a.packet(now, owner, 256, of(SlaId::NONE), false);
            agenda.push(Reverse(((us + 125_000 / phase).min(until), owner, phase, until)));
        }
        a.take_dropped().for_each(drop);
    }
    let c = a.counters;
    let pct = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    [
        pct(c.flows_refused, c.flows_offered),
        pct(c.flows_dropped, c.flows_admitted),
        pct(c.intervals_over_cap, c.intervals),
    ]
}

/// Source: Calarco, chapter V, figures 8 to 10: sixteen variable flows in a class of 300 kbit/s, T_d = 95 %. Refusals
/// fall and drops rise with T_a, and the class stays within its cap.
#[test]
fn refusals_fall_and_drops_rise_with_the_acceptance_threshold() {
    const SEEDS: u64 = 4;
    for windows in [1, 10] {
        let figures = [50, 60, 70, 80, 90].map(|accept_pct| {
            let runs = (1..=SEEDS).map(|seed| population(seed, accept_pct, windows));
            let sum = runs.fold([0.0; 3], |sum, run| [sum[0] + run[0], sum[1] + run[1], sum[2] + run[2]]);
            sum.map(|s| s / SEEDS as f64)
        });
        println!("n = {windows}: [refused, dropped, over the cap] {figures:.1?}");
        for pair in figures.windows(2) {
            assert!(pair[1][0] < pair[0][0] && pair[1][1] > pair[0][1], "n = {windows}: {figures:.1?}");
        }
        assert!(figures.iter().all(|f| f[2] <= 2.0), "n = {windows}: {figures:.1?}");
    }
}
