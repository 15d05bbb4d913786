//! Controllers of domains, `kind = "controller"`, and what is asked of them, `[[reservation]]`.

use super::cx::Cx;
use super::{Places, router_text};
use crate::model::{
    ControllerConfig, MessageFaults, Node, NodeIndex, NodeKind, Reservation, Scenario, Traffic,
};
use perhop_bandwidth::AgentFile;
use perhop_broker::flow::read_marks;
use perhop_broker::peer::read_peers;
use perhop_broker::record::NodeKind as DomainNodeKind;
use perhop_broker::topology;
use perhop_config::{Document, Spanned, TableReader};
use perhop_units::{Duration, Probability, Rate};

/// Most requests of one `[[reservation]]`.
const MAX_COUNT: i64 = 10_000;
/// Most outages of a controller.
const MAX_OUTAGES: usize = 1_000;
/// Most that a message between controllers may be late.
const MOST_JITTER: Duration = Duration::from_secs(60);

/// Reads the controller of a node from the keys `domain` or `config`, and `outage`.
pub(super) fn controller(
    cx: &Cx<'_>,
    name: &str,
    table: &mut TableReader<'_>,
    file: Option<Spanned<&str>>,
    inline: Option<Spanned<&str>>,
    places: &mut Places,
) -> Option<ControllerConfig> {
    let outages = outages(cx, table, places);
    let faults = MessageFaults {
        loss: table.value::<Probability>("message_loss").map_or(Probability::ZERO, |loss| loss.value),
        jitter: table
            .value_in("message_jitter", Duration::ZERO..=MOST_JITTER)
            .map_or(Duration::ZERO, |jitter| jitter.value),
    };
    let (origin, text, first) = match (file, inline) {
        (Some(_), Some(inline)) => {
            cx.push(
                cx.error(inline.span, "is a second domain of this node")
                    .value("")
                    .hint("Keep one of the two"),
            );
            return None;
        }
        (Some(file), None) => (cx.path_of(file.value), router_text::companion(cx, file)?, None),
        (None, Some(inline)) => {
            let first = router_text::first_line(cx, table.location());
            (cx.file.file().to_owned(), inline.value.to_owned(), first)
        }
        (None, None) => {
            table.require("domain", "\"domain.toml\"");
            return None;
        }
    };
    let (document, diagnostics) = Document::parse(&origin, &text);
    let mut root = document.root(&diagnostics);
    // Where a live controller is and keeps its rows: here it is the node, with a memory of its own.
    if let Some(mut own) = root.table("controller") {
        let _ = (own.text("name"), own.text("database"));
        own.finish();
    }
    let marks = read_marks(&mut root);
    let domain = topology::read(&mut root);
    let peers = read_peers(&mut root, &domain.topology, name, |table| {
        let _ =
            (table.texts("addresses"), table.text("certificate"), table.text("key"), table.text("authority"));
        Some(())
    });
    let peers = peers.into_iter().map(|(peer, ())| peer).collect();
    root.finish();
    router_text::forward(cx, &diagnostics, first);
    (diagnostics.errors() == 0).then_some(ControllerConfig { domain, marks, outages, peers, faults })
}

/// Reads `[[node.NAME.outage]]`, in order of time.
fn outages(cx: &Cx<'_>, table: &mut TableReader<'_>, places: &mut Places) -> Vec<(Duration, Duration)> {
    let mut all: Vec<(Duration, Duration)> = Vec::new();
    for mut entry in table.tables("outage") {
        if all.len() == MAX_OUTAGES {
            cx.one_too_many(&entry, "outage", MAX_OUTAGES);
            break;
        }
        let from = entry.required::<Duration>("from", "\"10 s\"");
        let until = entry.required::<Duration>("until", "\"15 s\"");
        let place = entry.location();
        entry.finish();
        let (Some(from), Some(until)) = (from, until) else { continue };
        if until.value <= from.value || all.last().is_some_and(|(_, last)| from.value <= *last) {
            let error = cx.error(until.span, "is not after its beginning, or it begins in the one before");
            cx.push(error.hint("Outages are in order of time, one after the other"));
            continue;
        }
        places.changes.push((place, from.value));
        all.push((from.value, until.value));
    }
    all
}

