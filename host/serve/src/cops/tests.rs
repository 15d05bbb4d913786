use super::*;
use crate::controller::Seat;
use crate::domain::{Domain, Keeper, Marks, NotKept, Writing};
use perhop_broker::ledger::{ClientChange, Ledger, Settings};
use perhop_broker::record::{AuditRow, ClientRow, Group, Snapshot};
use perhop_broker::topology::DomainFile;
use perhop_cops::dra::{self, DEFAULT_CLIENT_TYPE as TYPE, Tag, Told};
use perhop_cops::pep::{Client, Config, Security};
use perhop_cops::wire::{Body, ErrorCode, Frames, Message, Open, PepId, Reason, ReasonCode};
use perhop_reason::Code;
use perhop_tcapi::wire::{
    Direction, FlowId, Request as Reservation, Reservation as Amount, Scope, ServiceClass,
};
use perhop_units::Duration;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

const FILE: &str = r#"
node = [{ name = "a", kind = "edge" }, { name = "b", kind = "edge" }]
[[link]]
from = "a"
port = "wan"
to = "b"
rate = "10 Mbit/s"
classes = { voice = "3 Mbit/s" }
both = true
back_port = "wan"
"#;

/// A database that keeps nothing.
struct Nowhere;

impl Keeper for Nowhere {
    fn write<'a>(&'a self, _: &'a Group) -> Writing<'a> {
        Box::pin(async { Ok(()) })
    }

