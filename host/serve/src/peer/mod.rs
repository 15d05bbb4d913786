//! Reservations across domains, live: the machine [`perhop_broker::peer::Peers`] beside a domain that is being looked after.
//!
//! What the machine wants of the ledger becomes requests to the [`Domain`]; what it says to neighbours goes
//! to their controllers, each over one connection that is kept. What it has to remember is in the database before anything of it
//! is done. Interfaces ask by a [`Between`], which is a handle and can be cloned.

mod account;
mod driver;
mod journal;
mod line;

pub use journal::{Journal, Keeping, snapshot};
pub(crate) use line::MOST as MOST_MESSAGES;

use crate::client::Client;
use crate::domain::{Domain, NotKept};
use driver::{Driver, Question};
use perhop_broker::lease::{FlowId, SettingsError};
use perhop_broker::ledger::Refusal;
use perhop_broker::peer::{
    DealId, Details, Envelope, Far, FlowAsk, Note, PeerFile, Peers, Settings, Snapshot, Stage,
};
use perhop_broker::record::ReservationRow;
use perhop_io::clock;
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use utoipa::ToSchema;

/// Questions that wait for the machine at most; who has another waits.
const WAITING: usize = 4_096;
/// Most agreements of a domain with others at a time.
const MOST_DEALS: usize = 100_000;

/// A neighbouring domain.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// What is agreed with it. Its name is that of its node here, and of the client that it is.
    pub peer: PeerFile,
    /// Where its controllers are asked; one of them leads.
    pub doors: Vec<Client>,
}

/// What is said of its work, for a log.
pub type Say = Arc<dyn Fn(String) + Send + Sync>;

/// A machine that runs until this is dropped; what it has to remember is in the database.
#[derive(Debug)]
pub struct RunningBetween {
    between: Between,
    tasks: JoinSet<()>,
}

impl RunningBetween {
    /// Goes on with what an earlier life has kept. Needs a tokio runtime.
    ///
    /// # Errors
    /// The settings of leases cannot be used.
    pub fn start(
        own: &str,
        neighbours: Vec<Neighbour>,
        domain: &Domain,
        news: tokio::sync::broadcast::Receiver<Arc<crate::domain::News>>,
        kept: Snapshot,
        journal: Arc<dyn Journal>,
        say: Say,
    ) -> Result<Self, SettingsError> {
        let settings = Settings::of(own, neighbours.iter().map(|neighbour| &neighbour.peer), MOST_DEALS);
        let now = clock::wall();
        let peers = Peers::restore(settings, now.0, now, kept.clone())?;
        let (inlet, questions) = mpsc::channel(WAITING);
        let between = Between { inlet: inlet.clone(), routes: Arc::new(peers.routes().clone()) };
        let mut tasks = JoinSet::new();
        let mut lines = BTreeMap::new();
        for neighbour in neighbours {
            let (line, envelopes) = mpsc::channel(WAITING);
            lines.insert(neighbour.peer.name.clone(), line);
            tasks.spawn(line::run(
                neighbour.peer.name,
                neighbour.doors,
                envelopes,
                inlet.clone(),
                say.clone(),
            ));
        }
        let driver = Driver::new(peers, domain.clone(), own, lines, inlet, journal, say);
        tasks.spawn(driver.run(questions, news, kept));
        Ok(Self { between, tasks })
    }

    /// Stops it: nothing is written any more when this is done.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// A handle.
    pub fn between(&self) -> Between {
        self.between.clone()
    }
}

/// A handle of what a domain has with its neighbours.
#[derive(Clone, Debug)]
pub struct Between {
    inlet: mpsc::Sender<Question>,
    /// By which neighbour each domain is reached.
    routes: Arc<BTreeMap<String, String>>,
}

/// A reservation that ends in another domain, as somebody wants it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: String,
    pub(crate) from: String,
    pub(crate) far: Far,
    pub(crate) class: String,
    pub(crate) bps: u64,
    pub(crate) floor_bps: Option<u64>,
    pub(crate) priority: u8,
    pub(crate) lifetime_ms: u64,
    pub(crate) flow: crate::domain::Flow,
}

/// What this domain holds at another.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ShownHeld {
    /// Of single flows that end there, or of all that go by way of it.
    pub single: bool,
    /// Logical class.
    pub class: String,
    /// A domain behind it, or an edge in it.
    pub to: String,
    /// bit/s.
    pub bps: u64,
    /// What of it flows have, bit/s.
    pub used_bps: u64,
}

/// A domain that reservations reach.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ShownPeer {
    /// Its name.
    pub name: String,
    /// The neighbour by way of which it is reached: itself, if it is one.
    pub by: String,
    /// Whether that can be reached now.
    pub here: bool,
    /// What this domain holds there.
    pub held: Vec<ShownHeld>,
}

impl Between {
    /// Whether a client is a neighbour.
    pub fn is_neighbour(&self, name: &str) -> bool {
        self.routes.get(name).is_some_and(|by| by == name)
    }

    /// By which neighbour a domain is reached.
    pub(crate) fn neighbour_of(&self, domain: &str) -> Option<String> {
        self.routes.get(domain).cloned()
    }

    /// A neighbour says something, or passes it on.
    ///
    /// # Errors
    /// This instance leads no more.
    pub async fn hear(&self, via: &str, envelopes: Vec<Envelope>) -> Result<(), Refusal> {
        self.inlet.send(Question::Heard(via.to_owned(), envelopes)).await.map_err(|_| over())
    }

