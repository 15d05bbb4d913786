//! Classes that agents look after, over all repetitions.

use crate::recording::{AgentRecord, Recording};
use perhop_report::details::{AgentCounts, AgentFigures, AllocationTrace};
use perhop_report::result::AgentResult;
use perhop_units::Instant;

/// One row a class, in the order of the first repetition.
pub fn agents(recordings: &[Recording]) -> Vec<AgentResult> {
    let Some(first) = recordings.first() else { return Vec::new() };
    let row = |i: usize, record: &AgentRecord| {
        let records = || {
            let of_class = recordings.iter().filter_map(move |recording| {
                let window_s = recording.window.1.since(recording.window.0).as_secs_f64();
                Some((window_s, recording.agents.get(i)?))
            });
            of_class.filter(|(window_s, _)| *window_s > 0.0)
        };
        let mean = |value: fn(f64, &AgentRecord) -> Option<f64>| {
            let values: Vec<f64> =
                records().filter_map(|(window_s, record)| value(window_s, record)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        AgentResult {
            class: record.class.clone(),
            allocated_kbps: mean(|window_s, r| {
                let efficiency = r.after.efficiency.since(&r.before.efficiency);
                Some(efficiency.allocated_nanobits as f64 / 1e9 / window_s / 1e3)
            }),
            efficiency_pct: mean(|_, r| {
                r.after.efficiency.since(&r.before.efficiency).carried().map(|share| share * 100.0)
            }),
            estimate_pct: mean(|_, r| {
                r.after.efficiency.since(&r.before.efficiency).estimated().map(|share| share * 100.0)
            }),
            requests_per_s: mean(|window_s, r| Some((r.after.asked - r.before.asked) as f64 / window_s)),
            not_granted_pct: mean(|_, r| {
                let ended = r.after.answered() - r.before.answered();
                let granted = r.after.granted - r.before.granted;
                (ended > 0).then(|| ended.saturating_sub(granted) as f64 / ended as f64 * 100.0)
            }),
            congested_pct: mean(|window_s, r| {
                let congested = r.after.congested.as_secs_f64() - r.before.congested.as_secs_f64();
                Some(congested / window_s * 100.0)
            }),
            exceeded_pct: mean(|_, r| {
                let closed = r.after.intervals - r.before.intervals;
                let above = r.after.intervals_above - r.before.intervals_above;
                (closed > 0).then(|| above as f64 / closed as f64 * 100.0)
            }),
        }
    };
    first.agents.iter().enumerate().map(|(i, record)| row(i, record)).collect()
}

/// The same with what was counted, of all repetitions together (`None`) or of one.
pub(crate) fn figures(repetition: Option<u32>, recordings: &[Recording]) -> Vec<AgentFigures> {
    let with_counts = |(i, result): (usize, AgentResult)| {
        let mut counts = AgentCounts::default();
        for record in recordings.iter().filter_map(|recording| recording.agents.get(i)) {
            counts.add(&counted(record));
        }
        AgentFigures { repetition, result, counts }
    };
    agents(recordings).into_iter().enumerate().map(with_counts).collect()
}

fn counted(record: &AgentRecord) -> AgentCounts {
    let (before, after) = (&record.before, &record.after);
    AgentCounts {
        increases: after.increases - before.increases,
        decreases: after.decreases - before.decreases,
        asked: after.asked - before.asked,
        granted: after.granted - before.granted,
        partial: after.partial - before.partial,
        // Also what the broker granted and the router did not take.
        refused: (after.refused + after.withdrawn) - (before.refused + before.withdrawn),
        timed_out: after.timed_out - before.timed_out,
    }
}

/// What every class had over time in one repetition, up to the end of its window, and behind the classes what every
/// policy of the rate control had, as `abr_policy/NAME`.
pub(crate) fn allocations(repetition: u32, recording: &Recording) -> Vec<AllocationTrace> {
    let trace = |class: String, rates: &[(Instant, u64)]| {
        let inside = rates.iter().filter(|(at, _)| *at <= recording.window.1);
        let steps = inside.map(|(at, rate)| (at.as_nanos() as f64 / 1e9, *rate as f64 / 1e3));
        AllocationTrace { class, repetition, steps: steps.collect() }
    };
    let classes = recording.agents.iter().map(|record| trace(record.class.clone(), &record.allocations));
    let policies = recording.assignments.iter();
    let policies = policies.map(|record| trace(format!("abr_policy/{}", record.policy), &record.rates));
    classes.chain(policies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::AssignmentRecord;

    #[test]
    fn the_rates_of_policies_stand_among_the_allocations_up_to_the_end_of_the_window() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let rates = vec![(second(0), 512_000), (second(4), 1_536_000), (second(11), 1_000)];
        let recording = Recording {
            window: (second(1), second(10)),
            assignments: vec![AssignmentRecord { policy: "gold".to_owned(), rates }],
            ..Recording::default()
        };
        let traces = allocations(2, &recording);
        let expected = AllocationTrace {
            class: "abr_policy/gold".to_owned(),
            repetition: 2,
            steps: vec![(0.0, 512.0), (4.0, 1_536.0)],
        };
        assert_eq!(format!("{traces:?}"), format!("{:?}", [expected]));
    }
}
