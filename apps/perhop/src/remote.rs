//! Talking to a running router through its Unix socket.

use crate::error::AppError;
use perhop_engine::state_path;
use perhop_serve::{Client, SocketError, check, check_file, runtime_directories, socket_path};
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

/// Whether a text can be a router's name: it becomes the name of a file.
///
/// # Errors
/// Why not.
pub fn check_name(name: &str) -> Result<&str, AppError> {
    let bad = |why| Err(AppError::BadName { name: name.chars().take(80).collect(), why });
    if perhop_model::Name::new(name).is_err() {
        return bad("1 to 128 characters of A-Z a-z 0-9 . _ : - are allowed");
    }
    if name.contains('/') || name.starts_with('.') {
        return bad("it names a file, so it has no / and does not begin with a dot");
    }
    Ok(name)
}

/// Checks that the state file of a router, old and new, is none that leads elsewhere.
///
/// # Errors
/// It is a link or something else that is no file.
pub fn check_state_file(directory: &Path, name: &str) -> Result<(), AppError> {
    let path = state_path(directory, name);
    for path in [path.with_extension("new"), path] {
        check_file(&path).map_err(SocketError::from)?;
    }
    Ok(())
}

/// The socket of the router called `name`, or of the only one there is.
///
/// # Errors
/// As [`Remote::find`].
pub fn find_socket(name: Option<&str>) -> Result<PathBuf, AppError> {
    match name {
        Some(name) => Ok(socket_path(check_name(name)?)),
        None => only_socket(),
    }
}

/// The socket of the only router that runs here.
fn only_socket() -> Result<PathBuf, AppError> {
    let mut dirs = runtime_directories();
    dirs.retain(|d| check(d).is_ok());
    let mut names: Vec<String> = dirs.iter().flat_map(|d| sockets_in(d)).collect();
    names.sort();
    names.dedup();
    match names.as_slice() {
        [] => Err(AppError::NoRouter),
        [one] => Ok(socket_path(one)),
        _ => Err(AppError::SeveralRouters(names)),
    }
}

/// Names of the routers whose sockets in `dir` somebody listens on.
fn sockets_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "sock"))
        .filter(|p| std::os::unix::net::UnixStream::connect(p).is_ok())
        .filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned()))
        .collect()
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
