//! Values by their path, as `--set path=value` gives them.

use std::fmt;

/// Values by path, in the order given; a later one for the same path wins. Paths are the keys of the file joined by
/// dots, elements of arrays counted from 1: `link.core.rate`, `traffic.voip.calls`, `link.core.change[1].at`,
/// `node.edge.router.port.core.rate` (into the node's router file), `variants.baseline.link.core.queue` (in that
/// variant alone).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    list: Vec<(String, String)>,
}

/// A setting that is not `path=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotASetting {
    /// What was given.
    pub given: String,
}

impl fmt::Display for NotASetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = &self.given;
        write!(f, "{given:?} is not a setting; write path=value, for example link.core.rate=4Mbit/s")
    }
}

impl std::error::Error for NotASetting {}

impl Settings {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn set(&mut self, path: impl Into<String>, value: impl Into<String>) {
        self.list.push((path.into(), value.into()));
    }

    /// Adds `path=value`.
    ///
    /// # Errors
    /// No `=`, or nothing before it.
    pub fn add(&mut self, setting: &str) -> Result<(), NotASetting> {
        match setting.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => {
                self.set(path.trim(), value.trim());
                Ok(())
            }
            _ => Err(NotASetting { given: setting.to_owned() }),
        }
    }

    /// Paths and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|(path, value)| (path.as_str(), value.as_str()))
    }

    /// The paths, in order: what expected values may depend on.
    pub fn paths(&self) -> Vec<String> {
        self.list.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl<P: Into<String>, V: Into<String>> FromIterator<(P, V)> for Settings {
    fn from_iter<I: IntoIterator<Item = (P, V)>>(settings: I) -> Self {
        Self { list: settings.into_iter().map(|(p, v)| (p.into(), v.into())).collect() }
    }
}
