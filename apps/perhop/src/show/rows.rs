//! Rows that a router shows, as a table, as lists and as comma-separated values.

use crate::table::Table;
use perhop_model::ShowRow;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A table of more counters than this, most of whose cells would be empty, is shown as lists.
const MOST_COLUMNS: usize = 12;

/// Rows as a table when they have few counters or the same, else each row as a list of what is not 0.
pub(super) fn rows_as_text(rows: &[ShowRow]) -> String {
    let facts: BTreeSet<&str> = rows.iter().flat_map(|r| r.facts.keys().map(String::as_str)).collect();
    // A counter that is 0 in every row says nothing, but how many there are now does, and that nothing was added.
    let moving = |r: &'_ ShowRow| {
        r.counters
            .iter()
            .filter(|(k, v)| **v > 0 || *k == "flows" || k.starts_with('+'))
            .map(|(k, _)| k.clone())
            .collect::<Vec<_>>()
    };
    let counters: BTreeSet<String> = rows.iter().flat_map(moving).collect();
    if rows.is_empty() {
        return "nothing to show\n".to_owned();
    }
    let filled = rows.iter().flat_map(|r| r.counters.keys()).filter(|name| counters.contains(*name)).count();
    if counters.len() > MOST_COLUMNS && 2 * filled < rows.len() * counters.len() {
        return rows.iter().map(as_list).collect();
    }
    let owners = rows.iter().any(|r| !r.owner.is_empty());
    let mut head = vec!["name".to_owned()];
    head.extend(owners.then(|| "owner".to_owned()));
    head.extend(facts.iter().map(|f| (*f).to_owned()));
    head.extend(counters.iter().map(|c| c.strip_suffix("_ps").map_or(c.clone(), |c| format!("{c}_ns"))));
    head.iter_mut().for_each(|h| *h = h.to_uppercase());
    let mut table = Table::new(head);
    for row in rows {
        let mut cells = vec![row.name.clone()];
        cells.extend(owners.then(|| row.owner.clone()));
        cells.extend(
            facts.iter().map(|f| row.facts.get(*f).map_or_else(|| "-".to_owned(), |text| fact_as_text(text))),
        );
        cells.extend(counters.iter().map(|c| {
            let in_ns = c.ends_with("_ps");
            row.counters.get(c).map_or("-".to_owned(), |v| if in_ns { ns(*v) } else { v.to_string() })
        }));
        table.row(cells);
    }
    table.to_string()
}

/// Picoseconds as nanoseconds: a person wants no more than a tenth.
pub(super) fn ns(ps: u64) -> String {
    format!("{}.{}", ps / 1000, ps % 1000 / 100)
}

/// All rows under the names of everything that any of them has (RFC 4180, lines end with LF).
pub(super) fn rows_as_csv(rows: &[ShowRow]) -> String {
    let facts: BTreeSet<&str> = rows.iter().flat_map(|r| r.facts.keys().map(String::as_str)).collect();
    let counters: BTreeSet<&str> = rows.iter().flat_map(|r| r.counters.keys().map(String::as_str)).collect();
    let head = ["kind", "name", "id", "owner"].into_iter().chain(facts.iter().copied());
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut records = vec![head.chain(counters.iter().copied()).map(str::to_owned).collect::<Vec<_>>()];
    for row in rows {
        let mut cells = vec![row.kind.clone(), row.name.clone(), row.id.to_string(), row.owner.clone()];
        cells.extend(facts.iter().map(|f| row.facts.get(*f).cloned().unwrap_or_default()));
        cells.extend(counters.iter().map(|c| row.counters.get(*c).map_or_else(String::new, u64::to_string)));
        records.push(cells);
    }
    for record in records {
        writer.write_record(record).expect("memory takes all, and every record has the head's cells");
    }
    let bytes = writer.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("cells are text")
}

/// A fact for a person: one that is a JSON object (what a filter compares) as its fields that say something.
pub(super) fn fact_as_text(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => in_words(&fields),
        _ => text.to_owned(),
    }
}

