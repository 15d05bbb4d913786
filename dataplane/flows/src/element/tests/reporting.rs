//! What is told of the quality of calls.

use super::*;

/// Events of a call of `packets` at 20 ms, of which each `lost`th is missing, and of the silence after it.
fn events_of(packets: u16, lost: u16) -> Vec<crate::event::FlowEvent> {
    let mut bench = bench(small(), vec![], settings(true));
    let mut events = Vec::new();
    for i in 0..packets {
        if i < 12 || i % lost != 0 {
            push(&mut bench, &Made::udp("10.0.0.1", "10.1.0.2", (1, 2), rtp(i)), 0);
        }
        bench.run_for(Duration::from_millis(20));
        bench.element::<Flows>().take_events(&mut events);
    }
    bench.run_for(Duration::from_secs(40));
    bench.element::<Flows>().take_events(&mut events);
    events
}

fn mos(event: &crate::event::FlowEvent) -> Option<u16> {
    match event.kind {
        FlowEventKind::Quality { call, .. } => call.mos_thousandths,
        _ => None,
    }
}

#[test]
fn the_quality_of_a_call_is_told_while_it_lasts_and_when_it_ends() {
    let told = |lost| {
        let events = events_of(3_000, lost);
        let kinds: Vec<_> = events.iter().map(|e| e.kind).collect();
        assert_eq!((kinds[0], *kinds.last().unwrap()), (FlowEventKind::Detected, FlowEventKind::Ended));
        let quality: Vec<_> = events.iter().filter_map(|e| Some((e.at, mos(e)?))).collect();
        assert_eq!(quality.len(), events.len() - 2);
        // A minute, and then silence of half a minute until it is over.
        assert!((6..=10).contains(&quality.len()), "{quality:?}");
        assert!(quality.windows(2).all(|w| w[1].0.since(w[0].0) >= Duration::from_secs(9)));
        quality.last().unwrap().1
    };
    // G.711 with concealment, without loss and with a tenth lost.
    let (clean, lossy) = (told(u16::MAX), told(10));
    assert_eq!(clean, 4_409);
    assert!((2_500..4_000).contains(&lossy), "{lossy}");
}
