//! `perhop lab record`: what a network did, from captures on both sides of it.

use super::lab::run;
use super::{Scratch, perhop, root};

#[test]
fn what_a_network_does_is_recorded_from_captures_on_both_sides_of_it() {
    let scratch = Scratch::new("lab-record");
    let network = r#"
id = "recorded"
title = "A network that changes"
why = "A test."
warm_up = "0 s"
duration = "6 s"
repetitions = 1
seed = 5
[node.a]
kind = "host"
[node.f]
kind = "forwarder"
[node.b]
kind = "host"
[link.first]
ends = ["a", "f"]
rate = "1 Gbit/s"
[link.network]
ends = ["f", "b"]
rate = "1 Gbit/s"
discipline = "Emulator(- : play 0s 20ms 0% play 2s 50ms 100% play 3s 30ms 0%)"
[traffic.probe]
kind = "constant"
from = "a"
to = "b"
rate = "800 kbit/s"
size = "100 B"
stop = "5.9 s"
"#;
    let file = scratch.file("recorded.toml", network);
    let [traces, out] = ["traces", "out"].map(|dir| scratch.0.join(dir).to_str().unwrap().to_owned());
    let ended = perhop(&["lab", "run", &file, "--trace", &traces, "--out", &out]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let [before, after] = ["first", "network"].map(|link| format!("{traces}/product/1/{link}.pcap"));
    let ended = perhop(&["lab", "record", &before, &after, "--interval", "500 ms"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    // A microsecond for the line; the first half of what is lost had to have some delay.
    assert_eq!(ended.out, "play 0s 20.001ms 0% play 2s 20.001ms 100% play 3s 30.001ms 0%\n", "{}", ended.err);
    assert!(ended.err.contains(" 1000 lost, 0 copies, 0 overtook others; 0 came"), "{}", ended.err);
    let table = perhop(&["lab", "record", &before, &after, "--table", "2", "--json"]).json();
    assert!(table[0]["entry"].as_str().unwrap().starts_with("table 20.001"), "{table:?}");
    assert_eq!(table[0]["lost"], 1000);
    let swapped = perhop(&["lab", "record", &after, &before]);
    assert!(swapped.code == Some(2) && swapped.err.contains("Swap the captures"), "{}", swapped.err);
    let none = perhop(&["lab", "record", &before, &after, "--interval", "0 s"]);
    assert!(none.code == Some(2) && none.err.contains("longer than nothing"), "{}", none.err);
}

/// The page's scenario, its commands and what they print.
#[test]
fn a_network_is_recorded_as_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/scenario-file.md")).unwrap();
    let (_, section) = page.split_once("#### Recording a network").unwrap();
    let block = |begin: &str| section.split_once(begin).unwrap().1.split_once("\n```").unwrap().0;
    let scratch = Scratch::new("lab-record");
    let file = scratch.file("recorded.toml", block("```toml\n"));
    let captures = scratch.0.join("captures");
    let ended = run(&scratch, &file, "out", &["--trace", captures.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let capture = |name: &str| captures.join("product/1").join(name).display().to_string();
    let record = |before: &str, after: &str, more: &[&str]| {
        let (before, after) = (capture(before), capture(after));
        perhop(&[&["lab", "record", &before, &after], more].concat())
    };
    for (way, rest) in [
        (["before.pcap", "net.pcap", "src 10.0.0.1"], ["--interval", "5s"]),
        (["before.pcap", "net.pcap", "src 10.0.0.1"], ["--table", "3"]),
    ] {
        let [before, after, filter] = way;
        let ended = record(before, after, &["--filter", filter, rest[0], rest[1]]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let said = format!("{before} {after} --filter \"{filter}\" {}\n{}", rest.join(" "), ended.out);
        assert!(section.contains(&said), "{said}");
    }
    let back = record("after.pcap", "net.pcap", &["--filter", "src 10.0.0.4", "--table", "2"]);
    assert!(
        back.out.starts_with("table 30.411ms 30.411ms") && section.contains("`src 10.0.0.4`"),
        "{}",
        back.out
    );
    let both = record("before.pcap", "net.pcap", &[]);
    assert_eq!(both.code, Some(2));
    assert!(both.err.contains("choose one by a rule"), "{}", both.err);
    let none = record("before.pcap", "net.pcap", &["--filter", "src 192.0.2.1"]);
    assert!(none.err.contains("no IP packets that count were seen before"), "{}", none.err);
}
