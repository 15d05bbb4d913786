//! `bench tcapi`: reservations of flows in a running router by the traffic-control API, over its Unix socket.
//!
//! A whole router stands on two virtual interfaces without traffic. One client makes reservations one by one, and takes the time from
//! before it sends a REQUEST to its ACK, which says that the reservation is in force in the packet thread: with few live
//! reservations, while their number grows, with all of them, and after all were released. Then it sends without waiting, as many
//! as a window has: a reservation and the release of another by turns, so that their number stays.
//!
//! Beside it stands what was published of the original (S. Giordano et al., *Dynamic resource configuration in DiffServ network*, figure 7 and
//! table 1): 0.5 ms for the first, 1 ms at 992 live, more than 20 ms from 2,049 on, for ever.

mod client;

use crate::error::BenchError;
use crate::machine::Watch;
use crate::report::{Metric, Peer, Point, Sink, Spread};
use crate::veth::{INSIDE, Layout, OUTSIDE};
use client::Client;
use perhop_engine::{Engine, EngineConfig, Handle};
use perhop_labrun::PrivateDirectory;
use perhop_model::Call;
use perhop_routerfile::RouterFile;
use perhop_serve::{Clients, RouterApi, TcapiServer};
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
    let layout = Layout::new(None)?;
    let directory = PrivateDirectory::new().map_err(|e| BenchError::Environment {
        what: "a directory for sockets".to_owned(),
        why: e.to_string(),
    })?;
    let text = format!(
        "[[port]]\nname = \"lan\"\ndevice = \"{INSIDE}\"\n[[port]]\nname = \"wan\"\ndevice = \"{OUTSIDE}\"\n\
         rate = \"1 Tbit/s\"\nheadroom = \"0 %\"\n[[class]]\nname = \"voice\"\nport = \"wan\"\nguarantee = \"500 Gbit/s\"\n\
         [[class]]\nname = \"rest\"\nport = \"wan\"\ndefault = true\n"
    );
    let (file, diagnostics) = RouterFile::read("tcapi.toml", &text);
    let file = file.ok_or_else(|| BenchError::Router(diagnostics.to_string()))?;
    let config = EngineConfig::of_file("tcapi", Some(layout.router.clone()), &file, directory.path());
    let (engine, handle) = Engine::start(config).map_err(|e| BenchError::Router(e.to_string()))?;
    let socket = directory.path().join("tcapi.sock");
    let router: Arc<dyn RouterApi> = Arc::new(Router(handle));
    let numbers = [(1, "voice".parse().map_err(|_| BenchError::Wrong("a class's name".into()))?)].into();
    let serving = TcapiServer::start(&socket, router, &Clients::default(), numbers)
        .map_err(|e| BenchError::Router(e.to_string()))?;
    let mut client = Client::connect(&perhop_serve::tcapi_path(&socket))?;
    let watch = Watch::start();
    let mut point = measure(options, &mut client, sink)?;
    point.warnings = watch.warnings();
    drop(serving);
    drop(engine.stop());
    sink.point(&point)?;
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
