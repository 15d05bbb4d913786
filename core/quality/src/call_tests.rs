use super::*;
use crate::pool::QualityPool;
use perhop_units::Duration;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A G.711 call of one packet every 20 ms from 1 s on; `delays` in ms, `None` is a loss.
fn call(delays: &[Option<u64>]) -> CallRecord {
    let mut record = CallRecord::new(Codec::G711U);
    for (i, delay) in delays.iter().enumerate() {
        let sent = Instant(1000 * MS + i as u64 * 20 * MS);
        record.sent(i as u32, sent);
        if let Some(ms) = delay {
            record.received(Received {
                index: i as u32,
                rtp_timestamp: i as u32 * 160,
                sent,
                arrived: sent + Duration::from_millis(*ms),
            });
        }
    }
    record
}

fn fixed(ms: u64) -> Scoring {
    Scoring { playout: Playout::Fixed { depth: Duration::from_millis(ms) }, concealment: true }
}

#[test]
fn a_perfect_call_has_the_delay_of_the_link_and_a_score_above_four_point_three() {
    let quality = call(&[Some(20); 100]).whole(&fixed(40)).expect("packets were sent");
    assert_eq!((quality.sent, quality.received, quality.late), (100, 100, 0));
    assert_eq!(quality.delay.percentile_ms(99.0), Some(20.0));
    assert_eq!(quality.mouth_to_ear_ms, Some(20.0 + 40.0 + 20.0));
    assert_eq!(quality.jitter.mean_ms(), Some(0.0));
    assert_eq!(quality.variation.mean_ms(), Some(0.0));
    assert_eq!(format!("{:.3}", quality.mos), "4.409");
}

#[test]
fn loss_and_late_packets_are_reported_apart_and_both_scored() {
    let mut delays = vec![Some(20); 98];
    delays.extend([None, Some(61)]);
    let quality = call(&delays).whole(&fixed(40)).expect("packets were sent");
    assert_eq!((quality.loss_pct(), quality.late), (1.0, 1));
    // Two unheard in a row: mean run 2 × 0.98.
    assert!((quality.burst_ratio - 1.96).abs() < 1e-12);
    let ie = 95.0 * 2.0 / (2.0 / 1.96 + 25.1);
    assert!((quality.rating - (93.2 - ie)).abs() < 1e-9);
    let deeper = call(&delays).whole(&fixed(41)).expect("packets were sent");
    assert_eq!(deeper.late, 0);
}

#[test]
fn the_part_from_an_instant_forgets_what_was_before() {
    let mut delays = vec![None; 10];
    delays.extend([Some(20); 10]);
    let record = call(&delays);
    let whole = record.whole(&fixed(40)).expect("packets were sent");
    let after = record.from_instant(Instant(1200 * MS), &fixed(40)).expect("packets were sent");
    assert_eq!((whole.sent, whole.received), (20, 10));
    assert_eq!((after.sent, after.received, after.loss_pct()), (10, 10, 0.0));
    assert_eq!(record.from_instant(Instant(1400 * MS), &fixed(40)), None);
}

#[test]
fn a_buffer_that_adapts_loses_three_packets_to_a_path_that_gets_longer() {
    // The second part of the way comes after 10 of 300 s.
    let delays: Vec<_> = (0..15_000).map(|i| Some(if i < 500 { 20 } else { 120 })).collect();
    let record = call(&delays);
    let rigid = record.whole(&fixed(40)).expect("packets were sent");
    assert_eq!((rigid.late, format!("{:.2}", rigid.mos).as_str()), (14_500, "1.00"));
    let following = record.whole(&Scoring::default()).expect("packets were sent");
    let constant = call(&[Some(120); 15_000]).whole(&Scoring::default()).expect("packets were sent");
    assert_eq!(following.late, 3);
    assert!((constant.mos - following.mos).abs() < 0.02, "{} of {}", following.mos, constant.mos);
}

/// G.107 with Ie = 0 and Bpl = 25.1 (G.113, G.711 with concealment), for random loss.
#[test]
fn random_loss_costs_what_the_e_model_says() {
    let mut seed = 1_u64;
    let mut lost = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 32 < (1 << 32) / 1_000 * 32
    };
    let delays: Vec<_> = (0..15_000).map(|_| (!lost()).then_some(20)).collect();
    let quality = call(&delays).whole(&Scoring::default()).expect("packets were sent");
    let loss = quality.loss_pct();
    assert!((3.0..3.4).contains(&loss) && quality.late == 0);
    let effective = 95.0 * loss / (loss / quality.burst_ratio + 25.1);
    assert!((quality.rating - (93.2 - effective)).abs() < 1e-9);
    assert_eq!(format!("{:.1}", quality.mos), "4.1");
}

#[test]
fn jitter_in_both_definitions() {
    let quality =
        call(&[Some(20), Some(24), Some(20), Some(24)]).whole(&fixed(40)).expect("packets were sent");
    // |Δ| = 4, 4, 4 ms: 12 / 4 received.
    assert_eq!((quality.variation.mean_ms(), quality.variation.max_ms), (Some(3.0), 4.0));
    // In ns, sixteenths rounded: J = 0.25, 0.484375, 0.704102 (J += (4 − J)/16).
    let max = quality.jitter.max_ms;
    assert!((max - 0.704_102).abs() < 1e-5, "{max}");
}

