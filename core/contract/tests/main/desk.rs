//! A router without a data plane: its control half, a planner that writes down what it was asked to plan, and a hand
//! that reports changes as applied when told to.

use perhop_contract::{Control, Draft, Draining, GraphRequest, Input, Limits, Output, Planner};
use perhop_model::{
    Credentials, ErrorItem, Given, Key, Kind, Name, Op, Outcome, Owner, Reply, StateQuery, Transaction, TxnId,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the planner was asked to plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Changed objects; `false` = removed.
    pub changed: Vec<(Key, bool)>,
    /// Classes to drain.
    pub draining: Vec<Draining>,
    /// New graph.
    pub graph: Option<GraphRequest>,
}

/// Plans nothing, remembers everything, refuses on demand.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Given by every check while not empty.
    pub refuse: RefCell<Vec<ErrorItem>>,
}

impl Planner for Recorder {
    type Change = Plan;

    fn check(&self, _draft: &Draft<'_>, _graph: Option<&GraphRequest>) -> Vec<ErrorItem> {
        self.refuse.borrow().clone()
    }

    fn plan(
        &mut self,
        _now: Instant,
        draft: &Draft<'_>,
        draining: &[Draining],
        graph: Option<&GraphRequest>,
    ) -> Plan {
        Plan {
            changed: draft.changes().iter().map(|(k, e)| (k.clone(), e.is_some())).collect(),
            draining: draining.to_vec(),
            graph: graph.cloned(),
        }
    }
}

/// The router and its clock.
pub struct Desk {
    pub control: Control<Recorder>,
    pub now: Instant,
    /// Changes that no worker has applied yet.
    pub open: VecDeque<(u64, Plan)>,
    /// Every change that was ever sent to the workers.
    pub plans: Vec<Plan>,
    pub replies: BTreeMap<u64, Arc<Reply>>,
    next_request: u64,
    next_txn: u128,
}

