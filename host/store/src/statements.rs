//! Many rows by one statement: what makes a group cheap.
//!
//! Rows go in portions of a few fixed sizes, so that each statement is parsed once a connection and found again by its text.

use crate::Error;
use crate::connection::{Connection, Place, Value};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use std::collections::HashMap;
use std::fmt::Write;

/// Sizes of portions. The widest table has 16 columns, and SQLite takes 32,766 values.
const PORTIONS: [usize; 4] = [256, 32, 8, 1];

/// A table as statements see it: the first columns are its key.
pub(crate) struct Table {
    pub name: &'static str,
    pub columns: &'static [&'static str],
    pub key: usize,
}

/// What is done with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// A row of the same key must not be there.
    Append,
    /// A row of the same key is replaced.
    Replace,
    /// Rows of this key are removed; of a key of several columns, those that begin like this.
    Remove {
        /// How many columns of the key are given.
        columns: usize,
    },
}

/// Rows for one table, their values one after the other.
pub(crate) struct Rows<'a> {
    pub table: &'static Table,
    pub work: Work,
    pub values: Vec<Value<'a>>,
}

impl Rows<'_> {
    fn width(&self) -> usize {
        match self.work {
            Work::Append | Work::Replace => self.table.columns.len(),
            Work::Remove { columns } => columns,
        }
    }
}

/// Texts of statements that were used.
#[derive(Debug, Default)]
pub(crate) struct Statements(HashMap<(&'static str, Work, usize), SqlStr>);

impl Statements {
    /// Runs statements for all rows.
    pub(crate) async fn run(&mut self, connection: &mut Connection, rows: &Rows<'_>) -> Result<(), Error> {
        let width = rows.width();
        let mut left = rows.values.as_slice();
        for portion in PORTIONS {
            while left.len() >= portion * width {
                let (now, rest) = left.split_at(portion * width);
                let place = connection.place();
                let text = self.0.entry((rows.table.name, rows.work, portion)).or_insert_with(|| {
                    AssertSqlSafe(text(rows.table, rows.work, portion, place)).into_sql_str()
                });
                connection.execute(text.clone(), now).await?;
                left = rest;
                if left.is_empty() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The text of a statement for `portion` rows. Names are the program's own; values are never part of it.
fn text(table: &Table, work: Work, portion: usize, place: Place) -> String {
    let key = table.columns[..table.key].join(", ");
    match work {
        Work::Append | Work::Replace => {
            let columns = table.columns.join(", ");
            let values = tuples(portion, table.columns.len(), place);
            let mut text = format!("INSERT INTO {} ({columns}) VALUES {values}", table.name);
            if work == Work::Replace {
                let set: Vec<_> =
                    table.columns[table.key..].iter().map(|c| format!("{c} = excluded.{c}")).collect();
                _ = write!(text, " ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "));
            }
            text
        }
        Work::Remove { columns } => {
            let key = table.columns[..columns].join(", ");
            format!(
                "DELETE FROM {} WHERE ({key}) IN (VALUES {})",
                table.name,
                tuples(portion, columns, place)
            )
        }
    }
}

/// `($1, $2), ($3, $4)`
fn tuples(rows: usize, width: usize, place: Place) -> String {
    let tuple = |row: usize| {
        let places: Vec<_> = (1..=width).map(|column| place(row * width + column)).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(tuple).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table { name: "t", columns: &["a", "b", "c"], key: 2 };

    #[test]
    fn a_statement_has_a_place_for_every_value() {
        let numbered: Place = |n| format!("${n}");
        assert_eq!(
            text(&TABLE, Work::Replace, 2, numbered),
            "INSERT INTO t (a, b, c) VALUES ($1, $2, $3), ($4, $5, $6) ON CONFLICT (a, b) DO UPDATE SET c = excluded.c"
        );
        assert_eq!(text(&TABLE, Work::Append, 1, |_| "?".into()), "INSERT INTO t (a, b, c) VALUES (?, ?, ?)");
        assert_eq!(
            text(&TABLE, Work::Remove { columns: 1 }, 2, numbered),
            "DELETE FROM t WHERE (a) IN (VALUES ($1), ($2))"
        );
    }
}
