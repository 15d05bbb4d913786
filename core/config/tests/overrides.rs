//! Files with objects by name, variants and settings, as a user of the crate sees them.
#![allow(clippy::unwrap_used)]

use perhop_config::{Diagnostics, Document, FileKeys, Form, KnownKeys, Settings, TableReader};
use perhop_units::Duration;

const FORM: Form = Form {
    named: &["node", "link", "variants"],
    files: &[FileKeys { section: "node", keys: &["router", "config"], what: "a router file" }],
    unknown_path: "is not a path of this plan",
};

const PLAN: &str = r#"seed = 1
[node.a]
router = "a.toml"
[node.b]
[link.core]
ends = ["a", "b"]
delay = "5 ms"
up = true
change = [{ at = "1 s" }, { at = "2 s" }]
[variants.slow.set]
link.core.delay = "50 ms"
"link.core.change[2].at" = "3 s"
node.a.router.port.wan.rate = "1 Mbit/s"
[variants.bare]
set = { "node.a" = false }
"#;

/// What a walk reads of the link: its delay and ends, how often it changes, and the seed.
#[derive(Debug, PartialEq)]
struct Read {
    delay: Option<Duration>,
    ends: Vec<String>,
    changes: Vec<Duration>,
    up: bool,
    seed: i64,
}

fn walk(document: &Document, diagnostics: &Diagnostics, known: &KnownKeys) -> Read {
    let mut root = document.root(diagnostics).remembering(known);
    let seed = root.integer("seed", 0..=9).map_or(0, |seed| seed.value);
    for (_, mut node) in root.named("node") {
        node.text("router");
        node.finish();
    }
    let mut read = Read { delay: None, ends: Vec::new(), changes: Vec::new(), up: false, seed };
    let link = |(_, mut link): (&str, TableReader<'_>)| {
        read.ends = link.texts("ends").unwrap().value.iter().map(|end| end.value.to_owned()).collect();
        read.delay = link.value("delay").map(|delay| delay.value);
        read.up = link.boolean("up").is_some_and(|up| up.value);
        let mut queue = link.table_or_empty("queue").unwrap();
        queue.integer("limit", 1..=9);
        queue.finish();
        for mut change in link.tables("change") {
            read.changes.extend(change.required::<Duration>("at", "\"1 s\"").map(|at| at.value));
            change.finish();
        }
        link.finish();
    };
    root.named("link").into_iter().for_each(link);
    for (_, mut variant) in root.named("variants") {
        variant.table("set");
        variant.finish();
    }
    root.finish();
    read
}

/// What the file means with settings, in a variant or without, and everything that is said.
fn read(settings: &[(&str, &str)], variant: Option<&str>) -> (Read, Diagnostics) {
    let settings: Settings = settings.iter().copied().collect();
    let (base, diagnostics) = Document::parse_form(&FORM, "plan.toml", PLAN, &settings);
    let product = base.configured(None, &diagnostics);
    let known = KnownKeys::default();
    let read = walk(&product, &diagnostics, &known);
    let Some(variant) = variant else { return (read, diagnostics) };
    let document = base.configured(Some(variant), &diagnostics);
    (walk(&document, &diagnostics, &known), diagnostics)
}

fn good(settings: &[(&str, &str)], variant: Option<&str>) -> Read {
    let (read, diagnostics) = read(settings, variant);
    assert!(diagnostics.is_empty(), "{diagnostics}");
    read
}

fn said(settings: &[(&str, &str)], variant: Option<&str>) -> String {
    read(settings, variant).1.to_string()
}

#[test]
fn settings_replace_add_and_reach_into_lists() {
    let settings = [
        ("link.core.delay", "20ms"),
        ("link.core.ends", "c"),
        ("link.core.change[1].at", "\"9 s\""),
        ("link.core.queue.limit", "3"),
        ("link.core.up", "false"),
        ("seed", "7"),
    ];
    let expected = Read {
        delay: Some(Duration::from_millis(20)),
        ends: vec!["c".into()],
        changes: vec![Duration::from_secs(9), Duration::from_secs(2)],
        up: false,
        seed: 7,
    };
    assert_eq!(good(&settings, None), expected);
    let ends = good(&[("link.core.ends", "[\"x\", \"y\"]"), ("seed", "3"), ("seed", "4")], None);
    assert_eq!((ends.ends, ends.seed), (vec!["x".into(), "y".into()], 4));
}

#[test]
fn a_variant_changes_its_own_copy() {
    let slow = good(&[], Some("slow"));
    assert_eq!((slow.delay, slow.changes[1]), (Some(Duration::from_millis(50)), Duration::from_secs(3)));
    let own = [("link.core.delay", "7 ms"), ("variants.slow.link.core.delay", "8 ms")];
    assert_eq!(good(&own, None).delay, Some(Duration::from_millis(7)));
    assert_eq!(good(&own, Some("slow")).delay, Some(Duration::from_millis(8)));
}

#[test]
fn wrong_values_are_told_at_what_gives_them() {
    let wrong = said(&[("seed", "12"), ("link.core.delay", "5"), ("link.core.up", "3")], None);
    let expected = "\
--set seed=12: is out of range;
  Allowed: 0 to 9.
--set link.core.delay=5: is not a time: it has no unit;
  Write for example \"30 ms\".
--set link.core.up=3: is an integer, expected true or false.
";
    assert_eq!(wrong, expected);
    assert_eq!(
        said(&[("variants.slow.link.core.ends", "[1]")], Some("slow")),
        "--set variants.slow.link.core.ends[1]=1: is an integer, expected a string.\n"
    );
    assert_eq!(
        said(&[], Some("bare")),
        "plan.toml:15:20: variant \"bare\": node.a = false is a boolean, expected a table;\n  \
         Write [node.NAME] and the keys of one node below it.\n"
    );
}

