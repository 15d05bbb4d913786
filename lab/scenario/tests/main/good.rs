use crate::{companion, good};
use perhop_quality::{Playout, Scoring};
use perhop_scenario::{
    IndexEntry, NodeIndex, NodeKind, Paths, Scenario, Settings, Target, TrafficKind, drawing, figures,
};
use perhop_units::{Duration, Rate};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every scenario of the repository is without errors and warnings.
#[test]
fn scenarios_of_the_repository_are_read() {
    let mut folders = vec![root().join("scenarios")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|e| e != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("readable");
            let beside = |name: &str| {
                let file = path.parent().expect("a folder").join(name);
                std::fs::read(file).map_err(|e| e.to_string())
            };
            if !text.contains("\nduration") {
                // A companion router file.
                continue;
            }
            let name = path.display().to_string();
            let (loaded, diagnostics) = Scenario::read(&name, &text, &Settings::new(), &beside);
            assert!(diagnostics.is_empty(), "{diagnostics}");
            assert!(loaded.is_some());
            count += 1;
        }
    }
    assert!(count >= 1);
}

/// The example of the reference page, whole.
#[test]
fn the_page_about_the_file_shows_one_that_is_read() {
    let page = std::fs::read_to_string(root().join("docs/scenario-file.md")).expect("the page");
    let mut examples = 0;
    for block in page.split("```toml\n").skip(1) {
        let text = block.split("```").next().expect("a block");
        if !text.contains("duration = ") {
            continue;
        }
        let (loaded, diagnostics) = Scenario::read("docs", text, &Settings::new(), &companion);
        assert!(diagnostics.is_empty(), "{diagnostics}");
        let loaded = loaded.expect("no errors");
        assert!(!drawing::draw(&loaded.product).is_empty());
        examples += 1;
    }
    assert!(examples >= 1);
}

#[test]
fn the_three_routers_mean_what_they_say() {
    let text = std::fs::read_to_string(root().join("scenarios/examples/three-routers.toml")).expect("there");
    let loaded = good(&text, &[]);
    let s = &loaded.product;
    assert_eq!((s.warm_up, s.duration), (Duration::from_secs(5), Duration::from_secs(35)));
    assert_eq!(s.nodes.iter().filter(|n| matches!(n.kind, NodeKind::Router(_))).count(), 2);
    let addresses: Vec<String> = s.nodes.iter().map(|n| n.address.to_string()).collect();
    assert_eq!(addresses[..2], ["10.0.0.1", "10.0.0.2"]);
    let east = &s.links[s.link("east").expect("a link").0];
    for way in &east.ways {
        assert_eq!(way.rate, Some(Rate::from_mbit(6)));
        assert_eq!(
            way.changes.iter().map(|c| c.rate).collect::<Vec<_>>(),
            [Some(Rate::from_mbit(3)), Some(Rate::from_mbit(6))]
        );
    }
    let voip = &s.traffic[0];
    assert!(voip.both && voip.dscp.get() == 46 && voip.reply_dscp.get() == 46);
    assert_eq!((voip.stop, s.traffic[1].stop), (Duration::from_secs(39), Duration::from_secs(40)));
    assert!(matches!(voip.kind, TrafficKind::Voice { calls: 10, .. }));
    assert!(matches!(&s.traffic[1].kind, TrafficKind::Bulk { count: 3, size: None, .. }));
    assert_eq!(s.expect[0].target, Some(Target::Equal(0.0)));
    assert_eq!(s.probes.connections, [1]);
    assert_eq!(s.variants, ["plain"]);
    let (name, plain) = &loaded.variants[0];
    assert_eq!(name, "plain");
    assert!(plain.nodes.iter().all(|n| !matches!(n.kind, NodeKind::Router(_))));
    assert_eq!(plain.links.len(), s.links.len());
    let entry = IndexEntry::from(&loaded);
    assert_eq!(
        (entry.nodes, entry.targets, entry.variants.as_slice()),
        (7, 3, ["plain".to_owned()].as_slice())
    );
}

