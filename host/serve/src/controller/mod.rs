//! What a controller's door answers: reservations, the domain, who may ask, and what each agent's router is to have.

mod caller;
pub mod camara;
mod domain;
mod follow;
mod leases;
mod openapi;
mod peers;
mod policy;
mod refused;
mod reservations;
mod seat;
mod shapes;

pub(crate) use caller::LOCAL;
pub use caller::local_client;
pub use follow::Report;
pub use leases::{LeaseAsk, LeaseHas};
pub use policy::{
    CommitBody, PolicyChange, PolicyDiff, PolicyShown, PolicyText, RollbackBody, RouterDiff, SessionBody,
};
pub(crate) use refused::{Refused, with_refusal};
pub(crate) use reservations::number;
pub use seat::Seat;
pub use shapes::{CreateReservation, ReservationPage, ReservationRow as ShownReservation};

use crate::endpoints::{Endpoints, endpoints};
use crate::limits::{Gauges, Limits};
use crate::server::{ServeError, Server};
use crate::socket::ClaimedPath;
use crate::tls::TlsDoor;
use crate::{Clients, limits::LimitsPage};
use axum::extract::{FromRef, State};
use axum::middleware::map_response;
use axum::{Json, Router};
use caller::Viewer;
use camara::Camara;
use follow::Reports;
use leases::Turns;
use openapi::Document;
use std::net::SocketAddr;
use std::sync::Arc;

/// Every address of a controller.
fn all() -> Endpoints<Shared> {
    let own = endpoints!(Document: limits);
    own.and(reservations::endpoints())
        .and(domain::endpoints())
        .and(follow::endpoints())
        .and(leases::endpoints())
        .and(peers::endpoints())
        .and(policy::endpoints())
}

#[derive(Clone)]
struct Shared {
    seat: Seat,
    reports: Arc<Reports>,
    turns: Arc<Turns>,
    gauges: Gauges,
    camara: Camara,
}

impl FromRef<Shared> for Gauges {
    fn from_ref(shared: &Shared) -> Self {
        shared.gauges.clone()
    }
}

impl FromRef<Shared> for Seat {
    fn from_ref(shared: &Shared) -> Self {
        shared.seat.clone()
    }
}

/// What is served of a domain, at however many doors.
#[derive(Clone)]
pub struct ControllerApp {
    app: Router,
    gauges: Gauges,
}

impl ControllerApp {
    /// Of the domain in a seat, with CAMARA's interfaces to it.
    pub fn new(seat: Seat, limits: Limits, camara: Camara) -> Self {
        let gauges = Gauges::new(limits);
        let (reports, turns) = Default::default();
        let shared = Shared { seat, reports, turns, gauges: gauges.clone(), camara };
        let camara = camara::routes(&shared);
        let own = all().with_state(shared).layer(map_response(with_refusal));
        Self { app: own.merge(camara), gauges }
    }

    /// At a claimed path, for root and the own user as administrators, and for other users to see.
    ///
    /// # Errors
    /// The operating system's.
    pub fn at(&self, claimed: &ClaimedPath) -> Result<Server, ServeError> {
        Server::of(claimed, self.app.clone(), self.gauges.clone(), Clients::default())
    }

    /// On the network.
    ///
    /// # Errors
    /// The operating system's.
    pub fn on(&self, address: SocketAddr, tls: Option<TlsDoor>) -> Result<Server, ServeError> {
        Server::on(address, tls, self.app.clone(), self.gauges.clone())
    }
}

#[utoipa::path(get, path = "/v1/limits", responses(
    (status = 200, description = "Every limit: its value, what is used of it, how often it was hit", body = LimitsPage)))]
async fn limits(State(s): State<Shared>, _: Viewer) -> Json<LimitsPage> {
    Json(LimitsPage { rows: s.gauges.rows() })
}
