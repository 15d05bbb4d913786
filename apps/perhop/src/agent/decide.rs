//! What is decided beside the router: the machine's driver. What it keeps is in a journal before anybody is answered.

use super::ask::{Asker, Decided};
use super::file::LiveFile;
use crate::controller::told;
use crate::error::AppError;
use crate::output::progress;
use perhop_agent::{DomainNews, Input};
use perhop_bandwidth::{ControllerSettings, LeaseSettings};
use perhop_broker::lease::{Ask, Decision, InRouter, Input as OfLease, LeaseId};
use perhop_drive::{Inlet, RuntimeTimer, Timer};
use perhop_io::clock;
use perhop_serve::controller::{LeaseAsk, LeaseHas};
use perhop_serve::cops::{Decides, LocalDecisions};
use perhop_serve::decisions::{
    DecidedClass, DecidedHere, Decider, Decisions, DecisionsApp, Keep, Question, Wish,
};
use perhop_serve::{Limits, claim_at, decisions_path};
use perhop_store::{Entry, Journal};
use perhop_units::Instant;
use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// Questions that wait to be decided at most, and as many are kept with one write.
const WAITING: usize = 1_024;
/// News of the controller that wait at most.
const NEWS: usize = 64;
/// A journal, or a socket, that cannot be had is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// What is decided here, as the agent's other tasks see it.
pub struct Deciding {
    /// Takes what became of wants in the router. There is one at most of each class.
    pub in_router: mpsc::UnboundedSender<InRouter>,
    /// Takes what the controller says of leases.
    pub news: mpsc::Sender<DomainNews>,
    /// Takes the socket of the router once it is known: beside it is the door.
    pub found: oneshot::Sender<PathBuf>,
    /// Doors for COPS.
    pub doors: Doors,
}

/// Doors for COPS that are open.
pub struct Doors {
    stop: watch::Sender<bool>,
    serving: JoinSet<()>,
}

impl Doors {
    /// Opens them all.
    fn open(file: &LiveFile, decisions: &Decisions) -> Result<Self, AppError> {
        let (decisions, clients) = (decisions.clone(), Arc::new(file.clients.clone()));
        let decides: Arc<dyn Decides> = Arc::new(LocalDecisions { decisions, clients });
        let (stop, mut serving) = (watch::Sender::new(false), JoinSet::new());
        for cops in &file.cops {
            let (door, what) = cops.open(Arc::clone(&decides), &mut Vec::new())?;
            progress(what);
            serving.spawn(door.run(told(stop.subscribe())));
        }
        Ok(Self { stop, serving })
    }

    /// Tells clients that they are closed. What was admitted stands.
    pub async fn close(self) {
        self.stop.send_replace(true);
        self.serving.join_all().await;
    }
}

/// Opens the journal, goes on from there, and decides until the agent is over. `first` is above the number of every question before.
///
/// # Errors
/// The journal cannot be used.
pub async fn start(
    leases: &LeaseSettings,
    controller: &ControllerSettings,
    (path, file): (&Path, &LiveFile),
    inlet: Inlet<Input>,
    first: u64,
) -> Result<Deciding, AppError> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let own = || path.with_extension("journal");
    let path = leases.journal.as_ref().map_or_else(own, |name| folder.join(name));
    let unusable = |source| AppError::Journal { path: path.clone(), source };
    let mut journal = Journal::open(&path, Default::default()).await.map_err(unusable)?;
    let (_, kept) = journal.load().await.map_err(unusable)?;
    let class =
        |class: &perhop_bandwidth::LeasedClass| DecidedClass { to: class.to.clone(), dscp: class.dscp };
    let here = DecidedHere {
        node: controller.node.clone(),
        leases: leases.leases.clone(),
        classes: leases.classes.iter().map(|(name, of)| (name.clone(), class(of))).collect(),
    };
    let kept = kept.into_iter().map(|kept| (kept.name, kept.value));
    let (now, day) = (clock::monotonic(), clock::real_minus_monotonic());
    let decider = Decider::new(here, first, day, now, kept).map_err(AppError::Leases)?;
    let (in_router, answers) = mpsc::unbounded_channel();
    let (news, heard) = mpsc::channel(NEWS);
    let (found, router) = oneshot::channel();
    let (decisions, questions) = Decisions::new(WAITING);
    let doors = Doors::open(file, &decisions)?;
    let app = DecisionsApp::new(decisions.clone(), Limits::default());
    tokio::spawn(door(router, app));
    let (asker, decided) = Asker::new(controller.clone(), folder);
    let asked = BTreeMap::new();
    let driver = Driver { decider, journal, path, inlet, asker, asked, decisions };
    tokio::spawn(driver.run(questions, heard, answers, decided));
    Ok(Deciding { in_router, news, found, doors })
}

