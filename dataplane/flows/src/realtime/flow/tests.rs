use super::*;
use perhop_units::Duration;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};

/// A detector on a connection of its own, fed with headers.
struct RtpDetector(FlowDetector, Evidence);

impl RtpDetector {
    fn new(settings: RtpSettings) -> Self {
        Self(FlowDetector::new(settings, Stages::default()), Evidence::default())
    }

    /// A payload of `len` bytes that begins with `head`.
    fn observe(&mut self, now: Instant, len: usize, head: &[u8]) -> Option<Decision> {
        let mut bytes = head.to_vec();
        bytes.resize(len, 0x55);
        self.0.observe(&mut self.1, now, &Payload::whole(&bytes))
    }

    fn current(&self, now: Instant) -> Option<Decision> {
        self.0.current(now)
    }
}

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
    // Ten packets at 111 ms are exactly 999 ms apart; at 130 ms they need an eighth more than a second.
    assert_eq!(train(&mut RtpDetector::new(RtpSettings::default()), 5, 111, 888, 50, 7), Some(10));
    assert_eq!(train(&mut RtpDetector::new(RtpSettings::default()), 5, 130, 1040, 50, 7), None);
}

#[test]
fn numbers_of_packets_at_both_ends_of_the_range() {
    for n in [3, 10, 32, 33, 64] {
        let s = RtpSettings::new(n, Duration::from_secs(2), Duration::from_secs(30)).unwrap();
        assert_eq!(train(&mut RtpDetector::new(s), 0, 20, 960, 200, 1), Some(u64::from(n)), "{n}");
    }
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

/// Three to five sources whose packets take turns, as a conference server sends them: each is found, whichever of them the
/// first packet is of, and one by one within a second for each.
#[test]
fn several_sources_in_turns_are_all_found() {
    for sources in 3..=5_u32 {
        for gap_ms in [20, 60] {
            let mut d = RtpDetector::new(RtpSettings::default());
            let mut found = std::collections::BTreeMap::new();
            for i in 0..200 * sources {
                let (n, ssrc) = (i / sources, i % sources + 1);
                let at = u64::from(n) * gap_ms + u64::from(ssrc) * 3;
                let h = head(0x80, 111, n as u16, n * 48 * gap_ms as u32, ssrc);
                if let Some(made) = d.observe(ms(at), 172, &h) {
                    found.entry(made.ssrc).or_insert(at);
                }
            }
            assert_eq!(found.len() as u32, sources, "{sources} sources, {gap_ms} ms: {found:?}");
            assert!(found.values().all(|at| *at <= u64::from(sources) * 1_000), "{found:?}");
        }
    }
}

/// Media and what protects it under two payload types of one SSRC, each with sequence numbers of its own: whichever comes
/// first, however often, and wherever the numbers begin.
#[test]
fn media_is_found_beside_error_correction_of_its_ssrc() {
    let begins = [(1_000_u16, 40_000_u16), (0, 0), (7, 3), (500, 440), (500, 560), (500, 505), (65_530, 10)];
    let cases = begins.into_iter().flat_map(|begin| [1, 2, 5, 10_u16].map(|every| (begin, every)));
    for ((media, fec), every) in cases {
        for (fec_first, offset) in [(false, 0), (true, 0), (false, 24), (true, 24)] {
            let mut d = RtpDetector::new(RtpSettings::default());
            let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(12);
            let (mut packets, mut found) = (0, None);
            for i in 0..200_u16 {
                let at = u64::from(i) * 20;
                let both = [(98, media.wrapping_add(i)), (110, fec.wrapping_add(i / every))];
                let order = if fec_first { [1, 0] } else { [0, 1] };
                for of in order.into_iter().filter(|of| *of == 0 || i % every == 0) {
                    packets += 1;
                    let (kind, sequence) = both[of];
                    let mut bytes = vec![5; offset];
                    rng.fill_bytes(bytes.get_mut(1..).unwrap_or_default());
                    bytes.extend_from_slice(&head(0x80, kind, sequence, u32::from(i) * 960, 0x0100_1801));
                    found = found.or(d.observe(ms(at), 200, &bytes).map(|_| packets));
                }
            }
            let name = format!("every {every}, {media} and {fec}, {fec_first}, {offset}");
            assert!(found.is_some_and(|n| n <= 30), "{name}: {found:?}");
        }
    }
}

/// What is never media holds no place for ever: timestamps that stand still, probes of whatever clock, and sources too slow.
#[test]
fn media_is_found_beside_sources_that_never_are() {
    type Stamp = fn(u32) -> u32;
    let others: [(&str, u32, Stamp); 5] = [
        ("still", 20, |_| 0x55),
        ("of no clock", 20, |i| i.wrapping_mul(0x9e37_79b9)),
        ("of nanoseconds", 20, |i| i.wrapping_mul(20_000_000)),
        ("too fast", 10, |i| i * 3_000),
        ("slow", 200, |i| i * 1_600),
    ];
    for (name, gap, stamp) in others {
        for (beside, beside_gap, beside_stamp) in others {
            let mut d = RtpDetector::new(RtpSettings::default());
            let (mut packets, mut found) = (0, None);
            for at in 0..6_000_u32 {
                for (ssrc, gap, stamp, kind) in [(1, gap, stamp, 97), (2, beside_gap, beside_stamp, 98)] {
                    if at % gap == ssrc {
                        let i = at / gap;
                        let h = head(0x80, kind, i as u16, stamp(i), ssrc);
                        assert!(d.observe(ms(at.into()), 172, &h).is_none_or(|m| m.ssrc == 7), "{name}");
                    }
                }
                if at >= 3_010 && (at - 3_010) % 20 == 0 {
                    let i = (at - 3_010) / 20;
                    packets += 1;
                    let made = d.observe(ms(at.into()), 172, &head(0x80, 0, i as u16, i * 160, 7));
                    found = found.or(made.map(|_| packets));
                }
            }
            assert!(found.is_some_and(|n| n <= 30), "{name} and {beside}: {found:?}");
        }
    }
}

fn full_frame(call: u16, stamp: u32, kind: [u8; 2], len: usize) -> Vec<u8> {
    let call = (call | 0x8000).to_be_bytes();
    let mut bytes = [&call[..], &[0, 9], &stamp.to_be_bytes(), &[0, 1], &kind].concat();
    bytes.resize(12 + len, 0x66);
    bytes
}

fn mini_frame(call: u16, stamp: u32, len: usize) -> Vec<u8> {
    let mut bytes = [call.to_be_bytes(), (stamp as u16).to_be_bytes()].concat();
    bytes.resize(4 + len, 0x66);
    bytes
}

#[test]
fn calls_of_iax2_are_recognised_with_and_without_their_beginning() {
    for begin in [20_u32, 65_400] {
        for (len, announced) in [(160, true), (33, true), (20, false), (160, false)] {
            let mut d = RtpDetector::new(RtpSettings::default());
            let made = first(&mut d, 40, |i| {
                let stamp = begin + u32::from(i) * 20;
                match i {
                    0 if announced => full_frame(0x1c34, stamp, [2, 4], len),
                    _ => mini_frame(0x1c34, stamp, len),
                }
            });
            let made = made.map(|m| (m.reason, m.packet, m.ssrc));
            assert_eq!(made, Some((Reason::Iax2, 10, 0x1c34)), "{begin} {len} {announced}");
            assert!(d.current(ms(400)).is_some());
        }
    }
    // A codec of changing lengths, with losses and jitter, once it was announced.
    let mut d = RtpDetector::new(RtpSettings::default());
    let made = (0..60_u32).filter(|i| i % 7 != 3).find_map(|i| {
        let at = ms(u64::from(i * 20 + i * 5 % 9));
        let bytes = if i == 0 {
            full_frame(9, 400, [2, 0x89], 40)
        } else {
            mini_frame(9, 400 + i * 20, 20 + i as usize % 30)
        };
        d.observe(at, bytes.len(), &bytes)
    });
    assert_eq!(made.map(|m| (m.reason, m.packet)), Some((Reason::Iax2, 10)));
    // What is no longer the call ends it.
    let at = |i: u64| ms(2_000 + i * 20);
    for i in 0..33 {
        d.observe(at(i), 60, &[0x11; 60]);
    }
    assert_eq!(d.current(at(33)), None);
}

#[test]
fn what_looks_like_iax2_in_part_is_not() {
    type Make = fn(u32, &mut rand_pcg::Pcg64Mcg) -> Vec<u8>;
    let makers: [(&str, Make); 8] = [
        ("milliseconds in 32 bits, and updates as they come", |i, rng| {
            mini_frame(3, i * 20 + rng.next_u32() % 4, 164)
        }),
        ("a counter", |i, _| mini_frame(3, i, 160)),
        ("a length of no codec", |i, _| mini_frame(3, i * 20, 77)),
        ("changing lengths", |i, _| mini_frame(3, i * 20, 20 + i as usize % 9)),
        ("another clock", |i, _| mini_frame(3, i * 160, 160)),
        ("a call number that changes", |i, _| mini_frame(3 + i as u16 % 2, i * 20, 160)),
        ("no call number", |i, _| mini_frame(0, i * 20, 160)),
        ("full frames of signalling", |i, _| full_frame(3, i * 20, [6, 11], 4)),
    ];
    for (name, make) in makers {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(11);
        let mut d = RtpDetector::new(RtpSettings::default());
        for i in 0..2_000 {
            let bytes = make(i, &mut rng);
            assert_eq!(d.observe(ms(u64::from(i) * 20), bytes.len(), &bytes), None, "{name}, packet {i}");
        }
    }
}

/// Small, frequent and regular, and yet no media: a tunnel in DNS, synchrophasors, and probes with a pattern.
#[test]
fn statistics_do_not_take_plain_packets_for_media() {
    type Make = fn(u16, &mut rand_pcg::Pcg64Mcg) -> Vec<u8>;
    let random = |rng: &mut rand_pcg::Pcg64Mcg, begin: &[u8], len: usize| {
        let mut bytes = vec![0; len];
        rng.fill_bytes(&mut bytes);
        bytes[..begin.len()].copy_from_slice(begin);
        bytes
    };
    let makers: [(&str, Make, bool); 5] = [
        ("encrypted", |_, _| Vec::new(), true),
        (
            "dns",
            |i, rng| {
                let mut name: Vec<u8> = (0..60).map(|_| b'a' + (rng.next_u32() % 26) as u8).collect();
                name.insert(0, 60);
                [&i.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &name, &[0, 0, 16, 0, 1]].concat()
            },
            false,
        ),
        (
            "synchrophasors",
            |i, rng| {
                let mut bytes = vec![0xaa, 1, 0, 54, 0, 7];
                bytes.extend_from_slice(&u32::from(i).to_be_bytes());
                bytes.resize_with(54, || rng.next_u32() as u8);
                bytes
            },
            false,
        ),
        ("a pattern", |i, _| [&[0; 10][..], &i.to_be_bytes(), &(0..60).collect::<Vec<u8>>()].concat(), false),
        ("zeros", |i, _| [&i.to_be_bytes()[..], &[0; 98]].concat(), false),
    ];
    for (name, make, expected) in makers {
        let stages = Stages { statistical: Some(Default::default()), ..Stages::default() };
        let mut d = RtpDetector(FlowDetector::new(RtpSettings::default(), stages), Evidence::default());
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(4);
        let made = first(&mut d, 1_000, |i| {
            let made = make(i, &mut rng);
            if made.is_empty() { random(&mut rng, &[9; 16], 150) } else { made }
        });
        assert_eq!(made.map(|m| m.reason), expected.then_some(Reason::Statistical), "{name}");
    }
}

/// What stands before the headers may look like one of another source each time, and keeps no place from them.
#[test]
fn headers_behind_what_looks_like_headers_are_found() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(9);
    let mut d = RtpDetector::new(RtpSettings::default());
    let made = (0..60_u16).find_map(|i| {
        let mut bytes = [0x80; 28];
        rng.fill_bytes(&mut bytes[2..16]);
        bytes[16..].copy_from_slice(&head(0x80, 0, i, u32::from(i) * 160, 7));
        d.observe(ms(u64::from(i) * 20), 188, &bytes)
    });
    assert_eq!(made.map(|m| (m.reason, m.offset, m.ssrc)), Some((Reason::RtpAtOffset, 16, 7)));
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

/// Headers in RTP's order with a clock of 1 MHz: at high rates the first packets fit the jitter that media is forgiven.
#[test]
fn a_clock_of_microseconds_is_not_a_codecs() {
    for gap_us in [50, 200, 1_000, 2_000, 3_300, 5_000, 10_000, 20_000] {
        let mut d = RtpDetector::new(RtpSettings::default().with_regular(6).unwrap());
        for i in 0..2_000_u64 {
            let us = i * gap_us + i * 7 % 40;
            let made = d.observe(Instant(us * 1_000), 200, &head(0x80, 1, i as u16, us as u32, 3));
            assert_eq!(made, None, "{gap_us} us, packet {i}");
        }
    }
    // Speech that a queue held up and let go at once is recognised once its clock is seen.
    let mut d = RtpDetector::new(RtpSettings::default());
    let decided = (0..40_u32).find_map(|i| {
        let at = u64::from(i) * 20;
        d.observe(ms(at.max(300)), 172, &head(0x80, 0, i as u16, i * 960, 3)).map(|m| m.packet)
    });
    assert!(decided.is_some_and(|n| (17..=40).contains(&n)), "{decided:?}");
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

/// G.711 with the header at `offset` of bytes that are random but for a constant first one.
fn wrapped(offset: usize, i: u16, rng: &mut rand_pcg::Pcg64Mcg) -> Vec<u8> {
    let mut bytes = vec![5; 1];
    bytes.resize(offset, 0);
    rng.fill_bytes(&mut bytes[1..]);
    bytes.extend_from_slice(&head(0x80, 0, i, u32::from(i) * 160, 0x0100_1801));
    bytes.resize(offset + 172, 0x55);
    bytes
}

fn first(d: &mut RtpDetector, count: u16, payload: impl FnMut(u16) -> Vec<u8>) -> Option<Decision> {
    let mut payload = payload;
    (0..count).find_map(|i| {
        let bytes = payload(i);
        d.observe(ms(u64::from(i) * 20), bytes.len(), &bytes)
    })
}

#[test]
fn an_undecided_flow_fits_its_slot() {
    assert_eq!(size_of::<Undecided>(), 120);
}

#[test]
fn fewer_packets_suffice_where_more_speaks_for_them() {
    let dtls = [&[22, 254, 253][..], &[0; 20]].concat();
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[0; 12]].concat();
    let zrtp = [&[16, 0, 0, 0][..], b"ZRTP", &[0; 8]].concat();
    let rtcp = [&[0x80, 200, 0, 6][..], &[0; 24]].concat();
    for (signal, reason) in [
        (dtls, Reason::SrtpAfterDtls),
        (stun, Reason::RtpAfterStun),
        (zrtp, Reason::SrtpAfterZrtp),
        (rtcp, Reason::RtpWithRtcp),
    ] {
        let mut d = RtpDetector::new(RtpSettings::default());
        // The other direction has shown it.
        let mut other = FlowDetector::new(RtpSettings::default(), Stages::default());
        other.observe(&mut d.1, ms(0), &Payload::whole(&signal));
        let made = first(&mut d, 20, |i| head(0x80, 96, i, u32::from(i * i) * 160, 3).to_vec()).unwrap();
        assert_eq!((made.packet, made.reason), (3, reason));
    }
    // One frame of video without an end, and nothing for it but itself.
    let frame = |seen: Evidence| {
        let mut d = RtpDetector::new(RtpSettings::default());
        d.1.note(seen);
        first(&mut d, 40, |i| head(0x80, 96, i, 9, 3).to_vec()).map(|m| m.packet)
    };
    assert_eq!((frame(Evidence::DTLS), frame(Evidence::default())), (Some(10), None));
    // A clock of 1 kHz, as some applications have.
    let slow = |seen: Evidence| {
        let mut d = RtpDetector::new(RtpSettings::default());
        d.1.note(seen);
        first(&mut d, 40, |i| head(0x90, 101, i, u32::from(i) * 20, 3).repeat(2)).map(|m| m.packet)
    };
    assert_eq!((slow(Evidence::RTCP), slow(Evidence::default())), (Some(3), None));
    // Equal steps without a gap, if so configured; steps that are not equal need all ten.
    let settings = RtpSettings::default().with_regular(6).unwrap();
    let steps = |step: fn(u16) -> u32| {
        let mut d = RtpDetector::new(settings);
        first(&mut d, 20, |i| head(0x80, 8, i, step(i), 3).to_vec()).map(|m| m.packet)
    };
    assert_eq!(steps(|i| u32::from(i) * 160), Some(6));
    assert_eq!(steps(|i| u32::from(i) * 160 + u32::from(i > 3) * 80), Some(10));
}

#[test]
fn channel_data_is_looked_into() {
    let mut d = RtpDetector::new(RtpSettings::default());
    let made = first(&mut d, 20, |i| {
        [&[0x40, 1, 0, 172][..], &head(0x80, 0, i, u32::from(i) * 160, 7), &[0x55; 160]].concat()
    });
    let made = made.unwrap();
    assert_eq!((made.reason, made.packet, made.offset), (Reason::RtpInTurnChannel, 3, 4));
}

#[test]
fn headers_behind_others_are_found_up_to_the_bound() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(2);
    for offset in [1, 4, 8, 19, 24, 27, 32, 36] {
        let mut d = RtpDetector::new(RtpSettings::default());
        let made = first(&mut d, 40, |i| wrapped(offset, i, &mut rng)).unwrap();
        assert_eq!((made.reason, usize::from(made.offset), made.packet), (Reason::RtpAtOffset, offset, 10));
        assert_eq!(made.ssrc, 0x0100_1801);
    }
    let mut d = RtpDetector::new(RtpSettings::default());
    assert_eq!(first(&mut d, 100, |i| wrapped(37, i, &mut rng)), None);
    let without = Stages { wrapped: false, ..Stages::default() };
    let mut d = RtpDetector(FlowDetector::new(RtpSettings::default(), without), Evidence::default());
    assert_eq!(first(&mut d, 100, |i| wrapped(8, i, &mut rng)), None);
}

