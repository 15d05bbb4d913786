//! Who asks: a client of the domain with what its token allows, and the body that it sends.

use super::super::Shared;
use super::super::caller::known;
use super::problem::Problem;
use super::settings::{CamaraSettings, Scope};
use crate::body::Received;
use crate::domain::{Caller, ClientKind};
use crate::limits::Permit;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A client, within its rate.
pub(super) struct Asker {
    pub(super) name: Arc<str>,
    caller: Caller,
    /// The file as it is for all of this request.
    pub(super) settings: Arc<CamaraSettings>,
}

impl Asker {
    /// Sees that the token allows it.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Problem> {
        if self.settings.may(&self.name, self.caller.role, scope) {
            return Ok(());
        }
        Err(Problem::denied(format!("the token of client {} does not allow {}", self.name, scope.name())))
    }
}

impl FromRequestParts<Shared> for Asker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let caller = known(parts, &shared.seat, &[ClientKind::Camara, ClientKind::Http])?;
        shared.camara.take(&caller).map_err(Problem::too_often)?;
        Ok(Self { name: Arc::clone(&caller.name), caller, settings: shared.camara.settings() })
    }
}

/// A body that has arrived.
pub(super) struct Body(Received);

impl FromRequest<Shared> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        match Received::from_request(request, shared).await {
            Ok(received) => Ok(Self(received)),
            Err(response) => Err(Problem::of(response).await),
        }
    }
}

impl Body {
    /// What it says, and what it was charged.
    pub(super) async fn json<T: DeserializeOwned + Send + 'static>(self) -> Result<(T, Permit), Problem> {
        match self.0.json().await {
            Ok(done) => Ok(done),
            Err(response) => Err(Problem::of(response).await),
        }
    }
}
