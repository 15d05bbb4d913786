//! The machine of a door between its connections and whoever decides.

use super::carrier::{Event, Heard, Order};
use super::decides::{Changed, Decides, Deciding, Standing};
use super::requests::{Client, Grant, Requests, Work};
use super::wanted::nack;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use perhop_broker::ledger::Refusal;
use perhop_cops::dra::{self, Asked, Tag, Told};
use perhop_cops::pdp::{Config, Gone, Input, Notice, On, Output, Pdp, PeerId};
use perhop_cops::wire::{Accept, Close, Decided, Error, ErrorCode, Handle, Request};
use perhop_drive::{RuntimeTimer, Timer};
use perhop_io::clock;
use perhop_reason::Code;
use perhop_tcapi::wire::{Refusal as Nack, Request as Reservation};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Longest time without a message of a client, s.
const KEEP_ALIVE_S: u16 = 60;
/// Questions that wait for their decision.
const WAITING: usize = 65_536;
/// Reservations are not renewed more often than this.
const LEAST_PAUSE_MS: u64 = 500;
/// When a renewal that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What whoever decides has come to.
struct Done {
    peer: PeerId,
    what: What,
}

enum What {
    Asked(Handle, u64, Tag, Box<Reservation>, Result<Standing, Refusal>),
    Renewed(Handle, Result<Standing, Refusal>),
    Released(Handle),
    Sorted,
}

/// A connection.
struct Connection {
    orders: mpsc::Sender<Order>,
    /// SHA-256 of the certificate that was shown.
    shown: Option<[u8; 32]>,
    is_secured: bool,
}

pub(super) struct Driver {
    pdp: Pdp,
    config: Config,
    decides: Arc<dyn Decides>,
    /// Whom clients are sent to while it is not decided here.
    other: Option<SocketAddr>,
    connections: HashMap<u64, Connection>,
    requests: Requests,
    deciding: FuturesUnordered<Deciding<Done>>,
}

impl Driver {
    pub(super) fn new(config: Config, decides: Arc<dyn Decides>, other: Option<SocketAddr>) -> Self {
        Self {
            pdp: Pdp::new(config.clone()),
            config,
            decides,
            other,
            connections: HashMap::new(),
            requests: Requests::default(),
            deciding: FuturesUnordered::new(),
        }
    }

