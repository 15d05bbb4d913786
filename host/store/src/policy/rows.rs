//! Rows of editions, of the objects of their policies, and of how routers stand, as values and back.

use crate::Error;
use crate::connection::Value;
use crate::rows::{Read, int, some_int, some_text, text};
use crate::statements::Table;
use perhop_policy::diff::{RowChange, RowKey, row_key};
use perhop_policy::edition::{EditionRow, EditionState};
use perhop_policy::record::{FeedRow, StatusRow};
use perhop_policy::session::{SessionRow, Usage};

pub(super) const FEED: Table =
    Table { name: "change_feed", columns: &["seq", "router", "kind", "name", "op", "spec"], key: 1 };
pub(super) const EDITION: Table = Table {
    name: "edition",
    columns: &["n", "parent", "author", "at_ms", "reason", "state", "confirm_by_ms", "sha256"],
    key: 1,
};
/// The scope of an object is the whole domain so far.
pub(super) const POLICY: Table =
    Table { name: "policy", columns: &["kind", "name", "edition", "scope", "spec"], key: 3 };
pub(super) const STATUS: Table = Table {
    name: "router_status",
    columns: &[
        "router",
        "seq_applied",
        "edition",
        "epoch",
        "drift",
        "quarantined",
        "last_error",
        "reported_ms",
    ],
    key: 1,
};

pub(super) const SESSION: Table = Table {
    name: "session",
    columns: &["subscriber", "id", "router", "port", "moves", "source", "since_ms", "octets", "spec"],
    key: 1,
};
pub(super) const USAGE: Table =
    Table { name: "usage", columns: &["subscriber", "since_ms", "octets"], key: 1 };

/// What an object that is gone from an edition on has in the place of its JSON.
const GONE: &str = "";
const SCOPE: &str = "*";

pub(super) fn edition(row: &EditionRow) -> Result<[Value<'_>; 8], Error> {
    let state = match row.state {
        EditionState::Confirmed => "confirmed",
        EditionState::ToConfirm => "to_confirm",
        EditionState::Reverted => "reverted",
    };
    Ok([
        int("edition.n", row.n)?,
        int("edition.parent", row.parent)?,
        text(&row.author),
        int("edition.at_ms", row.at_ms)?,
        text(&row.reason),
        text(state),
        some_int("edition.confirm_by_ms", row.confirm_by_ms)?,
        text(&row.sha256),
    ])
}

pub(super) fn policy(edition: u64, change: &RowChange) -> Result<[Value<'_>; 5], Error> {
    Ok([
        text(change.section.name()),
        text(change.name.as_str()),
        int("policy.edition", edition)?,
        text(SCOPE),
        text(change.spec.as_deref().unwrap_or(GONE)),
    ])
}

pub(super) fn feed(row: &FeedRow) -> Result<[Value<'_>; 6], Error> {
    Ok([
        int("change_feed.seq", row.seq)?,
        text(&row.router),
        text(&row.kind),
        text(&row.name),
        text(if row.spec.is_some() { "put" } else { "gone" }),
        text(row.spec.as_deref().unwrap_or_default()),
    ])
}

pub(super) fn status(row: &StatusRow) -> Result<[Value<'_>; 8], Error> {
    Ok([
        text(&row.router),
        int("router_status.seq_applied", row.seq)?,
        int("router_status.edition", row.edition)?,
        int("router_status.epoch", row.epoch)?,
        text(&row.drift),
        text(&row.quarantined),
        some_text(&row.last_error),
        int("router_status.reported_ms", row.reported_ms)?,
    ])
}

/// `spec` is the row as JSON.
pub(super) fn session<'a>(row: &'a SessionRow, spec: &'a str) -> Result<[Value<'a>; 9], Error> {
    Ok([
        text(row.subscriber.as_str()),
        text(&row.id),
        text(row.router.as_str()),
        text(row.port.as_str()),
        int("session.moves", row.moves)?,
        text(&row.source),
        int("session.since_ms", row.since_ms)?,
        int("session.octets", row.octets)?,
        text(spec),
    ])
}

pub(super) fn usage<'a>(subscriber: &'a str, usage: &Usage) -> Result<[Value<'a>; 3], Error> {
    Ok([text(subscriber), int("usage.since_ms", usage.since_ms)?, int("usage.octets", usage.octets)?])
}

pub(super) fn read_session(read: &Read<'_>) -> Result<SessionRow, Error> {
    let spec = read.text(8)?;
    serde_json::from_str(&spec).map_err(|_| read.corrupt(8, spec))
}

pub(super) fn read_edition(read: &Read<'_>) -> Result<EditionRow, Error> {
    let state = |word: &str| match word {
        "confirmed" => Some(EditionState::Confirmed),
        "to_confirm" => Some(EditionState::ToConfirm),
        "reverted" => Some(EditionState::Reverted),
        _ => None,
    };
    Ok(EditionRow {
        n: read.int(0)?,
        parent: read.int(1)?,
        author: read.text(2)?,
        at_ms: read.int(3)?,
        reason: read.text(4)?,
        state: read.word(5, state)?,
        confirm_by_ms: read.some_int(6)?,
        sha256: read.text(7)?,
    })
}

/// An object, and what it is: none = it is gone.
pub(super) fn read_policy(read: &Read<'_>) -> Result<(RowKey, Option<String>), Error> {
    let (kind, name) = (read.text(0)?, read.text(1)?);
    let key = row_key(&kind, &name).ok_or_else(|| read.corrupt(1, format!("{kind} {name}")))?;
    let spec = Some(read.text(4)?).filter(|spec| spec != GONE);
    Ok((key, spec))
}

pub(super) fn read_status(read: &Read<'_>) -> Result<StatusRow, Error> {
    Ok(StatusRow {
        router: read.text(0)?,
        seq: read.int(1)?,
        edition: read.int(2)?,
        epoch: read.int(3)?,
        drift: read.text(4)?,
        quarantined: read.text(5)?,
        last_error: read.0.text(6)?,
        reported_ms: read.int(7)?,
    })
}

pub(super) fn read_feed(read: &Read<'_>) -> Result<FeedRow, Error> {
    let is_put = |word: &str| match word {
        "put" => Some(true),
        "gone" => Some(false),
        _ => None,
    };
    let is_put = read.word(4, is_put)?;
    let spec = read.text(5)?;
    Ok(FeedRow {
        seq: read.int(0)?,
        router: read.text(1)?,
        kind: read.text(2)?,
        name: read.text(3)?,
        spec: is_put.then_some(spec),
    })
}
