//! Names in results of the demonstration, and how a figure is printed.

/// Group of the whole calls.
pub const CALLS: &str = "calls";
/// Group of the calls' packets sent after detection.
pub const CALLS_AFTER: &str = "calls_after_detection";
/// Group of the TCP transfers.
pub const BULK: &str = "bulk";
/// Group of the UDP flood.
pub const FLOOD: &str = "flood";
/// The congested link.
pub const UPLINK: &str = "uplink";

/// A figure with so many decimals, a dash where there is none.
pub(crate) fn figure(value: Option<f64>, decimals: usize) -> String {
    match value {
        Some(v) if v.is_finite() => {
            let text = format!("{v:.decimals$}");
            match text.strip_prefix('-') {
                // What rounds to zero has no sign.
                Some(zero) if !zero.contains(|c: char| ('1'..='9').contains(&c)) => zero.to_owned(),
                _ => text,
            }
        }
        _ => "–".to_owned(),
    }
}
