//! Getters of lists, tables and arrays of tables.

use super::{TableReader, kind};
use crate::diagnostic::Diagnostic;
use crate::overrides::joined;
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
        self.table_at(id, |d| d)
    }

    /// Like [`TableReader::table`]; of one that is not written an empty one, whose keys become known all the same.
    pub fn table_or_empty(&mut self, key: &'static str) -> Option<TableReader<'a>> {
        if self.has(key) {
            return self.table(key);
        }
        Some(TableReader { unwritten: joined(&self.unwritten, key), ..self.below(self.node) })
    }

    /// The tables `[key.NAME]`, each with its name, for a key of [`Form::named`](crate::Form::named) or one like it.
    pub fn named(&mut self, key: &'static str) -> Vec<(&'a str, TableReader<'a>)> {
        let Some(id) = self.find(key) else { return Vec::new() };
        if let Value::Array(_) = self.node(id).value {
            let hint = format!("Write [{key}.NAME] for each");
            self.report(id, |d| d.value("").hint(hint), "is an array of tables, expected tables with names");
            return Vec::new();
        }
        let Some(section) = self.table(key) else { return Vec::new() };
        let mut out = Vec::new();
        for &entry in self.document.tree.children(section.node) {
            let hint = format!("Write [{key}.NAME] and the keys of one {key} below it");
            let name = self.document.tree.name(entry).unwrap_or("");
            out.extend(self.table_at(entry, |d| d.hint(hint)).map(|table| (name, table)));
        }
        out
    }

    /// A table whose keys are names that the file gives, each with a quantity in its text form: `{ NAME = "…" }`, in order of
    /// the file. Wrong values are reported and left out.
    pub fn named_values<T: FromText>(&mut self, key: &'static str) -> Vec<(&'a str, Spanned<T>)> {
        let Some(table) = self.table(key) else { return Vec::new() };
        let mut out = Vec::new();
        for &entry in self.document.tree.children(table.node) {
            let name = self.document.tree.name(entry).unwrap_or("");
            let value = table.parse_at(entry, "a string", T::from_text);
            out.extend(value.map(|value| (name, table.spanned(entry, value))));
        }
        out
    }

    /// The tables of an array of tables, `[[key]]` or inline; empty if there are none. A single table, `[key]`, is
    /// reported and returned, so that what refers to it is not reported too.
    pub fn tables(&mut self, key: &'static str) -> Vec<TableReader<'a>> {
        let Some(id) = self.find(key) else { return Vec::new() };
        match &self.node(id).value {
            Value::Array(elements) => elements.iter().filter_map(|&e| self.table_at(e, |d| d)).collect(),
            Value::Table(_) => {
                let hint = format!("Write [[{key}]] for each, also for a single one");
                self.report(id, |d| d.value("").hint(hint), "is a table, expected an array of tables");
                vec![self.below(id)]
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
            let before = first.entry(name.value).or_insert(name).span;
            if before != name.span {
                let error = self.document.error(name.span, format!("is the name of another {key}"));
                let error = self.document.with_secondary(error, before, "the first one is here");
                self.diagnostics.push(error);
            }
            out.push((name, reader));
        }
        out
    }

    /// The table at a node, or a report that it is something else.
    fn table_at(
        &self,
        id: NodeId,
        describe: impl FnOnce(Diagnostic) -> Diagnostic,
    ) -> Option<TableReader<'a>> {
        if let Value::Table(_) = self.node(id).value {
            return Some(self.below(id));
        }
        let found = kind(&self.node(id).value);
        self.report(id, describe, format!("is {found}, expected a table"));
        None
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
