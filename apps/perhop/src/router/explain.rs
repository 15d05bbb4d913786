//! `perhop router explain FILE --packet DESCRIPTION`.

use super::file::{load_on, ports, transaction};
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Remote;
use clap::Args;
use perhop_elements::route::PortInfo;
use perhop_graph::router::{DescribeError, Described, Explanation, Probe, VirtualRouter};
use perhop_model::{Credentials, Mode};
use perhop_routerfile::RouterFile;
use perhop_routerfile::overrides::LinkRate;
use perhop_wire::MacAddr;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `perhop router explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    perhop router explain edge.toml --packet \"in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=0 len=200\"\n  \
    perhop router explain --router edge --packet \"in=lan tcp [2001:db8::1]:80>[2001:db8::2]:1025 flags=syn\"\n\n\
    A packet is described by in=PORT, a protocol (udp, tcp, icmp or a number) and SOURCE>DESTINATION, and may have\n\
    dscp= len= ttl= vlan= flags= frag= id= df type= code=, and for RTP pt= ssrc= seq= ts= or just rtp.")]
#[command(override_usage = "perhop router explain [OPTIONS] --packet <DESCRIPTION> <FILE>\n       \
    perhop router explain [OPTIONS] --packet <DESCRIPTION> --router <NAME> [FILE]")]
#[group(required = true, multiple = true)]
pub struct ExplainArgs {
    /// The router file to explain with
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Asks this running router instead; FILE then only says where objects are written
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// Rate of the link of a port without a rate, as a scenario gives it: PORT=RATE; may be repeated
    #[arg(long = "rate", value_name = "PORT=RATE", requires = "file")]
    rates: Vec<LinkRate>,
    /// The packet, in words
    #[arg(long, value_name = "DESCRIPTION", required = true, group = "description")]
    packet: String,
    /// One JSON object
    #[arg(long, group = "form")]
    json: bool,
}

/// Buffers of the router that is asked: it forwards nothing.
const BUFFERS: usize = 16;

/// Explains it.
///
/// # Errors
/// The file or the description is bad, or the running router is not there.
pub fn run(args: &ExplainArgs) -> Result<Verdict, AppError> {
    let described = Described::parse(&args.packet).map_err(|errors| refuse(&args.packet, &errors))?;
    let file = args.file.as_deref().map(|file| load_on(file, &args.rates)).transpose()?;
    let answer = match (&args.router, &file, &args.file) {
        (None, Some(file), Some(path)) => from_file(path, file, &described, &args.packet)?,
        _ => from_router(args.router.as_deref(), &args.packet)?,
    };
    let mut out = Output::new();
    match answer {
        Answer::Known(mut explanation) => {
            if let (Some(file), Some(path)) = (&file, &args.file) {
                explanation.place(|key| {
                    let at = file.position(key, "")?;
                    Some(format!("{}:{}:{}", path.display(), at.line, at.column))
                });
            }
            if args.json { out.json(&explanation)? } else { out.text(&explanation)? }
        }
        Answer::Other(value) if args.json => out.json(&value)?,
        Answer::Other(value) => out.line(format_args!("{value:#}"))?,
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// What is known: an explanation, or what a router of another version says.
enum Answer {
    Known(Box<Explanation>),
    Other(Value),
}

/// Starts the file's router in virtual time and asks it.
fn from_file(
    path: &Path,
    file: &RouterFile,
    described: &Described,
    packet: &str,
) -> Result<Answer, AppError> {
    let mut router = VirtualRouter::new(ports(file), BUFFERS, 1).map_err(|e| {
        progress(format_args!("{}: {e}", path.display()));
        AppError::BadFile { path: path.to_owned(), errors: 1 }
    })?;
    let reply = router.submit(Credentials::ADMIN, transaction(file, Mode::Commit));
    let errors = reply.map_or(Vec::new(), |r| r.errors.clone());
    if !errors.is_empty() {
        progress(file.diagnose(&errors).to_string().trim_end());
        return Err(AppError::BadFile { path: path.to_owned(), errors: errors.len() });
    }
    // Addresses are not known from a file; any will do, as the packet is taken as sent to the port.
    let info = |i: usize| PortInfo {
        mac: MacAddr([2, 0, 0, 0, 0, i as u8]),
        mtu: 1500,
        addresses: Vec::new(),
        ..PortInfo::default()
    };
    let change = router.control().planner_mut().port_change((0..ports(file).len()).map(info).collect());
    router.apply_world(change);
    let (control, worker) = router.halves();
    let probe = Probe::new(described.clone(), control).map_err(|e| refuse(packet, &[e]))?.of_file_only();
    let explained = Explanation::new(&probe, &worker.decide(&probe), control);
    Ok(Answer::Known(Box::new(explained)))
}

fn from_router(name: Option<&str>, packet: &str) -> Result<Answer, AppError> {
    let answer = Remote::find(name)?.post("/v1/explain", &json!({ "packet": packet }))?;
    let value: Value = answer.accepted()?;
    Ok(match serde_json::from_value(value.clone()) {
        Ok(explanation) => Answer::Known(Box::new(explanation)),
        Err(_) => Answer::Other(value),
    })
}

/// Shows a description with a mark under each error.
fn refuse(packet: &str, errors: &[DescribeError]) -> AppError {
    let mut text = String::from("the description of the packet is wrong");
    for error in errors {
        let gap = " ".repeat(error.column - 1);
        text.push_str(&format!("\n  {packet}\n  {gap}^ {}", error.message));
        if let Some(hint) = &error.hint {
            text.push_str(&format!("; {hint}"));
        }
    }
    AppError::BadPacket(text)
}