/// What follows connections, and where their starts and hosts lie.
#[test]
fn connections_are_followed_and_spread_as_the_file_says() {
    const TEXT: &str = r#"
id = "t"
title = "t"
warm_up = "10 s"
duration = "50 s"
[node.a]
kind = "host"
[node.b]
kind = "host"
[link.core]
ends = ["a", "b"]
rate = "1 Mbit/s"
delay = "100 ms"
[[link.core.change]]
at = "30 s"
delay = "150 ms"
way = "forward"
[traffic.bulk]
kind = "bulk"
from = "a"
to = "b"
both = true
count = 4
spacing = "500 ms"
at_once = 2
stagger = "100 ms"
access_delay = ["5 ms", "20 ms"]
[traffic.bulk.tcp]
share = "24 kbit/s"
[probes]
segments = ["bulk"]
delay_limits = ["234 ms", "117.5 ms"]
playout = "60 ms"
playout_most = "2 s"
[probes.phase.early]
until = "20 s"
[[expect]]
metric = "bulk.up@early.goodput_5s_kbps.stdev"
target = "<= 2.6"
[[expect]]
metric = "bulk.esdl_ms.over_pct.117.5"
target = "= 0"
"#;
    let (loaded, diagnostics) =
        Scenario::read("t.toml", TEXT, &Settings::new(), &|_: &str| Err("none".into()));
    let s = loaded.unwrap_or_else(|| panic!("{diagnostics}")).product;
    let kind = &s.traffic[0].kind;
    assert!(matches!(kind, TrafficKind::Bulk { at_once: 2, stagger: Duration(100_000_000), .. }));
    let delays: Vec<u64> = (0..4).map(|slot| kind.access_delay(slot).as_nanos() / 1_000_000).collect();
    assert_eq!(delays, [5, 10, 15, 20]);
    assert_eq!(kind.tcp().and_then(|tcp| tcp.share), Some(Rate::from_kbit(24)));
    assert_eq!((s.probes.segments.as_slice(), s.probes.delay_limits.len()), (&[0][..], 2));
    let playout = Playout::Adaptive { least: Duration::from_millis(60), most: Duration::from_secs(2) };
    assert_eq!(s.probes.scoring, Scoring { playout, ..Scoring::default() });
    assert_eq!(s.probes.phases[0].until, Duration::from_secs(20));
    let names: Vec<String> = figures::groups(&s).into_iter().map(|group| group.name).collect();
    assert_eq!(names, ["bulk", "bulk.down", "bulk.up", "bulk@early", "bulk.down@early", "bulk.up@early"]);
    let (paths, ends) = (Paths::of(&s), [NodeIndex(0), NodeIndex(1)]);
    let latency = |from: usize, at| {
        let latency = paths.latency(&s, ends[from], ends[1 - from], Duration::from_secs(at)).expect("a path");
        latency.as_nanos() / 1_000_000
    };
    assert_eq!([latency(0, 29), latency(0, 30), latency(1, 40)], [100, 150, 100]);

    // What a figure needs must be recorded.
    for (missing, says) in [
        ("segments = [\"bulk\"]\n", "is a figure of segments, which are not followed"),
        ("delay_limits = [\"234 ms\", \"117.5 ms\"]\n", "a limit of 117.5 ms that is not counted"),
        ("until = \"20 s\"\n", ""),
    ] {
        let text = TEXT.replace(missing, "");
        let (_, diagnostics) =
            Scenario::read("t.toml", &text, &Settings::new(), &|_: &str| Err("none".into()));
        assert!(
            diagnostics.to_string().contains(says) && diagnostics.has_errors() != says.is_empty(),
            "{diagnostics}"
        );
    }
    let text =
        TEXT.replace("goodput_5s_kbps.stdev", "utilisation_pct.mean").replace("share = \"24 kbit/s\"\n", "");
    let (_, diagnostics) = Scenario::read("t.toml", &text, &Settings::new(), &|_: &str| Err("none".into()));
    assert!(diagnostics.to_string().contains("is a share of a rate that is not told"), "{diagnostics}");
}

/// Groups of what flows send after their first packets are named after traffic and probe, and are expected like others.
#[test]
fn parts_of_flows_have_groups_that_can_be_expected() {
    const TEXT: &str = r#"
id = "t"
title = "t"
duration = "10 s"
node.a.kind = "host"
node.b.kind = "host"
link.core.ends = ["a", "b"]
link.core.rate = "100 Mbit/s"
[traffic.voip]
kind = "voice"
from = ["a", "b"]
to = ["b", "a"]
both = true
[traffic.tv]
kind = "video"
from = "a"
to = "b"
[traffic.ftp]
kind = "bulk"
from = "a"
to = "b"
[probes.after.detection]
traffic = ["voip", "tv"]
packets = 10
[probes.phase.end]
from = "5 s"
[[expect]]
metric = "voip_after_detection.up.loss_pct - tv_after_detection.loss_pct"
target = "= 0"
"#;
    let s = good(TEXT, &[]).product;
    assert_eq!(s.probes.after[0].traffic, [0, 1]);
    let after: Vec<(String, u32)> = figures::groups(&s)
        .into_iter()
        .filter(|group| group.name.contains("_after_"))
        .map(|group| (group.name, group.after_packets))
        .collect();
    let names = [
        "voip_after_detection",
        "voip_after_detection.down",
        "voip_after_detection.up",
        "tv_after_detection",
    ];
    assert_eq!(after, names.map(|name| (name.to_owned(), 10)));
    let (loaded, _) = Scenario::read(
        "t.toml",
        TEXT,
        &[("probes.after.detection.packets", "3")].into_iter().collect(),
        &|_: &str| Err("none".into()),
    );
    assert_eq!(loaded.expect("it can be set").product.probes.after[0].packets, 3);
    for (written, instead, says) in [
        ("\"tv\"]\n", "\"ftp\"]\n", "sends no datagrams that could be counted"),
        ("\"tv\"]\n", "\"tb\"]\n", "is not a traffic"),
        ("packets = 10", "packets = 0", "1 to 1000000"),
        ("packets = 10", "", "packets"),
        ("[traffic.ftp]", "[traffic.tv_after_x]", "and so does traffic \"tv_after_x\""),
    ] {
        let text = TEXT.replace(written, instead);
        let text = if says.contains("so does") { text.replace("after.detection", "after.x") } else { text };
        let (loaded, said) = Scenario::read("t.toml", &text, &Settings::new(), &|_: &str| Err("none".into()));
        assert!(loaded.is_none() && said.to_string().contains(says), "{says}: {said}");
    }
}

