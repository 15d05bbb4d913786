//! `perhop demo`: calls on a congested link, through a plain FIFO and through Perhop. It is the built-in scenario `demo` in
//! namespaces; the options set values of its file.

use super::error::LabCommandError;
use super::jobs::{self, Mode, Plan};
use super::{find, results};
use crate::error::{AppError, Verdict};
use crate::interrupt::watch_signals;
use crate::output::{Output, progress};
use clap::Args;
use perhop_labrun::LabError;
use perhop_measure::details::directory;
use perhop_measure::{Configuration, Experiment};
use perhop_netlink::{enter_user_namespace, is_privileged_for_net};
use perhop_quality::emodel::{DEFAULT_RATING, mos_from_rating};
use perhop_quality::{Codec, Distribution};
use perhop_report::summary::{FLOOD, UPLINK};
use perhop_report::{DemoResult, GroupResult, ScenarioResult, demo_table, verdict};
use perhop_scenario::drawing::draw;
use perhop_units::{Duration, Rate};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

/// Name of the scenario.
const SCENARIO: &str = "demo";
/// Flood rate without `--flood`, in tenths of the link's rate: 16 Mbit/s on 10 Mbit/s.
const FLOOD_TENTHS: u64 = 16;
/// IP length of the flood's datagrams is what the link carries in a ms, within these: on a slow link a call should not
/// wait for large packets that have already begun, as no router can help that.
const FLOOD_SIZE: RangeInclusive<u64> = 228..=1_200;
/// When the first call begins.
const CALLS_START: Duration = Duration::from_millis(1_500);
/// Time before the measurement: by then the flood has filled the queue.
const WARM_UP: Duration = Duration::from_millis(1_300);
/// So much of the link's time all queues of examples/edge.toml hold together.
const EDGE_QUEUES: Duration = Duration::from_millis(60);
/// That of its class for calls.
const CALLS_QUEUE: Duration = Duration::from_millis(20);
/// A full-size Ethernet frame, bytes.
const FULL_FRAME: u64 = 1_514;
/// What queueing may add to the link's delay at the 99th percentile, ms.
const QUEUEING_MS: f64 = 5.0;
/// The mean opinion score asked for with G.711.
const SCORE: f64 = 4.3;

/// Sends calls, TCP transfers and a flood over an emulated link: through Perhop with examples/edge.toml, then through a
/// plain FIFO. Takes about a minute; needs root or unprivileged user namespaces.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Calls, 1 to 200
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    calls: u16,
    /// Codec of the calls: g711, g711a, g729, g729ab, g723.1-6.3, g723.1-5.3
    #[arg(long, default_value = "g711", value_name = "C")]
    codec: Codec,
    /// Rate of the link, such as "4 Mbit/s"; 500 kbit/s to 200 Mbit/s
    #[arg(long, default_value = "10 Mbit/s", value_name = "R", value_parser = within(Rate::from_kbit(500), Rate::from_mbit(200)))]
    rate: Rate,
    /// One-way delay of the link, such as "100 ms"; at most 1 s
    #[arg(long, default_value = "20 ms", value_name = "D", value_parser = within(Duration::ZERO, Duration::from_secs(1)))]
    delay: Duration,
    /// Rate of the UDP flood, 0 for none; 1.6 times the link's when not given
    #[arg(long, value_name = "R", value_parser = within(Rate::ZERO, Rate::from_mbit(1_000)))]
    flood: Option<Rate>,
    /// Length of every call in seconds, 1 to 3600; short calls lose a larger share before they are recognised
    #[arg(long, default_value_t = 22, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Seed of the traffic's random numbers
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true)]
    seed: u64,
    /// Print the result as one JSON object on standard output, everything else on standard error
    #[arg(long)]
    json: bool,
    /// Write captures of the link's ends here
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write report.html and the other files of a result here
    #[arg(long, default_value = "out/demo", value_name = "DIR")]
    out: PathBuf,
}

/// Reads a quantity within a range.
fn within<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr<Err: Display> + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| match text.parse::<T>() {
        Ok(value) if value >= least && value <= most => Ok(value),
        Ok(_) => Err(format!("allowed is {least} to {most}")),
        Err(error) => Err(error.to_string()),
    }
}

