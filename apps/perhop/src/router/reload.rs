//! `perhop router reload`.

use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Remote;
use clap::Args;
use perhop_model::{Outcome, Reply};
use serde_json::json;

/// Arguments of `perhop router reload`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop router reload --router edge\n\n\
                        A file with errors changes nothing and exits 1. What other owners made stays as it is.")]
pub struct ReloadArgs {
    /// The router; may be left out when only one runs here
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// The reply as JSON
    #[arg(long)]
    json: bool,
}

/// Makes a running router read its file again.
///
/// # Errors
/// The router is not there.
pub fn run(args: &ReloadArgs) -> Result<Verdict, AppError> {
    let answer = Remote::find(args.router.as_deref())?.post("/v1/reload", &json!({}))?;
    let mut out = Output::new();
    if args.json {
        out.json(&answer.body)?;
    }
    let rejected = if answer.ok {
        let reply: Reply = serde_json::from_value(answer.body.clone()).map_err(AppError::BadAnswer)?;
        if !args.json && reply.outcome != Outcome::Rejected {
            out.line(format_args!("reloaded: revision {}", reply.revision))?;
        }
        reply.outcome == Outcome::Rejected
    } else {
        true
    };
    if rejected {
        progress(format_args!("perhop: nothing is changed:\n{}", answer.complaint()));
    }
    out.flush()?;
    Ok(Verdict::failed_if(rejected))
}
