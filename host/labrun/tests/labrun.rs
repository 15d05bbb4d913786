//! A short demonstration on this machine's kernel.
//!
//! Needs root or a user namespace that the process is in already; without, it says so and skips, and with `netns` in
//! `PERHOP_REQUIRE` the skip is a failure. The oracle is what must hold on any machine however slow: every packet sent
//! is received, or missing, once; the plain FIFO waits longer; reports are whole; nothing stays behind.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may panic"
)]

use perhop_labrun::{DemoOptions, LabError, Progress, demo};
use perhop_netlink::{Namespace, Netlink, is_privileged_for_net};
use perhop_report::ScenarioResult;
use std::sync::atomic::AtomicBool;

fn may_run(name: &str) -> bool {
    if is_privileged_for_net() {
        return true;
    }
    let why = "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`";
    eprintln!("SKIPPED {name}: {why}");
    let required =
        std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == "netns"));
    assert!(!required, "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
    false
}

fn check(run: &ScenarioResult, calls: u64, packets_of_a_call: u64) {
    let group = |name: &str| run.group(name).unwrap_or_else(|| panic!("no group {name}")).clone();
    for name in ["calls", "calls.up", "calls.down"] {
        let group = group(name);
        assert_eq!(group.sent, Some(calls * packets_of_a_call), "{name}");
        assert!(group.received.unwrap() > 0 && group.received <= group.sent, "{name}: {group:?}");
        // The link's delay is physics: nothing arrives before it.
        assert!(group.delay_ms.unwrap().min >= 20.0, "{name}: {group:?}");
    }
    let down = group("calls.down");
    assert_eq!(down.loss_pct, Some(0.0), "the way back is not congested: {:?}", run.machine_warnings);
    assert!(group("calls_after_detection").sent < group("calls").sent);
    assert!(group("flood").loss_pct.unwrap() > 10.0, "the flood exceeds the link");
    assert_eq!(group("bulk").connections.unwrap().count, 4);
    assert!(run.link("uplink").unwrap().utilisation_pct.unwrap() > 10.0);
}

#[test]
fn two_short_calls_through_both_routers() {
    if !may_run("two_short_calls_through_both_routers") {
        return;
    }
    let here = Netlink::open_in(&Namespace::current().unwrap()).unwrap();
    let before = here.links().unwrap();
    let out = std::env::temp_dir().join(format!("perhop-labrun-{}", std::process::id()));
    let options = DemoOptions { calls: 2, seconds: 3, out: out.clone(), ..DemoOptions::default() };
    let mut told: Vec<Progress> = Vec::new();
    let outcome = demo(&options, &AtomicBool::new(false), &mut |p| told.push(p.clone())).unwrap();
    check(&outcome.result.fifo, 2, 150);
    check(&outcome.result.perhop, 2, 150);
    assert_eq!(outcome.verdict.checks.len(), 6);
    assert!(told.len() >= 8 && told.windows(2).all(|w| w[0].remaining >= w[1].remaining), "{told:?}");
    let page = std::fs::read_to_string(&outcome.report).unwrap();
    assert!(page.contains("</html>") && page.contains("<svg"));
    let line = std::fs::read_to_string(out.join("result.json")).unwrap();
    assert_eq!(line.trim_end(), outcome.result.to_json_line().unwrap());
    std::fs::remove_dir_all(&out).unwrap();
    assert_eq!(here.links().unwrap(), before, "no interface stays behind");
    // Whoever interrupts gets an early end instead.
    let interrupted = demo(&options, &AtomicBool::new(true), &mut |_| {});
    assert!(matches!(interrupted, Err(LabError::Interrupted)), "{interrupted:?}");
    std::fs::remove_dir_all(&out).unwrap();
}
