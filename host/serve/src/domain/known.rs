//! Who may ask, by what they show.

use perhop_broker::ledger::Refusal;
use perhop_broker::record::{ClientRow, NodeRow};
use perhop_reason::Code;
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

/// By which protocol a client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// HTTP: a person, or a program with a token or certificate.
    Http,
    /// CAMARA's interfaces.
    Camara,
    /// COPS-DRA.
    Cops,
    /// The traffic-control API.
    Tcapi,
    /// As a neighbouring domain.
    Peer,
    /// As the agent of a node.
    Agent,
}

impl ClientKind {
    /// All of them by name.
    pub const ALL: [(&str, Self); 6] = [
        ("http", Self::Http),
        ("camara", Self::Camara),
        ("cops", Self::Cops),
        ("tcapi", Self::Tcapi),
        ("peer", Self::Peer),
        ("agent", Self::Agent),
    ];

    /// As a file has it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for ClientKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind).ok_or(())
    }
}

/// Somebody who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The client's name.
    pub name: Arc<str>,
    /// By which protocol it comes.
    pub kind: ClientKind,
    /// What it may do.
    pub role: Role,
    /// Most requests a second; none = no limit.
    pub per_second: Option<u64>,
}

impl Caller {
    /// Sees that it comes to a door that is for clients of these kinds.
    ///
    /// # Errors
    /// It is of another: [`Code::Forbidden`].
    pub fn of_kind(self, kinds: &[ClientKind]) -> Result<Self, Refusal> {
        if kinds.contains(&self.kind) {
            return Ok(self);
        }
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let (name, kind, here) = (&self.name, self.kind.name(), names.join(" and "));
        let why =
            format!("client {name} is of kind {kind}, and this interface is for clients of kind {here}");
        Err(Refusal::new(Code::Forbidden, why))
    }
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

pub(crate) fn hex(bytes: &[u8; 32]) -> String {
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
                let (kind, role) = (ClientKind::Agent, Role::Agent);
                let caller = Caller { name: node.name.as_str().into(), kind, role, per_second: None };
                known.names.insert(Arc::clone(&caller.name));
                known.certificates.insert(certificate.clone(), caller);
            }
        }
        for row in clients {
            // What this version does not know may do nothing.
            let (Ok(kind), Ok(role)) = (row.kind.parse(), row.role.parse()) else { continue };
            let caller = Caller { name: row.name.as_str().into(), kind, role, per_second: row.per_second };
            known.names.insert(Arc::clone(&caller.name));
            if kind == ClientKind::Cops && row.token_sha256.is_none() && row.cert_sha256.is_none() {
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
