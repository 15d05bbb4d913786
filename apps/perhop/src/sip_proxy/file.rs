//! A proxy's file: where it listens, who sits where, and how calls are reserved for.

use super::{calls, places};
use crate::controller::{address_of, client_type};
use crate::domain::ControllerArgs;
use crate::error::AppError;
use crate::text_file::read_file;
use perhop_config::{Diagnostics, Document, Spanned, TableReader, TextError};
use perhop_cops::wire::ClientType;
use perhop_serve::Identity;
use perhop_serve::sip::{CopsName, HepSettings, SipDoor, StreamLimits};
use perhop_sip::proxy::{Domain, Limits, Zone};
use perhop_sip::quality;
use perhop_sip::transaction::Timers;
use perhop_units::Duration;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// How long a name may take to be resolved.
const RESOLVE: Duration = Duration::from_secs(5);
/// How long an INVITE may ring at least: RFC 3261 §16.6 item 11 wants more than three minutes.
const RINGING: Duration = Duration::from_secs(181);

/// See the module. Paths are from the file's folder.
#[derive(Clone, Debug)]
pub struct SipProxyFile {
    /// Where it listens.
    pub doors: Vec<SipDoor>,
    /// What it shows by TLS, and whose certificates it believes.
    pub tls: Option<(Identity, PathBuf)>,
    /// Further names by which it is meant.
    pub names: Vec<String>,
    /// The file of its secret.
    pub secret: PathBuf,
    /// What it is responsible for.
    pub domains: Vec<Domain>,
    /// Who sits where.
    pub zones: Vec<Zone>,
    /// Edge routers that have somebody of their own who reserves.
    pub edges: Vec<EdgeDoor>,
    /// How calls are reserved for.
    pub quality: quality::Settings,
    /// Who reserves, unless an edge router has somebody of its own.
    pub by: By,
    /// As whom it is asked by COPS, if anybody is.
    pub cops: Option<CopsIs>,
    /// Limits of the machine.
    pub limits: Limits,
    /// How long an INVITE may ring.
    pub ringing: Duration,
    /// Limits of connections.
    pub streams: StreamLimits,
    /// Where records of calls go.
    pub records: Option<PathBuf>,
    /// Whom messages are told to.
    pub hep: Option<HepSettings>,
}

/// Somebody who reserves.
#[derive(Clone, Debug)]
pub enum By {
    /// Nobody: the proxy only passes calls on.
    Nobody,
    /// A controller by HTTP.
    Http(Box<ControllerArgs>),
    /// By COPS, the preferred address first.
    Cops(Vec<SocketAddr>),
}

/// As whom somebody is asked by COPS.
#[derive(Clone, Debug)]
pub struct CopsIs {
    /// The client.
    pub client: CopsName,
    /// The client type.
    pub client_type: ClientType,
    /// What is shown, and whose certificates are believed.
    pub tls: Option<(Identity, PathBuf)>,
}

/// An edge router with a door for COPS of its own.
#[derive(Clone, Debug)]
pub struct EdgeDoor {
    /// The router.
    pub name: String,
    /// Where.
    pub servers: Vec<SocketAddr>,
}

/// The file that a path means: in a folder it is `sip-proxy.toml`.
pub fn in_folder(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("sip-proxy.toml") } else { path.to_owned() }
}

/// Reads a file and prints what is to be said about it.
///
/// # Errors
/// It cannot be read or is wrong.
pub fn read(path: &Path) -> Result<SipProxyFile, AppError> {
    read_file(path, parse)
}

