use super::*;
use crate::server::Input as Heard;
use crate::server::tests::{World, call, with_rate};
use proptest::prelude::*;

/// A client and a router with its server, and the octets between them.
struct Pair {
    world: World,
    client: Client,
    now: Instant,
    /// The connection, if there is one; each has another number.
    connection: Option<u64>,
    connections: u64,
    /// Whether a connection is wanted and not there.
    wanted: bool,
    /// Whether anybody is there to connect to.
    reachable: bool,
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    done: BTreeMap<Ticket, Vec<Outcome>>,
    gone: Vec<FlowId>,
    lives: u64,
}

impl Pair {
    fn new(settings: Settings) -> Self {
        let mut pair = Self {
            world: World::of_epoch(1),
            client: Client::new(settings),
            now: Instant(1_000),
            connection: None,
            connections: 0,
            wanted: false,
            reachable: true,
            up: VecDeque::new(),
            down: VecDeque::new(),
            done: BTreeMap::new(),
            gone: Vec::new(),
            lives: 1,
        };
        pair.input(Input::Tick);
        pair
    }

    fn input(&mut self, input: Input) {
        self.client.handle_input(self.now, input);
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Connect => {
                    assert!(!self.wanted && self.connection.is_none(), "one connection at a time");
                    self.wanted = true;
                }
                Output::Send(bytes) => {
                    assert!(self.connection.is_some(), "on a connection");
                    self.up.extend(bytes);
                }
                Output::Close => self.cut(),
                Output::Done(ticket, outcome) => self.done.entry(ticket).or_default().push(outcome),
                Output::Gone(flow, _) => self.gone.push(flow),
            }
        }
    }

    fn cut(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.world.server.handle_input(self.now, Heard::Closed(connection));
        }
        self.up.clear();
        self.down.clear();
    }

    fn connect(&mut self) {
        if !std::mem::take(&mut self.wanted) {
            return;
        }
        if !self.reachable {
            return self.input(Input::Closed);
        }
        self.connections += 1;
        self.connection = Some(self.connections);
        self.world.connect(self.connections, "pbx");
        self.input(Input::Connected);
    }

    /// So many octets arrive at the server.
    fn deliver_up(&mut self, octets: usize) {
        let Some(connection) = self.connection else { return };
        let bytes: Vec<u8> = self.up.drain(..octets.min(self.up.len())).collect();
        if !bytes.is_empty() {
            self.world.bytes(connection, bytes);
            self.collect();
        }
    }

    /// What the server has sent to anybody: to connections that are gone it is lost.
    fn collect(&mut self) {
        for (connection, messages) in std::mem::take(&mut self.world.sent) {
            if Some(connection) == self.connection {
                messages.iter().for_each(|message| self.down.extend(message.to_bytes()));
            }
        }
    }

    fn answer_one(&mut self) -> bool {
        let answered = self.world.answer_one();
        self.collect();
        answered
    }

    fn deliver_down(&mut self, octets: usize) {
        let bytes: Vec<u8> = self.down.drain(..octets.min(self.down.len())).collect();
        if self.connection.is_some() && !bytes.is_empty() {
            self.input(Input::Bytes(bytes));
        }
    }

    fn lose(&mut self) {
        if self.connection.is_some() {
            self.cut();
            self.input(Input::Closed);
        }
    }

    /// The router begins another life, without anything that it had.
    fn restart(&mut self) {
        self.lives += 1;
        let mut world = World::of_epoch(self.lives);
        world.now = self.world.now;
        self.connection = None;
        self.up.clear();
        self.down.clear();
        self.world = world;
        if !self.wanted {
            self.input(Input::Closed);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.world.pass(time);
        self.collect();
        self.input(Input::Tick);
    }

    /// Everything works from now on.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.connect();
            self.deliver_up(usize::MAX);
            while self.answer_one() {}
            self.deliver_down(usize::MAX);
            if self.client.is_idle() && self.up.is_empty() && self.down.is_empty() && !self.wanted {
                return;
            }
            if self.up.is_empty()
                && self.down.is_empty()
                && !self.wanted
                && let Some(at) = self.client.next_wakeup()
            {
                self.pass(at.since(self.now));
            }
        }
        panic!("it never comes to rest: {:?}", self.client);
    }

    fn ask(&mut self, ticket: Ticket, verb: Verb, request: Request) {
        self.input(Input::Ask(ticket, verb, Box::new(request)));
    }

    fn outcome(&self, ticket: Ticket) -> Option<Code> {
        match &self.done[&ticket][..] {
            [Outcome::Done { .. }] => None,
            [Outcome::Refused(refusal)] => Some(refusal.code),
            other => panic!("{ticket}: {other:?}"),
        }
    }

    /// Reservations of flows in the router, by number, with what each has.
    fn rates(&self) -> BTreeMap<u64, u64> {
        let rate = |(key, entry): (&perhop_model::Key, &std::sync::Arc<perhop_contract::Entry>)| {
            let flow = key.name.as_str().strip_prefix("tcapi/pbx/")?.parse().ok()?;
            match &*entry.spec {
                perhop_model::Spec::Profile(profile) => match profile.meter {
                    perhop_model::MeterSpec::TokenBucket { cir, .. } => Some((flow, cir.0)),
                    _ => None,
                },
                _ => None,
            }
        };
        self.world.control.objects().iter().filter_map(rate).collect()
    }
}

