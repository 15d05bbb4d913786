//! A domain to try things in, and whoever drives its ledger.

use crate::database::Database;
use perhop_broker::ledger::{
    AskId, Granted, Held, Input, Ledger, Output, Refusal, Request, Reserve, Settings, Told, Way,
};
use perhop_broker::record::{Group, Snapshot};
use perhop_broker::topology::{DomainFile, Topology};
use perhop_reason::Code;
use perhop_units::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// When everything begins, ms: a Tuesday at 08:00 UTC.
pub const BEGIN_MS: u64 = 1_796_112_000_000;

/// Two edges and a peer behind two core routers, 100 bit/s everywhere, and three clients.
///
/// ```text
/// a ── c ── d ── b
///           └─── p
/// ```
pub const DOMAIN: &str = r#"
node = [
    { name = "a", kind = "edge" }, { name = "b", kind = "edge" }, { name = "p", kind = "peer" },
    { name = "c", kind = "core" }, { name = "d", kind = "core" },
]
[[link]]
from = "a"
port = "up"
to = "c"
rate = "100 bit/s"
classes = { voice = "30 bit/s", video = "50 %" }
both = true
back_port = "to-a"
[[link]]
from = "c"
port = "to-d"
to = "d"
rate = "100 bit/s"
classes = { voice = "30 bit/s", video = "50 %" }
both = true
back_port = "to-c"
[[link]]
from = "d"
port = "to-b"
to = "b"
rate = "100 bit/s"
classes = { voice = "30 bit/s", video = "50 %" }
both = true
back_port = "up"
[[link]]
from = "d"
port = "to-p"
to = "p"
rate = "100 bit/s"
classes = { voice = "20 bit/s" }
both = true
back_port = "up"
[[client]]
name = "ann"
kind = "http"
role = "agent"
[[client]]
name = "ben"
kind = "http"
role = "agent"
[[client]]
name = "op"
kind = "http"
role = "operator"
"#;

pub fn topology(text: &str) -> Arc<Topology> {
    let (file, diagnostics) = DomainFile::read("domain.toml", text);
    Arc::new(file.unwrap_or_else(|| panic!("{diagnostics}")).topology)
}

pub fn reserve(key: &str, from: &str, to: &str, bps: u64) -> Reserve {
    Reserve::new(key, Way::Between { from: from.into(), to: to.into() }, "voice", bps)
}

/// A ledger, its database, and all that it said.
pub struct World {
    pub ledger: Ledger,
    pub database: Database,
    pub now_ms: u64,
    /// Groups wait until they are told what becomes of them; else they are written at once.
    pub holds: bool,
    pub flight: Option<Group>,
    pub answers: BTreeMap<AskId, Result<Granted, Refusal>>,
    pub told: Vec<Told>,
    last_ask: AskId,
}

impl World {
    /// Whether Ann was told that this reservation of hers is gone, and why.
    pub fn is_gone(&self, gone: u64, why: Code) -> bool {
        let is = |told: &Told| matches!(told, Told::Gone { id, owner, code, .. } if (*id, &**owner, *code) == (gone, "ann", why));
        self.told.iter().any(is)
    }

    pub fn new(settings: Settings, text: &str) -> Self {
        let now = Instant(BEGIN_MS * 1_000_000);
        let mut world = Self {
            ledger: Ledger::load(settings, Snapshot::default(), now).expect("it is empty"),
            database: Database::default(),
            now_ms: BEGIN_MS,
            holds: false,
            flight: None,
            answers: BTreeMap::new(),
            told: Vec::new(),
            last_ask: 0,
        };
        assert_eq!(world.become_(&topology(text)), Ok(Granted::Taken));
        world.told.clear();
        world
    }

    pub fn input(&mut self, input: Input) {
        self.ledger.handle_input(Instant(self.now_ms * 1_000_000), input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.ledger.poll_output() {
            match output {
                Output::Write(group) => {
                    assert!(self.flight.is_none(), "two groups at once");
                    self.flight = Some(group);
                    if !self.holds {
                        self.write();
                    }
                }
                Output::Answer { ask, result } => {
                    assert!(self.answers.insert(ask, result).is_none(), "{ask} is answered twice");
                }
                Output::Tell(told) => self.told.push(told),
            }
        }
    }

    /// The group on its way is committed.
    pub fn write(&mut self) {
        let Some(group) = self.flight.take() else { return };
        self.database.commit(&group);
        self.input(Input::Written { number: group.number });
    }

    /// The group on its way is not.
    pub fn fail(&mut self, retry_after_ms: u32) {
        let Some(group) = self.flight.take() else { return };
        self.input(Input::Failed { number: group.number, code: Code::BackendFailed, retry_after_ms });
    }

    pub fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.input(Input::Wake);
    }

    pub fn next_ask(&mut self) -> AskId {
        self.last_ask += 1;
        self.last_ask
    }

    /// Asks, and gives the number of it.
    pub fn send(&mut self, client: &str, request: Request) -> AskId {
        let ask = self.next_ask();
        self.input(Input::Ask { ask, client: client.into(), request });
        ask
    }

    /// Asks, and gives the answer, which must be there.
    pub fn ask(&mut self, client: &str, request: Request) -> Result<Granted, Refusal> {
        let ask = self.send(client, request);
        self.answers[&ask].clone()
    }

    pub fn reserve(&mut self, client: &str, reserve: Reserve) -> Result<Held, Refusal> {
        match self.ask(client, Request::Reserve(Box::new(reserve)))? {
            Granted::Held(held) => Ok(held),
            other => panic!("{other:?}"),
        }
    }

    pub fn release(&mut self, client: &str, id: u64) -> Result<Granted, Refusal> {
        self.ask(client, Request::Release { id })
    }

    pub fn become_(&mut self, topology: &Arc<Topology>) -> Result<Granted, Refusal> {
        let ask = self.next_ask();
        self.input(Input::Topology { ask, who: "file".into(), topology: topology.clone() });
        self.answers[&ask].clone()
    }

    pub fn rate(&mut self, node: &str, port: &str, bps: u64) {
        let link = self.ledger.link(node, port).expect("it is there");
        self.input(Input::Rate { who: "test".into(), link, bps });
    }

    /// Another leader loads what the database has. Nobody is answered any more.
    pub fn restart(&mut self, settings: Settings) {
        self.flight = None;
        let now = Instant(self.now_ms * 1_000_000);
        self.ledger = Ledger::load(settings, self.database.snapshot(), now).expect("the rows are whole");
        self.same_rows();
    }

    /// The ledger has the rows of the database.
    pub fn same_rows(&self) {
        let (mut ledger, database) = (self.ledger.snapshot(), self.database.snapshot());
        assert!(ledger.last_reservation >= database.last_reservation);
        ledger.last_reservation = database.last_reservation;
        assert_eq!(ledger, database);
    }

    pub fn free(&self, node: &str, port: &str, class: &str) -> u64 {
        let links = self.ledger.links();
        let link = links.iter().find(|link| link.node == node && link.port == port).expect("it is there");
        link.classes.iter().find(|view| &*view.class == class).expect("it is there").free_bps
    }
}
