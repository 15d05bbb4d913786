use super::*;
use crate::size::LognormalSize;
use crate::tcp::web::Http;
use crate::tcp::{Direction, ENDLESS_BACKLOG_BYTES};

/// A network in which every connection has the same rate to itself and bytes take half a round trip; it checks that
/// the application keeps to the rules.
struct Network {
    rtt: Duration,
    byte_ns: u64,
    /// Of 1000 openings so many are refused, and so many are reset when half a round trip has passed behind the second.
    refused_milli: u64,
    reset_milli: u64,
    /// What one event carries.
    portion: u64,
    generator: Generator,
    queue: BTreeMap<(Instant, u64), AppEvent>,
    sequence: u64,
    conns: Vec<Conn>,
    failures: u64,
}

#[derive(Clone, Copy, Default)]
struct Conn {
    free: [Instant; 2],
    closed: [bool; 2],
    gone: bool,
}

impl Network {
    fn new(rtt_ms: u64, bit_s: u64, seed: u64) -> Self {
        Self {
            rtt: Duration::from_millis(rtt_ms),
            byte_ns: 8_000_000_000 / bit_s,
            refused_milli: 0,
            reset_milli: 0,
            portion: 65_536,
            generator: Seed::new(seed).generator(9),
            queue: BTreeMap::new(),
            sequence: 0,
            conns: Vec::new(),
            failures: 0,
        }
    }

