//! Getters of single values.

use super::{TableReader, quoted_list};
use crate::source::Spanned;
use crate::suggest::did_you_mean;
use crate::text::{FromText, TextError, negative_of};
use crate::tree::{NodeId, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

impl<'a> TableReader<'a> {
    /// A string.
    pub fn text(&mut self, key: &'static str) -> Option<Spanned<&'a str>> {
        let id = self.find(key)?;
        let value = self.text_at(id, "a string")?;
        Some(self.spanned(id, value))
    }

    /// A string that must be there and must not be empty.
    pub fn required_text(&mut self, key: &'static str, example: &str) -> Option<Spanned<&'a str>> {
        self.require(key, example);
        let text = self.text(key)?;
        if text.value.is_empty() {
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
        let id = self.find(key)?;
        let value = self.parse_at(id, expected, parse)?;
        Some(self.spanned(id, value))
    }

    /// A quantity that must lie in a range, which the message repeats.
    pub fn value_in<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<Spanned<T>>
    where
        T: FromText + PartialOrd + Display,
    {
        let allowed = format!("{} to {}", range.start(), range.end());
        let value =
            self.value_with(key, "a string", |text| negative_of(T::from_text(text), text, &allowed))?;
        if range.contains(&value.value) {
            return Some(value);
        }
        self.diagnostics.push(self.document.error(value.span, "is out of range").allowed(allowed));
        None
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &'static str) -> Option<Spanned<bool>> {
        let id = self.find(key)?;
        match self.node(id).value {
            Value::Boolean(b) => Some(self.spanned(id, b)),
            _ => {
                self.wrong_type(id, "true or false");
                None
            }
        }
    }

    /// A whole number in a range.
    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Option<Spanned<i64>> {
        let id = self.find(key)?;
        let value = match self.node(id).value {
            Value::Integer(value) => value.filter(|v| range.contains(v)),
            _ => {
                self.wrong_type(id, &format!("an integer from {} to {}", range.start(), range.end()));
                return None;
            }
        };
        if value.is_none() {
            let allowed = format!("{} to {}", range.start(), range.end());
            self.report(id, |d| d.allowed(allowed), "is out of range");
        }
        value.map(|v| self.spanned(id, v))
    }

    /// A number, whole or decimal, in a range; not a NaN.
    pub fn number(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<Spanned<f64>> {
        let id = self.find(key)?;
        let value = match self.node(id).value {
            Value::Integer(value) => value.map(|v| v as f64),
            Value::Float(value) => value,
            _ => {
                self.wrong_type(id, &format!("a number from {} to {}", range.start(), range.end()));
                return None;
            }
        };
        let value = value.filter(|v| range.contains(v));
        if value.is_none() {
            let allowed = format!("{} to {}", range.start(), range.end());
            self.report(id, |d| d.allowed(allowed), "is out of range");
        }
        value.map(|v| self.spanned(id, v))
    }

    /// One of several names.
    pub fn choice<T: Copy>(&mut self, key: &'static str, names: &[(&'static str, T)]) -> Option<Spanned<T>> {
        let id = self.find(key)?;
        let value = self.choice_at(id, names)?;
        Some(self.spanned(id, value))
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

    pub(super) fn choice_at<T: Copy>(&self, id: NodeId, names: &[(&'static str, T)]) -> Option<T> {
        let all = || names.iter().map(|(name, _)| *name);
        let given = self.text_at(id, &format!("one of {}", quoted_list(all())))?;
        let found = names.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
        if found.is_none() {
            let meant = did_you_mean(given, all());
            let hint = |d: crate::Diagnostic| match meant {
                Some(meant) => d.hint(format!("did you mean \"{meant}\"?")),
                None => d,
            };
            self.report(id, |d| hint(d).allowed(quoted_list(all())), "is not known here");
        }
        found
    }

    /// The string at a node, or a report that it is something else.
    pub(super) fn text_at(&self, id: NodeId, expected: &str) -> Option<&'a str> {
        match &self.node(id).value {
            Value::Text(text) => Some(text),
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
            Value::Text(text) => text,
            Value::Integer(_) | Value::Float(_) => self.document.source.slice(self.node(id).span.clone()),
            _ => {
                self.wrong_type(id, expected);
                return None;
            }
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(e) => {
                let describe = |mut d: crate::Diagnostic| {
                    d.allowed = e.allowed;
                    match e.hint {
                        Some(hint) => d.hint(hint),
                        None => d,
                    }
                };
                self.report(id, describe, e.message);
                None
            }
        }
    }

    pub(super) fn spanned<T>(&self, id: NodeId, value: T) -> Spanned<T> {
        Spanned { value, span: self.document.value_location(id) }
    }
}
