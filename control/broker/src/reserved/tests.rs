use super::*;
use perhop_agent::{DomainFlow, Input, Notice as OfSession, Parts, Router, Session};
use perhop_contract::{
    Control, Draft, Draining, GraphRequest, Input as Asked, Limits, Output as Told, Planner,
};
use perhop_model::{
    Claim, Credentials, FilterMatch, Given, Outcome, PortRange, Reply, StatePage, StateQuery, Transaction,
    TxnId,
};
use perhop_units::Dscp;
use proptest::prelude::*;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Plans nothing.
#[derive(Debug)]
struct Nothing;

impl Planner for Nothing {
    type Change = ();

    fn check(&self, _: &Draft<'_>, _: Option<&GraphRequest>) -> Vec<ErrorItem> {
        Vec::new()
    }

    fn plan(&mut self, _: Instant, _: &Draft<'_>, _: &[Draining], _: Option<&GraphRequest>) {}
}

/// A router's contract.
struct Contract {
    now: Instant,
    control: Control<Nothing>,
}

impl Contract {
    fn new(epoch: u64) -> Self {
        let mut this = Self { now: Instant::ZERO, control: Control::new(epoch, Nothing, Limits::default()) };
        let put = |kind, n: &str, spec| Op::put(Given::read(kind, name(n), spec, None));
        let ops = vec![
            put(Kind::Port, "wan", json!({ "rate": 10_000_000 })),
            put(Kind::Class, "wan/voice", json!({ "port": "wan", "guarantee": { "rate": 100_000 } })),
            put(Kind::Class, "wan/video", json!({ "port": "wan" })),
            put(Kind::Class, "wan/rest", json!({ "port": "wan", "default": true })),
        ];
        let reply = this.commit(Transaction::new(TxnId([9; 16]), Owner::File, ops), Credentials::ADMIN);
        assert_eq!(reply.outcome, Outcome::Committed, "{reply:?}");
        this
    }

    fn commit(&mut self, transaction: Transaction, who: Credentials) -> Reply {
        let ask = Asked::Request { request: 1, who, transaction: Box::new(transaction) };
        self.hear(ask).expect("a contract answers").as_ref().clone()
    }

    /// It is `now`.
    fn passed(&mut self, now: Instant) {
        self.now = now;
        assert!(self.hear(Asked::Tick).is_none(), "nobody asked");
    }

    fn hear(&mut self, input: Asked) -> Option<Arc<Reply>> {
        self.control.handle_input(self.now, input);
        let mut answer = None;
        while let Some(output) = self.control.poll_output() {
            match output {
                Told::Apply { ticket, .. } => self.control.handle_input(self.now, Asked::Applied { ticket }),
                Told::Reply { reply, .. } => answer = Some(reply),
            }
        }
        answer
    }

    /// What the agent has here: allocations by class, and flows with the rates of their profiles and their filters.
    fn has(&mut self) -> (BTreeMap<String, u64>, BTreeMap<u64, (u64, usize)>) {
        let query = StateQuery { owner: Some(Owner::Agent), limit: Some(10_000), ..StateQuery::default() };
        let page = self.control.state(&query).expect("a page");
        let (mut shares, mut flows) = (BTreeMap::new(), BTreeMap::<u64, (u64, usize)>::new());
        for object in page.objects {
            match &object.spec {
                Spec::Allocation(spec) => {
                    shares.insert(object.name.to_string(), spec.guarantee.unwrap_or_default().0);
                }
                Spec::Profile(profile) => {
                    let rate = match profile.meter {
                        perhop_model::MeterSpec::TokenBucket { cir, .. } => cir.0,
                        _ => 0,
                    };
                    flows.entry(flow_of(&object.name).expect("a flow's")).or_default().0 = rate;
                }
                Spec::Filter(_) => flows.entry(flow_of(&object.name).expect("a flow's")).or_default().1 += 1,
                _ => {}
            }
        }
        (shares, flows)
    }
}

impl Router for Contract {
    type Error = Infallible;

    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, Infallible> {
        let done = self.control.claim(self.now, &Credentials::writer(Owner::Agent), &claim);
        Ok(done.map_err(|code| ErrorItem::new(code, "", "refused")))
    }

    fn page(&mut self, query: &StateQuery) -> Result<StatePage, Infallible> {
        Ok(self.control.state(query).expect("a page"))
    }

    fn readings(&mut self) -> Result<Readings, Infallible> {
        let (epoch, revision) = (self.control.epoch(), self.control.revision());
        Ok(Readings { epoch, revision, at: self.now, classes: Vec::new(), policies: Vec::new() })
    }

