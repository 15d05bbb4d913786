//! Weights of the TCP rate control that change again and again under load, by way of the agent.

use crate::net::*;
use perhop_bandwidth::AgentFile;
use perhop_measure::Recording;
use perhop_scenario::*;
use perhop_sim::{Options, run};
use perhop_units::{Duration, Instant, Rate};

const GROUPS: usize = 4;
const FLOWS: u64 = 4;
/// When the first change is, and the time between two.
const FIRST_S: u64 = 30;
const EVERY_S: u64 = 12;
/// How long a change may take to settle, besides two round trips.
const SETTLED_S: f64 = 5.0;
/// How long is looked at afterwards: five whole round trips, because a flow may send all of its window at once. Besides the
/// satellite a round trip takes a full packet's time on the link and on the cable before it, and an acknowledgement's.
const LOOKED_AT_S: f64 = 5.0 * 0.909_8;
/// What the link carries, and of it what the agent gives away.
const LINK: Rate = Rate::from_kbit(1_536);
const GIVEN: u64 = 1_536_000 * 98 / 100;
/// Round trip over the satellite.
const ROUND_TRIP: Duration = Duration::from_millis(900);

const AGENT: &str = r#"
[[link]]
name = "satellite"
port = "core"
utilisation = "98 %"
notice = "910 ms"

[[abr]]
name = "a"
[[abr]]
name = "b"
[[abr]]
name = "c"
[[abr]]
name = "d"
"#;

/// How often the weights change: `PERHOP_SOAK_CHANGES` times, 20 without it.
fn changes() -> usize {
    std::env::var("PERHOP_SOAK_CHANGES").map_or(20, |n| n.parse().expect("PERHOP_SOAK_CHANGES is a number"))
}

/// Weights of the groups at each time, 1 to 3, by a generator of Lehmer's (Park and Miller 1988).
fn weights() -> Vec<[u64; GROUPS]> {
    let mut state = 48_271u64;
    let mut draw = |_| {
        state = state * 48_271 % 0x7fff_ffff;
        1 + state % 3
    };
    (0..=changes()).map(|_| [0; GROUPS].map(&mut draw)).collect()
}

/// What a group gets under these weights, bit/s: a link of its own law, independent of the agent's.
fn share(weights: &[u64; GROUPS], group: usize) -> u64 {
    GIVEN * weights[group] / weights.iter().sum::<u64>()
}

/// The router's file with `weights`, and with the rates that follow from those `before`: what the agent has given stands
/// until it gives something else.
fn file(weights: &[u64; GROUPS], before: &[u64; GROUPS]) -> String {
    let mut text = "[[port]]\nname = \"core\"\n".to_owned();
    for group in 0..GROUPS {
        let name = ["a", "b", "c", "d"][group];
        let from = 3 + 2 * group;
        let (rate, weight) = (share(before, group), weights[group]);
        text.push_str(&format!(
            "[[abr]]\nname = \"{name}\"\nmatch = {{ src = \"10.0.0.{from}/32\" }}\nrate = \"{rate} bit/s\"\n\
             weight = {weight}\noverhead = 14\nlocal = true\n"
        ));
    }
    text
}

fn world() -> Recording {
    let (agent, diagnostics) = AgentFile::read("agent.toml", AGENT);
    let agent = Some(agent.unwrap_or_else(|| panic!("{diagnostics}")));
    let seconds = FIRST_S + EVERY_S * changes() as u64;
    let mut s = dumbbell(GROUPS, LINK, Duration::from_nanos(ROUND_TRIP.as_nanos() / 2), 30, seconds);
    let weights = weights();
    let change = |(number, pair): (usize, &[[u64; GROUPS]])| RouterChange {
        at: Duration::from_secs(FIRST_S + EVERY_S * number as u64),
        origin: "edge.toml".into(),
        text: file(&pair[1], &pair[0]),
    };
    let changes = weights.windows(2).enumerate().map(change).collect();
    let (origin, text) = ("edge.toml".into(), file(&weights[0], &weights[0]));
    s.nodes[0].kind = NodeKind::Router(RouterConfig { origin, text, agent, changes });
    for group in 0..GROUPS {
        let kind = TrafficKind::Bulk {
            count: FLOWS as u16,
            size: None,
            at_once: 1,
            stagger: Duration::ZERO,
            access_delay: (Duration::ZERO, Duration::ZERO),
            spacing: Duration::from_millis(900),
            // Of a window of three or four segments a receiver that waits for the second leaves one behind.
            tcp: Tcp {
                delayed_ack: None,
                initial_rto: Duration::from_secs(3),
                min_rto: Duration::from_millis(1_200),
                ..newreno()
            },
        };
        s.traffic.push(traffic("bulk", vec![pair(group)], Duration::from_secs(seconds), kind));
    }
    s.probes.segments = (0..GROUPS).collect();
    run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn changes_of_weights_settle_in_five_seconds_and_two_round_trips_and_lose_nothing() {
    let recording = world();
    assert_eq!(recording.warnings, Vec::<String>::new());
    let weights = weights();
    let second = |s: f64| Instant((s * 1e9) as u64);
    let mut missed = Vec::new();
    for (number, now) in weights[1..].iter().enumerate() {
        let changed = (FIRST_S + EVERY_S * number as u64) as f64;
        let from = changed + SETTLED_S + 2.0 * ROUND_TRIP.as_secs_f64();
        let until = from + LOOKED_AT_S;
        for group in 0..GROUPS {
            let of_group = recording.connections.iter().filter(|c| c.of.traffic == group);
            let bytes: u64 = of_group
                .map(|c| c.reads.as_ref().expect("it is followed").bytes(second(from), second(until)))
                .sum();
            // Payload of a share that counts the frame; a segment of each flow may lie on either side of both ends.
            let should = share(now, group) as f64 / 8.0 * LOOKED_AT_S * 1460.0 / 1514.0;
            let most = should * 0.03 + (FLOWS * 1460) as f64;
            let off = bytes as f64 - should;
            if off.abs() > most {
                let before = weights[number];
                missed.push(format!(
                    "{number}: {before:?} to {now:?}, group {group}: {bytes} of {should:.0} bytes"
                ));
            }
        }
    }
    let again = recording.connections.iter().filter_map(|c| Some((c.of.traffic, c.segments.as_ref()?)));
    let again = again.flat_map(|(group, log)| log.again().iter().map(move |at| (group, *at)));
    // Until all flows have begun, their slow start fills the queue.
    let again = again.filter(|(_, at)| *at >= Instant::ZERO + Duration::from_secs(FIRST_S));
    missed.extend(again.map(|(group, at)| format!("group {group} sent again at {at:?}")));
    assert!(missed.is_empty(), "{missed:#?}");
    // The agent did it: each policy was given a rate with every change that changes its share.
    for (group, record) in recording.assignments.iter().enumerate() {
        let changed = weights.windows(2).filter(|w| share(&w[0], group) != share(&w[1], group)).count();
        assert!(record.rates.len() >= changed, "{}: {} of {changed}", record.policy, record.rates.len());
    }
}
