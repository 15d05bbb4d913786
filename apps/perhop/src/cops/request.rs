//! `perhop cops request`: one reservation by COPS-DRA, for trials.

use crate::controller::ControllerError;
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::tcapi::Packets;
use clap::Args;
use perhop_cops::dra::{self, DEFAULT_CLIENT_TYPE, Tag, Told};
use perhop_cops::pep::{Client, Config, Failure, Security};
use perhop_cops::wire::{Close, Decision, ErrorCode, Handle, PepId, Reason, ReasonCode};
use perhop_io::clock;
use perhop_serve::Identity;
use perhop_serve::cops::{ClientTls, CopsClient, Notice};
use perhop_tcapi::wire::{Direction, FlowId, Refusal, Request, Reservation, Scope, ServiceClass};
use perhop_units::{Dscp, Duration, Rate};
use serde_json::json;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Longest time until a decision is there.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a reservation is known without a connection.
const KEEP: Duration = Duration::from_secs(600);
/// Between two tries to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Arguments of `perhop cops request`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    perhop cops request --to 127.0.0.1:3288 --client phones --class voice --rate \"80 kbit/s\" --from west --to-node east --hold\n  \
    perhop cops request --to controller.example:3288 --client phones --class voice --rate \"80 kbit/s\" --from west --to-node east \\\n    \
    --authority pki/authority.pem --certificate pki/phones.pem --key-file pki/phones.key\n\n\
    With --hold it is held until interrupted, also while the controller is away for a while; each line on standard input is another rate for \
    it. Without, it is given back at once. A refusal exits 1 and says what was asked for, what there is, and where.")]
pub struct RequestArgs {
    /// Controllers' doors for COPS, the preferred one first
    #[arg(long, value_name = "HOST:PORT", required = true)]
    to: Vec<String>,
    /// The client of the domain that asks
    #[arg(long, value_name = "NAME")]
    client: String,
    /// Class whose service it gets
    #[arg(long, value_name = "CLASS")]
    class: String,
    /// Rate at IP length
    #[arg(long)]
    rate: Rate,
    /// Node where traffic enters
    #[arg(long, value_name = "NODE")]
    from: String,
    /// Node where it leaves
    #[arg(long, value_name = "NODE")]
    to_node: String,
    /// Also the opposite direction: both or none
    #[arg(long)]
    both: bool,
    /// Its packets where they enter: src=, dst=, protocol=, src-port=, dst-port=; may be repeated, then any of them
    #[arg(long, value_name = "KEY=VALUE…")]
    packets: Vec<Packets>,
    /// Code point that its packets get
    #[arg(long)]
    dscp: Option<Dscp>,
    /// It ends so long after the client is gone; otherwise as the domain says
    #[arg(long = "for", value_name = "TIME")]
    lifetime: Option<Duration>,
    /// Hold it until interrupted
    #[arg(long)]
    hold: bool,
    /// Number of the request among the client's own
    #[arg(long, value_name = "N", default_value_t = 1)]
    handle: u64,
    /// Certificate of the authority that the controller is believed by; PEM. With it the connection is secured
    #[arg(long, value_name = "FILE", requires = "certificate")]
    authority: Option<PathBuf>,
    /// The client's own certificate; PEM
    #[arg(long, value_name = "FILE", requires_all = ["authority", "key_file"])]
    certificate: Option<PathBuf>,
    /// The key of that certificate; PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key_file: Option<PathBuf>,
    /// What happens as JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl RequestArgs {
    fn wanted(&self, rate: Rate) -> Request {
        let class = ServiceClass { number: 0, dscp: self.dscp, name: self.class.clone() };
        let (burst_bytes, peak_bps, max_packet, min_policed) = (0, 0, 0, 0);
        let seconds = |time: Duration| u32::try_from(time.0.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
        Request {
            class: Some(class),
            reservation: Some(Reservation {
                rate_bps: rate.0,
                burst_bytes,
                peak_bps,
                max_packet,
                min_policed,
            }),
            filter: self.packets.iter().map(|packets| packets.0).collect(),
            scope: Some(Scope { ingress: self.from.clone(), egress: self.to_node.clone() }),
            lifetime_s: self.lifetime.map(seconds),
            direction: if self.both { Direction::Both } else { Direction::One },
            ..Request::of(FlowId::Number(self.handle))
        }
    }

    fn no_server(&self, why: impl Into<String>) -> AppError {
        AppError::NoCops { server: self.to.join(", "), why: why.into() }
    }

    fn servers(&self) -> Result<Vec<SocketAddr>, AppError> {
        let address = |to: &String| {
            let found = to.to_socket_addrs().map_err(|why| self.no_server(format!("{to}: {why}")))?;
            found.into_iter().next().ok_or_else(|| self.no_server(format!("{to} has no address")))
        };
        self.to.iter().map(address).collect()
    }

    fn tls(&self) -> Result<Option<ClientTls>, AppError> {
        let (Some(authority), Some(certificate), Some(key)) =
            (&self.authority, &self.certificate, &self.key_file)
        else {
            return Ok(None);
        };
        let identity = Identity { certificate: certificate.clone(), key: key.clone() };
        // All doors are known by the name of the first.
        let host = self.to.first().and_then(|to| to.rsplit_once(':')).map_or("", |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Some(ClientTls::new(&identity, authority, host).map_err(ControllerError::from)?))
    }
}

/// Asks, and holds what was granted.
///
/// # Errors
/// There is no such controller, or it does not take the client.
pub fn run(args: &RequestArgs) -> Result<Verdict, AppError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)?;
    let id = PepId::new(&args.client)
        .ok_or_else(|| AppError::Refused("a client's name has 1 to 255 characters of ASCII".into()))?;
    let config = Config {
        id,
        servers: args.servers()?,
        clients: vec![Client { client_type: DEFAULT_CLIENT_TYPE, client_si: None }],
        security: Security::None,
        patience: PATIENCE,
        keep: KEEP,
        retry: RETRY,
        max_requests: 16,
    };
    let tls = args.tls()?;
    runtime.block_on(async {
        let (client, notices) = CopsClient::start(config, tls, clock::wall().0);
        Session { args, client, notices, txn: clock::wall().0, out: Output::new(), is_granted: false }
            .run()
            .await
    })
}

