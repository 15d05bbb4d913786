use crate::{companion, good};
use perhop_scenario::{IndexEntry, NodeKind, Scenario, Settings, Target, TrafficKind, drawing};
use perhop_units::{Duration, Rate};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every scenario of the repository is without errors and warnings.
#[test]
fn scenarios_of_the_repository_are_read() {
    let mut folders = vec![root().join("scenarios")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|e| e != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("readable");
            let beside = |name: &str| {
                let file = path.parent().expect("a folder").join(name);
                std::fs::read(file).map_err(|e| e.to_string())
            };
            if !text.contains("\nduration") {
                // A companion router file.
                continue;
            }
            let name = path.display().to_string();
            let (loaded, diagnostics) = Scenario::read(&name, &text, &Settings::new(), &beside);
            assert!(diagnostics.is_empty(), "{diagnostics}");
            assert!(loaded.is_some());
            count += 1;
        }
    }
    assert!(count >= 1);
}

/// The example of the reference page, whole.
#[test]
fn the_page_about_the_file_shows_one_that_is_read() {
    let page = std::fs::read_to_string(root().join("docs/scenario-file.md")).expect("the page");
    let mut examples = 0;
    for block in page.split("```toml\n").skip(1) {
        let text = block.split("```").next().expect("a block");
        if !text.contains("duration = ") {
            continue;
        }
        let (loaded, diagnostics) = Scenario::read("docs", text, &Settings::new(), &companion);
        assert!(diagnostics.is_empty(), "{diagnostics}");
        let loaded = loaded.expect("no errors");
        assert!(!drawing::draw(&loaded.product).is_empty());
        examples += 1;
    }
    assert!(examples >= 1);
}

#[test]
fn the_three_routers_mean_what_they_say() {
    let text = std::fs::read_to_string(root().join("scenarios/examples/three-routers.toml")).expect("there");
    let loaded = good(&text, &[]);
    let s = &loaded.product;
    assert_eq!((s.warm_up, s.duration), (Duration::from_secs(5), Duration::from_secs(35)));
    assert_eq!(s.nodes.iter().filter(|n| matches!(n.kind, NodeKind::Router(_))).count(), 2);
    let addresses: Vec<String> = s.nodes.iter().map(|n| n.address.to_string()).collect();
    assert_eq!(addresses[..2], ["10.0.0.1", "10.0.0.2"]);
    let east = &s.links[s.link("east").expect("a link").0];
    for way in &east.ways {
        assert_eq!(way.rate, Some(Rate::from_mbit(6)));
        assert_eq!(
            way.changes.iter().map(|c| c.rate).collect::<Vec<_>>(),
            [Some(Rate::from_mbit(3)), Some(Rate::from_mbit(6))]
        );
    }
    let voip = &s.traffic[0];
    assert!(voip.both && voip.dscp.get() == 46 && voip.reply_dscp.get() == 46);
    assert_eq!((voip.stop, s.traffic[1].stop), (Duration::from_secs(39), Duration::from_secs(40)));
    assert!(matches!(voip.kind, TrafficKind::Voice { calls: 10, .. }));
    assert!(matches!(&s.traffic[1].kind, TrafficKind::Bulk { count: 3, size: None, .. }));
    assert_eq!(s.expect[0].target, Some(Target::Equal(0.0)));
    assert_eq!(s.probes.connections, [1]);
    assert_eq!(s.variants, ["plain"]);
    let (name, plain) = &loaded.variants[0];
    assert_eq!(name, "plain");
    assert!(plain.nodes.iter().all(|n| !matches!(n.kind, NodeKind::Router(_))));
    assert_eq!(plain.links.len(), s.links.len());
    let entry = IndexEntry::from(&loaded);
    assert_eq!(
        (entry.nodes, entry.targets, entry.variants.as_slice()),
        (7, 3, ["plain".to_owned()].as_slice())
    );
}