    fn at(&mut self, at: Instant, event: AppEvent) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), event);
    }

    fn half(&self) -> Duration {
        Duration(self.rtt.0 / 2)
    }

    fn forget(&mut self, conn: ConnId) {
        self.conns[conn.0 as usize].gone = true;
        self.queue.retain(|_, event| event.conn() != conn);
    }

    fn act(&mut self, now: Instant, action: AppAction) {
        match action {
            AppAction::Open { conn } => {
                assert_eq!(conn.0 as usize, self.conns.len(), "connections count up");
                self.conns.push(Conn { free: [now + self.rtt; 2], ..Conn::default() });
                if self.generator.below(1000) < self.refused_milli {
                    self.at(now + self.rtt, AppEvent::Failed { conn });
                    return;
                }
                self.at(now + self.half(), AppEvent::Accepted { conn });
                self.at(now + self.rtt, AppEvent::Opened { conn });
                if self.generator.below(1000) < self.reset_milli {
                    let later = Duration(self.generator.below(2_000_000_000));
                    self.at(now + self.rtt + later, AppEvent::Failed { conn });
                }
            }
            AppAction::Write { conn, side, bytes } => {
                assert!(bytes > 0);
                let i = side as usize;
                let state = self.conns[conn.0 as usize];
                assert!(!state.closed[i] && !state.gone, "writes come before the close");
                // These sockets hold 64 MiB; of an endless backlog what is beyond them is replaced before its turn comes.
                let mut left = if bytes == ENDLESS_BACKLOG_BYTES { 64 << 20 } else { bytes };
                let mut free = state.free[i].max(now);
                // An endless backlog is not played out before its time.
                while left > 0 && free < Instant(1_000_000_000_000) {
                    let portion = left.min(self.portion);
                    free += Duration(portion * self.byte_ns);
                    let half = self.half();
                    self.at(free + half, AppEvent::Received { conn, side: side.peer(), bytes: portion });
                    left -= portion;
                }
                self.conns[conn.0 as usize].free[i] = free;
            }
            AppAction::Close { conn, side } => {
                let i = side as usize;
                let state = &mut self.conns[conn.0 as usize];
                assert!(!state.closed[i] && !state.gone, "a side closes once");
                state.closed[i] = true;
                let at = state.free[i].max(now);
                let both = state.closed == [true; 2];
                let last = state.free[0].max(state.free[1]).max(now);
                let half = self.half();
                self.at(at + half, AppEvent::PeerClosed { conn, side: side.peer() });
                if both {
                    self.at(last + self.rtt, AppEvent::Ended { conn });
                }
            }
            AppAction::Abort { conn } => {
                assert!(!self.conns[conn.0 as usize].gone);
                self.forget(conn);
            }
        }
    }

    fn run(&mut self, app: &mut TcpWorkload, until: Duration) -> Vec<AppAction> {
        let mut all = Vec::new();
        let mut now = Instant::ZERO;
        loop {
            let mut burst = 0;
            while let Some(action) = app.poll(now) {
                self.act(now, action);
                all.push(action);
                burst += 1;
                assert!(burst < 100_000, "polling ends");
            }
            let event = self.queue.first_key_value().map(|((at, _), _)| *at);
            let next = event.into_iter().chain(app.next_wakeup()).min();
            let Some(next) = next.filter(|at| *at <= Instant(until.0)) else { return all };
            now = now.max(next);
            if event == Some(next) {
                let (_, event) = self.queue.pop_first().expect("seen");
                match event {
                    AppEvent::Failed { conn } => {
                        self.failures += u64::from(app.live.get(&conn).is_some_and(|live| !live.done));
                        self.forget(conn);
                    }
                    AppEvent::Ended { conn } => self.forget(conn),
                    _ => {}
                }
                app.handle(now, event);
            }
        }
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn bulk() -> TransfersConfig {
    TransfersConfig {
        transfers: 4,
        start: secs(1),
        spacing: Duration::from_millis(500),
        at_once: 1,
        stagger: Duration::ZERO,
        stop: secs(20),
        bytes: None,
        direction: Direction::Down,
        back_off: secs(1),
        group: 3,
    }
}

#[test]
fn endless_transfers_fill_their_rate_until_the_stop() {
    for direction in [Direction::Down, Direction::Up] {
        let config = TransfersConfig { direction, ..bulk() };
        let mut app = TcpWorkload::transfers(config, Seed::new(1), Instant::ZERO).expect("valid");
        let mut network = Network::new(100, 100_000_000, 1);
        network.run(&mut app, secs(30));
        assert!(app.finished());
        assert_eq!(app.next_wakeup(), None);
        assert_eq!(app.counters(), TcpCounters { opened: 4, cut: 4, ..TcpCounters::default() });
        for (i, record) in app.records().iter().enumerate() {
            let opened = 1_000_000_000 + i as u64 * 500_000_000;
            assert_eq!((record.opened.0, record.ended), (opened, Some(Instant(20_000_000_000))));
            // Sending from the handshake on, arriving half a round trip later; portions of 64 KiB.
            let ns = 20_000_000_000 - opened - 150_000_000;
            let expected = ns as f64 / 80.0;
            assert!((record.bytes as f64 / expected - 1.0).abs() < 0.001, "{record:?} {expected}");
            assert!(record.cut && !record.failed);
        }
    }
}

#[test]
fn transfers_start_in_groups_and_by_chance() {
    let starts = |config: TransfersConfig, seed| {
        let mut app = TcpWorkload::transfers(config, Seed::new(seed), Instant::ZERO).expect("valid");
        Network::new(0, 8_000_000, 1).run(&mut app, secs(19));
        app.records().iter().map(|record| record.opened.0 / 1_000_000).collect::<Vec<u64>>()
    };
    let pairs = TransfersConfig { transfers: 5, at_once: 2, ..bulk() };
    assert_eq!(starts(pairs, 1), [1000, 1000, 1500, 1500, 2000]);
    // Each within 2 s of its time, otherwise for another seed, the same for the same; the mean of 1,000 is 1 s.
    let scattered = TransfersConfig { transfers: 1000, spacing: Duration::ZERO, stagger: secs(2), ..bulk() };
    let one = starts(scattered, 1);
    assert!(one == starts(scattered, 1) && one != starts(scattered, 2));
    assert!(one.len() == 1000 && one.iter().all(|ms| (1000..3000).contains(ms)));
    let mean = one.iter().sum::<u64>() / 1000;
    assert!((1920..2080).contains(&mean), "{mean}: by four standard deviations of 18 ms");
}

#[test]
fn a_sized_transfer_takes_as_long_as_its_path() {
    for direction in [Direction::Down, Direction::Up] {
        let config = TransfersConfig { bytes: Some(1_000_000), direction, ..bulk() };
        let mut app = TcpWorkload::transfers(config, Seed::new(1), Instant::ZERO).expect("valid");
        let actions = Network::new(100, 8_000_000, 1).run(&mut app, secs(60));
        assert_eq!(app.counters(), TcpCounters { opened: 4, completed: 4, ..TcpCounters::default() });
        assert!(app.finished());
        for record in app.records() {
            // Handshake 100 ms, a second of bytes, half a round trip on the way.
            assert_eq!((record.bytes, record.lifetime()), (1_000_000, Some(Duration::from_millis(1150))));
        }
        let closes = actions.iter().filter(|a| matches!(a, AppAction::Close { .. })).count();
        assert_eq!((actions.len(), closes), (16, 8));
    }
}

#[test]
fn files_keep_all_connections_busy() {
    let config = FilesConfig { stop: secs(600), ..FilesConfig::FTP_CLIENT };
    let mut app = TcpWorkload::files(config, Seed::new(2), Instant::ZERO).expect("valid");
    let mut network = Network::new(0, 8_000_000, 2);
    network.run(&mut app, secs(700));
    let counters = app.counters();
    assert_eq!((counters.opened, counters.cut), (counters.completed + 20, 20));
    // A MB/s each for 600 s and 20 connections, whatever the sizes are.
    let bytes: u64 = app.records().iter().map(|record| record.bytes).sum();
    assert!((bytes as f64 / 12e9 - 1.0).abs() < 0.001, "{bytes}");
    let whole: Vec<f64> =
        app.records().iter().filter(|r| !r.cut).map(|r| libm::log(r.bytes as f64)).collect();
    let geometric = libm::exp(whole.iter().sum::<f64>() / whole.len() as f64);
    assert!((geometric / 3e6 - 1.0).abs() < 0.03, "{geometric} over {}", whole.len());
}

/// The law of the closed loop (Little): pages = users · time / (think time + response time).
#[test]
fn users_fetch_as_many_pages_as_the_closed_loop_allows() {
    for (rtt_ms, bit_s, http, objects_per_page) in [
        (60, 2_000_000, Http::V1_0, 1),
        (60, 50_000, Http::V1_0, 1),
        (200, 2_000_000, Http::V1_0, 5),
        (200, 2_000_000, Http::V1_1, 5),
    ] {
        let config = WebConfig { stop: secs(300), http, objects_per_page, ..WebConfig::SIEGE_CLIENT };
        let mut app = TcpWorkload::web(config, Seed::new(3), Instant::ZERO).expect("valid");
        Network::new(rtt_ms, bit_s, 3).run(&mut app, secs(700));
        let trips = match http {
            Http::V1_0 => 2.0 * f64::from(objects_per_page),
            Http::V1_1 => 1.0 + f64::from(objects_per_page),
        };
        let bytes = (config.objects.mean_bytes() + 430.0) * f64::from(objects_per_page);
        let response = trips * rtt_ms as f64 / 1000.0 + bytes * 8.0 / bit_s as f64;
        let expected = 55.0 * 300.0 / (6.0 + response);
        let counters = app.counters();
        let pages = counters.pages as f64;
        assert!((pages / expected - 1.0).abs() < 0.03, "{rtt_ms} {bit_s} {http:?}: {pages} of {expected}");
        let each = if http == Http::V1_0 { u64::from(objects_per_page) } else { 1 };
        let connections = counters.pages * each;
        assert!(counters.opened >= connections && counters.opened <= connections + 55 * each);
        assert!(counters.completed >= counters.pages * u64::from(objects_per_page));
        assert_eq!((counters.failed, counters.stray, counters.limit_hits), (0, 0, 0));
    }
}

/// The published web clients of an idle network: about 500 pages a minute and client at 450 to 565 kbit/s are 6.7 to 8.5 kB
/// a page, headers included, which no distribution of geometric mean 10 kB gives.
#[test]
fn measured_objects_give_the_published_pages_and_rates() {
    let objects = LognormalSize { geometric_mean_bytes: 7_000, ..LognormalSize::WEB_OBJECT };
    let config = WebConfig { objects, stop: secs(600), ..WebConfig::SIEGE_CLIENT };
    for (rtt_ms, bit_s) in [(7, 1_000_000), (65, 300_000)] {
        let mut app = TcpWorkload::web(config, Seed::new(5), Instant::ZERO).expect("valid");
        Network::new(rtt_ms, bit_s, 5).run(&mut app, secs(700));
        let pages = app.counters().pages as f64 / 10.0;
        let bits = app.records().iter().map(|record| record.bytes).sum::<u64>() as f64 * 8.0 / 600.0;
        assert!((pages - 520.0).abs() < 30.0, "{pages} pages a minute");
        assert!((450_000.0..600_000.0).contains(&bits), "{bits} bit/s");
    }
}

#[test]
fn impatient_users_give_up_and_try_again() {
    let objects = LognormalSize { sigma_milli: 0, ..LognormalSize::WEB_OBJECT };
    let config = WebConfig {
        users: 1,
        stop: secs(100),
        objects,
        patience: Some(secs(2)),
        back_off: secs(3),
        ..WebConfig::SIEGE_CLIENT
    };
    // 10 kB at 8 kbit/s take ten seconds.
    let mut app = TcpWorkload::web(config, Seed::new(4), Instant::ZERO).expect("valid");
    Network::new(10, 8_000, 4).run(&mut app, secs(200));
    let counters = app.counters();
    assert_eq!((counters.completed, counters.pages), (0, 0));
    assert!(counters.given_up >= 17 && counters.given_up == counters.failed, "{counters:?}");
    assert!(counters.retries == counters.opened - 1);
    for pair in app.records().windows(2) {
        assert_eq!(pair[0].lifetime(), Some(secs(2)));
        assert_eq!(pair[1].opened.since(pair[0].opened), secs(5));
    }
}

/// Feeds one event and gives all actions that follow.
fn step(app: &mut TcpWorkload, now: Instant, event: AppEvent) -> Vec<AppAction> {
    app.handle(now, event);
    std::iter::from_fn(|| app.poll(now)).collect()
}

#[test]
fn http_closes_as_its_version_says() {
    use AppAction::{Close, Open, Write};
    use Side::{Client, Server};
    let objects = LognormalSize { sigma_milli: 0, ..LognormalSize::WEB_OBJECT };
    let think = secs(5);
    let config =
        WebConfig { users: 1, objects, think_least: think, think_most: think, ..WebConfig::SIEGE_CLIENT };
    let conn = ConnId(0);
    let (begin, later) = (Instant(5_000_000_000), Instant(6_000_000_000));
    let asks = Write { conn, side: Client, bytes: 180 };
    let answers = Write { conn, side: Server, bytes: 10_250 };
    let received = |side, bytes| AppEvent::Received { conn, side, bytes };

    let mut old = TcpWorkload::web(config, Seed::new(0), Instant::ZERO).expect("valid");
    assert_eq!((old.poll(Instant::ZERO), old.next_wakeup()), (None, Some(begin)));
    assert_eq!((old.poll(begin), old.poll(begin)), (Some(Open { conn }), None));
    assert_eq!(step(&mut old, begin, AppEvent::Accepted { conn }), []);
    assert_eq!(step(&mut old, begin, AppEvent::Opened { conn }), [asks]);
    assert_eq!(step(&mut old, begin, received(Server, 100)), []);
    assert_eq!(step(&mut old, begin, received(Server, 80)), [answers, Close { conn, side: Server }]);
    assert_eq!(step(&mut old, begin, received(Client, 10_249)), []);
    assert_eq!(step(&mut old, later, received(Client, 1)), [Close { conn, side: Client }]);
    assert_eq!(step(&mut old, later, AppEvent::PeerClosed { conn, side: Client }), []);
    assert_eq!(step(&mut old, later, AppEvent::Ended { conn }), []);
    assert_eq!(old.next_wakeup(), Some(later + think));
    assert_eq!((old.counters().pages, old.records()[0].bytes), (1, 10_250));

    let config = WebConfig { http: Http::V1_1, objects_per_page: 2, ..config };
    let mut new = TcpWorkload::web(config, Seed::new(0), Instant::ZERO).expect("valid");
    assert_eq!((new.poll(begin), new.poll(begin)), (Some(Open { conn }), None));
    assert_eq!(step(&mut new, begin, AppEvent::Opened { conn }), [asks]);
    assert_eq!(step(&mut new, begin, AppEvent::Accepted { conn }), []);
    assert_eq!(step(&mut new, begin, received(Server, 180)), [answers]);
    assert_eq!(step(&mut new, begin, received(Client, 10_250)), [asks]);
    assert_eq!((new.counters().completed, new.counters().pages), (1, 0));
    assert_eq!(step(&mut new, begin, received(Server, 180)), [answers]);
    assert_eq!(step(&mut new, later, received(Client, 10_250)), [Close { conn, side: Client }]);
    let answer = step(&mut new, later, AppEvent::PeerClosed { conn, side: Server });
    assert_eq!(answer, [Close { conn, side: Server }]);
    assert_eq!((new.counters().pages, new.records()[0].bytes), (1, 20_500));
    assert_eq!(new.records()[0].ended, Some(later));
}

fn any_workload(generator: &mut Generator) -> (TcpWorkload, usize) {
    let seed = Seed::new(generator.bits());
    let slots = 1 + generator.below(20) as u16;
    let back_off = Duration::from_millis(1 + generator.below(2000));
    let start = Duration(generator.below(3_000_000_000));
    let stop = start + secs(5 + generator.below(30));
    let spacing = Duration(generator.below(100_000_000));
    let sizes = LognormalSize {
        geometric_mean_bytes: 1 + generator.below(300_000),
        sigma_milli: generator.below(1500) as u32,
        most_bytes: 3_000_000,
    };
    let direction = if generator.below(2) == 0 { Direction::Down } else { Direction::Up };
    let app = match generator.below(3) {
        0 => {
            let bytes = Some(1 + generator.below(1_000_000)).filter(|bytes| bytes % 3 > 0);
            let config = TransfersConfig {
                transfers: slots,
                start,
                spacing,
                at_once: 1 + generator.below(4) as u16,
                stagger: Duration(generator.below(2) * generator.below(1_000_000_000)),
                stop,
                bytes,
                direction,
                back_off,
                group: 1,
            };
            TcpWorkload::transfers(config, seed, Instant::ZERO)
        }
        1 => {
            let pause = Duration(generator.below(2) * generator.below(1_000_000_000));
            let config = FilesConfig {
                parallel: slots,
                start,
                spacing,
                stop,
                sizes,
                pause,
                direction,
                back_off,
                group: 2,
            };
            TcpWorkload::files(config, seed, Instant::ZERO)
        }
        _ => {
            let config = WebConfig {
                users: slots,
                start,
                stop,
                think_most: Duration(generator.below(3_000_000_000)),
                objects: sizes,
                objects_per_page: 1 + generator.below(6) as u16,
                http: if generator.below(2) == 0 { Http::V1_0 } else { Http::V1_1 },
                patience: Some(Duration(1 + generator.below(8_000_000_000))).filter(|p| p.0 % 2 == 0),
                back_off,
                ..WebConfig::SIEGE_CLIENT
            };
            TcpWorkload::web(config, seed, Instant::ZERO)
        }
    };
    (app.expect("valid"), usize::from(slots))
}

/// Over random workloads and networks that refuse and reset connections: records and counters agree with what the
/// network did, no slot has two connections at a time, and everything ends.
#[test]
fn records_agree_with_the_network_whatever_fails() {
    for seed in 0..150 {
        let mut generator = Seed::new(seed).generator(0);
        let (mut app, slots) = any_workload(&mut generator);
        let rtt_ms = 1 + generator.below(200);
        let bit_s = 100_000 + generator.below(20_000_000);
        let mut network = Network::new(rtt_ms, bit_s, seed);
        network.refused_milli = generator.below(2) * generator.below(400);
        network.reset_milli = generator.below(2) * generator.below(400);
        network.run(&mut app, secs(900));
        let counters = app.counters();
        assert!(app.finished() && app.next_wakeup().is_none(), "seed {seed}");
        assert_eq!(network.conns.len() as u64, counters.opened, "seed {seed}");
        assert_eq!(app.records().len() as u64, counters.opened);
        assert_eq!(counters.failed, network.failures + counters.given_up, "seed {seed}");
        assert!(counters.retries <= counters.failed);
        assert!(counters.failed - counters.retries <= slots as u64, "seed {seed}");
        assert!(network.conns.iter().all(|conn| conn.gone), "seed {seed}: all have ended");
        let count = |f: fn(&ConnRecord) -> bool| app.records().iter().filter(|r| f(r)).count() as u64;
        assert_eq!((count(|r| r.failed), count(|r| r.cut)), (counters.failed, counters.cut));
        assert_eq!(count(|r| r.ended.is_none()), 0);
        let mut busy_until = vec![Instant::ZERO; slots];
        for record in app.records() {
            let ended = record.ended.expect("checked");
            assert!(record.opened <= ended && record.opened >= busy_until[usize::from(record.user)]);
            assert!(record.first_byte.is_none_or(|at| at > record.opened && at <= ended));
            assert_eq!(record.first_byte.is_none(), record.bytes == 0);
            busy_until[usize::from(record.user)] = ended;
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_actions_and_another_others() {
    let actions = |seed, group| {
        let config = WebConfig { stop: secs(60), group, ..WebConfig::SIEGE_CLIENT };
        let mut app = TcpWorkload::web(config, Seed::new(seed), Instant::ZERO).expect("valid");
        Network::new(50, 1_000_000, 0).run(&mut app, secs(90))
    };
    assert_eq!(actions(1, 0), actions(1, 0));
    assert_ne!(actions(1, 0), actions(2, 0));
    assert_ne!(actions(1, 0), actions(1, 1));
}

/// A driver that reports nonsense gets no panic, no endless polling and no bytes for nothing.
#[test]
fn any_order_of_events_is_survived() {
    for seed in 0..300 {
        let mut generator = Seed::new(seed).generator(1);
        let (mut app, _) = any_workload(&mut generator);
        let mut now = Instant::ZERO;
        for _ in 0..300 {
            let conn = ConnId(generator.below(app.records().len() as u64 + 2) as u32);
            let side = if generator.below(2) == 0 { Side::Client } else { Side::Server };
            let bytes = generator.below(3) * (generator.bits() >> (2 + generator.below(60)));
            let event = match generator.below(6) {
                0 => AppEvent::Opened { conn },
                1 => AppEvent::Accepted { conn },
                2 | 3 => AppEvent::Received { conn, side, bytes },
                4 => AppEvent::PeerClosed { conn, side },
                _ if bytes.is_multiple_of(2) => AppEvent::Ended { conn },
                _ => AppEvent::Failed { conn },
            };
            app.handle(now, event);
            let mut taken = 0;
            while app.poll(now).is_some() {
                taken += 1;
                assert!(taken < 1000);
            }
            assert!(app.next_wakeup().is_none_or(|at| at > now));
            now += Duration(generator.below(500_000_000));
        }
        assert!(app.counters().opened == app.records().len() as u64);
    }
}

#[test]
fn a_number_above_the_limit_of_connections_is_counted() {
    let config = FilesConfig {
        parallel: 1,
        sizes: LognormalSize { geometric_mean_bytes: 1, sigma_milli: 0, most_bytes: 1 },
        ..FilesConfig::FTP_CLIENT
    };
    let mut app = TcpWorkload::files(config, Seed::new(0), Instant::ZERO).expect("valid");
    let record = ConnRecord::new(0, Instant::ZERO);
    app.records = vec![record; MAX_CONNECTIONS - 1];
    let conn = ConnId(MAX_CONNECTIONS as u32 - 1);
    assert_eq!(app.poll(Instant::ZERO), Some(AppAction::Open { conn }));
    assert_eq!(app.poll(Instant::ZERO), None);
    app.handle(Instant(1), AppEvent::Received { conn, side: Side::Client, bytes: 1 });
    while app.poll(Instant(1)).is_some() {}
    assert_eq!(app.counters().limit_hits, 1);
    assert!(app.finished());
}

#[test]
fn wrong_parameters_are_named() {
    let message = |result: Result<TcpWorkload, TrafficError>| result.map(|_| ()).map_err(|e| e.to_string());
    let (seed, begin) = (Seed::new(0), Instant::ZERO);
    let transfers = |config| message(TcpWorkload::transfers(config, seed, begin));
    assert_eq!(
        transfers(TransfersConfig { back_off: Duration(1), ..bulk() }),
        Err("back-off in ns is 1; allowed is 1000000 to 18446744073709551615".to_owned())
    );
    assert_eq!(
        transfers(TransfersConfig { bytes: Some(0), ..bulk() }),
        Err("bytes of a transfer is 0; allowed is 1 to 1000000000000".to_owned())
    );
    let web = |config| message(TcpWorkload::web(config, seed, begin));
    assert_eq!(
        web(WebConfig { request_bytes: 0, ..WebConfig::SIEGE_CLIENT }),
        Err("length of a request is zero".to_owned())
    );
    assert_eq!(
        web(WebConfig { think_least: secs(13), ..WebConfig::SIEGE_CLIENT }),
        Err("longest think time in ns is 12000000000; allowed is 13000000000 to 86400000000000".to_owned())
    );
    assert!(
        message(TcpWorkload::files(FilesConfig { parallel: 0, ..FilesConfig::FTP_CLIENT }, seed, begin))
            .is_err()
    );
}