fn parse(name: &str, text: &str, folder: &Path) -> (Option<SipProxyFile>, Diagnostics) {
    let (document, diagnostics) = Document::parse(name, text);
    let mut root = document.root(&diagnostics);
    let (names, secret, ringing) = proxy(&mut root, folder);
    let doors = places::doors(&mut root);
    let tls = tls(&mut root, folder);
    let speaks_tls = doors.iter().any(|door| door.transport == perhop_sip::message::Transport::Tls);
    if speaks_tls && !root.has("tls") {
        let error = root.error("listen", "is to listen by TLS without a certificate").value("");
        diagnostics
            .push(error.hint("Add [tls] with certificate, key and authority: `perhop pki` makes them"));
    }
    let domains = places::domains(&mut root);
    let zones = places::zones(&mut root);
    let (networks, edges) = places::edges(&mut root);
    let Reserve { by, cops, mut quality } = reserve(&mut root, folder, &networks, !edges.is_empty());
    quality.edges = networks;
    let rules = calls::rules(&mut root);
    let is_nobody = matches!(by, By::Nobody) && edges.is_empty();
    quality.rules = if is_nobody { vec![calls::nobody()] } else { rules };
    quality.codecs = calls::codecs(&mut root);
    let (limits, streams, most_calls) = limits(&mut root);
    quality.most_calls = most_calls;
    let records = root.table("records").and_then(|mut table| {
        let file = table.required_text("file", "\"calls.jsonl\"").map(|file| folder.join(file.value));
        table.finish();
        file
    });
    let hep = hep(&mut root);
    root.finish();
    let file = SipProxyFile {
        doors,
        tls,
        names,
        secret,
        domains,
        zones,
        edges,
        quality,
        by,
        cops,
        limits,
        ringing,
        streams,
        records,
        hep,
    };
    ((diagnostics.errors() == 0).then_some(file), diagnostics)
}

fn proxy(root: &mut TableReader<'_>, folder: &Path) -> (Vec<String>, PathBuf, Duration) {
    let own = || folder.join("sip-proxy.secret");
    let ringing = Duration::from_secs(185);
    let Some(mut table) = root.table("proxy") else { return (Vec::new(), own(), ringing) };
    let names = table.values_with("names", "a name or address", places::host).map(|names| names.value);
    let names = names.unwrap_or_default().into_iter().map(|name| name.value).collect();
    let secret = table.text("secret_file").map_or_else(own, |path| folder.join(path.value));
    let most = Duration::from_secs(3_600);
    let ringing = table.value_in::<Duration>("ringing", RINGING..=most).map_or(ringing, |time| time.value);
    table.finish();
    (names, secret, ringing)
}

/// Certificate, key and authority, of which none may be missing.
fn tls(root: &mut TableReader<'_>, folder: &Path) -> Option<(Identity, PathBuf)> {
    let mut table = root.table("tls")?;
    let mut path = |key, example| Some(folder.join(table.required_text(key, example)?.value));
    let certificate = path("certificate", "\"proxy.pem\"");
    let key = path("key", "\"proxy.key\"");
    let authority = path("authority", "\"authority.pem\"");
    table.finish();
    Some((Identity { certificate: certificate?, key: key? }, authority?))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Http,
    Cops,
    Nobody,
}

const HOW: [(&str, How); 3] = [("http", How::Http), ("cops", How::Cops), ("none", How::Nobody)];

/// What `[reserve]` says.
struct Reserve {
    by: By,
    cops: Option<CopsIs>,
    quality: quality::Settings,
}

