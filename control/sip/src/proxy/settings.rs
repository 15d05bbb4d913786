//! What a proxy is told about itself and its surroundings.

use crate::message::{Transport, Uri};
use crate::peer::Peer;
use crate::transaction::Timers;
use perhop_units::Duration;
use std::net::IpAddr;

/// Configuration of a proxy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens, one each transport; the first is used where nothing else decides.
    pub listen: Vec<Listen>,
    /// Further names and addresses by which it is meant.
    pub names: Vec<String>,
    /// Domains that it is responsible for.
    pub domains: Vec<Domain>,
    /// Who sits where; the first that fits counts, and who fits none is outside.
    pub zones: Vec<Zone>,
    /// Timers of transactions.
    pub timers: Timers,
    /// How long an INVITE may ring (timer C, RFC 3261 §16.6 item 11): more than three minutes.
    pub timer_c: Duration,
    /// How long a name may take to be resolved.
    pub resolve: Duration,
    /// Key of what it signs: addresses in Record-Route, branches.
    pub secret: [u8; 16],
    /// Where its numbers begin: another value each time it starts, lest branches come again. Two runs with the same seed, secret and inputs do the
    /// same.
    pub seed: u64,
    /// Limits.
    pub limits: Limits,
}

/// How much of everything there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests under way; one more is answered by 503.
    pub contexts: usize,
    /// Addresses of records that are learnt.
    pub records: usize,
    /// Contacts of one record, which is also the number of branches of a fork.
    pub contacts: usize,
    /// Connections.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { contexts: 200_000, records: 100_000, contacts: 10, connections: 20_000 }
    }
}

/// A place to listen.
#[derive(Clone, Debug)]
pub struct Listen {
    /// How.
    pub transport: Transport,
    /// Name or address in Via and Record-Route; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Listen {
    /// `host:port`.
    pub fn sent_by(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A domain that the proxy is responsible for.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its name, in lower case.
    pub name: String,
    /// The URI of its registrar, another program's. Without one only static locations are known.
    pub registrar: Option<String>,
    /// Locations that are not learnt: a user's name, and the URI where he is.
    pub users: Vec<(String, String)>,
}

/// Addresses and who sits there.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    /// An address of the network.
    pub address: IpAddr,
    /// Length of its prefix.
    pub prefix: u8,
    /// Who sits there.
    pub side: Side,
}

/// Who is at the other end of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Phones of the own network, which this proxy reserves for.
    Terminal,
    /// Proxies whose word counts.
    Trusted,
    /// Anybody.
    Outside,
}

/// Whether `address` is in the network of `prefix` bits around `network`.
pub fn within(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let bits = |a: IpAddr| match a {
        IpAddr::V4(a) => (u128::from(u32::from(a)) << 96, 32),
        IpAddr::V6(a) => (u128::from(a), 128),
    };
    let ((a, width), (b, other)) = (bits(address), bits(network));
    width == other && (prefix == 0 || (a ^ b) >> (128 - u32::from(prefix.min(width))) == 0)
}

impl Settings {
    /// Who is there.
    pub fn side(&self, peer: &Peer) -> Side {
        let address = peer.address.ip();
        self.zones.iter().find(|z| within(address, z.address, z.prefix)).map_or(Side::Outside, |z| z.side)
    }

    /// Where it listens for a transport.
    pub fn listen(&self, transport: Transport) -> Option<&Listen> {
        self.listen.iter().find(|listen| listen.transport == transport)
    }

    /// Whether a host and port are this proxy.
    pub fn is_self(&self, host: &[u8], port: Option<u16>) -> bool {
        let same = |name: &str| name.as_bytes().eq_ignore_ascii_case(host);
        let ports = |l: &Listen| l.port == port.unwrap_or(l.transport.port());
        self.listen.iter().any(|l| ports(l) && (same(&l.host) || self.names.iter().any(|n| same(n))))
    }

    /// The domain of a URI, if the proxy is responsible for it.
    pub fn domain(&self, uri: &Uri<'_>) -> Option<&Domain> {
        self.domains.iter().find(|d| d.name.as_bytes().eq_ignore_ascii_case(uri.host))
    }
}
