//! What only the whole file shows. Whatever is wrong already is left out of the checks that depend on it.

mod abr;
mod detector;
mod filters;
mod placement;
mod ports;
mod queues;
mod schedulers;
mod traffic;
mod tree;

use super::Declared;
use super::read::Declarations;
use super::settings::RouterSettings;
use perhop_config::{Diagnostic, Diagnostics, Document, Location, Severity};
use perhop_model::AbrPolicySpec;
use perhop_units::{Duration, Rate};

/// Where checks look up places and put what they find.
#[derive(Clone, Copy)]
struct Checker<'a> {
    document: &'a Document,
    diagnostics: &'a Diagnostics,
}

/// Runs all checks. Guarantees that exceed what they share are scaled down (with a warning).
pub(super) fn all(
    document: &Document,
    diagnostics: &Diagnostics,
    router: &RouterSettings,
    declared: &mut Declarations,
) {
    let checker = Checker { document, diagnostics };
    ports::check(checker, declared);
    let tree = tree::check(checker, declared);
    queues::check(checker, declared, &tree);
    schedulers::check(checker, declared, &tree);
    filters::check(checker, declared);
    detector::check(checker, declared, &tree);
    traffic::check(checker, declared, &tree);
    abr::check(checker, declared, &tree);
    placement::check(checker, router, declared);
}

/// The checks of policies on an end host, which has no ports; `shared`: what a link has is divided between them.
pub(super) fn abr_of_host(
    document: &Document,
    diagnostics: &Diagnostics,
    policies: &[Declared<AbrPolicySpec>],
    shared: bool,
) {
    abr::check_host(Checker { document, diagnostics }, policies, shared);
}

impl Checker<'_> {
    /// Whether no error is reported at a field (or at the table, if the field is not written).
    fn sound(&self, table: Location, field: &str) -> bool {
        if !self.diagnostics.has_errors() {
            return true;
        }
        let at = self.document.lookup(table, field);
        !self.diagnostics.has_error_at(self.document.position(at))
    }

    /// A diagnostic about a field; if it is not written, at its table and under its own name.
    fn at(&self, severity: Severity, table: Location, field: &str, message: impl Into<String>) -> Diagnostic {
        let at = self.document.lookup(table, field);
        let diagnostic = match severity {
            Severity::Error => self.document.error(at, message),
            Severity::Warning => self.document.warning(at, message),
        };
        if at == table { diagnostic.key(field).value("") } else { diagnostic }
    }

    fn error(&self, table: Location, field: &str, message: impl Into<String>) -> Diagnostic {
        self.at(Severity::Error, table, field, message)
    }

    fn warning(&self, table: Location, field: &str, message: impl Into<String>) -> Diagnostic {
        self.at(Severity::Warning, table, field, message)
    }

    fn push(&self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Pushes a diagnostic that has a second place.
    fn push_with(&self, diagnostic: Diagnostic, table: Location, field: &str, text: &str) {
        let second = self.document.lookup(table, field);
        self.diagnostics.push(self.document.with_secondary(diagnostic, second, text));
    }
}

/// A time for a message, rounded up to two or three digits.
fn rounded_up(time: Duration) -> Duration {
    let mut step = 1;
    while time.0 / step >= 1_000 {
        step *= 10;
    }
    Duration(time.0.div_ceil(step).saturating_mul(step))
}

/// A rate for a message, rounded to the nearest of about four digits.
fn rounded(rate: Rate) -> Rate {
    let mut step = 1;
    while rate.0 / step >= 10_000 {
        step *= 10;
    }
    Rate((rate.0 / step).saturating_mul(step))
}
