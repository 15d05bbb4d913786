//! The broker of a domain: what its links carry, who has reserved how much of it, and who may have more, without I/O or clock.
//!
//! `record` has the rows that a domain keeps, and groups of changes to them. A group is one transaction of the database: the
//! machines of this crate decide in memory, hand out a group, and answer those who asked when it is committed.
//!
//! `topology` reads what a domain consists of from its file and says how the rows become it. `ledger` decides:
//!
//! ```
//! use perhop_broker::ledger::{Input, Ledger, Output, Request, Reserve, Settings, Way};
//! use perhop_broker::record::{ReservationKind, Snapshot};
//! use perhop_broker::topology::DomainFile;
//! use perhop_units::Instant;
//!
//! let file = r#"
//!     node = [{ name = "a", kind = "edge" }, { name = "b", kind = "edge" }]
//!     link = [{ from = "a", port = "wan", to = "b", rate = "10 Mbit/s", classes = { voice = "30 %" } }]
//!     client = [{ name = "phones", kind = "http", role = "operator" }]
//! "#;
//! let (domain, _) = DomainFile::read("domain.toml", file);
//! let domain = domain.expect("nothing is wrong with it");
//!
//! // A new leader loads what the database has, and says what the domain is to be.
//! let now = Instant(1_796_112_000_000_000_000);
//! let mut ledger = Ledger::load(domain.settings, Snapshot::default(), now).expect("it is empty");
//! let topology = domain.topology.into();
//! ledger.handle_input(now, Input::Topology { ask: 1, who: "file".into(), topology });
//!
//! let way = Way::Between { from: "a".into(), to: "b".into() };
//! let request = Request::Reserve(Box::new(Reserve::new("call-7", way, "voice", 80_000)));
//! ledger.handle_input(now, Input::Ask { ask: 2, client: "phones".into(), request });
//!
//! // Whoever drives it writes each group, and says so; answers come behind.
//! let mut granted = false;
//! while let Some(output) = ledger.poll_output() {
//!     match output {
//!         Output::Write(group) => ledger.handle_input(now, Input::Written { number: group.number }),
//!         Output::Answer { ask, result } => granted |= ask == 2 && result.is_ok(),
//!         Output::Tell(_) => {}
//!     }
//! }
//! assert!(granted);
//! ```
#![forbid(unsafe_code)]

pub mod flow;
pub mod lease;
pub mod ledger;
pub mod nodes;
pub mod peer;
pub mod quota;
pub mod record;
pub mod reserved;
pub mod topology;
