//! Where clients come from, and who they are. There is one kind of listener, a Unix socket, whose clients are known by
//! their user and group ids.
//!
//! A kind that listens on TCP joins here: another variant of [`Listener`], with its [`Visitor`] from a certificate or a token.
//! A handshake is the connection's own business, so that it keeps nobody else waiting: it goes before the first byte
//! that its [`Carrier`] reads.

use crate::clients::{Clients, Process, Standing};
use crate::directory::own_uid;
use crate::refusal::{refuse, too_often};
use crate::socket::{ClaimedPath, open_to};
use axum::response::Response;
use perhop_io::account::peer_groups;
use perhop_model::{Credentials, ErrorItem};
use perhop_reason::Code;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};

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

/// Who is at the other end of a connection. What that may do is asked anew for each request.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    process: Option<Process>,
    clients: Clients,
}

impl Visitor {
    fn of(stream: &UnixStream, clients: &Clients) -> Self {
        Self { process: process_of(stream), clients: clients.clone() }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.clients.standing(self.process.as_ref(), own_uid())
    }

    /// Who asks, for one request.
    ///
    /// # Errors
    /// The answer to somebody of whom the door knows nothing.
    #[allow(clippy::result_large_err, reason = "the error is the finished answer")]
    pub(crate) fn peer(&self) -> Result<Peer, Response> {
        let credentials = self.standing().credentials();
        credentials
            .map(|credentials| Peer { credentials, visitor: self.clone() })
            .ok_or_else(|| self.unknown())
    }

    /// The answer to somebody of whom the door knows nothing.
    pub(crate) fn unknown(&self) -> Response {
        let who = self.process.as_ref().map_or("this user".to_owned(), |p| format!("user {}", p.user));
        let why = format!("neither {who} nor a group of its process is among the clients of `[api]`");
        refuse(ErrorItem::new(Code::Forbidden, "", why))
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    credentials: Credentials,
    visitor: Visitor,
}

impl Peer {
    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    /// Counts a request that changes something or checks a change.
    ///
    /// # Errors
    /// The answer to one too many.
    #[allow(clippy::result_large_err, reason = "the error is the finished answer")]
    pub(crate) fn spend(&self) -> Result<(), Response> {
        let Visitor { process, clients } = &self.visitor;
        clients.spend(process.as_ref(), own_uid(), Instant::now()).map_err(too_often)
    }

    /// One that may do this.
    #[cfg(test)]
    pub(crate) fn with(credentials: Credentials) -> Self {
        Self { credentials, visitor: Visitor { process: None, clients: Clients::default() } }
    }
}

/// A place where clients connect.
pub(crate) enum Listener {
    /// A Unix socket, its file, and what its clients may do.
    Unix(UnixListener, PathBuf, Clients),
}

impl Listener {
    /// Listens at a claimed path. Needs a tokio runtime.
    pub(crate) fn bind(claimed: &ClaimedPath, clients: Clients) -> io::Result<Self> {
        let socket = UnixListener::bind(&claimed.path)?;
        open_to(&claimed.path, &clients)?;
        Ok(Self::Unix(socket, claimed.path.clone(), clients))
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Carrier>, Visitor)> {
        match self {
            Self::Unix(socket, _, clients) => {
                let (stream, _) = socket.accept().await?;
                let visitor = Visitor::of(&stream, clients);
                Ok((Box::new(stream), visitor))
            }
        }
    }

    /// Leaves no socket behind.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Self::Unix(socket, path, _) => {
                drop(socket);
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }
}
