//! `/v1/peers`: what neighbouring domains say, and what this one has with them.

use super::Shared;
use super::caller::{Neighbour, Viewer};
use super::openapi::Document;
use super::refused::Refused;
use crate::body::Received;
use crate::endpoints::Endpoints;
use crate::peer::{MOST_MESSAGES, ShownPeer};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perhop_broker::lease::{Ask, Decision, LeaseId};
use perhop_broker::ledger::MOST_KEY;
use perhop_broker::peer::{Body, Envelope};
use perhop_reason::Code;
use perhop_units::{Duration, Rate};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: messages, peers)
}

/// Longest life of what one domain asks of another.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Messages {
    /// Each `{from, to, hops, body}`, where `body` is one of `ask`, `decision`, `reduced`. At most 256.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Envelope>,
}

/// Whether a message has only what can be kept and answered.
fn is_sound(envelope: &Envelope) -> bool {
    let is_name = |name: &str| (1..=MOST_KEY).contains(&name.len()) && !name.chars().any(char::is_control);
    let is_lease = |lease: &LeaseId| {
        let flow = lease.flow.iter().flat_map(|flow| [&flow.owner, &flow.idem]);
        [&lease.class].into_iter().chain(&lease.to).chain(flow).all(|name| is_name(name))
    };
    let is_decision = |decision: &Decision| {
        let link = decision.refused.as_ref().is_none_or(|refusal| {
            refusal.link.len() <= 4 * MOST_KEY && !refusal.link.chars().any(char::is_control)
        });
        is_lease(&decision.lease) && link && decision.has <= Rate::MOST.0
    };
    is_name(&envelope.from)
        && is_name(&envelope.to)
        && match &envelope.body {
            Body::Ask(Ask { lease, bps, lifetime, .. }) => {
                let life = Duration::from_millis(1)..=LONGEST;
                is_lease(lease) && *bps <= Rate::MOST.0 && life.contains(lifetime)
            }
            Body::Decision(decision) | Body::Reduced(decision) => is_decision(decision),
        }
}

#[utoipa::path(post, path = "/v1/peers/messages", request_body = Messages, responses(
    (status = 204, description = "They are heard; what is to be said to them comes the other way"),
    (status = 403, description = "The client is no neighbouring domain of this one"), (status = 422), (status = 503)))]
async fn messages(
    State(s): State<Shared>,
    Neighbour(caller): Neighbour,
    body: Received,
) -> Result<StatusCode, Response> {
    let (said, _charge) = body.json::<Messages>().await?;
    let done = async {
        let between = s.seat.led()?.between.filter(|between| between.is_neighbour(&caller.name));
        let Some(between) = between else {
            let why = format!("client {} is no [[peer]] of this domain", caller.name);
            return Err(Refused::new(Code::Forbidden, why));
        };
        if said.messages.len() > MOST_MESSAGES || !said.messages.iter().all(is_sound) {
            return Err(Refused::new(Code::OutOfRange, "a message has something that cannot be"));
        }
        if !said.messages.is_empty() {
            between.hear(&caller.name, said.messages).await?;
        }
        Ok::<_, Refused>(StatusCode::NO_CONTENT)
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(get, path = "/v1/peers", responses(
    (status = 200, description = "Domains that reservations reach, by which neighbour, and what is held there")))]
async fn peers(State(s): State<Shared>, _: Viewer) -> Result<Json<Value>, Refused> {
    let shown: Vec<ShownPeer> = match s.seat.led()?.between {
        Some(between) => between.shown().await?,
        None => Vec::new(),
    };
    Ok(Json(json!({ "peers": shown })))
}
