//! Calls.
//!
//! Source: RFC 3551 §4.5 and table 4 (static payload types, packet lengths), RFC 3389 (comfort noise), RFC 4733
//! (telephone events), RFC 4867 (AMR), RFC 7587 (Opus), ITU-T P.59 table 1 (talk spurts of 1.004 s, pauses of 1.587 s).

use super::exchange::{Exchange, Leg};
use super::rtp::{Source, control};
use perhop_units::Duration;

const TALK: Duration = Duration::from_millis(1_004);
const PAUSE: Duration = Duration::from_millis(1_587);
/// Payload type of comfort noise, and that usual for telephone events.
const COMFORT_NOISE: u8 = 13;
const TELEPHONE_EVENT: u8 = 101;

/// What a codec puts on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    pub payload_type: u8,
    pub clock_hz: u64,
    pub interval: Duration,
    /// Payload bytes, at least and at most.
    bytes: (u64, u64),
}

impl Codec {
    const fn new(payload_type: u8, clock_hz: u64, interval_ms: u64, bytes: (u64, u64)) -> Self {
        Self { payload_type, clock_hz, interval: Duration::from_millis(interval_ms), bytes }
    }

    /// One of packets of one size.
    pub fn constant(x: &mut Exchange) -> Self {
        const FORMATS: [Codec; 13] = [
            Codec::new(0, 8_000, 20, (160, 160)),
            Codec::new(8, 8_000, 20, (160, 160)),
            Codec::new(0, 8_000, 10, (80, 80)),
            Codec::new(8, 8_000, 30, (240, 240)),
            Codec::new(18, 8_000, 20, (20, 20)),
            Codec::new(18, 8_000, 10, (10, 10)),
            Codec::new(18, 8_000, 30, (30, 30)),
            Codec::new(4, 8_000, 30, (24, 24)),
            Codec::new(4, 8_000, 30, (20, 20)),
            Codec::new(3, 8_000, 20, (33, 33)),
            Codec::new(9, 8_000, 20, (160, 160)),
            Codec::new(97, 8_000, 20, (38, 38)),
            Codec::new(98, 8_000, 30, (50, 50)),
        ];
        x.one_of(&FORMATS)
    }

    /// One of packets of variable size.
    pub fn variable(x: &mut Exchange) -> Self {
        const FORMATS: [Codec; 7] = [
            Codec::new(111, 48_000, 20, (30, 160)),
            Codec::new(111, 48_000, 10, (20, 90)),
            Codec::new(120, 48_000, 40, (60, 240)),
            Codec::new(96, 48_000, 60, (90, 400)),
            Codec::new(96, 8_000, 20, (14, 32)),
            Codec::new(100, 16_000, 20, (18, 61)),
            Codec::new(102, 8_000, 40, (27, 63)),
        ];
        x.one_of(&FORMATS)
    }

    pub fn ticks(&self, elapsed: Duration) -> u64 {
        elapsed.as_nanos() / 1_000 * self.clock_hz / 1_000_000
    }

    pub fn len(&self, x: &mut Exchange) -> usize {
        x.number(self.bytes.0, self.bytes.1) as usize
    }
}

/// A packet each interval from `from` to `to`.
pub(super) fn speak(
    x: &mut Exchange,
    leg: &mut Leg,
    source: &mut Source,
    codec: &Codec,
    from: Duration,
    to: Duration,
) {
    let mut at = from;
    while at < to {
        let len = codec.len(x);
        let payload = source.packet(x, codec.payload_type, at == from, codec.ticks(at - from), len);
        x.send(leg, at, payload);
        at = at + codec.interval;
    }
}

/// What is sent in silence.
#[derive(Clone, Copy, Debug)]
enum Silence {
    Nothing,
    /// One description at its beginning, of the payload type of comfort noise.
    Noise,
    /// A packet of the codec each so many intervals.
    Updates(u64),
}

