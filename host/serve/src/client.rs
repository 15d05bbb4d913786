//! The client of a door: of a router's socket, of a controller's, or of a controller on the network.

use crate::tls::{self, Identity, TlsError};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderValue;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

pub use hyper::{Method, StatusCode};

/// A router that has not answered a request by then is taken to be gone. The longest transaction takes a few seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Why a request got no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens, or not to this user.
    #[error("{}", no_connection(place, source))]
    Connect {
        /// Where.
        place: Place,
        /// Error.
        source: std::io::Error,
    },
    /// The conversation broke.
    #[error("talking to the {}: {source}", place.who())]
    Http {
        /// Where.
        place: Place,
        /// Error.
        source: hyper::Error,
    },
    /// The other side has closed the connection.
    #[error("the {} on {place} has closed the connection", place.who())]
    Closed {
        /// Where.
        place: Place,
    },
    /// The other side took the request and did not answer in time.
    #[error("the {} on {place} has not answered for {patience:?}", place.who())]
    Silent {
        /// Where.
        place: Place,
        /// How long it was waited for.
        patience: Duration,
    },
    /// What was to be followed cannot be.
    #[error("the {} on {place} answers {status}: {said}", place.who())]
    NotFollowed {
        /// Where.
        place: Place,
        /// Status.
        status: StatusCode,
        /// The answer.
        said: String,
    },
    /// A request that cannot be written.
    #[error("writing the request: {0}")]
    Request(#[from] hyper::http::Error),
    /// An answer that cannot be read.
    #[error("reading the answer: {0}")]
    Json(#[from] serde_json::Error),
}

/// Where a door is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A router's Unix socket.
    Router(PathBuf),
    /// A controller's Unix socket.
    Controller(PathBuf),
    /// The Unix socket of an agent that decides beside its router.
    Agent(PathBuf),
    /// A controller on the network: host and port, and whether it is secured.
    Network {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// By TLS.
        secure: bool,
    },
}

impl Place {
    fn who(&self) -> &'static str {
        match self {
            Self::Router(_) => "router",
            Self::Agent(_) => "agent",
            Self::Controller(_) | Self::Network { .. } => "controller",
        }
    }

    /// Of a URL, `https://HOST[:PORT]` or `http://HOST[:PORT]`; `None` if it is none.
    pub fn of_url(url: &str) -> Option<Self> {
        let uri: hyper::Uri = url.parse().ok()?;
        let (secure, default) = match uri.scheme_str()? {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return None,
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return None;
        }
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        Some(Self::Network { host, port: uri.port_u16().unwrap_or(default), secure })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Router(path) | Self::Controller(path) | Self::Agent(path) => path.display().fmt(f),
            Self::Network { host, port, secure } => {
                let scheme = if *secure { "https" } else { "http" };
                let brackets = if host.contains(':') { ["[", "]"] } else { ["", ""] };
                write!(f, "{scheme}://{}{host}{}:{port}", brackets[0], brackets[1])
            }
        }
    }
}

fn no_connection(place: &Place, source: &std::io::Error) -> String {
    let who = place.who();
    if source.kind() == std::io::ErrorKind::PermissionDenied {
        return format!(
            "this user may not talk to the {who} on {place}: {source}; become root, or a member of the socket's group"
        );
    }
    match place {
        Place::Router(_) => {
            format!("no router listens on {place}: {source}; start one with `perhop router run FILE`")
        }
        Place::Controller(_) => {
            format!("no controller listens on {place}: {source}; start one with `perhop controller run`")
        }
        Place::Agent(_) => format!(
            "no agent decides at {place}: {source}; start one with `perhop agent run FILE`, whose file has a [[lease]]"
        ),
        Place::Network { .. } => format!("no controller can be reached at {place}: {source}"),
    }
}

/// A door, and who the client is there. Each request has a connection of its own.
#[derive(Clone)]
pub struct Client {
    place: Place,
    patience: Duration,
    tls: Option<TlsConnector>,
    /// `Bearer TOKEN`.
    authorization: Option<HeaderValue>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.place)
    }
}

/// What carries requests.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection to a router, for one request after the other. Dropping a request before its answer breaks it.
#[derive(Debug)]
pub struct KeptConnection {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
    /// Ends with the connection.
    end: mpsc::Receiver<()>,
}

impl Client {
    /// A client of the router's socket at `path`, which waits 30 s for an answer.
    pub fn new(path: &Path) -> Self {
        Self::at(Place::Router(path.to_owned()))
    }

    /// A client of a door that is not secured.
    pub fn at(place: Place) -> Self {
        Self { place, patience: PATIENCE, tls: None, authorization: None }
    }

