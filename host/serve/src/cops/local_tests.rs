//! The door of what is decided beside a router, with a controller that is a number and a router that has all that is wanted.

use super::tests::{ask, client, granted, refused, told, wanted};
use super::{CopsDoor, CopsSettings, Decides, LocalDecisions, Notice};
use crate::decisions::{DecidedClass, DecidedHere, Decider, Decisions, Keep, Question, Wish};
use perhop_broker::lease::{ClassSettings, Decision, Input, Refusal, Settings};
use perhop_cops::dra::DEFAULT_CLIENT_TYPE as TYPE;
use perhop_cops::wire::{ErrorCode, PepId, Reason, ReasonCode};
use perhop_io::clock;
use perhop_reason::Code;
use perhop_tcapi::wire::{Direction, Request as Reservation, Scope};
use perhop_units::Instant;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Whoever gives leases, and what was asked.
#[derive(Default)]
struct Controller {
    /// In all.
    has: u64,
    held: u64,
    asked: Vec<u64>,
}

/// What is decided beside a router, with a door.
struct World {
    controller: Arc<Mutex<Controller>>,
    journal: Arc<Mutex<BTreeMap<String, Value>>>,
    decisions: Decisions,
    address: SocketAddr,
    driver: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    door: JoinHandle<()>,
}

impl World {
    async fn new() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), Default::default(), 100_000_000, 1).await
    }

    /// A life that goes on with what an earlier one has kept.
    async fn at(
        address: SocketAddr,
        journal: Arc<Mutex<BTreeMap<String, Value>>>,
        has: u64,
        first: u64,
    ) -> Self {
        let class = ClassSettings { low_water: 1_000_000, ..ClassSettings::default() };
        let voice = DecidedClass { to: vec!["b".to_owned()], dscp: None };
        let here = DecidedHere {
            node: "a".into(),
            leases: Settings::new(BTreeMap::from([("voice".to_owned(), class)])),
            classes: BTreeMap::from([("voice".to_owned(), voice)]),
        };
        let kept = journal.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let decider = Decider::new(here, first, 0, clock::monotonic(), kept).expect("good settings");
        let (decisions, questions) = Decisions::new(64);
        let controller = Arc::new(Mutex::new(Controller { has, ..Controller::default() }));
        let (asked, kept, told) = (Arc::clone(&controller), Arc::clone(&journal), decisions.clone());
        let driver = tokio::spawn(drive(decider, questions, asked, kept, told));
        let clients = [("x", None), ("y", None), ("known", Some("00".repeat(32)))];
        let clients = clients.map(|(name, shown)| (name.to_owned(), shown));
        let decides = LocalDecisions { decisions: decisions.clone(), clients: Arc::new(clients.into()) };
        let settings = CopsSettings { client_type: TYPE, tls: None, other: None };
        let door = CopsDoor::on(address, settings, Arc::new(decides)).expect("a free port");
        let address = door.address().expect("it listens");
        let (stop, stopped) = oneshot::channel::<()>();
        let door = tokio::spawn(door.run(async move { drop(stopped.await) }));
        Self { controller, journal, decisions, address, driver, stop, door }
    }

    fn asked(&self) -> Vec<u64> {
        self.controller.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }

    /// Keys and rates of all flows.
    async fn admitted(&self) -> Vec<(String, u64)> {
        let rows = self.decisions.list().await.expect("it runs");
        rows.into_iter().map(|row| (row.key, row.bps)).collect()
    }

    async fn until_admitted(&self, expected: &[(&str, u64)]) {
        let expected: Vec<(String, u64)> = expected.iter().map(|(k, bps)| ((*k).into(), *bps)).collect();
        for _ in 0..1_000 {
            if self.admitted().await == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?} is not {expected:?}", self.admitted().await);
    }
}

