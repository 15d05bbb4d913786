//! Scripts of the whole machine in virtual time against a router that does what the contract says.

use super::*;
use crate::agent::Agent;
use crate::file::AgentFile;
use crate::notice::Output;
use crate::testing::{object, reply};
use perhop_agent::ClassReading;
use perhop_agent::Input;
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_model::{ClassSpec, Owner, PortSpec, Transaction};
use proptest::prelude::*;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
/// A T1, as in reddy.md.
const T1: u64 = 1_536_000;

/// A policy in the router.
#[derive(Clone, Debug)]
struct Held {
    owner: Owner,
    id: u64,
    spec: serde_json::Value,
    flows: u32,
}

/// What a router does of the contract as far as links go, and its link, which changes when `link_at` says so.
struct World {
    now: Instant,
    agent: Agent<EmulatedBroker<SplitMix64>>,
    epoch: u64,
    revision: u64,
    fence: u64,
    port: u64,
    policies: BTreeMap<String, Held>,
    /// As the router's file has them.
    file: BTreeMap<String, Held>,
    voice_bytes: u64,
    voice_rate: u64,
    refusals: VecDeque<(Code, Option<usize>)>,
    delay: Duration,
    answers: VecDeque<(Instant, Input)>,
    reachable: bool,
    submitted: Vec<Transaction>,
    looks: u64,
    said: Vec<Notice>,
    /// Every change of a rate: when, whose, what.
    rates: Vec<(u64, String, u64)>,
}

fn agent(file: &str, fence: u64, now: Instant) -> Agent<EmulatedBroker<SplitMix64>> {
    let (file, diagnostics) = AgentFile::read("agent.toml", file);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let broker = EmulatedBroker::new(file.broker.0.clone(), SplitMix64::new(1, 0));
    Agent::new(&file, broker, fence, Duration::from_millis(5), now)
}

impl World {
    /// A router with these policies of its file, each with what is not its default.
    fn new(agent_file: &str, policies: &[(&str, serde_json::Value)]) -> Self {
        let now = Instant(5_000 * MS);
        let held = |(i, (name, spec)): (usize, &(&str, serde_json::Value))| {
            let held = Held { owner: Owner::File, id: i as u64 + 1, spec: spec.clone(), flows: 0 };
            ((*name).to_owned(), held)
        };
        let policies: BTreeMap<String, Held> = policies.iter().enumerate().map(held).collect();
        Self {
            now,
            agent: agent(agent_file, 1, now),
            epoch: 4,
            revision: 9,
            fence: 0,
            port: T1,
            file: policies.clone(),
            policies,
            voice_bytes: 12_345,
            voice_rate: 0,
            refusals: VecDeque::new(),
            delay: Duration::ZERO,
            answers: VecDeque::new(),
            reachable: true,
            submitted: Vec::new(),
            looks: 0,
            said: Vec::new(),
            rates: Vec::new(),
        }
    }

    fn started(agent_file: &str, policies: &[(&str, serde_json::Value)]) -> Self {
        let mut this = Self::new(agent_file, policies);
        this.appear();
        this
    }

    fn appear(&mut self) {
        while self.agent.poll_output().is_some() {}
        self.reachable = true;
        self.tell(Input::Appeared);
    }

    fn gone(&mut self) {
        self.reachable = false;
        self.answers.clear();
        self.tell(Input::Gone);
    }

    fn restart(&mut self) {
        (self.epoch, self.revision, self.fence) = (self.epoch + 1, 1, 0);
        let flows: BTreeMap<String, u32> =
            self.policies.iter().map(|(name, held)| (name.clone(), held.flows)).collect();
        self.policies = self.file.clone();
        for (name, held) in &mut self.policies {
            held.flows = flows.get(name).copied().unwrap_or(0);
        }
        self.voice_bytes = 0;
    }

    fn rate(&self, name: &str) -> u64 {
        self.policies[name].spec["rate"].as_u64().unwrap_or(0)
    }

    fn flows(&mut self, name: &str, flows: u32) {
        self.policies.get_mut(name).unwrap().flows = flows;
    }

    /// Somebody patches a policy.
    fn patch(&mut self, name: &str, fields: &[(&str, u64)]) {
        for (key, value) in fields {
            self.policies.get_mut(name).unwrap().spec[*key] = (*value).into();
        }
        self.revision += 1;
    }

    /// A client asks.
    fn ask(&mut self, name: &str, min: u64, peak: u64) {
        let owner = Owner::Api(Name::new("client").unwrap());
        let id = 100 + self.revision;
        let spec = json!({ "min": min, "peak": peak, "rate": 0 });
        self.policies.insert(name.to_owned(), Held { owner, id, spec, flows: 0 });
        self.revision += 1;
    }

