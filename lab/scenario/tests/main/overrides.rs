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
fn settings_and_variants_reach_into_the_file_of_an_agent() {
    let text = BASE.replace("[node.r]\n", "[node.r]\nagent = \"agent.toml\"\n").replace(
        "[variants.bare.set]",
        "[variants.low.set]\nnode.r.agent.class.all.lower = \"50 %\"\n[variants.bare.set]",
    );
    let agent = |scenario: &perhop_scenario::Scenario| match &scenario.nodes[1].kind {
        NodeKind::Router(config) => config.agent.clone(),
        _ => None,
    };
    let has_lower = |scenario, ppm: u32| {
        let law = agent(scenario).map(|agent| format!("{:?}", agent.classes[0].allocation.settings().law));
        law.is_some_and(|law| law.contains(&format!("lower_ppm: {ppm},")))
    };
    let settings = [
        ("node.r.agent.broker.delay", "100 ms"),
        ("node.r.agent.class.all.congestion.target", "20 ms"),
        ("variants.small.node.r.agent.class.all.lower", "55%"),
    ];
    let loaded = good(&text, &settings);
    let product = agent(&loaded.product).expect("an agent");
    assert_eq!(product.broker.0.delay, Duration::from_millis(100));
    let target = product.classes[0].allocation.settings().congestion.map(|config| config.target);
    assert_eq!(target, Some(Duration::from_millis(20)));
    let of = |name: &str| &loaded.variants.iter().find(|(n, _)| n == name).expect("a variant").1;
    assert!(has_lower(&loaded.product, 600_000));
    assert!(has_lower(of("small"), 550_000) && has_lower(of("low"), 500_000));
    assert_eq!(agent(of("bare")), None);

    // What cannot be is said: a path that leads nowhere, a value that is none, settings that cannot be stable.
    let wrong = said(&text, &[("node.r.agent.class.al.lower", "50 %")]);
    assert!(wrong.contains("is not a path") && wrong.contains("did you mean \"all\"?"), "{wrong}");
    let wrong = said(&text, &[("node.r.agent.class.all.lowr", "50 %")]);
    assert!(wrong.contains("did you mean \"lower\"?"), "{wrong}");
    let wrong = said(&text, &[("node.r.agent.class.all.lower", "89 %")]);
    assert!(wrong.contains("cannot be stable"), "{wrong}");
    let wrong = said(BASE, &[("node.r.agent.class.all.lower", "89 %")]);
    assert!(!wrong.is_empty());
}

#[test]
fn keys_that_a_table_inside_a_table_does_not_have_can_be_set() {
    let (text, path) =
        published().into_iter().find(|(_, path)| path.ends_with("C-V-6.toml")).expect("a published scenario");
    let beside = |name: &str| {
        std::fs::read(path.parent().expect("a folder").join(name)).map_err(|error| error.to_string())
    };
    let read = |at: &str, value: &str| {
        let settings = [(at, value)].into_iter().collect();
        perhop_scenario::Scenario::read("s.toml", &text, &settings, &beside)
    };
    let (loaded, said) = read("node.edge.router.detector.admission.locked", "true");
    let NodeKind::Router(config) = &loaded.unwrap_or_else(|| panic!("{said}")).product.nodes[1].kind else {
        panic!("a router")
    };
    assert!(config.text.contains("[detector.admission]\nlocked = true\ncap ="), "{}", config.text);
    // A key that there never is is refused, with what was probably meant.
    let (loaded, said) = read("node.edge.router.detector.admission.retyr", "2s");
    assert!(loaded.is_none() && said.to_string().contains("retry"), "{said}");
}

#[test]
fn a_key_can_be_set_into_braces() {
    let filter = "[[filter]]\nname = \"f\"\nmatch = { protocol = \"udp\" }\nclass = \"all\"\n";
    let text = BASE.replace("default = true\n", &format!("default = true\nqueue = {{}}\n{filter}"));
    let settings =
        [("node.r.config.filter.f.match.in_port", "core"), ("node.r.config.class.all.queue.limit", "30 ms")];
    let loaded = good(&text, &settings);
    let NodeKind::Router(config) = &loaded.product.nodes[1].kind else { panic!("a router") };
    for braces in ["match = { in_port = \"core\", protocol = \"udp\" }", "queue = { limit = \"30 ms\" }"] {
        assert!(config.text.contains(braces), "{}", config.text);
    }
}

