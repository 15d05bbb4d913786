//! Lists in graph text that go with a list of classes: one value a class, or one for all.

use crate::classify::DscpTable;
use perhop_element::Reader;
use perhop_units::Dscp;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads lists for `count` classes.
pub(super) struct Lists<'r, 'a> {
    /// Where the arguments are.
    pub(super) r: &'r mut Reader<'a>,
    /// How many classes there are.
    pub(super) count: usize,
}

impl Lists<'_, '_> {
    /// The words of `key`: one a class; empty when absent or wrong.
    pub(super) fn words(&mut self, key: &'static str) -> Vec<String> {
        let text: Option<String> = self.r.optional(key, None);
        let words: Vec<String> = text.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        match words.len() {
            0 => words,
            1 => vec![words[0].clone(); self.count],
            n if n == self.count => words,
            n => {
                let allowed = Some(format!("one value, or {}: one a class", self.count));
                self.r.fail(key, format!("{key} has {n} values"), allowed);
                Vec::new()
            }
        }
    }

    /// One value a class within `range`; `-` and absent are `None`.
    pub(super) fn values<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Vec<Option<T>>
    where
        T: FromStr + PartialOrd + Copy + Display,
        T::Err: Display,
    {
        let words = self.words(key);
        let mut values = vec![None; self.count];
        for (value, word) in values.iter_mut().zip(&words).filter(|(_, word)| *word != "-") {
            let message = match word.parse::<T>() {
                Ok(v) if range.contains(&v) => {
                    *value = Some(v);
                    continue;
                }
                Ok(v) => format!("{key} = {v} is out of range"),
                Err(e) => format!("{key}: {e}"),
            };
            self.r.fail(key, message, Some(format!("{} to {}", range.start(), range.end())));
        }
        values
    }

    /// One of two words a class, whether it is the second; absent is the first.
    pub(super) fn either(&mut self, key: &'static str, no: &str, yes: &str) -> Vec<bool> {
        let words = self.words(key);
        let mut values = vec![false; self.count];
        for (value, word) in values.iter_mut().zip(&words) {
            *value = word == yes;
            if word != yes && word != no {
                self.r.fail(key, format!("{key} = {word} is unknown"), Some(format!("{no}, {yes}")));
            }
        }
        values
    }

    /// `dscp`: code points of a class joined by `+`, `-` for the class of all others, `none` for none. `holds` says which
    /// classes hold packets. `None` when absent; what is wrong reads as everything in the first class.
    pub(super) fn code_points(&mut self, holds: impl Fn(usize) -> bool) -> Option<DscpTable> {
        let text: String = self.r.optional("dscp", None)?;
        let mut table = DscpTable::default();
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() != self.count {
            let allowed = Some(format!("{}: one a class", self.count));
            self.r.fail("dscp", format!("dscp has {} values", words.len()), allowed);
        }
        let mut rest = Vec::new();
        for (n, word) in words.iter().enumerate().filter(|(_, word)| **word != "none") {
            if !holds(n) {
                let message = format!("dscp = {word}: class {} of the list holds no packets", n + 1);
                self.r.fail("dscp", message, Some("none".to_owned()));
            }
            if *word == "-" {
                rest.push(n);
                continue;
            }
            for part in word.split('+') {
                match part.parse::<Dscp>() {
                    Ok(dscp) if table.find(Some(dscp.get() << 2)).is_none() => {
                        table.set(dscp, n as u8);
                    }
                    Ok(dscp) => {
                        self.r.fail("dscp", format!("code point {} is given twice", dscp.get()), None);
                    }
                    Err(e) => self.r.fail("dscp", format!("dscp: {e}"), None),
                }
            }
        }
        if rest.len() != 1 {
            let allowed = Some("exactly one class with -".to_owned());
            self.r.fail("dscp", format!("{} classes take all other packets", rest.len()), allowed);
        }
        table.set_rest(rest.first().map_or(0, |n| *n as u8));
        Some(table)
    }
}