    fn sum(&self) -> u64 {
        self.policies.keys().map(|name| self.rate(name)).sum()
    }

    fn objects(&self) -> Input {
        let state = |name: &str, owner: &Owner, id, spec: Spec| ObjectState {
            owner: owner.clone(),
            id,
            version: self.revision,
            ..object(name, spec)
        };
        let port: PortSpec = serde_json::from_value(json!({ "rate": self.port })).unwrap();
        let class: ClassSpec = serde_json::from_value(json!({ "port": "wan" })).unwrap();
        let mut objects = vec![
            state("wan", &Owner::File, 1, Spec::Port(port)),
            state("voice", &Owner::File, 1, Spec::Class(class)),
        ];
        for (name, held) in &self.policies {
            let spec = Spec::from_value(Kind::AbrPolicy, &held.spec.clone()).unwrap();
            objects.push(state(name, &held.owner, held.id, spec));
        }
        Input::Objects { revision: self.revision, objects }
    }

    fn readings(&mut self) -> Input {
        self.looks += 1;
        let carried_bytes = self.voice_bytes;
        let voice = ClassReading { carried_bytes, offered_bytes: carried_bytes, backlog_bytes: 0 };
        Input::Readings(Readings {
            epoch: self.epoch,
            revision: self.revision,
            at: self.now,
            classes: vec![(Name::new("voice").unwrap(), voice)],
            policies: self
                .policies
                .iter()
                .map(|(name, held)| (Name::new(name).unwrap(), held.flows))
                .collect(),
        })
    }

    fn submit(&mut self, transaction: &Transaction) -> Input {
        self.submitted.push(transaction.clone());
        let mut error = (transaction.fence < self.fence).then_some((Code::Fenced, None));
        if error.is_none() && transaction.force {
            error = self.refusals.pop_front();
        }
        if error.is_none() {
            let missing = transaction.ops.iter().position(|op| {
                matches!(op, Op::Patch { kind: Kind::AbrPolicy, name, .. } if !self.policies.contains_key(name.as_str()))
            });
            error = missing.map(|op| (Code::NotFound, Some(op)));
        }
        if error.is_none() {
            transaction.ops.iter().for_each(|op| self.apply(op, transaction.force));
        }
        let item = |(code, op)| ErrorItem { op, ..ErrorItem::new(code, "", "no") };
        let errors: Vec<ErrorItem> = error.into_iter().map(item).collect();
        Input::Reply(reply(self.epoch, self.revision, transaction.txn_id, errors))
    }

    fn apply(&mut self, op: &Op, force: bool) {
        match op {
            Op::ReplaceOwned { kinds, objects } => {
                assert!(!force && *kinds == [Kind::Allocation] && objects.is_empty());
                return;
            }
            Op::Patch { kind: Kind::AbrPolicy, name, fields, .. } => {
                assert!(force, "the policies are of others");
                let held = self.policies.get_mut(name.as_str()).unwrap();
                for (key, value) in fields.as_object().unwrap() {
                    assert!(["rate", "min", "refused"].contains(&key.as_str()), "{key} is the owner's");
                    held.spec[key] = value.clone();
                }
                let rate = fields["rate"].as_u64().unwrap();
                assert!((1_000..=1_000_000_000_000).contains(&rate), "{rate} is out of range");
                self.rates.push((self.ms(), name.to_string(), rate));
            }
            Op::Patch { kind: Kind::Port, name, fields, .. } => {
                assert!(force && name.as_str() == "wan");
                self.port = fields["rate"].as_u64().unwrap();
                self.rates.push((self.ms(), "port".to_owned(), self.port));
            }
            other => panic!("an agent does not {other:?}"),
        }
        self.revision += 1;
    }

    /// Since the agent's start.
    fn ms(&self) -> u64 {
        self.now.0 / MS - 5_000
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
                Output::Claim(claim) if claim.fence < self.fence => {
                    Input::Claimed(Err(ErrorItem::new(Code::Fenced, "fence", "no")))
                }
                Output::Claim(claim) => {
                    self.fence = claim.fence;
                    Input::Claimed(Ok(()))
                }
                Output::ReadObjects(kinds) => {
                    assert!(kinds.contains(&Kind::AbrPolicy));
                    self.objects()
                }
                Output::ReadClasses => self.readings(),
                Output::Submit(transaction) => self.submit(&transaction),
            };
            self.answers.push_back((self.now + self.delay, answer));
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        self.voice_bytes += self.voice_rate / 8_000;
        while self.answers.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, input) = self.answers.pop_front().unwrap();
            self.tell(input);
        }
        if self.agent.next_wakeup().is_some_and(|at| at <= self.now) {
            self.tell(Input::Tick);
        }
    }

    fn run(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.step());
    }
}

