//! What can be wrong with a policy, and where.

use perhop_model::Name;
use perhop_reason::Code;
use perhop_units::Rate;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A kind of table of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the tables'")]
pub enum Section {
    Router,
    Port,
    Class,
    Filter,
    Profile,
    ProfileFilter,
    Sla,
    Subscriber,
}

impl Section {
    /// How messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Port => "port",
            Self::Class => "class",
            Self::Filter => "filter",
            Self::Profile => "profile",
            Self::ProfileFilter => "profile filter",
            Self::Sla => "sla",
            Self::Subscriber => "subscriber",
        }
    }
}

/// Where something is wrong. A profile's filter is called `PROFILE/FILTER`, a router's port `ROUTER/PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Kind of table.
    pub section: Section,
    /// Which.
    pub name: Name,
    /// Which field of it: `match.dst_ports`, `schedule[1].sla`; empty = all of it.
    pub field: String,
}

/// Something wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { section, name, field } = &self.place;
        let space = if field.is_empty() { "" } else { " " };
        write!(f, "{} \"{name}\": {field}{space}{}", section.name(), self.fault)?;
        self.fault.allowed().map_or(Ok(()), |allowed| write!(f, "; allowed: {allowed}"))?;
        self.fault.hint().map_or(Ok(()), |hint| write!(f, ". {hint}"))
    }
}

/// What a reference should lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the tables'")]
pub enum What {
    Router,
    Port,
    Class,
    Profile,
    Sla,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Router => "a router",
            Self::Port => "a port of that router",
            Self::Class => "a class",
            Self::Profile => "a profile",
            Self::Sla => "an sla",
        })
    }
}

/// What is wrong: the predicate of a sentence about the place.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Fault {
    /// A value outside its range.
    #[error("is out of range")]
    OutOfRange {
        /// The range.
        allowed: String,
    },
    /// A reference to what is not there.
    #[error("is not {what} of this policy")]
    Unknown {
        /// What it should be.
        what: What,
        /// What was probably meant.
        meant: Option<Name>,
    },
    /// A pattern that means no port.
    #[error("means no port of any router of this policy")]
    NoPort,
    /// A class on no port.
    #[error("is empty: the class is on no port")]
    Nowhere,
    /// A class with children where only leaves do.
    #[error("is a class with children")]
    Inner,
    /// A class that is its own ancestor.
    #[error("makes a circle: the class is its own ancestor")]
    Circle,
    /// Too many classes above each other.
    #[error("makes the tree too deep")]
    Deep,
    /// A class is where its parent is not.
    #[error("is not on port \"{router}/{port}\", where the class is")]
    ParentElsewhere {
        /// The router.
        router: Name,
        /// The port.
        port: Name,
    },
    /// Two defaults of a port.
    #[error("is the second default of port \"{router}/{port}\", beside class \"{other}\"")]
    SecondDefault {
        /// The router.
        router: Name,
        /// The port.
        port: Name,
        /// The other class.
        other: Name,
    },
    /// More is guaranteed than there is.
    #[error("brings the guarantees to {sum}, above {whole} of {of}")]
    Guarantees {
        /// All of them.
        sum: Rate,
        /// What there is.
        whole: Rate,
        /// Whose.
        of: Whole,
    },
    /// A ceiling below the guarantee.
    #[error("is below the guarantee ({guarantee}) on port \"{router}/{port}\"")]
    CeilingBelow {
        /// The guarantee there.
        guarantee: Rate,
        /// The router.
        router: Name,
        /// The port.
        port: Name,
    },
    /// A peak rate below the committed rate.
    #[error("is below cir ({cir})")]
    PeakBelow {
        /// The committed rate.
        cir: Rate,
    },
    /// Both buckets are too small for a packet.
    #[error("and ebs are both too small for a packet of 1500 B")]
    NoBucket,
    /// A class that shapes nothing.
    #[error("has no ceiling, so nothing is shaped there")]
    NoCeiling,
    /// Something is to be demoted, and no class says that it is the default.
    #[error("demotes, and no class is the default")]
    NoDefault,
    /// Two prefixes of different families.
    #[error("is not of the family of src")]
    Families,
    /// Bits behind a prefix's length.
    #[error("has bits set beyond its prefix length")]
    HostBits {
        /// The prefix that was meant.
        meant: String,
    },
    /// A range whose end is before its beginning.
    #[error("is an empty range")]
    EmptyRange,
    /// Transport ports of a protocol without.
    #[error("needs a protocol with ports")]
    NeedsPorts,
    /// TCP flags of another protocol.
    #[error("needs protocol = \"tcp\"")]
    NeedsTcp,
    /// A value with bits outside its mask.
    #[error("has bits that its mask does not compare")]
    OutsideMask,
    /// A filter of a profile that names a port: it is where its subscriber is.
    #[error("has no meaning here: a profile is where its subscriber is")]
    OwnPort,
    /// A filter that never matches: one before it has the same condition.
    #[error("never matches: filter \"{other}\" before it has the same condition")]
    Hidden {
        /// The filter before.
        other: Name,
    },
    /// A prefix of two subscribers.
    #[error("is also a prefix of subscriber \"{other}\"")]
    PrefixOf {
        /// The other.
        other: Name,
    },
    /// A prefix twice.
    #[error("is there twice")]
    Twice,
    /// A time that is none.
    #[error("names no day")]
    NoDay,
    /// A contract that takes the place of another may not itself be replaced.
    #[error("has a {by} of its own, and takes the place of another here")]
    Nested {
        /// Its schedule or its quota.
        by: &'static str,
    },
    /// It leads to itself.
    #[error("leads back to itself")]
    Itself,
    /// A subscriber that is always somewhere without an address.
    #[error("is missing: a subscriber that is always there has an address")]
    NoAddress,
    /// Too many of something.
    #[error("is one of {count}, and there may be {most}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A name that names of objects cannot be made of.
    #[error("has a name that names of objects cannot be made of")]
    Name {
        /// Longest.
        most: usize,
    },
}

