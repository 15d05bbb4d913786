//! Getters of single values.

use super::TableReader;
use crate::diagnostic::Diagnostic;
use crate::source::Spanned;
use crate::suggest::{did_you_mean, quoted_list};
use crate::text::{FromText, TextError, negative_of};
use crate::tree::{NodeId, Value};
use perhop_units::Bytes;
use std::fmt::Display;
use std::ops::RangeInclusive;

impl<'a> TableReader<'a> {
    /// A string.
    pub fn text(&mut self, key: &'static str) -> Option<Spanned<&'a str>> {
        self.one(key, |reader, id| reader.text_at(id, "a string"))
    }

    /// A string that must be there and must not be empty or blank.
    pub fn required_text(&mut self, key: &'static str, example: &str) -> Option<Spanned<&'a str>> {
        self.require(key, example);
        let text = self.text(key)?;
        if text.value.trim().is_empty() {
            self.diagnostics.push(self.document.error(text.span, "is empty"));
            return None;
        }
        Some(text)
    }

    /// A quantity or address in its text form. A bare number is read as the text it is written as, so that code
    /// points (`dscp = 46`) work and `rate = 10` gets the message about its missing unit.
    pub fn value<T: FromText>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        self.value_with(key, "a string", T::from_text)
    }

    /// [`TableReader::value`] of a key that must be there; `example` as the user would write it: `"10 Mbit/s"`.
    pub fn required<T: FromText>(&mut self, key: &'static str, example: &str) -> Option<Spanned<T>> {
        self.require(key, example);
        self.value(key)
    }

    /// A value in a text form of the caller's; `expected` names it with an article.
    pub fn value_with<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, TextError>,
    ) -> Option<Spanned<T>> {
        self.one(key, |reader, id| reader.parse_at(id, expected, parse))
    }

    /// A quantity that must lie in a range, which the message repeats.
    pub fn value_in<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<Spanned<T>>
    where
        T: FromText + PartialOrd + Display,
    {
        let allowed = format!("{} to {}", range.start(), range.end());
        let value =
            self.value_with(key, "a string", |text| negative_of(T::from_text(text), text, &allowed))?;
        self.in_range(value, range)
    }

    /// A number of bytes in a range, with its unit (`"24 B"`) or without.
    pub fn bytes_in(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Option<Spanned<i64>> {
        let allowed = format!("{} to {}", range.start(), range.end());
        let number = |text: &str| {
            let text = text.trim();
            if let Ok(number) = text.parse() {
                return Ok(number);
            }
            let (sign, size) = match text.strip_prefix(['-', '\u{2212}']) {
                Some(size) => (-1, size),
                None => (1, text),
            };
            let bytes = Bytes::from_text(size).map_err(|e| match e.allowed {
                None => e.allowed(allowed.clone()),
                Some(_) => e,
            })?;
            i64::try_from(bytes.0)
                .map(|n| sign * n)
                .map_err(|_| TextError::new("is out of range").allowed(&allowed))
        };
        let value = self.value_with(key, &format!("a number of bytes from {allowed}"), number)?;
        self.in_range(value, range)
    }

    /// A value if it is in a range, which the message repeats, else a report.
    pub fn in_range<T: PartialOrd + Display>(
        &self,
        value: Spanned<T>,
        range: RangeInclusive<T>,
    ) -> Option<Spanned<T>> {
        self.number_in(value.span.node, Some(value.value), &range)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &'static str) -> Option<Spanned<bool>> {
        self.one(key, |reader, id| {
            let value = match &reader.node(id).value {
                Value::Boolean(b) => Some(*b),
                Value::Given(text) => text.parse().ok(),
                _ => None,
            };
            if value.is_none() {
                reader.wrong_type(id, "true or false");
            }
            value
        })
    }

    /// A whole number in a range.
    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Option<Spanned<i64>> {
        let id = self.find(key)?;
        let value = match &self.node(id).value {
            Value::Integer(value) => *value,
            Value::Given(text) if text.parse::<i128>().is_ok() => text.parse().ok(),
            _ => {
                self.wrong_type(id, &format!("an integer from {} to {}", range.start(), range.end()));
                return None;
            }
        };
        self.number_in(id, value, &range)
    }

    /// A number, whole or decimal, in a range; not a NaN.
    pub fn number(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<Spanned<f64>> {
        let id = self.find(key)?;
        let value = match &self.node(id).value {
            Value::Integer(value) => value.map(|v| v as f64),
            Value::Float(value) => *value,
            Value::Given(text) if text.parse::<f64>().is_ok() => text.parse().ok(),
            _ => {
                self.wrong_type(id, &format!("a number from {} to {}", range.start(), range.end()));
                return None;
            }
        };
        self.number_in(id, value, &range)
    }

    /// A number that fits its type and a range, else a report.
    fn number_in<T: PartialOrd + Display>(
        &self,
        id: NodeId,
        value: Option<T>,
        range: &RangeInclusive<T>,
    ) -> Option<Spanned<T>> {
        let value = value.filter(|v| range.contains(v));
        if value.is_none() {
            let allowed = format!("{} to {}", range.start(), range.end());
            self.report(id, |d| d.allowed(allowed), "is out of range");
        }
        value.map(|v| self.spanned(id, v))
    }

    /// One of several names.
    pub fn choice<T: Copy>(&mut self, key: &'static str, names: &[(&'static str, T)]) -> Option<Spanned<T>> {
        self.one(key, |reader, id| reader.choice_at(id, names))
    }

