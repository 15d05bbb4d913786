//! Protocol numbers of IPv4 and next-header values of IPv6 (IANA registry "Protocol Numbers").

/// ICMP for IPv4 (RFC 792).
pub const ICMPV4: u8 = 1;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// Encapsulating security payload (RFC 4303); what follows is encrypted.
pub const ESP: u8 = 50;

/// IPv6 hop-by-hop options (RFC 8200 §4.3).
pub const IPV6_HOP_BY_HOP: u8 = 0;
/// IPv6 routing header (RFC 8200 §4.4).
pub const IPV6_ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200 §4.5).
pub const IPV6_FRAGMENT: u8 = 44;
/// Authentication header (RFC 4302).
pub const AH: u8 = 51;
/// IPv6: nothing follows (RFC 8200 §4.7).
pub const IPV6_NO_NEXT: u8 = 59;
/// IPv6 destination options (RFC 8200 §4.6).
pub const IPV6_DESTINATION: u8 = 60;
/// IPv6 mobility header (RFC 6275 §6.1).
pub const IPV6_MOBILITY: u8 = 135;

/// Whether an IPv6 extension header that is walked over follows.
#[inline]
#[must_use]
pub const fn is_ipv6_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        IPV6_HOP_BY_HOP | IPV6_ROUTING | IPV6_FRAGMENT | AH | IPV6_DESTINATION | IPV6_MOBILITY
    )
}
