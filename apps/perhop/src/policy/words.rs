//! Editions, differences and routers in words and tables.

use crate::table::Table;
use perhop_policy::edition::{EditionRow, EditionState};
use perhop_serve::controller::{PolicyChange, PolicyDiff};
use perhop_serve::policy::Standing;
use perhop_units::Duration;
use serde_json::Value;

/// Time of the day and date of ms since 1970, UTC.
pub fn date(unix_ms: u64) -> String {
    // Civil date of a day number, by counting from the first of March of the year 0.
    let (day, second) = (unix_ms / 86_400_000, unix_ms / 1_000 % 86_400);
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (year_of_era + era * 400, month + 3),
        _ => (year_of_era + era * 400 + 1, month - 9),
    };
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Editions, the last first.
pub fn editions(rows: &[EditionRow], now_ms: u64) -> Table {
    let mut table = Table::new(["EDITION", "MADE", "BY", "STATE", "REASON"]);
    for row in rows {
        let state = match row.state {
            EditionState::Confirmed => "confirmed".to_owned(),
            EditionState::Reverted => "reverted".to_owned(),
            EditionState::ToConfirm => {
                let left = row.confirm_by_ms.unwrap_or(0).saturating_sub(now_ms);
                format!("returns in {}", Duration::from_secs(left / 1_000))
            }
        };
        let (made, by) = (date(row.at_ms), row.author.clone());
        table.row([row.n.to_string(), made, by, state, row.reason.clone()]);
    }
    table
}

/// What differs, a line each, and what that means to routers.
pub fn difference(diff: &PolicyDiff) -> String {
    let mut text = String::new();
    for PolicyChange { kind, name, change, fields } in &diff.changes {
        let sign = match change.as_str() {
            "new" => '+',
            "gone" => '-',
            _ => '~',
        };
        text.push_str(&format!("{sign} {kind} {name}\n"));
        for field in fields {
            let (before, after) = (value(&field.before), value(&field.after));
            text.push_str(&format!("    {}: {before} -> {after}\n", field.path));
        }
    }
    for (router, of) in &diff.routers {
        text.push_str(&format!("router {router}: {} objects put, {} gone\n", of.put, of.gone));
    }
    if text.is_empty() { "nothing differs\n".to_owned() } else { text }
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// How routers stand.
pub fn standings(rows: &[Standing]) -> Table {
    let head = ["ROUTER", "EDITION", "LAG", "STATE", "TOOK", "DRIFT", "REFUSED", "LAST ERROR"];
    let mut table = Table::new(head);
    for row in rows {
        let told = row.report.as_ref();
        let state = match (told, row.heard, row.converged) {
            (None, ..) => "no agent",
            (_, false, _) => "not heard",
            (_, true, true) if told.is_some_and(|told| told.quarantined > 0) => "refuses",
            (_, true, true) => "converged",
            (_, true, false) => "behind",
        };
        let number = |of: fn(&perhop_serve::policy::RouterReport) -> u64| {
            told.map_or("-".to_owned(), |told| of(told).to_string())
        };
        let error = told.and_then(|told| told.last_error.as_ref());
        table.row([
            row.router.clone(),
            number(|told| told.edition),
            row.lag.to_string(),
            state.to_owned(),
            row.converged_after_ms.map(|ms| Duration::from_millis(ms).to_string()).unwrap_or_default(),
            number(|told| told.drift),
            number(|told| told.quarantined),
            error
                .map(|error| format!("{}: {}: {}", error.code, error.path, error.message))
                .unwrap_or_default(),
        ]);
    }
    table
}

/// What a router refuses, a line each.
pub fn refused(row: &Standing) -> Vec<String> {
    let held = row.report.iter().flat_map(|report| &report.quarantine);
    held.map(|held| {
        let (code, message) = (held.error.code, &held.error.message);
        format!("{} refuses {} {}: {code}: {message}", row.router, held.kind, held.name)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_policy::diff::FieldChange;
    use perhop_serve::controller::RouterDiff;
    use serde_json::json;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // As `date -u -d @SECONDS` prints them.
        for (second, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (951_868_800, "2000-03-01 00:00:00Z"),
            (1_798_761_599, "2026-12-31 23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(date(second * 1_000 + 999), text);
        }
    }

    #[test]
    fn a_difference_says_what_is_new_gone_and_otherwise_and_what_routers_get() {
        let name = |text: &str| perhop_model::Name::new(text).expect("a name");
        let change = |kind: &str, of: &str, change: &str, fields: Vec<FieldChange>| PolicyChange {
            kind: kind.into(),
            name: name(of),
            change: change.into(),
            fields,
        };
        let fields = vec![FieldChange { path: "rate".into(), before: json!(1000), after: json!(2000) }];
        let diff = PolicyDiff {
            base: 3,
            changes: vec![
                change("sla", "gold", "changed", fields),
                change("subscriber", "ann", "new", Vec::new()),
                change("subscriber", "bob", "gone", Vec::new()),
            ],
            routers: [("west".to_owned(), RouterDiff { put: 3, gone: 1 })].into(),
        };
        let expected = "~ sla gold\n    rate: 1000 -> 2000\n+ subscriber ann\n- subscriber bob\n\
                        router west: 3 objects put, 1 gone\n";
        assert_eq!(difference(&diff), expected);
    }
}
