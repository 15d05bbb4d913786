//! The agent of a router as a part of its node: the very machine of `perhop agent run`, whose requests take no time.

use perhop_agent::{ClassReading, DomainNews, Input, Readings, Router};
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_bandwidth::{Agent, AgentFile, Notice};
use perhop_broker::lease::InRouter;
use perhop_graph::router::VirtualRouter;
use perhop_measure::{AgentRecorder, Recording};
use perhop_model::{Claim, Credentials, ErrorItem, Name, Reply, StatePage, StateQuery, Transaction};
use perhop_packet::PortId;
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Queues are looked at as often as the law asks.
const LEAST_POLL: Duration = Duration(1);

/// The agent with what is recorded of it.
pub(crate) struct AgentNode {
    agent: Agent<EmulatedBroker<SplitMix64>>,
    recorder: AgentRecorder,
    /// Classes of which it needs readings, numbered.
    classes: BTreeMap<Name, usize>,
    /// Whether it counts flows of policies.
    shares: bool,
    /// What became of what is decided beside the router.
    leased: Vec<InRouter>,
}

impl AgentNode {
    /// The agent of a file, which has found its router.
    pub(crate) fn new(file: &AgentFile, seed: u64, router: &mut VirtualRouter) -> Self {
        let (config, own_seed) = file.broker.clone();
        let broker = EmulatedBroker::new(config, SplitMix64::new(seed, own_seed));
        let now = router.now();
        let mut this = Self {
            agent: Agent::new(file, broker, 1, LEAST_POLL, now),
            recorder: AgentRecorder::new(file),
            classes: file.measured().cloned().collect::<BTreeSet<_>>().into_iter().zip(0..).collect(),
            shares: !file.bandwidth.links.is_empty(),
            leased: Vec::new(),
        };
        this.tell(now, Input::Appeared, router);
        this
    }

    /// When it must be woken.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.agent.next_wakeup()
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, now: Instant, router: &mut VirtualRouter) {
        if self.agent.next_wakeup().is_some_and(|at| at <= now) {
            self.tell(now, Input::Tick, router);
        }
    }

    /// The controller of the domain has said something.
    pub(crate) fn hear(&mut self, now: Instant, news: DomainNews, router: &mut VirtualRouter) {
        self.tell(now, Input::Domain(news), router);
    }

    /// What is decided beside the router needs so much of a class.
    pub(crate) fn leased(
        &mut self,
        now: Instant,
        class: String,
        number: u64,
        bps: u64,
        router: &mut VirtualRouter,
    ) {
        self.tell(now, Input::Leased { class, number, bps }, router);
    }

    /// What became of that since it was taken last.
    pub(crate) fn take_leased(&mut self) -> Vec<InRouter> {
        std::mem::take(&mut self.leased)
    }

    /// The window begins.
    pub(crate) fn window_begins(&mut self) {
        self.recorder.window_begins(&self.agent);
    }

    /// The window ends.
    pub(crate) fn window_ends(&mut self) {
        self.recorder.window_ends(&self.agent);
    }

    /// Adds what it did to a recording.
    pub(crate) fn finish(&self, router: &str, recording: &mut Recording) {
        self.recorder.finish(&self.agent, router, recording);
    }

    fn tell(&mut self, now: Instant, input: Input, router: &mut VirtualRouter) {
        let Self { agent, recorder, classes, shares, leased } = self;
        let mut reached = Reached { router, classes, shares: *shares, now };
        let told = agent.tell(
            || now,
            input,
            Some(&mut reached),
            |at, notice| {
                recorder.note(at, &notice);
                if let Notice::Leased(told) = notice {
                    leased.push(told);
                }
            },
        );
        debug_assert!(told.is_ok(), "a router in the same node answers at once");
    }
}

/// A router that left a transaction without an answer.
#[derive(Debug)]
struct NoAnswer;

/// The router of the node at an instant, as far as the agent's classes go.
struct Reached<'a> {
    router: &'a mut VirtualRouter,
    classes: &'a BTreeMap<Name, usize>,
    shares: bool,
    now: Instant,
}

impl Router for Reached<'_> {
    type Error = NoAnswer;

    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, NoAnswer> {
        let claimed = self.router.control().claim(self.now, &Credentials::ADMIN, &claim);
        Ok(claimed.map_err(|code| ErrorItem::new(code, "owner", code.name())))
    }

    fn page(&mut self, query: &StateQuery) -> Result<StatePage, NoAnswer> {
        // A cursor of the page before is always good.
        self.router.control().state(query).map_err(|_| NoAnswer)
    }

    /// What the agent's classes counted and hold, and how many flows its policies have. A class that moved counts in every place it has.
    fn readings(&mut self) -> Result<Readings, NoAnswer> {
        let (control, worker) = self.router.halves();
        let planner = control.planner();
        let mut found: Vec<Option<ClassReading>> = vec![None; self.classes.len()];
        for port in 0..planner.ports().len() {
            let port = PortId(port as u16);
            let Some(egress) = worker.egress(port) else { continue };
            for class in egress.tree().iter() {
                let Some((name, id)) = planner.leaf_class(port, class.index.0) else { continue };
                let Some(i) = self.classes.get(name) else { continue };
                let reading = found[*i].get_or_insert_with(|| {
                    let before = planner.counted_before(id);
                    let offered_bytes = before.bytes + before.dropped_bytes;
                    ClassReading { carried_bytes: before.bytes, offered_bytes, backlog_bytes: 0 }
                });
                reading.carried_bytes += class.counters.bytes;
                reading.offered_bytes +=
                    class.counters.bytes + class.counters.dropped_bytes + class.backlog_bytes;
                reading.backlog_bytes += class.backlog_bytes;
            }
        }
        let classes = self.classes.iter().filter_map(|(name, i)| Some((name.clone(), found[*i]?)));
        let rates = worker.abr().filter(|_| self.shares);
        let policies = rates.map_or_else(Vec::new, |abr| {
            planner.abr_policies().map(|(name, id)| (name.clone(), abr.policy_counters(id).flows)).collect()
        });
        let (epoch, revision) = (control.epoch(), control.revision());
        Ok(Readings { epoch, revision, at: self.now, classes: classes.collect(), policies })
    }

    fn submit(&mut self, transaction: Transaction) -> Result<Reply, NoAnswer> {
        let reply = self.router.submit(Credentials::ADMIN, transaction).ok_or(NoAnswer)?;
        Ok(reply.as_ref().clone())
    }
}
