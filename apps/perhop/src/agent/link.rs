//! The agent's way to its router: what it wants done, as requests to the router's socket.

use crate::error::AppError;
use crate::remote::Remote;
use perhop_agent::{AgentFile, ClassReading, Readings, Router, flows_of_row};
use perhop_io::clock;
use perhop_model::{Claim, ErrorItem, Name, Reply, ShowPage, ShowRow, StatePage, StateQuery, Transaction};
use perhop_units::Instant;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A router that has not answered by then is gone: what its classes have stays in force meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most rows the router gives at once.
const ROWS: usize = 1_000_000;

/// A router that answers.
pub struct Link {
    remote: Remote,
    /// Whether classes are read, and whether policies.
    reads: (bool, bool),
}

impl Link {
    /// Finds the router and asks it something, to see that it answers. Read is what the agent of `file` needs. No answer is
    /// waited for once `stop` is set.
    ///
    /// # Errors
    /// It is not there.
    pub fn open(router: Option<&str>, file: &AgentFile, stop: &Arc<AtomicBool>) -> Result<Self, AppError> {
        let remote = Remote::find_until(router, PATIENCE, stop)?;
        remote.read("/v1/state?limit=1")?.accepted::<StatePage>()?;
        let reads = (file.measured().next().is_some(), !file.bandwidth.links.is_empty());
        Ok(Self { remote, reads })
    }

    /// The router's socket.
    pub fn path(&self) -> &Path {
        self.remote.path()
    }

    fn show(&self, what: &str) -> Result<ShowPage, AppError> {
        self.remote.read(&format!("/v1/show?what={what}&limit={ROWS}"))?.accepted()
    }
}

impl Router for Link {
    type Error = AppError;

    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, AppError> {
        let answer = self.remote.post("/v1/claim", &claim)?;
        if answer.ok {
            return Ok(Ok(()));
        }
        let refused = serde_json::from_value::<ErrorItem>(answer.body["errors"][0].clone());
        refused.map(Err).map_err(AppError::BadAnswer)
    }

    fn page(&mut self, query: &StateQuery) -> Result<StatePage, AppError> {
        let mut uri = "/v1/state?".to_owned();
        for (key, value) in [
            ("kind", query.kind.map(|kind| kind.to_string())),
            ("limit", query.limit.map(|limit| limit.to_string())),
            ("cursor", query.cursor.clone()),
        ] {
            uri.extend(value.map(|value| format!("{key}={value}&")));
        }
        self.remote.read(uri.trim_end_matches('&'))?.accepted()
    }

    fn readings(&mut self) -> Result<Readings, AppError> {
        let policies = if self.reads.1 { Some(self.show("abr-policies")?) } else { None };
        let classes = if self.reads.0 || !self.reads.1 { Some(self.show("classes")?) } else { None };
        let rows = |page: &Option<ShowPage>| page.as_ref().map_or_else(Vec::new, |page| page.rows.clone());
        let class =
            |row: ShowRow| Some((Name::new(&row.name).ok()?, ClassReading::of_counters(&row.counters)));
        let policy = |row: ShowRow| flows_of_row(&row.kind, &row.name, &row.counters);
        let readings = (
            rows(&classes).into_iter().filter_map(class).collect(),
            rows(&policies).into_iter().filter_map(policy).collect(),
        );
        // One of the two was read.
        let (epoch, revision, at_ns) = classes
            .or(policies)
            .map_or_else(Default::default, |page| (page.epoch, page.revision, page.at_ns));
        // Agent and router read the same clock of this machine.
        let at = Instant(at_ns).min(clock::monotonic());
        Ok(Readings { epoch, revision, at, classes: readings.0, policies: readings.1 })
    }

    fn submit(&mut self, transaction: Transaction) -> Result<Reply, AppError> {
        let answer = self.remote.post("/v1/transactions", &transaction)?;
        serde_json::from_value(answer.body).map_err(AppError::BadAnswer)
    }
}
