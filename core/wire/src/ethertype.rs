//! EtherTypes (IANA registry "IEEE 802 Numbers").

/// IPv4 (RFC 894).
pub const IPV4: u16 = 0x0800;
/// ARP (RFC 826).
pub const ARP: u16 = 0x0806;
/// IPv6 (RFC 2464).
pub const IPV6: u16 = 0x86dd;
/// IEEE 802.1Q customer tag.
pub const VLAN: u16 = 0x8100;
/// IEEE 802.1ad service tag (outer tag of QinQ).
pub const VLAN_SERVICE: u16 = 0x88a8;
/// Outer tag of QinQ before 802.1ad, still in use.
pub const VLAN_OLD_QINQ: u16 = 0x9100;

/// Whether a VLAN tag follows.
#[inline]
#[must_use]
pub const fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, VLAN | VLAN_SERVICE | VLAN_OLD_QINQ)
}
