//! `perhop agent …`: agents of routers.

use super::router::World;
use super::{Scratch, perhop, root};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent that gives `ef` what it uses: nothing.
const QUICK: &str = r#"
[[class]]
name = "ef"
least = "64 kbit/s"
most = "4 Mbit/s"
initial = "1 Mbit/s"
interval = "100 ms"
intervals = 3
law = "threshold"
increase = 1.2
decrease = 0.8
"#;

/// Waits until `ef` is shown with this allocation; the owner `file` keeps the class.
fn until_allocated(world: &World, rate: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let rows = world.rows("classes");
        let ef = rows.iter().find(|row| row["name"] == "ef").unwrap();
        assert_eq!(ef["owner"], "file");
        let (least, most) = (&ef["facts"]["allocated"], &ef["facts"]["allocated_most"]);
        if least == rate && most == rate {
            return;
        }
        assert!(Instant::now() < end, "{least} to {most} are allocated, not {rate}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_agent_outlives_its_router_and_gives_way_to_another_agent() {
    let Some(world) = World::new("agent") else { return };
    let mut router = world.start();
    assert!(world.rows("classes").iter().all(|row| row["facts"]["allocated"].is_null()));
    let (mut first, log) = world.start_agent("first", QUICK);
    until_allocated(&world, "64 kbit/s");

    // The next router knows nothing of the agent, which began with 1 Mbit/s and still knows better.
    router.signal(Signal::KILL);
    assert_eq!(router.end(), None);
    let router = world.start();
    until_allocated(&world, "64 kbit/s");
    let said = std::fs::read_to_string(&log).unwrap();
    for words in ["ef: 1 Mbit/s\n", "ef: 64 kbit/s\n", "the router is gone: "] {
        assert_eq!(said.matches(words).count(), 1, "{words:?} once in\n{said}");
    }

    // One that takes over goes on with what is there; this one's range begins above it. It changes nothing else for a
    // minute, and the first has nothing to change.
    let other = QUICK.replace("100 ms", "60 s").replace("least = \"64 kbit/s\"", "least = \"1 Mbit/s\"");
    let (mut second, second_log) = world.start_agent("second", &other);
    until_allocated(&world, "1 Mbit/s");
    assert_eq!(first.end(), Some(1));
    let said = std::fs::read_to_string(&log).unwrap();
    let last = said.lines().rev().take(2).collect::<Vec<_>>();
    assert!(last.iter().any(|line| line.contains("the router listens to another agent")), "{said}");
    until_allocated(&world, "1 Mbit/s");

    second.signal(Signal::TERM);
    assert_eq!(second.end(), Some(0), "{}", std::fs::read_to_string(&second_log).unwrap());
    until_allocated(&world, "1 Mbit/s");
    let (mut third, third_log) =
        world.start_agent("third", &QUICK.replace("100 ms", "60 s").replace("1 M", "2 M"));
    let end = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&third_log).unwrap().contains("ef: 1 Mbit/s\n") {
        assert!(Instant::now() < end, "the third instance has not taken over");
        std::thread::sleep(Duration::from_millis(20));
    }
    until_allocated(&world, "1 Mbit/s");
    third.signal(Signal::TERM);
    assert_eq!(third.end(), Some(0));
    drop(router);
}

