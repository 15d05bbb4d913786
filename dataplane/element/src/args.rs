//! Arguments of an element as written in graph text.

use perhop_packet::{ClassId, PortId};
use std::collections::BTreeMap;
use thiserror::Error;

/// One argument: `key = value`, or a bare value. Quotes are removed; the position counts characters from the start
/// of the graph text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// `limit` in `limit = 30 ms`; `None` for a bare value.
    pub key: Option<String>,
    /// `30 ms`.
    pub value: String,
    /// Byte offset of the argument in the graph text.
    pub offset: usize,
}

/// All arguments of one element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// In the order written.
    pub list: Vec<Arg>,
    /// Byte offset of the opening parenthesis.
    pub offset: usize,
}

/// What is wrong with an argument.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ArgError {
    /// Byte offset in the graph text.
    pub offset: usize,
    /// The key concerned.
    pub key: Option<String>,
    /// What is wrong, with the value given.
    pub message: String,
    /// What is allowed.
    pub allowed: Option<String>,
}

/// Names that element constructors may refer to. Ids are interned: the same name gives the same id, never reused.
#[derive(Clone, Debug, Default)]
pub struct BuildCx {
    /// Router ports by name.
    pub ports: BTreeMap<String, PortId>,
    /// Logical classes by name.
    pub classes: BTreeMap<String, ClassId>,
}

impl BuildCx {
    /// The id of logical class `name`, made on first use.
    pub fn class(&mut self, name: &str) -> ClassId {
        let next = ClassId(self.classes.len() as u32);
        *self.classes.entry(name.to_owned()).or_insert(next)
    }
}

impl Args {
    /// The value of `key`, or the `position`-th bare value.
    pub fn find(&self, key: &str, position: Option<usize>) -> Option<&Arg> {
        self.list
            .iter()
            .find(|a| a.key.as_deref() == Some(key))
            .or_else(|| position.and_then(|n| self.list.iter().filter(|a| a.key.is_none()).nth(n)))
    }

    /// Parses the value of `key` (or the `position`-th bare value). Absent is `Ok(None)`.
    ///
    /// # Errors
    /// An [`ArgError`] at the argument, carrying the parser's message.
    pub fn parse<T>(&self, key: &str, position: Option<usize>) -> Result<Option<T>, ArgError>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        let Some(arg) = self.find(key, position) else { return Ok(None) };
        match arg.value.parse() {
            Ok(v) => Ok(Some(v)),
            Err(e) => Err(ArgError {
                offset: arg.offset,
                key: Some(key.to_owned()),
                message: format!("{key} = {}: {e}", arg.value),
                allowed: None,
            }),
        }
    }

    /// Like [`Args::parse`], but absent is an error.
    ///
    /// # Errors
    /// As [`Args::parse`], and when the argument is missing.
    pub fn require<T>(&self, key: &str, position: Option<usize>) -> Result<T, ArgError>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        self.parse(key, position)?.ok_or_else(|| ArgError {
            offset: self.offset,
            key: Some(key.to_owned()),
            message: format!("{key} is missing"),
            allowed: None,
        })
    }
}
