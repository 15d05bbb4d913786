//! What a reader must know to trust the figures of a configuration.

use crate::recording::{ConnectionRecord, Recording};
use crate::segments::{MOST_SEGMENTS, ReadLog, SegmentLog};
use perhop_scenario::{FaultKind, NodeIndex, Scenario, TrafficKind};

/// Traffic whose delays are differences of two clocks that do not agree.
pub(crate) fn of_clocks(scenario: &Scenario) -> impl Iterator<Item = String> + '_ {
    let drifts = |node: NodeIndex| {
        let of_node = scenario.faults.iter().filter(move |fault| fault.node == node);
        of_node.filter_map(|fault| match fault.kind {
            FaultKind::ClockDrift { ppm } => Some((fault.at, ppm)),
            FaultKind::Stop | FaultKind::Restart => None,
        })
    };
    let name = |node: NodeIndex| scenario.nodes.get(node.0).map_or("?", |node| node.name.as_str());
    let connections = |kind: &TrafficKind| {
        matches!(kind, TrafficKind::Bulk { .. } | TrafficKind::Files { .. } | TrafficKind::Web { .. })
    };
    let datagrams = scenario.traffic.iter().filter(move |traffic| !connections(&traffic.kind));
    datagrams.flat_map(move |traffic| {
        let differ = traffic.pairs.iter().filter(move |(a, b)| !drifts(*a).eq(drifts(*b)));
        differ.map(move |(a, b)| {
            format!(
                "the clocks of {} and {} differ: delays of {} are what these clocks show, which may be negative",
                name(*a),
                name(*b),
                traffic.name
            )
        })
    })
}

/// What happened to traffic that its figures do not show: connections that failed or were not opened, copies of datagrams,
/// datagrams of nobody. `of` tells the configuration, if it is not the product's.
pub(crate) fn of_traffic(scenario: &Scenario, of: &str, recordings: &[Recording]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, traffic) in scenario.traffic.iter().enumerate() {
        let name = &traffic.name;
        let connections = || recordings.iter().flat_map(|r| &r.connections).filter(|c| c.of.traffic == index);
        let failed = connections().filter(|c| c.failed).count();
        if failed > 0 {
            warnings.push(format!("{failed} of {} connections of {name} failed{of}", connections().count()));
        }
        let cut = |c: &&ConnectionRecord| {
            c.reads.as_ref().is_some_and(ReadLog::is_cut)
                || c.segments.as_ref().is_some_and(SegmentLog::is_cut)
        };
        if connections().any(|c| cut(&c)) {
            warnings.push(format!(
                "connections of {name} had more than {MOST_SEGMENTS} segments{of}: the others are not followed"
            ));
        }
        let unopened: u64 = recordings.iter().filter_map(|r| r.unopened.get(&index)).sum();
        if unopened > 0 {
            warnings.push(format!(
                "{unopened} connections of {name} were not opened{of}: it had opened as many as one application may"
            ));
        }
        let streams = recordings.iter().flat_map(|r| &r.streams).filter(|s| s.of.traffic == index);
        let copies: u64 = streams.map(|s| s.duplicates).sum();
        if copies > 0 {
            warnings
                .push(format!("{copies} datagrams of {name} arrived more than once{of}; they count once"));
        }
    }
    let foreign: u64 = recordings.iter().map(|r| r.foreign).sum();
    if foreign > 0 {
        warnings.push(format!("{foreign} datagrams that arrived were no traffic's{of}"));
    }
    warnings
}