    /// Reserves for a client. The number of the reservation: all domains on its way have agreed.
    ///
    /// # Errors
    /// Why not, and which domain it was.
    pub(crate) async fn reserve(
        &self,
        domain: &Domain,
        client: &str,
        wanted: Wanted,
    ) -> Result<u64, Refusal> {
        let flow = FlowId { owner: client.to_owned(), idem: wanted.key.clone() };
        let asked = json!([wanted.from, wanted.class, wanted.bps, wanted.floor_bps, wanted.lifetime_ms]);
        let note = Note { deal: DealId::Flow(flow.clone()), far: Some(wanted.far.clone()), asked };
        if let Some((id, kept)) = row_of(domain, &flow).await? {
            return if kept.as_ref() == Some(&note) { Ok(id) } else { Err(reused()) };
        }
        let ask = FlowAsk {
            flow: flow.clone(),
            version: 1,
            class: wanted.class,
            from: wanted.from,
            domain: wanted.far.domain,
            edge: wanted.far.edge,
            bps: wanted.bps,
            lifetime: Duration::from_millis(wanted.lifetime_ms),
        };
        let mut text = wanted.flow;
        text.of_interface = note.value();
        let details = Details { text: text.text(), floor_bps: wanted.floor_bps, priority: wanted.priority };
        let id = self.ask(ask, Some(details)).await?;
        // Another request with the same key may have been first.
        let kept = row_of(domain, &flow).await?.and_then(|(_, kept)| kept);
        if kept.as_ref() == Some(&note) { Ok(id) } else { Err(reused()) }
    }

    /// Another rate or life for a reservation that ends in another domain.
    ///
    /// # Errors
    /// Why not: it is as it was.
    pub(crate) async fn change(
        &self,
        row: &ReservationRow,
        from: String,
        far: Far,
        bps: Option<u64>,
        lifetime_ms: Option<u64>,
    ) -> Result<(), Refusal> {
        let now = clock::wall();
        let left = Instant(row.expires_ms.saturating_mul(1_000_000)).since(now);
        let ask = FlowAsk {
            flow: FlowId { owner: row.owner.clone(), idem: row.idem.clone() },
            version: now.0,
            class: row.class.clone(),
            from,
            domain: far.domain,
            edge: far.edge,
            bps: bps.unwrap_or(row.bps),
            lifetime: lifetime_ms.map_or(left, Duration::from_millis),
        };
        self.ask(ask, None).await.map(drop)
    }

    async fn ask(&self, ask: FlowAsk, details: Option<Details>) -> Result<u64, Refusal> {
        self.put(|done| Question::Flow { ask, details, done }).await?
    }

    /// Gives a flow back, in all domains.
    ///
    /// # Errors
    /// This instance leads no more.
    pub(crate) async fn release(&self, row: &ReservationRow) -> Result<(), Refusal> {
        let flow = FlowId { owner: row.owner.clone(), idem: row.idem.clone() };
        self.put(|done| Question::Release { flow, done }).await?
    }

    /// Domains that reservations reach, and what is held there.
    ///
    /// # Errors
    /// This instance leads no more.
    pub(crate) async fn shown(&self) -> Result<Vec<ShownPeer>, Refusal> {
        self.put(Question::Show).await
    }

    async fn put<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Refusal> {
        let (done, answer) = oneshot::channel();
        self.inlet.send(question(done)).await.map_err(|_| over())?;
        answer.await.map_err(|_| over())
    }
}

/// The reservation of a flow, and what is kept with it.
async fn row_of(domain: &Domain, flow: &FlowId) -> Result<Option<(u64, Option<Note>)>, Refusal> {
    let flow = flow.clone();
    domain
        .look(move |ledger| {
            let row = ledger.by_key(&flow.owner, &flow.idem)?;
            // One that waits for neighbours is answered with what becomes of it.
            let asks = row.state == perhop_broker::record::ReservationState::Asking;
            (!asks).then(|| (row.id, Note::of(&row)))
        })
        .await
}

fn shown(peers: &Peers, here: &BTreeSet<String>) -> Vec<ShownPeer> {
    let of = |(name, by): (&String, &String)| {
        let at = [Stage::Neighbour(name.clone()), Stage::Last(name.clone())];
        let held = peers.held().filter(|(stage, _)| at.contains(stage)).flat_map(|(stage, held)| {
            let single = matches!(stage, Stage::Last(_));
            held.leases().map(move |(lease, bps, _, used_bps)| ShownHeld {
                single,
                class: lease.class.clone(),
                to: lease.to.clone().unwrap_or_default(),
                bps,
                used_bps,
            })
        });
        ShownPeer { name: name.clone(), by: by.clone(), here: here.contains(by), held: held.collect() }
    };
    peers.routes().iter().map(of).collect()
}

fn reused() -> Refusal {
    Refusal::new(Code::TxnIdReused, "this key was used for another reservation")
}

fn over() -> Refusal {
    Refusal {
        retry_after_ms: 1_000,
        ..Refusal::new(Code::HeldElsewhere, "this instance does not lead the domain")
    }
}

fn not_kept(why: &NotKept) -> Refusal {
    let retry_after_ms = why.retry_after_ms.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(1_000);
    Refusal { retry_after_ms, ..Refusal::new(why.code, why.message.clone()) }
}
