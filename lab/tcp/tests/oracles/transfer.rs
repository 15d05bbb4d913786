//! Whole connections over clean and damaged paths.

use crate::path::{End, Fate, Link, Path, Queue};
use perhop_tcp::{Algorithm, Config, Counters, Endpoint, Event, State};
use perhop_units::{Duration, Instant};

fn ends(client: Config, server: Config, bytes: u64) -> [End; 2] {
    let now = Instant::ZERO;
    let a = Endpoint::connect(client, 1000, 80, 0xffff_f000, now).unwrap();
    let b = Endpoint::listen(server, 80, 0x7fff_ff00, now).unwrap();
    [End::new(a, bytes, true), End::new(b, 0, true)]
}

fn delay() -> Duration {
    Duration::from_millis(25)
}

#[test]
fn a_clean_path_carries_everything_without_a_retransmission() {
    for config in [Config::default(), Config::rfc(), Config { nagle: true, ecn: true, ..Config::default() }] {
        let mut path = Path::new(
            ends(config, config, 1_000_000),
            [Link::new(delay()), Link::new(delay())],
            Instant::ZERO,
        );
        path.run_until(Instant(300_000_000_000));
        assert_eq!(path.ends[1].read, 1_000_000);
        for end in &path.ends {
            assert_eq!(end.endpoint.state(), State::Closed);
            assert_eq!(end.events.last(), Some(&Event::Closed));
            assert_eq!(end.endpoint.counters().retransmits, 0, "{:?}", end.endpoint.counters());
        }
    }
}

#[test]
fn a_bottleneck_is_filled_whatever_the_algorithm_and_recovery() {
    let standard = Config::default();
    let newreno = Config { congestion: Algorithm::NewReno, ..standard };
    let kinds = [
        standard,
        Config { prr: false, ..standard },
        newreno,
        Config { sack: false, ..newreno },
        Config { sack: false, timestamps: false, limited_transmit: false, ..newreno },
    ];
    for config in kinds {
        // 10 Mbit/s, 50 ms, a queue of one bandwidth-delay product: 42 packets.
        let forth = Link::new(delay()).limited(10_000_000, Queue::Tail(42));
        let mut path =
            Path::new(ends(config, config, 20_000_000), [forth, Link::new(delay())], Instant::ZERO);
        path.run_until(Instant(100_000_000_000));
        assert_eq!(path.ends[1].read, 20_000_000, "{config:?}");
        // At 10 Mbit/s the payload takes 16.6 s; what is left is slow start, repair and TIME-WAIT.
        let seconds = path.now.as_nanos() / 1_000_000_000 - 60;
        assert!((16..=19).contains(&seconds), "{seconds} s with {config:?}");
        assert!(path.ends[0].endpoint.counters().fast_retransmits > 0);
    }
}

/// RFC 8985 §1: what is overtaken is not lost. Counting takes it for lost again and again, time after the first time no more.
#[test]
fn reordering_costs_no_throughput_where_loss_is_found_by_time() {
    let mbit = |rack, later: fn(u64) -> Duration| {
        // The window of the receiver, 512 KiB a round trip of 50 ms, is the limit: 84 Mbit/s.
        let config = Config { rack, receive_buffer: 1 << 19, ..Config::default() };
        let mut at = 1u64;
        let forth = Link::new(delay()).judged(move |_, _| {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Fate { later: later(at >> 33), ..Fate::PASSED }
        });
        let mut path = Path::new(ends(config, config, 1 << 30), [forth, Link::new(delay())], Instant::ZERO);
        path.run_until(Instant(10_000_000_000));
        path.ends[1].read as f64 * 8.0 / 10e6
    };
    // Up to 2 ms later, and one of 20 by 5 ms.
    let spread = |random: u64| Duration(random % 2_000_000);
    let some = |random: u64| Duration::from_millis(if random.is_multiple_of(20) { 5 } else { 0 });
    for later in [spread as fn(u64) -> Duration, some] {
        let (by_time, by_counting) = (mbit(true, later), mbit(false, later));
        assert!(by_time > 70.0 && by_counting < 30.0, "{by_time} and {by_counting} Mbit/s");
    }
}

