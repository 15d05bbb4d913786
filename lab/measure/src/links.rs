//! Links of a result: the first direction of each, over all repetitions, and the other where packets were lost.

use crate::recording::Recording;
use perhop_quality::Distribution;
use perhop_report::result::{LinkResult, QueueMs};
use perhop_scenario::Scenario;
use std::collections::BTreeMap;

/// What follows the name of a link in that of its second direction.
const REVERSE: &str = ".reverse";

/// First directions that have a limit, and all in which packets were lost.
pub fn links(scenario: &Scenario, recordings: &[Recording]) -> Vec<LinkResult> {
    let mut links = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for (number, way) in link.ways.iter().enumerate() {
            let records = || {
                recordings.iter().flat_map(move |recording| {
                    let records = recording.links.iter().filter(move |r| r.link == index && r.way == number);
                    records.map(move |record| (recording.window.1.since(recording.window.0), record))
                })
            };
            let mut drops: BTreeMap<String, u64> = BTreeMap::new();
            for (_, record) in records() {
                for (reason, count) in &record.drops {
                    *drops.entry(reason.clone()).or_default() += count;
                }
            }
            let limited = way.rate.is_some() || way.trace.is_some();
            if drops.is_empty() && (number > 0 || !limited) {
                continue;
            }
            let window: f64 = records().map(|(window, _)| window.as_secs_f64()).sum();
            let busy: f64 = records().map(|(_, record)| record.busy.as_secs_f64()).sum();
            let waits: Vec<u64> = records().flat_map(|(_, record)| record.waits_ns.iter().copied()).collect();
            let waits = Distribution::from_nanos(waits);
            let queue_ms = waits.percentile_ms(50.0).zip(waits.percentile_ms(99.0)).zip(waits.max_ms());
            links.push(LinkResult {
                name: format!("{}{}", link.name, if number > 0 { REVERSE } else { "" }),
                utilisation_pct: (window > 0.0 && way.rate.is_some()).then(|| busy / window * 100.0),
                drops,
                queue_ms: queue_ms.map(|((p50, p99), max)| QueueMs { p50, p99, max }),
            });
        }
    }
    links
}
