//! The built binary from outside: what it prints and how it ends.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a test drives processes and may panic"
)]

mod abr;
mod agent;
mod agent_measured;
mod api;
mod chain;
mod clients;
mod cops;
mod demo;
mod directory;
mod domain;
mod http;
mod lab;
mod mix;
mod pages;
mod policy;
mod radius;
mod record;
mod router;
mod shown;
mod sip;
mod tcapi;
mod torture;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    /// Standard output as JSON objects, one a line.
    fn json(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines.map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perhop"));
    command.args(args).current_dir(root()).stdin(Stdio::null()).env_remove("PERHOP_LOG");
    command
}

fn perhop(args: &[&str]) -> Ended {
    let output = command(args).output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| format!("{folder}/{}", e.unwrap().file_name().to_str().unwrap())).collect();
    names.retain(|n| n.ends_with(ending));
    names.sort();
    names
}

/// What a check says beside the interfaces that this machine does not have.
fn without_notes(err: &str) -> Vec<&str> {
    err.lines().filter(|line| !line.contains(": note: this machine has no interface ")).collect()
}

/// Says that a test cannot run here, which is a failure where it must.
fn skip(test: &str, need: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    let required = std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == need));
    assert!(!required, "{test} is required by PERHOP_REQUIRE but cannot run: {why}");
}

#[test]
fn examples_are_good_and_say_so() {
    let examples = files("examples", ".toml");
    assert!(examples.len() >= 4);
    let mut args = vec!["router", "check", "--deny-warnings"];
    args.extend(examples.iter().map(String::as_str));
    let ended = perhop(&args);
    assert_eq!((ended.code, without_notes(&ended.err)), (Some(0), vec![]));
    assert_eq!(ended.out.lines().count(), examples.len());
    assert!(ended.out.lines().all(|l| l.ends_with(": good")), "{}", ended.out);
}

/// What the pages show is what a check calls good.
#[test]
fn router_files_of_the_pages_are_good() {
    let scratch = Scratch::new("pages");
    for page in ["README.md", "docs/router-file.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let blocks = text.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
        let shown: Vec<&str> = blocks.filter(|block| block.contains("[[port]]")).collect();
        assert!(!shown.is_empty(), "{page}");
        for block in shown {
            let file = scratch.file("page.toml", block);
            let ended = perhop(&["router", "check", "--deny-warnings", &file]);
            assert_eq!((ended.code, without_notes(&ended.err)), (Some(0), vec![]), "{page}: {}", ended.out);
        }
    }
}

/// A check refuses what a run refuses, at its place, and both exit 2.
#[test]
fn what_cannot_run_is_no_good_file() {
    let scratch = Scratch::new("cannot-run");
    let port = "[[port]]\nname = \"wan\"\n";
    for (text, place) in [
        (format!("[router]\nname = \"../x\"\n{port}"), "2:8: router.name = \"../x\""),
        (format!("{port}device = \"a234567890123456\"\n"), "3:10: port \"wan\": device = "),
        (format!("{port}device = \"up/link\"\n"), "3:10: port \"wan\": device = "),
        ("[[port]]\nname = \"a234567890123456\"\n".to_owned(), "1:1: port \"a234567890123456\""),
        (format!("[log]\nfile = \"/nowhere/at/all.log\"\n{port}"), "2:8: log.file = "),
    ] {
        let file = scratch.file("file.toml", &text);
        for words in [["router", "check"], ["router", "run"]] {
            let ended = perhop(&[&words[..], &[&file]].concat());
            let said = format!("{}{}", ended.out, ended.err);
            assert_eq!(ended.code, Some(2), "{words:?} {text}: {said}");
            assert!(said.contains(&format!("file.toml:{place}")), "{words:?} {text}: {said}");
        }
    }
}

/// Of a file without an end only so much is read as a router file may have.
#[test]
fn a_file_without_an_end_is_too_long() {
    let ended = perhop(&["router", "check", "/dev/zero"]);
    assert!(ended.code == Some(2) && ended.err.contains("longer than 268435456 bytes"), "{}", ended.err);
}

