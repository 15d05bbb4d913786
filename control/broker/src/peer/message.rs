//! What a domain's broker hears from and says to its neighbours, its ledger and its clients.

use super::PeerFile;
use crate::lease::{self, Ask, Decision, End, FlowId, LeaseId, Refusal};
use perhop_units::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a domain is among others, and how it uses what they let it have.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub domain: String,
    /// By which neighbour another domain is reached; a neighbour by itself. A neighbour's node in the ledger has its name.
    pub routes: BTreeMap<String, String>,
    /// How leases at each neighbour are used, and single flows of domains behind it. A neighbour that is not here is not asked.
    pub leases: BTreeMap<String, lease::Settings>,
    /// Most deals at a time.
    pub most_deals: usize,
}

impl Settings {
    /// Of a domain with these neighbours.
    pub fn of<'a>(domain: &str, peers: impl Iterator<Item = &'a PeerFile>, most_deals: usize) -> Self {
        let (mut routes, mut leases) = (BTreeMap::new(), BTreeMap::new());
        for peer in peers {
            let reached = peer.behind.iter().chain([&peer.name]);
            routes.extend(reached.map(|domain| (domain.clone(), peer.name.clone())));
            leases.insert(peer.name.clone(), peer.leases.clone());
        }
        Self { domain: domain.to_owned(), routes, leases, most_deals }
    }
}

/// What a deal is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DealId {
    /// A domain's lease, or its flow that ends here.
    Lease(String, LeaseId),
    /// A flow of this domain's that ends in another.
    Flow(FlowId),
}

/// At whom this domain holds something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// At a neighbour: aggregates.
    Neighbour(String),
    /// At the last domain: single flows.
    Last(String),
}

/// A message from one domain to another; those in between pass it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The domain that speaks.
    pub from: String,
    /// The domain that is spoken to.
    pub to: String,
    /// How many may still pass it on.
    pub hops: u8,
    /// What is said.
    pub body: Body,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A lease is to have so much.
    Ask(Ask),
    /// It has.
    Decision(Decision),
    /// It has only so much from now on, after the question of this number.
    Reduced(Decision),
}

/// A client's request for a flow that ends in another domain: new, changed or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowAsk {
    /// The flow.
    pub flow: FlowId,
    /// Ascends with every change that its client makes.
    pub version: u64,
    /// Logical class.
    pub class: String,
    /// The edge of this domain where it enters.
    pub from: String,
    /// The domain where it ends …
    pub domain: String,
    /// … and the edge there where it leaves.
    pub edge: String,
    /// What it is to have in all, bit/s: 1 or more.
    pub bps: u64,
    /// It ends so long after this request, unless it is renewed.
    pub lifetime: Duration,
}

/// What is debited in this domain's ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// For which deal: one account each.
    pub deal: DealId,
    /// Logical class.
    pub class: String,
    /// Node where the traffic enters.
    pub enter: String,
    /// Node where it leaves; none = somewhere in this domain, which the single flows will say: each of them is debited on its whole
    /// way, so nothing is debited here.
    pub leave: Option<String>,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A neighbour can be reached, or reached again.
    Back(String),
    /// It cannot: nothing that was asked of it will be answered.
    Lost(String),
    /// A message that a neighbour has sent or passed on.
    Message(String, Envelope),
    /// The ledger has answered [`Output::Debit`] with this number.
    Debited(DealId, u64, Result<(), Refusal>),
    /// The ledger has taken an account back, by itself or at an operator's will, but for so much, bit/s.
    Taken(DealId, u64),
    /// A client asks.
    Flow(FlowAsk),
    /// A client wants a flow no more.
    Release(FlowId),
    /// Time passes.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a message to, or by way of, a neighbour.
    Send(String, Envelope),
    /// An account of the ledger is to have `bps` in all; less is never refused. Answered once.
    Debit {
        /// The account.
        account: Account,
        /// Ascending.
        number: u64,
        /// bit/s; 0 closes it.
        bps: u64,
        /// It ends so long from now unless it is renewed.
        lifetime: Duration,
    },
    /// An account lives so long from now. Not answered.
    Renew {
        /// The account.
        account: Account,
        /// From now.
        lifetime: Duration,
    },
    /// Answer a client. A refused change leaves the flow as it was.
    Answer {
        /// The flow.
        flow: FlowId,
        /// The version that was asked for.
        version: u64,
        /// Whether it has what it asked for.
        result: Result<(), Refusal>,
    },
    /// A flow has been released everywhere, or was not there.
    Released(FlowId),
    /// Tell a client that a flow is no more.
    Ended(FlowId, End),
}
