//! What clients ask for.

use super::admit::Booking;
use super::ask::{AskId, Granted, Held, MOST_FLOW, MOST_KEY, Output, Refusal, Request, Reserve, Told, Way};
use super::audit::{resv_detail, what};
use super::books::Resv;
use super::{BUSY_MS, Ledger, digest};
use crate::record::{ONE_LINK, ReservationId, ReservationState};
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Ends the key of the other direction: no client's key has such a character.
const BACK: &str = "\u{1f}back";

fn busy(retry_after_ms: u32, why: &str) -> Refusal {
    Refusal { retry_after_ms, ..Refusal::new(Code::Overload, why) }
}

/// What a reservation may have, bit/s.
pub(super) const RATES: RangeInclusive<u64> = 1..=Rate::MOST.0;

impl Ledger {
    pub(super) fn ask(&mut self, ask: AskId, client: &str, request: Request) {
        let answer = |refusal| Output::Answer { ask, result: Err(refusal) };
        if let Some(refusal) = self.closed() {
            return self.outputs.push_back(answer(refusal));
        }
        let owner = match self.may_ask(client, &request) {
            Ok(owner) => owner,
            Err(refusal) => return self.outputs.push_back(answer(refusal)),
        };
        let mark = self.books.mark();
        match self.decide(owner, &request) {
            Ok(granted) if self.books.mark() == mark => self.answer_in_turn(ask, Ok(granted)),
            Ok(granted) => self.forming.asks.push((ask, Ok(granted))),
            Err(refusal) => {
                self.audit_refusal(owner, &request, &refusal);
                match refusal.code {
                    // These would be the same whatever becomes of decisions that are on their way.
                    Code::OutOfRange | Code::Forbidden => self.outputs.push_back(answer(refusal)),
                    _ => self.answer_in_turn(ask, Err(refusal)),
                }
            }
        }
    }

    /// Whether a request would be granted now, or why not. Nothing is booked, and nobody hears of it.
    ///
    /// # Errors
    /// The refusal that the request would get.
    pub fn why(&mut self, client: &str, request: &Request) -> Result<(), Refusal> {
        self.closed().map_or(Ok(()), Err)?;
        let owner = self.who(client)?;
        let (mark, last) = (self.books.mark(), self.last_reservation);
        let (audits, tells) = (self.forming.audit.len(), self.forming.tells.len());
        let result = self.decide(owner, request).map(drop);
        self.books.rollback_to(mark);
        self.last_reservation = last;
        self.forming.audit.truncate(audits);
        self.forming.tells.truncate(tells);
        result
    }

    /// The client if there is one of this name.
    pub(super) fn who(&self, client: &str) -> Result<u32, Refusal> {
        let owner = self.books.owner(client).filter(|o| self.books.owners[*o as usize].row.is_some());
        owner.ok_or_else(|| Refusal::new(Code::Unauthenticated, "the domain does not know this client"))
    }

