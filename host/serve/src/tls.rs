//! TLS 1.3 with certificates: of the server always, of the client where it has one.
//!
//! A domain has an authority of its own. Whoever shows a certificate must have it from that authority; whoever shows none says in
//! its requests who it is, by a token. Certificates are named by the SHA-256 of their DER form.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{Accept, TlsAcceptor, TlsConnector, client, server};

/// Why certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is no PEM file with what is wanted.
    #[error("{}: {source}", path.display())]
    Pem {
        /// File.
        path: PathBuf,
        /// Error.
        source: rustls::pki_types::pem::Error,
    },
    /// A file has no certificate.
    #[error("{}: there is no certificate in it", .0.display())]
    Empty(PathBuf),
    /// Key, certificate or authority do not fit.
    #[error("{}: {source}", path.display())]
    Unfit {
        /// The file with the certificate.
        path: PathBuf,
        /// Error.
        source: rustls::Error,
    },
    /// Neither a host's name nor an address.
    #[error("{0:?} is neither the name nor the address of a host")]
    Name(String),
    /// The authority cannot judge clients.
    #[error("{}: {source}", path.display())]
    Authority {
        /// The file with the authority's certificates.
        path: PathBuf,
        /// Error.
        source: rustls::server::VerifierBuilderError,
    },
}

/// Files by which a program shows who it is, and whom it believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its certificate, and those between it and the authority's; PEM.
    pub certificate: PathBuf,
    /// Its private key; PEM.
    pub key: PathBuf,
}

/// The end of TLS where clients come in. Its clones are the same one.
#[derive(Clone)]
pub struct TlsDoor {
    identity: Identity,
    authority: PathBuf,
    acceptor: Arc<RwLock<TlsAcceptor>>,
}

impl std::fmt::Debug for TlsDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsDoor")
    }
}

impl TlsDoor {
    /// Shows `identity` to clients, and believes those of the `authority`, a PEM file. Clients may come without a certificate.
    ///
    /// # Errors
    /// A file cannot be read, or they do not fit.
    pub fn new(identity: &Identity, authority: &Path) -> Result<Self, TlsError> {
        let acceptor = Arc::new(RwLock::new(acceptor(identity, authority)?));
        Ok(Self { identity: identity.clone(), authority: authority.to_owned(), acceptor })
    }

    /// Reads the files again, for connections from now on.
    ///
    /// # Errors
    /// A file cannot be read, or they do not fit: what was read before counts.
    pub fn read_again(&self) -> Result<(), TlsError> {
        let acceptor = acceptor(&self.identity, &self.authority)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// Begins with a connection that has been in the clear until now.
    pub(crate) fn begin(&self, stream: TcpStream) -> Accept<TcpStream> {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).accept(stream)
    }
}

fn acceptor(identity: &Identity, authority: &Path) -> Result<TlsAcceptor, TlsError> {
    let roots = Arc::new(roots(authority)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .allow_unauthenticated()
        .build()
        .map_err(|source| TlsError::Authority { path: authority.to_owned(), source })?;
    let unfit = |source| TlsError::Unfit { path: identity.certificate.clone(), source };
    let (certificates, key) = load(identity)?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unfit)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, key)
        .map_err(unfit)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// SHA-256 of the certificate that the other end has shown.
pub(crate) fn shown(connection: &rustls::CommonState) -> Option<[u8; 32]> {
    let certificate = connection.peer_certificates().and_then(|all| all.first());
    certificate.map(|certificate| Sha256::digest(certificate).into())
}

