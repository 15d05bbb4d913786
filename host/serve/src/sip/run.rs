//! The task that owns the machine.

use super::Event;
use super::datagrams::Datagrams;
use super::hep::Hep;
use super::names::Names;
use super::reserve::Reservers;
use super::settings::{SipDoor, SipError, SipSettings};
use super::streams::{Shared, Streams, accept};
use crate::tls::{TlsDoor, connector};
use perhop_drive::{RuntimeTimer, Timer};
use perhop_io::clock;
use perhop_sip::Peer;
use perhop_sip::message::Transport;
use perhop_sip::proxy::{self, Input, Listen, Output, Proxy};
use perhop_sip::quality::{self, Calls, Record};
use perhop_units::Instant;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What was heard and the machine has not taken.
const EVENTS: usize = 1_024;
/// Datagrams, and events, that are taken before something else has its turn.
const TURN: usize = 128;
/// When it ends: time to give back what was to be.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a proxy lets know.
#[derive(Clone, Debug)]
pub enum Said {
    /// A call's reservation has ended.
    Record(Record),
    /// Whoever reserves can be reached, or cannot, and why.
    Reach(String, Option<String>),
}

/// Other settings, for a proxy that runs.
#[derive(Debug)]
pub struct Again {
    /// The machine's.
    pub proxy: proxy::Settings,
    /// How calls are reserved for.
    pub quality: quality::Settings,
}

/// What a proxy has done and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Of the machine.
    pub proxy: proxy::Counters,
    /// Of calls.
    pub quality: quality::Counters,
    /// Calls, and reservations, that there are.
    pub live: (usize, usize),
    /// Transactions, and requests, under way.
    pub under_way: (usize, usize),
    /// Addresses of record that were learnt.
    pub records: usize,
    /// Connections.
    pub connections: usize,
    /// Datagrams for which the kernel had no room.
    pub unsent: u64,
    /// Orders for which those who reserve had no room.
    pub orders_lost: u64,
}

/// A proxy that listens.
pub struct SipProxy {
    proxy: Proxy<Calls>,
    udp: Option<Datagrams>,
    streams: Streams,
    names: Names,
    reservers: Reservers,
    events: mpsc::Receiver<Event>,
    listening: Vec<(Transport, SocketAddr)>,
    accepting: JoinSet<()>,
    hep: Option<Hep>,
    /// What the machine is to be told next.
    next: VecDeque<Input>,
    say: Box<dyn FnMut(Said) + Send>,
}

impl SipProxy {
    /// Listens. `say` hears what there is to say, and does not wait. Needs a tokio runtime.
    ///
    /// # Errors
    /// An address cannot be had, or certificates are wrong.
    pub async fn open(
        settings: SipSettings,
        say: impl FnMut(Said) + Send + 'static,
    ) -> Result<Self, SipError> {
        let SipSettings { mut proxy, quality, doors, tls, streams, reserving, hep } = settings;
        let (tell, events) = mpsc::channel(EVENTS);
        // A number that no instance before has come to.
        let first = clock::wall().0;
        let shared = Shared::new(first, tell.clone(), streams.idle, proxy.limits.connections);
        let connector = match &tls {
            Some((identity, authority)) => Some(connector(Some(identity), authority)?),
            None => None,
        };
        let (mut udp, mut listening, mut accepting) = (None, Vec::new(), JoinSet::new());
        proxy.listen.clear();
        for door in &doors {
            let SipDoor { transport, address, host } = door;
            let failed = |source| SipError::Address { transport: *transport, address: *address, source };
            let at = match transport {
                Transport::Udp => {
                    let socket = Datagrams::bind(*address).map_err(failed)?;
                    socket.ready().await;
                    let at = socket.address().map_err(failed)?;
                    udp = Some(socket);
                    at
                }
                Transport::Tcp | Transport::Tls => {
                    let secured = match (transport, &tls) {
                        (Transport::Tls, None) => return Err(SipError::NoCertificate),
                        (Transport::Tls, Some((identity, authority))) => {
                            Some(TlsDoor::new(identity, authority)?)
                        }
                        _ => None,
                    };
                    let listener = listen(*address).map_err(failed)?;
                    let at = listener.local_addr().map_err(failed)?;
                    let shared = shared.clone();
                    accepting.spawn(async move { match accept(listener, secured, shared).await {} });
                    at
                }
            };
            let host = host.clone().unwrap_or_else(|| at.ip().to_string());
            proxy.listen.push(Listen { transport: *transport, host, port: at.port() });
            listening.push((*transport, at));
        }
        let failed = |address| move |source| SipError::Hep { address, source };
        let hep = hep.map(|hep| Hep::open(&hep, &listening).map_err(failed(hep.address))).transpose()?;
        let own = listening.iter().filter(|(_, at)| !at.ip().is_unspecified());
        let own = own.map(|(transport, at): &(Transport, SocketAddr)| (*transport, at.ip())).collect();
        Ok(Self {
            proxy: Proxy::new(proxy, Calls::new(quality)),
            udp,
            streams: Streams::new(shared, connector, streams, own),
            names: Names::new(tell.clone()),
            reservers: Reservers::start(reserving, &tell, first),
            events,
            listening,
            accepting,
            hep,
            next: VecDeque::new(),
            say: Box::new(say),
        })
    }

    /// Where it listens, with the ports that it was given.
    pub fn listening(&self) -> &[(Transport, SocketAddr)] {
        &self.listening
    }

