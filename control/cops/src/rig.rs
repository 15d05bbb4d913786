//! Both ends for tests: alone with a peer that is written by hand, or together in virtual time.

use crate::pdp::{self, On, Pdp, PeerId};
use crate::pep::{self, Pep};
use crate::wire::{
    Accept, Body, ClientType, Command, Context, Decided, Decision, Frames, Handle, Message, PepId, Request,
    Verdict,
};
use perhop_units::{Duration, Instant};
use std::collections::VecDeque;
use std::net::SocketAddr;

pub(crate) const TYPE: ClientType = ClientType(0x4d41);
pub(crate) const OTHER: ClientType = ClientType(0x4d42);
pub(crate) const ACCEPT: Accept = Accept { keep_alive_s: 60, accounting_s: None };

pub(crate) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn at(n: u64) -> Instant {
    Instant(seconds(n).0)
}

pub(crate) fn server(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], crate::wire::PORT))
}

pub(crate) fn name() -> PepId {
    PepId::new("edge-1").expect("a name")
}

pub(crate) fn peer() -> PeerId {
    PeerId { pep: name(), client_type: TYPE }
}

pub(crate) fn pep_config(types: &[ClientType]) -> pep::Config {
    let client = |client_type: &ClientType| pep::Client { client_type: *client_type, client_si: None };
    pep::Config {
        id: name(),
        servers: vec![server(1)],
        clients: types.iter().map(client).collect(),
        security: pep::Security::None,
        patience: seconds(5),
        keep: seconds(300),
        retry: (seconds(1), seconds(8)),
        max_requests: 100,
    }
}

pub(crate) fn pdp_config() -> pdp::Config {
    pdp::Config {
        client_types: vec![TYPE, OTHER],
        security: pdp::Security::None,
        keep: seconds(300),
        patience: seconds(20),
        max_peers: 10,
        max_requests: 100,
    }
}

pub(crate) fn request(n: u64, r_type: u16) -> Request {
    let (in_interface, out_interface) = (None, None);
    let context = Context::of(r_type);
    Request { handle: n.into(), context, in_interface, out_interface, client_si: vec![], local: vec![] }
}

pub(crate) fn install(r_type: u16) -> Decided {
    install_on(Context::of(r_type))
}

pub(crate) fn install_on(context: Context) -> Decided {
    Decided::Decisions(vec![Decision { context, verdict: Verdict::of(Command::INSTALL) }])
}

/// All messages of octets, which must be whole and well formed.
pub(crate) fn messages(bytes: &[u8]) -> Vec<Message> {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    frames.push(bytes);
    while let Some(frame) = frames.next().expect("framed") {
        all.push(frame.message.expect("well formed"));
    }
    assert_eq!(frames.held(), 0, "whole");
    all
}

/// What an end has said since the last look.
#[derive(Debug)]
pub(crate) struct Said<N> {
    pub(crate) sent: Vec<Message>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) notices: Vec<N>,
    pub(crate) connect: Option<SocketAddr>,
    pub(crate) start_tls: bool,
    pub(crate) disconnected: bool,
}

impl<N> Said<N> {
    fn nothing() -> Self {
        Self {
            sent: vec![],
            bytes: vec![],
            notices: vec![],
            connect: None,
            start_tls: false,
            disconnected: false,
        }
    }
}

pub(crate) fn of_pep(pep: &mut Pep) -> Said<pep::Notice> {
    let mut said = Said::nothing();
    while let Some(output) = pep.poll_output() {
        match output {
            pep::Output::Send(bytes) => {
                said.sent.extend(messages(&bytes));
                said.bytes.extend(bytes);
            }
            pep::Output::Connect(server) => said.connect = Some(server),
            pep::Output::StartTls => said.start_tls = true,
            pep::Output::Disconnect => said.disconnected = true,
            pep::Output::Notice(notice) => said.notices.push(notice),
        }
    }
    said
}

/// Of a PDP with connections that are not told apart.
pub(crate) fn of_pdp(pdp: &mut Pdp) -> Said<pdp::Notice> {
    let mut said = Said::nothing();
    while let Some(output) = pdp.poll_output() {
        match output {
            pdp::Output::Send(_, bytes) => {
                said.sent.extend(messages(&bytes));
                said.bytes.extend(bytes);
            }
            pdp::Output::StartTls(_) => said.start_tls = true,
            pdp::Output::Disconnect(_) => said.disconnected = true,
            pdp::Output::Notice(notice) => said.notices.push(notice),
        }
    }
    said
}

/// A PEP that is connected, and what it said.
pub(crate) fn connected_pep(config: pep::Config) -> (Pep, Said<pep::Notice>) {
    let mut pep = Pep::new(at(0), config, 7);
    pep.handle_input(at(0), pep::Input::Tick);
    assert!(of_pep(&mut pep).connect.is_some());
    pep.handle_input(at(0), pep::Input::Connected { sequence: 1000 });
    let said = of_pep(&mut pep);
    (pep, said)
}

