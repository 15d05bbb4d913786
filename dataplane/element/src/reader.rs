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
    /// What was asked for: keys, and which bare value each also is.
    keys: Vec<(&'static str, Option<usize>)>,
    /// Set by [`Reader::everything`]: no argument is unknown any more.
    open: bool,
    errors: Vec<ArgError>,
}

impl<'a> Reader<'a> {
    /// A reader of `args`.
    pub fn new(args: &'a Args) -> Self {
        Self { args, keys: Vec::new(), open: false, errors: Vec::new() }
    }

    fn know(&mut self, key: &'static str, position: Option<usize>) {
        match self.keys.iter_mut().find(|known| known.0 == key) {
            Some(known) => known.1 = known.1.or(position),
            None => self.keys.push((key, position)),
        }
    }

    /// The value of `key`, or of the `position`-th bare value; `None` when absent or wrong.
    pub fn optional<T>(&mut self, key: &'static str, position: Option<usize>) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.value(key, position, false, || None)
    }

    /// Like [`Reader::optional`], but absent is an error; wrong or absent reads as the type's default. `allowed` says
    /// what may be written.
    pub fn required<T>(&mut self, key: &'static str, position: Option<usize>, allowed: &str) -> T
    where
        T: FromStr + Default,
        T::Err: Display,
    {
        self.value(key, position, true, || Some(allowed.to_owned())).unwrap_or_default()
    }

    /// The value of `key` or the `position`-th bare value; its errors say what is `allowed`.
    fn value<T>(
        &mut self,
        key: &'static str,
        position: Option<usize>,
        required: bool,
        allowed: impl Fn() -> Option<String>,
    ) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.know(key, position);
        if required && self.text(key, position).is_none() {
            self.fail(key, format!("{key} is missing"), allowed());
        }
        self.args.parse(key, position).unwrap_or_else(|e| {
            self.errors.push(ArgError { allowed: allowed(), ..e });
            None
        })
    }

    /// A required value within `range`; outside, wrong and absent read as its lower end.
    pub fn required_in<T>(
        &mut self,
        key: &'static str,
        position: Option<usize>,
        range: RangeInclusive<T>,
    ) -> T
    where
        T: FromStr + PartialOrd + Copy + Display,
        T::Err: Display,
    {
        self.within(key, position, true, &range).unwrap_or(*range.start())
    }

    /// An optional value within `range`, with a default; outside reads as the range's lower end.
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
        self.within(key, position, false, &range).unwrap_or(default)
    }

    fn within<T>(
        &mut self,
        key: &'static str,
        position: Option<usize>,
        required: bool,
        range: &RangeInclusive<T>,
    ) -> Option<T>
    where
        T: FromStr + PartialOrd + Copy + Display,
        T::Err: Display,
    {
        let allowed = || Some(format!("{} to {}", range.start(), range.end()));
        let value = self.value(key, position, required, allowed)?;
        if range.contains(&value) {
            return Some(value);
        }
        self.fail(key, format!("{key} = {value} is out of range"), allowed());
        Some(*range.start())
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
        let allowed = || {
            let names: Vec<_> = cx.ports.keys().map(String::as_str).collect();
            Some(format!("a port number below {PORT_LIMIT}, or one of: {}", names.join(", ")))
        };
        let Some(name) = self.value::<String>(key, position, true, allowed) else { return PortId::NONE };
        if let Some(port) = cx.ports.get(&name) {
            return *port;
        }
        if let Ok(number @ 0..PORT_LIMIT) = name.parse() {
            return PortId(number);
        }
        self.fail(key, format!("there is no port {name}"), allowed());
        PortId::NONE
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

    /// Books an error at argument `key`, named or bare (at the opening parenthesis when it is absent).
    pub fn fail(&mut self, key: &'static str, message: String, allowed: Option<String>) {
        let position = self.keys.iter().find(|known| known.0 == key).and_then(|known| known.1);
        let offset = self.args.find(key, position).map_or(self.args.offset, |a| a.offset);
        self.errors.push(ArgError { offset, key: Some(key.to_owned()), message, allowed });
    }

    /// Ends reading.
    ///
    /// # Errors
    /// Everything found wrong, every argument that was not read, and every one that says again what another has said.
    pub fn finish<T>(mut self, value: T) -> Result<T, Vec<ArgError>> {
        self.check_each_once();
        if self.errors.is_empty() { Ok(value) } else { Err(self.errors) }
    }

    fn check_each_once(&mut self) {
        let mut given: Vec<Option<&Arg>> = vec![None; self.keys.len()];
        let mut bare = 0..;
        for arg in &self.args.list {
            let position = if arg.key.is_none() { bare.next() } else { None };
            let known = self.keys.iter().position(|(key, at)| match &arg.key {
                Some(name) => name == key,
                None => *at == position,
            });
            let (message, allowed) = match (known, &arg.key) {
                (Some(n), _) => match given[n].replace(arg) {
                    None => continue,
                    Some(first) => {
                        let message =
                            format!("{} is given twice: {} and {}", self.keys[n].0, first.value, arg.value);
                        (message, "one of them".to_owned())
                    }
                },
                (None, _) if self.open => continue,
                (None, Some(name)) => (format!("unknown argument {name}"), self.key_names()),
                (None, None) => (format!("unexpected value {}", arg.value), self.key_names()),
            };
            self.fail_at(arg, message, Some(allowed));
        }
    }

    /// The keys that were asked for, for messages.
    fn key_names(&self) -> String {
        let names: Vec<_> = self.keys.iter().map(|known| known.0).collect();
        if names.is_empty() { "no arguments".to_owned() } else { names.join(", ") }
    }
}