#[test]
fn variants_cannot_be_set_as_a_whole() {
    for at in ["variants", "variants.bare"] {
        let wrong = said(BASE, &[(at, "{}")]);
        assert!(wrong.contains("cannot be set as a whole") && wrong.contains("--variants none"), "{wrong}");
        assert_eq!(wrong.matches("cannot be set").count(), 1, "{wrong}");
    }
}

#[test]
fn a_setting_that_a_variant_has_no_place_for_is_left_out_there_and_said() {
    for (text, path) in published()
        .into_iter()
        .filter(|(_, path)| ["C-IV-4.toml", "C-IV-11.toml"].iter().any(|name| path.ends_with(name)))
    {
        let beside = |name: &str| {
            let file = path.parent().expect("a folder").join(name);
            std::fs::read(file).map_err(|e| e.to_string())
        };
        let read = |settings: &[(&str, &str)]| {
            let settings = settings.iter().copied().collect();
            let (loaded, said) = perhop_scenario::Scenario::read("s.toml", &text, &settings, &beside);
            (loaded, said.to_string())
        };
        let lower = ("node.edge.agent.class.realtime.lower", "60%");
        let (loaded, said) = read(&[lower, ("node.edge.agent.broker.delay", "200ms")]);
        let loaded = loaded.unwrap_or_else(|| panic!("{said}"));
        let agent = |scenario: &perhop_scenario::Scenario| match &scenario.nodes[1].kind {
            NodeKind::Router(config) => config.agent.clone().expect("an agent"),
            _ => panic!("a router"),
        };
        assert_eq!(agent(&loaded.product).broker.0.delay, Duration::from_millis(200));
        let law = format!("{:?}", agent(&loaded.product).classes[0].allocation.settings().law);
        assert!(law.contains("lower_ppm: 600000,"), "{law}");
        let baseline = loaded.variants.iter().find(|(name, _)| name == "baseline").expect("a variant");
        let (unset, _) = read(&[]);
        let unset = unset.expect("good").variants;
        let unset = unset.iter().find(|(name, _)| name == "baseline").expect("a variant");
        assert_eq!(agent(&baseline.1), agent(&unset.1));
        let warning = "--set node.edge.agent.class.realtime.lower=60%: warning: is left out in variant \"baseline\", \
                       where it has no meaning here;\n  It belongs to law = \"threshold\".\n";
        assert!(said.contains(warning), "{said}");
        assert!(said.contains("broker.delay=200ms: warning: is left out in variant \"baseline\""), "{said}");
        assert_eq!(said.matches("--set").count(), 2, "{said}");
        // For the variant alone, and for the product, it is an error; and it is told once.
        let (loaded, said) = read(&[("variants.baseline.node.edge.agent.class.realtime.lower", "60%")]);
        assert!(loaded.is_none() && said.starts_with("--set variants.baseline.node.edge.agent"), "{said}");
        let (loaded, said) = read(&[("node.edge.agent.class.realtime.gain", "1 Mbit/s")]);
        assert!(loaded.is_none() && said.contains("law = \"logarithmic\""), "{said}");
        assert_eq!(said.matches("--set").count(), 1, "{said}");
    }
}

#[test]
fn several_wrong_settings_are_told_apart_at_the_places_that_the_user_wrote() {
    let two = said(BASE, &[("link.core.rate", "4"), ("traffic.voip.calls", "many")]);
    let lines: Vec<&str> = two.lines().filter(|line| line.starts_with("--set")).collect();
    assert_eq!(lines.len(), 2, "{two}");
    assert!(lines[0].starts_with("--set link.core.rate=4: "), "{two}");
    assert!(lines[1].starts_with("--set traffic.voip.calls=many: "), "{two}");
    // What is set inside a router file is the place, and what it does not fit is in the file.
    let shares = BASE.replace("default = true\n", "default = true\nguarantee = \"1 Mbit/s\"\n");
    let wrong = said(&shares, &[("node.r.router.class.all.limit", "500 kbit/s")]);
    assert!(wrong.starts_with("--set node.r.router.class.all.limit=500 kbit/s: "), "{wrong}");
    assert!(!wrong.contains("--set:"), "{wrong}");
    // The port's new rate is set; the guarantee that it does not hold is on line 18 of the scenario.
    let wrong = said(&shares, &[("node.r.router.port.core.rate", "500 kbit/s")]);
    assert!(wrong.contains("t.toml:18:13: warning: class \"all\": guarantee"), "{wrong}");
    // A variant's own settings are in the scenario file.
    let variant = BASE.replace(
        "[variants.bare.set]",
        "[variants.v.set]\nnode.r.router.class.all.weight = \"x\"\n[variants.bare.set]",
    );
    let wrong = said(&variant, &[]);
    assert!(
        wrong.contains("variant \"v\": node.r.router.class.all.weight") && !wrong.contains("--set"),
        "{wrong}"
    );
}

