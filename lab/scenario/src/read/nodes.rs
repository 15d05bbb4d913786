//! `[node.NAME]`: machines.

use super::cx::Cx;
use super::{Places, domains, router_text};
use crate::model::{Node, NodeKind};
use perhop_config::{Spanned, TableReader, TextError};
use std::net::Ipv4Addr;

/// Longest name of a node, a link or a traffic: that of an interface or a namespace.
pub(super) const MAX_NAME: usize = 15;
/// Most nodes: each has its place in 10.0.0.0/16.
const MAX_NODES: usize = 10_000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Host,
    Forwarder,
    Router,
    Controller,
}

/// Reports a name that cannot be that of a namespace, an interface or a group of results.
pub(super) fn check_name(cx: &Cx<'_>, table: &TableReader<'_>, name: &str) {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(legal) {
        return;
    }
    let message =
        if name.len() > MAX_NAME { "is longer than the name of an interface" } else { "is not a name" };
    let diagnostic = cx.file.key_error(table.location(), message);
    let allowed = format!("1 to {MAX_NAME} characters of A-Z a-z 0-9 _ -");
    cx.push(diagnostic.allowed(allowed));
}

/// Address of the node at a position: 10.0.0.1, 10.0.0.2 …
fn by_position(index: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0A00_0001 + index as u32)
}

/// Reads the nodes.
pub(super) fn read(cx: &Cx<'_>, root: &mut TableReader<'_>, places: &mut Places) -> Vec<Node> {
    root.require("node", "[node.NAME] with kind = \"host\"");
    let mut nodes: Vec<Node> = Vec::new();
    for (name, table) in root.named("node") {
        if nodes.len() == MAX_NODES {
            cx.one_too_many(&table, "node", MAX_NODES);
            table.finish();
            break;
        }
        check_name(cx, &table, name);
        places.nodes.push(table.location());
        nodes.push(node(cx, name, nodes.len(), table, places));
    }
    nodes
}

fn node(cx: &Cx<'_>, name: &str, index: usize, mut table: TableReader<'_>, places: &mut Places) -> Node {
    let kinds = [
        ("host", Kind::Host),
        ("forwarder", Kind::Forwarder),
        ("router", Kind::Router),
        ("controller", Kind::Controller),
    ];
    table.require("kind", "\"host\"");
    let kind = table.choice("kind", &kinds);
    let address = table.value_with("address", "an IPv4 address", address).map(|a| a.value);
    let address = address.unwrap_or_else(|| by_position(index));
    let file = table.text("router");
    let inline = table.text("config");
    let agent = table.text("agent");
    let made = match kind {
        Some(Spanned { value: Kind::Router, .. }) => {
            router_text::read(cx, &mut table, file, inline, agent, places)
        }
        Some(Spanned { value: Kind::Controller, .. }) => {
            for at in [file, agent].into_iter().flatten().map(|given| given.span) {
                cx.push(cx.error(at, "is only for routers").hint("A controller has a domain"));
            }
            let domain = table.text("domain");
            match domains::controller(cx, name, &mut table, domain, inline, places) {
                Some(config) => NodeKind::Controller(config),
                None => NodeKind::Host,
            }
        }
        Some(Spanned { value, span: at }) => {
            // A variant may turn a router into something simpler and leave its file alone.
            let changed = !cx.file.is_own(at);
            let texts = [file, inline, agent].into_iter().flatten().map(|given| given.span);
            for at in texts.chain(table.location_of("change")).filter(|_| !changed) {
                let hint = "Write kind = \"router\", or remove it";
                cx.push(cx.error(at, "is only for routers").hint(hint));
            }
            if value == Kind::Host { NodeKind::Host } else { NodeKind::Forwarder }
        }
        None => NodeKind::Forwarder,
    };
    table.finish();
    Node { name: name.to_owned(), kind: made, address }
}

fn address(text: &str) -> Result<Ipv4Addr, TextError> {
    let wrong = || TextError::new("is not an IPv4 address").hint("Write for example \"10.1.0.1\"");
    let address: Ipv4Addr = text.parse().map_err(|_| wrong())?;
    let usable = !(address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_loopback()
        || address.is_link_local());
    if usable { Ok(address) } else { Err(wrong().hint("It must be one that a single machine can have")) }
}
