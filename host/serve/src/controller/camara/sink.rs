//! Where a notification goes, and bringing it there once.
//!
//! A client chooses the address, and the controller is inside the network: so nothing goes to addresses that are not public
//! ones unless the file says so, whatever a name is resolved to. What was judged is what is connected to.

use super::settings::Sinks;
use axum::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::http::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Prefixes that are nobody's on the Internet (RFC 6890 and its registries), or that carry addresses of the other family.
static SPECIAL: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let all = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 \
        192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 2001::/23 2001:db8::/32 \
        2002::/16 3fff::/20";
    all.split(' ').filter_map(|prefix| prefix.parse().ok()).collect()
});
/// All that the Internet has of IPv6 (RFC 4291 §2.4 and its registry).
static GLOBAL_V6: LazyLock<Option<IpNet>> = LazyLock::new(|| "2000::/3".parse().ok());

/// Why a notification cannot be brought.
#[derive(Debug, Error)]
pub(super) enum SinkError {
    /// No URL that is taken.
    #[error("this is no URL of https with a host")]
    NoUrl,
    /// Not an address that may be used.
    #[error("its address is not a public one, and the controller's file does not allow it")]
    Address,
    /// No name that a certificate can have.
    #[error("its name cannot be in a certificate")]
    Name,
    /// The file names no authorities that can be read.
    #[error("the controller has no authorities by which to know servers of https")]
    NoAuthority,
    /// The network's.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// HTTP.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// A value that HTTP cannot carry.
    #[error("{0}")]
    Value(#[from] hyper::http::Error),
}

/// A URL that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    host: String,
    port: u16,
    secure: bool,
    /// As it is in the Host field.
    authority: String,
    path: String,
}

impl Target {
    /// Of a URL. An address in it is judged at once, a name when it is used.
    pub(super) fn of(url: &str, sinks: &Sinks) -> Result<Self, SinkError> {
        let uri: Uri = url.parse().map_err(|_| SinkError::NoUrl)?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or(SinkError::NoUrl)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if sinks.allow_http => false,
            _ => return Err(SinkError::NoUrl),
        };
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let target = Self { host, port, secure, authority: authority.to_string(), path };
        match target.host.parse() {
            Ok(address) if !target.may_be_at(address, sinks) => Err(SinkError::Address),
            _ => Ok(target),
        }
    }

    /// Whether it may be at this address.
    fn may_be_at(&self, address: IpAddr, sinks: &Sinks) -> bool {
        if !self.secure {
            return address.is_loopback();
        }
        let special = SPECIAL.iter().any(|net| net.contains(&address));
        let is_public = match address {
            IpAddr::V4(_) => !special,
            IpAddr::V6(_) => !special && GLOBAL_V6.is_some_and(|net| net.contains(&address)),
        };
        is_public || sinks.within.iter().any(|net| net.contains(&address))
    }

    /// Brings it once; the status that is answered.
    pub(super) async fn bring(
        &self,
        sinks: &Sinks,
        tls: Option<&TlsConnector>,
        token: Option<&str>,
        event: Bytes,
    ) -> Result<u16, SinkError> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let allowed: Vec<SocketAddr> = found.filter(|place| self.may_be_at(place.ip(), sinks)).collect();
        if allowed.is_empty() {
            return Err(SinkError::Address);
        }
        let stream = TcpStream::connect(&allowed[..]).await?;
        if !self.secure {
            return self.exchange(TokioIo::new(stream), token, event).await;
        }
        let name = ServerName::try_from(self.host.clone()).map_err(|_| SinkError::Name)?;
        let tls = tls.ok_or(SinkError::NoAuthority)?;
        self.exchange(TokioIo::new(tls.connect(name, stream).await?), token, event).await
    }

    async fn exchange<T>(&self, stream: T, token: Option<&str>, event: Bytes) -> Result<u16, SinkError>
    where
        T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let (mut sender, connection) = http1::handshake(stream).await?;
        let mut request = Request::post(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/cloudevents+json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Body::from(event))?;
        // Dropped with the answer: the connection ends with it.
        tokio::select! {
            answer = sender.send_request(request) => Ok(answer?.status().as_u16()),
            ended = connection => match ended {
                Err(why) => Err(why.into()),
                Ok(()) => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_taken_unless_the_file_allows_others() {
        let (plain, open) = (
            Sinks::default(),
            Sinks {
                within: vec!["10.0.0.0/8".parse().expect("a prefix"), "::1/128".parse().expect("a prefix")],
                allow_http: true,
                ..Sinks::default()
            },
        );
        let taken = |url, sinks| Target::of(url, sinks).is_ok();
        for url in
            ["https://example.com/x", "https://example.com:8443", "https://8.8.8.8/", "https://[2a00::1]/"]
        {
            assert!(taken(url, &plain), "{url}");
        }
        for url in [
            "http://example.com/",
            "example.com",
            "https://",
            "https://u:p@example.com/",
            "ftp://example.com/",
            "https://127.0.0.1/",
            "https://10.1.1.1/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[fe80::1]/",
            "https://[fc00::1]/",
            "https://[2002:7f00:1::]/",
            "https://0.0.0.0/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "http://127.0.0.1/",
        ] {
            assert!(!taken(url, &plain), "{url}");
        }
        for url in ["https://10.1.1.1/", "https://[::1]/", "http://127.0.0.1:9/", "http://[::1]/"] {
            assert!(taken(url, &open), "{url}");
        }
        for url in ["https://192.168.1.1/", "http://10.1.1.1/", "http://8.8.8.8/"] {
            assert!(!taken(url, &open), "{url}");
        }
        assert_eq!(SPECIAL.len(), 18, "each of them is one");
    }

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_is_resolved_to() {
        let sinks = Sinks { allow_http: false, ..Sinks::default() };
        let target = Target::of("https://localhost:9/", &sinks).expect("a name may be anything");
        let brought = target.bring(&sinks, None, None, Bytes::new()).await;
        assert!(matches!(brought, Err(SinkError::Address)), "{brought:?}");
    }
}
