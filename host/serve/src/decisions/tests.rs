//! The machine in virtual time, with a controller and a router that answer at once or are away.

use super::super::shapes::DecidedClass;
use super::*;
use perhop_broker::lease::{Ask, ClassSettings, Decision, Settings};
use perhop_model::FilterMatch;

const KBIT: u64 = 1_000;

/// A machine with who is around it.
struct Rig {
    decider: Decider,
    now: Instant,
    /// What the controller can still give; none = it is away.
    controller: Option<u64>,
    /// It does not answer.
    silent: bool,
    asks: Vec<Ask>,
    wants: Vec<u64>,
    news: Vec<DomainNews>,
    gone: Vec<(u64, Code)>,
    journal: BTreeMap<String, Value>,
}

type Answer = oneshot::Receiver<Result<ShownReservation, Refusal>>;

const DAY: u64 = 5_000_000_000_000_000_000;

fn here() -> DecidedHere {
    let class = ClassSettings { low_water: 1_000_000, ..ClassSettings::default() };
    let leases = Settings::new(BTreeMap::from([("voice".to_owned(), class)]));
    let voice = DecidedClass { to: vec!["east".to_owned()], dscp: "EF".parse().ok() };
    DecidedHere { node: "west".into(), leases, classes: BTreeMap::from([("voice".to_owned(), voice)]) }
}

impl Rig {
    fn new(free: u64) -> Self {
        let now = Instant(1_000_000_000);
        let decider = Decider::new(here(), 1, DAY, now, []).expect("good settings");
        let mut rig = Self {
            decider,
            now,
            controller: Some(free),
            silent: false,
            asks: Vec::new(),
            wants: Vec::new(),
            news: Vec::new(),
            gone: Vec::new(),
            journal: BTreeMap::new(),
        };
        rig.tell(Question::Lease(Input::Back));
        rig
    }