const ONE: &str = "[[link]]\nname = \"sat\"\nport = \"wan\"\n[[abr]]\nname = \"bulk\"\n";

fn held(rate: u64) -> serde_json::Value {
    json!({ "rate": rate })
}

#[test]
fn a_policy_has_the_link_while_flows_send_and_its_reserve_while_none_does() {
    let mut world = World::started(ONE, &[("bulk", held(100_000))]);
    world.run(5);
    assert_eq!(world.rate("bulk"), 1_000);
    world.flows("bulk", 32);
    world.run(201);
    assert_eq!(world.rate("bulk"), T1);
    // What the flows share is the link whatever their number: nothing to do.
    let before = world.submitted.len();
    world.flows("bulk", 1);
    world.run(1_000);
    assert_eq!((world.rate("bulk"), world.submitted.len()), (T1, before));
    world.flows("bulk", 0);
    world.run(201);
    assert_eq!(world.rate("bulk"), 1_000);
    assert!(world.agent.is_settled());
}

#[test]
fn counters_are_read_every_look_and_not_more_often() {
    let mut world = World::started(ONE, &[("bulk", held(0))]);
    world.flows("bulk", 3);
    world.run(10_000);
    assert!((50..=52).contains(&world.looks), "{}", world.looks);
    let quick = format!("[bandwidth]\nlook = \"1 s\"\n{ONE}");
    let mut world = World::started(&quick, &[("bulk", held(0))]);
    world.run(10_000);
    assert!((10..=12).contains(&world.looks), "{}", world.looks);
}

#[test]
fn shares_are_by_weight_for_flows_and_for_code_points() {
    let policies = [("a", 5), ("b", 3), ("c", 2)].map(|(name, weight)| (name, json!({ "weight": weight })));
    let abr = |more: &str| {
        let one = |name: &str| format!("[[abr]]\nname = \"{name}\"\n{more}");
        format!("[[link]]\nname = \"sat\"\nrate = \"1 Mbit/s\"\n{}{}{}", one("a"), one("b"), one("c"))
    };
    let mut of_policies = World::started(&abr("weighted = \"policy\"\n"), &policies);
    let mut of_flows = World::started(&abr(""), &policies);
    for world in [&mut of_policies, &mut of_flows] {
        for (name, flows) in [("a", 1), ("b", 7), ("c", 12)] {
            world.flows(name, flows);
        }
        // An agent that starts among flows waits once for what may have been freed.
        world.run(1_201);
    }
    let rates = |world: &World| ["a", "b", "c"].map(|name| world.rate(name));
    // 5:3:2 for all flows of each, and for each flow.
    assert_eq!(rates(&of_policies), [500_000, 300_000, 200_000]);
    assert_eq!(rates(&of_flows), [100_000, 420_000, 480_000]);
    // One that is silent leaves its share to the others.
    of_policies.flows("a", 0);
    of_policies.run(201);
    assert_eq!(rates(&of_policies), [1_000, 599_400, 399_600]);
}

#[test]
fn a_contract_has_its_share_on_each_of_its_links() {
    let file = "[[link]]\nname = \"access\"\nrate = \"1 Mbit/s\"\n[[link]]\nname = \"core\"\nrate = \"10 Mbit/s\"\n\
                [[abr]]\nname = \"sla/a\"\nlinks = [\"access\", \"core\"]\nmin = \"700 kbit/s\"\n\
                [[abr]]\nname = \"sla/b\"\nlinks = [\"access\"]\npeak = \"100 kbit/s\"\n\
                [[abr]]\nname = \"sla/c\"\nlinks = [\"core\"]\n";
    let mut world = World::started(file, &[("sla/a", held(0)), ("sla/b", held(0)), ("sla/c", held(0))]);
    world.flows("sla/a", 1);
    world.flows("sla/b", 2);
    world.flows("sla/c", 4);
    world.run(201);
    let rates = ["sla/a", "sla/b", "sla/c"].map(|name| world.rate(name));
    // Each of the three flows on the access link gets 100 kbit/s beside the minimum; the core has the rest.
    assert_eq!(rates, [800_000, 200_000, 9_200_000]);
}

