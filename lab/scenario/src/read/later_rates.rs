//! Rates that links have later, against what routers guarantee on them.

use super::Places;
use super::cx::Cx;
use crate::model::{LinkIndex, NodeIndex, NodeKind, Scenario};
use crate::router_objects::read_on_links;
use perhop_model::ClassSpec;
use perhop_routerfile::RouterFile;
use perhop_units::{Rate, Share};

/// A guarantee that is scaled down by more than this part of a million is told; below it is rounding.
const LEAST_PPM: u64 = 10;

/// Warns of changes below what a router guarantees on the link, and reports those with which its file would not be
/// accepted. `file` is the router's at the rates of the start. O(changes at the node · size of the file).
pub(super) fn check(
    cx: &Cx<'_>,
    scenario: &Scenario,
    node: NodeIndex,
    file: &RouterFile,
    places: &Places,
    wrong: impl Fn(LinkIndex) -> bool,
) {
    let NodeKind::Router(config) = &scenario.nodes[node.0].kind else { return };
    let name = &scenario.nodes[node.0].name;
    for &(at, link, end, rate) in &places.rates {
        let described = &scenario.links[link.0];
        let lower = described.ways[end].rate.is_some_and(|first| rate < first);
        if described.ends[end] != node || !lower || wrong(link) {
            continue;
        }
        let (then, diagnostics) =
            read_on_links(scenario, node, (&config.origin, &config.text), &wrong, Some((link, end, rate)));
        let Some(then) = then else {
            let first =
                diagnostics.sorted().into_iter().find(|d| d.severity == perhop_config::Severity::Error);
            let why = first.map_or(String::new(), |d| format!(": {} {} {}", d.subject, d.key, d.message));
            let message = format!("is a rate that the file of router \"{name}\" does not fit{why}");
            cx.push(cx.error(at, message).hint("Write that value so that it fits both rates"));
            continue;
        };
        let scaled = scaled_down(file, &then);
        if !scaled.is_empty() {
            let message = format!("is below what router \"{name}\" guarantees on this link");
            let hint = "while the link is this slow, the router scales guarantees down in proportion";
            cx.push(cx.warning(at, message).hint(format!("{hint}: {}", scaled.join(", "))));
        }
    }
}

/// Classes that have less of an absolute guarantee than before, with what is left.
fn scaled_down(before: &RouterFile, then: &RouterFile) -> Vec<String> {
    let absolute = |class: &ClassSpec| match class.guarantee {
        Share::Rate(rate) => rate,
        Share::Ppm(_) => Rate::ZERO,
    };
    let pairs = before.classes().zip(then.classes()).filter_map(|((name, first), (_, later))| {
        let (first, later) = (absolute(first), absolute(later));
        let less = u128::from(first.saturating_sub(later).0) * 1_000_000;
        (less > u128::from(first.0 * LEAST_PPM)).then(|| format!("\"{name}\" to {later}"))
    });
    pairs.collect()
}