/// The expected texts lie beside the broken files; here they must come out of the binary, whole.
#[test]
fn broken_files_are_reported_whole_and_exit_as_they_should() {
    let broken = files("dataplane/routerfile/tests/broken", ".toml");
    assert!(broken.len() >= 20);
    for file in broken {
        let ended = perhop(&["router", "check", &file]);
        let json = perhop(&["router", "check", "--json", &file]);
        let expected = std::fs::read_to_string(root().join(file.replace(".toml", ".expected"))).unwrap();
        let name = file.rsplit('/').next().unwrap();
        let shown = ended.out.replace(&file, name);
        assert!(shown.starts_with(&expected), "{file}:\n{shown}\nis not\n{expected}");
        let lines = json.json();
        let last = lines.last().unwrap();
        let (errors, warnings) = (last["errors"].as_u64().unwrap(), last["warnings"].as_u64().unwrap());
        assert_eq!(lines.len() as u64 - 1, errors + warnings);
        assert!(lines[..lines.len() - 1].iter().all(|l| l["line"].is_u64() && l["column"].is_u64()));
        let code = if errors > 0 { 2 } else { 0 };
        assert_eq!((ended.code, json.code), (Some(code), Some(code)), "{file}");
        let denied = perhop(&["router", "check", "--deny-warnings", &file]).code;
        assert_eq!(denied, Some(if errors > 0 { 2 } else { 1 }), "{file}: every broken file has something");
    }
}

