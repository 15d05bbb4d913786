use super::*;
use crate::domain::NotKept;
use perhop_model::{Key, Kind, Name};
use perhop_policy::diff::Rows;
use perhop_policy::edition::{Change, EditionState};
use perhop_policy::feed::{Assembler, FeedNews};
use perhop_policy::reconcile::{Known, News, Reconciler, owner};
use perhop_policy::record::{FeedRow, PolicyGroup, PolicyKept, StatusRow};
use perhop_policy::session::Zone;
use perhop_policy::validate::from_toml;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration as Pause;
use tokio::sync::oneshot;

/// A database in memory, which fails when it is told to.
#[derive(Default)]
struct Kept {
    groups: Mutex<Vec<PolicyGroup>>,
    statuses: Mutex<BTreeMap<String, StatusRow>>,
    fails: AtomicBool,
    /// The first number of the feed that is kept.
    oldest: AtomicU64,
}

impl Kept {
    fn policy_of(&self, edition: u64) -> Option<Policy> {
        let mut rows = Rows::new();
        let mut exists = false;
        for group in self.groups.lock().expect("nobody panicked").iter() {
            for change in &group.changes {
                match change {
                    Change::Policy { edition: of, change } if *of <= edition => {
                        let key = (change.section, change.name.clone());
                        match &change.spec {
                            Some(spec) => drop(rows.insert(key, spec.clone())),
                            None => drop(rows.remove(&key)),
                        }
                    }
                    Change::Edition(row) => exists |= row.n == edition,
                    Change::Policy { .. } => {}
                }
            }
        }
        exists.then(|| perhop_policy::diff::assemble(&rows).expect("rows of a policy"))
    }

    /// What another leader finds.
    fn kept(&self) -> PolicyKept {
        let groups = self.groups.lock().expect("nobody panicked").clone();
        let mut editions = BTreeMap::new();
        for change in groups.iter().flat_map(|group| &group.changes) {
            if let Change::Edition(row) = change {
                editions.insert(row.n, row.clone());
            }
        }
        let last = editions.values().next_back().cloned();
        let of = |n| self.policy_of(n).unwrap_or_default();
        PolicyKept {
            in_force: last.as_ref().map(|row| of(row.n)).unwrap_or_default(),
            fallback: last.filter(|row| row.state == EditionState::ToConfirm).map(|row| of(row.parent)),
            editions: editions.into_values().collect(),
            statuses: self.statuses.lock().expect("nobody panicked").values().cloned().collect(),
            sessions: Vec::new(),
            usage: Vec::new(),
            feed_seq: groups.last().and_then(|group| group.feed.last()).map_or(0, |row| row.seq),
        }
    }
}

impl PolicyKeeper for Kept {
    fn write(&self, group: PolicyGroup) -> Promise<'_, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.fails.load(Ordering::Relaxed) {
                let message = "the disk is full".to_owned();
                return Err(NotKept { code: Code::BackendFailed, retry_after_ms: Some(5_000), message });
            }
            let mut groups = self.groups.lock().expect("nobody panicked");
            let last = groups.last().and_then(|group| group.feed.last()).map_or(0, |row| row.seq);
            let numbers: Vec<u64> = group.feed.iter().map(|row| row.seq).collect();
            assert_eq!(
                numbers,
                (last + 1..=last + numbers.len() as u64).collect::<Vec<_>>(),
                "without a gap"
            );
            groups.push(group);
            Ok(())
        })
    }

    fn load(&self, edition: u64) -> Promise<'_, Option<Policy>> {
        Box::pin(async move { Ok(self.policy_of(edition)) })
    }

    fn feed(&self, router: &Name, after: u64, upto: u64) -> Promise<'_, Option<Vec<FeedRow>>> {
        let router = router.to_string();
        Box::pin(async move {
            if after + 1 < self.oldest.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let groups = self.groups.lock().expect("nobody panicked");
            let all = groups.iter().flat_map(|group| &group.feed);
            let own = all.filter(|row| row.seq > after && row.seq <= upto);
            Ok(Some(own.filter(|row| row.router == router || row.router == FeedRow::ALL).cloned().collect()))
        })
    }

    fn statuses(&self, _: u64, rows: Vec<StatusRow>) -> Promise<'_, ()> {
        Box::pin(async move {
            self.statuses
                .lock()
                .expect("nobody panicked")
                .extend(rows.into_iter().map(|row| (row.router.clone(), row)));
            Ok(())
        })
    }
}

