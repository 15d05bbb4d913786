//! A domain's file. Everything that is wrong with it is reported at once.
//!
//! ```toml
//! [broker]
//! lifetime = "10 min"
//! on_short = "shrink"
//!
//! [[node]]
//! name = "berlin"
//! kind = "edge"
//!
//! [[link]]
//! from = "berlin"
//! port = "wan"
//! to = "core"
//! rate = "100 Mbit/s"
//! classes = { voice = "30 Mbit/s", video = "20 %" }
//! both = true
//! back_port = "to-berlin"
//! [link.schedule]
//! repeat = "24 h"
//! changes = [{ at = "6 h", rate = "40 Mbit/s" }, { at = "8 h", rate = "100 Mbit/s" }]
//! announced = [{ from = "2026-12-01T08:00:00Z", until = "2026-12-01T09:00:00Z", rate = "10 Mbit/s" }]
//!
//! [[client]]
//! name = "phones"
//! kind = "http"
//! role = "operator"
//! most = "10 Mbit/s"
//! ```

use super::route::leaving;
use super::schedule::{Announced, MAX_CHANGES, Schedule, parse_utc_ms};
use super::{
    Link, LinkKey, MAX_CLASSES, MAX_CLIENTS, MAX_HOPS, MAX_LINKS, MAX_NODES, MAX_PATHS, Node, Path, Profile,
    ROLES, Topology,
};
use crate::ledger::{OnShort, Settings};
use crate::record::{ClientRow, NodeKind};
use perhop_config::{Diagnostics, Document, Location, TableReader, TextError};
use perhop_model::Name;
use perhop_units::{Duration, Rate, Share};
use std::collections::BTreeMap;
use std::sync::Arc;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const KINDS: [(&str, NodeKind); 3] =
    [("edge", NodeKind::Edge), ("core", NodeKind::Core), ("peer", NodeKind::Peer)];
const PROTOCOLS: [(&str, &str); 6] = [
    ("tcapi", "tcapi"),
    ("cops", "cops"),
    ("http", "http"),
    ("camara", "camara"),
    ("peer", "peer"),
    ("agent", "agent"),
];

/// What a domain's file says of its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainFile {
    /// How the ledger decides. Its fence is 0.
    pub settings: Settings,
    /// What the domain consists of.
    pub topology: Topology,
}

impl DomainFile {
    /// Reads `text`, a file with nothing else in it; `file` is the name that messages show.
    pub fn read(file: &str, text: &str) -> (Option<Self>, Diagnostics) {
        let (document, diagnostics) = Document::parse(file, text);
        let mut root = document.root(&diagnostics);
        let domain = read(&mut root);
        root.finish();
        ((diagnostics.errors() == 0).then_some(domain), diagnostics)
    }
}

/// Reads the tables `broker`, `node`, `link`, `path` and `client` of a file that may have others too. What it returns means
/// something only if there are no errors.
pub fn read(root: &mut TableReader<'_>) -> DomainFile {
    let settings = settings(root);
    let mut topology = Topology::default();
    for (name, mut table) in limited(root.named_tables("node"), root, "node", MAX_NODES) {
        let kind = table.required_choice("kind", &KINDS).map_or(NodeKind::Core, |kind| kind.value);
        let cert_sha256 = sha256(&mut table, "certificate");
        is_name(&table, name.value, name.span, "node");
        topology.nodes.insert(name.value.to_owned(), Node { kind, cert_sha256 });
        table.finish();
    }
    let mut places = BTreeMap::new();
    for mut table in limited(root.tables("link"), root, "link", MAX_LINKS) {
        link(&mut table, &mut topology, &mut places);
        table.finish();
    }
    for mut table in limited(root.tables("path"), root, "path", MAX_PATHS) {
        path(&mut table, &mut topology);
        table.finish();
    }
    let ends = topology.nodes.values().filter(|node| node.kind != NodeKind::Core).count();
    if ends * ends.saturating_sub(1) > MAX_PATHS {
        let d =
            root.error("node", format!("has {ends} edges and peers, too many for a path between every two"));
        root.diagnostics().push(d.value("").allowed(format!("at most {MAX_PATHS} paths")));
    }
    for (name, mut table) in limited(root.named_tables("client"), root, "client", MAX_CLIENTS) {
        is_name(&table, name.value, name.span, "client");
        let row = client(name.value, &mut table);
        topology.clients.push(row);
        table.finish();
    }
    topology.clients.sort_by(|a, b| a.name.cmp(&b.name));
    DomainFile { settings, topology }
}

