//! What a controller has, as rows like those of a router.

use crate::domain::RemoteDomain;
use crate::error::AppError;
use perhop_io::clock;
use perhop_model::{ShowPage, ShowRow};
use perhop_serve::Method;
use perhop_serve::controller::{ReservationPage, ShownReservation};
use perhop_units::Rate;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Reservations that are asked for at once, and rows of the audit log.
const PAGE: usize = 10_000;

/// The rows that there are of `what`, at most so many.
///
/// # Errors
/// The controller is not there, or refuses.
pub(super) fn page(remote: &RemoteDomain, what: super::What, limit: usize) -> Result<ShowPage, AppError> {
    use super::What;
    let (rows, total, more) = match what {
        What::Reservations => reservations(remote, limit)?,
        What::Links => all(&read(remote, "/v1/links")?, "links", links),
        What::Nodes => all(&read(remote, "/v1/nodes")?, "nodes", |row| vec![node(row)]),
        What::Clients => all(&read(remote, "/v1/clients")?, "clients", |row| vec![client(row)]),
        What::Peers => all(&read(remote, "/v1/peers")?, "peers", peer),
        _ => {
            let most = limit.min(PAGE);
            let (rows, total, _) =
                all(&read(remote, &format!("/v1/audit?limit={most}"))?, "audit", |row| vec![audit(row)]);
            (rows, total, total == most)
        }
    };
    let rows: Vec<ShowRow> = rows.into_iter().take(limit).collect();
    Ok(ShowPage { at_ns: clock::monotonic().0, rows, total, more, ..ShowPage::default() })
}

type Rows = (Vec<ShowRow>, usize, bool);

fn read(remote: &RemoteDomain, uri: &str) -> Result<Value, AppError> {
    remote.ask(Method::GET, uri, None)?.accepted()
}

