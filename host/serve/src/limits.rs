//! What a server allows its clients, how much of it is used, and how often it was not enough.

use crate::refusal::busy;
use crate::share::{Share, Shares};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;
use tokio::sync::Semaphore;

/// Long bodies that are parsed at the same time; others wait for their turn.
const PARSED_TOGETHER: usize = 2;

/// A limit of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Limit {
    /// Connections at the same time; one more is answered with 503.
    Connections,
    /// Of these, connections of users other than root and the router's own, so that they cannot shut those out.
    ConnectionsOfOthers,
    /// Of these, connections from one address of the network, so that nobody there can shut others out.
    ConnectionsOfAddress,
    /// Readers of events at the same time; one more is answered with 503.
    EventReaders,
    /// Of these, readers of one client that is no administrator, so that it cannot shut others out.
    EventReadersOfClient,
    /// Bytes of a request's head; more is answered with 431. Looked at when more arrives, so up to twice as many may pass.
    HeadBytes,
    /// Bytes of a request's body; more is answered with 413. A transaction of 100,000 operations may need more than the
    /// default.
    BodyBytes,
    /// Bytes that all bodies and the values read from them can take until their requests are answered; more is answered
    /// with 503, and with 413 when one body alone would take more.
    BodiesBytes,
    /// Time for a request's head to arrive, also after the request before it; then the connection is closed.
    HeadMs,
    /// Time for a request's body to arrive; then it is answered with 408.
    BodyMs,
    /// Time for which a client may read nothing of an answer that waits for it; then the connection is closed.
    WriteMs,
}

/// A name, a unit, the default and the range.
type Row = (Limit, &'static str, &'static str, u64, (u64, u64));

const TABLE: [Row; 11] = [
    (Limit::Connections, "api.connections", "connections", 64, (2, 10_000)),
    (Limit::ConnectionsOfOthers, "api.connections_of_others", "connections", 48, (1, 10_000)),
    (Limit::ConnectionsOfAddress, "api.connections_of_address", "connections", 32, (1, 10_000)),
    (Limit::EventReaders, "api.event_readers", "connections", 16, (1, 10_000)),
    (Limit::EventReadersOfClient, "api.event_readers_of_client", "connections", 8, (1, 10_000)),
    (Limit::HeadBytes, "api.head_bytes", "B", 65_536, (8_192, 1 << 20)),
    (Limit::BodyBytes, "api.body_bytes", "B", 8 << 20, (1_024, 1 << 30)),
    (Limit::BodiesBytes, "api.bodies_bytes", "B", 256 << 20, (1_024, 1 << 34)),
    (Limit::HeadMs, "api.head_ms", "ms", 10_000, (10, 3_600_000)),
    (Limit::BodyMs, "api.body_ms", "ms", 30_000, (10, 3_600_000)),
    (Limit::WriteMs, "api.write_ms", "ms", 30_000, (10, 3_600_000)),
];

impl Limit {
    /// Every limit.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The name in answers and settings: `api.connections`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What is counted: `connections`, `B` or `ms`.
    pub fn unit(self) -> &'static str {
        self.row().2
    }
}

/// A limit that cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// There is none of this name.
    #[error("there is no limit of this name; there are {}", TABLE.map(|r| r.1).join(", "))]
    Unknown,
    /// Not a number in its range.
    #[error("{name} is a whole number of {unit}, {least} to {most}")]
    OutOfRange {
        /// Limit.
        name: &'static str,
        /// Unit.
        unit: &'static str,
        /// Least.
        least: u64,
        /// Most.
        most: u64,
    },
}

/// The values of all limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits([u64; TABLE.len()]);

impl Default for Limits {
    fn default() -> Self {
        Self(TABLE.map(|row| row.3))
    }
}

impl Limits {
    /// Of a controller: the agent of every router reads events all the time, and reports beside it. All of it stays below the
    /// 1,024 descriptors that a process may usually have. A policy comes in one body.
    pub fn of_controller() -> Self {
        let mut limits = Self::default();
        for (limit, value) in [
            (Limit::Connections, 768),
            (Limit::ConnectionsOfOthers, 704),
            (Limit::EventReaders, 512),
            (Limit::BodyBytes, 64 << 20),
        ] {
            limits.0[limit as usize] = value;
        }
        limits
    }

