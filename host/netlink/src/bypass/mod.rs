//! What the kernel would do to packets it forwards between some interfaces, and does not to those that a router forwards past
//! it: rules of the packet filter, policies of IPsec, rates of interfaces.
//!
//! | module | finds |
//! |---|---|
//! | `nft` | chains of nf_tables (also those of today's `iptables`) |
//! | `legacy` | chains of `iptables-legacy` |
//! | `xfrm` | policies that encrypt or block |
//! | here | queues of the interfaces that hold a rate, and filters where packets arrive |
//!
//! A chain counts when a packet between the interfaces can come to something in it: a rule that does more than to accept, count,
//! mark and log, behind whatever other conditions; or the chain's policy, if that is to drop. Rules for interfaces that are none
//! of these do not count.

mod legacy;
mod nft;
mod rules;
mod xfrm;

use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::link::LinkInfo;
use crate::namespace::Namespace;
use crate::sysctl;
use crate::tc::Handle;
use std::fmt;

#[cfg(test)]
pub(crate) use nft::tests;

pub(crate) use nft::drop_forwarded;

/// What something of the kernel does to packets that it forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// Other addresses or ports.
    Translates,
    /// Drops some, or changes them.
    Filters,
    /// IPsec.
    Encrypts,
    /// Orders those that are sent, or holds a rate.
    Queues,
    /// Polices or redirects those that arrive.
    Polices,
    /// Forwards those of connections that it knows by itself, before anybody else sees them (flowtables).
    Forwards,
    /// Shows rules for IP what is still in a bridge (`br_netfilter`): it ends by the router's own before a port on that bridge
    /// sees it, and so does what the bridge's hosts send each other.
    Withholds,
}

/// Something of the kernel that packets pass by which it does not forward itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bypassed {
    /// Where it is, as the tool for it would say: `ip nat postrouting`.
    pub place: String,
    /// What it does.
    pub does: Does,
}

impl fmt::Display for Bypassed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = match self.does {
            Does::Translates => "translates addresses",
            Does::Filters => "filters or changes what is forwarded",
            Does::Encrypts => "encrypts what is forwarded",
            Does::Queues => "queues what is sent",
            Does::Polices => "filters or redirects what arrives",
            Does::Forwards => "forwards known connections by itself",
            Does::Withholds => "shows the packet filter what is still in it",
        };
        write!(f, "{} {does}", self.place)
    }
}

/// Interfaces that packets go between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interfaces {
    names: Vec<String>,
    indices: Vec<u32>,
    /// Whether what leaves by them goes past nf_tables' hook there.
    past_egress: bool,
}

/// What was found, and by what it is known that the rules of nf_tables, of which there may be very many, are still the same.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// All of it, in order.
    pub all: Vec<Bypassed>,
    nft: Vec<Bypassed>,
    /// Of the tables, and numbers of the interfaces.
    known_by: Option<(u32, Vec<u32>)>,
}

