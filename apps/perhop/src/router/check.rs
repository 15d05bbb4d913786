//! `perhop router check FILE…`.

use super::clients;
use super::file::{all_used, examine, not_here};
use crate::error::{AppError, Verdict};
use crate::output::{Output, complain, progress};
use clap::Args;
use perhop_config::{Diagnostic, FieldValue, quoted_list};
use perhop_engine::Outlook;
use perhop_routerfile::overrides::{LinkRate, Links};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Arguments of `perhop router check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  perhop router check examples/edge.toml\n  \
                        perhop router check scenarios/routers/admitting.toml --rate core=\"10 Mbit/s\"\n\n\
                        Errors exit 2. Warnings exit 0, or 1 with --deny-warnings. An interface that this machine \
                        does not have is noted on standard error and counts for nothing: the file may be for another. Where \
                        all are there, what would keep a router of the file from starting here is noted, and what it would \
                        tell.")]
pub struct CheckArgs {
    /// Router files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Rate of the link of a port without a rate, as a scenario gives it: PORT=RATE; may be repeated
    #[arg(long = "rate", value_name = "PORT=RATE")]
    rates: Vec<LinkRate>,
    /// Warnings are failures
    #[arg(long)]
    deny_warnings: bool,
    /// One JSON object a diagnostic and line; the last line of each file sums up
    #[arg(long)]
    json: bool,
}

/// Checks them all.
///
/// # Errors
/// The first file that has errors or cannot be read, after all are checked.
pub fn run(args: &CheckArgs) -> Result<Verdict, AppError> {
    let mut out = Output::new();
    let links = Links::new(&args.rates);
    let (mut first_error, mut warnings) = (None, 0);
    for path in &args.files {
        let (file, diagnostics) = match examine(path, &[], &links) {
            Ok(examined) => examined,
            Err(error) => {
                if args.json {
                    out.json(&json!({ "file": path, "error": error.to_string() }))?;
                }
                // The first is told at the end, as what ends the program.
                match first_error {
                    None => first_error = Some(error),
                    Some(_) => complain(&error),
                }
                continue;
            }
        };
        let (errors, warned) = (diagnostics.errors(), diagnostics.warnings());
        let missing = file.as_ref().map(not_here).unwrap_or_default();
        let mut outlook = file.as_ref().map(Outlook::of).unwrap_or_default();
        let unknown = file.as_ref().and_then(|f| clients::rules(f).err()).unwrap_or_default();
        outlook.refused.splice(0..0, unknown.iter().map(Diagnostic::to_string));
        if args.json {
            for diagnostic in diagnostics.sorted() {
                out.json(&as_json(&diagnostic))?;
            }
            out.json(&json!({
                "file": path, "errors": errors, "warnings": warned, "not_here": missing,
                "refused_here": outlook.refused, "notes_here": outlook.notes,
            }))?;
        } else {
            out.text(&diagnostics)?;
            out.line(format_args!("{}: {}", path.display(), count(errors, warned)))?;
            if !missing.is_empty() {
                progress(format_args!(
                    "{}: note: this machine has no interface {}; a router with this file would not start here",
                    path.display(),
                    quoted_list(missing.iter().map(String::as_str))
                ));
            }
            for refused in outlook.refused {
                let here = "note: a router with this file would not start here";
                progress(format_args!("{}: {here}: {refused}", path.display()));
            }
            for note in outlook.notes {
                progress(format_args!("{}: note: here {note}", path.display()));
            }
        }
        warnings += warned;
        if errors > 0 {
            first_error.get_or_insert(AppError::BadFile { path: path.clone(), errors });
        }
    }
    out.flush()?;
    match first_error.map_or_else(|| all_used(&links), Err) {
        Err(error) => Err(error),
        Ok(()) => Ok(Verdict::failed_if(args.deny_warnings && warnings > 0)),
    }
}

fn as_json(diagnostic: &Diagnostic) -> Value {
    let field = |(name, value)| {
        let value = match value {
            FieldValue::Text(text) => Value::from(text),
            FieldValue::Number(number) => Value::from(number),
        };
        (str::to_owned(name), value)
    };
    Value::Object(diagnostic.fields().into_iter().map(field).collect::<Map<_, _>>())
}

fn count(errors: usize, warnings: usize) -> String {
    let of = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (errors, warnings) {
        (0, 0) => "good".to_owned(),
        (0, w) => format!("good, {}", of(w, "warning")),
        (e, 0) => of(e, "error"),
        (e, w) => format!("{}, {}", of(e, "error"), of(w, "warning")),
    }
}
