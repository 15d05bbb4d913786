//! Sender, router and sink: three namespaces and two virtual Ethernet pairs.

use crate::error::BenchError;
use crate::router::{GATEWAY, GATEWAY_MAC, LAN, WAN, port_mac};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::tc::{Handle, HtbClass, QdiscSpec, U32Filter, U32Key};
use perhop_netlink::{Namespace, Netlink, NetlinkError};
use perhop_units::{Bytes, Rate};
use std::net::{IpAddr, Ipv4Addr};

/// Interface of the sender.
pub const SENDER: &str = "s0";
/// The router's interface towards the sender.
pub const INSIDE: &str = "r0";
/// The router's interface towards the sink.
pub const OUTSIDE: &str = "r1";
/// The router's own addresses.
pub const LOCAL: [(IpAddr, u8); 2] =
    [(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)), 32), (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 32)];
/// Interface of the sink.
pub const SINK: &str = "k0";

/// The namespaces; everything in them disappears with them.
#[derive(Debug)]
pub struct Layout {
    /// Where the sender lives.
    pub sender: Namespace,
    /// Where the router lives.
    pub router: Namespace,
    /// Where the sink lives.
    pub sink: Namespace,
    net: Netlink,
    /// Whether the kernel hands received frames to the router's processor.
    pub steered: bool,
}

impl Layout {
    /// Makes it; with `cpu`, what the router's interface receives is steered to that processor.
    ///
    /// # Errors
    /// Without rights over namespaces.
    pub fn new(cpu: Option<usize>) -> Result<Self, BenchError> {
        let (sender, router, sink) = (Namespace::create()?, Namespace::create()?, Namespace::create()?);
        let net = Netlink::open_in(&router)?;
        let steered = Self::inside_pair(&sender, &router, &net, cpu)?;
        net.create_veth(OUTSIDE, SINK, Some(&sink))?;
        let sender_net = Netlink::open_in(&sender)?;
        let sink_net = Netlink::open_in(&sink)?;
        net.set_mac(INSIDE, port_mac(LAN).0)?;
        net.set_mac(OUTSIDE, port_mac(WAN).0)?;
        for name in [INSIDE, OUTSIDE] {
            // The kernel is to say nothing of its own accord that the sink would count.
            let silent = [(IpVersion::V6, "disable_ipv6", 1)];
            sysctl::set(&router, name, &silent)?;
            net.set_up(name)?;
        }
        sender_net.set_up(SENDER)?;
        sink_net.set_up(SINK)?;
        let prefix = |text: &str| text.parse().expect("a constant prefix");
        net.add_address_now(INSIDE, prefix("10.0.0.254/8"))?;
        net.add_address_now(OUTSIDE, prefix("192.0.2.2/24"))?;
        let gateway = IpAddr::V4(GATEWAY);
        net.add_route(prefix("0.0.0.0/0"), Some(gateway), Some(OUTSIDE))?;
        // The address is not that of the sink's interface, so that the sink's kernel throws the frames away at once.
        net.add_neighbour(net.link(OUTSIDE)?.index, gateway, GATEWAY_MAC.0)?;
        let layout = Self { sender, router, sink, net, steered };
        layout.forward_by_kernel(false)?;
        Ok(layout)
    }

    /// Interface indices of the router's ports.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ports(&self) -> Result<[u32; 2], BenchError> {
        Ok([self.net.link(INSIDE)?.index, self.net.link(OUTSIDE)?.index])
    }

    /// The pair between sender and router. Steering is set through sysfs, which shows the namespace of its mount: so the
    /// pair is made where this program is and moved. Returns whether it is steered.
    fn inside_pair(
        sender: &Namespace,
        router: &Namespace,
        net: &Netlink,
        cpu: Option<usize>,
    ) -> Result<bool, BenchError> {
        if let (Some(cpu), Ok(here)) = (cpu, Netlink::open()) {
            let name = format!("phb{}", std::process::id());
            if here.create_veth(&name, SENDER, Some(sender)).is_ok() {
                let path = format!("/sys/class/net/{name}/queues/rx-0/rps_cpus");
                let steered = std::fs::write(path, format!("{:x}", 1u64 << (cpu % 64))).is_ok();
                here.move_to(&name, router)?;
                net.rename(&name, INSIDE)?;
                return Ok(steered);
            }
        }
        net.create_veth(INSIDE, SENDER, Some(sender))?;
        Ok(false)
    }

    /// Switches the kernel's forwarding between the router's interfaces.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn forward_by_kernel(&self, on: bool) -> Result<(), BenchError> {
        for name in [INSIDE, OUTSIDE] {
            let keys = [IpVersion::V4, IpVersion::V6].map(|version| (version, "forwarding", on.into()));
            sysctl::set(&self.router, name, &keys)?;
        }
        Ok(())
    }

    /// Puts four HTB classes with u32 filters in front of the way out; their rates limit nothing.
    ///
    /// # Errors
    /// The kernel lacks HTB or u32.
    pub fn shape(&self) -> Result<(), NetlinkError> {
        const GBIT: u64 = 1_000_000_000;
        let root = Handle::new(1, 0);
        let top = Handle::new(1, 1);
        let spec = QdiscSpec::Htb { default_minor: 0x40, rate_to_quantum: 10 };
        self.net.add_qdisc(OUTSIDE, Handle::ROOT, root, &spec)?;
        let class = |rate: u64, priority: u32| {
            let bucket = Bytes(1_000_000);
            HtbClass {
                rate: Rate(rate),
                ceil: Rate(20 * GBIT),
                burst: bucket,
                cburst: bucket,
                priority,
                quantum: 60_000,
            }
        };
        self.net.add_class(OUTSIDE, root, top, &class(20 * GBIT, 0))?;
        for i in 1..=4u16 {
            let handle = Handle::new(1, i << 4);
            self.net.add_class(OUTSIDE, top, handle, &class(5 * GBIT, u32::from(i) - 1))?;
        }
        // Three filters that the traffic passes on its way to the default class, as an edge has them.
        let filters = [
            (U32Key::ipv4_dscp(46), 0x10),
            (U32Key::ipv4_source("172.16.0.0/12".parse().expect("a prefix")), 0x20),
            (U32Key::ipv4_protocol(6), 0x30),
        ];
        for (i, (key, minor)) in filters.into_iter().enumerate() {
            let filter = U32Filter { keys: vec![key], class: Handle::new(1, minor) };
            self.net.add_filter(OUTSIDE, root, i as u16 + 1, ETH_P_IP, &filter)?;
        }
        Ok(())
    }

    /// Takes classes and filters away.
    pub fn unshape(&self) {
        // Nothing is there when shaping failed at its beginning.
        let _ = self.net.delete_qdisc(OUTSIDE, Handle::ROOT);
    }

    /// Frames that have arrived at the sink.
    ///
    /// # Errors
    /// The counter cannot be read.
    pub fn received(&self) -> Result<u64, BenchError> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
        let text =
            self.sink.run(read)?.map_err(|e| BenchError::Wrong(format!("the sink's counters: {e}")))?;
        // name: bytes packets errs drop …
        let line = text.lines().find_map(|l| l.trim_start().strip_prefix("k0:"));
        line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
            .ok_or_else(|| BenchError::Wrong("the sink's counters do not name its interface".to_owned()))
    }
}

/// EtherType of IPv4.
const ETH_P_IP: u16 = 0x0800;
