use super::*;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};

fn head(first: u8, second: u8, seq: u16, ts: u32, ssrc: u32) -> [u8; 12] {
    let mut h = [first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    h[2..4].copy_from_slice(&seq.to_be_bytes());
    h[4..8].copy_from_slice(&ts.to_be_bytes());
    h[8..].copy_from_slice(&ssrc.to_be_bytes());
    h
}

fn ms(n: u64) -> Instant {
    Instant(n * 1_000_000)
}

/// Sends `count` packets `gap` ms and `ticks` apart from `start`; the number of the deciding one.
fn train(d: &mut RtpDetector, start: u64, gap: u64, ticks: u32, count: u32, ssrc: u32) -> Option<u64> {
    (0..count).fold(None, |found, i| {
        let h =
            head(0x80, 0, 65_530_u16.wrapping_add(i as u16), 0xffff_ff00_u32.wrapping_add(i * ticks), ssrc);
        let made = d.observe(ms(start + u64::from(i) * gap), 172, &h);
        found.or(made.map(|m| m.packet))
    })
}

#[test]
fn ten_packets_within_a_second_and_not_one_less() {
    let mut d = RtpDetector::new(RtpSettings::default());
    assert_eq!(train(&mut d, 0, 20, 160, 9, 7), None);
    assert_eq!(train(&mut RtpDetector::new(RtpSettings::default()), 0, 20, 160, 50, 7), Some(10));
    // Ten packets at 111 ms are exactly 999 ms apart, at 113 ms more than a second.
    assert_eq!(train(&mut RtpDetector::new(RtpSettings::default()), 5, 111, 888, 50, 7), Some(10));
    assert_eq!(train(&mut RtpDetector::new(RtpSettings::default()), 5, 113, 904, 50, 7), None);
}

#[test]
fn numbers_of_packets_at_both_ends_of_the_range() {
    for n in [3, 10, 32, 33, 64] {
        let s = RtpSettings::new(n, Duration::from_secs(2), Duration::from_secs(30)).unwrap();
        assert_eq!(train(&mut RtpDetector::new(s), 0, 20, 960, 200, 1), Some(u64::from(n)), "{n}");
    }
    assert_eq!(
        RtpSettings::new(65, Duration::from_secs(1), Duration::from_secs(1)),
        Err(RtpSettingsError::Packets(65))
    );
    let zero = Duration::ZERO;
    assert_eq!(RtpSettings::new(10, zero, Duration::from_secs(1)), Err(RtpSettingsError::Within(0)));
    assert_eq!(RtpSettings::new(10, Duration::from_secs(1), zero), Err(RtpSettingsError::Idle(0)));
}

#[test]
fn a_slow_start_slides_out_of_the_window() {
    let mut d = RtpDetector::new(RtpSettings::default());
    // Five packets at 200 ms, then ten at 20 ms: counted from those within the last second.
    for i in 0..5_u16 {
        assert_eq!(d.observe(ms(u64::from(i) * 200), 172, &head(0x80, 8, i, u32::from(i) * 1600, 9)), None);
    }
    let decided = (0..10).find_map(|i: u16| {
        let at = 820 + u64::from(i) * 20;
        d.observe(ms(at), 172, &head(0x80, 8, 5 + i, (at * 8) as u32, 9)).map(|m| m.packet)
    });
    // The packet at 0 is gone when the tenth within a second comes, at 1,000 ms or before.
    assert_eq!(decided, Some(10));
}

#[test]
fn late_and_repeated_packets_neither_count_nor_harm() {
    let mut d = RtpDetector::new(RtpSettings::default());
    let order = [0, 1, 3, 2, 3, 4, 5, 6, 7, 8, 9, 10_u16];
    let decided = order.iter().enumerate().find_map(|(i, seq)| {
        d.observe(ms(i as u64 * 20), 172, &head(0x80, 0, *seq, u32::from(*seq) * 160, 3)).map(|m| m.packet)
    });
    assert_eq!(decided, Some(12));
}

#[test]
fn video_decides_at_its_second_frame() {
    let mut d = RtpDetector::new(RtpSettings::default());
    let mut decided = None;
    for i in 0..40_u16 {
        let frame = u64::from(i / 20);
        let at = frame * 33 + u64::from(i % 20) / 5;
        let made = d.observe(ms(at), 1200, &head(0x90, 96, i, 3000 * frame as u32, 5));
        decided = decided.or(made.map(|m| (m.packet, m.payload_type)));
    }
    assert_eq!(decided, Some((21, 96)));
}

#[test]
fn audio_and_video_interleaved_on_one_five_tuple() {
    let mut d = RtpDetector::new(RtpSettings::default());
    let decided = (0..60_u16).find_map(|i| {
        let (n, ssrc) = (i / 2, u32::from(i % 2) + 1);
        d.observe(ms(u64::from(i) * 10), 172, &head(0x80, 96 + ssrc as u8, n, u32::from(n) * 960, ssrc))
    });
    assert_eq!(decided.map(|m| (m.packet, m.ssrc)), Some((19, 1)));
}

#[test]
fn another_ssrc_goes_on_the_flow_and_silence_ends_it() {
    let mut d = RtpDetector::new(RtpSettings::default());
    assert_eq!(train(&mut d, 0, 20, 160, 50, 7), Some(10));
    assert_eq!(d.current(ms(1000)).map(|m| m.ssrc), Some(7));
    assert_eq!(train(&mut d, 2000, 20, 160, 20, 8), Some(60));
    assert_eq!(d.current(ms(20_000)).map(|m| m.ssrc), Some(8));
    assert_eq!(d.current(ms(33_000)), None);
    // Non-RTP packets for longer than the idle time do not keep it.
    d.observe(ms(40_000), 40, &[0; 12]);
    assert_eq!(d.current(ms(40_000)), None);
}

#[test]
fn look_alikes_are_not_rtp() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    type Make = fn(u32, &mut rand_pcg::Pcg64Mcg) -> [u8; 12];
    let makers: [(&str, Make); 9] = [
        ("quic short header: connection id at offset 1", |_, rng| {
            head(0x40 | rng.next_u32() as u8 & 0x3f, 7, 1, 2, 3)
        }),
        ("quic long header", |i, _| head(0xc3, 0, 1, 0x0100_0000, i)),
        ("stun", |i, _| head(0, 1, 88, 0x2112_a442, i)),
        ("dtls", |i, _| head(23, 254, 0xfd00, 0, i)),
        ("rtps", |i, _| head(b'R', b'T', 0x5053, 0x0202_0101, i)),
        ("rtcp", |i, _| head(0x80, 200, i as u16, i * 160, 3)),
        ("random bytes", |_, rng| {
            let mut h = [0; 12];
            rng.fill_bytes(&mut h);
            h
        }),
        ("a counter and a constant", |i, _| head(0x80, 1, i as u16, 0x0102_0304, 3)),
        ("a counter, and a timestamp of another clock", |i, _| head(0x80, 1, i as u16, i, 3)),
    ];
    for (name, make) in makers {
        let mut d = RtpDetector::new(RtpSettings::default());
        for i in 0..2000 {
            let made = d.observe(ms(u64::from(i) * 20), 200, &make(i, &mut rng));
            assert_eq!(made, None, "{name}, packet {i}");
        }
    }
    let mut short = RtpDetector::new(RtpSettings::default());
    for i in 0..100_u16 {
        assert_eq!(short.observe(ms(u64::from(i) * 20), 11, &head(0x80, 0, i, u32::from(i) * 160, 1)), None);
    }
}

