//! A domain of two edges with a controller's door on loopback, and a sink that hears what is told.

use perhop_broker::ledger::{ClientChange, Settings};
use perhop_broker::record::{AuditRow, Group, Snapshot};
use perhop_broker::topology::DomainFile;
use perhop_serve::controller::camara::{
    Camara, CamaraSettings, Consumer, Network, ProfileStatus, QosProfile, Scope, Sinks,
};
use perhop_serve::controller::{ControllerApp, Seat};
use perhop_serve::domain::{Domain, Keeper, Marks, NotKept, Writing, token_sha256};
use perhop_serve::{Identity, Limits};
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

const DOMAIN: &str = r#"
[[node]]
name = "west"
kind = "edge"
[[node]]
name = "east"
kind = "edge"
[[link]]
from = "west"
port = "wan"
to = "east"
rate = "10 Mbit/s"
classes = { voice = "1 Mbit/s" }
both = true
back_port = "wan"
"#;

/// A client that may do everything but one thing has this name and the thing's number.
pub fn without(scope: &str) -> String {
    let at = Scope::ALL.iter().position(|(name, _)| *name == scope);
    format!("without-{}", at.unwrap_or_else(|| panic!("{scope} is no scope")))
}

pub fn token(client: &str) -> String {
    format!("token-of-{client}")
}

fn domain() -> DomainFile {
    let mut text = DOMAIN.to_owned();
    let names: Vec<String> = ["app", "other", "phone", "gone"]
        .iter()
        .map(|name| (*name).to_owned())
        .chain(Scope::ALL.iter().map(|(name, _)| without(name)))
        .collect();
    for (name, more) in names.iter().map(|n| (n.as_str(), "")).chain([("slow", "per_second = 1\n")]) {
        let sha256 = token_sha256(&token(name));
        text += &format!(
            "[[client]]\nname = \"{name}\"\nkind = \"camara\"\nrole = \"proxy\"\ntoken_sha256 = \"{sha256}\"\n{more}"
        );
    }
    let (file, diagnostics) = DomainFile::read("test", &text);
    file.unwrap_or_else(|| panic!("{diagnostics}"))
}

pub fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/camara").join(file)
}

fn settings() -> CamaraSettings {
    let network = |prefix: &str, node: Option<&str>| Network {
        prefix: prefix.parse().unwrap(),
        node: node.map(str::to_owned),
        device_prefix: None,
    };
    let networks = vec![
        network("10.1.0.0/24", Some("west")),
        network("2001:db8:1::/48", Some("west")),
        network("10.2.0.0/24", Some("east")),
        network("2001:db8:2::/48", Some("east")),
        network("10.3.0.0/24", None),
    ];
    let profile = |bps, status, devices: &[&str]| QosProfile {
        description: Some("for calls".into()),
        status,
        class: "voice".into(),
        upstream_bps: Some(bps),
        downstream_bps: Some(bps),
        min_duration_s: 1,
        max_duration_s: 7_200,
        priority: Some(20),
        devices: devices.iter().map(|net| net.parse().unwrap()).collect(),
    };
    let profiles = [
        ("voice", profile(100_000, ProfileStatus::Active, &[])),
        ("huge", profile(5_000_000, ProfileStatus::Active, &[])),
        ("vip", profile(100_000, ProfileStatus::Active, &["10.1.0.9/32"])),
        ("off", profile(100_000, ProfileStatus::Inactive, &[])),
        ("old", profile(100_000, ProfileStatus::Deprecated, &[])),
    ];
    let all_but = |name: &str| Scope::ALL.iter().filter(|(n, _)| *n != name).map(|(_, s)| *s).collect();
    let mut consumers: BTreeMap<String, Consumer> = Scope::ALL
        .iter()
        .map(|(name, _)| (without(name), Consumer { scopes: Some(all_but(name)), device: None }))
        .collect();
    consumers.insert("phone".into(), Consumer { scopes: None, device: Some([10, 1, 0, 7].into()) });
    let sinks = Sinks {
        authority: Some(fixture("authority.pem")),
        within: vec!["127.0.0.0/8".parse().unwrap()],
        allow_http: false,
    };
    let profiles = profiles.into_iter().map(|(name, profile)| (name.to_owned(), profile)).collect();
    CamaraSettings::new(networks, profiles, consumers, sinks)
}

/// A database that keeps nothing.
struct Nowhere;

impl Keeper for Nowhere {
    fn write<'a>(&'a self, _: &'a Group) -> Writing<'a> {
        Box::pin(async { Ok(()) })
    }

