//! Scripts in virtual time: one lease, a broker and a router that the test plays.

use super::*;
use crate::lease::{FlowAsk, Model, Row, Snapshot};

const CHUNK: u64 = 800_000;
const CALL: u64 = 80_000;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn settings(class: ClassSettings) -> Settings {
    Settings::new(BTreeMap::from([("voice".to_owned(), class)]))
}

fn chunks() -> ClassSettings {
    ClassSettings {
        model: Model::Provisioned,
        chunk: CHUNK,
        high_water: 2 * CHUNK,
        low_water: CHUNK,
        minimum: 0,
    }
}

fn id(n: u64) -> FlowId {
    FlowId { owner: "phone".to_owned(), idem: format!("{n:04}") }
}

fn call(n: u64, version: u64, bps: u64) -> Input {
    Input::Flow(FlowAsk {
        flow: id(n),
        version,
        class: "voice".to_owned(),
        to: None,
        bps,
        lifetime: Duration::from_secs(600),
    })
}

/// The machine and what it said last.
struct Play {
    leases: Leases,
    asks: Vec<Ask>,
    wants: Vec<(u64, u64)>,
    answers: Vec<(u64, Result<(), Code>)>,
    ended: Vec<(u64, End)>,
}

impl Play {
    fn new(class: ClassSettings) -> Self {
        let mut play = Self::begin(Leases::new(settings(class), 100, Instant::ZERO).expect("good settings"));
        play.put(0, Input::Back);
        play
    }

    fn begin(leases: Leases) -> Self {
        Self { leases, asks: vec![], wants: vec![], answers: vec![], ended: vec![] }
    }

    fn put(&mut self, at: u64, input: Input) {
        (self.asks, self.wants, self.answers, self.ended) = (vec![], vec![], vec![], vec![]);
        self.leases.handle_input(ms(at), input);
        let n = |flow: &FlowId| flow.idem.parse().expect("a number");
        while let Some(output) = self.leases.poll_output() {
            match output {
                Output::Ask(ask) => self.asks.push(ask),
                Output::Want { number, bps, .. } => self.wants.push((number, bps)),
                Output::Answer { flow, result, .. } => {
                    self.answers.push((n(&flow), result.map_err(|refusal| refusal.code)));
                }
                Output::Ended(flow, why) => self.ended.push((n(&flow), why)),
                Output::Released(_) => {}
            }
        }
    }

    /// The only question that was sent.
    fn ask(&self) -> Ask {
        assert_eq!(self.asks.len(), 1, "{:?}", self.asks);
        self.asks[0].clone()
    }

    fn decide(&mut self, at: u64, ask: &Ask, has: u64) {
        let decision = Decision { lease: ask.lease.clone(), number: ask.number, has, refused: None };
        self.put(at, Input::Decision(decision));
    }

    fn refuse(&mut self, at: u64, ask: &Ask, has: u64, free: u64) {
        let refused = Refusal {
            link: "core-edge2".to_owned(),
            free_bps: free,
            ..Refusal::new(Code::NoCapacity, "voice", ask.bps)
        };
        let refused = Some(refused);
        let decision = Decision { lease: ask.lease.clone(), number: ask.number, has, refused };
        self.put(at, Input::Decision(decision));
    }

    fn commit(&mut self, at: u64) {
        let number = self.wants.last().expect("something is wanted").0;
        self.put(at, Input::Committed("voice".to_owned(), number));
    }

    /// What is asked for is granted, and the router has it.
    fn grant(&mut self, at: u64) {
        if let [ask] = &self.asks[..] {
            let ask = ask.clone();
            self.decide(at, &ask, ask.bps);
            if !self.wants.is_empty() {
                self.commit(at);
            }
        }
    }

    /// Calls 0 … n − 1 are admitted.
    fn with_calls(class: ClassSettings, n: u64) -> Self {
        let mut play = Self::new(class);
        play.grant(0);
        for call_no in 0..n {
            play.put(0, call(call_no, 1, CALL));
            play.grant(0);
        }
        assert_eq!(play.leases.leases().map(|(_, _, _, admitted)| admitted).sum::<u64>(), n * CALL);
        play
    }