    /// The value of one.
    pub fn value(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// Sets one by its name.
    ///
    /// # Errors
    /// See [`LimitError`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LimitError> {
        let (limit, name, unit, _, (least, most)) =
            *TABLE.iter().find(|row| row.1 == name).ok_or(LimitError::Unknown)?;
        let value = value.parse().ok().filter(|v| (least..=most).contains(v));
        self.0[limit as usize] = value.ok_or(LimitError::OutOfRange { name, unit, least, most })?;
        Ok(())
    }
}

/// A limit as `GET /v1/limits` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LimitRow {
    /// Name.
    pub name: String,
    /// What is counted.
    pub unit: String,
    /// The limit.
    pub limit: u64,
    /// How much is used now; absent where nothing is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<u64>,
    /// How often it was not enough since the start; absent where that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
}

impl LimitRow {
    /// A limit of which nothing is counted.
    pub fn fixed(name: &str, unit: &str, limit: u64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), limit, now: None, hits: None }
    }
}

/// `GET /v1/limits`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LimitsPage {
    /// Limits of the server and of the router.
    pub rows: Vec<LimitRow>,
}

#[derive(Debug, Default)]
struct Gauge {
    now: AtomicU64,
    hits: AtomicU64,
}

/// Limits in use.
#[derive(Clone, Debug)]
pub(crate) struct Gauges {
    limits: Limits,
    gauges: Arc<[Gauge; TABLE.len()]>,
    parsing: Arc<Semaphore>,
    readers: Shares<String>,
}

/// A place among the readers of events; given back when dropped.
#[derive(Debug)]
pub(crate) struct ReaderPlace {
    _one: Permit,
    _of_client: Option<Share<String>>,
}

impl Gauges {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            gauges: Arc::new(Default::default()),
            parsing: Arc::new(Semaphore::new(PARSED_TOGETHER)),
            readers: Shares::default(),
        }
    }

    /// Turns to parse a long body.
    pub(crate) fn parsing(&self) -> &Arc<Semaphore> {
        &self.parsing
    }

    pub(crate) fn value(&self, limit: Limit) -> u64 {
        self.limits.value(limit)
    }

    pub(crate) fn duration(&self, limit: Limit) -> std::time::Duration {
        std::time::Duration::from_millis(self.value(limit))
    }

    /// Counts that a limit was hit.
    pub(crate) fn hit(&self, limit: Limit) {
        self.gauges[limit as usize].hits.fetch_add(1, Ordering::Relaxed);
    }

    /// A permit that may grow.
    pub(crate) fn nothing_of(&self, limit: Limit) -> Permit {
        Permit { gauges: Arc::clone(&self.gauges), limit, amount: 0 }
    }

    /// Takes `amount` until the permit is dropped; a refusal is counted.
    pub(crate) fn take(&self, limit: Limit, amount: u64) -> Option<Permit> {
        let mut permit = self.nothing_of(limit);
        permit.grow(self, amount).then_some(permit)
    }

    /// A place among the readers of events, one of those of `client` if it has a name.
    ///
    /// # Errors
    /// The answer to one too many.
    #[allow(clippy::result_large_err, reason = "the error is the finished answer")]
    pub(crate) fn reader(&self, client: Option<String>) -> Result<ReaderPlace, Response> {
        let full = |limit: Limit| busy(limit.name(), self.value(limit), "too many readers of events");
        let limit = Limit::EventReadersOfClient;
        let of_client = client.map(|client| {
            self.readers.take(client, self.value(limit)).ok_or_else(|| {
                self.hit(limit);
                full(limit)
            })
        });
        let _of_client = of_client.transpose()?;
        let _one = self.take(Limit::EventReaders, 1).ok_or_else(|| full(Limit::EventReaders))?;
        Ok(ReaderPlace { _one, _of_client })
    }

    /// Counts `amount` as used if it fits; a refusal is counted.
    fn add(&self, limit: Limit, amount: u64) -> bool {
        let most = self.value(limit);
        let more = |now: u64| now.checked_add(amount).filter(|n| *n <= most);
        let taken = self.gauges[limit as usize].now.try_update(Ordering::AcqRel, Ordering::Acquire, more);
        if taken.is_err() {
            self.hit(limit);
        }
        taken.is_ok()
    }

    pub(crate) fn rows(&self) -> Vec<LimitRow> {
        let row = |limit: Limit| {
            let gauge = &self.gauges[limit as usize];
            let of_each = matches!(limit, Limit::ConnectionsOfAddress | Limit::EventReadersOfClient);
            let used = !matches!(limit.unit(), "ms")
                && !of_each
                && !matches!(limit, Limit::HeadBytes | Limit::BodyBytes);
            // What is too long a head is found by the reader of heads, which does not tell.
            let counted = !matches!(limit, Limit::HeadBytes);
            LimitRow {
                now: used.then(|| gauge.now.load(Ordering::Relaxed)),
                hits: counted.then(|| gauge.hits.load(Ordering::Relaxed)),
                ..LimitRow::fixed(limit.name(), limit.unit(), self.value(limit))
            }
        };
        Limit::all().map(row).collect()
    }
}

