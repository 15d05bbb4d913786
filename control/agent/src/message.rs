//! What goes into a session and what comes out.

use crate::domain::DomainNews;
use crate::reading::Readings;
use perhop_model::{Claim, ErrorItem, Kind, Name, ObjectState, Reply, Transaction};
use perhop_units::{Instant, Rate};
use serde::{Deserialize, Serialize};

/// What the agent is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The router can be reached; told once, and again only after [`Input::Gone`].
    Appeared,
    /// It cannot, or a request to it failed: nothing that was asked will be answered.
    Gone,
    /// Answer to [`Output::Claim`].
    Claimed(Result<(), ErrorItem>),
    /// Answer to [`Output::ReadObjects`]: all objects of these kinds.
    Objects {
        /// The router's revision.
        revision: u64,
        /// In any order; other kinds are passed over.
        objects: Vec<ObjectState>,
    },
    /// Answer to [`Output::ReadClasses`].
    Readings(Readings),
    /// Answer to [`Output::Submit`].
    Reply(Reply),
    /// Others have changed something in the router: it is looked at now, and not when a part wants it next.
    Touched,
    /// Somebody knows that a link will have another rate.
    Announced {
        /// The link, as the file calls it.
        link: Name,
        /// bit/s, above 0.
        rate: Rate,
        /// From then on.
        at: Instant,
    },
    /// The controller of the domain has said this.
    Domain(DomainNews),
    /// The controller has decided what a lease is to have that a part has asked for; see [`crate::Part::decided`].
    Decided {
        /// Name of the lease.
        lease: String,
        /// Number of the question.
        number: u64,
        /// What it has, bit/s.
        bps: u64,
        /// Why it has not what was asked for: the path is that of the link.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<ErrorItem>,
    },
    /// What is decided beside the router needs so much of a logical class; see [`crate::Part::leased`].
    Leased {
        /// Logical class.
        class: String,
        /// Ascending; a later one of the class takes the place of an earlier.
        number: u64,
        /// bit/s.
        bps: u64,
    },
    /// Time passes.
    Tick,
}

/// What the agent wants done; `N` is what it may have to tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Output<N> {
    /// Claim the owner.
    Claim(Claim),
    /// Read all objects of these kinds.
    ReadObjects(Vec<Kind>),
    /// Read the counters of the classes and policies.
    ReadClasses,
    /// Submit a transaction.
    Submit(Box<Transaction>),
    /// Tell a person.
    Say(N),
}

/// What a session itself has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The router refused; it is asked again.
    Refused {
        /// Its reasons.
        errors: Vec<ErrorItem>,
    },
    /// Another instance has taken the owner over, or it must not be claimed: this one has to end.
    Superseded {
        /// The router's reason.
        error: ErrorItem,
    },
}