    /// Tells it something, and has all around it answer until nobody has anything to say.
    fn tell(&mut self, question: Question) {
        self.decider.handle_input(self.now, question);
        loop {
            for Keep { name, value } in self.decider.take_kept() {
                match value {
                    Some(value) => drop(self.journal.insert(name, value)),
                    None => drop(self.journal.remove(&name)),
                }
            }
            let Some(wish) = self.decider.poll_wish() else { return };
            let input = match wish {
                Wish::Ask(_, ask) => {
                    self.asks.push(ask.clone());
                    let Some(free) = self.controller.filter(|_| !self.silent) else { continue };
                    let refused = (ask.bps > free).then(|| perhop_broker::lease::Refusal {
                        link: "west/wan".into(),
                        free_bps: 0,
                        ..perhop_broker::lease::Refusal::new(Code::NoCapacity, "voice", ask.bps)
                    });
                    let before = self.decider.leases.leases().map(|(_, granted, ..)| granted).sum();
                    let has = if refused.is_some() { before } else { ask.bps };
                    Input::Decision(Decision { lease: ask.lease, number: ask.number, has, refused })
                }
                Wish::Want { class, number, bps } => {
                    self.wants.push(bps);
                    Input::Committed(class, number)
                }
                Wish::News(news) => {
                    self.news.push(news);
                    continue;
                }
                Wish::Answer(done, result) => {
                    let _ = done.send(*result);
                    continue;
                }
                Wish::Released(done) => {
                    let _ = done.send(Ok(()));
                    continue;
                }
                Wish::Gone(id, code) => {
                    self.gone.push((id, code));
                    continue;
                }
            };
            self.decider.handle_input(self.now, Question::Lease(input));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.tell(Question::Lease(Input::Tick));
    }

    fn call(&mut self, key: &str) -> Result<ShownReservation, Refusal> {
        self.ask(wanted(key), false).try_recv().expect("it is answered at once")
    }

    fn ask(&mut self, wanted: CreateReservation, changes: bool) -> Answer {
        let (done, answer) = oneshot::channel();
        self.tell(Question::Reserve { owner: "local".into(), wanted: Box::new(wanted), changes, done });
        answer
    }

    fn renew(&mut self, id: u64, lifetime_ms: Option<u64>) -> Result<ShownReservation, Refusal> {
        let (done, mut answer) = oneshot::channel();
        self.tell(Question::Renew { owner: "local".into(), id, lifetime_ms, done });
        answer.try_recv().expect("it is answered at once")
    }

    fn release(&mut self, id: u64) -> Result<(), Refusal> {
        let (done, mut answer) = oneshot::channel();
        self.tell(Question::Release { owner: None, id, done });
        answer.try_recv().expect("it is answered at once")
    }

    /// Another life begins with what this one has kept.
    fn killed(&mut self) {
        self.now = Instant(7);
        let day = DAY + 1_000_000_000 - 7;
        let kept = self.journal.clone();
        self.decider = Decider::new(here(), 1_000, day, self.now, kept).expect("good settings");
        self.news.clear();
        self.tell(Question::Lease(Input::Tick));
    }
}

fn wanted(key: &str) -> CreateReservation {
    serde_json::from_value(json!({
        "key": key, "from": "west", "to": "east", "class": "voice", "bps": 80 * KBIT, "lifetime_ms": 40_000,
        "packets": [{ "protocol": 17, "dst_ports": [5004, 5004] }],
    }))
    .expect("a request")
}

#[test]
fn the_controller_and_the_router_are_asked_once_a_chunk() {
    let mut rig = Rig::new(100_000 * KBIT);
    rig.wants.clear();
    for number in 0..30 {
        let row = rig.call(&format!("call-{number}")).expect("there is room");
        assert_eq!((row.bps, row.from.as_str(), row.id), (80 * KBIT, "west", number + 1));
    }
    let asked: Vec<u64> = rig.asks.iter().map(|ask| ask.bps / KBIT).collect();
    assert_eq!(asked, [1_000, 2_000, 3_000], "30 times 80 kbit/s");
    assert_eq!(rig.wants, [1_000 * KBIT, 2_000 * KBIT, 3_000 * KBIT]);
    let DomainNews::Flow(flow) = &rig.news[0] else { panic!("{:?}", rig.news) };
    assert_eq!((flow.id, flow.bps, flow.remaining_ms), (DECIDED_HERE | 1, Rate(80 * KBIT), 40_000));
    assert_eq!(flow.dscp.map(|dscp| dscp.to_string()).as_deref(), Some("EF"));
    assert_eq!(flow.packets[0], FilterMatch { protocol: Some(17), ..flow.packets[0].clone() });
}

#[test]
fn what_is_released_is_given_back_by_chunks_and_the_router_has_it_no_more() {
    let mut rig = Rig::new(100_000 * KBIT);
    let ids: Vec<u64> = (0..30).map(|number| rig.call(&format!("call-{number}")).expect("room").id).collect();
    for id in ids {
        rig.release(id).expect("it was there");
        assert_eq!(rig.release(id).map_err(|refusal| refusal.code), Err(Code::NotFound));
    }
    let last = rig.asks.last().map(|ask| ask.bps);
    assert!(last.is_some_and(|bps| bps <= 2_000 * KBIT), "{last:?}");
    let gone = rig.news.iter().filter(|news| matches!(news, DomainNews::FlowGone { .. })).count();
    assert_eq!(gone, 30);
    assert!(rig.journal.keys().all(|name| !name.starts_with(FLOW)), "{:?}", rig.journal);
}

#[test]
fn without_the_controller_calls_are_admitted_as_long_as_they_fit() {
    let mut rig = Rig::new(100_000 * KBIT);
    rig.call("first").expect("there is room");
    rig.controller = None;
    rig.tell(Question::Lease(Input::Lost));
    let admitted = (0..30).take_while(|number| rig.call(&format!("call-{number}")).is_ok()).count();
    assert_eq!(admitted, 11, "12 times 80 kbit/s in 1 Mbit/s");
    assert_eq!(rig.call("more").map_err(|refusal| refusal.code), Err(Code::BackendFailed));
    assert_eq!(rig.asks.len(), 1, "nobody was asked");
}

#[test]
fn what_the_controller_refuses_is_refused_with_its_link() {
    let mut rig = Rig::new(100 * KBIT);
    rig.call("first").expect("exactly what is needed is there");
    let refusal = rig.call("second").expect_err("no more");
    assert_eq!((refusal.code, refusal.link.as_str()), (Code::NoCapacity, "west/wan"));
    assert!(!refusal.message.is_empty());
    rig.call("first").expect("the same again is the same");
}

#[test]
fn another_life_has_admitted_what_this_one_has() {
    let mut rig = Rig::new(100_000 * KBIT);
    let first = rig.call("first").expect("room");
    let second = rig.call("second").expect("room");
    rig.release(first.id).expect("it was there");
    rig.killed();
    let rows = rig.decider.list();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [second.id]);
    assert_eq!((rows[0].expires_ms, rows[0].created_ms), (second.expires_ms, second.created_ms));
    assert!(
        matches!(&rig.news[..], [DomainNews::Flow(flow)] if flow.remaining_ms == 40_000),
        "{:?}",
        rig.news
    );
    // The router has confirmed what is leased: what fits is admitted without the controller.
    assert_eq!(rig.call("second").expect("the same again").id, second.id);
    assert_eq!(rig.call("third").expect("it fits").id, 3, "no number is used twice");
    // Lives and leases end as if nothing had happened.
    rig.pass(Duration::from_secs(41));
    assert!(rig.decider.list().is_empty());
}