/// The first tables of a list up to a limit; more are an error.
fn limited<T>(tables: Vec<T>, root: &mut TableReader<'_>, key: &'static str, most: usize) -> Vec<T> {
    if tables.len() > most {
        let d = root.error(key, format!("has {} tables", tables.len())).value("");
        root.diagnostics().push(d.allowed(format!("at most {most}")));
    }
    tables.into_iter().take(most).collect()
}

fn settings(root: &mut TableReader<'_>) -> Settings {
    let mut settings = Settings::default();
    let Some(mut table) = root.table_or_empty("broker") else { return settings };
    let life = Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 60 * 60);
    let mut ms = |key, default: u64| {
        table.value_in::<Duration>(key, life.clone()).map_or(default, |life| life.value.0 / 1_000_000)
    };
    settings.most_lifetime_ms = ms("most_lifetime", settings.most_lifetime_ms);
    let default = settings.lifetime_ms.min(settings.most_lifetime_ms);
    settings.lifetime_ms = ms("lifetime", default);
    if settings.lifetime_ms > settings.most_lifetime_ms {
        let d = table.error("lifetime", "is above most_lifetime");
        table
            .diagnostics()
            .push(d.hint("A reservation lives as long as lifetime where its request does not say"));
    }
    let policies = [("keep", OnShort::Keep), ("shrink", OnShort::Shrink), ("release", OnShort::Release)];
    settings.on_short = table.choice("on_short", &policies).map_or(settings.on_short, |policy| policy.value);
    settings.preempt = table.boolean("preempt").is_some_and(|preempt| preempt.value);
    let mut number = |key, range, default: usize| {
        table.integer(key, range).map_or(default, |n| usize::try_from(n.value).unwrap_or(default))
    };
    settings.group = number("group", 1..=100_000, settings.group);
    settings.most_reservations = number("most_reservations", 1..=10_000_000, settings.most_reservations);
    let refusals = table.integer("refusals_per_second", 0..=100_000);
    settings.refusals_per_second = refusals.map_or(settings.refusals_per_second, |n| n.value.unsigned_abs());
    let remember = table.value_in::<Duration>("remember", Duration::ZERO..=DAY);
    settings.remember_ms = remember.map_or(settings.remember_ms, |time| time.value.0 / 1_000_000);
    table.finish();
    settings
}

fn link(table: &mut TableReader<'_>, topology: &mut Topology, places: &mut BTreeMap<LinkKey, Location>) {
    let from = node_of(table, topology, "from");
    let port = port_of(table, "port");
    let to = node_of(table, topology, "to");
    if from.is_some() && from == to {
        let d = table.error("to", "is the node that the link comes from");
        table.diagnostics().push(d);
    }
    let whole = Rate(1)..=Rate::MOST;
    table.require("rate", "\"100 Mbit/s\"");
    let rate = table.value_in("rate", whole).map(|rate| rate.value);
    let classes = classes(table, rate);
    let schedule = schedule(table, rate);
    let both = table.boolean("both").is_some_and(|both| both.value);
    let back_port = if both {
        port_of(table, "back_port")
    } else if table.has("back_port") {
        let d = table.error("back_port", "has no meaning without both = true");
        table.diagnostics().push(d);
        None
    } else {
        None
    };
    let (Some(from), Some(to), Some(port), Some(rate)) = (from, to, port, rate) else { return };
    let profile = Arc::new(Profile { rate, classes, schedule });
    let ways =
        [Some((from.clone(), port, to.clone(), "port")), back_port.map(|port| (to, port, from, "back_port"))];
    for (from, port, to, key) in ways.into_iter().flatten() {
        let at = table.location_of(key).unwrap_or(table.location());
        let link = (from, port);
        if let Some(before) = places.get(&link) {
            let d = table.error(key, format!("is the port of another link of node \"{}\"", link.0));
            let d = table.document().with_secondary(d, *before, "the first one is here");
            table.diagnostics().push(d);
            continue;
        }
        places.insert(link.clone(), at);
        topology.links.insert(link, Link { to, profile: profile.clone() });
    }
}

fn port_of(table: &mut TableReader<'_>, key: &'static str) -> Option<String> {
    let port = table.required_text(key, "\"wan\"")?;
    is_name(table, port.value, port.span, "port").then(|| port.value.to_owned())
}

