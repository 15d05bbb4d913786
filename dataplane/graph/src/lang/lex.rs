//! Tokens of the graph language.

use super::{GraphError, MAX_ERRORS};
use perhop_element::{Arg, Args};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    /// `::`
    Declares,
    /// `->`
    Arrow,
    Comma,
    Semicolon,
    /// `[n]`
    Index(u8),
    /// `( … )`
    Args(Args),
}

#[derive(Clone, Debug)]
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) offset: usize,
}

/// Splits `text`; unreadable characters are reported and skipped.
pub(super) fn lex(text: &str, errors: &mut Vec<GraphError>) -> Vec<Spanned> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() && errors.len() < MAX_ERRORS {
        let offset = at;
        let rest = &text[at..];
        let token = match bytes[at] {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("/*") => {
                match rest.find("*/") {
                    Some(end) => at += end + 2,
                    None => {
                        errors.push(GraphError::at(text, offset, "this comment has no end".to_owned(), None));
                        at = bytes.len();
                    }
                }
                continue;
            }
            b':' if rest.starts_with("::") => {
                at += 2;
                Token::Declares
            }
            b'-' if rest.starts_with("->") => {
                at += 2;
                Token::Arrow
            }
            b',' => {
                at += 1;
                Token::Comma
            }
            b';' => {
                at += 1;
                Token::Semicolon
            }
            b'[' => {
                let end = rest
                    .find([']', ';', '\n'])
                    .map_or(rest.len(), |e| e + usize::from(rest[e..].starts_with(']')));
                at += end;
                match rest[1..end].strip_suffix(']').unwrap_or("").trim().parse() {
                    Ok(n) => Token::Index(n),
                    Err(_) => {
                        let message = format!("{:?} is not an input or output number", &rest[..end]);
                        let hint = Some("write a number from 0 to 255 in brackets".to_owned());
                        errors.push(GraphError::at(text, offset, message, hint));
                        continue;
                    }
                }
            }
            b'(' => {
                let (args, end) = lex_args(text, at, errors);
                at = end;
                Token::Args(args)
            }
            b if is_name(b) => {
                let len = rest.bytes().take_while(|b| is_name(*b)).count();
                at += len;
                Token::Name(rest[..len].to_owned())
            }
            _ => {
                let c = rest.chars().next().unwrap_or(' ');
                errors.push(GraphError::at(text, offset, format!("{c:?} means nothing here"), None));
                at += c.len_utf8();
                continue;
            }
        };
        tokens.push(Spanned { token, offset });
    }
    tokens
}

/// Letters, digits and `_ @ .`; a name does not contain `-`, which starts an arrow.
pub(super) fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'@' | b'.')
}

/// Reads `( … )` from `open`; returns the arguments and the offset behind the closing parenthesis.
fn lex_args(text: &str, open: usize, errors: &mut Vec<GraphError>) -> (Args, usize) {
    let mut args = Args { list: Vec::new(), offset: open };
    let mut depth = 0usize;
    let mut quoted = false;
    let mut start = open + 1;
    let mut chars = text[open..].char_indices();
    while let Some((i, c)) = chars.next() {
        let here = open + i;
        match c {
            '"' => quoted = !quoted,
            // A backslash in quotes takes the next character's meaning away.
            '\\' if quoted => {
                chars.next();
            }
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    push_arg(text, start, here, &mut args);
                    return (args, here + 1);
                }
            }
            ',' if depth == 1 => {
                push_arg(text, start, here, &mut args);
                start = here + 1;
            }
            _ => {}
        }
    }
    let message =
        if quoted { "this argument's quotes have no end" } else { "this parenthesis is not closed" };
    errors.push(GraphError::at(text, open, message.to_owned(), None));
    (args, text.len())
}

fn push_arg(text: &str, start: usize, end: usize, args: &mut Args) {
    let raw = &text[start..end];
    let trimmed = raw.trim();
    if trimmed.is_empty() {
        return;
    }
    let offset = start + (raw.len() - raw.trim_start().len());
    let (key, value) = match split_key(trimmed) {
        Some((key, value)) => (Some(key.to_owned()), value),
        None => (None, trimmed),
    };
    args.list.push(Arg { key, value: unquote(value).unwrap_or_else(|| value.to_owned()), offset });
}

/// The content of a value that is in quotes as a whole.
fn unquote(value: &str) -> Option<String> {
    let mut chars = value.strip_prefix('"')?.chars();
    let mut content = String::new();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(content),
            '\\' => content.push(chars.next()?),
            c => content.push(c),
        }
    }
}

/// `key = value`, when what stands before the `=` is a name.
fn split_key(arg: &str) -> Option<(&str, &str)> {
    let (key, value) = arg.split_once('=')?;
    let key = key.trim();
    let is_key = !key.is_empty() && key.bytes().all(is_name);
    is_key.then(|| (key, value.trim()))
}
