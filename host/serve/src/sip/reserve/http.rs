//! Reservations of a controller by HTTP.
//!
//! A reservation's key is its number here, so whatever is asked twice is done once, and one that an earlier instance has made is
//! found by it. Of one reservation one thing is done after the other; what could not be said to the controller is said again until the
//! reservation's life is over anyway.

mod wire;

use super::super::Event;
use crate::client::{Client, KeptConnection};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use perhop_drive::{RuntimeTimer, Timer};
use perhop_io::clock;
use perhop_sip::quality::{Order, ReservationId};
use perhop_units::{Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::time::Duration as StdDuration;
use tokio::sync::mpsc;
use wire::{Done, Known, Wire, carry_out};

/// Requests at the same time, each by a connection of its own.
const AT_ONCE: usize = 32;
/// Reservations whose turn it is and that wait for a connection; more orders are not taken.
const READY: usize = 4_096;
/// What is to be said again.
const OWED: usize = 65_536;
/// After which time.
const AGAIN: Duration = Duration::from_secs(1);
/// Whoever has not answered by then will not.
const PATIENCE: StdDuration = StdDuration::from_secs(5);

/// A controller.
pub struct HttpTarget {
    /// Where it is, and as whom it is asked.
    pub client: Client,
    /// In words, for the log.
    pub name: String,
    /// How long reservations live without being renewed.
    pub lifetime: Duration,
}

/// A reservation.
#[derive(Default)]
struct Slot {
    /// As the controller knows it.
    known: Option<Known>,
    is_busy: bool,
    queue: VecDeque<Order>,
    /// What could not be said, and since when. Whatever is ordered later takes its place.
    owed: Option<Order>,
    since: Option<Instant>,
}

impl Slot {
    fn is_over(&self) -> bool {
        self.known.is_none() && !self.is_busy && self.queue.is_empty() && self.owed.is_none()
    }
}

struct Http {
    client: Client,
    name: String,
    lifetime: Duration,
    events: mpsc::Sender<Event>,
    slots: HashMap<ReservationId, Slot>,
    ready: VecDeque<ReservationId>,
    owed: VecDeque<ReservationId>,
    /// When what is owed is said again.
    again: Instant,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
    idle: Vec<KeptConnection>,
    /// The controller has answered last time.
    is_there: bool,
}

/// Takes orders until there will be no more.
pub(super) async fn run(target: HttpTarget, mut orders: mpsc::Receiver<Order>, events: mpsc::Sender<Event>) {
    let mut http = Http {
        client: target.client.waiting(PATIENCE),
        name: target.name,
        lifetime: target.lifetime,
        events,
        slots: HashMap::new(),
        ready: VecDeque::new(),
        owed: VecDeque::new(),
        again: Instant::FAR_FUTURE,
        running: FuturesUnordered::new(),
        idle: Vec::new(),
        is_there: true,
    };
    let mut is_open = true;
    while is_open || !http.running.is_empty() || !http.ready.is_empty() {
        tokio::select! {
            order = orders.recv(), if is_open && http.ready.len() < READY => match order {
                Some(order) => http.take(order),
                None => is_open = false,
            },
            Some(done) = http.running.next() => http.done(done).await,
            () = RuntimeTimer.until(http.again) => http.say_again(),
        }
        http.go_on();
    }
}

fn id_of(order: &Order) -> ReservationId {
    match order {
        Order::Reserve(id, ..) | Order::Change(id, ..) | Order::Renew(id, _) | Order::Release(id, _) => *id,
    }
}

impl Http {
    fn take(&mut self, order: Order) {
        let id = id_of(&order);
        let slot = self.slots.entry(id).or_default();
        (slot.owed, slot.since) = (None, None);
        slot.queue.push_back(order);
        if !slot.is_busy && slot.queue.len() == 1 {
            self.ready.push_back(id);
        }
    }

    /// Begins what may begin.
    fn go_on(&mut self) {
        while self.running.len() < AT_ONCE
            && let Some(id) = self.ready.pop_front()
        {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            let Some(order) = slot.queue.pop_front() else { continue };
            slot.is_busy = true;
            let wire = Wire::new(self.client.clone(), self.idle.pop());
            self.running.push(Box::pin(carry_out(wire, order, slot.known.clone())));
        }
    }

    async fn done(&mut self, done: Done) {
        let Done { order, connection, known, events, failed, is_said } = done;
        self.idle.extend(connection);
        let id = id_of(&order);
        for event in events {
            let _ = self.events.send(event).await;
        }
        if self.is_there != failed.is_none() {
            self.is_there = failed.is_none();
            let _ = self.events.send(Event::Reach(self.name.clone(), failed.clone())).await;
        }
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.known = known;
        slot.is_busy = false;
        if !slot.queue.is_empty() {
            self.ready.push_back(id);
        } else if failed.is_some() {
            self.owe(id, order, is_said);
        }
        if self.slots.get(&id).is_some_and(Slot::is_over) {
            self.slots.remove(&id);
        }
    }

    /// What was to be done could not be said, or nobody knows what has become of it.
    fn owe(&mut self, id: ReservationId, order: Order, is_said: bool) {
        let now = clock::monotonic();
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let since = slot.since.unwrap_or(now);
        let order = match order {
            // It counts as refused, and may have been granted all the same.
            Order::Reserve(id, _, request) | Order::Change(id, _, request)
                if is_said && slot.known.is_none() =>
            {
                Order::Release(id, request.er)
            }
            Order::Reserve(..) | Order::Change(..) => return,
            order => order,
        };
        if now.since(since) < self.lifetime && self.owed.len() < OWED {
            slot.since = Some(since);
            slot.owed = Some(order);
            self.owed.push_back(id);
            self.again = self.again.min(now + AGAIN);
        } else {
            slot.known = None;
        }
    }

    /// Says what is owed; to a controller that is away, one thing of it.
    fn say_again(&mut self) {
        let most = if self.is_there { self.owed.len() } else { 1 };
        for id in self.owed.drain(..most.min(self.owed.len())) {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if let Some(order) = slot.owed.take() {
                slot.queue.push_back(order);
                self.ready.push_back(id);
            }
        }
        let next = clock::monotonic() + AGAIN;
        self.again = if self.owed.is_empty() { Instant::FAR_FUTURE } else { next };
    }
}
