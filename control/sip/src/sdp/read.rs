//! From text to a description.

use super::codec::static_format;
use super::{
    Description, Direction, Format, Kind, MAX_DESCRIPTION, MAX_FORMATS, MAX_STREAMS, SdpFault, Stream,
};
use std::net::IpAddr;

/// What holds for all streams that do not say otherwise, and later for the one that is being read.
#[derive(Clone, Copy, Default)]
struct Level {
    address: Option<IpAddr>,
    direction: Direction,
    as_bps: Option<u64>,
    tias_bps: Option<u64>,
    packets_per_1000s: Option<u64>,
}

impl Description {
    /// Reads a body of `application/sdp`. Lines may end with LF alone (RFC 8866 §5). O(octets).
    ///
    /// # Errors
    /// The first [`SdpFault`].
    pub fn read(body: &[u8]) -> Result<Self, SdpFault> {
        if body.len() > MAX_DESCRIPTION {
            return Err(SdpFault::TooMuch);
        }
        let mut lines =
            body.split(|&o| o == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).enumerate();
        if lines.next().is_none_or(|(_, line)| line != b"v=0") {
            return Err(SdpFault::Version);
        }
        let mut session = Level::default();
        let mut streams: Vec<Stream> = Vec::new();
        for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let number = at + 1;
            let (kind, value) = match line {
                [kind, b'=', value @ ..] if kind.is_ascii_alphabetic() => {
                    (*kind, String::from_utf8_lossy(value))
                }
                _ => return Err(SdpFault::Line(number)),
            };
            if kind == b'm' {
                if streams.len() == MAX_STREAMS {
                    return Err(SdpFault::TooMuch);
                }
                streams.push(stream(&value, session)?.ok_or(SdpFault::Stream(number))?);
            } else if let Some(stream) = streams.last_mut() {
                let mut level = Level {
                    address: stream.address,
                    direction: stream.direction,
                    as_bps: stream.as_bps,
                    tias_bps: stream.tias_bps,
                    packets_per_1000s: stream.packets_per_1000s,
                };
                of_level(&mut level, kind, &value, number)?;
                stream.address = level.address;
                stream.direction = level.direction;
                stream.as_bps = level.as_bps;
                stream.tias_bps = level.tias_bps;
                stream.packets_per_1000s = level.packets_per_1000s;
                of_stream(stream, kind, &value, number)?;
            } else {
                of_level(&mut session, kind, &value, number)?;
            }
        }
        share(&mut streams, session);
        Ok(Self { streams })
    }
}

/// What a session may take in all is shared by the streams that do not say it themselves.
fn share(streams: &mut [Stream], session: Level) {
    let silent = |s: &Stream| !s.is_rejected() && s.as_bps.is_none() && s.tias_bps.is_none();
    let sharers = streams.iter().filter(|s| silent(s)).count() as u64;
    for stream in streams.iter_mut().filter(|s| silent(s)) {
        stream.as_bps = session.as_bps.map(|bps| bps / sharers);
        stream.tias_bps = session.tias_bps.map(|bps| bps / sharers);
        stream.packets_per_1000s =
            stream.packets_per_1000s.or(session.packets_per_1000s.map(|n| n / sharers));
    }
}

fn of_level(level: &mut Level, kind: u8, value: &str, line: usize) -> Result<(), SdpFault> {
    match kind {
        b'c' => level.address = connection(value).ok_or(SdpFault::Connection(line))?,
        b'b' => {
            let (kind, amount) = value.split_once(':').ok_or(SdpFault::Number(line))?;
            match kind {
                "AS" => level.as_bps = Some(number(amount, line)?.saturating_mul(1_000)),
                "TIAS" => level.tias_bps = Some(number(amount, line)?),
                _ => {}
            }
        }
        b'a' => match value.split_once(':').unwrap_or((value, "")) {
            ("sendrecv", _) => level.direction = Direction::Both,
            ("sendonly", _) => level.direction = Direction::SendOnly,
            ("recvonly", _) => level.direction = Direction::ReceiveOnly,
            ("inactive", _) => level.direction = Direction::Inactive,
            ("maxprate", rate) => level.packets_per_1000s = Some(thousandths(rate, line)?),
            _ => {}
        },
        _ => {}
    }
    Ok(())
}

