//! COPS-PR (RFC 3084, historic): policy that is provisioned by name. A codec and the rule that a decision is done as a whole
//! or not at all. There is no policy information base here: what names mean is the caller's to know.

mod ber;
mod objects;
#[cfg(test)]
mod tests;
mod transaction;

pub use ber::{MAX_ARCS, Oid, Value};
pub use objects::{Object, read_all, write_all};
pub use transaction::{About, Instances, Remarks, Transaction};

use crate::wire::numbers::numbers;

numbers! {
    /// Errors of no class (RFC 3084 §4.4).
    GlobalCode {
        /// Memory is low.
        MEMORY_LOW = 1, "availMemLow";
        /// Memory is exhausted.
        MEMORY_EXHAUSTED = 2, "availMemExhausted";
        /// A tag is not known; the sub-code has it.
        UNKNOWN_TAG = 3, "unknownASN.1Tag";
        /// A message is too long.
        MESSAGE_TOO_LONG = 4, "maxMsgSizeExceeded";
        /// Anything else.
        UNKNOWN = 5, "unknownError";
        /// There are too many request states.
        TOO_MANY_STATES = 6, "maxRequestStatesOpen";
        /// A length is wrong.
        LENGTH = 7, "invalidASN.1Length";
        /// An object is not filled up with zeros.
        PADDING = 8, "invalidObjectPad";
        /// Some of the data are not known here.
        UNKNOWN_DATA = 9, "unknownPIBData";
        /// An object is not known; the sub-code has its S-Num and S-Type.
        UNKNOWN_OBJECT = 10, "unknownCOPSPRObject";
        /// A decision could not be read.
        MALFORMED_DECISION = 11, "malformedDecision";
    }
}

numbers! {
    /// Errors of a class (RFC 3084 §4.5).
    ClassCode {
        /// There are too many instances.
        PRI_SPACE_EXHAUSTED = 1, "priSpaceExhausted";
        /// The instance cannot be installed or removed.
        PRI_INSTANCE_INVALID = 2, "priInstanceInvalid";
        /// A value cannot be.
        ATTR_VALUE_INVALID = 3, "attrValueInvalid";
        /// A value is not supported.
        ATTR_VALUE_SUP_LIMITED = 4, "attrValueSupLimited";
        /// An enumeration's value is not supported.
        ATTR_ENUM_SUP_LIMITED = 5, "attrEnumSupLimited";
        /// A value is too long.
        ATTR_MAX_LENGTH_EXCEEDED = 6, "attrMaxLengthExceeded";
        /// An instance that is referred to is not there.
        ATTR_REFERENCE_UNKNOWN = 7, "attrReferenceUnknown";
        /// The class is for requests and reports only.
        PRI_NOTIFY_ONLY = 8, "priNotifyOnly";
        /// The class is not supported.
        UNKNOWN_PRC = 9, "unknownPrc";
        /// There are too few attributes.
        TOO_FEW_ATTRS = 10, "tooFewAttrs";
        /// An attribute is of the wrong type.
        INVALID_ATTR_TYPE = 11, "invalidAttrType";
        /// Something refers to what was deleted.
        DELETED_IN_REF = 12, "deletedInRef";
        /// The class says more in the sub-code.
        PRI_SPECIFIC_ERROR = 13, "priSpecificError";
    }
}

/// Why data are none of COPS-PR. Places count from the beginning of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// An object is longer than what is left, or shorter than its head.
    #[error("octet {at}: the length of an object is none")]
    Cut {
        /// Where.
        at: usize,
    },
    /// What fills an object up is not zero.
    #[error("octet {at}: what fills an object up must be zero")]
    Padding {
        /// Where.
        at: usize,
    },
    /// There is no such object.
    #[error("octet {at}: there is no object of S-Num {s_num} and S-Type {s_type}")]
    Unknown {
        /// Its number.
        s_num: u8,
        /// Its type.
        s_type: u8,
        /// Where.
        at: usize,
    },
    /// There is no such type of a value.
    #[error("octet {at}: values of tag 0x{tag:02x} are not known here")]
    Tag {
        /// Its tag.
        tag: u8,
        /// Where.
        at: usize,
    },
    /// A value's length is none of its type.
    #[error("octet {at}: the length of a value, or the value, is none")]
    Length {
        /// Where.
        at: usize,
    },
    /// An object does not hold what it should.
    #[error("octet {at}: an object that does not hold what it should")]
    Value {
        /// Where.
        at: usize,
    },
    /// Objects, commands and flags that do not go together.
    #[error("objects, commands or flags that do not go together")]
    Decision,
}

impl Malformed {
    /// The error that answers it, with its sub-code.
    pub const fn global(self) -> (GlobalCode, u16) {
        match self {
            Self::Padding { .. } => (GlobalCode::PADDING, 0),
            Self::Unknown { s_num, s_type, .. } => {
                (GlobalCode::UNKNOWN_OBJECT, u16::from_be_bytes([s_num, s_type]))
            }
            Self::Tag { tag, .. } => (GlobalCode::UNKNOWN_TAG, tag as u16),
            Self::Length { .. } => (GlobalCode::LENGTH, 0),
            Self::Cut { .. } | Self::Value { .. } | Self::Decision => (GlobalCode::MALFORMED_DECISION, 0),
        }
    }
}
