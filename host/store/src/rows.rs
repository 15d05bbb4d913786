//! Rows of a domain as values and back.

use crate::Error;
use crate::connection::{Row, Value};
use crate::statements::Table;
use perhop_broker::record::{
    AuditRow, CapacityRow, ClientRow, LinkRow, NodeKind, NodeRow, PathRow, ReservationKind, ReservationRow,
    ReservationState,
};
use perhop_reason::Code;

pub(crate) const NODE: Table =
    Table { name: "node", columns: &["name", "kind", "cert_sha256", "epoch", "seen_ms"], key: 1 };
pub(crate) const LINK: Table = Table { name: "link", columns: &["id", "node", "port", "to_node"], key: 1 };
pub(crate) const CAPACITY: Table =
    Table { name: "capacity", columns: &["link", "class", "bps", "reserved", "short"], key: 2 };
pub(crate) const PATH: Table = Table { name: "path", columns: &["id", "from_node", "to_node"], key: 1 };
pub(crate) const PATH_LINK: Table =
    Table { name: "path_link", columns: &["path", "position", "link"], key: 2 };
pub(crate) const CLIENT: Table = Table {
    name: "client",
    columns: &["name", "kind", "cert_sha256", "token_sha256", "role", "most_bps", "most_count", "per_second"],
    key: 1,
};
pub(crate) const RESERVATION: Table = Table {
    name: "reservation",
    columns: &[
        "id",
        "owner",
        "idem",
        "digest",
        "kind",
        "twin",
        "path",
        "class",
        "bps",
        "floor_bps",
        "priority",
        "state",
        "peer_handle",
        "flow",
        "created_ms",
        "expires_ms",
    ],
    key: 1,
};
pub(crate) const AUDIT: Table = Table {
    name: "audit",
    columns: &["seq", "at_ms", "who", "what", "subject", "refused", "detail"],
    key: 1,
};

/// A number as both engines keep it.
pub(crate) fn int<'a>(column: &'static str, value: u64) -> Result<Value<'a>, Error> {
    some_int(column, Some(value))
}

pub(crate) fn some_int<'a>(column: &'static str, value: Option<u64>) -> Result<Value<'a>, Error> {
    let fits = |value| i64::try_from(value).map_err(|_| Error::OutOfRange { column, value });
    Ok(Value::Int(value.map(fits).transpose()?))
}

pub(crate) fn text(value: &str) -> Value<'_> {
    Value::Text(Some(value))
}

pub(crate) fn some_text(value: &Option<String>) -> Value<'_> {
    Value::Text(value.as_deref())
}

pub(crate) fn node(row: &NodeRow) -> Result<[Value<'_>; 5], Error> {
    let kind = match row.kind {
        NodeKind::Edge => "edge",
        NodeKind::Core => "core",
        NodeKind::Peer => "peer",
    };
    Ok([
        text(&row.name),
        text(kind),
        some_text(&row.cert_sha256),
        int("node.epoch", row.epoch)?,
        int("node.seen_ms", row.seen_ms)?,
    ])
}

pub(crate) fn link(row: &LinkRow) -> Result<[Value<'_>; 4], Error> {
    Ok([int("link.id", row.id)?, text(&row.node), text(&row.port), text(&row.to_node)])
}

pub(crate) fn capacity(row: &CapacityRow) -> Result<[Value<'_>; 5], Error> {
    Ok([
        int("capacity.link", row.link)?,
        text(&row.class),
        int("capacity.bps", row.bps)?,
        int("capacity.reserved", row.reserved)?,
        Value::Int(Some(row.short.into())),
    ])
}

pub(crate) fn path(row: &PathRow) -> Result<[Value<'_>; 3], Error> {
    Ok([int("path.id", row.id)?, text(&row.from_node), text(&row.to_node)])
}

pub(crate) fn client(row: &ClientRow) -> Result<[Value<'_>; 8], Error> {
    Ok([
        text(&row.name),
        text(&row.kind),
        some_text(&row.cert_sha256),
        some_text(&row.token_sha256),
        text(&row.role),
        some_int("client.most_bps", row.most_bps)?,
        some_int("client.most_count", row.most_count)?,
        some_int("client.per_second", row.per_second)?,
    ])
}

pub(crate) fn reservation(row: &ReservationRow) -> Result<[Value<'_>; 16], Error> {
    let kind = match row.kind {
        ReservationKind::Flow => "flow",
        ReservationKind::Lease => "lease",
    };
    let state = match row.state {
        ReservationState::Asking => "asking",
        ReservationState::Held => "held",
        ReservationState::Shrunk => "shrunk",
    };
    Ok([
        int("reservation.id", row.id)?,
        text(&row.owner),
        text(&row.idem),
        text(&row.digest),
        text(kind),
        some_int("reservation.twin", row.twin)?,
        int("reservation.path", row.path)?,
        text(&row.class),
        int("reservation.bps", row.bps)?,
        some_int("reservation.floor_bps", row.floor_bps)?,
        Value::Int(Some(row.priority.into())),
        text(state),
        some_text(&row.peer_handle),
        text(&row.flow),
        int("reservation.created_ms", row.created_ms)?,
        int("reservation.expires_ms", row.expires_ms)?,
    ])
}

