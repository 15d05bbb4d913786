//! Words with two meanings, and names that mean nothing.

use super::{markdown, rust};
use crate::finding::Finding;

/// Whether the COPS roles may be called by their abbreviations there: in what is named after COPS.
fn is_of_cops(path: &str) -> bool {
    path.split('/').any(|part| part.split('.').next() == Some("cops"))
}

const EMPTY_NAMES: [&str; 5] = ["util", "utils", "manager", "common", "misc"];
const TWO_MEANINGS: &str =
    "the abbreviation means two things: say abr, or keep the COPS role in files and folders named cops";
const TOO_SHORT: &str = "say class, conditioner or traffic-control API";

/// Names of files and directories that say nothing about what is inside.
pub fn in_name(path: &str) -> Option<Finding> {
    let empty = path.split('/').find(|part| {
        let stem = part.split('.').next().unwrap_or(part);
        EMPTY_NAMES.iter().any(|name| stem == *name || stem.ends_with(&format!("_{name}")))
    })?;
    Some(Finding::failure(path, 0, format!("`{empty}` does not say what is inside: name the idea")))
}

/// Banned words in code and comments, and accessors with a prefix that says nothing.
pub fn in_rust(path: &str, source: &rust::Source) -> Vec<Finding> {
    let mut findings = vec![];
    let mut before = ["", ""];
    for (at, word) in source.words() {
        if let Some(why) = banned_identifier(path, word) {
            findings.push(Finding::failure(path, source.line_of(at) + 1, format!("`{word}`: {why}")));
        }
        let public = before == ["pub", "fn"] || (before[1] == "fn" && before[0] == "const");
        if public && word.starts_with("get_") {
            let message = format!("`{word}`: accessors are named after what they give, without the prefix");
            findings.push(Finding::failure(path, source.line_of(at) + 1, message));
        }
        before = [before[1], word];
    }
    for (number, line) in source.comments.lines().enumerate() {
        findings.extend(prose(path, number + 1, &markdown::without_code(line)));
    }
    findings
}

/// Banned words in a page; what is quoted as code is left alone.
pub fn in_markdown(path: &str, text: &str) -> Vec<Finding> {
    markdown::prose(text).flat_map(|(number, line)| prose(path, number, &line)).collect()
}

fn prose(path: &str, number: usize, line: &str) -> Vec<Finding> {
    rust::words(line)
        .filter_map(|(_, word)| match word {
            "PEP" if !is_of_cops(path) => Some((word, TWO_MEANINGS)),
            "TC" => Some((word, TOO_SHORT)),
            _ => None,
        })
        .map(|(word, why)| Finding::failure(path, number, format!("`{word}`: {why}")))
        .collect()
}

/// Why an identifier must not be used here.
fn banned_identifier(path: &str, word: &str) -> Option<&'static str> {
    if word == "TC" {
        return Some(TOO_SHORT);
    }
    if is_of_cops(path) {
        return None;
    }
    let snake = word.split('_').any(|part| part.eq_ignore_ascii_case("pep"));
    let camel = word
        .match_indices("Pep")
        .any(|(at, found)| !word[at + found.len()..].starts_with(|c: char| c.is_ascii_lowercase()));
    (snake || camel).then_some(TWO_MEANINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> usize {
        in_rust("lab/sim/src/lib.rs", &rust::Source::new(text)).len()
    }

    #[test]
    fn the_ambiguous_abbreviations_are_found_as_words_only() {
        assert_eq!(rust("struct PepServer; let tcp_pep = 1; const TC: u8 = 0;"), 3);
        assert_eq!(rust("struct Pepper; let peppery = TCP; let TC_H_ROOT = 1;"), 0);
        assert_eq!(rust("// the PEP\n// a TC of\n// `TC` quoted, TCP, PEPs"), 2);
        assert_eq!(rust("let a = \"TWO_MEANINGS\";"), 0);
    }

    #[test]
    fn cops_keeps_its_role() {
        assert!(in_rust("control/cops/src/pep.rs", &rust::Source::new("struct Pep; // the PEP")).is_empty());
        assert!(in_markdown("docs/cops.md", "A PEP.").is_empty());
        assert_eq!(in_markdown("README.md", "A PEP and a `PEP`.").len(), 1);
    }

    #[test]
    fn prefixed_accessors_are_found() {
        assert_eq!(rust("pub fn get_rate() {} fn get_local() {} pub fn getter() {}"), 1);
        assert_eq!(rust("pub const fn get_rate() {}"), 1);
    }

    #[test]
    fn empty_names_are_found() {
        assert!(in_name("core/units/src/utils.rs").is_some());
        assert!(in_name("host/common/mod.rs").is_some());
        assert!(in_name("host/session_manager.rs").is_some());
        assert!(in_name("lab/sim/src/commonality.rs").is_none());
    }
}