#[test]
fn a_counter_a_constant_and_milliseconds_behind_a_header_are_not_rtp() {
    // A protocol with sequence number, constant and a clock of 1 kHz, at every offset.
    for offset in 0..=36 {
        let mut d = RtpDetector::new(RtpSettings::default());
        let made = first(&mut d, 300, |i| {
            [&vec![1; offset][..], &head(0x80, 1, i, u32::from(i) * 20, 99), &[0; 20]].concat()
        });
        assert_eq!(made, None, "{offset}");
    }
}

#[test]
fn fax_is_recognised_by_its_structure() {
    let mut d = RtpDetector::new(RtpSettings::default());
    let packet = |i: u16| {
        let mut bytes = i.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[5, 0xc0, 1, 0x80, i as u8, 9, 0, 1, 5, 0xc0, 1, 0x80, 7, 9]);
        bytes
    };
    let made = (0..20).find_map(|i| d.observe(ms(u64::from(i) * 500), 16, &packet(i))).unwrap();
    assert_eq!((made.reason, made.packet), (Reason::T38, 6));
    assert_eq!(d.current(ms(5_000)).map(|c| c.reason), Some(Reason::T38));
}

#[test]
fn what_no_longer_fits_is_let_go() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
    let mut d = RtpDetector::new(RtpSettings::default());
    assert_eq!(train(&mut d, 0, 20, 160, 11, 7), Some(10));
    let mut noise = |d: &mut RtpDetector, n: u64| {
        for i in 0..n {
            let mut bytes = [0x45; 40];
            rng.fill_bytes(&mut bytes[1..]);
            d.observe(ms(300 + i), 40, &bytes);
        }
    };
    noise(&mut d, 31);
    assert!(d.current(ms(400)).is_some());
    noise(&mut d, 1);
    assert_eq!((d.current(ms(400)), d.0.contradictions()), (None, 1));
    // Once it has fitted for long it was media all the same.
    assert!(train(&mut d, 1_000, 20, 160, 60, 7).is_some());
    noise(&mut d, 40);
    assert_eq!((d.current(ms(2_500)), d.0.contradictions()), (None, 1));
}

