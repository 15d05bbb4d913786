//! `perhop policy …`: the policy of a domain, in editions.

mod edit;
mod files;
mod see;
mod status;
mod words;

pub use status::StatusArgs;

use crate::domain::{ControllerArgs, RemoteDomain};
use crate::error::{AppError, Verdict};
use crate::file_check;
use crate::output::progress;
use crate::remote::Answer;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Subcommands of `perhop policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check files of policies: every error with its place
    Check(CheckArgs),
    /// Print the policy in force, or that of an edition
    Show(see::ShowArgs),
    /// What would differ, or what differs between two editions
    Diff(see::DiffArgs),
    /// Put the policy of a file in force: all of it, or nothing and why not
    Apply(edit::ApplyArgs),
    /// Keep an edition that returns by itself otherwise
    Confirm(edit::ConfirmArgs),
    /// Put the policy of an earlier edition in force again
    Rollback(edit::RollbackArgs),
    /// List editions: who made them, when and why
    History(see::HistoryArgs),
    /// Write a policy to a file, or a directory
    Export(files::ExportArgs),
    /// Take subscribers, or a policy in another form, and put it in force
    Import(files::ImportArgs),
}

impl PolicyCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Check(args) => check(&args),
            Self::Show(args) => see::show(&args),
            Self::Diff(args) => see::diff(&args),
            Self::Apply(args) => edit::apply(&args),
            Self::Confirm(args) => edit::confirm(&args),
            Self::Rollback(args) => edit::rollback(&args),
            Self::History(args) => see::history(&args),
            Self::Export(args) => files::export(&args),
            Self::Import(args) => files::import(&args),
        }
    }
}

/// Tells of `perhop status`.
///
/// # Errors
/// See [`AppError`].
pub fn status(args: &StatusArgs) -> Result<Verdict, AppError> {
    status::run(args)
}

/// Arguments of `perhop policy check`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop policy check examples/domain/policy.toml\n\n\
                        Files that end in .json are read as JSON, others as TOML. No controller is needed.")]
pub struct CheckArgs {
    /// Files of policies
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

fn check(args: &CheckArgs) -> Result<Verdict, AppError> {
    file_check::check(&args.files, |path| {
        let policy = files::checked(path)?;
        let (routers, classes, subscribers) =
            (policy.routers.len(), policy.classes.len(), policy.subscribers.len());
        Ok(format!("good, {routers} routers, {classes} classes, {subscribers} subscribers"))
    })
}

/// Whether something was done: its answer, or everything that keeps it from being done.
fn done(answer: Answer) -> Result<Option<serde_json::Value>, AppError> {
    let messages = answer.messages();
    messages.iter().for_each(progress);
    if answer.ok {
        return answer.accepted().map(Some);
    }
    if !messages.is_empty() {
        let why = answer.body["refusal"]["message"].as_str().unwrap_or("the policy is refused");
        return Err(AppError::Refused(why.to_owned()));
    }
    match crate::reserve::refusal(&answer.body) {
        Some(why) => progress(format_args!("refused: {why}")),
        None => return Err(AppError::Refused(answer.complaint())),
    }
    Ok(None)
}

fn find(controller: &ControllerArgs) -> Result<RemoteDomain, AppError> {
    RemoteDomain::find(controller)
}