/// A retransmission that is lost is found lost by time; without that only the timeout finds it.
#[test]
fn a_lost_retransmission_takes_no_timeout() {
    let timeouts = |rack| {
        let config = Config { rack, ..Config::default() };
        let (mut sent, mut again) = (0, 0);
        let forth = Link::new(delay()).judged(move |_, segment| {
            sent += 1;
            again += u32::from(segment.retransmission);
            if sent == 30 || (segment.retransmission && again == 1) { Fate::LOST } else { Fate::PASSED }
        });
        let mut path = Path::new(ends(config, config, 2_000_000), [forth, Link::new(delay())], Instant::ZERO);
        path.run_until(Instant(300_000_000_000));
        assert_eq!(path.ends[1].read, 2_000_000);
        path.ends[0].endpoint.counters().timeouts
    };
    assert_eq!((timeouts(true), timeouts(false)), (0, 1));
}

/// RFC 8985 §7: the last segment has no other behind it that would show its loss.
#[test]
fn a_lost_tail_is_probed_for() {
    let seconds = |rack| {
        let config = Config { rack, ..Config::default() };
        let mut lost = 0;
        let forth = Link::new(delay()).judged(move |_, segment| {
            let tail = segment.payload_len > 0 && segment.payload_offset > 37_000 && lost < 2;
            lost += u32::from(tail);
            if tail { Fate::LOST } else { Fate::PASSED }
        });
        let mut path = Path::new(ends(config, config, 40_000), [forth, Link::new(delay())], Instant::ZERO);
        while path.ends[1].read < 40_000 && path.step() {}
        (path.now, *path.ends[0].endpoint.counters())
    };
    let ((with, counters), (without, _)) = (seconds(true), seconds(false));
    assert_eq!((counters.tail_probes, counters.timeouts), (1, 0));
    assert!(with < without, "{with:?} and {without:?}");
}

#[test]
fn a_segment_lost_at_any_place_is_repaired() {
    for place in 0..40 {
        for sack in [true, false] {
            let config = Config { sack, ..Config::default() };
            let mut count = 0;
            let forth = Link::new(delay()).judged(move |_, _| {
                count += 1;
                if count == place + 1 { Fate::LOST } else { Fate::PASSED }
            });
            let mut path =
                Path::new(ends(config, config, 40_000), [forth, Link::new(delay())], Instant::ZERO);
            path.run_until(Instant(300_000_000_000));
            assert_eq!(path.ends[1].read, 40_000, "segment {place} lost, sack {sack}");
            assert!(path.ends.iter().all(|end| end.endpoint.state() == State::Closed));
        }
    }
}

/// A lossy transfer; `meddle` ms apart both ends are served without reason.
fn lossy(seed: u64, meddle: Option<u64>) -> (Instant, [Counters; 2]) {
    let config =
        Config { nagle: seed & 1 == 0, sack: seed & 2 == 0, receive_buffer: 20_000, ..Config::default() };
    let mut at = seed;
    let forth = Link::new(delay()).judged(move |_, _| {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match at >> 59 {
            0 => Fate::LOST,
            1 => Fate { later: Duration::from_millis(3), ..Fate::PASSED },
            2 => Fate { window: Some(0), ..Fate::PASSED },
            3 => Fate { copies: 2, ..Fate::PASSED },
            _ => Fate::PASSED,
        }
    });
    let mut path = Path::new(ends(config, config, 300_000), [forth, Link::new(delay())], Instant::ZERO);
    let mut next = Instant::ZERO;
    while path.ends.iter().any(|end| end.endpoint.state() != State::Closed) && path.step() {
        if let Some(ms) = meddle
            && path.now >= next
        {
            next = path.now + Duration::from_millis(ms);
            path.serve(0);
            path.serve(1);
        }
    }
    assert_eq!(path.ends[1].read, 300_000);
    (path.now, [*path.ends[0].endpoint.counters(), *path.ends[1].endpoint.counters()])
}

#[test]
fn an_early_wake_up_changes_nothing() {
    for seed in 0..20 {
        let plain = lossy(seed, None);
        assert!(plain.1[0].retransmits > 0);
        assert_eq!(plain, lossy(seed, Some(1)), "seed {seed}");
        assert_eq!(plain, lossy(seed, Some(7)), "seed {seed}");
    }
}

#[test]
fn an_endpoint_may_move_between_threads_and_is_small() {
    fn moves<T: Send>(_: &T) {}
    let endpoint = Endpoint::connect(Config::default(), 1, 2, 3, Instant::ZERO).unwrap();
    moves(&endpoint);
    assert!(std::mem::size_of_val(&endpoint) < 2048);
}
