//! One complaint about the project, and how complaints are printed.

use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Printed, does not fail the run.
    Warning,
    /// Fails the run.
    Failure,
}

/// One complaint, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path relative to the root of the project.
    pub path: String,
    /// 1-based; 0 = the file as a whole.
    pub line: usize,
    /// Whether it fails the run.
    pub level: Level,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    /// A finding that fails the run.
    pub fn failure(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, level: Level::Failure, message: message.into() }
    }

    /// A finding that is only printed.
    pub fn warning(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, level: Level::Warning, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Warning => "warning: ",
            Level::Failure => "",
        };
        match self.line {
            0 => write!(f, "{}: {level}{}", self.path, self.message),
            line => write!(f, "{}:{line}: {level}{}", self.path, self.message),
        }
    }
}

/// Prints all findings and a closing line; true when nothing fails the run.
pub fn print(findings: &[Finding]) -> bool {
    for finding in findings {
        println!("{finding}");
    }
    let failures = findings.iter().filter(|finding| finding.level == Level::Failure).count();
    println!("{failures} failures, {} warnings", findings.len() - failures);
    failures == 0
}