    fn audit(
        &self,
        _: Option<u64>,
        _: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// A domain with a door, and clients x and y.
struct World {
    seat: Seat,
    domain: Domain,
    address: SocketAddr,
    _stop: (oneshot::Sender<()>, oneshot::Sender<()>),
}

impl World {
    async fn new() -> Self {
        let world = Self::empty(None).await;
        world.seat.take(world.domain.clone(), Arc::new(Nowhere));
        // The door hears of it before anybody asks.
        tokio::task::yield_now().await;
        world
    }

    /// Nobody leads here yet.
    async fn empty(other: Option<SocketAddr>) -> Self {
        let (domain, task) =
            Domain::load(Settings::default(), Snapshot::default(), Marks::new(), Arc::new(Nowhere), |_| ())
                .expect("nothing contradicts itself");
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(task.run(async move { drop(stopped.await) }));
        let (file, diagnostics) = DomainFile::read("d.toml", FILE);
        let topology = file.unwrap_or_else(|| panic!("{diagnostics}")).topology;
        domain.set_topology("test", Arc::new(topology)).await.expect("it is good");
        for name in ["x", "y"] {
            let row = ClientRow {
                name: name.into(),
                kind: "cops".into(),
                cert_sha256: None,
                token_sha256: None,
                role: "proxy".into(),
                most_bps: None,
                most_count: None,
                per_second: None,
            };
            domain.change_client("test", ClientChange::Put(row)).await.expect("it is good");
        }
        let seat = Seat::default();
        let settings = CopsSettings { client_type: TYPE, tls: None, other };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let door = CopsDoor::on(any, settings, Arc::new(LedDomain(seat.clone()))).expect("a free port");
        let address = door.address().expect("it listens");
        let (close, closed) = oneshot::channel::<()>();
        tokio::spawn(door.run(async move { drop(closed.await) }));
        Self { seat, domain, address, _stop: (stop, close) }
    }

    fn client(&self, name: &str) -> (CopsClient, mpsc::Receiver<Notice>) {
        client(name, self.address)
    }

    /// Keys and rates of all reservations.
    async fn booked(&self) -> Vec<(String, u64)> {
        let all = |ledger: &Ledger| {
            ledger.all(0, 100).into_iter().map(|row| (row.idem, row.bps)).collect::<Vec<_>>()
        };
        self.domain.look(all).await.expect("it runs")
    }

    async fn until_booked(&self, expected: &[(&str, u64)]) {
        let expected: Vec<(String, u64)> = expected.iter().map(|(k, bps)| ((*k).into(), *bps)).collect();
        for _ in 0..500 {
            if self.booked().await == expected {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{:?} is not {expected:?}", self.booked().await);
    }
}

pub(super) fn client(name: &str, server: SocketAddr) -> (CopsClient, mpsc::Receiver<Notice>) {
    let config = Config {
        id: PepId::new(name).expect("a name"),
        servers: vec![server],
        clients: vec![Client { client_type: TYPE, client_si: None }],
        security: Security::None,
        patience: Duration::from_secs(10),
        keep: Duration::from_secs(60),
        retry: (Duration::from_millis(10), Duration::from_millis(50)),
        max_requests: 100,
    };
    CopsClient::start(config, None, 7)
}

pub(super) fn wanted(bps: u64) -> Reservation {
    let amount = Amount { rate_bps: bps, burst_bytes: 0, peak_bps: 0, max_packet: 0, min_policed: 0 };
    Reservation {
        class: Some(ServiceClass { number: 0, dscp: None, name: "voice".into() }),
        reservation: Some(amount),
        scope: Some(Scope { ingress: "a".into(), egress: "b".into() }),
        ..Reservation::of(FlowId::Number(1))
    }
}

pub(super) async fn ask(client: &CopsClient, handle: u64, wanted: &Reservation) {
    let tag = Tag { txn: handle, epoch: 1 };
    client.ask(TYPE, dra::ask(handle.into(), tag, wanted).expect("short")).await;
}

/// The next decision.
pub(super) async fn told(notices: &mut mpsc::Receiver<Notice>) -> Told {
    loop {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), notices.recv());
        match next.await.expect("something happens").expect("it goes on") {
            Notice::Decided { decisions, .. } => {
                return dra::told(&decisions[0]).expect("it can be read").expect("it says something").1;
            }
            Notice::Failed { why, .. } => panic!("{why}"),
            _ => {}
        }
    }
}

pub(super) fn granted(told: Told) -> u64 {
    match told {
        Told::Granted(granted) => granted.reservation.expect("it says how much").rate_bps,
        other => panic!("{other:?}"),
    }
}

pub(super) fn refused(told: Told) -> perhop_tcapi::wire::Refusal {
    match told {
        Told::Refused(refusal) => *refusal,
        other => panic!("{other:?}"),
    }
}

const FIRST: &str = "cops/4d41/0000000000000001";
const SECOND: &str = "cops/4d41/0000000000000002";

#[tokio::test]
async fn requests_become_reservations_that_change_and_go_with_them() {
    let world = World::new().await;
    let (x, mut notices) = world.client("x");
    ask(&x, 1, &wanted(1_000_000)).await;
    assert_eq!(granted(told(&mut notices).await), 1_000_000);
    ask(&x, 2, &wanted(2_500_000)).await;
    let refusal = refused(told(&mut notices).await);
    assert_eq!(
        (refusal.code, refusal.link.as_str(), refusal.class.as_str(), refusal.asked_bps, refusal.free_bps),
        (Code::NoCapacity, "a/wan", "voice", 2_500_000, 2_000_000)
    );
    world.until_booked(&[(FIRST, 1_000_000)]).await;
    ask(&x, 1, &wanted(3_000_000)).await;
    assert_eq!(granted(told(&mut notices).await), 3_000_000);
    // Too much: what there was stays.
    ask(&x, 1, &wanted(3_000_001)).await;
    assert_eq!(refused(told(&mut notices).await).free_bps, 3_000_000);
    world.until_booked(&[(FIRST, 3_000_000)]).await;
    // Another class, other nodes or directions are another reservation.
    ask(&x, 1, &Reservation { direction: Direction::Both, ..wanted(1_000) }).await;
    assert_eq!(refused(told(&mut notices).await).code, Code::TxnIdReused);
    let nowhere = Scope { ingress: "a".into(), egress: "c".into() };
    for (wrong, code) in [
        (Reservation { scope: Some(nowhere), ..wanted(1) }, Code::NoPath),
        (Reservation { scope: None, ..wanted(1) }, Code::Malformed),
    ] {
        ask(&x, 3, &wrong).await;
        assert_eq!(refused(told(&mut notices).await).code, code);
    }
    x.drop_request(TYPE, 1.into(), Reason::of(ReasonCode::TEAR)).await;
    world.until_booked(&[]).await;
}

#[tokio::test]
async fn clients_do_not_share_handles() {
    let world = World::new().await;
    let ((x, mut of_x), (y, mut of_y)) = (world.client("x"), world.client("y"));
    ask(&x, 1, &wanted(1_000_000)).await;
    granted(told(&mut of_x).await);
    ask(&y, 1, &wanted(500_000)).await;
    granted(told(&mut of_y).await);
    world.until_booked(&[(FIRST, 1_000_000), (FIRST, 500_000)]).await;
    y.drop_request(TYPE, 1.into(), Reason::of(ReasonCode::TEAR)).await;
    world.until_booked(&[(FIRST, 1_000_000)]).await;
}

#[tokio::test]
async fn an_operators_release_is_told_to_the_client() {
    let world = World::new().await;
    let (x, mut notices) = world.client("x");
    ask(&x, 1, &wanted(1_000_000)).await;
    granted(told(&mut notices).await);
    let row = ClientRow { name: "boss".into(), kind: "http".into(), role: "operator".into(), ..nobody() };
    world.domain.change_client("test", ClientChange::Put(row)).await.expect("it is good");
    let id = world.domain.look(|ledger| ledger.all(0, 1)[0].id).await.expect("it runs");
    world.domain.ask("boss", perhop_broker::ledger::Request::Release { id }).await.expect("it may");
    assert_eq!(refused(told(&mut notices).await).code, Code::Forbidden);
}

fn nobody() -> ClientRow {
    ClientRow {
        name: String::new(),
        kind: String::new(),
        cert_sha256: None,
        token_sha256: None,
        role: String::new(),
        most_bps: None,
        most_count: None,
        per_second: None,
    }
}

#[tokio::test]
async fn a_client_that_comes_back_has_what_it_asks_again_and_nothing_else() {
    let world = World::new().await;
    let (x, mut notices) = world.client("x");
    for handle in [1, 2] {
        ask(&x, handle, &wanted(1_000_000)).await;
        granted(told(&mut notices).await);
    }
    // Another instance leads for a moment: clients are closed, and come back with what they have.
    world.seat.leave();
    loop {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), notices.recv());
        if let Notice::Closed { close, .. } = next.await.expect("it is told").expect("it goes on") {
            assert_eq!(close.error.code, ErrorCode::SHUTTING_DOWN);
            break;
        }
    }
    x.drop_request(TYPE, 2.into(), Reason::of(ReasonCode::TEAR)).await;
    world.until_booked(&[(FIRST, 1_000_000), (SECOND, 1_000_000)]).await;
    world.seat.take(world.domain.clone(), Arc::new(Nowhere));
    assert_eq!(granted(told(&mut notices).await), 1_000_000);
    world.until_booked(&[(FIRST, 1_000_000)]).await;
    // One that begins anew has nothing.
    drop(x);
    let (x, mut notices) = world.client("x");
    ask(&x, 7, &wanted(200_000)).await;
    granted(told(&mut notices).await);
    world.until_booked(&[("cops/4d41/0000000000000007", 200_000)]).await;
}

