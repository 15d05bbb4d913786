//! What a domain's file says of CAMARA's interfaces: `[[network]]`, `[[qos_profile]]`, `[[consumer]]` and `[camara]`.

use ipnet::IpNet;
use perhop_broker::record::NodeKind;
use perhop_broker::topology::DomainFile;
use perhop_config::{TableReader, TextError, did_you_mean};
use perhop_serve::controller::camara::{
    CamaraSettings, Consumer, MAX_NETWORKS, MAX_PROFILES, Network, ProfileStatus, QosProfile, Scope, Sinks,
};
use perhop_units::{Duration, Rate};
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

/// Most clients of which more is said.
const MAX_CONSUMERS: usize = 10_000;
/// Most prefixes in a list.
const MAX_PREFIXES: usize = 256;
/// Longest description, characters.
const MAX_DESCRIPTION: usize = 1_024;
const STATUSES: [(&str, ProfileStatus); 3] = [
    ("ACTIVE", ProfileStatus::Active),
    ("INACTIVE", ProfileStatus::Inactive),
    ("DEPRECATED", ProfileStatus::Deprecated),
];
const SECOND: u64 = 1_000_000_000;

/// Reads these tables of a file whose domain is known.
pub(super) fn read(root: &mut TableReader<'_>, domain: &DomainFile, folder: &Path) -> CamaraSettings {
    let networks = networks(root, domain);
    let profiles = profiles(root, domain);
    let consumers = consumers(root, domain);
    let sinks = sinks(root, folder);
    CamaraSettings::new(networks, profiles, consumers, sinks)
}

fn limit(root: &mut TableReader<'_>, key: &'static str, count: usize, most: usize) {
    if count > most {
        let d = root.error(key, format!("has {count} tables")).value("");
        root.diagnostics().push(d.allowed(format!("at most {most}")));
    }
}

fn prefix(text: &str) -> Result<IpNet, TextError> {
    let hint = "Write for example \"10.1.0.0/16\" or \"2001:db8::/32\"";
    let net: IpNet = text.parse().map_err(|_| TextError::new("is not a prefix").hint(hint))?;
    if net.trunc() == net { Ok(net) } else { Err(TextError::new("has bits beyond its length").hint(hint)) }
}

fn prefixes(table: &mut TableReader<'_>, key: &'static str) -> Vec<IpNet> {
    let all = table.values_with(key, "a prefix", prefix).map(|all| all.value).unwrap_or_default();
    if all.len() > MAX_PREFIXES {
        let d = table.error(key, format!("has {} prefixes", all.len())).value("");
        table.diagnostics().push(d.allowed(format!("at most {MAX_PREFIXES}")));
    }
    all.into_iter().map(|net| net.value).collect()
}

fn networks(root: &mut TableReader<'_>, domain: &DomainFile) -> Vec<Network> {
    let tables = root.tables("network");
    limit(root, "network", tables.len(), MAX_NETWORKS);
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    for mut table in tables {
        table.require("prefix", "\"10.1.0.0/16\"");
        let net = table.value_with("prefix", "a prefix", prefix).map(|net| net.value);
        let node = table.text("node");
        if let Some(node) = &node {
            let nodes = &domain.topology.nodes;
            let error = match nodes.get(node.value).map(|node| node.kind) {
                Some(NodeKind::Edge | NodeKind::Peer) => None,
                Some(NodeKind::Core) => {
                    let d = table.document().error(node.span, "is a core router");
                    Some(d.hint("Traffic enters and leaves at edges and peers"))
                }
                None => {
                    let d = table.document().error(node.span, "is not a node of this file");
                    let known = nodes.keys().map(String::as_str);
                    Some(d.meant(did_you_mean(node.value, known)))
                }
            };
            error.into_iter().for_each(|d| table.diagnostics().push(d));
        }
        let device_prefix = table.integer("device_prefix", 0..=128);
        if let (Some(net), Some(length)) = (net, &device_prefix) {
            let range = i64::from(net.prefix_len())..=i64::from(net.max_prefix_len());
            if !range.contains(&length.value) {
                let d =
                    table.error("device_prefix", "is not between the network's length and a whole address");
                table.diagnostics().push(d.allowed(format!("{} to {}", range.start(), range.end())));
            }
        }
        if net.is_some_and(|net| !seen.insert(net)) {
            let d = table.error("prefix", "is of another network too");
            table.diagnostics().push(d);
        }
        if let Some(prefix) = net {
            let device_prefix = device_prefix.and_then(|length| u8::try_from(length.value).ok());
            all.push(Network { prefix, node: node.map(|node| node.value.to_owned()), device_prefix });
        }
        table.finish();
    }
    all
}

