use crate::{good, said};
use perhop_scenario::{NodeKind, TrafficKind};
use perhop_units::{Bytes, Duration, QueueLimit, Rate};

const BASE: &str = r#"
id = "t"
title = "t"
duration = "10 s"

[node.a]
kind = "host"
[node.r]
kind = "router"
config = """
[[port]]
name = "core"
rate = "2 Mbit/s"
[[class]]
name = "all"
port = "core"
default = true
"""
[node.b]
kind = "host"

[link.acc]
ends = ["a", "r"]
[link.core]
ends = ["r", "b"]
rate = "2 Mbit/s"
delay = "10 ms"
queue = "50 packets"
[[link.core.change]]
at = "5 s"
loss = "1 %"

[traffic.voip]
kind = "voice"
from = "a"
to = "b"
calls = 4
[traffic.cbr]
kind = "constant"
from = "a"
to = "b"
rate = "1 Mbit/s"

[variants.small]
title = "A shorter queue"
set = { "link.core.queue" = "20 packets", "traffic.voip.calls" = 2 }
[variants.bare.set]
node.r.kind = "forwarder"
link.core.burst_loss = { p = "1 %", r = "50 %" }

[[expect]]
metric = "voip.loss_pct"
target = "<= 1"
"#;

#[test]
fn settings_replace_add_and_reach_into_arrays_and_router_files() {
    let loaded = good(
        BASE,
        &[
            ("link.core.rate", "4Mbit/s"),
            ("link.core.jitter", "2 ms"),
            ("link.core.reverse.delay", "30 ms"),
            ("link.core.change[1].at", "6 s"),
            ("traffic.voip.calls", "37"),
            ("traffic.voip.codec", "g729"),
            ("traffic.cbr.size", "200 B"),
            ("traffic.cbr.both", "true"),
            ("duration", "20 s"),
            ("warm_up", "1 s"),
            ("probes.links", "[\"core\"]"),
            ("probes.queue_interval", "20 ms"),
            ("node.r.router.port.core.rate", "3 Mbit/s"),
            ("node.r.config.class.all.weight", "7"),
            ("link.core.rate", "5 Mbit/s"),
        ],
    );
    let s = &loaded.product;
    let core = &s.links[1];
    // The last setting of a path wins.
    assert_eq!(core.ways[0].rate, Some(Rate::from_mbit(5)));
    assert_eq!(core.ways[0].jitter.map(|j| j.spread), Some(Duration::from_millis(2)));
    assert_eq!(core.ways[0].delay, Duration::from_millis(10));
    assert_eq!(core.ways[1].delay, Duration::from_millis(30));
    assert_eq!(core.ways[1].changes[0].at, Duration::from_secs(6));
    assert!(matches!(
        &s.traffic[0].kind,
        TrafficKind::Voice { calls: 37, codec: perhop_quality::Codec::G729, .. }
    ));
    assert!(matches!(&s.traffic[1].kind, TrafficKind::Constant { size: Bytes(200), .. }));
    assert!(s.traffic[1].both);
    assert_eq!(s.length(), Duration::from_secs(21));
    assert_eq!((s.probes.links.len(), s.probes.queue_interval), (1, Duration::from_millis(20)));
    let NodeKind::Router(config) = &s.nodes[1].kind else { panic!("a router") };
    assert!(config.text.contains("rate = \"3 Mbit/s\""), "{}", config.text);
    assert!(config.text.contains("[[class]]\nweight = 7\nname"), "{}", config.text);
    // Variants get what the user sets, which is stronger than what they set themselves.
    assert!(matches!(loaded.variants[0].1.traffic[0].kind, TrafficKind::Voice { calls: 37, .. }));
    assert_eq!(loaded.variants[0].1.links[1].ways[0].rate, Some(Rate::from_mbit(5)));
}

