//! The same through a whole router: the contract's `replace_graph`, confirmed or taken back.

use perhop_contract::Input;
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Credentials, Given, Kind, Name, Op, Outcome, Owner, PortSpec, Transaction, TxnId};
use perhop_packet::PortId;
use perhop_reason::Code;
use perhop_units::Duration;
use perhop_wire::build::udp4;
use serde_json::json;

fn transaction(id: u8, confirm_within_ms: Option<u64>, ops: Vec<Op>) -> Transaction {
    Transaction { confirm_within_ms, ..Transaction::new(TxnId([id; 16]), Owner::File, ops) }
}

fn graph(text: &str) -> Vec<Op> {
    vec![Op::ReplaceGraph { text: text.to_owned(), reset: Vec::new() }]
}

fn names(router: &mut VirtualRouter) -> Vec<String> {
    let driver = router.worker().driver();
    driver.ids().map(|id| driver.name(id).to_owned()).collect()
}

#[test]
fn an_unconfirmed_graph_gives_way_to_the_routers_own() {
    let port = |name: &str| {
        let spec: PortSpec = serde_json::from_value(json!({"rate": 1_000_000})).expect("a port");
        EdgePort { name: name.to_owned(), spec }
    };
    let mut router =
        VirtualRouter::new(vec![port("lan"), port("wan")], 1024, 1).expect("its own graph builds");
    let put = |name: &str| {
        Op::put(Given::read(Kind::Port, Name::new(name).expect("a name"), json!({"rate": 1_000_000}), None))
    };
    let reply = router.submit(Credentials::ADMIN, transaction(1, None, vec![put("lan"), put("wan")]));
    assert_eq!(reply.expect("answered").outcome, Outcome::Committed);
    let own = names(&mut router);
    assert!(own.len() > 6);

    // A wire from port to port instead of a router: the queue of `wan` keeps its name and place.
    let queue = own.iter().find(|n| n.contains("queue") && n.contains("wan")).expect("a queue").clone();
    let text = format!(
        "a :: FromPort(lan); {queue} :: Egress(wan, rate = 1 Mbit/s); b :: ToPort(wan); a -> {queue} -> b;"
    );
    let refused = text.replace("Egress(wan, rate = 1 Mbit/s)", "Counter()");
    let reply = router.submit(Credentials::ADMIN, transaction(2, None, graph(&refused))).expect("answered");
    assert_eq!((reply.outcome, reply.errors[0].code), (Outcome::Rejected, Code::Malformed));
    assert_eq!(names(&mut router), own);

    let reply = router.submit(Credentials::ADMIN, transaction(3, Some(500), graph(&text))).expect("answered");
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    assert_eq!(names(&mut router).len(), 3);
    for n in 0..10_u32 {
        let frame = udp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&n.to_be_bytes()).ip_len(1000).build();
        assert!(router.receive(PortId(0), &frame));
    }
    // 8 ms a packet: some are still in the queue when the graph is taken back, and leave all the same.
    router.run_for(Duration::from_millis(490));
    for n in 10..14_u32 {
        let frame = udp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&n.to_be_bytes()).ip_len(1000).build();
        assert!(router.receive(PortId(0), &frame));
    }
    router.run_for(Duration::from_millis(500));
    let mut back = names(&mut router);
    back.sort();
    let mut own = own;
    own.sort();
    assert_eq!(back, own);
    let sent: Vec<u32> = router
        .sent
        .iter()
        .map(|s| s.frame()[42..46].try_into().map(u32::from_be_bytes).expect("four bytes"))
        .collect();
    assert_eq!(sent, (0..14).collect::<Vec<_>>());
    router.worker().check_conservation().expect("books balance");
    router.control().handle_input(perhop_units::Instant::FAR_FUTURE, Input::Shutdown);
}
