//! Errors as CAMARA shows them: `{status, code, message}`, at every address of its APIs.

use super::super::refused::Refused;
use axum::Json;
use axum::body::to_bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use perhop_broker::ledger::Refusal;
use perhop_reason::Code;
use serde_json::{Value, json};

/// Longest message, characters.
const MOST_MESSAGE: usize = 512;
/// Longest body of an answer that is made into one of these.
const MOST_BODY: usize = 1 << 16;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after_ms: u64,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after_ms: 0 }
    }

    /// A request that cannot be meant so.
    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", message)
    }

    /// Something that cannot be done for this device or server.
    pub(super) fn not_applicable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "SERVICE_NOT_APPLICABLE", message)
    }

    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "PERMISSION_DENIED", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub(super) fn too_often(retry_after_ms: u32) -> Self {
        let why = "this client asks too often";
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", why);
        Self { retry_after_ms: retry_after_ms.into(), ..problem }
    }

    /// What the door says of a body.
    pub(super) async fn of(response: Response) -> Self {
        let status = response.status();
        let bytes = to_bytes(response.into_body(), MOST_BODY).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let message = body["errors"][0]["message"].as_str().unwrap_or("this cannot be done").to_owned();
        let retry_after_ms = body["retry_after_ms"].as_u64().unwrap_or(0);
        let (status, code) = match status {
            StatusCode::REQUEST_TIMEOUT => (status, "TIMEOUT"),
            // Of a body the door forbids nothing but its length, to those who are not of this machine.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::FORBIDDEN => {
                (StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE")
            }
            StatusCode::SERVICE_UNAVAILABLE => (status, "UNAVAILABLE"),
            status if status.is_server_error() => (status, "INTERNAL"),
            _ => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
        };
        Self { retry_after_ms, ..Self::new(status, code, message) }
    }
}

/// A refusal in a line: its code, and which link and class lack how much.
pub(super) fn words(refusal: &Refusal) -> String {
    let mut words = refusal.code.name().to_owned();
    if !refusal.link.is_empty() {
        words += &format!(": link {}", refusal.link);
    }
    if !refusal.class.is_empty() {
        words += &format!(", class {}", refusal.class);
    }
    if refusal.asked_bps > 0 {
        words += &format!(", {} bit/s asked, {} bit/s free", refusal.asked_bps, refusal.free_bps);
    }
    format!("{words}: {}", refusal.message)
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, code) = match refusal.code {
            Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
            Code::Forbidden | Code::NotOwner => (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
            Code::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Code::TxnIdReused | Code::Exists => (StatusCode::CONFLICT, "CONFLICT"),
            Code::Quota => (StatusCode::TOO_MANY_REQUESTS, "QUOTA_EXCEEDED"),
            Code::Overload => (StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS"),
            Code::NoPath => (StatusCode::UNPROCESSABLE_ENTITY, "SERVICE_NOT_APPLICABLE"),
            Code::BadReference => (StatusCode::UNPROCESSABLE_ENTITY, PROFILE_NOT_APPLICABLE),
            Code::Malformed | Code::UnknownField | Code::UnknownKind | Code::OutOfRange => {
                (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT")
            }
            _ => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        };
        let retry_after_ms = refusal.retry_after_ms.into();
        Self { retry_after_ms, ..Self::new(status, code, words(&refusal)) }
    }
}

/// The profile is there and cannot be used.
pub(super) const PROFILE_NOT_APPLICABLE: &str = "QUALITY_ON_DEMAND.QOS_PROFILE_NOT_APPLICABLE";

impl From<Refused> for Problem {
    fn from(Refused(refusal): Refused) -> Self {
        refusal.into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let message: String = self.message.chars().take(MOST_MESSAGE).collect();
        let body = Json(json!({ "status": self.status.as_u16(), "code": self.code, "message": message }));
        if self.retry_after_ms == 0 {
            return (self.status, body).into_response();
        }
        let retry = [(header::RETRY_AFTER, self.retry_after_ms.div_ceil(1_000).to_string())];
        (self.status, retry, body).into_response()
    }
}
