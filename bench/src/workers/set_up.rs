//! What the router of a crew is told before the first packet.

use crate::error::BenchError;
use crate::router::port_mac;
use perhop_contract::{Control, Input, Output};
use perhop_elements::route::{NeighbourState, NeighbourUpdate, NextHop, PortInfo, RouteEntry, RouteKind};
use perhop_graph::router::{Change, ChangeStep, Member, Placement, RouterPlanner};
use perhop_model::{Credentials, Given, Kind, Name, Op, Outcome, Owner, Transaction, TxnId};
use perhop_packet::PortId;
use perhop_units::Instant;
use perhop_wire::MacAddr;
use serde_json::json;

/// Rate of every port: high enough not to be the limit.
pub const RATE: u64 = 100_000_000_000;

/// Ports, two classes on each, filters into them, and what the kernel would say of the world.
pub fn set_up(
    mut control: Control<RouterPlanner>,
    placement: &Placement,
    members: &mut [Member],
    ports: usize,
) -> Result<(), BenchError> {
    let wrong = |text: String| BenchError::Router(text);
    let net = |text: String| text.parse().map_err(|_| wrong(format!("{text} is no prefix")));
    let put = |kind, name: &str, spec| -> Result<Op, BenchError> {
        let name = Name::new(name).map_err(|e| wrong(e.to_string()))?;
        Ok(Op::put(Given::read(kind, name, spec, None)))
    };
    let gateway = |i: usize| std::net::IpAddr::from([192, 0, i as u8, 1]);
    let (mut ops, mut infos, mut routes, mut neighbours) = (vec![], vec![], vec![], vec![]);
    for i in 0..ports {
        let (name, port) = (format!("p{i}"), PortId(i as u16));
        ops.push(put(Kind::Port, &name, json!({ "rate": RATE }))?);
        for (class, default) in [("first", false), ("rest", true)] {
            let spec = json!({ "port": name, "logical": class, "default": default });
            ops.push(put(Kind::Class, &format!("{name}/{class}"), spec)?);
        }
        let low = json!({ "first": 0, "last": 32_767 });
        let matches = json!({ "src": format!("{}.0.0.0/8", 10 + i), "protocol": 17, "src_ports": low });
        ops.push(put(Kind::Filter, &name, json!({ "match": matches, "class": "first" }))?);
        let addresses = vec![net(format!("192.0.{i}.2/24"))?];
        infos.push(PortInfo { mac: port_mac(port), mtu: 1500, addresses, ..PortInfo::default() });
        let kind = RouteKind::by(NextHop::new(Some(gateway(i)), port));
        routes.push(RouteEntry::new(net(format!("{}.0.0.0/8", 10 + i))?, kind));
        let state = NeighbourState::Reachable(MacAddr([2, 0, 0, 0, 2, i as u8]));
        neighbours.push(NeighbourUpdate { port, ip: gateway(i), state });
    }
    let planner = control.planner_mut();
    let facts =
        [planner.port_change(infos), planner.set_kernel_routes(routes), planner.neighbour_change(neighbours)];
    facts.into_iter().for_each(|change| apply(change, placement, members));
    let transaction = Box::new(Transaction::new(TxnId([1; 16]), Owner::File, ops));
    let now = Instant::ZERO;
    control.handle_input(now, Input::Request { request: 1, who: Credentials::ADMIN, transaction });
    while let Some(output) = control.poll_output() {
        match output {
            Output::Apply { ticket, change } => {
                apply(change, placement, members);
                control.handle_input(now, Input::Applied { ticket });
            }
            Output::Reply { reply, .. } if reply.outcome == Outcome::Committed => return Ok(()),
            Output::Reply { reply, .. } => return Err(wrong(format!("{:?}", reply.errors))),
        }
    }
    Err(wrong("the router does not answer".to_owned()))
}

/// Has all members apply a change, in turns.
fn apply(change: Change, placement: &Placement, members: &mut [Member]) {
    let mut open: Vec<Option<Change>> = placement.share(change).into_iter().map(Some).collect();
    while open.iter().any(Option::is_some) {
        for (member, change) in members.iter_mut().zip(&mut open) {
            let done = change.as_mut().is_some_and(|c| member.apply(Instant::ZERO, c) == ChangeStep::Done);
            if done {
                *change = None;
            }
        }
    }
}
