//! Browsers: ICE, DTLS, and then secure RTP or a data channel.
//!
//! Source: RFC 8489 §5 (STUN), RFC 7675 (consent), RFC 6347 §4.1 (DTLS records), RFC 5764 (DTLS-SRTP), RFC 3711 (SRTP),
//! RFC 8843 (several media on one pair of ports), RFC 4588 (retransmissions).

use super::exchange::{Exchange, Leg};
use super::rtp::{Source, reports};
use super::video::{VideoPlan, show};
use super::voice::{Codec, speak};
use perhop_units::Duration;

/// Bytes of the authentication tags in use.
const TAGS: [usize; 3] = [10, 4, 16];

/// A STUN message with a transaction identifier and attributes of `len` bytes.
pub(super) fn stun(x: &mut Exchange, message_type: u16, len: u16) -> Vec<u8> {
    let mut bytes = message_type.to_be_bytes().to_vec();
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
    x.fill(&mut bytes, 12 + usize::from(len));
    bytes
}

/// A DTLS record of version 1.2.
fn record(x: &mut Exchange, content: u8, epoch: u16, sequence: u64, len: u16) -> Vec<u8> {
    let mut bytes = vec![content, 0xfe, 0xfd];
    bytes.extend_from_slice(&epoch.to_be_bytes());
    bytes.extend_from_slice(&sequence.to_be_bytes()[2..]);
    bytes.extend_from_slice(&len.to_be_bytes());
    x.fill(&mut bytes, usize::from(len));
    bytes
}

/// Connectivity checks, then consent every 4 … 6 s until `length`.
fn ice(x: &mut Exchange, legs: &mut [Leg; 2], length: Duration) {
    let mut at = x.ms(0, 50);
    for turn in 0.. {
        if at >= length {
            break;
        }
        let (asks, answers) = (turn % 2, 1 - turn % 2);
        let request = stun(x, 0x0001, 80);
        x.send(&mut legs[asks], at, request);
        let answer = stun(x, 0x0101, 44);
        let later = at + x.ms(5, 120);
        x.send(&mut legs[answers], later, answer);
        at = at + if turn < 4 { x.ms(20, 50) } else { x.ms(2_000, 3_000) };
    }
}

/// The flights of a DTLS handshake with certificates; when it is done.
fn handshake(x: &mut Exchange, legs: &mut [Leg; 2]) -> Duration {
    let mut at = x.ms(100, 300);
    let trip = x.ms(20, 150);
    let flights: [&[(u8, u16, u16)]; 4] = [
        &[(22, 0, 150)],
        &[(22, 0, 90), (22, 0, 600), (22, 0, 160), (22, 0, 40)],
        &[(22, 0, 600), (22, 0, 70), (20, 0, 1), (22, 1, 48)],
        &[(20, 0, 1), (22, 1, 48)],
    ];
    let mut sequence = [0; 2];
    for (turn, flight) in flights.iter().enumerate() {
        let end = turn % 2;
        for (content, epoch, len) in *flight {
            let payload = record(x, *content, *epoch, sequence[end], *len);
            sequence[end] += 1;
            x.send(&mut legs[end], at, payload);
        }
        at = at + trip;
    }
    at
}

/// Speech and, in two of three, video on one flow, encrypted, with secure RTCP. In every fourth without ICE, in every
/// eighth with keys from signalling, so that nothing comes before.
pub(super) fn srtp(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(4_000, 9_000);
    let mut from = Duration::ZERO;
    if !x.one_in(8) {
        if !x.one_in(4) {
            ice(x, &mut legs, length);
        }
        from = handshake(x, &mut legs);
    }
    let (tag, has_video) = (x.one_of(&TAGS), !x.one_in(3));
    let mut ssrc = [0; 2];
    for (i, leg) in legs.iter_mut().enumerate() {
        let codec = Codec::variable(x);
        let mut speech = Source::new(x, codec.payload_type).secured(tag);
        ssrc[i] = speech.ssrc();
        speak(x, leg, &mut speech, &codec, from, length);
        if has_video {
            let mut video = Source::new(x, 0).secured(tag);
            let plan = VideoPlan::draw(x);
            let later = from + x.ms(0, 1_000);
            show(x, leg, &mut video, &plan, later, length);
        }
    }
    for (i, leg) in legs.iter_mut().enumerate() {
        reports(x, leg, ssrc[i], ssrc[1 - i], length, true);
    }
}

/// Messages of a data channel: a game's, a file's, or now and then.
pub(super) fn data_channel(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(4_000, 10_000);
    ice(x, &mut legs, length);
    let from = handshake(x, &mut legs);
    let form = x.number(0, 2);
    for leg in &mut legs {
        let (mut at, mut sequence) = (from, 1);
        while at < length {
            let (pause, len) = match form {
                0 => (x.ms(30, 36), x.number(60, 120)),
                1 => (x.ms(1, 12), x.number(1_100, 1_180)),
                _ => (x.ms(20, 2_000), x.number(60, 900)),
            };
            let payload = record(x, 23, 1, sequence, len as u16);
            sequence += 1;
            x.send(leg, at, payload);
            at = at + pause;
        }
    }
}
