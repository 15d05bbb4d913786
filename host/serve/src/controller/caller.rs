//! Who calls, and what each role may do.

use super::refused::Refused;
use super::seat::Seat;
use crate::body::Trusted;
use crate::domain::{Caller, ClientKind, Credential, Role};
use crate::listener::{Guest, Peer};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::Method;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use perhop_broker::record::ClientRow;
use perhop_model::Role as OfProcess;
use perhop_reason::Code;
use sha2::{Digest, Sha256};

/// The client that root and the controller's own user are, at the Unix socket.
pub(crate) const LOCAL: &str = "local";

/// The row of that client.
pub fn local_client() -> ClientRow {
    ClientRow {
        name: LOCAL.into(),
        kind: "http".into(),
        cert_sha256: None,
        token_sha256: None,
        role: "admin".into(),
        most_bps: None,
        most_count: None,
        per_second: None,
    }
}

/// Somebody who is known, whatever the role.
pub(crate) struct Known(pub(crate) Caller);

/// Somebody who may see.
pub(crate) struct Viewer(#[allow(dead_code, reason = "that there is one is what counts")] pub(crate) Caller);

/// Somebody who may reserve.
pub(crate) struct Asker(pub(crate) Caller);

/// Somebody who may change the policy.
pub(crate) struct Operator(pub(crate) Caller);

/// A neighbouring domain's controller.
pub(crate) struct Neighbour(pub(crate) Caller);

/// Somebody who may change the domain.
pub(crate) struct Admin(pub(crate) Caller);

/// Kinds of clients that come to the controller's own addresses.
const KINDS: [ClientKind; 2] = [ClientKind::Http, ClientKind::Agent];

/// Whoever asks, if it is of one of these kinds.
pub(super) fn known(parts: &Parts, seat: &Seat, kinds: &[ClientKind]) -> Result<Caller, Refused> {
    Ok(shown(parts, seat)?.of_kind(kinds)?)
}

fn shown(parts: &Parts, seat: &Seat) -> Result<Caller, Refused> {
    let token = bearer(parts).map(|token| Credential::Token(Sha256::digest(token.as_bytes()).into()));
    if let Some(peer) = parts.extensions.get::<Peer>().filter(|_| token.is_none()) {
        let role = if peer.credentials().role == OfProcess::Admin { Role::Admin } else { Role::Viewer };
        return Ok(Caller { name: LOCAL.into(), kind: ClientKind::Http, role, per_second: None });
    }
    let led = seat.led()?;
    let shown = token.or_else(|| {
        let guest = parts.extensions.get::<Guest>()?;
        guest.certificate.sha256().map(Credential::Certificate)
    });
    let Some(credential) = shown else {
        let why =
            "say who you are: `Authorization: Bearer TOKEN`, or a certificate of the domain's authority";
        return Err(Refused::new(Code::Unauthenticated, why));
    };
    led.domain.caller(&credential).ok_or_else(|| {
        let what = if matches!(credential, Credential::Token(_)) { "token" } else { "certificate" };
        Refused::new(Code::Unauthenticated, format!("this {what} is of no client of the domain"))
    })
}

/// The token of a request.
fn bearer(parts: &Parts) -> Option<&str> {
    let (scheme, token) = parts.headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn with(caller: Caller, may: impl Fn(Role) -> bool, what: &str) -> Result<Caller, Refused> {
    if may(caller.role) {
        return Ok(caller);
    }
    let why = format!("the role of client {} is not one that may {what}", caller.name);
    Err(Refused::new(Code::Forbidden, why))
}

macro_rules! extractor {
    ($name:ident, $kinds:expr, $may:expr, $what:literal) => {
        impl<S: Send + Sync> FromRequestParts<S> for $name
        where
            Seat: FromRef<S>,
        {
            type Rejection = Refused;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
                let seat = Seat::from_ref(state);
                let caller = with(known(parts, &seat, $kinds)?, $may, $what)?;
                // What is decided the ledger counts by itself.
                if parts.method == Method::GET && caller.per_second.is_some() {
                    seat.led()?.domain.turn(&caller).await?;
                }
                if caller.role >= Role::Operator {
                    parts.extensions.insert(Trusted);
                }
                Ok(Self(caller))
            }
        }
    };
}

extractor!(Known, &KINDS, |_| true, "ask");
extractor!(Viewer, &KINDS, |role| role != Role::Agent, "see this");
extractor!(Asker, &KINDS, |role| !matches!(role, Role::Viewer), "reserve");
extractor!(Operator, &KINDS, |role| role >= Role::Operator, "change the policy");
extractor!(Neighbour, &[ClientKind::Peer], |_| true, "speak for a domain");
extractor!(Admin, &KINDS, |role| role == Role::Admin, "change the domain");
