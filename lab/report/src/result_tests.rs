use super::*;
use serde_json::Value;

/// The contract, word for word.
const CONTRACT: &str = r#"{"scenario":"H-8.1.2","mode":"sim","seed":1,"repetitions":5,"sim_s":120.0,"wall_s":0.9,"warnings":[],
 "groups":[{"name":"voip","sent":0,"received":0,"loss_pct":0.0,
            "delay_ms":{"min":0,"mean":0,"p50":0,"p99":0,"p999":0,"max":0},"jitter_ms":{"mean":0,"max":0},
            "throughput_kbps":{"mean":0,"stdev":0},"connections":{"count":0,"jain":0},"mos":{"mean":0,"min":0},
            "goodput_kbps":{"mean":0,"stdev":0,"min":0,"max":0},"utilisation_pct":{"mean":0,"min":0,"max":0,"latency_r":0},
            "goodput_5s_kbps":{"mean":0,"stdev":0,"stdev_max":0},
            "esdl_ms":{"mean":0,"stdev":0,"max":0,"over_pct":{"117":0}},"sdl_ms":{"mean":0,"stdev":0,"max":0},
            "retransmits":{"count":0,"share_pct":0}}],
 "links":[{"name":"core","utilisation_pct":0,"drops":{"reason":0},"queue_ms":{"p50":0,"p99":0,"max":0}}],
 "variants":{"baseline":{"groups":[],"links":[]}},
 "expect":[{"metric":"voip.delay_ms.mean","ours":0,"published":34.14,"target":"<= 34.14","ok":true}]}"#;

fn sample() -> ScenarioResult {
    let delay = SegmentDelay { stdev: Some(0.0), ..SegmentDelay::default() };
    ScenarioResult {
        scenario: "H-8.1.2".into(),
        mode: "sim".into(),
        seed: 1,
        repetitions: 5,
        sim_s: 120.0,
        wall_s: Some(0.9),
        groups: vec![GroupResult {
            sent: Some(0),
            received: Some(0),
            loss_pct: Some(0.0),
            delay_ms: Some(DelayMs::default()),
            jitter_ms: Some(JitterMs::default()),
            throughput_kbps: Some(Throughput { mean: 0.0, stdev: Some(0.0) }),
            connections: Some(Connections { count: 0, jain: Some(0.0) }),
            mos: Some(Mos::default()),
            goodput_kbps: Some(Goodput { stdev: Some(0.0), ..Goodput::default() }),
            utilisation_pct: Some(ConnectionUse { latency_r: Some(0.0), ..ConnectionUse::default() }),
            goodput_5s_kbps: Some(SlidingGoodput::default()),
            esdl_ms: Some(SegmentDelay { over_pct: [("117".to_owned(), 0.0)].into(), ..delay.clone() }),
            sdl_ms: Some(delay),
            retransmits: Some(Retransmits { count: 0, share_pct: Some(0.0) }),
            ..GroupResult::named("voip")
        }],
        links: vec![LinkResult {
            name: "core".into(),
            utilisation_pct: Some(0.0),
            drops: BTreeMap::from([("reason".into(), 0)]),
            queue_ms: Some(QueueMs::default()),
        }],
        variants: [("baseline".to_owned(), Variant::default())].into(),
        expect: vec![Expectation {
            metric: "voip.delay_ms.mean".into(),
            ours: Some(0.0),
            half_width_95: None,
            published: Some(34.14),
            target: Some("<= 34.14".into()),
            ok: Some(true),
        }],
        ..ScenarioResult::default()
    }
}

/// The text with whitespace outside strings removed and `.0` of whole numbers dropped: what is left is names, their
/// order, and values.
fn bare(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        inside ^= c == '"';
        if inside || !c.is_whitespace() {
            out.push(c);
        }
    }
    for end in [",", "}", "]"] {
        out = out.replace(&format!(".0{end}"), end);
    }
    out
}

#[test]
fn field_names_and_order_are_those_of_the_contract() {
    assert_eq!(bare(&sample().to_json_line().expect("serialises")), bare(CONTRACT));
    assert_eq!(ScenarioResult::from_json(CONTRACT).expect("parses"), sample());
}