#[test]
fn variants_change_values_and_nothing_else() {
    let loaded = good(BASE, &[]);
    assert_eq!(loaded.variants.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["small", "bare"]);
    let (product, small, bare) = (&loaded.product, &loaded.variants[0].1, &loaded.variants[1].1);
    assert_eq!(product.links[1].ways[0].queue, QueueLimit::Packets(50));
    assert_eq!(small.links[1].ways[0].queue, QueueLimit::Packets(20));
    assert!(matches!(small.traffic[0].kind, TrafficKind::Voice { calls: 2, .. }));
    assert_eq!(small.nodes, product.nodes);
    assert_eq!(bare.nodes[1].kind, NodeKind::Forwarder);
    assert!(bare.links[1].ways[1].burst_loss.is_some() && product.links[1].ways[1].burst_loss.is_none());
    assert_eq!(bare.traffic, product.traffic);
}

#[test]
fn a_setting_can_be_for_one_variant_alone() {
    let loaded =
        good(BASE, &[("variants.small.link.core.queue", "9 packets"), ("variants.bare.set.duration", "7 s")]);
    assert_eq!(loaded.product.links[1].ways[0].queue, QueueLimit::Packets(50));
    assert_eq!(loaded.variants[0].1.links[1].ways[0].queue, QueueLimit::Packets(9));
    assert_eq!(loaded.variants[1].1.duration, Duration::from_secs(7));
    assert_eq!(loaded.variants[0].1.duration, Duration::from_secs(10));
}

#[test]
fn an_unknown_path_is_told_with_the_one_that_was_meant() {
    let cases = [
        (
            "link.cor.rate",
            "--set:1:1: link.cor.rate is not a path of this scenario;\n  did you mean \"link.core.rate\"? \
             Allowed: \"acc\", \"core\".\n",
        ),
        (
            "link.core.rat",
            "--set:1:1: link.core.rat is not a path of this scenario;\n  did you mean \"link.core.rate\"? Known keys: \
             rate, trace, ends, delay.\n",
        ),
        ("lnk.core.rate", "--set:1:1: lnk is not a path of this scenario;\n  did you mean \"link\"?"),
        ("link.core.change[2].at", "is not a path of this scenario"),
        (
            "link.core.delay.ms",
            "--set:1:1: link.core.delay.ms is not a path of this scenario;\n  link.core.delay has no parts.\n",
        ),
        ("node.r.router.port.cor.rate", "did you mean \"core\"?"),
        ("node.r.router.port.core.rat", "did you mean \"rate\"?"),
        ("variants.smal.link.core.queue", "did you mean \"variants.small.link.core.queue\"?"),
        ("", "is not a path of this scenario"),
        ("a..b", "is not a path of this scenario"),
    ];
    for (path, expected) in cases {
        let said = said(BASE, &[(path, "1")]);
        let start = expected.split("Known keys").next().expect("text");
        assert!(said.contains(start), "{path}: {said}");
        assert!(said.contains(perhop_scenario::UNKNOWN_PATH), "{path}: {said}");
    }
}

#[test]
fn a_setting_with_a_wrong_value_is_told_as_one() {
    assert_eq!(
        said(BASE, &[("link.core.rate", "4")]),
        "--set:1:1: link.core.rate = 4 is not a rate: it has no unit;\n  Write for example \"10 Mbit/s\".\n"
    );
    let said = said(BASE, &[("traffic.voip.calls", "many")]);
    assert_eq!(
        said,
        "--set:1:1: traffic.voip.calls = many is a string, expected an integer from 1 to 24000.\n"
    );
}

#[test]
fn a_rate_replaces_a_trace() {
    let text = BASE.replace("rate = \"2 Mbit/s\"\ndelay", "trace = \"line.trace\"\ndelay");
    let traced = good(&text, &[]);
    assert!(
        traced.product.links[1].ways[0].trace.is_some() && traced.product.links[1].ways[0].rate.is_none()
    );
    let rated = good(&text, &[("link.core.rate", "1 Mbit/s")]);
    assert!(rated.product.links[1].ways[0].trace.is_none() && rated.product.links[1].ways[0].rate.is_some());
}
