//! Values written as text: quantities with units, addresses.

use perhop_units::{ParseUnitError, UnitErrorKind};
use std::fmt;
use std::str::FromStr;

/// Why a text is not the value that its key wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextError {
    /// Predicate of a sentence: `is not a rate: it has no unit`.
    pub message: String,
    /// The allowed range or list.
    pub allowed: Option<String>,
    /// What to write instead.
    pub hint: Option<String>,
}

impl TextError {
    /// Only a message: a predicate such as `is not a prefix`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// With the allowed range or list.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }

    /// With what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ParseUnitError> for TextError {
    fn from(e: ParseUnitError) -> Self {
        let not = |why: &str| Self::new(format!("is not {}: {why}", e.what));
        match e.kind {
            UnitErrorKind::NoUnit(example) => {
                not("it has no unit").hint(format!("Write for example \"{example}\""))
            }
            UnitErrorKind::UnknownUnit(units) => {
                let wrong = not("its unit is not known here").allowed(units);
                let meant: Vec<String> = e.meant().iter().map(|text| format!("\"{text}\"")).collect();
                match meant.is_empty() {
                    true if e.text.contains(',') => wrong.hint("Decimals are written with a point"),
                    true => wrong,
                    false => wrong.hint(format!("did you mean {}?", meant.join(" or "))),
                }
            }
            UnitErrorKind::UnknownName(names) => not("it is not a name known here").allowed(names),
            UnitErrorKind::OutOfRange(range) => not("it is out of range").allowed(range),
            other => not(&other.to_string()),
        }
    }
}

impl From<std::net::AddrParseError> for TextError {
    fn from(_: std::net::AddrParseError) -> Self {
        Self::new("is not an IP address").hint("Write for example \"192.0.2.1\" or \"2001:db8::1\"")
    }
}

/// A sentence without its subject: the message, then what is allowed, then the hint.
impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.allowed.iter().try_for_each(|allowed| write!(f, " (allowed: {allowed})"))?;
        self.hint.iter().try_for_each(|hint| write!(f, ". {hint}"))
    }
}

impl From<TextError> for String {
    fn from(e: TextError) -> Self {
        e.message
    }
}

/// What was read, and of a negative value the range that the caller allows.
pub fn negative_of<T>(read: Result<T, TextError>, text: &str, allowed: &str) -> Result<T, TextError> {
    read.map_err(|e| match text.trim_start().starts_with(['-', '\u{2212}']) {
        true => TextError { allowed: e.allowed.or(Some(allowed.to_owned())), ..e },
        false => e,
    })
}

/// A value that users write as text. Implemented by everything whose `FromStr` error says what is wrong in the form
/// of a [`TextError`]: the quantities of `perhop-units`, `IpAddr` and its relatives.
pub trait FromText: Sized {
    /// Reads the whole text.
    fn from_text(text: &str) -> Result<Self, TextError>;
}

impl<T> FromText for T
where
    T: FromStr,
    T::Err: Into<TextError>,
{
    fn from_text(text: &str) -> Result<Self, TextError> {
        text.parse().map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn unit_errors_become_sentences() {
        let error = |kind| TextError::from(ParseUnitError { what: "a rate", text: "10".into(), kind });
        let e = error(UnitErrorKind::NoUnit("10 Mbit/s"));
        assert_eq!(e.message, "is not a rate: it has no unit");
        assert_eq!(e.hint.as_deref(), Some("Write for example \"10 Mbit/s\""));
        assert_eq!(
            error(UnitErrorKind::UnknownUnit("bit/s, kbit/s")).allowed.as_deref(),
            Some("bit/s, kbit/s")
        );
        assert_eq!(error(UnitErrorKind::Empty).message, "is not a rate: it is empty");
        let meant = [
            ("4 mbit/s", "4 Mbit/s"),
            ("9.9 Mbps", "9.9 Mbit/s"),
            ("9 KBPS", "9 kbit/s"),
            ("20mbit", "20 Mbit/s"),
            ("10,5 Mbit/s", "10.5 Mbit/s"),
            ("1,536 Mbit/s", "1.536 Mbit/s\" or \"1536 Mbit/s"),
        ];
        for (text, meant) in meant {
            let e = TextError::from(text.parse::<perhop_units::Rate>().expect_err("no unit"));
            assert_eq!(e.hint, Some(format!("did you mean \"{meant}\"?")));
        }
        let e = TextError::from("4 apples".parse::<perhop_units::Rate>().expect_err("no unit"));
        assert_eq!(e.hint, None);
        let e = TextError::from("10,5".parse::<perhop_units::Rate>().expect_err("no unit"));
        assert_eq!(e.hint.as_deref(), Some("Decimals are written with a point"));
    }

    #[test]
    fn addresses() {
        assert!(IpAddr::from_text("2001:db8::1").is_ok());
        assert_eq!(IpAddr::from_text("10.0.0").map_err(|e| e.message), Err("is not an IP address".into()));
    }
}
