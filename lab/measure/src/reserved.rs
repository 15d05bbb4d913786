//! Reservations and controllers, over all repetitions.

use crate::recording::Recording;
use perhop_report::result::ReservedResult;

/// One row an entry, in the order of the first repetition; means over the repetitions.
pub fn reserved(recordings: &[Recording]) -> Vec<ReservedResult> {
    let Some(first) = recordings.first() else { return Vec::new() };
    let rows = first.reserved.iter().enumerate().map(|(i, record)| {
        let figures = record.figures.iter().enumerate().map(|(f, (name, _))| {
            let counts = recordings.iter().filter_map(|r| Some(r.reserved.get(i)?.figures.get(f)?.1 as f64));
            ((*name).to_owned(), counts.sum::<f64>() / recordings.len() as f64)
        });
        ReservedResult { of: record.of.clone(), figures: figures.collect() }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::ReservedRecord;

    #[test]
    fn counts_are_means_over_repetitions() {
        let repetition = |granted, refused| Recording {
            reserved: vec![ReservedRecord {
                of: "reservation.calls".into(),
                figures: vec![("granted", granted), ("refused", refused)],
                said: Vec::new(),
            }],
            ..Recording::default()
        };
        let rows = reserved(&[repetition(4, 0), repetition(2, 1)]);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].figures["granted"], rows[0].figures["refused"]), (3.0, 0.5));
    }
}
