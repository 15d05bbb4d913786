//! What a change must not leave behind: notes to oneself, stubs, switched-off tests.

use super::{markdown, rust};
use crate::finding::Finding;

const NOTES: [&str; 3] = ["TODO", "FIXME", "XXX"];
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const PLACEHOLDER: &str = "placeholder.";

/// Notes in comments, stub macros and ignored tests in code.
pub fn in_rust(path: &str, source: &rust::Source) -> Vec<Finding> {
    let mut findings = vec![];
    for (at, word) in source.words() {
        let (before, after) = (&source.code[..at], &source.code[at + word.len()..]);
        if MACROS.contains(&word) && after.starts_with('!') {
            findings.push(finding(path, source.line_of(at) + 1, &format!("{word}!")));
        }
        if word == "ignore" && before.trim_end().ends_with("#[") {
            findings.push(finding(path, source.line_of(at) + 1, "#[ignore]"));
        }
    }
    for (number, line) in source.comments.lines().enumerate() {
        findings.extend(notes(path, number + 1, line));
        let text = line.trim().trim_start_matches(['/', '!', '*']).trim();
        if text.eq_ignore_ascii_case(PLACEHOLDER) {
            findings.push(Finding::failure(
                path,
                number + 1,
                "an empty room: give the crate content or remove it",
            ));
        }
    }
    findings
}

/// Notes in the prose of a page.
pub fn in_markdown(path: &str, text: &str) -> Vec<Finding> {
    markdown::prose(text).flat_map(|(number, line)| notes(path, number, &line)).collect()
}

/// Notes anywhere in another file.
pub fn in_text(path: &str, text: &str) -> Vec<Finding> {
    // What a fuzz target found is no text of ours.
    if path.ends_with("Cargo.lock") || path.contains("/corpus/") {
        return vec![];
    }
    text.lines().enumerate().flat_map(|(number, line)| notes(path, number + 1, line)).collect()
}

fn notes(path: &str, number: usize, line: &str) -> Vec<Finding> {
    let found = rust::words(line).filter(|(_, word)| NOTES.contains(word));
    found.map(|(_, word)| finding(path, number, word)).collect()
}

fn finding(path: &str, number: usize, what: &str) -> Finding {
    Finding::failure(
        path,
        number,
        format!("`{what}` left behind: finish it, or say in an issue what is missing"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> usize {
        in_rust("a.rs", &rust::Source::new(text)).len()
    }

    #[test]
    fn notes_stubs_and_ignored_tests_are_found() {
        assert_eq!(rust("// TODO later\nfn a() { todo!() }\n#[ignore]\n#[ignore = \"slow\"]\ndbg!(x);"), 5);
        assert_eq!(rust("//! Placeholder."), 1);
        assert_eq!(in_markdown("a.md", "FIXME this\n`FIXME` that").len(), 1);
        assert_eq!(in_text("a.toml", "# XXX\n").len(), 1);
        assert_eq!(in_text("fuzz/corpus/graph/1", "XXX").len(), 0);
    }

    #[test]
    fn words_that_only_look_alike_are_not() {
        assert_eq!(
            rust("let todo = 1; let a = \"TODO\"; // TODOS, a placeholder. It holds\nfn ignore() {}"),
            0
        );
    }
}
