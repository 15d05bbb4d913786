//! Segments that no peer would send: never a panic, never more than a bounded answer, never a broken invariant.

use perhop_tcp::wire::parse_unchecked;
use perhop_tcp::{Config, Endpoint, Segment, State};
use perhop_units::{Duration, Instant};
use perhop_wire::Ecn;
use perhop_wire::tcp::{Repr, flags};
use perhop_wire::tcp_options::{self, SackBlocks};
use proptest::prelude::*;

/// A number near one that matters, so that checks are passed as often as not.
fn near() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0u32), 0u32..5000, any::<u32>(), Just(u32::MAX), 65_000u32..66_000]
}

fn any_segment() -> impl Strategy<Value = (Segment, u64)> {
    let numbers = (near(), near(), any::<u8>(), any::<u16>(), 0u32..3000);
    let options = (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<(u32, u32)>>());
    let blocks = proptest::collection::vec((near(), near()), 0..4);
    (numbers, options, blocks, 0u8..4, 0u64..3_000_000_000).prop_map(
        |(
            (seq, ack, bits, window, payload_len),
            (mss, window_scale, sack_permitted, timestamps),
            sack,
            ecn,
            wait,
        )| {
            // ACK is set most of the time: almost nothing is looked at without it.
            let bits = if bits & 0xe0 == 0 { bits } else { (bits & 0x1f & !flags::RST) | flags::ACK };
            let options = tcp_options::Repr {
                mss,
                window_scale,
                sack_permitted,
                timestamps: timestamps.map(|(value, echo)| (value % 100_000, echo)),
                sack: SackBlocks::new(&sack),
            };
            let header =
                Repr { src_port: 80, dst_port: 1000, seq, ack, flags: bits, window, urgent: 0, options };
            (Segment { header, payload_len, ecn: Ecn::from_octet(ecn) }, wait)
        },
    )
}

/// Feeds segments, takes what is answered, and checks what must always hold.
fn endure(mut endpoint: Endpoint, segments: Vec<(Segment, u64)>, mut now: Instant) {
    for (segment, wait) in segments {
        let before = endpoint.read_offset();
        let readable = endpoint.readable();
        endpoint.handle_segment(now, &segment);
        assert!(endpoint.readable() >= readable && endpoint.read_offset() == before);
        endpoint.write(700);
        let mut answers = 0;
        while let Some(out) = endpoint.poll_output(now) {
            answers += 1;
            assert!(out.payload_offset + u64::from(out.payload_len) <= endpoint.written_offset());
            assert!(answers < 2000, "{endpoint:?}");
        }
        endpoint.read(100);
        let trace = endpoint.trace();
        assert!(trace.mss > 0 && trace.pipe < 1 << 40, "{trace:?}");
        assert!(endpoint.acked_offset() <= endpoint.written_offset());
        assert_eq!(endpoint.state(), trace.state);
        now += Duration(wait);
        while endpoint.poll_output(now).is_some() {}
        assert!(
            endpoint.next_wakeup().is_none_or(|at| at > now),
            "a deadline stays in the past: {endpoint:?}"
        );
    }
}

fn config(switches: u8) -> Config {
    let standard = if switches & 1 == 0 { Config::default() } else { Config::rfc() };
    Config { ecn: switches & 2 != 0, ranges: 4, receive_buffer: 5000, nagle: switches & 4 != 0, ..standard }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_listener_endures_anything(
        segments in proptest::collection::vec(any_segment(), 1..60), switches: u8, isn in near(),
    ) {
        let endpoint = Endpoint::listen(config(switches), 1000, isn, Instant::ZERO).unwrap();
        endure(endpoint, segments, Instant::ZERO);
    }

    #[test]
    fn an_established_connection_endures_anything(
        segments in proptest::collection::vec(any_segment(), 1..60), switches: u8, ends in (near(), near()),
    ) {
        let now = Instant::ZERO;
        let (isn, peer) = ends;
        let mut endpoint = Endpoint::connect(config(switches), 1000, 80, isn, now).unwrap();
        let syn = endpoint.poll_output(now).unwrap().header;
        let options = tcp_options::Repr { mss: Some(1460), ..syn.options };
        let header = Repr {
            src_port: 80, dst_port: 1000, seq: peer, ack: syn.seq.wrapping_add(1), flags: flags::SYN | flags::ACK,
            window: 8000, urgent: 0, options,
        };
        while endpoint.poll_output(now).is_some() {}
        endpoint.handle_segment(now, &Segment { header, payload_len: 0, ecn: Ecn::NotEct });
        while endpoint.poll_output(now).is_some() {}
        assert_eq!(endpoint.state(), State::Established);
        // Numbers count from the two ends, so that many segments fall into the windows.
        let shifted = segments.into_iter().map(|(mut segment, wait)| {
            segment.header.seq = segment.header.seq.wrapping_add(peer);
            segment.header.ack = segment.header.ack.wrapping_add(isn);
            (segment, wait)
        });
        endure(endpoint, shifted.collect(), now);
    }

    #[test]
    fn bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Ok((segment, payload)) = parse_unchecked(&bytes, Ecn::NotEct) {
            prop_assert_eq!(segment.payload_len as usize, payload.len());
            endure(Endpoint::listen(config(0), 1, 2, Instant::ZERO).unwrap(), vec![(segment, 5)], Instant::ZERO);
        }
    }
}
