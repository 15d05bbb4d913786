//! Conversations of an agent with routers that may fall silent.

use super::*;
use crate::testing::{object, reply};
use perhop_agent::Readings;
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_model::{
    Claim, ClassSpec, ErrorItem, Kind, PortSpec, Reply, Spec, StatePage, StateQuery, Transaction,
};
use perhop_reason::Code;
use serde_json::json;

const FILE: &str = "[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\nmost = \"20 Mbit/s\"\n";

/// A router that gives one object a page and answers as often as it is told.
struct OneByOne {
    answers: usize,
    asked: Vec<String>,
}

impl OneByOne {
    fn ask(&mut self, what: &str) -> Result<(), &'static str> {
        self.asked.push(what.to_owned());
        self.answers = self.answers.checked_sub(1).ok_or("gone")?;
        Ok(())
    }
}

impl Router for OneByOne {
    type Error = &'static str;

    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, &'static str> {
        self.ask("claim")?;
        Ok(if claim.fence == 9 { Ok(()) } else { Err(ErrorItem::new(Code::Forbidden, "owner", "no")) })
    }

    fn page(&mut self, query: &StateQuery) -> Result<StatePage, &'static str> {
        let number: u64 = query.cursor.as_deref().map_or(0, |cursor| cursor.parse().unwrap());
        self.ask(&format!("{} {number}", query.kind.unwrap()))?;
        if query.kind == Some(Kind::Allocation) {
            let digests = std::collections::BTreeMap::new();
            return Ok(StatePage { epoch: 3, revision: 5, objects: Vec::new(), cursor: None, digests });
        }
        let port: PortSpec = serde_json::from_value(json!({ "device": "wan", "rate": 10_000_000 })).unwrap();
        let class: ClassSpec = serde_json::from_value(json!({ "port": "wan" })).unwrap();
        let object = match (query.kind.unwrap(), number) {
            (Kind::Port, _) => object("wan", Spec::Port(port)),
            (_, 0) => object("best", Spec::Class(class)),
            _ => object("ef", Spec::Class(class)),
        };
        let cursor = (object.kind == Kind::Class && number == 0).then(|| "1".to_owned());
        let (epoch, revision, digests) = (3, 5 + number, std::collections::BTreeMap::new());
        Ok(StatePage { epoch, revision, objects: vec![object], cursor, digests })
    }

    fn readings(&mut self) -> Result<Readings, &'static str> {
        self.ask("readings")?;
        Ok(Readings { epoch: 3, revision: 5, at: Instant(0), classes: Vec::new(), policies: Vec::new() })
    }

    fn submit(&mut self, transaction: Transaction) -> Result<Reply, &'static str> {
        self.ask("submit")?;
        Ok(reply(3, 7, transaction.txn_id, Vec::new()))
    }
}

fn agent(fence: u64) -> Agent<EmulatedBroker<SplitMix64>> {
    let (file, diagnostics) = AgentFile::read("agent.toml", FILE);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let broker = EmulatedBroker::new(file.broker.0.clone(), SplitMix64::new(1, 0));
    Agent::new(&file, broker, fence, Duration::from_millis(5), Instant(0))
}

fn appear(agent: &mut Agent<EmulatedBroker<SplitMix64>>, answers: usize) -> (OneByOne, Vec<Notice>, bool) {
    let (mut router, mut said) = (OneByOne { answers, asked: Vec::new() }, Vec::new());
    let told = agent.tell(|| Instant(0), Input::Appeared, Some(&mut router), |_, notice| said.push(notice));
    (router, said, told.is_ok())
}

#[test]
fn a_conversation_goes_on_until_the_agent_has_what_it_wants() {
    let mut agent = agent(9);
    let (router, said, answered) = appear(&mut agent, 100);
    assert_eq!(router.asked, ["claim", "port 0", "class 0", "class 1", "allocation 0", "readings", "submit"]);
    assert!(answered && agent.is_settled());
    // What was said before there was a router is not lost.
    assert!(matches!(&said[..], [Notice::Allocated { .. }]), "{said:?}");
}

#[test]
fn wherever_a_router_falls_silent_the_agent_is_away_and_begins_again() {
    for answers in 0..7 {
        let mut agent = agent(9);
        let (router, _, answered) = appear(&mut agent, answers);
        assert!(!answered && !agent.is_settled() && router.asked.len() == answers + 1, "{answers}");
        agent
            .tell(|| Instant(0), Input::Tick, None::<&mut OneByOne>, |_, _| ())
            .unwrap_or_else(|e| panic!("{e}"));
        let (router, _, answered) = appear(&mut agent, 100);
        assert!(answered && agent.is_settled() && router.asked.len() == 7, "{answers}");
    }
}

#[test]
fn a_claim_that_is_not_allowed_ends_the_conversation() {
    let mut agent = agent(8);
    let (router, said, answered) = appear(&mut agent, 100);
    assert!(answered && agent.is_superseded() && router.asked == ["claim"]);
    assert!(matches!(said.last(), Some(Notice::Superseded { .. })));
}
