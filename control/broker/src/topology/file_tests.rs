use super::*;

const NODES: &str = "[[node]]\nname = \"a\"\nkind = \"edge\"\n[[node]]\nname = \"c\"\nkind = \"core\"\n\
                     [[node]]\nname = \"b\"\nkind = \"peer\"\n";

fn errors(text: &str) -> Vec<String> {
    let (file, diagnostics) = DomainFile::read("domain.toml", text);
    assert!(file.is_none());
    diagnostics.sorted().iter().map(ToString::to_string).collect()
}

fn read(text: &str) -> DomainFile {
    let (file, diagnostics) = DomainFile::read("domain.toml", text);
    file.unwrap_or_else(|| panic!("{diagnostics}"))
}

#[test]
fn everything_a_file_can_say() {
    let digest = "AB".repeat(32);
    let text = format!(
        r#"
        [broker]
        lifetime = "2 min"
        most_lifetime = "1 h"
        on_short = "release"
        preempt = true
        group = 64
        most_reservations = 5
        refusals_per_second = 3
        remember = "5 s"
        {NODES}
        [[node]]
        name = "d"
        kind = "edge"
        certificate = "{digest}"
        [[link]]
        from = "a"
        port = "wan"
        to = "c"
        rate = "100 Mbit/s"
        classes = {{ voice = "30 Mbit/s", video = "20 %" }}
        both = true
        back_port = "p1"
        [link.schedule]
        repeat = "24 h"
        changes = [{{ at = "6 h", rate = "40 Mbit/s" }}, {{ at = "8 h", rate = "100 Mbit/s" }}]
        announced = [{{ from = "2026-12-01T08:00:00Z", until = "2026-12-01T09:00:00Z", rate = "10 Mbit/s" }}]
        [[link]]
        from = "c"
        port = "p2"
        to = "b"
        rate = "10 Mbit/s"
        classes = {{ voice = "50 %" }}
        [[link]]
        from = "a"
        port = "direct"
        to = "b"
        rate = "1 Mbit/s"
        classes = {{ voice = "50 %" }}
        [[path]]
        from = "a"
        to = "b"
        via = "c"
        [[client]]
        name = "phones"
        kind = "camara"
        role = "operator"
        token_sha256 = "{digest}"
        most = "10 Mbit/s"
        most_reservations = 7
        per_second = 9
        "#
    );
    let DomainFile { settings, topology } = read(&text);
    let expected = Settings {
        fence: 0,
        lifetime_ms: 120_000,
        most_lifetime_ms: 3_600_000,
        on_short: OnShort::Release,
        preempt: true,
        group: 64,
        most_reservations: 5,
        refusals_per_second: 3,
        remember_ms: 5_000,
    };
    assert_eq!(settings, expected);
    assert_eq!(topology.check(), Ok(()));
    assert_eq!(topology.nodes["d"].cert_sha256, Some("ab".repeat(32)));
    let keys: Vec<_> = topology.links.iter().map(|((n, p), l)| format!("{n}/{p}>{}", l.to)).collect();
    assert_eq!(keys, ["a/direct>b", "a/wan>c", "c/p1>a", "c/p2>b"]);
    let wan = &topology.links[&("a".to_owned(), "wan".to_owned())].profile;
    assert_eq!(wan.class_bps("voice", wan.rate.0), 30_000_000);
    assert_eq!(wan.class_bps("video", 50_000_000), 10_000_000);
    assert_eq!(wan.schedule.repeat_ms, 86_400_000);
    assert_eq!(wan.schedule.changes[0], (21_600_000, Rate::from_mbit(40)));
    assert_eq!(wan.schedule.announced[0].from_ms, 1_796_112_000_000);
    let path = &topology.paths[&("a".to_owned(), "b".to_owned())];
    let ports: Vec<_> = path.links.iter().map(|(_, port)| port.as_str()).collect();
    assert_eq!(ports, ["wan", "p2"]);
    let client = &topology.clients[0];
    assert_eq!((client.most_bps, client.most_count, client.per_second), (Some(10_000_000), Some(7), Some(9)));
}

