//! Which rows are shown, and in what order: `--filter` and `--sort`.

use super::rows::{fact_as_text, ns};
use crate::error::AppError;
use perhop_model::{ShowPage, ShowRow};
use perhop_units::{Duration, Rate};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::str::FromStr;
use thiserror::Error;

/// Why an argument is no filter or order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum BadSelection {
    #[error("{0:?} is none of COLUMN=TEXT, COLUMN~TEXT, COLUMN>NUMBER and COLUMN<NUMBER")]
    Uncompared(String),
    #[error("{0:?} is no number, rate or time; COLUMN=TEXT and COLUMN~TEXT compare text")]
    NotANumber(String),
    #[error("it has no column")]
    Nameless,
}

/// What a cell must be.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    Is(String),
    Holds(String),
    Above(f64),
    Below(f64),
}

/// `COLUMN=TEXT`: the text is that, `COLUMN~TEXT`: it holds that, in letters of any case; `COLUMN>NUMBER` and `COLUMN<NUMBER`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    column: String,
    test: Test,
}

impl FromStr for Filter {
    type Err = BadSelection;

    fn from_str(text: &str) -> Result<Self, BadSelection> {
        let at = text.find(['=', '~', '>', '<']).ok_or_else(|| BadSelection::Uncompared(text.to_owned()))?;
        let (column, rest) = text.split_at(at);
        let (sign, value) = rest.split_at(1);
        let value = value.trim();
        let a_number = || number(value).ok_or_else(|| BadSelection::NotANumber(value.to_owned()));
        let test = match sign {
            "=" => Test::Is(value.to_owned()),
            "~" => Test::Holds(value.to_lowercase()),
            ">" => Test::Above(a_number()?),
            _ => Test::Below(a_number()?),
        };
        Ok(Self { column: column_name(column)?, test })
    }
}

impl Filter {
    fn takes(&self, row: &ShowRow) -> bool {
        let Some(cell) = Cell::of(row, &self.column) else { return false };
        match &self.test {
            Test::Is(text) => cell.text.eq_ignore_ascii_case(text),
            Test::Holds(text) => cell.text.to_lowercase().contains(text),
            Test::Above(limit) => cell.number.is_some_and(|number| number > *limit),
            Test::Below(limit) => cell.number.is_some_and(|number| number < *limit),
        }
    }
}

/// `COLUMN`: lowest first, or `-COLUMN`: highest first; numbers before text. Rows without it come last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    column: String,
    descending: bool,
}

impl FromStr for Order {
    type Err = BadSelection;

    fn from_str(text: &str) -> Result<Self, BadSelection> {
        let column = text.strip_prefix('-');
        let descending = column.is_some();
        Ok(Self { column: column_name(column.unwrap_or(text))?, descending })
    }
}

impl Order {
    fn compare(&self, a: Option<&Cell>, b: Option<&Cell>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => {
                let order = match (a.number, b.number) {
                    (Some(a), Some(b)) => a.total_cmp(&b),
                    (None, None) => a.text.cmp(&b.text),
                    (a, b) => b.is_some().cmp(&a.is_some()),
                };
                if self.descending { order.reverse() } else { order }
            }
            _ => b.is_some().cmp(&a.is_some()),
        }
    }
}

/// A column as it stands over a table, or in JSON.
fn column_name(text: &str) -> Result<String, BadSelection> {
    let name = text.trim().trim_start_matches('+').to_lowercase();
    if name.is_empty() { Err(BadSelection::Nameless) } else { Ok(name) }
}

/// Of a number with or without the unit of a rate or time: itself, bit/s, ns.
fn number(text: &str) -> Option<f64> {
    let rate = || text.parse().ok().map(|rate: Rate| rate.0 as f64);
    let time = || text.parse().ok().map(|time: Duration| time.0 as f64);
    // Words such as "inf" are none here.
    let plain = || text.parse().ok().filter(|_| text.ends_with(|c: char| c.is_ascii_digit()));
    plain().or_else(rate).or_else(time)
}

