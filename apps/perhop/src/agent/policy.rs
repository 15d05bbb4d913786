//! The policy of the router's domain, beside the agent: what the controller wants of the router is kept in a journal, the router
//! is made to have it, and the controller is told how that stands.

use super::domain::{Attempts, REPORT, SILENCE, client};
use super::finder::Finder;
use super::link::Link;
use crate::error::AppError;
use crate::output::{Output as Stdout, progress};
use crate::reserve::encoded;
use perhop_agent::{Notice as OfSession, Output as ToRouter};
use perhop_allocate::{Random, SplitMix64};
use perhop_bandwidth::{ControllerSettings, DomainPolicy, Output as Request};
use perhop_drive::{
    Backoff, Broken, Connection, Connector, Driven, Inlet, Keeping, Machine, Over, RuntimeTimer, channel,
    keep, outlet, run,
};
use perhop_io::clock;
use perhop_model::ErrorItem;
use perhop_policy::feed::{Assembler, Fed, FeedNews, Mark};
use perhop_policy::reconcile::{Input, Known, News, Notice, Output, PolicyAgent, Said};
use perhop_reason::Code;
use perhop_serve::Method;
use perhop_serve::policy::RouterReport;
use perhop_store::{Entry, Journal, Limits};
use perhop_units::{Duration, Instant};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// Inputs that wait for the machine at most, and requests for the router.
const WAITING: usize = 64;
/// How long the router is left alone when it is away, at first and at most.
const ROUTER_AWAY: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// The router is asked something this often at least.
const IDLE: Duration = Duration::from_secs(3);
/// Reports do not follow each other faster than this.
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(20);
/// A journal that cannot be written is tried again after this.
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);
/// A journal of a large router takes longer than other calls.
const JOURNAL_PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
/// What a journal has beside objects: how far it reaches, and of which node.
const REACHES: &str = "policy";

/// What the machine has to say to the controller.
type Reports = watch::Sender<RouterReport>;

/// The machine under its driver.
struct Live(PolicyAgent);

impl Machine for Live {
    type Input = Input;
    type Output = Output;

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.0.handle_input(now, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.0.next_wakeup()
    }

    fn tick() -> Input {
        Input::Tick
    }

    fn is_over(&self) -> bool {
        self.0.is_superseded()
    }
}

/// The same way to the router as the agent's.
struct PolicyFinder(Finder);
struct PolicyLink(Link);

impl Connector for PolicyFinder {
    type Connection = PolicyLink;

    async fn connect(&mut self) -> Result<PolicyLink, AppError> {
        self.0.connect().await.map(PolicyLink)
    }

    fn appeared(&self) -> Input {
        Input::Router(self.0.appeared())
    }

    fn gone(&self) -> Input {
        Input::Router(self.0.gone())
    }

    fn failed(&mut self, error: AppError) -> Result<(), AppError> {
        self.0.failed(error)
    }

    fn lost(&mut self, why: Broken<AppError>) {
        self.0.lost(why);
    }
}

impl Connection for PolicyLink {
    type Request = Request;
    type Input = Input;
    type Error = AppError;

    async fn send(&mut self, request: Request) -> Result<Option<Input>, AppError> {
        Ok(self.0.send(request).await?.map(Input::Router))
    }

    async fn listen(&mut self) -> Result<Input, AppError> {
        self.0.listen().await.map(Input::Router)
    }

    async fn keep_alive(&mut self) -> Result<(), AppError> {
        self.0.keep_alive().await
    }
}

/// Goes on from what the journal has, and follows the controller until the process ends.
///
/// # Errors
/// The journal cannot be used.
pub async fn start(
    policy: &DomainPolicy,
    controller: &ControllerSettings,
    router: Option<String>,
    file: &Path,
    (fence, as_json): (u64, bool),
) -> Result<(), AppError> {
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let own = || file.with_extension("policy");
    let path = policy.journal.as_ref().map_or_else(own, |name| folder.join(name));
    let (journal, kept) = Kept::open(path, &controller.node).await?;
    let now = clock::monotonic();
    let driven = Driven::new(Live(PolicyAgent::new(fence)), now);
    let (inlet, inputs) = channel(WAITING);
    let (to_router, requests) = outlet(WAITING);
    let (reports, reported) = watch::channel(RouterReport::default());
    let again = Arc::new(Notify::new());
    let mut random = SplitMix64::new(fence, 2);
    let keeping = Keeping {
        timer: RuntimeTimer,
        backoff: Backoff::new(ROUTER_AWAY[0], ROUTER_AWAY[1], move || random.bits()),
        idle: IDLE,
    };
    tokio::spawn(keep(PolicyFinder(Finder::of_policy(router)), requests, inlet.clone(), keeping));
    tokio::spawn(machine(driven, inputs, to_router, reports.clone(), again.clone(), as_json));
    tokio::spawn(report((controller.clone(), folder.clone()), reported));
    let follow = Follow { settings: controller.clone(), folder, journal, inlet, reports, again };
    tokio::spawn(follow.run(kept, fence));
    Ok(())
}

