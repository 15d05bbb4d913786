//! The element as graph text names it.

use crate::classifier::Classifier;
use crate::element::{Flows, FlowsConfig};
use crate::realtime::{Detector, Stages, rtp::RtpSettings};
use crate::settings::Settings;
use crate::table::Timeouts;
use perhop_element::{ArgError, Args, BuildCx, Element, ElementType, PortCount, Reader};
use perhop_units::Duration;
use std::sync::Arc;

/// The element types of this crate.
pub fn types() -> Vec<ElementType> {
    let flows = ElementType {
        name: "Flows",
        synopsis: "Finds each packet's connection, filter, contract, profile and class, and recognises real-time flows.",
        inputs: PortCount::Exactly(1),
        outputs: PortCount::Exactly(1),
        build,
        sample: |rng| {
            let connections = 16 << (rng.next_u32() % 6);
            let stateless = rng.next_u32() % 257;
            let realtime = if rng.next_u32() & 1 == 0 { ", realtime = ef" } else { "" };
            format!(
                "connections = {connections}, undecided = 64, calls = 64, fragments = 16, events = 64, stateless = {stateless}, default = be{realtime}"
            )
        },
    };
    vec![flows, crate::steer::TYPE]
}

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let d = FlowsConfig::default();
    const MANY: usize = 1 << 20;
    let mut limit = |key, default, range| r.optional_in::<usize>(key, None, default, range);
    let connections = limit("connections", d.connections, 16..=4 * MANY);
    let undecided = limit("undecided", d.undecided, 8..=MANY);
    let calls = limit("calls", d.calls, 0..=MANY);
    let fragments = limit("fragments", d.fragments, 4..=MANY);
    let events = limit("events", d.events, 1..=MANY);
    let stateless = r.optional_in("stateless", None, d.stateless, 0..=256);
    let mut idle = |key, default| Duration::from_secs(r.optional_in(key, None, default, 1..=86_400));
    let timeouts = Timeouts {
        udp: idle("udp_idle", 30),
        tcp: idle("tcp_idle", 300),
        tcp_closing: idle("tcp_closing", 10),
        other: idle("other_idle", 30),
        single: idle("single_idle", 2),
    };
    let config = FlowsConfig { connections, undecided, calls, fragments, events, stateless, timeouts, ..d };
    let (default, realtime) = (r.optional::<String>("default", None), r.optional::<String>("realtime", None));
    r.finish(())?;
    let detector = realtime.map(|name| Detector {
        enabled: true,
        rtp: RtpSettings::default(),
        stages: Stages::default(),
        promote_class: cx.class(&name),
        in_ports: Vec::new(),
    });
    let default_class = default.map(|name| cx.class(&name)).unwrap_or_default();
    let settings = Settings { default_class, detector, ..Settings::default() };
    Ok(Box::new(Flows::new(config, Arc::new(Classifier::default()), Arc::new(settings))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_element::testkit::args;

    #[test]
    fn all_errors_of_the_arguments_at_once() {
        let bad = args("connections = 3, events = many, colour = red, default = be");
        let errors = build(&bad, &mut BuildCx::default()).err().unwrap();
        let mut keys: Vec<_> = errors.iter().filter_map(|e| e.key.as_deref()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["colour", "connections", "events"]);
        assert_eq!(errors.iter().find(|e| e.offset == 0).unwrap().allowed.as_deref(), Some("16 to 4194304"));
    }

    #[test]
    fn samples_build() {
        use rand::SeedableRng;
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        for _ in 0..20 {
            let text = (types()[0].sample)(&mut rng);
            assert!(build(&args(&text), &mut BuildCx::default()).is_ok(), "{text}");
        }
    }
}
