//! What a domain keeps of its policy besides the rows of [`crate::edition`], and the groups in which it is written.
//!
//! Names are those of the database's tables and columns; numbers fit in an `i64`.

use crate::diff::ObjectChange;
use crate::edition::{Change, EditionRow};
use crate::feed::Fed;
use crate::model::Policy;
use crate::session::{self, SessionRow, Usage};
use perhop_model::{Kind, Name};

/// What an agent is to take over: table `change_feed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRow {
    /// Number: ascending without a gap, over all routers.
    pub seq: u64,
    /// The router, or [`FeedRow::ALL`].
    pub router: String,
    /// Kind of object, or [`FeedRow::EDITION`].
    pub kind: String,
    /// Its name, or the edition's number.
    pub name: String,
    /// What it is to be: JSON; none = it is gone.
    pub spec: Option<String>,
}

/// Changes that are written together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyGroup {
    /// Fence of the leader that made them.
    pub fence: u64,
    /// The edition in force once they are written.
    pub edition: u64,
    /// Editions and objects of policies.
    pub changes: Vec<Change>,
    /// Sessions of subscribers, and what they have used.
    pub sessions: Vec<session::Change>,
    /// What agents are to take over, numbered behind what the feed has; at least one.
    pub feed: Vec<FeedRow>,
}

/// How a router stood, as its agent told last: table `router_status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRow {
    /// The router.
    pub router: String,
    /// The last change of the feed that it has.
    pub seq: u64,
    /// The edition that it is of.
    pub edition: u64,
    /// The router's epoch.
    pub epoch: u64,
    /// What others changed and was put right: JSON.
    pub drift: String,
    /// What the router refuses: JSON.
    pub quarantined: String,
    /// Why it refused last: JSON.
    pub last_error: Option<String>,
    /// When that was told, ms since 1970.
    pub reported_ms: u64,
}

/// What a new leader needs of the policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyKept {
    /// The last editions, by number.
    pub editions: Vec<EditionRow>,
    /// The policy of the last.
    pub in_force: Policy,
    /// The policy of its parent, if the last waits to be confirmed.
    pub fallback: Option<Policy>,
    /// How routers stood.
    pub statuses: Vec<StatusRow>,
    /// Sessions of subscribers.
    pub sessions: Vec<SessionRow>,
    /// What subscribers have used.
    pub usage: Vec<(Name, Usage)>,
    /// The last number of the feed.
    pub feed_seq: u64,
}

impl FeedRow {
    /// A row for every router.
    pub const ALL: &str = "*";
    /// The kind of the row that ends what an edition changes: its name is the edition's number.
    pub const EDITION: &str = "edition";

    /// The object that it is of; `None` if it is of none.
    pub fn object(&self) -> Option<Fed> {
        let kind: Kind = self.kind.parse().ok()?;
        let spec = match &self.spec {
            Some(text) => Some(serde_json::from_str(text).ok()?),
            None => None,
        };
        Some(Fed { kind, name: Name::new(&self.name).ok()?, spec })
    }
}

/// What agents are to take over because of an edition, behind the last number of the feed: the objects, and a row for all that says
/// which edition it is.
pub fn feed_of(behind: u64, edition: u64, changes: &[ObjectChange]) -> Vec<FeedRow> {
    let objects = changes.iter().map(|change| FeedRow {
        seq: 0,
        router: change.router.to_string(),
        kind: change.key.kind.name().to_owned(),
        name: change.key.name.to_string(),
        spec: change.spec.as_ref().and_then(|spec| serde_json::to_string(spec).ok()),
    });
    let end = FeedRow {
        seq: 0,
        router: FeedRow::ALL.to_owned(),
        kind: FeedRow::EDITION.to_owned(),
        name: edition.to_string(),
        spec: Some(String::from("{}")),
    };
    (behind + 1..).zip(objects.chain([end])).map(|(seq, row)| FeedRow { seq, ..row }).collect()
}