#[tokio::test]
async fn what_a_client_holds_is_renewed_and_ends_after_it_has_gone() {
    let world = World::new().await;
    let (x, mut notices) = world.client("x");
    ask(&x, 1, &Reservation { lifetime_s: Some(2), ..wanted(1_000_000) }).await;
    granted(told(&mut notices).await);
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    world.until_booked(&[(FIRST, 1_000_000)]).await;
    drop((x, notices));
    world.until_booked(&[]).await;
}

#[tokio::test]
async fn whoever_is_no_client_is_refused_and_a_standby_sends_elsewhere() {
    let leads = World::new().await;
    let (z, mut notices) = leads.client("z");
    ask(&z, 1, &wanted(1_000)).await;
    let Some(Notice::Closed { close, .. }) = notices.recv().await else { panic!("it is refused") };
    assert_eq!(close.error.code, ErrorCode::AUTHENTICATION_FAILURE);
    assert_eq!(Code::from_number(close.error.sub_code), Some(Code::Unauthenticated));
    let standby = World::empty(Some(leads.address)).await;
    let (x, mut notices) = standby.client("x");
    ask(&x, 1, &wanted(1_000)).await;
    let Some(Notice::Closed { close, .. }) = notices.recv().await else { panic!("it is refused") };
    assert_eq!((close.error.code, close.redirect), (ErrorCode::REDIRECT, Some(leads.address)));
    granted(told(&mut notices).await);
    leads.until_booked(&[(FIRST, 1_000)]).await;
}

