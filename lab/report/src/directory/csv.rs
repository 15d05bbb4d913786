//! Comma-separated values (RFC 4180): a heading, then one record a line.

use crate::result::round;
use std::borrow::Cow;
use thiserror::Error;

/// A file that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CsvError {
    /// A column is missing.
    #[error("{file}: no column \"{column}\"")]
    NoColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
    },
    /// A value is not what its column holds.
    #[error("{file}:{line}: {column} = {value:?} is not {wanted}")]
    BadValue {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The column.
        column: String,
        /// Given.
        value: String,
        /// What belongs there.
        wanted: &'static str,
    },
}

/// Writes records.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    text: String,
    fresh: bool,
}

impl Writer {
    pub(super) fn new(columns: &[&str]) -> Self {
        Self { text: format!("{}\n", columns.join(",")), fresh: true }
    }

    fn cell(&mut self) -> &mut String {
        if !self.fresh {
            self.text.push(',');
        }
        self.fresh = false;
        &mut self.text
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        let cell = self.cell();
        if value.contains([',', '"', '\n', '\r']) {
            cell.push('"');
            cell.push_str(&value.replace('"', "\"\""));
            cell.push('"');
        } else {
            cell.push_str(value);
        }
        self
    }

    /// A figure with at most six decimals; nothing where there is none.
    pub(super) fn figure(&mut self, value: Option<f64>) -> &mut Self {
        let cell = self.cell();
        if let Some(value) = value.filter(|v| v.is_finite()) {
            cell.push_str(&round(value).to_string());
        }
        self
    }

    pub(super) fn count(&mut self, value: Option<u64>) -> &mut Self {
        let cell = self.cell();
        if let Some(value) = value {
            cell.push_str(&value.to_string());
        }
        self
    }

    pub(super) fn end(&mut self) {
        self.text.push('\n');
        self.fresh = true;
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// A file to read.
pub(super) struct Reader<'a> {
    file: &'a str,
    columns: Vec<Cow<'a, str>>,
    rest: &'a str,
    line: usize,
}

/// One line of a file.
pub(super) struct Record<'a> {
    file: &'a str,
    line: usize,
    cells: Vec<Cow<'a, str>>,
}

/// A column of a file.
#[derive(Clone, Copy)]
pub(super) struct Column {
    index: usize,
    name: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let mut reader = Self { file, columns: Vec::new(), rest: text, line: 0 };
        reader.columns = reader.cells().unwrap_or_default();
        reader
    }

    pub(super) fn column(&self, name: &'static str) -> Result<Column, CsvError> {
        let index = self.columns.iter().position(|column| column == name);
        index
            .map(|index| Column { index, name })
            .ok_or_else(|| CsvError::NoColumn { file: self.file.to_owned(), column: name.to_owned() })
    }

    /// The cells of the next line; a quoted cell may hold line ends. What follows a closing quote belongs to the cell.
    fn cells(&mut self) -> Option<Vec<Cow<'a, str>>> {
        if self.rest.is_empty() {
            return None;
        }
        self.line += 1;
        let mut cells = Vec::with_capacity(self.columns.len());
        loop {
            let (cell, end) = self.cell();
            cells.push(cell);
            if end {
                return Some(cells);
            }
        }
    }

    /// The next cell, and whether the line ends behind it.
    fn cell(&mut self) -> (Cow<'a, str>, bool) {
        let mut quoted = String::new();
        let mut was_quoted = false;
        while let Some(inside) = self.rest.strip_prefix('"') {
            // A quote that follows a quoted part directly stands for itself.
            if was_quoted {
                quoted.push('"');
            }
            was_quoted = true;
            let end = inside.find('"').unwrap_or(inside.len());
            quoted.push_str(&inside[..end]);
            self.rest = inside.get(end + 1..).unwrap_or("");
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (cell, behind) = self.rest.split_at(end);
        let over = !behind.starts_with(',');
        self.rest = behind.get(1..).unwrap_or("");
        let cell = if over { cell.strip_suffix('\r').unwrap_or(cell) } else { cell };
        if was_quoted {
            quoted.push_str(cell);
            return (Cow::Owned(quoted), over);
        }
        (Cow::Borrowed(cell), over)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let cells = self.cells()?;
        Some(Record { file: self.file, line: self.line, cells })
    }
}

impl Record<'_> {
    pub(super) fn text(&self, column: Column) -> &str {
        self.cells.get(column.index).map_or("", |cell| cell.as_ref())
    }

    fn parsed<T: std::str::FromStr>(
        &self,
        column: Column,
        wanted: &'static str,
    ) -> Result<Option<T>, CsvError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| self.bad(column, wanted))
    }

    fn bad(&self, column: Column, wanted: &'static str) -> CsvError {
        CsvError::BadValue {
            file: self.file.to_owned(),
            line: self.line,
            column: column.name.to_owned(),
            value: self.text(column).to_owned(),
            wanted,
        }
    }

    pub(super) fn figure(&self, column: Column) -> Result<Option<f64>, CsvError> {
        let value: Option<f64> = self.parsed(column, "a number")?;
        match value {
            Some(value) if !value.is_finite() => Err(self.bad(column, "a number")),
            value => Ok(value),
        }
    }

    pub(super) fn needed(&self, column: Column) -> Result<f64, CsvError> {
        self.figure(column)?.ok_or_else(|| self.bad(column, "a number"))
    }

    pub(super) fn count(&self, column: Column) -> Result<Option<u64>, CsvError> {
        self.parsed(column, "a count")
    }

    pub(super) fn needed_count(&self, column: Column) -> Result<u64, CsvError> {
        self.count(column)?.ok_or_else(|| self.bad(column, "a count"))
    }

    pub(super) fn number(&self, column: Column) -> Result<u32, CsvError> {
        self.parsed(column, "a count below 2^32")?.ok_or_else(|| self.bad(column, "a count below 2^32"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_name_file_line_and_column() {
        let reader = Reader::new("groups.csv", "a,b\n1,x\n");
        let wrong = reader.column("c").err().expect("there is no c").to_string();
        assert_eq!(wrong, "groups.csv: no column \"c\"");
        let column = reader.column("b").expect("there is b");
        let record = reader.into_iter().next().expect("a line");
        let wrong = record.figure(column).expect_err("x is no number").to_string();
        assert_eq!(wrong, "groups.csv:2: b = \"x\" is not a number");
    }

    #[test]
    fn lines_of_other_systems_and_without_an_end_are_read() {
        let reader = Reader::new("f", "a,b\r\n\"x, \"\"y\"\"\",2\r\n3,4");
        let (a, b) = (reader.column("a").expect("a"), reader.column("b").expect("b"));
        let read: Vec<(String, u32)> =
            reader.map(|r| (r.text(a).to_owned(), r.number(b).expect("a number"))).collect();
        assert_eq!(read, [("x, \"y\"".to_owned(), 2), ("3".to_owned(), 4)]);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(rows in prop::collection::vec((".*", prop::option::of(any::<u64>())), 0..20)) {
            let mut writer = Writer::new(&["name", "count"]);
            for (name, count) in &rows {
                writer.text(name).count(*count).end();
            }
            let text = writer.finish();
            let reader = Reader::new("f", &text);
            let (name, count) = (reader.column("name").expect("name"), reader.column("count").expect("count"));
            let read: Vec<_> = reader.map(|r| (r.text(name).to_owned(), r.count(count).expect("a count"))).collect();
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn any_text_is_read_to_its_end(text in ".{0,200}") {
            prop_assert!(Reader::new("f", &text).count() <= text.len() + 1);
        }
    }
}
