//! `perhop user …`: where subscribers of the policy are.

use crate::domain::{ControllerArgs, RemoteDomain};
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Answer;
use crate::reserve::{encoded, refusal};
use crate::table::Table;
use clap::{Args, Subcommand};
use ipnet::IpNet;
use perhop_io::clock;
use perhop_policy::session::SessionRow;
use perhop_serve::Method;
use perhop_serve::controller::SessionBody;
use perhop_units::{Duration, Rate};
use serde::Deserialize;
use serde_json::json;
use std::net::IpAddr;

/// Sessions that are asked for at once.
const PAGE: usize = 10_000;

/// Subcommands of `perhop user`.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// A subscriber is at a port of a router: it gets what its contract says there
    Login(Box<LoginArgs>),
    /// A subscriber is gone: what it had goes
    Logout(LogoutArgs),
    /// A subscriber that is there is elsewhere: the new place is made first
    Move(MoveArgs),
    /// List sessions
    List(ListArgs),
}

impl UserCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Login(args) => login(&args),
            Self::Logout(args) => logout(&args),
            Self::Move(args) => relocate(&args),
            Self::List(args) => list(&args),
        }
    }
}

/// A place.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// The subscriber
    #[arg(value_name = "SUBSCRIBER")]
    subscriber: String,
    /// The router
    #[arg(long, value_name = "NAME")]
    router: String,
    /// Its port
    #[arg(long, value_name = "NAME")]
    port: String,
    #[command(flatten)]
    controller: ControllerArgs,
}

/// Arguments of `perhop user login`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop user login ann --router west --port lan --address 10.1.0.77\n\n\
                        Whoever logs in elsewhere has moved: nobody is at two places on record.")]
pub struct LoginArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// An address or a prefix, besides those that the policy has; may be repeated
    #[arg(long, value_name = "ADDRESS", value_parser = prefix)]
    address: Vec<IpNet>,
    /// A contract in the place of the subscriber's
    #[arg(long, value_name = "SLA")]
    sla: Option<String>,
    /// What it may send
    #[arg(long, value_name = "RATE")]
    up: Option<Rate>,
    /// What it may receive
    #[arg(long, value_name = "RATE")]
    down: Option<Rate>,
    /// It ends after this
    #[arg(long = "for", value_name = "TIME")]
    lifetime: Option<Duration>,
    /// It ends after so long a silence
    #[arg(long, value_name = "TIME")]
    idle: Option<Duration>,
}

fn prefix(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse()).map_err(|_| "write for example 192.0.2.7 or 192.0.2.0/28".to_owned())
}

fn put(place: &PlaceArgs, body: SessionBody) -> Result<Verdict, AppError> {
    let remote = RemoteDomain::find(&place.controller)?;
    let uri = format!("/v1/policy/sessions/{}", encoded(&place.subscriber));
    let answer = remote.ask(Method::PUT, &uri, Some(&json!(body)))?;
    let PlaceArgs { subscriber, router, port, .. } = place;
    told(answer, &format!("{subscriber} is at {router}/{port}"))
}

fn login(args: &LoginArgs) -> Result<Verdict, AppError> {
    let ms = |time: Option<Duration>| time.map(|time| time.as_nanos().div_ceil(1_000_000));
    let body = SessionBody {
        router: args.place.router.clone(),
        port: args.place.port.clone(),
        prefixes: args.address.clone(),
        id: None,
        sla: args.sla.clone(),
        up_bps: args.up.map(|rate| rate.0),
        down_bps: args.down.map(|rate| rate.0),
        session_timeout_ms: ms(args.lifetime),
        idle_timeout_ms: ms(args.idle),
    };
    put(&args.place, body)
}

/// Arguments of `perhop user move`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop user move ann --router east --port lan\n\n\
                        Addresses of the session come along. What it has at the old place goes when the new router has \
                        reported that it has all, or after half a minute.")]
pub struct MoveArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

fn relocate(args: &MoveArgs) -> Result<Verdict, AppError> {
    let remote = RemoteDomain::find(&args.place.controller)?;
    let uri = format!("/v1/policy/sessions?subscriber={}", encoded(&args.place.subscriber));
    let page: Page = remote.ask(Method::GET, &uri, None)?.accepted()?;
    let Some(row) = page.sessions.into_iter().next() else {
        progress(format_args!("refused: not_found: subscriber {} has no session", args.place.subscriber));
        return Ok(Verdict::Failed);
    };
    let body = SessionBody {
        router: args.place.router.clone(),
        port: args.place.port.clone(),
        prefixes: row.prefixes,
        id: Some(row.id),
        ..SessionBody::default()
    };
    put(&args.place, body)
}

/// Arguments of `perhop user logout`.
#[derive(Debug, Args)]
pub struct LogoutArgs {
    /// The subscriber
    #[arg(value_name = "SUBSCRIBER")]
    subscriber: String,
    #[command(flatten)]
    controller: ControllerArgs,
}

fn logout(args: &LogoutArgs) -> Result<Verdict, AppError> {
    let uri = format!("/v1/policy/sessions/{}", encoded(&args.subscriber));
    let answer = RemoteDomain::find(&args.controller)?.ask(Method::DELETE, &uri, None)?;
    told(answer, &format!("{} is gone", args.subscriber))
}

fn told(answer: Answer, words: &str) -> Result<Verdict, AppError> {
    if !answer.ok {
        let Some(why) = refusal(&answer.body) else { return Err(AppError::Refused(answer.complaint())) };
        progress(format_args!("refused: {why}"));
        return Ok(Verdict::Failed);
    }
    let mut out = Output::new();
    out.line(words)?;
    out.flush()?;
    Ok(Verdict::Done)
}

/// Arguments of `perhop user list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only at this router
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    #[command(flatten)]
    controller: ControllerArgs,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Page {
    sessions: Vec<SessionRow>,
    next: Option<String>,
}

fn list(args: &ListArgs) -> Result<Verdict, AppError> {
    let remote = RemoteDomain::find(&args.controller)?;
    let router = args.router.as_deref().map(|name| format!("&router={}", encoded(name))).unwrap_or_default();
    let (mut out, mut rows) = (Output::new(), Vec::new());
    let mut after = Some(String::new());
    while let Some(behind) = after {
        let uri = format!("/v1/policy/sessions?limit={PAGE}&after={}{router}", encoded(&behind));
        let page: Page = remote.ask(Method::GET, &uri, None)?.accepted()?;
        after = page.next;
        match args.json {
            true => page.sessions.iter().try_for_each(|row| out.json(row))?,
            false => rows.extend(page.sessions),
        }
    }
    if !args.json {
        out.text(table(&rows, clock::wall().0 / 1_000_000))?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

fn table(rows: &[SessionRow], now_ms: u64) -> Table {
    let mut table =
        Table::new(["SUBSCRIBER", "ROUTER", "PORT", "SLA", "ADDRESSES", "MOVES", "SINCE", "LEAVES", "BY"]);
    for row in rows {
        let prefixes: Vec<String> = row.prefixes.iter().map(ToString::to_string).collect();
        let leaves: Vec<String> = row.leaving.iter().map(|old| old.router.to_string()).collect();
        table.row([
            row.subscriber.to_string(),
            row.router.to_string(),
            row.port.to_string(),
            row.sla.to_string(),
            prefixes.join(" "),
            row.moves.to_string(),
            format!("{} s", now_ms.saturating_sub(row.since_ms) / 1_000),
            leaves.join(" "),
            row.source.clone(),
        ]);
    }
    table
}
