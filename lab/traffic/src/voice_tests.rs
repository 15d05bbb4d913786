use super::*;

const G711: VoiceFormat = VoiceFormat {
    payload_type: 0,
    payload_bytes: 160,
    packet_interval: Duration::from_millis(20),
    timestamp_step: 160,
};

fn config(calls: u16) -> VoiceConfig {
    VoiceConfig {
        calls,
        format: G711,
        start: Duration::from_secs(1),
        spacing: Duration::from_millis(300),
        length: Duration::from_secs(4),
        activity: Activity::Continuous,
        first_stream: 100,
    }
}

fn calls(config: VoiceConfig, seed: u64) -> VoiceCalls {
    VoiceCalls::new(config, Seed::new(seed)).expect("valid")
}

#[test]
fn every_call_sends_one_packet_an_interval_and_none_early() {
    for seed in 0..20 {
        let source = calls(config(10), seed);
        let starts: Vec<Duration> = source.calls.iter().map(|call| call.begin).collect();
        let mut counts = [0u32; 10];
        let mut last = Duration::ZERO;
        for emission in source {
            assert!(emission.at >= last, "in order of time");
            last = emission.at;
            let i = usize::from(emission.stream - 100);
            let rtp = emission.rtp.expect("speech is RTP");
            assert_eq!(emission.index, counts[i]);
            assert_eq!(emission.at.as_nanos(), starts[i].as_nanos() + u64::from(counts[i]) * 20_000_000);
            assert_eq!((rtp.marker, emission.len), (counts[i] == 0, 172));
            counts[i] += 1;
        }
        assert_eq!(counts, [200; 10]);
        for (i, start) in starts.iter().enumerate() {
            let nominal = 1_000_000_000 + i as u64 * 300_000_000;
            assert!((nominal..nominal + 20_000_000).contains(&start.as_nanos()));
        }
    }
}

/// Kolmogorov–Smirnov against the uniform distribution, at the one-percent level: D < 1.63 / √n.
#[test]
fn phases_are_uniform_over_the_interval() {
    let n = 4000u16;
    let source = calls(VoiceConfig { spacing: Duration::ZERO, ..config(n) }, 5);
    let mut phases: Vec<f64> = (0..n)
        .map(|i| (source.calls[usize::from(i)].begin.as_nanos() - 1_000_000_000) as f64 / 20e6)
        .collect();
    phases.sort_by(f64::total_cmp);
    let worst = phases
        .iter()
        .enumerate()
        .map(|(i, phase)| (phase - i as f64 / f64::from(n)).abs())
        .fold(0.0, f64::max);
    assert!(worst < 1.63 / f64::from(n).sqrt(), "{worst}");
}

#[test]
fn sequence_and_time_stamp_follow_the_call() {
    let emissions: Vec<Emission> = calls(config(1), 3).collect();
    let headers: Vec<RtpHeader> = emissions.iter().map(|e| e.rtp.expect("speech is RTP")).collect();
    for pair in headers.windows(2) {
        assert_eq!(pair[1].sequence, pair[0].sequence.wrapping_add(1));
        assert_eq!(pair[1].timestamp, pair[0].timestamp.wrapping_add(160));
        assert_eq!(pair[1].ssrc, pair[0].ssrc);
    }
}

#[test]
fn the_same_seed_gives_the_same_calls_and_more_calls_change_none() {
    let few: Vec<Emission> = calls(config(3), 8).collect();
    let again: Vec<Emission> = calls(config(3), 8).collect();
    let other: Vec<Emission> = calls(config(3), 9).collect();
    let more: Vec<Emission> = calls(config(7), 8).filter(|e| e.stream < 103).collect();
    assert_eq!(few, again);
    assert_ne!(few, other);
    assert_eq!(few, more);
}

/// Brady's conversation: 1.0 s of talk, 1.35 s of silence give an activity of 42.6 %.
#[test]
fn silence_suppression_sends_the_share_of_talk() {
    let activity =
        Activity::TalkSpurts { talk: Duration::from_millis(1000), silence: Duration::from_millis(1350) };
    let config = VoiceConfig { activity, length: Duration::from_secs(4000), ..config(4) };
    let mut last = std::collections::BTreeMap::<u16, (u16, u32, Duration)>::new();
    let mut sent = 0u32;
    for emission in calls(config, 1) {
        let rtp = emission.rtp.expect("speech is RTP");
        if let Some((sequence, timestamp, at)) =
            last.insert(emission.stream, (rtp.sequence, rtp.timestamp, emission.at))
        {
            let gap = (emission.at.as_nanos() - at.as_nanos()) / 20_000_000;
            assert_eq!(rtp.sequence, sequence.wrapping_add(1));
            assert_eq!(rtp.timestamp.wrapping_sub(timestamp), gap as u32 * 160);
            assert_eq!(rtp.marker, gap > 1);
        }
        sent += 1;
    }
    let share = f64::from(sent) / (4.0 * 4000.0 * 50.0);
    assert!((share - 1.0 / 2.35).abs() < 0.015, "{share}");
}

/// Payload bits an interval are the codec's rate, and the published 87.2 kbit/s of a G.711 call count 18 B of Ethernet.
#[test]
fn formats_have_the_rates_of_their_codecs() {
    let rate = |f: VoiceFormat, extra: u64| {
        (u64::from(f.payload_bytes) + extra) * 8 * 1_000_000_000 / f.packet_interval.as_nanos()
    };
    assert_eq!(rate(VoiceFormat::G711_ULAW, 0), 64_000);
    assert_eq!(rate(VoiceFormat::G711_ALAW, 12 + 28 + 18), 87_200);
    assert_eq!(rate(VoiceFormat::G729, 0), 8_000);
    assert_eq!(rate(VoiceFormat::G723_1_HIGH, 0), 6_400);
    assert_eq!(rate(VoiceFormat::G723_1_LOW, 0), 5_333);
    let speech = VoiceConfig {
        format: VoiceFormat::G723_1_LOW,
        activity: Activity::CONVERSATION,
        length: Duration::from_secs(4000),
        ..config(4)
    };
    let mut sent = 0u32;
    for emission in calls(speech, 4) {
        assert_eq!(emission.len, 32);
        sent += 1;
    }
    let share = f64::from(sent) * 0.03 / (4.0 * 4000.0);
    assert!((share - 1.004 / 2.591).abs() < 0.015, "{share}");
}

#[test]
fn wrong_parameters_are_named() {
    let new = |c| VoiceCalls::new(c, Seed::new(0)).map(|_| ());
    let with = |format| VoiceConfig { format, ..config(1) };
    assert_eq!(
        new(with(VoiceFormat { payload_bytes: 10, ..G711 })),
        Err(TrafficError::PayloadTooSmall { given: 10 })
    );
    assert_eq!(
        new(with(VoiceFormat { payload_bytes: 65500, ..G711 })),
        Err(TrafficError::PayloadTooLarge { given: 65500, limit: 65495 })
    );
    assert_eq!(
        new(with(VoiceFormat { payload_type: 128, ..G711 })),
        Err(TrafficError::PayloadType { given: 128 })
    );
    assert_eq!(
        new(with(VoiceFormat { packet_interval: Duration::ZERO, ..G711 })),
        Err(TrafficError::Zero { what: "packet interval" })
    );
    assert_eq!(
        new(VoiceConfig { first_stream: 65535, ..config(2) }),
        Err(TrafficError::StreamNumbers { first: 65535, count: 2 })
    );
    assert_eq!(new(VoiceConfig { first_stream: 65535, ..config(1) }), Ok(()));
}