/// What stands in one place of a table.
struct Cell {
    text: String,
    number: Option<f64>,
}

impl Cell {
    fn of(row: &ShowRow, column: &str) -> Option<Self> {
        let text = |text: String| Self { number: number(&text), text };
        match column {
            "kind" => return Some(text(row.kind.clone())),
            "name" => return Some(text(row.name.clone())),
            "owner" => return Some(text(row.owner.clone())),
            "id" => return Some(text(row.id.to_string())),
            _ => {}
        }
        let counter = row.counters.iter().find_map(|(name, value)| {
            let plain = name.strip_prefix('+').unwrap_or(name);
            let in_ns = plain.strip_suffix("_ps").zip(column.strip_suffix("_ns"));
            if in_ns.is_some_and(|(ps, ns)| ps.eq_ignore_ascii_case(ns)) {
                return Some(text(ns(*value)));
            }
            plain.eq_ignore_ascii_case(column).then(|| text(value.to_string()))
        });
        let fact = || {
            let (_, fact) = row.facts.iter().find(|(name, _)| name.eq_ignore_ascii_case(column))?;
            Some(text(fact_as_text(fact)))
        };
        counter.or_else(fact)
    }
}

/// Every column that a row has.
fn columns(rows: &[ShowRow]) -> String {
    let facts = rows.iter().flat_map(|row| row.facts.keys());
    let counters = rows.iter().flat_map(|row| row.counters.keys());
    let named: BTreeSet<&str> = facts.chain(counters).map(|name| name.trim_start_matches('+')).collect();
    ["kind", "name", "id", "owner"].into_iter().chain(named).collect::<Vec<_>>().join(", ")
}

/// Whether some row has each column that is asked for.
///
/// # Errors
/// [`AppError::NoColumn`]: none has.
pub(super) fn check(rows: &[ShowRow], filters: &[Filter], order: Option<&Order>) -> Result<(), AppError> {
    let wanted = filters.iter().map(|filter| &filter.column).chain(order.map(|order| &order.column));
    for column in wanted {
        if !rows.iter().any(|row| Cell::of(row, column).is_some()) {
            return Err(AppError::NoColumn { column: column.clone(), columns: columns(rows) });
        }
    }
    Ok(())
}

