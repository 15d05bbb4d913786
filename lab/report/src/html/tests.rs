use super::*;
use crate::result::{DelayMs, DemoResult, GroupResult, JitterMs, LinkResult, Mos, Throughput};
use crate::verdict::DemoTargets;
use perhop_quality::Codec;

/// A run of `seconds` whose calls see `base` ms and, with `congested`, a full queue of 400 ms and 20 % loss from 3 s on.
fn run(name: &str, seconds: u64, congested: bool) -> RunData {
    let mut series = RunSeries::new();
    let mut delays = Vec::new();
    let bin = Duration::from_millis(100);
    let mut flows: Vec<NamedSeries> = ["calls", "bulk", "flood"]
        .map(|name| NamedSeries { name: name.into(), series: Series::new(bin) })
        .into();
    let mut waiting = Series::new(Duration::from_millis(10));
    for ms in (0..seconds * 1000).step_by(10) {
        let at = Duration::from_millis(ms);
        let full = congested && ms > 3000;
        let wave = (ms * 7 % 130) as f64 / 10.0;
        let delay = 20.0 + if full { 400.0 + wave * 3.0 } else { wave / 5.0 };
        let lost = full && ms % 50 == 0;
        series.call_loss.record(at, f64::from(u8::from(lost)));
        if !lost {
            series.call_delay_ms.record(at, delay);
            delays.push((delay * 1e6) as u64);
        }
        for (flow, mbit) in
            flows.iter_mut().zip([1.0, if ms > 3000 { 3.0 } else { 8.5 }, if ms > 3000 { 5.7 } else { 0.0 }])
        {
            flow.series.record(at, mbit * 1e4);
        }
        waiting.record(at, if ms > 3000 { 500_000.0 - wave * 3000.0 } else { wave * 1000.0 });
    }
    series.throughput_bits = flows;
    series.queue_bytes = vec![NamedSeries { name: "best effort".into(), series: waiting }];
    series.delays = Distribution::from_nanos(delays);
    let mos = if congested { 1.4 } else { 4.4 };
    let calls = |name: &str| GroupResult {
        loss_pct: Some(if congested { 17.0 } else { 0.0 }),
        delay_ms: DelayMs::of(&series.delays),
        jitter_ms: Some(JitterMs { mean: 0.8, max: 4.0 }),
        mos: Some(Mos { mean: mos, min: mos - 0.2 }),
        ..GroupResult::named(name)
    };
    let bulk = GroupResult {
        throughput_kbps: Some(Throughput { mean: 4100.0, stdev: None }),
        ..GroupResult::named("bulk")
    };
    let result = ScenarioResult {
        groups: vec![calls("calls"), calls("calls_after_detection"), bulk],
        links: vec![LinkResult {
            name: "uplink".into(),
            utilisation_pct: Some(98.7),
            drops: [("queue_full".to_owned(), 1234)].into(),
            queue_ms: None,
        }],
        warnings: vec!["<one> repetition".into()],
        ..ScenarioResult::default()
    };
    let mark = TimeMark { at: Duration::from_secs(3), label: "flood starts".into() };
    RunData { name: name.into(), result, series, marks: vec![mark] }
}

fn report(seconds: u64) -> DemoReport {
    let runs = vec![run("FIFO", seconds, true), run("Perhop", seconds, false)];
    let demo = DemoResult { fifo: runs[0].result.clone(), perhop: runs[1].result.clone() };
    DemoReport {
        title: "Calls on a congested link".into(),
        options: vec![("codec".into(), "G.711 <script>alert('x')</script>".into())],
        machine: vec!["CPU steal 0.1 %; timers fire 60 µs late at p99.".into()],
        verdict: DemoTargets::new(20.0, Codec::G711U).judge(&demo),
        runs,
    }
}

/// Names of all elements opened and closed, void ones aside.
fn assert_balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let inside = tag.split('>').next().expect("split gives one");
        let name = inside.split([' ', '/']).next().unwrap_or("");
        if let Some(closed) = inside.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "in {inside}");
        } else if !inside.ends_with('/') && !["meta", "!doctype"].contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn the_page_is_whole_and_refers_to_nothing_outside() {
    let page = demo_page(&report(25));
    assert_balanced(&page);
    let outside = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for word in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "//"] {
        assert!(!outside.contains(word), "{word} in the page");
    }
    assert!(
        !page.contains("NaN") && !page.contains("inf\"") && !page.contains("inf "),
        "no number left over"
    );
    assert_eq!(page.matches("<svg").count(), 10);
    assert_eq!(page.matches("<title id=").count(), 10);
    assert!(page.contains("prefers-color-scheme:dark"));
    let verdict = page.find("class=\"verdict").expect("a verdict");
    let table = page.find("<table").expect("a table");
    assert!(verdict < table && table < page.find("<svg").expect("charts"));
}

#[test]
fn what_users_write_is_escaped() {
    let mut report = report(5);
    report.title = "</title><b>&".into();
    report.runs[0].name = "\"><i>".into();
    report.runs[0].marks[0].label = "<u>".into();
    report.machine.push("<s>".into());
    let page = demo_page(&report);
    assert_balanced(&page);
    for raw in ["<b>", "<i>", "<u>", "<s>", "<one>", "<script"] {
        assert!(!page.contains(raw), "{raw}");
    }
    assert!(page.contains("&lt;one&gt; repetition"));
}

#[test]
fn ids_are_unique() {
    let page = demo_page(&report(5));
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

/// An hour in bins of 10 and 100 ms is no larger than a minute.
#[test]
fn long_runs_stay_small() {
    let page = demo_page(&report(1800));
    assert!(page.len() < 200_000, "{} bytes", page.len());
}

#[test]
fn a_report_without_data_is_a_page_without_charts() {
    let empty = RunData {
        name: "FIFO".into(),
        result: ScenarioResult::default(),
        series: RunSeries::new(),
        marks: Vec::new(),
    };
    let page = demo_page(&DemoReport {
        title: "nothing".into(),
        options: Vec::new(),
        machine: Vec::new(),
        verdict: Verdict::saturated("the machine was busy.", Vec::new()),
        runs: vec![empty],
    });
    assert_balanced(&page);
    assert!(page.contains("NOT KNOWN") && page.contains("No verdict: the machine was busy."));
    assert!(!page.contains("<svg"));
}

#[test]
fn the_page_is_the_same_every_time() {
    assert_eq!(demo_page(&report(25)), demo_page(&report(25)));
}

/// Two calls of which one loses its third packet: the page's series come from the records alone.
#[test]
fn series_follow_from_call_records() {
    use perhop_quality::{CallRecord, Received};
    use perhop_units::Instant;
    let epoch = Instant(5_000_000_000);
    let mut records = vec![CallRecord::new(Codec::G711U), CallRecord::new(Codec::G711U)];
    for (k, record) in records.iter_mut().enumerate() {
        for index in 0..10u32 {
            let sent = epoch + Duration::from_millis(u64::from(index) * 20);
            record.sent(index, sent);
            if (k, index) != (1, 2) {
                let arrived = sent + Duration::from_millis(30);
                record.received(Received { index, rtp_timestamp: index * 160, sent, arrived });
            }
        }
    }
    let series = RunSeries::of_calls(epoch, &records);
    let losses: Vec<(f64, u64)> = series.call_loss.iter().map(|(_, b)| (b.sum, b.count)).collect();
    assert_eq!(losses, [(1.0, 10), (0.0, 10)]);
    assert_eq!(series.delays.count(), 19);
    assert_eq!((series.call_delay_ms.max(), series.delays.max_ms()), (Some(30.0), Some(30.0)));
}