proptest! {
    /// Any codec clock and packet time, through loss, jitter and reordering by one, is found; and soon.
    #[test]
    fn trains_are_found(
        clock in prop_oneof![Just(8_000u64), Just(16_000), Just(48_000), Just(90_000)],
        gap in 5..60u64,
        loss in 0..40u8,
        jitter in 0..8u64,
        start in any::<(u16, u32, u32)>(),
        seed in any::<u64>(),
    ) {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut d = RtpDetector::new(RtpSettings::default());
        let (mut received, mut decided) = (0, None);
        // By the rule alone: the first packet whose tenth predecessor, itself counted, came within a second.
        let (mut arrivals, mut due) = (Vec::new(), None);
        for i in 0..300_u64 {
            if rng.next_u32() % 100 < u32::from(loss) {
                continue;
            }
            received += 1;
            let ts = start.1.wrapping_add((clock * gap * i / 1000) as u32);
            let at = 1_000 + gap * i + u64::from(rng.next_u32()) % (jitter + 1).min(gap);
            arrivals.push(at);
            if due.is_none() && received >= 10 && at.saturating_sub(arrivals[received as usize - 10]) <= 1_000 {
                due = Some(received);
            }
            let h = head(0x80, 96, start.0.wrapping_add(i as u16), ts, start.2);
            if let Some(made) = d.observe(ms(at), 100, &h) {
                decided = Some((made.packet, received));
                break;
            }
        }
        let Some(due) = due else { return Ok(()) };
        let (packet, at) = decided.expect("found");
        prop_assert_eq!(packet, at);
        prop_assert!(packet <= due + 10, "at packet {}, due at {}", packet, due);
    }
}
