//! `bench sip`: calls through `perhop sip-proxy run` over loopback, and what live calls take of memory.
//!
//! The proxy is a process of its own with one thread. Callers and callees are two sockets of this process: each call is INVITE, 180, 200, ACK,
//! BYE and 200, with descriptions of media, and is reserved for. Phones are behind one edge router, so that whether there is room is decided
//! without anybody being asked: what is measured is the proxy, not the domain. Calls are begun at a constant rate, whatever becomes of
//! them. A message is on its way from when one socket was given it until the other has it.
//!
//! Kamailio beside it, where it is installed, passes the same calls on as a stateful proxy that records routes and reserves nothing.

mod calls;
mod peer;
mod process;

use crate::error::BenchError;
use crate::machine::{Watch, processors};
use crate::report::{Metric, Peer, Point, Sink, Spread};
use calls::{Load, Outcome};
use peer::Kamailio;
use process::Proxy;
use std::collections::BTreeMap;
use std::time::Duration;

/// Options of `bench sip`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Calls that are begun in a second; may be repeated
    #[arg(long, value_name = "N", default_values_t = [500, 1_000, 2_000, 4_000])]
    rate: Vec<u32>,
    /// Seconds of each rate
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Calls that are live at the same time, for their memory
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    live: u32,
    /// Print JSON objects and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Measures. An operation is one call.
///
/// # Errors
/// The proxy does not start, or loses a call.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let peer = Kamailio::version();
    for rate in &options.rate {
        let watch = Watch::start();
        sink.progress(&format!("{rate} calls/s for {} s", options.seconds));
        let load = Load { rate: *rate, time: Duration::from_secs(options.seconds), ends: true };
        let proxy = Proxy::start()?;
        let (outcome, used) = measured(&load, &proxy)?;
        let mut point = Point { bench: "sip", op: "call", runs: 1, ..Point::default() };
        point.params.extend([("rate", (*rate).into()), ("seconds", options.seconds.into())]);
        point.set_ns(&[used * 1e9 / outcome.done.max(1) as f64]);
        point.metrics = metrics(&outcome, used, options.seconds);
        if let Some(version) = &peer {
            let kamailio = Kamailio::start()?;
            let (outcome, used) = measured(&load, &kamailio.0)?;
            let metrics = metrics(&outcome, used, options.seconds);
            point.peers.push(Peer { name: "Kamailio".into(), version: version.clone(), metrics });
        }
        point.warnings = watch.warnings();
        if processors() < 2 {
            point.warnings.push("proxy and phones have one processor together".into());
        }
        sink.point(&point)?;
    }
    if options.live > 0 {
        sink.point(&live(options.live, sink)?)?;
    }
    Ok(())
}

/// What became of the calls, and processor time of the proxy, s.
fn measured(load: &Load, proxy: &Proxy) -> Result<(Outcome, f64), BenchError> {
    let before = proxy.processor_time()?;
    let outcome = load.run(proxy.address)?;
    Ok((outcome, proxy.processor_time()? - before))
}

fn metrics(outcome: &Outcome, used: f64, seconds: u64) -> BTreeMap<&'static str, Metric> {
    let one = |value: f64, unit| Metric::new(Spread::exactly(value), unit);
    let done = outcome.done as f64;
    BTreeMap::from([
        ("done", one(done, "calls")),
        ("lost", one(outcome.begun.saturating_sub(outcome.done) as f64, "calls")),
        ("set_ups", one(done / seconds as f64, "1/s")),
        ("set_ups_of_a_core", one(done / used.max(1e-9), "1/s")),
        ("added_p50", one(outcome.added(0.5) / 1e3, "us")),
        ("added_p99", one(outcome.added(0.99) / 1e3, "us")),
        ("repeated", one(outcome.repeated as f64, "messages")),
    ])
}

fn live(calls: u32, sink: &Sink) -> Result<Point, BenchError> {
    const RATE: u32 = 2_000;
    sink.progress(&format!("{calls} live calls"));
    let watch = Watch::start();
    let proxy = Proxy::start()?;
    let before = proxy.memory()?;
    let time = Duration::from_secs_f64(f64::from(calls) / f64::from(RATE));
    let outcome = Load { rate: RATE, time, ends: false }.run(proxy.address)?;
    let set_up = proxy.memory()?;
    // Transactions are over by then; calls go on.
    std::thread::sleep(Duration::from_secs(40));
    let more = proxy.memory()?.saturating_sub(before);
    let mut point = Point { bench: "sip", op: "call", runs: 1, ..Point::default() };
    point.params.insert("live", calls.into());
    let mb = |octets: u64| Metric::new(Spread::exactly(octets as f64 / 1e6), "MB");
    point.metrics.insert("live_calls", mb(more));
    point.metrics.insert("while_set_up", mb(set_up.saturating_sub(before)));
    let each = more as f64 / outcome.done.max(1) as f64;
    point.metrics.insert("live_call", Metric::new(Spread::exactly(each), "B"));
    point.metrics.insert("done", Metric::new(Spread::exactly(outcome.done as f64), "calls"));
    point.warnings = watch.warnings();
    Ok(point)
}