// ---- the machine

async fn machine(
    mut driven: Driven<Live>,
    mut inputs: perhop_drive::Inputs<Input>,
    router: perhop_drive::Outlet<Request>,
    reports: Reports,
    again: Arc<Notify>,
    as_json: bool,
) {
    let mut in_force = 0;
    let handle = |_, output| {
        match output {
            // Sessions come and go without a word.
            Output::Router(ToRouter::Say(Said::Policy(Notice::Converged { edition, .. })))
                if std::mem::replace(&mut in_force, edition) == edition => {}
            Output::Router(ToRouter::Say(said)) => {
                if let Said::Session(OfSession::Superseded { error }) = &said {
                    reports.send_modify(|report| {
                        (report.converged, report.last_error) = (false, Some(error.clone()));
                    });
                }
                say(&said, as_json);
            }
            Output::Router(ToRouter::Claim(claim)) => router.offer(Request::Claim(claim)),
            Output::Router(ToRouter::ReadObjects(kinds)) => router.offer(Request::ReadObjects(kinds)),
            Output::Router(ToRouter::ReadClasses) => router.offer(Request::ReadClasses),
            Output::Router(ToRouter::Submit(transaction)) => router.offer(Request::Submit(transaction)),
            Output::Stands { report, epoch } => drop(reports.send_replace(RouterReport::of(report, epoch))),
            Output::NotTaken(why) => {
                progress(format_args!("the policy is asked for again: {why}"));
                again.notify_one();
            }
        }
        Ok::<_, Infallible>(None)
    };
    let Ok(_) = run(&mut driven, &mut inputs, &RuntimeTimer, std::future::pending::<()>(), handle).await;
}

fn say(said: &Said, as_json: bool) {
    let (json, words) = match said {
        Said::Session(OfSession::Refused { .. }) => return,
        Said::Session(OfSession::Superseded { error }) => (
            json!({ "superseded": { "error": error } }),
            format!("the policy of the domain is not followed any more: {}", error.message),
        ),
        Said::Policy(Notice::Converged { edition, seq }) => (
            json!({ "converged": { "edition": edition, "seq": seq } }),
            format!("edition {edition} of the policy is in force"),
        ),
        Said::Policy(Notice::Drift { objects }) => (
            json!({ "drift": { "objects": objects } }),
            format!("{objects} objects of the policy were changed by somebody else, and are put right"),
        ),
        Said::Policy(Notice::Quarantined(held)) => (
            json!({ "quarantined": { "object": held.key, "error": held.error } }),
            format!("the policy's {} is refused, and tried again later: {}", held.key, held.error.message),
        ),
    };
    if !as_json {
        return progress(words);
    }
    let mut out = Stdout::new();
    // Nobody may read it any more.
    let _ = out.json(&json!({ "policy": json })).and_then(|()| out.flush());
}

// ---- what is kept

/// A journal with the names that are in it.
struct Kept {
    journal: Journal,
    path: PathBuf,
    node: String,
    names: BTreeSet<String>,
}

impl Kept {
    /// Opens it; what it has of this node.
    async fn open(path: PathBuf, node: &str) -> Result<(Self, Option<(Mark, Known)>), AppError> {
        let unusable = |source| AppError::PolicyJournal { path: path.clone(), source };
        let limits = Limits { call: JOURNAL_PATIENCE, ..Limits::default() };
        let mut journal = Journal::open(&path, limits).await.map_err(unusable)?;
        let (_, rows) = journal.load().await.map_err(unusable)?;
        let names = rows.iter().map(|row| row.name.clone()).collect();
        let known = known(rows.into_iter().map(|row| (row.name, row.value)), node);
        let this = Self { journal, path, node: node.to_owned(), names };
        Ok((this, known))
    }

    /// Writes news and how far they reach; waits until they can be written.
    async fn write(&mut self, news: &News, mark: &Mark, reports: &Reports) {
        let mut entries: Vec<Entry> = Vec::new();
        let reach = json!({ "node": self.node, "reaches": mark });
        match news {
            News::Whole(known) => {
                let mut gone = std::mem::take(&mut self.names);
                for (key, spec) in &known.wanted {
                    let name = format!("{}/{}", key.kind, key.name);
                    gone.remove(&name);
                    entries.push(Entry { name, value: serde_json::to_value(spec).ok() });
                }
                entries.extend(gone.into_iter().map(|name| Entry { name, value: None }));
            }
            News::Changes { changes, .. } => {
                let entry = |(key, spec): &(perhop_model::Key, Option<_>)| Entry {
                    name: format!("{}/{}", key.kind, key.name),
                    value: spec.as_ref().and_then(|spec| serde_json::to_value(spec).ok()),
                };
                entries.extend(changes.iter().map(entry));
            }
        }
        entries.push(Entry { name: REACHES.to_owned(), value: Some(reach) });
        let mut complained = false;
        while let Err(error) = self.journal.write(&entries).await {
            if !std::mem::replace(&mut complained, true) {
                let why = format!(
                    "{}: nothing new of the policy is taken until it can be written: {error}",
                    self.path.display()
                );
                progress(&why);
                reports.send_modify(|report| {
                    report.last_error = Some(ErrorItem::new(Code::BackendFailed, "journal", why));
                });
            }
            tokio::time::sleep(RETRY).await;
        }
        for entry in entries {
            match entry.value {
                Some(_) => drop(self.names.insert(entry.name)),
                None => drop(self.names.remove(&entry.name)),
            }
        }
    }
}

