//! What the OpenAPI document of a controller, served at `/v1/openapi.json`, says besides the addresses.

use super::follow::Report;
use super::leases::{LeaseAsk, LeaseHas};
use super::policy::{
    CandidateBody, CommitBody, ConfirmBody, PolicyDiff, PolicyShown, PolicyText, RollbackBody, SessionBody,
};
use super::shapes::{CreateReservation, ReservationPage, ReservationRow};
use crate::domain::Packets;
use crate::limits::LimitsPage;
use crate::policy::{RouterReport, Standing};
use perhop_model::ErrorItem;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Perhop controller",
        description = "Reservations and the policy of a domain of routers.\n\nWho asks is known by `Authorization: Bearer TOKEN`, by a \
        certificate of the domain's authority, or at the Unix socket by the user. Quantities are integers: bit/s, ms since \
        1970 UTC.\n\nAn answer to something that was changed is given when the change is in the database. A refusal has a body \
        with `errors`, as a router's has, and `refusal`: `{code, message, domain?, link?, class?, asked_bps?, free_bps?, \
        retry_after_ms?}`. Besides the statuses of each operation any request may be answered with 400, 401 (nobody who is \
        known), 403 (not with this role), 404, 405, 408, 413, 422, 429, 431 and 503 with `retry_after_ms` (the database does not \
        answer, another instance leads, or a limit of the door is reached). Any content type of a body is taken for JSON."
    ),
    components(schemas(
        CreateReservation,
        ReservationRow,
        ReservationPage,
        Packets,
        Report,
        LeaseAsk,
        LeaseHas,
        PolicyText,
        PolicyShown,
        PolicyDiff,
        CandidateBody,
        CommitBody,
        ConfirmBody,
        RollbackBody,
        SessionBody,
        RouterReport,
        Standing,
        ErrorItem,
        LimitsPage
    ))
)]
pub(super) struct Document;
