use super::*;
use clap::Parser;
use perhop_model::{Kind, Spec};
use perhop_routerfile::RouterFile;
use perhop_scenario::{NodeKind, Scenario};
use perhop_units::QueueLimit;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: DemoArgs,
}

fn given(options: &[&str]) -> Result<DemoArgs, clap::Error> {
    Command::try_parse_from(std::iter::once(&"demo").chain(options)).map(|command| command.args)
}

fn loaded(options: &[&str]) -> perhop_scenario::Loaded {
    given(options).expect("good options").scenario(None).expect("a good scenario").loaded
}

/// Text of the router in a scenario, as an object's specification by kind and name.
fn text(scenario: &Scenario) -> &str {
    let router = scenario.nodes.iter().find_map(|node| match &node.kind {
        NodeKind::Router(config) => Some(config),
        _ => None,
    });
    &router.expect("a router").text
}

#[test]
fn without_options_it_is_the_scenario_as_it_stands() {
    let found = find::shipped(SCENARIO).expect("it is built in");
    let as_it_stands = find::read(&found, &[]).expect("it is good").loaded;
    assert_eq!(loaded(&[]), as_it_stands);
    assert!(
        as_it_stands.product.length().saturating_mul(2) < Duration::from_secs(68),
        "both runs end in time"
    );
}

#[test]
fn every_option_is_checked() {
    for bad in [
        ["--calls", "0"],
        ["--calls", "201"],
        ["--rate", "1 kbit/s"],
        ["--rate", "201 Mbit/s"],
        ["--delay", "2 s"],
        ["--delay", "2"],
        ["--flood", "2 Gbit/s"],
        ["--seconds", "0"],
        ["--seconds", "3601"],
        ["--codec", "opus"],
    ] {
        assert!(given(&bad).is_err(), "{bad:?}");
    }
    for good in
        [["--calls", "200"], ["--rate", "200 Mbit/s"], ["--rate", "500 kbit/s"], ["--seconds", "3600"]]
    {
        assert_eq!(loaded(&good).variants.len(), 1, "{good:?}");
    }
}

/// The port has 99 % of every link, the plain queue as much memory as the file's, targets the link's delay.
#[test]
fn options_change_all_that_hangs_on_them() {
    let options =
        ["--rate", "4 Mbit/s", "--delay", "100 ms", "--codec", "g729", "--calls", "3", "--seconds", "8"];
    let loaded = loaded(&options);
    let (perhop, fifo) = (&loaded.product, &loaded.variants[0].1);
    for scenario in [perhop, fifo] {
        let (file, _) = RouterFile::read("router.toml", text(scenario));
        let objects = file.expect("a good file").objects;
        let wan =
            objects.iter().find(|o| o.kind() == Kind::Port && o.name.as_str() == "wan").expect("a port");
        let Spec::Port(wan) = &wan.spec else { panic!("{wan:?}") };
        assert_eq!(wan.rate, Rate(3_960_000));
        let link = &scenario.links[1].ways[0];
        assert_eq!((link.rate, link.delay), (Some(Rate::from_mbit(4)), Duration::from_millis(100)));
    }
    let targets: Vec<_> = perhop.expect.iter().map(|expect| expect.target).collect();
    assert_eq!(targets[2], Some(perhop_scenario::Target::AtMost(105.0)));
    assert!(
        matches!(targets[3], Some(perhop_scenario::Target::AtLeast(score)) if (3.96..3.98).contains(&score))
    );
    assert_eq!(perhop.traffic.last().map(|flood| flood.name.as_str()), Some(FLOOD));
    let without = self::loaded(&["--flood", "0 bit/s"]);
    assert!(without.product.traffic.iter().chain(&without.variants[0].1.traffic).all(|t| t.name != FLOOD));
}

/// G.729 reaches 4.14 at best (R = 83.2); 4.3 leaves G.711 a budget of 4.8 (R = 88.4), which makes 78.4 here.
#[test]
fn the_score_asked_for_follows_the_codec() {
    let asked = |codec| format!("{:.2}", score_asked(codec));
    assert_eq!((asked(Codec::G711A), asked(Codec::G729)), ("4.30".to_owned(), "3.97".to_owned()));
}

/// 20 ms and 100 ms of half the link, which each class is guaranteed.
#[test]
fn the_plain_queue_is_as_long_as_those_of_the_edge_together() {
    let loaded = loaded(&[]);
    let (file, _) = RouterFile::read("edge.toml", text(&loaded.product));
    for rate in [Rate::from_kbit(500), Rate::from_mbit(10), Rate::from_mbit(200)] {
        let classes = file.as_ref().expect("a good file").classes();
        let bytes: u64 = classes
            .map(|(_, class)| match class.queue.limit {
                QueueLimit::Packets(n) => u64::from(n) * FULL_FRAME,
                // A class's queue in time is filled at its guarantee.
                limit => limit.in_bytes(class.guarantee.of(rate)).map_or(0, |bytes| bytes.get()),
            })
            .sum();
        assert_eq!(rate.bytes_in(EDGE_QUEUES).get(), bytes, "{rate}");
    }
    assert!(text(&loaded.variants[0].1).contains("50 packets"));
}
