//! What is decided beside a router decides: an agent, for the clients of its file.

use super::decides::{Changed, Decides, Deciding, Standing};
use super::wanted;
use crate::controller::ShownReservation;
use crate::decisions::Decisions;
use crate::domain::hex;
use perhop_broker::ledger::Refusal;
use perhop_broker::record::ReservationId;
use perhop_cops::wire::PepId;
use perhop_io::clock;
use perhop_reason::Code;
use perhop_tcapi::wire::Request as Reservation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

/// News that a door may be behind.
const NEWS: usize = 1_024;

/// Decides by what is decided beside a router.
///
/// A PEP's name is that of its client. Where nothing is secured only clients without a certificate are known; else the
/// certificate must be the client's.
#[derive(Clone, Debug)]
pub struct LocalDecisions {
    /// Who is asked.
    pub decisions: Decisions,
    /// Clients by name, each with the SHA-256 of its certificate, lower-case hexadecimal; none = it shows nothing.
    pub clients: Arc<BTreeMap<String, Option<String>>>,
}

fn stands(row: &ShownReservation) -> Standing {
    let now_ms = clock::wall().0 / 1_000_000;
    Standing { id: row.id, bps: row.bps, remaining_ms: row.expires_ms.saturating_sub(now_ms) }
}

impl Decides for LocalDecisions {
    fn changes(&self) -> mpsc::Receiver<Changed> {
        let (tell, told) = mpsc::channel(NEWS);
        tokio::spawn(follow(self.decisions.news(), tell));
        told
    }

    fn client(&self, pep: &PepId, shown: Option<[u8; 32]>, is_secured: bool) -> Result<Arc<str>, Refusal> {
        let refused = |why: String| Err(Refusal::new(Code::Unauthenticated, why));
        let Some(certificate) = self.clients.get(pep.as_str()) else {
            return refused(format!("the agent has no client {:?}", pep.as_str()));
        };
        let shown = shown.map(|sha256| hex(&sha256));
        match (certificate, shown) {
            (Some(certificate), Some(shown)) if *certificate == shown => Ok(pep.as_str().into()),
            (None, None) if !is_secured => Ok(pep.as_str().into()),
            _ => refused(format!("what is shown is not the certificate of client {:?}", pep.as_str())),
        }
    }

    fn ask(
        &self,
        client: Arc<str>,
        key: String,
        wanted: Box<Reservation>,
    ) -> Deciding<Result<Standing, Refusal>> {
        let decisions = self.decisions.clone();
        Box::pin(async move {
            let row = decisions.have(&client, wanted::create(key, &wanted)?).await?;
            Ok(stands(&row))
        })
    }

    fn renew(
        &self,
        client: Arc<str>,
        id: ReservationId,
        lifetime_ms: Option<u64>,
    ) -> Deciding<Result<Standing, Refusal>> {
        let decisions = self.decisions.clone();
        Box::pin(async move { Ok(stands(&decisions.renew(&client, id, lifetime_ms).await?)) })
    }

    fn release(&self, client: Arc<str>, id: ReservationId) -> Deciding<()> {
        let decisions = self.decisions.clone();
        // One that is not there is given back, too.
        Box::pin(async move { drop(decisions.release(Some(&client), id).await) })
    }

    fn keep_only(&self, client: Arc<str>, begin: String, keys: BTreeSet<String>) -> Deciding<()> {
        let decisions = self.decisions.clone();
        Box::pin(async move {
            let Ok(owned) = decisions.owned(&client, begin).await else { return };
            for (id, _) in owned.into_iter().filter(|(_, key)| !keys.contains(key)) {
                let _ = decisions.release(Some(&client), id).await;
            }
        })
    }
}

/// Tells a door what becomes of flows, until the door or the agent is gone.
async fn follow(mut news: Receiver<(ReservationId, Code)>, tell: mpsc::Sender<Changed>) {
    let mut changed = Changed::Begins;
    while changed != Changed::Ends && tell.send(changed).await.is_ok() {
        let next = tokio::select! { next = news.recv() => next, () = tell.closed() => return };
        changed = match next {
            Ok((id, code)) => Changed::Gone(id, code),
            Err(RecvError::Lagged(_)) => Changed::Unsure,
            Err(RecvError::Closed) => Changed::Ends,
        };
    }
    let _ = tell.send(Changed::Ends).await;
}
