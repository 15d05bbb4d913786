//! Why a request is deleted (RFC 2748 §2.2.5).

use super::Malformed;
use super::numbers::numbers;
use super::object::{Object, c_num, put_pair};

numbers! {
    /// Why a PEP deletes a request.
    ReasonCode {
        /// No reason is given.
        UNSPECIFIED = 1, "unspecified";
        /// The management wants it.
        MANAGEMENT = 2, "management";
        /// Another request takes precedence.
        PREEMPTED = 3, "preempted";
        /// It was signalled.
        TEAR = 4, "tear";
        /// Nothing was heard of it for too long.
        TIMEOUT = 5, "timeout";
        /// The route is another.
        ROUTE_CHANGE = 6, "route change";
        /// The PEP has not enough of it.
        INSUFFICIENT_RESOURCES = 7, "insufficient resources";
        /// A decision said so.
        PDP_DIRECTIVE = 8, "PDP's directive";
        /// The PEP cannot do what a decision says.
        UNSUPPORTED_DECISION = 9, "unsupported decision";
        /// It was to be synchronised and is not known.
        SYNC_HANDLE_UNKNOWN = 10, "synchronize handle unknown";
        /// It was of no duration.
        TRANSIENT_HANDLE = 11, "transient handle";
        /// A decision could not be read.
        MALFORMED_DECISION = 12, "malformed decision";
        /// The sub-code has the C-Num and C-Type of what was not understood.
        UNKNOWN_OBJECT = 13, "unknown COPS object from PDP";
    }
}

/// A reason, with what the client-type says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason {
    /// Reason.
    pub code: ReasonCode,
    /// More of it.
    pub sub_code: u16,
}

impl Reason {
    /// With sub-code 0.
    pub const fn of(code: ReasonCode) -> Self {
        Self { code, sub_code: 0 }
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        if object.c_type != 1 {
            return Err(object.unknown());
        }
        object.pair().map(|(code, sub_code)| Self { code: ReasonCode(code), sub_code })
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        put_pair(out, c_num::REASON, self.code.0, self.sub_code);
    }
}
