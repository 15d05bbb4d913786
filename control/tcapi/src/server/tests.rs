use super::*;
use crate::wire::{Alternative, Direction, Reservation, Scope, ServiceClass};
use perhop_contract::{
    Control, Draft, Draining, GraphRequest, Input as Asked, Limits as OfContract, Output as Wanted, Planner,
};
use perhop_model::{Credentials, EventKind, Kind, Spec};
use perhop_units::{Duration, Rate};
use serde_json::json;

/// Plans nothing.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Planner for Nothing {
    type Change = ();

    fn check(&self, _: &Draft<'_>, _: Option<&GraphRequest>) -> Vec<ErrorItem> {
        Vec::new()
    }

    fn plan(&mut self, _: Instant, _: &Draft<'_>, _: &[Draining], _: Option<&GraphRequest>) {}
}

/// A server beside a router's contract, with connections that keep what they are sent.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) server: Server,
    pub(crate) control: Control<Nothing>,
    pub(crate) sent: BTreeMap<Connection, Vec<Message>>,
    closed: BTreeSet<Connection>,
    pub(crate) transactions: usize,
    requests: u64,
    events: u64,
    /// Transactions that the router has not answered.
    unanswered: VecDeque<(Name, Box<Transaction>)>,
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

impl World {
    fn new() -> Self {
        Self::of_epoch(77)
    }

    /// A router's life.
    pub(crate) fn of_epoch(epoch: u64) -> Self {
        let mut control = Control::new(epoch, Nothing, OfContract::default());
        let op = |kind, n: &str, spec| Op::put(perhop_model::Given::read(kind, name(n), spec, None));
        let ops = vec![
            op(Kind::Port, "wan", json!({ "rate": 10_000_000 })),
            op(Kind::Class, "wan/voice", json!({ "port": "wan", "guarantee": { "rate": 1_000_000 } })),
            op(Kind::Class, "wan/rest", json!({ "port": "wan", "default": true })),
        ];
        let transaction = Box::new(Transaction::new(TxnId([9; 16]), Owner::File, ops));
        let ask = Asked::Request { request: 0, who: Credentials::ADMIN, transaction };
        control.handle_input(Instant::ZERO, ask);
        let numbers = [(1, name("voice")), (0, name("rest"))].into();
        let mut world = Self {
            now: Instant(1_000),
            server: Server::new(
                epoch,
                numbers,
                Limits { answers: 64, group: 8, waiting: 32, ..Limits::default() },
            ),
            control,
            sent: BTreeMap::new(),
            closed: BTreeSet::new(),
            transactions: 0,
            requests: 1,
            events: 0,
            unanswered: VecDeque::new(),
        };
        world.apply();
        world.rooms();
        world
    }

    fn apply(&mut self) -> Vec<Arc<Reply>> {
        let mut replies = Vec::new();
        while let Some(output) = self.control.poll_output() {
            match output {
                Wanted::Apply { ticket, .. } => {
                    self.control.handle_input(self.now, Asked::Applied { ticket })
                }
                Wanted::Reply { reply, .. } => replies.push(reply),
            }
        }
        replies
    }

    /// What classes have now.
    fn rooms(&mut self) {
        let objects = self.control.objects();
        let draft = Draft::new(objects);
        let trees = perhop_contract::Trees::new(&draft);
        let rooms = draft.classes().map(|(class, spec, _)| ClassRoom {
            port: spec.port.clone(),
            logical: spec.logical_name(class).to_owned(),
            class: class.clone(),
            guarantee_bps: trees.guarantee(class, 0).0,
        });
        let rooms = rooms.collect();
        self.server.handle_input(self.now, Input::Rooms(rooms));
    }

    pub(crate) fn connect(&mut self, connection: Connection, client: &str) {
        self.server.handle_input(
            self.now,
            Input::Connected(connection, Who { client: name(client), speaks: Speaks::ForAll }),
        );
    }

    fn send(&mut self, connection: Connection, message: &Message) {
        self.bytes(connection, message.to_bytes());
    }