    fn submit(&mut self, transaction: Transaction) -> Result<Reply, Infallible> {
        Ok(self.commit(transaction, Credentials::writer(Owner::Agent)))
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Both {
    Session(OfSession),
    Part(Notice),
}

impl From<OfSession> for Both {
    fn from(notice: OfSession) -> Self {
        Self::Session(notice)
    }
}

impl From<Notice> for Both {
    fn from(notice: Notice) -> Self {
        Self::Part(notice)
    }
}

#[derive(Debug)]
struct Only(Reserved);

impl Parts for Only {
    type Notice = Both;

    fn each(&self) -> impl Iterator<Item = &dyn Part<Both>> {
        [&self.0 as &dyn Part<Both>].into_iter()
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut dyn Part<Both>> {
        [&mut self.0 as &mut dyn Part<Both>].into_iter()
    }
}

/// An agent beside a router.
struct World {
    router: Contract,
    session: Session<Only>,
    fence: u64,
    told: Vec<Both>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            router: Contract::new(1),
            session: Session::new(Only(Reserved::new(Instant::ZERO)), 1),
            fence: 1,
            told: vec![],
        };
        world.tell(Input::Appeared);
        world
    }

    fn tell(&mut self, input: Input) {
        let (now, told) = (self.router.now, &mut self.told);
        let told = |_, notice| match notice {
            Both::Part(Notice::Standing(_)) => {}
            other => told.push(other),
        };
        let Ok(()) = self.session.tell(|| now, input, Some(&mut self.router), told);
    }

    fn say(&mut self, news: impl IntoIterator<Item = DomainNews>) {
        news.into_iter().for_each(|news| self.tell(Input::Domain(news)));
    }

    /// Lets time pass, waking the agent when it wants.
    fn pass(&mut self, time: Duration) {
        let end = self.router.now + time;
        while let Some(due) = self.session.next_wakeup().filter(|due| *due <= end) {
            self.router.passed(self.router.now.max(due));
            self.tell(Input::Tick);
        }
        self.router.passed(end);
    }

    /// The agent is killed, and another comes.
    fn killed(&mut self) {
        self.fence += 1;
        self.session = Session::new(Only(Reserved::new(Instant::ZERO)), self.fence);
        self.tell(Input::Appeared);
    }
}

fn share(class: &str, bps: u64) -> DomainNews {
    DomainNews::Share { port: name("wan"), class: name(class), bps: Rate(bps) }
}

fn flow(id: u64, bps: u64, remaining_ms: u64) -> DomainNews {
    let at = |port| Some(PortRange { first: port, last: port });
    let packets = |port| FilterMatch { protocol: Some(17), dst_ports: at(port), ..FilterMatch::default() };
    let port = 5_000 + 2 * id as u16;
    DomainNews::Flow(DomainFlow {
        id,
        class: name("voice"),
        bps: Rate(bps),
        dscp: Some(Dscp::EF),
        packets: vec![packets(port), packets(port + 1)],
        remaining_ms,
    })
}

const LONG: u64 = 3_600_000;

#[test]
fn what_the_domain_has_reserved_is_in_the_router() {
    let mut world = World::new();
    assert_eq!(world.router.has().0.len(), 0, "nobody has said anything yet");
    world.say([DomainNews::Begin, share("voice", 300_000), flow(7, 80_000, LONG), DomainNews::Complete]);
    assert_eq!(world.router.has(), ([("wan/voice".into(), 300_000)].into(), [(7, (80_000, 2))].into()));
    world.say([share("voice", 0), share("video", 5_000_000), flow(8, 64_000, LONG), flow(7, 90_000, LONG)]);
    let flows = [(7, (90_000, 2)), (8, (64_000, 2))].into();
    assert_eq!(world.router.has(), ([("wan/video".into(), 5_000_000)].into(), flows));
    world.say([DomainNews::FlowGone { id: 7 }]);
    assert_eq!(world.router.has().1, [(8, (64_000, 2))].into());
    assert_eq!(world.told, []);
    // A controller that comes again and does not know of it any more.
    world.say([DomainNews::Away, DomainNews::Begin, share("video", 1_000), DomainNews::Complete]);
    assert_eq!(world.router.has(), ([("wan/video".into(), 1_000)].into(), BTreeMap::new()));
}

#[test]
fn a_killed_agent_leaves_all_in_force_and_the_next_one_takes_nothing_away_before_it_knows() {
    let mut world = World::new();
    world.say([DomainNews::Begin, share("voice", 300_000), flow(7, 80_000, LONG), DomainNews::Complete]);
    let before = world.router.has();
    let revision = world.router.control.revision();
    world.killed();
    world.pass(Duration::from_secs(5));
    assert_eq!((world.router.has(), world.router.control.revision()), (before.clone(), revision));
    world.say([DomainNews::Begin, share("voice", 300_000)]);
    world.say([DomainNews::Away]);
    assert_eq!(world.router.has(), before, "a controller that was cut off had not said all");
    let again = flow(7, 80_000, LONG - 5_000);
    world.say([DomainNews::Begin, share("voice", 300_000), again, DomainNews::Complete]);
    assert_eq!(
        (world.router.has(), world.router.control.revision()),
        (before, revision),
        "nothing was to be done"
    );
}

#[test]
fn a_router_that_restarts_gets_all_of_it_again() {
    let mut world = World::new();
    world.say([DomainNews::Begin, share("voice", 300_000), flow(7, 80_000, LONG), DomainNews::Complete]);
    let before = world.router.has();
    let now = world.router.now;
    world.router = Contract { now, ..Contract::new(2) };
    world.tell(Input::Gone);
    world.tell(Input::Appeared);
    assert_eq!(world.router.has(), before);
}

#[test]
fn flows_end_with_their_lives_in_the_router_too_and_live_on_when_they_are_told_again() {
    let mut world = World::new();
    world.say([DomainNews::Begin, flow(7, 80_000, 1_000), flow(8, 80_000, 1_000), DomainNews::Complete]);
    world.pass(Duration::from_millis(800));
    world.say([flow(8, 80_000, 10_000), DomainNews::Away]);
    world.pass(Duration::from_millis(800));
    assert_eq!(world.router.has().1.into_keys().collect::<Vec<_>>(), [8]);
    assert_eq!(world.session.parts().0.standing(), Standing { flows: 1, owed: 0, settled: true });
    // Without the agent, the router's own clock does it.
    world.router.passed(world.router.now + Duration::from_secs(10));
    assert_eq!(world.router.has().1.len(), 0);
}

#[test]
fn what_the_router_refuses_holds_up_nothing_else_and_is_tried_again() {
    let mut world = World::new();
    let mut bad = flow(3, 80_000, LONG);
    if let DomainNews::Flow(flow) = &mut bad {
        flow.class = name("no-such-class");
    }
    let good = [flow(1, 80_000, LONG), flow(9, 80_000, LONG), share("video", 1_000_000)];
    world.say([DomainNews::Begin, bad].into_iter().chain(good).chain([DomainNews::Complete]));
    world.pass(Duration::from_secs(3));
    let (shares, flows) = world.router.has();
    assert_eq!((shares.len(), flows.into_keys().collect::<Vec<_>>()), (1, vec![1, 9]));
    let refused = |told: &Both| match told {
        Both::Part(Notice::NotReserved { item, errors }) => Some((item.clone(), errors[0].code)),
        _ => None,
    };
    assert_eq!(world.told.iter().find_map(refused), Some((Item::Flow(3), Code::BadReference)));
    assert_eq!(world.session.parts().0.standing(), Standing { flows: 3, owed: 1, settled: false });
    // There is such a class now.
    let put = Given::read(Kind::Class, name("wan/no-such-class"), json!({ "port": "wan" }), None);
    let transaction = Transaction::new(TxnId([8; 16]), Owner::Cli, vec![Op::put(put)]);
    assert_eq!(world.router.commit(transaction, Credentials::ADMIN).outcome, Outcome::Committed);
    world.pass(Duration::from_secs(61));
    assert_eq!(world.router.has().1.len(), 3);
}

#[test]
fn a_share_of_a_class_that_is_not_there_is_told() {
    let mut world = World::new();
    world.say([DomainNews::Begin, share("games", 1_000), DomainNews::Complete]);
    let expected = Both::Part(Notice::NoClass { port: name("wan"), class: name("games") });
    assert_eq!(world.told, [expected]);
}

#[test]
fn a_router_without_a_class_that_has_reservations_is_not_settled() {
    let mut world = World::new();
    world.say([DomainNews::Begin, share("voice", 1_000), share("games", 0), DomainNews::Complete]);
    assert_eq!(world.session.parts().0.standing(), Standing { flows: 0, owed: 0, settled: true });
    world.say([share("games", 1_000), share("games", 2_000)]);
    let expected = Both::Part(Notice::NoClass { port: name("wan"), class: name("games") });
    assert_eq!(world.told, [expected], "it is told once");
    assert_eq!(world.session.parts().0.standing(), Standing { flows: 0, owed: 1, settled: false });
    world.say([share("games", 0)]);
    assert_eq!(world.session.parts().0.standing(), Standing { flows: 0, owed: 0, settled: true });
}

#[derive(Clone, Debug)]
enum Step {
    Share(bool, u64),
    Flow(u64, u64, u64),
    FlowGone(u64),
    Anew,
    Away,
    Killed,
    RouterRestarts,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), 0_u64..3_000_000).prop_map(|(class, bps)| Step::Share(class, bps)),
        6 => (0_u64..6, 1_000_u64..100_000, 1_u64..20_000).prop_map(|(id, bps, ms)| Step::Flow(id, bps, ms)),
        3 => (0_u64..6).prop_map(Step::FlowGone),
        1 => Just(Step::Anew),
        1 => Just(Step::Away),
        1 => Just(Step::Killed),
        1 => Just(Step::RouterRestarts),
        4 => (0_u64..8_000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..60)
}

