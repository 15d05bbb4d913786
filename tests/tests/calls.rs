//! What the router says of calls that it harms itself: measured where they come in and where they leave.

use crate::support::{LAN, WAN, mac, router_of, rtp};
use perhop_flows::{CallInfo, FlowEventKind, HereInfo};
use perhop_graph::router::VirtualRouter;
use perhop_packet::DropReason;
use perhop_units::Instant;
use perhop_wire::build::udp4;

/// A port of 1 Mbit/s whose real-time class takes what `class` says and whose detector `detector`.
fn file(class: &str, detector: &str) -> String {
    format!(
        r#"[[port]]
name = "lan"
[[port]]
name = "wan"
rate = "1 Mbit/s"
overhead = 0
[[class]]
name = "ef"
port = "wan"
{class}
[[class]]
name = "be"
port = "wan"
default = true
[detector]
class = "ef"
admit_all = true
{detector}
"#
    )
}

/// G.711 in packets of 20 ms for `seconds`; what arrived, and what is said of it at the end.
fn call(router: &mut VirtualRouter, seconds: u16) -> (u64, CallInfo, HereInfo) {
    let mut arrived = 0;
    for i in 0..seconds * 50 {
        let frame = udp4([10, 0, 0, 2], [10, 1, 0, 2]).macs(mac(0x12), mac(1)).ports(20_000, 30_000);
        router.run_until(Instant(u64::from(i) * 20_000_000));
        assert!(
            router.receive(
                LAN,
                &frame.payload(&rtp(8, i, u32::from(i) * 160, 0x5000_0000, &[0x55; 160])).build()
            )
        );
        arrived += router.sent.drain(..).filter(|sent| sent.port == WAN).count() as u64;
    }
    let last = router.now();
    router.run_until(last + perhop_units::Duration::from_secs(2));
    arrived += router.sent.drain(..).filter(|sent| sent.port == WAN).count() as u64;
    // What became of packets is heard with the next one.
    let other = udp4([10, 1, 0, 2], [10, 0, 0, 2]).macs(mac(0x22), mac(2)).ports(7, 7);
    assert!(router.receive(WAN, &other.payload_len(20).build()));
    let flows = router.worker().flows().expect("an edge has flows");
    let (rows, _) = flows.snapshot(last, 0, 10);
    let row = rows.iter().find(|row| row.realtime).expect("a call");
    let (call, here) = row.call.expect("it is measured");
    (arrived, call, here)
}

#[test]
fn a_call_that_the_router_polices_away_is_not_called_a_good_one() {
    let mut router = router_of(&file("guarantee = \"2 kbit/s\"\nceiling = \"2 kbit/s\"", ""));
    let (arrived, call, here) = call(&mut router, 12);
    // All came in as they should.
    assert_eq!((call.expected - call.received, call.mos_thousandths), (0, Some(4_409)));
    assert!(arrived < 60, "{arrived} of 600");
    // Those before it was recognised went their ordinary way.
    let before = 600 - call.expected;
    assert_eq!((here.left, here.waiting), (arrived - before, call.expected - here.left - here.dropped));
    assert!(here.dropped > 500 && here.reasons().map(|(_, n)| n).sum::<u64>() == here.dropped, "{here:?}");
    assert!(here.mos_thousandths.is_some_and(|mos| mos < 1_200), "{here:?}");
    let quality = |kind| match kind {
        FlowEventKind::Quality { call, here } => Some((call, here)),
        _ => None,
    };
    let (call, here) =
        router.flow_events.iter().find_map(|event| quality(event.kind)).expect("it was reported");
    assert!(call.mos_thousandths > here.mos_thousandths && here.dropped_lately == here.dropped, "{here:?}");
}

#[test]
fn a_call_that_passes_is_as_good_as_it_came_and_its_delay_here_is_said() {
    let mut router = router_of(&file("guarantee = \"200 kbit/s\"", ""));
    let (arrived, call, here) = call(&mut router, 12);
    assert_eq!((arrived, here.left, here.dropped, here.waiting), (600, call.expected, 0, 0));
    assert_eq!((call.mos_thousandths, here.mos_thousandths), (Some(4_409), Some(4_409)));
    assert!(here.delay_mean_us < 2_000 && here.delay_max_us < 20_000, "{here:?}");
}

#[test]
fn a_queue_that_stands_is_in_the_score_of_what_leaves() {
    // The class sends a little less than comes, until 400 ms wait.
    let mut router = router_of(&file(
        "guarantee = \"80 kbit/s\"\nceiling = \"80 kbit/s\"\nqueue = { limit = \"20 packets\" }",
        "rate = \"1 Mbit/s\"",
    ));
    let (_, call, here) = call(&mut router, 12);
    assert_eq!((call.mos_thousandths, call.late), (Some(4_409), 0));
    assert!(here.reasons().all(|(reason, _)| reason == DropReason::QueueFull.name()), "{here:?}");
    assert!((150_000..400_000).contains(&here.delay_mean_us), "{here:?}");
    assert!((380_000..440_000).contains(&here.delay_max_us), "{here:?}");
    assert!(here.mos_thousandths.is_some_and(|mos| (1_500..4_000).contains(&mos)), "{here:?}");
}
