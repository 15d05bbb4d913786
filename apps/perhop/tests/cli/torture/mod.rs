//! A domain under torture: 64 clients that reserve, change, renew, release and crash, while controllers and database are killed,
//! stopped and started again. All the time the database is looked at from beside: what is reserved of a link is the sum of its
//! reservations and within what it has, what a client was told is there until its life ends, what it gave back is gone; and at the
//! end, when all lives are over, nothing is left.
//!
//! `PERHOP_TORTURE_SECONDS` says how long (6 without), `PERHOP_SOAK_SEED` which world (1 without).

mod books;
mod client;
mod draw;
mod http;
mod routers;

use super::router::Running;
use super::{Scratch, command, skip};
use books::{Books, count};
use client::{Asking, Client, Field};
use draw::{Draw, now_ms};
use perhop_bench::PostgresServer;
use perhop_serve::domain::token_sha256;
use perhop_store::{Limits, Store};
use rustix::process::Signal;
use std::fmt::Write;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u64 = 64;
/// Owners that share what clients reserve; half of them have quotas.
const OWNERS: u64 = 8;
/// How long anything may take to be there again.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a client of some protocol is made: from the controllers' sockets, the first to ask, and its token.
type Kind = fn(Vec<PathBuf>, usize, String) -> Box<dyn Asking>;
/// Protocols by turns.
const KINDS: &[Kind] = &[|sockets, at, token| Box::new(http::HttpClient::new(sockets, at, Some(token)))];

const FIELD: Field =
    Field { edges: &["a", "b", "c", "d"], classes: &["voice", "video"], lives: (1_000, 8_000) };

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Four edges around two cores, where every link is wanted by more than it can carry.
fn domain_file() -> String {
    let mut file = "[broker]\nlifetime = \"8 s\"\n".to_owned();
    for (kind, names) in [("edge", FIELD.edges), ("core", &["x", "y"])] {
        for name in names {
            let _ = writeln!(file, "[[node]]\nname = \"{name}\"\nkind = \"{kind}\"");
        }
    }
    for (from, to) in [("a", "x"), ("b", "x"), ("x", "y"), ("c", "y"), ("d", "y")] {
        let _ = writeln!(
            file,
            "[[link]]\nfrom = \"{from}\"\nport = \"to-{to}\"\nto = \"{to}\"\nrate = \"10 Mbit/s\"\n\
             classes = {{ voice = \"1500 kbit/s\", video = \"2500 kbit/s\" }}\nboth = true\nback_port = \"to-{from}\""
        );
    }
    for owner in 0..OWNERS {
        let quota = if owner % 2 == 0 { "most = \"2 Mbit/s\"\n" } else { "" };
        let _ = writeln!(
            file,
            "[[client]]\nname = \"owner{owner}\"\nkind = \"http\"\nrole = \"operator\"\ntoken_sha256 = \"{}\"\n{quota}",
            token_sha256(&token(owner))
        );
    }
    file
}

fn token(owner: u64) -> String {
    format!("token of owner{owner}")
}

/// A controller that is started again whenever it ends.
struct Controller {
    name: String,
    file: String,
    address: String,
    log: PathBuf,
    running: Option<Running>,
}

impl Controller {
    fn new(scratch: &Scratch, number: usize, file: &str, address: &str) -> Self {
        let name = format!("torture-{}-{number}", scratch.0.file_name().unwrap().to_str().unwrap());
        let log = scratch.0.join(format!("controller-{number}.log"));
        let mut controller = Self { name, file: file.into(), address: address.into(), log, running: None };
        controller.start();
        controller
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from("/run/perhop").join(format!("{}.controller", self.name))
    }

    fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let args = ["controller", "run", &self.file, "--name", &self.name, "--database", &self.address];
        self.running = Some(Running::of(command(&args).stdout(Stdio::null()).stderr(log)));
    }

    fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill();
        }
    }

    /// What of its log must not be.
    fn complaints(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap();
        let is_one = |line: &&str| line.contains("panicked") || line.contains("contradict");
        log.lines().filter(is_one).map(str::to_owned).collect()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
        let socket = self.socket();
        let _ = std::fs::remove_file(socket.with_extension("controller.lock"));
        let _ = std::fs::remove_file(socket);
    }
}

/// What was done to the programs.
#[derive(Debug, Default)]
struct Blows {
    controllers: u64,
    stopped: u64,
    databases: u64,
}

/// Kills and stops, until `stop`; then all run.
fn torment(
    controllers: &mut [Controller],
    server: &mut Option<PostgresServer>,
    draw: &mut Draw,
    stop: &AtomicBool,
) -> Blows {
    let mut blows = Blows::default();
    let several = controllers.len() > 1;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1_000 + draw.below(3_000)));
        let victim = draw.below(controllers.len() as u64) as usize;
        match draw.below(4) {
            0 if server.is_some() => {
                let server = server.as_mut().unwrap();
                server.kill().unwrap();
                std::thread::sleep(Duration::from_millis(draw.below(500)));
                server.run().unwrap();
                blows.databases += 1;
            }
            // Longer than its lease: it comes back as one that leads no more and does not know it.
            1 if several => {
                let running = controllers[victim].running.as_ref().unwrap();
                running.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(2_000 + draw.below(3_000)));
                running.signal(Signal::CONT);
                blows.stopped += 1;
            }
            _ => {
                controllers[victim].kill();
                std::thread::sleep(Duration::from_millis(draw.below(300)));
                controllers[victim].start();
                blows.controllers += 1;
            }
        }
        // Without a database a controller does not start; whoever looks after it does it again.
        for controller in &mut *controllers {
            if controller.running.as_mut().unwrap().has_ended() {
                controller.start();
            }
        }
    }
    blows
}

