//! `bench tcapi`: reservations of flows in a running router by the traffic-control API, over its Unix socket.
//!
//! A whole router stands on two virtual interfaces without traffic. One client makes reservations one by one, and takes the time from
//! before it sends a REQUEST to its ACK, which says that the reservation is in force in the packet thread: with few live
//! reservations, while their number grows, with all of them, and after all were released. Then it sends without waiting, as many
//! as a window has: a reservation and the release of another by turns, so that their number stays.
//!
//! With `--compare` the experiments of the original are made (see `compare`), with the same client, of the router, of the kernel's traffic control
//! (`perhop tcapi serve`), and of the published times themselves.
//!
//! Beside it stands what was published of the original (S. Giordano et al., *Dynamic resource configuration in DiffServ network*, figure 7 and
//! table 1): 0.5 ms for the first, 1 ms at 992 live, more than 20 ms from 2,049 on, for ever.

mod client;
mod compare;
mod published;

use crate::error::BenchError;
use crate::machine::Watch;
use crate::report::{Metric, Peer, Point, Sink, Spread};
use crate::veth::{INSIDE, Layout, OUTSIDE};
use client::Client;
use compare::On;
use perhop_engine::{Engine, EngineConfig, Handle, KernelShaper, ShapedClass, ShaperConfig};
use perhop_labrun::PrivateDirectory;
use perhop_model::{Call, Name};
use perhop_routerfile::RouterFile;
use perhop_serve::{Clients, RouterApi, TcapiServer};
use perhop_units::Rate;
use std::sync::Arc;
use std::time::Instant as Clock;

/// Options of `bench tcapi`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Reservations that are live
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    live: u64,
    /// Single reservations that are timed at each place
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    singles: u64,
    /// Seconds of sending without waiting
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Messages that are sent before their answers are there
    #[arg(long, default_value_t = 2_048, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    window: u64,
    /// Make the experiments of the original instead, of the router, of the kernel's traffic control and of the published times
    #[arg(long)]
    compare: bool,
    /// With --compare: most reservations
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(4_000..=60_000))]
    reservations: u64,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

struct Router(Handle);

impl RouterApi for Router {
    fn call(&self, call: Call) {
        self.0.call(call);
    }
}

/// Measures. An operation is one reservation of a flow, acknowledged before the next.
///
/// # Errors
/// No rights over namespaces.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    if options.compare {
        return compare_all(options, sink);
    }
    let watch = Watch::start();
    let mut point = None;
    with_router(options.window, &mut |client| {
        point = Some(measure(options, client, sink)?);
        Ok(())
    })?;
    let Some(mut point) = point else { return Ok(()) };
    point.warnings = watch.warnings();
    sink.point(&point)?;
    Ok(())
}

/// What is done with a client of a server that has been started for it.
type With<'w> = &'w mut dyn FnMut(&mut Client) -> Result<(), BenchError>;

fn directory() -> Result<PrivateDirectory, BenchError> {
    PrivateDirectory::new().map_err(|e| BenchError::Environment {
        what: "a directory for sockets".to_owned(),
        why: e.to_string(),
    })
}

fn voice() -> Result<Name, BenchError> {
    "voice".parse().map_err(|_| BenchError::Wrong("a class's name".into()))
}

/// A router of ours on two virtual interfaces.
fn with_router(window: u64, with: With<'_>) -> Result<(), BenchError> {
    let layout = Layout::new(None)?;
    let directory = directory()?;
    let text = format!(
        "[[port]]\nname = \"lan\"\ndevice = \"{INSIDE}\"\n[[port]]\nname = \"wan\"\ndevice = \"{OUTSIDE}\"\n\
         rate = \"1 Tbit/s\"\nheadroom = \"0 %\"\n[[class]]\nname = \"voice\"\nport = \"wan\"\nguarantee = \"500 Gbit/s\"\n\
         [[class]]\nname = \"rest\"\nport = \"wan\"\ndefault = true\n"
    );
    let (file, diagnostics) = RouterFile::read("tcapi.toml", &text);
    let file = file.ok_or_else(|| BenchError::Router(diagnostics.to_string()))?;
    let config = EngineConfig::of_file("tcapi", Some(layout.router.clone()), &file, directory.path());
    let (engine, handle) = Engine::start(config).map_err(|e| BenchError::Router(e.to_string()))?;
    let done = with_server(handle, &directory, window, with);
    drop(engine.stop());
    done
}

/// The kernel's traffic control of one of them.
fn with_kernel(window: u64, with: With<'_>) -> Result<(), BenchError> {
    let layout = Layout::new(None)?;
    let directory = directory()?;
    let class = ShapedClass { name: voice()?, guarantee: Rate::from_mbit(10_000), dscp: None };
    let config = ShaperConfig {
        interface: OUTSIDE.to_owned(),
        namespace: Some(layout.router.clone()),
        rate: Rate::from_mbit(20_000),
        classes: vec![class],
    };
    let (shaper, handle) = KernelShaper::start(&config).map_err(|e| BenchError::Environment {
        what: "the kernel's traffic control".to_owned(),
        why: e.to_string(),
    })?;
    let done = with_server(handle, &directory, window, with);
    drop(shaper);
    done
}