    fn audit(
        &self,
        _: Option<u64>,
        _: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// What a sink got.
#[derive(Clone, Debug)]
pub struct Event {
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// `Null` where there is none.
    pub body: Value,
}

pub fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// See the module.
pub struct World {
    runtime: tokio::runtime::Runtime,
    pub domain: Domain,
    address: SocketAddr,
    sink: SocketAddr,
    events: Receiver<Event>,
}

impl World {
    pub fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (domain, address, sink, events) = runtime.block_on(async {
            let (seat, keeper) = (Seat::default(), Arc::new(Nowhere));
            let settings_of_ledger = Settings { fence: 1, ..Settings::default() };
            let say = |why: &NotKept| panic!("{}", why.message);
            let (domain, task) =
                Domain::load(settings_of_ledger, Snapshot::default(), Marks::new(), Arc::clone(&keeper), say)
                    .unwrap();
            let camara = Camara::new(settings(), |what| eprintln!("told: {what}"));
            tokio::spawn(camara.clone().follow(task.news()));
            tokio::spawn(task.run(std::future::pending()));
            domain.set_topology("test", Arc::new(super::world::domain().topology)).await.unwrap();
            domain.change_client("test", ClientChange::Gone("gone".into())).await.unwrap();
            seat.take(domain.clone(), keeper);
            let app = ControllerApp::new(seat, Limits::default(), camara);
            let server = app.on(SocketAddr::from(([127, 0, 0, 1], 0)), None).unwrap();
            let address = server.address().unwrap();
            tokio::spawn(server.run(std::future::pending()));
            let (tell, events) = channel();
            let sink = listen(tell).await;
            (domain, address, sink, events)
        });
        Self { runtime, domain, address, sink, events }
    }

    /// Where the sink is, by `https`.
    pub fn sink(&self) -> String {
        format!("https://{}/events?a=b", self.sink)
    }

    pub fn event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event comes")
    }

    pub fn no_event(&self) {
        let more = self.events.recv_timeout(Duration::from_millis(300));
        assert!(more.is_err(), "{more:?}");
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Asks, with a body or without one.
    pub fn ask(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: Option<&str>) -> Answer {
        let mut text = format!("{method} {uri} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        if let Some(body) = body {
            text += &format!("content-length: {}\r\n", body.len());
        }
        text += &format!("\r\n{}", body.unwrap_or_default());
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).unwrap().parse().unwrap();
        let heads = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()));
        let headers: Vec<(String, String)> = heads
            .map(|line| line.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned())).unwrap())
            .collect();
        let mut body = String::new();
        lines.read_to_string(&mut body).unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_str(&body).unwrap() };
        Answer { status, headers, body }
    }

    /// Asks as a client.
    pub fn ask_as(&self, client: &str, method: &str, uri: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", token(client));
        self.ask(method, uri, &[("authorization", &bearer)], body.map(Value::to_string).as_deref())
    }

    /// A session of the client `app`.
    pub fn create(&self, body: &Value) -> Value {
        let answer = self.ask_as("app", "POST", "/quality-on-demand/vwip/sessions", Some(body));
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body
    }
}

/// A session that is granted.
pub fn session() -> Value {
    json!({
        "device": { "ipv4Address": { "publicAddress": "10.1.0.2", "publicPort": 5_000 } },
        "applicationServer": { "ipv4Address": "10.2.0.0/25" },
        "devicePorts": { "ranges": [{ "from": 5_004, "to": 5_005 }] },
        "applicationServerPorts": { "ports": [5_004] },
        "qosProfile": "voice",
        "duration": 600,
    })
}

/// A server of events with a certificate of the test's authority.
async fn listen(tell: Sender<Event>) -> SocketAddr {
    let identity = Identity { certificate: fixture("sink.pem"), key: fixture("sink.key") };
    let certificate = rustls::pki_types::CertificateDer::from_pem_file(&identity.certificate).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut refused = 0;
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = tls.accept(stream).await.unwrap();
            let (mut text, mut bytes) = (String::new(), [0; 4_096]);
            let event = loop {
                let count = stream.read(&mut bytes).await.unwrap();
                assert!(count > 0, "{text}");
                text += std::str::from_utf8(&bytes[..count]).unwrap();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let headers: Vec<(String, String)> = head
                    .lines()
                    .skip(1)
                    .map(|line| line.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned())).unwrap())
                    .collect();
                assert!(head.starts_with("POST /events?a=b HTTP/1.1"), "{head}");
                if header(&headers, "content-length").unwrap().parse() == Ok(body.len()) {
                    break Event { headers, body: serde_json::from_str(body).unwrap() };
                }
            };
            // The first is refused once, as a server that is busy does.
            refused += 1;
            let status = if refused == 1 { "503 Busy" } else { "204 No Content" };
            stream
                .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let _ = stream.shutdown().await;
            if refused > 1 && tell.send(event).is_err() {
                return;
            }
        }
    });
    address
}
