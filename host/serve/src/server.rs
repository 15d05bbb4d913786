//! A server: what its addresses answer, to the clients of its listener, until it is told to stop.

use crate::clients::Clients;
use crate::connection::accept;
use crate::limits::Gauges;
use crate::listener::Listener;
use crate::socket::{ClaimedPath, SocketError};
use axum::Router;
use thiserror::Error;

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Serving failed.
    #[error("serving the router's socket: {0}")]
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
