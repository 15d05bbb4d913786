//! `/quality-on-demand`: sessions, each a reservation.

use super::super::Shared;
use super::asker::{Asker, Body};
use super::id::SessionId;
use super::kept::{Ended, Kept, Live, StatusInfo, seconds};
use super::place::{Found, device, known_by, needed, place};
use super::problem::{PROFILE_NOT_APPLICABLE, Problem};
use super::settings::{ProfileStatus, QosProfile, Scope};
use super::shapes::{CreateSession, ExtendSession, RetrieveSessions};
use crate::domain::{Domain, Flow};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use perhop_broker::ledger::{Granted, Refusal, Request, Reserve};
use perhop_broker::record::{ReservationKind, ReservationRow};
use perhop_reason::Code;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Most sessions of an answer.
const MOST_SHOWN: usize = 100;
/// Reservations of a client that are looked through at a time.
const LOOK: usize = 2_048;
/// Importance of a reservation whose profile says none.
const NO_PRIORITY: u8 = 0;

/// Addresses below a version.
pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/sessions", post(create))
        .route("/sessions/{id}", get(one).delete(delete))
        .route("/sessions/{id}/extend", post(extend))
        .route("/retrieve-sessions", post(retrieve))
}

async fn create(State(s): State<Shared>, asker: Asker, body: Body) -> Result<Response, Problem> {
    asker.may(Scope::Create)?;
    let (body, _charge) = body.json::<CreateSession>().await?;
    let token = body.check()?;
    let profile = asker.settings.profiles.get(&body.qos_profile);
    let profile = profile
        .ok_or_else(|| Problem::argument(format!("qosProfile: there is no profile {}", body.qos_profile)))?;
    if let Some(sink) = &body.sink {
        s.camara.notices().check(sink, &asker.settings.sinks)?;
    }
    let placed = place(&asker.settings, &asker.name, &body)?;
    is_applicable(profile, &body, &placed.device)?;
    let address = placed.device.address;
    let kept = Kept {
        nonce: SessionId::new(0, s.camara.random()?).nonce,
        address,
        device: placed.device.shown.clone(),
        server: body.application_server,
        device_ports: body.device_ports,
        server_ports: body.application_server_ports,
        profile: body.qos_profile,
        sink: body.sink,
        token,
    };
    let (way, bps, back_bps, packets) = placed.reserve(profile);
    let key = key(&packets, &kept);
    if let Some(other) = s.camara.ended().in_the_way(super::now_ms(), &asker.name, &key) {
        return Err(conflict(&format!("session {} has to be deleted before", other.text())));
    }
    let flow = Flow { packets, of_interface: kept.value(), ..Flow::default() };
    let lifetime_ms = u64::from(body.duration.0) * 1_000;
    let request = Reserve {
        kind: ReservationKind::Flow,
        priority: profile.priority.map_or(NO_PRIORITY, |priority| 100 - priority.min(100)),
        lifetime_ms: Some(lifetime_ms),
        back_bps,
        flow: flow.text(),
        ..Reserve::new(key.clone(), way, profile.class.clone(), bps)
    };
    let domain = s.seat.led()?.domain;
    let created = |shown: Value| Ok((StatusCode::CREATED, Json(shown)).into_response());
    match domain.ask(&asker.name, Request::Reserve(Box::new(request))).await {
        Ok(Granted::Held(held)) => {
            let created_ms = held.expires_ms.saturating_sub(lifetime_ms);
            let (reservation, expires_ms) = (held.id, held.expires_ms);
            let live = Live { reservation, owner: asker.name, kept, created_ms, expires_ms };
            s.camara.notices().tell(&live.kept, live.id(), None, created_ms);
            created(live.shown())
        }
        Ok(Granted::Released(_) | Granted::Taken) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "INTERNAL",
            "this is no answer to a reservation",
        )),
        // The key is of the device, the server and the ports, and no two requests are the same but for it.
        Err(refusal) if refusal.code == Code::TxnIdReused => {
            Err(conflict("this device has a session for the same flow"))
        }
        Err(refusal) if is_of_network(&refusal) => {
            let ended = s.camara.never_was(asker.name, key, kept, body.duration.0, refusal);
            created(ended.shown())
        }
        Err(refusal) => Err(refusal.into()),
    }
}

fn conflict(why: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "CONFLICT", why)
}

/// Whether the network cannot provide it; otherwise the client has asked for what it may not or cannot have.
fn is_of_network(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::NoCapacity | Code::PeerRefused | Code::Timeout | Code::Preempted)
}

fn is_applicable(profile: &QosProfile, body: &CreateSession, device: &Found) -> Result<(), Problem> {
    let unfit = |why: String| {
        let message = format!("qosProfile: {} {why}", body.qos_profile);
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, PROFILE_NOT_APPLICABLE, message))
    };
    if profile.status != ProfileStatus::Active {
        return unfit("is not ACTIVE".to_owned());
    }
    if !profile.is_for(device.address) {
        return unfit("is not for this device".to_owned());
    }
    let (least, most) = (profile.min_duration_s, profile.max_duration_s);
    if (least..=most).contains(&body.duration.0) {
        return Ok(());
    }
    Err(Problem::argument(format!("duration: sessions of {} last {least} to {most} s", body.qos_profile)))
}

/// Keys of a device's sessions begin so.
fn key_of(address: &std::net::IpAddr) -> String {
    format!("camara/{address}/")
}

/// The same for the same flow of a device, however its ports are written.
fn key(packets: &[crate::domain::Packets], kept: &Kept) -> String {
    let text = serde_json::to_vec(packets).expect("plain data, which can be written");
    let digest = Sha256::digest(&text);
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    key_of(&kept.address) + &hex
}

