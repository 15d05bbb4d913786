//! Rows of a router in virtual time: counters never go back, whatever becomes of classes.

mod abr;

use super::*;
use crate::control_thread::FILE;
use crate::forwarder::Forwarder;
use crate::router_forwarder::ChangeJob;
use crossbeam_channel::{Receiver, bounded};
use perhop_contract::{Input, Limits, Output};
use perhop_element::{CostConfig, TraceConfig};
use perhop_graph::router::{EdgePort, Member, Worker, registry};
use perhop_model::{CountersQuery, CountersRow, Given, Op, Outcome, Owner, Transaction, TxnId};
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::Duration;
use perhop_wire::build::udp4;
use serde_json::{Value, json};
use std::sync::mpsc::channel;

const PORTS: [&str; 2] = ["lan", "wan"];
/// Every element type that has gauges, and the queue that is slower than what comes.
const GRAPH: &str = "in :: FromPort(lan); f :: Flows(connections = 256); c :: Conditioner(); \
    l :: Link(100 Mbit/s, 5 ms, limit = 200 packets); q :: Egress(wan, rate = 1 Mbit/s); out :: ToPort(wan); \
    in -> f -> c -> l -> q -> out;";

struct Rig {
    control: Control<RouterPlanner>,
    forwarder: RouterForwarder,
    told: Receiver<ToControl>,
    now: Instant,
    transactions: u8,
    history: History,
}

impl Rig {
    fn new() -> Self {
        Self::on(GRAPH)
    }

    /// On another graph.
    fn on(graph: &str) -> Self {
        let port = |name: &str| EdgePort {
            name: name.to_owned(),
            spec: serde_json::from_value(json!({"rate": 1_000_000})).unwrap(),
        };
        let mut planner = RouterPlanner::new(PORTS.map(port).to_vec(), registry());
        let worker = Worker::new(graph, &mut planner, Pool::new(512), 1).unwrap();
        let control = Control::new(1, planner, Limits::default());
        let (to, told) = bounded(1024);
        let seat = (Member::alone(worker), 0, Vec::new().into());
        let forwarder = RouterForwarder::new(seat, PORTS.map(str::to_owned).to_vec(), to, bounded(1).0);
        let mut rig = Self {
            control,
            forwarder,
            told,
            now: Instant::ZERO,
            transactions: 0,
            history: History::default(),
        };
        let mut ops = PORTS.map(|p| put(Kind::Port, p, json!({"rate": 1_000_000}))).to_vec();
        ops.extend([
            class("a", json!({"default": true})),
            class("p", json!({})),
            class("p/x", json!({"parent": "p"})),
            put(
                Kind::Profile,
                "metered",
                json!({"meter": {"type": "token_bucket", "cir": 8_000, "cbs": 1500}, "red": {"do": "pass"}}),
            ),
            put(
                Kind::Sla,
                "customer",
                json!({"rate": 100_000_000, "burst": 1_000_000, "policy": "ok", "prefixes": ["10.0.0.0/24"]}),
            ),
            put(Kind::Detector, "rtp", json!({"class": "a", "rate": 100_000})),
            put(Kind::Filter, "all", json!({"class": "a", "profile": "metered"})),
        ]);
        rig.commit(ops);
        rig
    }

