//! What the controller's file says of CAMARA's interfaces.

use crate::domain::Role;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

/// Most profiles: as many as an answer may have.
pub const MAX_PROFILES: usize = 100;
/// Most networks.
pub const MAX_NETWORKS: usize = 1_024;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CamaraSettings {
    /// Where addresses are, the longest prefix first: see [`CamaraSettings::new`].
    networks: Vec<Network>,
    /// Profiles by name.
    pub(super) profiles: BTreeMap<String, QosProfile>,
    /// What is said of clients, by name.
    consumers: BTreeMap<String, Consumer>,
    /// Where notifications may go.
    pub(super) sinks: Sinks,
}

/// Addresses behind a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Which.
    pub prefix: IpNet,
    /// The node where their traffic enters and leaves; none = sessions are not to be had there.
    pub node: Option<String>,
    /// Length of the prefix that one device has for itself; none = a device has one address.
    pub device_prefix: Option<u8>,
}

/// What a session is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosProfile {
    /// In words.
    pub description: Option<String>,
    /// Whether it can be used.
    pub status: ProfileStatus,
    /// Logical class.
    pub class: String,
    /// From the device to the server, bit/s.
    pub upstream_bps: Option<u64>,
    /// From the server to the device, bit/s; one of both is there.
    pub downstream_bps: Option<u64>,
    /// Shortest session, s.
    pub min_duration_s: u32,
    /// Longest session, s.
    pub max_duration_s: u32,
    /// 1 the most important, 100 the least.
    pub priority: Option<u8>,
    /// The devices that may use it; empty = all.
    pub devices: Vec<IpNet>,
}

/// Whether a profile can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProfileStatus {
    /// It can.
    Active,
    /// Not at present.
    Inactive,
    /// Only by the sessions that there are.
    Deprecated,
}

/// What is said of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// What it may do; none = as its role says.
    pub scopes: Option<Vec<Scope>>,
    /// Its device, where its token stands for one.
    pub device: Option<IpAddr>,
}

/// Where notifications may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sinks {
    /// PEM file with the authorities whose servers are believed.
    pub authority: Option<PathBuf>,
    /// Addresses that may be used though they are not public ones.
    pub within: Vec<IpNet>,
    /// Whether `http` is taken, at loopback addresses only.
    pub allow_http: bool,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `quality-on-demand:sessions:create`.
    Create,
    /// `quality-on-demand:sessions:read`.
    Read,
    /// `quality-on-demand:sessions:update`.
    Update,
    /// `quality-on-demand:sessions:delete`.
    Delete,
    /// `quality-on-demand:sessions:retrieve-by-device`.
    RetrieveByDevice,
    /// `qos-profiles:read`.
    Profiles,
}

impl Scope {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("quality-on-demand:sessions:create", Self::Create),
        ("quality-on-demand:sessions:read", Self::Read),
        ("quality-on-demand:sessions:update", Self::Update),
        ("quality-on-demand:sessions:delete", Self::Delete),
        ("quality-on-demand:sessions:retrieve-by-device", Self::RetrieveByDevice),
        ("qos-profiles:read", Self::Profiles),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Whether whoever has a role may, where nothing else is said.
    fn is_of(self, role: Role) -> bool {
        match role {
            Role::Agent => false,
            Role::Viewer => matches!(self, Self::Read | Self::RetrieveByDevice | Self::Profiles),
            Role::Proxy | Role::Operator | Role::Admin => true,
        }
    }
}

impl CamaraSettings {
    /// Of what a file says.
    pub fn new(
        mut networks: Vec<Network>,
        profiles: BTreeMap<String, QosProfile>,
        consumers: BTreeMap<String, Consumer>,
        sinks: Sinks,
    ) -> Self {
        networks.sort_by_key(|network| std::cmp::Reverse(network.prefix.prefix_len()));
        Self { networks, profiles, consumers, sinks }
    }

    /// The network that a prefix is in whole; of several the one with the longest prefix. Costs a step a network.
    pub(super) fn network(&self, prefix: &IpNet) -> Option<&Network> {
        self.networks.iter().find(|network| network.prefix.contains(prefix))
    }

    pub(super) fn may(&self, client: &str, role: Role, scope: Scope) -> bool {
        match self.consumers.get(client).and_then(|consumer| consumer.scopes.as_ref()) {
            Some(scopes) => scopes.contains(&scope),
            None => scope.is_of(role),
        }
    }

    /// The device that a client's token stands for.
    pub(super) fn device_of(&self, client: &str) -> Option<IpAddr> {
        self.consumers.get(client)?.device
    }
}

impl QosProfile {
    /// Whether a device may use it.
    pub(super) fn is_for(&self, device: IpAddr) -> bool {
        self.devices.is_empty() || self.devices.iter().any(|net| net.contains(&device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_has_its_name() {
        for (at, (_, scope)) in Scope::ALL.iter().enumerate() {
            assert_eq!(*scope as usize, at);
        }
        assert_eq!(Scope::Profiles.name(), "qos-profiles:read");
    }

    #[test]
    fn the_longest_prefix_counts() {
        let network = |prefix: &str, node: &str| Network {
            prefix: prefix.parse().expect("a prefix"),
            node: Some(node.into()),
            device_prefix: None,
        };
        let all = vec![network("0.0.0.0/0", "a"), network("10.1.0.0/16", "b"), network("2001:db8::/32", "c")];
        let settings = CamaraSettings::new(all, BTreeMap::new(), BTreeMap::new(), Sinks::default());
        let node = |prefix: &str| {
            settings.network(&prefix.parse().expect("a prefix")).and_then(|network| network.node.as_deref())
        };
        for (prefix, expected) in [
            ("10.1.2.3/32", Some("b")),
            ("10.0.0.0/8", Some("a")),
            ("2001:db8::1/128", Some("c")),
            ("2001:db9::/64", None),
        ] {
            assert_eq!(node(prefix), expected, "{prefix}");
        }
    }
}
