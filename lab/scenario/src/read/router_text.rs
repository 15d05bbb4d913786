//! Router files of a scenario: beside it or inside it, with values of theirs set by path.

use super::cx::Cx;
use super::inside::{self, Found, Source, find};
use super::{Places, later_rates};
use crate::model::{LinkIndex, NodeIndex, NodeKind, RouterChange, RouterConfig, Scenario};
use crate::router_objects::read_on_links;
use perhop_bandwidth::AgentFile;
use perhop_config::{
    Diagnostic, Diagnostics, Location, Position, Spanned, TableReader, did_you_mean, position_in, quoted_list,
};
use perhop_model::{Kind, Name};
use perhop_routerfile::RouterFile;
use perhop_units::Duration;

/// Reads the router of a node from the keys `router`, `config`, `agent` and `change`, as far as that can be done without
/// its links: [`complete`] does the rest.
pub(super) fn read(
    cx: &Cx<'_>,
    table: &mut TableReader<'_>,
    file: Option<Spanned<&str>>,
    inline: Option<Spanned<&str>>,
    agent: Option<Spanned<&str>>,
    places: &mut Places,
) -> NodeKind {
    let agent = agent.and_then(|file| read_agent(cx, table.location(), file));
    // A router without classes, filters and contracts still forwards.
    let (origin, text) = text(cx, table.location(), file, inline).unwrap_or_default();
    let changes = changes(cx, table, places);
    if origin.is_empty()
        && !cx.file.is_damaged()
        && let Some(at) = table.location_of("change").filter(|_| file.is_none() && inline.is_none())
    {
        let hint = "Give the node a router file to begin with, also one with ports alone";
        cx.push(cx.error(at, "has no file to take the place of").value("").hint(hint));
    }
    NodeKind::Router(RouterConfig { origin, text, agent, changes })
}

/// The text of a router file that `table` names or holds, and where it is from.
fn text(
    cx: &Cx<'_>,
    table: Location,
    file: Option<Spanned<&str>>,
    inline: Option<Spanned<&str>>,
) -> Option<(String, String)> {
    match (file, inline) {
        (Some(file), Some(inline)) => {
            cx.push(
                cx.file.with_secondary(
                    cx.error(inline.span, "is a second router file of this node")
                        .value("")
                        .hint("Keep one of the two"),
                    file.span,
                    "the other one is here",
                ),
            );
            None
        }
        (Some(file), None) => Some((cx.path_of(file.value), companion(cx, file)?)),
        (None, Some(inline)) => {
            let origin = format!("{} (config of node \"{}\")", cx.file.file(), cx.file.name(table));
            Some((origin, inline.value.to_owned()))
        }
        (None, None) => None,
    }
}

/// Reads `[[node.NAME.change]]`, in order of time.
fn changes(cx: &Cx<'_>, table: &mut TableReader<'_>, places: &mut Places) -> Vec<RouterChange> {
    let mut changes = Vec::new();
    for mut entry in table.tables("change") {
        let at = entry.required::<Duration>("at", "\"30 s\"");
        let file = entry.required_text("router", "\"later.toml\"");
        let text = text(cx, entry.location(), file, None);
        let place = entry.location();
        entry.finish();
        let Some(Spanned { value: at, .. }) = at else { continue };
        places.changes.push((place, at));
        changes.extend(text.map(|(origin, text)| RouterChange { at, origin, text }));
    }
    changes.sort_by_key(|change| change.at);
    changes
}

/// Sets what settings and variants change inside the router's file and checks it, now that the links are known.
pub(super) fn complete(cx: &Cx<'_>, scenario: &mut Scenario, node: NodeIndex, places: &Places) {
    let NodeKind::Router(config) = scenario.nodes[node.0].kind.clone() else { return };
    let table = places.nodes[node.0];
    if config.origin.is_empty() {
        // What is there but could not be read is reported already.
        if !["router", "config"].iter().any(|key| cx.child(table, key).is_some()) {
            check_agent(cx, &config, None, table);
        }
        return;
    }
    let first = first_line(cx, table);
    let wrong_rate = |link: LinkIndex| {
        let ways = &scenario.links[link.0].ways;
        let without = ways.iter().any(|way| way.rate.is_none() && way.trace.is_none());
        let table = places.links[link.0];
        let reverse = cx.child(table, "reverse");
        without && [Some(table), reverse].into_iter().flatten().any(|t| cx.child(t, "rate").is_some())
    };
    let (file, diagnostics) = read_on_links(scenario, node, (&config.origin, &config.text), wrong_rate, None);
    forward(cx, &diagnostics, first);
    let Some(mut file) = file else { return };
    let config_of_agent = config.clone();
    let inside = cx.file.inside_file(table, "router");
    if !inside.is_empty() {
        let known: Vec<String> = diagnostics.sorted().into_iter().map(|d| d.message).collect();
        let source = Source { file: &config.origin, text: &config.text, first };
        let (changed, text) = inside::apply(cx, inside, &source, |text| {
            let (file, again) = read_on_links(scenario, node, (&config.origin, text), wrong_rate, None);
            let new = |d: &Diagnostic| !known.contains(&d.message) && !is_about_links(d);
            (file, again.sorted().into_iter().filter(new).collect())
        });
        let Some(changed) = changed else { return };
        file = changed;
        scenario.nodes[node.0].kind = NodeKind::Router(RouterConfig { text, ..config });
    }
    check_ports(cx, scenario, node, &file, table);
    check_agent(cx, &config_of_agent, Some(&file), table);
    check_changes(cx, scenario, node, &file, wrong_rate, table);
    later_rates::check(cx, scenario, node, &file, places, wrong_rate);
}

