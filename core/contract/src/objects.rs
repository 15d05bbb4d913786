//! The router's objects.

use perhop_model::{Key, ObjectState, Owner, Spec, Status};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object with its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Owner.
    pub owner: Owner,
    /// Never reused within the epoch.
    pub id: u64,
    /// Revision of the last change.
    pub version: u64,
    /// When it expires, ns of the router's clock.
    pub expires_at_ns: Option<u64>,
    /// Effective specification.
    pub spec: Arc<Spec>,
}

impl Entry {
    /// As the router reports it.
    pub fn state(&self, key: &Key, status: Status) -> ObjectState {
        ObjectState {
            kind: key.kind,
            name: key.name.clone(),
            owner: self.owner.clone(),
            id: self.id,
            version: self.version,
            status,
            expires_at_ns: self.expires_at_ns,
            spec: (*self.spec).clone(),
        }
    }
}

/// All active objects by (kind, name).
pub type Objects = BTreeMap<Key, Arc<Entry>>;
