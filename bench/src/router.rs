//! The router under test: control, planner and worker in one thread, with the example's objects.

use crate::error::BenchError;
use ipnet::IpNet;
use perhop_contract::{Control, Input, Limits, Output};
use perhop_elements::route::{NeighbourState, NeighbourUpdate, NextHop, PortInfo, RouteEntry, RouteKind};
use perhop_graph::router::{
    Change, ChangeStep, EdgeOptions, EdgePort, RouterPlanner, Worker, edge_graph, registry,
};
use perhop_model::{
    AbrMatch, AbrPolicySpec, Credentials, FilterMatch, FilterSpec, MaskedByte, Name, Object, Op, Outcome,
    Owner, PortRange, Spec, Transaction, TxnId,
};
use perhop_packet::{Pool, PortId};
use perhop_routerfile::RouterFile;
use perhop_units::{Duration, Instant, Rate};
use perhop_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr};

/// Ports of the example, in its order.
pub const LAN: PortId = PortId(0);
/// See [`LAN`].
pub const WAN: PortId = PortId(1);
/// The example router.
const EDGE: &str = include_str!("../../examples/edge.toml");
/// Address of the router's port `i`.
pub fn port_mac(port: PortId) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, port.0 as u8])
}
/// The next hop behind the port `wan`.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Its link address.
pub const GATEWAY_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 1]);

/// The port that connections of a controlled rate are to.
pub const SERVED: u16 = 5001;

/// What is varied.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Rate of the port `wan`, bit/s: high enough not to be the limit.
    pub rate: u64,
    /// Filters that match nothing.
    pub filters: usize,
    /// Connections the router keeps at the most.
    pub connections: u32,
    /// Real-time detection.
    pub detection: Detection,
    /// Connections whose rate is controlled, and the rate of them all, bit/s; none: no policy.
    pub abr: Option<(u32, u64)>,
}

/// What becomes of the example's detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// As it is in the file.
    On,
    /// It does not run.
    Off,
    /// It never comes to an end: more packets are asked for than a flow sends in the time.
    Endless,
}

/// The example's objects with the port `wan` at `rate` instead of its own, and `filters` more filters.
fn objects(setup: &Setup) -> Result<Vec<Object>, BenchError> {
    let (file, diagnostics) = RouterFile::read("edge.toml", EDGE);
    let file = file.ok_or_else(|| BenchError::Router(format!("{} errors", diagnostics.errors())))?;
    let mut objects = file.objects;
    for object in &mut objects {
        match &mut object.spec {
            Spec::Port(port) if object.name.as_str() == "wan" => port.rate = Rate(setup.rate),
            Spec::Detector(detector) => match setup.detection {
                Detection::On => {}
                Detection::Off => detector.enabled = false,
                Detection::Endless => {
                    (detector.packets, detector.within) = (64, Duration::from_millis(100));
                }
            },
            _ => {}
        }
    }
    if let Some((_, rate)) = setup.abr {
        let name = Name::new("bench").map_err(|e| BenchError::Router(e.to_string()))?;
        let ports = PortRange { first: SERVED, last: SERVED };
        let matches = AbrMatch { dst_ports: Some(ports), ..AbrMatch::default() };
        let spec = AbrPolicySpec { matches, rate: Rate(rate), local: true, ..AbrPolicySpec::default() };
        objects.push(Object::new(name, Spec::AbrPolicy(spec)));
    }
    for i in 0..setup.filters {
        let name = Name::new(&format!("bench/{i:05}")).map_err(|e| BenchError::Router(e.to_string()))?;
        objects.push(Object::new(name, Spec::Filter(filter(i as u32))));
    }
    Ok(objects)
}

/// The `i`th filter, of one of eight shapes as operators write them. The traffic comes from 10.0.0.0/8 to 198.18.0.0/15
/// by UDP with unmarked packets, so none matches; all but the last shape could, as far as protocols go.
pub fn filter(i: u32) -> FilterSpec {
    let n = i / 8;
    let host = |first: u8| Some(IpNet::from(IpAddr::from(Ipv4Addr::from(u32::from(first) << 24 | n))));
    let net = |first: u8| {
        let address = Ipv4Addr::from(u32::from(first) << 24 | n << 8);
        IpNet::new(address.into(), 24).ok()
    };
    let port = 1 + (n % 65_000) as u16;
    let ports = |first: u16, last: u16| Some(PortRange { first, last });
    let any = FilterMatch::default();
    let matches = match i % 8 {
        0 => FilterMatch { dst: host(172), protocol: Some(17), dst_ports: ports(port, port), ..any },
        1 => FilterMatch { src: net(172), ..any },
        2 => FilterMatch { dst: net(173), protocol: Some(17), ..any },
        3 => FilterMatch { src: host(174), dst: net(175), ..any },
        4 => FilterMatch { dst: host(176), protocol: Some(6), dst_ports: ports(port, port + 9), ..any },
        5 => FilterMatch { src: net(177), dscp: Some(MaskedByte { value: 46, mask: 63 }), ..any },
        6 => FilterMatch { src: host(178), protocol: Some(17), src_ports: ports(port, port), ..any },
        _ => FilterMatch { in_port: Name::new("wan").ok(), dst: host(179), ..any },
    };
    let class = Name::new("best-effort").ok();
    FilterSpec { priority: 10 * (i + 1), matches, class, ..FilterSpec::default() }
}

