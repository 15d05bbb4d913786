//! Router files: good ones are taken whole, broken ones are reported whole.
//!
//! `tests/broken/NN-name.toml` are files with several errors each. Beside each stands the whole text that is shown
//! (`.expected`; `PERHOP_BLESS=1` writes it anew). Independent of that, comments in the file say where something is
//! wrong: `#@COLUMN severity: words` below a line, or `#@LINE:COLUMN severity: words` anywhere.

mod page;

use perhop_config::Severity;
use perhop_contract::Draining;
use perhop_contract::{Control, Draft, GraphRequest, Input, Limits, Output, Planner};
use perhop_model::{
    Cells, Credentials, ErrorItem, Key, Kind, Mode, Name, Object, Op, Outcome, Owner, Spec, Transaction,
    TxnId,
};
use perhop_reason::Code;
use perhop_routerfile::{PortIo, RouterFile, Waiting};
use perhop_units::{Instant, Rate, Share};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("readable").path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == ending));
    files.sort();
    files
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a file").to_string_lossy().into_owned()
}

/// A data plane that takes everything.
struct Anything;

impl Planner for Anything {
    type Change = ();
    fn check(&self, _: &Draft<'_>, _: Option<&GraphRequest>) -> Vec<ErrorItem> {
        Vec::new()
    }
    fn plan(&mut self, _: Instant, _: &Draft<'_>, _: &[Draining], _: Option<&GraphRequest>) {}
}

/// What the router's own checks say to a file's objects.
fn submit(objects: Vec<Object>) -> Vec<ErrorItem> {
    let mut control = Control::new(1, Anything, Limits::default());
    let transaction = Transaction {
        mode: Mode::Check,
        ..Transaction::new(TxnId([1; 16]), Owner::File, vec![Op::replace_owned(&RouterFile::KINDS, objects)])
    };
    let request = Input::Request { request: 7, who: Credentials::ADMIN, transaction: Box::new(transaction) };
    control.handle_input(Instant(0), request);
    while let Some(output) = control.poll_output() {
        if let Output::Reply { reply, .. } = output {
            assert_eq!(reply.outcome == Outcome::Checked, reply.errors.is_empty());
            return reply.errors.clone();
        }
    }
    panic!("no reply");
}

#[test]
fn examples_are_taken_without_a_warning() {
    let examples = files("../../examples", "toml");
    assert!(examples.len() >= 4, "{examples:?}");
    for path in examples {
        let text = fs::read_to_string(&path).expect("readable");
        let (file, diagnostics) = RouterFile::read(&name_of(&path), &text);
        assert!(diagnostics.is_empty(), "{diagnostics}");
        let file = file.expect("no error");
        let errors = submit(file.objects.clone());
        assert!(errors.is_empty(), "{}", file.diagnose(&errors));
    }
}

/// Places where the file itself says that something is wrong: line, column, severity, words.
fn markers(text: &str) -> Vec<(u32, u32, String, String)> {
    let mut line_above = 0;
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let Some(marker) = line.trim_start().strip_prefix("#@") else {
            line_above = i as u32 + 1;
            continue;
        };
        let (place, rest) = marker.split_once(' ').expect("a place and a severity");
        let (severity, words) = rest.split_once(": ").expect("a severity and words");
        let number = |s: &str| s.parse::<u32>().expect("a number");
        let (line, column) = match place.split_once(':') {
            Some((line, column)) => (number(line), number(column)),
            None => (line_above, number(place)),
        };
        out.push((line, column, severity.to_owned(), words.to_owned()));
    }
    out
}

#[test]
fn broken_files_are_reported_whole() {
    let bless = std::env::var_os("PERHOP_BLESS").is_some();
    let broken = files("tests/broken", "toml");
    assert!(broken.len() >= 20, "{}", broken.len());
    for path in broken {
        let text = fs::read_to_string(&path).expect("readable");
        let (file, diagnostics) = RouterFile::read(&name_of(&path), &text);
        assert_eq!(file.is_none(), diagnostics.errors() > 0, "{}", name_of(&path));
        assert!(diagnostics.errors() + diagnostics.warnings() >= 2, "{diagnostics}");
        let expected = path.with_extension("expected");
        if bless {
            fs::write(&expected, diagnostics.to_string()).expect("writable");
        }
        let expected =
            fs::read_to_string(&expected).unwrap_or_else(|e| panic!("{}: {e}", expected.display()));
        assert_eq!(diagnostics.to_string(), expected, "{}", name_of(&path));
    }
}

