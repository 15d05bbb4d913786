//! `perhop router reload`.

use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Remote;
use clap::Args;
use perhop_model::Reply;
use serde_json::json;

/// Arguments of `perhop router reload`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop router reload --router edge\n\n\
                        A file with errors changes nothing: each is printed with FILE:LINE:COLUMN, and the exit code is \
                        1. What other owners made stays as it is. Exit 2 is for a bad command line, 3 when no router \
                        answers.")]
pub struct ReloadArgs {
    /// The router; may be left out when only one runs here
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// The reply as JSON
    #[arg(long)]
    json: bool,
}

/// Makes a running router read its file again. What it says about the file goes to standard error.
///
/// # Errors
/// The router is not there.
pub fn run(args: &ReloadArgs) -> Result<Verdict, AppError> {
    let answer = Remote::find(args.router.as_deref())?.post("/v1/reload", &json!({}))?;
    let mut out = Output::new();
    if args.json {
        out.json(&answer.body)?;
    }
    if answer.ok {
        let reply: Reply = serde_json::from_value(answer.body.clone()).map_err(AppError::BadAnswer)?;
        if !args.json {
            out.line(format_args!("reloaded: revision {}", reply.revision))?;
        }
        for message in answer.messages() {
            progress(message);
        }
        for warning in answer.warnings() {
            progress(format_args!("warning: {warning}"));
        }
    } else {
        progress(format_args!("perhop: nothing is changed:\n{}", answer.complaint()));
    }
    out.flush()?;
    Ok(Verdict::failed_if(!answer.ok))
}