    /// Serves connections until `stop` resolves.
    pub(super) async fn run(mut self, mut events: mpsc::Receiver<Event>, stop: impl Future<Output = ()>) {
        let mut changes = self.decides.changes();
        let mut stop = std::pin::pin!(stop);
        loop {
            let due = self.pdp.next_wakeup().into_iter().chain(self.requests.next_renewal()).min();
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.event(event),
                    None => return,
                },
                Some(done) = self.deciding.next() => self.done(done),
                Some(changed) = changes.recv() => self.changed(changed),
                () = RuntimeTimer.until(due.unwrap_or(Instant::FAR_FUTURE)) => self.tick(),
                () = &mut stop => return self.end(None),
            }
        }
    }

    fn event(&mut self, event: Event) {
        let connection = event.connection;
        let input = match event.heard {
            Heard::Connected(orders) => {
                self.connections.insert(connection, Connection { orders, shown: None, is_secured: false });
                Input::Connected { connection, sequence: 0 }
            }
            Heard::Secured(shown) => {
                if let Some(known) = self.connections.get_mut(&connection) {
                    (known.shown, known.is_secured) = (shown, true);
                }
                Input::Secured(connection)
            }
            Heard::Bytes(bytes) => Input::Bytes(connection, bytes),
            Heard::Gone => {
                self.connections.remove(&connection);
                Input::Disconnected(connection)
            }
        };
        self.input(input);
        // Whoever said it may go on.
        drop(event.taken);
    }

    fn input(&mut self, input: Input) {
        self.pdp.handle_input(clock::monotonic(), input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.pdp.poll_output() {
            match output {
                Output::Send(connection, bytes) => self.order(connection, Order::Send(bytes)),
                Output::StartTls(connection) => self.order(connection, Order::StartTls),
                Output::Disconnect(connection) => drop(self.connections.remove(&connection)),
                Output::Notice(notice) => self.notice(notice),
            }
        }
    }

    fn order(&mut self, connection: u64, order: Order) {
        let is_full = self.connections.get(&connection).is_some_and(|c| c.orders.try_send(order).is_err());
        if is_full {
            // Without anybody who gives it orders the connection ends, and says so.
            self.connections.remove(&connection);
        }
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Opening { connection, peer, last_pdp, .. } => {
                self.opening(connection, peer, last_pdp.is_some());
            }
            Notice::Asked { peer, question, request, .. } => {
                let handle = request.handle.clone();
                self.requests.add(&peer, &handle, Work::Ask(question, request));
                self.go_on(&peer, &handle);
            }
            Notice::Deleted { peer, handle, why: Gone::Expired } => self.requests.forget(&peer, &handle),
            Notice::Deleted { peer, handle, .. } => {
                self.requests.add(&peer, &handle, Work::Release);
                self.go_on(&peer, &handle);
            }
            Notice::Synchronized(peer) => self.sort(&peer),
            Notice::Closed(peer) => {
                if let Some(client) = self.requests.clients.get_mut(&peer) {
                    client.open = client.open.saturating_sub(1);
                }
                self.requests.tidy_client(&peer);
            }
            // What a client reports of a reservation changes nothing here: it deletes what it cannot use.
            Notice::Reported { .. } => {}
        }
    }

    fn opening(&mut self, connection: u64, peer: PeerId, has_last_pdp: bool) {
        let now = clock::monotonic();
        let known = self.connections.get(&connection);
        let (shown, is_secured) = known.map_or((None, false), |known| (known.shown, known.is_secured));
        match self.decides.client(&peer.pep, shown, is_secured) {
            Ok(name) => {
                let accept = Accept { keep_alive_s: KEEP_ALIVE_S, accounting_s: None };
                if self.pdp.accept(now, connection, peer.client_type, accept).is_err() {
                    return;
                }
                let client = self.requests.clients.entry(peer.clone()).or_insert_with(|| Client::new(name));
                if client.opened(connection) && !has_last_pdp {
                    self.sort(&peer);
                }
            }
            Err(why) => {
                let redirect = self.other.filter(|_| why.code == Code::HeldElsewhere);
                let error = Error { code: error_code(why.code, redirect), sub_code: why.code.number() };
                let close = Close { error, redirect };
                let _ = self.pdp.refuse(now, connection, peer.client_type, close);
            }
        }
    }

    /// Ends what a client has from before and does not ask for any more.
    fn sort(&mut self, peer: &PeerId) {
        let Some(client) = self.requests.clients.get_mut(peer) else { return };
        if std::mem::replace(&mut client.is_sorting, true) {
            return;
        }
        let begin = begin_of_keys(peer);
        let keys: BTreeSet<String> =
            client.requests.keys().map(|handle| format!("{begin}{handle}")).collect();
        let (peer, sorting) = (peer.clone(), self.decides.keep_only(Arc::clone(&client.name), begin, keys));
        self.deciding.push(Box::pin(async move {
            sorting.await;
            Done { peer, what: What::Sorted }
        }));
    }

    /// Does what waits for its turn, one after the other.
    fn go_on(&mut self, peer: &PeerId, handle: &Handle) {
        while let Some(client) = self.requests.clients.get_mut(peer)
            && !client.is_sorting
            && let Some(entry) = client.requests.get_mut(handle)
            && !entry.is_busy
            && let Some(work) = entry.waiting.pop_front()
        {
            let name = Arc::clone(&client.name);
            let doing = match work {
                Work::Ask(question, request) => self.ask(name, peer, question, &request),
                Work::Release => {
                    self.requests.lost(peer, handle).map(|grant| self.release(name, peer, handle, &grant))
                }
            };
            if let Some(doing) = doing {
                self.requests.entry(peer, handle).into_iter().for_each(|entry| entry.is_busy = true);
                self.deciding.push(doing);
            }
        }
        self.requests.tidy(peer, handle);
    }

    fn ask(
        &mut self,
        name: Arc<str>,
        peer: &PeerId,
        question: u64,
        request: &Request,
    ) -> Option<Deciding<Done>> {
        let handle = request.handle.clone();
        let error = match dra::asked(request) {
            Ok(Asked::Provisioning) => {
                // A domain gives nothing in advance.
                self.answer(peer, &handle, On::Question(question), Decided::Decisions(vec![dra::nothing()]));
                return None;
            }
            Ok(Asked::Reservation(tag, wanted)) if self.deciding.len() < WAITING => {
                let key = format!("{}{handle}", begin_of_keys(peer));
                let asked = self.decides.ask(name, key, wanted.clone());
                let peer = peer.clone();
                return Some(Box::pin(async move {
                    Done { peer, what: What::Asked(handle, question, tag, wanted, asked.await) }
                }));
            }
            Ok(Asked::Reservation(..)) => dra::unable(Code::Overload),
            Err(unreadable) => unreadable.error(),
        };
        self.answer(peer, &handle, On::Question(question), Decided::Error(error));
        // The machine forgets one on which nothing was ever decided.
        if let Some(entry) = self.requests.entry(peer, &handle) {
            entry.is_deleted = entry.holds.is_none() && entry.waiting.is_empty();
        }
        None
    }

    fn release(&self, name: Arc<str>, peer: &PeerId, handle: &Handle, grant: &Grant) -> Deciding<Done> {
        let releasing = self.decides.release(name, grant.id);
        let (peer, handle) = (peer.clone(), handle.clone());
        Box::pin(async move {
            releasing.await;
            Done { peer, what: What::Released(handle) }
        })
    }

    /// One that is not there any more needs no answer: it asks again, or has gone.
    fn answer(&mut self, peer: &PeerId, handle: &Handle, on: On, decided: Decided) {
        let _ = self.pdp.decide(clock::monotonic(), peer, handle, on, decided);
    }

    fn tell(&mut self, peer: &PeerId, handle: &Handle, on: On, tag: Tag, told: &Told) {
        let decided = match dra::decision(tag, told) {
            Ok(decision) => Decided::Decisions(vec![decision]),
            // What was asked fitted, and so does the answer; a refusal in words beyond bounds does not.
            Err(_) => Decided::Error(dra::unable(Code::LimitReached)),
        };
        self.answer(peer, handle, on, decided);
    }

    fn done(&mut self, done: Done) {
        let Done { peer, what } = done;
        match what {
            What::Sorted => {
                let Some(client) = self.requests.clients.get_mut(&peer) else { return };
                client.is_sorting = false;
                let handles: Vec<Handle> = client.requests.keys().cloned().collect();
                handles.iter().for_each(|handle| self.go_on(&peer, handle));
                self.requests.tidy_client(&peer);
            }
            What::Asked(handle, question, tag, wanted, result) => {
                self.decided(&peer, &handle, question, tag, *wanted, result);
                self.free(&peer, &handle);
            }
            What::Renewed(handle, result) => {
                self.renewed(&peer, &handle, result);
                self.free(&peer, &handle);
            }
            What::Released(handle) => self.free(&peer, &handle),
        }
        self.drain();
    }

    /// The turn of what waits.
    fn free(&mut self, peer: &PeerId, handle: &Handle) {
        self.requests.entry(peer, handle).into_iter().for_each(|entry| entry.is_busy = false);
        self.go_on(peer, handle);
    }

    fn decided(
        &mut self,
        peer: &PeerId,
        handle: &Handle,
        question: u64,
        tag: Tag,
        wanted: Reservation,
        result: Result<Standing, Refusal>,
    ) {
        match result {
            Ok(standing) => {
                self.requests.holds(peer, handle, Grant::new(standing.id, tag, &wanted), due(&standing));
                let mut granted = wanted;
                granted.lifetime_s =
                    Some(u32::try_from(standing.remaining_ms.div_ceil(1_000)).unwrap_or(u32::MAX));
                if let Some(amount) = &mut granted.reservation {
                    amount.rate_bps = standing.bps;
                }
                self.tell(peer, handle, On::Question(question), tag, &Told::Granted(Box::new(granted)));
            }
            Err(refusal) => {
                // What it had before stands until it drops it, and is renewed meanwhile.
                let has = self.requests.entry(peer, handle).is_some_and(|entry| entry.holds.is_some());
                if has {
                    self.requests.set_due(peer, handle, Some(clock::monotonic() + AGAIN));
                }
                self.tell(peer, handle, On::Question(question), tag, &Told::Refused(Box::new(nack(refusal))));
            }
        }
    }

    fn renewed(&mut self, peer: &PeerId, handle: &Handle, result: Result<Standing, Refusal>) {
        match result {
            Ok(standing) => self.requests.set_due(peer, handle, Some(due(&standing))),
            Err(refusal) if refusal.code == Code::NotFound => self.gone(peer, handle, Code::Timeout),
            Err(_) => self.requests.set_due(peer, handle, Some(clock::monotonic() + AGAIN)),
        }
    }

    /// A reservation is there no more without its client's doing.
    fn gone(&mut self, peer: &PeerId, handle: &Handle, code: Code) {
        let Some(grant) = self.requests.lost(peer, handle) else { return };
        let why = match code {
            Code::NoCapacity => "a link on its path lost rate",
            Code::Preempted => "given up for something more important",
            Code::Forbidden => "released by an operator",
            Code::BackendFailed => "its lease ran out without the controller",
            _ => "its life has ended",
        };
        self.tell(peer, handle, On::Change, grant.tag, &Told::Refused(Box::new(Nack::new(code, why))));
    }

    fn changed(&mut self, changed: Changed) {
        match changed {
            Changed::Begins => {}
            Changed::Ends => self.end(self.other),
            Changed::Gone(id, code) => {
                if let Some((peer, handle)) = self.requests.holders.get(&id).cloned() {
                    self.gone(&peer, &handle, code);
                }
            }
            // Who renews finds out.
            Changed::Unsure => {
                let now = clock::monotonic();
                for (peer, handle) in self.requests.holding() {
                    self.requests.set_due(&peer, &handle, Some(now));
                }
            }
        }
        self.drain();
    }

    fn tick(&mut self) {
        self.input(Input::Tick);
        let now = clock::monotonic();
        while let Some((peer, handle)) = self.requests.take_due(now) {
            let Some(client) = self.requests.clients.get_mut(&peer) else { continue };
            let (name, is_open) = (Arc::clone(&client.name), client.open > 0);
            let Some(entry) = client.requests.get_mut(&handle) else { continue };
            // Of a client that is away nothing is renewed: what it does not ask again ends by itself.
            if !is_open || entry.is_busy {
                continue;
            }
            let Some(grant) = entry.holds.clone() else { continue };
            entry.is_busy = true;
            let renewing = self.decides.renew(name, grant.id, grant.lifetime_ms);
            self.deciding.push(Box::pin(async move {
                let result = renewing.await;
                Done { peer, what: What::Renewed(handle, result) }
            }));
        }
    }

    /// Closes everything. What was decided stands: clients ask again wherever it is decided next.
    fn end(&mut self, redirect: Option<SocketAddr>) {
        self.pdp.shut_down(clock::monotonic(), redirect);
        self.deciding = FuturesUnordered::new();
        self.requests = Requests::default();
        self.drain();
        self.connections.clear();
        self.pdp = Pdp::new(self.config.clone());
    }
}

/// What the keys of all reservations of a client begin with.
fn begin_of_keys(peer: &PeerId) -> String {
    format!("cops/{:04x}/", peer.client_type.0)
}

/// When a reservation is renewed: in the middle of what is left of its life.
fn due(standing: &Standing) -> Instant {
    clock::monotonic() + Duration::from_millis((standing.remaining_ms / 2).max(LEAST_PAUSE_MS))
}

/// The protocol's word for why a client is not accepted.
fn error_code(code: Code, redirect: Option<SocketAddr>) -> ErrorCode {
    match code {
        Code::Unauthenticated | Code::Forbidden => ErrorCode::AUTHENTICATION_FAILURE,
        Code::HeldElsewhere if redirect.is_some() => ErrorCode::REDIRECT,
        _ => ErrorCode::UNABLE_TO_PROCESS,
    }
}
