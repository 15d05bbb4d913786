//! Reading an element's arguments: collects every error instead of stopping at the first.

use crate::{Arg, ArgError, Args, BuildCx};
use perhop_packet::PortId;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads typed arguments one after the other. Absent and wrong arguments read as their default; [`Reader::finish`]
/// then gives all errors at once, unknown keys included.
#[derive(Debug)]
pub struct Reader<'a> {
    args: &'a Args,
    keys: Vec<&'static str>,
    bare: usize,
    /// Set by [`Reader::everything`]: no argument is unknown any more.
    open: bool,
    errors: Vec<ArgError>,
}

impl<'a> Reader<'a> {
    /// A reader of `args`.
    pub fn new(args: &'a Args) -> Self {
        Self { args, keys: Vec::new(), bare: 0, open: false, errors: Vec::new() }
    }

    fn know(&mut self, key: &'static str, position: Option<usize>) {
        self.keys.push(key);
        self.bare = self.bare.max(position.map_or(0, |p| p + 1));
    }

    /// The value of `key`, or of the `position`-th bare value; `None` when absent or wrong.
    pub fn optional<T>(&mut self, key: &'static str, position: Option<usize>) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.know(key, position);
        self.args.parse(key, position).unwrap_or_else(|e| {
            self.errors.push(e);
            None
        })
    }

    /// Like [`Reader::optional`], but absent is an error; wrong or absent reads as the type's default.
    pub fn required<T>(&mut self, key: &'static str, position: Option<usize>) -> T
    where
        T: FromStr + Default,
        T::Err: Display,
    {
        if self.args.find(key, position).is_none() {
            self.fail(key, format!("{key} is missing"), None);
        }
        self.optional(key, position).unwrap_or_default()
    }

    /// A required value within `range`; outside reads as its lower end.
    pub fn required_in<T>(
        &mut self,
        key: &'static str,
        position: Option<usize>,
        range: RangeInclusive<T>,
    ) -> T
    where
        T: FromStr + Default + PartialOrd + Copy + Display,
        T::Err: Display,
    {
        let errors = self.errors.len();
        let value = self.required(key, position);
        if self.errors.len() > errors { *range.start() } else { self.within(key, value, range) }
    }

    /// An optional value within `range`, with a default.
    pub fn optional_in<T>(
        &mut self,
        key: &'static str,
        position: Option<usize>,
        default: T,
        range: RangeInclusive<T>,
    ) -> T
    where
        T: FromStr + PartialOrd + Copy + Display,
        T::Err: Display,
    {
        match self.optional(key, position) {
            Some(value) => self.within(key, value, range),
            None => default,
        }
    }

    fn within<T: PartialOrd + Copy + Display>(
        &mut self,
        key: &'static str,
        value: T,
        range: RangeInclusive<T>,
    ) -> T {
        if range.contains(&value) {
            return value;
        }
        let allowed = format!("{} to {}", range.start(), range.end());
        self.fail(key, format!("{key} = {value} is out of range"), Some(allowed));
        *range.start()
    }

    /// `yes` or `no`, with a default.
    pub fn flag(&mut self, key: &'static str, default: bool) -> bool {
        self.know(key, None);
        match self.text(key, None) {
            None => default,
            Some("yes" | "true" | "on") => true,
            Some("no" | "false" | "off") => false,
            Some(other) => {
                self.fail(key, format!("{key} = {other} is neither yes nor no"), Some("yes, no".to_owned()));
                default
            }
        }
    }

    /// One of `choices`, by name; absent or wrong reads as `default`.
    pub fn choice<T: Copy>(&mut self, key: &'static str, default: T, choices: &[(&str, T)]) -> T {
        self.know(key, None);
        let Some(text) = self.text(key, None) else { return default };
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return *value;
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        self.fail(key, format!("{key} = {text} is unknown"), Some(names.join(", ")));
        default
    }

    /// The port named by `key` or the `position`-th bare value: a name of the router file, or a number.
    pub fn port(&mut self, key: &'static str, position: Option<usize>, cx: &BuildCx) -> PortId {
        let name: String = self.required(key, position);
        if let Some(port) = cx.ports.get(&name) {
            return *port;
        }
        match name.parse() {
            Ok(number @ 0..PORT_LIMIT) => PortId(number),
            _ if name.is_empty() => PortId::NONE,
            _ => {
                let names: Vec<_> = cx.ports.keys().map(String::as_str).collect();
                let allowed = format!("a port number below {PORT_LIMIT}, or one of: {}", names.join(", "));
                self.fail(key, format!("there is no port {name}"), Some(allowed));
                PortId::NONE
            }
        }
    }

    /// The text of an argument, as written.
    pub fn text(&self, key: &str, position: Option<usize>) -> Option<&'a str> {
        self.args.find(key, position).map(|a| a.value.as_str())
    }

    /// All arguments as written, for an element that reads a list.
    pub fn everything(&mut self) -> &'a [Arg] {
        self.open = true;
        &self.args.list
    }

    /// Books an error at one argument of [`Reader::everything`].
    pub fn fail_at(&mut self, arg: &Arg, message: String, allowed: Option<String>) {
        self.errors.push(ArgError { offset: arg.offset, key: arg.key.clone(), message, allowed });
    }

    /// Books an error at argument `key` (at the opening parenthesis when it is absent).
    pub fn fail(&mut self, key: &'static str, message: String, allowed: Option<String>) {
        let offset = self.args.find(key, None).map_or(self.args.offset, |a| a.offset);
        self.errors.push(ArgError { offset, key: Some(key.to_owned()), message, allowed });
    }

    /// Ends reading.
    ///
    /// # Errors
    /// Everything found wrong, and every argument that was not read.
    pub fn finish<T>(mut self, value: T) -> Result<T, Vec<ArgError>> {
        if !self.open {
            self.errors.extend(self.args.unknown(&self.keys, self.bare));
        }
        if self.errors.is_empty() { Ok(value) } else { Err(self.errors) }
    }
}

/// Port numbers in graph text stay below this.
const PORT_LIMIT: u16 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::args;

    #[test]
    fn every_error_is_reported_at_its_place() {
        let args = args("n = 9, x = 1, m = abc");
        let mut reader = Reader::new(&args);
        assert_eq!(reader.optional_in("n", None, 1u32, 1..=8), 1);
        assert_eq!(reader.required::<u32>("m", None), 0);
        assert_eq!(reader.required::<u32>("k", None), 0);
        let errors = reader.finish(()).unwrap_err();
        let keys: Vec<_> = errors.iter().map(|e| (e.key.as_deref().unwrap(), e.offset)).collect();
        assert_eq!(keys, [("n", 0), ("m", 13), ("k", 0), ("x", 6)]);
        assert_eq!(errors[0].allowed.as_deref(), Some("1 to 8"));
        assert!(errors[0].message.contains("n = 9"));
    }
}