#[test]
fn broken_files_are_reported_at_their_markers() {
    for path in files("tests/broken", "toml") {
        let text = fs::read_to_string(&path).expect("readable");
        let (_, diagnostics) = RouterFile::read(&name_of(&path), &text);
        let mut found = diagnostics.sorted();
        for (line, column, severity, words) in markers(&text) {
            let here = |d: &perhop_config::Diagnostic| {
                (d.position.line, d.position.column) == (line, column)
                    && d.severity.name() == severity
                    && d.to_string().contains(&words)
            };
            let at = found.iter().position(here);
            let at = at.unwrap_or_else(|| {
                panic!("{}:{line}:{column}: {severity}: {words}\n{diagnostics}", name_of(&path))
            });
            found.remove(at);
        }
        assert!(found.is_empty(), "{}: not marked: {}", name_of(&path), found[0]);
    }
}

const TWO_PORTS: &str = "[[port]]\nname = \"lan\"\n[[port]]\nname = \"wan\"\nrate = \"10 Mbit/s\"\n";

fn good(rest: &str) -> RouterFile {
    let (file, diagnostics) = RouterFile::read("f.toml", &format!("{TWO_PORTS}{rest}"));
    assert_eq!(diagnostics.errors(), 0, "{diagnostics}");
    file.expect("no error")
}

fn spec(file: &RouterFile, kind: Kind, name: &str) -> Spec {
    let object = file.objects.iter().find(|o| o.kind() == kind && o.name.as_str() == name);
    object.expect("declared").spec.clone()
}

#[test]
fn filters_get_their_priority_from_their_order() {
    let rest = "[[class]]\nname = \"a\"\nport = \"wan\"\ndefault = true\n\
                [[filter]]\nname = \"z\"\nclass = \"a\"\nmatch.protocol = \"udp\"\n[[filter]]\nclass = \"a\"\n";
    let file = good(rest);
    let priority = |name| match spec(&file, Kind::Filter, name) {
        Spec::Filter(f) => f.priority,
        other => panic!("{other:?}"),
    };
    assert_eq!((priority("z"), priority("filter-00020")), (10, 20));
}

#[test]
fn policies_of_the_rate_control_are_read_with_all_they_say() {
    let rest = "[[class]]\nname = \"wan/a\"\nport = \"wan\"\ndefault = true\n\
                [[filter]]\nname = \"web\"\nmatch = { protocol = \"tcp\", src_ports = 443 }\n\
                [[sla]]\nname = \"s\"\nrate = \"1 Mbit/s\"\nprefixes = [\"192.0.2.0/24\"]\n\
                [[abr]]\nmatch = { class = \"a\", sla = \"s\", filter = \"web\", dscp = [\"AF11\", 0], src = \"10.0.0.0/8\", \
                dst = \"192.0.2.7\", src_ports = 443, dst_ports = \"1024-65535\" }\nrate = \"2 Mbit/s\"\nweight = 3\n\
                min = \"64 kbit/s\"\npeak = \"1 Mbit/s\"\nfloor = \"pace\"\n\
                latency = { type = \"timed\", up = \"1 min\", down = \"70 %\" }\nallow_shrink = true\n\
                limit_syn_ack = false\nassume_shift = 7\nlocal = true\noverhead = 8\nidle = \"2 s\"\nshared = true\nmanaged_by = \"agent\"\n\
                [[abr]]\nname = \"watched\"\nrate = \"0 bit/s\"\nlatency = \"minimum\"\n";
    let file = good(rest);
    let read = |name| serde_json::to_value(spec(&file, Kind::AbrPolicy, name)).expect("plain data");
    let all = serde_json::json!({
        "priority": 10,
        "match": {
            "class": "a", "sla": "s", "filter": "web", "dscp": [10, 0], "src": "10.0.0.0/8", "dst": "192.0.2.7/32",
            "src_ports": { "first": 443, "last": 443 }, "dst_ports": { "first": 1024, "last": 65535 },
        },
        "rate": 2_000_000, "weight": 3, "min": 64_000, "peak": 1_000_000, "floor": "pace",
        "latency": { "type": "timed", "up": 60_000_000_000_u64, "down_ppm": 700_000 },
        "allow_shrink": true, "limit_syn_ack": false, "assume_shift": 7, "local": true, "overhead": 8,
        "idle": 2_000_000_000, "refused": null, "shared": true, "managed_by": "agent",
    });
    assert_eq!(read("abr-00010"), all);
    let watched = read("watched");
    assert_eq!((&watched["priority"], &watched["rate"]), (&20.into(), &0.into()));
    assert_eq!(watched["latency"], serde_json::json!({ "type": "minimum", "window": 10_000_000_000_u64 }));
    // What is left out is what the interface takes for left out.
    let plain = good("[[abr]]\nname = \"p\"\nrate = \"1 Mbit/s\"\n");
    let given = serde_json::json!({ "priority": 10, "rate": 1_000_000 });
    let expected = Spec::from_value(Kind::AbrPolicy, &given).expect("a specification");
    assert_eq!(spec(&plain, Kind::AbrPolicy, "p"), expected);
    assert!(submit(file.objects.clone()).is_empty());
}