async fn drive(
    mut decider: Decider,
    mut questions: mpsc::Receiver<Question>,
    controller: Arc<Mutex<Controller>>,
    journal: Arc<Mutex<BTreeMap<String, Value>>>,
    told: Decisions,
) {
    decider.handle_input(clock::monotonic(), Question::Lease(Input::Back));
    loop {
        let mut inputs = Vec::new();
        for Keep { name, value } in decider.take_kept() {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            match value {
                Some(value) => drop(journal.insert(name, value)),
                None => drop(journal.remove(&name)),
            }
        }
        while let Some(wish) = decider.poll_wish() {
            match wish {
                Wish::Ask(_, ask) => {
                    let mut controller = controller.lock().unwrap_or_else(PoisonError::into_inner);
                    controller.asked.push(ask.bps);
                    let refused = (ask.bps > controller.has).then(|| Refusal {
                        link: "a/wan".into(),
                        ..Refusal::new(Code::NoCapacity, "voice", ask.bps)
                    });
                    if refused.is_none() {
                        controller.held = ask.bps;
                    }
                    let has = controller.held;
                    inputs.push(Input::Decision(Decision {
                        lease: ask.lease,
                        number: ask.number,
                        has,
                        refused,
                    }));
                }
                Wish::Want { class, number, .. } => inputs.push(Input::Committed(class, number)),
                Wish::News(_) => {}
                Wish::Answer(done, result) => drop(done.send(*result)),
                Wish::Released(done) => drop(done.send(Ok(()))),
                Wish::Gone(id, code) => told.tell_gone(id, code),
            }
        }
        if !inputs.is_empty() {
            for input in inputs {
                decider.handle_input(clock::monotonic(), Question::Lease(input));
            }
            continue;
        }
        let due = decider.next_wakeup().unwrap_or(Instant::FAR_FUTURE).since(clock::monotonic());
        let due = due.to_std().min(Duration::from_secs(60));
        let question = tokio::select! {
            question = questions.recv() => question,
            () = tokio::time::sleep(due) => Some(Question::Lease(Input::Tick)),
        };
        let Some(question) = question else { return };
        decider.handle_input(clock::monotonic(), question);
    }
}

const FIRST: &str = "cops/4d41/0000000000000001";
const SECOND: &str = "cops/4d41/0000000000000002";

#[tokio::test]
async fn thirty_calls_by_cops_are_three_questions_to_the_controller() {
    let world = World::new().await;
    let (x, mut notices) = client("x", world.address);
    for handle in 1..=30 {
        ask(&x, handle, &wanted(80_000)).await;
        assert_eq!(granted(told(&mut notices).await), 80_000);
    }
    assert_eq!(world.asked(), [1_000_000, 2_000_000, 3_000_000]);
    for handle in 1..=30_u64 {
        x.drop_request(TYPE, handle.into(), Reason::of(ReasonCode::TEAR)).await;
    }
    world.until_admitted(&[]).await;
}

#[tokio::test]
async fn a_request_changes_its_flow_and_a_refusal_leaves_it_as_it_was() {
    let world = World::at(SocketAddr::from(([127, 0, 0, 1], 0)), Default::default(), 1_000_000, 1).await;
    let ((x, mut notices), (y, mut of_y)) = (client("x", world.address), client("y", world.address));
    ask(&x, 1, &wanted(400_000)).await;
    assert_eq!(granted(told(&mut notices).await), 400_000);
    ask(&x, 1, &wanted(600_000)).await;
    assert_eq!(granted(told(&mut notices).await), 600_000);
    ask(&y, 1, &wanted(400_000)).await;
    assert_eq!(granted(told(&mut of_y).await), 400_000);
    ask(&x, 1, &wanted(700_000)).await;
    let refusal = refused(told(&mut notices).await);
    assert_eq!(
        (refusal.code, refusal.link.as_str(), refusal.class.as_str(), refusal.asked_bps, refusal.free_bps),
        (Code::NoCapacity, "a/wan", "voice", 700_000, 0)
    );
    world.until_admitted(&[(FIRST, 600_000), (FIRST, 400_000)]).await;
    let elsewhere = Scope { ingress: "b".into(), egress: "a".into() };
    for (wrong, code) in [
        (Reservation { direction: Direction::Both, ..wanted(1) }, Code::Unsupported),
        (Reservation { scope: Some(elsewhere), ..wanted(1) }, Code::BadReference),
        (Reservation { scope: None, ..wanted(1) }, Code::Malformed),
    ] {
        ask(&x, 3, &wrong).await;
        assert_eq!(refused(told(&mut notices).await).code, code);
    }
    // Root releases it at the other door.
    let id = world.decisions.list().await.expect("it runs")[0].id;
    world.decisions.release(None, id).await.expect("it is there");
    assert_eq!(refused(told(&mut notices).await).code, Code::Forbidden);
    world.until_admitted(&[(FIRST, 400_000)]).await;
}

