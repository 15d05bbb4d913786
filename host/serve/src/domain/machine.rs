//! The ledger with those who wait for its answers, and what it tells of them, as one machine for a driver.

use super::Marks;
use super::known::Known;
use super::lease::LeaseNote;
use super::news::{News, Whole};
use perhop_agent::DomainNews;
use perhop_broker::ledger::{
    AskId, ClientChange, Granted, Input, Ledger, Output, Refusal, Request, Settings, Told,
};
use perhop_broker::nodes::Nodes;
use perhop_broker::record::{Group, ReservationId};
use perhop_broker::topology::Topology;
use perhop_drive::Machine;
use perhop_reason::Code;
use perhop_units::Instant;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{broadcast, oneshot};

type Answer = oneshot::Sender<Result<Granted, Refusal>>;

/// What the machine is told.
pub(super) enum Question {
    Ledger(Input),
    Ask { client: String, request: Request, done: Answer },
    Turn { client: String, done: oneshot::Sender<Result<(), Refusal>> },
    Why { client: String, request: Request, done: oneshot::Sender<Result<(), Refusal>> },
    Topology { who: String, topology: Arc<Topology>, done: Answer },
    Client { who: String, change: ClientChange, done: Answer },
    Marks(Marks),
    Configure(Settings),
    Look(Box<dyn FnOnce(&Ledger) + Send>),
    Follow { node: String, done: oneshot::Sender<(Whole, broadcast::Receiver<Arc<News>>)> },
    News(oneshot::Sender<broadcast::Receiver<Arc<News>>>),
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}

/// What it wants done.
#[derive(Debug)]
pub(super) enum Wish {
    Write(Group),
}

/// See the module.
pub(super) struct Books {
    ledger: Ledger,
    now: Instant,
    waiting: HashMap<AskId, (Answer, Changes)>,
    last: AskId,
    nodes: Nodes,
    /// Leases, and the last question about each.
    leases: HashMap<ReservationId, LeaseNote>,
    /// Those that were given back with the last input. Who has lost one to an operator is told of it behind the answer.
    released: Vec<ReservationId>,
    news: broadcast::Sender<Arc<News>>,
    known: Arc<RwLock<Known>>,
}

/// What an answer changes besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    Reservation,
    Clients,
}

impl Books {
    pub(super) fn new(
        ledger: Ledger,
        now: Instant,
        marks: Marks,
        news: broadcast::Sender<Arc<News>>,
        known: Arc<RwLock<Known>>,
    ) -> Self {
        let nodes = Nodes::new(&ledger, marks);
        let leases = ledger.each().filter_map(|row| Some((row.id, LeaseNote::of(&row)?))).collect();
        let books = Self {
            ledger,
            now,
            waiting: HashMap::new(),
            last: 0,
            nodes,
            leases,
            released: Vec::new(),
            news,
            known,
        };
        books.learn_clients();
        books
    }

    fn learn_clients(&self) {
        let known = Known::of(self.ledger.clients(), self.ledger.nodes());
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        self.tell(News::Clients);
    }

    fn wait(&mut self, done: Answer, changes: Changes) -> AskId {
        self.last += 1;
        self.waiting.insert(self.last, (done, changes));
        self.last
    }

    fn tell(&self, news: News) {
        // Without anybody who listens nothing is told.
        let _ = self.news.send(Arc::new(news));
    }

    /// Tells the nodes what has become of what they have.
    fn tell_nodes(&mut self) {
        while let Some((node, news)) = self.nodes.poll_news() {
            self.tell(News::Node { node, news });
        }
    }

    fn answered(&mut self, ask: AskId, result: Result<Granted, Refusal>) {
        let Some((done, changes)) = self.waiting.remove(&ask) else { return };
        if let Ok(granted) = &result {
            self.nodes.answered(&self.ledger, self.now, granted);
            self.tell_nodes();
        }
        match &result {
            Ok(Granted::Held(held)) => {
                let row = self.ledger.reservation(held.id);
                self.leases.extend(row.and_then(|row| Some((row.id, LeaseNote::of(&row)?))));
            }
            Ok(Granted::Released(id)) => self.released.push(*id),
            Ok(Granted::Taken) if changes == Changes::Clients => self.learn_clients(),
            Ok(Granted::Taken) | Err(_) => {}
        }
        // Who has gone away is not answered.
        let _ = done.send(result);
    }