    /// Believes servers of this authority, a PEM file, and shows them `identity`.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn secured(self, authority: &Path, identity: Option<&Identity>) -> Result<Self, TlsError> {
        Ok(Self { tls: Some(tls::connector(identity, authority)?), ..self })
    }

    /// Shows a token with each request.
    ///
    /// # Errors
    /// It has characters that a token cannot have.
    pub fn with_token(self, token: &str) -> Result<Self, ClientError> {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(hyper::http::Error::from)?;
        value.set_sensitive(true);
        Ok(Self { authorization: Some(value), ..self })
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

    /// Any request, with or without a JSON body.
    ///
    /// # Errors
    /// See [`ClientError`]; a refusal is an answer, not an error.
    pub async fn send(
        &self,
        method: Method,
        uri: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<(StatusCode, serde_json::Value), ClientError> {
        let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        self.connect().await?.exchange(method, uri, body.into()).await
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
        let unreachable = |source| ClientError::Connect { place: self.place.clone(), source };
        let stream = self.in_time(async { self.open().await.map_err(unreachable) }).await?;
        let broken = |source| ClientError::Http { place: self.place.clone(), source };
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let (open, end) = mpsc::channel(1);
        tokio::spawn(async move {
            // How it ends is told to whoever waits for an answer.
            let _ = connection.await;
            drop(open);
        });
        Ok(KeptConnection { client: self.clone(), sender, end })
    }

    async fn open(&self) -> std::io::Result<Box<dyn Stream>> {
        let (host, port, secure) = match &self.place {
            Place::Router(path) | Place::Controller(path) | Place::Agent(path) => {
                return Ok(Box::new(UnixStream::connect(path).await?));
            }
            Place::Network { host, port, secure } => (host, *port, *secure),
        };
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        if !secure {
            return Ok(Box::new(stream));
        }
        let unfit = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidInput, why.to_owned());
        let connector =
            self.tls.as_ref().ok_or_else(|| unfit("say by which authority's certificate it is known"))?;
        let name =
            ServerName::try_from(host.clone()).map_err(|_| unfit("its name cannot be in a certificate"))?;
        Ok(Box::new(tls::connect(connector, name, stream).await?))
    }

    /// What `answer` gives, unless it takes too long.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let late = || ClientError::Silent { place: self.place.clone(), patience: self.patience };
        tokio::time::timeout(self.patience, answer).await.unwrap_or_else(|_| Err(late()))
    }

    /// A GET whose body never ends (events). It is given up when nothing at all, not even that it is there, has come from
    /// the other side for as long as `silence`.
    ///
    /// # Errors
    /// See [`ClientError`]; here a refusal is one.
    pub async fn follow(&self, uri: &str, silence: Option<Duration>) -> Result<Followed, ClientError> {
        let mut connection = self.connect().await?;
        let response = self.in_time(connection.send(Method::GET, uri, Bytes::new())).await?;
        let (status, body) = (response.status(), response.into_body());
        if status.is_success() {
            return Ok(Followed { connection, body, silence, pending: String::new() });
        }
        let broken = |source| ClientError::Http { place: self.place.clone(), source };
        let said = self.in_time(async { body.collect().await.map_err(broken) }).await?.to_bytes();
        let said = String::from_utf8_lossy(&said).into_owned();
        Err(ClientError::NotFollowed { place: self.place.clone(), status, said })
    }
}

/// Events that come one after the other.
#[derive(Debug)]
pub struct Followed {
    connection: KeptConnection,
    body: Incoming,
    silence: Option<Duration>,
    pending: String,
}

impl Followed {
    /// The next `data:` line; `None` when there will be no more.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next(&mut self) -> Result<Option<String>, ClientError> {
        let place = || self.connection.client.place.clone();
        loop {
            while let Some(end) = self.pending.find('\n') {
                let text: String = self.pending.drain(..=end).collect();
                if let Some(data) = text.trim_end().strip_prefix("data:") {
                    return Ok(Some(data.trim_start().to_owned()));
                }
            }
            let frame = match self.silence {
                None => self.body.frame().await,
                Some(patience) => tokio::time::timeout(patience, self.body.frame())
                    .await
                    .map_err(|_| ClientError::Silent { place: place(), patience })?,
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|source| ClientError::Http { place: place(), source })?;
            if let Ok(data) = frame.into_data() {
                self.pending.push_str(&String::from_utf8_lossy(&data));
            }
        }
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
        ClientError::Closed { place: self.client.place.clone() }
    }

    /// Any request, with its body.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub(crate) async fn exchange(
        &mut self,
        method: Method,
        uri: &str,
        body: Bytes,
    ) -> Result<(StatusCode, serde_json::Value), ClientError> {
        let client = self.client.clone();
        let answer = async {
            let response = self.send(method, uri, body).await?;
            let status = response.status();
            let broken = |source| ClientError::Http { place: client.place.clone(), source };
            Ok((status, response.into_body().collect().await.map_err(broken)?.to_bytes()))
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
        let host = match &self.client.place {
            Place::Router(_) => "router".to_owned(),
            Place::Controller(_) => "controller".to_owned(),
            Place::Agent(_) => "agent".to_owned(),
            Place::Network { host, port, .. } => format!("{host}:{port}"),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header("host", host)
            .header("content-type", "application/json");
        if let Some(authorization) = &self.client.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Full::new(body))?;
        let broken = |source| ClientError::Http { place: self.client.place.clone(), source };
        self.sender.ready().await.map_err(broken)?;
        self.sender.send_request(request).await.map_err(broken)
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
        let followed = block_on(client.follow("/v1/events", None));
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
            assert!(matches!(kept.closed().await, ClientError::Closed { .. }));
            assert!(matches!(kept.closed().await, ClientError::Closed { .. }), "however often it is asked");
            assert!(matches!(kept.read("/v1/state").await, Err(ClientError::Http { .. })));
        });
        let asked = router.join().expect("it does not panic");
        assert_eq!(asked, [Some("GET /v1/state HTTP/1.1".into()), Some("POST /v1/claim HTTP/1.1".into())]);
        std::fs::remove_file(path).expect("it was made above");
    }
}
