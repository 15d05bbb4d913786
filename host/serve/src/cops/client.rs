//! The end that asks: a PEP with its connection.

use super::carrier::{Event, Heard, Order, Report, Upgrade, carry};
use crate::tls::{Identity, TlsError, connector};
use perhop_cops::pep::{Config, Input, Notice, Output, Pep, Security};
use perhop_cops::wire::{ClientType, Handle, Reason, Request};
use perhop_drive::{RuntimeTimer, Timer};
use perhop_io::clock;
use perhop_units::Instant;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// What is to be asked and has not been.
const ASKED: usize = 1_024;
/// Notices that nobody has taken; the client waits then.
const NOTICES: usize = 1_024;
/// Longest time until a connection is there.
const CONNECT: Duration = Duration::from_secs(10);

/// How servers are secured: by TLS as RFC 4261 §5 has it.
#[derive(Clone)]
pub struct ClientTls {
    upgrade: Upgrade,
}

impl ClientTls {
    /// Shows `identity`, and believes servers of this name or address that the `authority`, a PEM file, has made.
    ///
    /// # Errors
    /// A file cannot be read, or they do not fit.
    pub fn new(identity: &Identity, authority: &Path, host: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))?;
        Ok(Self { upgrade: Upgrade::AsClient(connector(Some(identity), authority)?, name) })
    }
}

enum Command {
    Ask(ClientType, Box<Request>),
    Drop(ClientType, Handle, Reason),
    /// Ends, once everything before is sent.
    End(oneshot::Sender<()>),
}

/// A PEP that looks after its connection by itself. It ends when this is dropped.
#[derive(Clone)]
pub struct CopsClient(mpsc::Sender<Command>);

impl CopsClient {
    /// Begins to connect as `config` says, whose security is none with `tls` absent and TLS otherwise; notices of what happens
    /// come from the receiver, and have to be taken. Needs a tokio runtime.
    pub fn start(mut config: Config, tls: Option<ClientTls>, seed: u64) -> (Self, mpsc::Receiver<Notice>) {
        let (asks, asked) = mpsc::channel(ASKED);
        let (tell, notices) = mpsc::channel(NOTICES);
        config.security = if tls.is_some() { Security::Tls } else { Security::None };
        let (events, heard) = mpsc::channel(1);
        let upgrade = tls.map_or(Upgrade::Never, |tls| tls.upgrade);
        let pep = Pep::new(clock::monotonic(), config, seed);
        let driver = Driver { pep, upgrade, events, connection: 0, orders: None, tell };
        tokio::spawn(driver.run(asked, heard));
        (Self(asks), notices)
    }

    /// Asks, or asks something else by the handle of a request that there is; what becomes of it is a notice. A request that the
    /// machine does not take, as it is too long or there are too many, is told as failed by no notice: it is without effect.
    pub async fn ask(&self, client_type: ClientType, request: Request) {
        let _ = self.0.send(Command::Ask(client_type, Box::new(request))).await;
    }

    /// Drops a request.
    pub async fn drop_request(&self, client_type: ClientType, handle: Handle, reason: Reason) {
        let _ = self.0.send(Command::Drop(client_type, handle, reason)).await;
    }

    /// Ends, once what was dropped before is on its way.
    pub async fn end(self) {
        let (done, ended) = oneshot::channel();
        if self.0.send(Command::End(done)).await.is_ok() {
            let _ = ended.await;
        }
    }
}

struct Driver {
    pep: Pep,
    upgrade: Upgrade,
    events: mpsc::Sender<Event>,
    /// Number of the last connection.
    connection: u64,
    orders: Option<mpsc::Sender<Order>>,
    tell: mpsc::Sender<Notice>,
}

impl Driver {
    async fn run(mut self, mut asked: mpsc::Receiver<Command>, mut heard: mpsc::Receiver<Event>) {
        // The first connection is wanted at once.
        self.pep.handle_input(clock::monotonic(), Input::Tick);
        let mut farewell = None;
        while farewell.is_none() && self.drain().await {
            let due = self.pep.next_wakeup().unwrap_or(Instant::FAR_FUTURE);
            tokio::select! {
                biased;
                Some(event) = heard.recv() => {
                    let taken = self.event(event);
                    // It goes on reading when what the machine wants of it is with it.
                    let goes_on = self.drain().await;
                    drop(taken);
                    if !goes_on {
                        return;
                    }
                }
                () = RuntimeTimer.until(due) => self.pep.handle_input(clock::monotonic(), Input::Tick),
                command = asked.recv() => match command {
                    Some(Command::Ask(client_type, request)) => {
                        let _ = self.pep.ask(clock::monotonic(), client_type, *request);
                    }
                    Some(Command::Drop(client_type, handle, reason)) => {
                        let _ = self.pep.drop_request(clock::monotonic(), client_type, &handle, reason);
                    }
                    Some(Command::End(done)) => farewell = Some(done),
                    None => return,
                },
            }
        }
        // Without anybody who gives it orders a connection sends what it has and ends.
        let is_there = self.orders.take().is_some();
        let last = async {
            while is_there && let Some(event) = heard.recv().await {
                if matches!(event.heard, Heard::Gone) && event.connection == self.connection {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(CONNECT, last).await;
        drop(farewell);
    }

    fn event(&mut self, event: Event) -> Option<oneshot::Sender<()>> {
        if event.connection != self.connection {
            return None;
        }
        let input = match event.heard {
            Heard::Connected(orders) => {
                self.orders = Some(orders);
                Input::Connected { sequence: 0 }
            }
            Heard::Secured(_) => Input::Secured,
            Heard::Bytes(bytes) => Input::Bytes(bytes),
            Heard::Gone => {
                self.orders = None;
                Input::Disconnected
            }
        };
        self.pep.handle_input(clock::monotonic(), input);
        event.taken
    }

    /// Does what the machine wants. `false`: nobody takes notices any more.
    async fn drain(&mut self) -> bool {
        while let Some(output) = self.pep.poll_output() {
            match output {
                Output::Connect(server) => self.connect(server),
                Output::Send(bytes) => self.order(Order::Send(bytes)),
                Output::StartTls => self.order(Order::StartTls),
                Output::Disconnect => {
                    self.orders = None;
                    // What is heard of it still is of no use.
                    self.connection += 1;
                }
                Output::Notice(notice) => {
                    if self.tell.send(notice).await.is_err() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn order(&mut self, order: Order) {
        // One that takes no more orders is about to say that it is gone.
        if self.orders.as_ref().is_some_and(|orders| orders.try_send(order).is_err()) {
            self.orders = None;
        }
    }

    fn connect(&mut self, server: SocketAddr) {
        self.connection += 1;
        let report = Report { connection: self.connection, events: self.events.clone() };
        let upgrade = self.upgrade.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(CONNECT, TcpStream::connect(server)).await {
                Ok(Ok(stream)) => carry(stream, upgrade, report).await,
                _ => drop(report.say(Heard::Gone).await),
            }
        });
    }
}
