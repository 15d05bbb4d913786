//! Policies in files: TOML, JSON, lines of subscribers, and the directory trees of an earlier system.

use super::edit::{EditionArgs, commit};
use super::see::shown;
use crate::domain::ControllerArgs;
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::text_file::{read_file, read_text};
use clap::{Args, ValueEnum};
use perhop_config::MAX_FILE_BYTES;
use perhop_model::Name;
use perhop_policy::model::{Policy, add_subscribers, subscribers_as_table, to_toml};
use perhop_policy::tree::{MAX_FILES, Tree, from_policy, read_maintenance, to_policy, write_maintenance};
use perhop_policy::validate::{faults, from_toml};
use perhop_serve::controller::PolicyText;
use perhop_units::Rate;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// How the first line of a file says which edition it was made from.
const HEAD: &str = "# edition ";
/// Octets of a leaf of a tree: one value.
const LEAF: usize = 4_096;

/// A form of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// All of it, as `perhop policy show` prints it
    Toml,
    /// All of it, every field written
    Json,
    /// Subscribers alone, a line each: name,sla,prefixes,router,port
    Csv,
    /// What one router has, as a directory tree with a file for each value
    Tree,
}

/// A policy under the line that says which edition it is.
pub fn headed(edition: u64, toml: &str) -> String {
    format!("{HEAD}{edition}\n{toml}")
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

/// The text of a file as a controller takes it, and the edition that its first line names.
///
/// # Errors
/// It cannot be read.
pub fn text(path: &Path) -> Result<(PolicyText, Option<u64>), AppError> {
    let text = read_text(path, MAX_FILE_BYTES)?;
    let file = Some(path.to_string_lossy().into_owned());
    if is_json(path) {
        let wrong = |source| AppError::BadJson { path: path.to_owned(), source };
        let json = serde_json::from_str(&text).map_err(wrong)?;
        return Ok((PolicyText { file, toml: None, json: Some(json) }, None));
    }
    let base = text.lines().next().and_then(|line| line.strip_prefix(HEAD)?.trim().parse().ok());
    Ok((PolicyText { file, toml: Some(text), json: None }, base))
}

/// The policy of a file, checked here.
///
/// # Errors
/// It cannot be read, or has faults, which are shown.
pub fn checked(path: &Path) -> Result<Policy, AppError> {
    if !is_json(path) {
        return read_file(path, |name, text, _| from_toml(name, text));
    }
    let text = read_text(path, MAX_FILE_BYTES)?;
    let wrong = |source| AppError::BadJson { path: path.to_owned(), source };
    let policy = Policy::from_json(&text).map_err(wrong)?;
    let faults = faults(&policy);
    listed(path, &faults)?;
    Ok(policy)
}

/// Shows what is wrong with a file.
fn listed(path: &Path, wrong: &[impl Display]) -> Result<(), AppError> {
    wrong.iter().for_each(|wrong| progress(format_args!("{}: {wrong}", path.display())));
    match wrong.len() {
        0 => Ok(()),
        errors => Err(AppError::BadFile { path: path.to_owned(), errors }),
    }
}

/// Arguments of `perhop policy export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  perhop policy export --form csv >subscribers.csv\n  \
                        perhop policy export --form tree --router west --out west-db\n\n\
                        A tree says less than a policy: what it cannot say is named.")]
pub struct ExportArgs {
    /// The form
    #[arg(long, value_enum, default_value_t = Form::Toml)]
    form: Form,
    /// The edition; without, the one in force
    #[arg(long, value_name = "N")]
    edition: Option<u64>,
    /// Of a tree: the router
    #[arg(long, value_name = "NAME", required_if_eq("form", "tree"))]
    router: Option<Name>,
    /// A file; of a tree, a directory, which must not be there yet. Without, standard output
    #[arg(long, value_name = "PATH", required_if_eq("form", "tree"))]
    out: Option<PathBuf>,
    #[command(flatten)]
    controller: ControllerArgs,
}

/// Writes a policy.
///
/// # Errors
/// See [`AppError`].
pub fn export(args: &ExportArgs) -> Result<Verdict, AppError> {
    let shown = shown(&args.controller, args.edition, "json")?;
    let policy: Policy =
        serde_json::from_value(shown.policy.unwrap_or_default()).map_err(AppError::BadAnswer)?;
    let text = match (args.form, &args.router, &args.out) {
        (Form::Toml, ..) => headed(shown.edition, &to_toml(&policy)),
        (Form::Json, ..) => policy.to_json(),
        (Form::Csv, ..) => subscribers_as_table(&policy),
        (Form::Tree, Some(router), Some(out)) => {
            let (contents, unsaid) = from_policy(&policy, router);
            for one in &unsaid {
                progress(format_args!("a tree cannot say all of {} \"{}\"", one.section.name(), one.name));
            }
            write_tree(out, &write_maintenance(&contents))?;
            return Ok(Verdict::failed_if(!unsaid.is_empty()));
        }
        // The command line asks for both.
        (Form::Tree, ..) => return Err(AppError::Refused("a tree needs --router and --out".into())),
    };
    match &args.out {
        Some(path) => {
            let failed = |source| AppError::Write { path: path.clone(), source };
            std::fs::write(path, text).map_err(failed)?;
        }
        None => {
            let mut out = Output::new();
            out.text(text)?;
            out.flush()?;
        }
    }
    Ok(Verdict::Done)
}

fn write_tree(folder: &Path, tree: &Tree) -> Result<(), AppError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| AppError::Write { path, source }
    };
    std::fs::create_dir(folder).map_err(failed(folder))?;
    for (name, value) in tree {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        std::fs::write(&path, value).map_err(failed(&path))?;
    }
    Ok(())
}

