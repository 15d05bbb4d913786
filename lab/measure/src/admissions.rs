//! Routers that admit recognised flows one by one, over all repetitions.

use crate::recording::{AdmissionRecord, Recording};
use perhop_report::result::AdmissionResult;

/// One row a router, in the order of the first repetition; means over the repetitions in which there is something to
/// divide by.
pub fn admissions(recordings: &[Recording]) -> Vec<AdmissionResult> {
    let Some(first) = recordings.first() else { return Vec::new() };
    let row = |i: usize, record: &AdmissionRecord| {
        let mean = |value: fn(&AdmissionRecord) -> Option<f64>| {
            let records = recordings.iter().filter_map(|recording| recording.admissions.get(i));
            let values: Vec<f64> = records.filter_map(value).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        AdmissionResult {
            node: record.node.clone(),
            offered: mean(|r| Some(r.offered as f64)),
            refused_pct: mean(|r| per_cent(r.refused, r.offered)),
            dropped_pct: mean(|r| per_cent(r.dropped, r.admitted)),
            dropped_of_offered_pct: mean(|r| per_cent(r.dropped, r.offered)),
            over_cap_pct: mean(|r| per_cent(r.intervals_over_cap, r.intervals)),
        }
    };
    first.admissions.iter().enumerate().map(|(i, record)| row(i, record)).collect()
}

fn per_cent(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_means_over_repetitions_that_have_them() {
        let repetition = |offered, refused, dropped, over| Recording {
            admissions: vec![AdmissionRecord {
                node: "edge".into(),
                offered,
                admitted: offered - refused,
                refused,
                dropped,
                intervals: 50,
                intervals_over_cap: over,
            }],
            ..Recording::default()
        };
        let rows = admissions(&[repetition(10, 2, 2, 1), repetition(20, 20, 0, 0), repetition(0, 0, 0, 0)]);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.node.as_str(), row.offered), ("edge", Some(10.0)));
        assert_eq!(row.refused_pct, Some(60.0));
        // Of 8 admitted, and of none.
        assert_eq!(row.dropped_pct, Some(25.0));
        assert_eq!(row.dropped_of_offered_pct, Some(10.0));
        assert!((row.over_cap_pct.expect("there are intervals") - 2.0 / 3.0).abs() < 1e-12);
    }
}
