use super::*;
use crate::{Scenario, Settings};

fn read(text: &str) -> Scenario {
    let (loaded, diagnostics) = Scenario::read("t.toml", text, &Settings::new(), &|_| Err("none".into()));
    loaded.unwrap_or_else(|| panic!("{diagnostics}")).product
}

fn network(nodes: &[(&str, &str)], links: &[&str]) -> Scenario {
    let mut text = "id = \"t\"\ntitle = \"t\"\nduration = \"1 s\"\n".to_owned();
    for (name, kind) in nodes {
        text.push_str(&format!("[node.{name}]\nkind = \"{kind}\"\n"));
    }
    for (i, link) in links.iter().enumerate() {
        text.push_str(&format!("[link.l{i}]\n{link}\n"));
    }
    read(&text)
}

#[test]
fn a_dumbbell_is_drawn_from_left_to_right() {
    let nodes = [
        ("a1", "host"),
        ("a2", "host"),
        ("a3", "host"),
        ("r1", "router"),
        ("r2", "forwarder"),
        ("b1", "host"),
        ("b2", "host"),
    ];
    let scenario = network(
        &nodes,
        &[
            "ends = [\"a1\", \"r1\"]",
            "ends = [\"a2\", \"r1\"]\nrate = \"100 Mbit/s\"",
            "ends = [\"a3\", \"r1\"]",
            "ends = [\"r1\", \"r2\"]\nrate = \"4 Mbit/s\"\ndelay = \"30 ms\"",
            "ends = [\"r2\", \"b1\"]",
            "ends = [\"r2\", \"b2\"]\ndelay = \"1 ms\"",
        ],
    );
    let expected = "\
(a1)─── l0 ────────────┐
                       │                                      ┌─ l4 ────────(b1)
(a2)─── l1 100 Mbit/s ─┼─[[r1]]─── l3 4 Mbit/s, 30 ms ───[r2]─┤
                       │                                      └─ l5 1 ms ───(b2)
(a3)─── l2 ────────────┘
";
    assert_eq!(draw(&scenario), expected, "\n{}", draw(&scenario));
}

#[test]
fn every_node_and_link_of_a_ring_is_named() {
    let nodes = [("a", "host"), ("r1", "router"), ("r2", "router"), ("r3", "router"), ("b", "host")];
    let scenario = network(
        &nodes,
        &[
            "ends = [\"a\", \"r1\"]",
            "ends = [\"r1\", \"r2\"]",
            "ends = [\"r2\", \"r3\"]",
            "ends = [\"r1\", \"r3\"]",
            "ends = [\"r3\", \"b\"]",
        ],
    );
    let picture = draw(&scenario);
    for name in ["(a)", "[[r1]]", "[[r2]]", "[[r3]]", "(b)", " l0 ", " l1 ", " l2 ", " l3 ", " l4 "] {
        assert!(picture.contains(name), "{name} in\n{picture}");
    }
    assert_eq!(picture, draw(&scenario));
}

#[test]
fn no_two_nodes_share_a_place() {
    let nodes: Vec<(String, &str)> = (0..12).map(|i| (format!("n{i}"), "forwarder")).collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|(n, k)| (n.as_str(), *k)).collect();
    for step in 1..5 {
        let links: Vec<String> =
            (0..12).map(|i| format!("ends = [\"n{i}\", \"n{}\"]", (i + step) % 12)).collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        let layout = layout(&network(&nodes, &links));
        let mut places = layout.places.clone();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 12, "step {step}: {layout:?}");
    }
}

#[test]
fn a_wide_picture_has_its_values_below() {
    let nodes = [("phone", "host"), ("edge", "router"), ("isp", "forwarder"), ("home", "host")];
    let scenario = network(
        &nodes,
        &[
            "ends = [\"phone\", \"edge\"]\nrate = \"100 Mbit/s\"",
            "ends = [\"edge\", \"isp\"]\nrate = \"4 Mbit/s\"\ndelay = \"20 ms\"\njitter = \"1 ms\"\nloss = \"1 %\"\n\
         reverse = { rate = \"2 Mbit/s\" }\nchange = [{ at = \"0.5 s\", up = false }]",
            "ends = [\"isp\", \"home\"]\nrate = \"1 Gbit/s\"\ndelay = \"5 ms\"",
        ],
    );
    let expected = "\
(phone)─── l0 ───[[edge]]─── l1 ───[isp]─── l2 ───(home)

l0  100 Mbit/s
l1  4 Mbit/s, 20 ms, ± 1 ms, lossy / 2 Mbit/s *
l2  1 Gbit/s, 5 ms
* changes while the scenario runs
";
    assert_eq!(draw(&scenario), expected, "\n{}", draw(&scenario));
}
