//! Who gives way when the table is full.

use super::*;
use std::collections::BTreeMap;

fn udp(port: u16, payload: Vec<u8>) -> Made {
    Made::udp("10.0.0.1", "10.1.0.2", (port, 2), payload)
}

/// A packet of the other direction.
fn answer(port: u16, payload: Vec<u8>) -> Made {
    Made::udp("10.1.0.2", "10.0.0.1", (2, port), payload)
}

#[test]
fn in_a_full_table_what_is_worth_least_gives_way() {
    let mut bench = bench(FlowsConfig { connections: 4, ..small() }, vec![], settings(true));
    let place = |bench: &mut Bench, made: &Made| push(bench, made, 0).connection;
    let tcp = Made { tcp: true, flags: 0x10, ..udp(2, vec![]) };
    for i in 0..12 {
        push(&mut bench, &udp(1, rtp(i)), 0);
        if i < 3 {
            place(&mut bench, &tcp);
            place(&mut bench, &Made { tcp: true, ..answer(2, vec![]) });
        }
        bench.run_for(Duration::from_millis(20));
    }
    let several = [(); 2].map(|()| place(&mut bench, &udp(3, vec![1; 20])))[0];
    let single = place(&mut bench, &udp(4, vec![1; 20]));
    // All are young, or worth more.
    assert_eq!(place(&mut bench, &udp(5, vec![1; 20])), NO_CONNECTION);
    bench.run_for(Duration::from_millis(110));
    // Of a call each packet comes sooner: the second one finds the first.
    assert_eq!(place(&mut bench, &udp(5, vec![1; 20])), single);
    bench.run_for(Duration::from_millis(60));
    assert_eq!(place(&mut bench, &udp(5, vec![1; 20])), single);
    assert_eq!(place(&mut bench, &udp(4, vec![1; 20])), NO_CONNECTION);
    // Silence of two seconds gives way too, the longest first; the call and TCP stay.
    bench.run_for(Duration::from_millis(2_100));
    assert_eq!(place(&mut bench, &udp(6, vec![1; 20])), several);
    assert_eq!(place(&mut bench, &udp(7, vec![1; 20])), single);
    assert_eq!(place(&mut bench, &udp(8, vec![1; 20])), NO_CONNECTION);
    // Who comes twice is worth more than who came once, however lately.
    assert_ne!(place(&mut bench, &udp(8, vec![1; 20])), NO_CONNECTION);
    let meta = push(&mut bench, &udp(1, rtp(12)), 0);
    assert!(meta.realtime && meta.connection != NO_CONNECTION);
    assert_ne!(place(&mut bench, &tcp), NO_CONNECTION);
    assert_eq!(bench.element::<Flows>().flow_counters().displaced, 4);
    // Their turn in the wheel comes as ever.
    bench.run_for(Duration::from_secs(400));
    assert_eq!(bench.element::<Flows>().table.len(), 0);
}

/// Anybody can make up packets of signalling: one alone keeps its place no longer than other silence.
#[test]
fn a_flood_of_single_packets_of_signalling_gives_way() {
    let mut bench = bench(FlowsConfig { connections: 4, ..small() }, vec![], settings(true));
    let magic = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let stun = |port| udp(port, magic.clone());
    let answered = push(&mut bench, &stun(1), 0).connection;
    push(&mut bench, &answer(1, magic.clone()), 0);
    for port in 2..5 {
        push(&mut bench, &stun(port), 0);
    }
    bench.run_for(Duration::from_millis(1_000));
    assert_eq!(push(&mut bench, &udp(9, vec![1; 20]), 0).connection, NO_CONNECTION);
    bench.run_for(Duration::from_millis(1_100));
    // Three of them may go, the one that was answered stays.
    let taken = [10, 11, 12, 13].map(|port| push(&mut bench, &udp(port, vec![1; 20]), 0).connection);
    assert!(taken[..3].iter().all(|n| ![NO_CONNECTION, answered].contains(n)), "{taken:?} {answered}");
    assert_eq!(taken[3], NO_CONNECTION);
}