    /// Tells the holder of a lease what it still has, if it is one.
    fn tell_lease(&self, id: ReservationId, bps: u64) {
        let Some(LeaseNote { node, name, number }) = self.leases.get(&id).cloned() else { return };
        let news = DomainNews::Lease { name, number, bps };
        self.tell(News::Node { node: node.into(), news });
    }

    fn told(&mut self, told: Told) {
        self.nodes.told(&self.ledger, self.now, &told);
        self.tell_nodes();
        match &told {
            Told::Gone { id, .. } => {
                self.tell_lease(*id, 0);
                self.leases.remove(id);
            }
            Told::Shrunk { id, bps, .. } => self.tell_lease(*id, *bps),
            Told::Share { .. } | Told::Short { .. } => {}
        }
        self.tell(News::Told(told));
    }

    fn whole(&self, node: &str) -> Whole {
        let exists = self.ledger.node(node).is_some();
        Whole { exists, news: self.nodes.whole(&self.ledger, self.now, node) }
    }
}

impl Machine for Books {
    type Input = Question;
    type Output = Wish;

    fn handle_input(&mut self, now: Instant, question: Question) {
        self.now = self.now.max(now);
        for id in self.released.drain(..) {
            self.leases.remove(&id);
        }
        let input = match question {
            Question::Ledger(input) => {
                // What was decided meanwhile is undone: who followed it begins again.
                if matches!(input, Input::Failed { .. } | Input::Replaced) {
                    self.ledger.handle_input(now, input);
                    return self.tell(News::Anew);
                }
                input
            }
            Question::Ask { client, request, done } => {
                let ask = self.wait(done, Changes::Reservation);
                Input::Ask { ask, client, request }
            }
            Question::Topology { who, topology, done } => {
                let ask = self.wait(done, Changes::Clients);
                Input::Topology { ask, who, topology }
            }
            Question::Client { who, change, done } => {
                let ask = self.wait(done, Changes::Clients);
                Input::Client { ask, who, change }
            }
            Question::Turn { client, done } => {
                return drop(done.send(self.ledger.take_turn(now, &client)));
            }
            Question::Why { client, request, done } => {
                self.ledger.handle_input(now, Input::Wake);
                return drop(done.send(self.ledger.why(&client, &request)));
            }
            Question::Marks(marks) => {
                if self.nodes.set_marks(marks) {
                    self.tell(News::Anew);
                }
                return;
            }
            Question::Configure(settings) => return self.ledger.configure(settings),
            Question::Look(look) => return look(&self.ledger),
            Question::Follow { node, done } => {
                return drop(done.send((self.whole(&node), self.news.subscribe())));
            }
            Question::News(done) => return drop(done.send(self.news.subscribe())),
        };
        self.ledger.handle_input(now, input);
    }

    fn poll_output(&mut self) -> Option<Wish> {
        loop {
            match self.ledger.poll_output()? {
                Output::Write(group) => return Some(Wish::Write(group)),
                Output::Answer { ask, result } => self.answered(ask, result),
                Output::Tell(told) => self.told(told),
            }
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.ledger.next_wakeup()
    }

    fn tick() -> Question {
        Question::Ledger(Input::Wake)
    }

    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.ledger.is_over()
    }
}

/// What a code that a database gives means to the ledger.
pub(super) fn failed(number: u64, code: Code, retry_after_ms: Option<u64>) -> Input {
    let retry_after_ms = retry_after_ms.unwrap_or(1_000);
    Input::Failed { number, code, retry_after_ms: u32::try_from(retry_after_ms).unwrap_or(u32::MAX) }
}
