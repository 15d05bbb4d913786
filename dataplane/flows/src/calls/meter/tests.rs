use super::*;
use proptest::prelude::*;

fn header(sequence: u16, timestamp: u32) -> Header {
    Header { sequence, timestamp, ssrc: 7, payload_type: 0 }
}

fn ms(n: u64) -> Instant {
    Instant(n * 1_000_000)
}

const PLAYOUT: Duration = Duration(40_000_000);

/// Packets `(number, arrival in ms)` of a G.711 call whose packet 0 is sent at 0.
fn run(packets: &[(u32, u64)]) -> Meter {
    let at = |n: u32| header(65_500_u16.wrapping_add(n as u16), n * 160);
    let mut meter = Meter::new(ms(packets[0].1), &at(packets[0].0), None);
    for (n, arrival) in &packets[1..] {
        meter.packet(ms(*arrival), &at(*n), PLAYOUT);
    }
    meter
}

#[test]
fn a_call_has_a_bounded_size() {
    assert!(size_of::<Meter>() <= 176, "{}", size_of::<Meter>());
    assert_eq!(size_of::<crate::calls::Call>(), 320);
}

#[test]
fn losses_runs_late_ones_and_copies_are_counted() {
    let info = |packets: &[(u32, u64)]| run(packets).info(&Assumed::default());
    let clean = info(&[(0, 10), (1, 30), (2, 50), (3, 70)]);
    assert_eq!(
        (clean.expected, clean.received, clean.late, clean.loss_runs, clean.jitter_us),
        (4, 4, 0, 0, 0)
    );
    assert_eq!((clean.clock_hz, clean.mos_thousandths), (8_000, Some(4_409)));
    // 1 and 2 lost, 4 before 3, 5 twice, 6 too late by 60 ms.
    let some = info(&[(0, 10), (4, 90), (3, 95), (5, 110), (5, 111), (7, 150), (6, 230)]);
    assert_eq!((some.expected, some.received, some.late, some.duplicate), (8, 6, 1, 1));
    assert_eq!((some.loss_runs, some.longest_run), (2, 2));
    // A long gap is one run, however far beyond the window.
    let gap = info(&[(0, 10), (1_000, 20_010), (1_001, 20_030)]);
    assert_eq!((gap.expected, gap.received, gap.loss_runs, gap.longest_run), (1_002, 3, 1, 999));
    // A restart is no loss, and what came before the first counts for nothing.
    let restart = info(&[(10, 10), (11, 30), (40_000, 50), (40_001, 70), (39_990, 80)]);
    assert_eq!((restart.expected, restart.received), (4, 4));
    // One packet from elsewhere is neither: the call goes on as if it had not come.
    let stray = info(&[(10, 10), (11, 30), (40_000, 40), (12, 50), (50_000, 60), (13, 70), (15, 110)]);
    assert_eq!((stray.expected, stray.received, stray.loss_runs, stray.duplicate), (6, 5, 1, 0));
}

#[test]
fn the_clock_of_a_dynamic_type_is_found_and_video_has_no_rating() {
    for (hz, speech) in [(48_000_u32, true), (16_000, true), (90_000, false)] {
        let at = |n: u32| Header { payload_type: 111, ..header(n as u16, n * (hz / 50)) };
        let mut meter = Meter::new(ms(0), &at(0), None);
        for n in 1..200 {
            meter.packet(ms(u64::from(n) * 20), &at(n), PLAYOUT);
        }
        let info = meter.info(&Assumed::default());
        assert_eq!((info.clock_hz, info.late, info.mos_thousandths.is_some()), (hz, 0, speech));
        assert_eq!(info.jitter_us, 0);
    }
}

/// Two hours of a call whose sender's clock is off by so many ppm: nobody hears that, and a packet that is late is.
#[test]
fn a_clock_that_drifts_makes_no_packet_late() {
    for ppm in [-200, -30, 0, 30, 200] {
        let sent_ns = |n: u32| {
            let ns = i64::from(n) * 20_000_000;
            Instant((1_000_000_000 + ns + ns / 1_000_000 * ppm) as u64)
        };
        let mut meter = Meter::new(sent_ns(0), &header(0, 0), None);
        for n in 1..360_000_u32 {
            // Each thousandth comes with the third after it.
            let comes = [(n % 1_000 != 0).then_some(n), (n % 1_000 == 3 && n > 3).then(|| n - 3)];
            for sent in comes.into_iter().flatten() {
                meter.packet(sent_ns(n), &header(sent as u16, sent * 160), PLAYOUT);
            }
        }
        assert_eq!(meter.info(&Assumed::default()).late, 359, "{ppm} ppm");
    }
}