fn all(body: &Value, list: &str, rows: impl Fn(&Value) -> Vec<ShowRow>) -> Rows {
    let rows: Vec<ShowRow> = body[list].as_array().into_iter().flatten().flat_map(rows).collect();
    let total = rows.len();
    (rows, total, false)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn row(kind: &str, name: String, facts: &[(&str, String)], gauges: &[(&str, u64)]) -> ShowRow {
    let counters: BTreeMap<String, u64> = gauges.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    ShowRow {
        facts: facts.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect(),
        gauges: counters.keys().cloned().collect::<BTreeSet<_>>(),
        counters,
        ..ShowRow::new(kind, &name)
    }
}

fn rate(bps: u64) -> String {
    Rate(bps).to_string()
}

fn reservations(remote: &RemoteDomain, limit: usize) -> Result<Rows, AppError> {
    let (mut rows, mut total, mut after) = (Vec::new(), 0, Some(0));
    while let Some(number) = after.filter(|_| rows.len() < limit) {
        let asked = PAGE.min(limit - rows.len());
        let page =
            remote.ask(Method::GET, &format!("/v1/reservations?after={number}&limit={asked}"), None)?;
        let page: ReservationPage = page.accepted()?;
        (after, total) = (page.next, page.total);
        rows.extend(page.reservations.iter().map(reservation));
    }
    // Of an agent or proxy these are all that it may see.
    let total = if after.is_none() { rows.len() } else { total };
    Ok((rows, total, false))
}

fn reservation(shown: &ShownReservation) -> ShowRow {
    let state = serde_json::to_value(shown.state).map_or_else(|_| String::new(), |state| text(&state));
    let left = shown.expires_ms.saturating_sub(clock::wall().0 / 1_000_000) / 1_000;
    let mut facts = vec![
        ("class", shown.class.clone()),
        ("from", shown.from.clone()),
        ("to", shown.to.clone()),
        ("state", state),
        ("rate", rate(shown.bps)),
    ];
    facts.extend(shown.note.clone().map(|note| ("note", note)));
    facts.extend(shown.twin.map(|twin| ("twin", twin.to_string())));
    let row = row("reservation", shown.id.to_string(), &facts, &[("ends_in_s", left)]);
    ShowRow { id: shown.id, owner: shown.owner.clone(), ..row }
}

/// One row a class.
fn links(link: &Value) -> Vec<ShowRow> {
    let name = format!("{}/{}", text(&link["node"]), text(&link["port"]));
    let class = |(class, what): (&String, &Value)| {
        let bps = |key: &str| what[key].as_u64().unwrap_or(0);
        let mut facts = vec![
            ("to", text(&link["to"])),
            ("class", class.clone()),
            ("reservable", rate(bps("bps"))),
            ("reserved", rate(bps("reserved_bps"))),
            ("free", rate(bps("free_bps"))),
        ];
        if what["short"] == true {
            facts.push(("state", "short".to_owned()));
        }
        let row = row("link", name.clone(), &facts, &[]);
        ShowRow { id: link["id"].as_u64().unwrap_or(0), ..row }
    };
    link["classes"].as_object().into_iter().flatten().map(class).collect()
}

fn node(node: &Value) -> ShowRow {
    let agent = &node["agent"];
    let state = match &agent["settled"] {
        Value::Bool(true) => "settled",
        Value::Bool(false) => "behind",
        _ => "not heard",
    };
    let mut facts = vec![("kind", text(&node["kind"])), ("agent", state.to_owned())];
    if let Some(refused) = agent["refused"].as_array().and_then(|all| all.last()) {
        facts.push(("refused", text(refused)));
    }
    let number = |key: &str| agent[key].as_u64().unwrap_or(0);
    row("node", text(&node["name"]), &facts, &[("flows", number("flows")), ("owed", number("owed"))])
}

/// One row for the domain, and one for each thing that is held there.
fn peer(peer: &Value) -> Vec<ShowRow> {
    let state = if peer["here"] == true { "reached" } else { "away" };
    let facts = vec![("by", text(&peer["by"])), ("state", state.to_owned())];
    let held = peer["held"].as_array().into_iter().flatten().map(|held| {
        let bps = |key: &str| rate(held[key].as_u64().unwrap_or(0));
        let what = if held["single"] == true { "flow" } else { "aggregate" };
        let own = vec![
            ("holds", what.to_owned()),
            ("class", text(&held["class"])),
            ("to", text(&held["to"])),
            ("rate", bps("bps")),
            ("used", bps("used_bps")),
        ];
        row("peer", text(&peer["name"]), &[facts.clone(), own].concat(), &[])
    });
    let held: Vec<ShowRow> = held.collect();
    if held.is_empty() { vec![row("peer", text(&peer["name"]), &facts, &[])] } else { held }
}

fn client(client: &Value) -> ShowRow {
    let mut facts = vec![("role", text(&client["role"])), ("kind", text(&client["kind"]))];
    let known = match (client["has_token"] == true, client["certificate"].is_string()) {
        (true, true) => "token, certificate",
        (true, false) => "token",
        (false, true) => "certificate",
        (false, false) => "-",
    };
    facts.push(("known_by", known.to_owned()));
    if let Some(most) = client["most_bps"].as_u64() {
        facts.push(("most", rate(most)));
    }
    row("client", text(&client["name"]), &facts, &[])
}

fn audit(entry: &Value) -> ShowRow {
    let at = entry["at_ms"].as_u64().unwrap_or(0);
    let mut facts = vec![
        ("at", super::time_of_day(at.saturating_mul(1_000_000))),
        ("what", text(&entry["what"])),
        ("subject", text(&entry["subject"])),
    ];
    if !entry["refused"].is_null() {
        facts.push(("refused", text(&entry["refused"])));
    }
    let detail = &entry["detail"];
    if detail.as_object().is_some_and(|detail| !detail.is_empty()) {
        facts.push(("detail", detail.to_string()));
    }
    let seq = entry["seq"].as_u64().unwrap_or(0);
    ShowRow { id: seq, owner: text(&entry["who"]), ..row("audit", seq.to_string(), &facts, &[]) }
}
