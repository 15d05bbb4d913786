//! A router's contract over the kernel's own traffic control: reservations where the kernel forwards.
//!
//! ```text
//!   root 7ca0: (HTB, counts from the IP header on)
//!    └ 1 the link
//!       ├ 10, 11, … a class each: its guarantee, up to the link
//!       │    ├ 20, 21, … packets of its code point
//!       │    └ 100 … fffe a flow each: its rate, up to its peak
//!       └ 2 what has no class
//! ```
//!
//! [`KernelShaper`] is one more engine: it owns a [`Control`], whose changes become netlink messages, and is asked through the same
//! [`Handle`]. A flow's profile is a class of HTB that lets it have its rate and no more; its filters are rules of u32 in hash tables;
//! an aggregate is another rate of its class. What the kernel refuses is taken back, in the kernel and in the contract, and refused.
//!
//! An interface with somebody else's discipline at its root is left alone. At the end the root goes, and everything below it.

mod books;
mod error;
mod planner;
mod rules;
mod start;
#[cfg(test)]
mod tests;

pub use error::ShaperError;

use crate::control_thread::{FILE, claim_refused, new_txn_id};
use crate::handle::Handle;
use crate::inlet::Inlet;
use books::{Books, FLOWS, Failure};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use perhop_contract::{Control, Entry, Input, Limits, Output};
use perhop_io::clock;
use perhop_model::{
    Call, Credentials, ErrorItem, Given, Key, Kind, Name, Object, Op, Outcome, Owner, Reloaded, Reply,
    Transaction,
};
use perhop_netlink::Namespace;
use perhop_reason::Code;
use perhop_units::{Dscp, Instant, Rate};
use planner::{Change, KernelPlanner};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Requests that wait.
const INLET: usize = 1_024;
/// Longest sleep.
const NAP: Duration = Duration::from_secs(3_600);
/// Name of the class of what has none.
const REST: &str = "rest";

/// A class of the interface.
#[derive(Clone, Debug)]
pub struct ShapedClass {
    /// Logical class. `rest` is taken.
    pub name: Name,
    /// What it has whatever others do; what flows reserve in it is at most this.
    pub guarantee: Rate,
    /// Packets with this code point are in it although they are of no flow.
    pub dscp: Option<Dscp>,
}

/// What is shaped.
#[derive(Clone, Debug)]
pub struct ShaperConfig {
    /// Interface by which packets leave.
    pub interface: String,
    /// Where it is; none = here.
    pub namespace: Option<Namespace>,
    /// Its rate, counted from the IP header on.
    pub rate: Rate,
    /// Up to seven classes, the most important first.
    pub classes: Vec<ShapedClass>,
}

/// An interface whose reservations the kernel keeps, until this is dropped.
#[derive(Debug)]
pub struct KernelShaper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    interface: String,
    namespace: Option<Namespace>,
}

impl Drop for KernelShaper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Err(error) = start::leave(&self.interface, self.namespace.as_ref()) {
            tracing::error!(interface = self.interface, %error, "the interface is not as it was");
        }
    }
}

impl KernelShaper {
    /// Sets an interface up and serves it on a thread of its own. What the kernel lacks for it is found out before anybody is served.
    ///
    /// # Errors
    /// [`ShaperError`]: then the interface is as it was.
    pub fn start(config: &ShaperConfig) -> Result<(Self, Handle), ShaperError> {
        let port = Name::new(&config.interface).map_err(|why| ShaperError::Class {
            what: format!("interface {}", config.interface),
            why: why.to_string(),
        })?;
        let objects = objects(config, &port)?;
        let books = start::set_up(config, &port)?;
        // From here on whatever fails leaves the interface as it was.
        let (stop, stopped) = bounded(0);
        let mut this = Self {
            stop: Some(stop),
            thread: None,
            interface: config.interface.clone(),
            namespace: config.namespace.clone(),
        };
        let (requests, asked) = Inlet::new(INLET);
        let epoch = clock::monotonic().0 + clock::real_minus_monotonic();
        // A profile is a class, and the kernel has so many.
        let limits = Limits { profiles: FLOWS, ..Limits::default() };
        let mut shaping = Shaping {
            control: Control::new(epoch, KernelPlanner, limits),
            books,
            failed: None,
            watchers: Vec::new(),
            told: 0,
            requests: 0,
        };
        let transaction = Transaction::new(new_txn_id(), Owner::File, objects);
        let reply = shaping.submit(FILE, Box::new(transaction));
        if let Some(error) = reply.errors.first() {
            return Err(ShaperError::Class { what: error.path.clone(), why: error.message.clone() });
        }
        let run = move || shaping.run(&asked, &stopped);
        this.thread = Some(std::thread::Builder::new().name("shaper".into()).spawn(run)?);
        Ok((this, Handle { requests, epoch, ports: [config.interface.clone()].into() }))
    }
}

