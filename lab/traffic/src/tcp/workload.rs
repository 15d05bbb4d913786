//! The machine behind all TCP workloads: slots, each with one job at a time on one connection.

use crate::error::TrafficError;
use crate::random::{Generator, Seed};
use crate::tcp::files::{FilesConfig, FilesPlan};
use crate::tcp::job::{Exchange, Job};
use crate::tcp::live::{Live, Sending};
use crate::tcp::record::{ConnRecord, TcpCounters};
use crate::tcp::transfers::{TransfersConfig, TransfersPlan};
use crate::tcp::web::{WebConfig, WebPlan};
use crate::tcp::{AppAction, AppEvent, ConnId, Side, TcpApplication};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most connections that one application opens in a run; a slot that would open one more ends.
pub const MAX_CONNECTIONS: usize = 1 << 20;
/// A workload over TCP: bulk transfers, a client that transfers files, or web users.
#[derive(Clone, Debug)]
pub struct TcpWorkload {
    plan: Plan,
    back_off: Duration,
    patience: Option<Duration>,
    stop: Instant,
    stopped: bool,
    slots: Vec<Slot>,
    /// The due time of every slot that waits for one.
    timers: BTreeSet<(Instant, u16)>,
    live: BTreeMap<ConnId, Live>,
    actions: VecDeque<AppAction>,
    /// When the actions were decided.
    decided: Instant,
    records: Vec<ConnRecord>,
    counters: TcpCounters,
}

impl TcpWorkload {
    /// Bulk transfers in a run that begins at `begin`.
    ///
    /// # Errors
    /// A parameter out of range, or a stop before the start.
    pub fn transfers(config: TransfersConfig, seed: Seed, begin: Instant) -> Result<Self, TrafficError> {
        config.check()?;
        let seeds = (seed, config.group, config.transfers);
        let times = (begin + config.start, begin + config.stop, config.back_off);
        Ok(Self::new(Plan::Transfers(TransfersPlan::new(config)), seeds, times, None))
    }

    /// A client that transfers files in a run that begins at `begin`.
    ///
    /// # Errors
    /// A parameter out of range, or a stop before the start.
    pub fn files(config: FilesConfig, seed: Seed, begin: Instant) -> Result<Self, TrafficError> {
        config.check()?;
        let seeds = (seed, config.group, config.parallel);
        let times = (begin + config.start, begin + config.stop, config.back_off);
        Ok(Self::new(Plan::Files(FilesPlan::new(config)), seeds, times, None))
    }

    /// Web users in a run that begins at `begin`.
    ///
    /// # Errors
    /// A parameter out of range, or a stop before the start.
    pub fn web(config: WebConfig, seed: Seed, begin: Instant) -> Result<Self, TrafficError> {
        config.check()?;
        let seeds = (seed, config.group, config.users);
        let times = (begin + config.start, begin + config.stop, config.back_off);
        Ok(Self::new(Plan::Web(WebPlan::new(config)), seeds, times, config.patience))
    }

    fn new(
        plan: Plan,
        (seed, group, slots): (Seed, u16, u16),
        (start, stop, back_off): (Instant, Instant, Duration),
        patience: Option<Duration>,
    ) -> Self {
        let slots = (0..slots)
            .map(|i| Slot {
                generator: seed.member(group, i),
                job: None,
                conn: None,
                timer: None,
                retry: false,
            })
            .collect();
        let mut workload = Self {
            plan,
            back_off,
            patience,
            stop,
            stopped: false,
            slots,
            timers: BTreeSet::new(),
            live: BTreeMap::new(),
            actions: VecDeque::new(),
            decided: start,
            records: Vec::new(),
            counters: TcpCounters::default(),
        };
        for i in 0..workload.slots.len() {
            if let Some(wait) = workload.next_job(i as u16) {
                workload.set_timer(i as u16, Some((start + wait, Timer::Begin)));
            }
        }
        workload
    }
}

impl TcpApplication for TcpWorkload {
    fn handle(&mut self, now: Instant, event: AppEvent) {
        debug_assert!(self.actions.is_empty(), "take all actions before the next event");
        self.decided = now;
        if !self.stopped && now >= self.stop {
            self.cut(now);
        }
        let conn = event.conn();
        if conn.0 as usize >= self.records.len() {
            self.counters.stray += 1;
            return;
        }
        // What comes late from a connection that was aborted or has ended is no news.
        if !self.live.contains_key(&conn) {
            return;
        }
        match event {
            AppEvent::Opened { .. } => self.request(conn),
            AppEvent::Accepted { .. } => self.respond(conn),
            AppEvent::Received { side, bytes, .. } => self.received(now, conn, side, bytes),
            AppEvent::PeerClosed { side, .. } => self.peer_closed(now, conn, side),
            AppEvent::Ended { .. } | AppEvent::Failed { .. } => {
                if self.live.remove(&conn).is_some_and(|live| !live.done) {
                    self.fail(now, conn);
                }
            }
        }
    }

