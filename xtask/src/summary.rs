//! Counting what test programs report, and keeping what the failed ones said.

use std::fmt;

/// Most lines kept of what failed tests printed: more is in the output above.
const MOST_LINES: usize = 300;

/// Tests seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed, without those that skipped themselves.
    pub passed: u64,
    /// Tests that failed, plus steps that failed without naming a test.
    pub failed: u64,
    /// Tests that printed `SKIPPED name: why`, plus ignored ones.
    pub skipped: u64,
    /// How many lines `SKIPPED name: why` were seen; the same tests also count as passed in libtest's summary.
    announced: u64,
    /// What test programs wrote under their heading `failures:`, the first [`MOST_LINES`] of it.
    failures: Vec<String>,
    /// Whether the lines that come are under that heading.
    in_failures: bool,
}

impl Counts {
    /// What failed tests printed, and their names: what somebody who sees only the end of a long output needs.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Takes a step that cannot run here.
    pub fn add_skipped_step(&mut self) {
        self.skipped += 1;
    }

    /// Takes one line of a test program's output.
    pub fn add_line(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            self.in_failures = false;
        } else if line == "failures:" {
            self.in_failures = true;
        } else if self.in_failures && self.failures.len() < MOST_LINES {
            self.failures.push(line.to_owned());
        }
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("SKIPPED ") {
            // The colon sets the announcement apart from prose that happens to start with the word.
            if rest.split_once(':').is_some_and(|(name, why)| !name.is_empty() && !why.trim().is_empty()) {
                self.announced += 1;
                self.skipped += 1;
            }
            return;
        }
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        let Some((_, numbers)) = rest.split_once(". ") else { return };
        for part in numbers.split(';') {
            let Some((number, word)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.passed.saturating_sub(self.announced);
        write!(f, "{passed} passed, {} failed, {} skipped", self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Counts {
        let mut counts = Counts::default();
        text.lines().for_each(|line| counts.add_line(line));
        counts
    }

    #[test]
    fn summaries_of_several_programs_add_up() {
        let counts = count(
            "running 3 tests\ntest a ... ok\n\
             test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s\n\
             test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.10s",
        );
        assert_eq!(counts.to_string(), "8 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_skips_itself_is_not_a_pass() {
        let counts = count(
            "---- veth stdout ----\nSKIPPED veth: no network namespaces here\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s",
        );
        assert_eq!(counts.to_string(), "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_step_that_is_skipped_is_no_test_that_passed() {
        let mut counts = count("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        counts.add_skipped_step();
        assert_eq!(counts.to_string(), "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn what_failed_tests_printed_is_kept_without_what_others_did() {
        let counts = count(
            "test a ... ok\ntest b ... FAILED\n\nsuccesses:\n\n---- a stdout ----\nfine\n\nsuccesses:\n    a\n\n\
             failures:\n\n---- b stdout ----\nleft: 1\n\nfailures:\n    b\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n   Doc-tests c",
        );
        assert_eq!(counts.failures().join("|"), "|---- b stdout ----|left: 1||    b|");
    }

    #[test]
    fn prose_about_skipping_counts_for_nothing() {
        assert_eq!(count("SKIPPED lines are counted\nSKIPPED : why\nSKIPPED name:"), Counts::default());
    }
}
