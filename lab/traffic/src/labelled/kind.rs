//! Kinds of traffic.

/// What a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// RTP speech without silence suppression: G.711, G.722, G.723.1, G.729, GSM, iLBC.
    Voice,
    /// RTP speech with silence suppression, comfort noise and telephone events; a part falls silent for longer than
    /// detection remembers.
    VoiceWithSilence,
    /// RTP speech of variable size: Opus, AMR, AMR-WB.
    VoiceWideband,
    /// RTP video: several packets a frame with one time stamp.
    Video,
    /// RTP of two sources on one flow, or of one that changes its SSRC, with RTCP on the same ports.
    RtpSeveralSources,
    /// RTP of three to five sources in turns on one flow, as conference servers send it, plain or secured.
    RtpConference,
    /// RTP with contributing sources, header extension or padding.
    RtpExtended,
    /// STUN, DTLS, then secure RTP on the same ports.
    Srtp,
    /// RTP in TURN channel data or in Send and Data indications.
    RtpOverTurn,
    /// RTCP on ports of its own.
    Rtcp,
    /// STUN, DTLS, then DTLS records only.
    WebRtcData,
    /// QUIC, greased in part.
    Quic,
    /// DNS, one query or many on one pair of ports.
    Dns,
    /// Multicast DNS.
    MulticastDns,
    /// NTP.
    Ntp,
    /// DHCP.
    Dhcp,
    /// SNMP.
    Snmp,
    /// Syslog.
    Syslog,
    /// Games with headers of random layout: counters, ticks, clocks, constant words.
    Game,
    /// Games with published headers: Quake 3, Source, RakNet, ENet.
    GameKnown,
    /// WireGuard; what is inside may be a call.
    WireGuard,
    /// OpenVPN over UDP; likewise.
    OpenVpn,
    /// IPsec ESP in UDP; likewise.
    Esp,
    /// TCP: data and streams of acknowledgments, RTSP with interleaved RTP in part.
    Tcp,
    /// Bulk transfers over UDP with counters, clocks and constant words.
    Bulk,
    /// uTP.
    Utp,
    /// Random bytes behind a version of RTP, with none, one or two of its fields.
    Noise,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::Voice,
        Self::VoiceWithSilence,
        Self::VoiceWideband,
        Self::Video,
        Self::RtpSeveralSources,
        Self::RtpConference,
        Self::RtpExtended,
        Self::Srtp,
        Self::RtpOverTurn,
        Self::Rtcp,
        Self::WebRtcData,
        Self::Quic,
        Self::Dns,
        Self::MulticastDns,
        Self::Ntp,
        Self::Dhcp,
        Self::Snmp,
        Self::Syslog,
        Self::Game,
        Self::GameKnown,
        Self::WireGuard,
        Self::OpenVpn,
        Self::Esp,
        Self::Tcp,
        Self::Bulk,
        Self::Utp,
        Self::Noise,
    ];

    /// Stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Voice => "voice",
            Self::VoiceWithSilence => "voice_with_silence",
            Self::VoiceWideband => "voice_wideband",
            Self::Video => "video",
            Self::RtpSeveralSources => "rtp_several_sources",
            Self::RtpConference => "rtp_conference",
            Self::RtpExtended => "rtp_extended",
            Self::Srtp => "srtp",
            Self::RtpOverTurn => "rtp_over_turn",
            Self::Rtcp => "rtcp",
            Self::WebRtcData => "webrtc_data",
            Self::Quic => "quic",
            Self::Dns => "dns",
            Self::MulticastDns => "multicast_dns",
            Self::Ntp => "ntp",
            Self::Dhcp => "dhcp",
            Self::Snmp => "snmp",
            Self::Syslog => "syslog",
            Self::Game => "game",
            Self::GameKnown => "game_known",
            Self::WireGuard => "wireguard",
            Self::OpenVpn => "openvpn",
            Self::Esp => "esp",
            Self::Tcp => "tcp",
            Self::Bulk => "bulk",
            Self::Utp => "utp",
            Self::Noise => "noise",
        }
    }

    /// Whether it is real-time media.
    pub const fn is_media(self) -> bool {
        (self as u8) < Self::Rtcp as u8
    }

    /// How many exchanges of a hundred or so are of this kind; RTCP comes with calls.
    pub(crate) const fn weight(self) -> u8 {
        match self {
            Self::Rtcp => 0,
            Self::Voice | Self::VoiceWithSilence | Self::VoiceWideband => 6,
            Self::Video | Self::RtpSeveralSources | Self::RtpExtended | Self::RtpOverTurn => 4,
            Self::RtpConference => 3,
            Self::Srtp => 6,
            Self::Quic | Self::Game => 9,
            Self::Dns | Self::WireGuard | Self::Tcp | Self::Bulk => 6,
            Self::GameKnown | Self::OpenVpn | Self::Esp | Self::Noise => 4,
            Self::WebRtcData | Self::Utp => 3,
            Self::MulticastDns | Self::Ntp | Self::Dhcp | Self::Snmp | Self::Syslog => 2,
        }
    }
}
