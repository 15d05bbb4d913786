//! The client of a router's socket.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::net::UnixStream;

/// Why a request got no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no router listens on {}: {source}; start one with `perhop router run FILE`", path.display())]
    Connect {
        /// Socket.
        path: PathBuf,
        /// Error.
        source: std::io::Error,
    },
    /// The conversation broke.
    #[error("talking to the router: {0}")]
    Http(#[from] hyper::Error),
    /// A request that cannot be written.
    #[error("writing the request: {0}")]
    Request(#[from] hyper::http::Error),
    /// An answer that cannot be read.
    #[error("reading the router's answer: {0}")]
    Json(#[from] serde_json::Error),
}

/// A router's socket. One connection a request.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// A client of the socket at `path`.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// GET.
    ///
    /// # Errors
    /// See [`ClientError`]; a refusal is an answer, not an error.
    pub async fn read(&self, uri: &str) -> Result<(StatusCode, serde_json::Value), ClientError> {
        self.exchange(Method::GET, uri, Bytes::new()).await
    }

    /// POST of a JSON body.
    ///
    /// # Errors
    /// See [`ClientError`]; a refusal is an answer, not an error.
    pub async fn post<T: Serialize>(
        &self,
        uri: &str,
        body: &T,
    ) -> Result<(StatusCode, serde_json::Value), ClientError> {
        self.exchange(Method::POST, uri, serde_json::to_vec(body)?.into()).await
    }

    async fn exchange(
        &self,
        method: Method,
        uri: &str,
        body: Bytes,
    ) -> Result<(StatusCode, serde_json::Value), ClientError> {
        let response = self.send(method, uri, body).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        let value = if bytes.is_empty() { serde_json::Value::Null } else { serde_json::from_slice(&bytes)? };
        Ok((status, value))
    }

    /// A GET whose body never ends (events): calls `line` with every `data:` line until it returns `false`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow(&self, uri: &str, mut line: impl FnMut(&str) -> bool) -> Result<(), ClientError> {
        let mut body = self.send(Method::GET, uri, Bytes::new()).await?.into_body();
        let mut pending = String::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            pending.push_str(&String::from_utf8_lossy(&data));
            while let Some(end) = pending.find('\n') {
                let text: String = pending.drain(..=end).collect();
                let Some(data) = text.trim_end().strip_prefix("data:") else { continue };
                if !line(data.trim_start()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn send(&self, method: Method, uri: &str, body: Bytes) -> Result<Response<Incoming>, ClientError> {
        let stream = UnixStream::connect(&self.path)
            .await
            .map_err(|source| ClientError::Connect { path: self.path.clone(), source })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("host", "router")
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        Ok(sender.send_request(request).await?)
    }
}
