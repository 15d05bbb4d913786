//! Accounts of the machine in a domain that is being looked after.

use crate::controller::LOCAL;
use crate::domain::Domain;
use perhop_broker::ledger::{Granted, Refusal, Request};
use perhop_broker::peer::{Account, Booking, Details, booked, booking, place};
use perhop_broker::record::ReservationId;
use perhop_reason::Code;
use perhop_units::Duration;

/// Has an account have so much. Less is done however long it takes. The reservation, if there is one then.
pub(super) async fn debit(
    domain: &Domain,
    account: &Account,
    bps: u64,
    lifetime: Duration,
    details: Option<Details>,
) -> Result<Option<ReservationId>, Refusal> {
    let of = account.clone();
    let booking = domain.look(move |ledger| booking(ledger, &of, bps, lifetime, details)).await?;
    let (client, request, had_bps, is_less, asks) = match booking {
        Booking::Is(id) => return Ok(id),
        Booking::Refused(refusal) => return Err(refusal),
        Booking::Ask { client, request, had_bps, is_less, asks } => (client, request, had_bps, is_less, asks),
    };
    let granted = match is_less {
        true => insist(domain, &client, request).await,
        false => domain.ask(&client, request).await,
    };
    let id = match granted {
        Ok(Granted::Held(held)) => held.id,
        Ok(Granted::Released(_) | Granted::Taken) => return Ok(None),
        Err(refusal) if refusal.code == Code::NotFound && bps == 0 => return Ok(None),
        // Leases count what is free beyond what they have.
        Err(refusal) if refusal.code != Code::Quota => {
            return Err(Refusal { free_bps: refusal.free_bps.saturating_sub(had_bps), ..refusal });
        }
        Err(refusal) => return Err(refusal),
    };
    if asks {
        settle(domain, &client, id).await?;
    }
    Ok(Some(id))
}

/// Has an account live so long from now.
pub(super) async fn renew(domain: &Domain, account: &Account, lifetime: Duration) {
    if account.leave.is_none() {
        return;
    }
    let (of, lifetime_ms) = (account.clone(), Some((lifetime.0 / 1_000_000).max(1)));
    if let Ok(Some((id, _))) = domain.look(move |ledger| booked(ledger, &of)).await {
        // What cannot be renewed ends, and that is told.
        let _ = insist(domain, &place(account).0, Request::Renew { id, lifetime_ms }).await;
    }
}

/// All domains have agreed to what an account is for. Its reservation.
pub(super) async fn agreed(domain: &Domain, account: Account) -> Result<ReservationId, Refusal> {
    let client = place(&account).0;
    let ended = || Refusal::new(Code::NotFound, "the reservation has just ended");
    let (id, asks) = domain.look(move |ledger| booked(ledger, &account)).await?.ok_or_else(ended)?;
    if asks {
        settle(domain, &client, id).await?;
    }
    Ok(id)
}

async fn settle(domain: &Domain, client: &str, id: ReservationId) -> Result<Granted, Refusal> {
    insist(domain, client, Request::Settle { id, peer_handle: None }).await
}

/// Asks until it is answered for good, for a client that may be gone by now.
async fn insist(domain: &Domain, client: &str, request: Request) -> Result<Granted, Refusal> {
    let mut client = client;
    loop {
        match domain.ask(client, request.clone()).await {
            Err(why) if matches!(why.code, Code::BackendFailed | Code::Overload) => {
                let pause = std::time::Duration::from_millis(u64::from(why.retry_after_ms).clamp(10, 1_000));
                tokio::time::sleep(pause).await;
            }
            Err(why) if matches!(why.code, Code::Unauthenticated | Code::Forbidden) && client != LOCAL => {
                client = LOCAL;
            }
            done => return done,
        }
    }
}
