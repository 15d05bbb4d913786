use super::agent::One;
use super::*;
use crate::compile::{Present, Rates, objects};
use crate::validate::from_toml;
use perhop_agent::{Input, Readings, Router, Session};
use perhop_model::{
    Claim, FilterSpec, Given, Outcome, Put, Reply, SlaSpec, StatePage, StateQuery, Transaction,
};
use perhop_reason::Code;
use perhop_units::mix;
use std::convert::Infallible;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn key(kind: Kind, own: &str) -> Key {
    Key { kind, name: name(own) }
}

/// A router that refuses what refers to nothing, what belongs to others, and what it is told to.
struct Fake {
    epoch: u64,
    revision: u64,
    objects: BTreeMap<Key, (Owner, Spec)>,
    poison: BTreeSet<Key>,
    /// It does not say which operation is at fault.
    silent: bool,
    busy: bool,
    transactions: Vec<usize>,
}

impl Fake {
    fn new() -> Self {
        let objects = BTreeMap::new();
        let (poison, transactions) = (BTreeSet::new(), Vec::new());
        Self { epoch: 1, revision: 1, objects, poison, silent: false, busy: false, transactions }
    }

    /// Another life of it: only what others have put into its file is there.
    fn restart(&mut self) {
        self.epoch += 1;
        self.revision = 1;
        self.objects.retain(|_, (of, _)| *of != owner());
    }

    fn errors(&self, ops: &[Op], after: &BTreeMap<Key, (Owner, Spec)>) -> Vec<ErrorItem> {
        let mut errors = Vec::new();
        let mut wrong = |op, code: Code, key: &Key| {
            errors.push(ErrorItem { op: Some(op), ..ErrorItem::new(code, key.to_string(), "no") });
        };
        for (number, op) in ops.iter().enumerate() {
            let key = touched(op);
            if self.objects.get(&key).is_some_and(|(of, _)| *of != owner()) {
                wrong(number, Code::NotOwner, &key);
            } else if self.poison.contains(&key) {
                wrong(number, Code::OutOfRange, &key);
            }
        }
        let number = |key: &Key| ops.iter().position(|op| touched(op) == *key);
        for (key, (_, spec)) in after {
            let Spec::Filter(filter) = spec else { continue };
            let missing = |kind, name: &Option<Name>| {
                name.as_ref()
                    .map(|name| Key { kind, name: name.clone() })
                    .filter(|key| !after.contains_key(key))
            };
            for target in [missing(Kind::Profile, &filter.profile), missing(Kind::Sla, &filter.sla)] {
                let Some(target) = target else { continue };
                match number(key) {
                    Some(number) => wrong(number, Code::BadReference, key),
                    None => wrong(number(&target).expect("somebody took it away"), Code::InUse, &target),
                }
            }
        }
        if self.silent && !errors.is_empty() {
            return vec![ErrorItem::new(Code::Unsupported, "", "something of it")];
        }
        errors
    }
}

fn touched(op: &Op) -> Key {
    match op {
        Op::Put(Put { given: Given::Object(object), .. }) => object.key(),
        Op::Delete { kind, name, .. } => Key { kind: *kind, name: name.clone() },
        other => panic!("not an operation of a policy: {other:?}"),
    }
}

impl Router for Fake {
    type Error = Infallible;

    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, Infallible> {
        assert_eq!(claim.owner, owner());
        Ok(Ok(()))
    }

    fn page(&mut self, query: &StateQuery) -> Result<StatePage, Infallible> {
        let of_kind = self.objects.iter().filter(|(key, _)| Some(key.kind) == query.kind);
        let state = |(key, (of, spec)): (&Key, &(Owner, Spec))| ObjectState {
            kind: key.kind,
            name: key.name.clone(),
            owner: of.clone(),
            id: 1,
            version: 1,
            status: Status::Active,
            expires_at_ns: None,
            spec: spec.clone(),
        };
        let (epoch, revision) = (self.epoch, self.revision);
        Ok(StatePage {
            epoch,
            revision,
            objects: of_kind.map(state).collect(),
            cursor: None,
            digests: BTreeMap::new(),
        })
    }