/// The rating whose mean opinion score is `mos`, by bisection: the score rises with the rating from 10 on.
fn rating_of(mos: f64) -> f64 {
    let (mut low, mut high) = (10.0, DEFAULT_RATING);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if mos_from_rating(middle) < mos { low = middle } else { high = middle }
    }
    high
}

/// The score asked for: with other codecs the same budget of impairment as with G.711. The E-model adds impairments as
/// ratings (G.107 §7.1), so that is where the budget is the same; the score is no linear function of the rating.
fn score_asked(codec: Codec) -> f64 {
    mos_from_rating(rating_of(SCORE) - codec.equipment_impairment())
}

/// This machine's own congestion control as scenarios call it, where it is not CUBIC, which it may not even have.
fn congestion() -> Option<&'static str> {
    match std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?.trim() {
        "reno" => Some("newreno"),
        "bbr" => Some("bbr"),
        _ => None,
    }
}

impl DemoArgs {
    fn flood_rate(&self) -> Rate {
        self.flood.unwrap_or(Rate(self.rate.0 * FLOOD_TENTHS / 10))
    }

    /// The values that the options give the scenario, as `path=value`.
    fn settings(&self) -> Vec<String> {
        let length = Duration::from_secs(u64::from(self.seconds));
        // Starts are spread so that no two calls are in step, and all meet a queue that is full already.
        let spread = Duration::from_secs(4).min(Duration(length.0 / 4));
        let frames = self.rate.bytes_in(EDGE_QUEUES).get().div_ceil(FULL_FRAME);
        let size = self.rate.bytes_in(Duration::from_millis(1)).get();
        let size = size.clamp(*FLOOD_SIZE.start(), *FLOOD_SIZE.end());
        // A little less than the link carries, so that the queue stands in the router, as the file has it.
        let port = Rate(self.rate.0 * 99 / 100);
        let set = |path: &str, value: &dyn Display| format!("{path}={value}");
        let mut settings = vec![
            set(
                "duration",
                &(Duration(CALLS_START.0 - WARM_UP.0) + spread + length + self.codec.packet_interval()),
            ),
            set("link.wan.rate", &self.rate),
            set("link.wan.delay", &self.delay),
            set("node.edge.router.port.wan.rate", &port),
            set("variants.fifo.node.edge.router.port.wan.queue", &format_args!("{frames} packets")),
            set("traffic.calls.calls", &self.calls),
            set("traffic.calls.codec", &self.codec.name()),
            set("traffic.calls.spacing", &Duration(spread.0 / u64::from(self.calls))),
            set("traffic.calls.stop", &(CALLS_START + length)),
            set("expect[3].target", &format_args!("<= {}", self.delay.as_millis_f64() + QUEUEING_MS)),
            set("expect[4].target", &format_args!(">= {:.6}", score_asked(self.codec))),
        ];
        if port.bytes_in(CALLS_QUEUE).get() < FULL_FRAME {
            // A queue must have room for a frame.
            settings.push(set("node.edge.router.class.ef.queue", &format_args!("{FULL_FRAME} B")));
        }
        if self.flood_rate() != Rate::ZERO {
            settings.push(set("traffic.flood.rate", &self.flood_rate()));
            settings.push(set("traffic.flood.size", &format_args!("{size} B")));
        }
        settings
    }

    /// The scenario with what the options set, and the transfers' congestion control where it is not to be the file's.
    fn scenario(&self, congestion: Option<&str>) -> Result<find::Ready, AppError> {
        let found = find::shipped(SCENARIO)
            .ok_or_else(|| LabCommandError::Unknown { given: SCENARIO.to_owned(), near: None })?;
        let mut settings = self.settings();
        settings.extend(congestion.map(|name| format!("tcp.congestion={name}")));
        let mut ready = find::read(&found, &settings)?;
        if self.flood_rate() == Rate::ZERO {
            // It is the last, so that no other changes its number.
            let variants = ready.loaded.variants.iter_mut().map(|(_, scenario)| scenario);
            for scenario in std::iter::once(&mut ready.loaded.product).chain(variants) {
                scenario.traffic.retain(|traffic| traffic.name != FLOOD);
            }
        }
        Ok(ready)
    }
}

