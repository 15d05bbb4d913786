//! `/v1/reservations`.

use super::Shared;
use super::caller::{Asker, Known};
use super::openapi::Document;
use super::refused::{Refused, shown};
use super::seat::Led;
use super::shapes::{ChangeReservation, CreateReservation, ReservationPage, ReservationRow};
use crate::body::Received;
use crate::domain::{Caller, Domain, Flow, Packets, Role};
use crate::endpoints::{Endpoints, in_range, parameters};
use crate::peer::Between;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perhop_broker::ledger::{Granted, Request, Way};
use perhop_broker::peer::{Far, Note};
use perhop_reason::Code;
use serde::Deserialize;
use serde_json::json;

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: create, list, one, change, renew, release, why)
}

/// Reservations of a page.
const PAGE: std::ops::RangeInclusive<usize> = 1..=10_000;

/// The number in an address.
pub(crate) fn number(path: Result<Path<u64>, PathRejection>) -> Result<u64, Refused> {
    let why = "reservations have numbers from 1 on";
    path.map(|Path(id)| id).map_err(|_| Refused::new(Code::NotFound, why))
}

async fn answer(domain: &Domain, id: u64, status: StatusCode) -> Result<Response, Refused> {
    let row =
        domain.look(move |ledger| ledger.reservation(id).map(|row| ReservationRow::of(ledger, row))).await?;
    let row = row.ok_or_else(|| none(id))?;
    Ok((status, Json(row)).into_response())
}

fn none(id: u64) -> Refused {
    Refused::new(Code::NotFound, format!("there is no reservation {id}"))
}

/// A reservation that ends in another domain, and the handle by which it is changed.
struct Beyond {
    row: perhop_broker::record::ReservationRow,
    from: String,
    far: Far,
    between: Between,
}

/// The reservation of this number, if it ends in another domain and this client may change it.
async fn beyond(led: &Led, caller: &Caller, id: u64) -> Result<Option<Beyond>, Refused> {
    let look = move |ledger: &perhop_broker::ledger::Ledger| {
        let row = ledger.reservation(id)?;
        let far = Note::of(&row)?.far?;
        let from = ledger.path_numbered(row.path).map(|path| path.from_node.clone());
        Some((row, from.unwrap_or_default(), far))
    };
    let Some((row, from, far)) = led.domain.look(look).await? else { return Ok(None) };
    if *row.owner != *caller.name && !matches!(caller.role, Role::Operator | Role::Admin) {
        return Err(Refused::new(Code::NotOwner, format!("reservation {id} is another client's")));
    }
    // Without neighbours it is this domain's alone.
    Ok(led.between.clone().map(|between| Beyond { row, from, far, between }))
}

async fn create_beyond(
    led: &Led,
    caller: &Caller,
    wanted: CreateReservation,
    far: Far,
) -> Result<Response, Refused> {
    if wanted.back_bps.is_some() {
        let why = "between domains each reserves what it sends: ask the other one for the way back";
        return Err(Refused::new(Code::Unsupported, why));
    }
    let between = between(led)?;
    let lifetime_ms = led.domain.look(|ledger| ledger.settings().lifetime_ms).await?;
    let id = between.reserve(&led.domain, &caller.name, wanted.wanted(far, lifetime_ms)).await?;
    answer(&led.domain, id, StatusCode::CREATED).await
}

fn between(led: &Led) -> Result<Between, Refused> {
    let why = "this domain has no neighbours: its file has no [[peer]]";
    led.between.clone().ok_or_else(|| Refused::new(Code::NoPath, why))
}

/// Whether a client may reserve this. An agent looks after what enters at its node.
fn may(caller: &Caller, wanted: &CreateReservation) -> Result<(), Refused> {
    if caller.role == Role::Agent && *caller.name != *wanted.from {
        let why = format!("agent {} reserves for what enters at its own node", caller.name);
        return Err(Refused::new(Code::Forbidden, why));
    }
    wanted.flow().check().map_err(|why| Refused::new(Code::OutOfRange, why.to_string()))
}

