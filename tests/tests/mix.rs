//! A mix of traffic whose kinds are known, through a whole router: it recognises what captures of the mix would show.

use crate::support::{LAN, router_of};
use perhop_flows::offline::classify_capture;
use perhop_flows::realtime::Stages;
use perhop_flows::realtime::rtp::RtpSettings;
use perhop_flows::{FlowEvent, FlowEventKind};
use perhop_traffic::Seed;
use perhop_traffic::labelled::{LabelledConfig, LabelledMix};
use perhop_units::Instant;
use std::collections::BTreeMap;
use std::net::SocketAddr;

const EDGE: &str = include_str!("../../examples/edge.toml");
const ETHERNET: u32 = 1;

fn name_of(event: &FlowEvent) -> String {
    let flow = &event.flow;
    let (src, dst) = (SocketAddr::new(flow.src, flow.src_port), SocketAddr::new(flow.dst, flow.dst_port));
    format!("udp {src}>{dst}")
}

#[test]
fn a_router_recognises_what_its_capture_shows() {
    for seed in [5, 6] {
        let mut router = router_of(EDGE);
        let start = router.now();
        let mut detected: BTreeMap<String, u64> = BTreeMap::new();
        let mix = LabelledMix::new(LabelledConfig { flows: 250, seed: Seed::new(seed) });
        let frames = mix.map(|packet| {
            let at = Instant(start.0 + packet.at.as_nanos());
            let frame = packet.frame();
            router.run_until(at);
            assert!(router.receive(LAN, &frame));
            router.sent.clear();
            for event in router.flow_events.drain(..).filter(|e| e.kind == FlowEventKind::Detected) {
                detected.entry(name_of(&event)).or_insert(u64::from(event.decided_at));
            }
            (at, ETHERNET, frame)
        });
        let found = classify_capture("mix", RtpSettings::default(), Stages::default(), frames);
        let shown: BTreeMap<String, u64> =
            found.rows.iter().filter_map(|row| Some((row.flow.clone(), row.decided_at?))).collect();
        println!("seed {seed}: {} flows, {} recognised", found.rows.len(), shown.len());
        assert!(shown.len() > 40);
        assert_eq!(detected, shown, "seed {seed}");
    }
}
