//! A whole domain under torture: agents, routers, controller and standby are killed at random instants while clients reserve. Each time
//! the routers have what is reserved soon after the start, never more than their links may carry, and traffic through routers that
//! were not killed does not lose a packet.
//!
//! `PERHOP_TORTURE_POINTS` says how often something is killed (6 without).

use super::books::Books;
use super::client::{Client, Field, Outcome};
use super::draw::Draw;
use super::from_env;
use super::http::HttpClient;
use crate::command;
use crate::domain::{Domain, NODES, reserve, socket, until};
use crate::router::Running;
use perhop_broker::record::Snapshot;
use perhop_netlink::Namespace;
use perhop_store::{Limits, Store};
use perhop_units::Rate;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const FIELD: Field =
    Field { edges: &["west", "east"], classes: &["voice", "video"], lives: (20_000, 40_000) };
const CLIENTS: u64 = 4;
/// Within so long the routers are to have what is reserved.
const SOON: Duration = Duration::from_secs(5);
/// Ports of the traffic that passes: without a reservation, and with one.
const PORTS: [u16; 2] = [6_000, 5_004];
/// Between two packets of each.
const EVERY: Duration = Duration::from_millis(5);

/// Numbered packets through the domain, of each kind as many.
#[derive(Default)]
struct Stream {
    sent: AtomicU64,
    arrived: [Mutex<BTreeSet<u64>>; 2],
}

impl Stream {
    fn send(&self, from: &UdpSocket, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let number = self.sent.fetch_add(1, Ordering::Relaxed);
            for port in PORTS {
                // An address that is not resolved now is a packet lost.
                let _ = from.send_to(&number.to_be_bytes(), ("10.2.0.2", port));
            }
            std::thread::sleep(EVERY);
        }
    }

    fn receive(&self, kind: usize, to: &UdpSocket, stop: &AtomicBool) {
        let mut buffer = [0; 64];
        while !stop.load(Ordering::Relaxed) {
            if let Ok(8) = to.recv(&mut buffer) {
                let number = u64::from_be_bytes(*buffer.first_chunk().unwrap());
                self.arrived[kind].lock().unwrap().insert(number);
            }
        }
    }

    /// Waits until packets of both kinds pass.
    fn passes(&self) {
        let from = self.sent.load(Ordering::Relaxed);
        until("packets pass", || {
            self.arrived.iter().all(|arrived| arrived.lock().unwrap().last().is_some_and(|last| *last > from))
        });
        self.arrived.iter().for_each(|arrived| arrived.lock().unwrap().retain(|number| *number >= from));
    }

    /// Packets between two numbers that have not arrived, of each kind.
    fn lost(&self, first: u64, end: u64) -> [u64; 2] {
        let lost = |kind: usize| {
            let arrived = self.arrived[kind].lock().unwrap();
            end - first - arrived.range(first..end).count() as u64
        };
        [lost(0), lost(1)]
    }
}

/// What the database says.
fn desired(address: &str) -> Option<Snapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Store::open(address, Limits::default()).await.ok()?.load().await.ok() })
}

/// What a router shows, without a router nothing.
fn shown(domain: &Domain, node: &str, what: &str) -> Option<Vec<Value>> {
    let path = PathBuf::from("/run/perhop").join(format!("{}.sock", domain.router(node)));
    match HttpClient::new(vec![path], 0, None).ask("GET", &format!("/v1/show?what={what}"), &Value::Null) {
        Outcome::Done(page) => page["rows"].as_array().cloned(),
        _ => None,
    }
}

/// Whether all routers have what is reserved, and nobody more than there is; else what is not so.
fn in_force(domain: &Domain, address: &str, books: &Books) -> Result<(), String> {
    let found = desired(address).ok_or("the database cannot be read")?;
    super::books::recount(&found).unwrap_or_else(|why| books.fail(why));
    for node in NODES {
        let rows = shown(domain, node, "classes").ok_or_else(|| format!("{node} shows nothing"))?;
        let ports: HashMap<u64, &str> =
            found.links.iter().filter(|l| l.node == node).map(|l| (l.id, l.port.as_str())).collect();
        for row in &found.capacities {
            let Some(port) = ports.get(&row.link) else { continue };
            let name = format!("{port}/{}", row.class);
            let shown = rows.iter().find(|row| row["name"] == name.as_str());
            let allocated = shown.and_then(|row| row["facts"]["allocated"].as_str());
            let rate = allocated.map_or(0, |text| text.parse::<Rate>().map_or(0, |rate| rate.0));
            if rate > row.bps {
                books.fail(format!("{node} has {rate} bit/s of {name}, which may have {}", row.bps));
            }
            if rate != row.reserved {
                return Err(format!(
                    "{node} has {allocated:?} for {name}, of which {} are reserved",
                    row.reserved
                ));
            }
        }
    }
    Ok(())
}