    /// What it has done and has.
    pub fn totals(&self) -> Totals {
        Totals {
            proxy: self.proxy.counters(),
            quality: self.proxy.quality().counters(),
            live: self.proxy.quality().live(),
            under_way: self.proxy.under_way(),
            records: self.proxy.records(),
            connections: self.streams.len(),
            unsent: self.udp.as_ref().map_or(0, |udp| udp.unsent),
            orders_lost: self.reservers.lost,
        }
    }

    /// Serves until `stop` resolves, with other settings as they come. Calls go on without it, and what is reserved for them
    /// stands; what has ended is given back.
    pub async fn run(mut self, stop: impl Future<Output = ()>, mut again: mpsc::Receiver<Again>) -> Totals {
        let mut stop = pin!(stop);
        let mut events = Vec::with_capacity(TURN);
        loop {
            let due = self.proxy.next_wakeup().unwrap_or(Instant::FAR_FUTURE);
            tokio::select! {
                () = readable(self.udp.as_ref()) => self.datagrams(),
                _ = self.events.recv_many(&mut events, TURN) => {
                    for event in events.drain(..) {
                        self.event(event);
                    }
                }
                () = RuntimeTimer.until(due) => self.tell(Input::Wake),
                Some(Again { proxy, quality }) = again.recv() => {
                    self.proxy.configure(proxy);
                    self.proxy.quality_mut().configure(quality);
                    self.tell(Input::Wake);
                }
                () = &mut stop => break,
            }
        }
        self.accepting.abort_all();
        let totals = self.totals();
        // Answers and messages have nowhere to go any more, but must not stand in the way.
        let drain = async { while self.events.recv().await.is_some() {} };
        let end = async {
            tokio::select! { () = self.reservers.end() => {}, () = drain => {} }
        };
        let _ = tokio::time::timeout(FAREWELL, end).await;
        totals
    }

    fn datagrams(&mut self) {
        for _ in 0..TURN {
            let Some((address, bytes)) = self.udp.as_mut().and_then(Datagrams::next) else { return };
            let peer = Peer { transport: Transport::Udp, address, connection: None };
            self.hep.iter().for_each(|hep| hep.came(&peer, &bytes));
            self.tell(Input::Datagram(peer, bytes));
        }
    }

    fn event(&mut self, event: Event) {
        let now = clock::monotonic();
        let input = match event {
            Event::Opened(opened) => return self.streams.opened(opened),
            Event::Bytes(number, bytes) => match self.streams.peer(number) {
                Some(peer) => {
                    self.hep.iter_mut().for_each(|hep| hep.came_by_stream(&peer, &bytes));
                    Input::Bytes(peer, bytes)
                }
                None => return,
            },
            Event::Gone(number, unsent) => {
                self.streams.close(number);
                self.hep.iter_mut().for_each(|hep| hep.ended(number));
                self.next.extend(unsent.into_iter().filter(|n| *n > 0).map(Input::Broken));
                Input::Closed(number)
            }
            Event::Resolved(number, mut addresses, name) => {
                if let Some(name) = name {
                    self.names.note(&addresses, &name);
                } else if let Some(udp) = &self.udp {
                    addresses.retain(|address| udp.reaches(address));
                }
                Input::Resolved(number, addresses)
            }
            Event::Answer(id, serial, answer) => {
                self.proxy.quality_mut().answer(now, id, serial, answer);
                Input::Wake
            }
            Event::Taken(id, code) => {
                self.proxy.quality_mut().taken(now, id, code);
                Input::Wake
            }
            Event::Reach(who, why) => return (self.say)(Said::Reach(who, why)),
        };
        self.tell(input);
    }

    /// Tells the machine, and does what it wants of that.
    fn tell(&mut self, input: Input) {
        self.next.push_back(input);
        while let Some(input) = self.next.pop_front() {
            let now = clock::monotonic();
            self.proxy.handle_input(now, input);
            while let Some(output) = self.proxy.poll_output() {
                self.output(output);
            }
            while let Some(order) = self.proxy.quality_mut().poll_order() {
                if let Some((id, serial, answer)) = self.reservers.offer(order) {
                    self.proxy.quality_mut().answer(now, id, serial, answer);
                    self.next.push_back(Input::Wake);
                }
            }
            while let Some(record) = self.proxy.quality_mut().poll_record() {
                (self.say)(Said::Record(record));
            }
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Send { to, bytes, number } => self.send(&to, bytes, number),
            Output::Resolve { number, host, port, transport } => {
                if !self.names.resolve(number, host, port, transport) {
                    self.next.push_back(Input::Resolved(number, Vec::new()));
                }
            }
            Output::Close(number) => self.streams.close(number),
        }
    }

    fn send(&mut self, to: &Peer, bytes: Vec<u8>, number: u64) {
        self.hep.iter().for_each(|hep| hep.sent(to, &bytes));
        let sent = match (to.transport, &mut self.udp) {
            (Transport::Udp, Some(udp)) => udp.send(to.address, &bytes).is_ok(),
            (Transport::Udp, None) => false,
            (Transport::Tcp | Transport::Tls, _) => {
                let name = || self.names.of(&to.address);
                match self.streams.send(to, (number, bytes), name) {
                    Ok(()) => true,
                    Err(stuck) => {
                        if let Some(stuck) = stuck {
                            self.streams.close(stuck);
                            self.next.push_back(Input::Closed(stuck));
                        }
                        false
                    }
                }
            }
        };
        if !sent && number > 0 {
            self.next.push_back(Input::Broken(number));
        }
    }
}

async fn readable(udp: Option<&Datagrams>) {
    match udp {
        Some(udp) => udp.wait().await,
        None => std::future::pending().await,
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
