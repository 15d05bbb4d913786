//! Talking to a running router through its Unix socket.

use crate::error::AppError;
use crate::sockets::find_socket;
use perhop_serve::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio::runtime::{Builder, Runtime};

/// A running router: its client and the small runtime that the client needs.
pub struct Remote {
    client: Client,
    path: PathBuf,
    runtime: Runtime,
}

/// An answer: whether the router did what was asked, and the body.
pub struct Answer {
    /// Whether the status was 2xx.
    pub ok: bool,
    /// JSON.
    pub body: Value,
}

impl Remote {
    /// The router called `name`, or the only one there is.
    ///
    /// # Errors
    /// No such router, or several to choose from. Nothing is sent yet.
    pub fn find(name: Option<&str>) -> Result<Self, AppError> {
        let path = find_socket(name)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)?;
        Ok(Self { client: Client::new(&path), path, runtime })
    }

    /// Its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// GET.
    ///
    /// # Errors
    /// The router is not there or does not answer.
    pub fn read(&self, uri: &str) -> Result<Answer, AppError> {
        let answer = self.runtime.block_on(self.client.read(uri))?;
        Ok(Answer { ok: answer.0.is_success(), body: answer.1 })
    }

    /// POST.
    ///
    /// # Errors
    /// As [`Remote::read`].
    pub fn post<T: Serialize>(&self, uri: &str, body: &T) -> Result<Answer, AppError> {
        let answer = self.runtime.block_on(self.client.post(uri, body))?;
        Ok(Answer { ok: answer.0.is_success(), body: answer.1 })
    }
}

impl Answer {
    /// The body, if the router did what was asked.
    ///
    /// # Errors
    /// What the router refused, or a body of another shape.
    pub fn accepted<T: DeserializeOwned>(self) -> Result<T, AppError> {
        if !self.ok {
            return Err(AppError::Refused(self.complaint()));
        }
        serde_json::from_value(self.body).map_err(AppError::BadAnswer)
    }

    /// What the router says to a person beside its reply, one text each.
    pub fn messages(&self) -> Vec<String> {
        let list = self.body["messages"].as_array();
        list.into_iter().flatten().filter_map(|m| m.as_str().map(str::to_owned)).collect()
    }

    /// What the router warns of in a reply that does what was asked: texts, or items of the shape of an error.
    pub fn warnings(&self) -> Vec<String> {
        let list = self.body["warnings"].as_array();
        list.into_iter().flatten().map(|w| w.as_str().map_or_else(|| in_words(w), str::to_owned)).collect()
    }

    /// The router's reasons in words: its messages, else its errors with their paths, else the body.
    pub fn complaint(&self) -> String {
        let mut lines = self.messages();
        if lines.is_empty() {
            lines.extend(self.body["errors"].as_array().into_iter().flatten().map(in_words));
        }
        if lines.is_empty() { self.body.to_string() } else { lines.join("\n") }
    }
}

fn in_words(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("?");
    match error["path"].as_str() {
        None | Some("") => message.to_owned(),
        Some(path) => format!("{path}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(body: Value) -> Answer {
        Answer { ok: true, body }
    }

    #[test]
    fn warnings_of_a_reply_are_read_as_texts_or_as_items() {
        let none = answer(json!({ "outcome": "committed" }));
        assert_eq!(none.warnings(), [""; 0]);
        let two = answer(
            json!({ "warnings": ["plain", { "path": "class/rest", "code": "x", "message": "is the default" }] }),
        );
        assert_eq!(two.warnings(), ["plain", "class/rest: is the default"]);
    }

    #[test]
    fn a_complaint_says_places_rather_than_paths() {
        let errors = json!([{ "path": "class/ef.port", "message": "there is none" }, { "path": "", "message": "whole" }]);
        assert_eq!(answer(json!({ "errors": errors })).complaint(), "class/ef.port: there is none\nwhole");
        let both = answer(json!({ "errors": errors, "messages": ["edge.toml:2:8: wrong."] }));
        assert_eq!(both.complaint(), "edge.toml:2:8: wrong.");
        assert_eq!(answer(json!({ "else": 1 })).complaint(), r#"{"else":1}"#);
    }
}