#[test]
fn what_cannot_be_decided_here_is_refused() {
    let mut rig = Rig::new(100_000 * KBIT);
    let cases: [(&str, Value, Code); 7] = [
        ("from", json!("east"), Code::BadReference),
        ("class", json!("video"), Code::BadReference),
        ("to", json!("north"), Code::NoPath),
        ("back_bps", json!(1), Code::Unsupported),
        ("bps", json!(0), Code::OutOfRange),
        ("lifetime_ms", json!(0), Code::OutOfRange),
        ("key", json!(""), Code::OutOfRange),
    ];
    for (field, value, code) in cases {
        let mut request = json!(wanted("key"));
        request[field] = value;
        let wanted = serde_json::from_value(request).expect("a request");
        let refused = rig.ask(wanted, false).try_recv().expect("answered").map_err(|refusal| refusal.code);
        assert_eq!(refused.map(|row| row.id), Err(code), "{field}");
    }
    rig.call("key").expect("nothing of them is left");
    let mut other = wanted("key");
    other.bps += 1;
    let refused = rig.ask(other, false).try_recv().expect("answered").map_err(|refusal| refusal.code);
    assert_eq!(refused.map(|row| row.id), Err(Code::TxnIdReused));
}

#[test]
fn what_the_domain_takes_back_ends_flows_of_the_lease_of_that_name() {
    let mut rig = Rig::new(100_000 * KBIT);
    rig.call("first").expect("room");
    let number = rig.asks[0].number;
    assert_eq!(rig.decider.reduced("voice/north", number, 0), None);
    let input = rig.decider.reduced("voice/east", number, 0).expect("there is one");
    rig.tell(Question::Lease(input));
    assert!(rig.decider.list().is_empty());
    assert!(matches!(rig.news.last(), Some(DomainNews::FlowGone { .. })), "{:?}", rig.news);
}

