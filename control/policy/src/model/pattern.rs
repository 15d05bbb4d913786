//! Which ports a class is on: `edge-1/wan`, `*/wan`, `edge-1/*`.

use perhop_model::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Not a port of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("is not a port of a router: ROUTER/PORT, with * for any")]
pub struct PatternError;

/// A port of a router, either of which may be any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortPattern {
    /// Router; none = every.
    pub router: Option<Name>,
    /// Port; none = every.
    pub port: Option<Name>,
}

impl PortPattern {
    /// Whether it means this port.
    pub fn has(&self, router: &Name, port: &Name) -> bool {
        self.router.as_ref().is_none_or(|name| name == router)
            && self.port.as_ref().is_none_or(|name| name == port)
    }
}

impl FromStr for PortPattern {
    type Err = PatternError;
    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (router, port) = text.split_once('/').ok_or(PatternError)?;
        let name = |text: &str| match text {
            "*" => Ok(None),
            text => Name::new(text).map(Some).map_err(|_| PatternError),
        };
        Ok(Self { router: name(router)?, port: name(port)? })
    }
}

impl fmt::Display for PortPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |name: &Option<Name>| name.as_ref().map_or("*".to_owned(), Name::to_string);
        write!(f, "{}/{}", text(&self.router), text(&self.port))
    }
}

impl TryFrom<String> for PortPattern {
    type Error = PatternError;
    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<PortPattern> for String {
    fn from(pattern: PortPattern) -> String {
        pattern.to_string()
    }
}
