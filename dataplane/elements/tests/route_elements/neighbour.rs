//! Next hops whose link address is not known.

use super::*;
use perhop_element::Element;
use perhop_elements::route::NeighbourLimits;
use perhop_units::Duration;
use perhop_wire::build::udp4;

fn small() -> RouteConfig {
    let limits = NeighbourLimits {
        packets_each: 16,
        packets: 20,
        unresolved: 3,
        neighbours: 10,
        ..NeighbourLimits::default()
    };
    RouteConfig { limits, ..RouteConfig::new(3) }
}

fn to(dst: [u8; 4], n: u16) -> FrameBuilder {
    udp4([10, 0, 0, 9], dst).ports(n, 9)
}

fn source_ports(router: &Router, port: usize) -> Vec<u16> {
    router.packets(port).map(|p| p.meta().layout.src_port).collect()
}

#[test]
fn packets_wait_in_order_and_the_kernel_is_asked_once() {
    let mut router = Router::new();
    for n in 0..5 {
        router.receive(0, to([10, 2, 0, 7], n));
    }
    assert_eq!(router.counts(), [0; 4]);
    assert_eq!(router.requests(), [(PortId(2), ip("10.2.0.7"))]);
    assert_eq!(router.requests(), []);
    assert_eq!(router.counter(router.bench.node, "waiting"), 5);
    router.neighbour(2, "10.2.0.7", NeighbourState::Reachable(MacAddr([2, 9, 9, 9, 9, 9])));
    router.receive(0, to([10, 2, 0, 7], 5));
    assert_eq!(source_ports(&router, 2), [0, 1, 2, 3, 4, 5]);
    let first = &router.frames(2)[0];
    assert_eq!((&first[..6], &first[6..12]), (&[2, 9, 9, 9, 9, 9][..], &ROUTER[2].0[..]));
    assert_eq!(first[22], 63);
    router.bench.run_for(Duration::from_secs(5));
    assert_eq!(router.drops(DropReason::NeighbourFailed), 0);
}

#[test]
fn a_packet_that_comes_between_answer_and_wake_stays_behind() {
    let mut router = Router::new();
    router.receive(0, to([10, 2, 0, 7], 0));
    let now = router.bench.now();
    let mut change = RouteChange { neighbours: vec![resolved(2, "10.2.0.7")], ..RouteChange::default() };
    assert!(router.bench.element::<Route>().commit(now, &mut change));
    router.receive(0, to([10, 2, 0, 7], 1));
    assert_eq!(source_ports(&router, 2), [0, 1]);
}

#[test]
fn silence_is_told_to_the_sender() {
    let mut router = Router::new();
    router.receive(0, to([10, 2, 0, 7], 0));
    router.bench.run_for(Duration::from_millis(999));
    router.receive(0, to([10, 2, 0, 7], 1));
    assert_eq!(router.drops(DropReason::NeighbourFailed), 0);
    router.bench.run_for(Duration::from_millis(1));
    assert_eq!(router.drops(DropReason::NeighbourFailed), 2);
    // Host unreachable, type 3 code 1, for each.
    let answers = router.frames(0);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|a| a[34..36] == [3, 1]));
    assert_eq!(router.counter(router.bench.node, "neighbours"), 6);
    // Another packet asks again.
    router.requests();
    router.receive(0, to([10, 2, 0, 7], 2));
    assert_eq!(router.requests().len(), 1);
}

#[test]
fn a_failure_reported_by_the_kernel_needs_no_timeout() {
    let mut router = Router::new();
    router.receive(0, to([10, 2, 0, 7], 0));
    router.neighbour(2, "10.2.0.7", NeighbourState::Failed);
    assert_eq!(router.drops(DropReason::NeighbourFailed), 1);
    assert_eq!(router.counts(), [1, 0, 0, 0]);
}

/// As many as the kernel keeps: a burst that begins a transfer is not cut.
#[test]
fn a_burst_waits_for_a_neighbour() {
    let mut router = Router::new();
    for n in 0..256 {
        router.receive(0, to([10, 2, 0, 7], n));
    }
    router.neighbour(2, "10.2.0.7", NeighbourState::Reachable(STATION[2]));
    router.bench.run_for(Duration::from_millis(1));
    assert_eq!((router.drops(DropReason::NeighbourQueueFull), router.frames(2).len()), (0, 256));
}

#[test]
fn limits_hold() {
    let mut router = Router::with(small(), IcmpErrorConfig::default());
    for n in 0..17 {
        router.receive(0, to([10, 2, 0, 7], n));
    }
    assert_eq!(router.drops(DropReason::NeighbourQueueFull), 1); // 16 a neighbour
    for n in 0..5 {
        router.receive(0, to([10, 2, 0, 8], n));
    }
    assert_eq!(router.drops(DropReason::NeighbourQueueFull), 2); // 20 in all
    router.bench.run_for(Duration::from_secs(1));
    for host in 20..24 {
        router.receive(0, to([10, 2, 0, host], 0));
    }
    assert_eq!(router.drops(DropReason::NeighbourQueueFull), 3); // 3 neighbours at once
    router.bench.run_for(Duration::from_secs(1));
    assert_eq!(router.counter(router.bench.node, "waiting"), 0);
    for host in 100..120 {
        router.neighbour(2, &format!("10.2.0.{host}"), NeighbourState::Reachable(STATION[2]));
    }
    assert_eq!(router.counter(router.bench.node, "neighbours"), 10);
    assert_eq!(router.counter(router.bench.node, "neighbours_refused"), 16);
    router.receive(0, to([10, 2, 0, 200], 0));
    assert_eq!(router.drops(DropReason::TableFull), 1);
}

