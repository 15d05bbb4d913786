use super::*;
use crate::emulate::{Effects, Emulator};
use crate::plumbing::UdpFrame;
use perhop_element::testkit::Bench;
use perhop_units::Bytes;
use perhop_wire::dissect;
use proptest::prelude::*;

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

/// Packets of these identities, a millisecond apart.
fn seen(begin_ms: u64, identities: &[u64]) -> Vec<Sighting> {
    let times = (begin_ms..).map(at);
    times.zip(identities).map(|(at, identity)| Sighting { at, identity: *identity }).collect()
}

fn all(seen: &[Sighting]) -> Sightings {
    seen.iter().copied().collect()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `count` packets, `gap_ms` apart, through an emulator of one entry: what was seen before and after it.
fn through(effects: &str, count: u16, gap_ms: u64) -> (Vec<Sighting>, Vec<Sighting>) {
    let entry = ("-".parse().expect("a rule"), effects.parse().expect("effects"));
    let mut bench = Bench::with_seed(Box::new(Emulator::new(vec![entry], Bytes(0))), 1, 5);
    let sighting = |at, frame: &[u8]| {
        let layout = dissect(frame).expect("as built");
        Sighting { at, identity: identity(frame, &layout).expect("IP") }
    };
    let mut before = Vec::new();
    for n in 0..count {
        let frame = UdpFrame { src_port: n, ..UdpFrame::default() }.to_vec();
        before.push(sighting(bench.now(), &frame));
        bench.push(&frame);
        bench.run_for(ms(gap_ms));
    }
    bench.run_for(ms(10_000));
    let after = bench.arrived(0).iter().map(|(at, frame)| sighting(*at, frame)).collect();
    (before, after)
}

#[test]
fn what_an_emulator_plays_is_recorded_and_can_be_played_again() {
    let entry = "play 0s 20ms 0% play 2s 80ms 30% play 4s 5ms 100% play 6s 40ms 0%";
    let (before, after) = through(entry, 1_600, 5);
    let recorded = Conditions::between(&all(&before), &all(&after), ms(500)).expect("conditions");
    let played: Effects = recorded.play().parse().expect("words of an entry");
    let wanted: Effects = entry.parse().expect("words of an entry");
    assert_eq!((recorded.packets, recorded.copies, recorded.strangers), (1_600, 0, 0));
    assert_eq!(recorded.lost + recorded.delays.len() as u64, 1_600);
    for n in 0..16 {
        let [got, wanted] = [&played, &wanted]
            .map(|effects| effects.recorded_at(ms(500 * n)).expect("it plays from the beginning"));
        let [share, loss] = [got.loss, wanted.loss].map(|p| f64::from(p.0) / 4_294_967_296.0);
        // Five deviations of 100.
        assert!((share - loss).abs() <= 5.0 * (loss * (1.0 - loss) / 100.0).sqrt() + 1e-4, "{n}: {share}");
        let nothing_arrived = loss > 0.9999;
        assert!(nothing_arrived || got.delay == wanted.delay, "{n}: {got:?}");
    }
    assert_eq!(played.recorded.len(), recorded.intervals.len());
}

#[test]
fn delays_losses_and_copies_come_back_as_a_table() {
    let (before, after) = through("delay 40ms jitter 8ms normal overtake loss 2% duplicate 5%", 1_500, 5);
    let recorded = Conditions::between(&all(&before), &all(&after), ms(1_000)).expect("conditions");
    // Five standard errors of each, and that of two copies the first counts: 0.56 of the spread earlier, for one in twenty.
    assert!(recorded.mean().0.abs_diff(39_780_000) < 1_050_000, "{:?}", recorded.mean());
    assert!(recorded.deviation().0.abs_diff(8_000_000) < 750_000, "{:?}", recorded.deviation());
    assert!(recorded.lost.abs_diff(30) < 28 && recorded.copies.abs_diff(74) < 42, "{recorded:?}");
    // Of two neighbours 5 ms apart the second is earlier if the difference, of 11.3 ms, is more than that: a third.
    assert!((300..800).contains(&recorded.overtaking), "{}", recorded.overtaking);
    let words = recorded.table(101);
    let played: Effects = words.parse().expect("words of an entry");
    // The normal distribution's quantiles.
    for (z, share) in [(-1.281_55, 0.1), (0.0, 0.5), (1.281_55, 0.9)] {
        let got = played.delays.at(z).0 as f64 / 1e6;
        assert!((got - (39.8 + z * 8.0)).abs() < 1.8, "{share}: {got}");
    }
    assert!(played.overtake && played.loss > Probability::ZERO && played.duplicate > Probability::ZERO);
}

#[test]
fn what_networks_change_does_not_make_another_packet() {
    let frame = UdpFrame { ip_len: 200, ..UdpFrame::default() }.to_vec();
    let layout = dissect(&frame).expect("IP");
    let of = |frame: &[u8]| identity(frame, &layout).expect("IP");
    let known = of(&frame);
    // Code point, time to live, its checksum and that of UDP.
    let changed = [15, 22, 24, 40].map(|offset| (offset, true));
    let kept = [17, 18, 29, 33, 35, 39, 45].map(|offset| (offset, false));
    for (offset, same) in changed.into_iter().chain(kept) {
        let mut other = frame.clone();
        other[offset] ^= 1;
        assert_eq!(of(&other) == known, same, "byte {offset}");
    }
    // Padding, and what a capture cut off.
    assert_eq!(of(&[&frame[..], &[0; 9]].concat()), known);
    assert_eq!(of(&frame[..60]), known);
}

#[test]
fn captures_that_tell_nothing_say_why() {
    let between = |before: &[Sighting], after: &[Sighting], interval| {
        Conditions::between(&all(before), &all(after), interval).expect_err("nothing to tell").to_string()
    };
    let some = seen(1_000, &[1, 2, 3]);
    assert_eq!(between(&[], &some, ms(1)), "no IP packets that count were seen before the network");
    assert_eq!(between(&some, &[], ms(1)), "no IP packets that count were seen after the network");
    assert!(
        between(&some, &seen(0, &[7, 8]), ms(1))
            .starts_with("none of 3 packets before the network is among 2")
    );
    let early = between(&some, &seen(900, &[1, 2]), ms(1));
    assert!(early.starts_with("2 packets were seen after the network up to 100 ms earlier"), "{early}");
    let long = [seen(0, &[1]), seen(5_000_000, &[2])].concat();
    let many = between(&long, &long, ms(1));
    assert!(many.starts_with("5000001 intervals are more than the 4096 that can be played"), "{many}");
    // With what is advised there are few enough.
    assert!(many.ends_with("Take intervals of 1.3 s or more."), "{many}");
    assert!(Conditions::between(&all(&long), &all(&long), ms(1_300)).is_ok());
}

#[test]
fn captures_of_both_directions_say_so() {
    let there = [seen(0, &[1, 2, 3]), seen(30, &[8, 9])].concat();
    let back = [seen(20, &[1, 2, 3]), seen(10, &[8, 9])].concat();
    let error = Conditions::between(&all(&there), &all(&back), ms(100)).expect_err("two ways");
    assert_eq!(error, RecordError::BothWays { packets: 2, most: ms(20), others: 3 });
}

#[test]
fn what_nobody_watched_is_neither_lost_nor_strange() {
    // 7 came out of what went in before the first capture began; 5 and 6 go in when the second one has ended.
    let before = [seen(100, &[1, 2, 3]), seen(140, &[5, 6])].concat();
    let after = [seen(90, &[7]), seen(120, &[1, 3])].concat();
    let recorded = Conditions::between(&all(&before), &all(&after), ms(1_000)).expect("conditions");
    assert_eq!((recorded.packets, recorded.lost, recorded.unknown, recorded.strangers), (3, 1, 2, 0));
    assert_eq!(recorded.play(), "play 0s 19.5ms 33.333%");
    // Frames that do not count show that somebody still watched: for as long as the slowest packet took.
    let mut longer = all(&after);
    longer.watched(at(159));
    let recorded = Conditions::between(&all(&before), &longer, ms(1_000)).expect("conditions");
    assert_eq!((recorded.packets, recorded.lost, recorded.unknown), (3, 1, 2));
    longer.watched(at(161));
    let recorded = Conditions::between(&all(&before), &longer, ms(1_000)).expect("conditions");
    assert_eq!((recorded.packets, recorded.lost, recorded.unknown), (5, 3, 0));
}

/// Both captures end together: what is under way then is not lost, however long it was, and what is lost before is.
#[test]
fn packets_in_flight_at_the_end_are_not_lost() {
    let before = seen(0, &(0..1_000).collect::<Vec<_>>());
    // Delays of 40 and 50 ms. One is lost; 19 of the ones and 25 of the others are under way at 1,000 ms.
    let came = before
        .iter()
        .filter(|s| s.identity != 500)
        .map(|s| Sighting { at: s.at + ms(if s.identity % 2 == 0 { 40 } else { 50 }), ..*s });
    let mut after: Sightings = came.filter(|s| s.at <= at(1_000)).collect();
    after.watched(at(1_000));
    let recorded = Conditions::between(&all(&before), &after, ms(10_000)).expect("conditions");
    assert_eq!((recorded.lost, recorded.unknown), (1, 44));
    assert_eq!(recorded.packets, 956);
    assert!(recorded.play().contains(" 0.105% "), "{}", recorded.play());
}

#[test]
fn a_capture_that_starts_late_loses_nothing() {
    let before = seen(0, &(0..1_000).collect::<Vec<_>>());
    let after: Vec<_> = before.iter().map(|s| Sighting { at: s.at + ms(30), ..*s }).collect();
    let late: Sightings = after[600..].iter().copied().collect();
    let recorded = Conditions::between(&all(&before), &late, ms(100)).expect("conditions");
    assert_eq!((recorded.lost, recorded.packets, recorded.unknown), (0, 400, 600));
    assert_eq!(recorded.play(), "play 0s 30ms 0%");
    // The other way round: what was under way when the first capture began is no stranger.
    let begun: Sightings = before[600..].iter().copied().collect();
    let recorded = Conditions::between(&begun, &all(&after[590..]), ms(100)).expect("conditions");
    assert_eq!((recorded.lost, recorded.packets, recorded.strangers), (0, 400, 0));
}

#[test]
fn packets_that_all_look_alike_tell_no_delay_unless_all_came() {
    let before = seen(0, &[1; 100]);
    let error = Conditions::between(&all(&before), &all(&seen(20, &[1; 98])), ms(100)).expect_err("alike");
    assert_eq!(error, RecordError::Alike { packets: 100, came: 98 });
    assert!(error.to_string().contains("no delay is known"), "{error}");
    let recorded = Conditions::between(&all(&before), &all(&seen(20, &[1; 100])), ms(100)).expect("all");
    assert_eq!((recorded.lost, recorded.play().as_str()), (0, "play 0s 20ms 0%"));
    // One packet that differs tells the delay, and the number tells the loss.
    let (some, came) = ([&[1; 50][..], &[2], &[1; 49]].concat(), [&[1; 49][..], &[2], &[1; 40]].concat());
    let mut after = all(&seen(21, &came));
    after.watched(at(200));
    let recorded = Conditions::between(&all(&seen(0, &some)), &after, ms(1_000)).expect("conditions");
    assert_eq!((recorded.lost, recorded.packets, recorded.delays.as_slice()), (10, 100, &[ms(20)][..]));
}

#[test]
fn a_recording_over_time_says_that_packets_overtook() {
    let (before, after) = through("delay 40ms jitter 30ms overtake", 200, 5);
    let recorded = Conditions::between(&all(&before), &all(&after), ms(500)).expect("conditions");
    assert!(recorded.overtaking > 0);
    assert!(recorded.play().parse::<Effects>().expect("words of an entry").overtake);
    let (before, after) = through("delay 40ms jitter 30ms", 200, 5);
    let recorded = Conditions::between(&all(&before), &all(&after), ms(500)).expect("conditions");
    assert!(!recorded.play().parse::<Effects>().expect("words of an entry").overtake);
}

#[test]
fn packets_that_look_alike_are_told_apart_as_far_as_they_can_be() {
    // Two of two came: each in its turn. One of two came: it may be either.
    let before = [seen(0, &[1, 1]), seen(10, &[2, 2]), seen(20, &[3])].concat();
    let after = [seen(5, &[1, 1]), seen(18, &[2]), seen(30, &[3, 3, 9])].concat();
    let mut before = all(&before);
    before.watched(at(40));
    let recorded = Conditions::between(&before, &all(&after), ms(1_000)).expect("conditions");
    assert_eq!(recorded.delays, [ms(5), ms(5), ms(10)]);
    assert_eq!((recorded.lost, recorded.copies, recorded.strangers, recorded.overtaking), (1, 1, 1, 0));
}

proptest! {
    /// Whatever is seen, all that went in is lost or came, intervals ascend from zero, and what is printed reads back.
    #[test]
    fn conditions_are_always_words_of_an_entry(
        packets in prop::collection::vec((0u64..50, 0u64..2_000, prop::option::of(0u64..500)), 1..80),
        interval_ms in 1u64..300,
    ) {
        let before: Vec<_> =
            packets.iter().map(|(identity, went, _)| Sighting { at: at(*went), identity: *identity }).collect();
        let after: Vec<_> = packets
            .iter()
            .filter_map(|(identity, went, delay)| Some(Sighting { at: at(went + (*delay)?), identity: *identity }))
            .collect();
        match Conditions::between(&all(&before), &all(&after), ms(interval_ms)) {
            Ok(recorded) => {
                let came = (after.len() as u64) - recorded.copies - recorded.strangers;
                prop_assert_eq!(recorded.lost + came, recorded.packets);
                prop_assert_eq!(recorded.packets + recorded.unknown, before.len() as u64);
                prop_assert_eq!((recorded.copies, recorded.strangers), (0, 0));
                let played: Effects = recorded.play().parse().expect("words of an entry");
                prop_assert_eq!(&played.recorded.len(), &recorded.intervals.len());
                prop_assert!(recorded.table(16).parse::<Effects>().is_ok());
            }
            Err(RecordError::Nothing("after")) => prop_assert!(after.is_empty()),
            Err(RecordError::Alike { packets, came }) => prop_assert!(came < packets),
            // Of packets that look alike a later one may have come before an earlier one's turn.
            Err(other) => prop_assert!(
                matches!(other, RecordError::Backwards { .. } | RecordError::BothWays { .. }),
                "{other}"
            ),
        }
    }
}
