//! Where clients come from, and who they are: on a Unix socket they are known by their user and group ids, on TCP by the
//! certificate that they show, if any, and by what they say in their requests.
//!
//! A handshake is the connection's own business, so that it keeps nobody else waiting: it goes before the first byte
//! that its [`Carrier`] reads.

use crate::clients::{Clients, Process, Standing};
use crate::directory::own_uid;
use crate::refusal::{refuse, too_often};
use crate::socket::{ClaimedPath, open_to, remove_left};
use crate::tls::{Certificate, TlsCarrier, TlsDoor};
use axum::http::Request;
use axum::response::Response;
use perhop_io::account::peer_groups;
use perhop_model::{Credentials, ErrorItem, Role};
use perhop_reason::Code;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// What carries the bytes of a connection.
pub(crate) trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

/// The process at the other end, as it was when it connected.
pub(crate) fn process_of(stream: &UnixStream) -> Option<Process> {
    let credentials = stream.peer_cred().ok()?;
    let mut groups = peer_groups(stream.as_fd()).unwrap_or_default();
    groups.push(credentials.gid());
    Some(Process { user: credentials.uid(), groups: groups.into() })
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Visitor {
    /// A process of this machine. What it may do is asked anew for each request.
    Process(Option<Process>, Clients),
    /// Somebody on the network.
    Guest(Guest),
}

/// Somebody who came over the network. What it may do is for the interface to say.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    /// Where from.
    pub(crate) address: IpAddr,
    /// Known once the handshake is over, which is before the first request is read.
    pub(crate) certificate: Certificate,
}

impl Visitor {
    pub(crate) fn standing(&self) -> Standing {
        match self {
            Self::Process(process, clients) => clients.standing(process.as_ref(), own_uid()),
            Self::Guest(_) => Standing::Guest,
        }
    }

    /// Where somebody on the network comes from.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Process(..) => None,
            Self::Guest(guest) => Some(guest.address),
        }
    }

    /// Tells a request who makes it: by a [`Peer`] or a [`Guest`] among its extensions.
    ///
    /// # Errors
    /// The answer to somebody of whom the door knows nothing.
    #[allow(clippy::result_large_err, reason = "the error is the finished answer")]
    pub(crate) fn sign<B>(&self, request: &mut Request<B>) -> Result<(), Response> {
        match self {
            Self::Process(process, clients) => {
                let credentials = self.standing().credentials().ok_or_else(|| self.unknown())?;
                let (process, clients) = (process.clone(), clients.clone());
                request.extensions_mut().insert(Peer { credentials, process, clients });
            }
            Self::Guest(guest) => drop(request.extensions_mut().insert(guest.clone())),
        }
        Ok(())
    }

    /// The answer to somebody of whom the door knows nothing.
    pub(crate) fn unknown(&self) -> Response {
        let user = match self {
            Self::Process(Some(process), _) => format!("user {}", process.user),
            Self::Process(None, _) | Self::Guest(_) => "this user".to_owned(),
        };
        let why = format!("neither {user} nor a group of its process is among the clients of `[api]`");
        refuse(ErrorItem::new(Code::Forbidden, "", why))
    }
}

/// A process of this machine that asks.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    credentials: Credentials,
    process: Option<Process>,
    clients: Clients,
}

impl Peer {
    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    /// The name by which its places among readers of events are counted; an administrator has none.
    pub(crate) fn as_reader(&self) -> Option<String> {
        let counted = self.credentials.role != Role::Admin;
        counted.then(|| self.process.as_ref().map_or_else(String::new, |process| process.user.to_string()))
    }

    /// Counts a request that changes something or checks a change.
    ///
    /// # Errors
    /// The answer to one too many.
    #[allow(clippy::result_large_err, reason = "the error is the finished answer")]
    pub(crate) fn spend(&self) -> Result<(), Response> {
        self.clients.spend(self.process.as_ref(), own_uid(), Instant::now()).map_err(too_often)
    }

    /// One that may do this.
    #[cfg(test)]
    pub(crate) fn with(credentials: Credentials) -> Self {
        Self { credentials, process: None, clients: Clients::default() }
    }
}

/// A place where clients connect.
pub(crate) enum Listener {
    /// A Unix socket, its file, and what its clients may do.
    Unix(UnixListener, PathBuf, Clients),
    /// An address of the network, and how its connections are secured.
    Tcp(TcpListener, Option<TlsDoor>),
}

impl Listener {
    /// Listens at a claimed path. Needs a tokio runtime.
    pub(crate) fn bind(claimed: &ClaimedPath, clients: Clients) -> io::Result<Self> {
        let socket = UnixListener::bind(&claimed.path)?;
        open_to(&claimed.path, &clients)?;
        Ok(Self::Unix(socket, claimed.path.clone(), clients))
    }

    /// Listens on the network. Needs a tokio runtime.
    pub(crate) fn on(address: SocketAddr, tls: Option<TlsDoor>) -> io::Result<Self> {
        let socket = std::net::TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(socket)?, tls))
    }

    /// Where it listens on the network, with the port that it was given.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(..) => None,
            Self::Tcp(socket, _) => socket.local_addr().ok(),
        }
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Carrier>, Visitor)> {
        match self {
            Self::Unix(socket, _, clients) => {
                let (stream, _) = socket.accept().await?;
                let visitor = Visitor::Process(process_of(&stream), clients.clone());
                Ok((Box::new(stream), visitor))
            }
            Self::Tcp(socket, tls) => {
                let (stream, from) = socket.accept().await?;
                // An answer is one write: there is nothing to wait for.
                stream.set_nodelay(true)?;
                let certificate = Certificate::default();
                let guest = Guest { address: from.ip(), certificate: certificate.clone() };
                let carrier: Box<dyn Carrier> = match tls {
                    Some(door) => Box::new(TlsCarrier::accept(door, stream, certificate)),
                    None => Box::new(stream),
                };
                Ok((carrier, Visitor::Guest(guest)))
            }
        }
    }

    /// Leaves no socket behind.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Self::Unix(socket, path, _) => {
                drop(socket);
                remove_left(&path)
            }
            Self::Tcp(..) => Ok(()),
        }
    }
}
