//! `perhop demo`: calls on a congested link, through a plain FIFO and through Perhop. It is the built-in scenario `demo` in
//! namespaces; the options set values of its file.

mod args;
mod reserve;
mod settings;
mod told;

pub use args::DemoArgs;

use super::jobs::{self, Mode, Plan};
use super::results;
use crate::error::{AppError, LabCommandError, Verdict};
use crate::interrupt::watch_signals;
use perhop_labrun::LabError;
use perhop_measure::details::directory;
use perhop_netlink::{enter_user_namespace, is_privileged_for_net};
use perhop_report::verdict;
use perhop_scenario::drawing::draw;
use std::process::ExitCode;

/// Name of the scenario.
const SCENARIO: &str = "demo";

/// This machine's own congestion control as scenarios call it, where it is not CUBIC, which it may not even have.
fn congestion() -> Option<&'static str> {
    match std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?.trim() {
        "reno" => Some("newreno"),
        "bbr" => Some("bbr"),
        _ => None,
    }
}

/// Runs the demonstration; everything is taken down by then. Call it before the process has a second thread: without root
/// rights it moves into a user namespace of its own, which the kernel allows to single-threaded processes only.
///
/// # Errors
/// See [`AppError`].
pub fn run(args: &DemoArgs) -> Result<Verdict, AppError> {
    if args.reserve {
        return reserve::run(args);
    }
    let ready = args.scenario(congestion())?;
    for directory in std::iter::once(&args.out).chain(&args.pcap) {
        // Found out before the minute of work, not after it.
        results::check_writable(directory)?;
    }
    let failed = |source| LabCommandError::Namespaces { scenario: SCENARIO.to_owned(), source };
    if !is_privileged_for_net() {
        enter_user_namespace().map_err(|source| failed(LabError::NoNamespaces { source }))?;
    }
    let interrupted = watch_signals(None).map_err(failed)?;
    let plan = Plan {
        mode: Mode::Netns,
        seed: args.seed,
        repetitions: 1,
        trace: args.pcap.as_deref(),
        out: &args.out,
        interrupted: &interrupted,
    };
    let (mut experiment, wall_s) = jobs::run(&ready, &plan)?;
    // What is set here has its targets set with it.
    experiment.changed.clear();
    let settings = ready.settings.iter().map(|(path, value)| (path.to_owned(), value.to_owned()));
    let result = directory(&experiment, settings, draw(&ready.loaded.product), Some(wall_s));
    let page = results::write(&args.out, &result)?;
    let saturated = result.machine.saturated.as_deref();
    let shown = verdict::Verdict::of(&result.result, saturated, args.delay.as_millis_f64());
    told::finish(args, experiment, &shown, &page)?;
    Ok(match shown.ok {
        Some(ok) => Verdict::failed_if(!ok),
        None => Verdict::Exit(ExitCode::from(3)),
    })
}
