//! Agent files: a file without errors is an agent that keeps to it, whatever its router says.

use perhop_agent::{ClassReading, Input, Readings};
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_bandwidth::{Agent, AgentFile, Output};
use perhop_model::{
    ErrorItem, Given, Kind, Name, Object, ObjectState, Op, Outcome, Owner, Reply, Spec, Status, Transaction,
    TxnId,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;

/// Inputs an agent is given.
const STEPS: usize = 200;
/// Largest step of the counters between two readings, bytes.
const STEP_BYTES: u64 = 1 << 30;

/// A file is read or has errors; diagnostics print; and an agent with a file that is read never asks for an allocation
/// outside its class's range, has one transaction under way at most and goes on after anything a router answers.
pub fn reading(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (file, diagnostics) = AgentFile::read("agent.toml", text);
    assert_eq!(file.is_none(), diagnostics.errors() > 0);
    let printed = diagnostics.to_string();
    assert_eq!(printed.is_empty(), diagnostics.is_empty());
    let Some(file) = file else { return };
    assert!(file.advice().iter().all(|sentence| !sentence.is_empty()));
    if file.classes.len() <= 16 {
        let seed = data.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        Driven::new(&file, seed).drive();
    }
}

/// An agent and the router that it believes in.
struct Driven<'a> {
    file: &'a AgentFile,
    agent: Agent<EmulatedBroker<SplitMix64>>,
    now: Instant,
    chance: Pcg64Mcg,
    epoch: u64,
    /// What each class has carried, bytes.
    carried: Vec<u64>,
}

impl<'a> Driven<'a> {
    fn new(file: &'a AgentFile, seed: u64) -> Self {
        let (config, own_seed) = file.broker.clone();
        let broker = EmulatedBroker::new(config, SplitMix64::new(seed, own_seed));
        Self {
            file,
            agent: Agent::new(file, broker, 1, Duration::from_millis(1), Instant::ZERO),
            now: Instant::ZERO,
            chance: Pcg64Mcg::seed_from_u64(seed),
            epoch: 1,
            carried: vec![0; file.classes.len()],
        }
    }

    fn drive(&mut self) {
        let mut due = vec![Input::Appeared];
        for _ in 0..STEPS {
            let input = due.pop().unwrap_or(Input::Tick);
            self.agent.handle_input(self.now, input);
            let mut submitted = 0;
            while let Some(output) = self.agent.poll_output() {
                submitted += usize::from(matches!(output, Output::Submit(_)));
                due.extend(self.answer(output));
            }
            assert!(submitted <= 1, "{submitted} transactions at once");
            if due.is_empty() {
                let next = self.agent.next_wakeup().unwrap_or(self.now + Duration::from_secs(1));
                self.now = self.now.max(next.min(self.now + Duration::from_secs(60)));
            }
            if self.chance.random_ratio(1, 40) {
                // It restarts: nothing that was asked is answered.
                self.agent.handle_input(self.now, Input::Gone);
                while self.agent.poll_output().is_some() {}
                self.epoch += 1;
                due = vec![Input::Appeared];
            }
        }
    }

    fn answer(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Claim(_) if self.chance.random_ratio(1, 10) => {
                Some(Input::Claimed(Err(ErrorItem::new(Code::Overload, "owner", Code::Overload.name()))))
            }
            Output::Claim(_) => Some(Input::Claimed(Ok(()))),
            Output::ReadObjects(kinds) => {
                let objects = if kinds.contains(&Kind::Class) { self.classes() } else { Vec::new() };
                Some(Input::Objects { revision: 1, objects })
            }
            Output::ReadClasses => Some(Input::Readings(self.readings())),
            Output::Submit(transaction) => Some(Input::Reply(self.reply(&transaction))),
            Output::Say(_) => None,
        }
    }

    fn classes(&mut self) -> Vec<ObjectState> {
        let known = self.file.classes.iter().filter(|_| self.chance.random_ratio(9, 10));
        let state = |name: &Name| ObjectState {
            kind: Kind::Class,
            name: name.clone(),
            owner: Owner::File,
            id: 1,
            version: 1,
            status: Status::Active,
            expires_at_ns: None,
            spec: Spec::from_value(Kind::Class, &json!({ "port": "wan" })).expect("a class"),
        };
        known.map(|class| state(&class.class)).collect()
    }

    /// Counters that grow by anything, and sometimes begin again.
    fn readings(&mut self) -> Readings {
        let mut classes = Vec::new();
        for (class, carried) in self.file.classes.iter().zip(&mut self.carried) {
            *carried += self.chance.random_range(0..STEP_BYTES);
            if self.chance.random_ratio(1, 50) {
                *carried = 0;
            }
            let backlog_bytes = self.chance.random_range(0..STEP_BYTES);
            let offered_bytes = carried.saturating_add(backlog_bytes);
            let reading = ClassReading { carried_bytes: *carried, offered_bytes, backlog_bytes };
            classes.push((class.class.clone(), reading));
        }
        let policies = self.file.bandwidth.policies.iter();
        let policies = policies.map(|p| (p.policy.clone(), self.chance.random_range(0..100))).collect();
        Readings { epoch: self.epoch, revision: 1, at: self.now, classes, policies }
    }

    fn reply(&mut self, transaction: &Transaction) -> Reply {
        for op in &transaction.ops {
            self.judge(op);
        }
        let refused = self.chance.random_ratio(1, 4);
        let at = self.chance.random_range(0..transaction.ops.len().max(1));
        let error = ErrorItem {
            op: Some(at),
            ..ErrorItem::new(Code::NoCapacity, "guarantee", Code::NoCapacity.name())
        };
        Reply {
            epoch: self.epoch,
            revision: 1,
            generation: 1,
            txn_id: TxnId::clone(&transaction.txn_id),
            outcome: if refused { Outcome::Rejected } else { Outcome::Committed },
            replayed: false,
            received_ns: 0,
            committed_ns: 0,
            ops: Vec::new(),
            errors: refused.then_some(error).into_iter().collect(),
            retry_after_ms: None,
        }
    }

    /// What is asked for is in the range of the class.
    fn judge(&self, op: &Op) {
        let Op::Put(put) = op else { return };
        let Given::Object(Object { spec: Spec::Allocation(asked), .. }) = &put.given else {
            panic!("not an allocation: {put:?}");
        };
        let class = self.file.classes.iter().find(|c| c.class == asked.class).expect("a class of the file");
        let bounds = class.allocation.settings().bounds;
        for rate in [asked.guarantee, asked.ceiling].into_iter().flatten() {
            assert!(bounds.least <= rate && rate <= bounds.most, "{}: {rate} asked for", asked.class);
        }
    }
}
