//! Putting a policy in force, keeping it, and going back.

use super::words::date;
use super::{done, files, find};
use crate::domain::ControllerArgs;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::Args;
use perhop_io::clock;
use perhop_serve::Method;
use perhop_serve::controller::{CommitBody, PolicyText, RollbackBody};
use perhop_units::Duration;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What every edition has.
#[derive(Debug, Args)]
pub struct EditionArgs {
    /// Why, for those who read the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// It returns by itself unless it is confirmed within this time: 1 s to 7 days
    #[arg(long, value_name = "TIME")]
    confirm_within: Option<Duration>,
    #[command(flatten)]
    pub controller: ControllerArgs,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `perhop policy apply`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: perhop policy apply policy.toml --reason \"more for gold\" --confirm-within 10min\n\n\
                        A file with faults changes nothing: all of them are listed, and the command exits 2. Where the file was \
                        made from another edition than the one in force, which its first line may say (# edition N), it exits 1. \
                        Nothing is tried beforehand."
)]
pub struct ApplyArgs {
    /// The file: JSON if it ends in .json, otherwise TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The edition that it was made from; without, what its first line says, or the one in force
    #[arg(long, value_name = "N")]
    base: Option<u64>,
    #[command(flatten)]
    edition: EditionArgs,
}

/// Puts the policy of a file in force.
///
/// # Errors
/// See [`AppError`].
pub fn apply(args: &ApplyArgs) -> Result<Verdict, AppError> {
    let (text, base) = files::text(&args.file)?;
    commit(text, args.base.or(base), &args.edition)
}

/// Makes an edition of a policy.
///
/// # Errors
/// See [`AppError`].
pub fn commit(policy: PolicyText, base: Option<u64>, edition: &EditionArgs) -> Result<Verdict, AppError> {
    let remote = find(&edition.controller)?;
    let base = match base {
        Some(base) => base,
        None => {
            let rows: Value = remote.ask(Method::GET, "/v1/policy/editions?limit=1", None)?.accepted()?;
            rows["editions"][0]["n"].as_u64().unwrap_or(0)
        }
    };
    let confirm_within_ms = edition.confirm_within.map(|within| within.as_nanos().div_ceil(1_000_000));
    let body = CommitBody {
        candidate: None,
        policy: Some(policy),
        base: Some(base),
        reason: edition.reason.clone(),
        confirm_within_ms,
    };
    let answer = remote.ask(Method::POST, "/v1/policy/editions", Some(&json!(body)))?;
    if edition.json {
        return told(&answer.body, answer.ok, "");
    }
    let Some(made) = done(answer)? else { return Ok(Verdict::Failed) };
    let until = confirm_within_ms.map(|ms| clock::wall().0 / 1_000_000 + ms);
    let until = until.map_or(String::new(), |ms| {
        format!(" until {} unless it is confirmed (perhop policy confirm {})", date(ms), made["edition"])
    });
    told(&made, true, &format!("edition {} is in force{until}", made["edition"]))
}

/// Arguments of `perhop policy confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// The edition; without, whichever waits for it
    #[arg(value_name = "EDITION", default_value_t = 0)]
    edition: u64,
    #[command(flatten)]
    controller: ControllerArgs,
}

/// Keeps what is in force.
///
/// # Errors
/// See [`AppError`].
pub fn confirm(args: &ConfirmArgs) -> Result<Verdict, AppError> {
    let body = json!({ "edition": args.edition });
    let answer = find(&args.controller)?.ask(Method::POST, "/v1/policy/confirm", Some(&body))?;
    let Some(kept) = done(answer)? else { return Ok(Verdict::Failed) };
    told(&kept, true, &format!("edition {} stays in force", kept["edition"]))
}

/// Arguments of `perhop policy rollback`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop policy rollback 4 --reason \"calls broke up\"\n\n\
                        It is an edition of its own, with the policy of the other, octet by octet. Of one that waits to be \
                        confirmed one can go back to the one before it.")]
pub struct RollbackArgs {
    /// The edition whose policy is wanted
    #[arg(value_name = "EDITION")]
    to: u64,
    /// Why, for those who read the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    controller: ControllerArgs,
}

/// Goes back.
///
/// # Errors
/// See [`AppError`].
pub fn rollback(args: &RollbackArgs) -> Result<Verdict, AppError> {
    let body = json!(RollbackBody { to: args.to, reason: args.reason.clone() });
    let answer = find(&args.controller)?.ask(Method::POST, "/v1/policy/rollback", Some(&body))?;
    let Some(made) = done(answer)? else { return Ok(Verdict::Failed) };
    told(
        &made,
        true,
        &format!("edition {} is in force, with the policy of edition {}", made["edition"], args.to),
    )
}

/// Prints one line: words, or without any the answer.
fn told(answer: &Value, ok: bool, words: &str) -> Result<Verdict, AppError> {
    let mut out = Output::new();
    match words {
        "" => out.json(answer)?,
        words => out.line(words)?,
    }
    out.flush()?;
    Ok(Verdict::failed_if(!ok))
}