#[test]
fn what_classes_before_use_is_taken_off() {
    let file = "[[link]]\nname = \"sat\"\nport = \"wan\"\nabove = [\"voice\"]\nmargin = \"10 %\"\n[[abr]]\nname = \"bulk\"\n";
    let mut world = World::started(file, &[("bulk", held(50_000))]);
    world.flows("bulk", 64);
    world.run(150);
    assert_eq!(world.rate("bulk"), 50_000, "nothing is known yet of what voice uses");
    world.run(1_100);
    assert_eq!(world.rate("bulk"), T1);
    // eight sources of 92 kbit/s. An interval of which they are a part counts, and one more at the most.
    world.voice_rate = 736_000;
    world.run(401);
    assert_eq!(world.rate("bulk"), T1 - 809_600);
    // It is kept for two windows of ten looks.
    world.voice_rate = 0;
    world.run(1_500);
    assert_eq!(world.rate("bulk"), T1 - 809_600);
    world.run(2_800);
    assert_eq!(world.rate("bulk"), T1);
}

/// The link of, which the agent's file knows.
const STEPS: &str = "[[link]]\nname = \"sat\"\nrate = \"1536 kbit/s\"\nrepeat = \"40 s\"\n\
                     [[link.change]]\nat = \"0 s\"\nrate = \"1536 kbit/s\"\n\
                     [[link.change]]\nat = \"20 s\"\nrate = \"512 kbit/s\"\n[[abr]]\nname = \"bulk\"\n";

#[test]
fn lower_rates_go_in_before_the_link_and_higher_ones_with_it() {
    let mut world = World::started(STEPS, &[("bulk", held(0))]);
    world.flows("bulk", 32);
    world.run(100_000);
    let seen: Vec<(u64, u64)> = world.rates.iter().skip(1).map(|(at, _, rate)| (*at, *rate)).collect();
    let first = world.rates[0].0;
    assert!(first <= 201, "{first}");
    let expected = [(19_000, 512_000), (40_000, T1), (59_000, 512_000), (80_000, T1), (99_000, 512_000)];
    assert_eq!(seen[..], expected.map(|(at, rate)| (at, rate)));
}

#[test]
fn a_port_that_the_agent_sets_follows_the_plan_between_the_rates() {
    let file = STEPS.replace("rate = \"1536 kbit/s\"\nrepeat", "port = \"wan\"\nset_port = true\nrepeat");
    let mut world = World::started(&file, &[("bulk", held(0))]);
    world.flows("bulk", 32);
    world.run(45_000);
    let seen: Vec<(u64, &str, u64)> =
        world.rates.iter().skip(1).map(|(at, name, rate)| (*at, name.as_str(), *rate)).collect();
    let expected =
        [(19_000, "bulk", 512_000), (20_000, "port", 512_000), (40_000, "port", T1), (40_001, "bulk", T1)];
    assert_eq!(seen, expected);
}

#[test]
fn a_port_that_does_not_follow_is_tried_again_and_keeps_the_rates_low() {
    let file = STEPS.replace("rate = \"1536 kbit/s\"\nrepeat", "port = \"wan\"\nset_port = true\nrepeat");
    let mut world = World::started(&file, &[("bulk", held(0))]);
    world.flows("bulk", 32);
    world.run(39_990);
    world.refusals.push_back((Code::NoCapacity, Some(0)));
    world.run(900);
    assert_eq!((world.port, world.rate("bulk")), (512_000, 512_000));
    assert!(world.said.iter().any(|notice| matches!(notice, Notice::Refused { .. })));
    world.run(200);
    assert_eq!((world.port, world.rate("bulk")), (T1, T1));
}

#[test]
fn a_patch_of_the_port_and_an_announcement_of_one_are_followed() {
    let mut world = World::started(ONE, &[("bulk", held(0))]);
    world.flows("bulk", 8);
    world.run(1_000);
    // Without a word: within a look.
    (world.port, world.revision) = (768_000, world.revision + 1);
    world.run(205);
    assert_eq!(world.rate("bulk"), 768_000);
    // Announced: before.
    let at = world.now + Duration::from_secs(3);
    world.tell(Input::Announced { link: Name::new("sat").unwrap(), rate: Rate(300_000), at });
    world.run(1_990);
    assert_eq!(world.rate("bulk"), 768_000);
    world.run(20);
    assert_eq!(world.rate("bulk"), 300_000);
    world.run(1_000);
    (world.port, world.revision) = (300_000, world.revision + 1);
    world.run(1_000);
    assert_eq!(world.rate("bulk"), 300_000);
    // The port is faster again: what was announced has been.
    (world.port, world.revision) = (T1, world.revision + 1);
    world.run(205);
    assert_eq!(world.rate("bulk"), T1);
    for (link, rate, code) in [("fibre", 1, Code::NotFound), ("sat", 0, Code::OutOfRange)] {
        let (link, rate) = (Name::new(link).unwrap(), Rate(rate));
        world.tell(Input::Announced { link, rate, at });
        let said = world.said.last();
        assert!(matches!(said, Some(Notice::NotAnnounced { error, .. }) if error.code == code), "{said:?}");
    }
}

