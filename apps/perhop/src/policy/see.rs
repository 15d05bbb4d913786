//! Looking at policies: one, two, and all of them.

use super::words::{difference, editions};
use super::{done, files, find};
use crate::domain::ControllerArgs;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::Args;
use perhop_io::clock;
use perhop_policy::edition::EditionRow;
use perhop_serve::Method;
use perhop_serve::controller::{PolicyDiff, PolicyShown};
use serde::Deserialize;
use std::path::PathBuf;

/// Arguments of `perhop policy show`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop policy show >policy.toml\n\n\
                        The first line says which edition it is: `perhop policy apply` refuses what was made from another \
                        edition than the one in force.")]
pub struct ShowArgs {
    /// The edition; without, the one in force
    #[arg(long, value_name = "N")]
    edition: Option<u64>,
    #[command(flatten)]
    controller: ControllerArgs,
    /// As a JSON object, with who made it, when and why
    #[arg(long)]
    json: bool,
}

/// The policy of an edition, or the one in force.
pub fn shown(controller: &ControllerArgs, edition: Option<u64>, form: &str) -> Result<PolicyShown, AppError> {
    let uri = match edition {
        Some(edition) => format!("/v1/policy/editions/{edition}?form={form}"),
        None => format!("/v1/policy?form={form}"),
    };
    find(controller)?.ask(Method::GET, &uri, None)?.accepted()
}

/// Prints a policy.
///
/// # Errors
/// See [`AppError`].
pub fn show(args: &ShowArgs) -> Result<Verdict, AppError> {
    let mut out = Output::new();
    match args.json {
        true => out.json(&shown(&args.controller, args.edition, "json")?)?,
        false => {
            let shown = shown(&args.controller, args.edition, "toml")?;
            out.text(files::headed(shown.edition, &shown.toml.unwrap_or_default()))?;
        }
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// Arguments of `perhop policy diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  perhop policy diff policy.toml\n  perhop policy diff --from 3 --to 5\n\n\
                        Nothing is changed. What sessions of subscribers have is not among the objects of routers."
)]
pub struct DiffArgs {
    /// A file: what would differ from the policy in force
    #[arg(value_name = "FILE", required_unless_present = "from")]
    file: Option<PathBuf>,
    /// An edition, 0 = none
    #[arg(long, value_name = "N", conflicts_with = "file", requires = "to")]
    from: Option<u64>,
    /// A later one, or an earlier
    #[arg(long, value_name = "N", requires = "from")]
    to: Option<u64>,
    #[command(flatten)]
    controller: ControllerArgs,
    /// As a JSON object
    #[arg(long)]
    json: bool,
}

/// Says what differs.
///
/// # Errors
/// See [`AppError`].
pub fn diff(args: &DiffArgs) -> Result<Verdict, AppError> {
    let remote = find(&args.controller)?;
    let answer = match (&args.file, args.from, args.to) {
        (Some(path), ..) => {
            let (text, _) = files::text(path)?;
            remote.ask(Method::POST, "/v1/policy/diff", Some(&serde_json::json!(text)))?
        }
        (None, from, to) => {
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(0));
            remote.ask(Method::GET, &format!("/v1/policy/diff?from={from}&to={to}"), None)?
        }
    };
    let Some(body) = done(answer)? else { return Ok(Verdict::Failed) };
    let mut out = Output::new();
    match args.json {
        true => out.json(&body)?,
        false => {
            let diff: PolicyDiff = serde_json::from_value(body).map_err(AppError::BadAnswer)?;
            out.text(difference(&diff))?;
        }
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// Arguments of `perhop policy history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    controller: ControllerArgs,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct History {
    editions: Vec<EditionRow>,
}

/// Lists editions, the last first.
///
/// # Errors
/// See [`AppError`].
pub fn history(args: &HistoryArgs) -> Result<Verdict, AppError> {
    let uri = format!("/v1/policy/editions?limit={}", args.limit);
    let History { editions: rows } = find(&args.controller)?.ask(Method::GET, &uri, None)?.accepted()?;
    let mut out = Output::new();
    match args.json {
        true => rows.iter().try_for_each(|row| out.json(row))?,
        false => out.text(editions(&rows, clock::wall().0 / 1_000_000))?,
    }
    out.flush()?;
    Ok(Verdict::Done)
}
