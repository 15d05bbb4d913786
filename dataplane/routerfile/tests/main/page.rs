//! The reference page of router files against the reader: what the reader knows is there, and nothing else.

use super::submit;
use perhop_routerfile::RouterFile;
use std::collections::BTreeSet;
use std::path::Path;

/// A section of the page, and tables in which the reader is asked what it knows: what goes before its keys on the page,
/// and a file with the key `nonsense` there.
type Section = (&'static str, &'static [(&'static str, &'static str)]);

const SECTIONS: [Section; 15] = [
    ("[router]", &[("", "[router]\nnonsense = 1")]),
    ("[kernel]", &[("", "[kernel]\nnonsense = 1")]),
    ("[api]", &[("", "[api]\nnonsense = 1"), ("clients.", "[[api.clients]]\nnonsense = 1")]),
    ("[tcapi]", &[("", "[tcapi]\nnonsense = 1")]),
    ("[log]", &[("", "[log]\nnonsense = 1")]),
    ("[[port]]", &[("", "[[port]]\nnonsense = 1")]),
    (
        "[[class]]",
        &[
            ("", "[[class]]\nnonsense = 1"),
            ("guarantee_first.", "[[class]]\nguarantee_first = { nonsense = 1 }"),
            ("delay.", "[[class]]\ndelay = { nonsense = 1 }"),
            ("loss.", "[[class]]\nloss = { nonsense = 1 }"),
        ],
    ),
    (
        "Queues",
        &[
            ("", "[[class]]\nqueue = { nonsense = 1 }"),
            ("red.", "[[class]]\nqueue.red = { nonsense = 1 }"),
            ("wred.", "[[class]]\nqueue.wred = { nonsense = 1 }"),
            ("codel.", "[[class]]\nqueue.codel = { nonsense = 1 }"),
            ("pie.", "[[class]]\nqueue.pie = { nonsense = 1 }"),
            ("blue.", "[[class]]\nqueue.blue = { nonsense = 1 }"),
            ("fq_codel.", "[[class]]\nqueue.fq_codel = { nonsense = 1 }"),
            ("wfq.", "[[class]]\nqueue.wfq = { nonsense = 1 }"),
        ],
    ),
    ("[[filter]]", &[("", "[[filter]]\nnonsense = 1"), ("match.", "[[filter]]\nmatch = { nonsense = 1 }")]),
    (
        "[[profile]]",
        &[
            ("", "[[profile]]\nnonsense = 1"),
            ("meter.", "[[profile]]\nmeter = { type = \"none\", nonsense = 1 }"),
            ("meter.", "[[profile]]\nmeter = { type = \"token_bucket\", nonsense = 1 }"),
            ("meter.", "[[profile]]\nmeter = { type = \"srtcm\", nonsense = 1 }"),
            ("meter.", "[[profile]]\nmeter = { type = \"trtcm\", nonsense = 1 }"),
            ("meter.", "[[profile]]\nmeter = { type = \"tswtcm\", nonsense = 1 }"),
            ("green.", "[[profile]]\ngreen = { do = \"mark\", nonsense = 1 }"),
            ("green.", "[[profile]]\ngreen = { do = \"class\", nonsense = 1 }"),
            ("yellow.", "[[profile]]\nyellow = { do = \"mark\", nonsense = 1 }"),
            ("yellow.", "[[profile]]\nyellow = { do = \"class\", nonsense = 1 }"),
            ("red.", "[[profile]]\nred = { do = \"mark\", nonsense = 1 }"),
            ("red.", "[[profile]]\nred = { do = \"class\", nonsense = 1 }"),
        ],
    ),
    ("[[sla]]", &[("", "[[sla]]\nnonsense = 1")]),
    ("[[route]]", &[("", "[[route]]\nnonsense = 1")]),
    ("[detector]", &[("", "[detector]\nnonsense = 1")]),
    ("[detector.admission]", &[("", "[detector.admission]\nnonsense = 1")]),
    (
        "[[abr]]",
        &[
            ("", "[[abr]]\nnonsense = 1"),
            ("match.", "[[abr]]\nmatch = { nonsense = 1 }"),
            ("latency.", "[[abr]]\nlatency = { type = \"average\", nonsense = 1 }"),
            ("latency.", "[[abr]]\nlatency = { type = \"timed\", nonsense = 1 }"),
            ("latency.", "[[abr]]\nlatency = { type = \"minimum\", nonsense = 1 }"),
        ],
    ),
];

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/router-file.md");
    std::fs::read_to_string(path).expect("the page")
}

/// The keys that the reader knows beside `nonsense`, as its message lists them.
fn known(text: &str) -> Vec<String> {
    let (_, diagnostics) = RouterFile::read("page.toml", text);
    let found = diagnostics.sorted();
    let about = found.iter().find(|d| d.key.ends_with("nonsense")).unwrap_or_else(|| panic!("{text}"));
    let hint = about.hint.as_deref().expect("what is known");
    let list = hint.split_once("Known keys: ").expect("a list").1;
    list.split(", ").map(|key| key.trim_end_matches('.').to_owned()).collect()
}

