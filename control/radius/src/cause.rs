//! Why a change of authorization was refused (RFC 5176 section 3.5).

use perhop_reason::Code;

/// Value of the attribute Error-Cause, of those that are given or understood here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are those of the standard")]
pub enum ErrorCause {
    UnsupportedAttribute = 401,
    MissingAttribute = 402,
    NasIdentificationMismatch = 403,
    InvalidRequest = 404,
    UnsupportedService = 405,
    UnsupportedExtension = 406,
    InvalidAttributeValue = 407,
    AdministrativelyProhibited = 501,
    SessionContextNotFound = 503,
    SessionContextNotRemovable = 504,
    ResourcesUnavailable = 506,
    MultipleSessionSelectionUnsupported = 508,
}

impl ErrorCause {
    /// Every cause that has a name here.
    pub const ALL: [Self; 12] = [
        Self::UnsupportedAttribute,
        Self::MissingAttribute,
        Self::NasIdentificationMismatch,
        Self::InvalidRequest,
        Self::UnsupportedService,
        Self::UnsupportedExtension,
        Self::InvalidAttributeValue,
        Self::AdministrativelyProhibited,
        Self::SessionContextNotFound,
        Self::SessionContextNotRemovable,
        Self::ResourcesUnavailable,
        Self::MultipleSessionSelectionUnsupported,
    ];

    /// The cause of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| *cause as u32 == number)
    }

    /// How a refusal by ours is said in RADIUS.
    pub const fn of_code(code: Code) -> Self {
        match code {
            Code::NotFound => Self::SessionContextNotFound,
            Code::InUse | Code::HeldElsewhere => Self::SessionContextNotRemovable,
            Code::NoCapacity | Code::LimitReached | Code::Quota | Code::Overload => {
                Self::ResourcesUnavailable
            }
            Code::Forbidden | Code::NotOwner => Self::AdministrativelyProhibited,
            Code::OutOfRange | Code::BadReference => Self::InvalidAttributeValue,
            Code::Unsupported | Code::UnknownField => Self::UnsupportedAttribute,
            _ => Self::InvalidRequest,
        }
    }

    /// How a refusal by another is said in ours.
    pub const fn code(self) -> Code {
        match self {
            Self::SessionContextNotFound => Code::NotFound,
            Self::SessionContextNotRemovable => Code::InUse,
            Self::ResourcesUnavailable => Code::NoCapacity,
            Self::AdministrativelyProhibited => Code::Forbidden,
            Self::InvalidAttributeValue => Code::OutOfRange,
            Self::UnsupportedAttribute
            | Self::UnsupportedService
            | Self::UnsupportedExtension
            | Self::MultipleSessionSelectionUnsupported => Code::Unsupported,
            Self::MissingAttribute | Self::NasIdentificationMismatch | Self::InvalidRequest => {
                Code::Malformed
            }
        }
    }
}
