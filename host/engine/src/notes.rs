//! How a router stands beside its kernel, a sentence each: what is left to the kernel, what of its tables is not followed, and
//! what of its rules is passed by.

use crate::error::EngineError;
use crate::kernel_routes::{Translation, ports_by_index};
use crate::left_to_kernel::LeftToKernel;
use crate::prepare::{self, Device};
use perhop_graph::router::EdgePort;
use perhop_io::clock;
use perhop_netlink::bypass::{Bypassed, Does, Findings, bypassed};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Mirror, Namespace, Netlink, NetlinkError};
use perhop_packet::PortId;
use perhop_routerfile::{PortIo, RouterFile};
use perhop_units::{Duration, Instant};
use std::collections::BTreeSet;

/// Of what is passed by so much is named.
const NAMED: usize = 8;
/// How often it is looked for. It tells nobody when it comes.
const LOOK_EVERY: Duration = Duration(5_000_000_000);
/// So many times as long as a look takes nobody looks again.
const PAUSE: u64 = 50;

/// What the router's tables are made from.
pub(crate) struct Beside<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) mirror: &'a Mirror,
    pub(crate) left: &'a LeftToKernel,
    pub(crate) translation: &'a Translation,
}

impl Beside<'_> {
    /// All there is to say. O(what is left to the kernel).
    pub(crate) fn notes(&self, passed_by: &PassedBy) -> Vec<String> {
        let routes = [self.past_ports(), self.shared(), self.encapsulating()];
        let all = passed_by.sentences().chain(routes.into_iter().flatten());
        all.chain(self.translation.notes.iter().cloned()).collect()
    }

    /// Names of interfaces, quoted.
    fn names(&self, indices: &BTreeSet<u32>) -> String {
        let links = indices.iter().filter_map(|index| self.mirror.links().get(index));
        let names: Vec<String> =
            links.filter(|link| !link.loopback).map(|link| format!("\"{}\"", link.name)).collect();
        names.join(", ")
    }

    /// Routes by ports of which the kernel has next hops past them as well.
    fn shared(&self) -> Option<String> {
        let (number, first, past) = self.left.shared(self.mirror.routes())?;
        let more = if number > 1 { format!(" and {} more", number - 1) } else { String::new() };
        let names = self.names(&past);
        Some(format!(
            "the route to {first}{more} leads by ports and by {names} as well, which is none: the router sends all of it by its \
             ports, also what {names} would have encrypted"
        ))
    }

    /// Interfaces past the ports that the kernel's routes lead to: what goes there is the kernel's to forward, if it does.
    fn past_ports(&self) -> Option<String> {
        let names = self.names(&self.left.past_interfaces(self.mirror.routes()));
        let is_off = |version| {
            sysctl::read(self.namespace, version, "all", "forwarding").is_ok_and(|value| value == 0)
        };
        let off: Vec<&str> =
            [(IpVersion::V4, "net.ipv4.ip_forward"), (IpVersion::V6, "net.ipv6.conf.all.forwarding")]
                .into_iter()
                .filter_map(|(version, key)| is_off(version).then_some(key))
                .collect();
        let and = match off[..] {
            [] => String::new(),
            [key] => format!(", which does not: {key} is 0"),
            _ => format!(", which does not: {} are 0", off.join(" and ")),
        };
        (!names.is_empty()).then(|| {
            format!(
                "what the kernel's routes send to {names} is the kernel's to forward, as these are no ports{and}"
            )
        })
    }

    /// Routes by ports that add a header.
    fn encapsulating(&self) -> Option<String> {
        let (number, first) = self.left.encapsulating()?;
        let more = if number > 1 { format!(" and {} more", number - 1) } else { String::new() };
        Some(format!(
            "the route to {first}{more} adds a header (encap), which the router does not make: what is for it is unreachable"
        ))
    }
}

/// What the kernel would do to what the router forwards, and does not, as it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct PassedBy {
    found: Findings,
    next: Instant,
    /// Ports may be AF_XDP's, which sends past the packet filter's hook of an interface.
    by_xdp: bool,
}