/// A PEP whose clients are open.
pub(crate) fn open_pep(config: pep::Config) -> Pep {
    let types: Vec<ClientType> = config.clients.iter().map(|client| client.client_type).collect();
    let (mut pep, _) = connected_pep(config);
    for client_type in types {
        tell(&mut pep, at(0), Message::new(client_type, Body::Accept(ACCEPT)));
    }
    pep
}

pub(crate) fn tell(pep: &mut Pep, now: Instant, message: Message) -> Said<pep::Notice> {
    pep.handle_input(now, pep::Input::Bytes(message.to_bytes()));
    of_pep(pep)
}

pub(crate) fn decision(n: u64, solicited: bool, r_type: u16) -> Message {
    let body = Body::Decision { handle: n.into(), decided: install(r_type) };
    Message { solicited, ..Message::new(TYPE, body) }
}

/// A PDP with a connection, on which `OPN` of [`TYPE`] was accepted.
pub(crate) fn open_pdp(config: pdp::Config) -> Pdp {
    let mut pdp = connected_pdp(config);
    send(&mut pdp, at(0), open(TYPE));
    pdp.accept(at(0), 1, TYPE, ACCEPT).expect("it waits");
    of_pdp(&mut pdp);
    pdp
}

pub(crate) fn connected_pdp(config: pdp::Config) -> Pdp {
    let mut pdp = Pdp::new(config);
    pdp.handle_input(at(0), pdp::Input::Connected { connection: 1, sequence: 2000 });
    pdp
}

pub(crate) fn open(client_type: ClientType) -> Message {
    let open = crate::wire::Open { pep_id: name(), client_si: None, last_pdp: None };
    Message::new(client_type, Body::Open(Box::new(open)))
}

pub(crate) fn send(pdp: &mut Pdp, now: Instant, message: Message) -> Said<pdp::Notice> {
    pdp.handle_input(now, pdp::Input::Bytes(1, message.to_bytes()));
    of_pdp(pdp)
}

/// A PEP and a PDP with a connection between them that delivers, cuts, or loses what is under way.
pub(crate) struct Rig {
    pub(crate) now: Instant,
    pub(crate) pep: Pep,
    pub(crate) pdp: Pdp,
    pep_config: pep::Config,
    pdp_config: pdp::Config,
    seed: u64,
    /// The connection there is.
    pub(crate) connection: Option<u64>,
    connections: u64,
    /// Whether a connection can be made.
    pub(crate) is_reachable: bool,
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
    /// Questions that are not decided on, if the PDP does not decide at once.
    pub(crate) waiting: Option<Vec<(Handle, u64, Context)>>,
    pub(crate) accept: Accept,
    pub(crate) pep_notices: Vec<pep::Notice>,
    pub(crate) pdp_notices: Vec<pdp::Notice>,
    /// All that was sent, with whether the PEP did.
    pub(crate) trace: Vec<(bool, Vec<u8>)>,
}

