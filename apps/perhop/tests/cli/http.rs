//! A stranger's client: HTTP/1.1 on the router's Unix socket by hand.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection that stays.
pub struct Http(BufReader<UnixStream>);

impl Http {
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a request and reads the head of the answer: status and length of the body, if it says one.
    fn begin(&mut self, method: &str, uri: &str, more: &str, body: &str) -> (u16, Option<usize>) {
        let length = body.len();
        let text =
            format!("{method} {uri} HTTP/1.1\r\nhost: r\r\n{more}content-length: {length}\r\n\r\n{body}");
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = None;
        loop {
            let line = self.line();
            if line.is_empty() {
                return (status, length);
            }
            length = line.strip_prefix("content-length: ").map(|n| n.parse().unwrap()).or(length);
        }
    }

    pub fn ask(&mut self, method: &str, uri: &str, body: &str) -> (u16, Value) {
        self.ask_with("", method, uri, body)
    }

    /// The same with more lines of the head.
    pub fn ask_with(&mut self, more: &str, method: &str, uri: &str, body: &str) -> (u16, Value) {
        let (status, length) = self.begin(method, uri, more, body);
        let mut bytes = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut bytes).unwrap();
        (status, if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() })
    }

    /// As who has a token, with a body unless that is null.
    pub fn ask_as(&mut self, token: &str, method: &str, uri: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask_with(&format!("authorization: Bearer {token}\r\n"), method, uri, &body)
    }

    pub fn read(&mut self, uri: &str) -> Value {
        let (status, body) = self.ask("GET", uri, "");
        assert_eq!(status, 200, "{uri}: {body}");
        body
    }

    pub fn submit(&mut self, transaction: &Value) -> (u16, Value) {
        self.ask("POST", "/v1/transactions", &transaction.to_string())
    }

    /// Begins to read events; the connection is for that alone from then on.
    pub fn events(mut self, uri: &str, more: &str) -> Events {
        assert_eq!(self.begin("GET", uri, more, "").0, 200);
        Events(self)
    }
}

/// Server-sent events.
pub struct Events(Http);

impl Events {
    /// The next event, after a look at its id.
    pub fn next(&mut self) -> Value {
        let mut id = None;
        loop {
            let line = self.0.line();
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.parse::<u64>().unwrap());
            }
            if let Some(text) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(text).unwrap();
                let seq = event["seq"].as_u64();
                assert!(id.is_none() || seq == id, "{line}");
                return event;
            }
        }
    }
}