impl PassedBy {
    /// # Errors
    /// It cannot be found out.
    pub(crate) fn look(namespace: &Namespace, devices: &[Device], io: PortIo) -> Result<Self, NetlinkError> {
        Self { by_xdp: io != PortIo::AfPacket, ..Self::default() }.looked(namespace, devices)
    }

    /// What is there now.
    fn looked(&self, namespace: &Namespace, devices: &[Device]) -> Result<Self, NetlinkError> {
        let names: Vec<&str> = devices.iter().map(|device| device.device.as_str()).collect();
        let begin = clock::monotonic();
        let found = bypassed(namespace, &names, self.by_xdp, &self.found)?;
        let end = clock::monotonic();
        // Who follows routes looks, and has little time for it.
        let pause = Duration(end.since(begin).0.saturating_mul(PAUSE)).max(LOOK_EVERY);
        Ok(Self { found, next: end + pause, by_xdp: self.by_xdp })
    }

    /// What was found, where a router may start beside it: with `bypass`, whatever it is. Without the right to look there is
    /// none to forward either, which is told where it is asked for; then, and where it does not matter, why it is not known.
    ///
    /// # Errors
    /// [`EngineError::Netfilter`], [`EngineError::Flowtables`], [`EngineError::BridgeFilter`],
    /// [`EngineError::NetfilterUnknown`].
    pub(crate) fn accepted(
        looked: Result<Self, NetlinkError>,
        bypass: bool,
    ) -> Result<(Self, Option<NetlinkError>), EngineError> {
        match looked {
            Ok(found) => match found.rules() {
                _ if found.flowtables().is_some() => {
                    Err(EngineError::Flowtables { flowtables: found.flowtables().unwrap_or_default() })
                }
                _ if found.bridge_filter().is_some() => {
                    Err(EngineError::BridgeFilter { switches: found.bridge_filter().unwrap_or_default() })
                }
                Some(rules) if !bypass => Err(EngineError::Netfilter { rules }),
                _ => Ok((found, None)),
            },
            Err(error) if bypass || error.is_permission() => Ok((Self::default(), Some(error))),
            Err(source) => Err(EngineError::NetfilterUnknown { source }),
        }
    }

    /// Looks again when it is time. Whether it did.
    pub(crate) fn look_again(&mut self, namespace: &Namespace, devices: &[Device]) -> bool {
        let now = clock::monotonic();
        if now < self.next {
            return false;
        }
        match self.looked(namespace, devices) {
            Ok(new) => *self = new,
            Err(error) => {
                tracing::debug!(%error, "cannot look at what the kernel would do to what is forwarded");
                self.next = now + LOOK_EVERY;
            }
        }
        true
    }

    /// Somebody relies on it: addresses, a firewall, secrecy. That queues of a port are another's matter now is what a router
    /// is for.
    pub(crate) fn rules(&self) -> Option<String> {
        let relied_on = |b: &&Bypassed| matches!(b.does, Does::Translates | Does::Filters | Does::Encrypts);
        listed(self.found.all.iter().filter(relied_on))
    }

    /// What forwards by itself, whatever anybody says.
    fn flowtables(&self) -> Option<String> {
        listed(self.found.all.iter().filter(|b| b.does == Does::Forwards))
    }

    /// What keeps packets from ports, whatever anybody says.
    fn bridge_filter(&self) -> Option<String> {
        listed(self.found.all.iter().filter(|b| b.does == Does::Withholds))
    }

    fn sentences(&self) -> impl Iterator<Item = String> {
        let list = listed(self.found.all.iter().filter(|b| b.does != Does::Withholds));
        let passed_by =
            list.map(|list| format!("what the router forwards passes these of the kernel by: {list}"));
        let switches = self.bridge_filter();
        passed_by
            .into_iter()
            .chain(switches.map(|switches| EngineError::BridgeFilter { switches }.to_string()))
    }
}

fn listed<'a>(all: impl Iterator<Item = &'a Bypassed>) -> Option<String> {
    let mut texts: Vec<String> = all.map(ToString::to_string).collect();
    let more = texts.len().saturating_sub(NAMED);
    texts.truncate(NAMED);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// What a router of some file would say if it were started in the caller's network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Why it would not start.
    pub refused: Vec<String>,
    /// What it would tell.
    pub notes: Vec<String>,
}

