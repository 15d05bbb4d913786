//! What the ledger is told and what it says.

use crate::record::{ClientRow, Group, LinkId, PathId, ReservationId, ReservationKind, ReservationState};
use crate::topology::Topology;
use perhop_reason::Code;
use std::sync::Arc;

/// Whoever asks, as the driver calls it: an answer has the same number.
pub type AskId = u64;

/// What becomes of reservations when a link loses rate under them. They are told in each case, the least important first and of
/// those the youngest, and nothing new is admitted until the link is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShort {
    /// They stay as they are.
    Keep,
    /// They are shrunk to their floors as far as that is needed; those without one stay.
    Shrink,
    /// As many as needed are released.
    Release,
}

/// How a ledger decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Fence of this leader: every group has it.
    pub fence: u64,
    /// Life of a reservation whose request does not say, ms.
    pub lifetime_ms: u64,
    /// Longest life that may be asked for, ms.
    pub most_lifetime_ms: u64,
    /// What becomes of reservations when a link loses rate under them.
    pub on_short: OnShort,
    /// Whether a request takes from reservations of lower priority what it lacks.
    pub preempt: bool,
    /// Most requests, and most reservations that end by themselves, of one group. A request beyond is refused as
    /// [`Code::Overload`].
    pub group: usize,
    /// Most reservations of the domain; one more is refused as [`Code::LimitReached`].
    pub most_reservations: usize,
    /// Refusals of one client a second that the audit log has; the others are counted.
    pub refusals_per_second: u64,
    /// After the start: how long a link whose rate nobody has told yet keeps the lower capacities that it had, ms.
    pub remember_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fence: 0,
            lifetime_ms: 10 * 60 * 1_000,
            most_lifetime_ms: 24 * 60 * 60 * 1_000,
            on_short: OnShort::Keep,
            preempt: false,
            group: 4_096,
            most_reservations: 1_000_000,
            refusals_per_second: 10,
            remember_ms: 60_000,
        }
    }
}

/// Between which nodes a reservation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The domain's path between two edges or peers, by their names.
    Between {
        /// Where traffic enters.
        from: String,
        /// Where it leaves.
        to: String,
    },
    /// This path. The other direction, where one is asked for, takes the domain's path back between its ends.
    Path(PathId),
    /// One link alone. What is reserved so is none of the share that the node's agent is told: whoever reserves it gives the class
    /// its part.
    Link {
        /// The node that sends.
        node: String,
        /// Its port.
        port: String,
    },
}

/// A reservation that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The client's key of idempotency, 1 to [`MOST_KEY`] octets without control characters. While the reservation stands
    /// the same request is answered with it again, and another request with the same key is refused as
    /// [`Code::TxnIdReused`].
    pub idem: String,
    /// What for.
    pub kind: ReservationKind,
    /// Where.
    pub way: Way,
    /// The class's logical name.
    pub class: String,
    /// How much, bit/s: 1 to 10¹².
    pub bps: u64,
    /// What it may be shrunk to when a link loses rate, bit/s: 1 to `bps`; none = not at all.
    pub floor_bps: Option<u64>,
    /// How important: 0 the least.
    pub priority: u8,
    /// How long, ms; none = as the settings say.
    pub lifetime_ms: Option<u64>,
    /// The other direction too, with this rate, bit/s: both or none.
    pub back_bps: Option<u64>,
    /// A neighbouring domain has to agree: booked as [`ReservationState::Asking`] until [`Request::Settle`].
    pub asking: bool,
    /// What the interface keeps with it: JSON, at most [`MOST_FLOW`] octets.
    pub flow: String,
}

impl Reserve {
    /// One direction of a flow, of the lowest priority, for as long as the settings say.
    pub fn new(idem: impl Into<String>, way: Way, class: impl Into<String>, bps: u64) -> Self {
        Self {
            idem: idem.into(),
            kind: ReservationKind::Flow,
            way,
            class: class.into(),
            bps,
            floor_bps: None,
            priority: 0,
            lifetime_ms: None,
            back_bps: None,
            asking: false,
            flow: String::new(),
        }
    }
}

/// Longest key of idempotency, octets.
pub const MOST_KEY: usize = 255;

/// Longest text that an interface keeps with a reservation, octets.
pub const MOST_FLOW: usize = 16_384;

/// What a client asks for. A reservation of both directions is changed and released as one, by the number of either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new one.
    Reserve(Box<Reserve>),
    /// Another rate, life or text; what is none stays. All of it or nothing.
    Change {
        /// Which.
        id: ReservationId,
        /// Rate of this direction, bit/s.
        bps: Option<u64>,
        /// Rate of the other direction, bit/s.
        back_bps: Option<u64>,
        /// Life from now, ms.
        lifetime_ms: Option<u64>,
        /// What is kept with it.
        flow: Option<String>,
    },
    /// Let it live on.
    Renew {
        /// Which.
        id: ReservationId,
        /// Life from now, ms; none = as the settings say.
        lifetime_ms: Option<u64>,
    },
    /// The neighbouring domain has agreed.
    Settle {
        /// Which.
        id: ReservationId,
        /// How the neighbour knows its part.
        peer_handle: Option<String>,
    },
    /// Give it back.
    Release {
        /// Which.
        id: ReservationId,
    },
}

/// A change of who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientChange {
    /// It is as this.
    Put(ClientRow),
    /// It may not ask any more. What it has reserved stands until its life ends.
    Gone(String),
}