/// Port numbers in graph text stay below this.
const PORT_LIMIT: u16 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::args;

    /// What is wrong with the arguments `text`: `offset: message; allowed`.
    fn wrong(text: &str, read: impl FnOnce(&mut Reader<'_>)) -> Vec<String> {
        let args = args(text);
        let mut reader = Reader::new(&args);
        read(&mut reader);
        let errors = reader.finish(()).expect_err("something is wrong");
        let text = |e: ArgError| format!("{}: {}; {}", e.offset, e.message, e.allowed.unwrap_or_default());
        errors.into_iter().map(text).collect()
    }

    #[test]
    fn every_error_is_reported_at_its_place_with_what_is_allowed() {
        let found = wrong("n = 9,x = 1,m = abc,l = abc", |r| {
            assert_eq!(r.optional_in("n", None, 1_u32, 1..=8), 1);
            assert_eq!(r.required::<u32>("m", None, "a number"), 0);
            assert_eq!(r.required::<u32>("k", None, "a number"), 0);
            assert_eq!(r.optional_in("l", None, 5_u32, 1..=8), 5);
            assert_eq!(r.required_in("j", None, 2_u32..=8), 2);
        });
        let expected = [
            "0: n = 9 is out of range; 1 to 8",
            "12: m = abc: invalid digit found in string; a number",
            "0: k is missing; a number",
            "20: l = abc: invalid digit found in string; 1 to 8",
            "0: j is missing; 2 to 8",
            "6: unknown argument x; n, m, k, l, j",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_bare_value_has_its_place_too() {
        let found = wrong("1,9,abc,7,8", |r| {
            assert_eq!(r.required_in("a", Some(0), 1_u32..=8), 1);
            assert_eq!(r.required_in("b", Some(1), 1_u32..=8), 1);
            assert_eq!(r.required_in("c", Some(2), 1_u32..=8), 1);
            assert_eq!(r.optional::<u32>("d", Some(3)), Some(7));
            r.fail("d", "d = 7 is odd".to_owned(), Some("even numbers".to_owned()));
        });
        let expected = [
            "2: b = 9 is out of range; 1 to 8",
            "4: c = abc: invalid digit found in string; 1 to 8",
            "8: d = 7 is odd; even numbers",
            "10: unexpected value 8; a, b, c, d",
        ];
        assert_eq!(found, expected);
        assert_eq!(wrong("5", |_| ()), ["0: unexpected value 5; no arguments"]);
    }

    #[test]
    fn nothing_is_given_twice() {
        let one = |r: &mut Reader<'_>| assert_eq!(r.optional_in("n", Some(0), 1_u32, 1..=8), 6);
        assert_eq!(wrong("5,n = 6", one), ["2: n is given twice: 5 and 6; one of them"]);
        assert_eq!(wrong("n = 6,5", one), ["6: n is given twice: 6 and 5; one of them"]);
        assert_eq!(wrong("n = 6,n = 7", one), ["6: n is given twice: 6 and 7; one of them"]);
        let two = |r: &mut Reader<'_>| {
            one(r);
            assert_eq!(r.optional_in("m", Some(1), 1_u32, 1..=8), 4);
        };
        let expected = ["6: m is given twice: 4 and 3; one of them", "8: unexpected value 2; n, m"];
        assert_eq!(wrong("6,m=4,3,2", two), expected);
    }

    #[test]
    fn ports_are_names_or_numbers() {
        let cx = BuildCx { ports: [("wan".to_owned(), PortId(7))].into(), ..BuildCx::default() };
        for (text, port) in [("wan", PortId(7)), ("port = 4095", PortId(4095))] {
            assert_eq!(Reader::new(&args(text)).port("port", Some(0), &cx), port);
        }
        let allowed = "a port number below 4096, or one of: wan";
        for (text, message) in
            [("", "port is missing"), ("lan", "there is no port lan"), ("4096", "there is no port 4096")]
        {
            let found = wrong(text, |r| assert_eq!(r.port("port", Some(0), &cx), PortId::NONE));
            assert_eq!(found, [format!("0: {message}; {allowed}")]);
        }
    }
}