#[test]
fn a_file_that_is_not_there_or_not_text_is_bad_input() {
    let ended = perhop(&["router", "check", "no-such-file.toml"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("no-such-file.toml") && ended.err.contains("Check the name"), "{}", ended.err);
    let ended = perhop(&["router", "check", env!("CARGO_BIN_EXE_perhop")]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("is not UTF-8"), "{}", ended.err);
}

#[test]
fn every_file_that_cannot_be_read_is_named_once() {
    let ended = perhop(&["router", "check", "none-1.toml", "none-2.toml", "none-3.toml"]);
    assert_eq!(ended.code, Some(2));
    for name in ["none-1.toml", "none-2.toml", "none-3.toml"] {
        assert_eq!(ended.err.matches(name).count(), 1, "{}", ended.err);
    }
}

#[test]
fn a_scenarios_router_is_checked_with_the_rate_of_its_link() {
    let scratch = Scratch::new("link-rate");
    let text = "[[port]]\nname = \"core\"\n[[class]]\nname = \"voice\"\nport = \"core\"\nguarantee = \"30 %\"\n\
                dscp = [\"EF\"]\n[[class]]\nname = \"rest\"\nport = \"core\"\ndefault = true\n\
                [[port]]\nname = \"lan\"\ntrust_dscp = true\n";
    let file = scratch.file("r.toml", text);
    let alone = perhop(&["router", "check", &file]);
    assert_eq!(alone.code, Some(2));
    assert!((alone.out + &alone.err).contains("--rate core=RATE"), "{}", alone.err);
    let rate = ["--rate", "core=10 Mbit/s"];
    let packet = ["--packet", "in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=EF"];
    for (verb, more) in [("check", &[][..]), ("graph", &[]), ("explain", &packet)] {
        let ended = perhop(&[&["router", verb, &file], &rate[..], more].concat());
        assert_eq!(ended.code, Some(0), "{verb}: {}", ended.err);
        if verb == "graph" {
            assert!(ended.out.contains(r#""rate":10000000"#), "{}", ended.out);
        }
        // A port that is not there, or has a rate of its own, takes none.
        let wrong =
            perhop(&[&["router", verb, &file], &rate[..], &["--rate", "lam=1 Mbit/s"], more].concat());
        assert_eq!(wrong.code, Some(2), "{verb}");
        assert!(wrong.err.contains("--rate lam"), "{}", wrong.err);
    }
    assert_eq!(perhop(&["router", "check", &file, "--rate", "core"]).code, Some(2));
}

/// A file may be for another machine, so what this one lacks is said and counts for nothing.
#[test]
fn a_check_notes_interfaces_that_are_not_here() {
    let scratch = Scratch::new("not-here");
    let text = "[[port]]\nname = \"nowhere0\"\n[[port]]\nname = \"lan\"\ndevice = \"nowhere1\"\n\
                [[port]]\nname = \"lo\"\n[[port]]\nname = \"made\"\nio = \"tun\"\n";
    let file = scratch.file("r.toml", text);
    let ended = perhop(&["router", "check", "--deny-warnings", &file]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let note = "r.toml: note: this machine has no interface \"nowhere0\", \"nowhere1\"; a router";
    assert!(ended.err.contains(note) && ended.err.lines().count() == 1, "{}", ended.err);
    let json = perhop(&["router", "check", "--json", &file]).json();
    assert_eq!(json[0]["not_here"], serde_json::json!(["nowhere0", "nowhere1"]));
}

#[test]
fn a_scenario_is_no_router_file_and_a_router_file_no_scenario() {
    let ended = perhop(&["router", "check", "scenarios/examples/demo.toml"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(
        ended.err.contains("this is a scenario") && ended.err.contains("`perhop lab run "),
        "{}",
        ended.err
    );
    assert_eq!(ended.err.lines().count(), 2, "{}", ended.err);
    let ended = perhop(&["lab", "run", "examples/edge.toml"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(
        ended.err.contains("this is a router file") && ended.err.contains("`perhop router check "),
        "{}",
        ended.err
    );
    assert_eq!(ended.err.lines().count(), 2, "{}", ended.err);
}

#[test]
fn a_graph_is_printed_and_reads_back_as_itself() {
    let scratch = Scratch::new("graph");
    for example in files("examples", ".toml") {
        let ended = perhop(&["router", "graph", &example]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.out.starts_with("// port "), "{}", ended.out);
        let graph = scratch.file("printed.graph", &ended.out);
        let again = perhop(&["router", "graph", &graph]);
        assert_eq!(again.code, Some(0), "{example}: {}", again.err);
        assert!(ended.out.ends_with(&again.out), "{example}: canonical text is its own canonical text");
        let elements = perhop(&["router", "graph", "--json", &graph]).json();
        let lines = again.out.lines().count();
        assert_eq!(elements.len(), lines, "{example}");
    }
    let wrong = scratch.file("wrong.graph", "a :: Flowz();\na -> b;\n");
    let ended = perhop(&["router", "graph", &wrong]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(ended.err.contains("wrong.graph:2:6:"), "{}", ended.err);
}

#[test]
fn the_usage_of_explain_says_what_it_needs() {
    let help = perhop(&["router", "explain", "--help"]).out;
    for way in ["--packet <DESCRIPTION> <FILE>\n", "--packet <DESCRIPTION> --router <NAME> [FILE]\n"] {
        assert!(help.contains(&format!("perhop router explain [OPTIONS] {way}")), "{help}");
    }
}

#[test]
fn explains_an_ipv4_packet_of_the_edge_example() {
    let packet = "in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=0 len=200 rtp";
    let ended = perhop(&["router", "explain", "examples/edge.toml", "--packet", packet]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let expected = "\
udp 10.0.0.1:5004>10.1.0.2:5004, BE, 200 B
  port         lan: port 0, routes; code points choose nothing  (examples/edge.toml:9:1)
  parse        IPv4 at 14, protocol 17 at 34, 172 B of payload
  connection   none yet; this packet would open one
  filters      none matches, 0 compared in 0 tables
  detection    may be RTP: not decided by one packet  (examples/edge.toml:35:1)
                 10 packets of one source within 1 s put the flow into class ef
  class        none: the default class of the port it leaves by
  profile      none: not metered
  contract     none
  route        no route of the file covers 10.1.0.2
                 the kernel's routes are not known from a file; ask the running router with --router NAME
  queue        queue best-effort, as nothing else takes it  (examples/edge.toml:28:1)
                 guarantee 4.95 Mbit/s (burst 6187 B), ceiling the link, tier 15, weight 1
                 limit 100 ms, drop-tail
  transmitter  9.9 Mbit/s on wan, 24 B overhead a frame, at least 84 B; free
  outcome      depends on the kernel's routes; by wan from queue best-effort
";
    assert_eq!(ended.out, expected);
}

#[test]
fn explains_an_ipv6_packet_with_its_filter_and_route() {
    let packet = "in=site udp [2001:db8:51::1]:1000>[2001:db8:100::2]:5683 len=100 ttl=9";
    let ended = perhop(&["router", "explain", "examples/ipv6.toml", "--packet", packet]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for line in [
        "udp [2001:db8:51::1]:1000>[2001:db8:100::2]:5683, BE, 100 B",
        "  filters      sensors matches (tier 0, priority 10)  (examples/ipv6.toml:39:1)",
        "                 because source 2001:db8:51::1 in 2001:db8:51::/64",
        "  class        telemetry (by filter)",
        "  route        ::/0 of a route object: to fe80::1 by radio",
        "  queue        queue telemetry  (examples/ipv6.toml:24:1)",
        "  outcome      sent by radio from queue telemetry",
    ] {
        assert!(ended.out.lines().any(|l| l == line), "{line:?} is missing in\n{}", ended.out);
    }
    let json = perhop(&["router", "explain", "examples/ipv6.toml", "--json", "--packet", packet]).json();
    let steps = json[0]["steps"].as_array().unwrap();
    let route = steps.iter().find(|s| s["step"] == "route").unwrap();
    assert_eq!(route["facts"]["next_hop"], "fe80::1");
    assert_eq!(json.len(), 1);
}

#[test]
fn a_bad_description_is_marked_where_it_is_wrong() {
    let packet = "in=lam udp 10.0.0.1:70000>10.1.0.2:5004";
    let ended = perhop(&["router", "explain", "examples/edge.toml", "--packet", packet]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    let column = |line: &str| line.find('^').map(|at| at - 2);
    let marks: Vec<usize> = ended.err.lines().filter_map(column).collect();
    assert_eq!(marks, [packet.find("70000").unwrap()], "{}", ended.err);
    let ended =
        perhop(&["router", "explain", "examples/edge.toml", "--packet", "in=lam udp 10.0.0.1:7>10.1.0.2:5"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("did you mean \"lan\"?"), "{}", ended.err);
}

fn capture(test: &str, name: &str) -> Option<String> {
    let Some(data) = std::env::var_os("PERHOP_TEST_DATA") else {
        skip(test, "data", "PERHOP_TEST_DATA does not say where the captures are");
        return None;
    };
    Some(Path::new(&data).join("pcap").join(name).to_str().unwrap().to_owned())
}

#[test]
fn rtp_is_found_in_captures_and_only_where_it_is() {
    let names = ["g711a.pcap", "rtp.pcapng", "rtps.pcap", "dnscrypt_skype_false_positive.pcapng"];
    let test = "rtp_is_found_in_captures_and_only_where_it_is";
    let Some(paths) = names.iter().map(|n| capture(test, n)).collect::<Option<Vec<_>>>() else { return };
    let mut args = vec!["realtime", "classify", "--json"];
    args.extend(paths.iter().map(String::as_str));
    let ended = perhop(&args);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let rows = ended.json();
    let (summary, rows) = rows.split_last().unwrap();
    let media = |name: &str| {
        let of = |r: &&Value| r["file"].as_str().unwrap().ends_with(name) && r["verdict"] == "media";
        rows.iter().filter(of).count() as u64
    };
    assert_eq!(names.map(media), [1, 4, 0, 0]);
    assert_eq!((summary["files"].as_u64(), summary["media"].as_u64()), (Some(4), Some(5)));
    assert_eq!(summary["flows"].as_u64(), Some(rows.len() as u64));
    let call = rows.iter().find(|r| r["verdict"] == "media").unwrap();
    assert_eq!(call["flow"], "udp 10.1.3.143:5000>10.1.6.18:2006");
    assert_eq!((call["payload_type"][0].as_u64(), call["decided_at"].as_u64()), (Some(8), Some(6)));
}

#[test]
fn a_damaged_capture_is_classified_up_to_the_damage() {
    let test = "a_damaged_capture_is_classified_up_to_the_damage";
    let Some(path) = capture(test, "g711a.pcap") else { return };
    let scratch = Scratch::new("damaged");
    let whole = std::fs::read(path).unwrap();
    let cut = scratch.0.join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let ended = perhop(&["realtime", "classify", "--json", cut.to_str().unwrap(), "no-such.pcap"]);
    assert_eq!(ended.code, Some(2));
    let rows = ended.json();
    let (summary, rows) = rows.split_last().unwrap();
    assert_eq!((rows.len(), rows[0]["verdict"].as_str()), (1, Some("media")));
    assert_eq!(summary["errors"].as_array().map(Vec::len), Some(2));
    assert!(summary["errors"][0].as_str().unwrap().contains("damaged after record"));
}

/// A pcap file of this link type with one frame of zeros.
fn pcap_of(link_type: u32) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0];
    file.extend([link_type, 1, 0, 60, 60].map(u32::to_le_bytes).concat());
    file.extend([0; 60]);
    file
}

#[test]
fn what_cannot_be_classified_is_said() {
    let scratch = Scratch::new("unreadable");
    let path = |name: &str, link_type| {
        let path = scratch.0.join(name);
        std::fs::write(&path, pcap_of(link_type)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ethernet, unknown) = (path("ethernet.pcap", 1), path("unknown.pcap", 999));
    let ended = perhop(&["realtime", "classify", "--json", &ethernet]);
    let summary = ended.json().pop().unwrap();
    assert_eq!(
        (ended.code, summary["other"].as_u64(), summary["unreadable"].as_u64()),
        (Some(0), Some(1), Some(0))
    );
    let ended = perhop(&["realtime", "classify", "--json", &unknown]);
    let summary = ended.json().pop().unwrap();
    assert_eq!((ended.code, summary["unreadable"].as_u64()), (Some(2), Some(1)), "{}", ended.err);
    assert!(summary["errors"][0].as_str().unwrap().contains("link type is 999"), "{summary}");
    for (options, message) in [
        (&["--packets", "5", "--regular", "9"][..], "9 regular packets"),
        (&["--within", "0s"], "within 0 ns"),
    ] {
        let ended = perhop(&[&["realtime", "classify", &ethernet], options].concat());
        assert!(ended.code == Some(2) && ended.err.contains(message), "{options:?}: {}", ended.err);
        assert!(!ended.err.contains("router"), "{}", ended.err);
    }
    assert_eq!(perhop(&["realtime", "classify", "--packets", "4", &ethernet]).code, Some(0));
}

/// What `perhop` says to bytes on its standard input.
fn piped(args: &[&str], input: &[u8]) -> Ended {
    use std::io::Write;
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn captures_come_from_pipes_empty_and_compressed() {
    let scratch = Scratch::new("pipes");
    for name in ["-", "/dev/stdin"] {
        let ended = piped(&["realtime", "classify", "--json", name], &pcap_of(1));
        let summary = ended.json().pop().unwrap();
        assert_eq!((ended.code, summary["other"].as_u64()), (Some(0), Some(1)), "{name}: {}", ended.err);
        let ended = piped(&["realtime", "classify", "--json", name], &pcap_of(1)[..24]);
        let summary = ended.json().pop().unwrap();
        assert_eq!((ended.code, summary["flows"].as_u64()), (Some(0), Some(0)), "{name}: {}", ended.err);
    }
    let path = |name: &str, bytes: &[u8]| {
        let path = scratch.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let header = path("header.pcap", &pcap_of(1)[..24]);
    assert_eq!(perhop(&["realtime", "classify", &header]).code, Some(0));
    let compressed = path("call.pcap.gz", &[&[0x1f, 0x8b, 8][..], &[0; 40]].concat());
    let ended = perhop(&["realtime", "classify", &compressed]);
    let hint = format!("gunzip -c {compressed} | perhop");
    assert!(ended.code == Some(2) && ended.err.contains(&hint), "{}", ended.err);
    let ended = perhop(&["lab", "record", "-", "-"]);
    assert!(ended.code == Some(2) && ended.err.contains("one capture"), "{}", ended.err);
}

#[test]
fn a_snap_length_that_cuts_headers_is_said() {
    let scratch = Scratch::new("snap");
    // IPv4 and TCP with options, of which the capture holds the 20 bytes before them.
    let mut packet = vec![0x45, 0, 5, 0, 0, 0, 0, 0, 64, 6, 0x61, 0xf6, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend([0x13, 0x8c, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0xa0, 2, 0, 9, 0, 0, 0, 0]);
    let mut file = pcap_of(101)[..24].to_vec();
    file.extend([1_u32, 0, 40, 1_280].map(u32::to_le_bytes).concat());
    file.extend(packet);
    let path = scratch.0.join("snap.pcap");
    std::fs::write(&path, file).unwrap();
    let ended = perhop(&["realtime", "classify", "--json", path.to_str().unwrap()]);
    let summary = ended.json().pop().unwrap();
    assert_eq!((summary["unreadable"].as_u64(), summary["cut"].as_u64()), (Some(1), Some(1)), "{summary}");
    assert!(ended.code == Some(2) && ended.err.contains("longer snap length"), "{}", ended.err);
    assert!(!ended.err.contains("malformed") && !ended.err.contains("link type"), "{}", ended.err);
}

#[test]
fn every_subcommand_explains_itself() {
    let commands: [&[&str]; 37] = [
        &[],
        &["router"],
        &["router", "check"],
        &["router", "graph"],
        &["router", "explain"],
        &["router", "run"],
        &["router", "reload"],
        &["router", "restore"],
        &["router", "apply"],
        &["show"],
        &["lab"],
        &["lab", "run"],
        &["lab", "list"],
        &["lab", "report"],
        &["lab", "compare"],
        &["realtime"],
        &["realtime", "classify"],
        &["controller"],
        &["controller", "check"],
        &["controller", "run"],
        &["reserve"],
        &["reserve", "create"],
        &["reserve", "why"],
        &["reserve", "change"],
        &["reserve", "release"],
        &["reserve", "list"],
        &["cops"],
        &["cops", "decode"],
        &["sip-proxy"],
        &["sip-proxy", "check"],
        &["sip-proxy", "run"],
        &["pki"],
        &["pki", "init"],
        &["pki", "issue"],
        &["pki", "token"],
        &["completions"],
        &["man"],
    ];
    for words in commands {
        let mut args = words.to_vec();
        args.push("--help");
        let ended = perhop(&args);
        let usage = format!("Usage: perhop {}", words.join(" "));
        assert!(ended.code == Some(0) && ended.out.contains(usage.trim_end()), "{args:?}:\n{}", ended.out);
        args.pop();
        args.push("--no-such-flag");
        let ended = perhop(&args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}");
    }
    assert_eq!(perhop(&["no-such-command"]).code, Some(2));
    assert_eq!(perhop(&["router", "explain", "--packet", "x"]).code, Some(2), "neither a file nor a router");
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = perhop(&["completions", shell]);
        assert!(ended.code == Some(0) && ended.out.contains("classify"), "{shell}");
    }
    assert!(perhop(&["man"]).out.contains(".TH perhop 1"));
    let scratch = Scratch::new("man");
    assert_eq!(perhop(&["man", scratch.0.to_str().unwrap()]).code, Some(0));
    for page in ["perhop.1", "perhop-router-run.1", "perhop-realtime-classify.1", "perhop-lab-run.1"] {
        assert!(scratch.0.join(page).exists(), "{page}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let example = "examples/edge.toml";
    for args in [&["router", "graph", example][..], &["man"], &["completions", "bash"]] {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), String::from_utf8(ended.stderr).unwrap().as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
fn who_asks_a_router_that_is_not_there_is_told_what_to_do() {
    for args in [
        &["show", "ports", "--router", "no-such-router"][..],
        &["router", "reload", "--router", "no-such-router"],
        &["router", "explain", "--router", "no-such-router", "--packet", "in=a udp 10.0.0.1:1>10.0.0.2:2"],
    ] {
        let ended = perhop(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{args:?}");
        assert!(ended.err.contains("perhop router run FILE"), "{}", ended.err);
    }
    let ended = perhop(&["show", "ports", "--router", "../evil"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
}

/// A directory that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("perhop-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
