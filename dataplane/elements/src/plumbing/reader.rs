//! Reading an element's arguments: collects every error instead of stopping at the first.

use super::text::FromText;
use perhop_element::{ArgError, Args, BuildCx};
use perhop_packet::PortId;
use std::ops::RangeInclusive;

/// Reads typed arguments one after the other. Absent and wrong arguments read as their default; [`Reader::finish`]
/// then gives all errors at once, unknown keys included.
#[derive(Debug)]
pub struct Reader<'a> {
    args: &'a Args,
    keys: Vec<&'static str>,
    bare: usize,
    errors: Vec<ArgError>,
}

impl<'a> Reader<'a> {
    /// A reader of `args`.
    pub fn new(args: &'a Args) -> Self {
        Self { args, keys: Vec::new(), bare: 0, errors: Vec::new() }
    }

    fn know(&mut self, key: &'static str, position: Option<usize>) {
        self.keys.push(key);
        self.bare = self.bare.max(position.map_or(0, |p| p + 1));
    }

    /// The value of `key`, or of the `position`-th bare value; `None` when absent or wrong.
    pub fn optional<T>(&mut self, key: &'static str, position: Option<usize>) -> Option<T>
    where
        T: FromText,
    {
        self.know(key, position);
        let arg = self.args.find(key, position)?;
        match T::from_text(&arg.value) {
            Ok(value) => Some(value),
            Err(why) => {
                let message = format!("{key} = {}: {why}", arg.value);
                self.errors.push(ArgError {
                    offset: arg.offset,
                    key: Some(key.to_owned()),
                    message,
                    allowed: None,
                });
                None
            }
        }
    }

    /// Like [`Reader::optional`], but absent is an error; wrong or absent reads as the type's default.
    pub fn required<T>(&mut self, key: &'static str, position: Option<usize>) -> T
    where
        T: FromText + Default,
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
        unit: &str,
    ) -> T
    where
        T: FromText + Default + PartialOrd + Copy + Base,
    {
        let errors = self.errors.len();
        let value = self.required(key, position);
        if self.errors.len() > errors { *range.start() } else { self.within(key, value, range, unit) }
    }

    /// An optional value within `range`, with a default.
    pub fn optional_in<T>(
        &mut self,
        key: &'static str,
        position: Option<usize>,
        default: T,
        range: RangeInclusive<T>,
        unit: &str,
    ) -> T
    where
        T: FromText + PartialOrd + Copy + Base,
    {
        match self.optional(key, position) {
            Some(value) => self.within(key, value, range, unit),
            None => default,
        }
    }

    fn within<T: PartialOrd + Copy + Base>(
        &mut self,
        key: &'static str,
        value: T,
        range: RangeInclusive<T>,
        unit: &str,
    ) -> T {
        if range.contains(&value) {
            return value;
        }
        let (low, high) = (range.start().base(), range.end().base());
        let allowed = format!("{low} to {high} {unit}");
        self.fail(key, format!("{key} = {} {unit} is out of range", value.base()), Some(allowed));
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
        self.errors.extend(self.args.unknown(&self.keys, self.bare));
        if self.errors.is_empty() { Ok(value) } else { Err(self.errors) }
    }
}

/// Port numbers in graph text stay below this.
const PORT_LIMIT: u16 = 4096;

/// A quantity as the number of its base units, for messages.
pub trait Base {
    /// Base units.
    fn base(self) -> u64;
}
impl Base for u8 {
    fn base(self) -> u64 {
        u64::from(self)
    }
}
impl Base for u32 {
    fn base(self) -> u64 {
        u64::from(self)
    }
}
impl Base for u64 {
    fn base(self) -> u64 {
        self
    }
}
impl Base for perhop_units::Rate {
    fn base(self) -> u64 {
        self.0
    }
}
impl Base for perhop_units::Bytes {
    fn base(self) -> u64 {
        self.0
    }
}
impl Base for perhop_units::Duration {
    fn base(self) -> u64 {
        self.0
    }
}

/// The two casts every [`perhop_element::Element`] and [`perhop_element::Discipline`] carries.
macro_rules! as_any {
    () => {
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    };
}
pub(crate) use as_any;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use perhop_element::Arg;

    /// Arguments as the graph parser gives them: `key = value` or bare, separated by commas.
    pub(crate) fn args(text: &str) -> Args {
        let list = text.split(',').filter(|part| !part.trim().is_empty()).map(|part| {
            let offset = part.as_ptr() as usize - text.as_ptr() as usize;
            match part.split_once('=') {
                Some((k, v)) => Arg { key: Some(k.trim().to_owned()), value: v.trim().to_owned(), offset },
                None => Arg { key: None, value: part.trim().to_owned(), offset },
            }
        });
        Args { list: list.collect(), offset: 0 }
    }

    #[test]
    fn every_error_is_reported_at_its_place() {
        let args = args("n = 9, x = 1, m = abc");
        let mut reader = Reader::new(&args);
        assert_eq!(reader.optional_in("n", None, 1u32, 1..=8, "outputs"), 1);
        assert_eq!(reader.required::<u32>("m", None), 0);
        assert_eq!(reader.required::<u32>("k", None), 0);
        let errors = reader.finish(()).unwrap_err();
        let keys: Vec<_> = errors.iter().map(|e| (e.key.as_deref().unwrap(), e.offset)).collect();
        assert_eq!(keys, [("n", 0), ("m", 13), ("k", 0), ("x", 6)]);
        assert_eq!(errors[0].allowed.as_deref(), Some("1 to 8 outputs"));
        assert!(errors[0].message.contains("n = 9"));
    }
}