/// What there is in a namespace for packets between these interfaces, in order. Those that are not there yet are known by name
/// only. `past_egress` says whether what leaves by them goes past nf_tables' hook there, as it does with AF_XDP and not with
/// packet sockets. O(rules), but for those of nf_tables that have not changed since something was found `before` for the same interfaces.
///
/// # Errors
/// [`NetlinkError::Kernel`]; a kernel without one of the kinds has nothing of it, which is no error.
pub fn bypassed(
    namespace: &Namespace,
    interfaces: &[&str],
    past_egress: bool,
    before: &Findings,
) -> Result<Findings, NetlinkError> {
    let netlink = Netlink::open_in(namespace)?;
    let links = netlink.links()?;
    let is_one = |name: &str| interfaces.contains(&name);
    let indices: Vec<u32> = links.iter().filter(|link| is_one(&link.name)).map(|link| link.index).collect();
    // Asked for before the tables are read: what changes meanwhile is read again.
    let known_by = nft::generation(namespace).map(|generation| (generation, indices.clone()));
    let names = interfaces.iter().map(|&name| name.to_owned()).collect();
    let ports = Interfaces { names, indices, past_egress };
    let nft = if known_by.is_some() && known_by == before.known_by {
        before.nft.clone()
    } else {
        nft::bypassed(namespace, &ports)?
    };
    let mut found = nft.clone();
    match legacy::bypassed(namespace, &ports) {
        Ok(older) => found.extend(older),
        // What was found is enough to know.
        Err(_) if !found.is_empty() => {}
        Err(error) => return Err(error),
    }
    found.extend(xfrm::bypassed(namespace, &ports, &netlink.addresses()?)?);
    for link in links.iter().filter(|link| is_one(&link.name)) {
        found.extend(of_interface(&netlink, link)?);
        if link.kind.as_deref() == Some("bridge") {
            let keys = sysctl::bridge_filter_keys(namespace)?.into_iter();
            let place = |key| format!("bridge \"{}\" ({key} = 1)", link.name);
            found.extend(keys.map(|key| Bypassed { place: place(key), does: Does::Withholds }));
        }
    }
    found.sort();
    found.dedup();
    Ok(Findings { all: found, nft, known_by })
}

/// Kinds of queues that hold no rate and that somebody need not have asked for.
const PLAIN: [&str; 7] = ["noqueue", "pfifo_fast", "pfifo", "bfifo", "mq", "fq_codel", "fq"];

fn of_interface(netlink: &Netlink, link: &LinkInfo) -> Result<Vec<Bypassed>, NetlinkError> {
    let name = &link.name;
    let qdiscs = netlink.qdiscs(name)?;
    // What leaves by an interface without a link header goes through its queues.
    let is_past = link.mac.is_some();
    let own = qdiscs
        .iter()
        .filter(|qdisc| is_past && qdisc.parent == Handle::ROOT && !PLAIN.contains(&qdisc.spec.kind()));
    let mut found: Vec<Bypassed> = own
        .map(|qdisc| Bypassed { place: format!("tc {} of {name}", qdisc.spec.kind()), does: Does::Queues })
        .collect();
    if qdiscs.iter().any(|qdisc| qdisc.parent == Handle::INGRESS)
        && !netlink.filters(name, Handle::ARRIVING)?.is_empty()
    {
        found.push(Bypassed { place: format!("tc ingress of {name}"), does: Does::Polices });
    }
    Ok(found)
}

#[cfg(test)]
mod interface_tests {
    use super::*;
    use crate::tc::{QdiscSpec, U32Filter, U32Key};

    #[test]
    fn queues_that_hold_a_rate_and_filters_on_arrival_are_found() {
        let test = "queues_that_hold_a_rate_and_filters_on_arrival_are_found";
        let Some(namespace) = tests::namespace_for(test) else { return };
        let net = Netlink::open_in(&namespace).unwrap();
        net.create_veth("lan", "far", None).unwrap();
        let found = || -> Vec<String> {
            bypassed(&namespace, &["lan"], false, &Default::default())
                .unwrap()
                .all
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        let htb = QdiscSpec::Htb { default_minor: 0, rate_to_quantum: 10 };
        net.add_qdisc("far", Handle::ROOT, Handle::new(1, 0), &htb).unwrap();
        net.add_qdisc("lan", Handle::INGRESS, Handle::new(0xffff, 0), &QdiscSpec::Ingress).unwrap();
        assert!(found().is_empty(), "{:?}", found());
        net.add_qdisc("lan", Handle::ROOT, Handle::new(1, 0), &htb).unwrap();
        let filter = U32Filter { keys: vec![U32Key::ipv4_protocol(17)], class: Handle::new(0xffff, 0) };
        net.add_filter("lan", Handle::new(0xffff, 0), 1, 0x0800, &filter).unwrap();
        assert_eq!(
            found(),
            ["tc htb of lan queues what is sent", "tc ingress of lan filters or redirects what arrives"]
        );
    }
}