/// A node that the file has.
fn node_of(table: &mut TableReader<'_>, topology: &Topology, key: &'static str) -> Option<String> {
    let name = table.required_text(key, "\"berlin\"")?;
    refer(table, topology, name.value, name.span)
}

fn refer(table: &TableReader<'_>, topology: &Topology, name: &str, at: Location) -> Option<String> {
    if topology.nodes.contains_key(name) {
        return Some(name.to_owned());
    }
    let known = topology.nodes.keys().map(String::as_str);
    let d = table.document().error(at, "is not a node of this file");
    let d = match perhop_config::did_you_mean(name, known) {
        Some(meant) => d.hint(format!("did you mean \"{meant}\"?")),
        None => d.hint("Write [[node]] with this name"),
    };
    table.diagnostics().push(d);
    None
}

fn classes(table: &mut TableReader<'_>, rate: Option<Rate>) -> BTreeMap<String, Share> {
    table.require("classes", "{ voice = \"30 %\" }");
    let given = table.named_values::<Share>("classes");
    if given.len() > MAX_CLASSES {
        let d = table.error("classes", format!("has {} classes", given.len())).value("");
        table.diagnostics().push(d.allowed(format!("at most {MAX_CLASSES}")));
    }
    let mut sum: u128 = 0;
    for (name, share) in &given {
        is_name(table, name, share.span, "class");
        sum += rate.map_or(0, |rate| u128::from(share.value.of(rate).0));
    }
    if let Some(rate) = rate.filter(|rate| sum > u128::from(rate.0)) {
        let d = table.error("classes", format!("come to {sum} bit/s, more than the link's rate ({rate})"));
        table
            .diagnostics()
            .push(d.value("").hint("What is reserved of all classes goes over the link together"));
    }
    given.into_iter().map(|(name, share)| (name.to_owned(), share.value)).collect()
}

fn schedule(table: &mut TableReader<'_>, own: Option<Rate>) -> Schedule {
    let mut schedule = Schedule::default();
    let Some(mut table) = table.table("schedule") else { return schedule };
    let repeat = table.value_in("repeat", Duration::from_secs(1)..=Duration::from_secs(366 * 86_400));
    schedule.repeat_ms = repeat.map_or(DAY, |repeat| repeat.value).0 / 1_000_000;
    let rates = Rate(0)..=own.unwrap_or(Rate::MOST);
    let changes = table.tables("changes");
    let mut latest = None;
    for mut change in limited(changes, &mut table, "changes", MAX_CHANGES) {
        change.require("at", "\"6 h\"");
        change.require("rate", "\"10 Mbit/s\"");
        let most = Duration::from_millis(schedule.repeat_ms.saturating_sub(1));
        let at = change.value_in("at", Duration::ZERO..=most).map(|at| at.value.0 / 1_000_000);
        let rate = change.value_in("rate", rates.clone()).map(|rate| rate.value);
        if at.is_some() && at <= latest {
            let d = change.error("at", "is not after the change before it");
            change.diagnostics().push(d.hint("Write the changes in order of time"));
        }
        latest = at.or(latest);
        schedule.changes.extend(at.zip(rate));
        change.finish();
    }
    let spans = table.tables("announced");
    for mut span in limited(spans, &mut table, "announced", MAX_CHANGES) {
        let from_ms = utc(&mut span, "from");
        let until_ms = utc(&mut span, "until");
        span.require("rate", "\"10 Mbit/s\"");
        let rate = span.value_in("rate", rates.clone()).map(|rate| rate.value);
        if from_ms.is_some() && until_ms.is_some() && until_ms <= from_ms {
            let d = span.error("until", "is not after from");
            span.diagnostics().push(d);
        }
        if let (Some(from_ms), Some(until_ms), Some(rate)) = (from_ms, until_ms, rate) {
            schedule.announced.push(Announced { from_ms, until_ms, rate });
        }
        span.finish();
    }
    table.finish();
    schedule
}

fn utc(table: &mut TableReader<'_>, key: &'static str) -> Option<u64> {
    table.require(key, "\"2026-12-01T08:00:00Z\"");
    let read = |text: &str| {
        let hint = "Write for example \"2026-12-01T08:00:00Z\"";
        parse_utc_ms(text).ok_or_else(|| TextError::new("is not a time of UTC").hint(hint))
    };
    table.value_with(key, "a time", read).map(|time| time.value)
}