const REQUESTS: &str = "[[link]]\nname = \"sat\"\nrate = \"420 kbit/s\"\n[[abr]]\nname = \"bulk\"\n\
                        [requests]\nlimit = 3\nmost = \"250 kbit/s\"\n";

#[test]
fn a_request_is_granted_between_its_minimum_and_its_peak() {
    let mut world = World::started(REQUESTS, &[("bulk", held(0))]);
    world.flows("bulk", 9);
    world.run(300);
    // Reddy, chapter 1: 100 to 200 kbit/s, and 132 are granted, before the flow begins.
    world.ask("r1", 100_000, 200_000);
    world.run(300);
    assert_eq!((world.rate("r1"), world.rate("bulk")), (132_000, 288_000));
    assert_eq!(world.policies["r1"].spec["min"], 100_000);
    let (policy, min) = (Name::new("r1").unwrap(), Rate(100_000));
    assert!(world.said.contains(&Notice::Granted { policy: policy.clone(), min }));
    assert!(world.agent.policies().any(|report| report.policy == policy && report.granted));
    // More others: less, but never below the minimum. None: the peak.
    world.flows("bulk", 319);
    world.run(300);
    assert_eq!(world.rate("r1"), 101_000);
    world.flows("bulk", 0);
    world.run(300);
    assert_eq!(world.rate("r1"), 200_000);
    // It gives back by going.
    world.policies.remove("r1");
    world.revision += 1;
    world.flows("bulk", 1);
    world.run(300);
    assert_eq!(world.rate("bulk"), 420_000);
    assert_eq!(world.agent.policies().count(), 1);
}

#[test]
fn a_request_that_does_not_fit_is_refused_with_the_reason_and_shares_without_a_promise() {
    let mut world = World::started(REQUESTS, &[("bulk", held(0))]);
    world.flows("bulk", 9);
    world.run(300);
    for name in ["r1", "r2"] {
        world.ask(name, 150_000, 0);
        world.run(300);
    }
    world.ask("r3", 150_000, 0);
    world.run(300);
    assert_eq!(
        (&world.policies["r3"].spec["min"], &world.policies["r3"].spec["refused"]),
        (&json!(0), &json!("no_capacity"))
    );
    let refused = |name: &str, code, min, free| Notice::NotGranted {
        policy: Name::new(name).unwrap(),
        code,
        min: Rate(min),
        free: Rate(free),
    };
    assert!(world.said.contains(&refused("r3", Code::NoCapacity, 150_000, 120_000)), "{:?}", world.said);
    world.flows("r3", 1);
    world.run(1_500);
    // 120 kbit/s are left above the minima for 12 flows.
    assert_eq!(["r1", "r2", "r3"].map(|name| world.rate(name)), [160_000, 160_000, 10_000]);
    // It may ask for less.
    world.patch("r3", &[("min", 100_000)]);
    world.run(1_500);
    assert_eq!((world.rate("r3"), world.policies["r3"].spec["min"].as_u64()), (101_666, Some(100_000)));
    assert!(world.policies["r3"].spec["refused"].is_null(), "the answer is another now");
    // More than one may have, and more than there may be.
    world.ask("r4", 251_000, 0);
    world.ask("r5", 1_000, 0);
    world.run(300);
    assert!(world.said.contains(&refused("r4", Code::LimitReached, 251_000, 0)));
    assert_eq!(world.policies["r4"].spec["refused"], "limit_reached");
    world.policies.remove("r1");
    world.policies.remove("r5");
    world.revision += 1;
    world.ask("r6", 251_000, 0);
    world.run(300);
    assert!(world.said.contains(&refused("r6", Code::OutOfRange, 251_000, 250_000)), "{:?}", world.said);
}