#[test]
fn a_path_that_leads_nowhere_is_told_with_what_there_is() {
    let hints = [
        ("link.cor.delay", "did you mean \"link.core.delay\"? Allowed: \"core\"."),
        ("link.core.dealy", "did you mean \"link.core.delay\"? Known keys: ends, delay, up, queue, change."),
        ("link.core.change[3].at", "link.core.change has 2 elements, counted from 1."),
        ("link.core.change[0].at", "link.core.change has 2 elements, counted from 1."),
        ("link.core.delay.ms", "link.core.delay has no parts."),
        (
            "node.b.router.port.wan.rate",
            "node.b has no router: give it a router file with router = \"FILE\".",
        ),
        ("variants.slo.link.core.delay", "did you mean \"variants.slow.link.core.delay\"?"),
    ];
    for (path, hint) in hints {
        let said = said(&[(path, "1")], None);
        assert!(said.contains("is not a path of this plan;") && said.contains(hint), "{path}: {said}");
        assert_eq!(said.matches("--set").count(), 1, "{said}");
    }
    let long = "a.".repeat(100);
    assert!(said(&[(&long, "1")], None).contains("is not a path of this plan"));
    assert!(said(&[("variants.slow", "1")], Some("slow")).contains("cannot be set as a whole"));
}

#[test]
fn what_a_variant_has_no_place_for_is_left_out_there() {
    let settings: Settings = [("link.core.delay.x", "1"), ("node.a.colour", "red")].into_iter().collect();
    let text = "[node.a]\n[link.core.delay]\n[variants.v.set]\n\"link.core.delay\" = \"1 s\"\n";
    let (base, diagnostics) = Document::parse_form(&FORM, "plan.toml", text, &settings);
    let _ = base.configured(None, &diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics}");
    let variant = base.configured(Some("v"), &diagnostics);
    let mut root = variant.root(&diagnostics);
    for (_, mut node) in root.named("node") {
        node.has("router");
        node.finish();
    }
    assert_eq!((diagnostics.errors(), diagnostics.warnings()), (0, 2));
    let said = diagnostics.to_string();
    let left_out = "--set link.core.delay.x=1: warning: is left out in variant \"v\", where it is not a path";
    assert!(said.contains(left_out), "{said}");
    assert!(said.contains("--set node.a.colour=red: warning: is left out in variant \"v\""), "{said}");
}

#[test]
fn paths_go_on_into_files() {
    let settings: Settings = [("node.a.config.port.wan.rate", "2 Mbit/s")].into_iter().collect();
    let (base, diagnostics) = Document::parse_form(&FORM, "plan.toml", PLAN, &settings);
    let slow = base.configured(Some("slow"), &diagnostics);
    let node = slow.lookup(slow.root_location(), "node.a");
    let inside = slow.inside_file(node, "router");
    let texts: Vec<_> = inside.iter().map(|(path, at)| (*path, slow.text_of(*at).unwrap())).collect();
    assert_eq!(texts, [("port.wan.rate", "1 Mbit/s"), ("port.wan.rate", "2 Mbit/s")]);
    assert_eq!(slow.key_path(inside[1].1), "node.a.router.port.wan.rate");
    assert!(slow.inside_file(slow.lookup(slow.root_location(), "node.b"), "router").is_empty());
    assert!(diagnostics.is_empty(), "{diagnostics}");
}

#[test]
fn known_keys_are_those_of_every_table_also_of_one_that_is_not_written() {
    let known = KnownKeys::default();
    let (document, diagnostics) = Document::parse_form(&FORM, "plan.toml", PLAN, &Settings::new());
    walk(&document, &diagnostics, &known);
    for path in ["seed", "link.core.delay", "link.core", "link.core.queue.limit", "node.b.router"] {
        assert!(known.has(path), "{path}");
    }
    assert!(!known.has("") && !known.has("link.core.limit"));
    assert!(known.paths().contains(&"link.core.queue.limit".to_owned()));
    assert!(document.leads_somewhere("link.core.change[2].at"));
    assert!(!document.leads_somewhere("link.core.change[3].at"));
}

#[test]
fn objects_by_name_are_subjects() {
    let text = "link = 3\nnode.x = 1\n[variants.v]\ntitel = \"\"\n[[other]]\nname = \"o\"\ny = 1\n";
    let (document, diagnostics) = Document::parse_form(&FORM, "plan.toml", text, &Settings::new());
    let mut root = document.root(&diagnostics);
    assert!(root.named("link").is_empty() && root.named("node").is_empty() && root.named("other").is_empty());
    root.named("variants").into_iter().for_each(|(_, variant)| variant.finish());
    root.finish();
    let expected = "\
plan.toml:1:8: link = 3 is an integer, expected a table.
plan.toml:2:10: node \"x\": 1 is an integer, expected a table;
  Write [node.NAME] and the keys of one node below it.
plan.toml:4:1: variant \"v\": titel is not a known key;
  No key is known here.
plan.toml:5:1: other is an array of tables, expected tables with names;
  Write [other.NAME] for each.
";
    assert_eq!(diagnostics.to_string(), expected);
}
