//! `perhop reserve …`: bandwidth of a domain.

mod words;

use crate::domain::{ControllerArgs, RemoteDomain};
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Answer;
use crate::sockets::check_name;
use crate::tcapi::Packets as Given;
use clap::{Args, Subcommand};
use perhop_allocate::{Random, SplitMix64};
use perhop_io::clock;
use perhop_serve::controller::{CreateReservation, ReservationPage, ShownReservation};
use perhop_serve::domain::Packets;
use perhop_serve::{Client, Method, Place, decisions_path, socket_path};
use perhop_units::{Dscp, Duration, Rate};
use serde_json::{Value, json};
pub use words::refusal;
use words::{line, table};

/// Reservations that are asked for at once.
const PAGE: usize = 10_000;

/// Subcommands of `perhop reserve`.
#[derive(Debug, Subcommand)]
pub enum ReserveCommand {
    /// Reserve bandwidth between two nodes: it is in force, or refused with the link, what was asked and what is free
    Create(Box<CreateArgs>),
    /// Say whether a reservation would be granted, and why not; nothing is booked
    Why(Box<CreateArgs>),
    /// Give a reservation another rate or life
    Change(ChangeArgs),
    /// Give reservations back
    Release(ReleaseArgs),
    /// List reservations
    List(ListArgs),
}

impl ReserveCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Create(args) => create(&args),
            Self::Why(args) => why(&args),
            Self::Change(args) => change(&args),
            Self::Release(args) => release(&args),
            Self::List(args) => list(&args),
        }
    }
}

/// Who is asked.
#[derive(Debug, Args)]
struct Whom {
    #[command(flatten)]
    controller: ControllerArgs,
    /// The agent beside this router instead of the controller: flows that enter there, within what it has leased
    #[arg(long, value_name = "ROUTER")]
    agent: Option<String>,
}

impl Whom {
    fn find(&self) -> Result<RemoteDomain, AppError> {
        match &self.agent {
            None => RemoteDomain::find(&self.controller),
            Some(router) => {
                let socket = socket_path(check_name(router)?);
                RemoteDomain::of(Client::at(Place::Agent(decisions_path(&socket))))
            }
        }
    }
}

/// A reservation that is wanted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    perhop reserve create --from berlin --to munich --class voice --rate \"80 kbit/s\" --back \"80 kbit/s\" \\\n    \
    --packets \"protocol=udp dst=192.0.2.7 dst-port=5004\" --for 1h\n  \
    perhop reserve why --from berlin --to munich --class voice --rate \"20 Mbit/s\"\n  \
    perhop reserve create --from berlin --to lyon@south --class voice --rate \"80 kbit/s\"\n\n\
    A refusal exits 1. The same request with the same --key is answered with the same reservation.")]
