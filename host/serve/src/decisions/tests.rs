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
    asks: Vec<Ask>,
    wants: Vec<u64>,
    news: Vec<DomainNews>,
    journal: BTreeMap<String, Value>,
}

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
            asks: Vec::new(),
            wants: Vec::new(),
            news: Vec::new(),
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
                    let Some(free) = self.controller else { continue };
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
            };
            self.decider.handle_input(self.now, Question::Lease(input));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.tell(Question::Lease(Input::Tick));
    }

    fn call(&mut self, key: &str) -> Result<ShownReservation, Refusal> {
        let (done, mut answer) = oneshot::channel();
        self.tell(Question::Reserve { owner: "local".into(), wanted: Box::new(wanted(key)), done });
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
        let (done, mut answer) = oneshot::channel();
        let wanted = serde_json::from_value(request).expect("a request");
        rig.tell(Question::Reserve { owner: "local".into(), wanted: Box::new(wanted), done });
        let refused = answer.try_recv().expect("answered").map_err(|refusal| refusal.code);
        assert_eq!(refused.map(|row| row.id), Err(code), "{field}");
    }
    rig.call("key").expect("nothing of them is left");
    let mut other = wanted("key");
    other.bps += 1;
    let (done, mut answer) = oneshot::channel();
    rig.tell(Question::Reserve { owner: "local".into(), wanted: Box::new(other), done });
    let refused = answer.try_recv().expect("answered").map_err(|refusal| refusal.code);
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
