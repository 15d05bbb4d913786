//! The agent's way to its router: one connection that is kept, and what the agent wants as requests on it.

use super::watch::Watch;
use crate::error::AppError;
use crate::remote::Answer;
use perhop_agent::{ClassReading, Input, Readings, flows_of_row};
use perhop_bandwidth::{AgentFile, Output};
use perhop_drive::Connection;
use perhop_io::clock;
use perhop_model::{Claim, ErrorItem, Kind, Name, Owner, Reply, ShowPage, ShowRow, StatePage};
use perhop_serve::{Client, ClientError, KeptConnection};
use perhop_units::Instant;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// A router that has not answered by then is gone: what its classes have stays in force meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most rows and objects the router gives at once.
const ROWS: usize = 1_000_000;
const OBJECTS: usize = 10_000;
/// A router that closes every connection is not asked more often than this whether it is there.
const PAUSE: Duration = Duration::from_millis(50);

/// What an agent reads of its router.
#[derive(Clone, Copy)]
pub struct Reads {
    classes: bool,
    pub(super) policies: bool,
    /// It is the policy of a domain that reads: of its own objects, and no counters.
    pub(super) policy: bool,
}

impl Reads {
    /// What the agent of a file needs.
    pub fn of(file: &AgentFile) -> Self {
        let policies = !file.bandwidth.links.is_empty();
        Self { classes: file.measured().next().is_some() || !policies, policies, policy: false }
    }

    /// What the policy of a domain needs.
    pub fn of_policy() -> Self {
        Self { classes: false, policies: false, policy: true }
    }

    /// Whose objects they are.
    pub(super) fn owner(self) -> Owner {
        if self.policy { perhop_policy::reconcile::owner() } else { Owner::Agent }
    }
}

/// A router that answers.
pub struct Link {
    client: Client,
    kept: KeptConnection,
    reads: Reads,
    /// Of the router.
    epoch: u64,
    watch: Watch,
    /// The revision up to which the agent knows everything that concerns it.
    known: u64,
}

impl Connection for Link {
    type Request = Output;
    type Input = Input;
    type Error = AppError;

    async fn send(&mut self, request: Output) -> Result<Option<Input>, AppError> {
        Ok(Some(match request {
            Output::Say(_) => return Ok(None),
            Output::Claim(claim) => {
                self.watch.has_fence(claim.fence);
                Input::Claimed(self.claim(&claim).await?)
            }
            Output::ReadObjects(kinds) => self.objects(&kinds).await?,
            Output::ReadClasses => Input::Readings(self.readings().await?),
            Output::Submit(transaction) => {
                let answer = self.ask("/v1/transactions", Some(serde_json::json!(transaction))).await?;
                let reply: Reply = serde_json::from_value(answer.body).map_err(AppError::BadAnswer)?;
                // What others have done in between may concern it.
                if reply.revision <= self.known + 1 {
                    self.known = self.known.max(reply.revision);
                }
                Input::Reply(reply)
            }
        }))
    }

