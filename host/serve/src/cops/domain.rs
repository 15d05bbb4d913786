//! A domain decides: the one in a seat, as long as it is led here.

use super::decides::{Changed, Decides, Deciding, Standing};
use super::wanted;
use crate::controller::Seat;
use crate::domain::{Caller, ClientKind, Credential, Domain, News, Role};
use futures_util::StreamExt;
use perhop_broker::ledger::{Granted, Held, Refusal, Request, Reserve, Told, Way};
use perhop_broker::record::{ReservationId, ReservationRow};
use perhop_cops::wire::PepId;
use perhop_io::clock;
use perhop_reason::Code;
use perhop_tcapi::wire::Request as Reservation;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

/// News that a door may be behind.
const NEWS: usize = 1_024;
/// Reservations looked at together, and released at the same time.
const TOGETHER: usize = 256;
/// How often a release is tried again while the database does not take it.
const TRIES: u32 = 30;

/// Decides by the domain in a seat: clients are those of the domain.
///
/// A PEP's name is that of its client. Where nothing is secured only clients of kind `cops` without token and certificate are
/// known; else the certificate must be the client's.
#[derive(Clone)]
pub struct LedDomain(pub Seat);

impl LedDomain {
    fn domain(&self) -> Result<Domain, Refusal> {
        Ok(self.0.led()?.domain)
    }
}

fn stands(held: &Held) -> Standing {
    let now_ms = clock::wall().0 / 1_000_000;
    Standing { id: held.id, bps: held.bps, remaining_ms: held.expires_ms.saturating_sub(now_ms) }
}

fn held(granted: Granted) -> Result<Held, Refusal> {
    match granted {
        Granted::Held(held) => Ok(held),
        Granted::Released(_) | Granted::Taken => Err(Refusal::new(Code::NotFound, "the reservation is gone")),
    }
}

async fn ask(domain: &Domain, client: &str, wanted: Reserve) -> Result<Standing, Refusal> {
    match domain.ask(client, Request::Reserve(Box::new(wanted.clone()))).await {
        Ok(granted) => {
            let held = held(granted)?;
            if held.bps == wanted.bps && held.back_bps == wanted.back_bps {
                return Ok(stands(&held));
            }
            change(domain, client, held.id, wanted).await
        }
        // The handle has a reservation already: this says how it is to be now.
        Err(refusal) if refusal.code == Code::TxnIdReused => {
            let (owner, key) = (client.to_owned(), wanted.idem.clone());
            let (way, class) = (wanted.way.clone(), wanted.class.clone());
            let both = wanted.back_bps.is_some();
            let same = domain.look(move |ledger| {
                let row = ledger.by_key(&owner, &key)?;
                let path = ledger.path_numbered(row.path)?;
                let is = Way::Between { from: path.from_node.clone(), to: path.to_node.clone() };
                Some((row.id, is == way && row.class == class && row.twin.is_some() == both))
            });
            match same.await? {
                Some((id, true)) => change(domain, client, id, wanted).await,
                Some((_, false)) => {
                    let why = "a reservation keeps its class, nodes and directions: ask by another handle";
                    Err(Refusal::new(Code::TxnIdReused, why))
                }
                // It has just ended.
                None => Err(Refusal { retry_after_ms: 1, ..refusal }),
            }
        }
        Err(refusal) => Err(refusal),
    }
}

async fn change(
    domain: &Domain,
    client: &str,
    id: ReservationId,
    wanted: Reserve,
) -> Result<Standing, Refusal> {
    let request = Request::Change {
        id,
        bps: Some(wanted.bps),
        back_bps: wanted.back_bps,
        lifetime_ms: wanted.lifetime_ms,
        flow: Some(wanted.flow),
    };
    Ok(stands(&held(domain.ask(client, request).await?)?))
}

async fn release(domain: &Domain, client: &str, id: ReservationId) {
    for _ in 0..TRIES {
        match domain.ask(client, Request::Release { id }).await {
            Err(why) if matches!(why.code, Code::BackendFailed | Code::Overload | Code::Quota) => {
                let pause = Duration::from_millis(u64::from(why.retry_after_ms).clamp(10, 5_000));
                tokio::time::sleep(pause).await;
            }
            _ => return,
        }
    }
}

/// Numbers of the client's reservations with a key that begins so and is none of these, of a page behind a number; and where the
/// page ends.
fn others(
    rows: &[ReservationRow],
    begin: &str,
    keys: &BTreeSet<String>,
) -> (Vec<ReservationId>, Option<ReservationId>) {
    let is_first = |row: &&ReservationRow| row.twin.is_none_or(|twin| twin > row.id);
    let is_other = |row: &&ReservationRow| row.idem.starts_with(begin) && !keys.contains(&row.idem);
    let others = rows.iter().filter(is_first).filter(is_other).map(|row| row.id).collect();
    (others, rows.last().map(|row| row.id))
}

