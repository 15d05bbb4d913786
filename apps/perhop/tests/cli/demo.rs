//! The demonstration: short on real sockets, as far as any machine however slow must show it; and its scenario in virtual
//! time, where every figure is known.

use super::{Ended, Scratch, perhop, skip};
use perhop_report::{GroupResult, ScenarioResult};
use serde_json::Value;

fn result(value: &Value) -> ScenarioResult {
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"))
}

fn group<'a>(run: &'a ScenarioResult, name: &str) -> &'a GroupResult {
    run.group(name).unwrap_or_else(|| panic!("no group {name}"))
}

/// Every packet sent is received, or missing, once.
fn check(run: &ScenarioResult, calls: u64, packets_of_a_call: u64) {
    assert_eq!((run.scenario.as_str(), run.mode.as_str(), run.repetitions), ("demo", "netns", 1));
    for (name, left_out) in [("calls", 0), ("calls_after_detection", 10)] {
        for name in [name.to_owned(), format!("{name}.up"), format!("{name}.down")] {
            let group = group(run, &name);
            assert_eq!(group.sent, Some(calls * (packets_of_a_call - left_out)), "{name}");
            assert!(group.received.unwrap() > 0 && group.received <= group.sent, "{name}: {group:?}");
            // The link's delay is physics: nothing arrives before it, but for the moment between the readings of two clocks
            // by which the kernel's stamps are told, on a machine that is busy.
            assert!(group.delay_ms.unwrap().min >= 18.0, "{name}: {group:?}");
        }
    }
    assert_eq!(group(run, "calls").loss_pct, group(run, "calls.up").loss_pct);
    assert_eq!(
        group(run, "calls.down").loss_pct,
        Some(0.0),
        "the way back is not congested: {:?}",
        run.warnings
    );
    assert!(group(run, "flood").loss_pct.unwrap() > 10.0, "the flood exceeds the link");
    assert!(group(run, "bulk").connections.unwrap().count >= 4);
    assert!(run.link("uplink").unwrap().utilisation_pct.unwrap() > 10.0);
}

#[test]
fn two_short_calls_through_both_routers() {
    let scratch = Scratch::new("demo");
    let (out, pcap) = (scratch.0.join("out"), scratch.0.join("pcap"));
    let [out_text, pcap_text] = [&out, &pcap].map(|path| path.to_str().unwrap());
    let ended: Ended =
        perhop(&["demo", "--calls", "2", "--seconds", "3", "--json", "--out", out_text, "--pcap", pcap_text]);
    if ended.code == Some(3) && ended.out.is_empty() {
        return skip("two_short_calls_through_both_routers", "netns", &ended.err);
    }
    let line = &ended.json()[0];
    assert_eq!(line.as_object().unwrap().keys().collect::<Vec<_>>(), ["fifo", "perhop"]);
    check(&result(&line["fifo"]), 2, 150);
    check(&result(&line["perhop"]), 2, 150);
    // Six targets, a sentence on the machine for each run, then the last sentence and the page.
    let words = ["pass      ", "FAIL      ", "not known "];
    let checks = ended.err.lines().filter(|line| words.iter().any(|word| line.starts_with(word)));
    assert_eq!(checks.count(), 6, "{}", ended.err);
    for run in ["FIFO: CPU ", "Perhop: CPU "] {
        assert!(
            ended.err.lines().any(|line| line.starts_with(run) && line.contains("% stolen")),
            "{}",
            ended.err
        );
    }
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("</html>") && page.contains("<svg") && page.contains("% stolen"));
    let machine = std::fs::read_to_string(out.join("machine.json")).unwrap();
    let machine: Value = serde_json::from_str(&machine).unwrap();
    let saturated = !machine["saturated"].is_null();
    assert_eq!(ended.code == Some(3), saturated, "{}", ended.err);
    assert_eq!(ended.err.contains("\nNo verdict: "), saturated, "{}", ended.err);
    assert!(ended.err.trim_end().ends_with(&format!("report: {out_text}/report.html")), "{}", ended.err);
    for run in ["fifo", "product"] {
        assert!(pcap.join(run).join("1/wan/b.out.pcap").metadata().unwrap().len() > 24, "{run}");
    }
}

/// The scenario as anybody runs it: ten packets of each call are not served as a call, what follows is, and the plain queue
/// does neither.
#[test]
fn in_virtual_time_calls_are_kept_from_their_tenth_packet_on() {
    let scratch = Scratch::new("demo-sim");
    let out = scratch.0.join("out");
    let ended = perhop(&[
        "lab",
        "run",
        "demo",
        "--json",
        "--out",
        out.to_str().unwrap(),
        "--set",
        "duration=6s",
        "--set",
        "traffic.calls.calls=3",
        "--set",
        "traffic.calls.stop=5s",
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let run = result(&ended.json()[0]);
    let (whole, after) = (group(&run, "calls"), group(&run, "calls_after_detection"));
    assert_eq!(whole.sent.unwrap() - after.sent.unwrap(), 30);
    assert_eq!(after.loss_pct, Some(0.0));
    assert!(after.delay_ms.unwrap().max < 25.0 && whole.delay_ms.unwrap().max > 60.0, "{after:?} {whole:?}");
    let fifo = &run.variants.get("fifo").unwrap().groups;
    let fifo = fifo.iter().find(|group| group.name == "calls_after_detection").unwrap();
    assert!(fifo.loss_pct.unwrap() > 20.0, "{fifo:?}");
}

#[test]
fn what_the_demonstration_cannot_do_is_said_at_once() {
    let scratch = Scratch::new("demo-bad");
    let file = scratch.file("file", "");
    for (options, code) in [
        (["--calls", "0"], 2),
        (["--rate", "1 kbit/s"], 2),
        (["--codec", "opus"], 2),
        (["--out", file.as_str()], 3),
    ] {
        let ended = perhop(&[&["demo"][..], &options].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{options:?}: {}", ended.err);
    }
}