/// The same of what was kept.
pub(super) fn key_of_flow(flow: &str, kept: &Kept) -> String {
    let flow: Flow = serde_json::from_str(flow).unwrap_or_default();
    key(&flow.packets, kept)
}

/// A session of the client.
#[allow(clippy::large_enum_variant, reason = "nearly all are live")]
enum Session {
    Live(Live),
    Ended(Arc<Ended>),
}

async fn session(
    s: &Shared,
    asker: &Asker,
    id: Result<Path<String>, PathRejection>,
) -> Result<(Session, Domain), Problem> {
    let wrong = || Problem::argument("sessionId: this is no UUID");
    let Path(text) = id.map_err(|_| wrong())?;
    let domain = s.seat.led()?.domain;
    let none = || Problem::not_found(format!("there is no session {text}"));
    let id = SessionId::parse(&text).map_err(|_| wrong())?.ok_or_else(none)?;
    let row = domain.look(move |ledger| ledger.reservation(id.number)).await?;
    let live = row.as_ref().and_then(Live::of).filter(|live| live.id() == id);
    let (owner, address, session) = match live {
        Some(live) => (Arc::clone(&live.owner), live.kept.address, Session::Live(live)),
        None => {
            let ended = s.camara.ended().get(super::now_ms(), id).ok_or_else(none)?;
            (Arc::clone(&ended.owner), ended.kept.address, Session::Ended(ended))
        }
    };
    if owner != asker.name {
        return Err(Problem::denied("this session is another client's"));
    }
    let own = asker.settings.device_of(&asker.name).map(|own| known_by(&asker.settings, own));
    if own.is_some_and(|own| own != address) {
        return Err(Problem::denied("this session is of another device than the token stands for"));
    }
    Ok((session, domain))
}

async fn one(
    State(s): State<Shared>,
    asker: Asker,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    asker.may(Scope::Read)?;
    let shown = match session(&s, &asker, id).await?.0 {
        Session::Live(live) => live.shown(),
        Session::Ended(ended) => ended.shown(),
    };
    Ok(Json(shown).into_response())
}

async fn delete(
    State(s): State<Shared>,
    asker: Asker,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    asker.may(Scope::Delete)?;
    match session(&s, &asker, id).await? {
        (Session::Live(live), domain) => {
            domain.ask(&asker.name, Request::Release { id: live.reservation }).await?;
            s.camara.notices().tell(
                &live.kept,
                live.id(),
                Some(StatusInfo::DeleteRequested),
                super::now_ms(),
            );
        }
        (Session::Ended(ended), _) => {
            s.camara.ended().remove(ended.id);
        }
    }
    Ok((StatusCode::NO_CONTENT, [(header::CONTENT_TYPE, "application/json")]).into_response())
}

async fn extend(
    State(s): State<Shared>,
    asker: Asker,
    id: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Response, Problem> {
    asker.may(Scope::Update)?;
    let (wanted, _charge) = body.json::<ExtendSession>().await?;
    let (Session::Live(live), domain) = session(&s, &asker, id).await? else {
        let why = "the session is UNAVAILABLE, and only one that is AVAILABLE can be extended";
        let code = "QUALITY_ON_DEMAND.SESSION_EXTENSION_NOT_ALLOWED";
        return Err(Problem::new(StatusCode::CONFLICT, code, why));
    };
    let now = seconds(live.expires_ms.saturating_sub(live.created_ms));
    let profile = asker.settings.profiles.get(&live.kept.profile);
    // Of a profile that is not there any more nothing is added.
    let most = profile.map_or(now, |profile| u64::from(profile.max_duration_s));
    let whole = (now + u64::from(wanted.requested_additional_duration.0)).min(most).max(now);
    let expires_ms = live.created_ms.saturating_add(whole * 1_000);
    let lifetime_ms = Some(expires_ms.saturating_sub(super::now_ms()).max(1));
    let id = live.reservation;
    let request = Request::Change { id, bps: None, back_bps: None, lifetime_ms, flow: None };
    match domain.ask(&asker.name, request).await? {
        Granted::Held(held) => Ok(Json(Live { expires_ms: held.expires_ms, ..live }.shown()).into_response()),
        Granted::Released(_) | Granted::Taken => Err(Problem::not_found("the session is gone")),
    }
}

async fn retrieve(State(s): State<Shared>, asker: Asker, body: Body) -> Result<Response, Problem> {
    asker.may(Scope::RetrieveByDevice)?;
    let (wanted, _charge) = body.json::<RetrieveSessions>().await?;
    wanted.device.as_ref().map_or(Ok(()), |device| device.check())?;
    let found = needed(device(&asker.settings, &asker.name, wanted.device.as_ref(), |_| true)?)?;
    let prefix = key_of(&found.address);
    let domain = s.seat.led()?.domain;
    let mut shown: Vec<Value> = Vec::new();
    let mut after = 0;
    loop {
        let (owner, prefix) = (Arc::clone(&asker.name), prefix.clone());
        let (rows, last) = domain
            .look(move |ledger| {
                let mut rows = ledger.of_owner(&owner, after, LOOK);
                let last = rows.last().map(|row| row.id).filter(|_| rows.len() == LOOK);
                rows.retain(|row: &ReservationRow| row.idem.starts_with(&prefix));
                (rows, last)
            })
            .await?;
        shown.extend(rows.iter().filter_map(Live::of).map(|live| live.shown()));
        match last {
            Some(last) if shown.len() < MOST_SHOWN => after = last,
            _ => break,
        }
    }
    let ended = s.camara.ended().of(super::now_ms(), &asker.name, &prefix, MOST_SHOWN);
    shown.extend(ended.iter().map(|ended| ended.shown()));
    shown.truncate(MOST_SHOWN);
    Ok(Json(shown).into_response())
}