fn in_words(fields: &Map<String, Value>) -> String {
    let word = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::Object(parts) => {
            Some(match parts.values().map(Value::as_u64).collect::<Option<Vec<_>>>().as_deref() {
                Some([first, last]) if parts.contains_key("first") && first == last => {
                    format!("{name}={first}")
                }
                Some([first, last]) if parts.contains_key("first") => format!("{name}={first}-{last}"),
                Some([mask, value]) if parts.contains_key("mask") => format!("{name}={value}/{mask:#x}"),
                _ => format!("{name}=({})", in_words(parts)),
            })
        }
        Value::String(text) => Some(format!("{name}={text}")),
        other => Some(format!("{name}={other}")),
    };
    let words: Vec<String> = fields.iter().filter_map(word).collect();
    if words.is_empty() { "all".to_owned() } else { words.join(" ") }
}

fn as_list(row: &ShowRow) -> String {
    let facts = row.facts.iter().map(|(k, v)| format!(" {k}={}", fact_as_text(v)));
    let counters = row.counters.iter().filter(|(_, v)| **v > 0).map(|(k, v)| format!(" {k}={v}"));
    let owner = if row.owner.is_empty() { String::new() } else { format!(" ({})", row.owner) };
    format!("{}{owner}:{}\n", row.name, facts.chain(counters).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, counters: &[(&str, u64)]) -> ShowRow {
        ShowRow {
            kind: "class".to_owned(),
            name: name.to_owned(),
            id: 1,
            owner: "file".to_owned(),
            facts: [("port".to_owned(), "wan".to_owned())].into(),
            counters: counters.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            ..ShowRow::default()
        }
    }

    #[test]
    fn counters_that_are_zero_everywhere_have_no_column() {
        let rows = [row("ef", &[("sent", 7), ("drops", 0)]), row("be", &[("sent", 0), ("drops", 0)])];
        let text = rows_as_text(&rows);
        assert_eq!(
            rows_as_text(&[row("gold", &[("flows", 0), ("packets", 0)])]),
            "NAME  OWNER  PORT  FLOWS\ngold  file   wan       0\n",
            "that nobody is there is worth knowing"
        );
        assert_eq!(text, "NAME  OWNER  PORT  SENT\nef    file   wan      7\nbe    file   wan      0\n");
    }

    #[test]
    fn picoseconds_are_shown_as_nanoseconds() {
        let text = rows_as_text(&[row("flows", &[("mean_ps", 81_260)])]);
        assert_eq!(text, "NAME   OWNER  PORT  MEAN_NS\nflows  file   wan      81.2\n");
    }

    #[test]
    fn rows_are_comma_separated_with_quotes_where_needed() {
        let mut odd = row("a,\"b\"", &[("x", 1)]);
        odd.facts.clear();
        let text = rows_as_csv(&[row("ef", &[("x", 0), ("y", 2)]), odd]);
        let expected =
            "kind,name,id,owner,port,x,y\nclass,ef,1,file,wan,0,2\nclass,\"a,\"\"b\"\"\",1,file,,1,\n";
        assert_eq!(text, expected);
        assert_eq!(rows_as_csv(&[]), "kind,name,id,owner\n");
    }

    #[test]
    fn what_a_filter_compares_is_shown_in_words() {
        let compares = r#"{"dscp":{"mask":63,"value":46},"dst":null,"dst_ports":{"first":53,"last":53},"in_port":"lan","src":null,"src_ports":{"first":1024,"last":65535},"vlan":0}"#;
        let expected = "dscp=46/0x3f dst_ports=53 in_port=lan src_ports=1024-65535 vlan=0";
        assert_eq!(fact_as_text(compares), expected);
        assert_eq!(fact_as_text(r#"{"src":null}"#), "all");
        assert_eq!(fact_as_text("wan"), "wan");
        let mut filter = row("dns", &[]);
        filter.facts = [("match".to_owned(), compares.to_owned())].into();
        assert!(rows_as_text(&[filter]).contains(expected));
    }

    #[test]
    fn many_counters_become_a_list_where_rows_have_different_ones() {
        let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
        let counters: Vec<(&str, u64)> = names.iter().map(|n| (n.as_str(), 1)).collect();
        let pieces: Vec<ShowRow> = counters.chunks(5).map(|piece| row("x", piece)).collect();
        let text = rows_as_text(&pieces);
        assert!(text.starts_with("x (file): port=wan c00=1 c01=1"), "{text}");
        let text = rows_as_text(&[row("ef", &counters), row("be", &counters)]);
        assert!(text.starts_with("NAME  OWNER  PORT  C00  C01") && text.lines().count() == 3, "{text}");
    }
}
