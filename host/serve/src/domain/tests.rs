use super::*;
use perhop_agent::DomainNews;
use perhop_broker::ledger::{Reserve, Settings, Way};
use perhop_broker::record::{AuditRow, ClientRow, Group};
use perhop_broker::topology::DomainFile;
use perhop_units::Rate;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// Checks all that a group must keep to.
#[path = "../../../../control/broker/tests/ledger/database.rs"]
#[allow(dead_code, reason = "tests of the ledger use the rest")]
mod database;
use database::Database;

const FILE: &str = r#"
node = [{ name = "a", kind = "edge" }, { name = "c", kind = "core" }, { name = "b", kind = "edge" }]
[[link]]
from = "a"
port = "wan"
to = "c"
rate = "10 Mbit/s"
classes = { voice = "3 Mbit/s" }
both = true
back_port = "a"
[[link]]
from = "c"
port = "b"
to = "b"
rate = "10 Mbit/s"
classes = { voice = "2 Mbit/s" }
both = true
back_port = "wan"
"#;

/// A database that takes its time and, where it is told to, fails.
#[derive(Default)]
struct Kept {
    database: Mutex<Database>,
    /// One group in so many fails; 0 = none.
    fails: AtomicU64,
    groups: AtomicU64,
}

impl Keeper for Kept {
    fn write<'a>(&'a self, group: &'a Group) -> Writing<'a> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let number = self.groups.fetch_add(1, Ordering::Relaxed) + 1;
            let fails = self.fails.load(Ordering::Relaxed);
            if fails > 0 && number.is_multiple_of(fails) {
                let message = "the disk is full".to_owned();
                return Err(NotKept { code: Code::BackendFailed, retry_after_ms: Some(1), message });
            }
            self.database.lock().expect("nobody panicked").commit(group);
            Ok(())
        })
    }

    fn audit(
        &self,
        _: Option<u64>,
        _: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>> {
        Box::pin(async { Ok(self.database.lock().expect("nobody panicked").audit.clone()) })
    }
}

/// A domain that runs, and its end.
struct Running {
    domain: Domain,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<bool>,
}

impl Running {
    async fn start(kept: &Arc<Kept>) -> Self {
        let snapshot = kept.database.lock().expect("nobody panicked").snapshot();
        let loaded = Domain::load(Settings::default(), snapshot, Marks::new(), Arc::clone(kept), |_| ());
        let (domain, task) = loaded.expect("rows of a ledger");
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(task.run(async move {
            let _ = stopped.await;
        }));
        Self { domain, stop, task }
    }

    async fn end(self) {
        let _ = self.stop.send(());
        assert!(self.task.await.expect("it does not panic"), "nobody else leads");
    }
}

fn client(name: &str) -> ClientRow {
    ClientRow {
        name: name.into(),
        kind: "http".into(),
        cert_sha256: None,
        token_sha256: Some(token_sha256(name)),
        role: "operator".into(),
        most_bps: None,
        most_count: None,
        per_second: None,
    }
}

async fn domain_of(kept: &Arc<Kept>) -> Running {
    let running = Running::start(kept).await;
    let (file, diagnostics) = DomainFile::read("d.toml", FILE);
    let topology = file.unwrap_or_else(|| panic!("{diagnostics}")).topology;
    running.domain.set_topology("test", Arc::new(topology)).await.expect("it is good");
    running.domain.change_client("test", ClientChange::Put(client("x"))).await.expect("it is good");
    running
}

fn reserve(idem: &str, bps: u64, flow: &Flow) -> Request {
    let way = Way::Between { from: "a".into(), to: "b".into() };
    let mut request = Reserve::new(idem, way, "voice", bps);
    request.flow = flow.text();
    Request::Reserve(Box::new(request))
}