#[utoipa::path(post, path = "/v1/reservations", request_body = CreateReservation, responses(
    (status = 201, description = "It is in force; the same for a request that comes again", body = ReservationRow),
    (status = 409, description = "The key was used for something else"),
    (status = 422, description = "No capacity: `refusal` names link, class, what was asked and what is free; or no path, a quota, a \
        value that cannot be"),
    (status = 429), (status = 503, description = "The database does not answer, or another instance leads"),
))]
async fn create(State(s): State<Shared>, Asker(caller): Asker, body: Received) -> Result<Response, Response> {
    let (wanted, _charge) = body.json::<CreateReservation>().await?;
    let done = async {
        let led = s.seat.led()?;
        may(&caller, &wanted)?;
        if let Some(far) = wanted.far() {
            return create_beyond(&led, &caller, wanted, far).await;
        }
        let domain = led.domain;
        match domain.ask(&caller.name, Request::Reserve(Box::new(wanted.request()))).await? {
            Granted::Held(held) => answer(&domain, held.id, StatusCode::CREATED).await,
            Granted::Released(_) | Granted::Taken => Ok(StatusCode::NO_CONTENT.into_response()),
        }
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(post, path = "/v1/why", request_body = CreateReservation, responses(
    (status = 200, description = "Whether it would be granted now, and if not, why: nothing is booked. `rests_on` is the domain where it \
        ends: whether that agrees, and those on the way, only reserving can tell")))]
async fn why(State(s): State<Shared>, Asker(caller): Asker, body: Received) -> Result<Response, Response> {
    let (wanted, _charge) = body.json::<CreateReservation>().await?;
    let done = async {
        let led = s.seat.led()?;
        may(&caller, &wanted)?;
        let (domain, far) = (led.domain.clone(), wanted.far());
        domain.turn(&caller).await?;
        let mut request = wanted.request();
        // Of other domains nothing is known without reserving there.
        let rests_on = far.as_ref().map(|far| far.domain.clone());
        if let (Some(far), Way::Between { to, .. }) = (far, &mut request.way) {
            let by = between(&led)?.neighbour_of(&far.domain);
            *to = by.ok_or_else(|| {
                let why = format!("no neighbouring domain leads to domain {:?}", far.domain);
                Refused::new(Code::NoPath, why)
            })?;
        }
        let body = match domain.why(&caller.name, Request::Reserve(Box::new(request))).await {
            Ok(()) => match rests_on {
                Some(domain) => json!({ "granted": true, "rests_on": domain }),
                None => json!({ "granted": true }),
            },
            Err(refusal) => json!({ "granted": false, "refusal": shown(&refusal) }),
        };
        Ok::<_, Refused>(Json(body).into_response())
    };
    done.await.map_err(IntoResponse::into_response)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    owner: Option<String>,
    key: Option<String>,
    after: Option<u64>,
    limit: Option<usize>,
}

#[utoipa::path(get, path = "/v1/reservations", params(
    ("owner" = Option<String>, Query, description = "Only this client's; of agents and proxies always the own"),
    ("key" = Option<String>, Query, description = "Only the one with this key of its owner, who is whoever asks unless it is said"),
    ("after" = Option<u64>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = ReservationPage)))]
