//! `bench cops`: requests of a domain by COPS-DRA over loopback, and the memory of clients that do nothing.
//!
//! The door, the machine and the domain's ledger run on one thread; decisions are kept in memory only, so that no database is
//! measured. A client on another thread sends as many requests as a window has, reads their decisions, and deletes them. Then
//! many clients open a connection each and are silent: what the process is larger by is theirs, buffers of the client's end
//! among it. What the kernel has for their sockets is not counted.

use crate::error::BenchError;
use crate::machine::Watch;
use crate::report::{Metric, Point, Sink, Spread};
use perhop_broker::topology::DomainFile;
use perhop_cops::dra::{self, DEFAULT_CLIENT_TYPE, Tag};
use perhop_cops::wire::{Body, Decided, Frames, Handle, Message, Open, PepId, Reason, ReasonCode};
use perhop_serve::cops::CopsThread;
use perhop_tcapi::wire::{FlowId, Request, Reservation, Scope, ServiceClass};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

/// A door that has not answered by then is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of `bench cops`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Clients that do nothing
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=16_000))]
    clients: u32,
    /// Seconds of requests
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Requests that are sent before their decisions are there
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    window: u64,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Measures. An operation is one request and its decision.
///
/// # Errors
/// There are not enough descriptors.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let mut text = String::from(
        "node = [{ name = \"a\", kind = \"edge\" }, { name = \"b\", kind = \"edge\" }]\n[[link]]\nfrom = \"a\"\nport = \"wan\"\n\
         to = \"b\"\nrate = \"100 Gbit/s\"\nclasses = { voice = \"50 Gbit/s\" }\n",
    );
    for n in 0..=options.clients {
        let _ = write!(text, "[[client]]\nname = \"c{n}\"\nkind = \"cops\"\nrole = \"proxy\"\n");
    }
    let (file, diagnostics) = DomainFile::read("bench.toml", &text);
    let file = file.ok_or_else(|| BenchError::Router(diagnostics.to_string()))?;
    let door =
        CopsThread::start(Arc::new(file.topology)).map_err(|why| BenchError::Router(why.to_string()))?;
    let watch = Watch::start();
    let mut point = Point { bench: "cops", op: "request", ..Point::default() };
    sink.progress(&format!("{} s of requests", options.seconds));
    let mut client = Client::open(door.address(), options.clients)?;
    let rates = client.requests(options)?;
    point.set_ns(&rates.iter().map(|rate| 1e9 / rate).collect::<Vec<_>>());
    point.params.extend([("window", options.window.into()), ("clients", options.clients.into())]);
    point.metrics.insert("requests_per_second", Metric::new(Spread::of(&rates), "1/s"));
    sink.progress(&format!("{} clients that do nothing", options.clients));
    let before = resident()?;
    let idle =
        (0..options.clients).map(|n| Client::open(door.address(), n)).collect::<Result<Vec<_>, _>>()?;
    // What was read is read, and what was made for it given back.
    std::thread::sleep(Duration::from_secs(1));
    let more = resident()?.saturating_sub(before);
    point.metrics.insert("idle_clients", Metric::new(Spread::exactly(more as f64 / 1e6), "MB"));
    let each = more as f64 / f64::from(options.clients);
    point.metrics.insert("idle_client", Metric::new(Spread::exactly(each), "B"));
    drop(idle);
    point.warnings = watch.warnings();
    sink.point(&point)?;
    Ok(())
}

/// Memory of this process, octets.
fn resident() -> Result<u64, BenchError> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.ok_or_else(|| BenchError::Wrong("/proc/self/status has no VmRSS".into()))? * 1_024)
}

struct Client {
    stream: TcpStream,
    frames: Frames,
    next: u64,
}

impl Client {
    fn open(address: SocketAddr, number: u32) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(address).map_err(|source| BenchError::Environment {
            what: format!("client {number}"),
            why: format!("{source}; raise the limit on open files: ulimit -n 65536"),
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, frames: Frames::default(), next: 0 };
        let pep_id = PepId::new(&format!("c{number}")).ok_or_else(|| wrong("a name that is none"))?;
        let open = Open { pep_id, client_si: None, last_pdp: None };
        client.send(&[Body::Open(Box::new(open))])?;
        match client.answer()? {
            Body::Accept(_) => Ok(client),
            other => Err(wrong(&format!("{other:?} accepts nobody"))),
        }
    }

    fn send(&mut self, bodies: &[Body]) -> Result<(), BenchError> {
        let bytes: Vec<u8> = bodies
            .iter()
            .flat_map(|body| Message::new(DEFAULT_CLIENT_TYPE, body.clone()).to_bytes())
            .collect();
        Ok(self.stream.write_all(&bytes)?)
    }

    fn answer(&mut self) -> Result<Body, BenchError> {
        let mut buffer = [0; 16_384];
        loop {
            if let Some(frame) = self.frames.next().map_err(|why| wrong(&why.to_string()))? {
                return frame.message.map(|message| message.body).map_err(|why| wrong(&why.to_string()));
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                length => self.frames.push(&buffer[..length]),
            }
        }
    }

    /// Requests a second, of each second; each is deleted after its decision.
    fn requests(&mut self, options: &Options) -> Result<Vec<f64>, BenchError> {
        let mut rates = Vec::new();
        for _ in 0..options.seconds {
            let start = Clock::now();
            let mut done = 0_u64;
            while start.elapsed() < Duration::from_secs(1) {
                self.window(options.window)?;
                done += options.window;
            }
            rates.push(done as f64 / start.elapsed().as_secs_f64());
        }
        Ok(rates)
    }

    fn window(&mut self, window: u64) -> Result<(), BenchError> {
        let handles = self.next..self.next + window;
        self.next += window;
        let asked = handles.clone().map(|n| {
            let request = dra::ask(n.into(), Tag { txn: n, epoch: 1 }, &wanted(n));
            request.map(|request| Body::Request(Box::new(request))).map_err(|why| wrong(&why.to_string()))
        });
        let asked = asked.collect::<Result<Vec<_>, _>>()?;
        self.send(&asked)?;
        for _ in handles.clone() {
            match self.answer()? {
                Body::Decision { decided: Decided::Decisions(decisions), .. } => {
                    let granted = decisions
                        .first()
                        .is_some_and(|d| matches!(dra::told(d), Ok(Some((_, dra::Told::Granted(_))))));
                    if !granted {
                        return Err(wrong(&format!("{decisions:?} grants nothing")));
                    }
                }
                other => return Err(wrong(&format!("{other:?} decides nothing"))),
            }
        }
        let reason = Reason::of(ReasonCode::TEAR);
        let deleted: Vec<Body> = handles.map(|n| Body::Delete { handle: Handle::from(n), reason }).collect();
        self.send(&deleted)
    }
}

fn wanted(n: u64) -> Request {
    let (rate_bps, burst_bytes, peak_bps, max_packet, min_policed) = (80_000, 0, 0, 0, 0);
    Request {
        class: Some(ServiceClass { number: 0, dscp: None, name: "voice".into() }),
        reservation: Some(Reservation { rate_bps, burst_bytes, peak_bps, max_packet, min_policed }),
        scope: Some(Scope { ingress: "a".into(), egress: "b".into() }),
        ..Request::of(FlowId::Number(n))
    }
}

fn wrong(why: &str) -> BenchError {
    BenchError::Wrong(why.to_owned())
}