#[test]
fn all_errors_at_once_with_their_places() {
    let text = format!(
        "[broker]\nlifetime = \"2 h\"\nmost_lifetime = \"1 h\"\n{NODES}[[link]]\nfrom = \"a\"\nport = \"wan\"\nto = \"bb\"\n\
         rate = \"10\"\nclasses = {{ voice = \"30 %\", video = \"big\" }}\n[[link]]\nfrom = \"a\"\nport = \"wan\"\nto = \"c\"\n\
         rate = \"10 Mbit/s\"\nclasses = {{ voice = \"60 %\", video = \"5 Mbit/s\" }}\nback_port = \"x\"\n[[path]]\nfrom = \"a\"\n\
         to = \"c\"\n[[path]]\nfrom = \"a\"\nto = \"b\"\nvia = [\"c\"]\n[[client]]\nname = \"x y\"\nkind = \"http\"\nrole = \"king\"\n"
    );
    let found = errors(&text);
    let expected = [
        ("2:12", "is above most_lifetime"),
        ("16:6", "is not a node of this file"),
        ("17:8", "is not a rate: it has no unit"),
        ("18:37", "is not a share"),
        ("24:11", "come to 11000000 bit/s"),
        ("25:13", "has no meaning without both"),
        ("28:6", "is a core router"),
        ("31:6", "is not reached from \"c\""),
        ("34:8", "is not a name of a client"),
        ("36:8", "is not known here"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, (place, words)) in found.iter().zip(expected) {
        assert!(
            found.starts_with(&format!("domain.toml:{place}: ")) && found.contains(words),
            "{found} / {words}"
        );
    }
}

#[test]
fn two_links_of_one_port_and_times_that_are_none_are_errors() {
    let link = "[[link]]\nfrom = \"a\"\nport = \"wan\"\nto = \"c\"\nrate = \"10 Mbit/s\"\nclasses = {}\n";
    let schedule = "[link.schedule]\nrepeat = \"1 h\"\nchanges = [{ at = \"30 min\", rate = \"20 Mbit/s\" }, \
                    { at = \"2 h\", rate = \"1 Mbit/s\" }, { at = \"20 min\", rate = \"1 Mbit/s\" }]\n\
                    announced = [{ from = \"now\", until = \"2026-12-01T08:00:00Z\", rate = \"1 Mbit/s\" }, \
                    { from = \"2026-12-01T08:00:00Z\", until = \"2026-12-01T08:00:00Z\", rate = \"1 Mbit/s\" }]\n";
    let found = errors(&format!("{NODES}{link}{link}{schedule}"));
    let expected = [
        "another link of node \"a\"",
        "out of range",
        "out of range",
        "not after the change before",
        "not a time of UTC",
        "is not after from",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, words) in found.iter().zip(expected) {
        assert!(found.contains(words), "{found} / {words}");
    }
}

#[test]
fn classes_that_do_not_fit_any_more_shrink_together_and_never_come_to_more_than_the_rate() {
    let classes =
        [("voice", Share::Rate(Rate(30))), ("video", Share::Rate(Rate(20))), ("data", Share::Ppm(400_000))];
    let classes: BTreeMap<_, _> = classes.map(|(name, share)| (name.to_owned(), share)).into();
    let profile = Profile { rate: Rate(100), classes, schedule: Schedule::default() };
    let all = |bps| ["voice", "video", "data"].map(|class| profile.class_bps(class, bps));
    assert_eq!(all(100), [30, 20, 40]);
    assert_eq!(all(90), [30, 20, 36]);
    assert_eq!(all(50), [30 * 50 / 70, 20 * 50 / 70, 20 * 50 / 70]);
    let mut before = [0; 3];
    for bps in 0..=100 {
        let now = all(bps);
        assert!(now.iter().sum::<u64>() <= bps);
        assert!(now.iter().zip(before).all(|(now, before)| *now >= before), "{bps}");
        before = now;
    }
}