    fn held(&self) -> (u64, u64, u64) {
        let mut leases = self.leases.leases();
        let lease =
            leases.next().map_or((0, 0, 0), |(_, granted, usable, admitted)| (granted, usable, admitted));
        assert!(leases.next().is_none(), "one lease");
        lease
    }

    fn state(&self) -> Option<State> {
        self.leases.leases.values().next().map(|lease| lease.state)
    }
}

#[test]
fn calls_of_a_chunk_need_one_question_and_one_change_of_the_router() {
    let mut play = Play::new(chunks());
    let (mut asks, mut wants) = (0, 0);
    for n in 0..30 {
        play.put(n, call(n, 1, CALL));
        if let [ask] = &play.asks[..] {
            asks += 1;
            let ask = ask.clone();
            play.decide(n, &ask, ask.bps);
            wants += play.wants.len();
            assert_eq!(play.answers, [], "the router goes first");
            play.commit(n);
        }
        assert_eq!(play.answers, [(n, Ok(()))]);
    }
    assert_eq!((asks, wants), (3, 3));
    assert_eq!(play.held(), (3 * CHUNK, 3 * CHUNK, 3 * CHUNK));
}

#[test]
fn calls_that_come_while_a_question_is_open_share_it() {
    let mut play = Play::new(chunks());
    play.put(0, call(0, 1, CALL));
    let ask = play.ask();
    assert_eq!(ask.bps, CHUNK);
    for n in 1..25 {
        play.put(1, call(n, 1, CALL));
        assert_eq!((play.asks.len(), play.wants.len()), (0, 0));
    }
    play.decide(2, &ask, CHUNK);
    play.commit(3);
    assert_eq!(play.answers.len(), 10, "a chunk's worth");
    let ask = play.ask();
    assert_eq!(ask.bps, 3 * CHUNK, "fifteen calls need two chunks more, asked for once");
    play.decide(4, &ask, 3 * CHUNK);
    assert_eq!(play.wants.len(), 1);
    play.commit(5);
    assert_eq!(play.answers.len(), 15);
    assert_eq!(play.held(), (3 * CHUNK, 3 * CHUNK, 25 * CALL));
}

#[test]
fn a_refused_chunk_is_followed_by_what_is_needed_and_then_by_a_refusal_that_says_why() {
    let mut play = Play::new(chunks());
    play.put(0, call(0, 1, CALL));
    let ask = play.ask();
    play.refuse(1, &ask, 0, 100_000);
    assert_eq!(play.ask().bps, CALL);
    assert_eq!(play.answers, []);
    let ask = play.ask();
    play.refuse(2, &ask, 0, 70_000);
    assert_eq!(play.answers, [(0, Err(Code::NoCapacity))]);
    assert_eq!((play.asks.len(), play.wants.len()), (0, 0));
    assert_eq!(play.held(), (0, 0, 0));
    assert_eq!(play.leases.next_wakeup(), None, "nothing is left");
}

#[test]
fn of_several_calls_those_are_admitted_that_fit_into_what_is_free() {
    let mut play = Play::new(chunks());
    for n in 0..5 {
        play.put(0, call(n, 1, CALL));
        if n == 0 {
            let _ = play.ask();
        }
    }
    let number = play.leases.number;
    let ask = Ask {
        lease: LeaseId { class: "voice".to_owned(), to: None, flow: None },
        number,
        bps: CHUNK,
        lifetime: Duration::from_secs(60),
    };
    play.refuse(1, &ask, 0, 250_000);
    let ask = play.ask();
    assert_eq!(ask.bps, 5 * CALL);
    play.refuse(2, &ask, 0, 250_000);
    assert_eq!(play.answers, [(3, Err(Code::NoCapacity)), (4, Err(Code::NoCapacity))]);
    let ask = play.ask();
    assert_eq!(ask.bps, 3 * CALL);
    play.decide(3, &ask, 3 * CALL);
    play.commit(4);
    assert_eq!(play.answers, [(0, Ok(())), (1, Ok(())), (2, Ok(()))]);
}