#[test]
fn a_flow_that_changes_keeps_its_number_and_stays_as_it_was_where_that_is_refused() {
    let mut rig = Rig::new(1_000 * KBIT);
    let first = rig.call("first").expect("room");
    let with = |bps| CreateReservation { bps, ..wanted("first") };
    let answer = |mut answer: Answer| answer.try_recv().expect("it is answered at once");
    let more = answer(rig.ask(with(800 * KBIT), true)).expect("room");
    assert_eq!((more.id, more.bps), (first.id, 800 * KBIT));
    let DomainNews::Flow(told) = rig.news.last().expect("the router is told") else {
        panic!("{:?}", rig.news)
    };
    assert_eq!((told.id, told.bps), (DECIDED_HERE | first.id, Rate(800 * KBIT)));
    let refused = answer(rig.ask(with(1_200 * KBIT), true)).expect_err("there is not so much");
    assert_eq!((refused.code, refused.asked_bps), (Code::NoCapacity, 1_200 * KBIT));
    assert_eq!(rig.decider.list()[0].bps, 800 * KBIT);
    // The same again is no change, and what it has lives on.
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.renew(first.id, None).expect("it is there").bps, 800 * KBIT);
    rig.pass(Duration::from_secs(30));
    let less = answer(rig.ask(with(100 * KBIT), true)).expect("less is always had");
    assert_eq!((less.id, less.bps), (first.id, 100 * KBIT));
    // Another class or node is another flow; without being asked to, nothing changes.
    for (wanted, changes) in
        [(CreateReservation { to: "north".into(), ..with(1) }, true), (with(90 * KBIT), false)]
    {
        let code = answer(rig.ask(wanted, changes)).expect_err("it is another").code;
        assert!(matches!(code, Code::NoPath | Code::TxnIdReused), "{code}");
    }
    rig.killed();
    assert_eq!(rig.decider.list()[0].bps, 100 * KBIT, "the change was kept");
    assert_eq!(answer(rig.ask(with(200 * KBIT), true)).expect("room").id, first.id);
    // Without packets the router is not to know any.
    rig.news.clear();
    answer(rig.ask(CreateReservation { packets: Vec::new(), ..with(200 * KBIT) }, true)).expect("room");
    assert_eq!(rig.news, [DomainNews::FlowGone { id: DECIDED_HERE | first.id }]);
}

#[test]
fn a_change_takes_the_place_of_one_that_waits() {
    let mut rig = Rig::new(100_000 * KBIT);
    let first = rig.call("first").expect("room");
    rig.silent = true;
    let with = |bps| CreateReservation { bps, ..wanted("first") };
    let mut much = rig.ask(with(5_000 * KBIT), true);
    assert!(much.try_recv().is_err(), "nobody has decided yet");
    let mut less = rig.ask(with(90 * KBIT), true);
    assert_eq!(much.try_recv().expect("answered").map_err(|r| r.code).map(|_| ()), Err(Code::StaleVersion));
    assert_eq!(less.try_recv().expect("it fits").expect("it fits").bps, 90 * KBIT);
    // The same of a flow that was never admitted.
    let with = |bps| CreateReservation { bps, ..wanted("second") };
    let mut much = rig.ask(with(5_000 * KBIT), true);
    let mut less = rig.ask(with(50 * KBIT), true);
    assert_eq!(much.try_recv().expect("answered").map_err(|r| r.code).map(|_| ()), Err(Code::StaleVersion));
    let second = less.try_recv().expect("it fits").expect("it fits");
    assert_eq!((second.id, second.bps), (first.id + 1, 50 * KBIT));
    assert_eq!(rig.decider.list().len(), 2);
}

#[test]
fn whoever_listens_hears_why_a_flow_is_gone() {
    let mut rig = Rig::new(100_000 * KBIT);
    let ids: Vec<u64> =
        ["a/1", "a/2", "b/1"].into_iter().map(|key| rig.call(key).expect("room").id).collect();
    let (done, mut answer) = oneshot::channel();
    rig.tell(Question::Owned { owner: "local".into(), begin: "a/".into(), done });
    let owned = answer.try_recv().expect("answered");
    assert_eq!(owned, [(ids[0], "a/1".to_owned()), (ids[1], "a/2".to_owned())]);
    let (done, mut answer) = oneshot::channel();
    rig.tell(Question::Owned { owner: "loc".into(), begin: String::new(), done });
    assert_eq!(answer.try_recv(), Ok(Vec::new()), "another's");
    rig.release(ids[0]).expect("it was there");
    rig.renew(ids[1], Some(100_000)).expect("it is there");
    rig.pass(Duration::from_secs(41));
    assert_eq!(rig.gone, [(ids[0], Code::Forbidden), (ids[2], Code::Timeout)]);
    assert_eq!(rig.renew(ids[2], None).map_err(|refusal| refusal.code).map(|_| ()), Err(Code::NotFound));
    let number = rig.asks.last().expect("it was asked").number;
    let input = rig.decider.reduced("voice/east", number, 0).expect("there is one");
    rig.tell(Question::Lease(input));
    assert_eq!(rig.gone.last(), Some(&(ids[1], Code::Preempted)));
}