#[test]
fn room_for_controlled_connections_is_that_of_connections_unless_it_is_given() {
    let room = |router: &str| good(&format!("[router]\n{router}\n")).router.abr_connections();
    assert_eq!((room(""), room("max_flows = 2000")), (65_536, 2_000));
    assert_eq!(room("max_flows = 2000\nmax_abr_connections = 3000"), 3_000);
}

#[test]
fn frames_come_by_packet_sockets_unless_the_file_says_otherwise() {
    let io = |router: &str| good(&format!("[router]\n{router}\n")).router.io;
    assert_eq!(io(""), PortIo::AfPacket);
    let ways = [("af_packet", PortIo::AfPacket), ("af_xdp", PortIo::AfXdp), ("auto", PortIo::Auto)];
    for (name, way) in ways {
        assert_eq!(io(&format!("io = \"{name}\"")), way);
    }
}

#[test]
fn a_port_may_be_a_tun_interface_of_the_routers_own() {
    let file = good("[[port]]\nname = \"host\"\ndevice = \"t0\"\nio = \"tun\"\n");
    assert_eq!(file.tun_ports.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["host"]);
}

#[test]
fn packet_threads_sleep_without_work_unless_the_file_says_otherwise() {
    let wait = |router: &str| good(&format!("[router]\n{router}\n")).router.wait;
    assert_eq!((wait(""), wait("wait = \"adaptive\"")), (Waiting::Adaptive, Waiting::Adaptive));
    assert_eq!(wait("wait = \"poll\""), Waiting::Poll);
    let (_, diagnostics) = RouterFile::read("f.toml", "[router]\nwait = \"pol\"\n[[port]]\nname = \"a\"\n");
    assert!(diagnostics.to_string().contains("\"poll\""), "{diagnostics}");
}

#[test]
fn guarantees_that_do_not_fit_are_scaled_down_and_then_taken() {
    let class = |name: &str, rest: &str| format!("[[class]]\nname = \"{name}\"\nport = \"wan\"\n{rest}\n");
    let rest = class("a", "guarantee = \"12 Mbit/s\"")
        + &class("b", "guarantee = \"80 %\"\ndefault = true")
        + &class("c", "parent = \"a\"\nguarantee = \"70 %\"")
        + &class("d", "parent = \"a\"\nguarantee = \"70 %\"")
        + "[[filter]]\nclass = \"c\"\nmatch.dscp = 1\n[[filter]]\nclass = \"d\"\nmatch.dscp = 2\n";
    let (file, diagnostics) = RouterFile::read("f.toml", &format!("{TWO_PORTS}headroom = \"0 %\"\n{rest}"));
    assert_eq!((diagnostics.errors(), diagnostics.warnings()), (0, 2), "{diagnostics}");
    let file = file.expect("no error");
    let guarantee = |name| match spec(&file, Kind::Class, name) {
        Spec::Class(c) => c.guarantee,
        other => panic!("{other:?}"),
    };
    assert_eq!(guarantee("a"), Share::Rate(Rate(6_000_000)));
    assert_eq!(guarantee("b"), Share::Rate(Rate(4_000_000)));
    assert_eq!(guarantee("c"), Share::Rate(Rate(3_000_000)));
    assert!(submit(file.objects.clone()).is_empty());
}

