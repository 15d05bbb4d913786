//! Did you mean …?

use crate::document::shown;

/// Names longer than this are not compared: distance costs the product of the lengths.
const MAX_LENGTH: usize = 64;

/// The candidate that the writer of `given` probably meant, or `None` if none is close.
///
/// Equal but for case, `-` and `_` wins; then the smallest Damerau–Levenshtein distance, at most a third of the
/// longer name and at least one edit; ties go to the higher Jaro–Winkler similarity, then to the first. A name that
/// begins with the other one (four letters or more) also counts as close.
pub fn did_you_mean<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.is_empty() || given.len() > MAX_LENGTH {
        return None;
    }
    let plain = fold(given);
    let mut best: Option<(usize, f64, &'a str)> = None;
    for candidate in candidates.into_iter().filter(|c| c.len() <= MAX_LENGTH) {
        let other = fold(candidate);
        let longer = plain.chars().count().max(other.chars().count());
        let shorter = plain.len().min(other.len());
        let mut distance = strsim::damerau_levenshtein(&plain, &other);
        if shorter >= 4 && (plain.starts_with(&other) || other.starts_with(&plain)) {
            distance = distance.min(1);
        }
        if distance > (longer / 3).max(1) || (longer <= 2 && distance > 0) {
            continue;
        }
        let likeness = strsim::jaro_winkler(&plain, &other);
        if best.is_none_or(|(d, l, _)| distance < d || (distance == d && likeness > l)) {
            best = Some((distance, likeness, candidate));
        }
    }
    best.map(|(_, _, candidate)| candidate)
}

/// How many names a list in a message has at most.
const MAX_LISTED: usize = 12;

/// Names for a message, at most a dozen: `"a", "b"`.
pub fn quoted_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let mut quoted: Vec<String> =
        names.by_ref().take(MAX_LISTED).map(|n| format!("\"{}\"", shown(n))).collect();
    let more = names.count();
    if more > 0 {
        quoted.push(format!("and {more} more"));
    }
    quoted.join(", ")
}

fn fold(name: &str) -> String {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn close_names_only() {
        let keys = ["guarantee", "ceiling", "weight", "tier", "queue", "rate"];
        assert_eq!(did_you_mean("garantee", keys), Some("guarantee"));
        assert_eq!(did_you_mean("wieght", keys), Some("weight"));
        assert_eq!(did_you_mean("Rate", keys), Some("rate"));
        assert_eq!(did_you_mean("ceil", keys), Some("ceiling"));
        assert_eq!(did_you_mean("colour", keys), None);
        assert_eq!(did_you_mean("x", keys), None);
        assert_eq!(did_you_mean("", keys), None);
        assert_eq!(did_you_mean("best_effort", ["best-effort", "ef"]), Some("best-effort"));
    }

    #[test]
    fn nothing_for_overlong_names() {
        assert_eq!(did_you_mean(&"r".repeat(100_000), ["rate"]), None);
    }
}