/// A share of a limit; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    gauges: Arc<[Gauge; TABLE.len()]>,
    limit: Limit,
    amount: u64,
}

impl Permit {
    /// How much it is for.
    pub(crate) fn amount(&self) -> u64 {
        self.amount
    }

    /// Takes `more`; `false`: there is not so much, which is counted.
    pub(crate) fn grow(&mut self, gauges: &Gauges, more: u64) -> bool {
        let has_grown = gauges.add(self.limit, more);
        self.amount += if has_grown { more } else { 0 };
        has_grown
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gauges[self.limit as usize].now.fetch_sub(self.amount, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_limits_and_its_defaults_in_range() {
        for (i, (limit, name, _, default, (least, most))) in TABLE.into_iter().enumerate() {
            assert_eq!(limit as usize, i, "{name}");
            assert!((least..=most).contains(&default), "{name}");
        }
    }

    #[test]
    fn every_agent_of_a_large_domain_can_follow_and_report_beside_its_controllers_other_clients() {
        let limits = Limits::of_controller();
        let readers = limits.value(Limit::EventReaders);
        assert!(readers >= 500, "{readers}");
        assert!(limits.value(Limit::ConnectionsOfOthers) >= readers + 128);
        assert!(limits.value(Limit::Connections) >= limits.value(Limit::ConnectionsOfOthers) + 64);
    }

    #[test]
    fn a_limit_is_set_by_name_within_its_range() {
        let mut limits = Limits::default();
        assert_eq!(limits.set("api.connections", "5"), Ok(()));
        assert_eq!(limits.value(Limit::Connections), 5);
        assert_eq!(limits.set("api.conections", "5"), Err(LimitError::Unknown));
        for wrong in ["0", "x", "-1", "99999999999999999999"] {
            assert!(matches!(limits.set("api.connections", wrong), Err(LimitError::OutOfRange { .. })));
        }
    }

    #[test]
    fn what_is_taken_is_given_back_and_what_is_refused_counted() {
        let mut limits = Limits::default();
        limits.set("api.event_readers", "2").expect("in range");
        let gauges = Gauges::new(limits);
        let first = gauges.take(Limit::EventReaders, 1);
        let second = gauges.take(Limit::EventReaders, 1);
        assert!(first.is_some() && second.is_some() && gauges.take(Limit::EventReaders, 1).is_none());
        drop(first);
        assert!(gauges.take(Limit::EventReaders, 1).is_some());
        let rows = gauges.rows();
        let row = rows.iter().find(|r| r.name == "api.event_readers").expect("listed");
        assert_eq!((row.now, row.hits), (Some(1), Some(1)));
    }

    #[test]
    fn one_client_that_reads_events_leaves_others_their_places() {
        let mut limits = Limits::default();
        limits.set("api.event_readers", "4").expect("in range");
        limits.set("api.event_readers_of_client", "2").expect("in range");
        let gauges = Gauges::new(limits);
        let of = |client: Option<&str>| gauges.reader(client.map(str::to_owned)).ok();
        let held = [of(Some("a")), of(Some("a"))];
        assert!(held.iter().all(Option::is_some) && of(Some("a")).is_none(), "it has as many as it may");
        let others = [of(Some("b")), of(None)];
        assert!(others.iter().all(Option::is_some), "others have theirs");
        assert!(of(Some("c")).is_none(), "there are no more at all");
        drop(held);
        assert!(of(Some("a")).is_some());
        let hits: Vec<_> = gauges.rows().into_iter().filter(|row| row.name.contains("readers")).collect();
        assert_eq!((hits[0].hits, hits[1].hits), (Some(1), Some(1)), "{hits:?}");
    }
}
