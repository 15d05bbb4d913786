//! Markdown seen as prose: what is quoted as code is left out.

/// Lines of prose with their 1-based numbers: code blocks are dropped, inline code is blanked.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then(|| (number + 1, without_code(line)))
    })
}

/// A line with its inline code blanked.
pub fn without_code(line: &str) -> String {
    let mut in_code = false;
    line.chars()
        .map(|c| {
            if c == '`' {
                in_code = !in_code;
            }
            if in_code || c == '`' { ' ' } else { c }
        })
        .collect()
}

/// Anchors that the headings of a page give, as GitHub makes them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = vec![];
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if in_code || !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        let earlier = anchors.iter().filter(|anchor| **anchor == slug).count();
        anchors.push(if earlier == 0 { slug } else { format!("{slug}-{earlier}") });
    }
    anchors
}

fn slug(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_no_prose() {
        let lines: Vec<_> = prose("a `b` c\n```sh\nd\n```\ne").collect();
        assert_eq!(lines, [(1, "a     c".to_owned()), (5, "e".to_owned())]);
    }

    #[test]
    fn anchors_are_made_as_the_site_makes_them() {
        assert_eq!(
            anchors("# One `cargo xtask`, two!\n## Same\n## Same\n#no\n```\n# not\n```\n"),
            ["one-cargo-xtask-two", "same", "same-1"]
        );
    }
}