/// What rows of a journal come to; none if they are of another node, or none that this program has written.
fn known(rows: impl Iterator<Item = (String, Value)>, node: &str) -> Option<(Mark, Known)> {
    let mut known = Known::default();
    let mut reaches: Option<Mark> = None;
    for (name, value) in rows {
        if name == REACHES {
            if value["node"] != node {
                return None;
            }
            reaches = serde_json::from_value(value["reaches"].clone()).ok();
            continue;
        }
        let (kind, name) = name.split_once('/')?;
        let fed = json!({ "kind": kind, "name": name, "spec": value });
        let (key, spec) = serde_json::from_value::<Fed>(fed).ok()?.read().ok()?;
        known.wanted.insert(key, spec?);
    }
    let mark = reaches?;
    (known.seq, known.edition) = (mark.seq, mark.edition);
    Some((mark, known))
}

// ---- the controller

struct Follow {
    settings: ControllerSettings,
    folder: PathBuf,
    journal: Kept,
    inlet: Inlet<Input>,
    reports: Reports,
    again: Arc<Notify>,
}

impl Follow {
    async fn run(mut self, kept: Option<(Mark, Known)>, seed: u64) {
        let mut assembler = Assembler::new(Mark::default());
        if let Some((mark, known)) = kept {
            progress(format_args!("edition {} of the policy is known from before", mark.edition));
            assembler = Assembler::new(mark);
            if self.inlet.send(Input::News(News::Whole(known))).await.is_err() {
                return;
            }
        }
        let mut attempts = Attempts::new(seed, 3, "the policy of the domain");
        loop {
            let mut heard = false;
            assembler.interrupt();
            let why = match self.converse(&mut assembler, &mut heard).await {
                Ok(Some(Over)) => return,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            attempts.ended(heard, why).await;
        }
    }

    /// One conversation, until its end or that of the machine.
    async fn converse(
        &mut self,
        assembler: &mut Assembler,
        heard: &mut bool,
    ) -> Result<Option<Over>, AppError> {
        let Mark { seq, edition, sha256 } = assembler.have();
        let node = encoded(&self.settings.node);
        let uri = format!("/v1/policy/routers/{node}/wanted?seq={seq}&edition={edition}&sha256={sha256}");
        let mut followed = client(&self.settings, &self.folder)?.follow(&uri, Some(SILENCE)).await?;
        loop {
            let line = tokio::select! {
                line = followed.next() => line?,
                () = self.again.notified() => {
                    *assembler = Assembler::new(Mark::default());
                    return Ok(None);
                }
            };
            let Some(line) = line else { return Ok(None) };
            *heard = true;
            let news: FeedNews = serde_json::from_str(&line).map_err(AppError::BadAnswer)?;
            let complete = match assembler.take(news) {
                Ok(complete) => complete,
                Err(why) => {
                    // All of it is asked for next.
                    *assembler = Assembler::new(Mark::default());
                    return Err(AppError::Refused(why.to_string()));
                }
            };
            let Some(news) = complete else { continue };
            self.journal.write(&news, assembler.have(), &self.reports).await;
            if let Err(over) = self.inlet.send(Input::News(news)).await {
                return Ok(Some(over));
            }
        }
    }
}

/// Tells the controller how the router stands, whenever that changes, and from time to time.
async fn report(
    (settings, folder): (ControllerSettings, PathBuf),
    mut reports: watch::Receiver<RouterReport>,
) {
    let uri = format!("/v1/policy/routers/{}/report", encoded(&settings.node));
    loop {
        if let Ok(Err(_)) = tokio::time::timeout(REPORT, reports.changed()).await {
            return;
        }
        let report = reports.borrow_and_update().clone();
        if report.seq > 0 || report.last_error.is_some() {
            let Ok(client) = client(&settings, &folder) else { continue };
            // A controller that is away is told again.
            let _ = client.send(Method::POST, &uri, Some(&json!(report))).await;
        }
        tokio::time::sleep(BETWEEN).await;
    }
}
