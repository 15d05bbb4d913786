//! Established calls beside whatever else is recognised as real-time, through the shipped file of an edge: many new flows, fat
//! ones, admitted ones that grow, and bursts.

use crate::support::{LAN, WAN, connect, mac, router_of, rtp};
use perhop_graph::router::VirtualRouter;
use perhop_units::{Duration, Instant};
use perhop_wire::build::udp4;

const EDGE: &str = include_str!("../../examples/edge.toml");
/// G.711 in packets of 20 ms.
const CALL: Media = Media {
    port: 0,
    begin: 0,
    end: 60_000,
    every_us: 20_000,
    payload: 160,
    type_: 8,
    back: false,
    pauses: false,
};

/// A source of RTP.
#[derive(Clone, Copy, Debug)]
struct Media {
    /// Its number.
    port: u16,
    begin: u64,
    end: u64,
    every_us: u64,
    payload: u16,
    type_: u8,
    /// From the other end.
    back: bool,
    /// Speaks for 1 s and is silent for 1.3 s, from its fourth second on.
    pauses: bool,
}

impl Media {
    fn frame(&self, seq: u16) -> Vec<u8> {
        let step = if self.type_ == 18 { 160 } else { u32::from(self.payload) };
        let body = vec![0x55; usize::from(self.payload)];
        let ssrc = 0x5000_0000 + u32::from(self.port);
        let rtp = rtp(self.type_, seq, u32::from(seq) * step, ssrc, &body);
        let (near, far) = ([10, 0, 0, 2], [10, 1, 0, 2]);
        let (from, to, macs) = if self.back { (far, near, (0x22, 2)) } else { (near, far, (0x12, 1)) };
        let frame = udp4(from, to).macs(mac(macs.0), mac(macs.1));
        frame.ports(20_000 + self.port, 30_000 + self.port).payload(&rtp).build()
    }
}

/// Sends all of them, beside as much else as fills the link twice, and counts how many packets of each were sent and arrived as
/// real-time, leaving out the first second of each.
fn run(media: &[Media]) -> Vec<(u64, u64)> {
    run_with(EDGE, media)
}

fn run_with(file: &str, media: &[Media]) -> Vec<(u64, u64)> {
    let mut router = router_of(file);
    connect(&mut router);
    // When, which, how many so far.
    let mut agenda: std::collections::BTreeSet<(u64, usize)> = media
        .iter()
        .enumerate()
        .map(|(i, m)| {
            // Nobody begins at the same instant as another.
            (m.begin * 1_000 + (i as u64 * 7_919) % m.every_us, i)
        })
        .collect();
    let mut sent: Vec<u64> = vec![0; media.len()];
    let mut counts = vec![(0, 0); media.len()];
    let mut next_else = 0;
    let arrived = |router: &mut VirtualRouter, counts: &mut [(u64, u64)]| {
        for packet in router.sent.drain(..) {
            let frame = packet.frame();
            let port = u16::from_be_bytes([frame[36], frame[37]]);
            // EF: what detection marks and the class carries.
            if let Some(i) = port.checked_sub(30_000).map(usize::from).filter(|_| frame[15] >> 2 == 46) {
                let seq = u64::from(u16::from_be_bytes([frame[44], frame[45]]));
                if seq * media[i].every_us >= 1_000_000 {
                    counts[i].1 += 1;
                }
            }
        }
    };
    while let Some((at, i)) = agenda.pop_first() {
        // 20 Mbit/s of something else.
        while next_else < at {
            router.run_until(Instant(next_else * 1_000));
            assert!(
                router.receive(
                    LAN,
                    &udp4([10, 0, 0, 2], [10, 1, 0, 2])
                        .macs(mac(0x12), mac(1))
                        .ports(9, 9)
                        .payload_len(1_000)
                        .build()
                )
            );
            next_else += 417;
            arrived(&mut router, &mut counts);
        }
        let m = &media[i];
        router.run_until(Instant(at * 1_000));
        let phase = (at / 1_000).saturating_sub(m.begin + 4_000) % 2_300;
        if m.pauses && phase >= 1_000 {
            agenda.insert((at + (2_300 - phase) * 1_000, i));
            continue;
        }
        assert!(router.receive(if m.back { WAN } else { LAN }, &m.frame(sent[i] as u16)));
        if sent[i] * m.every_us >= 1_000_000 {
            counts[i].0 += 1;
        }
        sent[i] += 1;
        if at + m.every_us < m.end * 1_000 {
            agenda.insert((at + m.every_us, i));
        }
    }
    router.run_for(Duration::from_secs(1));
    arrived(&mut router, &mut counts);
    counts
}

fn numbered(media: impl IntoIterator<Item = Media>) -> Vec<Media> {
    media.into_iter().enumerate().map(|(i, m)| Media { port: i as u16, ..m }).collect()
}