/// The files of a directory by their paths in it.
fn read_tree(folder: &Path) -> Result<Tree, AppError> {
    let mut tree = Tree::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        let at = folder.join(&inside);
        let failed = |source| AppError::Read { path: at.clone(), source };
        for entry in std::fs::read_dir(&at).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = inside.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(name);
            } else if tree.len() <= MAX_FILES {
                tree.insert(name.to_string_lossy().into_owned(), read_text(&entry.path(), LEAF)?);
            }
        }
    }
    Ok(tree)
}

/// Arguments of `perhop policy import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  perhop policy import subscribers.csv --form csv --reason \"new customers\"\n  \
                        perhop policy import west-db --form tree --router west --port lan=\"100 Mbit/s\" --port wan=\"10 Mbit/s\" --output wan\n\n\
                        TOML and JSON take the place of the whole policy. Subscribers of a table and what a tree has of a router \
                        are added to the policy in force, in the place of what has the same names there."
)]
pub struct ImportArgs {
    /// A file, or a directory
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The form
    #[arg(long, value_enum)]
    form: Form,
    /// Of a tree: the router that it is of
    #[arg(long, value_name = "NAME", required_if_eq("form", "tree"))]
    router: Option<Name>,
    /// Of a tree: a port and its rate; those that the policy has of the router are known
    #[arg(long, value_name = "NAME=RATE", value_parser = port)]
    port: Vec<(Name, Rate)>,
    /// Of a tree: a port that has its classes
    #[arg(long, value_name = "PORT", required_if_eq("form", "tree"))]
    output: Vec<Name>,
    #[command(flatten)]
    edition: EditionArgs,
}

fn port(text: &str) -> Result<(Name, Rate), String> {
    let (name, rate) = text.split_once('=').ok_or("write NAME=RATE, for example lan=\"100 Mbit/s\"")?;
    let name = Name::new(name).map_err(|error| error.to_string())?;
    Ok((name, rate.parse().map_err(|error| format!("{error}"))?))
}

/// Takes what a file has.
///
/// # Errors
/// See [`AppError`].
pub fn import(args: &ImportArgs) -> Result<Verdict, AppError> {
    if matches!(args.form, Form::Toml | Form::Json) {
        let (text, base) = text(&args.path)?;
        return commit(text, base, &args.edition);
    }
    let shown = shown(&args.edition.controller, None, "json")?;
    let mut policy: Policy =
        serde_json::from_value(shown.policy.unwrap_or_default()).map_err(AppError::BadAnswer)?;
    match &args.router {
        Some(router) if args.form == Form::Tree => add_tree(&mut policy, args, router)?,
        _ => {
            let table = read_text(&args.path, MAX_FILE_BYTES)?;
            match add_subscribers(&mut policy, table.as_bytes()) {
                Ok(count) => progress(format_args!("{count} subscribers")),
                Err(wrong) => listed(&args.path, &wrong)?,
            }
        }
    }
    let json = serde_json::to_value(&policy).map_err(AppError::BadAnswer)?;
    let file = Some(args.path.to_string_lossy().into_owned());
    commit(PolicyText { file, toml: None, json: Some(json!(json)) }, Some(shown.edition), &args.edition)
}

fn add_tree(policy: &mut Policy, args: &ImportArgs, router: &Name) -> Result<(), AppError> {
    let contents = match read_maintenance(&read_tree(&args.path)?) {
        Ok(contents) => contents,
        Err(wrong) => return listed(&args.path, &wrong),
    };
    let mut ports: BTreeMap<Name, Rate> =
        policy.routers.get(router).map(|of| of.ports.clone()).unwrap_or_default();
    ports.extend(args.port.iter().cloned());
    let read = to_policy(&contents, router, &ports, &args.output.iter().cloned().collect());
    match read {
        Ok(read) => {
            policy.routers.extend(read.routers);
            policy.classes.extend(read.classes);
            policy.filters.extend(read.filters);
            policy.profiles.extend(read.profiles);
            policy.slas.extend(read.slas);
            policy.subscribers.extend(read.subscribers);
            Ok(())
        }
        Err(wrong) => listed(&args.path, &wrong),
    }
}
