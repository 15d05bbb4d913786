//! What a datagram says (RFC 2865 section 3).
//!
//! ```text
//! +--------+--------+-----------------+
//! |  code  |   id   |     length      |   length counts all; octets behind it are padding
//! +--------+--------+-----------------+
//! |       authenticator, 16 octets    |
//! +--------+--------+-----------------+
//! |  kind  | length |  value …            attributes, the length counts its own two octets
//! ```

use crate::attribute::{Attribute, VendorAttribute, kind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Octets before the first attribute.
pub const HEAD: usize = 20;
/// Octets of the longest packet (RFC 2865 section 3).
pub const MAX_PACKET: usize = 4096;

/// What a packet is (RFC 2866 section 3, RFC 5176 section 2.3). Others are not taken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the standards")]
pub enum Code {
    AccountingRequest = 4,
    AccountingResponse = 5,
    DisconnectRequest = 40,
    DisconnectAck = 41,
    DisconnectNak = 42,
    CoaRequest = 43,
    CoaAck = 44,
    CoaNak = 45,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 8] = [
        Self::AccountingRequest,
        Self::AccountingResponse,
        Self::DisconnectRequest,
        Self::DisconnectAck,
        Self::DisconnectNak,
        Self::CoaRequest,
        Self::CoaAck,
        Self::CoaNak,
    ];

    /// The code of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|code| *code as u8 == number)
    }

    /// Whether it asks for something.
    pub const fn is_request(self) -> bool {
        matches!(self, Self::AccountingRequest | Self::DisconnectRequest | Self::CoaRequest)
    }
}

/// A datagram that is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Shorter than a head, or than its own length says.
    #[error("{octets} octets are less than the packet says, or than a head of {HEAD}")]
    Short {
        /// Octets of the datagram.
        octets: usize,
    },
    /// A length outside [`HEAD`] to [`MAX_PACKET`].
    #[error("a length of {length}; {HEAD} to {MAX_PACKET} are possible")]
    Length {
        /// As its head says.
        length: usize,
    },
    /// A code that is not known here.
    #[error("code {code} is not known here")]
    Code {
        /// The code.
        code: u8,
    },
    /// An attribute that is shorter than its head or reaches beyond the packet.
    #[error("the attribute at octet {at} does not end inside the packet")]
    Attribute {
        /// Its first octet.
        at: usize,
    },
}

/// A packet would be longer than [`MAX_PACKET`], or a value longer than its attribute can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{octets} octets do not fit in {most}")]
pub struct TooLong {
    /// As long as it would be.
    pub octets: usize,
    /// As long as it may be.
    pub most: usize,
}

/// A packet, read. Its authenticator is not checked: see `sign`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is.
    pub code: Code,
    /// Which answer belongs to which request.
    pub identifier: u8,
    /// Proof of the sender.
    pub authenticator: [u8; 16],
    /// In the order of the packet, at most 2,038.
    pub attributes: Vec<Attribute>,
}

impl Packet {
    /// Reads a datagram. O(octets).
    ///
    /// # Errors
    /// [`Malformed`]: RFC 2865 has such datagrams silently discarded.
    pub fn read(datagram: &[u8]) -> Result<Self, Malformed> {
        let bytes = whole(datagram)?;
        let (head, mut rest) = bytes.split_at(HEAD);
        let code = Code::from_number(head[0]).ok_or(Malformed::Code { code: head[0] })?;
        let mut authenticator = [0; 16];
        authenticator.copy_from_slice(&head[4..]);
        let mut attributes = Vec::new();
        while let Some(kind) = rest.first() {
            let at = bytes.len() - rest.len();
            let length = rest.get(1).map_or(0, |length| usize::from(*length));
            if length < 2 || length > rest.len() {
                return Err(Malformed::Attribute { at });
            }
            attributes.push(Attribute { kind: *kind, value: rest[2..length].to_vec() });
            rest = &rest[length..];
        }
        Ok(Self { code, identifier: head[1], authenticator, attributes })
    }

    /// Writes it with its authenticator as it stands.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn write(&self) -> Result<Vec<u8>, TooLong> {
        let octets = HEAD + self.attributes.iter().map(|a| 2 + a.value.len()).sum::<usize>();
        if octets > MAX_PACKET {
            return Err(TooLong { octets, most: MAX_PACKET });
        }
        let mut out = Vec::with_capacity(octets);
        out.extend([self.code as u8, self.identifier]);
        out.extend((octets as u16).to_be_bytes());
        out.extend(self.authenticator);
        for attribute in &self.attributes {
            let length = 2 + attribute.value.len();
            let length = u8::try_from(length)
                .map_err(|_| TooLong { octets: attribute.value.len(), most: Attribute::MAX_VALUE })?;
            out.extend([attribute.kind, length]);
            out.extend(&attribute.value);
        }
        Ok(out)
    }

    /// Values of the attributes of a kind, in order.
    pub fn all(&self, kind: u8) -> impl Iterator<Item = &[u8]> {
        self.attributes.iter().filter(move |a| a.kind == kind).map(|a| a.value.as_slice())
    }

    /// The first of a kind.
    pub fn first(&self, kind: u8) -> Option<&[u8]> {
        self.all(kind).next()
    }

    /// The first of a kind that is a number of four octets; of another length it is none.
    pub fn number(&self, kind: u8) -> Option<u32> {
        self.first(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// The first of a kind that is not empty and text; no zero octet ends it (RFC 2865 section 5).
    pub fn text(&self, kind: u8) -> Option<&str> {
        std::str::from_utf8(self.first(kind)?).ok().filter(|text| !text.is_empty())
    }

    /// The first of a kind that is an address, IPv4 or IPv6 by its length.
    pub fn address(&self, kind: u8) -> Option<IpAddr> {
        let value = self.first(kind)?;
        let v4 = <[u8; 4]>::try_from(value).map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
        v4.or_else(|_| <[u8; 16]>::try_from(value).map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))).ok()
    }

    /// Attributes of vendors, each as (vendor, kind, value). A Vendor-Specific attribute that is not made of such is passed
    /// over: its form is the vendor's business (RFC 2865 section 5.26).
    pub fn vendor_attributes(&self) -> impl Iterator<Item = VendorAttribute<'_>> {
        self.all(kind::VENDOR_SPECIFIC).flat_map(VendorAttribute::each)
    }
}

/// The packet without what pads its datagram.
pub(crate) fn whole(datagram: &[u8]) -> Result<&[u8], Malformed> {
    let short = Malformed::Short { octets: datagram.len() };
    let Some([_, _, high, low]) = datagram.first_chunk() else { return Err(short) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if !(HEAD..=MAX_PACKET).contains(&length) {
        return Err(Malformed::Length { length });
    }
    datagram.get(..length).ok_or(short)
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
