//! What several packet threads count, as one router.

use super::Part;
use crate::report::{Recording, Row};
use perhop_abr::PolicyCounters;

/// One part of all: that of a single thread as it is. What threads share, each shows the same of; of the lateness of timers
/// and the length of slices the worst counts; everything else is added up.
pub(super) fn of_parts(parts: Vec<Part>) -> Part {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    for part in parts {
        all.at = all.at.max(part.at);
        add_rows(&mut all.rows, part.rows);
        add_rows(&mut all.raw.elements, part.raw.elements);
        all.raw.classes.extend(part.raw.classes);
        all.raw.profiles.extend(part.raw.profiles);
        all.raw.slas.extend(part.raw.slas);
        all.raw.realtime.extend(part.raw.realtime);
        all.raw.admission = all.raw.admission.or(part.raw.admission);
        all.flows.extend(part.flows);
        all.more |= part.more;
        for (id, more) in part.raw.abr.policies {
            match all.raw.abr.policies.iter_mut().find(|(known, _)| *known == id) {
                Some((_, sum)) => add_policy(sum, &more),
                None => all.raw.abr.policies.push((id, more)),
            }
        }
        all.raw.abr.flows.extend(part.raw.abr.flows);
    }
    all
}

/// Adds what another worker's flows of a policy have done; each has the same share.
fn add_policy(sum: &mut PolicyCounters, more: &PolicyCounters) {
    sum.flows += more.flows;
    sum.share_bps = sum.share_bps.max(more.share_bps);
    sum.packets += more.packets;
    sum.bytes += more.bytes;
    sum.rewritten += more.rewritten;
    sum.floor_limited += more.floor_limited;
}

/// Adds rows to those of the same kind and name.
pub(crate) fn add_rows(all: &mut Vec<Row>, more: Vec<Row>) {
    for row in more {
        let Some(sum) = all.iter_mut().find(|sum| sum.kind == row.kind && sum.name == row.name) else {
            all.push(row);
            continue;
        };
        if row.kind == "pool" {
            continue;
        }
        for (name, value) in row.counters {
            let sum = sum.counters.entry(name.clone()).or_default();
            let worst = name.starts_with("timer_late_") || name.ends_with("_max_ns");
            *sum = if worst { (*sum).max(value) } else { *sum + value };
        }
    }
}

/// The recordings of all threads as one: their queues are different ones.
pub(crate) fn of_recordings(recordings: impl IntoIterator<Item = Recording>) -> Option<Recording> {
    recordings.into_iter().reduce(|mut all, more| {
        all.start_ns = all.start_ns.min(more.start_ns);
        all.samples = all.samples.max(more.samples);
        all.lost += more.lost;
        all.series.extend(more.series);
        for (name, waits) in more.waits {
            all.waits.entry(name).or_default().extend(waits);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, name: &str, counters: &[(&str, u64)]) -> Row {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Row { counters, ..Row::new(kind, name) }
    }

    #[test]
    fn threads_are_added_up_and_what_they_share_is_not() {
        let mut all = vec![
            row("port", "lan", &[("rx_packets", 3)]),
            row("pool", "pool", &[("in_depot", 70)]),
            row("driver", "driver", &[("turns", 5), ("timer_late_max_ns", 40), ("survey_slice_max_ns", 1)]),
        ];
        let more = vec![
            row("port", "wan", &[("rx_packets", 4)]),
            row("pool", "pool", &[("in_depot", 70)]),
            row("driver", "driver", &[("turns", 6), ("timer_late_max_ns", 30), ("survey_slice_max_ns", 2)]),
        ];
        add_rows(&mut all, more);
        let driver =
            row("driver", "driver", &[("turns", 11), ("timer_late_max_ns", 40), ("survey_slice_max_ns", 2)]);
        assert_eq!(all[1..3], [row("pool", "pool", &[("in_depot", 70)]), driver]);
        assert_eq!((all.len(), all[3].name.as_str()), (4, "wan"));
    }
}