#[test]
fn a_stale_neighbour_is_used_and_confirmed_once() {
    let mut router = Router::new();
    router.neighbour(2, "10.2.0.7", NeighbourState::Stale(STATION[2]));
    for n in 0..3 {
        router.receive(0, to([10, 2, 0, 7], n));
    }
    assert_eq!(source_ports(&router, 2), [0, 1, 2]);
    assert_eq!(router.requests(), [(PortId(2), ip("10.2.0.7"))]);
}

#[test]
fn a_removed_gateway_is_asked_for_again() {
    let mut router = Router::new();
    router.neighbour(1, "10.1.0.2", NeighbourState::Removed);
    // The gateway's place is not given to another.
    router.neighbour(2, "10.2.0.50", NeighbourState::Reachable(STATION[2]));
    router.receive(0, to([20, 0, 0, 1], 0));
    assert_eq!(router.counts(), [0; 4]);
    assert_eq!(router.requests(), [(PortId(1), ip("10.1.0.2"))]);
    router.neighbour(1, "10.1.0.2", NeighbourState::Reachable(STATION[1]));
    assert_eq!(source_ports(&router, 1), [0]);
}

#[test]
fn gateways_that_no_route_names_are_forgotten() {
    let mut router = Router::new();
    let list =
        vec![via("50.0.0.0/8", &[(Some("10.2.0.77"), 2)]), via("51.0.0.0/8", &[(Some("10.2.0.77"), 2)])];
    router.change(RouteChange { fib: Some(Fib::build(list)), ..RouteChange::default() });
    assert_eq!(router.counter(router.bench.node, "neighbours"), 7);
    router.change(RouteChange { fib: Some(Fib::build(routes())), ..RouteChange::default() });
    assert_eq!(router.counter(router.bench.node, "neighbours"), 6);
}

#[test]
fn a_second_wait_has_its_own_time() {
    let mut router = Router::new();
    router.receive(0, to([10, 2, 0, 7], 0));
    router.bench.run_for(Duration::from_millis(500));
    router.neighbour(2, "10.2.0.7", NeighbourState::Reachable(STATION[2]));
    router.neighbour(2, "10.2.0.7", NeighbourState::Removed);
    router.receive(0, to([10, 2, 0, 7], 1));
    router.bench.run_for(Duration::from_millis(999));
    assert_eq!(router.counter(router.bench.node, "waiting"), 1);
    router.bench.run_for(Duration::from_millis(1));
    assert_eq!(router.drops(DropReason::NeighbourFailed), 1);
}

#[test]
fn a_packet_that_waits_in_vain_takes_the_way_there_is_now() {
    let mut router = Router::new();
    router.neighbour(1, "10.1.0.2", NeighbourState::Removed);
    router.receive(0, to([20, 0, 0, 1], 0));
    let other = vec![via("20.0.0.0/8", &[(Some("10.2.0.2"), 2)])];
    router.change(RouteChange { fib: Some(Fib::build(other)), ..RouteChange::default() });
    router.bench.run_for(Duration::from_secs(1));
    assert_eq!(router.counts(), [0, 0, 1, 0]);
    assert_eq!(router.frames(2)[0][22], 63);
}

#[test]
fn a_port_that_goes_takes_its_adjacencies_along() {
    let mut router = Router::new();
    router.change(RouteChange { ports: Some(ports()[..1].to_vec()), ..RouteChange::default() });
    router.receive(0, to([20, 0, 0, 1], 0));
    assert_eq!(router.drops(DropReason::PortDown), 1);
}

#[test]
fn fragments_wait_too() {
    let mut router = Router::new();
    router.set_mtu(2, 600);
    router.receive(0, to([10, 2, 0, 7], 0).payload_len(1000));
    assert_eq!(router.counter(router.bench.node, "waiting"), 2);
    router.neighbour(2, "10.2.0.7", NeighbourState::Reachable(STATION[2]));
    assert_eq!(router.counts(), [0, 0, 2, 0]);
}

#[test]
fn waiting_packets_and_tables_move_to_a_successor() {
    let mut router = Router::new();
    router.receive(0, to([10, 2, 0, 7], 3));
    let state = router.bench.element::<Route>().export_state().unwrap();
    let mut next = Route::new(RouteConfig::new(3));
    assert!(next.import_state(state).is_ok());
    assert!(next.import_state(Box::new(0)).is_err());
    assert_eq!(router.bench.element::<Route>().held(), 0);
    drop(router.bench.driver.replace(router.bench.node, Box::new(next)));
    router.neighbour(2, "10.2.0.7", NeighbourState::Reachable(STATION[2]));
    router.receive(0, to([20, 0, 0, 1], 0));
    assert_eq!(router.counts(), [0, 1, 1, 0]);
}

#[test]
fn a_removed_element_gives_its_packets_back() {
    let mut router = Router::with(small(), IcmpErrorConfig::default());
    for host in 20..23 {
        router.receive(0, to([10, 2, 0, host], 3));
    }
    let n = router.bench.driver.drop_held(router.bench.node, DropReason::GraphReplaced);
    assert_eq!(n, 3);
    router.bench.run_for(Duration::from_secs(2));
    assert_eq!(router.drops(DropReason::NeighbourFailed), 0);
    // All places are free again.
    for host in 20..23 {
        router.receive(0, to([10, 2, 0, host], 3));
    }
    assert_eq!(router.counter(router.bench.node, "waiting"), 3);
}
