//! A domain with its database.

use super::{Engine, Options, environment, field, memory, point, put};
use crate::error::BenchError;
use crate::postgres::PostgresServer;
use crate::report::Sink;
use perhop_broker::record::{AuditRow, Change, Group, ReservationKind, ReservationRow, ReservationState};
use perhop_io::clock;
use perhop_serve::domain::{Domain, Keeper, Marks, NotKept, Writing};
use perhop_store::{Campaign, Limits, Store};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lease of the leader, ms: nobody else wants to lead.
const LEASE_MS: u64 = 24 * 3_600 * 1_000;
/// Rows of a group by which a database is filled.
const FILL: u64 = 4_096;

/// A folder that goes away.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A database for a measurement.
struct Place {
    address: String,
    _server: Option<PostgresServer>,
    _folder: Folder,
}

impl Place {
    fn new(engine: Engine, options: &Options) -> Result<Self, BenchError> {
        let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = parent.join(format!("perhop-bench-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|why| environment("a folder for the database", why))?;
        let folder = Folder(folder);
        let (address, server) = match engine {
            Engine::Sqlite => (format!("sqlite:{}", folder.0.join("domain.db").display()), None),
            Engine::Postgresql => {
                let programs = PostgresServer::programs();
                let programs = programs.ok_or_else(|| {
                    environment("PostgreSQL", "needs initdb and postgres below /usr/lib/postgresql")
                })?;
                let server = PostgresServer::start(programs, &folder.0.join("postgresql"))
                    .map_err(|why| environment("PostgreSQL", why))?;
                (server.address(), Some(server))
            }
        };
        Ok(Self { address, _server: server, _folder: folder })
    }
}

/// The database as a domain's keeper, and how much it is given at a time.
struct Kept {
    store: Arc<Store>,
    groups: AtomicU64,
}

impl Keeper for Kept {
    fn write<'a>(&'a self, group: &'a Group) -> Writing<'a> {
        self.groups.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { self.store.write(group).await.map_err(|error| not_kept(&error)) })
    }

    fn audit(
        &self,
        before: Option<u64>,
        most: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>> {
        Box::pin(async move { self.store.audit(before, most).await.map_err(|error| not_kept(&error)) })
    }
}

fn not_kept(error: &perhop_store::Error) -> NotKept {
    NotKept { code: error.code(), retry_after_ms: error.retry_after_ms(), message: error.to_string() }
}

pub fn run(engine: Engine, options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let place = Place::new(engine, options)?;
    runtime.block_on(admissions(engine, options, &place, sink))?;
    drop(place);
    if options.admissions {
        return Ok(());
    }
    let place = Place::new(engine, options)?;
    runtime.block_on(load(engine, options, &place, sink))
}

async fn open(place: &Place) -> Result<(Arc<Store>, u64), BenchError> {
    let failed = |why: perhop_store::Error| environment("the database", why);
    let store = Store::open(&place.address, Limits::default()).await.map_err(failed)?;
    let now_ms = clock::wall().0 / 1_000_000;
    let Campaign::Won { fence } = store.campaign("bench", now_ms, LEASE_MS).await.map_err(failed)? else {
        return Err(BenchError::Wrong("somebody else leads".to_owned()));
    };
    store.write(&Group { number: 0, fence, changes: field::changes() }).await.map_err(failed)?;
    Ok((Arc::new(store), fence))
}

/// Asks from many tasks; an operation is an admission.
async fn admissions(
    engine: Engine,
    options: &Options,
    place: &Place,
    sink: &mut Sink,
) -> Result<(), BenchError> {
    let mut point = point("admissions", "admission");
    let (store, fence) = open(place).await?;
    let snapshot = store.load().await.map_err(|why| environment("the database", why))?;
    let kept = Arc::new(Kept { store, groups: AtomicU64::new(0) });
    let say = |why: &NotKept| eprintln!("not written: {}", why.message);
    let (domain, task) =
        Domain::load(memory::settings(fence), snapshot, Marks::new(), Arc::clone(&kept), say)
            .map_err(|why| BenchError::Wrong(why.to_string()))?;
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(task.run(async move {
        let _ = ended.await;
    }));
    let (begun, number) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let until = begun + Duration::from_secs(options.seconds);
    let asking: Vec<_> = (0..options.asking)
        .map(|_| {
            let (domain, number) = (domain.clone(), Arc::clone(&number));
            tokio::spawn(async move {
                let mut waits = Vec::new();
                let mut refused = None;
                while Instant::now() < until {
                    let number = number.fetch_add(1, Ordering::Relaxed);
                    let (owner, request) = (field::owner(number), field::request(number));
                    let asked = Instant::now();
                    match domain.ask(&owner, request).await {
                        Ok(_) => waits.push(asked.elapsed()),
                        Err(refusal) => refused = Some(refusal),
                    }
                }
                (waits, refused)
            })
        })
        .collect();
    let mut waits = Vec::new();
    for task in asking {
        let (of_one, refused) = task.await.map_err(|why| BenchError::Wrong(why.to_string()))?;
        if let Some(refusal) = refused {
            return Err(BenchError::Wrong(format!("refused: {}", refusal.message)));
        }
        waits.extend(of_one);
    }
    let took = begun.elapsed();
    let _ = end.send(());
    let _ = running.await;
    waits.sort_unstable();
    let ms = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    let per_second = waits.len() as f64 / took.as_secs_f64();
    point.set_ns(&[1e9 / per_second]);
    point.params.insert("engine", name(engine).into());
    point.params.insert("asking", options.asking.into());
    put(&mut point, "per_second", per_second, "/s");
    put(&mut point, "per_second_target", target(engine), "/s");
    put(&mut point, "p50", ms(0.5), "ms");
    put(&mut point, "p99", ms(0.99), "ms");
    put(&mut point, "p99_target", 20.0, "ms");
    put(
        &mut point,
        "group",
        waits.len() as f64 / kept.groups.load(Ordering::Relaxed).max(1) as f64,
        "admission",
    );
    sink.point(&point)?;
    Ok(())
}

fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "sqlite",
        Engine::Postgresql => "postgresql",
    }
}