#[test]
fn free_chunks_go_back_after_the_router_has_less_and_not_below_the_low_water() {
    let mut play = Play::with_calls(chunks(), 30);
    // 2 chunks may be free. What goes back leaves one.
    for n in 0..20 {
        play.put(10, Input::Release(id(n)));
        assert_eq!((play.asks.len(), play.wants.len()), (0, 0), "after {n}");
    }
    play.put(11, Input::Release(id(20)));
    assert_eq!(play.asks.len(), 0, "the router goes first");
    assert_eq!(play.wants.last().map(|want| want.1), Some(2 * CHUNK));
    assert_eq!(play.held(), (3 * CHUNK, 2 * CHUNK, 9 * CALL));
    play.commit(12);
    let ask = play.ask();
    assert_eq!(ask.bps, 2 * CHUNK);
    play.decide(13, &ask, 2 * CHUNK);
    assert_eq!(play.held(), (2 * CHUNK, 2 * CHUNK, 9 * CALL));
    assert_eq!(play.state(), Some(State::Held));
}

#[test]
fn the_provisioned_minimum_is_asked_for_beforehand_and_kept() {
    let class = ClassSettings { minimum: 2 * CHUNK, ..chunks() };
    let mut play = Play::begin(Leases::new(settings(class), 1, Instant::ZERO).expect("good settings"));
    play.put(0, call(0, 1, CALL));
    assert_eq!(play.answers, [(0, Err(Code::BackendFailed))], "nobody is there to ask");
    play.put(0, Input::Back);
    let ask = play.ask();
    assert_eq!(ask.bps, 2 * CHUNK);
    play.decide(0, &ask, 2 * CHUNK);
    play.commit(0);
    play.put(1, call(1, 1, CALL));
    assert_eq!((play.answers.clone(), play.asks.len()), (vec![(1, Ok(()))], 0));
    play.put(2, Input::Release(id(1)));
    assert_eq!((play.asks.len(), play.wants.len()), (0, 0));
    play.put(30_000, Input::Tick);
    assert_eq!(play.ask().bps, 2 * CHUNK, "a renewal");
}

#[test]
fn an_unused_lease_is_given_back_when_it_would_be_renewed() {
    let mut play = Play::with_calls(chunks(), 1);
    play.put(1, Input::Release(id(0)));
    assert_eq!(play.held(), (CHUNK, CHUNK, 0));
    play.put(30_000, Input::Tick);
    assert_eq!(play.wants.last().map(|want| want.1), Some(0));
    play.commit(30_001);
    let ask = play.ask();
    assert_eq!(ask.bps, 0);
    play.decide(30_002, &ask, 0);
    assert_eq!((play.state(), play.leases.next_wakeup()), (None, None));
}

#[test]
fn what_is_granted_too_late_is_given_back() {
    let mut play = Play::new(chunks());
    play.put(0, call(0, 1, CALL));
    let first = play.ask();
    play.put(200, Input::Tick);
    assert_eq!(play.ask(), first, "the same again");
    play.put(500, Input::Tick);
    assert_eq!(play.answers, [(0, Err(Code::Timeout))]);
    let ask = play.ask();
    assert_eq!(ask.bps, 0);
    assert!(ask.number > first.number);
    play.decide(501, &first, CHUNK);
    assert_eq!((play.held(), play.wants.len()), ((0, 0, 0), 0), "too late");
    play.decide(502, &ask, 0);
    assert_eq!(play.state(), None);
}

#[test]
fn more_that_is_granted_too_late_is_given_back() {
    let mut play = Play::with_calls(chunks(), 10);
    play.put(10, call(10, 1, CALL));
    let first = play.ask();
    assert_eq!(first.bps, 2 * CHUNK);
    play.put(510, Input::Tick);
    let ask = play.asks.last().expect("another question").clone();
    assert_eq!((ask.bps, play.answers.clone()), (CHUNK, vec![(10, Err(Code::Timeout))]));
    play.decide(511, &first, 2 * CHUNK);
    assert_eq!(play.held(), (CHUNK, CHUNK, CHUNK));
    play.decide(512, &ask, CHUNK);
    assert_eq!(play.state(), Some(State::Held));
}

