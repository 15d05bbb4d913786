//! A file is one idea: its length without tests.

use super::{exception, rust::Source};
use crate::finding::Finding;

/// Lines without tests above which a file is mentioned.
const WARN: usize = 400;
/// Lines without tests above which a file fails.
const FAIL: usize = 800;
const MARKER: &str = "tidy-allow: file-length";

/// Checks the length of one file. Test files are not limited.
pub fn file(path: &str, source: &Source) -> Option<Finding> {
    if is_test_file(path) {
        return None;
    }
    let total = source.code.lines().count();
    let lines = (0..total).filter(|&line| !source.is_test_line(line)).count();
    if lines <= WARN {
        return None;
    }
    match source.comments.lines().find_map(|comment| exception(comment, MARKER)) {
        Some("") => Some(Finding::failure(path, 0, format!("`{MARKER}` needs a reason behind it"))),
        Some(_) => None,
        None if lines > FAIL => Some(Finding::failure(
            path,
            0,
            format!("{lines} lines without tests, more than {FAIL}: split it by ideas"),
        )),
        None => Some(Finding::warning(path, 0, format!("{lines} lines without tests, more than {WARN}"))),
    }
}

/// Whether a file holds nothing but tests.
pub fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "tests.rs"
        || name.ends_with("_tests.rs")
        || path.starts_with("tests/")
        || path.contains("/tests/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn level(path: &str, text: &str) -> Option<Level> {
        file(path, &Source::new(text)).map(|finding| finding.level)
    }

    #[test]
    fn lines_without_tests_count() {
        let body = "x();\n".repeat(FAIL + 1);
        assert_eq!(level("a.rs", &body), Some(Level::Failure));
        assert_eq!(level("a.rs", &"x();\n".repeat(WARN + 1)), Some(Level::Warning));
        assert_eq!(level("a.rs", &"x();\n".repeat(WARN)), None);
        assert_eq!(level("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{body}}}\n")), None);
        assert_eq!(level("core/wire/tests/oracle.rs", &body), None);
    }

    #[test]
    fn an_exception_needs_a_reason() {
        let body = "x();\n".repeat(FAIL + 1);
        assert_eq!(level("a.rs", &format!("// {MARKER} one table of codes\n{body}")), None);
        assert_eq!(level("a.rs", &format!("// {MARKER}\n{body}")), Some(Level::Failure));
    }
}
