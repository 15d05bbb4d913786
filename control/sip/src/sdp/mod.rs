//! Descriptions of sessions (SDP, RFC 8866), as far as they say what media takes of a link: streams, where they go, who sends, in which
//! codec, how much.
//!
//! A proxy only looks: a description is never changed. Candidates of ICE are not looked at, so the address is that of the `c=` line, which is the
//! default candidate of RFC 8839. Lines that are of no use here are not judged.

mod codec;
mod negotiate;
mod rate;
mod read;
#[cfg(test)]
mod tests;

pub use codec::{Codec, CodecTable};
pub use negotiate::{Flow, Flows, negotiate};

use std::net::IpAddr;
use thiserror::Error;

/// Most streams of a description.
pub const MAX_STREAMS: usize = 32;
/// Most formats of a stream.
pub const MAX_FORMATS: usize = 64;
/// Longest description, octets.
pub const MAX_DESCRIPTION: usize = 16_384;

/// Why a body is no description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SdpFault {
    /// It does not begin with `v=0` (RFC 8866 §5.1).
    #[error("no description of version 0")]
    Version,
    /// A line that is not `x=…`.
    #[error("line {0}: not of the form x=…")]
    Line(usize),
    /// A `m=` that is no stream (RFC 8866 §5.14).
    #[error("line {0}: no stream")]
    Stream(usize),
    /// A `c=` that is no address or name (RFC 8866 §5.7).
    #[error("line {0}: no connection")]
    Connection(usize),
    /// A `b=`, `a=rtpmap`, `a=ptime` or the like that has no number where one must be.
    #[error("line {0}: no number")]
    Number(usize),
    /// More than a limit allows.
    #[error("more than {MAX_STREAMS} streams, {MAX_FORMATS} formats of one or {MAX_DESCRIPTION} octets")]
    TooMuch,
}

/// A session as one side describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its streams, in their order.
    pub streams: Vec<Stream>,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What is sent.
    pub kind: Kind,
    /// Where this side receives; 0 = the stream is rejected or off (RFC 3264 §6, §8.2).
    pub port: u16,
    /// Where this side receives; `None` for a name instead of an address.
    pub address: Option<IpAddr>,
    /// Who sends, as this side sees it.
    pub direction: Direction,
    /// Whether packets are those of RTP.
    pub rtp: bool,
    /// Whether they are authenticated (SAVP, RFC 3711), which makes them longer.
    pub secure: bool,
    /// The formats, the preferred first.
    pub formats: Vec<Format>,
    /// Wanted length of a packet in time, ms.
    pub ptime_ms: Option<u16>,
    /// `b=AS`, bit/s: with headers of IP and UDP (RFC 8866 §5.8).
    pub as_bps: Option<u64>,
    /// `b=TIAS`, bit/s: without headers of lower layers (RFC 3890 §6.2).
    pub tias_bps: Option<u64>,
    /// `a=maxprate`, packets in 1,000 s (RFC 3890 §6.3).
    pub packets_per_1000s: Option<u64>,
}

/// Kinds of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// Anything else.
    Other,
}

/// Who sends (RFC 8866 §6.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// This side only.
    SendOnly,
    /// The other side only.
    ReceiveOnly,
    /// Nobody.
    Inactive,
}

impl Direction {
    const fn sends(self) -> bool {
        matches!(self, Self::Both | Self::SendOnly)
    }
    const fn receives(self) -> bool {
        matches!(self, Self::Both | Self::ReceiveOnly)
    }
}

/// A payload type and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The payload type of RTP.
    pub payload_type: u8,
    /// Name of the encoding; empty if nothing says it.
    pub name: String,
    /// Clock rate, Hz; 0 if nothing says it.
    pub clock: u32,
    /// Channels of sound.
    pub channels: u8,
}

impl Stream {
    /// Whether the stream is refused or off.
    pub const fn is_rejected(&self) -> bool {
        self.port == 0
    }

    /// Whether this side wants packets now: not on hold, be it by direction or by an address of zeros (RFC 2543's way, RFC 3264 §8.4).
    pub fn receives(&self) -> bool {
        self.direction.receives() && self.address.is_some_and(|address| !address.is_unspecified())
    }
}
