//! Objects: what a router is made of, and how it reports them.

use crate::Spec;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What kind of thing an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the glossary's")]
pub enum Kind {
    Port,
    Class,
    Profile,
    Filter,
    Sla,
    Route,
    Detector,
    Allocation,
    AbrPolicy,
}

impl Kind {
    /// Every kind, in dependency order: a kind refers only to kinds before it (or to itself).
    pub const ALL: [Self; 9] = [
        Self::Port,
        Self::Class,
        Self::Profile,
        Self::Sla,
        Self::Filter,
        Self::Route,
        Self::Detector,
        Self::Allocation,
        Self::AbrPolicy,
    ];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Class => "class",
            Self::Profile => "profile",
            Self::Filter => "filter",
            Self::Sla => "sla",
            Self::Route => "route",
            Self::Detector => "detector",
            Self::Allocation => "allocation",
            Self::AbrPolicy => "abr_policy",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == s)
            .ok_or_else(|| format!("{s:?} is not a kind; kinds are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// A name is not `[A-Za-z0-9._:/-]{1,128}`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a name: 1 to 128 characters of A-Z a-z 0-9 . _ : / -")]
pub struct NameError(pub String);

/// Name of an object, `[A-Za-z0-9._:/-]{1,128}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct Name(std::sync::Arc<str>);

impl Name {
    /// Checks and makes a name.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn new(s: &str) -> Result<Self, NameError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._:/-".contains(&b);
        if (1..=128).contains(&s.len()) && s.bytes().all(legal) {
            Ok(Self(s.into()))
        } else {
            Err(NameError(s.chars().take(140).collect()))
        }
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl TryFrom<String> for Name {
    type Error = NameError;
    fn try_from(s: String) -> Result<Self, NameError> {
        Self::new(&s)
    }
}
impl From<Name> for String {
    fn from(n: Name) -> String {
        n.0.to_string()
    }
}
impl FromStr for Name {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, NameError> {
        Self::new(s)
    }
}

/// Identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Key {
    /// Kind.
    pub kind: Kind,
    /// Name, unique within the kind.
    pub name: Name,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name.as_str())
    }
}

/// Not an owner.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not an owner: file, cli, agent, tcapi:CLIENT or api:CLIENT (CLIENT as a name)")]
pub struct OwnerError(pub String);

/// Who an object belongs to. Bound to socket credentials or a certificate by the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Owner {
    /// The router file.
    File,
    /// A person at the command line.
    Cli,
    /// The agent.
    Agent,
    /// A client of the traffic-control API.
    Tcapi(Name),
    /// A client of the HTTP API.
    Api(Name),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Cli => f.write_str("cli"),
            Self::Agent => f.write_str("agent"),
            Self::Tcapi(c) => write!(f, "tcapi:{c}"),
            Self::Api(c) => write!(f, "api:{c}"),
        }
    }
}
impl FromStr for Owner {
    type Err = OwnerError;
    fn from_str(s: &str) -> Result<Self, OwnerError> {
        let client = |c: &str| Name::new(c).map_err(|_| OwnerError(s.chars().take(140).collect()));
        match s.split_once(':') {
            None if s == "file" => Ok(Self::File),
            None if s == "cli" => Ok(Self::Cli),
            None if s == "agent" => Ok(Self::Agent),
            Some(("tcapi", c)) => Ok(Self::Tcapi(client(c)?)),
            Some(("api", c)) => Ok(Self::Api(client(c)?)),
            _ => Err(OwnerError(s.chars().take(140).collect())),
        }
    }
}
impl TryFrom<String> for Owner {
    type Error = OwnerError;
    fn try_from(s: String) -> Result<Self, OwnerError> {
        s.parse()
    }
}
impl From<Owner> for String {
    fn from(o: Owner) -> String {
        o.to_string()
    }
}

/// Whether an object takes part in forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// In force.
    Active,
    /// Deleted; sends what it holds, takes nothing more.
    Draining,
}

/// An object as the router reports it: the effective canonical specification and its metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ObjectState {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: Name,
    /// Owner.
    pub owner: Owner,
    /// Never reused within an epoch.
    pub id: u64,
    /// Revision of the last change.
    pub version: u64,
    /// In force or draining.
    pub status: Status,
    /// When it expires, in ns of the router's clock; absent for hard state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ns: Option<u64>,
    /// Canonical specification: every default filled in.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub spec: Spec,
}

#[cfg(feature = "schema")]
mod schema {
    use super::Owner;
    use utoipa::openapi::{ObjectBuilder, RefOr, Schema, schema::Type};

    impl utoipa::PartialSchema for Owner {
        fn schema() -> RefOr<Schema> {
            ObjectBuilder::new().schema_type(Type::String).examples(["cli", "api:monitor"]).into()
        }
    }
    impl utoipa::ToSchema for Owner {}
}
