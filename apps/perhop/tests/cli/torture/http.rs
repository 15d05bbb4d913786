//! A client of the controller's HTTP interface that lives through the end of whom it asks.

use super::client::{Asking, Held, Outcome, Refused, Wanted};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for an answer: a database may take five seconds, and look as long again what became of a group.
const PATIENCE: Duration = Duration::from_secs(15);

pub struct HttpClient {
    sockets: Vec<PathBuf>,
    at: usize,
    /// Without one it is the local administrator.
    token: Option<String>,
    connection: Option<BufReader<UnixStream>>,
}

impl HttpClient {
    pub fn new(sockets: Vec<PathBuf>, at: usize, token: Option<String>) -> Self {
        Self { at: at % sockets.len(), sockets, token, connection: None }
    }

    pub fn ask(&mut self, method: &str, uri: &str, body: &Value) -> Outcome<Value> {
        match self.attempt(method, uri, body) {
            Ok((200..=299, body)) => Outcome::Done(body),
            // It does not lead, or its database does not answer: another may.
            Ok((503, _)) | Err(_) => {
                self.crash();
                self.at = (self.at + 1) % self.sockets.len();
                Outcome::Unknown
            }
            Ok((status, body)) => Outcome::Refused(Refused { status, refusal: body["refusal"].clone() }),
        }
    }

    fn attempt(&mut self, method: &str, uri: &str, body: &Value) -> io::Result<(u16, Value)> {
        let mut stream = match self.connection.take() {
            Some(stream) => stream,
            None => {
                let stream = UnixStream::connect(&self.sockets[self.at])?;
                stream.set_read_timeout(Some(PATIENCE))?;
                BufReader::new(stream)
            }
        };
        let token =
            self.token.as_ref().map_or_else(String::new, |t| format!("authorization: Bearer {t}\r\n"));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let text = format!(
            "{method} {uri} HTTP/1.1\r\nhost: c\r\n{token}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(text.as_bytes())?;
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let (mut status, mut length, mut line) = (None, 0, String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let text = line.trim_end();
            if status.is_none() {
                status = Some(text.split(' ').nth(1).and_then(|n| n.parse().ok()).ok_or_else(bad)?);
            } else if text.is_empty() {
                break;
            } else if let Some(value) = text.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.parse().map_err(|_| bad())?;
            }
        }
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes)?;
        self.connection = Some(stream);
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? };
        status.map(|status| (status, body)).ok_or_else(bad)
    }

    fn held(&mut self, method: &str, uri: &str, body: &Value) -> Outcome<Held> {
        match self.ask(method, uri, body) {
            Outcome::Done(row) => Outcome::Done(Held {
                id: row["id"].as_u64().unwrap(),
                bps: row["bps"].as_u64().unwrap(),
                expires_ms: row["expires_ms"].as_u64().unwrap(),
            }),
            Outcome::Refused(refused) => Outcome::Refused(refused),
            Outcome::Unknown => Outcome::Unknown,
        }
    }
}

impl Asking for HttpClient {
    fn reserve(&mut self, wanted: &Wanted) -> Outcome<Held> {
        let mut body = json!({ "key": wanted.key, "from": wanted.from, "to": wanted.to, "class": wanted.class,
            "bps": wanted.bps, "lifetime_ms": wanted.lifetime_ms });
        if let Some(bps) = wanted.back_bps {
            body["back_bps"] = bps.into();
        }
        self.held("POST", "/v1/reservations", &body)
    }

    fn change(&mut self, id: u64, bps: u64) -> Outcome<Held> {
        self.held("PATCH", &format!("/v1/reservations/{id}"), &json!({ "bps": bps }))
    }

    fn renew(&mut self, id: u64) -> Outcome<Held> {
        self.held("POST", &format!("/v1/reservations/{id}/renew"), &Value::Null)
    }

    fn release(&mut self, id: u64) -> Outcome<()> {
        match self.ask("DELETE", &format!("/v1/reservations/{id}"), &Value::Null) {
            Outcome::Done(_) => Outcome::Done(()),
            Outcome::Refused(refused) => Outcome::Refused(refused),
            Outcome::Unknown => Outcome::Unknown,
        }
    }

    fn crash(&mut self) {
        self.connection = None;
    }
}
