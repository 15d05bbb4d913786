//! A door: where it listens, and the tasks behind it.

use super::carrier::{Event, Report, Upgrade, carry};
use super::decides::Decides;
use super::driver::Driver;
use crate::connection::PAUSE;
use crate::server::ServeError;
use crate::tls::TlsDoor;
use perhop_cops::pdp::{Config, Security};
use perhop_cops::wire::ClientType;
use perhop_units::Duration;
use rustix::process::{Resource, Rlimit};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Connections at the same time.
const CONNECTIONS: usize = 16_384;
/// Clients, with those that are away.
const CLIENTS: usize = 16_384;
/// Requests of a client.
const REQUESTS: usize = 65_536;
/// What connections have heard and the machine has not.
const EVENTS: usize = 1_024;
/// How long a connection may be without a client.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long requests of a client that is away are known. What they have reserved ends by its own life.
const KEEP: Duration = Duration::from_secs(600);
/// When a door closes: time to say so.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(1);

/// What a door is told once.
#[derive(Clone, Debug)]
pub struct CopsSettings {
    /// The client type that is spoken.
    pub client_type: ClientType,
    /// TLS, which then nobody comes in without; none = in the clear.
    pub tls: Option<TlsDoor>,
    /// Whom clients are sent to while it is not decided here.
    pub other: Option<SocketAddr>,
}

/// See the module above.
pub struct CopsDoor {
    listener: TcpListener,
    settings: CopsSettings,
    decides: Arc<dyn Decides>,
}

impl CopsDoor {
    /// Listens. Needs a tokio runtime. The process may have as many descriptors from now on as the system lets it: each
    /// client is one.
    ///
    /// # Errors
    /// The operating system's.
    pub fn on(
        address: SocketAddr,
        settings: CopsSettings,
        decides: Arc<dyn Decides>,
    ) -> Result<Self, ServeError> {
        let most = rustix::process::getrlimit(Resource::Nofile).maximum;
        // If that is not to be, there are fewer clients.
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
        let bind = || {
            let socket = std::net::TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        };
        let listener = bind().map_err(|source| ServeError::Address { address, source })?;
        Ok(Self { listener, settings, decides })
    }

    /// Where it listens, with the port that it was given.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until `stop` resolves; then clients are told.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, settings, decides } = self;
        let (security, upgrade) = match settings.tls {
            Some(door) => (Security::Tls, Upgrade::AsServer(door)),
            None => (Security::None, Upgrade::Never),
        };
        let config = Config {
            client_types: vec![settings.client_type],
            security,
            keep: KEEP,
            patience: PATIENCE,
            max_peers: CLIENTS,
            max_requests: REQUESTS,
        };
        let (events, heard) = mpsc::channel(EVENTS);
        let mut connections = JoinSet::new();
        tokio::select! {
            never = accept(&listener, &upgrade, &events, &mut connections) => match never {},
            () = Driver::new(config, decides, settings.other).run(heard, stop) => {}
        }
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(FAREWELL, all).await;
    }
}

async fn accept(
    listener: &TcpListener,
    upgrade: &Upgrade,
    events: &mpsc::Sender<Event>,
    connections: &mut JoinSet<()>,
) -> Infallible {
    let mut connection = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < CONNECTIONS => {
                    connection += 1;
                    let report = Report { connection, events: events.clone() };
                    connections.spawn(carry(stream, upgrade.clone(), report));
                }
                Ok(_) => {}
                // A client that went away before it was accepted, or no descriptors: neither ends the service.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
