//! What a report says (RFC 2748 §2.2.12).

use super::Malformed;
use super::numbers::numbers;
use super::object::{Object, c_num, put_pair};

numbers! {
    /// Of a decision, or of what was used.
    ReportType {
        /// The decision is in force.
        SUCCESS = 1, "success";
        /// It could not be carried out, or no longer is.
        FAILURE = 2, "failure";
        /// How much was used.
        ACCOUNTING = 3, "accounting";
    }
}

impl ReportType {
    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        match (object.c_type, object.pair()?) {
            (1, (number, _)) if Self(number).name().is_some() => Ok(Self(number)),
            (1, _) => Err(object.wrong()),
            _ => Err(object.unknown()),
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        put_pair(out, c_num::REPORT_TYPE, self.0, 0);
    }
}
