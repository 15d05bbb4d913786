//! Reading a scenario file.
//!
//! The text becomes a tree of values with places; variants and settings change copies of the tree by path; then each
//! copy is read and checked on its own, so that one reading serves the file, its variants and what the user sets.
//! Everything wrong in any of them is reported at once.

mod behind_routers;
mod check;
mod companions;
mod cx;
mod expect;
mod inside;
mod later_rates;
mod lines;
mod links;
mod nodes;
mod overrides;
mod probes;
mod rest;
mod router_text;
mod table;
mod tcp;
mod traffic;
mod traffic_kinds;
mod tree;

pub use companions::MAX_OPPORTUNITIES;
pub use cx::Companions;
pub use rest::{MAX_REPETITIONS, MAX_SEED};

use crate::model::{LinkIndex, NodeIndex, Scenario};
use crate::settings::Settings;
use cx::Cx;
use overrides::Scope;
use perhop_config::{Diagnostics, Document};
use perhop_units::{Duration, Rate};
use table::Table;
use toml::de::DeTable;
use tree::{Id, ROOT, Tree};

/// Most variants of a file.
pub const MAX_VARIANTS: usize = 64;
/// A file with errors of form and more brackets than this is only checked for its form: nobody has looked at their depth.
const MAX_BRACKETS: usize = 400;

/// A file without errors: the product's configuration and the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The file as it stands, with the settings.
    pub product: Scenario,
    /// Variants by name, in the order of the file.
    pub variants: Vec<(String, Scenario)>,
}

/// Nodes of the tree that parts of a scenario were read from, for checks that need the whole.
#[derive(Debug, Default)]
pub(super) struct Places {
    nodes: Vec<Id>,
    links: Vec<Id>,
    traffic: Vec<Id>,
    faults: Vec<Id>,
    programs: Vec<Id>,
    expect: Vec<Id>,
    /// Changes of links, with their times.
    changes: Vec<(Id, Duration)>,
    /// Rates that ends of links have later.
    rates: Vec<(Id, LinkIndex, usize, Rate)>,
    /// The end of the scenario could not be read, so nothing is behind it.
    endless: bool,
}

impl Scenario {
    /// Reads a scenario file. `origin` is the name that messages show, `companions` gives the bytes of files that it
    /// names (router files, traces, captures), relative to it. Without errors the scenario and its variants are there;
    /// there may be warnings. A path of `settings` that leads nowhere is an error with the message
    /// [`UNKNOWN_PATH`](crate::UNKNOWN_PATH). O(size of the file · variants) apart from the companions.
    pub fn read(
        origin: &str,
        text: &str,
        settings: &Settings,
        companions: &Companions<'_>,
    ) -> (Option<Loaded>, Diagnostics) {
        let (document, diagnostics) = Document::parse(origin, text);
        let damaged = diagnostics.has_errors();
        if damaged && (overrides::brackets(text) > MAX_BRACKETS || text.len() > perhop_config::MAX_FILE_BYTES)
        {
            return (None, diagnostics);
        }
        drop(document);
        let (table, _) = DeTable::parse_recoverable(text);
        let base = Tree::new(text, table.into_inner());
        let mut tree = base.clone();
        overrides::settings(&mut tree, settings, Scope::Product, &diagnostics);
        let product_cx = Cx::new(origin, &tree, &diagnostics, companions, damaged);
        let names: Vec<String> = overrides::variants(&base).into_iter().map(str::to_owned).collect();
        let product = scenario(&product_cx, &names);
        let mut variants = Vec::new();
        let mut seen = Vec::new();
        if let Some((product, places)) = &product {
            seen.extend(behind_routers::find(&product_cx, product, places));
        }
        for name in names.iter().take(MAX_VARIANTS) {
            let mut tree = base.clone();
            overrides::variant(&mut tree, name, &product_cx);
            overrides::settings(&mut tree, settings, Scope::Variant(name), &diagnostics);
            overrides::settings(&mut tree, settings, Scope::Only(name), &diagnostics);
            let cx = Cx { variant: Some(name), ..Cx::new(origin, &tree, &diagnostics, companions, damaged) };
            if let Some((scenario, places)) = scenario(&cx, &names) {
                seen.extend(behind_routers::find(&cx, &scenario, &places));
                variants.push((name.clone(), scenario));
            }
        }
        behind_routers::report(seen, &diagnostics);
        if let Some((product, places)) = &product {
            expect::check(&product_cx, product, &variants, places);
        }
        match product {
            Some((product, _)) if !diagnostics.has_errors() => {
                (Some(Loaded { product, variants }), diagnostics)
            }
            _ => (None, diagnostics),
        }
    }
}

/// Reads one configuration; `None` if there is nothing to check.
fn scenario(cx: &Cx<'_>, variants: &[String]) -> Option<(Scenario, Places)> {
    let mut root = Table::new(cx, ROOT);
    let mut places = Places::default();
    let head = rest::head(&mut root);
    places.endless = head.wrong;
    let nodes = nodes::read(&mut root, &mut places);
    let links = links::read(&mut root, &nodes, &mut places);
    let traffic = traffic::read(&mut root, &nodes, &head, &mut places);
    let faults = rest::faults(&mut root, &nodes, &mut places);
    let programs = rest::programs(&mut root, &nodes, &mut places);
    let probes = probes::read(&mut root, &links, &traffic, &head);
    let expect = expect::read(&mut root, &mut places);
    rest::variants(&mut root);
    root.finish();
    let mut scenario = Scenario {
        id: head.id,
        title: head.title,
        why: head.why,
        source: head.source,
        warm_up: head.warm_up,
        duration: head.duration,
        repetitions: head.repetitions,
        seed: head.seed,
        nodes,
        links,
        traffic,
        faults,
        programs,
        probes,
        expect,
        variants: variants.to_vec(),
    };
    for node in 0..places.nodes.len() {
        router_text::complete(cx, &mut scenario, NodeIndex(node), &places);
    }
    check::all(cx, &scenario, &places);
    Some((scenario, places))
}
