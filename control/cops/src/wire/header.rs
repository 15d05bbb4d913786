//! The header of every message (RFC 2748 §2.1).
//!
//! ```text
//! +-------+-------+---------------+-------------------------------+
//! |version| flags |    op code    |          client-type          |
//! +-------+-------+---------------+-------------------------------+
//! |        length of the message, octets, with the header         |
//! +---------------------------------------------------------------+
//! ```

use std::fmt;

/// Octets of the header.
pub const HEADER: usize = 8;
/// The version there is.
const VERSION: u8 = 1;
/// Of the flags: another message asked for this one.
const SOLICITED: u8 = 1;

/// What kind of client a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientType(pub u16);

impl ClientType {
    /// None: the connection itself, its security and its keep-alive.
    pub const CONNECTION: Self = Self(0);

    /// Of the range for private use, 0x4000–0x7FFF (RFC 2748 §6).
    pub const fn is_private(self) -> bool {
        self.0 >= 0x4000 && self.0 <= 0x7fff
    }
}

impl fmt::Display for ClientType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OpCode {
    /// REQ.
    Request = 1,
    /// DEC.
    Decision = 2,
    /// RPT.
    Report = 3,
    /// DRQ.
    Delete = 4,
    /// SSQ.
    SyncRequest = 5,
    /// OPN.
    Open = 6,
    /// CAT.
    Accept = 7,
    /// CC.
    Close = 8,
    /// KA.
    KeepAlive = 9,
    /// SSC.
    SyncComplete = 10,
}

impl OpCode {
    const ALL: [Self; 10] = [
        Self::Request,
        Self::Decision,
        Self::Report,
        Self::Delete,
        Self::SyncRequest,
        Self::Open,
        Self::Accept,
        Self::Close,
        Self::KeepAlive,
        Self::SyncComplete,
    ];

    /// That of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// As the RFC abbreviates it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "REQ",
            Self::Decision => "DEC",
            Self::Report => "RPT",
            Self::Delete => "DRQ",
            Self::SyncRequest => "SSQ",
            Self::Open => "OPN",
            Self::Accept => "CAT",
            Self::Close => "CC",
            Self::KeepAlive => "KA",
            Self::SyncComplete => "SSC",
        }
    }
}

/// A header, read. Its version is 1; flags that nobody has defined are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Another message asked for this one.
    pub solicited: bool,
    /// Number of the operation, which may be unknown.
    pub op: u8,
    /// Of which client.
    pub client_type: ClientType,
    /// Octets, with the header.
    pub length: u32,
}

impl Header {
    /// Reads one; the outer `None` if there are fewer than [`HEADER`] octets, the inner if they are of another version.
    pub fn read(bytes: &[u8]) -> Option<Option<Self>> {
        let [first, op, c, d, e, f, g, h] = *bytes.first_chunk::<HEADER>()?;
        Some((first >> 4 == VERSION).then(|| Self {
            solicited: first & SOLICITED != 0,
            op,
            client_type: ClientType(u16::from_be_bytes([c, d])),
            length: u32::from_be_bytes([e, f, g, h]),
        }))
    }

    /// Appends it.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.push(VERSION << 4 | u8::from(self.solicited) * SOLICITED);
        out.push(self.op);
        out.extend(self.client_type.0.to_be_bytes());
        out.extend(self.length.to_be_bytes());
    }
}
