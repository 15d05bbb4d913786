//! A change of authorization: of which session, and what (RFC 5176 sections 2.1, 2.2 and 3).

use crate::attribute::{Attribute, kind};
use crate::authorization::Authorization;
use crate::cause::ErrorCause;
use crate::packet::{Code, Packet, TooLong};
use crate::record::user_address;
use perhop_units::Duration;
use std::net::IpAddr;

/// What becomes of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// It may have this from now on.
    Authorize {
        /// What is not said stays as it is.
        authorization: Authorization,
        /// It ends after this; none = as before.
        session_timeout: Option<Duration>,
        /// It ends after so long a silence; none = as before.
        idle_timeout: Option<Duration>,
    },
    /// It ends.
    Disconnect,
}

/// See the module. At least one of `user`, `session` and `address` says which session; all that are there must be its.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the user.
    pub user: Option<String>,
    /// The session's name, of the access server.
    pub session: Option<String>,
    /// The user's address.
    pub address: Option<IpAddr>,
    /// What becomes of it.
    pub act: Act,
}

impl Change {
    /// The code of its request.
    pub const fn code(&self) -> Code {
        match self.act {
            Act::Authorize { .. } => Code::CoaRequest,
            Act::Disconnect => Code::DisconnectRequest,
        }
    }

    /// Of a request.
    ///
    /// # Errors
    /// What the refusal is to say. A service type is for access servers that authenticate, and none here does (section 3.2).
    pub fn of(packet: &Packet) -> Result<Self, ErrorCause> {
        let seconds = |kind| packet.number(kind).map(|number| Duration::from_secs(u64::from(number)));
        let act = match packet.code {
            Code::DisconnectRequest => Act::Disconnect,
            Code::CoaRequest if packet.first(kind::SERVICE_TYPE).is_some() => {
                return Err(ErrorCause::UnsupportedService);
            }
            Code::CoaRequest => Act::Authorize {
                authorization: Authorization::of(packet),
                session_timeout: seconds(kind::SESSION_TIMEOUT),
                idle_timeout: seconds(kind::IDLE_TIMEOUT),
            },
            _ => return Err(ErrorCause::InvalidRequest),
        };
        let nothing = Act::Authorize {
            authorization: Authorization::default(),
            session_timeout: None,
            idle_timeout: None,
        };
        let text = |kind| packet.text(kind).map(str::to_owned);
        let change = Self {
            user: text(kind::USER_NAME),
            session: text(kind::ACCT_SESSION_ID),
            address: user_address(packet),
            act,
        };
        let names_none = change.user.is_none() && change.session.is_none() && change.address.is_none();
        if names_none || change.act == nothing {
            return Err(ErrorCause::MissingAttribute);
        }
        Ok(change)
    }

    /// As attributes of its request.
    ///
    /// # Errors
    /// A name is longer than an attribute.
    pub fn attributes(&self) -> Result<Vec<Attribute>, TooLong> {
        let mut out = Vec::new();
        for (kind, name) in [(kind::USER_NAME, &self.user), (kind::ACCT_SESSION_ID, &self.session)] {
            let Some(name) = name else { continue };
            if name.len() > Attribute::MAX_VALUE {
                return Err(TooLong { octets: name.len(), most: Attribute::MAX_VALUE });
            }
            out.push(Attribute::text(kind, name));
        }
        out.extend(self.address.map(|address| match address {
            IpAddr::V4(address) => Attribute::octets(kind::FRAMED_IP_ADDRESS, &address.octets()),
            IpAddr::V6(address) => Attribute::octets(kind::FRAMED_IPV6_ADDRESS, &address.octets()),
        }));
        if let Act::Authorize { authorization, session_timeout, idle_timeout } = &self.act {
            out.extend(authorization.attributes()?);
            let times = [(kind::SESSION_TIMEOUT, session_timeout), (kind::IDLE_TIMEOUT, idle_timeout)];
            for (kind, time) in times {
                let seconds = time.map(|time| time.as_nanos() / 1_000_000_000);
                let seconds = seconds.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
                out.extend(seconds.map(|seconds| Attribute::number(kind, seconds)));
            }
        }
        Ok(out)
    }
}