/// Gives the routers of domains agents that follow their controllers.
pub(super) fn followers(all: &mut [Node]) {
    let of = |node: &Node| match &node.kind {
        NodeKind::Controller(config) => config.domain.topology.nodes.keys().cloned().collect(),
        _ => Vec::new(),
    };
    let names: Vec<String> = all.iter().flat_map(of).collect();
    for node in all.iter_mut().filter(|node| names.contains(&node.name)) {
        let NodeKind::Router(config) = &mut node.kind else { continue };
        let text = format!("[controller]\nnode = \"{}\"\n", node.name);
        let (own, _) = AgentFile::read("", &text);
        match (&mut config.agent, own) {
            (Some(agent), Some(own)) => agent.controller = own.controller,
            (agent, own) => *agent = own,
        }
    }
}

/// Reads `[[reservation]]`.
pub(super) fn reservations(
    cx: &Cx<'_>,
    root: &mut TableReader<'_>,
    all: &[Node],
    traffic: &[Traffic],
) -> Vec<Reservation> {
    let mut read: Vec<Reservation> = Vec::new();
    for mut table in root.tables("reservation") {
        let one = reservation(cx, &mut table, all, traffic);
        if let Some(one) = one {
            if read.iter().any(|other| other.name == one.name)
                && let Some(at) = cx.child(table.location(), "name")
            {
                cx.push(cx.error(at, "is the name of another reservation"));
            }
            read.push(one);
        }
        table.finish();
    }
    read
}

fn reservation(
    cx: &Cx<'_>,
    table: &mut TableReader<'_>,
    all: &[Node],
    traffic: &[Traffic],
) -> Option<Reservation> {
    let name = table.required_text("name", "\"calls\"");
    let from = table.required_text("from", "\"west\"");
    let to = table.required_text("to", "\"east\"");
    let class = table.required_text("class", "\"voice\"");
    let rate = table.required::<Rate>("rate", "\"80 kbit/s\"");
    let back = table.value::<Rate>("back").map(|v| v.value);
    let floor = table.value::<Rate>("floor").map(|v| v.value);
    let priority = table.integer("priority", 0..=255).map_or(0, |v| v.value as u8);
    let lifetime = table.value::<Duration>("lifetime").map(|v| v.value);
    let at = table.value::<Duration>("at").map_or(Duration::ZERO, |v| v.value);
    let count = table.integer("count", 1..=MAX_COUNT).map_or(1, |v| v.value as u32);
    let every = table.value::<Duration>("every").map_or(Duration::ZERO, |v| v.value);
    let retry = table.value::<Duration>("retry");
    let release = table.value::<Duration>("release");
    let of = table.text("traffic");
    let by_agent = table.choice("decided_by", &[("controller", false), ("agent", true)]);
    if let Some(retry) = retry.as_ref().filter(|retry| retry.value == Duration::ZERO) {
        cx.push(cx.error(retry.span, "is no time to wait").hint("Write for example \"1 s\""));
    }
    if let Some(release) = release.as_ref().filter(|release| release.value <= at) {
        cx.push(cx.error(release.span, format!("is not after the first asks ({at})")));
    }
    let of = of.and_then(|given| {
        let names = traffic.iter().map(|traffic| traffic.name.as_str());
        let found = cx.find(given, "a traffic", names)?;
        if traffic[found].kind.tcp().is_some() {
            cx.push(
                cx.error(given.span, "is over TCP").hint("Packets of UDP alone can be told by a traffic"),
            );
        }
        Some(found)
    });
    let (from, to) = (from?, to?);
    let (from_index, to_index) = (cx.node(from, all)?, cx.node(to, all)?);
    let of_edge = |index: NodeIndex| {
        let is_edge = |config: &ControllerConfig| {
            let of_domain = config.domain.topology.nodes.get(&all[index.0].name);
            of_domain.is_some_and(|node| node.kind == DomainNodeKind::Edge)
        };
        all.iter().position(|n| matches!(&n.kind, NodeKind::Controller(config) if is_edge(config)))
    };
    let reaches = |from: usize, to: usize| match &all[from].kind {
        NodeKind::Controller(config) => {
            let to = &all[to].name;
            config.peers.iter().any(|peer| peer.name == *to || peer.behind.contains(to))
        }
        _ => false,
    };
    let (controller, domain) = match (of_edge(from_index), of_edge(to_index)) {
        (Some(one), Some(other)) if one == other => (NodeIndex(one), None),
        (Some(one), Some(other)) if reaches(one, other) => (NodeIndex(one), Some(all[other].name.clone())),
        _ => {
            let error =
                cx.error(from.span, "and to are not edges of one domain, nor of one that is reached from it");
            cx.push(error.hint("A domain is that of a node with kind = \"controller\""));
            return None;
        }
    };
    let decides = |index: NodeIndex, class: &str| match &all[index.0].kind {
        NodeKind::Router(config) => {
            let leases = config.agent.as_ref().and_then(|agent| agent.leases.as_ref());
            leases.is_some_and(|leases| leases.classes.contains_key(class))
        }
        _ => false,
    };
    if let (Some(given), Some(class)) = (by_agent.filter(|given| given.value), &class) {
        if !decides(from_index, class.value) {
            let error = cx.error(given.span, format!("decides nothing of class \"{}\" there", class.value));
            cx.push(error.hint("The router in from needs an agent whose file has a [[lease]] of this class"));
        } else if back.is_some() || domain.is_some() {
            let error = cx.error(given.span, "decides one direction, which ends in its own domain");
            cx.push(error);
        }
    }
    if back.is_some() && domain.is_some() {
        let error = table.error("back", "cannot be reserved from here: each domain reserves what it sends");
        cx.push(error);
    }
    Some(Reservation {
        name: name?.value.to_owned(),
        controller,
        from: from_index,
        to: to_index,
        class: class?.value.to_owned(),
        rate: rate?.value,
        back,
        floor,
        priority,
        lifetime,
        at,
        count,
        every,
        retry: retry.map(|v| v.value),
        release: release.map(|v| v.value),
        traffic: of,
        domain,
        by_agent: by_agent.is_some_and(|given| given.value),
    })
}