/// Looks at the database until `stop`.
fn watch(address: &str, books: &Books, draw: &mut Draw, stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut kept = None;
        while !stop.load(Ordering::Relaxed) {
            let before = books.before();
            // A connection that stays keeps the database from being whole again by itself after a kill: not always one.
            let store = match kept.take().filter(|_| !draw.one_in(4)) {
                Some(store) => store,
                None => match Store::open(address, Limits::default()).await {
                    Ok(store) => store,
                    Err(_) => {
                        count(&books.counts.blind);
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            match store.load().await {
                Ok(found) => {
                    books.check(&before, &found);
                    kept = Some(store);
                }
                Err(perhop_store::Error::Corrupt { column, found }) => {
                    books.fail(format!("{column} is {found:?}"));
                }
                Err(_) => count(&books.counts.blind),
            }
            tokio::time::sleep(Duration::from_millis(20 + draw.below(80))).await;
        }
    });
}

/// Waits until nothing is reserved.
fn nothing_is_left(address: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let end = Instant::now() + PATIENCE;
        let mut seen = "nothing can be read".to_owned();
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let Ok(store) = Store::open(address, Limits::default()).await else { continue };
            let Ok(found) = store.load().await else { continue };
            let now = now_ms();
            let late = found.reservations.iter().filter(|row| row.expires_ms + 1_000 < now).count();
            seen = format!("{} reservations are left, {late} of them late", found.reservations.len());
            if found.reservations.is_empty() {
                let reserved = found.capacities.iter().find(|row| row.reserved > 0);
                return reserved.map_or(Ok(()), |row| Err(format!("nothing is there, and {row:?}")));
            }
        }
        Err(seen)
    })
}

fn torture(scratch: &Scratch, address: &str, mut server: Option<PostgresServer>, instances: usize) {
    let seed = from_env("PERHOP_SOAK_SEED", 1);
    let seconds = from_env("PERHOP_TORTURE_SECONDS", 6);
    let file = scratch.file("domain.toml", &domain_file());
    let mut controllers: Vec<_> =
        (0..instances).map(|number| Controller::new(scratch, number, &file, address)).collect();
    let sockets: Vec<_> = controllers.iter().map(Controller::socket).collect();
    let end = Instant::now() + PATIENCE;
    while !sockets.iter().any(|socket| socket.exists()) {
        assert!(Instant::now() < end, "no controller listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    let books = Books::default();
    let (calm, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let blows = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let owner = number % OWNERS;
                let kind = KINDS[number as usize % KINDS.len()];
                let mut client = Client {
                    number,
                    owner: format!("owner{owner}"),
                    asking: kind(sockets.clone(), number as usize, token(owner)),
                    draw: Draw::of(seed, number),
                    books: &books,
                    field: &FIELD,
                    mine: Vec::new(),
                    made: 0,
                };
                let stop = &calm;
                scope.spawn(move || client.run(stop))
            })
            .collect();
        let watcher = scope.spawn(|| watch(address, &books, &mut Draw::of(seed, 1 << 20), &over));
        let timer = scope.spawn(|| {
            let end = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < end && !books.has_failed() {
                std::thread::sleep(Duration::from_millis(50));
            }
            calm.store(true, Ordering::Relaxed);
        });
        let blows = torment(&mut controllers, &mut server, &mut Draw::of(seed, 1 << 21), &calm);
        timer.join().unwrap();
        for client in clients {
            client.join().unwrap();
        }
        if let Err(why) = nothing_is_left(address) {
            books.fail(why);
        }
        over.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
        blows
    });
    for complaint in controllers.iter().flat_map(Controller::complaints) {
        books.fail(complaint);
    }
    println!("seed {seed}, {seconds} s, {CLIENTS} clients: {blows:?}, {:?}", books.counts);
    books.assert_good();
    let counted = &books.counts;
    let least = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) > 10;
    assert!(least(&counted.granted) && least(&counted.refused) && least(&counted.looks), "{counted:?}");
}

#[test]
fn whatever_is_killed_nothing_is_sold_twice_or_lost_on_sqlite() {
    let scratch = Scratch::new("torture-sqlite");
    let address = format!("sqlite:{}", scratch.0.join("domain.db").display());
    torture(&scratch, &address, None, 1);
}

#[test]
fn whatever_is_killed_nothing_is_sold_twice_or_lost_on_postgresql_with_two_controllers() {
    let Some(programs) = PostgresServer::programs() else {
        return skip("torture-postgresql", "postgresql", "needs `initdb` and `postgres`");
    };
    let scratch = Scratch::new("torture-postgresql");
    let server = PostgresServer::start(programs, &scratch.0.join("postgresql")).unwrap();
    let address = server.address();
    torture(&scratch, &address, Some(server), 2);
}
