//! Who decides on what clients ask.

use perhop_broker::ledger::Refusal;
use perhop_broker::record::ReservationId;
use perhop_cops::wire::PepId;
use perhop_reason::Code;
use perhop_tcapi::wire::Request as Reservation;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Something that is being decided.
pub type Deciding<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A reservation as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub id: ReservationId,
    /// What it has, bit/s.
    pub bps: u64,
    /// It ends by itself so long from now, ms.
    pub remaining_ms: u64,
}

/// What happened without having been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is decided here from now on.
    Begins,
    /// It is not decided here any more.
    Ends,
    /// A reservation is gone.
    Gone(ReservationId, Code),
    /// Some may be gone.
    Unsure,
}

/// Decides for a door. A reservation has a key, which is its client's handle and stays the same when the client asks for
/// it again.
pub trait Decides: Send + Sync + 'static {
    /// What happens from now on; it begins with whether it is decided here.
    fn changes(&self) -> mpsc::Receiver<Changed>;

    /// The client that this PEP is, by the SHA-256 of the certificate that it has shown; where nothing is secured it shows none.
    ///
    /// # Errors
    /// It is none that may reserve, or it is not decided here.
    fn client(&self, pep: &PepId, shown: Option<[u8; 32]>, is_secured: bool) -> Result<Arc<str>, Refusal>;

    /// Makes the reservation of this key, or has it be as it is wanted now.
    fn ask(
        &self,
        client: Arc<str>,
        key: String,
        wanted: Box<Reservation>,
    ) -> Deciding<Result<Standing, Refusal>>;

    /// Lets a reservation live so long from now, ms; none = as long as it is usual.
    fn renew(
        &self,
        client: Arc<str>,
        id: ReservationId,
        lifetime_ms: Option<u64>,
    ) -> Deciding<Result<Standing, Refusal>>;

    /// Ends a reservation. Where that fails it ends by itself.
    fn release(&self, client: Arc<str>, id: ReservationId) -> Deciding<()>;

    /// Ends what the client has with a key that begins so and is none of these.
    fn keep_only(&self, client: Arc<str>, begin: String, keys: BTreeSet<String>) -> Deciding<()>;
}