fn target(engine: Engine) -> f64 {
    match engine {
        Engine::Sqlite => 20_000.0,
        Engine::Postgresql => 10_000.0,
    }
}

/// Starts with a database that is full; an operation is a reservation.
async fn load(engine: Engine, options: &Options, place: &Place, sink: &mut Sink) -> Result<(), BenchError> {
    let (store, fence) = open(place).await?;
    for first in (1..=options.live).step_by(FILL as usize) {
        let ids = first..=(first + FILL - 1).min(options.live);
        let changes = ids.map(|id| Change::Reservation(row(id))).collect();
        let group = Group { number: first, fence, changes };
        store.write(&group).await.map_err(|why| environment("the database", why))?;
    }
    let mut point = point("load", "reservation");
    let (before, begun) = (resident_bytes(), Instant::now());
    let snapshot = store.load().await.map_err(|why| environment("the database", why))?;
    let kept = Arc::new(Kept { store, groups: AtomicU64::new(0) });
    let loaded = Domain::load(memory::settings(fence), snapshot, Marks::new(), kept, |_| ());
    let loaded = loaded.map_err(|why| BenchError::Wrong(why.to_string()))?;
    let took = begun.elapsed().as_secs_f64();
    point.set_ns(&[took * 1e9 / options.live as f64]);
    point.params.insert("engine", name(engine).into());
    point.params.insert("live", options.live.into());
    put(&mut point, "seconds", took, "s");
    put(&mut point, "seconds_target", 10.0, "s");
    put(&mut point, "resident", (resident_bytes().0 - before.0) / 1e6, "MB");
    put(&mut point, "most_resident", (resident_bytes().1 - before.0) / 1e6, "MB");
    put(&mut point, "resident_target", 1_000.0, "MB");
    sink.point(&point)?;
    drop(loaded);
    Ok(())
}

/// Resident memory of this process now and at its highest.
fn resident_bytes() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or(0.0) * 1_024.0
    };
    (of("VmRSS:"), of("VmHWM:"))
}

fn row(id: u64) -> ReservationRow {
    let perhop_broker::ledger::Request::Reserve(reserve) = field::request(id) else {
        unreachable!("it is a reservation that is asked for")
    };
    let perhop_broker::ledger::Way::Path(path) = reserve.way else { unreachable!("a path is named") };
    let now_ms = clock::wall().0 / 1_000_000;
    ReservationRow {
        id,
        owner: field::owner(id),
        idem: reserve.idem,
        digest: format!("{:064x}", u128::from(id).wrapping_mul(0xd1b5_4a32_d192_ed03_9e37_79b9_7f4a_7c15)),
        kind: ReservationKind::Flow,
        twin: None,
        path,
        class: reserve.class,
        bps: reserve.bps,
        floor_bps: None,
        priority: 0,
        state: ReservationState::Held,
        peer_handle: None,
        flow: reserve.flow,
        created_ms: now_ms,
        expires_ms: now_ms + LEASE_MS,
    }
}
