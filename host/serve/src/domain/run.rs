//! The task of a domain: the ledger, and the database behind it.

use super::known::Known;
use super::machine::{Books, Question, Wish, failed};
use super::{Domain, Marks, News};
use perhop_broker::ledger::{Input, Ledger, LoadError, Settings};
use perhop_broker::record::{AuditRow, Group, Snapshot};
use perhop_drive::{Driven, End, Inputs, Timer, channel, run};
use perhop_io::clock;
use perhop_reason::Code;
use perhop_units::Instant;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, RwLock};

/// Questions that wait for the ledger at most; who has another waits.
const WAITING: usize = 16_384;
/// News that a listener may be behind.
const NEWS: usize = 65_536;

/// A database that keeps what is decided.
pub trait Keeper: Send + Sync + 'static {
    /// Writes a group whole or not at all, and knows which.
    fn write<'a>(&'a self, group: &'a Group) -> Writing<'a>;

    /// Rows of the audit log before a number, the latest first, at most so many.
    fn audit(
        &self,
        before: Option<u64>,
        most: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>>;
}

/// A group on its way.
pub type Writing<'a> = Pin<Box<dyn Future<Output = Result<(), NotKept>> + Send + 'a>>;

/// Why a database did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotKept {
    /// The reason.
    pub code: Code,
    /// When to try again, ms.
    pub retry_after_ms: Option<u64>,
    /// In words.
    pub message: String,
}

/// The clock of the wall, which the lives of reservations are told by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WallTimer;

impl Timer for WallTimer {
    fn now(&self) -> Instant {
        clock::wall()
    }

    async fn until(&self, at: Instant) {
        // A clock that is set meanwhile is noticed within a second.
        while self.now() < at {
            let pause = at.since(self.now()).to_std().min(std::time::Duration::from_secs(1));
            tokio::time::sleep(pause).await;
        }
    }
}

/// Resolves when a machine that lives by that clock wants to be woken, if it does.
pub(crate) async fn woken(at: Option<Instant>) {
    match at {
        Some(at) => WallTimer.until(at).await,
        None => std::future::pending().await,
    }
}

/// A domain that can be run.
pub struct DomainTask<K> {
    driven: Driven<Books>,
    inputs: Inputs<Question>,
    keeper: Arc<K>,
    domain: Domain,
    news: tokio::sync::broadcast::Sender<Arc<News>>,
    say: Box<dyn FnMut(&NotKept) + Send>,
}

impl Domain {
    /// Begins with what a database has; what it cannot write is told to `say`.
    ///
    /// # Errors
    /// The rows contradict each other.
    pub fn load<K: Keeper>(
        settings: Settings,
        snapshot: Snapshot,
        marks: Marks,
        keeper: Arc<K>,
        say: impl FnMut(&NotKept) + Send + 'static,
    ) -> Result<(Self, DomainTask<K>), LoadError> {
        let now = clock::wall();
        let ledger = Ledger::load(settings, snapshot, now)?;
        let known: Arc<RwLock<Known>> = Arc::default();
        let (news, _) = tokio::sync::broadcast::channel(NEWS);
        let books = Books::new(ledger, now, marks, news.clone(), Arc::clone(&known));
        let (inlet, inputs) = channel(WAITING);
        let domain = Self { inlet, known };
        let driven = Driven::new(books, now);
        let task = DomainTask { driven, inputs, keeper, domain: domain.clone(), news, say: Box::new(say) };
        Ok((domain, task))
    }
}

impl<K: Keeper> DomainTask<K> {
    /// Decides until `stop` resolves or another instance leads; what was decided before `stop` is written first. `false`: another leads.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> bool {
        let (results, mut written) = tokio::sync::mpsc::channel::<(Group, Result<(), NotKept>)>(1);
        let inlet = self.domain.inlet.clone();
        let keeper = Arc::clone(&self.keeper);
        let mut say = self.say;
        let back = async {
            while let Some((group, result)) = written.recv().await {
                let input = match result {
                    Ok(()) => Input::Written { number: group.number },
                    Err(why) => {
                        say(&why);
                        failed(group.number, why.code, why.retry_after_ms)
                    }
                };
                if inlet.send(Question::Ledger(input)).await.is_err() {
                    return;
                }
            }
        };
        let handle = |_, wish| {
            let Wish::Write(group) = wish;
            let (keeper, results) = (Arc::clone(&keeper), results.clone());
            tokio::spawn(async move {
                let result = keeper.write(&group).await;
                let _ = results.send((group, result)).await;
            });
            Ok::<_, Infallible>(None)
        };
        let timer = WallTimer;
        let leads = tokio::select! {
            end = run(&mut self.driven, &mut self.inputs, &timer, stop, handle) => {
                let Ok(end) = end;
                !matches!(end, End::Over)
            }
            () = back => true,
        };
        // What is on its way to the database gets there.
        drop(results);
        while written.recv().await.is_some() {}
        leads
    }

    /// What is told from the beginning on: nothing was told before [`DomainTask::run`].
    pub fn news(&self) -> tokio::sync::broadcast::Receiver<Arc<News>> {
        self.news.subscribe()
    }

    /// A handle of it.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}
