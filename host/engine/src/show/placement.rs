//! Where buckets of flows are, with adaptive placement.

use crate::report::Row;
use perhop_graph::router::BalanceReport;

/// Kind of the rows of packet threads.
pub(super) const WORKER: &str = "worker";

/// Adds to the driver's row what has gone from one packet thread to another. These never become less.
pub(super) fn add_moves(report: &BalanceReport, rows: &mut [Row]) {
    let Some(row) = rows.iter_mut().find(|row| row.kind == "driver") else { return };
    for (name, value) in [
        ("buckets_moved", report.moves),
        ("buckets_stayed", report.stayed),
        ("connections_moved", report.connections),
        ("placement_stops", report.stops),
    ] {
        row.counters.insert(name.to_owned(), value);
    }
}

/// A row for each packet thread, from 0, with its buckets and the packets that come for them now.
pub(super) fn add_workers(report: &BalanceReport, rows: &mut Vec<Row>) {
    rows.extend(report.workers.iter().enumerate().map(|(number, (buckets, packets))| {
        let mut row = Row::new(WORKER, &number.to_string());
        row.id = number as u64;
        row.counters.insert("buckets".to_owned(), u64::from(*buckets));
        row.counters.insert("packets_per_second".to_owned(), *packets);
        row
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_rows_of_their_own_and_moves_are_the_drivers() {
        let report = BalanceReport {
            workers: vec![(100, 7), (156, 9)],
            moves: 3,
            stayed: 1,
            stops: 2,
            connections: 40,
        };
        let mut rows = vec![Row::new("pool", "pool"), Row::new("driver", "driver")];
        add_moves(&report, &mut rows);
        add_workers(&report, &mut rows);
        let of = |row: &Row, counter: &str| row.counters.get(counter).copied();
        let moves = ["buckets_moved", "buckets_stayed", "connections_moved", "placement_stops"];
        assert_eq!(moves.map(|counter| of(&rows[1], counter)), [3, 1, 40, 2].map(Some));
        let workers: Vec<_> = rows[2..].iter().map(|r| (r.name.as_str(), of(r, "buckets"))).collect();
        assert_eq!(workers, [("0", Some(100)), ("1", Some(156))]);
    }
}
