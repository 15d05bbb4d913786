//! Walking a table: every key that is asked for counts as known, the rest is reported.

use super::cx::{At, Cx, list};
use super::tree::{Id, Value};
use perhop_config::{Diagnostic, FromText, TextError, did_you_mean, negative_of};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Reads the keys of one table. A getter returns `None` both for an absent key and for a value that is wrong, which it
/// has reported.
#[must_use = "finish() reports unknown keys"]
pub(super) struct Table<'a> {
    pub(super) cx: &'a Cx<'a>,
    pub(super) at: Id,
    known: Vec<&'static str>,
    path: String,
}

impl<'a> Table<'a> {
    pub(super) fn new(cx: &'a Cx<'a>, at: Id) -> Self {
        Self { cx, at, known: Vec::new(), path: cx.tree.path(at) }
    }

    /// The node of a key's value. Makes the key known.
    pub(super) fn find(&mut self, key: &'static str) -> Option<Id> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.cx.tree.child(self.at, key)
    }

    /// Reports that a key is missing; `example` is what could be written. Silent in a damaged file.
    pub(super) fn require(&mut self, key: &'static str, example: &str) {
        if self.find(key).is_some() || self.cx.damaged {
            return;
        }
        let hint = format!("Write for example {key} = {example}");
        self.cx.push(self.cx.lack(self.at, key, "is missing").hint(hint));
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        for &id in self.cx.tree.children(self.at) {
            if !self.known.contains(&self.cx.tree.name(id)) {
                let unknown = self.cx.unknown_key(id, &self.known);
                if self.cx.is_foreign(id) {
                    self.cx.leave_out(id, unknown);
                } else {
                    self.cx.push(unknown);
                }
            }
        }
        self.cx.known.borrow_mut().insert(self.path, self.known);
    }

