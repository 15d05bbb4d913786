//! From tokens to a graph, collecting every error.

use super::lex::{Spanned, Token, lex};
use super::{EdgeDecl, Graph, GraphError, MAX_ERRORS, NodeDecl};
use perhop_element::Args;
use std::collections::HashMap;

/// Names are compared with all others for a hint this many times at the most.
const MAX_HINTS: usize = 20;
/// Most elements of a graph.
pub const MAX_NODES: usize = 65_536;

/// Reads graph text.
///
/// # Errors
/// Everything wrong with its form: unreadable characters, unknown and doubly declared names, broken connections, outputs
/// connected twice. At most [`MAX_ERRORS`].
pub fn parse(text: &str) -> Result<Graph, Vec<GraphError>> {
    let mut errors = Vec::new();
    let tokens = lex(text, &mut errors);
    let mut parser =
        Parser { text, tokens: &tokens, at: 0, errors, graph: Graph::default(), by_name: HashMap::new() };
    parser.graph();
    let Parser { graph, mut errors, .. } = parser;
    if errors.is_empty() {
        return Ok(graph);
    }
    errors.sort_by_key(|e| (e.line, e.column));
    errors.truncate(MAX_ERRORS);
    Err(errors)
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Spanned],
    at: usize,
    errors: Vec<GraphError>,
    graph: Graph,
    by_name: HashMap<String, usize>,
}

/// A connection whose names are looked up once everything is declared.
struct Hop {
    node: Result<usize, String>,
    input: Option<u8>,
    output: Option<u8>,
    offset: usize,
}

