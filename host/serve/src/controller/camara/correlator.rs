//! `x-correlator`: what a client sends there comes back with every answer.

use super::problem::Problem;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

const NAME: HeaderName = HeaderName::from_static("x-correlator");
/// Longest one, characters.
const MOST: usize = 256;

/// Answers with the request's correlator, or refuses one that is none.
pub(super) async fn echo(request: Request, next: Next) -> Response {
    let Some(correlator) = request.headers().get(NAME).cloned() else { return next.run(request).await };
    if !is_one(&correlator) {
        let why = format!("x-correlator has at most {MOST} characters of A-Z a-z 0-9 - _ : ; . / < > {{ }}");
        return Problem::argument(why).into_response();
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(NAME, correlator);
    response
}

fn is_one(value: &HeaderValue) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:;./<>{}".contains(byte);
    value.len() <= MOST && value.as_bytes().iter().all(legal)
}