fn reserve(
    root: &mut TableReader<'_>,
    folder: &Path,
    networks: &[quality::Edge],
    have_doors: bool,
) -> Reserve {
    let settings = quality::Settings::new("example", calls::NO_EDGE);
    let Some(mut table) = root.table("reserve") else {
        return Reserve { by: By::Nobody, cops: None, quality: settings };
    };
    let how = table.required_choice("by", &HOW).map_or(How::Nobody, |how| how.value);
    let quality = calls::settings(&mut table, settings, networks);
    let mut path = |key| table.text(key).map(|path| folder.join(path.value));
    let (token_file, certificate) = (path("token_file"), path("certificate"));
    let (key_file, authority) = (path("key"), path("authority"));
    let controller = table.text("controller").map(|text| text.value.to_owned());
    let servers = servers(&mut table, "servers");
    let client = table.value_with("client", "a client's name", client_name).map(|client| client.value);
    let client_type = client_type(&mut table);
    let tls = match (&certificate, &key_file, &authority) {
        (Some(certificate), Some(key), Some(authority)) => {
            Some((Identity { certificate: certificate.clone(), key: key.clone() }, authority.clone()))
        }
        _ => None,
    };
    if how == How::Cops || have_doors {
        table.require("client", "\"phones\"");
        if tls.is_none() && [&certificate, &key_file, &authority].into_iter().any(Option::is_some) {
            let error = table.error("by", "has only some of certificate, key and authority");
            table.diagnostics().push(error.hint("By COPS all three are needed, or none"));
        }
    }
    let by = match how {
        How::Nobody => By::Nobody,
        How::Http => {
            table.require("controller", "\"example\"");
            let certificate = certificate.filter(|_| key_file.is_some());
            By::Http(Box::new(ControllerArgs { controller, token_file, authority, certificate, key_file }))
        }
        How::Cops => {
            table.require("servers", "[\"127.0.0.1:3288\"]");
            By::Cops(servers)
        }
    };
    table.finish();
    Reserve { by, cops: client.map(|client| CopsIs { client, client_type, tls }), quality }
}

/// Addresses where COPS is spoken.
pub(super) fn servers(table: &mut TableReader<'_>, key: &'static str) -> Vec<SocketAddr> {
    let Some(read) = table.values_with(key, "an address", address_of) else { return Vec::new() };
    if read.value.is_empty() {
        let error = table.error(key, "has no address");
        table.diagnostics().push(error.hint("Write for example [\"127.0.0.1:3288\"]"));
    }
    read.value.into_iter().map(|address| address.value).collect()
}

fn client_name(text: &str) -> Result<CopsName, TextError> {
    CopsName::new(text)
        .ok_or_else(|| TextError::new("is no client's name").allowed("1 to 255 characters of ASCII"))
}

fn hep(root: &mut TableReader<'_>) -> Option<HepSettings> {
    let mut table = root.table("hep")?;
    table.require("address", "\"127.0.0.1:9060\"");
    let address = table.value_with("address", "an address", address_of).map(|address| address.value);
    let agent = table.integer("agent", 0..=i64::from(u32::MAX)).and_then(|n| u32::try_from(n.value).ok());
    table.finish();
    Some(HepSettings { address: address?, agent: agent.unwrap_or(0) })
}

fn limits(root: &mut TableReader<'_>) -> (Limits, StreamLimits, usize) {
    let (mut limits, mut streams, mut calls) = (Limits::default(), StreamLimits::default(), 100_000);
    let Some(mut table) = root.table("limits") else { return (limits, streams, calls) };
    let mut number = |key, most, into: &mut usize| {
        let read: Option<Spanned<i64>> = table.integer(key, 1..=most);
        if let Some(read) = read.and_then(|read| usize::try_from(read.value).ok()) {
            *into = read;
        }
    };
    number("requests", 10_000_000, &mut limits.contexts);
    number("calls", 10_000_000, &mut calls);
    number("registrations", 10_000_000, &mut limits.records);
    number("contacts", 100, &mut limits.contacts);
    number("connections", 1_000_000, &mut limits.connections);
    number("connections_of_address", 1_000_000, &mut streams.of_address);
    let idle = table.value_in::<Duration>("idle", Duration::from_secs(10)..=Duration::from_secs(86_400));
    if let Some(idle) = idle {
        streams.idle = idle.value.to_std();
    }
    table.finish();
    (limits, streams, calls)
}

impl SipProxyFile {
    /// Settings of the machine; where it listens is known later.
    pub fn machine(&self, secret: [u8; 16], seed: u64) -> perhop_sip::proxy::Settings {
        perhop_sip::proxy::Settings {
            listen: Vec::new(),
            names: self.names.clone(),
            domains: self.domains.clone(),
            zones: self.zones.clone(),
            timers: Timers::default(),
            timer_c: self.ringing,
            resolve: RESOLVE,
            secret,
            seed,
            limits: self.limits,
        }
    }
}
