//! Temporary folders, places for databases, and running the same case over both engines.

use crate::postgres::Server;
use perhop_store::{Campaign, Limits, Store};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A folder that is removed again.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("perhop-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An empty database of a case.
pub struct Place {
    pub address: String,
}

impl Place {
    pub fn sqlite(path: &Path) -> Place {
        Place { address: format!("sqlite:{}", path.display()) }
    }

    pub async fn open(&self) -> Store {
        Store::open(&self.address, Limits::default()).await.expect("a database")
    }

    /// Opens with little patience.
    pub async fn open_hasty(&self) -> Store {
        Store::open(&self.address, hasty()).await.expect("a database")
    }

    /// A connection beside the store.
    pub async fn beside(&self) -> Beside {
        use sqlx::Connection;
        if self.address.starts_with("sqlite:") {
            let path = &self.address["sqlite:".len()..];
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
            Beside::Sqlite(sqlx::SqliteConnection::connect_with(&options).await.expect("a connection"))
        } else {
            Beside::Postgres(sqlx::PgConnection::connect(&self.address).await.expect("a connection"))
        }
    }
}

/// A connection of somebody else.
pub enum Beside {
    Sqlite(sqlx::SqliteConnection),
    Postgres(sqlx::PgConnection),
}

impl Beside {
    pub async fn run(&mut self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match self {
            Beside::Sqlite(c) => drop(sqlx::raw_sql(sql).execute(c).await.expect("a statement")),
            Beside::Postgres(c) => drop(sqlx::raw_sql(sql).execute(c).await.expect("a statement")),
        }
    }

    pub async fn number(&mut self, sql: &'static str) -> i64 {
        match self {
            Beside::Sqlite(c) => sqlx::query_scalar(sql).fetch_one(c).await.expect("a number"),
            Beside::Postgres(c) => sqlx::query_scalar(sql).fetch_one(c).await.expect("a number"),
        }
    }
}

/// Limits under which a test need not wait long.
pub fn hasty() -> Limits {
    Limits { call: Duration::from_millis(1500), ..Limits::default() }
}

/// Leads at once.
pub async fn lead(store: &Store, name: &str) -> u64 {
    match store.campaign(name, 1_000_000, 3000).await.expect("a campaign") {
        Campaign::Won { fence } => fence,
        Campaign::Held(leader) => panic!("{leader:?} leads"),
    }
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

/// Whether PostgreSQL is here; says loudly when not, and fails where it is required.
pub fn postgres(name: &str) -> Option<Server> {
    if let Some(bin) = Server::programs() {
        return Some(Server::start(bin));
    }
    let why = "needs `initdb` and `postgres`, as in /usr/lib/postgresql/15/bin";
    eprintln!("SKIPPED {name}: {why}");
    let required =
        std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == "postgresql"));
    assert!(!required, "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
    None
}

/// Numbers that look random, and are the same for a seed.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Sends a signal by the program that everybody has.
pub fn signal(signal: &str, pid: u32) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
    assert!(status.success());
}
