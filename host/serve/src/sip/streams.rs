//! Connections: who is connected, and the task of each.
//!
//! A connection is used for whatever goes to its other end, whichever side has made it (RFC 3261 §18, RFC 5923). Its number is
//! never used again, also not by the next instance of the program: a Record-Route outlives both.

use super::settings::StreamLimits;
use super::{Event, datagrams::canonical};
use crate::connection::PAUSE;
use crate::tls::{TlsDoor, connect};
use perhop_sip::Peer;
use perhop_sip::message::Transport;
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, split};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Octets read at once.
const READ: usize = 8_192;
/// Messages that the other end has not taken.
const UNSENT: usize = 256;
/// Who does not take octets for so long is gone.
const STUCK: Duration = Duration::from_secs(30);
/// Until a connection is made, and until it is secured.
const MAKING: Duration = Duration::from_secs(5);
/// Whoever connects says something by then.
const FIRST: Duration = Duration::from_secs(30);

/// A message with its number.
type Queued = (u64, Vec<u8>);

/// Somebody has connected, and takes messages here.
#[derive(Debug)]
pub(super) struct Opened {
    number: u64,
    transport: Transport,
    address: SocketAddr,
    queue: mpsc::Sender<Queued>,
}

struct Connection {
    transport: Transport,
    address: SocketAddr,
    queue: mpsc::Sender<Queued>,
}

/// What all connections have in common.
#[derive(Clone)]
pub(super) struct Shared {
    numbers: Arc<AtomicU64>,
    events: mpsc::Sender<Event>,
    idle: Duration,
    most: usize,
}