    fn readings(&mut self) -> Result<Readings, Infallible> {
        let (epoch, revision) = (self.epoch, self.revision);
        Ok(Readings { epoch, revision, at: Instant(0), classes: Vec::new(), policies: Vec::new() })
    }

    fn submit(&mut self, transaction: Transaction) -> Result<Reply, Infallible> {
        assert_eq!((transaction.owner, transaction.force), (owner(), false));
        let mut after = self.objects.clone();
        for op in &transaction.ops {
            match op {
                Op::Put(Put { given: Given::Object(object), .. }) => {
                    after.insert(object.key(), (owner(), object.spec.clone()));
                }
                op => drop(after.remove(&touched(op))),
            }
        }
        let errors = match self.busy {
            true => vec![ErrorItem::new(Code::Overload, "", "busy")],
            false => self.errors(&transaction.ops, &after),
        };
        if errors.is_empty() {
            self.transactions.push(transaction.ops.len());
            (self.objects, self.revision) = (after, self.revision + 1);
        }
        Ok(Reply {
            epoch: self.epoch,
            revision: self.revision,
            generation: 1,
            txn_id: transaction.txn_id,
            outcome: if errors.is_empty() { Outcome::Committed } else { Outcome::Rejected },
            replayed: false,
            received_ns: 0,
            committed_ns: 0,
            ops: Vec::new(),
            errors,
            retry_after_ms: self.busy.then_some(100),
        })
    }
}

/// An agent that can die at any time: what it knows is in its journal.
struct World {
    router: Fake,
    session: Session<One>,
    journal: Known,
    fence: u64,
    now: Instant,
    said: Vec<Notice>,
}

fn session(known: Known, fence: u64) -> Session<One> {
    Session::of_owner(owner(), One(Reconciler::new(owner(), known)), fence)
}

impl World {
    fn new(known: Known) -> Self {
        let (router, session) = (Fake::new(), session(known.clone(), 1));
        let mut this = Self { router, session, journal: known, fence: 1, now: Instant(0), said: Vec::new() };
        this.tell(Input::Appeared);
        this
    }

    fn tell(&mut self, input: Input) {
        let now = self.now;
        let (said, router) = (&mut self.said, &mut self.router);
        let told = self.session.tell(
            || now,
            input,
            Some(router),
            |_, notice| match notice {
                Said::Policy(notice) => said.push(notice),
                Said::Session(_) => {}
            },
        );
        let Ok(()) = told;
    }

    fn take(&mut self, news: News) -> Result<(), NotTaken> {
        let taken = self.session.parts_mut().0.take(news);
        self.journal = self.session.parts().0.known().clone();
        self.tell(Input::Tick);
        taken
    }

    fn whole(&mut self, seq: u64, wanted: &Wanted) {
        self.take(News::Whole(Known { seq, edition: seq, wanted: wanted.clone() })).expect("taken");
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.session.next_wakeup().filter(|due| *due <= end) {
            self.now = self.now.max(due) + Duration::from_micros(1);
            self.tell(Input::Tick);
        }
        self.now = self.now.max(end);
        self.tell(Input::Tick);
    }

    /// The agent dies; the next one begins with the journal and a higher fence.
    fn die(&mut self) {
        self.fence += 1;
        self.session = session(self.journal.clone(), self.fence);
        self.tell(Input::Appeared);
    }

    fn report(&self) -> Report {
        self.session.parts().0.report()
    }

    fn has(&self) -> Wanted {
        let own = self.router.objects.iter().filter(|(_, (of, _))| *of == owner());
        own.map(|(key, (_, spec))| (key.clone(), spec.clone())).collect()
    }
}

fn contract(rate: u64) -> Spec {
    Spec::Sla(SlaSpec {
        prefixes: Vec::new(),
        rate: perhop_units::Rate(1_000 + rate),
        burst: perhop_units::Bytes(0),
        dscp: None,
        policy: perhop_model::SlaPolicy::Drop,
        shared: false,
        shared_pct: 100,
        premium: false,
    })
}