impl Parser<'_> {
    fn graph(&mut self) {
        let mut chains: Vec<Vec<Hop>> = Vec::new();
        while self.at < self.tokens.len() && self.errors.len() < MAX_ERRORS {
            if self.eat(&Token::Semicolon) {
                continue;
            }
            if let Err(error) = self.statement(&mut chains) {
                self.errors.push(error);
                self.skip_statement();
            }
        }
        for chain in &chains {
            for pair in chain.windows(2) {
                self.connect(&pair[0], &pair[1]);
            }
            self.loose_ends(chain);
            if self.errors.len() >= MAX_ERRORS {
                return;
            }
        }
        self.outputs_once();
    }

    fn statement(&mut self, chains: &mut Vec<Vec<Hop>>) -> Result<(), GraphError> {
        if let Some(names) = self.declaration_names() {
            let (type_name, args) = self.type_and_args()?;
            for (name, offset) in names {
                self.declare(name, type_name.clone(), args.clone(), offset);
            }
            return self.end_of_statement();
        }
        let mut chain = vec![self.hop()?];
        while self.eat(&Token::Arrow) {
            chain.push(self.hop()?);
        }
        if chain.len() < 2 && chain[0].node.is_err() {
            let at = chain[0].offset;
            let hint = Some("write `name :: Type(…);` to declare or `a -> b;` to connect".to_owned());
            return Err(GraphError::at(
                self.text,
                at,
                "this says nothing about the element".to_owned(),
                hint,
            ));
        }
        chains.push(chain);
        self.end_of_statement()
    }

    /// `a, b ::` of a plain declaration; a single name followed by `::` may also start a connection and is left to
    /// [`Parser::hop`].
    fn declaration_names(&mut self) -> Option<Vec<(String, usize)>> {
        let mut at = self.at;
        let mut names = Vec::new();
        loop {
            let Some(Spanned { token: Token::Name(name), offset }) = self.tokens.get(at) else { return None };
            names.push((name.clone(), *offset));
            match self.tokens.get(at + 1).map(|t| &t.token) {
                Some(Token::Comma) => at += 2,
                Some(Token::Declares) if names.len() > 1 => {
                    self.at = at + 2;
                    return Some(names);
                }
                _ => return None,
            }
        }
    }

    fn hop(&mut self) -> Result<Hop, GraphError> {
        let input = self.index();
        let offset = self.offset();
        let Some(Token::Name(name)) = self.next() else {
            self.at = self.at.saturating_sub(1);
            return Err(self.expected("an element"));
        };
        let node = if self.eat(&Token::Declares) {
            let (type_name, args) = self.type_and_args()?;
            Ok(self.declare(name, type_name, args, offset))
        } else if let Some(Token::Args(args)) = self.peek().cloned() {
            self.at += 1;
            let anonymous = format!("{name}@{}", self.graph.nodes.len() + 1);
            Ok(self.declare(anonymous, name, args, offset))
        } else {
            Err(name)
        };
        let output = self.index();
        Ok(Hop { node, input, output, offset })
    }

    fn type_and_args(&mut self) -> Result<(String, Args), GraphError> {
        let offset = self.offset();
        let Some(Token::Name(type_name)) = self.next() else {
            self.at = self.at.saturating_sub(1);
            return Err(self.expected("an element type"));
        };
        let args = match self.peek().cloned() {
            Some(Token::Args(args)) => {
                self.at += 1;
                args
            }
            _ => Args { list: Vec::new(), offset: offset + type_name.len() },
        };
        Ok((type_name, args))
    }

    fn declare(&mut self, name: String, type_name: String, args: Args, offset: usize) -> usize {
        if let Some(first) = self.by_name.get(&name) {
            let first = GraphError::at(self.text, self.graph.nodes[*first].offset, String::new(), None);
            let message = format!("{name} is declared already at {}:{}", first.line, first.column);
            self.errors.push(GraphError::at(self.text, offset, message, None));
        }
        if self.graph.nodes.len() >= MAX_NODES {
            let message = format!("more than {MAX_NODES} elements");
            self.errors.push(GraphError::at(self.text, offset, message, None));
            return 0;
        }
        let index = self.graph.nodes.len();
        self.by_name.entry(name.clone()).or_insert(index);
        self.graph.nodes.push(NodeDecl { name, type_name, args, offset });
        index
    }

    /// A number in brackets must belong to a connection.
    fn loose_ends(&mut self, chain: &[Hop]) {
        let first = chain.first().filter(|h| h.input.is_some()).map(|h| (h, "input", "to"));
        let last = chain.last().filter(|h| h.output.is_some()).map(|h| (h, "output", "from"));
        for (hop, what, side) in [first, last].into_iter().flatten() {
            let message = format!("this names an {what} and connects nothing {side} it");
            self.errors.push(GraphError::at(self.text, hop.offset, message, None));
        }
    }

    fn connect(&mut self, from: &Hop, to: &Hop) {
        let (Some(f), Some(t)) = (self.resolve(from), self.resolve(to)) else { return };
        self.graph.edges.push(EdgeDecl {
            from: f,
            output: from.output.unwrap_or(0),
            to: t,
            input: to.input.unwrap_or(0),
            offset: to.offset,
        });
    }

    fn resolve(&mut self, hop: &Hop) -> Option<usize> {
        let name = match &hop.node {
            Ok(index) => return Some(*index),
            Err(name) => name,
        };
        if let Some(index) = self.by_name.get(name) {
            return Some(*index);
        }
        let near = if self.errors.len() < MAX_HINTS {
            nearest(name, self.graph.nodes.iter().map(|n| n.name.as_str()))
        } else {
            None
        };
        let hint = near.map(|n| format!("did you mean {n}?"));
        let error = GraphError::at(self.text, hop.offset, format!("there is no element {name}"), hint);
        // A hop in the middle of a chain is looked at twice and reported once.
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
        None
    }

    fn outputs_once(&mut self) {
        let mut seen: HashMap<(usize, u8), usize> = HashMap::new();
        for edge in &self.graph.edges {
            if let Some(other) = seen.insert((edge.from, edge.output), edge.to) {
                let name = &self.graph.nodes[edge.from].name;
                let message = format!(
                    "output [{}] of {name} is connected to {} already",
                    edge.output, self.graph.nodes[other].name
                );
                let hint = Some("use Tee to copy packets".to_owned());
                self.errors.push(GraphError::at(self.text, edge.offset, message, hint));
            }
        }
    }

    fn end_of_statement(&mut self) -> Result<(), GraphError> {
        if self.at >= self.tokens.len() || self.eat(&Token::Semicolon) {
            return Ok(());
        }
        Err(self.expected("`->` or `;`"))
    }

    fn skip_statement(&mut self) {
        while let Some(token) = self.next() {
            if token == Token::Semicolon {
                break;
            }
        }
    }

    fn expected(&self, what: &str) -> GraphError {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Name(n)) => n.clone(),
            Some(Token::Declares) => "`::`".to_owned(),
            Some(Token::Arrow) => "`->`".to_owned(),
            Some(Token::Comma) => "`,`".to_owned(),
            Some(Token::Semicolon) => "`;`".to_owned(),
            Some(Token::Index(n)) => format!("[{n}]"),
            Some(Token::Args(_)) => "`(`".to_owned(),
        };
        GraphError::at(self.text, self.offset(), format!("expected {what}, found {found}"), None)
    }

    fn index(&mut self) -> Option<u8> {
        match self.peek() {
            Some(Token::Index(n)) => {
                let n = *n;
                self.at += 1;
                Some(n)
            }
            _ => None,
        }
    }
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }
    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }
    fn eat(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }
    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |t| t.offset)
    }
}

/// The candidate closest to `name`, when it is close enough to be meant.
pub(super) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    candidates
        .map(|c| (strsim::damerau_levenshtein(&name.to_lowercase(), &c.to_lowercase()), c))
        .min()
        .filter(|(distance, _)| *distance <= (name.len() / 3).max(1))
        .map(|(_, c)| c)
}
