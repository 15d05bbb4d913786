//! What this host itself sends by ports with a rate: led through the router, so that it waits in the ports' trees like what is
//! forwarded, instead of passing by and taking what others were promised.

use crate::error::EngineError;
use crate::prepare::{Device, is_bare};
use perhop_io::Tap;
use perhop_io::af_packet::{SENT_MARK, bare_mark};
use perhop_netlink::nft::{self, Detour};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{LinkInfo, Mirror, Namespace, Netlink, NetlinkError};

/// The detours. They go away with this value, and with the process.
pub(crate) struct OwnTraffic {
    rules: nft::OwnTraffic,
    /// Interface number of each port's detour.
    taps: Vec<Option<u32>>,
    /// Whether the last change failed, which is told once.
    failed: bool,
}

fn detour(link: &LinkInfo, to: u32) -> Detour {
    let marks = [SENT_MARK, bare_mark(link.index)];
    Detour { interface: link.name.clone(), index: link.index, to, marks }
}

impl OwnTraffic {
    /// A detour for each of the devices that has one coming, and its ends, by port.
    ///
    /// # Errors
    /// The kernel cannot have it, or we may not.
    pub(crate) fn open(
        namespace: &Namespace,
        netlink: &Netlink,
        router: &str,
        devices: &[(Device, bool)],
    ) -> Result<(Self, Vec<Option<Tap>>), EngineError> {
        let rules = nft::OwnTraffic::open_in(namespace, router)?;
        let mut own = Self { rules, taps: Vec::new(), failed: false };
        let mut ends = Vec::new();
        let mut detours: Vec<Detour> = Vec::new();
        for (device, wanted) in devices {
            let link = if *wanted { netlink.link(&device.device).ok() } else { None };
            let Some(link) = link else {
                own.taps.push(None);
                ends.push(None);
                continue;
            };
            let name = format!("own.{}", link.index);
            let failed = |error| EngineError::of_netlink(&device.port, &name, error);
            let end = namespace
                .run(|| {
                    if is_bare(&link) {
                        Tap::of_packets(&device.port, &name)
                    } else {
                        Tap::open(&device.port, &name)
                    }
                })?
                .map_err(|error| EngineError::of_port(&device.port, &name, error))?;
            // It has nothing to say itself. A kernel without IPv6 has no such key.
            let _ = sysctl::write(namespace, IpVersion::V6, &name, "disable_ipv6", 1);
            netlink.set_up(&name).map_err(failed)?;
            let to = netlink.link(&name).map_err(failed)?.index;
            detours.push(detour(&link, to));
            own.taps.push(Some(to));
            ends.push(Some(end));
        }
        own.rules.lead(&detours)?;
        Ok((own, ends))
    }

    /// Follows the interfaces of ports that are in service. A detour's own interface that somebody switches off is switched
    /// on again; one that somebody deletes is gone until the router starts anew, and its port's traffic leaves as without it.
    pub(crate) fn follow(&mut self, mirror: &Mirror, devices: &[Device], in_service: impl Fn(usize) -> bool) {
        for (tap, Device { port, .. }) in self.taps.iter_mut().zip(devices) {
            let Some(index) = *tap else { continue };
            match mirror.links().get(&index) {
                Some(link) if !link.up => {
                    let interface = &link.name;
                    match mirror.netlink().set_up(interface) {
                        Ok(()) => tracing::warn!(
                            port,
                            interface,
                            "what this host itself sends goes by it: switched on again"
                        ),
                        Err(error) => tracing::warn!(
                            port, interface, %error,
                            "what this host itself sends by the port is lost: cannot switch the interface on again"
                        ),
                    }
                }
                Some(_) => {}
                None => {
                    tracing::warn!(
                        port,
                        "the interface for what this host itself sends was deleted: that does not wait in the port's queues \
                         any more"
                    );
                    *tap = None;
                }
            }
        }
        let led = |(i, device): (usize, &Device)| -> Option<Detour> {
            let to = self.taps.get(i).copied().flatten().filter(|_| in_service(i))?;
            let link = mirror.link(&device.device)?;
            Some(detour(link, to))
        };
        let detours: Vec<Detour> = devices.iter().enumerate().filter_map(led).collect();
        match self.rules.lead(&detours) {
            Ok(()) => self.failed = false,
            // An interface that has gone meanwhile: the next change tells of it.
            Err(error) => self.tell(&error),
        }
    }

    fn tell(&mut self, error: &NetlinkError) {
        if !std::mem::replace(&mut self.failed, true) {
            tracing::info!(%error, "what this host itself sends does not change its way yet");
        }
    }
}
