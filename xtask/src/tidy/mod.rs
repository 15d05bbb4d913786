//! `cargo xtask tidy`: the text of the project.

mod functions;
mod headings;
mod leftovers;
mod links;
mod markdown;
mod places;
pub mod rust;
pub mod sizes;
mod words;

use crate::finding::Finding;
use crate::metadata;
use crate::tree::Tree;
use crate::{Result, tidy::rust::Source};

/// Everything tidy has to say.
///
/// # Errors
/// When git or cargo cannot be asked or a file cannot be read.
pub fn findings() -> Result<Vec<Finding>> {
    let tree = Tree::open()?;
    let mut findings = places::forbid_unsafe(&tree, &metadata::packages()?)?;
    for path in tree.files() {
        findings.extend(words::in_name(path));
        let Some(text) = tree.text(path)? else { continue };
        findings.extend(places::outside(path, &text));
        if path.ends_with(".rs") {
            let source = Source::new(&text);
            findings.extend(sizes::file(path, &source));
            findings.extend(functions::lengths(path, &source));
            findings.extend(headings::element(path, &text, &source));
            findings.extend(words::in_rust(path, &source));
            findings.extend(leftovers::in_rust(path, &source));
        } else if path.ends_with(".md") {
            findings.extend(links::dead(path, &text, &tree)?);
            findings.extend(words::in_markdown(path, &text));
            findings.extend(leftovers::in_markdown(path, &text));
        } else if path.ends_with("Cargo.toml") {
            findings.extend(places::inherits_lints(path, &text));
        } else {
            findings.extend(leftovers::in_text(path, &text));
        }
    }
    Ok(findings)
}

/// A reason given after `marker` in a comment: `None` without the marker, `Some("")` when the reason is missing.
fn exception<'a>(comment: &'a str, marker: &str) -> Option<&'a str> {
    let (_, rest) = comment.split_once(marker)?;
    Some(rest.trim())
}