/// Talk spurts and silences until `to`; one of the silences lasts for `hold`.
fn converse(
    x: &mut Exchange,
    leg: &mut Leg,
    source: &mut Source,
    codec: &Codec,
    silence: Silence,
    to: Duration,
    hold: Option<Duration>,
) {
    let interval = codec.interval.as_nanos();
    let whole = |time: Duration| Duration((time.as_nanos() / interval).max(1) * interval);
    let mut at = Duration::ZERO;
    let mut hold = hold;
    let mut talks = x.number(0, 99) < 39;
    while at < to {
        let mut period = whole(if talks { x.random.exponential(TALK) } else { x.random.exponential(PAUSE) });
        if !talks && at > to - Duration(to.as_nanos() / 2) {
            period = hold.take().map_or(period, whole);
        }
        let end = at + period;
        let mut first = true;
        while at < end {
            let ticks = codec.ticks(at);
            let slot = (end - at).as_nanos() / interval;
            let (payload_type, len) = match (talks, silence) {
                (true, _) => (codec.payload_type, codec.len(x)),
                (false, Silence::Noise) if first => (COMFORT_NOISE, x.number(1, 11) as usize),
                (false, Silence::Updates(n)) if first || slot.is_multiple_of(n) => (codec.payload_type, 6),
                _ => {
                    at = at + codec.interval;
                    first = false;
                    continue;
                }
            };
            let payload = source.packet(x, payload_type, talks && first, ticks, len);
            x.send(leg, at, payload);
            first = false;
            at = at + codec.interval;
        }
        talks = !talks;
    }
}

/// Keys pressed: events of 60 … 300 ms in packets each interval, the last one thrice.
fn press_keys(
    x: &mut Exchange,
    leg: &mut Leg,
    source: &mut Source,
    codec: &Codec,
    from: Duration,
) -> Duration {
    let mut at = from;
    for _ in 0..x.number(1, 4) {
        let (ticks, packets) = (codec.ticks(at), x.number(3, 15));
        for i in 0..packets + 2 {
            let payload = source.packet(x, TELEPHONE_EVENT, i == 0, ticks, 4);
            x.send(leg, at, payload);
            at = at + if i < packets { codec.interval } else { Duration::from_micros(200) };
        }
        at = at + x.ms(60, 200);
    }
    at
}

/// Both directions speak all the time; keys are pressed in every eighth. RTCP on the next ports, the same ones or none.
pub(super) fn voice(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(4_000, 12_000);
    let codec = Codec::constant(x);
    let mut ssrc = [0; 2];
    for (i, leg) in legs.iter_mut().enumerate() {
        let mut source = Source::new(x, codec.payload_type);
        ssrc[i] = source.ssrc();
        let mut from = Duration::ZERO;
        if i == 0 && x.one_in(8) {
            from = press_keys(x, leg, &mut source, &codec, from);
        }
        resume(x, leg, &mut source, &codec, from, length);
    }
    match x.number(0, 3) {
        0 => {}
        1 => control(x, &mut legs, ssrc, length, true),
        _ => control(x, &mut legs, ssrc, length, false),
    }
}

/// As [`speak`], with time stamps that count from the beginning of the call.
fn resume(x: &mut Exchange, leg: &mut Leg, source: &mut Source, codec: &Codec, from: Duration, to: Duration) {
    let interval = codec.interval.as_nanos();
    let mut at = Duration(from.as_nanos().div_ceil(interval) * interval);
    while at < to {
        let len = codec.len(x);
        let payload = source.packet(x, codec.payload_type, at == from, codec.ticks(at), len);
        x.send(leg, at, payload);
        at = at + codec.interval;
    }
}

/// Silence suppression; every tenth is put on hold for longer than the usual time-outs.
pub(super) fn voice_with_silence(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(10_000, 25_000);
    let hold = x.one_in(10).then(|| x.ms(31_000, 45_000));
    let codec = Codec::constant(x);
    let silence = match codec.payload_type {
        0 | 8 | 9 => Silence::Noise,
        3 | 18 => Silence::Updates(x.number(8, 24)),
        _ => Silence::Nothing,
    };
    let mut ssrc = [0; 2];
    for (i, leg) in legs.iter_mut().enumerate() {
        let mut source = Source::new(x, codec.payload_type);
        ssrc[i] = source.ssrc();
        converse(x, leg, &mut source, &codec, silence, length, hold);
    }
    if !x.one_in(4) {
        control(x, &mut legs, ssrc, length, false);
    }
}

/// Opus and AMR; silence suppression in every second.
pub(super) fn voice_wideband(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(6_000, 15_000);
    let codec = Codec::variable(x);
    let suppressed = x.one_in(2);
    // A silence update each 400 ms of Opus, each 160 ms of AMR.
    let update_ms = if codec.clock_hz == 48_000 { 400 } else { 160 };
    let silence = Silence::Updates(update_ms * 1_000_000 / codec.interval.as_nanos());
    let mut ssrc = [0; 2];
    for (i, leg) in legs.iter_mut().enumerate() {
        let mut source = Source::new(x, codec.payload_type);
        ssrc[i] = source.ssrc();
        if suppressed {
            converse(x, leg, &mut source, &codec, silence, length, None);
        } else {
            speak(x, leg, &mut source, &codec, Duration::ZERO, length);
        }
    }
    let muxed = x.one_in(2);
    control(x, &mut legs, ssrc, length, muxed);
}