struct Running {
    policies: Policies,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<bool>,
}

impl Running {
    fn start(kept: &Arc<Kept>) -> Self {
        let (policies, task) = Policies::load(1, kept.kept(), Zone(0), Arc::clone(kept) as _, |_| ());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(task.run(async move {
            let _ = stopped.await;
        }));
        Self { policies, stop, task }
    }

    async fn end(self) {
        let _ = self.stop.send(());
        assert!(self.task.await.expect("it does not panic"), "nobody else leads");
    }

    async fn apply(&self, policy: &Policy) -> u64 {
        let base = self.policies.in_force().await.expect("it runs").mark.edition;
        self.policies.commit(of(policy, base)).await.expect("good")
    }
}

fn of(policy: &Policy, base: u64) -> Commit {
    let of = Of::Policy { policy: Box::new(policy.clone()), base };
    Commit { by: "ann".into(), reason: "because".into(), confirm_within: None, of }
}

/// Two routers with a subscriber each, whose rates are these.
fn policy(west: u32, east: u32) -> Policy {
    let mut text = String::new();
    for (router, rate, net) in [("west", west, 1), ("east", east, 2)] {
        text += &format!(
            "[[router]]\nname = \"{router}\"\n[[router.port]]\nname = \"lan\"\n\
             [[sla]]\nname = \"of-{router}\"\nrate = \"{rate} kbit/s\"\n\
             [[subscriber]]\nname = \"at-{router}\"\nsla = \"of-{router}\"\nprefixes = [\"10.0.{net}.1/32\"]\n\
             router = \"{router}\"\nport = \"lan\"\n"
        );
    }
    let (policy, diagnostics) = from_toml("p.toml", &text);
    policy.unwrap_or_else(|| panic!("{diagnostics}"))
}

/// An agent: what it has is what it was told.
struct Agent {
    router: Name,
    assembler: Assembler,
    reconciler: Reconciler,
    wholes: usize,
}

impl Agent {
    fn new(router: &str) -> Self {
        Self {
            router: Name::new(router).expect("a name"),
            assembler: Assembler::new(Mark::default()),
            reconciler: Reconciler::new(owner(), Known::default()),
            wholes: 0,
        }
    }

    async fn connect(&mut self, to: &Policies) -> PolicyFollower {
        self.assembler.interrupt();
        to.follow(self.router.as_str(), self.assembler.have().clone()).await.expect("it runs")
    }

    /// Takes news until it has this edition.
    async fn reach(&mut self, edition: u64, follower: &mut PolicyFollower) {
        while self.assembler.have().edition < edition {
            let next = tokio::time::timeout(Pause::from_secs(10), follower.next()).await;
            let news: FeedNews = next.expect("something is told").expect("it goes on");
            if let Some(news) = self.assembler.take(news).expect("in order") {
                self.wholes += usize::from(matches!(news, News::Whole(_)));
                self.reconciler.take(news).expect("nothing is missing");
            }
        }
    }

    fn has(&self, policy: &Policy) {
        let wanted = perhop_policy::compile::objects(policy, &self.router, []);
        assert_eq!(self.reconciler.known().wanted, wanted);
    }

    fn rate(&self) -> String {
        let name = Name::new(&format!("user/at-{}", self.router)).expect("a name");
        let spec = self.reconciler.known().wanted.get(&Key { kind: Kind::Sla, name });
        serde_json::to_value(spec).expect("plain data")["rate"].to_string()
    }
}

