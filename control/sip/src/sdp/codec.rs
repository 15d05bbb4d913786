//! How much codecs send: a table that may be changed and added to.

use super::{Format, Kind};

/// A codec: frames of constant time and size, some of which make a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codec {
    /// Name of the encoding, as in `a=rtpmap`; case does not matter.
    pub name: String,
    /// Clock rate, Hz; 0 = any.
    pub clock: u32,
    /// A frame in time, µs.
    pub frame_us: u32,
    /// Octets of a frame and channel, the largest there is; 0 for what adds nothing to a stream, such as comfort noise.
    pub frame_bytes: u32,
    /// Time in a packet if nothing else is said, ms.
    pub ptime_ms: u16,
}

/// Codecs, and what is taken where nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecTable {
    /// The codecs; the first that fits counts.
    pub codecs: Vec<Codec>,
    /// Of a stream of sound that tells nothing, bit/s with the headers of IP.
    pub audio_bps: u64,
    /// Of one of pictures.
    pub video_bps: u64,
    /// Of any other.
    pub other_bps: u64,
    /// Octets that the link adds to a packet of IP: 0 to count as IP does, 18 for Ethernet with its check sum.
    pub link_bytes: u16,
    /// Octets that authentication adds to a packet of SRTP: a tag of 80 bits unless something else was agreed on (RFC 3711 §5.2).
    pub srtp_bytes: u16,
}

/// (name, clock, µs a frame, octets a frame, ms a packet). Speech codecs: RFC 3551 table 1 and §4.5; iLBC RFC 3952 §3.1; AMR at its highest mode, RFC
/// 4867 §4.3 with table of contents; Opus at 64 kbit/s, the upper end of what RFC 7587 §3.1.1 names for music in mono.
const BUILT_IN: [(&str, u32, u32, u32, u16); 27] = [
    ("PCMU", 8_000, 1_000, 8, 20),
    ("PCMA", 8_000, 1_000, 8, 20),
    ("G722", 8_000, 1_000, 8, 20),
    ("G729", 8_000, 10_000, 10, 20),
    ("G723", 8_000, 30_000, 24, 30),
    ("GSM", 8_000, 20_000, 33, 20),
    ("GSM-EFR", 8_000, 20_000, 31, 20),
    ("G728", 8_000, 2_500, 5, 20),
    ("G726-40", 8_000, 1_000, 5, 20),
    ("G726-32", 8_000, 1_000, 4, 20),
    ("G726-24", 8_000, 1_000, 3, 20),
    ("G726-16", 8_000, 1_000, 2, 20),
    ("DVI4", 8_000, 20_000, 84, 20),
    ("DVI4", 16_000, 20_000, 164, 20),
    ("LPC", 8_000, 20_000, 14, 20),
    ("L16", 8_000, 1_000, 16, 20),
    ("L16", 16_000, 1_000, 32, 20),
    ("L16", 44_100, 10_000, 882, 20),
    ("L16", 48_000, 1_000, 96, 20),
    ("iLBC", 8_000, 20_000, 38, 20),
    ("AMR", 8_000, 20_000, 33, 20),
    ("AMR-WB", 16_000, 20_000, 62, 20),
    ("opus", 48_000, 20_000, 160, 20),
    ("telephone-event", 0, 1_000, 0, 20),
    ("CN", 0, 1_000, 0, 20),
    ("red", 0, 1_000, 0, 20),
    ("rtx", 0, 1_000, 0, 20),
];

impl Default for CodecTable {
    fn default() -> Self {
        let codec = |(name, clock, frame_us, frame_bytes, ptime_ms): (&str, u32, u32, u32, u16)| Codec {
            name: name.to_string(),
            clock,
            frame_us,
            frame_bytes,
            ptime_ms,
        };
        Self {
            codecs: BUILT_IN.into_iter().map(codec).collect(),
            audio_bps: 100_000,
            video_bps: 1_500_000,
            other_bps: 64_000,
            link_bytes: 0,
            srtp_bytes: 10,
        }
    }
}

impl CodecTable {
    /// The codec of a format.
    pub fn codec(&self, format: &Format) -> Option<&Codec> {
        let fits = |c: &&Codec| {
            c.name.eq_ignore_ascii_case(&format.name) && (c.clock == 0 || c.clock == format.clock)
        };
        self.codecs.iter().find(fits)
    }

    pub(super) fn default_bps(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Audio => self.audio_bps,
            Kind::Video => self.video_bps,
            Kind::Other => self.other_bps,
        }
    }
}

/// What a payload type stands for unless `a=rtpmap` says otherwise (RFC 3551 tables 4 and 5).
pub(super) fn static_format(payload_type: u8) -> Format {
    let (name, clock, channels) = match payload_type {
        0 => ("PCMU", 8_000, 1),
        3 => ("GSM", 8_000, 1),
        4 => ("G723", 8_000, 1),
        5 => ("DVI4", 8_000, 1),
        6 => ("DVI4", 16_000, 1),
        7 => ("LPC", 8_000, 1),
        8 => ("PCMA", 8_000, 1),
        9 => ("G722", 8_000, 1),
        10 => ("L16", 44_100, 2),
        11 => ("L16", 44_100, 1),
        12 => ("QCELP", 8_000, 1),
        13 => ("CN", 8_000, 1),
        14 => ("MPA", 90_000, 1),
        15 => ("G728", 8_000, 1),
        16 => ("DVI4", 11_025, 1),
        17 => ("DVI4", 22_050, 1),
        18 => ("G729", 8_000, 1),
        25 => ("CelB", 90_000, 1),
        26 => ("JPEG", 90_000, 1),
        28 => ("nv", 90_000, 1),
        31 => ("H261", 90_000, 1),
        32 => ("MPV", 90_000, 1),
        33 => ("MP2T", 90_000, 1),
        34 => ("H263", 90_000, 1),
        _ => ("", 0, 1),
    };
    Format { payload_type, name: name.to_string(), clock, channels }
}
