//! Reason codes: why a request was refused. The same code in the API, logs, counters and dashboard.
//!
//! Names and numbers are stable: codes are added, never changed or reused.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// Why a request was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u16)]
        pub enum Code {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The code of a number.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    /// Not readable as a request, or a value of the wrong type.
    Malformed = 1, "malformed";
    /// A field this kind does not have.
    UnknownField = 2, "unknown_field";
    /// A kind this router does not know.
    UnknownKind = 3, "unknown_kind";
    /// A value outside its range.
    OutOfRange = 4, "out_of_range";
    /// A reference to something that is not there, of another kind, or not shared.
    BadReference = 5, "bad_reference";
    /// The object does not exist.
    NotFound = 6, "not_found";
    /// The object exists already.
    Exists = 7, "exists";
    /// Something else refers to the object.
    InUse = 8, "in_use";
    /// Another owner's object.
    NotOwner = 9, "not_owner";
    /// The client's role does not allow it.
    Forbidden = 10, "forbidden";
    /// A newer instance of the same owner has taken over.
    Fenced = 11, "fenced";
    /// The object has changed since `if_version`.
    StaleVersion = 12, "stale_version";
    /// The router has changed since `if_revision`.
    StaleRevision = 13, "stale_revision";
    /// The transaction id was used for other content.
    TxnIdReused = 14, "txn_id_reused";
    /// The object waits for another owner's confirmation.
    PendingConfirm = 15, "pending_confirm";
    /// The resource (a link's rate, a parent's guarantee) does not suffice.
    NoCapacity = 16, "no_capacity";
    /// A configured limit is reached.
    LimitReached = 17, "limit_reached";
    /// This router or backend cannot do it.
    Unsupported = 18, "unsupported";
    /// Too much is waiting; try again later.
    Overload = 19, "overload";
    /// The backend failed.
    BackendFailed = 20, "backend_failed";
    /// The router is stopping.
    ShuttingDown = 21, "shutting_down";
    /// No path leads there.
    NoPath = 22, "no_path";
    /// A neighbouring domain said no.
    PeerRefused = 23, "peer_refused";
    /// Whoever had to agree did not answer in time.
    Timeout = 24, "timeout";
    /// The client has as much as it may have.
    Quota = 25, "quota";
    /// Given up for something more important.
    Preempted = 26, "preempted";
    /// Nobody who is known asks.
    Unauthenticated = 27, "unauthenticated";
    /// Somebody else holds it at present: another instance leads, or another session has the device.
    HeldElsewhere = 28, "held_elsewhere";
}

impl Code {
    /// Whether a router by itself refuses something for this reason; the others are of those who reserve for others.
    pub const fn is_of_routers(self) -> bool {
        self.number() <= Self::ShuttingDown.number()
    }

    /// The stable number.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip_and_match_the_wire_form() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), Some(*code));
            assert_eq!(serde_json::to_string(code).expect("plain enum"), format!("\"{}\"", code.name()));
        }
        assert_eq!(Code::ALL.len(), 28);
    }
}
