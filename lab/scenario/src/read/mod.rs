//! Reading a scenario file.
//!
//! The text becomes a tree of values with places; variants and settings change copies of the tree by path; then each
//! copy is read and checked on its own, so that one reading serves the file, its variants and what the user sets.
//! Everything wrong in any of them is reported at once.

mod behind_routers;
mod check;
mod companions;
mod cx;
mod domains;
mod expect;
mod inside;
mod later_rates;
mod links;
mod nodes;
mod probes;
mod rest;
mod router_text;
mod tcp;
mod traffic;
mod traffic_kinds;

pub use companions::MAX_OPPORTUNITIES;
pub use cx::Companions;
pub use rest::{MAX_REPETITIONS, MAX_SEED};

use crate::model::{LinkIndex, NodeIndex, NodeKind, Scenario};
use cx::Cx;
use perhop_config::{Diagnostics, Document, FileKeys, Form, Location, Settings};
use perhop_units::{Duration, Rate};

/// Most variants of a file.
pub const MAX_VARIANTS: usize = 64;
/// What a diagnostic says about a path that leads nowhere.
pub const UNKNOWN_PATH: &str = "is not a path of this scenario";

/// Names and paths in a scenario file.
const FORM: Form = Form {
    named: &["node", "link", "traffic", "variants"],
    files: &[
        FileKeys { section: "node", keys: &["router", "config"], what: "a router file" },
        FileKeys { section: "node", keys: &["agent"], what: "an agent" },
    ],
    unknown_path: UNKNOWN_PATH,
};

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
    nodes: Vec<Location>,
    links: Vec<Location>,
    traffic: Vec<Location>,
    faults: Vec<Location>,
    programs: Vec<Location>,
    expect: Vec<Location>,
    /// Changes of links, with their times.
    changes: Vec<(Location, Duration)>,
    /// Rates that ends of links have later.
    rates: Vec<(Location, LinkIndex, usize, Rate)>,
    /// The end of the scenario could not be read, so nothing is behind it.
    endless: bool,
}

impl Scenario {
    /// Reads a scenario file. `origin` is the name that messages show, `companions` gives the bytes of files that it
    /// names (router files, traces, captures), relative to it. Without errors the scenario and its variants are there;
    /// there may be warnings. A path of `settings` that leads nowhere is an error with the message
    /// [`UNKNOWN_PATH`]. O(size of the file · variants) apart from the companions.
    pub fn read(
        origin: &str,
        text: &str,
        settings: &Settings,
        companions: &Companions<'_>,
    ) -> (Option<Loaded>, Diagnostics) {
        let (base, diagnostics) = Document::parse_form(&FORM, origin, text, settings);
        let document = base.configured(None, &diagnostics);
        let product_cx = Cx::new(&document, &diagnostics, companions);
        let names: Vec<String> = base.variants().into_iter().map(str::to_owned).collect();
        let (product, places) = scenario(&product_cx, &names);
        let mut seen = behind_routers::find(&product_cx, &product, &places);
        let mut variants = Vec::new();
        for name in names.iter().take(MAX_VARIANTS) {
            let document = base.configured(Some(name), &diagnostics);
            let cx = Cx::new(&document, &diagnostics, companions);
            let (scenario, places) = scenario(&cx, &names);
            seen.extend(behind_routers::find(&cx, &scenario, &places));
            variants.push((name.clone(), scenario));
        }
        behind_routers::report(seen, &diagnostics);
        expect::check(&product_cx, &product, &variants, &places);
        let loaded = (!diagnostics.has_errors()).then_some(Loaded { product, variants });
        (loaded, diagnostics)
    }
}

/// Reads and checks one configuration.
fn scenario(cx: &Cx<'_>, variants: &[String]) -> (Scenario, Places) {
    let mut root = cx.root();
    let mut places = Places::default();
    let head = rest::head(cx, &mut root);
    places.endless = head.wrong;
    let mut nodes = nodes::read(cx, &mut root, &mut places);
    let links = links::read(cx, &mut root, &nodes, &mut places);
    let traffic = traffic::read(cx, &mut root, &nodes, &head, &mut places);
    let faults = rest::faults(cx, &mut root, &nodes, &mut places);
    domains::followers(&mut nodes);
    let reservations = domains::reservations(cx, &mut root, &nodes, &traffic);
    let programs = rest::programs(cx, &mut root, &nodes, &mut places);
    let probes = probes::read(cx, &mut root, &links, &traffic, &head);
    let expect = expect::read(cx, &mut root, &mut places);
    rest::variants(cx, &mut root);
    root.finish();
    let is_ours = nodes.iter().any(|node| matches!(node.kind, NodeKind::Router(_)));
    let mut scenario = Scenario {
        id: head.id,
        label: head.label.or_else(|| (!is_ours).then(|| "network".to_owned())),
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
        reservations,
        probes,
        expect,
        variants: variants.to_vec(),
    };
    for node in 0..places.nodes.len() {
        router_text::complete(cx, &mut scenario, NodeIndex(node), &places);
    }
    domains::check(cx, &scenario, &places);
    check::all(cx, &scenario, &places);
    (scenario, places)
}
