//! Reservations as they are asked for and shown.

use crate::domain::{Flow, Packets};
use crate::peer::Wanted;
use perhop_broker::ledger::{Ledger, Reserve, Way};
use perhop_broker::peer::{Far, Note};
use perhop_broker::record::{ReservationKind, ReservationRow as Row, ReservationState};
use perhop_units::Dscp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A reservation that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateReservation {
    /// Key of idempotency: the same request with the same key is answered with the same reservation. 1 to 255 octets.
    pub key: String,
    /// Node where traffic enters.
    pub from: String,
    /// Node where it leaves; `EDGE@DOMAIN` where that is one of another domain.
    pub to: String,
    /// Logical class.
    pub class: String,
    /// How much, bit/s.
    pub bps: u64,
    /// The other direction too, with this rate, bit/s: both or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_bps: Option<u64>,
    /// What it may be shrunk to when a link loses rate, bit/s; none = not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_bps: Option<u64>,
    /// How important it is, 0 to 255.
    #[serde(default)]
    pub priority: u8,
    /// How long it lives unless it is renewed, ms; none = as the domain says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_ms: Option<u64>,
    /// Its packets: one of these, where they enter; none = whatever is in the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<Packets>,
    /// The code point that its packets get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u8>)]
    pub dscp: Option<Dscp>,
    /// Anything, to find it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl CreateReservation {
    pub(crate) fn flow(&self) -> Flow {
        let (packets, dscp, note) = (self.packets.clone(), self.dscp, self.note.clone());
        Flow { packets, dscp, note, ..Flow::default() }
    }

    /// Where it ends, if that is in another domain than this one.
    pub(super) fn far(&self) -> Option<Far> {
        self.to.parse().ok()
    }

    pub(super) fn wanted(self, far: Far, lifetime_ms: u64) -> Wanted {
        let flow = self.flow();
        Wanted {
            key: self.key,
            from: self.from,
            far,
            class: self.class,
            bps: self.bps,
            floor_bps: self.floor_bps,
            priority: self.priority,
            lifetime_ms: self.lifetime_ms.unwrap_or(lifetime_ms),
            flow,
        }
    }

    pub(crate) fn request(self) -> Reserve {
        let flow = self.flow().text();
        Reserve {
            idem: self.key,
            kind: ReservationKind::Flow,
            way: Way::Between { from: self.from, to: self.to },
            class: self.class,
            bps: self.bps,
            floor_bps: self.floor_bps,
            priority: self.priority,
            lifetime_ms: self.lifetime_ms,
            back_bps: self.back_bps,
            asking: false,
            flow,
        }
    }
}

/// What of a reservation is to be another.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeReservation {
    /// Rate, bit/s.
    #[serde(default)]
    pub(super) bps: Option<u64>,
    /// Rate of the other direction, bit/s.
    #[serde(default)]
    pub(super) back_bps: Option<u64>,
    /// Life from now, ms.
    #[serde(default)]
    pub(super) lifetime_ms: Option<u64>,
    /// Its packets, in place of those it had.
    #[serde(default)]
    pub(super) packets: Option<Vec<Packets>>,
}

/// A reservation as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct ReservationRow {
    /// Number.
    pub id: u64,
    /// Whose.
    pub owner: String,
    /// Its owner's key.
    pub key: String,
    /// `flow`, or the `lease` of an agent.
    #[schema(value_type = String)]
    pub kind: ReservationKind,
    /// `asking`, `held` or `shrunk`.
    #[schema(value_type = String)]
    pub state: ReservationState,
    /// The other direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin: Option<u64>,
    /// Node where traffic enters.
    pub from: String,
    /// Node where it leaves; `EDGE@DOMAIN` where that is one of another domain.
    pub to: String,
    /// Logical class.
    pub class: String,
    /// bit/s.
    pub bps: u64,
    /// bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_bps: Option<u64>,
    /// 0 to 255.
    pub priority: u8,
    /// When it was made, ms since 1970 UTC.
    pub created_ms: u64,
    /// When it ends by itself, ms since 1970 UTC.
    pub expires_ms: u64,
    /// Its packets in this direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<Packets>,
    /// The code point that its packets get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u8>)]
    pub dscp: Option<Dscp>,
    /// What its owner wanted to find again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ReservationRow {
    pub(super) fn of(ledger: &Ledger, row: Row) -> Self {
        let path = ledger.path_numbered(row.path);
        let end = |of: fn(&perhop_broker::record::PathRow) -> &String| {
            path.as_deref().map(of).cloned().unwrap_or_default()
        };
        let flow = Flow::of(&row);
        let far = Note::of(&row).and_then(|note| note.far);
        Self {
            from: end(|path| &path.from_node),
            to: far.map_or_else(|| end(|path| &path.to_node), |far| far.to_string()),
            id: row.id,
            owner: row.owner,
            key: row.idem,
            kind: row.kind,
            state: row.state,
            twin: row.twin,
            class: row.class,
            bps: row.bps,
            floor_bps: row.floor_bps,
            priority: row.priority,
            created_ms: row.created_ms,
            expires_ms: row.expires_ms,
            packets: flow.packets,
            dscp: flow.dscp,
            note: flow.note,
        }
    }
}

/// `GET /v1/reservations`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ReservationPage {
    /// By number.
    pub reservations: Vec<ReservationRow>,
    /// Ask with `after` this for those behind them; absent = there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// How many there are in all.
    pub total: usize,
}