#[test]
fn what_an_agent_was_told_is_recorded_and_a_replay_wants_the_same() {
    let Some(world) = World::new("agent-record") else { return };
    let router = world.start();
    let scratch = Scratch::new("agent-record-file");
    let (record, file) = (scratch.file("agent.record", ""), scratch.file("agent.toml", QUICK));
    // The second finds what the first has left, and adds to the same record.
    let mut said = String::new();
    for _ in 0..2 {
        let (mut agent, out) = world.start_recorded(&file, &record);
        until_allocated(&world, "64 kbit/s");
        std::thread::sleep(Duration::from_millis(300));
        agent.signal(Signal::TERM);
        assert_eq!(agent.end(), Some(0));
        said += &std::fs::read_to_string(out).unwrap();
    }
    let replayed = perhop(&["agent", "replay", &record, &file]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.err);
    let lines = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let wanted = lines(&replayed.out);
    let says = wanted.iter().map(|line| line["output"]["say"].clone()).filter(|say| !say.is_null());
    assert_eq!(says.collect::<Vec<_>>(), lines(&said));
    assert!(wanted.iter().any(|line| line["output"]["submit"].is_object()), "{}", replayed.out);
    let wrong = perhop(&["agent", "replay", &file, &file]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    drop(router);
}

#[test]
fn an_agent_of_a_router_that_never_answers_ends_when_it_is_told_to() {
    let Some(world) = World::new("agent-silent") else { return };
    let (listener, path) = world.silence();
    let (mut agent, log) = world.start_agent("agent", QUICK);
    // It has connected, and waits for an answer.
    let (_connection, _) = listener.accept().unwrap();
    agent.signal(Signal::TERM);
    assert_eq!(agent.end(), Some(0), "{}", std::fs::read_to_string(&log).unwrap());
    std::fs::remove_file(path).unwrap();
}

/// The file that docs/allocation.md shows.
fn documented() -> String {
    shown("docs/allocation.md")
}

/// The first file that a page shows.
fn shown(page: &str) -> String {
    let page = std::fs::read_to_string(root().join(page)).unwrap();
    let behind = page.split_once("```toml\n").unwrap().1;
    behind.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_documented_files_are_good_ones() {
    let scratch = Scratch::new("agent-good");
    for (name, page) in [("classes.toml", "docs/allocation.md"), ("links.toml", "docs/bandwidth.md")] {
        let file = scratch.file(name, &shown(page));
        let ended = perhop(&["agent", "check", &file]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        assert_eq!(ended.out, format!("{file}: good\n"));
    }
}

#[test]
fn errors_of_links_are_shown_with_their_places_too() {
    let scratch = Scratch::new("agent-links");
    let text = shown("docs/bandwidth.md")
        .replace("port = \"sat\" ", "prt = \"sat\"")
        .replace("utilisation = \"98 %\"", "utilisation = \"98\"")
        .replace("weight = 3", "weight = 0");
    let file = scratch.file("agent.toml", &text);
    let ended = perhop(&["agent", "check", &file]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    for (line, words) in [(5, "rate is missing"), (7, "prt"), (8, "utilisation"), (28, "weight")] {
        let place = format!("agent.toml:{line}:");
        let said = ended.err.lines().any(|l| l.contains(&place) && l.contains(words));
        assert!(said, "{place} {words} is not in\n{}", ended.err);
    }
}

#[test]
fn all_errors_of_a_file_are_shown_with_their_places() {
    let scratch = Scratch::new("agent-bad");
    let text = documented()
        .replace("delay = \"10 ms\"", "delay = \"10\"")
        .replace("initial =", "inital =")
        .replace("lower = \"70 %\"", "lower = \"700 %\"");
    let file = scratch.file("agent.toml", &text);
    let ended = perhop(&["agent", "check", &file]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    for (line, words) in [(2, "delay"), (8, "inital"), (15, "lower")] {
        let place = format!("agent.toml:{line}:");
        let said = ended.err.lines().any(|l| l.contains(&place) && l.contains(words));
        assert!(said, "{place} {words} is not in\n{}", ended.err);
    }
}

#[test]
fn rates_and_quotes_in_the_spellings_of_others_lead_to_the_right_ones() {
    let scratch = Scratch::new("agent-spelling");
    for (least, said) in [
        (
            "“64 kbit/s”",
            "least = “64 kbit/s” is in typographic quotes;\n  Write \"64 kbit/s\", with straight quotes.\n",
        ),
        ("20M", "least = 20M is not in quotes;\n  did you mean \"20 Mbit/s\"?\n"),
        ("\"20Mb\"", "did you mean \"20 Mbit/s\"?"),
    ] {
        let file =
            scratch.file("agent.toml", &QUICK.replace("least = \"64 kbit/s\"", &format!("least = {least}")));
        let ended = perhop(&["agent", "check", &file]);
        assert!(ended.code == Some(2) && ended.err.contains(said), "{}", ended.err);
    }
    let named = scratch.file("agent.toml", &QUICK.replace("\"ef\"", "‘ef’"));
    let ended = perhop(&["agent", "check", &named]);
    assert_eq!(ended.err.matches("agent.toml:").count(), 2, "one error, and how many: {}", ended.err);
}

#[test]
fn settings_that_would_oscillate_are_errors() {
    let scratch = Scratch::new("agent-unstable");
    let file = scratch.file("agent.toml", &documented().replace("lower = \"70 %\"", "lower = \"89 %\""));
    let ended = perhop(&["agent", "check", &file]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("cannot be stable"), "{}", ended.err);
}

#[test]
fn an_agent_of_links_takes_announcements_until_it_ends() {
    let Some(world) = World::new("announce") else { return };
    let router = world.start();
    let announce = |link: &str| {
        world.ask(&["agent", "announce", "--link", link, "--rate", "1 Mbit/s", "--in", "5 s", "--json"])
    };
    assert_eq!(announce("up").code, Some(3), "there is no agent");
    let (mut agent, log) = world.start_agent("links", "[[link]]\nname = \"up\"\nport = \"wan\"\n");
    let end = Instant::now() + PATIENCE;
    while announce("up").code != Some(0) {
        assert!(Instant::now() < end, "{}", std::fs::read_to_string(&log).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    let wrong = announce("down");
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    assert!(
        wrong.out.contains("not_found")
            && wrong.err.contains("link down: the agent's file has no such link, but: up"),
        "{} {}",
        wrong.out,
        wrong.err
    );
    agent.signal(Signal::TERM);
    assert_eq!(agent.end(), Some(0));
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("link up: 1 Mbit/s is announced"), "{said}");
    let late = announce("up");
    assert_eq!(late.code, Some(3));
    assert!(late.err.contains("perhop agent run"), "{}", late.err);
    drop(router);
}

#[test]
fn what_is_below_zero_is_a_wrong_value_and_no_option() {
    for (option, value) in [("--rate", "-1 kbit/s"), ("--in", "-1 s")] {
        let ended = perhop(&["agent", "announce", "--link", "up", option, value]);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains(&format!("invalid value '{value}' for '{option}")), "{}", ended.err);
    }
}

/// Nothing is left of an agent that had no time to clear up, whoever comes next: somebody who announces, another agent
/// that takes no announcements, or the router when it starts again.
#[test]
fn the_socket_of_a_killed_agent_goes_with_whoever_comes_next() {
    let Some(world) = World::new("killed-agent") else { return };
    let mut router = world.start();
    let links = "[[link]]\nname = \"up\"\nport = \"wan\"\n";
    let announce = || world.ask(&["agent", "announce", "--link", "up", "--rate", "1 Mbit/s", "--json"]);
    let socket = world.runtime_file("agent");
    let killed = |name: &str| {
        let (mut agent, log) = world.start_agent(name, links);
        let end = Instant::now() + PATIENCE;
        while announce().code != Some(0) {
            assert!(Instant::now() < end, "{}", std::fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        agent.signal(Signal::KILL);
        assert_eq!(agent.end(), None);
        assert!(socket.exists(), "it had no time to remove its socket");
    };
    let until_gone = |what: &str| {
        let end = Instant::now() + PATIENCE;
        while socket.exists() {
            assert!(Instant::now() < end, "{what} leaves it there");
            std::thread::sleep(Duration::from_millis(20));
        }
    };

    killed("first");
    assert!(!world.rows("classes").is_empty(), "the router answers as before");
    let ended = announce();
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{}", ended.err);
    assert!(ended.err.contains("perhop agent run") && !socket.exists(), "{}", ended.err);

    killed("second");
    let (mut other, _) = world.start_agent("other", QUICK);
    until_gone("an agent without links");
    other.signal(Signal::TERM);
    assert_eq!(other.end(), Some(0));

    killed("third");
    router.signal(Signal::TERM);
    assert_eq!(router.end(), Some(0));
    let router = world.start();
    assert!(!socket.exists());
    // One that lives keeps its socket while the router starts again.
    let (mut agent, log) = world.start_agent("fourth", links);
    let end = Instant::now() + PATIENCE;
    while announce().code != Some(0) {
        assert!(Instant::now() < end, "{}", std::fs::read_to_string(&log).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(router);
    let router = world.start();
    assert_eq!(announce().code, Some(0));
    agent.signal(Signal::TERM);
    assert_eq!(agent.end(), Some(0));
    assert!(!socket.exists());
    drop(router);
}