#[test]
fn another_agent_keeps_what_one_has_granted_and_a_slower_link_shortens_all_alike() {
    let file = REQUESTS.replace("rate = \"420 kbit/s\"", "port = \"wan\"");
    let mut world = World::started(&file, &[("bulk", held(0))]);
    world.port = 420_000;
    world.ask("r1", 200_000, 0);
    world.ask("r2", 100_000, 0);
    world.run(500);
    assert!(world.agent.policies().filter(|report| report.granted).count() == 2);
    // Promises of 300 kbit/s and a reserve of 1 on a link of 100.
    (world.port, world.revision) = (100_000, world.revision + 1);
    world.agent = agent(&file, 2, world.now);
    world.answers.clear();
    world.appear();
    world.run(500);
    assert_eq!(world.agent.policies().filter(|report| report.granted).count(), 2);
    let rates = ["r1", "r2", "bulk"].map(|name| world.rate(name));
    assert!((65_000..=67_000).contains(&rates[0]) && (32_000..=34_000).contains(&rates[1]), "{rates:?}");
    assert!(world.sum() <= 100_000, "{rates:?}");
    assert!(world.said.iter().any(|notice| matches!(notice, Notice::Overcommitted { .. })));
    (world.port, world.revision) = (420_000, world.revision + 1);
    world.run(500);
    assert!(world.rate("r1") >= 200_000 && world.rate("r2") >= 100_000);
}

#[test]
fn requests_of_others_are_left_alone_unless_the_file_takes_them() {
    let mut world = World::started(ONE, &[("bulk", held(0)), ("mine", held(7_000))]);
    world.ask("r1", 100_000, 0);
    world.flows("bulk", 1);
    world.flows("mine", 1);
    world.run(500);
    assert_eq!(["bulk", "mine", "r1"].map(|name| world.rate(name)), [T1, 7_000, 0]);
}

#[test]
fn a_restarted_router_and_a_reloaded_file_get_everything_again() {
    let mut world = World::started(ONE, &[("bulk", held(64_000))]);
    world.flows("bulk", 4);
    world.run(1_500);
    assert_eq!(world.rate("bulk"), T1);
    world.restart();
    world.run(300);
    assert_eq!(world.rate("bulk"), T1);
    // The file is read again: its policy has its rate for a look at most.
    world.patch("bulk", &[("rate", 64_000)]);
    world.run(205);
    assert_eq!(world.rate("bulk"), T1);
    world.gone();
    world.run(2_000);
    world.restart();
    world.appear();
    world.run(205);
    assert_eq!(world.rate("bulk"), T1);
}

#[test]
fn a_newer_instance_shuts_this_one_out() {
    let mut world = World::started(ONE, &[("bulk", held(64_000))]);
    world.run(500);
    world.fence = 2;
    world.flows("bulk", 4);
    world.run(500);
    assert!(world.agent.is_superseded() && world.rate("bulk") == 1_000);
    let count = world.submitted.len();
    world.run(2_000);
    assert_eq!(world.submitted.len(), count);
    assert!(matches!(world.said.last(), Some(Notice::Superseded { .. })));
}

#[test]
fn one_policy_that_cannot_be_changed_does_not_keep_the_others_waiting() {
    let file = format!("{ONE}[[abr]]\nname = \"other\"\n");
    let mut world = World::started(&file, &[("bulk", held(500_000)), ("other", held(1_000))]);
    world.refusals.push_back((Code::PendingConfirm, Some(0)));
    world.run(5);
    world.flows("bulk", 1);
    world.flows("other", 3);
    world.run(300);
    // "bulk" keeps what it has, and the other what that leaves.
    assert_eq!((world.rate("bulk"), world.rate("other")), (500_000, T1 - 500_000));
    world.run(1_000);
    assert_eq!((world.rate("bulk"), world.rate("other")), (T1 / 4, T1 - 500_000));
    world.run(1_200);
    assert_eq!((world.rate("bulk"), world.rate("other")), (T1 / 4, T1 * 3 / 4));
    // A refusal of the whole waits for a second.
    world.refusals.push_back((Code::Overload, None));
    world.flows("bulk", 3);
    world.run(900);
    assert_eq!(world.rate("bulk"), T1 / 4);
    world.run(1_600);
    assert_eq!(world.rate("bulk"), T1 / 2);
}

