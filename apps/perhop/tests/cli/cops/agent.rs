//! Clients that ask an agent for flows by COPS-DRA, in a domain with all of its programs.

use crate::domain::{Domain, asks, controller, until};
use crate::{Ended, perhop};
use perhop_cops::dra::{self, DEFAULT_CLIENT_TYPE as TYPE, Tag, Told};
use perhop_cops::pep::{Client, Config, Security};
use perhop_cops::wire::{Handle, PepId, Reason, ReasonCode};
use perhop_serve::cops::{CopsClient, Notice};
use perhop_tcapi::wire::{Alternative, FlowId, Request, Reservation, Scope, ServiceClass};
use perhop_units::Duration;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// Where west's agent stands among what a domain runs.
const AGENT: usize = 4;

/// A client with any number of calls.
struct Phones {
    runtime: Runtime,
    client: CopsClient,
    notices: mpsc::Receiver<Notice>,
    calls: BTreeSet<u64>,
}

impl Phones {
    fn new(address: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let config = Config {
            id: PepId::new("phones").unwrap(),
            servers: vec![address.parse().unwrap()],
            clients: vec![Client { client_type: TYPE, client_si: None }],
            security: Security::None,
            patience: Duration::from_secs(10),
            keep: Duration::from_secs(600),
            retry: (Duration::from_millis(50), Duration::from_millis(200)),
            max_requests: 100,
        };
        let (client, notices) = runtime.block_on(async { CopsClient::start(config, None, 7) });
        Self { runtime, client, notices, calls: BTreeSet::new() }
    }

    fn told(&mut self) -> Told {
        let next = async {
            loop {
                if let Notice::Decided { decisions, .. } = self.notices.recv().await.unwrap() {
                    return dra::told(&decisions[0]).unwrap().unwrap().1;
                }
            }
        };
        let patience = std::time::Duration::from_secs(20);
        self.runtime.block_on(async { tokio::time::timeout(patience, next).await }).unwrap()
    }

    /// One call of 80 kbit/s that lives an hour.
    fn call(&mut self, number: u64, port: Option<u16>) -> Told {
        let dst = Some("10.2.0.2/32".parse().unwrap());
        let packets = |port| Alternative {
            src: None,
            dst,
            protocol: Some(17),
            src_ports: None,
            dst_ports: Some((port, port)),
            tos: None,
        };
        let wanted = Request {
            class: Some(ServiceClass { number: 0, dscp: None, name: "voice".into() }),
            reservation: Some(Reservation {
                rate_bps: 80_000,
                burst_bytes: 0,
                peak_bps: 0,
                max_packet: 0,
                min_policed: 0,
            }),
            scope: Some(Scope { ingress: "west".into(), egress: "east".into() }),
            filter: port.map(packets).into_iter().collect(),
            lifetime_s: Some(3_600),
            ..Request::of(FlowId::Number(number))
        };
        let request = dra::ask(Handle::from(number), Tag { txn: number, epoch: 1 }, &wanted).unwrap();
        self.runtime.block_on(self.client.ask(TYPE, request));
        self.calls.insert(number);
        self.told()
    }

    fn hang_up(&mut self) {
        for number in std::mem::take(&mut self.calls) {
            let reason = Reason::of(ReasonCode::TEAR);
            self.runtime.block_on(self.client.drop_request(TYPE, number.into(), reason));
        }
    }
}

#[test]
fn calls_by_cops_are_admitted_beside_the_router_and_outlive_agent_and_controller() {
    let Some(mut domain) = Domain::new("agent-cops") else { return };
    let name = domain.name.clone();
    let router = domain.router("west");
    // A port that is free now, so that it is the same after a restart.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let file = domain.scratch.0.join("west-agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let more = format!(
        "[leases]\nlifetime = \"1 h\"\npatience = \"10 s\"\n[[lease]]\nname = \"voice\"\nclasses = [\"wan/voice\"]\n\
         to = [\"east\"]\nchunk = \"1 Mbit/s\"\nlow = \"1 Mbit/s\"\nhigh = \"2 Mbit/s\"\n\
         [[cops]]\naddress = \"{address}\"\n[[client]]\nname = \"phones\"\n[[client]]\nname = \"cameras\"\n"
    );
    std::fs::write(&file, text + &more).unwrap();
    domain.restart(AGENT);
    let request = |client: &str, rate: &str| -> Ended {
        let whom = ["cops", "request", "--to", &address, "--client", client, "--class", "voice"];
        perhop(&[&whom[..], &["--rate", rate, "--from", "west", "--to-node", "east"]].concat())
    };
    until("agent and controller are there", || request("cameras", "80 kbit/s").code == Some(0));
    let unknown = request("nobody", "80 kbit/s");
    assert!(unknown.code == Some(3) && unknown.err.contains("unauthenticated"), "{}", unknown.err);

    // Thirty calls are as many questions to the controller as chunks.
    let mut phones = Phones::new(&address);
    for number in 1..=30 {
        assert!(matches!(phones.call(number, None), Told::Granted(_)), "call {number}");
    }
    let expected: Vec<(String, u64)> = [("reserve", 1), ("change", 2), ("change", 3)]
        .map(|(what, mbit)| (what.to_owned(), mbit * 1_000_000))
        .into();
    assert_eq!(asks(&name), expected, "30 times 80 kbit/s, with 1 Mbit/s a question");
    until("the routers have it", || domain.has_voice("3 Mbit/s"));
    let refused = request("cameras", "2600 kbit/s");
    let why = "no_capacity: link west/wan, class voice, 2.6 Mbit/s asked";
    assert!(refused.code == Some(1) && refused.err.contains(why), "{}{}", refused.out, refused.err);

    // Without the controller: what fits, and no more. With packets the router has them.
    domain.running[0].kill();
    for number in 31..=37 {
        assert!(matches!(phones.call(number, Some(5_004)), Told::Granted(_)), "call {number}");
    }
    until("the router has the packets", || domain.has("west", "wan/voice").1 == 7);
    let Told::Refused(refusal) = phones.call(38, None) else { panic!("there is no room") };
    assert_eq!(refusal.code.name(), "backend_failed", "{refusal:?}");
    phones.runtime.block_on(phones.client.drop_request(TYPE, 38.into(), Reason::of(ReasonCode::TEAR)));
    phones.calls.remove(&38);

    // The agent is killed, too: its client is asked for all that it has, and all of it stands.
    domain.restart(AGENT);
    for _ in 0..37 {
        assert!(matches!(phones.told(), Told::Granted(_)));
    }
    let list = || perhop(&["reserve", "list", "--json", "--agent", &router]).json();
    let owners: BTreeSet<String> =
        list().iter().map(|row| row["owner"].as_str().unwrap().to_owned()).collect();
    assert_eq!((list().len(), owners), (37, BTreeSet::from(["phones".to_owned()])));
    assert_eq!(domain.has("west", "wan/voice"), ("3 Mbit/s".to_owned(), 7));

    // What is given back is the controller's again once it is there.
    domain.running[0] = controller(&domain.scratch, &name, &[]);
    phones.hang_up();
    until("no more than the high water is held", || {
        let (rate, flows) = domain.has("west", "wan/voice");
        flows == 0 && rate != "3 Mbit/s"
    });
    assert_eq!(list().len(), 0);
    // A door that closes says so.
    domain.running[AGENT].signal(Signal::TERM);
    assert_eq!(domain.running[AGENT].end(), Some(0));
}
