//! Reservations and refusals in words.

use crate::table::Table;
use perhop_serve::controller::ShownReservation;
use perhop_units::{Duration, Rate};
use serde_json::Value;

/// One reservation.
pub fn line(row: &ShownReservation) -> String {
    let both = row.twin.map(|twin| format!(" (other direction: {twin})")).unwrap_or_default();
    let lives = Duration::from_millis(row.expires_ms.saturating_sub(row.created_ms));
    format!(
        "reservation {}: {} of class {} from {} to {}, for {}{both}",
        row.id,
        Rate(row.bps),
        row.class,
        row.from,
        row.to,
        lives
    )
}

/// Why not: link, class, what was asked and what is free.
pub fn refusal(body: &Value) -> Option<String> {
    let refusal = &body["refusal"];
    let code = refusal["code"].as_str()?;
    let message = refusal["message"].as_str().unwrap_or_default();
    let rate = |key: &str| refusal[key].as_u64().map(Rate);
    let named = |key: &str| refusal[key].as_str().filter(|text| !text.is_empty());
    let mut facts = Vec::new();
    facts.extend(named("domain").map(|domain| format!("domain {domain}")));
    facts.extend(named("link").map(|link| format!("link {link}")));
    facts.extend(named("class").map(|class| format!("class {class}")));
    facts.extend(rate("asked_bps").map(|asked| format!("{asked} asked")));
    facts.extend(rate("free_bps").map(|free| format!("{free} free")));
    // Where it is for want of room these facts are all of it.
    let mut text = match (code, named("link")) {
        ("no_capacity", Some(_)) => format!("{code}: {}", facts.join(", ")),
        ("peer_refused", Some(_)) => format!("{code}: {}", facts.join(", ")),
        (_, Some(_)) => format!("{code}: {message} ({})", facts.join(", ")),
        (_, None) => format!("{code}: {message}"),
    };
    if code == "unauthenticated" {
        text.push_str("\nGive --token-file FILE, or --certificate FILE and --key-file FILE.");
    }
    if let Some(ms) = refusal["retry_after_ms"].as_u64() {
        text.push_str(&format!("; try again in {}", Duration::from_millis(ms)));
    }
    Some(text)
}

/// All of them.
pub fn table(rows: &[ShownReservation], now_ms: u64) -> Table {
    let head = ["ID", "OWNER", "CLASS", "RATE", "FROM", "TO", "STATE", "ENDS IN", "TWIN", "NOTE"];
    let mut table = Table::new(head);
    for row in rows {
        let state = serde_json::to_value(row.state).ok().and_then(|s| s.as_str().map(str::to_owned));
        let left = row.expires_ms.saturating_sub(now_ms) / 1_000;
        table.row([
            row.id.to_string(),
            row.owner.clone(),
            row.class.clone(),
            Rate(row.bps).to_string(),
            row.from.clone(),
            row.to.clone(),
            state.unwrap_or_default(),
            format!("{left} s"),
            row.twin.map(|twin| twin.to_string()).unwrap_or_default(),
            row.note.clone().unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_says_link_class_asked_free_and_code() {
        let body = json!({ "refusal": { "code": "no_capacity", "message": "the class has not so much left",
            "link": "berlin/wan", "class": "voice", "asked_bps": 500_000, "free_bps": 200_000 } });
        let expected = "no_capacity: link berlin/wan, class voice, 500 kbit/s asked, 200 kbit/s free";
        assert_eq!(refusal(&body).as_deref(), Some(expected));
        assert_eq!(refusal(&json!({ "errors": [] })), None);
        let later =
            json!({ "refusal": { "code": "backend_failed", "message": "x", "retry_after_ms": 1_000 } });
        assert_eq!(refusal(&later).as_deref(), Some("backend_failed: x; try again in 1 s"));
    }
}
