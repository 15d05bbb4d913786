//! `cargo xtask lines`: how much code there is, a crate at a time.

use crate::Result;
use crate::tidy::{rust::Source, sizes::is_test_file};
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Prints the lines of each crate that hold code, and of all; those of tests, comments and blank ones do not count.
///
/// # Errors
/// When git cannot be asked or a file cannot be read.
pub fn print() -> Result<bool> {
    let tree = Tree::open()?;
    let mut crates: BTreeMap<&str, usize> = BTreeMap::new();
    for path in tree.files().filter(|path| path.ends_with(".rs") && !is_test_file(path)) {
        let (Some(text), Some((dir, _))) = (tree.text(path)?, path.split_once("/src/")) else { continue };
        *crates.entry(dir).or_default() += of(&text);
    }
    for (name, lines) in &crates {
        println!("{lines:>8} {name}");
    }
    println!("{:>8} lines of code", crates.values().sum::<usize>());
    Ok(true)
}

fn of(text: &str) -> usize {
    let source = Source::new(text);
    // Literals are blanked in the code, so a line that holds nothing else is told by the text without its comments.
    let lines = source.code.lines().zip(source.comments.lines()).zip(text.lines()).enumerate();
    let holds_code = |code: &str, comment: &str, text: &str| {
        !code.trim().is_empty() || !text.trim().is_empty() && comment.trim().is_empty()
    };
    lines
        .filter(|(n, ((code, comment), text))| !source.is_test_line(*n) && holds_code(code, comment, text))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! Doc.\n\nuse a;\nfn f() {\n    // why\n    g(\n        \"text\n  more\",\n    ); /* and */\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(of(text), 7);
    }
}
