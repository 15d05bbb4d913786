//! What an agent is told: what has changed behind what it has, or all of it, and then what changes.

use super::machine::{Begin, Told};
use super::{NotDone, Policies};
use perhop_model::Name;
use perhop_policy::compile::objects;
use perhop_policy::feed::{Fed, FeedNews, Mark, PIECE};
use perhop_policy::record::FeedRow;
use perhop_reason::Code;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Changes elsewhere of which an agent is told at once.
const FAR: u64 = 10_000;

/// What is still to be told of a router, and what comes then.
pub struct PolicyFollower {
    policies: Policies,
    router: Name,
    /// What the agent has, or has once it has taken what waits.
    have: Mark,
    /// The last change that was looked at: none behind what the agent has is for it. None = nothing was told yet.
    reach: Option<u64>,
    waiting: VecDeque<FeedNews>,
    news: broadcast::Receiver<Arc<Told>>,
}

impl PolicyFollower {
    pub(super) async fn begin(policies: Policies, router: &str, have: Mark) -> Result<Self, NotDone> {
        // A name that is none is of no router: it is to have nothing.
        let router = Name::new(router).map_err(|_| NotDone::Other)?;
        let begin = policies.begin(&router, have.clone()).await?;
        let (waiting, news) = (VecDeque::new(), begin.news.resubscribe());
        let mut this = Self { policies, router, have, reach: None, waiting, news };
        this.catch_up(begin).await?;
        Ok(this)
    }

    /// The next piece; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<FeedNews> {
        loop {
            if let Some(news) = self.waiting.pop_front() {
                return Some(news);
            }
            match self.news.recv().await {
                Ok(told) if self.reach.is_some_and(|reach| told.mark.seq <= reach) => {}
                Ok(told) if self.reach == Some(told.after) => self.hear(&told),
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    let begin = self.policies.begin(&self.router, self.have.clone()).await.ok()?;
                    self.catch_up(begin).await.ok()?;
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// What changes elsewhere alone is told now and then, so that an agent that was away is not too far behind.
    fn hear(&mut self, told: &Told) {
        self.reach = Some(told.mark.seq);
        let fed = told.of.get(&self.router).cloned().unwrap_or_default();
        let is_far = told.mark.seq - self.have.seq >= FAR;
        if !fed.is_empty() || told.mark.edition != self.have.edition || is_far {
            self.put(Some(self.have.seq), fed, told.mark.clone());
        }
    }

    /// Has what is needed wait: nothing before there was an edition, as a domain without a policy wants nothing of anybody.
    async fn catch_up(&mut self, begin: Begin) -> Result<(), NotDone> {
        let Begin { in_force, knows, mut present, news } = begin;
        self.news = news;
        let mark = in_force.mark.clone();
        if mark.edition == 0 {
            return Ok(());
        }
        if knows {
            let behind = self.have.seq;
            let feed = self.policies.keeper.feed(&self.router, behind, mark.seq).await;
            if let Some(rows) = feed.map_err(NotDone::NotKept)? {
                self.put(Some(behind), latest(&rows), mark);
                return Ok(());
            }
            present = self.policies.present(&self.router).await?;
        }
        let router = self.router.clone();
        let all = tokio::task::spawn_blocking(move || {
            let wanted = objects(&in_force.policy, &router, &present);
            wanted.iter().map(|(key, spec)| Fed::of(key, Some(spec))).collect()
        });
        let failed = |_| {
            NotDone::NotKept(crate::domain::NotKept {
                code: Code::BackendFailed,
                retry_after_ms: Some(1_000),
                message: "the objects of the router could not be computed".to_owned(),
            })
        };
        self.put(None, all.await.map_err(failed)?, mark);
        Ok(())
    }

    fn put(&mut self, after: Option<u64>, fed: Vec<Fed>, mark: Mark) {
        self.waiting.push_back(FeedNews::Begin { after });
        let mut fed = fed.into_iter();
        loop {
            let piece: Vec<Fed> = fed.by_ref().take(PIECE).collect();
            if piece.is_empty() {
                break;
            }
            self.waiting.push_back(FeedNews::Objects(piece));
        }
        self.waiting.push_back(FeedNews::End(mark.clone()));
        self.reach = Some(mark.seq);
        self.have = mark;
    }
}

/// Of each object the last of its rows.
fn latest(rows: &[FeedRow]) -> Vec<Fed> {
    let mut last = BTreeMap::new();
    for row in rows {
        last.insert((&row.kind, &row.name), row);
    }
    last.into_values().filter_map(FeedRow::object).collect()
}
