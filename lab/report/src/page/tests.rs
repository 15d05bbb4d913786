use super::*;
use crate::comparison::differences;
use crate::synthetic;

/// Largest page, bytes.
const MAX_PAGE: usize = 3_000_000;

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
    assert!(page.contains("<li>product: CPU 4 % busy</li>"), "how far to trust it");
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
        "Agents",
        "Allocations",
        "Throughput, delay and loss over time",
        "Queues",
        "Distribution of delay",
        "Spread over repetitions",
        "Delay of a packet against that of the packet before",
        "TCP connections",
        "TCP segments",
    ] {
        let at = page.find(&format!("<h2>{title}</h2>")).unwrap_or_else(|| panic!("no {title}"));
        let section = &page[at..at + page[at..].find("</section>").expect("it ends")];
        assert!(section.rfind("<p>").is_some_and(|p| section[p..].len() > 80), "{title} is not explained");
    }
    for words in [
        "PSQM surrogate",
        "RFC 3550 jitter",
        "Jain",
        "E-model",
        "queue_full: 17",
        "red_early: 4",
        "baseline",
        "117.2: 0.25 %",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Both configurations in one drawing, and what was counted beside it.
    assert_eq!(page.matches("id=\"a-").count(), 2);
    assert_eq!(
        page.matches("<td>31</td><td>29</td><td>67</td><td>60</td><td>4</td><td>2</td><td>1</td>").count(),
        2
    );
    assert!(page.contains("Allocation of realtime over time. product: 64 to "));
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
    let both = comparison_page(&[("one", &directory), ("two", &directory)]);
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
    let page = comparison_page(&[("before", &first), ("after", &second)]);
    assert_balanced(&page);
    for name in ["before product", "after product", "before baseline", "after baseline"] {
        assert!(page.contains(name), "{name}");
    }
    let all = differences(&[&first.result, &second.result]);
    assert!(all.iter().any(|d| d.metric == "voip.loss_pct" && d.values[1] == Some(9.0)));
    assert!(page.contains("voip.loss_pct"));
}

#[test]
fn a_result_without_anything_makes_a_page() {
    let page = scenario_page(&ResultDirectory::default());
    assert_balanced(&page);
    assert!(!page.contains("Agents") && !page.contains("Allocations"));
    assert!(page.contains("No target was judged."));
}

#[test]
fn drawings_say_what_they_show_and_count_drops_as_the_table_of_links_does() {
    let mut directory = synthetic::directory(1, 2, 1);
    let interval = directory.configurations[0].queues[0].interval.as_secs_f64();
    for configuration in &mut directory.configurations {
        configuration.queues[0].queue = "queue".into();
        for (i, drops) in [(0, 40), (1, 2)] {
            configuration.queues[0].intervals[i].drops = drops;
        }
        for late in &mut configuration.queues[0].intervals[2..] {
            late.drops = 0;
        }
    }
    directory.about.warm_up_s = interval;
    let page = scenario_page(&directory);
    assert!(page.contains("The queue in front of") && !page.contains("Queue queue"));
    assert!(page.contains("2 packets dropped after the warm-up") && !page.contains("42 packets dropped"));
    let described = |id: &str| {
        let at = page.find(&format!("<desc id=\"{id}-")).unwrap_or_else(|| panic!("no {id}"));
        page[at..].split('>').nth(1).expect("a text").split('<').next().expect("it ends").to_owned()
    };
    assert!(described("t-0").starts_with("Throughput, delay and loss over time of "), "{}", described("t-0"));
    assert!(described("cdf-0").starts_with("Distribution of delay of "), "{}", described("cdf-0"));
    assert!(described("pairs-0").starts_with("Delay of successive packets of "), "{}", described("pairs-0"));
}

/// Seven configurations: the product and six variants.
fn of_seven() -> ResultDirectory {
    let mut directory = synthetic::directory(2, 2, 2);
    let variant = directory.configurations.last().expect("a variant").clone();
    directory.configurations.truncate(1);
    for i in 1..7 {
        let name = format!("variant{i}");
        directory.configurations.push(crate::details::ConfigurationDetails { name, ..variant.clone() });
    }
    directory
}

/// What a page has from one text up to another.
fn part<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let at = page.find(from).unwrap_or_else(|| panic!("no {from:?}"));
    &page[at..at + page[at..].find(to).unwrap_or_else(|| panic!("no {to:?}"))]
}

