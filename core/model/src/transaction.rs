//! Transactions: the one way to change a router.

use crate::{Given, Key, Kind, Name, Object, Owner};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Most operations of one transaction.
pub const MAX_OPS: usize = 100_000;

/// Not 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a transaction id: 32 hexadecimal digits")]
pub struct TxnIdError(pub String);

/// Identity of a transaction, chosen by its owner: 16 bytes, 32 hexadecimal digits in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct TxnId(pub [u8; 16]);

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
impl FromStr for TxnId {
    type Err = TxnIdError;
    fn from_str(s: &str) -> Result<Self, TxnIdError> {
        let wrong = || TxnIdError(s.chars().take(64).collect());
        if s.len() != 32 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u128::from_str_radix(s, 16).map(|v| Self(v.to_be_bytes())).map_err(|_| wrong())
    }
}
impl TryFrom<String> for TxnId {
    type Error = TxnIdError;
    fn try_from(s: String) -> Result<Self, TxnIdError> {
        s.parse()
    }
}
impl From<TxnId> for String {
    fn from(t: TxnId) -> String {
        t.to_string()
    }
}

/// Whether a transaction takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Validate only.
    Check,
    /// Validate and apply.
    Commit,
}

/// Takes an owner over: a transaction of that owner with a lower fence is refused from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Owner taken over.
    pub owner: Owner,
    /// Rises with every instance of the owner.
    pub fence: u64,
    /// A lease: unless the owner is claimed again within this time, ms, its soft objects end together, whatever time of their
    /// own they have, and its transactions are `fenced` until it is. Without one it has none, or none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The owner knows by itself what was answered and asks nothing twice: the router keeps no answers for it, so that any
    /// number of its transactions take no memory, and one that comes again is done again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_answers: bool,
}

impl Claim {
    /// Takes `owner` over without a lease; the router keeps its answers.
    pub fn new(owner: Owner, fence: u64) -> Self {
        Self { owner, fence, ttl_ms: None, keeps_answers: false }
    }
}

/// A set of changes that takes effect whole or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// Chosen by the owner; a repetition is answered again, not applied again.
    pub txn_id: TxnId,
    /// On whose behalf.
    pub owner: Owner,
    /// The owner's instance.
    pub fence: u64,
    /// Check or commit.
    pub mode: Mode,
    /// Refuse unless the router is at this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_revision: Option<u64>,
    /// Revert unless confirmed in this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_within_ms: Option<u64>,
    /// For the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Change other owners' objects too; needs the role admin and is logged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// 1 … [`MAX_OPS`] operations; their order is irrelevant.
    pub ops: Vec<Op>,
}

impl Transaction {
    /// Commits `ops` on behalf of `owner`, without a condition, a deadline or force, at fence 0.
    pub fn new(txn_id: TxnId, owner: Owner, ops: Vec<Op>) -> Self {
        Self {
            txn_id,
            owner,
            fence: 0,
            mode: Mode::Commit,
            if_revision: None,
            confirm_within_ms: None,
            note: None,
            force: false,
            ops,
        }
    }
}

/// An object, and what is there in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenPut")]
pub struct Put {
    /// What is to be there.
    #[serde(flatten)]
    pub given: Given,
    /// Refuse unless the object has this version (0: must not exist).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_version: Option<u64>,
}

/// What is to be there, as a client writes it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Put))]
#[serde(deny_unknown_fields, expecting = "struct Put")]
struct WrittenPut {
    /// Kind.
    kind: Kind,
    /// Name.
    name: Name,
    /// Specification in the shape of the kind.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    spec: serde_json::Value,
    /// Refuse unless the object has this version (0: must not exist).
    #[serde(default)]
    if_version: Option<u64>,
    /// Soft state.
    #[serde(default)]
    ttl_ms: Option<u64>,
}

impl From<WrittenPut> for Put {
    fn from(WrittenPut { kind, name, spec, if_version, ttl_ms }: WrittenPut) -> Self {
        Self { given: Given::read(kind, name, spec, ttl_ms), if_version }
    }
}

impl Op {
    /// Puts an object, whatever is there.
    pub fn put(object: impl Into<Given>) -> Self {
        Self::Put(Put { given: object.into(), if_version: None })
    }

    /// The owner's objects of these kinds become these.
    pub fn replace_owned(kinds: &[Kind], objects: Vec<Object>) -> Self {
        Self::ReplaceOwned { kinds: kinds.to_vec(), objects: objects.into_iter().map(Given::from).collect() }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "nearly all are puts")]
pub enum Op {
    /// Creates, or replaces in place; an equal specification is `unchanged`.
    Put(Put),
    /// Changes the fields given (a JSON merge patch, RFC 7396); the object must exist.
    Patch {
        /// Kind.
        kind: Kind,
        /// Name.
        name: Name,
        /// Fields to change.
        #[cfg_attr(feature = "schema", schema(value_type = Object))]
        fields: serde_json::Value,
        /// Refuse unless the object has this version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
    },
    /// Removes; an absent object is `unchanged`.
    Delete {
        /// Kind.
        kind: Kind,
        /// Name.
        name: Name,
        /// Refuse unless the object has this version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
        /// A class sends what it holds for at most this long (default 1000).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drain_ms: Option<u64>,
    },
    /// The owner's objects of these kinds become exactly these.
    ReplaceOwned {
        /// Kinds concerned.
        kinds: Vec<Kind>,
        /// The whole set.
        objects: Vec<Given>,
    },
    /// Replaces the packet graph; state moves by element name, type and version.
    ReplaceGraph {
        /// Graph text.
        text: String,
        /// Elements whose state may be lost.
        #[serde(default)]
        reset: Vec<String>,
    },
    /// Extends soft state.
    Renew {
        /// Objects; absent for all of the owner's soft objects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<Key>>,
        /// From now.
        ttl_ms: u64,
    },
    /// Keeps a commit made with `confirm_within_ms`.
    Confirm {
        /// Which.
        txn_id: TxnId,
    },
}

#[cfg(feature = "schema")]
mod schema {
    use super::{Put, WrittenPut};
    use utoipa::openapi::{RefOr, Schema};
    use utoipa::{PartialSchema, ToSchema};

    impl PartialSchema for Put {
        fn schema() -> RefOr<Schema> {
            WrittenPut::schema()
        }
    }
    impl ToSchema for Put {
        fn name() -> std::borrow::Cow<'static, str> {
            WrittenPut::name()
        }
        fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
            WrittenPut::schemas(schemas);
        }
    }
}
