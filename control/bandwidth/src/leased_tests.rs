//! What is decided beside the router and what a domain has reserved there, in one agent.

use super::*;
use crate::testing::{object, reply};
use perhop_agent::DomainNews;
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::{EmulatedBroker, EmulatedBrokerConfig};
use perhop_broker::lease::InRouter;
use perhop_model::{Given, Name, ObjectState, Op, Put, Spec, TxnId};
use perhop_units::Rate;
use serde_json::json;

const FILE: &str = "[controller]\nnode = \"west\"\n[[lease]]\nname = \"voice\"\nclasses = [\"wan/voice\"]\nto = [\"east\"]\n";

fn router() -> Vec<ObjectState> {
    let port = serde_json::from_value(json!({"rate": 10_000_000})).unwrap();
    let class = serde_json::from_value(json!({"port": "wan", "guarantee": {"ppm": 10_000}})).unwrap();
    vec![object("wan", Spec::Port(port)), object("wan/voice", Spec::Class(class))]
}

struct Rig(Agent<EmulatedBroker<SplitMix64>>, u64);

impl Rig {
    fn tell(&mut self, input: Input) -> Vec<Output> {
        self.0.handle_input(Instant(1_000_000_000), input);
        std::iter::from_fn(|| self.0.poll_output()).collect()
    }

    /// Says it, has the router commit what is submitted, and gives the guarantees, kbit/s, and what was told of leases.
    fn done(&mut self, input: Input) -> (Vec<u64>, Vec<InRouter>) {
        let (mut outputs, mut given, mut told) = (self.tell(input), Vec::new(), Vec::new());
        while !outputs.is_empty() {
            let mut next = Vec::new();
            for output in outputs {
                match output {
                    Output::Submit(transaction) => {
                        given.extend(transaction.ops.iter().map(|op| match op {
                            Op::Put(Put { given: Given::Object(object), .. }) => match &object.spec {
                                Spec::Allocation(spec) => spec.guarantee.map_or(0, |rate| rate.0 / 1_000),
                                other => panic!("{other:?}"),
                            },
                            _ => 0,
                        }));
                        self.1 += 1;
                        next.extend(self.tell(Input::Reply(reply(1, self.1, TxnId([0; 16]), Vec::new()))));
                    }
                    Output::Say(Notice::Leased(became)) => told.push(became),
                    _ => {}
                }
            }
            outputs = next;
        }
        (given, told)
    }

    fn leased(&mut self, number: u64, kbit: u64) -> (Vec<u64>, Vec<InRouter>) {
        self.done(Input::Leased { class: "voice".into(), number, bps: kbit * 1_000 })
    }

    fn share(&mut self, kbit: u64) -> Vec<u64> {
        let (port, class) = (Name::new("wan").unwrap(), Name::new("voice").unwrap());
        self.done(Input::Domain(DomainNews::Share { port, class, bps: Rate(kbit * 1_000) })).0
    }
}

fn has(number: u64) -> Vec<InRouter> {
    vec![InRouter { class: "voice".into(), number, refused: None }]
}

/// An agent whose router has answered everything, in a domain that has told all.
fn running() -> Rig {
    let (file, diagnostics) = AgentFile::read("agent.toml", FILE);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let broker = EmulatedBroker::new(EmulatedBrokerConfig::default(), SplitMix64::new(1, 0));
    let mut rig = Rig(Agent::new(&file, broker, 1, Duration::from_millis(5), Instant::ZERO), 1);
    rig.tell(Input::Appeared);
    rig.tell(Input::Claimed(Ok(())));
    rig.tell(Input::Objects { revision: 1, objects: router() });
    rig.tell(Input::Domain(DomainNews::Begin));
    rig.tell(Input::Domain(DomainNews::Complete));
    rig
}

#[test]
fn a_class_has_the_larger_of_leases_and_shares_and_each_lease_is_told_once() {
    let mut rig = running();
    assert_eq!(rig.leased(1, 0), (vec![], has(1)), "the router has nothing of it");
    assert_eq!(rig.leased(2, 1_000), (vec![1_000], has(2)));
    // The domain's share has the lease in it: nothing is added up.
    let given = rig.share(1_000);
    assert!(given.iter().all(|kbit| *kbit == 1_000), "{given:?}");
    assert_eq!(rig.share(1_500), [1_500], "a reservation of somebody's beside it");
    assert_eq!(rig.leased(3, 2_000), (vec![2_000], has(3)));
    assert_eq!(rig.share(500), [2_000], "what the lease needs stays");
    assert_eq!(rig.leased(4, 0), (vec![500], has(4)), "and then what the domain has reserved");
}

#[test]
fn what_a_router_has_not_is_refused() {
    let mut rig = running();
    let (given, told) = rig.done(Input::Leased { class: "video".into(), number: 1, bps: 1 });
    assert!(given.is_empty() && told[0].refused.is_some(), "{told:?}");
}
