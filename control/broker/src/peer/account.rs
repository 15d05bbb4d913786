//! Accounts as reservations of the ledger.
//!
//! A flow's is its client's, with the client's key. What a neighbour has is the reservation of the client of that name, so that what
//! it may have in all is bounded by its own quota.

use super::message::{Account, DealId};
use crate::flow::Flow;
use crate::ledger::{Ledger, Refusal, Request, Reserve, Way};
use crate::record::{ReservationId, ReservationKind, ReservationRow, ReservationState};
use perhop_reason::Code;
use perhop_units::Duration;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write as _};
use std::str::FromStr;

/// An edge of another domain, `EDGE@DOMAIN`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Far {
    /// The edge there.
    pub edge: String,
    /// The domain.
    pub domain: String,
}

impl FromStr for Far {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (edge, domain) = text.split_once('@').ok_or(())?;
        Ok(Self { edge: edge.to_owned(), domain: domain.to_owned() })
    }
}

impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.edge, self.domain)
    }
}

/// What is kept with the reservation of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The agreement.
    pub deal: DealId,
    /// Where a flow of this domain's ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<Far>,
    /// What a flow was asked for with at first, as the interface has it: the same again is the same request.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub asked: Value,
}

impl Note {
    /// As it is kept with a flow.
    pub fn value(&self) -> Value {
        json!({ "between": self })
    }

    /// As it is kept with what a neighbour has, which is told in words, too.
    fn text(&self) -> String {
        let mut note = String::new();
        if let DealId::Lease(holder, lease) = &self.deal {
            let to = lease.to.as_deref().unwrap_or("anywhere");
            let _ = write!(note, "of domain {holder} to {to}");
            if let Some(flow) = &lease.flow {
                let _ = write!(note, ": {} of {}", flow.idem, flow.owner);
            }
        }
        let note = Some(note.chars().filter(|c| !c.is_control()).collect());
        Flow { note, of_interface: self.value(), ..Flow::default() }.text()
    }

    /// What is kept with a reservation; none = it has nothing to do with other domains.
    pub fn of(row: &ReservationRow) -> Option<Self> {
        Self::in_text(&row.flow)
    }

    /// As [`Note::of`], of the text alone.
    pub fn in_text(flow: &str) -> Option<Self> {
        // Most reservations end in their own domain.
        if !flow.contains("\"between\"") {
            return None;
        }
        let flow: Flow = serde_json::from_str(flow).ok()?;
        serde_json::from_value(flow.of_interface.get("between")?.clone()).ok()
    }
}

/// What the reservation of a flow has besides its account.
#[derive(Clone, Debug)]
pub struct Details {
    /// What is kept with it; the [`Note`] is in it.
    pub text: String,
    /// See [`Reserve::floor_bps`].
    pub floor_bps: Option<u64>,
    /// See [`Reserve::priority`].
    pub priority: u8,
}

/// What an account needs of the ledger.
#[derive(Clone, Debug)]
pub enum Booking {
    /// Nothing: this is its reservation.
    Is(Option<ReservationId>),
    /// A request.
    Ask {
        /// The client whose it is.
        client: String,
        /// What is asked.
        request: Request,
        /// What it has now, bit/s.
        had_bps: u64,
        /// It is for no more than it has, which is never refused.
        is_less: bool,
        /// It waits to be settled: that had been agreed to when the process ended.
        asks: bool,
    },
    /// It cannot be.
    Refused(Refusal),
}

/// Whose an account's reservation is, and by which key.
pub fn place(account: &Account) -> (String, String) {
    match &account.deal {
        DealId::Flow(flow) => (flow.owner.clone(), flow.idem.clone()),
        deal @ DealId::Lease(..) => {
            let digest = Sha256::digest(serde_json::to_vec(deal).unwrap_or_default());
            let hex = digest.iter().fold(String::from("between:"), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            (account.enter.clone(), hex)
        }
    }
}

/// The reservation of an account, with whether it waits to be settled.
pub fn booked(ledger: &Ledger, account: &Account) -> Option<(ReservationId, bool)> {
    let (owner, key) = place(account);
    let row = ledger.by_key(&owner, &key)?;
    Note::of(&row).filter(|note| note.deal == account.deal)?;
    Some((row.id, row.state == ReservationState::Asking))
}

/// What it takes that an account has so much, and lives so long from now. `details` of a flow are needed for the first time.
pub fn booking(
    ledger: &Ledger,
    account: &Account,
    bps: u64,
    lifetime: Duration,
    details: Option<Details>,
) -> Booking {
    let Some(leave) = &account.leave else { return Booking::Is(None) };
    let (client, key) = place(account);
    let lifetime_ms = Some((lifetime.0 / 1_000_000).max(1));
    let Some(row) = ledger.by_key(&client, &key) else {
        if bps == 0 {
            return Booking::Is(None);
        }
        let way = Way::Between { from: account.enter.clone(), to: leave.clone() };
        let reserve = Reserve { lifetime_ms, ..Reserve::new(key, way, account.class.clone(), bps) };
        let reserve = match (&account.deal, details) {
            (DealId::Flow(_), Some(Details { text, floor_bps, priority })) => {
                Reserve { asking: true, flow: text, floor_bps, priority, ..reserve }
            }
            (DealId::Flow(_), None) => {
                return Booking::Refused(Refusal::new(Code::NotFound, "the reservation has ended"));
            }
            (deal @ DealId::Lease(..), _) => {
                let note = Note { deal: deal.clone(), far: None, asked: Value::Null };
                Reserve { kind: ReservationKind::Lease, flow: note.text(), ..reserve }
            }
        };
        let request = Request::Reserve(Box::new(reserve));
        return Booking::Ask { client, request, had_bps: 0, is_less: false, asks: false };
    };
    if Note::of(&row).is_none_or(|note| note.deal != account.deal) {
        let why = "this key was used for another reservation";
        return Booking::Refused(Refusal::new(Code::TxnIdReused, why));
    }
    let id = row.id;
    let request = match bps {
        0 => Request::Release { id },
        bps => Request::Change { id, bps: Some(bps), back_bps: None, lifetime_ms, flow: None },
    };
    let asks = row.state == ReservationState::Asking && bps > 0;
    Booking::Ask { client, request, had_bps: row.bps, is_less: bps <= row.bps, asks }
}
