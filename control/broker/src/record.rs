//! Rows that a domain keeps, and the groups of changes by which they are written.
//!
//! Names of rows and fields are those of the database's tables and columns. Numbers fit in an `i64`, as both engines have no
//! larger type: rates in bit/s, times in ms since the epoch of the machine's clock.

use perhop_reason::Code;
use serde::{Deserialize, Serialize};

/// Number of a reservation: ascending, never used again in a domain. 1 to 2⁶³ − 1.
pub type ReservationId = u64;

/// Number of a link of a domain, in one direction. 1 to 2⁶³ − 1.
pub type LinkId = u64;

/// Number of a path of a domain, in one direction. 1 to 2⁶³ − 1; below [`ONE_LINK`] it is one between edges or peers, and has a row.
pub type PathId = u64;

/// The path that is the link of a number alone has this more: it needs no row, and leads wherever the link does.
pub const ONE_LINK: PathId = 1 << 62;

/// What a node of a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A router where traffic enters or leaves the domain: it has an agent.
    Edge,
    /// A router inside.
    Core,
    /// A neighbouring domain.
    Peer,
}

/// A node of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Name, unique.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// SHA-256 of the certificate by which its agent is known, lower-case hexadecimal; none = any certificate of the
    /// domain's authority that has the node's name.
    pub cert_sha256: Option<String>,
    /// The last epoch of its agent.
    pub epoch: u64,
    /// When its agent was last heard, ms; 0 = never.
    pub seen_ms: u64,
}

/// A link in one direction: what leaves a node by one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRow {
    /// Number.
    pub id: LinkId,
    /// The node that sends.
    pub node: String,
    /// Its port.
    pub port: String,
    /// The node that receives.
    pub to_node: String,
}

/// What a class has of a link, and what of it is reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityRow {
    /// The link.
    pub link: LinkId,
    /// The class's logical name.
    pub class: String,
    /// What may be reserved, bit/s.
    pub bps: u64,
    /// What is reserved, bit/s. At most `bps`, unless `short`.
    pub reserved: u64,
    /// The link has lost rate under its reservations.
    pub short: bool,
}

/// A path between two edges or peers, in one direction, with its links from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRow {
    /// Number.
    pub id: PathId,
    /// Where traffic enters.
    pub from_node: String,
    /// Where it leaves.
    pub to_node: String,
    /// Its links, in order.
    pub links: Vec<LinkId>,
}

/// Somebody who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// Name, unique: the owner of what it reserves.
    pub name: String,
    /// By which protocol it comes: `tcapi`, `cops`, `http`, `camara`, `peer`, `agent`.
    pub kind: String,
    /// SHA-256 of its certificate, lower-case hexadecimal.
    pub cert_sha256: Option<String>,
    /// SHA-256 of its token, lower-case hexadecimal.
    pub token_sha256: Option<String>,
    /// `viewer`, `operator`, `admin`, `agent` or `proxy`.
    pub role: String,
    /// Most that it may have reserved, bit/s; none = no limit.
    pub most_bps: Option<u64>,
    /// Most reservations at a time; none = no limit.
    pub most_count: Option<u64>,
    /// Most requests a second; none = no limit.
    pub per_second: Option<u64>,
}

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationKind {
    /// A flow.
    Flow,
    /// An aggregate that an agent admits flows into by itself.
    Lease,
}

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationState {
    /// Booked here, and a neighbouring domain is being asked.
    Asking,
    /// In force.
    Held,
    /// In force with less than was asked for, as a link on its path lost rate.
    Shrunk,
}

/// A reservation of bandwidth on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRow {
    /// Number.
    pub id: ReservationId,
    /// Name of the client that owns it.
    pub owner: String,
    /// The owner's key of idempotency, unique among its reservations.
    pub idem: String,
    /// SHA-256 of the request, lower-case hexadecimal: the same key with another request is refused.
    pub digest: String,
    /// What it is for.
    pub kind: ReservationKind,
    /// The reservation of the other direction; both are made, changed and released together.
    pub twin: Option<ReservationId>,
    /// The path.
    pub path: PathId,
    /// The class's logical name.
    pub class: String,
    /// What it has of every link of its path, bit/s.
    pub bps: u64,
    /// What it may be shrunk to, bit/s; none = not at all.
    pub floor_bps: Option<u64>,
    /// How important it is: 0 the least, 255 the most.
    pub priority: u8,
    /// Where it stands.
    pub state: ReservationState,
    /// How a neighbouring domain knows its part of it.
    pub peer_handle: Option<String>,
    /// What the interface by which it was asked for keeps with it: JSON, opaque to the ledger.
    pub flow: String,
    /// When it was made, ms.
    pub created_ms: u64,
    /// When it ends by itself, ms.
    pub expires_ms: u64,
}

/// What was decided, by whom and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Number: ascending without a gap.
    pub seq: u64,
    /// When, ms.
    pub at_ms: u64,
    /// Who asked; `domain` where nobody did.
    pub who: String,
    /// What: `reserve`, `change`, `release`, `expire`, `shrink`, `preempt`, `capacity`, …
    pub what: String,
    /// The reservation, node or link that it concerns, as text.
    pub subject: String,
    /// Why not; none = it was done.
    pub refused: Option<Code>,
    /// The rest: JSON.
    pub detail: String,
}

/// One change of what a domain keeps. A row written replaces the row of the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node is as this.
    Node(NodeRow),
    /// A node is gone.
    NodeGone(String),
    /// A link is as this.
    Link(LinkRow),
    /// A link is gone, with its capacities.
    LinkGone(LinkId),
    /// A class has this of a link.
    Capacity(CapacityRow),
    /// A class has nothing of a link any more.
    CapacityGone(LinkId, String),
    /// A path is as this.
    Path(PathRow),
    /// A path is gone.
    PathGone(PathId),
    /// A client is as this.
    Client(ClientRow),
    /// A client is gone.
    ClientGone(String),
    /// A reservation is as this.
    Reservation(ReservationRow),
    /// A reservation is gone.
    ReservationGone(ReservationId),
    /// This was decided.
    Audit(AuditRow),
}

/// Changes that are written together or not at all, in this order: one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its number: ascending, of the process; whoever writes it says which is done.
    pub number: u64,
    /// Fence of the leader that decided it: a database whose fence is higher refuses it.
    pub fence: u64,
    /// The changes. A key occurs once, with its last value.
    pub changes: Vec<Change>,
}

/// All that a ledger needs to go on: what a new leader loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Nodes, by name.
    pub nodes: Vec<NodeRow>,
    /// Links, by number.
    pub links: Vec<LinkRow>,
    /// Capacities, by link and class.
    pub capacities: Vec<CapacityRow>,
    /// Paths, by number.
    pub paths: Vec<PathRow>,
    /// Clients, by name.
    pub clients: Vec<ClientRow>,
    /// Reservations, by number.
    pub reservations: Vec<ReservationRow>,
    /// The last number of the audit log.
    pub audit_seq: u64,
    /// The highest number that a reservation ever had, also of those that are gone.
    pub last_reservation: ReservationId,
}
