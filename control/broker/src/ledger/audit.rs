//! What the audit log has of each decision.

use super::Ledger;
use super::ask::{Refusal, Request, Reserve, Way};
use super::books::{Books, Resv};
use crate::record::AuditRow;
use perhop_reason::Code;
use std::fmt::Write;

/// Who decides where nobody asked.
pub const DOMAIN: &str = "domain";

/// Most octets of a text of somebody's that the log repeats.
const MOST_REPEATED: usize = 256;

impl Ledger {
    pub(super) fn audit(
        &mut self,
        who: &str,
        what: &'static str,
        subject: String,
        refused: Option<Code>,
        detail: String,
    ) {
        let (who, what) = (plain(who), what.to_owned());
        let subject = plain(&subject);
        // The number is given when the group is handed out.
        self.forming.audit.push(AuditRow {
            seq: 0,
            at_ms: self.now_ms(),
            who,
            what,
            subject,
            refused,
            detail,
        });
    }

    /// Logs a refusal, if the client has not had too many; the next one in the log says how many are missing.
    pub(super) fn audit_refusal(&mut self, owner: u32, request: &Request, refusal: &Refusal) {
        let per_second = self.settings.refusals_per_second;
        let owner = &mut self.books.owners[owner as usize];
        if owner.refusals.take(self.now, per_second).is_err() {
            owner.unlogged += 1;
            return;
        }
        let (who, unlogged) = (owner.name.to_string(), std::mem::take(&mut owner.unlogged));
        let mut detail = Json::new();
        match request {
            Request::Reserve(reserve) => detail.reserve(reserve),
            _ => detail.text("class", &refusal.class),
        }
        if !refusal.domain.is_empty() {
            detail.text("domain", &refusal.domain);
        }
        detail.text("link", &refusal.link);
        detail.number("asked", refusal.asked_bps);
        detail.number("free", refusal.free_bps);
        detail.text("message", &refusal.message);
        if unlogged > 0 {
            detail.number("unlogged", unlogged);
        }
        let subject = if refusal.link.is_empty() { subject(request) } else { refusal.link.clone() };
        self.audit(&who, what(request), subject, Some(refusal.code), detail.end());
    }
}

/// A text without what a database would not take, shortened.
fn plain(text: &str) -> String {
    if text.len() <= MOST_REPEATED && !text.bytes().any(|byte| byte.is_ascii_control()) {
        return text.to_owned();
    }
    text.chars().filter(|c| !c.is_control()).take(MOST_REPEATED).collect()
}

/// The log's word for a request.
pub(super) fn what(request: &Request) -> &'static str {
    match request {
        Request::Reserve(_) => "reserve",
        Request::Change { .. } => "change",
        Request::Renew { .. } => "renew",
        Request::Settle { .. } => "settle",
        Request::Release { .. } => "release",
    }
}

fn subject(request: &Request) -> String {
    match request {
        Request::Reserve(_) => String::new(),
        Request::Change { id, .. }
        | Request::Renew { id, .. }
        | Request::Settle { id, .. }
        | Request::Release { id } => id.to_string(),
    }
}

/// What a reservation is, for the log.
pub(super) fn resv_detail(books: &Books, resv: &Resv) -> String {
    let lane = &books.lanes[resv.lane as usize];
    let mut detail = Json::new();
    if let Some(path) = books.map.path(lane.path) {
        detail.text("from", &path.from_node);
        detail.text("to", &path.to_node);
    }
    detail.text("class", books.classes.name(lane.class));
    detail.number("bps", resv.bps);
    detail.number("expires_ms", resv.expires_ms);
    if let Some(twin) = resv.twin {
        detail.number("twin", twin);
    }
    detail.end()
}

/// A flat object of JSON.
pub(super) struct Json(String);

impl Json {
    pub fn new() -> Self {
        let mut text = String::with_capacity(128);
        text.push('{');
        Self(text)
    }

    pub fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        let _ = write!(self.0, "{number}");
    }

    /// A text, shortened; nothing if it is empty.
    pub fn text(&mut self, key: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.key(key);
        self.0.push('"');
        let mut left = MOST_REPEATED;
        for c in text.chars() {
            let Some(rest) = left.checked_sub(c.len_utf8()) else { break };
            left = rest;
            match c {
                '"' | '\\' => self.0.extend(['\\', c]),
                c if c.is_control() => {
                    let _ = write!(self.0, "\\u{:04x}", c as u32);
                }
                c => self.0.push(c),
            }
        }
        self.0.push('"');
    }

    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn reserve(&mut self, reserve: &Reserve) {
        match &reserve.way {
            Way::Between { from, to } => {
                self.text("from", from);
                self.text("to", to);
            }
            Way::Path(path) => self.number("path", *path),
            Way::Link { node, port } => {
                self.text("from", node);
                self.text("port", port);
            }
        }
        self.text("class", &reserve.class);
        self.text("idem", &reserve.idem);
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.extend(['"']);
        self.0.push_str(key);
        self.0.push_str("\":");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_client_writes_stays_a_text_of_json() {
        let nasty = "\"}\\\u{0}\u{7f}\n€\u{1f}";
        let mut json = Json::new();
        json.text("nothing", "");
        json.number("n", 7);
        json.text("text", nasty);
        json.text("long", &"€".repeat(1_000));
        let read: serde_json::Value = serde_json::from_str(&json.end()).expect("it is JSON");
        assert_eq!(read["text"], nasty);
        assert_eq!(read["n"], 7);
        assert_eq!(read["long"].as_str().map(str::len), Some(255));
        assert_eq!(read.get("nothing"), None);
    }
}