fn settings() -> Settings {
    Settings {
        // Above what the server lets wait, so that some are refused and come again.
        window: 48,
        waiting: 1_000,
        patience: Duration::from_secs(1_000_000),
        ..Settings::of_epoch(5)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Verb, u64, u64),
    Up(usize),
    Answer,
    Down(usize),
    Connect,
    Lose,
    Restart,
    Reachable(bool),
    Pass(u64),
}

fn step(restarts: bool) -> impl Strategy<Value = Step> {
    let verb = prop_oneof![2 => Just(Verb::Request), 1 => Just(Verb::Modify), 1 => Just(Verb::Release)];
    prop_oneof![
        8 => (verb, 0..8u64, 1..100u64).prop_map(|(verb, flow, rate)| Step::Ask(verb, flow, rate * 1_000)),
        4 => (1..400usize).prop_map(Step::Up),
        5 => Just(Step::Answer),
        4 => (1..400usize).prop_map(Step::Down),
        4 => Just(Step::Connect),
        1 => Just(Step::Lose),
        u32::from(restarts) => Just(Step::Restart),
        1 => any::<bool>().prop_map(Step::Reachable),
        2 => (1..3_000u64).prop_map(Step::Pass),
    ]
}

/// What there should be: each outcome must follow from those before it, as if nothing had ever been lost.
fn check(pair: &Pair, asked: &[(Verb, u64, u64)]) -> Result<(), TestCaseError> {
    let mut model = BTreeMap::new();
    for (ticket, (verb, flow, rate)) in asked.iter().enumerate() {
        let told = pair.done.get(&(ticket as u64)).map(Vec::as_slice);
        prop_assert!(matches!(told, Some([_])), "{ticket} has one outcome: {told:?}");
        let there = model.contains_key(flow);
        let expected = match (verb, there) {
            (Verb::Request, true) => Some(Code::Exists),
            (Verb::Modify | Verb::Release, false) => Some(Code::NotFound),
            _ => None,
        };
        prop_assert_eq!(pair.outcome(ticket as u64), expected, "{} {:?} of {}", ticket, verb, flow);
        match (verb, expected) {
            (_, Some(_)) => {}
            (Verb::Release, None) => drop(model.remove(flow)),
            (_, None) => drop(model.insert(*flow, *rate)),
        }
    }
    prop_assert_eq!(pair.rates(), model);
    prop_assert_eq!(pair.gone.len(), 0);
    Ok(())
}