#[test]
fn what_the_router_refuses_is_shown_at_its_place() {
    let file = good(
        "[[class]]\nname = \"wan/a.b\"\nport = \"wan\"\ndefault = true\nqueue = { limit = \"30 ms\" }\n",
    );
    let error = |path: &str| ErrorItem {
        op: Some(0),
        path: path.into(),
        code: Code::OutOfRange,
        message: "does not fit".into(),
        value: None,
        allowed: Some("1 to 2".into()),
        limit: None,
        free: None,
    };
    let errors = [error("class/wan/a.b.queue.limit"), error("class/wan/a.b.weight"), error("sla/other.rate")];
    assert_eq!(
        file.diagnose(&errors).to_string(),
        "f.toml:1:1: sla/other.rate does not fit;\n  Refused as out_of_range. Allowed: 1 to 2.\n\
         f.toml:6:1: class \"wan/a.b\": does not fit;\n  Refused as out_of_range. Allowed: 1 to 2.\n\
         f.toml:10:19: class \"wan/a.b\": queue.limit = 30 ms does not fit;\n  Refused as out_of_range. Allowed: 1 to 2.\n"
    );
    let key = Key { kind: Kind::Class, name: Name::new("wan/a.b").expect("legal") };
    let position = file.position(&key, "queue.limit").expect("declared");
    assert_eq!((position.line, position.column), (10, 19));
}

/// One character of a good file changed in every way that matters: no panic, and a file is there exactly if there is
/// no error; what is taken, the router takes.
#[test]
fn damaged_examples_are_survived() {
    let mut taken = BTreeSet::new();
    for path in files("../../examples", "toml") {
        let text = fs::read_to_string(&path).expect("readable");
        let characters: Vec<char> =
            text.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n").chars().collect();
        for (i, replacement) in (0..characters.len())
            .step_by(11)
            .zip(['"', '\n', '9', '[', '=', 'x', '}', 'é'].into_iter().cycle())
        {
            let mut damaged = characters.clone();
            damaged[i] = replacement;
            let (file, diagnostics) = RouterFile::read("f", &damaged.iter().collect::<String>());
            assert_eq!(file.is_some(), diagnostics.errors() == 0);
            if let Some(file) = file {
                let errors = submit(file.objects.clone());
                assert!(
                    errors.is_empty(),
                    "{}\n{}",
                    file.diagnose(&errors),
                    damaged.iter().collect::<String>()
                );
                taken.insert(i);
            }
            let warnings = diagnostics.sorted().iter().filter(|d| d.severity == Severity::Warning).count();
            assert_eq!(warnings, diagnostics.warnings());
        }
    }
    assert!(!taken.is_empty());
}

mod lines {
    use super::{files, submit};
    use perhop_routerfile::RouterFile;
    use proptest::prelude::*;
    use std::fs;

    /// What is done to a file: the line concerned, and how.
    fn edits() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
        prop::collection::vec((0usize..200, 0usize..200, 0u8..4), 1..6)
    }

    const VALUES: [&str; 12] = [
        "0",
        "1",
        "\"0 %\"",
        "\"1 %\"",
        "\"100 %\"",
        "\"64 kbit/s\"",
        "\"20 Mbit/s\"",
        "\"1 us\"",
        "\"60 s\"",
        "\"2000 B\"",
        "true",
        "\"ef\"",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Lines of the examples removed, repeated, moved and given other values: whatever is taken without an error,
        /// the router takes too.
        #[test]
        fn what_is_taken_here_the_router_takes(example in 0usize..6, edits in edits()) {
            let path = &files("../../examples", "toml")[example];
            let text = fs::read_to_string(path).expect("readable");
            let mut lines: Vec<String> = text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
            for (a, b, how) in edits {
                let (a, other) = (a % lines.len(), b % lines.len());
                match how {
                    0 => drop(lines.remove(a)),
                    1 => lines.insert(other, lines[a].clone()),
                    2 => lines.swap(a, other),
                    _ => if let Some((key, _)) = lines[a].clone().split_once('=') {
                        lines[a] = format!("{key}= {}", VALUES[b % VALUES.len()]);
                    }
                }
                if lines.is_empty() {
                    lines.push(String::new());
                }
            }
            let text = lines.join("\n");
            let (file, diagnostics) = RouterFile::read("f", &text);
            prop_assert_eq!(file.is_some(), diagnostics.errors() == 0);
            if let Some(file) = file {
                let errors = submit(file.objects.clone());
                prop_assert!(errors.is_empty(), "{}\n{}", file.diagnose(&errors), text);
            }
        }
    }
}

