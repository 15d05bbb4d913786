//! Offloads: what a card does for the kernel with checksums and segments.
//!
//! A program that reads frames from a packet socket sees what the kernel
//! hands to the card: with offloads on, superframes of up to 64 KB and
//! unfinished checksums. On a veth pair they must be off on *both* ends.

use std::collections::BTreeMap;

use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::ethtool::Feature;

/// The offload switches of one interface, by the kernel's names
/// (`ethtool -k`). Plain data, so that it can be written to a file and
/// restored after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Switches that can be changed, with what was asked for them.
    pub wanted: BTreeMap<String, bool>,
    /// Names of the offloads in effect now, those that cannot be changed included.
    pub active: Vec<String>,
}

impl Offloads {
    /// Whether no offload is in effect.
    pub fn is_off(&self) -> bool {
        self.active.is_empty()
    }

    fn from_features(features: Vec<Feature>) -> Self {
        let mut offloads = Self::default();
        for feature in features.into_iter().filter(|f| is_offload(&f.name)) {
            if feature.active {
                offloads.active.push(feature.name.clone());
            }
            if feature.changeable {
                offloads.wanted.insert(feature.name, feature.wanted);
            }
        }
        offloads
    }
}

/// Whether a feature changes frames between the wire and a packet socket:
/// checksums, segmentation and coalescing. Scatter-gather and VLAN switches
/// do not: packet sockets see whole frames and get the tag beside them.
fn is_offload(name: &str) -> bool {
    matches!(name, "rx-checksum" | "rx-lro" | "rx-udp-gro-forwarding")
        || name.starts_with("tx-checksum-")
        || name.starts_with("rx-gro")
        || (name.starts_with("tx-") && name.ends_with("-segmentation"))
        || name.starts_with("tx-gso")
}

impl Netlink {
    /// Offloads of an interface.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`], [`NetlinkError::Kernel`].
    pub fn offloads(&self, interface: &str) -> Result<Offloads, NetlinkError> {
        Ok(Offloads::from_features(self.control().features(interface)?))
    }

    /// Switches all offloads off and returns what was before. What a driver
    /// refuses to switch off is logged, and shows in [`Offloads::active`]
    /// later.
    ///
    /// # Errors
    /// As [`Netlink::offloads`]; EPERM without CAP_NET_ADMIN.
    pub fn disable_offloads(&self, interface: &str) -> Result<Offloads, NetlinkError> {
        let before = self.offloads(interface)?;
        self.control().set_features(interface, |name| is_offload(name).then_some(false))?;
        let after = self.offloads(interface)?;
        if !after.is_off() {
            tracing::warn!(interface, still_on = ?after.active, "offloads that cannot be switched off");
        }
        Ok(before)
    }

    /// Puts back what [`Netlink::disable_offloads`] returned.
    ///
    /// # Errors
    /// As [`Netlink::disable_offloads`].
    pub fn restore_offloads(&self, interface: &str, saved: &Offloads) -> Result<(), NetlinkError> {
        self.control().set_features(interface, |name| saved.wanted.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_frames_is_an_offload() {
        for name in [
            "rx-checksum",
            "tx-checksum-ipv4",
            "tx-checksum-ip-generic",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-udp-segmentation",
            "tx-generic-segmentation",
            "tx-gso-partial",
            "rx-gro",
            "rx-gro-hw",
            "rx-lro",
            "tx-udp_tnl-csum-segmentation",
        ] {
            assert!(is_offload(name), "{name}");
        }
        for name in ["tx-scatter-gather", "rx-vlan-hw-parse", "highdma", "rx-vlan-filter", "tx-lockless"] {
            assert!(!is_offload(name), "{name}");
        }
    }
}
