use crate::compile::{Rates, Wanted, objects};
use crate::diff::ObjectChange;
use crate::model::Policy;
use crate::session::*;
use crate::validate::from_toml;
use perhop_model::{Key, Kind, Name, Spec};
use perhop_units::{Duration, Instant, Rate, mix};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A Thursday, midnight.
const UNIX: u64 = 1_800_000_000_000 / 604_800_000 * 604_800_000;

const POLICY: &str = r#"
[[router]]
name = "r1"
[[router.port]]
name = "p1"
[[router.port]]
name = "p2"
[[router]]
name = "r2"
[[router.port]]
name = "p1"
[[router]]
name = "r3"
[[router.port]]
name = "p1"
[[profile]]
name = "cond"
meter = { type = "token_bucket", cir = "1 Mbit/s", cbs = "15 kB" }
[[sla]]
name = "gold"
rate = "5 Mbit/s"
profile = "cond"
[[sla]]
name = "slow"
rate = "1 Mbit/s"
[[sla]]
name = "idle"
rate = "2 Mbit/s"
idle_timeout = "1 min"
session_timeout = "10 min"
[[sla]]
name = "daily"
rate = "3 Mbit/s"
quota = { amount = "1 kB", per = "day", then = "slow" }
[[sla]]
name = "once"
rate = "3 Mbit/s"
quota = { amount = "1 kB", per = "session", then = "disconnect" }
[[sla]]
name = "night"
rate = "3 Mbit/s"
[[sla.schedule]]
days = "thu"
from = "22:00"
until = "06:00"
sla = "gold"
[[subscriber]]
name = "ann"
sla = "gold"
[[subscriber]]
name = "bob"
sla = "gold"
[[subscriber]]
name = "cyd"
sla = "idle"
[[subscriber]]
name = "dan"
sla = "daily"
[[subscriber]]
name = "eve"
sla = "once"
[[subscriber]]
name = "fay"
sla = "night"
[[subscriber]]
name = "fix"
sla = "gold"
prefixes = ["10.7.0.0/24"]
router = "r1"
port = "p1"
"#;