/// Runs the demonstration; everything is taken down by then. Call it before the process has a second thread: without root
/// rights it moves into a user namespace of its own, which the kernel allows to single-threaded processes only.
///
/// # Errors
/// See [`AppError`].
pub fn run(args: &DemoArgs) -> Result<Verdict, AppError> {
    let ready = args.scenario(congestion())?;
    for directory in std::iter::once(&args.out).chain(&args.pcap) {
        // Found out before the minute of work, not after it.
        results::check_writable(directory)?;
    }
    let failed = |source| LabCommandError::Namespaces { scenario: SCENARIO.to_owned(), source };
    if !is_privileged_for_net() {
        enter_user_namespace().map_err(|source| failed(LabError::NoNamespaces { source }))?;
    }
    let interrupted = watch_signals().map_err(failed)?;
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
    finish(args, experiment, &shown, &page)?;
    Ok(match shown.ok {
        Some(ok) => Verdict::failed_if(!ok),
        None => Verdict::Exit(ExitCode::from(3)),
    })
}

/// Prints what a person reads, and the figures of both runs where they are asked for.
fn finish(
    args: &DemoArgs,
    experiment: Experiment,
    verdict: &verdict::Verdict,
    page: &Path,
) -> Result<(), AppError> {
    let Experiment { mode, seed, product, variants, .. } = experiment;
    let fifo = variants.into_iter().find_map(|(name, fifo)| (name == verdict::FIFO).then_some(fifo));
    let fifo = fifo.expect("the built-in scenario has the variant, and all of its variants are run");
    let mut machine = String::new();
    let [fifo, perhop] = [("FIFO", fifo), ("Perhop", product)].map(|(name, configuration)| {
        let sentences = configuration.recordings.iter().filter_map(|recording| recording.machine.as_ref());
        sentences.for_each(|sentence| machine.push_str(&format!("{name}: {sentence}\n")));
        alone(&mode, seed, configuration)
    });
    let mut text = format!("\n{}\n", demo_table(&[("FIFO", &fifo), ("Perhop", &perhop)]));
    for check in &verdict.checks {
        let word = match check.ok {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not known",
        };
        text.push_str(&format!("{word:<10}{}\n", check.text));
    }
    text.push_str(&format!("{machine}\n{}\nreport: {}\n", verdict.headline, page.display()));
    let mut output = Output::new();
    if args.json {
        progress(text.trim_end());
        let line = DemoResult { fifo, perhop }.to_json_line().map_err(|source| {
            LabCommandError::BadDirectory { path: args.out.clone(), source: source.into() }
        })?;
        output.line(line)?;
    } else {
        output.text(text)?;
    }
    output.flush()
}

