//! Who may ask, by what they show.

use perhop_broker::record::{ClientRow, NodeRow};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;

/// What somebody who may ask may do. Each may do what those before it may, but for agents, which look after one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// See.
    Viewer,
    /// Reserve for those who call.
    Proxy,
    /// Follow what one node is to have, and tell how it stands there.
    Agent,
    /// Reserve, and change what others have reserved.
    Operator,
    /// Change the domain and who may ask.
    Admin,
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "viewer" => Self::Viewer,
            "proxy" => Self::Proxy,
            "agent" => Self::Agent,
            "operator" => Self::Operator,
            "admin" => Self::Admin,
            _ => return Err(()),
        })
    }
}

/// Somebody who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The client's name.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// Most requests a second; none = no limit.
    pub per_second: Option<u64>,
}

/// What somebody shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// SHA-256 of a token.
    Token([u8; 32]),
    /// SHA-256 of a certificate that the domain's authority has made.
    Certificate([u8; 32]),
}

/// SHA-256 of a token as a domain keeps it, lower-case hexadecimal.
pub fn token_sha256(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()).into())
}

pub(super) fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All clients by what they show.
#[derive(Debug, Default)]
pub(super) struct Known {
    tokens: HashMap<String, Caller>,
    certificates: HashMap<String, Caller>,
    /// Clients by COPS that show nothing.
    unsecured: HashMap<Arc<str>, Caller>,
    names: HashSet<Arc<str>>,
}

impl Known {
    /// These clients; an agent that is none is known by the certificate of its node.
    pub(super) fn of<'a>(
        clients: impl Iterator<Item = &'a ClientRow>,
        nodes: impl Iterator<Item = &'a NodeRow>,
    ) -> Self {
        let mut known = Self::default();
        for node in nodes {
            if let Some(certificate) = &node.cert_sha256 {
                let caller = Caller { name: node.name.as_str().into(), role: Role::Agent, per_second: None };
                known.names.insert(Arc::clone(&caller.name));
                known.certificates.insert(certificate.clone(), caller);
            }
        }
        for row in clients {
            // A role that this version does not know may do nothing.
            let Ok(role) = row.role.parse() else { continue };
            let caller = Caller { name: row.name.as_str().into(), role, per_second: row.per_second };
            known.names.insert(Arc::clone(&caller.name));
            if row.kind == "cops" && row.token_sha256.is_none() && row.cert_sha256.is_none() {
                known.unsecured.insert(Arc::clone(&caller.name), caller.clone());
            }
            if let Some(token) = &row.token_sha256 {
                known.tokens.insert(token.clone(), caller.clone());
            }
            if let Some(certificate) = &row.cert_sha256 {
                known.certificates.insert(certificate.clone(), caller);
            }
        }
        known
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn unsecured(&self, name: &str) -> Option<Caller> {
        self.unsecured.get(name).cloned()
    }

    pub(super) fn caller(&self, credential: &Credential) -> Option<Caller> {
        match credential {
            Credential::Token(sha256) => self.tokens.get(&hex(sha256)).cloned(),
            Credential::Certificate(sha256) => self.certificates.get(&hex(sha256)).cloned(),
        }
    }
}