async fn list(
    State(s): State<Shared>,
    Known(caller): Known,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<ReservationPage>, Response> {
    let query = parameters(query)?;
    in_range(query.limit, PAGE)?;
    let owner = match caller.role {
        Role::Agent | Role::Proxy => Some(caller.name.to_string()),
        Role::Viewer | Role::Operator | Role::Admin => query.owner,
    };
    let (after, limit) = (query.after.unwrap_or(0), query.limit.unwrap_or(1_000));
    let (key, asker) = (query.key, caller.name.to_string());
    let done = async {
        let domain = s.seat.led()?.domain;
        let page = domain.look(move |ledger| {
            let mut rows = match (&key, &owner) {
                (Some(key), owner) => {
                    ledger.by_key(owner.as_ref().unwrap_or(&asker), key).into_iter().collect()
                }
                (None, Some(owner)) => ledger.of_owner(owner, after, limit + 1),
                (None, None) => ledger.all(after, limit + 1),
            };
            let more = rows.len() > limit;
            rows.truncate(limit);
            ReservationPage {
                next: rows.last().filter(|_| more).map(|row| row.id),
                reservations: rows.into_iter().map(|row| ReservationRow::of(ledger, row)).collect(),
                total: ledger.reservations(),
            }
        });
        Ok::<_, Refused>(Json(page.await?))
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(get, path = "/v1/reservations/{id}", params(("id" = u64, Path)),
    responses((status = 200, body = ReservationRow), (status = 404)))]
async fn one(
    State(s): State<Shared>,
    Known(caller): Known,
    id: Result<Path<u64>, PathRejection>,
) -> Result<Response, Refused> {
    let id = number(id)?;
    let domain = s.seat.led()?.domain;
    let only_own = matches!(caller.role, Role::Agent | Role::Proxy);
    let row = domain.look(move |ledger| {
        let row = ledger.reservation(id).filter(|row| !only_own || *row.owner == *caller.name)?;
        Some(ReservationRow::of(ledger, row))
    });
    Ok(Json(row.await?.ok_or_else(|| none(id))?).into_response())
}

/// What is kept with a reservation, with other packets.
async fn with_packets(domain: &Domain, id: u64, packets: Vec<Packets>) -> Result<String, Refused> {
    let row = domain.look(move |ledger| ledger.reservation(id)).await?.ok_or_else(|| none(id))?;
    let flow = Flow { packets, ..Flow::of(&row) };
    flow.check().map_err(|why| Refused::new(Code::OutOfRange, why.to_string()))?;
    // It is kept in the direction of the first of both.
    let is_second = row.twin.is_some_and(|twin| twin < row.id);
    Ok(if is_second { flow.turned().text() } else { flow.text() })
}

#[utoipa::path(patch, path = "/v1/reservations/{id}", params(("id" = u64, Path)), request_body = ChangeReservation,
    responses((status = 200, description = "All of it is in force", body = ReservationRow), (status = 403), (status = 404),
        (status = 422, description = "No capacity for more: it is as it was")))]
async fn change(
    State(s): State<Shared>,
    Asker(caller): Asker,
    id: Result<Path<u64>, PathRejection>,
    body: Received,
) -> Result<Response, Response> {
    let (wanted, _charge) = body.json::<ChangeReservation>().await?;
    let done = async {
        let id = number(id)?;
        let ChangeReservation { bps, back_bps, lifetime_ms, packets } = wanted;
        let led = s.seat.led()?;
        let flow = match packets {
            Some(packets) => Some(with_packets(&led.domain, id, packets).await?),
            None => None,
        };
        match beyond(&led, &caller, id).await? {
            Some(_) if flow.is_some() => {
                let why = "packets of a reservation that ends in another domain stay as they are";
                return Err(Refused::new(Code::Unsupported, why));
            }
            Some(Beyond { row, from, far, between }) if back_bps.is_none() => {
                between.change(&row, from, far, bps, lifetime_ms).await?;
            }
            _ => {
                let request = Request::Change { id, bps, back_bps, lifetime_ms, flow };
                led.domain.ask(&caller.name, request).await?;
            }
        }
        answer(&led.domain, id, StatusCode::OK).await
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(post, path = "/v1/reservations/{id}/renew", params(("id" = u64, Path)),
    responses((status = 200, description = "It lives as long again", body = ReservationRow), (status = 403), (status = 404)))]
async fn renew(
    State(s): State<Shared>,
    Asker(caller): Asker,
    id: Result<Path<u64>, PathRejection>,
) -> Result<Response, Refused> {
    let id = number(id)?;
    let led = s.seat.led()?;
    match beyond(&led, &caller, id).await? {
        Some(Beyond { row, from, far, between }) => {
            let lifetime_ms = led.domain.look(|ledger| ledger.settings().lifetime_ms).await?;
            between.change(&row, from, far, None, Some(lifetime_ms)).await?;
        }
        None => {
            led.domain.ask(&caller.name, Request::Renew { id, lifetime_ms: None }).await?;
        }
    }
    answer(&led.domain, id, StatusCode::OK).await
}

#[utoipa::path(delete, path = "/v1/reservations/{id}", params(("id" = u64, Path)),
    responses((status = 204, description = "It is given back, with its other direction"), (status = 403), (status = 404)))]
async fn release(
    State(s): State<Shared>,
    Asker(caller): Asker,
    id: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, Refused> {
    let id = number(id)?;
    let led = s.seat.led()?;
    match beyond(&led, &caller, id).await? {
        Some(Beyond { row, between, .. }) => between.release(&row).await?,
        None => {
            led.domain.ask(&caller.name, Request::Release { id }).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