fn with_server(
    handle: Handle,
    directory: &PrivateDirectory,
    window: u64,
    with: With<'_>,
) -> Result<(), BenchError> {
    let path = directory.path().join("tcapi");
    let router: Arc<dyn RouterApi> = Arc::new(Router(handle));
    let numbers = [(1, voice()?)].into();
    let serving = TcapiServer::start_at(&path, router, &Clients::default(), numbers)
        .map_err(|e| BenchError::Router(e.to_string()))?;
    let done = with(&mut Client::connect(&path, window)?);
    drop(serving);
    done
}

/// The experiments of the original, of each.
fn compare_all(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let most = options.reservations;
    let warmed = |client: &mut Client, on: On<'_>| {
        // Memory is brought near, and what is made once is made.
        client.pairs_one_by_one(0..200)?;
        on(client)
    };
    let mut router = |on: On<'_>| with_router(1, &mut |client| warmed(client, on));
    let smooth = compare::SMOOTH;
    let watch = Watch::start();
    sink.progress("the router");
    let mut point = compare::experiments("router", most, smooth, &mut router)?;
    point.warnings = watch.warnings();
    sink.point(&point)?;
    let watch = Watch::start();
    sink.progress("the kernel");
    let mut kernel = |on: On<'_>| with_kernel(1, &mut |client| warmed(client, on));
    let mut point = compare::experiments("kernel", most, smooth, &mut kernel)?;
    with_kernel(1, &mut |client| beside(client, &mut point))?;
    point.warnings = watch.warnings();
    sink.point(&point)?;
    let mut published = |on: On<'_>| on(&mut published::Published::default());
    sink.point(&compare::experiments("published", most, 1, &mut published)?)?;
    Ok(())
}

/// A reservation that comes and goes beside ten others, and beside 10,000.
fn beside(client: &mut Client, point: &mut Point) -> Result<(), BenchError> {
    client.pairs_one_by_one(0..200)?;
    client.requests_one_by_one(0..10)?;
    let few = client.pairs_one_by_one(20_000..20_500)?;
    client.requests_one_by_one(10..10_000)?;
    let many = client.pairs_one_by_one(20_000..20_500)?;
    let us = |ns: &[f64]| Metric::new(Spread::exactly(median(ns) / 1e3), "us");
    point.metrics.insert("beside_10", us(&few.requests));
    point.metrics.insert("beside_10000", us(&many.requests));
    let ratio = Spread::exactly(median(&many.requests) / median(&few.requests));
    point.metrics.insert("beside_10000_to_10", Metric::new(ratio, "x"));
    Ok(())
}

fn median(ns: &[f64]) -> f64 {
    Spread::of(ns).median
}

fn measure(options: &Options, client: &mut Client, sink: &Sink) -> Result<Point, BenchError> {
    let Options { live, singles, .. } = *options;
    // Memory is brought near, and what is made once is made.
    client.requests_one_by_one(0..10)?;
    client.releases_one_by_one(0..10)?;
    client.requests_one_by_one(0..10)?;
    sink.progress("ten live reservations");
    let few = client.pairs_one_by_one(live..live + singles)?;
    sink.progress(&format!("up to {live} live reservations"));
    let start = Clock::now();
    let windows = client.grow(10..live)?;
    let growing = start.elapsed().as_secs_f64() * 1e9 / (live - 10) as f64;
    let many = client.pairs_one_by_one(live..live + singles)?;
    sink.progress(&format!("{} s without waiting", options.seconds));
    let rate = client.churn(live, options.window, options.seconds)?;
    sink.progress("all released");
    client.release_all()?;
    let after = client.pairs_one_by_one(live..live + singles)?;

    let mut point = Point { bench: "tcapi", op: "reservation", ..Point::default() };
    point.set_ns(&few.requests);
    point.params.insert("live", live.into());
    point.params.insert("window", options.window.into());
    let us = |ns: &[f64]| Metric::new(Spread::of(&ns.iter().map(|ns| ns / 1e3).collect::<Vec<_>>()), "us");
    let exactly = |value: f64, unit| Metric::new(Spread::exactly(value), unit);
    point.metrics.insert("with_ten_live", us(&few.requests));
    point.metrics.insert("with_all_live", us(&many.requests));
    point.metrics.insert("released_with_all_live", us(&many.releases));
    point.metrics.insert("after_all_were_released", us(&after.requests));
    point.metrics.insert("all_to_ten", exactly(median(&many.requests) / median(&few.requests), "x"));
    point.metrics.insert("after_to_before", exactly(median(&after.requests) / median(&few.requests), "x"));
    let (least, most) = windows.iter().fold((f64::MAX, 0.0_f64), |(a, b), m| (a.min(*m), b.max(*m)));
    point.metrics.insert("windows_most_to_least", exactly(most / least, "x"));
    point.metrics.insert("growing", exactly(growing / 1e3, "us"));
    point.metrics.insert("operations_per_second", Metric::new(Spread::of(&rate), "1/s"));
    point.peers.push(Peer {
        name: "original, as published".to_owned(),
        version: "2002".to_owned(),
        metrics: [
            ("first", exactly(500.0, "us")),
            ("with_992_live", exactly(1_000.0, "us")),
            ("from_2049_live", exactly(20_100.0, "us")),
            ("operations_per_second", exactly(2_000.0, "1/s")),
        ]
        .into(),
    });
    Ok(point)
}
