//! The client of a router's socket.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// A router that has not answered a request by then is taken to be gone. The longest transaction takes a few seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Why a request got no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens, or not to this user.
    #[error("{}", no_connection(path, source))]
    Connect {
        /// Socket.
        path: PathBuf,
        /// Error.
        source: std::io::Error,
    },
    /// The conversation broke.
    #[error("talking to the router: {0}")]
    Http(#[from] hyper::Error),
    /// The router has closed the connection.
    #[error("the router on {} has closed the connection", .0.display())]
    Closed(PathBuf),
    /// The router took the request and did not answer in time.
    #[error("the router on {} has not answered for {patience:?}", path.display())]
    Silent {
        /// Socket.
        path: PathBuf,
        /// How long it was waited for.
        patience: Duration,
    },
    /// A request that cannot be written.
    #[error("writing the request: {0}")]
    Request(#[from] hyper::http::Error),
    /// An answer that cannot be read.
    #[error("reading the router's answer: {0}")]
    Json(#[from] serde_json::Error),
}

fn no_connection(path: &Path, source: &std::io::Error) -> String {
    let path = path.display();
    if source.kind() == std::io::ErrorKind::PermissionDenied {
        return format!(
            "this user may not talk to the router on {path}: {source}; become root, or a member of the socket's group"
        );
    }
    format!("no router listens on {path}: {source}; start one with `perhop router run FILE`")
}

/// A router's socket. Each request has a connection of its own.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
    patience: Duration,
}

/// One connection to a router, for one request after the other. Dropping a request before its answer breaks it.
#[derive(Debug)]
pub struct KeptConnection {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
    /// Ends with the connection.
    end: mpsc::Receiver<()>,
}

impl Client {
    /// A client of the socket at `path`, which waits 30 s for an answer.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), patience: PATIENCE }
    }

    /// Waits for an answer this long.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// GET.
    ///
    /// # Errors
    /// See [`ClientError`]; a refusal is an answer, not an error.
    pub async fn read(&self, uri: &str) -> Result<(StatusCode, serde_json::Value), ClientError> {
        self.connect().await?.read(uri).await
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
        self.connect().await?.post(uri, body).await
    }

    /// A connection that is kept. Needs a tokio runtime, as all else here.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn connect(&self) -> Result<KeptConnection, ClientError> {
        let unreachable = |source| ClientError::Connect { path: self.path.clone(), source };
        let stream = UnixStream::connect(&self.path).await.map_err(unreachable)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let (open, end) = mpsc::channel(1);
        tokio::spawn(async move {
            // How it ends is told to whoever waits for an answer.
            let _ = connection.await;
            drop(open);
        });
        Ok(KeptConnection { client: self.clone(), sender, end })
    }

    /// What `answer` gives, unless it takes too long.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let late = || ClientError::Silent { path: self.path.clone(), patience: self.patience };
        tokio::time::timeout(self.patience, answer).await.unwrap_or_else(|_| Err(late()))
    }

    /// A GET whose body never ends (events): calls `line` with every `data:` line until it returns `false`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow(&self, uri: &str, mut line: impl FnMut(&str) -> bool) -> Result<(), ClientError> {
        let mut connection = self.connect().await?;
        let mut body = self.in_time(connection.send(Method::GET, uri, Bytes::new())).await?.into_body();
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
}

impl KeptConnection {
    /// As [`Client::read`].
    ///
    /// # Errors
    /// As there.
    pub async fn read(&mut self, uri: &str) -> Result<(StatusCode, serde_json::Value), ClientError> {
        self.exchange(Method::GET, uri, Bytes::new()).await
    }

    /// As [`Client::post`].
    ///
    /// # Errors
    /// As there.
    pub async fn post<T: Serialize>(
        &mut self,
        uri: &str,
        body: &T,
    ) -> Result<(StatusCode, serde_json::Value), ClientError> {
        self.exchange(Method::POST, uri, serde_json::to_vec(body)?.into()).await
    }

    /// Resolves, while nothing is asked, when the connection has ended; may be dropped and called again.
    pub async fn closed(&mut self) -> ClientError {
        self.end.recv().await;
        ClientError::Closed(self.client.path.clone())
    }

    async fn exchange(
        &mut self,
        method: Method,
        uri: &str,
        body: Bytes,
    ) -> Result<(StatusCode, serde_json::Value), ClientError> {
        let client = self.client.clone();
        let answer = async {
            let response = self.send(method, uri, body).await?;
            let status = response.status();
            Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        let (status, bytes) = client.in_time(answer).await?;
        let value = if bytes.is_empty() { serde_json::Value::Null } else { serde_json::from_slice(&bytes)? };
        Ok((status, value))
    }

    async fn send(
        &mut self,
        method: Method,
        uri: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("host", "router")
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
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
        let client = Client::new(&path).waiting(Duration::from_millis(20));
        let read = block_on(client.read("/v1/state"));
        assert!(matches!(read, Err(ClientError::Silent { .. })), "{read:?}");
        let followed = block_on(client.follow("/v1/events", |_| true));
        assert!(matches!(followed, Err(ClientError::Silent { .. })), "{followed:?}");
        std::fs::remove_file(path).expect("it was made above");
    }

    #[test]
    fn one_connection_serves_request_after_request_and_its_end_is_noticed() {
        let (listener, path) = silent("kept");
        let router = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody connects");
            let mut asked = Vec::new();
            for answer in ["1", "2"] {
                let mut request = [0; 4_096];
                let length = stream.read(&mut request).expect("a request");
                asked.push(String::from_utf8_lossy(&request[..length]).lines().next().map(str::to_owned));
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{answer}").expect("a reader");
            }
            asked
        });
        block_on(async {
            let mut kept = Client::new(&path).connect().await.expect("it listens");
            assert_eq!(kept.read("/v1/state").await.expect("an answer").1, 1);
            assert_eq!(kept.post("/v1/claim", &7).await.expect("an answer").1, 2);
            assert!(matches!(kept.closed().await, ClientError::Closed(_)));
            assert!(matches!(kept.closed().await, ClientError::Closed(_)), "however often it is asked");
            assert!(matches!(kept.read("/v1/state").await, Err(ClientError::Http(_))));
        });
        let asked = router.join().expect("it does not panic");
        assert_eq!(asked, [Some("GET /v1/state HTTP/1.1".into()), Some("POST /v1/claim HTTP/1.1".into())]);
        std::fs::remove_file(path).expect("it was made above");
    }
}