    /// Tells which keys a table below this one may have that is not written.
    pub(super) fn may_have(&self, key: &str, keys: &[&'static str]) {
        let path = format!("{}.{key}", self.path);
        self.cx.known.borrow_mut().entry(path).or_insert_with(|| keys.to_vec());
    }

    /// A string.
    pub(super) fn text(&mut self, key: &'static str) -> Option<At<&'a str>> {
        let at = self.find(key)?;
        Some(At { value: self.text_at(at, "a string")?, at })
    }

    /// A string that must be there and must not be empty.
    pub(super) fn required_text(&mut self, key: &'static str, example: &str) -> Option<At<&'a str>> {
        self.require(key, example);
        let text = self.text(key)?;
        if text.value.trim().is_empty() {
            self.cx.push(self.cx.error(text.at, "is empty"));
            return None;
        }
        Some(text)
    }

    /// A quantity or address in its text form; a bare number is read as it is written.
    pub(super) fn value<T: FromText>(&mut self, key: &'static str) -> Option<At<T>> {
        self.value_with(key, "a string", T::from_text)
    }

    /// [`Table::value`] of a key that must be there.
    pub(super) fn required<T: FromText>(&mut self, key: &'static str, example: &str) -> Option<At<T>> {
        self.require(key, example);
        self.value(key)
    }

    /// A value in a text form of the caller's.
    pub(super) fn value_with<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, TextError>,
    ) -> Option<At<T>> {
        let at = self.find(key)?;
        Some(At { value: self.parse_at(at, expected, parse)?, at })
    }

    /// A quantity in a range, which the message repeats.
    pub(super) fn value_in<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<At<T>>
    where
        T: FromText + PartialOrd + Display,
    {
        let allowed = format!("{} to {}", range.start(), range.end());
        let value =
            self.value_with(key, "a string", |text| negative_of(T::from_text(text), text, &allowed))?;
        self.in_range(value, range)
    }

    /// A value if it is in a range, else a report.
    pub(super) fn in_range<T: PartialOrd + Display>(
        &self,
        value: At<T>,
        range: RangeInclusive<T>,
    ) -> Option<At<T>> {
        if range.contains(&value.value) {
            return Some(value);
        }
        let allowed = format!("{} to {}", range.start(), range.end());
        self.cx.push(self.cx.error(value.at, "is out of range").allowed(allowed));
        None
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, key: &'static str) -> Option<At<bool>> {
        let at = self.find(key)?;
        let value = match &self.cx.tree.node(at).value {
            Value::Boolean(b) => Some(*b),
            Value::Given(text) => text.parse().ok(),
            _ => None,
        };
        if value.is_none() {
            self.wrong_type(at, "true or false");
        }
        Some(At { value: value?, at })
    }

    /// A whole number in a range.
    pub(super) fn integer(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Option<At<i64>> {
        let at = self.find(key)?;
        let value = match &self.cx.tree.node(at).value {
            Value::Integer(value) => *value,
            Value::Given(text) if text.parse::<i128>().is_ok() => text.parse().ok(),
            _ => {
                self.wrong_type(at, &format!("an integer from {} to {}", range.start(), range.end()));
                return None;
            }
        };
        let value = value.filter(|v| range.contains(v));
        if value.is_none() {
            let allowed = format!("{} to {}", range.start(), range.end());
            self.report(at, |d| d.allowed(allowed), "is out of range");
        }
        Some(At { value: value?, at })
    }

    /// A number, whole or decimal, in a range; not a NaN.
    pub(super) fn number(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<At<f64>> {
        let at = self.find(key)?;
        let value = match &self.cx.tree.node(at).value {
            Value::Integer(value) => value.map(|v| v as f64),
            Value::Float(value) => *value,
            Value::Given(text) if text.parse::<f64>().is_ok() => text.parse().ok(),
            _ => {
                self.wrong_type(at, &format!("a number from {} to {}", range.start(), range.end()));
                return None;
            }
        };
        let value = value.filter(|v| range.contains(v));
        if value.is_none() {
            let allowed = format!("{} to {}", range.start(), range.end());
            self.report(at, |d| d.allowed(allowed), "is out of range");
        }
        Some(At { value: value?, at })
    }

    /// One of several names.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        names: &[(&'static str, T)],
    ) -> Option<At<T>> {
        let at = self.find(key)?;
        let all = || names.iter().map(|(name, _)| *name);
        let given = self.text_at(at, &format!("one of {}", list(all())))?;
        if let Some((_, value)) = names.iter().find(|(name, _)| *name == given) {
            return Some(At { value: *value, at });
        }
        let meant = did_you_mean(given, all());
        let hint = |d: Diagnostic| match meant {
            Some(meant) => d.hint(format!("did you mean \"{meant}\"?")),
            None => d,
        };
        self.report(at, |d| hint(d).allowed(list(all())), "is not known here");
        None
    }

    /// A list of strings; a lone string is a list of one. Wrong elements are reported and left out.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<At<Vec<At<&'a str>>>> {
        let at = self.find(key)?;
        let elements = self.elements(at);
        let texts = elements
            .iter()
            .filter_map(|&e| Some(At { value: self.text_at(e, "a string")?, at: e }))
            .collect();
        Some(At { value: texts, at })
    }

    /// A list of quantities; a lone one is a list of one. Wrong elements are reported and left out.
    pub(super) fn values<T: FromText>(&mut self, key: &'static str) -> Option<At<Vec<At<T>>>> {
        let at = self.find(key)?;
        let elements = self.elements(at);
        let values = elements
            .iter()
            .filter_map(|&e| Some(At { value: self.parse_at(e, "a string", T::from_text)?, at: e }))
            .collect();
        Some(At { value: values, at })
    }

    /// Whether a key holds a list.
    pub(super) fn is_list(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|at| matches!(self.cx.tree.node(at).value, Value::Array(_)))
    }

    /// Whether a key holds a table.
    pub(super) fn is_table(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|at| matches!(self.cx.tree.node(at).value, Value::Table(_)))
    }