impl Rig {
    pub(crate) fn new(pep_config: pep::Config, pdp_config: pdp::Config, seed: u64) -> Self {
        Self {
            now: Instant(0),
            pep: Pep::new(Instant(0), pep_config.clone(), seed),
            pdp: Pdp::new(pdp_config.clone()),
            pep_config,
            pdp_config,
            seed,
            connection: None,
            connections: 0,
            is_reachable: true,
            up: VecDeque::new(),
            down: VecDeque::new(),
            waiting: None,
            accept: ACCEPT,
            pep_notices: Vec::new(),
            pdp_notices: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// One step of delivery; whether there was anything to do.
    pub(crate) fn step(&mut self) -> bool {
        self.collect();
        let Some(connection) = self.connection else { return false };
        if let Some(bytes) = self.up.pop_front() {
            self.pdp.handle_input(self.now, pdp::Input::Bytes(connection, bytes));
        } else if let Some(bytes) = self.down.pop_front() {
            self.pep.handle_input(self.now, pep::Input::Bytes(bytes));
        } else {
            return false;
        }
        self.collect();
        true
    }

    /// All outputs, and what callers do about them.
    pub(crate) fn collect(&mut self) {
        loop {
            if let Some(output) = self.pep.poll_output() {
                self.on_pep(output);
            } else if let Some(output) = self.pdp.poll_output() {
                self.on_pdp(output);
            } else {
                return;
            }
        }
    }

    fn on_pep(&mut self, output: pep::Output) {
        match output {
            pep::Output::Connect(_) if self.is_reachable => {
                self.connections += 1;
                let connection = self.connections;
                self.connection = Some(connection);
                let sequence = (connection as u32).wrapping_mul(0x4000_0001);
                self.pdp.handle_input(self.now, pdp::Input::Connected { connection, sequence });
                self.pep.handle_input(self.now, pep::Input::Connected { sequence: !sequence });
            }
            pep::Output::Connect(_) => self.pep.handle_input(self.now, pep::Input::Disconnected),
            pep::Output::Send(bytes) => {
                self.trace.push((true, bytes.clone()));
                self.up.push_back(bytes);
            }
            pep::Output::StartTls => {}
            pep::Output::Disconnect => {
                // What was sent before arrives.
                while let (Some(bytes), Some(connection)) = (self.up.pop_front(), self.connection) {
                    self.pdp.handle_input(self.now, pdp::Input::Bytes(connection, bytes));
                }
                if let Some(connection) = self.connection.take() {
                    self.pdp.handle_input(self.now, pdp::Input::Disconnected(connection));
                }
                self.down.clear();
            }
            pep::Output::Notice(notice) => {
                if let pep::Notice::Decided { client_type, handle, decisions, .. } = &notice
                    && decisions.iter().any(|decision| decision.context.is_configuration())
                {
                    self.pep
                        .report(self.now, *client_type, handle, true, vec![])
                        .expect("there is a decision");
                }
                self.pep_notices.push(notice);
            }
        }
    }

    fn on_pdp(&mut self, output: pdp::Output) {
        match output {
            pdp::Output::Send(connection, bytes) if Some(connection) == self.connection => {
                self.trace.push((false, bytes.clone()));
                self.down.push_back(bytes);
            }
            pdp::Output::Send(..) => {}
            pdp::Output::StartTls(connection) => {
                while let Some(bytes) = self.down.pop_front() {
                    self.pep.handle_input(self.now, pep::Input::Bytes(bytes));
                }
                self.pdp.handle_input(self.now, pdp::Input::Secured(connection));
                self.pep.handle_input(self.now, pep::Input::Secured);
            }
            pdp::Output::Disconnect(connection) if Some(connection) == self.connection => {
                while let Some(bytes) = self.down.pop_front() {
                    self.pep.handle_input(self.now, pep::Input::Bytes(bytes));
                }
                self.connection = None;
                self.up.clear();
                self.pep.handle_input(self.now, pep::Input::Disconnected);
            }
            pdp::Output::Disconnect(_) => {}
            pdp::Output::Notice(notice) => {
                match &notice {
                    pdp::Notice::Opening { connection, peer, .. } => {
                        let accepted = self.pdp.accept(self.now, *connection, peer.client_type, self.accept);
                        accepted.expect("it waits");
                    }
                    pdp::Notice::Asked { peer, question, request, .. } => {
                        let (handle, context) = (request.handle.clone(), request.context);
                        match &mut self.waiting {
                            Some(waiting) => waiting.push((handle, *question, context)),
                            None => {
                                let on = On::Question(*question);
                                let decided =
                                    self.pdp.decide(self.now, peer, &handle, on, install_on(context));
                                decided.expect("it is the oldest");
                            }
                        }
                    }
                    _ => {}
                }
                self.pdp_notices.push(notice);
            }
        }
    }

    /// Until nothing is under way.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Lets time pass, with all that happens meanwhile.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            let next = self.pep.next_wakeup().into_iter().chain(self.pdp.next_wakeup()).min();
            match next {
                Some(next) if next <= end => {
                    assert!(next >= self.now || self.now.0 == 0, "a wake-up in the past was not served");
                    self.now = self.now.max(next);
                    self.pep.handle_input(self.now, pep::Input::Tick);
                    self.collect();
                    self.pdp.handle_input(self.now, pdp::Input::Tick);
                }
                _ => break,
            }
        }
        self.settle();
        self.now = end;
    }

    /// The connection breaks; what is under way is lost. Either end may not hear of it.
    pub(crate) fn cut(&mut self, tell_pep: bool, tell_pdp: bool) {
        let Some(connection) = self.connection.take() else { return };
        (self.up, self.down) = Default::default();
        if tell_pdp {
            self.pdp.handle_input(self.now, pdp::Input::Disconnected(connection));
            self.collect();
        }
        if tell_pep {
            self.pep.handle_input(self.now, pep::Input::Disconnected);
            self.collect();
        }
    }

    pub(crate) fn restart_pep(&mut self) {
        self.pep = Pep::new(self.now, self.pep_config.clone(), self.seed.wrapping_add(self.connections));
        (self.up, self.down) = Default::default();
        if let Some(connection) = self.connection.take() {
            self.pdp.handle_input(self.now, pdp::Input::Disconnected(connection));
            self.collect();
        }
    }

    pub(crate) fn restart_pdp(&mut self) {
        self.pdp = Pdp::new(self.pdp_config.clone());
        self.waiting.iter_mut().for_each(Vec::clear);
        (self.up, self.down) = Default::default();
        if self.connection.take().is_some() {
            self.pep.handle_input(self.now, pep::Input::Disconnected);
            self.collect();
        }
    }
}
