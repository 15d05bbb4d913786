use super::*;
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_model::{ClassSpec, PortSpec};
use perhop_units::Share;
use proptest::prelude::*;
use serde_json::json;

const FILE: &str = r#"
[broker]
delay = "10 ms"

[[class]]
name = "ef"
least = "64 kbit/s"
most = "20 Mbit/s"

[[class]]
name = "video"
least = "100 kbit/s"
most = "2 Mbit/s"
law = "threshold"
interval = "500 ms"
"#;

const MS: u64 = 1_000_000;

type TestAgent = Agent<EmulatedBroker<SplitMix64>>;

fn agent(fence: u64, now: Instant) -> TestAgent {
    let (file, diagnostics) = AgentFile::read("agent.toml", FILE);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let (config, seed) = file.broker.clone();
    let broker = EmulatedBroker::new(config, SplitMix64::new(seed, 0));
    Agent::new(&file, broker, fence, Duration::from_millis(5), now)
}

/// What a router does of the contract, as far as an agent sees it; classes serve their load up to their allocation.
struct Router {
    epoch: u64,
    revision: u64,
    fence: u64,
    classes: BTreeMap<String, Class>,
    allocations: BTreeMap<String, u64>,
    /// The next transactions are refused with these.
    refusals: VecDeque<Code>,
    /// The next claims are.
    claim_refusals: VecDeque<Code>,
    submitted: Vec<Transaction>,
}

#[derive(Clone, Copy, Default)]
struct Class {
    load_bps: u64,
    carried_bits: u64,
    backlog_bits: u64,
}

impl Router {
    fn new() -> Self {
        let classes = ["ef", "video", "best"].map(|name| (name.to_owned(), Class::default()));
        Self {
            epoch: 7,
            revision: 3,
            fence: 0,
            classes: classes.into(),
            allocations: BTreeMap::new(),
            refusals: VecDeque::new(),
            claim_refusals: VecDeque::new(),
            submitted: Vec::new(),
        }
    }

    fn restart(&mut self) {
        (self.epoch, self.revision, self.fence) = (self.epoch + 1, 1, 0);
        self.allocations.clear();
        self.classes.values_mut().for_each(|class| (class.carried_bits, class.backlog_bits) = (0, 0));
    }

    fn pass(&mut self, time: Duration) {
        for (name, class) in &mut self.classes {
            let allocated = self.allocations.get(name).copied().unwrap_or(u64::from(u32::MAX));
            let bits = |rate: u64| (u128::from(rate) * u128::from(time.0) / 1_000_000_000) as u64;
            let waiting = class.backlog_bits + bits(class.load_bps);
            let served = waiting.min(bits(allocated));
            class.carried_bits += served;
            class.backlog_bits = (waiting - served).min(800_000);
        }
    }

    fn objects(&self) -> Input {
        let state = |kind, name: &str, spec| ObjectState {
            kind,
            name: Name::new(name).unwrap(),
            owner: Owner::File,
            id: 1,
            version: 1,
            status: Status::Active,
            expires_at_ns: None,
            spec,
        };
        let port: PortSpec = serde_json::from_value(json!({ "device": "wan", "rate": 10_000_000 })).unwrap();
        let mut objects = vec![state(Kind::Port, "wan", Spec::Port(port))];
        for name in self.classes.keys() {
            let class: ClassSpec = serde_json::from_value(json!({ "port": "wan" })).unwrap();
            assert_eq!(class.guarantee, Share::Rate(0));
            objects.push(state(Kind::Class, name, Spec::Class(class)));
        }
        Input::Objects { revision: self.revision, objects }
    }

    fn readings(&self, now: Instant) -> Input {
        let reading = |class: &Class| ClassReading {
            carried_bytes: class.carried_bits / 8,
            offered_bytes: (class.carried_bits + class.backlog_bits) / 8,
            backlog_bytes: class.backlog_bits / 8,
        };
        let classes =
            self.classes.iter().map(|(name, class)| (Name::new(name).unwrap(), reading(class))).collect();
        let (epoch, revision, policies) = (self.epoch, self.revision, Vec::new());
        Input::Readings(Readings { epoch, revision, at: now, classes, policies })
    }