fn profiles(root: &mut TableReader<'_>, domain: &DomainFile) -> BTreeMap<String, QosProfile> {
    let tables = root.named_tables("qos_profile");
    limit(root, "qos_profile", tables.len(), MAX_PROFILES);
    let mut all = BTreeMap::new();
    for (name, mut table) in tables {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let is_name = (3..=256).contains(&name.value.len()) && name.value.bytes().all(legal);
        if !is_name && !name.value.is_empty() {
            let d = table.document().error(name.span, "is not a name of a profile");
            table.diagnostics().push(d.allowed("3 to 256 characters of A-Z a-z 0-9 _ . -"));
        }
        let profile = profile(&mut table, domain);
        all.insert(name.value.to_owned(), profile);
        table.finish();
    }
    all
}

fn profile(table: &mut TableReader<'_>, domain: &DomainFile) -> QosProfile {
    let description = table.text("description");
    if let Some(text) = &description {
        let is_control = |c: char| c.is_control() && !"\t\n\r".contains(c);
        if text.value.chars().count() > MAX_DESCRIPTION || text.value.contains(is_control) {
            let d = table.document().error(text.span, "is too long, or has control characters");
            table.diagnostics().push(d.allowed(format!("at most {MAX_DESCRIPTION} characters")));
        }
    }
    let class = table.required_text("class", "\"voice\"");
    if let Some(class) = &class {
        let links = &domain.topology.links;
        if !links.is_empty() && !links.values().any(|link| link.profile.classes.contains_key(class.value)) {
            let d = table.document().error(class.span, "is a class of no link of this file");
            let known = links.values().flat_map(|link| link.profile.classes.keys().map(String::as_str));
            table.diagnostics().push(d.meant(did_you_mean(class.value, known)));
        }
    }
    let mut rate = |key| table.value_in(key, Rate(1)..=Rate::MOST).map(|rate| rate.value.0);
    let (upstream_bps, downstream_bps) = (rate("upstream"), rate("downstream"));
    if !table.has("upstream") && !table.has("downstream") {
        table.require("upstream", "\"100 kbit/s\"");
    }
    let most = domain.settings.most_lifetime_ms * 1_000_000;
    let range = Duration::from_secs(1)..=Duration(most.max(SECOND));
    let mut seconds = |key, default: u64| {
        let given = table.value_in::<Duration>(key, range.clone()).map_or(default, |time| time.value.0);
        u32::try_from(given / SECOND).unwrap_or(u32::MAX).max(1)
    };
    let (min_duration_s, max_duration_s) = (seconds("min_duration", SECOND), seconds("max_duration", most));
    if min_duration_s > max_duration_s {
        let d = table.error("min_duration", "is above max_duration");
        table.diagnostics().push(d);
    }
    let status = table.choice("status", &STATUSES).map_or(ProfileStatus::Active, |status| status.value);
    let priority = table.integer("priority", 1..=100).and_then(|n| u8::try_from(n.value).ok());
    QosProfile {
        description: description.map(|text| text.value.to_owned()),
        status,
        class: class.map_or_else(String::new, |class| class.value.to_owned()),
        upstream_bps,
        downstream_bps,
        min_duration_s,
        max_duration_s,
        priority,
        devices: prefixes(table, "devices"),
    }
}

fn consumers(root: &mut TableReader<'_>, domain: &DomainFile) -> BTreeMap<String, Consumer> {
    let tables = root.tables("consumer");
    limit(root, "consumer", tables.len(), MAX_CONSUMERS);
    let mut all = BTreeMap::new();
    for mut table in tables {
        let client = table.required_text("client", "\"video-app\"");
        let known = || domain.topology.clients.iter().map(|row| row.name.as_str());
        if let Some(client) = &client
            && !known().any(|name| name == client.value)
        {
            let d = table.document().error(client.span, "is not a client of this file");
            table.diagnostics().push(d.meant(did_you_mean(client.value, known())));
        }
        let scopes = table.choices("scopes", &Scope::ALL).map(|scopes| scopes.value);
        let scopes = scopes.map(|scopes| scopes.into_iter().map(|scope| scope.value).collect());
        let device = table.value::<IpAddr>("device").map(|device| device.value);
        if let Some(client) = client
            && all.insert(client.value.to_owned(), Consumer { scopes, device }).is_some()
        {
            let d = table.document().error(client.span, "is in another [[consumer]] too");
            table.diagnostics().push(d);
        }
        table.finish();
    }
    all
}

fn sinks(root: &mut TableReader<'_>, folder: &Path) -> Sinks {
    let Some(mut table) = root.table("camara") else { return Sinks::default() };
    let sinks = Sinks {
        authority: table.text("sink_authority").map(|path| folder.join(path.value)),
        within: prefixes(&mut table, "sinks_within"),
        allow_http: table.boolean("allow_http_sinks").is_some_and(|allow| allow.value),
    };
    table.finish();
    sinks
}