    fn poll(&mut self, now: Instant) -> Option<AppAction> {
        if !self.stopped {
            if now >= self.stop {
                self.cut(now);
            } else {
                self.fire(now);
            }
        }
        self.actions.pop_front()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if !self.actions.is_empty() {
            return Some(self.decided);
        }
        if self.finished() {
            return None;
        }
        let timer = self.timers.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
        Some(timer.min(self.stop)).filter(|at| *at != Instant::FAR_FUTURE)
    }

    fn records(&self) -> &[ConnRecord] {
        &self.records
    }

    fn counters(&self) -> TcpCounters {
        self.counters
    }

    fn finished(&self) -> bool {
        self.actions.is_empty()
            && (self.stopped || self.timers.is_empty() && self.slots.iter().all(|slot| slot.conn.is_none()))
    }
}

#[derive(Clone, Debug)]
enum Plan {
    Transfers(TransfersPlan),
    Files(FilesPlan),
    Web(WebPlan),
}

#[derive(Clone, Debug)]
struct Slot {
    generator: Generator,
    job: Option<Job>,
    conn: Option<ConnId>,
    timer: Option<(Instant, Timer)>,
    /// The job has failed before.
    retry: bool,
}

/// What a slot's timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// The job begins.
    Begin,
    /// The user loses patience.
    GiveUp,
}

impl TcpWorkload {
    /// Takes a slot's next job from the plan and gives its wait; `None` ends the slot.
    fn next_job(&mut self, number: u16) -> Option<Duration> {
        let slot = self.slots.get_mut(usize::from(number))?;
        slot.retry = false;
        slot.job = match &mut self.plan {
            Plan::Transfers(plan) => plan.job(number, &mut slot.generator),
            Plan::Files(plan) => plan.job(number, &mut slot.generator),
            Plan::Web(plan) => plan.job(number, &mut slot.generator),
        };
        slot.job.map(|job| job.wait)
    }

    fn set_timer(&mut self, number: u16, timer: Option<(Instant, Timer)>) {
        let Some(slot) = self.slots.get_mut(usize::from(number)) else { return };
        if let Some((at, _)) = std::mem::replace(&mut slot.timer, timer) {
            self.timers.remove(&(at, number));
        }
        if let Some((at, _)) = timer {
            self.timers.insert((at, number));
        }
    }

    /// Serves timers that are due. None of them sets one that is due again, so this ends.
    fn fire(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.timers.first() {
            if at > now {
                return;
            }
            self.decided = now;
            let timer = self.slots.get(usize::from(number)).and_then(|slot| slot.timer);
            self.set_timer(number, None);
            match timer {
                Some((_, Timer::GiveUp)) => {
                    let conn = self.slots.get(usize::from(number)).and_then(|slot| slot.conn);
                    if let Some(conn) = conn {
                        self.counters.given_up += 1;
                        self.abort(conn);
                        self.fail(now, conn);
                    }
                }
                _ => self.begin(now, number),
            }
        }
    }

    /// Begins a slot's job on the connection that it has, or on a new one.
    fn begin(&mut self, now: Instant, number: u16) {
        let Some(slot) = self.slots.get_mut(usize::from(number)) else { return };
        let Some(job) = slot.job else { return };
        let patience = self.patience.map(|patience| (now + patience, Timer::GiveUp));
        if let Some(conn) = slot.conn {
            self.live.insert(conn, Live::new(number, job.exchange));
            self.set_timer(number, patience);
            self.request(conn);
            return;
        }
        if self.records.len() >= MAX_CONNECTIONS {
            self.counters.limit_hits += 1;
            slot.job = None;
            return;
        }
        let conn = ConnId(self.records.len() as u32);
        slot.conn = Some(conn);
        self.counters.retries += u64::from(slot.retry);
        self.counters.opened += 1;
        self.records.push(ConnRecord::new(number, now));
        self.live.insert(conn, Live::new(number, job.exchange));
        self.actions.push_back(AppAction::Open { conn });
        self.set_timer(number, patience);
    }

    /// The client sends its bytes, once.
    fn request(&mut self, conn: ConnId) {
        if let Some(sending) = self.live.get_mut(&conn).and_then(Live::request) {
            self.send(conn, Side::Client, sending);
        }
    }