    fn submit(&mut self, transaction: &Transaction) -> Input {
        self.submitted.push(transaction.clone());
        let refused = match () {
            () if transaction.fence < self.fence => Some(Code::Fenced),
            () => self.refusals.pop_front(),
        };
        if refused.is_none() {
            for op in &transaction.ops {
                self.apply(op);
            }
        }
        let errors: Vec<ErrorItem> = refused.iter().map(|code| ErrorItem::new(*code, "", "no")).collect();
        let outcome = if errors.is_empty() { Outcome::Committed } else { Outcome::Rejected };
        Input::Reply(Reply {
            epoch: self.epoch,
            revision: self.revision,
            generation: 1,
            txn_id: transaction.txn_id,
            outcome,
            replayed: false,
            received_ns: 0,
            committed_ns: 0,
            ops: Vec::new(),
            errors,
            retry_after_ms: None,
        })
    }

    fn apply(&mut self, op: &Op) {
        if matches!(op, Op::ReplaceOwned { .. }) {
            self.allocations.clear();
        }
        let mut put = |spec: &serde_json::Value| {
            let class = spec["class"].as_str().unwrap().to_owned();
            assert!(self.classes.contains_key(&class), "no class {class}");
            self.allocations.insert(class, spec["guarantee"].as_u64().unwrap());
        };
        match op {
            Op::Put { kind: Kind::Allocation, spec, .. } => put(spec),
            Op::ReplaceOwned { kinds, objects } => {
                assert_eq!(*kinds, [Kind::Allocation]);
                objects.iter().for_each(|object| put(&object.spec));
            }
            other => panic!("an agent does not {other:?}"),
        }
        self.revision += 1;
    }
}

/// An agent, a router, and the way between them, which takes `delay`.
struct World {
    now: Instant,
    agent: TestAgent,
    router: Router,
    reachable: bool,
    delay: Duration,
    answers: VecDeque<(Instant, Input)>,
    said: Vec<Notice>,
}

impl World {
    fn new() -> Self {
        let now = Instant(1_000 * MS);
        let mut this = Self {
            now,
            agent: agent(1, now),
            router: Router::new(),
            reachable: true,
            delay: Duration::ZERO,
            answers: VecDeque::new(),
            said: Vec::new(),
        };
        while this.agent.poll_output().is_some() {}
        this.tell(Input::Appeared);
        this
    }

    fn tell(&mut self, input: Input) {
        self.agent.handle_input(self.now, input);
        while let Some(output) = self.agent.poll_output() {
            let answer = match output {
                Output::Say(notice) => {
                    self.said.push(notice);
                    continue;
                }
                _ if !self.reachable => continue,
                Output::Claim(_) if !self.router.claim_refusals.is_empty() => {
                    let code = self.router.claim_refusals.pop_front().unwrap();
                    Input::Claimed(Err(ErrorItem::new(code, "owner", "no")))
                }
                Output::Claim(claim) if claim.fence < self.router.fence => {
                    Input::Claimed(Err(ErrorItem::new(Code::Fenced, "fence", "no")))
                }
                Output::Claim(claim) => {
                    self.router.fence = claim.fence;
                    Input::Claimed(Ok(()))
                }
                Output::ReadObjects(_) => self.router.objects(),
                Output::ReadClasses => self.router.readings(self.now),
                Output::Submit(transaction) => self.router.submit(&transaction),
            };
            self.answers.push_back((self.now + self.delay, answer));
        }
    }

