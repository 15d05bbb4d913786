//! Scripts of the whole agent in virtual time against a router whose classes serve their load.

use super::*;
use crate::testing::{object, reply};
use perhop_agent::{ClassReading, Readings};
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_model::{
    ClassSpec, ErrorItem, Given, Kind, Name, Object, ObjectState, Op, Owner, PortSpec, Put, Spec, Transaction,
};
use perhop_reason::Code;
use perhop_units::{Rate, Share};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    agent_of(FILE, fence, now)
}

fn agent_of(file: &str, fence: u64, now: Instant) -> TestAgent {
    let (file, diagnostics) = AgentFile::read("agent.toml", file);
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
    /// Rate of the port: guarantees that come to more are refused, unless nothing is raised.
    port_bps: u64,
    /// Nothing can be deleted.
    undeletable: bool,
    /// Allocations of these classes are refused.
    unwilling: BTreeSet<String>,
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
            port_bps: 10_000_000,
            undeletable: false,
            unwilling: BTreeSet::new(),
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
        let port: PortSpec =
            serde_json::from_value(json!({ "device": "wan", "rate": self.port_bps })).unwrap();
        let mut objects = vec![object("wan", Spec::Port(port))];
        for name in self.classes.keys() {
            let class: ClassSpec = serde_json::from_value(json!({ "port": "wan" })).unwrap();
            assert_eq!(class.guarantee, Share::Rate(Rate(0)));
            objects.push(object(name, Spec::Class(class)));
        }
        for (name, rate) in &self.allocations {
            let spec = json!({ "class": name, "guarantee": rate, "ceiling": rate });
            let spec = Spec::from_value(Kind::Allocation, &spec).unwrap();
            let owner = Owner::Agent;
            objects.push(ObjectState { owner, ..object(name, spec) });
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
        let before = self.allocations.clone();
        let refused = refused.or_else(|| {
            transaction.ops.iter().for_each(|op| self.apply(op));
            let raised = |(name, rate): (&String, &u64)| before.get(name).is_none_or(|b| b < rate);
            let over = self.allocations.values().sum::<u64>() > self.port_bps;
            let unwilling = |name: &String| {
                self.unwilling.contains(name) && before.get(name) != self.allocations.get(name)
            };
            let deletes = transaction.ops.iter().any(|op| matches!(op, Op::Delete { .. }));
            let wrong = (self.undeletable && deletes)
                || (over && self.allocations.iter().any(raised))
                || self.allocations.keys().any(unwilling);
            wrong.then_some(Code::NoCapacity)
        });
        match refused {
            Some(_) => self.allocations = before,
            None => self.revision += 1,
        }
        let errors: Vec<ErrorItem> = refused.iter().map(|code| ErrorItem::new(*code, "", "no")).collect();
        Input::Reply(reply(self.epoch, self.revision, transaction.txn_id, errors))
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(Put {
                given: Given::Object(Object { name, spec: Spec::Allocation(spec), .. }), ..
            }) => {
                assert!(self.classes.contains_key(name.as_str()), "no class {name}");
                assert_eq!((&spec.class, spec.ceiling), (name, spec.guarantee));
                self.allocations.insert(name.to_string(), spec.guarantee.unwrap().0);
            }
            Op::Delete { kind: Kind::Allocation, name, .. } => drop(self.allocations.remove(name.as_str())),
            other => panic!("an agent does not {other:?}"),
        }
    }
}

/// An agent, a router, and the way between them, which takes `delay`.
struct World {
    now: Instant,
    agent: TestAgent,
    /// Of its latest claim.
    fence: u64,
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
            fence: 1,
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
            if let Output::Claim(claim) = &output {
                self.fence = claim.fence;
            }
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

    /// Whether the router has what the agent wants, and what it says is in force.
    fn agree(&self) -> bool {
        let has = |class: &Name| self.router.allocations.get(class.as_str()).copied().map(Rate);
        let wanted = self.agent.0.parts().allocations.wanted().all(|(class, rate)| has(&class) == Some(rate));
        let said = self.agent.classes().all(|c| has(&c.class) == Some(c.allocated));
        wanted && said && self.agent.is_settled()
    }

