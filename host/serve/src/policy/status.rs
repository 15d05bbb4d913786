//! How routers stand to the policy, as their agents tell.

use perhop_model::{ErrorItem, Kind, Name};
use perhop_policy::reconcile::Report;
use perhop_policy::record::StatusRow;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An agent tells every ten seconds at least. One that has not for so long is not heard any more.
const UNHEARD_MS: u64 = 30_000;
/// Objects in quarantine that are told; the number of all is told beside them.
pub(super) const MOST_QUARANTINED: usize = 100;

/// An object that a router refuses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantinedObject {
    /// Kind.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Why.
    pub error: ErrorItem,
    /// How often it was refused.
    pub times: u32,
}

/// How a router stands to the policy, as its agent tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterReport {
    /// The last change that its agent has.
    pub seq: u64,
    /// The edition that it is of.
    pub edition: u64,
    /// The router has all of it but what is in quarantine.
    pub converged: bool,
    /// Objects that somebody else had changed, and that were put right again, since the agent began.
    #[serde(default)]
    pub drift: u64,
    /// Objects that the router refuses.
    #[serde(default)]
    pub quarantined: u64,
    /// Which; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantine: Vec<QuarantinedObject>,
    /// Filters that are not wanted because their profile or contract is not.
    #[serde(default)]
    pub orphans: u64,
    /// Why the router refused last, or what keeps the agent from its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ErrorItem>,
    /// The router's epoch.
    #[serde(default)]
    pub epoch: u64,
}

impl RouterReport {
    /// Of what a reconciler reports.
    pub fn of(report: Report, epoch: u64) -> Self {
        let quarantined = report.quarantined.len() as u64;
        let held = report.quarantined.into_iter().take(MOST_QUARANTINED).map(|held| QuarantinedObject {
            kind: held.key.kind,
            name: held.key.name,
            error: held.error,
            times: held.times,
        });
        Self {
            seq: report.seq,
            edition: report.edition,
            converged: report.converged,
            drift: report.drift,
            quarantined,
            quarantine: held.collect(),
            orphans: report.orphans,
            last_error: report.last_error,
            epoch,
        }
    }
}

/// How a router stands to the edition in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// The router.
    pub router: String,
    /// Whether the policy has it.
    pub wanted: bool,
    /// What its agent has told last; none = nothing yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<RouterReport>,
    /// When, ms since 1970 UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_ms: Option<u64>,
    /// Whether that was within the last half minute.
    pub heard: bool,
    /// Editions that it is behind.
    pub lag: u64,
    /// It has all of the edition in force but what it refuses.
    pub converged: bool,
    /// How long it took from when that was in force to its report, ms; none = it has not all of it, or had it before this
    /// instance led.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub converged_after_ms: Option<u64>,
}

#[derive(Clone, Debug)]
struct Told {
    report: RouterReport,
    at_ms: u64,
    converged_after_ms: Option<u64>,
    /// It is not in the database yet.
    dirty: bool,
}

/// The last report of each router, and since when the edition is in force that they are measured by.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    told: BTreeMap<String, Told>,
    /// Its number, and since when; none = since before this instance led.
    since: Option<(u64, u64)>,
}

impl Statuses {
    /// What a database has.
    pub(super) fn of(rows: Vec<StatusRow>) -> Self {
        let told = |row: StatusRow| {
            let read = |text: &str| serde_json::from_str(text).ok();
            let quarantine: Vec<QuarantinedObject> =
                serde_json::from_str(&row.quarantined).unwrap_or_default();
            let report = RouterReport {
                seq: row.seq,
                edition: row.edition,
                // What was so when it was told is not known to be so now.
                converged: false,
                drift: row.drift.parse().unwrap_or_default(),
                quarantined: quarantine.len() as u64,
                quarantine,
                orphans: 0,
                last_error: row.last_error.as_deref().and_then(read),
                epoch: row.epoch,
            };
            (row.router, Told { report, at_ms: row.reported_ms, converged_after_ms: None, dirty: false })
        };
        Self { told: rows.into_iter().map(told).collect(), since: None }
    }

    /// From now on routers are measured by this edition.
    pub(super) fn begin(&mut self, edition: u64, now_ms: u64) {
        self.since = Some((edition, now_ms));
        self.told.values_mut().for_each(|told| told.converged_after_ms = None);
    }

    pub(super) fn take(&mut self, router: String, mut report: RouterReport, now_ms: u64) {
        report.quarantine.truncate(MOST_QUARANTINED);
        let before = self.told.get(&router);
        let measured = self.since.filter(|(edition, _)| report.converged && report.edition == *edition);
        let converged_after_ms = before
            .and_then(|told| told.converged_after_ms)
            .or(measured.map(|(_, since_ms)| now_ms.saturating_sub(since_ms)));
        let dirty = before.is_none_or(|told| told.dirty || told.report != report);
        self.told.insert(router, Told { report, at_ms: now_ms, converged_after_ms, dirty });
    }

    /// What is not in the database yet; it is taken to be there from now on.
    pub(super) fn flush(&mut self) -> Vec<StatusRow> {
        let dirty = self.told.iter_mut().filter(|(_, told)| told.dirty);
        dirty
            .map(|(router, told)| {
                (router, {
                    told.dirty = false;
                    &*told
                })
            })
            .map(|(router, told)| StatusRow {
                router: router.clone(),
                seq: told.report.seq,
                edition: told.report.edition,
                epoch: told.report.epoch,
                drift: told.report.drift.to_string(),
                quarantined: json!(told.report.quarantine).to_string(),
                last_error: told.report.last_error.as_ref().map(|error| json!(error).to_string()),
                reported_ms: told.at_ms,
            })
            .collect()
    }

    /// How each of these routers, and each that has told, stands to an edition.
    pub(super) fn all<'a>(
        &self,
        wanted: impl Iterator<Item = &'a Name>,
        edition: u64,
        now_ms: u64,
    ) -> Vec<Standing> {
        let mut all: BTreeMap<&str, bool> = self.told.keys().map(|name| (name.as_str(), false)).collect();
        all.extend(wanted.map(|name| (name.as_str(), true)));
        let standing = |(router, wanted): (&str, bool)| {
            let told = self.told.get(router);
            let report = told.map(|told| told.report.clone());
            let heard = told.is_some_and(|told| now_ms.saturating_sub(told.at_ms) <= UNHEARD_MS);
            Standing {
                router: router.to_owned(),
                wanted,
                lag: edition.saturating_sub(report.as_ref().map_or(0, |report| report.edition)),
                converged: report
                    .as_ref()
                    .is_some_and(|report| report.converged && report.edition == edition),
                report,
                reported_ms: told.map(|told| told.at_ms),
                heard,
                converged_after_ms: told.and_then(|told| told.converged_after_ms),
            }
        };
        all.into_iter().map(standing).collect()
    }
}
