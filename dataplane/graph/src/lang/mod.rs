//! The graph language: `name :: Type(args);  a -> b [1] -> c;`.
//!
//! ```text
//! statement   = declaration | connection
//! declaration = name { "," name } "::" Type [ "(" args ")" ]
//! connection  = hop { "->" hop }                      (at least two hops)
//! hop         = [ "[" input "]" ] node [ "[" output "]" ]
//! node        = name | name "::" Type [ "(" args ")" ] | Type "(" args ")"
//! args        = arg { "," arg }        arg = [ key "=" ] value       (brackets nest)
//! ```
//! A value in double quotes may contain anything; a backslash in it takes the next character as it is.
//! Statements end in `;`. `//` and `/* */` are comments. A node that is only a type with parentheses is anonymous and
//! called `Type@N`. An index that is left out is 0.

mod build;
mod lex;
mod parse;
mod print;

pub use build::{Built, BuiltNode, build, check_between_ports};
pub use parse::parse;

use perhop_element::Args;
use thiserror::Error;

/// Most errors that are reported at once.
pub const MAX_ERRORS: usize = 1000;

/// A declared element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDecl {
    /// Name, unique in the graph.
    pub name: String,
    /// Element type.
    pub type_name: String,
    /// Arguments.
    pub args: Args,
    /// Byte offset of the declaration.
    pub offset: usize,
}

/// A connection between declared elements, by index into [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeDecl {
    /// Sender.
    pub from: usize,
    /// Its output.
    pub output: u8,
    /// Receiver.
    pub to: usize,
    /// Its input.
    pub input: u8,
    /// Byte offset of the arrow.
    pub offset: usize,
}

/// A parsed graph: names resolved, nothing known of types yet. Its `Display` is canonical text that parses to the
/// same graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Elements in order of declaration.
    pub nodes: Vec<NodeDecl>,
    /// Connections in order.
    pub edges: Vec<EdgeDecl>,
}

/// One thing wrong with a graph text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}:{column}: {message}{}", hint.as_ref().map(|h| format!("; {h}")).unwrap_or_default())]
pub struct GraphError {
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl GraphError {
    /// An error at byte `offset` of `text`.
    pub fn at(text: &str, offset: usize, message: String, hint: Option<String>) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        Self { line, column, message, hint }
    }
}

impl Graph {
    /// Index of the element called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }
}