/// A flood has packets of one direction only, but as many of each made-up connection as it likes.
#[test]
fn a_flood_of_one_direction_gives_way_whatever_it_sends() {
    let magic = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    for tcp in [true, false] {
        let mut bench = bench(FlowsConfig { connections: 64, ..small() }, vec![], settings(true));
        for port in 100..300 {
            let made = Made { tcp, flags: 2, ..udp(port, if tcp { vec![] } else { magic.clone() }) };
            for _ in 0..3 {
                push(&mut bench, &made, 0);
            }
        }
        // The second packet at 100 ms or later finds a place, and nine more decide.
        let decided = (0..40).find(|i| push_after(&mut bench, &udp(1, rtp(*i))));
        assert!(decided.is_some_and(|i| i <= 20), "tcp {tcp}: {decided:?}");
    }
}

/// Connections of TCP that are answered stay, but leave calls an eighth of the table.
#[test]
fn tcp_leaves_places_to_calls() {
    let mut bench = bench(FlowsConfig { connections: 64, ..small() }, vec![], settings(true));
    let tcp = |port| Made { tcp: true, flags: 0x10, ..udp(port, vec![]) };
    for _ in 0..3 {
        for port in 100..300 {
            push(&mut bench, &tcp(port), 0);
            push(&mut bench, &Made { tcp: true, flags: 0x10, ..answer(port, vec![]) }, 0);
        }
        bench.run_for(Duration::from_millis(10));
    }
    assert_eq!(bench.element::<Flows>().table.len(), 56);
    let decided: Vec<_> = (0..12).map(|i| push_after(&mut bench, &udp(1, rtp(i)))).collect();
    assert_eq!(decided.iter().position(|realtime| *realtime), Some(9));
    // Those that have a place keep it while they are silent.
    bench.run_for(Duration::from_secs(60));
    assert_eq!(push(&mut bench, &tcp(299), 0).connection, NO_CONNECTION);
    assert_ne!(push(&mut bench, &tcp(100), 0).connection, NO_CONNECTION);
    // What is not UDP comes and goes among its like, and the books of both agree.
    bench.run_for(Duration::from_secs(301));
    assert_eq!(bench.element::<Flows>().table.len(), 0);
    for port in 100..300 {
        push(&mut bench, &tcp(port), 0);
    }
    assert_eq!(bench.element::<Flows>().table.len(), 56);
}

/// Whether the packet is real-time; 20 ms pass.
fn push_after(bench: &mut Bench, made: &Made) -> bool {
    let meta = push(bench, made, 0);
    bench.run_for(Duration::from_millis(20));
    meta.realtime
}

proptest! {
    /// No two connections share an entry, an entry is found again at once, and the numbers of the table add up.
    #[test]
    fn displacing_keeps_the_table_whole(
        steps in proptest::collection::vec((0..40u16, 0..3_000u64, any::<bool>()), 1..200),
    ) {
        let mut bench = bench(FlowsConfig { connections: 8, ..small() }, vec![], settings(true));
        for (i, (port, pause_ms, likely)) in (0u16..).zip(steps) {
            if i % 4 == 0 {
                bench.run_for(Duration::from_millis(pause_ms));
            }
            let payload = if likely { rtp(i) } else { vec![1; 20] };
            let first = push(&mut bench, &udp(port, payload.clone()), 0).connection;
            if first != NO_CONNECTION {
                prop_assert_eq!(push(&mut bench, &udp(port, payload), 0).connection, first);
            }
            let flows = bench.element::<Flows>();
            prop_assert!(flows.table.len() <= 8);
            let live: BTreeMap<u32, _> = flows.table.iter_in(0..flows.table.slots()).collect();
            prop_assert_eq!(live.len(), flows.table.len());
            for (n, entry) in live {
                prop_assert_eq!(flows.table.find(flows.table.hash(&entry.key), &entry.key), Some(n));
            }
            let c = flows.flow_counters();
            prop_assert_eq!(c.created - c.expired, flows.table.len() as u64);
        }
        bench.run_for(Duration::from_secs(100));
        let flows = bench.element::<Flows>();
        prop_assert_eq!((flows.table.len(), flows.undecided.len()), (0, 0));
    }
}
