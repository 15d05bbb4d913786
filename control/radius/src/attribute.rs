//! Attributes, and those of vendors inside them.

use crate::packet::TooLong;

/// Kinds of attributes that are read or written here, by IANA's registry of RADIUS types.
#[allow(missing_docs, reason = "the names are those of the standards")]
pub mod kind {
    pub const USER_NAME: u8 = 1;
    pub const NAS_IP_ADDRESS: u8 = 4;
    pub const NAS_PORT: u8 = 5;
    pub const SERVICE_TYPE: u8 = 6;
    pub const FRAMED_IP_ADDRESS: u8 = 8;
    pub const FILTER_ID: u8 = 11;
    pub const STATE: u8 = 24;
    pub const CLASS: u8 = 25;
    pub const VENDOR_SPECIFIC: u8 = 26;
    pub const SESSION_TIMEOUT: u8 = 27;
    pub const IDLE_TIMEOUT: u8 = 28;
    pub const CALLED_STATION_ID: u8 = 30;
    pub const CALLING_STATION_ID: u8 = 31;
    pub const NAS_IDENTIFIER: u8 = 32;
    pub const PROXY_STATE: u8 = 33;
    pub const ACCT_STATUS_TYPE: u8 = 40;
    pub const ACCT_DELAY_TIME: u8 = 41;
    pub const ACCT_INPUT_OCTETS: u8 = 42;
    pub const ACCT_OUTPUT_OCTETS: u8 = 43;
    pub const ACCT_SESSION_ID: u8 = 44;
    pub const ACCT_SESSION_TIME: u8 = 46;
    pub const ACCT_TERMINATE_CAUSE: u8 = 49;
    pub const ACCT_INPUT_GIGAWORDS: u8 = 52;
    pub const ACCT_OUTPUT_GIGAWORDS: u8 = 53;
    pub const EVENT_TIMESTAMP: u8 = 55;
    pub const MESSAGE_AUTHENTICATOR: u8 = 80;
    pub const NAS_PORT_ID: u8 = 87;
    pub const NAS_IPV6_ADDRESS: u8 = 95;
    pub const FRAMED_IPV6_PREFIX: u8 = 97;
    pub const ERROR_CAUSE: u8 = 101;
    pub const FRAMED_IPV6_ADDRESS: u8 = 168;
}

/// Vendors by IANA's private enterprise numbers, and kinds of their attributes.
#[allow(missing_docs, reason = "the names are the vendors'")]
pub mod vendor {
    pub const WISPR: u32 = 14_122;
    pub const WISPR_BANDWIDTH_MAX_UP: u8 = 7;
    pub const WISPR_BANDWIDTH_MAX_DOWN: u8 = 8;
    pub const MIKROTIK: u32 = 14_988;
    pub const MIKROTIK_RATE_LIMIT: u8 = 8;
}

/// An attribute as it is on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Which.
    pub kind: u8,
    /// At most [`Attribute::MAX_VALUE`] octets.
    pub value: Vec<u8>,
}

impl Attribute {
    /// Octets of the longest value.
    pub const MAX_VALUE: usize = 253;

    /// With any octets.
    pub fn octets(kind: u8, value: &[u8]) -> Self {
        Self { kind, value: value.to_vec() }
    }

    /// With text.
    pub fn text(kind: u8, value: &str) -> Self {
        Self::octets(kind, value.as_bytes())
    }

    /// With a number of four octets.
    pub fn number(kind: u8, value: u32) -> Self {
        Self::octets(kind, &value.to_be_bytes())
    }

    /// Of a vendor: one in an attribute of its own.
    ///
    /// # Errors
    /// The value is longer than 247 octets.
    pub fn of_vendor(vendor: u32, kind: u8, value: &[u8]) -> Result<Self, TooLong> {
        let most = Self::MAX_VALUE - 6;
        if value.len() > most {
            return Err(TooLong { octets: value.len(), most });
        }
        let mut inside = vendor.to_be_bytes().to_vec();
        inside.extend([kind, 2 + value.len() as u8]);
        inside.extend(value);
        Ok(Self { kind: kind::VENDOR_SPECIFIC, value: inside })
    }
}

/// An attribute of a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorAttribute<'a> {
    /// Private enterprise number.
    pub vendor: u32,
    /// Which of the vendor's.
    pub kind: u8,
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> VendorAttribute<'a> {
    /// Those in a Vendor-Specific attribute, up to the first that does not end inside it.
    pub(crate) fn each(value: &'a [u8]) -> impl Iterator<Item = Self> {
        let (vendor, mut rest) = value
            .split_first_chunk()
            .map_or((0, [].as_slice()), |(vendor, rest)| (u32::from_be_bytes(*vendor), rest));
        std::iter::from_fn(move || {
            let (kind, length) = (*rest.first()?, usize::from(*rest.get(1)?));
            let value = rest.get(2..length)?;
            rest = &rest[length..];
            Some(Self { vendor, kind, value })
        })
    }
}