/// The keys in the first column of the table below a heading.
fn documented(page: &str, heading: &str) -> BTreeSet<String> {
    let heading =
        if heading.starts_with('[') { format!("### `{heading}`\n") } else { format!("### {heading}\n") };
    let (_, below) = page.split_once(&heading).unwrap_or_else(|| panic!("{heading}"));
    let below = below.split("\n### ").next().expect("a section");
    let rows = below.lines().filter(|line| line.starts_with("| ")).skip(1);
    let first = rows.filter_map(|row| row.split(" | ").next());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn the_page_has_every_key_of_the_reader_and_no_other() {
    let page = page();
    for (heading, probes) in SECTIONS {
        let expected: BTreeSet<String> = probes
            .iter()
            .flat_map(|(before, text)| known(text).into_iter().map(move |k| format!("{before}{k}")))
            .collect();
        assert_eq!(documented(&page, heading), expected, "{heading}");
    }
    let sections: BTreeSet<String> = known("nonsense = 1").into_iter().collect();
    for section in &sections {
        let headings = [format!("### `[{section}]`\n"), format!("### `[[{section}]]`\n")];
        assert!(headings.iter().any(|h| page.contains(h.as_str())), "{section}");
    }
    assert_eq!(sections.len(), SECTIONS.len() - 2, "queues and admission are parts of others");
}

#[test]
fn the_example_of_the_page_is_taken_without_a_warning_and_has_every_section() {
    let page = page();
    let blocks = page.split("```toml\n").skip(1).map(|b| b.split("```").next().expect("a block"));
    let example = blocks.max_by_key(|block| block.len()).expect("an example");
    let (file, diagnostics) = RouterFile::read("page.toml", example);
    assert!(diagnostics.is_empty(), "{diagnostics}");
    let file = file.expect("no error");
    let errors = submit(file.objects.clone());
    assert!(errors.is_empty(), "{}", file.diagnose(&errors));
    for (heading, _) in SECTIONS.iter().filter(|(heading, _)| heading.starts_with('[')) {
        assert!(example.lines().any(|line| line == *heading), "{heading}");
    }
}

/// Errors and warnings about a leaf with these keys on a port with a scheduler, below a class with those if there is one.
fn said_of(scheduler: &str, above: Option<&str>, leaf: &str) -> (usize, usize) {
    let class = |name: &str, keys: &str| format!("[[class]]\nname = \"{name}\"\nport = \"wan\"\n{keys}\n");
    let port = format!(
        "[[port]]\nname = \"lan\"\n[[port]]\nname = \"wan\"\nrate = \"9 Mbit/s\"\nscheduler = \"{scheduler}\"\n"
    );
    let classes = match above {
        None => class("leaf", &format!("default = true\n{leaf}")),
        Some(keys) => {
            class("above", keys) + &class("leaf", &format!("default = true\nparent = \"above\"\n{leaf}"))
        }
    };
    let (_, said) = RouterFile::read("f.toml", &(port + &classes));
    (said.errors(), said.warnings())
}

/// What the checks make of a key with a scheduler, in the words of the page.
fn verdict(scheduler: &str, key: &str) -> &'static str {
    const GUARANTEE: &str = "guarantee = \"2 Mbit/s\"";
    let value = match key {
        "parent" => "",
        "guarantee" => "\"2 Mbit/s\"",
        "guarantee_first" => "{ rate = \"3 Mbit/s\", time = \"1 ms\" }",
        "ceiling" => "\"5 Mbit/s\"",
        "burst" | "ceiling_burst" => "\"10 kB\"",
        "delay" | "loss" => "{ proportion = 2 }",
        _ => "2",
    };
    let needed = said_of(scheduler, None, "").0 > 0;
    // What a class has anyway where there must be one.
    let base = if needed { GUARANTEE } else { "" };
    if key == "parent" {
        return if said_of(scheduler, Some(base), base).0 > 0 { "refused" } else { "yes" };
    }
    let given = format!("{key} = {value}");
    let with = if key == "guarantee" { given } else { format!("{base}\n{given}") };
    let has_parents = verdict(scheduler, "parent") == "yes";
    match (said_of(scheduler, None, &with), has_parents.then(|| said_of(scheduler, Some(&with), base))) {
        ((0, 0), _) if key == "guarantee" && needed => "needed",
        ((0, 0), None | Some((0, 0))) => "yes",
        ((0, 0), Some(_)) => "leaves",
        ((0, _), _) => "–",
        _ if said_of(scheduler, None, &format!("{GUARANTEE}\n{key} = \"2 Mbit/s\"")) == (0, 0) => {
            "the guarantee"
        }
        _ => "refused",
    }
}

#[test]
fn the_page_says_which_keys_of_classes_each_scheduler_goes_by() {
    let page = page();
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|c| c.trim().replace('`', "")).collect::<Vec<_>>();
    let mut rows = page.lines().skip_while(|line| !line.starts_with("| of a class |"));
    let head = cells(rows.next().expect("a table"));
    assert_eq!(head[1..], perhop_model::Scheduler::ALL.map(|s| s.name().to_owned()));
    let mut keys = BTreeSet::new();
    for row in rows.skip(1).take_while(|line| line.starts_with('|')).map(cells) {
        for (scheduler, said) in head.iter().zip(&row).skip(1) {
            assert_eq!(verdict(scheduler, &row[0]), said, "{} with {scheduler}", row[0]);
        }
        keys.insert(row[0].clone());
    }
    let sharing = ["guarantee", "guarantee_first", "burst", "ceiling", "ceiling_burst"];
    let all = sharing.iter().chain(&["parent", "weight", "tier", "delay", "loss"]);
    assert_eq!(keys, all.map(|key| (*key).to_owned()).collect());
}
