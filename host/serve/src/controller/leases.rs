//! `/v1/nodes/{node}/leases/{name}`: what an agent is to have to admit flows by itself.
//!
//! A lease is a reservation that the agent's client owns. A question says what it is to have in all, and has a number: one that comes twice
//! is answered as before, and one that comes late changes nothing. Two questions about one lease are decided one after the other.

use super::Shared;
use super::caller::Known;
use super::follow::node;
use super::openapi::Document;
use super::refused::{Refused, shown};
use crate::body::Received;
use crate::domain::{Domain, LeaseNote, Role};
use crate::endpoints::Endpoints;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perhop_broker::lease::{Judged, judge};
use perhop_broker::ledger::{Granted, Ledger, Refusal, Request, Reserve, Way};
use perhop_broker::record::{PathId, ReservationKind, ReservationRow};
use perhop_reason::Code;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};
use tokio::sync::{Mutex, MutexGuard};
use utoipa::ToSchema;

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: lease)
}

/// Questions about leases that are decided at the same time, at most.
const TURNS: usize = 64;

/// Whose turn it is: questions about one lease wait for each other.
pub(super) struct Turns {
    turns: [Mutex<()>; TURNS],
    hash: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        Self { turns: std::array::from_fn(|_| Mutex::default()), hash: RandomState::new() }
    }
}

impl Turns {
    async fn of(&self, key: &str) -> MutexGuard<'_, ()> {
        let number = self.hash.hash_one(key) as usize % TURNS;
        self.turns[number].lock().await
    }
}

/// What a lease is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseAsk {
    /// Node where its traffic leaves the domain; empty where it is of one link alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// The port of the node whose link alone it is of, in place of `to`: what a class of that port is measured to need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Logical class.
    pub class: String,
    /// In all, bit/s; 0 gives it back.
    pub bps: u64,
    /// Above that of every question about it before.
    pub number: u64,
    /// It ends so long from now unless it is renewed, ms; none = as the domain says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_ms: Option<u64>,
}

impl LeaseAsk {
    /// Where it is of.
    fn way(&self, node: &str) -> Result<Way, Refusal> {
        let node = node.to_owned();
        match (&self.port, self.to.as_str()) {
            (None, to) => Ok(Way::Between { from: node, to: to.to_owned() }),
            (Some(port), "") => Ok(Way::Link { node, port: port.clone() }),
            (Some(_), _) => {
                Err(Refusal::new(Code::Malformed, "a lease has a port or a node where it leads to"))
            }
        }
    }
}

/// What a lease has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseHas {
    /// Number of the question that was decided last: another than that which was asked where that came too late.
    pub number: u64,
    /// In all, bit/s.
    pub bps: u64,
}

#[utoipa::path(put, path = "/v1/nodes/{node}/leases/{name}",
    params(("node" = String, Path, description = "Where its traffic enters"), ("name" = String, Path)), request_body = LeaseAsk,
    responses((status = 200, description = "It has this; less than was asked for if the question came late", body = LeaseHas),
        (status = 422, description = "It has what it had, `number` and `bps`: `refusal` names link, class, what was asked for in all, and \
            what is free there beyond what it has"),
        (status = 403), (status = 503)))]
async fn lease(
    State(s): State<Shared>,
    Known(caller): Known,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Received,
) -> Result<Response, Response> {
    let (asked, _charge) = body.json::<LeaseAsk>().await?;
    let done = async {
        let named = path.map_err(|e| Refused::new(Code::Malformed, e.body_text()));
        let Path((of, name)) = named?;
        let node = node(Ok(Path(of)), &caller)?;
        if caller.role == Role::Viewer {
            return Err(Refused::new(Code::Forbidden, "a viewer has no leases"));
        }
        let key = LeaseNote::key(&node, &name);
        let _turn = s.turns.of(&key).await;
        let domain = s.seat.led()?.domain;
        decide(&domain, &caller.name, LeaseNote { node, name, number: asked.number }, key, asked).await
    };
    done.await.map_err(IntoResponse::into_response)
}