    pub(crate) fn bytes(&mut self, connection: Connection, bytes: Vec<u8>) {
        self.server.handle_input(self.now, Input::Bytes(connection, bytes));
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Send(connection, bytes) => {
                    let mut frames = Frames::default();
                    frames.push(&bytes);
                    let frame = frames.next().expect("framed").expect("whole");
                    self.sent.entry(connection).or_default().push(frame.message.expect("well formed"));
                }
                Output::Close(connection) => drop(self.closed.insert(connection)),
                Output::Look => self.rooms(),
                Output::Claim(client, claim) => {
                    let result = self.control.claim(self.now, &Credentials::ADMIN, &claim);
                    let result = result.map_err(|code| ErrorItem::new(code, "", "refused"));
                    self.server.handle_input(self.now, Input::Claimed(client, result));
                }
                Output::Submit(client, transaction) => {
                    self.transactions += 1;
                    self.unanswered.push_back((client, transaction));
                }
            }
        }
    }

    /// The router answers what it was asked.
    pub(crate) fn answer_one(&mut self) -> bool {
        let Some((client, transaction)) = self.unanswered.pop_front() else { return false };
        let request = self.requests;
        self.requests += 1;
        let who = Credentials::ADMIN;
        self.control.handle_input(self.now, Asked::Request { request, who, transaction });
        let reply = self.apply().pop().expect("one at a time");
        self.tell_events();
        self.server.handle_input(self.now, Input::Reply(client, reply));
        self.poll();
        true
    }

    fn tell_events(&mut self) {
        for event in self.control.events().after(self.events, usize::MAX) {
            self.events = event.seq;
            if let EventKind::Expired { keys, revision, .. } = event.kind {
                self.server.handle_input(self.now, Input::Expired(keys, revision));
            }
        }
    }

    pub(crate) fn settle(&mut self) {
        while self.answer_one() {}
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.control.handle_input(self.now, Asked::Tick);
        self.apply();
        self.tell_events();
        self.poll();
    }

    /// Sends, settles, and gives the one answer.
    fn ask(&mut self, connection: Connection, message: &Message) -> Answer {
        self.send(connection, message);
        self.settle();
        let Some(Body::Answer(answer)) = self.sent.remove(&connection).and_then(|mut sent| {
            assert_eq!(sent.len(), 1, "{sent:?}");
            let answered = sent.pop()?;
            assert_eq!((answered.txn, answered.epoch), (message.txn, message.epoch));
            Some(answered.body)
        }) else {
            panic!("no answer to {message:?}")
        };
        *answer
    }

    fn code(&mut self, connection: Connection, message: &Message) -> Option<Code> {
        self.ask(connection, message).refusal.map(|refusal| refusal.code)
    }

    /// Objects of reservations in the router.
    pub(crate) fn objects(&self) -> Vec<String> {
        let ours = self.control.objects().iter().filter(|(_, e)| matches!(e.owner, Owner::Tcapi(_)));
        ours.map(|(key, _)| format!("{} {}", key.kind, key.name)).collect()
    }

    pub(crate) fn reserved(&self, logical: &str) -> u64 {
        self.server.classes().find(|(_, l, ..)| *l == logical).map_or(0, |(_, _, _, reserved)| reserved)
    }
}

fn message(txn: u64, epoch: u64, verb: Verb, request: Request) -> Message {
    Message { txn, epoch, body: Body::Do(verb, Box::new(request)) }
}

fn amount(rate_bps: u64) -> Option<Reservation> {
    Some(Reservation { rate_bps, burst_bytes: 0, peak_bps: 0, max_packet: 0, min_policed: 0 })
}

pub(crate) fn call(flow: u64, rate_bps: u64) -> Request {
    let port = 5_000 + flow as u16;
    Request {
        class: Some(ServiceClass { number: 1, dscp: None, name: String::new() }),
        reservation: amount(rate_bps),
        filter: vec![Alternative {
            dst: Some("192.0.2.7/32".parse().expect("a prefix")),
            dst_ports: Some((port, port)),
            protocol: Some(17),
            ..Alternative::default()
        }],
        ..Request::of(FlowId::Number(flow))
    }
}

pub(crate) fn with_rate(flow: u64, rate_bps: u64) -> Request {
    Request { reservation: amount(rate_bps), ..Request::of(FlowId::Number(flow)) }
}