fn filter(sla: &str) -> Spec {
    Spec::Filter(FilterSpec { sla: Some(name(sla)), ..FilterSpec::default() })
}

/// Users, each with a contract and a filter of it.
fn users(of: &[(&str, u64)]) -> Wanted {
    let each = |(user, rate): &(&str, u64)| {
        let own = format!("user/{user}");
        [(key(Kind::Sla, &own), contract(*rate)), (key(Kind::Filter, &format!("{own}/all")), filter(&own))]
    };
    of.iter().flat_map(each).collect()
}

#[test]
fn a_router_gets_what_is_wanted_in_one_transaction() {
    let wanted = users(&[("ann", 1), ("bob", 2)]);
    let mut world = World::new(Known::default());
    world.whole(1, &wanted);
    assert_eq!((world.has(), &world.router.transactions[..]), (wanted, &[4][..]));
    assert_eq!(
        world.said,
        [Notice::Converged { edition: 0, seq: 0 }, Notice::Converged { edition: 1, seq: 1 }]
    );
    // A change is put, what is gone goes with its filter.
    let wanted = users(&[("bob", 3)]);
    world.whole(2, &wanted);
    assert_eq!((world.has(), &world.router.transactions[..]), (wanted, &[4, 3][..]));
    world.pass(Duration::from_secs(10));
    assert_eq!(world.router.transactions.len(), 2, "nothing is said twice");
}

#[test]
fn the_objects_of_a_whole_policy_are_applied() {
    let text = "[[router]]\nname = \"e\"\n[[router.port]]\nname = \"lan\"\n[[class]]\nname = \"rest\"\nports = [\"*/lan\"]\n\
        default = true\n[[profile]]\nname = \"p\"\n[[sla]]\nname = \"gold\"\nrate = \"1 Mbit/s\"\nprofile = \"p\"\n\
        [[subscriber]]\nname = \"ann\"\nsla = \"gold\"\n";
    let policy = from_toml("p", text).0.expect("sound");
    let present = Present {
        port: name("lan"),
        prefixes: vec!["10.0.0.1/32".parse().expect("a prefix")],
        sla: name("gold"),
        rates: Rates::default(),
    };
    let wanted = objects(&policy, &name("e"), [(&name("ann"), &present)]);
    assert_eq!(wanted.len(), 4);
    let mut world = World::new(Known::default());
    world.whole(1, &wanted);
    assert_eq!(world.has(), wanted);
}

#[test]
fn changes_follow_each_other_and_a_gap_is_told() {
    let mut world = World::new(Known::default());
    world.whole(5, &users(&[("ann", 1)]));
    let change = |after, seq, user: &str| News::Changes {
        after,
        seq,
        edition: seq,
        changes: users(&[(user, 1)]).into_iter().map(|(key, spec)| (key, Some(spec))).collect(),
    };
    assert_eq!(world.take(change(7, 8, "cyd")), Err(NotTaken::Gap { have: 5 }));
    assert_eq!(world.take(change(4, 5, "cyd")), Ok(()), "it is known");
    assert_eq!(world.take(change(5, 7, "bob")), Ok(()));
    assert_eq!(world.has(), users(&[("ann", 1), ("bob", 1)]));
    let foreign = vec![(key(Kind::Port, "wan"), None)];
    let foreign = News::Changes { after: 7, seq: 8, edition: 8, changes: foreign };
    assert_eq!(world.take(foreign), Err(NotTaken::Foreign));
    assert_eq!((world.report().seq, world.report().converged), (7, true));
}

