//! Refusals: one shape for all, the contract's, and a status for every code.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use perhop_model::ErrorItem;
use perhop_reason::Code;

/// When to try again after a limit on what is used at the same time was hit.
pub(crate) const RETRY_MS: u64 = 1_000;

/// HTTP status of a reason.
pub(crate) fn status(code: Code) -> StatusCode {
    match code {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::NotOwner => StatusCode::FORBIDDEN,
        Code::Fenced
        | Code::InUse
        | Code::StaleVersion
        | Code::StaleRevision
        | Code::TxnIdReused
        | Code::Exists
        | Code::PendingConfirm
        | Code::Preempted
        | Code::HeldElsewhere => StatusCode::CONFLICT,
        Code::Overload => StatusCode::TOO_MANY_REQUESTS,
        Code::ShuttingDown | Code::BackendFailed => StatusCode::SERVICE_UNAVAILABLE,
        Code::Timeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// Status of a rejection with several reasons: the gravest of them.
pub(crate) fn worst(errors: &[ErrorItem]) -> StatusCode {
    let order = [
        StatusCode::UNAUTHORIZED,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::FORBIDDEN,
        StatusCode::UNPROCESSABLE_ENTITY,
        StatusCode::CONFLICT,
    ];
    let found: Vec<StatusCode> = errors.iter().map(|e| status(e.code)).collect();
    order.into_iter().find(|s| found.contains(s)).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY)
}

/// The answer of a reason, with the reason's own status.
pub(crate) fn refuse(item: ErrorItem) -> Response {
    respond(status(item.code), item)
}

/// The answer of a reason, with a status of HTTP.
pub(crate) fn respond(status: StatusCode, item: ErrorItem) -> Response {
    answer(status, OneError { item, retry_after_ms: 0 })
}

/// What an answer of one reason says, beside the answer itself: for interfaces that say it in another shape, too.
#[derive(Clone, Debug)]
pub(crate) struct OneError {
    pub(crate) item: ErrorItem,
    /// 0 = nobody knows.
    pub(crate) retry_after_ms: u64,
}

impl OneError {
    /// The body of its answer.
    pub(crate) fn body(&self) -> serde_json::Value {
        let mut body = serde_json::json!({ "errors": [self.item] });
        if self.retry_after_ms > 0 {
            body["retry_after_ms"] = self.retry_after_ms.into();
        }
        body
    }
}

fn answer(status: StatusCode, error: OneError) -> Response {
    let mut response = (status, Json(error.body())).into_response();
    if error.retry_after_ms > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, error.retry_after_ms.div_ceil(1_000).into());
    }
    response.extensions_mut().insert(error);
    response
}

/// The router no longer answers.
pub(crate) fn gone() -> Response {
    refuse(ErrorItem::new(Code::ShuttingDown, "", "the router is stopping"))
}

/// Too much at the same time: 503, and when to try again.
pub(crate) fn busy(limit: &str, value: u64, message: &str) -> Response {
    let item = ErrorItem { limit: Some(value), ..ErrorItem::new(Code::LimitReached, limit, message) };
    answer(StatusCode::SERVICE_UNAVAILABLE, OneError { item, retry_after_ms: RETRY_MS })
}

/// More requests than a client may make: 429, and when there is room for one.
pub(crate) fn too_often(retry_after_ms: u64) -> Response {
    let item = ErrorItem::new(Code::Overload, "api.clients.per_second", "this client asks too often");
    answer(StatusCode::TOO_MANY_REQUESTS, OneError { item, retry_after_ms })
}

/// The whole answer to bytes that are no request, by the status that their reader gave them: they never get as far as a
/// handler.
pub(crate) fn to_no_request(status: u16, head_limit: u64) -> Vec<u8> {
    let (reason, item) = match status {
        414 => ("URI Too Long", ErrorItem::new(Code::LimitReached, "uri", "the address is too long")),
        431 => {
            let why = "the head of the request is too long";
            let item = ErrorItem {
                limit: Some(head_limit),
                ..ErrorItem::new(Code::LimitReached, "api.head_bytes", why)
            };
            ("Request Header Fields Too Large", item)
        }
        _ => ("Bad Request", ErrorItem::new(Code::Malformed, "", "this is no HTTP/1.1 request")),
    };
    let body = serde_json::json!({ "errors": [item] }).to_string();
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_every_code_is_among_those_that_are_ranked() {
        for code in Code::ALL {
            let item = ErrorItem::new(*code, "", "");
            assert_eq!(worst(std::slice::from_ref(&item)), status(*code), "{code}");
            let with_plain = [item, ErrorItem::new(Code::Exists, "", "")];
            assert_eq!(worst(&with_plain), status(*code), "{code} counts less than a conflict");
        }
    }
}
