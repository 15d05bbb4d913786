//! Those who reserve for calls: each is a task that takes orders and brings answers.

mod cops;
mod http;

pub use cops::{CopsName, CopsTarget};
pub use http::HttpTarget;

use super::Event;
use super::settings::Reserving;
use perhop_reason::Code;
use perhop_sip::quality::{Order, Request, ReservationId};
use std::collections::{HashMap, HashSet};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Orders that wait for one who reserves.
const WAITING: usize = 16_384;

/// Somebody who reserves.
pub enum Target {
    /// A controller, by HTTP.
    Http(HttpTarget),
    /// A controller, or an agent beside its router, by COPS-DRA.
    Cops(CopsTarget),
}

/// The answer to an order that nobody need be asked for.
pub(super) type AtOnce = (ReservationId, u32, Result<(), Code>);

/// All who reserve, and who is asked for what.
pub(super) struct Reservers {
    all: Vec<mpsc::Sender<Order>>,
    edges: HashMap<String, usize>,
    others: Option<usize>,
    /// Calls within one edge router's network: nothing has to be reserved for them.
    within: HashSet<ReservationId>,
    tasks: JoinSet<()>,
    /// Orders for which there was no room.
    pub(super) lost: u64,
}

impl Reservers {
    pub(super) fn start(reserving: Reserving, events: &mpsc::Sender<Event>, seed: u64) -> Self {
        let mut tasks = JoinSet::new();
        let start = |target| {
            let (sender, orders) = mpsc::channel(WAITING);
            match target {
                Target::Http(target) => tasks.spawn(http::run(target, orders, events.clone())),
                Target::Cops(target) => tasks.spawn(cops::run(target, orders, events.clone(), seed)),
            };
            sender
        };
        let all = reserving.targets.into_iter().map(start).collect();
        let Reserving { edges, others, .. } = reserving;
        Self { all, edges, others, within: HashSet::new(), tasks, lost: 0 }
    }

    /// Passes an order on.
    pub(super) fn offer(&mut self, order: Order) -> Option<AtOnce> {
        let (id, serial) = match &order {
            Order::Reserve(id, serial, request) | Order::Change(id, serial, request) => {
                let at_once = |answer| Some((*id, *serial, answer));
                match request.to() {
                    None => return at_once(Err(Code::NoPath)),
                    Some(to) if to == request.from => {
                        // What there was before the phone moved here is of no use any more.
                        if self.within.insert(*id) && matches!(order, Order::Change(..)) {
                            let _ = self.put(&request.er, Order::Release(*id, request.er.clone()));
                        }
                        return at_once(Ok(()));
                    }
                    Some(_) => drop(self.within.remove(id)),
                }
                (*id, Some((*serial, request)))
            }
            Order::Renew(id, _) if self.within.contains(id) => return None,
            Order::Release(id, _) if self.within.remove(id) => return None,
            Order::Renew(id, _) | Order::Release(id, _) => (*id, None),
        };
        let er = match &order {
            Order::Release(_, er) => er.clone(),
            Order::Reserve(.., Request { er, .. })
            | Order::Change(.., Request { er, .. })
            | Order::Renew(_, Request { er, .. }) => er.clone(),
        };
        let serial = serial.map(|(serial, _)| serial);
        let is_release = matches!(order, Order::Release(..));
        if is_release && !self.edges.contains_key(&er) {
            // Of a call of an earlier instance it is not always known who has it.
            for at in 0..self.all.len() {
                let _ = self.send(at, order.clone());
            }
            return None;
        }
        match (self.put(&er, order), serial) {
            (Err(code), Some(serial)) => Some((id, serial, Err(code))),
            _ => None,
        }
    }

    fn put(&mut self, er: &str, order: Order) -> Result<(), Code> {
        let at = self.edges.get(er).copied().or(self.others).ok_or(Code::NoPath)?;
        self.send(at, order)
    }

    fn send(&mut self, at: usize, order: Order) -> Result<(), Code> {
        self.all[at].try_send(order).map_err(|_| {
            self.lost += 1;
            Code::Overload
        })
    }

    /// Nothing more is ordered: waits until what was is carried out.
    pub(super) async fn end(mut self) {
        self.all.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}
