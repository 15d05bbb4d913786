//! `perhop status`.

use super::find;
use super::words::{refused, standings};
use crate::domain::ControllerArgs;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::Args;
use perhop_serve::Method;
use perhop_serve::policy::Standing;
use serde::Deserialize;

/// Arguments of `perhop status`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop status --controller example\n\n\
                        TOOK is the time from when the edition was in force to the report that the router has it. It exits 1 \
                        unless every router of the policy has the edition in force and refuses nothing of it.")]
pub struct StatusArgs {
    #[command(flatten)]
    controller: ControllerArgs,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Routers {
    edition: u64,
    routers: Vec<Standing>,
}

/// Prints how routers stand to the edition in force.
///
/// # Errors
/// See [`AppError`].
pub fn run(args: &StatusArgs) -> Result<Verdict, AppError> {
    let Routers { edition, routers } =
        find(&args.controller)?.ask(Method::GET, "/v1/policy/routers", None)?.accepted()?;
    let mut out = Output::new();
    if args.json {
        routers.iter().try_for_each(|row| out.json(row))?;
    } else {
        match edition {
            0 => out.line("there is no policy yet")?,
            edition => out.line(format_args!("edition {edition} of the policy is in force"))?,
        }
        if !routers.is_empty() {
            out.text(standings(&routers))?;
        }
        for line in routers.iter().flat_map(refused) {
            out.line(line)?;
        }
    }
    out.flush()?;
    let is_well = |row: &Standing| {
        row.heard && row.converged && row.report.as_ref().is_some_and(|report| report.quarantined == 0)
    };
    Ok(Verdict::failed_if(!routers.iter().filter(|row| row.wanted).all(is_well)))
}