    /// One of several names in a key that must be there.
    pub fn required_choice<T: Copy>(
        &mut self,
        key: &'static str,
        names: &[(&'static str, T)],
    ) -> Option<Spanned<T>> {
        let example = names.first().map_or(String::new(), |(name, _)| format!("\"{name}\""));
        self.require(key, &example);
        self.choice(key, names)
    }

    /// What is read from a key's node, with its place.
    fn one<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Self, NodeId) -> Option<T>,
    ) -> Option<Spanned<T>> {
        let id = self.find(key)?;
        let value = read(self, id)?;
        Some(self.spanned(id, value))
    }

    pub(super) fn choice_at<T: Copy>(&self, id: NodeId, names: &[(&'static str, T)]) -> Option<T> {
        let all = || names.iter().map(|(name, _)| *name);
        let given = self.text_at(id, &format!("one of {}", quoted_list(all())))?;
        let found = names.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
        if found.is_none() {
            let meant = did_you_mean(given, all());
            self.report(id, |d| d.meant(meant).allowed(quoted_list(all())), "is not known here");
        }
        found
    }

    /// The string at a node, or a report that it is something else.
    pub(super) fn text_at(&self, id: NodeId, expected: &str) -> Option<&'a str> {
        match &self.node(id).value {
            Value::Text(text) | Value::Given(text) => Some(text),
            _ => {
                self.wrong_type(id, expected);
                None
            }
        }
    }

    pub(super) fn parse_at<T>(
        &self,
        id: NodeId,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, TextError>,
    ) -> Option<T> {
        let text = match &self.node(id).value {
            Value::Text(text) | Value::Given(text) => text,
            Value::Integer(_) | Value::Float(_) => self.document.source.slice(self.node(id).span.clone()),
            _ => {
                self.wrong_type(id, expected);
                return None;
            }
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(e) => {
                let TextError { message, allowed, hint } = e;
                // Whoever mends the form of a value wants to know how it is written.
                if let Some(meant) = hint.as_ref().filter(|hint| hint.starts_with("did you mean ")) {
                    self.meant_at(id, meant);
                }
                let describe =
                    |d: Diagnostic| Diagnostic { allowed, ..hint.iter().fold(d, Diagnostic::hint) };
                self.report(id, describe, message);
                None
            }
        }
    }

    pub(super) fn spanned<T>(&self, id: NodeId, value: T) -> Spanned<T> {
        Spanned { value, span: self.document.value_location(id) }
    }
}
