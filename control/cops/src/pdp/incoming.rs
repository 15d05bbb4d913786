//! What comes from PEPs.

use super::peer::{Installed, Owed};
use super::states::{Event, State};
use super::{Gone, MAX_OWED, Notice, Opening, Output, Pdp, PeerId, Security};
use crate::session::Incoming;
use crate::session::seal::{self, Seal};
use crate::wire::integrity::TLS;
use crate::wire::{
    Accept, Body, ClientType, Decided, Error, ErrorCode, Fault, Handle, Integrity, Message, OpCode, Open,
    Request,
};
use perhop_units::Instant;

impl Pdp {
    pub(super) fn bytes(&mut self, now: Instant, connection: u64, bytes: &[u8]) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        if known.state == State::Handshake {
            return self.break_off(now, connection, Error::security_wanted(TLS));
        }
        known.link.push(bytes);
        while let Some(known) = self.connections.get_mut(&connection) {
            if known.state == State::Handshake && known.link.held() > 0 {
                return self.break_off(now, connection, Error::security_wanted(TLS));
            }
            match known.link.next(now) {
                None => return,
                Some(Incoming::Message(message, bytes)) => self.message(now, connection, message, &bytes),
                Some(Incoming::Fault(fault)) => self.fault(now, connection, &fault),
                Some(Incoming::Broken(error)) => self.break_off(now, connection, error),
            }
        }
    }

    pub(super) fn traffic(&mut self, now: Instant, connection: u64) -> bool {
        let must_be_secure = !matches!(self.config.security, Security::None);
        self.step(now, connection, Event::Traffic { must_be_secure })
    }

    pub(super) fn message(&mut self, now: Instant, connection: u64, message: Message, bytes: &[u8]) {
        let Message { client_type, solicited, body, integrity } = message;
        if let (Body::Open(open), ClientType::CONNECTION) = (&body, client_type) {
            return self.open_connection(now, connection, open, integrity, bytes);
        }
        if !self.traffic(now, connection) {
            return;
        }
        match body {
            Body::KeepAlive => self.send(now, connection, Message::new(client_type, Body::KeepAlive)),
            Body::Close(_) if client_type == ClientType::CONNECTION => self.disconnect(now, connection),
            Body::Open(open) => self.open(now, connection, client_type, *open),
            Body::Decision { .. } | Body::SyncRequest(_) | Body::Accept(_) => {
                self.break_off(now, connection, Error::of(ErrorCode::BAD_MESSAGE_FORMAT));
            }
            body => match self.peer_on(connection, client_type) {
                Some(peer) => self.of_client(now, connection, &peer, solicited, body),
                None => self.send_close(
                    now,
                    connection,
                    client_type,
                    Error::of(ErrorCode::UNSUPPORTED_CLIENT_TYPE),
                ),
            },
        }
    }

    pub(super) fn peer_on(&self, connection: u64, client_type: ClientType) -> Option<PeerId> {
        let known = self.connections.get(&connection)?;
        known.open.iter().find(|peer| peer.client_type == client_type).cloned()
    }

    /// OPN of client-type 0: security (RFC 2748 §4.1, RFC 4261 §5).
    pub(super) fn open_connection(
        &mut self,
        now: Instant,
        connection: u64,
        open: &Open,
        integrity: Option<Integrity>,
        bytes: &[u8],
    ) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let accept = Accept { keep_alive_s: 0, accounting_s: None };
        let mut message = Message::new(ClientType::CONNECTION, Body::Accept(accept));
        let is_fresh = known.state == State::Fresh;
        match (&self.config.security, integrity) {
            (Security::Digest(keys), Some(Integrity::Hmac { .. })) if is_fresh => {
                let failure = Error::of(ErrorCode::AUTHENTICATION_FAILURE);
                let Some(keyring) = keys.get(&open.pep_id).cloned() else {
                    return self.break_off(now, connection, failure);
                };
                let theirs = match seal::check(&keyring, now, bytes) {
                    Ok(theirs) => theirs,
                    Err(error) => return self.break_off(now, connection, error),
                };
                let ours = known.sequence;
                known.proved = Some(open.pep_id.clone());
                known.link.protect(Seal::new(keyring.clone(), theirs, ours));
                self.outputs.push_back(Output::Send(connection, seal::seal(&keyring, now, &message, ours)));
                self.step(now, connection, Event::OpenedWithDigest);
            }
            (Security::Tls, None | Some(Integrity::StartTls)) if is_fresh => {
                message.integrity = Some(Integrity::StartTls);
                self.send(now, connection, message);
                self.step(now, connection, Event::OpenedForTls);
                self.outputs.push_back(Output::StartTls(connection));
            }
            _ => _ = self.step(now, connection, Event::OpenedOtherwise),
        }
    }

    pub(super) fn open(&mut self, now: Instant, connection: u64, client_type: ClientType, open: Open) {
        let Open { pep_id: pep, client_si, last_pdp } = open;
        let peer = PeerId { pep, client_type };
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let is_other = known.proved.as_ref().is_some_and(|proved| *proved != peer.pep)
            || known.open.iter().any(|open| open.client_type == client_type && *open != peer);
        let code = if !self.config.client_types.contains(&client_type) {
            Some(ErrorCode::UNSUPPORTED_CLIENT_TYPE)
        } else if is_other {
            Some(ErrorCode::AUTHENTICATION_FAILURE)
        } else if !self.peers.contains_key(&peer) && self.peers.len() >= self.config.max_peers {
            Some(ErrorCode::UNABLE_TO_PROCESS)
        } else {
            None
        };
        if let Some(code) = code {
            return self.send_close(now, connection, client_type, Error::of(code));
        }
        known.opening.retain(|opening| opening.peer.client_type != client_type);
        known.opening.push(Opening { peer: peer.clone(), has_last_pdp: last_pdp.is_some() });
        self.notice(Notice::Opening { connection, peer, client_si, last_pdp });
    }

    pub(super) fn of_client(
        &mut self,
        now: Instant,
        connection: u64,
        id: &PeerId,
        solicited: bool,
        body: Body,
    ) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        match body {
            Body::Request(request) => self.request(now, connection, id, request),
            Body::Report(report) => {
                let (peer, handle) = (id.clone(), report.handle);
                let (report_type, client_si) = (report.report_type, report.client_si);
                self.notice(Notice::Reported { peer, handle, solicited, report_type, client_si });
            }
            // One that is not known has been refused with an error, or was never more than named (§3.5).
            Body::Delete { handle, reason } if peer.requests.remove(&handle).is_some() => {
                self.deleted(id, handle, Gone::Deleted(reason));
            }
            Body::SyncComplete(None) if peer.is_syncing => {
                let gone = peer.complete();
                gone.into_iter().for_each(|handle| self.deleted(id, handle, Gone::NotAskedAgain));
                self.notice(Notice::Synchronized(id.clone()));
            }
            Body::Close(close) => {
                // A PEP that only lost the connection comes back with what it has.
                if close.error.code != ErrorCode::COMMUNICATION_FAILURE {
                    self.delete_all(id, Gone::Closed);
                }
                self.leave(now, connection, id);
            }
            _ => {}
        }
    }

    pub(super) fn request(&mut self, now: Instant, connection: u64, id: &PeerId, request: Box<Request>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let handle = request.handle.clone();
        let count = peer.requests.len();
        let is_update = peer.requests.contains_key(&handle);
        if !is_update && count >= self.config.max_requests {
            let error = Error::of(ErrorCode::UNABLE_TO_PROCESS);
            return self.send_error(now, connection, id.client_type, handle, error);
        }
        let installed = peer.requests.entry(handle).or_insert_with(Installed::new);
        if installed.owed.len() >= MAX_OWED {
            return self.close_client(now, connection, id, Error::of(ErrorCode::CLIENT_FAILURE), None);
        }
        self.questions += 1;
        let question = self.questions;
        installed.asked(Owed::Answer(question));
        self.notice(Notice::Asked { peer: id.clone(), question, request, is_update });
    }

    pub(super) fn send_error(
        &mut self,
        now: Instant,
        connection: u64,
        client_type: ClientType,
        handle: Handle,
        error: Error,
    ) {
        let body = Body::Decision { handle, decided: Decided::Error(error) };
        self.send(now, connection, Message { solicited: true, ..Message::new(client_type, body) });
    }

    /// Errors whose turn has come.
    pub(super) fn answer_errors(&mut self, now: Instant, connection: u64, id: &PeerId, handle: &Handle) {
        while let Some(peer) = self.peers.get_mut(id)
            && let Some(installed) = peer.requests.get_mut(handle)
            && let Some(&Owed::Error(error)) = installed.owed.front()
        {
            installed.answered();
            self.send_error(now, connection, id.client_type, handle.clone(), error);
        }
    }

    /// What could not be read: a request gets its error, anything else costs its client or, where there is none, the
    /// connection (RFC 2748 §3.1, §3.6).
    pub(super) fn fault(&mut self, now: Instant, connection: u64, fault: &Fault) {
        let client_type = fault.header.client_type;
        let error = fault.malformed.error();
        if client_type == ClientType::CONNECTION {
            return self.break_off(now, connection, error);
        }
        if !self.traffic(now, connection) {
            return;
        }
        let peer = self.peer_on(connection, client_type);
        match (peer, &fault.handle) {
            (Some(id), Some(handle)) if fault.header.op == OpCode::Request as u8 => {
                let known = self.peers.get_mut(&id).and_then(|peer| peer.requests.get_mut(handle));
                match known {
                    Some(installed) if installed.owed.len() >= MAX_OWED => {
                        self.close_client(now, connection, &id, error, None);
                    }
                    Some(installed) => {
                        installed.asked(Owed::Error(error));
                        self.answer_errors(now, connection, &id, handle);
                    }
                    None => self.send_error(now, connection, client_type, handle.clone(), error),
                }
            }
            (Some(id), _) => self.close_client(now, connection, &id, error, None),
            (None, _) => self.send_close(now, connection, client_type, error),
        }
    }
}
