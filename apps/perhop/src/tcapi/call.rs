//! `perhop tcapi call`: one message of the traffic-control API, and its answer.

use super::alternative::Packets;
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Remote;
use clap::{Args, ValueEnum};
use perhop_serve::{TcapiClient, tcapi_path};
use perhop_tcapi::client::{Outcome, Settings};
use perhop_tcapi::wire::{Direction, FlowId, Request, Reservation, Scope, ServiceClass, Verb};
use perhop_units::{Bytes, Dscp, Duration, Rate};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// A router that has not answered by then is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be done.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Make a reservation
    Request,
    /// Give it another rate or life time
    Modify,
    /// End it
    Release,
}

/// Arguments of `perhop tcapi call`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    perhop tcapi call request --flow 7 --class voice --rate \"80 kbit/s\" --packets \"protocol=udp dst=192.0.2.7 dst-port=5004\"\n  \
    perhop tcapi call modify --flow 7 --rate \"160 kbit/s\"\n  \
    perhop tcapi call release --flow 7\n\n\
    A refusal exits 1 and says what was asked for, what there is, and where. Without --packets a request is of a whole class, an \
    aggregate: it needs --out.")]
pub struct CallArgs {
    /// What is to be done
    #[arg(value_enum)]
    what: What,
    /// The reservation: a number of the client's choice
    #[arg(long, value_name = "N")]
    flow: u64,
    /// Class whose service it gets
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Rate at IP length
    #[arg(long)]
    rate: Option<Rate>,
    /// Size of the token bucket; otherwise two packets or 20 ms of the rate
    #[arg(long, value_name = "SIZE", requires = "rate")]
    burst: Option<Bytes>,
    /// Rate that it never exceeds, also within the burst
    #[arg(long, value_name = "RATE", requires = "rate")]
    peak: Option<Rate>,
    /// Code point that its packets get
    #[arg(long, requires = "class")]
    dscp: Option<Dscp>,
    /// Its packets: src=, dst=, protocol=, src-port=, dst-port=, tos=; may be repeated, then any of them
    #[arg(long, value_name = "KEY=VALUE…")]
    packets: Vec<Packets>,
    /// Port by which they come in
    #[arg(long = "in", value_name = "PORT")]
    ingress: Option<String>,
    /// Port by which they leave
    #[arg(long = "out", value_name = "PORT")]
    egress: Option<String>,
    /// Also the opposite direction: both or none
    #[arg(long)]
    both: bool,
    /// It ends so long from now; modify says it again. Without, it does not end by itself
    #[arg(long = "for", value_name = "TIME")]
    lifetime: Option<Duration>,
    /// The client that asks; otherwise that of the user
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// The client's instance: one with a lower number than another before it is refused
    #[arg(long, value_name = "N", default_value_t = 1)]
    epoch: u64,
    /// The router; may be left out when only one runs here
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// Socket of the traffic-control API, where it is not a router's
    #[arg(long, value_name = "PATH", conflicts_with = "router")]
    socket: Option<PathBuf>,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

/// Sends it and prints the answer.
///
/// # Errors
/// The router does not take such messages, or does not answer.
pub fn run(args: &CallArgs) -> Result<Verdict, AppError> {
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => tcapi_path(Remote::find(args.router.as_deref())?.path()),
    };
    let broken = |source| AppError::NoTcapi { path: path.clone(), source };
    // Numbers of other calls are of other times.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let settings = Settings {
        client: args.client.clone(),
        first_txn: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX / 2),
        restore: false,
        patience: PATIENCE,
        ..Settings::of_epoch(args.epoch)
    };
    let mut client = TcapiClient::open(&path, settings).map_err(broken)?;
    let verb = match args.what {
        What::Request => Verb::Request,
        What::Modify => Verb::Modify,
        What::Release => Verb::Release,
    };
    match client.call(verb, request(args)) {
        Outcome::Unknown => Err(broken(io::ErrorKind::TimedOut.into())),
        known => told(args, &known),
    }
}

fn request(args: &CallArgs) -> Request {
    let class =
        args.class.as_ref().map(|name| ServiceClass { number: 0, dscp: args.dscp, name: name.clone() });
    let reservation = args.rate.map(|rate| Reservation {
        rate_bps: rate.0,
        burst_bytes: args.burst.map_or(0, |burst| u32::try_from(burst.0).unwrap_or(u32::MAX)),
        peak_bps: args.peak.map_or(0, |peak| peak.0),
        max_packet: 0,
        min_policed: 0,
    });
    let port = |name: &Option<String>| name.clone().unwrap_or_default();
    let scope = (args.ingress.is_some() || args.egress.is_some())
        .then(|| Scope { ingress: port(&args.ingress), egress: port(&args.egress) });
    let seconds = |time: Duration| u32::try_from(time.0.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
    Request {
        class,
        reservation,
        filter: args.packets.iter().map(|packets| packets.0).collect(),
        scope,
        lifetime_s: args.lifetime.map(seconds),
        direction: if args.both { Direction::Both } else { Direction::One },
        ..Request::of(FlowId::Number(args.flow))
    }
}

fn told(args: &CallArgs, outcome: &Outcome) -> Result<Verdict, AppError> {
    let (timing, refusal, epoch) = match outcome {
        Outcome::Done { timing, router_epoch } => (*timing, None, Some(*router_epoch)),
        Outcome::Refused(refusal) => (None, Some(refusal), None),
        Outcome::Unknown => (None, None, None),
    };
    let mut out = Output::new();
    if args.json {
        let timing = timing.map(|t| json!({ "received_ns": t.received_ns, "committed_ns": t.committed_ns }));
        let refused = refusal.map(|r| {
            json!({
                "code": r.code, "message": r.message, "link": r.link, "class": r.class,
                "asked_bps": r.asked_bps, "free_bps": r.free_bps, "retry_after_ms": r.retry_after_ms,
            })
        });
        out.json(&json!({
            "done": refusal.is_none(), "refused": refused, "timing": timing, "router_epoch": epoch,
        }))?;
    } else if let Some(timing) = timing {
        let took = timing.committed_ns.saturating_sub(timing.received_ns);
        out.line(format_args!("in force, {} µs after the router had it", took / 1_000))?;
    } else if let Some(refusal) = refusal {
        progress(format_args!("refused: {}: {}", refusal.code, refusal.message));
    }
    out.flush()?;
    Ok(if refusal.is_some() { Verdict::Failed } else { Verdict::Done })
}
