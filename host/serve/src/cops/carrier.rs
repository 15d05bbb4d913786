//! One connection: its octets to a machine and from it, in the clear or by TLS.
//!
//! What was read is taken by the machine before more is read: so nothing is read in the clear after the machine has asked
//! for TLS, and a connection that sends faster than it is answered is made to wait. Between messages it has no buffer.

use crate::tls::{TlsDoor, connect, shown};
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::task::ready;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;

/// Octets read at once.
const READ: usize = 16_384;
/// Messages that the other end has not taken.
pub(super) const UNSENT: usize = 8_192;
/// Who does not take octets for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What is to be done with a connection. Without anybody who could order more it is closed.
#[derive(Debug)]
pub(super) enum Order {
    Send(Vec<u8>),
    StartTls,
}

/// What is heard of a connection.
#[derive(Debug)]
pub(super) enum Heard {
    /// It is there, and orders go here.
    Connected(mpsc::Sender<Order>),
    /// TLS is there; with the SHA-256 of the other end's certificate.
    Secured(Option<[u8; 32]>),
    Bytes(Vec<u8>),
    Gone,
}

/// The same with its number; when it has been taken, `taken` is dropped.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) connection: u64,
    pub(super) heard: Heard,
    pub(super) taken: Option<oneshot::Sender<()>>,
}

/// How a connection becomes secure.
#[derive(Clone)]
pub(super) enum Upgrade {
    Never,
    AsServer(TlsDoor),
    AsClient(TlsConnector, ServerName<'static>),
}

/// A connection's way to its machine.
pub(super) struct Report {
    pub(super) connection: u64,
    pub(super) events: mpsc::Sender<Event>,
}

impl Report {
    /// Says it and waits until it is taken. `false`: nobody takes it any more.
    pub(super) async fn say(&self, heard: Heard) -> bool {
        let (taken, done) = oneshot::channel();
        let event = Event { connection: self.connection, heard, taken: Some(taken) };
        self.events.send(event).await.is_ok() && {
            // It is never sent, only dropped.
            let _ = done.await;
            true
        }
    }
}

/// Carries until either end has enough.
pub(super) async fn carry(mut stream: TcpStream, upgrade: Upgrade, report: Report) {
    // An answer is one write: there is nothing to wait for.
    let _ = stream.set_nodelay(true);
    let (orders, mut to_do) = mpsc::channel(UNSENT);
    if report.say(Heard::Connected(orders)).await {
        let ended = pass(&mut stream, &mut to_do, &report).await;
        if ended.is_ok_and(|end| end == End::StartTls) {
            // Most of what TLS needs is only there where it is used.
            Box::pin(carry_secured(stream, upgrade, to_do, &report)).await;
        }
    }
    report.say(Heard::Gone).await;
}

async fn carry_secured(
    stream: TcpStream,
    upgrade: Upgrade,
    mut to_do: mpsc::Receiver<Order>,
    report: &Report,
) {
    let over = async {
        // Nothing is to be sent meanwhile: that would be in the clear.
        let _ = to_do.recv().await;
    };
    let shaken = async {
        match upgrade {
            Upgrade::Never => None,
            Upgrade::AsServer(door) => {
                let stream = door.begin(stream).await.ok()?;
                let shown = shown(stream.get_ref().1);
                Some((tokio_rustls::TlsStream::from(stream), shown))
            }
            Upgrade::AsClient(connector, name) => {
                let stream = connect(&connector, name, stream).await.ok()?;
                let shown = shown(stream.get_ref().1);
                Some((tokio_rustls::TlsStream::from(stream), shown))
            }
        }
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE, shaken) => shaken,
        () = over => return,
    };
    if let Ok(Some((mut stream, shown))) = shaken
        && report.say(Heard::Secured(shown)).await
    {
        let _ = pass(&mut stream, &mut to_do, report).await;
    }
}

/// Why octets are not carried any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    StartTls,
}

async fn pass<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    to_do: &mut mpsc::Receiver<Order>,
    report: &Report,
) -> io::Result<End> {
    loop {
        tokio::select! {
            biased;
            order = to_do.recv() => match order {
                Some(Order::Send(bytes)) => {
                    if let Some(end) = send(stream, to_do, bytes).await? {
                        return Ok(end);
                    }
                }
                Some(Order::StartTls) => return Ok(End::StartTls),
                None => return finish(stream).await,
            },
            bytes = read(stream) => {
                let bytes = bytes?;
                if bytes.is_empty() || !report.say(Heard::Bytes(bytes)).await {
                    return Ok(End::Closed);
                }
            }
        }
    }
}

/// Sends, and with it what else there is.
async fn send<S: AsyncWrite + Unpin>(
    stream: &mut S,
    to_do: &mut mpsc::Receiver<Order>,
    mut bytes: Vec<u8>,
) -> io::Result<Option<End>> {
    let mut end = None;
    while bytes.len() < READ && end.is_none() {
        match to_do.try_recv() {
            Ok(Order::Send(more)) => bytes.extend(more),
            Ok(Order::StartTls) => end = Some(End::StartTls),
            Err(_) => break,
        }
    }
    let sent = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    tokio::time::timeout(PATIENCE, sent).await.map_err(io::Error::from)??;
    Ok(end)
}

async fn finish<S: AsyncWrite + Unpin>(stream: &mut S) -> io::Result<End> {
    tokio::time::timeout(PATIENCE, stream.shutdown()).await.map_err(io::Error::from)??;
    Ok(End::Closed)
}

/// What has come; nothing when the other end sends no more. Its buffer is there for a moment only.
async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Vec<u8>> {
    std::future::poll_fn(|cx| {
        let mut buffer = [std::mem::MaybeUninit::uninit(); READ];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
        std::task::Poll::Ready(Ok(buffer.filled().to_vec()))
    })
    .await
}
