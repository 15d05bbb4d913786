//! Where access servers say who is where, by RADIUS (RFC 2866), where others change what sessions may have (RFC 5176), and how access
//! servers are told what has changed here.
//!
//! Each door is a socket with a machine of its own. While another instance leads nobody is answered, so that access servers ask the
//! next one they know. What is not signed, not whole, or played again is dropped and counted.

mod door;
mod outward;
mod words;

pub use door::RadiusDoor;

use perhop_model::Name;
use perhop_radius::{Counts, Secret};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use thiserror::Error;

/// Most access servers of a domain.
pub const MAX_NAS: usize = 10_000;

/// An access server.
#[derive(Clone, Debug)]
pub struct AccessServer {
    /// Its name.
    pub name: String,
    /// Where its packets come from.
    pub address: IpAddr,
    /// What is shared with it.
    pub secret: Secret,
    /// Whether accounting must have a Message-Authenticator.
    pub proven: bool,
    /// The router and the port where its users are; a port that it names itself counts, if it is one of that router's. None = it
    /// has none: it only changes what sessions may have.
    pub place: Option<(Name, Name)>,
    /// Where it is told of changes; none = nowhere.
    pub changes: Option<SocketAddr>,
}

/// What a domain's doors for RADIUS are like.
#[derive(Clone, Debug, Default)]
pub struct RadiusSettings {
    /// Where accounting comes; none = nowhere.
    pub accounting: Option<SocketAddr>,
    /// Where changes of authorization come; none = nowhere.
    pub changes: Option<SocketAddr>,
    /// Who may ask.
    pub servers: Vec<AccessServer>,
}

/// A door cannot be opened.
#[derive(Debug, Error)]
#[error("{address}: {source}")]
pub struct RadiusError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// What there is to log.
#[derive(Clone, Debug)]
pub enum RadiusNews {
    /// Something was dropped or could not be taken; at most once a second, with what has been counted so far.
    Dropped {
        /// Who sent it.
        from: SocketAddr,
        /// Why.
        why: String,
        /// Everything from the start.
        counts: Counts,
    },
    /// An access server does not do what it was told.
    NotTold {
        /// Which.
        server: String,
        /// The session.
        session: String,
        /// What it said.
        why: String,
    },
}

/// Who logs it.
pub type Say = Arc<dyn Fn(RadiusNews) + Send + Sync>;