#[test]
fn statistics_speak_when_asked_and_only_then() {
    let run = |statistical| {
        let stages = Stages { statistical, ..Stages::default() };
        let mut d = RtpDetector(FlowDetector::new(RtpSettings::default(), stages), Evidence::default());
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(4);
        let made = first(&mut d, 400, |_| {
            let mut bytes = vec![0; 90];
            rng.fill_bytes(&mut bytes);
            bytes
        });
        (made.map(|m| m.reason), d)
    };
    assert_eq!(run(None).0, None);
    let (reason, mut d) = run(Some(crate::realtime::statistics::Statistical::default()));
    assert_eq!(reason, Some(Reason::Statistical));
    assert!(d.current(ms(3_500)).is_some());
    for i in 0..400_u64 {
        d.observe(ms(8_000 + i * 20), 1_000, &[7; 12]);
    }
    assert!(d.current(ms(16_000)).is_none());
}

proptest! {
    /// Random bytes, however regular their times, are nothing.
    #[test]
    fn noise_is_nothing(seed in any::<u64>(), gap in 1..100u64, len in 1..200usize) {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut d = RtpDetector::new(RtpSettings::default().with_regular(3).unwrap());
        for i in 0..200 {
            let mut bytes = vec![0; len];
            rng.fill_bytes(&mut bytes);
            prop_assert_eq!(d.observe(ms(i * gap), len, &bytes), None);
        }
    }

    /// Whatever the bytes and lengths: no panic, and no decision before the third packet.
    #[test]
    fn any_bytes(packets in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..60), 0..200usize, 0..50u64), 0..60)) {
        let statistical = Some(crate::realtime::statistics::Statistical::default());
        let stages = Stages { wrapped: true, statistical };
        let mut d = FlowDetector::new(RtpSettings::default(), stages);
        let mut evidence = Evidence::default();
        let mut at = 0;
        for (bytes, more, gap) in packets {
            at += gap;
            let payload = Payload { bytes: &bytes, len: bytes.len() + more, ip_len: 28 };
            if let Some(made) = d.observe(&mut evidence, ms(at), &payload) {
                prop_assert!(made.packet >= 3 && (50..100).contains(&made.confidence), "{:?}", made);
            }
        }
    }
}