#[test]
fn every_configuration_is_drawn_and_told_apart() {
    let directory = of_seven();
    let page = scenario_page(&directory);
    assert_balanced(&page);
    let drawing = part(&page, "<svg", "</svg>");
    for shown in &directory.configurations {
        assert!(drawing.contains(&format!(">{}</text>", directory.shown_name(shown))), "{}", shown.name);
    }
    // A line of throughput, delay and loss each, and one in the legend.
    let lines: Vec<&str> =
        drawing.split("class=\"line ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let mut kinds = lines.clone();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!((lines.len(), kinds.len()), (4 * 7, 7), "{lines:?}");
    let groups = part(&page, "<h2>Groups</h2>", "</table>");
    assert_eq!(groups.matches("<th scope=\"row\">").count(), 10 * 7);
    let spread = part(&page, "<h2>Spread over repetitions</h2>", "</section>");
    assert!(spread.contains("variant6"));
}

#[test]
fn forty_two_series_look_different_and_the_style_sheet_knows_all_classes() {
    use crate::plot::{COLORS, DOTS, STROKES};
    let mut looks: Vec<_> = (0..COLORS * STROKES).map(|n| (n % COLORS, n % STROKES)).collect();
    looks.sort_unstable();
    looks.dedup();
    assert_eq!(looks.len(), 42);
    let known = |class: String| style::CSS.contains(&class);
    assert!((0..COLORS).all(|n| known(format!(".c{n}{{")) && known(format!(".f{n}{{"))));
    // The first of each is what all have.
    assert!((1..STROKES).all(|n| known(format!(".d{n}{{stroke-dasharray"))));
    assert!((1..DOTS).all(|n| known(format!(".k{n}{{"))));
}

#[test]
fn a_verdict_in_one_line_and_a_picture_stand_before_any_table() {
    let directory = synthetic::directory(2, 2, 2);
    let runs = [("one", &directory), ("two", &directory), ("three", &directory)];
    for page in [scenario_page(&directory), comparison_page(&runs)] {
        let before = part(&page, "<body>", "<svg");
        assert_eq!((before.matches("<p").count(), before.matches("<li").count()), (1, 0), "{before}");
        assert!(before.contains("class=\"headline\"") && before.contains("<h2>voip</h2>"), "{before}");
        assert!(page.find("<svg") < page.find("<table") && page.contains("<table"));
        assert_eq!(page.matches("id=\"t-0-d\"").count(), 1, "what leads is drawn once");
    }
}

#[test]
fn what_matters_to_calls_is_in_the_first_columns_and_tables_scroll_inside_themselves() {
    let page = scenario_page(&synthetic::directory(2, 2, 2));
    let table = part(&page, "<h2>Groups</h2>", "</thead>");
    let columns: Vec<&str> =
        table.split("<th ").skip(1).filter_map(|th| th.split('>').nth(1)?.split('<').next()).collect();
    assert_eq!(columns[..5], ["Group", "Configuration", "MOS mean", "Loss, %", "Delay mean, ms"]);
    let row = part(&page, "<th scope=\"row\">voip</th>", "</tr>");
    let cells: Vec<&str> =
        row.split("<td").skip(1).filter_map(|td| td.split('>').nth(1)?.split('<').next()).collect();
    assert_eq!((cells.len(), &cells[1..4]), (columns.len() - 1, &["4.25", "2.25", "34.00"][..]));
    assert_eq!(page.matches("<table").count(), page.matches("<div class=\"scroll\"><table").count());
    for rule in [
        ".scroll{overflow-x:auto}",
        "border-collapse:separate",
        ".scenario th:first-child{position:sticky;left:0;background:var(--bg)}",
    ] {
        assert!(page.contains(rule), "{rule}");
    }
    // On the narrowest telephone three columns of figures of up to 50 pixels stand beside the names.
    let names = style::SCENARIO_CSS.matches("min-width:88px;max-width:88px").count();
    assert_eq!(names, 1, "both columns of names have this width");
}

#[test]
fn three_runs_stand_beside_each_other_in_every_row() {
    let runs = [1, 2, 3].map(|_| synthetic::directory(2, 2, 1));
    let [first, mut second, third] = runs;
    second.result.groups[0].loss_pct = Some(9.0);
    second.result.expect[0].ok = Some(false);
    let page = comparison_page(&[("a", &first), ("b", &second), ("c", &third)]);
    assert_balanced(&page);
    assert!(page.contains("<h1>a against b against c</h1>") && page.contains("Not every target is met: b."));
    let table = part(&page, "<h2>Figure by figure</h2>", "</table>");
    let all = differences(&[&first.result, &second.result, &third.result]);
    assert_eq!(table.matches("<th scope=\"row\">").count(), all.len());
    assert!(table.contains("<th scope=\"col\">b, %</th><th scope=\"col\">c, %</th>"), "{table}");
    let row = part(table, "<th scope=\"row\">voip.loss_pct</th>", "</tr>");
    assert!(row.contains("<td>9</td>") && row.matches("<td>").count() == 5, "{row}");
    for name in ["a product", "b product", "c product", "a baseline", "b baseline", "c baseline"] {
        assert!(part(&page, "<svg", "</svg>").contains(&format!(">{name}</text>")), "{name}");
    }
}

#[test]
fn what_a_page_has_no_room_for_is_said() {
    let mut directory = of_seven();
    let variant = directory.configurations[6].clone();
    for i in 7..60 {
        let name = format!("variant{i}");
        directory.configurations.push(crate::details::ConfigurationDetails { name, ..variant.clone() });
    }
    let page = scenario_page(&directory);
    assert!(page.len() < MAX_PAGE, "{} bytes", page.len());
    // One queue of the two of each, and two of ten groups besides the first.
    assert_eq!((page.matches("id=\"q-").count(), page.matches("id=\"t-").count()), (2 * 60, 2 * 3));
    assert!(part(&page, "<h2>Queues</h2>", "</section>").contains(" 60 more are in queues.csv alone."));
    assert!(page.contains(" 7 more are in series.csv alone."));
}