    /// A table: inline, with a header, or dotted.
    pub(super) fn table(&mut self, key: &'static str) -> Option<Table<'a>> {
        let at = self.find(key)?;
        match self.cx.tree.node(at).value {
            Value::Table(_) => Some(Table::new(self.cx, at)),
            _ => {
                self.wrong_type(at, "a table");
                None
            }
        }
    }

    /// A table whose keys all have defaults; an empty one if it is not written, so that its keys are known anyway.
    pub(super) fn table_or_empty(&mut self, key: &'static str) -> Option<Table<'a>> {
        if self.find(key).is_some() {
            return self.table(key);
        }
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Some(Table { cx: self.cx, at: self.cx.tree.empty, known: Vec::new(), path })
    }

    /// The tables `[key.NAME]`, each with its name's node.
    pub(super) fn named(&mut self, key: &'static str) -> Vec<(&'a str, Table<'a>)> {
        let Some(at) = self.find(key) else { return Vec::new() };
        if let Value::Array(_) = self.cx.tree.node(at).value {
            let hint = format!("Write [{key}.NAME] for each");
            self.report(at, |d| d.value("").hint(hint), "is an array of tables, expected tables with names");
            return Vec::new();
        }
        let Some(section) = self.table(key) else { return Vec::new() };
        let mut out = Vec::new();
        for &entry in self.cx.tree.children(section.at) {
            match self.cx.tree.node(entry).value {
                Value::Table(_) => out.push((self.cx.tree.name(entry), Table::new(self.cx, entry))),
                Value::Invalid => {}
                _ => {
                    let hint = format!("Write [{key}.NAME] and the keys of one {key} below it");
                    self.wrong_type_with(entry, "a table", |d| d.hint(hint));
                }
            }
        }
        out
    }

    /// The tables of `[[key]]`; empty if there are none.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<Table<'a>> {
        let Some(at) = self.find(key) else { return Vec::new() };
        match &self.cx.tree.node(at).value {
            Value::Array(elements) => {
                let is_table = |&&e: &&Id| {
                    let table = matches!(self.cx.tree.node(e).value, Value::Table(_));
                    if !table {
                        self.wrong_type(e, "a table");
                    }
                    table
                };
                elements.iter().filter(is_table).map(|&e| Table::new(self.cx, e)).collect()
            }
            Value::Table(_) => {
                let hint = format!("Write [[{key}]] for each, also for a single one");
                self.report(at, |d| d.value("").hint(hint), "is a table, expected an array of tables");
                Vec::new()
            }
            _ => {
                self.wrong_type(at, "an array of tables");
                Vec::new()
            }
        }
    }

    /// The elements of a list, or the lone value.
    fn elements(&self, at: Id) -> Vec<Id> {
        match &self.cx.tree.node(at).value {
            Value::Array(elements) => elements.clone(),
            Value::Invalid => Vec::new(),
            _ => vec![at],
        }
    }

    fn text_at(&self, at: Id, expected: &str) -> Option<&'a str> {
        match &self.cx.tree.node(at).value {
            Value::Text(text) | Value::Given(text) => Some(text),
            _ => {
                self.wrong_type(at, expected);
                None
            }
        }
    }

    fn parse_at<T>(
        &self,
        at: Id,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, TextError>,
    ) -> Option<T> {
        let node = self.cx.tree.node(at);
        let text = match &node.value {
            Value::Text(text) | Value::Given(text) => text,
            Value::Integer(_) | Value::Float(_) => self.cx.tree.lines.slice(node.span.clone()),
            _ => {
                self.wrong_type(at, expected);
                return None;
            }
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(e) => {
                let describe = |mut d: Diagnostic| {
                    d.allowed = e.allowed;
                    match e.hint {
                        Some(hint) => d.hint(hint),
                        None => d,
                    }
                };
                self.report(at, describe, e.message);
                None
            }
        }
    }

    /// Reports an error at a value unless it could not even be parsed.
    fn report(&self, at: Id, describe: impl FnOnce(Diagnostic) -> Diagnostic, message: impl Into<String>) {
        if !matches!(self.cx.tree.node(at).value, Value::Invalid) {
            self.cx.push(describe(self.cx.error(at, message)));
        }
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong_type(&self, at: Id, expected: &str) {
        self.wrong_type_with(at, expected, |d| d);
    }

    fn wrong_type_with(&self, at: Id, expected: &str, describe: impl FnOnce(Diagnostic) -> Diagnostic) {
        let found = kind(&self.cx.tree.node(at).value);
        self.report(at, describe, format!("is {found}, expected {expected}"));
    }
}

/// What a value is, with an article.
fn kind(value: &Value) -> &'static str {
    match value {
        // Where a number does not fit, it has decimals or the key wants something else.
        Value::Given(text) if text.parse::<i128>().is_ok() => "an integer",
        Value::Given(text) if text.parse::<f64>().is_ok() => "a decimal number",
        Value::Text(_) | Value::Given(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a decimal number",
        Value::Boolean(_) => "a boolean",
        Value::Datetime => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
        Value::Invalid => "not readable",
    }
}