/// What guarantees are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whole {
    /// A port.
    Port {
        /// Of this router.
        router: Name,
        /// Its name.
        port: Name,
    },
    /// A class.
    Class {
        /// Its name.
        class: Name,
    },
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { router, port } => write!(f, "port \"{router}/{port}\""),
            Self::Class { class } => write!(f, "class \"{class}\""),
        }
    }
}

impl Fault {
    /// Which values would do.
    pub fn allowed(&self) -> Option<String> {
        match self {
            Self::OutOfRange { allowed } => Some(allowed.clone()),
            Self::Deep => Some(format!("at most {} classes above each other", super::limits::DEPTH)),
            Self::Name { most } => Some(format!("at most {most} characters, none of them \"/\"")),
            _ => None,
        }
    }

    /// What to do.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unknown { meant, .. } => {
                return meant.as_ref().map(|meant| format!("did you mean \"{meant}\"?"));
            }
            Self::HostBits { meant } => return Some(format!("Write \"{meant}\"")),
            Self::NoPort => "List the router's ports with [[router.port]]",
            Self::Inner => "only leaves queue packets. Name one of them",
            Self::ParentElsewhere { .. } => "Put the parent on all ports of its children",
            Self::Guarantees { .. } => "Lower them until they fit",
            Self::PeakBelow { .. } => "The peak rate is at least the committed rate (RFC 2698, RFC 2859)",
            Self::NoBucket => "Give one of them at least 1500 B",
            Self::NoCeiling => "Give the class a ceiling, or use do = \"class\"",
            Self::NoDefault => "Say default = true of the class for everything else",
            Self::Families => "no packet has both. Write one filter for IPv4 and one for IPv6",
            Self::EmptyRange => "Write the smaller number first",
            Self::NeedsPorts => "Add protocol = \"udp\" or \"tcp\"",
            Self::OutsideMask => "Bits of the value must be in the mask too",
            Self::OwnPort => "Remove it",
            Self::Hidden { .. } => "Remove one of them",
            Self::Nested { .. } => "Name a contract without",
            Self::NoAddress => "Give it prefixes, or leave router and port out",
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// Another thing of the same kind that has its part in it.
    pub fn other(&self) -> Option<&Name> {
        match self {
            Self::SecondDefault { other, .. } | Self::Hidden { other } | Self::PrefixOf { other } => {
                Some(other)
            }
            _ => None,
        }
    }

    /// The reason, as in every interface.
    pub const fn code(&self) -> Code {
        match self {
            Self::Unknown { .. }
            | Self::NoPort
            | Self::Nowhere
            | Self::Inner
            | Self::ParentElsewhere { .. } => Code::BadReference,
            Self::Circle | Self::Itself | Self::Nested { .. } | Self::NoDefault | Self::NoCeiling => {
                Code::BadReference
            }
            Self::Guarantees { .. } => Code::NoCapacity,
            Self::SecondDefault { .. } | Self::Hidden { .. } | Self::PrefixOf { .. } | Self::Twice => {
                Code::Exists
            }
            Self::TooMany { .. } | Self::Deep => Code::LimitReached,
            _ => Code::OutOfRange,
        }
    }
}