#[test]
fn what_does_not_apply_is_null() {
    let result = ScenarioResult {
        groups: vec![GroupResult::named("bulk")],
        links: vec![LinkResult { name: "uplink".into(), ..LinkResult::default() }],
        expect: vec![Expectation { ours: Some(f64::NAN), ..Expectation::default() }],
        ..ScenarioResult::default()
    };
    let value: Value = serde_json::from_str(&result.to_json_line().expect("serialises")).expect("JSON");
    let group = value["groups"][0].as_object().expect("an object");
    assert_eq!(group.len(), 15);
    assert!(group.iter().all(|(name, field)| name == "name" || field.is_null()), "{group:?}");
    let link = &value["links"][0];
    assert!(link["utilisation_pct"].is_null() && link["queue_ms"].is_null());
    assert_eq!(link["drops"], serde_json::json!({}));
    assert!(["ours", "published", "target", "ok"].iter().all(|f| value["expect"][0][f].is_null()));
}

#[test]
fn the_result_file_leaves_out_what_depends_on_the_machine() {
    let result = ScenarioResult {
        warnings: vec!["one repetition: no spread".into()],
        machine_warnings: vec!["CPU steal 3 %".into()],
        ..sample()
    };
    let line = result.to_json_line().expect("serialises");
    assert!(line.contains(r#""wall_s":0.9,"warnings":["one repetition: no spread","CPU steal 3 %"]"#));
    let file = result.to_result_file().expect("serialises");
    assert!(file.contains(r#""sim_s":120.0,"warnings":["one repetition: no spread"],"groups""#));
    let slower = ScenarioResult { wall_s: Some(7.0), machine_warnings: vec![], ..result };
    assert_eq!(slower.to_result_file().expect("serialises"), file);
    assert!(ScenarioResult::from_json(&file).is_ok());
}

#[test]
fn the_demo_has_both_runs_on_one_line() {
    let demo = DemoResult { fifo: sample(), perhop: sample() };
    let line = demo.to_json_line().expect("serialises");
    assert!(line.starts_with(r#"{"fifo":{"scenario""#) && line.contains(r#","perhop":{"scenario""#));
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<DemoResult>(&line).expect("parses"), demo);
}

#[test]
fn figures_print_rounded_and_without_negative_zero() {
    let printed = |v: f64| serde_json::to_string(&JitterMs { mean: v, max: 0.0 }).expect("serialises");
    assert_eq!(printed(0.1 + 0.2), r#"{"mean":0.3,"max":0.0}"#);
    assert_eq!(printed(-1e-9), r#"{"mean":0.0,"max":0.0}"#);
    assert_eq!(printed(f64::INFINITY), r#"{"mean":null,"max":0.0}"#);
    assert_eq!(printed(20.123_456_7), r#"{"mean":20.123457,"max":0.0}"#);
}

/// 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squares 32, sample deviation √(32/7).
#[test]
fn throughput_deviation_is_that_of_a_sample() {
    let t = Throughput::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("values");
    assert_eq!(t.mean, 5.0);
    assert!((t.stdev.expect("several") - 2.138_089_935).abs() < 1e-9);
    assert_eq!(Throughput::of(&[3.0]), Some(Throughput { mean: 3.0, stdev: None }));
    assert_eq!(Throughput::of(&[]), None);
}

#[test]
fn an_unknown_field_is_an_error() {
    let text = CONTRACT.replace("\"mode\"", "\"world\"");
    let error = ScenarioResult::from_json(&text).expect_err("not the contract");
    assert!(error.to_string().contains("world"), "{error}");
}

/// Jain, Chiu and Hawe: k of n with equal shares and the others with none have an index of k / n.
#[test]
fn fairness_is_the_share_of_connections_served() {
    let jain = |x: &[f64]| Connections::of(x).jain.map(|j| (j * 1e9).round() / 1e9);
    assert_eq!(jain(&[3.0, 3.0, 3.0, 3.0]), Some(1.0));
    assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
    assert_eq!(jain(&[1.0, 2.0, 3.0]), Some(0.857_142_857));
    assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
}

#[test]
fn variants_keep_the_order_of_the_file_and_a_label_is_shown() {
    let variants = ["plain", "baseline", "more"].map(|name| (name.to_owned(), Variant::default())).into();
    let result = ScenarioResult { label: Some("network".to_owned()), variants, ..ScenarioResult::default() };
    let text = result.to_result_file().unwrap();
    let again = ScenarioResult::from_json(&text).unwrap();
    assert_eq!(again, result);
    assert_eq!(
        again.variants.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        ["plain", "baseline", "more"]
    );
    assert_eq!((again.label(), ScenarioResult::default().label()), ("network", "product"));
}