#[tokio::test]
async fn what_a_client_holds_lives_on_with_its_connection_and_ends_without() {
    let world = World::new().await;
    let (x, mut notices) = client("x", world.address);
    ask(&x, 1, &Reservation { lifetime_s: Some(2), ..wanted(80_000) }).await;
    granted(told(&mut notices).await);
    tokio::time::sleep(Duration::from_secs(4)).await;
    world.until_admitted(&[(FIRST, 80_000)]).await;
    drop((x, notices));
    world.until_admitted(&[]).await;
}

#[tokio::test]
async fn an_agent_that_was_killed_asks_its_clients_for_all_that_they_have() {
    let world = World::new().await;
    let (x, mut notices) = client("x", world.address);
    for handle in [1, 2] {
        ask(&x, handle, &wanted(80_000)).await;
        granted(told(&mut notices).await);
    }
    let before: Vec<u64> =
        world.decisions.list().await.expect("it runs").into_iter().map(|row| row.id).collect();
    let World { address, journal, driver, door, stop, .. } = world;
    driver.abort();
    door.abort();
    let _ = door.await;
    drop(stop);
    x.drop_request(TYPE, 2.into(), Reason::of(ReasonCode::TEAR)).await;
    let world = World::at(address, journal, 100_000_000, 1_000_000).await;
    // The first has its number still; the second was not asked for again.
    assert_eq!(granted(told(&mut notices).await), 80_000);
    world.until_admitted(&[(FIRST, 80_000)]).await;
    assert_eq!(world.decisions.list().await.expect("it runs")[0].id, before[0]);
    // One that begins anew has nothing.
    drop(x);
    let (x, mut notices) = client("x", world.address);
    ask(&x, 2, &wanted(90_000)).await;
    granted(told(&mut notices).await);
    world.until_admitted(&[(SECOND, 90_000)]).await;
}

#[tokio::test]
async fn whoever_is_none_of_the_files_clients_is_refused_and_a_door_that_closes_says_so() {
    let world = World::new().await;
    for name in ["z", "known"] {
        let (z, mut notices) = client(name, world.address);
        ask(&z, 1, &wanted(1_000)).await;
        let Some(Notice::Closed { close, .. }) = notices.recv().await else { panic!("it is refused") };
        assert_eq!(close.error.code, ErrorCode::AUTHENTICATION_FAILURE);
        assert_eq!(Code::from_number(close.error.sub_code), Some(Code::Unauthenticated));
    }
    let (x, mut notices) = client("x", world.address);
    ask(&x, 1, &wanted(1_000)).await;
    granted(told(&mut notices).await);
    world.stop.send(()).expect("it runs");
    let closed = async {
        loop {
            if let Notice::Closed { close, .. } = notices.recv().await.expect("it goes on") {
                return close.error.code;
            }
        }
    };
    let code = tokio::time::timeout(Duration::from_secs(20), closed).await.expect("it is told");
    assert_eq!(code, ErrorCode::SHUTTING_DOWN);
    world.door.await.expect("it ends");
}

#[tokio::test]
async fn with_a_certificate_a_client_is_the_one_that_the_file_gives_it() {
    let world = World::new().await;
    let clients =
        Arc::new(BTreeMap::from([("known".to_owned(), Some("00".repeat(32))), ("open".to_owned(), None)]));
    let decides = LocalDecisions { decisions: world.decisions.clone(), clients };
    let known = |name: &str, shown: Option<u8>, is_secured| {
        let pep = PepId::new(name).expect("a name");
        decides.client(&pep, shown.map(|byte| [byte; 32]), is_secured).map_err(|refusal| refusal.code)
    };
    assert_eq!(known("known", Some(0), true).as_deref(), Ok("known"));
    assert_eq!(known("open", None, false).as_deref(), Ok("open"));
    for (name, shown, is_secured) in [
        ("known", Some(1), true),
        ("known", None, false),
        ("open", Some(0), true),
        ("open", None, true),
        ("z", Some(0), true),
    ] {
        assert_eq!(known(name, shown, is_secured), Err(Code::Unauthenticated), "{name} {shown:?}");
    }
}