fn path(table: &mut TableReader<'_>, topology: &mut Topology) {
    let from = end_of(table, topology, "from");
    let to = end_of(table, topology, "to");
    let via = table.texts("via").map(|via| via.value).unwrap_or_default();
    let mut nodes: Vec<(String, Location)> = Vec::new();
    let mut is_whole = true;
    for node in via {
        match refer(table, topology, node.value, node.span) {
            Some(name) => nodes.push((name, node.span)),
            None => is_whole = false,
        }
    }
    let (Some((from, _)), Some((to, to_at)), true) = (from, to, is_whole) else { return };
    if from == to {
        let d = table.document().error(to_at, "is where the path begins");
        return table.diagnostics().push(d);
    }
    nodes.push((to.clone(), to_at));
    if nodes.len() > MAX_HOPS {
        let d = table.error("via", format!("makes a path of {} links", nodes.len())).value("");
        return table.diagnostics().push(d.allowed(format!("at most {MAX_HOPS}")));
    }
    let (mut links, mut seen, mut at) = (Vec::new(), vec![from.clone()], from.clone());
    for (node, place) in nodes {
        if seen.contains(&node) {
            let d = table.document().error(place, format!("is on the path twice: \"{node}\""));
            return table.diagnostics().push(d);
        }
        let Some((key, _)) = leaving(topology, &at).find(|(_, to)| *to == node) else {
            let d = table.document().error(place, format!("is not reached from \"{at}\" by a link"));
            return table.diagnostics().push(d.hint(format!("Write [[link]] from \"{at}\" to \"{node}\"")));
        };
        links.push(key.clone());
        seen.push(node.clone());
        at = node;
    }
    if topology.paths.insert((from.clone(), to.clone()), Path { links }).is_some() {
        let d = table.error("to", format!("is the end of another path from \"{from}\""));
        table.diagnostics().push(d);
    }
}

/// A node where paths begin and end.
fn end_of(table: &mut TableReader<'_>, topology: &Topology, key: &'static str) -> Option<(String, Location)> {
    let name = node_of(table, topology, key)?;
    let at = table.location_of(key)?;
    if topology.nodes.get(&name).is_some_and(|node| node.kind == NodeKind::Core) {
        let d = table.document().error(at, "is a core router");
        table.diagnostics().push(d.hint("Paths begin and end at edges and peers"));
        return None;
    }
    Some((name, at))
}

fn client(name: &str, table: &mut TableReader<'_>) -> ClientRow {
    let kind = table.required_choice("kind", &PROTOCOLS).map_or("http", |kind| kind.value);
    let role =
        table.required_choice("role", &ROLES.map(|role| (role, role))).map_or("viewer", |role| role.value);
    let token_sha256 = sha256(table, "token_sha256");
    let cert_sha256 = sha256(table, "certificate");
    let most_bps = table.value_in("most", Rate(1)..=Rate::MOST).map(|rate| rate.value.0);
    let mut number = |key| table.integer(key, 1..=1_000_000_000).map(|n| n.value.unsigned_abs());
    let (most_count, per_second) = (number("most_reservations"), number("per_second"));
    ClientRow {
        name: name.to_owned(),
        kind: kind.to_owned(),
        cert_sha256,
        token_sha256,
        role: role.to_owned(),
        most_bps,
        most_count,
        per_second,
    }
}

/// A SHA-256, lower-case hexadecimal.
pub fn sha256(table: &mut TableReader<'_>, key: &'static str) -> Option<String> {
    let read = |text: &str| {
        let is_one = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let wrong = TextError::new("is not a SHA-256").allowed("64 hexadecimal digits");
        if is_one { Ok(text.to_ascii_lowercase()) } else { Err(wrong) }
    };
    table.value_with(key, "a SHA-256", read).map(|digest| digest.value)
}

/// Whether it is a name; what is not is reported. What is empty has been reported before.
fn is_name(table: &TableReader<'_>, text: &str, at: Location, what: &str) -> bool {
    let legal = Name::new(text).is_ok();
    if !legal && !text.is_empty() {
        let d = table.document().error(at, format!("is not a name of a {what}"));
        table.diagnostics().push(d.allowed("1 to 128 characters of A-Z a-z 0-9 . _ : / -"));
    }
    legal
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