/// A router that takes frames from memory.
pub struct Router {
    control: Control<RouterPlanner>,
    /// The data half.
    pub worker: Worker,
    next: u64,
}

impl Router {
    /// The example's router with routes and its next hop known.
    ///
    /// # Errors
    /// The configuration is refused.
    pub fn new(setup: &Setup, pool: Pool, seed: u64) -> Result<Self, BenchError> {
        let options = EdgeOptions::live(setup.connections);
        let options = setup.abr.map_or(options, |(connections, _)| options.with_abr(connections));
        let mut router = Self::with(objects(setup)?, &options, pool, seed)?;
        router.world();
        Ok(router)
    }

    /// A router of these objects, ports among them, that knows no routes.
    ///
    /// # Errors
    /// The configuration is refused.
    pub fn with(
        objects: Vec<Object>,
        options: &EdgeOptions,
        pool: Pool,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let ports = EdgePort::of_objects(&objects);
        let text = edge_graph(&ports, options);
        let mut planner = RouterPlanner::new(ports, registry());
        let worker =
            Worker::new(&text, &mut planner, pool, seed).map_err(|e| BenchError::Router(e.to_string()))?;
        let control = Control::new(1, planner, Limits::default());
        let mut router = Self { control, worker, next: 0 };
        router.submit(vec![Op::replace_owned(&RouterFile::KINDS, objects)])?;
        Ok(router)
    }

    /// Commits operations of the owner `file`.
    ///
    /// # Errors
    /// They are refused.
    pub fn submit(&mut self, ops: Vec<Op>) -> Result<(), BenchError> {
        self.next += 1;
        let transaction =
            Box::new(Transaction::new(TxnId(u128::from(self.next).to_be_bytes()), Owner::File, ops));
        let now = Instant::ZERO;
        let request = self.next;
        self.control.handle_input(now, Input::Request { request, who: Credentials::ADMIN, transaction });
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Apply { ticket, change } => {
                    self.apply(change);
                    self.control.handle_input(now, Input::Applied { ticket });
                }
                Output::Reply { reply, .. } if reply.outcome == Outcome::Committed => return Ok(()),
                Output::Reply { reply, .. } => {
                    let errors: Vec<_> =
                        reply.errors.iter().take(3).map(|e| format!("{}: {}", e.path, e.message)).collect();
                    return Err(BenchError::Router(errors.join("; ")));
                }
            }
        }
        Err(BenchError::Router("the router does not answer".to_owned()))
    }

    /// Its two halves, for two threads.
    pub fn into_halves(self) -> (Control<RouterPlanner>, Worker) {
        (self.control, self.worker)
    }

    fn apply(&mut self, mut change: Change) {
        while self.worker.apply(Instant::ZERO, &mut change) == ChangeStep::More {}
    }

    /// The kernel says that these neighbours can be reached.
    pub fn neighbours(&mut self, updates: Vec<NeighbourUpdate>) {
        let change = self.control.planner_mut().neighbour_change(updates);
        self.apply(change);
    }

    /// What the kernel would say: addresses, routes, and the neighbour behind `wan`.
    fn world(&mut self) {
        let net = |text: &str| text.parse().expect("a constant prefix");
        let info = |port, address| PortInfo {
            mac: port_mac(port),
            mtu: 1500,
            addresses: vec![net(address)],
            ..PortInfo::default()
        };
        let ports = vec![info(LAN, "10.0.0.254/8"), info(WAN, "192.0.2.2/24")];
        let way = |dest, via: Option<Ipv4Addr>, port| {
            RouteEntry::new(net(dest), RouteKind::by(NextHop::new(via.map(IpAddr::V4), port)))
        };
        let own = |dest| RouteEntry::new(net(dest), RouteKind::Local);
        let routes = vec![
            way("0.0.0.0/0", Some(GATEWAY), WAN),
            way("10.0.0.0/8", None, LAN),
            way("192.0.2.0/24", None, WAN),
            own("10.0.0.254/32"),
            own("192.0.2.2/32"),
        ];
        let state = NeighbourState::Reachable(GATEWAY_MAC);
        let neighbours = vec![NeighbourUpdate { port: WAN, ip: IpAddr::V4(GATEWAY), state }];
        let planner = self.control.planner_mut();
        let changes = [
            planner.port_change(ports),
            planner.set_kernel_routes(routes),
            planner.neighbour_change(neighbours),
        ];
        for change in changes {
            self.apply(change);
        }
    }
}
