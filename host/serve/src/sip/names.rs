//! Names of hosts: the system's resolver is asked, on threads of its own.
//!
//! It knows addresses only, so SRV and NAPTR records (RFC 3263) are not looked at: a name without a port has its transport's.

use super::Event;
use perhop_sip::message::Transport;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::lookup_host;
use tokio::sync::{Semaphore, mpsc};

/// Names that are being resolved.
const AT_ONCE: usize = 64;
/// Addresses of which the name is known.
const KNOWN: usize = 4_096;
/// Addresses of a name that are used.
const ADDRESSES: usize = 8;

pub(super) struct Names {
    places: Arc<Semaphore>,
    events: mpsc::Sender<Event>,
    /// By which name whoever is there has to be known, where TLS is spoken.
    known: HashMap<SocketAddr, String>,
}

impl Names {
    pub(super) fn new(events: mpsc::Sender<Event>) -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), events, known: HashMap::new() }
    }

    /// Asks for a name; the answer is an event. `false`: too many are being asked for.
    pub(super) fn resolve(&self, number: u64, host: String, port: Option<u16>, transport: Transport) -> bool {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return false };
        let events = self.events.clone();
        tokio::spawn(async move {
            let found = lookup_host((host.as_str(), port.unwrap_or(transport.port()))).await;
            let addresses = found.map(|all| all.take(ADDRESSES).collect()).unwrap_or_default();
            let name = (transport == Transport::Tls).then_some(host);
            drop(place);
            let _ = events.send(Event::Resolved(number, addresses, name)).await;
        });
        true
    }

    /// These are the addresses of a name.
    pub(super) fn note(&mut self, addresses: &[SocketAddr], name: &str) {
        if self.known.len() + addresses.len() > KNOWN {
            self.known.clear();
        }
        self.known.extend(addresses.iter().map(|address| (*address, name.to_owned())));
    }

    /// By which name whoever is at an address has to be known.
    pub(super) fn of(&self, address: &SocketAddr) -> String {
        self.known.get(address).cloned().unwrap_or_else(|| address.ip().to_string())
    }
}