fn run(settings: Settings, steps: Vec<Step>) -> Result<Pair, TestCaseError> {
    let mut pair = Pair::new(settings);
    let mut asked = Vec::new();
    for step in steps {
        match step {
            Step::Ask(verb, flow, rate) => {
                let request = match verb {
                    Verb::Request => call(flow, rate),
                    Verb::Modify => with_rate(flow, rate),
                    Verb::Release => Request::of(FlowId::Number(flow)),
                };
                pair.ask(asked.len() as u64, verb, request);
                asked.push((verb, flow, rate));
            }
            Step::Up(octets) => pair.deliver_up(octets),
            Step::Answer => drop(pair.answer_one()),
            Step::Down(octets) => pair.deliver_down(octets),
            Step::Connect => pair.connect(),
            Step::Lose => pair.lose(),
            Step::Restart => pair.restart(),
            Step::Reachable(reachable) => pair.reachable = reachable,
            Step::Pass(ms) => pair.pass(Duration::from_millis(ms)),
        }
        prop_assert!(pair.client.sent.len() <= pair.client.settings.window);
    }
    pair.reachable = true;
    pair.settle();
    check(&pair, &asked)?;
    Ok(pair)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_is_lost_each_request_has_one_outcome_and_is_done_once(
        steps in prop::collection::vec(step(false), 1..150), greets: bool,
    ) {
        let client = greets.then(|| "pbx".to_owned());
        run(Settings { restore: false, client, ..settings() }, steps)?;
    }

    #[test]
    fn whatever_restarts_what_was_acknowledged_stands(steps in prop::collection::vec(step(true), 1..150)) {
        let pair = run(settings(), steps)?;
        prop_assert_eq!(pair.client.standing(), pair.rates().len());
    }
}

#[test]
fn more_than_the_server_takes_is_sent_later_and_comes_through() {
    let mut pair = Pair::new(Settings { restore: false, ..settings() });
    pair.connect();
    for flow in 0..200 {
        pair.ask(flow, Verb::Request, call(flow, 1_000));
    }
    // All that fits into the window at once, while the router answers nothing.
    pair.deliver_up(usize::MAX);
    pair.deliver_down(usize::MAX);
    assert!(!pair.client.again.is_empty(), "the server lets 32 wait");
    let paused = pair.client.pause.expect("a pause");
    assert_eq!(paused.since(pair.now), Duration::from_millis(100), "as long as the server says");
    pair.settle();
    assert!((0..200).all(|ticket| pair.outcome(ticket).is_none()));
    assert_eq!(pair.rates().len(), 200);
}

#[test]
fn a_new_instance_replaces_what_an_earlier_one_left_and_shuts_it_out() {
    let mut pair = Pair::new(settings());
    pair.ask(1, Verb::Request, call(7, 80_000));
    pair.settle();
    let mut earlier = std::mem::replace(&mut pair.client, Client::new(Settings { epoch: 6, ..settings() }));
    pair.cut();
    pair.input(Input::Tick);
    pair.ask(2, Verb::Request, call(7, 64_000));
    pair.settle();
    assert_eq!((pair.outcome(2), pair.rates()), (None, [(7, 64_000)].into()));
    // The earlier one comes back, and is told so.
    pair.cut();
    earlier.handle_input(pair.now, Input::Closed);
    pair.client = earlier;
    pair.ask(3, Verb::Release, Request::of(FlowId::Number(7)));
    pair.settle();
    assert_eq!(pair.outcome(3), Some(Code::Fenced));
    assert_eq!((pair.gone.as_slice(), pair.rates().len()), (&[FlowId::Number(7)][..], 1));
    pair.ask(4, Verb::Release, Request::of(FlowId::Number(7)));
    assert_eq!(pair.outcome(4), Some(Code::Fenced), "it stays shut");
    // One that greets nobody hears it of its message.
    pair.cut();
    pair.client = Client::new(Settings { restore: false, ..settings() });
    pair.ask(5, Verb::Release, Request::of(FlowId::Number(7)));
    pair.settle();
    assert_eq!((pair.outcome(5), pair.rates().len()), (Some(Code::Fenced), 1));
}

#[test]
fn what_ends_by_itself_is_had_back_for_the_rest_of_its_time() {
    let mut pair = Pair::new(settings());
    for (ticket, seconds) in [(1, 10), (2, 60)] {
        let soft = Request { lifetime_s: Some(seconds), ..call(ticket, 80_000) };
        pair.ask(ticket, Verb::Request, soft);
    }
    pair.settle();
    pair.pass(Duration::from_secs(20));
    pair.restart();
    for _ in 0..20 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert_eq!((pair.rates().keys().collect::<Vec<_>>(), pair.client.standing()), (vec![&2], 1));
    pair.pass(Duration::from_secs(21));
    assert_eq!(pair.rates().len(), 0, "60 seconds have passed");
}

