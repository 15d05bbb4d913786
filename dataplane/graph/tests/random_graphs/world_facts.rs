//! What the kernel tells a router: routes, neighbours, addresses. Without them a router only refuses.

use perhop_elements::route::{
    Fib, NeighbourState, NeighbourUpdate, NextHop, Origin, PortInfo, RouteChange, RouteEntry, RouteKind,
};
use perhop_packet::PortId;
use perhop_wire::MacAddr;
use rand::Rng;

/// Random facts about four ports whose links are in 10.0.0.0/8 and 2001:db8::/32.
pub fn facts(rng: &mut impl Rng) -> RouteChange {
    let mut below = |n: u32| rng.next_u32() % n;
    let nets = ["0.0.0.0/0", "10.0.0.0/29", "10.0.0.8/32", "::/0", "2001:db8::/125", "2001:db8::9/128"];
    let mut routes = Vec::new();
    for net in nets {
        let port = PortId(below(4) as u16);
        let kind = match below(8) {
            0 => RouteKind::Blackhole,
            1 => RouteKind::Unreachable,
            2 => RouteKind::Prohibit,
            3 => RouteKind::Local,
            _ => RouteKind::Unicast { next_hops: vec![NextHop { via: None, port }] },
        };
        let dest = net.parse().expect("a prefix");
        routes.push(RouteEntry { dest, kind, metric: 0, origin: Origin::Kernel });
    }
    let mut neighbours = Vec::new();
    for host in 0..20_u16 {
        let state = match below(4) {
            0 => NeighbourState::Failed,
            1 => NeighbourState::Removed,
            2 => NeighbourState::Stale(MacAddr([2, 0, 0, 0, 1, host as u8])),
            _ => NeighbourState::Reachable(MacAddr([2, 0, 0, 0, 1, host as u8])),
        };
        let port = PortId(below(4) as u16);
        neighbours.push(NeighbourUpdate { port, ip: [10, 0, 0, host as u8].into(), state });
        neighbours.push(NeighbourUpdate { port, ip: [0x2001, 0xdb8, 0, 0, 0, 0, 0, host].into(), state });
    }
    let port = |n: u8| PortInfo {
        mac: MacAddr([2, 0, 0, 0, 0, 2]),
        mtu: [1280, 1500][usize::from(n) % 2],
        addresses: vec!["10.0.0.1/8".parse().expect("a prefix"), "2001:db8::1/32".parse().expect("a prefix")],
    };
    RouteChange { fib: Some(Fib::build(routes)), neighbours, ports: Some((0..4).map(port).collect()) }
}
