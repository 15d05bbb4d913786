//! What an access server says of a session (RFC 2866 section 5).

use crate::attribute::kind;
use crate::authorization::Authorization;
use crate::packet::Packet;
use perhop_units::Duration;
use std::net::IpAddr;
use thiserror::Error;

/// What happened (RFC 2866 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the standard")]
pub enum Status {
    Start,
    Stop,
    Interim,
    /// The access server has started: no session of before is there any more.
    On,
    /// It stops: as [`Status::On`].
    Off,
}

/// An accounting request lacks what it must have, or has a status that is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Incomplete {
    /// The attribute is not there, or has a form that it cannot have.
    #[error("attribute {kind} is missing or has a wrong form")]
    Attribute {
        /// Which.
        kind: u8,
    },
    /// A status that is not known here.
    #[error("status {status} is not known here")]
    Status {
        /// As given.
        status: u32,
    },
}

/// What an access server says of a session, or of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What happened.
    pub status: Status,
    /// The session's name, of the access server; empty with [`Status::On`] and [`Status::Off`].
    pub session: String,
    /// Name of the user; empty if it says none.
    pub user: String,
    /// How the access server calls itself.
    pub nas_identifier: Option<String>,
    /// Where it says that it is.
    pub nas_address: Option<IpAddr>,
    /// By which of its ports the user is there: its name, else its number.
    pub port: Option<String>,
    /// The user's address.
    pub address: Option<IpAddr>,
    /// How the user's device is called, mostly its MAC address.
    pub calling: Option<String>,
    /// Octets that the user sent, counted by the access server.
    pub sent: u64,
    /// Octets that the user received.
    pub received: u64,
    /// How long the session has been.
    pub lasted: Duration,
    /// How long the access server has tried to say so.
    pub delayed: Duration,
    /// Why it ended (RFC 2866 section 5.10).
    pub cause: Option<u32>,
    /// What it may have.
    pub authorization: Authorization,
}

impl Record {
    /// Of an accounting request.
    ///
    /// # Errors
    /// [`Incomplete`]: what is required is missing. Acct-Session-Id is not asked of an access server that starts or stops, as
    /// several send none.
    pub fn of(packet: &Packet) -> Result<Self, Incomplete> {
        let missing = |kind| Incomplete::Attribute { kind };
        let status = packet.number(kind::ACCT_STATUS_TYPE).ok_or(missing(kind::ACCT_STATUS_TYPE))?;
        let status = match status {
            1 => Status::Start,
            2 => Status::Stop,
            3 => Status::Interim,
            7 => Status::On,
            8 => Status::Off,
            status => return Err(Incomplete::Status { status }),
        };
        let is_of_session = !matches!(status, Status::On | Status::Off);
        let session = packet.text(kind::ACCT_SESSION_ID).unwrap_or_default();
        if is_of_session && session.is_empty() {
            return Err(missing(kind::ACCT_SESSION_ID));
        }
        let nas_identifier = packet.text(kind::NAS_IDENTIFIER).map(str::to_owned);
        let nas_address =
            packet.address(kind::NAS_IP_ADDRESS).or_else(|| packet.address(kind::NAS_IPV6_ADDRESS));
        if nas_identifier.is_none() && nas_address.is_none() {
            return Err(missing(kind::NAS_IP_ADDRESS));
        }
        let count = |low, high| {
            let number = |kind| u64::from(packet.number(kind).unwrap_or(0));
            number(high) << 32 | number(low)
        };
        let seconds = |kind| Duration::from_secs(u64::from(packet.number(kind).unwrap_or(0)));
        let port = packet.text(kind::NAS_PORT_ID).map(str::to_owned);
        Ok(Self {
            status,
            session: session.to_owned(),
            user: packet.text(kind::USER_NAME).unwrap_or_default().to_owned(),
            nas_identifier,
            nas_address,
            port: port.or_else(|| packet.number(kind::NAS_PORT).map(|number| number.to_string())),
            address: user_address(packet),
            calling: packet.text(kind::CALLING_STATION_ID).map(str::to_owned),
            sent: count(kind::ACCT_INPUT_OCTETS, kind::ACCT_INPUT_GIGAWORDS),
            received: count(kind::ACCT_OUTPUT_OCTETS, kind::ACCT_OUTPUT_GIGAWORDS),
            lasted: seconds(kind::ACCT_SESSION_TIME),
            delayed: seconds(kind::ACCT_DELAY_TIME),
            cause: packet.number(kind::ACCT_TERMINATE_CAUSE),
            authorization: Authorization::of(packet),
        })
    }
}

/// The address of a user: the two that mean "choose yourself" are none (RFC 2865 section 5.8).
pub(crate) fn user_address(packet: &Packet) -> Option<IpAddr> {
    let chosen = |address: &IpAddr| match address {
        IpAddr::V4(address) => !matches!(u32::from(*address), 0xffff_ffff | 0xffff_fffe),
        IpAddr::V6(_) => true,
    };
    let v4 = packet.address(kind::FRAMED_IP_ADDRESS).filter(chosen);
    v4.or_else(|| packet.address(kind::FRAMED_IPV6_ADDRESS))
}