#[test]
fn without_a_broker_a_lease_admits_inside_does_not_grow_and_ends() {
    let mut play = Play::with_calls(chunks(), 9);
    play.put(100, Input::Lost);
    assert_eq!(play.state(), Some(State::Frozen));
    play.put(101, call(9, 1, CALL));
    assert_eq!(play.answers, [(9, Ok(()))]);
    play.put(102, call(10, 1, CALL));
    assert_eq!((play.answers.clone(), play.asks.len()), (vec![(10, Err(Code::BackendFailed))], 0));
    // Asked for at 0, it ends after the lifetime of 60 s less the margin of 5 s.
    assert_eq!(play.leases.next_wakeup(), Some(ms(55_000)));
    play.put(54_999, Input::Tick);
    assert_eq!(play.ended, []);
    play.put(55_000, Input::Tick);
    assert_eq!(play.ended.len(), 10);
    assert!(play.ended.iter().all(|(_, why)| *why == End::LeaseExpired));
    assert_eq!(play.wants.last().map(|want| want.1), Some(0));
    assert_eq!(play.state(), Some(State::None), "the router may still have it");
    play.commit(55_001);
    assert_eq!((play.state(), play.leases.next_wakeup()), (None, None));
}

#[test]
fn a_broker_that_is_back_is_asked_for_what_is_held() {
    let mut play = Play::with_calls(chunks(), 9);
    play.put(100, Input::Lost);
    play.put(200, Input::Back);
    let ask = play.ask();
    assert_eq!((ask.bps, play.state()), (CHUNK, Some(State::Changing)));
    play.put(201, call(9, 1, CALL));
    assert_eq!(play.answers, [(9, Ok(()))]);
    play.decide(202, &ask, CHUNK);
    assert_eq!((play.held(), play.state()), ((CHUNK, CHUNK, CHUNK), Some(State::Held)));
    // If it has booked less meanwhile, the youngest go.
    play.put(300, Input::Lost);
    play.put(301, Input::Back);
    let ask = play.ask();
    play.refuse(302, &ask, 3 * CALL, 0);
    assert_eq!(play.ended.len(), 7);
    assert_eq!(play.ended[0], (9, End::Preempted));
    assert_eq!(play.held(), (3 * CALL, 3 * CALL, 3 * CALL));
}

#[test]
fn what_was_asked_when_the_broker_went_is_given_back_when_it_comes() {
    let mut play = Play::new(chunks());
    play.put(0, call(0, 1, CALL));
    let first = play.ask();
    play.put(1, Input::Lost);
    assert_eq!(
        (play.answers.clone(), play.state()),
        (vec![(0, Err(Code::BackendFailed))], Some(State::Frozen))
    );
    play.put(2, Input::Back);
    let ask = play.ask();
    assert_eq!((ask.bps, play.state()), (0, Some(State::Returning)));
    assert!(ask.number > first.number);
    play.decide(3, &ask, 0);
    assert_eq!(play.state(), None);
}

#[test]
fn a_lease_on_its_way_back_is_given_back_after_an_outage() {
    let mut play = Play::with_calls(chunks(), 30);
    for n in 0..21 {
        play.put(10, Input::Release(id(n)));
    }
    let want = play.wants.clone();
    play.put(11, Input::Lost);
    play.put(12, Input::Back);
    assert_eq!((play.asks.len(), play.state()), (0, Some(State::Returning)), "the router has not less yet");
    play.wants = want;
    play.commit(13);
    assert_eq!(play.ask().bps, 2 * CHUNK);
    // The answer is lost; after the next outage what is held is asked for.
    play.put(14, Input::Lost);
    play.put(15, Input::Back);
    assert_eq!((play.ask().bps, play.state()), (2 * CHUNK, Some(State::Changing)));
}

