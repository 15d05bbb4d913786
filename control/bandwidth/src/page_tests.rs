//! The reference page of agents' files against the reader: what the reader knows is there, and nothing else.

use crate::AgentFile;
use std::collections::BTreeSet;

/// Headings of the page, and files with the key `nonsense` there.
const SECTIONS: [(&str, &[&str]); 13] = [
    ("[agent]", &["[agent]\nnonsense = 1"]),
    ("[controller]", &["[controller]\nnonsense = 1"]),
    ("[policy]", &["[policy]\nnonsense = 1"]),
    ("[leases]", &["[leases]\nnonsense = 1"]),
    ("[[lease]]", &["[[lease]]\nnonsense = 1"]),
    ("[broker]", &["[broker]\nnonsense = 1"]),
    (
        "[[class]]",
        &["[[class]]\nlaw = \"threshold\"\nnonsense = 1", "[[class]]\nlaw = \"logarithmic\"\nnonsense = 1"],
    ),
    ("[class.congestion]", &["[[class]]\n[class.congestion]\nnonsense = 1"]),
    ("[bandwidth]", &["[bandwidth]\nnonsense = 1"]),
    ("[[link]]", &["[[link]]\nnonsense = 1"]),
    ("[[link.change]]", &["[[link]]\n[[link.change]]\nnonsense = 1"]),
    ("[[abr]]", &["[[abr]]\nnonsense = 1"]),
    ("[requests]", &["[requests]\nnonsense = 1"]),
];

fn page(name: &str) -> String {
    let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The keys that the reader knows beside `nonsense`, as its message lists them.
fn known(text: &str) -> Vec<String> {
    let (_, diagnostics) = AgentFile::read("page.toml", text);
    let found = diagnostics.sorted();
    let about = found.iter().find(|d| d.key.ends_with("nonsense")).unwrap_or_else(|| panic!("{text}"));
    let list =
        about.hint.as_deref().and_then(|hint| hint.split_once("Known keys: ")).expect("what is known").1;
    list.split(", ").map(|key| key.trim_end_matches('.').to_owned()).collect()
}

/// The keys in the first column of the table below a heading.
fn documented(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, below) = page.split_once(&format!("### `{heading}`\n")).unwrap_or_else(|| panic!("{heading}"));
    let rows = below.split("\n### ").next().expect("a section").lines();
    let first = rows.filter(|line| line.starts_with("| ")).skip(1).filter_map(|row| row.split(" | ").next());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn the_page_has_every_key_of_the_reader_and_no_other() {
    let page = page("docs/agent-file.md");
    for (heading, probes) in SECTIONS {
        let expected: BTreeSet<String> = probes.iter().flat_map(|text| known(text)).collect();
        assert_eq!(documented(&page, heading), expected, "{heading}");
    }
    let sections: BTreeSet<String> = known("nonsense = 1").into_iter().collect();
    let named = SECTIONS.map(|(heading, _)| heading.trim_matches(['[', ']']).to_owned());
    assert_eq!(sections, named.into_iter().filter(|name| !name.contains('.')).collect());
}

#[test]
fn the_example_of_the_page_is_the_file_that_it_names() {
    let page_text = page("docs/agent-file.md");
    let shown =
        page_text.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).expect("a block").0;
    let read = |text: &str| AgentFile::read("voice.toml", text).0.expect("a good file");
    assert_eq!(read(shown), read(&page("examples/agents/voice.toml")));
}