impl Decides for LedDomain {
    fn changes(&self) -> mpsc::Receiver<Changed> {
        let (tell, told) = mpsc::channel(NEWS);
        tokio::spawn(follow(self.0.clone(), tell));
        told
    }

    fn client(&self, pep: &PepId, shown: Option<[u8; 32]>, is_secured: bool) -> Result<Arc<str>, Refusal> {
        let domain = self.domain()?;
        let caller = match shown {
            Some(sha256) => domain.caller(&Credential::Certificate(sha256)),
            None if is_secured => None,
            None => domain.unsecured(pep.as_str()),
        };
        let unknown = || Refusal::new(Code::Unauthenticated, "no client of the domain is known by this");
        let Caller { name, role, .. } = caller.ok_or_else(unknown)?.of_kind(&[ClientKind::Cops])?;
        if *name != *pep.as_str() {
            let why = format!("the certificate is of client {name}");
            return Err(Refusal::new(Code::Unauthenticated, why));
        }
        if role == Role::Viewer {
            let why = format!("the role of client {name} is not one that may reserve");
            return Err(Refusal::new(Code::Forbidden, why));
        }
        Ok(name)
    }

    fn ask(
        &self,
        client: Arc<str>,
        key: String,
        wanted: Box<Reservation>,
    ) -> Deciding<Result<Standing, Refusal>> {
        let domain = self.domain();
        Box::pin(async move { ask(&domain?, &client, wanted::reserve(key, &wanted)?).await })
    }

    fn renew(
        &self,
        client: Arc<str>,
        id: ReservationId,
        lifetime_ms: Option<u64>,
    ) -> Deciding<Result<Standing, Refusal>> {
        let domain = self.domain();
        Box::pin(async move {
            let granted = domain?.ask(&client, Request::Renew { id, lifetime_ms }).await?;
            Ok(stands(&held(granted)?))
        })
    }

    fn release(&self, client: Arc<str>, id: ReservationId) -> Deciding<()> {
        let domain = self.domain();
        Box::pin(async move {
            if let Ok(domain) = domain {
                release(&domain, &client, id).await;
            }
        })
    }

    fn keep_only(&self, client: Arc<str>, begin: String, keys: BTreeSet<String>) -> Deciding<()> {
        let domain = self.domain();
        Box::pin(async move {
            let Ok(domain) = domain else { return };
            let (mut after, keys) = (0, Arc::new(keys));
            loop {
                let (owner, begin, keys) = (client.to_string(), begin.clone(), Arc::clone(&keys));
                let page = domain.look(move |ledger| {
                    let rows = ledger.of_owner(&owner, after, TOGETHER);
                    others(&rows, &begin, &keys)
                });
                let Ok((ids, Some(last))) = page.await else { return };
                after = last;
                let each = |id| release(&domain, &client, id);
                futures_util::stream::iter(ids).for_each_concurrent(TOGETHER, each).await;
            }
        })
    }
}

/// Tells a door what becomes of the domain in a seat, until the door is gone.
async fn follow(seat: Seat, tell: mpsc::Sender<Changed>) {
    let mut led = seat.watch();
    loop {
        let here = led.borrow_and_update().clone();
        let mut has_changed = false;
        if let Some(here) = here
            && let Ok(news) = here.domain.news().await
        {
            if tell.send(Changed::Begins).await.is_err() {
                return;
            }
            has_changed = tokio::select! {
                _ = led.changed() => true,
                () = pass_on(news, &tell) => false,
            };
        }
        if tell.send(Changed::Ends).await.is_err() {
            return;
        }
        if !has_changed {
            tokio::select! { _ = led.changed() => {}, () = tell.closed() => return }
        }
    }
}

/// Passes on what concerns reservations until the domain or the door ends.
async fn pass_on(mut news: broadcast::Receiver<Arc<News>>, tell: &mpsc::Sender<Changed>) {
    loop {
        let news = tokio::select! { news = news.recv() => news, () = tell.closed() => return };
        let changed = match news.as_deref() {
            Ok(News::Told(Told::Gone { id, code, .. })) => Changed::Gone(*id, *code),
            Ok(News::Anew) | Err(RecvError::Lagged(_)) => Changed::Unsure,
            Ok(News::Told(_) | News::Node { .. } | News::Clients) => continue,
            Err(RecvError::Closed) => return,
        };
        if tell.send(changed).await.is_err() {
            return;
        }
    }
}
