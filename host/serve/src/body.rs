//! Bodies of requests: bounded in size and time, and read as JSON.

use crate::limits::{Gauges, Limit};
use crate::refusal::{busy, item, refuse, respond};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;
use perhop_model::ErrorItem;
use perhop_reason::Code;
use serde::de::DeserializeOwned;

/// A body that has arrived whole.
pub(crate) struct Received(Vec<u8>);

impl Received {
    /// The body as JSON; the error says where it is wrong.
    #[allow(clippy::result_large_err, reason = "the error is the finished answer")]
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Response> {
        serde_json::from_slice(&self.0).map_err(|e| {
            let text = e.to_string();
            refuse(item(code_of(&text), "", text))
        })
    }
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
    Gauges: axum::extract::FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let gauges = <Gauges as axum::extract::FromRef<S>>::from_ref(state);
        let patience = gauges.duration(Limit::BodyMs);
        match tokio::time::timeout(patience, receive(request, &gauges)).await {
            Ok(done) => done.map(Self),
            Err(_) => {
                gauges.hit(Limit::BodyMs);
                let why = "the body did not arrive in time";
                let limit = Some(gauges.value(Limit::BodyMs));
                let item = ErrorItem { limit, ..item(Code::LimitReached, Limit::BodyMs.name(), why) };
                Err(respond(StatusCode::REQUEST_TIMEOUT, item))
            }
        }
    }
}

async fn receive(request: Request, gauges: &Gauges) -> Result<Vec<u8>, Response> {
    let most = gauges.value(Limit::BodyBytes);
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|n| n > most) {
        return Err(too_large(gauges, most));
    }
    let mut body = request.into_body();
    let (mut bytes, mut permits) = (Vec::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| refuse(item(Code::Malformed, "", format!("reading the body: {e}"))))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() as u64 + data.len() as u64 > most {
            return Err(too_large(gauges, most));
        }
        permits.push(gauges.take(Limit::BodiesBytes, data.len() as u64).ok_or_else(|| {
            let limit = Limit::BodiesBytes;
            busy(limit.name(), gauges.value(limit), "too many large requests at the same time")
        })?);
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_large(gauges: &Gauges, most: u64) -> Response {
    gauges.hit(Limit::BodyBytes);
    let why = format!("the body is longer than {most} B");
    let item = ErrorItem { limit: Some(most), ..item(Code::LimitReached, Limit::BodyBytes.name(), why) };
    respond(StatusCode::PAYLOAD_TOO_LARGE, item)
}