#[test]
fn a_path_into_a_file_that_is_not_there_says_so_and_a_class_has_its_port_before_it() {
    let none = said(BASE, &[("node.r.agent.class.voice.lower", "60%")]);
    assert_eq!(
        none,
        "--set node.r.agent.class.voice.lower=60%: is not a path of this scenario;\n  \
         node.r has no agent: give it an agent with agent = \"FILE\".\n"
    );
    let named = BASE.replace("name = \"all\"", "name = \"core/voice\"");
    let meant = said(&named, &[("node.r.router.class.voice.weight", "2")]);
    assert!(meant.contains("did you mean \"core/voice\"?"), "{meant}");
}

#[test]
fn a_class_of_an_agent_must_be_one_of_its_router() {
    let text = BASE.replace("[node.r]\n", "[node.r]\nagent = \"agent.toml\"\n");
    assert!(!said(&text, &[]).contains("no class"), "{}", said(&text, &[]));
    let other = text.replace("name = \"all\"", "name = \"core/all\"").replace("[node.b]", "\n[node.b]");
    let wrong = said(&other, &[]);
    let place = "agent.toml:5:8: class \"all\": name = \"all\" is no class of the router \"r\";\n  \
                 did you mean \"core/all\"? Allowed: \"core/all\".";
    assert!(wrong.contains(place), "{wrong}");
}

#[test]
fn the_broker_of_a_scenarios_agent_is_an_emulated_one() {
    let text = BASE.replace("[node.r]\n", "[node.r]\nagent = \"leasing.toml\"\n");
    let wrong = said(&text, &[]);
    assert!(wrong.contains("has a broker of kind \"controller\", which no scenario has"), "{wrong}");
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
            "--set link.cor.rate=1: is not a path of this scenario;\n  did you mean \"link.core.rate\"? \
             Allowed: \"acc\", \"core\".\n",
        ),
        (
            "link.core.rat",
            "--set link.core.rat: is not a path of this scenario;\n  did you mean \"link.core.rate\"? Known keys: \
             rate, trace, ends, delay.\n",
        ),
        ("lnk.core.rate", "--set lnk: is not a path of this scenario;\n  did you mean \"link\"?"),
        (
            "link.core.change[2].at",
            "--set link.core.change[2].at=1: is not a path of this scenario;\n  link.core.change has 1 element, \
             counted from 1.\n",
        ),
        ("link.core.chnge[1].at", "did you mean \"link.core.change[1].at\"?"),
        ("link.acc.change[1].at", "is not a path of this scenario"),
        (
            "link.core.delay.ms",
            "--set link.core.delay.ms=1: is not a path of this scenario;\n  link.core.delay has no parts.\n",
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
        "--set link.core.rate=4: is not a rate: it has no unit;\n  Write for example \"10 Mbit/s\".\n"
    );
    let said = said(BASE, &[("traffic.voip.calls", "many")]);
    assert_eq!(said, "--set traffic.voip.calls=many: is a string, expected an integer from 1 to 24000.\n");
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

/// The file without the queue of the variant "small", which is before a router in vain.
fn quiet() -> String {
    let quiet = BASE.replace("\"link.core.queue\" = \"20 packets\", ", "");
    assert_ne!(quiet, BASE);
    quiet
}

/// Scenario files of the repository with their folder.
fn published() -> Vec<(String, std::path::PathBuf)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files.iter().map(|path| (std::fs::read_to_string(path).expect("a text"), path.clone())).collect()
}