/// Checks that domains consist of routers of the scenario, and their ports of its links.
pub(super) fn check(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    for (node, place) in scenario.nodes.iter().zip(&places.nodes) {
        let NodeKind::Controller(config) = &node.kind else { continue };
        for (name, of_domain) in &config.domain.topology.nodes {
            let index = scenario.node(name);
            let is_router = index.is_some_and(|i| matches!(scenario.nodes[i.0].kind, NodeKind::Router(_)));
            let is_controller =
                index.is_some_and(|i| matches!(scenario.nodes[i.0].kind, NodeKind::Controller(_)));
            if of_domain.kind == DomainNodeKind::Peer && !is_controller {
                let error =
                    cx.error(*place, format!("has a neighbouring domain \"{name}\" without a controller"));
                cx.push(error.value("").hint("Neighbouring domains are controllers of the same names"));
            }
            if of_domain.kind != DomainNodeKind::Peer && !is_router {
                let error = cx.error(
                    *place,
                    format!("has a domain whose node \"{name}\" is no router of the scenario"),
                );
                cx.push(error.value("").hint("Nodes of a domain are routers of the same names"));
            }
        }
        for (sender, port) in config.domain.topology.links.keys() {
            // What neighbours send leaves by ports of theirs.
            let nodes = &config.domain.topology.nodes;
            let is_own = nodes.get(sender).is_some_and(|node| node.kind != DomainNodeKind::Peer);
            let Some(index) = scenario.node(sender).filter(|_| is_own) else { continue };
            if !scenario.links_of(index).any(|(link, _)| scenario.links[link.0].name == *port) {
                let message = format!("has a domain whose port \"{port}\" of \"{sender}\" is no link there");
                cx.push(cx.error(*place, message).value("").hint("A port is the link of the same name"));
            }
        }
    }
}
