//! A session: what is kept of it with its reservation, and how it is shown.

use super::id::SessionId;
use super::shapes::{ApplicationServer, Device, PortsSpec};
use super::time::rfc3339;
use crate::controller::refused::shown;
use crate::domain::Flow;
use perhop_broker::ledger::Refusal;
use perhop_broker::record::{ReservationId, ReservationRow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

/// What is kept with a reservation that is a session's. Of the session's number only the nonce: the rest is the reservation's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) nonce: u64,
    /// The device's address.
    pub(super) address: IpAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<Device>,
    pub(super) server: ApplicationServer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) device_ports: Option<PortsSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) server_ports: Option<PortsSpec>,
    pub(super) profile: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sink: Option<String>,
    /// What the sink wants to see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

/// As it is told from what other interfaces keep.
#[derive(Serialize, Deserialize)]
enum OfInterface {
    #[serde(rename = "camara")]
    Camara(Kept),
}

impl Kept {
    /// To be kept.
    pub(super) fn value(&self) -> Value {
        serde_json::to_value(OfInterface::Camara(self.clone())).expect("plain data, which can be written")
    }

    /// What was kept, unless another interface did.
    pub(super) fn of(text: &str) -> Option<Self> {
        let flow: Flow = serde_json::from_str(text).ok()?;
        let OfInterface::Camara(kept) = serde_json::from_value(flow.of_interface).ok()?;
        Some(kept)
    }
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusInfo {
    DurationExpired,
    NetworkTerminated,
    DeleteRequested,
}

impl StatusInfo {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DurationExpired => "DURATION_EXPIRED",
            Self::NetworkTerminated => "NETWORK_TERMINATED",
            Self::DeleteRequested => "DELETE_REQUESTED",
        }
    }
}

/// One that is in force.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) reservation: ReservationId,
    pub(super) owner: Arc<str>,
    pub(super) kept: Kept,
    pub(super) created_ms: u64,
    pub(super) expires_ms: u64,
}

/// One that is over.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) id: SessionId,
    pub(super) owner: Arc<str>,
    /// The key that its reservation had, or would have had.
    pub(super) key: String,
    pub(super) kept: Kept,
    /// How long it was in force, s; of one that never was, how long it was to be.
    pub(super) duration_s: u64,
    pub(super) ended_ms: u64,
    pub(super) why: StatusInfo,
    /// What the network says of it.
    pub(super) refusal: Option<Refusal>,
}

/// Seconds of a time, the nearest whole ones and not none.
pub(super) fn seconds(ms: u64) -> u64 {
    ((ms + 500) / 1_000).max(1)
}

impl Live {
    /// Of a reservation, unless it is none of a session: each has the first of two directions.
    pub(super) fn of(row: &ReservationRow) -> Option<Self> {
        if row.twin.is_some_and(|twin| twin < row.id) {
            return None;
        }
        Some(Self {
            reservation: row.id,
            owner: row.owner.as_str().into(),
            kept: Kept::of(&row.flow)?,
            created_ms: row.created_ms,
            expires_ms: row.expires_ms,
        })
    }

    pub(super) fn id(&self) -> SessionId {
        SessionId::new(self.reservation, self.kept.nonce)
    }

    pub(super) fn shown(&self) -> Value {
        let mut info = info(self.id(), &self.kept);
        info["duration"] = seconds(self.expires_ms.saturating_sub(self.created_ms)).into();
        info["startedAt"] = rfc3339(self.created_ms).into();
        info["expiresAt"] = rfc3339(self.expires_ms).into();
        info["qosStatus"] = "AVAILABLE".into();
        info
    }
}

impl Ended {
    pub(super) fn shown(&self) -> Value {
        let mut info = info(self.id, &self.kept);
        info["duration"] = self.duration_s.into();
        info["expiresAt"] = rfc3339(self.ended_ms).into();
        info["qosStatus"] = "UNAVAILABLE".into();
        info["statusInfo"] = self.why.name().into();
        if let Some(refusal) = &self.refusal {
            info["refusal"] = shown(refusal);
        }
        info
    }
}

/// What is the same however a session stands.
fn info(id: SessionId, kept: &Kept) -> Value {
    let mut info = json!({
        "sessionId": id.text(), "applicationServer": kept.server, "qosProfile": kept.profile,
    });
    let optional = [
        ("device", kept.device.as_ref().map(|device| json!(device))),
        ("devicePorts", kept.device_ports.as_ref().map(|ports| json!(ports))),
        ("applicationServerPorts", kept.server_ports.as_ref().map(|ports| json!(ports))),
        ("sink", kept.sink.as_ref().map(|sink| json!(sink))),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            info[key] = value;
        }
    }
    info
}