#[test]
fn a_lease_is_renewed_and_what_lapsed_with_it_is_had_back() {
    let mut pair = Pair::new(Settings { lease_s: Some(30), ..settings() });
    let soft = Request { lifetime_s: Some(3_600), ..call(7, 80_000) };
    pair.ask(1, Verb::Request, soft);
    pair.settle();
    for _ in 0..60 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert_eq!(pair.rates().len(), 1, "renewed in time");
    pair.reachable = false;
    pair.lose();
    for _ in 0..40 {
        pair.connect();
        pair.pass(Duration::from_secs(1));
    }
    assert_eq!(pair.rates().len(), 0, "it lapsed");
    pair.reachable = true;
    pair.settle();
    // A settled client is one that has greeted: what lapsed is found out by that.
    for _ in 0..20 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert_eq!((pair.rates().len(), pair.client.standing()), (1, 1));
}

#[test]
fn what_cannot_be_had_back_is_said() {
    let mut pair = Pair::new(settings());
    pair.ask(1, Verb::Request, call(7, 600_000));
    pair.settle();
    pair.restart();
    // Somebody else was faster.
    pair.world.connect(99, "other");
    let other = crate::wire::Body::Do(Verb::Request, Box::new(call(8, 900_000)));
    pair.world.bytes(99, Message { txn: 1, epoch: 1, body: other }.to_bytes());
    while pair.answer_one() {}
    for _ in 0..20 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert_eq!((pair.gone.as_slice(), pair.client.standing()), (&[FlowId::Number(7)][..], 0));
}

#[test]
fn who_hears_nothing_connects_anew_and_gives_up_in_the_end() {
    let mut pair = Pair::new(Settings { patience: Duration::from_secs(30), ..settings() });
    pair.connect();
    pair.deliver_up(usize::MAX);
    pair.answer_one();
    pair.deliver_down(usize::MAX);
    pair.ask(1, Verb::Request, call(7, 80_000));
    pair.pass(Duration::from_secs(4));
    assert!(pair.connection.is_some());
    pair.pass(Duration::from_secs(1));
    assert!(pair.connection.is_none(), "an answer was owed for five seconds");
    pair.pass(Duration::from_secs(25));
    assert_eq!(pair.done[&1], [Outcome::Unknown]);
    // What became of it is found out all the same.
    pair.settle();
    assert_eq!((pair.done[&1].len(), pair.client.standing(), pair.rates().len()), (1, 1, 1));
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let mut pair = Pair::new(settings());
    pair.connect();
    for nonsense in [vec![0xff; 64], vec![0, 9, 0x80, 0, 0, 0, 0, 20, 0, 0, 0, 1]] {
        pair.input(Input::Bytes([nonsense, vec![0; 64]].concat()));
        assert!(pair.connection.is_none());
        pair.pass(Duration::from_secs(1));
        pair.connect();
    }
    pair.ask(1, Verb::Request, call(7, 80_000));
    pair.settle();
    assert_eq!(pair.outcome(1), None);
}

#[test]
fn what_no_message_can_carry_is_refused_here() {
    let mut pair = Pair::new(settings());
    let mut long = call(7, 80_000);
    long.filter = vec![crate::wire::Alternative::default(); MAX_ALTERNATIVES + 1];
    pair.ask(1, Verb::Request, long);
    let mut named = call(8, 80_000);
    named.class = Some(ServiceClass { number: 0, dscp: None, name: "x".repeat(MAX_MESSAGE) });
    pair.ask(2, Verb::Request, named);
    pair.ask(3, Verb::Request, call(9, 80_000));
    pair.settle();
    let limit = Some(Code::LimitReached);
    assert_eq!([1, 2, 3].map(|ticket| pair.outcome(ticket)), [limit, limit, None]);
}