fn policy() -> Arc<Policy> {
    let (policy, diagnostics) = from_toml("p.toml", POLICY);
    Arc::new(policy.unwrap_or_else(|| panic!("{diagnostics}")))
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Each user has one address of its own.
fn arrival(user: &str, id: &str, place: &str) -> Box<Arrival> {
    let (router, port) = place.split_once('/').expect("a place");
    let last = user.as_bytes().iter().fold(0u8, |all, octet| all.wrapping_mul(31).wrapping_add(*octet));
    Box::new(Arrival {
        subscriber: name(user),
        id: id.to_owned(),
        router: name(router),
        port: name(port),
        prefixes: vec![format!("10.0.0.{last}/32").parse().expect("a prefix")],
        source: "radius".into(),
        grant: Grant::default(),
        age: Duration::ZERO,
    })
}

/// A store that can fail, and routers that have taken over what is in its feed.
struct World {
    users: Users,
    policy: Arc<Policy>,
    now: Instant,
    rows: BTreeMap<Name, SessionRow>,
    usage: BTreeMap<Name, Usage>,
    feed: Vec<ObjectChange>,
    answers: BTreeMap<u64, Result<u64, Refused>>,
    ended: Vec<(String, Why)>,
    changed: Vec<String>,
    works: bool,
    request: u64,
}

impl World {
    fn new() -> Self {
        let policy = policy();
        Self {
            users: Users::new(Kept::default(), policy.clone(), Zone(0), UNIX),
            policy,
            now: Instant(0),
            rows: BTreeMap::new(),
            usage: BTreeMap::new(),
            feed: Vec::new(),
            answers: BTreeMap::new(),
            ended: Vec::new(),
            changed: Vec::new(),
            works: true,
            request: 0,
        }
    }

    fn store(&mut self, changes: Vec<Change>, feed: Vec<ObjectChange>) {
        for change in changes {
            match change {
                Change::Session(row) => drop(self.rows.insert(row.subscriber.clone(), *row)),
                Change::SessionGone(name) => drop(self.rows.remove(&name)),
                Change::Usage(name, usage) => drop(self.usage.insert(name, usage)),
            }
        }
        self.feed.extend(feed);
    }

    fn tell(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.users.handle_input(self.now, input);
            while let Some(output) = self.users.poll_output() {
                match output {
                    Output::Write { group, changes, feed } => {
                        if self.works {
                            self.store(changes, feed);
                        }
                        let seq = self.works.then_some(self.feed.len() as u64);
                        inputs.push_back(Input::Written { group, seq });
                    }
                    Output::Answer { request, answer } => {
                        assert_eq!(self.answers.insert(request, answer), None, "answered once");
                    }
                    Output::Ended { row, why } => self.ended.push((row.subscriber.to_string(), why)),
                    Output::Changed { row } => self.changed.push(row.sla.to_string()),
                }
            }
        }
    }

    fn ask(&mut self, input: impl FnOnce(u64) -> Input) -> Result<u64, Refused> {
        self.request += 1;
        let request = self.request;
        self.tell(input(request));
        self.answers.get(&request).copied().unwrap_or(Err(Refused::NotWritten))
    }

    fn came(&mut self, user: &str, id: &str, place: &str) -> Result<u64, Refused> {
        self.ask(|request| Input::Came { request, arrival: arrival(user, id, place) })
    }

    fn used(&mut self, user: &str, id: &str, place: &str, octets: u64) -> Result<u64, Refused> {
        self.ask(|request| Input::Used { request, arrival: arrival(user, id, place), octets })
    }

    fn left(&mut self, router: &str, id: &str) -> Result<u64, Refused> {
        let which = Which::Session { router: name(router), id: id.to_owned() };
        self.ask(|request| Input::Left { request, which, octets: None })
    }

    fn reported(&mut self, router: &str) {
        let seq = self.feed.len() as u64;
        self.tell(Input::Reported { router: name(router), seq });
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.users.next_wakeup().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.tell(Input::Tick);
        }
        self.now = self.now.max(end);
        self.tell(Input::Tick);
    }

    fn die(&mut self) {
        let kept = Kept {
            sessions: self.rows.values().cloned().collect(),
            usage: self.usage.clone().into_iter().collect(),
            feed_seq: self.feed.len() as u64,
        };
        self.users = Users::new(kept, self.policy.clone(), Zone(0), UNIX);
        self.tell(Input::Tick);
    }

    /// What a router has that took over so much of the feed.
    fn router(&self, router: &str, seq: usize) -> Wanted {
        let mut has = Wanted::new();
        for change in self.feed[..seq].iter().filter(|change| change.router.as_str() == router) {
            match &change.spec {
                Some(spec) => drop(has.insert(change.key.clone(), spec.clone())),
                None => assert!(has.remove(&change.key).is_some(), "only what is there goes: {}", change.key),
            }
        }
        has
    }

    /// Routers where a user has a contract.
    fn places(&self, user: &str) -> Vec<&'static str> {
        let key = Key { kind: Kind::Sla, name: name(&format!("user/{user}")) };
        let routers = ["r1", "r2", "r3"].into_iter();
        routers.filter(|router| self.router(router, self.feed.len()).contains_key(&key)).collect()
    }

    fn rate(&self, router: &str, user: &str) -> Option<Rate> {
        let key = Key { kind: Kind::Sla, name: name(&format!("user/{user}")) };
        match self.router(router, self.feed.len()).remove(&key)? {
            Spec::Sla(sla) => Some(sla.rate),
            other => panic!("{other:?}"),
        }
    }

    fn sla(&self, user: &str) -> &str {
        self.rows[&name(user)].sla.as_str()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn who_comes_has_its_contract_there_and_who_leaves_has_none() {
    let mut world = World::new();
    assert_eq!(world.came("ann", "1", "r1/p1"), Ok(0));
    assert_eq!((world.places("ann"), world.rate("r1", "ann")), (vec!["r1"], Some(Rate::from_mbit(5))));
    assert_eq!(world.router("r1", world.feed.len()).len(), 3, "contract, conditioner and filter");
    assert_eq!(world.came("ann", "1", "r1/p1"), Ok(0), "said again");
    assert_eq!(world.left("r1", "1"), Ok(0));
    assert_eq!(world.router("r1", world.feed.len()), Wanted::new());
    assert_eq!((world.rows.len(), world.left("r1", "1")), (0, Ok(0)));
}

#[test]
fn a_move_writes_the_new_place_first_and_the_old_goes_when_the_new_router_has_it() {
    let mut world = World::new();
    world.came("ann", "1", "r1/p1").expect("granted");
    world.pass(MINUTE);
    assert_eq!(world.came("ann", "9", "r2/p1"), Ok(1));
    assert_eq!((world.places("ann"), world.rows.len()), (vec!["r1", "r2"], 1));
    world.reported("r1");
    world.tell(Input::Reported { router: name("r2"), seq: world.feed.len() as u64 - 1 });
    assert_eq!(world.places("ann"), ["r1", "r2"], "not by what is older, nor by another router");
    world.reported("r2");
    assert_eq!(world.places("ann"), ["r2"]);
    // The late stop, and a late start, of the first place.
    assert_eq!(world.left("r1", "1"), Ok(0));
    let late = Box::new(Arrival { age: Duration::from_secs(30), ..*arrival("ann", "1", "r1/p1") });
    assert_eq!(world.ask(|request| Input::Came { request, arrival: late }), Err(Refused::Elsewhere));
    assert_eq!(world.used("ann", "1", "r1/p1", 5), Err(Refused::Elsewhere));
    let which = Which::Subscriber { name: name("ann"), moves: Some(0) };
    assert_eq!(world.ask(|request| Input::Left { request, which, octets: None }), Err(Refused::Elsewhere));
    assert_eq!((world.places("ann"), world.users.late()), (vec!["r2"], 3));
}

#[test]
fn an_old_place_goes_also_when_the_new_router_says_nothing_and_at_once_when_the_user_leaves() {
    let mut world = World::new();
    world.came("ann", "1", "r1/p1").expect("granted");
    world.came("ann", "2", "r2/p1").expect("granted");
    world.came("ann", "3", "r3/p1").expect("granted");
    assert_eq!(world.places("ann"), ["r1", "r2", "r3"]);
    world.pass(LEAVE_AFTER);
    assert_eq!(world.places("ann"), ["r3"]);
    world.came("ann", "4", "r1/p1").expect("granted");
    world.left("r1", "4").expect("granted");
    assert_eq!((world.places("ann"), world.rows.len()), (vec![], 0));
}

#[test]
fn a_move_between_ports_of_a_router_is_in_place() {
    let mut world = World::new();
    world.came("ann", "1", "r1/p1").expect("granted");
    let before = world.feed.len();
    assert_eq!(world.came("ann", "2", "r1/p2"), Ok(1));
    assert!(world.feed[before..].iter().all(|change| change.spec.is_some()), "nothing goes");
    assert_eq!(world.rows[&name("ann")].leaving, []);
    // Back to where it is leaving: what it has there stays.
    world.came("ann", "3", "r2/p1").expect("granted");
    world.came("ann", "4", "r1/p1").expect("granted");
    world.reported("r1");
    assert_eq!(world.places("ann"), ["r1"]);
}

#[test]
fn silence_and_age_end_a_session() {
    let mut world = World::new();
    world.came("cyd", "1", "r1/p1").expect("granted");
    for _ in 0..9 {
        world.pass(Duration::from_secs(59));
        world.used("cyd", "1", "r1/p1", 1).expect("granted");
    }
    world.pass(MINUTE);
    assert_eq!(world.ended, [("cyd".into(), Why::Idle)]);
    world.came("cyd", "2", "r1/p1").expect("granted");
    for minute in 1..=20 {
        world.pass(Duration::from_secs(15));
        // A move does not make it younger.
        world.came("cyd", &format!("m{minute}"), ["r1/p1", "r2/p1"][minute % 2]).expect("granted");
        world.pass(Duration::from_secs(15));
    }
    assert_eq!(world.ended[1..], [("cyd".into(), Why::Expired)]);
    assert_eq!(world.places("cyd").len(), 0);
}

#[test]
fn a_quota_that_is_used_up_has_its_consequence_until_it_begins_anew() {
    let mut world = World::new();
    world.came("dan", "1", "r1/p1").expect("granted");
    world.used("dan", "1", "r1/p1", 999).expect("granted");
    assert_eq!(world.sla("dan"), "daily");
    // Over sessions, and over a count that began anew.
    world.came("dan", "2", "r2/p1").expect("granted");
    world.used("dan", "2", "r2/p1", 1).expect("granted");
    assert_eq!((world.sla("dan"), world.rate("r2", "dan")), ("slow", Some(Rate::from_mbit(1))));
    assert_eq!(world.changed, ["slow"]);
    world.left("r2", "2").expect("granted");
    world.die();
    world.came("dan", "3", "r1/p1").expect("granted");
    assert_eq!(world.sla("dan"), "slow", "of the day, not of the session");
    world.pass(Duration::from_secs(86_400));
    assert_eq!(world.sla("dan"), "daily");
    world.came("eve", "1", "r1/p1").expect("granted");
    world.used("eve", "1", "r1/p1", 1_000).expect("granted");
    assert_eq!((&world.ended[..], world.places("eve").len()), (&[("eve".to_owned(), Why::Quota)][..], 0));
}

#[test]
fn contracts_change_with_the_time_of_day() {
    let mut world = World::new();
    world.came("fay", "1", "r1/p1").expect("granted");
    assert_eq!(world.sla("fay"), "night");
    world.pass(Duration::from_secs(22 * 3_600 - 1));
    assert_eq!(world.sla("fay"), "night");
    world.pass(Duration::from_secs(1));
    assert_eq!((world.sla("fay"), world.router("r1", world.feed.len()).len()), ("gold", 3));
    world.pass(Duration::from_secs(8 * 3_600));
    assert_eq!((world.sla("fay"), world.router("r1", world.feed.len()).len()), ("night", 1));
    assert_eq!(world.changed, ["gold", "night"]);
    world.pass(Duration::from_secs(6 * 86_400 + 16 * 3_600));
    assert_eq!(world.changed.len(), 3, "a week later again");
}

#[test]
fn grants_go_before_the_contract() {
    let mut world = World::new();
    world.came("ann", "1", "r1/p1").expect("granted");
    let which = Which::Session { router: name("r1"), id: "1".into() };
    let rates = Rates { up: Some(Rate::from_mbit(1)), down: Some(Rate::from_mbit(7)) };
    let grant = Grant { sla: Some(name("slow")), rates, session_timeout: Some(MINUTE), idle_timeout: None };
    assert_eq!(world.ask(|request| Input::Grant { request, which, grant }), Ok(0));
    assert_eq!((world.sla("ann"), world.rate("r1", "ann")), ("slow", Some(Rate::from_mbit(7))));
    world.pass(MINUTE);
    assert_eq!(world.ended, [("ann".into(), Why::Expired)]);
    let which = Which::Session { router: name("r1"), id: "1".into() };
    let nothing = world.ask(|request| Input::Grant { request, which, grant: Grant::default() });
    assert_eq!(nothing, Err(Refused::NoSession));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut world = World::new();
    assert_eq!(world.came("zoe", "1", "r1/p1"), Err(Refused::NoSubscriber));
    assert_eq!(world.came("fix", "1", "r1/p1"), Err(Refused::Fixed));
    assert_eq!(world.came("ann", "1", "r9/p1"), Err(Refused::NoPlace));
    assert_eq!(world.came("ann", "1", "r1/p9"), Err(Refused::NoPlace));
    assert_eq!(world.came("ann", &"x".repeat(254), "r1/p1"), Err(Refused::TooLong));
    let nowhere = Box::new(Arrival { prefixes: vec![], ..*arrival("ann", "1", "r1/p1") });
    assert_eq!(world.ask(|request| Input::Came { request, arrival: nowhere }), Err(Refused::NoAddress));
    assert_eq!((world.feed.len(), world.rows.len()), (0, 0));
    // An address is one session's.
    world.came("ann", "1", "r1/p1").expect("granted");
    let same =
        Box::new(Arrival { prefixes: arrival("ann", "", "r1/p1").prefixes, ..*arrival("bob", "2", "r2/p1") });
    world.ask(|request| Input::Came { request, arrival: same }).expect("granted");
    assert_eq!((&world.ended[..], world.rows.len()), (&[("ann".to_owned(), Why::Replaced)][..], 1));
    // And so is the name of a session on a router.
    world.came("ann", "2", "r2/p1").expect("granted");
    assert_eq!(world.ended[1..], [("bob".to_owned(), Why::Replaced)]);
    // An access server that starts anew has none of the sessions that are older.
    world.pass(MINUTE);
    world.came("bob", "7", "r2/p1").expect("granted");
    world.tell(Input::Restarted { router: name("r2"), age: Duration::from_secs(30) });
    assert_eq!(world.rows.keys().map(Name::as_str).collect::<Vec<_>>(), ["bob"]);
}

#[test]
fn who_asked_is_answered_when_it_is_written() {
    let mut world = World::new();
    world.works = false;
    assert_eq!(world.came("ann", "1", "r1/p1"), Err(Refused::NotWritten));
    assert_eq!(world.rows.len(), 0);
    world.works = true;
    world.pass(Duration::from_secs(1));
    assert_eq!((world.places("ann"), world.rows.len()), (vec!["r1"], 1));
    world.tell(Input::Hold);
    world.tell(Input::Came { request: 900, arrival: arrival("bob", "2", "r1/p1") });
    assert!(!world.answers.contains_key(&900) && world.rows.len() == 1);
    world.tell(Input::Policy(world.policy.clone()));
    assert_eq!((world.answers[&900], world.rows.len()), (Ok(0), 2));
}

#[test]
fn a_policy_without_a_subscriber_or_a_port_ends_its_sessions() {
    let mut world = World::new();
    world.came("ann", "1", "r1/p1").expect("granted");
    world.came("bob", "2", "r1/p2").expect("granted");
    let mut policy = (*world.policy).clone();
    policy.subscribers.remove(&name("ann"));
    policy.routers.get_mut(&name("r1")).expect("there").ports.remove(&name("p2"));
    world.policy = Arc::new(policy);
    world.tell(Input::Policy(world.policy.clone()));
    let ended: Vec<_> = world.ended.iter().map(|(user, why)| (user.as_str(), *why)).collect();
    assert_eq!(ended, [("ann", Why::Policy), ("bob", Why::Policy)]);
    assert_eq!(world.router("r1", world.feed.len()), Wanted::new());
}

/// Logins, moves, logouts, reports, time, a store that fails and deaths at any step: nobody has two sessions, a user that is
/// somewhere never has nothing, and in the end routers have what sessions say and nothing else.
#[test]
fn random_schedules_leave_no_user_without_and_none_twice() {
    let users = ["ann", "bob", "dan", "fay"];
    let places = ["r1/p1", "r1/p2", "r2/p1", "r3/p1"];
    for seed in 0..150u64 {
        let mut random = seed;
        let mut draw = |below: u64| mix::next(&mut random) % below;
        let mut world = World::new();
        // Changes of the feed after which a user came, and after which it left.
        let mut there: BTreeMap<&str, Vec<(usize, Option<usize>)>> = BTreeMap::new();
        let mut ids: BTreeMap<&str, String> = BTreeMap::new();
        for step in 0..80 {
            world.now += Duration::from_millis(1 + draw(2_000));
            let user = users[draw(4) as usize];
            world.works = draw(8) > 0;
            match draw(9) {
                0..=3 => {
                    let id = format!("{step}");
                    let _ = world.came(user, &id, places[draw(4) as usize]);
                    ids.insert(user, id);
                }
                4 => {
                    // The right session, or one of before.
                    let router = ["r1", "r2", "r3"][draw(3) as usize];
                    let id = if draw(3) == 0 {
                        format!("{}", draw(step + 1))
                    } else {
                        ids.get(user).cloned().unwrap_or_default()
                    };
                    let _ = world.left(router, &id);
                }
                5 => world.reported(["r1", "r2", "r3"][draw(3) as usize]),
                6 => world.pass(Duration::from_secs(draw(20))),
                7 => world.die(),
                _ => {
                    let id = ids.get(user).cloned().unwrap_or_default();
                    let _ = world.used(user, &id, places[draw(4) as usize], draw(400));
                }
            }
            for user in users {
                let is_on_record = world.rows.contains_key(&name(user));
                let spans = there.entry(user).or_default();
                match (spans.last_mut(), is_on_record) {
                    (Some((_, end @ None)), false) => *end = Some(world.feed.len()),
                    (None | Some((_, Some(_))), true) => spans.push((world.feed.len(), None)),
                    _ => {}
                }
            }
        }
        world.works = true;
        world.pass(Duration::from_secs(2));
        // Every prefix of the feed: a user that is on record has its contract somewhere.
        for (user, spans) in &there {
            let key = Key { kind: Kind::Sla, name: name(&format!("user/{user}")) };
            for (first, last) in spans {
                // At its end it may be gone already within the last group.
                let last = last.map_or(world.feed.len(), |last| {
                    *first.max(
                        &world.feed[..last]
                            .iter()
                            .rposition(|c| c.key == key && c.spec.is_some())
                            .map_or(*first, |at| at + 1),
                    )
                });
                for seq in *first..=last {
                    let has = |router: &&str| world.router(router, seq).contains_key(&key);
                    assert!(
                        ["r1", "r2", "r3"].iter().any(has),
                        "seed {seed}: {user} at {seq} of {first}..{last}"
                    );
                }
            }
        }
        for router in ["r1", "r2", "r3"] {
            world.reported(router);
        }
        world.pass(LEAVE_AFTER);
        let record = world.users.on_record(&world.policy);
        for router in ["r1", "r2", "r3"] {
            let present = record.get(&name(router));
            let mut wanted = objects(&world.policy, &name(router), present.into_iter().flatten());
            wanted.retain(|key, _| !key.name.as_str().starts_with("user/fix"));
            assert_eq!(world.router(router, world.feed.len()), wanted, "seed {seed}: {router}");
        }
        for (user, row) in &world.rows {
            assert_eq!(world.places(user.as_str()), [row.router.as_str()], "seed {seed}");
            assert_eq!(world.users.session(user), Some(row), "seed {seed}");
        }
        assert_eq!(world.rows.len(), world.users.sessions().count(), "seed {seed}");
    }
}
