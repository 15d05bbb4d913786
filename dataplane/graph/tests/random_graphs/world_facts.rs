//! What the kernel tells a router: routes, neighbours, addresses. Without them a router only refuses. And what somebody
//! else tells it: policies for TCP, without which all of it passes.

use perhop_abr::{AbrChange, AbrPolicyId, Floor, Latency, Match, Policy, Settings};
use perhop_elements::route::{
    Fib, NeighbourState, NeighbourUpdate, NextHop, PortInfo, RouteChange, RouteEntry, RouteKind,
};
use perhop_packet::PortId;
use perhop_units::{Duration, Rate};
use perhop_wire::MacAddr;
use rand::Rng;
use std::sync::Arc;

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
            _ => RouteKind::by(NextHop::new(None, port)),
        };
        let dest = net.parse().expect("a prefix");
        routes.push(RouteEntry::new(dest, kind));
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
        ..PortInfo::default()
    };
    RouteChange {
        fib: Some(Fib::build(routes)),
        neighbours,
        ports: Some((0..4).map(port).collect()),
        path_seed: Some(1),
    }
}

/// Up to three random policies, some of them so slow that acknowledgments are held.
pub fn policies(rng: &mut impl Rng) -> AbrChange {
    let mut below = |n: u32| rng.next_u32() % n;
    let policies = (0..below(4)).map(|id| Policy {
        id: AbrPolicyId(id),
        matches: Match { dscp: [0, 1, u64::MAX][below(3) as usize], ..Match::default() },
        rate: Rate([0, 9_000, 5_000_000][below(3) as usize]),
        peak: Rate([0, 20_000][below(2) as usize]),
        floor: [Floor::Clamp, Floor::Pace][below(2) as usize],
        latency: Latency::PUBLISHED,
        allow_shrink: below(2) == 0,
        span: Duration::ZERO,
        limit_syn_ack: below(2) == 0,
        assume_shift: [None, Some(0), Some(7)][below(3) as usize],
        local: below(2) == 0,
        overhead: below(40),
        idle: Duration::from_millis(u64::from(100 + below(5_000))),
    });
    AbrChange { settings: Some(Arc::new(Settings { policies: policies.collect() })) }
}