/// A path that gets 100 ms longer in mid-call, also at the very packet with which the search for the fastest begins anew.
#[test]
fn a_path_that_gets_longer_costs_three_packets() {
    for from in [500, 1_498, 1_499, 1_500, 1_501, 1_502, 1_503] {
        let packets: Vec<(u32, u64)> =
            (0..15_000).map(|n| (n, u64::from(n) * 20 + if n < from { 20 } else { 120 })).collect();
        let info = run(&packets).info(&Assumed::default());
        assert_eq!((info.received, info.late), (15_000, 3), "from {from}");
        assert!(info.mos_thousandths.is_some_and(|mos| mos > 4_300), "{info:?}");
    }
}

proptest! {
    /// Whatever comes, the books balance and nothing panics.
    #[test]
    fn books_balance(packets in proptest::collection::vec((any::<u16>(), any::<u32>(), 0..100_000u64), 1..300), near in any::<bool>()) {
        let mut at = 0;
        let mut meter: Option<Meter> = None;
        for (i, (sequence, timestamp, gap_us)) in packets.iter().enumerate() {
            at += gap_us * 1_000;
            let sequence = if near { i as u16 + sequence % 8 } else { *sequence };
            match &mut meter {
                None => meter = Some(Meter::new(Instant(at), &header(sequence, *timestamp), None)),
                Some(meter) => meter.packet(Instant(at), &header(sequence, *timestamp), PLAYOUT),
            }
        }
        let info = meter.expect("one packet at least").info(&Assumed::default());
        prop_assert!(info.received <= info.expected && info.late <= info.received);
        prop_assert!(info.received + info.duplicate <= packets.len() as u64);
        prop_assert!(info.loss_runs <= info.expected && u64::from(info.longest_run) <= info.expected);
        prop_assert!((1_000..=4_500).contains(&info.mos_thousandths.expect("G.711")));
    }

    /// The totals are those of a plain list of what was expected, for packets out of order by less than the window.
    #[test]
    fn totals_are_those_of_a_list(fate in proptest::collection::vec((0..100u8, 0..60u64), 20..600)) {
        let mut arrivals: Vec<(u64, u32)> = fate
            .iter()
            .zip(0_u32..)
            .filter(|((lost, _), n)| *n == 0 || *lost >= 20)
            .map(|((_, delay), n)| (u64::from(n) * 20 + if n == 0 { 0 } else { *delay }, n))
            .collect();
        let sent: Vec<u32> = arrivals.iter().map(|(_, n)| *n).collect();
        arrivals.sort_unstable();
        let packets: Vec<(u32, u64)> = arrivals.iter().map(|(at, n)| (*n, *at)).collect();
        let info = run(&packets).info(&Assumed::default());
        let newest = *sent.last().expect("the first is never lost");
        prop_assert_eq!(info.expected, u64::from(newest) + 1);
        prop_assert_eq!(info.received, sent.len() as u64);
        // The first had no delay, so who was later than the buffer is known, until three in succession were.
        let mut late_ones = std::collections::BTreeSet::new();
        let (mut fastest, mut in_row) = (0, 0);
        for (at, n) in &arrivals {
            let delay = at - u64::from(*n) * 20;
            fastest = delay.min(fastest);
            in_row = if delay > fastest + 40 { in_row + 1 } else { 0 };
            if in_row > 0 {
                late_ones.insert(*n);
            }
            if in_row == 3 {
                (fastest, in_row) = (delay, 0);
            }
        }
        let late = |n: u32| late_ones.contains(&n);
        prop_assert_eq!(info.late, sent.iter().filter(|n| late(**n)).count() as u64);
        let heard = |n: u32| sent.binary_search(&n).is_ok() && !late(n);
        let flags: Vec<bool> = (0..=newest).map(heard).collect();
        let runs: Vec<_> = flags.chunk_by(|a, b| a == b).filter(|run| !run[0]).collect();
        prop_assert_eq!(info.loss_runs, runs.len() as u64);
        prop_assert_eq!(info.longest_run as usize, runs.iter().map(|r| r.len()).max().unwrap_or(0));
    }
}