/// What a controller has, and whether it is connected.
#[derive(Debug, Default)]
struct Domain {
    shares: BTreeMap<bool, u64>,
    flows: BTreeMap<u64, (u64, Instant)>,
    connected: bool,
}

fn class(video: bool) -> &'static str {
    if video { "video" } else { "voice" }
}

impl Domain {
    fn all(&mut self, now: Instant) -> Vec<DomainNews> {
        self.connected = true;
        self.flows.retain(|_, (_, until)| *until > now);
        let shares = self.shares.iter().map(|(video, bps)| share(class(*video), *bps));
        let left = |until: Instant| until.since(now).as_nanos() / 1_000_000;
        let flows = self.flows.iter().map(|(id, (bps, until))| flow(*id, *bps, left(*until)));
        let ends = [DomainNews::Complete];
        [DomainNews::Begin].into_iter().chain(shares).chain(flows).chain(ends).collect()
    }
}

proptest! {
    /// Whatever happens on the way, what the router has in the end is what the domain wants; and what never changed was
    /// never gone.
    #[test]
    fn the_router_comes_to_have_what_the_domain_wants(steps in steps()) {
        let (mut world, mut domain) = (World::new(), Domain::default());
        let mut epoch = 1;
        let all = domain.all(world.router.now);
        world.say(all);
        for step in steps {
            let now = world.router.now;
            match step {
                Step::Share(video, bps) => {
                    domain.shares.insert(video, bps);
                    if domain.connected { world.say([share(class(video), bps)]); }
                }
                Step::Flow(id, bps, ms) => {
                    domain.flows.insert(id, (bps, now + Duration::from_millis(ms)));
                    if domain.connected { world.say([flow(id, bps, ms)]); }
                }
                Step::FlowGone(id) => {
                    domain.flows.remove(&id);
                    if domain.connected { world.say([DomainNews::FlowGone { id }]); }
                }
                Step::Anew => { let all = domain.all(now); world.say(all); }
                Step::Away => { domain.connected = false; world.say([DomainNews::Away]); }
                Step::Killed => { domain.connected = false; world.killed(); }
                Step::RouterRestarts => {
                    epoch += 1;
                    world.router = Contract { now, ..Contract::new(epoch) };
                    world.tell(Input::Gone);
                    world.tell(Input::Appeared);
                }
                Step::Pass(ms) => world.pass(Duration::from_millis(ms)),
            }
        }
        let all = domain.all(world.router.now);
        world.say(all);
        world.pass(Duration::from_millis(1));
        let now = world.router.now;
        let shares = domain.shares.iter().filter(|(_, bps)| **bps > 0);
        let shares: BTreeMap<String, u64> = shares.map(|(v, bps)| (format!("wan/{}", class(*v)), *bps)).collect();
        let live = domain.flows.iter().filter(|(_, (_, until))| *until > now);
        let flows: BTreeMap<u64, (u64, usize)> = live.map(|(id, (bps, _))| (*id, (*bps, 2))).collect();
        prop_assert_eq!(world.router.has(), (shares, flows));
        prop_assert!(world.session.is_settled());
    }
}

#[test]
fn what_is_wanted_anew_while_a_wish_is_on_its_way_is_owed_when_that_is_committed() {
    let mut contract = Contract::new(1);
    let query = StateQuery { limit: Some(10_000), ..StateQuery::default() };
    let page = contract.control.state(&query).expect("a page");
    let now = Instant::ZERO;
    let mut part = Reserved::new(now);
    Part::<Notice>::objects(&mut part, now, &page.objects);
    let share = |bps| DomainNews::Share { port: name("wan"), class: name("voice"), bps: Rate(bps) };
    for news in [DomainNews::Begin, share(1_000), DomainNews::Complete] {
        Part::<Notice>::domain(&mut part, now, &news);
    }
    for bps in [2_000, 3_000] {
        assert_eq!(Part::<Notice>::wants(&mut part, now).len(), 1);
        Part::<Notice>::domain(&mut part, now, &share(bps));
        Part::<Notice>::committed(&mut part, now);
        assert!(!part.standing().settled, "{bps} bit/s are wanted, and less is there");
    }
    assert_eq!(Part::<Notice>::wants(&mut part, now).len(), 1);
    Part::<Notice>::committed(&mut part, now);
    assert!(part.standing().settled && Part::<Notice>::wants(&mut part, now).is_empty());
}
