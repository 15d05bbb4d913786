//! A function fits on a screen: lengths from the line of `fn` to the closing brace.

use super::sizes::is_test_file;
use super::{exception, rust::Source};
use crate::finding::Finding;

/// Lines above which a function is mentioned.
const WARN: usize = 70;
/// Lines above which a function fails.
const FAIL: usize = 120;
const MARKER: &str = "tidy-allow: function-length";

/// Checks the lengths of all functions of one file. Tests are only warned about.
pub fn lengths(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = vec![];
    let mut after_fn = false;
    for (at, word) in source.words() {
        if !std::mem::replace(&mut after_fn, word == "fn") {
            continue;
        }
        // `fn` before a name is an item; `fn(u8)` is a type, but then no word follows directly.
        if !source.code[..at].trim_end().ends_with("fn") {
            continue;
        }
        let Some(open) = source.body(at) else { continue };
        let first = source.line_of(at);
        let lines = source.line_of(source.closing(open)) + 1 - first;
        if lines <= WARN {
            continue;
        }
        let test = source.is_test_line(first) || is_test_file(path);
        match reason(source, first) {
            Some("") => {
                findings.push(Finding::failure(
                    path,
                    first + 1,
                    format!("`{MARKER}` needs a reason behind it"),
                ));
            }
            Some(_) => {}
            None if lines > FAIL && !test => findings.push(Finding::failure(
                path,
                first + 1,
                format!("function `{word}` has {lines} lines, more than {FAIL}"),
            )),
            None if lines > FAIL || !test => findings.push(Finding::warning(
                path,
                first + 1,
                format!("function `{word}` has {lines} lines, more than {WARN}"),
            )),
            None => {}
        }
    }
    findings
}

/// The reason in the comments directly above the function (attributes in between are fine) or on its first lines.
fn reason(source: &Source, first: usize) -> Option<&str> {
    let comments: Vec<&str> = source.comments.lines().collect();
    let code: Vec<&str> = source.code.lines().collect();
    let above = (0..first).rev().take_while(|&line| {
        let code = code[line].trim();
        (code.is_empty() && !comments[line].trim().is_empty()) || code.starts_with("#[")
    });
    let inside = first..(first + 2).min(comments.len());
    above.chain(inside).find_map(|line| exception(comments[line], MARKER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn function(lines: usize) -> String {
        format!("fn long(f: fn(u8) -> u8) -> u8 {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    fn levels(text: &str) -> Vec<Level> {
        lengths("a.rs", &Source::new(text)).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn lengths_are_counted_from_fn_to_brace() {
        assert_eq!(levels(&function(WARN)), []);
        assert_eq!(levels(&function(WARN + 1)), [Level::Warning]);
        assert_eq!(levels(&function(FAIL + 1)), [Level::Failure]);
        assert_eq!(levels("trait T { fn f(); }\n"), []);
    }

    #[test]
    fn an_exception_stands_above_or_inside_and_has_a_reason() {
        let long = function(FAIL + 1);
        assert_eq!(levels(&format!("// {MARKER} a table reads best in one piece\n#[inline]\n{long}")), []);
        assert_eq!(levels(&format!("/// Doc.\n// {MARKER}\n{long}")), [Level::Failure]);
        assert_eq!(levels(&format!("// {MARKER} another function's\nfn a() {{}}\n{long}")), [Level::Failure]);
    }

    #[test]
    fn tests_may_be_long() {
        assert_eq!(levels(&format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(WARN + 9))), []);
        assert_eq!(
            levels(&format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(FAIL + 9))),
            [Level::Warning]
        );
    }
}
