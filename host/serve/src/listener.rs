//! Where clients come from, and who they are. There is one kind of listener, a Unix socket, whose clients are known by
//! their user ids.
//!
//! A kind that listens on TCP joins here: another variant of [`Listener`], with [`Peer`] from a certificate or a token.
//! A handshake is the connection's own business, so that it keeps nobody else waiting: it goes before the first byte
//! that its [`Carrier`] reads.

use crate::directory::own_uid;
use crate::socket::{ClaimedPath, restrict};
use perhop_model::{Credentials, Role};
use std::io;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};

/// What carries the bytes of a connection.
pub(crate) trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) is_own: bool,
}

impl Peer {
    fn of(stream: &UnixStream) -> Self {
        Self { is_own: stream.peer_cred().is_ok_and(|c| c.uid() == 0 || c.uid() == own_uid()) }
    }

    /// The server's own user and root may do everything; others who can open the socket may read.
    pub(crate) fn credentials(self) -> Credentials {
        let role = if self.is_own { Role::Admin } else { Role::Read };
        Credentials { role, owner: None }
    }
}

/// A place where clients connect.
pub(crate) enum Listener {
    /// A Unix socket, and its file.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens at a claimed path. Needs a tokio runtime.
    pub(crate) fn bind(claimed: &ClaimedPath) -> io::Result<Self> {
        let socket = UnixListener::bind(&claimed.path)?;
        restrict(&claimed.path)?;
        Ok(Self::Unix(socket, claimed.path.clone()))
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Carrier>, Peer)> {
        match self {
            Self::Unix(socket, _) => {
                let (stream, _) = socket.accept().await?;
                let peer = Peer::of(&stream);
                Ok((Box::new(stream), peer))
            }
        }
    }

    /// Leaves no socket behind.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Self::Unix(socket, path) => {
                drop(socket);
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }
}
