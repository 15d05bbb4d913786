//! `perhop router apply FILE.json`.

use super::file::read_text;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use crate::remote::Remote;
use clap::Args;
use perhop_model::{Outcome, Reply, Transaction};
use std::io::Read;
use std::path::PathBuf;

/// Arguments of `perhop router apply`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop router apply change.json --router edge\n\n\
                        The reply is printed as JSON; a rejected transaction exits 1.")]
pub struct ApplyArgs {
    /// A transaction as JSON; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The router; may be left out when only one runs here
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// The reply on one line
    #[arg(long)]
    json: bool,
}

/// Sends it and prints the reply.
///
/// # Errors
/// The file is no transaction, or the router is not there.
pub fn run(args: &ApplyArgs) -> Result<Verdict, AppError> {
    let text = if args.file.as_os_str() == "-" {
        let mut text = String::new();
        let failed = |source| AppError::Read { path: "standard input".into(), source };
        std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
        text
    } else {
        read_text(&args.file)?
    };
    let transaction: Transaction = serde_json::from_str(&text)
        .map_err(|source| AppError::BadJson { path: args.file.clone(), source })?;
    let answer = Remote::find(args.router.as_deref())?.post("/v1/transactions", &transaction)?;
    // A rejection is a reply too, whatever its status says.
    let reply: Reply = match serde_json::from_value(answer.body.clone()) {
        Ok(reply) => reply,
        Err(_) if !answer.ok => return Err(AppError::Refused(answer.complaint())),
        Err(error) => return Err(AppError::BadAnswer(error)),
    };
    let mut out = Output::new();
    if args.json {
        out.json(&reply)?;
    } else {
        out.line(format_args!("{:#}", answer.body))?;
    }
    out.flush()?;
    Ok(Verdict::failed_if(reply.outcome == Outcome::Rejected))
}