    fn load(&mut self, class: &str, bps: u64) {
        self.router.classes.get_mut(class).unwrap().load_bps = bps;
    }

    /// The same world with another instance of the agent.
    fn succeed(&mut self, file: &str) {
        self.answers.clear();
        self.agent = agent_of(file, self.fence + 1, self.now);
        while self.agent.poll_output().is_some() {}
        self.tell(Input::Appeared);
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
        let [Op::Put(put)] = &transaction.ops[..] else { panic!("{transaction:?}") };
        assert_eq!(put.given.key().name.as_str(), "video");
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
    // The other class has the rest of the port.
    assert_eq!(world.router.allocations["ef"], 9_900_000);
    assert!(world.agree() && !world.said.iter().any(|said| matches!(said, Notice::Refused { .. })));
}

/// What two classes want comes to more than their port has, and the agent knows of no limit of one of them.
const CONTENDERS: &str = r#"
[[class]]
name = "ef"
least = "64 kbit/s"
most = "8 Mbit/s"
[class.congestion]

[[class]]
name = "video"
least = "64 kbit/s"
most = "8 Mbit/s"
[class.congestion]
"#;

#[test]
fn what_one_class_gives_back_goes_to_the_other_although_both_want_more_than_there_is() {
    let mut world = World::new();
    world.succeed(CONTENDERS);
    world.load("ef", 7_000_000);
    world.run(2_000);
    world.load("video", 6_000_000);
    world.run(30_000);
    let sum = |world: &World| world.router.allocations.values().sum::<u64>();
    assert!(
        sum(&world) <= 10_000_000 && world.router.allocations["ef"] > 7_000_000,
        "{:?}",
        world.router.allocations
    );
    world.load("ef", 0);
    world.run(60_000);
    assert!(world.router.allocations["video"] > 6_000_000, "{:?}", world.router.allocations);
    assert!(world.agree() && sum(&world) <= 10_000_000);
    let refused = world.said.iter().filter(|said| matches!(said, Notice::Refused { .. })).count();
    assert_eq!(refused, 0, "what does not fit is not asked for");
}

/// The same where the agent cannot know: the router has less than its port says.
#[test]
fn an_increase_that_the_router_refuses_is_undone_and_holds_up_no_other_class() {
    let mut world = World::new();
    world.succeed(CONTENDERS);
    world.load("ef", 1_000_000);
    world.run(30_000);
    world.router.unwilling.insert("ef".into());
    let before = world.router.allocations["ef"];
    world.load("ef", 5_000_000);
    world.load("video", 3_000_000);
    world.run(60_000);
    assert_eq!(world.router.allocations["ef"], before);
    assert!(world.router.allocations["video"] > 3_000_000, "{:?}", world.router.allocations);
    let counters = world.agent.classes().next().unwrap().counters;
    assert!(counters.withdrawn >= 3, "{counters:?}");
    // The pause doubles up to 30 s: 0.8 · (1 + 2 + 4 + 8 + 16) s are 25 s.
    assert!(counters.withdrawn <= 8, "{counters:?}");
    let allocated = world.agent.classes().next().unwrap().allocated;
    assert_eq!(allocated.0, before, "what it says is what is in force");
    world.router.unwilling.clear();
    world.run(60_000);
    assert!(world.router.allocations["ef"] > 5_000_000);
}

/// Both are raised in one transaction, which is refused because of one of them.
#[test]
fn of_several_increases_in_one_transaction_those_that_can_be_are_made() {
    let mut world = World::new();
    world.router.unwilling.insert("ef".into());
    world.run(5);
    assert_eq!(world.router.allocations, BTreeMap::from([("video".into(), 100_000)]));
    // Together, then one by one.
    assert_eq!(world.router.submitted.len(), 3);
    assert_eq!(world.agent.classes().next().unwrap().allocated, Rate::ZERO);
    world.load("video", 900_000);
    world.run(30_000);
    assert!(world.router.allocations["video"] > 900_000);
    world.router.unwilling.clear();
    world.run(32_000);
    assert!(world.agree());
}

/// Both have been allocated more than a port of another rate has: they are brought into it together, and grow again.
#[test]
fn a_port_that_becomes_slower_takes_from_all_classes_the_same_part() {
    let mut world = World::new();
    world.succeed(CONTENDERS);
    world.load("ef", 5_000_000);
    world.load("video", 2_500_000);
    world.run(60_000);
    let before = world.router.allocations.clone();
    world.router.port_bps = 4_000_000;
    world.router.revision += 1;
    let end = world.now + Duration::from_millis(810);
    while world.router.allocations == before && world.now < end {
        world.run(1);
    }
    let after = &world.router.allocations;
    assert_eq!(after.values().sum::<u64>().div_ceil(10), 400_000, "{after:?}");
    // Above the least of 64 kbit/s both keep the same part.
    let kept = |class: &str| (after[class] - 64_000) as f64 / (before[class] - 64_000) as f64;
    assert!((kept("ef") - kept("video")).abs() < 0.001, "{before:?} {after:?}");
    assert!(world.agree());
    world.router.port_bps = 20_000_000;
    world.router.revision += 1;
    world.run(60_000);
    assert!(world.router.allocations["ef"] > 5_000_000 && world.router.allocations["video"] > 2_500_000);
}

#[test]
fn another_instance_goes_on_with_what_is_in_force() {
    let mut world = World::new();
    world.load("ef", 3_000_000);
    world.load("video", 1_000_000);
    world.run(120_000);
    let before = world.router.allocations.clone();
    assert!(before["ef"] > 3_000_000);
    let (submitted, carried) = (world.router.submitted.len(), world.router.classes["ef"].carried_bits);
    world.succeed(FILE);
    world.run(10_000);
    assert_eq!(world.router.allocations, before);
    assert_eq!(world.router.submitted.len(), submitted, "nothing has to be changed");
    let bits = world.router.classes["ef"].carried_bits - carried;
    assert!(bits > 29_900_000, "{bits}: the class lost nothing");
    // What is outside of the range of the next file is brought into it; a class that it does not have is given back.
    world.succeed("[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\nmost = \"2 Mbit/s\"\n");
    world.run(100);
    assert_eq!(world.router.allocations, BTreeMap::from([("ef".into(), 2_000_000)]));
}

#[test]
fn an_allocation_that_cannot_be_deleted_holds_up_no_other() {
    let mut world = World::new();
    world.load("ef", 1_000_000);
    world.run(20_000);
    world.router.undeletable = true;
    world.succeed("[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\nmost = \"9 Mbit/s\"\n");
    world.load("ef", 3_000_000);
    world.run(90_000);
    assert!(world.router.allocations["ef"] > 3_000_000 && world.router.allocations.contains_key("video"));
    world.router.undeletable = false;
    world.run(31_000);
    assert!(!world.router.allocations.contains_key("video") && world.agree());
}

#[test]
fn an_allocation_that_is_deleted_or_changed_is_restored() {
    let mut world = World::new();
    world.load("ef", 1_000_000);
    world.run(60_000);
    let before = world.router.allocations["ef"];
    world.router.allocations.remove("ef");
    world.router.revision += 1;
    world.run(810);
    assert_eq!(world.router.allocations["ef"], before);
    world.router.allocations.insert("ef".into(), 70_000);
    world.router.revision += 1;
    world.run(810);
    assert_eq!(world.router.allocations["ef"], before);
    assert!(world.agree());
}

#[test]
fn what_a_stranger_puts_there_is_not_what_the_agent_holds() {
    let mut world = World::new();
    world.run(5);
    world.router.allocations.insert("ef".into(), 5_000_000);
    world.router.revision += 1;
    world.router.refusals = vec![Code::Overload; 9].into();
    world.run(810);
    assert_eq!(world.router.allocations["ef"], 5_000_000);
    let part: &dyn Part<Notice> = &world.agent.0.parts().allocations;
    let held = part.allocation(&Name::new("ef").unwrap()).unwrap();
    assert_eq!(held.guarantee, Some(Rate(64_000)));
}

/// Somebody deletes an allocation while a transaction of the agent is on its way: the revision in the answer is later than
/// both.
#[test]
fn a_change_just_before_its_own_commit_is_not_hidden_by_it() {
    let mut world = World::new();
    world.delay = Duration::from_millis(128);
    world.run(5_000);
    assert!(world.agree());
    world.load("video", 700_000);
    let before = world.router.submitted.len();
    while world.router.submitted.len() == before {
        world.router.allocations.remove("ef");
        world.run(1);
        if world.router.submitted.len() == before {
            world.router.allocations.insert("ef".into(), 64_000);
        } else {
            // The deletion came first and has a revision of its own.
            world.router.revision += 1;
            let Some((_, Input::Reply(reply))) = world.answers.back_mut() else { panic!("an answer to it") };
            reply.revision += 1;
        }
    }
    world.load("video", 0);
    world.run(3_000);
    assert_eq!(world.router.allocations.get("ef"), Some(&64_000));
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
    while !world.answers.iter().any(|(_, answer)| matches!(answer, Input::Readings(_))) {
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

/// The clock that makes fences was set back by ten years between two instances.
#[test]
fn a_later_instance_takes_over_although_its_fence_is_lower() {
    let mut world = World::new();
    world.run(5);
    world.router.fence = 3_600 * 24 * 3_650 * 1_000_000_000;
    world.succeed(FILE);
    world.run(100);
    assert!(world.router.fence == world.fence && !world.agent.is_superseded() && world.agree());
    // One that has claimed before is not above another.
    world.cut();
    world.router.fence *= 4;
    world.mend();
    world.run(5);
    assert!(world.agent.is_superseded());
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
fn a_tick_that_nobody_asked_for_is_harmless_also_while_an_answer_is_on_its_way() {
    let ran = |more: usize| {
        let mut world = World::new();
        world.run(5);
        world.delay = Duration::from_millis(70);
        world.load("video", 700_000);
        for _ in 0..20_000 {
            world.run(1);
            (0..more).for_each(|_| world.tell(Input::Tick));
        }
        assert!(world.agree() && world.router.allocations["video"] > 700_000);
        let missed: Vec<u64> = world.agent.classes().map(|class| class.counters.missed_readings).collect();
        (world.said, missed)
    };
    let (said, missed) = ran(0);
    assert!(missed.iter().all(|missed| *missed < 20), "{missed:?}");
    assert_eq!(ran(2), (said, missed));
}

#[test]
fn a_refusal_is_tried_again_after_a_pause() {
    let mut world = World::new();
    world.router.refusals.extend([Code::Overload, Code::Overload]);
    world.run(500);
    assert_eq!(world.router.submitted.len(), 1);
    world.run(1_000);
    assert_eq!(world.router.submitted.len(), 2);
    world.run(1_000);
    assert_eq!(world.router.submitted.len(), 3);
    assert!(world.agree());
}

#[test]
fn what_is_refused_for_the_mistake_of_another_part_is_wished_again_after_the_pause() {
    let (file, _) = AgentFile::read("agent.toml", FILE);
    let file = file.unwrap();
    let broker = EmulatedBroker::new(file.broker.0.clone(), SplitMix64::new(1, 0));
    let now = Instant(0);
    let part: &mut dyn Part<Notice> = &mut Allocations::new(&file.classes[..1], None, broker, now);
    let Input::Objects { objects, .. } = Router::new().objects() else { panic!("objects") };
    part.objects(now, &objects);
    let wish = part.wants(now);
    assert_eq!(wish.len(), 1);
    part.refused(now, Duration::from_secs(2), &[]);
    assert_eq!(part.wants(now + Duration::from_millis(1_999)), []);
    assert_eq!(part.wants(now + Duration::from_secs(2)), wish);
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
