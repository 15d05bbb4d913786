use super::*;
use perhop_wire::{dissect, rtp};
use std::collections::BTreeMap;

fn mix(flows: u64, seed: u64) -> LabelledMix {
    LabelledMix::new(LabelledConfig { flows, seed: Seed::new(seed) })
}

#[test]
fn packets_come_in_order_and_a_flow_is_of_one_kind() {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let mut last = Duration::ZERO;
    for packet in mix(300, 1) {
        assert!(packet.at >= last);
        last = packet.at;
        let known = *kinds.entry(packet.flow()).or_insert(packet.kind);
        assert_eq!(known, packet.kind, "{}", packet.flow());
    }
    assert_eq!(kinds.len(), 300);
    let media = kinds.values().filter(|k| k.is_media()).count();
    assert!((60..200).contains(&media), "{media}");
}

#[test]
fn a_mix_has_as_many_flows_as_were_asked_for() {
    for flows in 1..60 {
        let found: std::collections::BTreeSet<_> = mix(flows, 5).map(|packet| packet.flow()).collect();
        assert_eq!(found.len() as u64, flows);
    }
}

#[test]
fn a_seed_is_a_mix() {
    let hash = |seed| {
        let frames = mix(60, seed).map(|p| (p.at, p.frame()));
        frames.fold(0u64, |h, (at, frame)| {
            frame.iter().fold(h ^ at.as_nanos(), |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
        })
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}

/// Of every kind some hundred packets: frames are well formed, and what is plain RTP is read as such.
#[test]
fn every_kind_writes_what_its_protocol_says() {
    for kind in Kind::ALL.into_iter().filter(|k| *k != Kind::Rtcp) {
        let mut packets = 0;
        for number in 0..12 {
            for packet in packets_of(kind, Seed::new(3), number, Duration::ZERO) {
                packets += 1;
                let layout = dissect(&packet.frame()).expect("well formed");
                assert_eq!(layout.src_port, packet.src.port(), "{kind:?}");
                let payload = &packet.payload;
                match packet.kind {
                    Kind::Voice | Kind::VoiceWithSilence | Kind::VoiceWideband | Kind::Video
                        if !rtp::is_rtcp(payload) =>
                    {
                        assert!(rtp::View::new_checked(payload).is_ok(), "{kind:?}");
                    }
                    Kind::Rtcp => assert!(rtp::is_rtcp(payload)),
                    Kind::RtpExtended if !rtp::is_rtcp(payload) => {
                        let view = rtp::View::new_checked(payload).expect("a header with all its parts");
                        assert!(view.csrc().len() <= 4 && view.payload().len() >= 10);
                    }
                    Kind::WireGuard => assert!((1..=4).contains(&payload[0]) && payload[1..4] == [0; 3]),
                    Kind::Quic => assert!(payload[0] & 0x80 == 0 || payload.len() == 1_200),
                    Kind::Utp => assert_eq!(payload[0] & 0x0f, 1),
                    _ => {}
                }
            }
        }
        assert!(packets >= 20, "{kind:?}: {packets}");
    }
}

/// The steps of sequence numbers and time stamps of a call are those of its codec, loss aside.
#[test]
fn calls_keep_time() {
    for number in 0..20 {
        let mut last: BTreeMap<String, (u16, u32)> = BTreeMap::new();
        let mut progress = 0;
        for packet in packets_of(Kind::Voice, Seed::new(5), number, Duration::ZERO) {
            if packet.kind != Kind::Voice || rtp::is_rtcp(&packet.payload) {
                continue;
            }
            let view = rtp::View::new_checked(&packet.payload).expect("RTP");
            // Telephone events begin when a key is pressed.
            if view.payload_type() == 101 {
                last.remove(&packet.flow());
                continue;
            }
            let now = (view.sequence(), view.timestamp());
            if let Some((sequence, timestamp)) = last.insert(packet.flow(), now)
                && now.0.wrapping_sub(sequence) == 1
            {
                let step = now.1.wrapping_sub(timestamp);
                assert!(step.is_multiple_of(80) && step < 16_000, "{step}");
                progress += 1;
            }
        }
        assert!(progress > 100, "{progress}");
    }
}
