//! ARP for Ethernet and IPv4 (RFC 826).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |      hardware type (1)        |     protocol type (0x0800)    |
//! +---------------+---------------+-------------------------------+
//! |  hw length 6  | proto length 4|           operation           |
//! +---------------+---------------+-------------------------------+
//! |                sender hardware address (6 bytes)              |
//! |                sender protocol address (4 bytes)              |
//! |                target hardware address (6 bytes)              |
//! |                target protocol address (4 bytes)              |
//! +---------------------------------------------------------------+
//! ```

use crate::field::{be16, put16};
use crate::{HeaderError, MacAddr};
use std::net::Ipv4Addr;

/// Length of the packet in bytes.
pub const HEADER_LEN: usize = 28;
/// Operation: who has the target address?
pub const REQUEST: u16 = 1;
/// Operation: the sender has it.
pub const REPLY: u16 = 2;

/// Hardware type Ethernet, protocol IPv4, address lengths 6 and 4.
const FIXED: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// An ARP packet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    packet: &'a [u8; HEADER_LEN],
}

impl<'a> View<'a> {
    /// Looks at the payload of an Ethernet frame.
    ///
    /// # Errors
    /// [`HeaderError::Truncated`] below 28 bytes, [`HeaderError::Type`] if not for Ethernet and IPv4.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let packet: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(HeaderError::Truncated)?;
        if packet[..6] == FIXED { Ok(Self { packet }) } else { Err(HeaderError::Type) }
    }
    /// [`REQUEST`], [`REPLY`] or something else.
    pub fn operation(&self) -> u16 {
        be16(self.packet, 6)
    }
    /// Hardware address of the sender.
    pub fn sender_mac(&self) -> MacAddr {
        self.mac(8)
    }
    /// Protocol address of the sender.
    pub fn sender_ip(&self) -> Ipv4Addr {
        self.ip(14)
    }
    /// Hardware address of the target; meaningless in a request.
    pub fn target_mac(&self) -> MacAddr {
        self.mac(18)
    }
    /// Protocol address of the target.
    pub fn target_ip(&self) -> Ipv4Addr {
        self.ip(24)
    }

    fn mac(&self, at: usize) -> MacAddr {
        let p = self.packet;
        MacAddr([p[at], p[at + 1], p[at + 2], p[at + 3], p[at + 4], p[at + 5]])
    }
    fn ip(&self, at: usize) -> Ipv4Addr {
        let p = self.packet;
        Ipv4Addr::new(p[at], p[at + 1], p[at + 2], p[at + 3])
    }
}

/// The packet's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// [`REQUEST`], [`REPLY`] or something else.
    pub operation: u16,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// Protocol address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target.
    pub target_mac: MacAddr,
    /// Protocol address of the target.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        }
    }
    /// Writes the packet to the front of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[..6].copy_from_slice(&FIXED);
        put16(buffer, 6, self.operation);
        buffer[8..14].copy_from_slice(&self.sender_mac.0);
        buffer[14..18].copy_from_slice(&self.sender_ip.octets());
        buffer[18..24].copy_from_slice(&self.target_mac.0);
        buffer[24..28].copy_from_slice(&self.target_ip.octets());
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(rest: [u8; 22]) {
            let bytes = [FIXED.as_slice(), rest.as_slice()].concat();
            let mut out = [0; HEADER_LEN];
            Repr::parse(&View::new_checked(&bytes).unwrap()).emit(&mut out);
            prop_assert_eq!(out.as_slice(), bytes.as_slice());
        }
    }

    #[test]
    fn wrong_kind() {
        let mut bytes = [0u8; HEADER_LEN];
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::Type);
        bytes[..6].copy_from_slice(&FIXED);
        assert!(View::new_checked(&bytes).is_ok());
        assert_eq!(View::new_checked(&bytes[..27]).unwrap_err(), HeaderError::Truncated);
    }
}