    /// Runs for a time in steps of 1 ms.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += Duration::from_millis(1);
            self.router.pass(Duration::from_millis(1));
            while self.answers.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, input) = self.answers.pop_front().unwrap();
                self.tell(input);
            }
            if self.agent.next_wakeup().is_some_and(|at| at <= self.now) {
                self.tell(Input::Tick);
            }
        }
    }

    fn cut(&mut self) {
        self.reachable = false;
        self.answers.clear();
        self.tell(Input::Gone);
    }

    fn mend(&mut self) {
        self.reachable = true;
        self.tell(Input::Appeared);
    }

    /// Whether the router has what the agent says is in force.
    fn agree(&self) -> bool {
        self.agent.classes().all(|c| self.router.allocations.get(c.class.as_str()) == Some(&c.allocated.0))
    }
}

#[test]
fn it_claims_reads_and_lays_the_initial_allocations_over_the_classes() {
    let mut world = World::new();
    world.run(5);
    assert_eq!(world.router.fence, 1);
    assert_eq!(world.router.submitted.len(), 1);
    assert_eq!(world.router.allocations, BTreeMap::from([("ef".into(), 64_000), ("video".into(), 100_000)]));
    assert!(world.agent.is_settled());
}

#[test]
fn allocations_follow_the_load_and_only_what_changed_is_submitted() {
    let mut world = World::new();
    world.run(5);
    world.router.classes.get_mut("video").unwrap().load_bps = 700_000;
    world.run(60_000);
    assert!(world.agree());
    let video = world.router.allocations["video"];
    assert!((777_000..=1_000_000).contains(&video), "{video}: between 70 and 90 % are in use");
    for transaction in &world.router.submitted[1..] {
        let [Op::Put { name, .. }] = &transaction.ops[..] else { panic!("{transaction:?}") };
        assert_eq!(name.as_str(), "video");
    }
    world.router.classes.get_mut("video").unwrap().load_bps = 0;
    world.run(120_000);
    assert_eq!(world.router.allocations["video"], 100_000);
}

/// What a router that has run for long has carried before is no measure, and neither is that nothing is known of it.
#[test]
fn the_first_interval_measures_what_passes_in_it() {
    let mut world = World::new();
    let video = world.router.classes.get_mut("video").unwrap();
    (video.load_bps, video.carried_bits) = (95_000, 50_000_000);
    world.run(505);
    let estimate = world.agent.classes().nth(1).unwrap().estimate;
    assert!((93_000..=97_000).contains(&estimate.0), "{estimate}");
}

#[test]
fn a_slow_port_bounds_the_allocation() {
    let mut world = World::new();
    world.router.classes.get_mut("ef").unwrap().load_bps = 50_000_000;
    world.run(300_000);
    assert_eq!(world.router.allocations["ef"], 10_000_000);
}

#[test]
fn a_restarted_router_gets_what_is_in_force() {
    let mut world = World::new();
    world.router.classes.get_mut("ef").unwrap().load_bps = 500_000;
    world.run(20_000);
    let before = world.router.allocations.clone();
    assert!(before["ef"] > 64_000);
    world.cut();
    world.run(3_000);
    world.router.restart();
    world.mend();
    world.run(5);
    assert_eq!(world.router.allocations, before);
    // The same without the connection ever failing: the epoch tells.
    world.router.restart();
    world.run(2_000);
    assert!(world.agree() && world.router.allocations.len() == 2);
}

/// The answer to a transaction may be the first that a restarted router says.
#[test]
fn a_restart_that_only_the_answer_to_a_transaction_tells_is_noticed() {
    let mut world = World::new();
    world.delay = Duration::from_millis(128);
    world.run(5_000);
    assert!(world.agree());
    world.router.classes.get_mut("video").unwrap().load_bps = 700_000;
    let before = world.router.submitted.len();
    world.run(2_000);
    while !world.agent.reading {
        world.run(1);
    }
    // What was read is the old router's, and makes the class grow; the transaction reaches the new one.
    world.router.restart();
    world.run(5_000);
    assert!(world.router.submitted.len() > before);
    assert!(world.agree(), "{:?}", world.router.allocations);
}

