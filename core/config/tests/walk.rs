//! The walk as a user of the crate sees it: whole messages.
#![allow(clippy::unwrap_used)]

use perhop_config::{Diagnostics, Document, Severity, TableReader, TextError};
use std::net::IpAddr;
use std::str::FromStr;

/// A quantity for these tests: a number of apples.
#[derive(Debug, PartialEq, PartialOrd)]
struct Apples(u32);

impl FromStr for Apples {
    type Err = TextError;
    fn from_str(text: &str) -> Result<Self, TextError> {
        let number = text.strip_suffix(" apples").ok_or_else(|| {
            TextError::new("is not a number of apples: it has no unit").hint("Write for example \"3 apples\"")
        })?;
        number
            .parse()
            .map(Self)
            .map_err(|_| TextError::new("is not a number of apples").allowed("0 to 4294967295"))
    }
}

impl std::fmt::Display for Apples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} apples", self.0)
    }
}

fn walk(text: &str, f: impl FnOnce(&mut TableReader<'_>)) -> Diagnostics {
    let (document, diagnostics) = Document::parse("f.toml", text);
    let mut root = document.root(&diagnostics);
    f(&mut root);
    root.finish();
    drop(document);
    diagnostics
}

#[test]
fn values_of_every_kind_with_places() {
    let text =
        "a = \"3 apples\"\nb = true\nc = -4\nd = 0.5\ne = \"x\"\nf = [\"::1\", \"10.0.0.1\"]\ng = \"::1\"\n";
    let d = walk(text, |r| {
        let a = r.value::<Apples>("a").unwrap();
        assert_eq!(a.value, Apples(3));
        assert_eq!((r.document().position(a.span).line, r.document().position(a.span).column), (1, 5));
        assert_eq!(r.document().as_written(a.span), "3 apples");
        assert!(r.boolean("b").unwrap().value);
        assert_eq!(r.integer("c", -4..=4).unwrap().value, -4);
        assert_eq!(r.number("d", 0.0..=1.0).unwrap().value, 0.5);
        assert_eq!(r.choice("e", &[("x", 1), ("y", 2)]).unwrap().value, 1);
        assert_eq!(r.values::<IpAddr>("f").unwrap().value.len(), 2);
        assert_eq!(r.values::<IpAddr>("g").unwrap().value.len(), 1);
        assert!(r.boolean("absent").is_none());
    });
    assert!(d.is_empty(), "{d}");
}

#[test]
fn every_error_of_a_file_at_once() {
    let text = "\
number = 12
size = \"4 pears\"
flag = 1
count = 11
big = 99999999999999999999
half = \"x\"
kind = \"bridg\"
list = [\"1 apples\", 2, [3]]
address = \"10.0.0\"
colour = \"red\"
many = \"9 apples\"
";
    let d = walk(text, |r| {
        r.value::<Apples>("number");
        r.value::<Apples>("size");
        r.boolean("flag");
        r.integer("count", 1..=10);
        r.integer("big", 1..=10);
        r.number("half", 0.0..=1.0);
        r.choice("kind", &[("route", 1), ("bridge", 2)]);
        assert_eq!(r.values::<Apples>("list").unwrap().value.len(), 1);
        r.value::<IpAddr>("address");
        r.value_in("many", Apples(1)..=Apples(5));
        r.required::<Apples>("need", "\"3 apples\"");
    });
    let expected = "\
f.toml:1:1: need is missing;
  Write for example need = \"3 apples\".
f.toml:1:10: number = 12 is not a number of apples: it has no unit;
  Write for example \"3 apples\".
f.toml:2:8: size = 4 pears is not a number of apples: it has no unit;
  Write for example \"3 apples\".
f.toml:3:8: flag = 1 is an integer, expected true or false.
f.toml:4:9: count = 11 is out of range;
  Allowed: 1 to 10.
f.toml:5:7: big = 99999999999999999999 is out of range;
  Allowed: 1 to 10.
f.toml:6:8: half = \"x\" is a string, expected a number from 0 to 1.
f.toml:7:8: kind = \"bridg\" is not known here;
  did you mean \"bridge\"? Allowed: \"route\", \"bridge\".
f.toml:8:21: list[2] = 2 is not a number of apples: it has no unit;
  Write for example \"3 apples\".
f.toml:8:24: list[3] = [3] is an array, expected a string.
f.toml:9:11: address = 10.0.0 is not an IP address;
  Write for example \"192.0.2.1\" or \"2001:db8::1\".
f.toml:10:1: colour is not a known key;
  Known keys: number, size, flag, count, big, half, kind, list, address, many, need.
f.toml:11:8: many = 9 apples is out of range;
  Allowed: 1 apples to 5 apples.
";
    assert_eq!(d.to_string(), expected);
    assert_eq!((d.errors(), d.warnings()), (13, 0));
}

#[test]
fn tables_in_all_three_notations() {
    for text in [
        "[[class]]\nname = \"a\"\nqueue = { limit = 1, x = 2 }\n",
        "[[class]]\nname = \"a\"\nqueue.limit = 1\nqueue.x = 2\n",
        "[[class]]\nname = \"a\"\n[class.queue]\nlimit = 1\nx = 2\n",
        "class = [{ name = \"a\", queue = { limit = 1, x = 2 } }]\n",
    ] {
        let d = walk(text, |r| {
            for (name, mut class) in r.named_tables("class") {
                assert_eq!(name.value, "a");
                let mut queue = class.table("queue").unwrap();
                assert_eq!(queue.integer("limit", 0..=9).unwrap().value, 1);
                queue.require("red", "true");
                queue.finish();
                class.finish();
            }
        });
        let lines: Vec<String> =
            d.sorted().iter().map(|d| format!("{}: {} {}", d.subject, d.key, d.message)).collect();
        assert!(lines.contains(&"class \"a\": queue.x is not a known key".into()), "{lines:?}");
        assert!(lines.contains(&"class \"a\": queue.red is missing".into()), "{lines:?}");
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}

#[test]
fn names_are_required_and_unique() {
    let text =
        "[[class]]\nname = \"a\"\n[[class]]\n[[class]]\nname = \"a\"\nfoo = 1\n[[class]]\nname = \"\"\n";
    let d = walk(text, |r| {
        let classes = r.named_tables("class");
        assert_eq!(classes.len(), 4);
        classes.into_iter().for_each(|(_, c)| c.finish());
    });
    assert_eq!(
        d.to_string(),
        "\
f.toml:3:1: class[2]: name is missing;
  Write for example name = \"…\".
f.toml:5:8: class \"a\": name = \"a\" is the name of another class.
  f.toml:2:8: the first one is here.
f.toml:6:1: class \"a\": foo is not a known key;
  Known keys: name.
f.toml:8:8: class[4]: name = \"\" is empty.
"
    );
}

#[test]
fn names_that_a_file_gives_have_quantities_with_their_places() {
    let text = "share = { a = \"1 apples\", b = \"x\", c = 3 }\n";
    let d = walk(text, |r| {
        let shares = r.named_values::<perhop_units::Rate>("share");
        assert_eq!(shares, []);
        assert_eq!(r.named_values::<perhop_units::Rate>("absent"), []);
        assert_eq!(r.named_values::<perhop_units::Rate>("share").len(), 0);
    });
    let places: Vec<_> = d.sorted().iter().map(|d| (d.position.column, d.key.clone())).collect();
    assert_eq!(places, [(15, "share.a".into()), (31, "share.b".into()), (40, "share.c".into())]);
    walk("share = { a = \"1 bit/s\", b = \"2 kbit/s\" }\n", |r| {
        let shares = r.named_values::<perhop_units::Rate>("share");
        let shares: Vec<_> = shares.into_iter().map(|(name, rate)| (name, rate.value.0)).collect();
        assert_eq!(shares, [("a", 1), ("b", 2_000)]);
    });
}

#[test]
fn tables_and_arrays_of_tables_are_told_apart() {
    let d = walk("[class]\nname = \"a\"\n[[port]]\nx = 1\n[other]\n", |r| {
        assert_eq!(r.tables("class").len(), 1, "what is meant is clear");
        assert!(r.table("port").is_none());
        assert!(r.text("other").is_none());
    });
    assert_eq!(
        d.to_string(),
        "\
f.toml:1:1: class is a table, expected an array of tables;
  Write [[class]] for each, also for a single one.
f.toml:3:1: port is an array, expected a table.
f.toml:5:1: other is a table, expected a string.
"
    );
}

#[test]
fn nothing_follows_from_an_error_of_form() {
    let text = "[[class]]\nname voice\nrate = 10 apples\nflag = yes\nsize =\n[[class]]\nname = \"b\"\n";
    let d = walk(text, |r| {
        for (_, mut class) in r.named_tables("class") {
            class.value::<Apples>("rate");
            class.boolean("flag");
            class.integer("size", 0..=1);
            class.finish();
        }
    });
    let expected = "\
f.toml:2:1: class[1]: name voice is a key without a value;
  Write key = value.
f.toml:3:8: class[1]: rate = 10 apples is not in quotes;
  Write \"10 apples\".
f.toml:4:8: class[1]: flag = yes is not a boolean;
  Write true or false.
f.toml:5:7: class[1]: size has no value.
";
    assert_eq!(d.to_string(), expected);
}

#[test]
fn later_checks_report_at_the_place_of_a_value() {
    let (document, diagnostics) =
        Document::parse("edge.toml", "[[class]]\nname = \"voice\"\n[class.queue]\nlimit = \"900 B\"\n");
    let mut root = document.root(&diagnostics);
    let (name, mut class) = root.named_tables("class").remove(0);
    let limit = class.table("queue").unwrap().text("limit").unwrap();
    let message = "is below the MTU of port \"wan\" (1500 B)";
    let hint = "a full-size packet could never be queued. Use at least 1500 B, or \"30 ms\".";
    let d = document.error(limit.span, message).hint(hint);
    assert_eq!(
        d.to_string(),
        "edge.toml:4:9: class \"voice\": queue.limit = 900 B is below the MTU of port \"wan\" (1500 B);\n  \
         a full-size packet could never be queued. Use at least 1500 B, or \"30 ms\"."
    );
    let w = document.with_secondary(document.warning(name.span, "takes nothing"), limit.span, "its queue");
    assert_eq!(w.severity, Severity::Warning);
    assert_eq!(
        w.to_string(),
        "edge.toml:2:8: warning: class \"voice\": name = \"voice\" takes nothing.\n  edge.toml:4:9: its queue."
    );
}

#[test]
fn multi_byte_characters_tabs_and_carriage_returns_count_as_people_count() {
    let text = "# žluťoučký kůň\r\n\tключ = 1 # é\r\n\t\"ключ\" = 1\r\n\tname = \"žlutý\"; x\r\n\tb = { é = 1, z = True }\r\n";
    let (_, diagnostics) = Document::parse("f.toml", text);
    let at: Vec<(u32, u32)> =
        diagnostics.sorted().iter().map(|d| (d.position.line, d.position.column)).collect();
    assert_eq!(at, [(2, 2), (3, 2), (4, 16), (5, 8)], "{diagnostics}");
}

#[test]
fn messages_hold_no_control_characters_and_stay_short() {
    let text = format!("a = \"\\u001b[31m\"\n\"k\\u0007\" = 1\nb = \"{}\"\n", "x".repeat(10_000));
    let d = walk(&text, |r| {
        r.boolean("a");
        r.boolean("b");
    });
    assert!(
        d.to_string().lines().all(|l| l.chars().count() < 200 && !l.contains(['\u{1b}', '\u{7}'])),
        "{d}"
    );
    assert_eq!(d.errors(), 3);
}

#[test]
fn too_many_and_too_large() {
    let text: String = (0..5_000).map(|i| format!("k{i} = 1\n")).collect();
    let d = walk(&text, |_| {});
    assert_eq!(d.errors(), 5_000);
    assert!(d.to_string().ends_with("and 4900 more.\n"));
    let (_, d) = Document::parse("f.toml", &"#".repeat(perhop_config::MAX_FILE_BYTES + 1));
    assert_eq!(d.errors(), 1);
}

#[test]
fn a_negative_quantity_is_told_with_the_range_of_its_key() {
    use perhop_units::Duration;
    let d = walk("a = \"-5 ms\"\nb = \"-5 ms\"\n", |r| {
        assert!(r.value_in("a", Duration::ZERO..=Duration::from_secs(60)).is_none());
        assert!(r.value::<Duration>("b").is_none());
    });
    let said: Vec<String> = d.sorted().iter().map(ToString::to_string).collect();
    assert_eq!(
        said[0],
        "f.toml:1:5: a = \"-5 ms\" is not a time: it must not be negative;\n  Allowed: 0 s to 1 min."
    );
    assert!(
        said[1].starts_with("f.toml:2:5: b = \"-5 ms\" is not a time: it must not be negative"),
        "{}",
        said[1]
    );
}