    fn commit(&mut self, ops: Vec<Op>) {
        self.transactions += 1;
        let transaction = Box::new(Transaction::new(TxnId([self.transactions; 16]), Owner::File, ops));
        self.control.handle_input(self.now, Input::Request { request: 1, who: FILE, transaction });
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Reply { reply, .. } => {
                    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors)
                }
                Output::Apply { ticket, change } => {
                    let mut job = Box::new(ChangeJob { ticket: Some(ticket), change });
                    while self.forwarder.run(self.now, &mut job) == Step::More {}
                    self.control.handle_input(self.now, Input::Applied { ticket });
                }
            }
        }
        self.turn();
    }

    /// What a turn of the two threads does beside packets.
    fn turn(&mut self) {
        if let Some(queue) = self.forwarder.transmit_queue(PortId(1)) {
            queue.release_all();
        }
        assert!(self.forwarder.turn_ended(self.now));
        for message in self.told.try_iter() {
            let ToControl::Freed(freed) = message else { continue };
            for gone in self.control.planner_mut().freed(&freed) {
                self.control.handle_input(self.now, Input::Drained { id: gone.id, dropped: gone.dropped });
            }
        }
    }

    fn send(&mut self, packets: u16) {
        for n in 0..packets {
            let frame = udp4([10, 0, 0, 1], [10, 9, 0, n as u8]).payload(&[0; 900]).build();
            let mut packet = self.forwarder.pool().packet(&frame).unwrap();
            packet.meta_mut().received_at = self.now;
            let mut batch = Batch::new();
            batch.push(packet);
            self.forwarder.receive(self.now, PortId(0), &mut batch);
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.forwarder.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.forwarder.poll(self.now);
            self.turn();
        }
        self.now = end;
    }

    /// The rows that the packet thread adds: the one of the driver with figures that `late` makes larger.
    fn machine(&self, late: u64) -> Vec<Row> {
        let mut rows = PORTS.map(|p| Row::new("port", p)).to_vec();
        let mut pool = Row::new("pool", "pool");
        let counters = crate::machine::pool_counters(&self.forwarder.pool().counters());
        pool.counters.extend(counters.map(|(name, value)| (name.to_owned(), value)));
        let mut driver = Row::new("driver", "driver");
        let lateness = ["timer_late_p50_ns", "timer_late_p99_ns"];
        driver.counters.extend(lateness.map(|name| (name.to_owned(), late)));
        driver.counters.insert("turns".to_owned(), self.now.0);
        rows.extend([pool, driver]);
        rows
    }

    fn ask(&mut self, purpose: Purpose, late: u64) {
        let mut survey = CountSurvey::new(&self.control, purpose);
        while survey.slice(&mut self.forwarder, &mut || true) == Step::More {}
        let rows = self.machine(late);
        Box::new(survey).finish(self.now, rows, &mut self.forwarder);
        let counted = self.told.try_iter().find_map(|told| match told {
            ToControl::Counted(counting) => Some(counting),
            _ => None,
        });
        counted.unwrap().finish(
            &self.control,
            (&PORTS.map(str::to_owned), &["a note".to_owned()]),
            &Steal::now(),
            None,
            &mut self.history,
        );
    }

    fn counters(&mut self, late: u64) -> CountersPage {
        self.counters_of(CountersQuery::default(), late)
    }

    fn counters_of(&mut self, query: CountersQuery, late: u64) -> CountersPage {
        let (to, page) = channel();
        self.ask(Purpose::Counters(query, Box::new(move |p| to.send(p).unwrap())), late);
        page.recv().unwrap()
    }

    fn show(&mut self, what: What) -> ShowPage {
        self.try_show(what, 1000).unwrap()
    }

    fn try_show(&mut self, what: What, limit: usize) -> Result<ShowPage, ErrorItem> {
        let (to, page) = channel();
        self.ask(Purpose::Show(what, limit, Box::new(move |p| to.send(p).unwrap())), 0);
        page.recv().unwrap()
    }
}

fn put(kind: Kind, name: &str, spec: Value) -> Op {
    Op::put(Given::read(kind, Name::new(name).unwrap(), spec, None))
}