/// What a ledger is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A client asks.
    Ask {
        /// Who is to be answered.
        ask: AskId,
        /// The client's name; whoever passes the request on has made sure of it.
        client: String,
        /// What it asks for.
        request: Request,
    },
    /// The group of this number is in the database.
    Written {
        /// Its number.
        number: u64,
    },
    /// The group of this number is not in the database and never will be. Who cannot be sure of that must find out first
    /// (the last number of the audit log tells), or load a ledger anew.
    Failed {
        /// Its number.
        number: u64,
        /// Why. With [`Code::Fenced`] or [`Code::HeldElsewhere`] another instance leads, and this ledger ends.
        code: Code,
        /// When to try again, ms.
        retry_after_ms: u32,
    },
    /// Another instance leads: this ledger ends. Whether a group on its way was written does not matter any more: who asks
    /// again with the same key is answered by the other.
    Replaced,
    /// Nodes, links, paths and clients are to be as this. Clients that an earlier one of this process had and this one has
    /// not are gone; others that it does not name stay.
    Topology {
        /// Who is to be answered.
        ask: AskId,
        /// Who wants it, for the audit log.
        who: String,
        /// All of it.
        topology: Arc<Topology>,
    },
    /// A link has this rate now, measured or announced; its declared or scheduled rate where that is lower.
    Rate {
        /// Who says so, for the audit log.
        who: String,
        /// The link.
        link: LinkId,
        /// Its rate, bit/s.
        bps: u64,
    },
    /// Who may ask is changed.
    Client {
        /// Who is to be answered.
        ask: AskId,
        /// Who wants it, for the audit log.
        who: String,
        /// How.
        change: ClientChange,
    },
    /// A neighbouring domain has refused what this client asked for, which is not booked here any more: for the audit log.
    Refused {
        /// Who asked.
        client: String,
        /// For what.
        request: Box<Request>,
        /// Why not.
        refusal: Refusal,
    },
    /// Time has passed.
    Wake,
}

/// A reservation as it stands for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its number.
    pub id: ReservationId,
    /// That of the other direction.
    pub twin: Option<ReservationId>,
    /// Its path.
    pub path: PathId,
    /// What it has, bit/s.
    pub bps: u64,
    /// What the other direction has, bit/s.
    pub back_bps: Option<u64>,
    /// How it stands.
    pub state: ReservationState,
    /// When it ends by itself, ms.
    pub expires_ms: u64,
}

/// What was done. It is in the database when this is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The reservation stands like this.
    Held(Held),
    /// It is given back.
    Released(ReservationId),
    /// The domain, or who may ask, is as it was wanted.
    Taken,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason.
    pub code: Code,
    /// The link that does not have it, `node/port`; empty = it is no matter of one.
    pub link: String,
    /// The neighbouring domain that refused, or did not answer; empty = it was this one.
    pub domain: String,
    /// The class; empty as with links.
    pub class: String,
    /// What was asked for, bit/s.
    pub asked_bps: u64,
    /// The most that could have been granted in its place, bit/s.
    pub free_bps: u64,
    /// When to try again, ms; 0 = nobody knows.
    pub retry_after_ms: u32,
    /// In words.
    pub message: String,
}

impl Refusal {
    /// For a reason, in words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            link: String::new(),
            domain: String::new(),
            class: String::new(),
            asked_bps: 0,
            free_bps: 0,
            retry_after_ms: 0,
            message: message.into(),
        }
    }
}

/// What somebody has to hear without having asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A reservation is in force, but a link on its path lacks rate for it.
    Short {
        /// Which.
        id: ReservationId,
        /// Whose.
        owner: Arc<str>,
        /// The link.
        link: LinkId,
    },
    /// A reservation has less now, as a link on its path lost rate.
    Shrunk {
        /// Which.
        id: ReservationId,
        /// Whose.
        owner: Arc<str>,
        /// The link.
        link: LinkId,
        /// What it has, bit/s.
        bps: u64,
    },
    /// A reservation is gone, and its owner did not give it back. What it was is said, as nobody can look it up any more.
    Gone {
        /// Which.
        id: ReservationId,
        /// Its other direction, which is gone too and is told by itself.
        twin: Option<ReservationId>,
        /// Whose.
        owner: Arc<str>,
        /// Why: [`Code::NoCapacity`] a link lost rate, [`Code::Preempted`] for something more important, [`Code::Timeout`]
        /// its life ended, [`Code::Forbidden`] an operator released it.
        code: Code,
        /// What was kept with it.
        flow: Arc<str>,
        /// When it was made, ms.
        created_ms: u64,
    },
    /// What a class has reserved of a link, without [`Way::Link`]: the routers' shares follow it.
    Share {
        /// The link.
        link: LinkId,
        /// The node that sends.
        node: Arc<str>,
        /// Its port.
        port: Arc<str>,
        /// The class's logical name.
        class: Arc<str>,
        /// All that is reserved over paths, bit/s.
        reserved_bps: u64,
    },
}

/// What a ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this, and say [`Input::Written`] or [`Input::Failed`]. No other comes before.
    Write(Group),
    /// An answer.
    Answer {
        /// To whom.
        ask: AskId,
        /// What was done, or why not.
        result: Result<Granted, Refusal>,
    },
    /// News, in force when it is said.
    Tell(Told),
}
