//! Command lines as a shell splits them, without expansions.

use thiserror::Error;

/// Why a text is not a command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// Nothing in it.
    #[error("is an empty command line")]
    Empty,
    /// A quotation mark without its other half.
    #[error("has a {0} that is never closed")]
    Unclosed(char),
    /// A backslash with nothing after it.
    #[error("ends with a backslash")]
    Backslash,
}

/// Splits at blanks. Single quotes keep everything, double quotes all but `\"` and `\\`, a backslash outside keeps the
/// next character.
///
/// # Errors
/// See [`CommandError`].
pub fn split(text: &str) -> Result<Vec<String>, CommandError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                quoted(c, &mut characters, word)?;
            }
            '\\' => word.get_or_insert_default().push(characters.next().ok_or(CommandError::Backslash)?),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) { Err(CommandError::Empty) } else { Ok(words) }
}

fn quoted(quote: char, from: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), CommandError> {
    while let Some(c) = from.next() {
        match c {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => match from.next() {
                Some(kept @ ('"' | '\\')) => word.push(kept),
                Some(other) => word.extend(['\\', other]),
                None => return Err(CommandError::Unclosed(quote)),
            },
            c => word.push(c),
        }
    }
    Err(CommandError::Unclosed(quote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let split = |text| split(text).map(|words| words.join("|"));
        assert_eq!(split("ping  -c 10\t10.0.0.2"), Ok("ping|-c|10|10.0.0.2".into()));
        assert_eq!(
            split(r#"sh -c 'echo "a b"' x\ y "q\"\\\n" '' "#),
            Ok(r#"sh|-c|echo "a b"|x y|q"\\n|"#.into())
        );
        assert_eq!(split("a'b'\"c\""), Ok("abc".into()));
        assert_eq!(split(" \n"), Err(CommandError::Empty));
        assert_eq!(split("a 'b"), Err(CommandError::Unclosed('\'')));
        assert_eq!(split("a \"b\\"), Err(CommandError::Unclosed('"')));
        assert_eq!(split("a \\"), Err(CommandError::Backslash));
    }
}