#[test]
fn another_instance_ends_it() {
    let mut world = World::new();
    world.run(5);
    world.router.fence = 2;
    world.router.classes.get_mut("ef").unwrap().load_bps = 5_000_000;
    world.run(5_000);
    assert!(world.agent.is_superseded());
    let count = world.router.submitted.len();
    world.run(5_000);
    assert_eq!(world.router.submitted.len(), count);
    assert!(matches!(world.said.last(), Some(Notice::Superseded { .. })));
}

#[test]
fn an_instance_that_has_nothing_to_change_hears_of_another_too() {
    let mut world = World::new();
    world.run(2_000);
    let count = world.router.submitted.len();
    world.router.fence = 2;
    world.run(2_000);
    assert!(!world.agent.is_superseded(), "nothing has changed yet");
    world.router.revision += 1;
    world.run(2_000);
    assert!(world.agent.is_superseded() && world.router.submitted.len() == count);
}

#[test]
fn a_claim_that_a_busy_router_does_not_take_is_made_again() {
    let mut world = World::new();
    world.run(5);
    world.cut();
    world.router.claim_refusals.extend([Code::Overload, Code::ShuttingDown]);
    world.router.restart();
    world.mend();
    world.run(1_990);
    assert!(world.router.submitted.len() == 1 && !world.agent.is_superseded());
    world.run(20);
    assert!(world.agree() && world.agent.is_settled(), "{:?}", world.router.allocations);
    // What is not allowed is not tried again.
    world.cut();
    world.router.claim_refusals.push_back(Code::Forbidden);
    world.mend();
    world.run(5);
    assert!(world.agent.is_superseded());
}

#[test]
fn a_refusal_is_tried_again_after_a_pause() {
    let mut world = World::new();
    world.router.refusals.extend([Code::NoCapacity, Code::NoCapacity]);
    world.run(500);
    assert_eq!(world.router.submitted.len(), 1);
    world.run(1_000);
    assert_eq!(world.router.submitted.len(), 2);
    world.run(1_000);
    assert_eq!(world.router.submitted.len(), 3);
    assert!(world.agree());
}

#[test]
fn a_class_that_comes_later_is_looked_after_then() {
    let mut world = World::new();
    let mut ef = world.router.classes.remove("ef").unwrap();
    world.run(2_000);
    assert!(world.said.contains(&Notice::NoClass { class: Name::new("ef").unwrap() }));
    assert_eq!(world.router.allocations.len(), 1);
    ef.load_bps = 300_000;
    world.router.classes.insert("ef".into(), ef);
    world.router.revision += 1;
    world.run(5_000);
    assert!(world.agree());
    assert_eq!(world.router.allocations.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    /// Outages, restarts, refusals and loads in any order, over a slow way: once all is quiet the router has what the
    /// agent says is in force, and never were two transactions on their way.
    #[test]
    fn whatever_happens_router_and_agent_agree_in_the_end(
        delay_ms in 0u64..300,
        steps in proptest::collection::vec((0u8..6, 1u64..3_000, 0u64..3_000_000), 1..12),
    ) {
        let mut world = World::new();
        world.delay = Duration::from_millis(delay_ms);
        for (what, ms, load) in steps {
            match what {
                0 => world.cut(),
                1 => world.mend(),
                2 => world.router.restart(),
                3 => world.router.refusals.push_back(Code::NoCapacity),
                4 => world.router.classes.get_mut("ef").unwrap().load_bps = load,
                _ => world.router.classes.get_mut("video").unwrap().load_bps = load,
            }
            world.run(ms);
        }
        world.mend();
        world.router.refusals.clear();
        world.router.classes.values_mut().for_each(|class| class.load_bps = 0);
        world.run(90_000);
        prop_assert!(world.agree(), "{:?} {:?}", world.router.allocations, world.agent.classes().collect::<Vec<_>>());
        prop_assert!(!world.agent.is_superseded());
    }
}
