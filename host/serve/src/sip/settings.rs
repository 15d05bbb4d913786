//! What a proxy is told once.

use super::reserve::Target;
use crate::tls::{Identity, TlsError};
use perhop_sip::message::Transport;
use perhop_sip::{proxy, quality};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// All of it.
pub struct SipSettings {
    /// The machine's own; where it listens is filled in from `doors`.
    pub proxy: proxy::Settings,
    /// How calls are reserved for.
    pub quality: quality::Settings,
    /// Where it listens: one each transport.
    pub doors: Vec<SipDoor>,
    /// What TLS needs: what is shown, and whose certificates are believed. Without it nothing is sent by TLS.
    pub tls: Option<(Identity, PathBuf)>,
    /// Limits of connections.
    pub streams: StreamLimits,
    /// Who reserves.
    pub reserving: Reserving,
    /// Whom messages are told to.
    pub hep: Option<HepSettings>,
}

/// A collector of messages, by HEP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HepSettings {
    /// Where it is.
    pub address: SocketAddr,
    /// By which number it knows this proxy.
    pub agent: u32,
}

/// A place to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipDoor {
    /// How.
    pub transport: Transport,
    /// Where. With port 0 the system chooses one.
    pub address: SocketAddr,
    /// The name or address by which others reach it; none = the address.
    pub host: Option<String>,
}

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Connections from one address.
    pub of_address: usize,
    /// A connection that says nothing for so long is closed.
    pub idle: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { of_address: 2_000, idle: Duration::from_secs(70 * 60) }
    }
}

/// Who is asked for reservations.
#[derive(Default)]
pub struct Reserving {
    /// Those who are asked.
    pub targets: Vec<Target>,
    /// Which of them by edge router.
    pub edges: HashMap<String, usize>,
    /// Which of them for all others; none = nothing can be reserved there.
    pub others: Option<usize>,
}

/// Why a proxy does not start.
#[derive(Debug, Error)]
pub enum SipError {
    /// An address cannot be listened at.
    #[error("{} {address}: {source}", transport.text())]
    Address {
        /// How.
        transport: Transport,
        /// Where.
        address: SocketAddr,
        /// Error.
        source: io::Error,
    },
    /// A collector cannot be told anything.
    #[error("the collector {address}: {source}")]
    Hep {
        /// Where it is.
        address: SocketAddr,
        /// Error.
        source: io::Error,
    },
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It is to listen by TLS without certificates.
    #[error("to listen by TLS takes a certificate")]
    NoCertificate,
}
