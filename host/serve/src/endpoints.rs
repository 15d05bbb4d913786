//! Addresses of an interface, from one list: what answers there, and the OpenAPI document that says so.

use crate::body::code_of;
use crate::limits::Gauges;
use crate::refusal::{refuse, respond};
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, FromRef, Query};
use axum::handler::Handler;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodFilter, get, on};
use axum::{Json, Router};
use perhop_model::ErrorItem;
use perhop_reason::Code;
use std::ops::RangeInclusive;
use utoipa::openapi::OpenApi;

/// [`Endpoints`] of these handlers. Each has its method, its address and what it answers in `#[utoipa::path]` above it;
/// the document begins with what is to be said of all.
macro_rules! endpoints {
    ($document:ty: $($handler:ident),+ $(,)?) => {{
        let about = <$document as utoipa::OpenApi>::openapi();
        let mut endpoints = $crate::endpoints::Endpoints::new(about);
        $({
            #[derive(utoipa::OpenApi)]
            #[openapi(paths($handler))]
            struct One;
            endpoints.add(<One as utoipa::OpenApi>::openapi(), $handler);
        })+
        endpoints
    }};
}
pub(crate) use endpoints;

/// Addresses with what answers there, and their document.
pub(crate) struct Endpoints<S> {
    answers: Router<S>,
    document: OpenApi,
}

impl<S: Clone + Send + Sync + 'static> Endpoints<S>
where
    Gauges: FromRef<S>,
{
    pub(crate) fn new(about: OpenApi) -> Self {
        Self { answers: Router::new(), document: about }
    }

    /// Has `handler` answer what is `described`.
    pub(crate) fn add<T: 'static>(&mut self, described: OpenApi, handler: impl Handler<T, S>) {
        for (path, item) in &described.paths.paths {
            let methods = [
                (MethodFilter::GET, &item.get),
                (MethodFilter::POST, &item.post),
                (MethodFilter::PUT, &item.put),
                (MethodFilter::PATCH, &item.patch),
                (MethodFilter::DELETE, &item.delete),
            ];
            for (method, _) in methods.into_iter().filter(|(_, operation)| operation.is_some()) {
                let answers = std::mem::take(&mut self.answers);
                self.answers = answers.route(path, on(method, handler.clone()));
            }
        }
        self.document.merge(described);
    }

    /// These and others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.answers = self.answers.merge(others.answers);
        self.document.merge(others.document);
        self
    }

    /// What a server serves: these addresses, their document, and a refusal at any other.
    pub(crate) fn with_state(self, state: S) -> Router {
        let document = self.document;
        self.answers
            .route("/v1/openapi.json", get(|| async { Json(document) }))
            .fallback(no_such_address)
            .method_not_allowed_fallback(no_such_method)
            // Bodies are bounded where they are received.
            .layer(DefaultBodyLimit::disable())
            .with_state(state)
    }
}

async fn no_such_address(uri: Uri) -> Response {
    let why = "there is nothing at this address; /v1/openapi.json lists what there is";
    respond(StatusCode::NOT_FOUND, ErrorItem::new(Code::NotFound, uri.path(), why))
}

async fn no_such_method(method: Method, uri: Uri) -> Response {
    let why = format!("{method} is not for this address; /v1/openapi.json says what is");
    respond(StatusCode::METHOD_NOT_ALLOWED, ErrorItem::new(Code::Unsupported, uri.path(), why))
}

/// The parameters of an address, or why they are none.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
pub(crate) fn parameters<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Response> {
    query.map(|Query(q)| q).map_err(|e| {
        let text = e.body_text();
        refuse(ErrorItem::new(code_of(&text), "query", text))
    })
}

/// Refuses a number of rows outside of its range.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
pub(crate) fn in_range(limit: Option<usize>, range: RangeInclusive<usize>) -> Result<(), Response> {
    match limit.filter(|l| !range.contains(l)) {
        None => Ok(()),
        Some(given) => Err(refuse(ErrorItem {
            value: Some(given.into()),
            allowed: Some(format!("{} to {}", range.start(), range.end())),
            ..ErrorItem::new(Code::OutOfRange, "query.limit", "no such number of rows can be had")
        })),
    }
}
