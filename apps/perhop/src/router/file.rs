//! Router files: reading, and what the router itself says about their objects.

use crate::error::AppError;
use crate::output::progress;
use perhop_config::Diagnostics;
use perhop_graph::control::{Control, Input, Limits, Output};
use perhop_graph::router::{EdgePort, RouterPlanner, registry};
use perhop_graph::routerfile::RouterFile;
use perhop_model::{Credentials, ErrorItem, Mode, Op, Owner, Spec, Transaction, TxnId};
use perhop_units::Instant;
use std::path::Path;

/// The text of a file.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, AppError> {
    let bytes = std::fs::read(path).map_err(|source| AppError::Read { path: path.to_owned(), source })?;
    String::from_utf8(bytes)
        .map_err(|e| AppError::NotText { path: path.to_owned(), at: e.utf8_error().valid_up_to() })
}

/// A router file with everything that is wrong with it: in its text, and as the router's own checks find it. The file
/// is there if nothing is an error.
///
/// # Errors
/// It cannot be read.
pub fn examine(path: &Path) -> Result<(Option<RouterFile>, Diagnostics), AppError> {
    let (file, diagnostics) = RouterFile::read(&path.display().to_string(), &read_text(path)?);
    let Some(file) = file else { return Ok((None, diagnostics)) };
    let refused = refusals(&file);
    if refused.is_empty() {
        return Ok((Some(file), diagnostics));
    }
    for more in file.diagnose(&refused).sorted() {
        diagnostics.push(more);
    }
    Ok((None, diagnostics))
}

/// A router file without errors; errors and warnings go to standard error.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn load(path: &Path) -> Result<RouterFile, AppError> {
    let (file, diagnostics) = examine(path)?;
    if !diagnostics.is_empty() {
        progress(diagnostics.to_string().trim_end());
    }
    file.ok_or_else(|| AppError::BadFile { path: path.to_owned(), errors: diagnostics.errors() })
}

/// The ports of a file, in the order in which the router numbers them.
pub fn ports(file: &RouterFile) -> Vec<EdgePort> {
    let port = |o: &perhop_model::Object| match Spec::from_value(o.kind, o.spec.clone()) {
        Ok(Spec::Port(spec)) => Some(EdgePort { name: o.name.to_string(), spec }),
        _ => None,
    };
    file.objects.iter().filter_map(port).collect()
}

/// The transaction that makes the file's objects those of the owner `file`.
pub fn transaction(file: &RouterFile, mode: Mode) -> Transaction {
    Transaction {
        txn_id: TxnId([0; 16]),
        owner: Owner::File,
        fence: 0,
        mode,
        if_revision: None,
        confirm_within_ms: None,
        note: None,
        force: false,
        ops: vec![Op::ReplaceOwned { kinds: RouterFile::KINDS.to_vec(), objects: file.objects.clone() }],
    }
}

/// What a router that starts with this file would refuse.
fn refusals(file: &RouterFile) -> Vec<ErrorItem> {
    let planner = RouterPlanner::new(ports(file), registry());
    let mut control = Control::new(1, planner, Limits::default());
    let transaction = Box::new(transaction(file, Mode::Check));
    let input = Input::Request { request: 0, who: Credentials::ADMIN, transaction };
    control.handle_input(Instant::ZERO, input);
    while let Some(output) = control.poll_output() {
        if let Output::Reply { reply, .. } = output {
            return reply.errors.clone();
        }
    }
    Vec::new()
}
