//! Whatever the path does, every byte arrives once and in order, the connection ends, and neither end runs wild.

use crate::bytes::{Host, StreamHost, rewrite_window, run, text};
use perhop_tcp::stream::Stream;
use perhop_tcp::{Algorithm, Config, CubicConfig, DelayedAck, SlowStartExit, State};
use perhop_units::{Duration, Instant};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

fn any_config() -> impl Strategy<Value = Config> {
    let switches = proptest::collection::vec(any::<bool>(), 10);
    let numbers = (88u16..1460, 1u8..=10, 500u32..60_000, 1460u32..80_000, 1u8..4, 4u16..40, 0u8..5);
    (switches, numbers).prop_map(|(on, (mss, initial, send, receive, segments, ranges, algorithm))| {
        let cubic = |slow_start| {
            Algorithm::Cubic(CubicConfig { reno_friendly: on[8], fast_convergence: on[9], slow_start })
        };
        Config {
            mss,
            initial_window: initial,
            send_buffer: send,
            receive_buffer: receive,
            congestion: match algorithm {
                0 => cubic(SlowStartExit::AtLoss),
                1 => cubic(SlowStartExit::HyStart),
                2 => cubic(SlowStartExit::HyStartPlusPlus),
                _ => Algorithm::NewReno,
            },
            byte_counting: on[0],
            sack: on[1],
            prr: on[2],
            limited_transmit: on[3],
            timestamps: on[4],
            window_scaling: on[5],
            ecn: on[6],
            nagle: on[7],
            delayed_ack: DelayedAck { segments, timeout: Duration::from_millis(100) },
            ranges,
            time_wait: Duration::from_secs(1),
            // Bad luck alone must not end a connection.
            syn_retries: 15,
            data_retries: 30,
            ..Config::default()
        }
    })
}

/// What the path does, in percent, to the first so many packets.
#[derive(Clone, Copy, Debug)]
struct Weather {
    seed: u64,
    loss: u32,
    late: u32,
    copies: u32,
    windows: u32,
    packets: u32,
}

fn any_weather() -> impl Strategy<Value = Weather> {
    (any::<u64>(), 0u32..25, 0u32..40, 0u32..30, 0u32..30, 0u32..2000).prop_map(
        |(seed, loss, late, copies, windows, packets)| Weather { seed, loss, late, copies, windows, packets },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order_and_the_connection_ends(
        configs in (any_config(), any_config()), weather in any_weather(),
        lens in (0usize..60_000, 0usize..20_000), isns: [u32; 2], reads in (200usize..100_000),
    ) {
        let (forth, back) = (text(lens.0, 3), text(lens.1, 4));
        let now = Instant::ZERO;
        let client = Stream::connect(configs.0, 1000, 80, isns[0], now).unwrap();
        let server = Stream::listen(configs.1, 80, isns[1], now).unwrap();
        let mut client = StreamHost::new(client, 0, forth.clone());
        let mut server = StreamHost::new(server, 1, back.clone());
        server.reads = reads;
        let mut rng = Pcg64::seed_from_u64(weather.seed);
        let mut packets = 0;
        let damage = Box::new(move |_: usize, packet: &mut [u8]| {
            packets += 1;
            let mut happens = |percent| packets < weather.packets && rng.random_range(0..100) < percent;
            if happens(weather.windows) {
                // A middlebox lowers the window, sometimes to nothing.
                rewrite_window(packet, |window| window / 8);
            } else if happens(weather.windows / 3) {
                rewrite_window(packet, |_| 0);
            }
            if happens(weather.loss) {
                return vec![];
            }
            let late = if happens(weather.late) { 70 } else { 0 };
            let mut copies = vec![Duration::from_millis(late)];
            if happens(weather.copies) {
                copies.push(Duration::from_millis(130));
            }
            copies
        });
        let outcome = run(&mut [&mut client, &mut server], Duration::from_millis(20), 60_000, damage);
        let states = (client.stream.endpoint().state(), server.stream.endpoint().state());
        let context = format!("{outcome:?} {states:?} {:?} {:?}", client.events, server.events);
        prop_assert!(server.received() == forth, "{} of {}, {context}", server.received().len(), forth.len());
        prop_assert!(client.received() == back, "{} of {}, {context}", client.received().len(), back.len());
        let ended = |state| !matches!(state, State::SynSent | State::SynReceived | State::Established | State::Listen);
        prop_assert!(ended(states.0) && ended(states.1), "{context}");
        // The work stays in proportion: a packet for every few bytes even of the smallest segments.
        let segments = (lens.0 + lens.1) as u64 / 40 + 4000;
        prop_assert!(outcome.packets < 20 * segments && outcome.wakeups < 20 * segments, "{context}");
    }
}