fn to_port(port: u16) -> Flow {
    let packets = Packets { protocol: Some(17), dst_ports: Some((port, port)), ..Packets::default() };
    Flow { packets: vec![packets], ..Flow::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime")
}

/// What a node has, as somebody knows who follows it.
#[derive(Debug, Default, PartialEq)]
struct Followed {
    shares: BTreeMap<(String, String), u64>,
    flows: BTreeMap<u64, u64>,
}

impl Followed {
    fn take(&mut self, news: &DomainNews) {
        match news {
            DomainNews::Share { port, class, bps } => {
                let key = (port.to_string(), class.to_string());
                match *bps {
                    Rate::ZERO => drop(self.shares.remove(&key)),
                    bps => drop(self.shares.insert(key, bps.0)),
                }
            }
            DomainNews::Flow(flow) => drop(self.flows.insert(flow.id, flow.bps.0)),
            DomainNews::FlowGone { id } => drop(self.flows.remove(id)),
            DomainNews::Begin | DomainNews::Complete | DomainNews::Away | DomainNews::Lease { .. } => {}
        }
    }

    fn of(whole: &Whole) -> Self {
        let mut followed = Self::default();
        whole.news.iter().for_each(|news| followed.take(news));
        followed
    }
}

#[test]
fn whoever_shows_a_token_or_a_certificate_is_known_as_long_as_its_client_is() {
    runtime().block_on(async {
        let kept = Arc::default();
        let running = domain_of(&kept).await;
        let token = Credential::Token(Sha256Of::of("x"));
        let caller = running.domain.caller(&token).expect("it is known");
        assert_eq!((&*caller.name, caller.role), ("x", Role::Operator));
        assert_eq!(
            running.domain.caller(&Credential::Certificate(Sha256Of::of("x"))),
            None,
            "a token is none"
        );
        running.domain.change_client("test", ClientChange::Gone("x".into())).await.expect("it was there");
        assert_eq!(running.domain.caller(&token), None);
        let refused = running.domain.ask("x", reserve("1", 1_000, &Flow::default())).await;
        assert_eq!(refused.map_err(|refusal| refusal.code), Err(Code::Unauthenticated));
        running.end().await;
    });
}

struct Sha256Of;

impl Sha256Of {
    fn of(text: &str) -> [u8; 32] {
        use sha2::{Digest, Sha256};
        Sha256::digest(text.as_bytes()).into()
    }
}

#[test]
fn who_follows_a_node_knows_what_it_has_and_sees_what_becomes_of_it() {
    runtime().block_on(async {
        let kept = Arc::default();
        let running = domain_of(&kept).await;
        let domain = &running.domain;
        let first = domain.ask("x", reserve("1", 80_000, &to_port(5_004))).await.expect("there is room");
        let Granted::Held(first) = first else { panic!("{first:?}") };
        let (whole, mut news) = domain.follow("a").await.expect("it leads");
        let mut followed = Followed::of(&whole);
        let wan = || ("wan".to_owned(), "voice".to_owned());
        assert_eq!(followed.shares, [(wan(), 80_000)].into());
        assert_eq!(followed.flows, [(first.id, 80_000)].into());
        let request = Request::Change {
            id: first.id,
            bps: Some(90_000),
            back_bps: None,
            lifetime_ms: None,
            flow: None,
        };
        domain.ask("x", request).await.expect("there is room");
        let both = Request::Reserve(Box::new(Reserve {
            back_bps: Some(50_000),
            flow: to_port(5_006).text(),
            ..Reserve::new("2", Way::Between { from: "b".into(), to: "a".into() }, "voice", 60_000)
        }));
        let Granted::Held(second) = domain.ask("x", both).await.expect("there is room") else {
            panic!("held")
        };
        domain.ask("x", Request::Release { id: first.id }).await.expect("it is there");
        assert!(!domain.follow("z").await.expect("it leads").0.exists);
        while let Ok(news) = news.try_recv() {
            if let News::Node { node, news } = &*news
                && **node == *"a"
            {
                followed.take(news);
            }
        }
        // Of what was asked for from b to a the other direction enters here, and its packets are turned.
        let back = second.twin.expect("both directions");
        assert_eq!(followed.flows, [(back, 50_000)].into());
        assert_eq!(followed.shares, [(wan(), 50_000)].into());
        let (whole, _) = domain.follow("a").await.expect("it leads");
        assert_eq!(Followed::of(&whole), followed, "the same for somebody who comes now");
        let turned = whole.news.iter().find_map(|news| match news {
            DomainNews::Flow(flow) => flow.packets[0].src_ports.map(|ports| ports.first),
            _ => None,
        });
        assert_eq!(turned, Some(5_006));
        domain.ask("x", Request::Release { id: back }).await.expect("by the number of either");
        for node in ["a", "b"] {
            assert_eq!(
                Followed::of(&domain.follow(node).await.expect("it leads").0),
                Followed::default(),
                "{node}"
            );
        }
        running.end().await;
    });
}

/// 64 clients at a time, on a database that fails one group in five, with restarts: what was granted is there, what was refused is
/// not, and nothing is sold twice, which the database checks with every group.
#[test]
fn many_clients_a_failing_database_and_restarts_lose_and_oversell_nothing() {
    runtime().block_on(async {
        let kept: Arc<Kept> = Arc::default();
        domain_of(&kept).await.end().await;
        kept.fails.store(5, Ordering::Relaxed);
        let held: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
        for round in 0..8 {
            let running = Running::start(&kept).await;
            let clients: Vec<_> = (0..64)
                .map(|number| {
                    let (domain, held) = (running.domain.clone(), Arc::clone(&held));
                    tokio::spawn(async move { one_client(&domain, &held, round, number).await })
                })
                .collect();
            for client in clients {
                client.await.expect("it does not panic");
            }
            running.end().await;
        }
        let database = kept.database.lock().expect("nobody panicked");
        let there: BTreeMap<String, u64> =
            database.reservations.values().map(|row| (row.idem.clone(), row.bps)).collect();
        assert_eq!(there, *held.lock().expect("nobody panicked"));
        let sum: u64 = there.values().sum();
        assert!(sum > 1_500_000 && sum <= 2_000_000, "{sum} of 2 Mbit/s are reserved");
    });
}

/// Asks until it is answered for good, as a client does.
async fn asked(domain: &Domain, request: &Request) -> Result<Granted, Refusal> {
    loop {
        match domain.ask("x", request.clone()).await {
            Err(refusal) if refusal.code == Code::BackendFailed => {
                assert!(refusal.retry_after_ms > 0, "who is refused for now is told when to try again");
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            done => return done,
        }
    }
}

async fn one_client(domain: &Domain, held: &Mutex<BTreeMap<String, u64>>, round: u64, number: u64) {
    let idem = format!("{round}-{number}");
    let bps = 20_000 + 1_000 * (number % 37);
    match asked(domain, &reserve(&idem, bps, &to_port(5_000))).await {
        Ok(Granted::Held(granted)) => {
            held.lock().expect("nobody panicked").insert(idem.clone(), bps);
            if (number + round).is_multiple_of(3) {
                asked(domain, &Request::Release { id: granted.id }).await.expect("it is its own");
                held.lock().expect("nobody panicked").remove(&idem);
            }
        }
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => {
            assert_eq!((refusal.code, refusal.class.as_str()), (Code::NoCapacity, "voice"), "{refusal:?}");
            assert!(
                refusal.link == "c/b" && refusal.asked_bps == bps && refusal.free_bps < bps,
                "{refusal:?}"
            );
        }
    }
}

#[test]
fn after_the_end_nobody_is_kept_waiting() {
    runtime().block_on(async {
        let kept = Arc::default();
        let running = domain_of(&kept).await;
        let domain = running.domain.clone();
        running.end().await;
        let refused = domain.ask("x", reserve("1", 1_000, &Flow::default())).await;
        assert_eq!(refused.map_err(|refusal| refusal.code), Err(Code::HeldElsewhere));
        assert!(domain.look(|_| ()).await.is_err() && domain.follow("a").await.is_err());
    });
}