/// The port and the classes, as the contract has them.
fn objects(config: &ShaperConfig, port: &Name) -> Result<Vec<Op>, ShaperError> {
    if config.classes.len() > start::CLASSES {
        let why =
            format!("there are {}, and the kernel tells {} apart", config.classes.len(), start::CLASSES);
        return Err(ShaperError::Class { what: "classes".to_owned(), why });
    }
    let sum = Rate(config.classes.iter().fold(0, |sum: u64, class| sum.saturating_add(class.guarantee.0)));
    if sum >= config.rate {
        return Err(ShaperError::TooMuch { sum, rate: config.rate });
    }
    let put = |kind, name, spec| Op::put(Given::read(kind, name, spec, None));
    let mut ops = vec![put(Kind::Port, port.clone(), json!({ "rate": config.rate }))];
    let rest = Name::new(REST).expect("plain");
    for (tier, class) in config.classes.iter().enumerate() {
        if class.name == rest || config.classes[..tier].iter().any(|other| other.name == class.name) {
            let why = "there is another of this name".to_owned();
            return Err(ShaperError::Class { what: format!("class {}", class.name), why });
        }
        let spec = json!({
            "port": port, "logical": class.name, "guarantee": { "rate": class.guarantee }, "tier": tier,
        });
        ops.push(put(Kind::Class, start::class_name(port, &class.name)?, spec));
    }
    let spec = json!({ "port": port, "logical": rest, "default": true });
    ops.push(put(Kind::Class, start::class_name(port, &rest)?, spec));
    Ok(ops)
}

struct Shaping {
    control: Control<KernelPlanner>,
    books: Books,
    /// The change of the last commit was not made.
    failed: Option<(Change, Failure)>,
    watchers: Vec<Box<dyn FnMut() -> bool + Send>>,
    told: u64,
    requests: u64,
}

impl Shaping {
    fn run(mut self, asked: &Receiver<Call>, stopped: &Receiver<()>) {
        loop {
            let now = clock::monotonic();
            let due = self.control.next_wakeup();
            let nap = due.map_or(NAP, |at| Duration::from_nanos(at.since(now).0).min(NAP));
            select! {
                recv(asked) -> call => match call {
                    Ok(call) => self.asked(call),
                    Err(_) => break,
                },
                recv(stopped) -> _ => break,
                default(nap) => drop(self.input(Input::Tick)),
            }
            self.tell_watchers();
        }
        self.input(Input::Shutdown);
        self.tell_watchers();
        asked.try_iter().for_each(|call| self.asked(call));
    }

    fn tell_watchers(&mut self) {
        let latest = self.control.events().latest();
        if latest != self.told {
            self.told = latest;
            self.watchers.retain_mut(|wake| wake());
        }
    }