/// The agent of the node `table`, with what settings and variants change inside its file.
fn read_agent(cx: &Cx<'_>, table: Location, file: Spanned<&str>) -> Option<AgentFile> {
    let text = companion(cx, file)?;
    let (agent, diagnostics) = AgentFile::read(&cx.path_of(file.value), &text);
    forward(cx, &diagnostics, None);
    let agent = agent?;
    let inside = cx.file.inside_file(table, "agent");
    let agent = if inside.is_empty() {
        agent
    } else {
        let source = Source { file: file.value, text: &text, first: None };
        let read = |text: &str| {
            let (agent, diagnostics) = AgentFile::read(file.value, text);
            (agent, diagnostics.sorted())
        };
        inside::apply(cx, inside, &source, read).0?
    };
    if agent.leased_for.is_some() {
        let error = cx.error(file.span, "has a broker of kind \"controller\", which no scenario has");
        cx.push(error.hint("Measured classes of scenarios ask an emulated broker"));
        return None;
    }
    Some(agent)
}

/// The text of the file that a key names.
pub(super) fn companion(cx: &Cx<'_>, file: Spanned<&str>) -> Option<String> {
    let bytes = super::companions::bytes(cx, file)?;
    let text = String::from_utf8(bytes).ok();
    if text.is_none() {
        cx.push(cx.error(file.span, "is not a text file").hint("It must be TOML in UTF-8"));
    }
    text
}

/// Where the first line of a node's inline text stands in the scenario file, if it is written there.
pub(super) fn first_line(cx: &Cx<'_>, table: Location) -> Option<Position> {
    let at = cx.child(table, "config")?;
    let written = cx.file.written(at);
    let quotes = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
    let behind = written.get(quotes..).unwrap_or("");
    let skipped =
        behind.len() - behind.strip_prefix('\r').unwrap_or(behind).strip_prefix('\n').unwrap_or(behind).len();
    Some(cx.file.position(cx.file.behind(at, quotes + skipped))).filter(|first| first.line > 0)
}

/// Passes on what is wrong with a router file, at its place in the scenario file if it is written there.
pub(super) fn forward(cx: &Cx<'_>, diagnostics: &Diagnostics, first: Option<Position>) {
    for mut diagnostic in diagnostics.sorted().into_iter().filter(|d| !is_about_links(d)) {
        if let Some(first) = first {
            diagnostic.file = cx.file.file().into();
            diagnostic.position = shifted(diagnostic.position, first);
            diagnostic.secondary = diagnostic.secondary.map(|(p, text)| (shifted(p, first), text));
        }
        cx.push(diagnostic);
    }
}

/// Whether a warning misses what links give: a port has the rate of its link, and each link at the node is a port.
fn is_about_links(diagnostic: &Diagnostic) -> bool {
    let (key, message) = (diagnostic.key.as_str(), diagnostic.message.as_str());
    matches!((key, message), ("rate", "is missing on a port with classes") | ("name", "is the only port"))
}

/// Checks that every port of a router's file is a link at the node.
fn check_ports(cx: &Cx<'_>, scenario: &Scenario, index: NodeIndex, file: &RouterFile, table: Location) {
    let node = &scenario.nodes[index.0];
    let NodeKind::Router(config) = &node.kind else { return };
    let at_node = scenario.links_of(index);
    let links: Vec<&str> = at_node.map(|(link, _)| scenario.links[link.0].name.as_str()).collect();
    for name in ports(file).filter(|name| !links.contains(name)) {
        let mut error = cx.error(table, format!("is no link of node \"{}\"", node.name));
        if let Ok(Found::Value(span)) = find(&config.text, &format!("port.{name}.name")) {
            let position = position_in(&config.text, span.start);
            match first_line(cx, table) {
                Some(first) => error.position = shifted(position, first),
                None => {
                    error.file = config.origin.as_str().into();
                    error.position = position;
                }
            }
        }
        error.subject = format!("port \"{name}\"");
        let error = error.key("name").value(format!("\"{name}\""));
        let error = error.meant(did_you_mean(name, links.iter().copied()));
        cx.push(error.hint("A port has the name of its link").allowed(quoted_list(links.iter().copied())));
    }
}