struct Session<'a> {
    args: &'a RequestArgs,
    client: CopsClient,
    notices: mpsc::Receiver<Notice>,
    txn: u64,
    out: Output,
    is_granted: bool,
}

impl Session<'_> {
    async fn run(mut self) -> Result<Verdict, AppError> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(AppError::Runtime)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(AppError::Runtime)?;
        let mut lines = lines();
        let mut verdict = Verdict::Done;
        self.ask(self.args.rate).await?;
        loop {
            tokio::select! {
                notice = self.notices.recv() => {
                    let Some(notice) = notice else { break };
                    if let Some(end) = self.notice(notice)? {
                        verdict = end;
                        break;
                    }
                    if self.is_granted && !self.args.hold {
                        break;
                    }
                }
                Some(line) = lines.recv() => match line.trim().parse() {
                    Ok(rate) => self.ask(rate).await?,
                    Err(why) => progress(format_args!("{line:?} is no rate: {why}")),
                },
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
            }
        }
        let reason = Reason::of(ReasonCode::TEAR);
        self.client.drop_request(DEFAULT_CLIENT_TYPE, self.args.handle.into(), reason).await;
        self.client.end().await;
        Ok(verdict)
    }

    async fn ask(&mut self, rate: Rate) -> Result<(), AppError> {
        self.txn += 1;
        let (tag, handle) = (Tag { txn: self.txn, epoch: 1 }, Handle::from(self.args.handle));
        let request = dra::ask(handle, tag, &self.args.wanted(rate))
            .map_err(|why| AppError::Refused(why.to_string()))?;
        self.client.ask(DEFAULT_CLIENT_TYPE, request).await;
        Ok(())
    }

    /// What a notice ends with, if it ends anything.
    fn notice(&mut self, notice: Notice) -> Result<Option<Verdict>, AppError> {
        match notice {
            Notice::Opened { server, .. } => progress(format_args!("open at {server}")),
            Notice::Lost => progress("the connection is lost: trying again"),
            Notice::Closed { close, .. } => return self.closed(close),
            Notice::Decided { decisions, .. } => return self.decided(&decisions),
            Notice::Failed { why: Failure::Refused(error), .. } => {
                progress(format_args!("refused: {}", words(error.code, error.sub_code)));
                return Ok(Some(Verdict::Failed));
            }
            Notice::Failed { why, .. } => return Err(self.args.no_server(why.to_string())),
            Notice::AccountingDue { .. } => {}
        }
        Ok(None)
    }

    fn closed(&self, close: Close) -> Result<Option<Verdict>, AppError> {
        let Close { error, redirect } = close;
        let why = words(error.code, error.sub_code);
        match (error.code, redirect) {
            (_, Some(other)) => progress(format_args!("closed: {why}; going to {other}")),
            // Another instance may lead soon.
            (ErrorCode::UNABLE_TO_PROCESS | ErrorCode::SHUTTING_DOWN, None) => {
                progress(format_args!("closed: {why}; trying again"));
            }
            _ => return Err(self.args.no_server(why)),
        }
        Ok(None)
    }

    fn decided(&mut self, decisions: &[Decision]) -> Result<Option<Verdict>, AppError> {
        for decision in decisions {
            match dra::told(decision) {
                Ok(Some((_, Told::Granted(granted)))) => self.granted(&granted)?,
                Ok(Some((_, Told::Refused(refusal)))) => return self.refused(&refusal).map(Some),
                Ok(_) => {}
                Err(why) => return Err(self.args.no_server(why.to_string())),
            }
        }
        Ok(None)
    }

    fn granted(&mut self, granted: &Request) -> Result<(), AppError> {
        self.is_granted = true;
        let rate = granted.reservation.map_or(Rate(0), |amount| Rate(amount.rate_bps));
        let lifetime = Duration::from_secs(granted.lifetime_s.unwrap_or(0).into());
        if self.args.json {
            self.out.json(&json!({ "granted": true, "bps": rate.0, "lifetime_s": granted.lifetime_s }))?;
        } else {
            let RequestArgs { class, from, to_node, .. } = self.args;
            self.out.line(format_args!(
                "reserved: {rate} of class {class} from {from} to {to_node}, {lifetime} after it is not held any more"
            ))?;
        }
        self.out.flush()
    }

    /// What it had before a change that is refused is given back.
    fn refused(&mut self, refusal: &Refusal) -> Result<Verdict, AppError> {
        if self.args.json {
            self.out.json(&json!({ "granted": false, "refusal": {
                "code": refusal.code, "message": refusal.message, "link": refusal.link, "class": refusal.class,
                "asked_bps": refusal.asked_bps, "free_bps": refusal.free_bps,
            } }))?;
            self.out.flush()?;
        } else if refusal.link.is_empty() {
            progress(format_args!("refused: {}: {}", refusal.code, refusal.message));
        } else {
            let Refusal { code, link, class, .. } = refusal;
            let (asked, free) = (Rate(refusal.asked_bps), Rate(refusal.free_bps));
            progress(format_args!("refused: {code}: link {link}, class {class}, {asked} asked, {free} free"));
        }
        Ok(Verdict::Failed)
    }
}

/// Lines of standard input. Their thread ends with the process.
fn lines() -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if tell.blocking_send(line).is_err() {
                return;
            }
        }
    });
    told
}

/// An error of the protocol, with the reason code in it.
fn words(code: ErrorCode, sub_code: u16) -> String {
    match perhop_reason::Code::from_number(sub_code) {
        Some(reason) => format!("{code}: {reason}"),
        None => code.to_string(),
    }
}
