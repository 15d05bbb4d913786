//! Canonical graph text.

use super::Graph;
use std::fmt;

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
                // Quotes keep commas, brackets and equals signs inside a value.
                if arg.value.is_empty() || arg.value.contains([',', '(', ')', '[', ']', '{', '}', '=']) {
                    write!(f, "\"{}\"", arg.value)?;
                } else {
                    f.write_str(&arg.value)?;
                }
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
