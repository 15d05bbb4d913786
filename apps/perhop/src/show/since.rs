//! `--watch`: what was counted since the rows were shown last.

use perhop_model::{ShowPage, ShowRow};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What tells a row from all others of its page: kind, name, id, and of drops the reason.
type Which = (String, String, u64, String);

/// Counters as they were.
#[derive(Debug, Default)]
pub(super) struct Since {
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    epoch: u64,
    /// Whether there were no rows but these.
    whole: bool,
    rows: HashMap<Which, BTreeMap<String, u64>>,
}

impl Since {
    /// Puts in the place of each counter, from the second page on, what was added to it since the page before, as `+NAME`.
    /// Gauges stay as they are. A counter that went back has begun anew, as all have in another epoch: it shows what it has
    /// now, and so do those of a row that was not there. Where that is not known, because there were more rows than were
    /// given, they are left out.
    pub(super) fn apply(&mut self, page: &mut ShowPage) {
        let rows = page.rows.iter().map(|row| (which(row), row.counters.clone())).collect();
        let whole = !page.more && page.total <= page.rows.len();
        let now = Before { epoch: page.epoch, whole, rows };
        let Some(before) = self.before.replace(now) else { return };
        // One that is 0 everywhere keeps its name: it has no column.
        let counting = page.rows.iter().flat_map(|row| row.only_counters().filter(|(_, value)| **value > 0));
        let counting: BTreeSet<String> = counting.map(|(name, _)| name.clone()).collect();
        for row in &mut page.rows {
            let same = before.rows.get(&which(row)).filter(|_| before.epoch == page.epoch);
            let is_known = same.is_some() || before.whole || before.epoch != page.epoch;
            let added: Vec<(String, Option<u64>)> = row
                .only_counters()
                .filter(|(name, _)| counting.contains(*name))
                .map(|(name, now)| {
                    let then = same.and_then(|row| row.get(name)).copied().unwrap_or(0);
                    (name.clone(), is_known.then(|| now.checked_sub(then).unwrap_or(*now)))
                })
                .collect();
            for (name, added) in added {
                row.counters.remove(&name);
                row.counters.extend(added.map(|added| (format!("+{name}"), added)));
            }
        }
    }
}

fn which(row: &ShowRow) -> Which {
    let reason = row.facts.get("reason").filter(|_| row.kind == "drop");
    (row.kind.clone(), row.name.clone(), row.id, reason.cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, numbers: &[(&str, u64)]) -> ShowRow {
        let mut row = ShowRow::new("class", name);
        row.gauges = ["backlog", "rate_bps"].map(str::to_owned).into();
        row.counters = numbers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        row
    }

    /// What is shown of pages one after the other: of the last one, by row.
    fn last(pages: Vec<ShowPage>) -> Vec<String> {
        let mut since = Since::default();
        let mut rows = Vec::new();
        for mut page in pages {
            since.apply(&mut page);
            rows = page.rows;
        }
        let words =
            |row: ShowRow| row.counters.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
        rows.into_iter().map(words).collect()
    }

    fn page(epoch: u64, rows: Vec<ShowRow>) -> ShowPage {
        ShowPage { epoch, total: rows.len(), rows, ..ShowPage::default() }
    }

    #[test]
    fn counters_show_what_was_added_and_gauges_what_they_are() {
        let first = || page(1, vec![row("ef", &[("packets", 100), ("backlog", 7), ("dropped", 0)])]);
        assert_eq!(last(vec![first()]), ["backlog=7 dropped=0 packets=100"], "nothing is known of before");
        let ef = row("ef", &[("packets", 130), ("backlog", 5), ("dropped", 0)]);
        let new = row("be", &[("packets", 3), ("backlog", 1)]);
        let second = || page(1, vec![ef.clone(), new.clone()]);
        assert_eq!(
            last(vec![first(), second()]),
            ["+packets=30 backlog=5 dropped=0", "+packets=3 backlog=1"]
        );
        // What does not move keeps its column.
        assert_eq!(last(vec![first(), second(), second()])[0], "+packets=0 backlog=5 dropped=0");
    }

    #[test]
    fn a_counter_that_goes_back_shows_what_it_has() {
        let first = || page(1, vec![row("ef", &[("packets", 100), ("bytes", 10)])]);
        let back = page(1, vec![row("ef", &[("packets", 40), ("bytes", 15)])]);
        assert_eq!(last(vec![first(), back]), ["+bytes=5 +packets=40"]);
        // The router was started again, and is past what it had.
        let restarted = page(2, vec![row("ef", &[("packets", 140), ("bytes", 15)])]);
        assert_eq!(last(vec![first(), restarted]), ["+bytes=15 +packets=140"]);
    }

    #[test]
    fn of_a_row_that_was_left_out_before_nothing_is_made_up() {
        let first = ShowPage { total: 2, ..page(1, vec![row("a", &[("packets", 100)])]) };
        let second =
            page(1, vec![row("a", &[("packets", 101)]), row("b", &[("packets", 500), ("backlog", 2)])]);
        assert_eq!(last(vec![first, second]), ["+packets=1", "backlog=2"]);
    }

    #[test]
    fn drops_at_a_place_are_told_apart_by_reason() {
        let drop = |reason: &str, total| {
            let mut row = ShowRow { kind: "drop".to_owned(), ..row("wan/be", &[("total", total)]) };
            row.facts.insert("reason".to_owned(), reason.to_owned());
            row
        };
        let first = page(1, vec![drop("queue_full", 10), drop("early", 2)]);
        let second = page(1, vec![drop("early", 9), drop("queue_full", 11)]);
        assert_eq!(last(vec![first, second]), ["+total=7", "+total=1"]);
    }
}
