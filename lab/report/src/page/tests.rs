use super::*;
use crate::comparison::differences;
use crate::synthetic;

/// Names of all elements opened and closed, void ones aside.
fn assert_balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let inside = tag.split('>').next().expect("split gives one");
        let name = inside.split([' ', '/', '\n']).next().unwrap_or("");
        if let Some(closed) = inside.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "closes what is not open: {inside}");
        } else if !inside.ends_with('/') && !matches!(name, "!doctype" | "meta") {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_verdict_stands_first_and_every_expected_value_has_its_source() {
    let mut directory = synthetic::directory(2, 2, 2);
    let page = scenario_page(&directory);
    assert_balanced(&page);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?}"));
    assert!(place("The target is met.") < place("Published beside ours"));
    assert!(place("Published beside ours") < place("<h2>Network</h2>"));
    assert!(page.contains("table 8.4") && page.contains("34.14") && page.contains("not judged"));
    assert!(page.contains("set: link.core.rate") && page.contains("4 Mbit/s"));
    directory.result.expect[0].ok = Some(false);
    let page = scenario_page(&directory);
    assert!(page.contains("1 of 1 target is not met.") && page.contains("MISSED"));
    directory.machine.saturated = Some("CPU 99 % busy".into());
    let page = scenario_page(&directory);
    assert!(page.contains("NO VERDICT") && page.contains("CPU 99 % busy"));
    assert!(!page.contains("is not met"), "no verdict beside that of the machine");
}

#[test]
fn every_kind_of_chart_is_there_and_says_how_to_read_it() {
    let directory = synthetic::directory(3, 3, 2);
    let page = scenario_page(&directory);
    for title in [
        "Groups",
        "Links",
        "Throughput, delay and loss over time",
        "Queues",
        "Distribution of delay",
        "Spread over repetitions",
        "Delay of a packet against that of the packet before",
        "TCP connections",
    ] {
        let at = page.find(&format!("<h2>{title}</h2>")).unwrap_or_else(|| panic!("no {title}"));
        let section = &page[at..at + page[at..].find("</section>").expect("it ends")];
        assert!(section.rfind("<p>").is_some_and(|p| section[p..].len() > 80), "{title} is not explained");
    }
    for words in
        ["PSQM surrogate", "RFC 3550 jitter", "Jain", "E-model", "queue_full: 17", "red_early: 4", "baseline"]
    {
        assert!(page.contains(words), "{words}");
    }
    // Ten groups; two queues and seven traced connections in each of two configurations.
    assert_eq!(page.matches("id=\"t-").count(), 2 * 10);
    assert_eq!((page.matches("id=\"q-").count(), page.matches("id=\"tcp-").count()), (2 * 4, 2 * 14));
}

#[test]
fn ids_are_unique_and_nothing_is_asked_from_outside() {
    let page = scenario_page(&synthetic::directory(3, 3, 3));
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for address in ["href", "src=", "@import", "url(", "<script", "https://"] {
        assert!(!page.contains(address), "{address}");
    }
    assert!(page.replace("http://www.w3.org/2000/svg", "").find("http:").is_none());
    assert!(page.contains("prefers-color-scheme:dark") && !page.contains("NaN"));
}

#[test]
fn a_page_of_two_minutes_five_repetitions_and_ten_queues_stays_small() {
    let directory = synthetic::directory(120, 5, 10);
    let page = scenario_page(&directory);
    assert!(page.len() < MAX_PAGE, "{} bytes", page.len());
    let both = comparison_page(("one", &directory), ("two", &directory));
    assert!(both.len() < MAX_PAGE, "{} bytes", both.len());
}

#[test]
fn a_page_of_many_groups_and_queues_stays_small() {
    let mut directory = synthetic::directory(60, 2, 40);
    for configuration in &mut directory.configurations {
        let series = configuration.series.clone();
        for copy in 0..20 {
            for one in &series {
                let group = format!("{}{copy}", one.group);
                configuration.series.push(crate::details::GroupSeries { group, ..one.clone() });
            }
        }
        let groups = configuration.groups.clone();
        for copy in 0..20 {
            for one in &groups {
                let mut one = one.clone();
                one.result.name = format!("{}{copy}", one.result.name);
                configuration.groups.push(one);
            }
        }
    }
    let page = scenario_page(&directory);
    assert!(page.len() < MAX_PAGE, "{} bytes", page.len());
}

#[test]
fn a_comparison_shows_both_runs_everywhere() {
    let (first, mut second) = (synthetic::directory(2, 2, 1), synthetic::directory(2, 2, 1));
    second.result.groups[0].loss_pct = Some(9.0);
    let page = comparison_page(("before", &first), ("after", &second));
    assert_balanced(&page);
    for name in ["before product", "after product", "before baseline", "after baseline"] {
        assert!(page.contains(name), "{name}");
    }
    let all = differences(&first.result, &second.result);
    assert!(all.iter().any(|d| d.metric == "voip.loss_pct" && d.second == Some(9.0)));
    assert!(page.contains("voip.loss_pct"));
}

#[test]
fn a_result_without_anything_makes_a_page() {
    let page = scenario_page(&ResultDirectory::default());
    assert_balanced(&page);
    assert!(page.contains("No target was judged."));
}