impl Outlook {
    /// Looks, and changes nothing. Nothing is said where a port's interface is missing, or nothing can be seen: the file is
    /// for another machine.
    pub fn of(file: &RouterFile) -> Self {
        Self::look(file).unwrap_or_default()
    }

    fn look(file: &RouterFile) -> Result<Self, EngineError> {
        let namespace = Namespace::current()?;
        let ports = EdgePort::of_objects(&file.objects);
        let devices: Vec<Device> = ports.iter().map(Device::of).collect();
        let is_made = |device: &Device| file.tun_ports.iter().any(|tun| tun.as_str() == device.port);
        let netlink = Netlink::open_in(&namespace)?;
        let there = prepare::all_there(&netlink, devices.iter().filter(|device| !is_made(device)));
        let mut outlook = Self::default();
        match there {
            Err(EngineError::NoDevice { .. } | EngineError::NoDevices(_)) => return Ok(outlook),
            Err(error) => outlook.refused.push(error.to_string()),
            Ok(()) => {}
        }
        let looked = PassedBy::look(&namespace, &devices, file.router.io);
        let passed_by = match PassedBy::accepted(looked, file.kernel.bypass_netfilter) {
            Ok((passed_by, unseen)) => {
                if unseen.is_some_and(|error| error.is_permission()) {
                    outlook.notes.push(
                        "only root sees whether rules of the packet filter or of IPsec would be passed by"
                            .into(),
                    );
                }
                passed_by
            }
            Err(error) => {
                outlook.refused.push(error.to_string());
                PassedBy::default()
            }
        };
        let mirror = Mirror::open_in(&namespace)?;
        let by_index = ports_by_index(&mirror, &devices);
        let indices: Vec<u32> = by_index.keys().copied().collect();
        let is_bare =
            |device: &Device| is_made(device) || mirror.link(&device.device).is_some_and(prepare::is_bare);
        let bare = devices.iter().enumerate().filter(|(_, device)| is_bare(device));
        let bare = bare.map(|(i, _)| PortId(i as u16)).collect();
        let translation = Translation::new(&mirror, by_index, bare);
        let left = LeftToKernel::of(&mirror, &indices);
        let beside =
            Beside { namespace: &namespace, mirror: &mirror, left: &left, translation: &translation };
        outlook.notes.extend(beside.notes(&passed_by));
        Ok(outlook)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_router_starts_beside_rules_only_where_none_are_relied_on_or_the_file_says_so() {
        let found = |does| {
            let all = vec![Bypassed { place: "ip nat postrouting".to_owned(), does }];
            let mut found = Findings::default();
            found.all = all;
            Ok(PassedBy { found, ..PassedBy::default() })
        };
        let errno = |errno: Errno| {
            let (operation, object, detail) =
                ("list the packet filter's chains", String::new(), String::new());
            Err(NetlinkError::Kernel { operation, object, errno: errno.raw_os_error(), detail })
        };
        let accepted = |looked, bypass| match PassedBy::accepted(looked, bypass) {
            Ok((passed_by, unseen)) => Ok((passed_by.found.all.len(), unseen.is_some())),
            Err(EngineError::Netfilter { rules }) => Err(rules),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(accepted(found(Does::Queues), false), Ok((1, false)));
        assert!(accepted(found(Does::Translates), false).unwrap_err().starts_with("ip nat postrouting"));
        assert_eq!(accepted(found(Does::Translates), true), Ok((1, false)));
        assert!(accepted(found(Does::Forwards), true).is_err());
        assert!(accepted(found(Does::Withholds), true).is_err());
        // What cannot be read may be a firewall, but for who has no right to read it.
        for unreadable in [Errno::NOMEM, Errno::INTR, Errno::NOBUFS] {
            assert!(accepted(errno(unreadable), false).is_err(), "{unreadable:?}");
            assert_eq!(accepted(errno(unreadable), true), Ok((0, true)));
        }
        assert_eq!(accepted(errno(Errno::PERM), false), Ok((0, true)));
    }
}
