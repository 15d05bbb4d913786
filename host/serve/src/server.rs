//! A server: what its addresses answer, to the clients of its listener, until it is told to stop.

use crate::clients::Clients;
use crate::connection::accept;
use crate::limits::Gauges;
use crate::listener::Listener;
use crate::socket::{ClaimedPath, SocketError};
use crate::tls::TlsDoor;
use axum::Router;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// An address of the network cannot be had.
    #[error("listening on {address}: {source}")]
    Address {
        /// Which.
        address: SocketAddr,
        /// Error.
        source: std::io::Error,
    },
    /// Serving failed.
    #[error("serving: {0}")]
    Io(#[from] std::io::Error),
}

/// Serves one interface.
pub struct Server {
    listener: Listener,
    app: Router,
    gauges: Gauges,
}

impl Server {
    /// Binds a claimed path for `app`, whose handlers know the same `gauges`, and for these `clients`. Needs a tokio runtime.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn of(
        claimed: &ClaimedPath,
        app: Router,
        gauges: Gauges,
        clients: Clients,
    ) -> Result<Self, ServeError> {
        Ok(Self { listener: Listener::bind(claimed, clients)?, app, gauges })
    }

    /// Listens on an address of the network for `app`, whose handlers know the same `gauges`; without `tls` nothing is
    /// secret there. Needs a tokio runtime.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn on(
        address: SocketAddr,
        tls: Option<TlsDoor>,
        app: Router,
        gauges: Gauges,
    ) -> Result<Self, ServeError> {
        let listener =
            Listener::on(address, tls).map_err(|source| ServeError::Address { address, source })?;
        Ok(Self { listener, app, gauges })
    }

    /// Where it listens on the network, with the port that it was given.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// Serves until `stop` resolves, then removes the socket.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        // Event streams never end by themselves, so the stop does not wait for open connections.
        tokio::select! {
            never = accept(&self.listener, self.app, &self.gauges) => match never {},
            () = stop => {}
        }
        Ok(self.listener.close()?)
    }
}