#[test]
fn a_policy_that_is_not_there_and_a_port_without_a_rate_are_told() {
    let mut world = World::new(ONE, &[("bulk", held(64_000))]);
    let bulk = world.policies.remove("bulk").unwrap();
    world.port = 0;
    world.appear();
    world.run(1_000);
    let (policy, link, port) =
        (Name::new("bulk").unwrap(), Name::new("sat").unwrap(), Name::new("wan").unwrap());
    let expected = [Notice::NoRate { link, port }, Notice::NoPolicy { policy }];
    assert!(expected.iter().all(|notice| world.said.iter().filter(|said| *said == notice).count() == 1));
    world.policies.insert("bulk".to_owned(), bulk);
    world.flows("bulk", 1);
    world.revision += 1;
    world.run(1_000);
    assert_eq!(world.rate("bulk"), 64_000, "the link's rate is not known");
    (world.port, world.revision) = (T1, world.revision + 1);
    world.run(300);
    assert_eq!(world.rate("bulk"), T1);
}

#[test]
fn small_changes_wait_unless_the_link_would_carry_too_much() {
    let file = "[bandwidth]\nleast_change = \"10 %\"\n[[link]]\nname = \"sat\"\nport = \"wan\"\n\
                [[abr]]\nname = \"a\"\n[[abr]]\nname = \"b\"\n";
    let mut world = World::started(file, &[("a", held(0)), ("b", held(0))]);
    world.flows("a", 100);
    world.flows("b", 100);
    world.run(300);
    world.flows("a", 105);
    world.run(1_000);
    assert_eq!((world.rate("a"), world.rate("b")), (T1 / 2, T1 / 2));
    world.flows("a", 130);
    world.run(300);
    assert!(world.rate("b") < T1 / 2 && world.rate("a") == T1 / 2, "what b has given up is still on its way");
    world.run(1_300);
    assert!(world.rate("a") > T1 / 2 && world.sum() <= T1);
    (world.port, world.revision) = (T1 - 1_000, world.revision + 1);
    world.run(300);
    assert!(world.sum() <= T1 - 1_000);
}

/// What others have to give up for it may be less than a change that would be made for their own sake.
#[test]
fn one_that_is_due_little_gets_it_from_many_who_hardly_notice() {
    let file = "[[link]]\nname = \"sat\"\nport = \"wan\"\n[[abr]]\nname = \"big\"\n\
                [[abr]]\nname = \"small\"\npeak = \"10 kbit/s\"\n";
    let mut world = World::started(file, &[("big", held(1_000)), ("small", held(1_000))]);
    world.flows("big", 10);
    world.run(3_000);
    assert_eq!(world.rate("big"), T1 - 1_000);
    world.flows("small", 1);
    world.run(3_000);
    assert_eq!((world.rate("big"), world.rate("small")), (T1 - 10_000, 10_000));
    // And among very many.
    let file = "[[link]]\nname = \"sat\"\nport = \"wan\"\n[[abr]]\nname = \"big\"\n[[abr]]\nname = \"new\"\n";
    let mut world = World::started(file, &[("big", held(1_000)), ("new", held(1_000))]);
    world.flows("big", 120);
    world.run(3_000);
    world.flows("new", 1);
    world.run(3_000);
    assert_eq!(world.rate("new"), T1 / 121);
    assert!(world.sum() <= T1);
}

#[test]
fn another_agent_does_not_give_away_what_one_has_just_freed() {
    let file = "[[link]]\nname = \"sat\"\nport = \"wan\"\n[[abr]]\nname = \"a\"\n[[abr]]\nname = \"b\"\n";
    let mut world = World::started(file, &[("a", held(T1 / 2)), ("b", held(T1 / 2))]);
    for name in ["a", "b"] {
        world.patch(name, &[("weight", 1)]);
        world.flows(name, 8);
    }
    world.run(3_000);
    assert_eq!((world.rate("a"), world.rate("b")), (T1 / 2, T1 / 2));
    world.patch("a", &[("weight", 3)]);
    while world.rate("b") == T1 / 2 {
        world.step();
    }
    assert_eq!((world.rate("a"), world.rate("b")), (T1 / 2, T1 / 4));
    let freed = world.ms();
    world.run(300);
    world.agent = agent(file, 2, world.now);
    world.answers.clear();
    world.appear();
    while world.ms() < freed + 1_000 {
        world.step();
        assert_eq!(
            world.rate("a"),
            T1 / 2,
            "{} ms after b gave up what its flows use still",
            world.ms() - freed
        );
    }
    world.run(1_000);
    assert_eq!((world.rate("a"), world.rate("b")), (T1 * 3 / 4, T1 / 4));
}

