//! The task of a policy: its editions, and the database behind them.

use super::Policies;
use super::machine::{Desk, Do, Edition, Question, ToWrite, What, Written};
use super::users::ToKeep;
use crate::domain::{NotKept, WallTimer};
use perhop_drive::{Driven, End, Inputs, channel, run};
use perhop_io::clock;
use perhop_model::Name;
use perhop_policy::diff::{ObjectChange, object_changes};
use perhop_policy::edition::Input;
use perhop_policy::model::Policy;
use perhop_policy::record::{FeedRow, PolicyGroup, PolicyKept, StatusRow, feed_of};
use perhop_policy::session::Zone;
use perhop_reason::Code;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Questions that wait for the policy at most; who has another waits.
const WAITING: usize = 4_096;
/// Editions that somebody who follows may be behind; who is further begins again from the database.
const NEWS: usize = 16;

/// What a database gives later.
pub type Promise<'a, T> = Pin<Box<dyn Future<Output = Result<T, NotKept>> + Send + 'a>>;

/// A database that keeps a policy.
pub trait PolicyKeeper: Send + Sync + 'static {
    /// Writes a group whole or not at all, and knows which.
    fn write(&self, group: PolicyGroup) -> Promise<'_, ()>;

    /// The policy of an edition; none = there is no such edition.
    fn load(&self, edition: u64) -> Promise<'_, Option<Policy>>;

    /// What the feed has for a router behind one number and up to another; none = not all of that is kept any more.
    fn feed(&self, router: &Name, after: u64, upto: u64) -> Promise<'_, Option<Vec<FeedRow>>>;

    /// Writes how routers stand.
    fn statuses(&self, fence: u64, rows: Vec<StatusRow>) -> Promise<'_, ()>;
}

/// A policy that can be looked after.
pub struct PolicyTask {
    driven: Driven<Desk>,
    inputs: Inputs<Question>,
    policies: Policies,
    fence: u64,
    say: Arc<dyn Fn(&NotKept) + Send + Sync>,
}

impl Policies {
    /// Begins with what a database has, as the leader of a fence, where the time of day is that of a zone; what it cannot write is told to `say`.
    pub fn load(
        fence: u64,
        kept: PolicyKept,
        zone: Zone,
        keeper: Arc<dyn PolicyKeeper>,
        say: impl Fn(&NotKept) + Send + Sync + 'static,
    ) -> (Self, PolicyTask) {
        let now = clock::wall();
        let (news, _) = tokio::sync::broadcast::channel(NEWS);
        let (inlet, inputs) = channel(WAITING);
        let policies = Self { inlet, keeper };
        let driven = Driven::new(Desk::new(kept, zone, now, news), now);
        let task = PolicyTask { driven, inputs, policies: policies.clone(), fence, say: Arc::new(say) };
        (policies, task)
    }
}

impl PolicyTask {
    /// Looks after it until `stop` resolves or another instance leads; what was begun before is written first. `false`: another
    /// leads.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> bool {
        let mut under_way = JoinSet::new();
        let (policies, fence, say) = (self.policies.clone(), self.fence, Arc::clone(&self.say));
        let handle = |_, wanted| {
            while under_way.try_join_next().is_some() {}
            let (policies, say) = (policies.clone(), Arc::clone(&say));
            under_way.spawn(async move {
                let answer = match wanted {
                    Do::Write(write) => Some(Question::Written(written(&policies, fence, write, &say).await)),
                    Do::Load(edition) => {
                        let loaded = policies.keeper.load(edition).await;
                        let policy = loaded.inspect_err(|why| say(why)).ok().flatten().map(Box::new);
                        Some(Question::Editions(Input::Loaded { edition, policy }))
                    }
                    Do::Keep(rows) => {
                        // The next report of a router brings it again.
                        let _ = policies.keeper.statuses(fence, rows).await.inspect_err(|why| say(why));
                        None
                    }
                };
                if let Some(answer) = answer {
                    let _ = policies.inlet.send(answer).await;
                }
            });
            Ok::<_, Infallible>(None)
        };
        let Ok(end) = run(&mut self.driven, &mut self.inputs, &WallTimer, stop, handle).await;
        // What is on its way to the database gets there.
        while under_way.join_next().await.is_some() {}
        !matches!(end, End::Over)
    }
}

/// Computes what routers are to have because of an edition, and writes both.
async fn written(
    policies: &Policies,
    fence: u64,
    write: ToWrite,
    say: &Arc<dyn Fn(&NotKept) + Send + Sync>,
) -> Written {
    let (number, of_sessions) = match &write.what {
        What::Edition(edition) => (edition.group.number, false),
        What::Sessions(group, _) => (group.group, true),
    };
    // Of many routers and subscribers it takes a while.
    let made = tokio::task::spawn_blocking(move || group_of(fence, write)).await;
    let failed = |why: NotKept| {
        say(&why);
        Written { group: number, of_sessions, done: None, why: Some(why) }
    };
    let Ok((group, changes)) = made else {
        let message = "the objects of routers could not be computed".to_owned();
        return failed(NotKept { code: Code::BackendFailed, retry_after_ms: None, message });
    };
    let last = group.feed.last().map_or(0, |row| row.seq);
    match policies.keeper.write(group).await {
        Ok(()) => Written { group: number, of_sessions, done: Some((last, changes)), why: None },
        Err(why) => failed(why),
    }
}

fn group_of(fence: u64, ToWrite { seq, what }: ToWrite) -> (PolicyGroup, Vec<ObjectChange>) {
    match what {
        What::Edition(edition) => {
            let Edition { group, number, before: (before, was), after: (after, is) } = *edition;
            let changes = match Arc::ptr_eq(&before, &after) {
                true => Vec::new(),
                false => object_changes((&before, &was), (&after, &is)),
            };
            let feed = feed_of(seq, number, &changes);
            let group =
                PolicyGroup { fence, edition: number, changes: group.changes, sessions: Vec::new(), feed };
            (group, changes)
        }
        What::Sessions(ToKeep { changes: sessions, feed: changes, .. }, edition) => {
            let feed = feed_of(seq, edition, &changes);
            (PolicyGroup { fence, edition, changes: Vec::new(), sessions, feed }, changes)
        }
    }
}
