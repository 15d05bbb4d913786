//! `perhop router restore FILE`.

use super::file::load;
use super::run::router_name;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use crate::sockets::{check_name, check_state_file};
use clap::Args;
use perhop_engine::{restore, state_path};
use perhop_serve::{ClaimedPath, SocketError, check, claim_at, runtime_directories};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `perhop router restore`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop router restore --name edge\n\n\
                        After a crash this puts back what the router had changed on interfaces.")]
pub struct RestoreArgs {
    /// The router file of the router that crashed
    #[arg(value_name = "FILE", required_unless_present = "name", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Its name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Puts the interfaces back.
///
/// # Errors
/// The router runs, or the kernel refuses.
pub fn run(args: &RestoreArgs) -> Result<Verdict, AppError> {
    let name = match (&args.name, &args.file) {
        (Some(name), _) => check_name(name)?.to_owned(),
        (None, Some(path)) => router_name(None, &load(path)?, path)?,
        (None, None) => return Err(AppError::NoRouter),
    };
    let mut out = Output::new();
    let Some((claimed, state)) = left_over(&name)? else {
        if args.json {
            out.json(&json!({ "router": name, "devices": [], "gone": [], "namespace_gone": false }))?;
        } else {
            out.line(format_args!("nothing to put back: router \"{name}\" left nothing here"))?;
        }
        out.flush()?;
        return Ok(Verdict::Done);
    };
    let done = restore(&state)?;
    drop(claimed);
    if args.json {
        out.json(&json!({
            "router": done.router, "devices": done.devices, "gone": done.gone, "namespace_gone": done.namespace_gone
        }))?;
    } else if done.namespace_gone {
        out.line(format_args!(
            "{}: its network namespace is gone, nothing is left to put back",
            done.router
        ))?;
    } else {
        for (names, what) in [(&done.devices, "put back"), (&done.gone, "gone, nothing to put back")] {
            if !names.is_empty() {
                out.line(format_args!("{}: {} {what}", done.router, names.join(", ")))?;
            }
        }
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// The state file that a crashed router left, with the claim on its name: nobody starts it meanwhile. Sockets and locks
/// that it left are removed when the claim ends, also where there is no state file.
fn left_over(name: &str) -> Result<Option<(ClaimedPath, PathBuf)>, AppError> {
    for directory in runtime_directories() {
        let (socket, state) = (directory.join(format!("{name}.sock")), state_path(&directory, name));
        let lock = socket.with_extension("lock");
        if ![&socket, &lock, &state].iter().any(|p| p.symlink_metadata().is_ok()) {
            continue;
        }
        check(&directory).map_err(SocketError::from)?;
        let claimed = claim_at(&socket)?;
        check_state_file(&directory, name)?;
        if state.exists() {
            return Ok(Some((claimed, state)));
        }
    }
    Ok(None)
}