fn of_stream(stream: &mut Stream, kind: u8, value: &str, line: usize) -> Result<(), SdpFault> {
    if kind != b'a' {
        return Ok(());
    }
    match value.split_once(':').unwrap_or((value, "")) {
        ("ptime", time) => {
            // Fractions are allowed by the grammar of `a=ptime` in RFC 4566 and of no meaning here.
            let whole = time.trim().split('.').next().unwrap_or_default();
            stream.ptime_ms = Some(number(whole, line)?.clamp(1, 2_000) as u16);
        }
        ("rtpmap", map) => {
            let (number, encoding) = map.trim().split_once(' ').ok_or(SdpFault::Number(line))?;
            let number: u8 = number.parse().map_err(|_| SdpFault::Number(line))?;
            let mut parts = encoding.trim().split('/');
            let name = parts.next().unwrap_or_default();
            let clock = parts.next().and_then(|c| c.parse().ok()).ok_or(SdpFault::Number(line))?;
            let channels = parts.next().and_then(|c| c.parse().ok()).unwrap_or(1);
            if let Some(format) = stream.formats.iter_mut().find(|f| f.payload_type == number) {
                *format = Format { payload_type: number, name: name.to_string(), clock, channels };
            }
        }
        _ => {}
    }
    Ok(())
}

fn stream(value: &str, session: Level) -> Result<Option<Stream>, SdpFault> {
    let mut words = value.split(' ').filter(|word| !word.is_empty());
    let (Some(kind), Some(port), Some(protocol)) = (words.next(), words.next(), words.next()) else {
        return Ok(None);
    };
    let Ok(port) = port.split('/').next().unwrap_or_default().parse::<u16>() else { return Ok(None) };
    let kind = match kind {
        "audio" => Kind::Audio,
        "video" => Kind::Video,
        _ => Kind::Other,
    };
    let profile = protocol.rsplit('/').next().unwrap_or_default();
    let secure = matches!(profile, "SAVP" | "SAVPF");
    let rtp = secure || matches!(profile, "AVP" | "AVPF");
    let mut formats = Vec::new();
    for word in words.filter(|_| rtp) {
        let Ok(number) = word.parse::<u8>() else { return Ok(None) };
        if formats.len() == MAX_FORMATS {
            return Err(SdpFault::TooMuch);
        }
        formats.push(static_format(number));
    }
    Ok(Some(Stream {
        kind,
        port,
        address: session.address,
        direction: session.direction,
        rtp,
        secure,
        formats,
        ptime_ms: None,
        as_bps: None,
        tias_bps: None,
        packets_per_1000s: None,
    }))
}

/// The address of a `c=`: `Some(None)` for a name.
fn connection(value: &str) -> Option<Option<IpAddr>> {
    let mut words = value.split(' ').filter(|word| !word.is_empty());
    let (net, family, host) = (words.next()?, words.next()?, words.next()?);
    // What follows a slash is of multicast.
    let host = host.split('/').next().unwrap_or_default();
    match (net, family) {
        ("IN", "IP4") => Some(host.parse().ok().map(IpAddr::V4)),
        ("IN", "IP6") => Some(host.parse().ok().map(IpAddr::V6)),
        _ => None,
    }
}

fn number(text: &str, line: usize) -> Result<u64, SdpFault> {
    text.trim().parse::<u32>().map(u64::from).map_err(|_| SdpFault::Number(line))
}

/// A number with at most three digits behind the point that count.
fn thousandths(text: &str, line: usize) -> Result<u64, SdpFault> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    Ok(number(whole, line)? * 1_000 + number(&part, line)?)
}
