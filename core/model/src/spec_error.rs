//! Why a JSON value is not a specification, for who writes JSON.

use perhop_reason::Code;
use std::fmt;
use thiserror::Error;

/// Why a JSON value is not a specification of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {given}{}", in_place(.expected))]
pub struct SpecError {
    /// Field, e.g. `queue.limit`; `.` for the whole.
    pub path: String,
    /// Malformed or unknown_field.
    pub code: Code,
    /// What is wrong with what is there.
    pub given: String,
    /// What may be there instead, where that is known.
    pub expected: Option<Expected>,
}

/// What is allowed in place of a field, variant or value that is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// One of these names.
    Names(Vec<String>),
    /// In words, e.g. `a list`.
    Words(String),
}

/// How serde begins what ends with what it expects (`serde::de::Error`).
const FORMS: [&str; 5] =
    ["unknown field `", "unknown variant `", "invalid type: ", "invalid value: ", "invalid length "];

impl SpecError {
    /// Of what serde says about the field at `path`, in which types have the names of types of this program.
    pub(crate) fn new(path: String, message: &str) -> Self {
        let code = if message.starts_with("unknown field") { Code::UnknownField } else { Code::Malformed };
        // What is given may say so itself, and so may the messages of our own types.
        let is_serdes = FORMS.iter().any(|form| message.starts_with(form));
        let (given, expected) = match message.rsplit_once(", expected ").filter(|_| is_serdes) {
            Some((given, expected)) => (given, Some(Expected::of(expected))),
            None => (message, None),
        };
        Self { path, code, given: given.to_owned(), expected }
    }

    /// What is allowed in place of a field, variant or type that is not, where that is known.
    pub fn allowed(&self) -> Option<String> {
        self.expected.as_ref().map(|expected| match expected {
            Expected::Names(names) => names.join(", "),
            Expected::Words(words) => words.clone(),
        })
    }

    /// All of it but the path.
    pub fn message(&self) -> String {
        format!("{}{}", self.given, in_place(&self.expected))
    }
}

impl Expected {
    /// What serde says behind "expected".
    fn of(expected: &str) -> Self {
        let names = Self::Names(expected.split('`').skip(1).step_by(2).map(str::to_owned).collect());
        if names.to_string() == expected {
            return names;
        }
        let numbers = |most: u64| format!("a whole number from 0 to {most}");
        Self::Words(match expected {
            "u8" => numbers(u8::MAX.into()),
            "u16" => numbers(u16::MAX.into()),
            "u32" => numbers(u32::MAX.into()),
            "u64" => numbers(u64::MAX),
            "a sequence" => "a list".to_owned(),
            "a boolean" => "true or false".to_owned(),
            // Of a choice: one whose value has a unit, or of kinds some of which are told by their name alone.
            "string or map" => {
                "an object with one field, its unit or kind (for example {\"rate\": 1000000}), or the name of a kind".to_owned()
            }
            "internally tagged enum ColorAction" => "an object with `do`".to_owned(),
            _ if expected.starts_with("internally tagged enum ") => "an object with `type`".to_owned(),
            _ if expected.starts_with("struct ") || expected == "a map" => "an object".to_owned(),
            _ => expected.to_owned(),
        })
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(names) if names.len() == 2 => write!(f, "`{}`", names.join("` or `")),
            Self::Names(names) if names.len() > 2 => write!(f, "one of `{}`", names.join("`, `")),
            Self::Names(names) => write!(f, "`{}`", names.concat()),
            Self::Words(words) => f.write_str(words),
        }
    }
}

fn in_place(expected: &Option<Expected>) -> String {
    expected.as_ref().map_or_else(String::new, |expected| format!(", expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Spec};

    #[test]
    fn what_is_wrong_with_a_specification_says_what_is_allowed() {
        let wrong = |kind, given: &str| {
            let value: serde_json::Value = serde_json::from_str(given).expect("it is JSON");
            let error = Spec::from_value(kind, &value).expect_err("it is wrong");
            (error.code, error.path.clone(), error.allowed())
        };
        let (code, _, allowed) = wrong(Kind::Allocation, r#"{"class":"a","ceil":1}"#);
        let fields = "class, guarantee, ceiling, shared".to_owned();
        assert_eq!((code, allowed), (Code::UnknownField, Some(fields)));
        let (code, path, allowed) = wrong(Kind::Port, r#"{"mode":"router"}"#);
        assert_eq!((code, path.as_str()), (Code::Malformed, "mode"), "a value is no field");
        assert_eq!(allowed.as_deref(), Some("route, bridge"));
        let (code, _, allowed) = wrong(Kind::Port, r#"{"rate":"fast"}"#);
        let number = "a whole number from 0 to 18446744073709551615";
        assert_eq!((code, allowed.as_deref()), (Code::Malformed, Some(number)));
        let (_, path, allowed) = wrong(Kind::AbrPolicy, r#"{"priority":1,"latency":"average"}"#);
        assert_eq!((path.as_str(), allowed.as_deref()), ("latency", Some("an object with `type`")));
        let (_, path, allowed) = wrong(Kind::Class, r#"{"port":"wan","guarantee":5}"#);
        let allowed = allowed.expect("it is known");
        assert!(path == "guarantee" && allowed.contains(r#"{"rate": 1000000}"#), "{path}: {allowed}");
        assert_eq!(wrong(Kind::Allocation, "{}").2, None);
    }

    #[test]
    fn an_error_is_one_sentence() {
        let value = serde_json::json!({ "mode": "router" });
        let error = Spec::from_value(Kind::Port, &value).expect_err("it is wrong");
        assert_eq!(error.to_string(), "mode: unknown variant `router`, expected `route` or `bridge`");
        assert_eq!(error.to_string(), format!("mode: {}", error.message()));
        let value = serde_json::json!({ "rate": "fast, expected slow" });
        let error = Spec::from_value(Kind::Port, &value).expect_err("it is wrong");
        assert_eq!(error.given, "invalid type: string \"fast, expected slow\"");
        let error = Spec::from_value(Kind::Allocation, &serde_json::json!({})).expect_err("it is wrong");
        assert_eq!(error.to_string(), ".: missing field `class`");
        // A message of our own keeps all of it, whatever it quotes.
        let value = serde_json::json!({ "class": "a, expected `b` now" });
        let error = Spec::from_value(Kind::Allocation, &value).expect_err("it is wrong");
        assert!(
            error.given.contains("a, expected `b` now") && error.given.contains("is not a name"),
            "{error}"
        );
        assert_eq!(error.expected, None);
        let value = serde_json::json!({ "mode": "x`, expected `y` or `z" });
        let error = Spec::from_value(Kind::Port, &value).expect_err("it is wrong");
        let names = ["route", "bridge"].map(str::to_owned).to_vec();
        assert_eq!(error.expected, Some(Expected::Names(names)), "{error}");
    }
}