    /// Whatever comes of an input, with the last reply.
    fn input(&mut self, input: Input) -> Option<Arc<Reply>> {
        self.control.handle_input(clock::monotonic(), input);
        let mut last = None;
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Apply { ticket, change } => {
                    if let Err(failure) = self.books.apply(&change) {
                        tracing::warn!(why = failure.why, "the kernel has not taken a change");
                        self.failed = Some((change, failure));
                    }
                    self.control.handle_input(clock::monotonic(), Input::Applied { ticket });
                }
                Output::Reply { reply, .. } => last = Some(reply),
            }
        }
        last
    }

    fn submit(&mut self, who: Credentials, transaction: Box<Transaction>) -> Arc<Reply> {
        self.requests += 1;
        let places = places(&transaction);
        let (owner, fence) = (transaction.owner.clone(), transaction.fence);
        let request = Input::Request { request: self.requests, who: who.clone(), transaction };
        self.failed = None;
        let reply = self.input(request).expect("a request is answered at once: nothing else is on its way");
        // What has ended by itself meanwhile is no matter of this one.
        let ours =
            |(change, _): &(Change, Failure)| change.objects.keys().any(|key| places.contains_key(key));
        if let Some((change, failure)) = self.failed.take().filter(ours) {
            self.take_back(who, owner, fence, &change);
            let Failure { key, code, why } = failure;
            let path = key.as_ref().map_or(String::new(), |key| format!("{}/{}", key.kind, key.name));
            let op = key.and_then(|key| places.get(&key).copied());
            let error = ErrorItem { op, ..ErrorItem::new(code, path, why) };
            let outcome = Outcome::Rejected;
            let refused =
                Reply { outcome, committed_ns: 0, errors: vec![error], ops: Vec::new(), ..(*reply).clone() };
            return Arc::new(refused);
        }
        if reply.errors.iter().all(|error| error.op.is_some()) {
            return reply;
        }
        // Who checked what the kernel can do knew objects only.
        let by_path: BTreeMap<String, usize> =
            places.iter().map(|(key, op)| (format!("{}/{}", key.kind, key.name), *op)).collect();
        let mut reply = (*reply).clone();
        for error in &mut reply.errors {
            error.op = error.op.or_else(|| by_path.get(&error.path).copied());
        }
        Arc::new(reply)
    }

    /// The contract's objects become again what the kernel has.
    fn take_back(&mut self, who: Credentials, owner: Owner, fence: u64, change: &Change) {
        let now = clock::monotonic();
        let ops = change.objects.iter().map(|(key, (before, _))| match before {
            Some(entry) => Op::put(restored(now, key, entry)),
            None => {
                Op::Delete { kind: key.kind, name: key.name.clone(), if_version: None, drain_ms: Some(0) }
            }
        });
        let mut transaction = Transaction::new(new_txn_id(), owner, ops.collect());
        transaction.fence = fence;
        self.requests += 1;
        let transaction = Box::new(transaction);
        let reply = self.input(Input::Request { request: self.requests, who, transaction });
        if self.failed.take().is_some() || reply.is_none_or(|reply| reply.outcome != Outcome::Committed) {
            tracing::error!("what the kernel refused is not taken back: restart the server");
        }
    }

    fn asked(&mut self, call: Call) {
        match call {
            Call::Submit(who, transaction, done) => done(self.submit(who, transaction)),
            Call::Claim(who, claim, done) => {
                // Tells what time it is.
                self.input(Input::Tick);
                done(self.control.claim(clock::monotonic(), &who, &claim).map_err(claim_refused));
            }
            Call::State(query, done) => done(self.control.state(&query)),
            Call::Events(seq, filter, limit, done) => done(self.control.events().page(seq, &filter, limit)),
            Call::OnEvents(wake) => self.watchers.push(wake),
            Call::Graph(done) => done(String::new()),
            Call::Show(_, done) => done(Err(nothing())),
            Call::Explain(_, done) => done(Err(nothing())),
            Call::Reload(done) => done(Reloaded::refused(vec![nothing()], Vec::new())),
            // Dropped: the caller hears that nobody answers.
            Call::Counters(..) => {}
        }
    }
}

fn nothing() -> ErrorItem {
    ErrorItem::new(
        Code::Unsupported,
        "",
        "the kernel keeps this interface's reservations; see `tc -s class show dev …`",
    )
}

/// Which operation names which object.
fn places(transaction: &Transaction) -> BTreeMap<Key, usize> {
    let key = |op: &Op| match op {
        Op::Put(put) => Some(put.given.key()),
        Op::Patch { kind, name, .. } | Op::Delete { kind, name, .. } => {
            Some(Key { kind: *kind, name: name.clone() })
        }
        _ => None,
    };
    transaction.ops.iter().enumerate().filter_map(|(at, op)| Some((key(op)?, at))).collect()
}

/// An object as it was, with what is left of its time.
fn restored(now: Instant, key: &Key, entry: &Entry) -> Object {
    let left = |at: u64| (at.saturating_sub(now.0) / 1_000_000).max(1);
    Object { name: key.name.clone(), spec: (*entry.spec).clone(), ttl_ms: entry.expires_at_ns.map(left) }
}