/// The end of TLS that comes in: believes servers of the `authority`, and shows `identity` where it has one.
///
/// # Errors
/// A file cannot be read, or they do not fit.
pub(crate) fn connector(identity: Option<&Identity>, authority: &Path) -> Result<TlsConnector, TlsError> {
    let unfit = |path: &Path| {
        let path = path.to_owned();
        |source| TlsError::Unfit { path, source }
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unfit(authority))?
        .with_root_certificates(roots(authority)?);
    let config = match identity {
        Some(identity) => {
            let (certificates, key) = load(identity)?;
            builder.with_client_auth_cert(certificates, key).map_err(unfit(&identity.certificate))?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Makes a connection secure. The server must be who it is said to be.
pub(crate) async fn connect(
    connector: &TlsConnector,
    name: ServerName<'static>,
    stream: TcpStream,
) -> io::Result<client::TlsStream<TcpStream>> {
    connector.connect(name, stream).await
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn load(identity: &Identity) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let path = &identity.key;
    let key =
        PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Pem { path: path.clone(), source })?;
    Ok((certificates(&identity.certificate)?, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |source| TlsError::Pem { path: path.to_owned(), source };
    let read =
        CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if read.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(read) }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|source| TlsError::Unfit { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// The certificate that a client has shown: nothing as long as the handshake goes on, and of one that has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificate(Arc<OnceLock<[u8; 32]>>);

impl Certificate {
    /// SHA-256 of it.
    pub(crate) fn sha256(&self) -> Option<[u8; 32]> {
        self.0.get().copied()
    }
}

/// A connection that is secured with its first octets.
pub(crate) struct TlsCarrier {
    state: State,
    certificate: Certificate,
}

enum State {
    Shaking(Box<Accept<TcpStream>>),
    Open(Box<server::TlsStream<TcpStream>>),
    /// The handshake has failed, as it may by any octets of anybody. The connection is still flushed and shut then.
    Failed,
}

impl TlsCarrier {
    pub(crate) fn accept(door: &TlsDoor, stream: TcpStream, certificate: Certificate) -> Self {
        Self { state: State::Shaking(Box::new(door.begin(stream))), certificate }
    }

    fn open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut server::TlsStream<TcpStream>>>> {
        if let State::Shaking(accept) = &mut self.state {
            let stream = match ready!(Pin::new(accept.as_mut()).poll(cx)) {
                Ok(stream) => stream,
                Err(why) => {
                    self.state = State::Failed;
                    return Poll::Ready(Err(why));
                }
            };
            if let Some(shown) = shown(stream.get_ref().1) {
                // It is set once: the handshake ends once.
                let _ = self.certificate.0.set(shown);
            }
            self.state = State::Open(Box::new(stream));
        }
        match &mut self.state {
            State::Open(stream) => Poll::Ready(Ok(Pin::new(stream.as_mut()))),
            State::Shaking(_) => Poll::Pending,
            State::Failed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for TlsCarrier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.open(cx))?.poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsCarrier {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.open(cx))?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.open(cx))?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// A certificate and its key that nobody believes but this test.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBjDCCATOgAwIBAgIUTCwys4t6o0UXX4pf2QwSd6s0oeswCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXUGVyaG9wIGRvbWFpbiBhdXRob3JpdHkwIBcNMjAwMTAxMDAw
MDAwWhgPMjEwMDAxMDEwMDAwMDBaMCIxIDAeBgNVBAMMF1BlcmhvcCBkb21haW4g
YXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE5mQcjN45NENDsRMz
eLoQ95IXrWR4i1zI3gmYNkV/1cTelQwQWcT+H6TRStWYfJ1vAGw+Bixa94rcrVdT
25/yoqNFMEMwDgYDVR0PAQH/BAQDAgEGMB0GA1UdDgQWBBQtEQSG8kucgzcOXuRF
SAAksWHSVTASBgNVHRMBAf8ECDAGAQH/AgEAMAoGCCqGSM49BAMCA0cAMEQCIEai
Vu8x3Inz45JE9I4mkKSAyRkqsqLa8G8oaogMiUQqAiA06ffav9fu0Bzxrz9II3zU
f47D+goCqFSNVn+EVRbX6A==
-----END CERTIFICATE-----";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgRJTcjdPjRrUTg/mA
whC0cWb7r9yoOSPU1R4m5RwIisKhRANCAATmZByM3jk0Q0OxEzN4uhD3khetZHiL
XMjeCZg2RX/VxN6VDBBZxP4fpNFK1Zh8nW8AbD4GLFr3itytV1Pbn/Ki
-----END PRIVATE KEY-----";

    fn door() -> TlsDoor {
        let folder = std::env::temp_dir().join(format!("perhop-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a directory for temporary files");
        let identity = Identity { certificate: folder.join("own.pem"), key: folder.join("own.key") };
        std::fs::write(&identity.certificate, CERTIFICATE).expect("it can be written");
        std::fs::write(&identity.key, KEY).expect("it can be written");
        let door = TlsDoor::new(&identity, &identity.certificate).expect("they fit");
        std::fs::remove_dir_all(&folder).expect("it was made above");
        door
    }

    #[test]
    fn whoever_fails_the_handshake_gets_an_error_however_often_the_connection_is_used() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
            let mut client =
                TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("a reader");
            let (stream, _) = listener.accept().await.expect("somebody connects");
            let certificate = Certificate::default();
            let mut carrier = TlsCarrier::accept(&door(), stream, certificate.clone());
            let read = carrier.read_u8().await;
            assert_eq!(read.map_err(|e| e.kind()), Err(io::ErrorKind::InvalidData));
            // As a server of HTTP does with a connection that it cannot read.
            let left = [carrier.flush().await, carrier.write_all(b"x").await, carrier.shutdown().await];
            assert!(left.iter().all(Result::is_err), "{left:?}");
            assert_eq!(certificate.sha256(), None);
        });
    }
}
