//! The element as graph text names it.

use crate::classifier::Classifier;
use crate::element::{Flows, FlowsConfig};
use crate::realtime::{Detector, Stages, rtp::RtpSettings};
use crate::settings::Settings;
use crate::table::Timeouts;
use perhop_element::{ArgError, Args, BuildCx, Element, ElementType, PortCount};
use perhop_units::Duration;
use std::ops::RangeInclusive;
use std::sync::Arc;

const KEYS: [&str; 13] = [
    "connections",
    "undecided",
    "calls",
    "fragments",
    "events",
    "stateless",
    "default",
    "realtime",
    "udp_idle",
    "tcp_idle",
    "tcp_closing",
    "other_idle",
    "single_idle",
];

/// The element types of this crate.
pub fn types() -> Vec<ElementType> {
    vec![ElementType {
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
    }]
}

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut errors = args.unknown(&KEYS, 0);
    let mut number = |key: &str, default: u64, range: RangeInclusive<u64>| match args.parse::<u64>(key, None)
    {
        Ok(None) => default,
        Ok(Some(n)) if range.contains(&n) => n,
        Ok(Some(n)) => {
            errors.push(ArgError {
                offset: args.find(key, None).map_or(args.offset, |a| a.offset),
                key: Some(key.to_owned()),
                message: format!("{key} = {n} is out of range"),
                allowed: Some(format!("{} to {}", range.start(), range.end())),
            });
            default
        }
        Err(e) => {
            errors.push(e);
            default
        }
    };
    let d = FlowsConfig::default();
    const MANY: u64 = 1 << 20;
    const DAY: u64 = 86_400;
    let config = FlowsConfig {
        connections: number("connections", d.connections as u64, 16..=4 * MANY) as usize,
        undecided: number("undecided", d.undecided as u64, 8..=MANY) as usize,
        calls: number("calls", d.calls as u64, 0..=MANY) as usize,
        fragments: number("fragments", d.fragments as u64, 4..=MANY) as usize,
        events: number("events", d.events as u64, 1..=MANY) as usize,
        stateless: number("stateless", u64::from(d.stateless), 0..=256) as u32,
        timeouts: Timeouts {
            udp: Duration::from_secs(number("udp_idle", 30, 1..=DAY)),
            tcp: Duration::from_secs(number("tcp_idle", 300, 1..=DAY)),
            tcp_closing: Duration::from_secs(number("tcp_closing", 10, 1..=DAY)),
            other: Duration::from_secs(number("other_idle", 30, 1..=DAY)),
            single: Duration::from_secs(number("single_idle", 2, 1..=DAY)),
        },
        ..d
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut class = |key: &str| args.find(key, None).map(|a| cx.class(&a.value));
    let detector = class("realtime").map(|promote_class| Detector {
        enabled: true,
        rtp: RtpSettings::default(),
        stages: Stages::default(),
        promote_class,
        in_ports: Vec::new(),
    });
    let settings =
        Settings { default_class: class("default").unwrap_or_default(), detector, ..Settings::default() };
    Ok(Box::new(Flows::new(config, Arc::new(Classifier::default()), Arc::new(settings))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_element::Arg;

    fn args(list: &[(&str, &str)]) -> Args {
        let arg = |(i, (k, v)): (usize, &(&str, &str))| Arg {
            key: Some((*k).to_owned()),
            value: (*v).to_owned(),
            offset: i,
        };
        Args { list: list.iter().enumerate().map(arg).collect(), offset: 0 }
    }

    #[test]
    fn all_errors_of_the_arguments_at_once() {
        let bad = args(&[("connections", "3"), ("events", "many"), ("colour", "red"), ("default", "be")]);
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
            let list: Vec<_> = text.split(", ").map(|a| a.split_once(" = ").unwrap()).collect();
            assert!(build(&args(&list), &mut BuildCx::default()).is_ok(), "{text}");
        }
    }
}