#[test]
fn what_the_router_refuses_goes_back_to_the_broker() {
    let mut play = Play::with_calls(chunks(), 10);
    play.put(1, call(10, 1, CALL));
    let ask = play.ask();
    play.decide(2, &ask, 2 * CHUNK);
    let number = play.wants[0].0;
    play.put(3, Input::Refused("voice".to_owned(), number, Refusal::new(Code::NoCapacity, "voice", 0)));
    assert_eq!(play.answers, [(10, Err(Code::NoCapacity))]);
    assert_eq!(play.wants.last(), Some(&(number + 1, CHUNK)));
    assert_eq!(play.asks.len(), 0);
    play.commit(4);
    let ask = play.ask();
    assert_eq!(ask.bps, CHUNK);
    play.decide(5, &ask, CHUNK);
    assert_eq!(play.held(), (CHUNK, CHUNK, CHUNK));
}

#[test]
fn a_router_that_does_not_take_less_is_asked_again() {
    let mut play = Play::with_calls(chunks(), 30);
    for n in 0..21 {
        play.put(10, Input::Release(id(n)));
    }
    let number = play.wants[0].0;
    play.put(11, Input::Refused("voice".to_owned(), number, Refusal::new(Code::Overload, "voice", 0)));
    assert_eq!((play.asks.len(), play.wants.len()), (0, 0));
    play.put(1_011, Input::Tick);
    assert_eq!(play.wants, [(number + 1, 2 * CHUNK)]);
    play.commit(1_012);
    assert_eq!(play.ask().bps, 2 * CHUNK);
}

#[test]
fn requests_are_done_once_and_in_the_order_of_their_versions() {
    let mut play = Play::with_calls(chunks(), 1);
    play.put(1, call(0, 1, CALL));
    assert_eq!(play.answers, [(0, Ok(()))], "again");
    play.put(2, call(0, 1, CALL + 1));
    assert_eq!(play.answers, [(0, Err(Code::TxnIdReused))]);
    play.put(3, call(0, 2, 2 * CALL));
    assert_eq!((play.answers.clone(), play.held().2), (vec![(0, Ok(()))], 2 * CALL));
    play.put(4, call(0, 1, CALL));
    assert_eq!(play.answers, [(0, Err(Code::StaleVersion))]);
    play.put(5, call(0, 3, CHUNK + CALL));
    let ask = play.ask();
    play.put(5, call(0, 3, CHUNK + CALL));
    assert_eq!((play.answers.len(), play.asks.len()), (0, 0), "it waits");
    play.refuse(6, &ask, CHUNK, 0);
    let ask = play.ask();
    play.refuse(7, &ask, CHUNK, 0);
    assert_eq!(play.answers, [(0, Err(Code::NoCapacity))]);
    assert_eq!(play.held().2, 2 * CALL, "what it had it keeps");
    play.put(8, call(0, 4, CALL / 2));
    assert_eq!((play.answers.clone(), play.held().2), (vec![(0, Ok(()))], CALL / 2));
    play.put(9, call(1, 1, 0));
    assert_eq!(play.answers, [(1, Err(Code::OutOfRange))]);
    let Input::Flow(ask) = call(2, 1, 1) else { unreachable!() };
    play.put(9, Input::Flow(FlowAsk { class: "video".to_owned(), ..ask }));
    assert_eq!(play.answers, [(2, Err(Code::BadReference))]);
}

#[test]
fn a_flow_ends_unless_it_is_renewed() {
    let mut play = Play::with_calls(ClassSettings { minimum: CHUNK, ..chunks() }, 2);
    play.put(20_000, call(0, 1, CALL));
    for at in (30_000..620_000).step_by(10_000) {
        play.put(at, Input::Tick);
        let expected: &[_] = if at == 600_000 { &[(1, End::Expired)] } else { &[] };
        assert_eq!(play.ended, expected, "at {at} ms");
        play.grant(at);
    }
    play.put(620_000, Input::Tick);
    assert_eq!(play.ended, [(0, End::Expired)]);
}