struct Driver {
    decider: Decider,
    journal: Journal,
    path: PathBuf,
    inlet: Inlet<Input>,
    asker: Asker,
    /// Leases that are being asked about, by name.
    asked: BTreeMap<String, LeaseId>,
    decisions: Decisions,
}

impl Driver {
    async fn run(
        mut self,
        mut questions: mpsc::Receiver<Question>,
        mut news: mpsc::Receiver<DomainNews>,
        mut in_router: mpsc::UnboundedReceiver<InRouter>,
        mut decided: mpsc::Receiver<Decided>,
    ) {
        loop {
            if self.carry_out().await.is_none() {
                return;
            }
            let due = self.decider.next_wakeup().unwrap_or(Instant::FAR_FUTURE);
            let question = tokio::select! {
                Some(question) = questions.recv() => Some(question),
                Some(news) = news.recv() => self.of_domain(news).map(Question::Lease),
                Some(answer) = in_router.recv() => Some(Question::Lease(answer.into())),
                Some(decided) = decided.recv() => {
                    self.decided(decided).map(|decision| Question::Lease(OfLease::Decision(decision)))
                }
                () = RuntimeTimer.until(due) => Some(Question::Lease(OfLease::Tick)),
            };
            let Some(question) = question else { continue };
            self.decider.handle_input(clock::monotonic(), question);
            for _ in 1..WAITING {
                let Ok(question) = questions.try_recv() else { break };
                self.decider.handle_input(clock::monotonic(), question);
            }
        }
    }

    fn ask(&mut self, name: String, ask: Ask) {
        let Ask { lease, number, bps, lifetime } = ask;
        let body = LeaseAsk {
            to: lease.to.clone().unwrap_or_default(),
            port: None,
            class: lease.class.clone(),
            bps,
            number,
            lifetime_ms: Some(lifetime.as_nanos() / 1_000_000),
        };
        self.asked.insert(name.clone(), lease);
        self.asker.ask(name, body);
    }

    fn decided(&mut self, decided: Decided) -> Option<Decision> {
        let (name, (LeaseHas { number, bps: has }, refused)) = self.asker.done(decided)?;
        let lease = if self.asker.is_asking(&name) {
            self.asked.get(&name)?.clone()
        } else {
            self.asked.remove(&name)?
        };
        Some(Decision { lease, number, has, refused })
    }

    fn of_domain(&self, news: DomainNews) -> Option<OfLease> {
        match news {
            DomainNews::Begin => Some(OfLease::Back),
            DomainNews::Away => Some(OfLease::Lost),
            DomainNews::Lease { name, number, bps } => self.decider.reduced(&name, number, bps),
            _ => None,
        }
    }

    /// Keeps what is to be kept, and then does what is wanted. `None`: the agent is over.
    async fn carry_out(&mut self) -> Option<()> {
        let entry = |Keep { name, value }| Entry { name, value };
        let entries: Vec<Entry> = self.decider.take_kept().into_iter().map(entry).collect();
        let mut complained = false;
        while !entries.is_empty()
            && let Err(error) = self.journal.write(&entries).await
        {
            if !std::mem::replace(&mut complained, true) {
                progress(format_args!(
                    "{}: nothing is decided until it can be written: {error}",
                    self.path.display()
                ));
            }
            tokio::time::sleep(RETRY).await;
        }
        while let Some(wish) = self.decider.poll_wish() {
            match wish {
                Wish::Ask(name, ask) => self.ask(name, ask),
                Wish::Want { class, number, bps } => {
                    self.inlet.send(Input::Leased { class, number, bps }).await.ok()?;
                }
                Wish::News(news) => self.inlet.send(Input::Domain(news)).await.ok()?,
                // Who has gone away is not answered.
                Wish::Answer(done, result) => drop(done.send(*result)),
                Wish::Released(done) => drop(done.send(Ok(()))),
                Wish::Gone(id, code) => self.decisions.tell_gone(id, code),
            }
        }
        Some(())
    }
}

/// Serves clients beside the router's socket, once it is known.
async fn door(router: oneshot::Receiver<PathBuf>, app: DecisionsApp) {
    let Ok(router) = router.await else { return };
    let path = decisions_path(&router);
    let mut complained = false;
    loop {
        let at = path.clone();
        let claimed = tokio::task::spawn_blocking(move || claim_at(&at)).await;
        let Ok(claimed) = claimed else { return };
        let served = match claimed {
            Ok(claimed) => match app.at(&claimed) {
                Ok(server) => server.run(pending()).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = served
            && !std::mem::replace(&mut complained, true)
        {
            progress(format_args!("nobody can ask for decisions beside the router's socket: {error}"));
        }
        tokio::time::sleep(RETRY).await;
    }
}