    /// Counts a question that is answered without a decision as one of a client's requests.
    ///
    /// # Errors
    /// The client asks more often than it may.
    pub fn take_turn(&mut self, now: Instant, client: &str) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        self.books.owner(client).map_or(Ok(()), |owner| self.within_rate(owner))
    }

    fn within_rate(&mut self, owner: u32) -> Result<(), Refusal> {
        let owner = &mut self.books.owners[owner as usize];
        let per_second = owner.row.as_ref().and_then(|row| row.per_second);
        let taken = per_second.map_or(Ok(()), |per_second| owner.requests.take(self.now, per_second));
        taken.map_err(|retry_after_ms| busy(retry_after_ms, "the client asks more often than it may"))
    }

    /// Whether a client may ask now.
    fn may_ask(&mut self, client: &str, request: &Request) -> Result<u32, Refusal> {
        let number = self.who(client)?;
        if let Err(refusal) = self.within_rate(number) {
            self.audit_refusal(number, request, &refusal);
            return Err(refusal);
        }
        let waiting = self.forming.asks.len();
        let with_flight = self.flight.as_ref().map_or(0, |flight| flight.asks.len());
        if waiting >= self.settings.group || with_flight >= 2 * self.settings.group {
            return Err(busy(BUSY_MS, "too many requests wait for the database"));
        }
        Ok(number)
    }

    /// Decides, and books what is granted. A refusal has booked nothing.
    fn decide(&mut self, client: u32, request: &Request) -> Result<Granted, Refusal> {
        let viewer = self.role(client) == Some("viewer");
        if viewer {
            return Err(Refusal::new(Code::Forbidden, "a viewer may not reserve"));
        }
        let (mark, tells, audits) = (self.books.mark(), self.forming.tells.len(), self.forming.audit.len());
        let result = match request {
            Request::Reserve(reserve) => self.reserve(client, reserve),
            Request::Change { id, bps, back_bps, lifetime_ms, flow } => {
                let rates = [*bps, *back_bps];
                self.change(client, request, *id, rates, *lifetime_ms, flow.as_deref())
            }
            Request::Renew { id, lifetime_ms } => {
                let lifetime_ms = lifetime_ms.or(Some(self.settings.lifetime_ms));
                self.change(client, request, *id, [None, None], lifetime_ms, None)
            }
            Request::Settle { id, peer_handle } => self.settle(client, *id, peer_handle.as_deref()),
            Request::Release { id } => self.release(client, *id),
        };
        if result.is_err() {
            self.books.rollback_to(mark);
            self.forming.tells.truncate(tells);
            self.forming.audit.truncate(audits);
        }
        result
    }

    fn role(&self, client: u32) -> Option<&str> {
        self.books.owners[client as usize].row.as_ref().map(|row| row.role.as_str())
    }

    fn reserve(&mut self, client: u32, request: &Reserve) -> Result<Granted, Refusal> {
        check(request)?;
        let expires_ms = self.end_of(request.lifetime_ms.unwrap_or(self.settings.lifetime_ms))?;
        let (idem, digest): (Arc<str>, _) = (request.idem.as_str().into(), digest::of(request));
        if let Some(before) = self.books.by_key(client, &idem) {
            let message = "this key was used for another reservation";
            let same = before.digest == digest;
            return if same {
                Ok(self.held(&before.clone()))
            } else {
                Err(Refusal::new(Code::TxnIdReused, message))
            };
        }
        let path = self.path_of(&request.way)?;
        let lane = self.lane(path, &request.class)?;
        let back = request.back_bps.map(|bps| Ok::<_, Refusal>((self.back_lane(path, &request.class)?, bps)));
        let back = back.transpose()?;
        let more = 1 + usize::from(back.is_some());
        if self.books.reservations() + more > self.settings.most_reservations {
            return Err(Refusal::new(Code::LimitReached, "the domain has as many reservations as it may"));
        }
        self.check_quota(client, 1, request.bps.saturating_add(request.back_bps.unwrap_or(0)))?;
        let id = self.last_reservation + 1;
        let twin = back.is_some().then_some(id + 1);
        let first = Resv {
            id,
            owner: client,
            idem: idem.clone(),
            digest,
            kind: request.kind,
            twin,
            lane,
            bps: request.bps,
            floor_bps: request.floor_bps,
            priority: request.priority,
            state: if request.asking { ReservationState::Asking } else { ReservationState::Held },
            peer_handle: None,
            flow: request.flow.as_str().into(),
            created_ms: self.now_ms(),
            expires_ms,
        };
        let who = self.books.owners[client as usize].name.clone();
        let other = back.map(|(lane, bps)| {
            let idem = format!("{idem}{BACK}").into();
            let floor_bps = request.floor_bps.map(|floor| floor.min(bps));
            Resv { id: id + 1, idem, twin: Some(id), lane, bps, floor_bps, ..first.clone() }
        });
        let first = Arc::new(first);
        for resv in [Some(first.clone()), other.map(Arc::new)].into_iter().flatten() {
            self.admit(&Booking::first(&resv), &who)?;
            self.books.put(resv.id, Some(resv));
        }
        self.last_reservation += more as u64;
        let detail = resv_detail(&self.books, &first);
        self.audit(&who, "reserve", id.to_string(), None, detail);
        Ok(self.held(&first))
    }

    fn change(
        &mut self,
        client: u32,
        request: &Request,
        id: ReservationId,
        rates: [Option<u64>; 2],
        lifetime_ms: Option<u64>,
        flow: Option<&str>,
    ) -> Result<Granted, Refusal> {
        let rate_is_legal = rates.iter().flatten().all(|bps| RATES.contains(bps));
        if !rate_is_legal {
            return Err(out_of_range("a rate is not from 1 to 10¹² bit/s"));
        }
        flow.map_or(Ok(()), check_flow)?;
        let expires_ms = lifetime_ms.map(|ms| self.end_of(ms)).transpose()?;
        let old = self.own_reservation(client, id)?;
        let twin = old.twin.and_then(|twin| self.books.reservation(twin).cloned());
        if rates[1].is_some() && twin.is_none() {
            return Err(Refusal::new(Code::BadReference, "the reservation has one direction"));
        }
        let ways = [(Some(old.clone()), rates[0]), (twin, rates[1])];
        let ways: Vec<_> = ways.into_iter().filter_map(|(old, bps)| Some((old?, bps))).collect();
        let more = ways.iter().map(|(old, bps)| bps.unwrap_or(old.bps).saturating_sub(old.bps)).sum();
        if more > 0 {
            let less: u64 =
                ways.iter().map(|(old, bps)| old.bps.saturating_sub(bps.unwrap_or(old.bps))).sum();
            self.check_quota(old.owner, 0, u64::saturating_sub(more, less))?;
        }
        let who = self.books.owners[client as usize].name.clone();
        for (old, bps) in ways {
            let mut new = Resv::clone(&old);
            new.expires_ms = expires_ms.unwrap_or(old.expires_ms);
            if let Some(bps) = bps {
                new.bps = bps;
                new.floor_bps = old.floor_bps.map(|floor| floor.min(bps));
                new.state = match old.state {
                    ReservationState::Asking => ReservationState::Asking,
                    ReservationState::Held | ReservationState::Shrunk => ReservationState::Held,
                };
            }
            // Both directions are kept with the same text.
            if let Some(flow) = flow {
                new.flow = flow.into();
            }
            self.admit(&Booking::change(&old, &new), &who)?;
            // What gave way is of lower priority, so not the other direction.
            debug_assert!(self.books.reservation(old.id).is_some());
            self.books.put(old.id, Some(Arc::new(new)));
        }
        let new = self.books.reservation(id).cloned().unwrap_or(old);
        let detail = resv_detail(&self.books, &new);
        self.audit(&who, what(request), id.to_string(), None, detail);
        Ok(self.held(&new))
    }

    fn settle(&mut self, client: u32, id: ReservationId, handle: Option<&str>) -> Result<Granted, Refusal> {
        if handle.is_some_and(|handle| handle.len() > MOST_KEY || handle.chars().any(char::is_control)) {
            return Err(out_of_range(
                "a neighbour's handle has 255 octets at most, and no control characters",
            ));
        }
        let old = self.own_reservation(client, id)?;
        let twin = old.twin.and_then(|twin| self.books.reservation(twin).cloned());
        for old in [Some(old.clone()), twin].into_iter().flatten() {
            let mut new = Resv::clone(&old);
            if new.state == ReservationState::Asking {
                new.state = ReservationState::Held;
            }
            if new.id == id {
                new.peer_handle = handle.map(Into::into);
            }
            self.books.put(new.id, Some(Arc::new(new)));
        }
        let who = self.books.owners[client as usize].name.clone();
        let detail = resv_detail(&self.books, &old);
        self.audit(&who, "settle", id.to_string(), None, detail);
        let new = self.books.reservation(id).cloned().unwrap_or(old);
        Ok(self.held(&new))
    }

    fn release(&mut self, client: u32, id: ReservationId) -> Result<Granted, Refusal> {
        let resv = self.own_reservation(client, id)?;
        let who = self.books.owners[client as usize].name.clone();
        if resv.owner != client {
            self.end(id, Code::Forbidden, &who, "release");
            return Ok(Granted::Released(id));
        }
        for id in [Some(id), resv.twin].into_iter().flatten() {
            self.books.put(id, None);
        }
        let detail = resv_detail(&self.books, &resv);
        self.audit(&who, "release", id.to_string(), None, detail);
        Ok(Granted::Released(id))
    }

    /// A reservation that the client may change: its own, or as an operator anybody's.
    fn own_reservation(&self, client: u32, id: ReservationId) -> Result<Arc<Resv>, Refusal> {
        let Some(resv) = self.books.reservation(id) else {
            return Err(Refusal::new(Code::NotFound, format!("there is no reservation {id}")));
        };
        if resv.owner != client && !matches!(self.role(client), Some("operator" | "admin")) {
            return Err(Refusal::new(Code::NotOwner, format!("reservation {id} is another client's")));
        }
        Ok(resv.clone())
    }

    /// When a life ends that begins now.
    fn end_of(&self, lifetime_ms: u64) -> Result<u64, Refusal> {
        let most = self.settings.most_lifetime_ms;
        if (1..=most).contains(&lifetime_ms) {
            return Ok(self.now_ms().saturating_add(lifetime_ms));
        }
        Err(out_of_range(&format!("a life of {lifetime_ms} ms is not from 1 to {most} ms")))
    }

    fn path_of(&self, way: &Way) -> Result<u64, Refusal> {
        let map = &self.books.map;
        match way {
            Way::Path(path) if map.path(*path).is_some() => Ok(*path),
            Way::Path(path) => Err(Refusal::new(Code::NotFound, format!("there is no path {path}"))),
            Way::Link { node, port } => {
                let missing = || Refusal::new(Code::NoPath, format!("there is no link {node}/{port}"));
                self.link(node, port).map(|link| ONE_LINK | link).ok_or_else(missing)
            }
            Way::Between { from, to } => {
                let path = map.pairs.get(from).and_then(|ends| ends.get(to)).copied();
                let known = |node: &String| map.nodes.contains_key(node);
                path.ok_or_else(|| match [from, to].into_iter().find(|node| !known(node)) {
                    Some(node) => Refusal::new(Code::NoPath, format!("there is no node {node:?}")),
                    None => Refusal::new(Code::NoPath, format!("no path leads from {from} to {to}")),
                })
            }
        }
    }

    fn lane(&mut self, path: u64, class: &str) -> Result<u32, Refusal> {
        let map = self.books.map.clone();
        let Some(row) = map.path(path) else {
            return Err(Refusal::new(Code::NotFound, format!("there is no path {path}")));
        };
        let lane = match self.books.classes.get(class) {
            Some(class) => self.books.lane(&row, class),
            None => row.links.first().map_or(Err(0), |link| Err(*link)),
        };
        lane.map_err(|link| {
            let (link, class) = (map.link_name(link), class.to_owned());
            let message = format!("nothing of link {link} is for class {class:?}");
            Refusal { link, class, ..Refusal::new(Code::BadReference, message) }
        })
    }

    /// The lane of the way back between the ends of a path.
    fn back_lane(&mut self, path: u64, class: &str) -> Result<u32, Refusal> {
        let ends = self.books.map.path(path).map(|row| (row.to_node.clone(), row.from_node.clone()));
        let (from, to) = ends.unwrap_or_default();
        let path = self.path_of(&Way::Between { from, to })?;
        self.lane(path, class)
    }

    /// Whether an owner may have so many reservations and so much more.
    fn check_quota(&self, owner: u32, count: u64, bps: u64) -> Result<(), Refusal> {
        let owner = &self.books.owners[owner as usize];
        let Some(row) = &owner.row else { return Ok(()) };
        if let Some(most) = row.most_count.filter(|most| owner.count + count > *most) {
            let message = format!("{} has {} of {most} reservations", owner.name, owner.count);
            return Err(Refusal::new(Code::Quota, message));
        }
        let Some(most) = row.most_bps.filter(|most| owner.bps.saturating_add(bps) > *most) else {
            return Ok(());
        };
        let free_bps = most.saturating_sub(owner.bps);
        let message = format!("{} may reserve {free_bps} bit/s more of {most} bit/s", owner.name);
        Err(Refusal { asked_bps: bps, free_bps, ..Refusal::new(Code::Quota, message) })
    }

    /// A reservation as whoever asked sees it.
    pub(super) fn held(&self, resv: &Resv) -> Granted {
        let back = resv.twin.and_then(|twin| self.books.reservation(twin));
        Granted::Held(Held {
            id: resv.id,
            twin: resv.twin,
            path: self.books.lanes[resv.lane as usize].path,
            bps: resv.bps,
            back_bps: back.map(|back| back.bps),
            state: resv.state,
            expires_ms: resv.expires_ms,
        })
    }

    /// Ends what has lived its life, as many as a group takes.
    pub(super) fn end_due(&mut self) {
        let now_ms = self.now_ms();
        while self.forming.ended < self.settings.group {
            let first = self.books.by_end().next();
            let Some((_, id)) = first.filter(|(end, _)| *end <= now_ms) else { return };
            self.forming.ended += 1;
            self.end(id, Code::Timeout, super::audit::DOMAIN, "expire");
        }
    }

    /// Tells an owner of its reservation.
    pub(super) fn tell(&mut self, resv: &Resv, told: impl FnOnce(ReservationId, Arc<str>) -> Told) {
        let owner = self.books.owners[resv.owner as usize].name.clone();
        self.forming.tells.push(told(resv.id, owner));
    }
}

/// What can be said of a request by itself.
fn check(request: &Reserve) -> Result<(), Refusal> {
    let key = &request.idem;
    if key.is_empty() || key.len() > MOST_KEY || key.chars().any(char::is_control) {
        return Err(out_of_range("a key has 1 to 255 octets, and no control characters"));
    }
    check_flow(&request.flow)?;
    if [Some(request.bps), request.back_bps].iter().flatten().any(|bps| !RATES.contains(bps)) {
        return Err(out_of_range("a rate is not from 1 to 10¹² bit/s"));
    }
    if request.floor_bps.is_some_and(|floor| !(1..=request.bps).contains(&floor)) {
        return Err(out_of_range("the rate that it may be shrunk to is not from 1 bit/s to its rate"));
    }
    Ok(())
}

/// No database keeps the character 0: it would take along all that is written with it.
fn check_flow(flow: &str) -> Result<(), Refusal> {
    if flow.len() > MOST_FLOW || flow.contains('\0') {
        return Err(out_of_range(
            "the text kept with a reservation has 16,384 octets at most, and no character 0",
        ));
    }
    Ok(())
}

fn out_of_range(message: &str) -> Refusal {
    Refusal::new(Code::OutOfRange, message)
}