#[test]
fn an_outsourced_flow_has_a_question_of_its_own() {
    let class = ClassSettings { model: Model::Outsourced, ..chunks() };
    let mut play = Play::new(class);
    for n in 0..3 {
        play.put(n, call(n, 1, CALL));
        let ask = play.ask();
        assert_eq!((ask.bps, ask.lease.flow.clone()), (CALL, Some(id(n))));
        play.decide(n, &ask, CALL);
        assert_eq!(play.wants.last().map(|want| want.1), Some((n + 1) * CALL));
        play.commit(n);
        assert_eq!(play.answers, [(n, Ok(()))]);
    }
    play.put(5, Input::Release(id(1)));
    assert_eq!(play.asks.len(), 0);
    play.commit(6);
    assert_eq!((play.ask().bps, play.ask().lease.flow), (0, Some(id(1))));
}

#[test]
fn in_the_mix_the_broker_is_asked_about_flows_that_do_not_fit() {
    let class = ClassSettings { model: Model::Mixed, minimum: 2 * CALL, ..chunks() };
    let mut play = Play::begin(Leases::new(settings(class), 1, Instant::ZERO).expect("good settings"));
    play.put(0, Input::Back);
    let ask = play.ask();
    play.decide(0, &ask, 2 * CALL);
    play.commit(0);
    for n in 0..2 {
        play.put(1, call(n, 1, CALL));
        assert_eq!((play.answers.clone(), play.asks.len()), (vec![(n, Ok(()))], 0));
    }
    play.put(2, call(2, 1, CALL));
    let ask = play.ask();
    assert_eq!((ask.bps, ask.lease.flow.clone()), (CALL, Some(id(2))));
    play.decide(3, &ask, CALL);
    play.commit(3);
    assert_eq!(play.answers, [(2, Ok(()))]);
    // One that grows beyond what is local goes over.
    play.put(4, call(0, 2, 3 * CALL));
    let ask = play.ask();
    assert_eq!((ask.bps, ask.lease.flow.clone()), (3 * CALL, Some(id(0))));
    play.decide(5, &ask, 3 * CALL);
    play.commit(5);
    assert_eq!(play.answers, [(0, Ok(()))]);
    play.put(6, call(3, 1, CALL));
    assert_eq!((play.answers.clone(), play.asks.len()), (vec![(3, Ok(()))], 0), "there is room again");
}

#[test]
fn changes_of_many_leases_wait_for_no_later_one() {
    let class = ClassSettings { model: Model::Outsourced, ..chunks() };
    let mut play = Play::new(class);
    play.put(0, call(0, 1, CALL));
    let ask = play.ask();
    play.decide(0, &ask, CALL);
    let first = play.wants[0].0;
    play.put(1, call(1, 1, CALL));
    let ask = play.ask();
    play.decide(1, &ask, CALL);
    assert_eq!(play.wants, [(first + 1, 2 * CALL)]);
    play.put(2, Input::Committed("voice".to_owned(), first));
    assert_eq!(play.answers, [(0, Ok(()))]);
    play.put(3, Input::Committed("voice".to_owned(), first + 1));
    assert_eq!(play.answers, [(1, Ok(()))]);
}

#[test]
fn what_was_admitted_stays_admitted_when_the_process_is_killed() {
    let mut play = Play::with_calls(chunks(), 12);
    play.put(1, Input::Release(id(3)));
    let snapshot = play.leases.snapshot();
    // The rows make the same.
    let mut kept = Snapshot::default();
    for row in play.leases.take_rows() {
        match row {
            Row::Lease(row) => kept.leases.push(row),
            Row::Flow(row) => kept.flows.push(row),
            Row::LeaseGone(_) => {}
            Row::FlowGone(flow) => assert_eq!(flow, id(3)),
        }
    }
    assert_eq!(kept, snapshot);
    let text = serde_json::to_string(&snapshot).expect("plain data");
    let snapshot = serde_json::from_str(&text).expect("plain data");
    let leases = Leases::restore(settings(chunks()), 10_000, ms(2), snapshot).expect("good settings");
    let mut play = Play::begin(leases);
    assert_eq!(play.state(), Some(State::Frozen));
    play.put(3, call(4, 1, CALL));
    assert_eq!(play.answers, [(4, Ok(()))], "the same request again");
    assert_eq!(play.held(), (2 * CHUNK, 11 * CALL, 11 * CALL), "more when the router has it");
    play.put(4, Input::Committed("voice".to_owned(), 1));
    play.put(5, call(20, 1, CALL));
    assert_eq!(play.answers, [(20, Ok(()))]);
    play.put(6, Input::Back);
    assert!(play.ask().number > 10_000);
    assert_eq!(play.ask().bps, 2 * CHUNK);
}