#[tokio::test]
async fn agents_have_the_edition_in_force_however_they_come_to_it() {
    let kept = Arc::new(Kept::default());
    let running = Running::start(&kept);
    let (mut west, mut east) = (Agent::new("west"), Agent::new("east"));
    let mut follower = west.connect(&running.policies).await;
    assert_eq!(running.apply(&policy(100, 100)).await, 1);
    west.reach(1, &mut follower).await;
    west.has(&policy(100, 100));
    assert_eq!(running.apply(&policy(200, 100)).await, 2);
    west.reach(2, &mut follower).await;
    assert_eq!((west.wholes, west.rate().as_str()), (1, "200000"));

    // One that comes later has all of it, one that was away what it has missed.
    drop(follower);
    assert_eq!(running.apply(&policy(300, 300)).await, 3);
    assert_eq!(running.apply(&policy(300, 400)).await, 4);
    let mut follower = west.connect(&running.policies).await;
    west.reach(4, &mut follower).await;
    west.has(&policy(300, 400));
    assert_eq!(west.wholes, 1);
    let mut of_east = east.connect(&running.policies).await;
    east.reach(4, &mut of_east).await;
    east.has(&policy(300, 400));

    // What is not kept any more is told whole, and so is everything to one that has an edition of another domain.
    drop((follower, of_east));
    assert_eq!(running.apply(&policy(300, 500)).await, 5);
    kept.oldest.store(1_000, Ordering::Relaxed);
    let mut follower = west.connect(&running.policies).await;
    west.reach(5, &mut follower).await;
    assert_eq!(west.wholes, 2);
    let mut stranger = Agent::new("west");
    stranger.assembler = Assembler::new(Mark { seq: 1, edition: 1, sha256: "00".repeat(32) });
    let mut follower = stranger.connect(&running.policies).await;
    while stranger.assembler.have().edition < 5 {
        let news = follower.next().await.expect("it goes on");
        if let Some(News::Whole(known)) = stranger.assembler.take(news).expect("in order") {
            assert_eq!(known.wanted, west.reconciler.known().wanted);
        }
    }
    running.end().await;
}

