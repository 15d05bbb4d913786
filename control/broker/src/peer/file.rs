//! `[[peer]]` of a domain's file: which domains are reached by way of a neighbour, and how its leases are used.

use crate::lease::{self, ClassSettings};
use crate::record::NodeKind;
use crate::topology::Topology;
use perhop_config::{Spanned, TableReader};
use perhop_units::{Duration, Rate};
use std::collections::{BTreeMap, BTreeSet};

/// Most neighbouring domains, and domains behind one.
const MOST: usize = 256;

/// A neighbouring domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFile {
    /// Its name, which is that of its node.
    pub name: String,
    /// Domains that are reached by way of it.
    pub behind: Vec<String>,
    /// How what it lets this domain have is used.
    pub leases: lease::Settings,
}

/// Reads the tables `peer` of the file of domain `own`, whose topology is read already. `more` reads other keys of each. What it
/// returns means something only if there are no errors.
pub fn read_peers<T>(
    root: &mut TableReader<'_>,
    topology: &Topology,
    own: &str,
    mut more: impl FnMut(&mut TableReader<'_>) -> Option<T>,
) -> Vec<(PeerFile, T)> {
    let tables = root.named_tables("peer");
    if tables.len() > MOST {
        let error = root.error("peer", format!("has {} domains", tables.len()));
        root.diagnostics().push(error.allowed(format!("at most {MOST}")));
    }
    let mut reached = BTreeMap::from([(own.to_owned(), "this domain itself".to_owned())]);
    let mut peers = Vec::new();
    for (name, mut table) in tables.into_iter().take(MOST) {
        check_name(&table, &name, topology, &mut reached);
        let more = more(&mut table);
        let behind = behind(name.value, &mut table, &mut reached);
        let leases = leases(name.value, &mut table, topology);
        if let (Some(more), Some(leases)) = (more, leases) {
            peers.push((PeerFile { name: name.value.to_owned(), behind, leases }, more));
        }
        table.finish();
    }
    peers
}

fn check_name(
    table: &TableReader<'_>,
    name: &Spanned<&str>,
    topology: &Topology,
    reached: &mut BTreeMap<String, String>,
) {
    let complain = |what: String, hint: String| {
        table.diagnostics().push(table.document().error(name.span, what).hint(hint));
    };
    let name = name.value;
    if topology.nodes.get(name).is_none_or(|node| node.kind != NodeKind::Peer) {
        let what = "is not a neighbouring domain of this file".to_owned();
        complain(what, format!("Write [[node]] with name = \"{name}\" and kind = \"peer\""));
    }
    let own = format!("[[peer]] {name}");
    // That it is there twice is said already.
    if let Some(before) = reached.insert(name.to_owned(), own.clone()).filter(|before| *before != own) {
        complain(format!("is {before} already"), "Each domain is reached in one way".to_owned());
    }
}

fn behind(name: &str, table: &mut TableReader<'_>, reached: &mut BTreeMap<String, String>) -> Vec<String> {
    let mut behind = Vec::new();
    for domain in table.texts("behind").map(|behind| behind.value).unwrap_or_default().into_iter().take(MOST)
    {
        let way = format!("behind [[peer]] {name}");
        if let Some(before) = reached.insert(domain.value.to_owned(), way) {
            let error = table.document().error(domain.span, format!("is {before} already"));
            table.diagnostics().push(error.hint("Each domain is reached in one way"));
        }
        behind.push(domain.value.to_owned());
    }
    behind
}

fn leases(name: &str, table: &mut TableReader<'_>, topology: &Topology) -> Option<lease::Settings> {
    let default = ClassSettings::default();
    let mut rate = |key, least| table.value_in(key, Rate(least)..=Rate::MOST).map(|rate| rate.value.0);
    let chunk = rate("chunk", 1).unwrap_or(default.chunk);
    let low_water = rate("low_water", 0).unwrap_or(chunk);
    let high_water = rate("high_water", 1);
    let at_least = chunk.max(low_water);
    let high_water = high_water.unwrap_or(at_least.saturating_mul(2).min(Rate::MOST.0));
    if high_water < at_least {
        let key = if table.has("high_water") { "high_water" } else { "low_water" };
        let error = table.error(key, "leaves less than what was just asked for, or than is kept");
        let hint = format!("high_water is at least chunk and low_water: {}", Rate(at_least));
        table.diagnostics().push(error.hint(hint));
        return None;
    }
    let mut time =
        |key, least, most| table.value_in(key, least..=most).map(|time: Spanned<Duration>| time.value);
    let lifetime = time("lifetime", Duration::from_secs(1), Duration::from_secs(3_600));
    let lifetime = lifetime.unwrap_or(Duration::from_secs(60));
    let patience = time("patience", Duration::from_millis(100), Duration::from_secs(60));
    // What goes there and what comes from there.
    let concerns = |from: &str, to: &str| from == name || to == name;
    let links = topology.links.iter().filter(|((from, _), link)| concerns(from, &link.to));
    let classes: BTreeSet<&String> = links.flat_map(|(_, link)| link.profile.classes.keys()).collect();
    let class = ClassSettings { chunk, high_water, low_water, ..default };
    let mut leases = lease::Settings::new(classes.into_iter().map(|name| (name.clone(), class)).collect());
    (leases.lifetime, leases.margin) = (lifetime, Duration(lifetime.0 / 8).min(leases.margin));
    leases.patience = patience.unwrap_or(Duration::from_secs(2));
    Some(leases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use perhop_config::Document;

    fn read_text(text: &str) -> (Vec<PeerFile>, Vec<String>) {
        let (document, diagnostics) = Document::parse("d.toml", text);
        let mut root = document.root(&diagnostics);
        let domain = topology::read(&mut root);
        let peers = read_peers(&mut root, &domain.topology, "north", |_| Some(()));
        root.finish();
        let errors = diagnostics.sorted().iter().map(ToString::to_string).collect();
        (peers.into_iter().map(|(peer, ())| peer).collect(), errors)
    }

    const DOMAIN: &str = "[[node]]\nname = \"a\"\nkind = \"edge\"\n[[node]]\nname = \"south\"\nkind = \"peer\"\n\
        [[link]]\nfrom = \"a\"\nport = \"wan\"\nto = \"south\"\nrate = \"10 Mbit/s\"\nclasses = { voice = \"30 %\" }\n";
    const PEER: &str = "[[peer]]\nname = \"south\"\n";

    #[test]
    fn a_neighbour_is_read_with_what_is_behind_it_and_how_it_is_used() {
        let text = format!("{DOMAIN}{PEER}behind = [\"far\"]\nchunk = \"500 kbit/s\"\nlifetime = \"8 s\"\n");
        let (peers, errors) = read_text(&text);
        assert_eq!(errors, Vec::<String>::new());
        let peer = &peers[0];
        assert_eq!(peer.behind, ["far"]);
        let class = peer.leases.classes["voice"];
        assert_eq!((class.chunk, class.low_water, class.high_water), (500_000, 500_000, 1_000_000));
        assert_eq!(peer.leases.margin, Duration::from_secs(1));
        assert_eq!(peer.leases.check(), Ok(()));
    }

    #[test]
    fn what_is_wrong_with_a_neighbour_is_said_with_its_place() {
        for (text, what) in [
            (format!("{DOMAIN}{}", PEER.replace("south", "a")), ":14:8: "),
            (format!("{DOMAIN}{PEER}behind = [\"north\"]\n"), "is this domain itself already"),
            (format!("{DOMAIN}{PEER}behind = [\"x\", \"x\"]\n"), "is behind [[peer]] south already"),
            (format!("{DOMAIN}{PEER}chunk = \"3 Mbit/s\"\nhigh_water = \"2 Mbit/s\"\n"), "high_water"),
            (format!("{DOMAIN}{PEER}lifetime = \"1 ms\"\n"), "lifetime"),
            (format!("{DOMAIN}{PEER}chunks = 1\n"), "chunks"),
            (format!("{DOMAIN}{PEER}{PEER}"), "the name of another peer"),
        ] {
            let (_, errors) = read_text(&text);
            assert!(errors.len() == 1 && errors[0].contains(what), "{what}: {errors:?}");
        }
    }
}