/// A rate of video is that of its frames, as an encoder's and as published; what the link carries is 28 bytes a packet more.
#[test]
fn the_rate_of_video_is_that_of_its_frames() {
    const TEXT: &str = r#"
id = "t"
title = "t"
duration = "600 s"
[node.a]
kind = "host"
[node.b]
kind = "host"
[link.core]
ends = ["a", "b"]
[traffic.tv]
kind = "video"
from = "a"
to = "b"
rate = "130 kbit/s"
"#;
    let loaded = good(TEXT, &[]);
    let seed = perhop_traffic::Seed { seed: 1, repetition: 0 };
    let made = perhop_scenario::generators::datagrams(&loaded.product.traffic[0], 0, seed);
    let source = made.expect("it can be made").expect("datagrams").source;
    let (mut payload, mut packets) = (0_u64, 0_u64);
    for emission in source {
        payload += u64::from(emission.len);
        packets += 1;
    }
    let mean = |bytes: u64| bytes as f64 * 8.0 / 600.0;
    // The generator is exact over every minute; the last piece of a frame is at least a stamp long.
    assert!((mean(payload) / 130_000.0 - 1.0).abs() < 0.002, "{} bit/s of frames", mean(payload));
    let ip = mean(payload + 28 * packets);
    assert!((ip / 136_200.0 - 1.0).abs() < 0.01, "{ip} bit/s at IP length");
}

/// RTP at several rates for random times or at one, and a router that gets another file.
#[test]
fn flows_of_rtp_and_another_router_file_mean_what_they_say() {
    let read = |name: &str| {
        let folder = root().join("scenarios");
        let text = std::fs::read_to_string(folder.join(name)).expect("there");
        let beside = |name: &str| std::fs::read(folder.join(name)).map_err(|e| e.to_string());
        let (loaded, diagnostics) = Scenario::read(name, &text, &Settings::new(), &beside);
        loaded.unwrap_or_else(|| panic!("{diagnostics}"))
    };
    let admitted = read("C-V-6.toml");
    let rates = [0, 16_384, 32_768].map(Rate).to_vec();
    let stay = (Duration::ZERO, Duration::from_secs(20));
    let size = perhop_units::Bytes(256);
    assert_eq!(admitted.product.traffic[0].kind, TrafficKind::Rtp { count: 16, rates, stay, size });
    let recognised = read("C-III-8.toml");
    let kind = &recognised.product.traffic[0].kind;
    assert!(
        matches!(kind, TrafficKind::Rtp { count: 1, rates, .. } if *rates == [Rate::from_kbit(512)]),
        "{kind:?}"
    );
    let changes = |scenario: &Scenario| match &scenario.nodes[1].kind {
        NodeKind::Router(config) => config.changes.clone(),
        other => panic!("{other:?}"),
    };
    let switched = read("C-III-5.toml");
    let (product, baseline) = (changes(&switched.product), changes(&switched.variants[0].1));
    assert_eq!((product.len(), product[0].at), (1, Duration::from_secs(30)));
    assert!(product[0].text.contains("[detector]"), "{}", product[0].text);
    assert_eq!(baseline[0].at, Duration::from_millis(59_900));
}

/// Packets of hosts begin with a TTL of 64.
#[test]
fn a_receiver_too_many_links_away_is_warned_of() {
    let chain = |forwarders: usize| {
        let mut text = "id = \"chain\"\ntitle = \"A long way\"\nduration = \"1 s\"\n".to_owned();
        text += "[node.a]\nkind = \"host\"\n[node.b]\nkind = \"host\"\n";
        for i in 0..forwarders {
            text += &format!("[node.f{i}]\nkind = \"forwarder\"\n");
        }
        for i in 0..=forwarders {
            let before = if i == 0 { "a".to_owned() } else { format!("f{}", i - 1) };
            let next = if i == forwarders { "b".to_owned() } else { format!("f{i}") };
            text += &format!("[link.l{i}]\nends = [\"{before}\", \"{next}\"]\nrate = \"1 Gbit/s\"\n");
        }
        text += "[traffic.u]\nkind = \"constant\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\nsize = \"500 B\"\n";
        let (loaded, diagnostics) = Scenario::read("chain.toml", &text, &Settings::new(), &companion);
        assert!(loaded.is_some(), "{diagnostics}");
        diagnostics.to_string()
    };
    assert_eq!(chain(63), "");
    let told = chain(64);
    assert!(told.contains("\"b\" is 65 links from \"a\"") && told.contains("TTL"), "{told}");
}
