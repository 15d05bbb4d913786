//! The door of what is decided beside a router: `/v1/reservations` as a controller has it.

use super::Decisions;
use crate::Clients;
use crate::body::Received;
use crate::controller::{
    CreateReservation, LOCAL, Refused, ReservationPage, ShownReservation, number, with_refusal,
};
use crate::endpoints::{Endpoints, endpoints, in_range, parameters};
use crate::limits::{Gauges, Limits};
use crate::listener::Peer;
use crate::server::{ServeError, Server};
use crate::socket::ClaimedPath;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRef, FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use perhop_model::Role;
use perhop_reason::Code;
use serde::Deserialize;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Perhop agent",
        description = "Reservations of flows that enter at one router, decided beside it. Shapes and refusals are those of a domain's \
            controller. Numbers of reservations are the agent's own.\n\nAn answer is given when what was admitted outlives the agent, and \
            the router's class has room for it."
    ),
    components(schemas(CreateReservation, ShownReservation, ReservationPage))
)]
struct Document;

/// Reservations of a page.
const PAGE: std::ops::RangeInclusive<usize> = 1..=10_000;

#[derive(Clone)]
struct Shared {
    decisions: Decisions,
    gauges: Gauges,
}

impl FromRef<Shared> for Gauges {
    fn from_ref(shared: &Shared) -> Self {
        shared.gauges.clone()
    }
}

/// What is served of decisions.
#[derive(Clone)]
pub struct DecisionsApp {
    app: Router,
    gauges: Gauges,
}

impl DecisionsApp {
    /// Of these.
    pub fn new(decisions: Decisions, limits: Limits) -> Self {
        let gauges = Gauges::new(limits);
        let all: Endpoints<Shared> = endpoints!(Document: create, list, release);
        let app = all.with_state(Shared { decisions, gauges: gauges.clone() });
        Self { app: app.layer(map_response(with_refusal)), gauges }
    }

    /// At a claimed path: root and the own user may reserve, others see.
    ///
    /// # Errors
    /// The operating system's.
    pub fn at(&self, claimed: &ClaimedPath) -> Result<Server, ServeError> {
        Server::of(claimed, self.app.clone(), self.gauges.clone(), Clients::default())
    }
}

/// Somebody who may reserve.
struct Asker;

impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let peer = parts.extensions.get::<Peer>();
        match peer.filter(|peer| peer.credentials().role == Role::Admin) {
            Some(_) => Ok(Self),
            None => Err(Refused::new(Code::Forbidden, "only root and the agent's own user may reserve here")),
        }
    }
}

#[utoipa::path(post, path = "/v1/reservations", request_body = CreateReservation, responses(
    (status = 201, description = "It is in force; the same for a request that comes again, which renews it", body = ShownReservation),
    (status = 409, description = "The key was used for something else"),
    (status = 422, description = "No capacity: `refusal` names link, class, what was asked and what is free; or it cannot be decided here"),
    (status = 503, description = "It does not fit into what is leased, and the controller does not answer")))]
async fn create(State(s): State<Shared>, _: Asker, body: Received) -> Result<Response, Response> {
    let (wanted, _charge) = body.json::<CreateReservation>().await?;
    let row =
        s.decisions.ask(LOCAL, wanted).await.map_err(|refusal| Refused::from(refusal).into_response())?;
    Ok((StatusCode::CREATED, Json(row)).into_response())
}

#[utoipa::path(delete, path = "/v1/reservations/{id}", params(("id" = u64, Path)),
    responses((status = 204, description = "It is given back"), (status = 403), (status = 404)))]
async fn release(
    State(s): State<Shared>,
    _: Asker,
    id: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, Refused> {
    s.decisions.release(None, number(id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    owner: Option<String>,
    after: Option<u64>,
    limit: Option<usize>,
}

#[utoipa::path(get, path = "/v1/reservations", params(("owner" = Option<String>, Query, description = "Only this client's"),
    ("after" = Option<u64>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = ReservationPage)))]
async fn list(
    State(s): State<Shared>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<ReservationPage>, Response> {
    let query = parameters(query)?;
    in_range(query.limit, PAGE)?;
    let all = s.decisions.list().await.map_err(|refusal| Refused::from(refusal).into_response())?;
    let (total, after, limit) = (all.len(), query.after.unwrap_or(0), query.limit.unwrap_or(1_000));
    let is_meant = |row: &ShownReservation| {
        row.id > after && query.owner.as_ref().is_none_or(|owner| *owner == row.owner)
    };
    let mut reservations: Vec<_> = all.into_iter().filter(is_meant).take(limit + 1).collect();
    let more = reservations.len() > limit;
    reservations.truncate(limit);
    let next = reservations.last().filter(|_| more).map(|row| row.id);
    Ok(Json(ReservationPage { reservations, next, total }))
}
