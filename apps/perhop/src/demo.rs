//! `perhop demo`: calls on a congested link, through a plain FIFO and through Perhop.

use clap::Args;
use perhop_labrun::{DemoOptions, DemoOutcome, LabError, Progress, demo};
use perhop_netlink::{enter_user_namespace, is_privileged_for_net};
use perhop_quality::Codec;
use perhop_units::{Duration, Rate};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Sends calls, TCP transfers and a flood over an emulated link: first through a plain FIFO, then through Perhop with
/// examples/edge.toml. Takes about a minute; needs root or unprivileged user namespaces.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Calls, 1 to 200
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub calls: u16,
    /// Codec of the calls: g711, g711a, g729, g729ab, g723.1-6.3, g723.1-5.3
    #[arg(long, default_value = "g711", value_name = "C")]
    pub codec: Codec,
    /// Rate of the link, such as "4 Mbit/s"
    #[arg(long, default_value = "10 Mbit/s", value_name = "R")]
    pub rate: Rate,
    /// One-way delay of the link, such as "100 ms"
    #[arg(long, default_value = "20 ms", value_name = "D")]
    pub delay: Duration,
    /// Rate of the UDP flood; 1.6 times the link's when not given
    #[arg(long, value_name = "R")]
    pub flood: Option<Rate>,
    /// Length of every call in seconds; short calls lose a larger share before they are recognised
    #[arg(long, default_value_t = 22, value_name = "S")]
    pub seconds: u32,
    /// Seed of the traffic's random numbers
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true)]
    pub seed: u64,
    /// Print the result as one JSON object on standard output, everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Write captures of the link's ends here
    #[arg(long, value_name = "DIR")]
    pub pcap: Option<PathBuf>,
    /// Write report.html and result.json here
    #[arg(long, default_value = "out/demo", value_name = "DIR")]
    pub out: PathBuf,
}

impl DemoArgs {
    fn options(&self) -> DemoOptions {
        DemoOptions {
            calls: self.calls,
            codec: self.codec,
            rate: self.rate,
            delay: self.delay,
            flood: self.flood,
            seconds: self.seconds,
            seed: self.seed,
            pcap: self.pcap.clone(),
            out: self.out.clone(),
        }
    }
}

/// Runs the demonstration and gives the exit code; everything is taken down by then. Call it before the process has a second thread: without root rights it moves into a user
/// namespace of its own, which the kernel allows to single-threaded processes only.
pub fn run(args: &DemoArgs) -> u8 {
    match attempt(args) {
        Ok(outcome) => finish(args, &outcome),
        Err(error) => {
            eprintln!("perhop demo: {error}");
            error.exit_code()
        }
    }
}

fn attempt(args: &DemoArgs) -> Result<DemoOutcome, LabError> {
    let options = args.options();
    options.check()?;
    if !is_privileged_for_net() {
        enter_user_namespace().map_err(|source| LabError::NoNamespaces { source })?;
    }
    let interrupted = watch_signals()?;
    demo(&options, &interrupted, &mut tell)
}

/// A line a second, the same on a terminal and in a log.
fn tell(progress: &Progress) {
    let seconds = progress.remaining.as_secs_f64();
    eprintln!("{:<44} {seconds:>4.0} s left", progress.what);
}

/// A flag that Ctrl-C and a polite kill set. A second one ends the process at once; nothing is left behind even so,
/// as everything hangs on file descriptors.
pub(crate) fn watch_signals() -> Result<Arc<AtomicBool>, LabError> {
    let io = |source| LabError::Io { doing: "watch for Ctrl-C", source };
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(io)?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(io)?, signal(SignalKind::terminate()).map_err(io)?)
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
                    if set.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                }
            });
        })
        .map_err(io)?;
    Ok(flag)
}

fn finish(args: &DemoArgs, outcome: &DemoOutcome) -> u8 {
    let mut text = format!("\n{}\n", outcome.table);
    for check in &outcome.verdict.checks {
        let word = match check.ok {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not known",
        };
        text.push_str(&format!("{word:<10}{}\n", check.text));
    }
    for sentence in &outcome.machine {
        text.push_str(&format!("{sentence}\n"));
    }
    text.push_str(&format!("\n{}\nreport: {}\n", outcome.verdict.headline, outcome.report.display()));
    if args.json {
        eprint!("{text}");
        match outcome.result.to_json_line() {
            // A reader that went away is no failure of the demonstration.
            Ok(line) => drop(writeln!(std::io::stdout(), "{line}")),
            Err(error) => eprintln!("perhop demo: {error}"),
        }
    } else {
        drop(write!(std::io::stdout(), "{text}"));
    }
    outcome.exit_code()
}
