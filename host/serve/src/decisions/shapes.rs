//! What the machine is told, what it wants, and what it keeps.

use crate::controller::{CreateReservation, ShownReservation};
use perhop_agent::DomainNews;
use perhop_broker::lease::{Ask, Input, LeaseId, Settings};
use perhop_broker::ledger::Refusal;
use perhop_broker::record::ReservationId;
use perhop_reason::Code;
use perhop_units::Dscp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// Whoever waits for an answer about a flow.
pub(super) type Waiter = oneshot::Sender<Result<ShownReservation, Refusal>>;

/// What is decided beside a router, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedHere {
    /// The router's node in the domain.
    pub node: String,
    /// How leases are used.
    pub leases: Settings,
    /// By logical class: those of the settings.
    pub classes: BTreeMap<String, DecidedClass>,
}

/// A logical class of which flows are admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecidedClass {
    /// Nodes where its traffic may leave the domain; empty = any.
    pub to: Vec<String>,
    /// Code point of packets whose flow does not say.
    pub dscp: Option<Dscp>,
}

/// What the machine is told.
#[derive(Debug)]
pub enum Question {
    /// A client wants a flow.
    Reserve {
        /// The client.
        owner: String,
        /// What it wants.
        wanted: Box<CreateReservation>,
        /// One that this key has already is to be as this; otherwise only the same is taken again.
        changes: bool,
        /// Who is answered.
        done: oneshot::Sender<Result<ShownReservation, Refusal>>,
    },
    /// A client wants a flow to live on.
    Renew {
        /// The client.
        owner: String,
        /// The flow's number.
        id: ReservationId,
        /// How long from now, ms; none = as usual.
        lifetime_ms: Option<u64>,
        /// Who is answered.
        done: oneshot::Sender<Result<ShownReservation, Refusal>>,
    },
    /// A client wants a flow no more.
    Release {
        /// The client; none = whosever it is.
        owner: Option<String>,
        /// The flow's number.
        id: u64,
        /// Who is answered.
        done: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Somebody wants the numbers and keys of a client's flows whose key begins so.
    Owned {
        /// The client.
        owner: String,
        /// How keys begin.
        begin: String,
        /// Who is answered.
        done: oneshot::Sender<Vec<(ReservationId, String)>>,
    },
    /// Somebody wants to see all flows.
    List(oneshot::Sender<Vec<ShownReservation>>),
    /// The controller or the router says this, or time passes.
    Lease(Input),
}

/// What the machine wants done, once what it keeps is kept.
#[derive(Debug)]
pub enum Wish {
    /// Ask the controller about the lease of this name.
    Ask(String, Ask),
    /// The router is to have so much for a class: [`perhop_agent::Input::Leased`].
    Want {
        /// Logical class.
        class: String,
        /// Ascending.
        number: u64,
        /// bit/s.
        bps: u64,
    },
    /// The router is to have a flow, or has it no more.
    News(DomainNews),
    /// Answer a client.
    Answer(oneshot::Sender<Result<ShownReservation, Refusal>>, Box<Result<ShownReservation, Refusal>>),
    /// Answer a client that a flow is given back.
    Released(oneshot::Sender<Result<(), Refusal>>),
    /// Tell everybody that a flow is gone, and why; [`Code::Forbidden`] it was released.
    Gone(ReservationId, Code),
}

/// One value by its name; none = it is to be forgotten. Times in it are of the clock of the day.
#[derive(Clone, Debug, PartialEq)]
pub struct Keep {
    /// Unique.
    pub name: String,
    /// The value.
    pub value: Option<Value>,
}

/// How a lease is called: class, where it leads, and for a flow's own a hash of whose.
pub fn lease_name(lease: &LeaseId) -> String {
    let shared = format!("{}/{}", lease.class, lease.to.as_deref().unwrap_or_default());
    let Some(flow) = &lease.flow else { return shared };
    let hash = Sha256::new().chain_update(&flow.owner).chain_update([0]).chain_update(&flow.idem).finalize();
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{shared}/{digits}")
}
