//! What the element is told besides its rules.

use crate::admission::AdmissionSettings;
use crate::realtime::Detector;
use ipnet::IpNet;
use perhop_packet::{ClassId, PortId, SlaId};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Contracts by prefix, longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlaMap {
    /// By address family and prefix length (longest first), then by network address.
    v4: Vec<(u8, BTreeMap<IpAddr, SlaId>)>,
    v6: Vec<(u8, BTreeMap<IpAddr, SlaId>)>,
}

impl SlaMap {
    /// The contracts of these prefixes; of two for the same prefix the last counts. O(n log n).
    pub fn new(prefixes: impl IntoIterator<Item = (IpNet, SlaId)>) -> Self {
        let mut by_len: [BTreeMap<u8, BTreeMap<IpAddr, SlaId>>; 2] = Default::default();
        for (net, sla) in prefixes {
            let family = usize::from(net.addr().is_ipv6());
            by_len[family].entry(net.prefix_len()).or_default().insert(net.network(), sla);
        }
        let [v4, v6] = by_len.map(|m| m.into_iter().rev().collect());
        Self { v4, v6 }
    }

    /// The contract of the longest prefix of `address`. O(different lengths).
    pub fn find(&self, address: IpAddr) -> Option<SlaId> {
        let tables = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        tables.iter().find_map(|(len, table)| {
            let net = IpNet::new(address, *len).ok()?;
            table.get(&net.network()).copied()
        })
    }

    /// The contract of a packet: its source's (upstream), else its destination's (downstream).
    pub fn of(&self, src: IpAddr, dst: IpAddr) -> Option<SlaId> {
        self.find(src).or_else(|| self.find(dst))
    }
}

impl SlaMap {
    /// Prefixes that one map has and the other has not, or gives to another contract. O(n log n).
    pub fn differences(&self, other: &Self) -> Vec<IpNet> {
        let list = |map: &Self| -> BTreeMap<IpNet, SlaId> {
            let tables = map.v4.iter().chain(&map.v6);
            let nets = tables.flat_map(|(len, table)| {
                table.iter().filter_map(|(ip, sla)| Some((IpNet::new(*ip, *len).ok()?, *sla)))
            });
            nets.collect()
        };
        let (a, b) = (list(self), list(other));
        let mut nets: Vec<IpNet> =
            a.keys().chain(b.keys()).copied().filter(|n| a.get(n) != b.get(n)).collect();
        nets.sort();
        nets.dedup();
        nets
    }
}

/// Settings of [`crate::Flows`] that change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Class of packets that nothing else gives one.
    pub default_class: ClassId,
    /// Class by code point, where it is trusted; [`ClassId::NONE`] = the default class.
    pub dscp_classes: [ClassId; 64],
    /// Ports whose code points choose classes, by [`PortId`]; absent = no.
    pub trusted: Vec<bool>,
    /// Forwarding domain of each port, by [`PortId`]; absent = 0. Connections of different domains are different.
    pub domains: Vec<u16>,
    /// Contracts of packets whose filter names none.
    pub slas: SlaMap,
    /// Real-time detection.
    pub detector: Option<Detector>,
    /// Admission of recognised flows; `None`: all are admitted.
    pub admission: Option<AdmissionSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_class: ClassId::NONE,
            dscp_classes: [ClassId::NONE; 64],
            trusted: Vec::new(),
            domains: Vec::new(),
            slas: SlaMap::default(),
            detector: None,
            admission: None,
        }
    }
}

impl Settings {
    /// Whether `port`'s code points choose classes.
    #[inline]
    pub fn trusts(&self, port: PortId) -> bool {
        self.trusted.get(port.index()).copied().unwrap_or(false)
    }

    /// Forwarding domain of `port`.
    #[inline]
    pub fn domain(&self, port: PortId) -> u16 {
        self.domains.get(port.index()).copied().unwrap_or(0)
    }

    /// Whether packets from `port` are looked at by an enabled detector.
    #[inline]
    pub fn detects(&self, port: PortId) -> bool {
        self.detector
            .as_ref()
            .is_some_and(|d| d.enabled && (d.in_ports.is_empty() || d.in_ports.contains(&port)))
    }

    /// Whether detection counts sizes and intervals, which needs every packet.
    #[inline]
    pub fn statistical(&self) -> bool {
        self.detector.as_ref().is_some_and(|d| d.stages.statistical.is_some())
    }

    /// Whether every verdict that was cached under `self` would be the same under `other`.
    pub fn same_verdicts(&self, other: &Self) -> bool {
        self.default_class == other.default_class
            && self.dscp_classes == other.dscp_classes
            && self.trusted == other.trusted
            && self.slas == other.slas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_and_the_source_win() {
        let net = |s: &str| s.parse::<IpNet>().unwrap();
        let map = SlaMap::new([
            (net("10.0.0.0/8"), SlaId(1)),
            (net("10.1.0.0/16"), SlaId(2)),
            (net("2001:db8::/32"), SlaId(3)),
        ]);
        let ip = |s: &str| s.parse::<IpAddr>().unwrap();
        assert_eq!(map.find(ip("10.1.2.3")), Some(SlaId(2)));
        assert_eq!(map.find(ip("10.2.2.3")), Some(SlaId(1)));
        assert_eq!(map.find(ip("11.2.2.3")), None);
        assert_eq!(map.of(ip("192.0.2.1"), ip("10.1.0.1")), Some(SlaId(2)));
        assert_eq!(map.of(ip("10.9.0.1"), ip("10.1.0.1")), Some(SlaId(1)));
        assert_eq!(map.find(ip("2001:db8::1")), Some(SlaId(3)));
    }
}
