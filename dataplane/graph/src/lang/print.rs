//! Canonical graph text.

use super::Graph;
use std::fmt::{self, Write as _};

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            write!(f, "{} :: {}(", node.name, node.type_name)?;
            for (i, arg) in node.args.list.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                if let Some(key) = &arg.key {
                    write!(f, "{key} = ")?;
                }
                write_value(f, &arg.value)?;
            }
            f.write_str(");\n")?;
        }
        for e in &self.edges {
            f.write_str(&self.nodes[e.from].name)?;
            if e.output > 0 {
                write!(f, " [{}]", e.output)?;
            }
            f.write_str(" -> ")?;
            if e.input > 0 {
                write!(f, "[{}] ", e.input)?;
            }
            writeln!(f, "{};", self.nodes[e.to].name)?;
        }
        Ok(())
    }
}

/// Writes a value so that reading gives it back: in quotes when anything in it would be taken for punctuation.
fn write_value(f: &mut fmt::Formatter<'_>, value: &str) -> fmt::Result {
    let punctuation = |c: char| matches!(c, ',' | '(' | ')' | '[' | ']' | '{' | '}' | '=' | '"');
    if !value.is_empty() && value == value.trim() && !value.contains(punctuation) {
        return f.write_str(value);
    }
    f.write_char('"')?;
    for c in value.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}