#[test]
fn a_queue_without_a_unit_is_told_what_could_be_written() {
    let text = "[[port]]\nname = \"a\"\nrate = \"1 Mbit/s\"\nqueue = 100\n";
    let (_, said) = perhop_routerfile::RouterFile::read("r.toml", text);
    let said = said.to_string();
    assert!(said.contains("r.toml:4:9: ") && said.contains("Write for example \"100 packets\""), "{said}");
}

#[test]
fn what_a_link_makes_of_frames_is_read_with_and_without_units() {
    let port = |keys: &str| {
        let file = good(&format!("[[port]]\nname = \"dsl\"\nrate = \"1 Mbit/s\"\n{keys}\n"));
        assert_eq!(submit(file.objects.clone()), []);
        match spec(&file, Kind::Port, "dsl") {
            Spec::Port(p) => (p.overhead, p.minimum_frame, p.cells),
            other => panic!("{other:?}"),
        }
    };
    // Without a word it is Ethernet; who says something says it all.
    assert_eq!(port(""), (24, 84, Cells::None));
    assert_eq!(port("overhead = 0"), (0, 0, Cells::None));
    assert_eq!(port("minimum_frame = 64"), (24, 64, Cells::None));
    assert_eq!(port("cells = \"atm\""), (0, 0, Cells::Atm));
    assert_eq!(port("io = \"tun\""), (0, 0, Cells::None));
    assert_eq!(port("overhead = 24\nminimum_frame = 84"), (24, 84, Cells::None));
    assert_eq!(port("overhead = \"24 B\"\nminimum_frame = \"84 B\""), (24, 84, Cells::None));
    assert_eq!(port("overhead = \"-4 B\"\ncells = \"atm\""), (-4, 0, Cells::Atm));
    for wrong in [
        "overhead = \"24 Mbit\"",
        "overhead = 1.5",
        "overhead = -65",
        "minimum_frame = 1515",
        "cells = \"ptm\"",
    ] {
        let text = format!("{TWO_PORTS}{wrong}\n");
        let (file, said) = RouterFile::read("f.toml", &text);
        assert!(file.is_none() && said.to_string().contains("llowed: "), "{wrong}: {said}");
    }
}

#[test]
fn a_hundredth_of_a_links_rate_stays_free_unless_the_file_says_otherwise() {
    let rate =
        |keys: &str| match spec(&good(&format!("[[port]]\nname = \"dsl\"\n{keys}\n")), Kind::Port, "dsl") {
            Spec::Port(p) => p.rate.0,
            other => panic!("{other:?}"),
        };
    assert_eq!(rate("rate = \"10 Mbit/s\""), 9_900_000);
    assert_eq!(rate("rate = \"10 Mbit/s\"\nheadroom = \"0 %\""), 10_000_000);
    assert_eq!(rate("rate = \"10 Mbit/s\"\nheadroom = \"12.5 %\""), 8_750_000);
    assert_eq!(rate("rate = \"8 kbit/s\""), 8_000, "not below the slowest");
    assert_eq!((rate(""), rate("rate = \"10 Mbit/s\"\nio = \"tun\"")), (0, 10_000_000));
    for (wrong, why) in
        [("headroom = \"51 %\"", "0 % to 50 %"), ("headroom = \"1 Mbit/s\"", "expected a percentage")]
    {
        let (file, said) = RouterFile::read("f.toml", &format!("{TWO_PORTS}{wrong}\n"));
        assert!(file.is_none() && said.to_string().contains(why), "{wrong}: {said}");
    }
    let (file, said) = RouterFile::read("f.toml", "[[port]]\nname = \"a\"\nheadroom = \"1 %\"\n");
    assert!(file.is_none() && said.to_string().contains("this port has none"), "{said}");
}

#[test]
fn the_default_queue_stands_at_the_slowest_rates() {
    for class in ["", "queue.red = {}\n"] {
        let rest = format!(
            "[[port]]\nname = \"modem\"\nrate = \"8 kbit/s\"\n[[class]]\nname = \"modem/a\"\nport = \"modem\"\n\
             default = true\n{class}"
        );
        assert_eq!(submit(good(&rest).objects), []);
    }
    let short = "[[port]]\nname = \"modem\"\nrate = \"8 kbit/s\"\nqueue = \"90 ms\"\n";
    let (_, said) = RouterFile::read("f.toml", short);
    assert!(said.to_string().contains("less than a frame of 1514 B"), "{said}");
}
