//! Links from one page of the project to another, and to its files.

use super::markdown;
use crate::Result;
use crate::finding::Finding;
use crate::tree::Tree;

/// Relative links of a page that lead nowhere: no such file, or no such heading.
///
/// # Errors
/// When a page that is linked to cannot be read.
pub fn dead(path: &str, text: &str, tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = vec![];
    for (line, target) in targets(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let Some(file) = resolve(path, file) else {
            findings.push(Finding::failure(path, line, format!("link `{target}` leads out of the project")));
            continue;
        };
        if !tree.contains(&file) {
            findings.push(Finding::failure(
                path,
                line,
                format!("dead link `{target}`: there is no `{file}`"),
            ));
        } else if !anchor.is_empty() && file.ends_with(".md") {
            let page = if file == path { Some(text.to_owned()) } else { tree.text(&file)? };
            if !markdown::anchors(&page.unwrap_or_default()).iter().any(|known| known == anchor) {
                findings.push(Finding::failure(
                    path,
                    line,
                    format!("dead link `{target}`: no heading of `{file}` gives that anchor"),
                ));
            }
        }
    }
    Ok(findings)
}

/// Targets of `[text](target)`, `![text](target)` and `[name]: target`, with their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = vec![];
    for (number, line) in markdown::prose(text) {
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or(rest);
            targets.push((number, target.to_owned()));
        }
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            targets.push((number, target.split(' ').next().unwrap_or(target).to_owned()));
        }
    }
    targets
}

/// Path from the root of what `link` in the page `from` names; `None` when it climbs above the root.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> usize {
        let tree = Tree::of(&["README.md", "docs/sources.md", "core/units/src/lib.rs"]);
        dead(path, text, &tree).expect("only the page itself is read").len()
    }

    #[test]
    fn files_and_directories_are_found_from_where_the_page_is() {
        assert_eq!(check("README.md", "[a](docs/sources.md) [b](core/units/) [c](./core)"), 0);
        assert_eq!(check("docs/sources.md", "[a](../README.md) ![b](../core/units/src/lib.rs)"), 0);
        assert_eq!(check("docs/sources.md", "[a](README.md)"), 1);
        assert_eq!(check("README.md", "[a]: docs/nothing.md"), 1);
        assert_eq!(check("README.md", "[a](../elsewhere.md)"), 1);
    }

    #[test]
    fn anchors_must_be_headings() {
        assert_eq!(check("README.md", "# Two words\n[a](#two-words)"), 0);
        assert_eq!(check("README.md", "# Two words\n[a](#three-words)"), 1);
    }

    #[test]
    fn other_sites_and_code_are_not_followed() {
        assert_eq!(
            check("README.md", "[a](https://example.org/x) `[b](nothing)`\n```\n[c](nothing)\n```"),
            0
        );
    }
}