/// Of each of the first `calls`, at least 999 of 1,000 packets are real-time.
fn unharmed(what: &str, counts: &[(u64, u64)], calls: usize) {
    for (i, (sent, arrived)) in counts.iter().take(calls).enumerate() {
        assert!(arrived * 1_000 >= sent * 999, "{what}: call {i}: {arrived} of {sent}");
    }
}

fn calls(n: usize) -> impl Iterator<Item = Media> {
    (0..n).map(|_| CALL)
}

#[test]
fn established_calls_lose_nothing_to_three_hundred_new_ones() {
    let new = (0..300).map(|i| Media { begin: 5_000 + i * 20, end: 15_000, ..CALL });
    let counts = run(&numbered(calls(25).chain(new).map(|m| Media { end: m.end.min(15_000), ..m })));
    unharmed("300 new", &counts, 25);
    let served = counts[25..].iter().filter(|(sent, arrived)| arrived * 1_000 >= sent * 999).count();
    assert!((10..=30).contains(&served), "{served} of the new ones as well: the class is full then");
}

#[test]
fn established_calls_lose_nothing_to_fat_ones_and_to_those_that_grow() {
    // 6 Mbit/s each.
    let fat = Media { begin: 5_000, every_us: 1_600, payload: 1_188, type_: 96, end: 15_000, ..CALL };
    let counts = run(&numbered(calls(25).map(|m| Media { end: 15_000, ..m }).chain([fat, fat])));
    unharmed("two fat ones", &counts, 25);
    // Twenty that were admitted as calls send twenty times as much from their sixth second on: as other packets of theirs.
    let small = (0..20).map(|_| Media { begin: 1_000, end: 15_000, ..CALL });
    let grown = |m: Media| Media { begin: 6_000, every_us: 2_000, payload: 320, end: 15_000, ..m };
    let media = calls(20).map(|m| Media { end: 15_000, ..m }).chain(small.map(grown));
    let counts = run(&numbered(media));
    unharmed("twenty that grow", &counts, 20);
}

/// A burst of recognised flows every eight seconds: who calls meanwhile waits for one look more at the most.
#[test]
fn a_call_that_comes_in_a_burst_is_taken_within_seconds() {
    let bursts =
        (0..3).flat_map(|k| (0..60).map(move |_| Media { begin: 8_000 * k, end: 8_000 * k + 2_000, ..CALL }));
    let late = (0..12).map(|i| Media { begin: 500 + i * 1_500, end: 24_000, ..CALL });
    let media = numbered(late.chain(bursts));
    let counts = run(&media);
    for (i, (sent, arrived)) in counts.iter().take(12).enumerate() {
        // A look every 4 s: at most five seconds without.
        assert!(sent - arrived <= 250, "call {i}: {arrived} of {sent}");
    }
    let at_once = counts[..12].iter().filter(|(sent, arrived)| sent == arrived).count();
    assert!(at_once >= 5, "{at_once} of 12 were taken at once");
}

/// What comes from the port that has the class leaves by another, where nothing has to be shared.
#[test]
fn both_directions_of_a_call_are_one_call() {
    let there: Vec<Media> = calls(40).map(|m| Media { end: 6_000, ..m }).collect();
    let back: Vec<Media> = there.iter().map(|m| Media { back: true, ..*m }).collect();
    let counts = run(&numbered([there, back].concat()));
    unharmed("40 calls", &counts, 80);
}

/// Who pauses, as with silence suppression, finds its place when it goes on, however many have come meanwhile.
#[test]
fn calls_with_pauses_keep_their_places() {
    let talker = |i: u64| Media { pauses: true, begin: i * 130, end: 24_000, ..CALL };
    let new = (0..100).map(|i| Media { begin: 8_000 + i * 20, end: 24_000, ..CALL });
    let counts = run(&numbered((0..20).map(talker).chain(new)));
    unharmed("with pauses", &counts, 20);
}

/// A class that is made for less than a call of G.711 takes one of its own, and several of a smaller codec.
#[test]
fn a_class_for_one_call_takes_one() {
    let file = EDGE.replace(
        "guarantee = \"50 %\"\nceiling = \"50 %\"",
        "guarantee = \"96 kbit/s\"\nceiling = \"96 kbit/s\"",
    );
    assert_ne!(file, EDGE);
    let one = run_with(&file, &numbered([Media { end: 8_000, ..CALL }]));
    // The class is a little less than it needs, and lets go what does not fit.
    assert!(one[0].1 * 10 >= one[0].0 * 8, "{one:?}");
    let small = |i: u64| Media { begin: i * 1_000, end: 8_000, payload: 20, type_: 18, ..CALL };
    unharmed("two of G.729", &run_with(&file, &numbered((0..2).map(small))), 2);
}

/// Calls of a codec of 8 kbit/s take a third of what G.711 takes, and the class carries more of them than of those.
#[test]
fn calls_of_a_small_codec_leave_room_for_more() {
    let small = |i: u64| Media { begin: i * 100, end: 20_000, payload: 20, type_: 18, ..CALL };
    let counts = run(&numbered((0..70).map(small)));
    unharmed("70 of G.729", &counts, 70);
}
