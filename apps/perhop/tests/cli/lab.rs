//! `perhop lab …`: small networks in virtual time.

use super::{Ended, Scratch, command, files, perhop, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Two hosts, a bottleneck that loses packets at random, calls beside a transfer; a variant with a longer queue.
const NETWORK: &str = r#"
id = "small"
title = "Calls beside a transfer"
why = "A test."
warm_up = "1 s"
duration = "3 s"
repetitions = 3
seed = 5

[node.a]
kind = "host"
[node.left]
kind = "forwarder"
[node.right]
kind = "forwarder"
[node.b]
kind = "host"

[link.one]
ends = ["a", "left"]
rate = "100 Mbit/s"
[link.core]
ends = ["left", "right"]
rate = "2 Mbit/s"
delay = "10 ms"
loss = "0.5 %"
queue = "20 packets"
[link.two]
ends = ["right", "b"]
rate = "100 Mbit/s"

[traffic.voip]
kind = "voice"
from = "a"
to = "b"
both = true
calls = 2
codec = "g711u"
stop = "3500 ms"
[traffic.bulk]
kind = "bulk"
from = "a"
to = "b"
count = 2

[probes]
links = ["core"]
connections = ["bulk"]

[variants.long]
title = "A longer queue"
[variants.long.set]
link.core.queue = "200 packets"

[[expect]]
metric = "total.throughput_kbps.mean"
target = ">= 1000"
published = 1900.5
source = "nowhere, table 1"
depends = ["link.core.rate"]
[[expect]]
metric = "long.voip.delay_ms.max"
target = "<= 5000"
"#;

pub(super) fn run(scratch: &Scratch, file: &str, out: &str, more: &[&str]) -> Ended {
    let out = scratch.0.join(out);
    let mut args = vec!["lab", "run", file, "--out", out.to_str().unwrap()];
    args.extend(more);
    perhop(&args)
}

fn result_of(scratch: &Scratch, out: &str) -> String {
    std::fs::read_to_string(scratch.0.join(out).join("result.json")).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn equal_runs_give_equal_bytes_and_another_seed_gives_others() {
    let scratch = Scratch::new("lab-seed");
    let file = scratch.file("small.toml", NETWORK);
    for (out, seed) in [("first", "5"), ("second", "5"), ("other", "6")] {
        let ended = run(&scratch, &file, out, &["--seed", seed]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    assert_eq!(result_of(&scratch, "first"), result_of(&scratch, "second"));
    for name in [
        "groups.csv",
        "series.csv",
        "queues.csv",
        "connections.csv",
        "delays.csv",
        "pairs.csv",
        "about.json",
        "report.html",
    ] {
        let [first, second] =
            ["first", "second"].map(|out| std::fs::read(scratch.0.join(out).join(name)).unwrap());
        assert!(first == second, "{name} differs");
    }
    let (first, other) = (json(&result_of(&scratch, "first")), json(&result_of(&scratch, "other")));
    assert_eq!((&first["seed"], &other["seed"]), (&5.into(), &6.into()));
    assert_ne!(first["groups"], other["groups"]);
    assert!(first.get("wall_s").is_none(), "the result file has nothing of the machine");
}

#[test]
fn repetitions_differ_and_all_of_them_count() {
    let scratch = Scratch::new("lab-repeat");
    let file = scratch.file("small.toml", NETWORK);
    assert_eq!(run(&scratch, &file, "one", &["--repeat", "1"]).code, Some(0));
    assert_eq!(run(&scratch, &file, "three", &[]).code, Some(0));
    let (one, three) = (json(&result_of(&scratch, "one")), json(&result_of(&scratch, "three")));
    assert_eq!((&one["repetitions"], &three["repetitions"]), (&1.into(), &3.into()));
    assert!(one["groups"][0]["throughput_kbps"]["stdev"].is_null());
    assert!(three["groups"][0]["throughput_kbps"]["stdev"].is_number());
    let rows = std::fs::read_to_string(scratch.0.join("three/groups.csv")).unwrap();
    let row = |csv: &str, start: &str| csv.lines().find(|l| l.starts_with(start)).unwrap().to_owned();
    let (first, second) = (row(&rows, "product,1,bulk,"), row(&rows, "product,2,bulk,"));
    assert_ne!(first.replacen(",1,", ",,", 1), second.replacen(",2,", ",,", 1));
    let alone = std::fs::read_to_string(scratch.0.join("one/groups.csv")).unwrap();
    assert_eq!(row(&alone, "product,1,bulk,"), first, "repetition 1 is the same however many follow");
}

#[test]
fn json_is_one_line_whatever_the_verdict() {
    let scratch = Scratch::new("lab-json");
    let file = scratch.file("small.toml", &NETWORK.replace(">= 1000", ">= 100000"));
    let ended = run(&scratch, &file, "out", &["--json", "--repeat", "1"]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let lines = ended.json();
    assert_eq!(lines.len(), 1);
    assert!(lines[0]["wall_s"].is_number());
    assert_eq!(lines[0]["expect"][0]["ok"], false);
    assert_eq!(lines[0]["expect"][0]["published"], 1900.5);
    assert_eq!(lines[0]["expect"][1]["ok"], true);
    assert!(
        ended.err.contains("1 of 2 targets is not met.") && ended.err.contains("report: "),
        "{}",
        ended.err
    );
    let plain = run(&scratch, &file, "out", &["--repeat", "1"]);
    assert_eq!(plain.code, Some(1));
    assert!(plain.out.contains("total.throughput_kbps.mean") && plain.out.contains(" NO"), "{}", plain.out);
}

#[test]
fn targets_that_depend_on_what_was_set_are_not_judged() {
    let scratch = Scratch::new("lab-set");
    let file = scratch.file("small.toml", NETWORK);
    let set =
        ["--set", "link.core.rate=300kbit/s", "--set", "traffic.voip.calls=1", "--repeat", "1", "--json"];
    let ended = run(&scratch, &file, "out", &set);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let line = &ended.json()[0];
    assert!(line["expect"][0]["ok"].is_null() && line["expect"][0]["ours"].as_f64().unwrap() < 1000.0);
    assert_eq!(line["expect"][1]["ok"], true);
    let page = std::fs::read_to_string(scratch.0.join("out/report.html")).unwrap();
    assert!(page.contains("set: link.core.rate") && page.contains("300kbit/s"));
}

#[test]
fn wrong_input_is_said_precisely_and_exits_with_2() {
    let scratch = Scratch::new("lab-wrong");
    let file = scratch.file("small.toml", NETWORK);
    let set = |setting| run(&scratch, &file, "out", &["--set", setting]);
    let ended = set("link.coer.rate=1Mbit/s");
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(ended.err.contains("link.coer.rate") && ended.err.contains("link.core.rate"), "{}", ended.err);
    assert_eq!(set("link.core.rate").code, Some(2), "no value");
    let ended = perhop(&["lab", "run", "no-such-scenario"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("perhop lab list"), "{}", ended.err);
    assert_eq!(perhop(&["lab", "run", "no/such.toml"]).code, Some(2));
    let broken = scratch.file("broken.toml", &NETWORK.replace("2 Mbit/s", "2 parsec"));
    let ended = run(&scratch, &broken, "out", &[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("broken.toml:24:8"), "{}", ended.err);
    assert!(!scratch.0.join("out").exists(), "nothing is written when nothing was run");
    for args in [
        &["lab", "report"][..],
        &["lab", "run", "x", "--repeat", "0"],
        &["lab", "run", "x", "--mode", "dream"],
    ] {
        assert_eq!(perhop(args).code, Some(2), "{args:?}");
    }
    let nowhere = scratch.0.join("nowhere");
    let ended = perhop(&["lab", "report", nowhere.to_str().unwrap()]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let ended = perhop(&["lab", "report", scratch.0.to_str().unwrap()]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("result.json is missing"), "{}", ended.err);
}

#[test]
fn a_page_is_made_again_from_the_files_byte_for_byte() {
    let scratch = Scratch::new("lab-report");
    let file = scratch.file("small.toml", NETWORK);
    assert_eq!(run(&scratch, &file, "out", &["--repeat", "2"]).code, Some(0));
    let page = scratch.0.join("out/report.html");
    let first = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    let ended = perhop(&["lab", "report", scratch.0.join("out").to_str().unwrap()]);
    assert_eq!((ended.code, ended.out.trim_end()), (Some(0), page.to_str().unwrap()));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), first);
    for words in ["nowhere, table 1", "Queues", "TCP connections", "Spread over repetitions", "core 2 Mbit/s"]
    {
        assert!(first.contains(words), "{words}");
    }
}

#[test]
fn two_results_are_compared_figure_by_figure() {
    let scratch = Scratch::new("lab-compare");
    let file = scratch.file("small.toml", NETWORK);
    assert_eq!(run(&scratch, &file, "before", &["--repeat", "1"]).code, Some(0));
    assert_eq!(
        run(&scratch, &file, "after", &["--repeat", "1", "--set", "link.core.rate=1Mbit/s"]).code,
        Some(0)
    );
    let [before, after] = ["before", "after"].map(|name| scratch.0.join(name).to_str().unwrap().to_owned());
    let ended = perhop(&["lab", "compare", &before, &after]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.lines().next().unwrap().contains("before"), "{}", ended.out);
    let row = ended.out.lines().find(|l| l.starts_with("total.throughput_kbps.mean")).unwrap();
    let figures: Vec<f64> = row.split_whitespace().skip(1).map(|f| f.parse().unwrap()).collect();
    assert!((figures[1] - figures[0] - figures[2]).abs() < 0.002 && figures[2] < 0.0, "{row}");
    let page = std::fs::read_to_string(scratch.0.join("after/compare.html")).unwrap();
    assert!(page.contains("before network") && page.contains("after long"));
    let lines = perhop(&["lab", "compare", &before, &after, "--json"]).json();
    assert!(lines.iter().any(|l| l["metric"] == "total.throughput_kbps.mean" && l["values"][1].is_number()));
    let alone = perhop(&["lab", "compare", &before]);
    assert_eq!((alone.code, alone.out.as_str()), (Some(2), ""), "{}", alone.err);
    // Any number of them; the page is in the last.
    let third = scratch.0.join("third");
    assert_eq!(run(&scratch, &file, "third", &["--repeat", "1"]).code, Some(0));
    let three = ["lab", "compare", &before, &after, third.to_str().unwrap()];
    let ended = perhop(&three);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let head: Vec<&str> = ended.out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["figure", "before", "after", "third", "after,", "%", "third,", "%"]);
    let page = std::fs::read_to_string(third.join("compare.html")).unwrap();
    assert!(["before network", "after network", "third long"].iter().all(|name| page.contains(name)));
    let lines = perhop(&[&three[..], &["--json"]].concat()).json();
    assert!(lines.iter().all(|l| l["values"].as_array().unwrap().len() == 3));
    let ended = perhop(&[&three[..], &["--markdown"]].concat());
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
    assert!(ended.err.contains("3 are named"), "{}", ended.err);
}

#[test]
fn worlds_are_compared_of_one_scenario_only() {
    let scratch = Scratch::new("lab-worlds");
    let file = scratch.file("small.toml", NETWORK);
    let other = scratch.file("other.toml", &NETWORK.replace("\"small\"", "\"other\""));
    for (file, out) in [(&file, "one"), (&file, "two"), (&other, "other")] {
        assert_eq!(run(&scratch, file, out, &["--repeat", "1", "--variants", "none"]).code, Some(0));
    }
    let compare = |second: &str| {
        let [first, second] = ["one", second].map(|name| scratch.0.join(name).to_str().unwrap().to_owned());
        perhop(&["lab", "compare", &first, &second, "--markdown"])
    };
    let ended = compare("other");
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
    assert!(ended.err.contains("result of small") && ended.err.contains("one of other"), "{}", ended.err);
    let ended = compare("two");
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("of one world, sim") && ended.out.contains("| one world |"), "{}", ended.err);
}

#[test]
fn a_program_that_this_machine_lacks_is_told_before_the_run() {
    let scratch = Scratch::new("lab-program");
    let program = |run: &str| format!("[[program]]\nnode = \"a\"\nrun = \"{run}\"\n");
    let text = NETWORK.replace(
        "[[expect]]\nmetric = \"total",
        &format!("{}{}[[expect]]\nmetric = \"total", program("no-such-program -c 3"), program("sh -c true")),
    );
    let file = scratch.file("small.toml", &text);
    let ended = run(&scratch, &file, "out", &["--mode", "netns"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{}", ended.err);
    let line = text.lines().position(|line| line.contains("no-such-program")).unwrap() + 1;
    assert!(ended.err.contains(&format!("small.toml:{line}:7: program \"program1\"")), "{}", ended.err);
    assert!(ended.err.contains("Install") && !ended.err.contains("program2"), "{}", ended.err);
    assert_eq!(run(&scratch, &file, "out", &["--repeat", "1"]).code, Some(0), "the simulator leaves it out");
}

/// What the README says that any machine prints, command after command.
#[test]
fn the_readme_shows_what_the_example_prints() {
    let readme = std::fs::read_to_string(super::root().join("README.md")).unwrap();
    let shown = |before: &str| {
        let after = readme.split(&format!("{before}\n\n```\n")).nth(1).unwrap();
        after.split("```\n").next().unwrap()
    };
    let scratch = Scratch::new("lab-readme");
    let printed = |words: &[&str]| {
        let output = command(words).current_dir(&scratch.0).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let run = ["lab", "run", "three-routers"];
    assert_eq!(printed(&run).trim(), shown("The second prints, on any machine:").trim());
    printed(&[&run[..], &["--set", "link.east.rate=4 Mbit/s", "--out", "out/lab/slower"]].concat());
    let compared = printed(&["lab", "compare", "out/lab/three-routers", "out/lab/slower"]);
    assert!(compared.starts_with(shown("The last begins:")), "{compared}");
}

#[test]
fn captures_are_written_for_every_link_and_repetition() {
    let scratch = Scratch::new("lab-trace");
    let file = scratch.file("small.toml", NETWORK);
    let trace = scratch.0.join("trace");
    let ended = run(&scratch, &file, "out", &["--repeat", "2", "--trace", trace.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for place in ["product/1", "product/2", "long/1", "long/2"] {
        let capture = std::fs::read(trace.join(place).join("core.pcap")).unwrap();
        assert!(capture.len() > 10_000, "{place}: {} bytes", capture.len());
    }
}

/// Real time: two repetitions of 2 s each. Only its form is judged, not what this machine made of it.
#[test]
fn namespaces_give_a_result_of_the_same_form() {
    let scratch = Scratch::new("lab-netns");
    let short = NETWORK.replace("duration = \"3 s\"", "duration = \"1 s\"").replace("3500 ms", "1900 ms");
    let file = scratch.file("small.toml", &short);
    let ended =
        run(&scratch, &file, "out", &["--mode", "netns", "--repeat", "1", "--variants", "all", "--json"]);
    if ended.code == Some(3) && ended.out.is_empty() {
        return skip("namespaces_give_a_result_of_the_same_form", "netns", &ended.err);
    }
    let line = &ended.json()[0];
    assert_eq!((&line["mode"], &line["repetitions"]), (&"netns".into(), &1.into()));
    assert!(line["variants"]["long"]["groups"].as_array().unwrap().len() > 3, "{line}");
    let machine = json(&std::fs::read_to_string(scratch.0.join("out/machine.json")).unwrap());
    let saturated = !machine["saturated"].is_null();
    assert_eq!(ended.code == Some(3), saturated, "{}", ended.err);
    let page = std::fs::read_to_string(scratch.0.join("out/report.html")).unwrap();
    assert_eq!(page.contains("NO VERDICT"), saturated);
}

#[test]
fn scenarios_are_found_from_anywhere_and_a_file_here_comes_first() {
    let scratch = Scratch::new("lab-find");
    let there = |args: &[&str]| {
        let output = command(args).current_dir(&scratch.0).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    };
    let ended = there(&["lab", "list", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let listed: Vec<String> = ended.json().iter().map(|l| l["id"].as_str().unwrap().to_owned()).collect();
    for file in files("scenarios", ".toml").into_iter().chain(files("scenarios/examples", ".toml")) {
        let id = Path::new(&file).file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(listed.contains(&id), "{file} is not in {listed:?}");
    }
    assert!(ended.json().iter().all(|l| l["file"].is_null() && !l["title"].as_str().unwrap().is_empty()));
    std::fs::create_dir(scratch.0.join("scenarios")).unwrap();
    scratch.file("scenarios/small.toml", NETWORK);
    let mine = NETWORK.replace("Calls beside a transfer", "Mine").replace("\"small\"", "\"three-routers\"");
    scratch.file("scenarios/three-routers.toml", &mine);
    let lines = there(&["lab", "list", "--json"]).json();
    let title =
        |id: &str| lines.iter().find(|l| l["id"] == id).map(|l| l["title"].as_str().unwrap().to_owned());
    assert_eq!(title("small").as_deref(), Some("Calls beside a transfer"));
    assert_eq!(title("three-routers").as_deref(), Some("Mine"));
    let ended = there(&["lab", "run", "small", "three-routers", "--repeat", "1", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.json().len(), 2);
    assert!(scratch.0.join("out/lab/small/report.html").exists());
    assert!(scratch.0.join("out/lab/three-routers/report.html").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_known_before_the_run() {
    let scratch = Scratch::new("lab-place");
    let file = scratch.file("small.toml", NETWORK);
    let blocked = scratch.file("blocked", "a file, no directory");
    for option in ["--out", "--trace"] {
        let given = format!("{blocked}/below");
        let ended = perhop(&["lab", "run", &file, option, &given]);
        assert_eq!(ended.code, Some(3), "{}", ended.err);
        assert!(ended.err.contains("blocked/below"), "{}", ended.err);
        assert!(!ended.err.contains("simulated"), "nothing was run: {}", ended.err);
    }
    let good = scratch.0.join("good/deep");
    let ended = perhop(&["lab", "run", &file, "--out", good.to_str().unwrap(), "--repeat", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!good.join(".perhop-probe").exists());
}

#[test]
fn a_directory_never_holds_two_results() {
    let scratch = Scratch::new("lab-twice");
    let file = scratch.file("small.toml", NETWORK);
    let out = scratch.0.join("out");
    let seed = |seed: &str| run(&scratch, &file, "out", &["--repeat", "1", "--seed", seed]);
    assert_eq!(seed("7").code, Some(0));
    let first = std::fs::read(out.join("result.json")).unwrap();
    // Nothing can be written: the older result stays whole.
    std::fs::write(out.join(".new"), "in the way").unwrap();
    assert_eq!(seed("8").code, Some(3));
    assert_eq!(std::fs::read(out.join("result.json")).unwrap(), first);
    assert_eq!(perhop(&["lab", "report", out.to_str().unwrap()]).code, Some(0));
    std::fs::remove_file(out.join(".new")).unwrap();
    // It fails in the middle of changing places: what is left is no result.
    std::fs::remove_file(out.join("queues.csv")).unwrap();
    std::fs::create_dir_all(out.join("queues.csv/in-the-way")).unwrap();
    assert_eq!(seed("8").code, Some(3));
    assert!(!out.join("result.json").exists() && !out.join(".new").exists());
    std::fs::remove_dir_all(out.join("queues.csv")).unwrap();
    assert_eq!(seed("8").code, Some(0));
    assert_eq!(json(&result_of(&scratch, "out"))["seed"], 8);
    assert!(!out.join(".new").exists());
}

#[test]
fn options_have_the_limits_of_the_file() {
    let scratch = Scratch::new("lab-limits");
    let file = scratch.file("small.toml", NETWORK);
    for (option, most, beyond) in
        [("--repeat", "10000", "10001"), ("--seed", "9223372036854775807", "9223372036854775808")]
    {
        // A setting that is wrong ends what would take long.
        let wrong = ["--set", "duration=never"];
        let ended = run(&scratch, &file, "out", &[&[option, most], &wrong[..]].concat());
        assert!(ended.code == Some(2) && ended.err.contains("duration=never"), "{}", ended.err);
        let ended = run(&scratch, &file, "out", &[option, beyond]);
        assert!(ended.code == Some(2) && ended.err.contains(beyond), "{}", ended.err);
    }
}

#[test]
fn one_directory_is_not_written_twice_and_one_that_is_missing_is_named() {
    let scratch = Scratch::new("lab-same");
    let file = scratch.file("small.toml", NETWORK);
    let again = scratch.file("again.toml", NETWORK);
    for second in [&file, &again] {
        let ended = perhop(&["lab", "run", &file, second, "--out", scratch.0.join("out").to_str().unwrap()]);
        assert!(ended.code == Some(2) && ended.err.contains("the id \"small\""), "{}", ended.err);
    }
    assert!(!scratch.0.join("out").exists());
    let ended = perhop(&["lab", "report", scratch.0.join("nope").to_str().unwrap()]);
    assert!(ended.code == Some(2) && ended.err.contains("nope: there is no such directory"), "{}", ended.err);
    let ended = perhop(&["lab", "report", &file]);
    assert!(ended.code == Some(2) && ended.err.contains("no directory"), "{}", ended.err);
}

/// Nobody looks at the signal while a large network is built; it ends the run all the same.
#[test]
fn a_polite_kill_ends_a_simulation_whatever_it_is_doing() {
    let scratch = Scratch::new("killed");
    // Hours of virtual time, some minutes of the machine's.
    let text =
        NETWORK.replace("duration = \"3 s\"", "duration = \"50000 s\"").replace("stop = \"3500 ms\"", "");
    let (file, out) = (scratch.file("long.toml", &text), scratch.0.join("out"));
    let args = ["lab", "run", &file, "--out", out.to_str().unwrap()];
    for pause in [0, 30, 300, 1_500] {
        let mut running = command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        let pid = Pid::from_raw(running.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = running.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                running.kill().unwrap();
                running.wait().unwrap();
                panic!("killed after {pause} ms it still runs");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // Before there is a handler the signal itself ends it.
        assert!(matches!(status.code(), None | Some(130)), "{pause} ms: {status}");
    }
}
