//! `perhop router apply FILE.json`.

use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Remote;
use crate::text_file::read_text;
use clap::Args;
use perhop_model::{Outcome, Owner, Reply, Transaction};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;

/// Bytes of a transaction that are read: as much as a router can be told to take.
const MOST: usize = 1 << 30;

/// Arguments of `perhop router apply`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop router apply change.json --router edge\n\n\
                        The reply is printed as JSON; a rejected transaction exits 1. A transaction without an \
                        owner is of owner cli, without a fence of fence 0. Owner file is the router's own file: it \
                        takes fence 0 only, and what is changed in its name holds until the next reload.")]
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
        std::io::stdin().lock().take(MOST as u64).read_to_string(&mut text).map_err(failed)?;
        text
    } else {
        read_text(&args.file, MOST)?
    };
    let transaction = parse(&text).map_err(|source| AppError::BadJson { path: args.file.clone(), source })?;
    let answer = Remote::find(args.router.as_deref())?.post("/v1/transactions", &transaction)?;
    // A rejection is a reply too, whatever its status says.
    let reply: Reply = match serde_json::from_value(answer.body.clone()) {
        Ok(reply) => reply,
        Err(_) if !answer.ok => return Err(AppError::Refused(answer.complaint())),
        Err(error) => return Err(AppError::BadAnswer(error)),
    };
    let mut out = Output::new();
    if args.json {
        // As it came: a newer router may say more than this program knows.
        out.json(&answer.body)?;
    } else {
        out.line(format_args!("{:#}", answer.body))?;
    }
    out.flush()?;
    for warning in answer.warnings() {
        progress(format_args!("warning: {warning}"));
    }
    Ok(Verdict::failed_if(reply.outcome == Outcome::Rejected))
}

/// A transaction; owner and fence may be left out.
fn parse(text: &str) -> Result<Transaction, serde_json::Error> {
    let mut value: Value = serde_json::from_str(text)?;
    let Some(fields) =
        value.as_object_mut().filter(|f| !(f.contains_key("owner") && f.contains_key("fence")))
    else {
        // Read from the text, so that an error says where it is.
        return serde_json::from_str(text);
    };
    fields.entry("owner").or_insert_with(|| Owner::Cli.to_string().into());
    fields.entry("fence").or_insert_with(|| 0.into());
    serde_json::from_value(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_say_for_whom_speaks_for_the_command_line() {
        let id = "00000000000000000000000000000001";
        let short = parse(&format!(r#"{{"txn_id":"{id}","mode":"check","ops":[]}}"#)).expect("complete");
        assert_eq!((short.owner, short.fence), (Owner::Cli, 0));
        let text = format!(r#"{{"txn_id":"{id}","owner":"api:x","fence":3,"mode":"check","ops":[]}}"#);
        let long = parse(&text).expect("complete");
        assert_eq!((long.owner.to_string().as_str(), long.fence), ("api:x", 3));
        let wrong = parse(&text.replace("check", "chekc")).expect_err("no such mode");
        assert!(wrong.line() == 1 && wrong.column() > 0);
    }
}