pub(crate) fn audit(row: &AuditRow) -> Result<[Value<'_>; 7], Error> {
    Ok([
        int("audit.seq", row.seq)?,
        int("audit.at_ms", row.at_ms)?,
        text(&row.who),
        text(&row.what),
        text(&row.subject),
        Value::Text(row.refused.map(Code::name)),
        text(&row.detail),
    ])
}

/// A row that was read, with the table whose columns it has.
pub(crate) struct Read<'a>(pub &'a Row, pub &'static Table);

impl Read<'_> {
    pub(crate) fn corrupt(&self, column: usize, found: impl ToString) -> Error {
        Error::Corrupt { column: self.1.columns[column], found: found.to_string() }
    }

    pub(crate) fn some_int(&self, column: usize) -> Result<Option<u64>, Error> {
        let number = self.0.int(column)?;
        number.map(|n| u64::try_from(n).map_err(|_| self.corrupt(column, n))).transpose()
    }

    pub(crate) fn int(&self, column: usize) -> Result<u64, Error> {
        self.some_int(column)?.ok_or_else(|| self.corrupt(column, "NULL"))
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, Error> {
        self.0.text(column)?.ok_or_else(|| self.corrupt(column, "NULL"))
    }

    /// One of several words.
    pub(crate) fn word<T>(&self, column: usize, meaning: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        let word = self.text(column)?;
        meaning(&word).ok_or_else(|| self.corrupt(column, word))
    }

    pub(crate) fn node(&self) -> Result<NodeRow, Error> {
        let kind = |word: &str| match word {
            "edge" => Some(NodeKind::Edge),
            "core" => Some(NodeKind::Core),
            "peer" => Some(NodeKind::Peer),
            _ => None,
        };
        Ok(NodeRow {
            name: self.text(0)?,
            kind: self.word(1, kind)?,
            cert_sha256: self.0.text(2)?,
            epoch: self.int(3)?,
            seen_ms: self.int(4)?,
        })
    }

    pub(crate) fn link(&self) -> Result<LinkRow, Error> {
        Ok(LinkRow { id: self.int(0)?, node: self.text(1)?, port: self.text(2)?, to_node: self.text(3)? })
    }

    pub(crate) fn capacity(&self) -> Result<CapacityRow, Error> {
        Ok(CapacityRow {
            link: self.int(0)?,
            class: self.text(1)?,
            bps: self.int(2)?,
            reserved: self.int(3)?,
            short: self.int(4)? != 0,
        })
    }

    /// Its links are in a table of their own.
    pub(crate) fn path(&self) -> Result<PathRow, Error> {
        Ok(PathRow { id: self.int(0)?, from_node: self.text(1)?, to_node: self.text(2)?, links: Vec::new() })
    }

    pub(crate) fn client(&self) -> Result<ClientRow, Error> {
        Ok(ClientRow {
            name: self.text(0)?,
            kind: self.text(1)?,
            cert_sha256: self.0.text(2)?,
            token_sha256: self.0.text(3)?,
            role: self.text(4)?,
            most_bps: self.some_int(5)?,
            most_count: self.some_int(6)?,
            per_second: self.some_int(7)?,
        })
    }

    pub(crate) fn reservation(&self) -> Result<ReservationRow, Error> {
        let kind = |word: &str| match word {
            "flow" => Some(ReservationKind::Flow),
            "lease" => Some(ReservationKind::Lease),
            _ => None,
        };
        let state = |word: &str| match word {
            "asking" => Some(ReservationState::Asking),
            "held" => Some(ReservationState::Held),
            "shrunk" => Some(ReservationState::Shrunk),
            _ => None,
        };
        let priority = self.int(10)?;
        Ok(ReservationRow {
            id: self.int(0)?,
            owner: self.text(1)?,
            idem: self.text(2)?,
            digest: self.text(3)?,
            kind: self.word(4, kind)?,
            twin: self.some_int(5)?,
            path: self.int(6)?,
            class: self.text(7)?,
            bps: self.int(8)?,
            floor_bps: self.some_int(9)?,
            priority: u8::try_from(priority).map_err(|_| self.corrupt(10, priority))?,
            state: self.word(11, state)?,
            peer_handle: self.0.text(12)?,
            flow: self.text(13)?,
            created_ms: self.int(14)?,
            expires_ms: self.int(15)?,
        })
    }

    pub(crate) fn audit(&self) -> Result<AuditRow, Error> {
        let code = |word: &str| Code::ALL.iter().copied().find(|code| code.name() == word);
        Ok(AuditRow {
            seq: self.int(0)?,
            at_ms: self.int(1)?,
            who: self.text(2)?,
            what: self.text(3)?,
            subject: self.text(4)?,
            refused: self.0.text(5)?.map(|w| code(&w).ok_or_else(|| self.corrupt(5, w))).transpose()?,
            detail: self.text(6)?,
        })
    }
}
