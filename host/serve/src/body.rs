//! Bodies of requests: bounded in size, time and in what they become, and read as JSON.
//!
//! What a body takes is charged to [`Limit::BodiesBytes`] from its first byte until its request is answered: its bytes
//! while they arrive, and before it is parsed what the parsed values can come to, which is many times the text.

use crate::limits::{Gauges, Limit, Permit};
use crate::listener::Peer;
use crate::refusal::{busy, gone, refuse, respond};
use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;
use perhop_model::{ErrorItem, Role};
use perhop_reason::Code;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Bytes of a body up to which it is parsed where it arrived; a longer one would keep other clients waiting.
const PARSED_AT_ONCE: usize = 16 << 10;
/// Most bytes of a body of a client that may only read: enough to check a change or to explain a packet.
const READERS_BODY: u64 = 64 << 10;

/// Bytes of memory that a value of a JSON array or object can take beside its text.
const VALUE_BYTES: u64 = 96;
/// The same of an array: its first allocation.
const ARRAY_BYTES: u64 = 128;
/// The same of an object: one node of a tree.
const OBJECT_BYTES: u64 = 640;

/// A client that may change something; others are refused before their body is read.
pub(crate) struct Changer;

impl<S: Send + Sync> FromRequestParts<S> for Changer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        match may_only_read(parts.extensions.get()) {
            true => Err(refuse(ErrorItem::new(
                Code::Forbidden,
                "",
                "this changes the router, and this client may only read",
            ))),
            false => Ok(Self),
        }
    }
}

/// Among the extensions of a request of somebody who may change what a controller looks after: longer bodies are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trusted;

/// Whether a client may only read; one of which nothing is known may not even write.
fn may_only_read(peer: Option<&Peer>) -> bool {
    peer.is_none_or(|p| p.credentials().role == Role::Read)
}

/// A body that has arrived whole.
#[derive(Debug)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    /// Grows with what the body takes.
    permit: Permit,
    gauges: Gauges,
}

impl Received {
    /// The body as JSON, and what it was charged, to be kept until the request is answered; the error says where it is
    /// wrong.
    pub(crate) async fn json<T: DeserializeOwned + Send + 'static>(self) -> Result<(T, Permit), Response> {
        if self.bytes.len() <= PARSED_AT_ONCE {
            return self.parse();
        }
        let turn = Arc::clone(self.gauges.parsing()).acquire_owned().await.map_err(|_| gone())?;
        let parsed = tokio::task::spawn_blocking(move || {
            let parsed = self.parse();
            drop(turn);
            parsed
        });
        parsed.await.map_err(|_| gone())?
    }

    #[allow(clippy::result_large_err, reason = "the error is the finished answer")]
    fn parse<T: DeserializeOwned>(mut self) -> Result<(T, Permit), Response> {
        charge(&mut self.permit, &self.gauges, weight(&self.bytes))?;
        let value = serde_json::from_slice(&self.bytes).map_err(|e| {
            let text = e.to_string();
            refuse(ErrorItem::new(code_of(&text), "", text))
        })?;
        Ok((value, self.permit))
    }
}

/// Bytes of memory that the values of a JSON text can take at the most, beside the text's own characters.
fn weight(text: &[u8]) -> u64 {
    let (mut sum, mut quoted, mut escaped) = (VALUE_BYTES, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b',' => sum += VALUE_BYTES,
            b'[' => sum += ARRAY_BYTES,
            b'{' => sum += OBJECT_BYTES,
            _ => {}
        }
    }
    sum
}

/// The code of what a deserialiser says.
pub(crate) fn code_of(text: &str) -> Code {
    if text.contains("unknown field") {
        Code::UnknownField
    } else if text.contains("unknown variant") && text.contains("abr_policy") {
        Code::UnknownKind
    } else {
        Code::Malformed
    }
}

impl<S: Send + Sync> FromRequest<S> for Received
where
    Gauges: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let gauges = <Gauges as FromRef<S>>::from_ref(state);
        let patience = gauges.duration(Limit::BodyMs);
        match tokio::time::timeout(patience, receive(request, &gauges)).await {
            Ok(done) => done,
            Err(_) => {
                gauges.hit(Limit::BodyMs);
                let why = "the body did not arrive in time";
                let limit = Some(gauges.value(Limit::BodyMs));
                let item =
                    ErrorItem { limit, ..ErrorItem::new(Code::LimitReached, Limit::BodyMs.name(), why) };
                Err(respond(StatusCode::REQUEST_TIMEOUT, item))
            }
        }
    }
}

async fn receive(request: Request, gauges: &Gauges) -> Result<Received, Response> {
    let most = gauges.value(Limit::BodyBytes);
    let extensions = request.extensions();
    let only_reads = may_only_read(extensions.get()) && extensions.get::<Trusted>().is_none();
    let refuse_length = |length: u64| {
        if length > most {
            Err(too_large(gauges, Limit::BodyBytes, format!("the body is longer than {most} B")))
        } else if only_reads && length > READERS_BODY {
            let why = format!("a client that may only read sends at most {READERS_BODY} B");
            Err(refuse(ErrorItem { limit: Some(READERS_BODY), ..ErrorItem::new(Code::Forbidden, "", why) }))
        } else {
            Ok(())
        }
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    refuse_length(announced.unwrap_or(0))?;
    let mut body = request.into_body();
    let (mut bytes, mut permit) = (Vec::new(), gauges.nothing_of(Limit::BodiesBytes));
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|e| refuse(ErrorItem::new(Code::Malformed, "", format!("reading the body: {e}"))))?;
        let Ok(data) = frame.into_data() else { continue };
        refuse_length(bytes.len() as u64 + data.len() as u64)?;
        charge(&mut permit, gauges, data.len() as u64)?;
        bytes.extend_from_slice(&data);
    }
    Ok(Received { bytes, permit, gauges: gauges.clone() })
}

/// Charges a body more, or says why it cannot be: others take what there is, or it alone is too much.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
fn charge(permit: &mut Permit, gauges: &Gauges, more: u64) -> Result<(), Response> {
    let (limit, most) = (Limit::BodiesBytes, gauges.value(Limit::BodiesBytes));
    let whole = permit.amount().saturating_add(more);
    if whole > most {
        let why = format!("the body and what it says take {whole} B, more than all bodies may together");
        return Err(too_large(gauges, limit, why));
    }
    match permit.grow(gauges, more) {
        true => Ok(()),
        false => Err(busy(limit.name(), most, "too many large requests at the same time")),
    }
}

fn too_large(gauges: &Gauges, limit: Limit, why: String) -> Response {
    gauges.hit(limit);
    let item = ErrorItem {
        limit: Some(gauges.value(limit)),
        ..ErrorItem::new(Code::LimitReached, limit.name(), why)
    };
    respond(StatusCode::PAYLOAD_TOO_LARGE, item)
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
