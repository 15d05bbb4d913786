//! What a PEP does with its requests: [`super::request`] has their table.

use super::request::{self, Answers, Entry, State as Asking};
use super::states::Client as ClientState;
use super::{Failure, Notice, Pep, Refused};
use crate::wire::{Body, ClientType, Decided, Handle, MAX_MESSAGE, Message, Reason, ReasonCode, Request};
use perhop_units::Instant;

impl Pep {
    /// Asks, or asks something else by the handle of a request that there is. O(log requests).
    ///
    /// # Errors
    /// There is no such client, it has too many requests, or this one is too long for a message.
    pub fn ask(&mut self, now: Instant, client_type: ClientType, request: Request) -> Result<(), Refused> {
        let index = self.index(client_type)?;
        let request = Box::new(request);
        too_long(&Message::new(client_type, Body::Request(request.clone())))?;
        let session = &mut self.sessions[index];
        let handle = request.handle.clone();
        let most = self.config.max_requests;
        let is_open = session.state == ClientState::Open;
        if let Some(entry) = session.requests.get_mut(&handle) {
            entry.request = request;
            let event = if is_open { request::Event::Update } else { request::Event::UpdateAway };
            self.ask_step(now, index, &handle, event);
        } else if session.requests.len() + session.deleted.len() >= most {
            return Err(Refused::TooMany(most));
        } else {
            let is_known = session.deleted.remove(&handle).is_some();
            let entry = Entry {
                state: Asking::Unsent,
                request,
                is_known,
                is_decided: false,
                unreported: 0,
                deadline: None,
                last_report: None,
            };
            session.requests.insert(handle.clone(), entry);
            self.arm(now, index, &handle);
            if is_open {
                self.ask_step(now, index, &handle, request::Event::Opened);
            }
        }
        self.check();
        Ok(())
    }

    /// Drops a request: its DRQ is sent now or with the next connection. O(log requests).
    ///
    /// Use another handle for what is asked next: a decision on this one may still be under way.
    ///
    /// # Errors
    /// There is no such client or request.
    pub fn drop_request(
        &mut self,
        now: Instant,
        client_type: ClientType,
        handle: &Handle,
        reason: Reason,
    ) -> Result<(), Refused> {
        let index = self.index(client_type)?;
        self.remove(now, index, handle, reason).then_some(()).ok_or(Refused::NoRequest)
    }

    pub(super) fn synchronize(&mut self, now: Instant, index: usize, handle: Option<Handle>) {
        let session = &self.sessions[index];
        if session.state != ClientState::Open {
            return;
        }
        let client_type = session.client.client_type;
        match &handle {
            None => self.each_request(now, index, request::Event::Sync),
            Some(handle) if session.requests.contains_key(handle) => {
                self.ask_step(now, index, handle, request::Event::Sync);
            }
            Some(handle) => {
                let reason = Reason::of(ReasonCode::SYNC_HANDLE_UNKNOWN);
                self.send(now, &Message::new(client_type, Body::Delete { handle: handle.clone(), reason }));
            }
        }
        if handle.is_none() {
            self.sessions[index].last_pdp = Some(self.server);
        }
        self.send(now, &Message::new(client_type, Body::SyncComplete(handle)));
    }

    pub(super) fn decision(
        &mut self,
        now: Instant,
        index: usize,
        handle: Handle,
        decided: Decided,
        solicited: bool,
    ) {
        let session = &mut self.sessions[index];
        // One that has just been dropped may still be decided on.
        let Some(entry) = session.requests.get_mut(&handle) else { return };
        if session.state != ClientState::Open || !solicited && !entry.is_decided {
            return;
        }
        let decisions = match decided {
            Decided::Decisions(decisions) => decisions,
            Decided::Error(error) => {
                let reason = Reason::of(ReasonCode::PDP_DIRECTIVE);
                return self.give_up(now, index, &handle, reason, Failure::Refused(error));
            }
        };
        entry.is_decided = true;
        entry.unreported = entry.unreported.saturating_add(1);
        session.last_pdp = session.last_pdp.or(Some(self.server));
        let event = if solicited { request::Event::Answer } else { request::Event::Change };
        let client_type = session.client.client_type;
        let answers = match request::step(entry.state, event) {
            Some((_, request::Action::Deliver(answers))) => answers,
            _ => Answers::Earlier,
        };
        self.notice(Notice::Decided { client_type, handle: handle.clone(), answers, decisions });
        self.ask_step(now, index, &handle, event);
    }

    pub(super) fn each_request(&mut self, now: Instant, index: usize, event: request::Event) {
        let handles: Vec<Handle> = self.sessions[index].requests.keys().cloned().collect();
        for handle in &handles {
            self.ask_step(now, index, handle, event);
        }
    }

    pub(super) fn ask_step(&mut self, now: Instant, index: usize, handle: &Handle, event: request::Event) {
        let session = &mut self.sessions[index];
        let Some(entry) = session.requests.get_mut(handle) else { return };
        let before = entry.state;
        let Some((next, action)) = request::step(before, event) else {
            return self.give_up(now, index, handle, Reason::of(ReasonCode::TIMEOUT), Failure::Timeout);
        };
        if event == request::Event::Lost {
            entry.unreported = 0;
        }
        entry.state = next;
        let is_sent = matches!(action, request::Action::Send | request::Action::DeliverAndSend);
        if is_sent {
            entry.is_known = true;
            let message = Message::new(session.client.client_type, Body::Request(entry.request.clone()));
            self.send(now, &message);
        }
        if next == Asking::Decided {
            self.disarm(index, handle);
        } else if is_sent || before == Asking::Decided || event == request::Event::Lost {
            self.arm(now, index, handle);
        }
    }

    /// The answer must come in time from now on.
    pub(super) fn arm(&mut self, now: Instant, index: usize, handle: &Handle) {
        self.disarm(index, handle);
        let at = now + self.config.patience;
        if let Some(entry) = self.sessions[index].requests.get_mut(handle) {
            entry.deadline = Some(at);
            self.deadlines.insert((at, index, handle.clone()));
        }
    }

    pub(super) fn disarm(&mut self, index: usize, handle: &Handle) {
        let entry = self.sessions[index].requests.get_mut(handle);
        if let Some(at) = entry.and_then(|entry| entry.deadline.take()) {
            self.deadlines.remove(&(at, index, handle.clone()));
        }
    }

    pub(super) fn give_up(
        &mut self,
        now: Instant,
        index: usize,
        handle: &Handle,
        reason: Reason,
        why: Failure,
    ) {
        if self.remove(now, index, handle, reason) {
            let client_type = self.sessions[index].client.client_type;
            self.notice(Notice::Failed { client_type, handle: handle.clone(), why });
        }
    }

    pub(super) fn remove(&mut self, now: Instant, index: usize, handle: &Handle, reason: Reason) -> bool {
        self.disarm(index, handle);
        let session = &mut self.sessions[index];
        let Some(entry) = session.requests.remove(handle) else { return false };
        if session.state == ClientState::Open {
            let body = Body::Delete { handle: handle.clone(), reason };
            let message = Message::new(session.client.client_type, body);
            self.send(now, &message);
        } else if entry.is_known {
            session.deleted.insert(handle.clone(), reason);
        }
        true
    }
}

pub(super) fn too_long(message: &Message) -> Result<(), Refused> {
    // With room for a digest.
    let length = message.to_bytes().len() + 24;
    if length > MAX_MESSAGE { Err(Refused::TooLong(length)) } else { Ok(()) }
}