async fn decide(
    domain: &Domain,
    owner: &str,
    note: LeaseNote,
    key: String,
    asked: LeaseAsk,
) -> Result<Response, Refused> {
    let number = asked.number;
    let (of, by) = (owner.to_owned(), key.clone());
    let look = move |ledger: &Ledger| {
        let row = ledger.by_key(&of, &by)?;
        let way = way_of(ledger, row.path);
        Some((row, way))
    };
    let way = asked.way(&note.node)?;
    let Some((row, is)) = domain.look(look).await? else {
        if asked.bps == 0 {
            return Ok(has(number, 0));
        }
        return answer(domain.ask(owner, first(&note, key, way, asked)).await, number, 0);
    };
    let last = LeaseNote::of(&row).map(|note| note.number);
    match judge(last, number) {
        Judged::Again | Judged::Stale => Ok(has(last.unwrap_or(number), row.bps)),
        Judged::New if asked.bps == 0 => {
            let released = domain.ask(owner, Request::Release { id: row.id }).await;
            answer(released, number, row.bps)
        }
        Judged::New if is.as_ref() != Some(&way) || row.class != asked.class => {
            let refusal = Refusal::new(
                Code::TxnIdReused,
                "the lease of this name is of another class, or leads elsewhere",
            );
            answer(Err(refusal), number, row.bps)
        }
        Judged::New => answer(domain.ask(owner, other(&row, &note, &asked)).await, number, row.bps),
    }
}

/// Where a lease with this path is of.
fn way_of(ledger: &Ledger, path: PathId) -> Option<Way> {
    if let Some(link) = ledger.one_link(path) {
        return Some(Way::Link { node: link.node.clone(), port: link.port.clone() });
    }
    let path = ledger.path_numbered(path)?;
    Some(Way::Between { from: path.from_node.clone(), to: path.to_node.clone() })
}

fn first(note: &LeaseNote, idem: String, way: Way, asked: LeaseAsk) -> Request {
    Request::Reserve(Box::new(Reserve {
        kind: ReservationKind::Lease,
        lifetime_ms: asked.lifetime_ms,
        flow: note.text(),
        ..Reserve::new(idem, way, asked.class, asked.bps)
    }))
}

fn other(row: &ReservationRow, note: &LeaseNote, asked: &LeaseAsk) -> Request {
    Request::Change {
        id: row.id,
        bps: Some(asked.bps),
        back_bps: None,
        lifetime_ms: asked.lifetime_ms,
        flow: Some(note.text()),
    }
}

fn has(number: u64, bps: u64) -> Response {
    Json(LeaseHas { number, bps }).into_response()
}

/// What was decided about a lease that had `before`. That nothing could be decided is no decision: it is asked again.
fn answer(decided: Result<Granted, Refusal>, number: u64, before: u64) -> Result<Response, Refused> {
    let mut refusal = match decided {
        Ok(Granted::Held(held)) => return Ok(has(number, held.bps)),
        Ok(Granted::Released(_) | Granted::Taken) => return Ok(has(number, 0)),
        Err(refusal) => refusal,
    };
    let is_none = matches!(
        refusal.code,
        Code::BackendFailed
            | Code::HeldElsewhere
            | Code::Overload
            | Code::Fenced
            | Code::ShuttingDown
            | Code::NotFound
    );
    if is_none {
        return Err(refusal.into());
    }
    // A quota's is beyond already.
    if refusal.code != Code::Quota {
        refusal.free_bps = refusal.free_bps.saturating_sub(before);
    }
    let mut body = serde_json::json!(LeaseHas { number, bps: before });
    body["refusal"] = shown(&refusal);
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response())
}

#[cfg(test)]
#[path = "leases_tests.rs"]
mod tests;