/// What can be set by its path in a scenario, with three values: rate, delay, jitter, loss and queue of each link, and
/// of each traffic what its kind has.
fn settable(text: &str) -> Vec<(String, [&'static str; 3])> {
    const LINK: [(&str, [&str; 3]); 5] = [
        ("rate", ["4Mbit/s", "50 Mbit/s", "1Gbit/s"]),
        ("delay", ["60ms", "0 ms", "1 s"]),
        ("jitter", ["3 ms", "0ms", "100us"]),
        ("loss", ["1%", "0.01", "0 %"]),
        ("queue", ["50 packets", "100 ms", "64 kB"]),
    ];
    let file: toml::Table = text.parse().expect("a scenario is TOML");
    let mut all = Vec::new();
    for name in file["link"].as_table().expect("links").keys() {
        all.extend(LINK.map(|(key, values)| (format!("link.{name}.{key}"), values)));
    }
    for (name, traffic) in file["traffic"].as_table().expect("traffic") {
        let keys: &[(&str, [&str; 3])] = match traffic["kind"].as_str().expect("a kind") {
            "voice" => &[("calls", ["37", "1", "200"]), ("codec", ["g729", "g711a", "g723.1-6.3"])],
            "video" => &[("count", ["3", "1", "20"]), ("rate", ["300 kbit/s", "20kbit/s", "2Mbit/s"])],
            "web" => &[("count", ["80", "1", "300"]), ("size", ["20 kB", "100 B", "1 MB"])],
            "bulk" => &[("count", ["5", "1", "100"]), ("spacing", ["10 ms", "0 s", "100 ms"])],
            "files" => &[("count", ["5", "1", "100"]), ("size", ["100 kB", "1 B", "30 MB"])],
            "mmpp" => &[("count", ["2", "1", "9"]), ("rate", ["1Mbit/s", "10kbit/s", "5Mbit/s"])],
            "constant" | "poisson" => &[
                ("count", ["2", "1", "9"]),
                ("rate", ["1Mbit/s", "10kbit/s", "5Mbit/s"]),
                ("size", ["200 B", "1500 B", "44 B"]),
            ],
            "rtp" => &[
                ("count", ["2", "1", "9"]),
                ("rate", ["1Mbit/s", "10kbit/s", "5Mbit/s"]),
                ("size", ["200 B", "1500 B", "56 B"]),
            ],
            "on-off" => &[
                ("count", ["2", "1", "9"]),
                ("rate", ["1Mbit/s", "10kbit/s", "5Mbit/s"]),
                ("on", ["100 ms", "20 ms", "5 s"]),
            ],
            "staircase" => &[("size", ["200 B", "1500 B", "44 B"]), ("repeat", ["true", "false", "true"])],
            other => panic!("what can be set in {other}?"),
        };
        let times = [("start", ["7 s", "0 s", "6500 ms"]), ("stop", ["10 s", "0.15 min", "12 s"])];
        // What lasts for a second or two is over before these.
        let short = matches!(file["duration"].as_str(), Some("1 s" | "2 s"));
        let times = if short { &times[..0] } else { &times[..] };
        all.extend(keys.iter().chain(times).map(|(key, values)| (format!("traffic.{name}.{key}"), *values)));
    }
    all
}

#[test]
fn what_every_scenario_promises_can_be_set() {
    for (text, path) in published() {
        let beside = |name: &str| {
            let file = path.parent().expect("a folder").join(name);
            std::fs::read(file).map_err(|e| e.to_string())
        };
        let settable = settable(&text);
        for round in 0..3 {
            let settings = settable.iter().map(|(at, values)| (at.as_str(), values[round])).collect();
            let name = path.display().to_string();
            let (loaded, said) = perhop_scenario::Scenario::read(&name, &text, &settings, &beside);
            assert!(loaded.is_some(), "{said}");
        }
    }
}

#[test]
fn shares_of_a_port_without_a_rate_are_those_of_its_link() {
    let share =
        |text: &str| text.replace("rate = \"2 Mbit/s\"\n[[class]]", "[[class]]\nguarantee = \"30 %\"");
    let text = share(&quiet());
    assert_ne!(text, quiet());
    assert_eq!(said(&text, &[]), "");
    // Whose link has no rate either: a share of what?
    let unlimited = text.replace("ends = [\"r\", \"b\"]\nrate = \"2 Mbit/s\"", "ends = [\"r\", \"b\"]");
    let refused = "t.toml:14:13: class \"all\": guarantee = 30 % is a share of the rate of port \"core\", which has none";
    assert!(said(&unlimited, &[]).starts_with(refused), "{}", said(&unlimited, &[]));
    assert_eq!(said(&unlimited, &[("link.core.rate", "4Mbit/s")]), "");
    // A rate that is wrong is reported once, where it is.
    let wrong =
        text.replace("ends = [\"r\", \"b\"]\nrate = \"2 Mbit/s\"", "ends = [\"r\", \"b\"]\nrate = \"2 M\"");
    assert_eq!(said(&wrong, &[]).matches("t.toml:").count(), 1, "{}", said(&wrong, &[]));
    assert!(said(&wrong, &[]).contains("rate = 2 M"), "{}", said(&wrong, &[]));
}

#[test]
fn a_queue_behind_a_router_is_told_to_have_no_effect() {
    let base = quiet();
    let said = |settings: &[(&str, &str)]| crate::said(&base, settings);
    // The variant "bare" has a forwarder there: the file's value is for it.
    assert_eq!(said(&[]), "");
    let set = said(&[("link.core.queue", "9 packets")]);
    let expected = "--set link.core.queue=9 packets: warning: has no effect from \"r\" to \"b\": router \"r\" \
                    queues before this link;\n  Its queues are set by their paths, such as \
                    node.r.config.class.all.queue.\n";
    assert_eq!(set, expected);
    // What is said is true: there the path leads.
    assert_eq!(said(&[("node.r.config.class.all.queue", "9 packets")]), "");
    // For that variant alone it has effect; for the one with the router it has none.
    let bare = said(&[("variants.bare.link.core.queue", "9 packets")]);
    assert!(!bare.contains("--set"), "{bare}");
    let discipline = "Shaper(discipline = red, min = 10 packets, max = 30 packets)";
    let small = said(&[("variants.small.link.core.discipline", discipline)]);
    assert!(
        small.contains("--set variants.small.link.core.discipline=")
            && small.contains("warning: has no effect"),
        "{small}"
    );
    // The other direction has no router before it.
    assert_eq!(said(&[("link.core.reverse.queue", "9 packets")]), "");
    // Nor does a port that is faster than its link queue before it.
    let faster = [("link.core.queue", "9 packets"), ("node.r.config.port.core.rate", "3 Mbit/s")];
    assert_eq!(said(&faster), "");
    // A port without classes has one queue, and one that the file does not name leaves it to the link.
    let class = "[[class]]\nname = \"all\"\nport = \"core\"\ndefault = true\n";
    let plain = base.replace(class, "");
    let set = crate::said(&plain, &[("link.core.queue", "9 packets")]);
    assert!(set.contains("no effect") && set.contains("such as node.r.config.port.core.queue."), "{set}");
    assert_eq!(crate::said(&plain, &[("node.r.config.port.core.queue", "9 packets")]), "");
    assert_eq!(crate::said(&base, &[("link.acc.reverse.queue", "9 packets")]), "");
    let alone = base.replace("node.r.kind = \"forwarder\"\n", "");
    assert!(
        crate::said(&alone, &[])
            .starts_with("t.toml:28:9: warning: link \"core\": queue = 50 packets has no effect")
    );
    let discipline = alone.replace("queue = \"50 packets\"", &format!("discipline = \"{discipline}\""));
    assert!(
        crate::said(&discipline, &[]).starts_with("t.toml:28:14: link \"core\": discipline = "),
        "{}",
        crate::said(&discipline, &[])
    );
}

#[test]
fn one_mistake_in_a_setting_is_one_error() {
    for (path, value) in
        [("link.core.chnge[1].at", "2 s"), ("duration", "5"), ("link.core.change[7].at", "2 s")]
    {
        let said = said(BASE, &[(path, value)]);
        assert_eq!(said.matches("--set ").count(), 1, "{path}: {said}");
        assert!(!said.contains("before the end"), "{path}: {said}");
    }
}

#[test]
fn a_figure_of_an_agent_that_is_not_there_has_no_empty_list() {
    let text = BASE.replace("voip.loss_pct", "agent.all.efficiency_pct");
    let wrong = said(&text, &[]);
    assert!(wrong.contains("There is none") && !wrong.contains("one of ."), "{wrong}");
}