    async fn listen(&mut self) -> Result<Input, AppError> {
        loop {
            let why = tokio::select! {
                why = self.kept.closed() => why,
                // What has changed is seen at once, and not with the next look.
                () = self.watch.news() => return Ok(Input::Touched),
            };
            self.reopen(why).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn keep_alive(&mut self) -> Result<(), AppError> {
        self.ask(PROBE, None).await.map(drop)
    }
}

/// A question that any router answers.
const PROBE: &str = "/v1/state?limit=1";

/// Sees that a router answers.
async fn epoch(kept: &mut KeptConnection) -> Result<u64, AppError> {
    let (status, body) = kept.read(PROBE).await?;
    Answer { ok: status.is_success(), body }.accepted::<StatePage>().map(|page| page.epoch)
}

impl Link {
    /// Connects to the router at a socket, and asks it something to see that it answers.
    ///
    /// # Errors
    /// It is not there.
    pub async fn open(path: &Path, reads: Reads) -> Result<Self, AppError> {
        let client = Client::new(path).waiting(PATIENCE);
        let mut kept = client.connect().await?;
        let epoch = epoch(&mut kept).await?;
        let watch = Watch::new(client.clone(), reads);
        Ok(Self { client, kept, reads, epoch, watch, known: 0 })
    }

    /// A router may close a connection on which nothing was asked for long. The same router is not gone by that.
    async fn reopen(&mut self, why: ClientError) -> Result<(), AppError> {
        let mut kept = self.client.connect().await?;
        if epoch(&mut kept).await? != self.epoch {
            return Err(why.into());
        }
        self.kept = kept;
        Ok(())
    }

    /// POST with a body, else GET. Asked once more when the connection ends meanwhile: claims and transactions have their
    /// numbers, and count once.
    async fn ask(&mut self, uri: &str, body: Option<Value>) -> Result<Answer, AppError> {
        let mut again = true;
        loop {
            let answer = match &body {
                Some(body) => self.kept.post(uri, body).await,
                None => self.kept.read(uri).await,
            };
            match answer {
                Err(why @ ClientError::Http { .. }) if std::mem::take(&mut again) => self.reopen(why).await?,
                answer => {
                    let (status, body) = answer?;
                    return Ok(Answer { ok: status.is_success(), body });
                }
            }
        }
    }

    async fn claim(&mut self, claim: &Claim) -> Result<Result<(), ErrorItem>, AppError> {
        let answer = self.ask("/v1/claim", Some(serde_json::json!(claim))).await?;
        if answer.ok {
            return Ok(Ok(()));
        }
        serde_json::from_value(answer.body["errors"][0].clone()).map(Err).map_err(AppError::BadAnswer)
    }

    /// All objects of some kinds, and the oldest revision that some of them are of.
    async fn objects(&mut self, kinds: &[Kind]) -> Result<Input, AppError> {
        let (mut objects, mut revision) = (Vec::new(), u64::MAX);
        let owner = self.reads.owner();
        for kind in kinds {
            // Of these there may be very many, and only its own are of interest.
            let only_own = self.reads.policy || matches!(kind, Kind::Profile | Kind::Filter);
            let own = if only_own { format!("&owner={owner}") } else { String::new() };
            let first = format!("/v1/state?kind={kind}&limit={OBJECTS}{own}");
            let mut next = Some(first.clone());
            while let Some(uri) = next {
                let page = self.ask(&uri, None).await?.accepted::<StatePage>()?;
                revision = revision.min(page.revision);
                objects.extend(page.objects);
                next = page.cursor.map(|cursor| format!("{first}&cursor={cursor}"));
            }
        }
        self.known = revision;
        Ok(Input::Objects { revision, objects })
    }

    async fn show(&mut self, what: &str, wanted: bool) -> Result<Option<ShowPage>, AppError> {
        if !wanted {
            return Ok(None);
        }
        self.ask(&format!("/v1/show?what={what}&limit={ROWS}"), None).await?.accepted().map(Some)
    }

    async fn readings(&mut self) -> Result<Readings, AppError> {
        if self.reads.policy {
            let page = self.ask(PROBE, None).await?.accepted::<StatePage>()?;
            let revision = self.watch.revision().map_or(page.revision, |own| own.max(self.known));
            let (classes, policies) = (Vec::new(), Vec::new());
            return Ok(Readings { epoch: page.epoch, revision, at: clock::monotonic(), classes, policies });
        }
        let policies = self.show("abr-policies", self.reads.policies).await?;
        let classes = self.show("classes", self.reads.classes).await?;
        // One of the two was read.
        let (epoch, revision, at_ns) = classes
            .as_ref()
            .or(policies.as_ref())
            .map_or_else(Default::default, |page| (page.epoch, page.revision, page.at_ns));
        // A revision of which nothing concerns the agent is none to it.
        let revision = self.watch.revision().map_or(revision, |concerning| concerning.max(self.known));
        // Agent and router read the same clock of this machine.
        let at = Instant(at_ns).min(clock::monotonic());
        let class =
            |row: ShowRow| Some((Name::new(&row.name).ok()?, ClassReading::of_counters(&row.counters)));
        let policy = |row: ShowRow| flows_of_row(&row.kind, &row.name, &row.counters);
        let rows = |page: Option<ShowPage>| page.into_iter().flat_map(|page| page.rows);
        let (classes, policies) =
            (rows(classes).filter_map(class).collect(), rows(policies).filter_map(policy).collect());
        Ok(Readings { epoch, revision, at, classes, policies })
    }
}