    /// The server sends its bytes, once, if it need not wait for the client's.
    fn respond(&mut self, conn: ConnId) {
        if let Some(sending) = self.live.get_mut(&conn).and_then(Live::response) {
            self.send(conn, Side::Server, sending);
        }
    }

    fn received(&mut self, now: Instant, conn: ConnId, side: Side, bytes: u64) {
        let Some(live) = self.live.get_mut(&conn).filter(|live| !live.done && bytes > 0) else { return };
        let reading = live.read(side, bytes);
        if let Some(record) = self.records.get_mut(conn.0 as usize).filter(|_| reading.is_data) {
            record.bytes = record.bytes.saturating_add(bytes);
            record.first_byte.get_or_insert(now);
        }
        self.send(conn, side.peer(), Sending { bytes: reading.replaced, closes: false });
        if reading.whole && reading.is_data {
            self.complete(now, conn);
        } else if reading.whole {
            self.respond(conn);
        }
    }

    /// All bytes of an exchange have arrived: the slot goes on, on this connection or another.
    fn complete(&mut self, now: Instant, conn: ConnId) {
        let Some(&Live { slot: number, exchange, .. }) = self.live.get(&conn) else { return };
        self.counters.completed += 1;
        let page_ends =
            self.slots.get(usize::from(number)).and_then(|slot| slot.job).is_some_and(|job| job.page_ends);
        self.counters.pages += u64::from(page_ends);
        self.set_timer(number, None);
        let wait = self.next_job(number);
        let reuse =
            self.slots.get(usize::from(number)).and_then(|slot| slot.job).is_some_and(|job| job.reuse);
        if !reuse {
            self.release(now, conn, number, exchange);
        }
        match wait {
            Some(Duration::ZERO) => self.begin(now, number),
            Some(wait) => self.set_timer(number, Some((now + wait, Timer::Begin))),
            None => {}
        }
    }

    /// The slot is through with a connection whose exchanges are complete.
    fn release(&mut self, now: Instant, conn: ConnId, number: u16, exchange: Exchange) {
        if let Some(live) = self.live.get_mut(&conn) {
            live.done = true;
        }
        if let Some(record) = self.records.get_mut(conn.0 as usize) {
            record.ended = Some(now);
        }
        if let Some(slot) = self.slots.get_mut(usize::from(number)) {
            slot.conn = None;
        }
        // The reader answers the sender's close; without one the client closes first.
        let closes = if exchange.sender_closes { exchange.reader() } else { Side::Client };
        self.close(conn, closes);
    }

    fn peer_closed(&mut self, now: Instant, conn: ConnId, side: Side) {
        if self.live.get(&conn).is_some_and(|live| live.done) {
            self.close(conn, side);
        } else {
            self.abort(conn);
            self.fail(now, conn);
        }
    }

    /// A connection is lost before its exchange was complete: its slot tries again after the back-off.
    fn fail(&mut self, now: Instant, conn: ConnId) {
        self.counters.failed += 1;
        let Some(record) = self.records.get_mut(conn.0 as usize) else { return };
        record.failed = true;
        record.ended = Some(now);
        let number = record.user;
        if let Some(slot) = self.slots.get_mut(usize::from(number)) {
            slot.conn = None;
            slot.retry = true;
        }
        self.set_timer(number, Some((now + self.back_off, Timer::Begin)));
    }

    /// The stop: connections whose exchange is not complete are cut, nothing begins any more.
    fn cut(&mut self, now: Instant) {
        self.stopped = true;
        self.decided = now;
        self.timers.clear();
        let open: Vec<ConnId> =
            self.live.iter().filter(|(_, live)| !live.done).map(|(conn, _)| *conn).collect();
        for conn in open {
            self.abort(conn);
            self.counters.cut += 1;
            if let Some(record) = self.records.get_mut(conn.0 as usize) {
                record.cut = true;
                record.ended = Some(now);
            }
        }
        for slot in &mut self.slots {
            (slot.conn, slot.timer, slot.job) = (None, None, None);
        }
    }

    fn send(&mut self, conn: ConnId, side: Side, sending: Sending) {
        let Sending { bytes, closes } = sending;
        if bytes > 0 {
            self.actions.push_back(AppAction::Write { conn, side, bytes });
        }
        if closes {
            self.close(conn, side);
        }
    }

    fn close(&mut self, conn: ConnId, side: Side) {
        if self.live.get_mut(&conn).is_some_and(|live| live.close(side)) {
            self.actions.push_back(AppAction::Close { conn, side });
        }
    }

    fn abort(&mut self, conn: ConnId) {
        self.live.remove(&conn);
        self.actions.push_back(AppAction::Abort { conn });
    }
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
