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