impl Desk {
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self {
            control: Control::new(7, Recorder::default(), limits),
            now: Instant::ZERO + Duration::from_secs(1),
            open: VecDeque::new(),
            plans: Vec::new(),
            replies: BTreeMap::new(),
            next_request: 1,
            next_txn: 1,
        }
    }

    /// A desk with port `wan` (10 Mbit/s) and its classes `wan/voice` (2 Mbit/s, EF) and `wan/rest` (default), all of
    /// the owner `file`.
    pub fn furnished() -> Self {
        let mut desk = Self::new();
        let ops = vec![
            put(Kind::Port, "wan", json!({"rate": 10_000_000})),
            put(
                Kind::Class,
                "wan/voice",
                json!({"port": "wan", "guarantee": {"rate": 2_000_000}, "dscp": [46]}),
            ),
            put(Kind::Class, "wan/rest", json!({"port": "wan", "default": true})),
        ];
        desk.commit(Owner::File, ops);
        desk
    }

    /// A transaction with an id of its own.
    pub fn txn(&mut self, owner: Owner, ops: Vec<Op>) -> Transaction {
        let txn_id = TxnId(self.next_txn.to_be_bytes());
        self.next_txn += 1;
        Transaction::new(txn_id, owner, ops)
    }

    fn poll(&mut self) {
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Apply { ticket, change } => {
                    self.plans.push(change.clone());
                    self.open.push_back((ticket, change));
                }
                Output::Reply { request, reply } => {
                    assert!(
                        self.replies.insert(request, reply).is_none(),
                        "request {request} answered twice"
                    );
                }
            }
        }
        assert!(self.open.len() <= 1, "two changes on their way at once");
    }

    /// Hands a transaction in; the answer may come later.
    pub fn ask_as(&mut self, who: Credentials, t: Transaction) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        self.feed(Input::Request { request, who, transaction: Box::new(t) });
        request
    }

    pub fn ask(&mut self, t: Transaction) -> u64 {
        self.ask_as(Credentials::ADMIN, t)
    }

    pub fn feed(&mut self, input: Input) {
        self.control.handle_input(self.now, input);
        self.poll();
    }

    /// The workers have applied what is open.
    pub fn applied(&mut self) {
        while let Some((ticket, _)) = self.open.pop_front() {
            self.feed(Input::Applied { ticket });
        }
    }

    /// Hands in, applies, answers.
    pub fn run_as(&mut self, who: Credentials, t: Transaction) -> Arc<Reply> {
        let request = self.ask_as(who, t);
        self.applied();
        self.replies.get(&request).cloned().expect("everything asked is answered")
    }

    pub fn run(&mut self, t: Transaction) -> Arc<Reply> {
        self.run_as(Credentials::ADMIN, t)
    }

    /// Runs `ops` of `owner` without any power of an admin.
    pub fn try_ops(&mut self, owner: Owner, ops: Vec<Op>) -> Arc<Reply> {
        let t = self.txn(owner, ops);
        self.run_as(Credentials::writer(t.owner.clone()), t)
    }

    /// [`Desk::try_ops`] that must succeed.
    pub fn commit(&mut self, owner: Owner, ops: Vec<Op>) -> Arc<Reply> {
        let reply = self.try_ops(owner, ops);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
        reply
    }

    /// [`Desk::try_ops`] that must be rejected, leave the state as it was byte for byte, and send nothing to the
    /// workers. Gives the codes with their operation and path.
    pub fn refused(&mut self, owner: Owner, ops: Vec<Op>) -> Vec<(Option<usize>, Code, String)> {
        let t = self.txn(owner, ops);
        let who = Credentials::writer(t.owner.clone());
        self.refused_as(who, t)
    }

    pub fn refused_as(&mut self, who: Credentials, t: Transaction) -> Vec<(Option<usize>, Code, String)> {
        let (before, plans) = (self.state_bytes(), self.plans.len());
        let reply = self.run_as(who, t);
        assert_eq!(reply.outcome, Outcome::Rejected);
        assert!(reply.ops.is_empty());
        assert_eq!(self.state_bytes(), before, "a rejected transaction left a trace");
        assert_eq!(self.plans.len(), plans);
        reply.errors.iter().map(|e| (e.op, e.code, e.path.clone())).collect()
    }

    /// Moves the clock and lets the router see it; what it then sends is applied.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.feed(Input::Tick);
        self.applied();
    }

    /// Sleeps like a driver: wakes exactly when the router wants to be woken.
    pub fn sleep_until(&mut self, end: Instant) {
        while let Some(at) = self.control.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.feed(Input::Tick);
            self.applied();
        }
        self.now = end;
    }

    pub fn state_bytes(&mut self) -> Vec<u8> {
        let page = self.control.state(&StateQuery::default()).expect("a first page");
        serde_json::to_vec(&page).expect("plain data")
    }

    /// `(kind, name)` of the active objects of `owner`, or of all.
    pub fn names(&self, owner: Option<&Owner>) -> Vec<String> {
        let mine = self.control.objects().iter().filter(|(_, e)| owner.is_none_or(|o| *o == e.owner));
        mine.map(|(k, _)| format!("{}:{}", k.kind, k.name)).collect()
    }

    pub fn spec(&self, kind: Kind, name: &str) -> Value {
        serde_json::to_value(&*self.control.objects()[&key(kind, name)].spec).expect("plain data")
    }
}

pub fn n(name: &str) -> Name {
    Name::new(name).expect("a good name")
}

pub fn key(kind: Kind, name: &str) -> Key {
    Key { kind, name: n(name) }
}

pub fn api(client: &str) -> Owner {
    Owner::Api(n(client))
}

pub fn put(kind: Kind, name: &str, spec: Value) -> Op {
    Op::put(Given::read(kind, n(name), spec, None))
}

pub fn soft(kind: Kind, name: &str, spec: Value, ttl_ms: u64) -> Op {
    Op::put(Given::read(kind, n(name), spec, Some(ttl_ms)))
}

pub fn patch(kind: Kind, name: &str, fields: Value) -> Op {
    Op::Patch { kind, name: n(name), fields, if_version: None }
}

pub fn delete(kind: Kind, name: &str) -> Op {
    Op::Delete { kind, name: n(name), if_version: None, drain_ms: None }
}

pub fn filter(class: &str, priority: u32) -> Value {
    json!({"priority": priority, "class": class})
}