#[test]
fn flows_whose_lease_is_not_there_end_at_once() {
    let mut snapshot = Play::with_calls(chunks(), 2).leases.snapshot();
    snapshot.leases[0].bps = CALL;
    let leases = Leases::restore(settings(chunks()), 10_000, ms(2), snapshot).expect("good settings");
    let mut play = Play::begin(leases);
    play.put(3, Input::Tick);
    assert_eq!((play.ended.clone(), play.held().2), (vec![(1, End::LeaseExpired)], CALL));
}

#[test]
fn a_lease_of_which_who_gives_it_knows_more_goes_on_from_there() {
    let mut play = Play::new(chunks());
    play.put(0, call(0, 1, CALL));
    let ask = play.ask();
    // A life before, whose journal is lost, has asked with higher numbers.
    let lease = ask.lease.clone();
    let last = Decision { lease, number: 5_000, has: 3 * CHUNK, refused: None };
    play.put(1, Input::Decision(last));
    let ask = play.ask();
    assert_eq!((ask.number, ask.bps), (5_001, CHUNK));
    play.decide(2, &ask, CHUNK);
    play.commit(3);
    assert_eq!(play.answers, [(0, Ok(()))]);
}

#[test]
fn what_the_broker_takes_back_the_youngest_lose_unless_that_is_out_of_date() {
    let mut play = Play::with_calls(chunks(), 10);
    let lease = LeaseId { class: "voice".to_owned(), to: None, flow: None };
    let back = |number, has| Input::Reduced(Decision { lease: lease.clone(), number, has, refused: None });
    play.put(1, back(100, 0));
    assert_eq!(play.ended, [], "behind a later decision");
    play.put(1, back(101, 5 * CALL));
    assert_eq!(play.ended.len(), 5);
    assert_eq!((play.ended[0], play.held()), ((9, End::Preempted), (5 * CALL, 5 * CALL, 5 * CALL)));
    play.commit(1);
    play.put(2, call(20, 1, CALL));
    let ask = play.ask();
    play.put(3, back(ask.number, 0));
    assert_eq!((play.ended.len(), play.held()), (5, (0, 0, 0)));
    play.decide(4, &ask, ask.bps);
    assert_eq!(play.held().0, 0, "it was answered before");
}

#[test]
fn limits_are_kept() {
    let mut few = settings(chunks());
    few.limits = crate::lease::Limits { flows: 3, waiting: 2, leases: 1 };
    let mut play = Play::begin(Leases::new(few, 1, Instant::ZERO).expect("good settings"));
    play.put(0, Input::Back);
    play.put(0, call(0, 1, CALL));
    play.put(0, call(1, 1, CALL));
    play.put(0, call(2, 1, CALL));
    assert_eq!(play.answers, [(2, Err(Code::Overload))]);
    let Input::Flow(ask) = call(3, 1, CALL) else { unreachable!() };
    play.put(0, Input::Flow(FlowAsk { to: Some("edge2".to_owned()), ..ask }));
    assert_eq!(play.answers, [(3, Err(Code::LimitReached))]);
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let error = |class| settings(class).check().expect_err("refused").to_string();
    assert!(error(ClassSettings { chunk: 0, ..chunks() }).contains("chunk = 0 bit/s"));
    assert!(error(ClassSettings { high_water: CHUNK - 1, ..chunks() }).contains("800000 at least"));
    assert!(error(ClassSettings { minimum: u64::MAX, ..chunks() }).contains("minimum"));
    let long = Settings { margin: Duration::from_secs(30), ..settings(chunks()) };
    assert!(long.check().is_err_and(|error| error.to_string().contains("below half")));
}