#[test]
fn a_flow_is_requested_changed_and_released_and_each_is_in_force_when_it_is_acknowledged() {
    let mut world = World::new();
    world.connect(1, "pbx");
    let answer = world.ask(1, &message(1, 5, Verb::Request, call(7, 80_000)));
    assert_eq!((answer.refusal, answer.router_epoch), (None, 77));
    assert!(answer.timing.is_some());
    assert_eq!(world.objects(), ["profile tcapi/pbx/7", "filter tcapi/pbx/7/0"].map(str::to_owned));
    let rate = |world: &World| {
        let key = Key { kind: Kind::Profile, name: name("tcapi/pbx/7") };
        match &*world.control.objects()[&key].spec {
            Spec::Profile(profile) => profile.meter,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(rate(&world), perhop_model::MeterSpec::TokenBucket { cir: Rate(80_000), .. }));
    let peak = Some(Reservation { peak_bps: 200_000, ..amount(100_000).expect("given") });
    let change = Request { reservation: peak, ..Request::of(FlowId::Number(7)) };
    assert_eq!(world.code(1, &message(2, 5, Verb::Modify, change)), None);
    assert!(matches!(rate(&world), perhop_model::MeterSpec::Trtcm { pir: Rate(200_000), .. }));
    assert_eq!(world.code(1, &message(3, 5, Verb::Modify, with_rate(7, 64_000))), None);
    assert!(matches!(rate(&world), perhop_model::MeterSpec::TokenBucket { cir: Rate(64_000), .. }));
    assert_eq!(world.reserved("voice"), 64_000);
    assert_eq!(world.code(1, &message(4, 5, Verb::Release, Request::of(FlowId::Number(7)))), None);
    assert_eq!((world.objects().len(), world.reserved("voice"), world.server.flows()), (0, 0, 0));
}

#[test]
fn each_command_is_refused_with_its_reason() {
    let mut world = World::new();
    world.connect(1, "pbx");
    let done = message(1, 5, Verb::Request, call(7, 80_000));
    assert_eq!(world.code(1, &done), None);
    let release = |txn, flow| message(txn, 5, Verb::Release, Request::of(FlowId::Number(flow)));
    let named = |class: &str| Request {
        class: Some(ServiceClass { number: 9, dscp: None, name: class.to_owned() }),
        ..call(8, 1_000)
    };
    for (txn, verb, request, code) in [
        (2, Verb::Request, call(7, 80_000), Code::Exists),
        (3, Verb::Modify, with_rate(8, 1_000), Code::NotFound),
        (4, Verb::Release, Request::of(FlowId::Number(8)), Code::NotFound),
        (5, Verb::Request, call(8, 1_000_000), Code::NoCapacity),
        (6, Verb::Request, named(""), Code::BadReference),
        (7, Verb::Request, named("video"), Code::BadReference),
        (8, Verb::Request, call(8, 0), Code::OutOfRange),
        (9, Verb::Modify, call(7, 1_000), Code::Unsupported),
        (10, Verb::Modify, Request::of(FlowId::Number(7)), Code::Malformed),
        (11, Verb::Modify, with_rate(7, 2_000_000), Code::NoCapacity),
    ] {
        assert_eq!(world.code(1, &message(txn, 5, verb, request)), Some(code), "{txn}");
    }
    // What was asked, what there is, and where.
    let refused = world.ask(1, &message(12, 5, Verb::Request, call(8, 950_000))).refusal.expect("refused");
    assert_eq!((refused.link.as_str(), refused.class.as_str()), ("wan", "voice"));
    assert_eq!((refused.asked_bps, refused.free_bps), (950_000, 920_000));
    // The same again is answered again, and another message of its number is not.
    let transactions = world.transactions;
    assert_eq!(world.code(1, &done), None);
    assert_eq!(world.code(1, &release(1, 7)), Some(Code::TxnIdReused));
    assert_eq!(
        world.code(1, &message(13, 4, Verb::Release, Request::of(FlowId::Number(7)))),
        Some(Code::Fenced)
    );
    assert_eq!(world.transactions, transactions);
    assert_eq!(world.reserved("voice"), 80_000);
    // What cannot be read is answered as far as it can be, and what cannot be framed ends the connection.
    let mut wrong = release(14, 7).to_bytes();
    wrong[1] = 0x99;
    world.bytes(1, wrong);
    let answers = world.sent.remove(&1).expect("answered");
    assert!(
        matches!(&answers[0].body, Body::Answer(a) if a.refusal.as_ref().is_some_and(|r| r.code == Code::UnknownKind))
    );
    assert_eq!(answers[0].txn, 14);
    world.bytes(1, vec![0, 1, 0x80, 0, 0xff, 0, 0, 0]);
    assert!(world.closed.contains(&1));
}

#[test]
fn what_waits_becomes_one_transaction_and_who_is_blamed_is_taken_out_of_it() {
    let mut world = World::new();
    world.connect(1, "pbx");
    assert_eq!(world.code(1, &message(1, 5, Verb::Request, call(0, 1_000))), None);
    let before = world.transactions;
    // While the first is on its way four come, one of which the router refuses.
    let mut bad = call(3, 1_000);
    bad.scope = Some(Scope { ingress: "nowhere".to_owned(), egress: String::new() });
    for (txn, request) in [(2, call(1, 1_000)), (3, call(2, 1_000)), (4, bad), (5, call(4, 1_000))] {
        world.send(1, &message(txn, 5, Verb::Request, request));
    }
    // Two of one reservation: the second waits for the first.
    world.send(1, &message(6, 5, Verb::Modify, with_rate(4, 2_000)));
    world.settle();
    let answers = world.sent.remove(&1).expect("answers");
    let refused = |m: &Message| match &m.body {
        Body::Answer(answer) => answer.refusal.as_ref().map(|r| r.code),
        other => panic!("{other:?}"),
    };
    let mut told: Vec<(u64, Option<Code>)> = answers.iter().map(|m| (m.txn, refused(m))).collect();
    told.sort_unstable();
    assert_eq!(told, [(2, None), (3, None), (4, Some(Code::BadReference)), (5, None), (6, None)]);
    // The first alone, the others and what is left of them, the change.
    assert_eq!(world.transactions - before, 4);
    assert_eq!(world.reserved("voice"), 1_000 + 1_000 + 1_000 + 2_000);
}

#[test]
fn both_directions_have_a_profile_each_and_end_together() {
    let mut world = World::new();
    world.connect(1, "pbx");
    let both = Request { direction: Direction::Both, lifetime_s: Some(10), ..call(7, 80_000) };
    assert_eq!(world.code(1, &message(1, 5, Verb::Request, both)), None);
    let all = [
        "profile tcapi/pbx/7",
        "profile tcapi/pbx/7/opposite",
        "filter tcapi/pbx/7/0",
        "filter tcapi/pbx/7/1",
    ];
    assert_eq!(world.objects(), all.map(str::to_owned));
    world.pass(Duration::from_secs(9));
    let renew = Request { lifetime_s: Some(10), ..Request::of(FlowId::Number(7)) };
    assert_eq!(world.code(1, &message(2, 5, Verb::Modify, renew)), None);
    world.pass(Duration::from_secs(9));
    assert_eq!((world.objects().len(), world.reserved("voice")), (4, 80_000));
    world.pass(Duration::from_secs(2));
    assert_eq!((world.objects().len(), world.reserved("voice"), world.server.flows()), (0, 0, 0));
    assert_eq!(
        world.code(1, &message(3, 5, Verb::Request, call(7, 80_000))),
        None,
        "it may be requested anew"
    );
}

#[test]
fn an_aggregate_is_an_allocation_and_keeps_what_its_flows_have() {
    let mut world = World::new();
    world.connect(1, "broker");
    let scope = Some(Scope { ingress: String::new(), egress: "wan".to_owned() });
    let aggregate = Request { filter: Vec::new(), scope, ..call(1, 3_000_000) };
    assert_eq!(world.code(1, &message(1, 5, Verb::Request, aggregate)), None);
    assert_eq!(world.objects(), ["allocation tcapi/broker/1".to_owned()]);
    assert_eq!(world.code(1, &message(2, 5, Verb::Request, call(2, 2_500_000))), None);
    assert_eq!(world.code(1, &message(3, 5, Verb::Modify, with_rate(1, 2_000_000))), Some(Code::InUse));
    assert_eq!(world.code(1, &message(4, 5, Verb::Modify, with_rate(1, 2_600_000))), None);
    // More than the port has is the router's to refuse.
    assert_eq!(world.code(1, &message(5, 5, Verb::Modify, with_rate(1, 11_000_000))), Some(Code::NoCapacity));
}

#[test]
fn a_newer_instance_shuts_the_older_out_and_keeps_its_reservations() {
    let mut world = World::new();
    world.connect(1, "pbx");
    world.connect(2, "pbx");
    assert_eq!(world.code(1, &message(1, 5, Verb::Request, call(7, 80_000))), None);
    let hello = Message { txn: 1, epoch: 6, body: Body::Hello { lease_s: Some(30), client: None } };
    assert_eq!(world.code(2, &hello), None);
    assert_eq!(
        world.code(1, &message(2, 5, Verb::Release, Request::of(FlowId::Number(7)))),
        Some(Code::Fenced)
    );
    assert_eq!(world.code(2, &message(2, 6, Verb::Release, Request::of(FlowId::Number(7)))), None);
    // With a lease all that is soft ends together unless it is said again.
    let soft = Request { lifetime_s: Some(3_600), ..call(8, 80_000) };
    assert_eq!(world.code(2, &message(3, 6, Verb::Request, soft)), None);
    world.pass(Duration::from_secs(31));
    assert_eq!((world.server.flows(), world.reserved("voice")), (0, 0));
}

#[test]
fn an_answer_goes_to_the_connection_that_asked_last() {
    let mut world = World::new();
    world.connect(1, "pbx");
    let request = message(1, 5, Verb::Request, call(7, 80_000));
    world.send(1, &request);
    world.server.handle_input(world.now, Input::Closed(1));
    world.connect(2, "pbx");
    world.send(2, &request);
    world.settle();
    assert_eq!(world.sent.get(&2).map(Vec::len), Some(1));
    assert_eq!((world.sent.get(&1), world.transactions), (None, 1));
}

#[test]
fn messages_beyond_the_queue_are_refused_and_may_come_again() {
    let mut world = World::new();
    world.connect(1, "pbx");
    for flow in 0..60 {
        world.send(1, &message(flow, 5, Verb::Request, call(flow, 1_000)));
    }
    let refused = world.sent.remove(&1).expect("some are");
    let codes = refused.iter().filter_map(|m| match &m.body {
        Body::Answer(answer) => answer.refusal.as_ref().map(|r| (m.txn, r.code, r.retry_after_ms)),
        _ => None,
    });
    let codes: Vec<(u64, Code, u32)> = codes.collect();
    assert!(codes.len() > 20 && codes.iter().all(|(_, code, ms)| (*code, *ms) == (Code::Overload, 100)));
    world.settle();
    world.sent.clear();
    for (txn, ..) in codes {
        assert_eq!(world.code(1, &message(txn, 5, Verb::Request, call(txn, 1_000))), None);
    }
    assert_eq!((world.server.flows(), world.reserved("voice")), (60, 60_000));
}

mod schedules {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Send {
            client: usize,
            verb: Verb,
            flow: u64,
            rate: u64,
            soft: bool,
        },
        /// The last message of a client again.
        Again(usize),
        Reconnect(usize),
        Answer,
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let verb =
            prop_oneof![Just(Verb::Request), Just(Verb::Request), Just(Verb::Modify), Just(Verb::Release)];
        prop_oneof![
            6 => (0..3usize, verb, 0..6u64, 1..400u64, any::<bool>()).prop_map(|(client, verb, flow, rate, soft)| {
                Step::Send { client, verb, flow, rate: rate * 1_000, soft }
            }),
            1 => (0..3usize).prop_map(Step::Again),
            1 => (0..3usize).prop_map(Step::Reconnect),
            4 => Just(Step::Answer),
            1 => (1..8u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn a_class_is_never_sold_twice_and_everything_is_answered_once(steps in proptest::collection::vec(step(), 1..80)) {
            let mut world = World::new();
            let clients = ["a", "b", "c"];
            let mut connections = [1_u64, 2, 3];
            let mut next = 10;
            let mut last: [Option<Message>; 3] = Default::default();
            let mut asked = [0_u64; 3];
            for (client, connection) in clients.iter().zip(connections) {
                world.connect(connection, client);
            }
            for step in steps {
                match step {
                    Step::Send { client, verb, flow, rate, soft } => {
                        asked[client] += 1;
                        let request = match verb {
                            Verb::Request => Request { lifetime_s: soft.then_some(5), ..call(flow, rate) },
                            Verb::Modify => with_rate(flow, rate),
                            Verb::Release => Request::of(FlowId::Number(flow)),
                        };
                        let message = message(asked[client], 1, verb, request);
                        world.send(connections[client], &message);
                        last[client] = Some(message);
                    }
                    Step::Again(client) => {
                        if let Some(message) = last[client].clone() {
                            world.send(connections[client], &message);
                        }
                    }
                    Step::Reconnect(client) => {
                        world.server.handle_input(world.now, Input::Closed(connections[client]));
                        connections[client] = next;
                        next += 1;
                        world.connect(connections[client], clients[client]);
                    }
                    Step::Answer => drop(world.answer_one()),
                    Step::Pass(seconds) => world.pass(Duration::from_secs(seconds)),
                }
                let in_force: u64 = rates(&world);
                prop_assert!(in_force <= 1_000_000, "{in_force} in force");
                prop_assert!(world.reserved("voice") <= 1_000_000);
            }
            world.settle();
            world.pass(Duration::ZERO);
            // What the router has is what is reserved, and what the server remembers.
            prop_assert_eq!(rates(&world), world.reserved("voice"));
            let profiles = world.objects().iter().filter(|o| o.starts_with("profile")).count();
            prop_assert_eq!(profiles, world.server.flows());
            // Each last message has an answer: the same whenever it is asked for.
            for (client, message) in last.iter().enumerate() {
                let Some(message) = message else { continue };
                world.sent.clear();
                let answers = [world.ask(connections[client], message), world.ask(connections[client], message)];
                prop_assert_eq!(&answers[0], &answers[1]);
            }
        }
    }

    /// Of all reservations of flows that are in force.
    fn rates(world: &World) -> u64 {
        let rate = |spec: &Spec| match spec {
            Spec::Profile(profile) => match profile.meter {
                perhop_model::MeterSpec::TokenBucket { cir, .. } => cir.0,
                _ => 0,
            },
            _ => 0,
        };
        world.control.objects().values().map(|e| rate(&e.spec)).sum()
    }
}

#[test]
fn a_connection_is_of_the_client_that_it_says_if_it_may_be() {
    let mut world = World::new();
    let speaks =
        Speaks::ForThese(["tcapi:pbx", "tcapi:site-*"].map(|p| p.parse().expect("a pattern")).into());
    let who = Who { client: name("user-1000"), speaks };
    world.server.handle_input(world.now, Input::Connected(1, who));
    assert_eq!(world.code(1, &message(1, 5, Verb::Request, call(7, 1_000))), Some(Code::Forbidden));
    let hello = |txn, client: &str| Message {
        txn,
        epoch: 5,
        body: Body::Hello { lease_s: None, client: Some(client.to_owned()) },
    };
    for (txn, client, code) in [
        (2, "other", Some(Code::Forbidden)),
        (3, "a/b", Some(Code::OutOfRange)),
        (4, "site-3", None),
        (5, "pbx", None),
    ] {
        assert_eq!(world.code(1, &hello(txn, client)), code, "{client}");
    }
    assert_eq!(world.code(1, &message(6, 5, Verb::Request, call(7, 1_000))), None);
    assert_eq!(world.objects()[0], "profile tcapi/pbx/7");
    // What comes in one piece is of the client that was said before it.
    let pieces = [
        message(7, 5, Verb::Request, call(8, 1_000)),
        hello(8, "site-3"),
        message(9, 5, Verb::Request, call(8, 1_000)),
    ];
    world.bytes(1, pieces.iter().flat_map(Message::to_bytes).collect());
    world.settle();
    let answered: BTreeSet<u64> = world.sent.remove(&1).expect("answers").iter().map(|m| m.txn).collect();
    assert_eq!(answered, [7, 8, 9].into());
    let profiles: Vec<String> = world.objects().into_iter().filter(|o| o.contains("profile")).collect();
    assert_eq!(profiles, ["profile tcapi/pbx/7", "profile tcapi/pbx/8", "profile tcapi/site-3/8"]);
}
