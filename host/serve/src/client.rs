//! The client of a router's socket.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::net::UnixStream;

/// A router that has not answered a request by then is taken to be gone. The longest transaction takes a few seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Whoever waits looks this often whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);

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
    /// The router took the request and did not answer in time.
    #[error("the router on {} has not answered for {patience:?}", path.display())]
    Silent {
        /// Socket.
        path: PathBuf,
        /// How long it was waited for.
        patience: Duration,
    },
    /// Whoever asked shall stop.
    #[error("interrupted while waiting for the router")]
    Interrupted,
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
    patience: Duration,
    stop: Option<Arc<AtomicBool>>,
}

impl Client {
    /// A client of the socket at `path`, which waits 30 s for an answer.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), patience: PATIENCE, stop: None }
    }

    /// Waits for an answer this long, or until `stop` is set.
    #[must_use]
    pub fn waiting(self, patience: Duration, stop: Arc<AtomicBool>) -> Self {
        Self { patience, stop: Some(stop), ..self }
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
        let (status, bytes) = self
            .in_time(async {
                let response = self.send(method, uri, body).await?;
                let status = response.status();
                Ok((status, response.into_body().collect().await?.to_bytes()))
            })
            .await?;
        let value = if bytes.is_empty() { serde_json::Value::Null } else { serde_json::from_slice(&bytes)? };
        Ok((status, value))
    }

    /// What `answer` gives, unless it takes too long.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let stopped = async {
            match &self.stop {
                Some(stop) => {
                    while !stop.load(Ordering::Relaxed) {
                        tokio::time::sleep(LOOK).await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        let late = || ClientError::Silent { path: self.path.clone(), patience: self.patience };
        tokio::select! {
            answer = tokio::time::timeout(self.patience, answer) => answer.unwrap_or_else(|_| Err(late())),
            () = stopped => Err(ClientError::Interrupted),
        }
    }

    /// A GET whose body never ends (events): calls `line` with every `data:` line until it returns `false`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow(&self, uri: &str, mut line: impl FnMut(&str) -> bool) -> Result<(), ClientError> {
        let mut body = self.in_time(self.send(Method::GET, uri, Bytes::new())).await?.into_body();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A socket that takes connections and never answers.
    fn silent(name: &str) -> (UnixListener, PathBuf) {
        let path = std::env::temp_dir().join(format!("perhop-client-{name}-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        (UnixListener::bind(&path).expect("a directory for temporary files"), path)
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn a_router_that_never_answers_is_not_waited_for_for_ever() {
        let (_listener, path) = silent("late");
        let client = Client::new(&path).waiting(Duration::from_millis(20), Arc::default());
        let read = block_on(client.read("/v1/state"));
        assert!(matches!(read, Err(ClientError::Silent { .. })), "{read:?}");
        let followed = block_on(client.follow("/v1/events", |_| true));
        assert!(matches!(followed, Err(ClientError::Silent { .. })), "{followed:?}");
        std::fs::remove_file(path).expect("it was made above");
    }

    #[test]
    fn whoever_shall_stop_does_not_wait_for_the_answer() {
        let (_listener, path) = silent("stopped");
        let client = Client::new(&path).waiting(PATIENCE, Arc::new(AtomicBool::new(true)));
        let read = block_on(client.read("/v1/state"));
        assert!(matches!(read, Err(ClientError::Interrupted)), "{read:?}");
        std::fs::remove_file(path).expect("it was made above");
    }
}
