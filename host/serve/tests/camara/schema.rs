//! Whether a value is what the interface documents say: every keyword that they use, and a panic at any other.

use super::yaml;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Keywords that say nothing of what is valid.
const REMARKS: [&str; 8] =
    ["description", "example", "examples", "discriminator", "externalDocs", "writeOnly", "readOnly", "title"];
const FILES: [&str; 4] =
    ["quality-on-demand.yaml", "qos-profiles.yaml", "CAMARA_common.yaml", "CAMARA_event_common.yaml"];

/// The documents.
pub struct Documents(BTreeMap<&'static str, Value>);

/// A part of a document.
#[derive(Clone, Copy)]
pub struct Part<'d> {
    file: &'static str,
    value: &'d Value,
}

impl Documents {
    pub fn read(folder: &Path) -> Self {
        let of = |file: &&'static str| {
            let text = std::fs::read_to_string(folder.join(file)).expect("the document is there");
            (*file, yaml::read(&text))
        };
        Self(FILES.iter().map(of).collect())
    }

    /// What a reference in a document leads to.
    fn find<'d>(&'d self, from: &'static str, reference: &str) -> Part<'d> {
        let (file, pointer) = reference.split_once('#').unwrap_or(("", reference));
        let file = file.rsplit('/').next().filter(|file| !file.is_empty()).unwrap_or(from);
        let file = FILES.into_iter().find(|known| *known == file).unwrap_or_else(|| panic!("{reference}"));
        let value =
            self.0[file].pointer(pointer).unwrap_or_else(|| panic!("{file}: {reference} leads nowhere"));
        self.resolved(Part { file, value })
    }

    fn resolved<'d>(&'d self, part: Part<'d>) -> Part<'d> {
        match part.value.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.find(part.file, reference),
            None => part,
        }
    }

    /// A schema as the scenarios name it: of a document, or of what all have in common.
    pub fn schema<'d>(&'d self, file: &'static str, reference: &str) -> Part<'d> {
        let pointer = reference.split_once('#').map_or(reference, |(_, pointer)| pointer);
        let own = if reference.contains("CAMARA_common") { None } else { self.0[file].pointer(pointer) };
        let file = if own.is_some() { file } else { "CAMARA_common.yaml" };
        self.find(file, &format!("#{pointer}"))
    }

    /// The schema of what an operation answers with a status; none = no body.
    pub fn answer<'d>(&'d self, file: &'static str, operation: &str, status: u16) -> Option<Part<'d>> {
        let paths = self.0[file]["paths"].as_object().expect("paths");
        let mut operations = paths.values().flat_map(|path| path.as_object().expect("operations").values());
        let own = operations.find(|o| o["operationId"] == operation);
        let own = own.unwrap_or_else(|| panic!("{operation} is no operation"));
        let response = own["responses"].get(status.to_string());
        let response = response.unwrap_or_else(|| panic!("{operation} has no answer of status {status}"));
        let response = self.resolved(Part { file, value: response });
        let schema = response.value.pointer("/content/application~1json/schema")?;
        Some(self.resolved(Part { file: response.file, value: schema }))
    }

    /// Everything in which a value is not of a schema.
    pub fn errors(&self, schema: Part<'_>, value: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        self.check(schema, value, "$", &mut errors);
        errors
    }

    fn fits(&self, schema: Part<'_>, value: &Value) -> bool {
        self.errors(schema, value).is_empty()
    }

    fn check(&self, schema: Part<'_>, value: &Value, at: &str, errors: &mut Vec<String>) {
        let schema = self.resolved(schema);
        let of = |value| Part { file: schema.file, value };
        for (keyword, rule) in schema.value.as_object().expect("a schema is a mapping") {
            let number = || rule.as_f64().expect("a number");
            let all = || rule.as_array().expect("a list").iter();
            let good = match keyword.as_str() {
                "allOf" => {
                    all().for_each(|rule| self.check(of(rule), value, at, errors));
                    true
                }
                "oneOf" => all().filter(|rule| self.fits(of(rule), value)).count() == 1,
                "anyOf" => all().any(|rule| self.fits(of(rule), value)),
                "type" => match rule.as_str().expect("a type") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "boolean" => value.is_boolean(),
                    other => panic!("type {other}"),
                },
                "required" => all().all(|key| value.get(key.as_str().expect("a key")).is_some()),
                "properties" => {
                    for (key, rule) in rule.as_object().expect("properties") {
                        if let Some(value) = value.get(key) {
                            self.check(of(rule), value, &format!("{at}.{key}"), errors);
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    assert_eq!(rule, &Value::Bool(false), "no other is used");
                    let own = schema.value["properties"].as_object().expect("properties");
                    value.as_object().is_none_or(|map| map.keys().all(|key| own.contains_key(key)))
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(of(rule), item, &format!("{at}[{index}]"), errors);
                    }
                    true
                }
                "enum" => all().any(|one| one == value),
                "minimum" => value.as_f64().is_none_or(|n| n >= number()),
                "maximum" => value.as_f64().is_none_or(|n| n <= number()),
                "minLength" => value.as_str().is_none_or(|s| s.chars().count() as f64 >= number()),
                "maxLength" => value.as_str().is_none_or(|s| s.chars().count() as f64 <= number()),
                "minItems" => value.as_array().is_none_or(|a| a.len() as f64 >= number()),
                "maxItems" => value.as_array().is_none_or(|a| a.len() as f64 <= number()),
                "minProperties" => value.as_object().is_none_or(|o| o.len() as f64 >= number()),
                "maxProperties" => value.as_object().is_none_or(|o| o.len() as f64 <= number()),
                "uniqueItems" => {
                    value.as_array().is_none_or(|a| (1..a.len()).all(|i| !a[..i].contains(&a[i])))
                }
                "pattern" => value.as_str().is_none_or(|s| matches(rule.as_str().expect("a pattern"), s)),
                "format" => value.as_str().is_none_or(|s| is(rule.as_str().expect("a format"), s)),
                remark => {
                    assert!(REMARKS.contains(&remark), "keyword {remark}");
                    true
                }
            };
            if !good {
                errors.push(format!("{at}: {value} is against {keyword}: {rule}"));
            }
        }
    }
}