pub struct CreateArgs {
    /// Node where traffic enters
    #[arg(long, value_name = "NODE")]
    from: String,
    /// Node where it leaves; EDGE@DOMAIN for one of another domain
    #[arg(long, value_name = "NODE")]
    to: String,
    /// Class whose service it gets
    #[arg(long, value_name = "CLASS")]
    class: String,
    /// Rate at IP length
    #[arg(long)]
    rate: Rate,
    /// Also the opposite direction, at this rate: both or none
    #[arg(long, value_name = "RATE")]
    back: Option<Rate>,
    /// What it may be shrunk to when a link loses rate; without, not at all
    #[arg(long, value_name = "RATE")]
    floor: Option<Rate>,
    /// How important it is: 0 the least
    #[arg(long, default_value_t = 0)]
    priority: u8,
    /// It ends so long from now unless it is changed; without, as the domain says
    #[arg(long = "for", value_name = "TIME")]
    lifetime: Option<Duration>,
    /// Its packets where they enter: src=, dst=, protocol=, src-port=, dst-port=; may be repeated, then any of them. Without,
    /// they are not told from others of the class
    #[arg(long, value_name = "KEY=VALUE…")]
    packets: Vec<Given>,
    /// Code point that its packets get
    #[arg(long)]
    dscp: Option<Dscp>,
    /// Anything, to find it again
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Key by which a repetition is known; otherwise one that is used once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    whom: Whom,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

impl CreateArgs {
    fn body(&self) -> Result<Value, AppError> {
        let packets = self.packets.iter().map(packets).collect::<Result<Vec<_>, _>>()?;
        Ok(json!(CreateReservation {
            key: self.key.clone().unwrap_or_else(used_once),
            from: self.from.clone(),
            to: self.to.clone(),
            class: self.class.clone(),
            bps: self.rate.0,
            back_bps: self.back.map(|rate| rate.0),
            floor_bps: self.floor.map(|rate| rate.0),
            priority: self.priority,
            lifetime_ms: self.lifetime.map(milliseconds),
            packets,
            dscp: self.dscp,
            note: self.note.clone(),
        }))
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_nanos() / 1_000_000
}

/// A key that nobody else has.
fn used_once() -> String {
    let mut random = SplitMix64::new(clock::wall().0 ^ u64::from(std::process::id()) << 32, 0);
    format!("cli-{:016x}{:016x}", random.bits(), random.bits())
}

fn packets(given: &Given) -> Result<Packets, AppError> {
    perhop_serve::cops::packets(&given.0).ok_or_else(|| {
        AppError::Refused("tos cannot be compared here: a reservation is known by addresses and ports".into())
    })
}

/// Prints a reservation, or why there is none.
fn told(answer: Answer, as_json: bool) -> Result<Verdict, AppError> {
    let mut out = Output::new();
    if as_json {
        out.json(&answer.body)?;
        out.flush()?;
        return Ok(Verdict::failed_if(!answer.ok));
    }
    if !answer.ok {
        let Some(why) = refusal(&answer.body) else { return Err(AppError::Refused(answer.complaint())) };
        progress(format_args!("refused: {why}"));
        return Ok(Verdict::Failed);
    }
    let row: ShownReservation = answer.accepted()?;
    out.line(line(&row))?;
    out.flush()?;
    Ok(Verdict::Done)
}

fn create(args: &CreateArgs) -> Result<Verdict, AppError> {
    let remote = args.whom.find()?;
    told(remote.ask(Method::POST, "/v1/reservations", Some(&args.body()?))?, args.json)
}

fn why(args: &CreateArgs) -> Result<Verdict, AppError> {
    let answer = args.whom.find()?.ask(Method::POST, "/v1/why", Some(&args.body()?))?;
    let ok = answer.ok;
    let body: Value = if ok { answer.accepted()? } else { return told(answer, args.json) };
    let granted = body["granted"] == true;
    let mut out = Output::new();
    if args.json {
        out.json(&body)?;
    } else if let Some(domain) = body["rests_on"].as_str().filter(|_| granted) {
        out.line(format_args!("this domain would grant it; domain {domain} is asked by reserving"))?;
    } else if granted {
        out.line("it would be granted")?;
    } else {
        out.line(format_args!(
            "it would be refused: {}",
            refusal(&body).unwrap_or_else(|| body.to_string())
        ))?;
    }
    out.flush()?;
    Ok(Verdict::failed_if(!granted))
}

/// Another rate or life.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop reserve change 17 --rate \"160 kbit/s\" --for 1h")]
pub struct ChangeArgs {
    /// The reservation
    id: u64,
    /// Its rate
    #[arg(long, required_unless_present_any = ["back", "lifetime"])]
    rate: Option<Rate>,
    /// The rate of its other direction
    #[arg(long, value_name = "RATE")]
    back: Option<Rate>,
    /// It ends so long from now
    #[arg(long = "for", value_name = "TIME")]
    lifetime: Option<Duration>,
    #[command(flatten)]
    whom: Whom,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

fn change(args: &ChangeArgs) -> Result<Verdict, AppError> {
    let body = json!({
        "bps": args.rate.map(|rate| rate.0),
        "back_bps": args.back.map(|rate| rate.0),
        "lifetime_ms": args.lifetime.map(milliseconds),
    });
    let remote = args.whom.find()?;
    told(remote.ask(Method::PATCH, &format!("/v1/reservations/{}", args.id), Some(&body))?, args.json)
}

/// Reservations that are not needed any more.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop reserve release 17 18")]
pub struct ReleaseArgs {
    /// The reservations
    #[arg(required = true, value_name = "ID")]
    ids: Vec<u64>,
    #[command(flatten)]
    whom: Whom,
}

fn release(args: &ReleaseArgs) -> Result<Verdict, AppError> {
    let remote = args.whom.find()?;
    let mut failed = false;
    for id in &args.ids {
        let answer = remote.ask(Method::DELETE, &format!("/v1/reservations/{id}"), None)?;
        if !answer.ok {
            failed = true;
            progress(format_args!("{id}: {}", refusal(&answer.body).unwrap_or_else(|| answer.complaint())));
        }
    }
    Ok(Verdict::failed_if(failed))
}

/// Reservations that there are.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop reserve list --owner phones")]
pub struct ListArgs {
    /// Only this client's
    #[arg(long, value_name = "CLIENT")]
    owner: Option<String>,
    #[command(flatten)]
    whom: Whom,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

fn list(args: &ListArgs) -> Result<Verdict, AppError> {
    let remote = args.whom.find()?;
    let owner = args.owner.as_deref().map(|owner| format!("&owner={}", encoded(owner))).unwrap_or_default();
    let mut after = Some(0);
    let (mut out, mut rows) = (Output::new(), Vec::new());
    while let Some(number) = after {
        let page =
            remote.ask(Method::GET, &format!("/v1/reservations?after={number}&limit={PAGE}{owner}"), None)?;
        if !page.ok {
            return told(page, false);
        }
        let page: ReservationPage = page.accepted()?;
        after = page.next;
        if args.json {
            page.reservations.iter().try_for_each(|row| out.json(row))?;
        } else {
            rows.extend(page.reservations);
        }
    }
    if !args.json {
        out.text(table(&rows, clock::wall().0 / 1_000_000))?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// As a part of an address.
pub fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
