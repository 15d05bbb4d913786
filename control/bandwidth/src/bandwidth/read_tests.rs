use super::*;
use crate::file::AgentFile;

fn errors(text: &str) -> Vec<String> {
    let (file, diagnostics) = AgentFile::read("agent.toml", text);
    assert!(file.is_none() || diagnostics.errors() == 0);
    diagnostics.sorted().iter().map(ToString::to_string).collect()
}

#[test]
fn everything_that_links_can_have() {
    let text = r#"
        [bandwidth]
        look = "100 ms"
        least_change = "2 %"
        [[link]]
        name = "sat"
        port = "wan"
        rate = "1536 kbit/s"
        set_port = true
        utilisation = "98 %"
        above = ["voice", "control"]
        metering = "offered"
        intervals = 5
        margin = "10 %"
        notice = "2 s"
        repeat = "40 s"
        [[link.change]]
        at = "0 s"
        rate = "1536 kbit/s"
        [[link.change]]
        at = "20 s"
        rate = "512 kbit/s"
        [[link]]
        name = "far"
        rate = "10 Mbit/s"
        [[abr]]
        name = "gold"
        links = ["far", "sat"]
        weight = 5
        weighted = "policy"
        min = "10 kbit/s"
        peak = "1 Mbit/s"
        reserve = "20 kbit/s"
        [[abr]]
        name = "rest"
        links = "sat"
        [requests]
        links = ["sat"]
        limit = 10
        most = "300 kbit/s"
    "#;
    let (file, diagnostics) = AgentFile::read("agent.toml", text);
    let settings = file.unwrap_or_else(|| panic!("{diagnostics}")).bandwidth;
    assert_eq!((settings.look, settings.least_change_ppm), (Duration::from_millis(100), 20_000));
    let [sat, far] = &settings.links[..] else { panic!("two links") };
    let change = |at, rate| Change { at: Duration::from_secs(at), rate: Rate::from_kbit(rate) };
    let schedule =
        Schedule { changes: vec![change(0, 1_536), change(20, 512)], repeat: Some(Duration::from_secs(40)) };
    let name = |text| Name::new(text).unwrap();
    let expected = LinkSettings {
        name: name("sat"),
        port: Some(name("wan")),
        rate: Some(Rate::from_kbit(1_536)),
        set_port: true,
        utilisation_ppm: 980_000,
        above: vec![name("voice"), name("control")],
        metering: Metering::Offered,
        intervals: 5,
        margin_ppm: 100_000,
        notice: Duration::from_secs(2),
        schedule,
    };
    assert_eq!(*sat, expected);
    assert_eq!((far.port.as_ref(), far.notice, far.utilisation_ppm), (None, Duration::from_secs(1), WHOLE));
    let [gold, rest] = &settings.policies[..] else { panic!("two policies") };
    assert_eq!((&gold.path, gold.weighted, gold.weight), (&vec![1, 0], Weighted::Policy, Some(5)));
    let bounds = [gold.min, gold.peak, gold.reserve].map(|rate| rate.unwrap().0);
    assert_eq!(bounds, [10_000, 1_000_000, 20_000]);
    assert_eq!((&rest.path, rest.weighted, rest.weight, rest.min), (&vec![0], Weighted::Flow, None, None));
    let most = Some(Rate::from_kbit(300));
    assert_eq!(settings.requests, Some(RequestSettings { path: vec![0], limit: 10, most }));
}

#[test]
fn one_link_needs_not_be_named() {
    let text = "[[link]]\nname = \"a\"\nport = \"wan\"\n[[abr]]\nname = \"x\"\n[requests]\n";
    let (file, diagnostics) = AgentFile::read("agent.toml", text);
    let settings = file.unwrap_or_else(|| panic!("{diagnostics}")).bandwidth;
    assert_eq!(settings.policies[0].path, [0]);
    assert_eq!(settings.requests.map(|requests| requests.path), Some(vec![0]));
}

#[test]
fn all_errors_come_at_once_with_their_places() {
    let found = errors(
        "[bandwidth]\nlook = \"1 ms\"\nleast_change = \"1 kbit/s\"\n\
         [[link]]\nname = \"a\"\nset_port = true\nutilisation = \"0.5 %\"\nmargin = \"5 %\"\nnotice = \"2 h\"\n\
         [[link]]\nname = \"b b\"\nport = \"wan\"\nabove = [\"voice\", \"voice\"]\nrepeat = \"30 s\"\n\
         [[link.change]]\nat = \"20 s\"\nrate = \"10 bit/s\"\n\
         [[link.change]]\nat = \"20 s\"\nrate = \"1 Mbit/s\"\n\
         [[link.change]]\nat = \"40 s\"\nrat = \"1 Mbit/s\"\n\
         [[abr]]\nname = \"x\"\n\
         [[abr]]\nname = \"y\"\nlinks = [\"a\", \"aa\", \"a\"]\nweight = 0\nmin = \"2 Mbit/s\"\npeak = \"1 Mbit/s\"\n\
         [[abr]]\nname = \"y\"\nlinks = []\nweighted = \"flows\"\n\
         [requests]\nlimit = -1\n",
    );
    let expected = [
        ("2:8", "look = 1 ms is out of range"),
        ("3:16", "is not a share"),
        ("4:1", "rate is missing, and so is port"),
        ("6:12", "needs a port"),
        ("7:15", "is out of range"),
        ("8:10", "has no meaning without above"),
        ("9:10", "is out of range"),
        ("11:8", "is not a name"),
        ("13:19", "is listed twice"),
        ("17:8", "is out of range"),
        ("19:6", "is not after the change before it, at 20 s"),
        ("21:1", "rate is missing"),
        ("22:6", "is not before the end of the repetition"),
        ("23:1", "is not a known key"),
        ("24:1", "links is missing: there are several"),
        ("28:15", "is the name of no [[link]]"),
        ("28:21", "is listed twice"),
        ("29:10", "is out of range"),
        ("31:8", "is below min = 2 Mbit/s"),
        ("33:8", "is the name of another abr"),
        ("34:9", "is empty"),
        ("35:12", "did you mean \"flow\"?"),
        ("36:1", "links is missing"),
        ("37:9", "is out of range"),
    ];
    for (i, (place, words)) in expected.iter().enumerate() {
        let text = found.get(i).map_or("", String::as_str);
        assert!(
            text.starts_with(&format!("agent.toml:{place}: ")) && text.contains(words),
            "{place}: {found:#?}"
        );
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn without_a_link_nothing_is_shared() {
    let class = "[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\nmost = \"1 Mbit/s\"\n";
    let found = errors(&format!("{class}[bandwidth]\n[[abr]]\nname = \"x\"\n[requests]\n"));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found.iter().all(|text| text.contains("has no meaning without a [[link]]")), "{found:#?}");
    let found = errors("[agent]\nrouter = \"edge\"\n");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("a [[class]], a [[link]], or what a [controller] wants"), "{}", found[0]);
}

/// The file that docs/bandwidth.md shows.
#[test]
fn the_documented_file_is_a_good_one() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bandwidth.md");
    let page = std::fs::read_to_string(page).unwrap();
    let text = page.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
    assert_eq!(errors(text), Vec::<String>::new());
    let (file, _) = AgentFile::read("agent.toml", text);
    let settings = file.unwrap().bandwidth;
    assert_eq!((settings.links.len(), settings.policies.len()), (1, 3));
    assert!(settings.requests.is_some() && settings.links[0].schedule.repeat.is_some());
}