/// The patterns that are used, each by hand.
fn matches(pattern: &str, text: &str) -> bool {
    let bytes = text.as_bytes();
    let prefix_of = |most: u32| match text.split_once('/') {
        None => Some(text),
        Some((address, n)) => n.parse::<u32>().is_ok_and(|n| n <= most).then_some(address),
    };
    match pattern {
        r"^[a-zA-Z0-9-_:;.\/<>{}]{0,256}$" => {
            bytes.len() <= 256 && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_:;./<>{}".contains(b))
        }
        r"^\+[1-9][0-9]{4,14}$" => {
            text.starts_with('+')
                && (6..=16).contains(&bytes.len())
                && bytes[1] != b'0'
                && bytes[1..].iter().all(u8::is_ascii_digit)
        }
        r"^https:\/\/.+$" => text.len() > 8 && text.starts_with("https://"),
        r"^[a-zA-Z0-9_.-]+$" => {
            !text.is_empty() && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(b))
        }
        p if p.starts_with("^([01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])") => {
            prefix_of(32).is_some_and(|address| address.parse::<Ipv4Addr>().is_ok())
        }
        p if p.starts_with("^[0-9a-fA-F:.]+") => prefix_of(128)
            .is_some_and(|address| address.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b))),
        p if p.starts_with(r"^[^\u0000-\u0008") => {
            !text.chars().any(|c| c.is_control() && !"\t\n\r".contains(c))
        }
        other => panic!("pattern {other}"),
    }
}

fn is(format: &str, text: &str) -> bool {
    match format {
        "uuid" => {
            let groups: Vec<usize> = text.split('-').map(str::len).collect();
            groups == [8, 4, 4, 4, 12] && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
        }
        "date-time" => text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T',
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uri" => text.contains("://"),
        "uri-reference" => !text.is_empty() && !text.contains(' '),
        "int32" => true,
        other => panic!("format {other}"),
    }
}