#[test]
fn removing_a_contract_takes_its_filters_along_and_a_filter_without_one_is_not_put() {
    let mut world = World::new(Known::default());
    world.whole(1, &users(&[("ann", 1), ("bob", 1)]));
    let changes = vec![(key(Kind::Sla, "user/ann"), None)];
    world.take(News::Changes { after: 1, seq: 2, edition: 2, changes }).expect("taken");
    assert_eq!(world.has(), users(&[("bob", 1)]));
    assert_eq!((world.report().orphans, world.report().quarantined.len()), (1, 0));
    // The contract comes back, and its filter with it.
    let changes = vec![(key(Kind::Sla, "user/ann"), Some(contract(1)))];
    world.take(News::Changes { after: 2, seq: 3, edition: 3, changes }).expect("taken");
    assert_eq!(world.has(), users(&[("ann", 1), ("bob", 1)]));
}

#[test]
fn what_is_refused_waits_alone_and_is_tried_again() {
    for silent in [false, true] {
        let mut world = World::new(Known::default());
        world.router.silent = silent;
        world.router.poison = [key(Kind::Sla, "user/bob")].into();
        let wanted = users(&[("ann", 1), ("bob", 1), ("cyd", 1), ("dan", 1)]);
        world.whole(1, &wanted);
        world.pass(Duration::from_millis(10));
        assert_eq!(world.has(), users(&[("ann", 1), ("cyd", 1), ("dan", 1)]), "the rest is applied");
        let report = world.report();
        let keys: Vec<&Key> = report.quarantined.iter().map(|held| &held.key).collect();
        assert_eq!(keys, [&key(Kind::Filter, "user/bob/all"), &key(Kind::Sla, "user/bob")]);
        assert!(report.converged && report.last_error.is_some());
        // While it is wrong it is tried less and less often.
        world.pass(Duration::from_secs(100));
        let times = world.report().quarantined[0].times;
        assert!((6..=8).contains(&times), "{times}");
        world.router.poison.clear();
        world.pass(Duration::from_secs(300));
        assert_eq!(world.has(), wanted);
        assert_eq!(world.report().quarantined, []);
    }
}

#[test]
fn a_changed_object_leaves_quarantine_at_once() {
    let mut world = World::new(Known::default());
    world.router.poison = [key(Kind::Sla, "user/bob")].into();
    world.whole(1, &users(&[("bob", 1)]));
    world.router.poison.clear();
    world.whole(2, &users(&[("bob", 2)]));
    world.pass(Duration::from_millis(1));
    assert_eq!(world.has(), users(&[("bob", 2)]));
}

#[test]
fn drift_is_found_and_put_right() {
    let wanted = users(&[("ann", 1), ("bob", 1)]);
    let mut world = World::new(Known::default());
    world.whole(1, &wanted);
    world.router.objects.remove(&key(Kind::Filter, "user/ann/all"));
    world.router.objects.insert(key(Kind::Sla, "user/bob"), (owner(), contract(9)));
    world.router.objects.insert(key(Kind::Sla, "user/eve"), (owner(), contract(9)));
    world.router.revision += 3;
    world.pass(Duration::from_secs(2));
    assert_eq!((world.has(), world.report().drift), (wanted.clone(), 3));
    assert!(world.said.contains(&Notice::Drift { objects: 3 }));
    // Another life of the router is no drift, nor is the agent's.
    world.router.restart();
    world.pass(Duration::from_secs(2));
    assert_eq!((world.has(), world.report().drift), (wanted.clone(), 3));
    world.die();
    world.pass(Duration::from_secs(2));
    assert_eq!((world.has(), world.report().drift), (wanted, 0));
}

#[test]
fn an_agent_begins_with_its_journal_and_leaves_what_others_have() {
    let wanted = users(&[("ann", 1)]);
    let mut world = World::new(Known { seq: 4, edition: 2, wanted: wanted.clone() });
    assert_eq!(world.has(), wanted, "without a controller");
    let foreign = key(Kind::Sla, "user/bob");
    world.router.objects.insert(foreign.clone(), (Owner::Cli, contract(5)));
    world.whole(5, &users(&[("ann", 1), ("bob", 1)]));
    assert_eq!(world.router.objects[&foreign], (Owner::Cli, contract(5)));
    let report = world.report();
    assert_eq!(
        report.quarantined.iter().find(|held| held.key == foreign).map(|held| held.error.code),
        Some(Code::NotOwner)
    );
}

