//! The manual page of an element is its module doc: the same headings in the same order in every file.

use super::rust::Source;
use super::sizes::is_test_file;
use crate::finding::Finding;

const WHERE: &str = "dataplane/elements/src/";
const HEADINGS: [&str; 8] =
    ["Synopsis", "Ports", "Configuration", "Behaviour", "Counters", "Invariants", "Example", "Source"];

/// Checks the module doc of a file that implements an element or a discipline.
pub fn element(path: &str, text: &str, source: &Source) -> Option<Finding> {
    if !path.starts_with(WHERE) || is_test_file(path) || !implements(source) {
        return None;
    }
    let found = headings(text);
    if found == HEADINGS {
        return None;
    }
    let missing: Vec<&str> = HEADINGS.into_iter().filter(|heading| !found.contains(heading)).collect();
    let message = if missing.is_empty() {
        format!("module doc headings are {}; they must be exactly {}", found.join(", "), HEADINGS.join(", "))
    } else {
        format!("module doc lacks the headings {}", missing.join(", "))
    };
    Some(Finding::failure(path, 1, message))
}

/// Whether code outside tests registers an element type, or implements an element or a discipline for one type. An
/// adapter that is generic over algorithms needs no page: the files that register its algorithms have theirs.
fn implements(source: &Source) -> bool {
    let words: Vec<(usize, &str)> = source.words().collect();
    let mut generic = false;
    words.windows(2).any(|pair| {
        let [(at, name), (_, next)] = [pair[0], pair[1]];
        let after = source.code[at + name.len()..].trim_start();
        if name == "impl" {
            generic = after.starts_with('<');
        }
        let implements = matches!(name, "Element" | "Discipline") && next == "for" && !generic;
        let registers =
            name == "ElementType" && after.starts_with("= ") && source.code[..at].trim_end().ends_with(':');
        (implements || registers) && !source.is_test_line(source.line_of(at))
    })
}

/// First and second level headings of the module doc, code blocks left out.
fn headings(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let doc = text.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
    doc.filter_map(|line| {
        in_code ^= line.starts_with("```");
        if in_code {
            return None;
        }
        line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")).map(str::trim)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(doc: &[&str], code: &str) -> Option<String> {
        let doc: String = doc.iter().map(|heading| format!("//! # {heading}\n//! words\n")).collect();
        let text = format!("{doc}{code}");
        element("dataplane/elements/src/mark/dscp.rs", &text, &Source::new(&text)).map(|found| found.message)
    }

    #[test]
    fn all_headings_in_order_pass() {
        assert_eq!(check(&HEADINGS, "impl Element for Mark {}"), None);
        assert_eq!(check(&HEADINGS, "impl perhop_element::Discipline for Mark<u8> {}"), None);
    }

    #[test]
    fn a_generic_adapter_needs_no_page_but_what_registers_does() {
        assert_eq!(check(&[], "impl<M: Meter> Element for MeterElement<M> {}"), None);
        assert_eq!(check(&[], "fn types() -> Vec<ElementType> { vec![] }"), None);
        assert!(check(&[], "const TYPE: ElementType = ElementType { name: \"Mark\" };").is_some());
    }

    #[test]
    fn missing_and_misplaced_headings_are_named() {
        let missing = check(&HEADINGS[..7], "impl Element for Mark {}").expect("one is missing");
        assert!(missing.ends_with("headings Source"), "{missing}");
        let mut swapped = HEADINGS;
        swapped.swap(0, 1);
        assert!(check(&swapped, "impl Element for Mark {}").expect("order matters").contains("exactly"));
    }

    #[test]
    fn files_that_implement_nothing_need_none() {
        assert_eq!(check(&[], "pub struct TokenBucket;"), None);
        assert_eq!(check(&[], "#[cfg(test)]\nmod tests {\nimpl Element for Probe {}\n}"), None);
        assert_eq!(check(&[], "// impl Element for\nlet a = \"impl Element for\";"), None);
    }
}
