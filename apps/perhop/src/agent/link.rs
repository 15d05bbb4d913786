//! The agent's way to its router: what it wants done, as requests to the router's socket.

use crate::error::AppError;
use crate::remote::Remote;
use perhop_agent::{ClassReading, Readings, Router};
use perhop_io::clock;
use perhop_model::{Claim, ErrorItem, Name, Reply, StatePage, StateQuery, Transaction};
use perhop_serve::{ShowPage, ShowRow};
use perhop_units::Instant;

/// Most rows the router gives at once.
const ROWS: usize = 1_000_000;

/// A router that answers.
pub struct Link(Remote);

impl Link {
    /// Finds the router and asks it something, to see that it answers.
    ///
    /// # Errors
    /// It is not there.
    pub fn open(router: Option<&str>) -> Result<Self, AppError> {
        let remote = Remote::find(router)?;
        remote.read("/v1/state?limit=1")?.accepted::<StatePage>()?;
        Ok(Self(remote))
    }
}

impl Router for Link {
    type Error = AppError;

    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, AppError> {
        let answer = self.0.post("/v1/claim", &claim)?;
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
        self.0.read(uri.trim_end_matches('&'))?.accepted()
    }

    fn readings(&mut self) -> Result<Readings, AppError> {
        let page: ShowPage = self.0.read(&format!("/v1/show?what=classes&limit={ROWS}"))?.accepted()?;
        let row =
            |row: &ShowRow| Some((Name::new(&row.name).ok()?, ClassReading::of_counters(&row.counters)));
        // Agent and router read the same clock of this machine.
        let at = Instant(page.at_ns).min(clock::monotonic());
        let classes = page.rows.iter().filter_map(row).collect();
        Ok(Readings { epoch: page.epoch, revision: page.revision, at, classes })
    }

    fn submit(&mut self, transaction: Transaction) -> Result<Reply, AppError> {
        let answer = self.0.post("/v1/transactions", &transaction)?;
        serde_json::from_value(answer.body).map_err(AppError::BadAnswer)
    }
}
