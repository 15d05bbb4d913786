//! Where a proxy listens, what it is responsible for, and who sits where.

use super::calls::NO_EDGE;
use super::file::{EdgeDoor, servers};
use ipnet::IpNet;
use perhop_config::{Spanned, TableReader, TextError};
use perhop_serve::sip::SipDoor;
use perhop_sip::message::{Transport, Uri};
use perhop_sip::proxy::{Domain, Side, Zone};
use perhop_sip::quality;
use std::collections::HashSet;
use std::net::SocketAddr;

/// Most tables of a kind, and most users of a domain.
const MOST: usize = 10_000;
/// Longest name of an edge router, as the header of proxies takes it.
const MOST_NAME: usize = 128;

const TRANSPORTS: [(&str, Transport); 3] =
    [("udp", Transport::Udp), ("tcp", Transport::Tcp), ("tls", Transport::Tls)];
const SIDES: [(&str, Side); 3] =
    [("phones", Side::Terminal), ("trusted", Side::Trusted), ("outside", Side::Outside)];

/// A host's name, or an address without brackets.
pub(super) fn host(text: &str) -> Result<String, TextError> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let is_name = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    if is_name || bare.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(bare.to_ascii_lowercase());
    }
    Err(TextError::new("is neither the name nor the address of a host")
        .hint("Write for example \"sip.example.org\" or \"192.0.2.1\", the port apart"))
}

fn listened(text: &str) -> Result<SocketAddr, TextError> {
    let why = || TextError::new("is not an address with a port").hint("Write for example \"192.0.2.1:5060\"");
    text.parse().map_err(|_| why())
}

fn prefix(text: &str) -> Result<IpNet, TextError> {
    let hint = "Write for example \"10.1.0.0/16\", \"2001:db8::/32\" or a lone address";
    let net: IpNet = match text.parse::<std::net::IpAddr>() {
        Ok(address) => address.into(),
        Err(_) => text.parse().map_err(|_| TextError::new("is not a prefix").hint(hint))?,
    };
    if net.trunc() == net { Ok(net) } else { Err(TextError::new("has bits beyond its length").hint(hint)) }
}

/// A URI that a proxy can send something to.
fn uri(text: &str) -> Result<String, TextError> {
    let reads =
        Uri::read(text.as_bytes()).is_some_and(|uri| uri.scheme != perhop_sip::message::Scheme::Other);
    if reads {
        return Ok(text.to_owned());
    }
    Err(TextError::new("is no SIP URI").hint("Write for example \"sip:bob@192.0.2.7\""))
}

fn limit(root: &mut TableReader<'_>, key: &'static str, count: usize) {
    if count > MOST {
        let error = root.error(key, format!("has {count} tables")).value("");
        root.diagnostics().push(error.allowed(format!("at most {MOST}")));
    }
}

/// `[[listen]]`.
pub(super) fn doors(root: &mut TableReader<'_>) -> Vec<SipDoor> {
    root.require("listen", "[{ transport = \"udp\", address = \"192.0.2.1:5060\" }]");
    let (mut doors, mut seen) = (Vec::new(), HashSet::new());
    for mut table in root.tables("listen") {
        let transport = table.required_choice("transport", &TRANSPORTS);
        table.require("address", "\"192.0.2.1:5060\"");
        let address = table.value_with("address", "an address", listened);
        let name = table.value_with("name", "a name or address", host).map(|name| name.value);
        if let Some(Spanned { value, span }) = transport
            && !seen.insert(value)
        {
            let error = table.document().error(span, "has a listener already");
            table.diagnostics().push(
                error.hint("A proxy listens at one address for each transport; [::] takes both families"),
            );
        }
        if let Some(address) = &address
            && address.value.ip().is_unspecified()
            && name.is_none()
        {
            let error = table.error("address", "is all addresses, so nobody would know which to answer to");
            table
                .diagnostics()
                .push(error.hint("Add name: what phones and other proxies reach this proxy by"));
        }
        table.finish();
        if let (Some(transport), Some(address)) = (transport, address) {
            doors.push(SipDoor { transport: transport.value, address: address.value, host: name });
        }
    }
    doors
}

/// `[[domain]]`.
pub(super) fn domains(root: &mut TableReader<'_>) -> Vec<Domain> {
    let tables = root.named_tables("domain");
    limit(root, "domain", tables.len());
    let read = |(name, mut table): (Spanned<&str>, TableReader<'_>)| {
        if !name.value.is_empty()
            && let Err(why) = host(name.value)
        {
            let error = table.document().error(name.span, why.message.clone());
            table.diagnostics().push(error);
        }
        let registrar = table.value_with("registrar", "a URI", uri).map(|uri| uri.value);
        let users = table.named_values::<UserUri>("users");
        if users.len() > MOST {
            let error = table.error("users", format!("has {} users", users.len())).value("");
            table.diagnostics().push(error.allowed(format!("at most {MOST}")));
        }
        let users = users.into_iter().map(|(user, place)| (user.to_owned(), place.value.0)).collect();
        table.finish();
        Domain { name: name.value.to_ascii_lowercase(), registrar, users }
    };
    tables.into_iter().map(read).collect()
}

/// Where a user is.
struct UserUri(String);

impl std::str::FromStr for UserUri {
    type Err = TextError;
    fn from_str(text: &str) -> Result<Self, TextError> {
        uri(text).map(Self)
    }
}

/// `[[zone]]`.
pub(super) fn zones(root: &mut TableReader<'_>) -> Vec<Zone> {
    let tables = root.tables("zone");
    limit(root, "zone", tables.len());
    let mut zones = Vec::new();
    for mut table in tables {
        table.require("prefixes", "[\"10.1.0.0/16\"]");
        let prefixes = table.values_with("prefixes", "a prefix", prefix).map(|all| all.value);
        let side = table.required_choice("side", &SIDES).map(|side| side.value);
        table.finish();
        let zone = |net: Spanned<IpNet>| {
            Some(Zone { address: net.value.addr(), prefix: net.value.prefix_len(), side: side? })
        };
        zones.extend(prefixes.unwrap_or_default().into_iter().filter_map(zone));
    }
    zones
}

/// `[[edge]]`: networks of phones, and routers with a door of their own.
pub(super) fn edges(root: &mut TableReader<'_>) -> (Vec<quality::Edge>, Vec<EdgeDoor>) {
    let tables = root.named_tables("edge");
    limit(root, "edge", tables.len());
    let (mut networks, mut edges) = (Vec::new(), Vec::new());
    for (name, mut table) in tables {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
        let is_name = name.value.len() <= MOST_NAME && name.value.bytes().all(legal) && name.value != NO_EDGE;
        if !is_name {
            let error = table.document().error(name.span, "cannot be written into a header of SIP");
            let allowed = format!("1 to {MOST_NAME} characters of A-Z a-z 0-9 - . ! % * _ + ` ' ~");
            table.diagnostics().push(error.allowed(allowed));
        }
        table.require("prefixes", "[\"10.1.0.0/16\"]");
        let prefixes = table.values_with("prefixes", "a prefix", prefix).map(|all| all.value);
        for net in prefixes.unwrap_or_default() {
            let (address, prefix) = (net.value.addr(), net.value.prefix_len());
            networks.push(quality::Edge { address, prefix, er: name.value.to_owned() });
        }
        if table.has("cops") {
            edges.push(EdgeDoor { name: name.value.to_owned(), servers: servers(&mut table, "cops") });
        }
        table.finish();
    }
    (networks, edges)
}
