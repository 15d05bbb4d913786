//! What a domain tells: to agents what their nodes are to have, to interfaces what becomes of reservations.

use perhop_agent::DomainNews;
use perhop_broker::ledger::Told;
use std::sync::Arc;

/// One piece of news. Whoever is too slow for them begins again with the whole.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// For the agent of a node.
    Node {
        /// Which.
        node: Arc<str>,
        /// What.
        news: DomainNews,
    },
    /// Something became of a reservation without its owner's doing.
    Told(Told),
    /// Who may ask has changed.
    Clients,
    /// What was told may not be so: begin again.
    Anew,
}

/// All that a node has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// Whether the domain has such a node.
    pub exists: bool,
    /// Shares and flows.
    pub news: Vec<DomainNews>,
}