fn class(name: &str, more: Value) -> Op {
    let mut spec = json!({"port": "wan", "queue": {"limit": {"packets": 200}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    put(Kind::Class, name, spec)
}

/// The counters of a page by row. Each row is there once.
fn by_row(page: &CountersPage) -> ByRow {
    let key = |r: &CountersRow| (r.kind.clone(), r.name.clone(), r.id);
    let rows: BTreeMap<_, _> = page.rows.iter().map(|r| (key(r), r.counters.clone())).collect();
    assert_eq!(rows.len(), page.rows.len(), "{:?}", page.rows.iter().map(key).collect::<Vec<_>>());
    rows
}

#[test]
fn a_page_says_how_many_rows_there_are() {
    let mut rig = Rig::new();
    let all = rig.show(What::Elements);
    assert_eq!((all.rows.len(), all.more), (all.total, false));
    assert!(all.total > 2);
    let one = rig.try_show(What::Elements, 1).unwrap();
    assert_eq!((one.rows.len(), one.total, one.more), (1, all.total, false));
    let none = rig.show(What::Flows);
    assert_eq!((none.rows.len(), none.total, none.more), (0, 0, false));
}

#[test]
fn no_counter_of_any_row_ever_goes_back() {
    let mut rig = Rig::new();
    let mut before = by_row(&rig.counters(9_000));
    let mut check = |rig: &mut Rig, late: u64| {
        let now = by_row(&rig.counters(late));
        for (row, counters) in &before {
            let same = now.get(row).unwrap_or_else(|| panic!("{row:?} is gone"));
            for (name, value) in counters {
                assert!(
                    same.get(name).is_some_and(|v| v >= value),
                    "{row:?} {name}: {value}, {:?}",
                    same.get(name)
                );
            }
        }
        before = now;
    };
    // Queues fill and empty, a line becomes slower, classes move away and back, in the middle of both.
    for round in 0..4_u64 {
        rig.send(150);
        check(&mut rig, 9_000);
        rig.run_for(Duration::from_millis(200));
        check(&mut rig, 20_000);
        let parent =
            if round % 2 == 0 { json!({"default": true, "parent": "p"}) } else { json!({"default": true}) };
        rig.commit(vec![class("a", parent), put(Kind::Port, "wan", json!({"rate": 900_000 - round}))]);
        check(&mut rig, 20_000);
        rig.send(20);
        rig.run_for(Duration::from_millis(300));
        check(&mut rig, 1_000);
        rig.run_for(Duration::from_secs(20));
        check(&mut rig, 0);
    }
    let kinds: std::collections::BTreeSet<&str> = before.keys().map(|(kind, ..)| kind.as_str()).collect();
    let all = ["class", "driver", "element", "pool", "port", "profile", "realtime", "sla"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
    let class = &before.iter().find(|((_, name, _), _)| name == "a").unwrap().1;
    assert_eq!(class["packets"] + class["dropped_queue_full"], 4 * 170);
}

#[test]
fn what_is_asked_for_is_what_all_has_of_it() {
    let mut rig = Rig::new();
    rig.send(150);
    rig.run_for(Duration::from_millis(200));
    let all = rig.counters(0).rows;
    let names: Vec<Option<String>> =
        all.iter().map(|row| Some(row.name.clone())).chain([None, Some("nothing".to_owned())]).collect();
    let kinds = ["class", "driver", "element", "pool", "port", "profile", "realtime", "sla", "nonsense"];
    let mut found = 0;
    for kind in kinds.map(|kind| Some(kind.to_owned())).into_iter().chain([None]) {
        for name in &names {
            let query = CountersQuery { kind: kind.clone(), name: name.clone(), ..CountersQuery::default() };
            // Of the driver time goes on.
            let keeps = |row: &&CountersRow| query.has(row) && row.kind != "driver";
            let expected: Vec<CountersRow> = all.iter().filter(keeps).cloned().collect();
            let mut got = rig.counters_of(query.clone(), 0).rows;
            got.retain(|row| row.kind != "driver");
            found += got.len();
            assert_eq!(got, expected, "{query:?}");
        }
    }
    assert!(found > 3 * all.len(), "{found}");
    let of_file = CountersQuery { owner: Some(Owner::File), ..CountersQuery::default() };
    let mine = rig.counters_of(of_file, 0).rows;
    assert!(!mine.is_empty() && mine.iter().all(|row| row.owner == "file"), "{mine:?}");
}

/// Numbers by kind, name and id of their row.
type ByRow = BTreeMap<(String, String, u64), BTreeMap<String, u64>>;

/// What is shown of a row and is no gauge.
fn shown_counters(page: &ShowPage) -> ByRow {
    let counters = |row: &Row| row.only_counters().map(|(name, value)| (name.clone(), *value)).collect();
    page.rows.iter().map(|row| ((row.kind.clone(), row.name.clone(), row.id), counters(row))).collect()
}

#[test]
fn what_is_shown_and_is_no_gauge_never_goes_back() {
    let mut rig = Rig::new();
    let whats = [What::All, What::Flows, What::Calls, What::Classes, What::Driver];
    let mut before = whats.map(|_| ByRow::new());
    let mut gauges = 0;
    for round in 0..6_u64 {
        for (what, before) in whats.iter().zip(&mut before) {
            let page = rig.show(*what);
            gauges += page.rows.iter().filter(|row| !row.gauges.is_empty()).count();
            let now = shown_counters(&page);
            for (row, counters) in before.iter() {
                let Some(same) = now.get(row) else { continue };
                let went_back =
                    |(name, value): &(&String, &u64)| same.get(*name).is_none_or(|now| now < *value);
                let back: Vec<_> = counters.iter().filter(went_back).collect();
                assert!(back.is_empty(), "{row:?} {back:?}");
            }
            *before = now;
        }
        rig.send(if round % 2 == 0 { 150 } else { 3 });
        rig.run_for(Duration::from_millis(200 + 4_000 * (round % 3)));
    }
    assert!(gauges > 50, "{gauges}");
    // Whatever an element says of itself as a gauge is named in its row.
    let page = rig.show(What::Elements);
    let row = page.rows.iter().find(|row| row.name == "f").unwrap();
    assert!(["held", "connections"].iter().all(|gauge| row.gauges.contains(*gauge)), "{:?}", row.gauges);
}

#[test]
fn a_default_class_that_nothing_came_to_is_not_active() {
    let state = |rig: &mut Rig| {
        let rows = rig.show(What::Classes).rows;
        let row = rows.into_iter().find(|row| row.name == "wan/default").unwrap();
        row.facts["state"].clone()
    };
    // All goes to class `a`.
    let mut rig = Rig::new();
    rig.send(10);
    rig.run_for(Duration::from_millis(100));
    assert_eq!(state(&mut rig), "unused");
    // Without any class it goes to the tree's own, and is held there.
    let gone = [
        (Kind::Filter, "all"),
        (Kind::Detector, "rtp"),
        (Kind::Class, "a"),
        (Kind::Class, "p/x"),
        (Kind::Class, "p"),
    ];
    let delete =
        |(kind, name)| Op::Delete { kind, name: Name::new(name).unwrap(), if_version: None, drain_ms: None };
    rig.commit(gone.map(delete).to_vec());
    rig.send(10);
    rig.run_for(Duration::from_millis(6));
    assert_eq!(state(&mut rig), "active");
    rig.run_for(Duration::from_secs(5));
    assert_eq!(state(&mut rig), "active");
}

#[test]
fn a_class_that_moves_keeps_one_row_with_all_it_counted() {
    let mut rig = Rig::new();
    rig.send(100);
    rig.run_for(Duration::from_millis(100));
    let row = |rig: &mut Rig| {
        let page = rig.show(What::Classes);
        let mut rows = page.rows.into_iter().filter(|r| r.name == "a");
        let row = rows.next().unwrap();
        assert!(rows.next().is_none(), "two rows");
        row
    };
    let before = row(&mut rig);
    assert!(before.counter("packets") > 10 && before.counter("backlog_packets") > 50, "{before:?}");
    rig.commit(vec![class("a", json!({"default": true, "parent": "p"}))]);
    rig.send(10);
    // Both places count, and hold what is shown.
    let moved = row(&mut rig);
    assert_eq!(moved.id, before.id);
    assert!(moved.counter("packets") >= before.counter("packets"));
    rig.run_for(Duration::from_secs(5));
    let after = row(&mut rig);
    assert_eq!((after.id, after.counter("packets"), after.counter("backlog_packets")), (before.id, 110, 0));
    assert_eq!(after.facts["state"], "active");
}

#[test]
fn gauges_are_shown_and_not_among_the_counters() {
    let mut rig = Rig::new();
    rig.send(50);
    rig.run_for(Duration::from_millis(20));
    let shown = rig.show(What::All);
    let has =
        |kind: &str, name: &str| shown.rows.iter().any(|r| r.kind == kind && r.counters.contains_key(name));
    let counters = rig.counters(5);
    let counted = |kind: &str, name: &str| {
        counters.rows.iter().any(|r| r.kind == kind && r.counters.contains_key(name))
    };
    for (kind, gauge) in [
        ("port", "rate_bps"),
        ("class", "backlog_packets"),
        ("class", "throttled_now"),
        ("pool", "in_depot"),
        ("driver", "timer_late_p99_ns"),
        ("element", "held"),
        ("element", "connections"),
        ("element", "on_the_way"),
        ("element", "backlog_bytes"),
    ] {
        assert!(has(kind, gauge) && !counted(kind, gauge), "{kind} {gauge}");
    }
    for (kind, counter) in
        [("class", "packets"), ("pool", "leaked"), ("driver", "turns"), ("element", "busy_ns")]
    {
        assert!(has(kind, counter) && counted(kind, counter), "{kind} {counter}");
    }
}

#[test]
fn times_are_refused_by_a_router_that_does_not_take_them() {
    let mut rig = Rig::new();
    rig.send(10);
    for what in [What::Costs, What::Histograms, What::Delays] {
        let error = rig.try_show(what, 10).unwrap_err();
        assert_eq!(error.code, Code::Unsupported, "{what:?}");
        assert!(error.message.contains("--profile"), "{}", error.message);
    }
}

/// A clock that stands still but for 40 ns a reading.
fn scripted() -> u64 {
    thread_local!(static TIME: std::cell::Cell<u64> = const { std::cell::Cell::new(1_000_000) });
    TIME.set(TIME.get() + 40);
    TIME.get()
}

#[test]
fn times_of_elements_and_packets_have_rows() {
    let mut rig = Rig::new();
    let driver = rig.forwarder.worker_mut().driver_mut();
    driver.set_costs(Some(CostConfig { clock: scripted, clock_ns: 15, every: 1 }));
    driver.set_trace(Some(TraceConfig { clock: scripted, every: 1, keep: 64 }));
    rig.send(100);
    rig.run_for(Duration::from_secs(2));

    let costs = rig.show(What::Costs).rows;
    let names: Vec<&str> = costs.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["in", "f", "c", "l", "q", "out"]);
    assert!(costs.iter().all(|r| r.kind == "cost"));
    assert_eq!(costs[1].facts["type"], "Flows");
    let conditioner = &costs[2];
    let expected = [("packets", 100), ("mean_ps", 25_000), ("push_max_ps", 25_000), ("push_p50_ps", 25_000)];
    for (name, value) in expected {
        assert_eq!(conditioner.counter(name), value, "{name}");
    }
    // The queue is slower than what comes, and is woken for each packet.
    let queue = &costs[4];
    assert!(queue.counter("wakes") >= 99 && queue.counter("wake_max_ps") == 25_000, "{queue:?}");
    assert!(queue.counter("mean_ps") >= 49_000, "pushes and wakes together: {queue:?}");

    let histograms = rig.show(What::Histograms).rows;
    let flows = histograms.iter().find(|r| r.name == "f.push").unwrap();
    assert_eq!(flows.counters, [("upto_00000000025000".to_owned(), 100)].into());
    let delay = histograms.iter().find(|r| r.name == "delay").unwrap();
    assert_eq!((delay.facts["unit"].as_str(), delay.counters.values().sum::<u64>()), ("ns", 100));

    let delays = rig.try_show(What::Delays, 10).unwrap().rows;
    assert_eq!(delays.iter().map(|r| r.id).collect::<Vec<_>>(), (90..100).collect::<Vec<_>>());
    assert!(delays.iter().all(|r| r.kind == "delay" && r.name == "wan" && r.counter("bytes") == 942));
    let waited: Vec<u64> = delays.iter().map(|r| r.counter("queue_packets")).collect();
    assert!(waited.is_sorted() && waited[0] > 80, "each found what had come before: {waited:?}");
    assert_eq!(rig.show(What::Delays).rows.len(), 64, "those that are kept");
    assert!(
        rig.show(What::All).rows.iter().all(|r| !["cost", "delay", "histogram"].contains(&r.kind.as_str()))
    );
}

#[test]
fn what_is_laid_over_a_class_is_shown_with_it() {
    let mut rig = Rig::new();
    let facts = |rig: &mut Rig, name: &str| {
        let rows = rig.show(What::Classes).rows;
        let row = rows.into_iter().find(|row| row.name == name).unwrap();
        ["allocated", "allocated_most"].map(|fact| row.facts.get(fact).cloned())
    };
    assert_eq!(facts(&mut rig, "a"), [None, None]);
    let rates = |guarantee: u64, ceiling: Option<u64>| {
        put(Kind::Allocation, "laid", json!({"class": "a", "guarantee": guarantee, "ceiling": ceiling}))
    };
    rig.commit(vec![rates(64_000, Some(500_000))]);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(facts(&mut rig, "a"), [text("64 kbit/s"), text("500 kbit/s")]);
    assert_eq!(facts(&mut rig, "p"), [None, None]);
    rig.commit(vec![rates(80_000, None)]);
    assert_eq!(facts(&mut rig, "a"), [text("80 kbit/s"), None]);
    // What a slower port leaves of it is what the class has.
    rig.commit(vec![rates(800_000, Some(800_000))]);
    rig.commit(vec![put(Kind::Port, "wan", json!({"rate": 400_000}))]);
    assert_eq!(facts(&mut rig, "a"), [text("400 kbit/s"), text("400 kbit/s")]);
}

#[test]
fn the_quality_of_a_call_is_shown_with_its_decimals() {
    let call = CallInfo {
        expected: 100,
        received: 97,
        late: 1,
        duplicate: 2,
        loss_runs: 3,
        longest_run: 2,
        jitter_us: 1_250,
        clock_hz: 8_000,
        r_tenths: Some(832),
        mos_thousandths: Some(4_137),
    };
    let mut row = Row::new("call", "udp 10.0.0.1:5004>10.0.0.2:5006");
    let reasons = [Some((DropReason::Policed, 40)), Some((DropReason::QueueFull, 2)), None, None];
    let (r_tenths, mos_thousandths) = (Some(123), Some(1_204));
    let here = HereInfo { left: 55, dropped: 42, reasons, r_tenths, mos_thousandths, ..HereInfo::default() };
    quality(&call, &here, &mut row);
    let facts = ["r", "mos", "r_in", "mos_in"].map(|fact| row.facts[fact].as_str());
    assert_eq!(facts, ["12.3", "1.20", "83.2", "4.14"]);
    let counters = [
        "lost_before",
        "late_in",
        "jitter_us",
        "left",
        "dropped_here",
        "dropped_policed",
        "dropped_queue_full",
    ];
    assert_eq!(counters.map(|counter| row.counters[counter]), [3, 1, 1_250, 55, 42, 40, 2]);
    let video = CallInfo { r_tenths: None, mos_thousandths: None, ..call };
    let mut row = Row::new("call", "udp 10.0.0.1:5004>10.0.0.2:5006");
    quality(&video, &HereInfo::default(), &mut row);
    assert!(row.facts.is_empty());
}
