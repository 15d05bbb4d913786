//! Who asks: the role of a client, and the owners that it may speak for.

use crate::{Name, Owner, OwnerError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read state, counters and events.
    Read,
    /// Change its own objects.
    Write,
    /// Change anybody's objects by force (logged).
    Admin,
}

/// One owner, or all clients of an interface whose names begin alike: `agent`, `api:policy`, `tcapi:*`, `api:site-*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerPattern {
    /// This one.
    Exactly(Owner),
    /// Clients of the traffic-control API whose names begin so.
    Tcapi(String),
    /// Clients of the HTTP API whose names begin so.
    Api(String),
}

impl OwnerPattern {
    /// Whether `owner` is one of them.
    pub fn covers(&self, owner: &Owner) -> bool {
        match (self, owner) {
            (Self::Exactly(one), _) => one == owner,
            (Self::Tcapi(start), Owner::Tcapi(client)) | (Self::Api(start), Owner::Api(client)) => {
                client.as_str().starts_with(start)
            }
            _ => false,
        }
    }
}

impl fmt::Display for OwnerPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(owner) => owner.fmt(f),
            Self::Tcapi(start) => write!(f, "tcapi:{start}*"),
            Self::Api(start) => write!(f, "api:{start}*"),
        }
    }
}

impl FromStr for OwnerPattern {
    type Err = OwnerError;
    fn from_str(s: &str) -> Result<Self, OwnerError> {
        let Some(start) = s.strip_suffix('*') else { return s.parse().map(Self::Exactly) };
        let wrong = || OwnerError(s.chars().take(140).collect());
        let (interface, client) = start.split_once(':').ok_or_else(wrong)?;
        if !client.is_empty() {
            Name::new(client).map_err(|_| wrong())?;
        }
        match interface {
            "tcapi" => Ok(Self::Tcapi(client.to_owned())),
            "api" => Ok(Self::Api(client.to_owned())),
            _ => Err(wrong()),
        }
    }
}

/// The owners that a client may speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Every one.
    ForAll,
    /// One.
    For(Owner),
    /// Those that one of these covers.
    ForThese(Arc<[OwnerPattern]>),
}

impl Speaks {
    /// Whether a client may speak for `owner`.
    pub fn covers(&self, owner: &Owner) -> bool {
        match self {
            Self::ForAll => true,
            Self::For(one) => one == owner,
            Self::ForThese(patterns) => patterns.iter().any(|pattern| pattern.covers(owner)),
        }
    }
}

impl Speaks {
    /// The one client of the traffic-control API among them, where there is one and it is named whole.
    pub fn only_tcapi(&self) -> Option<Name> {
        let one = |owner: &Owner| match owner {
            Owner::Tcapi(client) => Some(client.clone()),
            _ => None,
        };
        match self {
            Self::ForAll => None,
            Self::For(owner) => one(owner),
            Self::ForThese(patterns) => {
                let mut clients = patterns.iter().filter_map(|pattern| match pattern {
                    OwnerPattern::Exactly(owner) => one(owner),
                    _ => None,
                });
                clients.next().filter(|_| clients.next().is_none())
            }
        }
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForAll => f.write_str("every owner"),
            Self::For(owner) => owner.fmt(f),
            Self::ForThese(patterns) if patterns.is_empty() => f.write_str("no owner"),
            Self::ForThese(patterns) => {
                let mut between = "";
                patterns.iter().try_for_each(|pattern| {
                    write!(f, "{between}{pattern}")?;
                    between = ", ";
                    Ok(())
                })
            }
        }
    }
}

/// What a client may do, bound to its socket credentials or certificate by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Role.
    pub role: Role,
    /// On whose behalf.
    pub speaks: Speaks,
}

impl Credentials {
    /// Everything is allowed.
    pub const ADMIN: Self = Self { role: Role::Admin, speaks: Speaks::ForAll };

    /// May change the objects of one owner.
    pub const fn writer(owner: Owner) -> Self {
        Self { role: Role::Write, speaks: Speaks::For(owner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_what_it_says_and_reads_as_it_is_written() {
        let owners = ["file", "cli", "agent", "api:policy", "api:site-1", "api:site-2", "tcapi:site-1"];
        for (pattern, covered) in [
            ("agent", vec!["agent"]),
            ("api:site-1", vec!["api:site-1"]),
            ("api:site-*", vec!["api:site-1", "api:site-2"]),
            ("api:*", vec!["api:policy", "api:site-1", "api:site-2"]),
            ("tcapi:*", vec!["tcapi:site-1"]),
        ] {
            let read: OwnerPattern = pattern.parse().expect(pattern);
            assert_eq!(read.to_string(), pattern);
            let found: Vec<&str> =
                owners.into_iter().filter(|o| read.covers(&o.parse().expect("an owner"))).collect();
            assert_eq!(found, covered, "{pattern}");
        }
        for wrong in ["*", "agent*", "file:*", "api:a b*", "", ":*", "api"] {
            assert!(wrong.parse::<OwnerPattern>().is_err(), "{wrong}");
        }
    }
}