#[tokio::test]
async fn a_domain_without_a_policy_wants_nothing_of_anybody() {
    let running = Running::start(&Arc::default());
    let mut west = Agent::new("west");
    west.assembler = Assembler::new(Mark { seq: 900, edition: 3, sha256: "00".repeat(32) });
    let mut follower = west.connect(&running.policies).await;
    let nothing = tokio::time::timeout(Pause::from_millis(200), follower.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    running.apply(&policy(100, 100)).await;
    let first = follower.next().await;
    assert_eq!(first, Some(FeedNews::Begin { after: None }), "what it had is of another domain");
    running.end().await;
}

#[tokio::test]
async fn only_what_was_meant_is_committed() {
    let kept = Arc::new(Kept::default());
    let running = Running::start(&kept);
    let policies = &running.policies;
    running.apply(&policy(1, 1)).await;
    let stale = policies.commit(of(&policy(2, 2), 0)).await;
    assert!(matches!(stale, Err(NotDone::Refused(Refused::Stale { in_force: 1 }))), "{stale:?}");
    let mine = policies.propose("ann", Box::new(policy(3, 3)), 1, false).await.expect("good");
    let other = policies.propose("bob", Box::new(policy(4, 4)), 1, false).await.expect("good");
    let commit = |sha256: &str| Commit {
        by: "ann".into(),
        reason: String::new(),
        confirm_within: None,
        of: Of::Candidate(sha256.to_owned()),
    };
    assert!(matches!(policies.commit(commit(&mine)).await, Err(NotDone::Other)));
    assert_eq!(policies.commit(commit(&other)).await.expect("it is the candidate"), 2);
    assert!(matches!(policies.commit(commit(&other)).await, Err(NotDone::Other)), "once");
    let tried = policies.propose("ann", Box::new(policy(5, 5)), 2, true).await;
    assert!(matches!(tried, Err(NotDone::Untried)), "{tried:?}");
    let gone = policies.withdraw("ann").await;
    assert!(matches!(gone, Err(NotDone::Refused(Refused::NoCandidate))), "{gone:?}");
    assert_eq!(*policies.policy_of(2).await.expect("it is there"), policy(4, 4));
    assert_eq!(*policies.policy_of(1).await.expect("it is there"), policy(1, 1));
    assert_eq!(policies.roll_back("bob", 1, "again".into()).await.expect("it is there"), 3);
    let in_force = policies.in_force().await.expect("it runs");
    assert_eq!(in_force.policy.to_json(), policy(1, 1).to_json());
    let history = policies.history(None, 10).await.expect("it runs");
    let seen: Vec<_> = history.iter().map(|row| (row.n, row.author.as_str(), row.reason.as_str())).collect();
    assert_eq!(seen, [(3, "bob", "again"), (2, "ann", ""), (1, "ann", "because")]);
    running.end().await;
}

#[tokio::test]
async fn what_is_not_confirmed_returns_by_itself_also_under_another_leader() {
    let kept = Arc::new(Kept::default());
    let running = Running::start(&kept);
    running.apply(&policy(1, 1)).await;
    let within = |base| Commit { confirm_within: Some(Duration::from_secs(1)), ..of(&policy(2, 2), base) };
    assert_eq!(running.policies.commit(within(1)).await.expect("good"), 2);
    let other = running.policies.confirm("ann", 1).await;
    assert!(matches!(other, Err(NotDone::Other)), "{other:?}");
    running.end().await;
    let running = Running::start(&kept);
    assert_eq!(*running.policies.in_force().await.expect("it runs").policy, policy(2, 2));
    let mut west = Agent::new("west");
    let mut follower = west.connect(&running.policies).await;
    west.reach(3, &mut follower).await;
    west.has(&policy(1, 1));
    let history = running.policies.history(None, 10).await.expect("it runs");
    let states: Vec<_> = history.iter().map(|row| (row.n, row.state)).collect();
    let (confirmed, reverted) = (EditionState::Confirmed, EditionState::Reverted);
    assert_eq!(states, [(3, confirmed), (2, reverted), (1, confirmed)]);
    assert_eq!(running.policies.commit(within(3)).await.expect("good"), 4);
    assert_eq!(running.policies.confirm("ann", 4).await.expect("it waits"), 4);
    running.end().await;
}

#[tokio::test]
async fn what_cannot_be_written_is_in_force_nowhere() {
    let kept = Arc::new(Kept::default());
    let running = Running::start(&kept);
    running.apply(&policy(1, 1)).await;
    let mut west = Agent::new("west");
    let mut follower = west.connect(&running.policies).await;
    west.reach(1, &mut follower).await;
    kept.fails.store(true, Ordering::Relaxed);
    let refused = running.policies.commit(of(&policy(2, 2), 1)).await;
    assert!(
        matches!(&refused, Err(NotDone::NotKept(why)) if why.retry_after_ms == Some(5_000)),
        "{refused:?}"
    );
    assert_eq!(running.policies.in_force().await.expect("it runs").mark.edition, 1);
    let nothing = tokio::time::timeout(Pause::from_millis(200), follower.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    kept.fails.store(false, Ordering::Relaxed);
    assert_eq!(running.apply(&policy(3, 3)).await, 2);
    west.reach(2, &mut follower).await;
    west.has(&policy(3, 3));
    running.end().await;
}

#[tokio::test]
async fn how_routers_stand_is_measured_by_the_edition_in_force_and_kept() {
    let kept = Arc::new(Kept::default());
    let running = Running::start(&kept);
    running.apply(&policy(1, 1)).await;
    let seq = running.policies.in_force().await.expect("it runs").mark.seq;
    let report = |seq, converged| RouterReport { seq, edition: 1, converged, drift: 2, ..Default::default() };
    running.policies.report("west".into(), report(seq, false)).await.expect("it runs");
    let of = |all: Vec<Standing>, router: &str| {
        all.into_iter().find(|row| row.router == router).expect("it is shown")
    };
    let standing = of(running.policies.standings().await.expect("it runs"), "west");
    assert!(
        standing.wanted && standing.heard && !standing.converged && standing.converged_after_ms.is_none()
    );
    running.policies.report("west".into(), report(seq, true)).await.expect("it runs");
    let standing = of(running.policies.standings().await.expect("it runs"), "west");
    assert!(standing.converged && standing.converged_after_ms.is_some() && standing.lag == 0);
    assert_eq!(of(running.policies.standings().await.expect("it runs"), "east").report, None);
    running.apply(&policy(2, 2)).await;
    let standing = of(running.policies.standings().await.expect("it runs"), "west");
    assert_eq!((standing.converged, standing.lag, standing.converged_after_ms), (false, 1, None));
    // The database has it a second later, for the next leader.
    for _ in 0..50 {
        if !kept.statuses.lock().expect("nobody panicked").is_empty() {
            break;
        }
        tokio::time::sleep(Pause::from_millis(100)).await;
    }
    running.end().await;
    let running = Running::start(&kept);
    let standing = of(running.policies.standings().await.expect("it runs"), "west");
    assert_eq!(
        standing.report.map(|report| (report.seq, report.drift, report.converged)),
        Some((seq, 2, false))
    );
    running.end().await;
}