fn open(name: &str, client_type: perhop_cops::wire::ClientType) -> Vec<u8> {
    let open = Open { pep_id: PepId::new(name).expect("a name"), client_si: None, last_pdp: None };
    Message::new(client_type, Body::Open(Box::new(open))).to_bytes()
}

/// What the door answers to each of these until it closes or is silent for a while.
async fn answers(address: SocketAddr, all_octets: &[&[u8]]) -> Vec<Body> {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let (mut frames, mut all, mut buffer) = (Frames::default(), Vec::new(), [0; 4_096]);
    let silence = std::time::Duration::from_millis(500);
    for octets in all_octets {
        stream.write_all(octets).await.expect("it reads");
        while let Ok(Ok(length @ 1..)) = tokio::time::timeout(silence, stream.read(&mut buffer)).await {
            frames.push(&buffer[..length]);
            while let Some(frame) = frames.next().expect("its messages have an end") {
                all.push(frame.message.expect("its messages can be read").body);
            }
        }
    }
    all
}

#[tokio::test]
async fn bad_input_gets_the_protocols_answer_and_disturbs_nobody() {
    let world = World::new().await;
    let (x, mut notices) = world.client("x");
    ask(&x, 1, &wanted(1_000_000)).await;
    granted(told(&mut notices).await);
    let is_close = |bodies: &[Body], code| matches!(bodies, [Body::Close(close)] if close.error.code == code);
    let garbage = answers(world.address, &[b"GET / HTTP/1.1\r\n\r\n"]).await;
    assert!(is_close(&garbage, ErrorCode::BAD_MESSAGE_FORMAT), "{garbage:?}");
    let mut long = open("y", TYPE);
    long[4..8].copy_from_slice(&0x7fff_fffc_u32.to_be_bytes());
    let long = answers(world.address, &[&long]).await;
    assert!(is_close(&long, ErrorCode::BAD_MESSAGE_FORMAT), "{long:?}");
    let other = answers(world.address, &[&open("y", perhop_cops::wire::ClientType(2))]).await;
    assert!(is_close(&other, ErrorCode::UNSUPPORTED_CLIENT_TYPE), "{other:?}");
    // A request that is none of the client type costs nothing but itself.
    let context = perhop_cops::wire::Context::of(perhop_cops::wire::Context::ALLOCATION);
    let (in_interface, out_interface) = (None, None);
    let bare = perhop_cops::wire::Request {
        handle: 1.into(),
        context,
        in_interface,
        out_interface,
        client_si: vec![],
        local: vec![],
    };
    let bare = Message::new(TYPE, Body::Request(Box::new(bare))).to_bytes();
    let bodies = answers(world.address, &[&open("y", TYPE), &bare]).await;
    let [Body::Accept(_), Body::Decision { decided: perhop_cops::wire::Decided::Error(error), .. }] =
        &bodies[..]
    else {
        panic!("{bodies:?}");
    };
    assert_eq!(error.code, ErrorCode::MANDATORY_CLIENT_INFO_MISSING);
    // The others go on.
    ask(&x, 1, &wanted(2_000_000)).await;
    assert_eq!(granted(told(&mut notices).await), 2_000_000);
}

#[tokio::test]
async fn a_connection_that_opens_nothing_is_closed_after_a_while() {
    let world = World::new().await;
    let mut slow = TcpStream::connect(world.address).await.expect("it listens");
    let octets = open("y", TYPE);
    let slowly = async {
        for octet in octets.iter().cycle() {
            if slow.write_all(&[*octet]).await.is_err() {
                return;
            }
            let mut buffer = [0; 64];
            let waited =
                tokio::time::timeout(std::time::Duration::from_secs(3), slow.read(&mut buffer)).await;
            if matches!(waited, Ok(Ok(0) | Err(_))) {
                return;
            }
        }
    };
    // Ten seconds are allowed for it.
    tokio::time::timeout(std::time::Duration::from_secs(60), slowly).await.expect("it is closed");
}
