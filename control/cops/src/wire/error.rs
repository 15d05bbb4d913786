//! Errors of the protocol (RFC 2748 §2.2.8, RFC 4261 §4.2).

use super::Malformed;
use super::numbers::numbers;
use super::object::{Object, c_num, put_pair};

numbers! {
    /// What went wrong.
    ErrorCode {
        /// A handle is none.
        BAD_HANDLE = 1, "bad handle";
        /// There is no request of this handle.
        INVALID_HANDLE_REFERENCE = 2, "invalid handle reference";
        /// A message could not be read.
        BAD_MESSAGE_FORMAT = 3, "bad message format";
        /// The PDP cannot decide.
        UNABLE_TO_PROCESS = 4, "unable to process";
        /// Something of the client-type is missing.
        MANDATORY_CLIENT_INFO_MISSING = 5, "mandatory client-specific info missing";
        /// The client-type is not supported.
        UNSUPPORTED_CLIENT_TYPE = 6, "unsupported client-type";
        /// An object is missing; the sub-code has its C-Num in octet 2 here.
        MANDATORY_OBJECT_MISSING = 7, "mandatory COPS object missing";
        /// The client failed.
        CLIENT_FAILURE = 8, "client failure";
        /// Nothing was heard.
        COMMUNICATION_FAILURE = 9, "communication failure";
        /// No reason is given.
        UNSPECIFIED = 10, "unspecified";
        /// Whoever says it stops.
        SHUTTING_DOWN = 11, "shutting down";
        /// Another server is to be asked.
        REDIRECT = 12, "redirect to preferred server";
        /// The sub-code has the C-Num and C-Type of what was not understood.
        UNKNOWN_OBJECT = 13, "unknown COPS object";
        /// A digest, key or sequence number was wrong.
        AUTHENTICATION_FAILURE = 14, "authentication failure";
        /// Security is asked for; the sub-code may have the C-Num and C-Type of the object for it.
        AUTHENTICATION_REQUIRED = 15, "authentication required";
    }
}

/// An error, with what the client-type says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    /// Error.
    pub code: ErrorCode,
    /// More of it.
    pub sub_code: u16,
}

impl Error {
    /// With sub-code 0.
    pub const fn of(code: ErrorCode) -> Self {
        Self { code, sub_code: 0 }
    }

    /// Security is wanted of this C-Type of the Integrity object; 0 = of none (RFC 4261 §4.2).
    pub const fn security_wanted(c_type: u8) -> Self {
        let sub_code = u16::from_be_bytes([c_num::INTEGRITY, c_type]);
        Self { code: ErrorCode::AUTHENTICATION_REQUIRED, sub_code }
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        if object.c_type != 1 {
            return Err(object.unknown());
        }
        object.pair().map(|(code, sub_code)| Self { code: ErrorCode(code), sub_code })
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        put_pair(out, c_num::ERROR, self.code.0, self.sub_code);
    }
}