#[test]
fn a_call_of_which_nothing_arrives_scores_the_floor() {
    let quality = call(&[None; 50]).whole(&fixed(40)).expect("packets were sent");
    assert_eq!((quality.loss_pct(), quality.mouth_to_ear_ms), (100.0, None));
    assert_eq!(quality.mos, 1.0, "nothing is worse than a call that is not heard");
    assert!(quality.delay.is_empty());
}

#[test]
fn copies_and_huge_indices_are_counted() {
    let mut record = call(&[Some(20)]);
    let packet =
        Received { index: 0, rtp_timestamp: 0, sent: Instant(1000 * MS), arrived: Instant(1020 * MS) };
    record.received(packet);
    record.received(Received { index: MAX_PACKETS, ..packet });
    assert_eq!((record.duplicates(), record.refused()), (1, 1));
}

#[test]
fn delays_are_what_the_clocks_say_even_if_negative() {
    let mut record = CallRecord::new(Codec::G711U);
    for (index, arrived) in [(0, 1007), (1, 1017), (2, 1037)] {
        let sent = Instant((1000 + 20 * u64::from(index)) * MS);
        record.received(Received { index, rtp_timestamp: 160 * index, sent, arrived: Instant(arrived * MS) });
    }
    // 7, −3 and −3 ms; played 40 ms behind the smallest, with 20 ms of speech in a packet.
    let quality = record.whole(&fixed(40)).expect("packets were sent");
    assert_eq!((quality.delay.min_ms(), quality.delay.max_ms()), (Some(-3.0), Some(7.0)));
    assert_eq!((quality.mouth_to_ear_ms, quality.late), (Some(57.0), 0));
    assert_eq!(quality.variation.max_ms, 10.0);
}

#[test]
fn without_the_senders_log_losses_are_dated_by_their_neighbours() {
    let mut record = CallRecord::new(Codec::G711U);
    for i in [2u32, 3, 6] {
        let sent = Instant(1000 * MS + u64::from(i) * 20 * MS);
        record.received(Received { index: i, rtp_timestamp: i * 160, sent, arrived: sent });
    }
    let sent: Vec<u64> = record.packets().map(|(sent, _)| sent.as_nanos() / MS).collect();
    assert_eq!(sent, [1000, 1020, 1040, 1060, 1080, 1100, 1120]);
}

#[test]
fn a_pool_takes_the_worst_score_and_all_packets() {
    let good = call(&[Some(20); 10]).whole(&fixed(40)).expect("sent");
    let bad = call(&[Some(30), None, Some(30), None]).whole(&fixed(40)).expect("sent");
    let pool: QualityPool = [&good, &bad].into_iter().collect();
    assert_eq!((pool.calls, pool.sent, pool.received), (2, 14, 12));
    let mut one_by_one = QualityPool::default();
    one_by_one.add(&good);
    one_by_one.add(&bad);
    assert_eq!(pool, one_by_one);
    assert_eq!(pool.mos_min(), Some(bad.mos));
    assert_eq!(pool.delay.max_ms(), Some(30.0));
    assert_eq!(QualityPool::default().loss_pct(), None);
    assert_eq!(QualityPool::default().mos_mean(), None);
}

proptest! {
    /// Packets are conserved, and feeding in another order changes nothing.
    #[test]
    fn order_of_feeding_does_not_matter(
        delays in prop::collection::vec(prop::option::weighted(0.8, 0u64..300), 1..120), turn in 0usize..120,
    ) {
        let straight = call(&delays);
        let mut order: Vec<usize> = (0..delays.len()).collect();
        order.rotate_left(turn % delays.len());
        let mut turned = CallRecord::new(Codec::G711U);
        for i in order {
            let sent = Instant(1000 * MS + i as u64 * 20 * MS);
            if let Some(ms) = delays[i] {
                let arrived = sent + Duration::from_millis(ms);
                turned.received(Received { index: i as u32, rtp_timestamp: i as u32 * 160, sent, arrived });
            }
            turned.sent(i as u32, sent);
        }
        let a = straight.whole(&fixed(40));
        prop_assert_eq!(&a, &turned.whole(&fixed(40)));
        let a = a.expect("packets were sent");
        prop_assert_eq!(a.received as usize, delays.iter().flatten().count());
        prop_assert!(a.late <= a.received);
        prop_assert!(a.burst_ratio >= 1.0);
    }

    /// Independent losses have a burst ratio near 1.
    #[test]
    fn random_loss_has_no_bursts(seed in any::<u64>()) {
        let mut x = seed | 1;
        let heard: Vec<bool> = (0..20_000).map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 40) % 10 != 0
        }).collect();
        let ratio = burst_ratio(&heard);
        prop_assert!((1.0..1.1).contains(&ratio), "{}", ratio);
    }
}
