//! What is said about settings that cannot be, at the keys and in the units of the file.

use perhop_allocate::{Law, Settings, ThresholdConfig, Unstable, Violation};
use perhop_config::TableReader;
use perhop_units::Share;

/// Reports each violation at the key that is to be changed, unless a key that it depends on is wrong anyway.
pub(crate) fn report(table: &mut TableReader<'_>, settings: &Settings, unstable: &Unstable) {
    // What a least change may be at most is computed with the margin.
    let margin = unstable.violations.iter().any(|violation| matches!(violation, Violation::Margin { .. }));
    // Before any is reported: of a range that is empty, the start can be wrong too.
    let told: Vec<&Violation> = unstable
        .violations
        .iter()
        .filter(|violation| !keys(violation).iter().any(|key| is_wrong(table, key)))
        .filter(|violation| !(matches!(violation, Violation::LeastChange { .. }) && margin))
        .collect();
    for violation in told {
        tell(table, settings, violation);
    }
}

/// Keys that a violation depends on, the one to be changed first; those of `[class.congestion]` have a table of their
/// own.
fn keys(violation: &Violation) -> &'static [&'static str] {
    match violation {
        Violation::LeastZero { .. } => &["least"],
        Violation::RangeEmpty { .. } => &["most", "least"],
        Violation::InitialOutside { .. } => &["initial", "least", "most"],
        Violation::Granularity { .. } => &["granularity", "most", "decrease"],
        Violation::IncreaseFactor { .. } => &["increase"],
        Violation::DecreaseFactor { .. } => &["decrease"],
        Violation::UpperThreshold { .. } => &["upper"],
        Violation::LowerThreshold { .. } => &["lower"],
        Violation::Wedge { .. } => &["lower", "upper"],
        Violation::GainZero { .. } => &["gain"],
        Violation::Margin { .. } => &["margin"],
        Violation::LeastChange { .. } => &["least_change", "gain", "margin", "metering"],
        Violation::RetryOrder { .. } => &["longest_retry", "first_retry"],
        Violation::Guard { .. } => &["interval"],
        _ => &[],
    }
}

/// Whether an error is reported at a key; of those that are needed, also that they are missing.
fn is_wrong(table: &mut TableReader<'_>, key: &'static str) -> bool {
    let diagnostics = table.diagnostics();
    match table.location_of(key) {
        Some(at) => diagnostics.has_error_at(table.document().position(at)),
        None => matches!(key, "least" | "most"),
    }
}

fn tell(table: &mut TableReader<'_>, settings: &Settings, violation: &Violation) {
    let (key, message, hint) = match *violation {
        Violation::RangeEmpty { nearest, .. } => {
            ("most", format!("is below least = {nearest}"), "Exchange the two, or raise most".to_owned())
        }
        Violation::InitialOutside { nearest, .. } => {
            // Of an empty range, which is an error already, only what is outside both ends is outside.
            let (a, b) = (settings.bounds.least, settings.bounds.most);
            if (a.min(b)..=a.max(b)).contains(&settings.initial) {
                return;
            }
            let nearest = if a > b { settings.initial.clamp(b, a) } else { nearest };
            (
                "initial",
                "is outside of the range from least to most".to_owned(),
                format!("The nearest is {nearest}"),
            )
        }
        Violation::Granularity { nearest, .. } => {
            ("granularity", "is so coarse that the class could never get less".to_owned(), at_most(nearest))
        }
        Violation::IncreaseFactor { .. } => {
            ("increase", "is not above 1".to_owned(), example("increase = 1.1"))
        }
        Violation::DecreaseFactor { .. } => {
            ("decrease", "is not below 1".to_owned(), example("decrease = 0.9"))
        }
        Violation::UpperThreshold { .. } => {
            ("upper", "is not between 0 % and 100 %".to_owned(), example("upper = \"90 %\""))
        }
        Violation::LowerThreshold { .. } => {
            ("lower", "is 0: the class could never get less".to_owned(), example("lower = \"70 %\""))
        }
        Violation::Wedge { nearest_lower_ppm, nearest_upper_ppm, .. } => {
            let Law::Threshold(law) = settings.law else { return };
            return wedge(table, &law, nearest_lower_ppm, nearest_upper_ppm);
        }
        Violation::Margin { .. } => {
            ("margin", "is not between 0 % and 100 %".to_owned(), example("margin = \"10 %\""))
        }
        Violation::LeastChange { nearest, nearest_gain, .. } => (
            "least_change",
            "cannot be: the class would never grow on carried load".to_owned(),
            format!("Use at most {nearest}, a gain of at least {nearest_gain}, or metering = \"offered\""),
        ),
        Violation::RetryOrder { nearest, .. } => {
            ("longest_retry", format!("is shorter than first_retry = {nearest}"), at_least(nearest))
        }
        Violation::Guard { nearest, .. } => return guard(table, nearest),
        ref other => {
            let d = table.document().error(table.location(), format!("cannot be stable: {other}"));
            return table.diagnostics().push(d.value(""));
        }
    };
    let d = table.error(key, message).hint(hint);
    table.diagnostics().push(d);
}

fn at_most(value: impl std::fmt::Display) -> String {
    format!("Use at most {value}")
}

fn at_least(value: impl std::fmt::Display) -> String {
    format!("Use at least {value}")
}

fn example(text: &str) -> String {
    format!("Write for example {text}")
}

/// The thresholds are too near to each other for the factors, or in the wrong order.
fn wedge(table: &mut TableReader<'_>, law: &ThresholdConfig, lower_ppm: u32, upper_ppm: Option<u32>) {
    let key = if table.has("lower") || !table.has("upper") { "lower" } else { "upper" };
    let (lower, upper) = (Share::Ppm(law.lower_ppm), Share::Ppm(law.upper_ppm));
    if law.lower_ppm >= law.upper_ppm {
        let message = if key == "lower" {
            format!("is not below upper = {upper}")
        } else {
            format!("is not above lower = {lower}")
        };
        let d = table.error(key, message).hint(example("lower = \"70 %\" and upper = \"90 %\""));
        return table.diagnostics().push(d);
    }
    if is_wrong(table, "increase") || is_wrong(table, "decrease") {
        return;
    }
    let hint = match (lower_ppm, upper_ppm) {
        (0, None) => "Use factors nearer to 1".to_owned(),
        (0, Some(upper)) => format!("Use upper = \"{}\" at least, or factors nearer to 1", Share::Ppm(upper)),
        (lower, None) => format!("Use lower = \"{}\" at most", Share::Ppm(lower)),
        (lower, Some(upper)) => {
            format!(
                "Use lower = \"{}\" at most, or upper = \"{}\" at least",
                Share::Ppm(lower),
                Share::Ppm(upper)
            )
        }
    };
    let (increase, decrease) = (f64::from(law.increase_ppm) / 1e6, f64::from(law.decrease_ppm) / 1e6);
    let message = format!(
        "cannot be stable: lower = {lower} and upper = {upper} are too near for increase = {increase} and \
         decrease = {decrease}"
    );
    let d = table.error(key, message).hint(hint);
    table.diagnostics().push(d);
}

fn guard(table: &mut TableReader<'_>, nearest: perhop_units::Duration) {
    let Some(mut congestion) = table.table("congestion") else { return };
    if !is_wrong(&mut congestion, "guard") {
        let d = congestion.error("guard", "is shorter than two intervals").hint(at_least(nearest));
        congestion.diagnostics().push(d);
    }
    congestion.skip();
}
