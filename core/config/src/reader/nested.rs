//! Getters of lists, tables and arrays of tables.

use super::TableReader;
use crate::source::Spanned;
use crate::text::{FromText, TextError};
use crate::tree::{NodeId, Value};
use std::collections::HashMap;

impl<'a> TableReader<'a> {
    /// A list of strings; a lone string is a list of one. Wrong elements are reported and left out.
    pub fn texts(&mut self, key: &'static str) -> Option<Spanned<Vec<Spanned<&'a str>>>> {
        self.elements(key, |reader, id| reader.text_at(id, "a string"))
    }

    /// A list of quantities or addresses in their text form; a lone one is a list of one.
    pub fn values<T: FromText>(&mut self, key: &'static str) -> Option<Spanned<Vec<Spanned<T>>>> {
        self.values_with(key, "a string", T::from_text)
    }

    /// A list of values in a text form of the caller's; a lone one is a list of one.
    pub fn values_with<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, TextError>,
    ) -> Option<Spanned<Vec<Spanned<T>>>> {
        self.elements(key, |reader, id| reader.parse_at(id, expected, &parse))
    }

    /// A list of names out of several; a lone one is a list of one.
    pub fn choices<T: Copy>(
        &mut self,
        key: &'static str,
        names: &[(&'static str, T)],
    ) -> Option<Spanned<Vec<Spanned<T>>>> {
        self.elements(key, |reader, id| reader.choice_at(id, names))
    }

    /// A table, inline (`queue = { limit = … }`), with a header (`[class.queue]`) or dotted (`queue.limit = …`).
    pub fn table(&mut self, key: &'static str) -> Option<TableReader<'a>> {
        let id = self.find(key)?;
        match self.node(id).value {
            Value::Table(_) => Some(TableReader::new(self.document, self.diagnostics, id)),
            Value::Invalid => None,
            _ => {
                self.wrong_type(id, "a table");
                None
            }
        }
    }

    /// The tables of an array of tables, `[[key]]` or inline; empty if there are none. A single table, `[key]`, is
    /// reported and returned, so that what refers to it is not reported too.
    pub fn tables(&mut self, key: &'static str) -> Vec<TableReader<'a>> {
        let Some(id) = self.find(key) else { return Vec::new() };
        match &self.node(id).value {
            Value::Array(elements) => {
                let is_table = |&&e: &&NodeId| {
                    let table = matches!(self.node(e).value, Value::Table(_));
                    if !table {
                        self.wrong_type(e, "a table");
                    }
                    table
                };
                let reader = |&e| TableReader::new(self.document, self.diagnostics, e);
                elements.iter().filter(is_table).map(reader).collect()
            }
            Value::Table(_) => {
                let hint = format!("Write [[{key}]] for each, also for a single one");
                self.report(id, |d| d.value("").hint(hint), "is a table, expected an array of tables");
                vec![TableReader::new(self.document, self.diagnostics, id)]
            }
            _ => {
                self.wrong_type(id, "an array of tables");
                Vec::new()
            }
        }
    }

    /// Like [`TableReader::tables`] for tables that must have a `name`, unique among them. A missing name is reported
    /// and returned as an empty one, so that the rest of the table can be checked; of two tables with the same name
    /// both are returned and the second is reported with the place of the first.
    pub fn named_tables(&mut self, key: &'static str) -> Vec<(Spanned<&'a str>, TableReader<'a>)> {
        let mut first: HashMap<&str, Spanned<&str>> = HashMap::new();
        let mut out = Vec::new();
        for mut reader in self.tables(key) {
            let Some(name) = reader.required_text("name", "\"…\"") else {
                out.push((Spanned { value: "", span: reader.location() }, reader));
                continue;
            };
            match first.get(name.value) {
                None => {
                    first.insert(name.value, name);
                }
                Some(before) => {
                    let d = self.document.error(name.span, format!("is the name of another {key}"));
                    self.diagnostics.push(self.document.with_secondary(
                        d,
                        before.span,
                        "the first one is here",
                    ));
                }
            }
            out.push((name, reader));
        }
        out
    }

    fn elements<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Self, NodeId) -> Option<T>,
    ) -> Option<Spanned<Vec<Spanned<T>>>> {
        let id = self.find(key)?;
        let ids = match &self.node(id).value {
            Value::Array(elements) => elements.as_slice(),
            Value::Invalid => return None,
            _ => &[id],
        };
        let values = ids.iter().filter_map(|&e| Some(self.spanned(e, read(self, e)?))).collect();
        Some(self.spanned(id, values))
    }
}