/// What agents say of it.
fn told(domain: &Domain) -> String {
    let mut http = HttpClient::new(vec![socket(&domain.name)], 0, None);
    let nodes = http.ask("GET", "/v1/nodes", &Value::Null);
    let log = |node| {
        std::fs::read_to_string(domain.scratch.0.join(format!("{node}-agent.log"))).unwrap_or_default()
    };
    format!("{nodes:?}\n{}", NODES.map(log).concat())
}

fn standby(domain: &Domain, address: &str) -> Running {
    let file = domain.scratch.0.join("domain.toml");
    let name = format!("{}-standby", domain.name);
    let args = ["controller", "run", file.to_str().unwrap(), "--name", &name, "--database", address];
    Running::of(command(&args).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Starts what was killed; the standby is the last.
fn start(domain: &Domain, victim: usize, address: &str) -> Running {
    match victim {
        0 => {
            let folder = domain.scratch.0.to_str().unwrap();
            let args = ["controller", "run", folder, "--name", &domain.name];
            Running::of(command(&args).stdout(Stdio::null()).stderr(Stdio::null()))
        }
        1..=6 => domain.start(victim),
        _ => standby(domain, address),
    }
}

/// Kills at random instants; says how long it took until all was in force again.
fn points(
    domain: &mut Domain,
    address: &str,
    stream: &Stream,
    books: &Books,
    pause: &AtomicBool,
) -> Vec<Duration> {
    let seed = from_env("PERHOP_SOAK_SEED", 1);
    let mut draw = Draw::of(seed, 1 << 22);
    let mut took = Vec::new();
    let several = domain.running.len() as u64;
    for point in 0..from_env("PERHOP_TORTURE_POINTS", 6) {
        pause.store(false, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100 + draw.below(700)));
        let victim = draw.below(several) as usize;
        let first = stream.sent.load(Ordering::Relaxed);
        domain.running[victim].kill();
        pause.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        domain.running[victim] = start(domain, victim, address);
        while let Err(why) = in_force(domain, address, books) {
            if books.has_failed() || begun.elapsed() > 4 * SOON {
                books.fail(format!(
                    "seed {seed}, point {point}: {victim} was killed and {why}\n{}",
                    told(domain)
                ));
                return took;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        took.push(begun.elapsed());
        let end = stream.sent.load(Ordering::Relaxed);
        if matches!(victim, 1..=3) {
            stream.passes();
            continue;
        }
        std::thread::sleep(Duration::from_millis(300));
        let lost = stream.lost(first, end);
        if lost != [0, 0] {
            books.fail(format!("seed {seed}, point {point}: {lost:?} of {} packets are lost", end - first));
        }
    }
    took
}

fn bind(host: &Namespace, address: &str) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

#[test]
fn whoever_is_killed_the_routers_have_what_is_reserved_again_and_other_traffic_passes() {
    let Some(mut domain) = Domain::new("torture") else { return };
    let address = format!("sqlite:{}", domain.scratch.0.join("domain.db").display());
    let second = standby(&domain, &address);
    domain.running.push(second);
    let call = ["create", "--from", "west", "--to", "east", "--class", "voice", "--rate", "300 kbit/s"];
    let packets = ["--packets", "protocol=udp dst=10.2.0.2 dst-port=5004", "--key", "call", "--for", "12h"];
    let made = reserve(&domain.name, &[&call[..], &packets].concat());
    assert_eq!(made.code, Some(0), "{}", made.err);
    let (from, to) = (
        bind(&domain.hosts[0], "10.1.0.2:0"),
        PORTS.map(|port| bind(&domain.hosts[1], &format!("10.2.0.2:{port}"))),
    );
    let (stream, books) = (Stream::default(), Books::default());
    let (over, pause) = (AtomicBool::new(false), AtomicBool::new(false));
    let controller = socket(&domain.name);
    let took = std::thread::scope(|scope| {
        scope.spawn(|| stream.send(&from, &over));
        for (kind, to) in to.iter().enumerate() {
            let (stream, over) = (&stream, &over);
            scope.spawn(move || stream.receive(kind, to, over));
        }
        for number in 0..CLIENTS {
            let mut client = Client {
                number,
                owner: "local".into(),
                asking: Box::new(HttpClient::new(vec![controller.clone()], 0, None)),
                draw: Draw::of(1, number),
                books: &books,
                field: &FIELD,
                mine: Vec::new(),
                made: 0,
            };
            let (over, pause) = (&over, &pause);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    client.run(pause);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let took = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            stream.passes();
            points(&mut domain, &address, &stream, &books, &pause)
        }));
        // Whatever happened, the others end.
        pause.store(true, Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        took.unwrap_or_else(|why| std::panic::resume_unwind(why))
    });
    let late = took.iter().filter(|took| **took > SOON).count();
    println!(
        "{} points: {:?} at the most, {late} later than {SOON:?}; {} packets of each kind, {:?}",
        took.len(),
        took.iter().max(),
        stream.sent.load(Ordering::Relaxed),
        books.counts
    );
    books.assert_good();
    assert!(!took.is_empty());
}
