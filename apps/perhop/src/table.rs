//! Tables for terminals.

use std::fmt;

/// Columns of text under headings. Columns in which every cell is a number are aligned to the right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the headings are not shown.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|r| r.get(column));
        cells.chain([&self.head[column]]).map(|c| c.chars().count()).max().unwrap_or(0)
    }

    fn is_number(&self, column: usize) -> bool {
        let number = |c: &String| c == "-" || c.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        self.rows.iter().filter_map(|r| r.get(column)).all(number)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<(usize, bool)> =
            (0..self.head.len()).map(|c| (self.width(c), self.is_number(c))).collect();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let mut line = String::new();
            for (i, (width, number)) in columns.iter().enumerate() {
                let cell = row.get(i).map_or("", String::as_str);
                let gap = if i == 0 { "" } else { "  " };
                line.push_str(&match number {
                    true => format!("{gap}{cell:>width$}"),
                    false => format!("{gap}{cell:<width$}"),
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_lines_end_without_blanks() {
        let mut table = Table::new(["NAME", "PACKETS", "STATE"]);
        table.row(["wan", "12", "up"]);
        table.row(["lan-1", "3", ""]);
        assert_eq!(table.to_string(), "NAME   PACKETS  STATE\nwan         12  up\nlan-1        3\n");
    }
}