/// Checks that the router has what its agent looks after, at the start or later.
fn check_agent(cx: &Cx<'_>, config: &RouterConfig, file: Option<&RouterFile>, table: Location) {
    let Some(agent) = &config.agent else { return };
    for class in &agent.classes {
        check_name(cx, config, file, table, (Kind::Class, "class"), (&class.class, "class", "name"));
    }
    for policy in &agent.bandwidth.policies {
        check_name(cx, config, file, table, (Kind::AbrPolicy, "abr policy"), (&policy.policy, "abr", "name"));
    }
    for link in &agent.bandwidth.links {
        for class in &link.above {
            check_name(cx, config, file, table, (Kind::Class, "class"), (class, "link", "above"));
        }
        if let Some(port) = &link.port {
            check_name(cx, config, file, table, (Kind::Port, "port"), (port, "link", "port"));
        }
    }
}

/// Checks one name of an object, which stands in the agent's file in a table of `section` at `key`.
fn check_name(
    cx: &Cx<'_>,
    config: &RouterConfig,
    file: Option<&RouterFile>,
    table: Location,
    (kind, word): (Kind, &str),
    (name, section, key): (&Name, &str, &str),
) {
    let Some(at) = cx.child(table, "agent") else { return };
    let name = name.as_str();
    let objects = file.map_or(&[][..], |file| &file.objects);
    let names = || objects.iter().filter(|o| o.kind() == kind).map(|o| o.name.as_str());
    let in_file = if kind == Kind::AbrPolicy { "abr" } else { word };
    let later = |change: &RouterChange| find(&change.text, &format!("{in_file}.{name}.name")).is_ok();
    if names().any(|known| known == name) || config.changes.iter().any(later) {
        return;
    }
    let mut error = cx.error(at, format!("is no {word} of the router \"{}\"", cx.file.name(table)));
    if let Some(origin) = cx.file.text_of(at)
        && let Some(text) = companion(cx, Spanned { value: origin, span: at })
        && key == "name"
        && let Ok(Found::Value(span)) = find(&text, &format!("{section}.{name}.name"))
    {
        error.file = origin.into();
        error.position = position_in(&text, span.start);
    }
    error.subject = format!("{word} \"{name}\"");
    let error = error.key(key).value(format!("\"{name}\"")).meant(inside::meant(name, names()));
    cx.push(match names().next() {
        Some(_) => error.allowed(quoted_list(names())),
        None if kind == Kind::Class => error.hint("The router's file has no classes"),
        None => error.hint(format!("The router's file has no {in_file}")),
    });
}

/// Checks the files that take the place of the router's while the scenario runs: a router keeps its ports.
fn check_changes(
    cx: &Cx<'_>,
    scenario: &Scenario,
    node: NodeIndex,
    file: &RouterFile,
    wrong_rate: impl Fn(LinkIndex) -> bool,
    table: Location,
) {
    let NodeKind::Router(config) = &scenario.nodes[node.0].kind else { return };
    for change in &config.changes {
        let text = (change.origin.as_str(), change.text.as_str());
        let (then, diagnostics) = read_on_links(scenario, node, text, &wrong_rate, None);
        forward(cx, &diagnostics, None);
        if then.is_some_and(|then| !ports(&then).eq(ports(file)))
            && let Some(at) = cx.child(table, "change")
        {
            let message =
                format!("names \"{}\", which has other ports than the file before it", change.origin);
            let error = cx.error(at, message).value("").allowed(quoted_list(ports(file)));
            cx.push(error.hint("A router keeps its ports, in their order"));
        }
    }
}

/// The ports of a file, in order.
fn ports(file: &RouterFile) -> impl Iterator<Item = &str> {
    file.objects.iter().filter(|o| o.kind() == RouterFile::KINDS[0]).map(|o| o.name.as_str())
}

/// A position in an inline text as one in the scenario file.
pub(super) fn shifted(at: Position, first: Position) -> Position {
    let column = if at.line == 1 { at.column + first.column - 1 } else { at.column };
    Position { line: at.line + first.line - 1, column }
}