/// Acceptance: weights changed live a hundred times. The rates are those of the new weights within two looks, two round
/// trips to the router and the time that senders have to hear of lower ones, and in sum never more than the link, neither
/// those in force nor those that senders may still act on.
#[test]
fn a_hundred_changes_of_weights_are_each_in_force_soon() {
    let names = ["g1", "g2", "g3", "g4"];
    let abr = names.map(|name| format!("[[abr]]\nname = \"{name}\"\n")).concat();
    let file = format!("[[link]]\nname = \"sat\"\nport = \"wan\"\n{abr}");
    let policies = names.map(|name| (name, json!({ "weight": 1 })));
    let mut world = World::started(&file, &policies);
    world.delay = Duration::from_millis(2);
    names.iter().for_each(|name| world.flows(name, 8));
    world.run(500);
    let mut random = SplitMix64::new(7, 0);
    let mut lately = std::collections::VecDeque::new();
    for change in 0..100 {
        let weights = names.map(|_| 1 + perhop_allocate::Random::below(&mut random, 8));
        for (name, weight) in names.iter().zip(weights) {
            world.patch(name, &[("weight", weight)]);
        }
        for _ in 0..1_600 {
            world.step();
            assert!(world.sum() <= T1, "change {change}: {}", world.sum());
            let now = names.map(|name| world.rate(name));
            lately.push_back(now);
            if lately.len() > 1_000 {
                lately.pop_front();
            }
            if now != lately[lately.len().saturating_sub(2)] {
                let most = |at: usize| lately.iter().map(|rates| rates[at]).max().unwrap_or_default();
                let may: u64 = (0..names.len()).map(most).sum();
                assert!(may <= T1, "change {change}: {may} within a second");
            }
        }
        let total: u64 = weights.iter().sum();
        for (name, weight) in names.iter().zip(weights) {
            let share = T1 * weight / total;
            assert!(
                world.rate(name).abs_diff(share) * 100 <= share,
                "change {change}: {name} of {weights:?}"
            );
        }
    }
    assert!(world.submitted.len() <= 320, "{}", world.submitted.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 60, ..ProptestConfig::default() })]

    /// Flows, weights, minima, requests, reloads and restarts in any order on a link that changes as its schedule says,
    /// over a slow way: never do policies have more than the link has, and in the end they have all of it.
    #[test]
    fn never_is_more_given_away_than_there_is(
        delay_ms in 0u64..80,
        steps in proptest::collection::vec((0u8..8, 1u64..1_500, 0u64..400_000, 0usize..3), 1..25),
    ) {
        let file = "[[link]]\nname = \"sat\"\nrate = \"1536 kbit/s\"\nrepeat = \"7 s\"\n\
                    [[link.change]]\nat = \"0 s\"\nrate = \"1536 kbit/s\"\n\
                    [[link.change]]\nat = \"4 s\"\nrate = \"512 kbit/s\"\n\
                    [[abr]]\nname = \"a\"\n[[abr]]\nname = \"b\"\nweighted = \"policy\"\n[[abr]]\nname = \"c\"\n\
                    [requests]\n";
        let names = ["a", "b", "c"];
        // Without an agent the file gives no more than the link has at the worst.
        let policies = names.map(|name| (name, held(150_000)));
        let mut world = World::new(file, &policies);
        world.delay = Duration::from_millis(delay_ms);
        world.appear();
        let is_low = |ms: u64| ms % 7_000 >= 4_000;
        let mut requests = 0;
        for (what, ms, value, which) in steps {
            let name = names[which];
            match what {
                0 | 1 => world.flows(name, (value % 40) as u32),
                2 => world.patch(name, &[("weight", 1 + value % 9)]),
                3 => world.patch(name, &[("min", value / 10), ("peak", if value % 2 == 0 { 0 } else { value })]),
                4 => world.restart(),
                // The client holds its flow back until there is an answer.
                5 => {
                    requests += 1;
                    world.ask(&format!("r{requests}"), value, 0);
                }
                6 => {
                    let last = format!("r{requests}");
                    world.policies.remove(&last);
                    world.revision += 1;
                }
                _ => {}
            }
            for _ in 0..ms {
                world.step();
                let has = if is_low(world.ms()) { 512_000 } else { T1 };
                let crossing = world.policies.len() as u64;
                prop_assert!(world.sum() <= has.max(1_000 * crossing), "{} at {} ms", world.sum(), world.ms());
            }
        }
        names.iter().for_each(|name| world.flows(name, 2));
        names.iter().for_each(|name| world.patch(name, &[("min", 0), ("peak", 0)]));
        world.run(7_000);
        while !(1_000..2_500).contains(&(world.ms() % 7_000)) {
            world.run(1);
        }
        prop_assert!(world.sum() + 20_000 >= T1, "{} of the link are given", world.sum());
        prop_assert!(!world.agent.is_superseded());
    }
}
