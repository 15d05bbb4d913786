//! Refusals of a domain as answers.

use crate::refusal::{OneError, status};
use axum::Json;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use perhop_broker::ledger::Refusal;
use perhop_model::ErrorItem;
use perhop_reason::Code;
use serde_json::{Map, Value, json};

/// A refusal, to be answered.
#[derive(Clone, Debug)]
pub(crate) struct Refused(pub(super) Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl Refused {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Refusal::new(code, message))
    }
}

/// The refusal as it is shown everywhere: what there is to say of it, and no more.
pub(super) fn shown(refusal: &Refusal) -> Value {
    let mut shown = Map::new();
    shown.insert("code".into(), json!(refusal.code));
    shown.insert("message".into(), json!(refusal.message));
    if !refusal.link.is_empty() {
        shown.insert("link".into(), json!(refusal.link));
    }
    if !refusal.domain.is_empty() {
        shown.insert("domain".into(), json!(refusal.domain));
    }
    if !refusal.class.is_empty() {
        shown.insert("class".into(), json!(refusal.class));
    }
    if refusal.asked_bps > 0 {
        shown.insert("asked_bps".into(), json!(refusal.asked_bps));
        shown.insert("free_bps".into(), json!(refusal.free_bps));
    }
    if refusal.retry_after_ms > 0 {
        shown.insert("retry_after_ms".into(), json!(refusal.retry_after_ms));
    }
    Value::Object(shown)
}

/// Says of an answer that is an error of the request itself, or of its body, the same as of a refusal of the domain.
pub(crate) async fn with_refusal(mut response: Response) -> Response {
    let Some(error) = response.extensions_mut().remove::<OneError>() else { return response };
    let retry_after_ms = u32::try_from(error.retry_after_ms).unwrap_or(u32::MAX);
    let refusal = Refusal { retry_after_ms, ..Refusal::new(error.item.code, error.item.message.clone()) };
    let mut body = error.body();
    body["refusal"] = shown(&refusal);
    response.map(|_| Body::from(body.to_string()))
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(refusal) = &self;
        let status = match refusal.code {
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::LimitReached | Code::HeldElsewhere => StatusCode::SERVICE_UNAVAILABLE,
            code => status(code),
        };
        let item = ErrorItem {
            free: (refusal.asked_bps > 0).then_some(refusal.free_bps),
            ..ErrorItem::new(refusal.code, "", refusal.message.clone())
        };
        let mut body = json!({ "errors": [item], "refusal": shown(refusal) });
        if refusal.retry_after_ms == 0 {
            return (status, Json(body)).into_response();
        }
        body["retry_after_ms"] = refusal.retry_after_ms.into();
        let retry = [(header::RETRY_AFTER, refusal.retry_after_ms.div_ceil(1_000).to_string())];
        (status, retry, Json(body)).into_response()
    }
}
