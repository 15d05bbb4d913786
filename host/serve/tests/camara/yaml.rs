//! As much of YAML as the interface documents use: block mappings and sequences, scalars, literal text, and flow style on one line.

use serde_json::{Map, Value};

/// Reads a document.
pub fn read(text: &str) -> Value {
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = Reader { lines: lines.iter().map(|line| (*line).to_owned()).collect(), at: 0 };
    let (indent, _) = reader.peek().expect("a document");
    let value = reader.block(indent);
    assert!(reader.peek().is_none(), "line {}: this is beyond the subset", reader.at + 1);
    value
}

struct Reader {
    lines: Vec<String>,
    at: usize,
}

impl Reader {
    /// The next line that says something: how far it is indented, and its text.
    fn peek(&mut self) -> Option<(usize, String)> {
        loop {
            let line = self.lines.get(self.at)?;
            let text = line.trim_start();
            if text.is_empty() || text.starts_with('#') {
                self.at += 1;
                continue;
            }
            return Some((line.len() - text.len(), text.trim_end().to_owned()));
        }
    }

    fn block(&mut self, indent: usize) -> Value {
        let (_, text) = self.peek().expect("something is below a key");
        if text == "-" || text.starts_with("- ") { self.sequence(indent) } else { self.mapping(indent) }
    }

    fn sequence(&mut self, indent: usize) -> Value {
        let mut items = Vec::new();
        while let Some((at, text)) = self.peek() {
            let Some(rest) = text
                .strip_prefix('-')
                .filter(|rest| at == indent && (rest.is_empty() || rest.starts_with(' ')))
            else {
                break;
            };
            let inner = rest.trim_start();
            if inner.is_empty() {
                self.at += 1;
                let (deeper, _) = self.peek().expect("an item");
                items.push(self.block(deeper));
            } else if key_of(inner).is_some() {
                // A mapping that begins behind the dash.
                let column = indent + 1 + (rest.len() - inner.len());
                self.lines[self.at] = format!("{}{inner}", " ".repeat(column));
                items.push(self.mapping(column));
            } else {
                self.at += 1;
                items.push(scalar(inner));
            }
        }
        Value::Array(items)
    }

    fn mapping(&mut self, indent: usize) -> Value {
        let mut map = Map::new();
        while let Some((at, text)) = self.peek() {
            if at != indent || text.starts_with("- ") {
                assert!(at <= indent, "line {}: this is beyond the subset", self.at + 1);
                break;
            }
            let (key, rest) =
                key_of(&text).unwrap_or_else(|| panic!("line {}: {text:?} has no key", self.at + 1));
            self.at += 1;
            let value = match rest.chars().next() {
                None => self.below(indent),
                Some('|' | '>') => self.literal(indent),
                Some(_) => scalar(&rest),
            };
            assert!(map.insert(key.clone(), value).is_none(), "line {}: {key} is there twice", self.at);
        }
        Value::Object(map)
    }

    fn below(&mut self, indent: usize) -> Value {
        match self.peek() {
            Some((deeper, _)) if deeper > indent => self.block(deeper),
            Some((same, text)) if same == indent && text.starts_with("- ") => self.sequence(indent),
            _ => Value::Null,
        }
    }

    /// Text that is only there for people: not kept exactly.
    fn literal(&mut self, indent: usize) -> Value {
        let mut text = String::new();
        while let Some(line) = self.lines.get(self.at) {
            let inner = line.trim_start();
            if !inner.is_empty() && line.len() - inner.len() <= indent {
                break;
            }
            text += inner;
            text.push('\n');
            self.at += 1;
        }
        Value::String(text)
    }
}

/// Key and rest of a line of a mapping.
fn key_of(text: &str) -> Option<(String, String)> {
    if let Some(quote @ ('"' | '\'')) = text.chars().next() {
        let (key, rest) = text[1..].split_once(quote)?;
        return Some((key.to_owned(), uncommented(rest.strip_prefix(':')?)));
    }
    if text.starts_with(['{', '[']) {
        return None;
    }
    let (key, rest) = text.split_once(": ").or_else(|| text.strip_suffix(':').map(|key| (key, "")))?;
    Some((key.to_owned(), uncommented(rest)))
}

/// Without the comment at its end, if it is not quoted.
fn uncommented(text: &str) -> String {
    let text = text.trim();
    if text.starts_with('#') {
        return String::new();
    }
    text.to_owned()
}

fn scalar(text: &str) -> Value {
    let mut flow = Flow { text, at: 0 };
    match text.chars().next() {
        Some('{' | '[' | '"' | '\'') => flow.value(),
        _ => plain(text.split(" #").next().unwrap_or_default().trim()),
    }
}

fn plain(text: &str) -> Value {
    match text {
        "true" => return true.into(),
        "false" => return false.into(),
        "null" | "~" | "" => return Value::Null,
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    let is_decimal = text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
    match text.parse::<f64>() {
        Ok(number) if is_decimal => number.into(),
        _ => text.into(),
    }
}

/// Flow style.
struct Flow<'t> {
    text: &'t str,
    at: usize,
}

impl Flow<'_> {
    fn rest(&mut self) -> &str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Value {
        if self.take('[') {
            let mut items = Vec::new();
            while !self.take(']') {
                items.push(self.value());
                self.take(',');
            }
            return items.into();
        }
        if self.take('{') {
            let mut map = Map::new();
            while !self.take('}') {
                let key = match self.value() {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                assert!(self.take(':'), "{}", self.text);
                map.insert(key, self.value());
                self.take(',');
            }
            return map.into();
        }
        if self.take('\'') {
            let end = self.text[self.at..].find('\'').expect("a quote ends");
            let inner = self.text[self.at..self.at + end].to_owned();
            self.at += end + 1;
            return inner.into();
        }
        if self.rest().starts_with('"') {
            let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
            let value = values.next().expect("a string").expect("escapes as JSON has them");
            let length = values.byte_offset();
            self.at += length;
            return value;
        }
        let rest = self.rest().to_owned();
        let end = rest.find([',', ']', '}', ':']).unwrap_or(rest.len());
        self.at += end;
        plain(rest[..end].trim())
    }
}

#[test]
fn the_subset_is_read() {
    let text = "a: 1 # one\nb:\n  - x\n  - y: 'p: q'\n    z: [1, two, \"3\"]\n  -\n    - deep\nc: |\n  free: text\n\n  more\nd: {e: {}, \"f\": g}\n'400':\n- same\n";
    let expected = serde_json::json!({
        "a": 1, "b": ["x", { "y": "p: q", "z": [1, "two", "3"] }, ["deep"]],
        "c": "free: text\n\nmore\n", "d": { "e": {}, "f": "g" }, "400": ["same"],
    });
    assert_eq!(read(text), expected);
}