/// One configuration as a result of its own, in the words of `perhop demo --json`: the link is the caller's uplink, and up
/// is the way from the caller.
fn alone(mode: &str, seed: u64, mut configuration: Configuration) -> ScenarioResult {
    configuration.scenario.expect.clear();
    let experiment = Experiment {
        mode: mode.to_owned(),
        seed,
        changed: Vec::new(),
        product: configuration,
        variants: Vec::new(),
    };
    let mut result = experiment.result();
    result.wall_s = Some(result.sim_s);
    for link in result.links.iter_mut().filter(|link| link.name == verdict::WAN) {
        link.name = UPLINK.to_owned();
    }
    if result.group(FLOOD).is_none() {
        result.groups.push(GroupResult::of_datagrams(FLOOD, 0, &Distribution::default()));
    }
    for group in &mut result.groups {
        if let Some(whole) = group.name.strip_suffix(".down") {
            group.name = format!("{whole}.up");
        } else if let Some(whole) = group.name.strip_suffix(".up") {
            group.name = format!("{whole}.down");
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use perhop_model::{Kind, Spec};
    use perhop_routerfile::RouterFile;
    use perhop_scenario::{NodeKind, Scenario};
    use perhop_units::QueueLimit;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: DemoArgs,
    }

    fn given(options: &[&str]) -> Result<DemoArgs, clap::Error> {
        Command::try_parse_from(std::iter::once(&"demo").chain(options)).map(|command| command.args)
    }

    fn loaded(options: &[&str]) -> perhop_scenario::Loaded {
        given(options).expect("good options").scenario(None).expect("a good scenario").loaded
    }

    /// Text of the router in a scenario, as an object's specification by kind and name.
    fn text(scenario: &Scenario) -> &str {
        let router = scenario.nodes.iter().find_map(|node| match &node.kind {
            NodeKind::Router(config) => Some(config),
            _ => None,
        });
        &router.expect("a router").text
    }

    #[test]
    fn without_options_it_is_the_scenario_as_it_stands() {
        let found = find::shipped(SCENARIO).expect("it is built in");
        let as_it_stands = find::read(&found, &[]).expect("it is good").loaded;
        assert_eq!(loaded(&[]), as_it_stands);
        assert!(
            as_it_stands.product.length().saturating_mul(2) < Duration::from_secs(68),
            "both runs end in time"
        );
    }

    #[test]
    fn every_option_is_checked() {
        for bad in [
            ["--calls", "0"],
            ["--calls", "201"],
            ["--rate", "1 kbit/s"],
            ["--rate", "201 Mbit/s"],
            ["--delay", "2 s"],
            ["--delay", "2"],
            ["--flood", "2 Gbit/s"],
            ["--seconds", "0"],
            ["--seconds", "3601"],
            ["--codec", "opus"],
        ] {
            assert!(given(&bad).is_err(), "{bad:?}");
        }
        for good in
            [["--calls", "200"], ["--rate", "200 Mbit/s"], ["--rate", "500 kbit/s"], ["--seconds", "3600"]]
        {
            assert_eq!(loaded(&good).variants.len(), 1, "{good:?}");
        }
    }

    /// The port has 99 % of every link, the plain queue as much memory as the file's, targets the link's delay.
    #[test]
    fn options_change_all_that_hangs_on_them() {
        let options =
            ["--rate", "4 Mbit/s", "--delay", "100 ms", "--codec", "g729", "--calls", "3", "--seconds", "8"];
        let loaded = loaded(&options);
        let (perhop, fifo) = (&loaded.product, &loaded.variants[0].1);
        for scenario in [perhop, fifo] {
            let (file, _) = RouterFile::read("router.toml", text(scenario));
            let objects = file.expect("a good file").objects;
            let wan =
                objects.iter().find(|o| o.kind() == Kind::Port && o.name.as_str() == "wan").expect("a port");
            let Spec::Port(wan) = &wan.spec else { panic!("{wan:?}") };
            assert_eq!(wan.rate, Rate(3_960_000));
            let link = &scenario.links[1].ways[0];
            assert_eq!((link.rate, link.delay), (Some(Rate::from_mbit(4)), Duration::from_millis(100)));
        }
        let targets: Vec<_> = perhop.expect.iter().map(|expect| expect.target).collect();
        assert_eq!(targets[2], Some(perhop_scenario::Target::AtMost(105.0)));
        assert!(
            matches!(targets[3], Some(perhop_scenario::Target::AtLeast(score)) if (3.96..3.98).contains(&score))
        );
        assert_eq!(perhop.traffic.last().map(|flood| flood.name.as_str()), Some(FLOOD));
        let without = self::loaded(&["--flood", "0 bit/s"]);
        assert!(
            without.product.traffic.iter().chain(&without.variants[0].1.traffic).all(|t| t.name != FLOOD)
        );
    }

    /// G.729 reaches 4.14 at best (R = 83.2); 4.3 leaves G.711 a budget of 4.8 (R = 88.4), which makes 78.4 here.
    #[test]
    fn the_score_asked_for_follows_the_codec() {
        let asked = |codec| format!("{:.2}", score_asked(codec));
        assert_eq!((asked(Codec::G711A), asked(Codec::G729)), ("4.30".to_owned(), "3.97".to_owned()));
    }

    /// 20 ms and 100 ms of half the link, which each class is guaranteed.
    #[test]
    fn the_plain_queue_is_as_long_as_those_of_the_edge_together() {
        let loaded = loaded(&[]);
        let (file, _) = RouterFile::read("edge.toml", text(&loaded.product));
        for rate in [Rate::from_kbit(500), Rate::from_mbit(10), Rate::from_mbit(200)] {
            let classes = file.as_ref().expect("a good file").classes();
            let bytes: u64 = classes
                .map(|(_, class)| match class.queue.limit {
                    QueueLimit::Packets(n) => u64::from(n) * FULL_FRAME,
                    // A class's queue in time is filled at its guarantee.
                    limit => limit.in_bytes(class.guarantee.of(rate)).map_or(0, |bytes| bytes.get()),
                })
                .sum();
            assert_eq!(rate.bytes_in(EDGE_QUEUES).get(), bytes, "{rate}");
        }
        assert!(text(&loaded.variants[0].1).contains("50 packets"));
    }
}