impl Shared {
    /// Numbers begin at `first`.
    pub(super) fn new(first: u64, events: mpsc::Sender<Event>, idle: Duration, most: usize) -> Self {
        Self { numbers: Arc::new(AtomicU64::new(first)), events, idle, most }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// All connections.
pub(super) struct Streams {
    all: HashMap<u64, Connection>,
    /// The newest to an address.
    by_address: HashMap<(Transport, SocketAddr), u64>,
    from: HashMap<IpAddr, usize>,
    shared: Shared,
    connector: Option<TlsConnector>,
    limits: StreamLimits,
    /// Addresses from which connections are made, where it listens at such: others know the proxy by them.
    own: Vec<(Transport, IpAddr)>,
}

impl Streams {
    pub(super) fn new(
        shared: Shared,
        connector: Option<TlsConnector>,
        limits: StreamLimits,
        own: Vec<(Transport, IpAddr)>,
    ) -> Self {
        let (all, by_address, from) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { all, by_address, from, shared, connector, limits, own }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Somebody has connected. Whoever is too many has nobody to give it messages, and ends.
    pub(super) fn opened(&mut self, opened: Opened) {
        let Opened { number, transport, address, queue } = opened;
        let from = self.from.get(&address.ip()).copied().unwrap_or(0);
        if self.all.len() < self.shared.most && from < self.limits.of_address {
            self.add(number, Connection { transport, address, queue });
        }
    }

    fn add(&mut self, number: u64, connection: Connection) {
        *self.from.entry(connection.address.ip()).or_default() += 1;
        self.by_address.insert((connection.transport, connection.address), number);
        self.all.insert(number, connection);
    }

    /// The other end of a connection.
    pub(super) fn peer(&self, number: u64) -> Option<Peer> {
        let Connection { transport, address, .. } = self.all.get(&number)?;
        Some(Peer { transport: *transport, address: *address, connection: Some(number) })
    }

    /// Closes a connection, or notes that it has ended. Messages that it has are still sent if they can be.
    pub(super) fn close(&mut self, number: u64) {
        let Some(connection) = self.all.remove(&number) else { return };
        let key = (connection.transport, connection.address);
        if self.by_address.get(&key) == Some(&number) {
            self.by_address.remove(&key);
        }
        if let Some(count) = self.from.get_mut(&connection.address.ip()) {
            *count -= 1;
            if *count == 0 {
                self.from.remove(&connection.address.ip());
            }
        }
    }

    /// Sends a message by the connection that it names or, if that is gone, by one to the same address, which is made if there is
    /// none. `name` is by what the other end is known where TLS is spoken. What becomes clear later is an event.
    ///
    /// # Errors
    /// It cannot be sent; with the connection that takes nothing any more and is to be closed, if it is one's fault.
    pub(super) fn send(
        &mut self,
        to: &Peer,
        message: Queued,
        name: impl FnOnce() -> String,
    ) -> Result<(), Option<u64>> {
        let key = (to.transport, to.address);
        let own = to
            .connection
            .filter(|number| self.all.get(number).is_some_and(|c| (c.transport, c.address) == key));
        let found = own.or_else(|| self.by_address.get(&key).copied());
        let number = match found {
            Some(number) => number,
            None => self.open(key, name).ok_or(None)?,
        };
        let connection = self.all.get(&number).ok_or(None)?;
        connection.queue.try_send(message).map_err(|_| Some(number))
    }

    fn open(
        &mut self,
        (transport, address): (Transport, SocketAddr),
        name: impl FnOnce() -> String,
    ) -> Option<u64> {
        if self.all.len() >= self.shared.most {
            return None;
        }
        let secured = match transport {
            Transport::Tls => Some((self.connector.clone()?, ServerName::try_from(name()).ok()?)),
            Transport::Udp | Transport::Tcp => None,
        };
        let (queue, queued) = mpsc::channel(UNSENT);
        let number = self.shared.number();
        self.add(number, Connection { transport, address, queue });
        let own = self.own.iter().find(|(of, ip)| *of == transport && ip.is_ipv4() == address.is_ipv4());
        let stream = make(own.map(|(_, ip)| *ip), address);
        tokio::spawn(begin(number, stream, secured, queued, self.shared.clone()));
        Some(number)
    }
}

/// Makes a connection, from an address of one's own where it is to be one.
async fn make(own: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let Some(own) = own else { return TcpStream::connect(address).await };
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(SocketAddr::new(own, 0))?;
    socket.connect(address).await
}

/// Carries a connection as soon as it is made.
async fn begin(
    number: u64,
    made: impl Future<Output = io::Result<TcpStream>>,
    secured: Option<(TlsConnector, ServerName<'static>)>,
    queued: mpsc::Receiver<Queued>,
    shared: Shared,
) {
    let idle = shared.idle;
    match timeout(MAKING, made).await {
        Ok(Ok(stream)) => match secured {
            None => carry(number, stream, queued, shared, idle).await,
            Some((connector, name)) => match timeout(MAKING, connect(&connector, name, stream)).await {
                Ok(Ok(stream)) => carry(number, stream, queued, shared, idle).await,
                _ => gone(number, queued, &shared, None).await,
            },
        },
        _ => gone(number, queued, &shared, None).await,
    }
}

/// Takes connections in until it is dropped.
pub(super) async fn accept(listener: TcpListener, tls: Option<TlsDoor>, shared: Shared) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) if connections.len() < shared.most => {
                    connections.spawn(take(stream, canonical(from), tls.clone(), shared.clone()));
                }
                Ok(_) => {}
                // One that went away before it was accepted, or no descriptors: neither ends the service.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn take(stream: TcpStream, address: SocketAddr, tls: Option<TlsDoor>, shared: Shared) {
    let (queue, queued) = mpsc::channel(UNSENT);
    let number = shared.number();
    let opened = |transport| Event::Opened(Opened { number, transport, address, queue });
    match tls {
        None => {
            if shared.events.send(opened(Transport::Tcp)).await.is_ok() {
                carry(number, stream, queued, shared, FIRST).await;
            }
        }
        Some(door) => {
            if let Ok(Ok(stream)) = timeout(MAKING, door.begin(stream)).await
                && shared.events.send(opened(Transport::Tls)).await.is_ok()
            {
                carry(number, stream, queued, shared, FIRST).await;
            }
        }
    }
}

/// Carries octets until either end has enough. `first` is how long the other end may say nothing at first.
async fn carry<S: AsyncRead + AsyncWrite + Carried>(
    number: u64,
    stream: S,
    mut queued: mpsc::Receiver<Queued>,
    shared: Shared,
    first: Duration,
) {
    stream.at_once();
    let (mut reading, mut writing) = split(stream);
    let read = async {
        let mut patience = first;
        while let Ok(Ok(bytes)) = timeout(patience, read(&mut reading)).await {
            if bytes.is_empty() || shared.events.send(Event::Bytes(number, bytes)).await.is_err() {
                break;
            }
            patience = shared.idle;
        }
    };
    let write = async {
        while let Some((message, bytes)) = queued.recv().await {
            let sent = async {
                writing.write_all(&bytes).await?;
                writing.flush().await
            };
            if !matches!(timeout(STUCK, sent).await, Ok(Ok(()))) {
                return Some(message);
            }
        }
        let _ = timeout(STUCK, writing.shutdown()).await;
        None
    };
    let unsent = tokio::select! { () = read => None, unsent = write => unsent };
    gone(number, queued, &shared, unsent).await;
}

/// Says that a connection has ended, and which messages were not sent.
async fn gone(number: u64, mut queued: mpsc::Receiver<Queued>, shared: &Shared, unsent: Option<u64>) {
    queued.close();
    let mut unsent: Vec<u64> = unsent.into_iter().collect();
    while let Ok((message, _)) = queued.try_recv() {
        unsent.push(message);
    }
    let _ = shared.events.send(Event::Gone(number, unsent)).await;
}

/// What has come; nothing when the other end sends no more. Its buffer is there for a moment only.
async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Vec<u8>> {
    poll_fn(|cx| {
        let mut room = [0; READ];
        let mut read = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
        Poll::Ready(Ok(read.filled().to_vec()))
    })
    .await
}

/// A stream whose messages are not to wait for others.
trait Carried: Unpin {
    fn at_once(&self);
}

impl Carried for TcpStream {
    fn at_once(&self) {
        let _ = self.set_nodelay(true);
    }
}

impl Carried for tokio_rustls::client::TlsStream<TcpStream> {
    fn at_once(&self) {
        let _ = self.get_ref().0.set_nodelay(true);
    }
}

impl Carried for tokio_rustls::server::TlsStream<TcpStream> {
    fn at_once(&self) {
        let _ = self.get_ref().0.set_nodelay(true);
    }
}
