//! Comma-separated values (RFC 4180): a heading, then one record a line.

use crate::result::round;
use csv::StringRecord;
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

/// Writes records, as many cells each as there are columns.
#[derive(Debug)]
pub(super) struct Writer(csv::Writer<Vec<u8>>);

impl Writer {
    pub(super) fn new(columns: &[&str]) -> Self {
        let mut writer = Self(csv::Writer::from_writer(Vec::new()));
        columns.iter().for_each(|column| {
            writer.text(column);
        });
        writer.end();
        writer
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.0.write_field(value).expect("memory takes every cell");
        self
    }

    /// A figure with at most six decimals; nothing where there is none.
    pub(super) fn figure(&mut self, value: Option<f64>) -> &mut Self {
        self.optional(value.filter(|v| v.is_finite()).map(round))
    }

    pub(super) fn count(&mut self, value: Option<u64>) -> &mut Self {
        self.optional(value)
    }

    fn optional(&mut self, value: Option<impl ToString>) -> &mut Self {
        self.text(&value.map_or_else(String::new, |value| value.to_string()))
    }

    pub(super) fn end(&mut self) {
        self.0.write_record(None::<&[u8]>).expect("a record has as many cells as there are columns");
    }

    pub(super) fn finish(self) -> String {
        let bytes = self.0.into_inner().expect("memory takes every record");
        String::from_utf8(bytes).expect("the cells were text")
    }
}

/// A file to read. Records may be shorter or longer than the heading, and empty lines are none.
pub(super) struct Reader<'a> {
    file: &'a str,
    columns: StringRecord,
    records: csv::StringRecordsIntoIter<&'a [u8]>,
    line: usize,
}

/// One line of a file.
pub(super) struct Record<'a> {
    file: &'a str,
    line: usize,
    cells: StringRecord,
}

/// A column of a file.
#[derive(Clone, Copy)]
pub(super) struct Column {
    index: usize,
    name: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let mut records = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let columns = records.headers().expect(READABLE).clone();
        Self { file, columns, records: records.into_records(), line: 1 }
    }

    pub(super) fn column(&self, name: &'static str) -> Result<Column, CsvError> {
        let index = self.columns.iter().position(|column| column == name);
        index
            .map(|index| Column { index, name })
            .ok_or_else(|| CsvError::NoColumn { file: self.file.to_owned(), column: name.to_owned() })
    }

    pub(super) fn columns(&self, names: &[&'static str]) -> Result<Vec<Column>, CsvError> {
        names.iter().map(|name| self.column(name)).collect()
    }
}

/// Why reading cannot fail.
const READABLE: &str = "text in memory is UTF-8, and records may have any length";

impl<'a> Iterator for Reader<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let cells = self.records.next()?.expect(READABLE);
        self.line += 1;
        Some(Record { file: self.file, line: self.line, cells })
    }
}

impl Record<'_> {
    pub(super) fn text(&self, column: Column) -> &str {
        self.cells.get(column.index).unwrap_or("")
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

    #[test]
    fn only_cells_that_need_quotes_have_them() {
        let mut writer = Writer::new(&["name", "figure", "count"]);
        writer.text("wan/voice 1").figure(Some(2.0)).count(Some(3)).end();
        writer.text("").figure(Some(1.0 / 3.0)).count(None).end();
        writer.text("x, \"y\"").figure(Some(f64::NAN)).count(Some(u64::MAX)).end();
        writer.text("two\nlines\r").figure(Some(-0.5e-3)).count(Some(0)).end();
        let expected = "name,figure,count\nwan/voice 1,2,3\n,0.333333,\n\
            \"x, \"\"y\"\"\",,18446744073709551615\n\"two\nlines\r\",-0.0005,0\n";
        assert_eq!(writer.finish(), expected);
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
