//! Why a flow is media, and whether its packets stay so.

use super::demux::{Kind, Payload, kind};
use super::rtp::{HEADER_LEN, Header, NotRtp};
use super::{iax, t38};
use serde::Serialize;

/// Why a flow is media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Reason {
    /// RTP by itself.
    Rtp = 1,
    /// RTP, and RTCP on the same ports.
    RtpWithRtcp,
    /// RTP on a connection that ICE made.
    RtpAfterStun,
    /// RTP where DTLS was: secure RTP.
    SrtpAfterDtls,
    /// RTP where ZRTP was.
    SrtpAfterZrtp,
    /// RTP in TURN channel data.
    RtpInTurnChannel,
    /// RTP behind another header.
    RtpAtOffset,
    /// Fax.
    T38,
    /// Sizes and intervals.
    Statistical,
    /// Voice in frames of IAX2.
    Iax2,
}

impl Reason {
    const ALL: [Self; 10] = [
        Self::Rtp,
        Self::RtpWithRtcp,
        Self::RtpAfterStun,
        Self::SrtpAfterDtls,
        Self::SrtpAfterZrtp,
        Self::RtpInTurnChannel,
        Self::RtpAtOffset,
        Self::T38,
        Self::Statistical,
        Self::Iax2,
    ];

    /// Stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rtp => "rtp",
            Self::RtpWithRtcp => "rtp_with_rtcp",
            Self::RtpAfterStun => "rtp_after_stun",
            Self::SrtpAfterDtls => "srtp_after_dtls",
            Self::SrtpAfterZrtp => "srtp_after_zrtp",
            Self::RtpInTurnChannel => "rtp_in_turn_channel",
            Self::RtpAtOffset => "rtp_at_offset",
            Self::T38 => "t38",
            Self::Statistical => "statistical",
            Self::Iax2 => "iax2",
        }
    }

    /// The reason of this number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Whether the flow has an SSRC.
    pub const fn is_rtp(self) -> bool {
        !matches!(self, Self::T38 | Self::Statistical | Self::Iax2)
    }
}

/// A flow was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Why.
    pub reason: Reason,
    /// SSRC, or source call number of IAX2; 0 without either.
    pub ssrc: u32,
    /// Payload type of the deciding packet, 0 … 127; 0 without RTP.
    pub payload_type: u8,
    /// Per cent.
    pub confidence: u8,
    /// Where the RTP header begins in the payload.
    pub offset: u8,
    /// The usual clock nearest to what the timestamps showed, Hz; 0 without RTP.
    pub clock_hz: u32,
    /// Packet of the flow that decided, from 1.
    pub packet: u64,
}

/// Whether a packet of a recognised flow is what the flow was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is.
    Same,
    /// It may travel beside it: signalling, RTCP, RTP of another SSRC.
    Beside,
    /// It is something else.
    No,
}

/// Whether `payload` fits a flow recognised for `reason`, with `ssrc` and headers at `offset`; `None` when only
/// statistics can tell.
pub(crate) fn fit(reason: Reason, offset: u8, ssrc: u32, payload: &Payload<'_>) -> Option<Fit> {
    match reason {
        Reason::Statistical => return None,
        Reason::T38 if t38::sequence(payload).is_some() => return Some(Fit::Same),
        Reason::Iax2 if iax::mini(payload).is_some_and(|frame| u32::from(frame.call) == ssrc) => {
            return Some(Fit::Same);
        }
        Reason::Iax2 => return Some(if iax::is_full(payload) { Fit::Beside } else { Fit::No }),
        _ => {}
    }
    Some(match header_at(payload, usize::from(offset)) {
        Ok(h) if reason.is_rtp() && h.ssrc == ssrc => Fit::Same,
        Ok(_) => Fit::Beside,
        Err(_) if matches!(kind(payload.bytes, payload.len), Kind::Other | Kind::Channel) => Fit::No,
        Err(_) => Fit::Beside,
    })
}

/// The header at `offset`, if one can be there.
#[inline]
pub(crate) fn header_at(payload: &Payload<'_>, offset: usize) -> Result<Header, NotRtp> {
    let head = payload.bytes.get(offset..).and_then(|b| b.first_chunk::<HEADER_LEN>());
    Header::read(payload.len.saturating_sub(offset), head.ok_or(NotRtp::TooShort)?)
}