#[test]
fn a_busy_router_is_asked_again_and_nothing_is_in_quarantine() {
    let mut world = World::new(Known::default());
    world.router.busy = true;
    world.whole(1, &users(&[("ann", 1)]));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.report().quarantined, []);
    world.router.busy = false;
    world.pass(Duration::from_secs(1));
    assert_eq!(world.has(), users(&[("ann", 1)]));
}

/// Changes, gaps, refusals, other people's hands, deaths of agent and router at any step: in the end the router has what is
/// wanted, all but what it refuses and what belongs to others.
#[test]
fn random_schedules_end_with_what_is_wanted() {
    let names = ["a", "b", "c", "d", "e", "f"];
    for seed in 0..80u64 {
        let mut random = seed;
        let mut draw = |below: u64| mix::next(&mut random) % below;
        let mut world = World::new(Known::default());
        let mut desired: BTreeMap<&str, u64> = BTreeMap::new();
        // What the controller has said, change by change.
        let mut log: Vec<Vec<(Key, Option<Spec>)>> = Vec::new();
        let wanted = |desired: &BTreeMap<&str, u64>| {
            users(&desired.iter().map(|(user, rate)| (*user, *rate)).collect::<Vec<_>>())
        };
        for _ in 0..60 {
            match draw(11) {
                0..=3 => {
                    let before = wanted(&desired);
                    let user = names[draw(6) as usize];
                    if draw(3) == 0 {
                        desired.remove(user);
                    } else {
                        desired.insert(user, draw(3));
                    }
                    log.push(crate::diff::between(&before, &wanted(&desired)));
                    // The stream may lose it.
                    if draw(4) > 0 {
                        let seq = log.len() as u64;
                        let changes = log[log.len() - 1].clone();
                        let news = News::Changes { after: seq - 1, seq, edition: seq, changes };
                        if let Err(NotTaken::Gap { have }) = world.take(news) {
                            let missing: Vec<_> = log[have as usize..].iter().flatten().cloned().collect();
                            if draw(2) == 0 {
                                let news = News::Changes { after: have, seq, edition: seq, changes: missing };
                                world.take(news).expect("it follows");
                            } else {
                                world.whole(seq, &wanted(&desired));
                            }
                        }
                    }
                }
                4 => {
                    world.router.restart();
                    world.tell(Input::Gone);
                    world.tell(Input::Appeared);
                }
                5 => world.die(),
                6 => {
                    let user = names[draw(6) as usize];
                    world.router.objects.remove(&key(Kind::Filter, &format!("user/{user}/all")));
                    world.router.revision += 1;
                }
                7 => {
                    let poison = key(Kind::Sla, &format!("user/{}", names[draw(6) as usize]));
                    if !world.router.poison.remove(&poison) {
                        world.router.poison.insert(poison);
                    }
                }
                8 => world.router.busy = !world.router.busy,
                9 => world.router.silent = !world.router.silent,
                _ => world.pass(Duration::from_millis(draw(5_000))),
            }
        }
        world.router.busy = false;
        world.whole(log.len() as u64 + 1, &wanted(&desired));
        world.pass(Duration::from_secs(700));
        let poisoned = |key: &Key| {
            let user = key.name.as_str().trim_end_matches("/all");
            world.router.poison.contains(&self::key(Kind::Sla, user))
        };
        let sound = |all: Wanted| -> Wanted { all.into_iter().filter(|(key, _)| !poisoned(key)).collect() };
        assert_eq!(sound(world.has()), sound(wanted(&desired)), "seed {seed}");
        assert!(world.report().quarantined.iter().all(|held| poisoned(&held.key)), "seed {seed}");
        world.router.poison.clear();
        world.pass(Duration::from_secs(700));
        assert_eq!(world.has(), wanted(&desired), "seed {seed}");
        assert!(world.report().converged, "seed {seed}");
        assert_eq!(world.report().quarantined, [], "seed {seed}");
    }
}