/// Leaves of a page the rows that all filters take, in their order, and of these the first `limit`.
pub(super) fn select(page: &mut ShowPage, filters: &[Filter], order: Option<&Order>, limit: usize) {
    page.more |= page.total > page.rows.len();
    page.rows.retain(|row| filters.iter().all(|filter| filter.takes(row)));
    page.total = page.rows.len();
    if let Some(order) = order {
        let rows = std::mem::take(&mut page.rows).into_iter();
        let mut rows: Vec<_> = rows.map(|row| (Cell::of(&row, &order.column), row)).collect();
        rows.sort_by(|(a, _), (b, _)| order.compare(a.as_ref(), b.as_ref()));
        page.rows.extend(rows.into_iter().map(|(_, row)| row));
    }
    page.rows.truncate(limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> ShowPage {
        let row = |name: &str, state: &str, packets: u64, more: Option<(&str, u64)>| {
            let mut row = ShowRow::new("class", name);
            row.facts.insert("state".to_owned(), state.to_owned());
            row.counters.insert("+packets".to_owned(), packets);
            row.counters.extend(more.map(|(name, value)| (name.to_owned(), value)));
            row
        };
        let mut rows = vec![
            row("be", "active", 90, None),
            row("ef", "active", 1_000, Some(("mean_ps", 81_260))),
            row("old", "draining", 5, Some(("mean_ps", 9_000))),
        ];
        rows[0].facts.insert("allocated".to_owned(), "900 kbit/s".to_owned());
        rows[1].facts.insert("allocated".to_owned(), "2 Mbit/s".to_owned());
        ShowPage { total: rows.len(), rows, ..ShowPage::default() }
    }

    fn shown(filters: &[&str], order: Option<&str>, limit: usize) -> Result<(Vec<String>, usize), String> {
        let parsed: Result<Vec<Filter>, _> = filters.iter().map(|filter| filter.parse()).collect();
        let order = order.map(str::parse::<Order>).transpose().map_err(|e| e.to_string())?;
        let mut page = page();
        let filters = parsed.map_err(|e| e.to_string())?;
        check(&page.rows, &filters, order.as_ref()).map_err(|e| e.to_string())?;
        select(&mut page, &filters, order.as_ref(), limit);
        Ok((page.rows.into_iter().map(|row| row.name).collect(), page.total))
    }

    fn names(filters: &[&str], order: Option<&str>) -> String {
        shown(filters, order, 9).expect("there are such columns").0.join(" ")
    }

    #[test]
    fn rows_are_sorted_by_number_or_text_and_those_without_come_last() {
        assert_eq!(names(&[], Some("packets")), "old be ef");
        assert_eq!(names(&[], Some("-PACKETS")), "ef be old");
        assert_eq!(names(&[], Some("-name")), "old ef be");
        assert_eq!(names(&[], Some("mean_ns")), "old ef be");
        assert_eq!(names(&[], Some("-mean_ps")), "ef old be");
        assert_eq!(names(&[], Some("allocated")), "be ef old", "by what the rates are");
        assert_eq!(names(&[], Some("state")), "be ef old", "what is alike stays in its order");
    }

    #[test]
    fn names_that_are_numbers_in_part_have_an_order_too() {
        let name = |n: usize| if n.is_multiple_of(3) { format!("{n}x") } else { n.to_string() };
        let words = ["inf", "nan", "1e", "-"].map(str::to_owned);
        let rows: Vec<ShowRow> =
            (1..700).map(name).chain(words).map(|name| ShowRow::new("class", &name)).collect();
        let mut page = ShowPage { total: rows.len(), rows, ..ShowPage::default() };
        let order = "name".parse().ok();
        select(&mut page, &[], order.as_ref(), 1_000);
        let names: Vec<&str> = page.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!((names[..3].join(" "), names[465..468].join(" ")), ("1 2 4".into(), "698 - 102x".into()));
        assert_eq!(names[names.len() - 2..], ["inf", "nan"]);
    }

    #[test]
    fn filters_hold_together_and_what_is_left_out_is_counted() {
        assert_eq!(names(&["state=Active"], None), "be ef");
        assert_eq!(names(&["state=activ"], None), "");
        assert_eq!(names(&["state~activ", "packets>90"], None), "ef");
        assert_eq!(names(&["packets<91"], None), "be old");
        assert_eq!(names(&["mean_ns>80"], None), "ef");
        assert_eq!(names(&["mean_ns=81.2"], None), "ef");
        assert_eq!(names(&["allocated>1 Mbit/s"], None), "ef");
        assert_eq!(shown(&["packets>5"], Some("-packets"), 1), Ok((vec!["ef".to_owned()], 2)));
    }

    #[test]
    fn an_unknown_column_is_told_with_those_there_are() {
        let said = shown(&["packet>5"], None, 9).unwrap_err();
        let expected = "no row has a column \"packet\"\nThere are kind, name, id, owner, allocated, mean_ps, packets, state.";
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_no_filter_is_said() {
        let bad = |text: &str| text.parse::<Filter>().unwrap_err();
        assert_eq!(bad("packets"), BadSelection::Uncompared("packets".to_owned()));
        assert_eq!(bad("packets>many"), BadSelection::NotANumber("many".to_owned()));
        assert_eq!((bad("=5"), "-".parse::<Order>()), (BadSelection::Nameless, Err(BadSelection::Nameless)));
        // The first sign counts: flows have one in their names.
        let flow: Filter = "name=udp 10.0.0.1:1>10.0.0.2:2".parse().expect("a filter");
        assert_eq!(flow.test, Test::Is("udp 10.0.0.1:1>10.0.0.2:2".to_owned()));
    }
}
